"The state in DynamoDB remembers commits, and the lake holds none: nothing is touched, a person is asked."

from __future__ import annotations

import shutil

import boto3
import pytest

from dmscdc.load.process import process_table
from dmscdc.state.registry import open_state
from world import World, closed

pytestmark = pytest.mark.proof


def test_a_lost_lake_is_left_alone_with_a_state_in_dynamodb_too(dynamodb_table, tmp_path, spark):
    w, state = World(tmp_path, spark, {"id": "int", "name": "string"}), f"dynamodb:{dynamodb_table}"
    w.load([(1, "a"), (2, "b")]).changes(1, [("I", 3, "c")])
    open_state(state, str(w.landing)).put_settings(w.ref, key="id")

    def go(spark):
        return process_table(w.table, str(w.landing), str(w.root / "lake"), state, quiet_period=0, run="test", spark=spark)

    def items():
        return boto3.client("dynamodb").scan(TableName=dynamodb_table)["Items"]

    assert go(lambda: w.spark).commit == 2
    shutil.rmtree(w.root / "lake")
    (w.raw / f"{closed(1)}.parquet").rename(w.root / "archived")
    w.changes(2, [("I", 4, "d")])
    before, done = items(), go(lambda: pytest.fail("Spark was started"))
    assert (done.verdict, w.files()) == ("attention", []) and "the state remembers commit 2" in done.words and "holds no commit of ours" in done.words
    assert "`dmscdc table rewind shop.item --reload`" in done.words
    left = [{name: value for name, value in item.items() if not name.startswith("lease_")} for item in items()]
    assert left == [{name: value for name, value in item.items() if not name.startswith("lease_")} for item in before] and len(left) == 1
