"""Raw data as DMS shapes it: python bench/gen.py OUT --rows N --changes M --files F [--seed S] [--skew uniform|recent]

OUT/sampledb/productorder/LOAD0000000k.parquet   N rows, ids 1..N
OUT/sampledb/productorder/<time>.parquet         F files that hold M changes in commit order: 60 % updates, 25 % inserts,
    15 % deletes; a tenth of the keys change more than once, also inside one file. `recent`: only the newest 5 % of the keys.
OUT/expected.parquet  the rows a correct load ends with (id, qty, soldprice), from a plain replay.
"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SEEN = ["id", "qty", "soldprice"]  # what is compared


def orders(rng: np.random.Generator, ids: np.ndarray, ops: np.ndarray) -> pa.Table:
    "One row an order."
    n, random = len(ids), lambda low, high: pa.array(rng.integers(low, high, len(ids)).astype("int32"))
    note = pc.binary_join_element_wise("order note", pa.array(ids * 2654435761 % (1 << 32)).cast(pa.string()), " ")
    return pa.table(
        {
            "Op": pa.array(ops),
            "id": pa.array(ids.astype("int32")),
            "productid": random(1001, 1026),
            "storeid": random(1001, 1009),
            "qty": random(1, 11),
            "soldprice": random(1, 10_000).cast(pa.decimal128(12, 2)).cast(pa.decimal128(10, 2)),
            "note": note,
            "create_dt": pa.array(np.datetime64("2018-11-01") + rng.integers(0, 30, n)),
        }
    )


def change_keys(rng: np.random.Generator, rows: int, changes: int, skew: str) -> tuple[np.ndarray, np.ndarray]:
    "Key and Op of every change; a deleted key comes back by an insert only."
    kinds = rng.choice(["U", "I", "D"], changes, p=[0.6, 0.25, 0.15])
    keys = rng.integers(1 if skew == "uniform" else int(rows * 0.95), rows + 1, changes)
    again = rng.random(changes) < 0.1
    keys[1:][again[1:]] = keys[:-1][again[1:]]
    new, dead = rows + 1, set()
    for i, key in enumerate(keys.tolist()):
        if kinds[i] == "I":
            keys[i], new = new, new + 1
        elif key in dead:
            kinds[i] = "I"
            dead.discard(key)
        elif kinds[i] == "D":
            dead.add(key)
    return keys, kinds


def generate(
    out: Path, rows: int, changes: int, files: int = 60, seed: int = 7, skew: str = "uniform", loads: int = 4
) -> None:
    "Write everything; `expected.parquet` last, so that its presence means a complete folder."
    shutil.rmtree(out, ignore_errors=True)
    folder, rng, base = out / "sampledb" / "productorder", np.random.default_rng(seed), []
    folder.mkdir(parents=True)
    for k, ids in enumerate(np.array_split(np.arange(1, rows + 1), loads), 1):
        load = orders(rng, ids, np.full(len(ids), "I"))
        pq.write_table(load, folder / f"LOAD{k:08X}.parquet")
        base.append(load.select(SEEN))
    keys, kinds = change_keys(rng, rows, changes, skew)
    rest = orders(rng, keys, kinds)
    for k, part in enumerate(np.array_split(np.arange(changes), files)):
        closed = dt.datetime(2026, 1, 1) + dt.timedelta(minutes=k)
        pq.write_table(rest.slice(part[0], len(part)), folder / f"{closed:%Y%m%d-%H%M%S}123.parquet")
    last = dict(zip(keys.tolist(), range(changes)))
    kept = pa.array(~np.isin(np.arange(1, rows + 1), np.array(list(last))))
    newest = rest.take(pa.array(sorted(last.values()))).filter(pc.field("Op") != "D").select(SEEN)
    pq.write_table(pa.concat_tables([pa.concat_tables(base).filter(kept), newest]), out / "expected.parquet")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    for name, value in (("rows", 1_000_000), ("changes", 20_000), ("files", 20), ("seed", 7), ("loads", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--skew", choices=["uniform", "recent"], default="uniform")
    generate(**vars(parser.parse_args()))
