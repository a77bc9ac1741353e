"What pages and run log say about one run, side by side: the checker that every story ends with."

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

BECAME = ("inserted", "updated", "deleted", "unchanged", "folded", "aside", "left_out", "repeated")
WORDS = {"folded into later ones": "folded", "quarantined": "aside", "not applied": "left_out", "left out as repeats": "repeated"}


class Page(HTMLParser):
    "A page as a browser takes it: its texts, where it points to, and what it would fetch."

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.texts, self.points, self.fetches, self.ids, self.inside = path, [], [], [], set(), ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list) -> None:
        given, self.inside = dict(attributes), tag
        self.ids |= {given["id"]} if "id" in given else set()
        self.points += [given["href"]] if tag == "a" else []
        fetched = [
            value
            for name, value in attributes
            if name in ("src", "srcset", "data", "poster", "background", "action") and not value.startswith("data:")
        ]
        self.fetches += fetched + ([tag] if tag in ("script", "link", "iframe", "object", "embed", "base") else [])

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "style":
            self.fetches += re.findall(r"@import|url\(", data)
        elif data.strip():
            self.texts.append(" ".join(data.split()))

    def after(self, text: str) -> str:
        return self.texts[self.texts.index(text) + 1]

    def leads_to(self, link: str) -> bool:
        "Whether a link ends at something that is there."
        return link[1:] in self.ids if link.startswith("#") else (self.path.parent / unquote(link)).is_file() and bool(link)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def _of_words(words: str, files: int, rows: dict[str, int]) -> list[str]:
    "`2 files, 7 rows read: 4 inserted, 3 not applied` beside the numbers of the log."
    found = re.search(r"([\d,]+) files?, ([\d,]+) rows? read: ([^.;]*)", words)
    if not found:
        return []
    told = {WORDS.get(what, what): number(many) for many, what in re.findall(r"([\d,]+) ([a-z ]+?)(?:,|$)", found[3])}
    odd = [] if (number(found[1]), number(found[2])) == (files, rows["read"]) else [f"{found[0]!r} beside {files} files and {rows['read']} rows"]
    return odd + [f"{found[0]!r} beside {rows}"] * (told != {name: rows[name] for name in BECAME if rows.get(name)})


def _of_report(text: str, files: int, rows: dict[str, int], verdict: str) -> list[str]:
    "The paragraph, the balance and the rows before and after of a report."
    odd = []
    for many in re.findall(r"(?:brought up to date with|replaced with|Of) ([\d,]+) files? that DMS", text):
        odd += [f"{many} files beside {files}"] * (number(many) != files)
    for many, what in re.findall(r"([\d,]+) rows? (?:was|were) (added|changed|removed)", text):
        has = rows[{"added": "inserted", "changed": "updated", "removed": "deleted"}[what]]
        odd += [f"{many} {what} beside {has}"] * (number(many) != has)
    for many, of in re.findall(r"([\d,]+) of the ([\d,]+) rows read (?:is|are) not in it", text):
        lacks = rows.get("aside", 0) + rows.get("left_out", 0)
        odd += [f"{many} of {of} are missing beside {lacks} of {rows['read']}"] * ((number(many), number(of)) != (lacks, rows["read"]))
    for before, added, gone, after in re.findall(r"([\d,]+) rows before, ([\d,]+) added, ([\d,]+) removed: ([\d,]+) rows after", text):
        odd += [f"{before} + {added} - {gone} is not {after}"] * (number(before) + number(added) - number(gone) != number(after))
    if "It was brought up to date" in text and (verdict != "ok" or rows.get("aside") or rows.get("left_out")):
        odd.append(f"brought up to date, and {verdict}")
    return odd


def _of_balance(page: Page, rows: dict[str, int]) -> list[str]:
    if "Rows read, and what became of them" not in page.texts:
        return ["no balance of the rows read"] * bool(rows["read"])
    begin, end = page.texts.index("Rows read, and what became of them") + 1, page.texts.index("rows read")
    became = [number(text.replace("−", "-")) for text in page.texts[begin + 1 : end : 2]]
    return [f"the balance {became} is not {rows['read']}"] * (sum(became) != rows["read"] or number(page.texts[end + 1]) != rows["read"])


def contradictions(runs: Path) -> list[str]:
    "Sentences of the reports and of the front page that the run log, or another number of the page, contradicts."
    odd, newest = [], {}
    for line in map(json.loads, (runs / "ledger.jsonl").read_text().splitlines()):
        if line["job"] != "process_table" or not line["html"]:
            continue
        page, rows = Page(runs / line["html"]), line["rows"]
        newest[line["table"]] = page
        text = " ".join(page.texts)
        found = _of_report(text, line["files"], rows, line["verdict"]) if rows else []
        if rows and line["verdict"] in ("ok", "attention"):
            found += _of_words(line["words"], line["files"], rows) + _of_balance(page, rows)
        found += [f"the banner is not {line['verdict']}"] * (line["verdict"] not in page.texts)
        odd += [f"{line['html']}: {one}" for one in found]
    front = Page(runs / "index.html")
    ((all_tables, said),) = re.findall(r"([\d,]+) tables?: ([^.]*)\.", " ".join(front.texts))[:1] or [("0", "")]
    odd += [f"the front page says {all_tables}: {said}"] * (
        sum(number(many) for many in re.findall(r"\d[\d,]*", said.rstrip(","))) != number(all_tables)
    )
    rows = dict(re.findall(r'<tr data-verdict.*?<wbr>([^<]+)<.*?data-name="rows">([^<]*)<', (runs / "index.html").read_text(), re.DOTALL))
    for table, page in newest.items():  # the rows of the table, as its newest report has them; – where the page does not know them
        shown = rows.get(table.rpartition(".")[2], "–")
        if "Rows" in page.texts and shown not in ("–", has := page.after("Rows")):
            odd.append(f"the front page has {shown} rows of {table}, its report {has}")
    return odd
