"""Each canonical form, written by every engine: the same text for the same value, and the text that we expect."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest
from pyspark.sql import functions as F

from dmscdc.changes.read import quoted
from dmscdc.changes.schema import Column
from dmscdc.landing.files import TableRef
from dmscdc.reconcile.canonical import hash_of, row_text, rules_of, text_of
from dmscdc.reconcile.source import SourceColumn, address, columns_of, snapshot, source_name

pytestmark = pytest.mark.proof

UTC = timezone.utc
TINY, HUGE, THIRD = 5e-324, 1.7976931348623157e308, 1 / 3


def bits(value: float) -> str:
    "The form of a float out of its hexadecimal text, which Python and C define: an oracle that computes nothing."
    sign, digits, exponent = "-" if value < 0 else "", *abs(value).hex().removeprefix("0x").split("p")
    whole, _, rest = digits.partition(".")
    mantissa, power = int(whole + rest.ljust(13, "0"), 16), int(exponent)
    while mantissa < 1 << 52:
        mantissa, power = mantissa << 1, power - 1
    return f"{sign}{mantissa}p{power}"


@dataclass(frozen=True)
class Case:
    "A lake type beside the types that sources have for it."

    name: str
    lake: str
    source: dict[str, str]  # engine -> declared
    rows: list[tuple]  # value of the lake, its text, what a source is given where that is another value
    odd: dict[str, list[tuple]] = field(default_factory=dict)  # engine -> rows that only it has
    millis: bool = False


def all_of(mysql: str, postgresql: str, sqlite: str = "") -> dict[str, str]:
    return {"mysql": mysql, "postgresql": postgresql, "sqlite": sqlite or mysql}


NINES = "9" * 28 + "." + "9" * 10
MOMENT = datetime(2018, 12, 15, 10, 2, 11, 123456)
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
STAMPS = [
    (MOMENT, "2018-12-15 10:02:11.123456"),
    (FIRST, "0001-01-01 00:00:00.000000"),
    (LAST, "9999-12-31 23:59:59.999999"),
    (datetime(1969, 12, 31, 23, 59, 59, 999000), "1969-12-31 23:59:59.999000"),
    (None, None),
]
DOUBLES = [
    (x, bits(x)) for x in (1.0, -1.0, 0.1, THIRD, TINY, -TINY, 3 * TINY, 2.2250738585072014e-308, HUGE, -HUGE, 2.0**52, 2.0**53 + 2, 1e22, 123456.789)
]
DOUBLES += [(2.0**n, f"{1 << 52}p{n}") for n in (-1074, -1022, -500, -61, -1, 59, 60, 61, 1023)]
DOUBLES += [((1 - 2.0**-53) * 2.0**n, f"{(1 << 53) - 1}p{n - 1}") for n in (-900, -119, 1, 60, 511, 1000, 1023)]
DOUBLES += [(0.0, "0"), (-0.0, "0"), (None, None)]
NAMES = [
    ("Lamp", "Lamp"),
    ("", ""),
    ("Lamp  ", "Lamp  "),
    ("Größe 55” 🛒", "Größe 55” 🛒"),
    ("it's a \\ % : :name", "it's a \\ % : :name"),
    ("a\n\tb", "a\n\tb"),
    (None, None),
]
NUL = [("a\0b", "a\0b")]

CASES = [
    Case(
        "whole",
        "int",
        all_of("int", "integer"),
        [(0, "0"), (-1, "-1"), (1200, "1200"), (2**31 - 1, "2147483647"), (-(2**31), "-2147483648"), (None, None)],
    ),
    Case("large", "bigint", all_of("bigint", "bigint"), [(2**63 - 1, "9223372036854775807"), (-(2**63), "-9223372036854775808"), (10, "10")]),
    Case("small", "smallint", all_of("tinyint unsigned", "smallint"), [(255, "255"), (0, "0"), (None, None)]),
    Case("filled", "bigint", {"mysql": "int(8) unsigned zerofill"}, [(42, "42"), (0, "0"), (4294967295, "4294967295")]),
    Case("year", "smallint", {"mysql": "year"}, [(2018, "2018"), (1901, "1901"), (None, None)]),
    Case(
        "unsigned",
        "decimal(20,0)",
        {"mysql": "bigint unsigned", "postgresql": "numeric(20)"},
        [(Decimal(2**64 - 1), "18446744073709551615"), (Decimal(0), "0"), (Decimal(10), "10")],
    ),
    Case(
        "price",
        "decimal(10,2)",
        all_of("decimal(10,2)", "numeric(10,2)"),
        [
            (Decimal("39.00"), "39"),
            (Decimal("39.90"), "39.9"),
            (Decimal("-0.05"), "-0.05"),
            (Decimal("0.00"), "0"),
            (Decimal("99999999.99"), "99999999.99"),
            (Decimal("1200.00"), "1200"),
            (None, None),
        ],
        {"sqlite": [(Decimal("0.30"), "0.3", 0.1 + 0.2), (Decimal("39.00"), "39", 39)]},
    ),
    Case(
        "digits",
        "decimal(38,10)",
        all_of("decimal(38,10)", "numeric(38,10)", "text"),
        [(Decimal(NINES), NINES), (Decimal("-" + NINES), "-" + NINES), (Decimal("0E-10"), "0"), (Decimal("1E-10"), "0.0000000001")],
    ),
    Case(
        "scale",
        "decimal(18,18)",
        all_of("decimal(18,18)", "numeric(18,18)", "text"),
        [(Decimal("0E-18"), "0"), (Decimal("1E-18"), "0." + "0" * 17 + "1")],
    ),
    Case("money", "decimal(38,4)", {"postgresql": "money"}, [(Decimal("39.9000"), "39.9", "39.90")]),
    Case("unbounded", "string", {"postgresql": "numeric"}, [("39.90", "39.9", Decimal("39.9")), ("1" * 50, "1" * 50, Decimal("1" * 50))]),
    Case(
        "double",
        "double",
        all_of("double", "double precision", "real"),
        DOUBLES,
        {"postgresql": [(nan, "nan"), (inf, "inf"), (-inf, "-inf")], "sqlite": [(inf, "inf"), (-inf, "-inf")]},
    ),
    Case(
        "float",
        "float",
        all_of("float", "real", "float"),
        [(x, bits(x)) for x in (1.5, -0.25, 2.0**-149, 2.0**127, 0.10000000149011612)] + [(0.0, "0"), (-0.0, "0"), (None, None)],
        {"postgresql": [(nan, "nan"), (inf, "inf")]},
    ),
    Case(
        "float_as_double",
        "double",
        {"mysql": "float", "postgresql": "real"},
        [(0.1, bits(0.10000000149011612)), (0.10000000149011612, bits(0.10000000149011612))],
    ),
    Case(
        "truth",
        "boolean",
        all_of("tinyint(1)", "boolean", "boolean"),
        [(True, "1"), (False, "0"), (None, None)],
        {"sqlite": [(True, "1", "true"), (False, "0", "f")]},
    ),
    Case("bit", "boolean", {"mysql": "bit(1)"}, [(True, "1"), (False, "0"), (None, None)]),
    Case("word", "string", {"postgresql": "boolean"}, [("true", "true", True), ("false", "false", False), (None, None)]),
    Case(
        "day",
        "date",
        all_of("date", "date"),
        [
            (date(2018, 12, 15), "2018-12-15"),
            (date(1, 1, 1), "0001-01-01"),
            (date(9999, 12, 31), "9999-12-31"),
            (date(1582, 10, 10), "1582-10-10"),
            (None, None),
        ],
        {"mysql": [(None, None, "0000-00-00")]},
    ),
    Case(
        "moment",
        "timestamp",
        all_of("datetime(6)", "timestamp"),
        STAMPS,
        {"mysql": [(None, None, "0000-00-00 00:00:00")], "sqlite": [(MOMENT, "2018-12-15 10:02:11.123456", "2018-12-15T11:02:11.123456+01:00")]},
    ),
    Case(
        "cut",
        "timestamp",
        all_of("datetime(6)", "timestamp"),
        [
            (datetime(2018, 12, 15, 10, 2, 11, 123000), "2018-12-15 10:02:11.123", MOMENT),
            (LAST.replace(microsecond=999000), "9999-12-31 23:59:59.999", LAST),
        ],
        millis=True,
    ),
    Case(
        "instant",
        "timestamp",
        {"postgresql": "timestamp with time zone", "mysql": "timestamp(6)"},
        [(MOMENT, "2018-12-15 10:02:11.123456"), (datetime(1999, 7, 1, 3), "1999-07-01 03:00:00.000000")],
        {"postgresql": [(MOMENT, "2018-12-15 10:02:11.123456", MOMENT.replace(tzinfo=timezone(timedelta(hours=5))) + timedelta(hours=5))]},
    ),
    Case("name", "string", all_of("varchar(40)", "varchar(40)"), NAMES, {"mysql": NUL, "sqlite": NUL}),
    Case("latin", "string", {"mysql": "varchar(40) character set latin1"}, [("Größe", "Größe")]),
    Case("long", "string", all_of("longtext", "text"), [("🛒" * 5000, "🛒" * 5000), ("", "")]),
    Case("code", "string", all_of("char(5)", "char(5)"), [("EUR", "EUR"), ("EUR", "EUR", "EUR  "), ("EUR  ", "EUR", "EUR"), ("", ""), (None, None)]),
    Case("choice", "string", {"mysql": "enum('red','blue')", "postgresql": "colour"}, [("red", "red"), (None, None)]),
    Case("several", "string", {"mysql": "set('red','blue')"}, [("red,blue", "red,blue"), ("", "")]),
    Case("uuid", "string", {"mysql": "uuid", "postgresql": "uuid", "sqlite": "text"}, [("123e4567-e89b-12d3-a456-426614174000",) * 2]),
    Case("json", "string", {"mysql": "json", "postgresql": "jsonb", "sqlite": "text"}, [('{"a": 1}',) * 2]),
    Case("bytes", "binary", all_of("varbinary(20)", "bytea", "blob"), [(b"", ""), (b"\0\xff\x10", "00ff10"), (b"Lamp", "4c616d70"), (None, None)]),
    Case("blob", "binary", {"mysql": "longblob", "postgresql": "bytea"}, [(bytes(range(256)) * 40, (bytes(range(256)) * 40).hex())]),
    Case(
        "clock",
        "string",
        {"mysql": "time(3)", "postgresql": "time", "sqlite": "time"},
        [
            ("10:02:11.500", "10:02:11.5", time(10, 2, 11, 500000)),
            ("00:00:00.000", "00:00:00", time(0)),
            ("23:59:59.999", "23:59:59.999", time(23, 59, 59, 999000)),
            (None, None),
        ],
    ),
]
NAMED = {"ids": lambda case: case.name}


def of_lake(case: Case, value: Any) -> Any:
    "What Spark is given: moments are instants in UTC."
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def of_source(kind: str, case: Case, row: tuple) -> Any:
    "What the database is given."
    value = row[2] if len(row) > 2 else row[0]
    if kind == "sqlite" and isinstance(value, (Decimal, date, time)):
        return str(value)
    if kind == "mysql" and isinstance(value, bool):
        return int(value)
    if kind == "postgresql" and isinstance(value, datetime) and "zone" in case.source[kind]:
        return value.replace(tzinfo=value.tzinfo or UTC)
    return value


def source_texts(db, case: Case) -> tuple[list[str | None], list[tuple]]:
    "What the source makes of the values, and of whole rows of them: text and hash."
    name, kind = f"form_{case.name}", db.kind
    table = f"shop.{name}" if kind == "postgresql" else name
    rows = [{"n": n, "v": of_source(kind, case, row)} for n, row in enumerate(case.rows + case.odd.get(kind, []))]
    first = ["set sql_mode = ''"] if kind == "mysql" else []
    db.run(*first, f"create table {table} (n int, v {case.source[kind]})", f"insert into {table} values (:n, :v)", many=rows)
    with snapshot(address(db.source, env=db.env)) as source:
        ref = TableRef("shop", name)
        rule = rules_of(kind, (Column("v", case.lake),), columns_of(source, ref)[1:], frozenset("v") if case.millis else frozenset())[0]
        row = row_text(kind, [rule], lambda rule: source.quoted(rule.source))
        found = source.rows(
            f"select {text_of(kind, rule, source.quoted('v'))}, {row}, {hash_of(kind, row)} from {source_name(source, ref)} order by n"
        )
    return [one[0] for one in found], [(text, int(number)) for _, text, number in found]


def lake_texts(spark, kind: str, case: Case) -> tuple[list[str | None], list[tuple]]:
    "What Spark makes of the same."
    rule = rules_of(
        kind,
        (Column("v", case.lake),),
        (SourceColumn("v", case.source[kind].partition(" character set")[0].replace("colour", "enum")),),
        frozenset("v") if case.millis else frozenset(),
    )[0]
    rows = [(n, of_lake(case, row[0])) for n, row in enumerate(case.rows + case.odd.get(kind, []))]
    row = row_text("spark", [rule], lambda rule: quoted(rule.lake))
    frame = spark.createDataFrame(rows, f"n int, v {case.lake}").coalesce(1)
    found = frame.select(
        "n", *[F.expr(e).alias(f"e{i}") for i, e in enumerate((text_of("spark", rule, "`v`"), row, hash_of("spark", row)))]
    ).collect()
    return [one[1] for one in sorted(found)], [(one[2], int(one[3])) for one in sorted(found)]


def proves(spark, db, case: Case) -> None:
    expected = [row[1] for row in case.rows + case.odd.get(db.kind, [])]
    source, rows = source_texts(db, case)
    assert source == expected
    assert lake_texts(spark, db.kind, case) == (source, rows)


@pytest.mark.parametrize("case", [c for c in CASES if "sqlite" in c.source], **NAMED)
def test_sqlite_and_spark_write_a_value_alike(spark, sqlite, case):
    proves(spark, sqlite, case)


@pytest.mark.parametrize("case", [c for c in CASES if "mysql" in c.source], **NAMED)
def test_mariadb_and_spark_write_a_value_alike(spark, mariadb, case):
    proves(spark, mariadb, case)


@pytest.mark.parametrize("case", [c for c in CASES if "postgresql" in c.source], **NAMED)
def test_postgresql_and_spark_write_a_value_alike(spark, postgresql, case):
    if case.name == "choice":
        postgresql.run("create type colour as enum ('red', 'blue')", "alter role reader set search_path = shop")
    proves(spark, postgresql, case)


def test_pairs_without_a_form_in_common_and_lonely_columns_are_named():
    lake = (Column("id", "int"), Column("at", "date"), Column("gone", "string"), Column("span", "string"))
    source = (
        SourceColumn("id", "integer"),
        SourceColumn("at", "time without time zone"),
        SourceColumn("span", "interval"),
        SourceColumn("new", "text"),
    )
    assert {r.name: r.why for r in rules_of("postgresql", lake, source)} == {
        "id": "",
        "at": "time without time zone of the source and date of the lake have no form in common",
        "gone": "only the lake has it",
        "span": "interval of the source and string of the lake have no form in common",
        "new": "only the source has it",
    }
