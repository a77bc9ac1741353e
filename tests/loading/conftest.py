"""Every test of loading runs three times in make torture: small batches are folded here, in one task, and brought together as large ones are. In CI test_fold and test_order do."""

import pytest

from dmscdc.changes import stage as batch
from ways import PARAMS, taken


@pytest.fixture(scope="module", autouse=True, params=PARAMS)
def way(request, spark):
    "How batches are folded; that they were brought together is seen."
    seen = []
    with pytest.MonkeyPatch.context() as patch, taken(request.param, spark):
        for name in ("fold_all", "fold_shuffled"):
            fold = getattr(batch, name)
            patch.setattr(batch, name, lambda *given, fold=fold, name=name: seen.append(name) or fold(*given))
        yield request.param
    assert not seen or request.param != "shuffled" or "fold_shuffled" in seen, "all batches were folded in one task"
