"""Lands the adversary's tables, direct and shuffled, asks everything of what came out, and says what is wrong."""

from __future__ import annotations

import re
import signal
import sqlite3
import time as clock
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing as closed
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
from told import GOOD, File, Row, Table, after, key_of, shown

from dmscdc.history.as_of import as_known, as_of
from dmscdc.history.audit import AGREES, audit_row
from dmscdc.history.changelog import Changelog, open_changelog, upto
from dmscdc.history.span import landed
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.load.results import Processed
from dmscdc.reconcile.explain import ProofRequest, prove
from dmscdc.scd2.update import update_versions
from dmscdc.state.position import Position
from dmscdc.state.sqlite import SqliteState
from engines import feed
from ways import BOTH, take

HANG = 240  # seconds after which one step counts as hanging; it takes a hundredth of that
FOREIGN = ("Traceback", "org.apache", "java.", "Py4J", "SQLSTATE", "pyarrow.", "object is not", "object has no")  # a library's words
KINDS = ("Error:", "Exception:")  # of errors, which may stand in a reason
REASON = re.compile(  # where one line of theirs follows our own words, and the command comes behind it
    r" is not an entry of a transaction log of dmscdc \((?:KeyError|JSONDecodeError|UnicodeDecodeError): [^\n]{1,160}?\)\. (?=Bring )"
    r"|(?:cannot be read, |: )it is damaged: [^\n]{1,200}?\. (?=Take it out|Load the table again|Put )"
)
NOBODY = "__HIVE_DEFAULT_PARTITION__"


class Hanging(Exception):
    "A step that did not end."


@contextmanager
def not_for_ever() -> Iterator[None]:
    "A step that does not end is ended, and is a failure of its table."

    def stop(*_):
        raise Hanging(f"no end after {HANG} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Place:
    "One table in one lake."

    root: Path
    way: str
    table: Table
    spark: Any

    @property
    def ref(self) -> TableRef:
        return TableRef.parse(self.table.name)

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def raw(self) -> Path:
        return self.landing.joinpath(*self.table.name.split(".", 1))

    @property
    def home(self) -> Path:
        return self.root / self.way

    @property
    def lake(self) -> Path:
        return self.home / "lake"

    @property
    def folder(self) -> Path:
        return self.lake.joinpath(*self.table.name.split(".", 1))

    @property
    def state(self) -> SqliteState:
        return SqliteState(self.home / "state.db")

    @property
    def places(self) -> list[str]:
        return [self.table.name, str(self.landing), str(self.lake), f"sqlite:{self.home / 'state.db'}"]

    @property
    def there(self) -> ParquetTable:
        return ParquetTable(str(self.lake), self.ref)

    def past(self) -> Changelog:
        return open_changelog(str(self.landing), self.ref, position=Position.from_json(self.there.head().position))

    def go(self) -> Processed:
        return process_table(*self.places, quiet_period=0, run="adversary", spark=lambda: self.spark)


def rows_in(folder: Path) -> list[Row]:
    "All rows that a reader of a folder finds, by pyarrow alone; values of partitions as texts of their folders."
    found: list[Row] = []
    for path in sorted(folder.rglob("*.parquet")) if folder.exists() else ():
        parts = [part.partition("=") for part in path.relative_to(folder).parent.parts]
        outside = {unquote(name): None if value == NOBODY else In(unquote(value)) for name, _, value in parts}
        found += [{**row, **outside} for row in pq.ParquetFile(path).read().to_pylist()]
    return found


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*.parquet")) if path.is_file()}


class In(str):
    "A value as a folder's name has it."


def as_in_folders(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    "Values of partitions as the name of a folder has them."
    return [{name: in_folder(value) if name in names else value for name, value in row.items()} for row in rows]


def in_folder(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return In(value.isoformat() if isinstance(value, date) else str(value))


# What is wrong


@dataclass
class Trouble:
    "Something that fails the test."

    table: Table
    way: str
    step: str
    words: str

    def __str__(self) -> str:
        return f"{self.table.name} ({self.table.about}), {self.way}, {self.step}: {self.words}"


@dataclass
class Siege:
    "One landing of many tables."

    root: Path
    spark: Any
    tables: Sequence[Table]
    ways: Sequence[str] = BOTH
    troubles: list[Trouble] = field(default_factory=list)
    tried: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.tried[what] = self.tried.get(what, 0) + 1

    def compared(self, place: Place, question: str) -> None:
        self.count(f"{place.way} {question}")

    @contextmanager
    def watched(self, table: Table, way: str, step: str) -> Iterator[None]:
        "Whatever goes wrong here is the table's trouble."
        self.count(step.partition(" ")[0])
        begun = clock.perf_counter()
        try:
            with not_for_ever():
                yield
        except Hanging as error:
            self.troubles.append(Trouble(table, way, step, str(error)))
        except AssertionError as error:
            self.troubles.append(Trouble(table, way, step, str(error)[:1500]))
        except Exception:
            self.troubles.append(Trouble(table, way, step, f"a trace: {traceback.format_exc(limit=-4)[-1800:]}"))
        self.seconds[step] = self.seconds.get(step, 0.0) + clock.perf_counter() - begun

    def lay(self) -> Siege:
        for table in self.tables:
            places = {way: Place(self.root, way, table, self.spark) for way in self.ways}
            failed = len(self.troubles)
            with self.watched(table, "both", "settings"):
                for place in places.values():
                    place.home.mkdir(parents=True, exist_ok=True)
                    place.state.put_settings(place.ref, **{"key": table.key, **table.settings})
            for number in range(1, table.rounds + 1):
                for file in table.files:
                    if file.round == number:
                        file.write(places[self.ways[0]].raw)
                for way, place in places.items():
                    take(way, self.spark)
                    if number in table.tampered:
                        table.tampered[number](place)
                    stood = files_in(place.folder) if number in table.said and table.said[number].spoiled else {}
                    with self.watched(table, way, f"pass {number}"):
                        self.check(place, number, place.go(), stood)
            if table.asked and len(self.troubles) == failed:
                self.ask(table, places)
        return self

    # After a pass

    def check(self, place: Place, number: int, done: Processed, stood: dict[str, bytes]) -> None:
        "A good verdict and the right rows; or words, and nothing wrong in the lake."
        table, said = place.table, place.table.said.get(number)
        if done.verdict in GOOD:
            assert said is None or done.verdict in said.verdicts, f"it ends with {done.verdict}, expected was one of {said.verdicts}: {done.words}"
            return self.compare(place, [table.there(number)])
        if said is None:
            assert number in table.either, f"{done.verdict}: {'; '.join((done.words, *done.notes))}"
        words = "; ".join((done.words, *done.notes))
        assert said is None or done.verdict in said.verdicts, f"it ends with {done.verdict}: {words}"
        assert not [name for name in (said.names if said else ()) if name not in words], f"{said.names} are not all named: {words}"
        assert not [word for word in FOREIGN if word in words], f"a library's words: {words}"
        assert not [kind for kind in KINDS if kind in REASON.sub("", words)], f"a library's words: {words}"
        if said and said.spoiled:
            assert stood and files_in(place.folder) == stood, "files of a damaged lake were touched"
            return
        before, loads = table.there(number - 1), [f for f in table.there(number) if f.is_load]
        applied = [f for f in table.there(number) if f not in before and f.as_is is None]
        if said and said.right:
            return self.compare(place, [table.there(number)])
        if said and said.gone:
            return self.compare(place, [[]])
        self.compare(place, [before, loads, [*before, *applied]] if done.verdict == "attention" else [before, loads])

    def compare(self, place: Place, may: Sequence[Sequence[File]]) -> None:
        "The lake holds what the oracle makes of one of these lists of files."
        table, partition = place.table, [name for name in str(place.table.settings.get("partition", "")).split(",") if name]
        have, names = rows_in(place.folder), [*table.columns, "Op"] if table.soft else list(table.columns)
        known = [name for name in names if not have or any(name in row for row in have)]
        marked = lambda rows: [{**row, "Op": "D" if row["Op"] == "D" else ""} for row in rows] if table.soft else rows  # noqa: E731
        got = shown(table, marked(have), known)
        want = [shown(table, marked(as_in_folders(after(table, files), partition)), known) for files in may]
        assert got in want, "a wrong table: " + differ(got, want[0])
        lost = {name for name in table.columns if any(name in file.columns for file in may[0]) and name not in known}
        assert not (got and lost), f"columns {sorted(lost)} are not in the lake"

    # Questions

    def ask(self, table: Table, places: dict[str, Place]) -> None:
        for number, question in enumerate(table.due):
            way = self.ways[(number + crc32(table.name.encode())) % len(self.ways)]  # of one table this, of another that
            take(way, self.spark)
            with self.watched(table, way, question):
                getattr(self, question)(places[way])

    def history(self, place: Place) -> None:
        table = place.table
        last = {key_of(table, row): row for row in after(table, table.there(99)) if row["Op"] != "D"}
        rows = {key_of(table, row): row for file in table.files for row in file.rows if all(row.get(k) is not None for k in table.key)}
        for key, row in list(rows.items())[:3]:
            stories, words = audit_row(str(place.landing), place.there, {k: typed_by_hand(row[k]) for k in table.key}, key=table.key)
            assert len(stories) == 1, f"{len(stories)} lives of {row}: {words}"
            assert stories[0].verdict == AGREES, f"{row}: {stories[0].verdict}: {stories[0].why} {stories[0].differs}"
            state, want = stories[0].life.state, last.get(key)
            assert (state is None) == (want is None), f"{row}: {state}, expected was {want}"
            got, expected = (shown(table, [one] if want else [], list(table.columns)) for one in (state, want))
            assert got == expected, f"{row}: {differ(got, expected)}"
            self.compared(place, "history")

    def as_of(self, place: Place) -> None:
        table, past = place.table, place.past()
        files = table.there(99)
        self.same(place, as_of(self.spark, past, self.key(table)).rows.toArrow().to_pylist(), after(table, files), "all that landed")
        if table.rounds == 1 or not place.there.head():
            return
        known = as_known(self.spark, place.there, place.there.head().number, place.past).rows.toArrow().to_pylist()
        self.same(place, known, after(table, files), "as the newest commit knew it")

    def key(self, table: Table) -> tuple:
        return () if table.settings.get("insert_only") else table.key

    def same(self, place: Place, rows: Sequence[Any], want: Sequence[Row], what: str) -> None:
        table, names = place.table, list(place.table.columns)
        got, expected = shown(table, rows, names), shown(table, want, names, deleted=False)
        assert got == expected, f"{what}: {differ(got, expected)}"
        self.compared(place, "as_of")

    def feed(self, place: Place) -> None:
        table, past = place.table, place.past()
        files = table.there(99)
        everything = feed(self.spark, past, table.key).rows.toArrow().to_pylist()
        self.read(place, [], everything, after(table, files), "from nothing")
        if table.sequence or len(past.changes) < 2:
            return
        middle = past.changes[len(past.changes) // 2 - 1]
        until = [f for f in files if f.is_load or f.name in {c.path for c in past.changes[: len(past.changes) // 2]}]
        part = feed(self.spark, past, table.key, landed(upto(past, middle.path)), net=False).rows.toArrow().to_pylist()
        self.read(place, after(table, until), part, after(table, files), f"from {middle.path} on")

    def read(self, place: Place, begin: Sequence[Row], told: Sequence[Any], end: Sequence[Row], what: str) -> None:
        "A reader who has these rows and applies the feed has those."
        table = place.table
        state = {key_of(table, row): row for row in begin if row["Op"] != "D"}
        for row in told:
            kind = row["_change_type"]
            if kind == "reset":
                state = {}
            elif kind == "delete":
                state.pop(key_of(table, row), None)
            elif kind != "update_preimage":
                state[key_of(table, row)] = row
        got, want = shown(table, list(state.values()), list(table.columns)), shown(table, end, list(table.columns), deleted=False)
        assert got == want, f"{what}: {differ(got, want)}"
        self.compared(place, "feed")

    def versions(self, place: Place) -> None:
        "What is valid at each closing of a file is the table after it."
        table = place.table
        done = update_versions(*place.places, landed=True, quiet_period=0, run="adversary", spark=lambda: self.spark)
        assert done.verdict in ("ok", "nothing", "attention"), done.words
        rows = rows_in(place.folder.parent / f"{place.folder.name}_scd2")
        files = table.there(99)
        current = [row for row in rows if row["is_current"]]
        self.same_rows(place, current, after(table, files), "current versions")
        if table.sequence or any(f.name.count("/") for f in files):
            return
        for one in (f for f in files if not f.is_load):
            then = [row for row in rows if row["valid_from"] <= one.closed and (row["valid_to"] is None or row["valid_to"] > one.closed)]
            self.same_rows(place, then, after(table, [f for f in files if f.is_load or f.name <= one.name]), f"versions at {one.closed}")

    def same_rows(self, place: Place, have: Sequence[Row], want: Sequence[Row], what: str) -> None:
        table = place.table
        got, expected = shown(table, have, list(table.columns)), shown(table, want, list(table.columns), deleted=False)
        assert got == expected, f"{what}: {differ(got, expected)}"
        self.compared(place, "versions")

    def reconcile(self, place: Place) -> None:
        "Equal to its source; and one value changed there is found."
        table = place.table
        rows = [row for row in after(table, table.there(99)) if row["Op"] != "D"]
        path = place.home / f"source-{len(list(place.home.glob('source-*')))}.db"
        with closed(sqlite3.connect(path)) as db:
            columns = ", ".join(f"{quoted(n)} {declared(k)}" for n, k in table.columns.items())
            db.execute(f"CREATE TABLE source ({columns})")
            for row in rows:
                db.execute(f"INSERT INTO source VALUES ({', '.join('?' * len(table.columns))})", [in_sqlite(row.get(n)) for n in table.columns])
            db.commit()
            asked = ProofRequest(
                place.ref, str(place.landing), str(place.lake), place.places[3], f"sqlite:{path}", source_table="main.source", wait=0.0
            )
            found = prove(asked, lambda: self.spark)
            assert found.verdict == "ok" and found.done.is_equal, f"a false alarm: {found.words}"
            self.compared(place, "reconcile")
            name = next((n for n, kind in table.columns.items() if kind == pa.string() and n not in table.key), None)
            if not rows or name is None:
                return
            where = " AND ".join(f"{quoted(k)} = ?" for k in table.key)
            db.execute(
                f"UPDATE source SET {quoted(name)} = coalesce({quoted(name)}, '') || '~' WHERE {where}", [in_sqlite(rows[0][k]) for k in table.key]
            )
            db.commit()
        found = prove(asked, lambda: self.spark)
        assert found.verdict != "ok" and [list(f.columns) for f in found.done.findings] == [[name]], f"one value of {name} was changed: {found.words}"


def differ(got: Sequence[tuple], want: Sequence[tuple]) -> str:
    more, less = [row for row in got if row not in want], [row for row in want if row not in got]
    return f"{len(got)} rows, expected were {len(want)}; too many {more[:3]}; missing {less[:3]}"[:1200]


def typed_by_hand(value: Any) -> Any:
    return str(value) if isinstance(value, (int, Decimal)) and not isinstance(value, bool) else value


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def declared(kind: pa.DataType) -> str:
    "A column of SQLite that holds these values exactly."
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})" if kind.precision < 15 else "TEXT"
    known = {
        pa.bool_(): "BOOLEAN",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.date32(): "DATE",
        pa.string(): "TEXT",
        pa.binary(): "BLOB",
        pa.time32("ms"): "TIME",
        pa.uint64(): "TEXT",
        pa.int64(): "BIGINT",
        pa.int8(): "TINYINT",
        pa.int16(): "SMALLINT",
        pa.int32(): "INT",
        pa.uint32(): "BIGINT",
    }
    return "DATETIME" if pa.types.is_timestamp(kind) else known.get(kind, "INT")


def in_sqlite(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(" ", "microseconds")
        case date() | time():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bool():
            return int(value)
        case int():
            return value if abs(value) < 2**63 else str(value)
    return value
