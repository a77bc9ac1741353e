"Rows with `Op` T: the source's table was emptied there. Refused, or (`--when-gone empty`) the lake's table loses its rows at that place."

from __future__ import annotations

import random
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from dmscdc.capture.writer import DmsSettings
from dmscdc.changes.quarantine import quarantine_folder_of
from dmscdc.errors import NoPast
from dmscdc.history.as_of import as_of
from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.feed import feed
from dmscdc.history.small import table_then
from dmscdc.history.span import landed
from dmscdc.scd2 import read_versions, update_versions
from dmscdc.state.position import Position
from readers import FORMAT
from world import World, closed, replayed

pytestmark = pytest.mark.test

ITEM = {"id": "int", "name": "string"}
T = ("T", None, None)


def world(tmp_path, spark, **settings) -> World:
    one = World(tmp_path, spark, ITEM).set(key="id", **settings).load([(1, "lamp"), (2, "desk"), (3, "bed")])
    one.changes(1, [("U", 1, "lamp!")]).go()
    return one


def line(one: World):
    aside = quarantine_folder_of(str(one.root / "lake"), one.ref)
    return open_changelog(str(one.landing), one.ref, position=Position.from_json(dict(one.lake_table.head().position)), quarantine_folder=aside)


def rows(one: World) -> list[tuple]:
    return one.lake("id, name")


def right(one: World, key: str = "id") -> list[tuple]:
    return replayed(one.raw, [key], "id, name")


def test_a_batch_with_a_truncate_is_refused_and_the_command_it_names_empties_the_table_at_that_place(tmp_path, spark):
    one = world(tmp_path, spark)
    one.changes(2, [("I", 5, "rug")]).changes(3, [("I", 6, "mat"), T, ("I", 1, "new lamp"), ("I", 9, "sofa")]).changes(4, [("U", 9, "couch")])
    refused = one.go()
    assert (
        refused.verdict == "refused"
        and "dmscdc table set shop.item --when-gone empty" in refused.words
        and rows(one) == [(1, "lamp!"), (2, "desk"), (3, "bed")]
    )
    one.set(when_gone="empty")
    done = one.go()
    assert (
        done.verdict == "ok"
        and f"3 rows removed: row 2 of {closed(3)}.parquet says TRUNCATE" in done.words
        and f"1 change file before it not needed ({closed(2)}.parquet)" in done.words
    )
    assert "5 rows read: 2 inserted, 3 folded into later ones" in done.words  # the TRUNCATE, what it ended, and what became of a later row
    assert rows(one) == right(one) == [(1, "new lamp"), (9, "couch")] and one.idle().verdict == "nothing"


def test_files_that_come_late_count_where_they_come_after_the_truncate(tmp_path, spark):
    one = world(tmp_path, spark, when_gone="empty").changes(6, [("I", 5, "rug"), T, ("I", 1, "new lamp")]).changes(9, [("U", 1, "newest")])
    assert one.go().verdict == "ok"
    one.changes(4, [("I", 7, "before")]).changes(8, [("I", 8, "after"), ("U", 1, "between")])
    assert one.go().verdict in ("ok", "attention") and rows(one) == right(one) == [(1, "newest"), (8, "after")]
    one.changes(7, [("I", 11, "gone"), T])  # late itself: what follows it is applied again
    assert one.go().verdict in ("ok", "attention") and rows(one) == right(one) == [(1, "newest"), (8, "after")]


def follow(spark, one: World, since: Position, had: dict[int, str]) -> tuple[Position, dict[int, str]]:
    "What a reader of the feed has after it, and where it then stands."
    told = feed(spark, line(one), ["id"], since=since)
    for row in told.rows.collect():
        if row["_change_type"] == "reset":
            had = {}
        elif row["_change_type"] == "delete":
            had = {key: name for key, name in had.items() if key != row["id"]}
        else:
            had = {**had, row["id"]: row["name"]}
    return told.until, had


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.torture) for seed in (1, 2))])
def test_random_histories_with_truncates_equal_the_replay_and_every_answer_equals_the_lake(tmp_path, spark, seed):
    chance = random.Random(seed)
    one, close = world(tmp_path, spark, when_gone="empty"), 10
    reader, had = landed(line(one)), dict(rows(one))
    for _ in range(4):
        for _ in range(chance.randint(1, 3)):
            close += chance.randint(1, 9)
            ops = chance.choices("IUDT", (4, 4, 2, 1), k=chance.randint(1, 6))
            one.changes(close, [T if op == "T" else (op, chance.randint(1, 6), None if op == "D" else f"{close}") for op in ops])
        assert one.go().verdict in ("ok", "attention") and rows(one) == right(one)
        reader, had = follow(spark, one, reader, had)
        assert sorted(had.items()) == rows(one)
        assert sorted(map(tuple, as_of(spark, line(one), ["id"]).rows.select("id", "name").collect())) == rows(one)
        assert sorted((row["id"], row["name"]) for row in table_then(line(one), ["id"]).rows.to_pylist()) == rows(one)
        update_versions(*one.places, spark=lambda: spark)
        now = read_versions(spark, one.table, str(one.root / "lake"), FORMAT).where("is_current")
        assert sorted(map(tuple, now.select("id", "name").collect())) == rows(one)
        for key in range(1, 7):
            [audit], _ = audit_row(str(one.landing), one.lake_table, {"id": key}, spark=lambda: spark)
            assert audit.verdict == "agrees", (key, audit)


def test_a_table_without_a_key_loses_its_rows_too_and_a_truncate_that_comes_late_is_refused_there(tmp_path, spark):
    one = World(tmp_path, spark, ITEM).set(insert_only=True, when_gone="empty").load([(1, "lamp")]).changes(1, [("I", 1, "lamp")])
    assert one.go().verdict in ("ok", "attention")
    one.changes(5, [("I", 2, "desk"), T, ("I", 3, "bed"), ("I", 3, "bed")])
    assert one.go().verdict == "ok" and rows(one) == [(3, "bed"), (3, "bed")]
    one.changes(3, [T])
    assert one.go().verdict == "nothing" and rows(one) == [(3, "bed"), (3, "bed")]  # from before the other one
    one.changes(6, [("I", 4, "rug")]).go()
    one.gone(closed(3)).changes("20181215-100005500", [T, ("I", 5, "mat")])
    refused = one.go()
    assert refused.verdict == "refused" and "came late" in refused.words and "--reload" in refused.words and len(rows(one)) == 3


def test_deletes_that_only_mark_rows_do_not_keep_them_and_a_load_after_it_replaces_the_table(tmp_path, spark):
    one = world(tmp_path, spark, when_gone="empty", delete="soft").changes(2, [("D", 2, None)])
    assert one.go().verdict == "ok" and len(rows(one)) == 3
    one.changes(3, [T, ("I", 7, "tent")])
    assert one.go().verdict == "ok" and rows(one) == [(7, "tent")]
    one.load([(4, "stool")]).state.instruct(one.ref, {"kind": "reload", "changes": "supersede"})
    one.go()
    assert rows(one) == [(4, "stool")] and line(one).begins.startswith("load 3")


def test_a_truncate_of_a_table_that_began_with_changes_and_one_in_a_csv_file(tmp_path, spark):
    one = World(tmp_path, spark, ITEM).set(key="id", when_gone="empty").changes(1, [("I", 1, "lamp"), T, ("I", 2, "desk")])
    assert one.go().verdict == "ok" and rows(one) == [(2, "desk")]
    other = World(tmp_path / "csv", spark, ITEM).set(key="id", when_gone="empty", columns=[["id", "int"], ["name", "string"]])
    other.raw.mkdir(parents=True)
    (other.raw / "LOAD00000001.csv").write_text("1,lamp\n2,desk\n")
    (other.raw / f"{closed(1)}.csv").write_text("U,1,lamp!\nT,,\nI,3,bed\n")
    assert other.go().verdict == "ok" and rows(other) == [(3, "bed")]


def test_a_moment_before_the_truncate_is_not_told(tmp_path, spark):
    one = world(tmp_path, spark, when_gone="empty").changes(3, [T, ("I", 7, "tent")])
    assert one.go().verdict == "ok"
    with pytest.raises(NoPast, match=r"load was before row 1 of .* \(TRUNCATE\)"):
        upto(line(one), "load")
    with pytest.raises(NoPast, match=r"was before row 1 of .* \(TRUNCATE\)"):
        as_of(spark, line(one), ["id"], until=datetime(2018, 12, 15, 10, 0, 2, tzinfo=timezone.utc))


def numbered(*numbers: int):
    return [f"20181215100000{number:021d}" for number in numbers]


def test_a_truncate_that_a_resumed_task_sends_again_empties_nothing_and_one_before_the_load_is_refused(tmp_path, spark):
    more = {"settings": DmsSettings(sequence_column="seq")}
    one = (
        World(tmp_path, spark, ITEM)
        .set(key="id", when_gone="empty")
        .load([(1, "lamp")])
        .changes(1, [T, ("I", 6, "rug"), ("I", 7, "mat")], sequences=numbered(7, 8, 9), **more)
    )
    assert one.go().verdict == "ok" and rows(one) == [(6, "rug"), (7, "mat")]
    one.changes(3, [T], sequences=numbered(7), **more)
    assert one.go().verdict in ("ok", "attention") and rows(one) == [(6, "rug"), (7, "mat")]
    one.changes(5, [T, ("I", 8, "bed")], sequences=numbered(20, 21), **more).changes(6, [T], sequences=numbered(20), **more)  # in one pass
    assert one.go().verdict in ("ok", "attention") and rows(one) == [(8, "bed")]
    one.changes(
        7, [("U", 6, "rug!"), ("I", 7, "mat"), T, ("I", 8, "bed"), ("U", 8, "bed!")], sequences=numbered(10, 9, 20, 21, 22), **more
    )  # from before it, too
    assert one.go().verdict in ("ok", "attention") and rows(one) == [(8, "bed!")]
    assert sorted(map(tuple, as_of(spark, line(one), ["id"]).rows.select("id", "name").collect())) == [(8, "bed!")]
    late = (
        World(tmp_path / "late", spark, ITEM)
        .set(key="id", when_gone="empty")
        .load([(1, "lamp"), (2, "desk")])
        .changes(4, [("I", 8, "bed")], sequences=numbered(6), **more)
    )
    assert late.go().verdict == "ok"
    late.changes(2, [("I", 7, "sofa"), T, ("I", 1, "new")], sequences=numbered(1, 2, 3), **more)  # never applied, and its place is known
    assert late.go().verdict in ("ok", "attention") and rows(late) == [(1, "new"), (8, "bed")]
    assert sorted(map(tuple, as_of(spark, line(late), ["id"]).rows.select("id", "name").collect())) == [(1, "new"), (8, "bed")]
    late.changes(9, [T], sequences=numbered(4), **more)  # never applied, of another task: what of the table came after it?
    done = late.go()
    assert done.verdict == "attention" and "no file has had" in done.words and rows(late) == [(1, "new"), (8, "bed")]
    early = (
        World(tmp_path / "early", spark, ITEM)
        .set(key="id", when_gone="empty")
        .changes(1, [T], time=datetime(2018, 12, 15, 10, 0, 2, tzinfo=timezone.utc))
        .load([(1, "lamp")], time=datetime(2018, 12, 15, 10, 5, tzinfo=timezone.utc))
    )
    refused = early.go()
    assert refused.verdict == "refused" and "put before the load" in refused.words and "--supersede" in refused.words and rows(early) == [(1, "lamp")]


@pytest.mark.proof
def test_a_pass_that_has_no_spark_yet_leaves_out_what_came_again_from_before_the_truncate(tmp_path, spark):
    more = {"settings": DmsSettings(sequence_column="seq")}
    one = World(tmp_path, spark, ITEM).load([(1, "lamp")]).changes(1, [("U", 1, "lamp!"), T, ("I", 7, "mat")], sequences=numbered(1, 2, 3), **more)

    def typed(*words: str) -> str:
        return subprocess.run(
            [Path(sys.executable).with_name("dmscdc"), *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ).stdout

    (
        typed("init", "--landing", str(one.landing), "--lake", str(one.root / "lake"), "--quiet-period", "0"),
        typed("table", "set", "shop.item", "--key", "id", "--when-gone", "empty"),
    )
    assert "1 table: 1 ok" in typed("pass")
    one.changes(5, [("U", 1, "lamp!"), ("I", 7, "mat"), ("I", 8, "bed")], sequences=numbered(1, 3, 4), **more)
    said = typed("pass")
    assert "1 row left out that is from before the TRUNCATE" in said and rows(one) == [(7, "mat"), (8, "bed")], said
