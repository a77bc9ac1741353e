"""Databases of their own for the tests: MariaDB and PostgreSQL as Debian ships them, on loopback, gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator

import pytest
from sqlalchemy import create_engine, make_url, text

SECRET = "x7-Kp_only-a-test"  # of the users below


@dataclass(frozen=True)
class Database:
    "A running database, or the file of SQLite."

    kind: str  # sqlite, mysql or postgresql
    url: str  # with the password, for SQLAlchemy
    source: str  # as a person names it for `reconcile`, without a password
    env: dict[str, str] = field(default_factory=dict)  # where the password is

    def run(self, *statements: str, many: list[dict[str, Any]] | None = None) -> None:
        "SQL in one transaction; rows for the last statement where there are some."
        engine = create_engine(self.url)
        with engine.begin() as db:
            for statement in statements[:-1] if many else statements:
                db.exec_driver_sql(statement)
            if many:
                db.execute(text(statements[-1]), many)
        engine.dispose()

    def rows(self, sql: str) -> list[tuple]:
        "What a query gives."
        engine = create_engine(self.url)
        with engine.connect() as db:
            found = [tuple(row) for row in db.exec_driver_sql(sql)]
        engine.dispose()
        return found


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def program(name: str, package: str, *folders: str) -> str:
    "Where a program lies; else the test is skipped with the package that brings it."
    found = shutil.which(name, path=os.pathsep.join([*folders, os.environ["PATH"], "/usr/sbin"]))
    return found or pytest.skip(f"{name} is not installed: apt-get install {package}")


def wait_for(url: str, process: subprocess.Popen, log: Path, seconds: float = 60) -> None:
    "Until the server answers; its log where it does not."
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        engine = create_engine(url)
        try:
            with engine.connect():
                return
        except Exception:
            time.sleep(0.1)  # it is only beginning
        finally:
            engine.dispose()
    raise RuntimeError(f"no answer after {seconds:g} s: {log.read_text()[-2000:]}")


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen]:
    "A process, ended by its id; PostgreSQL's children end with it."
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def mariadb() -> Iterator[Database]:
    "A MariaDB with the database `shop` and a reader who may only read."
    server, install = program("mariadbd", "mariadb-server"), program("mariadb-install-db", "mariadb-server")
    home, port = Path(tempfile.mkdtemp(prefix="proof-mariadb-")), free_port()
    user, log = ["--user=root"] if os.getuid() == 0 else [], home / "log"
    try:
        subprocess.run(
            [install, "--no-defaults", f"--datadir={home}/data", "--auth-root-authentication-method=normal", "--skip-test-db", *user],
            check=True,
            capture_output=True,
            timeout=120,
        )
        command = [
            server,
            "--no-defaults",
            f"--datadir={home}/data",
            f"--socket={home}/socket",
            f"--port={port}",
            "--bind-address=127.0.0.1",
            "--innodb-buffer-pool-size=64M",
            "--innodb-flush-log-at-trx-commit=0",
            "--skip-name-resolve",
            "--log-bin=log",
            "--server-id=1",
            "--binlog-format=ROW",
            "--binlog-row-metadata=FULL",
            *user,
        ]
        with running(command, log) as process:
            root = f"mysql+pymysql://root@localhost/?unix_socket={home}/socket&charset=utf8mb4"
            wait_for(root, process, log)
            Database("mysql", root, "").run(
                "create database shop character set utf8mb4",
                f"create user reader identified by '{SECRET}'",
                "grant select on *.* to reader",
                f"create user replica identified by '{SECRET}'",
                "grant select, replication slave, binlog monitor on *.* to replica",
            )
            at = f"127.0.0.1:{port}/shop"
            yield Database(
                "mysql",
                f"mysql+pymysql://root@localhost/shop?unix_socket={home}/socket&charset=utf8mb4",
                f"mariadb://reader@{at}",
                {"DMSCDC_SOURCE_PASSWORD": SECRET},
            )
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def postgresql() -> Iterator[Database]:
    "A PostgreSQL with the schema `shop` and a reader who may only read. It refuses to run as root, so root starts it as `postgres`."
    folders = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    initdb, server = program("initdb", "postgresql", *folders), program("postgres", "postgresql", *folders)
    home, port = Path(tempfile.mkdtemp(prefix="proof-postgresql-")), free_port()
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    try:
        (home / "word").write_text(SECRET)
        if as_user:
            subprocess.run(["chown", "-R", "postgres", str(home)], check=True)
        subprocess.run(
            [
                *as_user,
                initdb,
                "-D",
                f"{home}/data",
                "-U",
                "postgres",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--auth=scram-sha-256",
                f"--pwfile={home}/word",
                "--no-sync",
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
        command = [
            *as_user,
            server,
            "-D",
            f"{home}/data",
            "-p",
            str(port),
            "-k",
            str(home),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "fsync=off",
            "-c",
            "shared_buffers=64MB",
        ]
        with running(command, home / "log") as process:
            url = make_url(f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres").set(password=SECRET).render_as_string(hide_password=False)
            wait_for(url, process, home / "log")
            Database("postgresql", url, "").run(
                "create schema shop", f"create role reader login password '{SECRET}'", "grant pg_read_all_data to reader"
            )
            yield Database("postgresql", url, f"postgresql://reader@127.0.0.1:{port}/postgres", {"DMSCDC_SOURCE_PASSWORD": SECRET})
    finally:
        shutil.rmtree(home, ignore_errors=True)


def sqlite(path: Path) -> Database:
    "SQLite is always there."
    path.touch()
    return Database("sqlite", f"sqlite:///{path}", f"sqlite:{path}")
