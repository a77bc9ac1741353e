"""What a person waits for at the door: seconds of each command from the shell, cold, the least of some runs: python bench/startup.py

The folder holds one small table of the sample shop. Every command is a process of its own; a pass starts Spark and a kernel.
Read them beside those of another commit on the same machine; the machine should have nothing else to do.
"""
from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dmscdc.capture.shop import COLUMNS, PRODUCTS
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.landing.files import TableRef
from dmscdc.service.config import write_config
from dmscdc.state.registry import open_state

TABLE = "sampledb.product"
ASKED = {
    "help": ["--help"],
    "plan": ["plan"],
    "status": ["status"],
    "history": ["history", TABLE, "--key", "id=1001"],
    "as-of": ["as-of", TABLE],
    "as-of by Spark": ["as-of", TABLE, "--spark-above", "0"],
    "changes": ["changes", TABLE],
    "feed": ["feed", TABLE, "--out", "parts", "--to", "landed"],
}


def timed(folder: Path, words: list[str]) -> float:
    "Seconds of a command; it must end well."
    start = time.perf_counter()
    done = subprocess.run([Path(sys.executable).with_name("dmscdc"), *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return time.perf_counter() - start


def laid_out(folder: Path) -> None:
    "The table's load and a change file, none of it applied."
    shutil.rmtree(folder, ignore_errors=True)
    write_load(folder / "landing", TABLE, PRODUCTS, COLUMNS["product"])
    write_changes(folder / "landing", TABLE, [("D", *PRODUCTS[1])], "20181215-100000000", COLUMNS["product"])
    write_config(folder, landing="landing", lake="lake", settle=0)
    open_state(f"sqlite:{folder}/state.db").put_settings(TableRef.parse(TABLE), key="id")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder, found = Path(home, "shop"), {}
        for _ in range(options.runs):
            laid_out(folder)
            found.setdefault("pass, one small table", []).append(timed(folder, ["pass"]))
            found.setdefault("pass, nothing to do", []).append(timed(folder, ["pass"]))
            for name, words in ASKED.items():
                found.setdefault(name, []).append(timed(folder, words))
            found.setdefault("demo", []).append(timed(Path(home), ["demo", "demo"]))
            shutil.rmtree(Path(home, "demo"))
    for name, seconds in found.items(): print(f"{name:24} {min(seconds):6.1f}")


if __name__ == "__main__":
    main()
