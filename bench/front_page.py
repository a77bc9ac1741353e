"""How long the front page takes: to open in a browser, to be written from nothing, and after a pass that ran one table.

    .venv/bin/python bench/front_page.py [TABLES] [RUNS]

50 tables with 500 runs each are the default; the runs are lines of a run log, as 500 passes leave them. Needs Chromium (Debian: apt-get install chromium).
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from dmscdc.runs.log import LoggedRun, RunLog
from dmscdc.runs.pages import write_front_page

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
FLAGS = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync --no-first-run".split()
PAINTED = """() => new Promise((done) => {
  const look = () => {
    const [paint] = performance.getEntriesByName("first-contentful-paint"), [load] = performance.getEntriesByType("navigation");
    if (paint && load.domComplete) done(Math.max(paint.startTime, load.domComplete)); else requestAnimationFrame(look);
  };
  look();
})"""  # milliseconds since the page was asked for
WRONG = "LOAD1, row 3 of 20260103-100311204.parquet: key column id is null. Nothing was applied. Put the file right, then: dmscdc pass --only {}"


def stamp(time: datetime) -> str:
    "ISO 8601 as the run log has it."
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def a_line(table: str, number: int, luck: random.Random) -> dict[str, Any]:
    "A run of a table in the pass of a number, an hour after the one before."
    start = BEGIN + timedelta(hours=number, seconds=luck.randrange(60))
    verdict = luck.choices(["ok", "refused", "failed", "attention"], [95, 2, 2, 1])[0]
    rows = (
        {name: luck.randrange(most) for name, most in (("inserted", 900), ("updated", 2_000), ("deleted", 90))}
        if verdict == "ok"
        else {}
    )
    path = f"process_table/{table}/{start:%Y%m%dT%H%M%S}000Z-{luck.randrange(16**8):08x}"
    words = (
        "3 change files applied: " + ", ".join(f"{count:,} {name}" for name, count in rows.items())
        if rows
        else WRONG.format(table)
    )
    return {
        "run": path[-8:], "job": "process_table", "table": table, "start": stamp(start), "end": stamp(start + timedelta(seconds=8)), "verdict": verdict,
        "words": words, "cause": "" if rows else "cell error", "command": f"dmscdc pass --only {table}", "rows": {**rows, "read": sum(rows.values())}, "files": 3,
        "bytes_written": luck.randrange(10**7), "lag": luck.randrange(900) if rows else None, "notebook": f"{path}.ipynb", "html": f"{path}.html",
    }  # fmt: skip


def a_pass(number: int) -> dict[str, Any]:
    "The line of a pass."
    start, nothing = (
        BEGIN + timedelta(hours=number),
        {"rows": {}, "files": 0, "bytes_written": 0, "lag": None, "notebook": "", "html": ""},
    )
    said = {"verdict": "ok", "words": "all tables", "cause": "", "command": "dmscdc pass"}
    return {
        "run": f"pass{number:05d}",
        "job": "pass",
        "table": None,
        "start": stamp(start),
        "end": stamp(start + timedelta(seconds=90)),
        **said,
        **nothing,
    }


def lines(tables: int, passes: int) -> list[dict[str, Any]]:
    "A run log: every table ran in every pass."
    luck, names = random.Random(7), [f"sampledb.table_{number:03d}" for number in range(tables)]
    return [
        line for number in range(passes) for line in (*(a_line(name, number, luck) for name in names), a_pass(number))
    ]


def statuses(tables: int) -> list[dict[str, Any]]:
    "What a look at all tables knows of the tables."
    return [
        {"table": f"sampledb.table_{number:03d}", "state": "ready", "rows": 1_000 * number, "lag": 60 * number}
        for number in range(tables)
    ]


def opened(page: Path, times: int = 5) -> list[float]:
    "Seconds until the page is painted, each in a context of its own that is offline."
    from playwright.sync_api import sync_playwright

    found = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for _ in range(times):
            context = browser.new_context(offline=True)
            shown = context.new_page()
            shown.goto(page.as_uri())
            found.append(shown.evaluate(PAINTED) / 1000)
            context.close()
        browser.close()
    return found


def timed(what: str, runs: Path, count: int) -> None:
    "Write the front page and say how long it took."
    begin = time.perf_counter()
    write_front_page(runs, statuses(count))
    print(f"{what}: {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    tables, passes = map(int, sys.argv[1:3] or (50, 500))
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        runs.mkdir()
        (runs / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines(tables, passes)))
        timed(f"written from a run log of {tables * passes:,} runs", runs, tables)
        timed("written again, nothing is new", runs, tables)
        RunLog(runs).append(LoggedRun.from_json(a_line("sampledb.table_007", passes, random.Random(8))))
        RunLog(runs).append(LoggedRun.from_json(a_pass(passes)))
        timed("written after a pass that ran one table", runs, tables)
        for page in (runs / "index.html", runs / "tables" / "sampledb.table_007.html"):
            seconds = opened(page)
            print(
                f"{page.name}: {page.stat().st_size / 1000:,.0f} kB, painted after {max(seconds):.2f} s at most of {len(seconds)} times"
            )
        if len(sys.argv) == 4:
            shutil.copytree(runs, sys.argv[3])
