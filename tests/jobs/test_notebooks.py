"""The notebooks that nobody imports, executed as papermill does it: the tour, and the pass. All of them share one Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dmscdc.capture.shop import COLUMNS, PRODUCTS, STORES
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.landing.files import TableRef
from dmscdc.runs.kernel import Watch, executed
from dmscdc.runs.log import RunLog, records
from dmscdc.service.config import read_config, write_config
from dmscdc.spark.server import serve
from dmscdc.state.registry import open_state
from rooms import Room

pytestmark = pytest.mark.proof

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PRODUCT = TableRef.parse("sampledb.product")


@dataclass(frozen=True)
class Executed:
    "An executed notebook."

    path: Path
    error: BaseException | None

    def outputs(self) -> list[dict[str, Any]]:
        "What its code cells show, in order."
        return [out for cell in json.loads(self.path.read_text())["cells"] for out in cell.get("outputs", [])]

    def shown(self) -> list[str]:
        "The values at the ends of its cells, as text."
        return ["".join(out["data"].get("text/plain", "")) for out in self.outputs() if out["output_type"] == "execute_result"]


@pytest.fixture(scope="module")
def execute(tmp_path_factory):
    "Executes a notebook of ours into a temporary folder; the notebooks that it runs in turn find the same Spark."
    home, names = tmp_path_factory.mktemp("executed"), iter("abcdefgh")
    with serve(master="local[2]", log=home / "spark.log") as server:

        def run(name: str, **parameters: Any) -> Executed:
            path = home / f"{next(names)}.ipynb"
            return Executed(path, executed(NOTEBOOKS / f"{name}.ipynb", parameters, path, Watch(), {"SPARK_REMOTE": server.url}))

        yield run


@pytest.fixture(scope="module")
def tour(execute, tmp_path_factory) -> tuple[Executed, Path]:
    home = tmp_path_factory.mktemp("tour")
    return execute("explore/tour", folder=str(home)), home / "shop"


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    "A folder of settings over a landing with two tables, one of which waits for its key."
    home = tmp_path_factory.mktemp("small")
    write_config(home, landing="landing", lake="lake", quiet_period=0)
    write_load(home / "landing", PRODUCT, PRODUCTS[:3], COLUMNS["product"])
    write_load(home / "landing", "sampledb.store", STORES[:2], COLUMNS["store"])
    open_state(read_config(home).state).put_settings(PRODUCT, key="id")
    return home


@pytest.fixture(scope="module")
def passes(execute, small) -> dict[str, Executed]:
    "All tables; one of them again; and once more after a change that cannot be applied."
    done = {"all": execute("jobs/pass", folder=str(small))}
    done["again"] = execute("jobs/pass", folder=str(small), only="sampledb.product,")
    write_changes(small / "landing", PRODUCT, [("D", None, *PRODUCTS[0][1:])], "20181215-100311204", COLUMNS["product"])
    done["refused"] = execute("jobs/pass", folder=str(small), only="sampledb.product")
    return done


def product_of(lake: Path) -> list[tuple]:
    return duckdb.sql(f"select id, name from read_parquet('{lake}/sampledb/product/*.parquet') order by id").fetchall()


def test_the_tour_runs_from_its_first_cell_to_its_last(tour):
    assert tour[0].error is None and len(tour[0].shown()) == 9


def test_the_tour_ends_with_a_lake_that_equals_the_shop(tour):
    ran, home = tour
    assert "['sampledb.store: equal, 9 rows',\n 'sampledb.product: equal, 24 rows',\n 'sampledb.productorder: equal, 9,770 rows']" in ran.shown()
    assert product_of(home / "lake")[:2] == [(1001, "Sample Product"), (1003, "Ridge Tent, 2 persons")]


def test_the_tour_shows_files_plan_changes_and_where_rows_come_from(tour):
    shop, files, plan, first, before, changes, after, equal, report = tour[0].shown()
    assert "Trail Lantern 300" in shop and "landing/sampledb/productorder/LOAD00000001.parquet" in files
    assert (
        plan.count("initial load (1 file") == 3 and "ok: 3 tables: 3 ok" in first and "sampledb.store: ok, 1 file, 8 rows read: 8 inserted" in first
    )
    assert "LOAD00000001.parquet#1" in before and "1002" in before
    assert "2 rows read: 1 updated, 1 deleted" in report and "'read': 2, 'updated': 1}" in report
    assert "D  1002" in changes and "Sample Product" in after and "1002" not in after


def test_the_tour_shows_the_report_of_a_run_inside_a_frame_of_its_own(tour):
    frame = "".join(tour[0].outputs()[-1]["data"]["text/html"])
    page = unescape(frame.split('srcdoc="')[1].split('" width')[0])
    assert page.startswith("<!doctype html>") and "1 file, 2 rows read: 1 updated, 1 deleted" in page
    assert frame.count("<style") == 0  # it must not dress the notebook around it


@pytest.fixture(scope="module")
def from_2019(execute, tmp_path_factory) -> Executed:
    return execute("explore/from_2019", folder=str(tmp_path_factory.mktemp("from_2019")))


@pytest.fixture(scope="module")
def from_2020(execute, tmp_path_factory) -> Executed:
    return execute("explore/from_2020", folder=str(tmp_path_factory.mktemp("from_2020") / "home"))


@pytest.mark.parametrize("name", ["tour", "from_2019", "from_2020"])
def test_what_the_page_shows_is_kept(name, tour, from_2019, from_2020):
    ran = {"tour": tour[0], "from_2019": from_2019, "from_2020": from_2020}[name]
    assert Room(NOTEBOOKS / "explore" / f"{name}.ipynb").executed(ran.path).wrong() == []


def test_the_page_for_those_who_come_from_2020_follows_a_stream_to_the_end(from_2020):
    assert from_2020.error is None
    item, said, rows, named = from_2020.shown()
    assert "'shop.customer: equal, 124 rows'" in said and "'custName': {'S': " in item and "'id_right_1': 2," in rows
    assert "'registrationDate': '2020-03-14'" in named and "'update_ts_dms': '2020-03-14" in named


def test_the_page_for_those_who_come_from_2019_runs_and_the_old_lake_goes_on(from_2019):
    assert from_2019.error is None
    files, plan, first, rows, again = from_2019.shown()
    assert files.count("old-lake/product/part-00000-") == 2 and files.count("landing/sampledb/product/") == 3
    assert "go on from the 2019 solution (load 1 (1 file), changes up to 20181215-100311204.parquet); 1 change file" in plan
    assert "2 files of the 2019 lake taken over, 25 rows" in first and "1 deleted" in first and "0-adopted-part-00000-91fe" in rows
    assert again == "'nothing: 1 table: 1 nothing'" and "Sample Product" in rows and "1002" not in rows


def test_the_pass_loads_what_is_ready_and_leaves_the_rest_to_a_person(passes, small):
    kept = records(passes["all"].path)
    assert passes["all"].error is None
    assert (kept["verdict"]["verdict"], kept["verdict"]["words"]) == ("attention", "2 tables: 1 attention, 1 ok")
    assert {one["table"]: one["verdict"] for one in kept["tables"]} == {"sampledb.product": "ok", "sampledb.store": "attention"}
    assert product_of(small / "lake") == [row[:2] for row in PRODUCTS[:3]]


def test_the_pass_again_has_nothing_to_do(passes):
    kept = records(passes["again"].path)
    assert passes["again"].error is None
    assert kept["verdict"]["words"] == "1 table: 1 nothing" and [one["table"] for one in kept["tables"]] == ["sampledb.product"]


def test_a_pass_with_a_refused_table_fails_and_keeps_what_it_found(passes, small):
    assert "1 table: 1 refused" in str(passes["refused"].error)
    kept = records(passes["refused"].path)
    assert kept["verdict"]["verdict"] == "refused" and "key column id is null" in kept["tables"][0]["words"]
    assert product_of(small / "lake") == [row[:2] for row in PRODUCTS[:3]]


def test_the_notebook_leaves_the_same_lines_as_the_command(passes, small):
    lines = [(line.job, line.verdict) for line in RunLog(small / "runs").runs()]
    assert lines == [("process_table", "ok"), ("pass", "attention"), ("pass", "nothing"), ("process_table", "refused"), ("pass", "refused")]
