"Files from before the look-back window: touched, brought with an old time, moved away. The plan and all who ask, against an oracle in plain Python."

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from test_left_behind import LAST, NEW, OLD, TOO_LATE, asked, begun, oracle, position, put

from dmscdc.errors import NoFeed
from dmscdc.history.as_of import as_of
from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import held_by, open_changelog
from dmscdc.history.feed import feed
from dmscdc.scd2.update import update_versions
from dmscdc.state.position import Position
from world import World

pytestmark = pytest.mark.test


@pytest.fixture
def w(tmp_path, spark) -> World:
    return begun(tmp_path, spark)


def move(w: World, name: str) -> Path:
    return (w.raw / f"{name}.parquet").rename(w.root / name)


def held(w: World, at: Position | None = None) -> list[str]:
    "The change files that whoever asks takes for applied, where nothing is missing."
    at = at or position(w)
    past = held_by(open_changelog(str(w.landing), w.ref, position=at), at)
    assert not past.gaps
    return [file.name.removesuffix(".parquet") for file in past.changes]


def test_an_applied_old_file_that_is_touched_is_still_applied(w):
    os.utime(w.raw / f"{OLD}.parquet", (time.time() + 9,) * 2)
    assert w.idle().verdict == "nothing" and held(w) == [OLD, LAST]
    assert put(w, NEW).go().verdict == "ok" and held(w) == [OLD, LAST, NEW] and asked(w) == [oracle(OLD, LAST, NEW)] * 3
    put(w, TOO_LATE, at=time.time() + 1)
    assert f"not applied: {TOO_LATE}" in w.idle().words and held(w) == [OLD, LAST, NEW]


def test_a_file_that_comes_with_its_old_time_is_too_late_and_named(w):
    put(w, TOO_LATE)
    found = w.idle()
    assert found.verdict == "attention" and f"not applied: {TOO_LATE}.parquet" in found.words and OLD not in found.words
    assert held(w) == [OLD, LAST]
    w.state.instruct(w.ref, {"kind": "replay", "files": [f"{TOO_LATE}.parquet"]})
    assert w.go().verdict == "ok" and w.idle().verdict == "nothing"
    assert asked(w) == [oracle(OLD, TOO_LATE, LAST)] * 3 and position(w).applied[0] == 3


@pytest.mark.parametrize("at_once", [True, False])
def test_one_is_touched_and_another_comes_too_late_with_a_new_time_or_its_old_one(w, at_once):
    os.utime(w.raw / f"{OLD}.parquet", (time.time() + 9,) * 2)
    put(w, TOO_LATE, at=time.time() + 1 if at_once else None)
    found = w.idle()
    assert f"not applied: {TOO_LATE}.parquet." in found.words and OLD not in found.words and held(w) == [OLD, LAST]
    w.state.instruct(w.ref, {"kind": "accept"})
    w.go()
    assert w.idle().verdict == "nothing" and held(w) == [OLD, LAST] and [name for name, _ in position(w).left_out] == [f"{TOO_LATE}.parquet"]


def test_one_goes_and_another_comes_with_its_old_time(w):
    away = move(w, OLD)
    put(w, TOO_LATE)
    assert w.idle().verdict == "attention", "also where nothing else has come"
    done = put(w, NEW).go()
    assert done.verdict == "attention" and "1 change file had been applied, and those that lie there are not the same" in done.words
    away.rename(w.raw / f"{OLD}.parquet")
    assert f"not applied: {TOO_LATE}.parquet" in w.idle().words and w.lake("id, a") == oracle(OLD, LAST, NEW)


def test_who_asks_is_told_of_files_that_were_moved_away_without_an_archive(w):
    away = move(w, OLD)
    assert w.idle().verdict == "nothing", "the table lacks nothing"
    words = "1 change file from before the look-back window (from 20240105-120000000) had been applied, and 0 of them lie in landing or archive as they were"
    past = open_changelog(str(w.landing), w.ref, position=position(w))
    assert [words in gap for gap in as_of(w.spark, held_by(past, position(w)), ["id"]).gaps] == [True], "said once"
    with pytest.raises(NoFeed, match="look-back window"):
        feed(w.spark, past, ["id"], None, position(w))
    assert words in audit_row(str(w.landing), w.lake_table, {"id": 2})[0][0].life.words[0]
    told = update_versions(*w.places, quiet_period=0, spark=lambda: w.spark)
    assert told.verdict == "attention" and "1 change file from before the look-back window, which the lake has applied" in told.notes[0]
    w.state.instruct(w.ref, {"kind": "rewind", "to": f"{LAST}.parquet"})
    assert w.go().verdict == "ok", "what is applied again sorts after the window's begin"
    away.rename(w.raw / f"{OLD}.parquet")
    assert held(w) == [OLD, LAST] and w.lake("id, a") == oracle(OLD, LAST)


def test_a_type_2_table_that_was_woven_in_time_lacks_nothing_when_files_go(w):
    assert update_versions(*w.places, quiet_period=0, spark=lambda: w.spark).verdict == "ok"
    move(w, OLD)
    put(w, NEW).go()
    told = update_versions(*w.places, quiet_period=0, spark=lambda: w.spark)
    assert (told.verdict, told.notes, told.files["new"]) == ("ok", (), 1)


@pytest.mark.parametrize("gone", [False, True])
def test_a_rewind_from_before_the_window_is_sure_where_all_files_are_there(w, gone):
    put(w, TOO_LATE, at=time.time() + 1)
    w.state.instruct(w.ref, {"kind": "replay", "files": [f"{TOO_LATE}.parquet"]})
    w.go()
    assert w.lake("id, a") == oracle(OLD, TOO_LATE, LAST)
    if gone:
        move(w, TOO_LATE)
    w.state.instruct(w.ref, {"kind": "rewind", "to": f"{OLD}.parquet"})
    done = w.go()
    assert done.verdict == ("attention" if gone else "ok"), done.words
    assert gone == (
        "2 change files from before the look-back window" in done.words and "but 1; if one is gone that sorts after 20240101" in done.words
    )
    assert gone or (w.lake("id, a") == oracle(OLD, TOO_LATE, LAST) and held(w) == [OLD, TOO_LATE, LAST])


def test_a_position_without_a_tally_goes_by_times(w):
    at = replace(position(w), applied=None)
    put(w, TOO_LATE)
    assert held(w, at) == [OLD, TOO_LATE, LAST]
