"""A table of ten million rows beside its source: seconds, and rows that travel. `python bench/reconcile.py [ROWS] [FOLDER]`

Source is a SQLite file, lake a table of plain Parquet, Spark has two cores. First both are equal, then one value of the source is another.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dmscdc.capture.writer import write_load
from dmscdc.lake.table import open_table
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.reconcile.canonical import rules_of
from dmscdc.reconcile.compare import comparison_layout, spark_side, total_of
from dmscdc.reconcile.explain import ProofRequest, prove
from dmscdc.reconcile.source import address, columns_of, snapshot, source_name, source_side
from dmscdc.spark.session import open_session
from dmscdc.state.registry import open_state

A_FILE = 1_000_000  # rows of a load file
TABLE = TableRef("shop", "orders")


def rows(start: int, count: int) -> pa.Table:
    "Orders: a key, a number, a price, a day and a name."
    ids = pa.array(range(start, start + count), pa.int64())
    price = pc.cast(pc.cast(pc.bit_wise_and(ids, 65535), pa.decimal128(21, 2)), pa.decimal128(10, 2))
    days = pc.cast(pc.cast(pc.bit_wise_and(ids, 4095), pa.int32()), pa.date32())
    names = pc.binary_join_element_wise("order no ", pc.cast(ids, pa.string()), "")
    return pa.table(
        {"id": ids, "qty": pc.cast(pc.bit_wise_and(ids, 7), pa.int32()), "price": price, "day": days, "name": names}
    )


def made(home: Path, count: int) -> None:
    "The source, and load files of the same rows."
    db = sqlite3.connect(home / "shop.db")
    db.execute("create table orders (id integer primary key, qty int, price decimal(10,2), day date, name text)")
    for number, start in enumerate(range(0, count, A_FILE), 1):
        part = rows(start, min(A_FILE, count - start))
        write_load(home / "landing", TABLE, part, number=number)
        text = part.set_column(2, "price", pc.cast(part["price"], pa.string())).set_column(
            3, "day", pc.cast(part["day"], pa.string())
        )
        with db:
            db.executemany(
                "insert into orders values (?, ?, ?, ?, ?)", zip(*(column.to_pylist() for column in text.columns))
            )
    db.close()


def figure(what: str, seconds: float, said: str = "") -> None:
    print(f"{what:<44}{seconds:8.1f} s  {said}", flush=True)


def main(count: int, home: Path) -> None:
    places = [str(home / "landing"), str(home / "lake"), f"sqlite:{home / 'state.db'}"]
    start = time.perf_counter()
    made(home, count)
    figure(f"{count:,} rows written twice", time.perf_counter() - start)
    spark = open_session("bench", master="local[2]", conf={"spark.driver.memory": "2g"})
    open_state(places[2], places[0]).put_settings(TABLE, key="id")
    process_table(str(TABLE), *places, quiet_period=0, spark=lambda: spark)
    asked, lake = ProofRequest(TABLE, *places, f"sqlite:{home / 'shop.db'}"), open_table("parquet", places[1], TABLE)
    with ExitStack() as stack:
        look = stack.enter_context(snapshot(address(asked.source)))
        rules = rules_of("sqlite", lake.head().schema, columns_of(look, TABLE))
        sides = source_side(look, source_name(look, TABLE)), stack.enter_context(spark_side(spark, lake.read(spark)))
        layout, _, _ = comparison_layout(rules, ["id"], sides)
        for name, side in zip(("source", "lake"), sides):
            start = time.perf_counter()
            total_of(side, layout)
            figure(f"total of the {name}", time.perf_counter() - start)
    for what in ("equal", "one price of another"):
        done = prove(asked, lambda: spark)
        figure(what, done.seconds, f"{done.done.moved:,} rows moved: {done.words[:150]}")
        with sqlite3.connect(home / "shop.db") as db:
            db.execute("update orders set price = price + 1 where id = ?", (count // 3,))
    spark.stop()


if __name__ == "__main__":
    count = int(sys.argv[1].replace("_", "")) if sys.argv[1:] else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        main(count, Path(sys.argv[2] if sys.argv[2:] else folder))
