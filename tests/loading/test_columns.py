"Columns that are added, that grow and that go away."

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.service.config import write_config
from world import World, closed, query

pytestmark = pytest.mark.test

OLD = {"id": "int", "f": "float", "d": "decimal(10,2)", "gone": "string"}
MORE = {**OLD, "new": "string"}
WIDE = {"id": "bigint", "f": "double", "d": "decimal(14,2)", "new": "string"}
BIG = 3_000_000_000


def types(w) -> dict[str, str]:
    return dict(query(f"select column_name, column_type from (describe select * from read_parquet('{w.folder}/**/*.parquet'))"))


def test_columns_added_and_widened_inside_a_batch_rewrite_all_files_once_and_old_rows_keep_their_values(tmp_path, spark):
    w = World(tmp_path, spark, OLD).set(key="id", partition="gone")
    w.load([(1, 0.5, "1.25", "x"), (2, 1.5, "2.25", "y"), (3, 2.5, "3.25", "y")])
    assert w.go().verdict == "ok"
    before = w.files()
    w.changes(1, [("U", 1, 0.75, "1.50", "x")])
    w.changes(2, [("I", 4, 3.5, "4.25", "x", "added")], MORE)
    w.changes(3, [("I", BIG, 0.1, "999999999999.99", "wide"), ("U", 2, 0.1, "2.50", None)], WIDE)
    done = w.go()
    assert (done.verdict, done.commit, done.lake["files_kept"], set(before) & set(w.files())) == ("ok", 2, 0, set())
    assert [s.split(" by ")[0] for s in done.schema] == [
        "column new string added",
        "column id widened from int to bigint",
        "column f widened from float to double",
        "column d widened from decimal(10,2) to decimal(14,2)",
        f"column gone is absent from {closed(3)}.parquet; rows keep the values they have",
    ]
    assert done.schema[0].endswith("20181215-100002000.parquet") and done.schema[1].endswith("20181215-100003000.parquet")
    assert w.lake("id, f, d, gone, new") == [
        (1, 0.75, Decimal("1.50"), "x", None),
        (2, 0.1, Decimal("2.50"), "y", None),
        (3, 2.5, Decimal("3.25"), "y", None),
        (4, 3.5, Decimal("4.25"), "x", "added"),
        (BIG, 0.1, Decimal("999999999999.99"), None, "wide"),
    ]
    assert types(w) == {
        "Op": "VARCHAR",
        "id": "BIGINT",
        "f": "DOUBLE",
        "d": "DECIMAL(14,2)",
        "new": "VARCHAR",
        "_cdc_file": "VARCHAR",
        "_cdc_row": "BIGINT",
        "gone": "VARCHAR",
    }
    w.changes(4, [("U", 3, 2.75, "3.50", "y")])  # the narrow columns again: nothing changes back
    done = w.go()
    assert (
        (done.verdict, done.schema) == ("ok", (f"column new is absent from {closed(4)}.parquet; rows keep the values they have",))
        and types(w)["id"] == "BIGINT"
        and done.lake["files_kept"] > 0
    )
    assert (3, 2.75, Decimal("3.50"), "y") in w.lake("id, f, d, gone")


def test_a_column_dropped_at_the_source_keeps_the_values_it_had(tmp_path, spark):
    w = World(tmp_path, spark, OLD).set(key="id").load([(1, 0.5, "1", "kept"), (2, 0.5, "1", "kept"), (3, 0.5, "1", "kept")])
    rest = {n: t for n, t in OLD.items() if n != "gone"}
    w.changes(1, [("U", 1, 1.0, "2"), ("D", 2, 1.0, "2"), ("I", 2, 1.0, "2"), ("I", 4, 1.0, "2")], rest)
    assert w.go().verdict == "ok"
    assert w.lake("id, gone") == [(1, "kept"), (2, None), (3, "kept"), (4, None)]


def test_load_files_with_and_without_op_and_with_different_columns_make_one_table(tmp_path, spark):
    from dmscdc.capture.writer import DmsSettings

    w = World(tmp_path, spark, OLD).set(key="id")
    w.load([(1, 0.5, "1", "x")]).load([(2, 0.5, "1", "y", "more")], MORE, 2, settings=DmsSettings(include_op_for_full_load=True))
    w.load([(BIG, 0.5, "1", "wide")], WIDE, 10, folder="segment é %1")
    assert w.go().verdict == "ok"
    assert w.lake("id, gone, new, Op, _cdc_file, _cdc_row") == [
        (1, "x", None, "I", "LOAD00000001.parquet#1", 0),
        (2, "y", "more", "I", "LOAD00000002.parquet#1", 0),
        (BIG, None, "wide", "I", "segment é %1/LOAD0000000A.parquet#1", 0),
    ]


def test_odd_names_of_columns_are_taken_as_they_are(tmp_path, spark):
    odd = {"id": "int", "unit price": "int", "a.b": "string", "a": "string", "größe": "int", "select": "int", "x`y": "int"}
    w = World(tmp_path, spark, odd).set(key="id").load([(1, 1, "dot", "plain", 1, 1, 1), (2, 2, "dot", "plain", 2, 2, 2)])
    w.changes(1, [("U", 1, 7, "dot 2", "plain 2", 7, 7, 7), ("I", 3, 3, "dot", "plain", 3, 3, 3)])
    assert w.go().verdict == "ok"
    assert w.lake('id, "unit price", "a.b", a, "größe", "select", "x`y"') == [
        (1, 7, "dot 2", "plain 2", 7, 7, 7),
        (2, 2, "dot", "plain", 2, 2, 2),
        (3, 3, "dot", "plain", 3, 3, 3),
    ]


def test_a_column_that_comes_no_more_is_told_once_and_a_renaming_is_attention(tmp_path, spark):
    w = World(tmp_path, spark, {"id": "int", "name": "string", "size": "int", "note": "string"}).set(key="id")
    w.load([(1, "a", 1, "x"), (2, "b", 2, "y")])
    assert w.go().verdict == "ok"
    dropped = {"id": "int", "name": "string", "size": "int"}
    w.changes(1, [("U", 1, "a2", 1, "x")]).changes(2, [("U", 1, "a3", 1)], dropped)
    done = w.go()
    assert (done.verdict, done.schema) == ("ok", (f"column note is absent from {closed(2)}.parquet; rows keep the values they have",))
    w.changes(3, [("U", 1, "a4", 1)], dropped)
    assert (done := w.go()).verdict == "ok" and done.schema == ()  # told already
    w.changes(4, [("U", 2, "B", 2)], {"id": "int", "Name": "string", "size": "int"})
    done = w.go()
    assert (
        done.verdict == "refused"
        and "columns name and Name differ only in the case of letters" in done.words
        and "If name was renamed: dmscdc table rename shop.item name Name, then: dmscdc pass --only shop.item" in done.words
    )
    flags = [f"--{name}={place}" for name, place in zip(("landing", "lake", "state"), w.places[1:])]
    assert (
        CliRunner().invoke(app, ["table", "rename", "shop.item", "name", "Name", *flags, "--folder", str(tmp_path)], catch_exceptions=False).exit_code
        == 0
    )
    assert (done := w.go()).verdict == "ok", done.words
    assert w.lake("id, Name, size, note") == [(1, "a4", 1, "x"), (2, "B", 2, "y")]


def test_a_plan_says_what_waiting_files_do_to_the_columns_and_a_run_says_in_its_verdict_which_comes_no_more(tmp_path, spark):
    world = World(tmp_path, spark, {"id": "int", "name": "string"}).set(key="id").load([(1, "a")])
    world.go()
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    planned = lambda: json.loads(CliRunner().invoke(app, ["plan", "--json", "--folder", str(tmp_path)]).stdout)[0]["columns"]
    assert planned() == []
    world.changes(1, [("U", 1, 7)], {"id": "bigint", "qty": "int"})
    told = planned()
    done = world.go()
    assert told == list(done.schema) and [words.split(" by ")[0] for words in told] == [
        "column id widened from int to bigint",
        "column qty int added",
        f"column name is absent from {closed(1)}.parquet; rows keep the values they have",
    ]
    assert told[2] in done.words and planned() == []
    world.changes(2, [("U", "x", 7)], {"id": "string", "qty": "int"})
    (refused,) = planned()
    assert refused.startswith("column id of ") and "is string, the lake holds bigint" in refused and world.go().verdict == "refused"


def test_a_plan_does_not_miss_a_column_that_we_compute(tmp_path, spark):
    world = World(tmp_path, spark, {"id": "int", "made": "date"}).set(key="id", partition="month(made)").load([(1, "2026-01-02")])
    world.go()
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    world.changes(1, [("U", 1, "2026-02-03")])
    assert json.loads(CliRunner().invoke(app, ["plan", "--json", "--folder", str(tmp_path)]).stdout)[0]["columns"] == [] == list(world.go().schema)
