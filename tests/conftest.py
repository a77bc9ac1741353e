"""What all tests share: one classic Spark session a process, started by the first test that asks for it."""
import json
import os
import signal
from collections import Counter
from datetime import datetime, timezone
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


def pytest_terminal_summary(terminalreporter):
    "With RESULTS=FILE: a line for each folder and tier, which `make docs` shows in its table of tests."
    if "RESULTS" not in os.environ: return
    found = Counter()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            if report.when != "call" and outcome == "passed": continue
            name = report.nodeid.removeprefix("tests/")
            mark = next((tier for tier in ("quick", "test", "proof", "torture") if tier in report.keywords), "")
            found[name.split("/")[0], mark, outcome == "passed"] += 1
    with open(os.environ["RESULTS"], "a") as file:
        for folder, tier in sorted({key[:2] for key in found}):
            line = {"date": f"{datetime.now(timezone.utc):%Y-%m-%d}", "folder": folder, "tier": tier, "passed": found[folder, tier, True], "failed": found[folder, tier, False]}
            file.write(json.dumps(line) + "\n")


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
