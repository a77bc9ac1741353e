"""The loads of dmscdc against the usual recipe, on the same data, in one run: python bench/run.py (make bench)

10 million rows and 100,000 changes in 60 files, keys at random and keys of recent rows. Everything lies under .bench/.
The contenders alternate, each in a process of its own with a session on two cores; the start of Spark is not counted.
Read the ratios: seconds are those of this machine and of what else it does. `cpu`: seconds of the processor, all processes together.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

import duckdb
from gen import generate
from planning import measure_planning

HERE = Path(__file__).parent
WHERE = HERE.parent / ".bench"
CONTENDERS = {
    "recipe": ("usual_recipe.py", ""),
    "dmscdc": ("ours.py", "lake/sampledb/productorder"),
    "duckdb": ("peer_duckdb.py", ""),
}
PHASES = ("initial_s", "initial_cpu", "incremental_s", "incremental_cpu")


def data(options: argparse.Namespace, skew: str) -> Path:
    "The raw data, generated once for these numbers."
    raw = WHERE / f"raw-{options.rows}-{options.changes}-{options.files}-{options.seed}-{skew}"
    if not (raw / "expected.parquet").exists():
        tell(f"generating {raw.name}")
        generate(raw, options.rows, options.changes, options.files, options.seed, skew)
    return raw


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def check(table: Path, expected: Path) -> dict[str, int]:
    "What an independent reader of the folder finds: rows, keys that stand twice, rows that one side has and the other has not."
    db = duckdb.connect(config={"memory_limit": "4GB", "temp_directory": str(WHERE / "spill")})
    db.execute(f"create view got as select id, qty, soldprice from '{table}/**/*.parquet'")
    db.execute(f"create view want as select id, qty, soldprice from '{expected}'")
    rows, keys = db.execute("select count(*), count(distinct id) from got").fetchone()
    more, less = (
        db.execute(f"select count(*) from (from {a} except all from {b})").fetchone()[0]
        for a, b in (("got", "want"), ("want", "got"))
    )
    return {"rows": rows, "duplicate_keys": rows - keys, "differing": more + less}


def run(name: str, raw: Path) -> dict[str, object]:
    "One contender from nothing to the end; its folder is removed again."
    script, below = CONTENDERS[name]
    out = WHERE / "out" / name
    shutil.rmtree(out, ignore_errors=True)
    with Path(WHERE, f"{name}.log").open("w") as log:  # what Spark says beside the result
        done = subprocess.run([sys.executable, HERE / script, raw, out], stdout=subprocess.PIPE, stderr=log, text=True)
    if done.returncode:
        raise SystemExit(f"{name} ended with {done.returncode}; see {log.name}")
    said = {"name": name, **json.loads(done.stdout.splitlines()[-1]), **check(out / below, raw / "expected.parquet")}
    shutil.rmtree(out)
    return said


def contest(options: argparse.Namespace, skew: str) -> list[dict[str, object]]:
    "All repetitions; every second one runs in the other direction, so that noise and warm disks hit all alike."
    names, raw, runs = ["recipe", "dmscdc", *options.peers], data(options, skew), []
    for turn in range(options.times):
        for name in names if turn % 2 == 0 else names[::-1]:
            runs.append({"keys": skew, "turn": turn, **run(name, raw)})
            tell(json.dumps(runs[-1]))
    return runs


def summary(runs: list[dict[str, object]]) -> list[dict[str, object]]:
    "One line a contender and skew: medians, and how many times faster than the recipe."
    lines = []
    for keys, name in dict.fromkeys((r["keys"], r["name"]) for r in runs):
        mine, recipe = ([r for r in runs if (r["keys"], r["name"]) == (keys, who)] for who in (name, "recipe"))
        line = {"keys": keys, "name": name, **{p: round(median(r[p] for r in mine), 2) for p in PHASES}}
        for p in PHASES:
            line[p.replace("_s", "_ratio").replace("_cpu", "_cpu_ratio")] = round(
                line[p] / median(r[p] for r in recipe), 3
            )
        line |= {
            what: max(r.get(what, 0) for r in mine)
            for what in ("files_rewritten", "java_mb", "differing", "duplicate_keys")
        }
        lines.append(line)
    return lines


def table(lines: list[dict[str, object]]) -> str:
    "The result for people. Ratios: 0.20 is a fifth of the recipe's time."
    heads = (
        "keys",
        "",
        "initial s",
        "ratio",
        "cpu",
        "incremental s",
        "ratio",
        "cpu",
        "cpu ratio",
        "files",
        "Java MB",
        "differing",
        "duplicates",
    )
    names = (
        "keys",
        "name",
        "initial_s",
        "initial_ratio",
        "initial_cpu",
        "incremental_s",
        "incremental_ratio",
        "incremental_cpu",
        "incremental_cpu_ratio",
        "files_rewritten",
        "java_mb",
        "differing",
        "duplicate_keys",
    )
    text = lambda v: v if isinstance(v, str) else f"{v:,.2f}" if isinstance(v, float) else f"{v:,}"
    rows = [heads, *[tuple(text(line[n]) for n in names) for line in lines]]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(v.ljust(w) if i < 2 else v.rjust(w) for i, (v, w) in enumerate(zip(row, widths))) for row in rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("rows", 10_000_000), ("changes", 100_000), ("files", 60), ("seed", 7), ("times", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--skew", choices=["uniform", "recent"], nargs="+", default=["uniform", "recent"])
    parser.add_argument("--peers", choices=["duckdb"], nargs="*", default=[])
    parser.add_argument("--no-planning", action="store_true", help="leave out the 200 idle tables and the 2,500 files")
    parser.add_argument("--json", action="store_true", help="print the results for machines")
    options = parser.parse_args()
    WHERE.mkdir(exist_ok=True)
    runs = [r for skew in options.skew for r in contest(options, skew)]
    lines, planning = summary(runs), {} if options.no_planning else measure_planning(WHERE / "planning")
    results = {"options": vars(options), "summary": lines, "planning": planning, "runs": runs}
    (WHERE / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    print(
        json.dumps(results)
        if options.json
        else "\n".join([table(lines), *[f"{what}: {n}" for what, n in planning.items()]])
    )
    return int(any(line["differing"] or line["duplicate_keys"] for line in lines if line["name"] == "dmscdc"))


if __name__ == "__main__":
    sys.exit(main())
