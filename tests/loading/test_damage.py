"A damaged raw or lake file is never applied in part: the run says which file, row and column, and nothing has moved."

from __future__ import annotations

import io
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from damage import DAMAGES, LIBRARIES, ROWS, SOURCE, damages, encoded, in_page, put, rows_of, to_nulls
from dmscdc.changes.read import change_files
from dmscdc.changes.schema import evolve, read_footers
from dmscdc.changes.stage import stage
from dmscdc.errors import Unreadable
from tiers import sampled
from world import World, closed, query

pytestmark = pytest.mark.test


def check(done, before, w, name, words, what):
    "What a refusal must look like."
    assert done.verdict == "refused", (what, done.verdict, done.words)
    assert done.words.startswith("shop.item: ") and name in done.words and "dmscdc pass --only shop.item" in done.words, (what, done.words)
    assert all(part in done.words for part in words), (what, words, done.words)
    assert not any(word in done.words for word in LIBRARIES) and len(done.words) < 500, (what, done.words)
    assert w.table_state() == before, what
    checksums = {file["path"]: file["checksum"] for file in done.not_applied_files}
    assert checksums[name] == f"sha256:{sha256((w.raw / name).read_bytes()).hexdigest()}" and not done.files, what


@pytest.mark.parametrize("partition", sampled(["", "site"], ""))
def test_a_damaged_change_file_refuses_its_batch_by_name(tmp_path, spark, partition):
    w = World(tmp_path, spark, SOURCE).set(key="id,site", **({"partition": partition} if partition else {}))
    put(w.raw / "LOAD00000001.parquet", encoded(rows_of(None)))
    assert w.go().verdict == "ok"
    put(w.raw / f"{closed(1)}.parquet", encoded(rows_of("U")))
    path, before, looked = w.raw / f"{closed(2)}.parquet", w.table_state(), 0
    for what, raw, words in damages("I", ROWS):
        put(path, raw)
        check(w.go(), before, w, path.name, words, what)
        looked += 1
    assert looked == DAMAGES
    put(path, encoded(rows_of("I", ROWS)))
    assert w.go().verdict == "ok" and [n for (n,) in w.lake("count(*)")] == [2 * ROWS]


def test_values_that_one_wrong_bit_made_nulls_refuse_a_batch_by_file_and_column(tmp_path, spark):
    "Of three files; nulls of the source, and a column that one of them lacks, are no damage."
    w, looked = World(tmp_path, spark, SOURCE).set(key="id"), 0
    put(w.raw / "LOAD00000001.parquet", encoded(rows_of(None)))
    assert w.go().verdict == "ok"
    some = rows_of("U").set_column(3, "name", pa.array([None if i % 7 == 0 else f"name {i}" for i in range(ROWS)]))
    put(w.raw / f"{closed(1)}.parquet", encoded(some))
    put(w.raw / f"{closed(3)}.parquet", encoded(rows_of("U").drop_columns(["price"])))
    path, before, sound = w.raw / f"{closed(2)}.parquet", w.table_state(), encoded(rows_of("I", ROWS), data_page_version="2.0")
    for column in ("Op", "id", "name", "site", "price"):
        raw = to_nulls(sound, column)
        put(path, raw)
        gone = pq.read_table(io.BytesIO(raw))[column].null_count
        check(w.go(), before, w, path.name, [f"column {column} is damaged: 0 nulls were promised, {gone:,} are there"], column)
        looked += 1
    put(path, sound)
    assert looked == 5 and w.go().verdict == "ok" and w.lake("count(*), count(name)") == [(2 * ROWS, 2 * ROWS)]


def test_a_lake_file_that_is_not_what_the_journal_says_is_never_rewritten(tmp_path, spark):
    w = World(tmp_path, spark, SOURCE).set(key="id")
    put(w.raw / "LOAD00000001.parquet", encoded(rows_of(None)))
    assert w.go().verdict == "ok"
    put(w.raw / f"{closed(1)}.parquet", encoded(rows_of("U")))
    file = w.folder / w.files()[0]
    sound, before, looked = file.read_bytes(), w.table_state()[0], 0
    other = file.with_name("other")
    query(f"copy (from '{file}' limit 148) to '{other}' (format parquet)")
    for what, raw in [
        ("two rows are gone", other.read_bytes()),
        ("a bit in a page", in_page(sound, "_cdc_row", 0)),
        ("cut off", sound[:900]),
        ("empty", b""),
    ]:
        other.unlink(missing_ok=True)
        file.write_bytes(raw)
        done = w.go()
        assert (done.verdict, w.table_state()[0]) == ("failed", before), (what, done.words)
        assert file.name in done.words and "damaged" in done.words and "dmscdc table rewind shop.item --reload" in done.words, (what, done.words)
        assert file.read_bytes() == raw and not any(word in done.words for word in LIBRARIES), what
        looked += 1
    file.write_bytes(sound)
    assert looked == 4 and w.go().verdict == "ok" and [n for (n,) in w.lake("count(*)")] == [ROWS]


def test_a_file_of_which_other_rows_are_read_than_its_end_promised_is_named(tmp_path, spark, way):
    "Of three files one is another when it is read than when the batch was planned."
    for number in range(3):
        put(tmp_path / f"{closed(number)}.parquet", encoded(rows_of("I", ROWS * number)))
    urls = {path.name: str(path) for path in sorted(tmp_path.iterdir())}
    footers = read_footers(urls)
    files = change_files(footers, urls, evolve("shop.item", (), footers).schema)
    assert stage(spark, files, ["id"], str(tmp_path / "sound")).counts.keys == 3 * ROWS
    put(tmp_path / f"{closed(1)}.parquet", encoded(rows_of("I", ROWS).slice(0, 148)))
    with pytest.raises(Unreadable, match=f"^{closed(1)}.parquet: damaged: 150 rows were promised, 148 are there"):
        stage(spark, files, ["id"], str(tmp_path / "short"))


@pytest.mark.parametrize("codec, spark_reads", [("brotli", False), ("lz4", True), ("zstd", True)])
def test_a_compression_that_spark_lacks_is_said_with_its_cause(tmp_path, spark, way, codec, spark_reads):
    w = World(tmp_path, spark, SOURCE).set(key="id")
    put(w.raw / "LOAD00000001.parquet", encoded(rows_of(None)))
    assert w.go().verdict == "ok"
    path, before = w.raw / f"{closed(1)}.parquet", w.table_state()
    put(path, encoded(rows_of("U"), compression=codec))
    if way == "shuffled" and not spark_reads:
        check(w.go(), before, w, path.name, ["Spark cannot read it: ", "BrotliCodec was not found"], codec)
        put(path, encoded(rows_of("U")))
    assert w.go().verdict == "ok" and w.lake("distinct Op") == [("U",)]
