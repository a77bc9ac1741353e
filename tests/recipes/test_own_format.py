"A table format of one's own, as notebooks/pages/own_format.md says: JSON lines keep every promise of a lake table."

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.test
HERE = Path(__file__).parent


def test_a_table_of_json_lines_keeps_every_promise(tmp_path):
    about = tmp_path / "json_lines-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: json-lines\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[dmscdc.formats]\njsonl = json_lines:JsonLinesTable\n")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{HERE}"}
    dmscdc = Path(sys.executable).with_name("dmscdc")
    done = subprocess.run([dmscdc, "conformance", "jsonl"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-4_000:]
