"""What a proof says in words."""

import sys
from collections import Counter

import pytest

from dmscdc.errors import SourceRefused
from dmscdc.reconcile.compare import NamedDifference, TableComparison, Total
from dmscdc.reconcile.explain import judge
from dmscdc.service.config import Config
from dmscdc.service.schedule import check_source

pytestmark = pytest.mark.quick

WRONG = TableComparison(
    Total(2, 7), Total(2, 8), (), counts=Counter(different=1), findings=(NamedDifference("different", {"id": "1"}, {"price": ("40", "39")}),)
)


def test_a_table_without_a_key_is_told_that_landed_changes_were_left_out_and_the_commands_that_help():
    verdict, words = judge(WRONG, "load 1", "no file", "", "my shop.item")
    assert (
        verdict == "attention"
        and "not explained by a change that waits; the table has no key, so updates and deletes that landed were left out" in words
    )
    assert "dmscdc table set 'my shop.item' --key COLUMNS and dmscdc table rewind 'my shop.item' --reload" in words


def test_a_table_with_a_key_is_told_nothing_of_changes_left_out():
    _, words = judge(WRONG, "load 1", "no file", "")
    assert words.endswith("1 different: id=1 (price), not explained by a change that waits")


@pytest.mark.proof
@pytest.mark.parametrize(
    "source, driver", [("mariadb://reader@shop.example/sampledb", "pymysql"), ("postgresql://reader@shop.example/sampledb", "psycopg")]
)
def test_a_driver_that_is_missing_is_said_before_anything_starts(monkeypatch, source, driver):
    config = Config(landing="landing", lake="lake", source=source)
    check_source(config)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(SourceRefused, match=rf"{driver} is needed for this source: pip install 'dmscdc\[source\]'"):
        check_source(config)
