"""What the runs of the crash suite have before them: tables, their raw files, and which of the points are tried."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from seeds import seed_of
from world import World, closed

SEED = seed_of("CRASH_SEED")
TEN = datetime(2018, 12, 15, 10, tzinfo=timezone.utc).timestamp()
SCHEMA = {"id": "int", "name": "string", "region": "string"}
COLUMNS = "Op, id, name, region, _cdc_file, _cdc_row"
Step = Callable[[World], Any]


def two_files(w: World) -> World:
    return w.load([(1, "a", "n"), (2, "b", "n"), (3, "c", "s")], time=TEN).load([(4, "d", "s"), (5, "e", "e")], number=2, time=TEN)


def put(w: World, second: int, rows: list[tuple]) -> World:
    "A change file, closed so many seconds after ten and put two seconds later."
    return w.changes(second, rows, time=TEN + second + 2)


def first(w: World) -> None:
    put(w, 300, [("I", 1, "a", "n"), ("I", 2, "b", "s"), ("U", 1, "A", "n"), ("D", 2, None, None)])


def early(w: World) -> None:
    put(w, 300, [("I", 6, "f", "n"), ("U", 2, "B", "n"), ("D", 3, None, None)])


def later(w: World) -> None:
    "A row changes in each lake file, one goes, one moves to another region, one comes; the last row of a region goes."
    put(w, 600, [("U", 1, "A", "n"), ("U", 6, "F", "w"), ("D", 5, None, None)])
    put(w, 660, [("I", 7, "g", "e"), ("U", 4, "D", "n"), ("U", 1, "AA", "n"), ("D", 7, None, None), ("I", 8, "h", "x")])


def more(w: World) -> None:
    put(w, 900, [("U", 8, "H", "x"), ("I", 9, "i", "n"), ("D", 2, None, None)])


def inserts(w: World) -> None:
    put(w, 600, [("I", 10, "k", "n"), ("I", 11, "l", "s")])


def again(w: World) -> None:
    "A new load set, and a change after it; what came before it is obsolete."
    w.load([(1, "one", "n"), (2, "two", "s"), (12, "twelve", "s")], time=TEN + 1200)
    (w.raw / "LOAD00000002.parquet").unlink()
    put(w, 1500, [("U", 12, "dozen", "n"), ("D", 1, None, None), ("I", 13, "m", "e")])


def extra(w: World) -> None:
    put(w, 1800, [("I", 1, "late", "n"), ("I", 8, "late", "n"), ("I", 14, "o", "s"), ("D", 12, None, None), ("D", 10, None, None)])


@dataclass(frozen=True)
class RowAudit:
    "A table's settings, the files of the passes that are over, the files of the pass that is watched."

    settings: dict[str, Any]
    before: tuple[Step, ...]
    now: Step
    after: str = ""  # it goes on where a pass of this story was killed
    killed: str = ""  # just before its first request of this kind

    def since(self, raw: Path) -> list[Path]:
        "The raw files that count; a reload makes those before it obsolete."
        files = sorted(raw.rglob("*.parquet"))
        return [f for f in files if self.now is not again or f.name.startswith("LOAD") or f.name > f"{closed(1200)}.parquet"]


KEY, REGION = {"key": "id"}, {"key": "id", "partition": "region"}
STORIES = {
    "initial load": RowAudit(KEY, (), two_files),
    "incremental load": RowAudit(KEY, (two_files, early), later),
    "partitioned": RowAudit(REGION, (two_files, early), later),
    "reload": RowAudit(KEY, (two_files, early), again),
    "recovery": RowAudit(KEY, (), more, "incremental load", "os.rename"),
    "recovery, partitioned": RowAudit(REGION, (), more, "partitioned", "os.remove lake/shop"),
    "no load set": RowAudit(KEY, (), first),
    "inserts only": RowAudit({"insert_only": True}, (two_files,), inserts),
}


def places(what: str, count: int) -> list[float]:
    "Where to look: so many places between 0 and 1, spread over the whole, the same for the same seed."
    chance = random.Random(f"{SEED} {what}")
    return [(i + chance.random()) / count for i in range(count)]


def at_places(points: list[list], where: list[float]) -> list[list]:
    return [points[int(place * len(points))] for place in where]
