"New load sets, and what a person may ask for: reload, accept, rewind, replay."

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from world import World

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string"}
TEN = datetime(2018, 12, 15, 10, tzinfo=timezone.utc)


def at(minute: float) -> float:
    return (TEN + timedelta(minutes=minute)).timestamp()


def change(w, minute, rows, put=None):
    "A change file closed so many minutes after ten and put two seconds later, or at another minute."
    w.changes(f"20181215-10{minute:02d}00000", rows, time=at(minute) + 2 if put is None else at(put))


@pytest.fixture()
def w(tmp_path, spark):
    "Loaded at ten, changes of the minutes 5 and 10."
    w = World(tmp_path, spark, SCHEMA).set(key="id")
    w.load([(1, "a"), (2, "b"), (3, "c")], time=at(0))
    change(w, 5, [("U", 1, "five"), ("D", 2, None)])
    change(w, 10, [("U", 3, "ten"), ("I", 4, "ten")])
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "five"), (3, "ten"), (4, "ten")]
    return w


def test_a_new_load_set_replaces_the_table_and_only_changes_put_after_it_are_applied(w):
    change(w, 15, [("U", 1, "before the reload, never applied")])
    w.load([(1, "A"), (2, "B"), (9, "another size")], time=at(20))
    change(w, 25, [("U", 2, "after"), ("D", 9, None)])
    done = w.go()
    assert (done.verdict, done.plan["kind"]) == ("ok", "both") and w.settled()
    assert w.lake("id, name, _cdc_file") == [(1, "A", "LOAD00000001.parquet#2"), (2, "after", "20181215-102500000.parquet")]
    assert w.idle().verdict == "nothing", "what the load made obsolete is never late"
    change(w, 12, [("U", 1, "late, but from before the reload")], put=26)
    w.go()
    assert w.lake("id, name") == [(1, "A"), (2, "after")]


def test_where_times_are_unbelievable_nothing_moves_and_both_commands_do_what_they_say(w):
    w.load([(1, "A"), (2, "B"), (3, "another size")], time=at(90))
    change(w, 30, [("I", 2, "thirty")], put=91)
    before, done = w.table_state(), w.idle()
    assert done.verdict == "attention" and w.table_state() == before
    assert (
        "--reload --supersede" in done.words
        and "--reload --keep-changes" in done.words
        and "files were rewritten or copied after DMS wrote them" in done.words
    )
    w.state.instruct(w.ref, {"kind": "reload", "changes": "keep"})
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "five"), (2, "thirty"), (3, "ten"), (4, "ten")], "all changes on top"
    w.state.instruct(w.ref, {"kind": "reload", "changes": "supersede"})
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "A"), (2, "B"), (3, "another size")], "what was applied is left out"
    assert w.state.get(w.ref).instruction is None and w.idle().verdict == "nothing"


def test_a_load_with_the_same_names_and_sizes_waits_for_a_person_who_may_accept_it(w):
    w.load([(1, "a"), (2, "b"), (3, "c")], time=at(40))
    before, done = w.table_state(), w.idle()
    assert done.verdict == "attention" and "names and sizes of load files already loaded" in done.words and w.table_state() == before
    w.state.instruct(w.ref, {"kind": "accept"})
    rows, done = w.lake("*"), w.idle()
    assert done.verdict in ("ok", "nothing") and w.lake("*") == rows and done.commit == before[0] + 1
    change(w, 45, [("U", 4, "on")])
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "five"), (3, "ten"), (4, "on")]


def test_a_reload_with_other_columns_brings_exactly_those(w):
    w.load([(1, 10, "A"), (2, 20, "B")], {"id": "int", "stock": "int", "title": "string"}, time=at(20))
    done = w.go()
    assert w.lake("id, stock, title") == [(1, 10, "A"), (2, 20, "B")]
    assert done.schema == (
        "column stock int is new in this load",
        "column title string is new in this load",
        "column name string is gone from this load",
    )


def test_load_files_that_vanish_change_nothing(w):
    (w.raw / "LOAD00000001.parquet").unlink()
    before = w.table_state()
    assert w.idle().verdict == "nothing" and w.table_state() == before


def test_a_refused_reload_leaves_the_old_table(w):
    w.load([(1, "A"), (1, "B")], time=at(20))
    before, done = w.table_state(), w.go()
    assert done.verdict == "refused" and "id=1 stands in 2 rows" in done.words and w.table_state() == before


@pytest.mark.parametrize(
    "asked, files, rows",
    [
        ({"kind": "rewind", "to": "20181215-100500000.parquet"}, ["05", "10"], [(1, "five"), (3, "ten"), (4, "ten")]),
        ({"kind": "rewind", "after": "20181215-100500000.parquet"}, ["10"], [(1, "five"), (3, "ten"), (4, "ten")]),
        ({"kind": "replay", "files": ["20181215-100500000.parquet"]}, ["05", "10"], [(1, "five"), (3, "ten"), (4, "ten")]),
    ],
    ids=["rewind to", "rewind after", "replay"],
)
def test_rewind_and_replay_apply_files_again_once_and_change_nothing_that_was_right(w, asked, files, rows):
    before = w.table_state()
    w.state.instruct(w.ref, asked)
    done = w.go()
    assert [f["path"][11:13] for f in done.files] == files and w.lake("id, name") == rows
    assert (done.commit, done.rows["updated"], done.rows["inserted"], done.lake["files_rewritten"]) == (before[0] + 1, 0, 0, 0)
    assert w.state.get(w.ref).instruction is None and w.idle().verdict == "nothing"


def test_an_instruction_given_for_an_earlier_commit_is_not_carried_out(w):
    w.state.instruct(w.ref, {"kind": "reload", "changes": "supersede", "commit": 1})
    rows, done = w.lake("*"), w.idle()
    assert done.verdict == "attention" and "was given for commit 1" in done.words and w.lake("*") == rows
