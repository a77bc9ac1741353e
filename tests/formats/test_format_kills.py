"""A run that is killed in one format (`DMSCDC_FORMAT`): the next one heals the table. What it must hold is a replay in plain Python."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dmscdc.load import process
from readers import FORMAT
from tiers import sampled
from world import World

pytestmark = pytest.mark.proof if FORMAT != "parquet" else pytest.mark.torture  # tests/crashes kills Parquet's

HERE = Path(__file__).parents[1]
COLUMNS = {"id": "int", "name": "string", "part": "int"}


class Killed(BaseException):
    pass


def start(folder: Path, spark) -> tuple[World, dict[int, tuple[int, str, int]]]:
    world = World(folder, spark, COLUMNS).set(key="id", partition="part")
    rows = {n: (n, f"name {n}", n % 3) for n in range(1, 31)}
    return world.load(list(rows.values())), rows


def happen(world: World, rows: dict[int, tuple[int, str, int]], number: int) -> None:
    "A change file: rows change, move to another partition, go and come."
    drawn = random.Random(number)
    changes = []
    for n in drawn.sample(sorted(rows), 8):
        rows[n] = (n, f"changed {number}", drawn.randrange(3))
        changes.append(("U", *rows[n]))
    changes.append(("D", *rows.pop(drawn.choice(sorted(rows)))))
    rows[100 + number] = (100 + number, f"new {number}", number % 3)
    changes.append(("I", *rows[100 + number]))
    world.changes(number, changes)


@pytest.mark.parametrize("step", sampled(["prepared", "committed", "saved"], "committed"))
def test_a_run_killed_between_two_steps_is_healed(tmp_path, spark, monkeypatch, step):
    world, rows = start(tmp_path, spark)
    assert world.go().verdict == "ok"
    happen(world, rows, 1)

    def until_then(module, name, first):
        real = getattr(module, name)

        def killed(*given, **more):
            if first:
                real(*given, **more)
            raise Killed

        monkeypatch.setattr(module, name, killed)

    where = {
        "prepared": (process, "check_inputs", True),
        "committed": (type(world.state), "save_position", False),
        "saved": (type(world.state), "save_position", True),
    }
    with monkeypatch.context():
        until_then(*where[step])
        with pytest.raises(Killed):
            world.go()
    monkeypatch.undo()
    happen(world, rows, 2)
    assert world.go().verdict == "ok"
    assert world.lake("id, name, part") == sorted(rows.values())


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from readers import FORMAT
from world import World
from dmscdc.spark.session import open_session
spark = open_session("killed", master="local[2]", conf={"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": 2}, format=FORMAT)
print("begun", flush=True)
World(Path(sys.argv[2]), spark, {}).go()
"""


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(int(os.environ.get("KILLS", 10))))
def test_a_run_killed_at_any_moment_is_healed(tmp_path, spark, seed):
    world, rows = start(tmp_path, spark)
    assert world.go().verdict == "ok"
    happen(world, rows, 1)
    run = subprocess.Popen([sys.executable, "-c", CHILD, HERE, tmp_path], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert run.stdout.readline() == "begun\n"
    try:
        run.wait(random.Random(seed).uniform(0.5, 12))
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    if held := world.state.holder(world.ref):
        world.state.release(held)  # as the next pass does, which sees that its holder is gone
    happen(world, rows, 2)
    assert world.go().verdict == "ok"
    assert world.lake("id, name, part") == sorted(rows.values())
