"""One runner and one warm Spark server for all tests of this folder, and what was tried, said at the end."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import stories
from warm import a_house

TRIED: Counter = Counter()
BEGUN = time.monotonic()


@pytest.fixture(scope="session")
def house(tmp_path_factory):
    with a_house(tmp_path_factory.mktemp("crashes")) as house:
        yield house


@pytest.fixture
def tried():
    "tried(what): counts what was tried, for the summary."
    return lambda what: TRIED.update([what])


def pytest_terminal_summary(terminalreporter):
    if TRIED:
        terminalreporter.section("crashes")
        for what, count in TRIED.items():
            terminalreporter.line(f"{what}: {count}")
        terminalreporter.line(f"repeat with CRASH_SEED={stories.SEED}; {time.monotonic() - BEGUN:.0f} seconds since collection")
