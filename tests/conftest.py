"""What all tests share: one classic Spark session a process, started by the first test that asks for it."""
import os
import signal
from pathlib import Path

import hypothesis
import pytest

from dmscdc.spark.session import open_session

from seeds import IS_FIXED
from tiers import tier_of
from skips import pytest_runtest_makereport  # noqa: F401  a hook

HERE = Path(__file__).parent
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would every process that a test starts

if IS_FIXED:  # no example database either: what a run finds depends on the commit alone
    hypothesis.settings.register_profile("fixed", derandomize=True, database=None)
    hypothesis.settings.load_profile("fixed")


def pytest_collection_modifyitems(items):
    "Each test has the mark of its tier."
    for item in items:
        if item.path.is_relative_to(HERE): item.add_marker(tier_of(f"{item.path.relative_to(HERE).as_posix()}::{item.name}", item.fixturenames))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    "A classic session on two cores, the only one of this process."
    conf = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri(),
    }
    with pytest.MonkeyPatch.context() as patch:  # rows are few: compiling well costs more than it gives
        patch.setenv("JDK_JAVA_OPTIONS", f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        session = open_session("tests", master="local[2]", conf=conf, format=os.environ.get("DMSCDC_FORMAT", "parquet"))
    yield session
    session.stop()
