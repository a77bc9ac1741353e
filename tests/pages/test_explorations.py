"""Explorations, executed as papermill does it, over a landing and kept runs; DuckDB reads the same files."""

from __future__ import annotations

import json
import random
import re
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator

from dmscdc.capture.shop import COLUMNS, PRODUCTS
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.main import checked_request
from dmscdc.history.statistics import spread
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.runs.kernel import Watch, executed
from dmscdc.runs.log import LoggedRun, RunLog
from dmscdc.service.config import write_config
from dmscdc.state.registry import open_state
from tiers import sampled

pytestmark = pytest.mark.proof

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from front_page import a_line, stamp  # noqa: E402
from test_pages import a_report, asked  # noqa: E402

from rooms import Room  # noqa: E402

EXPLORE = Path(__file__).parents[2] / "notebooks" / "explore"
TABLE, BEGIN = "sampledb.product", datetime(2018, 12, 13, 10, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Ran:
    "An executed exploration."

    path: Path
    error: BaseException | None

    def text(self, kind: str = "text/html") -> str:
        cells = json.loads(self.path.read_text())["cells"]
        return "\n".join("".join(out.get("data", {}).get(kind, "")) for cell in cells for out in cell.get("outputs", ()))


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Path:
    "A load, 40 change files in two hours, and a run for every four of them, 90 seconds after the last."
    home, luck = tmp_path_factory.mktemp("volumes"), random.Random(11)
    write_config(home, landing="landing", lake="lake", quiet_period=0)
    write_load(home / "landing", TABLE, PRODUCTS, COLUMNS["product"], time=BEGIN)
    paths: list[str] = []
    for number in range(40):
        time = BEGIN + timedelta(seconds=(number // 4) * 600 + (number % 4) * 10)
        rows = [(luck.choice("IUUD"), *luck.choice(PRODUCTS)) for _ in range(luck.randrange(1, 9))]
        write_changes(home / "landing", TABLE, rows, f"{time:%Y%m%d-%H%M%S}000", COLUMNS["product"], time=time)
        paths.append(f"{time:%Y%m%d-%H%M%S}000.parquet")
        if number % 4 == 3:
            line = {**a_line(TABLE, number, luck), "verdict": "ok", "start": stamp(time), "end": stamp(time + timedelta(seconds=90)), "files": 4}
            files = [{"path": path, "kind": "change", "rows": 1, "bytes": 1} for path in paths[-4:]]
            a_report(home / "runs", line, processed={"files": files})
            RunLog(home / "runs").append(LoggedRun.from_json(line))
    for number in range(3):
        span = {"start": stamp(BEGIN + timedelta(minutes=40 * number)), "end": stamp(BEGIN + timedelta(minutes=40 * number, seconds=12))}
        RunLog(home / "runs").append(
            LoggedRun.from_json({**a_line("sampledb.store", number, luck), **span, "verdict": "failed", "words": f"row {number} has two addresses"})
        )
    return home


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("explored")

    def execute(name: str, **parameters) -> Ran:
        path = home / f"{name}.ipynb"
        return Ran(path, executed(EXPLORE / f"{name}.ipynb", parameters, path, Watch(), {}))

    return execute


def test_run_reports_opens_the_ledger_says_failures_in_words_and_links_reports(house, run):
    ran = run("run_reports", folder=str(house))
    assert ran.error is None
    assert "'13 of 13 runs, of 2 tables'" in ran.text("text/plain")
    assert re.search(r"<td>3</td>\s*<td>1</td>.*?<td>row 2 has two addresses</td>", ran.text(), re.DOTALL)
    links = re.findall(r'<a href="(/[^"]+\.html)"', ran.text())
    kept = [house / "runs" / one for (one,) in asked(house / "runs", "select html from run_log")]
    assert sorted(links) == sorted(map(str, kept)) and ran.text().count("<figure") == 3


def test_run_reports_shows_what_the_parameters_choose(house, run):
    ran = run("run_reports", folder=str(house), table=TABLE, verdict="ok", since="2018-12-13T11")
    [(count,)] = asked(house / "runs", f"""select count(*) from run_log where "table" = '{TABLE}' and verdict = 'ok' and start >= '2018-12-13T11'""")
    assert ran.error is None and f"'{count} of 13 runs, of 1 tables'" in ran.text("text/plain") and 0 < count < 10


def test_volumes_and_lag_counts_files_operations_and_delays(house, run):
    ran = run("volumes_and_lag", folder=str(house))
    assert ran.error is None
    counts = dict(duckdb.sql(f"select Op, count(*) from read_parquet('{house}/landing/sampledb/product/2018*.parquet') group by 1").fetchall())
    assert f"Rows over time: {counts['I']:,} inserted, {counts['U']:,} updated, {counts['D']:,} deleted." in ran.text()
    assert "Bytes that landed over time" in ran.text() and "written to the lake" not in ran.text()
    assert "Files over time: 40 in all." in ran.text() and re.search(
        r"<td>40</td>\s*<td>\d+</td>\s*<td>4</td>\s*<td>2018-12-13 11:30</td>", ran.text()
    )
    assert re.search(r"<th>closing</th>\s*<td>40.0</td>\s*<td>105.0</td>\s*<td>90.0</td>", ran.text())  # of 90, 100, 110 and 120 seconds


def test_volumes_and_lag_reads_no_more_files_than_it_may(house, run):
    ran = run("volumes_and_lag", folder=str(house), table=TABLE, most=5)
    assert ran.error is None and re.search(r"<td>sampledb.product</td>\s*<td>5</td>\s*<td>40</td>", ran.text())


LOOKING = ["on_call", "row_history", "run_reports", "volumes_and_lag"]


def shown(ran: Ran, *homes: Path) -> str:
    "All outputs and the error, wherever the folders lie."
    text = f"{ran.text()} {ran.text('text/plain')} {ran.error}"
    for home in {place for home in homes for place in (home, home.resolve())}:
        text = text.replace(str(home), "home")
    # The way to a lake depends on where one stands, and a longer one makes its column wider.
    return re.sub(" +", " ", re.sub(r" --folder \S+|\S*(\.\./)+\S*|\x1b\[[0-9;]*m", "", text))


@pytest.mark.parametrize("name", sampled(LOOKING, "run_reports"))
def test_an_exploration_reads_the_nearest_settings_else_the_demo(name, house, run, tmp_path, monkeypatch):
    other, explore = tmp_path / "other", tmp_path / "notebooks" / "explore"
    write_config(other, landing="landing", lake="lake", quiet_period=0)
    write_load(other / "landing", TABLE, [(1009, "Spelt", "9.99")], {"id": "int", "name": "string", "price": "string"})
    explore.mkdir(parents=True)
    (house / "mine").mkdir(exist_ok=True)
    (tmp_path / "demo").symlink_to(house)
    said = {}
    for what, folder in {"above": house / "mine", "demo": explore, "other": other}.items():
        monkeypatch.chdir(folder)
        said[what] = shown(run(name), tmp_path / "demo", house, other)
    (explore / "dmscdc.toml").write_text((other / "dmscdc.toml").read_text().replace('"landing"', f'"{other / "landing"}"'))
    monkeypatch.chdir(explore)
    assert said["above"] == said["demo"] != said["other"] and "None" in said["above"][-8:]
    nearest = shown(run(name), explore, other)
    assert nearest != said["demo"] and nearest.splitlines()[:3] == said["other"].splitlines()[:3]


@pytest.fixture(scope="module")
def lived(tmp_path_factory, spark) -> Path:
    "A load, and what happens to product 1001: two new names, its end, and a return. The lake is made five minutes after the load, and two hours later."
    home, (key, name, *kind, price) = tmp_path_factory.mktemp("lived"), PRODUCTS[0]
    write_config(home, landing="landing", lake="lake", quiet_period=0)
    write_load(home / "landing", TABLE, PRODUCTS, COLUMNS["product"], time=BEGIN)
    open_state(f"sqlite:{home}/state.db").put_settings(TableRef.parse(TABLE), key="id")
    _passed(spark, home, BEGIN + timedelta(minutes=5))
    happened = [
        ("U", "Sample Product", price),
        ("U", "Trail Lantern 350", "44.00"),
        ("D", "Trail Lantern 350", "44.00"),
        ("I", "Trail Lantern 400", "49.00"),
    ]
    for number, (op, name, price) in enumerate(happened):
        time = BEGIN + timedelta(minutes=20 * number + 3)
        write_changes(home / "landing", TABLE, [(op, key, name, *kind, price)], time, COLUMNS["product"], time=time)
    _passed(spark, home, BEGIN + timedelta(hours=2))
    return home


def _passed(spark, home: Path, at: datetime) -> None:
    "The table brought up to date, by a clock that says when."
    clock = type("Clock", (datetime,), {"now": classmethod(lambda cls, zone=None: at)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dmscdc.lake.table.datetime", clock)
        done = process_table(TABLE, str(home / "landing"), str(home / "lake"), f"sqlite:{home}/state.db", quiet_period=0, spark=lambda: spark)
    assert done.verdict == "ok", done.words


@pytest.mark.parametrize("name", LOOKING)
def test_what_an_exploration_shows_of_a_demo_is_kept(name, house, lived, run, tmp_path, monkeypatch):
    (tmp_path / "demo").symlink_to(lived if name == "row_history" else house)
    (tmp_path / "notebooks" / "explore").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "notebooks" / "explore")
    ran = run(name)
    assert ran.error is None and Room(EXPLORE / f"{name}.ipynb").executed(ran.path).wrong() == []


def test_what_the_page_about_clusters_shows_is_kept(run, tmp_path):
    assert Room(EXPLORE / "on_a_cluster.ipynb").executed(run("on_a_cluster", folder=str(tmp_path)).path).wrong() == []


@pytest.mark.parametrize("name", LOOKING)
def test_an_exploration_without_settings_and_demo_says_so(name, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "No dmscdc.toml found in" in str(run(name).error)


REQUESTS = {"emr": "AddJobFlowSteps", "emr-serverless": "StartJobRun", "glue": "CreateJob"}  # in the order of the page


def complaint(service: str, request: dict) -> str:
    "What botocore itself says of a request, by its own model and validator; nothing is sent."
    shape = get_session().get_service_model(service).operation_model(REQUESTS[service]).input_shape
    return ParamValidator().validate(request, shape).generate_report()


def test_the_page_about_clusters_makes_its_files_and_boto3_knows_its_requests(run, tmp_path):
    ran = run("on_a_cluster", folder=str(tmp_path))
    assert ran.error is None
    assert {path.name for path in (tmp_path / "programs").iterdir()} == {"inside.py", "one_table.py", "glue_pass.py"}
    said = [
        "".join(out["text"])
        for cell in json.loads(ran.path.read_text())["cells"]
        for out in cell.get("outputs", ())
        if out["output_type"] == "stream"
    ]
    requests = [json.loads(text) for text in said if text.startswith("{")]
    assert len(requests) == 3 and [complaint(service, request) for service, request in zip(REQUESTS, requests)] == ["", "", ""]
    assert "inside.py" in str(requests[0]) and "inside.py" in str(requests[1]) and requests[2]["DefaultArguments"]["--additional-python-modules"]


@pytest.mark.parametrize("wrong", [{"JobNames": "x"}, {"Name": 3}, {}], ids=["unknown", "of another type", "missing"])
def test_a_request_that_boto3_would_not_send_is_not_shown(wrong):
    good = {"Name": "x", "Role": "r", "Command": {"Name": "glueetl"}}
    assert json.loads(checked_request("glue", "CreateJob", good)) == good and complaint("glue", good) == ""
    bad = {**good, **wrong} if wrong else {"Name": "x"}
    assert complaint("glue", bad)
    with pytest.raises(ValueError, match="glue CreateJob: "):
        checked_request("glue", "CreateJob", bad)


@pytest.mark.parametrize("count", [0, 1, 5, 6, 99, 100, 101, 1_000])
def test_a_sample_has_at_most_so_many_files_in_their_order_with_the_newest(count):
    found = spread(list(range(count)), 100)
    assert len(found) <= 100 and found == sorted(found) and (not count or found[-1] == count - 1) and (count > 100 or len(found) == count)
