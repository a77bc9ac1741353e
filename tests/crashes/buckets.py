"The worlds of the crash suite with landing and lake in a bucket and the state in DynamoDB; raw files lie in a folder too, for the oracle."

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import duckdb
import pyarrow.dataset as pads
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from stories import SCHEMA, RowAudit

from aws.worlds import BucketWorld
from dmscdc.state.dynamodb import DynamoState
from dmscdc.state.registry import open_state
from dmscdc.storage.filesystem import client, fs_and_path
from house import Case

BUCKET, TABLE = "crashes", "DMSCDC_Controller-crashes"


def moto():
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


@dataclass
class AwsWorld(BucketWorld):
    "One table on AWS."

    @property
    def state(self) -> DynamoState:
        return open_state(f"dynamodb:{TABLE}", self.landing_url)

    @property
    def places(self):
        return [self.table, self.landing_url, self.lake_url, f"dynamodb:{TABLE}"]

    def send(self) -> None:
        "The bucket holds what the folder holds, put when the folder's files say."
        prefix, files = self.landing_url.removeprefix(f"s3://{BUCKET}/"), {}
        for path in self.landing.rglob("*.parquet"):
            files[f"{prefix}/{path.relative_to(self.landing)}"] = path
        for key in [key for key in list(moto().buckets[BUCKET].keys) if key.startswith(f"{prefix}/") and key not in files]:
            moto().delete_object(BUCKET, key)
        for key, path in files.items():
            if (old := moto().buckets[BUCKET].keys.get(key)) is None or old.value != path.read_bytes():
                moto().put_object(BUCKET, key, path.read_bytes()).last_modified = datetime.fromtimestamp(
                    int(path.stat().st_mtime), timezone.utc
                ).replace(tzinfo=None)

    def lake(self, columns: str) -> list[tuple]:
        "The folder of the table as an independent reader finds it."
        if not self.files():
            return []
        fs, path = fs_and_path(self.lake_table.location)
        rows = pads.dataset(
            [f"{path}/{name}" for name in self.files()], filesystem=fs, format="parquet", partitioning="hive", partition_base_dir=path
        ).to_table()
        with duckdb.connect() as db:
            return db.register("rows", rows).execute(f"select {columns} from rows order by all").fetchall()

    def table_state(self):
        "Everything that a run with nothing to do must not move."
        store, folder = self.lake_table.transaction_log.store, self.lake_table.transaction_log.folder
        keys = moto().buckets[BUCKET].keys
        sizes = [(name, keys[f"{store.prefix}/{folder}/{name}"].etag, keys[f"{store.prefix}/{folder}/{name}"].last_modified) for name in self.files()]
        head = self.lake_table.head()
        return head.number if head else 0, sizes, self.state.get(self.ref)

    def aside(self) -> list[str]:
        return self.lake_table.transaction_log.store.list(self.lake_table.transaction_log.staging_folder)


@dataclass
class AwsCase(Case):
    "A world of its own prefix, named as its folder."

    @property
    def prefix(self) -> str:
        return f"{BUCKET}/{self.home.name}"

    @property
    def world(self) -> AwsWorld:
        world = AwsWorld(self.home / "world", None, SCHEMA, lake_url=f"s3://{self.prefix}/lake", landing_url=f"s3://{self.prefix}/raw")
        world.send()
        return world

    @property
    def watched(self) -> dict[str, str]:
        return {"root": str(self.home / "world"), "bucket": f"{self.prefix}/"}

    def twin(self, home: Path, story: RowAudit) -> AwsCase:
        "Objects and item are copied, with their times."
        new, keys = super().twin(home, story), moto().buckets[BUCKET].keys
        for key in [key for key in list(keys) if key.startswith(f"{self.home.name}/")]:
            moto().put_object(BUCKET, f"{home.name}/{key.partition('/')[2]}", keys[key].value).last_modified = keys[key].last_modified
        for item in client("dynamodb").scan(TableName=TABLE, ConsistentRead=True)["Items"]:
            if item["path"]["S"].startswith(f"{self.prefix}/"):
                moved = {
                    name: {kind: value.replace(self.prefix, new.prefix) if kind == "S" else value for kind, value in each.items()}
                    for name, each in item.items()
                }
                client("dynamodb").put_item(TableName=TABLE, Item={**moved, "prefix": {"S": moved["prefix"]["S"].replace(self.home.name, home.name)}})
        return new
