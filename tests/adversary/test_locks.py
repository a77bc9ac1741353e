"What lies in a landing, or on a machine that others use too, reaches no further than its table."

from __future__ import annotations

import csv
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.capture.mariadb import MariaSource
from dmscdc.cli.main import app
from dmscdc.errors import ConfigError, Refused, SourceRefused
from dmscdc.landing.files import FolderLanding, TableRef, for_shell
from dmscdc.runs.log import path_name
from dmscdc.runs.report import sample_csv
from dmscdc.runs.run import run_notebook
from dmscdc.runs.store import cache_of
from dmscdc.service.config import nearest_config, write_config

pytestmark = pytest.mark.quick

STEERING = [
    "a\x1b[2Jb",
    "two\nlines",
    "tab\t",
    "bell\x07",
    "c1\x9b31m",
    "rtl\u202egnp",
    "mark\u200f",
    "line\u2028end",
    "isolate\u2066x",
    "arabic\u061cmark",
    "soft\xadhyphen",
    "joined\u2060",
    "tag\U000e0041",
]
LEADING = [".", "..", ""]
ODD = [
    "-x",
    "--ServerApp.token=x",
    "<b>x<b>",
    "'\";rm -rf ~",
    "$(id)",
    "日本",
    "a b",
    "%2e%2e",
    "..a",
    "x" * 200,
]  # strange, and harmless if they stay names
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
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    return tmp_path


@pytest.mark.parametrize("name", STEERING + LEADING)
def test_a_name_that_leads_elsewhere_or_steers_a_terminal_is_no_table_s(name):
    for parts in ((name, "t"), ("s", name)):
        with pytest.raises(ValueError, match="no table can be called"):
            TableRef(*parts)


def test_doctor_names_folders_that_can_be_no_tables_and_no_output_obeys_them(home):
    for name in STEERING:
        put(home / "landing" / "shop" / name), put(home / "landing" / name / "t")
    put(home / "landing" / "shop" / "item")
    assert FolderLanding(home / "landing").tables() == [TableRef("shop", "item")]
    told = typed(home, "doctor")
    assert told.count("no table can be called so") == 2 * len(STEERING) and r"'shop/a\x1b[2Jb'" in told
    for words in (["plan"], ["status"], ["doctor"]):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200f\u2028\u202e\u2060\u2066\U000e0041]", typed(home, *words)), words


def test_no_part_of_a_long_name_is_a_line_of_its_own(home):
    for size in range(95, 128):
        put(home / "landing" / "shop" / f"{size * 'x'} 9 tables: 9 ok {110 * 'y'}")
    for words in (["plan"], ["status"]):
        assert "9 tables: 9 ok" not in [line.strip() for line in typed(home, *words).splitlines()], words


def test_strange_names_stay_names_in_every_command_that_is_printed(home):
    for name in ODD:
        put(home / "landing" / name / "t"), put(home / "landing" / "shop" / name)
    for line in typed(home, "plan").splitlines():
        for command in re.findall(r"Next: dmscdc table set (.+) --key id$", line):
            done = os.popen(f"printf '%s\\n' {command}").read()  # what a shell makes of it: one word, which is not an option
            assert done.count("\n") == 1 and not done.startswith("-"), command
            assert f"{TableRef.parse(done[:-1])}\n" == done


def test_lab_hands_no_name_over_as_an_option(home, monkeypatch):
    put(home / "landing" / "--ServerApp.token=x" / "t"), put(home / "landing" / "-x" / "t")
    given = []
    monkeypatch.setattr(os, "execv", lambda program, words: given.append(words))
    monkeypatch.chdir(home)
    for table in ('"--ServerApp.token=x".t', '"-x".t'):
        typed(home, "lab", table)
    (home / "json.py").write_text("raise SystemExit('a file of the folder was run')")
    for words in given:
        assert words[:2] == [sys.executable, "-c"] and words[3:-1] in ([], ["--allow-root"])
        assert words[-1].startswith("./") and Path(home, words[-1]).is_file()
        version = subprocess.run([*words[:3], "--version"], cwd=home, capture_output=True, text=True)
        assert re.match(r"\d+\.", version.stdout), version


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
    for place in ("shop/folder", "whole", f"shop/linked/{LOAD} (a link out of the landing)"):
        assert f"folder '{place}': only files are read, and a link out of the landing is followed" in told
    monkeypatch.setenv("DMSCDC_LINKS", "follow")
    assert tables() == ["folder", "inside", "item", "linked", "secret"]


def test_a_column_s_name_forges_no_line_and_moves_no_cursor(home):
    forged = "x\n3 tables: 3 ok\x1b[2K"
    put(home / "landing" / "shop" / "item", **{forged: [1, 2], "id": [1, 1]})
    put(home / "landing" / "shop" / "marked", **{r"\[/x]": [1, 2], ":white_check_mark:": [1, 2]})
    put(home / "landing" / "shop" / r"\[link=http:a.example]b"), put(home / "landing" / "good" / "x\n3 tables: 3 ok\n" / "deep")
    for words in (["plan"], ["status"], ["doctor"]):
        told = typed(home, *words)
        assert "\x1b" not in told and "3 tables: 3 ok" not in [line.strip() for line in told.splitlines()], words
        assert "✅" not in told and (words == ["doctor"] or r"\[link=http:a.example]b" in told), words
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


@pytest.mark.parametrize("umask", [0, 0o077])
@pytest.mark.parametrize("share, folder, file", [("", 0o700, 0o600), ("group", 0o750, 0o640)])
def test_runs_and_state_are_their_owner_s_whatever_the_umask(home, monkeypatch, share, folder, file, umask):
    (home / "runs").mkdir(mode=0o755)  # of an earlier version
    put(home / "landing" / "shop" / "item")
    monkeypatch.setenv("DMSCDC_SHARE", share)
    before = os.umask(umask)
    try:
        typed(home, "table", "set", "shop.item", "--insert-only")
        typed(home, "runs", "html")
        with pytest.raises(RuntimeError), no_kernel(monkeypatch):
            run_notebook("process_table", {}, runs=home / "runs", table="shop.item")
    finally:
        os.umask(before)
    made = [one for one in (*home.glob("runs/**/*"), home / "state.db") if one.name != "runs"]
    assert len(made) > 5 and {one.name: one.stat().st_mode & 0o777 for one in made} == {one.name: folder if one.is_dir() else file for one in made}


@contextmanager
def no_kernel(monkeypatch):
    "A run of which only the place is made."

    def executed(*_):
        raise RuntimeError("no kernel")

    with monkeypatch.context() as patch:
        patch.setattr("dmscdc.runs.kernel.executed", executed)
        yield


@pytest.mark.parametrize("word", [*ODD, *(name for name in STEERING), "it's\\u00e9\u202e'"])
def test_a_word_that_a_command_names_is_that_word_for_a_shell(word):
    typed = for_shell(word)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u200e-\u200f\u2028-\u202e\u2066-\u2069]", typed)
    assert subprocess.run(["bash", "-c", f"printf %s {typed}"], capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout.decode() == word


def test_a_long_name_in_any_letters_has_a_short_place_of_its_own(tmp_path):
    names = [f"shop.{letter * count}" for letter, count in (("品", 64), ("x", 250), ("y", 250))] + [f"shop.{'品' * 63}別"]
    places = [path_name(name) for name in names]
    assert (
        len({*places}) == 4 and all(len(place) <= 200 and place.isascii() for place in places) and path_name("shop.größe") == "shop.gr%C3%B6%C3%9Fe"
    )
    for place in places:
        (tmp_path / place).mkdir()


def test_a_table_for_spreadsheets_holds_no_formula_whichever_sign_separates_its_cells():
    sample = [
        {"what": "updated", "key": [["id", "a;=1+1"]], "cells": [["name", "x;=1+1", "=2"], ["name", "＝2", "-3"], ["name", "a\n=1+1", " \u00a0=3"]]}
    ]
    text = b64decode(sample_csv(sample).partition(",")[2]).decode()
    for sign in ",;|\t":
        cells = [cell for row in csv.reader(io.StringIO(text), delimiter=sign) for cell in row]
        assert not [cell for cell in cells if re.match(r"[\s\ufeff]*([=+@\t＝＋－＠]|-\D)", cell)], sign


def test_a_name_of_a_column_begins_no_line_of_a_command(home):
    name = "id\n9 tables: 9 ok"
    put(home / "landing" / "shop" / "odd", **{name: [1, 2], "v": ["a", "b"]})
    said = [typed(home, "plan"), typed(home, "table", "set", "shop.odd", "--key", name), typed(home, "status")]
    assert "id\\n9 tables" in said[0] and f"--key {for_shell(name)}" in said[0], said[0]
    assert not [line for one in said for line in one.splitlines() if line.startswith("9 tables")]


def test_settings_above_the_folder_that_others_can_write_are_not_taken(home, monkeypatch):
    below = home / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert nearest_config().folder == str(home)
    (home / "dmscdc.toml").chmod(0o666)
    with pytest.raises(ConfigError, match="others can write into it"):
        nearest_config()
    assert nearest_config(home).folder == str(home)


def test_a_server_that_asks_for_the_password_as_it_is_does_not_get_it():
    greeting = b"\x0a5.5.5-x\0" + b"\1\0\0\0" + b"AAAAAAAA\0" + b"\xff\xf7\x08\x02\x00\x08\x00\x15" + b"\0" * 10 + b"BBBBBBBBBBBB\0"
    plain, got = b"mysql_clear_password\0", []

    def answer(server: socket.socket) -> None:
        line, _ = server.accept()
        with line:
            line.sendall((len(greeting + plain)).to_bytes(3, "little") + b"\0" + greeting + plain)
            got.append(line.recv(4_000))
            line.sendall((len(plain) + 2).to_bytes(3, "little") + bytes([got[0][3] + 1]) + b"\xfe" + plain + b"\0")
            line.settimeout(5)
            got.append(line.recv(4_000))

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        done = pool.submit(answer, server)
        with pytest.raises(SourceRefused, match="plain text"):
            MariaSource("127.0.0.1", server.getsockname()[1], "who", "very secret", "shop").connect()
        done.result()
    assert len(got) == 2 and not any(b"very secret" in one for one in got)
