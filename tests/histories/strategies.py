"""Histories at random: what Hypothesis draws, and in which proportions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import pytest
from history import KEYS, LATER, SEED, TABLES, History
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from readers import FORMAT

INTEGERS = ["0", "1", "-1", "2147483647", "-2147483648"]
TEXTS = ["''", "'a'", "' a '", "'NULL'", "'it''s \"quoted\"'", "'two' || char(10) || 'lines'", "'é'", "'e' || char(769)", "'日本 🐌'", "char(0)"]
DATES = ["'2018-12-15'", "'0001-01-01'", "'9999-12-31'", "'1969-12-31'"]
TIMES = ["'2018-12-15 10:02:11.123456'", "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1969-12-31 23:59:59.5'"]
BLOBS = ["x''", "x'00ff'", "x'c3a9'"]
FLOATS = ["0.5", "-0.0", "1e308", "5e-324", "9e999", "-9e999", "3"]
EMPTY = [] if FORMAT.startswith("hudi") else ["''"]  # as the only column of a key: Hudi has no such record key, which is said
VALUES = {  # of a column, as SQL
    "id": ["1", "1", "2", "-2147483648"],
    "city": ["'Oslo'", "'Oslo'", "''"],
    "day": DATES[:2],
    "word": ["'a'", "'a'", "'A'", "'a '", "'é'", "'e' || char(769)", *EMPTY],
    "title": TEXTS,
    "price": ["0", "0.1", "-0.01", "9999999999.99"],
    "big": ["0", "9223372036854775807", "-9223372036854775808"],
    "region": ["'north'", "'a/b=50%'", "'Süd'", "'1'"],
    "visits": INTEGERS,
    "said": TEXTS[:3],
    "level": INTEGERS[:2],
    "raw": BLOBS,
    "at": TIMES,
    "n_real": FLOATS,
    "n_text": TEXTS,
    "n_date": DATES,
    "n_time": TIMES,
    "n_decimal": ["0", "0.0001", "-123456789.5"],
    "n_blob": BLOBS,
    "n_flag": ["0", "1"],
    "n_small": ["-32768", "32767"],
    "n_tiny": ["-128", "127"],
    "n_unsigned": ["0", "4294967295"],
    "n_int": INTEGERS,
}
COLUMNS = {table: [line.split()[0] for line in columns.split(", PRIMARY")[0].split(", ")] for table, columns in TABLES.items()}
NEW = ["n_real", "n_text", "n_date"]  # columns that statements try to use though they may not be there


def value(column: str) -> st.SearchStrategy[str]:
    known = st.sampled_from(VALUES[column] if column in sum(KEYS.values(), ()) else ["NULL", *VALUES[column]])
    free = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4).map(lambda text: "'" + text.replace("'", "''") + "'")
    return st.one_of(known, free) if column in ("title", "n_text") else known


@st.composite
def where(draw, table: str) -> str:
    "One row mostly, or all."
    if draw(st.integers(0, 4)) == 4:
        return ""
    return " WHERE " + " AND ".join(f"{key} = {draw(value(key))}" for key in KEYS[table])


@st.composite
def insert(draw, table: str) -> str:
    needed = KEYS[table] or ("level",)
    rest = draw(st.lists(st.sampled_from([c for c in COLUMNS[table] if c not in needed] + NEW[:1]), unique=True, max_size=3))
    names = [*needed, *rest]
    verb = draw(st.sampled_from(["INSERT", "INSERT OR REPLACE"]))
    return f"{verb} INTO {table} ({', '.join(names)}) VALUES ({', '.join(draw(value(name)) for name in names)})"


@st.composite
def update(draw, table: str) -> str:
    names = draw(st.lists(st.sampled_from([c for c in COLUMNS[table] if c not in KEYS[table]] + NEW), unique=True, min_size=1, max_size=2))
    if draw(st.integers(0, 3)) == 3:
        names = [draw(st.sampled_from(KEYS[table])), *names[:-1]]  # of its key
    return f"UPDATE {table} SET {', '.join(f'{name} = {draw(value(name))}' for name in names)}{draw(where(table))}"


@st.composite
def statement(draw) -> str:
    table = draw(st.sampled_from(["item", "item", "place", "word", "log"]))
    kind = draw(st.sampled_from("iiiiuuuudda" if KEYS[table] else "iiiia"))
    if kind == "i":
        return draw(insert(table))
    if kind == "u":
        return draw(update(table))
    if kind == "d":
        return f"DELETE FROM {table}{draw(where(table))}"
    name = draw(st.sampled_from([*NEW, *NEW, *LATER]))
    return f"ALTER TABLE {table} ADD COLUMN {name} {LATER[name]}"


transaction = st.builds(
    lambda statements, end: (*statements, end), st.lists(statement(), min_size=1, max_size=4), st.sampled_from(["COMMIT", "COMMIT", "ROLLBACK"])
)
work = st.one_of(statement(), statement(), transaction)
loads = [f"LOAD{table}{how}" for table in ("", *(f" {name}" for name in TABLES)) for how in ("", " REPEATING")]
closes = st.sampled_from(["CLOSE", "CLOSE 1", "CLOSE 40"])
event = st.one_of(
    st.just(("PASS",)),
    closes.map(lambda close: (close,)),
    closes.map(lambda close: (close, "PASS")),
    closes.map(lambda close: (close, "PASS")),
    *[st.integers(0, 2).map(lambda number: (f"RESUME {number}", "PASS")), st.just(("PUT", "PASS"))] * 2,
    st.sampled_from(loads).map(lambda load: (load,)),
    st.sampled_from(loads).map(lambda load: (load, "PASS")),
    *[st.builds(lambda close, number: (close, f"AWAY {number}", "PASS"), closes, st.integers(0, 3))] * 2,
    st.just(("BACK",)),
    st.just(("BACK", "PASS")),
    *[st.builds(lambda close, number: (close, f"SPOIL {number}", "PASS"), closes, st.integers(0, 3))] * 2,
    st.just(("MEND", "PASS")),
)
chapter = st.builds(lambda steps, event: (*steps, *event), st.lists(work, min_size=1, max_size=5), event)
start = st.builds(
    lambda steps, load: (*steps, *load),
    st.lists(work, min_size=2, max_size=6),
    st.sampled_from([("LOAD",), ("LOAD",), ("LOAD REPEATING",), (), ("SNAP",), ("SNAP",)]),
)


def histories() -> st.SearchStrategy[History]:
    "Some rows, a load, and chapters that each end with something that DMS or we do."
    steps = st.builds(lambda start, chapters: start + sum(chapters, ()), start, st.lists(chapter, min_size=3, max_size=8))
    drawn = st.builds(
        History, steps, **{name: st.booleans() for name in ("sequence", "stamp", "op", "parts", "soft", "csv", "header", "zipped", "images")}
    )
    return drawn.map(
        lambda one: replace(one, header=True) if one.op and one.images else one
    )  # an Op before, or an image behind: both may fit, which is said


# Trying many, and making short what failed

PATIENCE = 240  # seconds that are spent on making a history shorter
FAILURES = (Exception, pytest.fail.Exception)
QUIET = {"derandomize": False, "database": None, "deadline": None, "print_blob": True, "suppress_health_check": list(HealthCheck)}


def simpler(history: History) -> Iterator[History]:
    "The same without a statement of a transaction, or without a setting."
    for at, step in enumerate(history.steps):
        if isinstance(step, tuple):
            less = [step[:i] + step[i + 1 :] for i in range(len(step))] if len(step) > 1 else step
            yield from (replace(history, steps=(*history.steps[:at], one, *history.steps[at + 1 :])) for one in less)
    yield from (replace(history, **{f.name: False}) for f in fields(history)[1:] if getattr(history, f.name))


def shortest(history: History, fails: Callable[[History], bool]) -> History:
    "Leave out what can be left out while it still fails. Hypothesis shrinks too, but needs hundreds of runs, each of a second or two."
    end, size = time.monotonic() + PATIENCE, len(history.steps)
    while size:
        at = 0
        while at < len(history.steps):
            less = replace(history, steps=history.steps[:at] + history.steps[at + size :])
            if time.monotonic() < end and fails(less):
                history = less
            else:
                at += size
        size //= 2
    while less := next((less for less in simpler(history) if time.monotonic() < end and fails(less)), None):
        history = less
    return history


def for_random_histories(count: int, live: Callable[[History], None]) -> None:
    "Live so many; of one that fails, show a short one that fails too."
    failed = []

    @settings(**QUIET, max_examples=count, phases=[Phase.generate])
    @seed(SEED)
    @given(histories())
    def try_one(history: History) -> None:
        if not fails(history):
            return
        failed.append(history)
        raise AssertionError("this history fails")

    def fails(history: History) -> bool:
        try:
            live(history)
        except FAILURES:
            return True
        return False

    try:
        try_one()
    except AssertionError:
        if not failed:
            raise
    if not failed:
        return
    short = shortest(failed[-1], fails)
    try:
        live(short)
    except FAILURES as error:
        raise AssertionError(
            f"{error}\n\nSeed {SEED}. The shortest history found, to be pasted into KNOWN of test_histories.py:\n{short!r},"
        ) from error
    raise AssertionError(f"Seed {SEED}. This history fails, but not always:\n{short!r},")
