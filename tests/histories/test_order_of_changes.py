"Which change of a key is the last: one table of cases, which loaders and askers follow, each with code of its own."

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from dmscdc.capture.writer import change_sequence
from dmscdc.changes.fold import Folding, change_ranks, fold
from dmscdc.changes.read import GROUP, KIND, NAME
from dmscdc.changes.schema import FILE, OP, ROW, columns
from dmscdc.history.as_of import CommitClock
from dmscdc.history.replay import POSITION, order_key
from dmscdc.history.row import RawChange, in_sequence, sequence_column
from dmscdc.landing.files import RawFile
from dmscdc.scd2.update import batch_facts, ordered
from dmscdc.scd2.versions import AT, Scd2Spec, change_lines, read_kind

pytestmark = pytest.mark.test

SCHEMA, SETS = columns("id int, name string, seq string"), (((0,), ("id", "name", "seq")),)
DAY = datetime(2018, 12, 15, 10, tzinfo=timezone.utc)
TEN, ELEVEN, LOAD = "20181215-100000000.parquet", "20181215-110000000.parquet", "LOAD00000001.parquet"
ONE, TWO, THREE = (change_sequence(DAY, n) for n in (1, 2, 3))


class Row(NamedTuple):
    "A row of a raw file; its name says which it is."

    name: str
    file: str
    row: int
    sequence: str | None = None
    id: int = 1


class Case(NamedTuple):
    rows: tuple[Row, ...]
    of_key: str  # the names of the rows of key 1 in order, for those who compare the changes of a key
    of_all: str  # and for those who compare all changes of a batch or of a table


CASES = {
    "names of files, then rows": Case((Row("c", ELEVEN, 0), Row("b", TEN, 1), Row("a", TEN, 0)), "abc", "abc"),
    "one name in two folders: paths": Case((Row("b", f"2018/{TEN}", 0), Row("a", TEN, 0)), "ba", "ba"),
    "the name goes before the folder": Case((Row("b", ELEVEN, 0), Row("a", f"2018/{TEN}", 5)), "ab", "ab"),
    "rows by number, not as text": Case((Row("b", TEN, 10), Row("a", TEN, 9)), "ab", "ab"),
    "load rows before all changes": Case((Row("b", TEN, 0), Row("a", LOAD, 7)), "ab", "ab"),
    "every change has a sequence": Case((Row("b", TEN, 0, TWO), Row("a", ELEVEN, 0, ONE)), "ab", "ab"),
    "a load row needs no sequence": Case((Row("c", TEN, 0, TWO), Row("b", ELEVEN, 0, ONE), Row("a", LOAD, 0)), "abc", "abc"),
    "one sequence twice: the files": Case((Row("b", ELEVEN, 0, ONE), Row("a", TEN, 0, ONE)), "ab", "ab"),
    "one change has none": Case((Row("a", TEN, 0, TWO), Row("b", ELEVEN, 0, ONE), Row("c", ELEVEN, 1)), "abc", "abc"),
    "one has something else": Case((Row("a", TEN, 0, TWO), Row("b", ELEVEN, 0, "12")), "ab", "ab"),
    "one is of another year": Case((Row("a", TEN, 0, TWO), Row("b", ELEVEN, 0, "1999" + ONE[4:])), "ab", "ab"),
    "a change of another key has one": Case((Row("b", TEN, 0, TWO), Row("a", ELEVEN, 0, ONE), Row("x", TEN, 1, THREE, 2)), "ab", "ab"),
    "a change of another key has none": Case((Row("b", TEN, 0, TWO), Row("a", ELEVEN, 0, ONE), Row("x", TEN, 1, None, 2)), "ab", "ba"),
}  # the last: what a batch cannot prove, a key still may. Then loader and asker differ, and a late file is reported as unproven


def plain(row: Row, kind: str) -> dict:
    name = row.file.rpartition("/")[2]
    return {OP: "U", "id": row.id, "name": row.name, "seq": row.sequence, FILE: row.file, ROW: row.row, NAME: name, GROUP: 0, KIND: kind}


def of_one(rows) -> str:
    return "".join(name for name, id in rows if id == 1)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_batch_is_folded_in_the_order_of_all_its_changes(case):
    changes = [plain(row, "new") for row in case.rows if row.file != LOAD]
    types = {
        OP: pa.string(),
        "id": pa.int32(),
        "name": pa.string(),
        "seq": pa.string(),
        FILE: pa.string(),
        ROW: pa.int64(),
        NAME: pa.string(),
        GROUP: pa.int32(),
        KIND: pa.string(),
    }
    table = pa.Table.from_pylist(changes, pa.schema(list(types.items())))
    batch, facts = fold(table, Folding(SCHEMA, ("id",), SETS, sequence="seq"))
    order = change_ranks(table, "" if facts.without_sequence else "seq").argsort()
    loaded = {row.name for row in case.rows if row.file == LOAD}
    expected = "".join(name for name in case.of_all if name not in loaded)
    assert of_one((changes[n]["name"], changes[n]["id"]) for n in order) == expected
    assert [row["name"] for row in batch.to_pylist() if row["id"] == 1] == [expected[-1]]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_row_is_told_in_the_order_of_its_key(case):
    files = sorted({row.file for row in case.rows}, key=lambda path: (path != LOAD, path.rpartition("/")[2], path))
    raw = [
        RawChange(RawFile(r.file, 1, 0.0), r.file, r.row, "U", {"name": r.name, "seq": r.sequence}, files.index(r.file))
        for r in case.rows
        if r.id == 1
    ]
    assert "".join(row.values["name"] for row in in_sequence(raw, sequence_column(raw))) == case.of_key


def in_one_frame(spark, kinds):
    "All cases in one frame: a case's keys are its own. One query tells of all of them."
    rows = []
    for number, case in enumerate(CASES.values()):
        rows += [plain(row, kinds(row.file == LOAD)) | {"id": 10 * number + row.id} for row in case.rows]
    return spark.createDataFrame(
        rows, "Op string, id int, name string, seq string, _cdc_file string, _cdc_row long, _cdc_name string, _cdc_group int, _cdc_kind string"
    )


def names_of(rows, number: int) -> str:
    return "".join(name for id, name in rows if id == 10 * number + 1)


def test_states_follow_the_order_of_each_key(spark):
    rows = in_one_frame(spark, lambda is_load: "load" if is_load else "new").withColumn(POSITION, order_key(["id"], "seq", 1))
    found = [tuple(r) for r in rows.orderBy(POSITION).select("id", "name").collect()]
    assert {name: names_of(found, n) for n, name in enumerate(CASES)} == {name: case.of_key for name, case in CASES.items()}


def test_versions_follow_the_order_of_all_changes(spark):
    rows = in_one_frame(spark, lambda is_load: read_kind(1, is_load, True))
    how, found = Scd2Spec(("id",), SCHEMA, clock=CommitClock(sequence="seq")), {}
    for by_sequence in (True, False):
        there = change_lines(rows, SETS, Scd2Spec(("id",), SCHEMA, clock=how.clock, by_sequence=by_sequence)).orderBy(AT)
        found[by_sequence] = [tuple(r) for r in there.select("id", "_cdc_set0.name").collect()]
    step, scd2 = SimpleNamespace(late=()), SimpleNamespace(built=None, table="shop.item", there=SimpleNamespace(table="shop.item_scd2"))
    for number, (name, case) in enumerate(CASES.items()):
        mine = rows.where(F.col("id").between(10 * number + 1, 10 * number + 9))
        by_sequence, _ = ordered(scd2, step, how, batch_facts(mine, how))
        assert names_of(found[bool(by_sequence)], number) == case.of_all, name
