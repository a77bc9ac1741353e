"""What the adversary tells: tables as lists of files, and what a table must be after them. Plain Python and pyarrow; nothing of the package is used."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BEGIN = datetime(2018, 12, 15, 10, tzinfo=timezone.utc)
GOOD = ("ok", "nothing")
QUESTIONS = ("history", "as_of", "feed", "versions", "reconcile")
Row = dict[str, Any]


def closing(minute: float) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def change_name(minute: float) -> str:
    return f"{closing(minute):%Y%m%d-%H%M%S}{closing(minute).microsecond // 1000:03d}.parquet"


@dataclass
class File:
    "One raw file: a load where no row has an Op, else changes."

    name: str
    rows: list[Row]  # `Op` first where it is a change
    columns: dict[str, pa.DataType]  # of the source, as the file carries them
    at: datetime = BEGIN  # when it was put
    round: int = 1  # before which pass
    spoil: Callable[[bytes], bytes] | None = None  # what becomes of its bytes
    group: int = 10_000  # rows of a row group
    as_is: pa.Table | None = None  # written instead, where plain rows do not tell it

    def __post_init__(self):
        names = self.columns if self.is_load else ["Op", *self.columns]
        self.rows = [{name: row.get(name) for name in names} for row in self.rows]  # what a row does not say and its file carries is null

    @property
    def is_load(self) -> bool:
        return self.name.startswith("LOAD")

    @property
    def closed(self) -> datetime:
        return datetime.strptime(self.name.rpartition("/")[2][:18] + "000", "%Y%m%d-%H%M%S%f").replace(tzinfo=timezone.utc)

    @property
    def data(self) -> pa.Table:
        if self.as_is is not None:
            return self.as_is
        names = {} if self.is_load else {"Op": pa.string()}
        kinds = {**names, **self.columns}
        return pa.Table.from_arrays([pa.array([row.get(name) for row in self.rows], kind) for name, kind in kinds.items()], names=list(kinds))

    def write(self, folder: Path) -> Path:
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(self.data, path, row_group_size=self.group, compression="gzip", version="1.0", use_dictionary=False, store_schema=False)
        if self.spoil:
            path.write_bytes(self.spoil(path.read_bytes()))
        os.utime(path, (self.at.timestamp() + (0 if self.is_load else 1),) * 2)
        return path


def load(rows: Sequence[Row], columns: dict[str, pa.DataType], number: int = 1, **more: Any) -> File:
    return File(f"LOAD{number:08d}.parquet", list(rows), columns, **more)


def changes(minute: float, rows: Sequence[tuple[str, Row]], columns: dict[str, pa.DataType], **more: Any) -> File:
    "Closed so many minutes after the load."
    return File(more.pop("name", change_name(minute)), [{"Op": op, **row} for op, row in rows], columns, **{"at": closing(minute), **more})


@dataclass(frozen=True)
class Said:
    "A round that must not end well: what its sentence has to name, and which verdicts will do."

    names: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ("refused", "attention", "failed")
    right: bool = False  # the lake must hold all files nevertheless
    spoiled: bool = False  # nobody can read the lake: its files must be those that were there
    gone: bool = False  # the lake was removed before: nothing may have been built in its place


@dataclass
class Table:
    "A table of the siege, and what is expected of it."

    name: str  # schema.table
    key: tuple[str, ...]
    files: list[File]
    settings: dict[str, Any] = field(default_factory=dict)
    sequence: str = ""  # column of the change sequence
    said: dict[int, Said] = field(default_factory=dict)  # by round; of others the outcome is good
    either: tuple[int, ...] = ()  # rounds that may end well, then with the right rows, or in words
    tampered: dict[int, Callable[[Any], None]] = field(default_factory=dict)  # by round, before its pass: is given the place
    asked: bool = True  # questions are asked of the result
    unasked: tuple[str, ...] = ()  # but these
    about: str = ""

    @property
    def soft(self) -> bool:
        return self.settings.get("delete") == "soft"

    @property
    def due(self) -> tuple[str, ...]:
        "What is asked of it; without a key only how it was then."
        if not self.asked:
            return ()
        alike = len({name.lower() for name in self.columns}) < len(self.columns)  # no table of the source can have such columns
        left_out = {*self.unasked, *(["reconcile"] if alike else [])}
        return ("as_of",) if self.settings.get("insert_only") else tuple(question for question in QUESTIONS if question not in left_out)

    @property
    def rounds(self) -> int:
        return max([*(f.round for f in self.files), *self.said, *self.tampered])

    @property
    def columns(self) -> dict[str, pa.DataType]:
        "Of all files, in the order in which they come."
        return {name: kind for file in self.files for name, kind in file.columns.items()}

    def there(self, round: int) -> list[File]:
        "Files that have landed by a round, a name once: what came later lies over what was there."
        return list({f.name: f for f in self.files if f.round <= round}.values())


# The oracle


def ordered(table: Table, files: Sequence[File]) -> list[tuple[File, int, Row]]:
    "Every row of these files in its true order: load rows, then by sequence where every change of the key has one, else by name and row."
    rows = [
        (file, number, row)
        for file in sorted(files, key=lambda f: (not f.is_load, f.name.rpartition("/")[2], f.name))
        for number, row in enumerate(file.rows)
    ]
    if not table.sequence:
        return rows
    counted: dict[tuple, list[str]] = {}
    for file, _, row in rows:
        if not file.is_load:
            counted.setdefault(key_of(table, row), []).append(row.get(table.sequence) or "")
    proven = {key for key, texts in counted.items() if all(len(text) == 35 and text.isdigit() for text in texts)}
    loads, rest = [one for one in rows if one[0].is_load], [one for one in rows if not one[0].is_load]
    mine = [one for one in rest if key_of(table, one[2]) in proven]
    return loads + [one for one in rest if key_of(table, one[2]) not in proven] + sorted(mine, key=lambda one: one[2][table.sequence])


def key_of(table: Table, row: Row) -> tuple:
    return tuple(plain(row.get(name)) for name in table.key)


def after(table: Table, files: Sequence[File]) -> list[Row]:
    "The table's rows after these files, one change after the other; a deleted row stays marked where deletes are soft."
    if table.settings.get("insert_only"):
        return [{"Op": "I", **row} for _, _, row in ordered(table, files)]
    state: dict[tuple, Row] = {}
    for _, _, row in ordered(table, files):
        key, op, values = key_of(table, row), row.get("Op", "I"), {n: v for n, v in row.items() if n != "Op"}
        old = state.get(key)
        lives = old is not None and old["Op"] != "D"
        if op != "D":
            state[key] = {**(old if lives else {}), **values, "Op": op}
        elif table.soft and old:
            state[key] = {**old, "Op": "D"}
        else:
            state.pop(key, None)
    return list(state.values())


def plain(value: Any) -> Any:
    "A value that compares with what any reader makes of it, whatever its type is called there."
    match value:
        case bool() | None | bytes():
            return value
        case int():
            return f"number {value}"
        case Decimal():
            return f"number {value:f}".rstrip("0").rstrip(".") if "." in f"{value:f}" else f"number {value:f}"
        case float():
            return f"float {value + 0.0!r}" if value else "float 0.0"
        case datetime():
            return f"moment {(value.astimezone(timezone.utc) if value.tzinfo else value).replace(tzinfo=None).isoformat()}"
        case date():
            return f"day {value.isoformat()}"
        case time():
            return f"time {value}"
    return value


def shown(table: Table, rows: Sequence[Row], columns: Sequence[str], deleted: bool = True) -> list[tuple]:
    "Rows as they are compared: in the order of the columns, sorted."
    kept, clocks = [row for row in rows if deleted or row.get("Op") != "D"], {name for name, kind in table.columns.items() if pa.types.is_time(kind)}
    return sorted((tuple(plain(clock(row.get(name)) if name in clocks else row.get(name)) for name in columns) for row in kept), key=repr)


def clock(value: Any) -> Any:
    return time.fromisoformat(value) if isinstance(value, str) else value  # the lake keeps times of day as texts
