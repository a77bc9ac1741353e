"CSV files of DMS, from the landing to every question. The oracle is a dictionary that the test itself changes while it writes the files."

from __future__ import annotations

import csv
import gzip
import io
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dmscdc.changes.options import options_from
from dmscdc.changes.rewrite import rewrite_files
from dmscdc.history.as_of import as_of
from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.small import table_then
from dmscdc.history.span import landed
from engines import feed
from seeds import seed_of
from ways import way  # noqa: F401
from world import World, closed

pytestmark = pytest.mark.test

PRODUCT = {"id": "int", "name": "string", "price": "decimal(10,2)"}
COLUMNS = [*PRODUCT.items()]


def put(world: World, name: str, text: str | bytes) -> None:
    "A file as DMS would write it, byte for byte."
    path = world.raw / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def product(spark, tmp_path: Path, **settings: Any) -> World:
    return World(tmp_path, spark, PRODUCT).set(**{"key": "id", "columns": COLUMNS, **settings})


def test_default_files_without_header_and_types(spark, tmp_path):
    world = product(spark, tmp_path)
    put(world, "LOAD00000001.csv", '1001,"Fire 7, ""new""",39.00\n1002,Fire HD 8,\n1003,"two\nlines",119.00\n')
    put(world, f"{closed(1)}.csv", 'U,1001,México,39.50\nD,1002,,\nI,1004,"",0.10\n')
    assert world.go().verdict == "ok"
    assert world.lake("id, name, price, Op, _cdc_file, _cdc_row") == [
        (1001, "México", Decimal("39.50"), "U", f"{closed(1)}.csv", 0),
        (1003, "two\nlines", Decimal("119.00"), "I", "LOAD00000001.csv#1", 2),
        (1004, "", Decimal("0.10"), "I", f"{closed(1)}.csv", 2),
    ]
    assert world.settled() and world.idle().verdict == "nothing"


def test_the_order_of_rows_in_a_file_decides(spark, tmp_path):
    world = product(spark, tmp_path)
    put(world, "LOAD00000001.csv", "1,a,1.00\n")
    put(world, f"{closed(1)}.csv", "".join(f"U,1,v{n},{n}.00\n" for n in range(500)) + "D,1,,\nI,1,last,7.00\n")
    world.go()
    assert world.lake("id, name, price, _cdc_row") == [(1, "last", Decimal("7.00"), 501)]


@pytest.mark.parametrize("what", ["header", "gzip", "delimiter", "timestamp", "sequence", "stamped load", "op in load", "mark", "crlf", "raw"])
def test_every_way_to_write_the_same_rows(spark, tmp_path, what):
    load, changes = [["1", "a,b", "1.50"], ["2", "c", "2.00"]], [["U", "1", "A;B", "1.75"], ["D", "2", "", ""], ["I", "3", "d", ""]]
    settings, suffix, mark, end, header = {}, "csv", "", "\n", None
    delimiter, quoting = ",", csv.QUOTE_MINIMAL
    if what == "header":
        header = ["id", "name", "price"]
    if what == "gzip":
        suffix = "csv.gz"
    if what == "delimiter":
        delimiter, settings = ";", {"csv": {"delimiter": ";"}}
    if what in ("timestamp", "sequence"):
        changes = [[op, "2018-12-15 10:02:11.000000", *row] for op, *row in changes]
    if what == "sequence":
        changes = [[*row, f"2018121510021100{n:019d}"] for n, row in enumerate(changes)]
    if what == "stamped load":
        load = [["I", f"2018-12-15 09:02:11.00000{n}", *row] for n, row in enumerate(load)]
    if what == "op in load":
        load = [["I", *row] for row in load]
    if what == "mark":
        mark = "\ufeff"
    if what == "crlf":
        end = "\r\n"
    if what == "raw":
        delimiter, quoting, settings = "\t", csv.QUOTE_NONE, {"csv": {"delimiter": "\t", "quote": ""}}
    world = product(spark, tmp_path, **settings)

    def text(rows: Iterable[Sequence[str]], names: list[str] | None) -> bytes:
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows([*([names] if names else []), *rows])
        data = (mark + out.getvalue()).encode()
        return gzip.compress(data) if suffix.endswith("gz") else data

    put(world, f"LOAD00000001.{suffix}", text(load, header))
    put(world, f"{closed(1)}.{suffix}", text(changes, header and ["Op", *header]))
    assert world.go().verdict == "ok"
    assert world.lake("id, name, price") == [(1, "A;B", Decimal("1.75")), (3, "d", None)]
    columns = [c.name for c in world.lake_table.head().schema]
    assert (
        columns == [*PRODUCT, *{"timestamp": ["dms_timestamp"], "sequence": ["dms_timestamp", "AR_H_CHANGE_SEQ"]}.get(what, [])]
        or what == "stamped load"
    )


def test_a_header_names_columns_and_without_a_definition_all_are_text(spark, tmp_path):
    world = World(tmp_path, spark, {}).set(key="id")
    put(world, f"{closed(1)}.csv", "Op,id,price\nI,007,39.00\nI,8,\n")
    assert world.go().verdict == "ok"
    assert world.lake("id, price") == [("007", "39.00"), ("8", None)]


@pytest.mark.parametrize(
    "text, words",
    [
        ("1,a,1.00,x,y\n", "a row of LOAD00000001.csv has 5 fields; the table's definition has 3 columns (id, name, price)"),
        ("1,a,cheap\n2,b,1.00\n3,c,1.00\n", "row 1 (line 1) of LOAD00000001.csv cannot be read: column price: cheap is not a valid decimal(10,2)"),
        ("1,a,1.00\n2,b\n", "row 2 (line 2) of LOAD00000001.csv cannot be read: 2 fields, where 3 were expected"),
        ('1,"a,1.00\n', "an odd number"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name_and_nothing_moves(spark, tmp_path, text, words):
    world = product(spark, tmp_path)
    put(world, "LOAD00000001.csv", text)
    found = world.go()
    assert found.verdict == "refused" and words in found.words and world.files() == []
    put(world, "LOAD00000001.csv", "1,a,1.00\n")
    assert world.go().verdict == "ok" and world.lake("id") == [(1,)]


def test_without_a_definition_the_command_is_named(spark, tmp_path):
    world = product(spark, tmp_path, columns=[])
    put(world, "LOAD00000001.csv", "1,a,1.00\n")
    found = world.go()
    assert found.verdict == "refused" and "dmscdc table columns shop.item --ddl FILE" in found.words


def test_a_commit_keeps_how_it_read_and_a_state_that_is_lost_needs_no_definition(spark, tmp_path):
    world = product(spark, tmp_path, csv={"delimiter": ";"})
    put(world, "LOAD00000001.csv", "1;a;1.00\n")
    world.go()
    world.state.remove(world.ref)
    world.set(key="id")
    put(world, f"{closed(1)}.csv", "U;1;b;2.00\n")
    assert world.go().verdict == "ok" and world.lake("id, name") == [(1, "b")]


def told(rows: list[dict], *names: str) -> list[tuple]:
    return sorted(tuple(row[name] for name in names) for row in rows)


def test_random_changes_in_csv_and_every_question_about_them(spark, way, tmp_path):
    draw, world = random.Random(seed_of("CSV_SEED")), product(spark, tmp_path, partition="name")
    table: dict[int, tuple[str, Decimal | None]] = {n: (draw.choice("abc"), Decimal(n)) for n in range(20)}
    line = lambda *cells: ",".join("" if c is None else str(c) for c in cells) + "\n"
    put(world, "LOAD00000001.csv", "".join(line(n, name, price) for n, (name, price) in table.items()))
    after = []
    for number in range(1, 6):
        text = ""
        for _ in range(draw.randint(1, 30)):
            key, name, price = draw.randrange(30), draw.choice("abcd"), draw.choice([None, Decimal(draw.randrange(10000)) / 100])
            if key in table and draw.random() < 0.3:
                del table[key]
                text += line("D", key, None, None)
            else:
                text += line("U" if key in table else "I", key, name, price)
                table[key] = name, price
        put(world, f"{closed(number)}.csv", text)
        after.append(dict(table))
        if number in (2, 3):
            world.go()
    assert world.go().verdict == "ok"
    assert world.lake("id, name, price") == sorted((n, *row) for n, row in table.items())
    past = lambda: open_changelog(str(world.landing), world.ref, position=_position(world))
    for number, then in enumerate(after, 1):
        assert told(table_then(upto(past(), f"{closed(number)}.csv"), ["id"]).rows.to_pylist(), "id", "name", "price") == sorted(
            (n, *row) for n, row in then.items()
        )
    assert told(as_of(spark, past(), ["id"]).rows.collect(), "id", "name", "price") == sorted((n, *row) for n, row in table.items())
    news = feed(spark, past(), ["id"], landed(upto(past(), f"{closed(2)}.csv"))).rows.collect()
    kept = {n: row for n, row in after[1].items()}
    for row in sorted(news, key=lambda r: (r["_cdc_file"], r["_cdc_row"])):
        if row["_change_type"] in ("insert", "update_postimage"):
            kept[row["id"]] = (row["name"], row["price"])
        elif row["_change_type"] == "delete":
            kept.pop(row["id"])
    assert kept == after[-1]
    for key in (0, 1, 25):
        (audit,), _ = audit_row(str(world.landing), world.lake_table, {"id": key})
        assert audit.verdict == "agrees", audit
    print(f"{len(news)} rows of the feed, {len(after)} moments")


def _position(world: World):
    from dmscdc.state.position import Position

    return Position.from_json(dict(world.lake_table.head().position))


def test_every_type_of_every_engine(spark, tmp_path):
    kinds = {
        "id": "bigint",
        "flag": "boolean",
        "small": "smallint",
        "real": "float",
        "wide": "double",
        "money": "decimal(38,10)",
        "day": "date",
        "at": "timestamp",
        "raw": "binary",
        "text": "string",
    }
    world = World(tmp_path, spark, kinds).set(key="id", columns=[*kinds.items()])
    rows = [
        "1,t,-5,+3.23800011e+01,+5.0656000000000000e+05,39.0000000000,1996-07-04,1996-07-04 10:02:11.123456,DEADBEEF, padded ",
        "2,false,32767,NaN,-Infinity,+1e3,0001-01-01,0001-01-01 00:00:00,0x00,NULL",
        '3,1,,,,-9999999999999999999999999999.9999999999,9999-12-31,9999-12-31 23:59:59.999999,,"NULL"',
        "4,,,,,,,,,",
        "5,F,+7,1.5,1,1,1582-10-04,1899-12-30T00:00:00Z,\\xff,é",
        '6,TRUE,0,0,0,0,2018-12-15 00:00:00,2018-12-15 10:02:11+05:30,,"a""b"',
    ]
    put(world, "LOAD00000001.csv", "\n".join(rows) + "\n")
    assert world.go().verdict == "ok"
    utc = lambda *parts: datetime(*parts, tzinfo=timezone.utc)
    found = world.lake('id, flag, small, round(real, 3) as r, money, day, epoch_us("at") as at, raw, text')
    micros = lambda moment: (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    assert [row[:3] for row in found] == [(1, True, -5), (2, False, 32767), (3, True, None), (4, None, None), (5, False, 7), (6, True, 0)]
    assert [row[4] for row in found] == [
        Decimal("39"),
        Decimal("1000"),
        Decimal("-9999999999999999999999999999.9999999999"),
        None,
        Decimal(1),
        Decimal(0),
    ]
    assert [row[5] for row in found] == [date(1996, 7, 4), date(1, 1, 1), date(9999, 12, 31), None, date(1582, 10, 4), date(2018, 12, 15)]
    assert [row[6] for row in found] == [
        micros(utc(1996, 7, 4, 10, 2, 11, 123456)),
        micros(utc(1, 1, 1)),
        micros(utc(9999, 12, 31, 23, 59, 59, 999999)),
        None,
        micros(utc(1899, 12, 30)),
        micros(utc(2018, 12, 15, 4, 32, 11)),
    ]
    assert [row[7] for row in found] == [b"\xde\xad\xbe\xef", b"\x00", None, None, b"\xff", None]
    assert [row[8] for row in found] == [" padded ", None, "NULL", None, "é", 'a"b']
    assert world.lake("count(*)") and [str(v[0]) for v in world.lake("wide")] == ["-inf", "0.0", "1.0", "506560.0", "None", "None"]


READS = """
import resource, sys
import pyarrow.parquet as pq
from dmscdc.changes.options import options_from
from dmscdc.changes.rewrite import rewrite_files
columns = [("id", "int"), ("name", "string"), ("price", "decimal(10,2)")]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try: print(pq.read_metadata(rewrite_files("shop.item", {"LOAD00000001.csv": sys.argv[1]}, options_from(columns), sys.argv[2]).urls["LOAD00000001.csv"]).num_rows)
except Exception as error: print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "price, words", [("1.00", "200000"), ("cheap", "does not fit its definition: row 1: column price: 'cheap'"), ("1.00,1.00", "row 1")]
)
def test_a_file_is_read_with_little_memory_in_a_process_of_its_own(tmp_path, price, words):
    wide = "x" * 1000
    with (tmp_path / "LOAD00000001.csv").open("w") as file:
        if price == "1.00,1.00":
            file.writelines(f"{n},a,1.00\n" for n in range(10_000))  # what the layout is told by
        for n in range(200_000):
            file.write(f"{n},{wide},{price}\n")
    done = subprocess.run([sys.executable, "-c", READS, tmp_path / "LOAD00000001.csv", tmp_path / "out"], capture_output=True, text=True, timeout=60)
    *said, kilobytes = done.stdout.splitlines()
    assert words in " ".join(said) and int(kilobytes) < 150_000 and not done.stderr, (done.stdout[-500:], done.stderr[-500:])


def test_a_row_of_another_length_that_is_not_utf8_is_its_rows_trouble_alone(tmp_path, capfd):
    path = tmp_path / f"{closed(1)}.csv"
    path.write_bytes("U,1,é,1.00\n".encode() + b"U,2,\xff,2.00,5\nU,3,caf\xe9,3.00\nU,4,d,4.00\n")
    files = rewrite_files("shop.item", {path.name: str(path)}, options_from(COLUMNS), str(tmp_path / "out"))
    import pyarrow.parquet as pq

    assert pq.read_table(files.urls[path.name])["name"].to_pylist() == ["é", None, None, "d"]
    assert [(bad.row, bad.line, bad.reason, bad.text) for bad in files.bad] == [
        (1, 2, "5 fields, where 4 were expected", "U,2,\\xff,2.00,5"),
        (2, 3, "column name: caf\\xe9 is not UTF-8", "U,3,caf\\xe9,3.00"),
    ]
    assert "".join(capfd.readouterr()) == ""


def test_a_bad_row_leaves_an_empty_one_in_its_place(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / f"{closed(1)}.csv"
    path.write_text("U,1,a,1.00\nU,2\nU,3,c,3.00\nU,4,d,cheap\n\nU,6,f,6.00\n")
    files = rewrite_files("shop.item", {path.name: str(path)}, options_from(COLUMNS), str(tmp_path / "out"))
    assert pq.read_table(files.urls[path.name])["id"].to_pylist() == [1, None, 3, None, None, 6]
    assert [(bad.row, bad.reason, bad.text) for bad in files.bad] == [
        (1, "2 fields, where 4 were expected", "U,2"),
        (3, "column price: cheap is not a valid decimal(10,2)", "U,4,d,cheap"),
        (4, "no field has a value", ""),
    ]


ODD = {
    "int": ["0x1F", "1_000", " 5", "5.5", "1e3", "٣", "99999999999"],
    "bigint": ["9223372036854775808"],
    "boolean": ["2", "wahr", "-1"],
    "date": ["2018-02-30", "15.12.2018", "2018-12-15 10:00:00", "20181215"],
    "timestamp": ["2018-12-15 25:00:00", "noon", "2018-12-15 10:00:00 CET"],
    "decimal(5,2)": ["1234.00", "1.005", "1,5", "--1"],
    "double": ["1,5", "0x1p3", "1e400"],
    "float": ["1e39"],
    "binary": ["abc", "zz"],
    "tinyint": ["128", "-129"],
}


@pytest.mark.parametrize("kind", ODD)
def test_texts_that_are_no_values_of_their_type(tmp_path, kind):
    path = tmp_path / "LOAD00000001.csv"
    path.write_text("".join(f'{n},"{text}"\n' for n, text in enumerate(ODD[kind])) + "99,\n")
    files = rewrite_files("shop.item", {path.name: str(path)}, options_from([("id", "int"), ("a", kind)]), str(tmp_path / "out"))
    assert [bad.row for bad in files.bad] == list(range(len(ODD[kind]))), [bad.reason for bad in files.bad]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_change_files_without_op_are_inserts_once_a_person_says_so(spark, tmp_path, kind):
    from dmscdc.capture.writer import write_changes, write_load

    world = product(spark, tmp_path)
    if kind == "csv":
        put(world, "LOAD00000001.csv", "1,a,1.00\n")
        put(world, f"{closed(1)}.csv", "2,b,2.00\n1,A,1.50\n")
    else:
        write_load(world.landing, world.table, [(1, "a", "1.00")], PRODUCT)
        write_changes(world.landing, world.table, [(2, "b", "2.00"), (1, "A", "1.50")], closed(1), PRODUCT, op=False)
    found = world.go()
    assert found.verdict == "refused" and "dmscdc table set shop.item --csv inserts=true" in found.words
    world.set(csv={"inserts": True})
    assert world.go().verdict == "ok"
    assert world.lake("id, name, price, Op, _cdc_row") == [(1, "A", Decimal("1.50"), "I", 1), (2, "b", Decimal("2.00"), "I", 0)]
    past = open_changelog(str(world.landing), world.ref, position=_position(world))
    assert told(as_of(spark, past, ["id"]).rows.collect(), "id", "name") == [(1, "A"), (2, "b")]
    assert audit_row(str(world.landing), world.lake_table, {"id": 2})[0][0].verdict == "agrees"


@pytest.mark.parametrize("text, is_header", [("id,name\n1,a\n", True), ("I,1,a\n", False), ("1,a\n2,b\n", False), ("red,blue\nlime,pink\n", False)])
def test_a_first_row_that_looks_like_a_header_is_named_with_the_command_that_takes_it_so(tmp_path, text, is_header):
    from dmscdc.errors import Refused

    (tmp_path / "LOAD00000001.csv").write_text(text)
    with pytest.raises(Refused) as told:
        rewrite_files("shop.item", {"LOAD00000001.csv": str(tmp_path / "LOAD00000001.csv")}, options_from([]), str(tmp_path / "out"))
    assert ("Its first row looks like one" in str(told.value)) == is_header and "dmscdc table set shop.item --csv header=true" in str(told.value)


@pytest.mark.parametrize("text", ["", "\n", "\n\n"])
def test_a_file_without_rows_and_without_a_definition_is_refused_in_words(tmp_path, text):
    from dmscdc.errors import Refused

    (tmp_path / "LOAD00000001.csv").write_text(text)
    with pytest.raises(Refused, match="read as CSV without a header.*dmscdc table columns shop.item"):
        rewrite_files("shop.item", {"LOAD00000001.csv": str(tmp_path / "LOAD00000001.csv")}, options_from([]), str(tmp_path / "out"))
