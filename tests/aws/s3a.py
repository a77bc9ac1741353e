"""Run by test_s3a.py in a process of its own: a Spark that learned S3A reads and writes a bucket. Also the plugin that gives its session.

Nothing here knows moto; with the AWS configuration of a real bucket it runs there: DMSCDC_LAKE=s3://bucket/prefix pytest --noconftest -p s3a …
"""
from __future__ import annotations

import os

import pytest

from dmscdc.places import access
from dmscdc.session import open_session

LAKE = os.environ["DMSCDC_LAKE"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": 2, "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri()}
    os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    session = open_session("s3a", master="local[2]", conf=conf, places=[LAKE])
    yield session
    session.stop()


def test_spark_is_told_by_settings_where_and_by_the_environment_who(spark):
    conf = dict(spark.sparkContext.getConf().getAll())
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == access().region and "hadoop-aws" in conf["spark.jars.packages"]
    assert not [key for key, value in conf.items() if access().secret in value]


@pytest.mark.parametrize("partition", ["", "dept"])
def test_spark_reads_raw_files_that_are_too_many_for_one_task_from_the_bucket(spark, tmp_path, partition):
    from aws.worlds import NAMES, SCHEMA, BucketWorld

    place = f"{LAKE}/{tmp_path.name}"
    w = BucketWorld(tmp_path, spark, SCHEMA, lake_url=f"{place}/lake", landing_url=f"{place}/raw").set(key="id", **({"partition": partition} if partition else {}))
    spark.conf.set("spark.dmscdc.directBytes", "0")
    w.load([(i, f"name {i}", "a/b ü" if i % 2 else "c") for i in range(1, 9)])
    assert w.go().verdict == "ok"
    w.changes(1, [("U", 1, "uno", "c"), ("D", 2, None, None), ("I", 30, "thirty", "a/b ü")]).changes(2, [("U", 1, "eins", "a/b ü"), ("U", 4, "vier", "new")])
    done = w.go()
    assert done.verdict == "ok" and w.settled(), done.words
    spark.conf.unset("spark.dmscdc.directBytes")
    rows = sorted(tuple(row) for row in w.lake_table.read(spark).select(*NAMES.split(", ")).collect())
    from world import replayed
    assert rows == replayed(w.raw, ["id"], NAMES)
    assert not [name for name in w.lake_table.journal.store.list("_dmscdc") if "/aside/" in name]


def test_spark_goes_on_with_a_lake_of_2019_where_it_lies_in_the_bucket(spark, tmp_path):
    from dmscdc.aws import client, split_url
    from dmscdc.parquet import ParquetTable
    from scenarios.test_adoption import RAW, more, of_2019
    from world import replayed

    w, place = more(of_2019(tmp_path, spark)), f"{LAKE}/{tmp_path.name}/old"
    bucket, prefix = split_url(place)
    for path in (tmp_path / "old").rglob("part-*.parquet"):
        client("s3").put_object(Bucket=bucket, Key=f"{prefix}/{path.relative_to(tmp_path / 'old')}", Body=path.read_bytes())
    w.item(out_path=f"{place}/")
    done, lake = w.go(), ParquetTable(place, w.ref, folder="item")
    assert done.verdict == "ok" and done.words.startswith("4 files of the 2019 lake taken over, 5 rows"), done.words
    rows = [tuple(row) for row in lake.read(spark).selectExpr("id", "name", "dept", "unix_micros(at)", "n", "Op").collect()]
    assert sorted(rows) == replayed(w.raw, ["id"], RAW) and lake.strangers() == [] == lake.settle()
    assert not [name for name in lake.journal.store.list("_dmscdc") if "/aside/" in name] and w.idle().verdict == "nothing"
