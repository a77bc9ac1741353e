"""The Glue catalogue after commits: what is written, field by field, and with how few requests."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from dmscdc.capture.writer import write_load
from dmscdc.lake.glue import _CALLS as CALLS
from dmscdc.lake.glue import SyncResult, is_behind, sync_table
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.lake.parquet.transaction_log import LakeFile, commit
from dmscdc.lake.table import Transaction
from dmscdc.landing.files import TableRef
from dmscdc.landing.s3 import open_landing
from dmscdc.load.table_state import load_state, plan_state
from dmscdc.service.config import read_config
from dmscdc.service.passes import run_pass
from dmscdc.state.registry import open_state
from dmscdc.storage.filesystem import client
from world import World

pytestmark = pytest.mark.proof

ORDERS = "id int, at timestamp, price decimal(10,2), day date"


class Lake:
    "One lake table: a journal with commits, and files that nobody reads."

    def __init__(self, root: Path, table: str = "shop.orders", partition: tuple[str, ...] = ("day",), schema: str = ORDERS):
        self.table = ParquetTable(str(root / "lake"), TableRef.parse(table))
        self.partition, self.schema = partition, schema

    def commit(self, *folders: str, values=None, schema: str = "", minute: int = 0) -> Lake:
        "The table becomes one file in each of these folders."
        journal, self.schema = self.table.transaction_log, schema or self.schema
        head = journal.head()
        number, prefix = (head.number if head else 0) + 1, f"{(head.number if head else 0) + 1:012d}-ab{minute:02d}"
        adds = []
        for i, folder in enumerate(folders):
            aside, name = f"{prefix}/{i}.parquet", f"{folder}/{prefix}-{i}.parquet".lstrip("/")
            path = Path(journal.store.path(f"{journal.staging_folder}/{aside}"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"rows")
            has = tuple(part.split("=")[1] for part in folder.split("/") if part)
            adds.append(LakeFile(name, aside, 1, 4, values=has if values is None else values[i]))
        columns = [part.strip().split(" ", 1) for part in self.schema.replace("(10,2)", "(10;2)").split(",")]
        facts = {
            "position": {},
            "run": "test",
            "schema": [[n, t.replace(";", ",")] for n, t in columns],
            "key": ["id"],
            "partition": list(self.partition),
            "rows": len(adds),
            "at": f"2018-12-15T10:{number:02d}:{minute:02d}Z",
        }
        commit(journal, head, f"ab{minute:02d}", adds, [f.name for f in head.files] if head else [], facts)
        return self

    def sync(self, address: str = "glue:shop?create") -> SyncResult:
        done = sync_table(address, self.table)
        assert not done.notes, done.notes
        return done

    @property
    def place(self) -> str:
        return f"{Path(self.table.location).as_uri()}/"


def table(name: str = "orders", database: str = "shop") -> dict:
    return client("glue").get_table(DatabaseName=database, Name=name)["Table"]


def partitions(name: str = "orders", database: str = "shop") -> dict[tuple, dict]:
    pages = client("glue").get_paginator("get_partitions").paginate(DatabaseName=database, TableName=name)
    return {tuple(one["Values"]): one for page in pages for one in page["Partitions"]}


@contextmanager
def requests(fails: str = ""):
    "Names of the requests sent to Glue, one refused if wanted; all are within the limits that AWS documents."
    glue, sent = client("glue"), []

    def look(params, model, **_):
        for name, member in model.input_shape.members.items():
            value = params.get(name)
            assert not isinstance(value, list) or len(value) <= member.metadata.get("max", 10**9), (model.name, name)

    def count(model, **_):
        sent.append(model.name)
        if model.name == fails:
            raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "not allowed"}}, model.name)

    events = {"provide-client-params.glue": look, "before-call.glue": count}
    for event, handler in events.items():
        glue.meta.events.register(event, handler)
    try:
        yield sent
    finally:
        for event, handler in events.items():
            glue.meta.events.unregister(event, handler)


@pytest.fixture
def lake(tmp_path, aws):
    "A table partitioned by day; its databases are not there yet."
    there = {one["Name"] for one in client("glue").get_databases()["DatabaseList"]}
    for name in {"shop", "lake_crm"} & there:
        client("glue").delete_database(Name=name)
    return Lake(tmp_path)


HIVE = "org.apache.hadoop.hive.ql.io.parquet"


def test_a_table_is_entered_field_by_field_as_aws_documents_it(lake):
    lake.commit("day=2018-12-14").sync()
    storage = {
        # docs.aws.amazon.com/athena/latest/ug/parquet-serde.html, and what Athena's STORED AS PARQUET enters
        "InputFormat": f"{HIVE}.MapredParquetInputFormat",
        "OutputFormat": f"{HIVE}.MapredParquetOutputFormat",
        "SerdeInfo": {"SerializationLibrary": f"{HIVE}.serde.ParquetHiveSerDe", "Parameters": {"serialization.format": "1"}},
        # docs.aws.amazon.com/athena/latest/ug/data-types.html; the partition's column is not among them
        "Columns": [
            {"Name": "op", "Type": "string"},
            {"Name": "id", "Type": "int"},
            {"Name": "at", "Type": "timestamp"},
            {"Name": "price", "Type": "decimal(10,2)"},
            {"Name": "_cdc_file", "Type": "string"},
            {"Name": "_cdc_row", "Type": "bigint"},
        ],
    }
    has = table()
    ours = {name: has.get(name) for name in ("Name", "DatabaseName", "TableType", "PartitionKeys", "StorageDescriptor", "Parameters")}
    assert ours == {
        "Name": "orders",
        "DatabaseName": "shop",
        "TableType": "EXTERNAL_TABLE",  # repost.aws/knowledge-center/athena-failed-nullpointerexception-error
        "PartitionKeys": [{"Name": "day", "Type": "date"}],
        "StorageDescriptor": {**storage, "Location": lake.place},  # with a slash at its end: athena/latest/ug/tables-location-format.html
        "Parameters": {
            "EXTERNAL": "TRUE",
            "parquet.compression": "SNAPPY",
            "classification": "parquet",  # athena/latest/ug/schema-classifier.html
            "dmscdc.table": "shop.orders",
            "dmscdc.commit": "1 of 2018-12-15T10:01:00Z",
        },
    }
    [one] = partitions().values()
    assert (one["Values"], one["StorageDescriptor"]) == (["2018-12-14"], {**storage, "Location": f"{lake.place}day=2018-12-14/"})


def test_every_type_of_the_lake_has_its_word_and_none_else_passes(tmp_path, lake):
    types = ["tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "binary", "date", "timestamp", "decimal(10,2)"]
    all_of_them = Lake(tmp_path, "shop.types", (), ", ".join(f"c{i} {t}" for i, t in enumerate(types))).commit("")
    all_of_them.sync()
    columns = {c["Name"]: c["Type"] for c in table("types")["StorageDescriptor"]["Columns"]}
    assert [columns[f"c{i}"] for i in range(len(types))] == types
    strange = Lake(tmp_path, "shop.strange", (), "id int, tags array<string>").commit("")
    assert "column tags is array<string>" in sync_table("glue:shop", strange.table).notes[0]


def test_a_table_without_partitions_costs_three_requests_once_and_one_after_a_commit(tmp_path, lake):
    plain = Lake(tmp_path, "shop.product", (), "id int").commit("")
    client("glue").create_database(DatabaseInput={"Name": "shop"})
    with requests() as sent:
        plain.sync()
    assert sent == ["GetTable", "CreateTable", "GetTable"] and table("product")["PartitionKeys"] == []
    plain.commit("", minute=1)
    with requests() as sent:
        told = plain.sync()
    assert sent == ["GetTable"] and (told.mark, told.words) == ("glue:shop?create 2 of 2018-12-15T10:02:01Z", "")
    plain.commit("", minute=2, schema="id int, weight double")
    with requests() as sent:
        assert plain.sync().words == "glue:shop.product: table changed"
    assert sent == ["GetTable", "UpdateTable"]
    assert [c["Name"] for c in table("product")["StorageDescriptor"]["Columns"]][1:3] == ["id", "weight"]


def test_partitions_go_a_hundred_a_call_and_only_what_changed_is_sent_afterwards(lake):
    days = [f"day={year}-01-{day:02d}" for year in range(2000, 2010) for day in range(1, 26)]
    lake.commit(*days)
    with requests() as sent:
        words = lake.sync().words
    assert sent.count("BatchCreatePartition") == 3 and words == "glue:shop.orders: table created, partitions added: 250"
    assert len(partitions()) == 250
    lake.commit(*days[30:], "day=2018-12-15", minute=1)
    with requests() as sent:
        words = lake.sync().words
    assert sent == ["GetTable", "BatchCreatePartition", "BatchDeletePartition", "BatchDeletePartition", "UpdateTable"]
    assert words == "glue:shop.orders: partitions added: 1, partitions removed: 30"
    assert set(partitions()) == {(day[4:],) for day in [*days[30:], "day=2018-12-15"]}
    lake.commit(*days[30:], "day=2018-12-15", minute=2)
    with requests() as sent:
        assert lake.sync().words == ""
    assert sent == ["GetTable"]


def test_null_and_escaped_partitions_keep_their_folders_and_get_their_values(tmp_path, lake):
    folders = ["day=__HIVE_DEFAULT_PARTITION__/at=2018-12-15 10%3A00%3A00", "day=2018-12-15/at=a%2Fb"]
    two = Lake(tmp_path, "shop.two", ("day", "at"), "id int, day date, at string")
    two.commit(*folders, values=[(None, "2018-12-15 10:00:00"), ("2018-12-15", "a/b")]).sync()
    has = {values: one["StorageDescriptor"]["Location"] for values, one in partitions("two").items()}
    assert has == {
        ("__HIVE_DEFAULT_PARTITION__", "2018-12-15 10:00:00"): f"{two.place}{folders[0]}/",
        ("2018-12-15", "a/b"): f"{two.place}{folders[1]}/",
    }


def test_a_changed_column_reaches_every_partition(lake):
    lake.commit("day=2018-12-14", "day=2018-12-15").sync()
    lake.commit("day=2018-12-14", "day=2018-12-15", schema=ORDERS.replace("id int", "id bigint"), minute=1)
    with requests() as sent:
        assert lake.sync().words == "glue:shop.orders: partitions changed: 2, table changed"
    assert sent == ["GetTable", "BatchUpdatePartition", "UpdateTable"]
    types = [one["StorageDescriptor"]["Columns"][1]["Type"] for one in [*partitions().values(), table()]]
    assert types == ["bigint"] * 3


def test_other_partition_keys_than_before_empty_the_table_first(lake):
    lake.commit("day=2018-12-14").sync()
    lake.partition = ("id",)
    lake.commit("id=7", minute=1).sync()
    assert [key["Name"] for key in table()["PartitionKeys"]] == ["id"] and set(partitions()) == {("7",)}
    lake.partition = ()
    lake.commit("", minute=2).sync()
    assert table()["PartitionKeys"] == [] and partitions() == {}


def test_a_lake_that_has_moved_takes_its_partitions_along(tmp_path, lake):
    lake.commit("day=2018-12-14").sync()
    moved = Lake(tmp_path / "other").commit("day=2018-12-14")
    moved.sync()
    assert table()["StorageDescriptor"]["Location"] == moved.place
    assert [one["StorageDescriptor"]["Location"] for one in partitions().values()] == [f"{moved.place}day=2018-12-14/"]


def test_what_others_have_written_stays(lake):
    lake.commit("day=2018-12-14").sync()
    has, known = table(), client("glue").meta.service_model.shape_for("TableInput").members
    entry = {name: value for name, value in has.items() if name in known}
    entry["Parameters"]["owner-team"], entry["Description"] = "sales", "orders of the shop"
    entry["StorageDescriptor"]["Columns"][1]["Comment"] = "the key"
    client("glue").update_table(DatabaseName="shop", TableInput=entry)
    lake.commit("day=2018-12-14", minute=1, schema=f"{ORDERS}, note string").sync()
    has = table()
    assert (has["Parameters"]["owner-team"], has["Description"]) == ("sales", "orders of the shop")
    assert has["StorageDescriptor"]["Columns"][1] == {"Name": "id", "Type": "int", "Comment": "the key"}
    assert "note" in [c["Name"] for c in has["StorageDescriptor"]["Columns"]]


def test_an_entry_of_a_crawler_for_our_folder_is_taken_over(lake):
    lake.commit("day=2018-12-14", "day=2018-12-15")
    client("glue").create_database(DatabaseInput={"Name": "shop"})
    storage = {"Columns": [{"Name": "id", "Type": "string"}], "Location": lake.place.rstrip("/")}
    crawled = {
        "Name": "orders",
        "TableType": "EXTERNAL_TABLE",
        "PartitionKeys": [{"Name": "day", "Type": "date"}],
        "StorageDescriptor": storage,
        "Parameters": {"UPDATED_BY_CRAWLER": "lake"},
    }
    client("glue").create_table(DatabaseName="shop", TableInput=crawled)
    client("glue").create_partition(
        DatabaseName="shop",
        TableName="orders",
        PartitionInput={"Values": ["2018-12-14"], "StorageDescriptor": {**storage, "Location": f"{lake.place}day=2018-12-14"}},
    )
    assert lake.sync("glue:shop").words == "glue:shop.orders: partitions added: 1, partitions changed: 1, table changed"
    assert table()["Parameters"]["UPDATED_BY_CRAWLER"] == "lake" and len(partitions()) == 2
    assert {one["StorageDescriptor"]["Columns"][1]["Type"] for one in partitions().values()} == {"int"}


def test_the_entry_of_another_table_is_not_touched(tmp_path, lake):
    lake.commit("day=2018-12-14").sync()
    same_name = Lake(tmp_path, "crm.Orders", (), "id int").commit("")
    [note] = sync_table("glue:shop", same_name.table).notes
    assert "glue:shop.orders is the entry of shop.orders, and crm.Orders has the same name there" in note
    client("glue").create_table(DatabaseName="shop", TableInput={"Name": "theirs", "StorageDescriptor": {"Location": "s3://theirs/"}})
    theirs = Lake(tmp_path, "shop.theirs", (), "id int").commit("")
    assert "is there already and lies in s3://theirs/" in sync_table("glue:shop", theirs.table).notes[0]
    assert same_name.sync("glue:lake_{schema}?create").mark and table("orders", "lake_crm")


def test_a_missing_database_is_made_only_on_request(lake):
    lake.commit("day=2018-12-14")
    [note] = sync_table("glue:Shop", lake.table).notes
    assert 'Glue has no database shop: make it, or let dmscdc: catalog = "glue:shop?create"' in note
    assert "The lake holds its rows; the next pass tries again: dmscdc pass --only shop.orders" in note
    assert "shop" not in {one["Name"] for one in client("glue").get_databases()["DatabaseList"]}
    assert lake.sync("glue:Shop?create").mark and table()


@pytest.mark.parametrize("call", ["GetTable", "CreateDatabase", "CreateTable", "BatchCreatePartition", "UpdateTable"])
def test_whatever_fails_first_the_next_run_does_the_rest(lake, call):
    lake.commit("day=2018-12-14", "day=2018-12-15")
    with requests(fails=call):
        told = sync_table("glue:shop?create", lake.table)
    assert not told.mark and "AccessDeniedException" in told.notes[0] and "not allowed" in told.notes[0]
    lake.sync()
    assert set(partitions()) == {("2018-12-14",), ("2018-12-15",)} and table()["Parameters"]["dmscdc.commit"].startswith("1 of")


@pytest.mark.parametrize("call", ["BatchCreatePartition", "BatchUpdatePartition", "BatchDeletePartition", "UpdateTable"])
def test_whatever_fails_later_the_next_run_does_the_rest(lake, call):
    lake.commit("day=2018-12-13", "day=2018-12-14").sync()
    lake.commit("day=2018-12-14", "day=2018-12-15", schema=ORDERS.replace("id int", "id bigint"), minute=1)
    with requests(fails=call):
        assert sync_table("glue:shop", lake.table).notes
    assert table()["Parameters"]["dmscdc.commit"].startswith("1 of")
    lake.commit("day=2018-12-14", "day=2018-12-15", "day=2018-12-16", minute=2).sync()
    assert set(partitions()) == {("2018-12-14",), ("2018-12-15",), ("2018-12-16",)}
    assert {one["StorageDescriptor"]["Columns"][1]["Type"] for one in [*partitions().values(), table()]} == {"bigint"}


def test_a_commit_that_the_journal_does_not_know_makes_us_ask_glue_once(lake):
    lake.commit("day=2018-12-14", "day=2018-12-15").sync()
    glue = client("glue")
    glue.delete_partition(DatabaseName="shop", TableName="orders", PartitionValues=["2018-12-14"])
    has = table()
    entry = {name: has[name] for name in ("Name", "TableType", "PartitionKeys", "StorageDescriptor")}
    parameters = {name: value for name, value in has["Parameters"].items() if name != "dmscdc.commit"}
    glue.update_table(DatabaseName="shop", TableInput={**entry, "Parameters": parameters})
    lake.commit("day=2018-12-14", "day=2018-12-15", minute=1)
    with requests() as sent:
        assert lake.sync().words == "glue:shop.orders: partitions added: 1, table changed"
    assert sent == ["GetTable", "GetPartitions", "BatchCreatePartition", "UpdateTable"] and len(partitions()) == 2


def test_partitions_changed_by_hand_meanwhile_are_no_error(lake):
    lake.commit("day=2018-12-14", "day=2018-12-15").sync()
    glue, names = client("glue"), {"DatabaseName": "shop", "TableName": "orders"}
    for day in ("2018-12-14", "2018-12-15"):
        glue.delete_partition(**names, PartitionValues=[day])
    glue.create_partition(**names, PartitionInput={"Values": ["2018-12-16"], "StorageDescriptor": {"Location": "s3://wrong/"}})
    lake.commit("day=2018-12-15", "day=2018-12-16", schema=f"{ORDERS}, note string", minute=1).sync()
    assert {v: one["StorageDescriptor"]["Location"] for v, one in partitions().items()} == {
        (day,): f"{lake.place}day={day}/" for day in ("2018-12-15", "2018-12-16")
    }


def test_every_limit_of_ours_is_that_of_the_api(aws):
    model = client("glue").meta.service_model
    for call, argument, most in CALLS.values():
        operation = "".join(word.title() for word in call.split("_"))
        assert model.operation_model(operation).input_shape.members[argument].metadata["max"] == most, call


def test_a_table_is_behind_until_its_newest_commit_was_told(lake):
    assert not is_behind("glue:shop", None, "") and sync_table("glue:shop", lake.table) == SyncResult()
    head = lake.commit("day=2018-12-14").table.head()
    assert is_behind("glue:shop?create", head, "")
    mark = lake.sync().mark
    assert not is_behind("glue:shop?create", head, mark) and is_behind("glue:other", head, mark)
    assert is_behind("glue:shop?create", lake.commit("day=2018-12-14", minute=1).table.head(), mark)


def test_a_table_made_anew_is_not_taken_for_the_old_one(lake):
    lake.commit("day=2018-12-14").sync()
    shutil.rmtree(lake.table.transaction_log.store.root)
    lake.commit("day=2018-12-15", minute=5).sync()  # commit 1 again
    assert set(partitions()) == {("2018-12-15",)}


def test_a_load_whose_telling_fails_is_done_and_the_next_run_tells_without_spark(tmp_path, spark, lake):
    world = World(tmp_path, spark, {"id": "int", "day": "date"}, table="shop.orders").set(key="id", partition="day")
    world.load([(1, "2018-12-14"), (2, None)])
    with requests(fails="CreateTable"):
        done = world.go(catalog="glue:shop?create")
    assert (done.verdict, done.commit, world.lake("id")) == ("attention", 1, [(1,), (2,)])
    assert "2 inserted. the catalogue is behind: " in done.words and "AccessDeniedException" in done.words
    done = world.idle(catalog="glue:shop?create")
    assert (done.verdict, done.words) == ("nothing", "nothing to do; glue:shop.orders: table created, partitions added: 2")
    assert set(partitions()) == {("2018-12-14",), ("__HIVE_DEFAULT_PARTITION__",)}
    folders = {one["StorageDescriptor"]["Location"].removeprefix("file://") for one in partitions().values()}
    assert all(list(Path(folder).glob("*.parquet")) for folder in folders)
    world.changes(1, [("I", 3, "2018-12-15")])
    assert world.go(catalog="glue:shop?create").words.endswith("; glue:shop.orders: partitions added: 1")


def test_a_pass_mends_what_is_behind_without_a_server_and_then_asks_glue_nothing(tmp_path, lake):
    def a_pass():
        return run_pass(config, on_event=lambda text: None, start=lambda *_, **__: pytest.fail("a Spark server was started"))

    config = read_config(tmp_path, landing="landing", lake="lake", quiet_period=0, workers=1, catalog="glue:shop")
    state = open_state(config.state)
    write_load(config.landing, "shop.orders", [(1, "a")], {"id": "int", "said": "string"})
    state.put_settings(TableRef.parse("shop.orders"), key="id")
    table_state = load_state(state, TableRef.parse("shop.orders"), config.lake)
    plan = plan_state(table_state, open_landing(config.landing), 0)
    table_state.lake.commit_position(Transaction(None, plan.after.to_json(), "by-hand", (), ("id",))).commit()  # what a crash before telling leaves
    behind = a_pass().tables["shop.orders"]
    assert behind.verdict == "attention" and "Glue has no database shop" in behind.words and behind.run.notebook.exists()
    client("glue").create_database(DatabaseInput={"Name": "shop"})
    assert "glue:shop.orders: table created" in a_pass().tables["shop.orders"].words and table()
    with requests() as sent:
        done = a_pass()
    assert (done.verdict, done.tables["shop.orders"].run, sent) == ("nothing", None, [])
