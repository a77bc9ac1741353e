"S3 and Glue as moto's server speaks them, on loopback, for all tests of this folder."

from __future__ import annotations

import secrets
import threading

import pytest
from moto.server import ThreadedMotoServer

from aws.usual import usual
from dmscdc.storage.filesystem import client


@pytest.fixture(scope="session")
def moto():
    "Its address."
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def aws(moto, monkeypatch):
    "The usual configuration, pointing there; its address."
    with usual(monkeypatch, AWS_ENDPOINT_URL=moto):
        yield moto


@pytest.fixture
def bucket(aws):
    "A bucket of the test's own; its name."
    name = f"shop-{secrets.token_hex(4)}"
    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return name


@pytest.fixture
def strict(bucket, monkeypatch):
    "A server that compares and writes in one step, as S3 does and moto does not; the bucket's name."
    server, one = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False), threading.Lock()
    server.start()
    inner = server._server.app

    def app(environ, start):
        with one:
            return list(inner(environ, start))

    server._server.app = app
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
    client.cache_clear()
    yield bucket
    server.stop()
