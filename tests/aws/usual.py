"What a person's shell says about AWS, pointed at servers of the tests."

from __future__ import annotations

from contextlib import contextmanager

from dmscdc.storage.filesystem import client

SAID = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "true"}


@contextmanager
def usual(monkeypatch, **address):
    "The usual configuration and one address, AWS_ENDPOINT_URL=… or that of one service; clients made before and within are forgotten."
    for name, value in {**SAID, **address}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    client.cache_clear()
    yield
    client.cache_clear()
