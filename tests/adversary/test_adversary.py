"""An adversary's tables, loaded direct and shuffled: the right rows with a good verdict, or words that name what is wrong; and right answers to every question.

`ADVERSARY=50 ADVERSARY_SEED=7 pytest -m torture tests/adversary` draws fifty tables from seed 7; `make torture` does so.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from siege import Siege
from told import Table

import shapes
from dmscdc.changes import stage as batch
from seeds import seed_of
from tiers import sampled
from ways import BOTH, taken

pytestmark = pytest.mark.proof

SEED, COUNT = seed_of("ADVERSARY_SEED"), int(os.environ.get("ADVERSARY") or 50)
DAILY = [table for table in shapes.TABLES if table.name in ("adv.late",)]
GROUP = {table.name: name for name, tables in shapes.GROUPS.items() for table in tables}
RANDOM = [shapes.drawn(SEED + n) for n in range(COUNT)]


@pytest.fixture(scope="module", autouse=True)
def ways(spark):
    "Batches are folded in the way that was set."
    asked, shuffled = [], []
    with pytest.MonkeyPatch.context() as patch, taken("here", spark):
        for name, seen in (("fold_all", asked), ("fold_shuffled", shuffled)):
            patch.setattr(
                batch,
                name,
                lambda *given, fold=getattr(batch, name), seen=seen: seen.append(spark.conf.get("spark.dmscdc.directBytes")) or fold(*given),
            )
        yield
    assert bool(shuffled) == ("0" in asked) and set(shuffled) <= {"0"}, "batches were folded in another way than was set"


@pytest.fixture(scope="module")
def sieges(spark, tmp_path_factory):
    "One landing for all tables that are asked for; each is laid when its turn comes. In the end it says how much was looked at, by group."
    root, looked = tmp_path_factory.mktemp("adversary"), {}

    def lay(table: Table) -> Siege:
        siege = Siege(root, spark, [table]).lay()
        looked.setdefault(GROUP.get(table.name, "random"), Counter()).update({"tables": 1, **siege.tried})
        return siege

    yield lay
    for group, tried in looked.items():
        print(f"\n{group}: {', '.join(f'{count} {what}' for what, count in tried.items())}", end="")


def check(siege: Siege, table: Table) -> None:
    if siege.troubles:
        pytest.fail("\n\n".join(map(str, siege.troubles)) + f"\n\nThe table:\n{table}", pytrace=False)
    assert siege.tried["pass"] == 2 * table.rounds, "every way and every round was looked at"
    missed = [question for question in table.due if not any(siege.tried.get(f"{way} {question}") for way in BOTH)]
    assert not missed, "every answer was compared"


@pytest.mark.parametrize("table", sampled(shapes.TABLES, *DAILY), ids=[table.name for table in shapes.TABLES])
def test_a_table_comes_out_right_or_the_words_name_what_is_wrong(sieges, table):
    check(sieges(table), table)


@pytest.mark.torture
@pytest.mark.parametrize("table", RANDOM, ids=[str(SEED + n) for n in range(COUNT)])
def test_so_does_a_table_drawn_at_random(sieges, table):
    check(sieges(table), table)  # repeat with ADVERSARY=1 ADVERSARY_SEED=its number
