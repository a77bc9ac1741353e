"""Files of transactions (`PreserveTransactions` with `CdcPath`): divided among their tables, and all tables at one transaction.

The oracle is the test's own replay of the transactions that it wrote, in plain Python."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from dmscdc.capture.settings import DmsSettings
from dmscdc.capture.writer import write_transactions
from dmscdc.errors import BadSetting
from dmscdc.landing.files import TableRef
from dmscdc.landing.transactions import Routed, route, transactions_from, waiting
from dmscdc.service.config import read_config
from dmscdc.service.passes import run_pass
from dmscdc.service.status import read_statuses
from dmscdc.state.registry import open_state
from seeds import seed_of
from world import World

pytestmark = pytest.mark.quick

PARENT, CHILD = {"id": "int", "name": "string"}, {"id": "int", "parent": "int", "note": "string"}
TEXTS = ["plain", "a,b", 'say "so"', "two\nlines", 'odd " one\nand "two" more', "", " blank ", "é", "U,parent,shop,7", '"', "x\r\ny"]
START = 1_544_868_191.0  # 2018-12-15 10:03:11


def name(number: int, suffix: str = "csv") -> str:
    return f"CDC_TXN-20181215{10 + number // 60:02}{number % 60:02}00000.{suffix}"


def write(landing: Path, number: int, rows: list[tuple], settings: DmsSettings = DmsSettings()) -> Path:
    return write_transactions(landing, "cdc", rows, name(number, "csv.gz" if settings.gzip else "csv"), settings, time=START + 60 * number)


class Source:
    "Two tables with a foreign key, and the rows of their transactions."

    def __init__(self, rng: random.Random):
        self.rng, self.parents, self.children, self.next = rng, {}, {}, 1

    def transaction(self) -> list[tuple]:
        rng, rows, kind = self.rng, [], self.rng.random()
        if kind < 0.5 or not self.parents:
            parent = self.new()
            self.parents[parent] = rng.choice(TEXTS)
            rows.append(("I", "parent", "shop", parent, self.parents[parent]))
            for _ in range(rng.randint(0, 3)):
                child = self.new()
                self.children[child] = (parent, rng.choice(TEXTS))
                rows.append(("I", "child", "shop", child, *self.children[child]))
        elif kind < 0.75:
            for child in rng.sample(sorted(self.children), min(len(self.children), 2)):
                self.children[child] = (rng.choice(sorted(self.parents)), rng.choice(TEXTS))
                rows.append(("U", "child", "shop", child, *self.children[child]))
        else:
            parent = rng.choice(sorted(self.parents))
            for child in [c for c, (of, _) in self.children.items() if of == parent]:
                rows.append(("D", "child", "shop", child, *self.children.pop(child)))
            rows.append(("D", "parent", "shop", parent, self.parents.pop(parent)))
        return rows

    def new(self) -> int:
        self.next += 1
        return self.next


@pytest.mark.parametrize("settings", [DmsSettings(), DmsSettings(gzip=True), DmsSettings(csv_delimiter=";")], ids=["plain", "gzip", "semicolons"])
def test_random_transactions_come_to_their_tables_in_order_with_no_byte_changed(tmp_path, settings, record_property):
    rng = random.Random(seed_of("HISTORY_SEED") + 1)
    source, wanted, rows = Source(rng), {}, 0
    setting = "cdc" if settings.csv_delimiter == "," else "cdc?delimiter=;"
    for number in range(40):
        file = [row for _ in range(rng.randint(1, 6)) for row in source.transaction()]
        write(tmp_path, number, file, settings)
        rows += len(file)
        for op, table, schema, *values in file:
            wanted.setdefault((table, number), []).append((op, *values))
        if rng.random() < 0.3:
            route(str(tmp_path), setting)
    assert route(str(tmp_path), setting).problems == () and waiting(str(tmp_path), setting) == ()
    found = {}
    for (table, number), expected in wanted.items():  # the same rows, written by the stand-in as files of one table
        write_transactions(tmp_path, "expected", expected, f"{table}-{number}.csv", settings)
        base = f"20181215-{10 + number // 60:02}{number % 60:02}00000.csv" + ".gz" * settings.gzip
        content = (tmp_path / "shop" / table / base).read_bytes()
        assert content == (tmp_path / f"expected/{table}-{number}.csv").read_bytes(), (table, number)
        assert (tmp_path / "shop" / table / base).stat().st_mtime == START + 60 * number
        found[table, number] = gzip.decompress(content) if settings.gzip else content
    assert len(found) == len(list(tmp_path.glob("shop/*/*.csv*"))) and rows > 200
    record_property("looked at", f"{rows} rows of {len(found)} files")


@pytest.mark.test
def test_after_every_pass_all_tables_are_at_one_transaction_and_no_foreign_key_dangles(spark, tmp_path):
    rng = random.Random(seed_of("HISTORY_SEED") + 2)
    source, number = Source(rng), 0
    parent = World(tmp_path, spark, PARENT, "shop.parent").set(key="id", columns=[*PARENT.items()])
    child = World(tmp_path, spark, CHILD, "shop.child").set(key="id", columns=[*CHILD.items()])
    for _ in range(6):
        for _ in range(rng.randint(1, 4)):
            number += 1
            write(tmp_path / "landing", number, [row for _ in range(rng.randint(1, 8)) for row in source.transaction()])
        assert route(str(tmp_path / "landing"), "cdc").problems == ()
        assert {world.go().verdict for world in (parent, child) if world.raw.exists()} <= {"ok", "nothing"}
        assert dict(parent.lake("id, name")) == source.parents
        assert {key: (of, note) for key, of, note in child.lake("id, parent, note")} == source.children
        assert {of for of, _ in source.children.values()} <= set(source.parents)
    assert number > 10


def test_a_file_is_divided_once_and_a_divided_file_that_dms_removed_stays_away(tmp_path):
    write(tmp_path, 1, [("I", "parent", "shop", 1, "a")])
    assert (route(str(tmp_path), "cdc").written, route(str(tmp_path), "cdc").files) == (1, 0)
    (file,) = (tmp_path / "shop/parent").iterdir()
    file.unlink()  # as a reload does
    write(tmp_path, 2, [("I", "parent", "shop", 2, "b")])
    assert route(str(tmp_path), "cdc").written == 1
    assert [one.name for one in (tmp_path / "shop/parent").iterdir()] == ["20181215-100200000.csv"]


@pytest.mark.parametrize("hours", [1, 30])
def test_a_late_file_is_divided_whenever_it_comes(tmp_path, hours):
    write(tmp_path, 60 * hours if hours < 14 else 59, [("I", "parent", "shop", 1, "a")])
    if hours == 30:
        os.rename(tmp_path / "cdc" / name(59), tmp_path / "cdc/CDC_TXN-20181216170000000.csv")
    route(str(tmp_path), "cdc")
    write(tmp_path, 1, [("I", "parent", "shop", 2, "late")])
    os.utime(tmp_path / "cdc" / name(1), (START + 200_000,) * 2)
    assert [file.name for file in waiting(str(tmp_path), "cdc")] == [name(1)]
    assert route(str(tmp_path), "cdc").written == 1 and waiting(str(tmp_path), "cdc") == ()


@pytest.mark.parametrize(
    "text, words",
    [
        ("I,parent\n", "row 1 does not begin with Op, table and schema"),
        ('I,parent,shop,1,"open\nD,parent,shop,1,\n', "the row that begins in line 1 has an open quote"),
        ("I,parent,shop,1,a\nI,../../x,shop,1,a\n", "row 2 names the table '../../x'"),
        ("I,a,shop,1\nI,,shop,1\n", "row 2 names the table ''"),
        ("I,a,_tmp,1\n", "schema '_tmp'"),
        (b"I,\xff,shop,1\n", "invalid start byte"),
    ],
)
def test_a_file_that_cannot_be_divided_is_named_writes_nothing_and_later_ones_wait(tmp_path, text, words):
    for number in (1, 2, 3):
        write(tmp_path, number, [("I", "parent", "shop", number, "a")])
    (tmp_path / "cdc" / name(2)).write_bytes(text if isinstance(text, bytes) else text.encode())
    (problem,) = route(str(tmp_path), "cdc").problems
    assert words in problem and f"cdc/{name(2)} cannot be divided" in problem and "later files wait" in problem
    assert sorted(path.name for path in tmp_path.rglob("2018*")) == ["20181215-100100000.csv"]
    assert [file.name for file in waiting(str(tmp_path), "cdc")] == [name(2), name(3)]
    (tmp_path / "cdc" / name(2)).unlink()
    assert route(str(tmp_path), "cdc").written == 1


def test_a_cut_gzip_file_waits(tmp_path):
    path = write(tmp_path, 1, [("I", "parent", "shop", n, "a") for n in range(100)], DmsSettings(gzip=True))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert "cannot be divided" in route(str(tmp_path), "cdc").problems[0] and not (tmp_path / "shop").exists()
    path.write_bytes(whole)
    assert route(str(tmp_path), "cdc").problems == ()


def test_a_process_that_dies_at_any_write_loses_and_doubles_nothing(tmp_path, monkeypatch):
    from dmscdc.landing import transactions as room

    rng = random.Random(seed_of("HISTORY_SEED") + 3)
    source, real = Source(rng), room._put
    for number in range(8):
        write(tmp_path / "whole", number, [row for _ in range(4) for row in source.transaction()])

    def of(folder: Path) -> dict:
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.csv")}

    before = of(tmp_path / "whole")
    route(str(tmp_path / "whole"), "cdc")
    wanted, deaths = of(tmp_path / "whole"), 0
    for death in range(100):
        there, left = tmp_path / f"try{death}", [death]
        for path, content in before.items():
            (there / path).parent.mkdir(parents=True, exist_ok=True)
            (there / path).write_bytes(content)

        def put(*told):
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            real(*told)

        monkeypatch.setattr(room, "_put", put)
        try:
            route(str(there), "cdc")
        except KeyboardInterrupt:
            deaths += 1
        else:
            break
        monkeypatch.setattr(room, "_put", real)
        assert route(str(there), "cdc").problems == () and of(there) == wanted
    assert deaths == len(wanted) - len(before) + 1 > 8


def test_another_file_under_the_name_is_not_written_over(tmp_path):
    write(tmp_path, 1, [("I", "parent", "shop", 1, "a")])
    (tmp_path / "shop/parent").mkdir(parents=True)
    (tmp_path / "shop/parent/20181215-100100000.csv").write_text("I,9,other\n")
    assert "shop.parent/20181215-100100000.csv is there already and has other rows" in route(str(tmp_path), "cdc").problems[0]
    assert (tmp_path / "shop/parent/20181215-100100000.csv").read_text() == "I,9,other\n"


def test_a_damaged_list_is_said_with_the_way_out(tmp_path):
    write(tmp_path, 1, [("I", "parent", "shop", 1, "a")])
    route(str(tmp_path), "cdc")
    (tmp_path / "cdc/_dmscdc.json").write_text('{"known"')
    with pytest.raises(Exception, match="Remove it, and the next pass divides all again"):
        route(str(tmp_path), "cdc")
    (tmp_path / "cdc/_dmscdc.json").unlink()
    assert (route(str(tmp_path), "cdc").files, json.loads((tmp_path / "cdc/_dmscdc.json").read_text())["known"]) == (1, {name(1): 18})


# ---- passes: the job is a stand-in without Spark


@pytest.fixture
def shop(tmp_path):
    "A landing with two tables in files of transactions, and a job that says ok for a table unless a file fails-TABLE lies beside it."
    cells = [
        new_code_cell(
            "\n".join(f'{one} = ""' for one in ("table", "landing", "lake", "state", "run", "owner"))
            + '\nformat = "parquet"\nquiet_period = 300.0\nfence = 0',
            metadata={"tags": ["parameters"]},
        ),
        new_code_cell(
            "from pathlib import Path\nfrom dmscdc.runs.log import record\nfails = Path(landing).parent.joinpath(f'fails-{table}').exists()\n"
            'record("verdict", {"verdict": "failed" if fails else "ok", "words": table, "command": ""})'
        ),
    ]
    nbformat.write(
        new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "language": "python", "display_name": "python3"}}),
        tmp_path / "job.ipynb",
    )
    config = read_config(tmp_path, landing=str(tmp_path / "landing"), lake="lake", quiet_period=0, transactions="cdc")
    write(tmp_path / "landing", 1, [("I", "parent", "shop", 1, "a"), ("I", "child", "shop", 1, 1, "b")])
    state = open_state(config.state, config.landing)
    for table, schema in (("shop.parent", PARENT), ("shop.child", CHILD)):
        state.put_settings(TableRef.parse(table), key="id", columns=[*schema.items()])
    return config, state


def run(config, **more):
    said = []
    done = run_pass(config, job=Path(config.folder, "job.ipynb"), classic=True, on_event=said.append, **more)
    return done, said


def test_a_pass_divides_first_and_says_so(shop):
    config, _ = shop
    done, said = run(config, consistent=True)
    assert said[0] == "1 file of transactions became 2 change files"
    assert done.verdict == "ok" and done.words == f"2 tables: 2 ok; all tables hold the transactions up to {name(1)}"


def test_a_consistent_pass_begins_no_table_if_one_cannot_go_on(shop):
    config, state = shop
    state.put_settings(TableRef.parse("shop.child"), key="")
    done, _ = run(config, consistent=True)
    assert (
        done.exit_code == 3
        and done.tables["shop.parent"].words.startswith("not begun, so that all tables stay at one transaction: shop.child (")
        and done.tables["shop.parent"].run is None
    )
    done, _ = run(config)
    assert done.tables["shop.parent"].verdict == "ok"  # without the flag, a table's trouble costs no other its run


def test_a_consistent_pass_in_which_a_table_fails_says_that_tables_differ(shop):
    config, _ = shop
    Path(config.folder, "fails-shop.child").touch()
    done, _ = run(config, consistent=True)
    assert (
        done.exit_code == 1 and "the tables are not all at one transaction: look at shop.child" in done.words and "all tables hold" not in done.words
    )


def test_a_file_that_cannot_be_divided_holds_a_consistent_pass_and_is_attention_in_another(shop):
    config, _ = shop
    Path(config.landing, "cdc", name(2)).write_text("rubbish\n")
    held, _ = run(config, consistent=True)
    assert held.exit_code == 3 and all(one.run is None for one in held.tables.values()) and "cannot be divided" in held.words
    done, _ = run(config)
    assert done.verdict == "attention" and done.tables["shop.parent"].verdict == "ok" and "cannot be divided" in done.words


def test_a_consistent_pass_needs_all_tables_and_the_setting(shop):
    config, _ = shop
    with pytest.raises(BadSetting, match="--only does not go with it"):
        run(config, consistent=True, only=["shop.child"])
    config = read_config(config.folder, landing=config.landing, lake="lake", quiet_period=0)
    with pytest.raises(BadSetting, match="the setting transactions"):
        run(config, consistent=True)


@pytest.mark.parametrize("folder", ["cdc", "my/cdc"])
def test_files_of_transactions_that_no_setting_names_are_said_by_every_command(tmp_path, folder):
    write(tmp_path / "landing", 1, [("I", "parent", "shop", 1, "a")])
    if "/" in folder:
        (tmp_path / "landing/my").mkdir()
        os.rename(tmp_path / "landing/cdc", tmp_path / "landing" / folder)
    (tmp_path / "landing/shop/parent").mkdir(parents=True)
    (tmp_path / "landing/shop/parent/LOAD00000001.csv").write_text("1,a\n")
    said = []
    for setting in ("", folder):
        read_statuses(
            read_config(tmp_path, landing=str(tmp_path / "landing"), lake="lake", quiet_period=0, transactions=setting), on_problem=said.append
        )
    told = []
    read_statuses(
        read_config(tmp_path, landing=str(tmp_path / "landing"), lake="lake", quiet_period=0, transactions=folder),
        on_problem=said.append,
        on_notice=told.append,
    )
    assert told[-1] == "1 file of transactions not divided among the tables yet; dmscdc pass does it"
    assert said == [f"{folder} holds files of transactions, which belong to no table until they are divided: dmscdc pass --transactions {folder}"]


@pytest.mark.parametrize("wrong", ["", "?", "/", "..", "a/../b", "cdc?delimiter=", "cdc?delimiter=ab", "cdc?quote=ab", "cdc?other=1", "cdc?"])
def test_a_wrong_setting_is_refused(wrong):
    if wrong == "cdc?":
        assert transactions_from("cdc") and pytest.raises(BadSetting, transactions_from, wrong)
    else:
        with pytest.raises(BadSetting, match="expected the CdcPath"):
            transactions_from(wrong)


def test_a_late_file_with_an_old_object_time_is_found_by_its_day_or_asked_about(tmp_path):
    first, second, last = (f"CDC_TXN-2024010{day}.csv" for day in ("5100000000", "5100100000", "7100000000"))
    for n, file in enumerate((first, second, last)):
        write_transactions(tmp_path, "cdc", [("I", "parent", "shop", n, "a")], file, time=START + n)
    assert route(str(tmp_path), "cdc").written == 3 and route(str(tmp_path), "cdc") == Routed(last=last)
    write_transactions(tmp_path, "cdc", [("I", "parent", "shop", 7, "late")], "CDC_TXN-20240105100200000.csv", time=START)  # as `cp -p` leaves it
    assert route(str(tmp_path), "cdc").written == 1 and (tmp_path / "shop/parent/20240105-100200000.csv").read_text() == "I,7,late\n"
    for minute in (3, 4):
        write_transactions(tmp_path, "cdc", [("I", "parent", "shop", minute, "late")], f"CDC_TXN-202401051{minute:02}000000.csv", time=START)
    routed = route(str(tmp_path), "cdc")
    assert routed.written == 0 and "cdc has other files of 20240105 than were divided" in routed.problems[0]
    for minute in (3, 4):
        os.utime(tmp_path / f"cdc/CDC_TXN-202401051{minute:02}000000.csv", (START + 99, START + 99))
    assert route(str(tmp_path), "cdc").written == 2 and route(str(tmp_path), "cdc").problems == ()


@pytest.mark.test
def test_a_file_that_has_grown_is_divided_again_and_its_tables_say_so(spark, tmp_path):
    parent = World(tmp_path, spark, PARENT, "shop.parent").set(key="id", columns=[*PARENT.items()])
    write(tmp_path / "landing", 1, [("I", "parent", "shop", 1, "a")])
    route(str(parent.landing), "cdc")
    assert parent.go().verdict == "ok"
    (parent.landing / "cdc" / name(1)).unlink()
    write(tmp_path / "landing", 1, [("I", "parent", "shop", 1, "a"), ("I", "parent", "shop", 2, "b")])
    (problem,) = route(str(parent.landing), "cdc").problems
    assert f"cdc/{name(1)} was" in problem and "its further rows are divided now" in problem
    found = parent.go()
    assert found.verdict == "attention" and "changed after it was applied: 20181215-100100000.csv" in " ".join(found.notes)
    parent.state.instruct(parent.ref, {"kind": "replay", "files": ["20181215-100100000.csv"]})
    parent.go()
    assert parent.lake("id") == [(1,), (2,)]
