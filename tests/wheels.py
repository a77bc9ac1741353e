"""The wheel as a person would build it, for tests that install it or put it before Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parents[1]
LEFT = {"build", "demo", "dist", "runs"}  # at the top: what earlier builds and runs have made; a build folder would bring modules that are gone


def left_out(folder: str, names: list[str]) -> set[str]:
    "Names in a folder that are not copied. `dmscdc/runs` is a package."
    made = {name for name in names if name in ("__pycache__", ".ipynb_checkpoints") or name.endswith(".egg-info")}
    return made | {name for name in names if Path(folder) == HOME and (name in LEFT or name[0] == ".")}


def build_wheel(out: Path) -> Path:
    "Build the wheel in a folder, from a copy of the project."
    shutil.copytree(HOME, out / "source", ignore=left_out)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", out, out / "source"]
    subprocess.run(build, check=True, capture_output=True, timeout=600)
    return next(out.glob("*.whl"))
