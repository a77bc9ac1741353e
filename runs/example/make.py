"""Make the example beside this file again: two passes over the shop, one table refused in the second, and a picture of the front page.

    .venv/bin/python runs/example/make.py

The picture needs Chromium (Debian: apt-get install chromium); without it everything else is made.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from dmscdc.capture.shop import COLUMNS, SCHEMA
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.demo import change_shop, open_shop, set_up
from dmscdc.runs.log import started_by
from dmscdc.service.passes import run_pass

HERE = Path(__file__).parent
KEPT = (".ipynb", ".html", ".jsonl")  # not the log of Spark, which is about this machine
NO_KEY = ("U", None, "Sample Product", "Sample Dept", "Sample Category", "39.00")
CHROMIUM = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --window-size=1200,1290"
)


def make(home: Path) -> None:
    "Two passes. In the second, a change of `product` has lost its key, and a table is new."
    source = open_shop(home)
    config = set_up(home)
    source.full_load(config.landing)
    run_pass(config)
    change_shop(home)
    source.drain(config.landing)
    write_changes(config.landing, f"{SCHEMA}.product", [NO_KEY], datetime.now(timezone.utc), COLUMNS["product"])
    write_load(config.landing, f"{SCHEMA}.customer", [(1, "Ada"), (2, "Grace")], {"id": "int", "name": "string"})
    run_pass(config)


def keep(home: Path) -> None:
    "Take the runs over in place of the old ones, without the folders and the name of this machine."
    for old in HERE.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
        elif old.name not in ("make.py", "life.py", "row_life.png"):
            old.unlink()
    for run in sorted((home / "runs").rglob("*")):
        if run.suffix in KEPT:
            text = run.read_text(encoding="utf-8").replace(f"{home}/", "").replace(f"{socket.gethostname()}:", "host:")
            text = re.sub(r'<p class="soft">Relative places are below .*?</p>', "", text)
            text = text.replace(started_by(), "ada on shop-1, typed in a terminal")
            kept = HERE / run.relative_to(home / "runs")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(text, encoding="utf-8")


def picture() -> None:
    "The front page as a person sees it."
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("no chromium: no picture")
        return
    with tempfile.TemporaryDirectory() as profile:
        places = [
            f"--user-data-dir={profile}",
            f"--screenshot={HERE / 'front_page.png'}",
            (HERE / "index.html").as_uri(),
        ]
        subprocess.run([browser, *CHROMIUM.split(), *places], check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "shop")
        keep(Path(folder) / "shop")
    picture()
