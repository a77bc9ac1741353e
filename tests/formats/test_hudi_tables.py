"What holds of tables of Hudi alone, beside the suite for every format."

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest

from dmscdc.capture.items import ItemTable
from dmscdc.errors import CommitConflict
from dmscdc.lake.table import Transaction, open_table
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.state.registry import open_state
from dmscdc.storage.filesystem import spark_url
from dmscdc.storage.log_store import LogStore
from dmscdc.stream.follow import follow
from readers import FORMAT
from tiers import sampled
from world import World

pytestmark = pytest.mark.proof

COLUMNS = {"id": "int", "name": "string", "region": "string"}


class Killed(BaseException):
    pass


def filled(tmp_path, spark, columns=COLUMNS, **settings) -> World:
    world = World(tmp_path, spark, columns).set(**{"key": "id", **settings})
    world.load([(1, "a", "north"), (2, "b", "a/b"), (3, "c", None)]).go()
    return world


def hudi(world, **how):
    return world.spark.read.format("hudi").options(**how).load(spark_url(str(world.folder)))


def test_it_is_the_table_that_users_of_hudi_know(tmp_path, spark):
    world = filled(tmp_path, spark, partition="region")
    kept = dict(line.split("=", 1) for line in (world.folder / ".hoodie" / "hoodie.properties").read_text().splitlines() if "=" in line)
    kind = {"hudi": "COPY_ON_WRITE", "hudi-mor": "MERGE_ON_READ"}[FORMAT]
    wanted = {
        "table.type": kind,
        "table.recordkey.fields": "id",
        "table.partition.fields": "region",
        "datasource.write.hive_style_partitioning": "true",
    }
    assert {name: kept[f"hoodie.{name}"] for name in wanted} == wanted
    assert sorted(path.name for path in world.folder.glob("region=*")) == ["region=__HIVE_DEFAULT_PARTITION__", "region=a%2Fb", "region=north"]
    begun = sorted(path.name.split("_")[0] for path in (world.folder / ".hoodie" / "timeline").glob("*_*commit"))
    world.changes(1, [("U", 1, "moved", "a/b"), ("D", 2, "b", "a/b")]).go()
    rows = lambda frame: sorted(((row.id, row.name, row.region) for row in frame.collect()), key=str)
    assert rows(hudi(world)) == [(1, "moved", "a/b"), (3, "c", None)]
    assert rows(hudi(world, **{"as.of.instant": begun[-1]})) == [(1, "a", "north"), (2, "b", "a/b"), (3, "c", None)]
    since = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": begun[-1]}
    assert 1 in [row.id for row in hudi(world, **since).collect()]


def test_a_commit_planned_from_another_than_the_one_before_it_is_rolled_back(tmp_path, spark):
    world = filled(tmp_path, spark)
    base = world.lake_table.head()
    plan = lambda run: Transaction(base, base.position, run, base.schema, base.key)
    first, second = (open_table(FORMAT, str(tmp_path / "lake"), world.ref).commit_position(plan(run), lambda: spark) for run in ("first", "second"))
    assert first.commit().commit.run == "first"
    second.table.check_base = lambda transaction: None  # it looked before the first had committed
    with pytest.raises(CommitConflict, match="was made by first meanwhile"):
        second.commit()
    assert (world.lake_table.head().run, world.lake_table.inspect()[0]) == ("first", [])
    done = world.changes(1, [("U", 1, "later", "north")]).go()
    assert (done.verdict, world.lake("id, name")) == ("ok", [(1, "later"), (2, "b"), (3, "c")]), done.words


def test_a_key_that_hudi_cannot_keep_is_refused_in_words_and_the_lake_stays(tmp_path, spark):
    world = filled(tmp_path, spark, key="name")
    done = world.changes(1, [("I", 9, "", "north")]).go()
    assert done.verdict == "refused" and "Hudi cannot keep a row whose key is the empty text (column name)" in done.words
    assert len(world.lake("id")) == 3


@pytest.mark.torture
def test_keys_that_differ_in_a_microsecond_are_two_and_a_time_does_not_lay_out_a_table(tmp_path, spark):
    at = [datetime(2018, 12, 15, 10, 0, 0, n, tzinfo=timezone.utc) for n in (123456, 123457)]
    world = World(tmp_path / "key", spark, {"at": "timestamp", "n": "int"}).set(key="at").load([(at[0], 0), (at[1], 1)])
    world.go(), world.changes(1, [("U", at[1], 9)]).go()
    assert world.lake('epoch_us("at") % 1000000, n') == [(123456, 0), (123457, 9)]
    done = World(tmp_path / "laid", spark, {"id": "int", "at": "timestamp"}).set(key="id", partition="at").load([(1, at[0])]).go()
    assert done.verdict == "refused" and "--partition 'date(at)'" in done.words


@pytest.mark.torture
def test_a_key_of_two_texts_may_have_an_empty_one(tmp_path, spark):
    world = World(tmp_path, spark, {"a": "string", "b": "string", "n": "int"}).set(key="a,b").load([("x", "", 1), ("", "x", 2)])
    world.go(), world.changes(1, [("U", "x", "", 9)]).go()
    assert world.lake("a, b, n") == [("", "x", 2), ("x", "", 9)]


def test_columns_that_hudi_cannot_name_are_refused_in_words(tmp_path, spark):
    done = World(tmp_path, spark, {"id": "int", "née": "string"}).set(key="id").load([(1, "a")]).go()
    assert done.verdict == "refused" and f"{FORMAT} cannot name the column née" in done.words and "rename-column" in done.words


@pytest.mark.parametrize("operation, calls", sampled([("delete", 0), ("delete", 9), ("copy", 5), ("copy", -1)], ("copy", 5)))
def test_a_run_that_dies_while_it_makes_a_table_again_leaves_the_old_one_or_the_next_run_completes_the_new_one(
    tmp_path, spark, monkeypatch, operation, calls
):
    world = World(tmp_path, spark, {"id": "int", "price": "decimal(10,2)"}).set(key="id").load([(1, Decimal("1.00")), (2, Decimal("2.00"))])
    assert world.go().verdict == "ok"
    wider = {"id": "int", "price": "decimal(12,2)"}
    world.changes(1, [("U", 1, Decimal("9.00"))], wider)
    done, real = [], getattr(LogStore, operation)

    def dies(store, name, *more):
        done.append(name)
        last = operation == "copy" and calls == -1 and name.endswith("commit") and "/timeline/" in name
        if last or len(done) == calls + 1:
            raise Killed
        return real(store, name, *more)

    monkeypatch.setattr(LogStore, operation, dies)
    with pytest.raises(Killed):
        world.go()
    monkeypatch.undo()
    assert world.lake_table.head().number == (1 if (operation, calls) == ("delete", 0) else 2)
    assert world.go().verdict in ("ok", "nothing") and world.lake("id, price") == [(1, Decimal("9.00")), (2, Decimal("2.00"))]
    assert world.changes(2, [("U", 2, Decimal("8.00"))], wider).go().verdict == "ok"
    assert world.lake("id, price") == [(1, Decimal("9.00")), (2, Decimal("8.00"))] and world.lake_table.inspect() == ([], False)


def test_a_stream_goes_into_hudi_as_in_the_guide_and_removed_items_go(tmp_path, spark):
    customers, at = ItemTable("customer", "id"), datetime(2026, 11, 20)
    put = lambda key, name, minute: customers.put_item({"id": {"S": key}, "custName": {"S": name}}, at + timedelta(minutes=minute))
    places = [str(tmp_path / "landing"), str(tmp_path / "lake"), f"sqlite:{tmp_path}/state.db"]
    (tmp_path / "landing").mkdir()
    open_state(places[2], places[0]).put_settings(TableRef("shop", "customer"), format="hudi")
    apply = lambda: process_table("shop.customer", *places, format="hudi", quiet_period=0.0, spark=lambda: spark)
    changes = [
        lambda: [put(key, "new", 0) for key in ("a21", "b31", "c22")],
        lambda: [
            put("c22", "first", 10),
            put("c22", "last", 11),
            put("a21", "moved", 12),
            customers.delete_item({"id": {"S": "b31"}}, at + timedelta(minutes=13)),
        ],
    ]
    for change in changes:
        change()
        customers.send()
        done = follow(
            "customers", "shop.customer", *places, apply, partition="right(id,1),substring(id,-2,1)", format="hudi", drain=True, client=customers
        )
        assert done.verdict == "ok", done.words
    table = tmp_path / "lake" / "shop" / "customer"
    found = spark.read.format("hudi").load(spark_url(str(table))).orderBy("id").collect()
    assert [(row.id, row.custName, row.id_right_1, row.id_substring_end2_1) for row in found] == [
        ("a21", "moved", "1", "2"),
        ("c22", "last", "2", "2"),
    ]
    assert (table / "id_right_1=2" / "id_substring_end2_1=2").is_dir()
