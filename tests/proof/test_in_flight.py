"""A table beside its source while changes travel: what is in flight, what is not explained yet, what is different. The source is a SQLite database that we write by hand."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from awkward import COLUMNS
from damage import SOURCE, encoded, more_throughout, put, rows_of
from dmscdc.capture.writer import DmsSettings, write_changes
from dmscdc.errors import LakeDamaged, Refused, Unreadable
from dmscdc.reconcile.explain import Proof, ProofRequest, prove
from tiers import sampled
from world import World, closed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string", "price": "decimal(10,2)"}
ROWS = [(1, "lamp", 39), (2, "desk", 89), (3, "tent", 119)]
LOOK = datetime(2018, 12, 15, 10, 30, tzinfo=timezone.utc)  # when the source is looked at; files are closed at 10:MM:SS


class Shop(World):
    "A world with the source that its files come from."

    @property
    def db(self) -> Path:
        return self.root / "shop.db"

    def source(self, *statements: str) -> Shop:
        with sqlite3.connect(self.db) as db:
            for one in statements:
                db.execute(one)
        return self

    def holds(self, rows: list[tuple], columns: str = "id integer primary key, name text, price decimal(10,2)") -> Shop:
        "The source becomes these rows."
        self.source("drop table if exists item", f"create table item ({columns})")
        with sqlite3.connect(self.db) as db:
            db.executemany(f"insert into item values ({','.join('?' * len(rows[0]))})", rows)
        return self

    def proof(self, **more: Any) -> Proof:
        given = {"clock": lambda: LOOK, "pause": lambda seconds: pytest.fail("it waited"), **more}
        return prove(
            ProofRequest(self.ref, str(self.landing), str(self.root / "lake"), f"sqlite:{self.root / 'state.db'}", f"sqlite:{self.db}", **given),
            lambda: self.spark,
        )


@pytest.fixture
def shop(spark, tmp_path) -> Shop:
    "Three rows in source and lake, and one change that both have."
    world = Shop(tmp_path, spark, SCHEMA).set(key="id").load(ROWS).changes(1, [("U", 2, "desk", 90)])
    world.go()
    return world.holds([ROWS[0], (2, "desk", 90), ROWS[2]])


def counts(proof: Proof) -> tuple[str, dict, dict]:
    return proof.verdict, dict(proof.done.counts), dict(proof.done.in_flight)


def test_equal_is_said_with_position_rows_and_hash(shop):
    done = shop.proof()
    assert done.verdict == "ok"
    assert done.words == f"shop.item: equal as of load 1 (1 file), changes up to {closed(1)}.parquet: 3 rows, hash {done.done.source.hash:x}"


def test_landed_changes_of_every_kind_that_are_not_applied_are_in_flight(shop):
    shop.holds([(2, "desk", 95), ROWS[2], (4, "vase", 12)]).changes(2, [("D", *ROWS[0]), ("U", 2, "desk", 95), ("I", 4, "vase", 12)])
    done = shop.proof()
    assert counts(done) == ("ok", {}, {"extra": 1, "different": 1, "missing": 1})
    assert f"All differences are in flight in {closed(2)}.parquet" in done.words and done.command == "dmscdc pass --only shop.item"
    shop.go()
    assert "equal as of" in shop.proof().words


def test_a_source_that_stands_between_two_landed_changes_is_in_flight(shop):
    shop.holds([(1, "lamp", 40), (2, "desk", 90), ROWS[2]]).changes(2, [("U", 1, "lamp", 40), ("U", 1, "lamp", 41)]).changes(
        3, [("D", 1, "lamp", 41)]
    )
    assert counts(shop.proof()) == ("ok", {}, {"different": 1})


def test_a_difference_that_no_landed_change_explains_needs_a_look_and_is_named(shop):
    shop.source("update item set price = 40 where id = 1", "delete from item where id = 3", "insert into item values (4, 'vase', 12)")
    shop.changes(2, [("U", 1, "lamp", 41)])  # leads elsewhere
    done = shop.proof()
    assert counts(done) == ("attention", {"different": 1, "extra": 1, "missing": 1}, {})
    assert [(f.kind, f.key, f.columns) for f in done.done.findings] == [
        ("different", {"id": "1"}, {"price": ("40", "39")}),
        ("extra", {"id": "3"}, {}),
        ("missing", {"id": "4"}, {}),
    ]
    assert "1 different: id=1 (price), 1 extra: id=3, 1 missing: id=4, not explained by a change that waits" in done.words


def test_it_is_different_once_a_later_file_of_the_table_was_seen(shop):
    shop.source("update item set price = 40 where id = 1").changes("20181215-103059999", [("U", 3, "tent", 119)])
    assert shop.proof().verdict == "attention"  # closed 59.999 s after the look: our change may have come after that batch
    shop.changes("20181215-103100001", [("U", 3, "tent", 119)])
    done = shop.proof()
    assert counts(done) == ("failed", {"different": 1}, {}) and "20181215-103100001.parquet was closed later than the look plus 60 s" in done.words


@pytest.mark.torture
def test_it_is_different_once_a_later_file_of_another_table_of_the_schema_was_seen(shop):
    shop.source("delete from item where id = 3")
    write_changes(shop.landing, "other.item", [("I", 1)], "20181215-103200000", {"id": "int"})
    assert shop.proof().verdict == "attention"  # another schema may be another task
    write_changes(shop.landing, "shop.visit", [("I", 1)], "20181215-103200000", {"id": "int"})
    assert shop.proof().verdict == "failed"


@pytest.mark.torture
def test_a_later_name_on_an_older_object_tells_nothing(shop):
    shop.source("delete from item where id = 3")
    shop.changes("20181215-113200000", [("U", 1, "lamp", 39)], time=LOOK.timestamp() - 5)  # DatePartitionTimezone
    assert shop.proof().verdict == "attention"


@pytest.mark.torture
def test_it_is_different_after_the_time_that_we_wait(shop):
    shop.source("delete from item where id = 3")
    now, slept = [LOOK], []

    def pause(seconds: float) -> None:
        slept.append(seconds)
        now[0] += timedelta(seconds=seconds)

    done = shop.proof(wait=12, clock=lambda: now[0], pause=pause)
    assert done.verdict == "failed" and "nothing has come within 12 s" in done.words and slept == [5, 5, 2]


def test_a_change_that_lands_while_we_wait_explains(shop):
    shop.source("delete from item where id = 3")
    done = shop.proof(wait=60, pause=lambda seconds: shop.changes(5, [("D", *ROWS[2])]))
    assert counts(done) == ("ok", {}, {"extra": 1})


def test_in_flight_and_unexplained_are_told_apart_key_by_key(shop):
    shop.source("update item set price = 40 where id = 1", "update item set price = 91 where id = 2").changes(2, [("U", 1, "lamp", 40)])
    done = shop.proof()
    assert counts(done) == ("attention", {"different": 1}, {"different": 1})
    assert [(f.key["id"], f.in_flight) for f in done.done.findings] == [("2", False), ("1", True)]


def test_a_late_file_explains_a_key_that_nothing_touched_since(shop):
    shop.changes(3, [("U", 3, "tent", 120)]).go()
    shop.source("update item set price = 120 where id = 3", "update item set price = 35 where id = 1").changes(2, [("U", 1, "lamp", 35)])
    assert counts(shop.proof()) == ("ok", {}, {"different": 1})


@pytest.mark.torture
def test_a_late_file_does_not_explain_a_source_that_went_back_behind_the_lake(shop):
    shop.changes(3, [("U", 1, "lamp", 50)]).go()
    shop.source("update item set price = 45 where id = 1").changes(2, [("U", 1, "lamp", 45)])  # before the change that the lake has
    assert counts(shop.proof()) == ("attention", {"different": 1}, {})


@pytest.mark.torture
def test_a_late_file_fills_a_column_that_later_files_do_not_carry(shop):
    small = {"id": "int", "name": "string"}
    shop.changes(3, [("U", 1, "lantern")], schema=small).go()
    shop.source("update item set name = 'lantern', price = 45 where id = 1").changes(2, [("U", 1, "lamp", 45)])
    assert counts(shop.proof()) == ("ok", {}, {"different": 1})


@pytest.mark.torture
def test_a_column_that_a_change_does_not_carry_keeps_its_value(shop):
    shop.source("update item set name = 'lantern' where id = 1").changes(2, [("U", 1, "lantern")], schema={"id": "int", "name": "string"})
    assert counts(shop.proof()) == ("ok", {}, {"different": 1})


@pytest.mark.torture
def test_a_deleted_row_that_comes_again_without_a_column_has_none_of_its_old_life(shop):
    shop.source("update item set name = 'lantern' where id = 1")  # the source kept its price: what landed cannot explain that
    shop.changes(2, [("D", *ROWS[0])]).changes(3, [("I", 1, "lantern")], schema={"id": "int", "name": "string"})
    assert counts(shop.proof()) == ("attention", {"different": 1}, {})
    shop.source("update item set price = null where id = 1")
    assert counts(shop.proof()) == ("ok", {}, {"different": 1})


def test_a_reload_that_is_not_applied_is_in_flight(shop):
    shop.holds([(1, "lamp", 10), (9, "vase", 12)]).load([(1, "lamp", 10), (9, "vase", 12)])
    for old in shop.raw.glob("2*"):
        old.unlink()
    assert counts(shop.proof()) == ("ok", {}, {"different": 1, "missing": 1, "extra": 2})


def test_rows_marked_as_deleted_are_none(spark, tmp_path):
    world = Shop(tmp_path, spark, SCHEMA).set(key="id", delete="soft").load(ROWS).changes(1, [("D", *ROWS[0])])
    world.go()
    assert "2 rows" in world.holds(ROWS[1:]).proof().words


def test_a_table_without_a_key_is_compared_as_a_bag_of_rows(spark, tmp_path):
    world = Shop(tmp_path, spark, SCHEMA).set(insert_only=True).load([ROWS[0], ROWS[0], ROWS[1]])
    world.go()
    plain = "id int, name text, price decimal(10,2)"
    assert world.holds([ROWS[0], ROWS[1], ROWS[0]], plain).proof().verdict == "ok"
    done = world.holds([ROWS[0], ROWS[1], ROWS[1], ROWS[2]], plain).proof()
    assert sorted((f.kind, f.key["id"], f.rows) for f in done.done.findings) == [("extra", "1", 1), ("missing", "2", 1), ("missing", "3", 1)]
    world.changes(1, [("I", *ROWS[1]), ("I", *ROWS[2])])
    assert counts(world.proof()) == ("attention", {"extra": 1}, {"missing": 2})


def test_timestamps_that_dms_cut_to_milliseconds_are_compared_so(spark, tmp_path):
    world = Shop(tmp_path, spark, {"id": "int", "at": "timestamp"}).set(key="id")
    world.load([(1, "2018-12-15T10:02:11.123456")], settings=DmsSettings(parquet_timestamp_in_millisecond=True)).go()
    assert world.holds([(1, "2018-12-15 10:02:11.123456")], "id integer, at datetime").proof().verdict == "ok"
    assert world.holds([(1, "2018-12-15 10:02:11.124")], "id integer, at datetime").proof().done.counts == {"different": 1}


def test_columns_of_one_side_are_named(shop):
    shop.source("alter table item add column note text")
    assert "column note is not compared because only the source has it" in shop.proof().words


def test_another_lake_row_is_found_where_nothing_is_under_way(shop):
    (path,) = [p for p in shop.folder.glob("*.parquet")]
    rows = pq.read_table(path)
    pq.write_table(
        rows.set_column(
            rows.schema.get_field_index("name"), rows.schema.field("name"), [["Lamp" if n == "lamp" else n for n in rows["name"].to_pylist()]]
        ),
        path,
    )
    done = shop.proof(wait=1, clock=iter([LOOK, LOOK + timedelta(seconds=2)] * 9).__next__)
    assert (done.verdict, done.done.findings[0].columns) == ("failed", {"name": ("lamp", "Lamp")})


def test_without_a_commit_nothing_can_be_proven(spark, tmp_path):
    world = Shop(tmp_path, spark, SCHEMA).set(key="id").load(ROWS).holds(ROWS)
    with pytest.raises(Refused, match="has no commit, so nothing can be proven"):
        world.proof()


def plain_names() -> list[str]:
    "Awkward names that SQLite can hold beside each other: it does not tell upper from lower case."
    return list({name.lower(): name for name in COLUMNS}.values())


@pytest.mark.parametrize("key", sampled(["id", "a.b", "x`y", "_metadata", 'say "hi"', "50%", "it's", "a:b"], "x`y"))
def test_columns_of_any_name_are_compared_and_landed_changes_explain_them(spark, tmp_path, key):
    names = plain_names() if key == "id" else ["Name", "a.b", "x`y", "_metadata", 'say "hi"', "50%", "it's", "a:b"]
    shape = {key: "int", **{name: "string" for name in names if name.lower() != key.lower()}}
    row = lambda id, kind: (id, *[f"{kind} {n}" for n in range(len(shape) - 1)])
    world = Shop(tmp_path, spark, shape).set(key=[key]).load([row(1, "load"), row(2, "load")])
    world.go()
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in shape)
    held = lambda *rows: world.holds(list(rows), quoted)
    held(row(1, "load"), row(2, "load"))
    done = world.proof()
    assert done.verdict == "ok" and "equal as of load 1" in done.words, done.words
    assert sum(not rule.why for rule in done.done.rules) == len(shape)
    held(row(1, "new"), row(2, "load")[:-1] + ("other",))
    world.changes(2, [("U", *row(1, "new"))])
    done = world.proof()
    assert counts(done) == ("attention", {"different": 1}, {"different": 1})
    assert [f.columns for f in done.done.findings if not f.in_flight] == [{list(shape)[-1]: ("other", row(2, "load")[-1])}]


def test_a_file_under_way_and_one_of_the_lake_that_promise_more_rows_than_they_hold_are_named(spark, tmp_path):
    world = Shop(tmp_path, spark, SOURCE).set(key="id")
    put(world.raw / "LOAD00000001.parquet", encoded(rows_of(None)))
    assert world.go().verdict == "ok"
    world.holds([(1, "site 1")], "id integer primary key, site text")
    put(world.raw / f"{closed(1)}.parquet", more_throughout(encoded(rows_of("U"))))
    with pytest.raises(Unreadable, match=f"^{closed(1)}.parquet: damaged: 151 rows were promised, 150 are there"):
        world.proof()
    put(world.raw / f"{closed(1)}.parquet", encoded(rows_of("U")))
    (path,) = world.folder.glob("*.parquet")
    pq.write_table(pq.read_table(path).slice(2), path)
    with pytest.raises(LakeDamaged, match=f"^the lake's file .*{path.name}: damaged: 150 rows were promised, 148 are there$"):
        world.proof()


def test_a_page_of_the_lake_that_spark_cannot_read_is_named(spark, tmp_path):
    world = Shop(tmp_path, spark, SOURCE).set(key="id")
    put(world.raw / "LOAD00000001.parquet", encoded(rows_of(None)))
    assert world.go().verdict == "ok"
    world.holds([(1, "site 1")], "id integer primary key, site text")
    (path,) = world.folder.glob("*.parquet")
    sound = path.read_bytes()
    path.write_bytes(sound[:8] + bytes(byte ^ 255 for byte in sound[8:200]) + sound[200:])
    with pytest.raises(LakeDamaged, match=f"^the lake's file .*{path.name}"):
        world.proof()
