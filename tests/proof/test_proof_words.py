"""What a proof says in words."""
from collections import Counter

from dmscdc.reconcile.compare import Comparison, Finding, Total
from dmscdc.reconcile.explain import judge

WRONG = Comparison(Total(2, 7), Total(2, 8), (), counts=Counter(different=1), findings=(Finding("different", {"id": "1"}, {"price": ("40", "39")}),))


def test_a_table_without_a_key_is_told_that_landed_changes_were_left_out_and_the_commands_that_help():
    verdict, words = judge(WRONG, "load 1", "no file", "", "my shop.item")
    assert verdict == "attention" and "not explained by a change that waits; the table has no key, so updates and deletes that landed were left out" in words
    assert "dmscdc table set 'my shop.item' --key … and dmscdc table rewind 'my shop.item' --reload" in words


def test_a_table_with_a_key_is_told_nothing_of_changes_left_out():
    _, words = judge(WRONG, "load 1", "no file", "")
    assert words.endswith("1 different: id=1 (price), not explained by a change that waits")
