"The disk is full, the lake may not be written, an input vanishes: a verdict or an error in words, nothing has moved, and the next pass heals."

from __future__ import annotations

import os
import subprocess

import pytest
from stories import STORIES, at_places, places
from whole import committed, readable

from house import House, every, wake
from tiers import sampled

pytestmark = pytest.mark.proof

DAILY = ["initial load", "incremental load", "partitioned", "reload"]


def hindered(house: House, name: str, point: list, how: str, tasks: bool = False) -> None:
    "A run that cannot change anything more from some point on, and the next pass when the hindrance is gone."
    print(name, point, how)
    case, hinder = house.copy(name), {"do": how, "at": point[0]}
    world, before = case.world, committed(case.world)
    going = house.start(case, watch={} if tasks else {**hinder, "only": "lake/" if how == "refuse" else ""}, tasks=hinder if tasks else None)
    assert house.ask(wait=going.pid) == "done"
    said = going.said()
    moved = len(committed(world)[1]) - len(before[1])
    assert said["words"] and (said.get("verdict") == "failed" or "raised" in said or moved), said
    now = committed(world)
    assert readable(world) and (moved or now[1] == before[1] and only_settled(world, before[0], now[0]))
    house.over(going)
    house.heal(case, house.calm[name])


def only_settled(world, before: list, now: list) -> bool:
    "What came and went since is what the newest commit adds and removes: it was made before, and perhaps not settled."
    head = world.lake_table.transaction_log.head()
    return {f[0] for f in set(now) - set(before)} <= set(head.adds if head else ()) and {f[0] for f in set(before) - set(now)} <= set(
        head.removes if head else ()
    )


def vanished(house: House, name: str, point: list) -> None:
    "The last input goes while the run sleeps, and is brought back after it."
    print(name, point)
    case = house.copy(name)
    world, before = case.world, committed(case.world)
    going = house.start(case, watch={"do": "stop", "at": point[0]})
    assert house.ask(wait=going.pid) == "stopped"
    last = max(world.raw.glob("*.parquet"), key=lambda f: f.stat().st_mtime)
    last.rename(world.root / last.name)
    wake(going)
    assert house.ask(wait=going.pid) == "done"
    said = going.said()
    assert said["verdict"] == "failed" and f"{last.name} is gone" in said["words"], said
    of = " of the changes" if "The load was applied first: " in said["words"] else ""
    assert f"Nothing{of} was applied" in said["words"], said
    assert len(committed(world)[1]) - len(before[1]) < house.calm[name]["commit"] - len(before[1])
    (world.root / last.name).rename(last)
    house.over(going)
    house.heal(case, house.calm[name])


def planned(house: House, name: str) -> list[list]:
    "Points after the plan, before the commit: the run has begun its work aside, or given it to Spark."
    points, _ = house.count(name)
    begun = next(n for n, what, _, _ in points if what == "spark")
    last = max(n for n, what, _, _ in points if what == "spark")
    return [point for point in points if begun <= point[0] <= last]


@pytest.mark.parametrize(
    "name, how", sampled([(name, how) for name in DAILY for how in ("full", "refuse")], ("incremental load", "full"), ("partitioned", "refuse"))
)
def test_a_disk_that_is_full_or_read_only_from_any_request_on_leaves_what_was_there(house, tried, name, how):
    (point,) = at_places(house.count(name)[0], places(f"{name}, {how}", 1))
    hindered(house, name, point, how)
    tried("runs whose disk was full or read-only from a request on")


@pytest.mark.parametrize("name", sampled(["initial load", "partitioned"], "partitioned"))
def test_a_disk_that_is_full_for_tasks_leaves_what_was_there(house, tried, name):
    (point,) = at_places(house.count(name)[1], places(f"{name}, tasks, full", 1))
    hindered(house, name, point, "full", tasks=True)
    tried("runs whose disk was full or read-only from a request on")


@pytest.mark.parametrize("name", sampled(DAILY, "incremental load"))
def test_an_input_that_vanishes_between_plan_and_commit_voids_the_run(house, tried, name):
    (point,) = at_places(planned(house, name), places(f"{name}, vanished", 1))
    vanished(house, name, point)
    tried("runs whose input vanished")


def test_a_lake_that_cannot_be_made_is_said_in_words_and_made_when_it_can(house):
    house.count("initial load")
    case = house.copy("initial load")
    (case.world.root / "lake").write_text("a file where the lake should be")
    said = house.go(case)
    assert "lake" in said["words"] and (
        said.get("raised") in ("NotADirectoryError", "FileExistsError", "OSError") or said.get("verdict") == "failed"
    ), said
    (case.world.root / "lake").unlink()
    house.heal(case, house.calm["initial load"])


@pytest.mark.skipif(os.geteuid() != 0, reason="not allowed here: only root can mount a small file system")
def test_a_disk_that_is_really_full_leaves_what_was_there(house):
    house.count("incremental load")
    case = house.copy("incremental load")
    world, lake, kept = case.world, case.world.root / "lake", case.world.root / "kept"
    lake.rename(kept)
    lake.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "dmscdc", str(lake)], capture_output=True).returncode:
        pytest.skip("not allowed here: mounting a file system")
    try:
        subprocess.run(["cp", "-a", f"{kept}/.", str(lake)], check=True)
        before, filler = committed(world), lake / "filler"
        with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
        said = house.go(case)
        assert "No space left" in said["words"], said
        assert committed(world) == before
        filler.unlink()
        house.heal(case, house.calm["incremental load"])
    finally:
        subprocess.run(["umount", str(lake)], check=True)


@pytest.mark.torture
@pytest.mark.parametrize("how", ["full", "refuse", "full for tasks"])
@pytest.mark.parametrize("name", STORIES)
def test_a_disk_that_is_full_or_read_only_from_every_point_on_leaves_what_was_there(house, tried, name, how):
    tasks = how == "full for tasks"

    def one(point):
        tried("runs whose disk was full or read-only from a request on")
        hindered(house, name, point, how.split()[0], tasks)

    every(house.count(name)[tasks], one)


@pytest.mark.torture
@pytest.mark.parametrize("name", STORIES)
def test_an_input_that_vanishes_at_every_point_between_plan_and_commit_voids_the_run(house, tried, name):
    def one(point):
        tried("runs whose input vanished")
        vanished(house, name, point)

    every(planned(house, name), one)
