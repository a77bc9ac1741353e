"Items that the AWS solution of 2019 has made: read with their meaning, written without breaking any."

from __future__ import annotations

from dataclasses import replace

import pytest

from dmscdc.errors import BadSetting, StaleState
from dmscdc.landing.files import RawFile, TableRef
from dmscdc.state.position import Position
from dmscdc.state.registry import open_state
from dmscdc.storage.filesystem import client

pytestmark = pytest.mark.proof

PRODUCT, STORE, ORDER = (TableRef("sampledb", name) for name in ("product", "store", "productorder"))
LANDING, PLACE = "s3://shop-raw/dms", "shop-raw/dms/"
LAST, NEXT = "20181215-100311204.parquet", "20181215-110000000.parquet"
LOADED = Position(1, (RawFile("LOAD00000001.parquet", 2310, 1544751702.0),), NEXT, ((NEXT, 800),), LAST, listed_at=1544868240.0)


def made_in_2019(table: TableRef, place: str = PLACE, **more) -> dict[str, dict]:
    "What the solution's controller puts for a new folder, then what a person and its loads change."
    bucket, _, prefix = place.partition("/")
    path = f"{place}{table.schema}/{table.name}/"
    texts = {
        "path": path,
        "bucket": bucket,
        "prefix": f"{prefix}{table.schema}/",
        "folder": f"{table.name}/",
        "PrimaryKey": "null",
        "PartitionKey": "null",
        "LastFullLoadDate": "1900-01-01 00:00:00",
        "LastIncrementalFile": f"{path}0.parquet",
        "ActiveFlag": "false",
        "out_path": "shop-lake/dl/",
    }
    return {name: value if isinstance(value, dict) else {"S": value} for name, value in (texts | more).items()}


class Table:
    "The table as others use it: the console, the old controller."

    def __init__(self, name):
        self.name, self.db = name, client("dynamodb")

    def put(self, item):
        self.db.put_item(TableName=self.name, Item=item)

    def item(self, path):
        return self.db.get_item(TableName=self.name, Key={"path": {"S": path}}, ConsistentRead=True).get("Item")

    def set(self, path, **texts):
        changes = {name: {"Value": {"S": text}} for name, text in texts.items()}
        self.db.update_item(TableName=self.name, Key={"path": {"S": path}}, AttributeUpdates=changes)


@pytest.fixture
def table(dynamodb_table):
    return Table(dynamodb_table)


@pytest.fixture
def state(table):
    return open_state(f"dynamodb:{table.name}", LANDING)


@pytest.fixture
def running(table):
    "A table that the old solution has loaded; its item."
    item = made_in_2019(
        PRODUCT,
        PrimaryKey="id|dept",
        PartitionKey=" dept, category",
        ActiveFlag="true",
        LastFullLoadDate="2018-12-14 01:41:42",
        LastIncrementalFile=f"{PLACE}sampledb/product/{LAST}",
        owner_team="sales",
        cost={"N": "12.5"},
        tags={"SS": ["a", "b"]},
        seal={"B": b"\x00x"},
        more={"M": {"a": {"L": []}}},
    )
    table.put(item)
    return item


def test_every_table_has_the_settings_and_the_progress_it_had(table, state, running):
    table.put(made_in_2019(STORE))
    table.put(made_in_2019(ORDER, ActiveFlag={"BOOL": True}, PrimaryKey={"NULL": True}))
    product, order, store = state.items()
    assert (product.key, product.partition, product.is_ready) == (("id", "dept"), ("dept", "category"), True)
    assert product.instruction == {"kind": "adopt", "load": "2018-12-14 01:41:42", "last": LAST, "commit": 0}
    assert (product.out_path, product.folder, product.position, product.commit) == ("s3://shop-lake/dl/", "product", None, 0)
    assert (store.table, store.key, store.active, store.instruction) == (STORE, (), False, None)
    assert (order.table, order.insert_only, order.is_ready) == (ORDER, True, True)


def test_a_person_who_turns_a_table_without_a_key_on_means_inserts_only_whoever_made_the_item(table, state):
    state.note_run(ORDER, {"last_verdict": "attention"})  # our first pass finds the table
    assert not state.get(ORDER).is_ready
    [path] = [item["path"]["S"] for item in table.db.scan(TableName=table.name)["Items"]]
    table.set(path, ActiveFlag="true", PrimaryKey="null", PartitionKey="create_dt")  # as the blog of 2019 has it set in the console
    order = state.get(ORDER)
    assert (order.key, order.insert_only, order.partition, order.is_ready) == ((), True, ("create_dt",), True)
    assert state.put_settings(ORDER, key="id").insert_only is False, "a key given later counts"
    assert not state.put_settings(ORDER, key="").is_ready, "and one that is taken away is waited for"
    with pytest.raises(BadSetting, match="--insert-only"):
        state.put_settings(STORE, active=True)


def test_until_our_first_commit_all_of_theirs_stays_as_it_is(table, state, running):
    state.note_run(PRODUCT, {"last_verdict": "nothing", "lag": 1.5})
    state.intent(PRODUCT, {"run": "r1"})
    lease = state.acquire(PRODUCT, "r1", 60)
    state.renew(lease, 90)
    assert state.release(lease)
    now = table.item(running["path"]["S"])
    assert {name: now[name] for name in running} == running


def test_after_a_commit_their_progress_is_ours_in_the_form_it_had_and_all_else_stays(table, state, running):
    item = state.get(PRODUCT)
    state.save_position(PRODUCT, LOADED, commit=1, expected_commit=0, done=item.instruction)
    now = table.item(running["path"]["S"])
    assert now["LastIncrementalFile"] == {"S": f"{PLACE}sampledb/product/{NEXT}"}
    assert now["LastFullLoadDate"] == running["LastFullLoadDate"]
    assert {name: now[name] for name in running if name != "LastIncrementalFile"} == {
        name: value for name, value in running.items() if name != "LastIncrementalFile"
    }
    again = open_state(f"dynamodb:{table.name}", LANDING).get(PRODUCT)
    assert again == replace(item, position=LOADED, commit=1, instruction=None)


@pytest.mark.parametrize("head", ["shop-raw/dms/", "dms/", "s3://shop-raw/dms/"])
def test_the_last_file_is_understood_and_written_as_bucket_and_key_or_as_key(table, state, head):
    table.put(made_in_2019(PRODUCT, ActiveFlag="true", PrimaryKey="id", LastIncrementalFile=f"{head}sampledb/product/2018/12/15/{LAST}"))
    assert state.get(PRODUCT).instruction["last"] == f"2018/12/15/{LAST}"
    state.save_position(PRODUCT, LOADED, commit=1, expected_commit=0)
    assert table.item(f"{PLACE}sampledb/product/")["LastIncrementalFile"] == {"S": f"{head}sampledb/product/{NEXT}"}


@pytest.mark.parametrize(
    "path", ["shop-raw/dms/sampledb/product/", "s3://shop-raw/dms/sampledb/product", "s3://shop-raw/dms/sampledb/product/", "sampledb/product/"]
)
def test_an_item_is_found_under_every_spelling_of_its_path_and_stays_there(table, state, path):
    table.put(made_in_2019(PRODUCT, path=path))
    state.put_settings(PRODUCT, key=["id"])
    assert [item.table for item in state.items()] == [PRODUCT]
    assert table.item(path)["PrimaryKey"] == {"S": "id"} and table.item(path)["ActiveFlag"] == {"S": "true"}
    assert table.db.scan(TableName=table.name)["Count"] == 1


def test_one_table_serves_many_landings(table):
    here, there = (open_state(f"dynamodb:{table.name}", url) for url in ("s3://shop-raw/dms/", "s3://other"))
    here.put_settings(PRODUCT, key=["id"])
    there.put_settings(PRODUCT, key=["code"])
    assert (here.get(PRODUCT).key, there.get(PRODUCT).key) == (("id",), ("code",))
    assert [len(state.items()) for state in (here, there)] == [1, 1]
    with pytest.raises(BadSetting, match="has two items, other/sampledb/product/ and shop-raw/dms/sampledb/product/"):
        open_state(f"dynamodb:{table.name}").items()


def test_an_item_of_ours_is_one_that_the_old_solution_could_go_on_with(table, state):
    state.put_settings(PRODUCT, key=["id", "dept"], partition=["dept"])
    state.save_position(PRODUCT, LOADED, commit=1, expected_commit=0)
    now, then = table.item(f"{PLACE}sampledb/product/"), made_in_2019(PRODUCT)
    assert [now[name] for name in ("path", "bucket", "prefix", "folder")] == [then[name] for name in ("path", "bucket", "prefix", "folder")]
    texts = {name: now[name]["S"] for name in ("PrimaryKey", "PartitionKey", "ActiveFlag", "LastFullLoadDate", "LastIncrementalFile")}
    assert texts == {
        "PrimaryKey": "id,dept",
        "PartitionKey": "dept",
        "ActiveFlag": "true",
        "LastFullLoadDate": "2018-12-14 01:41:42",
        "LastIncrementalFile": f"{PLACE}sampledb/product/{NEXT}",
    }


def test_items_of_others_are_left_alone(table, state):
    table.put({"path": {"S": "lock"}, "ActiveFlag": {"S": "true"}})
    table.put({"path": {"S": "shop-raw/dms/sampledb/product/"}, "note": {"S": "not by the controller"}})
    assert state.items() == [] and state.get(PRODUCT) is None


# Changed by hand, or by the old schedule


@pytest.mark.parametrize(
    "change, instruction",
    [
        ({"LastFullLoadDate": "1900-01-01 00:00:00"}, {"kind": "reload", "changes": "keep", "commit": 1}),
        ({"LastIncrementalFile": f"{PLACE}sampledb/product/{LAST}"}, {"kind": "rewind", "after": LAST, "commit": 1}),
        ({"LastIncrementalFile": f"sampledb/product/{LAST}"}, {"kind": "rewind", "after": LAST, "commit": 1}),
        ({"LastIncrementalFile": f"{PLACE}sampledb/product/0.parquet"}, {"kind": "rewind", "after": "0.parquet", "commit": 1}),
    ],
)
def test_a_progress_set_back_by_hand_is_an_instruction_until_it_is_carried_out(table, state, running, change, instruction):
    state.save_position(PRODUCT, LOADED, commit=1, expected_commit=0, done=state.get(PRODUCT).instruction)
    table.set(running["path"]["S"], **change)
    item = state.get(PRODUCT)
    assert (item.instruction, item.position, item.moved) == (instruction, LOADED, "")
    assert state.note_run(PRODUCT, {"last_verdict": "ok"}).instruction == state.get(PRODUCT).instruction == instruction
    state.save_position(PRODUCT, LOADED, commit=2, expected_commit=1, done=instruction)
    assert state.get(PRODUCT).instruction is None


@pytest.mark.parametrize(
    "change, words",
    [
        ({"LastIncrementalFile": f"{PLACE}sampledb/product/20181215-120000000.parquet"}, "LastIncrementalFile is 20181215-12"),
        ({"LastFullLoadDate": "2018-12-16 01:00:00"}, "LastFullLoadDate is 2018-12-16"),
    ],
)
def test_a_progress_that_moves_on_without_us_is_the_old_schedule_and_skips_nothing(table, state, running, change, words):
    state.save_position(PRODUCT, LOADED, commit=1, expected_commit=0, done=state.get(PRODUCT).instruction)
    assert state.get(PRODUCT).moved == ""
    table.set(running["path"]["S"], **change)
    item = state.get(PRODUCT)
    assert (item.instruction, item.position) == (None, LOADED)
    assert item.moved.startswith(words) and "Stop its Glue trigger" in item.moved


def test_before_our_first_commit_we_follow_the_old_schedule(table, state, running):
    state.note_run(PRODUCT, {"last_verdict": "nothing"})
    table.set(running["path"]["S"], LastIncrementalFile=f"{PLACE}sampledb/product/{NEXT}")
    assert state.get(PRODUCT).instruction["last"] == NEXT


def test_a_reload_is_the_other_way_to_begin(table, state, running):
    with pytest.raises(BadSetting, match="will be taken over from the 2019 solution by its next pass"):
        state.instruct(PRODUCT, {"kind": "accept"})
    assert (
        state.instruct(PRODUCT, {"kind": "reload"}).instruction
        == state.get(PRODUCT).instruction
        == {"kind": "reload", "changes": "keep", "commit": 0}
    )


def test_settings_changed_by_hand_are_settings(table, state, running):
    state.note_run(PRODUCT, {"seen_at": 1.0})
    table.set(running["path"]["S"], PrimaryKey="id", PartitionKey="null", ActiveFlag="false")
    item = state.get(PRODUCT)
    assert (item.key, item.partition, item.active) == (("id",), (), False)


def test_a_change_by_hand_between_reading_and_writing_is_not_overwritten(table, state, running):
    hands = [{"PrimaryKey": "id"}, {"ActiveFlag": "false"}]

    def meanwhile(item):
        if hands:
            table.set(running["path"]["S"], **hands.pop())
        return replace(item, status={"last_verdict": "ok"})

    item = state.change(PRODUCT, meanwhile)
    assert (item.key, item.active, item.status) == (("id",), False, {"last_verdict": "ok"})
    assert state.get(PRODUCT) == item


def test_an_item_that_others_change_all_the_time_is_given_up_with_words(table, state, running):
    def meanwhile(item):
        meanwhile.tries += 1
        table.set(running["path"]["S"], PartitionKey=f"dept{meanwhile.tries}")
        return replace(item, status={"last_verdict": "ok"})

    meanwhile.tries = 0
    with pytest.raises(StaleState, match="sampledb.product: others changed its item .* each of the 32 times"):
        state.change(PRODUCT, meanwhile)
    assert state.get(PRODUCT).status == {}


# Size


def test_a_position_with_thousands_of_load_files_fits_and_one_that_cannot_says_so(state):
    files = tuple(RawFile(f"p{n:05}/LOAD00000001.parquet", 10**9 + n, 1544778902.0 + n) for n in range(20_000))
    state.put_settings(PRODUCT, key=["id"])
    state.save_position(PRODUCT, replace(LOADED, load_files=files), commit=1, expected_commit=0)
    assert len(state.get(PRODUCT).position.load_files) == 20_000
    with pytest.raises(BadSetting, match="an item is larger than the 400 KB of DynamoDB"):
        state.note_run(PRODUCT, {"last_run": "x" * 450_000 + "".join(map(str, range(200_000)))})
    assert state.get(PRODUCT).commit == 1
