"""What is heavy is imported by the work that needs it, not by a command that only looks."""

import ast
import json
import re
import subprocess
import sys
import time
from configparser import ConfigParser
from datetime import datetime, timezone
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.lake.table import Transaction
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.load.table_state import load_state, plan_state
from dmscdc.runs.log import LoggedRun, RunLog
from dmscdc.service.config import read_config, write_config
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.test

HOME = Path(__file__).parents[2]
HEAVY = "nbformat nbconvert papermill jsonschema pandas boto3 botocore sqlalchemy pyspark IPython nbclient jupyter_client duckdb"
ARROW = "pyarrow numpy"
LOOK = """
import json, os, sys, traceback

class Look:
    "Asked for every module that is not imported yet; never finds one."
    seen = {}

    def find_spec(self, name, path=None, target=None):
        if name in WATCHED and name not in self.seen:
            frames = [frame.filename for frame in traceback.extract_stack() if "importlib" not in frame.filename]
            ours = [os.path.basename(name) for name in frames if f"{os.sep}dmscdc{os.sep}" in name]
            self.seen[name] = ours[-1] if ours else frames[-2]

WATCHED, sys.argv = set(sys.argv[1].split()), ["dmscdc", *sys.argv[2:]]
sys.meta_path.insert(0, Look())
try:
    from dmscdc.cli.main import main
    main()
except SystemExit as end:
    code = end.code or 0
print(json.dumps({"code": code, "seen": Look.seen}), file=sys.stderr)
"""


def imported(words: str, folder: Path, watched: str, code: int = 0) -> dict[str, str]:
    "Heavy modules that a command imports in a process of its own, with the file of ours that asked for each."
    done = subprocess.run([sys.executable, "-c", LOOK, watched, *words.split()], cwd=folder, capture_output=True, text=True, timeout=120)
    said = json.loads(done.stderr.splitlines()[-1])
    assert said["code"] == code, done.stdout + done.stderr
    return said["seen"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    "A table that holds all that has landed, as far as its journal says."
    folder = tmp_path_factory.mktemp("idle")
    write_config(folder, landing="landing", lake="lake", quiet_period=0)
    config, table, types = read_config(folder), TableRef("sampledb", "product"), {"id": "int", "name": "string"}
    at = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    write_load(folder / "landing", table, [(1, "one"), (2, "two")], types, time=time.time() - 7_200)
    write_changes(folder / "landing", table, [("U", 1, "uno")], at, types, time=time.time() - 3_600)
    state, landing = open_state(config.state, config.landing), FolderLanding(config.landing)
    state.put_settings(table, key="id")
    table_state = load_state(state, table, config.lake)
    plan = plan_state(table_state, landing, 0)
    table_state.lake.commit_position(Transaction(None, plan.after.to_json(), "test", (), ("id",))).commit()
    return folder


@pytest.mark.quick
@pytest.mark.parametrize("words", ["--version", "--help", "pass --help", "as-of --help", "table set --help", "runs --help"])
def test_words_about_commands_import_nothing_heavy(words, folder):
    assert imported(words, folder, f"{HEAVY} {ARROW}") == {}


@pytest.mark.parametrize("words", ["plan", "pass", "status", "table list", "runs list", "runs html"])
def test_a_command_that_finds_nothing_to_do_imports_nothing_that_is_for_work(words, folder):
    assert imported(words, folder, HEAVY) == {}


def test_a_pass_that_finds_nothing_to_do_after_a_proof_imports_nothing_that_is_for_work(folder):
    at = {
        "start": "2026-01-01T12:00:00.000Z",
        "end": "2026-01-01T12:00:08.000Z",
        "cause": "",
        "files": 0,
        "bytes_written": 0,
        "lag": None,
        "rows": {},
    }
    proof = {
        "run": "3f2a",
        "job": "reconcile",
        "table": "sampledb.product",
        "verdict": "ok",
        "words": "equal",
        "command": "",
        "notebook": "reconcile/a.ipynb",
        "html": "reconcile/a.html",
    }
    RunLog(folder / "runs").append(LoggedRun.from_json({**proof, **at}))
    imported("runs html", folder, HEAVY)  # the pages are up to date, as the command that proved has left them
    assert imported("pass", folder, HEAVY) == {}


def test_a_row_s_life_imports_neither_spark_nor_reports(folder):
    found = imported("history sampledb.product --key id=2", folder, HEAVY, code=3)  # the lake of this test holds no row
    assert set(found) <= {"pandas"}, f"pyarrow looks for pandas when it makes an array; nothing else is needed: {found}"


PART_OF = {"botocore": "boto3", "IPython": "ipykernel"}  # come with a package that is declared, and are its other half


def test_what_the_package_imports_is_declared():
    ini = ConfigParser(delimiters=["="], interpolation=None)
    ini.read(HOME / "settings.ini", encoding="utf-8")
    lines = " ".join(value for name, value in ini["DEFAULT"].items() if name.endswith("requirements"))
    declared = {re.split(r"[\[<>=;~!]", one)[0].lower().replace("_", "-") for one in lines.split()}
    trees = {str(path): ast.parse(path.read_text(encoding="utf-8")) for path in (HOME / "dmscdc").rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            modules = (
                [one.name for one in node.names]
                if isinstance(node, ast.Import)
                else [node.module]
                if isinstance(node, ast.ImportFrom) and not node.level
                else []
            )
            for module in modules:
                found.setdefault(module.split(".")[0], set()).add(name)
    homes = packages_distributions()
    others = {module: names for module, names in found.items() if module not in {*sys.stdlib_module_names, "dmscdc"}}
    assert len(others) > 15, "the package imports more than that: is the test looking?"
    missing = {
        module: names for module, names in others.items()
        if not {home.lower().replace("_", "-") for home in homes.get(PART_OF.get(module, module), [module])} & declared
    }  # fmt: skip
    assert not missing, f"imported and not declared in settings.ini: {missing}"


def test_every_part_that_a_message_or_page_names_can_be_installed():
    ini = ConfigParser(delimiters=["="], interpolation=None)
    ini.read(HOME / "settings.ini", encoding="utf-8")
    parts = {name.removesuffix("_requirements") for name in ini["DEFAULT"] if name.endswith("_requirements")} | {"notebooks", "all"}
    texts = [*(HOME / "dmscdc").rglob("*.py"), *(HOME / "notebooks").rglob("*.md"), *(HOME / "infra").rglob("*.md"), HOME / "README.md"]
    named = {part for path in texts for found in re.findall(r"(?:dmscdc|\.whl)\[([a-z,]+)\]", path.read_text()) for part in found.split(",")}
    assert len(named) > 5 and named <= parts, named - parts
