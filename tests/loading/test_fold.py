"Random histories: what passes make of change files, wherever they are cut, is what applying one by one makes of them."

from __future__ import annotations

import random
from contextlib import contextmanager, nullcontext

import pytest

from dmscdc.capture.writer import DmsSettings, change_sequence, moment_utc
from tiers import sampled
from ways import taken
from world import World, closed, replayed

pytestmark = pytest.mark.test

KEYS, VALUES = {"h": "int", "k": "int", "part": "string"}, {"a": "int", "b": "string", "c": "decimal(10,2)"}
COLUMNS = "h, k, part, a, b, c, Op, _cdc_file, _cdc_row"
HISTORIES, FILES = 40, 9


@contextmanager
def split_files(spark, size="2kb"):
    "Let Spark read one file in several tasks, and bring the changes of a key together, as it does with many and large files."
    names = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    before = {n: spark.conf.get(n) for n in names}
    for n, value in zip(names, (size, "1b")):
        spark.conf.set(n, value)
    try:
        with taken("shuffled", spark):
            yield
    finally:
        for n, value in before.items():
            spark.conf.set(n, value)


def history(rng: random.Random, schema: dict[str, str], h: int) -> list[tuple]:
    "Changes of three keys of one history in one file: any operation after any other, some rows twice."
    values = {"h": h, "a": None, "b": None, "c": None}
    rows = []
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        values |= {
            "k": rng.randrange(3),
            "part": rng.choice("xy"),
            "a": rng.choice((None, rng.randrange(99))),
            "b": rng.choice((None, "", "ü")),
            "c": rng.randrange(99),
        }
        rows += [(rng.choice("IUUDD"), *[values[name] for name in schema])] * rng.choice((1, 1, 1, 2))
    return rows


def write_histories(w: World, rng: random.Random, key: tuple[str, ...], number: int, sequences: bool) -> None:
    "One change file: all key columns, and of the others those that this file happens to carry."
    carried = {n: t for n, t in VALUES.items() if rng.random() < 0.7}
    schema = {**KEYS, **(carried if number else VALUES)}
    rows = [row for h in range(HISTORIES) for row in history(rng, schema, h)]
    rng.shuffle(rows)
    commit = moment_utc(f"2018-12-15 10:{number:02d}:00")
    settings = DmsSettings(row_group_length=17, sequence_column="seq" if sequences else "")
    w.changes(number, rows, schema, settings=settings, sequences=[change_sequence(commit, 1000 * number + i) for i in range(len(rows))])


CASES = [(("h", "k"), "hard", False, 1), (("h", "k"), "soft", True, 2), (("part", "k", "h"), "hard", True, 3), (("part", "k", "h"), "soft", False, 4)]


@pytest.mark.parametrize(
    "way, key, delete, sequences, seed",
    sampled([(way, *case) for way in ("direct", "shuffled") for case in CASES], ("direct", *CASES[1]), ("shuffled", *CASES[2])),
    indirect=["way"],
)
def test_passes_cut_anywhere_equal_applying_one_by_one(tmp_path, spark, key, delete, sequences, seed, way):
    rng = random.Random(seed)
    w = World(tmp_path, spark, {**KEYS, **VALUES}).set(key=key, delete=delete)
    start = {(h, k, "x") if "part" in key else (h, k): (h, k, "x", 1, "old", 2) for h in range(HISTORIES) for k in range(2)}
    w.load(list(start.values()), settings=DmsSettings(sequence_column="seq" if sequences else ""))
    cuts = sorted(rng.sample(range(1, FILES), 2))
    with split_files(spark) if way == "shuffled" else nullcontext():
        for number in range(FILES):
            write_histories(w, rng, key, number, sequences)
            if number + 1 in (*cuts, FILES):
                done = w.go()
                assert done.verdict in ("ok", "attention") and all("matched no row" in note for note in done.notes)
                assert w.lake(COLUMNS) == replayed(w.raw, key, COLUMNS, delete == "soft"), closed(number)
