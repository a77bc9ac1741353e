"""A table format in one room: rows as JSON lines in a folder a version, and a log of one small file each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dmscdc.changes.schema import ddl
from dmscdc.lake import FormatCommit, Newest, OpenTable, Transaction
from dmscdc.lake.table import stored_columns
from dmscdc.storage.filesystem import spark_url


class JsonLinesTable(OpenTable):
    "A table as JSON lines."

    format = "jsonl"
    how = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}

    def versions(self) -> Iterator[FormatCommit]:
        for name in sorted(self.store.list(f"{self.place}/_log"), reverse=True):
            entry = json.loads(self.store.read(name))
            yield FormatCommit(entry["version"], note=entry["note"], words="overwrite", changes_rows=True)

    def frame(self, spark: SparkSession, version: Any) -> DataFrame:
        entry = json.loads(self.store.read(f"{self.place}/_log/{version:012d}.json"))
        folder = spark_url(f"{self.location}/{entry['folder']}")
        return spark.read.schema(entry["columns"]).options(**self.how).json(folder)

    def overwrite(self, spark: SparkSession, rows: DataFrame, transaction: Transaction, base: Newest | None, note: str) -> None:
        version = base.top.id + 1 if base else 1
        entry = {
            "version": version,
            "note": note,
            "folder": f"data/{transaction.attempt}",
            "columns": ddl(stored_columns(transaction.schema, transaction.op_column)),
        }
        rows.write.options(**self.how).json(spark_url(f"{self.location}/{entry['folder']}"))
        # The commit: `create` raises where another writer was first, and readers see the rows from here on.
        self.store.create(f"{self.place}/_log/{version:012d}.json", json.dumps(entry).encode())
