"Raw files that were moved to the folder of the setting `archive` are asked about like those that lie where DMS put them: every answer is the same."

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.landing.files import TableRef
from dmscdc.reconcile.explain import ProofRequest, prove
from dmscdc.service.config import read_config, write_config
from dmscdc.service.schedule import job_parameters
from world import World

pytestmark = pytest.mark.torture

ITEM = {"id": "int", "name": "string", "price": "int"}
PRICES = {"id": "int", "price": "int"}  # a file that carries no name: what a row was called stands in the older ones
OLD, SHORT, NEW, LAST = "20181215-100000000", "20181215-110000000", "20181218-100000000", "20181218-110000000"
MOVED = (OLD, SHORT)
AS_OF = {
    (): [(1, "older", 12), (3, "third", 33), (4, "new", 40)],
    ("--at", "2018-12-15T10:30Z"): [(1, "older", 11), (3, "third", 30)],
    ("--file", f"{SHORT}.parquet"): [(1, "older", 12), (3, "third", 30)],
    ("--commit", "1"): [(1, "a", 10), (2, "b", 20), (3, "c", 30)],
}


def put(name: str) -> datetime:
    return datetime.strptime(name + "000", "%Y%m%d-%H%M%S%f").replace(tzinfo=timezone.utc) + timedelta(seconds=1)


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory) -> World:
    "Three change files are in the lake, of which two are older than the look-back window; the fourth has just landed."
    w = World(tmp_path_factory.mktemp("shop") / "all", spark, ITEM).set(key="id")
    w.load([(1, "a", 10), (2, "b", 20), (3, "c", 30)], time=put(OLD) - timedelta(hours=1))
    assert w.go().verdict == "ok"
    w.changes(OLD, [("U", 1, "older", 11), ("D", 2, "b", 20), ("U", 3, "third", 30)], time=put(OLD)).changes(
        SHORT, [("U", 1, 12)], PRICES, time=put(SHORT)
    )
    w.changes(NEW, [("I", 4, "new", 40)], time=put(NEW))
    assert w.go().verdict == "ok"
    w.changes(LAST, [("U", 3, 33)], PRICES, time=put(LAST))
    with closing(sqlite3.connect(w.root / "source.db")) as db, db:
        db.execute("create table item (id int, name text, price int)")
        db.executemany("insert into item values (?, ?, ?)", AS_OF[()])
    write_config(w.root, landing="landing", lake="lake", quiet_period=0, source="sqlite:source.db")
    return w


@pytest.fixture
def homes(world, tmp_path, monkeypatch) -> dict[str, Path]:
    "The same twice: all files in the landing; the older ones moved, and their place named."
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    found = {}
    for name in ("all", "moved"):
        found[name] = tmp_path / name
        shutil.copytree(world.root, found[name], copy_function=shutil.copy2)
        if name != "all":
            move(found[name], "landing", "archive")
    with (found["moved"] / "dmscdc.toml").open("a") as settings:
        settings.write('archive = "archive"\n')
    return found


def move(home: Path, here: str, there: str) -> None:
    (home / there / "shop" / "item").mkdir(parents=True, exist_ok=True)
    for file in MOVED:
        shutil.move(home / here / "shop" / "item" / f"{file}.parquet", home / there / "shop" / "item")


def asked(home: Path, *words: str) -> Any:
    done = CliRunner().invoke(app, [*words, "--json", "--folder", str(home)])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def rows_in(folder: Path) -> list[dict]:
    return sorted((row for path in folder.rglob("*.parquet") for row in pq.read_table(path).to_pylist()), key=repr)


def test_as_of_every_position_is_the_same(homes):
    for words, rows in AS_OF.items():
        told = {name: asked(homes[name], "as-of", "shop.item", *words) for name in ("all", "moved")}
        assert told["moved"] == told["all"] and sorted((int(r["id"]), r["name"], int(r["price"])) for r in told["all"]["first"]) == rows, words


def test_a_feed_is_the_same(homes):
    for words, count in {("--full", "--from", "load", "--to", "landed"): 10, ("--from", f"{OLD}.parquet"): 3, (): 4}.items():
        found = {name: asked(homes[name], "feed", "shop.item", *words, "--out", str(homes[name] / f"parts{count}")) for name in ("all", "moved")}
        told = {name: rows_in(homes[name] / f"parts{count}") for name in found}
        assert told["moved"] == told["all"] and len(told["all"]) == count, (words, told["all"])
        assert [part["counts"] for part in found["moved"]["parts"]] == [part["counts"] for part in found["all"]["parts"]]


@pytest.mark.parametrize("before", [False, True], ids=["moved first", "applied first"])
def test_versions_are_the_same(homes, before):
    if before:
        move(homes["moved"], "archive", "landing")
    first = [asked(homes[name], "scd2", "shop.item")[0] for name in ("all", "moved")]
    assert {(one["verdict"], one["versions"], one["current"]) for one in first} == {("ok", 7, 3)}, first
    if before:
        move(homes["moved"], "landing", "archive")
    for name in ("all", "moved"):
        assert asked(homes[name], "scd2", "shop.item", "--to", "landed")[0]["opened"] == 1
    versions = {name: rows_in(homes[name] / "lake/shop/item_scd2") for name in ("all", "moved")}
    assert versions["moved"] == versions["all"] and len(versions["all"]) == 8


def test_a_row_s_life_is_the_same(homes):
    for key, steps in {1: 3, 2: 2, 3: 3}.items():
        lives = {name: asked(homes[name], "history", "shop.item", "--key", f"id={key}")["lives"] for name in ("all", "moved")}
        for step in [step for life in sum(lives.values(), []) for step in life["steps"]]:
            step.pop("put")  # a moved file has the time of its moving, which tells nothing
        assert lives["moved"] == lives["all"] and len(lives["all"][0]["steps"]) == steps


def test_a_proof_explains_what_is_in_flight_by_files_of_the_archive_too(homes, spark):
    found = {}
    for name in ("all", "moved"):
        told = job_parameters(read_config(homes[name]), TableRef("shop", "item"))
        given = ProofRequest(TableRef.parse(told["table"]), *[told[part] for part in ("landing", "lake", "state", "source")], archive=told["archive"])
        done = prove(given, lambda: spark).to_dict()
        found[name] = {
            part: done[part] for part in ("verdict", "words", "position", "under_way", "differences", "in_flight", "findings", "lake", "source")
        }
    assert found["moved"] == found["all"] and found["all"]["in_flight"] == {"different": 1} and found["all"]["verdict"] == "ok"
