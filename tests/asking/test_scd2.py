"""A type-2 table, built in steps, against a replay of the raw files in SQL."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from dmscdc.capture.writer import DmsSettings, write_changes, write_load
from dmscdc.errors import BadSetting, CommitConflict, Refused, UnknownTable
from dmscdc.history.as_of import as_of
from dmscdc.history.changelog import open_changelog
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.lake.table import Transaction
from dmscdc.landing.files import TableRef, day_before
from dmscdc.load.process import process_table
from dmscdc.scd2.plan import Scd2Position, next_step
from dmscdc.scd2.update import Increment, read_versions, update_versions, valid_at
from dmscdc.state.position import Position
from dmscdc.state.sqlite import SqliteState
from tiers import sampled
from world import World, closed

pytestmark = pytest.mark.test

TABLE, KEY = "shop.item", ("a", "b")
SCHEMA = {"a": "int", "b": "string", "name": "string", "price": "int", "seen": "string"}
SHORT = {name: kind for name, kind in SCHEMA.items() if name != "price"}  # a file that does not carry the price
DAY = datetime(2018, 12, 15, tzinfo=timezone.utc)


@dataclass
class Shop:
    "A table in a landing, with what the oracle must know of its files."

    root: Path
    spark: Any
    rows: list[dict] = field(default_factory=list)  # every row of every file that was put
    loads: int = 0
    ignored: tuple[str, ...] = ()
    settings: DmsSettings = DmsSettings()

    def __post_init__(self):
        SqliteState(self.root / "state.db").put_settings(TableRef.parse(TABLE), key="a,b")

    @property
    def landing(self) -> str:
        return str(self.root / "landing")

    @property
    def places(self) -> list[str]:
        return [TABLE, self.landing, str(self.root / "lake"), f"sqlite:{self.root / 'state.db'}"]

    @property
    def there(self) -> ParquetTable:
        return ParquetTable(str(self.root / "lake"), TableRef("shop", "item_scd2"))

    def load(self, minute: float, *rows: tuple) -> None:
        "A load file over those before; what only its load brought is a copy in the oracle."
        at, self.loads = DAY + timedelta(minutes=minute), self.loads + 1
        write_load(self.landing, TABLE, rows, SCHEMA, settings=self.settings, time=at.timestamp())
        self.rows += [self.row(0, "LOAD", n, "I", row, at) for n, row in enumerate(rows)]

    def put(self, minute: float, *rows: tuple, schema: dict = SCHEMA, late: float = 1, **more: Any) -> Path:
        "A change file closed at a minute of the day and put so many seconds later."
        at = DAY + timedelta(minutes=minute)
        file = write_changes(self.landing, TABLE, rows, at, schema, self.settings, time=at.timestamp() + late, **more)
        times = more.get("commits") or [at] * len(rows)
        self.rows += [self.row(1, file.name, n, row[0], row[1:], t, "price" in schema) for n, (row, t) in enumerate(zip(rows, times))]
        return file

    def row(self, kind: int, file: str, n: int, op: str, values: tuple, at: datetime, whole: bool = True) -> dict:
        names = SCHEMA if whole else SHORT
        return {
            "load": self.loads,
            "kind": kind,
            "file": file,
            "row": n,
            "op": op,
            "t": at,
            "whole": whole,
            "price": None,
            **dict(zip(names, values)),
        }

    def update(self, **more: Any) -> Increment:
        return update_versions(
            *self.places, **{"landed": True, "quiet_period": 0, "run": "test", "spark": lambda: self.spark, "ignored": self.ignored, **more}
        )

    def versions(self) -> list[tuple]:
        "All that the type-2 table says, as DuckDB reads its folder."
        return self.query(
            f"select a, b, name, price, seen, {MINUTES('valid_from')}, {MINUTES('valid_to')}, is_current, position, position_to, _cdc_file, _cdc_row from v order by all"
        )

    def plain(self) -> list[tuple]:
        return [row[:8] for row in self.versions()]

    def query(self, sql: str) -> list[tuple]:
        with duckdb.connect() as db:
            db.execute("set timezone = 'UTC'")
            return db.execute(f"with v as (select * from read_parquet('{self.there.location}/*.parquet')) {sql}").fetchall()

    @property
    def compared(self) -> list[str]:
        return [name for name in ("name", "price", "seen") if name not in self.ignored]

    def broken(self) -> list[tuple]:
        "Versions that overlap or are empty, equal one that they meet, or are current where they should not be."
        same = " and ".join(f"n.{c} is not distinct from m.{c}" for c in self.compared)
        return self.query(f"""
            , n as (select *, row_number() over (partition by a, b order by valid_from) i, count(*) over (partition by a, b) many from v)
            select n.* from n left join n m on (m.a, m.b, m.i) = (n.a, n.b, n.i + 1) where n.valid_to <= n.valid_from or n.valid_to > m.valid_from
            or (n.valid_to is null) <> n.is_current or n.is_current and n.i < n.many or n.valid_to = m.valid_from and {same}""")

    def files(self) -> set[str]:
        return {f.name for f in self.there.transaction_log.head().files}

    def mirror(self, cut: str = "") -> None:
        "The mirror's commit of all that landed, as a pass would leave it."
        past, lake = open_changelog(self.landing, TableRef.parse(TABLE)), ParquetTable(str(self.root / "lake"), TableRef.parse(TABLE))
        mine = [f for f in (*past.before, *past.changes) if f.name > cut]
        last = mine[-1].path if mine else ""
        at = Position(self.loads, past.load, last, tuple(f.identity for f in mine), day_before(last) if last else "", cut=cut)
        lake.commit_position(Transaction(lake.head(), at.to_json(), "test", (), KEY)).commit()


def MINUTES(name: str) -> str:
    return f"epoch({name} - timestamptz '2018-12-15 00:00:00+00') / 60"


ORACLE = """
with given as (select *, false gone from rows union all
  select l.load, -1, '', 0, 'D', l.t, true, null, k.a, k.b, null, null, true from (select distinct load, t from rows where kind = 0 and load > 1) l
  join (select distinct a, b, load from rows) k on k.load < l.load),
once as (select distinct load, kind, file, "row", op, a, b, name, price, seen, whole, t from given),
lines as (select *, row_number() over (order by load, kind, file, "row", a, b) n from once),
begun as (select *, (select coalesce(max(case when y.kind = 0 then y.n else y.n + 1 end), 0) from lines y where (y.a, y.b) = (x.a, x.b) and (y.op = 'D' and y.n < x.n or y.kind = 0 and y.n <= x.n)) start from lines x),
state as (select x.a, x.b, x.n, max(greatest(x.t, y.t)) t, x.op <> 'D' alive,
  last(y.name order by y.n) filter (y.op <> 'D' and y.n >= x.start) name, last(y.seen order by y.n) filter (y.op <> 'D' and y.n >= x.start) seen,
  last(y.price order by y.n) filter (y.op <> 'D' and y.n >= x.start and y.whole) price
  from begun x join lines y on (y.a, y.b) = (x.a, x.b) and y.n <= x.n group by x.a, x.b, x.n, x.op),
shown as (select a, b, n, t, alive, case when alive then name end name, case when alive then price end price, case when alive then seen end seen from state),
moments as (select *, row_number() over (partition by a, b, t order by n desc) = 1 last from shown),
told as (select *, coalesce(({same}) is distinct from lag(({same})) over (partition by a, b order by t), true) differs from moments where last),
versions as (select *, lead(t) over (partition by a, b order by t) t2 from told where differs)
select a, b, name, price,
  (select last(s.seen order by s.n) from shown s where (s.a, s.b) = (v.a, v.b) and s.alive and s.t >= v.t and (v.t2 is null or s.t < v.t2)) seen,
  {minutes}, t2 is null from versions v where alive order by all"""


def oracle(shop: Shop) -> list[tuple]:
    "Versions out of the rows that were put, in SQL: the state in each moment, and where it differs from the one before."
    with duckdb.connect() as db:
        db.execute("set timezone = 'UTC'")
        db.execute(
            'create table rows (load int, kind int, file text, "row" int, op text, t timestamptz, whole bool, price int, a int, b text, name text, seen text)'
        )
        names = ("load", "kind", "file", "row", "op", "t", "whole", "price", "a", "b", "name", "seen")
        db.executemany(f"insert into rows values ({', '.join('?' * len(names))})", [[row.get(n) for n in names] for row in shop.rows])
        return db.execute(ORACLE.format(same=", ".join(["alive", *shop.compared]), minutes=f"{MINUTES('t')}, {MINUTES('t2')}")).fetchall()


def some_changes(chance: random.Random, count: int) -> list[tuple]:
    "Changes of a few keys: updates that change nothing or only what was seen, deletions, keys that come back or were never there."
    made = []
    for _ in range(count):
        key, op = (chance.randrange(6), chance.choice("xy")), chance.choice("IUUUUD")
        made.append((op, *key, chance.choice(["Tent", "Pegs", None]), chance.choice([1, 2]), chance.choice("pq")))
    return made


def without_price(rows: list[tuple]) -> list[tuple]:
    return [(*row[:4], row[5]) for row in rows]


def some_file(shop: Shop, chance: random.Random, minute: float, *more: tuple, short: bool = False, late: float = 1) -> None:
    "Ten changes and some that matter; a short file does not carry the price."
    rows = [*some_changes(chance, 10), *more]
    shop.put(minute, *(without_price(rows) if short else rows), schema=SHORT if short else SCHEMA, late=late)


def said(frame: Any, names: list[str]) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.select(*names).collect())


@pytest.fixture
def shop(tmp_path, spark):
    return Shop(tmp_path, spark)


def first_load(shop: Shop) -> None:
    shop.load(540, *[(n, b, "Tent", 1, "p") for n in range(5) for b in "xy"])


def test_steps_cut_anywhere_equal_the_replay_and_one_weaving_of_all_and_every_moment_equals_the_table_as_of_then(shop):
    chance = random.Random(6)
    first_load(shop)
    some_file(shop, chance, 545)
    shop.update()
    assert shop.plain() == oracle(shop) and shop.broken() == []
    for minute in (550, 565):
        some_file(shop, chance, minute, short=minute == 550)
    shop.update()
    some_file(shop, chance, 555, late=1200, short=True)
    some_file(shop, chance, 560, late=1201)
    some_file(shop, chance, 570)
    done = shop.update()
    assert done.files == {"load": 0, "ended": 0, "new": 3, "late": 2, "reapplied": 1}
    assert shop.plain() == oracle(shop) and shop.broken() == []
    in_steps = shop.versions()
    assert [sum(row[7] for row in in_steps), len(in_steps)] == [done.current, done.versions]
    past, versions = open_changelog(shop.landing, TableRef.parse(TABLE)), read_versions(shop.spark, TABLE, shop.places[2])
    for minute in (545, 559, 600):
        at, names = DAY + timedelta(minutes=minute), ["a", "b", "name", "price", "seen"]
        then, held = as_of(shop.spark, past, KEY, at).rows, valid_at(versions, at)
        assert said(held, names) == said(then, names) != []
    assert shop.update(rebuild=True).verdict == "ok"
    assert shop.versions() == in_steps


def test_by_default_the_current_versions_are_the_rows_of_the_mirror_and_wait_for_it(shop):
    first_load(shop)
    shop.put(545, ("U", 1, "x", "Pegs", 1, "p"), ("D", 2, "x", None, None, None))
    shop.put(555, ("I", 2, "x", "Stove", 2, "p"), ("U", 1, "x", "Poles", 1, "p"))
    columns, mirror = "a, b, name, price, seen, _cdc_file, _cdc_row", f"read_parquet('{shop.root}/lake/shop/item/*.parquet')"
    for minute, late in ((550, 1200), (560, 1)):
        process_table(*shop.places, quiet_period=0, spark=lambda: shop.spark)
        shop.put(minute, ("U", 3, "x", f"Rope {minute}", 1, "p"), ("U", 1, "x", f"Hooks {minute}", 1, "q"), late=late)
        done = shop.update(landed=False)
        assert done.files["new"] == (2 if late > 1 else 1) and done.files["late"] == (late == 1)
        rows = shop.query(f"select {columns} from v where is_current order by all")
        assert rows == shop.query(f"select {columns} from {mirror} order by all") and len(rows) == done.current
    assert shop.query("select name from v where a = 1 and b = 'x' order by valid_from") == [("Tent",), ("Pegs",), ("Hooks 550",), ("Poles",)]


@pytest.mark.proof
def test_a_reload_closes_what_differs_and_ignored_columns_begin_no_version_also_where_a_file_comes_late(shop):
    chance, shop.ignored = random.Random(7), ("seen",)
    first_load(shop)
    some_file(shop, chance, 550, ("I", 9, "x", "Tent", 1, "p"))
    shop.mirror()
    shop.update(landed=False)
    assert shop.plain() == oracle(shop) and shop.broken() == []
    some_file(shop, chance, 560, ("U", 9, "x", "Tent", 1, "q"))  # begins no version, until a late file comes before it
    shop.mirror()
    shop.update(landed=False)
    some_file(shop, chance, 555, ("U", 9, "x", "Late", 1, "r"), late=1200)
    shop.mirror()
    done = shop.update(landed=False)
    assert done.files["late"] == 1 and done.files["load"] == 1
    assert shop.plain() == oracle(shop) and shop.broken() == []
    some_file(shop, chance, 590)
    last = shop.put(591, ("U", 1, "x", "Last words", 1, "p")).name
    shop.load(600, *[(n, b, chance.choice(["Tent", "Pegs"]), 1, "q") for n in range(2, 8) for b in "xy"])
    some_file(shop, chance, 605)
    shop.mirror(cut=last)
    done = shop.update(landed=False)
    assert done.files == {"load": 1, "ended": 2, "new": 1, "late": 0, "reapplied": 0} and done.verdict == "ok"
    assert shop.plain() == oracle(shop) and shop.broken() == []
    some_file(shop, chance, 610)
    shop.mirror(cut=last)
    assert shop.update(landed=False).files["new"] == 1
    assert shop.plain() == oracle(shop) and shop.broken() == []


def test_a_commit_time_says_from_when_on_and_of_one_moment_the_last_state_remains(shop):
    chance, shop.settings = random.Random(8), DmsSettings(timestamp_column="committed")
    first_load(shop)
    shop.put(539.5, *some_changes(chance, 8), late=90, commits=[DAY + timedelta(minutes=538)] * 8)  # while the load ran
    for minute in (550, 551):
        commits = sorted(DAY + timedelta(minutes=minute - 1, seconds=15 * chance.randrange(4)) for _ in range(20))
        shop.put(minute, *some_changes(chance, 20), commits=commits)
    done = shop.update()
    assert done.clock == "commit time of column committed" and done.hidden > 0
    assert shop.plain() == oracle(shop) and shop.broken() == []
    shop.put(552, *some_changes(chance, 5), commits=[commits[-1]] * 5)  # what is left of the same transaction
    shop.update()
    assert shop.plain() == oracle(shop) and shop.broken() == []
    in_steps, at = shop.versions(), DAY + timedelta(minutes=550, seconds=-20)
    past, names = open_changelog(shop.landing, TableRef.parse(TABLE)), ["a", "b", "name", "price", "seen"]
    then, held = as_of(shop.spark, past, KEY, at).rows, valid_at(read_versions(shop.spark, TABLE, shop.places[2]), at)
    assert said(held, names) == said(then, names) != []
    shop.update(rebuild=True)
    assert shop.versions() == in_steps


def test_the_change_sequence_orders_changes_where_all_carry_it(shop):
    shop.settings = DmsSettings(sequence_column="seq")
    shop.load(540, (1, "x", "Tent", 1, "p"))
    at, number = DAY + timedelta(minutes=549), "20181215090900{:02d}{:019d}".format
    shop.put(550, ("U", 1, "x", "Second", 1, "p"), ("U", 1, "x", "First", 1, "p"), sequences=[number(20, 2), number(10, 1)])
    assert shop.update().clock == "change sequence of column seq"
    shown = shop.query("select name, strftime(valid_from, '%H:%M:%S.%g') from v order by valid_from")
    assert shown == [("Tent", "09:00:00.000"), ("First", "09:09:00.100"), ("Second", "09:09:00.200")] and at
    shop.settings = DmsSettings()
    shop.put(560, ("U", 1, "x", "Third", 1, "p"))
    with pytest.raises(
        Refused, match="changes are ordered by seq, and new ones do not carry it. Rebuild all versions: dmscdc scd2 shop.item --rebuild"
    ):
        shop.update()


def test_nothing_new_starts_no_spark_and_whoever_comes_second_or_reads_a_file_that_changes_commits_nothing(shop):
    first_load(shop)
    shop.put(550, ("U", 1, "x", "Pegs", 1, "p"))
    shop.update()
    assert shop.update(spark=lambda: pytest.fail("Spark was started")).verdict == "nothing"
    file, before = shop.put(560, ("D", 1, "x", None, None, None)), shop.versions()

    def touched():
        file.touch()
        return shop.spark

    with pytest.raises(CommitConflict, match="20181215-092000000.parquet is another file now, or gone; nothing was committed"):
        shop.update(spark=touched)
    assert shop.versions() == before and shop.there.head().number == 1

    def overtaken():
        shop.update()
        return shop.spark

    with pytest.raises(CommitConflict, match="another writer made commit 2"):
        shop.update(spark=overtaken)
    assert shop.there.head().number == 2 and shop.plain() == oracle(shop)
    assert shop.update(spark=lambda: pytest.fail("Spark was started")).verdict == "nothing"


def test_one_key_rewrites_one_file_and_an_update_that_changes_nothing_none(shop):
    shop.load(540, *[(n, "x", f"Tent {n}" * 9, n, "p") for n in range(3000)])
    shop.update()
    first = shop.files()
    shop.put(550, *[("I", n, "y", f"Pegs {n}" * 9, n, "p") for n in range(3000, 6000)])
    shop.update()
    both = shop.files()
    assert len(first) == 1 and len(both) == 2 and first < both
    shop.put(560, ("U", 3500, "y", "Bent Pegs", 1, "p"), ("U", 7, "z", None, None, None), ("D", 7, "z", None, None, None))
    done = shop.update()
    assert first < shop.files() and not (both - first) & shop.files()
    assert (done.opened, done.closed, done.rebuilt, done.hidden) == (1, 1, 0, 0)
    after = shop.files()
    shop.put(570, ("U", 3500, "y", "Bent Pegs", 1, "p"))
    assert shop.update().words == "shop.item_scd2: 0 versions opened, 0 closed, 0 rebuilt"
    assert shop.files() == after and shop.there.head().number == 4


def test_a_late_file_waits_as_long_as_a_woven_file_after_it_is_gone(shop):
    first_load(shop)
    shop.put(550, ("U", 1, "x", "Pegs", 1, "p"))
    newer = shop.put(570, ("U", 1, "x", "Poles", 1, "p"))
    shop.update()
    shutil.move(newer, shop.root / "kept")
    shop.put(560, ("U", 1, "x", "Ropes", 1, "p"), ("D", 2, "x", None, None, None), late=1200)
    before = shop.versions()
    done = shop.update(spark=lambda: pytest.fail("Spark was started"))
    assert (done.verdict, shop.versions()) == ("attention", before)
    assert done.notes[0].startswith("shop.item: late file 20181215-092000000.parquet is not applied: 20181215-093000000.parquet, which")
    shop.put(580, ("U", 3, "x", "Pans", 1, "p"))
    assert shop.update().verdict == "attention" and ("Pans",) in shop.query("select name from v")
    (shop.root / "archive/shop/item").mkdir(parents=True)
    shutil.move(shop.root / "kept", shop.root / "archive/shop/item" / newer.name)
    done = shop.update(archive=str(shop.root / "archive"))
    assert done.verdict == "ok" and done.files["late"] == 1
    assert shop.plain() == oracle(shop) and shop.broken() == []


def test_what_cannot_be_is_refused_and_nothing_is_made(shop, tmp_path):
    first_load(shop)
    with pytest.raises(Refused, match="no lake table yet: dmscdc pass --only shop.item, or add --to landed"):
        shop.update(landed=False)
    with pytest.raises(BadSetting, match="column a cannot be ignored"):
        shop.update(ignored=["a"])
    with pytest.raises(UnknownTable, match="versions need a key, and none is set: dmscdc table set shop.other --key"):
        update_versions("shop.other", *shop.places[1:])
    assert shop.update(quiet_period=1e10).notes == ("shop.item: load 1 may still be written, it is applied once it is complete",)
    write_load(shop.landing, "shop.item_scd2", [(1,)], {"id": "int"})
    with pytest.raises(Refused, match="shop.item_scd2: the source has a table of this name"):
        shop.update()
    shutil.rmtree(tmp_path / "landing/shop/item_scd2")
    assert shop.there.head() is None
    shop.there.commit_position(Transaction(None, Position().to_json(), "a pass", (), KEY)).commit()
    with pytest.raises(Refused, match="is a mirror, not the type-2 table of another"):
        shop.update()


def test_a_late_file_of_a_load_that_was_replaced_is_said(tmp_path):
    at = lambda minute: (DAY + timedelta(minutes=minute)).timestamp()
    for minute, name, put in ((0, "load", 0), (10, "a", 10)):
        if name == "load":
            write_load(tmp_path, TABLE, [(1, "x", "one", 1, "")], SCHEMA, time=at(20))
        else:
            write_changes(tmp_path, TABLE, [("U", 1, "x", name, 1, "")], DAY + timedelta(minutes=minute), SCHEMA, time=at(put) + 1)
    late = write_changes(tmp_path, TABLE, [("U", 1, "x", "late", 1, "")], DAY + timedelta(minutes=8), SCHEMA, time=at(22))
    past = open_changelog(
        str(tmp_path),
        TableRef.parse(TABLE),
        position=Position(2, open_changelog(str(tmp_path), TableRef.parse(TABLE)).load, cut=f"{DAY:%Y/%m/%d}/20181215-001000000.parquet"),
    )
    for listed, said in ((21, [late.name]), (23, [])):
        built = Scd2Position(Position(2, past.load, listed_at=at(listed), cut=past.before[-1].path), 0, 1, at(20))
        notes = next_step(past, 2, past.changes, built).notes
        assert [name for note in notes for name in said if name in note] == said and len(notes) == len(said), notes


@pytest.mark.proof
@pytest.mark.parametrize("kind", sampled(["double", "float"], "double"))
def test_both_zeros_have_one_line_of_versions_and_so_have_all_nans(tmp_path, spark, kind):
    world = World(tmp_path, spark, {"k": kind, "name": "string"}).set(key="k")
    world.load([(-0.0, "zero"), (1.5, "other"), (float("nan"), "none")], time=DAY).changes(
        1, [("U", 0.0, "nought"), ("U", float("nan"), "no number")]
    )
    world.changes(3, [("D", -0.0, None), ("U", -float("nan"), "nothing")]).changes(4, [("I", 0.0, "again")])

    def versions() -> dict[str, tuple[bool, int]]:
        "By name: whether it is valid, and how many versions its key has."
        rows = [
            row
            for path in Path(update_versions(*world.places, landed=True, quiet_period=0, spark=lambda: spark).location).rglob("*.parquet")
            for row in pq.read_table(path).to_pylist()
        ]
        same = lambda a, b: a == b or a != a and b != b  # noqa: E731
        return {row["name"]: (row["is_current"], sum(same(row["k"], other["k"]) for other in rows)) for row in rows}

    late = {name: world.raw / f"{closed(name)}.parquet" for name in (3, 4)}
    kept = {name: path.rename(tmp_path / path.name) for name, path in late.items()}
    assert versions() == {"zero": (False, 2), "nought": (True, 2), "other": (True, 1), "none": (False, 2), "no number": (True, 2)}
    for name, path in kept.items():
        path.rename(late[name])
    told = {
        "zero": (False, 3),
        "nought": (False, 3),
        "again": (True, 3),
        "other": (True, 1),
        "none": (False, 3),
        "no number": (False, 3),
        "nothing": (True, 3),
    }
    assert versions() == told
    world.changes(2, [("U", 0.0, "late"), ("U", float("nan"), "late too")])
    assert versions() == {**{name: (now, count + (count > 1)) for name, (now, count) in told.items()}, "late": (False, 4), "late too": (False, 4)}
