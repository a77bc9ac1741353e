"""Every key's newest change, out of one large file that many tasks read: python order.py MASTER FOLDER"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dmscdc.changes.read import change_files
from dmscdc.changes.schema import evolve, read_footers
from dmscdc.changes.stage import batch_frame, stage
from dmscdc.spark.session import open_session

KEYS, TURNS = 20_000, 40


def write(path: Path) -> None:
    "Each key is updated in each of 40 turns; 10,000 rows a row group, and enough text for 30 MB."
    rng, keys = np.random.default_rng(7), np.arange(KEYS, dtype="int32")
    with pq.ParquetWriter(path, pa.schema([("Op", pa.string()), ("id", pa.int32()), ("turn", pa.int32()), ("note", pa.string())])) as file:
        for turn in range(TURNS):
            notes = [f"{n:x}" for n in rng.integers(0, 2**62, KEYS) * 1 + turn]
            rows = pa.table(
                {
                    "Op": ["U"] * KEYS,
                    "id": rng.permutation(keys),
                    "turn": np.full(KEYS, turn, "int32"),
                    "note": [f"{a}{b}" for a, b in zip(notes, notes[::-1])],
                }
            )
            file.write_table(rows.cast(file.schema), row_group_size=10_000)


def main(master: str, folder: Path) -> None:
    os.environ["DMSCDC_SMALL_BYTES"] = "-1"
    name = "20181215-100000000.parquet"
    write(folder / name)
    settings = {"spark.dmscdc.directBytes": 0, "spark.sql.files.maxPartitionBytes": "2mb", "spark.executor.memory": "1g"}
    spark = open_session("order", master=master, conf=settings)
    urls = {name: str(folder / name)}
    footers = read_footers(urls)
    files = change_files(footers, urls, evolve("shop.item", (), footers).schema)
    tasks = spark.read.parquet(urls[name]).rdd.getNumPartitions()
    batch = stage(spark, files, ["id"], str(folder / "staged"))
    stale = batch_frame(spark, batch).where(f"turn <> {TURNS - 1}").count()
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print(
        json.dumps(
            {"megabytes": (folder / name).stat().st_size >> 20, "tasks": tasks, "executors": executors, "keys": batch.counts.keys, "stale": stale}
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
