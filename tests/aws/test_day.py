"""A day in fast motion: a pass each hour by a clock of its own over a source that changes, with a table that is refused, a reload, a late file, a new table,
a pass that is left out and a DMS that stands still. The lake equals the source at the end, and the alarms of the template came when they should and only then."""

from __future__ import annotations

import io
import json
import os
import re
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from aws.rendered import Rendered
from aws.test_templates import INFRA
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.main import app
from dmscdc.deploy.on_call import in_trouble
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.runs.log import LoggedRun, Run, RunLog, iso
from dmscdc.service.config import read_config, write_config
from dmscdc.service.passes import run_pass
from dmscdc.state.registry import open_state
from world import query

pytestmark = pytest.mark.proof

DAY = datetime(2026, 1, 10, tzinfo=timezone.utc)
COLUMNS = {"id": "int", "name": "string"}
LIMITS = {"AlarmHours": 1, "WaitSeconds": 5400, "QuietSeconds": 5400}
COMPARED = {"GreaterThanThreshold": lambda value, limit: value > limit, "LessThanThreshold": lambda value, limit: value < limit}


def rung(alarm: dict, lines: list[dict]) -> set[str]:
    "The tables for which an alarm is in the state ALARM over the lines of its last hours; the empty name where it is about passes."
    compared = COMPARED[alarm["ComparisonOperator"]]
    limit = float(alarm["Threshold"])
    if "Metrics" in alarm:
        (asked,) = alarm["Metrics"]
        metric, landing = re.fullmatch(
            r"""SELECT MAX\((\w+)\) FROM SCHEMA\(dmscdc, landing, "table"\) WHERE landing = '(.*)' GROUP BY "table" ORDER BY MAX\(\) DESC""",
            asked["Expression"],
        ).groups()
        found = [line for line in lines if line.get("table") and line["landing"] == landing and metric in names(line)]
        return {
            table for table in {line["table"] for line in found} if compared(max(line[metric] for line in found if line["table"] == table), limit)
        }
    (place,) = alarm["Dimensions"]
    values = [
        line[alarm["MetricName"]]
        for line in lines
        if not line.get("table") and line[place["Name"]] == place["Value"] and alarm["MetricName"] in names(line)
    ]
    if alarm["Statistic"] == "SampleCount":
        values = [len(values)] if values or alarm["TreatMissingData"] == "breaching" else []
    return {""} if values and compared(max(values), limit) else set()


def names(line: dict) -> set[str]:
    "The metrics that CloudWatch makes of a line."
    return {metric["Name"] for metric in line.get("_aws", {"CloudWatchMetrics": [{"Metrics": []}]})["CloudWatchMetrics"][0]["Metrics"]}


class House:
    "A landing that the test writes as DMS would, the source it comes from, and passes by the test's clock."

    def __init__(self, home, spark, monkeypatch, lineage):
        self.home, self.spark, self.now, self.source = home, spark, DAY, {}
        write_config(home, landing="landing", lake="lake", quiet_period=0, workers=0, metrics="emf", lineage=lineage)
        self.config = read_config(home)
        clock = SimpleNamespace(time=lambda: self.now.timestamp(), sleep=lambda seconds: None)
        for room in ("service.passes", "service.status", "service.metrics", "load.results"):
            monkeypatch.setattr(f"dmscdc.{room}.time", clock)
        for room in ("service.passes", "service.workers"):
            monkeypatch.setattr(
                f"dmscdc.{room}.datetime", type("Clock", (datetime,), {"now": classmethod(lambda cls, zone=None: self.now)}), raising=False
            )
        monkeypatch.setattr("dmscdc.service.workers.run_notebook", self.run)

    def run(self, job, parameters, *, runs, table=None, run_id=None, command="", **more) -> Run:
        "A run without a kernel."
        given = {name: value for name, value in parameters.items() if name != "run"}
        done = process_table(given.pop("table"), given.pop("landing"), given.pop("lake"), given.pop("state"), **given, spark=lambda: self.spark)
        run = Run(
            f"{self.now:%H}{table}",
            "process_table",
            table,
            iso(self.now),
            iso(self.now),
            done.verdict,
            done.words,
            "",
            command or "",
            "",
            "",
            {"processed": done.to_dict()},
        )
        said = {name: getattr(run, name) for name in ("job", "table", "start", "end", "verdict", "words", "cause", "command", "notebook", "html")}
        RunLog(runs).append(
            LoggedRun.from_json({"run": run.id, **said, "rows": done.rows, "files": len(done.files), "bytes_written": 0, "lag": done.lag})
        )
        return run

    def load(self, table: str, rows: dict) -> None:
        self.source[table] = dict(rows)
        write_load(self.config.landing, f"shop.{table}", sorted(rows.items()), COLUMNS, time=self.now)

    def change(self, table: str, *changes: tuple, put: datetime | None = None, applies: bool = True) -> None:
        "A file that DMS closes now, and puts now or later."
        for op, key, name in changes if applies else ():
            self.source[table].pop(key, None)
            if op != "D":
                self.source[table][key] = name
        write_changes(self.config.landing, f"shop.{table}", list(changes), self.now, COLUMNS, time=put or self.now)

    def set(self, table: str, **settings: object) -> None:
        open_state(self.config.state, self.config.landing).put_settings(TableRef("shop", table), **settings)

    def passes(self) -> list[dict]:
        "The lines that a pass writes."
        with redirect_stdout(io.StringIO()) as said:
            run_pass(self.config, on_event=lambda text: None, classic=True)
        return [json.loads(line) for line in said.getvalue().splitlines()]

    def lake(self, table: str) -> dict:
        return dict(query(f"select id, name from read_parquet('{self.config.lake}/shop/{table}/**/*.parquet')"))


@pytest.fixture
def told():
    "What a server of OpenLineage is sent; its address is the first."
    found: list = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self):
            found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *given):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        found.append(f"http://127.0.0.1:{server.server_port}")
        yield found
        server.shutdown()


@pytest.fixture
def house(tmp_path, spark, monkeypatch, told) -> House:
    return House(tmp_path, spark, monkeypatch, told[0])


def test_a_day_of_passes_ends_with_the_source_and_each_alarm_came_when_it_should(house, told):
    alarms = {
        name.removesuffix("Alarm"): one["Properties"]
        for name, one in Rendered(INFRA / "shared.yaml", ScheduleState="ENABLED", **LIMITS).resources.items()
        if one["Type"] == "AWS::CloudWatch::Alarm"
    }
    landing = next(alarm["Dimensions"][0]["Value"] for alarm in alarms.values() if "Dimensions" in alarm)
    came: dict[str, dict[str, list[int]]] = {}
    for table in ("good", "bad", "big"):
        house.load(table, {number: f"{table} {number}" for number in range(20)})
        house.set(table, key="id")
    spoiled = None
    for hour in range(24):
        house.now = DAY + timedelta(hours=hour, minutes=5)
        if not 18 <= hour < 21:  # then DMS stands still
            for table in house.source:
                house.change(table, ("U", hour % 20, f"at {hour}"), ("I", 100 + hour, "new"), *([("D", 99 + hour, "new")] if hour % 5 == 1 else []))
        if hour == 6:  # a file of one table cannot be read until somebody brings it whole
            spoiled = max((house.home / "landing" / "shop" / "bad").glob("2026*"))
            whole, times = spoiled.read_bytes(), (spoiled.stat().st_atime, spoiled.stat().st_mtime)
            spoiled.write_bytes(whole[: len(whole) // 2])
            os.utime(spoiled, times)
        if hour == 9:
            spoiled.write_bytes(whole)
        if hour == 12:
            house.now += timedelta(minutes=10)
            house.load("big", {number: f"again {number}" for number in range(30)})
        if hour == 15:  # a file that was closed before the others, and comes an hour later
            house.now = DAY + timedelta(hours=14, minutes=2)
            house.change("good", ("U", 3, "late"), ("U", 14, "older than what came at 14"), put=DAY + timedelta(hours=15, minutes=6))
            house.source["good"][14] = "at 14"
        if hour == 16:
            house.load("new", {number: f"new {number}" for number in range(24)})
        if hour == 17:
            house.set("new", key="id")
        if hour == 20:
            still = dict(house.source["new"])
        if hour == 21:
            house.set("new", active=False)  # a person pauses a table, which then waits and is not late
        if hour == 21:  # a row of another program, quarantined until a person drops it
            house.set("big", bad_rows="aside")
            house.now += timedelta(minutes=1)
            house.change("big", ("X", 5, "of no operation"), applies=False)
        if hour == 23:
            assert CliRunner().invoke(app, ["quarantine", "drop", "shop.big", "--folder", str(house.home)]).exit_code == 0
        house.now = DAY + timedelta(hours=hour, minutes=30)
        lines = [] if hour == 11 else house.passes()
        lines = [{**line, "landing": landing} for line in lines]  # the template's bucket is the folder here
        for name, alarm in alarms.items():
            for table in rung(alarm, lines):
                came.setdefault(name, {}).setdefault(table, []).append(hour)
        raised = {(row["alarm"], row["table"]) for row in in_trouble(house.config, house.now.timestamp(), LIMITS)}
        over = {("Quarantine", "shop.big")} if hour == 23 else set()  # a pass counts what was aside when it began
        assert raised == {(name, table) for name, tables in came.items() for table, hours in tables.items() if hour in hours} - over, hour
    assert came == {
        "Failed": {"shop.bad": [6, 7, 8]},
        "Waiting": {"shop.bad": [8]},  # the file came at 6:05
        "NoPass": {"": [11]},
        "Attention": {
            "shop.good": [15],
            "shop.new": [16],
            "shop.big": [21, 22],
        },  # no change sequence proves the order of the late file; the new table wants a key
        "Quarantine": {"shop.big": [21, 22, 23]},
        "Quiet": {"": [19, 20]},  # the last file was closed at 17:05
    }
    for table, rows in {**house.source, "new": still}.items():
        assert house.lake(table) == rows, table

    events = [event for event in told[1:] if event["eventType"] != "START"]
    assert len(events) == len(told[1:]) / 2 == len({event["run"]["runId"] for event in events})
    assert [(event["job"]["name"], event["eventTime"][11:13]) for event in events if event["eventType"] == "FAIL"] == [
        ("dmscdc.process_table.shop.bad", hour) for hour in ("06", "07", "08")
    ]
    one = next(event for event in events if event["job"]["name"].endswith("shop.good") and event["eventTime"][11:13] == "02")
    (read,), (written,) = one["inputs"], one["outputs"]
    assert (read["name"], written["name"]) == (f"{house.config.landing}/shop/good", f"{house.config.lake}/shop/good")
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == written["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert {field["name"]: field["type"] for field in written["facets"]["schema"]["fields"]} == COLUMNS
    assert len({event["run"]["facets"]["parent"]["run"]["runId"] for event in events}) == 20  # passes that ran a table


def test_a_map_that_cannot_be_reached_costs_no_table_its_run(house):
    house.load("good", {1: "one"})
    house.set("good", key="id")
    house.config = replace(house.config, lineage="http://127.0.0.1:9")  # nobody listens there
    with pytest.warns(UserWarning, match="runs of this pass are not told to http://127.0.0.1:9") as warned:
        house.passes()
    assert len([one for one in warned if "not told" in str(one.message)]) == 1 and house.lake("good") == {1: "one"}
