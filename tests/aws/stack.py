"""MiniStack, a stand-in for services of AWS with true conditional writes: fetched once by pip, started on loopback, stopped by its process.

moto gives a lease to two takers now and then; conditions hold only in this one."""
from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

PINS = Path(__file__).with_name("ministack.txt")
HOME = Path(__file__).parents[2] / ".cache" / "ministack"
FETCH, START = 300.0, 60.0  # seconds at most


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


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def ministack(services: str) -> Iterator[str]:  # its address
    "A server of these services, like dynamodb,kinesis, which holds nothing yet. Keeps everything in memory."
    packages, port = fetched(), free_port()
    with tempfile.TemporaryDirectory() as home:
        given = {"PYTHONPATH": str(packages), "BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": services, "LOG_LEVEL": "ERROR", "TMPDIR": home}
        server = subprocess.Popen([sys.executable, "-m", "ministack"], cwd=home, env={**os.environ, **given}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


def wait_for(port: int, server: subprocess.Popen) -> None:
    "Until it takes connections."
    deadline = time.monotonic() + START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert server.poll() is None, f"MiniStack ended with {server.returncode}"
            assert time.monotonic() < deadline, f"MiniStack was not ready after {START:.0f} s"
            time.sleep(0.1)
