"""What one row's life costs in a large table: python bench/history.py

Makes once, below .bench/, a table of 10,000 change files (100 rows each, random keys) and 10 M load rows; asks then for two keys."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dmscdc.capture.writer import change_name, load_name, put_file
from dmscdc.history.changelog import open_changelog
from dmscdc.history.lookup import KeyIndex
from dmscdc.history.row import row_lives
from dmscdc.landing.files import TableRef

FILES, ROWS, LOADS, LOADED = 10_000, 100, 10, 10_000_000
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ORDERS, HOME = TableRef("shop", "orders"), Path(".bench/history")


def rows_of(ids: np.ndarray, draw: np.random.Generator) -> pa.Table:
    "Orders with these ids."
    many = len(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "product": pa.array(draw.integers(1001, 1026, many), pa.int32()),
            "qty": pa.array(draw.integers(1, 11, many), pa.int32()),
            "note": pc.cast(pa.array(draw.integers(0, 1_000_000, many)), pa.string()),
            "at": pa.array(1_767_225_600_000_000 + ids % 86_400_000_000, pa.timestamp("us", "UTC")),
        }
    )


def make(landing: Path) -> None:
    "Write the table's files."
    draw, each = np.random.default_rng(7), LOADED // LOADS
    for number in range(LOADS):
        rows = rows_of(np.arange(number * each, (number + 1) * each), draw)
        put_file(landing, ORDERS, load_name(number + 1), rows, time=START + timedelta(seconds=number))
    for number in range(FILES):
        closed = START + timedelta(minutes=1 + number)
        ops = pa.array(draw.choice(["I", "U", "U", "U", "D"], ROWS))
        rows = rows_of(draw.integers(0, LOADED, ROWS), draw).add_column(0, "Op", ops)
        put_file(landing, ORDERS, change_name(closed), rows, time=closed + timedelta(seconds=2))


def main() -> None:
    landing = HOME / "landing"
    if not (landing / "shop").exists():
        begun = time.perf_counter()
        make(landing)
        print(f"made {FILES:,} change files and {LOADED:,} load rows in {time.perf_counter() - begun:.1f} s")
    begun, index = time.perf_counter(), KeyIndex(["id"])
    past = open_changelog(str(landing), ORDERS)
    print(f"listed in {time.perf_counter() - begun:.2f} s: {len(past.files):,} files")
    some = (pq.read_table(past.urls[f.path], columns=["id"])["id"].to_pylist() for f in past.changes[100:102])
    first, second = (min(ids, key=lambda id: abs(id - LOADED // 2)) for ids in some)
    for words, key in (("first", first), ("second", second), ("no such", -1)):
        opened, begun = index.opened, time.perf_counter()
        life = row_lives(past, [{"id": key}], index=index)[0]
        print(
            f"{words} key: {time.perf_counter() - begun:.2f} s, {len(life.steps)} rows, {index.opened - opened:,} files opened"
        )


if __name__ == "__main__":
    main()
