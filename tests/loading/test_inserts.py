"A table without a key: rows are only added, and never twice."

from __future__ import annotations

import pytest

from world import World, closed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string"}
COLUMNS = "id, name, _cdc_file, _cdc_row"


def test_replay_rewind_and_late_files_never_double_a_row_and_updates_are_counted(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(insert_only=True)
    w.load([(1, "a"), (1, "a")]).changes(2, [("I", 1, "a"), ("I", 1, "a"), ("I", 3, None)]).changes(4, [("I", 4, "b")])
    assert "2 inserted rows are equal to rows of the load" in w.go().words  # whose file is younger than the change files
    rows = [
        (1, "a", "20181215-100002000.parquet", 0),
        (1, "a", "20181215-100002000.parquet", 1),
        (1, "a", "LOAD00000001.parquet#1", 0),
        (1, "a", "LOAD00000001.parquet#1", 1),
        (3, None, "20181215-100002000.parquet", 2),
        (4, "b", "20181215-100004000.parquet", 0),
    ]
    assert w.lake(COLUMNS) == rows
    for asked in ({"kind": "replay", "files": [f"{closed(2)}.parquet"]}, {"kind": "rewind", "to": f"{closed(2)}.parquet"}):
        w.state.instruct(w.ref, asked)
        done = w.go()
        assert (done.verdict, done.rows["inserted"], w.lake(COLUMNS)) == ("ok", 0, rows), asked
    w.changes(3, [("U", 1, "x"), ("I", 5, "late"), ("D", 4, None)])
    done = w.go()
    assert (
        done.verdict == "attention"
        and "shop.item has no key: 2 updates and deletes were not applied, the first is row " in done.words
        and done.rows["inserted"] == 1
    )
    assert w.lake(COLUMNS) == sorted([*rows, (5, "late", "20181215-100003000.parquet", 1)])
    assert (
        w.idle().verdict == "attention"
        and "updates and deletes that were not applied, because the table has no key: 2 rows of 1 file" in w.idle().words
    )


def test_an_unknown_op_is_refused_without_a_key_too(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(insert_only=True).load([(1, "a")])
    assert w.go().verdict == "ok"
    w.changes(1, [("I", 2, "b"), ("R", 3, "c")])
    before, done = w.table_state(), w.go()
    assert done.verdict == "refused" and "row 2 of 20181215-100001000.parquet: column Op is 'R'" in done.words and w.table_state() == before


def test_a_replayed_file_leaves_no_row_behind_that_it_no_longer_holds(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(insert_only=True).load([(0, "load")])
    w.changes(1, [("I", 1, "other")]).changes(2, [("I", i, "first") for i in range(5)]).changes(3, [("I", 9, "after")])
    assert w.go().verdict == "ok"
    w.gone(closed(2)).changes(2, [("I", 0, "second"), ("U", 1, "x")])
    w.state.instruct(w.ref, {"kind": "replay", "files": [f"{closed(2)}.parquet"]})
    done = w.go()
    assert (done.rows["inserted"], done.rows["updated"], done.rows["deleted"]) == (0, 1, 4) and "1 update or delete was not applied" in done.words
    kept = [(0, "load", "LOAD00000001.parquet#1", 0), (1, "other", f"{closed(1)}.parquet", 0), (9, "after", f"{closed(3)}.parquet", 0)]
    assert w.lake(COLUMNS) == sorted([*kept, (0, "second", f"{closed(2)}.parquet", 0)])
    w.gone(closed(2)).changes(2, [("D", 1, "x")])  # and nothing at all
    w.state.instruct(w.ref, {"kind": "replay", "files": [f"{closed(2)}.parquet"]})
    assert w.go().rows["deleted"] == 1 and w.lake(COLUMNS) == sorted(kept) and w.settled()
    w.state.instruct(w.ref, {"kind": "replay", "files": [f"{closed(n)}.parquet" for n in (1, 2, 3)]})
    assert w.go().rows["deleted"] == 0 and w.lake(COLUMNS) == sorted(kept)


def test_a_replay_of_a_table_of_inserts_with_partitions_and_marked_deletes_leaves_other_files_rows(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(insert_only=True, partition="name", delete="soft")
    w.load([(0, "a")]).changes(1, [("I", 1, "a"), ("I", 2, "b")]).changes(2, [("I", 3, "a"), ("I", 4, "c")])
    assert w.go().verdict == "ok"
    w.gone(closed(1)).changes(1, [("I", 1, "b")])
    w.state.instruct(w.ref, {"kind": "replay", "files": [f"{closed(1)}.parquet"]})
    done = w.go()
    assert done.verdict == "ok" and w.lake("id, name, Op") == [(0, "a", "I"), (1, "b", "I"), (3, "a", "I"), (4, "c", "I")]
    w.changes("20181215-100000500", [("I", 5, "late")])
    assert w.go().verdict == "ok" and w.lake("id, name") == [(0, "a"), (1, "b"), (3, "a"), (4, "c"), (5, "late")]


@pytest.mark.parametrize("settings", [{"key": "id"}, {"insert_only": True}], ids=str)
def test_a_batch_of_files_without_rows_moves_the_position_and_nothing_else(tmp_path, spark, settings):
    w = World(tmp_path, spark, SCHEMA).set(**settings).load([(1, "a")])
    assert w.go().verdict == "ok"
    w.changes(1, []).changes(2, [])
    done = w.go()
    assert (done.verdict, done.commit, w.lake("id, name")) == ("ok", 2, [(1, "a")]), done.words
    assert w.state.get(w.ref).position.last == f"{closed(2)}.parquet" and w.idle().verdict == "nothing"
