"What holds of Iceberg tables that our own tasks write: other programs read, skip and write them as they do Iceberg's own."
from __future__ import annotations

import json

import pytest

from dmscdc.lake.iceberg_log import IcebergLog

from readers import iceberg
from test_delta_log import COLUMNS, PREDICATES, ROWS, TYPES, VALUES, rows, wanted, world
from tiers import sampled
from world import World

pytestmark = pytest.mark.proof


def engines(world: World) -> list[str]:
    "Who wrote each snapshot."
    return [one["summary"].get("engine-name", "dmscdc") for one in world.lake_table.newest_metadata()[1]["snapshots"]]


def by_all(world: World) -> list[list[tuple]]:
    "The rows as Spark, and as pyiceberg, finds them."
    return [rows(row.asDict() for row in world.lake_table.read(world.spark).collect()), rows(iceberg(world.folder).to_pylist())]


def in_spark(world: World) -> str:
    "The table's name in the session, as another program has it."
    return world.lake_table._named(world.spark)


def test_a_load_and_its_changes_are_our_files_and_equal_the_source_for_every_reader(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "zwei", "süd"), ("D", 3, None, None), ("I", 9, "neun", "ost")])
    assert here.go().verdict == "ok" and engines(here) == ["dmscdc", "dmscdc"] and by_all(here) == [wanted(here)] * 2
    known = here.lake_table.newest_metadata()[1]
    assert known["refs"]["dmscdc"]["snapshot-id"] == known["current-snapshot-id"] and json.loads(known["snapshots"][-1]["summary"]["dmscdc"])["dmscdc"]["number"] == 2


def test_columns_that_come_later_are_null_in_files_that_no_change_touched(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS[:2])
    here.go()
    here.changes(1, [("I", 9, "neun", "ost", "new")], {"id": "int", "name": "string", "region": "string", "note": "string"})
    assert here.go().verdict == "ok" and engines(here)[-1] == "dmscdc"
    found = {row["id"]: row["note"] for row in here.lake_table.read(spark).collect()}
    assert found == {1: None, 2: None, 9: "new"} == {row["id"]: row["note"] for row in iceberg(here.folder).to_pylist()}


@pytest.mark.compiled
def test_no_reader_that_skips_files_by_their_bounds_misses_a_row(tmp_path, spark):
    here = world(tmp_path, spark, TYPES).load(VALUES[:3])
    here.go()
    here.changes(1, [("I", *VALUES[3]), ("U", *VALUES[1])])
    assert here.go().verdict == "ok" and engines(here) == ["dmscdc", "dmscdc"]
    frame = spark.table(in_spark(here))
    kept = frame.localCheckpoint()  # in memory: nothing can be skipped
    for predicate in PREDICATES:
        ids = [sorted(row["id"] for row in one.where(predicate).select("id").collect()) for one in (frame, kept)]
        assert ids[0] == ids[1], predicate


def test_iceberg_s_own_commands_go_on_upon_our_commits_and_we_upon_theirs(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    for close in range(1, 4): here.changes(close, [("U", close, f"v{close}", "west")]).go()
    table, (catalog, _, name) = in_spark(here), in_spark(here).partition(".")
    spark.sql(f"call {catalog}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))").collect()
    here.changes(5, [("U", 5, "after", "west"), ("D", 6, None, None)])
    assert here.go().verdict == "ok" and by_all(here) == [wanted(here)] * 2 and engines(here)[-1] == "dmscdc"
    spark.sql(f"call {catalog}.system.rewrite_manifests('{name}')").collect()
    spark.sql(f"call {catalog}.system.expire_snapshots(table => '{name}', older_than => timestamp'2100-01-01 00:00:00', retain_last => 1)").collect()
    here.changes(6, [("I", 7, "last", "west")])
    assert here.go().verdict == "ok" and by_all(here) == [wanted(here)] * 2
    assert spark.sql(f"select * from {table}.snapshots").count() >= 2


def test_a_file_with_delete_files_is_left_to_iceberg_s_merge(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    spark.sql(f"alter table {in_spark(here)} set tblproperties ('write.delete.mode' = 'merge-on-read')")
    spark.sql(f"delete from {in_spark(here)} where id = 1").collect()  # another program, which is told
    here.changes(1, [("U", 2, "zwei", "west")])
    assert here.go().verdict == "attention" and engines(here)[-1] == "spark"
    assert rows(row.asDict() for row in here.lake_table.read(spark).collect()) == [row for row in wanted(here) if row[0] != 1]


@pytest.mark.parametrize("theirs", sampled(["update {} set name = 'theirs' where id = 2", "insert into {} select * from {} where id = 3"], "update {} set name = 'theirs' where id = 2"))
def test_of_two_writers_one_is_refused(tmp_path, spark, monkeypatch, theirs):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "ours", "west")])
    sql, commit = theirs.replace("{}", in_spark(here)), IcebergLog.commit

    def after_theirs(log, *what):
        spark.sql(sql).collect()
        return commit(log, *what)

    monkeypatch.setattr(IcebergLog, "commit", after_theirs)
    done = here.go()
    assert done.verdict == "failed" and "meanwhile" in done.words and engines(here)[-1] == "spark"
    assert not [path for path in here.folder.glob("data/*.parquet") if path.name.startswith(f"{2:012d}-")]


def test_a_column_of_another_program_keeps_its_values(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    spark.sql(f"alter table {in_spark(here)} add column theirs string")
    spark.sql(f"update {in_spark(here)} set theirs = 'kept'")
    here.changes(1, [("U", 2, "zwei", "süd"), ("I", 9, "neun", "ost")])
    here.go()
    found = {row["id"]: row["theirs"] for row in spark.table(in_spark(here)).collect()}
    assert found == {**{n: "kept" for n in range(1, 7)}, 9: None} and engines(here)[-1] == "spark"


def test_tables_whose_names_are_addresses_of_each_other_are_two(tmp_path, spark):
    here = [World(tmp_path, spark, COLUMNS, table=f"shop.{name}").set(key="id").load([(1, name, "west")]) for name in ("a b", "a%20b", "a%2520b", "a#b?")]
    for one in here: one.go()
    for one in here: one.changes(1, [("I", 2, f"also {one.table}", "west")]).go()
    assert [by_all(one)[0] for one in here] == [wanted(one) for one in here] and {tuple(engines(one)) for one in here} == {("dmscdc", "dmscdc")}
