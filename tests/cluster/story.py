"""The shop's tables loaded and changed, in a process of its own: python story.py FOLDER   (SPARK_MASTER or SPARK_REMOTE says where)"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from dmscdc.capture.shop import write_shop, write_story
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.spark.session import ask_worker, open_session
from dmscdc.state.registry import open_state

TABLES = {"product": {"key": "id"}, "store": {"key": "id"}, "productorder": {"key": "id", "partition": "create_dt"}}


def main(root: Path) -> None:
    landing, state = root / "landing", f"sqlite:{root}/state.db"
    spark = open_session("story", master=os.environ.get("SPARK_MASTER"), conf={"spark.sql.shuffle.partitions": 2})
    said: dict[str, object] = {"package": ask_worker(spark)[1], "passes": []}
    for name, settings in TABLES.items():
        open_state(state).put_settings(TableRef("sampledb", name), **settings)
    os.environ["DMSCDC_SMALL_BYTES"] = "-1"  # nothing is done here
    for direct in ("0", str(1 << 30)):  # Spark brings the keys together; one task does it
        spark.conf.set("spark.dmscdc.directBytes", direct)
        (write_shop if direct == "0" else write_story)(landing)
        done = [process_table(f"sampledb.{name}", str(landing), str(root / "lake"), state, quiet_period=0, spark=lambda: spark) for name in TABLES]
        said["passes"].append([(d.table, d.verdict, d.words) for d in done])
    print(json.dumps(said))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
