"A proof that finds a difference says what most likely happened, and the command that it names makes the table equal. The source is SQLite."
from __future__ import annotations

import sqlite3
from contextlib import closing

from dmscdc.capture.sqlite import SqliteSource
from dmscdc.capture.writer import DmsSettings
from dmscdc.reconcile.explain import ProofRequest, prove
from world import World


def shop(tmp_path, spark, *steps: str, **settings) -> World:
    "A captured database, loaded, and then changed."
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as db:
        db.executescript("create table item (id integer primary key, note text, area text); insert into item values (1, 'a', 'n'), (2, 'b', 's'), (3, 'c', 'n')")
        source = SqliteSource(tmp_path / "shop.db")
        source.install()
        source.full_load(tmp_path / "landing", DmsSettings(**settings))
        for step in steps: db.executescript(step)
        source.flush(tmp_path / "landing", DmsSettings(**settings), everything=True)
    world = World(tmp_path, spark, {}).set(key="id")
    world.go()
    return world


def proven(world: World):
    return prove(ProofRequest(world.ref, *world.places[1:], f"sqlite:{world.root}/shop.db", wait=0.01), lambda: world.spark)


def test_nulls_where_the_source_has_values_are_told_as_values_that_were_not_logged(tmp_path, spark):
    world = shop(tmp_path, spark, "update item set area = 'w' where id < 3", changed_only=("note",))
    found = proven(world)
    assert found.verdict != "ok" and "`dmscdc table set shop.item --unlogged keep:note`, then `dmscdc table rewind shop.item --reload --keep-changes`" in found.words
    world.set(csv={"unlogged": ["note"]}).state.instruct(world.ref, {"kind": "reload", "changes": "keep"})
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
        db.executescript("drop trigger if exists x; update item set note = 'other' where id = 1; update item set note = null where id = 2; delete from item where id = 3")
    found = proven(world)
    assert found.verdict != "ok" and "Likely" not in found.words
