"What `dmscdc.open` answers, beside a dictionary that the test changes like the source and beside DuckDB, which reads the same files."

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

import dmscdc
from dmscdc.analyst import Lake
from dmscdc.analyst.answer import in_calls
from dmscdc.analyst.table import time_span
from dmscdc.capture.writer import write_load
from dmscdc.cli.questions import changes_of
from dmscdc.errors import BadKey, BadSetting, ConfigError, DmscdcError, LakeDamaged, NoPast, UnknownTable
from dmscdc.landing.advice import in_python
from dmscdc.landing.files import TableRef
from dmscdc.service.config import read_config, write_config
from dmscdc.state.registry import open_state
from world import World, closed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "day": "date", "name": "string", "price": "decimal(10,2)"}
ROWS = {number: (date(2018, 12, number % 3 + 1) if number % 4 else None, f"ware {number} <b>", Decimal(number)) for number in range(1, 13)}


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    "A lake laid out by day, loaded and changed once."
    home = tmp_path_factory.mktemp("opened")
    world = World(home, spark, SCHEMA, "shop.ware").set(key="id", partition="day").load([(key, *row) for key, row in ROWS.items()])
    world.go()
    world.changes(1, [("U", 3, date(2020, 2, 29), "moved", Decimal("0.05")), ("D", 4, None, None, None), ("I", 20, None, None, None)])
    world.go()
    write_config(home, landing="landing", lake="lake", quiet_period=0)
    return home


SOURCE = {**{key: row for key, row in ROWS.items() if key != 4}, 3: (date(2020, 2, 29), "moved", Decimal("0.05")), 20: (None, None, None)}


def of(rows) -> dict:
    return {row["id"]: (row["day"], row["name"], row["price"]) for row in rows}


def test_rows_are_those_of_the_source_and_of_another_reader_without_spark(home):
    answer = dmscdc.open(home)["shop.ware"].rows()
    assert answer.engine == "Arrow" and len(answer) == len(SOURCE) and of(answer.to_arrow().to_pylist()) == SOURCE
    there = duckdb.sql(f"select id, name, price from read_parquet('{home}/lake/shop/ware/**/*.parquet')").fetchall()
    assert sorted(there) == sorted((key, name, price) for key, (_, name, price) in SOURCE.items())
    assert len(dmscdc.open(home)["shop.ware"].rows(limit=5)) == 5


def test_looking_and_reading_starts_no_java(home):
    asks = "import dmscdc, sys; lake = dmscdc.open(sys.argv[1]); print(lake, lake['shop.ware'].rows(), lake['shop.ware'].history(id=3)); assert 'pyspark' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", asks, str(home)], capture_output=True, text=True, env={"JAVA_HOME": "/nowhere", "PATH": "/nowhere"})
    assert done.returncode == 0 and "shop.ware" in done.stdout and "moved" in done.stdout, done.stderr


def test_a_row_s_life_says_each_change_and_its_file(home):
    steps = dmscdc.open(home)["shop.ware"].history(id=3).steps().to_pandas()
    assert list(steps["file"]) == ["LOAD00000001.parquet#1", f"{closed(1)}.parquet"] and list(steps["what"]) == ["inserted", "updated"]
    gone = dmscdc.open(home)["shop.ware"].history(id=4)
    assert [row["what"] for row in gone.to_arrow().to_pylist()] == ["inserted", "deleted"] and "does not have the row" in repr(gone)


@pytest.mark.parametrize("most, engine", [(256, "Arrow"), (0, "Spark")])
def test_the_table_as_it_was_is_told_by_arrow_or_by_spark(home, spark, most, engine):
    table = Lake(read_config(home, spark_above=most), {"parquet": spark})["shop.ware"]
    for then, rows in (({"file": "load"}, ROWS), ({"commit": 1}, ROWS), ({"commit": 2}, SOURCE), ({}, SOURCE)):
        answer = table.as_of(**then)
        assert answer.engine == engine and of(answer.to_arrow().to_pylist()) == rows, then
    assert of(table.rows().to_spark(spark).toArrow().to_pylist()) == SOURCE


def test_what_a_page_shows_is_escaped_and_tells_what_is_left_out(home):
    lake = dmscdc.open(home)
    page = lake["shop.ware"].rows()._repr_html_()
    assert "ware 1 &lt;b&gt;" in page and "<b>" not in page and "http" not in page and "<script" not in page
    assert lake._ipython_key_completions_() == ["shop.ware"] and "shop.ware" in lake._repr_html_()
    assert lake.tables().to_arrow().select(["table", "rows", "verdict", "next"]).to_pylist() == [
        {"table": "shop.ware", "rows": len(SOURCE), "verdict": "nothing", "next": ""}
    ]


def test_a_table_that_is_not_there_is_refused_in_the_words_of_the_command(home):
    with pytest.raises(DmscdcError, match="shop.ware"):
        dmscdc.open(home)["shop.wares"]
    with pytest.raises(BadKey, match=r"history\(id=…\)"):
        dmscdc.open(home)["shop.ware"].history()
    with pytest.raises(ValueError, match="give one of them"):
        dmscdc.open(home)["shop.ware"].as_of("2018-12-15T12:00Z", commit=1)


def test_rows_before_the_first_pass_and_of_a_damaged_lake_are_refused(home, tmp_path):
    write_load(tmp_path / "landing", "shop.ware", [(1, "a")], {"id": "int", "name": "string"})
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    open_state(f"sqlite:{tmp_path}/state.db").put_settings(TableRef("shop", "ware"), key="id")
    with pytest.raises(UnknownTable, match=r"no commit of it yet: lake.run_pass\('shop.ware'\)"):
        dmscdc.open(tmp_path)["shop.ware"].rows()
    copied = tmp_path / "copied"
    shutil.copytree(home, copied)
    file = next((copied / "lake" / "shop" / "ware").rglob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    with pytest.raises(LakeDamaged, match=file.name):
        dmscdc.open(copied)["shop.ware"].rows()


def test_a_row_is_named_by_the_values_of_its_key_and_a_table_without_its_schema(home):
    lake = dmscdc.open(home)
    ware = lake["ware"]
    assert ware.name == "shop.ware" and repr(ware.history(3)) == repr(ware.history(id=3)) != repr(ware.history(5))
    assert repr(ware.blame(3)) == repr(ware.blame(id=3))
    assert len(ware.history("price >= 3")) > len(ware.history(3)), "a text with a sign is a condition"
    assert repr(ware.history({"id": 3})) == repr(ware.history((3,))) == repr(ware.history(3))
    assert [name in lake for name in ("ware", "shop.ware", "wares", "shop.wares", 5)] == [True, True, False, False, False]
    with pytest.raises(BadKey, match="its key is id, which needs 1 value; you gave"):
        ware.history(3, 4)
    with pytest.raises(UnknownTable, match="there is no table wares here. Did you mean 'ware'"):
        lake["wares"]


def test_what_a_lake_that_lies_elsewhere_advises_works_where_it_is_typed(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    write_load(tmp_path / "shop 1" / "landing", TableRef("shop", "ware"), [(1, "lamp")], {"id": "int", "name": "string"})
    write_config(tmp_path / "shop 1", landing="landing", lake="lake", quiet_period=0)
    lake = dmscdc.open("../shop 1")
    (advice,) = lake.tables().to_arrow()["next"].to_pylist()
    assert advice.startswith("!dmscdc table set shop.ware ") and advice.endswith("--key id"), advice
    command = advice.removeprefix("!dmscdc ")
    subprocess.run(f"{Path(sys.executable).with_name('dmscdc')} {command}", shell=True, check=True, capture_output=True)
    assert lake["ware"].plan().startswith("shop.ware: initial load (1 file, ")
    with pytest.raises(ConfigError, match="give landing=… and lake=…"):
        dmscdc.open(".")
    with pytest.raises(BadSetting, match="there is no alarm 'Bad'; alarms are Failed"):
        lake.alarms("Bad")


def test_a_commit_that_was_never_made_is_a_mistake_and_no_damage(home):
    ware = dmscdc.open(home)["ware"]
    for ask in (lambda: ware.as_of(commit=99), lambda: ware.compare(1, 99)):
        with pytest.raises(LookupError, match="shop.ware: there is no commit 99; the table has commits 1 to 2"):
            ask()


def test_an_argument_of_another_type_is_named(home):
    ware = dmscdc.open(home)["ware"]
    for ask, words in (
        (lambda: ware.as_of(commit="1"), "commit is a whole number from 0, not '1'"),
        (lambda: ware.as_of(commit=True), "commit is a whole number from 0, not True"),
        (lambda: ware.as_of(at=5), "at is a text or a date, not 5"),
        (lambda: ware.as_of(file=3), "file is a text, not 3"),
        (lambda: ware.changes(since=5), "since is a text or a date, not 5"),
        (lambda: ware.rows(where=5), "where is a text or a list of texts, not 5"),
        (lambda: ware.rows("price > 9"), r"rows\(limit, where\): limit is a whole number from 0, not 'price > 9'; did you mean where='price > 9'"),
        (lambda: ware.rows(-1), "limit is a whole number from 0, not -1"),
        (lambda: ware.find(5), r"find\(\*where, \*\*values\): where is a text, not 5"),
        (lambda: ware.compare(1.5), "before is a whole number from 0 or a text or a date, not 1.5"),
        (lambda: dmscdc.open(3), "folder is a text or a path, not 3"),
    ):
        with pytest.raises(TypeError, match=words):
            ask()
    since = datetime.strptime(closed(1)[:15], "%Y%m%d-%H%M%S")
    assert repr(ware.changes(since)) == repr(ware.changes(since.isoformat())) and len(ware.changes(since)) == 3
    assert len(ware.changes(since + timedelta(days=1))) == len(ware.changes(date(2999, 1, 1))) == 0
    assert repr(ware.changes(date(2999, 1, 1))).splitlines()[1].startswith("no rows of when, key")


def test_commands_that_a_state_keeps_are_calls_in_python(home):
    for typed, spoken in (
        ("Then: dmscdc pass --only shop.ware.", "Then: lake.run_pass('shop.ware')."),
        ("`dmscdc status` shows it", "`lake.tables()` shows it"),
        ("dmscdc pass --only shop.ware --retry", "!dmscdc pass --only shop.ware --retry --folder /x"),
        ("!dmscdc pass --only shop.ware --retry --folder /x", "!dmscdc pass --only shop.ware --retry --folder /x"),
    ):
        with in_python(" --folder /x"):
            assert in_calls(typed) == spoken
        assert in_calls(typed) == typed


def test_a_lag_has_the_fractions_that_the_run_log_has():
    assert [time_span(lag) for lag in (1.7, None)] == [timedelta(seconds=1.7), None]


def test_rows_are_chosen_by_conditions(home):
    rows = dmscdc.open(home)["ware"].rows(where=["price > 2", "id < 9"]).to_arrow().to_pylist()
    assert of(rows) == {key: row for key, row in SOURCE.items() if key < 9 and row[2] and row[2] > 2}


def test_rows_come_by_key_with_each_null_and_text_apart_and_what_is_quarantined_is_named(spark, tmp_path):
    world = World(tmp_path, spark, {"id": "int", "name": "string"}, "shop.ware").set(key="id", bad_rows="aside")
    world.load([(3, None), (2, "null"), (1, ""), (4, "d")])
    world.changes(1, [("U", 4, "z"), ("X", 1, "a"), ("U", 1, None)]).changes(2, [("U", 1, "")])
    first = world.go()
    write_config(tmp_path, landing="landing", lake="lake")
    ware = dmscdc.open(tmp_path)["ware"]
    for rows, words in ((ware.rows(3), "the first 3 of 4 rows"), (ware.as_of(where="id < 4"), "1 row is quarantined")):
        names = [line.split("  ")[rows.columns.index("name")].strip() for line in repr(rows).splitlines()[2:5]]
        assert (rows.to_arrow()["id"].to_pylist(), names) == ([1, 2, 3], ["''", "'null'", "null"]) and words in repr(rows)
    for answer in (ware.history(4), ware.changes(), ware.find(name="z"), ware.blame(4)):
        assert f"1 row is quarantined, and not in this answer (row 2 of {closed(1)}.parquet)" in repr(answer)
    world.gone(closed(1)).changes(1, [("U", 4, "z"), ("U", 1, "a"), ("U", 1, None)])
    world.state.instruct(world.ref, {"kind": "replay", "files": [f"{closed(1)}.parquet"]})
    applied = [[one.step.row for one in changes_of(read_config(tmp_path), "shop.ware", run=run.to_dict())[0]] for run in (first, world.go())]
    assert applied == [[0, 2, 0], [1]]  # of the first file, and of the second


def test_of_a_new_load_about_which_nobody_has_decided_answers_say_so_until_a_pass_has_loaded_it(spark, tmp_path):
    world = World(tmp_path, spark, {"id": "int", "name": "string"}, "shop.ware").set(key="id").load([(1, "a")])
    world.changes(1, [("U", 1, "b")], time=datetime.now().astimezone()).go()
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    asked = lambda: repr(dmscdc.open(tmp_path)["ware"].as_of())
    assert "has decided" not in asked()
    world.load([(1, "c"), (2, "d")], time=datetime.now().astimezone())  # the change file is years older by its name than by its time
    assert world.go().verdict == "attention" and "shop.ware: nobody has decided which change files the new load has" in asked()
    with pytest.raises(NoPast, match="2019-01-01 00:00:00 UTC was before load 2 "):  # whose rows are of a later time
        dmscdc.open(tmp_path)["ware"].as_of("2019-01-01T00:00Z")
    open_state(f"sqlite:{tmp_path / 'state.db'}").instruct(TableRef("shop", "ware"), {"kind": "reload", "changes": "supersede"})
    assert "a person has decided (reload) which change files" in asked()
    assert world.go().verdict == "ok" and "has decided" not in asked()
