"""Totals, ranges, rows: keys of every shape, counts that are exact, and few rows that move. The lake is a frame, the source is SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from itertools import count

import pytest

from dmscdc.changes.schema import columns
from dmscdc.landing.files import TableRef
from dmscdc.reconcile.canonical import rules_of
from dmscdc.reconcile.compare import Layout, TableComparison, compare_ranges, find_differences, spark_side
from dmscdc.reconcile.source import Snapshot, address, columns_of, snapshot, source_side

pytestmark = pytest.mark.proof

BIG = 2**63 - 1


@pytest.fixture
def beside(spark, tmp_path):
    "Compares rows of a source with rows of a lake."
    numbers = count()

    def run(declared: str, schema: str, key: list[str], source: list[tuple], lake: list[tuple], limit: int = 100) -> tuple[TableComparison, Layout]:
        path = tmp_path / f"{next(numbers)}.db"
        with sqlite3.connect(path) as db:
            db.execute(f"create table t ({declared})")
            if source:
                db.executemany(f"insert into t values ({','.join('?' * len(source[0]))})", source)
        with ExitStack() as stack:
            look = stack.enter_context(snapshot(address(f"sqlite:{path}")))
            rules = rules_of("sqlite", columns(schema), columns_of(look, TableRef("s", "t")))
            sides = (
                source_side(look, "t"),
                stack.enter_context(spark_side(spark, spark.createDataFrame(lake, schema).coalesce(1) if isinstance(lake, list) else lake)),
            )
            found, layout = find_differences(sides, rules, key)
            return (found if found.is_equal else compare_ranges(sides, found, layout, limit)), layout

    return run


def told(done: TableComparison) -> list[tuple]:
    return sorted((f.kind, *f.key.values(), *f.columns) for f in done.findings)


def test_whole_numbers_from_end_to_end_are_their_own_places(beside):
    keys = [-BIG - 1, -BIG, -1, 0, 1, BIG - 1, BIG]
    done, layout = beside(
        "id integer, name text", "id bigint, name string", ["id"], [(k, "a") for k in keys], [(k, "a" if k else "b") for k in keys[1:]]
    )
    assert layout.by_number and told(done) == [("different", "0", "name"), ("missing", str(-BIG - 1))]


def test_texts_are_placed_by_their_hash_since_no_two_engines_sort_alike(beside):
    keys = ["", " ", "a", "A", "ä", "Z", "🛒", "a b", "ﬁ", "ß", "ss"]
    done, layout = beside(
        "id text, n int", "id string, n int", ["id"], [(k, 1) for k in keys], [(k, 1 if k != "ß" else 2) for k in keys] + [("s", 1)]
    )
    assert not layout.by_number and told(done) == [("different", "ß", "n"), ("extra", "s")]


def test_keys_of_several_columns_are_told_apart(beside):
    source = [("a", "bc", 1), ("ab", "c", 2), ("", "abc", 3)]
    done, _ = beside("x text, y text, n int", "x string, y string, n int", ["x", "y"], source, [("a", "bc", 1), ("ab", "c", 3), ("", "abc", 3)])
    assert told(done) == [("different", "ab", "c", "n")]
    done, _ = beside("x text, y text", "x string, y string", ["x", "y"], [("a;b", "c"), ("1:a", "")], [("a", "b;c"), ("", "1:a")])
    assert dict(done.counts) == {"missing": 2, "extra": 2}
    done, layout = beside("x int, y text, n int", "x int, y string, n int", ["x", "y"], [(1, "a", 1), (1, "b", 1)], [(1, "a", 1), (1, "c", 1)])
    assert layout.by_number and told(done) == [("extra", "1", "c"), ("missing", "1", "b")]


def test_a_column_of_numbers_that_holds_something_else_is_no_place(beside):
    done, layout = beside("id int, n int", "id int, n int", ["id"], [("x1", 1), (None, 2), (3, 3)], [(None, 2), (3, 3)])
    assert not layout.by_number and told(done) == [("missing", "x1 is not a valid number".replace("x1", "'x1'"))]


def test_a_key_that_the_lake_has_twice_is_one_too_many(beside):
    done, _ = beside("id int, n int", "id int, n int", ["id"], [(1, 1), (2, 2)], [(1, 1), (2, 2), (2, 2)])
    assert told(done) == [("extra", "2")] and done.findings[0].rows == 1


@pytest.mark.parametrize("source, lake, kinds", [([], [], {}), ([(1, 1)], [], {"missing": 1}), ([], [(1, 1)], {"extra": 1})])
def test_a_side_without_rows(beside, source, lake, kinds):
    done, _ = beside("id int, n int", "id int, n int", ["id"], source, lake)
    assert dict(done.counts) == kinds and done.is_equal == (not kinds)


def test_counts_are_exact_and_few_keys_are_shown(beside):
    source = [(n, n) for n in range(3000)]
    lake = [(n, n + (n % 3 == 0)) for n in range(10, 3005)]
    done, _ = beside("id int, n int", "id int, n int", ["id"], source, lake, limit=5)
    assert dict(done.counts) == {"missing": 10, "different": 996, "extra": 5}  # 12, 15, … 2997
    assert len(done.findings) == 5 and done.findings[0].key == {"id": "0"}


def test_of_a_large_table_only_rows_of_the_differing_range_move(spark, beside, monkeypatch):
    taken, stream = count(), Snapshot.stream
    monkeypatch.setattr(Snapshot, "stream", lambda look, sql, **values: ((next(taken), row)[1] for row in stream(look, sql, **values)))
    source = [(n, n) for n in range(60_000)] + [(1 << 60, 0)]  # one key so far away that a first range holds all others
    lake = spark.sql("select id, cast(if(id = 41234, 7, id) as int) n from range(60000) union all select 1L << 60, 0")
    done, _ = beside("id int, n int", "id bigint, n int", ["id"], source, lake)
    assert told(done) == [("different", "41234", "n")] and done.moved < 2000 and next(taken) < 2000, "rows that the source was asked for"


def test_many_differing_ranges_are_walked_in_one_go(beside):
    source = [(n, 1) for n in range(4000)]
    done, _ = beside("id int, n int", "id int, n int", ["id"], source, [(n, 1 + (n % 12 == 0)) for n in range(4000)], limit=1)
    assert done.counts == {"different": 334} and len(done.spans) > 100
