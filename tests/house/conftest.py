"The wheel, built once for all that install or read it."
from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    "Built from a copy without what earlier builds have left."
    out = tmp_path_factory.mktemp("wheel")
    leave = shutil.ignore_patterns(".*", "build", "demo", "runs", "*.egg-info", "__pycache__")
    shutil.copytree(HOME, out / "source", ignore=leave)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", out, out / "source"]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    return next(out.glob("*.whl"))
