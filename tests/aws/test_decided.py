"A lake in a store that cannot refuse a put: the state decides which draft becomes an entry."

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest
from botocore.httpsession import URLLib3Session
from test_lake import KINDS, Killed, Lake, Wire, answer, loaded
from typer.testing import CliRunner

from aws.dynamo import dynamodb, dynamodb_server, dynamodb_table  # noqa: F401
from aws.worlds import SCHEMA, BucketWorld
from dmscdc.cli.main import app
from dmscdc.errors import CommitConflict, UnsupportedStore
from dmscdc.lake.parquet.transaction_log import recover
from dmscdc.landing.files import TableRef
from dmscdc.state.dynamodb import DynamoState
from dmscdc.state.sqlite import SqliteState
from dmscdc.storage.filesystem import client
from dmscdc.storage.log_store import BucketLogStore, decided_by, is_lost
from tiers import sampled

pytestmark = pytest.mark.proof

T = TableRef.parse("shop.item")
WAYS = ["overlooks", "refuses"]


@pytest.fixture(params=["sqlite"])
def state(request, aws, tmp_path):
    if request.param == "sqlite":
        return SqliteState(tmp_path / "state.db")
    return DynamoState(request.getfixturevalue("dynamodb_table"))


@pytest.fixture
def wire(state):
    "A store that overlooks `If-None-Match`, or says that it knows none; `wire.fault` comes before that."
    wire = Wire()
    wire.way = "overlooks"

    def without(request, event_name, **_):
        if "If-None-Match" not in request.headers:
            return None
        if wire.way == "refuses":
            return answer(501, "NotImplemented")(request)
        del request.headers["If-None-Match"]
        return URLLib3Session().send(request)

    client("s3").meta.events.register_last("before-send.s3.PutObject", without)
    return wire


@pytest.fixture
def decide(state):
    return partial(state.decide, T)


BOTH = pytest.mark.parametrize("state", ["sqlite", "dynamodb"], indirect=True)


@pytest.mark.parametrize(
    "state, way", sampled([(state, way) for state in ("sqlite", "dynamodb") for way in WAYS], ("dynamodb", "overlooks")), indirect=["state"]
)
def test_of_sixteen_writers_one_wins_each_commit(bucket, wire, way, decide):
    lake, wire.way = Lake(bucket), way
    for head in range(3):
        gate, before = Barrier(16), lake.transaction_log.head()

        def race(i: int):
            gate.wait()
            with decided_by(decide):
                try:
                    return lake.step(before, f"{head}{i:x}", {f"new{head}": f"w{i}"}).attempt
                except CommitConflict as error:
                    return error

        with ThreadPoolExecutor(16) as pool:
            said = list(pool.map(race, range(16)))
        winners = [one for one in said if isinstance(one, str)]
        assert len(winners) == 1 and lake.transaction_log.numbers() == list(range(1, head + 2)) and lake.transaction_log.head().attempt == winners[0]
        recover(lake.transaction_log, lake.transaction_log.head())
    assert lake.folder() == lake.listed() and lake.store.list(lake.transaction_log.staging_folder) == []


@pytest.mark.parametrize("kind", sampled(KINDS, "incremental"))
def test_a_writer_killed_at_any_request_is_healed_and_one_that_was_chosen_is_committed(bucket, wire, decide, kind, monkeypatch):
    monkeypatch.setattr(BucketLogStore, "parallel_requests", 1)
    adds, removes, after = KINDS[kind]
    point, done, fulfilled = 0, False, 0
    while not done:
        with decided_by(decide):
            lake, point = loaded(Lake(bucket, f"lake{point}")), point + 1
        wire.asked.clear()

        def fault(number, operation, request, last=point):
            if number == last:
                raise Killed

        wire.fault = fault
        with decided_by(decide):
            try:
                done = bool(lake.write("b2", adds, removes, "changes"))
            except Killed:
                pass
            wire.fault = lambda *_: None
            try:
                lake.write("c3", {})
            except CommitConflict:
                fulfilled += 1  # it found that b2 had been chosen, and made its entry
            recover(lake.transaction_log, lake.transaction_log.head())
        made = "b2" in [lake.transaction_log.entry(n).attempt for n in lake.transaction_log.numbers()]
        assert made or not done
        lake.is_right(after if made else "a b c d e")
    assert point > 10 and fulfilled == 1, "there is one request between the choice and its entry"


def test_whoever_sleeps_after_being_chosen_changes_nothing_when_he_wakes(bucket, wire, decide):
    with decided_by(decide):
        lake, slept = loaded(Lake(bucket)), []

        def others(number, operation, request):
            if operation == "CopyObject" and "/journal/" in request.url and not slept:
                slept.append(number)
                with pytest.raises(CommitConflict):
                    lake.write("c3", {"new": "x"})
                lake.write("d4", {"newer": "y"}, ("two",))

        wire.fault = others
        assert lake.write("b2", {"four": "A b"}, ("one",)).attempt == "b2"
        wire.fault = lambda *_: None
        assert slept and [lake.transaction_log.entry(n).attempt for n in lake.transaction_log.numbers()] == ["a1", "b2", "d4"]
        lake.write("e5", {})
        lake.is_right("A b d e y")


def test_without_the_state_nobody_writes_into_such_a_lake(bucket, wire, decide):
    with decided_by(decide):
        lake = loaded(Lake(bucket))
    for way in (*WAYS, ""):  # also when the store has learned it meanwhile
        wire.way = way
        with pytest.raises(UnsupportedStore, match="the state of dmscdc decides the entries of this transaction log"):
            lake.write("b2", {"four": "x"})
    assert lake.transaction_log.numbers() == [1]


@BOTH
@pytest.mark.parametrize("gone", ["all", "the last"])
def test_a_lake_that_was_emptied_or_taken_back_is_said_and_the_state_can_forget_what_is_nowhere(bucket, wire, state, decide, gone):
    with decided_by(decide):
        lake = loaded(Lake(bucket))
        lake.write("b2", {"four": "A b"})
        recover(lake.transaction_log, lake.transaction_log.head())
        for key in lake.all_keys():
            if gone == "all" or "000000000002" in key:
                client("s3").delete_object(Bucket=bucket, Key=key)
        write = lambda: lake.write("c3", {"new": "x"})  # noqa: E731
        with pytest.raises(UnsupportedStore, match="was the lake emptied, or taken back.* dmscdc table rebuild"):
            write()
        ((number, draft),) = state.decided(T)
        assert number == 2 and is_lost(number, draft)
        state.forget(T, "another draft")
        assert state.decided(T) == [(number, draft)]
        state.forget(T, draft)
        assert state.decided(T) == [] and write().attempt == "c3"


def test_what_was_chosen_is_not_lost_as_long_as_its_draft_is_there(bucket, wire, state, decide):
    with decided_by(decide):
        lake = loaded(Lake(bucket))

        def die(number, operation, request):
            if operation == "CopyObject" and "/journal/" in request.url:
                raise Killed

        wire.fault = die
        with pytest.raises(Killed):
            lake.write("b2", {"four": "A b"}, ("one",))
        wire.fault = lambda *_: None
        ((number, draft),) = state.decided(T)
        assert number == 2 and lake.transaction_log.numbers() == [1] and not is_lost(number, draft)
        with pytest.raises(CommitConflict):
            lake.write("c3", {})
        assert lake.transaction_log.head().attempt == "b2" and not is_lost(number, draft)


def test_a_table_lives_in_such_a_store(spark, bucket, wire, tmp_path):
    w = BucketWorld(tmp_path, spark, SCHEMA, lake_url=f"s3://{bucket}/lake").set(key="id")
    w.load([(i, f"name {i}", "a") for i in range(1, 5)])
    assert w.go().verdict == "ok" and w.equals_the_replay()
    w.changes(1, [("U", 1, "uno", "a"), ("D", 2, None, None), ("I", 30, "thirty", "c")])
    assert w.go().verdict == "ok" and w.equals_the_replay() and w.idle().verdict == "nothing"


def test_rebuild_forgets_what_is_nowhere_and_the_next_pass_loads_anew(spark, bucket, wire, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    w = BucketWorld(tmp_path, spark, SCHEMA, lake_url=f"s3://{bucket}/lake").set(key="id")
    w.load([(1, "one", "a")])
    assert w.go().verdict == "ok"
    for one in client("s3").list_objects_v2(Bucket=bucket)["Contents"]:
        client("s3").delete_object(Bucket=bucket, Key=one["Key"])
    done = w.go()
    assert done.verdict == "attention" and "holds no commit of ours" in done.words and not w.files(), done.words
    w.state.instruct(w.ref, {"kind": "reload"})
    done = w.go()
    assert done.verdict == "failed" and "dmscdc table rebuild makes the state forget it" in done.words and not w.files(), done.words
    said = CliRunner().invoke(app, ["table", "rebuild", "--landing", str(w.landing), "--lake", w.lake_url, "--state", "sqlite:state.db"])
    assert said.exit_code == 3 and "shop.item: commit 1 was decided and does not exist" in said.output, said.output
    done = w.go()
    assert done.verdict == "ok" and w.lake("id, name, dept, _cdc_file") == [(1, "one", "a", "LOAD00000001.parquet#2")] and w.settled(), done.words
