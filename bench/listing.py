"""What planning a landing of a million objects costs: python bench/listing.py [MINUTES between two files of a table]

No AWS: requests are signed, answered in this process from a list in memory after 50 ms, and parsed, all as if they had been sent."""

from __future__ import annotations

import os
import shutil
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from botocore.awsrequest import AWSResponse

from dmscdc.landing.files import RawFile, TableRef
from dmscdc.load.plan import advance
from dmscdc.state.position import Position

TABLES, FILES, BUSY, MORE, WAIT = (
    200,
    5_000,
    50,
    3,
    0.05,
)  # tables, objects of each, tables with something new, new files of each, seconds a request
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
NEVER = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "eu-central-1"}


class Bucket:
    "Sorted keys that answer `ListObjectsV2`; counts the requests, and the seconds that answering took."

    def __init__(
        self, keys: Iterable[str], wait: float = 0.0, put: Mapping[str, float] | None = None
    ):  # object times; None: as the names say
        self.keys, self.wait, self.put, self.asked, self.seconds, self._lock = sorted(keys), wait, put, [], 0.0, Lock()

    def install(self, s3: Any) -> None:
        "Answer instead of the network."
        s3.meta.events.register("before-send.s3.ListObjectsV2", self.answer)

    def answer(self, request: Any, **_: Any) -> AWSResponse:
        begun, query = (
            time.thread_time(),
            {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()},
        )
        body = self.page(
            query.get("prefix", ""),
            query.get("continuation-token") or query.get("start-after", ""),
            query.get("delimiter", ""),
        )
        with self._lock:
            self.asked.append({**query, "payer": request.headers.get("x-amz-request-payer", b"").decode()})
            self.seconds += time.thread_time() - begun
        time.sleep(self.wait)
        return AWSResponse(
            request.url, 200, {"content-type": "application/xml"}, SimpleNamespace(stream=lambda: iter([body]))
        )

    def put_at(self, key: str) -> str:
        return (
            put_at(key)
            if self.put is None
            else f"{datetime.fromtimestamp(self.put[key], timezone.utc):%Y-%m-%dT%H:%M:%S}.000Z"
        )

    def page(self, prefix: str, after: str, delimiter: str) -> bytes:
        "A thousand keys or common beginnings, as S3 writes them."
        lines, token, i = [], "", max(bisect_left(self.keys, prefix), bisect_right(self.keys, after))
        while i < len(self.keys) and self.keys[i].startswith(prefix):
            if len(lines) == 1000:
                token = self.keys[i - 1]
                break
            key, end = self.keys[i], self.keys[i].find(delimiter, len(prefix)) if delimiter else -1
            if end < 0:
                lines.append(
                    f"<Contents><Key>{quote(key)}</Key><LastModified>{self.put_at(key)}</LastModified><ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag>"
                    "<Size>804</Size><StorageClass>STANDARD</StorageClass></Contents>"
                )
                i += 1
            else:
                lines.append(f"<CommonPrefixes><Prefix>{quote(key[: end + 1])}</Prefix></CommonPrefixes>")
                i = bisect_left(self.keys, key[: end + 1] + "\U0010ffff")
        more = (
            f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
            if token
            else "<IsTruncated>false</IsTruncated>"
        )
        return f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><EncodingType>url</EncodingType>{"".join(lines)}{more}</ListBucketResult>'.encode()


def put_at(key: str) -> str:
    "A second after the time in its name; load files at the start."
    digits = key.rpartition("/")[2]
    if not digits[:8].isdigit():
        return f"{START:%Y-%m-%dT%H:%M:%S}.000Z"
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}T{digits[9:11]}:{digits[11:13]}:{digits[13:15]}.999Z"


def names(number: int, minutes: float, first: int = 0) -> list[str]:
    "Change files, one every so many minutes."
    return [f"{START + timedelta(minutes=minutes * (first + 1 + n)):%Y%m%d-%H%M%S}123.parquet" for n in range(number)]


def landing_keys(tables: Iterable[TableRef], files: int, minutes: float, busy: int, more: int) -> list[str]:
    "The keys of all tables: a load file, change files, and in busy tables some more."
    below = ["LOAD00000001.parquet", *names(files - 1, minutes)]
    new = names(more, minutes, files - 1)
    return [
        f"raw/{table.schema}/{table.name}/{name}"
        for n, table in enumerate(tables)
        for name in (below + new if n < busy else below)
    ]


def applied(files: int, minutes: float) -> Position:
    "The position of a table that has applied all but the new files."
    seconds = {
        name: datetime.fromisoformat(put_at(name).replace("Z", "+00:00")).timestamp()
        for name in ("LOAD00000001.parquet", *names(files - 1, minutes))
    }
    load, *changes = [RawFile(name, 804, at) for name, at in seconds.items()]
    return advance(Position(load=1, load_files=(load,), listed_at=changes[-1].time), changes)


def some_tables(number: int) -> list[TableRef]:
    return [TableRef("sampledb", f"table{n:03d}") for n in range(number)]


def measure(where: Path, minutes: float) -> dict[str, float]:
    "A look at the whole landing, as `dmscdc plan` makes it."
    from dmscdc.lake.table import Transaction
    from dmscdc.load.table_state import load_state
    from dmscdc.service.config import Config
    from dmscdc.service.status import read_statuses
    from dmscdc.state.registry import open_state
    from dmscdc.storage.filesystem import client

    os.environ |= NEVER
    shutil.rmtree(where, ignore_errors=True)
    config = Config("s3://shop/raw", str(where / "lake"), f"sqlite:{where}/state.db", quiet_period=0)
    tables, state, position = some_tables(TABLES), open_state(config.state), applied(FILES, minutes)
    for table in tables:
        state.put_settings(table, key="id")
        load_state(state, table, config.lake).lake.commit_position(
            Transaction(None, position.to_json(), "bench", (), ("id",))
        ).commit()
        load_state(state, table, config.lake)
    bucket = Bucket(landing_keys(tables, FILES, minutes, BUSY, MORE), WAIT)
    bucket.install(client("s3"))
    wall, cpu = time.perf_counter(), time.process_time()
    looks = read_statuses(config, now=START.timestamp() + 60 * minutes * (FILES + MORE))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu - bucket.seconds
    assert sum(look.has_work for look in looks) == BUSY and not any(look.problem for look in looks), [
        look.problem or look.plan.sentence for look in looks
    ][:3]
    shutil.rmtree(where)
    return {
        "objects": len(bucket.keys),
        "minutes": minutes,
        "requests": len(bucket.asked),
        "wall": round(wall, 2),
        "cpu": round(cpu, 2),
        "stub_cpu": round(bucket.seconds, 2),
    }


if __name__ == "__main__":
    print(measure(Path(".bench/listing").absolute(), float(sys.argv[1]) if len(sys.argv) > 1 else 10))
