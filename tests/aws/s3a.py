"""Run by test_s3a.py in a process of its own: a Spark that learned S3A reads and writes a bucket. Also the plugin that gives its session.

Nothing here knows moto; with the AWS configuration of a real bucket it runs there: DMSCDC_LAKE=s3://bucket/prefix pytest --noconftest -p s3a …
"""

from __future__ import annotations

import os

import pytest

from dmscdc.spark.session import open_session
from dmscdc.storage.filesystem import credentials
from ways import taken

LAKE = os.environ["DMSCDC_LAKE"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": 2, "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri()}
    session = open_session("s3a", master="local[2]", conf=conf, places=[LAKE], format=os.environ.get("DMSCDC_FORMAT", "parquet"))
    yield session
    session.stop()


def test_spark_is_told_by_settings_where_and_by_the_environment_who(spark):
    conf = dict(spark.sparkContext.getConf().getAll())
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == credentials().region and "hadoop-aws-3.4.2.jar" in conf["spark.jars"]
    assert not [key for key, value in conf.items() if credentials().secret in value]


@pytest.mark.parametrize("partition", ["", "dept"])
@pytest.mark.parametrize("way", ["shuffled", "apart"])
def test_tasks_read_raw_files_from_the_bucket_and_what_was_folded_beside_us(spark, tmp_path, partition, way):
    from aws.worlds import NAMES, SCHEMA, BucketWorld

    place = f"{LAKE}/{tmp_path.name}"
    w = BucketWorld(tmp_path, spark, SCHEMA, lake_url=f"{place}/lake", landing_url=f"{place}/raw").set(
        key="id", **({"partition": partition} if partition else {})
    )
    w.load(
        [(i, f"name {i}", "a/b ü" if i % 2 else "c") for i in range(31, 1031)] + [(i, f"name {i}", "a/b ü" if i % 2 else "c") for i in range(1, 9)]
    )
    assert w.go().verdict == "ok"
    w.changes(1, [("U", 1, "uno", "c"), ("D", 2, None, None), ("I", 30, "thirty", "a/b ü")]).changes(
        2, [("U", 1, "eins", "a/b ü"), ("U", 4, "vier", "new")]
    )
    with taken(way, spark):
        done = w.go()
    assert done.verdict == "ok" and w.settled(), done.words
    rows = sorted(tuple(row) for row in w.lake_table.read(spark).select(*NAMES.split(", ")).collect())
    from world import replayed

    assert rows == replayed(w.raw, ["id"], NAMES)
    assert not [name for name in w.lake_table.transaction_log.store.list("_dmscdc") if "/aside/" in name]


def test_spark_goes_on_with_a_lake_of_2019_where_it_lies_in_the_bucket(spark, tmp_path):
    from dmscdc.lake.parquet.table import ParquetTable
    from dmscdc.storage.filesystem import client, split_url
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
    assert sorted(rows) == replayed(w.raw, ["id"], RAW) and lake.unmanaged_files() == [] == lake.recover()
    assert not [name for name in lake.transaction_log.store.list("_dmscdc") if "/aside/" in name] and w.idle().verdict == "nothing"


# What is asked of a landing and a lake in a bucket, beside a replay in plain Python

LOAD = [(1, "one", "a"), (2, "two", "a"), (3, "three", "b")]
FILES = [  # minute of the name, and changes; the key alone counts in a delete
    (0, [("I", 9, "nine", "z")]),
    (1, [("U", 1, "uno", "a"), ("D", 2, None, None), ("I", 4, "four", "c")]),
    (2, [("U", 1, "eins", "b"), ("I", 2, "again", "a")]),
    (3, [("D", 3, None, None), ("U", 4, "vier", "c"), ("U", 2, "again", "a")]),
]


def replay(upto: int) -> dict[int, tuple]:
    "The rows by key after so many change files."
    table = {row[0]: row for row in LOAD}
    for _, changes in FILES[:upto]:
        for op, *row in changes:
            if op == "D":
                del table[row[0]]
            else:
                table[row[0]] = tuple(row)
    return table


def lives() -> list[tuple]:
    "Versions: the row, the minute from which it was valid and that until which it was; the load counts from the first change on."
    open_, done = {row[0]: (row, 0) for row in LOAD}, []
    for minute, changes in FILES:
        for op, *row in changes:
            was = open_.get(row[0])
            if was and op != "D" and was[0] == tuple(row):
                continue
            if was:
                done.append((*open_.pop(row[0])[0], was[1], minute))
            if op != "D":
                open_[row[0]] = (tuple(row), minute)
    return sorted(done + [(*row, since, None) for row, since in open_.values()], key=repr)


@pytest.fixture(scope="module")
def asked(spark, tmp_path_factory):
    "Landing, lake and what follows the table in a bucket; the lake holds the load and all change files but the last."
    from aws.worlds import SCHEMA, BucketWorld

    folder = tmp_path_factory.mktemp("asked")
    place = f"{LAKE}/{folder.name} +ü"
    w = BucketWorld(folder, spark, SCHEMA, lake_url=f"{place}/lake", landing_url=f"{place}/raw").set(key="id").load(LOAD)
    for minute, rows in FILES[:3]:
        w.changes(f"20181215-10{minute:02d}00000", rows)
    assert w.go().verdict == "ok"
    w.changes(f"20181215-10{FILES[3][0]:02d}00000", FILES[3][1]).send()
    return w


@pytest.fixture
def dmscdc(asked, monkeypatch, tmp_path):
    "A command as a user types it, with settings that name the bucket; what it says for machines."
    import json

    from typer.testing import CliRunner

    from dmscdc.cli.main import app
    from dmscdc.service.config import write_config

    write_config(tmp_path, landing=asked.landing_url, lake=asked.lake_url, state=asked.places[-1], quiet_period=0)
    monkeypatch.chdir(tmp_path)

    def run(*words: str):
        done = CliRunner().invoke(app, [*words, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


def test_a_row_s_history_is_told_from_a_bucket(dmscdc):
    for key in (1, 2, 3, 4, 9):
        (life,) = dmscdc("history", "shop.item", "--key", f"id={key}")["lives"]
        steps = [(step["op"], step["state"] and step["state"]["name"]) for step in life["steps"]]
        wanted = [("I", row[1]) for row in LOAD if row[0] == key]
        wanted += [(op, None if op == "D" else name) for _, changes in FILES for op, id, name, _ in changes if id == key]
        assert steps == wanted and len(steps) == {1: 3, 2: 4, 3: 2, 4: 2, 9: 1}[key], life


@pytest.mark.parametrize("upto", [0, 2, 4])
def test_a_table_as_of_each_file_of_a_bucket_is_the_replay_up_to_it(dmscdc, upto):
    told = dmscdc("as-of", "shop.item", "--file", f"20181215-10{FILES[upto - 1][0]:02d}00000.parquet" if upto else "load")
    assert sorted((int(row["id"]), row["name"], row["dept"]) for row in told["first"]) == sorted(replay(upto).values())


def test_who_follows_a_table_by_a_cursor_in_the_bucket_has_the_replay_after_each_part(spark, dmscdc, asked):
    from pyspark.sql import functions as F

    from dmscdc.storage.filesystem import spark_url

    out, has = asked.lake_url.removesuffix("lake"), {}
    words = ["feed", "shop.item", "--out", f"{out}parts", "--cursor", f"{out}cursor.json"]
    for upto, more in ((3, ()), (4, ("--to", "landed")), (4, ("--to", "landed"))):
        for part in dmscdc(*words, *more)["parts"]:
            for row in spark.read.parquet(spark_url(part["path"])).sort("_position", F.desc("_change_type")).collect():
                if row["_change_type"] == "reset":
                    has.clear()
                elif row["_change_type"] == "delete":
                    del has[row.id]
                elif row["_change_type"] != "update_preimage":
                    has[row.id] = (row.id, row["name"], row.dept)
                else:
                    assert has[row.id] == (row.id, row["name"], row.dept)
        assert has == replay(upto)


def test_versions_in_a_bucket_are_the_lives_of_the_replay(spark, dmscdc, asked):
    from dmscdc.scd2.update import read_versions

    for more in ((), ("--to", "landed"), ("--to", "landed")):
        dmscdc("scd2", "shop.item", *more)
    rows = read_versions(spark, "shop.item", asked.lake_url).selectExpr("id", "name", "dept", "minute(valid_from)", "minute(valid_to)").collect()
    assert sorted(map(tuple, rows), key=repr) == lives() and len(rows) == 9
