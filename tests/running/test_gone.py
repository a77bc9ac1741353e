"""Files that are gone, tables that are paused or forgotten: nobody calls that `ok`. Real passes over CSV files that the test writes itself."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.service.config import write_config
from dmscdc.spark.server import serve
from world import closed, query

pytestmark = pytest.mark.proof

BAD, GOOD = f"{closed(1)}.csv", f"{closed(2)}.csv"


class Home:
    "A folder with one table, shop.item, and what the commands say in it."

    def __init__(self, root: Path):
        self.root, self.raw = root, root / "landing" / "shop" / "item"
        self.raw.mkdir(parents=True)
        write_config(root, landing="landing", lake="lake", quiet_period=0, workers=0)
        self.put("LOAD00000001.csv", "1,a\n2,b\n")
        (root / "item.sql").write_text("create table item (id int primary key, name varchar(9))")
        assert (
            self.said("table", "columns", "shop.item", "--ddl", str(root / "item.sql"), "--dialect", "mysql")[0]
            == self.said("table", "set", "shop.item", "--key", "id")[0]
            == 0
        )

    def put(self, name: str, text: str) -> None:
        (self.raw / name).write_text(text)

    def said(self, *words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words, "--folder", str(self.root)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, " ".join(done.output.split())

    def row(self) -> dict:
        return json.loads(CliRunner().invoke(app, ["status", "--json", "--folder", str(self.root)]).stdout)[0]

    def page(self) -> str:
        return " ".join(re.sub(r"<[^>]+>", " ", (self.root / "runs" / "index.html").read_text()).split())

    def lake(self) -> list[tuple]:
        return query(f"select id, name from read_parquet('{self.root}/lake/shop/item/**/*.parquet') order by id")


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory):
    "One Spark for the passes of this file."
    with serve(master="local[2]", log=tmp_path_factory.mktemp("server") / "spark.log") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_REMOTE", server.url)
        yield


@pytest.fixture
def home(tmp_path) -> Home:
    home = Home(tmp_path)
    assert home.said("pass")[0] == 0 and home.lake() == [(1, "a"), (2, "b")]
    return home


def test_a_refused_file_that_is_deleted_is_said_until_a_person_accepts_it(home):
    home.put(BAD, "I,three,c\n")
    code, said = home.said("pass")
    assert code == 1 and BAD in said
    (home.raw / BAD).unlink()
    words = rf"{BAD} is gone from the landing, refused at 20[\d-]+ [\d:]+ UTC and never applied\. Put a repaired file in the same place; or accept the table without it: dmscdc table accept shop.item"
    for command in ("plan", "status", "pass"):
        code, said = home.said(command)
        assert code == 3 and re.search(words, said), said
    home.put(GOOD, "I,4,d\n")  # the next run has nothing to refuse, and does not hide it
    for _ in ("one with work", "one without"):
        code, said = home.said("pass")
        assert code == 3 and BAD in said and "never applied" in said, said
    assert home.lake() == [(1, "a"), (2, "b"), (4, "d")]
    assert home.said("table", "accept", "shop.item")[0] == 0 and home.said("pass")[0] == 0
    assert home.said("pass") == (0, "1 table: 1 nothing") and BAD not in home.said("status")[1]


@pytest.mark.torture
def test_a_refused_file_that_comes_back_mended_is_no_loss(home):
    home.put(BAD, "I,three,c\n")
    assert home.said("pass")[0] == 1
    home.put(BAD, "I,3,c\n")
    code, said = home.said("pass")
    assert code == 0 and "never applied" not in said and home.lake() == [(1, "a"), (2, "b"), (3, "c")]


def test_a_paused_table_tells_what_waits_and_is_never_ok(home):
    assert home.said("table", "set", "shop.item", "--paused")[0] == 0
    assert home.said("pass")[1].endswith("1 table: 1 paused")
    home.put(GOOD, "I,4,d\n")
    waits = f"paused with work waiting: 1 change file ({GOOD})."
    code, said = home.said("pass")
    assert code == 0 and waits in said and "CSV files are read" not in said and said.endswith("1 table: 1 paused")  # as the load was
    assert f"1 change file ({GOOD})" in home.said("plan")[1]
    assert waits in home.said("status")[1] and "`dmscdc table set shop.item --active` resumes it" in home.said("status")[1]
    assert home.row()["verdict"] == "paused" and "1 table: 1 paused." in home.page() and waits in home.page()
    assert home.lake() == [(1, "a"), (2, "b")]


def test_a_folder_of_the_landing_that_is_gone_is_said_until_a_person_accepts_it(home):
    shutil.rmtree(home.raw)
    words = f"its folder {home.raw} no longer holds any file; it did at 20"
    for command in ("plan", "status", "pass", "doctor"):
        code, said = home.said(command)
        assert code == 3 and words in said and "`dmscdc table accept shop.item` says that this is right" in said, (command, said)
    assert home.said("table", "accept", "shop.item")[0] == 0 and home.said("pass")[0] == 0
    assert home.said("pass") == (0, "1 table: 1 nothing")
    home.raw.mkdir()
    home.put(GOOD, "I,4,d\n")  # a task that writes again
    assert home.said("pass")[0] == 0 and home.lake() == [(1, "a"), (2, "b"), (4, "d")]
    (home.raw / GOOD).unlink()
    assert home.said("pass")[0] == 3


def test_a_forgotten_table_waits_for_its_key_in_every_list(home):
    assert home.said("table", "forget", "shop.item")[0] == 0
    home.said("pass")
    assert home.row()["verdict"] == "waiting" and "1 table: 1 waiting." in home.page()


def test_a_table_that_waits_for_its_key_goes_with_its_folder(home):
    other = home.root / "landing" / "shop" / "passing"
    other.mkdir()
    (other / "LOAD00000001.csv").write_text("1,a\n")
    code, words = home.said("pass")
    assert code == 3 and "shop.passing" in words, words
    shutil.rmtree(other)
    code, words = home.said("pass")
    assert code == 0 and "shop.passing" not in words + home.said("status")[1] + home.said("plan")[1], words


def test_a_consistent_pass_brings_tables_to_one_transaction_also_where_it_lies_in_two_files(tmp_path):
    "An order and its lines are one transaction, which DMS has cut: nobody sees the order without its lines once both files are there."
    cdc, shop = (
        tmp_path / "landing" / "cdc",
        "create table orders (id int primary key, total int); create table line (id int primary key, orders int);",
    )
    cdc.mkdir(parents=True)
    (tmp_path / "shop.sql").write_text(shop)
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, workers=0, transactions="cdc")
    (cdc / "CDC_TXN-20181215100000000.csv").write_text("I,orders,shop,1,10\nI,line,shop,1,1\nI,orders,shop,2,20\nI,line,shop,21,2\n")
    (cdc / "CDC_TXN-20181215100100000.csv").write_text("I,line,shop,22,2\nU,orders,shop,1,11\nD,line,shop,1,1\nI,line,shop,11,1\n")

    def said(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words, "--folder", str(tmp_path)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, " ".join(done.stdout.split())

    said("pass")  # divides the files, so that there are tables
    assert said("table", "columns", "--ddl", str(tmp_path / "shop.sql"), "--dialect", "mysql")[0] == 0
    for table in ("orders", "line"):
        assert said("table", "set", f"shop.{table}", "--key", "id")[0] == 0
    assert said("pass", "--consistent") == (0, "2 tables: 2 ok; all tables hold the transactions up to CDC_TXN-20181215100100000.csv")
    orders, lines = (
        query(f"select * exclude (Op, _cdc_file, _cdc_row) from read_parquet('{tmp_path}/lake/shop/{table}/**/*.parquet') order by id")
        for table in ("orders", "line")
    )
    assert orders == [(1, 11), (2, 20)] and lines == [(11, 1), (21, 2), (22, 2)]
    said("table", "set", "shop.line", "--paused")
    (cdc / "CDC_TXN-20181215100200000.csv").write_text("I,orders,shop,3,30\nI,line,shop,31,3\n")
    assert said("pass", "--consistent")[1].endswith(
        "all tables but shop.line, paused with files that wait, hold the transactions up to CDC_TXN-20181215100200000.csv"
    )
