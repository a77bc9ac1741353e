"What holds of Delta tables alone that our own tasks write."

from __future__ import annotations

import json

import pytest
from test_own_files import ROWS, by_all, by_spark, engines, log, wanted, world

pytestmark = pytest.mark.proof


def test_a_commit_says_of_itself_what_the_protocol_asks_for(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "zwei", "süd")]).go()
    info = log(here)[1][0]["commitInfo"]
    assert info["readVersion"] == 0 and not info["isBlindAppend"] and json.loads(info["userMetadata"])["dmscdc"]["number"] == 2
    assert sorted({name for step in log(here)[1] for name in step}) == ["add", "commitInfo", "remove", "txn"]


def test_partitions_with_every_letter_keep_their_rows_and_rows_move_between_them(tmp_path, spark):
    odd = ["a b", "a/b", "x=y", "100%", "é", "it's", None]
    here = world(tmp_path, spark, partition="region").load([(n, f"name {n}", region) for n, region in enumerate(odd)])
    here.go()
    here.changes(1, [("U", n, f"new {n}", odd[(n + 1) % len(odd)]) for n in range(3)] + [("D", 3, None, None), ("I", 20, "more", "é")])
    assert here.go().verdict == "ok" and engines(here)[-1] == "dmscdc" and by_all(here) == [wanted(here)] * 2


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
    assert here.go().verdict == "attention" and engines(here)[-1] == "Spark"
    assert by_spark(here) == [row for row in wanted(here) if row[0] != 1]


def test_twelve_commits_are_read_from_a_checkpoint_when_their_lines_are_gone(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    for close in range(1, 9):
        here.changes(close, [("U", close % 6 + 1, f"v{close}", "west")]).go()
    spark.sql(f"alter table delta.`{here.folder}` set tblproperties ('delta.checkpointInterval' = '100')")  # version 9, and with the next
    spark.sql(f"alter table delta.`{here.folder}` set tblproperties ('theirs' = 'yes')")  # the tenth is none of ours
    for close in range(9, 12):
        here.changes(close, [("U", close % 6 + 1, f"v{close}", "west")]).go()
    log_folder = here.folder / "_delta_log"
    assert sorted(path.name[:20] for path in log_folder.glob("*.checkpoint.parquet")) == [f"{11:020d}"]
    for path in log_folder.glob("*.json"):
        if int(path.stem) < 11:
            path.unlink()
    assert by_all(here) == [wanted(here)] * 2
    here.changes(20, [("D", 1, None, None)])
    assert here.go().verdict == "ok" and by_all(here) == [wanted(here)] * 2 and engines(here)[-1] == "dmscdc"


def test_a_table_with_what_we_do_not_write_is_left_to_delta(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    spark.sql(f"alter table delta.`{here.folder}` set tblproperties ('delta.enableChangeDataFeed' = 'true')")
    here.changes(1, [("U", 2, "zwei", "süd")])
    assert here.go().verdict == "ok" and engines(here)[-1] == "Spark" and by_all(here) == [wanted(here)] * 2
    assert list(here.folder.glob("_change_data/*.parquet"))
