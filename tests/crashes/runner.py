"""Forks a process for each run of the crash suite: everything is imported once, and its parent sees it die or sleep.

`python runner.py` reads a line of JSON from its standard input and answers with one: `{"fork": {…}}` gives a process id,
`{"wait": pid}` how that process stopped, ended or died. When its input closes, it ends what it has started and goes.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


def load() -> None:
    "Import all that runs need, before anything is watched."
    sys.path[:0] = [HERE]
    import boto3  # noqa: F401
    import pyarrow.dataset  # noqa: F401
    import pyspark.sql.connect.functions  # noqa: F401
    import pyspark.sql.connect.session  # noqa: F401

    import dmscdc.lake.parquet.table
    import dmscdc.landing.s3
    import dmscdc.load.process  # noqa: F401
    import dmscdc.service.passes
    import dmscdc.state.dynamodb  # noqa: F401


def process(ask: dict[str, Any]) -> dict[str, Any]:
    "What the cell of a job notebook does."
    from dmscdc.load.process import process_table

    settle_session(ask["conf"])
    done = process_table(*ask["places"], quiet_period=0, **ask["given"])
    return {"verdict": done.verdict, "words": done.words, "commit": done.commit, "kind": done.plan["kind"], "notes": done.notes}


def settle_session(conf: dict[str, str]) -> None:
    "The run's session gets these settings as soon as it has one."
    import dmscdc.load.process as room

    opened = room.open_session

    def open_session(*given: Any, **more: Any) -> Any:
        session = opened(*given, **more)
        for name, value in conf.items():
            session.conf.set(name, value)
        return session

    room.open_session = open_session


def one_pass(ask: dict[str, Any]) -> dict[str, Any]:
    "What `dmscdc pass` does."
    from dmscdc.service.config import read_config
    from dmscdc.service.passes import run_pass

    done = run_pass(read_config(ask["folder"], **ask["given"]))
    return {"verdict": done.verdict, "words": done.words, "tables": done.to_dict()["tables"]}


def tell_tasks(control: str, tasks: dict[str, Any]) -> None:
    "What happens to this process, or another, when its tasks come to a point."
    with open(f"{control}.new", "w") as file:
        json.dump({"pid": os.getpid(), **tasks}, file)
    os.replace(f"{control}.new", control)


def run(ask: dict[str, Any]) -> None:
    "The forked process: watched from here on, its result in a file."
    from points import watch
    from referee import record

    told = os.open(ask["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(ask["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    os.dup2(1, 2)
    os.environ.update(ask["env"])
    tell_tasks(ask["control"], ask["tasks"])
    if ask["requests"]:
        record(ask["requests"])
    if ask["watch"]:
        watch(**ask["watch"])
    try:
        result = {"process": process, "pass": one_pass}[ask["do"]](ask)
    except BaseException as error:
        result = {"raised": type(error).__name__, "words": str(error)}
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)  # the disk is full no more
    os.write(told, json.dumps(result).encode())


def fork(ask: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        run(ask)
    finally:
        os._exit(0)


def wait(pid: int) -> str:
    "stopped, done, or the name of the signal that killed it."
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return "stopped"
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "done"


def main() -> None:
    load()
    running: set[int] = set()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        if "fork" in ask:
            answer: Any = fork(ask["fork"])
            running.add(answer)
        else:
            answer = wait(ask["wait"])
            if answer != "stopped":
                running.discard(ask["wait"])
        print(json.dumps(answer), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
