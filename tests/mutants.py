#!/usr/bin/env python3
"""Breaks one line of the package at a time, in a copy, and runs the test that must notice: `python tests/mutants.py [NAME …]`.

The table of breaks is `tests/mutants.md`: each row names the break, its module, the line before and after, and the test.
A test that stays green, or that is not green without the break, is reported and makes the exit code 1.
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator

HERE = Path(__file__).resolve().parent
ROW = re.compile(r"^\| (?P<name>[a-z ]+) \| `(?P<module>\w+)` \| `(?P<before>.+?)` \| `(?P<after>.+?)` \| `(?P<test>tests/\S+::.+?)` \|$")


def breaks() -> Iterator[dict[str, str]]:
    "The rows of the table."
    for line in (HERE / "mutants.md").read_text().splitlines():
        if found := ROW.match(line): yield {k: v.replace("\\|", "|") for k, v in found.groupdict().items()}


def run(tests: list[str], package: Path) -> subprocess.CompletedProcess:
    "pytest with the copy in place of the package, for Spark's workers too: `-m` puts the working folder first on the path."
    env = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-p", "no:cacheprovider", "--rootdir", str(HERE.parent), "-c", str(HERE.parent / "pyproject.toml")]
    places = [str(HERE.parent / test) for test in tests]
    return subprocess.run([sys.executable, "-m", "pytest", *options, *places], cwd=package, env=env, capture_output=True, text=True)


def broken(row: dict[str, str]) -> str:
    "Apply one break to a copy and say what the test makes of it: red, green, or what went wrong."
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE.parent / "dmscdc", Path(folder, "dmscdc"), ignore=shutil.ignore_patterns("__pycache__"))
        module = Path(folder, "dmscdc", f"{row['module']}.py")
        text = module.read_text()
        if text.count(row["before"]) != 1: return f"the line stands {text.count(row['before'])} times in {row['module']}.py"
        module.write_text(text.replace(row["before"], row["after"]))
        done = run([row["test"]], Path(folder))
        return {0: "green", 1: "red"}.get(done.returncode, f"pytest ended with {done.returncode}: {done.stdout[-300:]}")


def main(names: list[str]) -> int:
    chosen, bad = [row for row in breaks() if not names or row["name"] in names], 0
    sound = run(sorted({row["test"] for row in chosen}), HERE.parent)
    if sound.returncode: return print(f"without any break the tests are not green:\n{sound.stdout[-2000:]}") or 1
    for row in chosen:
        said = broken(row)
        bad += said != "red"
        print(f"{row['name']:<20} {said:<6} {row['test']}", flush=True)
    return 1 if bad or not chosen else 0


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
