"""A standalone Spark cluster of two workers on loopback, and a Python for its tasks that does not hold the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import pytest

from dmscdc.spark.server import spark_home


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory) -> Path:
    "An interpreter with everything that is installed here but dmscdc."
    home = tmp_path_factory.mktemp("python")
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "dmscdc" not in entry.name and entry.suffix != ".pth":
            (home / entry.name).symlink_to(entry)
    python, base = home / "python", Path(sys.base_prefix, "bin", f"python3.{sys.version_info[1]}")
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{home}:$PYTHONPATH" exec {base} "$@"\n')
    python.chmod(0o755)
    lost = subprocess.run(
        [python, "-c", "import pyarrow, pyspark, dmscdc"], env={"PATH": os.environ["PATH"]}, cwd=home, capture_output=True, text=True
    )
    assert "No module named 'dmscdc'" in lost.stderr, lost.stderr
    return python


def started(role: str, *options: str, log: Path) -> subprocess.Popen:
    "A master or worker, which logs into a file."
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "512m", "SPARK_HOME": str(spark_home())}
    command = [
        str(spark_home() / "bin" / "spark-class"),
        f"org.apache.spark.deploy.{role.lower()}.{role}",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--webui-port",
        "0",
    ]
    with log.open("wb") as out:
        return subprocess.Popen([*command, *options], env=env, stdout=out, stderr=out, cwd=log.parent)


def said(process: subprocess.Popen, log: Path, pattern: str, seconds: float = 60) -> str:
    "What a process logs, waited for."
    end, pause = time.monotonic() + seconds, threading.Event()
    while not (found := re.search(pattern, log.read_text(errors="replace"))):
        assert process.poll() is None and time.monotonic() < end, log.read_text(errors="replace")[-2000:]
        pause.wait(0.05)
    return found[0]


class Cluster(str):
    "An address; what its workers have worked for lies in its home."

    home: Path

    def applications(self) -> int:
        "How many applications had tasks on the workers."
        return len({path.name for path in self.home.glob("work*/app-*")})


@pytest.fixture(scope="package")
def cluster(tmp_path_factory):
    "The address of a cluster of two workers, one core each."
    home, processes = tmp_path_factory.mktemp("cluster"), []
    try:
        processes.append(started("Master", log=home / "master.log"))
        address = Cluster(said(processes[0], home / "master.log", r"spark://127\.0\.0\.1:\d+"))
        address.home = home
        for number in (1, 2):
            log = home / f"worker{number}.log"
            processes.append(started("Worker", "--cores", "1", "--memory", "2g", "--work-dir", str(home / f"work{number}"), address, log=log))
            said(processes[-1], log, "Successfully registered with master")
        yield address
    finally:
        for process in processes[::-1]:
            process.terminate()
        for process in processes:
            process.wait(30)
