"""The life of a row, from the raw files alone. The oracle is SQLite: every raw row, read by DuckDB, becomes one SQL statement."""

from __future__ import annotations

import os
import random
import sqlite3
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmscdc.capture.writer import DmsSettings, change_sequence, write_changes, write_load
from dmscdc.errors import BadKey
from dmscdc.history.changelog import open_changelog
from dmscdc.history.lookup import KeyIndex
from dmscdc.history.row import row_lives, within_span
from dmscdc.landing.files import RawFile, TableRef
from dmscdc.state.position import Position

pytestmark = pytest.mark.quick

ITEM = TableRef("shop", "item")
NINE = datetime(2018, 12, 15, 9, tzinfo=timezone.utc)
SHAPE = {"id": "int", "part": "string", "name": "string", "price": "decimal(10,2)"}


class Landing:
    "The raw files of one table."

    def __init__(self, root: Path):
        self.root, self.folder = root, root / ITEM.schema / ITEM.name

    def load(self, rows, shape=SHAPE, number: int = 1, minutes: float = 0) -> None:
        write_load(self.root, ITEM, rows, shape, number, time=NINE + timedelta(minutes=minutes))

    def change(self, minutes: float, *rows, shape=SHAPE, put: float | None = None, **more) -> Path:
        closed = NINE + timedelta(minutes=minutes)
        when = NINE + timedelta(minutes=minutes if put is None else put, seconds=1)
        return write_changes(self.root, ITEM, rows, closed, shape, time=when, **more)

    def past(self, **more):
        return open_changelog(str(self.root), ITEM, **more)


@pytest.fixture
def landing(tmp_path) -> Landing:
    return Landing(tmp_path / "landing")


def raw_rows(folder: Path) -> list[tuple[str, int, str, dict]]:
    "File, row, Op and values of every raw row in order, as DuckDB reads them; load files first, then by base name and path."
    loads = sorted(folder.rglob("LOAD*.parquet"))
    changes = sorted(folder.rglob("2*-*.parquet"), key=lambda p: (p.name, str(p)))
    found = []
    with duckdb.connect() as db:
        for path in [*loads, *changes]:
            told = db.execute(f"select * from read_parquet('{path}', file_row_number=true) order by file_row_number")
            names = [column[0] for column in told.description]
            for values in told.fetchall():
                row = dict(zip(names, values))
                number, op = row.pop("file_row_number"), row.pop("Op", "I")
                found.append((str(path.relative_to(folder)), number, op, row))
    return found


def replayed(folder: Path, keys: list[str]) -> dict[tuple, list[tuple[str, int, bool, dict | None]]]:
    "File, row, whether it was there before, and the row afterwards, of each key: by SQLite, one statement a raw row."
    rows = raw_rows(folder)
    columns = list(dict.fromkeys(name for *_, row in rows for name in row))
    lives: dict[tuple, list] = {}
    with sqlite3.connect(":memory:") as db:
        db.execute(f"create table t ({', '.join(columns)}, primary key ({', '.join(keys)}))")
        here = " and ".join(f"{k} = ?" for k in keys)
        for file, number, op, row in rows:
            plain = {name: str(v) if isinstance(v, Decimal) else v for name, v in row.items()}
            key = tuple(plain[k] for k in keys)
            was = db.execute(f"select count(*) from t where {here}", key).fetchone()[0] == 1
            if op == "D":
                db.execute(f"delete from t where {here}", key)
            elif was:
                db.execute(f"update t set {', '.join(f'{n} = ?' for n in plain)} where {here}", [*plain.values(), *key])
            else:
                db.execute(f"insert into t ({', '.join(plain)}) values ({', '.join('?' * len(plain))})", list(plain.values()))
            after = db.execute(f"select * from t where {here}", key).fetchone()
            lives.setdefault(key, []).append((file, number, was, dict(zip(columns, after)) if after else None))
    return lives


def as_told(life) -> list[tuple]:
    "The same of our steps."

    def text(state):
        return None if state is None else {n: str(v) if isinstance(v, Decimal) else v for n, v in state.items()}

    return [(step.file.partition("#")[0], step.row, text(step.state)) for step in life.steps]


def filled(state: dict | None, columns) -> dict | None:
    "A column that was never carried is null."
    return None if state is None else {name: state.get(name) for name in columns}


def random_history(landing: Landing, seed: int) -> None:
    "A load of two files and some twenty change files: columns come and go, keys come back, folders repeat names."
    draw = random.Random(seed)
    keys = [(id, part) for id in range(1, 5) for part in "ab"]

    def row(shape, key):
        free = {"name": draw.choice([None, "", "Lamp", "Désk 灯"]), "price": draw.choice([None, "0.00", "39.90"]), "note": draw.choice([None, "x"])}
        return tuple({"id": key[0], "part": key[1], **free}[name] for name in shape)

    loaded = draw.sample(keys, 5)
    landing.load([row(SHAPE, k) for k in loaded[:3]])
    landing.load([row(SHAPE, k) for k in loaded[3:]], number=11)
    shapes = [
        SHAPE,
        {"id": "int", "part": "string", "price": "decimal(10,2)"},
        {**SHAPE, "note": "string"},
        {"part": "string", "id": "bigint", "note": "string"},
    ]
    for minutes in range(1, 21):
        shape = draw.choice(shapes)
        rows = [(draw.choice("IUUUD"), *row(shape, draw.choice(keys))) for _ in range(draw.randint(1, 6))]
        folder = draw.choice(["", "2018/12/15", "2018/12/16"])
        landing.change(minutes // 2, *rows, shape=shape, folder=folder)


@pytest.mark.parametrize("seed", range(25))
def test_every_state_of_every_key_is_what_sqlite_makes_of_the_same_rows(landing, seed):
    random_history(landing, seed)
    expected = replayed(landing.folder, ["id", "part"])
    columns = {name for told in expected.values() for *_, state in told if state for name in state}
    keys = [{"id": id, "part": part} for id, part in expected]
    for life, told in zip(row_lives(landing.past(), keys), expected.values(), strict=True):
        assert [(f, n, filled(s, columns)) for f, n, s in as_told(life)] == [(f, n, filled(s, columns)) for f, n, _, s in told]


@pytest.mark.parametrize("seed", range(25, 35))
def test_what_a_step_meant_and_what_differed_follow_from_the_states(landing, seed):
    random_history(landing, seed)
    expected = replayed(landing.folder, ["id", "part"])
    for (id, part), told in expected.items():
        (life,) = row_lives(landing.past(), [{"part": part, "id": str(id)}])
        before, lives = None, 0
        for step, (_, _, was, state) in zip(life.steps, told, strict=True):
            now = None if state is None else {n: v for n, v in state.items() if n not in ("id", "part")}
            old = before or {n: None for n in now or {}}
            differ = {n: (old[n], v) for n, v in (now or {}).items() if old[n] != v}
            lives += now is not None and not was
            shown = {c.column: tuple(str(v) if isinstance(v, Decimal) else v for v in (c.old, c.new)) for c in step.cells}
            assert shown == differ
            words = {
                ("D", True): "deleted",
                ("D", False): "delete of a row that was not there",
                ("U", True): "updated" if differ else "changed nothing",
                ("U", False): "update of a row that was not there",
                ("I", True): "insert of a row that was there" if differ else "changed nothing",
                ("I", False): "inserted" if lives < 2 else "inserted again",
            }
            assert (step.meant, step.life) == (words[step.op, was], lives)
            before = now


def test_load_rows_come_first_then_base_names_then_paths_then_rows(landing):
    landing.change(5, ("U", 1, "a", "third", None), ("U", 1, "a", "fourth", None), folder="2018/12/16")
    landing.change(5, ("U", 1, "a", "second", None), folder="2018/12/15")
    landing.change(4, ("U", 1, "a", "zeroth", None), ("U", 1, "a", "first", None), folder="2018/12/17")
    landing.load([(1, "a", "load", None)], minutes=-1)
    (life,) = row_lives(landing.past(), [{"id": 1}])
    assert [step.state["name"] for step in life.steps] == ["load", "zeroth", "first", "second", "third", "fourth"]
    assert [step.file for step in life.steps][0] == "LOAD00000001.parquet#1"


def test_a_sequence_that_every_change_carries_decides_and_one_that_is_missing_once_does_not(landing):
    settings = DmsSettings(sequence_column="seq")
    sequences = [change_sequence(NINE, number) for number in range(9)]
    landing.load([(1, "a", "load", None)], minutes=-1)
    landing.change(1, ("U", 1, "a", "later", None), settings=settings, sequences=sequences[5:6])
    landing.change(2, ("U", 1, "a", "earlier", None), settings=settings, sequences=sequences[3:4])
    names = lambda: [step.state["name"] for step in row_lives(landing.past(), [{"id": 1}])[0].steps]
    assert names() == ["load", "earlier", "later"]
    steps = row_lives(landing.past(), [{"id": 1}])[0].steps
    assert [step.commit for step in steps] == [None, NINE, NINE]
    assert [[cell.column for cell in step.cells] for step in steps[1:]] == [["name"], ["name"]], "the sequence itself is not a difference"
    landing.change(3, ("U", 1, "a", "last", None), settings=settings, sequences=[""])
    assert names() == ["load", "later", "earlier", "last"]


def test_a_timestamp_column_tells_the_commit_but_never_the_order(landing):
    settings = DmsSettings(timestamp_column="ts")
    landing.change(1, ("I", 1, "a", "x", None), settings=settings, commits=[NINE + timedelta(hours=3, microseconds=5)])
    landing.change(2, ("U", 1, "a", "y", None), settings=settings, commits=[NINE])
    (life,) = row_lives(landing.past(), [{"id": 1}], stamp="ts")
    assert [(s.state["name"], s.commit) for s in life.steps] == [("x", NINE + timedelta(hours=3, microseconds=5)), ("y", NINE)]
    assert [c.column for c in life.steps[1].cells] == ["part", "name"][1:]


@pytest.mark.parametrize(
    "kind, held, typed, other",
    [
        ("int", 1001, "1001", "1002"),
        ("bigint", 2**40, str(2**40), "7"),
        ("uint8", 2**63 + 1, str(2**63 + 1), "7"),
        ("decimal(38,10)", "12345678901234567890.5", "12345678901234567890.50", "12345678901234567890.4"),
        ("date", "2018-12-15", "2018-12-15", "2018-12-16"),
        ("timestamp", "2018-12-15T10:00:00.123456Z", "2018-12-15 11:00:00.123456+01:00", "2018-12-15 10:00:00.123457"),
        ("string", " 07 ", " 07 ", "07"),
        ("binary", b"\x00\xff", "00ff", "00fe"),
        ("boolean", True, "true", "false"),
        ("double", 0.5, "0.5", "0.25"),
        ("time", "10:00:00.123", "10:00:00.123", "10:00:00"),
    ],
)
def test_a_key_is_read_as_the_type_of_its_column(landing, kind, held, typed, other):
    shape = {"k": kind, "name": "string"}
    landing.load([(held, "Lamp")], shape, minutes=-1)
    landing.change(1, ("U", held, "Desk"), shape=shape)
    found, none = row_lives(landing.past(), [{"k": typed}, {"k": other}])
    assert [step.state["name"] for step in found.steps] == ["Lamp", "Desk"] and not none.steps


def test_a_key_that_has_grown_is_found_in_narrow_and_wide_files(landing):
    landing.load([(1, "Lamp")], {"id": "int", "name": "string"}, minutes=-1)
    landing.change(1, ("U", 1, "Desk"), ("I", 2**40, "Sofa"), shape={"id": "bigint", "name": "string"})
    small, large = row_lives(landing.past(), [{"id": "1"}, {"id": str(2**40)}])
    assert ([s.meant for s in small.steps], [s.meant for s in large.steps]) == (["inserted", "updated"], ["inserted"])


def test_a_value_that_fits_no_file_and_a_column_that_no_file_has_are_said_in_words(landing):
    landing.load([(1, "a", "Lamp", None)])
    for key, words in (
        ({"id": "one"}, "shop.item: id=one names no row: 'one' is not a whole number \\(int32\\)"),
        ({"sku": "1"}, "shop.item: there is no column sku; the columns are id, part, name, price"),
    ):
        with pytest.raises(BadKey, match=words):
            row_lives(landing.past(), [key])


def test_a_file_without_the_key_and_one_that_cannot_be_read_are_named(landing):
    landing.load([(1, "a", "Lamp", None)], minutes=-1)
    landing.change(1, ("U", "Desk"), shape={"name": "string"})
    landing.change(2, ("U", 1, "a", "Sofa", None))
    (landing.folder / "20181215-090300000.parquet").write_bytes(b"PAR1 torn")
    (life,) = row_lives(landing.past(), [{"id": 1}])
    assert [s.state["name"] for s in life.steps] == ["Lamp", "Sofa"]
    broken, lacking = life.words[-2:]
    assert broken.startswith("shop.item: 20181215-090300000.parquet cannot be read:")
    assert lacking == "shop.item: 20181215-090100000.parquet without id: what it changed in the row is unknown"


def test_an_op_that_is_none_changes_nothing_and_is_shown(landing):
    landing.load([(1, "a", "Lamp", None)], minutes=-1)
    landing.change(1, (None, 1, "a", "Desk", None), ("X", 1, "a", "Sofa", None))
    (life,) = row_lives(landing.past(), [{"id": 1}])
    assert [(s.meant, s.state["name"]) for s in life.steps[1:]] == [("no change: its Op is None", "Lamp"), ("no change: its Op is 'X'", "Lamp")]


def spoil(path: Path, *keep: range) -> None:
    "Overwrite a file but for its end and some ranges of bytes: whoever reads more gets an error."
    content = path.read_bytes()
    tail = int.from_bytes(content[-8:-4], "little") + 8
    wrong = bytearray(b"\xff" * (len(content) - tail) + content[-tail:])
    for part in keep:
        wrong[part.start : part.stop] = content[part.start : part.stop]
    path.write_bytes(bytes(wrong))


def test_of_a_file_only_groups_that_may_hold_the_key_are_read_and_of_the_others_not_a_byte(landing):
    rows = pa.table({"id": pa.array(range(1000), pa.int32()), "name": [f"Lamp {n}" for n in range(1000)]})
    landing.load(rows, None)
    path = landing.folder / "LOAD00000001.parquet"
    pq.write_table(rows, path, row_group_size=100, use_dictionary=False)
    columns = [pq.ParquetFile(path).metadata.row_group(3).column(i) for i in (0, 1)]
    spoil(path, *(range(c.data_page_offset, c.data_page_offset + c.total_compressed_size) for c in columns))
    found, none = row_lives(landing.past(), [{"id": 345}, {"id": 5000}])
    assert ([s.state["name"] for s in found.steps], none.steps, found.words) == (["Lamp 345"], (), ())
    with pytest.raises(Exception):  # another group is really spoilt
        pq.ParquetFile(path).read_row_group(0)
    assert "cannot be read" in row_lives(landing.past(), [{"id": 145}])[0].words[0]


def test_whole_rows_are_read_only_where_the_key_stands(landing):
    landing.load([(1, "a", "Lamp", None), (3, "a", "Desk", None)])
    path = landing.folder / "LOAD00000001.parquet"
    key = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = key.dictionary_page_offset or key.data_page_offset
    spoil(path, range(start, start + key.total_compressed_size))
    (life,) = row_lives(landing.past(), [{"id": 2}])
    assert not life.steps and not life.words
    assert row_lives(landing.past(), [{"id": 3}])[0].words


def test_files_of_another_time_are_not_opened_and_what_they_held_is_unknown(landing):
    landing.load([(1, "a", "Lamp", "1.00")], minutes=-1)
    landing.change(10, ("U", 1, "a", "Desk", "1.00"))
    landing.change(20, ("U", 1, "a", "Sofa", "1.00"))
    landing.change(30, ("D", 1, "a", None, None))
    past = landing.past()
    for name in ("LOAD00000001.parquet", "20181215-091000000.parquet", "20181215-093000000.parquet"):
        spoil(landing.folder / name)
    part = within_span(past, NINE + timedelta(minutes=15), NINE + timedelta(minutes=25))
    index = KeyIndex(["id"])
    (life,) = row_lives(part, [{"id": 1}], index=index)
    assert [(s.meant, [(c.column, c.new, c.is_known) for c in s.cells]) for s in life.steps] == [
        ("updated", [("part", "a", False), ("name", "Sofa", False), ("price", Decimal("1.00"), False)])
    ]
    assert index.opened == 1 and life.words == ("shop.item: 3 files of another time were not read",)
    assert "earlier values are unknown" in life.begins


def test_the_load_is_known_where_only_later_files_are_left_out(landing):
    landing.load([(1, "a", "Lamp", None)], minutes=-1)
    landing.change(10, ("U", 1, "a", "Desk", None))
    landing.change(20, ("D", 1, "a", None, None))
    (life,) = row_lives(within_span(landing.past(), until=NINE + timedelta(minutes=15)), [{"id": 1}])
    assert [(s.meant, all(c.is_known for c in s.cells)) for s in life.steps] == [("inserted", True), ("updated", True)]


def test_a_second_key_opens_only_the_files_that_hold_it_also_when_all_others_are_gone(landing):
    landing.load([(n, "a", "Lamp", None) for n in range(50)], minutes=-1)
    for minutes in range(1, 40):
        landing.change(minutes, ("U", 0, "a", "Desk", None), ("U", minutes, "a", "Sofa", None), ("U", 99, "a", "Bed", None))
    past, index = landing.past(), KeyIndex(["id"])
    assert len(row_lives(past, [{"id": 0}], index=index)[0].steps) == 40
    assert index.opened == 40
    for path in landing.folder.glob("2*-*.parquet"):
        if path.name != "20181215-090700000.parquet":
            path.unlink()
    (life,) = row_lives(past, [{"id": 7}], index=index)
    assert ([s.state["name"] for s in life.steps], index.opened, life.words) == (["Lamp", "Sofa"], 42, ())


def test_without_room_for_keys_an_answer_is_the_same(landing):
    random_history(landing, 99)
    keys, poor = [{"id": id, "part": part} for id in range(1, 5) for part in "ab"], KeyIndex(["id", "part"], room=64)
    rich = row_lives(landing.past(), keys)
    assert row_lives(landing.past(), keys, index=poor) == rich == row_lives(landing.past(), keys, index=poor)


def test_several_keys_open_each_file_once(landing):
    random_history(landing, 7)
    index = KeyIndex(["id", "part"])
    row_lives(landing.past(), [{"id": id, "part": part} for id in range(1, 5) for part in "ab"], index=index)
    assert index.opened == len(landing.past().files)


def test_a_file_that_was_put_again_is_read_again(landing):
    landing.load([(1, "a", "Lamp", None), (2, "a", "Sofa", None)], minutes=-1)
    index, size = KeyIndex(["id"]), landing.past().load[0].size
    assert row_lives(landing.past(), [{"id": 1}], index=index)[0].state["name"] == "Lamp"
    landing.load([(2, "a", "Sofa", None), (1, "a", "Desk", None)], minutes=5)
    assert landing.past().load[0].size == size
    assert row_lives(landing.past(), [{"id": 1}], index=index)[0].state["name"] == "Desk"


def test_what_was_moved_to_an_archive_counts_once_and_its_time_tells_nothing(landing, tmp_path):
    landing.load([(1, "a", "Lamp", None)], minutes=-1)
    for minutes, name in ((10, "Desk"), (20, "Sofa"), (30, "Bed")):
        landing.change(minutes, ("U", 1, "a", name, None))
    there = tmp_path / "archive" / "shop" / "item"
    there.mkdir(parents=True)
    (landing.folder / "20181215-091000000.parquet").rename(there / "20181215-091000000.parquet")
    (there / "20181215-092000000.parquet").write_bytes((landing.folder / "20181215-092000000.parquet").read_bytes())
    os.utime(there / "20181215-091000000.parquet", (NINE.timestamp() + 9e6,) * 2)
    (life,) = row_lives(landing.past(archive=str(tmp_path / "archive")), [{"id": 1}])
    assert [(s.state["name"], s.put is None, s.is_late) for s in life.steps] == [
        ("Lamp", False, False),
        ("Desk", True, False),
        ("Sofa", False, False),
        ("Bed", False, False),
    ]


def test_a_late_file_is_told_where_it_belongs_and_said_to_be_late(landing):
    landing.load([(1, "a", "Lamp", None)], minutes=-1)
    landing.change(10, ("U", 1, "a", "Desk", None), put=45)
    landing.change(20, ("U", 1, "a", "Sofa", None))
    landing.change(50, ("U", 1, "a", "Bed", None))
    (life,) = row_lives(landing.past(), [{"id": 1}])
    assert [(s.state["name"], s.is_late) for s in life.steps] == [("Lamp", False), ("Desk", True), ("Sofa", False), ("Bed", False)]
    assert life.steps[1].put == NINE + timedelta(minutes=45, seconds=1) and life.steps[1].closed == NINE + timedelta(minutes=10)


def test_a_landing_that_was_copied_backwards_has_no_late_files(landing):
    for minutes, put in ((10, 900), (20, 800), (30, 700)):
        landing.change(minutes, ("I", minutes, "a", "Desk", None), put=put)
    assert not any(s.is_late for life in row_lives(landing.past(), [{"id": n} for n in (10, 20, 30)]) for s in life.steps)


def test_changes_from_before_a_reload_are_an_earlier_life_whose_rows_are_gone(landing):
    landing.change(10, ("U", 1, "a", "Desk", None))
    landing.change(20, ("U", 1, "a", "Desk", "2.00"), ("D", 2, "a", None, None))
    landing.load([(1, "a", "Sofa", "3.00"), (2, "a", "Bed", None)], minutes=60)
    landing.change(70, ("U", 1, "a", "Sofa", "4.00"))
    earlier = Position(1, (RawFile("LOAD00000001.parquet", 1, 0.0),))  # what the lake is built on
    one, two = row_lives(landing.past(position=earlier), [{"id": 1}, {"id": 2}])
    assert [(s.meant, s.before, s.life) for s in one.steps] == [
        ("updated", True, 1),
        ("updated", True, 1),
        ("inserted", False, 1),
        ("updated", False, 1),
    ]
    assert [(c.column, c.old, c.is_known) for c in one.steps[0].cells] == [("part", None, False), ("name", None, False), ("price", None, False)]
    assert [(c.column, c.old, c.new) for c in one.steps[1].cells] == [("price", None, Decimal("2.00"))]
    assert [(s.meant, s.before, s.state is None) for s in two.steps] == [("deleted", True, True), ("inserted", False, False)]
    assert any("load 2 replaced the table" in words for words in one.words)


def test_a_load_that_is_gone_is_said_and_rows_it_may_have_held_are_not_called_lost(landing):
    landing.load([(1, "a", "Lamp", None)], minutes=-1)
    landing.change(10, ("U", 1, "a", "Desk", None))
    position = Position(1, landing.past().load)
    (landing.folder / "LOAD00000001.parquet").unlink()
    (life,) = row_lives(landing.past(position=position), [{"id": 1}])
    assert [s.meant for s in life.steps] == ["updated"]
    assert any("LOAD00000001.parquet of load 1 is no longer in the landing" in words for words in life.words)
    assert "earlier values are unknown" in life.begins


def test_applied_files_that_are_gone_are_said(landing):
    landing.load([(1, "a", "Lamp", None)], minutes=-1)
    landing.change(10, ("U", 1, "a", "Desk", None))
    gone = RawFile("20181215-090500000.parquet", 99, 0.0)
    position = Position(1, landing.past().load, last="20181215-091000000.parquet", window=((gone.path, gone.size),))
    (life,) = row_lives(landing.past(position=position), [{"id": 1}])
    assert any("20181215-090500000.parquet is no longer in landing or archive" in words for words in life.words)


def test_old_and_strange_values_are_told_and_compared(landing):
    shape = {"id": "int", "at": "timestamp", "day": "date", "rate": "double", "blob": "binary"}
    row = (1, "0001-01-01 00:00:00", date(9999, 12, 31), float("nan"), b"\x00")
    landing.load([row], shape, minutes=-1)
    landing.change(1, ("U", *row), ("U", 1, None, *row[2:]), shape=shape)
    (life,) = row_lives(landing.past(), [{"id": 1}])
    assert [(s.meant, [c.column for c in s.cells]) for s in life.steps[1:]] == [("changed nothing", []), ("updated", ["at"])]


@pytest.mark.parametrize("key", ["0.0", "-0.0", "nan", -0.0, float("nan")], ids=str)
def test_a_key_of_floating_point_is_found_whatever_the_sign_of_its_zero_and_a_nan_is_one_key(tmp_path, key):
    shape, odd = {"id": "double", "name": "string"}, float(key) != float(key)
    one, other = (float("nan"), float("nan")) if odd else (-0.0, 0.0)
    write_load(tmp_path, "shop.item", [(one, "first"), (1.5, "other")], shape)
    write_changes(tmp_path, "shop.item", [("U", other, "second")], "20181215-100100000", shape)
    (life,) = row_lives(open_changelog(str(tmp_path), TableRef("shop", "item")), [{"id": key}])
    assert [step.state["name"] for step in life.steps] == ["first", "second"]
