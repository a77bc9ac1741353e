"What a table lives through: first pass, further passes, passes that find nothing, a state that was lost, others at work."

from __future__ import annotations

import os
import shutil
import time

import pytest

from dmscdc.capture.writer import DmsSettings
from dmscdc.lake.table import Transaction
from world import World, closed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string"}


@pytest.fixture()
def w(tmp_path, spark):
    return World(tmp_path, spark, SCHEMA).set(key="id")


def test_load_files_and_changes_of_the_first_pass_and_then_only_what_is_new(w):
    w.load([(1, "a"), (2, "b")]).load([(3, "c")], number=2, settings=DmsSettings(include_op_for_full_load=True)).load([(4, "d")], number=16)
    w.changes(1, [("U", 1, "A"), ("D", 2, None), ("I", 3, "C")])
    done = w.go()
    assert (done.verdict, done.plan["kind"], done.commit) == ("ok", "both", 2) and w.settled()
    assert [(f["path"], f["kind"], f["rows"]) for f in done.files] == [
        ("LOAD00000001.parquet", "load", 2),
        ("LOAD00000002.parquet", "load", 1),
        ("LOAD00000010.parquet", "load", 1),
        (f"{closed(1)}.parquet", "change", 3),
    ]
    assert (done.rows["read"], done.rows["inserted"], done.rows["updated"], done.rows["deleted"]) == (7, 4, 2, 1)
    w.changes(2, [("I", 9, "x"), ("D", 9, None), ("D", 4, None), ("I", 4, "again"), ("U", 4, "and again")])
    done = w.go()
    assert [f["path"] for f in done.files] == [f"{closed(2)}.parquet"] and (done.to_dict()["first"], done.to_dict()["last"]) == (
        f"{closed(2)}.parquet",
    ) * 2
    assert w.lake("id, name, Op") == [(1, "A", "U"), (3, "C", "I"), (4, "and again", "U")]
    before = w.table_state()
    again = w.idle()
    assert (again.verdict, again.commit, w.table_state()) == ("nothing", 3, before)


def test_a_batch_that_changes_no_row_commits_its_position_and_rewrites_no_file(w):
    w.load([(1, "a")])
    assert w.go().verdict == "ok"
    number, files, _ = w.table_state()
    w.changes(1, [("D", 7, None), ("I", 8, "x"), ("D", 8, None)])
    done = w.go()
    assert (done.verdict, done.rows["unchanged"], done.lake["files_rewritten"], done.lake["files_added"]) == ("ok", 2, 0, 0)
    assert w.table_state()[:2] == (number + 1, files) and done.position["after"].endswith(f"{closed(1)}.parquet")
    assert w.state.get(w.ref).position.last == f"{closed(1)}.parquet" and w.idle().verdict == "nothing"


def test_a_table_without_a_load_set_starts_empty_and_takes_its_first_changes(w):
    w.changes(1, [("I", 1, "a"), ("I", 2, "b"), ("D", 2, None)])
    done = w.go()
    assert (done.verdict, w.lake("id, name"), w.idle().verdict) == ("ok", [(1, "a")], "nothing")


def test_an_empty_landing_and_an_empty_load_are_no_failure(w):
    done = w.idle()
    assert (done.verdict, done.words, done.commit) == ("nothing", "its first files", 0)
    w.load([]).changes(1, [])
    assert w.go().verdict in ("ok", "nothing") and w.lake("id") == []
    w.changes(2, [("I", 1, "a")])
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "a")]


def test_1600_change_files_of_one_table_all_arrive(w):
    w = World(w.root / "many", w.spark, SCHEMA).set(insert_only=True).load([(0, "load")])
    w.changes("20181215-000000000", [("I", 0, "x")])
    template = (w.raw / "20181215-000000000.parquet").read_bytes()
    (w.raw / "20181215-000000000.parquet").unlink()
    names = [f"201812{15 + i // 1440}-{i // 60 % 24:02d}{i % 60:02d}00000.parquet" for i in range(1600)]
    for name in names:
        (w.raw / name).write_bytes(template)  # the same row in every file: the file's name tells them apart
    w.changes("20181213-000000000", [("I", i, "first") for i in range(1, 4)])
    done = w.go()
    assert (done.verdict, done.rows["read"], done.rows["inserted"], len(done.files)) == ("ok", 1604, 1604, 1602)
    assert sorted(f for (f,) in w.lake("_cdc_file")) == sorted([*names, "LOAD00000001.parquet#1", *["20181213-000000000.parquet"] * 3])
    at = w.state.get(w.ref).position
    assert at.last == names[-1] and [path for path, _ in at.window] == names[-1441:] and not at.shrunk
    assert w.idle().verdict == "nothing"


# The state, the lease, and what others do


def test_a_lost_state_is_rebuilt_from_the_lake_and_an_old_one_brought_forward(w):
    w.load([(1, "a")])
    assert w.go().verdict == "ok"
    shutil.copy(w.root / "state.db", w.root / "old.db")
    w.changes(1, [("U", 1, "b")])
    assert w.go().verdict == "ok"
    item = w.state.get(w.ref)
    for lose in (lambda: None, lambda: shutil.copy(w.root / "old.db", w.root / "state.db")):
        for ending in ("", "-wal", "-shm"):
            (w.root / f"state.db{ending}").unlink(missing_ok=True)
        lose()
        w.set(key="id")
        before = w.table_state()[:2]
        assert w.idle().verdict == "nothing" and w.table_state()[:2] == before
        assert (w.state.get(w.ref).position, w.state.get(w.ref).commit) == (item.position, item.commit)
    w.changes(2, [("U", 1, "c")])
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "c")]


def test_while_another_holds_the_lease_nothing_is_done_and_its_holder_is_named(w):
    w.load([(1, "a")])
    lease = w.state.acquire(w.ref, "run 20181215T100000Z-ab12", 600)
    before, done = w.table_state(), w.idle()
    assert done.verdict == "busy" and "run 20181215T100000Z-ab12 is at work on it" in done.words and w.table_state() == before
    assert w.state.holder(w.ref) == lease, "the other one's lease is left alone"
    w.state.release(lease)
    assert w.go().verdict == "ok" and w.state.holder(w.ref) is None, "our own is given back"


def test_a_run_whose_lease_passed_on_commits_nothing(w, in_spark):
    w.load([(1, "a")])
    lease = w.state.acquire(w.ref, "slow run", 600)

    def late():
        assert w.state.acquire(w.ref, "fast run", 600, now=time.time() + 1000)
        return w.spark

    done = w.go(owner="slow run", fence=lease.fence, spark=late)
    assert done.verdict == "failed" and "slow run has lost its lease" in done.words and w.lake_table.head() is None and not w.folder.exists()


@pytest.mark.parametrize(
    "meddle, words",
    [
        (lambda raw: (raw / f"{closed(1)}.parquet").write_bytes((raw / f"{closed(2)}.parquet").read_bytes()), "bytes and has"),
        (lambda raw: os.utime(raw / f"{closed(1)}.parquet", (1e9, 1e9)), "was put again"),
    ],
    ids=["other content", "put again"],
)
def test_an_input_that_changes_during_the_run_voids_it_and_the_next_pass_takes_it_as_it_is(w, in_spark, meddle, words):
    w.load([(1, "a"), (2, "b")])
    assert w.go().verdict == "ok"
    w.changes(1, [("U", 1, "one")]).changes(2, [("U", 2, "two"), ("U", 2, "a much longer text than before")])
    before = w.table_state()

    def later():
        meddle(w.raw)
        return w.spark

    done = w.go(spark=later)
    assert done.verdict == "failed" and f"{closed(1)}.parquet" in done.words and words in done.words and w.table_state() == before
    assert w.go().verdict == "ok" and w.lake("id, name")[1] == (2, "a much longer text than before")


def test_a_file_that_arrives_during_the_run_waits_for_the_next_pass(w, in_spark):
    w.load([(1, "a")]).changes(1, [("U", 1, "b")])

    def later():
        if not (w.raw / f"{closed(2)}.parquet").exists():
            w.changes(2, [("U", 1, "c")])
        return w.spark

    assert w.go(spark=later).verdict == "ok" and w.lake("name") == [("b",)]
    assert w.go().verdict == "ok" and w.lake("name") == [("c",)]


def test_another_writer_between_plan_and_commit_fails_the_run_and_harms_nothing(w, in_spark):
    w.load([(1, "a")])
    assert w.go().verdict == "ok"
    w.changes(1, [("U", 1, "b"), ("I", 2, "c")])

    def overtaken():
        head = w.lake_table.head()
        w.lake_table.commit_position(Transaction(head, head.position, "the other run", head.schema, head.key)).commit()
        return w.spark

    done = w.go(spark=overtaken)
    assert done.verdict == "failed" and "the next pass plans again" in done.words and w.lake("id, name") == [(1, "a")]
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "b"), (2, "c")] and w.settled()


def test_other_keys_and_partitions_wait_for_a_reload(w):
    w.load([(1, "a"), (2, "b")])
    assert w.go().verdict == "ok"
    w.set(key="id,name", partition="name").changes(1, [("I", 3, "c")])
    before, done = w.table_state(), w.idle()
    assert (
        done.verdict == "attention"
        and "the key is now id,name, but the lake table was written with id; the partition is now name, but the lake table was written without one; no changes are applied until you reload: `dmscdc table rewind shop.item --reload`"
        in done.words
    )
    assert w.table_state() == before
    w.state.instruct(w.ref, {"kind": "reload", "changes": "keep"})
    done = w.go()
    assert done.verdict == "ok" and w.lake("id, name") == [(1, "a"), (2, "b"), (3, "c")] and all(f.startswith("name=") for f in w.files())


def test_a_run_by_hand_holds_its_lease_for_as_long_as_a_step_may_take(spark, tmp_path, in_spark):
    world, left = World(tmp_path, spark, {"id": "int"}).set(key="id").load([(1,)]), []

    def session():
        left.append(world.state.holder(world.ref).expiry - time.time())
        return spark

    assert world.go(spark=session).verdict == "ok" and min(left) > 300, left
