"""Make the picture of a row's life beside this file again: a product of the shop is renamed, deleted and comes back, and one file is late.

    .venv/bin/python runs/example/life.py

The picture needs Chromium (Debian: apt-get install chromium).
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import tempfile
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

from dmscdc.capture.shop import COLUMNS, PRODUCTS, SCHEMA
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.history.audit import audit_row
from dmscdc.history.row_page import page
from dmscdc.lake.table import open_table
from dmscdc.landing.files import TableRef
from dmscdc.service.config import read_config, write_config
from dmscdc.service.passes import run_pass
from dmscdc.state.registry import open_state

HERE, PRODUCT, SHAPE, LAMP = Path(__file__).parent, TableRef(SCHEMA, "product"), COLUMNS["product"], PRODUCTS[0]
BEGIN = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
LATE = (12, 95, ("U", 1001, "Sample Product", *LAMP[2:4], "42.50"))  # minutes at which it is closed and put
HAPPENED = [
    (3, 3, ("U", 1001, "Sample Product", *LAMP[2:])),
    (20, 20, ("U", 1001, "Trail Lantern 350", *LAMP[2:4], "44.00")),
    (45, 45, ("D", 1001, "Trail Lantern 350", *LAMP[2:4], "44.00")),
    (70, 70, ("I", 1001, "Trail Lantern 400", *LAMP[2:4], "49.00")),
]
WINDOW = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --hide-scrollbars --force-device-scale-factor=0.8 --window-size=1240,1110"


def put(landing: Path, closed: int, at: int, row: tuple) -> None:
    "One change in a file, closed and put so many minutes after the beginning."
    time = BEGIN + timedelta(minutes=at, seconds=1)
    write_changes(landing, PRODUCT, [row], BEGIN + timedelta(minutes=closed), SHAPE, time=time)


def live(home: Path) -> str:
    "Three passes: the load, what happened, and the file that came late. The page of the row afterwards."
    write_config(home, landing="landing", lake="lake", quiet_period=0)
    config = read_config(home)
    open_state(config.state, config.landing).put_settings(PRODUCT, key="id")
    write_load(config.landing, PRODUCT, PRODUCTS, SHAPE, time=BEGIN)
    run_pass(config)
    for one in HAPPENED:
        put(config.landing, *one)
    run_pass(config)
    put(config.landing, *LATE)
    run_pass(config)
    stories, _ = audit_row(config.landing, open_table("parquet", config.lake, PRODUCT), {"id": 1001})
    return page(str(PRODUCT), stories)


def chunks(image: bytes) -> dict[bytes, bytes]:
    "The parts of a PNG, those of one kind joined."
    found, at = {}, 8
    while at < len(image):
        size, kind = struct.unpack(">I4s", image[at : at + 8])
        found[kind] = found.get(kind, b"") + image[at + 8 : at + 8 + size]
        at += size + 12
    return found


def unfiltered(lines: np.ndarray) -> np.ndarray:
    "The bytes of the pixels, out of lines whose first byte names their filter (PNG, section 9)."
    done = np.zeros((len(lines) + 1, lines.shape[1] + 2), np.uint8)  # a line above, a pixel at the left
    for y, (kind, *line) in enumerate(lines.tolist(), 1):
        above, here = done[y - 1].tolist(), [0, 0, 0]
        for x, value in enumerate(line, 3):
            left, up, corner = here[x - 3], above[x], above[x - 3]
            near = min((left, up, corner), key=lambda one: abs(left + up - corner - one))
            here.append(value + (0, left, up, (left + up) // 2, near)[kind] & 255)
        done[y] = here
    return done[1:, 3:]


def fewer_colours(path: Path) -> None:
    "The same picture by a palette: a page has few colours, and text many shades of them, of which near ones become one."
    parts = chunks(path.read_bytes())
    width, height = struct.unpack(">II", parts[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    pixels, step = unfiltered(lines).reshape(-1, 3).astype(int), 0
    while len(palette := np.unique(np.minimum(pixels // (step + 1) * (step + 1) + step, 255), axis=0)) > 256:
        step += 1
    shades = np.minimum(pixels // (step + 1) * (step + 1) + step, 255)
    _, places = np.unique(shades, axis=0, return_inverse=True)
    rows = np.insert(places.reshape(height, width).astype(np.uint8), 0, 0, axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    kept = [
        (b"IHDR", head),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    ]
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in kept
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(packed))


def picture(html: Path) -> None:
    "The page as a person sees it."
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("no chromium: no picture")
        return
    with tempfile.TemporaryDirectory() as profile:
        places = [f"--user-data-dir={profile}", f"--screenshot={HERE / 'row_life.png'}", html.as_uri()]
        subprocess.run([browser, *WINDOW.split(), *places], check=True, capture_output=True, timeout=120)
    fewer_colours(HERE / "row_life.png")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "life.html")
        told.write_text(live(Path(folder) / "shop"), encoding="utf-8")
        picture(told)
