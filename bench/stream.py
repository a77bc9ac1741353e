"""How fast records of a stream become change files: windows of 50,000 records of 800 bytes, read from files, decoded, ordered and staged.

    .venv/bin/python bench/stream.py [RECORDS]

It prints records a second of each window, the last one's time beside the first one's, and the memory at the first and the last window.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from dmscdc.landing.files import TableRef
from dmscdc.storage.log_store import open_store
from dmscdc.stream.known import WindowIndex, lines_of_items
from dmscdc.stream.shards import Window
from dmscdc.stream.stage import Manifest, stage_window

WINDOW, SHARDS, START = 50_000, 4, 1_795_219_200_000_000
TABLE = TableRef("shop", "customer")


def customer(key: int, visits: int) -> dict:
    "One of a million customers."
    return {
        "id": {"S": str(key)},
        "custName": {"S": f"customer {key}"},
        "email": {"S": f"{key}@example.org"},
        "registrationDate": {"S": "2020-05-01"},
        "visits": {"N": str(visits)},
    }


def record(draw: random.Random, visits: list[int], at: int) -> bytes:
    "A change of a customer, 800 bytes."
    key = draw.randrange(len(visits))
    old = customer(key, visits[key])
    visits[key] += 1
    item = customer(key, visits[key])
    body = {
        "ApproximateCreationDateTime": at,
        "ApproximateCreationDateTimePrecision": "MICROSECOND",
        "Keys": {"id": item["id"]},
        "NewImage": item,
        "OldImage": old,
        "SizeBytes": 190,
    }
    text = {
        "awsRegion": "eu-west-1",
        "eventID": f"{draw.getrandbits(128):032x}",
        "eventName": "MODIFY",
        "userIdentity": None,
        "recordFormat": "application/json",
        "tableName": "customer",
        "dynamodb": body,
        "eventSource": "aws:dynamodb",
    }
    data = json.dumps(text)
    return (data[:-1] + " " * max(0, 800 - len(data)) + "}").encode()


def write_window(path: Path, number: int, visits: list[int]) -> None:
    "The records of a window, in no order: 'shard number data' a line."
    draw = random.Random(number)
    lines = [
        (
            f"shard-{draw.randrange(SHARDS)}",
            number * WINDOW + n,
            record(draw, visits, START + (number * WINDOW + n) * 1_000),
        )
        for n in range(WINDOW)
    ]
    draw.shuffle(lines)
    path.write_bytes(b"\n".join(f"{shard} {place} ".encode() + data for shard, place, data in lines))


def read_window(path: Path) -> Window:
    "What a fetcher has read."
    parts = (line.split(b" ", 2) for line in path.read_bytes().split(b"\n"))
    return Window(tuple((shard.decode(), place.decode(), data) for shard, place, data in parts), {}, {})


def main(records: int) -> None:
    visits, taken, memory, before = [0] * 1_000_000, [], [], Manifest(is_watched=True, loaded="an export", key=("id",))
    with tempfile.TemporaryDirectory() as root:
        known = WindowIndex(open_store(f"{root}/lake"), "known")
        known.add(0, lines_of_items((customer(key, 0) for key in range(len(visits))), ["id"], 1))
        for number in range(1, records // WINDOW + 1):
            path = Path(root, "window")
            write_window(path, number, visits)
            begun = time.perf_counter()
            before = stage_window(f"{root}/landing", TABLE, before, read_window(path), index=known)
            taken.append(time.perf_counter() - begun)
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            print(
                f"window {number}: {WINDOW / taken[-1]:,.0f} records a second, {memory[-1]:,.0f} MB at most so far",
                flush=True,
            )
    assert not before.missed, before.missed[:3]
    some = max(1, len(taken) // 5)
    ratio = sum(taken[-some:]) / sum(taken[:some])
    print(
        f"{WINDOW * len(taken):,} records, {WINDOW * len(taken) / sum(taken):,.0f} a second; the last {some} windows took {ratio:.2f} of the time of the first {some}; memory grew from {memory[0]:,.0f} to {memory[-1]:,.0f} MB"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 1_000_000)
