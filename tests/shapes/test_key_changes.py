"""Keys that change at the source, with before images as DMS adds them. The oracle is SQLite: the statements change its table, and triggers
write what DMS would write, row by row, in the order in which the database changes them."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.small import table_then
from dmscdc.history.small_feed import small_feed
from dmscdc.history.span import landed
from dmscdc.scd2.update import read_versions, update_versions
from dmscdc.state.position import Position
from engines import as_of, feed
from seeds import seed_of
from ways import EACH, way  # noqa: F401
from world import World, closed

pytestmark = pytest.mark.test

ITEM = {"id": "int", "name": "string", "BI_id": "int"}
PLAIN = {"id": "int", "name": "string"}


class Source:
    "A table without a unique index, so that one statement may give rows the keys of each other, as Oracle and SQL Server allow."

    def __init__(self, rows: int, only_changed: bool = False):
        self.db, self.closes = sqlite3.connect(":memory:"), 0
        old = "case when old.id <> new.id then old.id end" if only_changed else "old.id"
        self.db.executescript(f"""
            create table item (id, name); create table log (n integer primary key, op, id, name, before);
            create trigger i after insert on item begin insert into log (op, id, name) values ('I', new.id, new.name); end;
            create trigger u after update on item begin insert into log (op, id, name, before) values ('U', new.id, new.name, {old}); end;
            create trigger d after delete on item begin insert into log (op, id, name) values ('D', old.id, old.name); end;""")
        for n in range(1, rows + 1):
            self.say(f"insert into item values ({n}, 'name {n}')")
        self.say("delete from log")

    def say(self, statement: str) -> None:
        self.db.execute(statement)

    def rows(self) -> list[tuple]:
        return self.db.execute("select id, name from item order by 1, 2").fetchall()

    def changes(self) -> list[tuple]:
        "What has happened since, as the rows of a change file."
        rows = self.db.execute("select op, id, name, before from log order by n").fetchall()
        self.say("delete from log")
        return rows

    def close(self, world: World, *cuts: int) -> str:
        "Change files of what has happened since, cut after some rows."
        rows = self.changes()
        for start, end in zip((0, *cuts), (*cuts, len(rows))):
            self.closes += 1
            world.changes(self.closes, rows[start:end])
        return closed(self.closes)


def table_of(spark, root: Path, source: Source, **settings: Any) -> World:
    world = World(root, spark, ITEM).set(key="id", **settings)
    return world.load([(*row, None) for row in source.rows()])


def now(world: World):
    return open_changelog(str(world.landing), world.ref, position=Position.from_json(dict(world.lake_table.head().position)))


def pairs(rows) -> list[tuple]:
    return sorted((row["id"], row["name"]) for row in rows)


STATEMENTS = {
    "one row": ["update item set id = 12 where id = 2"],
    "there and back": ["update item set id = 12 where id = 2", "update item set id = 2 where id = 12"],
    "a chain": ["update item set id = 12 where id = 2", "update item set id = 22 where id = 12", "update item set name = 'last' where id = 22"],
    "a swap by a third key": ["update item set id = 99 where id = 1", "update item set id = 1 where id = 2", "update item set id = 2 where id = 99"],
    "a swap in one statement": ["update item set id = 3 - id where id in (1, 2)"],
    "all move up": ["update item set id = id + 1"],
    "all move down": ["update item set id = id - 1"],
    "a rotation": ["update item set id = id % 3 + 1 where id <= 3"],
    "twice moved up": ["update item set id = id + 1", "update item set id = id + 1"],
    "a key that is free again": ["update item set id = 12 where id = 2", "insert into item values (2, 'new')", "delete from item where id = 12"],
    "a key that was deleted": ["delete from item where id = 3", "update item set id = 3 where id = 2"],
    "moved and deleted": ["update item set id = id + 1", "delete from item where id = 3", "insert into item values (1, 'first')"],
}


CASES = [
    *((what, ()) for what in STATEMENTS),
    ("a swap in one statement", (1,)),
    ("all move up", (3,)),
    ("all move down", (1, 3)),
    ("a rotation", (2,)),
    ("a chain", (1, 2)),
    ("twice moved up", (2, 6)),
]


@EACH
def test_the_old_key_goes_and_the_new_one_comes(spark, way, tmp_path):
    "Each case has a source and a thousand keys of its own; where it is cut, a file ends and the next one begins."
    world, sources, files = World(tmp_path, spark, ITEM).set(key="id"), [Source(5, only_changed=way == "direct") for _ in CASES], [[]]
    rows = lambda: {case: [(1000 * lot + id, name) for id, name in source.rows()] for lot, (case, source) in enumerate(zip(CASES, sources))}
    world.load([(*row, None) for case in rows().values() for row in case])
    world.go()
    for lot, ((what, cuts), source) in enumerate(zip(CASES, sources)):
        for statement in STATEMENTS[what]:
            source.say(statement)
        changes = [(op, 1000 * lot + id, name, before and 1000 * lot + before) for op, id, name, before in source.changes()]
        for at, change in enumerate(changes):
            if at in cuts:
                files.append([])
            files[-1].append(change)
    for number, file in enumerate(files, 1):
        world.changes(number, file)
    assert world.go().verdict == "ok"
    by_case = lambda found: {case: [row for row in found if row[0] // 1000 == lot] for lot, case in enumerate(CASES)}
    assert by_case(world.lake("id, name")) == rows()
    if way == "direct":
        assert by_case(pairs(table_then(now(world), ["id"]).rows.to_pylist())) == rows()


@pytest.mark.proof
def test_random_statements_and_every_question_about_them(spark, way, tmp_path):
    partition = "name" if way == "direct" else ""
    draw, source = random.Random(seed_of("KEY_SEED")), Source(8)
    world, after, kinds = table_of(spark, tmp_path, source, partition=partition), [], []
    world.go()
    update_versions(*world.places, quiet_period=0, spark=lambda: spark)
    for number in range(6):
        for _ in range(draw.randint(1, 6)):
            ids = [id for id, _ in source.rows()]
            free = draw.choice([n for n in range(1, 40) if n not in ids])
            kind = draw.choice(["move", "move", "up", "swap", "insert", "delete", "rename"]) if len(ids) > 3 else "insert"
            one, other = draw.sample(ids, 2) if len(ids) > 1 else (0, 0)
            kinds.append(kind)
            source.say(
                {
                    "move": f"update item set id = {free} where id = {one}",
                    "insert": f"insert into item values ({free}, 'i{draw.randrange(4)}')",
                    "up": "update item set id = id + 1",
                    "swap": f"update item set id = {one + other} - id where id in ({one}, {other})",
                    "delete": f"delete from item where id = {one}",
                    "rename": f"update item set name = 'r{draw.randrange(4)}' where id = {one}",
                }[kind]
            )
        logged = source.db.execute("select count(*) from log").fetchone()[0]
        name = source.close(world, *sorted(draw.sample(range(1, logged), min(draw.randint(0, 2), logged - 1))))
        after.append((name, source.rows()))
        if number % 3 == 2:
            assert world.go().verdict == "ok"
            assert world.lake("id, name") == source.rows()
            update_versions(*world.places, quiet_period=0, spark=lambda: spark)
            there = read_versions(spark, world.table, world.places[2]).where("is_current").collect()
            assert pairs(there) == source.rows()
    past = now(world)
    for name, then in after[::2]:
        assert pairs(table_then(upto(past, f"{name}.parquet"), ["id"]).rows.to_pylist()) == then
    assert pairs(as_of(spark, past, ["id"]).rows.collect()) == after[-1][1]
    since = landed(upto(past, f"{after[3][0]}.parquet"))
    for news in (feed(spark, past, ["id"], since).rows.collect(), small_feed(past, ["id"], since, net=False).rows.to_pylist()):
        kept = dict(after[3][1])
        for row in news:  # in their order; of one place the end of a key comes with the beginning of another
            if row["_change_type"] in ("insert", "update_postimage"):
                kept[row["id"]] = row["name"]
            elif row["_change_type"] == "delete":
                kept.pop(row["id"])
        assert sorted(kept.items()) == after[-1][1]
    audits = [audit_row(str(world.landing), world.lake_table, {"id": id})[0][0] for id in range(1, 41)]
    assert {audit.verdict for audit in audits} == {"agrees"}
    assert sorted((a.life.state["id"], a.life.state["name"]) for a in audits if a.life.state) == [row for row in after[-1][1] if row[0] <= 40]
    print(f"{len(kinds)} statements, {kinds.count('up')} of them move every row; {len(audits)} rows told")


def test_what_the_history_says_of_both_keys(spark, tmp_path):
    source = Source(3)
    world = table_of(spark, tmp_path, source)
    source.say("update item set id = 12, name = 'Lamp' where id = 2")
    source.close(world)
    world.go()
    (old,), (new,) = (audit_row(str(world.landing), world.lake_table, {"id": id})[0] for id in (2, 12))
    assert [(s.op, s.meant) for s in old.life.steps] == [("I", "inserted"), ("D", "key changed, to id=12")] and old.life.state is None
    assert [(s.op, s.meant) for s in new.life.steps] == [("U", "key changed, from id=2")] and new.life.state["name"] == "Lamp"
    assert old.verdict == new.verdict == "agrees"


def test_marked_rows_and_a_late_file(spark, way, tmp_path):
    source = Source(4)
    world = table_of(spark, tmp_path, source, delete="soft")
    source.say("update item set name = 'late' where id = 2")
    late = source.changes()
    source.say("update item set id = 12, name = 'moved' where id = 2")
    source.closes = 1
    source.close(world)
    world.go()
    world.changes(1, late)
    found = world.go()
    assert found.verdict == "attention" and "met 1 key" in found.words  # no change sequence proves the order
    assert world.lake("id, name, Op") == [(1, "name 1", "I"), (2, "late", "D"), (3, "name 3", "I"), (4, "name 4", "I"), (12, "moved", "U")]


def test_of_two_columns_and_another_type(spark, way, tmp_path):
    kinds = {"a": "int", "b": "string", "name": "string", "BI_a": "bigint", "BI_b": "string"}
    world = World(tmp_path, spark, kinds).set(key="a,b").load([(1, "x", "one", None, None), (1, "y", "two", None, None)])
    world.changes(1, [("U", 1, "z", "one", 1, "x"), ("U", 1, "y", "TWO", 1, "y"), ("U", 2, "y", "TWO", 1, "y")])
    assert world.go().verdict == "ok"
    assert world.lake("a, b, name") == [(1, "z", "one"), (2, "y", "TWO")]


def test_without_before_images_an_update_of_an_unknown_key_is_said(spark, tmp_path):
    world = World(tmp_path, spark, PLAIN).set(key="id").load([(1, "a")]).changes(1, [("U", 2, "a")])
    found = world.go()
    assert found.verdict == "attention" and "1 update matched no row and was inserted" in found.words and "before-image columns" in found.words


def test_a_column_of_the_source_is_not_taken_for_a_before_image(spark, way, tmp_path):
    world = World(tmp_path, spark, ITEM).set(key="id").load([(1, "a", None)])
    world.changes(1, [("I", 2, "b", 7), ("U", 1, "c", 3)])
    found = world.go()
    assert found.verdict == "refused" and "row 1 of" in found.words and "BI_id was expected to be a before image" in found.words
    loaded = World(tmp_path / "loaded", spark, ITEM).set(key="id").load([(1, "a", 9), (3, "x", 9)])
    loaded.changes(1, [("U", 1, "c", 3)])
    assert loaded.go().verdict == "ok" and loaded.lake("id, name, BI_id") == [(1, "c", 3), (3, "x", 9)]


def test_a_statement_cut_into_two_batches_is_said(spark, way, tmp_path):
    source = Source(2)
    world = table_of(spark, tmp_path, source)
    world.go()
    source.say("update item set id = 3 - id")
    first, second = source.changes()
    world.changes(1, [first])
    found = world.go()
    assert found.verdict == "attention" and "1 row was given a key that another row still had" in found.words
    world.changes(2, [second])
    assert world.go().verdict == "attention" and world.idle().verdict == "attention"  # nobody can know, so it stays said
    world.state.instruct(world.ref, {"kind": "accept"})
    assert world.go().verdict == "nothing" == world.idle().verdict  # a person has decided
    world.state.instruct(world.ref, {"kind": "reload", "changes": "keep"})
    assert world.go().verdict == "ok" and world.lake("id, name") == source.rows() and world.idle().verdict == "nothing"


@pytest.mark.parametrize("partition", ["", "name"])
def test_a_changed_key_in_a_file_that_lacks_a_column_is_attention(spark, way, tmp_path, partition):
    world = World(tmp_path, spark, {}).set(key="id", partition=partition)
    world.load([(1, "a", "x", None)], {"id": "int", "name": "string", "kind": "string", "BI_id": "int"})
    world.changes(1, [("U", 9, "y", 1)], {"id": "int", "kind": "string", "BI_id": "int"})
    found = world.go()
    assert found.verdict == "attention" and f"row 1 of {closed(1)}.parquet changes the key, and its file does not carry column name" in " ".join(
        found.notes
    )
    assert world.lake("id, kind") == [(9, "y")]


def test_a_proof_compares_the_source_s_columns_and_finds_a_row_that_kept_its_old_key(spark, tmp_path):
    import sqlite3

    from dmscdc.reconcile.explain import ProofRequest, prove

    world = World(tmp_path, spark, {"id": "int", "name": "string"}).set(key="id").load([(1, "a"), (2, "b")])
    world.go()
    world.changes(1, [("U", 9, "a", 1), ("U", 2, "c", 2)], {"id": "int", "name": "string", "BI_id": "int"})
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("create table item (id int primary key, name text)")
        db.executemany("insert into item values (?, ?)", [(9, "a"), (2, "c")])
    proof = lambda: prove(
        ProofRequest(world.ref, str(world.landing), world.places[2], world.places[3], f"sqlite:{tmp_path / 'shop.db'}", source_table="main.item"),
        lambda: spark,
    )
    assert world.go().verdict == "ok" and proof().verdict == "ok"
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("insert into item values (1, 'a')")  # as if the lake had lost it
    assert proof().verdict == "attention" and "1 missing" in proof().words
