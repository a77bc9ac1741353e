"""What all tests share: one classic Spark session a process, started by the first test that asks for it."""
import os

import hypothesis  # noqa: F401  its plugin imports it at the end of a run, when sessions are being collected
import pytest

from dmscdc.session import open_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    "A classic session on two cores, the only one of this process."
    conf = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri(),
    }
    before = os.environ.get("JDK_JAVA_OPTIONS", "")
    os.environ["JDK_JAVA_OPTIONS"] = f"{before} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # rows are few: compiling well costs more than it gives
    session = open_session("tests", master="local[2]", conf=conf)
    os.environ["JDK_JAVA_OPTIONS"] = before
    yield session
    session.stop()
