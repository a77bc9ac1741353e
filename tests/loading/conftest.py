"""Every test of loading runs twice: small batches are folded in one task, and brought together as large ones are."""
import pytest

from dmscdc.batch import DIRECT


@pytest.fixture(scope="module", autouse=True, params=["direct", "shuffled"])
def way(request, spark):
    "How batches are folded."
    spark.conf.set("spark.dmscdc.directBytes", "0" if request.param == "shuffled" else str(DIRECT))
    yield request.param
    spark.conf.unset("spark.dmscdc.directBytes")
