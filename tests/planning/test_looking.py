"Who looks changes nothing: landing, lake and state are byte for byte what they were, also where a run was killed and left its work."

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.service.config import read_config, write_config
from dmscdc.service.status import read_statuses
from world import World

pytestmark = pytest.mark.test


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def left(spark, tmp_path) -> World:
    "A table of two commits; the second was made, and its run was killed before it had copied a file or saved the position."
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    world = World(tmp_path, spark, {"id": "int", "name": "string"}).set(key="id").load([(1, "a")])
    world.go()
    shutil.copytree(tmp_path / "lake" / "shop", tmp_path / "before"), shutil.copy(tmp_path / "state.db", tmp_path / "state.before")
    world.changes(1, [("U", 1, "b")])
    world.go()
    entry = world.lake_table.transaction_log.head()
    for file in entry.added:
        aside = tmp_path / "lake" / world.lake_table.transaction_log.staging_folder / file.aside
        aside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(world.folder / file.name, aside)
    shutil.rmtree(tmp_path / "lake" / "shop"), shutil.move(tmp_path / "before", tmp_path / "lake" / "shop")
    os.replace(tmp_path / "state.before", tmp_path / "state.db")
    return world


@pytest.mark.parametrize(
    "words",
    [["plan"], ["status"], ["status", "--json"], ["history", "shop.item", "--key", "id=1"], ["doctor"], ["table", "list"], ["quarantine", "list"]],
    ids=" ".join,
)
def test_a_question_leaves_every_file_as_it_was(left, words):
    before = everything(left.root)
    done = CliRunner().invoke(app, [*words, "--folder", str(left.root)])
    assert done.exit_code in (0, 3) and everything(left.root) == before, done.output
    if words == ["history", "shop.item", "--key", "id=1"]:
        assert "in the lake: id 1, name b" in done.output


def test_a_pass_settles_under_a_lease_what_a_killed_run_has_left_and_not_while_another_works(left):
    config = read_config(left.root)
    lease = left.state.acquire(left.ref, "another", 60)
    read_statuses(config, owner="us")
    assert not left.settled()
    left.state.release(lease)
    (status,) = read_statuses(config, owner="us")
    assert left.settled() and left.lake("id, name") == [(1, "b")] and not status.has_work and left.state.get(left.ref).commit == 2
