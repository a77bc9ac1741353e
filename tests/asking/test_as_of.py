"A table as of then, held against the raw files told again in SQLite."

from __future__ import annotations

import random
import shutil
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from raw_replay import COLUMNS, KEYS, FileShape, Histories, T, table_of
from typer.testing import CliRunner

from dmscdc.capture.writer import DmsSettings, write_changes, write_load
from dmscdc.changes.options import options_from
from dmscdc.cli.main import app
from dmscdc.errors import BadKey, NoPast, Refused
from dmscdc.history.as_of import as_of as by_spark
from dmscdc.history.changelog import open_changelog, read_changelog, upto
from dmscdc.history.questions import condition_of, find_rows, notes, rows_where
from dmscdc.history.replay import can_apply, every_state
from dmscdc.history.small import table_then
from dmscdc.history.span import landed
from dmscdc.state.position import Position
from dmscdc.state.registry import open_state
from engines import as_of, feed
from world import closed

pytestmark = pytest.mark.test

ITEM = {"id": "int", "name": "string", "price": "int"}


def at_all(spark, past, keys, columns, positions):
    "The tables after each position, in one Spark job."
    told = [by_spark(spark, upto(past, one), keys).rows.withColumn("p", F.lit(n)) for n, one in enumerate(positions)]
    rows = reduce(lambda a, b: a.unionByName(b, True), told).collect()  # a column that no file carried yet is not there yet
    return [table_of([row for row in rows if row.p == n], keys, columns) for n in range(len(positions))]


def rows_of(answer, *names):
    return sorted((tuple(row) for row in answer.rows.select(*names).collect()), key=str)


MIXED = (
    FileShape(),
    FileShape(frozenset("a")),
    FileShape(frozenset("bc"), "holes"),
    FileShape(frozenset("c"), "none"),
    FileShape(),
    FileShape(frozenset(), "column"),
)


@pytest.mark.parametrize(
    "files, has_load",
    [(MIXED, True), pytest.param(tuple(FileShape(f.carries, "column") for f in MIXED[::-1]), False, marks=pytest.mark.torture)],
    ids=["with a load", "from empty"],
)
def test_as_of_every_position_is_what_sql_says_for_many_histories_at_once(spark, tmp_path, files, has_load):
    told = Histories(tmp_path, files, seed=len(files) + has_load, count=60, has_load=has_load).write()
    past = told.past()
    positions = ["load"] * has_load + [f.path for f in past.changes[::2]]
    found = at_all(spark, past, KEYS, COLUMNS, positions)
    for one, have in zip(positions, found):
        by_arrow = table_then(upto(past, one), KEYS).rows.to_pylist()
        assert have == told.state(upto(past, one)) == table_of(by_arrow, KEYS, COLUMNS), one
    assert len({len(table) for table in found}) > 1


def test_a_row_before_a_change_is_the_row_after_the_one_before_it(spark, tmp_path):
    past = Histories(tmp_path, MIXED, seed=5).write().past()
    rows, files = read_changelog(spark, past)
    told = every_state(rows, KEYS, files, "seq").orderBy("h", "k", "_cdc_position").collect()
    for one, next_ in zip(told, told[1:]):
        if (one.h, one.k) == (next_.h, next_.k):
            assert next_._cdc_before == one._cdc_after and not one._cdc_last
        else:
            assert next_._cdc_before is None and one._cdc_last
    assert len(told) == rows.where(can_apply(KEYS)).count()


def change(folder, number, *rows, shape=ITEM, **more):
    write_changes(folder, T, rows, closed(number) if isinstance(number, int) else number, shape, **more)


def test_a_life_that_ended_leaves_no_value_behind_and_a_null_is_a_value(spark, tmp_path):
    write_load(tmp_path, T, [(1, "one", 1), (2, "two", 2)], ITEM)
    change(tmp_path, 1, ("D", 1, None, None), ("U", 2, None, None))
    change(tmp_path, 2, ("I", 1, "again"), ("U", 2, "deux"), shape={"id": "int", "name": "string"})
    assert rows_of(as_of(spark, open_changelog(str(tmp_path), T), ["id"]), *ITEM) == [(1, "again", None), (2, "deux", None)]


def test_a_column_that_comes_late_is_null_before_and_rows_keep_it_when_it_goes(spark, tmp_path):
    write_load(tmp_path, T, [(1, "one"), (2, "two")], {"id": "int", "name": "string"})
    change(tmp_path, 1, ("U", 1, "uno", 7))
    change(tmp_path, 2, ("U", 1, "eins"), shape={"id": "int", "name": "string"})
    past = open_changelog(str(tmp_path), T)
    assert rows_of(as_of(spark, past, ["id"]), *ITEM) == [(1, "eins", 7), (2, "two", None)]
    assert as_of(spark, upto(past, "load"), ["id"]).rows.columns == ["id", "name", "_cdc_file", "_cdc_row"]


def test_rows_that_cannot_be_applied_are_counted_by_reason_and_change_nothing(spark, tmp_path):
    write_load(tmp_path, T, [(1, "one", 1), (None, "nobody", 0)], ITEM)
    change(tmp_path, 1, (None, 1, "a", 1), ("X", 1, "b", 1), ("T", None, None, None), ("U", None, "c", 1), ("D", None, "c", 1))
    answer = as_of(spark, open_changelog(str(tmp_path), T), ["id"])
    assert rows_of(answer, *ITEM) == [(1, "one", 1)]
    emptied = "row with Op T, at which the source's table was emptied: rows from before it are still shown"
    assert answer.left_out == {"rows without a known Op": 2, "rows without their key": 3, emptied.replace("row ", "rows ", 1): 1}
    assert f"not applied: 1 {emptied}" in answer.words and answer.words[-2:] == [
        "not applied: 2 rows without a known Op",
        "not applied: 3 rows without their key",
    ]


def test_a_table_without_a_key_is_its_inserts(spark, tmp_path):
    write_load(tmp_path, T, [(1, "one", 1), (1, "one", 1)], ITEM)
    change(tmp_path, 1, ("I", 1, "one", 1), ("U", 1, "x", 1), ("D", 1, "x", 1))
    answer = as_of(spark, open_changelog(str(tmp_path), T), [])
    assert rows_of(answer, "id", "_cdc_row") == [(1, 0), (1, 0), (1, 1)] and answer.left_out["updates and deletes of a table without a key"] == 2


def test_without_a_key_updates_and_deletes_take_one_equal_row_where_their_images_tell_it(spark, tmp_path):
    luck, there, tables, missed = random.Random(11), [(n % 2, n % 3) for n in range(6)], [], 0
    settings, shape = DmsSettings(sequence_column="seq"), {"a": "int", "b": "int", "BI_a": "int", "BI_b": "int"}
    write_load(tmp_path, T, [(*row, None, None) for row in there], shape, settings=settings)
    for number in range(1, 9):
        lines = []
        for _ in range(5):
            op, new, old = luck.choice("IUD"), (luck.randrange(2), luck.choice([0, 1, None])), (luck.randrange(2), luck.choice([0, 1, 2, None]))
            if op == "D":
                lines.append(("D", *old, None, None))
            else:
                lines.append((op, *new, *(old if op == "U" else (None, None))))
            if op != "I":
                missed += old not in there
                there = [*there[: there.index(old)], *there[there.index(old) + 1 :]] if old in there else there
            there = [*there, new] if op != "D" else there
        change(tmp_path, number, *lines, shape=shape, settings=settings)
        tables.append((Counter(there), missed))
    past = open_changelog(str(tmp_path), T, position=Position(sequence="2"))
    for file, (wanted, missed) in list(zip(past.changes, tables))[::3]:
        answer = as_of(spark, upto(past, file.path), [])
        assert Counter(rows_of(answer, "a", "b")) == wanted and answer.left_out.get("updates and deletes that met no equal row", 0) == missed
    found = {tuple(row.key.get(name) for name in "ab"): row.has_now for row in find_rows(past, [], [condition_of("b=1")])}
    assert found == {row: row in there for row in ((0, 1), (1, 1))} and notes(past, []) == past.gaps
    with pytest.raises(Refused, match="has no key, and its updates and deletes take rows that are equal"):
        feed(spark, past, [])


def test_the_sequence_orders_only_keys_of_which_every_change_has_one(spark, tmp_path):
    settings = DmsSettings(sequence_column="seq")
    write_load(tmp_path, T, [(key, "l", 0) for key in (1, 2, 3)], ITEM, settings=settings)
    for number, name, counters in ((1, "by name first", (9, None, 9)), (2, "by name last", (1, 1, None))):
        rows = [("U", key, name, number) for key in (1, 2, 3)]
        change(tmp_path, number, *rows, settings=settings, sequences=["" if n is None else f"20181215100000{n:021d}" for n in counters])
    found = rows_of(as_of(spark, open_changelog(str(tmp_path), T), ["id"]), *ITEM)
    assert found == [(1, "by name first", 1), (2, "by name last", 2), (3, "by name last", 2)]


# Moments


def minute(number: float) -> datetime:
    return datetime(2018, 12, 15, 10, tzinfo=timezone.utc) + timedelta(minutes=number)


def timed(folder, settings=DmsSettings(), **more):
    "A load at 10:00, and a file closed at 10:02 with three updates of one row, committed at 10:00:30, 10:01 and 10:01:30."
    write_load(folder, T, [(1, "load", 0)], ITEM, settings=settings, moment=minute(0), time=minute(0))
    commits = [minute(0.5), minute(1), minute(1.5)]
    write_changes(
        folder,
        T,
        [("U", 1, "first", 1), ("U", 1, "second", 2), ("U", 1, "third", 3)],
        minute(2),
        ITEM,
        settings,
        commits=commits,
        time=minute(2.1),
        **more,
    )
    return open_changelog(str(folder), T)


@pytest.mark.parametrize(
    "settings, words",
    [
        (DmsSettings(timestamp_column="ts"), "commit time of column ts"),
        (DmsSettings(sequence_column="seq"), "change sequence of column seq"),
        (DmsSettings(), "closing time of the file"),
    ],
    ids=["timestamp", "sequence", "file"],
)
def test_a_moment_is_found_by_the_best_clock_there_is_and_the_answer_names_it(spark, tmp_path, settings, words):
    past = timed(tmp_path, settings)
    rows_then = {at: table_then(past, ["id"], minute(at)) for at in (0.4, 1, 1.999, 2)}
    names = [answer.rows.column("name").to_pylist() for answer in rows_then.values()]
    assert rows_of(as_of(spark, past, ["id"], minute(1)), "name") == [(name,) for name in names[1]]  # Spark's answer too, and its words
    assert names == ([["load"], ["load"], ["load"], ["third"]] if words.startswith("closing") else [["load"], ["second"], ["third"], ["third"]])
    assert {answer.clock for answer in rows_then.values()} == {words}
    assert rows_then[0.4].position == "load 1, no changes yet" and rows_then[2].position == "load 1, changes up to 20181215-100200000.parquet"


def test_a_moment_before_the_load_is_refused_and_names_the_earliest(spark, tmp_path):
    past = timed(tmp_path, DmsSettings(timestamp_column="ts"))
    with pytest.raises(NoPast, match=r"2018-12-15 09:59:00 UTC was before load 1 \(2018-12-15 10:00:00 UTC\), the earliest available position"):
        as_of(spark, past, ["id"], minute(-1))
    with pytest.raises(ValueError, match="there is no column when; the columns are"):
        as_of(spark, past, ["id"], minute(1), time_column="when")


def test_a_landing_that_was_copied_tells_moments_from_its_first_change_on(spark, tmp_path):
    past = timed(tmp_path / "a", DmsSettings(timestamp_column="ts"))
    shutil.copytree(tmp_path / "a", tmp_path / "b", copy_function=shutil.copyfile)  # object times of today
    past = open_changelog(str(tmp_path / "b"), T)
    assert rows_of(as_of(spark, past, ["id"], minute(2)), "name") == [("third",)]
    with pytest.raises(NoPast, match="the earliest available position"):
        as_of(spark, past, ["id"], minute(1))


ANCIENT = (
    "0001-01-01 00:00:00.000000",
    "0001-01-02 23:59:59.999999",
    "0001-01-03 00:00:00.000001",
    "0300-03-01 00:00:00.000000",
    "1500-02-19 12:00:00.000000",
    "1500-02-28 12:00:00.000000",
    "1582-10-04 23:59:59.000000",
    "1582-10-10 00:00:00.000000",
    "1582-10-15 00:00:00.000000",
    "1883-11-18 12:00:00.000000",
    "1969-12-31 23:59:59.999999",
    "2018-12-15 09:00:00.000000",
)


def test_a_moment_long_ago_is_that_moment_in_every_calendar(spark, tmp_path):
    change(tmp_path, 1, *[("I", stamp, n) for n, stamp in enumerate(ANCIENT)], shape={"ts": "string", "id": "int"})
    past, told = open_changelog(str(tmp_path), T), 0
    for stamp in ANCIENT[::3]:
        answer = as_of(spark, past, ["id"], datetime.fromisoformat(stamp).replace(tzinfo=timezone.utc))
        assert answer.clock == "commit time of column ts"
        assert sorted(row.id for row in answer.rows.collect()) == [
            n for n, one in enumerate(ANCIENT) if datetime.fromisoformat(one) <= datetime.fromisoformat(stamp)
        ], stamp
        told += 1
    assert told == 4


def test_a_change_without_a_commit_time_counts_by_its_file_and_is_said(spark, tmp_path):
    timed(tmp_path, DmsSettings(timestamp_column="ts"))
    change(tmp_path, "20181215-100300000", ("U", 1, "untimed", 4), time=minute(3.1))
    past = open_changelog(str(tmp_path), T)
    before, after = as_of(spark, past, ["id"], minute(2.9)), as_of(spark, past, ["id"], minute(3))
    assert rows_of(before, "name") == [("third",)] and not before.gaps
    assert rows_of(after, "name") == [("untimed",)] and after.gaps == ("1 change without a commit time counts by the closing time of the file",)


# What lies elsewhere, and what is gone


def test_files_that_were_moved_to_an_archive_are_read_there_and_a_gap_is_said(spark, tmp_path):
    landing, archive = tmp_path / "landing", tmp_path / "archive"
    write_load(landing, T, [(1, "load", 0)], ITEM)
    change(landing, 1, ("U", 1, "one", None), ("I", 2, "two", 2))
    change(landing, 2, ("U", 2, "deux", 2))
    (archive / "shop" / "item").mkdir(parents=True)
    shutil.move(landing / "shop" / "item" / f"{closed(1)}.parquet", archive / "shop" / "item")
    there = open_changelog(str(landing), T, archive=str(archive))
    assert rows_of(as_of(spark, there, ["id"]), *ITEM) == [(1, "one", None), (2, "deux", 2)]
    write_changes(landing, T, [("U", 2, "?", 2)], closed(3), ITEM, folder="2018/12/15")
    (landing / "shop" / "item" / "20181215-110000000.csv").write_text("U,2,x,1\n")
    with pytest.raises(Refused, match="CSV without a header"):
        as_of(spark, open_changelog(str(landing), T), ["id"])
    known = options_from([("id", "int"), ("name", "string"), ("qty", "int")])
    assert rows_of(as_of(spark, open_changelog(str(landing), T, csv=known), ["id"]), "id", "name") == [(1, "load"), (2, "x")]


def test_both_zeros_are_one_key_and_so_are_all_nans(spark, tmp_path):
    shape = {"id": "double", "name": "string"}
    write_load(tmp_path, T, [(-0.0, "zero"), (float("nan"), "none"), (1.5, "other")], shape)
    change(tmp_path, 1, ("U", 0.0, "nought"), ("U", float("nan"), "no number"), shape=shape)
    past = open_changelog(str(tmp_path), T)
    assert sorted(row.name for row in as_of(spark, past, ["id"]).rows.collect()) == ["no number", "nought", "other"]
    told = feed(spark, past, ["id"], landed(upto(past, "load"))).rows.collect()
    assert sorted((row["_change_type"], row["name"]) for row in told) == [
        ("update_postimage", "no number"),
        ("update_postimage", "nought"),
        ("update_preimage", "none"),
        ("update_preimage", "zero"),
    ]


def test_versions_of_long_ago_hold_from_their_first_moment_to_their_last(spark):
    from dmscdc.scd2.update import valid_at

    spans = [(n, f"timestamp'{a}'", f"timestamp'{b}'") for n, (a, b) in enumerate(zip(ANCIENT, ANCIENT[1:]))] + [
        (len(ANCIENT) - 1, f"timestamp'{ANCIENT[-1]}'", "null")
    ]
    versions, at = (
        spark.sql(" union all ".join(f"select {n} as id, {a} as valid_from, cast({b} as timestamp) as valid_to" for n, a, b in spans)),
        lambda n: datetime.fromisoformat(ANCIENT[n]).replace(tzinfo=timezone.utc),
    )
    found = [[row.id for row in valid_at(versions, at(n)).select("id").collect()] for n in range(len(ANCIENT))]
    assert found == [[n] for n in range(len(ANCIENT))] and len(found) == 12


def test_columns_named_like_ours_or_like_markup_are_shown_as_they_are(tmp_path, spark):
    names = ("cust_no", "lag", "verdict", "[red]", "never")
    write_load(tmp_path / "landing", T, [(1, "5", "ok", "[bold]x[/]", None)], {"cust_no": "int", **{name: "string" for name in names[1:]}})
    open_state(f"sqlite:{tmp_path / 'state.db'}").put_settings(T, key="cust_no")
    words = ["as-of", str(T), "--folder", str(tmp_path), "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert [line.split() for line in done.stdout.splitlines()[:2]] == [
        [*names, "from", "file", "its", "row"],
        ["1", "5", "ok", "[bold]x[/]", "null", "LOAD00000001.parquet#1", "1"],
    ]


def test_conditions_choose_the_same_rows_in_arrow_and_spark(spark):
    day, moment = date(2018, 12, 15), datetime(2018, 12, 15, 10, 30, tzinfo=timezone.utc)
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3, 4], pa.int16()),
            "price": pa.array([Decimal("9.50"), Decimal("10.00"), None, Decimal("-1.25")], pa.decimal128(10, 2)),
            "name": ["Sample", "b'c", None, "100%"],
            "born": pa.array([day, None, day + timedelta(1), day]),
            "seen": pa.array([moment, None, moment + timedelta(0, 1), moment], pa.timestamp("us", "UTC")),
            "part": [0.5, -0.0, None, 1e300],
            "on": [True, None, False, True],
        }
    )
    frame, expected = (
        spark.createDataFrame(rows),
        {
            "price >= 9.5": [1, 2],
            "price != 10": [1, 4],
            "price = null": [3],
            "price < 0": [4],
            "id > 3": [4],
            "id = 99999": [],
            "id != 99999": [1, 2, 3, 4],
            "name = S%": [1],
            "name != S%": [2, 4],
            "name = '100%'": [4],
            "name = b'c": [2],
            "name > a": [2],
            "born = 2018-12-15": [1, 4],
            "born > 2018-12-15": [3],
            "seen <= 2018-12-15T10:30:00": [1, 4],
            "part = 0": [2],
            "part > 0.4": [1, 4],
            "on = true": [1, 4],
            "on != null": [1, 3, 4],
        },
    )
    for text, ids in expected.items():
        arrow, by_spark = (rows_where(given, [condition_of(text)]) for given in (rows, frame))
        assert arrow["id"].to_pylist() == sorted(row["id"] for row in by_spark.collect()) == ids, text
    for text in ("id < 99999", "born = noon", "size = 1"):
        for given in (rows, frame):
            with pytest.raises(BadKey):
                rows_where(given, [condition_of(text)])
