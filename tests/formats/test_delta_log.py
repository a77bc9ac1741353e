"What holds of Delta tables that our own tasks write: other programs read, skip, check-point and write them as they do Delta's own."
from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from dmscdc.lake.delta_log import DeltaLog

from readers import delta
from tiers import sampled
from world import World, replay

pytestmark = pytest.mark.proof

COLUMNS = {"id": "int", "name": "string", "region": "string"}
ROWS = [(n, f"name {n}", "north" if n % 2 else "süd") for n in range(1, 7)]
TYPES = {
    "id": "bigint", "small": "smallint", "whole": "int", "real": "float", "exact": "double", "price": "decimal(20,4)", "yes": "boolean", "text": "string", "day": "date", "at": "timestamp", "raw": "binary",
}
VALUES = [
    (1, -5, -(2**31), -1.5, float("nan"), Decimal("-1234567890123456.7891"), True, "", date(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc), b"\x00"),
    (2, 7, 0, 2.5, 1e300, Decimal("0.0001"), False, "x" * 31 + "\U0001F600 and more", date(2026, 2, 28), datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=timezone.utc), b"\xff" * 40),
    (3, *[None] * 10),
    (4, 32767, 2**31 - 1, float("inf"), -0.0, Decimal("9999999999999999.9999"), True, "\uffff" * 40, date(9999, 12, 31), datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=timezone.utc), b""),
]
PREDICATES = [  # each must find the same rows whether files are skipped or not
    "small > 6", "small is null", "whole = 2147483647", "whole < 0", "real > 2", "isnan(exact)", "exact > 1e299", "exact = 0", "price = 9999999999999999.9999BD", "price < -1234567890123456.7890BD",
    "yes", "not yes", "text = ''", "text like 'xxx%'", "text > repeat('\uffff', 39)", "text >= 'y'", "day = date'0001-01-01'", "day > date'9999-12-30'", "at > timestamp'2026-01-02 03:04:05.678950Z'",
    "at = timestamp'2026-01-02 03:04:05.678901Z'", "at < timestamp'1970-01-01 00:00:00Z'", "raw = X'00'", "_cdc_row >= 2", "Op = 'U'", "id in (2, 4)",
]


def world(tmp_path, spark, columns=COLUMNS, **settings) -> World: return World(tmp_path, spark, columns).set(**{"key": "id", **settings})


def log(world: World) -> list[list[dict]]:
    "The steps of each version."
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(world.folder.glob("_delta_log/*.json"))]


def engines(world: World) -> list[str]: return [next(step["commitInfo"] for step in steps if "commitInfo" in step)["engineInfo"].partition("/")[0] for steps in log(world)]


def rows(found) -> list[tuple]: return sorted((row["id"], row["name"], row["region"]) for row in found)


def wanted(world: World) -> list[tuple]: return rows(replay(world.raw, ["id"]).values())


def by_spark(world: World) -> list[tuple]: return rows(row.asDict() for row in world.lake_table.read(world.spark).collect())


def by_all(world: World) -> list[list[tuple]]:
    "The rows as Spark, and as deltalake, finds them."
    return [by_spark(world), rows(delta(world.folder).to_pylist())]


def test_a_load_and_its_changes_are_our_files_and_equal_the_source_for_every_reader(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "zwei", "süd"), ("D", 3, None, None), ("I", 9, "neun", "ost")])
    assert here.go().verdict == "ok" and engines(here) == ["dmscdc", "dmscdc"] and by_all(here) == [wanted(here)] * 2
    info = log(here)[1][0]["commitInfo"]
    assert info["readVersion"] == 0 and not info["isBlindAppend"] and json.loads(info["userMetadata"])["dmscdc"]["number"] == 2
    assert sorted({name for step in log(here)[1] for name in step}) == ["add", "commitInfo", "remove", "txn"]


def test_columns_that_come_later_are_null_in_files_that_no_change_touched(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS[:2])
    here.go()
    more = {**COLUMNS, "note": "string"}
    here.changes(1, [("I", 9, "neun", "ost", "new")], more)
    assert here.go().verdict == "ok" and engines(here)[-1] == "dmscdc"
    found = {row["id"]: row["note"] for row in here.lake_table.read(spark).collect()}
    assert found == {1: None, 2: None, 9: "new"} == {row["id"]: row["note"] for row in delta(here.folder).to_pylist()}


def test_partitions_with_every_letter_keep_their_rows_and_rows_move_between_them(tmp_path, spark):
    odd = ["a b", "a/b", "x=y", "100%", "é", "it's", None]
    here = world(tmp_path, spark, partition="region").load([(n, f"name {n}", region) for n, region in enumerate(odd)])
    here.go()
    here.changes(1, [("U", n, f"new {n}", odd[(n + 1) % len(odd)]) for n in range(3)] + [("D", 3, None, None), ("I", 20, "more", "é")])
    assert here.go().verdict == "ok" and engines(here)[-1] == "dmscdc" and by_all(here) == [wanted(here)] * 2


@pytest.mark.compiled
def test_no_reader_that_skips_files_by_their_bounds_misses_a_row(tmp_path, spark):
    here = world(tmp_path, spark, TYPES).load(VALUES[:3])
    here.go()
    here.changes(1, [("I", *VALUES[3]), ("U", *VALUES[1])])
    assert here.go().verdict == "ok" and engines(here) == ["dmscdc", "dmscdc"]
    frame = spark.read.format("delta").load(str(here.folder))
    kept = frame.localCheckpoint()  # in memory: nothing can be skipped
    for predicate in PREDICATES:
        ids = [sorted(row["id"] for row in one.where(predicate).select("id").collect()) for one in (frame, kept)]
        assert ids[0] == ids[1], predicate


def test_spark_s_own_commands_go_on_upon_our_commits_and_we_upon_theirs(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    for close in range(1, 4):
        here.changes(close, [("U", close, f"v{close}", "west")]).go()
    table = f"delta.`{here.folder}`"
    spark.sql(f"optimize {table}").collect()
    here.changes(5, [("U", 5, "after", "west"), ("D", 6, None, None)])
    assert here.go().verdict == "ok" and by_all(here) == [wanted(here)] * 2 and engines(here)[-1] == "dmscdc"
    spark.sql(f"alter table {table} set tblproperties ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"delete from {table} where id = 1").collect()
    spark.sql(f"restore table {table} to version as of {len(log(here)) - 2}").collect()
    assert [row["id"] for row in spark.sql(f"describe history {table}").selectExpr("version as id").collect()] == list(range(len(log(here))))[::-1]
    assert by_spark(here) == wanted(here), "deltalake reads no table with deletion vectors"


def test_a_file_with_a_deletion_vector_is_left_to_delta_s_merge(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    spark.sql(f"alter table delta.`{here.folder}` set tblproperties ('delta.enableDeletionVectors' = 'true')")
    spark.sql(f"delete from delta.`{here.folder}` where id = 1").collect()  # another program, which is told
    here.changes(1, [("U", 2, "zwei", "west")])
    assert here.go().verdict == "attention" and engines(here)[-1] == "Apache-Spark"
    assert by_spark(here) == [row for row in wanted(here) if row[0] != 1]


def test_twelve_commits_are_read_from_a_checkpoint_when_their_lines_are_gone(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    for close in range(1, 13): here.changes(close, [("U", close % 6 + 1, f"v{close}", "west")]).go()
    log_folder = here.folder / "_delta_log"
    assert sorted(path.name[:20] for path in log_folder.glob("*.checkpoint.parquet")) == [f"{10:020d}"]
    for path in log_folder.glob("*.json"):
        if int(path.stem) < 10: path.unlink()
    assert by_all(here) == [wanted(here)] * 2
    here.changes(20, [("D", 1, None, None)])
    assert here.go().verdict == "ok" and by_all(here) == [wanted(here)] * 2 and engines(here)[-1] == "dmscdc"


@pytest.mark.parametrize("theirs", sampled(["update {} set name = 'theirs' where id = 2", "insert into {} select * from {} where id = 3", "update {} set name = 'theirs' where id = 5"], "update {} set name = 'theirs' where id = 2"))
@pytest.mark.parametrize("is_late", [True, False])
def test_of_two_writers_one_is_refused(tmp_path, spark, monkeypatch, theirs, is_late):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "ours", "west")])
    sql, commit = theirs.replace("{}", f"delta.`{here.folder}`"), DeltaLog.commit

    def after_theirs(log, *what):
        spark.sql(sql).collect()
        return commit(log, *what)

    if is_late:
        monkeypatch.setattr(DeltaLog, "commit", after_theirs)
        done = here.go()
        assert (done.verdict, "another program wrote a version meanwhile" in done.words or "was made by" in done.words) == ("failed", True)
        assert not [path for path in here.folder.glob("*.parquet") if path.name.startswith(f"{2:012d}-")]
    else:
        assert here.go().verdict == "ok"
        spark.sql(sql).collect()
    assert DeltaTable(str(here.folder)).version() == (1 if is_late else 2)


def test_a_table_with_what_we_do_not_write_is_left_to_delta(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    spark.sql(f"alter table delta.`{here.folder}` set tblproperties ('delta.enableChangeDataFeed' = 'true')")
    here.changes(1, [("U", 2, "zwei", "süd")])
    assert here.go().verdict == "ok" and engines(here)[-1] == "Apache-Spark" and by_all(here) == [wanted(here)] * 2
    assert list(here.folder.glob("_change_data/*.parquet"))


def test_a_column_of_another_program_keeps_its_values(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    spark.sql(f"alter table delta.`{here.folder}` add column theirs string")
    spark.sql(f"update delta.`{here.folder}` set theirs = 'kept'")
    here.changes(1, [("U", 2, "zwei", "süd"), ("I", 9, "neun", "ost")])
    here.go()
    found = {row["id"]: row["theirs"] for row in spark.read.format("delta").load(str(here.folder)).collect()}
    assert found == {**{n: "kept" for n in range(1, 7)}, 9: None} and engines(here)[-1] == "Apache-Spark"


def test_tables_whose_names_are_addresses_of_each_other_are_two(tmp_path, spark):
    here = [World(tmp_path, spark, COLUMNS, table=f"shop.{name}").set(key="id").load([(1, name, "west")]) for name in ("a b", "a%20b", "a%2520b", "a#b?")]
    for one in here: one.go()
    for one in here: one.changes(1, [("I", 2, f"also {one.table}", "west")]).go()
    assert [by_spark(one) for one in here] == [wanted(one) for one in here] and {tuple(engines(one)) for one in here} == {("dmscdc", "dmscdc")}


def test_what_a_dead_attempt_has_written_is_removed_by_the_next(tmp_path, spark, monkeypatch):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "zwei", "süd")])

    class Killed(BaseException): pass

    def killed(*_): raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "commit", killed)
        with pytest.raises(Killed): here.go()
    left = set(here.folder.glob(f"{2:012d}-*.parquet"))
    assert left and here.go().verdict == "ok" and by_all(here) == [wanted(here)] * 2
    assert not left & set(here.folder.glob("*.parquet"))
