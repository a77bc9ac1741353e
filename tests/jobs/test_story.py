"""The whole story from an installed wheel, in an empty folder, with a real Spark: told once, looked at many times."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dmscdc.ledger import Ledger, records

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
    for words in ("dmscdc pass --only sampledb.product", "position", "pyspark", "LOAD00000001.parquet"):
        assert words in page, words
