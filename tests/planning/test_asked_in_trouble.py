"Questions about a table in trouble are answered in words, before any Spark is started."
from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dmscdc.cli import app
from dmscdc.dms_writer import write_load
from dmscdc.files import TableRef
from dmscdc.schema import Refused
from dmscdc.scd2_table import weave_table
from dmscdc.state import open_state

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
