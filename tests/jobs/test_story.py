"""The whole story from an installed wheel, in an empty folder, with a real Spark: told once, looked at many times."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dmscdc.dms_writer import write_changes
from dmscdc.ledger import Ledger, records
from dmscdc.sample import COLUMNS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    "The package as a wheel brings it, unpacked beside nothing else of the project."
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", out, ROOT]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    with zipfile.ZipFile(next(out.glob("*.whl"))) as zip:
        zip.extractall(out / "site")
    return out / "site"


@pytest.fixture(scope="module")
def dmscdc(wheel, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")

    def run(*words: str, folder: Path = home, **env: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-c", "from dmscdc.cli import main; main()", *words]
        return subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(wheel), **env}, capture_output=True, text=True, timeout=900)
    run.home = home
    return run


@pytest.fixture(scope="module")
def demo(dmscdc) -> Path:
    done = dmscdc("demo", "demo")
    assert done.returncode == 0, done.stderr[-3000:]
    (dmscdc.home / "said.txt").write_text(done.stderr)
    return dmscdc.home / "demo"


@pytest.fixture(scope="module")
def mishap(demo, dmscdc) -> subprocess.CompletedProcess:
    "A third pass: a change without a key in one table, a good one in another."
    write_changes(demo / "landing", "sampledb.product", [("U", 1003, "Renamed", "a", "b", "1.00"), ("U", None, "x", "a", "b", "1.00")], "20301215-100311204", COLUMNS["product"])
    write_changes(demo / "landing", "sampledb.store", [("D", 1009, None, None, None, None, None)], "20301215-100311204", COLUMNS["store"])
    return dmscdc("pass", folder=demo)


def processed(demo: Path, table: str) -> list[dict]:
    "What the runs of a table recorded, oldest first."
    return [records(path)["processed"] for path in sorted((demo / "runs/process_table" / table).glob("*.ipynb"))]


def test_the_wheel_holds_jobs_explorations_and_pages(wheel):
    for name in ("jobs/process_table.ipynb", "jobs/pass.ipynb", "explore/tour.ipynb", "pages/run.html", "pages/index.html", "py.typed"):
        assert (wheel / "dmscdc" / name).is_file(), name


def test_after_the_story_every_lake_table_equals_its_source(demo):
    said = (demo.parent / "said.txt").read_text()
    for words in ("sampledb.store: equal, 9 rows", "sampledb.product: equal, 24 rows", "sampledb.productorder: equal, 9,770 rows"):
        assert words in said


def test_every_run_is_a_kept_notebook_with_a_page_and_a_line_in_the_ledger(demo):
    runs = [line for line in Ledger(demo / "runs").lines() if line["job"] == "process_table"][:6]
    assert len(runs) == 6 and {line["verdict"] for line in runs} == {"ok"}
    assert all((demo / "runs" / line[kind]).is_file() for line in runs for kind in ("notebook", "html"))


def test_a_run_records_what_it_did_with_every_row(demo):
    first, second = processed(demo, "sampledb.product")[:2]
    assert (first["rows"]["read"], first["rows"]["inserted"]) == (25, 25)
    assert {n: second["rows"][n] for n in ("read", "inserted", "updated", "deleted", "unchanged", "refused")} == {"read": 2, "inserted": 0, "updated": 1, "deleted": 1, "unchanged": 0, "refused": 0}
    assert second["files"][0]["kind"] == "change" and second["first"] == second["last"] == second["files"][0]["path"]
    assert second["position"]["before"] != second["position"]["after"] and second["lake"]["files_rewritten"] == 1


def test_a_page_is_free_of_code_and_network_and_below_300_kb(demo):
    for page in (demo / "runs").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert len(text.encode()) < 300_000 and not re.search(r"(src|href)=[\"']?(https?:)?//", text), page
        assert "process_table(" not in text and "<script" not in text
    page = min((demo / "runs/process_table/sampledb.product").glob("*.html")).read_text(encoding="utf-8")
    for words in ("dmscdc pass --only sampledb.product", "position", "pyspark", "LOAD00000001.parquet", "seconds"):
        assert words in page, words


def test_the_front_page_links_each_table_to_its_report(demo):
    page = (demo / "runs/index.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"#]+\.html)"', page)
    assert links and all((demo / "runs" / link).is_file() for link in links)
    assert all(name in page for name in ("productorder", "product", "store"))


def test_a_second_look_applies_nothing_and_starts_no_java(demo, mishap, dmscdc, tmp_path):
    done = dmscdc("pass", "--only", "sampledb.productorder", folder=demo, JAVA_HOME=str(tmp_path), PATH="/nowhere")
    assert done.returncode == 0 and "nothing" in done.stdout, done.stderr
    assert len(processed(demo, "sampledb.productorder")) == 2


def test_a_bad_row_refuses_its_table_by_file_row_and_column_and_costs_no_other_its_run(demo, mishap):
    assert mishap.returncode == 1
    assert "sampledb.product: row 1 of 20301215-100311204.parquet: key column id is null" in " ".join((mishap.stdout + mishap.stderr).split())
    newest = {line["table"]: line for line in Ledger(demo / "runs").lines() if line.get("table")}
    assert (newest["sampledb.product"]["verdict"], newest["sampledb.store"]["verdict"]) == ("refused", "ok")
    assert processed(demo, "sampledb.product")[-1]["position"]["after"] == processed(demo, "sampledb.product")[1]["position"]["after"]
    assert "needs a person" in (demo / "runs/index.html").read_text(encoding="utf-8")


def test_no_secret_of_the_server_is_kept(demo):
    for path in (demo / "runs").rglob("*"):
        assert not path.is_file() or not re.search(rb"token=[^*\s]{8}", path.read_bytes()), path


def test_the_state_can_be_rebuilt_from_the_lake(demo, mishap, dmscdc):
    before = json.loads(dmscdc("status", "--json", folder=demo).stdout)
    done = dmscdc("table", "rebuild", "--state", "sqlite:other.db", folder=demo)
    assert done.returncode == 0 and "sampledb.productorder: commit 2" in done.stdout
    rebuilt = {row["table"]: row for row in json.loads(dmscdc("table", "list", "--json", "--state", "sqlite:other.db", folder=demo).stdout)}
    assert {row["table"]: (row["commit"], row["position"]) for row in before} == {name: (row["commit"], row["position"]) for name, row in rebuilt.items()}
