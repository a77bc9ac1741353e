#!/usr/bin/env python3
"""Breaks one line of the package at a time, in a copy, and runs the test that must notice: `python tests/mutants.py [--jobs 2] [WHICH …]`.

The table of breaks is `tests/mutants.md`: each row names the break, its module, the line before and after, and the test. WHICH is the name of
a break, a module, or a part of a test's path; without any all breaks are made. A test that stays green, or that is not green without the
break, is reported and makes the exit code 1. `--texts` only looks whether every row still fits the code, which takes no time.
"""
from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

HERE = Path(__file__).resolve().parent
ROW = re.compile(r"^\| (?P<name>[a-z0-9 ]+) \| `(?P<module>[\w.]+)` \| `(?P<before>.+?)` \| `(?P<after>.+?)` \| `(?P<test>tests/\S+::.+?)` \|$")
LIMIT = 1200  # seconds of one pytest; a break that makes a test hang is noticed, too


def lines() -> list[str]:
    "The lines of the table that should be rows."
    return [line for line in (HERE / "mutants.md").read_text().splitlines() if line.startswith("| ") and not line.startswith("| break |")]


def breaks() -> Iterator[dict[str, str]]:
    "The rows of the table."
    for found in filter(None, map(ROW.match, lines())): yield {k: v.replace("\\|", "|") for k, v in found.groupdict().items()}


def path_of(module: str) -> str: return f"{module.replace('.', '/')}.py"


def misfit(row: dict[str, str], package: Path = HERE.parent / "dmscdc") -> str:
    "Why a row cannot be tried; empty where it can."
    path, (file, _, test) = package / path_of(row["module"]), row["test"].partition("::")
    if not path.exists(): return f"there is no module {row['module']}"
    if (many := path.read_text().count(row["before"])) != 1: return f"the line stands {many} times in {row['module']}"
    if row["before"] == row["after"]: return "it breaks nothing"
    try: ast.parse(path.read_text().replace(row["before"], row["after"]))
    except SyntaxError as error: return f"the line after is no Python: {error.msg}"
    there = (HERE.parent / file).exists() and f"def {test.partition('[')[0]}(" in (HERE.parent / file).read_text()
    return "" if there else f"there is no test {row['test']}"


def misfits() -> list[str]:
    "What is wrong with the table, in sentences."
    rows, names = list(breaks()), Counter(row["name"] for row in breaks())
    wrong = [f"no row: {line[:80]}" for line in lines() if not ROW.match(line)]
    twice = [f"{name}: the name stands {count} times" for name, count in names.items() if count > 1]
    return wrong + twice + [f"{row['name']}: {why}" for row in rows if (why := misfit(row))]


def run(tests: list[str], package: Path, limit: float | None = None) -> subprocess.CompletedProcess:
    "pytest with the copy in place of the package, for Spark's workers too: `-m` puts the working folder first on the path."
    env = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-p", "no:cacheprovider", "--rootdir", str(HERE.parent), "-c", str(HERE.parent / "pyproject.toml")]
    places = [str(HERE.parent / test) for test in tests]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *places], cwd=package, env=env, capture_output=True, text=True, timeout=limit)


@contextmanager
def copied() -> Iterator[Path]:
    "A folder with a copy of the package, and beside it what the package finds there."
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE.parent / "dmscdc", Path(folder, "dmscdc"), ignore=shutil.ignore_patterns("__pycache__"))
        Path(folder, "notebooks").symlink_to(HERE.parent / "notebooks")
        yield Path(folder)


def broken(row: dict[str, str]) -> str:
    "Apply one break to a copy and say what the test makes of it: red, green, or what went wrong."
    if why := misfit(row): return why
    with copied() as folder:
        module = folder / "dmscdc" / path_of(row["module"])
        module.write_text(module.read_text().replace(row["before"], row["after"]))
        try: done = run([row["test"]], folder, LIMIT)
        except subprocess.TimeoutExpired: return "red"
        return {0: "green", 1: "red"}.get(done.returncode, f"pytest ended with {done.returncode}: {done.stdout[-300:]}")


def told(row: dict[str, str]) -> str:
    "Try one row and print what came of it."
    begun = time.monotonic()
    said = broken(row)
    print(f"{row['name']:<32} {said:<6} {time.monotonic() - begun:4.0f} s  {row['test']}", flush=True)
    return said


def is_wanted(row: dict[str, str], which: list[str]) -> bool: return not which or any(w in (row["name"], row["module"]) or w in row["test"] for w in which)


def main(words: list[str]) -> int:
    ask = argparse.ArgumentParser(description="Breaks that tests must notice.")
    ask.add_argument("which", nargs="*", help="names of breaks, modules, or parts of the tests' paths; all where none is given")
    ask.add_argument("--jobs", type=int, default=1, help="how many at once; each may start a Spark of its own")
    ask.add_argument("--texts", action="store_true", help="only look whether every row fits the code")
    given = ask.parse_args(words)
    if given.texts: return print("\n".join(misfits()) or f"{len(lines())} rows fit") or int(bool(misfits()))
    chosen = [row for row in breaks() if is_wanted(row, given.which)]
    if not chosen: return print(f"no break is called or tested so: {' '.join(given.which)}") or 1
    with copied() as whole: sound = run(sorted({row["test"] for row in chosen}), whole)  # a copy too: else it could lack something, and all would be red
    if sound.returncode: return print(f"without any break the tests are not green:\n{sound.stdout[-2000:]}") or 1
    with ThreadPoolExecutor(given.jobs) as pool: said = list(pool.map(told, chosen))
    bad = [row["name"] for row, one in zip(chosen, said) if one != "red"]
    print(f"{len(chosen)} breaks tried, {len(chosen) - len(bad)} red" + f"; not red: {', '.join(bad)}" * bool(bad))
    return int(bool(bad))


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
