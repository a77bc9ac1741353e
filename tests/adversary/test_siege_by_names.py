"""Tables, columns and values with names that strangers chose, through a pass and every command, page and notebook: nothing of them is obeyed, and nothing lies outside.

What would be obeyed leaves a mark: a file called OWNED, a variable of a page, or a request."""

from __future__ import annotations

import base64
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.landing.files import FolderLanding, TableRef

pytestmark = pytest.mark.proof

SCRIPT = "<img src=x onerror=window.OWNED=1>"
NAMES = [  # what a folder can be called; those that steer a terminal are no tables (test_locks.py)
    f"$$x$${SCRIPT}",
    "<script>OWNED=1<",
    "&lt;b&gt;",
    '"><svg onload=OWNED=1>',
    "' onclick='OWNED=1",
    "<title><b>",
    "javascript:OWNED=1",
    "{{7*7}}",
    "{% raw %}",
    "[a](javascript:OWNED=1)",
    "-x",
    "--ServerApp.port=1",
    "--help",
    "--folder=OWNED",
    "$(touch OWNED)",
    "`touch OWNED`",
    "; touch OWNED",
    "' && touch OWNED '",
    'a"b',
    "\\",
    "%2e%2e",
    "..OWNED",
    "~",
    "*",
    "?",
    "a b",
    "=1+1",
    "@SUM(1)",
    "日本語",
    "שלום",
    "x" * 180,
    "3 tables: 3 ok",
]
ODD = [SCRIPT, "=cmd|' /C calc'!A1", "-x", "end\n9 tables: 9 ok\x1b[2J", "\u202egnp"]  # columns, and the values in them
ROWS = [{"id": n, **{one: one for one in ODD}} for n in (1, 2)]
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
TABLES = [TableRef("shop", name) for name in NAMES]


def put(landing: Path, table: TableRef) -> None:
    folder = landing / table.schema / table.name
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "LOAD00000001.parquet")
    changed = pa.Table.from_pylist([{"Op": "U", **ROWS[0], SCRIPT: "<script>OWNED=1</script>"}, {"Op": "D", **ROWS[1]}])
    pq.write_table(changed, folder / "20300101-000000000.parquet")


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    "A folder after a pass, and what each command wrote on the screen."
    home = tmp_path_factory.mktemp("siege") / "house"
    home.mkdir()
    for table in TABLES:
        put(home / "landing", table)
    env = {**os.environ, "COLUMNS": "200"}
    said = {}

    def typed(*words: str) -> None:
        "In a process of its own, as a user types it."
        done = subprocess.run([Path(sys.executable).with_name("dmscdc"), *words], cwd=home, capture_output=True, text=True, timeout=900, env=env)
        said[shlex.join(words)] = done.stdout + done.stderr

    def asked(*words: str) -> None:
        done = CliRunner().invoke(app, [*words, "--folder", str(home)])
        assert done.exit_code in (0, 3) and not isinstance(done.exception, Exception), (words, done.output, done.exception)
        said[shlex.join(words)] = done.output

    typed("init", "--landing", "landing", "--lake", "lake", "--quiet-period", "0", "--driver-memory", "2g")
    for table in TABLES:
        asked("table", "set", str(table), "--key", "id")
    typed("pass")
    for words in (
        "doctor",
        "plan",
        "status",
        "status --json",
        "runs list",
        "runs list --json",
        "quarantine list",
        "maintain lake",
        "maintain raw --delete",
    ):
        asked(*words.split())
    for table in TABLES:
        name = str(table)
        for words in (
            ["history", name, "--key", "id=1"],
            ["find", name, "id = 1"],
            ["changes", name],
            ["blame", name, "--key", "id=1"],
            ["runs", "list", "--table", name],
            ["lab", name, "--no-open"],
        ):
            asked(*words)
    asked("history", str(TABLES[0]), "--key", "id=1", "--json")
    asked("runs", "html")
    return home, said


def test_every_table_is_loaded_and_nothing_lies_outside(house):
    home, said = house
    assert f"{len(NAMES)} tables: {len(NAMES)} ok" in said["pass"].splitlines(), said["pass"][-3000:]
    for table in TABLES:
        rows = pa.concat_tables(pq.read_table(file).select(["id", SCRIPT]) for file in home.glob(f"lake/shop/{glob_of(table.name)}/*.parquet"))
        assert rows.to_pylist() == [{"id": 1, SCRIPT: "<script>OWNED=1</script>"}], table
    assert {path.name for path in home.parent.iterdir()} == {"house"} and not [path for path in home.parent.rglob("OWNED*")]
    books = {path.name for path in home.iterdir()} - {"dmscdc.toml", "landing", "lake", "runs", "state.db"}
    assert books == {f"{table}.ipynb" for table in TABLES}
    assert [table.name for table in FolderLanding(home / "landing").tables()] == sorted(NAMES)


def glob_of(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


def test_no_command_lets_a_name_or_a_value_steer_the_terminal_or_forge_a_line(house):
    for command, text in house[1].items():
        assert not STEERING.search(text), command
        assert "9 tables: 9 ok" not in [line.strip() for line in text.splitlines()], command


def test_no_page_of_the_pass_runs_or_fetches_anything(house, browser):
    pages = sorted((house[0] / "runs").rglob("*.html"))
    assert len(pages) > 2 * len(NAMES)
    asked, context = [], browser.new_context(offline=True)
    context.on("request", lambda one: asked.append(one.url))
    page = context.new_page()
    for path in pages:
        page.goto(path.as_uri())
        assert page.evaluate("[typeof window.OWNED, document.querySelectorAll('img[src=x], svg[onload], [onerror], [onclick]').length]") == [
            "undefined",
            0,
        ], path.name
        assert not STEERING.search(page.inner_text("body")), path.name
        for link in page.eval_on_selector_all("a[href]", "all => all.map(one => one.href)"):
            assert not link.startswith("javascript:"), path.name
        for link in page.eval_on_selector_all("a[href^='data:text/csv']", "all => all.map(one => one.href)"):
            cells = re.split(r"[,\r\n]+", base64.b64decode(link.partition(",")[2]).decode())
            assert not [cell for cell in cells if re.match(r"\"?[=+@\t]|\"?-[^\d]", cell)], path.name
    assert asked and all(url.startswith("file://") for url in asked), [url for url in asked if not url.startswith("file://")]
    context.close()


@contextmanager
def jupyterlab(home: Path):
    "The address of a JupyterLab of its own over a folder."
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(8)
    words = [
        "--no-browser",
        "--allow-root",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={home}",
    ]
    settings = home.parent / "settings"
    tracker = settings / "@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
    tracker.parent.mkdir(parents=True)
    tracker.write_text('{"windowingMode": "none"}')  # every cell is drawn, not only those in sight
    env = {**os.environ, "JUPYTER_CONFIG_DIR": str(settings), "JUPYTERLAB_SETTINGS_DIR": str(settings)}
    with subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *words], stderr=subprocess.PIPE, text=True, cwd=home, env=env, start_new_session=True
    ) as server:
        try:
            for line in server.stderr:
                if f"127.0.0.1:{port}/lab" in line or f"localhost:{port}/lab" in line:
                    break
            threading.Thread(target=server.stderr.read, daemon=True).start()  # a full pipe would hold it up
            yield f"http://127.0.0.1:{port}/lab", token
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)  # a thread of its own can keep it from ending


def test_jupyterlab_shows_a_run_and_runs_nothing_of_it(house, browser):
    home, _ = house
    [book] = (home / "runs/process_table" / quote(str(TABLES[0]), safe=" $")).glob("*.ipynb")
    assert SCRIPT in book.read_text()
    with jupyterlab(home) as (url, token):
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{url}/tree/{quote(book.relative_to(home).as_posix())}?token={token}&reset")
        page.wait_for_selector(".jp-NotebookPanel .jp-RenderedHTMLCommon", timeout=60_000)
        page.wait_for_selector("text=OWNED", timeout=60_000, state="attached")
        shown = page.eval_on_selector_all(
            ".jp-RenderedHTML td, .jp-RenderedHTML p",
            "all => all.filter(one => one.textContent.includes('$$x$$')).map(one => Boolean(one.closest('.mathjax_ignore')))",
        )
        assert shown and all(shown)  # no formula, which could be drawn over other rows
        assert page.evaluate(
            "[typeof window.OWNED, document.querySelectorAll('.jp-NotebookPanel [onerror], .jp-NotebookPanel [onclick]').length]"
        ) == ["undefined", 0]
        context.close()
