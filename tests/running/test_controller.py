"""The pass, with real notebooks and no Spark: the job is a stand-in, and so are the server and what stops its work."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from test_runs import at_work, kernels_at_work

from dmscdc.capture.writer import write_load
from dmscdc.errors import NotWanted, WorkGoesOn
from dmscdc.lake.table import Transaction
from dmscdc.landing.files import TableRef
from dmscdc.landing.s3 import open_landing
from dmscdc.load.table_state import load_state, plan_state
from dmscdc.runs.log import RunLog
from dmscdc.service.config import read_config
from dmscdc.service.passes import by_size, run_pass
from dmscdc.service.status import chosen_tables, read_status, read_statuses
from dmscdc.service.workers import LeaseHeartbeat, Servers, Workers, run_table, say_line
from dmscdc.state.registry import open_state
from tiers import sampled

pytestmark = pytest.mark.proof

PARAMETERS = 'table = ""\nlanding = ""\nlake = ""\nstate = ""\nformat = ""\nquiet_period = 0.0\nrun = ""\nowner = ""\nfence = 0'
DOES = """
import os, sys, threading
from pathlib import Path
from dmscdc.lake.table import Transaction
from dmscdc.landing.files import TableRef
from dmscdc.landing.s3 import open_landing
from dmscdc.load.table_state import load_state, plan_state
from dmscdc.runs.log import record
from dmscdc.state.registry import open_state

home, name = Path(landing).parent, table.split(".")[1]
(home / f"{name}.remote").write_text(os.environ["SPARK_REMOTE"])
(home / f"{name}.pid").write_text(str(os.getpid()))

def load():
    "Commit the position without rows: the part of a load that needs no Spark."
    table_state = load_state(open_state(state), TableRef.parse(table), lake)
    plan = plan_state(table_state, open_landing(landing), quiet_period)
    done = table_state.lake.commit_position(Transaction(table_state.head, plan.after.to_json(), run, (), table_state.item.key, ())).commit()
    open_state(state).save_position(table_state.item.table, plan.after, done.commit.number, table_state.item.commit)

def kill_server():
    while not (home / "innocent.waited").exists():
        threading.Event().wait(0.05)
    port = os.environ["SPARK_REMOTE"].split(":")[2].split("/")[0]
    (home / f"dead-{port}").touch()
    threading.Event().wait(60)

def end_who_forks(number):
    above = Path(f"/proc/{os.getppid()}/cmdline").read_text()
    if "serve_forks" in above:
        while not (home / "innocent.waited").exists():
            threading.Event().wait(0.05)
        os.kill(os.getppid(), number)
        threading.Event().wait(60 if number == 9 else 0)  # whom a stopped process has forked ends by itself
    load()

def wait_the_first_time():
    if not (home / f"{name}.waited").exists():
        (home / f"{name}.waited").touch()
        threading.Event().wait(60)
    load()

does = (home / f"{name}.does").read_text() if (home / f"{name}.does").exists() else "load()"
"""
SAYS = 'record("verdict", {"verdict": "ok", "words": "loaded", "command": "dmscdc pass"})'


def stand_in(folder):
    "The job of these tests: does what stands in `<table>.does`, else it loads."
    meta = {"kernelspec": {"name": "python3", "language": "python", "display_name": "python3"}}
    cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}), *map(new_code_cell, (DOES, "exec(does)", SAYS))]
    nbformat.write(new_notebook(cells=cells, metadata=meta), folder / "stand_in.ipynb")
    return folder / "stand_in.ipynb"


def a_house(folder, does, workers=4):
    "A landing with one load file a table, keys set, and what each table's run shall do."
    config = read_config(folder, landing="landing", lake="lake", quiet_period=0, workers=workers, timeout=50)
    state = open_state(config.state)
    for name, code in does.items():
        write_load(config.landing, f"shop.{name}", [(1, "a"), (2, "b")], {"id": "int", "said": "string"})
        state.put_settings(TableRef("shop", name), key="id")
        if code:
            (folder / f"{name}.does").write_text(code)
    return config, state


class Fake:
    "Spark servers that live until a file says that they are dead, and the work that was stopped on them."

    def __init__(self, folder, state=None, sticky=()):
        self.folder, self.state, self.sticky, self.started, self.stopped = folder, state, sticky, [], []

    @contextmanager
    def serve(self, format, **settings):
        number = len(self.started) + 1
        server = FakeServer(f"sc://localhost:{number}/;token=secret", self.folder / f"dead-{number}")
        self.started.append(server)
        yield server
        server.ended = True

    def stop_work(self, url, session):
        tables = [path.stem for path in self.folder.glob("*.remote") if session in path.read_text()]
        holders = [str(self.state.holder(TableRef("shop", name)).owner) for name in tables] if self.state else []
        self.stopped.append((url, tables, holders))
        if set(tables) & set(self.sticky):
            raise WorkGoesOn("told to stop, but still at work: TID 7")
        return 1


class FakeServer:
    def __init__(self, url, dead):
        self.url, self.dead, self.ended = url, dead, False

    def poll(self):
        return 1 if self.dead.exists() else None

    def death(self):
        return "the Spark server was ended by signal 9 (SIGKILL)" if self.dead.exists() else ""

    def dismiss(self):
        pass


def quiet(line):
    pass


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    "One pass over four tables that end in four ways."
    folder = tmp_path_factory.mktemp("mixed")
    does = {"good": "", "raises": "raise ValueError('row 3')", "killed": "os.kill(os.getpid(), 9)", "lingers": "os.kill(os.getpid(), 9)"}
    config, state = a_house(folder, does)
    write_load(config.landing, "shop.fresh", [(1, "a"), (2, "b")], {"id": "int", "said": "string"})
    fake = Fake(folder, state, sticky=["lingers"])
    result = run_pass(config, job=stand_in(folder), on_event=quiet, start=fake.serve, stop_work=fake.stop_work)
    return folder, config, state, fake, result


def test_one_table_s_failure_leaves_the_others_work_intact(mixed):
    folder, config, state, fake, result = mixed
    assert {name: (o.verdict, o.run.cause if o.run else None) for name, o in result.tables.items()} == {
        "shop.good": ("ok", ""),
        "shop.raises": ("failed", "cell error"),
        "shop.killed": ("failed", "kernel killed"),
        "shop.lingers": ("failed", "kernel killed"),
        "shop.fresh": ("attention", None),
    }
    assert (result.verdict, result.exit_code, result.words) == ("failed", 1, "5 tables: 3 failed, 1 attention, 1 ok")
    assert state.get(TableRef("shop", "good")).commit == 1
    assert {item.table.name: item.status.get("last_verdict") for item in state.items()} == {
        "good": "ok",
        "raises": "failed",
        "killed": "failed",
        "lingers": "failed",
        "fresh": None,
    }


def test_all_notebooks_share_one_server_each_with_a_session_of_its_own(mixed):
    folder, config, state, fake, result = mixed
    assert len(fake.started) == 1 and fake.started[0].ended
    addresses = {path.read_text() for path in folder.glob("*.remote")}
    assert len(addresses) == 4 and all(address.startswith("sc://localhost:1/;token=secret;user_id=dmscdc;session_id=") for address in addresses)


def test_every_run_s_work_is_stopped_while_its_lease_is_still_held(mixed):
    folder, config, state, fake, result = mixed
    assert sorted(tables for _, tables, _ in fake.stopped) == [["good"], ["killed"], ["lingers"], ["raises"]]
    assert {url for url, _, _ in fake.stopped} == {fake.started[0].url}
    assert all(holders[0].split(":")[1:3] == [str(os.getpid()), result.id] for _, _, holders in fake.stopped)


def test_a_lease_is_given_back_unless_work_may_go_on(mixed):
    folder, config, state, fake, result = mixed
    held = [item.table.name for item in state.items() if state.holder(item.table)]
    assert held == ["lingers"]
    assert "Its lease is left to run out: WorkGoesOn: told to stop, but still at work: TID 7" in result.tables["shop.lingers"].words


def test_a_pass_leaves_a_line_for_each_run_and_one_for_itself(mixed):
    folder, config, state, fake, result = mixed
    lines = RunLog(config.runs).runs()
    assert [line.job for line in lines] == ["stand_in"] * 4 + ["pass"]
    assert (lines[-1].run, lines[-1].verdict, lines[-1].words) == (result.id, result.verdict, result.words)


def test_the_front_page_names_the_suggested_key_and_the_command_that_sets_it(mixed):
    folder, config, state, fake, result = mixed
    page = Path(config.runs, "index.html").read_text()
    assert "dmscdc table set shop.fresh --key id" in page
    assert result.tables["shop.fresh"].command == "dmscdc table set shop.fresh --key id"


def test_no_token_is_kept_in_any_notebook(mixed):
    folder, config, state, fake, result = mixed
    kept = [path for path in Path(config.runs).rglob("*") if path.is_file()]
    assert len(kept) > 8 and not [path for path in kept if b"secret" in path.read_bytes().replace(b"looks like a secret", b"")]


def test_the_next_pass_loads_what_failed_and_nothing_else(mixed):
    folder, config, state, fake, result = mixed
    (folder / "raises.does").unlink()
    again = run_pass(config, job=stand_in(folder), on_event=quiet, classic=True, only=["shop.good", "shop.raises"])
    assert {name: bool(o.run) for name, o in again.tables.items()} == {"shop.good": False, "shop.raises": True}
    assert again.exit_code == 0 and again.tables["shop.raises"].verdict == "ok"
    assert (folder / "raises.remote").read_text() == ""  # classic: no server, a Spark of its own


def test_a_dead_server_fails_nobody_but_who_dies_alone(tmp_path):
    config, state = a_house(tmp_path, {"killer": "kill_server()", "innocent": "wait_the_first_time()"})
    fake = Fake(tmp_path)
    result = run_pass(config, job=stand_in(tmp_path), on_event=quiet, start=fake.serve, stop_work=fake.stop_work)
    assert result.tables["shop.innocent"].verdict == "ok"
    killer = result.tables["shop.killer"]
    assert (killer.verdict, killer.run.cause) == ("failed", "server died")
    assert killer.words.startswith("alone on a new server, and again: the Spark server was ended by signal 9")
    assert len(fake.started) == 2 and all(server.ended for server in fake.started)  # the innocent one goes first, by name
    assert [tables for _, tables, _ in fake.stopped] == [["innocent"]]  # a dead server does no work
    lines = {table: [line for line in RunLog(config.runs).runs() if line.table == f"shop.{table}"] for table in ("killer", "innocent")}
    assert [(line.verdict, line.cause) for line in lines["killer"]] == [("failed", "server died")] * 2
    assert [line.verdict for line in lines["innocent"]] == ["failed", "ok"] and lines["innocent"][0].cause == "server died"
    for line in [*lines["killer"], lines["innocent"][0]]:
        page = Path(config.runs, line.html).read_text()
        assert "the Spark server was ended by signal 9" in page and line.words.startswith("the Spark server was ended by signal 9")
    front = Path(config.runs, "index.html").read_text()
    assert "alone on a new server, and again" in front and state.holder(TableRef("shop", "killer")) is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_who_dies_with_the_process_that_forks_kernels_runs_once_more(tmp_path, number):
    config, state = a_house(tmp_path, {"killer": f"end_who_forks({number:d})", "innocent": "wait_the_first_time()"})
    result = run_pass(config, job=stand_in(tmp_path), on_event=quiet, classic=True)
    assert [outcome.verdict for outcome in result.tables.values()] == ["ok", "ok"]
    causes = [line.cause for line in RunLog(config.runs).runs() if line.table and line.verdict == "failed"]
    assert causes == ["process that forks died"] * len(causes) and causes


def test_two_passes_at_once_share_the_tables(tmp_path):
    config, state = a_house(tmp_path, {"a": "", "b": "", "c": ""}, workers=2)
    job, fake = stand_in(tmp_path), Fake(tmp_path)
    one = lambda: run_pass(config, job=job, on_event=quiet, start=fake.serve, stop_work=fake.stop_work)  # noqa: E731
    with ThreadPoolExecutor(2) as pool:
        results = [future.result() for future in [pool.submit(one), pool.submit(one)]]
    runs = [line.table for line in RunLog(config.runs).runs() if line.job == "stand_in"]
    assert sorted(runs) == ["shop.a", "shop.b", "shop.c"]
    assert {result.exit_code for result in results} <= {0, 4}, [result.to_dict() for result in results]
    assert {o.verdict for result in results for o in result.tables.values()} <= {"ok", "nothing", "busy"}
    assert {item.table.name: item.commit for item in state.items()} == {"a": 1, "b": 1, "c": 1}
    left = [o.words for result in results for o in result.tables.values() if o.run is None]
    assert len(left) == 3 and all("is at work on it" in words or "another pass has done it" in words or "nothing to do" in words for words in left)


CTRL_C = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parent)]
from test_controller import Fake, read_config, run_pass, stand_in
folder = Path(sys.argv[2])
config = read_config(folder, landing="landing", lake="lake", quiet_period=0, workers=int(sys.argv[3]), timeout=50)
class Writing(Fake):
    def stop_work(self, url, session):
        super().stop_work(url, session)
        with (folder / "stopped").open("a") as out: print(*self.stopped[-1][1], file=out)
fake = Writing(folder)
sys.exit(run_pass(config, job=stand_in(folder), start=fake.serve, stop_work=fake.stop_work).exit_code)
"""


@pytest.mark.parametrize(
    "workers, number", sampled([(1, signal.SIGINT), (0, signal.SIGINT), (1, signal.SIGTERM), (0, signal.SIGTERM)], (1, signal.SIGTERM))
)
def test_ctrl_c_and_sigterm_end_kernels_stop_their_work_and_give_the_leases_back(tmp_path, workers, number):
    config, state = a_house(tmp_path, {"done": "", "hangs": "threading.Event().wait(60)", "later": ""})
    write_load(config.landing, "shop.done", [(n, "a" * 99) for n in range(999)], {"id": "int", "said": "string"})  # the longest goes first
    write_load(config.landing, "shop.hangs", [(n, "a" * 99) for n in range(99)], {"id": "int", "said": "string"})
    process = subprocess.Popen([sys.executable, "-c", CTRL_C, Path(__file__).parent, tmp_path, str(workers)], start_new_session=True)
    until(lambda: (tmp_path / "hangs.pid").exists())
    kernel = int((tmp_path / "hangs.pid").read_text() or 0)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.terminate()
    assert process.wait(60) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(kernel, 0)
    assert (tmp_path / "stopped").read_text().split() == ["done", "hangs"]
    assert [item.table.name for item in state.items() if state.holder(item.table)] == []
    assert {item.table.name: item.commit for item in state.items()} == {"done": 1, "hangs": 0, "later": 0}
    lines = {line.table: line for line in RunLog(config.runs).runs()}
    assert lines["shop.hangs"].cause == "stopped" and "shop.later" not in lines
    assert lines[None].verdict == "failed" and lines[None].words.startswith("stopped on request")


def test_a_pass_that_is_stopped_while_its_server_starts_begins_no_run(tmp_path):
    "Once the start notices, once the server has come meanwhile."
    for notices in (True, False):
        home = tmp_path / str(notices)
        home.mkdir()
        config, state = a_house(home, {"a": "", "b": ""}, workers=1)
        stop, fake, asked = threading.Event(), Fake(home), []

        @contextmanager
        def serve(format, **settings):
            asked.append(settings["stop"])
            stop.set()
            if notices:
                raise NotWanted("the start was given up")
            with fake.serve(format, **settings) as server:
                yield server

        result = run_pass(config, job=stand_in(home), on_event=quiet, start=serve, stop_work=fake.stop_work, stop=stop)
        assert result.exit_code == 1 and asked == [stop] and all(server.ended for server in fake.started)
        assert {(o.verdict, o.words, o.run) for o in result.tables.values()} == {("nothing", "not begun: the pass was stopped", None)}
        assert result.words.endswith(f"{len(result.tables)} not begun"), result.words
        assert [line.table for line in RunLog(config.runs).runs()] == [None], "no run was kept, only the pass"
        assert not [item for item in state.items() if state.holder(item.table) or item.commit]


def alive(*leaders):
    "Processes of these sessions that have not ended."
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getsid(process.pid) in leaders and at_work(process):
                found.append(process)
    return found


def test_a_real_pass_that_gets_sigterm_while_a_kernel_starts_leaves_nothing_at_work_and_the_next_one_loads(tmp_path):
    "The command, the job and the kernel are the real ones; a load without rows needs no Spark, and so takes seconds."
    write_load(tmp_path / "raw", "shop.mug", [], {"id": "int"})
    state, table = open_state(f"sqlite:{tmp_path / 'state.db'}"), TableRef("shop", "mug")
    state.put_settings(table, key="id")
    command = [
        sys.executable,
        "-c",
        "from dmscdc.cli.main import main; main()",
        "pass",
        "--classic",
        "--landing",
        "raw",
        "--lake",
        "lake",
        "--quiet-period",
        "0",
    ]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)

    def starting():
        assert process.poll() is None, (tmp_path / "said").read_text()
        return kernels_at_work(process.pid)

    [kernel] = until(starting)
    process.terminate()
    words = lambda: " ".join((tmp_path / "said").read_text().split())  # noqa: E731
    assert process.wait(60) == 1, words()
    assert not at_work(kernel) and alive(process.pid, kernel.pid) == []
    assert "stopping: kernels are ended and their work is stopped; what was committed stays" in words() and "stopped on request; " in words()
    assert "Traceback" not in words()
    assert state.holder(table) is None and state.get(table).commit == 0
    lines = {line.table: line for line in RunLog(tmp_path / "runs").runs()}
    assert {name: (line.verdict, line.cause) for name, line in lines.items()} == dict.fromkeys(("shop.mug", None), ("failed", "stopped"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and state.get(table).commit == 1, done.stdout + done.stderr


def until(condition, seconds=60):
    "Look again and again until something is so."
    end, pause = time.monotonic() + seconds, threading.Event()
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        pause.wait(0.05)
    return found


def test_a_run_whose_lease_passes_to_somebody_else_is_ended(tmp_path):
    config, state = a_house(tmp_path, {"slow": "threading.Event().wait(60)"})
    keeper, table = LeaseHeartbeat(state, seconds=1), TableRef("shop", "slow")
    workers = Workers(config, state, Servers(config, classic=True), keeper, "we", None, stand_in(tmp_path), say=quiet)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_table, workers, read_statuses(config)[0])
        until(lambda: (tmp_path / "slow.pid").exists())
        assert state.acquire(table, "they", 60, now=time.time() + 999)
        outcome = running.result()
    keeper.close()
    assert (outcome.verdict, outcome.run.cause) == ("failed", "stopped")
    assert state.holder(table).owner == "they"


def test_an_address_in_the_environment_is_used_and_no_server_is_started(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://cluster:15002/;token=theirs")
    config, state = a_house(tmp_path, {"a": ""})
    fake = Fake(tmp_path)
    result = run_pass(config, job=stand_in(tmp_path), on_event=quiet, start=fake.serve, stop_work=fake.stop_work)
    assert result.exit_code == 0 and not fake.started
    assert (tmp_path / "a.remote").read_text().startswith("sc://cluster:15002/;token=theirs;user_id=dmscdc;session_id=")
    assert fake.stopped == [("sc://cluster:15002/;token=theirs", ["a"], [])]


def test_the_longest_work_goes_first(tmp_path):
    config, state = a_house(tmp_path, {"a_small": "", "c_large": "", "b_middle": ""})
    for name, rows in {"c_large": 5000, "b_middle": 500}.items():
        write_load(config.landing, f"shop.{name}", [(n, str(n)) for n in range(rows)], {"id": "int", "said": "string"})
    assert [look.table.name for look in by_size(read_statuses(config))] == ["c_large", "b_middle", "a_small"]


def test_two_hundred_idle_tables_need_one_listing_each_no_server_and_no_notebook(tmp_path):
    config, state = a_house(tmp_path, {f"t{n:03}": "" for n in range(200)})
    landing = open_landing(config.landing)
    for table in landing.tables():
        table_state = load_state(state, table, config.lake)
        plan = plan_state(table_state, landing, 0)
        table_state.lake.commit_position(Transaction(None, plan.after.to_json(), "earlier", (), ("id",), ())).commit()
    looking = open_landing(config.landing)
    looks = [read_status(table, config, looking, state, time.time()) for table in chosen_tables(looking, state)]
    assert looking.listings == len(looks) == 200 and not [look for look in looks if look.has_work]
    result = run_pass(config, job="there is no such job", on_event=quiet, start=None, stop_work=None)
    assert (result.verdict, result.exit_code, result.words) == ("nothing", 0, "200 tables: 200 nothing")
    assert [line.job for line in RunLog(config.runs).runs()] == ["pass"]
    assert not list(Path(config.runs).rglob("*.ipynb"))


def test_a_line_is_written_in_one_piece_so_that_no_other_gets_into_it_in_jupyterlab_either(monkeypatch):
    "A notebook's output mixes what threads write, piece by piece: print writes a line and its end as two."
    pieces = []
    monkeypatch.setattr(
        sys, "stdout", type("Output", (), {"write": lambda self, text: pieces.append(text), "flush": lambda self: pieces.append("")})()
    )
    print("by print", flush=True)
    assert pieces == ["by print", "\n", ""], "else this shows nothing"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(say_line, [f"table {number}: ok" for number in range(100)]))
    assert sorted(filter(None, pieces[3:])) == sorted(f"table {number}: ok\n" for number in range(100))
