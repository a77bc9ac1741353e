"""MiniStack, a stand-in for services of AWS with true conditional writes: fetched once by pip, started on loopback, stopped by its process.

moto gives a lease to two takers now and then; conditions hold only in this one."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

from aws.fetch import fetched
from dmscdc.stream.example import ministack as started

PINS = Path(__file__).with_name("ministack.txt")


def command() -> list[str]:
    return ["env", f"PYTHONPATH={fetched(PINS)}", sys.executable, "-m", "ministack"]


def ministack(services: str) -> AbstractContextManager[str]:  # its address
    "A server of these services, like dynamodb,kinesis, which holds nothing yet. Keeps everything in memory."
    return started(command(), services)
