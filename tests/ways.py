"""How a batch is folded: in one task, or brought together by a shuffle as a large one is. CI folds `shuffled` where a test asks for BOTH ways, make torture everywhere."""
from __future__ import annotations

import pytest

BOTH = pytest.mark.parametrize("way", ["direct", "shuffled"], indirect=True)


@pytest.fixture(params=["direct", pytest.param("shuffled", marks=pytest.mark.torture)])
def way(request, spark):
    if request.param == "shuffled": spark.conf.set("spark.dmscdc.directBytes", "0")
    yield request.param
    spark.conf.unset("spark.dmscdc.directBytes")
