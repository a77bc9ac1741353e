"""Ways in which a file goes wrong, as functions from bytes to bytes, and columns that pyarrow would not make by itself."""

from __future__ import annotations

import io
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq


def footer(content: bytes) -> tuple[int, int]:
    "Where it begins and ends."
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little"), len(content) - 8


def chunk(content: bytes, column: str) -> tuple[int, int]:
    "Where the values of a column lie in the first row group."
    meta = pq.read_metadata(io.BytesIO(content))
    one = next(c for c in (meta.row_group(0).column(i) for i in range(meta.num_columns)) if c.path_in_schema == column)
    start = min(one.data_page_offset, one.dictionary_page_offset or one.data_page_offset)
    return start, start + one.total_compressed_size


def flipped(content: bytes, at: int, mask: int = 0x10) -> bytes:
    return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]


def bad_check(column: str):
    "A page whose check sum is wrong."
    return lambda content: flipped(content, chunk(content, column)[1] - 6)


def bad_page(column: str):
    "A page with a wrong byte in its midst."

    def spoil(content: bytes) -> bytes:
        start, end = chunk(content, column)
        return flipped(content, (start + end) // 2 + 6, 0xFF)

    return spoil


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def empty(content: bytes) -> bytes:
    return b""


def no_parquet(content: bytes) -> bytes:
    return b"Op,id,name\nU,1,a\n"


@cache
def promising(content: bytes, more: int = 1) -> bytes:
    "One bit of the footer: its first row group is said to hold more rows than it does (`more` > 0), or fewer."
    real = pq.read_metadata(io.BytesIO(content))
    for at in range(*footer(content)):
        for bit in range(8):
            try:
                meta = pq.read_metadata(io.BytesIO(changed := flipped(content, at, 1 << bit)))
            except Exception:
                continue  # noqa: BLE001  not this bit
            said, was = meta.row_group(0).num_rows if meta.num_row_groups else 0, real.row_group(0).num_rows
            same = meta.num_row_groups == real.num_row_groups and meta.num_rows == real.num_rows and meta.schema == real.schema
            if same and (0 < (said - was) * more < 10_000) and said > 0:
                return changed
    raise AssertionError("no bit does it")


def promises_more(content: bytes) -> bytes:
    return promising(content)


def promises_less(content: bytes) -> bytes:
    return promising(content, -1)


def texts(values: list[bytes | None]) -> pa.Array:
    "A column of texts, whatever their bytes are."
    return pa.array(values, pa.binary()).view(pa.string())
