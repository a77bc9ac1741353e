"""What a package offers to its users: the names of its `__init__`, each imported when it is asked for."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

HOME = Path(__file__).parents[2] / "dmscdc"
WITHOUT = {"changes", "cli", "storage", "lake.parquet"}  # nobody needs these but other packages of ours, and the command
FACES = sorted(".".join(path.parent.relative_to(HOME).parts) for path in HOME.rglob("__init__.py") if path.parent != HOME and path.stat().st_size)


def test_every_package_has_a_face_or_stands_in_the_list_of_those_without():
    packages = {".".join(path.parent.relative_to(HOME).parts) for path in HOME.rglob("__init__.py") if path.parent != HOME}
    assert len(FACES) > 10 and packages - set(FACES) == WITHOUT


@pytest.mark.parametrize("face", FACES)
def test_its_names_are_there_and_the_same_for_tools_that_check_types(face):
    package = importlib.import_module(f"dmscdc.{face}")
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    imports = [(node.module, name) for branch in tree.body if isinstance(branch, ast.If) for node in branch.body for name in node.names]
    assert sorted(name.asname for _, name in imports) == sorted(package.__all__)
    for room, name in imports:
        assert getattr(package, name.asname) is getattr(importlib.import_module(f"dmscdc.{face}.{room}"), name.name)
        assert not (HOME / face / f"{name.asname}.py").exists(), f"{name.asname} is a room: once it is imported, it hides the name"
    assert all(getattr(package, name).__doc__ for name in package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing


def test_an_init_holds_nothing_but_names():
    for face in FACES:
        body = ast.parse((HOME / face / "__init__.py").read_text(encoding="utf-8")).body
        assert {type(node).__name__ for node in body} == {"Expr", "ImportFrom", "If", "Assign"}, face


def test_to_import_a_package_imports_none_of_its_rooms():
    code = (
        f"import sys\nfor name in {FACES}: __import__('dmscdc.' + name)\nprint(*sorted(name for name in sys.modules if name.startswith('dmscdc.')))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found == sorted(f"dmscdc.{face}" for face in FACES)


def test_the_package_itself_offers_one_door():
    assert importlib.import_module("dmscdc").__all__ == ["__version__", "open"]
