"""A table whose load lies in one place and whose changes in another, as two tasks of DMS write it."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.main import app
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.state.registry import open_state
from dmscdc.stream.stage import put_table

pytestmark = pytest.mark.test

TABLE, COLUMNS = "shop.item", {"id": "int", "name": "string"}
LOADED, FIRST, SECOND = (datetime(2026, 3, 1, hour, tzinfo=timezone.utc) for hour in (9, 10, 11))


def test_a_pass_and_every_question_read_loads_and_changes_of_both(spark, tmp_path):
    full, cdc = tmp_path / "raw/full", tmp_path / "raw/cdc"
    places = {"landing": f"{full},{cdc}", "lake": str(tmp_path / "lake"), "state": f"sqlite:{tmp_path / 'state.db'}"}
    write_load(full, TABLE, [(1, "a"), (2, "b")], COLUMNS, time=LOADED)
    write_changes(cdc, TABLE, [("U", 1, "A"), ("D", 2, "b"), ("I", 3, "c")], closed=FIRST, schema=COLUMNS)
    open_state(places["state"]).put_settings(TableRef.parse(TABLE), key="id")
    run = lambda: process_table(TABLE, **places, quiet_period=0, spark=lambda: spark).verdict
    rows = lambda: duckdb.sql(f"select id, name from read_parquet('{tmp_path}/lake/shop/item/**/*.parquet') order by 1").fetchall()
    assert (run(), rows()) == ("ok", [(1, "A"), (3, "c")])

    write_changes(cdc, TABLE, [("U", 3, "C")], closed=SECOND, schema=COLUMNS)
    assert (run(), run()) == ("ok", "nothing")

    def asked(*words: str):
        flags = ["--landing", str(full), "--landing", str(cdc), *(f"--{name}={places[name]}" for name in ("lake", "state"))]
        done = CliRunner().invoke(app, [*words, *flags, "--folder", str(tmp_path), "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert [(row["key"]["id"], row["meant"]) for row in asked("changes", TABLE)] == [(1, "updated"), (2, "deleted"), (3, "inserted"), (3, "updated")]


def test_a_stream_is_staged_in_the_first_of_them(tmp_path):
    put_table(f"{tmp_path}/one,{tmp_path}/two", TableRef.parse(TABLE), "20260301-100000000.parquet", pa.table({"id": [1]}))
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")] == ["one/shop/item/20260301-100000000.parquet"]
