"A column that the source has renamed: recognised, made one column by `dmscdc table rename`, and taken back."

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import DmsSettings
from dmscdc.cli.main import app
from dmscdc.service.config import write_config
from readers import FORMAT
from world import World

pytestmark = pytest.mark.test

OLD, NEW = {"id": "int", "qty": "int", "name": "string"}, {"id": "int", "quantity": "int", "name": "string"}
WAYS = {"parquet": DmsSettings(), "csv": DmsSettings(data_format="csv", add_column_name=True, include_op_for_full_load=True)}


def typed(one: World, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words, "--folder", str(one.root)])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.fixture(params=WAYS)
def one(request, tmp_path, spark) -> World:
    "A table whose column qty is called quantity from its second file on."
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, format=FORMAT)
    world, settings = World(tmp_path, spark, OLD), WAYS[request.param]
    if request.param == "csv":
        world.set(columns=[])
    world.set(key="id").load([(1, 10, "lamp"), (2, 20, "desk"), (3, None, "tent"), (4, 40, "sofa")], settings=settings)
    world.changes(1, [("U", 2, 21, "desk"), ("I", 5, 50, "rug")], settings=settings)
    world.go()
    world.changes(2, [("U", 1, 10, "Lamp"), ("U", 2, 21, "Desk"), ("I", 6, 60, "bed"), ("U", 4, None, "sofa")], schema=NEW, settings=settings)
    return world


WHOLE = [(1, 10, "Lamp"), (2, 21, "Desk"), (3, None, "tent"), (4, None, "sofa"), (5, 50, "rug"), (6, 60, "bed")]


def number(value) -> int | None:
    return None if value is None else int(value)  # CSV without a definition is text


def rows(one: World) -> list[tuple]:
    found = one.lake_table.read(one.spark)
    return sorted((number(row["id"]), number(row["quantity"]), row["name"]) for row in found.collect())


def test_a_renaming_is_recognised_proposed_done_and_taken_back(one):
    done = one.go()
    assert done.verdict == "attention" and "qty was renamed to quantity, judging by type and values (2 of 2 rows" in done.words, done.words
    assert "dmscdc table rename shop.item qty quantity" in done.words
    told = typed(one, "table", "rename", "shop.item", "qty", "quantity")
    assert "qty is read as quantity" in told and "dmscdc pass --only shop.item" in told
    assert one.go().verdict == "ok" and [c.name for c in one.lake_table.head().schema if c.name != "dms_timestamp"] == ["id", "quantity", "name"]
    assert rows(one) == WHOLE
    life = json.loads(typed(one, "history", "shop.item", "--key", "id=2", "--json"))["lives"][0]
    assert [number(step["state"]["quantity"]) for step in life["steps"]] == [20, 21, 21] and life["lake"]["verdict"] in ("agrees", "not compared")
    then = json.loads(typed(one, "as-of", "shop.item", "--file", "load", "--json"))["first"]
    assert {int(row["id"]): row["quantity"] for row in then} == {1: "10", 2: "20", 3: None, 4: "40"}
    one.changes(
        3,
        [("U", 3, 30, "tent"), ("D", 1, 10, "Lamp")],
        schema=NEW,
        settings=WAYS["csv" if one.raw.joinpath("LOAD00000001.csv").exists() else "parquet"],
    )
    assert one.go().verdict == "ok" and rows(one) == [(2, 21, "Desk"), (3, 30, "tent"), *WHOLE[3:]]
    assert "every column is read under the name that its file has" in typed(one, "table", "rename", "shop.item", "--undo")
    one.go()
    assert {"qty", "quantity"} <= {c.name for c in one.lake_table.head().schema}
    assert sorted((number(row["id"]), number(row["qty"]), number(row["quantity"])) for row in one.lake_table.read(one.spark).collect()) == [
        (2, 21, 21),
        (3, None, 30),
        (4, 40, None),
        (5, 50, None),
        (6, None, 60),
    ]
    assert "no column has been renamed" in typed(one, "table", "rename", "shop.item", "--undo", code=2)


def test_a_key_that_was_renamed_is_the_key_under_its_new_name(tmp_path, spark):
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, format=FORMAT)
    one = World(tmp_path, spark, OLD).set(key="id").load([(1, 10, "lamp"), (2, 20, "desk")])
    one.go()
    one.changes(1, [("U", 1, 11, "lamp"), ("D", 2, 20, "desk")], schema={"number": "int", "qty": "int", "name": "string"})
    assert one.go().verdict == "refused"
    typed(one, "table", "rename", "shop.item", "id", "number")
    assert one.go().verdict == "ok"
    assert [tuple(row) for row in one.lake_table.read(spark).select("number", "qty", "name").collect()] == [(1, 11, "lamp")]


def test_two_columns_of_one_file_are_no_renaming_and_another_column_is_not_proposed(tmp_path, spark):
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, format=FORMAT)
    one = World(tmp_path, spark, {**OLD, "size": "int"}).set(key="id").load([(1, 10, "lamp", 5), (2, 20, "desk", 6)])
    one.go()
    one.changes(1, [("U", 1, "lamp", 5, 77), ("U", 2, "desk", 6, 78)], schema={"id": "int", "name": "string", "size": "int", "quantity": "int"})
    done = one.go()
    assert done.verdict == "attention" and "If this is a renaming" in done.words and "judging by type and values" not in done.words
    assert "name is string and quantity is int, so they are two columns" in typed(one, "table", "rename", "shop.item", "name", "quantity", code=2)
    typed(one, "table", "rename", "shop.item", "qty", "size")
    done = one.go()
    assert done.verdict == "refused" and "LOAD00000001.parquet has both qty and size" in done.words and "--undo" in done.words
    typed(one, "table", "rename", "shop.item", "--undo")
    for words, why in ((["qty", "qty"], "has this name already"), (["qty", "volume"], "has no column volume"), (["qty"], "the old and the new name")):
        assert why in typed(one, "table", "rename", "shop.item", *words, code=2)
