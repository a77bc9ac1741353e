"""Envelopes of Debezium as change files: JSON with schemas, a line each, as its sink for files writes them."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dmscdc.landing.files import TableRef
from dmscdc.stream.source import Records

OPERATIONS = {"r": "I", "c": "I", "u": "U", "d": "D"}  # r: a row of the snapshot
TYPES = {
    "boolean": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "io.debezium.time.Date": pa.date32(),
    "io.debezium.time.MicroTimestamp": pa.timestamp("us"),
}


def arrow_type(field: dict[str, Any]) -> pa.DataType:
    "The type of a field of Kafka Connect."
    if field.get("name") == "org.apache.kafka.connect.data.Decimal":
        told = field["parameters"]
        return pa.decimal128(int(told.get("connect.decimal.precision", 38)), int(told["scale"]))
    return TYPES[field.get("name", field["type"])] if field.get("name") in TYPES else TYPES[field["type"]]


def value_of(value: Any, kind: pa.DataType) -> Any:
    "A value as Arrow takes it."
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        unscaled = int.from_bytes(base64.b64decode(value), signed=True)
        return Decimal(unscaled).scaleb(-kind.scale)
    if pa.types.is_date(kind):
        return date(1970, 1, 1) + timedelta(days=value)
    if pa.types.is_timestamp(kind):
        return datetime(1970, 1, 1) + timedelta(microseconds=value)
    return base64.b64decode(value) if pa.types.is_binary(kind) else value


class DebeziumFile:
    "Changes of tables in one file that grows."

    name = "debezium"

    def __init__(self, path: str):
        self.path = path

    def read(self, table: TableRef, position: dict[str, Any]) -> Records | None:
        offset, rows, types = position.get("offset", 0), [], {"Op": pa.string()}
        with open(self.path, "rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):  # still being written
                    break
                offset += len(line)
                envelope = json.loads(line)
                payload = envelope["payload"]  # None: a tombstone, which says nothing new
                if not payload or (payload["source"]["db"], payload["source"]["table"]) != (table.schema, table.name):
                    continue
                side = "before" if payload["op"] == "d" else "after"
                fields = next(one["fields"] for one in envelope["schema"]["fields"] if one["field"] == side)
                types |= {one["field"]: arrow_type(one) for one in fields}
                row = {name: value_of(value, types[name]) for name, value in payload[side].items()}
                rows.append({"Op": OPERATIONS[payload["op"]], **row})
        return Records(pa.Table.from_pylist(rows, pa.schema(types.items())), {"offset": offset})
