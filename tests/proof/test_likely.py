"A proof that finds a difference says what most likely happened, and the command that it names makes the table equal. The source is SQLite."

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from typer.testing import CliRunner

from dmscdc.capture.sqlite import SqliteSource
from dmscdc.capture.writer import DmsSettings
from dmscdc.cli.main import app
from dmscdc.reconcile.explain import ProofRequest, prove
from dmscdc.reconcile.proven import keep_proof
from dmscdc.service.config import write_config
from world import World

pytestmark = pytest.mark.proof


def shop(tmp_path, spark, *steps: str, **settings) -> World:
    "A captured database, loaded, and then changed."
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as db:
        db.executescript(
            "create table item (id integer primary key, note text, area text); insert into item values (1, 'a', 'n'), (2, 'b', 's'), (3, 'c', 'n')"
        )
        source = SqliteSource(tmp_path / "shop.db")
        source.install()
        source.full_load(tmp_path / "landing", DmsSettings(**settings))
        for step in steps:
            db.executescript(step)
        source.flush(tmp_path / "landing", DmsSettings(**settings), everything=True)
    world = World(tmp_path, spark, {}).set(key="id")
    world.go()
    return world


def proven(world: World):
    return prove(ProofRequest(world.ref, *world.places[1:], f"sqlite:{world.root}/shop.db", wait=0.01), lambda: world.spark)


def test_nulls_where_the_source_has_values_are_told_as_values_that_were_not_logged(tmp_path, spark):
    world = shop(tmp_path, spark, "update item set area = 'w' where id < 3", changed_only=("note",))
    found = proven(world)
    assert (
        found.verdict != "ok"
        and "`dmscdc table set shop.item --unavailable keep:note`, then `dmscdc table rewind shop.item --reload --keep-changes`" in found.words
    )
    world.set(csv={"unavailable": ["note"]}).state.instruct(world.ref, {"kind": "reload", "changes": "keep"})
    world.go()
    assert proven(world).verdict == "ok"


def test_a_source_that_was_emptied_without_a_trace_is_told_as_that(tmp_path, spark):
    world = shop(tmp_path, spark)
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as db:
        db.executescript("drop table item; create table item (id integer primary key, note text, area text)")
    found = proven(world)
    assert found.verdict != "ok" and "emptied without a trace" in found.words and "--when-gone empty" in found.words


def test_other_differences_are_not_given_such_a_cause(tmp_path, spark):
    world = shop(tmp_path, spark)
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as db:
        db.executescript(
            "drop trigger if exists x; update item set note = 'other' where id = 1; update item set note = null where id = 2; delete from item where id = 3"
        )
    found = proven(world)
    assert found.verdict != "ok" and "Likely" not in found.words


def test_what_the_source_has_and_the_files_have_not_is_kept_with_the_table_and_stands_in_later_reports(tmp_path, spark, mariadb, monkeypatch):
    mariadb.run(
        "create table ware (id int primary key, made datetime, note text, rest int, n numeric(50, 2))", "insert into ware values (1, null, 'a', 5, 1)"
    )
    for name, value in mariadb.env.items():
        monkeypatch.setenv(name, value)
    world = (
        World(tmp_path, spark, {"id": "int", "made": "timestamp", "note": "string", "n": "string"}, "shop.ware")
        .set(key="id")
        .load([(1, None, "a", "1.00")])
    )
    assert world.go().losses == ()
    proof = prove(ProofRequest(world.ref, *world.places[1:], mariadb.source), lambda: spark)
    keep_proof(world.state, world.ref, proof.to_dict())
    told = (
        "column rest is in no file",
        "column made may hold a zero date, which is null in the files",
        "column note is a LOB, which DMS cuts at LobMaxSize",
        "column n has 50 digits; DMS writes more than 38 as text",
    )
    assert proof.losses == told
    done = world.changes(1, [("U", 1, None, "b", "1.00")]).go()
    assert done.losses == told
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    asked = lambda *words: json.loads(CliRunner().invoke(app, [*words, "--json", "--folder", str(tmp_path)]).stdout)
    assert asked("status")[0]["losses"] == list(told) and asked("table", "list")[0]["losses"] == list(told)
