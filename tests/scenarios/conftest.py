import pytest


@pytest.fixture
def in_spark(monkeypatch):
    "Spark is asked for, however little there is to do; others act just then."
    monkeypatch.setenv("DMSCDC_SMALL_BYTES", "-1")
