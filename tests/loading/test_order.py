"Of two changes of one row the later one wins: which one is later, whatever Spark and the arrival do."

from __future__ import annotations

import itertools
import os
import random
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_fold import split_files

from dmscdc.capture.writer import DmsSettings, change_sequence, moment_utc
from dmscdc.changes.fold import change_ranks
from dmscdc.changes.quarantine import quarantine_folder_of
from dmscdc.changes.read import NAME
from dmscdc.changes.schema import FILE, ROW
from dmscdc.history.changelog import open_changelog
from dmscdc.history.questions import blame
from dmscdc.history.row import row_lives
from dmscdc.history.small import table_then
from dmscdc.state.position import Position
from ways import EACH
from world import World, closed

pytestmark = [pytest.mark.test, EACH]

SCHEMA = {"id": "int", "name": "string"}


@pytest.mark.parametrize("sequence", ["", "seq"])
def test_the_place_of_a_change_is_by_sequence_base_name_path_and_row_in_whatever_order_tasks_bring_the_rows(sequence):
    rows = [(f"{n // 50}", name, f"{folder}/{name}", row) for n, (name, folder, row) in enumerate(itertools.product("ab", "yx", range(50)))]
    random.Random(5).shuffle(rows)
    changes = pa.table(dict(zip(("seq", NAME, FILE, ROW), zip(*rows))))
    ordered = sorted(rows, key=lambda row: row if sequence else row[1:])
    assert len(ordered) == 200 and [ordered.index(row) for row in rows] == change_ranks(changes, sequence).tolist()


def test_rows_of_one_file_are_applied_in_their_order_though_tasks_share_the_file(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(0, "old")])
    rows = [("U" if turn else "I", key, f"{turn:03d}") for turn in range(40) for key in range(1, 26)]
    w.changes(1, rows + [("D", 7, None)], settings=DmsSettings(row_group_length=50))
    with split_files(spark, "1kb"):
        assert spark.read.parquet(str(w.raw / f"{closed(1)}.parquet")).rdd.getNumPartitions() > 4
        assert w.go().verdict == "ok"
    assert w.lake("id, name") == [(0, "old")] + [(k, "039") for k in range(1, 26) if k != 7]


def test_files_are_applied_by_base_name_then_path_whenever_they_arrived(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(i, "old") for i in range(1, 6)])
    w.changes("20181215-1000000000", [("U", 2, "ten digits"), ("U", 4, "x")], folder="2018/12/15", time=9e8)
    w.changes("20181215-100000000", [("U", 3, "later folder")], folder="2018/12/16", time=8e8)
    w.changes("20181215-100000000", [("U", 3, "x"), ("U", 1, "nine digits")], folder="2018/12/15", time=9.5e8)
    w.changes("20181215-100000001", [("U", 2, "next"), ("U", 4, "y")], folder="2018/12/01", time=7e8)
    w.changes("20181214-235959999", [("U", 1, "x"), ("U", 5, "first")], folder="2018/12/31")
    assert w.go().verdict == "ok"
    assert w.lake("id, name") == [(1, "nine digits"), (2, "next"), (3, "later folder"), (4, "y"), (5, "first")]


def sequenced(w, close, rows, counters, **more):
    w.changes(
        close,
        rows,
        **more,
        settings=DmsSettings(sequence_column="seq", row_group_length=2),
        sequences=[c if c is None else change_sequence(moment_utc("2018-12-15 10:00:00"), c) for c in counters],
    )


def test_a_change_sequence_decides_and_a_disagreement_with_the_names_is_told(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "old"), (2, "old")], settings=DmsSettings(sequence_column="seq"))
    sequenced(w, 1, [("U", 1, "newest"), ("U", 2, "first")], (30, 10))
    sequenced(w, 2, [("U", 1, "x"), ("U", 2, "second")], (20, 40))
    done = w.go()
    assert w.lake("id, name, seq[-2:]") == [(1, "newest", "30"), (2, "second", "40")]
    assert done.verdict == "attention" and "disagree about the order of changes of 1 key; the sequence decided" in done.words
    assert f"row 1 of {closed(1)}.parquet comes before row 1 of {closed(2)}.parquet, and has the later sequence" in done.words


def as_number(path, kind: pa.DataType, column: str, digits: int = 35) -> None:
    "Give the change sequence of a file another type, as a rule of the task can."
    stat, rows = path.stat(), pq.read_table(path)
    at = rows.column_names.index(column)
    numbers = pa.array([text[:digits] or None for text in rows.column(at).to_pylist()], pa.string()).cast(kind)
    pq.write_table(rows.set_column(at, column, numbers), path)
    os.utime(path, (stat.st_atime, stat.st_mtime))


STANDARD, ANOTHER = "AR_H_CHANGE_SEQ", "txseq"


@pytest.mark.parametrize(
    "kind, column, digits, told",
    [
        (pa.decimal128(35, 0), STANDARD, 35, ""),
        (pa.decimal128(38, 0), STANDARD, 35, ""),
        (pa.float64(), STANDARD, 35, "AR_H_CHANGE_SEQ is double, which does not hold the 35 digits"),
        (pa.float64(), ANOTHER, 35, "txseq is double, and so does not order the changes"),
        (pa.float32(), ANOTHER, 35, "txseq is float, and so does not order the changes"),
        (pa.decimal128(38, 0), ANOTHER, 35, ""),
        (pa.decimal128(38, 3), ANOTHER, 35, "txseq is decimal(38,3), and so does not order the changes"),
        (pa.string(), STANDARD, 20, "AR_H_CHANGE_SEQ is '20181215100000000000' in the first row"),
        (pa.string(), ANOTHER, 25, "txseq is '2018121510000000000000000' in the first row"),
        (pa.binary(), ANOTHER, 35, "35 digits of text were expected"),
    ],
    ids=str,
)
def test_a_change_sequence_that_is_a_number_decides_where_it_is_exact_and_else_it_is_said(tmp_path, spark, kind, column, digits, told):
    settings = DmsSettings(sequence_column=column)
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "old"), (2, "old")], settings=settings)
    for number, rows, counters in ((1, [("U", 1, "newest"), ("U", 2, "first")], (30, 10)), (2, [("U", 1, "x"), ("U", 2, "second")], (20, 40))):
        w.changes(number, rows, settings=settings, sequences=[change_sequence(moment_utc("2018-12-15 10:00:00"), c) for c in counters])
    for path in w.raw.glob("*.parquet"):
        as_number(path, kind, column, digits)
    done = w.go()
    assert w.lake("id, name") == [(1, "x" if told else "newest"), (2, "second")]
    assert done.verdict == "attention" and (told or "the sequence decided") in done.words, done.words
    if not told:
        assert w.lake(f"({column}::varchar)[-2:]") == [("30",), ("40",)]


def test_changes_that_a_resumed_task_sends_again_are_never_applied_over_what_is_newer(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "old"), (2, "old"), (3, "old")], settings=DmsSettings(sequence_column="seq"))
    sequenced(w, 1, [("U", 1, "a"), ("I", 4, "four"), ("U", 1, "b")], (10, 11, 12))
    sequenced(w, 2, [("D", 2, None), ("D", 4, None), ("U", 3, "c")], (20, 21, 22))
    assert w.go().verdict == "ok"
    sequenced(
        w,
        9,
        [("U", 1, "a"), ("I", 4, "four"), ("U", 1, "b"), ("D", 2, None), ("D", 4, None), ("U", 3, "c"), ("U", 3, "new")],
        (10, 11, 12, 20, 21, 22, 30),
    )
    done = w.go()
    assert (
        done.verdict == "ok"
        and f"{closed(9)}.parquet brought changes of 4 keys from before later ones that were applied, as a resumed task does" in done.words
    )
    assert w.lake("id, name") == [(1, "b"), (3, "new")]
    sequenced(w, 20, [("I", 4, "four")], (11,))  # cut off before its delete comes again
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "b"), (3, "new")]


def test_what_was_put_before_the_load_is_applied_and_said_with_the_way_out(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "old")], time=datetime(2018, 12, 15, 10, 30, tzinfo=timezone.utc))
    w.changes(1, [("U", 1, "a"), ("I", 2, "b")], time=datetime(2018, 12, 15, 10, 1, tzinfo=timezone.utc))
    done = w.go()
    assert done.verdict == "ok" and w.lake("id, name") == [(1, "a"), (2, "b")]
    assert (
        f"{closed(1)}.parquet was put before the load and was applied on top of it. If the load has what it changes: dmscdc table rewind"
        in done.words
    ), done.words


def test_a_repeat_beside_a_newer_change_of_its_key_is_no_disagreement(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "old")], settings=DmsSettings(sequence_column="seq"))
    sequenced(w, 1, [("U", 1, "b")], (10,))
    assert w.go().verdict == "ok"
    sequenced(w, 2, [("U", 1, "c")], (20,))
    sequenced(w, 3, [("U", 1, "b")], (10,))
    done = w.go()
    assert done.verdict == "ok" and "as a resumed task does" in done.words and w.lake("id, name") == [(1, "c")], done.words


def test_what_came_again_from_before_the_known_files_is_held_against_the_rows_of_the_table(tmp_path, spark):
    w = (
        World(tmp_path, spark, SCHEMA | {"BI_id": "int"})
        .set(key="id")
        .load([(n, "old", None) for n in (1, 2, 3, 4)], settings=DmsSettings(sequence_column="seq"))
    )
    sequenced(w, 1, [("U", 1, "b", 1), ("D", 2, "old", None), ("U", 5, "moved", 4), ("I", 4, "another", None)], (12, 13, 14, 15))
    assert w.go().verdict == "ok"
    (w.raw / f"{closed(1)}.parquet").unlink()
    sequenced(w, 9, [("U", 1, "a", 1), ("U", 1, "b", 1), ("U", 3, "new", 3), ("U", 5, "moved", 4)], (10, 12, 30, 14))
    done = w.go()
    assert done.verdict == "ok" and "3 rows left out, because the table's row has a change that is as new or newer" in done.words, done.words
    assert w.lake("id, name") == (there := [(1, "b"), (3, "new"), (4, "another"), (5, "moved")])
    sequenced(w, 10, [("U", 2, "back", 2), ("U", 1, "a", 1)], (11, 10))
    done = w.go()
    assert done.verdict == "attention" and "a row that was deleted since may be back" in done.words and "1 row left out" in done.words, done.words
    assert w.lake("id, name") == sorted([*there, (2, "back")])


def test_one_known_file_that_is_gone_does_not_make_the_others_unknown(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(n, "old") for n in (1, 2, 3)], settings=DmsSettings(sequence_column="seq"))
    sequenced(w, 1, [("U", 1, "a"), ("D", 3, None)], (10, 11))
    assert w.go().verdict == "ok"
    (w.raw / f"{closed(1)}.parquet").unlink()
    sequenced(w, 2, [("U", 2, "x"), ("D", 2, None)], (20, 21))
    assert w.go().verdict == "ok"
    sequenced(w, 3, [("U", 2, "x"), ("U", 1, "new")], (20, 30))
    done = w.go()
    assert (done.verdict, w.lake("id, name")) == ("ok", [(1, "new")]), done.words
    sequenced(w, 4, [("U", 3, "back")], (9,))
    done = w.go()
    assert done.verdict == "attention" and "a row that was deleted since may be back" in done.words, done.words


def test_a_chain_of_changed_keys_that_comes_again_ends_where_it_had_ended(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA | {"BI_id": "int"}).set(key="id").load([(4, "old", None)], settings=DmsSettings(sequence_column="seq"))
    chain = [("U", 5, "a", 4), ("U", 6, "b", 5)]
    sequenced(w, 1, chain, (10, 11))
    assert w.go().verdict == "ok"
    (w.raw / f"{closed(1)}.parquet").unlink()
    sequenced(w, 2, [*chain, ("I", 9, "new", None)], (10, 11, 20))
    done = w.go()
    assert (done.verdict, w.lake("id, name")) == ("ok", [(6, "b"), (9, "new")]), done.words


def test_a_sequence_in_two_columns_orders_and_one_that_is_missing_later_is_said(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA | {"copy": "string"}).set(key="id").load([(1, "old", None)], settings=DmsSettings(sequence_column="seq"))
    number = lambda counter: change_sequence(moment_utc("2018-12-15 10:00:00"), counter)
    sequenced(w, 1, [("U", 1, "newest", number(30))], (30,))
    sequenced(w, 2, [("U", 1, "x", number(20))], (20,))
    w.go()
    assert w.lake("id, name") == [(1, "newest")]
    w.changes(3, [("U", 1, "by name", "")])
    done = w.go()
    assert done.verdict == "attention" and "has no change sequence of the time of the file, which the changes before had" in done.words, done.words


def test_what_came_again_from_before_the_look_back_meets_the_deletes_that_the_known_files_have(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(n, "old") for n in (1, 2, 3, 4)], settings=DmsSettings(sequence_column="seq"))
    sequenced(w, "20181215-120000000", [("U", 1, "a"), ("U", 1, "b"), ("U", 2, "x"), ("U", 3, "y"), ("D", 4, None)], (10, 11, 12, 13, 14))
    assert w.go().verdict == "ok"
    sequenced(w, "20181217-100000000", [("U", 2, "c"), ("D", 3, None)], (20, 21))
    assert w.go().verdict == "ok"
    sequenced(w, "20181217-110000000", [("U", 1, "a"), ("U", 1, "b"), ("U", 2, "x"), ("U", 3, "y"), ("I", 5, "new")], (10, 11, 12, 13, 30))
    done = w.go()
    assert (done.verdict, w.lake("id, name")) == ("ok", [(1, "b"), (2, "c"), (5, "new")]), done.words
    assert (
        "3 rows left out, because the table's row has a change that is as new or newer" in done.words
        and "changes of 1 key from before later ones" in done.words
    ), done.words
    assert "put before the load" not in done.words, "known files are no news, whenever they were put"
    w.state.instruct(w.ref, {"kind": "replay", "files": ["20181217-110000000.parquet"]})
    done = w.go()
    assert (done.verdict, w.lake("id, name")) == ("ok", [(1, "b"), (2, "c"), (5, "new")]) and "3 rows left out" in done.words, done.words
    sequenced(w, "20181217-120000000", [("U", 4, "back")], (9,))
    done = w.go()
    assert (
        done.verdict == "attention"
        and "1 change of 20181217-120000000.parquet has change sequences below what was applied, and no known file has had them" in done.words
    ), done.words


@pytest.mark.parametrize("settings", [{"key": "id"}, {"key": "id", "reload": "difference"}, {"insert_only": True}], ids=lambda one: "-".join(one))
def test_what_a_resumed_task_sends_again_from_before_a_load_is_not_applied_over_it(tmp_path, spark, settings):
    numbers = DmsSettings(sequence_column="seq")
    at = lambda minute: {"time": datetime(2018, 12, 15, 10, minute, tzinfo=timezone.utc)}
    w = World(tmp_path, spark, SCHEMA).set(**settings).load([(1, "old")], settings=numbers, **at(0))
    sequenced(w, 1, [("I", 2, "a"), ("I", 3, "b")], (10, 11), **at(1))
    assert w.go().verdict == "ok"
    w.load([(2, "loaded")], settings=numbers, **at(30))
    done = w.go()
    assert done.verdict == "ok" and w.lake("id, name") == [(2, "loaded")], done.words
    again = [("I", 2, "a"), ("I", 3, "b"), ("I", 4, "new")], (10, 11, 30)
    sequenced(w, 2400, *again, **at(41))
    for _ in range(2):
        done = w.go()
        assert done.verdict == "ok" and w.lake("id, name") == [(2, "loaded"), (4, "new")], done.words
        assert "2 rows left out that a resumed task has sent again from before the load" in done.words
        if "key" in settings:
            w.state.instruct(w.ref, {"kind": "replay", "files": [f"{closed(2400)}.parquet"]})
            done = w.go()
            assert done.verdict == "ok" and w.lake("id, name") == [(2, "loaded"), (4, "new")], done.words
        w.state.instruct(w.ref, {"kind": "reload"})
    w.go()
    sequenced(w, 2500, [("I", 6, "never seen")], (9,), **at(42))
    done = w.go()
    assert done.verdict == "attention" and "applied over it. A load by DMS" in done.words and (6, "never seen") in w.lake("id, name"), done.words
    w.state.instruct(w.ref, {"kind": "reload", "changes": "all"})  # what lies before the load, too: a person wants it
    done = w.go()
    assert (3, "b") in w.lake("id, name") and "the day before it" not in done.words, done.words


def test_a_batch_that_cannot_be_read_does_not_forget_what_the_load_before_it_has_made_obsolete(tmp_path, spark):
    numbers = DmsSettings(sequence_column="seq")
    at = lambda minute: {"time": datetime(2018, 12, 15, 10, minute, tzinfo=timezone.utc)}
    w = World(tmp_path, spark, SCHEMA).set(key="id", bad_rows="aside").load([(1, "old")], settings=numbers, **at(0))
    sequenced(w, 1, [("U", 1, "a")], (10,), **at(1))
    assert w.go().verdict == "ok"
    w.load([(1, "loaded")], settings=numbers, **at(30))
    sequenced(w, 2100, [("U", 2, "damaged")], (30,), **at(36))
    path = w.raw / f"{closed(2100)}.parquet"
    put = path.stat().st_mtime
    path.write_bytes(path.read_bytes()[:40])
    os.utime(path, (put, put))
    done = w.go()
    assert done.commit > 2 and w.lake("id, name") == [(1, "loaded")], (done.commit, done.words)
    sequenced(w, 2400, [("U", 1, "a")], (10,), **at(41))
    done = w.go()
    assert w.lake("id, name") == [(1, "loaded")] and "sent again from before the load" in done.words, done.words


def test_a_table_without_a_key_is_told_of_repeats_of_the_load_of_late_ones_and_of_those_from_before_the_known_files(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(insert_only=True).load([(1, "old")], settings=DmsSettings(sequence_column="seq"))
    sequenced(w, 1, [("I", 1, "old"), ("I", 2, "a")], (10, 11))
    done = w.go()
    assert done.verdict == "attention" and "1 inserted row is equal to rows of the load" in done.words, done.words
    sequenced(w, 30, [("I", 3, "b"), ("I", 4, "c")], (20, 21))
    assert w.go().verdict == "ok"
    sequenced(w, 25, [("I", 3, "b"), ("I", 5, "late")], (20, 15))
    w.go()
    assert w.lake("id, name") == [(1, "old"), (1, "old"), (2, "a"), (3, "b"), (4, "c"), (5, "late")]
    (w.raw / f"{closed(30)}.parquet").unlink()
    sequenced(w, 40, [("I", 3, "b"), ("I", 6, "d")], (20, 30))
    sequenced(w, 41, [("I", 6, "d"), ("I", 6, "other values")], (30, 30))
    done = w.go()
    assert done.verdict == "attention" and "2 rows left out that a resumed task has sent again" in done.words and "with other values" in done.words, (
        done.words
    )
    sequenced(w, 50, [("I", 7, "never seen")], (25,))
    done = w.go()
    assert done.verdict == "attention" and "nor the known files tell that these changes were applied before" in done.words, done.words
    assert w.lake("id, name") == [(1, "old"), (1, "old"), (2, "a"), (3, "b"), (4, "c"), (5, "late"), (6, "d"), (7, "never seen")]


@pytest.mark.parametrize("number, forgets, kind", [(0, False, "decimal"), (1, False, ""), (1, True, "decimal")])
def test_whatever_resumed_tasks_send_again_the_table_is_that_of_each_change_once(tmp_path, spark, number, forgets, kind):
    rng, has_key, rows, log, n = (
        random.Random(number),
        number == 1,
        {1: "old", 2: "old"},
        [],
        0,
    )  # forgets: the known files are gone, so deletes are not known
    w = (
        World(tmp_path, spark, SCHEMA)
        .set(**({"key": "id"} if has_key else {"insert_only": True}))
        .load([*rows.items()], settings=DmsSettings(sequence_column="seq"))
    )
    for path in w.raw.glob("LOAD*") if kind else ():
        as_number(path, pa.decimal128(38, 0), "seq")
    every = [*rows.items()]  # of a table without a key
    for minute in range(1, 10):
        at = rng.randrange(len(log)) if log and rng.random() < 0.6 else len(log)
        again = log[at : rng.randrange(at, len(log)) + 1] if at < len(log) else []
        new = []
        for _ in range(rng.randrange(1, 4)):
            key, n = rng.randrange(1, 6), n + 1
            op = "I" if not has_key or key not in rows else rng.choice("UUU" if forgets else "UUD")
            new.append(((op, key, None if op == "D" else f"v{n}"), n))
            every.append((key, f"v{n}"))
            rows |= {key: f"v{n}"}
            if op == "D":
                del rows[key]
        log += new
        sequenced(w, minute, [row for row, _ in (*again, *new)], [place for _, place in (*again, *new)])
        if kind:
            as_number(w.raw / f"{closed(minute)}.parquet", pa.decimal128(38, 0), "seq")
        if minute % 3 and rng.random() < 0.5:
            continue  # two files of one batch may hold the same changes
        done = w.go()
        assert sorted(w.lake("id, name")) == sorted(rows.items() if has_key else every), done.words
        assert done.verdict == "ok", done.words
        for path in w.raw.glob("2018*") if forgets else ():
            path.unlink()
    if forgets:
        return
    w.state.instruct(w.ref, {"kind": "replay", "files": [path.name for path in sorted(w.raw.glob("2018*"))[::2]]})
    w.go()
    assert sorted(w.lake("id, name")) == sorted(rows.items() if has_key else every)
    if has_key:
        for life in row_lives(open_changelog(str(w.landing), w.ref), [{"id": key} for key in rows]):
            for column, value, step in blame(life):
                assert pq.read_table(w.raw / step.file.partition("#")[0])[column][step.row].as_py() == value, "the row that is named has it"
    else:
        sequenced(w, 30, [("I", 9, "another"), log[0][0]], [log[0][1]] * 2)
        if kind:
            as_number(w.raw / f"{closed(30)}.parquet", pa.decimal128(38, 0), "seq")
        done = w.go()
        assert (done.verdict, [(row["row"], row["reason"]) for row in done.not_applied][:1]) == (
            "attention",
            [(1, "its change sequence was applied before, with other values")],
        )
        assert sorted(w.lake("id, name")) == sorted(every)


@pytest.mark.parametrize("has_key", [True, False], ids=["a key", "no key"])
def test_whatever_resumed_tasks_send_again_of_changes_with_before_images_counts_once(tmp_path, spark, has_key):
    rng, rows, log, n = random.Random(3), [(1, "old"), (2, "old")], [], 0
    w = World(tmp_path, spark, SCHEMA | {"BI_id": "int"} | ({} if has_key else {"BI_name": "string"})).set(
        **({"key": "id"} if has_key else {"insert_only": True})
    )
    w.load([(*row, None, None)[: 3 if has_key else 4] for row in rows], settings=DmsSettings(sequence_column="seq"))
    for minute in range(1, 9):
        at = rng.randrange(len(log)) if log and rng.random() < 0.6 else len(log)
        again = log[at : rng.randrange(at, len(log)) + 1] if at < len(log) else []
        new = []
        for _ in range(rng.randrange(1, 4)):
            n, old = n + 1, rng.choice(rows) if rows else None
            op = rng.choice("IUUD") if old else "I"
            free = [key for key in range(1, 8) if not has_key or key not in {row[0] for row in rows}]
            row = (rng.choice([*free, old[0]] if op == "U" else free or [n + 10]), rng.choice(["a", f"v{n}"])) if op != "D" else old
            before = (old if op == "U" else (None, None))[: 1 if has_key else 2]
            new.append(((op, *row, *before), n))
            if op != "I":
                rows.remove(old)
            if op != "D":
                rows.append(row)
        log += new
        sequenced(w, minute, [row for row, _ in (*again, *new)], [place for _, place in (*again, *new)])
        if minute % 3 and rng.random() < 0.4:
            continue  # two files of one batch may hold the same changes
        done = w.go()
        assert (sorted(w.lake("id, name")), done.verdict) == (sorted(rows), "ok"), done.words
    w.go()
    told = table_then(
        open_changelog(
            str(w.landing),
            w.ref,
            position=Position.from_json(w.lake_table.head().position),
            quarantine_folder=quarantine_folder_of(str(w.root / "lake"), w.ref),
        ),
        ["id"] if has_key else [],
    )
    assert sorted(map(tuple, (row.values() for row in told.rows.select(["id", "name"]).to_pylist()))) == sorted(rows)


def test_where_one_row_lacks_the_sequence_the_files_decide(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "old"), (2, "old")])
    sequenced(w, 1, [("U", 1, "x"), ("U", 2, "first")], (30, 10))
    sequenced(w, 2, [("U", 1, "newest"), ("U", 2, "x"), ("U", 2, "second")], (20, 40, None))
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "newest"), (2, "second")]


def test_a_timestamp_column_never_decides(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id")
    stamped = DmsSettings(timestamp_column="dms_ts")
    w.load([(1, "old")], settings=stamped, moment=moment_utc("2030-01-01"))
    w.changes(1, [("U", 1, "x"), ("U", 1, "newest")], settings=stamped, commits=[moment_utc("2029-01-01"), moment_utc("2018-01-01")])
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "newest")]


def digits(*values):
    return ["" if v is None else v if isinstance(v, str) else change_sequence(moment_utc("2018-12-15 10:00:00"), v) for v in values]


def test_a_sequence_that_contradicts_the_rows_of_one_file_is_told_with_both_rows(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "old"), (2, "old")])
    sequenced(w, 1, [("U", 2, "x"), ("U", 1, "newest"), ("U", 2, "second"), ("U", 1, "older")], (1, 30, 2, 10))
    done = w.go()
    assert w.lake("id, name") == [(1, "newest"), (2, "second")] and done.verdict == "attention"
    assert "disagree about the order of changes of 1 key; the sequence decided" in done.words
    assert f"row 2 of {closed(1)}.parquet comes before row 4 of {closed(1)}.parquet, and has the later sequence" in done.words


ACCOUNTS = {  # a text of 35 digits that is not a change sequence: of the load's rows, and of three changes of row 1
    "far from any time": ("", ["9" * 35, "1" * 35, "1" * 35]),
    "a time of another year": ("", ["20171215" + "9" * 27, "20171215" + "1" * 27, "20171215" + "1" * 27]),
    "a time after the file": ("", ["20181217" + "9" * 27, "20181217" + "1" * 27, "20181217" + "1" * 27]),
    "the load has it too": (digits(7)[0], digits(9, 5, 5)),
    "only the first row looks like it": ("", [digits(9)[0], "1" * 35, "1" * 35]),
    "one digit more": ("", ["2018121510" + "9" * 26, "2018121510" + "1" * 26, "2018121510" + "1" * 26]),
}


@pytest.mark.parametrize("case", ACCOUNTS)
def test_another_text_of_35_digits_never_reorders_changes(tmp_path, spark, case):
    loaded, values = ACCOUNTS[case]
    w = World(tmp_path, spark, {**SCHEMA, "account": "string"}).set(key="id").load([(1, "old", loaded), (2, "old", loaded)])
    w.changes(1, [("U", 1, "first", values[0])]).changes(2, [("U", 1, "second", values[1]), ("D", 1, "second", values[2])])
    done = w.go()
    assert (done.verdict, w.lake("id, name")) == ("ok", [(2, "old")])


def test_a_column_of_the_standard_name_needs_only_the_shape(tmp_path, spark):
    shape = {**SCHEMA, "ar_h_change_seq": "string"}
    w = World(tmp_path, spark, shape).set(key="id").load([(1, "old", None)])
    w.changes(1, [("U", 1, "newest", "20010101" + "9" * 27)]).changes(2, [("U", 1, "older", "20010101" + "1" * 27)])
    assert w.go().verdict == "attention" and w.lake("id, name") == [(1, "newest")]
