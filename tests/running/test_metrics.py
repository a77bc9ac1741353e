"""What a pass tells programs: lines in CloudWatch's embedded metric format, or plain JSON, with the ids of runs and pass."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.errors import ConfigError
from dmscdc.landing.files import TableRef
from dmscdc.service.config import read_config
from dmscdc.service.metrics import DIMENSIONS, UNITS, open_metrics, with_metrics
from dmscdc.service.passes import run_pass
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.test

# docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html, as a schema;
# units are those of MetricDatum
SCALES = ("", "Kilo", "Mega", "Giga", "Tera")
SIZES = [f"{scale}{unit}".capitalize() for scale in SCALES for unit in ("bytes", "bits")]
UNIT = ["Seconds", "Microseconds", "Milliseconds", "Percent", "Count", "Count/Second", "None", *SIZES, *(f"{size}/Second" for size in SIZES)]
METRIC = {
    "type": "object",
    "required": ["Name"],
    "additionalProperties": False,
    "properties": {"Name": {"type": "string", "minLength": 1, "maxLength": 1024}, "Unit": {"enum": UNIT}, "StorageResolution": {"enum": [1, 60]}},
}
DIRECTIVE = {
    "type": "object",
    "required": ["Namespace", "Dimensions", "Metrics"],
    "additionalProperties": False,
    "properties": {
        "Namespace": {"type": "string", "minLength": 1, "maxLength": 1024},
        "Dimensions": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "array", "maxItems": 30, "items": {"type": "string", "minLength": 1, "maxLength": 250}},
        },
        "Metrics": {"type": "array", "maxItems": 100, "items": METRIC},
    },
}
EMF = {
    "type": "object",
    "required": ["_aws"],
    "properties": {
        "_aws": {
            "type": "object",
            "required": ["Timestamp", "CloudWatchMetrics"],
            "additionalProperties": False,
            "properties": {"Timestamp": {"type": "integer", "minimum": 10**12}, "CloudWatchMetrics": {"type": "array", "items": DIRECTIVE}},
        }
    },
}
PARAMETERS = 'table = ""\nlanding = ""\nlake = ""\nstate = ""\nformat = ""\nquiet_period = 0.0\nrun = ""\nowner = ""\nfence = 0'
JOB = """
from dmscdc.runs.log import record
assert not table.endswith("broken"), "a file that cannot be read"
record("processed", {"lag": 61.5, "files": [{"path": "LOAD00000001.parquet", "bytes": 900}], "position": {"after": ""},
                     "rows": {"read": 2, "inserted": 2}, "lake": {"bytes_written": 1200, "rows": 2}})
record("verdict", {"verdict": "ok", "words": "loaded", "command": "dmscdc pass"})
"""


def check_emf(line: dict) -> dict[str, float]:
    "Refuse a line that CloudWatch would not take, by the specification; its metrics."
    jsonschema.validate(line, EMF)
    [directive] = line["_aws"]["CloudWatchMetrics"]
    for name in (name for names in directive["Dimensions"] for name in names):
        value = line[name]  # a target member: on the root, a text, and as CloudWatch's Dimension wants it
        assert isinstance(value, str) and value.isascii() and value.isprintable() and 1 <= len(value.strip()) and len(value) <= 1024
    metrics = {one["Name"]: line[one["Name"]] for one in directive["Metrics"]}
    assert all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in metrics.values())
    assert len(json.dumps(line)) < 1_000_000
    return metrics


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    "One pass over three tables by a stand-in for the job: one is loaded, one fails, one waits for its key; and its lines."
    folder = tmp_path_factory.mktemp("house")
    cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}), new_code_cell(JOB)]
    nbformat.write(
        new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "python3"}}), folder / "job.ipynb"
    )
    config = read_config(folder, landing="landing", lake="lake", quiet_period=0, workers=2, metrics="emf:logs/pass.jsonl")
    for name in ("good", "broken", "new"):
        write_load(config.landing, f"shop.{name}", [(1, "a"), (2, "b")], {"id": "int", "said": "string"})
        if name != "new":
            open_state(config.state).put_settings(TableRef("shop", name), key="id")
    write_changes(config.landing, "shop.broken", [("I", 3, "c")], "20181215-100000000", {"id": "int", "said": "string"})
    done = run_pass(config, job=folder / "job.ipynb", on_event=lambda text: None, classic=True)
    return config, done, [json.loads(line) for line in (folder / "logs" / "pass.jsonl").read_text().splitlines()]


def lines_of(house, event: str) -> dict[str, dict]:
    return {line.get("table", "pass"): line for line in house[2] if line["event"] == event}


def test_every_line_with_a_number_is_one_that_cloudwatch_takes(house):
    taken = [line for line in house[2] if "_aws" in line]
    assert [(line.get("table", "pass"), check_emf(line) and 1) for line in taken] == [("shop.broken", 1), ("shop.new", 1), ("pass", 1)]
    assert {json.dumps(line["_aws"]["CloudWatchMetrics"][0]["Dimensions"]) for line in taken} == {'[["landing", "table"]]', '[["landing"]]'}


def test_a_table_s_line_says_lag_files_rows_bytes_seconds_and_verdict(house):
    good = lines_of(house, "table")["shop.good"]
    names = ("verdict", "lag", "files_waiting", "files", "rows_read", "rows_inserted", "bytes_read", "bytes_written", "failed", "attention")
    assert [good[name] for name in names] == ["ok", 61.5, 0, 1, 2, 2, 900, 1200, 0, 0]
    assert 0 < good["seconds"] < 60 and good["level"] == "INFO"
    broken = lines_of(house, "table")["shop.broken"]
    assert [broken[name] for name in names[:4]] == ["failed", None, 2, 0] and broken["failed"] == 1
    assert broken["level"] == "ERROR" and "a file that cannot be read" in broken["words"]
    new = lines_of(house, "table")["shop.new"]
    assert (new["verdict"], new["state"], new["files_waiting"], new["attention"], new["run"]) == ("attention", "waiting", None, 1, None)
    assert {**check_emf(broken), **check_emf(new)} == {"failed": 1, "attention": 1} and "_aws" not in good, "a table that is well costs nothing"


def test_the_pass_is_the_sum_of_its_tables(house):
    config, done, _ = house
    line = lines_of(house, "pass")["pass"]
    assert (line["pass"], line["landing"], line["verdict"], line["words"]) == (done.id, config.landing, "failed", done.words)
    assert line["verdicts"] == {"ok": 1, "failed": 1, "attention": 1}
    names = ("tables", "lag", "files_waiting", "files", "rows_read", "bytes_written", "failed", "attention")
    assert [line[name] for name in names] == [3, 61.5, 2, 1, 2, 1200, 1, 1]


def test_runs_and_pass_are_found_by_their_ids_as_they_begin_and_end(house):
    _, done, lines = house
    assert {line["pass"] for line in lines} == {done.id}
    runs = {name: one.run.id for name, one in done.tables.items() if one.run}
    for event in ("run begun", "run ended"):
        assert {name: line["run"] for name, line in lines_of(house, event).items()} == runs
    assert {name: lines_of(house, "table")[name]["run"] for name in runs} == runs
    assert lines_of(house, "run ended")["shop.broken"]["cause"] == "cell error"
    order = [line["event"] for line in lines]
    assert order[-4:] == ["table"] * 3 + ["pass"]
    for run in runs.values():  # of two at once, either may be written first
        times = [line["time"] for line in lines if line.get("run") == run]
        assert times == sorted(times)


def test_a_pass_that_finds_an_empty_landing_has_its_line_too(tmp_path):
    (tmp_path / "landing").mkdir()
    config = read_config(tmp_path, landing="landing", lake="lake", metrics="jsonl:lines.jsonl")
    assert run_pass(config).verdict == "attention"
    [line] = map(json.loads, (tmp_path / "lines.jsonl").read_text().splitlines())
    said = [line[name] for name in ("event", "verdict", "tables", "lag", "level")]
    assert said == ["pass", "attention", 0, None, "WARNING"] and "_aws" not in line


def test_without_the_setting_nothing_is_written_and_a_wrong_one_is_refused(tmp_path, capsys):
    (tmp_path / "landing").mkdir()
    run_pass(read_config(tmp_path, landing="landing", lake="lake"))
    assert capsys.readouterr().out == "" and [path.name for path in tmp_path.rglob("*.jsonl")] == ["ledger.jsonl"]
    with pytest.raises(ConfigError, match="metrics is emf or jsonl, or either with :FILE or :logs:GROUP, not 'statsd'"):
        read_config(tmp_path, landing="landing", lake="lake", metrics="statsd")


def test_standard_output_gets_whole_lines_and_people_get_theirs_elsewhere(tmp_path):
    (tmp_path / "landing").mkdir()
    (tmp_path / "dmscdc.toml").write_text('landing = "landing"\nlake = "lake"\nmetrics = "emf"\n')
    done = subprocess.run([sys.executable, "-c", "from dmscdc.cli.main import main; main()", "pass"], cwd=tmp_path, capture_output=True, text=True)
    first, *rest = done.stdout.splitlines()
    assert check_emf(json.loads(first))["tables"] == 0 and rest and done.returncode == 3


def test_many_writers_share_a_file_and_no_line_is_torn(tmp_path):
    tell = open_metrics(f"jsonl:{tmp_path}/lines.jsonl", landing="s3://shop-landing/dms")
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: tell("table", table=f"shop.t{i}", words="ä" * 5000), range(400)))
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert {line["table"] for line in lines} == {f"shop.t{i}" for i in range(400)} and len(lines) == 400


@pytest.mark.parametrize("name", ["überweisung", "a\tb", " ", "x" * 2000, "表"])
def test_any_name_of_a_table_is_a_dimension_that_cloudwatch_takes(name):
    line = with_metrics({"landing": "s3://l", "table": name, "lag": 1.0, "waited": 601.0}, 1_544_868_000.0)
    assert check_emf(line) == {"waited": 601.0}


def test_no_metric_without_a_unit_of_cloudwatch_and_no_dimension_that_is_a_number(house):
    assert set(UNITS.values()) <= set(UNIT)
    assert not set(DIMENSIONS) & set(UNITS)
    ordinary = {*UNITS} - {"behind", "different"}  # of a stream, of a proof
    assert set(check_emf(lines_of(house, "pass")["pass"])) == ordinary
