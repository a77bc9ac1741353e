"What was tried, said at the end."

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

pytest.register_assert_rewrite("history")
import history  # noqa: E402

BEGUN = time.monotonic()


@pytest.fixture
def live(spark, tmp_path_factory):
    "live(history, then): the history as it is told, with a look at the lake after each pass, and then what is done with its world."

    def live(told: history.History, then: Callable[[history.RowLife], None] = lambda life: None) -> None:
        life = history.RowLife(tmp_path_factory.mktemp("history"), spark, told)
        try:
            then(life.live())
        finally:
            life.end()

    return live


@pytest.hookimpl
def pytest_terminal_summary(terminalreporter):
    if history.TRIED:
        terminalreporter.section("histories")
        for what, count in history.TRIED.items():
            terminalreporter.line(f"{what}: {count:,}")
        terminalreporter.line(f"repeat with HISTORY_SEED={history.SEED}; {time.monotonic() - BEGUN:.0f} seconds since collection")
