"""Which target runs a test: a mark at the test says so, else the mark of its module (`pytestmark`); `pytest --tier quick` runs the tests of a tier.

* `quick`: needs no Java. `make quick` takes a minute, and everything else begins with it.
* `test`: needs Spark in its own process, or takes seconds.
* `proof`: needs a server, a kernel, a browser, a database or a cluster, or kills something. What is drawn at random is drawn from fixed seeds (`seeds.py`).
* `torture`: repeats another test for one more name, table, moment or way, or is a rare case that takes long. `make torture PART=…` runs parts of it.

Continuous integration runs the first three.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

TIERS = ("quick", "test", "proof", "torture")


def sampled(values: Iterable[Any], *kept: Any) -> list[Any]:
    "Parameters of a test (tuples where it has several), of which all but the kept ones are for make torture."
    return [
        value if value in kept else pytest.param(*(value if isinstance(value, tuple) else [value]), marks=pytest.mark.torture) for value in values
    ]


def tier_of(item: pytest.Item) -> str:
    "The tier that stands nearest to a test; of several there (at its function and at its parameters), the heaviest."
    for node in reversed(item.listchain()):
        if found := [tier for tier in TIERS if any(mark.name == tier for mark in node.own_markers)]:
            return found[-1]
    raise pytest.UsageError(f"{item.nodeid} has no tier: pytestmark = pytest.mark.{'|'.join(TIERS)}")
