"What the lake has not applied, nobody who asks for what it holds is told: a feed, a type-2 table, a history and an oracle in plain Python."

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone

import pytest

from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import lost_changes, open_changelog
from dmscdc.history.row_page import lake_sentence
from dmscdc.history.small_feed import small_feed
from dmscdc.landing.files import RawFile, TableRef
from dmscdc.reconcile.explain import pending_files
from dmscdc.scd2.update import read_versions, update_versions
from dmscdc.state.position import Position
from world import World

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "a": "string"}
LOAD = {1: "x", 2: "y", 3: "z"}
FILES = {
    "20240101-120100000": {2: "first"},
    "20240103-120000000": {1: "TOOLATE", 2: "TOOLATE"},
    "20240106-120000000": {3: "last"},
    "20240106-115000000": {2: "LATE"},
    "20240106-121000000": {2: "new"},
}
OLD, TOO_LATE, LAST, LATE, NEW = FILES


def oracle(*files: str) -> list[tuple]:
    "The table after the load and these files."
    table = dict(LOAD)
    for name in sorted(files):
        table |= FILES[name]
    return sorted(table.items())


def put(w: World, name: str, at: float | None = None) -> World:
    "A change file of updates, put five seconds after its name, or at another time."
    then = datetime.strptime(name[:15], "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc) + timedelta(seconds=5)
    return w.changes(name, [("U", *row) for row in FILES[name].items()], time=datetime.fromtimestamp(at, timezone.utc) if at else then)


def begun(root, spark, **settings) -> World:
    "The load, an old change file and one five days younger are applied."
    w = World(root, spark, SCHEMA).set(key="id", **settings)
    w.load(list(LOAD.items()), time=datetime(2024, 1, 1, 11, tzinfo=timezone.utc))
    put(put(w, OLD), LAST)
    assert w.go().verdict == "ok"
    return w


def position(w: World) -> Position:
    return Position.from_json(dict(w.lake_table.head().position))


def asked(w: World) -> list[list[tuple]]:
    "The table as the lake holds it, as a feed from nothing to its position makes it, and as its versions say that are current."
    past = open_changelog(str(w.landing), w.ref, position=position(w))
    rows = [r for r in small_feed(past, ["id"], None, position(w)).rows.to_pylist() if r["_change_type"] != "reset"]
    assert {r["_change_type"] for r in rows} == {"insert"}, "a feed from nothing is a table"
    update_versions(*w.places, quiet_period=0, spark=lambda: w.spark)
    now = read_versions(w.spark, w.table, w.places[2]).where("is_current").collect()
    return [w.lake("id, a"), *(sorted((r["id"], r["a"]) for r in found) for found in (rows, now))]


def test_a_file_that_came_too_late_is_in_no_answer_before_and_after_it_is_left_out_until_a_replay_names_it(tmp_path, spark):
    w = begun(tmp_path, spark)
    put(w, TOO_LATE, at=time.time() + 1)
    assert w.idle().verdict == "attention" and w.idle().verdict == "attention"
    assert asked(w) == [oracle(OLD, LAST)] * 3, "held, with no commit that says so"
    w.state.instruct(w.ref, {"kind": "accept"})
    w.go()
    assert w.idle().verdict == "nothing" and position(w).left_out and not position(w).held
    assert asked(w) == [oracle(OLD, LAST)] * 3
    put(w, NEW).go()
    assert asked(w) == [oracle(OLD, LAST, NEW)] * 3
    w.state.instruct(w.ref, {"kind": "replay", "files": [f"{OLD}.parquet"]})
    w.go()
    assert asked(w) == [oracle(OLD, LAST, NEW)] * 3, "what was left out is not applied again with what follows"
    w.state.instruct(w.ref, {"kind": "replay", "files": [f"{TOO_LATE}.parquet"]})
    w.go()
    assert not position(w).left_out
    assert asked(w) == [oracle(*set(FILES) - {LATE})] * 3


def test_a_late_file_whose_successor_is_gone_stays_out_after_accept(tmp_path, spark):
    w = begun(tmp_path, spark)
    put(w, NEW).go()
    (w.raw / f"{LAST}.parquet").rename(w.root / "away")
    put(w, LATE)
    assert "arrived late and not applied" in w.idle().words
    w.state.instruct(w.ref, {"kind": "accept"})
    w.go()
    (w.root / "away").rename(w.raw / f"{LAST}.parquet")
    assert w.idle().verdict == "nothing" and asked(w) == [oracle(OLD, LAST, NEW)] * 3


def test_a_history_says_that_a_step_was_left_out_and_nothing_of_it_is_under_way(tmp_path, spark):
    w = begun(tmp_path, spark)
    put(w, TOO_LATE, at=time.time() + 1)
    w.idle()

    def told():
        line, past = audit_row(str(w.landing), w.lake_table, {"id": 1})[0][0], open_changelog(str(w.landing), w.ref, position=position(w))
        return line.waiting, line.left_out, line.verdict, lake_sentence(line), [f.name for f in pending_files(past, position(w)).files]

    assert told()[:3] == ((2,), (), "agrees") and told()[4] == [f"{TOO_LATE}.parquet"]
    w.state.instruct(w.ref, {"kind": "accept"})
    w.go()
    waiting, left_out, verdict, words, under = told()
    assert (waiting, left_out, verdict, under) == ((), (2,), "agrees", []) and words.endswith("Left out by accept: step 2.")


@pytest.mark.parametrize("kind, number", [("accept", None), ("replay", 3)])
def test_what_a_file_says_that_was_changed_after_it_was_applied_is_in_no_commit_before_a_replay(tmp_path, spark, kind, number):
    w = begun(tmp_path, spark)
    w.gone(LAST).changes(LAST, [("D", 1, None), ("U", 3, "changed after all that time, and longer for it")])
    line = audit_row(str(w.landing), w.lake_table, {"id": 1})[0][0]
    loaded, deleted = line.life.steps
    assert (loaded.known.number, deleted.known, line.waiting, line.verdict) == (1, None, (), "differs")
    assert f"{LAST}.parquet was changed after it was applied: it may hold other rows than the lake took from it" in line.life.words[0]
    w.state.instruct(w.ref, {"kind": kind, **({"files": [f"{LAST}.parquet"]} if kind == "replay" else {})})
    w.go()
    *_, deleted = audit_row(str(w.landing), w.lake_table, {"id": 1})[0][0].life.steps
    assert getattr(deleted.known, "number", None) == number


@pytest.mark.parametrize("count", [1, 2])
def test_a_landing_that_was_copied_is_all_applied(tmp_path, spark, count):
    w = begun(tmp_path, spark)
    if count == 2:
        (put(w, TOO_LATE, at=time.time() + 1), w.state.instruct(w.ref, {"kind": "replay", "files": [f"{TOO_LATE}.parquet"]}), w.go())
    for path in w.raw.iterdir():
        if not path.name.startswith("LOAD"):
            os.utime(path, (time.time() + 9, time.time() + 9))
    assert "as if the landing had been copied" in w.idle().words
    applied = [OLD, LAST, *[TOO_LATE] * (count - 1)]
    assert asked(w) == [oracle(*applied)] * 3
    w.state.instruct(w.ref, {"kind": "accept"})
    w.go()
    assert w.idle().verdict == "nothing" and not position(w).left_out and asked(w) == [oracle(*applied)] * 3


def test_a_file_of_another_size_is_called_changed_and_not_gone():
    table, at = TableRef.parse("shop.item"), Position(1, window=((f"{OLD}.parquet", 7), (f"{LAST}.parquet", 8), (f"{NEW}.parquet", 9)))
    told = lost_changes(table, at, [RawFile(f"{OLD}.parquet", 7, 1.0), RawFile(f"{LAST}.parquet", 80, 1.0)])
    assert len(told) == 2 and "is no longer in landing or archive" in told[0] and NEW in told[0]
    assert "was changed after it was applied" in told[1] and LAST in told[1] and OLD not in " ".join(told)
