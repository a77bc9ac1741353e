"""How long change files take as CSV and as Parquet: the same million changes of a table of a million rows, in turn, in one session.

    .venv/bin/python bench/csv_files.py [CHANGES]
    .venv/bin/python bench/csv_files.py --large

It prints seconds of each load and batch, their ratio, and the memory that reading the CSV took at most. With --large it loads one CSV file of 16 million rows
(1.3 GB) with a driver of 2 GB.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow.csv import WriteOptions, write_csv

from dmscdc.capture.writer import DmsSettings, write_changes, write_load
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.spark.session import open_session
from dmscdc.state.sqlite import SqliteState

ROWS, T, TURNS = 1_000_000, TableRef("shop", "orders"), 2
COLUMNS = [
    ("id", "int"),
    ("store", "int"),
    ("price", "decimal(10,2)"),
    ("name", "string"),
    ("at", "timestamp"),
    ("share", "double"),
]


def rows(count: int, seed: int) -> pa.Table:
    "Random rows of orders; ids from 0, or drawn."
    draw = np.random.default_rng(seed)
    ids = np.arange(ROWS) if not seed else draw.permutation(ROWS)[:count]
    price = (
        pa.array(draw.integers(1, 10_000, count))
        .cast(pa.decimal128(19, 0))
        .cast(pa.decimal128(21, 2))
        .cast(pa.decimal128(10, 2))
    )
    at = pa.array(draw.integers(1_500_000_000, 1_600_000_000, count) * 10**6).cast(pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "store": pa.array(draw.integers(0, 1000, count), pa.int32()),
            "price": price,
            "name": pa.array(np.char.add("order ", draw.integers(0, 10**6, count).astype(str))),
            "at": at,
            "share": draw.random(count),
        }
    )


def main(changes: int) -> None:
    spark = open_session("bench", master="local[2]", conf={"spark.driver.memory": "2g"})
    load, batch = rows(ROWS, 0), rows(changes, 1)
    taken: dict[tuple[str, str], list[float]] = {}
    for turn in range(TURNS):
        for kind in ("parquet", "csv"):
            with tempfile.TemporaryDirectory() as root:
                settings = DmsSettings(data_format=kind)
                SqliteState(f"{root}/state.db").put_settings(T, key="id", columns=COLUMNS)
                write_load(
                    f"{root}/landing", T, load, settings=settings, moment=datetime(2018, 12, 14, tzinfo=timezone.utc)
                )
                for what in ("load", "changes"):
                    if what == "changes":
                        write_changes(
                            f"{root}/landing",
                            T,
                            batch.add_column(0, "Op", pa.array(["U"] * changes)),
                            "20181215-100311204",
                            settings=settings,
                        )
                    begun = time.perf_counter()
                    done = process_table(
                        str(T),
                        f"{root}/landing",
                        f"{root}/lake",
                        f"sqlite:{root}/state.db",
                        quiet_period=0,
                        spark=lambda: spark,
                    )
                    assert done.verdict == "ok", done.words
                    taken.setdefault((what, kind), []).append(time.perf_counter() - begun)
                size = sum(path.stat().st_size for path in Path(root, "landing").rglob("*") if path.is_file())
                print(
                    f"turn {turn + 1}, {kind}: load {taken['load', kind][-1]:.1f} s, changes {taken['changes', kind][-1]:.1f} s, {size / 1e6:,.0f} MB of raw files",
                    flush=True,
                )
    for what in ("load", "changes"):
        ratio = min(taken[what, "csv"]) / min(taken[what, "parquet"])
        print(f"{what}: CSV takes {ratio:.2f} of the time of Parquet")
    print(
        f"this process had {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB at most, the raw rows of the bench among them"
    )


def large(millions: int = 16) -> None:
    spark = open_session("bench", master="local[2]", conf={"spark.driver.memory": "2g"})
    with tempfile.TemporaryDirectory() as root:
        SqliteState(f"{root}/state.db").put_settings(T, key="id", columns=COLUMNS)
        load = Path(root, "landing", str(T).replace(".", "/"), "LOAD00000001.csv")
        load.parent.mkdir(parents=True)
        with load.open("wb") as file:
            for million in range(millions):
                some = rows(ROWS, 0)
                some = some.set_column(0, "id", pa.array(np.arange(ROWS) + million * ROWS, pa.int32()))
                some = some.set_column(4, "at", some["at"].cast(pa.timestamp("us")))  # without a zone, as DMS writes it
                write_csv(some, file, WriteOptions(include_header=False))
        begun = time.perf_counter()
        done = process_table(
            str(T), f"{root}/landing", f"{root}/lake", f"sqlite:{root}/state.db", quiet_period=0, spark=lambda: spark
        )
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{load.stat().st_size / 1e6:,.0f} MB: {done.verdict}, {done.words}, in {time.perf_counter() - begun:.0f} s; this process had {most:,.0f} MB at most"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["--large"]:
        large()
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 1_000_000)
