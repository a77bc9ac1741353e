"""Every test of loading runs twice in make torture: small batches are folded in one task, and brought together as large ones are. In CI test_fold and test_order do."""
import pytest

from dmscdc.changes import stage as batch


@pytest.fixture(scope="module", autouse=True, params=["direct", pytest.param("shuffled", marks=pytest.mark.torture)])
def way(request, spark):
    "How batches are folded; that they were brought together is seen."
    seen, taken = [], pytest.MonkeyPatch()
    for name in ("fold_all", "fold_shuffled"):
        fold = getattr(batch, name)
        taken.setattr(batch, name, lambda *given, fold=fold, name=name: seen.append(name) or fold(*given))
    spark.conf.set("spark.dmscdc.directBytes", "0" if request.param == "shuffled" else str(batch.DIRECT))
    yield request.param
    spark.conf.unset("spark.dmscdc.directBytes")
    taken.undo()
    assert not seen or request.param == "direct" or "fold_shuffled" in seen, "all batches were folded in one task"
