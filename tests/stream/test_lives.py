"""Random lives of items on the Kinesis of moto's server: repeats, disorder inside and across windows, removed and born again, several shards, some killed anywhere. The oracle is a dictionary that the test itself changes."""

from __future__ import annotations

import random

import boto3
import pytest
from moto.server import ThreadedMotoServer
from test_stream import TABLE, Items, is_open, lake, places

from dmscdc.errors import BadSetting
from dmscdc.load.process import process_table
from dmscdc.stream.follow import follow
from dmscdc.stream.shards import TableStream
from seeds import seed_of
from tiers import sampled

pytestmark = pytest.mark.proof

POINTS = ("stage.put_table", "follow.keep", "follow._note", "apply", "applied")  # where a process dies


class Death(BaseException):
    "Nobody catches it."


class Deaths:
    "The process dies at a random one of the next points, before or after it."

    def __init__(self, rng: random.Random, monkeypatch: pytest.MonkeyPatch):
        self.rng, self.left = rng, 0
        for point in POINTS[:3]:
            self.watch(monkeypatch, point)

    def arm(self) -> None:
        self.left = self.rng.randrange(1, 9)

    def reach(self) -> None:
        self.left -= 1
        if not self.left:
            raise Death

    def watch(self, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
        room, name = point.split(".")
        real = getattr(__import__(f"dmscdc.stream.{room}", fromlist=[name]), name)

        def watched(*given, **more):
            self.reach()
            done = real(*given, **more)
            self.reach()
            return done

        monkeypatch.setattr(f"dmscdc.stream.{point}", watched)


@pytest.fixture(scope="module")
def clients():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield lambda service: boto3.client(
        service, endpoint_url=f"http://{host}:{port}", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x"
    )
    server.stop()


@pytest.fixture(scope="module")
def kinesis(clients):
    return clients("kinesis")


@pytest.mark.parametrize("number", sampled(range(30), 0, 1))
def test_the_lake_equals_the_items_after_a_random_life(spark, kinesis, tmp_path, monkeypatch, number, record_property):
    monkeypatch.setattr("dmscdc.stream.shards._PAUSE", 0.0)
    rng, stream = random.Random(seed_of("HISTORY_SEED") * 1000 + number), f"life-{number}"
    deaths, died, sent = Deaths(rng, monkeypatch), 0, 0
    kinesis.create_stream(StreamName=stream, ShardCount=rng.randrange(1, 4))
    (tmp_path / "landing").mkdir()
    items, waits, apart = Items(rng, micros=True), [], rng.random() < 0.5

    def apply():
        deaths.reach()
        done = process_table(TABLE, *places(tmp_path), quiet_period=0.0, spark=lambda: spark)
        deaths.reach()
        return done

    for window in range(4):
        waits += [items.change() for _ in range(rng.randrange(1, 20))]
        rng.shuffle(waits)
        held = waits[: rng.randrange(5)] if window < 3 else []  # these come with a later window
        every = [{"Data": data, "PartitionKey": str(rng.random())} for _, data in waits[len(held) :] for _ in range(1 + (rng.random() < 0.2))]
        if every:
            kinesis.put_records(StreamName=stream, Records=every)
        waits, sent = held, sent + len(every)
        if number % 3 == 0:
            deaths.arm()
        while True:
            try:
                done = follow(
                    stream, TABLE, *places(tmp_path), apply, key=["id"], partition="right(id,1)" if apart else "", drain=True, client=kinesis
                )
                break
            except Death:
                died += 1
        deaths.left = 0
        assert done.verdict in ("ok", "nothing") or window < 3 and is_open(done), done.words
    assert lake(tmp_path) == items.rows()
    record_property("looked at", f"{sent} records in 4 windows, {died} deaths, {len(items.rows())} items left")


def test_a_tables_own_stream_is_followed_without_kinesis(spark, clients, tmp_path, monkeypatch):
    monkeypatch.setattr("dmscdc.stream.shards._PAUSE", 0.0)
    dynamo, rng = clients("dynamodb"), random.Random(3)
    table = {
        "TableName": "client",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    dynamo.create_table(**table)
    with pytest.raises(BadSetting, match="the table client of DynamoDB has no stream; to give it one: aws dynamodb update-table --table-name client"):
        TableStream("client", dynamo, clients("dynamodbstreams"))
    dynamo.update_table(TableName="client", StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"})
    (tmp_path / "landing").mkdir()
    for _ in range(3):
        for _ in range(12):
            key = rng.choice("abcd")
            if rng.random() < 0.3:
                dynamo.delete_item(TableName="client", Key={"id": {"S": key}})
            else:
                dynamo.put_item(TableName="client", Item={"id": {"S": key}, "n": {"N": str(rng.randrange(99))}, "raw": {"B": b"\x00\xff"}})
        done = follow(
            "dynamodb:client",
            TABLE,
            *places(tmp_path),
            lambda: process_table(TABLE, *places(tmp_path), quiet_period=0.0, spark=lambda: spark),
            key=["id"],
            drain=True,
            client=TableStream("client", dynamo, clients("dynamodbstreams")),
        )
        items = sorted((item["id"]["S"], item["n"]["N"]) for item in dynamo.scan(TableName="client")["Items"])
        assert done.verdict == "ok" and lake(tmp_path) == items, done.words
    with pytest.raises(BadSetting, match="cannot be asked for a time"):
        follow(
            "dynamodb:client",
            "shop.other",
            *places(tmp_path),
            None,
            key=["id"],
            start="latest",
            drain=True,
            client=TableStream("client", dynamo, clients("dynamodbstreams")),
        )
