"""A history: what happens at a SQLite database, at DMS and in the lake, told in a few lines, and what must hold after each pass."""

from __future__ import annotations

import csv
import gzip
import os
import re
import shutil
import sqlite3
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Sequence, Union

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dmscdc.capture.sqlite import SqliteSource
from dmscdc.capture.writer import DmsSettings
from dmscdc.load.results import Processed
from readers import FORMAT, source
from seeds import seed_of
from world import World

SEED = seed_of("HISTORY_SEED")
COUNT = int(os.environ.get("HISTORIES") or 8)
TRIED: Counter = Counter()  # what all histories of this process came to
TABLES = {
    "item": "id INTEGER PRIMARY KEY, title TEXT, price DECIMAL(12,2), big BIGINT",
    "place": "city TEXT NOT NULL, day DATE NOT NULL, region TEXT, visits INT, PRIMARY KEY (city, day)",
    "word": "word TEXT NOT NULL PRIMARY KEY, raw BLOB, at DATETIME",
    "log": "said TEXT, level INT NOT NULL",
}
KNOWN_TYPES = {"TINYINT": "INTEGER", "SMALLINT": "INTEGER"} if FORMAT in ("iceberg", "hudi", "hudi-mor") else {}  # they have no smaller ones
KEYS = {"item": ("id",), "place": ("city", "day"), "word": ("word",), "log": ()}
SETTINGS = {"item": {}, "place": {"partition": "region"}, "word": {}, "log": {"insert_only": True}}
LATER = {
    "n_real": "REAL",
    "n_text": "VARCHAR(20)",
    "n_date": "DATE",
    "n_time": "TIMESTAMP",
    "n_decimal": "DECIMAL(20,4)",
    "n_blob": "BLOB",
    "n_flag": "BOOLEAN",
    "n_small": "SMALLINT",
    "n_tiny": "TINYINT",
    "n_unsigned": "INT UNSIGNED",
    "n_int": "INT",
}  # columns that tables may get
LAKE = {
    "INTEGER": "INTEGER",
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "INT UNSIGNED": "BIGINT",
    "SMALLINT": "SMALLINT",
    "TINYINT": "TINYINT",
    "REAL": "DOUBLE",
    "TEXT": "VARCHAR",
    "VARCHAR(20)": "VARCHAR",
    "DECIMAL(12,2)": "DECIMAL(12,2)",
    "DECIMAL(20,4)": "DECIMAL(20,4)",
    "DATE": "DATE",
    "DATETIME": "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP": "TIMESTAMP WITH TIME ZONE",
    "BLOB": "BLOB",
    "BOOLEAN": "BOOLEAN",
}  # as DuckDB calls them
HIVE = {
    "INTEGER": "int",
    "BIGINT": "bigint",
    "SMALLINT": "smallint",
    "TINYINT": "tinyint",
    "DOUBLE": "double",
    "VARCHAR": "string",
    "BLOB": "binary",
    "DECIMAL(12,2)": "decimal(12,2)",
    "DECIMAL(20,4)": "decimal(20,4)",
    "DATE": "date",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "BOOLEAN": "boolean",
}
OURS = {"Op", "_cdc_file", "_cdc_row"}
BEGIN = datetime(2050, 12, 15, 10, tzinfo=timezone.utc)  # ahead of every clock, so that only the histories' own time counts
STEP, PAUSE = timedelta(seconds=2), timedelta(seconds=75)  # between two steps; before a load, so that no file before it is near

Step = Union[str, Sequence[str]]


@dataclass(frozen=True)
class History:
    """What happens, step by step, and how the task and the tables are set.

    A step is an SQL statement, a transaction as a tuple of statements (the last may be ROLLBACK), or one of these, in capitals:
    LOAD [table]            DMS loads a table, or all that hold rows; changes before it that are in no file are left out
    LOAD [table] REPEATING  the same, but the changes that waited are written after it, although the load holds them
    SNAP                    a second task reads the tables that have no load yet; its files take their time
    PUT                     they are there: what changed since was written before them
    CLOSE [bytes]           DMS writes what waits into change files: one a table, or a new one after so many bytes
    RESUME number           a task with a change sequence sends the changes of so many files again
    AWAY number             one of the change files that no pass has seen is held back
    BACK                    what was held back arrives
    SPOIL number            the first row of one of the change files that no pass has seen gets an Op that is none
    MEND                    spoiled files are repaired, and replayed
    PASS                    every table is processed, and must be what the database says
    At the end come CLOSE, BACK, MEND and PASS. A step that is not possible is left out, as a statement is that SQLite refuses.
    """

    steps: tuple[Step, ...]
    sequence: bool = False  # change files carry a change sequence
    stamp: bool = False  # all files carry a timestamp column
    op: bool = False  # load files carry Op
    parts: bool = False  # a load comes in several files
    soft: bool = False  # deletes mark the row
    csv: bool = False  # DMS writes CSV
    header: bool = False  # with a header, if it writes CSV
    zipped: bool = False  # compressed, if it writes CSV
    images: bool = False  # updates carry the key before them

    def __repr__(self) -> str:
        said = "".join(f", {f.name}=True" for f in fields(self)[1:] if getattr(self, f.name))
        return "History((\n" + "".join(f"    {step!r},\n" for step in self.steps) + f"){said})"

    @property
    def task(self) -> DmsSettings:
        "As DMS is told."
        names = {"sequence_column": "seq" * self.sequence, "timestamp_column": "ts" * self.stamp, "before_image": "pk-only" * self.images}
        if self.csv:
            names |= {"data_format": "csv", "add_column_name": self.header, "gzip": self.zipped}
        return DmsSettings(**names, include_op_for_full_load=self.op, max_file_size=0.02 if self.parts else 1024)

    def added(self, table: str) -> list[str]:
        "The columns that rules of the task add behind those of the source."
        return ["seq"] * self.sequence + [f"BI_{k}" for k in KEYS[table]] * self.images

    def told(self, table: str) -> dict[str, Any]:
        "What a person sets of the CSV files, where they have no header."
        return {"nulls": [""], "timestamp": "ts", **({"more": more} if (more := self.added(table)) else {})}


# What the database says


@dataclass
class Moment:
    "A table as the database had it after one change."

    columns: list[tuple[str, str]]  # name and declared type
    rows: list[dict[str, Any]]
    exact: bool = True  # False: its columns were added later, when some of its changes were still waiting

    def keys(self, names: Sequence[str]) -> set[tuple]:
        return {tuple(row[k] for k in names) for row in self.rows}


def value_of(value: Any, declared: str) -> Any:
    "A value of SQLite in the type that its column was declared with; times as microseconds since 1970."
    if value is None:
        return None
    if declared.startswith("DECIMAL"):
        return Decimal(repr(value)).quantize(Decimal(1).scaleb(-int(declared[-2])))
    if declared == "DATE":
        return date.fromisoformat(value)
    if declared in ("DATETIME", "TIMESTAMP"):
        return (datetime.fromisoformat(value).replace(tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    return {"BOOLEAN": bool, "REAL": float}.get(declared, lambda same: same)(value)


def rows_in(path: Path) -> int:
    "The rows of a change file, as Python's csv module reads it if it is CSV."
    if path.suffix == ".parquet":
        return pq.read_metadata(path).num_rows
    text = (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="")
    with text:
        rows = sum(1 for _ in csv.reader(text))
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as text:
        return rows - text.read(3).startswith("Op,")


def spoiled(path: Path) -> None:
    "Another Op in the first row."
    if path.suffix == ".parquet":
        rows = pq.read_table(path)
        ops = ["X", *rows["Op"].to_pylist()[1:]]
        pq.write_table(rows.set_column(rows.schema.get_field_index("Op"), "Op", pa.array(ops)), path)
        return
    how = gzip.open if path.suffix == ".gz" else open
    with how(path, "rb") as file:
        text = file.read()
    begin = text.index(b"\n") + 1 if text.startswith(b"Op,") else 0
    with how(path, "wb") as file:
        file.write(text[:begin] + b"X" + text[begin + 1 :])


def fields_in(path: Path) -> int:
    "The fields of a CSV file's first row; 0 where it has none."
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as text:
        return len(next(csv.reader(text), ()))


@dataclass
class File:
    "A change file, and the number of the last change in it."

    path: Path
    last: int
    sound: bytes | None = None  # of a spoiled file: what it should hold


@dataclass
class SyncResult:
    "What the files told of one table so far."

    world: World
    moments: dict[int, Moment] = field(default_factory=dict)  # by the number of the last change
    files: list[File] = field(default_factory=list)  # in order, also those held back
    captured: int = 0  # number of the last change that a file or a load holds
    load: int = 0  # number of the last change that the newest load holds
    exact: bool = True  # nothing from before the newest load comes after it
    was_late: bool = False  # a file was held back
    doubled: bool = False  # without a key: changes that the load holds come after it
    resumed: bool = False  # changes were sent again
    columns: list = field(default_factory=list)  # when last captured
    read: int = 0  # number of the last change that a load of a second task holds, which is not there yet

    @property
    def due(self) -> int | None:
        "The change up to which the lake holds everything and nothing else; None while load and changes overlap, or while a file before the newest is missing or spoiled."
        if self.doubled or any(file.sound is not None for file in self.files):
            return None  # its other rows are applied
        there = [file.path.exists() for file in self.files]
        newest = self.files[there.count(True) - 1].last if any(there) else 0
        if there != sorted(there, reverse=True) or not (self.load or newest):
            return None
        return newest if newest >= self.load else self.load if self.exact else None


class RowLife:
    "A history as it is lived: a database, the stand-in for DMS, and the lake."

    def __init__(self, root: Path, spark, history: History):
        self.root, self.spark, self.history, self.now, self.seen = root, spark, history, BEGIN, set()
        self.db = sqlite3.connect(root / "shop.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        for name, columns in TABLES.items():
            self.db.execute(f"CREATE TABLE {name} ({columns})")
        self.source = SqliteSource(root / "shop.db", schema="shop")
        self.source.install()
        self.tables = {name: SyncResult(self.world(name), columns=self.moment(name).columns) for name in TABLES}
        self.duck = duckdb.connect()
        self.look()

    def world(self, table: str, root: Path | None = None) -> World:
        "Where a table's files come and go, with a state that knows its settings."
        how = {
            "key": KEYS[table],
            "delete": "soft" if self.history.soft else "hard",
            "bad_rows": "aside",
            **SETTINGS[table],
            **self.definition(table),
        }
        return World(root or self.root, self.spark, {}, f"shop.{table}").set(**how)

    def definition(self, table: str) -> dict[str, Any]:
        "What a person sets of CSV files: the columns that the files have, each version from its first file on, and what is unusual about them."
        if not self.history.csv:
            return {}
        every, versions = [(name, HIVE[LAKE[kind]]) for name, kind in self.moment(table).columns], []
        if self.history.header:
            return {"columns": every, "csv": self.history.told(table)}
        files = [file.path if file.path.exists() else self.aside(file.path) for file in (self.tables[table].files if hasattr(self, "tables") else ())]
        loads = sorted((self.root / "landing/shop" / table).glob("LOAD*"))[:1]
        for path in (*loads, *sorted(files, key=lambda path: path.name)):
            more = self.history.sequence if path in loads else len(self.history.added(table))  # a load has no rows before its own
            count = fields_in(path) - (path not in loads or self.history.op) - self.history.stamp - more
            since, columns = "" if path in loads else path.name, every[:count]
            if count > 0 and (not versions or versions[-1][1] != columns):
                versions.append((since if versions else "", columns))
        return {"columns": versions[0][1] if versions else every, "csv": {**self.history.told(table), "versions": versions[1:]}}

    def live(self) -> RowLife:
        "Everything that happens, to the end."
        TRIED["histories"] += 1
        for step in (*self.history.steps, "PUT", "CLOSE", "BACK", "MEND", "PASS"):
            self.take(step)
        return self

    def take(self, step: Step) -> None:
        "One step."
        self.now += STEP
        word, *rest = step.split() if isinstance(step, str) else [""]
        act = {
            "LOAD": self.load,
            "SNAP": self.snap,
            "PUT": self.put,
            "RESUME": self.resume,
            "CLOSE": self.close,
            "AWAY": self.away,
            "BACK": self.back,
            "SPOIL": self.spoil,
            "MEND": self.mend,
            "PASS": self.go,
        }.get(word)
        act(*rest) if act else self.say(step)

    # The database

    def moment(self, table: str) -> Moment:
        columns = [(name, declared) for _, name, declared, *_ in self.db.execute(f"PRAGMA table_info({table})")]
        rows = self.db.execute(f"SELECT * FROM {table}").fetchall()
        return Moment(columns, [{name: value_of(value, declared) for (name, declared), value in zip(columns, row)} for row in rows])

    def waiting(self, table: str) -> list[int]:
        "Numbers of the changes that are in no file yet."
        return [n for (n,) in self.db.execute("SELECT n FROM dmscdc_changes WHERE source = ? ORDER BY n", (table,))]

    def look(self) -> None:
        "Remember every table as it is now; forget what was rolled back."
        for name, told in self.tables.items():
            n = max([told.captured, *self.waiting(name)[-1:]])
            told.moments = {m: moment for m, moment in told.moments.items() if m <= n}
            if n > told.captured or n not in told.moments:
                told.moments[n] = self.moment(name)

    def say(self, step: Step) -> None:
        "A statement, or several as a transaction."
        statements = (step,) if isinstance(step, str) else step
        TRIED["statements"] += len(statements)
        if len(statements) > 1:
            self.db.execute("BEGIN")
        for statement in statements:
            key = re.match(r"UPDATE (\w+) SET (\w+)", statement)
            if key and key[2] in KEYS[key[1]]:
                if not self.history.images:
                    continue  # nothing in the files would tell of it
                TRIED["statements that change a key"] += 1
            with suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
                self.db.execute(statement)
            TRIED["roll-backs"] += statement.upper().startswith("ROLLBACK")
            self.look()
        if self.db.in_transaction:
            self.db.execute("COMMIT")

    # DMS

    def load(self, *words: str) -> None:
        repeating, chosen = "REPEATING" in words, [word for word in words if word != "REPEATING"]
        if not repeating:
            self.now += PAUSE
        for name in chosen or TABLES:
            told, waits = self.tables[name], self.waiting(name)
            held_back = [file for file in told.files if not file.path.exists()]
            first = not told.load or told.world.state.get(told.world.ref).position is None
            if not repeating and told.files and first:
                continue  # a first load gets all changes: of a task begun anew since, nothing tells
            if self.moment(name).rows and (repeating or not held_back):
                self.load_table(name, told, waits * repeating)

    def load_table(self, name: str, told: SyncResult, repeated: list[int]) -> None:
        first = told.load == 0  # what lies before it is applied too; without a key that doubles rows, which a note says
        for old in told.world.raw.glob("LOAD*"):
            old.unlink()
        for file in told.files:
            file.sound = None  # what is wrong in it is in the load
        self.source.install()  # added columns are seen
        self.db.execute("CREATE TEMP TABLE waiting AS SELECT * FROM dmscdc_changes WHERE source = ?", (name,))
        loaded = self.source.full_load(self.root / "landing", self.history.task, tables=[name], now=self.now)
        if repeated:
            self.db.execute("INSERT INTO dmscdc_changes SELECT * FROM waiting")
        self.db.execute("DROP TABLE waiting")
        told.load = max([told.captured, *repeated, *told.moments])
        told.doubled = not KEYS[name] and bool(repeated or first and told.files)
        shutil.rmtree(self.root / "apart/shop" / name, ignore_errors=True)
        told.exact = not repeated and (not told.files or self.files_are_old(told))
        if not repeated:
            told.captured = told.load
        told.moments[told.load] = self.moment(name)
        if not repeated:
            told.columns = told.moments[told.load].columns
        TRIED["load files"] += len(loaded)
        TRIED["reloads"] += told.world.state.get(told.world.ref).position is not None

    def snap(self) -> None:
        self.source.install()
        for name, told in self.tables.items():
            if told.load or not KEYS[name] or not self.moment(name).rows:
                continue
            self.db.execute("CREATE TEMP TABLE waiting AS SELECT * FROM dmscdc_changes WHERE source = ?", (name,))
            shutil.rmtree(self.root / "apart/shop" / name, ignore_errors=True)
            self.source.full_load(self.root / "apart", self.history.task, tables=[name], now=self.now)
            self.db.execute("INSERT INTO dmscdc_changes SELECT * FROM waiting")
            self.db.execute("DROP TABLE waiting")
            told.read = max([told.captured, *self.waiting(name), *told.moments])

    def put(self) -> None:
        for name, told in self.tables.items():
            files = sorted((self.root / "apart/shop" / name).glob("*"))
            if not files:
                continue
            told.world.raw.mkdir(parents=True, exist_ok=True)
            for file in files:
                os.utime(file, (self.now.timestamp(),) * 2)
                file.rename(told.world.raw / file.name)
            told.load, told.exact = told.read, False
            TRIED["loads by a second task"] += 1

    def resume(self, number: str) -> None:
        for told in self.tables.values() if self.history.sequence else ():
            since = [file for before, file in zip([None, *told.files], told.files) if (before.last if before else 0) >= told.load]
            if any(file.sound is not None or not file.path.exists() for file in told.files):
                continue
            for at, file in enumerate(since[-1 - int(number) :]):
                again = file.path.with_name(f"{self.now:%Y%m%d-%H%M%S}{at:03}{''.join(file.path.suffixes)}")
                shutil.copyfile(file.path, again)
                os.utime(again, (self.now.timestamp(),) * 2)
                told.files.append(File(again, told.files[-1].last))
                told.resumed = True
                TRIED["files sent again"] += 1

    def files_are_old(self, told: SyncResult) -> bool:
        return all(file.path.exists() and self.now.timestamp() - file.path.stat().st_mtime >= PAUSE.total_seconds() for file in told.files)

    def close(self, size: str = "32000000") -> None:
        waits = {name: self.waiting(name) for name in TABLES}
        task = self.history.task
        cut = DmsSettings(**{f.name: getattr(task, f.name) for f in fields(task)} | {"min_file_size": int(size) / 1024})
        paths = self.source.drain(self.root / "landing", cut, now=self.now)
        for name, told in self.tables.items():
            mine = [path for path in paths if path.parent.name == name]
            if mine:
                self.note(name, told, waits[name], mine)
        TRIED["change files"] += len(paths)

    def note(self, name: str, told: SyncResult, waits: list[int], paths: list[Path]) -> None:
        "What the new files hold."
        at = 0
        for path in paths:
            at += rows_in(path)
            told.files.append(File(path, waits[at - 1]))
        assert at == len(waits), f"{len(waits)} changes of {name} were logged, {at} are in files"
        now = self.moment(name)
        if now.columns != told.columns:
            for n in waits:
                told.moments[n] = Moment(now.columns, told.moments[n].rows if n in told.moments else [], False)
        told.moments[waits[-1]], told.captured, told.columns = now, max(told.captured, waits[-1]), now.columns

    def away(self, number: str) -> None:
        files = [file for told in self.tables.values() for file in told.files if file.path.exists() and file.path not in self.seen]
        if not files:
            return
        path = files[int(number) % len(files)].path
        self.aside(path).parent.mkdir(parents=True, exist_ok=True)
        path.rename(self.aside(path))
        next(told for told in self.tables.values() if path in [file.path for file in told.files]).was_late = True
        TRIED["files held back"] += 1

    def spoil(self, number: str) -> None:
        chosen = [
            (told, file)
            for told in self.tables.values()
            for file in told.files
            if file.path.exists() and file.path not in self.seen and file.sound is None
        ]
        if not chosen:
            return
        told, file = chosen[int(number) % len(chosen)]
        file.sound, time = file.path.read_bytes(), file.path.stat().st_mtime
        spoiled(file.path)
        os.utime(file.path, (time, time))
        told.was_late = True  # what comes after it may miss it
        TRIED["files spoiled"] += 1

    def mend(self) -> None:
        for told in self.tables.values():
            mended = [file for file in told.files if file.sound is not None and file.path.exists()]
            for file in mended:
                time = file.path.stat().st_mtime
                file.path.write_bytes(file.sound)
                os.utime(file.path, (time, time))
                file.sound = None
            if again := [file.path.name for file in mended if file.path in self.seen and file.last > told.load]:
                told.world.state.instruct(told.world.ref, {"kind": "replay", "files": again})

    def aside(self, path: Path) -> Path:
        return self.root / "away" / path.parent.name / path.name

    def back(self) -> None:
        for told in self.tables.values():
            for file in told.files:
                if not file.path.exists():
                    os.utime(self.aside(file.path), (self.now.timestamp(),) * 2)
                    self.aside(file.path).rename(file.path)

    # The lake

    def go(self) -> None:
        "A pass, and what must hold after it."
        for name, told in self.tables.items():
            if not told.world.raw.exists():
                continue
            done = self.pass_over(told)
            TRIED["passes over a table with work"] += bool(done.files)
            for note in done.notes:
                assert expected(note, told), f"{name}: {note}"
            table_state = told.world.table_state()[:2]
            assert told.world.idle().verdict in ("nothing", "attention") and told.world.table_state()[:2] == table_state, (
                f"{name}: a pass with nothing to do moved the table"
            )
            self.check(name, told)
        self.seen |= {file.path for told in self.tables.values() for file in told.files if file.path.exists()}

    def pass_over(self, told: SyncResult) -> Processed:
        "One table processed; a load in doubt is decided, as a person would. CSV files need the table's definition as it is now."
        told.world.set(**self.definition(told.world.ref.name))
        done = told.world.go()
        if any("--reload --supersede" in note for note in done.notes):
            assert not done.files and told.world.state.get(told.world.ref).position, "doubt about a first load, or in spite of it"
            told.world.state.instruct(told.world.ref, {"kind": "reload", "changes": "supersede"})
            done = told.world.go()
            TRIED["loads in doubt"] += 1
        assert done.verdict in ("ok", "nothing", "attention"), done.words
        return done

    def check(self, name: str, told: SyncResult) -> None:
        "The lake is what the database said."
        due = told.due
        said = told.moments.get(due)
        if not said or not said.exact:
            TRIED["tables not compared"] += 1  # load and changes overlap, or a file is missing in between
            return
        lake = self.read(name, told.world)
        live = [row for row in lake.rows if row["Op"] != "D"]
        marked = {tuple(row[k] for k in KEYS[name]) for row in lake.rows if row["Op"] == "D"}
        same(f"{name} after change {due}: rows", ordered(project(live, said.columns)), ordered(said.rows))
        assert {row["Op"] for row in live} <= {"I", "U"} and (self.history.soft or not marked)
        if lake.columns:
            self.check_columns(name, said, lake)
        ever = {key for n, moment in told.moments.items() for key in moment.keys(KEYS[name]) if n <= due} - said.keys(KEYS[name])
        since = {key for n, moment in told.moments.items() for key in moment.keys(KEYS[name]) if told.load <= n <= due} - said.keys(KEYS[name])
        assert marked <= ever, f"{name}: rows marked as deleted that never were: {marked - ever}"
        if self.history.soft and told.exact and not told.was_late:
            same(f"{name} after change {due}: keys of marked rows", sorted(marked), sorted(since))
        TRIED["tables compared"] += 1

    def check_columns(self, name: str, said: Moment, lake: Lake) -> None:
        extra = OURS | set(self.history.added(name)) | ({"ts"} if self.history.stamp else set())
        place = SETTINGS[name].get("partition")
        own = [(column, kind) for column, kind in lake.columns if column not in extra and column != place]
        same(
            f"{name}: columns",
            own,
            [(column, KNOWN_TYPES.get(LAKE[declared], LAKE[declared])) for column, declared in said.columns if column != place],
        )
        assert {column for column, _ in lake.columns} | {f"BI_{k}" for k in KEYS[name]} == extra | {column for column, _ in said.columns} | {
            f"BI_{k}" for k in KEYS[name]
        }
        assert FORMAT != "parquet" or len({str([(c.name, c.type) for c in pq.read_schema(file)]) for file in self.lake_files(name)}) == 1, (
            f"{name}: lake files with different columns"
        )

    def lake_files(self, name: str) -> list[Path]:
        return sorted(self.tables[name].world.folder.rglob("*.parquet"))

    def read(self, name: str, world: World) -> Lake:
        "The lake's folder as DuckDB reads it."
        if not world.files():
            return Lake([], [])
        table = source(
            self.duck, world.folder, **{"hive_partitioning": "true", "hive_types": "{'region': VARCHAR}"} if "partition" in SETTINGS[name] else {}
        )
        columns = [(column, kind) for column, kind, *_ in self.duck.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()]
        values = [f'epoch_us("{column}")' if kind == "TIMESTAMP WITH TIME ZONE" else f'"{column}"' for column, kind in columns]
        names = [column for column, _ in columns]
        return Lake(columns, [dict(zip(names, row)) for row in self.duck.execute(f"SELECT {', '.join(values)} FROM {table}").fetchall()])

    def end(self) -> None:
        self.db.close()
        self.duck.close()
        shutil.rmtree(self.root)


@dataclass
class Lake:
    "What a reader of the lake finds."

    columns: list[tuple[str, str]]
    rows: list[dict[str, Any]]


def project(rows: list[dict], columns: list[tuple[str, str]]) -> list[dict]:
    return [{name: row.get(name) for name, _ in columns} for row in rows]


def ordered(rows: list[dict]) -> list[dict]:
    return sorted(rows, key=repr)


def same(what: str, found: list, wanted: list) -> None:
    "Shows only what differs."
    assert found == wanted, (
        f"{what}\n  only in the lake: {[x for x in found if x not in wanted]}\n  only in the database: {[x for x in wanted if x not in found]}"
    )


def expected(note: str, told: SyncResult) -> bool:
    "Is this note one that the history gives reason for?"
    if "sent it again" in note:
        return told.resumed
    if "was overtaken by a new load" in note:
        return told.read > 0
    if "equal to rows of the load" in note:
        return not KEYS[told.world.ref.name]
    if "quarantined" in note and told.resumed and not KEYS[told.world.ref.name]:
        return True
    if "quarantined" in note:
        return any(file.sound is not None for file in told.files) or told.was_late
    if "matched no row" in note or "given a key that another row still had" in note:
        return told.was_late or not told.exact
    if note.startswith("late file") or "arrived too late" in note:
        return told.was_late
    return False
