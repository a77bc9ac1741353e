"Every value of every type of DMS survives the initial load, an insert and the rewriting of its file, for every reader."

from __future__ import annotations

import json
import struct
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dmscdc.capture.writer import DmsSettings
from world import World, closed, raw_rows, replay

pytestmark = pytest.mark.test

SCHEMA = {
    "id": "int",
    "flag": "boolean",
    "i1": "tinyint",
    "i2": "smallint",
    "i8": "bigint",
    "u1": "uint1",
    "u2": "uint2",
    "u4": "uint4",
    "u8": "uint8",
    "f": "float",
    "g": "double",
    "s": "string",
    "b": "binary",
    "day": "date",
    "clock": "time",
    "moment": "timestamp",
    "d5": "decimal(5,0)",
    "d38": "decimal(38,10)",
}
LOW = (
    False,
    -128,
    -(2**15),
    -(2**63),
    0,
    0,
    0,
    0,
    -0.5,
    5e-324,
    "",
    b"",
    "0001-01-01",
    "00:00:00",
    "0001-01-01 00:00:00",
    "-99999",
    "-9999999999999999999999999999.9999999999",
)
HIGH = (
    True,
    127,
    2**15 - 1,
    2**63 - 1,
    255,
    65535,
    2**32 - 1,
    2**64 - 1,
    1.5,
    1.7976931348623157e308,
    '“ü” 😀,\n"x"',
    b"\x00\xff",
    "9999-12-31",
    "23:59:59.999",
    "9999-12-31 23:59:59.999999",
    "99999",
    "9999999999999999999999999999.9999999999",
)
OLD = (True, 0, 0, 0, 1, 1, 1, 1, 0.25, 0.1, "NULL", b"a", "1582-10-10", "12:30:00", "1899-12-30 11:22:33.123456", "0", "0.0000000001")
NULL = (None,) * 17
TEXT = ", ".join({"moment": "epoch_us(moment)", "clock": "clock::varchar", "u8": "u8::varchar", "b": "hex(b)"}.get(n, n) for n in SCHEMA)


def micros(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)


def expected(key: int, row: tuple) -> tuple:
    "The row as written in this file, in the words of the reader."
    if row is NULL:
        return (key, *row)
    clock = row[13] if "." in row[13] else row[13] + ".000"
    return (
        key,
        *row[:7],
        str(row[7]),
        *row[8:11],
        row[11].hex().upper(),
        date.fromisoformat(row[12]),
        clock,
        micros(row[14]),
        Decimal(row[15]),
        Decimal(row[16]),
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory, spark, way):
    "Rows 1 to 4 loaded, 5 to 8 inserted, 9 there to make the first file be rewritten."
    w = World(tmp_path_factory.mktemp("values"), spark, SCHEMA).set(key="id")
    rows = [(i, *row) for i, row in enumerate((LOW, HIGH, OLD, NULL), 1)]
    w.load([*rows, (9, *OLD)])
    assert w.go().verdict == "ok"
    assert w.lake(TEXT) == [expected(*r) for r in ((1, LOW), (2, HIGH), (3, OLD), (4, NULL), (9, OLD))]
    w.changes(1, [("I", i + 4, *row) for i, *row in rows] + [("U", 9, *HIGH)], settings=DmsSettings(row_group_length=3))
    done = w.go()
    assert (done.verdict, done.lake["files_rewritten"], done.rows["inserted"], done.rows["updated"]) == ("ok", 1, 4, 1)
    return w


def test_values_survive_load_insert_and_rewrite(world):
    rows = ((1, LOW), (2, HIGH), (3, OLD), (4, NULL), (5, LOW), (6, HIGH), (7, OLD), (8, NULL), (9, HIGH))
    assert world.lake(TEXT) == [expected(*r) for r in rows]


def test_a_batch_of_the_same_values_changes_no_row(world):
    world.changes(2, [("U", 9, *HIGH)])
    first = world.go()
    assert (first.rows["updated"], first.rows["unchanged"], first.lake["files_rewritten"]) == (0, 1, 1)  # the row now comes from another file
    rows, files = world.lake(TEXT), world.files()
    world.state.instruct(world.ref, {"kind": "replay", "files": ["20181215-100002000.parquet"]})
    again = world.go()
    assert (
        (again.rows["updated"], again.rows["unchanged"], again.lake["files_rewritten"]) == (0, 1, 0)
        and world.files() == files
        and world.lake(TEXT) == rows
    )


def test_every_row_of_the_lake_points_to_the_raw_row_with_its_values(world):
    table = replay(world.raw, ("id",))
    assert world.lake("id, Op, _cdc_file, _cdc_row") == [(k, r["Op"], r["_cdc_file"], r["_cdc_row"]) for (k,), r in sorted(table.items())]
    for *values, file, row in world.lake("id, s, d38, b, i8, f, day, _cdc_file, _cdc_row"):
        raw = raw_rows(world.raw / file.split("#")[0])[row]
        assert values == [raw[n] for n in ("id", "s", "d38", "b", "i8", "f", "day")]


def test_spark_and_arrow_read_the_folder_as_duckdb_does(world, spark):
    plain = spark.read.parquet(str(world.folder))
    assert [dict(plain.dtypes)[n] for n in ("Op", "flag", "u1", "u4", "u8", "b", "day", "clock", "moment", "d5", "_cdc_row")] == [
        "string",
        "boolean",
        "smallint",
        "bigint",
        "decimal(20,0)",
        "binary",
        "date",
        "string",
        "timestamp",
        "decimal(5,0)",
        "bigint",
    ]
    spark_rows = plain.selectExpr(*[{"moment": "unix_micros(moment)", "u8": "string(u8)", "b": "hex(b)"}.get(n, n) for n in SCHEMA]).collect()
    assert sorted((tuple(r) for r in spark_rows), key=lambda r: r[0]) == world.lake(TEXT)
    arrow = ds.dataset(str(world.folder), format="parquet", partitioning="hive").to_table(columns=["id", "s", "day", "d38", "b"]).to_pylist()
    assert sorted((tuple(r.values()) for r in arrow), key=lambda r: r[0]) == [
        (i, s, day, d, None if b is None else bytes(b)) for i, s, day, d, b in world.lake("id, s, day, d38, b")
    ]


def test_every_file_says_which_spark_it_is_like_so_that_old_days_are_read_as_they_are(world, spark):
    "Spark 3 refuses a day before 1582 in a file that does not say so."
    kept = [pq.read_metadata(world.folder / name).metadata for name in world.files()]
    assert kept and {found[b"org.apache.spark.version"].decode() for found in kept} == {spark.version}
    types = dict(spark.read.parquet(str(world.folder)).dtypes)
    for found in kept:
        fields = json.loads(found[b"org.apache.spark.sql.parquet.row.metadata"])["fields"]
        assert {"id", "day", "_cdc_row"} <= {field["name"] for field in fields} <= set(types)


def test_timestamps_in_milliseconds_keep_their_moment(tmp_path, spark):
    w = World(tmp_path, spark, {"id": "int", "moment": "timestamp"}).set(key="id")
    moments = ["0001-01-01 00:00:00", "1899-12-30 00:00:00.001", "9999-12-31 23:59:59.999"]
    coarse = DmsSettings(parquet_timestamp_in_millisecond=True)
    w.load([(i, m) for i, m in enumerate(moments)], settings=coarse).changes(1, [("I", i + 3, m) for i, m in enumerate(moments)], settings=coarse)
    assert w.go().verdict == "ok" and w.lake("id, epoch_us(moment)") == [(i, micros(moments[i % 3])) for i in range(6)]


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("partition", [(), ("site",)], ids=["plain", "partitioned"])
def test_keys_of_floating_point_are_one_key_where_they_are_equal(tmp_path, spark, kind, partition):
    w = World(tmp_path, spark, {"k": kind, "id": "int", "site": "string", "name": "string"}).set(key="k,id", partition=partition)
    nan, other = float("nan"), struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    twice = [(0.0, 1, "a", "x"), (-0.0, 1, "a", "y")]
    w.load(twice)
    assert (done := w.go()).verdict == "refused" and "stands in 2 rows of the load" in done.words
    w.gone("LOAD00000001").load([(0.0, 1, "a", "old"), (-0.0, 2, "a", "old"), (nan, 3, "a", "old"), (1.5, 4, "a", "stays"), (-0.0, 5, "a", "old")])
    w.changes(
        1,
        [
            ("U", -0.0, 1, "a", "x"),
            ("U", 0.0, 1, "b", "new"),
            ("U", 0.0, 2, "a", "new"),
            ("U", other, 3, "a", "new"),
            ("I", -0.0, 9, "a", "x"),
            ("U", 0.0, 9, "a", "new"),
            ("D", 0.0, 5, "a", None),
        ],
    )
    done = w.go()
    assert (done.verdict, done.rows["inserted"], done.rows["updated"], done.rows["deleted"]) == ("ok", 5 + 1, 3, 1)
    assert w.lake("id, abs(k)::varchar, name") == [(1, "0.0", "new"), (2, "0.0", "new"), (3, "nan", "new"), (4, "1.5", "stays"), (9, "0.0", "new")]
    w.changes(2, [("D", -0.0, 1, "b", None), ("D", -0.0, 9, "a", None), ("U", nan, 3, "c", "newer")])
    done = w.go()
    assert (done.verdict, done.rows["updated"], done.rows["deleted"]) == ("ok", 1, 2) and w.lake("id, name") == [
        (2, "new"),
        (3, "newer"),
        (4, "stays"),
    ]


def test_columns_that_a_writer_kept_as_dictionaries_hold_their_values(tmp_path, spark, way):
    "The Arrow schema in the footer says dictionary: in the load, in changes, as key and as Op."
    w = World(tmp_path, spark, {"id": "string", "name": "string", "size": "bigint"}).set(key="id")
    rows = {
        "LOAD00000001": [("a", "red", 1), ("b", "green", 2), ("c", None, 3)],
        f"{closed(1)}": [("U", "b", "blue", 2), ("I", "d", "blue", 4), ("D", "a", "red", 1)],
    }
    for name, values in rows.items():
        names = ["Op", "id", "name", "size"][-len(values[0]) :]
        columns = [pa.array(column).dictionary_encode() for column in zip(*values)]
        w.raw.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_arrays(columns, names), w.raw / f"{name}.parquet")
        kept = {field.name for field in pq.read_schema(w.raw / f"{name}.parquet") if pa.types.is_dictionary(field.type)}
        assert kept == {*names} - {"size"}, "pyarrow keeps texts so, and no numbers"
        assert w.go().verdict == "ok"
    assert w.lake("id, name, size") == [("b", "blue", 2), ("c", None, 3), ("d", "blue", 4)]
