"The Spark server is killed under a run, between its requests or by one of its tasks; with a new server the next pass heals."

from __future__ import annotations

import os
import signal

import pytest
from stories import STORIES, at_places, places
from warm import a_server

from house import House, every, wake

pytestmark = pytest.mark.proof

EACH = int(os.environ.get("SERVERS") or 5)  # servers that `make torture` kills in each story, and as many by its tasks; 1000 for all points


def bereft(house: House, name: str, folder, point: list, tasks: bool = False) -> None:
    "A run whose server dies at a point, and the next pass on the warm one."
    print(name, point)
    house.count(name)
    case = house.copy(name)
    with a_server(folder, house.folder / "control.json") as server:
        if tasks:
            going = house.start(case, watch={}, tasks={"do": "kill", "at": point[0], "pid": server.pid}, server=server)
        else:
            going = house.start(case, watch={"do": "stop", "at": point[0]}, server=server)
            assert house.ask(wait=going.pid) == "stopped"
            os.kill(server.pid, signal.SIGKILL)
            wake(going)
        assert house.ask(wait=going.pid) == "done"
        assert server.process.wait(60) and "SIGKILL" in server.death()
    said, world = going.said(), case.world
    world.state.release(going.lease)
    assert said["words"] and (
        "raised" in said or said["verdict"] == "failed" or world.lake_table.transaction_log.numbers()[-1:] == [house.calm[name]["commit"]]
    ), said
    house.heal(case, house.calm[name])


def sleepable(house: House, name: str) -> list[list]:
    return [point for point in house.count(name)[0] if point[3]]


@pytest.mark.parametrize("name", ["incremental load"])
def test_a_run_whose_server_dies_between_its_requests_is_healed_by_the_next_pass(house, tried, tmp_path, name):
    (point,) = at_places(sleepable(house, name), places(f"{name}, server", 1))
    bereft(house, name, tmp_path, point)
    tried("servers killed")


@pytest.mark.parametrize("name", ["partitioned"])
def test_a_run_whose_server_dies_while_tasks_write_is_healed_by_the_next_pass(house, tried, tmp_path, name):
    (point,) = at_places(house.count(name)[1], places(f"{name}, server, tasks", 1))
    bereft(house, name, tmp_path, point, tasks=True)
    tried("servers killed")


@pytest.mark.torture
@pytest.mark.parametrize("tasks", [False, True], ids=["own", "tasks"])
@pytest.mark.parametrize("name", STORIES)
def test_runs_whose_servers_die_at_many_points_are_healed_by_the_next_pass(house, tried, tmp_path, name, tasks):
    points = house.count(name)[1] if tasks else sleepable(house, name)

    def one(point):
        tried("servers killed")
        folder = tmp_path / str(point[0])
        folder.mkdir()
        bereft(house, name, folder, point, tasks)

    every(at_places(points, places(f"{name}, servers", min(EACH, len(points)))), one)
