"""Executes notebooks and compares what their cells show with the outputs that git keeps; `--write` keeps the new ones.

    python tests/rooms.py notebooks/08_load                   all of them in one process, so with one Java
    python tests/rooms.py --apart notebooks/04_spark          each in a process of its own
    python tests/rooms.py --write notebooks/08_load/02_plan.ipynb

Tests that execute an exploration compare it, or keep it with `OUTPUTS=write`, in the same way.

A cell is shown unless it carries `#| hide`; one with `#| eval: false` keeps the outputs that it has. Kept are what it prints, and its results as text, HTML, Markdown and pictures.
Nothing is made equal that a reader would see different. Not kept, so not compared, are:

* stderr: Java, Spark and warnings write there what differs by machine;
* other media types, such as those that tools read;
* execution counts and metadata, which nbdev's cleaning removes too.

A cell that shows a path, an address, a key or an error is named when outputs are written: it needs a stable value or `#| hide`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SHOWN = ("text/plain", "text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg")
MACHINE = {  # what no output may hold
    "an absolute path": r"(?<![\w.:/])/(home|root|tmp|work|Users|var|private|opt)/\w",
    "an address in memory": r" at 0x[0-9a-f]{6,}",
    "a port of this machine": r"(localhost|127\.0\.0\.1):[3-6]\d{4}\b",
    "an AWS key": r"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
    "a URL with a password": r"\w://[^/\s:@\"]*:[^/\s@\"*]+@",
    "an error": r'"output_type": "error"',
}
LINES = 30  # of a difference
ACTION = os.environ.get("OUTPUTS", "compare")  # compare, write, or run, which compares nothing


def on_this_machine(shown: Any) -> list[str]:
    "What outputs hold that another machine or another day would show otherwise."
    text = json.dumps(shown, ensure_ascii=False)
    found = {what: re.search(pattern, text) for what, pattern in MACHINE.items()}
    return [f"{what}: …{text[max(0, one.start() - 60) : one.end() + 20]}…" for what, one in found.items() if one]


def joined(value: Any) -> Any:
    return "".join(value) if isinstance(value, list) else value


WIDGET = "application/vnd.jupyter.widget-view+json"


def comparable(outputs: list[dict]) -> list[dict]:
    "The outputs of a cell as they are kept: text as one string, prints that follow each other as one."
    found: list[dict] = []
    for one in outputs:
        if one["output_type"] == "stream":
            if one["name"] == "stderr":
                continue
            if found and found[-1]["output_type"] == "stream":
                found[-1]["text"] += joined(one["text"])
            else:
                found.append({"output_type": "stream", "name": "stdout", "text": joined(one["text"])})
        elif WIDGET in one.get("data", ()):
            continue  # fields to choose by, of which only the reader's JupyterLab knows
        elif one["output_type"] == "error":
            found.append({"output_type": "error", "ename": one["ename"], "evalue": one["evalue"], "traceback": []})
        elif data := {kind: joined(value) for kind, value in one["data"].items() if kind in SHOWN}:
            found.append({"output_type": one["output_type"], "data": data})
    return found


def as_kept(outputs: list[dict]) -> list[dict]:
    "The same in the form of a notebook."
    found = []
    for one in outputs:
        if one["output_type"] == "stream":
            found.append({**one, "text": one["text"].splitlines(keepends=True)})
        elif one["output_type"] == "error":
            found.append(one)
        else:
            data = {kind: value if kind in ("image/png", "image/jpeg") else value.splitlines(keepends=True) for kind, value in one["data"].items()}
            number = {"execution_count": None} if one["output_type"] == "execute_result" else {}
            found.append({**one, "data": data, "metadata": {}, **number})
    return found


def lines_of(outputs: list[dict]) -> list[str]:
    "Outputs as lines, for a difference that people read."
    found = []
    for one in outputs:
        parts = (
            {"printed": one["text"]} if one["output_type"] == "stream" else one.get("data") or {"error": f"{one.get('ename')}: {one.get('evalue')}"}
        )
        for kind, text in parts.items():
            found += [f"[{kind}]", *text.splitlines()]
    return [line if len(line) <= 300 else f"{line[:300]}… ({len(line)} characters)" for line in found]


def difference(kept: list[dict], now: list[dict]) -> list[str]:
    "What has changed, marked as diff does: - is kept, + is shown now."
    lines = [line for line in difflib.unified_diff(lines_of(kept), lines_of(now), lineterm="", n=1) if not line.startswith(("---", "+++", "@@"))]
    lines = lines or ["(the same lines, but for their ends or what lies beyond 300 characters of a line)"]
    return lines[:LINES] + [f"… {len(lines) - LINES} more lines"] * (len(lines) > LINES)


class Room:
    "A notebook: its cells as they lie in git, what each shows now, and what is wrong."

    def __init__(self, path: Path):
        self.path, self.book = path, json.loads(path.read_text(encoding="utf-8"))
        self.now: dict[int, list[dict]] = {}  # outputs by the number of a cell
        self.seconds, self.error = 0.0, ""

    def execute(self, skip: set[str]) -> Room:
        "Every cell as nbdev_test does it: those with a flag of `skip` or `eval: false` are left out, and the first error ends it."
        from execnb.shell import CaptureShell
        from fastcore.xtras import working_directory
        from nbdev.process import NBProcessor

        begin, shell = time.monotonic(), CaptureShell(self.path)
        try:
            with working_directory(self.path.parent):
                for number, cell in enumerate(NBProcessor(self.path, process=True).nb.cells):
                    marks = cell.directives_ or {}
                    if cell.cell_type != "code" or marks.get("eval:", [""])[0].lower() == "false" or skip & marks.keys():
                        continue
                    cell.outputs = []
                    shell.cell(cell)
                    if shell.exc:
                        raise shell.exc from None
                    self.now[number] = [] if "hide" in marks else comparable(cell.outputs)
        except BaseException:
            self.error = shell.prettytb(fname=self.path)
            if not shell.exc:
                raise
        self.seconds = time.monotonic() - begin
        return self

    def executed(self, copy: Path) -> Room:
        "What a copy shows that papermill has executed; its own cell of parameters is left out."
        cells = [
            cell for cell in json.loads(copy.read_text(encoding="utf-8"))["cells"] if "injected-parameters" not in cell["metadata"].get("tags", [])
        ]
        self.now = {
            number: [] if re.match(r"#\|\s*hide\b", joined(cell["source"])) else comparable(cell.get("outputs", []))
            for number, cell in enumerate(cells)
        }
        return self

    def wrong(self, action: str = ACTION) -> list[str]:
        "What is to be said of what the cells show."
        return self.error.splitlines() if self.error else self.write() if action == "write" else self.changes() if action == "compare" else []

    def code_cells(self) -> list[tuple[int, dict]]:
        "Those that are executed; what `#| eval: false` shows was made by hand, and a test of its own looks at it."
        cells = [(number, cell) for number, cell in enumerate(self.book["cells"]) if cell["cell_type"] == "code"]
        return [
            (number, cell) for number, cell in cells if not re.search(r"^#\|\s*eval:\s*false", joined(cell["source"]), re.IGNORECASE | re.MULTILINE)
        ]

    def changes(self) -> list[str]:
        "Cells that show something else than is kept, with the difference."
        found = []
        for number, cell in self.code_cells():
            kept, now = comparable(cell["outputs"]), self.now.get(number, [])
            if kept == now:
                continue
            what = "shows what is not kept" if not kept else "keeps what is not shown any more" if not now else "shows something else than is kept"
            found.append("\n".join([f"{self.path}, cell {number} ({cell['id']}) {what}:", *(f"    {line}" for line in difference(kept, now))]))
        return found

    def write(self) -> list[str]:
        "Keeps what is shown now. What belongs to this machine is named."
        for number, cell in self.code_cells():
            cell["outputs"], cell["execution_count"] = as_kept(self.now.get(number, [])), None
        self.path.write_text(json.dumps(self.book, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
        return [
            f"{self.path}, cell {number} ({cell['id']}) shows {what}"
            for number, cell in self.code_cells()
            for what in on_this_machine(cell["outputs"])
        ]


def notebooks_of(paths: list[Path]) -> list[Path]:
    "Notebooks, and those of folders in the order of their numbers."
    return [
        book.resolve()
        for path in paths
        for book in (sorted(path.rglob("*.ipynb")) if path.is_dir() else [path])
        if ".ipynb_checkpoints" not in book.parts
    ]


def run(books: list[Path], action: str) -> bool:
    "Executes notebooks in this process, one after the other; says what is wrong, and whether all is well."
    from nbdev.config import get_config

    config, wrong = get_config(), []
    sys.path.insert(0, str(config.config_path))
    os.environ["IN_TEST"] = "1"
    for book in books:
        room = Room(book).execute(set(config.tst_flags.split()))
        said = room.wrong(action)
        print(f"{book.relative_to(Path.cwd()) if book.is_relative_to(Path.cwd()) else book}: {len(room.now)} cells, {room.seconds:.1f} s", flush=True)
        print(*said, sep="\n", end="\n" * bool(said), file=sys.stderr, flush=True)
        wrong += said
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--write", dest="action", action="store_const", const="write", default=ACTION, help="keep what is shown now")
    parser.add_argument("--compare", dest="action", action="store_const", const="compare", help="with what is kept")
    parser.add_argument("--only-run", dest="action", action="store_const", const="run", help="execute, and compare nothing")
    parser.add_argument("--apart", action="store_true", help="a process for each notebook")
    asked = parser.parse_args()
    books = notebooks_of(asked.paths)
    if empty := [path for path in asked.paths if not notebooks_of([path]) or not path.exists()]:
        sys.exit(f"no notebooks: {', '.join(map(str, empty))}")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would kernels
    os.environ.update(COLUMNS="80", LINES="24")  # of a terminal that is not there, whoever starts this
    for name in ("FORCE_COLOR", "NO_COLOR", "PAGER", "PYTHONHASHSEED"):
        os.environ.pop(name, None)
    for name in [one for one in os.environ if one.startswith("AWS_") and one != "AWS_CA_BUNDLE"]:
        del os.environ[name]
    os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)  # nobody's account
    if not asked.apart:
        sys.exit(not run(books, asked.action))
    way = {"compare": "--compare", "write": "--write", "run": "--only-run"}[asked.action]
    sys.exit(any([subprocess.run([sys.executable, __file__, way, book]).returncode for book in books]))


if __name__ == "__main__":
    main()
