"What a run of tests finds depends on the commit alone, not on the day or on what else is run."
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_test_draws_with_the_days_date():
    asking = [path.name for path in TESTS.rglob("*.py") if "date.today(" in path.read_text()]
    assert sorted(asking) == ["seeds.py", Path(__file__).name]


def test_no_test_imports_a_conftest_as_which_one_that_is_depends_on_what_is_run():
    importing = [path for path in TESTS.rglob("*.py") if "from conftest import" in path.read_text()]
    assert importing == [Path(__file__)]
