"The same deaths with landing and lake in a bucket, read and written by S3A and boto3, and state and leases in DynamoDB."

from __future__ import annotations

import pytest
from buckets import BUCKET, TABLE, AwsCase
from moto.server import ThreadedMotoServer
from stories import at_places, places, put
from test_kills import killed
from test_stops import crossed, overslept, sleepable
from warm import a_house

from aws.dynamo import dynamodb_server  # noqa: F401
from aws.usual import usual
from dmscdc.state.dynamodb import create_table
from dmscdc.storage.filesystem import client
from house import every
from tiers import sampled

pytestmark = pytest.mark.proof

DAILY = ["incremental load", "partitioned", "reload"]
ALL = ["initial load", *DAILY, "inserts only"]


@pytest.fixture(scope="module")
def house(tmp_path_factory, dynamodb_server):  # noqa: F811
    "A bucket of moto's, a table in a DynamoDB of the tests, and a server that has learned S3A; small files are no exception, it reads all."
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    with (
        pytest.MonkeyPatch.context() as patch,
        usual(patch, AWS_ENDPOINT_URL="http://{}:{}".format(*moto.get_host_and_port()), AWS_ENDPOINT_URL_DYNAMODB=dynamodb_server),
    ):
        client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        create_table(TABLE)
        with a_house(tmp_path_factory.mktemp("buckets"), [f"s3://{BUCKET}"], kind=AwsCase, conf={"spark.dmscdc.directBytes": "0"}) as house:
            yield house
    moto.stop()


@pytest.mark.torture
@pytest.mark.parametrize("name", DAILY)
def test_whatever_changes_an_object_or_an_item_is_a_point(house, name):
    points, tasks = house.count(name)
    assert {"aws.PUT", "aws.COPY", "aws.DELETE", "aws.UpdateItem", "spark"} <= {what for _, what, _, _ in points}
    assert "pyarrow.open_output_stream" in {what for _, what, _, _ in tasks}


def test_a_late_file_is_woven_in_where_it_belongs(house):
    case = house.copy("incremental load")
    assert house.go(case)["verdict"] == "ok"
    put(case.world, 450, [("U", 1, "overtaken", "n"), ("U", 2, "late", "n"), ("I", 15, "p", "s")])
    said, (lake, oracle) = house.go(case), case.rows()
    assert (said["verdict"], lake) == ("attention", oracle) and "late file 20181215-100730000.parquet met 1 key that newer files had changed" in said[
        "words"
    ], said


@pytest.mark.parametrize("name", sampled(DAILY, "partitioned"))
def test_a_run_killed_anywhere_is_healed_by_the_next_pass(house, tried, name):
    (point,) = at_places(house.count(name)[0], places(f"{name}, bucket", 1))
    killed(house, name, point)
    tried("runs on AWS killed before a request of theirs")


@pytest.mark.torture
def test_a_run_killed_while_its_tasks_write_is_healed_by_the_next_pass(house, tried):
    (point,) = at_places(house.count("partitioned")[1], places("bucket, tasks", 1))
    killed(house, "partitioned", point, tasks=True)
    tried("runs on AWS killed before a request of their tasks")


def test_a_run_killed_between_its_commit_and_the_state_is_healed_by_the_next_pass(house, tried):
    points = house.count("incremental load")[0]
    entry = next(i for i, (_, what, path, _) in enumerate(points) if what == "aws.PUT" and "/journal/" in path)
    state = next(i for i in range(entry, len(points)) if points[i][1] == "aws.UpdateItem")
    killed(house, "incremental load", points[state])
    tried("runs on AWS killed before a request of theirs")


@pytest.mark.torture
def test_a_run_that_slept_past_its_lease_changes_nothing_when_it_wakes(house, tried):
    (point,) = at_places(sleepable(house, "partitioned"), places("bucket, asleep", 1))
    overslept(house, "partitioned", point)
    tried("runs on AWS that slept past their lease")


@pytest.mark.torture
def test_a_sleeper_that_wakes_in_the_middle_of_another_run_harms_nobody(house, tried):
    crossed(house, "incremental load", *at_places(sleepable(house, "incremental load"), places("bucket, crossed", 2)))
    tried("runs on AWS that woke up in the middle of another")


@pytest.mark.torture
@pytest.mark.parametrize("tasks", [False, True], ids=["own", "tasks"])
@pytest.mark.parametrize("name", ALL)
def test_a_run_killed_at_every_point_is_healed_by_the_next_pass(house, tried, name, tasks):
    def one(point):
        tried("runs on AWS killed before a request of their tasks" if tasks else "runs on AWS killed before a request of theirs")
        killed(house, name, point, tasks)

    every(house.count(name)[tasks], one)
