"What becomes of every row read: the sentence of a run adds up, and counts what a dictionary of rows before and after says."

from __future__ import annotations

import random

import pytest

from world import World

pytestmark = pytest.mark.test

ITEM = {"id": "int", "name": "string"}


def played(rows: dict[int, str], changes: list[tuple]) -> tuple[dict[int, str], int]:
    "The rows after changes of the kinds I, U, D, and how many of them do not count because they lack a key."
    after, aside = dict(rows), 0
    for op, key, name in changes:
        if key is None:
            aside += 1
        elif op == "D":
            after.pop(key, None)
        else:
            after[key] = name
    return after, aside


def test_every_row_read_is_counted_once(spark, tmp_path):
    draw = random.Random(29)
    world, rows = World(tmp_path, spark, ITEM).set(key="id", bad_rows="aside"), {n: "a" for n in range(8)}
    world.load(list(rows.items())).go()
    for close in range(1, 6):
        changes = [(draw.choice("IUUD"), draw.choice([*range(12), None]), draw.choice("ab")) for _ in range(draw.randint(1, 14))]
        changes = [(op if key is None or op != "U" or key in rows else "I", key, name) for op, key, name in changes]
        after, aside = played(rows, changes)
        done = world.changes(close, changes).go()
        named = {key for _, key, _ in changes if key is not None}
        want = {
            "inserted": len(after.keys() - rows.keys()),
            "deleted": len(rows.keys() - after.keys()),
            "updated": sum(key in rows and after[key] != rows[key] for key in after),
            "unchanged": sum(rows.get(key) == after.get(key) for key in named),
            "folded": len(changes) - aside - len(named),
            "aside": aside,
        }
        assert {name: done.rows[name] for name in want} == want and done.rows["read"] == sum(want.values()) == len(changes), changes
        rows = after
        assert world.lake("id, name") == sorted(rows.items())


def test_the_words_of_a_run_count_rows_that_changed_nothing_and_those_folded_into_later_ones(spark, tmp_path):
    world = World(tmp_path, spark, ITEM).set(key="id").load([(1, "a"), (2, "b"), (3, "c")])
    world.go()
    done = world.changes(1, [("U", 1, "x"), ("U", 1, "y"), ("U", 2, "b"), ("D", 3, "c"), ("I", 4, "d")]).go()
    assert done.words == "1 file, 5 rows read: 1 inserted, 1 updated, 1 deleted, 1 unchanged, 1 folded into later ones"


def test_a_row_that_changes_its_key_counts_for_both_keys(spark, tmp_path):
    world = World(tmp_path, spark, {**ITEM, "BI_id": "int"}).set(key="id")
    world.load([(1, "a"), (2, "b")], ITEM).go()
    done = world.changes(1, [("U", 9, "a", 1), ("U", 2, "c", 2)]).go()
    assert {n: done.rows[n] for n in ("read", "inserted", "updated", "deleted", "folded")} == {
        "read": 2,
        "inserted": 1,
        "updated": 1,
        "deleted": 1,
        "folded": 0,
    }
