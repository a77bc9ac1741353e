"""How fast these files can be read, folded and written at all: DuckDB rewrites the whole table into one file. No commit, no history.

python bench/peer_duckdb.py RAW OUT   prints one line of JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import duckdb
from measure import phase

FOLD = """copy (
    with changes as (from read_parquet('{raw}/2*.parquet', filename = true, file_row_number = true)),
         last as (from changes qualify row_number() over (partition by id order by filename desc, file_row_number desc) = 1)
    from '{out}/load.parquet' t where not exists (from last where last.id = t.id)
    union all by name
    select * exclude (filename, file_row_number) from last where Op <> 'D') to '{out}/table.parquet'"""


def main(raw: str, out: str) -> None:
    db, said, folder = duckdb.connect(config={"threads": 2}), {}, f"{raw}/sampledb/productorder"
    shutil.rmtree(out, ignore_errors=True)
    Path(out).mkdir(parents=True)
    with phase("initial", said):
        db.execute(f"copy (from '{folder}/LOAD*.parquet') to '{out}/load.parquet'")
    with phase("incremental", said):
        db.execute(FOLD.format(raw=folder, out=out))
        Path(out, "load.parquet").unlink()
    print(json.dumps({**said, "files_rewritten": 1}))


if __name__ == "__main__":
    main(*sys.argv[1:])
