"""What the tests of loading share: a landing, a lake and a state in one folder, and a replay that is not our code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

import duckdb
import pytest
from pyspark.sql import SparkSession

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.lake.table import LakeTable, open_table
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.load.results import COUNTED, Processed, balance_of
from dmscdc.state.items import TableItem
from dmscdc.state.sqlite import SqliteState
from readers import FORMAT, source

DAY = "20181215-10"  # change files of the tests are closed in this hour
Row = dict[str, Any]


def closed(number: int) -> str:
    "The name of a change file, rising with the number."
    return f"{DAY}{number // 60:02d}{number % 60:02d}000"


@dataclass
class World:
    "One table, from the files of DMS to the lake."

    root: Path
    spark: SparkSession
    schema: dict[str, str]  # the source's columns
    table: str = "shop.item"

    @property
    def ref(self) -> TableRef:
        return TableRef.parse(self.table)

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def raw(self) -> Path:
        return self.landing / self.ref.schema / self.ref.name

    @property
    def folder(self) -> Path:
        return self.root / "lake" / self.ref.schema / self.ref.name

    @property
    def state(self) -> SqliteState:
        return SqliteState(self.root / "state.db")

    @property
    def lake_table(self) -> LakeTable:
        return open_table(FORMAT, str(self.root / "lake"), self.ref)

    @property
    def places(self) -> list[str]:
        "What `process_table` is told first."
        return [self.table, str(self.landing), str(self.root / "lake"), f"sqlite:{self.root / 'state.db'}"]

    def set(self, **settings: Any) -> World:
        self.state.put_settings(self.ref, **{"format": FORMAT, **settings})
        return self

    def load(self, rows: Sequence, schema: dict[str, str] | None = None, number: int = 1, **more: Any) -> World:
        "A load file."
        write_load(self.landing, self.table, rows, schema or self.schema, number, **more)
        return self

    def changes(self, close: int | str, rows: Sequence, schema: dict[str, str] | None = None, **more: Any) -> World:
        "A change file; rows begin with Op."
        name = closed(close) if isinstance(close, int) else close
        write_changes(self.landing, self.table, rows, name, schema or self.schema, **more)
        return self

    def gone(self, name: str) -> World:
        "A raw file is taken away, to be put there again."
        (self.raw / f"{name}.parquet").unlink()
        return self

    def go(self, **more: Any) -> Processed:
        "One table done once."
        given = {"quiet_period": 0, "run": "test", "spark": lambda: self.spark, "format": FORMAT, **more}
        done = process_table(*self.places, **given)
        assert balance_of(done.rows) == 0 and done.rows["keys"] == sum(done.rows[name] for name in COUNTED), done.rows  # as the job's notebook does
        return done

    def idle(self, **more: Any) -> Processed:
        "The same, where no Spark may be asked for."
        return self.go(spark=lambda: pytest.fail("Spark was started"), **more)

    def lake(self, columns: str) -> list[tuple]:
        "These columns of the lake's folder as DuckDB reads it, sorted."
        if not self.files():
            return []
        with duckdb.connect() as duck:
            return duck.execute(f"select {columns} from {source(duck, self.folder, hive_partitioning='true')} order by all").fetchall()

    def files(self) -> list[str]:
        "The files that a reader of the folder finds."
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())

    def table_state(self) -> tuple[int, list[tuple[str, int, int]], TableItem | None]:
        "Everything that a refusal must not move: commit, files with size and time, state."
        sizes = [(f, (self.folder / f).stat().st_size, (self.folder / f).stat().st_mtime_ns) for f in self.files()]
        head = self.lake_table.head()
        return head.number if head else 0, sizes, self.state.get(self.ref)

    def settled(self) -> bool:
        "The folder holds what the newest commit lists, and nothing lies aside."
        entry = self.lake_table.transaction_log.head()
        aside = self.root / "lake" / "_dmscdc" / self.ref.schema / self.ref.name / "aside"
        return self.files() == sorted(f.name for f in entry.files) and not [p for p in aside.rglob("*") if p.is_file()]

    def aside(self) -> list[str]:
        "What lies aside, empty folders too."
        return [p.name for p in (self.root / "lake" / "_dmscdc" / self.ref.schema / self.ref.name / "aside").iterdir()]


def query(sql: str, *values: Any) -> list[tuple]:
    "Rows of an independent reader."
    with duckdb.connect() as db:
        return db.execute(sql, list(values) or None).fetchall()


def raw_rows(path: Path) -> list[Row]:
    "The rows of a raw file in their order, each with its number; times as microseconds since 1970."
    table = f"read_parquet('{path}', file_row_number=true)"
    types = dict(query(f"select column_name, column_type from (describe select * from {table})"))
    values = [f'epoch_us("{name}")' if kind == "TIMESTAMP WITH TIME ZONE" else f'"{name}"' for name, kind in types.items()]
    return [dict(zip(types, row)) for row in query(f"select {', '.join(values)} from {table} order by file_row_number")]


def raw_changes(folder: Path) -> list[tuple[Path, str]]:
    "Load files, then change files in their order, each with what the lake calls it."
    load = [(p, f"{p.relative_to(folder)}#1") for p in sorted(folder.rglob("LOAD*.parquet"))]
    return load + [(p, str(p.relative_to(folder))) for p in sorted(folder.rglob("2*-*.parquet"), key=lambda p: (p.name, str(p)))]


def replay(folder: Path, keys: Sequence[str], soft: bool = False) -> dict[tuple, Row]:
    "The table after all raw files, one change after the other. A column that no file of a row carried is missing."
    table: dict[tuple, Row] = {}
    for path, name in raw_changes(folder):
        for change in raw_rows(path):
            ours = {"Op": change.pop("Op", "I"), "_cdc_file": name, "_cdc_row": change.pop("file_row_number")}
            key = tuple(change[k] for k in keys)
            old = table.get(key)
            if ours["Op"] == "T":
                table.clear()
            elif ours["Op"] != "D":
                table[key] = {**(old if old and old["Op"] != "D" else {}), **change, **ours}
            elif soft and old:
                table[key] = {**old, **ours} if old["Op"] != "D" else old  # the mark names the delete that ended its life
            else:
                table.pop(key, None)
    return table


def replayed(folder: Path, keys: Sequence[str], columns: str, soft: bool = False) -> list[tuple]:
    "The replay as `World.lake` would show it."
    names = [name.strip() for name in columns.split(",")]
    rows = [tuple(row.get(name) for name in names) for row in replay(folder, keys, soft).values()]
    return sorted(rows, key=lambda row: [(value is None, value) for value in row])
