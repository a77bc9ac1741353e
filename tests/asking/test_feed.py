"Changes with before and after: what a reader has, and a feed, make what SQL says; and whoever follows a table gets everything once, whatever dies."

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from raw_replay import COLUMNS, KEYS, FileShape, Histories, T, Table, plain
from test_as_of import ITEM, change, minute

from dmscdc.capture.writer import DmsSettings, write_changes, write_load
from dmscdc.errors import NoFeed
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.parts import Cursor, deliver, deliver_next, next_part, read_cursor, save_cursor, write_part
from dmscdc.history.span import landed, span
from dmscdc.scd2.update import update_versions
from dmscdc.state.position import Position
from dmscdc.state.sqlite import SqliteState
from engines import feed
from seeds import seed_of
from tiers import sampled
from world import closed, query

pytestmark = pytest.mark.test

SEED, FEW = seed_of("HISTORY_SEED"), max(1, int(os.environ.get("HISTORIES") or 20) // 20)


# A reader


def read(state: Table, rows: list, keys=KEYS, columns=COLUMNS, net: bool = True) -> Table:
    "The reader's table after a feed, applied row by row. A net feed is checked against what the reader has."
    state = dict(state)
    for n, row in enumerate(rows):
        key, values, kind = tuple(row[k] for k in keys), tuple(plain(row[c]) for c in columns), row["_change_type"]
        if kind == "reset":
            assert n == 0, "a reset comes first"
            state = {}
        elif kind == "update_preimage":
            assert rows[n + 1]["_change_type"] == "update_postimage" and tuple(rows[n + 1][k] for k in keys) == key
            if net:
                assert state[key] == values, "the preimage is what the reader has"
        elif kind == "delete":
            if net:
                assert state[key] == values, "what is deleted is what the reader has"
            state.pop(key, None)
        else:
            if net:
                assert (key in state) == (kind == "update_postimage") and state.get(key) != values, "a net change is one"
            state[key] = values
    if net:
        assert len({tuple(row[k] for k in keys) for row in rows if row["_change_type"] not in ("reset", "update_preimage")}) == sum(
            row["_change_type"] not in ("reset", "update_preimage") for row in rows
        ), "one change a key"
    assert [row["_position"] for row in rows] == sorted(row["_position"] for row in rows)
    return state


def rows_of(told):
    return told.rows.collect()


def check(spark, told: Histories, since, until, nets=(True, False)) -> None:
    "The state at one position and the feed to another make the state there."
    past, start, end = told.past(), told.state(since) if since else {}, told.state(until)
    for net in nets:
        found = rows_of(feed(spark, past, KEYS, landed(since) if since else None, landed(until), net))
        assert read(start, found, net=net) == end, f"net {net}"
        if since:
            assert all(row["_change_type"] != "reset" for row in found)


def shapes(draw: random.Random) -> tuple[FileShape, ...]:
    "Six files in a random order of arrival, each with random columns."
    stages = draw.sample([0, 0, 1, 1, 2, 2], 6)
    carries = [draw.choice(["abc", "abc", "a", "bc", ""]) for _ in stages]
    return tuple(FileShape(frozenset(c), draw.choice(["column", "column", "holes", "none"]), stage) for c, stage in zip(carries, stages))


@pytest.mark.parametrize("number", [SEED + i for i in range(FEW)])
def test_a_state_and_the_feed_from_it_make_every_later_state_for_random_histories(spark, tmp_path, number):
    told = Histories(tmp_path, shapes(random.Random(number)), number, count=80).write()  # repeat with HISTORY_SEED=number
    check(spark, told, told.past(0), told.past(1), nets=(False,))
    check(spark, told, told.past(1), told.past(2), nets=(True,))
    check(spark, told, told.past(0), told.past(2), nets=(True,))


HARD = (
    FileShape(frozenset("a"), "column", 1),
    FileShape(frozenset("abc"), "column", 0),
    FileShape(frozenset("bc"), "holes", 2),
    FileShape(frozenset("abc"), "none", 0),
    FileShape(frozenset(), "column", 1),
    FileShape(frozenset("abc"), "column", 2),
)


def test_late_files_of_several_shapes_are_fed_through_and_a_reload_begins_anew(spark, tmp_path):
    told = Histories(tmp_path, HARD, seed=1, count=80).write()
    check(spark, told, told.past(0), told.past(1), nets=(True,))
    before, position = told.state(told.past()), landed(told.past())
    told.reload()
    past = told.past()
    assert len(past.changes) == 1 and len(past.before) == len(HARD)
    for net in (True, False):
        fed = feed(spark, past, KEYS, position, net=net)
        found = rows_of(fed)
        assert (
            found[0]["_change_type"] == "reset"
            and fed.until.load == 2
            and found[1]["_position"].startswith("000002/0/LOAD00000001.parquet/LOAD00000001.parquet#2")
        )
        assert read(before, found, net=net) == told.state(past)
    assert rows_of(feed(spark, past, KEYS, fed.until)) == []


@pytest.mark.proof
def test_a_key_on_a_day_that_java_does_not_know_is_told_and_woven(spark, tmp_path):
    shape = {"day": "date", "name": "string"}
    write_load(tmp_path / "landing", T, [("1582-10-10", "load"), ("1582-10-04", "load")], shape)
    change(tmp_path / "landing", 1, ("U", "1582-10-10", "first"), shape=shape)
    since, places = (
        landed(open_changelog(str(tmp_path / "landing"), T)),
        [str(T), str(tmp_path / "landing"), str(tmp_path / "lake"), f"sqlite:{tmp_path / 'state.db'}"],
    )
    SqliteState(tmp_path / "state.db").put_settings(T, key="day")
    update = lambda: update_versions(*places, landed=True, quiet_period=0, spark=lambda: spark)  # noqa: E731
    update()
    change(tmp_path / "landing", 2, ("U", "1582-10-10", "second"), shape=shape)
    told = feed(spark, open_changelog(str(tmp_path / "landing"), T), ["day"], since)
    assert kinds(told, "name") == [("update_preimage", "first"), ("update_postimage", "second")]
    assert (update().closed, query(f"select name from read_parquet('{tmp_path}/lake/shop/item_scd2/*.parquet') where is_current order by 1")) == (
        1,
        [("load",), ("second",)],
    )


def kinds(told, *names):
    return [(row["_change_type"], *[row[n] for n in names]) for row in rows_of(told)]


def test_what_a_late_file_names_is_told_again_from_there_on_and_nothing_else(spark, tmp_path):
    write_load(tmp_path, T, [(1, "load", 0), (2, "load", 0), (3, "load", 0)], ITEM)
    change(tmp_path, 1, ("U", 1, "first", 0), ("U", 2, "first", 0))
    change(tmp_path, 3, ("U", 1, "third", 0), ("U", 2, "third", 0), ("D", 3, None, None))
    since = landed(open_changelog(str(tmp_path), T))
    change(tmp_path, 2, ("U", 1, "late", 1), ("U", 3, "late", 1))
    past = open_changelog(str(tmp_path), T)
    assert kinds(feed(spark, past, ["id"], since, net=False), "id", "name") == [
        ("update_preimage", 1, "first"),
        ("update_postimage", 1, "late"),
        ("update_preimage", 3, "load"),
        ("update_postimage", 3, "late"),
        ("update_preimage", 1, "late"),
        ("update_postimage", 1, "third"),
        ("delete", 3, "late"),
    ]
    told = feed(spark, past, ["id"], since)
    assert kinds(told) == [] and told.keys == 2


def test_what_a_resumed_task_sends_again_is_told_once(spark, tmp_path):
    settings, sequences = DmsSettings(sequence_column="seq"), [f"20181215100000{n:021d}" for n in range(4)]
    write_load(tmp_path, T, [(1, "load", 0)], ITEM, settings=settings)
    since = landed(open_changelog(str(tmp_path), T))
    rows = [("U", 1, "first", 0), ("I", 2, "new", 0), ("D", 2, None, None), ("U", 1, "second", 0)]
    change(tmp_path, 1, *rows[:3], settings=settings, sequences=sequences[:3])
    change(tmp_path, 2, *rows, settings=settings, sequences=sequences)
    told = kinds(feed(spark, open_changelog(str(tmp_path), T), ["id"], since, net=False), "id", "name")
    assert told == [
        ("update_preimage", 1, "load"),
        ("update_postimage", 1, "first"),
        ("insert", 2, "new"),
        ("delete", 2, "new"),
        ("update_preimage", 1, "first"),
        ("update_postimage", 1, "second"),
    ]


def test_a_feed_says_where_each_change_came_from_and_when_it_was_committed(spark, tmp_path):
    stamped = DmsSettings(timestamp_column="ts")
    write_load(tmp_path, T, [(1, "load", 0)], ITEM, settings=stamped, time=minute(0))
    since = landed(open_changelog(str(tmp_path), T))
    write_changes(tmp_path, T, [("U", 1, "one", 1)], minute(2), ITEM, stamped, commits=[minute(1.5)], folder="2018/12/15")
    (_, one) = rows_of(feed(spark, open_changelog(str(tmp_path), T), ["id"], since))
    name = "20181215-100200000.parquet"
    assert (one["_position"], one["_cdc_file"], one["_cdc_row"]) == (f"000001/1/{name}/2018/12/15/{name}/000000000000", f"2018/12/15/{name}", 0)
    assert one["_commit_time"].timestamp() == minute(1.5).timestamp()


def test_only_files_and_ranges_that_may_hold_a_touched_key_are_read_for_the_row_before(spark, tmp_path):
    write_load(tmp_path, T, [(n, "load", 0) for n in range(1000)], ITEM)
    since = landed(open_changelog(str(tmp_path), T))
    change(tmp_path, 1, ("U", 7, "seven", 1), ("U", 9, "nine", 1))
    told = feed(spark, open_changelog(str(tmp_path), T), ["id"], since)
    assert kinds(told, "id", "name")[:2] == [("update_preimage", 7, "load"), ("update_postimage", 7, "seven")]
    plan = told.rows._jdf.queryExecution().toString()
    assert "GreaterThanOrEqual(id,7)" in plan and "LessThanOrEqual(id,9)" in plan


# Refusals


def test_a_position_that_is_no_more_or_lies_aside_is_refused_in_words(spark, tmp_path):
    write_load(tmp_path, T, [(1, "load", 0)], ITEM)
    for number in (1, 2, 3):
        change(tmp_path, number, ("U", 1, f"{number}", 0))
    past = open_changelog(str(tmp_path), T)
    since = landed(replace(past, changes=past.changes[:2]))
    (tmp_path / "shop" / "item" / f"{closed(2)}.parquet").unlink()
    gone = open_changelog(str(tmp_path), T)
    with pytest.raises(NoFeed, match=f"{closed(2)}.parquet is no longer in landing or archive.*--archive"):
        feed(spark, gone, ["id"], since)
    with pytest.raises(NoFeed, match=f"{closed(2)}.parquet is no longer"):
        feed(spark, gone, ["id"], landed(upto(past, f"{closed(1)}.parquet")), landed(past))
    aside = landed(replace(past, changes=(past.changes[0], past.changes[2])))
    with pytest.raises(NoFeed, match=f"the reader has {closed(3)}.parquet, which the position to go to does not hold"):
        span(past, aside, since)
    assert span(past, landed(past), since).is_empty and not span(past, None, since).is_empty


# Parts and a cursor


@pytest.fixture
def shop(tmp_path):
    "Three rows, and two change files, of which the first has been read."
    landing = tmp_path / "landing"
    write_load(landing, T, [(1, "load", 0), (2, "load", 0), (3, "load", 0)], ITEM)
    change(landing, 1, ("U", 1, "first", 0), ("D", 2, None, None))
    return landing


def visible(out: Path) -> list[Path]:
    return sorted(p for p in out.iterdir() if not p.name.startswith("."))


def applied(parts: list[Path]) -> Table:
    "What a reader has after these parts, in the order in which they appeared, as DuckDB reads them."
    state: Table = {}
    for part in parts:
        names = ["id", "name", "price", "_change_type", "_position"]
        rows = query(f"select {', '.join(names)} from read_parquet('{part}/*.parquet') order by _position, _change_type desc")
        state = read(state, [dict(zip(names, row)) for row in rows], ("id",), tuple(ITEM))
    return state


def test_parts_sort_by_where_they_end_with_the_load_first(shop):
    past, name = open_changelog(str(shop), T), lambda until: next_part("", Cursor(str(T)), past, landed(until), True).part
    names = [name(until) for until in (upto(past, "load"), *(upto(past, file.path) for file in past.changes))]
    assert len(names) >= 2 and names == sorted(names), names


@pytest.mark.parametrize("step", sampled(["noted", "half written", "visible"], "visible"))
def test_dead_at_any_step_the_next_call_gives_every_change_once(spark, shop, tmp_path, step):
    out, url = tmp_path / "parts", str(tmp_path / "cursor.json")

    def go(past):
        return deliver_next(lambda: spark, past, ["id"], str(out), url, read_cursor(url, T), landed(past), True)

    (first,) = go(open_changelog(str(shop), T))
    change(shop, 3, ("U", 1, "third", 3), ("I", 4, "new", 4))
    past = open_changelog(str(shop), T)
    noted = next_part(url, read_cursor(url, T), past, landed(past), True)
    if step == "half written":
        (out / f".{noted.part}-dead").mkdir()
        (out / f".{noted.part}-dead" / "part.parquet").write_text("half")
    if step == "visible":
        deliver(lambda: spark, past, ["id"], str(out), noted)
    change(shop, 2, ("U", 3, "late", 2))  # meanwhile
    past = open_changelog(str(shop), T)
    parts = [Path(first.path), *[Path(part.path) for part in go(past)]]
    assert sorted(parts) == visible(out) and parts[1].name == noted.part and len(parts) == 3
    assert applied(parts) == {(1,): (1, "third", 3), (3,): (3, "late", 2), (4,): (4, "new", 4)}
    assert go(past) == [] and [p.name for p in out.iterdir() if p.name.startswith(".")] == []


def test_a_cursor_that_is_written_badly_leaves_the_old_one(tmp_path, monkeypatch):
    from dmscdc.history import parts as room

    url, put = str(tmp_path / "cursor.json"), room.put_text
    save_cursor(url, Cursor(str(T), files=1))

    def half(place, text):
        put(place, text[: len(text) // 2])
        raise OSError("no space left")

    monkeypatch.setattr(room, "put_text", half)
    with pytest.raises(OSError):
        save_cursor(url, Cursor(str(T), files=2))
    assert read_cursor(url, T).files == 1


def test_a_part_is_seen_whole_or_not_at_all(spark, shop, tmp_path):
    told = feed(spark, open_changelog(str(shop), T), ["id"])
    dies = replace(told, rows=told.rows.withColumn("name", F.when(F.col("id") == 3, F.raise_error(F.lit("no more space"))).otherwise(F.col("name"))))
    with pytest.raises(Exception, match="no more space"):
        write_part(dies, str(tmp_path / "parts"), "one")
    assert visible(tmp_path / "parts") == []
    write_part(told, str(tmp_path / "parts"), "one")
    assert [p.name for p in (tmp_path / "parts").iterdir()] == ["one"]


def test_a_cursor_of_another_table_or_of_more_files_than_are_there_is_refused(spark, shop, tmp_path):
    url, out, old = str(tmp_path / "cursor.json"), str(tmp_path / "parts"), "20181101-100000000"
    change(shop, old, ("U", 3, "long ago", 0))
    past = open_changelog(str(shop), T)
    deliver_next(lambda: spark, past, ["id"], out, url, read_cursor(url, T), landed(past), True)
    with pytest.raises(ValueError, match="is the cursor of shop.item, not of shop.other"):
        read_cursor(url, replace(T, name="other"))
    (shop / "shop" / "item" / f"{old}.parquet").unlink()  # so old that no name of it is in the position
    change(shop, 2, ("U", 3, "now", 0))
    past = open_changelog(str(shop), T)
    with pytest.raises(NoFeed, match="1 change file from before the look-back window .*0 of them lie in landing or archive.*--archive"):
        deliver_next(lambda: spark, past, ["id"], out, url, read_cursor(url, T), landed(past), True)
    assert read_cursor(url, T).files == 2 and len(visible(Path(out))) == 1


def test_a_cursor_of_0_1_0_whose_position_has_no_tally_counts_its_files(spark, shop, tmp_path):
    url, out, old = tmp_path / "cursor.json", str(tmp_path / "parts"), "20181101-100000000"
    change(shop, old, ("U", 3, "long ago", 0))
    past = open_changelog(str(shop), T)
    deliver_next(lambda: spark, past, ["id"], out, str(url), read_cursor(str(url), T), landed(past), True)
    told = json.loads(url.read_text())
    assert told["position"].pop("applied")
    url.write_text(json.dumps(told))
    (shop / "shop" / "item" / f"{old}.parquet").unlink()
    change(shop, 2, ("U", 3, "now", 0))
    past = open_changelog(str(shop), T)
    with pytest.raises(NoFeed, match="the cursor has read 2 change files of load 1, of which 1 are still there.*--archive"):
        deliver_next(lambda: spark, past, ["id"], out, str(url), read_cursor(str(url), T), landed(past), True)


def test_a_position_made_of_what_landed_holds_exactly_that(tmp_path):
    told = Histories(tmp_path, tuple(FileShape(stage=n % 3) for n in range(12)), seed=3, count=2).write()
    draw = random.Random(SEED)
    past = told.past()
    for _ in range(50):
        some = replace(past, changes=tuple(f for f in past.changes if draw.random() < 0.5))
        at = Position.from_json(landed(some).to_json())
        assert span(past, None, at).line.changes == some.changes
