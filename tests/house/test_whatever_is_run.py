"What a run of tests finds depends on the commit alone, not on the day or on what else is run."

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

TESTS = Path(__file__).parents[1]


def test_no_test_draws_with_the_days_date():
    asking = [path.name for path in TESTS.rglob("*.py") if "date.today(" in path.read_text()]
    assert sorted(asking) == ["seeds.py", Path(__file__).name]


def test_no_test_imports_a_conftest_as_which_one_that_is_depends_on_what_is_run():
    importing = [path for path in TESTS.rglob("*.py") if "from conftest import" in path.read_text()]
    assert importing == [Path(__file__)]


def test_seeds_are_numbers_that_stand_in_the_code_unless_a_variable_says_another():
    "In processes of their own, with and without the variables."
    names = ("HISTORY_SEED", "CRASH_SEED", "ADVERSARY_SEED")
    program = "import seeds; print([seeds.seed_of(name) for name in %r], seeds.IS_FIXED)" % (names,)
    plain = {name: value for name, value in os.environ.items() if name not in names}

    def said(**more):
        return subprocess.run([sys.executable, "-c", program], cwd=TESTS, env=plain | more, capture_output=True, text=True, check=True).stdout.strip()

    assert said() == "[20181215, 20181215, 20181215] True"
    assert [said(**{name: "7"}).endswith("False") for name in names] == [True] * 3
