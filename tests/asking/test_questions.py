"Changes, searches, blame and the table as of then at the command line, without Java, beside a database in a dictionary whose random life the files tell."

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dmscdc
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.main import app
from dmscdc.cli.questions import lake_notebook
from dmscdc.errors import BadKey
from dmscdc.landing.files import TableRef
from dmscdc.service.config import read_config, write_config
from dmscdc.state.registry import open_state
from world import closed

pytestmark = pytest.mark.quick

SHAPE = {"id": "int", "name": "string", "qty": "int"}


@dataclass
class Life:
    "What happened to the source, in order."

    states: list[dict[int, tuple]] = field(default_factory=list)  # after the load, and after each file
    changes: list[dict] = field(default_factory=list)  # of the change files, as the command is to name them
    wrote: dict[int, dict[str, str]] = field(default_factory=dict)  # of rows that are there: the file that gave each column its value
    had: dict[int, set[tuple]] = field(default_factory=dict)  # every row that a key ever had


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> tuple[Path, Life]:
    home, luck, life = tmp_path_factory.mktemp("questions"), random.Random(5), Life()
    draw = lambda: (luck.choice(["Sample", "Sampler", "plain", None]), luck.randrange(4))
    rows = {key: draw() for key in range(1, 6)}
    write_load(home / "landing", "shop.item", [(key, *row) for key, row in rows.items()], SHAPE)
    life.states.append(dict(rows))
    life.wrote = {key: dict.fromkeys(SHAPE, "LOAD00000001.parquet#1") for key in rows}
    life.had = {key: {row} for key, row in rows.items()}
    for number in range(1, 13):
        file, lines = f"{closed(number)}.parquet", []
        for _ in range(luck.randrange(1, 5)):
            key = luck.randrange(1, 9)
            op = luck.choice("UUD") if key in rows else "I"
            old, new = rows.get(key), draw() if op != "D" else None
            names = [name for name, was, now in zip(("name", "qty"), old or (), new or ()) if was != now] if old else ["id", "name", "qty"]
            life.changes.append(
                {
                    "key": key,
                    "op": op,
                    "file": file,
                    "row": len(lines),
                    "cells": [] if op == "D" else [n for n in names if op == "U" or n == "id" or new[n == "qty"] is not None],
                }
            )
            lines.append((op, key, *(new or old)))
            if op == "D":
                del rows[key], life.wrote[key]
            else:
                rows[key] = new
                life.had.setdefault(key, set()).add(new)
                life.wrote[key] = {**life.wrote.get(key, {}), **dict.fromkeys(SHAPE if op == "I" else names, file)}
        write_changes(home / "landing", "shop.item", lines, closed(number), SHAPE)
        life.states.append(dict(rows))
    write_config(home, landing="landing", lake="lake", quiet_period=0)
    open_state(f"sqlite:{home}/state.db").put_settings(TableRef("shop", "item"), key="id")
    return home, life


def asked(home: Path, *words: str):
    done = CliRunner().invoke(app, [*words, "--json", "--folder", str(home)])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_every_change_is_told_with_what_differs(told):
    home, life = told
    found = asked(home, "changes", "shop.item")
    assert [
        {**{n: one[n] for n in ("op", "file", "row")}, "key": one["key"]["id"], "cells": [c["column"] for c in one["cells"] if c["column"] != "id"]}
        for one in found
    ] == [{**one, "cells": [name for name in one["cells"] if name != "id"]} for one in life.changes]
    second = lambda number: f"2018-12-15T10:00:{number:02d}Z"  # in which the file was closed
    files = lambda first, last: [f"{closed(number)}.parquet" for number in range(first, last + 1)]
    since = asked(home, "changes", "shop.item", "--op", "D", "--since", second(4))
    assert since and since == [one for one in found if one["op"] == "D" and one["file"] in files(4, 12)]
    some = asked(home, "changes", "shop.item", "--between", second(4), second(8))
    assert some and some == [one for one in found if one["file"] in files(4, 8)]
    counted = asked(home, "changes", "shop.item", "--top", "keys")
    assert {int(one["key"]): one["changes"] for one in counted} == {
        key: sum(one["key"] == key for one in life.changes) for key in {one["key"] for one in life.changes}
    }
    qty = asked(home, "changes", "shop.item", "--column", "qty")
    assert [(one["file"], one["row"]) for one in qty] == [(one["file"], one["row"]) for one in life.changes if "qty" in one["cells"]] and len(qty) > 3


def test_rows_are_found_by_what_they_once_had(told):
    home, life = told
    now = life.states[-1]
    fits = {
        "name=Sample%": lambda row: (row[0] or "").startswith("Sample"),
        "name=Sample": lambda row: row[0] == "Sample",
        "qty=2": lambda row: row[1] == 2,
        "name = null": lambda row: row[0] is None,
        "qty >= 2": lambda row: row[1] >= 2,
        "name != Sample": lambda row: row[0] not in (None, "Sample"),
        "name!=Sample%": lambda row: row[0] == "plain",
    }
    for words, test in fits.items():
        found = {line["key"]: line["has it now"] for line in asked(home, "find", "shop.item", words)}
        expected = {
            f"id={key}": "the row is gone" if key not in now else "yes" if test(now[key]) else "no"
            for key, rows in life.had.items()
            if any(map(test, rows))
        }
        assert found == expected and len(set(found.values())) > 1, words


def test_conditions_choose_rows_of_a_table_as_of_then_and_the_rows_whose_lives_are_told(told):
    home, life = told
    table, file = dmscdc.open(home)["shop.item"], f"{closed(6)}.parquet"
    for words, test in (
        (["qty>1"], lambda row: row[1] > 1),
        (["qty<3", "name=Sample%"], lambda row: row[1] < 3 and (row[0] or "").startswith("Sample")),
        (["name=null"], lambda row: row[0] is None),
    ):
        fitting = {key for key, row in life.states[6].items() if test(row)}
        shown = asked(home, "as-of", "shop.item", *words, "--file", file)
        assert [int(row["id"]) for row in shown["first"]] == sorted(fitting) and fitting, words
        assert shown == asked(home, "as-of", "shop.item", "--file", file, *(word for one in words for word in ("--where", one)))
        assert set(table.as_of(file=file, where=words).to_arrow()["id"].to_pylist()) == fitting
        lives = asked(home, "history", "shop.item", *words)["lives"]
        assert lives == asked(home, "history", "shop.item", words[0], *(word for one in words[1:] for word in ("--where", one)))["lives"]
        ever = {key for key, rows in life.had.items() if any(map(test, rows))}
        assert {one["key"]["id"] for one in lives} == ever == {int(one["key"].split("=")[1]) for one in table.find(*words).to_arrow().to_pylist()}
        assert len(table.history(*words).lives) == len(ever)


def test_each_cell_names_the_file_that_gave_it_its_value(told):
    home, life = told
    for key in range(1, 9):
        lines = asked(home, "blame", "shop.item", f"id={key}")
        assert lines == asked(home, "blame", "shop.item", "--key", f"id={key}")
        history = asked(home, "history", "shop.item", f"id = {key}")
        assert history == asked(home, "history", "shop.item", "--key", f"id={key}") and [int(one["key"]["id"]) for one in history["lives"]] == [key]
        assert {line["column"]: line["file"] for line in lines} == life.wrote.get(key, {})


FILES = ["load", *(f"{closed(number)}.parquet" for number in range(1, 13))]


def without_java(home: Path, *commands: list[str]) -> None:
    script = "\n".join(f"app({[*words, '--folder', str(home)]!r}, standalone_mode=False)" for words in commands)
    done = subprocess.run(
        [sys.executable, "-c", f"from dmscdc.cli.main import app\n{script}"],
        capture_output=True,
        text=True,
        env={"JAVA_HOME": "/nowhere", "PATH": "/nowhere"},
    )
    assert done.returncode == 0, done.stderr


def test_the_table_after_every_file_is_the_source_s_without_java(told, tmp_path):
    home, life = told
    without_java(home, *(["as-of", "shop.item", "--file", file, "--out", str(tmp_path / str(n))] for n, file in enumerate(FILES)))
    for number, state in enumerate(life.states):
        rows = pq.read_table(tmp_path / str(number)).to_pylist()
        assert {row["id"]: (row["name"], row["qty"]) for row in rows} == state and len(rows) == len(state), FILES[number]


@pytest.mark.parametrize("way", ["--net", "--full"])
def test_who_follows_a_table_has_the_source_after_every_part_without_java(told, tmp_path, way):
    home, life = told
    ends = [0, 1, 4, 5, 9, 12]
    without_java(
        home,
        *(
            ["feed", "shop.item", way, "--out", str(tmp_path / "parts"), "--cursor", str(tmp_path / "cursor.json"), "--to", FILES[end]]
            for end in ends
        ),
    )
    has, parts = {}, sorted((tmp_path / "parts").iterdir())
    for end, part in zip(ends, parts, strict=True):
        for row in pq.read_table(part).to_pylist():
            kind, values = row["_change_type"], (row["name"], row["qty"])
            if kind == "reset":
                has.clear()
            elif kind in ("update_preimage", "delete"):
                assert has.pop(row["id"]) == values
            else:
                has[row["id"]] = values
        assert has == life.states[end], FILES[end]


def test_two_times_of_a_table_differ_in_what_the_source_differed(told):
    home, life = told
    table, (then, now) = dmscdc.open(home)["shop.item"], (life.states[3], life.states[9])
    found = table.compare(f"{closed(3)}.parquet", f"{closed(9)}.parquet").to_arrow().to_pylist()
    expected = {(key, "inserted", None) for key in now.keys() - then} | {(key, "deleted", None) for key in then.keys() - now}
    expected |= {(key, "updated", name) for key in then.keys() & now for name, a, b in zip(("name", "qty"), then[key], now[key]) if a != b}
    assert {(one["id"], one["what"], one["column"]) for one in found} == expected and len(found) == len(expected) > 4


def test_every_question_that_the_notebook_of_lab_offers_has_an_answer(told, tmp_path, monkeypatch):
    home, life = told
    monkeypatch.setattr("dmscdc.cli.questions._ask_all", lambda path: None)
    shutil.copytree(home, tmp_path / "lab")
    path = lake_notebook(read_config(tmp_path / "lab"), "shop.item")
    asked = [call for cell in json.loads(path.read_text())["cells"] for call in re.findall(r"`(table\..+?\))`", "".join(cell["source"]))]
    table = dmscdc.open(tmp_path / "lab")["shop.item"]
    for call in asked:
        assert len(eval(call, {"table": table})), call
    moment = next(call for call in asked if "as_of" in call)
    assert len(eval(moment, {"table": table})) == len(life.states[-1])


def test_a_key_may_be_typed_without_its_column(told):
    home, _ = told
    for command in ("history", "blame", "as-of"):
        said = [CliRunner().invoke(app, [command, "item", key, "--folder", str(home)]) for key in ("id=1", "1", '"id"=1')]
        assert {one.exit_code for one in said} == {0} and len({one.output for one in said}) == 1, said[1].output
    assert [row["id"] for row in asked(home, "as-of", "item", "1")["first"]] == ["1"]
    for command in ("history", "blame", "as-of"):
        said = CliRunner().invoke(app, [command, "item", "1", "2", "--folder", str(home)])
        assert said.exit_code == 2 and "its key is id, which needs 1 value; you gave 2" in said.output


def test_what_cannot_be_asked_is_refused_in_words(told):
    home, _ = told
    for words, why in (
        (["find", "shop.item", "size=1"], "there is no column size"),
        (["as-of", "shop.item", "--where", "size>1"], "no column size; it has"),
        (["find", "shop.item", "qty>many"], "'many' is not a whole number (int32)"),
        (["find", "shop.item", "qty"], "a condition is written price>=100"),
        (["history", "shop.item"], "shop.item 'COLUMN = VALUE'"),
        (["blame", "shop.item", "--key", "name=x"], "by its whole key: id="),
        (["changes", "shop.item", "--op", "X"], "I, U or D"),
        (["changes", "shop.item", "--since", "today", "--between", "yesterday", "today"], "not both"),
        (["changes", "shop.item", "--between", "today", "yesterday"], "the period ends before it begins"),
        (["history", "shop.item", "id=1", "--since", "2018-12-15", "--until", "2018-12-14"], "the period ends before it begins"),
        (["changes", "shop.item", "--top", "rows"], "--top is keys or columns"),
        (["changes", "shop.item", "--column", "size"], "no change carries the column size"),
    ):
        done = CliRunner().invoke(app, [*words, "--folder", str(home)])
        assert done.exit_code == 2 and why in " ".join(done.output.split()), done.output
    with pytest.raises(BadKey, match="name what a row had"):
        dmscdc.open(home)["shop.item"].find()
    for ask in (dmscdc.open(home)["shop.item"].history, dmscdc.open(home)["shop.item"].find):
        with pytest.raises(BadKey, match="there is no column size"):
            ask("size = 1")


def test_a_row_had_values_that_came_in_different_files_and_never_one_that_its_type_cannot_hold(tmp_path):
    "Updates that carry a part of the columns: what a row had is what the source had, not what stands side by side in a file."
    write_load(tmp_path / "landing", "shop.item", [(1, "Sample", 1), (2, "plain", 2), (3, "Sample", None)], SHAPE)
    write_changes(tmp_path / "landing", "shop.item", [("U", 1, 2), ("U", 3, 1)], closed(1), {"id": "int", "qty": "int"})
    write_changes(tmp_path / "landing", "shop.item", [("U", 2, "Sample"), ("U", 1, "plain")], closed(2), {"id": "int", "name": "string"})
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    open_state(f"sqlite:{tmp_path}/state.db").put_settings(TableRef("shop", "item"), key="id")
    found = {line["key"]: (line["has it now"], line["first in"]) for line in asked(tmp_path, "find", "shop.item", "name=Sample", "qty=2")}
    assert found == {"id=1": ("no", f"{closed(1)}.parquet"), "id=2": ("yes", f"{closed(2)}.parquet")}
    assert asked(tmp_path, "find", "shop.item", "qty=99999999999") == []


def test_a_name_with_signs_is_taken_whole_in_quotes_and_equal_rows_are_counted(tmp_path):
    shape = {"id": "int", "a=b": "int", "<b>note</b>": "string", "is `so`": "int"}
    rows = [(1, 9, None, 1), (2, 8, "x", 1), (2, 8, "x", 1), (3, 9, "y", 2)]
    write_load(tmp_path / "landing", "shop.item", rows, shape)
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    open_state(f"sqlite:{tmp_path}/state.db").put_settings(TableRef("shop", "item"), insert_only=True)
    for condition, fits in (
        ('"a=b" = 9', lambda row: row[1] == 9),
        ("`a=b`>=9", lambda row: row[1] >= 9),
        ('"<b>note</b>" = null', lambda row: row[2] is None),
        ("`<b>note</b>`!=x", lambda row: row[2] != "x" and row[2] is not None),
        ("`is ``so```=2", lambda row: row[3] == 2),
    ):
        found = asked(tmp_path, "find", "shop.item", condition)
        assert len(found) == len({row for row in rows if fits(row)}) > 0, condition
    (twice,) = asked(tmp_path, "find", "shop.item", '"a=b"=8')
    assert twice["has it now"] == f"yes, {rows.count(rows[1])} equal rows"


def test_what_an_answer_lacks_is_said_beside_it(tmp_path):
    write_load(tmp_path / "landing", "shop.item", [(1, "Sample", 1)], SHAPE)
    write_changes(tmp_path / "landing", "shop.item", [("U", 1, "plain", 1), (None, 1, "Sample", 7)], closed(1), SHAPE)
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    open_state(f"sqlite:{tmp_path}/state.db").put_settings(TableRef("shop", "item"), key="id")
    for words in (["changes", "shop.item"], ["find", "shop.item", "name=Sample"]):
        done = CliRunner().invoke(app, [*words, "--folder", str(tmp_path)])
        assert "not applied: 1 row without a known Op" in done.stdout, done.output
        assert len(asked(tmp_path, *words)) == 1
    table = dmscdc.open(tmp_path)["shop.item"]
    assert "without a known Op" in repr(table.changes()) and "without a known Op" in table.find(qty=1)._repr_html_()
