"Files that arrive after later ones were applied."

from __future__ import annotations

import pytest

from dmscdc.capture.writer import DmsSettings, change_sequence, moment_utc
from world import World, closed, replayed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string", "n": "int"}
ALL = "id, name, n, Op, _cdc_file, _cdc_row"


def sequenced(w, close, rows):
    commit = moment_utc(f"2018-12-15 10:00:{close:02d}")
    w.changes(
        close, rows, settings=DmsSettings(sequence_column="seq"), sequences=[change_sequence(commit, close * 100 + i) for i in range(len(rows))]
    )


@pytest.mark.parametrize("delete", ["hard", "soft"])
def test_the_newest_change_wins_a_delete_stays_one_and_other_keys_are_left(tmp_path, spark, delete):
    w = World(tmp_path, spark, SCHEMA).set(key="id", delete=delete)
    w.load([(i, "old", 0) for i in range(1, 8)])
    w.changes(2, [("U", 1, "two", 2), ("D", 2, None, None), ("U", 7, "two", 2)])
    w.changes(4, [("U", 3, "four", 4), ("D", 4, None, None), ("I", 2, "reborn", 4)])
    w.changes(6, [("U", 5)], {"id": "int"}).changes(8, [("D", 6, None, None)])
    assert w.go().verdict == "ok"
    w.changes(3, [("U", 1, "three", 3), ("U", 2, "x", 3), ("U", 3, "x", 3), ("U", 4, "x", 3), ("U", 5, "three", 3), ("I", 9, "three", 3)])
    w.changes(7, [("U", 6, 7)], {"id": "int", "n": "int"})
    w.changes(9, [("U", 9, "nine", 9), ("U", 7, "nine", 9)])
    done = w.go()
    assert [(f["path"][13:15], f["kind"]) for f in done.files] == [
        ("03", "late"),
        ("04", "again"),
        ("06", "again"),
        ("07", "late"),
        ("08", "again"),
        ("09", "change"),
    ]
    assert w.lake(ALL) == replayed(w.raw, ["id"], ALL, soft=delete == "soft") and w.settled()
    assert done.verdict == "attention" and f"late file {closed(3)}.parquet met" in done.words and "No change sequence proves it" in done.words
    assert w.idle().verdict == "nothing"


def test_no_attention_where_a_sequence_proves_the_order_or_no_applied_key_was_met(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "old", 0), (2, "old", 0), (3, "old", 0)])
    sequenced(w, 2, [("U", 1, "two", 2), ("U", 3, "two", 2)])
    sequenced(w, 4, [("U", 2, "four", 4), ("D", 3, None, None)])
    assert w.go().verdict == "ok"
    sequenced(w, 3, [("U", 1, "three", 3), ("U", 2, "x", 3), ("U", 3, "x", 3)])
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "three"), (2, "four")]
    w.changes(1, [("I", 8, "eight", 1)])
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "three"), (2, "four"), (8, "eight")]


def test_a_late_file_is_not_applied_while_a_file_after_it_is_gone(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "old", 0), (2, "old", 0)])
    w.changes(2, [("U", 1, "two", 2)]).changes(4, [("U", 2, "four", 4)])
    assert w.go().verdict == "ok"
    (w.raw / f"{closed(4)}.parquet").rename(w.root / "away")
    w.changes(3, [("U", 1, "three", 3), ("U", 2, "x", 3)])
    rows, done = w.lake(ALL), w.idle()
    assert done.verdict == "attention" and f"arrived late and not applied: {closed(3)}.parquet" in done.words and w.lake(ALL) == rows
    w.changes(5, [("I", 5, "five", 5)])
    assert w.go().verdict == "attention" and w.lake("id, name") == [(1, "two"), (2, "four"), (5, "five")], "what is new goes on"
    (w.root / "away").rename(w.raw / f"{closed(4)}.parquet")
    w.go()
    assert w.lake(ALL) == replayed(w.raw, ["id"], ALL)


def test_in_any_order_of_arrival_the_table_is_the_same(tmp_path, spark):
    orders = ([1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3], [3, 1, 4, 2])
    ops = {1: ["U", "I", "D"], 2: ["D", "U", "I"], 3: ["I", "D", "U"], 4: ["U", "U", "D"]}
    tables = []
    for i, order in enumerate(orders):
        w = World(tmp_path / str(i), spark, SCHEMA).set(key="id", delete="soft").load([(1, "old", 0), (2, "old", 0), (3, "old", 0)])
        w.go()
        for arrival in (order[:2], order[2:]) if i else (order,):
            for number in arrival:
                w.changes(number, [(op, key, f"file {number}", number) for key, op in enumerate(ops[number], 1)])
            w.go()
        tables.append(w.lake(ALL))
    assert tables[0] == replayed(w.raw, ["id"], ALL, soft=True) and tables == [tables[0]] * 4
