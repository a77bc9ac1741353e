"""Each table format through dmscdc beside the MERGE or upsert that a user would write: python bench/formats.py delta iceberg hudi

The data is that of bench/run.py, under .bench/. Each contender is a process of its own with a session on two cores; Spark's start is not counted.
Delta's and Iceberg's MERGE run twice: as they come, and with rows marked as removed instead of files written again (deletion vectors,
merge-on-read), which leaves work to every reader. Hudi runs on the Spark 3.5 that `make proof` installs. Read the ratios, which are of one run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from run import HERE, WHERE, data, tell

PEERS = {
    "delta": ["delta", "delta-vectors"],
    "iceberg": ["iceberg", "iceberg-mor"],
}  # of other formats: the format itself
SECOND = HERE.parent / ".spark35" / "bin" / "python"


def contend(script: str, format: str, raw: Path) -> dict[str, object]:
    "One contender from nothing to the end, and the bytes that it leaves."
    out, python = WHERE / "out" / f"{format}-{script}", SECOND if format.startswith("hudi") else sys.executable
    with Path(WHERE, f"{format}-{script}.log").open("w") as log:
        done = subprocess.run([python, HERE / script, raw, out, format], stdout=subprocess.PIPE, stderr=log, text=True)
    if done.returncode:
        raise SystemExit(f"{script} {format} ended with {done.returncode}; see {log.name}")
    lake = out / "lake" if script == "ours.py" else out
    size = sum(path.stat().st_size for path in lake.rglob("*") if path.is_file())
    shutil.rmtree(out)
    return {**json.loads(done.stdout.splitlines()[-1]), "bytes": size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="+")
    for name, default in (("rows", 10_000_000), ("changes", 100_000), ("files", 60), ("seed", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--keys", default="uniform,recent")
    options = parser.parse_args()
    print(
        "format    keys     peer           load  peer  ratio   changes  peer  ratio   MB  peer   Java MB  peer  differing"
    )
    for format in options.formats:
        for keys in options.keys.split(","):
            raw = data(options, keys)
            ours = contend("ours.py", format, raw)
            for name in PEERS.get(format, [format]):
                peer = contend("peer_format.py", name, raw)
                tell(json.dumps({"format": format, "keys": keys, "ours": ours, "name": name, "peer": peer}))
                pair = lambda what: f"{ours[what]:8.1f} {peer[what]:5.1f}  {ours[what] / peer[what]:5.2f}"
                mega = [one["bytes"] / 1e6 for one in (ours, peer)]
                print(
                    f"{format:9} {keys:8} {name:13}{pair('initial_s')} {pair('incremental_s')} {mega[0]:5.0f} {mega[1]:5.0f}"
                    f" {ours['java_mb']:9} {peer['java_mb']:5}  {ours['differing']}, {peer['differing']}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
