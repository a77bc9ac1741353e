"A table whose folder holds no file any more: a person is asked, or the setting `--when-gone` has said what becomes of it."

from __future__ import annotations

import shutil
from datetime import datetime, timezone

import pytest

from dmscdc.history.changelog import open_changelog
from dmscdc.history.span import landed, span
from dmscdc.state.position import Position
from world import World

pytestmark = pytest.mark.test

ITEM = {"id": "int", "name": "string"}
ROWS = [(1, "lamp"), (2, "desk")]


def world(tmp_path, spark, **settings) -> World:
    one = World(tmp_path, spark, ITEM).set(key="id", **settings).load(ROWS).changes(1, [("U", 1, "lamp!")])
    World(tmp_path, spark, ITEM, "shop.other").set(key="id").load(ROWS)  # the landing itself is still there
    one.go()
    return one


def rows(one: World) -> list[tuple]:
    return one.lake("id, name") if one.lake_table.head().rows else []


def test_a_person_is_asked_and_told_of_both_ways(tmp_path, spark):
    one = world(tmp_path, spark)
    shutil.rmtree(one.raw)
    for _ in range(2):
        done = one.idle()
        assert (
            done.verdict == "attention"
            and "no longer holds any file" in done.words
            and "dmscdc table accept shop.item" in done.words
            and "--when-gone empty" in done.words
        )
    assert rows(one) == [(1, "lamp!"), (2, "desk")]


def test_a_table_that_is_kept_stays_and_nobody_is_asked(tmp_path, spark):
    one = world(tmp_path, spark, when_gone="keep")
    shutil.rmtree(one.raw)
    done = one.idle()
    assert done.verdict == "nothing" and "stays as it is (--when-gone keep)" in done.plan["sentence"] and rows(one) == [(1, "lamp!"), (2, "desk")]


def test_a_table_that_follows_is_empty_once_and_goes_on_with_what_comes(tmp_path, spark):
    one = world(tmp_path, spark, when_gone="empty")
    reader = landed(open_changelog(str(one.landing), one.ref))
    shutil.rmtree(one.raw)
    done = one.go()
    assert done.verdict == "ok" and "2 rows removed: its folder" in done.words and "loses all rows" in done.plan["sentence"]
    assert rows(one) == [] and one.lake_table.head().rows == 0 and one.idle().verdict == "nothing"
    one.changes(
        2, [("I", 7, "tent"), ("U", 1, "who?")], time=datetime(2018, 12, 15, 10, 0, 3, tzinfo=timezone.utc)
    )  # the task goes on without a new load
    assert one.go().verdict == "attention" and rows(one) == [(1, "who?"), (7, "tent")]
    past = open_changelog(str(one.landing), one.ref, position=Position.from_json(dict(one.lake_table.head().position)))
    assert span(past, reader).reset and [file.name for file in past.files] == ["20181215-100002000.parquet"]
    one.load([(5, "new")]).go()
    assert rows(one) == [(5, "new")]


def test_a_landing_that_is_gone_altogether_empties_nothing(tmp_path, spark):
    one = world(tmp_path, spark, when_gone="empty")
    shutil.rmtree(one.landing)
    assert one.go().verdict in ("attention", "failed", "refused") and rows(one) == [(1, "lamp!"), (2, "desk")]
    one.landing.mkdir()
    assert one.go().verdict in ("attention", "failed", "refused") and rows(one) == [(1, "lamp!"), (2, "desk")]
