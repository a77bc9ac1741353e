"Sentences of commands count rightly, and offer nothing that the data does not show. Without Spark."

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.changes.quarantine import LeftOut, QuarantinedRow
from dmscdc.cli import ask as feed_commands
from dmscdc.cli.main import app
from dmscdc.errors import Refused
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.load import results
from dmscdc.load.keyless import note_left_out
from dmscdc.service.key_inference import suggest_key

pytestmark = pytest.mark.quick

NEVER = "--insert-only is for rows that are never updated or deleted"

CHANCE = "so few may differ by chance: see the source's primary key"


@pytest.mark.parametrize(
    "column, rows, words, command",
    [
        ("said", [("a",)], f"1 row was seen in LOAD00000001.parquet, too few to tell; {NEVER}", "--key COLUMN"),
        ("said", [], f"no row was seen in LOAD00000001.parquet, too few to tell; {NEVER}", "--key COLUMN"),
        ("id", [("a",)], "id, by its name: 1 row was seen in LOAD00000001.parquet, too few to tell", "--key id"),
        ("said", [("a",), ("a",)], f"nothing identifies the 2 rows seen of LOAD00000001.parquet; {NEVER}", "--insert-only"),
        ("said", [("a",), ("b",)], f"said: 2 of 2 values are different in LOAD00000001.parquet; {CHANCE}", "--key said"),
    ],
)
def test_a_key_is_proposed_from_two_rows_on_and_insert_only_never_from_fewer(tmp_path, column, rows, words, command):
    write_load(tmp_path, "shop.t", rows, {column: "string"})
    found = suggest_key(FolderLanding(tmp_path), TableRef("shop", "t"))
    assert (found.words, found.command) == (words, f"dmscdc table set shop.t {command}")


def test_columns_of_one_name_are_named_before_a_key_is_asked_for(tmp_path):
    write_load(tmp_path, "shop.t", [], {"x": "int"})
    pq.write_table(pa.Table.from_arrays([pa.array([1, 2])] * 3, ["x", "x", "id"]), tmp_path / "shop" / "t" / "LOAD00000001.parquet")
    with pytest.raises(Refused, match="LOAD00000001.parquet has 2 columns x; one was expected"):
        suggest_key(FolderLanding(tmp_path), TableRef("shop", "t"))


@pytest.mark.parametrize("before", [False, True])
def test_a_table_without_a_key_is_told_of_the_changes_that_lie_there_before_anybody_says_inserts_only(tmp_path, before):
    write_load(tmp_path, "shop.t", [("a",), ("a",)], {"said": "string"})
    more = {"BI_said": "string"} if before else {}
    write_changes(tmp_path, "shop.t", [("D", "a", *more), ("U", "b", *more), ("I", "c", *more)], "20181215-100001000", {"said": "string", **more})
    words = suggest_key(FolderLanding(tmp_path), TableRef("shop", "t")).words
    assert ("1 update and 1 delete lie in its first change files" in words) != before, words


@pytest.mark.parametrize(
    "number, words", [(1, "1 update or delete was"), (2, "2 updates and deletes were"), (1234, "1,234 updates and deletes were")]
)
def test_changes_left_out_are_counted_and_both_commands_are_named(number, words):
    first = QuarantinedRow("20181215-100001000.parquet", 1, "a delete")
    said = note_left_out(SimpleNamespace(key=(), table=TableRef("shop", "t")), LeftOut((first,), {first.path: number}))
    assert said.startswith(f"shop.t has no key: {words} not applied, the first is row 2 of {first.path}. ")
    assert all(
        f"`dmscdc {way}" in said
        for way in ("quarantine show shop.t`", "table set shop.t --key COLUMNS`", "table rewind shop.t --reload`", "quarantine drop shop.t`")
    )


@pytest.mark.parametrize(
    "rows, first, out, words",
    [(25, 20, "", "the first 20 of 25 rows; all: --out FOLDER"), (20, 20, "", "20 rows"), (1, 1, "", "1 row"), (25, 20, "new", "25 rows in new")],
)
def test_rows_that_are_not_shown_are_said_with_the_way_to_all(monkeypatch, capsys, rows, first, out, words):
    frame = SimpleNamespace(
        columns=["id"],
        schema=None,
        sparkSession=SimpleNamespace(read=SimpleNamespace(schema=lambda schema: SimpleNamespace(parquet=lambda url: frame))),
    )
    monkeypatch.setattr(feed_commands, "_shown", lambda answer, rows_, key: {"rows": rows, "first": [{"id": n} for n in range(first)]})
    monkeypatch.setattr(feed_commands, "_write_rows", lambda *what: None)
    feed_commands._show_answer(
        SimpleNamespace(key=(), table="shop.t"),
        SimpleNamespace(rows=frame, columns=["id"], engine="Spark", words=["position"], gaps=()),
        out,
        "",
        False,
    )
    assert f"\nshop.t: {words}\n" in "\n" + capsys.readouterr().out


def test_a_refusal_after_a_load_says_of_which_of_the_two_nothing_was_applied(monkeypatch):
    monkeypatch.setattr(results, "_inserted", lambda loads: "2 rows inserted")
    verdict, words = results.ended_by(
        Refused("shop.t: row 1: no key. 1 row like this in this batch; nothing was applied"),
        "shop.t",
        [SimpleNamespace(has_effect=True)],
        None,
        SimpleNamespace(number=1),
    )
    assert (verdict, words) == (
        "refused",
        "shop.t: row 1: no key. 1 row like this in this batch; nothing of the changes was applied. The load was applied first: 2 rows inserted (commit 1)",
    )


def test_capture_counts_its_files(tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("create table t (id integer primary key)"), db.execute("insert into t values (1)")
    done = CliRunner().invoke(app, ["capture", f"sqlite:{tmp_path / 'shop.db'}", "--landing", str(tmp_path / "raw")])
    assert done.exit_code == 0 and f"\n1 file written to {tmp_path / 'raw'}" in done.output.replace("\n" + str(tmp_path), " " + str(tmp_path)), (
        done.output
    )
