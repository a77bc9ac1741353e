"What holds of Iceberg tables alone that our own tasks write."

from __future__ import annotations

import json

import pytest
from test_own_files import ROWS, by_all, by_spark, engines, in_spark, wanted, world

pytestmark = pytest.mark.proof


def test_our_newest_commit_has_our_note_and_our_tag(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "zwei", "süd")]).go()
    known = here.lake_table.newest_metadata()[1]
    assert (
        known["refs"]["dmscdc"]["snapshot-id"] == known["current-snapshot-id"]
        and json.loads(known["snapshots"][-1]["summary"]["dmscdc"])["dmscdc"]["number"] == 2
    )


def test_iceberg_s_own_commands_go_on_upon_our_commits_and_we_upon_theirs(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    for close in range(1, 4):
        here.changes(close, [("U", close, f"v{close}", "west")]).go()
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
    assert here.go().verdict == "attention" and engines(here)[-1] == "Spark"
    assert by_spark(here) == [row for row in wanted(here) if row[0] != 1]
