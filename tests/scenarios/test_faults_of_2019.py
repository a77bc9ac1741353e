"""The well-known recipe of 2019 is quietly wrong in fifteen places. Each has a test here that shows what happens instead.

The story is one small table: a landing, passes, and what an independent reader finds in the lake's folder.
"""

from __future__ import annotations

import time

import pytest

from dmscdc.capture.writer import DmsSettings, moment_utc
from dmscdc.errors import CommitConflict
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.lake.table import Transaction
from dmscdc.landing.s3 import open_landing
from dmscdc.load.arrivals import Plan
from dmscdc.load.incremental import prepare_changes
from dmscdc.load.initial import prepare_load
from dmscdc.load.results import Step, TableContext
from dmscdc.state.sqlite import one_action
from world import World, closed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string"}


@pytest.fixture()
def w(tmp_path, spark):
    return World(tmp_path, spark, SCHEMA).set(key="id")


def test_listing_stops_after_1000_objects__all_1201_arrive(w):
    w.load([(0, "load")])
    for number in range(1, 1202):
        w.changes(number, [("I", number, "x")])
    assert w.go().verdict == "ok" and w.lake("count(*), max(id)") == [(1202, 1201)] and w.idle().verdict == "nothing"


@pytest.mark.parametrize("before", ["", "a-bucket/", "a-bucket/some/prefix/"])
def test_marker_key_given_with_its_bucket__it_means_the_file_all_the_same(w, before):
    w.load([(1, "load")]).changes(1, [("U", 1, "one")]).changes(2, [("U", 1, "two")])
    assert w.go().verdict == "ok"
    with one_action(w.state.path) as db:
        db.execute("update DMSCDC_Controller set LastIncrementalFile = ?", [f"{before}shop/item/{closed(1)}.parquet"])
    done = w.go()
    assert [f["path"] for f in done.files] == [f"{closed(2)}.parquet"] and w.lake("name") == [("two",)]


def test_order_inside_a_file__the_last_row_wins(w):
    w.load([(key, "load") for key in range(50)])
    w.changes(1, [("U", key, f"{turn:02d}") for turn in range(40) for key in range(50)], settings=DmsSettings(row_group_length=50))
    assert w.go().verdict == "ok" and w.lake("distinct name") == [("39",)]


def test_double_rows_after_a_crash__the_commit_is_whole_or_not_there(w):
    w.load([(1, "load"), (2, "load")])
    assert w.go().verdict == "ok"
    w.changes(1, [("U", 1, "new"), ("I", 3, "new")])
    table, journal = w.lake_table, w.lake_table.transaction_log
    draft = Transaction(table.head(), {}, "died", table.head().schema, ("id",))
    left = w.root / "lake" / journal.staging_folder / f"{draft.number:012d}-dead" / f"{draft.number:012d}-dead-0.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes((w.folder / w.files()[0]).read_bytes())  # written aside, and then its writer died
    assert w.lake("id, name") == [(1, "load"), (2, "load")]
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "new"), (2, "load"), (3, "new")] and w.settled()


def test_a_changed_key_without_before_image__is_counted_and_said(w):
    w.load([(1, "a"), (2, "b")]).changes(1, [("U", 9, "a")])
    done = w.go()
    assert (
        done.verdict == "attention"
        and "1 update matched no row and was inserted: the key (id) may be wrong; or a key was changed at the source" in done.words
    )
    assert w.lake("id") == [(1,), (2,), (9,)], "the row with the old key is still there, as the words say"


def test_a_dropped_column_erased_from_untouched_rows__it_keeps_its_values(w):
    w.load([(1, "a"), (2, "b")]).changes(1, [("U", 1)], {"id": "int"})
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "a"), (2, "b")]


def test_a_new_column_in_the_second_file_lost__it_is_there(w):
    w.load([(1, "a"), (2, "b")]).changes(1, [("U", 1, "A")]).changes(2, [("U", 2, "B", "red")], {**SCHEMA, "color": "string"})
    assert w.go().verdict == "ok" and w.lake("id, name, color") == [(1, "A", None), (2, "B", "red")]


def test_int_to_bigint_inside_a_batch__both_are_read(w):
    w.load([(1, "a")]).changes(1, [("I", 2, "b")]).changes(2, [("I", 2**40, "c")], {**SCHEMA, "id": "bigint"})
    assert w.go().verdict == "ok" and w.lake("id, typeof(id)") == [(1, "BIGINT"), (2, "BIGINT"), (2**40, "BIGINT")]


def test_rows_with_null_op_lost__the_batch_is_refused_by_name(w):
    w.load([(1, "a")])
    assert w.go().verdict == "ok"
    w.changes(1, [("I", 2, "b"), (None, 3, "c")])
    before, done = w.table_state(), w.go()
    assert done.verdict == "refused" and f"row 2 of {closed(1)}.parquet: column Op is null" in done.words and w.table_state() == before


def test_load_started_before_all_its_parts_are_there__it_waits(w):
    w.load([(1, "a")])
    done = w.idle(quiet_period=300)
    assert done.verdict == "nothing" and "1 load file; complete at" in done.words and w.lake_table.head() is None
    w.load([(2, "b")], number=2)
    assert w.idle(quiet_period=300).verdict == "nothing"
    w.changes(1, [("U", 2, "B")], time=time.time() + 5)  # put after the last load file
    assert w.go(quiet_period=300).verdict == "ok" and w.lake("id, name") == [(1, "a"), (2, "B")]


def test_files_that_arrive_during_the_run_read_twice__they_wait_for_the_next(w, in_spark):
    w.load([(1, "a")]).changes(1, [("I", 2, "b")])

    def arriving():
        if not (w.raw / f"{closed(2)}.parquet").exists():
            w.changes(2, [("I", 3, "c"), ("U", 2, "B")])
        return w.spark

    first, second = w.go(spark=arriving), w.go()
    assert [[f["path"] for f in done.files] for done in (first, second)] == [
        ["LOAD00000001.parquet", f"{closed(1)}.parquet"],
        [f"{closed(2)}.parquet"],
    ]
    assert w.lake("id, name") == [(1, "a"), (2, "B"), (3, "c")]


def test_time_out_leaves_two_writers__the_second_to_commit_is_refused_by_the_table(w):
    w.load([(1, "a")])
    assert w.go().verdict == "ok"
    slow, fast = (Transaction(w.lake_table.head(), {"by": who}, who, w.lake_table.head().schema, ("id",)) for who in ("slow", "fast"))
    w.lake_table.commit_position(fast).commit()
    with pytest.raises(CommitConflict, match="another writer made commit 2 meanwhile"):
        w.lake_table.commit_position(slow).commit()
    assert w.lake_table.head().run == "fast"


def test_old_changes_replayed_on_a_reload__what_the_load_made_obsolete_is_left_out(w):
    def put(minute):
        return moment_utc("2018-12-15 10:00:00").timestamp() + 60 * minute

    w.load([(1, "a")], time=put(0)).changes("20181215-100500000", [("U", 1, "old"), ("I", 2, "old")], time=put(5) + 1)
    assert w.go().verdict == "ok"
    w.load([(1, "reloaded, and of another size")], time=put(20))
    w.changes("20181215-103000000", [("I", 3, "new")], time=put(30) + 1)
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "reloaded, and of another size"), (3, "new")]


def test_late_file_never_seen__it_is_applied_and_the_newest_wins(w):
    w.load([(1, "a"), (2, "b")]).changes(2, [("U", 1, "two")])
    assert w.go().verdict == "ok"
    w.changes(1, [("U", 1, "one"), ("U", 2, "one")])
    done = w.go()
    assert done.verdict == "attention" and w.lake("id, name") == [(1, "two"), (2, "one")]


def test_everything_written_to_one_file__files_have_a_good_size_and_only_touched_ones_are_rewritten(w):
    w.load([(key, f"{key:050d}") for key in range(1500)], settings=DmsSettings(row_group_length=100))
    table, landing = ParquetTable(str(w.root / "lake"), w.ref, target_bytes=16_000), open_landing(w.landing)
    context = TableContext(w.ref, landing, table, ("id",))
    load = Plan(w.ref, load=landing.files(w.ref).load, load_number=1)
    prepare_load(Step(lambda: w.spark, context, load, None)).commit()
    files = {f.name: (f.low, f.high) for f in table.transaction_log.head().files}
    assert len(files) > 4 and w.lake("count(*), count(distinct id)") == [(1500, 1500)]
    w.changes(1, [("U", 700, "touched")])
    batch = Plan(w.ref, changes=landing.files(w.ref).changes)
    done = prepare_changes(Step(lambda: w.spark, context, batch, table.head())).commit()
    assert (done.written.files["rewritten"], done.written.files["opened"]) == (1, 1)
    assert [files[name] for name in table.transaction_log.head().removes] == [(low, high) for low, high in files.values() if low[0] <= 700 <= high[0]]
