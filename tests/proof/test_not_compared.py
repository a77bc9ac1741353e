"""`dmscdc reconcile` of several tables, of which some have no commit in the lake: the others are proven. No Spark: the runs of proofs are stood in for."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import write_load
from dmscdc.cli.main import app
from dmscdc.lake.table import Transaction
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.load.table_state import load_state, plan_state
from dmscdc.runs.log import new_run
from dmscdc.service import schedule as proof_runs
from dmscdc.service.config import read_config, write_config
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.proof

LOADED, NEW, LATER = "shop.loaded", "shop.new", "shop.later"


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Path:
    "Three tables that landed: one is loaded, one waits for its key, one for its first pass. A proof says `equal` and is noted."
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, source="sqlite:shop.db")
    sqlite3.connect(tmp_path / "shop.db").close()
    for name in (LOADED, NEW, LATER):
        write_load(tmp_path / "landing", name, [(1, "lamp")], {"id": "int", "name": "string"})
    config = read_config(tmp_path)
    state, table = open_state(config.state, config.landing), TableRef.parse(LOADED)
    for name in (LOADED, LATER):
        state.put_settings(TableRef.parse(name), key="id")
    table_state = load_state(state, table, config.lake)
    position = plan_state(table_state, FolderLanding(config.landing), 0).after
    commit = table_state.lake.commit_position(Transaction(None, position.to_json(), "test", (), ("id",))).commit().commit
    state.save_position(table, position, commit=commit.number, expected_commit=0)
    monkeypatch.setattr(proof_runs, "run_proof", lambda config, table, servers, **more: equal(config, table))
    return tmp_path


def equal(config, table):
    return replace(
        new_run(datetime(2026, 1, 1, tzinfo=timezone.utc), "3f2a", "reconcile", str(table), None, Path(config.runs)),
        verdict="ok",
        words=f"{table}: equal",
    )


def typed(home: Path, *words: str):
    return CliRunner(env={"FORCE_COLOR": None, "COLUMNS": "300"}).invoke(app, [*words, "--folder", str(home)])


def test_a_table_without_a_commit_costs_no_other_its_proof_and_says_why(home):
    done = typed(home, "reconcile", NEW, LOADED, LATER)
    lines = done.output.splitlines()
    assert done.exit_code == 3 and len(lines) == 4, done.output
    assert lines[0].startswith(f"{NEW}: not compared: its lake has no commit (new, waits for its key; ") and lines[0].endswith("): dmscdc status")
    assert lines[1] == f"{LOADED}: equal" and lines[2].startswith("report: ")
    assert lines[3] == f"{LATER}: not compared: its lake has no commit (no pass has loaded it): dmscdc status"
    assert not list((home / "runs").rglob("*new*.ipynb"))


def test_the_reason_of_a_refused_table_is_what_its_last_run_said(home):
    open_state(read_config(home).state).note_run(
        TableRef.parse(LATER), {"last_verdict": "refused", "last_words": f"{LATER}: id is null in 1 row. Mend it."}
    )
    done = typed(home, "reconcile", LATER)
    assert (done.exit_code, done.output) == (3, f"{LATER}: not compared: its lake has no commit (id is null in 1 row): dmscdc status\n")


def test_a_machine_reads_which_table_was_not_compared(home):
    found = json.loads(typed(home, "reconcile", LOADED, LATER, "--json").stdout)
    assert [(one["table"], one["verdict"], one["command"], bool(one["html"])) for one in found] == [
        (LOADED, "ok", f"dmscdc pass --only {LOADED}", True),
        (LATER, "attention", "dmscdc status", False),
    ]


def test_a_name_that_no_table_has_is_wrong_use_before_anything_starts(home, monkeypatch):
    monkeypatch.setattr(proof_runs, "run_proof", lambda *given, **more: pytest.fail("a proof was begun"))
    done = typed(home, "reconcile", LOADED, "shop.nosuch")
    assert done.exit_code == 2 and "no table shop.nosuch in " in done.output


def test_a_lake_that_cannot_be_read_costs_no_other_its_proof(home):
    config = read_config(home)
    load_state(open_state(config.state), TableRef.parse(LATER), config.lake).lake.commit_position(Transaction(None, {}, "test", (), ("id",))).commit()
    (entry,) = (home / "lake" / "_dmscdc" / "shop" / "later" / "journal").glob("*.json")
    entry.write_text("{")
    done = typed(home, "reconcile", LATER, LOADED)
    assert done.exit_code == 1 and f"{LATER}: not compared: {entry} is not an entry of a transaction log of dmscdc" in done.output
    assert f"{LOADED}: equal" in done.output.splitlines()


def test_a_table_whose_lake_is_gone_costs_no_other_its_proof_by_the_clock(home):
    config, said = read_config(home), []
    state = open_state(config.state)
    state.save_position(TableRef.parse(LATER), state.get(TableRef.parse(LOADED)).position, commit=1, expected_commit=0)
    runs = proof_runs.run_proofs(config, proof_runs.loaded(config), say=said.append)
    assert [(run.table, run.verdict) for run in runs] == [(LATER, "attention"), (LOADED, "ok")]
    assert said[0].startswith(f"attention: {LATER}: not compared: its lake has no commit (")
