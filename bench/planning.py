"""What planning costs, without Spark: 200 idle tables, and one table with 2,500 new change files: python bench/planning.py"""

from __future__ import annotations

import os
import shutil
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

from measure import phase

from dmscdc.lake.table import Transaction
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.load.table_state import load_state, plan_state
from dmscdc.state.registry import open_state
from dmscdc.state.sqlite import SqliteState

TABLES, FILES, MORE = 200, 60, 2_500


def arrive(folder: Path, names: list[str]) -> None:
    "Files of DMS by name; planning never opens one. A later file is newer."
    folder.mkdir(parents=True, exist_ok=True)
    start = time.time() - 86_400
    for i, name in enumerate(names):
        (folder / name).write_bytes(b"PAR1")
        os.utime(folder / name, (start + i, start + i))


def change_names(number: int) -> list[str]:
    return [f"{datetime(2026, 1, 1) + timedelta(minutes=i):%Y%m%d-%H%M%S}123.parquet" for i in range(number)]


def make_idle(state: SqliteState, landing: FolderLanding, lake: str, table: TableRef) -> None:
    "Settings, files, and a lake that has applied them, as far as planning can tell."
    state.put_settings(table, key="id")
    arrive(Path(landing.url(table)), ["LOAD00000001.parquet", *change_names(FILES)])
    table_state = load_state(state, table, lake)
    plan = plan_state(table_state, landing, 0)
    table_state.lake.commit_position(Transaction(None, plan.after.to_json(), "bench", (), ("id",))).commit()


def measure_planning(where: Path) -> dict[str, float]:
    "Seconds, and how often the landing was listed."
    shutil.rmtree(where, ignore_errors=True)
    landing, lake, state = (
        FolderLanding(str(where / "landing")),
        str(where / "lake"),
        open_state(f"sqlite:{where}/state.db"),
    )
    tables, said = [TableRef("sampledb", f"table{i:03d}") for i in range(TABLES)], {}
    for table in tables:
        make_idle(state, landing, lake, table)
    for table in tables:
        load_state(state, table, lake)  # the state learns the position, as after a run
    before = landing.listings
    with phase("idle", said):
        idle = [plan_state(load_state(state, table, lake), landing, 300) for table in tables]
    assert {plan.kind for plan in idle} == {"nothing"}, {plan.kind for plan in idle}
    said |= {"idle_tables": len(idle), "idle_listings": landing.listings - before}
    arrive(Path(landing.url(tables[0])), change_names(FILES + MORE)[FILES:])
    with phase("many_files", said):
        plan = plan_state(load_state(state, tables[0], lake), landing, 0)
    assert len(plan.changes) == MORE, plan.sentence
    shutil.rmtree(where)
    return said | {"many_files_planned": len(plan.changes)}


if __name__ == "__main__":
    print(measure_planning(Path(sys.argv[1] if len(sys.argv) > 1 else ".bench/planning").absolute()))
