"""The server: it dies with its starter, says why it died, and stops the work of dead clients."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from dmscdc.errors import NotWanted, WorkGoesOn
from dmscdc.spark.interrupts import ServerMonitor, connect_client, session_url, stop_work
from dmscdc.spark.server import own_log, serve, start_guarded, wait_for_port
from dmscdc.spark.session import class_archive

pytestmark = pytest.mark.proof

ENDLESS = """
import sys
from dmscdc.spark.session import open_session

def tasks(url, folder):
    def write_one(batches):
        for batch in batches:
            open(f"{folder}/{batch.column(0)[0]}", "w").close()
            yield batch
    open_session(remote=url).range(0, 50000, 1, 50000).mapInArrow(write_one, "id long").count()

tasks(sys.argv[1], sys.argv[2])
"""


def until(condition, seconds=60):
    "Look again and again until something is so."
    end, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        pause.wait(0.02)


def query(url, session_id, sql):
    "Run a query in a session; a failure comes back as text."
    from pyspark.sql.connect.plan import SQL

    client = connect_client(url, session_id)
    try:
        return client.to_table(SQL(sql).to_proto(client), {})[0].to_pylist()
    except Exception as error:
        return str(error)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    log = tmp_path_factory.mktemp("server") / "server.log"
    with serve(master="local[4]", log=log, memory="1g") as server:  # room for a question beside the work
        yield server


def test_after_a_killed_client_its_work_is_stopped_and_writes_nothing_more(server, tmp_path):
    session_id, folder = str(uuid.uuid4()), tmp_path / "written"
    folder.mkdir()
    client = subprocess.Popen([sys.executable, "-c", ENDLESS, session_url(server.url, session_id), folder])
    try:
        until(lambda: len(os.listdir(folder)) > 5)
    finally:
        client.send_signal(signal.SIGKILL)
        client.wait()
    orphaned = len(os.listdir(folder))
    until(lambda: len(os.listdir(folder)) > orphaned + 5)  # the premise: nobody is there, and it goes on

    assert stop_work(server.url, session_id) == 1

    written = sorted(os.listdir(folder))
    assert {work.split()[0].split("=")[0] for work in ServerMonitor(server.url).at_work()} == {"opId", "TID"}  # only the question
    assert len(ServerMonitor(server.url).at_work()) == 2
    assert sorted(os.listdir(folder)) == written and len(written) < 50000


def test_stopping_one_session_leaves_the_others_at_work(server):
    mine, other, said = str(uuid.uuid4()), str(uuid.uuid4()), {}
    sleep = "SELECT reflect('java.lang.Thread', 'sleep', {}L) FROM range(0, 1, 1, 1)"
    threads = [
        threading.Thread(target=lambda s=session, ms=ms: said.update({s: query(server.url, s, sleep.format(ms))}))
        for session, ms in ((mine, 60000), (other, 5000))
    ]
    for thread in threads:
        thread.start()
    monitor = ServerMonitor(server.url)
    until(lambda: len([work for work in monitor.at_work() if work.startswith("opId")]) == 3)  # theirs and our question
    assert stop_work(server.url, mine) == 1
    for thread in threads:
        thread.join()
    assert "OPERATION_CANCELED" in said[mine] or "SESSION_CLOSED" in said[mine]  # told by the operation or, later, by the session
    assert isinstance(said[other], list)


@pytest.mark.torture
def test_a_task_that_does_not_listen_is_waited_for_and_then_said_to_go_on(server):
    session_id, monitor = str(uuid.uuid4()), ServerMonitor(server.url)
    deaf = "SELECT levenshtein(repeat('a', 50000 + id), repeat('b', 50000)) FROM range(0, 1, 1, 1)"
    thread = threading.Thread(target=query, args=(server.url, session_id, deaf))
    thread.start()
    until(lambda: len(monitor.at_work()) == 4)
    with pytest.raises(WorkGoesOn, match=r"told to stop, but still at work: TID \d+"):
        stop_work(server.url, session_id, wait=0)
    thread.join()
    until(lambda: len(monitor.at_work()) == 2)


WORKER = """
import json, os, sys
from dmscdc.spark.session import open_session

def who(batches):
    import pyarrow as pa
    for _ in batches: yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})

spark = open_session(remote=sys.argv[1])
print(json.dumps(spark.range(1, numPartitions=1).mapInArrow(who, "daemon long").collect()[0][0]))
"""


def test_sessions_of_several_clients_share_their_python_processes(server):
    said = [json.loads(subprocess.check_output([sys.executable, "-c", WORKER, server.url])) for _ in range(3)]
    assert len(set(said)) == 1, "each session left a Python of its own"


def test_ctrl_c_of_the_terminal_does_not_reach_the_server(server):
    assert os.getpgid(server.pid) != os.getpgid(0)


ASKS = "import sys; from dmscdc.spark.session import open_session; print(open_session(remote=sys.argv[1]).range(3).count())"


def test_a_client_of_a_server_that_is_gone_does_not_wait_for_ten_minutes():
    asks = subprocess.run([sys.executable, "-c", ASKS, "sc://localhost:1/;token=none"], capture_output=True, text=True, timeout=240)
    assert asks.returncode and "Failed to connect" in asks.stderr


def test_a_client_does_not_mind_the_address_of_another_spark_in_its_environment(server):
    asks = subprocess.run(
        [sys.executable, "-c", ASKS, server.url], env={**os.environ, "MASTER": "spark://elsewhere:7077"}, capture_output=True, text=True, timeout=240
    )
    assert asks.stdout == "3\n", asks.stderr[-2000:]


def test_a_server_without_memory_says_so(tmp_path):
    with serve(log=tmp_path / "server.log", memory="600m") as server:
        query(server.url, str(uuid.uuid4()), "SELECT max(size(sequence(1L, 2000000000L + id))) FROM range(2)")
        assert server.process.wait(60) == 3
        assert "ran out of memory (it had 600m)" in server.death()


def test_a_server_goes_when_its_starter_is_killed(tmp_path):
    code = (
        "import os, sys, pathlib; from dmscdc.spark.server import start_guarded;"
        "folder = pathlib.Path(sys.argv[1]); (folder / 'own').mkdir();"
        "print(start_guarded(['sleep', '3600'], folder / 'own', dict(os.environ), (folder / 'log').open('ab'))[1], flush=True);"
        "sys.stdin.read()"
    )
    starter = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid = int(starter.stdout.readline())
    os.kill(pid, 0)
    starter.kill()
    starter.wait()
    until(lambda: not (tmp_path / "own").exists())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_two_servers_that_start_at_once_read_each_its_own_port(tmp_path):
    started = []
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        says = f"until [ -e ../go{number} ]; do sleep 0.02; done; echo 'Spark Connect server started at: 127.0.0.1:{number}'; exec sleep 3600"
        out = own_log(tmp_path / "spark.log")
        log, size = Path(out.name), out.tell()
        started.append((start_guarded(["sh", "-c", says], tmp_path / str(number), dict(os.environ), out)[0], log, size))
    for number, (process, log, size) in enumerate(started, 1):  # who read the other's log would have the port of the first
        (tmp_path / f"go{number}").touch()
        assert wait_for_port(process, log, size, 60, "3g") == number
    with own_log(tmp_path / "spark.log") as third:
        assert Path(third.name).name == "spark-3.log"
    for process, _, _ in started:
        process.stdin.close()
        process.wait(60)
    with own_log(tmp_path / "spark.log") as again:
        assert Path(again.name).name == "spark.log" and again.tell() > 0


def test_a_server_that_nobody_wants_any_more_is_not_waited_for(tmp_path):
    log, stop = tmp_path / "spark.log", threading.Event()
    (tmp_path / "home").mkdir()
    process, _ = start_guarded(["sleep", "600"], tmp_path / "home", dict(os.environ), own_log(log))
    stop.set()
    with pytest.raises(NotWanted, match="stopped on request before the Spark server was ready"):
        wait_for_port(process, log, 0, 20, "3g", stop)
    process.stdin.close()
    process.wait(60)


def test_a_real_server_is_ended_where_its_starter_is_stopped(tmp_path):
    stop, log = threading.Event(), tmp_path / "spark.log"
    with pytest.raises(NotWanted), serve(log=log, memory="1g", meanwhile=stop.set, stop=stop):
        pass
    assert "Spark Connect server started" not in log.read_text()
    until, free = time.monotonic() + 30, False  # the launcher that spark-submit begins with may outlive it for a moment
    while not free and time.monotonic() < until:
        with own_log(log) as again:
            free = Path(again.name).name == "spark.log"
    assert free, "no process of it writes any more"


def test_a_server_starts_from_the_classes_that_were_kept(tmp_path, monkeypatch):
    kept = re.search(r"-XX:SharedArchiveFile=(\S+)", os.environ["JAVA_TOOL_OPTIONS"])[1]  # what make env has written by the same function
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    class_archive().symlink_to(kept)
    with serve(master="local[1]", memory="1g", log=tmp_path / "server.log") as server:
        assert os.path.realpath(kept) in Path(f"/proc/{server.pid}/maps").read_text()  # Java has mapped the file
