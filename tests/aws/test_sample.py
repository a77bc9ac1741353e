"""The sample's two functions as Lambda would run them, on a MariaDB that takes encrypted connections alone. The loader's archive is made by the lines of the page
and runs in a process of its own that has nothing besides. The oracle is the client `mariadb`, which types the same scripts."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
import types
import zipfile
from pathlib import Path

import pymysql
import pytest

from aws.rendered import loaded
from aws.test_templates import INFRA
from dmscdc.deploy.files import write_templates
from proof.databases import free_port, program, running

pytestmark = pytest.mark.proof

RESOURCES = loaded(INFRA / "sample.yaml")["Resources"]
CODE = RESOURCES["Teller"]["Properties"]["Code"]["ZipFile"]
SECRET = "Only4aTest"
TABLES = ("store", "product", "productorder")
AS_LAMBDA = """
import json, sys
sys.path.insert(0, sys.argv[1])
try: print(json.dumps(__import__(sys.argv[2]).handler(json.load(sys.stdin), None)))
except Exception as error:
    print(json.dumps({"errorMessage": str(error), "errorType": type(error).__name__}))
    raise SystemExit(1)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    "The archive as Lambda unpacks it, made as the page says; the package that pip would fetch is the one that is here."
    home = tmp_path_factory.mktemp("sample")
    write_templates(home)
    page = (home / "README.md").read_text()
    version = re.search(r"^pip install .* pymysql==(\S+)$", page, re.MULTILINE)[1]
    assert f"pymysql=={version}\n" in (INFRA.parent / "constraints.txt").read_text()
    (home / "pymysql").symlink_to(Path(pymysql.__file__).parent)
    words = shlex.split(re.search(r"^python (-m zipfile .*)$", page, re.MULTILINE)[1])
    subprocess.run([sys.executable, *words], cwd=home, check=True)
    with zipfile.ZipFile(home / "sample.zip") as archive:
        archive.extractall(home / "task")
    return home / "task"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    "An empty server: its socket for the client, and its port."
    home, port, user = tmp_path_factory.mktemp("server"), free_port(), ["--user=root"] if os.getuid() == 0 else []
    install = [
        program("mariadb-install-db", "mariadb-server"),
        "--no-defaults",
        f"--datadir={home}/data",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        *user,
    ]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    key = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=sample",
        "-keyout",
        f"{home}/key",
        "-out",
        f"{home}/certificate",
    ]
    subprocess.run(key, check=True, capture_output=True, timeout=60)
    command = [
        program("mariadbd", "mariadb-server"),
        "--no-defaults",
        f"--datadir={home}/data",
        f"--socket={home}/socket",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--skip-name-resolve",
        "--innodb-flush-log-at-trx-commit=0",
        "--require-secure-transport",
        f"--ssl-cert={home}/certificate",
        f"--ssl-key={home}/key",
        *user,
    ]
    with running(command, home / "log") as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None and not (home / "socket").exists():
            time.sleep(0.1)
        typed(
            home / "socket",
            f"""
            create user shop identified by '{SECRET}'; grant all on *.* to shop; create table mysql.kept (name text, hours int);
            create procedure mysql.rds_set_configuration(in name text, in hours int) insert into mysql.kept values (name, hours)""",
        )
        yield home / "socket", port


def typed(socket: Path, sql: str) -> list[str]:
    "What the client prints."
    client = [
        program("mariadb", "mariadb-client"),
        "--no-defaults",
        "--batch",
        "--skip-column-names",
        "--default-character-set=utf8mb4",
        f"--socket={socket}",
        "--user=root",
    ]
    done = subprocess.run(client, input=sql, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def rows(socket: Path) -> dict[str, list[str]]:
    return {table: typed(socket, f"select * from sampledb.{table} order by id") for table in TABLES}


@pytest.fixture
def told(monkeypatch, folder, server):
    "What a function's caller hears: CloudFormation its answer, the operator the words. The database is empty before."
    socket, port = server
    typed(socket, "drop database if exists sampledb; delete from mysql.kept")
    calls, known = [], {"password": SECRET, "port": port}

    def invoke(FunctionName: str, Payload: str) -> dict:
        calls.append(json.loads(Payload)["do"])
        module = RESOURCES["Loader"]["Properties"]["Handler"].partition(".")[0]
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", AS_LAMBDA, str(folder), module],
            input=Payload,
            capture_output=True,
            text=True,
            timeout=120,
            env={"HOST": "127.0.0.1", "PORT": str(known["port"])},
        )
        return {"Payload": io.StringIO(done.stdout), **({"FunctionError": "Unhandled"} if done.returncode else {})}

    def told(**event) -> object:
        heard, space = [], {}
        clients = {
            "lambda": types.SimpleNamespace(invoke=invoke),
            "secretsmanager": types.SimpleNamespace(
                get_secret_value=lambda SecretId: {"SecretString": json.dumps({"username": "shop", "password": known["password"]})}
            ),
        }
        send = lambda event, context, status, data, place, reason: heard.append((status, data["said"]))
        monkeypatch.setitem(sys.modules, "boto3", types.SimpleNamespace(client=lambda name, config=None: clients[name]))
        monkeypatch.setitem(sys.modules, "cfnresponse", types.SimpleNamespace(SUCCESS="ok", FAILED="failed", send=send))
        monkeypatch.setenv("LOADER", "loader")
        monkeypatch.setenv("SECRET", "secret")
        exec(CODE, space)
        said = space["handler"](event, None)
        return heard[0] if heard else said

    told.calls, told.known, told.socket, told.folder = calls, known, socket, folder
    return told


def test_the_stack_fills_its_database_once_and_the_operator_has_it_changed(told):
    assert told(RequestType="Create") == ("ok", "filled: 8 in store, 25 in product, 8425 in productorder")
    assert typed(told.socket, "select * from mysql.kept") == ["binlog retention hours\t24"]
    shop = rows(told.socket)
    assert told() == "1348 rows changed"
    changed = rows(told.socket)
    assert told(sql="call loadorders(3, '2018-12-16')").endswith("rows") and typed(
        told.socket, "select count(*) from sampledb.productorder where create_dt = '2018-12-16'"
    ) == ["3"]
    assert told(RequestType="Update") == ("ok", "filled before: 9 in store, 24 in product, 9773 in productorder")

    typed(told.socket, "drop database sampledb;" + (told.folder / "shop.sql").read_text())
    assert shop == rows(told.socket)
    typed(told.socket, (told.folder / "changes.sql").read_text())
    assert changed == rows(told.socket)


def test_a_script_that_breaks_off_fails_the_stack_in_the_databases_words_and_the_next_try_begins_anew(told):
    script, kept = told.folder / "shop.sql", (told.folder / "shop.sql").read_text()
    for broken in (
        kept.replace("INSERT INTO product VALUES", "INSERT INTO produkt VALUES", 1),
        kept.replace("CREATE PROCEDURE", "CREATE PROZEDUR"),
    ):  # before and after the rows are there
        script.write_text(broken)
        status, said = told(RequestType="Create")
        assert status == "failed" and ("Table 'sampledb.produkt' doesn't exist" in said or "You have an error in your SQL syntax" in said)
    script.write_text(kept)
    assert told(RequestType="Create") == ("ok", "filled: 8 in store, 25 in product, 8425 in productorder")
    assert told() == "1348 rows changed"
    with pytest.raises(RuntimeError, match="Duplicate entry '8426'"):
        told()  # the same day twice


def test_who_cannot_get_in_hears_why_and_a_stack_that_goes_asks_for_nothing(told):
    assert told(RequestType="Delete") == ("ok", "gone with its database") and not told.calls
    told.known["password"] = "another"
    status, said = told(RequestType="Create")
    assert status == "failed" and "Access denied for user 'shop'" in said
    told.known["port"] = free_port()
    status, said = told(RequestType="Create")
    assert status == "failed" and said.endswith("do the security groups let themselves in at that port?")
