"A run is killed just before any of its requests, or while its tasks write; the controller stops what is left, and the next pass heals."

from __future__ import annotations

import random

import pytest
from stories import SEED, STORIES, at_places, places

from house import House, every
from tiers import sampled

pytestmark = pytest.mark.proof

EACH = 2  # points of each story; CI takes the first


def killed(house: House, name: str, point: list, tasks: bool = False) -> None:
    "One run, killed at one point, and the next pass."
    case, kill = house.copy(name), {"do": "kill", "at": point[0]}
    print(name, point)
    going = house.start(case, watch={} if tasks else kill, tasks=kill if tasks else None)
    how = house.ask(wait=going.pid)
    house.over(going)
    assert how == "SIGKILL", f"it did not come to this point: {going.said()}"
    house.heal(case, house.calm[name])


@pytest.mark.parametrize("name", STORIES)
def test_whatever_changes_a_file_the_journal_or_the_state_is_a_point(house, name):
    points, tasks = house.count(name)
    seen = {what for _, what, _, _ in points}
    assert {"sqlite", "spark", "open", "opened", "os.link", "os.rename", "os.remove", "pyarrow.open_output_stream"} <= seen
    assert {what for _, what, _, _ in tasks} >= {"pyarrow.open_output_stream"}


@pytest.mark.parametrize("place", sampled(range(EACH), 0))
@pytest.mark.parametrize("name", STORIES)
def test_a_run_killed_anywhere_is_healed_by_the_next_pass(house, tried, name, place):
    (point,) = at_places(house.count(name)[0], places(name, EACH)[place : place + 1])
    killed(house, name, point)
    tried("runs killed before a request of theirs")


@pytest.mark.parametrize("name", sampled(STORIES, "initial load", "incremental load", "partitioned"))
def test_a_run_killed_while_its_tasks_write_is_healed_by_the_next_pass(house, tried, name):
    (point,) = at_places(house.count(name)[1], places(f"{name}, tasks", 1))
    killed(house, name, point, tasks=True)
    tried("runs killed before a request of their tasks")


@pytest.mark.torture
@pytest.mark.parametrize("tasks", [False, True], ids=["own", "tasks"])
@pytest.mark.parametrize("name", STORIES)
def test_a_run_killed_at_every_point_is_healed_by_the_next_pass(house, tried, name, tasks):
    def one(point):
        tried("runs killed before a request of their tasks" if tasks else "runs killed before a request of theirs")
        killed(house, name, point, tasks)

    every(house.count(name)[tasks], one)


@pytest.mark.torture
@pytest.mark.parametrize("name", ["incremental load", "partitioned", "reload", "recovery"])
def test_passes_that_are_killed_one_after_the_other_are_healed_in_the_end(house, tried, name):
    chance, (points, _) = random.Random(f"{SEED} {name}, again"), house.count(name)

    def one(ats):
        case = house.copy(name)
        for at in ats:
            going = house.start(case, watch={"do": "kill", "at": at})
            assert house.ask(wait=going.pid) in ("SIGKILL", "done")  # a later one may have less to do
            house.over(going)
            tried("runs killed after others were killed")
        house.heal(case, house.calm[name])

    every(([chance.randint(len(points) // 4, len(points)) for _ in range(4)] for _ in range(15)), one)
