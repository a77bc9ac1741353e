"What must hold for any changes: folding is applying one by one, to repeat is to change nothing, and arrival is not order."

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any, Callable

import pyarrow as pa
import pytest
from history import COUNT, KEYS, SEED, STEP, TRIED, History, RowLife, SyncResult, ordered, same
from hypothesis import Phase, example, given, seed, settings
from hypothesis import strategies as st
from strategies import QUIET, for_random_histories

from dmscdc.capture.writer import change_sequence, moment_utc
from dmscdc.changes.fold import WRITE, Folding, fold
from dmscdc.changes.read import GROUP, KIND, NAME, change_files
from dmscdc.changes.schema import FILE, OP, OURS, ROW, Column, Footer, lake_arrow_type
from dmscdc.lake.parquet.rewrite import Work, apply_rows, match
from world import World, closed

pytestmark = pytest.mark.test

FEW = max(4, COUNT // 10)  # histories for each property of a table


# Folding

SCHEMA = {"h": "int", "k": "string", "a": "int", "b": "string", "c": "decimal(10,2)", "seq": "string"}
FOLDED, VALUES = ("h", "k"), ("a", "b", "c")
Change = tuple[str, tuple, tuple]  # Op, key, values

keys = st.tuples(st.sampled_from([1, 2]), st.sampled_from(["", "é"]))
values = st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, "", "x"]), st.sampled_from([None, 1, 2]))
changes = st.lists(st.tuples(st.sampled_from("IUD"), keys, values), max_size=6)
files = st.lists(
    st.tuples(st.sets(st.sampled_from(VALUES)), changes, st.integers(0, 2)), min_size=1, max_size=6
)  # the columns that a file carries, its changes, when it comes


def called(number: int) -> str:
    return f"{closed(number)}.parquet"


def rows_of(number: int, carried: set[str], changes: list[Change]) -> list[dict[str, Any]]:
    "A file's rows, without what it does not carry; their sequence is empty."
    rows = [
        dict(zip(FOLDED + VALUES, key + values)) | {OP: op, "seq": "", FILE: called(number), ROW: i} for i, (op, key, values) in enumerate(changes)
    ]
    return [{n: v for n, v in row.items() if n in carried or n not in VALUES} for row in rows]


def one_by_one(rows: list[dict[str, Any]], soft: bool) -> list[dict[str, Any]]:
    "The table after all changes, applied one after the other."
    table: dict[tuple, dict] = {}
    for row in rows:
        key, ours = tuple(row[k] for k in FOLDED), {n: row[n] for n in (OP, FILE, ROW)}
        old = table.get(key)
        if row[OP] != "D":
            table[key] = {**(old if old and old[OP] != "D" else dict.fromkeys(SCHEMA)), **row}
        elif soft:
            table |= {key: {**old, **ours}} if old and old[OP] != "D" else {}
        else:
            table.pop(key, None)
    return sorted(table.values(), key=repr)


def folded(
    lake: pa.Table, rows: dict[int, list[dict]], carried: dict[int, set[str]], kinds: dict[int, str], soft: bool, sequence: str = ""
) -> pa.Table:
    "The lake after one batch: all changes of a key folded into one row, which is applied to the row of that key."
    schema = tuple(Column(*item) for item in SCHEMA.items())
    footers = [Footer(called(n), tuple(c for c in schema if c.name in carried[n] or c.name not in VALUES), len(rows[n]), 0) for n in rows]
    of = change_files(footers, {}, schema, {called(n): kind for n, kind in kinds.items()})
    types = {c.name: lake_arrow_type(c.type) for c in (*schema, *OURS)} | {NAME: pa.string(), GROUP: pa.int32(), KIND: pa.string()}
    told = [row | {NAME: called(n), GROUP: of.place[called(n)][0], KIND: kinds.get(n, "new")} for n in rows for row in rows[n]]
    batch, _ = fold(pa.Table.from_pylist(told, pa.schema(list(types.items()))), Folding(schema, FOLDED, of.sets, soft, sequence))
    work = Work(
        "", "", "", "", tuple((c.name, c.type) for c in (OURS[0], *schema, *OURS[1:])), FOLDED, (), tuple(names for _, names in of.sets), soft, 0, ()
    )
    at = match(lake, batch, FOLDED)
    after, removed = apply_rows(lake.filter(pa.array(at >= 0)), batch.take(at[at >= 0]), work)
    new = batch.filter(batch[WRITE])
    new = new.filter(pa.array(match(new, lake, FOLDED) < 0)).select(work.names)
    return pa.concat_tables([lake.filter(pa.array(at < 0)), after.filter(pa.array(~removed)), new]).combine_chunks()


def empty_lake() -> pa.Table:
    return pa.schema([(c.name, lake_arrow_type(c.type)) for c in (OURS[0], *(Column(*item) for item in SCHEMA.items()), *OURS[1:])]).empty_table()


def told(lake: pa.Table) -> list[dict[str, Any]]:
    "Rows in the order of the oracle, decimals as numbers, columns too."
    return sorted(
        ({n: row[n] if n != "c" or row[n] is None else int(row[n]) for n in (*SCHEMA, OP, FILE, ROW)} for row in lake.to_pylist()), key=repr
    )


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({n: row.get(n) for n in (*SCHEMA, OP, FILE, ROW)} for row in rows), key=repr)


def encoded(files: list[tuple]) -> tuple[dict[int, list[dict]], dict[int, set[str]]]:
    "Rows by the file's number, and what the file carries."
    return {n: rows_of(n, carried, changes) for n, (carried, changes, _) in enumerate(files)}, {n: file[0] for n, file in enumerate(files)}


MADE, UNMADE = ("I", (2, ""), (1, None, None)), ("D", (2, ""), (None, None, None))


@settings(**QUIET, max_examples=25 * COUNT, phases=[Phase.explicit, Phase.generate, Phase.shrink])
@seed(SEED)
@given(files, st.booleans())
@example([({"a"}, [MADE, UNMADE], 0), (set(), [MADE], 1), (set(), [UNMADE], 0)], True)  # made again in a late file, between two deletes
@example([({"a"}, [MADE], 0), (set(), [MADE, UNMADE], 1), (set(), [UNMADE], 0)], True)  # deleted earlier than we knew
@example([({"a"}, [MADE], 0), (set(), [UNMADE], 1), (set(), [MADE], 2), (set(), [UNMADE], 0)], True)  # the same, and made again between
def test_folding_equals_applying_one_by_one_however_files_are_cut_into_batches_and_whenever_they_arrive(files, soft):
    (rows, carried), lake, there = encoded(files), empty_lake(), []
    for batch in range(3):
        come = [n for n, (_, _, arrival) in enumerate(files) if arrival == batch]
        late = [n for n in come if there and n < max(there)]
        again = [n for n in there if late and n > late[0]]
        if come:
            lake = folded(
                lake, {n: rows[n] for n in sorted([*come, *again])}, carried, dict.fromkeys(late, "late") | dict.fromkeys(again, "again"), soft
            )
        there = sorted([*there, *come])
        assert told(lake) == in_order(one_by_one([row for n in there for row in rows[n]], soft)), (
            f"after batch {batch}: files {come}, late {late}, again {again}"
        )


@settings(**QUIET, max_examples=10 * COUNT, phases=[Phase.generate, Phase.shrink])
@seed(SEED)
@given(files, st.randoms(use_true_random=False), st.booleans())
def test_where_every_row_carries_a_change_sequence_it_decides_whatever_the_files_are_called(files, chance, soft):
    rows, carried = encoded(files)
    numbers = list(range(sum(map(len, rows.values()))))
    chance.shuffle(numbers)
    for row, number in zip(sum(rows.values(), []), numbers):
        row["seq"] = change_sequence(moment_utc("2018-12-15 10:00:00"), number)
    assert told(folded(empty_lake(), rows, carried, {}, soft, "seq")) == in_order(
        one_by_one(sorted(sum(rows.values(), []), key=lambda row: row["seq"]), soft)
    )


# A table, at the end of a random history


def loaded(life: RowLife) -> list[tuple[str, SyncResult, World]]:
    "The tables that the lake has."
    there = [(name, told, told.world) for name, told in life.tables.items() if told.world.lake_table.head()]
    TRIED["tables whose properties were looked at"] += len(there)
    return there


def for_some_tables(live: Callable[[History], None]) -> None:
    "Random histories, in which there are as many tables to look at."
    before = TRIED["tables whose properties were looked at"]
    for_random_histories(FEW, live)
    assert TRIED["tables whose properties were looked at"] - before >= FEW


def as_it_lies(world: World) -> dict[str, tuple]:
    "Every file of the lake table: its inode, its time, its bytes."
    return {name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for name in world.files() for path in [world.folder / name]}


def moves_only_the_position(world: World, what: str, **asked: Any) -> None:
    "One pass, which commits, and leaves every file of the table as it is."
    if asked:
        world.state.instruct(world.ref, asked)
    number, files = world.lake_table.head().number, as_it_lies(world)
    done = world.go()
    assert done.verdict in ("ok", "nothing", "attention") and done.commit == number + 1, f"{what}: {done.verdict}, {done.words}"
    assert as_it_lies(world) == files, f"{what}: the files of {world.table} were written again"
    TRIED["passes that must keep every byte"] += 1


def test_a_file_or_all_files_replayed_change_no_byte(live):
    def replay(life: RowLife) -> None:
        for name, told, world in loaded(life):
            applied = [path for path, _ in world.state.get(world.ref).position.window]
            for path in dict.fromkeys([*applied[:1], *applied[-1:]]):
                moves_only_the_position(world, f"replay {path}", kind="replay", files=[path])
            for way in ("to", "after") * bool(applied[1:]):
                moves_only_the_position(world, f"rewind {way} {applied[0]}", kind="rewind", **{way: applied[0]})
            life.check(name, told)

    for_some_tables(lambda history: live(history, replay))


def test_a_table_loaded_again_from_its_files_is_the_same(live):
    def reload(life: RowLife) -> None:
        for name, told, world in loaded(life):
            if told.load:
                load_again(life, name, told)
            shutil.rmtree(life.root / "lake" / "_dmscdc" / "shop" / name), shutil.rmtree(world.folder, ignore_errors=True)
            assert world.idle().verdict == "attention" and not world.files() and not world.lake_table.head(), (
                "a lake that was lost is left to a person"
            )
            if told.load:
                load_again(life, name, told)
            else:
                assert world.state.remove(world.ref)
                assert life.world(name).go().verdict in ("ok", "nothing", "attention")
                life.check(name, told)
            TRIED["lost lakes made again"] += 1

    for_some_tables(lambda history: live(history, reload))


def load_again(life: RowLife, name: str, told: SyncResult) -> None:
    "One reload, and what must come of it."
    of_second_task = told.load == told.read  # what was put before it is not in it
    told.world.state.instruct(told.world.ref, {"kind": "reload", "changes": "keep" if of_second_task else "supersede"})
    assert told.world.go().verdict in ("ok", "nothing", "attention")
    life.check(name, told)


def test_a_state_rebuilt_from_the_lake_is_the_state(live):
    def lose(life: RowLife) -> None:
        items = {name: world.state.get(world.ref) for name, _, world in loaded(life)}
        for path in life.root.glob("state.db*"):
            path.unlink()
        for name in life.tables:
            life.world(name)
        for name, told, world in loaded(life):
            files = as_it_lies(world)
            assert world.idle().verdict in ("nothing", "attention")
            item = world.state.get(world.ref)
            assert (item.position, item.commit) == (items[name].position, items[name].commit) and as_it_lies(world) == files

    for_some_tables(lambda history: live(history, lose))


def test_a_commit_that_moves_only_the_position_keeps_every_byte(live):
    def move(life: RowLife) -> None:
        for name, _, world in loaded(life):
            absent = {"id": 77, "city": "nowhere", "day": "2018-12-15", "word": "unsaid"}
            life.now += STEP
            world.changes(
                f"{life.now:%Y%m%d-%H%M%S}000", [("D", *[absent[k] for k in KEYS[name]])] * 2, {k: KINDS[k] for k in KEYS[name]}, time=life.now
            )
            moves_only_the_position(world, "deletes of what is not there")
            moves_only_the_position(world, "accept", kind="accept")

    for_some_tables(lambda history: live(history, move))


KINDS = {"id": "int", "city": "string", "day": "date", "word": "string"}


# Arrival


def without_passes(history: History) -> tuple:
    "The same statements; at most one load, before all files; many small files."
    words = [step for step in history.steps if isinstance(step, str) and step.split()[0] in ("LOAD", "CLOSE")]
    begins = words[:1] and words[0].startswith("LOAD")
    steps, at = [], history.steps.index(words[0]) if begins else -1
    for i, step in enumerate(history.steps):
        if i == at:
            steps.append("LOAD")
        elif isinstance(step, tuple) or step.split()[0] not in ("LOAD", "CLOSE", "PASS", "AWAY", "BACK"):
            steps.append(step)
        elif i > at and step.startswith("CLOSE"):
            steps.append("CLOSE 1")
    return (*steps, "CLOSE 1")


def test_two_orders_of_arrival_give_one_table(live):
    def arrive(life: RowLife) -> None:
        for name, told, world in loaded(life):
            loads, files, other = sorted(world.raw.glob("LOAD*")), [file.path for file in told.files], life.world(name, life.root / "other")
            other.raw.mkdir(parents=True)
            for batch in ([*loads, *files[2::3]], files[1::3], files[::3]):
                for path in batch:
                    shutil.copy2(path, other.raw)
                assert other.go().verdict in ("ok", "nothing", "attention")
            rows, others = ([dict(sorted(row.items())) for row in life.read(name, at).rows] for at in (world, other))
            same(f"{name}: every third file first", ordered(others), ordered(rows))

    for_some_tables(lambda history: live(replace(history, steps=without_passes(history)), arrive))
