"Reports of old runs go by `dmscdc maintain runs`; the example in the repository is what there is, and its own log says what must stay."

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.service.config import write_config

pytestmark = pytest.mark.quick

EXAMPLE = Path(__file__).parents[2] / "runs" / "example"


def test_reports_of_runs_that_went_well_go_first_and_every_line_stays(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "runs")
    write_config(tmp_path, landing="landing", lake="lake")
    typed = lambda *words: CliRunner().invoke(app, [*words, "--folder", str(tmp_path)]).output
    lines = [line for line in map(json.loads, (tmp_path / "runs" / "ledger.jsonl").read_text().splitlines()) if line["html"]]
    well = [line for line in lines if line["verdict"] in ("ok", "nothing")]
    assert well and len(well) < len(lines)
    size = {line["html"]: (tmp_path / "runs" / line["html"]).stat().st_size for line in lines}
    before, words = typed("runs", "list", "--json"), ("maintain", "runs", "--keep-days", "0", "--keep-failed-days", "36500")
    assert f"{len(well)} of runs that went well, 0 of others" in typed(*words)
    assert all((tmp_path / "runs" / name).stat().st_size == was for name, was in size.items()), "a plan removes nothing"
    assert f"removed: {len(well)} of runs that went well" in typed(*words, "--yes") and "no report is old enough" in typed(*words)
    for line in lines:
        page, book = (tmp_path / "runs" / line[kind] for kind in ("html", "notebook"))
        assert page.stat().st_size == size[line["html"]] if line not in well else line["words"] in page.read_text()
        # The page of a pass has no notebook beside it.
        assert not line["notebook"] or json.loads(book.read_text())["metadata"]["dmscdc"]["run"] == line["run"], "the log can be built again"
    assert typed("runs", "list", "--json") == before
