"Every state keeps these rules, wherever it stores its items. A new kind of state is one more line in FACTORIES."

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from threading import Barrier

import pytest

from dmscdc.errors import BadInstruction, BadSetting, LeaseLost, StaleState, StateUnusable, UnknownTable
from dmscdc.landing.files import RawFile, TableRef
from dmscdc.state.items import TableItem
from dmscdc.state.position import Position
from dmscdc.state.registry import open_state
from dmscdc.state.sqlite import one_action

pytestmark = pytest.mark.quick

FACTORIES = {
    "sqlite": lambda request, folder: f"sqlite:{folder / 'state.db'}",
    "dynamodb": lambda request, folder: f"dynamodb:{request.getfixturevalue('dynamodb_table')}",
}
PRODUCT, STORE = TableRef("sampledb", "product"), TableRef("sampledb", "store")
FIRST = Position(load=1, load_files=(RawFile("LOAD00000001.parquet", 2310, 1544778902.25),), listed_at=1544868240.5)
SECOND = replace(
    FIRST,
    last="20181215-100311204.parquet",
    window=(("20181215-100311204.parquet", 804),),
    window_start="20181214-100311204",
    cut="20181214-090000000.parquet",
    shrunk=True,
    held=(("20181213-100000000.parquet", 77),),
    left_out=(("20181213-110000000.parquet", 78),),
    applied=(3, 2**48 - 1),
)


@pytest.fixture(params=["sqlite", pytest.param("dynamodb", marks=pytest.mark.proof)])
def url(request, tmp_path):
    return FACTORIES[request.param](request, tmp_path)


@pytest.fixture
def state(url):
    return open_state(url)


@pytest.fixture
def keyed(state):
    "A state in which product may be loaded and stands at commit 1."
    state.put_settings(PRODUCT, key=["id"])
    state.save_position(PRODUCT, FIRST, commit=1, expected_commit=0)
    return state


# Settings


def test_a_new_state_knows_no_table(state):
    assert state.items() == [] and state.get(PRODUCT) is None


def test_a_table_that_was_only_seen_is_inactive(state):
    state.note_run(PRODUCT, {"seen_at": 5.0})
    assert state.items() == [TableItem(PRODUCT, status={"seen_at": 5.0})]
    assert not state.get(PRODUCT).is_ready


@pytest.mark.parametrize("setting", [{"key": ["id", "dept"]}, {"insert_only": True}])
def test_a_key_or_insert_only_makes_a_table_active(state, setting):
    assert state.put_settings(PRODUCT, **setting).is_ready
    assert state.get(PRODUCT).is_ready


def test_a_paused_table_stays_paused_when_its_key_changes(state):
    state.put_settings(PRODUCT, key=["id"])
    state.put_settings(PRODUCT, active=False)
    assert not state.put_settings(PRODUCT, key=["id", "dept"]).active


def test_every_setting_survives_another_opening(state, url):
    item = state.put_settings(
        PRODUCT,
        key=["id"],
        partition=["dept", "category"],
        delete="soft",
        format="parquet",
        out_path="/lake/p",
        active=False,
    )
    assert open_state(url).get(PRODUCT) == item == TableItem(PRODUCT, ("id",), ("dept", "category"), delete="soft", out_path="/lake/p")


def test_a_setting_of_one_table_leaves_the_others(keyed):
    before = keyed.get(PRODUCT)
    keyed.put_settings(STORE, insert_only=True)
    assert keyed.get(PRODUCT) == before
    assert [str(i.table) for i in keyed.items()] == ["sampledb.product", "sampledb.store"]


def test_a_refused_setting_changes_nothing(keyed):
    before = keyed.items()
    with pytest.raises(BadSetting, match="not 'gone'"):
        keyed.put_settings(PRODUCT, key=["name"], delete="gone")
    with pytest.raises(BadSetting, match="no setting colour"):
        keyed.put_settings(STORE, colour="red")
    assert keyed.items() == before


# Positions


def test_every_part_of_a_position_survives_another_opening(keyed, url):
    keyed.save_position(PRODUCT, SECOND, commit=2, expected_commit=1)
    assert (open_state(url).get(PRODUCT).position, keyed.get(PRODUCT).commit) == (SECOND, 2)


def test_a_position_moves_only_from_the_commit_it_was_planned_from(keyed):
    keyed.save_position(PRODUCT, SECOND, commit=2, expected_commit=1)
    before = keyed.get(PRODUCT)
    with pytest.raises(StaleState, match="sampledb.product stands at commit 2, not at 1"):
        keyed.save_position(PRODUCT, FIRST, commit=2, expected_commit=1)
    assert keyed.get(PRODUCT) == before


def test_saving_the_same_position_again_is_allowed(keyed):
    keyed.save_position(PRODUCT, SECOND, commit=2, expected_commit=1)
    keyed.save_position(PRODUCT, SECOND, commit=2, expected_commit=1)
    assert keyed.get(PRODUCT).commit == 2


def test_a_position_too_long_to_store_is_stored_with_its_newest_names(keyed):
    names = tuple((f"201812{15 + n // 86400}-{n % 86400 // 3600:02}{n % 3600 // 60:02}{n % 60:02}000.parquet", 4711) for n in range(20_000))
    keyed.save_position(PRODUCT, replace(SECOND, window=names, shrunk=False), commit=2, expected_commit=1)
    keyed.save_position(PRODUCT, replace(SECOND, window=names, shrunk=False), commit=2, expected_commit=1)
    kept = keyed.get(PRODUCT).position
    assert kept.shrunk and kept.window == names[-len(kept.window) :] and kept.window_start == kept.window[0][0]
    assert len(kept.window) > 3000


def test_of_sixteen_writers_from_one_commit_one_moves_the_position(keyed, url):
    def move(n):
        try:
            open_state(url).save_position(PRODUCT, replace(SECOND, listed_at=float(n)), commit=2, expected_commit=1)
            return n
        except StaleState:
            return None

    winners = [n for n in race(move) if n is not None]
    assert len(winners) == 1 and keyed.get(PRODUCT).position.listed_at == winners[0]


def test_a_table_nobody_knows_has_no_position_to_move(state):
    with pytest.raises(UnknownTable, match="dmscdc table set sampledb.product"):
        state.save_position(PRODUCT, FIRST, commit=1, expected_commit=0)
    assert state.items() == []


# Instructions, intents and last words


def test_an_instruction_is_bound_to_the_commit_at_which_it_was_given(keyed):
    assert keyed.instruct(PRODUCT, {"kind": "accept"}).instruction == {"kind": "accept", "commit": 1}


def test_the_commit_that_carried_an_instruction_out_consumes_it(keyed):
    done = keyed.instruct(PRODUCT, {"kind": "accept"}).instruction
    keyed.save_position(PRODUCT, SECOND, commit=2, expected_commit=1, done=done)
    assert keyed.get(PRODUCT).instruction is None


def test_an_instruction_given_during_a_run_is_not_lost_with_its_commit(keyed):
    given = keyed.instruct(PRODUCT, {"kind": "accept"}).instruction
    keyed.save_position(PRODUCT, SECOND, commit=2, expected_commit=1)
    assert keyed.get(PRODUCT).instruction == given


def test_a_refused_instruction_leaves_the_one_before(keyed):
    given = keyed.instruct(PRODUCT, {"kind": "rewind", "to": "20181215-100311204.parquet"}).instruction
    with pytest.raises(BadInstruction, match="rewind, replay, reload, accept"):
        keyed.instruct(PRODUCT, {"kind": "undo"})
    assert keyed.get(PRODUCT).instruction == given


def test_an_intent_is_kept_until_the_commit_is_saved(keyed):
    keyed.intent(PRODUCT, {"commit": 2, "run": "r1"})
    assert keyed.get(PRODUCT).intent == {"commit": 2, "run": "r1"}
    keyed.save_position(PRODUCT, SECOND, commit=2, expected_commit=1)
    assert keyed.get(PRODUCT).intent is None


def test_new_words_about_a_table_replace_those_of_the_same_kind_only(keyed):
    keyed.note_run(PRODUCT, {"last_verdict": "ok", "lag": 61.5})
    keyed.note_run(PRODUCT, {"last_verdict": "failed", "last_run": "r2"})
    assert keyed.get(PRODUCT).status == {"last_verdict": "failed", "lag": 61.5, "last_run": "r2"}


def test_a_proof_stays_with_its_table_until_the_lake_begins_again(keyed, url):
    equal = {"verdict": "ok", "commit": 1, "at": "2018-12-15T10:05:00+00:00", "position": "load 1"}
    keyed.note_run(PRODUCT, {"proof": {**equal, "equal": equal}})
    keyed.save_position(PRODUCT, SECOND, commit=2, expected_commit=1)
    assert open_state(url).get(PRODUCT).status["proof"]["equal"] == equal
    keyed.save_position(PRODUCT, FIRST, commit=1, expected_commit=2)  # as after a lake that was lost
    assert not open_state(url).get(PRODUCT).status["proof"]


def test_words_of_sixteen_runs_at_once_are_all_kept(state, url):
    tables = [TableRef("sampledb", f"t{n:02}") for n in range(16)]
    race(lambda n: open_state(url).note_run(tables[n], {"last_run": f"r{n}"}))
    assert [(i.table, i.status["last_run"]) for i in state.items()] == [(t, f"r{n}") for n, t in enumerate(tables)]


# Leases


def race(action, n=16) -> list:
    "The answers of n threads that start together."
    gate = Barrier(n)

    def run(number):
        gate.wait()
        return action(number)

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(run, range(n)))


def test_a_live_lease_of_another_is_not_given_away(state):
    assert state.acquire(PRODUCT, "a", 60, now=0.0).owner == "a"
    assert state.acquire(PRODUCT, "b", 60, now=59.9) is None
    assert state.holder(PRODUCT, now=59.9).owner == "a"


def test_a_lease_that_ran_out_passes_on(state):
    over = 60.0 + state.allowance
    state.acquire(PRODUCT, "a", 60, now=0.0)
    assert state.holder(PRODUCT, now=over - 0.1) and state.acquire(PRODUCT, "b", 60, now=over - 0.1) is None
    assert state.holder(PRODUCT, now=over) is None
    assert state.acquire(PRODUCT, "b", 60, now=over).owner == "b"


def test_the_leases_that_hold_are_told_in_one_look(state):
    over = 60.0 + state.allowance
    for table in (PRODUCT, STORE):
        state.put_settings(table, key="id")
    assert state.holders(now=0.0) == []
    state.acquire(PRODUCT, "a", 60, now=0.0)
    given, kept = state.acquire(TableRef("sampledb", "other"), "c", 600, now=0.0), state.acquire(STORE, "b", 120, now=0.0)
    state.release(given)
    assert {lease.table: lease.owner for lease in state.holders(now=over - 0.1)} == {PRODUCT: "a", STORE: "b"}
    assert state.holders(now=over) == [kept] == [state.holder(STORE, now=over)]


def test_a_released_lease_is_free_at_once(state):
    lease = state.acquire(PRODUCT, "a", 60, now=0.0)
    assert state.release(lease)
    assert state.acquire(PRODUCT, "b", 60, now=1.0).owner == "b"


def test_an_owner_cannot_take_its_live_lease_a_second_time(state):
    state.acquire(PRODUCT, "a", 60, now=0.0)
    assert state.acquire(PRODUCT, "a", 60, now=1.0) is None


def test_leases_of_different_tables_do_not_meet(state):
    assert state.acquire(PRODUCT, "a", 60, now=0.0) and state.acquire(STORE, "b", 60, now=0.0)


def test_the_fence_rises_with_every_acquisition(state, url):
    fences = []
    for n in range(3):
        lease = state.acquire(PRODUCT, "a", 60, now=n * 1000.0)
        fences.append(lease.fence)
        state.renew(lease, 60, now=n * 1000.0 + 30)
        if n == 0:
            state.release(lease)
    fences.append(open_state(url).acquire(PRODUCT, "b", 60, now=9000.0).fence)
    assert fences == [1, 2, 3, 4]


def test_renewing_moves_the_expiry_and_keeps_the_fence(state):
    lease = state.acquire(PRODUCT, "a", 60, now=0.0)
    assert state.renew(lease, 60, now=50.0) == replace(lease, expiry=110.0)
    assert state.acquire(PRODUCT, "b", 60, now=100.0) is None


def test_renewing_never_shortens_a_lease(state):
    lease = state.acquire(PRODUCT, "a", 600, now=0.0)
    assert state.renew(lease, 60, now=1.0).expiry == 600.0


def test_a_lease_taken_by_another_is_lost_to_its_old_owner(state):
    old = state.acquire(PRODUCT, "a", 60, now=0.0)
    new = state.acquire(PRODUCT, "b", 60, now=60.0 + state.allowance)
    with pytest.raises(LeaseLost, match="a has lost its lease on sampledb.product .fence 1.: it is held by b .fence 2."):
        state.renew(old, 60, now=61.0)
    assert not state.release(old)
    assert state.holder(PRODUCT, now=61.0) == new


def test_the_same_owner_is_fenced_out_by_its_own_later_lease(state):
    old = state.acquire(PRODUCT, "a", 60, now=0.0)
    new = state.acquire(PRODUCT, "a", 60, now=60.0 + state.allowance)
    with pytest.raises(LeaseLost):
        state.renew(old, 60, now=61.0)
    assert not state.release(old)
    assert state.holder(PRODUCT, now=61.0) == new


def test_a_released_lease_cannot_be_renewed(state):
    lease = state.acquire(PRODUCT, "a", 60, now=0.0)
    state.release(lease)
    with pytest.raises(LeaseLost, match="given back"):
        state.renew(lease, 60, now=1.0)
    assert state.holder(PRODUCT, now=1.0) is None


def test_sixteen_threads_give_one_winner_for_a_free_and_for_an_old_lease(state, url):
    for n in range(10):  # the lease of the round before has just run out
        leases = race(lambda t: open_state(url).acquire(PRODUCT, f"t{t}", 60, now=n * (60.0 + state.allowance)))
        assert [lease.fence for lease in leases if lease] == [n + 1]


def count_up(url: str, counter: str, owner: str) -> int:
    "Twenty times: take the lease, add one to a number in a file, give it back. Returns the refusals."
    state, done, refused = open_state(url), 0, 0
    while done < 20:
        if lease := state.acquire(PRODUCT, owner, 600):
            with open(counter) as file:
                number = int(file.read())
            with open(counter, "w") as file:
                file.write(str(number + 1))
            assert state.release(lease)
            done += 1
        else:
            refused += 1
    return refused


def test_processes_that_share_a_lease_never_work_at_the_same_time(url, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ProcessPoolExecutor(6, mp_context=get_context("spawn")) as pool:  # the file does not exist yet: six make it at once
        list(pool.map(count_up, [url] * 6, [str(counter)] * 6, [f"p{n}" for n in range(6)]))
    assert counter.read_text() == "120"
    assert open_state(url).acquire(PRODUCT, "last", 60).fence == 121


# Of SQLite alone


def test_readers_are_not_held_up_by_a_writer(tmp_path):
    state = open_state(f"sqlite:{tmp_path}/state.db")
    state.put_settings(PRODUCT, key=["id"])
    with one_action(state.path) as db:
        db.execute("update DMSCDC_Controller set PrimaryKey = 'name'")
        assert state.get(PRODUCT).key == ("id",)
    assert state.get(PRODUCT).key == ("name",)


@pytest.mark.parametrize(
    "change, instruction",
    [
        ("LastFullLoadDate = '1900-01-01 00:00:00'", {"kind": "reload", "changes": "keep", "commit": 2}),
        (
            "LastIncrementalFile = 'sampledb/product/20181214-235959000.parquet'",
            {"kind": "rewind", "after": "20181214-235959000.parquet", "commit": 2},
        ),
        ("LastIncrementalFile = 'sampledb/product/0.parquet'", {"kind": "rewind", "after": "0.parquet", "commit": 2}),
        ("LastFullLoadDate = '2030-01-01 00:00:00'", None),
    ],
)
def test_progress_changed_by_hand_is_an_instruction(tmp_path, change, instruction):
    state = open_state(f"sqlite:{tmp_path}/state.db")
    state.put_settings(PRODUCT, key=["id"])
    state.save_position(PRODUCT, SECOND, commit=2, expected_commit=0)
    assert state.get(PRODUCT).instruction is None
    with one_action(state.path) as db:
        db.execute(f"update DMSCDC_Controller set {change}")
    assert (state.get(PRODUCT).instruction, state.get(PRODUCT).position) == (instruction, SECOND)


def test_settings_changed_by_hand_are_settings(tmp_path):
    state = open_state(f"sqlite:{tmp_path}/state.db")
    state.note_run(PRODUCT, {"seen_at": 1.0})
    with one_action(state.path) as db:
        db.execute("update DMSCDC_Controller set PrimaryKey = 'id, dept', PartitionKey = 'dept', ActiveFlag = 'true'")
    item = state.get(PRODUCT)
    assert (item.key, item.partition, item.is_ready) == (("id", "dept"), ("dept",), True)


@pytest.mark.parametrize("setting", [{"key": "id,id"}, {"key": ["id", "dept", "id"]}, {"partition": "id, id"}])
def test_a_column_named_twice_is_refused(keyed, setting):
    before = keyed.items()
    with pytest.raises(BadSetting, match=f"sampledb.product: the {next(iter(setting))} names id twice"):
        keyed.put_settings(PRODUCT, **setting)
    assert keyed.items() == before


def test_a_table_that_was_removed_is_unknown_and_its_fence_goes_on(keyed):
    keyed.put_settings(STORE, key="id")
    keyed.release(keyed.acquire(PRODUCT, "a", 60))
    assert keyed.remove(PRODUCT) and not keyed.remove(PRODUCT)
    assert keyed.get(PRODUCT) is None and [item.table for item in keyed.items()] == [STORE]
    assert keyed.acquire(PRODUCT, "b", 60).fence == 2
    assert keyed.put_settings(PRODUCT, key="id").commit == 0


@pytest.mark.parametrize("content", [b"garbage " * 1000, b"SQLite format 3\x00" + b"\x01" * 4000])
def test_a_file_that_is_no_state_is_said_with_what_helps(tmp_path, content):
    (tmp_path / "state.db").write_bytes(content)
    with pytest.raises(StateUnusable, match=f"the state sqlite:{tmp_path}/state.db is damaged.*dmscdc table rebuild"):
        open_state(f"sqlite:{tmp_path}/state.db").items()


def test_a_state_that_was_cut_is_said(tmp_path):
    state = open_state(f"sqlite:{tmp_path}/state.db")
    for number in range(300):
        state.put_settings(TableRef("shop", f"t{number}"), key="id")
    with one_action(state.path) as db:
        db.execute("select 1")
    path = tmp_path / "state.db"
    path.write_bytes(path.read_bytes()[:9000])
    for ending in ("-wal", "-shm"):
        (tmp_path / f"state.db{ending}").unlink(missing_ok=True)
    with pytest.raises(StateUnusable, match="state.db is damaged"):
        open_state(f"sqlite:{path}").items()


def test_a_folder_is_no_state(tmp_path):
    with pytest.raises(StateUnusable, match=f"is a folder; name a file in it: --state sqlite:{tmp_path}/state.db"):
        open_state(f"sqlite:{tmp_path}")


@pytest.mark.parametrize(
    "damage",
    [
        "position = 'no json'",
        "position = '{\"load_files\": 7}'",
        "status = ''",
        "commit_number = null, position = '['",
        "ActiveFlag = 'yes'",
        "folder = null",
    ],
)
def test_an_item_that_is_damaged_hides_no_other_and_can_be_removed(tmp_path, damage):
    state = open_state(f"sqlite:{tmp_path}/state.db")
    for table in (PRODUCT, STORE):
        state.put_settings(table, key="id")
    with one_action(state.path) as db:
        db.execute(f"update DMSCDC_Controller set {damage} where path like '%product%'")
    items = state.items()
    assert [(item.table, bool(item.damaged)) for item in items] == [(PRODUCT, True), (STORE, False)]
    words = f"sampledb.product: what the state sqlite:{tmp_path}/state.db has of it is damaged"
    assert items[0].damaged.startswith(words) and "`dmscdc table forget sampledb.product`" in items[0].damaged
    for act in (lambda: state.get(PRODUCT), lambda: state.put_settings(PRODUCT, active=False), lambda: state.note_run(PRODUCT, {"lag": 1})):
        with pytest.raises(StateUnusable, match="sampledb.product: what the state"):
            act()
    assert state.remove(PRODUCT) and state.get(PRODUCT) is None
