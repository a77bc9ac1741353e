"How `make docs` builds the site: the guide, the pages, every notebook as it is kept, and the interface of the package."

from __future__ import annotations

import json
import re
from pathlib import Path

import dmscdc

project = "dmscdc"
release = dmscdc.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc"]
root_doc = "site"
exclude_patterns = ["index.ipynb", "jobs", "**/.ipynb_checkpoints"]
html_theme = "furo"
html_title = f"dmscdc {release}"
html_show_sourcelink = html_copy_source = False
html_show_search_summary = False  # it would be fetched, which a browser forbids for files
nb_execution_mode = "off"  # the outputs are those in git, which tests compare
myst_heading_anchors = 3
myst_enable_extensions = ["fieldlist"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
suppress_warnings = [
    "myst.header",
    "misc.highlighting_failure",
]  # a room may begin below H2; a cell may show half a line of JSON


def as_read(app, name: str, source: list[str]) -> None:
    "A page without links that lead out of the notebooks, and a notebook without hidden cells and `#| export`."
    if not str(app.env.doc2path(name)).endswith(".ipynb"):
        source[0] = within(source[0]).replace("<!-- results -->", results())
        return
    book = json.loads(source[0])
    source[0] = json.dumps({**book, "cells": [shown for cell in book["cells"] if (shown := as_shown(cell))]})


def results() -> str:
    "The newest kept result of each folder of tests, by tier."
    kept = Path(__file__).parents[1] / "tests" / "results.jsonl"
    lines = [line for line in map(json.loads, kept.read_text().splitlines()) if "folder" in line]
    newest = {(line["folder"], line["tier"]): line for line in sorted(lines, key=lambda line: line["date"])}
    rows = [
        f"| {folder} | {tier} | {line['date']} | {line['passed']:,} | {line['failed']:,} |"
        for (folder, tier), line in sorted(newest.items())
    ]
    return "\n".join(["| tests in | of | on | passed | failed |", "|---|---|---|---|---|", *rows])


def as_shown(cell: dict) -> dict | None:
    "A cell without its directives; None for one that readers do not see."
    text = "".join(cell["source"])
    directives = [line.replace(" ", "") for line in text.splitlines() if line.startswith("#|")]
    if any(one.startswith(("#|hide", "#|default_exp")) for one in directives) or text.strip() == "## Export":
        return None
    if cell["cell_type"] == "markdown":
        return {**cell, "source": within(text)}
    return {**cell, "source": "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#|"))}


def within(text: str) -> str:
    "Markdown whose links out of the notebooks are their words alone; pictures stay."
    return re.sub(r"(?<!!)\[([^\]]+)\]\((?:\.\./){2}[^)]*\)", r"\1", text)


def setup(app) -> None:
    app.connect("source-read", as_read)
