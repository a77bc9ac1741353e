"""`dmscdc reconcile`: what it says, its exit code, the report that stays, and the password that shows nowhere. One Spark server for all runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from databases import SECRET
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.deploy.on_call import in_trouble
from dmscdc.runs.log import RunLog
from dmscdc.service.config import read_config, write_config
from dmscdc.spark.server import serve
from world import World

pytestmark = pytest.mark.proof

ROWS = [(1, "lamp", 39), (2, "desk", 89), (3, "tent", 119)]
WRONG = "a-wrong-password-of-nobody"


@pytest.fixture(scope="module")
def home(spark, mariadb, tmp_path_factory) -> Path:
    "A folder of settings, a lake that its passes have made, and a MariaDB with the same rows."
    home = tmp_path_factory.mktemp("proven")
    world = World(home, spark, {"id": "int", "name": "string", "price": "decimal(10,2)"}, "shop.thing").set(key="id").load(ROWS)
    world.go()
    write_config(home, landing="landing", lake="lake", quiet_period=0, source=mariadb.source, metrics=f"jsonl:{home}/lines.jsonl")
    mariadb.run(
        "create table thing (id int primary key, name varchar(20), price decimal(10,2))",
        "insert into thing values (1,'lamp',39),(2,'desk',89),(3,'tent',119)",
    )
    return home


@pytest.fixture(scope="module")
def typed(home):
    "Types the command as a person does."
    with serve(master="local[2]", memory="1g", log=home / "spark.log") as server:

        def run(*words: str, **env: str):
            return CliRunner(env={"SPARK_REMOTE": server.url, "FORCE_COLOR": None, **env}).invoke(app, [*words, "--folder", str(home)])

        yield run


@pytest.fixture(scope="module")
def runs(typed, mariadb) -> dict:
    "Equal; then with a difference, for a machine; then with a password that is wrong."
    right = {"DMSCDC_SOURCE_PASSWORD": SECRET}
    done = {"equal": typed("reconcile", "shop.thing", **right)}
    mariadb.run("update thing set price = 91, name = 'Zelt' where id = 3")
    done["machine"] = typed("reconcile", "shop.thing", "--json", "--wait", "0.01", "--secret", "env:MINE", MINE=SECRET)
    done["refused"] = typed("reconcile", "shop.thing", DMSCDC_SOURCE_PASSWORD=WRONG)
    return done


def test_equal_is_said_and_kept(runs, home):
    done = runs["equal"]
    assert done.exit_code == 0, done.output
    assert "shop.thing: equal as of load 1 (1 file), no changes yet: 3 rows, hash" in done.output
    report = Path(done.output.split("report: ")[1].strip())
    assert "equal as of load 1" in report.read_text() and report.is_relative_to(home / "runs" / "reconcile" / "shop.thing")
    assert "reconcile" in (home / "runs" / "index.html").read_text()


def test_a_difference_fails_and_a_machine_reads_keys_columns_and_both_values(runs):
    (found,) = json.loads(runs["machine"].stdout)
    assert (runs["machine"].exit_code, found["verdict"], found["differences"], found["in_flight"]) == (1, "failed", {"different": 1}, {})
    assert found["findings"] == [
        {"kind": "different", "key": {"id": "3"}, "columns": {"name": ["Zelt", "tent"], "price": ["91", "119"]}, "in_flight": False, "rows": 1}
    ]
    assert (found["source"]["rows"], found["lake"]["rows"], found["moved"], found["commit"]) == (3, 3, 1, 1)
    assert "Zelt" in Path(found["html"]).read_text()


def test_status_tells_the_last_proof_beside_the_one_that_was_equal_and_what_came_since(runs, home, typed):
    (product,) = json.loads(typed("status", "--json").stdout)
    assert re.fullmatch(
        r"differed at \d{4}-\d\d-\d\d \d\d:\d\d; equal at \d{4}-\d\d-\d\d \d\d:\d\d", product["proven"]
    )  # a wrong password has compared nothing
    assert (product["proof"]["verdict"], product["proof"]["equal"]["commit"]) == ("failed", 1)
    # No pass takes back what a comparison found.
    assert product["verdict"] == "attention" and "and was not found equal since. To compare again" in product["words"]
    assert typed("status").exit_code == 3
    assert product["proof"]["equal"]["run"] == RunLog(home / "runs").runs()[0].run
    assert product["proven"] in typed("status").stdout.replace("\n", " ") or "differed at" in typed("status").stdout
    last = next(line for line in reversed(RunLog(home / "runs").runs()) if line.run == product["proof"]["run"])
    assert f'Compared with its source: <a href="{last.html}">differed at' in (home / "runs" / "index.html").read_text()


def test_a_difference_is_a_number_for_an_alarm_and_a_comparison_that_failed_is_none(runs, home):
    lines = [json.loads(line) for line in (home / "lines.jsonl").read_text().splitlines()]
    assert [(line["event"], line["table"], line["different"]) for line in lines] == [
        ("proof", "shop.thing", 0),
        ("proof", "shop.thing", 1),
        ("proof", "shop.thing", None),
    ]
    (told,) = [row for row in in_trouble(read_config(home)) if row["alarm"] == "Different"]
    assert told["table"] == "shop.thing" and "1 different: id=3" in told["words"] and told["report"]


def test_the_page_has_columns_in_their_order_one_spelling_of_a_hash_and_the_columns_compared(runs):
    (found,) = json.loads(runs["machine"].stdout)
    text = Path(found["html"]).read_text()
    heads = [re.findall(r"<th[^>]*>(.*?)</th>", table) for table in re.findall(r"<thead>(.*?)</thead>", text)]
    assert (
        ["side", "rows", "hash"] in heads
        and ["low", "high", "source", "lake"] in heads
        and ["kind", "key", "in_flight", "column", "source", "lake"] in heads
    )
    assert found["source"]["hash"] != found["lake"]["hash"] and all(text.count(found[side]["hash"]) == 1 for side in ("source", "lake"))
    assert not any(f"{int(found[side]['hash'], 16)}" in text.replace(",", "") for side in ("source", "lake"))
    assert f">{found['compared']}</p>" in text and found["compared"].split(", ")[:2] == ["id", "name"]


def test_a_wrong_password_fails_in_the_words_of_the_driver(runs):
    assert runs["refused"].exit_code == 1 and "Access denied for user 'reader'" in runs["refused"].output


def test_no_password_is_in_anything_that_stays_or_is_said(runs, home):
    assert all(word not in done.output for done in runs.values() for word in (SECRET, WRONG))
    kept = [p for p in (home / "runs").rglob("*") if p.is_file()]
    assert len([p for p in kept if p.suffix == ".ipynb"]) == 3
    assert not [p for p in [*kept, home / "dmscdc.toml"] for word in (SECRET, WRONG) if word.encode() in p.read_bytes()]


def test_each_run_is_a_line_of_the_ledger(runs, home):
    lines = list(RunLog(home / "runs").newest_first())
    assert [(line.job, line.table, line.verdict) for line in lines] == [("reconcile", "shop.thing", v) for v in ("failed", "failed", "ok")]


@pytest.mark.parametrize(
    "words, said",
    [
        (["--source", f"mysql://reader:{WRONG}@h/d"], "holds no password"),
        (["--secret", WRONG], "env:NAME or aws:SECRET_ID"),
        (["--source", "sqlite:nowhere.db"], "no SQLite database"),
    ],
)
def test_wrong_use_is_refused_before_anything_starts_and_repeats_no_password(typed, home, words, said):
    before = sorted((home / "runs").rglob("*.ipynb"))
    done = typed("reconcile", "shop.thing", *words)
    assert done.exit_code == 2 and said in done.output and WRONG not in done.output
    assert sorted((home / "runs").rglob("*.ipynb")) == before


def test_a_table_that_the_lake_does_not_hold_is_refused_before_anything_starts_and_leaves_no_card(typed, home):
    kept = lambda: sorted(str(p) for p in (home / "runs").rglob("*") if p.is_file() and "nosuch" in str(p))
    done = typed("reconcile", "shop.thing", "shop.nosuch", DMSCDC_SOURCE_PASSWORD=SECRET)
    assert done.exit_code == 2 and "no table shop.nosuch in " in done.output and "There are: shop.thing. " in done.output
    assert not kept() and not [line for line in RunLog(home / "runs").newest_first() if line.table == "shop.nosuch"]
