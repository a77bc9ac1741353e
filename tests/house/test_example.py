"The runs that git keeps as an example are those of the job as it is now, and their pages are what is made of them today."

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from dmscdc.runs.report import report_html
from said import contradictions

pytestmark = pytest.mark.quick

HOME = Path(__file__).parents[2]
RUNS = sorted((HOME / "runs" / "example").glob("*/*/*.ipynb"))
AGAIN = "runs/example is older than the job or the report: .venv/bin/python runs/example/make.py makes it again"


def sources(path: Path) -> list[str]:
    "What each cell says, without those that papermill adds."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if "injected-parameters" not in cell["metadata"].get("tags", ())]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.parent.name}-{run.name[:8]}")
def test_a_kept_run_is_one_of_the_job_and_its_page_is_what_a_report_is_today(run):
    assert sources(run) == sources(HOME / "notebooks" / "jobs" / f"{run.parents[1].name}.ipynb"), AGAIN
    assert run.with_suffix(".html").read_text(encoding="utf-8") == report_html(run), AGAIN


def test_the_example_holds_two_passes_of_which_one_refuses_a_table():
    verdicts = [json.loads(run.read_text(encoding="utf-8"))["metadata"]["dmscdc"]["verdict"] for run in RUNS]
    assert sorted(verdicts) == ["ok"] * 5 + ["refused"]


def test_no_sentence_of_the_example_contradicts_its_run_log(tmp_path):
    shutil.copytree(HOME / "runs" / "example", tmp_path / "runs")
    assert contradictions(tmp_path / "runs") == []
    report = next(
        run.with_suffix(".html") for run in RUNS if "productorder" in run.parent.name and "rows before" in run.with_suffix(".html").read_text()
    )
    there, text = tmp_path / "runs" / report.relative_to(HOME / "runs" / "example"), report.read_text()
    lies = [
        (r"with 1 file that", "with 2 files that"),
        (r"1,345 rows were added", "1,344 rows were added"),
        (r"1,345 added", "1,346 added"),
        (r">1,345</td>", ">1,3</td>"),
        (r"> ok<", "> attention<"),
    ]
    for sound, lie in lies:
        changed = re.sub(sound, lie, text, count=1)
        there.write_text(changed)
        assert changed != text and contradictions(tmp_path / "runs"), lie
