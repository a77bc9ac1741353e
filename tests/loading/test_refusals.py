"What cannot be applied is refused whole: file, row and column are named, and nothing has moved."

from __future__ import annotations

import pytest

from world import World, closed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "site": "string", "price": "decimal(10,2)"}
GOOD, BAD = closed(2), closed(3)


@pytest.fixture(scope="module")
def world(tmp_path_factory, spark, way):
    "A table with a load and one batch; refusals leave it as it is."
    w = World(tmp_path_factory.mktemp("refused"), spark, SCHEMA).set(key="id,site")
    w.load([(1, "a", "1.00"), (2, "a", "2.00")]).changes(1, [("U", 1, "a", "1.50")])
    assert w.go().verdict == "ok"
    return w


def refuse(w, rows, schema=SCHEMA, **more):
    "A good file and the bad one; afterwards the bad one is taken away."
    w.changes(2, [("I", 9, "z", "9.00"), ("D", 1, "a", None)])
    w.changes(3, rows, schema, **more)
    before = w.table_state()
    try:
        return w.go(), before == w.table_state()
    finally:
        for name in (GOOD, BAD):
            (w.raw / f"{name}.parquet").unlink()


@pytest.mark.parametrize(
    "rows, words",
    [
        ([("I", 5, "a", "1"), ("U", None, "a", "2")], f"row 2 of {BAD}.parquet: key column id is null"),
        ([("I", 5, "a", "1"), ("I", 6, "a", "1"), ("D", 7, None, "2")], f"row 3 of {BAD}.parquet: key column site is null"),
        (
            [("I", 5, "a", "1"), (None, 6, "a", "2"), ("Z", 6, "a", "2")],
            f"row 2 of {BAD}.parquet: column Op is null; I, U or D was expected. 2 rows of this batch cannot be applied",
        ),
        ([("I", 5, "a", "1"), ("X", 6, "a", "2")], f"row 2 of {BAD}.parquet: column Op is 'X'"),
        ([("I", 5, "a", "1"), ("i", 6, "a", "2")], f"row 2 of {BAD}.parquet: column Op is 'i'"),
        ([("I", 5, "a", "1"), ("T", None, None, None)], f"row 2 of {BAD}.parquet: Op is T, so the source's table was emptied there (TRUNCATE)"),
    ],
    ids=["null key", "null in the second key column", "null Op", "unknown Op", "Op in small letters", "TRUNCATE"],
)
def test_a_row_that_cannot_be_applied_refuses_the_batch(world, rows, words):
    done, still = refuse(world, rows)
    assert done.verdict == "refused" and done.words.startswith("shop.item: ") and words in done.words and still
    assert done.rows["refused"] == (2 if "2 rows of this batch cannot be applied" in words else 1)


@pytest.mark.parametrize(
    "rows, schema, more, words",
    [
        ([("I", 5, "1")], {"id": "int", "price": "decimal(10,2)"}, {}, f"{BAD}.parquet does not carry the key column site"),
        ([("U", "1", "a", "1")], {**SCHEMA, "id": "string"}, {}, f"column id of {BAD}.parquet is string, the lake holds int"),
        ([("U", 1, "a", "cheap")], {**SCHEMA, "price": "string"}, {}, f"column price of {BAD}.parquet is string, the lake holds decimal(10,2)"),
        ([("U", 1, "a", 1.5)], {**SCHEMA, "price": "double"}, {}, f"column price of {BAD}.parquet is double, the lake holds decimal(10,2)"),
        ([("U", 1, 7, "1", "x")], {**SCHEMA, "site": "int", "new": "string"}, {}, f"column site of {BAD}.parquet is int, the lake holds string"),
        (
            [(1, "a", "1")],
            SCHEMA,
            {"op": False},
            f"{BAD}.parquet has no column Op, so what its rows did is not known. DMS leaves it out with CdcInsertsOnly=true; if so, every row is an insert",
        ),
        ([("I", 1, "a", "1")], {"OP": "string", **SCHEMA}, {"op": False}, f"{BAD}.parquet has no column Op, but OP in its place"),
        ([("I", 1, "a", "1")], {"op": "string", **SCHEMA}, {"op": False}, f"{BAD}.parquet has no column Op, but op in its place"),
        ([(1, 1, "a", "1")], {"Op": "int", **SCHEMA}, {"op": False}, f"{BAD}.parquet: column Op is int; a text was expected, I, U or D"),
    ],
    ids=[
        "missing key column",
        "int to string",
        "decimal to string",
        "decimal to double",
        "one of two",
        "file without Op",
        "OP",
        "op",
        "Op of numbers",
    ],
)
def test_a_file_whose_columns_do_not_fit_refuses_the_batch(world, rows, schema, more, words):
    done, still = refuse(world, rows, schema, **more)
    assert done.verdict == "refused" and words in done.words and still


def test_a_file_that_is_no_parquet_is_named(world):
    (world.raw / f"{BAD}.parquet").write_bytes(b"PAR1 and then nothing")
    before, done = world.table_state(), world.go()
    (world.raw / f"{BAD}.parquet").unlink()
    assert done.verdict == "refused" and f"{BAD}.parquet: not a complete Parquet file" in done.words and before == world.table_state()


def test_the_good_files_of_a_refused_batch_are_applied_when_the_bad_one_is_gone(world):
    world.changes(2, [("I", 9, "z", "9.00")])
    assert world.go().verdict == "ok" and world.lake("id, site") == [(1, "a"), (2, "a"), (9, "z")]


@pytest.mark.parametrize(
    "rows, settings, words",
    [
        ([(1, "a", "1"), (None, "a", "1")], {"key": "id"}, "row 2 of LOAD00000001.parquet: key column id is null"),
        (
            [(1, "a", "1"), (2, "a", "1"), (1, "b", "1")],
            {"key": "id"},
            "id=1 stands in 2 rows of the load, row 1 of LOAD00000001.parquet and row 3 of LOAD00000001.parquet",
        ),
        (
            [(1, "a", "1")],
            {"key": "ident"},
            "the key column ident was expected, its files carry id, site, price. Set the key: dmscdc table set shop.item --key",
        ),
        ([(1, "a", "1")], {"key": "id", "partition": "day"}, "the partition column day was expected, its files carry id, site, price"),
        ([(1, "a", "1")], {}, "no key is set, so nothing can be applied. Set one: dmscdc table set shop.item --key"),
    ],
    ids=["null key", "key twice", "unknown key", "unknown partition", "no key"],
)
def test_a_load_that_does_not_fit_its_settings_writes_nothing(tmp_path, spark, rows, settings, words):
    w = World(tmp_path, spark, SCHEMA).set(**settings).load(rows)
    before, done = w.table_state(), w.go()
    assert done.verdict == "refused" and words in done.words and w.table_state() == before and not w.folder.exists()


@pytest.mark.parametrize("settings", [{"key": "id"}, {"key": "id", "partition": "site"}, {"insert_only": True}], ids=str)
def test_a_load_whose_only_op_is_a_column_of_the_source_is_refused_and_dms_s_own_is_not(tmp_path, spark, settings):
    w = World(tmp_path, spark, {"Op": "string", **SCHEMA}).set(**settings).load([("I", 1, "a", "1.00"), ("Z", 2, "b", "2.00")])
    before, done = w.table_state(), w.go()
    assert (done.verdict, w.table_state(), w.folder.exists()) == ("refused", before, False)
    assert "row 2 of LOAD00000001.parquet: column Op is 'Z'; in a load DMS writes I there" in done.words and "rename-column" in done.words, done.words
    w.gone("LOAD00000001").load([("I", 1, "a", "1.00"), ("I", 2, "b", "2.00")])
    assert w.go().verdict == "ok" and w.lake("Op, id, site") == [("I", 1, "a"), ("I", 2, "b")]


def test_a_load_that_was_applied_before_its_changes_were_refused_is_said_too(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id,site")
    w.load([(1, "a", "1.00"), (2, "a", "2.00")]).changes(1, [("X", 1, "a", "1.50")])
    done = w.go()
    assert (done.verdict, done.commit) == ("refused", 1) and "column Op is 'X'" in done.words
    assert done.words.endswith(". The load was applied first: 2 rows inserted (commit 1)")
    assert w.go().words.endswith("The lake is as it was (commit 1)")
