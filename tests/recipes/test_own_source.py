"Change files of another capture tool, as notebooks/pages/own_source.md says: Debezium's envelopes, told by a random life."

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from debezium import DebeziumFile

from dmscdc.landing.files import TableRef
from dmscdc.stream.source import stage_changes

pytestmark = pytest.mark.test
FIELDS = [
    {"field": "id", "type": "int32", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {
        "field": "price",
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "9"},
    },
    {"field": "since", "type": "int32", "optional": True, "name": "io.debezium.time.Date"},
]
SCHEMA = {"type": "struct", "fields": [{"field": side, "type": "struct", "optional": True, "fields": FIELDS} for side in ("before", "after")]}


def told(row):
    "A row as Debezium tells it."
    if row is None:
        return None
    number, name, price, since = row
    cents = int(price * 100)
    return {"id": number, "name": name, "price": base64.b64encode(cents.to_bytes(4, signed=True)).decode(), "since": (since - date(1970, 1, 1)).days}


def envelope(op, before, after, table="product"):
    payload = {"op": op, "before": told(before), "after": told(after), "source": {"db": "sampledb", "table": table}}
    return json.dumps({"schema": SCHEMA, "payload": payload}) + "\n"


def life(seed, held, length):
    "Envelopes of a life of rows that the dictionary holds, and holds afterwards."
    rng = random.Random(seed)
    for _ in range(length):
        number = rng.randrange(20)
        row = (
            number,
            rng.choice(["Ball", "Bär", ""]),
            Decimal(rng.randrange(-500, 500)) / 100,
            date(2018, 1, 1) + timedelta(days=rng.randrange(900)),
        )
        before = held.get(number)
        if before and rng.random() < 0.4:
            del held[number]
            yield envelope("d", before, None)
            yield json.dumps({"schema": None, "payload": None}) + "\n"
        else:
            held[number] = row
            yield envelope("u" if before else "c", before, row)
        yield envelope("c", None, row, table="store")


def test_envelopes_of_debezium_become_a_table_that_equals_what_they_tell(tmp_path):
    path, held, product = tmp_path / "changes.jsonl", {}, TableRef("sampledb", "product")
    run = lambda *words: subprocess.run(
        [Path(sys.executable).with_name("dmscdc"), *words], cwd=tmp_path, check=True, capture_output=True, timeout=120
    )
    run("init", "--landing", "landing", "--lake", "lake", "--quiet-period", "0")
    (tmp_path / "landing").mkdir(exist_ok=True)
    snapshot = [(number, "Ball", Decimal("1.50"), date(2018, 12, 15)) for number in range(5)]
    held |= {row[0]: row for row in snapshot}
    path.write_text("".join(envelope("r", None, row) for row in snapshot))
    for step in range(3):
        lines = list(life(step, held, 30))
        with path.open("a") as file:
            file.writelines(lines[:-1])
            file.write(lines[-1][:50])  # a line is read when it is whole
            file.flush()
            stage_changes(DebeziumFile(str(path)), product, str(tmp_path / "landing"), str(tmp_path / "lake"))
            file.write(lines[-1][50:])
        if not step:
            run("table", "set", "sampledb.product", "--key", "id")
        run("pass")
    stage_changes(DebeziumFile(str(path)), product, str(tmp_path / "landing"), str(tmp_path / "lake"))
    run("pass")
    columns = ["id", "name", "price", "since"]
    rows = pq.read_table(tmp_path / "lake" / "sampledb" / "product", columns=columns, partitioning=None).to_pylist()
    assert sorted(map(tuple, (row.values() for row in rows))) == sorted(held.values())
    with path.open("a") as file:
        file.write(envelope("c", None, (1, "Ball", Decimal(1), date(2018, 1, 1)), table="store"))
    stage = lambda: stage_changes(DebeziumFile(str(path)), product, str(tmp_path / "landing"), str(tmp_path / "lake"))
    staged = stage()
    assert (staged.rows, staged.position["offset"]) == (0, path.stat().st_size), "lines of another table are read once"
    assert stage() is None
