"""The front page and the pages of tables: all runs, found by a filter in a browser without a network, written as the run log grows. DuckDB reads the run log."""

from __future__ import annotations

import html
import json
import os
import random
import re
import shlex
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from typer.testing import CliRunner

import awkward
from dmscdc.cli.main import app
from dmscdc.landing.files import TableRef, for_shell
from dmscdc.runs import charts
from dmscdc.runs import pages as front_page
from dmscdc.runs.charts import RunRow
from dmscdc.runs.log import RECORD, LoggedRun, RunLog, rebuild
from dmscdc.runs.pages import write_front_page
from dmscdc.runs.report import render, report_html, said_html
from dmscdc.runs.store import FolderRunStore
from dmscdc.service.exploring import sorted_by_click

pytestmark = pytest.mark.proof

HOME = Path(__file__).parents[2]
sys.path.insert(0, str(HOME / "bench"))
from front_page import a_line, a_pass, lines, statuses  # noqa: E402

TABLES, PASSES, ONE = 30, 500, "sampledb.table_007"


def asked(runs: Path, query: str) -> list[tuple]:
    "DuckDB over the run log, which it knows as `run_log`."
    with duckdb.connect() as db:
        texts = ", ".join(f"'{name}': 'varchar'" for name in ("run", "job", "table", "start", "end", "verdict", "words", "html"))
        rows = "'rows': 'struct(read bigint, inserted bigint, updated bigint, deleted bigint)'"
        db.execute(f"create view run_log as select * from read_json('{runs}/ledger.jsonl', format='newline_delimited', columns={{{texts}, {rows}}})")
        return db.execute(query).fetchall()


def a_report(runs: Path, line: dict[str, Any], *cells: Any, **found: Any) -> Path:
    "The notebook of a run, and its page as ours makes it."
    path = runs / line["notebook"]
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = [new_output("display_data", {RECORD: {name: value}}) for name, value in found.items()]
    book = new_notebook(cells=[new_code_cell("", outputs=kept), *cells], metadata={"dmscdc": line, "papermill": {}})
    nbformat.write(book, path)
    page = path.with_suffix(".html")
    page.write_text(report_html(path))
    return page


def written(runs: Path) -> dict[str, tuple[int, int]]:
    "Every file with what changes when it is written."
    return {
        str(path.relative_to(runs)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in runs.rglob("*")
        if path.is_file() and path.name[0] != "."
    }


class Counting(FolderRunStore):
    "A folder that notes what is read of it."

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read: list[str] = []
        self.run_log = 0

    def get(self, name: str) -> bytes:
        self.read.append(name)
        return super().get(name)

    def tail(self, piece: int, offset: int):
        for number, content in super().tail(piece, offset):
            self.run_log += len(content)
            yield number, content


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    "30 tables with 500 runs each; two of the newest runs of one table have their reports."
    home = tmp_path_factory.mktemp("house") / "runs"
    home.mkdir()
    run_log = lines(TABLES, PASSES)
    (home / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in run_log))
    for line in [line for line in run_log if line["table"] == ONE][-2:]:
        a_report(home, line, verdict={"verdict": line["verdict"], "words": line["words"]})
    write_front_page(home, statuses(TABLES))
    return home


@pytest.fixture
def shown(browser):
    "shown(path): the page in a context without a network; whatever it asks for is noted, and must be a file."
    requests, errors, contexts = [], [], []

    def show(path: Path, **how: Any):
        context = browser.new_context(offline=True, **how)
        contexts.append(context)
        context.on("request", lambda one: requests.append(one.url))
        page = context.new_page()
        page.on("console", lambda one: errors.append(one.text))
        page.on("pageerror", lambda one: errors.append(str(one)))
        page.goto(path.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert requests and all(url.startswith("file://") for url in requests), requests
    assert errors == []


def visible(page) -> list[str]:
    "The rows that one sees, as text."
    return page.eval_on_selector_all(
        "tr[data-verdict]", "rows => rows.filter(row => row.offsetParent !== null).map(row => row.innerText.replace(/\\s+/g, ' '))"
    )


def test_every_page_is_under_500_kb_and_a_browser_has_few_parts_to_paint(runs, shown):
    sizes = {path.name: path.stat().st_size for path in runs.rglob("*.html")}
    assert len(sizes) == 1 + TABLES + 1 + 2 and max(sizes.values()) < 500_000
    assert shown(runs / "index.html").evaluate("document.querySelectorAll('*').length") < 4_000
    assert shown(runs / "tables" / f"{ONE}.html").evaluate("document.querySelectorAll('*').length") < 12_000


def test_the_front_page_has_all_tables_the_worst_first_and_typed_words_leave_those_that_have_them(runs, shown):
    page = shown(runs / "index.html")
    newest = asked(runs, 'select "table", arg_max(verdict, "end") from run_log where "table" is not null group by 1')
    verdicts = page.eval_on_selector_all("tr[data-verdict]", "rows => rows.map(row => row.dataset.verdict)")
    worst = ["failed", "refused", "attention", "ok"]
    assert len(visible(page)) == len(newest) == TABLES and verdicts == sorted((verdict for _, verdict in newest), key=worst.index)
    page.fill("input[type=search]", "TABLE_01  ok")
    expected = sum("table_01" in table and verdict == "ok" for table, verdict in newest)
    assert len(visible(page)) == expected and all("table_01" in row for row in visible(page))
    assert page.inner_text("output") == f"{expected} of {TABLES} shown"
    page.fill("input[type=search]", "")
    assert len(visible(page)) == TABLES and page.inner_text("output") == ""


def test_a_chip_leaves_its_verdict_and_two_chips_both(runs, shown):
    page = shown(runs / "tables" / f"{ONE}.html")
    counts = dict(asked(runs, f"""select verdict, count(*) from run_log where "table" = '{ONE}' group by 1"""))
    chips = page.eval_on_selector_all("button[data-verdict]", "all => all.map(one => [one.dataset.verdict, +one.querySelector('b').innerText])")
    assert dict(chips) == counts and len(counts) > 2
    page.click("button[data-verdict=failed]")
    assert len(visible(page)) == counts["failed"] and all("✕ failed" in row for row in visible(page))
    page.click("button[data-verdict=refused]")
    assert len(visible(page)) == counts["failed"] + counts["refused"]
    page.click("button[data-verdict=failed]"), page.click("button[data-verdict=refused]")
    assert len(visible(page)) == sum(counts.values()) == PASSES


def test_a_table_s_page_finds_runs_by_day_and_failures_by_their_words(runs, shown):
    page = shown(runs / "tables" / f"{ONE}.html")
    page.fill("input[type=search]", "2026-01-09")
    [(count,)] = asked(runs, f"""select count(*) from run_log where "table" = '{ONE}' and start like '2026-01-09%'""")
    assert len(visible(page)) == count > 10 and all(row.startswith("2026-01-09") for row in visible(page))
    page.fill("input[type=search]", "key column id is null")
    [(count,)] = asked(runs, f"""select count(*) from run_log where "table" = '{ONE}' and words like '%key column id is null%'""")
    assert len(visible(page)) == count > 5 and "row 3 of 20260103-100311204.parquet" in visible(page)[0]


def test_from_the_front_page_to_a_table_to_the_report_of_a_run_and_back(runs, shown):
    page = shown(runs / "index.html")
    page.click(f"tr:has-text('table_007') >> text={PASSES} runs")
    assert page.inner_text("h1") == ONE
    page.click("tr[data-verdict] a >> nth=0")
    [(start, verdict)] = asked(runs, f"""select max(start), arg_max(verdict, start) from run_log where "table" = '{ONE}'""")
    assert page.title() == f"{verdict} · {ONE} · {start[:19].replace('T', ' ')}"
    page.go_back(), page.click("text=all tables")
    assert page.inner_text("h1") == "Tables of the lake"
    page.click("tr:has-text('table_007') .marks a:last-child")
    assert page.title().startswith(f"{verdict} · {ONE}")


def test_numbers_of_a_table_s_page_are_those_of_the_ledger(runs, shown):
    rows = shown(runs / "tables" / f"{ONE}.html").eval_on_selector_all(
        "tr[data-verdict]", "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
    )
    query = f"""select start, job, rows.read, rows.inserted, rows.updated, rows.deleted from run_log where "table" = '{ONE}' order by start desc"""
    expected = [(start[:19].replace("T", " "), job, *(f"{count or 0:,}" for count in counts)) for start, job, *counts in asked(runs, query)]
    assert [(*row[:2], *row[3:7]) for row in rows] == expected


def test_pictures_are_there_in_the_colours_of_the_page_and_say_what_they_show(runs, shown):
    for path, scheme in ((runs / "index.html", "light"), (runs / "tables" / f"{ONE}.html", "dark")):
        page = shown(path, color_scheme=scheme)
        assert page.eval_on_selector_all("figure svg", "all => all.map(one => one.getBoundingClientRect().width > 200)") == [True] * 3
        fills = page.eval_on_selector_all("figure svg [fill^='var(--updated']", "all => [...new Set(all.map(one => getComputedStyle(one).fill))]")
        assert fills == ["rgb(176, 125, 26)" if scheme == "light" else "rgb(217, 171, 84)"]
    [sums] = asked(runs, f"""select sum(rows.inserted), sum(rows.updated), sum(rows.deleted) from run_log where "table" = '{ONE}'""")
    assert "Rows over time: {:,} inserted, {:,} updated, {:,} deleted.".format(*map(int, sums)) in page.content()


def test_without_scripts_the_filter_is_absent_and_all_rows_and_links_are_there(runs, shown):
    page = shown(runs / "tables" / f"{ONE}.html", java_script_enabled=False)
    assert not page.is_visible("form.filter") and page.locator("tr[data-verdict]").count() == PASSES
    page.click("tr[data-verdict] a >> nth=0")
    assert page.locator("h1").inner_text() == ONE


def test_on_a_narrow_screen_nothing_is_wider_than_the_page(runs, shown):
    for path in (runs / "index.html", runs / "tables" / f"{ONE}.html"):
        page = shown(path, viewport={"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


BROKEN = """() => {
  const cells = [...document.querySelectorAll("td, th")].filter(cell => /^\\S{1,20}$/.test(cell.innerText.trim()));
  const lines = cell => { const text = document.createRange(); text.selectNodeContents(cell); return new Set([...text.getClientRects()].map(one => Math.round(one.top))).size };
  return [cells.length, cells.filter(cell => lines(cell) > 1).map(cell => cell.innerText)];
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_words_in_tables_are_not_broken_and_long_values_do_not_widen_the_page(tmp_path, shown, width):
    long, words = "sqlite:/" + "x" * 300, "different 1: id=1 (name, price), not explained by any landed change yet; " * 9
    proof = {
        "command": f"dmscdc reconcile sampledb.product --source {long}",
        "compared": "id, name, price",
        "differences": {"different": 1},
        "words": words,
        "under_way": long,
    }
    differences = [
        {"kind": kind, "key": f"id={long}", "in_flight": "", "column": "category", "source": long, "lake": words} for kind in ("different", "missing")
    ]
    report = a_report(
        tmp_path / "runs", lines(1, 1)[0], totals=[{"side": "source", "rows": 25, "hash": "f" * 16}], differences=differences, proof=proof
    ).with_suffix(".html")
    steps = [
        {
            "step": 1,
            "when": "2018-12-15 10:03:11",
            "what": what,
            "changes": words,
            "file": "20181215-100311204.parquet",
            "row": 1,
            "put": "",
            "in the lake since": words,
        }
        for what in ("inserted", "deleted")
    ]
    life = {
        "key": "id=1",
        "verdict": "ok",
        "says": [words],
        "lines": [{**step, "life": 1} for step in steps],
        "columns": {name: name for name in steps[0]},
        "lake": [{"Op": "I", "category": "Outdoor", "name": long}],
    }
    history = tmp_path / "history.html"
    history.write_text(render("row.html", title="sampledb.product", lives=[life]))
    for path, least in ((report, 12), (history, 10)):
        page = shown(path, viewport={"width": width, "height": 800})
        looked, broken = page.evaluate(BROKEN)
        assert looked >= least and broken == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_pass_that_ran_one_table_writes_its_page_and_the_front_page_and_reads_only_what_is_new(runs):
    run_log, luck = RunLog(runs), random.Random(8)
    run_log.append(LoggedRun.from_json(a_line(ONE, PASSES, luck))), run_log.append(LoggedRun.from_json(a_pass(PASSES)))
    before, run_store = written(runs), Counting(runs)
    write_front_page(run_store, statuses(TABLES))
    after = written(runs)
    assert {name for name in after if before.get(name) != after[name]} == {
        "index.html",
        *(f"tables/{name}" for name in ("index.json", f"{ONE}.json", f"{ONE}.html", f"1/{ONE}.html", "other.json", "other.html", "1/other.html")),
    }
    assert run_store.run_log < 5_000 < (runs / "ledger.jsonl").stat().st_size / 1_000
    assert {name for name in run_store.read if name.endswith(".json")} == {"tables/index.json", f"tables/{ONE}.json", "tables/other.json"}


def test_a_pass_with_nothing_to_do_draws_nothing_and_writes_the_front_page_alone(runs, monkeypatch):
    RunLog(runs).append(LoggedRun.from_json({**a_pass(PASSES + 1), "verdict": "nothing"}))
    monkeypatch.setattr(charts, "svg_of", None)
    before = written(runs)
    page = write_front_page(runs, statuses(TABLES)).read_text()
    assert {name for name, mark in written(runs).items() if before.get(name) != mark} == {"index.html", "tables/index.json"}
    assert "1 pass found nothing to do." in page and page.count("<figure") == 3
    for path in runs.rglob("*.html"):  # what is markup is drawn, not read
        assert not re.search("&lt;/?(div|p|span|figure|table|svg)", path.read_text()), path


def found_in(runs: Path, table: str) -> list[str]:
    "Links to reports on all pages of a table, as one follows them from its page."
    pages = [runs / "tables" / f"{table}.html"]
    found: list[str] = []
    for page in pages:
        text = page.read_text()
        found += [os.path.relpath(page.parent / link, runs) for link in re.findall(r'<td class="when"><a href="([^"]+)"', text)]
        if page == pages[0]:
            pages += [page.parent / link for link in re.findall(r'<a href="([^"]*tables/\d+/[^"]+)"', text)]
    return found


def test_2300_runs_of_a_table_in_any_order_are_each_on_one_page_and_every_page_is_small(tmp_path):
    luck = random.Random(3)
    run_log = [a_line("sampledb.clicks", number, luck) for number in range(2_300)]
    for line in run_log:
        line["words"] = "<ö>" * 700
    late = [run_log.pop(luck.randrange(1_500)) for _ in range(20)]  # their lines come when later runs are long there
    run_log[1_800:1_800] = late
    at = 0
    while at < len(run_log):
        step = luck.choice([1, 7, 300, 900])
        with (tmp_path / "ledger.jsonl").open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in run_log[at : at + step]))
        write_front_page(tmp_path, [])
        at += step
    expected = [one for (one,) in asked(tmp_path, "select html from run_log")]
    assert sorted(found_in(tmp_path, "sampledb.clicks")) == sorted(expected) and len(expected) == 2_300
    assert max(page.stat().st_size for page in tmp_path.rglob("*.html")) < 500_000
    assert len(json.loads((tmp_path / "tables/sampledb.clicks.json").read_text())["rows"]) < 1_000
    assert "2,300 runs; on this page the newest 500" in (tmp_path / "tables/sampledb.clicks.html").read_text()


@pytest.mark.parametrize("name, content", [
    ("tables/index.json", None), ("tables/index.json", "{"), ("tables/shop.b.json", None), ("tables/shop.b.json", ""), ("tables/shop.b.html", None),
    ("tables/index.json", '{"ledger": "of an older make"}'), ("ledger.jsonl", "rebuilt")])  # fmt: skip
def test_what_is_gone_torn_or_of_another_ledger_is_made_again_by_the_next_write(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    run_log, luck = RunLog(tmp_path), random.Random(4)
    for number in range(6):
        run_log.append(LoggedRun.from_json(a_line(f"shop.{'ab'[number % 2]}", number, luck)))
    write_front_page(tmp_path, [])
    if content is None:
        (tmp_path / name).unlink()
    elif content == "rebuilt":
        kept = [LoggedRun.from_json(a_line("shop.b", 0, random.Random(40))), *run_log.runs()]  # its line was lost, its notebook was not
        run_log.path.write_text("")
        for line in kept:
            run_log.append(line)
    else:
        (tmp_path / name).write_text(content)
    run_log.append(LoggedRun.from_json(a_line("shop.a", 9, luck)))
    page = write_front_page(tmp_path, []).read_text()
    for table, count in (("shop.a", 4), ("shop.b", 3 + (content == "rebuilt"))):
        expected = sorted(one for (one,) in asked(tmp_path, f"""select html from run_log where "table" = '{table}'"""))
        assert sorted(found_in(tmp_path, table)) == expected and len(expected) == count
        assert re.search(rf'{table}.html">{count} runs<', page)


def test_what_another_version_has_written_is_shown_and_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    run_log, span = RunLog(tmp_path), {"start": "2026-01-01T10:00:00.000Z", "end": "2026-01-01T10:00:08.000Z"}
    older = {"run": "a1", "job": "process_table", "table": "shop.a", **span, "verdict": "ok"}
    newer = {**older, "run": "a2", "verdict": "a later word", "words": None, "rows": None, "mood": {"of": "the run"}}
    written = [older, newer, {"words": "of another make"}]
    for line in written:
        run_log.append(LoggedRun.from_json(line))
    assert [json.loads(line) for line in run_log.path.read_bytes().splitlines()] == written
    assert rebuild(tmp_path) == 3 and sorted(map(str, written)) == sorted(str(line.to_json()) for line in run_log.runs())
    write_front_page(tmp_path, [])
    content = json.loads((tmp_path / "tables/shop.a.json").read_text())
    content["rows"][0] |= {"html": "", "mood": "fine"}
    (tmp_path / "tables/shop.a.json").write_text(json.dumps(content))
    run_log.append(LoggedRun.from_json({**older, "run": "a3"}))
    write_front_page(tmp_path, [])
    page = (tmp_path / "tables/shop.a.html").read_text()
    assert re.findall('<tr data-verdict="([^"]+)"', page) == ["ok", "a later word", "ok"]
    listed = CliRunner().invoke(app, ["runs", "list", "--json", "--runs", str(tmp_path), "--landing", "a", "--lake", "b", "--folder", str(tmp_path)])
    assert sorted(map(str, json.loads(listed.stdout))) == sorted(map(str, [*written, {**older, "run": "a3"}]))


def test_a_torn_file_of_a_table_is_made_again_when_the_table_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    for number in range(3):
        RunLog(tmp_path).append(LoggedRun.from_json(a_line("shop.b", number, random.Random(number))))
    write_front_page(tmp_path, [])
    (tmp_path / "tables/shop.b.json").write_text('{"ledger": "')
    RunLog(tmp_path).append(LoggedRun.from_json(a_line("shop.b", 9, random.Random(9))))
    write_front_page(tmp_path, [])
    assert len(found_in(tmp_path, "shop.b")) == 4


def test_other_jobs_of_a_table_and_runs_about_no_table_are_shown_and_hide_no_failure(tmp_path, shown):
    luck = random.Random(5)
    failed = {
        **a_line("shop.a", 1, luck),
        "verdict": "failed",
        "words": "ValueError: <img src=x onerror=document.title='x'><script>document.title='y'</script>",
    }
    equal = {**a_line("shop.a", 2, luck), "job": "reconcile", "verdict": "ok", "words": "equal as of position 3: 9 rows"}
    upkeep = {**a_line("shop.a", 3, luck), "table": None, "job": "maintain", "words": "1 file swept"}
    for line in (failed, equal, upkeep):
        RunLog(tmp_path).append(LoggedRun.from_json(line))
    page = shown(write_front_page(tmp_path, [{"table": "shop.a"}, {"table": "shop.new", "state": "waiting", "suggested": ["id"]}]))
    rows = visible(page)
    assert "failed ValueError: <img" in rows[0] and "waiting" in rows[1] and page.title() == "Tables of the lake · 2 to look at"
    page.click("text=2 runs")
    assert [row.split()[2] for row in visible(page)] == ["reconcile", "process_table"] and page.title() == "Runs of shop.a"
    page.fill("input[type=search]", "reconcile equal")
    assert len(visible(page)) == 1
    page.click("text=all tables"), page.click("text=1 run >> visible=true >> nth=0")
    assert "maintain" in page.inner_text("table") and "1 file swept" in page.inner_text("table")


def test_without_the_packages_that_draw_pages_are_written_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(charts.importlib.util, "find_spec", lambda name: None)
    for number in (1, 2):
        for line in (a_line("shop.a", number, random.Random(number)), a_pass(number)):
            RunLog(tmp_path).append(LoggedRun.from_json(line))
    for page in (write_front_page(tmp_path, []), tmp_path / "tables/shop.a.html"):
        assert "pip install 'dmscdc[runs]'" in page.read_text().replace("&#39;", "'") and "<svg" not in page.read_text()


def test_the_report_of_a_big_run_is_small(tmp_path):
    line = {**a_line("shop.a", 1, random.Random(7)), "words": "x" * 30_000}
    files = [{"path": f"2026/01/01/20260101-{number:09d}.parquet", "kind": "change", "rows": 9, "bytes": 99} for number in range(10_000)]
    done = {"rows": {"read": 90_000}, "files": files, "notes": [f"note {number}: " + "n" * 900 for number in range(3_000)], "schema": ["column added: " + "c" * 900] * 2_000,
            "lake": {"rows": 9}, "position": {"before": "a", "after": "b" * 60_000}, "seconds": {f"step {n}": n for n in range(50)}}  # fmt: skip
    loud = new_code_cell(
        "", outputs=[new_output("stream", text="printed " * 200_000), new_output("display_data", {"text/html": "<p>" + "h" * 900_000})]
    )
    page = a_report(tmp_path, line, loud, processed=done, tables=[{"a": "v" * 2_000}] * 900)
    assert page.stat().st_size < 500_000 and "10,000 files" in page.read_text()


def test_a_report_begins_in_plain_words_shows_changed_rows_as_a_table_and_as_csv_and_leads_back(runs, shown, tmp_path):
    line = json.loads((runs / "ledger.jsonl").read_text().splitlines()[-1]) | {"table": ONE, "verdict": "ok"}
    line |= {
        "notebook": f"process_table/{ONE}/20181215T100400Z-3f2a90bc.ipynb",
        "html": f"process_table/{ONE}/20181215T100400Z-3f2a90bc.html",
        "job": "process_table",
    }
    cells = [["name", 'a "lamp", old', "<b>new</b>"], ["price", None, "9.00"]]
    files = [{"path": f"20181215-10{n:02}00000.parquet", "kind": "change", "rows": n, "bytes": 9, "ops": [n - 1, 1, 0]} for n in range(1, 4)]
    done = {
        "files": files,
        "rows": {"inserted": 0, "updated": 1, "deleted": 0, "read": 6},
        "rows_before": 5,
        "lake": {"rows": 5},
        "sample": [
            {"what": "updated", "key": [["id", "7"]], "cells": cells, "file": files[1]["path"], "row": 4, "at": "", "facts": [["AR_H_USER", "ada"]]}
        ],
        "plan": {"kind": "changes", "sentence": "3 change files"},
    }
    page = shown(a_report(runs, line, processed=done), viewport={"width": 390, "height": 800})
    said = page.inner_text("main")
    assert (
        f"This report is about {ONE}, a table of the source, and its copy in the lake. It was brought up to date with 3 files that DMS had written: 1 row was changed."
        in said
    )
    assert (
        "5 rows before, 0 added, 0 removed: 5 rows after." in said
        and "before: null" not in said
        and page.evaluate("document.documentElement.scrollWidth") <= 390
    )
    assert page.eval_on_selector_all(".changes tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))") == [
        [
            "updated",
            "id=7",
            "name",
            'a "lamp", old',
            "<b>new</b>",
            "20181215-100200000.parquet, row 4at the source by 2018-12-15 10:02:00AR_H_USER ada",
        ],
        ["", "", "price", "null", "9.00", ""],
    ]
    assert page.eval_on_selector_all(".bars rect title", "all => all.map(one => one.textContent)") == [
        f"2018-12-15 10:{n:02}:00: {number} {kind[:-1] if number == 1 else kind}"
        for n in range(1, 4)
        for kind, number in (("inserts", n - 1), ("updates", 1), ("deletes", 0))
    ]
    with page.expect_download() as saved:
        page.click("text=As CSV")
    assert pd.read_csv(saved.value.path(), keep_default_na=False).values.tolist() == [
        ["updated", "id=7", *cells[0], files[1]["path"], 4, "by 2018-12-15 10:02:00", "AR_H_USER=ada"],
        ["updated", "id=7", "price", "", "9.00", files[1]["path"], 4, "by 2018-12-15 10:02:00", "AR_H_USER=ada"],
    ]
    page.click(f"text={ONE} >> nth=0")
    assert page.inner_text("h1") == ONE
    page.click("text=all tables")
    assert page.inner_text("h1") == "Tables of the lake"


def test_the_rows_that_a_filter_leaves_are_saved_as_csv(runs, shown):
    page = shown(runs / "index.html")
    page.fill("input[type=search]", "table_00")
    with page.expect_download() as saved:
        page.click("text=as CSV")
    found = pd.read_csv(saved.value.path())
    assert len(found) == len(visible(page)) == 10 and found["table"].str.contains("table_00").all() and "status" in found.columns


def test_runs_are_listed_by_table_verdict_and_time(runs, tmp_path):
    def listed(*words: str) -> list[str]:
        done = CliRunner().invoke(
            app,
            ["runs", "list", "--json", "--most", "30000", "--runs", str(runs), "--landing", "a", "--lake", "b", "--folder", str(tmp_path), *words],
        )
        assert done.exit_code == 0, done.output
        return [line["run"] for line in json.loads(done.stdout)]

    for words, where in {
        ("--verdict", "refused", "--table", ONE): f"""verdict = 'refused' and "table" = '{ONE}'""",
        ("--since", "2026-01-20"): "start >= '2026-01-20'",
        ("--verdict", "failed", "--since", "2026-01-19T12"): "verdict = 'failed' and start >= '2026-01-19T12'",
    }.items():
        assert (
            listed(*words)
            == [run for (run,) in asked(runs, f"select run from (select *, row_number() over () as n from run_log) where {where} order by n")]
            != []
        )


def test_one_lag_is_a_sentence_and_two_are_a_chart():
    runs = [RunRow(end=f"2018-12-15T10:0{minute}:00Z", lag=42.0) for minute in range(2)]
    one, two = (str(charts.CHARTS["lag"](charts.slots(some, 60), 60)) for some in (runs[:1], runs))
    assert "up to 42 seconds" in one and "<svg" not in one and "<svg" in two


@pytest.mark.parametrize("name", ["rows", "files"])
def test_an_axis_counts_rows_and_files_in_whole_numbers(name):
    runs = [RunRow(end=f"2018-12-15T10:0{minute}:00Z", files=1, rows={"inserted": 1}) for minute in range(3)]
    svg = str(charts.CHARTS[name](charts.slots(runs, 60), 60))
    labels = re.findall(r"<text[^>]*>([^<]+)</text>", svg)
    numbers = [label for label in labels if ":" not in label]
    assert {"0", "1"} <= set(numbers) and all(label.isdigit() for label in numbers), labels


def test_the_front_page_says_when_its_lag_was_true(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    RunLog(tmp_path).append(LoggedRun.from_json(a_line("shop.a", 1, random.Random(4))))
    write_front_page(tmp_path, [])
    page = (tmp_path / "index.html").read_text()
    moment = re.search(r'to <time datetime="([^"]+)">([\d-]+ )(\d\d:\d\d)', page)
    assert f">lag at {moment[3]} UTC<" in page and "when this page was written" in page
    assert abs(datetime.fromisoformat(moment[1].replace("Z", "+00:00")) - datetime.now(timezone.utc)) < timedelta(minutes=10)


def test_a_click_on_the_head_of_a_column_sorts_the_tables_of_an_exploration_and_a_second_one_turns_them_round(shown, tmp_path):
    rows = pd.DataFrame({"table": ["b", "C", "a", "d"], "seconds": [9, 1_000, 10, None]})
    (tmp_path / "page.html").write_text(
        f"{sorted_by_click()}{sorted_by_click()}{rows.to_html()}<table><thead><tr><th>other</th></tr></thead></table>"
    )
    page = shown(tmp_path / "page.html")

    def column(at: int, clicks: int) -> list[str]:
        for _ in range(clicks):
            page.click(f"table.dataframe thead th:nth-child({at})")
        return page.eval_on_selector_all("table.dataframe tbody tr", "rows => rows.map(row => row.cells[1].textContent)")

    assert [column(1, 0), column(3, 1), column(3, 1), column(2, 1)] == [
        ["b", "C", "a", "d"],
        ["b", "a", "C", "d"],
        ["d", "C", "a", "b"],
        ["a", "b", "C", "d"],
    ]


def test_the_front_page_shows_a_whole_command_whatever_the_table_is_called(tmp_path, monkeypatch):
    "A shell takes the words of each command apart again."
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    names = [str(TableRef(*pair)) for pair in [*awkward.TABLES, ("my.shop", "a.b")]]
    said = "LOAD1: id is null. Set another: dmscdc table set {0} --key a,b. Or wait, then: dmscdc pass --only {0}; see `dmscdc table rewind {0} --reload`, which helps."
    assert len(names) > 40
    for name in names:
        write_front_page(tmp_path, [{"table": name, "verdict": "refused", "words": said.format(for_shell(name))}])
        found = re.findall(r'<code class="command">(.*?)</code>', (tmp_path / "index.html").read_text(), re.DOTALL)
        words = [shlex.split(html.unescape(one)) for one in found]
        assert words == [
            ["dmscdc", "table", "set", name, "--key", "a,b"],
            ["dmscdc", "pass", "--only", name],
            ["dmscdc", "table", "rewind", name, "--reload"],
        ], name


def test_charts_are_drawn_where_a_second_pass_has_done_something(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "can_draw", lambda: False)  # of the table's page
    drawn, luck, run_log = [], random.Random(4), RunLog(tmp_path)
    monkeypatch.setattr(
        front_page, "charts_of", lambda lines: [drawn.append(len(lines)) for _ in range(hasattr(lines[0], "runs"))] and "charts" or ""
    )
    proof = {**a_line("shop.a", 2, luck), "job": "reconcile", "verdict": "ok", "words": "equal", "rows": {}, "lag": None}
    idle = {**a_pass(3), "verdict": "nothing", "words": "1 table: 1 nothing"}
    for lines_ in ([a_line("shop.a", 1, luck), a_pass(1)], [a_line("shop.a", 2, luck), a_pass(2)], [proof], [idle]):
        for line in lines_:
            run_log.append(LoggedRun.from_json(line))
        write_front_page(tmp_path, [])
    assert drawn == [2]


def test_the_lag_of_a_table_that_its_runs_alone_tell_of_is_that_of_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    line = {**a_line("shop.a", 1, random.Random(4)), "end": "2026-01-01T10:00:00.000Z", "verdict": "ok", "lag": 60.0}
    RunLog(tmp_path).append(LoggedRun.from_json(line))
    write_front_page(tmp_path, [], now=datetime(2026, 1, 1, 11, 30, tzinfo=timezone.utc))
    assert re.search(r'data-name="lag">([^<]*)<', (tmp_path / "index.html").read_text())[1] == "1 h 31 min"


def test_a_lag_of_a_change_file_that_is_named_in_the_future_is_told_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    write_front_page(tmp_path, [{"table": "shop.a", "lag": -263.6}, {"table": "shop.b", "lag": -0.04}, {"table": "shop.c", "lag": 0.0}])
    lags = re.findall(r'data-name="lag">([^<]*)<', (tmp_path / "index.html").read_text())
    assert lags == ["4 min 24 s ahead of this clock", "40 ms ahead of this clock", "0 ms"]


@pytest.mark.parametrize("verdict", ["failed", "refused"])
def test_the_red_of_the_chart_is_called_what_it_is(verdict):
    drawn = str(charts.charts_of([RunRow(end="2018-12-15T10:00:00Z", verdict=verdict)], ("lag",)))
    assert "■ failed or refused<" in drawn and "runs failed or were refused in 1 of 1 spans of time." in drawn


def test_the_report_of_a_proof_says_what_the_numbers_of_its_ranges_are():
    book = json.loads((HOME / "notebooks" / "jobs" / "reconcile.ipynb").read_text())
    said = " ".join(re.sub(r"<[^>]*>", "", said_html(book)).split())
    assert (
        "A range goes from low to high: values of the first key column if it is a whole number, else of a hash of the key (up to 19 digits)" in said
    )
