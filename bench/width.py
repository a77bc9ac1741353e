"""A table of 10, 100, 500 and 1,000 columns: a load with changes, and every question. `python bench/width.py [COLUMNS…]`

One session on two cores; few rows, so what is measured is what a column costs. Read the ratios: the time should grow with the columns, not with
their square. `direct` and `shuffled` are the two ways of the load; a first round with three columns warms Java and is not counted.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.history.as_of import as_of
from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.feed import feed
from dmscdc.history.span import landed
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.reconcile.explain import ProofRequest, prove
from dmscdc.scd2.update import update_versions
from dmscdc.spark.session import open_session
from dmscdc.state.registry import open_state

TABLE, ROWS = TableRef("wide", "item"), 200
KINDS = ("int", "string", "decimal(10,2)", "timestamp", "double")
WAYS = {"direct": str(128 << 20), "shuffled": "0"}


def landing(home: Path, columns: int) -> str:
    "A load, a change file with all columns, and one with a third of them; nulls but for one column in seven."
    shape = {"id": "int", **{f"c{n}": KINDS[n % len(KINDS)] for n in range(columns - 1)}}
    some = dict(list(shape.items())[: max(2, columns // 3)])
    row = lambda id, names: [id, *[id if n % 35 == 0 else None for n in range(len(names) - 1)]]
    write_load(home, TABLE, [row(id, shape) for id in range(ROWS)], shape)
    write_changes(home, TABLE, [["U", *row(id, shape)] for id in range(0, ROWS, 10)], "20181215-100100000", shape)
    write_changes(
        home, TABLE, [["D" if id % 20 else "U", *row(id, some)] for id in range(0, ROWS, 5)], "20181215-100200000", some
    )
    return str(home)


def source(lake: Path, file: Path) -> str:
    "A SQLite database with the rows of the lake."
    rows = pq.read_table(lake).drop_columns(["Op", "_cdc_file", "_cdc_row"])
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"create table item ({', '.join(f'{name} int' for name in rows.column_names)})")
        db.executemany(f"insert into item values ({','.join('?' * rows.num_columns)})", zip(*rows.to_pydict().values()))
    return f"sqlite:{file}"


def run(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def measured(spark: SparkSession, columns: int) -> dict[str, float]:
    "Seconds of each question."
    found = {}
    with tempfile.TemporaryDirectory(prefix="dmscdc-width-") as folder:
        raw = landing(Path(folder, "landing"), columns)
        past, state, lake = open_changelog(raw, TABLE), f"sqlite:{folder}/state.db", f"{folder}/direct"
        first = landed(upto(past, "load"))
        session = {"spark": lambda: spark, "quiet_period": 0}

        def load(way: str) -> None:
            at = f"sqlite:{folder}/{way}.db"
            open_state(at, raw).put_settings(TABLE, key="id")
            spark.conf.set("spark.dmscdc.directBytes", WAYS[way])
            process_table(str(TABLE), raw, f"{folder}/{way}", at, run="bench", **session)
            spark.conf.unset("spark.dmscdc.directBytes")

        open_state(state, raw).put_settings(TABLE, key="id")
        questions = {
            "direct": lambda: load("direct"),
            "shuffled": lambda: load("shuffled"),
            "as-of": lambda: run(as_of(spark, past, ["id"]).rows),
            "feed": lambda: run(feed(spark, past, ["id"], first).rows),
            "feed full": lambda: run(feed(spark, past, ["id"], first, net=False).rows),
            "feed reset": lambda: run(feed(spark, past, ["id"], net=False).rows),
            "scd2": lambda: update_versions(str(TABLE), raw, lake, state, landed=True, **session),
            "history": lambda: audit_row(raw, ParquetTable(lake, TABLE), {"id": "140"}),
            "reconcile": lambda: prove(
                ProofRequest(
                    TABLE,
                    raw,
                    lake,
                    f"sqlite:{folder}/direct.db",
                    source(Path(lake, "wide/item"), Path(folder, "shop.db")),
                ),
                session["spark"],
            ),
        }
        for name, ask in questions.items():
            start = time.perf_counter()
            ask()
            found[name] = time.perf_counter() - start
            print(f"{columns:>6} columns {name:<12}{found[name]:8.1f} s", file=sys.stderr, flush=True)
    return found


def main(widths: list[int]) -> None:
    spark = open_session(
        "width", master="local[2]", conf={"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": 2}
    )
    measured(spark, 3)
    found = {columns: measured(spark, columns) for columns in widths}
    first = found[widths[0]]
    print(f"{'':<12}" + "".join(f"{columns:>18,}" for columns in widths))
    for name in first:
        print(
            f"{name:<12}" + "".join(f"{one[name]:>9.1f} s {one[name] / first[name]:>5.1f}x" for one in found.values())
        )
    spark.stop()


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or [10, 100, 500, 1000])
