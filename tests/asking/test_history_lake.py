"""A row's life beside the lake that the loaders made of the same files: four tables, each loaded by real passes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.history.audit import Commits, audit_row, lake_rows
from dmscdc.history.lookup import KeyIndex
from dmscdc.service.config import write_config
from world import World, closed, replay

pytestmark = pytest.mark.test

SHAPE = {"id": "int", "day": "date", "name": "string", "price": "decimal(10,2)"}
MON, TUE = "2018-12-10", "2018-12-11"


def spoilt(world: World, change) -> None:
    "Put other rows into a file of the lake, behind everybody's back."
    path = next(iter(world.folder.rglob("*.parquet")))
    table = pq.ParquetFile(path).read()
    pq.write_table(change(table), path)


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory) -> World:
    "Loaded; changed twice; a late file; a fourth file that has landed and is not applied."
    world = World(tmp_path_factory.mktemp("world"), spark, SHAPE).set(key="id")
    world.load([(n, MON, f"Lamp {n}", "1.00") for n in range(1, 9)], time=datetime(2018, 12, 15, 9, tzinfo=timezone.utc)).go()
    put = lambda seconds: datetime(2018, 12, 15, 10, tzinfo=timezone.utc) + timedelta(seconds=seconds)
    world.changes(10, [("U", 1, TUE, "Desk 1", "2.00"), ("D", 2, None, None, None)], time=put(11)).go()
    world.changes(20, [("U", 3, TUE, "Desk 3", None), ("I", 2, MON, "Lamp 2", "9.00"), ("U", 77, MON, "Stray", None)], time=put(21)).go()
    world.changes(15, [("U", 1, TUE, "Sofa 1", "3.00"), ("D", 4, None, None, None)], time=put(300)).go()
    world.changes(40, [("U", 3, TUE, "Bed 3", None), ("I", 9, MON, "Lamp 9", None)], time=put(301))
    return world


def ask(world: World, **key):
    (audit,), words = audit_row(str(world.landing), world.lake_table, key)
    return audit


def test_every_row_of_the_lake_agrees_with_its_life_and_so_does_every_key_that_is_not_there(world):
    held = {row[0]: row for row in world.lake("id, day, name, price, _cdc_file, _cdc_row")}
    assert sorted(held) == [1, 2, 3, 5, 6, 7, 8, 77]
    for number in (*range(1, 12), 77):
        audit = ask(world, id=number)
        assert audit.verdict == "agrees", (number, audit.why)
        told = [(r.values["id"], r.values["day"], r.values["name"], r.values["price"], r.file, r.row) for r in audit.rows]
        assert told == ([held[number]] if number in held else [])


def test_a_change_that_has_landed_and_is_not_applied_is_waiting_and_no_difference(world):
    assert [(ask(world, id=n).waiting, ask(world, id=n).verdict) for n in (3, 9, 1)] == [((3,), "agrees"), ((1,), "agrees"), ((), "agrees")]
    assert ask(world, id=3).life.state["name"] == "Bed 3"


def test_each_step_names_the_first_commit_that_held_it_so_a_late_file_is_known_after_those_behind_it(world):
    known = {n: [(s.state and s.state["name"], s.known and s.known.number, s.is_late) for s in ask(world, id=n).life.steps] for n in (1, 2, 3, 4)}
    assert known[1] == [("Lamp 1", 1, False), ("Desk 1", 2, False), ("Sofa 1", 4, True)]
    assert known[2] == [("Lamp 2", 1, False), (None, 2, False), ("Lamp 2", 3, False)]
    assert known[3] == [("Lamp 3", 1, False), ("Desk 3", 3, False), ("Bed 3", None, False)]
    assert known[4] == [("Lamp 4", 1, False), (None, 4, True)]
    entries = [world.lake_table.at(number).at for number in (1, 2, 4)]
    assert [s.known.at for s in ask(world, id=1).life.steps] == entries


def test_where_an_entry_of_the_journal_is_gone_nothing_is_said_of_what_it_may_have_held_first(world):
    class Forgetful:
        def __getattr__(self, name):
            return getattr(world.lake_table, name)

        def at(self, number):
            if number == 2:
                raise FileNotFoundError("000000000002.json")
            return world.lake_table.at(number)

    (audit,), _ = audit_row(str(world.landing), Forgetful(), {"id": 1})
    assert [s.known and s.known.number for s in audit.life.steps] == [1, None, 4]


def test_few_entries_are_read_to_find_the_first_of_many_commits(world):
    read, head = [], replace(world.lake_table.head(), number=5000)
    made = lambda number: datetime(2018, 12, 15, tzinfo=timezone.utc) + timedelta(minutes=10 * number)

    class Long:
        def at(self, number):
            read.append(number)
            position = world.lake_table.at(4 if number >= 67 else 1).position
            return replace(head, number=number, at=f"{made(number):%Y-%m-%dT%H:%M:%SZ}", position=position)

    from dmscdc.history.changelog import open_changelog

    past = open_changelog(str(world.landing), world.ref)
    late = next(f for f in past.changes if f.name == closed(15) + ".parquet")
    assert Commits(Long(), Long().at(5000)).first(past, late).number == 67
    assert len(set(read)) < 40


def test_the_lakes_row_is_read_from_the_one_file_that_may_hold_it(world, monkeypatch):
    opened = []
    real = KeyIndex.open
    monkeypatch.setattr(KeyIndex, "open", lambda self, file, url: opened.append(url) or real(self, file, url))
    head, rows = lake_rows(world.lake_table, {"id": "10000000"})
    assert (rows, opened) == ([], [])
    assert lake_rows(world.lake_table, {"id": 77})[1][0].values["name"] == "Stray" and len(opened) == 1 < len(world.files())


def test_other_columns_than_the_key_find_every_row_that_had_the_value_and_say_so(world):
    audits, words = audit_row(str(world.landing), world.lake_table, {"name": "Desk 3"})
    assert [audit.life.key for audit in audits] == [{"id": 3}] and "several rows may have the same name; its key is id" in words[0]
    audits, words = audit_row(str(world.landing), world.lake_table, {"day": MON})
    assert len(audits) == 10 == len({audit.life.key["id"] for audit in audits})


def test_a_time_asked_for_ends_the_line_and_nothing_is_compared(world):
    until = datetime(2018, 12, 15, 10, 0, 12, tzinfo=timezone.utc)
    (audit,), _ = audit_row(str(world.landing), world.lake_table, {"id": 1}, until=until)
    assert [s.meant for s in audit.life.steps] == ["inserted", "updated"] and audit.verdict == "not compared"


def test_a_value_a_row_or_a_key_that_the_lake_has_otherwise_is_named(spark, tmp_path):
    world = World(tmp_path, spark, SHAPE).set(key="id")
    world.load([(n, MON, f"Lamp {n}", "1.00") for n in range(1, 5)]).go()

    def change(table: pa.Table) -> pa.Table:
        rows = [row for row in table.to_pylist() if row["id"] != 2]
        rows[0]["price"] = Decimal("1.01")
        return pa.Table.from_pylist([*rows, {**rows[-1], "id": 3}], schema=table.schema)

    spoilt(world, change)
    one, two, three, four = (ask(world, id=n) for n in range(1, 5))
    assert [(d.column, d.files, d.lake) for d in one.differs] == [("price", Decimal("1.00"), Decimal("1.01"))]
    assert (two.verdict, two.why) == ("differs", "the lake lacks this row, and the files contain it")
    assert (three.verdict, three.why) == ("differs", "the lake holds 2 rows of this key, one was expected")
    assert (one.verdict, four.verdict) == ("differs", "agrees")
    write_config(tmp_path, landing="landing", lake="lake", state="sqlite:state.db")
    codes = [CliRunner().invoke(app, ["history", world.table, "--key", f"id={n}", "--folder", str(tmp_path)]).exit_code for n in (1, 2, 3, 4)]
    assert codes == [3, 3, 3, 0], "whoever must look is told so"


def test_keys_of_several_columns_partitions_soft_deletes_and_columns_that_came_late(spark, tmp_path):
    world = World(tmp_path, spark, {"id": "int", "day": "date", "name": "string"}).set(key="id,day", partition="day", delete="soft")
    world.load([(1, MON, "Lamp"), (1, TUE, "Desk"), (2, TUE, "Sofa")]).go()
    wide = {"day": "date", "id": "bigint", "name": "string", "color": "string"}
    world.changes(10, [("U", MON, 1, "Lamp", "red"), ("D", TUE, 1, None, None), ("I", MON, 2**40, "Bed", None)], schema=wide).go()
    lamp, desk, bed = (ask(world, id=id, day=day) for id, day in ((1, MON), (1, TUE), (2**40, MON)))
    assert [s.verdict for s in (lamp, desk, bed, ask(world, day=TUE, id=2))] == ["agrees"] * 4
    assert (lamp.rows[0].values["color"], desk.rows[0].op, bed.rows[0].values["id"]) == ("red", "D", 2**40)
    assert replay(world.raw, ["id", "day"], soft=True)[1, lamp.rows[0].values["day"]]["color"] == "red"
    assert ask(world, id=1, day="2018-12-12").rows == ()


def test_a_reload_that_is_not_loaded_yet_is_not_compared_and_after_it_rows_are_of_its_commits(spark, tmp_path):
    world = World(tmp_path, spark, {"id": "int", "name": "string"}).set(key="id")
    world.load([(1, "Lamp")]).go()
    world.load([(1, "Desk"), (2, "Sofa")])
    audit = ask(world, id=1)
    assert (audit.verdict, "load 1 is no longer in the landing" in audit.why) == ("not compared", True)
    assert [s.file for s in audit.life.steps] == ["LOAD00000001.parquet#2"]
    world.go()
    assert (ask(world, id=1).verdict, ask(world, id=1).life.steps[0].known.number) == ("agrees", 2)
    world.changes(10, [("U", 1, "Bed")]).go()
    world.state.instruct(world.ref, {"kind": "reload"})
    world.go()
    # The same files, loaded twice: the rows are those of the second time, and an older commit names its own.
    assert [(step.file, step.known.number) for step in ask(world, id=1).life.steps] == [("LOAD00000001.parquet#3", 4), (f"{closed(10)}.parquet", 5)]
    write_config(tmp_path, landing="landing", lake="lake", state="sqlite:state.db")
    said = CliRunner().invoke(app, ["as-of", world.table, "id=2", "--commit", "2", "--folder", str(tmp_path)]).output
    assert "LOAD00000001.parquet#2" in said and "#3" not in said, said


def test_a_format_whose_files_are_not_plain_is_read_by_spark_or_said_not_to_be_read(world, spark):
    class Other:
        def __getattr__(self, name):
            return getattr(world.lake_table, name)

        def plain(self):
            return None

    (without,), _ = audit_row(str(world.landing), Other(), {"id": 1})
    (with_spark,), _ = audit_row(str(world.landing), Other(), {"id": 1}, spark=lambda: spark)
    assert (without.verdict, without.rows) == ("not compared", None)
    assert (with_spark.verdict, with_spark.rows) == ("agrees", ask(world, id=1).rows)


def test_a_row_whose_key_is_a_time_of_day_is_found_in_the_lake_as_it_is_asked_for(spark, tmp_path):
    world = World(tmp_path, spark, {"at": "time", "name": "string"}).set(key="at").load([("10:02:11", "Lamp"), ("11:00:00.500", "Desk")])
    world.go()
    told = [ask(world, at=text) for text in ("10:02:11", "10:02:11.000", "11:00:00.5")]
    assert [(one.verdict, one.why, len(one.rows)) for one in told] == [("agrees", "", 1)] * 3


def test_since_leaves_out_the_load_and_does_not_call_it_gone(world):
    (audit,), _ = audit_row(str(world.landing), world.lake_table, {"id": 3}, since=datetime(2018, 12, 15, 10, 0, 15, tzinfo=timezone.utc))
    (whole,), _ = audit_row(str(world.landing), world.lake_table, {"id": 3})
    assert (audit.verdict, audit.why, [step.known for step in audit.life.steps]) == ("agrees", "", [step.known for step in whole.life.steps[1:]])
    assert not [words for words in audit.life.words if "no longer" in words]


@pytest.mark.parametrize("number", ["0", "-1", "99"])
def test_a_commit_that_is_not_there_is_said_before_spark_starts(world, monkeypatch, number):
    if not (world.root / "dmscdc.toml").exists():
        write_config(world.root, landing="landing", lake="lake", quiet_period=0)
    monkeypatch.setattr("dmscdc.cli.ask.session", lambda *places: pytest.fail("Spark was started"))
    done = CliRunner().invoke(app, ["as-of", "shop.item", "--commit", number, "--folder", str(world.root)])
    assert (done.exit_code, "there is no commit " + number + "; the table has commits 1 to " in done.output) == (2, True), done.output
