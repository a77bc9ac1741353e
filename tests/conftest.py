"""What all tests share: one classic Spark session a process, started by the first test that asks for it."""

import json
import os
import runpy
import shutil
import signal
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

import hypothesis
import pytest

from dmscdc.spark.session import open_session
from seeds import IS_FIXED
from skips import pytest_runtest_makereport  # noqa: F401  a hook
from tiers import TIERS, tier_of

HERE = Path(__file__).parent
# Of every Java that a test starts, also through a command. Compiling well costs more than it gives, and one compiler alone has a small cache; plans are new
# each time and rows are few, so generating code for them costs more than all else; PySpark notes for every column which line of Python made it, by calls to
# Java, which only error messages use. What tests the code that Spark generates has the mark `compiled`. Spark's settings are properties of Java, since a
# folder of settings would come before the jars, and the classes that are kept would not fit.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m -Xlog:disable"
PLAIN = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
os.environ["JAVA_TOOL_OPTIONS"] = " ".join([os.environ.get("JAVA_TOOL_OPTIONS", ""), BRIEF, *(f"-D{name}={value}" for name, value in PLAIN.items())])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would every process that a test starts

if os.environ.get("WRITER") == "format":  # also in processes that a test starts
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [f"{HERE}/left", os.environ.get("PYTHONPATH", "")]))
    runpy.run_path(f"{HERE}/left/sitecustomize.py")

if IS_FIXED:  # no example database either: what a run finds depends on the commit alone
    hypothesis.settings.register_profile("fixed", derandomize=True, database=None)
    hypothesis.settings.load_profile("fixed")


def pytest_addoption(parser):
    parser.addoption("--tier", choices=(*TIERS, "all"), help="only the tests of this tier (tiers.py)")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    "Only the tests of the tier that was asked for; without one, all but those of make torture."
    asked = config.getoption("--tier")
    kept, left = [], []
    for item in items:
        (kept if asked in (tier_of(item), "all") or not asked and tier_of(item) != "torture" else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def pytest_terminal_summary(terminalreporter):
    "With RESULTS=FILE: a line for each folder and tier, which `make docs` shows in its table of tests."
    if "RESULTS" not in os.environ:
        return
    found = Counter()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            if report.when != "call" and outcome == "passed":
                continue
            name = report.nodeid.removeprefix("tests/")
            mark = next((tier for tier in ("quick", "test", "proof", "torture") if tier in report.keywords), "")
            found[name.split("/")[0], mark, outcome == "passed"] += 1
    with open(os.environ["RESULTS"], "a") as file:
        for folder, tier in sorted({key[:2] for key in found}):
            line = {
                "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
                "folder": folder,
                "tier": tier,
                "passed": found[folder, tier, True],
                "failed": found[folder, tier, False],
            }
            file.write(json.dumps(line) + "\n")


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    "A classic session on one core, the only one of this process."
    conf = {
        "spark.driver.memory": "2g",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": 1,
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri(),
    }
    session = open_session("tests", master="local[1]", conf=conf, format=os.environ.get("DMSCDC_FORMAT", "parquet"))
    yield session
    session.stop()


AS_USERS_HAVE_IT = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(autouse=True)
def compiled(request):
    "In a test with the mark `compiled` Spark generates code, as it does for users."
    if not request.node.get_closest_marker("compiled"):
        yield
        return
    spark = request.getfixturevalue("spark")
    before = {name: spark.conf.get(name) for name in AS_USERS_HAVE_IT}
    for name, value in AS_USERS_HAVE_IT.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="session")
def browser():
    "Headless Chromium."
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        here = play.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        )
        yield here
        here.close()
