"""MiniStack, a stand-in for services of AWS with true conditional writes: fetched once by pip, started on loopback, stopped by its process.

moto gives a lease to two takers now and then; conditions hold only in this one."""
from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, suppress
from hashlib import sha256
from pathlib import Path

from dmscdc.stream.example import ministack as started

PINS = Path(__file__).with_name("ministack.txt")
HOME = Path(__file__).parents[2] / ".cache" / "ministack"
FETCH = 300.0  # seconds at most


def fetched() -> Path:
    "The folder of its packages, filled by pip when it is not there yet."
    there = HOME / sha256(PINS.read_bytes()).hexdigest()[:12]
    if there.is_dir(): return there
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--target", f"{folder}/packages", "-r", str(PINS)]
        done = subprocess.run(install, capture_output=True, text=True, timeout=FETCH)
        assert done.returncode == 0, f"pip could not fetch MiniStack: {done.stderr[-2000:]}"
        with suppress(OSError): Path(folder, "packages").rename(there)  # another run may have been quicker
    return there


def command() -> list[str]: return ["env", f"PYTHONPATH={fetched()}", sys.executable, "-m", "ministack"]


def ministack(services: str) -> AbstractContextManager[str]:  # its address
    "A server of these services, like dynamodb,kinesis, which holds nothing yet. Keeps everything in memory."
    return started(command(), services)
