"Key or partition set otherwise than the lake was written: `table set`, `plan`, `pass` and `status` say so alike, without Spark, and nothing but a reload is done."

from __future__ import annotations

import json
import shlex
import time

import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.main import app
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.lake.parquet.transaction_log import commit
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.runs.report import commands_in
from dmscdc.service.config import write_config
from dmscdc.state.position import Position
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.test

T = TableRef("shop", "t")
COLUMNS = {"a": "int", "b": "int"}
RELOAD = "no changes are applied until you reload: `dmscdc table rewind shop.t --reload`"


class House:
    "A table of one row, whose lake a commit without files says to hold, and the commands typed there."

    def __init__(self, home, key: str, partition: str, load: bool, rows: int = 1):
        self.home, self.state = home, open_state(f"sqlite:{home / 'state.db'}")
        write_config(home, landing="landing", lake="lake", quiet_period=0)
        if load:
            write_load(home / "landing", "shop.t", [(1, 1)], COLUMNS)
        else:
            write_changes(home / "landing", "shop.t", [("I", 1, 1)], "20181215-100001000", COLUMNS)
        listing = FolderLanding(home / "landing").files(T)
        position = Position(
            load, listing.load, *([listing.changes[0].path, (listing.changes[0].identity,)] if not load else []), listed_at=time.time()
        )
        facts = {
            "position": position.to_json(),
            "run": "test",
            "schema": [["a", "int"], ["b", "int"]],
            "rows": rows,
            "at": "2018-12-15T10:00:00Z",
            "key": key.split(",") if key else [],
            "partition": [partition] if partition else [],
        }
        commit(ParquetTable(str(home / "lake"), T).transaction_log, None, "ab", [], [], facts)
        self.state.put_settings(T, key=key, insert_only=not key, partition=partition)
        self.state.save_position(T, position, 1, 0)

    def typed(self, *words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words, "--folder", str(self.home)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, " ".join(done.output.split())

    def set(self, *words: str) -> str:
        code, said = self.typed("table", "set", "shop.t", *words)
        assert code == 0, said
        return said

    def row(self) -> dict:
        return json.loads(self.typed("status", "--json")[1])[0]


CASES = {  # the lake's key and partition, what is set, and what is said of it
    "a key at last": ("", "", ("--key", "a"), "the key is now a, but the lake table was written without one"),
    "another key": ("a", "", ("--key", "a,b"), "the key is now a,b, but the lake table was written with a"),
    "no key any more": ("a", "", ("--insert-only",), "the key is now none, but the lake table was written with a"),
    "a partition": ("a", "", ("--partition", "b"), "the partition is now b, but the lake table was written without one"),
    "no partition any more": ("a", "b", ("--partition", ""), "the partition is now none, but the lake table was written with b"),
    "both": (
        "a",
        "b",
        ("--key", "b", "--partition", "a"),
        "the key is now b, but the lake table was written with a; the partition is now a, but the lake table was written with b",
    ),
}


@pytest.mark.parametrize("changes", [False, True], ids=["idle", "a change file waits"])
@pytest.mark.parametrize("key, partition, words, says", CASES.values(), ids=CASES)
def test_it_is_said_at_once_and_by_plan_pass_and_status_until_a_reload_is_asked_for(tmp_path, key, partition, words, says, changes):
    house = House(tmp_path, key, partition, load=True)
    if changes:
        write_changes(tmp_path / "landing", "shop.t", [("I", 2, 2)], "20181215-100002000", COLUMNS)
    assert house.typed("plan")[0] == 0 and house.typed("status")[0] == 0
    says = f"{says}; {RELOAD}"
    assert says[0].upper() + says[1:] in house.set(*words)
    for command in ("plan", "pass", "status"):
        code, said = house.typed(command)
        assert code == 3 and "attention" in said.lower(), (command, said)
        if command != "plan":
            assert says in said, (command, said)  # plan has it in a narrow column
    row = house.row()
    assert (
        (row["verdict"], row["commit"]) == ("attention", 1)
        and says in row["words"]
        and commands_in(row["words"]) == ["dmscdc table rewind shop.t --reload"]
    )
    assert ParquetTable(str(tmp_path / "lake"), T).head().number == 1
    assert house.typed("table", "rewind", "shop.t", "--reload")[0] == 0
    row = house.row()
    assert (
        row["plan"] in ("initial", "both")
        and row["verdict"] == "waiting"
        and row["words"].startswith("asked to load the table again")
        and "replace the table by load 2" in row["sentence"]
    )


def test_setting_it_back_ends_it_and_an_empty_table_and_one_never_loaded_may_be_set_as_one_likes(tmp_path):
    house = House(tmp_path / "full", "a", "", load=True)
    assert (
        "lake table was written" in house.set("--key", "b")
        and "lake table was written" not in house.set("--key", "a")
        and house.row()["verdict"] == "nothing"
    )
    house = House(tmp_path / "empty", "a", "", load=True, rows=0)
    assert "lake table was written" not in house.set("--key", "b") and house.row()["verdict"] == "nothing"
    write_load(tmp_path / "full" / "landing", "shop.u", [(1, 1)], COLUMNS)
    done = CliRunner().invoke(app, ["table", "set", "shop.u", "--key", "b", "--folder", str(tmp_path / "full")])
    assert done.exit_code == 0 and "lake table was written" not in done.output


@pytest.mark.parametrize(
    "key, partition, words, back",
    [
        ("", "", ("--key", "a"), "--insert-only"),
        ("a", "", ("--insert-only",), "--key a"),
        ("a", "b", ("--partition", "a"), "--partition b"),
        ("a", "", ("--partition", "b"), "--partition ''"),
    ],
)
def test_without_load_files_the_way_is_back_and_it_works_as_written(tmp_path, key, partition, words, back):
    house = House(tmp_path, key, partition, load=False)
    assert house.set(*words).endswith(f"no changes are applied until a new full load, or until you set it back: `dmscdc table set shop.t {back}`")
    row = house.row()
    assert row["verdict"] == "attention" and commands_in(row["words"]) == [f"dmscdc table set shop.t {back}"]
    house.set(*shlex.split(back))
    assert house.row()["verdict"] == "nothing"


def test_a_lake_that_cannot_be_read_does_not_stand_in_the_way_of_a_setting(tmp_path):
    house = House(tmp_path, "a", "", load=True)
    entry = tmp_path / "lake/_dmscdc/shop/t/journal/000000000001.json"
    entry.write_text("{")
    assert house.set("--key", "b").startswith("shop.t: key b") and house.row()["verdict"] == "failed"
