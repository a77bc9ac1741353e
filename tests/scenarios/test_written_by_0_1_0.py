"""A folder that version 0.1.0 has written (landing, lake, state, runs, a type-2 table, a feed's cursor) is read and gone on with. `tests/data/written_by_0_1_0/README.md` says how it was made."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from shutil import copytree

import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import write_changes
from dmscdc.cli.main import app
from dmscdc.load.process import process_table
from dmscdc.scd2.update import update_versions
from world import query

pytestmark = pytest.mark.test

DATA = Path(__file__).parents[1] / "data" / "written_by_0_1_0"
TYPES = {"id": "int", "name": "string", "price": "decimal(9,2)"}
HELD = [(1, "Lamp, large", "41.00"), (3, None, "7.25"), (4, "Desk", "120.00")]  # after both passes; 2 was deleted
VERSIONS = [
    (1, "Lamp", "41.00", False),
    (1, "Lamp, large", "41.00", True),
    (2, "Chair", "80.50", False),
    (3, None, "7.25", True),
    (4, "Desk", "120.00", True),
]


@pytest.fixture
def shop(tmp_path) -> Path:
    "The folder as it was left, object times too: they are not kept by git, and a position knows its load by them."
    copytree(DATA, tmp_path / "shop")
    for name, time in json.loads((DATA / "times.json").read_text()).items():
        os.utime(tmp_path / "shop" / name, (time, time))
    return tmp_path / "shop"


def said(shop: Path, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words, "--folder", str(shop)])
    assert done.exit_code == code, done.output
    return done.output


def places(shop: Path, table: str) -> list[str]:
    return [table, str(shop / "landing"), str(shop / "lake"), f"sqlite:{shop / 'state.db'}"]


def rows(shop: Path, table: str, columns: str) -> list[tuple]:
    return query(f"select {columns} from read_parquet('{shop}/lake/shop/{table}/**/*.parquet', hive_partitioning=true) order by all")


def test_there_is_nothing_to_do_and_the_runs_are_known(shop):
    plan = json.loads(said(shop, "plan", "--json"))
    assert {row["table"]: row["plan"] for row in plan} == {"shop.product": "nothing", "shop.store": "nothing"}, plan
    runs = json.loads(said(shop, "runs", "list", "--json"))
    assert [run["verdict"] for run in runs if run["table"]].count("ok") >= 4 and {run["table"] for run in runs} >= {"shop.product", "shop.store"}
    page = said(shop, "runs", "show", next(run["run"] for run in runs if run["table"] == "shop.product"))
    assert "shop.product" in page and "ok" in page
    assert rows(shop, "product", "id, name, price::text") == HELD


def test_a_rows_life_is_told(shop):
    [life] = json.loads(said(shop, "history", "shop.product", "--key", "id=1", "--json"))["lives"]
    steps = [(step["op"], step["file"], step["row"], step["known"]["number"]) for step in life["steps"]]
    assert steps == [("I", "LOAD00000001.parquet#1", 0, 1), ("U", "20261120-100000000.parquet", 0, 2), ("U", "20261120-100500000.parquet", 1, 3)]
    assert life["lake"]["verdict"] == "agrees" and life["words"] == []


def test_the_next_files_are_applied_and_versions_go_on(shop, spark):
    write_changes(
        shop / "landing",
        "shop.product",
        [("U", 4, "Desk", "99.00"), ("I", 5, "RunStore", "60.00")],
        datetime(2026, 11, 20, 10, 10, tzinfo=timezone.utc),
        TYPES,
    )
    write_changes(
        shop / "landing",
        "shop.store",
        [("D", 9, "Irvine", "CA")],
        datetime(2026, 11, 20, 10, 10, tzinfo=timezone.utc),
        {"id": "int", "town": "string", "area": "string"},
    )
    for table, commit in {"shop.product": 4, "shop.store": 3}.items():
        done = process_table(*places(shop, table), quiet_period=0, run="test", spark=lambda: spark)
        assert (done.verdict, done.commit) == ("ok", commit), done.words
    assert rows(shop, "product", "id, name, price::text") == [*HELD[:2], (4, "Desk", "99.00"), (5, "RunStore", "60.00")]
    assert rows(shop, "store", "id, town, area") == [(10, "Winterthur", "ZH")]
    assert rows(shop, "product_scd2", "id, name, price::text, is_current") == VERSIONS, "as 0.1.0 has left them"
    done = update_versions(*places(shop, "shop.product"), quiet_period=0, spark=lambda: spark)
    assert done.verdict == "ok" and done.files["new"] == 1, done.words
    assert rows(shop, "product_scd2", "id, name, price::text, is_current") == sorted(
        [*VERSIONS[:-1], (4, "Desk", "120.00", False), (4, "Desk", "99.00", True), (5, "RunStore", "60.00", True)], key=str
    )
    part = said(shop, "feed", "shop.product", "--cursor", str(shop / "cursor.json"), "--out", str(shop / "feed"))
    assert "1 update" in part or "update" in part
