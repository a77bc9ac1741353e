"A table without a key: rows are only added, and never twice."
from __future__ import annotations

from world import World, closed

SCHEMA = {"id": "int", "name": "string"}
COLUMNS = "id, name, _cdc_file, _cdc_row"


def test_replay_rewind_and_late_files_never_double_a_row_and_updates_are_counted(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(insert_only=True)
    w.load([(1, "a"), (1, "a")]).changes(2, [("I", 1, "a"), ("I", 1, "a"), ("I", 3, None)]).changes(4, [("I", 4, "b")])
    assert w.go().verdict == "ok"
    rows = [(1, "a", "20181215-100002000.parquet", 0), (1, "a", "20181215-100002000.parquet", 1), (1, "a", "LOAD00000001.parquet#1", 0), (1, "a", "LOAD00000001.parquet#1", 1),
            (3, None, "20181215-100002000.parquet", 2), (4, "b", "20181215-100004000.parquet", 0)]
    assert w.lake(COLUMNS) == rows
    for asked in ({"kind": "replay", "files": [f"{closed(2)}.parquet"]}, {"kind": "rewind", "to": f"{closed(2)}.parquet"}):
        w.state.instruct(w.ref, asked)
        done, files = w.go(), w.files()
        assert (done.verdict, done.rows["inserted"], w.lake(COLUMNS)) == ("ok", 0, rows), asked
    w.changes(3, [("U", 1, "x"), ("I", 5, "late"), ("D", 4, None)])
    done = w.go()
    assert done.verdict == "attention" and "2 updates and deletes were not applied" in done.words and done.rows["inserted"] == 1
    assert w.lake(COLUMNS) == sorted([*rows, (5, "late", "20181215-100003000.parquet", 1)])
    assert w.idle().verdict == "nothing"


def test_an_unknown_op_is_refused_without_a_key_too(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(insert_only=True).load([(1, "a")])
    assert w.go().verdict == "ok"
    w.changes(1, [("I", 2, "b"), ("R", 3, "c")])
    before, done = w.standing(), w.go()
    assert done.verdict == "refused" and "row 1 of 20181215-100001000.parquet: column Op is 'R'" in done.words and w.standing() == before
