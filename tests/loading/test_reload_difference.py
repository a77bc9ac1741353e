"A new load of a table that is set to `--reload difference`: only what differs is written, and told to those who follow."

from __future__ import annotations

import json
import random
from datetime import datetime, timezone
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.history.changelog import open_changelog
from dmscdc.history.feed import feed
from dmscdc.service.config import write_config
from dmscdc.state.position import Position, reload_folder
from readers import FORMAT
from world import World

pytestmark = pytest.mark.test

ITEM = {"id": "int", "name": "string", "share": "double", "price": "decimal(10,2)", "at": "timestamp"}
NAMES = list(ITEM)
DAWN, FIRST, LATER = (datetime(2018, 12, 15, hour, 0, 3, tzinfo=timezone.utc) for hour in (9, 10, 12))


def drawn(luck: random.Random) -> tuple:
    "Values of a row."
    at = datetime(2018, 12, luck.randrange(1, 15), tzinfo=timezone.utc)
    return luck.choice(["lamp", "desk", "", None]), luck.choice([0.5, float("nan"), None]), luck.choice([1, 2, None]), luck.choice([at, None])


def typed(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def one(tmp_path, spark) -> World:
    "A table with a load and some changes, followed by a reader, and then loaded again."
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, format=FORMAT)
    return World(tmp_path, spark, ITEM)


def again(one: World, rows: list) -> None:
    "A new load set whose file may have the size of the old one, so a person says that it is new."
    one.load(rows, time=LATER)
    typed("table", "rewind", one.table, "--reload", "--supersede", *folder(one))


def folder(one: World) -> list[str]:
    return ["--folder", str(one.root)]


def rows_of(one: World) -> dict[int, tuple]:
    "The lake's rows by key."
    rows = one.lake_table.read(one.spark).where("Op <> 'D'").select(*NAMES).collect()
    return {row["id"]: shown(row[1:]) for row in rows}


def shown(values) -> tuple:
    return tuple(
        None if value is None else str(float(value) if i in (1, 2) else value.replace(tzinfo=None) if i == 3 else value)
        for i, value in enumerate(values)
    )


def delivered(one: World) -> list[dict]:
    "The rows of the next parts of the feed, in order."
    told = json.loads(typed("feed", one.table, "--out", str(one.root / "parts"), "--cursor", str(one.root / "cursor.json"), "--json", *folder(one)))
    return [row for part in told["parts"] for row in pq.read_table(part["path"]).to_pylist()]


def applied(had: dict, rows: list[dict]) -> dict:
    "What a reader has after these rows."
    for row in rows:
        assert row["_change_type"] != "reset"
        if row["_change_type"] in ("update_preimage", "delete"):
            assert had.pop(row["id"]) == shown([row[n] for n in NAMES[1:]])
        else:
            had[row["id"]] = shown([row[n] for n in NAMES[1:]])
    return had


@pytest.mark.parametrize("seed", range(3))
def test_the_table_is_the_load_and_a_reader_is_told_of_the_rows_that_differ(one, seed):
    luck = random.Random(seed)
    before = {key: drawn(luck) for key in range(1, 30)}
    after = {key: row if luck.random() < 0.6 else drawn(luck) for key, row in before.items() if luck.random() < 0.9} | {
        key: drawn(luck) for key in range(40, 45)
    }
    one.load([(key, *row) for key, row in before.items()], time=DAWN).changes(1, [("D", 29, *before[29]), ("I", 50, *drawn(luck))], time=FIRST)
    typed("table", "set", one.table, "--key", "id", "--reload", "difference", "--format", FORMAT, *folder(one))
    assert one.go().verdict == "ok"
    reader = {row["id"]: shown([row[n] for n in NAMES[1:]]) for row in delivered(one) if row["_change_type"] == "insert"}
    had, wrote = rows_of(one), {row["id"]: row["_cdc_file"] for row in one.lake_table.read(one.spark).collect()}
    assert reader == had
    position = Position.from_json(one.lake_table.head().position)
    one.load([(key, *row) for key, row in after.items()], time=LATER)
    done = one.go()
    assert done.verdict == "ok", done.words
    wanted = {key: shown(row) for key, row in after.items()}
    assert rows_of(one) == wanted
    new, gone, other = wanted.keys() - had, had.keys() - wanted, {key for key in wanted.keys() & had if wanted[key] != had[key]}
    assert {name: done.rows[name] for name in ("read", "inserted", "updated", "deleted", "unchanged")} == {
        "read": len(after),
        "inserted": len(new),
        "updated": len(other),
        "deleted": len(gone),
        "unchanged": len(after) - len(new) - len(other),
    }
    now = {row["id"]: row["_cdc_file"] for row in one.lake_table.read(one.spark).collect()}
    assert {key for key, file in now.items() if file == wrote.get(key)} == wanted.keys() - new - other  # nobody has touched these
    past = open_changelog(
        str(one.landing), one.ref, position=Position.from_json(one.lake_table.head().position), reloads=reload_folder(str(one.root / "lake"), one.ref)
    )
    by_spark = [row.asDict() for row in feed(one.spark, past, ["id"], position).rows.collect()]
    one.changes("20181215-130000000", [("U", 40, *drawn(luck))], time=LATER.replace(hour=13))
    assert one.go().verdict == "ok"
    told = delivered(one)
    assert applied(dict(reader), by_spark) == wanted and applied(reader, told) == rows_of(one)
    assert len(told) == len(new) + len(gone) + 2 * len(other) + 2


def test_a_row_of_the_reloaded_table_is_explained_and_agrees(one):
    one.load([(1, "lamp", 1.0, 2, None), (2, "desk", 1.0, 2, None)], time=DAWN)
    one.set(key="id", reload="difference").go()
    again(one, [(1, "lamp", 1.0, 2, None), (2, "sofa", 1.0, 2, None)])
    assert one.go().rows["unchanged"] == 1
    for key in (1, 2):
        life = json.loads(typed("history", one.table, "--key", f"id={key}", "--json", *folder(one)))["lives"][0]
        assert life["lake"]["verdict"] == "agrees" or FORMAT != "parquet", life


def test_a_reader_that_stands_elsewhere_starts_again(one):
    one.load([(1, "lamp", 1.0, 2, None)], time=DAWN)
    one.set(key="id", reload="difference").go()
    delivered(one)
    one.changes(1, [("U", 1, "desk", 1.0, 2, None)], time=FIRST)
    one.go()
    again(one, [(1, "sofa", 1.0, 2, None)])
    one.go()
    assert [row["_change_type"] for row in delivered(one)] == ["reset", "insert"]


@pytest.mark.parametrize("why", ["a person asks", "a column is new", "it is set to replace"])
def test_the_table_is_replaced_where_nothing_can_be_compared_or_a_person_doubts_it(one, why):
    rows = [(1, "lamp", 1.0, 2, None), (2, "desk", 1.0, 2, None)]
    one.load(rows, time=DAWN).set(key="id", reload="replace" if why == "it is set to replace" else "difference").go()
    if why == "a person asks":
        typed("table", "rewind", one.table, "--reload", *folder(one))
    elif why == "a column is new":
        one.load([(*row, 1) for row in rows], {**ITEM, "more": "int"}, time=LATER)
    else:
        again(one, rows)
    assert one.go().rows["inserted"] == 2


def test_a_load_that_changes_nothing_writes_no_row(one):
    rows = [(key, "lamp", 1.0, 2, None) for key in range(5)]
    one.load(rows, time=DAWN).set(key="id", reload="difference").go()
    files = one.files()
    again(one, rows)
    done = one.go()
    assert (done.verdict, done.rows["unchanged"], done.rows["inserted"]) == ("ok", 5, 0), done.words
    assert "only rows that differ are written (--reload difference)" in done.plan["sentence"]
    assert one.files() == files or FORMAT != "parquet"
    assert one.idle().verdict == "nothing" and not list(Path(reload_folder(str(one.root / "lake"), one.ref)).rglob("*.txt"))


def test_rows_that_were_marked_as_deleted_are_new_or_are_removed(one):
    row = lambda key, name: (key, name, 1.0, 2, None)  # noqa: E731
    one.load([row(1, "lamp"), row(2, "desk"), row(3, "tent")], time=DAWN).changes(1, [("D", *row(2, "desk")), ("D", *row(3, "tent"))], time=FIRST)
    one.set(key="id", reload="difference", delete="soft").go()
    reader = applied({}, [told for told in delivered(one) if told["_change_type"] != "reset"])
    again(one, [row(1, "lamp"), row(2, "desk"), row(4, "sofa")])
    assert one.go().verdict == "ok" and one.lake_table.head().rows == 3
    assert applied(reader, delivered(one)) == rows_of(one) and rows_of(one).keys() == {1, 2, 4}
