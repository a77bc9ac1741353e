"Questions about a table in trouble are answered in words, before any Spark is started."
from __future__ import annotations

import json

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dmscdc.bucket_landing import open_landing
from dmscdc.cli import app
from dmscdc.dms_writer import write_load
from dmscdc.files import TableRef
from dmscdc.keys import KeyIndex
from dmscdc.lake_row import rows_in
from dmscdc.position import Position
from dmscdc.schema import LakeDamaged, Refused
from dmscdc.scd2_table import weave_table
from dmscdc.state import open_state
from dmscdc.tables import PlainFile

T = TableRef("shop", "item")


def put(home, shape, rows):
    "A table of one load file, with its key, and a source to compare with."
    write_load(home / "landing", "shop.item", rows, shape)
    open_state(f"sqlite:{home / 'state.db'}").put_settings(T, key="id")
    (home / "source.db").touch()


@pytest.mark.parametrize("content", [b"", b"{", b'{"number": 1, "fi', b"\xff\xfe"])
@pytest.mark.parametrize("words", [("history", "shop.item", "--key", "id=1"), ("as-of", "shop.item"), ("as-of", "shop.item", "--commit", "1"), ("feed", "shop.item", "--out", "OUT"), ("scd2", "shop.item"),
                                   ("reconcile", "shop.item", "--source", "sqlite:SOURCE")], ids=lambda words: "-".join(words[::2]))
def test_a_cut_journal_entry_is_said_with_its_path_by_every_question(tmp_path, words, content):
    put(tmp_path, {"id": "int"}, [(1,)])
    entry = tmp_path / "lake/_dmscdc/shop/item/journal/000000000001.json"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(content)
    words = [word.replace("OUT", str(tmp_path / "out")).replace("SOURCE", str(tmp_path / "source.db")) for word in words]
    done = CliRunner().invoke(app, [*words, "--folder", str(tmp_path), "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake")])
    assert isinstance(done.exception, SystemExit) and done.exit_code == 1, done.exception
    assert f"{entry} is no entry of a journal of ours" in " ".join(done.stderr.split())


@pytest.mark.parametrize("name", ["valid_from", "valid_to", "is_current", "position", "position_to", "Is_Current", "POSITION"])
def test_a_column_whose_name_a_type_2_table_needs_is_refused_before_spark_is_started(tmp_path, name):
    put(tmp_path, {"id": "int", name: "string"}, [(1, "a")])
    with pytest.raises(Refused, match=f"shop.item: the source has a column {name}, a name that a type-2 table needs.*Rename it in the task's mapping"):
        weave_table("shop.item", str(tmp_path / "landing"), str(tmp_path / "lake"), f"sqlite:{tmp_path / 'state.db'}", landed=True, settle=0, spark=lambda: pytest.fail("Spark was started"))
    assert not (tmp_path / "lake").exists() or not list((tmp_path / "lake").rglob("*.parquet"))


def test_a_history_says_that_the_lake_is_lost_and_somebody_must_look(tmp_path):
    put(tmp_path, {"id": "int"}, [(1,)])
    ask = lambda *more: CliRunner().invoke(app, ["history", "shop.item", "--key", "id=1", *more, "--folder", str(tmp_path), "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake")])
    assert ask().exit_code == 0 and "The lake holds no commit of this table." in ask().stdout
    load = open_landing(str(tmp_path / "landing")).files(T).load
    open_state(f"sqlite:{tmp_path / 'state.db'}").save_position(T, Position(1, load), 2, 0)
    done, said = ask(), " ".join(ask().stdout.split())
    assert done.exit_code == 3 and said.startswith("shop.item: the state remembers commit 2 (load 1 (1 file), no changes yet), but the lake")
    assert "holds no commit of ours" in said and "`dmscdc table rewind shop.item --reload`" in said and "inserted" in said
    assert ask("--json").exit_code == 3 and json.loads(ask("--json").stdout)["words"][0].startswith("shop.item: the state remembers commit 2")


def test_a_damaged_file_of_the_lake_is_none_of_the_landing(tmp_path):
    (tmp_path / "part.parquet").write_bytes(b"PAR1" + b"\x07" * 90 + b"PAR1")
    with pytest.raises(LakeDamaged, match="the lake's file .*part.parquet.*damaged") as error:
        rows_in(PlainFile(str(tmp_path / "part.parquet"), {}, {}), {"id": pa.int32()}, {"id": 1}, KeyIndex(["id"]))
    assert "landing" not in str(error.value)
