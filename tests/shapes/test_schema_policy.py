"""What a table's schema policy does with other columns: the tables expected are written by hand."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.scd2.update import read_versions, update_versions
from world import World, closed, query

pytestmark = pytest.mark.test

ITEM = {"id": "int", "name": "string"}
WIDER = {"id": "bigint", "name": "string", "color": "string"}


def item(spark, root, **settings) -> World:
    return World(root, spark, ITEM).set(key="id", **settings).load([(1, "a"), (2, "b")])


def names(world: World) -> list[str]:
    return [str(c) for c in world.lake_table.head().schema]


def test_by_default_columns_are_taken(spark, tmp_path):
    world = item(spark, tmp_path).changes(1, [("U", 1, "A", "red")], WIDER)
    assert world.go().verdict == "ok" and world.lake("id, name, color") == [(1, "A", "red"), (2, "b", None)]
    assert names(world) == ["id bigint", "name string", "color string"]


@pytest.mark.parametrize(
    "schema, words",
    [(WIDER, "column id widened from int to bigint"), ({**ITEM, "color": "string"}, "column color string added"), ({"id": "int"}, "column name")],
)
def test_strict_refuses_every_change_until_a_person_allows_it(spark, tmp_path, schema, words):
    world = item(spark, tmp_path, schema_policy="strict").changes(1, [("U", 1, "A", "red")[: 1 + len(schema)]], schema)
    found = world.go()
    assert found.verdict == "refused" and words in found.words and "dmscdc table set shop.item --schema-policy evolve" in found.words, found.words
    assert world.lake("id, name") == [(1, "a"), (2, "b")]
    world.set(schema_policy="evolve")
    assert world.go().verdict in ("ok", "attention") and world.set(schema_policy="strict").idle().verdict == "nothing"


def test_strict_goes_on_with_the_same_columns_and_refuses_a_reload_of_others(spark, tmp_path):
    world = item(spark, tmp_path, schema_policy="strict").changes(1, [("U", 1, "A")])
    assert world.go().verdict == "ok"
    world.load([(1, "A", "red"), (2, "b", "blue")], {**ITEM, "color": "string"})
    world.state.instruct(world.ref, {"kind": "reload", "changes": "keep"})
    found = world.go()
    assert found.verdict == "refused" and "column color string is new in this load" in found.words and names(world) == ["id int", "name string"]


def test_keep_leaves_new_columns_out_of_the_table_and_of_its_versions_and_takes_wider_ones(spark, tmp_path):
    world = item(spark, tmp_path, schema_policy="keep")
    world.go()
    update_versions(*world.places, quiet_period=0, spark=lambda: spark)
    world.changes(1, [("U", 1, "A", "red"), ("I", 1 << 40, "c", "blue")], WIDER)
    found = world.go()
    assert found.verdict == "ok" and list(found.schema) == [
        "column id widened from int to bigint by 20181215-100001000.parquet",
        "column color string is left out (--schema-policy keep)",
    ]
    assert world.lake("id, name") == [(1, "A"), (2, "b"), (1 << 40, "c")] and names(world) == ["id bigint", "name string"]
    update_versions(*world.places, quiet_period=0, spark=lambda: spark)
    versions = read_versions(spark, world.table, world.places[2])
    assert "color" not in versions.columns and sorted(r["id"] for r in versions.where("is_current").collect()) == [1, 2, 1 << 40]
    world.set(schema_policy="evolve").changes(2, [("U", 2, "B", "green")], WIDER)
    assert world.go().verdict == "ok" and world.lake("id, color") == [(1, None), (2, "green"), (1 << 40, None)]


def test_keep_asks_a_person_where_a_column_may_have_been_renamed(spark, tmp_path):
    world = World(tmp_path, spark, {}).set(key="id", schema_policy="keep").load([(1, "a")], {"id": "int", "name": "string"})
    world.changes(1, [("U", 1, "b")], {"id": "int", "Name": "string"})
    found = world.go()
    assert found.verdict == "attention" and "column name comes no more and Name, which is new (another letter case), is left out" in " ".join(
        found.notes
    )
    assert "--schema-policy evolve" in " ".join(found.notes) and world.lake("id, name") == [(1, "a")]


def said(world: World, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--folder", str(world.root), "--landing", str(world.landing), "--lake", str(world.root / "lake")])
    assert done.exit_code in (0, 3), done.output
    return done.stdout


def test_keep_leaves_a_column_out_of_every_answer_too(spark, tmp_path):
    world = item(spark, tmp_path, schema_policy="keep").changes(1, [("U", 1, "A", "red")], WIDER)
    world.go()
    assert "color" not in said(world, "as-of", "shop.item") and "red" not in said(world, "as-of", "shop.item")
    assert "1 reset" in said(world, "feed", "shop.item", "--out", str(tmp_path / "feed"))
    told = query(f"select column_name from (describe select * from read_parquet('{tmp_path}/feed/**/*.parquet'))")
    assert {"id", "name"} <= {name for (name,) in told} and ("color",) not in told


@pytest.mark.parametrize("policy", ["evolve", "strict", "keep"])
def test_a_csv_table_whose_definition_grows_obeys_the_policy(spark, tmp_path, policy):
    narrow = [("id", "int"), ("name", "string")]
    world = World(tmp_path, spark, ITEM).set(key="id", columns=narrow, schema_policy=policy)
    world.raw.mkdir(parents=True)
    (world.raw / "LOAD00000001.csv").write_text("1,a\n2,b\n")
    (world.raw / f"{closed(1)}.csv").write_text("U,1,A\n")
    world.go()
    (world.raw / f"{closed(2)}.csv").write_text("U,2,red,B\n")
    (tmp_path / "wide.sql").write_text("create table item (id int, color varchar(9), name varchar(9))")
    said(world, "table", "columns", "shop.item", "--ddl", str(tmp_path / "wide.sql"), "--dialect", "mysql", "--since", f"{closed(2)}.csv")
    found = world.go()
    if policy == "strict":
        assert found.verdict == "refused" and "column color string added" in found.words and world.lake("id, name") == [(1, "A"), (2, "b")]
        return
    assert found.verdict == "ok" and world.lake("id, name") == [(1, "A"), (2, "B")], found.words
    assert ("color string" in names(world)) == (policy == "evolve")
    if policy == "evolve":
        assert world.lake("id, color") == [(1, None), (2, "red")]
    assert ("red" in said(world, "as-of", "shop.item")) == (policy == "evolve")
