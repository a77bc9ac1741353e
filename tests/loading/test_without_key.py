"A table without a key: updates and deletes take one equal row, where the files say what a row was before; and rows that stand in the load and behind it."

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import DmsSettings
from dmscdc.cli.main import app
from dmscdc.service.config import write_config
from readers import FORMAT
from world import World, closed

pytestmark = pytest.mark.test

ITEM = {"item": "string", "price": "int"}
BOTH = {**ITEM, "BI_item": "string", "BI_price": "int"}
DAWN = datetime(2018, 12, 15, 9, tzinfo=timezone.utc)


def typed(one: World, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words, "--folder", str(one.root)])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


@pytest.fixture
def one(tmp_path, spark) -> World:
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, format=FORMAT)
    return World(tmp_path, spark, ITEM)


def lake(one: World) -> Counter:
    return Counter((row["item"], row["price"]) for row in one.lake_table.read(one.spark).collect())


@pytest.mark.parametrize("seed", range(2))
def test_the_lake_has_each_row_as_often_as_the_source(one, seed):
    luck, task = random.Random(seed), DmsSettings(sequence_column="seq" * seed)  # which has no before image
    drawn = lambda: (luck.choice(["lamp", "desk", None]), luck.choice([1, 2, None]))  # noqa: E731
    source = [drawn() for _ in range(8)]
    one.load(source, time=DAWN, settings=task)
    typed(one, "table", "set", "shop.item", "--insert-only", "--format", FORMAT)
    assert one.go().verdict == "ok"
    for file in range(1, 5):
        lines = []
        for _ in range(luck.randrange(1, 9)):
            op, place = luck.choice("IUUD") if source else "I", luck.randrange(len(source) or 1)
            new = drawn()
            lines.append((op, *(source[place] if op == "D" else new), *(source[place] if op == "U" else (None, None))))
            if op == "I":
                source.append(new)
            elif op == "U":
                source[place] = new
            else:
                del source[place]
        one.changes(file, lines, BOTH, settings=task)
        done = one.go()
        assert done.verdict == "ok", done.words
        assert lake(one) == Counter(source) and one.lake_table.head().rows == len(source)
        assert done.rows["left_out"] == 0
    life = json.loads(typed(one, "history", "shop.item", "--key", "item=lamp", "--key", "price=1", "--json"))["lives"]
    assert all(one_["lake"]["verdict"] != "differs" for one_ in life)


def test_a_column_of_the_source_without_a_before_image_is_not_taken_for_one_that_dms_adds(tmp_path, spark):
    one = World(tmp_path, spark, {**ITEM, "note": "string"}).set(insert_only=True).load([("lamp", 1, "mine"), ("lamp", 1, "yours")], time=DAWN)
    one.changes(
        1, [("D", "lamp", 1, "yours", None, None)], {**ITEM, "note": "string", **{name: kind for name, kind in BOTH.items() if name not in ITEM}}
    )
    done = one.go()
    assert done.verdict == "attention" and done.rows["left_out"] == 1 and len(one.lake("item")) == 2


def test_what_meets_no_equal_row_is_counted_and_changes_without_before_images_are_left_out_as_before(one):
    one.load([("lamp", 1)], time=DAWN).set(insert_only=True).go()
    one.changes(1, [("D", "desk", 9, None, None), ("U", "lamp", 2, "lamp", 1), ("U", "tent", 5, "sofa", 5)], BOTH)
    done = one.go()
    assert done.verdict == "attention" and "2 updates or deletes found no row equal to the one before the change" in done.words
    assert lake(one) == Counter([("lamp", 2), ("tent", 5)])
    one.state.instruct(one.ref, {"kind": "replay", "files": ["20181215-100001000.parquet"]})
    done = one.go()
    assert done.verdict == "refused" and "they cannot be applied again" in done.words and lake(one)["tent", 5] == 1
    typed(one, "table", "rewind", "shop.item", "--reload")
    one.go()
    assert lake(one) == Counter([("lamp", 2), ("tent", 5)])


def test_of_changes_from_before_the_load_that_meet_no_row_it_is_said_that_the_load_may_have_them(one):
    one.changes(1, [("U", "lamp", 2, "lamp", 1)], BOTH, time=DAWN - timedelta(minutes=9)).load([("lamp", 2)], time=DAWN).set(insert_only=True)
    done = one.go()
    assert done.verdict == "attention" and f"{closed(1)}.parquet was put before the load" in done.words and "BI_" not in done.words
    typed(one, "table", "rewind", "shop.item", "--reload", "--supersede")
    assert one.go().verdict == "ok" and lake(one) == Counter([("lamp", 2)])


def test_changes_that_only_a_key_could_apply_are_named_in_every_answer_and_nothing_says_that_all_is_well(one):
    one.load([("lamp", 1), ("desk", 2)], time=DAWN)
    one.changes(1, [("I", "tent", 3), ("D", "lamp", 1), ("U", "desk", 9)])
    one.set(insert_only=True)
    done = one.go()
    file = closed(1) + ".parquet"
    places = [
        {"file": file, "row": 2, "reason": "a delete, not applied, because the table has no key"},
        {"file": file, "row": 3, "reason": "an update, not applied, because the table has no key"},
    ]
    assert (done.verdict, list(done.not_applied), done.rows["left_out"]) == ("attention", places, 2)
    assert "2 updates and deletes were not applied, the first is row 2 of" in done.words and lake(one) == Counter(
        [("lamp", 1), ("desk", 2), ("tent", 3)]
    )
    told = json.loads(typed(one, "status", "--json", code=3))[0]
    assert (told["not_applied"], told["verdict"]) == (places, "attention")  # and stays so
    assert [(row["row"], json.loads(row["text"])["item"]) for row in json.loads(typed(one, "quarantine", "show", "shop.item", "--json"))] == [
        (1, "lamp"),
        (2, "desk"),
    ]
    for words in (["history", "shop.item", "--key", "item=lamp"], ["history", "shop.item", "--where", "item = lamp"]):
        said = typed(one, *words, code=3)
        assert "delete, not applied: the table has no key" in said and "matches the raw files" not in said and "differs: 1 update or delete" in said
    said = typed(one, "history", "shop.item", "--where", "item = tent")
    assert "matches the raw files" in said and "1 update was not applied, because the table has no key; an update does not say which row" in said
    for words in (["find", "shop.item", "item=lamp"], ["changes", "shop.item"], ["as-of", "shop.item"]):
        assert "not applied: 2 updates and deletes of a table without a key" in typed(one, *words)
    assert [
        (line["op"], line["meant"])
        for line in json.loads(CliRunner().invoke(app, ["changes", "shop.item", "--json", "--folder", str(one.root)]).stdout)
    ] == [("I", "inserted"), ("D", "delete, not applied: the table has no key"), ("U", "update, not applied: the table has no key")]
    typed(one, "quarantine", "drop", "shop.item")
    assert one.go().verdict == "nothing" and json.loads(typed(one, "status", "--json"))[0]["not_applied"] == []


def test_what_waits_may_repeat_rows_which_a_pass_leaves_out_and_what_is_accepted_is_not_undecided(one):
    task = DmsSettings(sequence_column="seq")
    numbers = lambda *many: [f"{2018121510:010d}{0:06d}{many_:019d}" for many_ in many]  # noqa: E731
    one.load([("lamp", 9)], time=DAWN, settings=task).set(insert_only=True)
    one.changes(1, [("I", "tent", 1)], settings=task, sequences=numbers(1), time=DAWN + timedelta(hours=1, minutes=1))
    assert one.go().verdict == "ok"
    one.changes(9, [("I", "tent", 1), ("I", "desk", 2)], settings=task, sequences=numbers(1, 2), time=DAWN + timedelta(hours=1, minutes=9))
    repeats = f"{closed(9)}.parquet is not applied yet. A pass leaves out what a resumed task has sent again; this answer shows it"
    assert all(repeats in typed(one, *words) for words in (["as-of", "shop.item"], ["changes", "shop.item"]))
    done = one.go()
    assert (done.verdict, done.rows["repeated"], lake(one)) == ("ok", 1, Counter([("lamp", 9), ("tent", 1), ("desk", 2)])), done.words
    assert "is not applied yet" not in typed(one, "as-of", "shop.item")

    one.load([("lamp", 9)], time=DAWN + timedelta(hours=5), settings=task)  # copied: the same names and sizes
    said = typed(one, "as-of", "shop.item")
    assert "shop.item: 1 row as of" in said and "nobody has decided" in said and "takes them for a new load" in said
    typed(one, "table", "accept", "shop.item")
    said = typed(one, "as-of", "shop.item")
    assert "shop.item: 3 rows as of" in said and "a person has decided (accept)" in said and "takes them for that load, which the lake has" in said
    typed(one, "table", "rewind", "shop.item", "--reload", "--supersede")
    assert "takes them for a new load" in typed(one, "as-of", "shop.item")


def test_inserts_shortly_after_the_load_that_repeat_its_rows_are_said_and_left_out_on_request(one):
    near, far = ((DAWN + timedelta(minutes=minutes)) for minutes in (5, 50))
    one.load([("lamp", 9), ("desk", None), ("desk", None)], time=DAWN).set(insert_only=True).go()
    one.changes(f"{near:%Y%m%d-%H%M%S}000", [("I", "lamp", 9), ("I", "lamp", 9), ("I", "desk", None), ("I", "tent", 1)], time=near)
    done = one.go()
    assert done.verdict == "attention" and "2 inserted rows are equal to rows of the load" in done.words and "--duplicates drop" in done.words
    assert lake(one) == Counter({("lamp", 9): 3, ("desk", None): 3, ("tent", 1): 1})
    one.changes(f"{far:%Y%m%d-%H%M%S}000", [("I", "lamp", 9)], time=far)
    assert one.go().verdict == "ok"  # that is no change during the load
    typed(one, "table", "set", "shop.item", "--duplicates", "drop")
    typed(one, "table", "rewind", "shop.item", "--reload")
    done, _ = one.go(), one.go()
    assert (done.verdict, done.rows["repeated"], done.rows["aside"]) == ("ok", 2, 0) and "2 left out as repeats" in done.words, done.words
    wanted = Counter({("lamp", 9): 3, ("desk", None): 2, ("tent", 1): 1})
    assert lake(one) == wanted
    shown = json.loads(CliRunner().invoke(app, ["quarantine", "show", "shop.item", "--json", "--folder", str(one.root)]).stdout)
    assert [row["reason"] for row in shown] == ["equal to a row of the load (--duplicates drop)"] * 2
    then = json.loads(typed(one, "as-of", "shop.item", "--json"))
    assert Counter((row["item"], None if row["price"] is None else int(row["price"])) for row in then["first"]) == wanted
