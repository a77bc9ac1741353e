"DynamoDB for tests: a server of their own. `from aws.dynamo import *` in a conftest brings the fixtures."

from __future__ import annotations

import secrets

import pytest

from aws.stack import ministack
from aws.usual import usual

__all__ = ["dynamodb_server", "dynamodb", "dynamodb_table"]


@pytest.fixture(scope="session")
def dynamodb_server():
    "The address of a server without any table."
    with ministack("dynamodb") as address:
        yield address


@pytest.fixture
def dynamodb(dynamodb_server, monkeypatch):
    "The usual configuration, DynamoDB pointing there; its address. What is said of S3 and Glue stays."
    with usual(monkeypatch, AWS_ENDPOINT_URL_DYNAMODB=dynamodb_server):
        yield dynamodb_server


@pytest.fixture
def dynamodb_table(dynamodb):
    "A table of the test's own, made as the product makes it; its name."
    from dmscdc.state.dynamodb import create_table

    name = f"DMSCDC_Controller-{secrets.token_hex(4)}"
    assert create_table(name)
    return name
