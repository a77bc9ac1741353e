"The end of a file is damaged where it tells of a column's values: what pyarrow cannot be asked about is not asked."

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick

ASK_EVERY_END = """
import json, sys
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from damage import encoded, flipped, rows_of
from dmscdc.history.lookup import measure
from dmscdc.lake.parquet.write import lake_file_of

raw, file = encoded(rows_of("U")), Path(sys.argv[1])
begin, looked, unknown, words = raw.rindex(bytes([2]) + b"id") - 8, 0, 0, 0
for place in range(begin, begin + 130):
    for bit in range(8):
        file.write_bytes(flipped(raw, place, bit))
        try: there = pq.ParquetFile(file)
        except (OSError, pa.ArrowException): continue
        looked += 1
        try: bounds = measure(there, ["id"]).groups[-1].bounds[0], lake_file_of(str(file), "", "", ["id"]).low
        except Exception: words += 1
        else: unknown += bounds[0] == (None, None)
print(json.dumps([looked, unknown, words]))
"""


def test_whatever_is_damaged_in_a_file_s_end_the_process_lives(tmp_path):
    "Every bit of what the last row group says of its id. In a process of its own, which may die."
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", ASK_EVERY_END, tmp_path / "end.parquet"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    looked, unknown, words = json.loads(done.stdout)
    assert looked > 300 and unknown > 5 and words < 20, (looked, unknown, words)
