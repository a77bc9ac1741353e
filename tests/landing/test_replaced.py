"What the journal knows of a file, held against the file: another one in its place, dates that Python does not know. No Spark."

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmscdc.changes.partition_runners import unique_columns, write_table
from dmscdc.changes.schema import Column, read_lake
from dmscdc.errors import CommitConflict, LakeDamaged
from dmscdc.lake.parquet.rewrite import Work, rewrite
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.lake.parquet.write import candidates, lake_file_of, unit
from dmscdc.lake.table import Transaction
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.load.arrivals import Plan
from dmscdc.load.process import problem_of

pytestmark = pytest.mark.quick

TYPES = (("Op", "string"), ("id", "int"), ("a", "string"), ("_cdc_file", "string"), ("_cdc_row", "bigint"))
ROWS = pa.table(
    {"Op": ["I"] * 3, "id": pa.array([1, 2, 3], pa.int32()), "a": ["x", "y", "z"], "_cdc_file": ["LOAD00000001.parquet#1"] * 3, "_cdc_row": [0, 1, 2]}
)
OTHERS = {
    "a column is missing": ROWS.drop_columns(["a"]),
    "a column of another type": ROWS.set_column(2, "a", pa.array([1, 2, 3])),
    "other values": ROWS.set_column(2, "a", pa.array(["forged"] * 3)),
    "two columns more": ROWS.append_column("b", pa.array([1, 2, 3])),
}


@pytest.fixture
def written(tmp_path):
    "A lake file, and the work that makes a file of it again."
    name = "000000000001-a-b.parquet"
    path = tmp_path / "lake/shop/item" / name
    path.parent.mkdir(parents=True)
    pq.write_table(ROWS, path)
    table = ParquetTable(str(tmp_path / "lake"), TableRef("shop", "item"))
    one = unit(table.transaction_log, [lake_file_of(str(path), name, "", ("id",))], True)
    work = Work("", str(tmp_path / "out"), str(tmp_path / "facts"), "000000000002-c", TYPES, ("id",), (), (("id",), ("a",)), False, 64 << 20, (one,))
    return path, one, work


def test_a_lake_file_that_was_replaced_by_one_of_as_many_rows_is_never_rewritten(written):
    path, one, work = written
    assert len(rewrite(one, work).adds) == 1
    looked = 0
    for what, rows in OTHERS.items():
        pq.write_table(rows, path)
        assert pq.read_metadata(path).num_rows == 3
        with pytest.raises(LakeDamaged, match=rf"the lake's file {path}: damaged or replaced: it has [\d,]+ bytes, [\d,]+ were written"):
            rewrite(one, work)
        looked += 1
    path.unlink()
    with pytest.raises(LakeDamaged, match="it is gone"):
        rewrite(one, work)
    assert looked == 4


def test_a_lake_file_that_was_replaced_by_one_of_as_many_bytes_is_known_by_its_rows(written):
    path, one, work = written
    size = path.stat().st_size
    for rest in range(size):
        pq.write_table(
            ROWS.slice(0, 2).set_column(2, "a", pa.array(["x" * rest, "y"])),
            path,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
        )
        if path.stat().st_size == size:
            break
    assert (path.stat().st_size, pq.read_metadata(path).num_rows) == (size, 2)
    with pytest.raises(LakeDamaged, match=rf"the lake's file {path}: damaged: 3 rows were promised, 2 are there"):
        rewrite(one, work)


@pytest.mark.parametrize(
    "kind, values",
    [
        (pa.date32(), [2932897, 0]),
        (pa.date32(), [-800000, 0]),
        (pa.timestamp("us", "UTC"), [253402300800000000, 0]),
        (pa.timestamp("us", "UTC"), [-99999999999999999, 0]),
    ],
    ids=["date after 9999", "date before 1", "time after 9999", "time before 1"],
)
def test_keys_of_dates_that_python_does_not_know_have_no_bounds_and_may_be_anywhere(tmp_path, kind, values):
    whole = pa.array(values, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    path = tmp_path / "far.parquet"
    pq.write_table(pa.table({"day": whole}), path)
    file = lake_file_of(str(path), "000000000001-a-b.parquet", "", ("day",))
    assert (file.rows, file.low, file.high) == (2, (None,), (None,))
    lake_type = "date" if kind == pa.date32() else "timestamp"
    assert candidates(
        [file], [dataclasses.replace(file, low=("2018-12-15",), high=("2018-12-15",))] if lake_type == "date" else [file], [lake_type]
    ) == [file]


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("aside/000000000002-a/facts/insert.json"), LakeDamaged("the lake's file x: damaged or replaced: it is gone")],
    ids=repr,
)
def test_of_two_states_on_one_lake_the_loser_says_that_another_run_has_committed(tmp_path, error):
    table = ParquetTable(str(tmp_path / "lake"), TableRef("shop", "item"))
    schema, landing, plan = (Column("id", "int"),), FolderLanding(tmp_path / "landing"), Plan(table.table)
    first = table.commit_position(Transaction(None, {}, "run 1", schema, ("id",))).commit().commit
    table_state = SimpleNamespace(lake=table, number=1, item=SimpleNamespace(table=table.table))

    def said(run):
        try:
            return problem_of(error, landing, plan, table_state, (), run)
        except FileNotFoundError as raised:
            return raised

    assert said("run 2") is error, "nobody has committed since"
    table.commit_position(Transaction(first, {}, "run of another", schema, ("id",))).commit()
    words = "shop.item: commit 2 was made by run of another meanwhile; nothing more of this run is in the table"
    assert isinstance(said("run 2"), CommitConflict) and words in str(said("run 2"))
    assert said("run of another") is error, "its own commit is none of another"


def test_no_wrong_byte_in_a_page_of_a_lake_file_gives_other_values(tmp_path):
    "Bytes of the pages, one after the other, are turned over. Snappy notices few of them; a page's check sum notices all."
    rows = pa.table(
        {
            "Op": ["I"] * 200,
            "id": pa.array(range(200), pa.int32()),
            "a": [f"name {n * 7}" for n in range(200)],
            "_cdc_file": ["LOAD00000001.parquet#1"] * 200,
            "_cdc_row": range(200),
        }
    )
    path = tmp_path / "lake" / "0.parquet"
    write_table(rows, str(path), dict(TYPES), unique_columns(("id",)))
    sound, meta = path.read_bytes(), pq.read_metadata(path)
    chunks = [meta.row_group(0).column(at) for at in range(meta.num_columns)]
    end = max(chunk.data_page_offset + chunk.total_compressed_size for chunk in chunks)
    found = {"refused": 0, "the same": 0, "without check sums": 0}
    for at in range(4, min(end, len(sound)), 3):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :])
        try:
            assert read_lake(str(path)).equals(rows), f"byte {at} gives other values"
            found["the same"] += 1
        except LakeDamaged:
            found["refused"] += 1
        try:
            found["without check sums"] += not pq.read_table(path).equals(rows)
        except (pa.ArrowException, OSError):
            pass
    assert found["refused"] > 500 and found["without check sums"] > 100 and found["the same"] < 60, found
