"Tables of open formats, read by programs that share no code with Spark or with us."

from __future__ import annotations

import os
import re
from pathlib import Path

import duckdb
import pyarrow as pa

FORMAT = os.environ.get("DMSCDC_FORMAT", "parquet")  # of the lake tables in this process


def delta(folder: Path) -> pa.Table:
    from deltalake import DeltaTable

    return pa.table(DeltaTable(folder.as_posix()).to_pyarrow_table())


def iceberg(folder: Path) -> pa.Table:
    from pyiceberg.table import StaticTable

    number = lambda path: int(re.match(r"v(\d+)", path.name)[1])
    newest = max(folder.glob("metadata/v*.metadata.json"), key=number)
    return StaticTable.from_metadata(newest.as_posix()).scan().to_arrow()


def hudi(folder: Path) -> pa.Table:
    from hudi import HudiTableBuilder

    table = HudiTableBuilder.from_base_uri(folder.as_posix()).build()
    rows = pa.Table.from_batches(table.read(), schema=pa.schema(table.get_schema_with_meta_fields()))
    return rows.select([name for name in rows.column_names if not name.startswith("_hoodie_")])


def source(duck: duckdb.DuckDBPyConnection, folder: Path, format: str = FORMAT, **options: str) -> str:
    "The table in a folder, as DuckDB's SQL names it."
    if format == "parquet":
        given = "".join(f", {name} = {value}" for name, value in options.items())
        return f"read_parquet('{folder}/**/*.parquet'{given})"
    duck.register("lake_table", {"delta": delta, "iceberg": iceberg, "hudi": hudi, "hudi-mor": hudi}[format](folder))
    return "lake_table"
