"""The whole story from an installed wheel, typed in a shell, with a real Spark: told once, looked at many times."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from getpass import getuser
from hashlib import sha256
from pathlib import Path
from socket import gethostname
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

from dmscdc.capture.shop import COLUMNS
from dmscdc.capture.writer import write_changes
from dmscdc.landing.files import TableRef
from dmscdc.runs.log import RunLog, records
from dmscdc.state.registry import open_state
from said import Page, contradictions, number
from wheels import build_wheel

pytestmark = pytest.mark.proof

ROOT = Path(__file__).parents[2]
TABLES = ("sampledb.product", "sampledb.productorder", "sampledb.store")
PASSWORD = "correct-horse-battery"  # in the environment of every command; it must not be kept
NO_KEY = ("U", None, "No Key", "Sample Dept", "Sample Category", "1.00")
WITH_PHONE = ("U", 1009, "125 Technology Dr.", "Irvine", "CA", "US", "92618", "555-0100")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    "The package as a wheel brings it, unpacked beside nothing else of the project."
    out = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(build_wheel(out)) as zip:
        zip.extractall(out / "site")
    return out / "site"


@dataclass(frozen=True)
class Step:
    "A command that was typed, and what it left behind."

    code: int
    out: str
    err: str
    lines: list[dict]  # new in the run log
    notebooks: list[Path]  # new among the runs
    tokens: list[str]  # of the Spark servers that were started; one for each start of java


@dataclass
class Shell:
    "Types `dmscdc` as the wheel brings it, in one folder, and counts the starts of java."

    folder: Path  # of dmscdc.toml
    site: Path  # where the wheel is unpacked
    java: Path  # a folder for a java that is counted
    steps: dict[str, Step] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)  # seen between two steps

    def __post_init__(self) -> None:
        real = Path(os.environ["JAVA_HOME"], "bin/java") if os.environ.get("JAVA_HOME") else Path(shutil.which("java")).resolve()
        counted = self.java / "bin/java"
        counted.parent.mkdir()
        counted.write_text(f'#!/bin/sh\necho "$SPARK_CONNECT_AUTHENTICATE_TOKEN" >> "{self.java}/starts"\nexec "{real}" "$@"\n')
        counted.chmod(0o755)

    def starts(self) -> list[str]:
        path = self.java / "starts"
        return path.read_text().splitlines() if path.exists() else []

    def kept(self) -> tuple[list[dict], list[Path], list[str]]:
        return RunLog(self.folder / "runs").runs(), sorted((self.folder / "runs").rglob("*.ipynb")), self.starts()

    def env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.site), "JAVA_HOME": str(self.java), "SHOP_PASSWORD": PASSWORD}

    def python(self, code: str) -> str:
        return subprocess.run([sys.executable, "-c", code], env=self.env(), cwd=self.site, capture_output=True, text=True, check=True).stdout

    def type(self, *words: str, where: Path | None = None) -> Step:
        before = self.kept()
        command = [sys.executable, "-c", "from dmscdc.cli.main import main; main()", *words]
        done = subprocess.run(command, cwd=where or self.folder, env=self.env(), capture_output=True, text=True, timeout=900)
        new = ([one for one in now if one not in old] for old, now in zip(before, self.kept()))
        return Step(done.returncode, done.stdout, done.stderr, *new)

    def settings(self) -> dict[str, dict]:
        return {row["table"]: row for row in json.loads(self.type("table", "list", "--json").out)}

    def table_state(self, table: TableRef) -> tuple:
        "Everything that a refusal must not move: data and journal with times, position, commit."
        homes = [self.folder / "lake" / above / table.schema / table.name for above in ("", "_dmscdc")]
        found = [path for home in homes for path in sorted(home.rglob("*")) if path.is_file() and "aside" not in path.parts]
        files = [(path, path.stat().st_size, path.stat().st_mtime_ns) for path in found]
        item = open_state(f"sqlite:{self.folder / 'state.db'}").get(table)
        return files, item.position, item.commit, item.key


@pytest.fixture(scope="module")
def shell(wheel, tmp_path_factory) -> Shell:
    home = tmp_path_factory.mktemp("home")
    return Shell(home / "demo", wheel, tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def demo(shell) -> Path:
    "The story as `dmscdc demo` tells it."
    shell.steps["demo"] = shell.type("demo", "demo", where=shell.folder.parent)
    assert shell.steps["demo"].code == 0, shell.steps["demo"].err[-3000:]
    return shell.folder


@pytest.fixture(scope="module")
def second_look(shell, demo) -> Step:
    "A pass where nothing is new."
    return shell.type("pass")


@pytest.fixture(scope="module")
def refusal(shell, second_look) -> Step:
    "A pass with a change of `product` without its key, and beside it a change of `store` that brings a column."
    now, landing, product = datetime.now(timezone.utc), shell.folder / "landing", TableRef.parse("sampledb.product")
    shell.facts["bad"] = write_changes(landing, product, [NO_KEY], now, COLUMNS["product"]).name
    write_changes(landing, "sampledb.store", [WITH_PHONE], now, {**COLUMNS["store"], "phone": "string"})
    shell.facts["stood"] = shell.table_state(product)
    step = shell.type("pass")
    shell.facts["stands"] = shell.table_state(product)
    return step


@pytest.fixture(scope="module")
def rebuilt(shell, refusal) -> Step:
    "Positions out of the lake, after the state was lost."
    shell.facts["known"] = shell.settings()
    for path in shell.folder.glob("state.db*"):
        path.unlink()
    step = shell.type("table", "rebuild")
    shell.facts["found"] = shell.settings()
    return step


def pages(folder: Path) -> list[Page]:
    return [Page(path) for path in sorted((folder / "runs").rglob("*.html"))]


def kept_texts(folder: Path) -> dict[Path, str]:
    "Notebooks, pages and run log: what is kept for months."
    return {path: path.read_text(encoding="utf-8") for kind in ("ipynb", "html", "jsonl") for path in (folder / "runs").rglob(f"*.{kind}")}


def processed(demo: Path, table: str) -> list[dict]:
    "What the runs of a table recorded, oldest first."
    return [records(path)["processed"] for path in sorted((demo / "runs/process_table" / table).glob("*.ipynb"))]


def test_the_wheel_holds_jobs_explorations_and_pages(wheel):
    for name in ("jobs/process_table.ipynb", "jobs/pass.ipynb", "explore/tour.ipynb", "pages/run.html", "pages/index.html", "py.typed"):
        assert (wheel / "dmscdc" / name).is_file(), name


def test_the_wheel_holds_every_module_and_none_that_is_gone(wheel):
    assert {path.name for path in (wheel / "dmscdc").glob("*.py")} == {path.name for path in (ROOT / "dmscdc").glob("*.py")}


def test_the_command_is_the_one_of_the_wheel(shell):
    said = shell.python("import dmscdc.cli.main, dmscdc.cli.demo; print(dmscdc.cli.main.__file__, dmscdc.cli.demo.__file__)")
    assert said.split() == [str(shell.site / "dmscdc/cli" / name) for name in ("main.py", "demo.py")]


def test_after_the_story_every_lake_table_equals_its_source(shell, demo):
    said = shell.steps["demo"].err
    for words in ("sampledb.store: equal, 9 rows", "sampledb.product: equal, 24 rows", "sampledb.productorder: equal, 9,770 rows"):
        assert words in said


def test_in_a_pipe_the_story_is_plain_lines_with_their_time(shell, demo):
    said = [
        line for line in shell.steps["demo"].err.splitlines() if not line.startswith("Picked up JAVA_TOOL_OPTIONS")
    ]  # Java says it where it is set
    assert len(said) > 20 and not [line for line in said if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (    )?\S[^\r]*", line)]
    assert "\x1b" not in shell.steps["demo"].err + shell.steps["demo"].out
    assert shell.steps["demo"].out == "The front page: demo/runs/index.html\nTo go on: cd demo && dmscdc status\n"


def test_the_notebook_of_the_commands_shows_what_the_story_says(shell, demo):
    cells = json.loads((ROOT / "notebooks/17_cli/12_main.ipynb").read_text(encoding="utf-8"))["cells"]
    (shown,) = ["".join(c["outputs"][0]["text"]) for c in cells if '"demo", "shop"]' in "".join(c["source"])]
    said = re.sub(r"\bdemo\b", "shop", (shell.steps["demo"].err + shell.steps["demo"].out).replace(str(shell.folder.parent), "…"))
    lines = [line.partition("Z ")[2] or line for line in said.splitlines() if re.search(" · |equal|front page|To go on", line)]
    assert len(lines) == 11 and shown.splitlines() == lines


def test_every_run_is_a_kept_notebook_with_a_page_and_a_line_in_the_ledger(shell, demo):
    runs = [line for line in shell.steps["demo"].lines if line.job in ("process_table", "reconcile")]
    assert len(runs) == len(shell.steps["demo"].notebooks) == 9 and {line.verdict for line in runs} == {"ok"}
    assert all((demo / "runs" / getattr(line, kind)).is_file() for line in runs for kind in ("notebook", "html"))


def test_all_steps_of_the_story_share_one_spark(shell, demo):
    assert len(set(filter(None, shell.steps["demo"].tokens))) == 1


def test_a_run_records_what_it_did_with_every_row(demo):
    first, second = processed(demo, "sampledb.product")[:2]
    assert (first["rows"]["read"], first["rows"]["inserted"]) == (25, 25)
    assert {n: second["rows"][n] for n in ("read", "inserted", "updated", "deleted", "unchanged", "refused")} == {
        "read": 2,
        "inserted": 0,
        "updated": 1,
        "deleted": 1,
        "unchanged": 0,
        "refused": 0,
    }
    assert second["files"][0]["kind"] == "change" and second["first"] == second["last"] == second["files"][0]["path"]
    assert second["position"]["before"] != second["position"]["after"] and second["lake"]["files_rewritten"] == 1


def test_a_pass_has_a_page_with_its_tables_in_order_and_with_what_a_person_should_do(shell, refusal):
    runs, home = [line for line in refusal.lines if line.table], shell.folder / "runs"
    (line,) = (line for line in refusal.lines if line.job == "pass")
    page = Page(home / line.html)
    links = [link for link in page.points if "process_table" in link]
    assert links == ["../" + run.html for run in sorted(runs, key=lambda run: run.start)]
    assert "1 table had nothing new." in " ".join(page.texts) and "dmscdc pass --only sampledb.product" in " ".join(page.texts)
    front = Page(home / "index.html")
    assert sum("waiting since" in text for text in front.texts) == 1, "the file of the refused table alone is not in the lake"
    assert f"Started by {getuser()} on {gethostname()}" in " ".join(page.texts)


def test_the_inputs_of_a_run_are_named_by_folder_and_checksum_and_its_changes_are_listed(shell, demo):
    line = [line for line in shell.steps["demo"].lines if (line.job, line.table) == ("process_table", "sampledb.productorder")][-1]
    done = processed(demo, "sampledb.productorder")[1]
    (folder,), (file,) = done["folders"], done["files"]
    content = Path(folder, file["path"]).read_bytes()
    assert file["checksum"] == f"sha256:{sha256(content).hexdigest()}" and file["bytes"] == len(content)
    page = Page(demo / "runs" / line.html)
    assert file["checksum"] in " ".join(page.texts) and f"dmscdc changes sampledb.productorder --run {line.run} --limit 0" in " ".join(page.texts)
    listed = json.loads(shell.type("changes", "sampledb.productorder", "--run", line.run, "--json").out)
    rows = pq.read_table(Path(folder, file["path"])).to_pylist()
    assert [change["key"] for change in listed] == [{"id": row["id"]} for row in rows] and len(rows) == 1345


def test_a_second_look_applies_nothing_starts_no_java_and_leaves_one_line(second_look):
    assert (second_look.code, second_look.out) == (0, "3 tables: 3 nothing\n")
    assert (second_look.notebooks, second_look.tokens) == ([], [])
    assert [(line.job, line.verdict, line.words) for line in second_look.lines] == [("pass", "nothing", "3 tables: 3 nothing")]


def test_a_refused_table_does_not_hold_up_the_good_one_beside_it(refusal):
    assert (refusal.code, refusal.out) == (1, "3 tables: 1 refused, 1 ok, 1 nothing\n")
    assert {line.table: line.verdict for line in refusal.lines} == {"sampledb.product": "refused", "sampledb.store": "ok", None: "refused"}
    assert "sampledb.store: ok, 1 file, 1 row read: 1 updated" in refusal.err


def test_a_refused_batch_moves_nothing(shell, refusal):
    assert shell.facts["stands"] == shell.facts["stood"] and shell.facts["stood"][0]


def test_a_refusal_names_file_row_column_and_command(shell, refusal):
    words = f"sampledb.product: row 1 of {shell.facts['bad']}: key column id is null"
    said = next(line for line in refusal.err.splitlines() if "refused" in line)
    assert words in said and re.search(r"then: dmscdc pass --only sampledb\.product; or .* The lake is as it was \(commit \d+\)$", said)
    assert next(line.words for line in refusal.lines if line.verdict == "refused").startswith(words)


def test_the_front_page_names_the_refused_table_and_what_to_do(shell, refusal):
    front = Page(shell.folder / "runs/index.html")
    assert "3 tables: 1 refused, 2 ok." in front.texts and "One thing needs a person." in front.texts
    person = front.texts[front.texts.index("What needs a person") :]
    assert person[2] == "sampledb.product" and shell.facts["bad"] in person[3] and person[4] == "dmscdc pass --only sampledb.product"


def test_every_link_of_every_page_ends_at_something_that_is_there(shell, refusal):
    found = pages(shell.folder)
    assert len(found) == 12 + 4 + 3 and all(page.points for page in found)  # 11 runs, the front page, three tables, the others; three passes
    assert not [
        (page.path.name, link) for page in found for link in page.points if not (link.startswith("data:text/csv") or page.leads_to(link))
    ]  # that file lies in the page
    front = Page(shell.folder / "runs/index.html")
    linked = {
        (page.path.parent / unquote(link)).resolve()
        for page in (front, Page(front.path.parent / "tables/other.html"))
        for link in page.points
        if link[0] != "#"
    }
    assert linked == {page.path.resolve() for page in found}


def test_no_page_fetches_anything_and_each_is_below_300_kb(shell, refusal):
    for page in pages(shell.folder):
        text = page.path.read_text(encoding="utf-8")
        assert (
            page.fetches in ([], ["script"]) and text.count("<script") == text.count("<script>") and not re.search(r"https?://|=\s*[\"']?//", text)
        ), page.path
        assert "default-src 'none'" in text and len(text.encode()) < 300_000
        assert "process_table(" not in text


@pytest.mark.parametrize("table", TABLES)
def test_a_report_shows_all_that_its_run_recorded(shell, refusal, table):
    notebook = max((shell.folder / "runs/process_table" / table).glob("*.ipynb"))
    page, done = Page(notebook.with_suffix(".html")), records(notebook)["processed"]
    facts = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]
    words = done["words"].removeprefix(f"{table}: ").replace("`", "")  # commands among them are code
    said = "".join(page.texts[page.texts.index(done["verdict"]) + 1 :])
    assert said.replace(" ", "").startswith(words.replace(" ", "")), said[:500]
    helps = done["verdict"] in ("failed", "refused")  # to run it again after a run that has done its work does nothing
    assert ("To run it again:" in page.texts) == helps and (not helps or page.after("To run it again:") == f"dmscdc pass --only {table}")
    assert page.after("Plan") == done["plan"]["sentence"].removeprefix(f"{table}: ")
    if done["rows"]["read"]:
        begin, end = page.texts.index("Rows read, and what became of them") + 1, page.texts.index("rows read")
        became = dict(zip(page.texts[begin:end:2], map(number, page.texts[begin + 1 : end : 2])))
        assert sum(became.values()) == number(page.texts[end + 1]) == sum(file["rows"] for file in done["files"])
        assert {name: became[name] for name in ("inserted", "updated", "deleted")} == {
            name: done["rows"][name] for name in ("inserted", "updated", "deleted")
        }
    else:
        assert done["verdict"] == "refused" and "Rows read, and what became of them" not in page.texts
    for file in done["files"] or done["not_applied_files"]:
        rows = "–" if file["rows"] is None else f"{file['rows']:,}"
        assert page.texts[page.texts.index("put there, UTC") + 1 :][:4] == [file["path"], file["checksum"], file["kind"], rows]
    assert all(done[which] in page.texts for which in ("first", "last") if done["files"])
    assert all(change in page.texts for change in done["schema"])
    assert (page.after("Position before"), page.after("Position after")) == (done["position"]["before"], done["position"]["after"])
    names = {
        "files_rewritten": "Lake files rewritten",
        "files_added": "New lake files",
        "files_removed": "Lake files taken out",
        "rows": "Rows in the table now",
    }
    for name, words in names.items():
        assert done["lake"][name] == 0 or page.after(words) == f"{done['lake'][name]:,}", name
    written = page.after("Bytes written to the lake") if done["lake"]["bytes_written"] else "0 bytes"
    assert re.fullmatch(r"[\d.,]+ (bytes|kB)", written)
    begin, end = page.texts.index("Time") + 1, page.texts.index("the whole run")
    seconds = [float(text.split()[0]) / (1000 if text.endswith("ms") else 1) for text in page.texts[begin + 1 : end : 2]]
    took = (datetime.fromisoformat(facts["dmscdc"]["end"]) - datetime.fromisoformat(facts["dmscdc"]["start"])).total_seconds()
    assert len(seconds) == len(done["seconds"]) + 1 > 1 and sum(seconds) == pytest.approx(took, abs=0.2)
    assert all(page.after(name) == str(value) for name, value in done["versions"].items()) and "pyspark" in done["versions"]
    parameters = facts["papermill"]["parameters"]
    assert {"table", "landing", "lake", "state", "quiet_period", "run", "fence"} <= set(parameters)
    assert all(page.texts.index(name) > page.texts.index("Parameters") for name in parameters if name not in ("table", "owner", "fence"))


def test_a_new_column_is_told_in_the_report(shell, refusal):
    done = processed(shell.folder, "sampledb.store")[-1]
    assert len(done["schema"]) == 1 and "phone" in done["schema"][0]
    assert "phone" in Page(max((shell.folder / "runs/process_table/sampledb.store").glob("*.html"))).after("Schema")


def test_no_token_password_or_address_of_a_server_is_kept(shell, refusal):
    kept, tokens = kept_texts(shell.folder), set(filter(None, shell.starts()))
    assert len(kept) == 11 + 19 + 1 and tokens
    for path, text in kept.items():
        assert not [word for word in (*tokens, PASSWORD) if word in text], path
        assert not re.search(r"sc://|token=|session_id=|localhost:\d|127\.0\.0\.1", text), path


def test_rebuild_brings_the_positions_back_out_of_the_lake(shell, rebuilt):
    assert rebuilt.code == 0 and rebuilt.tokens == []
    known, found = ({name: (row["commit"], row["position"]) for name, row in shell.facts[when].items()} for when in ("known", "found"))
    assert set(known) == set(TABLES) and known == found
    assert rebuilt.out.splitlines() == [f"{name}: commit {known[name][0]}, {known[name][1]}" for name in TABLES]


def test_after_a_rebuild_nothing_is_applied_twice(shell, rebuilt):
    assert shell.type("table", "set", "sampledb.store", "--key", "id").code == 0
    step = shell.type("pass", "--only", "sampledb.store")
    assert (step.code, step.out, step.notebooks, step.tokens) == (0, "1 table: 1 nothing\n", [], [])


def test_no_sentence_of_any_page_contradicts_the_run_log(shell, refusal):
    assert contradictions(shell.folder / "runs") == []
