"""The story in one format (`DMSCDC_FORMAT`), through the command line; rows are read by a program that shares no code with Spark or with us."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from readers import FORMAT, source
from said import contradictions

pytestmark = pytest.mark.proof if FORMAT == "delta" else pytest.mark.torture  # told once in CI

TABLES = {"product": "id, name, dept, category, price", "store": "id, address, city, state", "productorder": "id, productid, storeid, qty, soldprice"}


def said(home: Path, *words: str) -> str:
    done = subprocess.run([Path(sys.executable).parent / "dmscdc", *words], cwd=home, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"dmscdc {' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("story") / "demo"
    said(folder.parent, "demo", str(folder), "--format", FORMAT)
    return folder


@pytest.mark.parametrize("table", TABLES)
def test_another_reader_finds_the_rows_of_the_source(home, table):
    with duckdb.connect() as duck:
        lake = duck.execute(f"select {TABLES[table]} from {source(duck, home / 'lake' / 'sampledb' / table)}").fetchall()
    with closing(sqlite3.connect(home / "shop.db")) as shop:
        rows = shop.execute(f"select {TABLES[table]} from {table}").fetchall()
    told = lambda some: sorted(tuple(value if isinstance(value, str) else Decimal(str(value)) for value in row) for row in some)
    assert told(lake) == told(rows) and len(rows) > 8


def test_the_report_of_a_run_shows_rows_before_and_after(home):
    report = sorted((home / "runs" / "process_table" / "sampledb.product").glob("*.html"))[-1].read_text()
    shown = report.partition("Rows before and after")[2]
    with closing(sqlite3.connect(home / "shop.db")) as shop:
        ((name, price),) = shop.execute("select name, price from product where id = 1001").fetchall()
    assert str(price) in shown or name in shown, shown[:2000]
    assert contradictions(home / "runs") == []


@pytest.mark.torture
def test_a_row_is_explained_an_earlier_commit_read_and_versions_kept(home):
    assert "matches the raw files" in " ".join(said(home, "history", "sampledb.product", "--key", "id=1001").split())
    said(home, "as-of", "sampledb.product", "--commit", "1", "--out", "then")
    assert duckdb.sql(f"select name from '{home}/then/**/*.parquet' where id = 1001").fetchall() == [("Trail Lantern 300",)]
    assert "26        24" in said(home, "scd2", "sampledb.product")


def test_the_state_may_be_lost_and_a_pass_without_news_does_nothing(home):
    (home / "state.db").unlink()
    assert "sampledb.product" in said(home, "table", "rebuild")
    for table in TABLES:
        said(home, "table", "set", f"sampledb.{table}", "--key", "id")
    assert "3 nothing" in said(home, "pass")
