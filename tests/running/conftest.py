"""Tiny job notebooks without Spark, written where a test wants them."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook


@pytest.fixture(scope="session")
def a_job(tmp_path_factory):
    "a_job(name, *cells): a notebook with a title, the parameters `table` and `rows`, and these cells."
    folder = tmp_path_factory.mktemp("jobs")

    def write(name: str, *cells: str) -> Path:
        tagged = new_code_cell('table = ""  # str: schema.table\nrows = 0  # int: how many', metadata={"tags": ["parameters"]})
        first = new_code_cell("import os, sys, threading\nfrom dmscdc.runs.log import record")
        book = new_notebook(cells=[new_markdown_cell(f"# {name}"), tagged, first, *map(new_code_cell, cells)])
        book.metadata = {"kernelspec": {"name": "python3", "language": "python", "display_name": "python3"}}
        nbformat.write(book, folder / f"{name}.ipynb")
        return folder / f"{name}.ipynb"

    return write


@pytest.fixture(scope="session")
def says():
    "The source of a cell that records a verdict."
    return lambda word, words="as expected": f'record("verdict", {{"verdict": "{word}", "words": "{words}", "command": "run it again"}})'


@pytest.fixture(scope="module", autouse=True)
def in_spark():
    "Tables are asked for a Spark, however small they are: it is what is looked at."
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMSCDC_SMALL_BYTES", "-1")
        yield
