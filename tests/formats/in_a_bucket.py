"Run by test_format_buckets.py with the Spark of aws/s3a.py: a lake in a bucket, read by programs that share no code with Spark or with us."

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import readers
from aws.worlds import SCHEMA, BucketWorld
from dmscdc.errors import LeftToFormat
from dmscdc.history.changelog import open_changelog
from dmscdc.history.small_feed import small_feed
from dmscdc.lake.open import FormatLog
from dmscdc.lake.table import Transaction, open_lake
from dmscdc.load.migrate import migrate
from dmscdc.state.position import Position, reload_folder
from dmscdc.storage.filesystem import client, credentials
from dmscdc.storage.log_store import BucketLogStore, open_store
from readers import FORMAT
from world import replayed

CATALOG, NAMES = "glue:shop?create", "id, name, dept, Op, _cdc_file, _cdc_row"


def iceberg(world) -> pa.Table:
    "As Athena finds it: by the entry in Glue."
    from pyiceberg.catalog.glue import GlueCatalog

    known = credentials()
    s3 = {"s3.endpoint": known.endpoint, "s3.access-key-id": known.key, "s3.secret-access-key": known.secret, "s3.region": known.region}
    glue = {"glue.endpoint": known.endpoint, "glue.region": known.region, "glue.access-key-id": known.key, "glue.secret-access-key": known.secret}
    return GlueCatalog("glue", **s3, **glue).load_table(f"shop.{world.ref.name}").scan().to_arrow()


def fetched(world, folder: Path) -> Path:
    "The table's files on this machine, hidden ones too."
    store, place = open_store(world.lake_url), f"{world.ref.schema}/{world.ref.name}"
    for name in store.list(place, hidden=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.read(name))
    return folder / place


class Shop(BucketWorld):
    "A table in a bucket, in the format of this process."

    @property
    def lake_table(self):
        return open_lake(self.state.get(self.ref), self.lake_url, CATALOG)

    def go(self, **more):
        return super().go(catalog=CATALOG, **more)

    def rows(self, folder: Path) -> list[tuple]:
        "What other programs read."
        kind = self.state.get(self.ref).format
        if kind == "iceberg":
            read = iceberg(self)
        elif kind == "parquet":
            return self.lake(NAMES)
        else:
            read = {"delta": readers.delta, "hudi": readers.hudi, "hudi-mor": readers.hudi}[kind](fetched(self, folder))
        return sorted(tuple(row[name] for name in NAMES.split(", ")) for row in read.to_pylist())

    def entry(self) -> dict:
        return client("glue").get_table(DatabaseName="shop", Name=self.ref.name)["Table"]

    def is_entered(self, format: str) -> bool:
        "Glue's entry is that of a table in the format."
        there = self.entry()
        about, how = there.get("Parameters", {}), there["StorageDescriptor"]
        if format == "iceberg":
            return about.get("table_type") == "ICEBERG" and about["metadata_location"].startswith(f"{self.lake_url}/")
        if format == "delta":
            return (about.get("spark.sql.sources.provider"), how["SerdeInfo"]["Parameters"]["path"]) == (
                "delta",
                f"{self.lake_url}/shop/{self.ref.name}/",
            )
        classes = {"parquet": ".MapredParquetInputFormat", "hudi": ".HoodieParquetInputFormat", "hudi-mor": ".HoodieParquetRealtimeInputFormat"}
        return "table_type" not in about and "spark.sql.sources.provider" not in about and how["InputFormat"].endswith(classes[format])


def engines(shop: Shop) -> set[str]:
    "Who made the commits: dmscdc, or Spark."
    store, place = open_store(shop.lake_url), f"{shop.ref.schema}/{shop.ref.name}"
    if FORMAT == "iceberg":
        return {one["summary"].get("engine-name", "dmscdc") for one in shop.lake_table.newest_metadata()[1]["snapshots"]}
    logs = [store.read(name).decode().splitlines() for name in store.list(f"{place}/_delta_log") if name.endswith(".json")]
    return {json.loads(line)["commitInfo"]["engineInfo"].partition("/")[0] for log in logs for line in log if "commitInfo" in line}


@pytest.fixture
def shop(spark, tmp_path):
    table = f"shop.{tmp_path.name[-20:].replace('-', '_')}".lower()
    world = Shop(tmp_path, spark, SCHEMA, table, lake_url=f"{os.environ['DMSCDC_LAKE']}/{tmp_path.name}")
    return world.set(key="id", partition="dept").load([(i, f"name {i}", "a/b" if i % 2 else "c") for i in range(1, 7)])


def test_a_bucket_s_table_equals_the_replay_and_glue_knows_it(shop, tmp_path):
    assert (done := shop.go()).verdict == "ok", done.words
    shop.changes(2, [("U", 1, "uno", "c"), ("D", 2, None, None), ("I", 30, "thirty", "new")])
    assert (done := shop.go()).verdict == "ok", done.words
    shop.changes(1, [("U", 4, "vier", "a/b"), ("U", 1, "late", "late")])  # a late file
    assert (done := shop.go()).verdict in ("ok", "attention"), done.words
    shop.set(key="id", partition="")  # laid out otherwise, from the load on
    shop.state.instruct(shop.ref, {"kind": "reload"})
    assert (done := shop.go()).verdict in ("ok", "attention"), done.words
    assert [row[:4] for row in shop.rows(tmp_path / "fetched")] == [row[:4] for row in replayed(shop.raw, ["id"], NAMES)] and shop.is_entered(FORMAT)
    assert shop.idle().verdict == "nothing" and shop.lake_table.inspect() == ([], False)


def test_a_table_in_a_bucket_takes_a_new_load_by_its_difference_and_tells_followers(shop):
    assert shop.set(partition="", reload="difference").go().verdict == "ok"
    stood = Position.from_json(shop.lake_table.head().position)
    shop.load([(1, "name 1", "a/b"), (2, "other", "c"), (9, "nine", "c")], time=datetime.now() + timedelta(hours=1))
    assert (done := shop.go()).verdict == "ok" and (done.rows["inserted"], done.rows["updated"], done.rows["deleted"]) == (1, 1, 4), done.words
    past = open_changelog(
        str(shop.landing), shop.ref, position=Position.from_json(shop.lake_table.head().position), reloads=reload_folder(shop.lake_url, shop.ref)
    )
    told = small_feed(past, ["id"], stood).rows.to_pylist()
    assert sorted((row["_change_type"], row["id"]) for row in told) == [
        ("delete", 3),
        ("delete", 4),
        ("delete", 5),
        ("delete", 6),
        ("insert", 9),
        ("update_postimage", 2),
        ("update_preimage", 2),
    ]


def test_a_table_of_a_bucket_moves_to_the_format_and_back_and_its_entry_with_it(shop, spark, tmp_path):
    assert shop.set(format="parquet", partition="").go().verdict == "ok" and shop.is_entered("parquet")
    for number, format in enumerate((FORMAT, "parquet"), 1):
        migrate(shop.ref, format, *shop.places[1:], lambda name: spark, CATALOG)
        shop.changes(number, [("U", number, f"changed {number}", "c")])
        assert (done := shop.go()).verdict == "ok" and not [note for note in done.notes if "catalogue" in note], (done.words, done.notes)
        assert shop.rows(tmp_path / str(number)) == replayed(shop.raw, ["id"], NAMES) and shop.is_entered(format)


@pytest.mark.skipif(FORMAT not in ("delta", "iceberg"), reason="not allowed here: only these have files of our own tasks")
def test_our_own_tasks_write_a_bucket_s_table_and_a_late_writer_puts_nothing(shop, spark, tmp_path, monkeypatch):
    shop.set(partition="").go()
    owner, name = (BucketLogStore, "create") if FORMAT == "delta" else (FormatLog, "commit")  # Delta's last step, a conditional put
    last_step = getattr(owner, name)

    def after_another(log, *what):
        monkeypatch.setattr(owner, name, last_step)
        there = shop.lake_table
        head = there.head()
        there.commit_position(Transaction(head, head.position, "another", head.schema, head.key, head.partition), lambda: spark).commit()
        return last_step(log, *what)

    monkeypatch.setattr(owner, name, after_another)
    done = shop.changes(1, [("U", 1, "uno", "c"), ("D", 2, None, None), ("I", 30, "thirty", "new")]).go()
    assert done.verdict == "failed" and "commit 2 was made by another meanwhile" in done.words, done.words
    assert shop.go().verdict == "ok" and shop.rows(tmp_path / "fetched") == replayed(shop.raw, ["id"], NAMES)
    assert engines(shop) == {"dmscdc"}
    if FORMAT == "iceberg":
        return
    spark.conf.set("spark.delta.logStore.s3a.impl", "io.delta.storage.S3DynamoDBLogStore")
    there, head = shop.lake_table, shop.lake_table.head()
    there.check_session(spark)
    spark.conf.unset("spark.delta.logStore.s3a.impl")
    with pytest.raises(LeftToFormat, match="go through a table in DynamoDB"):
        there.base_of(Transaction(head, head.position, "another", head.schema, head.key, head.partition))


@pytest.mark.skipif(FORMAT != "delta", reason="not allowed here: the log of Delta")
def test_another_program_that_writes_to_a_bucket_s_table_is_recognised(shop, spark, tmp_path):
    assert shop.go().verdict == "ok"
    place = f"delta.`{shop.lake_table.location.replace('s3://', 's3a://')}`"
    spark.sql(f"alter table {place} set tblproperties ('note' = 'another program')").collect()
    done = shop.changes(1, [("U", 1, "uno", "c")]).go()
    assert done.verdict == "refused" and "another program wrote version 1 (SET TBLPROPERTIES)" in done.words and "restore version 0" in done.words, (
        done.words
    )
    spark.sql(f"restore {place} to version as of 0").collect()
    assert shop.go().verdict == "ok" and shop.rows(tmp_path / "fetched") == replayed(shop.raw, ["id"], NAMES)
