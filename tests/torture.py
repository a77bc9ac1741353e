"""What continuous integration leaves out, in parts of less than an hour on two cores: `make torture PART="adversary/named crashes/disks"`; all parts where none is named.

The part that was run longest ago comes first, and random tests take the seeds of the day. `tests/results.jsonl` keeps when each part was run; the end of a run says it of all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

TESTS = Path(__file__).parent
RESULTS = TESTS / "results.jsonl"
FOLDERS = (
    "asking",
    "aws",
    "cluster",
    "contracts",
    "formats",
    "foreign",
    "house",
    "jobs",
    "loading",
    "pages",
    "planning",
    "proof",
    "running",
    "scenarios",
    "session",
    "shapes",
    "state_dynamodb",
    "stream",
)
PARTS: dict[str, list[str]] = {  # what pytest is asked
    "histories": ["--tier", "all", "tests/histories"],
    "adversary/named": ["--tier", "torture", "tests/adversary", "-k", "not at_random"],
    "adversary/random": ["--tier", "torture", "tests/adversary", "-k", "at_random"],
    **{
        f"crashes/{path.stem[5:]}": ["--tier", "torture", f"tests/crashes/{path.name}"]
        for path in sorted(TESTS.glob("crashes/test_*.py"))
        if "torture" in path.read_text()
    },
    **{
        name: ["--tier", "torture", f"tests/{name}"]
        for name in FOLDERS
        if any(
            "torture" in path.read_text() or "sampled(" in path.read_text() or "import way" in path.read_text() for path in TESTS.glob(f"{name}/*.py")
        )
    },
}
SUITE = "tests/contracts/test_tables.py tests/histories/test_histories.py tests/formats"
LAKES = ("3.5/hudi", "3.5/hudi-mor", "3.5/parquet", "4.1/delta", "4.1/iceberg")  # every test of a format
LEFT = ("delta", "iceberg")  # formats whose own MERGE must give the same as our tasks
ALL = [*PARTS, *(f"lakes/{name}" for name in LAKES), *(f"merge/{name}" for name in LEFT)]
SEEDS = {name: os.environ.get(name) or "today" for name in ("HISTORY_SEED", "CRASH_SEED", "ADVERSARY_SEED")}


def last_runs() -> dict[str, dict]:
    "The newest line of each part."
    return {line["part"]: line for line in map(json.loads, RESULTS.read_text().splitlines()) if "part" in line}


def run(part: str) -> bool:
    "Runs a part and writes down how it ended. Of a format's tests the Makefile leaves out what is the same elsewhere; here all are run."
    kind, _, name = part.partition("/")
    asked = PARTS.get(part) or [
        "--tier",
        "all",
        *SUITE.split()[:2],
        *(f"tests/formats/test_format_{what}.py" for what in ("kills", "moves", "story")),
    ]
    is_lake, left = kind == "lakes", {"WRITER": "format", "DMSCDC_FORMAT": name} if kind == "merge" else {}
    command = ["make", "--no-print-directory", part, f"SUITE={SUITE}", "HARD=", "TIER=all"] if is_lake else [sys.executable, "-m", "pytest", *asked]
    histories = os.environ.get("HISTORIES") or ("200" if part == "histories" else "10")
    begun = time.monotonic()
    code = subprocess.run(command, env={**os.environ, **SEEDS, **left, "HISTORIES": histories}).returncode
    seconds = round(time.monotonic() - begun)
    line = {"date": f"{datetime.now(timezone.utc):%Y-%m-%d}", "part": part, "seconds": seconds, "ok": code == 0}
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(f"{seconds} s  {part}{'' if code == 0 else '  RED'}", flush=True)
    return code == 0


def ended(line: dict | None) -> str:
    "When a part was run last, and how that ended."
    return "never run" if line is None else f"{line['date']}, {line['seconds']} s{'' if line['ok'] else ', RED'}"


def table() -> str:
    "Each part and its last run."
    runs = last_runs()
    return "\n".join(["the last run of each part:", *(f"{part:20} {ended(runs.get(part))}" for part in ALL)])


def main() -> None:
    asked = sys.argv[1:] or sorted(ALL, key=lambda part: last_runs().get(part, {}).get("date", ""))
    if unknown := [part for part in asked if part not in ALL]:
        sys.exit(f"no such part: {', '.join(unknown)}. There are {', '.join(ALL)}")
    red = [part for part in asked if not run(part)]
    print(table())
    sys.exit(f"red: {', '.join(red)}" if red else 0)


if __name__ == "__main__":
    main()
