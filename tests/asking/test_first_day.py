"Change files whose names have the first and the last moment that there is, and commit times and sequences of then: loaded, and every question answered."

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.history.as_of import as_known, as_of
from dmscdc.history.audit import AGREES, audit_row
from dmscdc.history.changelog import Changelog, open_changelog, upto
from dmscdc.history.feed import feed
from dmscdc.history.span import landed
from dmscdc.reconcile.explain import ProofRequest, prove
from dmscdc.scd2.update import update_versions
from dmscdc.service.config import write_config
from dmscdc.state.position import Position
from tiers import sampled
from world import World

pytestmark = pytest.mark.proof

FIRST, MIDDLE, LAST = "00010101-000000000", "20181215-100000000", "99991231-235959999"
BEGIN, NOON, END = datetime(1, 1, 1), datetime(2018, 12, 15, 9, 59), datetime(9999, 12, 31, 23, 59, 59, 990_000)
CHANGES = {
    FIRST: (BEGIN, [("U", 1, "first day"), ("D", 2, None)]),
    MIDDLE: (NOON, [("U", 1, "middle"), ("I", 4, "new")]),
    LAST: (END, [("U", 3, "last day"), ("D", 4, None)]),
}
AFTER = {FIRST: {1: "first day", 3: "load"}, MIDDLE: {1: "middle", 3: "load", 4: "new"}, LAST: {1: "middle", 3: "last day"}}
CLOCKS = ("names", "commit times", "sequences")


def put(w: World, name: str, clock: str, folder: str = "") -> None:
    "A change file as pyarrow writes it."
    moment, rows = CHANGES[name]
    columns = {
        "Op": pa.array([row[0] for row in rows]),
        "id": pa.array([row[1] for row in rows], pa.int32()),
        "name": pa.array([row[2] for row in rows], pa.string()),
    }
    text = f"{moment.year:04}{moment:-%m-%d %H:%M:%S.%f}"
    if clock == "commit times":
        columns["at"] = pa.array([text] * len(rows))
    if clock == "sequences":
        columns["seq"] = pa.array([f"{''.join(filter(str.isdigit, text))[:16]}{n:019d}" for n in range(len(rows))])
    path = w.raw / folder / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, version="1.0", use_dictionary=False)
    os.utime(path, (1_544_868_000,) * 2)  # 15 December 2018, when all of them were put


@pytest.fixture(scope="module", params=sampled(CLOCKS, "names"))
def clock(request):
    return request.param


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory, clock) -> World:
    "Two passes; the last file has landed and is not in the lake."
    column, value = {"names": ((), ()), "commit times": (("at",), ("2018-12-15 07:46:40.000000",)), "sequences": (("seq",), ("",))}[clock]
    w = World(tmp_path_factory.mktemp("days"), spark, {"id": "int", "name": "string", **dict.fromkeys(column, "string")}).set(key="id")
    w.load([(n, "load", *value) for n in (1, 2, 3)], time=1_544_860_000)
    for name in (FIRST, MIDDLE):
        put(w, name, clock, "0001/01/01" if name == FIRST and clock == "names" else "")
        done = w.go()
        assert done.verdict == "ok", done.words
        assert w.lake("id, name") == sorted(AFTER[name].items())
    put(w, LAST, clock)
    write_config(w.root, landing="landing", lake="lake", quiet_period=0)
    return w


def past(w: World) -> Changelog:
    return open_changelog(str(w.landing), w.ref, position=Position.from_json(w.lake_table.head().position))


def rows_of(frame) -> dict[int, str]:
    return {row["id"]: row["name"] for row in frame.collect()}


def test_plan_and_status_say_what_is_there(world):
    for words in (["plan"], ["status"]):
        done = CliRunner().invoke(app, [*words, "--json", "--folder", str(world.root)])
        assert done.exception is None and "shop.item" in done.stdout, done.output
    assert "1 change file" in CliRunner().invoke(app, ["plan", "--folder", str(world.root)]).output


def test_the_table_is_told_as_of_each_file_and_each_moment(world, spark, clock):
    line = past(world)
    for name, rows in AFTER.items():
        assert rows_of(as_of(spark, upto(line, f"{name}.parquet"), ["id"]).rows) == rows
    for moment, rows in {BEGIN: AFTER[FIRST], NOON.replace(hour=11): AFTER[MIDDLE], END.replace(microsecond=999_999): AFTER[LAST]}.items():
        assert rows_of(as_of(spark, line, ["id"], moment.replace(tzinfo=timezone.utc)).rows) == rows, moment
    assert rows_of(as_known(spark, world.lake_table, 2, lambda: line).rows) == AFTER[FIRST]


def test_a_feed_tells_every_change(world, spark):
    line = past(world)
    told = (
        feed(spark, line, ["id"], landed(upto(line, "load")), net=False).rows.select("_change_type", "id").collect()
    )  # Python cannot hold every commit time
    assert sorted((row["_change_type"], row["id"]) for row in told if not row["_change_type"].endswith("preimage")) == [
        ("delete", 2),
        ("delete", 4),
        ("insert", 4),
        ("update_postimage", 1),
        ("update_postimage", 1),
        ("update_postimage", 3),
    ]
    rest = feed(spark, line, ["id"], landed(upto(line, f"{MIDDLE}.parquet"))).rows.select("_change_type", "id").collect()
    assert sorted((row["_change_type"], row["id"]) for row in rest) == [("delete", 4), ("update_postimage", 3), ("update_preimage", 3)]


def test_a_row_s_life_names_the_commits_that_hold_it(world):
    (audit,), _ = audit_row(str(world.landing), world.lake_table, {"id": "1"})
    assert audit.verdict == AGREES and [step.known.number for step in audit.life.steps] == [1, 2, 3], audit


def test_versions_are_valid_from_then_on(world, spark, clock):
    done = update_versions(*world.places, landed=True, quiet_period=0, spark=lambda: spark)
    assert done.verdict == "ok", done.notes
    rows = [
        row
        for path in Path(done.location).rglob("*.parquet")
        for row in pq.read_table(path, columns=["id", "name", "valid_from", "is_current"]).to_pylist()
    ]
    assert {row["id"]: row["name"] for row in rows if row["is_current"]} == AFTER[LAST]
    assert {row["name"]: row["valid_from"].replace(tzinfo=None, microsecond=0) for row in rows if row["name"] == "last day"} == {
        "last day": END.replace(microsecond=0)
    }


def test_it_is_proven_and_the_last_day_is_in_flight(world, spark):
    path = world.root / "shop.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table item (id int, name text)")
        db.executemany("insert into item values (?, ?)", AFTER[LAST].items())
    done = prove(ProofRequest(world.ref, str(world.landing), str(world.root / "lake"), world.places[3], f"sqlite:{path}"), lambda: spark)
    assert dict(done.done.in_flight) == {"different": 1, "extra": 1}, done.words


def test_a_value_of_the_first_moment_of_year_1_is_shown(spark, tmp_path):
    (tmp_path / "landing/shop/item").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2], "at": pa.array([BEGIN, END], pa.timestamp("us"))}), tmp_path / "landing/shop/item/LOAD00000001.parquet")
    World(tmp_path, spark, {"id": "bigint", "at": "timestamp"}).set(key="id")
    done = CliRunner().invoke(
        app, ["as-of", "shop.item", "--json", "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake"), "--folder", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    assert [row["at"] for row in json.loads(done.stdout)["first"]] == ["0001-01-01 00:00:00", "9999-12-31 23:59:59.99"]
