"""What the tests of asking share: raw files told again by plain SQL in SQLite, one change after the other, and random histories side by side in one table."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from dmscdc.capture.writer import DmsSettings, write_changes, write_load
from dmscdc.history.changelog import Changelog, open_changelog
from dmscdc.landing.files import TableRef
from dmscdc.landing.s3 import open_landing
from dmscdc.state.position import Position
from world import raw_rows

T = TableRef("shop", "item")
START = datetime(2018, 12, 15, 10, tzinfo=timezone.utc)
Table = dict[tuple, tuple]  # by key: the row, in the order of the columns asked for


def plain(value: Any) -> Any:
    "A value that compares: decimals as text."
    return value if value is None or isinstance(value, (int, float, str, bytes)) else str(value)


# The oracle

ORDERED = """
    with every as (select *, is_load or coalesce(seq glob '{digits}', 0) as valid from raw),
         told as (select *, min(valid) over (partition by {keys}) and not is_load as by_seq from every)
    select op, carried, n from told order by is_load desc, case when by_seq then seq end, name, path, row, n
"""  # every row of a key, in its true order


def replay(paths: Iterable[tuple[str, Path]], keys: Sequence[str], columns: Sequence[str], sequence: str = "") -> Table:
    "The table after raw files, as SQLite has it after one statement a change. Files by their path below the table's folder."
    db = sqlite3.connect(":memory:")
    names = ", ".join(columns)
    db.execute(f"create table raw ({', '.join(f'k{i}' for i in range(len(keys)))}, n, op, carried, is_load, seq, name, path, row)")
    db.execute(f"create table state ({names}, primary key ({', '.join(keys)}))")
    rows: list[dict] = []
    for path, file in paths:
        for row in raw_rows(file):
            number, op = row.pop("file_row_number"), row.pop("Op", None)
            is_load = path.rpartition("/")[2].startswith("LOAD")
            op = "I" if is_load else op
            if op not in ("I", "U", "D") or any(row[k] is None for k in keys):
                continue  # cannot be applied
            db.execute(
                f"insert into raw values ({', '.join('?' * (len(keys) + 8))})",
                [
                    *[plain(row[k]) for k in keys],
                    len(rows),
                    op,
                    ",".join(c for c in row if c in columns),
                    is_load,
                    row.get(sequence),
                    path.rpartition("/")[2],
                    path,
                    number,
                ],
            )
            rows.append(row)
    key = " and ".join(f"{k} = ?" for k in keys)
    for op, carried, n in db.execute(ORDERED.format(digits="[0-9]" * 35, keys=", ".join(f"k{i}" for i in range(len(keys))))).fetchall():
        cells, row = carried.split(","), rows[n]
        if op == "D":
            db.execute(f"delete from state where {key}", [plain(row[k]) for k in keys])
            continue
        news = ", ".join(f"{c} = excluded.{c}" for c in cells)
        db.execute(
            f"insert into state ({carried}) values ({', '.join('?' * len(cells))}) on conflict ({', '.join(keys)}) do update set {news}",
            [plain(row[c]) for c in cells],
        )
    found = db.execute(f"select {', '.join(keys)}, {names} from state").fetchall()
    db.close()
    return {row[: len(keys)]: row[len(keys) :] for row in found}


def files_of(past: Changelog) -> list[tuple[str, Path]]:
    return [(f.path, Path(past.urls[f.path])) for f in past.files]


def table_of(rows: Iterable[Any], keys: Sequence[str], columns: Sequence[str]) -> Table:
    "Collected rows by key; a key that comes twice is an error."
    found: Table = {}
    for row in rows:
        key = tuple(row[k] for k in keys)
        assert key not in found, f"{key} comes twice"
        found[key] = tuple(plain(row[c] if c in row else None) for c in columns)
    return found


# Histories side by side: h numbers them, and no two of them share a key

KEYS, VALUES = ("h", "k"), ("a", "b", "c", "seq")
SHAPE = {"h": "int", "k": "string", "a": "int", "b": "string", "c": "decimal(10,2)"}
COLUMNS = (*KEYS, *VALUES)


@dataclass(frozen=True)
class FileShape:
    "One change file, for all histories alike."

    carries: frozenset[str] = frozenset("abc")  # of the columns that are no key
    sequence: str = "column"  # "column": each row carries one; "holes": some rows do not; "none": the file has no such column
    stage: int = 0  # it arrives with the files of this number


@dataclass
class Histories:
    "Many histories in one landing, whose files have one shape."

    landing: Path
    files: tuple[FileShape, ...]
    seed: int
    count: int = 40
    has_load: bool = True
    stages: dict[str, int] = field(default_factory=dict)  # path of a change file -> when it comes
    known: Position | None = None  # what the lake is built on

    def change(self, draw: random.Random, h: int) -> tuple:
        op = draw.choices(["I", "U", "D", None, "X"], [4, 4, 3, 0.2, 0.2])[0]
        key = draw.choices(["x", "é", "", None], [4, 3, 1, 0.3])[0]
        return op, h, key, draw.choice([None, 1, 2]), draw.choice([None, "", "b"]), draw.choice([None, "1", "2.50"])

    def write_load(self, draw: random.Random, at: datetime) -> None:
        rows = [(h, k, 0, "load", "9") for h in range(self.count) for k in ("x", "é", "z") if draw.random() < 0.6]
        write_load(self.landing, T, rows, SHAPE, settings=DmsSettings(sequence_column="seq"), time=at)

    def write_file(self, draw: random.Random, shape: FileShape, at: datetime) -> None:
        rows = [self.change(draw, h) for h in range(self.count) for _ in range(draw.choice([0, 0, 1, 1, 2, 3]))]
        draw.shuffle(rows)
        kept = {c: t for c, t in SHAPE.items() if c in KEYS or c in shape.carries}
        at_of = [0, *[1 + list(SHAPE).index(c) for c in kept]]
        told = [tuple(row[i] for i in at_of) for row in rows]
        sequences = [f"20181215000000{draw.randrange(10**12):021d}" for _ in rows]  # near the names in time, in no relation to their order
        if shape.sequence == "holes":
            sequences = [draw.choice(["", s, s, s]) for s in sequences]
        settings = DmsSettings(sequence_column="" if shape.sequence == "none" else "seq")
        path = write_changes(self.landing, T, told, at, kept, settings, sequences=sequences, time=at.timestamp() + 1)
        self.stages[path.name] = shape.stage

    def write(self) -> Histories:
        draw = random.Random(self.seed)
        if self.has_load:
            self.write_load(draw, START)
        for number, shape in enumerate(self.files, 1):
            self.write_file(draw, shape, START + timedelta(minutes=number))
        return self

    def reload(self) -> Histories:
        "Another load over the names of the first, and a change file after it."
        draw, at = random.Random(self.seed + 1), START + timedelta(hours=2)
        self.known = Position(1, open_landing(self.landing).files(T).load)
        self.write_load(draw, at)
        self.write_file(draw, FileShape(stage=9), at + timedelta(minutes=1))
        return self

    def past(self, stage: int = 9) -> Changelog:
        "Everything that has arrived by then."
        line = open_changelog(str(self.landing), T, position=self.known)
        return replace(line, changes=tuple(f for f in line.changes if self.stages[f.path] <= stage))

    def state(self, past: Changelog) -> Table:
        return replay(files_of(past), KEYS, COLUMNS, "seq")
