"""How long one waits for a command: python bench/startup.py [--before CHECKOUT] [--times N]

Help, version, a pass that finds nothing to do in 1 and in 200 tables, and the first pass of one small table.
Seconds on the wall, and seconds of the processor of the command and of all that it starts. With --before the code of another checkout takes turns with this
one: `git worktree add /tmp/before v0.1.0`, then `--before /tmp/before`. Read the ratios: seconds are those of the machine and of what else it does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from planning import make_idle

from dmscdc.capture.shop import COLUMNS, PRODUCTS
from dmscdc.capture.writer import write_load
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.load.table_state import load_state
from dmscdc.service.config import read_config, write_config
from dmscdc.state.registry import open_state

HERE = Path(__file__).resolve().parents[1]
TABLES = 200
COMMAND = "from dmscdc.cli.main import main; main()"


def make_folder(folder: Path) -> tuple[FolderLanding, str]:
    "Settings, and what knows where the files lie."
    write_config(folder, landing="landing", lake="lake", quiet_period=0)
    config = read_config(folder)
    return FolderLanding(config.landing), config.lake


def make_idle_tables(folder: Path, number: int) -> None:
    "Tables whose files are applied, as far as a pass can tell."
    landing, lake = make_folder(folder)
    state = open_state(f"sqlite:{folder}/state.db", landing=str(folder / "landing"))
    for i in range(number):
        make_idle(state, landing, lake, table := TableRef("sampledb", f"table{i:03d}"))
        load_state(state, table, lake)  # the state learns the position, as after a run


def make_new_table(folder: Path) -> None:
    "The shop's 25 products, landed and never loaded."
    make_folder(folder)
    write_load(folder / "landing", "sampledb.product", PRODUCTS, COLUMNS["product"], time=time.time() - 3_600)
    open_state(f"sqlite:{folder}/state.db", landing=str(folder / "landing")).put_settings(
        TableRef("sampledb", "product"), key="id"
    )


ACTIONS = {  # words of the command, and what makes its folder
    "version": (["--version"], None),
    "help": (["--help"], None),
    "idle pass, 1 table": (["pass"], lambda folder: make_idle_tables(folder, 1)),
    f"idle pass, {TABLES} tables": (["pass"], lambda folder: make_idle_tables(folder, TABLES)),
    "cold pass, 1 small table": (["pass"], make_new_table),
}


def timed(checkout: Path, words: list[str], folder: Path) -> dict[str, float]:
    "Run a command of a checkout: its seconds, and those of the processor with all that it has started."
    env, begin = os.environ | {"PYTHONPATH": str(checkout)}, time.monotonic()
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words], cwd=folder, env=env, stdout=nowhere, stderr=nowhere
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{checkout}: dmscdc {' '.join(words)} ended with {process.returncode} in {folder}")
    return {"wall_s": time.monotonic() - begin, "cpu_s": used.ru_utime + used.ru_stime}


def measured(checkouts: dict[str, Path], name: str, times: int) -> list[dict[str, object]]:
    "One action by each checkout, alternately, each time in a new folder."
    (words, make), lines = ACTIONS[name], []
    for turn in range(times):
        for who in list(checkouts)[:: 1 if turn % 2 == 0 else -1]:
            folder = Path(tempfile.mkdtemp(prefix="dmscdc-startup-"))
            if make:
                make(folder)
            lines.append({"name": name, "who": who, **timed(checkouts[who], words, folder)})
            print(json.dumps(lines[-1]), file=sys.stderr, flush=True)
            shutil.rmtree(folder)
    return lines


def summary(lines: list[dict[str, object]]) -> dict[str, object]:
    "Medians of one action, and how many times less it takes now."
    said: dict[str, object] = {"name": lines[0]["name"]}
    for who in dict.fromkeys(line["who"] for line in lines):
        said |= {
            f"{who}_{of}": round(median(line[of] for line in lines if line["who"] == who), 2)
            for of in ("wall_s", "cpu_s")
        }
    if "before_cpu_s" in said:
        said |= {f"ratio_{of}": round(said[f"before_{of}_s"] / said[f"now_{of}_s"], 1) for of in ("wall", "cpu")}
    return said


def measure_startup(before: Path | None = None, times: int = 3, only: str = "") -> list[dict[str, object]]:
    "All actions."
    checkouts = {"now": HERE} | ({"before": before.resolve()} if before else {})
    return [summary(measured(checkouts, name, times)) for name in ACTIONS if only in name]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="another checkout, which takes turns with this one")
    parser.add_argument("--times", type=int, default=3, help="each action so often")
    parser.add_argument("--only", default="", help="actions whose name has this")
    options = parser.parse_args()
    for line in measure_startup(options.before, options.times, options.only):
        print(json.dumps(line))
