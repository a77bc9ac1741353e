"A table as of then, and a feed, by both engines: Spark's answer, which Arrow's must equal."

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from dmscdc.history.as_of import as_of as by_spark
from dmscdc.history.feed import feed as fed_by_spark
from dmscdc.history.small import table_then
from dmscdc.history.small_feed import small_feed


def as_of(spark, past, key, at=None, time_column=""):
    "As `dmscdc.history.as_of`; Arrow gives the same rows and words, or refuses in the same ones."
    try:
        answer = by_spark(spark, past, key, at, time_column)
    except Exception as error:
        with pytest.raises(type(error)) as found:
            table_then(past, key, at, time_column)
        assert str(found.value) == str(error)
        raise
    other = table_then(past, key, at, time_column)
    assert (other.words, other.columns) == (answer.words, answer.columns)
    there, here = (sorted(map(repr, told(rows)), key=str) for rows in (answer.rows.toArrow(), other.rows))
    assert here == there
    return answer


def feed(spark, past, key, since=None, until=None, net=True, time_column=""):
    "As `dmscdc.history.feed`; Arrow gives the same rows in the same order, and the same counts, or refuses in the same words."
    asked = (past, key, since, until, net, time_column)
    try:
        answer = fed_by_spark(spark, *asked)
    except Exception as error:
        with pytest.raises(type(error)) as found:
            small_feed(*asked)
        assert str(found.value) == str(error)
        raise
    other = small_feed(*asked)
    facts = [(one.span, one.net, one.gaps, one.left_out or {}) for one in (answer, other)]
    assert facts[0] == facts[1] and (answer.span.reset or answer.keys == other.keys), (facts, answer.keys, other.keys)
    answer = replace(answer, rows=answer.rows.cache())
    there, here = answer.rows.toArrow(), other.rows
    assert here.column_names == there.column_names and list(map(repr, told(here))) == list(map(repr, told(there)))
    return answer


def told(rows: pa.Table) -> list[tuple[Any, ...]]:
    "Rows with their types; Python does not know all times."
    kinds = [rows.schema.field(name).type for name in rows.column_names]
    return list(
        zip(
            *[
                [(kind, one) for one in column.cast(pa.int64() if pa.types.is_timestamp(kind) else kind).to_pylist()]
                for column, kind in zip(rows.columns, kinds)
            ]
        )
    )
