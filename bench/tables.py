"""Many small tables: a pass beside a loop of Delta's MERGE and a loop of DuckDB statements: python bench/tables.py 20 300 --idle 2000

Each table has 100 rows and a change file of three; then comes a second such file, which is what is measured. Idle tables are loaded as well, and get nothing more. The loops run in one warm process
each, whose start is not counted; a pass counts whole. Processor seconds are those of the pass's processes. Read the ratios, which are of one run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from run import WHERE

PROGRAM = Path(sys.executable).with_name("dmscdc")
CHANGE = "20260101-00000{}001.parquet"


def write(path: Path, ids: list[int], value: str, op: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table({**({"Op": [op] * len(ids)} if op else {}), "id": pa.array(ids, pa.int64()), "v": [value] * len(ids)}),
        path,
    )


def kind_of(words: list[str]) -> str:
    "What a process is, by its command."
    line = " ".join(words)
    if "java" in words[0]:
        return "Java"
    if "pyspark" in line and "daemon" in line:
        return "Python of Spark"
    return "kernels" if "serve_forks" in line or "ipykernel" in line else "pass"


def processor_seconds(process: subprocess.Popen) -> str:
    "Of a process and all that it starts, until it ends, by kind."
    seen: dict[psutil.Process, tuple[str, float]] = {}
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(process.pid)
            for one in (root, *root.children(recursive=True)):
                with suppress(psutil.Error, IndexError):
                    seen[one] = kind_of(one.cmdline()), sum(one.cpu_times()[:2])
        time.sleep(0.1)
    total: Counter = Counter()
    for kind, seconds in seen.values():
        total[kind] += seconds
    return ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in total.most_common())


def one_pass(folder: Path) -> tuple[float, str, str]:
    "Seconds, the last line, and processor seconds."
    places = [
        "--landing",
        folder / "landing",
        "--lake",
        folder / "lake",
        "--state",
        f"sqlite:{folder}/state.db",
        "--runs",
        folder / "runs",
        "--quiet-period",
        "0",
    ]
    begun = time.time()
    with (folder / "pass.log").open("w+") as log:
        process = subprocess.Popen(
            [PROGRAM, "pass", *map(str, places)], stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        processors = processor_seconds(process)
        took = time.time() - begun
        log.seek(0)
        return took, log.read().strip().splitlines()[-1], processors


def delta(folder: Path, tables: list[str]) -> float:
    "Seconds of a loop of MERGE over the second change files, after one over the first."
    from dmscdc.spark.session import open_session

    spark = open_session("peer", master="local[2]", format="delta")
    for table in tables:
        spark.createDataFrame([(key, "a") for key in range(100)], "id long, v string").coalesce(1).write.format(
            "delta"
        ).save(f"{folder}/delta/{table}")
    for turn in (1, 2):
        begun = time.time()
        for table in tables:
            spark.read.parquet(
                str(folder / "landing" / table.replace(".", "/") / CHANGE.format(turn))
            ).createOrReplaceTempView("c")
            spark.sql(f"""merge into delta.`{folder}/delta/{table}` t using (select * from (select *, row_number() over (partition by id order by Op) n from c) where n = 1) s on t.id = s.id
                when matched and s.Op = 'D' then delete when matched then update set v = s.v when not matched and s.Op <> 'D' then insert (id, v) values (s.id, s.v)""")
    seconds = time.time() - begun
    spark.stop()
    return seconds


def duck(folder: Path, tables: list[str]) -> float:
    "The same for files that DuckDB writes anew."
    import duckdb

    (folder / "duck").mkdir()
    with duckdb.connect() as db:
        for table in tables:
            db.execute(
                f"copy (select id, v from '{folder}/landing/{table.replace('.', '/')}/LOAD00000001.parquet') to '{folder}/duck/{table}.parquet'"
            )
        for turn in (1, 2):
            begun = time.time()
            for table in tables:
                news = f"(select * from '{folder}/landing/{table.replace('.', '/')}/{CHANGE.format(turn)}' qualify row_number() over (partition by id order by Op) = 1)"
                db.execute(
                    f"copy (select id, v from '{folder}/duck/{table}.parquet' anti join {news} using (id) union all select id, v from {news} where Op <> 'D') to '{folder}/duck/{table}.new' (format parquet)"
                )
                os.replace(folder / f"duck/{table}.new", folder / f"duck/{table}.parquet")
    return time.time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=int)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="without the loops")
    options = parser.parse_args()
    from dmscdc.landing.files import TableRef
    from dmscdc.state.sqlite import SqliteState

    for number in options.tables:
        folder = WHERE / "tables"
        shutil.rmtree(folder, ignore_errors=True)
        busy, idle = (
            [f"s.{kind}{i:04d}" for i in range(count)] for kind, count in (("t", number), ("idle", options.idle))
        )
        for table in (*busy, *idle):
            write(folder / "landing" / table.replace(".", "/") / "LOAD00000001.parquet", list(range(100)), "a")
        state = SqliteState(folder / "state.db")
        for table in (*busy, *idle):
            state.put_settings(TableRef.parse(table), key="id")
        seconds = {"load": one_pass(folder)}
        for turn in (1, 2):
            for table in busy:
                write(folder / "landing" / table.replace(".", "/") / CHANGE.format(turn), [1, 2, 3], f"b{turn}", "U")
            seconds["changes"] = one_pass(folder)
        seconds["nothing new"] = one_pass(folder)
        for what, (took, said, processors) in seconds.items():
            many = number + options.idle * (what == "load")
            print(
                f"{number} tables, {options.idle} idle, {what}: {took:.1f} s, {took / many:.2f} a table ({said}); processor seconds: {processors}",
                flush=True,
            )
        if options.alone:
            continue
        for name, peer in (("Delta's MERGE", delta), ("DuckDB", duck)):
            took = peer(folder, busy)
            print(
                f"{number} tables, {name}: {took:.1f} s, {took / number:.2f} a table; ours takes {seconds['changes'][0] / took:.2f} of it",
                flush=True,
            )


if __name__ == "__main__":
    main()
