"On which addresses the processes listen that a command starts: while they start, run and end, no other machine can reach one."

from __future__ import annotations

import os
import re
import secrets
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.service.config import write_config

pytestmark = pytest.mark.test

HERE = {
    "0100007F",
    "0000000000000000FFFF00000100007F",
    "00000000000000000000000001000000",
    "0000000000000000FFFF0000" + "0100007F",
}  # as /proc/net has 127.0.0.1 and ::1
DMSCDC = str(Path(sys.executable).with_name("dmscdc"))
WORK = "import pathlib, sys, dmscdc.spark.archive as a; a._work(pathlib.Path(sys.argv[1]))"


def family(root: int) -> set[int]:
    "A process and all that it or they have started."
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening(pids: set[int]) -> set[str]:
    "The local addresses and ports on which some processes accept connections, as the kernel writes them."
    owned = set()
    for pid in pids:
        try:
            owned |= {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
        except OSError:
            continue
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {line[1] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in owned}


def told_a_stranger(port: int) -> bytes:
    "What a port answers to a message of Spark's own between its parts, without a secret: bytes for Java to make an object of."
    text = lambda words: struct.pack(">H", len(words)) + words
    body = b"\0\1" + text(b"localhost") + struct.pack(">i", port) + text(b"LocalSchedulerBackendEndpoint") + b"no object"
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 3) as line:
        line.settimeout(1)
        line.sendall(struct.pack(">qbqi", 21 + len(body), 3, 7, len(body)) + body)
        return line.recv(4_000)
    return b""


def is_taken(port: int) -> bool:
    "Whether nobody can listen at ::1 on a server's port: where localhost is both, clients would send their token there."
    with socket.socket(socket.AF_INET6) as other:
        try:
            other.bind(("::1", port))
        except OSError:
            return True
    return False


def watched(command: list[str], cwd: Path, until: str = "", **env: str) -> tuple[set[str], list[bytes]]:
    """All addresses that were listened on while a command ran, and what strangers are told at the ports of one that would never end:
    it is ended once it has said a text."""
    with (cwd / "said").open("w") as out:
        process, found, end = subprocess.Popen(command, cwd=cwd, stdout=out, stderr=out, env={**os.environ, **env}), set(), time.monotonic() + 300
        answers = []
        while process.returncode is None:
            found |= listening(family(process.pid))
            if until and until in (cwd / "said").read_text():
                assert is_taken(int(re.search(r"localhost:(\d+)", (cwd / "said").read_text())[1]))
                answers = [told_a_stranger(int(place.partition(":")[2], 16)) for place in listening(family(process.pid))]
                until = process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)
            assert time.monotonic() < end or process.kill()
    assert process.returncode == 0, (cwd / "said").read_text()[-2000:]
    return {place.partition(":")[0] for place in found}, answers


def test_what_keeps_java_s_classes_listens_on_this_machine_only_and_asks_for_a_token(tmp_path):
    found, _ = watched(
        [sys.executable, "-c", WORK, str(tmp_path)],
        tmp_path,
        SPARK_CONNECT_AUTHENTICATE_TOKEN=secrets.token_urlsafe(8),
        PYSPARK_PYTHON=sys.executable,
    )
    assert found and found <= HERE, found


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_load(home / "landing", "shop.item", [(1, "lamp")], {"id": "int", "name": "string"})
    write_changes(home / "landing", "shop.item", [("I", 2, "desk")], "20181215-100001000", {"id": "int", "name": "string"})
    write_config(home, landing="landing", lake="lake", quiet_period=0)
    subprocess.run([DMSCDC, "table", "set", "shop.item", "--key", "id"], cwd=home, check=True, stdout=subprocess.DEVNULL)
    return home


@pytest.mark.parametrize(
    "words, until", [("pass", ""), ("scd2 shop.item", ""), ("serve-spark", "SPARK_REMOTE")], ids=lambda words: words.partition(" ")[0]
)
def test_a_command_listens_on_this_machine_only(home, words, until):
    found, answers = watched([DMSCDC, *words.split()], home, until)
    assert found and found <= HERE, found
    assert not until or any(b"Sasl" in one for one in answers) and not any(b"ObjectInputStream" in one for one in answers), answers
