"A table of the tests with its lake, and where asked its landing, in a bucket."

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.storage.filesystem import client, fs_and_path
from world import World, replayed

SCHEMA = {"id": "int", "name": "string", "dept": "string"}
NAMES = "id, name, dept, Op, _cdc_file, _cdc_row"


@dataclass
class BucketWorld(World):
    "The world of the tests of loading, with its lake in a bucket, and its landing where it is asked for."

    lake_url: str = ""
    landing_url: str = ""
    sent: set = field(default_factory=set)

    @property
    def lake_table(self) -> ParquetTable:
        return ParquetTable(self.lake_url, self.ref)

    @property
    def places(self):
        return [self.table, self.landing_url or str(self.landing), self.lake_url, f"sqlite:{self.root / 'state.db'}"]

    def go(self, **more):
        if self.landing_url:
            self.send()
        return super().go(**more)

    def send(self):
        "DMS puts its files into the bucket."
        bucket, _, prefix = self.landing_url.removeprefix("s3://").partition("/")
        for path in sorted(p for p in self.landing.rglob("*.parquet") if p not in self.sent):
            client("s3").put_object(Bucket=bucket, Key=f"{prefix}/{path.relative_to(self.landing)}", Body=path.read_bytes())
            self.sent.add(path)

    def files(self):
        store, folder = self.lake_table.transaction_log.store, self.lake_table.transaction_log.folder
        return [name.removeprefix(f"{folder}/") for name in store.list(folder)]

    def lake(self, columns: str):
        "The folder of the table as an independent reader finds it: listed by the bucket, read by pyarrow, asked by DuckDB."
        fs, path = fs_and_path(self.lake_table.location)
        rows = pa.concat_tables([pq.read_table(f"{path}/{name}", filesystem=fs) for name in self.files()], promote_options="default")
        with duckdb.connect() as db:
            return db.register("rows", rows).execute(f"select {columns} from rows order by all").fetchall()

    def settled(self):
        journal = self.lake_table.transaction_log
        return self.files() == sorted(f.name for f in journal.head().files) and not journal.store.list(journal.staging_folder)

    def equals_the_replay(self) -> bool:
        return self.lake(NAMES) == replayed(self.raw, ["id"], NAMES) and self.settled()
