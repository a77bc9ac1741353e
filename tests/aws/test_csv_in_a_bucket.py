"CSV files in a bucket: read from there, their Parquet files staged beside the lake."

from __future__ import annotations

import pytest

from aws.worlds import SCHEMA, BucketWorld
from dmscdc.history.as_of import as_of
from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import open_changelog
from dmscdc.history.parts import deliver_next, read_cursor
from dmscdc.history.span import landed
from dmscdc.state.position import Position
from dmscdc.storage.filesystem import client
from world import closed

pytestmark = pytest.mark.proof


@pytest.fixture
def w(spark, bucket, tmp_path):
    return BucketWorld(tmp_path, spark, SCHEMA, lake_url=f"s3a://{bucket}/lake +ü").set(key="id")


def test_csv_files_in_a_bucket_are_loaded_and_asked_about(w, bucket):
    w.landing_url = f"s3://{bucket}/raw +ü%20(1)"
    w.set(columns=[("id", "int"), ("name", "string"), ("dept", "string")])
    put = lambda name, text: client("s3").put_object(Bucket=bucket, Key=f"raw +ü%20(1)/shop/item/{name}", Body=text.encode())
    put("LOAD00000001.csv", '1,"one, ""first""",a\n2,two,\n')
    put(f"{closed(1)}.csv", 'U,1,México,a\nD,2,,\nI,3,"",b\n')
    done = w.go()
    assert done.verdict == "ok", done.words
    assert w.lake("id, name, dept") == [(1, "México", "a"), (3, "", "b")] and w.settled()
    past = open_changelog(w.landing_url, w.ref, position=Position.from_json(dict(w.lake_table.head().position)))
    assert sorted((row.id, row.name) for row in as_of(w.spark, past, ["id"]).rows.collect()) == [(1, "México"), (3, "")]
    (told,), _ = audit_row(w.landing_url, w.lake_table, {"id": 2})
    assert [step.op for step in told.life.steps] == ["I", "D"]
    out, cursor = f"s3://{bucket}/fed +ü/parts", f"s3://{bucket}/fed +ü/cursor.json"
    go = lambda: deliver_next(
        lambda: pytest.fail("these tables are small"), past, ["id"], out, cursor, read_cursor(cursor, w.ref), landed(past), True
    )
    (part,) = go()
    assert part.counts == {"insert": 2, "reset": 1} and go() == []
    keys = [
        one["Key"].rpartition("/")[2]
        for one in client("s3").list_objects_v2(Bucket=bucket, Prefix="fed +ü/parts/")["Contents"]
        if one["Size"] or one["Key"].endswith("SUCCESS")
    ]
    assert sorted(keys) == ["_SUCCESS", "part-00000.parquet"]
