"""`dmscdc history` and the exploration, as an analyst uses them: without Java, on the shop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from datetime import datetime, timedelta, timezone
from pathlib import Path

import papermill
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.main import app
from dmscdc.history.audit import audit_row
from dmscdc.history.row_page import MOST, page, picture, value_text
from dmscdc.lake.table import open_table
from dmscdc.landing.files import TableRef
from dmscdc.service.config import read_config, write_config
from dmscdc.state.registry import open_state
from world import World

pytestmark = pytest.mark.test

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "explore" / "row_history.ipynb"
NINE = datetime(2018, 12, 15, 9, tzinfo=timezone.utc)
SHAPE = {"id": "int", "part": "string", "name": "string"}
SLY = "</title><script>alert('x')</script>[red]\x1b[31m&amp;"


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    "A folder with settings and a landing: a row renamed to something sly, deleted, back again, once late."
    home = tmp_path_factory.mktemp("shop")
    write_config(home, landing="landing", lake="lake")
    config = read_config(home)
    open_state(config.state, config.landing).put_settings(TableRef("shop", "item"), key="id,part")
    write_load(home / "landing", "shop.item", [(1, "a", "Lamp"), (1, "b", "Desk")], SHAPE, time=NINE)
    for minutes, put, row in (
        (10, 10, ("U", 1, "a", SLY)),
        (15, 90, ("U", 1, "a", None)),
        (20, 20, ("D", 1, "a", None)),
        (30, 30, ("I", 1, "a", "null")),
    ):
        closed = NINE + timedelta(minutes=minutes)
        write_changes(home / "landing", "shop.item", [row], closed, SHAPE, time=NINE + timedelta(minutes=put, seconds=1))
    return home


def ask(shop: Path, *args: str):
    return CliRunner().invoke(app, ["history", *args, "--folder", str(shop)])


def test_it_answers_without_java(shop):
    code = "import sys; from dmscdc.cli.main import main; sys.argv = ['dmscdc', *sys.argv[1:]]; main()"
    args = ["history", "shop.item", "--key", "id=1", "--key", "part=a", "--json", "--folder", str(shop)]
    env = {**os.environ, "JAVA_HOME": "/nowhere", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    (life,) = json.loads(done.stdout)["lives"]
    assert [(s["number"], s["op"], s["meant"], s["life"], s["is_late"]) for s in life["steps"]] == [
        (1, "I", "inserted", 1, False),
        (2, "U", "updated", 1, False),
        (3, "U", "updated", 1, True),
        (4, "D", "deleted", 1, False),
        (5, "I", "inserted again", 2, False),
    ]
    assert life["steps"][1]["cells"] == [{"column": "name", "old": "Lamp", "new": SLY, "is_known": True}]
    assert life["steps"][2]["put"] == "2018-12-15T10:30:01+00:00" and life["steps"][2]["closed"] == "2018-12-15T09:15:00+00:00"
    assert life["key"] == {"id": "1", "part": "a"} and life["begins"].startswith("load 1 (2018-12-15 09:00:00")


def test_people_see_steps_file_and_row_what_differed_and_where_the_telling_begins(shop):
    done = ask(shop, "shop.item", "--key", "part=a", "--key", "id=1")
    lines = done.stdout.splitlines()
    assert done.exit_code == 0 and "\x1b" not in done.stdout
    assert lines[0] == "id=1, part=a"
    steps = [line for line in lines if line[:1].isdigit()]
    assert "20181215-091500000.parquet  1" in steps[2] and "late, 10:30:01" in steps[2] and "→ null" in steps[2]
    assert "name 'null'" in steps[4] and "inserted again" in steps[4]
    assert any(line.startswith("History covers load 1 (2018-12-15 09:00:00 UTC) through 20181215-093000000.parquet") for line in lines)


def test_a_part_of_the_key_finds_several_rows_and_says_so(shop):
    done = ask(shop, "shop.item", "--key", "id=1")
    assert "several rows may have the same id; its key is id, part" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("id=")] == ["id=1, part=a", "id=1, part=b"]


def test_an_unknown_key_is_an_answer(shop):
    done = ask(shop, "shop.item", "--key", "id=7", "--key", "part=a")
    assert (done.exit_code, "No file that was read contains this key." in done.stdout) == (0, True)


@pytest.mark.parametrize(
    "args, words",
    [
        (["shop.item", "--key", "sku=1"], "there is no column sku; the columns are id, part, name"),
        (["shop.item", "--key", "id=x", "--key", "part=a"], "'x' is not a whole number (int32)"),
        (["shop.item", "--key", "id"], "a key is written name=value"),
        (["shop.item", "--key", "id=1", "--key", "id=2"], "each column once"),
        (["shop.item", "--key", "id=1", "--until", "tomorrow"], "not 'tomorrow'"),
        (["shop.cart", "--key", "id=1"], "no table shop.cart in "),
        (["cart", "--key", "id=1"], "there is no table cart here. There are: shop.item."),
    ],
)
def test_wrong_use_is_said_in_words_with_exit_code_2(shop, args, words):
    done = ask(shop, *args)
    assert done.exit_code == 2 and words in done.stderr.replace("\n", " ")


def test_times_leave_files_out_and_this_is_said(shop):
    done = ask(shop, "shop.item", "--key", "id=1", "--key", "part=a", "--since", "2018-12-15T09:12Z", "--until", "2018-12-15T09:20Z")
    assert [line.split()[0] for line in done.stdout.splitlines() if line[:1].isdigit()] == ["1", "2"]
    assert "? → null" in done.stdout and "3 files of another time were not read" in done.stdout


def test_picture_and_page_are_written_and_no_value_becomes_a_part_of_them(shop, tmp_path):
    svg, html = tmp_path / "life.svg", tmp_path / "life.html"
    done = ask(shop, "shop.item", "--key", "id=1", "--key", "part=a", "--svg", str(svg), "--html", str(html))
    assert done.exit_code == 0
    drawn, text = xml.fromstring(svg.read_text()), html.read_text()
    assert drawn.tag.endswith("svg") and not list(drawn.iter("{http://www.w3.org/2000/svg}script"))
    words = ["".join(one.itertext()) for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"life 1", "life 2", "deleted", "late: put 10:30:01"} <= set(words)
    assert "<script" not in text and "&lt;script&gt;" in text and len(text) < 100_000


def test_a_life_of_too_many_steps_has_no_picture(tmp_path):
    write_load(tmp_path, "shop.item", [(1, "a", "Lamp")], SHAPE, time=NINE)
    rows = [("U", 1, "a", f"Lamp {n}") for n in range(MOST)]
    write_changes(tmp_path, "shop.item", rows, NINE + timedelta(minutes=1), SHAPE, time=NINE + timedelta(minutes=1))
    (audit,), _ = audit_row(str(tmp_path), open_table("parquet", str(tmp_path / "lake"), TableRef("shop", "item")), {"id": 1})
    assert (len(audit.life.steps), picture(audit)) == (MOST + 1, "") and "<svg" not in page("shop.item", [audit])


@pytest.mark.parametrize(
    "value, text",
    [(None, "null"), ("null", "'null'"), ("", "''"), (" x", "' x'"), ("a\x00b", "'a\\x00b'"), ("x" * 99, "x" * 59 + "…"), (-0.0, "-0.0")],
)
def test_no_value_can_be_taken_for_another(value, text):
    assert value_text(value) == text


def test_the_exploration_shows_the_life_of_a_row_of_the_shop_as_table_and_picture(shop, tmp_path):
    asked = {"folder": str(shop), "table": "shop.item", "key": {"id": "1", "part": "a"}}
    papermill.execute_notebook(NOTEBOOK, tmp_path / "shown.ipynb", asked, progress_bar=False)
    cells = json.loads((tmp_path / "shown.ipynb").read_text())["cells"]
    data = [out["data"] for cell in cells for out in cell.get("outputs", []) if "data" in out]
    (table,) = ("".join(one["text/html"]) for one in data if "<tr" in "".join(one.get("text/html", "")))
    assert table.count("<tr") == 6 and "inserted again" in table and "late, 10:30:01" in table
    assert ["<svg" in "".join(one.get("image/svg+xml", "")) for one in data].count(True) == 1
    assert "load 1 (2018-12-15 09:00:00 UTC)" in json.dumps(data)


LAST, MIDDLE, LOAD = "20181215-092000000.parquet", "20181215-091000000.parquet", "LOAD00000001.parquet"
UNREAD = (  # what is damaged, and of each step what is said: meaning, old name or ? for unknown, new name, life; then where the telling begins and ends
    (LAST, [("inserted", None, "Lamp", 1), ("updated", "Lamp", "Desk", 1)], "load 1 (2018-12-15 09:00:00 UTC)", MIDDLE),
    (MIDDLE, [("inserted", None, "Lamp", 1), ("updated", "?", "Sofa", 1)], "load 1 (2018-12-15 09:00:00 UTC)", LAST),
    (LOAD, [("updated", "?", "Desk", 1), ("updated", "Desk", "Sofa", 1)], f"{MIDDLE}; earlier values are unknown", LAST),
)


@pytest.mark.parametrize("name, expected, begins, ends", UNREAD, ids=["last", "middle", "load"])
def test_of_a_file_that_cannot_be_read_nothing_is_claimed_and_somebody_must_look(tmp_path, name, expected, begins, ends):
    write_config(tmp_path, landing="landing", lake="lake")
    open_state(f"sqlite:{tmp_path / 'state.db'}").put_settings(TableRef("shop", "item"), key="id,part")
    write_load(tmp_path / "landing", "shop.item", [(1, "a", "Lamp")], SHAPE, time=NINE)
    for minutes, value in ((10, "Desk"), (20, "Sofa")):
        closed = NINE + timedelta(minutes=minutes)
        write_changes(tmp_path / "landing", "shop.item", [("U", 1, "a", value)], closed, SHAPE, time=closed + timedelta(seconds=1))
    whole = ask(tmp_path, "shop.item", "--key", "id=1", "--key", "part=a", "--json")
    assert whole.exit_code == 0 and [step["meant"] for step in json.loads(whole.stdout)["lives"][0]["steps"]] == ["inserted", "updated", "updated"]
    file = tmp_path / "landing/shop/item" / name
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_bytes(b"damaged")
    os.utime(file, ns=times)
    done = ask(tmp_path, "shop.item", "--key", "id=1", "--key", "part=a", "--json")
    (life,) = json.loads(done.stdout)["lives"]
    told = [
        (
            step["meant"],
            *[(cell["old"] if cell["is_known"] else "?", cell["new"]) for cell in step["cells"] if cell["column"] == "name"],
            step["life"],
        )
        for step in life["steps"]
    ]
    assert told == [(meant, (old, new), number) for meant, old, new, number in expected]
    assert (done.exit_code, life["begins"], life["ends"], life["lake"]["verdict"]) == (3, begins, ends, "not compared")
    said = ask(tmp_path, "shop.item", "--key", "id=1", "--key", "part=a")
    assert said.exit_code == 3 and f"shop.item: {name} cannot be read: " in said.stdout and "only what later files carry is known" in said.stdout
    by_value = ask(tmp_path, "shop.item", "--key", "name=Bed")
    assert by_value.exit_code == 3 and f"{name} cannot be read" in by_value.stdout and "No row ever had" not in by_value.stdout


def test_of_a_table_whose_only_file_cannot_be_read_nothing_is_told(tmp_path):
    (tmp_path / "landing/shop/item").mkdir(parents=True)
    (tmp_path / "landing/shop/item" / LOAD).write_bytes(b"damaged")
    done = ask(tmp_path, "shop.item", "--key", "id=1", "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake"))
    assert (
        done.exit_code == 3
        and "The files that can be read do not show how the row is now." in done.stdout
        and f"{LOAD} cannot be read" in done.stdout
    )
    assert f"State sqlite:{tmp_path}/state.db does not exist yet" in done.stdout and not (tmp_path / "state.db").exists()


def test_the_exploration_says_in_words_that_a_row_has_no_history(shop, tmp_path):
    for number, key in enumerate(({"id": "7", "part": "a"}, {"name": "Bed"})):
        papermill.execute_notebook(
            NOTEBOOK, tmp_path / f"{number}.ipynb", {"folder": str(shop), "table": "shop.item", "key": key}, progress_bar=False
        )
        cells = json.loads((tmp_path / f"{number}.ipynb").read_text())["cells"]
        printed = ["".join(out.get("text", [])) or "".join(out["data"].get("text/plain", [])) for cell in cells for out in cell.get("outputs", [])]
        assert "[]" not in printed and any(
            words in " ".join(printed) for words in ("No file that was read contains this key.", "No row ever had these values.")
        ), printed


def test_rows_of_a_table_without_a_key_are_each_beside_their_own_row_of_the_lake(tmp_path, spark):
    w = World(tmp_path, spark, {"id": "int", "name": "string"}).set(insert_only=True)
    w.load([(1, "a"), (1, "a"), (2, "b")])
    w.changes(1, [("I", 1, "c"), ("I", 3, "d")])
    ask = lambda *more: CliRunner().invoke(
        app,
        ["history", "shop.item", "--key", "id=1", *more, "--folder", str(tmp_path), "--landing", str(w.landing), "--lake", str(tmp_path / "lake")],
    )
    (before,) = json.loads(ask("--json").stdout)["lives"]  # nothing is loaded yet
    assert [(step["meant"], step["state"]["name"]) for step in before["steps"]] == [("inserted", "a"), ("inserted", "a"), ("inserted", "c")]
    assert w.go().verdict == "ok"
    done, told = ask(), json.loads(ask("--json").stdout)
    assert done.exit_code == 0, done.stdout
    assert "shop.item has no key: each row that the files insert is a row of its own" in " ".join(done.stdout.split())
    assert "The lake's 3 such rows (commit" in " ".join(done.stdout.split())
    (life,) = told["lives"]
    assert [(step["meant"], step["state"]["name"]) for step in life["steps"]] == [("inserted", "a"), ("inserted", "a"), ("inserted", "c")]
    assert (life["lake"]["verdict"], len(life["lake"]["rows"])) == ("agrees", 3)
    (file,) = [path for path in w.folder.rglob("*.parquet") if "c" in pq.read_table(path)["name"].to_pylist()]
    rows = pq.read_table(file)
    pq.write_table(
        rows.set_column(rows.schema.get_field_index("name"), "name", pa.array(["x" if v == "c" else v for v in rows["name"].to_pylist()])), file
    )
    assert ask().exit_code == 3 and "differs: name." in " ".join(ask().stdout.split())
