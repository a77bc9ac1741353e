"""A stream whose shards are read by tasks on a cluster: stream.py FOLDER. Its last line tells what the lake holds, what was put, and on which processes the tasks ran."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import boto3

from dmscdc.load.process import process_table
from dmscdc.spark.session import ask_worker, open_session
from dmscdc.stream.follow import follow

START, TABLE = 1_795_219_200_000_000, "shop.customer"


def main(root: Path) -> None:
    "Three windows of changes in four shards."
    spark, kinesis, draw, items = (
        open_session("stream", master=os.environ["CLUSTER"], conf={"spark.sql.shuffle.partitions": 2}),
        boto3.client("kinesis"),
        random.Random(5),
        {},
    )
    kinesis.create_stream(StreamName="customers", ShardCount=4)
    kinesis.get_records = None  # nobody reads a shard here
    (root / "landing").mkdir()
    places, done, at = (f"{root}/landing", f"{root}/lake", f"sqlite:{root}/state.db"), [], START
    for _ in range(3):
        records = []
        for _ in range(40):
            at, key = at + draw.randrange(1, 10_000), draw.choice("abcdefghijklmnop")
            old, new = items.get(key), {"id": {"S": key}, "n": {"N": str(draw.randrange(1000))}} if draw.random() < 0.8 else None
            items.pop(key, None)
            if new:
                items[key] = new
            body = {
                "ApproximateCreationDateTime": at,
                "Keys": {"id": {"S": key}},
                **({"OldImage": old} if old else {}),
                **({"NewImage": new} if new else {}),
            }
            event = "REMOVE" if not new else "MODIFY" if old else "INSERT"
            records.append({"Data": json.dumps({"eventName": event, "dynamodb": body}).encode(), "PartitionKey": str(draw.random())})
        draw.shuffle(records)
        kinesis.put_records(StreamName="customers", Records=records)
        apply = lambda: process_table(TABLE, *places, quiet_period=0, spark=lambda: spark)
        done.append(follow("customers", TABLE, *places, apply, key=["id"], drain=True, client=kinesis, spark=lambda: spark).verdict)
    left = [path.name for path in (root / "lake/_dmscdc/_fetched").rglob("*.parquet")]
    print(
        json.dumps(
            {"done": done, "items": sorted((key, item["n"]["N"]) for key, item in items.items()), "left": left, "package": ask_worker(spark)[1]}
        )
    )


main(Path(sys.argv[1]))
