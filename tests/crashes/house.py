"""Starts runs as a controller does, ends them as it does, and heals them as the next pass does."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from referee import Referee
from stories import COLUMNS, SCHEMA, STORIES, RowAudit
from whole import placed, whole

from dmscdc.spark.interrupts import session_url, stop_work
from dmscdc.spark.server import SparkServer
from dmscdc.state.items import Lease
from world import World, replayed

HERE = Path(__file__).parent
PATIENCE = 120  # seconds after which a process that was waited for has failed


@dataclass
class Case:
    "A world, and beside it what its runs have told."

    home: Path
    story: RowAudit

    @property
    def world(self) -> World:
        return World(self.home / "world", None, SCHEMA)

    @property
    def watched(self) -> dict[str, str]:
        "Where changes count, for those that watch."
        return {"root": str(self.world.root)}

    def twin(self, home: Path, story: RowAudit) -> Case:
        "All of it again, somewhere else."
        shutil.copytree(self.home, home)
        return type(self)(home, story)

    def points(self, name: str = "points") -> list[list]:
        "The points that the last watched run, or its tasks, came to: number, what, path, whether it may be stopped there."
        path = self.home / f"{name}.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def rows(self) -> tuple[list[tuple], list[tuple]]:
        "The lake as DuckDB reads it, and the replay of the raw files that count."
        raw = self.home / "counted"
        shutil.rmtree(raw, ignore_errors=True)
        raw.mkdir()
        for file in self.story.since(self.world.raw):
            shutil.copy2(file, raw)
        return self.world.lake(COLUMNS.replace("_cdc_file", "regexp_replace(_cdc_file, '#[0-9]+$', '#1')")), replayed(raw, ["id"], COLUMNS)


@dataclass
class Going:
    "A run that was started."

    case: Case
    pid: int
    session: str
    lease: Lease
    url: str

    def said(self) -> dict[str, Any]:
        "What it came back with, if it came so far."
        path = self.case.home / f"said-{self.session}.json"
        return json.loads(path.read_text() or "{}") if path.exists() else {}


@dataclass
class House:
    "The process that forks runs, a warm server, and worlds that are copied for each run."

    folder: Path
    server: SparkServer
    runner: subprocess.Popen
    ready: dict[Any, Case] = field(default_factory=dict)  # worlds before the watched pass, by story and by what they have in common
    calm: dict[str, dict[str, Any]] = field(default_factory=dict)  # points and outcome of an undisturbed run, by story
    kind: type[Case] = Case
    conf: dict[str, str] = field(default_factory=dict)  # of the sessions

    def ask(self, **what: Any) -> Any:
        "One question to the runner, and its answer."
        if what:
            self.runner.stdin.write(f"{json.dumps(what)}\n".encode())
            self.runner.stdin.flush()
        in_time = select.select([self.runner.stdout], [], [], PATIENCE)[0]
        if not in_time and "wait" in what:
            os.kill(what["wait"], signal.SIGKILL)
        answer = json.loads(self.runner.stdout.readline())
        assert in_time, f"{what or 'the runner'} took longer than {PATIENCE} seconds"
        return answer

    # Worlds

    def twin(self, case: Case, story: RowAudit | None = None) -> Case:
        return case.twin(self.folder / uuid.uuid4().hex[:8], story or case.story)

    def copy(self, name: str) -> Case:
        "The world of a story, for one run."
        if name not in self.ready:
            story = STORIES[name]
            self.ready[name] = self.broken_off(story) if story.after else self.twin(self.passed(story, len(story.before)), story)
            story.now(self.ready[name].world)
        return self.twin(self.ready[name])

    def passed(self, story: RowAudit, steps: int) -> Case:
        "The world after so many passes; stories with the same beginning share it."
        key = (str(story.settings), *(step.__name__ for step in story.before[:steps]))
        if key not in self.ready and not steps:
            self.ready[key] = self.kind(self.folder / uuid.uuid4().hex[:8], story)
            self.ready[key].world.landing.mkdir(parents=True)
            self.ready[key].world.set(**story.settings)
        elif key not in self.ready:
            self.ready[key] = self.twin(self.passed(story, steps - 1), story)
            story.before[steps - 1](self.ready[key].world)
            assert self.go(self.ready[key])["verdict"] == "ok"
        return self.ready[key]

    def broken_off(self, story: RowAudit) -> Case:
        "A world whose last pass was killed just before its first request of a kind."
        points, _ = self.count(story.after)
        at = next(n for n, verb, path, _ in points if f"{verb} {path}".startswith(story.killed))
        case = self.copy(story.after)
        going = self.start(case, watch={"do": "kill", "at": at})
        assert self.ask(wait=going.pid) == "SIGKILL"
        self.over(going)
        return type(case)(case.home, story)

    # Runs

    def start(
        self, case: Case, watch: dict | None = None, tasks: dict | None = None, now: float | None = None, server: SparkServer | None = None
    ) -> Going:
        "What a controller starts: a run with its session, under a lease; `now`: by whose clock the lease before has run out."
        world, session, server = case.world, str(uuid.uuid4()), server or self.server
        lease = world.state.acquire(world.ref, f"controller {session[:8]}", 600, now)
        assert lease, f"{world.state.holder(world.ref)} has the lease"
        ask = self.orders(case, session, server, watch, tasks)
        ask |= {"do": "process", "given": {"run": session[:8], "owner": lease.owner, "fence": lease.fence}}
        ask |= {"places": world.places, "conf": self.conf}
        return Going(case, self.ask(fork=ask), session, lease, server.url)

    def orders(self, case: Case, session: str, server: SparkServer, watch: dict | None, tasks: dict | None) -> dict[str, Any]:
        "What every forked process is told."
        watched, home = case.watched, case.home
        for name in ("points", "tasks") * (watch is not None):
            (home / f"{name}.log").unlink(missing_ok=True)
        return {
            "said": str(home / f"said-{session}.json"),
            "out": str(home / "out.txt"),
            "requests": str(home / "requests.log"),
            "env": {"SPARK_REMOTE": session_url(server.url, session), "DMSCDC_SMALL_BYTES": "-1"},  # tasks are watched
            "watch": None if watch is None else {**watched, "log": str(home / "points.log"), **watch},
            "control": str(self.folder / "control.json"),
            "tasks": {
                "root": "/nowhere" if watch is None else watched.get("bucket", watched["root"]),
                "log": str(home / "tasks.log"),
                "do": "count",
                "at": 0,
                **(tasks or {}),
            },
        }

    def begin_pass(self, case: Case, watch: dict | None = None, kernel: dict | None = None) -> Going:
        "A whole pass, as `dmscdc pass` does it; its kernel is watched too."
        session, root = str(uuid.uuid4()), str(case.world.root)
        ask = self.orders(case, session, self.server, watch, None)
        of_kernel = {"root": root, "log": str(case.home / "kernel.log"), "requests": ask["requests"], **(kernel or {})}
        if watch is not None or kernel is not None:
            (case.home / "kernel.log").unlink(missing_ok=True)
        path = os.pathsep.join(filter(None, [str(HERE / "inside"), os.environ.get("PYTHONPATH", "")]))
        ask["env"] = {
            "SPARK_REMOTE": self.server.url,
            "PYTHONPATH": path,
            "DMSCDC_CRASHES": str(HERE),
            "DMSCDC_KERNEL": json.dumps(of_kernel),
            "DMSCDC_WORLD": root,
        }
        ask |= {"do": "pass", "folder": root, "given": {"landing": "landing", "lake": "lake", "quiet_period": 0, "workers": 1}}
        return Going(case, self.ask(fork=ask), session, None, self.server.url)

    def over(self, going: Going) -> None:
        "What the controller does when a run has ended, in whatever way."
        stop_work(going.url, going.session)
        going.case.world.state.release(going.lease)

    def go(self, case: Case, **how: Any) -> dict[str, Any]:
        "A whole run that nobody kills."
        going = self.start(case, **how)
        assert self.ask(wait=going.pid) == "done"
        case.world.state.release(going.lease)
        return {**going.said(), "pid": going.pid, "run": going.session[:8]}

    def count(self, name: str) -> tuple[list[list], list[list]]:
        "The points of a story's run and of its tasks, counted in an undisturbed one, which also shows what must come out."
        if name not in self.calm:
            case = self.copy(name)
            said = self.go(case, watch={})
            assert said["verdict"] == "ok", said
            self.calm[name] = {"points": case.points(), "tasks": case.points("tasks"), "commit": said["commit"], "position": placed(case.world)}
            self.calm[name]["requests"] = (case.home / "requests.log").read_text().splitlines()
            whole(case, self.calm[name])
        return self.calm[name]["points"], self.calm[name]["tasks"]

    def heal(self, case: Case, calm: dict[str, Any], passes: int = 1, server: SparkServer | None = None) -> None:
        "The next pass, and what must hold after it; every request since the table began was one that the protocol allows."
        for _ in range(passes):
            said = self.go(case, server=server)
        assert said.get("verdict") in ("ok", "nothing"), said
        whole(case, calm)
        referee = Referee(marks=case.world.lake_table.transaction_log.store.leaves_delete_markers).watch(
            (case.home / "requests.log").read_text().splitlines()
        )
        assert not referee.unfinished(said["pid"])

    def close(self) -> None:
        self.runner.stdin.close()
        try:
            self.runner.wait(30)
        except subprocess.TimeoutExpired:
            self.runner.kill()


def a_runner() -> subprocess.Popen:
    return subprocess.Popen([sys.executable, str(HERE / "runner.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def every(points: Iterable[Any], try_one: Callable[[Any], None]) -> None:
    "Try all of them, and say which went wrong."
    wrong = []
    for point in points:
        try:
            try_one(point)
        except (Exception, pytest.fail.Exception) as error:
            wrong.append(f"{point}: {type(error).__name__}: {error}"[:3000])
    assert not wrong, "\n".join([f"{len(wrong)} went wrong:", *wrong])


def wake(going: Going) -> None:
    os.kill(going.pid, signal.SIGCONT)
