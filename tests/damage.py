"Raw files that are damaged on purpose, each with the words that must be said of it. Made with pyarrow, at places that are found in its own metadata."

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 150
SOURCE = {"id": "int", "site": "string", "name": "string", "price": "double", "at": "timestamp"}


def rows_of(op: str | None, first: int = 0) -> pa.Table:
    "Sound rows, with or without Op."
    ids = range(first, first + ROWS)
    columns = {
        "id": pa.array(ids, pa.int32()),
        "site": [f"site {i % 3}" for i in ids],
        "name": [f"name {i}" for i in ids],
        "price": [i * 1.5 for i in ids],
        "at": pa.array([i * 1000 for i in ids], pa.timestamp("ms", "UTC")),
    }
    return pa.table({"Op": [op] * ROWS, **columns} if op else columns)


def encoded(rows: pa.Table, **how: str) -> bytes:
    "A Parquet file of three row groups."
    out = io.BytesIO()
    pq.write_table(rows, out, **{"compression": "gzip", "row_group_size": 60, "store_schema": False, "use_dictionary": ["site"], **how})
    return out.getvalue()


def flipped(raw: bytes, place: int, bit: int) -> bytes:
    "The same with one bit turned over."
    return raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :]


def end_with(raw: bytes, odd: Callable[[pq.FileMetaData], bool]) -> bytes:
    "The first flip of a bit at the file's end after which its metadata can be read, and are odd in this way."
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    for place in range(start, len(raw) - 8):
        for bit in range(8):
            damaged = flipped(raw, place, bit)
            try:
                meta = pq.ParquetFile(pa.BufferReader(damaged)).metadata
            except (OSError, pa.ArrowException, UnicodeDecodeError):
                continue
            if odd(meta):
                return damaged
    raise AssertionError("no such flip")


def groups(meta: pq.FileMetaData) -> list[int]:
    return [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]


def more_throughout(raw: bytes) -> bytes:
    "The end and one of its row groups promise the same row too many: only who reads the rows finds out."
    more = end_with(raw, lambda m: m.num_rows == ROWS + 1 and sum(groups(m)) == ROWS)
    return end_with(more, lambda m: m.num_rows == ROWS + 1 == sum(groups(m)))


def fewer_throughout(raw: bytes) -> bytes:
    "The end and one of its row groups promise as many rows too few: readers stop there, and only the columns say that there is more."
    fewer = end_with(raw, lambda m: 0 < m.num_rows < ROWS and sum(groups(m)) == ROWS)
    promised = pq.ParquetFile(pa.BufferReader(fewer)).metadata.num_rows
    return end_with(fewer, lambda m: m.num_rows == promised == sum(groups(m)))


def in_page(raw: bytes, column: str, group: int = 1) -> bytes:
    "One bit of a page of a column, the first over which a reader stumbles."
    meta = pq.ParquetFile(pa.BufferReader(raw)).metadata.row_group(group)
    at = next(c for c in map(meta.column, range(meta.num_columns)) if c.path_in_schema == column)
    for place in range(at.data_page_offset + 30, at.data_page_offset + 90):
        damaged = flipped(raw, place, 3)
        try:
            pq.ParquetFile(pa.BufferReader(damaged)).read()
        except (OSError, pa.ArrowException):
            return damaged
    raise AssertionError("no such flip")


def to_nulls(raw: bytes, column: str, group: int = 1) -> bytes:
    "One bit of a page of a column, the first over which no reader stumbles and values become nulls."
    meta = pq.ParquetFile(pa.BufferReader(raw)).metadata.row_group(group)
    at = next(c for c in map(meta.column, range(meta.num_columns)) if c.path_in_schema == column)
    for place in range(at.data_page_offset, at.data_page_offset + 90):
        for bit in range(8):
            damaged = flipped(raw, place, bit)
            try:
                rows = pq.ParquetFile(pa.BufferReader(damaged)).read()
            except (OSError, pa.ArrowException):
                continue
            if rows.num_rows == ROWS and rows[column].null_count:
                return damaged
    raise AssertionError("no such flip")


def odd_bytes(rows: pa.Table, column: str, row: int) -> bytes:
    "A text that is not UTF-8 in one row."
    texts = [text.encode() for text in rows[column].to_pylist()]
    texts[row] = b"caf\xe9"  # Latin-1
    return encoded(rows.set_column(rows.schema.get_field_index(column), column, pa.array(texts).view(pa.string())))


DAMAGES = 20  # so many are there
LIBRARIES = ("Traceback", "ArrowInvalid", "OSError", "org.apache", "py4j", "Py4J", "UnicodeDecodeError", "PythonException", "SQLSTATE")


def damages(op: str | None, first: int = 0) -> Iterator[tuple[str, bytes, list[str]]]:  # what, the file, what the words must say
    "Every damage."
    rows = rows_of(op, first)
    sound = encoded(rows)
    yield "the end promises more rows", end_with(sound, lambda m: m.num_rows > ROWS and sum(groups(m)) == ROWS), ["rows were promised, 150 are there"]
    yield (
        "the end promises fewer rows",
        end_with(sound, lambda m: m.num_rows < ROWS and sum(groups(m)) == ROWS),
        ["rows were promised, 150 are there"],
    )
    yield "a row group promises fewer rows", end_with(sound, lambda m: m.num_rows == ROWS and sum(groups(m)) < ROWS), ["150 rows were promised"]
    yield "a row group promises more rows", end_with(sound, lambda m: m.num_rows == ROWS and sum(groups(m)) > ROWS), ["150 rows were promised"]
    yield "the end and a row group promise more rows", more_throughout(sound), ["rows were promised"]
    yield "the end and a row group promise fewer rows", fewer_throughout(sound), ["rows were promised, 150 are there"]
    yield (
        "one bit makes nulls of names",
        to_nulls(encoded(rows, data_page_version="2.0"), "name"),
        ["column name is damaged: 0 nulls were promised, "],
    )
    for column in ("id", "site", "name", "price"):
        yield f"a bit in a page of {column}", in_page(sound, column), [f"column {column} cannot be read, it is damaged"]
    yield "cut off", sound[: len(sound) // 2], ["not a complete Parquet file"]
    yield "empty", b"", ["not a complete Parquet file"]
    yield "a hole in the middle", sound[:600] + bytes(400) + sound[1000:], ["column", "cannot be read, it is damaged"]
    for column, row in (("name", 0), ("name", 149), ("site", 0), ("site", 71)):
        yield f"{column} of row {row} is Latin-1", odd_bytes(rows, column, row), [f"row {row + 1} of", f"column {column} is not UTF-8: b'caf\\xe9'"]
    yield "a column's name is Latin-1", sound.replace(b"price", b"pric\xe9"), ["a name is not UTF-8: b'pric\\xe9'"]
    far = pa.array([2**62 if i == 99 else 0 for i in range(ROWS)], pa.timestamp("ms", "UTC"))
    yield (
        "a time beyond all times",
        encoded(rows.set_column(rows.schema.get_field_index("at"), "at", far)),
        ["row 100 of", "column at holds a value that does not fit timestamp"],
    )


def put(path: Path, raw: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
