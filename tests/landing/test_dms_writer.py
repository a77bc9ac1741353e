"""Files as DMS writes them: what a reader of the footer finds, and what happens when writers meet."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmscdc.capture.writer import DmsSettings, change_sequence, typed_rows, write_changes, write_load
from dmscdc.landing.files import FolderLanding, TableRef

pytestmark = pytest.mark.quick

T = "sampledb.product"
CLOSED = datetime(2018, 12, 15, 10, 3, 11, 204000)


def test_the_footer_holds_dms_types_and_nothing_of_arrow(tmp_path):
    schema = {"id": "int", "s": "smallint", "price": "decimal(15,2)", "at": "timestamp", "day": "date", "ok": "boolean", "raw": "binary"}
    row = (1, 2, "3.25", "2018-12-15 10:02:11", "2018-12-15", True, b"\x00\xff")
    path = write_load(tmp_path, T, [row], schema, settings=DmsSettings(timestamp_column="dms_ts"))
    found = pq.ParquetFile(path)
    columns = {c.name: c for c in (found.schema.column(i) for i in range(len(found.schema)))}
    assert found.metadata.metadata is None and found.metadata.format_version == "1.0"
    assert columns["price"].physical_type == "FIXED_LEN_BYTE_ARRAY" and columns["price"].length == 7
    assert columns["at"].physical_type == "INT64" and "isAdjustedToUTC=true" in str(columns["at"].logical_type)
    assert "Int(bitWidth=16" in str(columns["s"].logical_type) and columns["day"].converted_type == "DATE"
    assert columns["dms_ts"].max_definition_level == 0 and columns["id"].max_definition_level == 1  # required, optional
    group = found.metadata.row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {"UNCOMPRESSED"}
    assert [c.path_in_schema for c in map(group.column, range(group.num_columns)) if not c.is_stats_set] == ["price"]


def test_an_independent_reader_sees_the_same_values(tmp_path):
    rows = [("U", 1001, 'Søren\'s "lamp", 9”', "39.00"), ("D", 1002, None, None)]
    path = write_changes(tmp_path, T, rows, CLOSED, {"id": "int", "name": "string", "price": "decimal(10,2)"})
    assert [tuple(map(str, r)) for r in duckdb.sql(f"from '{path}'").fetchall()] == [tuple(map(str, r)) for r in rows]


def test_row_groups_are_short_and_settable(tmp_path):
    data = typed_rows(((i,) for i in range(25_000)), {"id": "int"})
    assert pq.read_metadata(write_load(tmp_path, T, data)).num_row_groups == 3
    whole = write_load(tmp_path, T, data, settings=DmsSettings(row_group_length=25_000))
    assert pq.read_metadata(whole).num_row_groups == 1


def test_writers_that_close_in_one_millisecond_lose_nothing(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda i: write_changes(tmp_path, T, [("I", i)], CLOSED, {"id": "int"}), range(40)))
    assert len(set(paths)) == 40 and sorted(pq.read_table(p)["id"][0].as_py() for p in paths) == list(range(40))
    assert len(FolderLanding(tmp_path).files(TableRef.parse(T)).changes) == 40


def test_a_file_is_never_seen_half_and_a_failed_one_never(tmp_path, monkeypatch):
    seen = []

    def broken(path, schema, **_):
        path.write_bytes(b"PAR1")  # what a killed writer leaves
        seen.append([f.path for f in FolderLanding(tmp_path).files(TableRef.parse(T)).changes])
        raise OSError("disk full")

    monkeypatch.setattr(pq, "ParquetWriter", broken)
    with pytest.raises(OSError, match="disk full"):
        write_changes(tmp_path, T, [("I", 1)], CLOSED, {"id": "int"})
    assert seen == [[]] and FolderLanding(tmp_path).tables() == []
    assert [p.name for p in tmp_path.iterdir()] == ["sampledb"]


def test_an_arrow_table_with_op_anywhere_is_written_with_op_first(tmp_path):
    path = write_changes(tmp_path, T, pa.table({"id": pa.array([1], pa.int32()), "Op": ["I"]}), CLOSED)
    assert pq.read_schema(path).names == ["Op", "id"]


def test_object_times_can_be_set(tmp_path):
    write_load(tmp_path, T, [(1,)], {"id": "int"}, time=CLOSED)
    write_changes(tmp_path, T, [("I", 1)], CLOSED, {"id": "int"}, time=1_544_868_200.5)
    files = FolderLanding(tmp_path).files(TableRef.parse(T))
    assert [f.time for f in files.load + files.changes] == [1_544_868_191.204, 1_544_868_200.5]


def test_given_commits_and_sequences_are_kept(tmp_path):
    settings = DmsSettings(timestamp_column="ts", sequence_column="seq")
    sequences = [change_sequence(CLOSED, n) for n in (9, 7)]
    path = write_changes(
        tmp_path, T, [("I", 1), ("U", 1)], "20181215-100311204", {"id": "int"}, settings, commits=[CLOSED, CLOSED], sequences=sequences
    )
    assert pq.read_table(path).to_pydict() == {"Op": ["I", "U"], "ts": ["2018-12-15 10:03:11.204000"] * 2, "id": [1, 1], "seq": sequences}
