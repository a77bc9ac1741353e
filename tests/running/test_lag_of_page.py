"""The lag that the front page shows of a table that has run: to the moment of the page, not to the run's end."""

from datetime import datetime, timezone
from pathlib import Path

import pytest

from dmscdc.landing.files import TableRef
from dmscdc.runs.log import new_run
from dmscdc.service import passes as controller
from dmscdc.service.passes import row_after
from dmscdc.service.status import TableStatus
from dmscdc.service.workers import Outcome
from dmscdc.state.position import Position
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.proof


def test_the_lag_after_a_run_goes_from_the_newest_change_file_in_the_lake_to_the_moment_of_the_page(tmp_path, monkeypatch):
    state, table = open_state(f"sqlite:{tmp_path / 'state.db'}"), TableRef("shop", "item")
    item = state.put_settings(table, key="id")  # as it was seen before the run
    state.save_position(table, Position(load=1, last="20260101-100000000.parquet"), commit=1, expected_commit=0)
    run = new_run(datetime(2026, 1, 1, 10, 0, 1, tzinfo=timezone.utc), "3f2a", "process_table", str(table), None, Path(tmp_path))
    run.records["processed"] = {"position": {"after": "changes up to 20260101-100000000.parquet"}, "lake": {"rows": 3}, "lag": 2.0}
    monkeypatch.setattr(controller.time, "time", lambda: datetime(2026, 1, 1, 10, 12, tzinfo=timezone.utc).timestamp())
    status = row_after(TableStatus(table, "paused", item), Outcome(str(table), "ok", "loaded", run=run), state)
    assert (status["lag"], status["rows"]) == (720.0, 3)
