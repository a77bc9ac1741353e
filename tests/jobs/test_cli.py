"""The command as a person types it, without Spark; the whole story with Spark is in test_story.py."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from dmscdc.capture.shop import write_shop
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.main import app
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.runs.run import run_notebook
from dmscdc.service.schedule import run_schedule
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.test


@pytest.fixture
def dmscdc(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, list(words))


@pytest.fixture
def shop(tmp_path, dmscdc):
    write_shop(tmp_path / "landing")
    assert dmscdc("init", "--landing", "landing", "--lake", "lake", "--quiet-period", "0").exit_code == 0
    return dmscdc


def test_tables_may_be_named_without_an_option(shop):
    assert shop("plan", "product").output == shop("plan", "--only", "product").output != shop("plan", "store").output
    assert shop("status", "product").output == shop("status", "--only", "sampledb.product").output != shop("status").output
    assert shop("runs", "list", "product").output == shop("runs", "list", "--table", "sampledb.product").output


def test_a_key_that_few_rows_have_by_chance_is_ruled_out_by_the_changes(tmp_path, dmscdc):
    for table, columns, load, changes in (
        ("shop.bill", {"no": "int", "year": "int", "sum": "int"}, [(1, 2025, 5), (1, 2026, 6)], [("U", 1, 2026, 7), ("I", 2, 2026, 8)]),
        ("shop.buys", {"no": "int", "user_id": "int"}, [(1, 7), (2, 8)], [("I", 3, 9)]),  # of another table
        ("shop.cart", {"code": "string", "user_id": "int"}, [("a", 7), ("b", 8)], [("I", "c", 7)]),  # the same, told by a change
        ("shop.code", {"kind": "int", "code": "string"}, [(1, "a"), (2, "b")], [("U", None, "a")]),  # a key has values
        (
            "shop.late",
            {"code": "string", "n": "int"},
            [("a", 9), ("b", 2)],
            [("I", "a", 1), ("U", "a", 9), ("U", "b", 3), ("U", "b", 4)],
        ),  # read after its changes
    ):
        write_load(tmp_path / "landing", table, load, columns)
        write_changes(tmp_path / "landing", table, changes, "20181215-100311204", columns)
    assert dmscdc("init", "--landing", "landing", "--lake", "lake").exit_code == 0
    plans = json.loads(dmscdc("plan", "--json").output)
    assert [plan["suggested"] for plan in plans] == [["no", "year"], ["no"], ["code"], ["code"], ["code"]]


def test_a_definition_with_another_key_than_the_one_set_says_so_and_settings_that_are_not_usual_are_shown(shop, tmp_path):
    said = shop("table", "set", "sampledb.product", "--key", "price", "--bad-rows", "quarantine", "--when-gone", "keep").stdout
    assert "deletes hard, bad rows quarantine, when gone keep, active" in said
    (tmp_path / "shop.sql").write_text("create table sampledb.product (id int primary key, name varchar(9), price decimal(10,2))")
    columns = ("table", "columns", "sampledb.product", "--ddl", str(tmp_path / "shop.sql"), "--dialect", "mysql")
    said = " ".join(shop(*columns).stdout.split())
    assert "the definition has the primary key id, and the table is set to price. If id is right: dmscdc table set sampledb.product --key id" in said
    shop("table", "set", "sampledb.product", "--key", "id")
    assert "primary key" not in shop(*columns).stdout


def test_init_never_writes_over_settings(shop):
    done = shop("init", "--landing", "other", "--lake", "lake")
    assert done.exit_code == 2 and "already exists" in done.output
    assert shop("init", "--landing", "other", "--lake", "lake", "--force").exit_code == 0 and 'landing = "other"' in Path("dmscdc.toml").read_text()


def test_without_settings_the_error_says_how_to_make_them(dmscdc):
    done = dmscdc("plan")
    assert done.exit_code == 2 and "dmscdc init --landing" in done.output


def test_flags_win_over_the_file_and_work_without_one(tmp_path, dmscdc):
    write_shop(tmp_path / "raw")
    done = dmscdc("plan", "--landing", "raw", "--lake", "lake", "--quiet-period", "0", "--json")
    assert done.exit_code == 0 and len(json.loads(done.stdout)) == 3


def test_an_empty_landing_says_where_files_were_expected_and_what_was_found(tmp_path, dmscdc):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "notes.txt").write_text("x")
    done = dmscdc("plan", "--landing", "raw", "--lake", "lake")
    assert done.exit_code == 3
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


def test_init_ends_with_the_plan_and_all_suggested_keys_are_taken_at_once(tmp_path, dmscdc):
    write_shop(tmp_path / "landing")
    write_load(tmp_path / "landing", "sampledb.pair", [(1, 1), (1, 1)], {"id": "int", "twin": "int"})
    said = dmscdc("init", "--landing", "landing", "--lake", "lake").output
    assert "wrote dmscdc.toml" in said and "dmscdc table set sampledb.product --key id" in " ".join(said.split())
    assert "dmscdc table set --suggested" in said
    keys = lambda: {row["table"]: row["key"] for row in json.loads(dmscdc("table", "list", "--json").stdout)}
    shown = " ".join(dmscdc("table", "set", "--suggested").output.split())
    assert "25 of 25 values are different" in shown and "dmscdc table set --suggested --yes" in shown and keys() == {}
    one = dmscdc("table", "set", "sampledb.store", "--suggested", "--yes")
    assert one.exit_code == 0 and keys() == {"sampledb.store": ["id"]}
    every = " ".join(dmscdc("table", "set", "--suggested", "--yes").output.split())
    assert "2 keys set" in every and "No key is suggested for sampledb.pair" in every
    assert keys() == {f"sampledb.{name}": ["id"] for name in ("store", "product", "productorder")}
    for wrong in (["--suggested", "--key", "id"], ["--suggested", "--partition", "id"], ["--key", "id"], ["sampledb.store", "--yes"]):
        assert dmscdc("table", "set", *wrong).exit_code == 2, wrong


def test_settings_can_be_made_before_the_table_was_ever_seen(tmp_path, dmscdc):
    dmscdc("init", "--landing", "landing", "--lake", "lake")
    done = dmscdc("table", "set", "sampledb.product", "--key", "id,store", "--partition", "day", "--delete", "soft", "--paused")
    assert done.exit_code == 0
    row = json.loads(dmscdc("table", "list", "--json").stdout)[0]
    assert (row["key"], row["partition"], row["delete"], row["active"]) == (["id", "store"], ["day"], "soft", False)


def test_who_changes_what_deletes_do_is_told_what_that_means_for_rows_deleted_before(shop, tmp_path):
    assert "deleted before" not in shop("table", "set", "sampledb.product", "--key", "id", "--delete", "soft").output, "nothing has been loaded"
    from dmscdc.state.position import Position

    [item] = [one for one in open_state(f"sqlite:{tmp_path / 'state.db'}").items() if one.key]
    open_state(f"sqlite:{tmp_path / 'state.db'}").save_position(item.table, Position(), 1, 0)
    said = {
        words: " ".join(shop("table", "set", "sampledb.product", *words).output.split())
        for words in (("--delete", "hard"), ("--paused",), ("--delete", "soft"))
    }
    assert "Those deleted before stay in the lake, marked with Op D; to remove them, load the table again" in said["--delete", "hard"]
    assert "Those deleted before are not in the lake; to get them, marked, load the table again" in said["--delete", "soft"]
    assert (
        all(one.endswith("dmscdc table rewind sampledb.product --reload") for words, one in said.items() if words[1:])
        and "deleted" not in said[("--paused",)]
    )


@pytest.mark.parametrize(
    "words, kind",
    [
        (("rewind", "--reload"), {"kind": "reload", "changes": "keep"}),
        (("rewind", "--reload", "--supersede"), {"kind": "reload", "changes": "supersede"}),
        (("rewind", "--reload", "--keep-changes"), {"kind": "reload", "changes": "all"}),
        (("rewind", "--to", "20181215-100311204.parquet"), {"kind": "rewind", "to": "20181215-100311204.parquet"}),
        (("replay", "20181215-100311204.parquet"), {"kind": "replay", "files": ["20181215-100311204.parquet"]}),
        (("accept",), {"kind": "accept"}),
    ],
)
def test_an_instruction_is_left_for_the_next_pass(shop, words, kind):
    shop("table", "set", "sampledb.product", "--key", "id")
    verb, *rest = words
    assert shop("table", verb, "sampledb.product", *rest).exit_code == 0
    left = json.loads(shop("table", "list", "--json").stdout)[0]["instruction"]
    assert {k: v for k, v in left.items() if k != "commit"} == kind


@pytest.mark.parametrize(
    "words, says",
    [
        (("plan", "--only", "sampledb.produkt"), "sampledb.produkt"),
        (("table", "rewind", "sampledb.product"), "--to FILE or --reload"),
        (("table", "set", "prodct", "--key", "id"), "Did you mean 'product'?"),
        (("runs", "show", "nope"), "dmscdc runs list"),
        (("schedule", "--cron", "every hour"), "timetable"),
        (("plan", "--workers", "-1"), "workers"),
    ],
)
def test_wrong_use_is_exit_code_2_and_says_what_helps(shop, words, says):
    done = shop(*words)
    assert (done.exit_code, says in done.output) == (2, True), done.output


def test_a_bucket_that_cannot_be_listed_is_exit_code_1_as_in_a_pass(shop):
    done = shop("plan", "--landing", "s3://bucket/dms")
    assert (done.exit_code, "s3://bucket/dms cannot be listed: no credentials are found" in " ".join(done.output.split())) == (1, True), done.output


def commands(group=None, path=()):
    "Every command that can be typed, as words."
    for name, one in (group or get_command(app)).commands.items():
        yield from commands(one, (*path, name)) if hasattr(one, "commands") else [(*path, name)]


def test_every_command_shows_an_example_of_itself(dmscdc):
    found = list(commands())
    assert len(found) > 20
    for words in found:
        assert f"Example: dmscdc {' '.join(words)}" in " ".join(dmscdc(*words, "--help").output.split()), words


def test_capture_writes_a_source_once_and_then_its_changes(tmp_path, dmscdc):
    with sqlite3.connect("shop.db") as db:
        db.executescript("create table mug (id integer primary key, name text); insert into mug values (1, 'a')")
    assert "1 file written" in dmscdc("capture", "sqlite:shop.db", "--landing", "raw").output
    with sqlite3.connect("shop.db") as db:
        db.execute("update mug set name = 'b'")
    assert "1 file written" in dmscdc("capture", "sqlite:shop.db", "--landing", "raw").output
    listing = FolderLanding("raw").files(TableRef("shop", "mug"))
    assert (len(listing.load), len(listing.changes)) == (1, 1)


def until(condition, what, seconds=60):
    "Look again and again until something is so."
    pause, left = threading.Event(), seconds / 0.05
    while not condition():
        left -= 1
        assert left > 0, f"{what} did not happen in time"
        pause.wait(0.05)


def test_capture_watches_a_source_until_it_is_told_to_stop(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.executescript("create table mug (id integer primary key, name text); insert into mug values (1, 'a')")
    command = [
        sys.executable,
        "-c",
        "from dmscdc.cli.main import main; main()",
        "capture",
        "sqlite:shop.db",
        "--landing",
        "raw",
        "--watch",
        "--interval",
        "0.1",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    files = lambda pattern: list((tmp_path / "raw" / "shop" / "mug").glob(pattern))  # noqa: E731
    until(lambda: files("LOAD*"), "the load")
    for name in "bc":
        before = len(files("2*"))
        with sqlite3.connect(tmp_path / "shop.db") as db:
            db.execute("update mug set name = ?", [name])
        until(lambda: len(files("2*")) > before, f"the change file of {name}")
    process.terminate()
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and said.count("wrote ") == 3 and "3 files written to raw" in said


class Clock:
    "Stands where the last wait has put it; `now` as the schedule asks it, and as `datetime` has it."

    def __init__(self, start, ticks):
        self.at, self.left = start, ticks

    def now(self, zone=None):
        return self.at

    def wait(self, tick, stop, now):
        self.left -= 1
        self.at = tick
        if self.left < 0:
            stop.set()


@pytest.mark.parametrize("more, proofs", [((), 0), (("--reconcile", "30 12 * * *", "--source", "sqlite:shop.db"), 1)], ids=["passes", "with proofs"])
def test_schedule_runs_a_pass_at_each_tick_and_proofs_when_they_are_due(shop, tmp_path, monkeypatch, more, proofs):
    sqlite3.connect("shop.db").close()
    clock = Clock(datetime(2018, 12, 15, 11, 59, tzinfo=timezone.utc), ticks=3)
    monkeypatch.setattr("dmscdc.service.schedule.run_schedule", partial(run_schedule, now=clock.now, wait=clock.wait))
    monkeypatch.setattr("dmscdc.cli.prove.datetime", clock)
    done = shop("schedule", "--cron", "0 * * * *", *more)
    assert done.exit_code == 0 and done.stdout.strip() == "3 passes ran", done.output
    assert re.findall(r"next pass: \w+ [\d-]+ (\d\d:\d\d) UTC", done.stderr) == ["12:00", "13:00", "14:00", "15:00"]
    assert done.stderr.count("done: 3 tables: 3 attention") == 3 and done.stderr.count("; proofs: none") == proofs


def test_a_paused_table_is_left_alone_and_named(shop):
    for name in ("product", "store", "productorder"):
        shop("table", "set", f"sampledb.{name}", "--key", "id", "--paused")
    done = shop("pass", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["words"] == "3 tables: 3 paused"
    assert all(words.startswith("paused with work waiting: initial load (1 file, ") for words in json.loads(done.stdout)["tables"].values())
    assert not list(Path("runs").rglob("*.ipynb"))
    assert {one["state"] for one in json.loads(shop("status", "--json").stdout)} == {"paused"}


def test_the_job_that_loads_passes_the_format_of_a_new_table_on(shop, tmp_path):
    given = {
        "table": "sampledb.product",
        "landing": str(tmp_path / "landing"),
        "lake": str(tmp_path / "lake"),
        "state": f"sqlite:{tmp_path}/other.db",
    }
    run = run_notebook("process_table", {**given, "format": "paimon"}, runs=tmp_path / "kept", table="sampledb.product")
    assert run.verdict == "failed" and "format 'paimon' is not one of parquet" in run.words
    assert open_state(f"sqlite:{tmp_path}/other.db").get(TableRef("sampledb", "product")).format == "paimon"


@pytest.mark.proof
@pytest.mark.parametrize("which, code, said", [("reads_its_own_files", 1, "deselected"), ("keeps_data", 0, "passed")])
def test_conformance_runs_the_suite_of_a_format_and_ends_with_1_where_nothing_was_proven(tmp_path, which, code, said):
    command = [sys.executable, "-c", "from dmscdc.cli.main import main; main()", "conformance", "parquet"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTEST_ADDOPTS": f"-vv -k {which}"}, capture_output=True, text=True)
    assert done.returncode == code and re.search(rf"\d+ {said}", done.stdout) and "failed" not in done.stdout, done.stdout + done.stderr
