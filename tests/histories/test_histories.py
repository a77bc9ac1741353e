"Whatever happens at a database, the lake follows it: after each pass it holds what the database said when the newest file was closed."
from __future__ import annotations

import pytest

from history import COUNT, History
from strategies import for_random_histories, shortest

KNOWN: list[History] = []  # histories that have failed


def test_the_lake_follows_the_database_through_random_histories(live): for_random_histories(COUNT, live)


@pytest.mark.parametrize("history", KNOWN, ids=range(len(KNOWN)))
def test_what_has_failed_once_does_not_fail_again(live, history): live(history)


def test_what_fails_is_told_in_as_few_lines_as_it_needs():
    long = History((*["PASS"] * 20, "CLOSE", "LOAD", *["BACK"] * 9, ("a", "b", "COMMIT"), "PASS"), sequence=True, soft=True)
    needed = lambda history: "LOAD" in history.steps and history.soft and any("b" in step for step in history.steps if isinstance(step, tuple))
    assert shortest(long, needed) == History(("LOAD", ("b",)), soft=True)
