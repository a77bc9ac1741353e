"""Make the example beside this file anew: one pass over the shop in which one table is refused, and a picture of its front page.

    .venv/bin/python runs/example/make.py

The picture needs Chromium (Debian: apt-get install chromium); without it everything else is made.
"""
from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from dmscdc.controller import run_pass
from dmscdc.demo import happen, open_shop, set_up
from dmscdc.dms_writer import write_changes, write_load
from dmscdc.sample import COLUMNS, SCHEMA

HERE = Path(__file__).parent
CHROMIUM = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars --window-size=1100,900"


def make(home: Path) -> None:
    "Two passes; in the second, a change of `product` has no key, and a table is new."
    source = open_shop(home)
    config = set_up(home)
    source.full_load(config.landing)
    run_pass(config)
    happen(home)
    source.drain(config.landing)
    write_changes(config.landing, f"{SCHEMA}.product", [("U", None, "No key", "Sample Dept", "Sample Category", "1.00")], "20301215-100311204", COLUMNS["product"])
    write_load(config.landing, f"{SCHEMA}.customer", [(1, "Ada"), (2, "Grace")], {"id": "int", "name": "string"})
    run_pass(config)


def keep(home: Path) -> None:
    "Take the runs over, without this machine's folders."
    for old in HERE.iterdir():
        if old.name != "make.py": shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copytree(home / "runs", HERE, dirs_exist_ok=True)
    for path in HERE.rglob("*"):
        if path.is_file() and path.suffix in (".ipynb", ".html", ".jsonl"):
            path.write_text(path.read_text(encoding="utf-8").replace(str(home), "/data/shop"), encoding="utf-8")


def picture() -> None:
    "The front page as a person sees it."
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None: return print("no chromium: no picture")
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run([browser, *CHROMIUM.split(), f"--user-data-dir={profile}", f"--screenshot={HERE / 'front_page.png'}", (HERE / "index.html").as_uri()], check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "shop")
        keep(Path(folder) / "shop")
    picture()
