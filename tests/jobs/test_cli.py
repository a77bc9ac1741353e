"""The command as a person types it, without Spark; the whole story with Spark is in test_story.py."""
from __future__ import annotations

import json
import sqlite3

import pytest
from typer.testing import CliRunner

from dmscdc.cli import app
from dmscdc.files import FolderLanding, TableRef
from dmscdc.sample import write_shop


@pytest.fixture
def dmscdc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, list(words))


@pytest.fixture
def shop(tmp_path, dmscdc):
    write_shop(tmp_path / "landing")
    assert dmscdc("init", "--landing", "landing", "--lake", "lake", "--settle", "0").exit_code == 0
    return dmscdc


def test_init_never_writes_over_settings(shop):
    done = shop("init", "--landing", "other", "--lake", "lake")
    assert done.exit_code == 2 and "exists already" in done.output


def test_without_settings_the_error_says_how_to_make_them(dmscdc):
    done = dmscdc("plan")
    assert done.exit_code == 2 and "dmscdc init --landing" in done.output


def test_flags_win_over_the_file_and_work_without_one(tmp_path, dmscdc):
    write_shop(tmp_path / "raw")
    done = dmscdc("plan", "--landing", "raw", "--lake", "lake", "--settle", "0", "--json")
    assert done.exit_code == 0 and len(json.loads(done.stdout)) == 3


def test_an_empty_landing_says_where_files_were_expected_and_what_was_found(tmp_path, dmscdc):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "notes.txt").write_text("x")
    done = dmscdc("plan", "--landing", "raw", "--lake", "lake")
    assert done.exit_code == 2
    assert "<schema>/<table>/LOAD00000001.parquet" in done.output and "found 1 file" in done.output


def test_a_new_table_waits_and_names_its_key_and_the_command(shop):
    status = {one["table"]: one for one in json.loads(shop("status", "--json").stdout)}
    assert status["sampledb.product"]["state"] == "waiting"
    assert status["sampledb.product"]["suggested"] == ["id"]
    assert "dmscdc table set sampledb.product --key id" in status["sampledb.product"]["command"]
    assert "sampledb.product waits for its key" in shop("status").output


def test_the_proposed_command_makes_the_table_ready(shop):
    assert shop("table", "set", "sampledb.product", "--key", "id").exit_code == 0
    plan = {one["table"]: one for one in json.loads(shop("plan", "--json").stdout)}
    assert (plan["sampledb.product"]["plan"], plan["sampledb.product"]["files"]["load"][0]["path"]) == ("initial", "LOAD00000001.parquet")


def test_settings_can_be_made_before_the_table_was_ever_seen(tmp_path, dmscdc):
    dmscdc("init", "--landing", "landing", "--lake", "lake")
    done = dmscdc("table", "set", "sampledb.product", "--key", "id,store", "--partition", "day", "--delete", "soft", "--paused")
    assert done.exit_code == 0
    row = json.loads(dmscdc("table", "list", "--json").stdout)[0]
    assert (row["key"], row["partition"], row["delete"], row["active"]) == (["id", "store"], ["day"], "soft", False)


@pytest.mark.parametrize("words, kind", [
    (("rewind", "--reload"), {"kind": "reload", "changes": "keep"}),
    (("rewind", "--reload", "--supersede"), {"kind": "reload", "changes": "supersede"}),
    (("rewind", "--reload", "--keep-changes"), {"kind": "reload", "changes": "keep"}),
    (("rewind", "--to", "20181215-100311204.parquet"), {"kind": "rewind", "to": "20181215-100311204.parquet"}),
    (("replay", "20181215-100311204.parquet"), {"kind": "replay", "files": ["20181215-100311204.parquet"]}),
    (("accept",), {"kind": "accept"})])
def test_an_instruction_is_left_for_the_next_pass(shop, words, kind):
    shop("table", "set", "sampledb.product", "--key", "id")
    verb, *rest = words
    assert shop("table", verb, "sampledb.product", *rest).exit_code == 0
    left = json.loads(shop("table", "list", "--json").stdout)[0]["instruction"]
    assert {k: v for k, v in left.items() if k != "commit"} == kind


@pytest.mark.parametrize("words, says", [
    (("plan", "--only", "sampledb.produkt"), "sampledb.produkt"),
    (("table", "rewind", "sampledb.product"), "--to FILE or --reload"),
    (("table", "set", "product", "--key", "id"), "schema.table"),
    (("runs", "show", "nope"), "dmscdc runs list"),
    (("schedule", "--cron", "every hour"), "timetable"),
    (("plan", "--landing", "s3://bucket/dms"), "s3"),
    (("plan", "--workers", "-1"), "workers")])
def test_wrong_use_is_exit_code_2_and_says_what_helps(shop, words, says):
    done = shop(*words)
    assert (done.exit_code, says in done.output) == (2, True), done.output


def test_every_command_shows_an_example(dmscdc):
    for words in (["demo"], ["init"], ["plan"], ["pass"], ["status"], ["schedule"], ["capture"], ["table", "set"], ["table", "rewind"], ["runs", "list"]):
        assert "Example: dmscdc" in " ".join(dmscdc(*words, "--help").output.split())


def test_capture_writes_a_source_once_and_then_its_changes(tmp_path, dmscdc):
    with sqlite3.connect("shop.db") as db:
        db.executescript("create table mug (id integer primary key, name text); insert into mug values (1, 'a')")
    assert "1 files written" in dmscdc("capture", "sqlite:shop.db", "--landing", "raw").output
    with sqlite3.connect("shop.db") as db:
        db.execute("update mug set name = 'b'")
    assert "1 files written" in dmscdc("capture", "sqlite:shop.db", "--landing", "raw").output
    listing = FolderLanding("raw").files(TableRef("shop", "mug"))
    assert (len(listing.load), len(listing.changes)) == (1, 1)
