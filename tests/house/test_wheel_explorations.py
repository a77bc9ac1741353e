"""Explorations as the wheel brings them: the same notebooks that other tests execute, and those that need no Spark run beside the wheel's own modules."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dmscdc.config import write_config
from dmscdc.sample import write_shop, write_story

EXPLORE = Path(__file__).parents[2] / "notebooks" / "explore"


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory) -> Path:
    "A folder of modules that holds the wheel, before all others on the path."
    there = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(there)
    return there


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    "A landing with changes, and settings."
    home = tmp_path_factory.mktemp("beside")
    write_shop(home / "landing")
    write_story(home / "landing")
    write_config(home, landing="landing", lake="lake", settle=0)
    return home


def test_the_wheel_brings_all_explorations_as_they_are(site):
    ours, theirs = ({path.name: path.read_bytes() for path in folder.glob("*.ipynb")} for folder in (EXPLORE, site / "dmscdc" / "explore"))
    assert len(ours) >= 6 and ours == theirs


@pytest.mark.parametrize("name", ["on_a_cluster", "row_history", "volumes_and_lag"])
def test_an_exploration_runs_beside_the_wheel_s_own_modules(site, home, tmp_path, name):
    book = json.loads((site / "dmscdc" / "explore" / f"{name}.ipynb").read_text())
    book["cells"].append({"cell_type": "code", "id": "where", "metadata": {}, "execution_count": None, "outputs": [], "source": ["import dmscdc.cli, dmscdc.looking\n", "print(dmscdc.looking.__file__)"]})
    (tmp_path / "in.ipynb").write_text(json.dumps(book))
    command = [sys.executable, "-m", "papermill", "--log-level", "ERROR", "--no-progress-bar", "in.ipynb", "out.ipynb", "--cwd", home]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    cells = [cell for cell in json.loads((tmp_path / "out.ipynb").read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5 and "".join(cells[-1]["outputs"][0]["text"]).strip() == str(site / "dmscdc" / "looking.py")
