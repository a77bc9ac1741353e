"The suite's way to DynamoDB: a server that the checkout's tests start. A copy of the suite elsewhere leaves that kind of state out."

import pytest

try:
    from aws.dynamo import dynamodb, dynamodb_server, dynamodb_table  # noqa: F401
except ImportError:

    @pytest.fixture
    def dynamodb_table():
        pytest.skip("a stand-in for DynamoDB is started by the tests of a checkout")


def pytest_configure(config):
    "The marks of a checkout's tests, which mean nothing elsewhere."
    for mark in ("quick", "test", "proof", "torture", "compiled"):
        config.addinivalue_line("markers", f"{mark}: of a checkout")
