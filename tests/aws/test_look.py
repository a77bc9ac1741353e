"""The function that the clock of the shared stack asks, before each hour of random histories. It may start a pass for nothing; it must never leave one out that would load, report or ring.
The oracles are the plans and alarms of the tables at that hour, and the rows that the history left in the source."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest
from moto.s3.models import s3_backends

from aws.rendered import loaded
from aws.test_templates import INFRA
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.deploy.on_call import in_trouble
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.runs.log import LoggedRun, Run, RunLog, iso
from dmscdc.service.config import Config
from dmscdc.service.passes import run_pass
from dmscdc.service.status import read_statuses
from dmscdc.state.dynamodb import create_table
from dmscdc.state.registry import open_state
from world import query

pytestmark = pytest.mark.proof

SEEDS, HOURS = int(os.environ.get("HISTORIES", 2)), 30
DAY = datetime(2026, 1, 10, tzinfo=timezone.utc)
COLUMNS = {"id": "int", "name": "string"}
CODE = loaded(INFRA / "shared.yaml")["Resources"]["Look"]["Properties"]["Code"]["ZipFile"]


class Account:
    "A source with its landing, state and runs in an account of moto, and a clock."

    def __init__(self, home: Path, bucket: str, monkeypatch):
        self.home, self.bucket, self.now, self.source, self.rows = home, bucket, DAY, {}, {}
        self.state = f"DMSCDC_Controller-{bucket}"
        create_table(self.state)
        self.config = Config(f"s3://{bucket}/dms", str(home / "lake"), f"dynamodb:{self.state}", f"s3://{bucket}/runs", quiet_period=0, workers=0)
        clock = SimpleNamespace(time=lambda: self.now.timestamp(), sleep=lambda seconds: None)
        for room in ("service.passes", "service.status", "service.metrics", "load.results"):
            monkeypatch.setattr(f"dmscdc.{room}.time", clock)
        monkeypatch.setattr("dmscdc.service.passes.datetime", type("Clock", (datetime,), {"now": classmethod(lambda cls, zone=None: self.now)}))
        monkeypatch.setattr("dmscdc.service.workers.run_notebook", self.run)
        told = f"pass --landing {self.config.landing} --lake {self.config.lake} --catalog {self.config.catalog} --archive {self.config.archive}"
        for name, value in {"LANDING": self.config.landing, "PASS": told, "RUNS": bucket, "STATE": self.state, "SERVICE": "glue"}.items():
            monkeypatch.setenv(name, value)
        self.started, self.function = [], {}
        exec(CODE, self.function)
        glue = SimpleNamespace(start_job_run=lambda **request: self.started.append(request))
        self.function |= {"time": clock, "boto3": SimpleNamespace(client=lambda service: glue if service == "glue" else boto3.client(service))}

    def look(self) -> str:
        "Why the function starts a pass; empty where it does not."
        before = len(self.started)
        words = self.function["handler"]({"JobName": "job"}, SimpleNamespace(get_remaining_time_in_millis=lambda: 900_000))
        assert (len(self.started) > before) == bool(words)
        return words

    def run(self, job, parameters, *, runs, table=None, run_id=None, command="", **more) -> Run:
        "A run without a kernel, of work that needs no Spark."
        given = {name: value for name, value in parameters.items() if name != "run"}
        done = process_table(given.pop("table"), given.pop("landing"), given.pop("lake"), given.pop("state"), **given)
        run = Run(
            f"{self.now:%d%H}{table}",
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

    def put(self, path: Path, content: bytes | None = None) -> None:
        "Into the bucket, at this hour."
        key = f"dms/{path.relative_to(self.home / 'landing')}"
        boto3.client("s3").put_object(Bucket=self.bucket, Key=key, Body=path.read_bytes() if content is None else content)
        s3_backends["123456789012"]["global"].buckets[self.bucket].keys[key].last_modified = self.now.replace(tzinfo=None)

    def load(self, table: str) -> None:
        self.source[table] = {number: f"{table} {number} of {self.now:%d %H}" for number in range(5)}
        self.put(write_load(self.home / "landing", f"shop.{table}", sorted(self.source[table].items()), COLUMNS, time=self.now))

    def change(self, table: str, key: int, closed: datetime | None = None) -> Path:
        path = write_changes(
            self.home / "landing", f"shop.{table}", [("U", key, f"at {self.now:%d %H:%M}")], closed or self.now, COLUMNS, time=self.now
        )
        if closed is None:
            self.source[table][key] = f"at {self.now:%d %H:%M}"
        self.put(path)
        return path

    def set(self, table: str, **settings: object) -> None:
        open_state(self.config.state, self.config.landing).put_settings(TableRef("shop", table), **settings)

    def passes(self) -> int:
        return run_pass(self.config, on_event=lambda text: None, classic=True).exit_code

    def waits(self) -> list:
        "What a pass at this hour would do, and the alarms that it would raise; for Quiet the function writes the metric."
        alarms = [row for row in in_trouble(self.config, self.now.timestamp()) if row["alarm"] != "Quiet"]
        return [*[str(one.table) for one in read_statuses(self.config) if one.has_work or one.state == "waiting"], *alarms]

    def lake(self, table: str) -> dict:
        return dict(query(f"select id, name from read_parquet('{self.config.lake}/shop/{table}/**/*.parquet')"))


@pytest.fixture
def account(tmp_path, bucket, monkeypatch) -> Account:
    return Account(tmp_path, bucket, monkeypatch)


def happens(account: Account, dice: random.Random, spoiled: list, paused: set) -> None:
    "One thing that happens at a source, to DMS, or by a person's hand."
    table = dice.choice([*account.source])
    what = dice.choice(["change", "change", "load", "late", "new", "spoil", "pause", "setting"])
    if what == "change":
        account.change(table, dice.randrange(5))
    if what == "load":
        account.load(table)
    if what == "late":
        account.change(table, dice.randrange(5), account.now - timedelta(hours=dice.randrange(1, 40)))
    if what == "new" and len(account.source) < 4:
        account.load(f"more{len(account.source)}")
    if what == "spoil":
        path = account.change(table, dice.randrange(5))
        account.put(path, path.read_bytes()[:100])
        spoiled.append(path)
    if what == "pause":
        account.set(table, active=table in paused)
        paused ^= {table}
    if what == "setting":
        account.set(table, when_gone=dice.choice(["keep", "stop"]))


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_no_pass_is_left_out_that_would_have_done_or_said_anything(account, seed, capsys):
    dice, spoiled, paused, left_out = random.Random(seed), [], set(), 0
    for table in ("a", "b"):
        account.load(table)
        account.set(table, key="id")
    for hour in range(HOURS):
        account.now = DAY + timedelta(hours=hour, minutes=dice.randrange(5, 25))
        if dice.random() < 0.2:
            happens(account, dice, spoiled, paused)
        for table in account.source:
            if table.startswith("more") and dice.random() < 0.3:
                account.set(table, key="id")
        if spoiled and dice.random() < 0.5:
            account.put(spoiled.pop())
        account.now = DAY + timedelta(hours=hour, minutes=30)
        if account.look():
            account.passes()
            continue
        assert not account.waits(), hour
        left_out += 1
    assert left_out


def test_a_quiet_day_has_one_pass_and_every_hour_the_numbers_of_the_alarms(account, capsys):
    account.load("a")
    assert "NoSuchKey" in account.look() and account.passes() == 3  # nobody has left a note; the table wants its key
    account.set("a", key="id")
    account.now += timedelta(minutes=20)
    assert "NoSuchKey" in account.look() and account.passes() == 0
    account.change("a", 1)
    account.now += timedelta(minutes=20)
    assert account.look() == "dms/shop/a/20260110-002000000.parquet is new" and account.passes() == 0
    account.now += timedelta(minutes=20)
    said, told = [], []
    for hour in range(30):
        capsys.readouterr()
        said.append(account.look())
        line = json.loads(capsys.readouterr().out)
        if said[-1]:
            assert account.passes() == 0
        else:
            told.append(
                (
                    line["tables"],
                    line["quiet"],
                    [one["Name"] for one in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]],
                    line["_aws"]["CloudWatchMetrics"][0]["Dimensions"],
                    line["landing"],
                )
            )
        account.now += timedelta(hours=1)
    assert [hour for hour, words in enumerate(said) if words] == [23] and said[23] == "a table is due for its daily look at all files"
    assert told[0] == (1, 2400.0, ["tables", "quiet"], [["landing"]], account.config.landing) and told[-1][1] == 2400.0 + 29 * 3600
    assert account.lake("a") == account.source["a"]

    for name, value in (
        ("a note", "is nothing of ours"),
        ("LastIncrementalFile", "shop/a/0.parquet"),
        ("LastFullLoadDate", "1900-01-01 00:00:00"),
        ("ActiveFlag", "false"),
        ("PartitionKey", "name"),
    ):  # as a person sets it in the console
        (key,) = [item["path"] for item in boto3.client("dynamodb").scan(TableName=account.state)["Items"]]
        boto3.client("dynamodb").update_item(
            TableName=account.state,
            Key={"path": key},
            UpdateExpression="SET #n = :v",
            ExpressionAttributeNames={"#n": name},
            ExpressionAttributeValues={":v": {"S": value}},
        )
        assert account.look() == ("" if name == "a note" else "somebody has changed a table's settings or progress")
    assert account.started[-1] == {"JobName": "job"}


def test_a_clock_that_ticks_once_a_day_has_a_pass_each_day_and_a_file_that_comes_late_is_applied_within_one(account):
    account.load("a")
    account.set("a", key="id")
    for day in range(6):
        if day > 3:
            account.change("a", 1)
        assert account.look(), day
        account.now += timedelta(minutes=2)
        account.passes()
        account.now += timedelta(days=1, minutes=-2)
    account.change("a", 2, account.now - timedelta(hours=40))  # its place is before the look-back: only the look at all files finds it
    for hour in range(24):
        account.now += timedelta(hours=1)
        if account.look():
            account.passes()
        else:
            assert not account.waits(), hour
    assert account.lake("a")[2].startswith("at ")


def test_a_stream_that_shares_the_runs_removes_no_idle_note(account):
    account.load("a")
    account.set("a", key="id")
    for _ in range(2):
        account.passes()
        account.now += timedelta(hours=1)
    assert not account.look()
    other = replace(account.config, landing=f"s3://{account.bucket}/streams")
    open_state(other.state, other.landing).put_settings(TableRef("shop", "customer"), key="id")
    account.passes()
    account.now += timedelta(hours=1)
    assert not account.look()
    for number in range(2):
        path = write_load(account.home / "streams", "shop.customer", [(number, "one")], COLUMNS, time=account.now)
        boto3.client("s3").put_object(Bucket=account.bucket, Key=f"streams/shop/customer/{path.name}", Body=path.read_bytes())
        run_pass(other, only=["shop.customer"], on_event=lambda text: None, classic=True)
        assert not account.look(), number


class Killed(BaseException):
    "As if the machine had gone."


def test_who_is_in_trouble_says_so_every_hour_until_it_is_over_and_who_looked_at_a_part_or_died_leaves_no_idle_note(account, monkeypatch):
    def calm() -> bool:
        "Whether the hour after the next pass starts none."
        account.passes()
        account.now += timedelta(hours=1)
        return not account.look()

    for table in ("a", "b"):
        account.load(table)
        account.set(table, key="id")
    account.now += timedelta(hours=1)
    assert calm()
    path = account.change("a", 1)  # refused until it is whole
    account.put(path, path.read_bytes()[:100])
    assert not calm() and not calm()
    account.put(path)
    account.now += timedelta(hours=1)
    assert calm() and account.lake("a") == account.source["a"]
    run_pass(account.config, only=["shop.a"], on_event=lambda text: None, classic=True)
    assert "NoSuchKey" in account.look() and calm()
    run_pass(replace(account.config, include="shop.a"), on_event=lambda text: None, classic=True)
    assert "NoSuchKey" in account.look() and calm()
    for garbage in (b"{", b"[]", b"{}"):
        boto3.client("s3").put_object(Bucket=account.bucket, Key="runs/idle.json", Body=garbage)
        assert account.look() and calm(), garbage

    account.put(account.home / "landing/deep/shop/c/LOAD00000001.parquet", b"of no table")
    account.now += timedelta(hours=1)
    assert not calm() and not calm()  # no table is in trouble, and yet something needs attention
    boto3.client("s3").delete_object(Bucket=account.bucket, Key="dms/deep/shop/c/LOAD00000001.parquet")
    assert calm()

    def die(*given, **more):
        raise Killed

    account.change("a", 2)
    with monkeypatch.context() as dying:
        dying.setattr("dmscdc.service.workers.run_notebook", die)
        with pytest.raises(Killed):
            account.passes()
    assert "NoSuchKey" in account.look()


def test_who_cannot_look_starts_the_pass_and_one_that_is_at_work_takes_what_has_come(account, monkeypatch):
    account.load("a")
    account.set("a", key="id")
    account.passes()
    account.now += timedelta(minutes=20)
    account.passes()
    assert not account.look()
    monkeypatch.setenv("STATE", "another")
    assert "ResourceNotFoundException" in account.look()
    monkeypatch.setenv("STATE", account.state)
    few = SimpleNamespace(get_remaining_time_in_millis=lambda: 10_000)
    assert account.function["handler"]({"JobName": "job"}, few) == "there are too many files to look at each"
    monkeypatch.setitem(account.function, "PASS", account.function["PASS"].replace(account.config.lake, "s3://another/lake"))
    assert account.look() == f"the last pass was about {account.config.lake}"
    monkeypatch.setitem(account.function, "PASS", account.function["PASS"].replace("s3://another/lake", account.config.lake))

    def busy(code: str):
        def start(**request):
            raise account.function["ClientError"]({"Error": {"Code": code, "Message": "no"}}, "StartJobRun")

        account.function["boto3"] = SimpleNamespace(
            client=lambda service: SimpleNamespace(start_job_run=start) if service == "glue" else boto3.client(service)
        )

    busy("ConcurrentRunsExceededException")
    account.now += timedelta(days=2)
    assert account.function["handler"]({"JobName": "job"}, few)
    busy("EntityNotFoundException")
    with pytest.raises(account.function["ClientError"]):
        account.function["handler"]({"JobName": "job"}, few)
