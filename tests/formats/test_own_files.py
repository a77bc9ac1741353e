"What holds of tables of Delta and Iceberg that our own tasks write: other programs read, skip and write them as they do the format's own."

from __future__ import annotations

import errno
import json
import operator
import os
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import readers
from dmscdc.doctor.diagnosis import left_to_format
from dmscdc.lake.open import FormatLog
from dmscdc.service.config import read_config
from tiers import sampled
from world import World, replay

pytestmark = pytest.mark.proof

COLUMNS = {"id": "int", "name": "string", "region": "string"}
ROWS = [(n, f"name {n}", "north" if n % 2 else "süd") for n in range(1, 7)]
TYPES = {
    "id": "bigint",
    "small": "smallint",
    "whole": "int",
    "real": "float",
    "exact": "double",
    "price": "decimal(20,4)",
    "yes": "boolean",
    "text": "string",
    "day": "date",
    "at": "timestamp",
    "raw": "binary",
}
VALUES = [
    (
        1,
        -5,
        -(2**31),
        -1.5,
        float("nan"),
        Decimal("-1234567890123456.7891"),
        True,
        "",
        date(1, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc),
        b"\x00",
    ),
    (
        2,
        7,
        0,
        2.5,
        1e300,
        Decimal("0.0001"),
        False,
        "x" * 31 + "\U0001f600 and more",
        date(2026, 2, 28),
        datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=timezone.utc),
        b"\xff" * 40,
    ),
    (3, *[None] * 10),
    (
        4,
        32767,
        2**31 - 1,
        float("inf"),
        -0.0,
        Decimal("9999999999999999.9999"),
        True,
        "\uffff" * 40,
        date(9999, 12, 31),
        datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=timezone.utc),
        b"",
    ),
]
PREDICATES = [  # each must find the same rows whether files are skipped or not
    "small > 6",
    "small is null",
    "whole = 2147483647",
    "whole < 0",
    "real > 2",
    "isnan(exact)",
    "exact > 1e299",
    "exact = 0",
    "price = 9999999999999999.9999BD",
    "price < -1234567890123456.7890BD",
    "yes",
    "not yes",
    "text = ''",
    "text like 'xxx%'",
    "text > repeat('\uffff', 39)",
    "text >= 'y'",
    "day = date'0001-01-01'",
    "day > date'9999-12-30'",
    "at > timestamp'2026-01-02 03:04:05.678950Z'",
    "at = timestamp'2026-01-02 03:04:05.678901Z'",
    "at < timestamp'1970-01-01 00:00:00Z'",
    "raw = X'00'",
    "_cdc_row >= 2",
    "Op = 'U'",
    "id in (2, 4)",
]


def world(tmp_path, spark, columns=COLUMNS, **settings) -> World:
    return World(tmp_path, spark, columns).set(**{"key": "id", **settings})


def log(world: World) -> list[list[dict]]:
    "The steps of each version of a Delta table."
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in sorted(world.folder.glob("_delta_log/*.json"))]


def engines(world: World) -> list[str]:
    "Who made each commit: dmscdc, or Spark."
    if readers.FORMAT == "delta":
        told = [next(step["commitInfo"] for step in steps if "commitInfo" in step)["engineInfo"] for steps in log(world)]
    else:
        told = [one["summary"].get("engine-name", "dmscdc") for one in world.lake_table.newest_metadata()[1]["snapshots"]]
    return ["dmscdc" if one.startswith("dmscdc") else "Spark" for one in told]


def in_spark(world: World) -> str:
    "The table's name in the session, as another program has it."
    return f"delta.`{world.folder}`" if readers.FORMAT == "delta" else world.lake_table._named(world.spark)


def rows(found) -> list[tuple]:
    return sorted((row["id"], row["name"], row["region"]) for row in found)


def wanted(world: World) -> list[tuple]:
    return rows(replay(world.raw, ["id"]).values())


def by_spark(world: World) -> list[tuple]:
    return rows(row.asDict() for row in world.lake_table.read(world.spark).collect())


def by_other(world: World) -> list[tuple]:
    "The rows as deltalake, or pyiceberg, finds them."
    return rows(getattr(readers, readers.FORMAT)(world.folder).to_pylist())


def by_all(world: World) -> list[list[tuple]]:
    return [by_spark(world), by_other(world)]


def test_a_load_and_its_changes_are_our_files_and_equal_the_source_for_every_reader(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "zwei", "süd"), ("D", 3, None, None), ("I", 9, "neun", "ost")])
    assert here.go().verdict == "ok" and engines(here) == ["dmscdc", "dmscdc"] and by_all(here) == [wanted(here)] * 2


def test_columns_that_come_later_are_null_in_files_that_no_change_touched(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS[:2])
    here.go()
    more = {**COLUMNS, "note": "string"}
    here.changes(1, [("I", 9, "neun", "ost", "new")], more)
    assert here.go().verdict == "ok" and engines(here)[-1] == "dmscdc"
    found = {row["id"]: row["note"] for row in here.lake_table.read(spark).collect()}
    assert found == {1: None, 2: None, 9: "new"} == {row["id"]: row["note"] for row in getattr(readers, readers.FORMAT)(here.folder).to_pylist()}


@pytest.mark.compiled
def test_no_reader_that_skips_files_by_their_bounds_misses_a_row(tmp_path, spark):
    here = world(tmp_path, spark, TYPES).load(VALUES[:3])
    here.go()
    here.changes(1, [("I", *VALUES[3]), ("U", *VALUES[1])])
    assert here.go().verdict == "ok" and engines(here) == ["dmscdc", "dmscdc"]
    frame = spark.table(in_spark(here)) if readers.FORMAT == "iceberg" else spark.read.format("delta").load(str(here.folder))
    kept = frame.localCheckpoint()  # in memory: nothing can be skipped
    for predicate in PREDICATES:
        ids = [sorted(row["id"] for row in one.where(predicate).select("id").collect()) for one in (frame, kept)]
        assert ids[0] == ids[1], predicate


SIGNS = {"=": operator.eq, ">=": operator.ge, ">": operator.gt}
AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "kind, values",
    [
        ("date", (date(1, 1, 1), date(2026, 2, 28), date(9999, 12, 31))),
        ("timestamp", (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc), AT)),
        ("decimal(20,0)", (Decimal(-(2**53) - 1), Decimal(10**20 - 1))),
        ("string", ("", "x" * 31 + "\U0001f600 and more", "\U0010ffff" * 40)),
        ("string", ("a", "\ud7ff" * 20)),  # before the surrogates
    ],
    ids=["date", "timestamp", "decimal", "string", "surrogate"],
)
def test_a_row_is_found_again_by_a_key_of_any_kind(tmp_path, spark, kind, values):
    here = World(tmp_path, spark, {"k": kind, "copy": kind, "v": "string"}).set(key="k").load([(one, one, "old") for one in values])
    assert (done := here.go()).verdict == "ok", done.words
    for close in (1, 2):
        here.changes(close, [("U", one, one, f"new {close}") for one in values])
        assert (done := here.go()).verdict == "ok" and done.rows["updated"] == len(values), done.words
    assert engines(here) == ["dmscdc"] * 3
    literal = lambda value: F.expr(f"date'{value}'") if kind == "date" else F.lit(value)
    text = lambda name: f"unix_micros({name})" if kind == "timestamp" else name
    frame = spark.table(in_spark(here)) if readers.FORMAT == "iceberg" else spark.read.format("delta").load(str(here.folder))
    kept = frame.localCheckpoint()
    assert sorted(tuple(row) for row in kept.selectExpr(text("k"), text("copy"), "v").collect()) == sorted(
        (*[(one - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1) if kind == "timestamp" else one] * 2, "new 2")
        for one in values
    )
    for name in ("k", "copy"):
        for sign in SIGNS:
            for value in values:  # none is missed by a reader that skips files
                found = [one.where(SIGNS[sign](one[name], literal(value))).count() for one in (frame, kept)]
                assert found[0] == found[1], f"{name} {sign} {value!r}"


def test_days_and_times_that_python_does_not_know_keep_no_table_from_its_loads(tmp_path, spark):
    far = {"day": 2_932_897, "at": 253_402_300_800_000_000}  # 10000-01-01
    here = World(tmp_path, spark, {"id": "int", "day": "date", "at": "timestamp"}).set(key="id")

    def put(name: str, op: str, *rows: tuple[int, int, int]) -> None:
        ids, days, times = zip(*rows)
        here.raw.mkdir(parents=True, exist_ok=True)
        columns = {
            "Op": [op] * len(rows),
            "id": pa.array(ids, pa.int32()),
            "day": pa.array(days, pa.int32()).cast(pa.date32()),
            "at": pa.array(times, pa.int64()).cast(pa.timestamp("us")),
        }
        pq.write_table(pa.table(columns), here.raw / f"{name}.parquet")

    put("LOAD00000001", "I", (1, 0, 0), (2, far["day"], far["at"]), (3, -719_163, -62_135_596_800_000_001))  # the last is before year 1
    assert (done := here.go()).verdict == "ok", done.words
    put("20260101-000000001", "U", (1, far["day"], 5), (2, 7, far["at"] + 1))
    assert (done := here.go()).verdict == "ok" and done.rows["updated"] == 2, done.words
    frame = spark.table(in_spark(here)) if readers.FORMAT == "iceberg" else spark.read.format("delta").load(str(here.folder))
    wanted = [(1, far["day"], 5), (2, 7, far["at"] + 1), (3, -719_163, -62_135_596_800_000_001)]
    shown = lambda found: sorted(tuple(row) for row in found.selectExpr("id", "unix_date(day)", "unix_micros(at)").collect())
    assert shown(frame) == wanted and engines(here) == ["dmscdc"] * 2
    for asked, ids in {"unix_date(day) > 2932896": [1], "id = 2": [2], "at < timestamp'1000-01-01'": [3]}.items():
        assert [row[0] for row in shown(frame.where(asked))] == ids, asked


@pytest.mark.parametrize("columns", [("größe",), ("day", "whole", "price"), ("at", "yes")], ids="+".join)
def test_a_table_in_partitions_is_written_by_our_tasks_and_its_rows_move_between_them(tmp_path, spark, columns):
    kinds = {
        "id": "int",
        "name": "string",
        "größe": "string",
        "day": "date",
        "whole": "int",
        "price": "decimal(8,2)",
        "at": "timestamp",
        "yes": "boolean",
    }
    at = lambda n: datetime(2026, 1, 2, 3, 4, 5, n, tzinfo=timezone.utc)
    odd = ["a/b=c %20+", "süd", None, "null"] if readers.FORMAT == "delta" else ["a/b=c %20+", "süd", None, "null", ""]
    row = lambda n, k: (
        n,
        f"name {n}.{k}",
        odd[(n + k) % len(odd)],
        date(1 + 3 * ((n + k) % 3), 2, 3),
        (n + k) % 3 - 1,
        Decimal((n + k) % 3) / 4,
        at((n + k) % 3),
        [True, False, None][(n + k) % 3],
    )
    here = World(tmp_path, spark, kinds).set(key="id", partition=columns).load([row(n, 0) for n in range(12)])
    assert here.go().verdict == "ok"
    here.changes(1, [*(("U", *row(n, 1)) for n in range(0, 9, 2)), ("D", 1, *[None] * 7), ("I", *row(20, 5))])
    here.changes(2, [("U", *row(0, 0)), ("I", *row(21, 2))])
    assert (done := here.go()).verdict == "ok", done.words
    here.changes(3, [("U", *row(20, 6)), ("D", 3, *[None] * 7)])
    assert (done := here.go()).verdict == "ok" and done.rows["updated"] == 1, done.words
    assert engines(here)[1:] == ["dmscdc", "dmscdc"]
    names = list(kinds)
    wanted = sorted(tuple(one[name] for name in names) for one in replay(here.raw, ["id"]).values())
    spoken = 'id, name, größe, day, whole, price, epoch_us("at"), yes'
    assert here.lake(spoken) == wanted
    frame = spark.table(in_spark(here)) if readers.FORMAT == "iceberg" else spark.read.format("delta").load(str(here.folder))
    shown = lambda found: sorted(
        map(tuple, found.selectExpr("id", "name", "`größe`", "day", "whole", "price", "unix_micros(at) at", "yes").collect())
    )
    assert shown(frame) == wanted
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")  # a partition's time is an instant, whoever reads it
    try:
        assert shown(spark.table(in_spark(here)) if readers.FORMAT == "iceberg" else spark.read.format("delta").load(str(here.folder))) == wanted
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for name in columns:  # Iceberg finds null too for `yes = false`, in tables of its own as well
        for value in {row[names.index(name)] for row in wanted}:
            asked = (
                f"`{name}` is null"
                if value is None
                else f"unix_micros({name}) = {value}"
                if name == "at"
                else f"{name} <=> {value!r}"
                if name in ("whole", "yes")
                else f"cast(`{name}` as string) = '{value}'"
            )
            assert sorted(one["id"] for one in frame.where(asked).collect()) == [row[0] for row in wanted if row[names.index(name)] == value], asked
    spark.sql(f"update {in_spark(here)} set name = concat(name, '!') where id = 20").collect()
    assert [one for one in here.lake("name") if one[0].endswith("!")] == [("name 20.6!",)]


@pytest.mark.parametrize(
    "theirs",
    sampled(
        ["update {} set name = 'theirs' where id = 2", "insert into {} select * from {} where id = 3", "update {} set name = 'theirs' where id = 5"],
        "update {} set name = 'theirs' where id = 2",
    ),
)
def test_a_writer_that_is_late_is_refused_and_leaves_nothing(tmp_path, spark, monkeypatch, theirs):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "ours", "west")])
    sql, commit = theirs.replace("{}", in_spark(here)), FormatLog.commit

    def after_theirs(log, *what):
        spark.sql(sql).collect()
        return commit(log, *what)

    monkeypatch.setattr(FormatLog, "commit", after_theirs)
    done = here.go()
    assert done.verdict == "failed" and "another program wrote a version meanwhile" in done.words and engines(here)[-1] == "Spark"
    assert not [path for path in here.folder.rglob("*.parquet") if path.name.startswith(f"{2:012d}-")]


def test_a_column_of_another_program_keeps_its_values(tmp_path, spark):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    spark.sql(f"alter table {in_spark(here)} add column theirs string")
    spark.sql(f"update {in_spark(here)} set theirs = 'kept'")
    here.changes(1, [("U", 2, "zwei", "süd"), ("I", 9, "neun", "ost")])
    here.go()
    found = {row["id"]: row["theirs"] for row in spark.sql(f"select * from {in_spark(here)}").collect()}
    assert found == {**{n: "kept" for n in range(1, 7)}, 9: None} and engines(here)[-1] == "Spark"


def test_tables_whose_names_are_addresses_of_each_other_are_two(tmp_path, spark):
    here = [
        World(tmp_path, spark, COLUMNS, table=f"shop.{name}").set(key="id").load([(1, name, "west"), (3, name, "ost")])
        for name in ("a b", "a%20b", "a%2520b", "a#b?")
    ]
    for one in here:
        one.go()
    for one in here:
        assert (
            one.changes(1, [("U", 1, f"new {one.table}", "west"), ("I", 2, f"also {one.table}", "west"), ("D", 3, None, None)]).go().verdict == "ok"
        )
    assert [by_spark(one) for one in here] == [wanted(one) for one in here]
    assert {one.table: engines(one)[-1] for one in here if readers.FORMAT == "iceberg" or "%" not in one.table} == {
        one.table: "dmscdc" for one in here if readers.FORMAT == "iceberg" or "%" not in one.table
    }


def test_what_a_dead_attempt_has_written_is_removed_by_the_next(tmp_path, spark, monkeypatch):
    here = world(tmp_path, spark).load(ROWS)
    here.go()
    here.changes(1, [("U", 2, "zwei", "süd")])

    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(FormatLog, "commit", killed)
        with pytest.raises(Killed):
            here.go()
    left = set(here.folder.rglob(f"{2:012d}-*.parquet"))
    assert left and here.go().verdict == "ok" and by_all(here) == [wanted(here)] * 2
    assert not left & set(here.folder.rglob("*.parquet"))


def without_links(patch):
    def link(*_, **__):
        raise OSError(errno.EPERM, "no hard links")

    patch.setattr(os, "link", link)


@pytest.mark.parametrize(
    "lacks",
    [without_links, lambda patch: [patch.setitem(sys.modules, name, None) for name in ("deltalake", "pyiceberg", "pyiceberg.table.metadata")]],
    ids=["hard links", "pip install"],
)
def test_where_we_cannot_write_the_format_does_and_it_is_said(tmp_path, spark, monkeypatch, lacks, request):
    here, done, findings = world(tmp_path, spark).load(ROWS), [], []
    for write in (lambda: None, lambda: here.changes(1, [("U", 2, "zwei", "süd"), ("D", 3, None, None), ("I", 9, "neun", "ost")])):
        write()
        with monkeypatch.context() as patch:
            lacks(patch)
            done.append(here.go())
            config = read_config(tmp_path, landing=str(here.landing), lake=str(tmp_path / "lake"), state=f"sqlite:{tmp_path / 'state.db'}")
            findings = [one.what for one in left_to_format(config, [here.state.get(here.ref)])]
    assert [one.verdict for one in done] == ["ok", "ok"] and engines(here)[-1] == "Spark" and by_all(here) == [wanted(here)] * 2
    assert f"{readers.FORMAT} itself writes its changes: " in findings[0] and all(
        word in words for word in request.node.callspec.id.split() for words in (findings[0], done[1].words)
    )
    here.changes(2, [("U", 1, "eins", "ost")])
    assert here.go().verdict == "ok" and engines(here)[-1] == "dmscdc" and by_all(here) == [wanted(here)] * 2 and not here.lake_table.left_because()
