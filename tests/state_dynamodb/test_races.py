"Leases and positions when many want them, when a process sleeps, and when DynamoDB or the network is not at its best."

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing import get_context
from queue import SimpleQueue
from threading import Barrier

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError
from botocore.httpsession import URLLib3Session

from dmscdc.errors import BadSetting, LeaseLost, StaleState
from dmscdc.landing.files import TableRef
from dmscdc.service.workers import LeaseHeartbeat
from dmscdc.state.items import Lease
from dmscdc.state.position import Position
from dmscdc.state.registry import open_state
from dmscdc.storage.filesystem import client

pytestmark = pytest.mark.proof

PRODUCT = TableRef("sampledb", "product")
TABLES = [TableRef("sampledb", f"t{n:03}") for n in range(100)]
HERE, THERE = (Position(last=f"20181215-10000{n}000.parquet") for n in (1, 2))
SPAWN = get_context("spawn")


@pytest.fixture
def url(dynamodb_table):
    return f"dynamodb:{dynamodb_table}"


@pytest.fixture
def state(url):
    state = open_state(url, "s3://shop-raw")
    state.put_settings(PRODUCT, key=["id"])
    return state


# Races


def test_of_sixteen_threads_one_wins_each_of_200_leases_also_one_that_has_run_out(url):
    gate, far = Barrier(16), 60.0 + open_state(url).allowance

    def takes(number):  # the lease of the round before has just run out
        state, won = open_state(url, "s3://shop-raw"), []
        for n in range(200):
            gate.wait()
            won.append(state.acquire(PRODUCT, f"thread {number}", 60, now=n * far))
        return [lease.fence for lease in won if lease]

    with ThreadPoolExecutor(16) as pool:
        won = [fence for fences in pool.map(takes, range(16)) for fence in fences]
    assert sorted(won) == list(range(1, 201))


def take_all(url, gate, skew, won):
    "In a process whose clock is ahead: each lease when all processes want it; free, live and run out."
    state, taken = open_state(url, "s3://shop-raw"), []
    for now, tables in ((1000.0, TABLES), (1061.0, TABLES[:10]), (1080.0, TABLES)):
        for table in tables:
            gate.wait()
            taken.append((now, table.name, state.acquire(table, f"process {os.getpid()}", 60, now=now + skew)))
    won.put([(now, name, lease.fence) for now, name, lease in taken if lease])


def test_of_four_processes_one_wins_each_of_200_leases_and_each_that_ran_out_is_taken_over_once(url):
    gate, won = SPAWN.Barrier(4), SPAWN.Queue()
    workers = [SPAWN.Process(target=take_all, args=(url, gate, skew, won)) for skew in (0.0, 0.5, 1.0, 5.0)]
    for worker in workers:
        worker.start()
    taken = sorted(one for _ in workers for one in won.get(timeout=300))
    for worker in workers:
        worker.join(30)
    free, over = ([(now, table.name, fence) for table in TABLES] for now, fence in ((1000.0, 1), (1080.0, 2)))
    assert taken == free + over  # and none at 1061: the fastest clock is 6 s past the expiry, within the allowance


# A process that sleeps


def works(url, pipe):
    "In a process: takes the lease, sleeps whenever it is stopped, and then tries to go on."
    state, said = open_state(url, "s3://shop-raw"), []
    lease = state.acquire(PRODUCT, "sleeper", 60, now=1000.0)
    pipe.send(lease.fence)
    pipe.recv()
    for attempt in (
        lambda: state.renew(lease, 60, now=1100.0),
        lambda: state.save_position(PRODUCT, HERE, commit=1, expected_commit=0, lease=lease),
        lambda: state.save_position(PRODUCT, HERE, commit=1, expected_commit=0),
        lambda: state.release(lease),
    ):
        try:
            said.append(attempt())
        except (LeaseLost, StaleState) as error:
            said.append(f"{type(error).__name__}: {error}")
    pipe.send(said)


@pytest.mark.parametrize("committed", [True, False])
def test_a_run_stopped_past_its_lease_cannot_move_the_position_when_it_wakes(url, state, committed):
    ours, its = SPAWN.Pipe()
    sleeper = SPAWN.Process(target=works, args=(url, its))
    sleeper.start()
    try:
        assert ours.poll(120) and ours.recv() == 1
        os.kill(sleeper.pid, signal.SIGSTOP)
        assert os.waitpid(sleeper.pid, os.WUNTRACED)[1] & 0xFF == 0x7F  # it is stopped
        ours.send("go on")
        lease = state.acquire(PRODUCT, "next", 60, now=1060.0 + state.allowance)
        assert lease.fence == 2
        if committed:
            state.save_position(PRODUCT, THERE, commit=1, expected_commit=0, lease=lease)
        os.kill(sleeper.pid, signal.SIGCONT)
        assert ours.poll(120)
        renewed, saved, saved_without, released = ours.recv()
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
        sleeper.join(30)
    assert (
        renewed
        == saved
        == "LeaseLost: sleeper has lost its lease on sampledb.product (fence 1): it is held by next (fence 2); nothing more may be written"
    )
    assert released is False and state.holder(PRODUCT, now=1071.0) == lease
    if committed:
        assert saved_without.startswith("StaleState: sampledb.product stands at commit 1, not at 0")
        assert state.get(PRODUCT).position == THERE


def test_a_position_is_saved_under_a_lease_that_holds(state):
    lease = state.acquire(PRODUCT, "a", 60, now=1000.0)
    state.renew(lease, 60, now=1050.0)
    state.save_position(PRODUCT, HERE, commit=1, expected_commit=0, lease=lease)
    state.release(lease)
    with pytest.raises(LeaseLost, match="given back"):
        state.save_position(PRODUCT, THERE, commit=2, expected_commit=1, lease=lease)
    assert state.get(PRODUCT).position == HERE


def test_a_lease_lost_between_reading_and_writing_stops_the_write(state):
    lease = state.acquire(PRODUCT, "a", 60, now=1000.0)

    def meanwhile(item):
        state.acquire(PRODUCT, "b", 60, now=2000.0)
        return replace(item, position=HERE, commit=1)

    with pytest.raises(LeaseLost, match="held by b"):
        state.change(PRODUCT, meanwhile, lease=lease)
    assert state.get(PRODUCT).commit == 0


def test_what_others_say_between_reading_and_writing_is_kept(state, url):
    others = [{"last_verdict": "ok"}, {"lag": 61.5}]

    def meanwhile(item):
        if others:
            open_state(url, "s3://shop-raw").note_run(PRODUCT, others.pop())
        return replace(item, status={**item.status, "last_run": "r1"})

    assert state.change(PRODUCT, meanwhile) == state.get(PRODUCT)
    assert state.get(PRODUCT).status == {"last_verdict": "ok", "lag": 61.5, "last_run": "r1"}


def test_settings_and_leases_do_not_get_into_each_others_way(state):
    lease = state.acquire(PRODUCT, "a", 60, now=1000.0)

    def meanwhile(item):
        state.renew(lease, 60, now=1010.0)
        meanwhile.calls += 1
        return replace(item, delete="soft")

    meanwhile.calls = 0
    assert state.change(PRODUCT, meanwhile).delete == "soft" and meanwhile.calls == 1
    assert state.holder(PRODUCT, now=1010.0) == replace(lease, expiry=1070.0)


# Throttled, and answers that get lost


@pytest.fixture
def wire(dynamodb):
    "Puts a handler before every request that is sent; it may answer in DynamoDB's place."
    events, handlers = client("dynamodb").meta.events, []

    def on(handler):
        handlers.append(handler)
        events.register("before-send.dynamodb.*", handler)

    yield on
    for handler in handlers:
        events.unregister("before-send.dynamodb.*", handler)


class Body:
    def __init__(self, content):
        self.content = content

    def stream(self, **_):
        yield self.content


def refusal(request, code, status=400):
    "What DynamoDB answers when it does not do what it was asked."
    error = f'{{"__type": "com.amazonaws.dynamodb.v20120810#{code}", "message": "too much"}}'.encode()
    return AWSResponse(request.url, status, {"content-type": "application/x-amz-json-1.0"}, Body(error))


def throttle(times):
    "An answer for the first requests: too much."

    def answer(request, **_):
        answer.sent += 1
        return None if answer.sent > times else refusal(request, "ProvisionedThroughputExceededException")

    answer.sent = 0
    return answer


def test_throttled_requests_are_sent_again(state, wire):
    wire(handler := throttle(2))
    lease = state.acquire(PRODUCT, "a", 60, now=1000.0)
    assert lease.fence == 1 and handler.sent == 3


def test_each_request_of_a_change_may_be_throttled(state, wire):
    requests = []

    def second_too(request, **_):
        requests.append(request)
        return throttle(1)(request) if len(requests) in (1, 3) else None

    wire(second_too)
    state.save_position(PRODUCT, HERE, commit=1, expected_commit=0)
    assert len(requests) == 4 and state.get(PRODUCT).position == HERE


def test_throttling_that_does_not_end_says_what_does(state, wire, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)  # not for hours
    wire(handler := throttle(1000))
    with pytest.raises(BadSetting, match="all attempts were throttled: aws dynamodb update-table --billing-mode PAY_PER_REQUEST"):
        state.get(PRODUCT)
    assert handler.sent == 8


def lose_first_answer(target):
    "DynamoDB does what it was asked; its answer to the first such request does not arrive."

    def handler(request, **_):
        if target in str(request.headers["X-Amz-Target"]) and not handler.lost:
            handler.lost = True
            assert URLLib3Session().send(request).status_code == 200
            raise ConnectionClosedError(endpoint_url=request.url)

    handler.lost = False
    return handler


@pytest.mark.parametrize("before", [0, 1])
def test_a_lease_whose_answer_was_lost_is_ours(state, wire, before):
    for n in range(before):
        state.release(state.acquire(PRODUCT, "a", 60, now=1000.0))
    wire(handler := lose_first_answer("UpdateItem"))
    assert state.acquire(PRODUCT, "a", 60, now=1000.0).fence == before + 1 and handler.lost
    assert state.acquire(PRODUCT, "a", 60, now=1000.0) is None


def test_a_renewal_whose_answer_was_lost_holds(state, wire):
    lease = state.acquire(PRODUCT, "a", 60, now=1000.0)
    wire(handler := lose_first_answer("UpdateItem"))
    assert state.renew(lease, 60, now=1050.0).expiry == 1110.0 and handler.lost


def test_a_position_whose_answer_was_lost_is_saved_once(state, wire):
    done = state.instruct(PRODUCT, {"kind": "accept"}).instruction
    wire(handler := lose_first_answer("UpdateItem"))
    state.save_position(PRODUCT, HERE, commit=1, expected_commit=0, done=done)
    item = state.get(PRODUCT)
    assert handler.lost and (item.commit, item.position, item.instruction) == (1, HERE, None)


# The heartbeat of a lease


class Heard:
    "A state of which we hear what every renewal came to."

    def __init__(self, state):
        self.state, self.renewals = state, SimpleQueue()

    def __getattr__(self, name):
        return getattr(self.state, name)

    def renew(self, lease, seconds):
        try:
            said = self.state.renew(lease, seconds)
        except Exception as error:
            self.renewals.put(error)
            raise
        self.renewals.put(said)
        return said

    def until(self, kind):
        "The first renewal from now on that ended so; none for half a minute means that nobody renews any more."
        while not isinstance(said := self.renewals.get(timeout=30), kind):
            pass
        return said


@contextmanager
def without_leases(request) -> Iterator[None]:
    "SQLite does not find the table in which leases stand."
    with closing(sqlite3.connect(request.getfixturevalue("tmp_path") / "state.db", isolation_level=None)) as db:
        db.execute("alter table leases rename to elsewhere")
        yield
        db.execute("alter table elsewhere rename to leases")


@contextmanager
def answering(request, handler) -> Iterator[None]:
    "DynamoDB does not come to answer: what is said here goes back."
    at = [True]
    request.getfixturevalue("wire")(lambda request, **_: handler(request) if at else None)
    yield
    at.clear()


def no_answer(request):
    raise ConnectionClosedError(endpoint_url=request.url)


BROKEN = {  # how a store fails, and what the renewal ends with, or what that comes from
    "sqlite": (without_leases, sqlite3.OperationalError),
    "throttled": (lambda r: answering(r, lambda q: refusal(q, "ProvisionedThroughputExceededException")), ClientError),
    "denied": (lambda r: answering(r, lambda q: refusal(q, "AccessDeniedException")), ClientError),
    "out of order": (lambda r: answering(r, lambda q: refusal(q, "InternalServerError", 500)), ClientError),
    "no network": (lambda r: answering(r, no_answer), BotoCoreError),
}


@pytest.mark.parametrize("how", BROKEN)
def test_the_heartbeat_of_a_lease_outlives_the_errors_of_its_store(how, request, tmp_path, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.0)  # all attempts at once
    broken, kind = BROKEN[how]
    url = f"sqlite:{tmp_path}/state.db" if how == "sqlite" else request.getfixturevalue("url")
    state = Heard(open_state(url, "s3://shop-raw"))
    keeper = LeaseHeartbeat(state, seconds=0.2)
    try:
        with keeper.keep(PRODUCT, "a") as held:
            with broken(request):
                error = state.until(Exception)
                assert isinstance(error, kind) or isinstance(error.__cause__, kind)
                last = held.lease
            assert state.until(Lease).expiry > last.expiry
            assert not held.lost.is_set() and keeper.thread.is_alive()
        assert state.holder(PRODUCT) is None  # it was given back: the heartbeat had kept it
    finally:
        keeper.close()


def test_a_heartbeat_renews_a_lease_long_before_it_runs_out(tmp_path):
    state = Heard(open_state(f"sqlite:{tmp_path}/state.db", "s3://shop-raw"))
    keeper = LeaseHeartbeat(state, seconds=1.2)
    try:
        with keeper.keep(PRODUCT, "a") as held:
            ends = [held.lease.expiry, *(state.until(Lease).expiry for _ in range(3))]
            made = [old - (new - 1.2) for old, new in zip(ends, ends[1:])]  # what was left of each lease when it was renewed
    finally:
        keeper.close()
    assert min(made) > 0.3, f"a renewal came with {min(made):.1f} of 1.2 seconds left"


# The table


def test_a_missing_table_is_named_with_the_command_that_makes_it(dynamodb):
    with pytest.raises(
        BadSetting, match="dynamodb:Nowhere: there is no such table in this region. dmscdc table init --state dynamodb:Nowhere makes it"
    ):
        open_state("dynamodb:Nowhere").get(PRODUCT)


def test_a_table_is_made_on_request_and_then_left_as_it_is(dynamodb):
    state = open_state("dynamodb:Fresh.Table_1", create=True)
    state.put_settings(PRODUCT, key=["id"])
    assert open_state("dynamodb:Fresh.Table_1", create=True).get(PRODUCT).key == ("id",)
    table = client("dynamodb").describe_table(TableName="Fresh.Table_1")["Table"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["KeySchema"] == [{"AttributeName": "path", "KeyType": "HASH"}]
    client("dynamodb").delete_table(TableName="Fresh.Table_1")


def test_the_command_makes_the_table_and_says_what_it_knows(dynamodb, tmp_path):
    from typer.testing import CliRunner

    from dmscdc.cli.main import app as cli
    from dmscdc.cli.tables import tables  # here: the processes of this module begin without Spark

    flags = ["--folder", str(tmp_path), "--landing", "s3://shop-raw/dms", "--lake", "s3://shop-lake", "--state", "dynamodb:Shop-State"]

    def table(*words):
        done = CliRunner().invoke(tables, [*words, *flags])
        return done.exit_code, " ".join(done.output.split())

    code, words = table("list")
    assert (
        code == 2
        and "there is no such table in this region. dmscdc table init --state dynamodb:" in words
        and "makes it, with the same --folder" in words
    )
    told = CliRunner().invoke(cli, ["pass", *flags])
    assert told.exit_code == 2 and "dmscdc table init --state dynamodb:Shop-State makes it" in " ".join(told.output.split())
    assert table("init") == (0, "dynamodb:Shop-State is ready, with 0 tables")
    assert table("set", "sampledb.product", "--key", "id")[0] == 0
    assert table("init") == (0, "dynamodb:Shop-State is ready, with 1 table")
    assert client("dynamodb").scan(TableName="Shop-State")["Items"][0]["path"] == {"S": "shop-raw/dms/sampledb/product/"}
    client("dynamodb").delete_table(TableName="Shop-State")
