"A damaged load file is never loaded in part: the run says which file, row and column, and nothing has moved."

from __future__ import annotations

import pytest
from test_damage import check

from damage import DAMAGES, ROWS, SOURCE, damages, encoded, put, rows_of, to_nulls
from dmscdc.changes.read import change_files
from dmscdc.changes.schema import evolve
from dmscdc.errors import Unreadable
from dmscdc.lake.table import Transaction
from dmscdc.landing.files import FolderLanding
from dmscdc.load.initial import replace_table
from dmscdc.load.raw_files import open_files
from dmscdc.load.results import TableContext
from tiers import sampled
from world import World

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module", autouse=True)
def way():
    "A load is not folded: there is one way."


@pytest.mark.parametrize(
    "settings",
    sampled(
        [
            {"key": "id,site"},
            {"key": "id,site", "partition": "site"},
            {"key": "id", "partition": "at"},
            {"insert_only": True},
            {"insert_only": True, "partition": "site"},
        ],
        {"key": "id,site", "partition": "site"},
    ),
    ids=str,
)
def test_a_damaged_load_file_refuses_the_load_by_name(tmp_path, spark, settings):
    w = World(tmp_path, spark, SOURCE).set(**settings)
    put(w.raw / "LOAD00000001.parquet", encoded(rows_of(None)))
    path, before, looked = w.raw / "LOAD00000002.parquet", w.table_state(), 0
    for what, raw, words in damages(None, ROWS):
        put(path, raw)
        check(w.go(), before, w, path.name, words, what)
        looked += 1
    assert looked == DAMAGES
    put(path, encoded(rows_of(None, ROWS)))
    assert w.go().verdict == ("attention" if settings.get("partition") == "at" else "ok") and [n for (n,) in w.lake("count(*)")] == [2 * ROWS]


def test_values_that_one_wrong_bit_made_nulls_refuse_a_load_by_column(tmp_path, spark):
    w, looked, path = World(tmp_path, spark, SOURCE).set(key="id"), 0, "LOAD00000001.parquet"
    sound, before = encoded(rows_of(None), data_page_version="2.0"), w.table_state()
    for column in ("id", "name", "site"):
        put(w.raw / path, to_nulls(sound, column))
        check(w.go(), before, w, path, [f"column {column} is damaged: 0 nulls were promised, "], column)
        looked += 1
    put(w.raw / path, sound)
    assert looked == 3 and w.go().verdict == "ok" and w.lake("count(*), count(name)") == [(ROWS, ROWS)]


@pytest.mark.parametrize("settings", [{"key": ()}, {"key": ("id",)}], ids=["insert-only", "key"])
def test_of_a_partitioned_load_as_many_rows_are_written_as_its_files_promised(tmp_path, spark, settings):
    "Of two files one is another when Spark reads it than when the load was planned."
    w, landing = World(tmp_path, spark, SOURCE), FolderLanding(tmp_path / "landing")
    for number in (1, 2):
        put(w.raw / f"LOAD0000000{number}.parquet", encoded(rows_of(None, ROWS * number)))
    task = TableContext(w.ref, landing, w.lake_table, settings["key"], ("site",))
    opened = open_files(task, landing.files(w.ref).load, None)
    urls, footers = opened.urls, opened.footers
    files = change_files(footers, urls, evolve("shop.item", (), footers).schema)
    put(w.raw / "LOAD00000002.parquet", encoded(rows_of(None, ROWS).slice(0, 148)))
    with pytest.raises(Unreadable, match="^LOAD00000002.parquet: damaged: 150 rows were promised, 148 are there"):
        replace_table(spark, task, Transaction(None, {}, "run", files.schema, settings["key"], ("site",)), files, 1)
    assert w.lake_table.head() is None
