"""A table in an application that spark-submit starts: one_table.py FOLDER TABLE"""

from __future__ import annotations

import json
import sys

from dmscdc.load.process import process_table
from dmscdc.spark.session import ask_worker, open_session

root, table = sys.argv[1:]
done = process_table(table, f"{root}/landing", f"{root}/lake", f"sqlite:{root}/state.db", quiet_period=0)
spark = open_session()  # the same
said = {
    "verdict": done.verdict,
    "words": done.words,
    "master": spark.conf.get("spark.master"),
    "package": ask_worker(spark)[1],
    "driver": __import__("dmscdc").__file__,
}
print(json.dumps({**said, "memory": spark.conf.get("spark.executor.memory", None)}))
