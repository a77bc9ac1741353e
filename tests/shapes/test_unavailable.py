"Values that the source's log did not have: an update without them leaves what the row has, whoever is asked. A dictionary replays the changes one by one."

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.capture.sqlite import SqliteSource
from dmscdc.capture.writer import NOT_LOGGED, DmsSettings
from dmscdc.cli.main import app
from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.small import table_then
from dmscdc.history.span import landed
from dmscdc.scd2.update import read_versions, update_versions
from dmscdc.service.config import write_config
from dmscdc.state.position import Position
from engines import as_of, feed
from seeds import seed_of
from tiers import sampled
from ways import way  # noqa: F401
from world import World, closed, query

pytestmark = pytest.mark.test

ITEM = {"id": "int", "area": "string", "note": "string", "price": "decimal(9,2)"}
CSV = DmsSettings(data_format="csv", use_csv_no_sup_value=True, csv_no_sup_value="¬", add_column_name=True, include_op_for_full_load=True)
WAYS = {
    "marker": (CSV, {"marker": "¬"}),
    "keep": (DmsSettings(), {"unavailable": ["note", "area"]}),
    "keep all": (DmsSettings(), {"unavailable": ["*"]}),
}
SUFFIX = {"marker": "csv", "keep": "parquet", "keep all": "parquet"}


def past(world: World):
    return open_changelog(str(world.landing), world.ref, position=Position.from_json(dict(world.lake_table.head().position)))


def plainly(rows) -> list[tuple]:
    return sorted((r["id"], r["area"], r["note"], None if r["price"] is None else str(r["price"])) for r in rows)


def life(draw: random.Random, how: str, files: int) -> tuple[list[tuple], list[list[tuple]], list[dict]]:
    "The load, the changes of each file, and the table after each."

    def value(name, update):
        lacks, nulls = update and (how != "keep" or name != "price"), how == "marker" or not update or (how == "keep" and name == "price")
        if lacks and draw.random() < 0.4:
            return NOT_LOGGED
        if nulls and draw.random() < 0.2:
            return None
        return f"{draw.randrange(900)}.50" if name == "price" else draw.choice(["north", "south", 'a, "b"'])

    names = list(ITEM)[1:]
    table = {key: tuple(value(name, False) for name in names) for key in range(8)}
    load, changes, after = [(key, *row) for key, row in table.items()], [], []
    for _ in range(files):
        lines = []
        for _ in range(draw.randint(3, 14)):
            key = draw.randrange(12)
            op = draw.choice("UUUD") if key in table else "I"
            row = tuple(value(name, op == "U") for name in names)
            lines.append((op, key, *row))
            if op == "D":
                del table[key]
            else:
                table[key] = tuple(old if new is NOT_LOGGED else new for old, new in zip(table.get(key, (None,) * 3), row))
        changes.append(lines)
        after.append(dict(table))
    return load, changes, after


@pytest.mark.parametrize("how, partition", sampled([("marker", ""), ("keep", "area"), ("keep all", "")], ("marker", ""), ("keep", "area")))
def test_random_lives_are_replayed_alike_by_the_lake_and_by_every_question(spark, way, tmp_path, how, partition):
    settings, csv = WAYS[how]
    world = World(tmp_path, spark, ITEM).set(key="id", partition=partition, csv=csv, columns=[list(one) for one in ITEM.items()])
    load, changes, after = life(random.Random(seed_of("CSV_SEED") + len(how)), how, 5)
    world.load(load, settings=settings)
    expected = [sorted((key, *row) for key, row in table.items()) for table in after]
    for number in (1, 3, 2, 4, 5):  # the second comes late
        world.changes(number, changes[number - 1], settings=settings)
        if number != 1:
            done = world.go()
    assert done.verdict == "ok" and done.words.endswith("not in the source's log, so the older ones stayed"), done.words
    assert plainly(dict(zip(ITEM, row)) for row in world.lake("id, area, note, price")) == expected[-1]
    line, file = past(world), lambda number: f"{closed(number)}.{SUFFIX[how]}"
    assert plainly(table_then(upto(line, file(1)), ["id"]).rows.to_pylist()) == expected[0]
    assert plainly(as_of(spark, upto(line, file(4)), ["id"]).rows.collect()) == expected[3]
    told = feed(spark, line, ["id"], landed(upto(line, file(2)))).rows.collect()
    has = {row[0]: row for row in expected[1]}
    for row in told:
        kind, (one,) = row["_change_type"], plainly([row])
        if kind in ("update_preimage", "delete"):
            assert has.pop(one[0]) == one
        else:
            has[one[0]] = one
    assert sorted(has.values()) == expected[-1]
    for key in range(12):
        audits, _ = audit_row(str(world.landing), world.lake_table, {"id": key})
        assert [one.verdict for one in audits if one.verdict != "agrees"] == []
    if way == "shuffled":
        return
    update_versions(*world.places, quiet_period=0, spark=lambda: spark)
    assert plainly(read_versions(spark, world.table, world.places[2]).where("is_current").collect()) == expected[-1]


CASES = {  # changes of one row that is (1, "a", "b", 5): the values of area and note after them
    "changed, then not logged": ([("U", "x", NOT_LOGGED), ("U", NOT_LOGGED, NOT_LOGGED)], ("x", "b")),
    "not logged, then changed": ([("U", NOT_LOGGED, NOT_LOGGED), ("U", NOT_LOGGED, "y")], ("a", "y")),
    "a written null stays": ([("U", None, "y"), ("U", NOT_LOGGED, NOT_LOGGED)], (None, "y")),
    "never past a delete": ([("U", "x", "y"), ("D", "x", "y"), ("I", None, "z"), ("U", NOT_LOGGED, NOT_LOGGED)], (None, "z")),
    "an insert that lacks one has none": ([("D", "a", "b"), ("I", NOT_LOGGED, "z")], (None, "z")),
    "nor for a row that is gone": ([("D", "a", "b"), ("U", NOT_LOGGED, "z")], (None, "z")),
}


@pytest.mark.parametrize("files", ["one file", "a file each", "a pass each"])
def test_each_rule_in_one_file_in_several_and_against_the_lake(spark, tmp_path, files):
    world = (
        World(tmp_path, spark, ITEM)
        .set(key="id", csv={"marker": "¬"}, columns=[list(one) for one in ITEM.items()])
        .load([(key, "a", "b", 5) for key in range(9)], settings=CSV)
    )
    world.go()
    moments = range(max(len(changes) for changes, _ in CASES.values()))
    rows = [[(changes[at][0], key, *changes[at][1:], 5) for key, (changes, _) in enumerate(CASES.values()) if at < len(changes)] for at in moments]
    rows = [sum(rows, [])] if files == "one file" else rows
    for number, lines in enumerate(rows, 1):
        world.changes(number, lines, settings=CSV)
        if files == "a pass each":
            world.go()
    world.go()
    found = {key: (area, note) for key, area, note in world.lake("id, area, note")}
    assert {name: found[key] for key, name in enumerate(CASES)} == {name: row for name, (_, row) in CASES.items()}
    assert found[7] == ("a", "b")  # of no change


def test_a_value_that_was_not_logged_stays_behind_where_the_key_changes_and_that_is_said(spark, tmp_path):
    images = replace(CSV, before_image="pk-only")
    world = (
        World(tmp_path, spark, ITEM)
        .set(key="id", csv={"marker": "¬"}, columns=[list(one) for one in ITEM.items()])
        .load([(1, "a", "b", 5)], settings=images, key=("id",))
    )
    world.changes(1, [("U", 2, "a", NOT_LOGGED, 5)], settings=images, key=("id",), before=[(1, "a", "b", 5)])
    done = world.go()
    assert done.verdict == "attention" and "note" in done.words and world.lake("id, area, note") == [(2, "a", None)], done.words


@pytest.mark.proof
def test_a_captured_database_that_logs_what_changes_equals_the_lake_from_the_command_line(tmp_path, monkeypatch):
    import sqlite3
    from contextlib import closing

    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db", isolation_level=None)) as db:
        db.executescript(
            "create table item (id integer primary key, area text, note text); insert into item values (1, 'a', 'b'), (2, 'c', 'd'), (3, null, 'e')"
        )
        source, settings = SqliteSource("shop.db"), DmsSettings(changed_only=("area", "note"))
        source.install()
        source.full_load("landing", settings)
        db.executescript(
            "update item set note = 'B' where id = 1; update item set area = 'x' where id = 3; update item set note = 'E' where id > 1; insert into item values (4, null, 'n'); delete from item where id = 2"
        )
        source.flush("landing", settings, everything=True)
        there = db.execute("select id, area, note from item order by id").fetchall()
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    run = lambda *words: CliRunner().invoke(app, list(words))
    assert run("table", "set", "shop.item", "--key", "id").exit_code == 0
    wrong = run("table", "set", "shop.item", "--unavailable", "keep:nought")
    assert wrong.exit_code == 2 and "shop.item has no column nought" in " ".join(wrong.output.split())
    said = run("table", "set", "shop.item", "--unlogged", "keep:area,note")  # its name before 1.0
    assert "nulls in updates of area, note count as not logged" in " ".join(said.output.split())
    assert run("pass").exit_code == 0
    assert query("select id, area, note from read_parquet('lake/shop/item/*.parquet') where Op <> 'D' order by id") == there


def test_a_file_that_is_refused_as_it_is_stays_refused_in_words(spark, tmp_path):
    world = World(tmp_path, spark, ITEM).set(key="id", csv={"unavailable": ["*"]}).load([(1, "a", "b", 5)])
    world.go()
    pq.write_table(
        pa.table([["U"], pa.array([1], pa.int32()), pa.array([None], pa.string()), ["x"]], names=["Op", "id", "note", "Op"]),
        world.raw / f"{closed(1)}.parquet",
    )
    done = world.go()
    assert done.verdict == "refused" and "has 2 columns Op" in done.words
