"""Rows that say less than everything: deletes with nothing but the key, updates with fewer columns, rows that change their partition. The tables expected are written by hand."""

from __future__ import annotations

import pytest

from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.small import table_then
from dmscdc.history.small_feed import small_feed
from dmscdc.history.span import landed
from dmscdc.scd2.update import read_versions, update_versions
from dmscdc.state.position import Position
from tiers import sampled
from ways import way  # noqa: F401
from world import World

pytestmark = pytest.mark.test

ITEM = {"id": "int", "area": "string", "name": "string", "price": "int"}
ROWS = [(1, "north", "a", 10), (2, "south", "b", 20), (3, None, "c", 30), (4, "north", "d", 40)]


def item(spark, root, **settings) -> World:
    return World(root, spark, ITEM).set(**{"key": "id", **settings}).load(ROWS)


def past(world: World):
    return open_changelog(str(world.landing), world.ref, position=Position.from_json(dict(world.lake_table.head().position)))


def asked(world: World) -> list[tuple]:
    return sorted(((r["id"], r["area"], r["name"], r["price"]) for r in table_then(past(world), ["id"]).rows.to_pylist()), key=lambda row: row[0])


@pytest.mark.parametrize(
    "partition, delete", sampled([("", "hard"), ("", "soft"), ("area", "hard"), ("area", "soft")], ("area", "hard"), ("area", "soft"))
)
def test_a_delete_that_carries_only_the_key_finds_its_row_in_every_partition(spark, way, tmp_path, partition, delete):
    world = item(spark, tmp_path, partition=partition, delete=delete)
    world.changes(1, [("D", 1, None, None, None), ("D", 3, None, None, None), ("D", 9, None, None, None)])  # PostgreSQL, by its default identity
    assert world.go().verdict == "ok"
    there = [(2, "south", "b", 20, "I"), (4, "north", "d", 40, "I")]
    marked = [(1, "north", "a", 10, "D"), (3, None, "c", 30, "D")] if delete == "soft" else []
    assert world.lake("id, area, name, price, Op") == sorted([*there, *marked], key=lambda row: row[0])
    if way == "shuffled":
        return
    assert asked(world) == [row[:4] for row in there]
    (audit,), _ = audit_row(str(world.landing), world.lake_table, {"id": 1})
    assert audit.verdict == "agrees" and audit.life.state is None
    update_versions(*world.places, quiet_period=0, spark=lambda: spark)
    assert sorted(row["id"] for row in read_versions(spark, world.table, world.places[2]).where("is_current").collect()) == [2, 4]
    told = small_feed(past(world), ["id"], landed(upto(past(world), "load"))).rows.to_pylist()
    assert sorted((r["_change_type"], r["id"], r["name"]) for r in told) == [("delete", 1, "a"), ("delete", 3, "c")]


def test_an_update_of_the_partition_moves_the_row(spark, way, tmp_path):
    world = item(spark, tmp_path, partition="area")
    world.changes(1, [("U", 1, "south", "a", 11), ("U", 3, "north", "c", 30), ("U", 4, None, "d", 40)])
    assert world.go().verdict == "ok"
    assert (
        world.lake("id, area, name, price")
        == [(1, "south", "a", 11), (2, "south", "b", 20), (3, "north", "c", 30), (4, None, "d", 40)]
        == asked(world)
    )


def test_an_update_in_a_file_with_fewer_columns_leaves_the_others(spark, way, tmp_path):
    world = item(spark, tmp_path, partition="area")
    world.changes(1, [("U", 1, "A"), ("I", 5, "e")], {"id": "int", "name": "string"})
    world.go()
    assert world.lake("id, area, name, price") == [
        (1, "north", "A", 10),
        (2, "south", "b", 20),
        (3, None, "c", 30),
        (4, "north", "d", 40),
        (5, None, "e", None),
    ]


def test_a_key_that_two_rows_of_a_load_have_refuses_it_with_both_rows(spark, tmp_path):
    world = World(tmp_path, spark, ITEM).set(key="id").load([*ROWS, (2, "west", "other", 21)])
    found = world.go()
    assert (
        found.verdict == "refused"
        and "id=2 stands in 2 rows of the load, row 2 of" in found.words
        and "row 5 of" in found.words
        and world.files() == []
    )


def test_inserts_of_rows_that_are_there_and_changes_of_rows_that_are_not(spark, way, tmp_path):
    "What a load and the changes made during it tell twice, and what DMS delivers again after a resume."
    world = item(spark, tmp_path)
    world.changes(1, [("I", 1, "north", "a", 10), ("D", 8, None, None, None), ("U", 2, "south", "B", 21), ("I", 5, "east", "e", 50)])
    world.changes(2, [("U", 2, "south", "B", 21), ("I", 5, "east", "e", 50), ("D", 5, "east", "e", 50)])
    assert world.go().verdict == "ok"
    assert world.lake("id, area, name, price") == [(1, "north", "a", 10), (2, "south", "B", 21), (3, None, "c", 30), (4, "north", "d", 40)]
