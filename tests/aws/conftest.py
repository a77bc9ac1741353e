"S3 and Glue as moto's server speaks them, on loopback, for all tests of this folder."
from __future__ import annotations

import secrets

import pytest
from moto.server import ThreadedMotoServer

from dmscdc.storage.filesystem import client

from aws.usual import usual


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
    with usual(monkeypatch, AWS_ENDPOINT_URL=moto): yield moto


@pytest.fixture
def bucket(aws):
    "A bucket of the test's own; its name."
    name = f"shop-{secrets.token_hex(4)}"
    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return name
