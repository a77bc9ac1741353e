"""What the cells of notebooks show is compared with what git keeps: `tests/rooms.py`, on notebooks made here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

from rooms import Room, comparable, notebooks_of, on_this_machine

pytestmark = pytest.mark.test

HOME = Path(__file__).parents[2]
SOURCES = {  # cells of the notebook `one`, by their ids
    "aaaa0001": "#| hide\nimport sys, warnings\nfrom IPython.display import HTML, SVG, display\nprint('not shown')",
    "aaaa0002": "print('two'); print('lines')",
    "aaaa0003": "[1001, 'Lamp']",
    "aaaa0004": "HTML('<b>Lamp</b>')",
    "aaaa0005": "display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>')); 3",
    "aaaa0006": "print('to nobody', file=sys.stderr); warnings.warn('neither')",
    "aaaa0007": "#| eval: false\nraise ValueError",
    "aaaa0008": "#| export\nLAMP = 1001",
    "aaaa0009": "display({'application/x-ours': 1}, raw=True)",
}


def cell(name: str, source: str) -> dict:
    return {"cell_type": "code", "execution_count": None, "id": name, "metadata": {}, "outputs": [], "source": source.splitlines(keepends=True)}


def make(path: Path, sources: dict[str, str]) -> Path:
    book = {"cells": [cell(*one) for one in sources.items()], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(book, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    return path


def rooms(folder: Path, *words: str) -> tuple[int, str]:
    "The exit code, and all that is said."
    done = subprocess.run([sys.executable, HOME / "tests" / "rooms.py", *words], cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    "Two notebooks with their outputs."
    folder = tmp_path_factory.mktemp("rooms")
    copy(HOME / "settings.ini", folder)
    make(folder / "notebooks" / "01_a" / "01_one.ipynb", SOURCES)
    make(folder / "notebooks" / "01_a" / "02_two.ipynb", {"bbbb0001": "LAMP = 2\nLAMP"})
    assert rooms(folder, "--write", "notebooks")[0] == 0
    return folder


def kept(path: Path) -> dict[str, list[dict]]:
    return {one["id"]: one["outputs"] for one in json.loads(path.read_text())["cells"]}


def changed(path: Path, name: str, outputs: list[dict]) -> None:
    book = json.loads(path.read_text())
    for one in book["cells"]:
        if one["id"] == name:
            one["outputs"] = outputs
    path.write_text(json.dumps(book))


def test_what_cells_print_and_are_is_kept_and_what_is_hidden_or_goes_to_stderr_is_not(written):
    found = kept(written / "notebooks" / "01_a" / "01_one.ipynb")
    assert found["aaaa0002"] == [{"name": "stdout", "output_type": "stream", "text": ["two\n", "lines\n"]}]
    assert found["aaaa0003"] == [
        {"data": {"text/plain": ["[1001, 'Lamp']"]}, "execution_count": None, "metadata": {}, "output_type": "execute_result"}
    ]
    assert found["aaaa0004"][0]["data"]["text/html"] == ["<b>Lamp</b>"]
    assert [list(one["data"]) for one in found["aaaa0005"]] == [["image/svg+xml", "text/plain"], ["text/plain"]]
    assert {name for name, outputs in found.items() if not outputs} == {"aaaa0001", "aaaa0006", "aaaa0007", "aaaa0008", "aaaa0009"}


def test_a_cell_that_is_not_executed_keeps_what_somebody_has_written_there(written, tmp_path):
    path, by_hand = tmp_path / "01_one.ipynb", [{"name": "stdout", "output_type": "stream", "text": ["by hand\n"]}]
    copy(written / "notebooks" / "01_a" / "01_one.ipynb", path)
    changed(path, "aaaa0007", by_hand)
    for action in ("--compare", "--write"):
        assert rooms(written, action, str(path))[0] == 0
    assert kept(path)["aaaa0007"] == by_hand


def test_what_is_kept_is_shown_again_and_cleaning_leaves_it(written):
    before = {path: path.read_text() for path in written.rglob("*.ipynb")}
    code, said = rooms(written, "--compare", "notebooks")
    assert code == 0 and "01_one.ipynb: 8 cells" in said and "02_two.ipynb: 1 cells" in said and "shows" not in said
    subprocess.run([Path(sys.executable).parent / "nbdev_clean"], cwd=written, check=True, capture_output=True)
    assert rooms(written, "--write", "--apart", "notebooks")[0] == 0
    assert {path: path.read_text() for path in written.rglob("*.ipynb")} == before


@pytest.mark.parametrize(
    "name, outputs, says",
    [
        (
            "aaaa0002",
            [{"name": "stdout", "output_type": "stream", "text": ["two\n", "files\n"]}],
            ["cell 1 (aaaa0002) shows something else than is kept", "-files", "+lines"],
        ),
        ("aaaa0002", [], ["cell 1 (aaaa0002) shows what is not kept", "+two", "+lines"]),
        (
            "aaaa0008",
            [{"data": {"text/plain": ["1001"]}, "metadata": {}, "output_type": "display_data"}],
            ["cell 7 (aaaa0008) keeps what is not shown any more", "-1001"],
        ),
        (
            "aaaa0001",
            [{"name": "stdout", "output_type": "stream", "text": ["not shown\n"]}],
            ["cell 0 (aaaa0001) keeps what is not shown any more", "-not shown"],
        ),
    ],
    ids=["changed", "missing", "gone", "hidden"],
)
def test_a_cell_that_shows_something_else_is_named_with_its_notebook_and_the_difference(written, tmp_path, name, outputs, says):
    copy(written / "settings.ini", tmp_path)
    for path in (written / "notebooks" / "01_a").iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    changed(tmp_path / "01_one.ipynb", name, outputs)
    code, said = rooms(tmp_path, "--compare", ".")
    assert code == 1 and all(f"{word}\n" in said or f"{word}:" in said for word in says) and f"{tmp_path / '01_one.ipynb'}, cell" in said
    assert said.count(", cell ") == 1 and "02_two.ipynb: 1 cells" in said, "the others are executed all the same"
    assert rooms(tmp_path, "--only-run", ".")[0] == 0


def test_a_notebook_that_fails_keeps_what_it_had_and_says_where(tmp_path):
    copy(HOME / "settings.ini", tmp_path)
    path = make(tmp_path / "one.ipynb", {"aaaa0001": "print(1)", "aaaa0002": "1 / 0", "aaaa0003": "print(3)"})
    before = path.read_text()
    for words in (["--compare"], ["--write"], ["--only-run"]):
        code, said = rooms(tmp_path, *words, "one.ipynb")
        assert code == 1 and "ZeroDivisionError" in said and f"in {path}" in said and "Cell #2" in said and path.read_text() == before


def test_what_shows_this_machine_is_named_when_it_is_written(tmp_path):
    copy(HOME / "settings.ini", tmp_path)
    make(tmp_path / "one.ipynb", {"aaaa0001": "'good'", "aaaa0002": "object()", "aaaa0003": "print('/tmp/x1y2/lake')"})
    code, said = rooms(tmp_path, "--write", "one.ipynb")
    assert (
        code == 1
        and "cell 1 (aaaa0002) shows an address in memory" in said
        and "cell 2 (aaaa0003) shows an absolute path" in said
        and "cell 0" not in said
    )


def test_a_copy_that_papermill_has_executed_is_compared_without_its_cell_of_parameters(tmp_path):
    path = make(tmp_path / "one.ipynb", {"aaaa0001": "n = 1", "aaaa0002": "n", "aaaa0003": "#| hide\nn"})
    book, shown = (
        json.loads(path.read_text()),
        [{"data": {"text/plain": ["1"]}, "execution_count": 7, "metadata": {}, "output_type": "execute_result"}],
    )
    book["cells"].insert(1, {**cell("aaaa0009", "n = 2"), "metadata": {"tags": ["injected-parameters"]}})
    for one in book["cells"][2:]:
        one["outputs"] = shown
    (tmp_path / "copy.ipynb").write_text(json.dumps(book))
    [said] = Room(path).executed(tmp_path / "copy.ipynb").wrong("compare")
    assert f"{path}, cell 1 (aaaa0002) shows what is not kept" in said
    assert Room(path).executed(tmp_path / "copy.ipynb").wrong("run") == Room(path).executed(tmp_path / "copy.ipynb").wrong("write") == []
    assert kept(path) == {"aaaa0001": [], "aaaa0002": [{**shown[0], "execution_count": None}], "aaaa0003": []}
    assert Room(path).executed(tmp_path / "copy.ipynb").wrong("compare") == []


def test_no_notebook_is_an_error(tmp_path):
    copy(HOME / "settings.ini", tmp_path)
    (tmp_path / "empty").mkdir()
    for path in ("empty", "nowhere.ipynb"):
        assert rooms(tmp_path, path) == (1, f"no notebooks: {path}\n")


def test_prints_that_follow_each_other_are_one():
    parts = [{"output_type": "stream", "name": name, "text": text} for name, text in [("stdout", "a"), ("stderr", "?"), ("stdout", ["b\n", "c"])]]
    assert comparable(parts) == [{"output_type": "stream", "name": "stdout", "text": "ab\nc"}]


def test_what_another_machine_would_show_otherwise_is_found():
    assert not on_this_machine(["s3://bucket/tmp/x", "runs/home/x", "http://127.0.0.1:9000"])
    assert len([on_this_machine(text)[0] for text in ("/tmp/abc", "<f at 0x7f0011223344>", "http://127.0.0.1:40123", "http://a:secret@b")]) == 4


def test_notebooks_come_in_the_order_of_reading(tmp_path):
    paths = [make(tmp_path / name, {"aaaa0001": "1"}) for name in ("01_a/02_b/01_c.ipynb", "01_a/01_d.ipynb", "01_a/.ipynb_checkpoints/01_d.ipynb")]
    assert notebooks_of([tmp_path / "01_a"]) == [paths[1], paths[0]]
