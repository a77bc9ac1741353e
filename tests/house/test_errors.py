"""Errors are classes of one module, which says what each of them means for a run, a command and a person."""

import ast
import builtins
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dmscdc.errors import ERRORS, DmscdcError, errors_page

pytestmark = pytest.mark.quick

HOME = Path(__file__).parents[2]
MODULES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((HOME / "dmscdc").rglob("*.py"))}
OF_PYTHON = {name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)}


def test_no_class_of_errors_is_defined_elsewhere():
    known = OF_PYTHON | {"DmscdcError", *ERRORS}
    found = {
        f"{path.name}: {node.name}" for path, tree in MODULES.items() for node in ast.walk(tree)
        if path.name != "errors.py" and isinstance(node, ast.ClassDef) and {ast.unparse(base).split(".")[-1] for base in node.bases} & known
    }  # fmt: skip
    assert len(MODULES) > 60 and not found


def test_only_errors_of_the_module_or_of_python_are_raised_by_name():
    raised = {
        node.exc.func.id for tree in MODULES.values() for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name) and node.exc.func.id[0].isupper()
    }  # fmt: skip
    assert len(raised) > 30 and not raised - OF_PYTHON - set(ERRORS)


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_an_error_says_how_a_run_and_a_command_end_its_cause_and_what_to_do(error):
    assert issubclass(error, DmscdcError) and error.__module__ == "dmscdc.errors"
    assert error.verdict in {None, "failed", "refused", "attention", "busy"} and error.exit_code in {1, 2, 3, 4}
    assert "\n" not in error.__doc__ and error.__doc__.endswith(".") and error.mend and error("text").args == ("text",)
    assert f"| `{error.__name__}` | {error.verdict or ''} | {error.exit_code} | {error.__doc__} | {error.mend} |\n" in errors_page()


def test_every_error_is_raised_somewhere_or_stands_above_one_that_is():
    named = {node.id for path, tree in MODULES.items() if path.name != "errors.py" for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert [name for name in ERRORS if name not in named] == []


def test_the_notebook_shows_the_page():
    cells = json.loads((HOME / "notebooks" / "00_errors.ipynb").read_text(encoding="utf-8"))["cells"]
    assert any("errors_page()" in "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_the_module_imports_nothing_but_what_python_brings():
    code = "import sys; before = set(sys.modules); import dmscdc.errors; print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(found) <= {"dmscdc", *sys.stdlib_module_names}
