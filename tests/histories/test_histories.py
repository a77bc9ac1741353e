"Whatever happens at a database, the lake follows it: after each pass it holds what the database said when the newest file was closed."

from __future__ import annotations

import pytest
from history import COUNT, TRIED, History
from strategies import for_random_histories, shortest

pytestmark = pytest.mark.test

KNOWN = [  # histories that have failed, or that we had reason to fear
    History(
        (  # a key dies and lives again in a file that comes late, between two that are applied; a column comes meanwhile
            "INSERT INTO item (id, title) VALUES (1, 'a')",
            "LOAD",
            "PASS",
            "DELETE FROM item",
            "CLOSE",
            "PASS",
            ("INSERT INTO item (id, big) VALUES (1, 1)", "UPDATE item SET title = 'b'", "COMMIT"),
            "CLOSE",
            "AWAY 0",
            "ALTER TABLE item ADD COLUMN n_text VARCHAR(20)",
            "DELETE FROM item",
            "CLOSE",
            "PASS",
            "BACK",
            "PASS",
            "INSERT INTO item (id, n_text) VALUES (1, 'c')",
            "CLOSE",
            "PASS",
        ),
        soft=True,
    ),
    History(
        (  # no row of a batch can be applied, in a table with before images
            "INSERT INTO place (city, day) VALUES ('Oslo', '0001-01-01')",
            "INSERT INTO item (id, title) VALUES (1, 'a')",
            "LOAD",
            "PASS",
            "INSERT INTO place (city, day) VALUES ('', '0001-01-01')",
            "CLOSE",
            "SPOIL 0",
            "PASS",
        ),
        images=True,
    ),
    History(
        (  # a reload repeats what waited; rows move between partitions; what was rolled back is in no file
            "INSERT INTO place VALUES ('Oslo', '2018-12-15', 'north', 1)",
            "LOAD REPEATING",
            "PASS",
            ("UPDATE place SET region = 'a/b=50%'", "ROLLBACK"),
            "UPDATE place SET region = NULL",
            "CLOSE 1",
            "PASS",
            "UPDATE place SET visits = 2",
            "LOAD place REPEATING",
            "UPDATE place SET region = 'north'",
            "CLOSE 1",
            "PASS",
        ),
        sequence=True,
        op=True,
        parts=True,
    ),
    History(
        (  # changes while a second task reads the load, some applied before it comes; a resume repeats them; a table without a key
            "INSERT INTO item (id, title) VALUES (1, 'a')",
            "INSERT INTO item (id, title) VALUES (2, 'b')",
            "INSERT INTO log VALUES ('x', 0)",
            "SNAP",
            "DELETE FROM item WHERE id = 1",
            "UPDATE item SET title = 'c'",
            "INSERT INTO log VALUES ('x', 0)",
            "CLOSE",
            "PASS",
            "INSERT INTO item (id, title) VALUES (3, 'd')",
            "CLOSE",
            "PUT",
            "PASS",
            "UPDATE item SET title = 'e' WHERE id = 2",
            "DELETE FROM item WHERE id = 3",
            "INSERT INTO log VALUES (NULL, 1)",
            "CLOSE",
            "PASS",
            "RESUME 1",
            "PASS",
            "INSERT INTO log VALUES ('x', 0)",
            "INSERT INTO item (id, title) VALUES (3, 'f')",
            "CLOSE",
            "RESUME 2",
            "PASS",
        ),
        sequence=True,
    ),
    History(
        (  # a file of a table without a key comes late
            "INSERT INTO log VALUES ('a', 0)",
            "CLOSE 1",
            "AWAY 1",
            "INSERT INTO log VALUES ('b', 0)",
            "CLOSE 1",
            "PASS",
            "BACK",
            "PASS",
            "INSERT INTO item (id) VALUES (1)",
            "CLOSE 1",
            "PASS",
        ),
        sequence=True,
    ),
]


def compared(test) -> tuple[int, int]:
    "How many tables a test compared with the database, and how many it could not."
    before = dict(TRIED)
    test()
    return tuple(TRIED[what] - before.get(what, 0) for what in ("tables compared", "tables not compared"))


def test_the_lake_follows_the_database_through_random_histories(live):
    yes, no = compared(lambda: for_random_histories(COUNT, live))
    assert yes >= 4 * COUNT and yes > no, f"{yes} tables compared, {no} not"


@pytest.mark.compiled
@pytest.mark.parametrize("history", KNOWN, ids=[f"{len(known.steps)} steps" for known in KNOWN])
def test_histories_that_are_known_to_be_hard_are_followed_too(live, history):
    yes, _ = compared(lambda: live(history))
    assert yes >= 3


def test_what_fails_is_told_in_as_few_lines_as_it_needs():
    long = History((*["PASS"] * 20, "CLOSE", "LOAD", *["BACK"] * 9, ("a", "b", "COMMIT"), "PASS"), sequence=True, soft=True)
    needed = lambda history: "LOAD" in history.steps and history.soft and any("b" in step for step in history.steps if isinstance(step, tuple))
    assert shortest(long, needed) == History(("LOAD", ("b",)), soft=True)
