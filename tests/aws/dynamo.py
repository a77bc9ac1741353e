"""DynamoDB Local, fetched once by Maven and started on loopback.

moto gives a lease to two takers now and then; conditions hold only in this one. `from aws.dynamo import *` in a conftest brings the fixtures."""
from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from aws.usual import usual

__all__ = ["dynamodb_local", "dynamodb", "dynamodb_table"]
VERSION, MAIN = "2.6.1", "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
JARS = Path(__file__).parents[2] / ".cache" / "dynamodb" / VERSION
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>dmscdc</groupId><artifactId>tests</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>com.amazonaws</groupId><artifactId>DynamoDBLocal</artifactId><version>{VERSION}</version></dependency></dependencies>
</project>"""
FETCH, START = 600.0, 180.0  # seconds at most


def fetch() -> Path:
    "The folder of its jars, filled by Maven when it is not there yet."
    if JARS.is_dir(): return JARS
    JARS.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=JARS.parent) as folder:
        here = Path(folder)
        (here / "pom.xml").write_text(POM)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={here / 'jars'}"]
        run = ["mvn", "-q", "-B", f"-Dmaven.repo.local={here / 'repository'}", *goal]  # not the user's, which others read
        done = subprocess.run(run, cwd=here, capture_output=True, text=True, timeout=FETCH)
        assert done.returncode == 0, f"Maven could not fetch DynamoDB Local: {done.stdout[-2000:]}"
        with suppress(OSError): (here / "jars").rename(JARS)  # another run may have been quicker
        assert JARS.is_dir()
    return JARS


def wait_for(port: int, server: subprocess.Popen) -> None:
    "Until it takes connections."
    deadline = time.monotonic() + START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert server.poll() is None, f"DynamoDB Local ended with {server.returncode}"
            assert time.monotonic() < deadline, f"DynamoDB Local was not ready after {START:.0f} s"
            time.sleep(0.1)


@pytest.fixture(scope="session")
def dynamodb_local():
    "The address of a server without any table."
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing: pytest.skip(f"DynamoDB Local needs {' and '.join(missing)}, which is not installed here (apt-get install maven)")
    jars = fetch()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [f"-Djava.library.path={jars}", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}/*"]
    call = ["java", *options, MAIN, "-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(port)]
    server = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def dynamodb(dynamodb_local, monkeypatch):
    "The usual configuration, DynamoDB pointing there; its address. What is said of S3 and Glue stays."
    with usual(monkeypatch, AWS_ENDPOINT_URL_DYNAMODB=dynamodb_local): yield dynamodb_local


@pytest.fixture
def dynamodb_table(dynamodb):
    "A table of the test's own, made as the product makes it; its name."
    from dmscdc.state.dynamodb import create_table

    name = f"DMSCDC_Controller-{secrets.token_hex(4)}"
    assert create_table(name)
    return name
