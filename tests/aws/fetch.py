"Programs that tests need and that pin other versions of what we use: fetched once by uv, each set into a folder of its own."

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from uv import find_uv_bin

HOME = Path(__file__).parents[2] / ".cache"
FETCH = 600.0  # seconds at most


def fetched(pins: Path) -> Path:
    "The folder of the packages that a file names, filled by pip when it is not there yet."
    home = HOME / pins.stem
    there = home / sha256(pins.read_bytes()).hexdigest()[:12]
    if there.is_dir():
        return there
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as folder:
        install = [find_uv_bin(), "pip", "install", "--quiet", "--python", sys.executable, "--target", f"{folder}/packages", "-r", str(pins)]
        done = subprocess.run(install, capture_output=True, text=True, timeout=FETCH)
        assert done.returncode == 0, f"uv could not fetch what {pins.name} names: {done.stderr[-2000:]}"
        with suppress(OSError):
            Path(folder, "packages").rename(there)  # another run may have been quicker
    return there


def run(pins: Path, *words: str, given: str = "", **variables: str) -> subprocess.CompletedProcess:
    "Python with those packages; what it is given is its standard input."
    env = {"PYTHONPATH": str(fetched(pins)), "PATH": "/usr/bin:/bin", "HOME": str(HOME), **variables}
    return subprocess.run([sys.executable, *words], input=given, capture_output=True, text=True, timeout=300, env=env)
