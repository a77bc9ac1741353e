"""One random life of a table for each of many task settings: folders, formats, columns around the row, before images, key-only deletes.

The oracle is the test's own dictionary of rows, changed as the source's statements say. All five sequences and four delimiters of date folders are among the settings."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import product
from pathlib import Path

import pytest

from dmscdc.capture.settings import DmsSettings
from dmscdc.capture.writer import typed_rows, write_changes, write_load_set
from dmscdc.history.as_of import as_of
from dmscdc.history.changelog import open_changelog
from dmscdc.state.position import Position
from seeds import seed_of
from tiers import sampled
from world import World

pytestmark = pytest.mark.proof

ITEM = {"id": "int", "name": "string", "price": "decimal(10,2)", "at": "timestamp", "day": "date", "on": "boolean", "raw": "binary", "big": "bigint"}
TEXTS = ["plain", 'say "so"', "a,b;c|d", "two\nlines", " blank ", "", "NULL", "é€𝄞", None, "x" * 300, "'"]
FOLDERS = [*product(("YYYYMMDD", "YYYYMMDDHH", "YYYYMM", "MMYYYYDD", "DDMMYYYY"), ("SLASH", "DASH", "UNDERSCORE", "NONE"))]
NIGHT = datetime(2022, 10, 31, 20, 0, tzinfo=timezone.utc)  # passes midnight and the end of a month, in UTC and in the zones


def settings_of(rng: random.Random, number: int) -> DmsSettings:
    "The date folders go round; the rest is drawn."
    sequence, delimiter = FOLDERS[number % len(FOLDERS)]
    csv = rng.random() < 0.5
    more = (
        dict(
            data_format="csv",
            csv_delimiter=rng.choice(",;|\t"),
            csv_null_value=rng.choice(["", "NULL", "\\N"]),
            add_column_name=rng.random() < 0.5,
            boolean_texts=rng.choice([("true", "false"), ("t", "f"), ("1", "0")]),
        )
        if csv
        else dict(
            parquet_version=rng.choice(["parquet-1-0", "parquet-2-0"]), encoding_type=rng.choice(["plain", "plain-dictionary", "rle-dictionary"])
        )
    )
    return DmsSettings(
        **more,
        gzip=rng.random() < 0.3,
        date_partition=number < len(FOLDERS) or rng.random() < 0.5,
        date_partition_sequence=sequence,
        date_partition_delimiter=delimiter,
        date_partition_timezone=rng.choice(["", "", "Asia/Kolkata", "America/New_York"]),
        include_op_for_full_load=rng.random() < 0.5,
        timestamp_column=rng.choice(["", "dms_ts"]),
        use_task_start_time=rng.random() < 0.5,
        sequence_column=rng.choice(["", "", "seq"]),
        before_image=rng.choice(["", "pk-only", "all"]),
        key_only_deletes=rng.random() < 0.4,
        cdc_inserts_and_updates=rng.random() < 0.15,
        max_file_size=rng.choice([1, 1_048_576]),
    )


def value(rng: random.Random) -> tuple:
    "Everything but the key. A text that is the null text of a CSV file is written in quotes."

    def maybe(some):
        return None if rng.random() < 0.15 else some

    return (
        rng.choice(TEXTS),
        maybe(Decimal(rng.randint(-(10**9), 10**9)).scaleb(-2)),
        maybe(datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc) + timedelta(microseconds=rng.randint(0, 2 * 10**15))),
        maybe(date(1950, 1, 1) + timedelta(days=rng.randint(0, 40_000))),
        maybe(rng.random() < 0.5),
        maybe(rng.randbytes(rng.randint(1, 5))),
        maybe(rng.randint(-(2**63), 2**63 - 1)),
    )


class Source:
    "The rows of the source, and what its statements did."

    def __init__(self, rng: random.Random, settings: DmsSettings):
        self.rng, self.settings, self.rows, self.next, self.gone = rng, settings, {}, 1, 0

    def insert(self) -> tuple:
        self.next += 1
        self.rows[self.next] = value(self.rng)
        return ("I", self.next, *self.rows[self.next]), None

    def change(self) -> tuple[tuple, tuple | None]:  # a change and the old row of an update
        rng, kind = self.rng, self.rng.random()
        if kind < 0.35 or not self.rows:
            return self.insert()
        key = rng.choice(sorted(self.rows))
        old = (key, *self.rows[key])
        if kind < 0.6:
            if not self.settings.cdc_inserts_and_updates:
                del self.rows[key]
            else:
                self.gone += 1  # the delete never comes, the row stays in the lake
            return ("D", *old), None
        if kind < 0.75 and self.settings.before_image and not self.settings.cdc_inserts_and_updates:  # the key itself changes
            del self.rows[key]
            self.next += 1
            key = self.next
        self.rows[key] = value(rng)
        return ("U", key, *self.rows[key]), old


def table_of(spark, root: Path, number: int, settings: DmsSettings) -> World:
    world = World(root, spark, ITEM, f"shop.t{number}").set(key="id")
    if settings.data_format == "csv":
        images = {"": [], "pk-only": ["BI_id"], "all": [f"BI_{name}" for name in ITEM]}[settings.before_image]
        how = {
            "delimiter": settings.csv_delimiter,
            "nulls": [settings.csv_null_value],
            "more": [*(["seq"] if settings.sequence_column else []), *images],
        }
        if settings.timestamp_column:
            how["timestamp"] = settings.timestamp_column
        world.set(columns=[*ITEM.items()], csv=how)
    return world


def one_life(spark, root: Path, number: int, seed: int) -> tuple[str, int]:
    "Load, three passes, each compared; then the table as it was, asked of the files."
    rng = random.Random(f"{seed} {number}")
    settings = settings_of(rng, number)
    world, source, clock, count = table_of(spark, root, number, settings), Source(rng, settings), NIGHT, 0
    for _ in range(rng.randint(1, 12)):
        source.insert()
    rows = [(key, *row) for key, row in source.rows.items()]
    write_load_set(world.landing, world.table, typed_rows(rows, ITEM), settings, moment=clock, key=["id"])
    for _ in range(3):
        for _ in range(rng.randint(0, 3)):
            clock += timedelta(minutes=rng.randint(20, 200))
            made = [source.change() for _ in range(rng.randint(1, 8))]
            commits = [clock - timedelta(seconds=60 - i) for i in range(len(made))]
            write_changes(
                world.landing,
                world.table,
                [change for change, _ in made],
                clock,
                ITEM,
                settings,
                commits=commits,
                key=["id"],
                before=[old for _, old in made],
            )
            count += len(made)
        done = world.go()
        assert done.verdict in ("ok", "nothing"), (settings, done.words)
        names = '"id", "name", "price", epoch_us("at"), "day", "on", "raw", "big"'
        found = {key: row for key, *row in world.lake(names)} if source.rows or world.files() else {}
        wanted = {
            key: [
                *row[:2],
                row[2] and int((row[2] - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(microseconds=1)) if row[2] else None,
                *row[3:],
            ]
            for key, row in source.rows.items()
        }
        assert found == wanted, settings
    past = open_changelog(str(world.landing), world.ref, position=Position.from_json(dict(world.lake_table.head().position)))
    asked = {row["id"]: row["name"] for row in as_of(spark, past, ["id"]).rows.select("id", "name").collect()}
    assert asked == {key: row[0] for key, row in source.rows.items()}, settings
    kind = (
        f"{settings.data_format}, {settings.date_partition_sequence}/{settings.date_partition_delimiter}"
        if settings.date_partition
        else settings.data_format
    )
    return kind, count


@pytest.mark.parametrize("part", sampled(range(3), 0))
def test_the_lake_follows_the_source_whatever_the_task_is_set_to(spark, tmp_path, part, record_property):
    seen = [one_life(spark, tmp_path, number, seed_of("HISTORY_SEED")) for number in range(part, 24, 3)]
    record_property("looked at", f"{len(seen)} settings, {sum(count for _, count in seen)} changes: {', '.join(kind for kind, _ in seen)}")
    assert len(seen) == 8 and sum(count for _, count in seen) > 60
