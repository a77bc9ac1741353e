"""What settings.ini promises of Python: the oldest one reads every line, and this one imports every module. `make pythons` runs more on the oldest and the newest."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

import dmscdc

pytestmark = pytest.mark.proof

HOME = Path(__file__).parents[2]
INI = ConfigParser(delimiters=["="], interpolation=None)
INI.read(HOME / "settings.ini", encoding="utf-8")
OLDEST = tuple(map(int, INI["DEFAULT"]["min_python"].split(".")))
NEWER = {  # of the standard library after 3.11: names that are imported, or asked of a module
    "itertools": {"batched"}, "math": {"sumprod", "fma"}, "typing": {"override", "TypeIs", "TypeAliasType", "get_protocol_members", "ReadOnly", "NoDefault"},
    "os": {"process_cpu_count"}, "warnings": {"deprecated"}, "copy": {"replace"}, "pathlib": {"UnsupportedOperation"}, "queue": {"ShutDown"}, "sys": {"monitoring"},
    "shutil": set(), "calendar": {"Month", "Day"}, "inspect": {"markcoroutinefunction"},
}  # fmt: skip


def sources() -> dict[str, str]:
    "All code of the project: modules, tests, programs, and the cells of every notebook."
    files = [path for folder in ("dmscdc", "tests", "bench", "runs") for path in (HOME / folder).rglob("*.py")] + [HOME / "setup.py"]
    found = {str(path.relative_to(HOME)): path.read_text(encoding="utf-8") for path in files}
    for path in (HOME / "notebooks").rglob("*.ipynb"):
        for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
            lines = "".join(cell["source"]).splitlines()
            if cell["cell_type"] == "code":
                found[f"{path.relative_to(HOME)}, cell {number}"] = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)
    return found


def newer_names(tree: ast.AST) -> set[str]:
    "What is asked of the standard library that the oldest Python has not, outside a branch on the version or an attempt."
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) or isinstance(node, ast.If) and "version_info" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in guarded:
            continue
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{one.name}" for one in node.names}
        if isinstance(node, ast.Import):
            found |= {f"{one.name}.*" for one in node.names}
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.add(f"{node.value.id}.{node.attr}")
    return {f"{module}.{name}" for module, names in NEWER.items() for name in names} & found


def test_the_oldest_python_reads_every_line():
    wrong, every = [], sources()
    for name, text in every.items():
        try:
            tree = ast.parse(text, feature_version=OLDEST)
        except SyntaxError as error:
            wrong.append(f"{name}, line {error.lineno}: {error.msg}")
        else:
            wrong += [f"{name}: {one}" for one in newer_names(tree)]
    assert len(every) > 2000 and not wrong, f"Python {INI['DEFAULT']['min_python']} has not: {wrong}"


def test_newer_grammar_and_newer_names_would_be_seen():
    import pytest

    with pytest.raises(SyntaxError):
        ast.parse("type Name = str", feature_version=OLDEST)
    assert newer_names(ast.parse("from itertools import batched\nimport copy\ncopy.replace(1)")) == {"itertools.batched", "copy.replace"}
    assert not newer_names(ast.parse("import sys\nif sys.version_info < (3, 12): from ours import batched\nelse: from itertools import batched"))


def test_every_module_is_imported_by_this_python():
    package = Path(dmscdc.__file__).parent
    paths = [path.relative_to(package).with_suffix("") for path in package.rglob("*.py") if (path.parent / "__init__.py").exists()]
    names = sorted(".".join(path.parts) for path in paths if path.name[0] != "_")
    done = subprocess.run([sys.executable, "-c", "\n".join(f"import dmscdc.{name}" for name in names)], capture_output=True, text=True)
    assert len(names) > 70 and done.returncode == 0, done.stderr
