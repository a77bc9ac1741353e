"""The same by dmscdc: one table processed twice, once with its load files, once with the change files beside them.

python bench/ours.py RAW OUT [FORMAT]   prints one line of JSON; Spark's start is not counted.
The lake's files are at OUT/lake/sampledb/productorder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from measure import differing, java_megabytes, phase

from dmscdc.lake.table import open_table
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.load.results import Processed
from dmscdc.spark.session import open_session
from dmscdc.state.registry import open_state

MEMORY = "3g"
TABLE = TableRef("sampledb", "productorder")


def arrive(raw: Path, landing: Path, pattern: str) -> None:
    "Files of the raw data appear in the landing, with their times."
    landing.mkdir(parents=True, exist_ok=True)
    for file in sorted(raw.glob(pattern)):
        os.link(file, landing / file.name)


def main(raw: Path, out: Path, format: str = "parquet") -> None:
    spark = open_session("bench", master="local[2]", conf={"spark.driver.memory": MEMORY}, format=format)
    spark.range(1).count()
    shutil.rmtree(out, ignore_errors=True)
    folder, state, said, done = out / "landing" / TABLE.schema / TABLE.name, f"sqlite:{out}/state.db", {}, []

    def process() -> Processed:
        return process_table(
            str(TABLE), str(out / "landing"), str(out / "lake"), state, quiet_period=0, spark=lambda: spark
        )

    open_state(state).put_settings(TABLE, key=("id",), format=format)
    for name, pattern in (("initial", "LOAD*"), ("incremental", "2*")):
        arrive(raw / TABLE.schema / TABLE.name, folder, pattern)
        with phase(name, said):
            done.append(process())
        assert done[-1].verdict == "ok", f"{name}: {done[-1].verdict}: {done[-1].words}"
    said |= {"files_rewritten": done[1].lake["files_rewritten"], "counts": done[1].rows, "lake": done[1].lake}
    if format != "parquet":  # which `bench/run.py` reads without Spark
        said["differing"] = differing(open_table(format, str(out / "lake"), TABLE).read(spark), raw)
    print(json.dumps({**said, "steps": [d.seconds for d in done], "driver": MEMORY, "java_mb": java_megabytes()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute(), *sys.argv[3:])
