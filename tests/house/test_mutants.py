"A row of tests/mutants.md that fits the code no more is said; what the rows break is run by hand: make mutants SINCE=COMMIT."

import pytest

import mutants

pytestmark = pytest.mark.quick


def test_a_row_that_fits_no_more_is_said():
    row = next(mutants.breaks())
    assert mutants.misfit({**row, "before": "no such line"}) == f"the line stands 0 times in {row['module']}"
    assert mutants.misfit({**row, "module": "nowhere"}) == "there is no module nowhere"
    assert mutants.misfit({**row, "test": "tests/world.py::test_nothing"}) == "there is no test tests/world.py::test_nothing"
    assert mutants.misfit({**row, "after": "return )"}) == "the line after is not Python: unmatched ')'"


def test_every_line_of_the_table_is_a_row_that_can_be_tried():
    rows = [*mutants.breaks()]
    assert len(rows) == len(mutants.lines()) and not [words for row in rows if (words := mutants.misfit(row))]
