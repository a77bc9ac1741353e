"""Seconds on the wall, seconds of the processor and memory of this process and everything it started (Linux)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")


def family() -> list[Path]:
    "/proc folders of this process and all that descend from it."
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(stat.read_text().rpartition(") ")[2].split()[1]), []).append(int(stat.parent.name))
        except OSError:  # it has ended meanwhile
            continue
    found = [os.getpid()]
    for pid in found:
        found += parents.get(pid, [])
    return [Path("/proc", str(pid)) for pid in found]


def cpu_seconds() -> float:
    "User and system time of the family, of members that have ended too."
    ticks = 0
    for process in family():
        try:
            ticks += sum(map(int, (process / "stat").read_text().rpartition(") ")[2].split()[11:15]))
        except OSError:
            continue
    return ticks / TICKS


def java_megabytes() -> int:
    "The most memory that a Java process of the family has ever held."
    peaks = [0]
    for process in family():
        try:
            words = (process / "status").read_text().split()
        except OSError:
            continue
        if words[1] == "java":
            peaks.append(int(words[words.index("VmHWM:") + 1]) // 1024)
    return max(peaks)


@contextmanager
def phase(
    name: str,
    into: dict[str, float],  # gets name_s and name_cpu
) -> Iterator[None]:
    "Measure a block."
    wall, cpu = time.perf_counter(), cpu_seconds()
    yield
    into[f"{name}_s"] = round(time.perf_counter() - wall, 2)
    into[f"{name}_cpu"] = round(cpu_seconds() - cpu, 2)


def differing(rows: Any, raw: Path) -> int:  # rows: a frame of Spark
    "Rows that a table has and should not have, and the other way round."
    want = rows.sparkSession.read.parquet(str(raw / "expected.parquet"))
    got = rows.select(*want.columns)
    return got.exceptAll(want).count() + want.exceptAll(got).count()
