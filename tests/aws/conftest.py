"S3 and Glue as moto's server speaks them, on loopback, for all tests of this folder."
from __future__ import annotations

import secrets

import pytest
from moto.server import ThreadedMotoServer

from dmscdc.aws import client


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
    said = {"AWS_ENDPOINT_URL": moto, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true"}
    for name, value in said.items(): monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"): monkeypatch.delenv(name, raising=False)
    client.cache_clear()
    yield moto
    client.cache_clear()


@pytest.fixture
def bucket(aws):
    "A bucket of the test's own; its name."
    name = f"shop-{secrets.token_hex(4)}"
    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    return name
