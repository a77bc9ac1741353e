"""One pass as a user starts it, over a landing in which half is in order: that half comes out right, and of the rest each table has its words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import spoiling
from siege import FOREIGN, KINDS, rows_in
from told import Table, after, load, shown

from shapes import ITEM, ROWS, update

pytestmark = pytest.mark.proof

SOUND = [
    Table(f"adv.{name}", ("id",), [load(ROWS, ITEM), update(1, {"id": 1, "name": name})]) for name in ("sound", "_prisma_migrations", "größe 50%")
]
SPOILED = Table("adv.spoiled", ("id",), [load(ROWS, ITEM), update(1, {"id": 1, "name": "x" * 99}, spoil=spoiling.bad_check("name"))])


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> tuple[Path, dict[str, subprocess.CompletedProcess]]:
    "What the commands say, one after the other."
    root = tmp_path_factory.mktemp("pass")
    for table in (*SOUND, SPOILED):
        for file in table.files:
            file.write(root / "landing" / "adv" / table.name.partition(".")[2])
    (root / "landing" / "adv" / "itself").symlink_to(root / "landing" / "adv" / "itself")
    (root / "landing" / "adv" / "above").symlink_to(root / "landing")
    (root / "landing" / "lost+found").mkdir(mode=0)
    (root / "landing" / "a file").write_text("no folder")
    run = lambda *words: subprocess.run(
        [sys.executable, "-c", "from dmscdc.cli.main import main; main()", *words],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "COLUMNS": "300"},
    )  # noqa: E731
    done = {"init": run("init", "--landing", "landing", "--lake", "lake", "--quiet-period", "0", "--driver-memory", "1g")}
    for table in (*SOUND, SPOILED):
        done[f"set {table.name}"] = run("table", "set", table.name, "--key", "id")
    return root, {**done, **{word: run(word) for word in ("plan", "pass", "status")}}


def test_no_command_ends_in_a_librarys_words(said):
    for word, done in said[1].items():
        assert not [one for one in (*FOREIGN, *KINDS) if one in done.stdout + done.stderr], f"{word}: {done.stdout}{done.stderr}"
    assert {word: done.returncode for word, done in said[1].items() if word.startswith(("init", "set"))} == {
        word: 0 for word in said[1] if word.startswith(("init", "set"))
    }


@pytest.mark.parametrize("table", SOUND, ids=lambda table: table.name)
def test_a_table_that_is_in_order_is_loaded_whatever_lies_beside_it(said, table):
    rows = rows_in(said[0] / "lake" / "adv" / table.name.partition(".")[2])
    assert shown(table, rows, list(ITEM)) == shown(table, after(table, table.files), list(ITEM))


def test_the_table_that_is_not_is_said_with_its_file(said):
    done = said[1]["pass"]
    assert done.returncode != 0 and SPOILED.files[1].name in done.stdout + done.stderr, done
