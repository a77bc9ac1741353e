"What lies in a landing, or on a machine that others use too, reaches no further than its table."
from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.errors import Refused
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.landing.s3 import listing_from_keys
from dmscdc.runs.store import cache_of
from dmscdc.service.config import write_config

pytestmark = pytest.mark.quick

STEERING = ["a\x1b[2Jb", "two\nlines", "tab\t", "bell\x07", "c1\x9b31m", "rtl\u202egnp", "mark\u200f", "line\u2028end", "isolate\u2066x"]
LEADING = [".", "..", ""]
ODD = ["-x", "--ServerApp.token=x", "<b>x<b>", "'\";rm -rf ~", "$(id)", "日本", "a b", "%2e%2e", "..a", "x" * 200]  # strange, and harmless if they stay names
LOAD = "LOAD00000001.parquet"


def put(folder: Path, **columns) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or {"id": [1, 2], "name": ["a", "b"]}), folder / LOAD)
    return folder / LOAD


def typed(home: Path, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--folder", str(home)])
    assert done.exit_code in (0, 2, 3) and (done.exception is None or isinstance(done.exception, SystemExit)), done.exception
    return done.output


@pytest.fixture
def home(tmp_path) -> Path:
    write_config(tmp_path, landing="landing", lake="lake", settle=0)
    return tmp_path


@pytest.mark.parametrize("name", STEERING + LEADING)
def test_a_name_that_leads_elsewhere_or_steers_a_terminal_is_no_table_s(name):
    for parts in ((name, "t"), ("s", name)):
        with pytest.raises(ValueError, match="no table can be called"): TableRef(*parts)
    keys = [{"Key": f"dms/{schema}/{table}/{LOAD}", "Size": 1, "LastModified": "2026-01-01T00:00:00Z"} for schema, table in ((name, "t"), ("s", name), ("s", "t"))]
    assert list(listing_from_keys([{"Contents": keys}], "dms")) == [TableRef("s", "t")]


def test_doctor_names_folders_that_can_be_no_tables_and_no_output_obeys_them(home):
    for name in STEERING: put(home / "landing" / "shop" / name), put(home / "landing" / name / "t")
    put(home / "landing" / "shop" / "item")
    assert FolderLanding(home / "landing").tables() == [TableRef("shop", "item")]
    told = typed(home, "doctor")
    assert told.count("no table can be called so") == 2 * len(STEERING) and r"'shop/a\x1b[2Jb'" in told
    for words in (["plan"], ["status"], ["doctor"]): assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200f\u2028\u202e\u2066]", typed(home, *words)), words


def test_strange_names_stay_names_in_every_command_that_is_printed(home):
    for name in ODD: put(home / "landing" / name / "t"), put(home / "landing" / "shop" / name)
    for line in typed(home, "plan").splitlines():
        for command in re.findall(r"Next: dmscdc table set (.+) --key id$", line):
            done = os.popen(f"printf '%s\\n' {command}").read()  # what a shell makes of it: one word, which is no option
            assert done.count("\n") == 1 and not done.startswith("-"), command
            assert f"{TableRef.parse(done[:-1])}\n" == done


def test_lab_hands_no_name_over_as_an_option(home, monkeypatch):
    put(home / "landing" / "--ServerApp.token=x" / "t"), put(home / "landing" / "-x" / "t")
    given = []
    monkeypatch.setattr(os, "execv", lambda program, words: given.append(words))
    monkeypatch.chdir(home)
    for table in ('"--ServerApp.token=x".t', '"-x".t'): typed(home, "lab", table)
    assert [words[:3] for words in given] == [[sys.executable, "-m", "jupyterlab"]] * 2
    assert all(word.startswith("./") and Path(home, word).is_file() for words in given for word in words[3:]) and all(len(words) == 4 for words in given)


def test_a_link_out_of_the_landing_brings_nothing_in_unless_a_setting_says_so(home, monkeypatch):
    secret = put(home / "elsewhere" / "shop" / "secret")
    put(home / "landing" / "shop" / "item"), put(home / "kept" / "other")
    (home / "landing/shop/linked").mkdir()
    (home / "landing/shop/linked" / LOAD).symlink_to(secret)
    (home / "landing/shop/folder").symlink_to(secret.parent)
    (home / "landing/whole").symlink_to(home / "elsewhere/shop")
    (home / "landing/shop/inside").symlink_to(home / "landing/shop/item")
    tables = lambda: [table.name for table in FolderLanding(home / "landing").tables()]
    assert tables() == ["inside", "item"] and FolderLanding(home / "landing").files(TableRef("shop", "linked")).is_empty
    told = typed(home, "doctor")
    assert "folder 'shop/folder': a link out of the landing" in told and "folder 'whole': a link out of the landing" in told
    monkeypatch.setenv("DMSCDC_LINKS", "follow")
    assert tables() == ["folder", "inside", "item", "linked", "secret"]


def test_a_column_s_name_forges_no_line_and_moves_no_cursor(home):
    forged = "x\n3 tables: 3 ok\x1b[2K"
    put(home / "landing" / "shop" / "item", **{forged: [1, 2], "id": [1, 1]})
    for words in (["plan"], ["status"], ["doctor"]):
        told = typed(home, *words)
        assert "\x1b" not in told and "3 tables: 3 ok" not in [line.strip() for line in told.splitlines()], words
    assert str(Refused(f"shop.item: column {forged} is odd")) == r"shop.item: column x\n3 tables: 3 ok\x1b[2K is odd"


@pytest.mark.parametrize("spoil", [lambda at, other: at.symlink_to(other), lambda at, other: (at.mkdir(), at.chmod(0o777))], ids=["a link", "of all"])
def test_a_cache_that_others_can_write_into_is_not_used(tmp_path, monkeypatch, spoil):
    shared, other = tmp_path / "shared", tmp_path / "other"
    shared.mkdir(), other.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    spoil(shared / f"dmscdc-{os.getuid()}", other)
    found = cache_of("shop-runs", "")
    assert found.parent == shared and found.stat().st_mode & 0o777 == 0o700 and found.name != f"dmscdc-{os.getuid()}" and not [*other.iterdir()]


@pytest.mark.parametrize("share, folder, file", [("", 0o700, 0o600), ("group", 0o750, 0o640)])
def test_runs_and_state_are_their_owner_s_whatever_the_umask(home, monkeypatch, share, folder, file):
    put(home / "landing" / "shop" / "item")
    monkeypatch.setenv("DMSCDC_SHARE", share)
    before = os.umask(0)
    try:
        typed(home, "table", "set", "shop.item", "--insert-only")
        typed(home, "runs", "html")
    finally: os.umask(before)
    rights = {one.name: one.stat().st_mode & 0o777 for one in (home / "runs", home / "state.db")}
    assert rights == {"runs": folder, "state.db": file}
