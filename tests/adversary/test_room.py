"Rows that are small where they lie and large in memory: counted as what they take, cut, or refused with one sentence."

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.changes.options import ReadOptions
from dmscdc.changes.partition_runners import with_access
from dmscdc.changes.rewrite import rewrite_files
from dmscdc.changes.schema import read_footer, read_footers
from dmscdc.cli.main import app
from dmscdc.errors import Unreadable
from dmscdc.lake.parquet.copy import Copying, copy_piece, cut
from dmscdc.service.config import write_config

pytestmark = pytest.mark.quick

LOAD = "LOAD00000001.parquet"
ROWS = 1_000_000


def repeated(path: Path, size: int, groups: int = 1) -> Path:
    "One text of so many bytes in each of a million rows."
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int8)), [size * "x"])
    pq.write_table(pa.table({"id": np.arange(ROWS), "text": texts}), path, compression="zstd", row_group_size=ROWS // groups)
    assert path.stat().st_size < 4_000_000
    return path


@pytest.mark.parametrize("groups", [1, 10])
def test_a_value_that_is_stored_once_counts_in_each_row(tmp_path, groups):
    footer = read_footer(LOAD, str(repeated(tmp_path / LOAD, 1_000, groups)))
    assert ROWS * 1_000 / 8 <= footer.bytes <= ROWS * 1_100 / 8


def test_of_rows_that_are_large_in_memory_no_lake_file_holds_more_than_a_task_can_bear(tmp_path):
    url = str(repeated(tmp_path / LOAD, 1_000))
    pieces = cut(read_footers({LOAD: url}), {LOAD: url}, 1, 64 << 20)
    columns = (("Op", "string"), ("id", "bigint"), ("text", "string"), ("_cdc_file", "string"), ("_cdc_row", "bigint"))
    names = [name for piece in pieces for name in copy_piece(piece, Copying(str(tmp_path / "lake"), "1", columns, ("id",), 10 * ROWS, pieces))]
    rows = [pq.read_metadata(tmp_path / "lake" / name).num_rows for name in names]
    assert sum(rows) == ROWS and max(rows) * 1_000 <= 600 << 20


def test_a_file_that_is_made_to_fill_the_memory_of_its_reader_is_refused(tmp_path):
    with pytest.raises(Unreadable, match=r"its rows would take 1,0.. GB in memory, [0-9,]+ times the size of the file"):
        read_footer(LOAD, str(repeated(tmp_path / LOAD, 1_000_000)))


def test_a_row_larger_than_a_row_of_csv_may_be_is_refused_with_what_limits_it_in_dms(tmp_path):
    pq.write_table(pa.table({"id": [1], "text": ["x" * (70 << 20)]}), tmp_path / LOAD, compression="zstd", use_dictionary=False)
    with pytest.raises(Unreadable, match=r"its rows take 70 MB each, at most 64 are read. Limit .* \(LobMaxSize\)"):
        read_footer(LOAD, str(tmp_path / LOAD))


def test_a_file_with_more_columns_than_any_database_has_costs_its_table_a_plan_and_the_others_nothing(tmp_path):
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    for table, columns in (("wide", 30_001), ("good", 2)):
        (tmp_path / "landing" / "shop" / table).mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2], **{f"c{i}": [1, 2] for i in range(1, columns)}}), tmp_path / "landing" / "shop" / table / LOAD)
    told = CliRunner().invoke(app, ["plan", "--folder", str(tmp_path)]).output
    assert "has 30,001 columns, at most 30,000 are read" in " ".join(told.split()) and "dmscdc table set shop.good --key id" in told


@pytest.mark.parametrize("at", [0, 200_000])  # rows before it: in the first block that is read, or long behind it
def test_a_long_row_is_read_and_an_endless_one_refused(tmp_path, at):
    (tmp_path / "LOAD00000001.csv").write_text("id,text\n" + at * "1,a\n" + f"2,{3_000_000 * 'x'}\n3,b\n")
    with gzip.open(tmp_path / "LOAD00000002.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"id,text\n" + at * b"1,a\n" + b"2,")
        for _ in range(130):
            file.write((1 << 20) * b"x")
    read = lambda name: rewrite_files("shop.t", {name: str(tmp_path / name)}, ReadOptions(header=True), str(tmp_path / "made")).urls[name]
    rows = pq.read_table(read("LOAD00000001.csv"))
    assert rows.num_rows == at + 2 and rows["id"].to_pylist()[-2:] == ["2", "3"] and len(rows["text"][at].as_py()) == 3_000_000
    with pytest.raises(Unreadable, match="LOAD00000002.csv.gz: a row is longer than 64 MiB"):
        read("LOAD00000002.csv.gz")


@pytest.mark.parametrize("question", [("changes",), ("find", "id=7")], ids=lambda words: words[0])
def test_a_question_takes_no_more_than_half_of_the_memory_and_says_so(tmp_path, monkeypatch, question):
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    place = tmp_path / "landing/shop/item"
    place.mkdir(parents=True)
    rows = pq.read_table(repeated(tmp_path / "rows", 1_000))
    pq.write_table(rows.slice(0, 5), place / LOAD)
    pq.write_table(
        rows.add_column(0, "Op", pa.DictionaryArray.from_arrays(pa.array(np.zeros(ROWS, np.int8)), ["I"])),
        place / "20260301-100000000.parquet",
        compression="zstd",
    )
    typed = lambda *words: CliRunner().invoke(app, [*words, "--folder", str(tmp_path)])
    assert typed("table", "set", "shop.item", "--key", "id").exit_code == 0
    monkeypatch.setattr("dmscdc.spark.session.memory_here", lambda: 1 << 30)
    done = typed(question[0], "shop.item", *question[1:])
    assert done.exit_code == 1 and "does not fit into half of this machine's memory" in " ".join(done.output.split()), done.output


def test_a_task_has_a_bound_of_its_own_and_one_that_needs_more_says_so():
    code = "import numpy; from dmscdc.spark.daemon import limit_memory; limit_memory(1 << 30); numpy.ones(1 << 28)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert ended.returncode and "MemoryError" in ended.stderr

    def work(batches):
        raise MemoryError("malloc of size 12000000000 failed")
        yield

    (line,) = with_access(work)(iter([]))
    assert "OutOfMemory" in line["done"][0].as_py() and "a task had too little memory for its rows (malloc of size" in line["done"][0].as_py()
