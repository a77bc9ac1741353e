"Tables and schemas of every name that DMS can write are loaded and changed like others, each into a folder of its own."

from __future__ import annotations

import duckdb
import pytest

from awkward import TABLES
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.changes import stage as batch
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.state.sqlite import SqliteState
from tiers import sampled
from ways import taken

pytestmark = pytest.mark.proof

SCHEMA = {"id": "int", "name": "string"}
PATTERNS = tuple(names for names in TABLES if set(names[1]) & set("*?[{\\:%"))  # which Spark or an address may take for something else


@pytest.mark.parametrize("names, direct", sampled([("all", True), ("some", True), ("some", False)], ("some", True)))
def test_every_name_is_loaded_and_changed(tmp_path, spark, names, direct, monkeypatch):
    write_load(tmp_path / "one", "a.b", [(1, "a"), (2, "b")], SCHEMA)
    write_changes(tmp_path / "one", "a.b", [("U", 1, "A"), ("I", 3, "c"), ("D", 2, None)], "20181215-100000000", SCHEMA)
    state, tables = SqliteState(tmp_path / "state.db"), [TableRef(*pair) for pair in (TABLES if names == "all" else TABLES[:6] + PATTERNS)]
    together, shuffled = [], batch.fold_shuffled
    monkeypatch.setattr(batch, "fold_shuffled", lambda *given: together.append(given) or shuffled(*given))
    with taken("here" if direct else "shuffled", spark):
        for table in tables:
            folder = tmp_path / "landing" / table.schema / table.name
            folder.mkdir(parents=True)
            for path in (tmp_path / "one/a/b").iterdir():
                (folder / path.name).write_bytes(path.read_bytes())
            state.put_settings(table, key="id")
            done = process_table(
                str(table),
                str(tmp_path / "landing"),
                str(tmp_path / "lake"),
                f"sqlite:{tmp_path / 'state.db'}",
                quiet_period=0,
                run="test",
                spark=lambda: spark,
            )
            assert (done.verdict, done.commit, done.table) == ("ok", 2, str(table)), done.words
    assert len(together) == (0 if direct else len(tables))
    for table in tables:
        _, files = ParquetTable(str(tmp_path / "lake"), table).plain()
        paths = [str(path) for path in (tmp_path / "lake" / table.schema / table.name).rglob("*.parquet") if path.is_file()]
        assert len(paths) == len(files)
        rows = [
            row
            for path in paths
            for row in duckdb.connect()
            .read_parquet(path.replace("*", "?").replace("[", "[[]"), hive_partitioning=False)
            .project("id, name")
            .fetchall()
        ]
        assert sorted(rows) == [(1, "A"), (3, "c")], table
