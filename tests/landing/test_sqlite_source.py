"""The stand-in for DMS: the files say what the database says, whatever happens to tables, clocks and processes."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dmscdc.capture.sqlite import SqliteSource, capture, load_table, pending, unloaded
from dmscdc.capture.writer import DmsSettings
from dmscdc.errors import BadSetting, WrongValue
from dmscdc.landing.files import FolderLanding, TableRef

pytestmark = pytest.mark.quick

NOON = datetime(2018, 12, 15, 12, tzinfo=timezone.utc)
FULL = DmsSettings(timestamp_column="ts", sequence_column="seq")


@pytest.fixture
def source(tmp_path):
    with closing(sqlite3.connect(tmp_path / "sampledb.db")) as db:
        db.execute("CREATE TABLE item (a INTEGER, b TEXT, price DECIMAL(10,2), at DATETIME, raw BLOB, PRIMARY KEY (a, b))")
    source = SqliteSource(tmp_path / "sampledb.db")
    source.install()
    return source


def run(source, *statements):
    "One transaction."
    with closing(sqlite3.connect(source.path)) as db, db:
        for statement in statements:
            db.execute(*statement) if isinstance(statement, tuple) else db.execute(statement)


def at(minutes):
    return NOON + timedelta(minutes=minutes)


def changes(landing, table="item"):
    "Rows of all change files in order."
    folder = FolderLanding(landing)
    table = TableRef("sampledb", table)
    return [row for f in folder.files(table).changes for row in pq.read_table(folder.url(table, f.path)).to_pylist()]


def replay(landing, key, table="item"):
    "The table that the files say: load rows, then changes one by one; columns a file lacks keep their value."
    folder, ref, state = FolderLanding(landing), TableRef("sampledb", table), {}
    listing = folder.files(ref)
    for file in listing.load + listing.changes:
        for row in pq.read_table(folder.url(ref, file.path)).to_pylist():
            op, place = row.pop("Op", "I"), tuple(row[k] for k in key)
            if op == "D":
                state.pop(place, None)
            else:
                state[place] = {**state.get(place, {}), **row}
    return state


def test_each_step_of_a_transaction_is_kept_and_a_rolled_back_one_leaves_nothing(source, tmp_path):
    run(
        source,
        "INSERT INTO item VALUES (1, 'x', 1, NULL, NULL)",
        *(f"UPDATE item SET price = {p}" for p in (2, 3, 2)),
        "SAVEPOINT s",
        "DELETE FROM item",
        "ROLLBACK TO s",
    )
    with closing(sqlite3.connect(source.path)) as db:
        db.execute("UPDATE item SET price = 99")
        db.rollback()
    source.drain(tmp_path / "landing", FULL, now=NOON)
    rows = changes(tmp_path / "landing")
    assert [(r["Op"], int(r["price"])) for r in rows] == [("I", 1), ("U", 2), ("U", 3), ("U", 2)]
    assert len({r["ts"] for r in rows}) == 1 and [r["seq"] for r in rows] == sorted({r["seq"] for r in rows})


def test_values_arrive_in_the_declared_types(source, tmp_path):
    insert = "INSERT INTO item VALUES (?, ?, ?, ?, ?)"
    run(source, (insert, (1, "é,\"'\n", "0.10", "2018-12-15 10:02:11.5", b"\x00\xff")), (insert, (2, "", 12345678.9, "9999-12-31T23:59:59Z", None)))
    source.drain(tmp_path / "landing", now=NOON)
    first, second = changes(tmp_path / "landing")
    assert (first["b"], first["price"], first["raw"]) == ("é,\"'\n", Decimal("0.10"), b"\x00\xff")
    assert first["at"] == datetime(2018, 12, 15, 10, 2, 11, 500000, timezone.utc)
    assert (second["b"], second["price"], second["at"].year, second["raw"]) == ("", Decimal("12345678.90"), 9999, None)


def test_every_table_has_its_own_timer(source, tmp_path):
    run(source, "CREATE TABLE other (id INTEGER PRIMARY KEY)")
    source.install()
    run(source, "INSERT INTO item (a, b) VALUES (1, 'x')")
    assert source.flush(tmp_path, now=at(0)) == []
    run(source, "INSERT INTO other VALUES (1)")
    assert source.flush(tmp_path, now=at(0.5)) == []
    run(source, "INSERT INTO item (a, b) VALUES (2, 'x')")  # does not restart the timer
    assert [p.parent.name for p in source.flush(tmp_path, now=at(1))] == ["item"]
    assert [p.name for p in source.flush(tmp_path, now=at(1.5))] == ["20181215-120130000.parquet"]


def test_a_restarted_capture_keeps_the_timer(source, tmp_path):
    run(source, "INSERT INTO item (a, b) VALUES (1, 'x')")
    source.flush(tmp_path, now=at(0))
    assert len(SqliteSource(source.path).flush(tmp_path, now=at(1))) == 1


def test_what_the_load_holds_is_not_written_again_as_a_change(source, tmp_path):
    run(source, "INSERT INTO item (a, b) VALUES (1, 'x')")
    assert unloaded(source) == ["item"]
    source.full_load(tmp_path, now=NOON)
    run(source, "INSERT INTO item (a, b) VALUES (2, 'x')")
    source.drain(tmp_path, now=at(1))
    assert [r["a"] for r in changes(tmp_path)] == [2] and unloaded(source) == []


def test_a_load_that_was_killed_before_it_was_recorded_starts_over(source, tmp_path, monkeypatch):
    run(source, "INSERT INTO item (a, b) VALUES (1, 'x')")
    import dmscdc.capture.sqlite as module

    monkeypatch.setattr(module, "stamp_text", lambda moment: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        source.full_load(tmp_path, now=NOON)
    monkeypatch.undo()
    assert unloaded(source) == ["item"] and pending(source) == {"item": 1}
    assert capture(source, tmp_path, clock=lambda: at(1)) == 1  # the load again, under the same name
    assert len(replay(tmp_path, ("a", "b"))) == 1


def test_an_added_column_keeps_the_values_written_before_it_was_noticed(source, tmp_path):
    run(source, "INSERT INTO item (a, b) VALUES (1, 'x')", "INSERT INTO item (a, b) VALUES (2, 'x')")
    source.full_load(tmp_path, now=NOON)
    run(source, "UPDATE item SET price = 5 WHERE a = 2")
    source.drain(tmp_path, now=at(1))
    run(
        source,
        "ALTER TABLE item ADD COLUMN colour TEXT DEFAULT 'grey'",
        "UPDATE item SET colour = 'red' WHERE a = 1",
        "INSERT INTO item (a, b) VALUES (3, 'x')",
        "DELETE FROM item WHERE a = 2",
    )
    source.drain(tmp_path, now=at(2))
    rows = changes(tmp_path)
    assert "colour" not in rows[0]
    assert [(r["Op"], r["a"], r["colour"]) for r in rows[1:]] == [("U", 1, "red"), ("I", 3, "grey"), ("D", 2, None)]


def test_a_table_without_key_gets_its_added_column_by_row(source, tmp_path):
    run(source, "CREATE TABLE log (line TEXT)")
    source.install()
    run(source, *["INSERT INTO log VALUES ('same')"] * 2, "ALTER TABLE log ADD COLUMN n INT", "UPDATE log SET n = rowid")
    source.drain(tmp_path, now=NOON)
    assert [(r["Op"], r["n"]) for r in changes(tmp_path, "log")] == [("I", 1), ("I", 2), ("U", 1), ("U", 2)]


def test_columns_that_are_renamed_split_the_file_and_lose_nothing(source, tmp_path):
    run(source, "INSERT INTO item (a, b, price) VALUES (1, 'x', 1)", "ALTER TABLE item RENAME COLUMN price TO cost")
    source.flush(tmp_path, now=at(0))
    run(source, "UPDATE item SET cost = 2")
    assert len(source.drain(tmp_path, now=at(1))) == 2
    before, after = changes(tmp_path)
    assert (int(before["price"]), int(after["cost"])) == (1, 2) and "price" not in after


def test_odd_names_are_captured(tmp_path):
    with closing(sqlite3.connect(tmp_path / "odd.db")) as db:
        db.execute("""CREATE TABLE "it's ""odd"" 1" ("the key" INT PRIMARY KEY, "select" TEXT)""")
        db.execute("CREATE VIRTUAL TABLE words USING fts4(word)") if _has_fts(db) else None
        db.commit()
    source = SqliteSource(tmp_path / "odd.db", schema="shop")
    source.install()
    run(source, """INSERT INTO "it's ""odd"" 1" VALUES (1, 'x')""")
    (path,) = source.drain(tmp_path / "landing", now=NOON)
    assert path.parent.name == 'it\'s "odd" 1'
    assert pq.read_table(path).to_pylist() == [{"Op": "I", "the key": 1, "select": "x"}]


def _has_fts(db):
    return any("FTS4" in option for (option,) in db.execute("PRAGMA compile_options"))


def test_only_the_chosen_tables_are_captured(source, tmp_path):
    run(source, "CREATE TABLE other (id INTEGER PRIMARY KEY)")
    chosen = SqliteSource(source.path, tables=["other"])
    chosen.install()
    run(source, "INSERT INTO other VALUES (1)", "INSERT INTO item (a, b) VALUES (1, 'x')")
    assert [p.parent.name for p in chosen.drain(tmp_path, now=NOON)] == ["other"] and pending(chosen) == {}


def test_an_idle_flush_takes_no_lock(source, tmp_path):
    source.flush(tmp_path, now=NOON)
    with closing(sqlite3.connect(source.path, isolation_level=None)) as user:
        user.execute("BEGIN IMMEDIATE")
        assert source.flush(tmp_path, now=at(5)) == []  # would wait 30 s for the lock


def test_the_replay_of_the_files_equals_the_source(source, tmp_path):
    """Random transactions, some rolled back, with flushes, kills and a new column anywhere between them."""
    draw, landing = random.Random(11), tmp_path / "landing"
    settings = DmsSettings(sequence_column="seq", min_file_size=1)
    for step in range(150):
        kind = draw.random()
        if step == 40:
            source.full_load(landing, settings, now=at(step))
        elif step == 90:
            run(source, "ALTER TABLE item ADD COLUMN note TEXT")
        elif kind < 0.2:
            source.flush(landing, settings, now=at(step))
        elif kind < 0.25:
            _flush_and_be_killed(source, landing, settings, at(step))
        else:
            _random_transaction(source, draw, step > 90)
    source.drain(landing, settings, now=at(999))
    with closing(sqlite3.connect(source.path)) as db:
        db.row_factory = sqlite3.Row
        expected = {(row["a"], row["b"]): (row["price"], row["note"]) for row in db.execute("SELECT * FROM item")}
    found = replay(landing, ("a", "b"))
    assert {k: (float(v["price"]), v.get("note")) for k, v in found.items()} == expected and len(expected) > 3
    sequences = [row["seq"] for row in changes(landing)]
    assert sequences == sorted(set(sequences)) and pending(source) == {}


def _random_transaction(source, draw, has_note):
    with closing(sqlite3.connect(source.path)) as db:
        for _ in range(draw.randint(1, 8)):
            key, price = (draw.randint(1, 6), draw.choice("xy")), draw.randint(0, 999) / 4
            if draw.random() < 0.5:
                db.execute("INSERT OR REPLACE INTO item (a, b, price) VALUES (?, ?, ?)", (*key, price))
            elif draw.random() < 0.6:
                note = ", note = 'n' || price" if has_note else ""
                db.execute(f"UPDATE item SET price = ?{note} WHERE a = ? AND b = ?", (price, *key))
            else:
                db.execute("DELETE FROM item WHERE a = ? AND b = ?", key)
        db.commit() if draw.random() < 0.8 else db.rollback()


def _flush_and_be_killed(source, landing, settings, now):
    "All files are there, the log knows nothing of it."
    from dmscdc.capture.sqlite import name_batches, refresh, see_changes, transaction, write_batches

    with closing(source.connect()) as db:
        with transaction(db):
            refresh(db, log_new=True)
            see_changes(db, now)
            name_batches(db, Path(landing, "sampledb"), settings, now, everything=True)
        db.execute("BEGIN")
        list(write_batches(db, landing, "sampledb", settings))
        db.execute("ROLLBACK")


def test_a_file_written_before_a_kill_keeps_its_columns_when_one_is_added_meanwhile(source, tmp_path):
    run(source, "INSERT INTO item (a, b) VALUES (1, 'x')")
    source.install()
    _flush_and_be_killed(source, tmp_path, DmsSettings(), NOON)
    run(source, "ALTER TABLE item ADD COLUMN note TEXT DEFAULT 'n'")
    (again,) = source.drain(tmp_path, now=at(1))
    assert again.name == "20181215-120000000.parquet" and "note" not in pq.read_schema(again).names


def test_two_captures_at_once_write_every_change_once(source, tmp_path):
    stop, settings = threading.Event(), DmsSettings(batch_interval=0, sequence_column="seq")
    captures = [
        threading.Thread(target=capture, args=(SqliteSource(source.path), tmp_path, settings), kwargs={"stop": stop, "poll": 0.01}) for _ in range(2)
    ]
    for thread in captures:
        thread.start()
    for i in range(60):
        run(source, f"INSERT INTO item (a, b) VALUES ({i}, 'x')", f"UPDATE item SET price = {i} WHERE a = {i}")
    stop.set()
    for thread in captures:
        thread.join()
    assert len(replay(tmp_path, ("a", "b"))) == 60
    sequences = [row["seq"] for row in changes(tmp_path)]
    assert len(sequences) == len(set(sequences)) and pending(source) == {}


def test_a_capture_killed_while_it_writes_loses_nothing_and_repeats_no_change(source, tmp_path):
    """A process that dies by SIGKILL in the middle of its third file; the next capture goes on."""
    run(source, *(f"INSERT INTO item (a, b, price) VALUES ({i}, 'x', {i})" for i in range(400)))
    program = f"""
import os, signal
from dmscdc.capture import sqlite as sqlite_source
from dmscdc.capture.writer import DmsSettings
put, seen = sqlite_source.put_file, []
def deadly(*args, **more):
    path = put(*args, **more)
    seen.append(path)
    len(seen) == 3 and os.kill(os.getpid(), signal.SIGKILL)
    return path
sqlite_source.put_file = deadly
settings = DmsSettings(min_file_size=1, sequence_column="seq")
sqlite_source.SqliteSource({str(source.path)!r}).drain({str(tmp_path)!r}, settings)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGKILL
    written = FolderLanding(tmp_path).files(TableRef("sampledb", "item")).changes
    assert len(written) == 3
    source.drain(tmp_path, DmsSettings(min_file_size=1, sequence_column="seq"))
    files = FolderLanding(tmp_path).files(TableRef("sampledb", "item")).changes
    assert files[:3] == written  # the third was written again: same name, size and time
    assert [r["a"] for r in changes(tmp_path)] == list(range(400))
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".writing")]


class Hasty(SqliteSource):
    "A source that waits for no lock and tells `seen` of every statement before it runs."

    seen = staticmethod(lambda statement: None)

    def connect(self):
        db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        db.set_trace_callback(lambda statement: self.seen(statement))
        return db


@pytest.mark.parametrize("number", range(2, 10))
def test_a_look_that_meets_a_lock_has_counted_and_told_every_file(source, tmp_path, number):
    """A user takes the database at each of capture's transactions in turn, and leaves before the next look."""
    run(source, "INSERT INTO item (a, b) VALUES (1, 'x')", "CREATE TABLE other (id INTEGER PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    hasty, begun, told = Hasty(source.path), [], []
    with closing(sqlite3.connect(source.path, isolation_level=None)) as user:

        def lock(statement):
            if statement.startswith("BEGIN"):
                begun.append(statement)
                if len(begun) == number:
                    user.execute("BEGIN IMMEDIATE")

        class Stop(threading.Event):
            def wait(self, timeout=None):
                user.rollback()
                self.set()

        hasty.seen = lock
        written = capture(hasty, tmp_path / "landing", stop=Stop(), on_files=told.extend, clock=lambda: NOON)
    assert sorted(told) == sorted((tmp_path / "landing").rglob("*.parquet")) and written == len(told) >= 2


@pytest.mark.parametrize("mode", ["delete", "wal"])
@pytest.mark.parametrize("change", ["ADD COLUMN colour TEXT DEFAULT 'grey'", "RENAME COLUMN price TO cost"])
@pytest.mark.parametrize("number", range(1, 9))
def test_a_load_has_the_columns_of_its_rows_whenever_the_table_changes(source, tmp_path, number, change, mode):
    """The table is altered ahead of each of the load's statements in turn."""
    run(source, "INSERT INTO item (a, b, price) VALUES (1, 'x', 5)")
    hasty, statements = Hasty(source.path), []
    with closing(sqlite3.connect(source.path, timeout=0, isolation_level=None)) as user:
        user.execute(f"PRAGMA journal_mode = {mode}")

        def alter(statement):
            statements.append(statement)
            if len(statements) == number:
                with suppress(sqlite3.OperationalError):  # locked: the load is at it
                    user.execute(f"ALTER TABLE item {change}")

        with closing(hasty.connect()) as db:
            hasty.seen = alter
            (path,) = load_table(db, tmp_path / "landing", TableRef("sampledb", "item"), now=NOON)
    (row,) = pq.read_table(path).to_pylist()
    assert int(row.pop("price", None) or row.pop("cost")) == 5
    assert row in ({"a": 1, "b": "x", "at": None, "raw": None}, {"a": 1, "b": "x", "at": None, "raw": None, "colour": "grey"})
    assert ("colour" in row) == (number <= 2 and "colour" in change)  # the second statement begins the snapshot


def test_a_value_of_a_wrong_type_ends_a_capture_in_words_after_the_rest_was_written(source, tmp_path):
    run(
        source,
        "CREATE TABLE other (id INTEGER PRIMARY KEY)",
        "INSERT INTO other VALUES (1)",
        "INSERT INTO item (a, b, price) VALUES (1, 'x', 5), (2, 'y', 'cheap')",
    )
    told = []
    with pytest.raises(WrongValue, match=r"^sampledb.item, a 2, b 'y', column price: 'cheap' is not a valid decimal"):
        capture(source, tmp_path / "landing", on_files=told.extend)
    assert [path.parent.name for path in told] == ["other"] and unloaded(source) == ["item"]

    run(source, "UPDATE item SET price = 6 WHERE a = 2")
    assert capture(source, tmp_path / "landing") == 1
    run(source, "UPDATE item SET price = 'dear' WHERE a = 1", "INSERT INTO other VALUES (2)")
    stop = threading.Event()
    with pytest.raises(ValueError, match=r"sampledb.item, change \d+, a 1, b 'x', column price: 'dear' is not a valid decimal"):
        capture(source, tmp_path / "landing", DmsSettings(batch_interval=0), stop=stop, on_files=told.extend)
    assert [path.parent.name for path in told] == ["other", "other"] and pending(source) == {"item": 1}


@pytest.mark.parametrize("value", [5, 0, -12, 2.5, 1 << 40, "Søren", "", b"\x00\xff", b""])
def test_what_is_no_blob_in_a_blob_column_arrives_as_sqlite_would_cast_it(source, tmp_path, value):
    run(source, ("INSERT INTO item (a, b, raw) VALUES (1, 'x', ?)", (value,)))
    source.drain(tmp_path / "landing", now=NOON)
    with closing(sqlite3.connect(source.path)) as db:
        assert [(row["raw"],) for row in changes(tmp_path / "landing")] == db.execute("SELECT CAST(raw AS BLOB) FROM item").fetchall()


@pytest.mark.parametrize("which, columns", [("pk-only", ["BI_a", "BI_b"]), ("all", ["BI_a", "BI_b", "BI_price", "BI_at", "BI_raw"])])
def test_updates_carry_the_row_before_them_where_the_task_asks_for_it(source, tmp_path, which, columns):
    first, last = (1, "it's", "0.10", "2018-12-15 10:00:00", b"\x00\xff"), (2, "é", None, None, None)
    run(source, ("INSERT INTO item VALUES (?, ?, ?, ?, ?)", first))
    run(source, ("UPDATE item SET a = ?, b = ?, price = ?, at = ?, raw = ?", last), "ALTER TABLE item ADD COLUMN more INT", ("DELETE FROM item", ()))
    source.drain(tmp_path / "landing", DmsSettings(before_image=which), now=NOON)
    images = [{name: value for name, value in row.items() if name.startswith("BI_")} for row in changes(tmp_path / "landing")]
    old = dict(
        zip(
            ["BI_a", "BI_b", "BI_price", "BI_at", "BI_raw"],
            [1, "it's", Decimal("0.10"), datetime(2018, 12, 15, 10, tzinfo=timezone.utc), b"\x00\xff"],
        )
    )
    assert [list(row) for row in images] == [columns + ["BI_more"] * (which == "all")] * 3 and images[0] == images[2] == dict.fromkeys(images[0])
    assert {name: value for name, value in images[1].items() if name != "BI_more"} == {name: old[name] for name in columns}


@pytest.mark.parametrize(
    "settings, words",
    [
        (DmsSettings(preserve_transactions=True, cdc_path="cdc"), "PreserveTransactions=false"),
        (DmsSettings(date_partition=True, date_partition_timezone="Asia/Kolkata"), "leave DatePartitionTimezone out"),
        (DmsSettings(bucket_folder="raw"), "leave BucketFolder out"),
    ],
)
def test_settings_that_triggers_cannot_follow_are_refused(tmp_path, settings, words):
    with closing(sqlite3.connect(tmp_path / "a.db")) as db, db:
        db.execute("create table item (id integer primary key)")
    with pytest.raises(BadSetting, match=words):
        capture(f"sqlite:{tmp_path / 'a.db'}", tmp_path / "landing", settings)
    assert not (tmp_path / "landing").exists()


def test_date_folders_dropped_deletes_and_keys_of_deletes_are_followed(tmp_path):
    source = f"sqlite:{tmp_path / 'a.db'}"
    with closing(sqlite3.connect(tmp_path / "a.db")) as db, db:
        db.executescript("create table item (id integer primary key, name text); insert into item values (1, 'a'), (2, 'b')")

    def after(sql: str, hour: int, **more) -> list[str]:
        with closing(sqlite3.connect(tmp_path / "a.db")) as db, db:
            db.executescript(sql)
        paths = []
        capture(
            source,
            tmp_path / "landing",
            DmsSettings(data_format="csv", date_partition=True, date_partition_delimiter="DASH", **more),
            clock=lambda: datetime(2018, 12, 15, hour, tzinfo=timezone.utc),
            on_files=paths.extend,
        )
        return [(str(path.relative_to(tmp_path / "landing/a/item")), path.read_text()) for path in paths]

    assert after("", 1) == [("LOAD00000001.csv", "1,a\n2,b\n")]
    assert after("delete from item where id = 1", 2, key_only_deletes=True) == [("2018-12-15/20181215-020000000.csv", "D,1,\n")]
    assert after("delete from item where id = 2", 3, cdc_inserts_and_updates=True) == []
    assert after("insert into item values (3, 'c')", 4, cdc_inserts_only=True) == [("2018-12-15/20181215-040000000.csv", "3,c\n")]
