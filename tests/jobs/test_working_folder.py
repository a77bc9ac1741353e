"""Whatever lies in the folder in which a command is typed, what runs is what is installed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from dmscdc.capture.writer import write_load
from dmscdc.landing.files import TableRef
from dmscdc.service.config import read_config, write_config
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.proof

FOLDERS = "dmscdc pyspark numpy pandas IPython ipykernel papermill jupyter_client grpc zmq"
FILES = "typer pyarrow ipykernel_launcher runpy json logging random secrets tempfile zipfile socket ast sitecustomize program"
TRAP = """import os, sys
with open({log!r}, "a") as log:
    log.write(f"{{__file__}} was imported by {{sys.argv}} {{sys.orig_argv if hasattr(sys, 'orig_argv') else ''}}\\n")
raise ImportError("a trap")
"""


def set_traps(folder: Path, log: Path) -> None:
    "A module of each name that we and the standard library use; each leaves a line when it is imported."
    words = TRAP.format(log=str(log))
    for name in FOLDERS.split():
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(words)
    for name in FILES.split():
        (folder / f"{name}.py").write_text(words)


def typed(folder: Path, *words: str) -> subprocess.CompletedProcess:
    "A command as the installed script runs it, in a folder."
    env = {name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "PYTHONSAFEPATH")}
    script = Path(sys.executable).with_name("dmscdc")
    return subprocess.run([script, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    "A shop's table that has landed, in a folder full of traps, whose name has a blank."
    folder = tmp_path_factory.mktemp("a folder")
    table, rows = TableRef("sampledb", "product"), [(1, "one"), (2, "two")]
    write_config(folder, landing="landing", lake="lake", quiet_period=0, master="local[2]", driver_memory="1g")
    write_load(folder / "landing", table, rows, {"id": "int", "name": "string"}, time=time.time() - 3_600)
    config = read_config(folder)
    open_state(config.state, config.landing).put_settings(table, key="id")
    set_traps(folder, folder / "traps.log")
    return folder


@pytest.mark.torture
@pytest.mark.parametrize("classic", [False, True], ids=["server", "classic"])
def test_a_pass_imports_nothing_from_the_folder_in_which_it_is_typed(folder, classic):
    if classic:
        again = typed(folder, "table", "rewind", "sampledb.product", "--reload")
        assert again.returncode == 0, again.stdout + again.stderr
    done = typed(folder, "pass", *["--classic"] * classic)
    log = folder / "traps.log"
    assert not log.exists(), log.read_text()
    assert done.returncode == 0, done.stdout + done.stderr
    rows = duckdb.sql(f"select id, name from '{folder}/lake/sampledb/product/**/*.parquet' order by id").fetchall()
    assert rows == [(1, "one"), (2, "two")]


def test_an_answer_imports_nothing_from_there_and_begins_without_a_warning(folder):
    done = typed(folder, "as-of", "sampledb.product")
    log = folder / "traps.log"
    assert not log.exists(), log.read_text()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "incubator" not in done.stderr and "Warning" not in done.stderr, done.stderr
    assert "2 rows" in done.stdout
