"A pass with real notebooks: its controller is killed at one of its requests, or the kernel is; the next pass heals table, runs and run log."

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from stories import at_places, places
from whole import whole

from house import Case, House, every
from tiers import sampled

pytestmark = pytest.mark.proof

NAME = "incremental load"


def a_pass(house: House, case: Case, **how) -> dict:
    "A whole pass that nobody kills, and what its tables came to."
    going = house.begin_pass(case, **how)
    assert house.ask(wait=going.pid) == "done"
    return going.said()


@pytest.fixture(scope="module")
def counted(house):
    "Points of the controller and of its kernel, in a pass that is left in peace."
    house.count(NAME)
    case = house.copy(NAME)
    said = a_pass(house, case, watch={}, kernel={})
    assert said["verdict"] == "ok", said
    kept(case)
    whole(case, house.calm[NAME])
    return {"controller": case.points(), "kernel": case.points("kernel")}


def alive(root: Path) -> list[int]:
    "Processes that a controller of this world has started: kernels, and what they have started."
    mark, found = f"DMSCDC_WORLD={root}\0".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found += [int(folder.name)] if mark in (folder / "environ").read_bytes() else []
        except OSError:
            pass  # it has gone meanwhile, or is not ours
    return found


def orphans_end(root: Path) -> None:
    "A kernel sees by itself that its controller is gone; one that does not is ended."
    end, pause = time.monotonic() + 30, threading.Event()
    while (left := alive(root)) and time.monotonic() < end:
        pause.wait(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)


def time_passes(case: Case) -> None:
    "The dead controller's lease has run out."
    state, ref = case.world.state, case.world.ref
    state.release(state.acquire(ref, "the clock", 0, time.time() + 10_000) or pytest.fail("the lease cannot be had"))


def kept(case: Case) -> list[dict]:
    "Every notebook has its page and its line in the run log, once; all can be read."
    runs = case.world.root / "runs"
    lines = [json.loads(line) for line in (runs / "ledger.jsonl").read_text().splitlines()]
    notebooks = sorted(path.relative_to(runs).as_posix() for path in runs.rglob("*.ipynb") if path.name[0] != ".")
    assert sorted(line["notebook"] for line in lines if line["notebook"]) == notebooks
    for name in notebooks:
        assert json.loads((runs / name).read_text())["metadata"]["dmscdc"]["verdict"]
        assert (runs / name).with_suffix(".html").read_text().rstrip().endswith("</html>")
    assert (runs / "index.html").read_text().rstrip().endswith("</html>")
    return lines


def controller_killed(house: House, counted: dict, point: list) -> bool:
    "The next pass comes at once and sees that the controller is gone, or after its lease has run out, as on another machine."
    print(point)
    case = house.copy(NAME)
    going = house.begin_pass(case, watch={"do": "kill", "at": point[0]}, kernel={})
    assert house.ask(wait=going.pid) == "SIGKILL", going.said()
    if point[0] % 2:
        orphans_end(case.world.root)
        time_passes(case)
    said = a_pass(house, case)
    assert said["verdict"] in ("ok", "nothing"), said
    assert alive(case.world.root) == []
    assert kept(case)[-1]["verdict"] == said["verdict"]
    assert case.world.state.holder(case.world.ref) is None
    house.heal(case, house.calm[NAME])
    return True


def kernel_killed(house: House, counted: dict, point: list) -> bool:
    "Whether the kernel came to this point: the last questions to the server are not always asked."
    print(point)
    case = house.copy(NAME)
    said = a_pass(house, case, watch={}, kernel={"do": "kill", "at": point[0]})
    if len(case.points("kernel")) < point[0]:
        return False
    table = said["tables"]["shop.item"]
    assert (said["verdict"], table["verdict"]) == ("failed", "failed") and "killed by SIGKILL" in table["words"]
    assert case.world.state.holder(case.world.ref) is None and alive(case.world.root) == []
    said = a_pass(house, case)
    assert said["verdict"] in ("ok", "nothing"), said
    assert [line["verdict"] for line in kept(case) if line["notebook"]] == ["failed"] + ["ok"] * (said["verdict"] == "ok")
    house.heal(case, house.calm[NAME])
    return True


@pytest.mark.parametrize("odd", sampled([0, 1], 1), ids=["at once", "later"])
def test_a_controller_killed_anywhere_is_healed_by_the_next_pass(house, counted, tried, odd):
    points = [point for point in counted["controller"] if point[0] % 2 == odd]
    (point,) = at_places(points, places("controller", 2)[odd : odd + 1])
    controller_killed(house, counted, point)
    tried("controllers killed")


def test_a_kernel_killed_anywhere_is_healed_by_the_next_pass(house, counted, tried):
    (point,) = at_places(counted["kernel"], places("kernel", 1))
    assert kernel_killed(house, counted, point) or kernel_killed(house, counted, counted["kernel"][len(counted["kernel"]) // 2])
    tried("kernels killed")


@pytest.mark.torture
@pytest.mark.parametrize(("whose", "killed"), [("controller", controller_killed), ("kernel", kernel_killed)])
def test_one_killed_at_every_point_is_healed_by_the_next_pass(house, counted, tried, whose, killed):
    reached = []

    def one(point):
        if killed(house, counted, point):
            reached.append(point)
        tried(f"{whose}s killed" if point in reached else f"{whose}s that did not come so far")

    every(counted[whose], one)
    assert len(reached) >= 0.9 * len(counted[whose]) > 0
