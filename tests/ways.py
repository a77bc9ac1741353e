"""How a batch is worked on: here as a small one is, in one task, or brought together by a shuffle as a large one is. `apart`: folded here, applied by tasks. CI takes the ends where a test asks for EACH way, make torture everywhere."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest

WAYS = {
    "here": (str(8 << 20), str(1 << 30)),
    "direct": ("-1", str(1 << 30)),
    "shuffled": ("-1", "0"),
    "apart": ("2000", str(1 << 30)),
}  # up to which size there is no task, and one
BOTH = ("here", "shuffled")  # the ends
EACH = pytest.mark.parametrize("way", BOTH, indirect=True)
PARAMS = ["here", *(pytest.param(way, marks=pytest.mark.torture) for way in ("direct", "shuffled"))]


def take(way: str, spark) -> None:
    "From now on batches are worked on in this way."
    os.environ["DMSCDC_SMALL_BYTES"], direct = WAYS[way]
    spark.conf.set("spark.dmscdc.directBytes", direct)


@contextmanager
def taken(way: str, spark):
    "Batches are worked on in this way."
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMSCDC_SMALL_BYTES", "")
        take(way, spark)
        yield
    spark.conf.unset("spark.dmscdc.directBytes")


@pytest.fixture(params=PARAMS)
def way(request, spark):
    with taken(request.param, spark):
        yield request.param
