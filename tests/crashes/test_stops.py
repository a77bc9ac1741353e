"A run sleeps past its lease at any of its requests while others finish: when it wakes up, it changes nothing."

from __future__ import annotations

import random
import time

import pytest
from stories import SEED, STORIES, at_places, extra, places
from whole import committed, placed

from house import Going, House, every, wake
from tiers import sampled

pytestmark = pytest.mark.proof

FUTURE = 10_000.0  # seconds from now a lease of today has run out
DAILY = ["incremental load", "partitioned", "reload", "recovery"]


def sleepable(house: House, name: str) -> list[list]:
    "Points outside of SQLite's transactions: who sleeps inside one keeps everybody away from the state."
    return [point for point in house.count(name)[0] if point[3]]


def asleep(house: House, name: str, at: int, now: float | None = None, case=None) -> Going:
    going = house.start(case or house.copy(name), watch={"do": "stop", "at": at}, now=now)
    assert house.ask(wait=going.pid) == "stopped"
    return going


def own(going: Going) -> int:
    "How many commits a run has made."
    journal = going.case.world.lake_table.transaction_log
    return [journal.entry(n).facts["run"] for n in journal.numbers()].count(going.session[:8])


def overslept(house: House, name: str, point: list) -> None:
    "Others do all that is to be done, and more that comes meanwhile; then the sleeper wakes up."
    print(name, point)
    ready = len(house.copy(name).world.lake_table.transaction_log.numbers())
    going = asleep(house, name, point[0])
    case, world = going.case, going.case.world
    had_all = own(going) == house.calm[name]["commit"] - ready
    assert house.go(case, now=time.time() + FUTURE)["verdict"] in ("ok", "nothing")
    extra(world)
    assert house.go(case)["verdict"] == "ok"
    seen = committed(world)
    wake(going)
    assert house.ask(wait=going.pid) == "done"
    said = going.said()
    assert committed(world) == seen
    assert said["words"] and (said.get("verdict") != "ok" or had_all), said
    house.over(going)
    house.heal(case, {"commit": house.calm[name]["commit"] + 1, "position": placed(world)})


def crossed(house: House, name: str, first: list, second: list) -> None:
    "One run sleeps, another begins and sleeps; the first wakes up and ends while the second is in the middle of its work."
    print(name, first, second)
    one = asleep(house, name, first[0])
    two = house.start(one.case, watch={"do": "stop", "at": second[0]}, now=time.time() + FUTURE)
    if house.ask(wait=two.pid) == "stopped":
        wake(one)
        assert house.ask(wait=one.pid) == "done"
        wake(two)
        assert house.ask(wait=two.pid) == "done"
    else:  # the first had left less to do
        wake(one)
        assert house.ask(wait=one.pid) == "done"
    for going in (one, two):
        house.over(going)
    assert all(going.said()["words"] for going in (one, two))
    house.heal(one.case, house.calm[name], passes=2)


@pytest.mark.parametrize("place", sampled(range(2), 0))
@pytest.mark.parametrize("name", sampled(DAILY, "incremental load", "recovery"))
def test_a_run_that_slept_past_its_lease_changes_nothing_when_it_wakes(house, tried, name, place):
    (point,) = at_places(sleepable(house, name), places(f"{name}, asleep", 2)[place : place + 1])
    overslept(house, name, point)
    tried("runs that slept past their lease")


@pytest.mark.parametrize("name", ["incremental load"])
def test_a_run_that_slept_before_its_commit_finds_the_number_taken(house, tried, name):
    points = sleepable(house, name)
    written = max(number for number, what, _, _ in points if what == "spark")
    point = next(point for point in points if point[0] > written and point[1] == "os.link")
    overslept(house, name, point)
    tried("runs that slept past their lease")


@pytest.mark.parametrize("name", sampled(DAILY, "partitioned"))
def test_a_sleeper_that_wakes_in_the_middle_of_another_run_harms_nobody(house, tried, name):
    points = sleepable(house, name)
    crossed(house, name, *at_places(points, places(f"{name}, crossed", 2)))
    tried("runs that woke up in the middle of another")


@pytest.mark.torture
@pytest.mark.parametrize("name", [name for name in STORIES if name != "inserts only"])
def test_a_run_that_sleeps_at_any_point_changes_nothing_when_it_wakes(house, tried, name):
    def one(point):
        tried("runs that slept past their lease")
        overslept(house, name, point)

    every(sleepable(house, name), one)


@pytest.mark.torture
@pytest.mark.parametrize("name", STORIES)
def test_sleepers_that_wake_anywhere_in_another_run_harm_nobody(house, tried, name):
    chance, points = random.Random(f"{SEED} {name}, crossed"), sleepable(house, name)

    def one(pair):
        tried("runs that woke up in the middle of another")
        crossed(house, name, *pair)

    every([chance.choices(points, k=2) for _ in range(30)], one)
