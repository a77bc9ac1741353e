"""Counts the requests by which this process changes something below a folder, and can die, sleep or fail just before any of them.

Nothing is listed by hand: Python's audit hook tells of every call that touches a file, SQLite's trace of every statement, and
pyarrow's file system is watched, because its C++ tells nobody. A new step of the program is a new point the day it is written.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import sqlite3
import sys
import threading
from typing import Any

READS = {
    "listdir",
    "scandir",
    "walk",
    "fwalk",
    "chdir",
    "fchdir",
    "getxattr",
    "listxattr",
    "exec",
    "posix_spawn",
    "spawn",
    "system",
    "fork",
    "kill",
    "killpg",
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
GONE = {"os.remove", "os.rmdir", "os.rename"}  # change nothing where the name is not there


class Points:
    "What is counted, and what happens at which point."

    def __init__(self, root: str, log: str = "", do: str = "count", at: int = 0, only: str = "", bucket: str = "nowhere"):
        self.root, self.do, self.at, self.only, self.bucket = os.path.join(os.path.realpath(root), ""), do, at, only, bucket
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND) if log else -1
        self.count, self.lock, self.quiet = 0, threading.RLock(), threading.local()

    def reach(self, what: str, path: str, asleep: bool = True) -> None:
        "The process is about to change something; `asleep`: it may be stopped here without locking everybody out."
        with self.lock:
            self.count += 1
            if self.log >= 0:
                os.write(self.log, f"{json.dumps([self.count, what, path.replace(self.root, ''), asleep])}\n".encode())
            if self.at and (self.count == self.at or (self.count > self.at and self.do == "refuse")):
                self.act(path)

    def act(self, path: str) -> None:
        if self.do == "kill":
            signal.pthread_kill(threading.get_ident(), signal.SIGKILL)
        if self.do == "stop":
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        if self.do == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        if self.do == "refuse" and path.startswith(self.root + self.only):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)


# Calls of Python


def absolute(name: Any, fd: Any) -> str:
    "A name as the audit hook tells it; it may be relative to an open folder."
    name = os.fsdecode(name)
    if os.path.isabs(name):
        return name
    return os.path.join(os.readlink(f"/proc/self/fd/{fd}") if isinstance(fd, int) and fd >= 0 else os.getcwd(), name)


def changed(event: str, args: tuple) -> list[str]:
    "The names that a call is about to change."
    kind, _, verb = event.partition(".")
    if event == "open":
        names = args[:1] if isinstance(args[2], int) and args[2] & WRITING else ()
    elif kind == "os" and verb not in READS:
        names = args
    else:
        return []
    names = [absolute(name, args[-1]) for name in names if isinstance(name, (str, bytes, os.PathLike))]
    if event == "os.mkdir" and (os.path.lexists(names[0]) or not os.path.lexists(os.path.dirname(names[0]))):
        return []
    return [] if event in GONE and not os.path.lexists(names[0]) else names


def hook(points: Points):
    "Every call of Python that changes a file. A file that is opened for writing is two points: before, and while it is empty."

    def opened(frame, event, arg):
        sys.setprofile(None)
        points.reach("opened", points.quiet.path)

    def audit(event: str, args: tuple) -> None:
        if getattr(points.quiet, "busy", False):
            return
        for name in changed(event, args):
            if name.startswith(points.root):
                points.reach(event, name)
                if event == "open":
                    points.quiet.path = name
                    sys.setprofile(opened)
                return

    return audit


# Statements of SQLite


def trace(points: Points, db: sqlite3.Connection) -> sqlite3.Connection:
    "Every statement that writes, and the commit that makes it last."
    wrote: list[str] = []

    def said(statement: str) -> None:
        word = statement.split(None, 1)[0].lower()
        if word in ("select", "rollback", "end") or statement.startswith("--") or word == "pragma" and "=" not in statement:
            return
        if word == "begin":
            wrote[:] = []
            return points.reach("sqlite", statement.lower()) if "immediate" in statement.lower() else None
        if word == "commit" and not wrote:
            return
        wrote.append(word)
        points.reach("sqlite", " ".join(statement.split())[:80], asleep=False)

    db.set_trace_callback(said)
    return db


def watch_sqlite(points: Points) -> None:
    "Every connection to a file below the folder."
    real = sqlite3.connect

    def connect(database, *given, **more):
        db = real(database, *given, **more)
        return trace(points, db) if absolute(database, -1).startswith(points.root) else db

    sqlite3.connect = sqlite3.dbapi2.connect = connect


# pyarrow


def watch_arrow(points: Points) -> None:
    "The file systems that pyarrow gives out count what changes something."
    import pyarrow.dataset
    import pyarrow.fs as fs
    import pyarrow.parquet  # noqa: F401  they keep the real classes for their checks

    def here(path: str) -> str:
        return os.path.abspath(path) if os.path.abspath(path).startswith(points.root) else ""

    def there(path: str) -> str:
        return path if path.startswith(points.bucket) else ""

    def counting(kind: type, ours) -> type:
        def counted(name):
            real = getattr(kind, name)

            def request(self, path, *given, **more):
                if ours(path) and not (name == "create_dir" and os.path.isdir(path)):
                    points.reach(f"pyarrow.{name}", ours(path))
                return real(self, path, *given, **more)

            return request

        verbs = [v for v in dir(kind) if v.startswith(("create_", "delete_", "open_output", "open_append", "move", "copy_"))]
        return type(kind.__name__, (kind,), {v: counted(v) for v in verbs})

    real, real_local = fs.FileSystem, fs.LocalFileSystem
    local = counting(real_local, here)

    class Matches(type):
        def __instancecheck__(cls, thing):
            return isinstance(thing, real)

        def from_uri(cls, uri):
            found, path = real.from_uri(uri)
            return (local() if isinstance(found, real_local) else found), path

    fs.FileSystem, fs.LocalFileSystem, fs.S3FileSystem = Matches("FileSystem", (), {}), local, counting(fs.S3FileSystem, there)


# AWS

READING = {"GetItem", "Query", "Scan", "DescribeTable", "BatchGetItem"}  # of DynamoDB


def asked(request: Any) -> tuple[str, str] | None:
    "What a request of boto3 changes; None when it only looks."
    target = request.headers.get("X-Amz-Target", "")
    verb = (target if isinstance(target, str) else target.decode()).rpartition(".")[2]
    if verb:
        return None if verb in READING else (f"aws.{verb}", "")
    if request.method in ("GET", "HEAD"):
        return None
    verb = "COPY" if "x-amz-copy-source" in request.headers else request.method
    return f"aws.{verb}", request.url.partition("?")[0].split("/", 3)[3]


def watch_aws(points: Points) -> None:
    "Every request that changes an object or an item."
    from botocore.httpsession import URLLib3Session

    real = URLLib3Session.send

    def send(self, request):
        if what := asked(request):
            points.reach(*what)
        return real(self, request)

    URLLib3Session.send = send


# Spark


def watch_spark(points: Points) -> None:
    "Work given to the server is a point as soon as the server has begun with it."
    from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub as Stub

    real = Stub.__init__

    def begin(self, channel):
        real(self, channel)
        execute = self.ExecutePlan

        def begun(*given, **more):
            answers = execute(*given, **more)
            for number, answer in enumerate(answers):
                if not number:
                    points.reach("spark", "")
                yield answer

        self.ExecutePlan = begun

    Stub.__init__ = begin


class Tasks(Points):
    "The same for the tasks of a server, all its processes together; which run is watched stands in a file."

    def __init__(self, control: str):
        super().__init__(os.path.dirname(control), bucket="")  # what lies elsewhere is told apart by `weigh`
        self.control = control

    def reach(self, what: str, path: str, asleep: bool = True) -> None:
        self.quiet.busy = True
        try:
            self.weigh(what, path)
        finally:
            self.quiet.busy = False

    def weigh(self, what: str, path: str) -> None:
        with open(self.control) as file:
            ask = json.load(file)
        if not path.startswith(ask["root"]):
            return
        log = os.open(ask["log"], os.O_RDWR | os.O_CREAT | os.O_APPEND)
        fcntl.flock(log, fcntl.LOCK_EX)
        try:
            count = os.pread(log, 1 << 20, 0).count(b"\n") + 1
            os.write(log, f"{json.dumps([count, what, path.removeprefix(ask['root'] + '/'), False])}\n".encode())
            if ask["do"] == "kill" and count == ask["at"]:
                os.kill(ask["pid"], signal.SIGKILL)
        finally:
            os.close(log)
        if ask["do"] == "full" and count >= ask["at"]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def watch_tasks(control: str) -> None:
    "In Spark's daemon, before it forks."
    tasks = Tasks(control)
    watch_arrow(tasks)
    sys.addaudithook(hook(tasks))


def watch(root: str, **how: Any) -> Points:
    "From now on, count."
    points = Points(root, **how)
    watch_arrow(points)
    watch_sqlite(points)
    watch_aws(points)
    watch_spark(points)
    sys.addaudithook(hook(points))
    return points
