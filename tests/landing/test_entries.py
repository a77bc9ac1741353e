"An entry of the journal that is JSON but not ours is said with its path, before anything is done. No Spark: the commits hold no rows."

from __future__ import annotations

import json
import shutil

import pytest

from dmscdc.changes.schema import Column
from dmscdc.errors import MissingDataFile, UnsupportedStore
from dmscdc.lake.parquet.rewrite import Work
from dmscdc.lake.parquet.table import ParquetTable, rewrite_touched
from dmscdc.lake.table import Transaction
from dmscdc.landing.files import TableRef
from dmscdc.storage.log_store import LogStore

pytestmark = pytest.mark.quick

FILE = {"name": "000000000002-a-b.parquet", "aside": "x/y.parquet", "rows": 1, "bytes": 1, "low": [1], "high": [2], "values": []}
WRONG = [(("facts",), []), (("facts",), "x"), (("files",), [5]), (("files",), "x"), (("adds",), 5), (("number",), 1), (("number",), "2")]
WRONG += [
    (("facts", "position"), value)
    for value in ([], "x", None, {"last": 5}, {"load_files": [5]}, {"window": []}, {"applied": [1]}, {"applied": 5}, {"applied": ["x", "y"]})
]
WRONG += [(("facts", "schema"), value) for value in ("x", [5], [["id"]], None)] + [(("facts", name), 5) for name in ("key", "partition", "at", "run")]
WRONG += [(("facts", "rows"), value) for value in ("x", None, 1.5)] + [(("files",), [{**FILE, name: None}]) for name in FILE]
GONE = [("facts", name) for name in ("position", "schema", "key", "partition", "rows", "run", "at")] + [
    (name,) for name in ("facts", "files", "adds", "removes", "number", "attempt")
]


@pytest.fixture
def table(tmp_path):
    there = ParquetTable(str(tmp_path / "lake"), TableRef("shop", "item"))
    schema, head = (Column("id", "int"),), None
    for run in ("one", "two"):
        head = there.commit_position(Transaction(head, {}, run, schema, ("id",))).commit().commit
    return there


def damage(table, steps, *value):
    path = table.transaction_log.store.path(table.transaction_log.entry_name(2))
    said = json.loads(open(path).read())
    part = said
    for step in steps[:-1]:
        part = part[step]
    part.pop(steps[-1])
    if value:
        part[steps[-1]] = value[0]
    open(path, "w").write(json.dumps(said))
    return path


@pytest.mark.parametrize("ask", [ParquetTable.head, lambda table: table.at(2), ParquetTable.plain], ids=["head", "at", "plain"])
def test_an_entry_with_any_part_wrong_or_gone_is_said_with_its_path(table, ask):
    path, looked = table.transaction_log.store.path(table.transaction_log.entry_name(2)), 0
    sound = open(path).read()
    for case in [*WRONG, *((steps,) for steps in GONE)]:
        open(path, "w").write(sound)
        damage(table, *case)
        with pytest.raises(MissingDataFile) as said:
            ask(table)
        assert str(said.value).startswith(f"{path} is not an entry of a transaction log of dmscdc"), (case, said.value)
        looked += 1
    open(path, "w").write(sound)
    assert looked == len(WRONG) + len(GONE) == 47 and table.head().number == 2


BOUNDS = [
    ("int", "abc"),
    ("int", 2**40),
    ("int", 1.5),
    ("decimal(10,2)", "one"),
    ("decimal(10,2)", [1]),
    ("date", "2018-13-01"),
    ("date", 5),
    ("string", 5),
]


@pytest.mark.parametrize("kind, wrong", BOUNDS, ids=str)
def test_a_bound_that_is_none_of_its_key_s_type_is_said_with_the_path_before_anything_is_read(tmp_path, kind, wrong):
    table = ParquetTable(str(tmp_path / "lake"), TableRef("shop", "item"))
    head = table.commit_position(Transaction(None, {}, "one", (Column("id", kind),), ("id",))).commit().commit
    table.commit_position(Transaction(head, {}, "two", head.schema, ("id",))).commit()
    work = Work("no batch is read", "", "", "", (("id", kind),), ("id",), (), (), False, 1, ())
    for end in ("low", "high"):
        path = damage(table, ("files",), [{**FILE, "low": [None], "high": [None], end: [wrong]}])
        for ask in (table.plain, lambda: rewrite_touched(None, table.transaction_log, table.transaction_log.head(), work, True)):
            with pytest.raises(MissingDataFile) as said:
                ask()
            assert str(said.value).startswith(
                f"{path} is not an entry of a transaction log of dmscdc"
            ) and f"{wrong!r} as a bound of id {kind}" in str(said.value)


def test_the_copy_of_an_entry_under_a_later_number_is_no_commit_of_another_writer(table):
    journal = table.transaction_log
    later = journal.store.path(journal.entry_name(4))
    shutil.copy(journal.store.path(journal.entry_name(2)), later)
    with pytest.raises(MissingDataFile, match=f"{later} is not an entry of a transaction log of dmscdc .*it says that it is commit 2"):
        table.head()


def test_a_folder_that_is_called_like_an_entry_is_said(table, tmp_path):
    place = tmp_path / "lake" / table.transaction_log.entry_name(3)
    place.mkdir()
    with pytest.raises(MissingDataFile, match=f"{place} is not an entry of a transaction log of dmscdc"):
        table.head()


def test_a_file_in_the_place_of_the_table_s_folder_is_said(tmp_path):
    store = LogStore(str(tmp_path))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/item").write_text("x")
    (tmp_path / "aside").write_text("rows")
    with pytest.raises(UnsupportedStore, match=f"{tmp_path}/shop/item is a file where the table's folder was expected"):
        store.copy("aside", "shop/item/a.parquet")
