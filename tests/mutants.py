#!/usr/bin/env python3
"""Breaks one line of the package at a time, in a copy, and runs the test that must notice: `python tests/mutants.py [--since COMMIT] [--jobs 2] [WHICH …]`.

The table of breaks is `tests/mutants.md`: each row names the break, its module, the line before and after, and the test. WHICH is the name of
a break, a module, or a part of a test's path; without any all breaks are made. What was seen red is remembered with the contents of its module
and its test (`.cache/mutants.json`) and not tried again while they are the same. A test that stays green is reported and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Iterator

HERE = Path(__file__).resolve().parent
ROW = re.compile(r"^\| (?P<name>[a-z0-9 ]+) \| `(?P<module>[\w.]+)` \| `(?P<before>.+?)` \| `(?P<after>.+?)` \| `(?P<test>tests/\S+::.+?)` \|$")
SEEN = HERE.parent / ".cache" / "mutants.json"
LIMIT = 600  # seconds of one pytest; a break that makes a test hang is noticed, too


def lines() -> list[str]:
    "The lines of the table that should be rows."
    return [line for line in (HERE / "mutants.md").read_text().splitlines() if line.startswith("| ") and not line.startswith("| break |")]


def breaks() -> Iterator[dict[str, str]]:
    "The rows of the table."
    for found in filter(None, map(ROW.match, lines())):
        yield {k: v.replace("\\|", "|") for k, v in found.groupdict().items()}


def path_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def misfit(row: dict[str, str], package: Path = HERE.parent / "dmscdc") -> str:
    "Why a row cannot be tried; empty where it can."
    path, (file, _, test) = package / path_of(row["module"]), row["test"].partition("::")
    if not path.exists():
        return f"there is no module {row['module']}"
    if (many := path.read_text().count(row["before"])) != 1:
        return f"the line stands {many} times in {row['module']}"
    if row["before"] == row["after"]:
        return "it breaks nothing"
    try:
        ast.parse(path.read_text().replace(row["before"], row["after"]))
    except SyntaxError as error:
        return f"the line after is not Python: {error.msg}"
    there = (HERE.parent / file).exists() and f"def {test.partition('[')[0]}(" in (HERE.parent / file).read_text()
    return "" if there else f"there is no test {row['test']}"


def run(tests: list[str], package: Path, limit: float | None = None) -> subprocess.CompletedProcess:
    "pytest with the copy in place of the package, for Spark's workers too: `-m` puts the working folder first on the path."
    env = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "--tier", "all", "-p", "no:cacheprovider", "--rootdir", str(HERE.parent), "-c", str(HERE.parent / "pyproject.toml")]
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
    if why := misfit(row):
        return why
    with copied() as folder:
        module = folder / "dmscdc" / path_of(row["module"])
        module.write_text(module.read_text().replace(row["before"], row["after"]))
        try:
            done = run([row["test"]], folder, LIMIT)
        except subprocess.TimeoutExpired:
            return "red"
        return {0: "green", 1: "red"}.get(done.returncode, f"pytest ended with {done.returncode}: {done.stdout[-300:]}")


def mark(row: dict[str, str]) -> str:
    "A mark of all that decides whether the break is noticed: the row, its module and its test's file."
    files = [HERE.parent / "dmscdc" / path_of(row["module"]), HERE.parent / row["test"].partition("::")[0]]
    return sha256(b"".join([repr(row).encode(), *(file.read_bytes() for file in files if file.exists())])).hexdigest()[:16]


def remembered() -> dict[str, str]:
    "By break: the mark under which it was seen red."
    return json.loads(SEEN.read_text()) if SEEN.exists() else {}


def remember(row: dict[str, str]) -> None:
    SEEN.parent.mkdir(exist_ok=True)
    SEEN.write_text(json.dumps({**remembered(), row["name"]: mark(row)}, indent=1, sort_keys=True))


def changed(since: str) -> set[str]:
    "The modules that differ from a commit's."
    names = subprocess.run(
        ["git", "diff", "--name-only", since, "--", "dmscdc"], cwd=HERE.parent, capture_output=True, text=True, check=True
    ).stdout.split()
    return {name.removeprefix("dmscdc/").removesuffix(".py").replace("/", ".") for name in names}


def is_wanted(row: dict[str, str], which: list[str]) -> bool:
    return not which or any(w in (row["name"], row["module"]) or w in row["test"] for w in which)


def main(words: list[str]) -> int:
    ask = argparse.ArgumentParser(description="Breaks that tests must notice.")
    ask.add_argument("which", nargs="*", help="names of breaks, modules, or parts of the tests' paths; all where none is given")
    ask.add_argument("--since", default="", help="only those of the modules that have changed since this commit")
    ask.add_argument("--jobs", type=int, default=1, help="how many at once; each may start a Spark of its own")
    given = ask.parse_args(words)
    for line in lines():
        if not ROW.match(line):
            print(f"no row: {line[:80]}")
    chosen = [row for row in breaks() if is_wanted(row, given.which) and (not given.since or row["module"] in changed(given.since))]
    unfit = {row["name"]: why for row in chosen if (why := misfit(row))}
    for name, why in unfit.items():
        print(f"{name}: {why}")
    known = remembered()
    todo = [row for row in chosen if row["name"] not in unfit and (given.which or known.get(row["name"]) != mark(row))]
    print(f"{len(chosen)} breaks, {len(chosen) - len(todo) - len(unfit)} seen red before, {len(todo)} to try", flush=True)
    green = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for one in as_completed([pool.submit(lambda row=row: (row, *timed(row))) for row in todo]):
            row, said, seconds = one.result()
            print(f"{row['name']:<32} {said:<6} {seconds:4.0f} s  {row['test']}", flush=True)
            remember(row) if said == "red" else green.append(row["name"])
    if green:
        print(f"not red: {', '.join(green)}")
    return int(bool(green))


def timed(row: dict[str, str]) -> tuple[str, float]:
    begun = time.monotonic()
    return broken(row), time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
