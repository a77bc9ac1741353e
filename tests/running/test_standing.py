"""What a pass, `plan`, `status` and the front page say of tables that are held by others, were refused, or whose pass was killed."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest
from test_controller import CTRL_C, Fake, a_house, quiet, stand_in, until
from typer.testing import CliRunner

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.main import app
from dmscdc.landing.files import TableRef
from dmscdc.runs.log import RunLog
from dmscdc.service import passes as controller
from dmscdc.service import status as status_room
from dmscdc.service.passes import run_pass
from dmscdc.service.workers import LeaseHeartbeat, Servers, Workers, free_dead_lease
from dmscdc.spark.interrupts import this_process
from tiers import sampled

pytestmark = pytest.mark.proof

COLUMNS = {"id": "int", "said": "string"}
SAYS_NO = "class Refused(Exception): pass\nraise Refused('shop.a: LOAD00000001.parquet row 2 has no id. Correct the file')"


LOADS_HALF = """
from dataclasses import replace
from dmscdc.load.initial import position_of_load
table_state = load_state(open_state(state), TableRef.parse(table), lake)
plan = plan_state(table_state, open_landing(landing), quiet_period)
done = table_state.lake.commit_position(Transaction(table_state.head, position_of_load(plan).to_json(), run, (), table_state.item.key, ())).commit()
open_state(state).save_position(table_state.item.table, position_of_load(plan), done.commit.number, table_state.item.commit)
"""


def the_job(folder):
    "The stand-in under the name of the job that loads: the front page knows it."
    return shutil.copy(stand_in(folder), folder / "process_table.ipynb")


def told(folder, *command):
    "What a command says, with its exit code."
    done = CliRunner().invoke(app, [*command, "--folder", str(folder)])
    return done.exit_code, done.stdout


def settings(config):
    "The settings as `dmscdc.toml` has them."
    lines = [f"{name} = {json.dumps(getattr(config, name))}" for name in ("landing", "lake", "state", "runs", "quiet_period", "workers")]
    Path(config.folder, "dmscdc.toml").write_text("\n".join(lines) + "\n")


def test_a_table_that_another_run_holds_is_busy_everywhere(tmp_path):
    config, state = a_house(tmp_path, {"a": "", "b": ""})
    settings(config)
    state.acquire(TableRef("shop", "a"), "by hand, process 7", 600)
    lines = []
    result = run_pass(config, job=the_job(tmp_path), on_event=lines.append, classic=True)
    assert (result.verdict, result.exit_code, result.words) == ("busy", 4, "2 tables: 1 busy, 1 ok")
    assert [line for line in lines if line.startswith("shop.a: busy, by hand, process 7 is at work on it until ")]
    assert RunLog(config.runs).runs()[-1].verdict == "busy"
    page = Path(config.runs, "index.html").read_text()
    assert '<tr data-verdict="busy">' in page and "by hand, process 7 is at work on it until" in page
    code, said = told(tmp_path, "status")
    assert code == 0 and "busy" in said and "shop.a: by hand, process 7 is at work on it until" in said
    assert json.loads(told(tmp_path, "status", "--json")[1])[0]["verdict"] == "busy"
    assert told(tmp_path, "pass", "--only", "shop.a")[0] == 4


def test_tables_that_wait_for_files_are_counted_as_waiting(tmp_path):
    config, state = a_house(tmp_path, {"a": "", "b": ""})
    state.put_settings(TableRef("shop", "later"), key="id")
    lines = []
    run_pass(config, job=the_job(tmp_path), on_event=quiet, classic=True)
    result = run_pass(config, job="there is no such job", on_event=lines.append, start=None)
    assert (result.verdict, result.exit_code, result.words) == ("nothing", 0, "3 tables: 1 waiting, 2 nothing")
    assert lines == ["shop.later: nothing, waits: its first files."]
    assert '<tr data-verdict="waiting">' in Path(config.runs, "index.html").read_text()


@pytest.fixture
def refused(tmp_path):
    "A house in which `a` was refused once and `b` loaded."
    config, state = a_house(tmp_path, {"a": SAYS_NO, "b": ""})
    settings(config)
    result = run_pass(config, job=the_job(tmp_path), on_event=quiet, classic=True)
    assert {name: one.verdict for name, one in result.tables.items()} == {"shop.a": "refused", "shop.b": "ok"}
    return config, state


def again(config, **more):
    "Another pass, that finds the job only where it shall run something."
    return run_pass(config, on_event=quiet, classic=True, **more)


def test_what_was_refused_is_not_run_again_and_stays_said(refused, tmp_path):
    config, state = refused
    lines = []
    for _ in range(3):
        result = run_pass(config, job="there is no such job", on_event=lines.append, start=None)
        assert (result.verdict, result.exit_code, result.words) == ("refused", 1, "2 tables: 1 refused, 1 nothing")
    assert len(list(Path(config.runs).rglob("*.ipynb"))) == 2  # those of the first pass
    assert len(lines) == 3 and {re.sub("since 20.*?Z,", "since TIME,", line) for line in lines} == {
        "shop.a: refused since TIME, LOAD00000001.parquet row 2 has no id. Nothing has changed; `dmscdc status` shows the full message"
    }
    for command, code in (("plan", 3), ("status", 3)):
        found, said = told(tmp_path, command)
        assert found == code and "row 2 has no id" in " ".join(said.split()) and "dmscdc pass --only shop.a --retry" in " ".join(said.split())
    page = Path(config.runs, "index.html").read_text()
    assert '<tr data-verdict="refused">' in page and "dmscdc pass --only shop.a --retry" in page
    assert RunLog(config.runs).runs()[-1].verdict == "refused"


def another_file(config, state, monkeypatch):
    write_load(config.landing, "shop.a", [(1, "a"), (3, "right")], COLUMNS)


def another_setting(config, state, monkeypatch):
    state.put_settings(TableRef("shop", "a"), delete="soft")


def another_version(config, state, monkeypatch):
    monkeypatch.setattr(status_room, "__version__", "9.9")


def an_instruction(config, state, monkeypatch):
    state.instruct(TableRef("shop", "a"), {"kind": "reload", "changes": "keep"})


@pytest.mark.parametrize("change", sampled([another_file, another_setting, another_version, an_instruction], another_file, an_instruction))
def test_a_change_of_files_settings_or_version_makes_it_try_again(refused, tmp_path, monkeypatch, change):
    config, state = refused
    (tmp_path / "a.does").unlink()
    change(config, state, monkeypatch)
    assert again(config, job=tmp_path / "process_table.ipynb").tables["shop.a"].verdict == "ok"


def test_a_person_can_have_it_tried_again(refused, tmp_path):
    config, state = refused
    (tmp_path / "a.does").unlink()
    assert again(config, job=tmp_path / "process_table.ipynb", retry=True).tables["shop.a"].verdict == "ok"


def test_the_command_that_a_refusal_offers_tries_it_again(refused, tmp_path, monkeypatch):
    config, _ = refused
    settings(config)
    (tmp_path / "a.does").unlink()
    job = tmp_path / "process_table.ipynb"
    monkeypatch.setattr(controller, "run_pass", lambda *given, **more: run_pass(*given, **{**more, "job": job, "classic": True}))
    code, said = told(tmp_path, "pass")
    assert code == 1 and "2 tables: 1 refused, 1 nothing" in said, said
    code, said = told(tmp_path, "pass", "--retry")
    assert code == 0 and "2 tables: 1 ok, 1 nothing" in said, said


def test_a_refusal_after_a_load_of_the_same_run_is_not_tried_again_either(tmp_path):
    config, state = a_house(tmp_path, {"a": LOADS_HALF + SAYS_NO})
    write_changes(config.landing, TableRef("shop", "a"), [("U", 2, "c")], "20301213-110000000", COLUMNS)
    assert run_pass(config, job=the_job(tmp_path), on_event=quiet, classic=True).verdict == "refused"
    assert state.get(TableRef("shop", "a")).commit == 1
    result = run_pass(config, job="there is no such job", on_event=quiet, start=None)
    assert (result.verdict, result.tables["shop.a"].run) == ("refused", None)


def test_status_says_the_sentence_and_the_command_once_with_exit_code_3(tmp_path):
    config, state = a_house(tmp_path, {"a": "raise ValueError('row 3')", "b": ""})
    settings(config)
    write_load(config.landing, "shop.fresh", [(1, "a")], COLUMNS)
    assert told(tmp_path, "status")[0] == 3  # one waits for its key
    run_pass(config, job=the_job(tmp_path), on_event=quiet, classic=True)
    code, said = told(tmp_path, "status")
    lines = [line for line in said.splitlines() if line.startswith("shop.a: ")]
    assert code == 3 and lines == ["shop.a: ValueError in cell [4]: row 3. Try again: dmscdc pass --only shop.a"]
    assert "shop.a: shop.a:" not in said and told(tmp_path, "status", "--json")[0] == 3


def test_what_a_person_must_look_at_names_its_table_once(tmp_path):
    config, state = a_house(tmp_path, {"a": ""})
    settings(config)
    folder = Path(config.landing) / "shop" / "a"
    shutil.copy(folder / "LOAD00000001.parquet", folder / "LOAD00000002.parquet")
    os.utime(folder / "LOAD00000002.parquet", (0, 0))  # of an earlier load
    code, said = told(tmp_path, "status")
    assert code == 3 and "shop.a: " in said and "shop.a: shop.a:" not in said and "belongs to an earlier load" in " ".join(said.split())


def killed(folder, config, *, remote=""):
    "A pass that is killed while the run of `hangs` is at work."
    env = {**os.environ, **({"SPARK_REMOTE": remote} if remote else {})}
    process = subprocess.Popen([sys.executable, "-c", CTRL_C, Path(__file__).parent, folder, "1"], env=env, start_new_session=True)
    until(lambda: (folder / "hangs.pid").exists() and (folder / "hangs.pid").read_text())
    process.kill()
    return process  # not waited for: its parent has not taken note of its death


def at_work(process):
    "Whether a process may still do anything: not if it is gone, a zombie, or on its way out (PF_EXITING of Linux)."
    try:
        facts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return facts[0] not in "ZX" and not int(facts[6]) & 4


def test_what_a_killed_pass_held_is_taken_over_at_once(tmp_path):
    config, state = a_house(tmp_path, {"hangs": "threading.Event().wait(60)"})
    settings(config)
    process = killed(tmp_path, config)
    kernel = int((tmp_path / "hangs.pid").read_text())
    assert state.holder(TableRef("shop", "hangs")) is not None
    code, said = told(tmp_path, "status")
    assert code == 3 and f"process {process.pid} on " in said and "the next pass takes over" in said
    (tmp_path / "hangs.does").write_text("load()")
    told_then = []
    result = run_pass(config, job=stand_in(tmp_path), on_event=lambda line: told_then.append((line, at_work(kernel))), classic=True)
    assert (result.verdict, result.words) == ("ok", "1 table: 1 ok"), result.to_dict()
    assert [working for line, working in told_then if "has ended before it was done, and nothing of it is at work any more" in line] == [False]
    process.wait()


def test_a_run_that_failed_before_its_first_commit_has_a_verdict_in_status(tmp_path):
    config, state = a_house(tmp_path, {"hangs": "threading.Event().wait(60)"})
    settings(config)
    killed(tmp_path, config).wait()
    asked = threading.Event()
    asked.set()  # the next pass closes the run and begins none
    run_pass(config, job=stand_in(tmp_path), on_event=quiet, classic=True, stop=asked)
    state.release(state.holder(TableRef("shop", "hangs")))
    code, said = told(tmp_path, "status")
    assert code == 3 and "shop.hangs: the process that ran it was gone before it was done" in said


def owner_of_a_dead(spark):
    "The name of a process of this machine that has ended."
    code = f"from dmscdc.spark.interrupts import this_process; print(this_process('1001', {spark!r}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "theirs, ours, freed",
    [
        ("sc://cluster:15002/;token=a", "sc://cluster:15002/;token=b", True),
        ("sc://cluster:15002/;token=a", "sc://other:15002/;token=a", False),
        ("sc://cluster:15002/;token=a", "", False),
        ("", "sc://cluster:15002/;token=a", True),
    ],
)
def test_in_a_spark_of_others_the_session_of_the_dead_is_stopped_before_its_lease_is_free(tmp_path, monkeypatch, theirs, ours, freed):
    monkeypatch.setenv("SPARK_REMOTE", ours) if ours else monkeypatch.delenv("SPARK_REMOTE", raising=False)
    config, state = a_house(tmp_path, {"a": ""})
    table, stopped = TableRef("shop", "a"), []
    lease = state.acquire(table, owner_of_a_dead(theirs), 600)
    keeper = LeaseHeartbeat(state)
    workers = Workers(config, state, Servers(config), keeper, str(this_process("1002")), None, say=quiet)
    workers.stop_work = lambda url, session: stopped.append((url, str(uuid.UUID(session)), state.holder(table)))
    free_dead_lease(workers, table)
    keeper.close()
    assert (state.holder(table) is None) == freed
    assert [(url, holder) for url, _, holder in stopped] == ([(ours, lease)] if theirs and freed else [])


def test_a_pass_with_nothing_to_do_frees_what_the_dead_held_and_only_that(tmp_path):
    config, state = a_house(tmp_path, {name: "" for name in "abc"})
    owners = {"a": owner_of_a_dead(""), "b": str(this_process("1001")), "c": owner_of_a_dead("sc://cluster:15002")}
    for name, owner in owners.items():
        state.put_settings(TableRef("shop", name), active=False)
        state.acquire(TableRef("shop", name), owner, 600)
    lines = []
    result = run_pass(config, job="there is no such job", on_event=lines.append, start=None)
    assert (result.verdict, result.words) == ("nothing", "3 tables: 3 paused")
    assert {lease.table.name: lease.owner for lease in state.holders()} == {name: owners[name] for name in "bc"}
    assert [line for line in lines if "paused with work waiting" not in line] == [
        line for line in lines if "nothing of it is at work any more" in line
    ] and len(lines) == 4


def test_a_lease_stays_while_work_of_the_dead_may_go_on(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://cluster:15002")
    config, state = a_house(tmp_path, {"a": ""})
    table, keeper, lines = TableRef("shop", "a"), LeaseHeartbeat(state), []
    state.acquire(table, owner_of_a_dead("sc://cluster:15002"), 600)
    fake = Fake(tmp_path)
    fake.stop_work = lambda url, session: (_ for _ in ()).throw(ConnectionError("no answer"))
    workers = Workers(config, state, Servers(config), keeper, "we", None, stop_work=fake.stop_work, say=lines.append)
    free_dead_lease(workers, table)
    keeper.close()
    assert state.holder(table) is not None and "its work may go on: no answer" in lines[0]


def test_the_living_those_of_other_machines_and_those_by_hand_keep_their_leases(tmp_path):
    config, state = a_house(tmp_path, {name: "" for name in "abc"})
    keeper = LeaseHeartbeat(state)
    workers = Workers(config, state, Servers(config, classic=True), keeper, "we", None, say=quiet)
    dead = owner_of_a_dead("")
    machine = this_process().machine
    for name, owner in {"a": str(this_process("1001")), "b": dead.replace(machine, "0" * 8), "c": "by hand, process 999999"}.items():
        state.acquire(TableRef("shop", name), owner, 600)
        free_dead_lease(workers, TableRef("shop", name))
    keeper.close()
    assert all(state.holder(TableRef("shop", name)) for name in "abc")


def test_the_report_of_a_killed_run_says_where_to_see_whether_the_lake_has_changed(tmp_path):
    config, state = a_house(tmp_path, {"a": "load()\nos.kill(os.getpid(), 9)", "b": ""})
    result = run_pass(config, job=the_job(tmp_path), on_event=quiet, classic=True)
    pages = {name: Path(one.run.html).read_text() for name, one in result.tables.items()}
    assert result.tables["shop.a"].run.cause == "kernel killed" and state.get(TableRef("shop", "a")).commit == 1
    assert "before it could say whether it changed the lake" in pages["shop.a"] and "dmscdc status" in pages["shop.a"]
    assert "whether it changed the lake" not in pages["shop.b"]
