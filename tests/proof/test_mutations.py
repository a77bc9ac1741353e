"""
One value changed, a row dropped or added: found and named, 100 of 100, for every type that DMS writes; and 100 equal tables with awkward
values, no false alarm. The hundred tables of an engine lie in one, told apart by the first column of its key: each is then a range of its own, with a total
of its own, that has to differ or be equal by itself.
"""

from __future__ import annotations

import math
import random
from contextlib import ExitStack
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pytest

from dmscdc.capture.writer import write_load
from dmscdc.history.changelog import open_changelog, read_changelog
from dmscdc.landing.files import TableRef
from dmscdc.reconcile.canonical import rules_of
from dmscdc.reconcile.compare import TableComparison, compare_ranges, find_differences, spark_side
from dmscdc.reconcile.source import address, columns_of, snapshot, source_name, source_side
from tiers import sampled

pytestmark = pytest.mark.proof

TABLES, ROWS, UTC = 100, 4, timezone.utc
NINES = Decimal("9" * 28 + "." + "9" * 10)
MANY = Context(prec=60)
F32 = lambda x: float(np.float32(x))
ENGINES = ("sqlite", "mysql", "postgresql")


def stamps(*texts: str) -> list:
    return [datetime.fromisoformat(t).replace(tzinfo=UTC) for t in texts]


# column: type of DMS, type of MariaDB, of PostgreSQL, of SQLite; awkward values
COLUMNS: dict[str, tuple] = {
    "flag": ("boolean", "tinyint(1)", "boolean", "boolean", [True, False]),
    "tiny": ("tinyint", "tinyint", "smallint", "tinyint", [0, -128, 127]),
    "small": ("smallint", "smallint", "smallint", "smallint", [0, -32768, 32767]),
    "whole": ("int", "int", "integer", "int", [0, -(2**31), 2**31 - 1, 10]),
    "large": ("bigint", "bigint", "bigint", "bigint", [0, -(2**63), 2**63 - 1, 100]),
    "utiny": ("uint1", "tinyint unsigned", "smallint", "int", [0, 255]),
    "usmall": ("uint2", "smallint unsigned", "integer", "int", [0, 65535]),
    "uwhole": ("uint4", "int unsigned", "bigint", "bigint", [0, 2**32 - 1]),
    "ularge": ("uint8", "bigint unsigned", "numeric(20)", "text", [0, 2**64 - 1, 10**19]),
    "price": (
        "decimal(10,2)",
        "decimal(10,2)",
        "numeric(10,2)",
        "decimal(10,2)",
        [Decimal("39.00"), Decimal("-0.01"), Decimal("0.00"), Decimal("99999999.99")],
    ),
    "digits": (
        "decimal(38,10)",
        "decimal(38,10)",
        "numeric(38,10)",
        "text",
        [NINES, NINES.copy_negate(), Decimal("0E-10"), Decimal("1E-10"), Decimal("1000.0000000000")],
    ),
    "single": ("float", "float", "real", "float", [F32(0.1), -0.0, 0.0, F32(1e-45), F32(3.4028234e38), -1.5]),
    "twice": ("double", "double", "double precision", "double", [0.1, -0.0, 0.0, 5e-324, 1.7976931348623157e308, 1 / 3, -1e22]),
    "day": ("date", "date", "date", "date", [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10), date(2018, 12, 15)]),
    "moment": (
        "timestamp",
        "datetime(6)",
        "timestamp with time zone",
        "datetime",
        stamps("0001-01-01", "9999-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999", "2018-12-15 10:02:11"),
    ),
    "name": ("string", "varchar(60)", "varchar(60)", "varchar(60)", ["", " ", "Lamp  ", "Größe 55” 🛒", "null", "N;", "2:ab", "a\\'b\n%s :x"]),
    "code": ("string", "char(8)", "char(8)", "char(8)", ["", "EUR", "ÄÖ"]),
    "clock": ("time", "time(3)", "time", "time", [time(0), time(10, 2, 11), time(23, 59, 59, 999000)]),
    "bytes": ("binary", "varbinary(20)", "bytea", "blob", [b"", b"\0", b"\xff\0x"]),
}
ODD = {
    "sqlite": {"name": ["a\0b"], "twice": [math.inf]},
    "mysql": {"name": ["a\0b", "\0"]},
    "postgresql": {"twice": [math.nan, math.inf, -math.inf], "single": [math.nan]},
}


def value(rng: random.Random, kind: str, name: str) -> Any:
    return rng.choice([None, *COLUMNS[name][4], *ODD[kind].get(name, [])])


def nearest(name: str, old: Any, rng: random.Random) -> Any:
    "A value that is as little different as can be, or none instead of one."
    if old is None or rng.random() < 0.2:
        return rng.choice([v for v in COLUMNS[name][4] if v is not None]) if old is None else None
    match old:
        case bool():
            return not old
        case int():
            return old - 1 if old > 0 else old + 1
        case Decimal():
            return MANY.add(old, Decimal(-1 if old > 0 else 1).scaleb(old.as_tuple().exponent))
        case float():
            return (
                0.25 if math.isnan(old) else float(np.nextafter(np.float32(old), np.float32(1.0))) if name == "single" else math.nextafter(old, 1.0)
            )
        case datetime():
            return old - timedelta(microseconds=1) if old.year > 2000 else old + timedelta(microseconds=1)
        case date():
            return old - timedelta(days=1) if old.year > 2000 else old + timedelta(days=1)
        case time():
            return old.replace(microsecond=old.microsecond - 1000 if old.microsecond else 1000)
        case bytes():
            return old + b"\0"
        case str():
            return old + ("x" if name == "code" else " ")
    raise TypeError(old)


def made(kind: str, seed: int) -> list[dict[str, Any]]:
    "A hundred tables of a few rows, told apart by `lot`."
    rng = random.Random(f"{kind} {seed}")
    return [{"lot": lot, "id": id, **{name: value(rng, kind, name) for name in COLUMNS}} for lot in range(TABLES) for id in range(ROWS)]


def mutated(kind: str, rows: list[dict], seed: int) -> tuple[list[dict], dict[int, tuple]]:
    "One change in each of the tables, and what is to be found: kind, id, column."
    rng, done, expected = random.Random(f"{kind} {seed} changed"), [dict(row) for row in rows], {}
    for lot in range(TABLES):
        row = rng.choice([row for row in done if row["lot"] == lot])
        if lot % 10 == 8:
            expected[lot] = ("missing", row["id"], None)
            done.remove(row)
        elif lot % 10 == 9:
            expected[lot] = ("extra", 99, None)
            done.append({**row, "id": 99})
        else:
            name = list(COLUMNS)[lot % len(COLUMNS)]
            row[name] = nearest(name, row[name], rng)
            expected[lot] = ("different", row["id"], name)
    return done, expected


def put(db, table: str, rows: list[dict]) -> None:
    "Into the source, by its own driver."
    at = {"mysql": 1, "postgresql": 2, "sqlite": 3}[db.kind]
    columns = ", ".join(f"{name} {column[at]}" for name, column in COLUMNS.items())
    where = f"shop.{table}" if db.kind == "postgresql" else table
    names = ", ".join(f":{name}" for name in ("lot", "id", *COLUMNS))
    db.run(
        f"create table {where} (lot int not null, id int not null, {columns}, primary key (lot, id))",
        f"insert into {where} values ({names})",
        many=[{name: given(db.kind, v) for name, v in row.items()} for row in rows],
    )


def given(kind: str, v: Any) -> Any:
    "A value as the driver takes it."
    if kind == "postgresql":
        return v
    if isinstance(v, datetime):
        v = v.replace(tzinfo=None)
    if kind == "sqlite" and (isinstance(v, (date, time, Decimal)) or isinstance(v, int) and v > 2**63):
        return str(v)
    return int(v) if isinstance(v, bool) else v


def compared(spark, db, landing, table: str, rows: list[dict], limit: int = 1000) -> TableComparison:
    "The source beside a lake of these rows."
    write_load(landing, f"shop.{table}", rows, {"lot": "int", "id": "int", **{name: column[0] for name, column in COLUMNS.items()}})
    ref = TableRef("shop", table)
    frame, files = read_changelog(spark, open_changelog(str(landing), ref))
    with ExitStack() as stack:
        look = stack.enter_context(snapshot(address(db.source, env=db.env)))
        rules = rules_of(db.kind, files.schema, columns_of(look, ref))
        assert not [rule for rule in rules if rule.why]
        sides = source_side(look, source_name(look, ref)), stack.enter_context(spark_side(spark, frame))
        found, layout = find_differences(sides, rules, ["lot", "id"])
        return found if found.is_equal else compare_ranges(sides, found, layout, limit)


SEED = 20181215


@pytest.fixture(params=sampled(ENGINES, "postgresql"))
def db(request):
    return request.getfixturevalue({"mysql": "mariadb"}.get(request.param, request.param))


def test_any_one_change_is_found_and_named_in_each_of_100_tables(spark, db, tmp_path):
    rows = made(db.kind, SEED)
    lake, expected = mutated(db.kind, rows, SEED)
    put(db, "changed", rows)
    done = compared(spark, db, tmp_path, "changed", lake)
    assert [span.low for span in done.spans] == list(range(TABLES))  # each table's total differs by itself
    named = {int(f.key["lot"]): (f.kind, int(f.key["id"]), ",".join(f.columns) or None) for f in done.findings}
    assert named == expected and len(done.findings) == TABLES and not done.in_flight
    assert done.counts == {"different": 80, "missing": 10, "extra": 10}


def test_100_equal_tables_with_awkward_values_are_equal(spark, db, tmp_path):
    rows = made(db.kind, SEED + 1)
    put(db, "awkward", rows)
    done = compared(spark, db, tmp_path, "awkward", rows)
    assert done.is_equal and done.source.rows == TABLES * ROWS, done.findings[:3]
