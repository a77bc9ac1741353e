"""Streams as real accounts have them, a test a kind of trouble, each through the loop that users run. The oracle is the items as a scan would give them, written here by hand or kept in a dictionary."""

from __future__ import annotations

import base64
import json
import random
import threading
import time
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import pytest
from test_stream import START, TABLE, Kinesis, lake, places, rows_of, run  # noqa: F401
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.errors import BadSetting, SourceUnreachable, Unreadable
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.state.registry import open_state
from dmscdc.stream.follow import follow
from dmscdc.stream.shards import read_window

pytestmark = pytest.mark.proof

DAY = 86_400_000_000  # microseconds


def record(op: str, key: dict, at: int = 0, new: dict | None = None, old: dict | None = None, **more: object) -> bytes:
    "A change of an item, so many microseconds after the start, as DynamoDB sends it to Kinesis; new and old are numbers or texts by name."
    typed = lambda item: {name: {"N" if isinstance(value, int) else "S": str(value)} for name, value in item.items()}
    images = {"NewImage": {**typed(key), **typed(new)}} if new is not None else {}
    images |= {"OldImage": {**typed(key), **typed(old)}} if old is not None else {}
    body = {"ApproximateCreationDateTime": START + at, "ApproximateCreationDateTimePrecision": "MICROSECOND", "Keys": typed(key), **images}
    return json.dumps({"eventName": op, "eventID": f"{op} {key} {at}", "tableName": "customer", **more, "dynamodb": body}).encode()


def put(kinesis: Kinesis, *records: bytes, shard: str = "shard-0") -> Kinesis:
    for data in records:
        kinesis.put(shard, data)
    return kinesis


def set_up(root: Path, **settings: object) -> None:
    open_state(f"sqlite:{root}/state.db", str(root / "landing")).put_settings(TableRef.parse(TABLE), **settings)


@pytest.fixture
def follow_it(spark, tmp_path, run):  # noqa: F811
    "As `run`, without a key."
    apply = lambda: process_table(TABLE, *places(tmp_path), quiet_period=0.0, spark=lambda: spark)
    return lambda kinesis, **more: follow("customers", TABLE, *places(tmp_path), apply, **{"drain": True, "client": kinesis, **more})


def test_the_key_is_what_records_name_another_one_is_refused_and_a_table_made_again_is_not_mixed_in(follow_it, tmp_path):
    items = [{"id": "1", "custName": name} for name in ("a", "b")]
    kinesis = put(Kinesis(1), *(record("INSERT", key, n, {"n": n}) for n, key in enumerate(items)))
    with pytest.raises(BadSetting, match="the key of the DynamoDB table is id,custName, not id. Leave --key out"):
        follow_it(kinesis, key=["id"])
    assert follow_it(kinesis).verdict == "ok" and rows_of(tmp_path, "id, custName, n") == [("1", "a", "0"), ("1", "b", "1")]
    put(kinesis, record("INSERT", {"id": "9"}, 5, {"n": 9}), record("MODIFY", items[0], 6, {"n": 7}, {"n": 0}))
    done = follow_it(kinesis)
    assert done.verdict == "attention" and "records (1) with the key id, like id=9, where the table's key is id,custName" in done.words
    assert rows_of(tmp_path, "id, custName, n") == [("1", "a", "7"), ("1", "b", "1")]


def test_items_from_before_the_stream_are_missed_until_they_are_loaded_beneath_at_any_time(follow_it, tmp_path):
    old = {f"k{n}": n for n in range(10)}
    kinesis = put(Kinesis(1), record("MODIFY", {"id": "k1"}, 10, {"n": 100}, {"n": 1}), record("REMOVE", {"id": "k2"}, 20, None, {"n": 2}))
    done = follow_it(kinesis)
    assert (
        done.verdict == "attention"
        and "changes of items that the table never had (2 items, like id=k1)" in done.words
        and "--load dynamodb:customer" in done.words
    )
    export = tmp_path / "export"
    export.mkdir()
    (export / "a.json").write_text("\n".join(json.dumps({"Item": {"id": {"S": key}, "n": {"N": str(n)}}}) for key, n in old.items()))
    put(kinesis, record("MODIFY", {"id": "k3"}, 30, {"n": 300}, {"n": 3}))
    assert follow_it(kinesis, load=str(export)).verdict == "ok"
    del old["k2"]
    assert lake(tmp_path) == sorted((key, str(n)) for key, n in {**old, "k1": 100, "k3": 300}.items())
    put(kinesis, record("REMOVE", {"id": "k5"}, 40, None, {"n": 5}))
    assert follow_it(kinesis, load=str(export)).verdict == "ok" and ("k5", "5") not in lake(tmp_path)


def test_a_load_that_cannot_be_read_changes_nothing_and_the_next_command_is_free(follow_it, tmp_path):
    kinesis = put(Kinesis(1), GOOD)
    with pytest.raises(BadSetting, match="has no files of a DynamoDB export"):
        follow_it(kinesis, key=["id"], load=str(tmp_path / "nothing"))
    with pytest.raises(BadSetting, match="a load needs the key, which DynamoDB does not give: name it, as in --key id"):
        follow_it(kinesis, load=str(tmp_path / "nothing"))
    assert follow_it(kinesis).verdict == "ok" and lake(tmp_path) == [("good", "1")]


@pytest.mark.parametrize("when", [5, 10])
def test_a_late_beginning_of_an_item_settles_what_was_said_of_it(follow_it, when):
    kinesis = put(Kinesis(1), record("MODIFY", {"id": "a"}, 10, {"n": 2}, {"n": 1}))
    assert "that the table never had (1 item, like id=a)" in follow_it(kinesis).words
    done = follow_it(put(kinesis, record("INSERT", {"id": "a"}, when, {"n": 1})))
    assert done.verdict == "ok", done.words


def exported(folder: Path, *items: dict) -> str:
    "An export to S3 of these items."
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.json").write_text("\n".join(json.dumps({"Item": item}) for item in items))
    return str(folder)


OLD = {"id": {"S": "old"}, "n": {"N": "5"}}


def test_a_load_of_an_empty_table_one_with_a_bad_line_and_one_of_two_exports_hold_nobody_up(follow_it, tmp_path):
    kinesis = put(Kinesis(1), GOOD)
    bad = exported(tmp_path / "bad", OLD, {"id": {"S": "b"}, "m": {}})
    with pytest.raises(Unreadable, match="the attribute m is '{}'"):
        follow_it(kinesis, key=["id"], load=bad)
    assert follow_it(kinesis).verdict == "ok" and lake(tmp_path) == [("good", "1")], "nobody has to bring it again"
    with pytest.raises(Unreadable, match="it has no 'id'"):
        follow_it(kinesis, key=["id"], load=exported(tmp_path / "keyless", OLD, {"n": {"N": "1"}}))
    exported(tmp_path / "two" / "01", OLD), exported(tmp_path / "two" / "02", OLD)
    with pytest.raises(BadSetting, match=r"holds 2 exports \(01, 02\)"):
        follow_it(kinesis, key=["id"], load=str(tmp_path / "two"))
    assert follow_it(kinesis, key=["id"], load=exported(tmp_path / "empty")).verdict == "ok" and lake(tmp_path) == [("good", "1")]
    assert follow_it(kinesis, load=exported(tmp_path / "right", OLD)).verdict == "ok" and lake(tmp_path) == [("good", "1"), ("old", "5")], (
        "another place is loaded anew"
    )


def test_an_attribute_that_differs_from_the_key_in_case_alone_does_not_take_its_column(follow_it, tmp_path):
    follow_it(put(Kinesis(1), GOOD), key=["id"], load=exported(tmp_path / "export", {"ID": {"S": "not me"}, **OLD}))
    assert rows_of(tmp_path, "id, n, _rest") == [("good", "1", None), ("old", "5", '{"ID": "not me"}')]


def test_what_an_export_of_before_the_stream_cannot_have_is_said(follow_it, tmp_path):
    kinesis = put(Kinesis(1), record("MODIFY", {"id": "q"}, 10, {"n": 2}, {"n": 1}), record("REMOVE", {"id": "gone"}, 11, None, {"n": 1}))
    done = follow_it(kinesis, key=["id"], load=exported(tmp_path / "export", OLD))
    assert done.verdict == "attention" and "that the table never had (1 item, like id=q)" in done.words and "does not have them either" in done.words


def test_a_change_that_is_missing_between_two_others_is_said_until_it_comes_or_the_table_is_loaded(follow_it, tmp_path, monkeypatch):
    a, b = {"id": "a"}, {"id": "b"}
    kinesis = put(Kinesis(1), *(record("INSERT", key, n, {"n": n}) for n, key in enumerate([a, b])))
    assert follow_it(kinesis).verdict == "ok"
    missing = "changes before which another is missing"
    assert follow_it(put(kinesis, record("MODIFY", a, 20, {"n": 7}, {"n": 6}))).verdict == "ok", "it may still come with the next window"
    done = follow_it(put(kinesis, record("REMOVE", b, 21, None, {"n": 1}), record("INSERT", b, 22, {"n": 1})))
    assert done.verdict == "attention" and f"{missing} (1, like that of id=a)" in done.words and lake(tmp_path) == [("a", "7"), ("b", "1")]
    done = follow_it(put(kinesis, record("MODIFY", a, 10, {"n": 6}, {"n": 0}), record("MODIFY", a, 30, {"n": 8}, {"n": 7})))
    assert done.verdict == "ok" and lake(tmp_path) == [("a", "8"), ("b", "1")]
    follow_it(put(kinesis, record("INSERT", a, 40, {"n": 9}), record("REMOVE", a, 50, None, {"n": 9})))
    again = follow_it(put(kinesis, record("INSERT", {"id": "z"}, 60, {"n": 0})))
    assert again.verdict == "attention" and f"{missing} (1, like that of id=a)" in again.words, "the table was made again, and b is not in it"
    monkeypatch.setattr("dmscdc.stream.follow.items_of", lambda place: iter([{"id": {"S": "c"}, "n": {"N": "3"}}]))
    put(kinesis, record("MODIFY", {"id": "c"}, 3650 * DAY // 100, {"n": 4}, {"n": 3}))
    done = follow_it(kinesis, load="dynamodb:customer")
    assert done.verdict == "ok" and lake(tmp_path) == [("c", "4")], done.words


def test_an_attribute_that_an_item_has_no_more_does_not_come_back_with_a_late_record_or_a_load(follow_it, tmp_path):
    a, b = {"id": "a"}, {"id": "b"}
    kinesis = put(
        Kinesis(1),
        record("INSERT", a, 10, {"n": 1}),
        record("MODIFY", a, 30, {"n": 2}, {"n": 1, "q": 5}),
        record("MODIFY", b, 31, {"n": 2}, {"n": 1, "r": 1}),
    )
    follow_it(kinesis)
    done = follow_it(
        put(kinesis, record("MODIFY", a, 20, {"n": 1, "q": 5}, {"n": 1})),
        load=exported(tmp_path / "export", {"id": {"S": "b"}, "n": {"N": "1"}, "r": {"N": "1"}}),
    )
    assert (
        done.verdict == "ok" and "renam" not in done.words and rows_of(tmp_path, "id, n, q, r") == [("a", "2", None, None), ("b", "2", None, None)]
    ), done.words
    asked = CliRunner().invoke(
        app, ["as-of", TABLE, "--json", *(f"--{name}={place}" for name, place in zip(("landing", "lake", "state"), places(tmp_path)))]
    )
    assert [(row["id"], row["n"], row["q"], row["r"]) for row in json.loads(asked.stdout)["first"]] == [
        ("a", "2", None, None),
        ("b", "2", None, None),
    ]


@pytest.mark.parametrize(
    "first, late",
    [
        (record("MODIFY", {"id": "a"}, 20, {"n": 3}, {"n": 2}), record("MODIFY", {"id": "a"}, 10, {"n": 2}, {"n": 1})),
        (record("INSERT", {"id": "a"}, 20, {"n": 3}), record("REMOVE", {"id": "a"}, 10, None, {"n": 1})),
        (
            record("INSERT", {"id": "a"}, 5, {"n": 1}) + b"\n" + record("MODIFY", {"id": "a"}, 20, {"n": 3}, {"n": 1}),
            record("MODIFY", {"id": "a"}, 10, {"n": 2}, {"n": 1}),
        ),
    ],
    ids=["changed", "removed", "leads elsewhere"],
)
def test_a_late_change_that_nothing_leads_to_or_that_leads_to_nothing_settles_nothing(follow_it, first, late):
    kinesis = put(Kinesis(1), *first.split(b"\n"))
    follow_it(kinesis)
    follow_it(put(kinesis, late))
    done = follow_it(put(kinesis, record("INSERT", {"id": "z"}, 60, {"n": 0})))
    assert done.verdict == "attention" and "like id=a" in done.words or "like that of id=a" in done.words, done.words


def test_changes_after_a_scan_are_made_on_what_it_has_and_one_that_is_not_is_said_and_mended(follow_it, tmp_path, monkeypatch):
    a, later = {"id": "a"}, round(time.time() * 1e6) - START + DAY
    kinesis, item = put(Kinesis(1), record("INSERT", a, 0, {"n": 1})), {"id": {"S": "a"}, "n": {"N": "2"}}
    assert follow_it(kinesis).verdict == "ok"
    monkeypatch.setattr("dmscdc.stream.follow.items_of", lambda place: iter([item, {"n": {"N": "1"}}]))
    with pytest.raises(Unreadable, match="it has no 'id'"):
        follow_it(kinesis, load="dynamodb:customer")
    assert follow_it(put(kinesis, record("MODIFY", a, 5, {"n": 6}, {"n": 1}))).verdict == "ok", (
        "a scan that came to nothing is forgotten, and what was known is not"
    )
    monkeypatch.setattr("dmscdc.stream.follow.items_of", lambda place: iter([item]))
    follow_it(put(kinesis, record("MODIFY", a, 9, {"n": 8}, {"n": 7})))
    follow_it(put(kinesis, record("INSERT", {"id": "z"}, 10, {"n": 0})))
    assert follow_it(kinesis, load="dynamodb:customer").verdict == "ok" and lake(tmp_path) == [("a", "2")]
    moment = [record("MODIFY", a, later, {"n": new}, {"n": old}, eventID=str(new)) for new, old in ((2, 1), (1, 2))]
    assert follow_it(put(kinesis, *moment)).verdict == "ok" and lake(tmp_path) == [("a", "2")], (
        "2, 1, 2: what was known before the scan counts no more"
    )
    follow_it(put(kinesis, record("MODIFY", a, later + 5, {"n": 9}, {"n": 6})))
    assert "like that of id=a" in follow_it(put(kinesis, record("INSERT", {"id": "y"}, later + 6, {"n": 0}))).words
    done = follow_it(kinesis, load="dynamodb:customer")
    assert done.verdict == "ok" and lake(tmp_path) == [("a", "2")], done.words


def test_of_more_gaps_than_are_named_each_is_settled_by_its_late_record(follow_it, monkeypatch):
    monkeypatch.setattr("dmscdc.stream.stage._NAMED", 3)
    keys, kinesis = [{"id": str(n)} for n in range(8)], Kinesis(1)
    follow_it(put(kinesis, *(record("INSERT", key, 1, {"n": 1}) for key in keys)))
    assert follow_it(put(kinesis, *(record("MODIFY", key, 20, {"n": 3}, {"n": 2}) for key in keys))).verdict == "ok"
    assert "another is missing (8, like that of id=0)" in follow_it(put(kinesis, record("INSERT", {"id": "z"}, 30, {"n": 0}))).words
    for half in keys[:4], keys[4:]:
        done = follow_it(put(kinesis, *(record("MODIFY", key, 10, {"n": 2}, {"n": 1}) for key in half)))
    assert follow_it(put(kinesis, record("INSERT", {"id": "y"}, 31, {"n": 0}))).verdict == "ok", done.words


@pytest.mark.parametrize("seed", range(4))
def test_of_a_life_without_one_of_its_changes_it_is_said(follow_it, seed):
    "But for the very last change of an item, of which nothing tells."
    rng, items, told = random.Random(seed), {}, []
    for at in range(40):
        key, new = rng.choice("abcd"), rng.randrange(10**6)
        old = items.get(key)
        op = "INSERT" if old is None else rng.choice(["MODIFY", "REMOVE"])
        items[key] = None if op == "REMOVE" else new
        told.append((key, record(op, {"id": key}, at * 10, None if op == "REMOVE" else {"n": new}, None if old is None else {"n": old})))
    lost = rng.choice([place for place, (key, _) in enumerate(told) if key in {other for other, _ in told[place + 1 :]}])
    cuts, kinesis = sorted(rng.sample(range(40), 3)), Kinesis(1)
    for begin, end in zip([0, *cuts], [*cuts, 40]):
        done = follow_it(put(kinesis, *(data for place, (_, data) in enumerate(told[begin:end], begin) if place != lost)))
    done = follow_it(put(kinesis, record("INSERT", {"id": "z"}, 1_000, {"n": 1})))
    assert done.verdict == "attention" and f"like that of id={told[lost][0]}" in done.words or f"like id={told[lost][0]}" in done.words, done.words


def test_one_table_is_followed_whatever_is_typed_later_and_a_name_that_no_record_has_loses_none(follow_it, tmp_path):
    kinesis = put(Kinesis(1), record("INSERT", {"id": "a"}, 1, {"n": 1}), record("INSERT", {"id": "b"}, 2, {"n": 2}, tableName="other"))
    done = follow_it(kinesis, source="custmer")
    assert (
        "no record of the stream belongs to the table custmer yet; they belong to customer (1), other (1)"
        in follow_it(put(kinesis, record("INSERT", {"id": "c"}, 3, {"n": 3}, tableName="other")), source="custmer").words + done.words
    )
    assert follow_it(kinesis, source="customer").verdict == "ok" and lake(tmp_path) == [("a", "1")]
    with pytest.raises(BadSetting, match="holds what records of customer say; --source-table other would mix two tables"):
        follow_it(kinesis, source="other")


def test_items_that_a_moment_leaves_as_they_were_are_looked_at_again_or_it_is_said(follow_it, tmp_path, monkeypatch):
    monkeypatch.setattr("dmscdc.stream.stage._CIRCLES", 4)
    there_and_gone = lambda key: (record("INSERT", {"id": key}, 5, {"n": 1}), record("REMOVE", {"id": key}, 5, None, {"n": 1}))
    kinesis = put(Kinesis(1), GOOD)
    follow_it(kinesis)
    assert follow_it(put(kinesis, *there_and_gone("k0"), *there_and_gone("k1"))).verdict == "ok"
    put(kinesis, record("INSERT", {"id": "k0"}, 3, {"n": 1}), record("INSERT", {"id": "k1"}, 3, {"n": 1}))
    assert follow_it(kinesis).verdict == "ok" and lake(tmp_path) == [("good", "1"), ("k0", "1"), ("k1", "1")]
    done = follow_it(put(kinesis, *there_and_gone("k2"), *there_and_gone("k3"), *there_and_gone("k4")))
    assert done.verdict == "attention" and "changes of items that one moment left as they were are not kept any more" in done.words


@pytest.mark.parametrize(
    "changes",
    [
        [record("MODIFY", {"id": "a"}, 5, {"n": 2}), record("REMOVE", {"id": "a"}, 5)],  # without old images
        [record("MODIFY", {"id": "a"}, 5, {"n": 2}, {"n": 1}, eventID=None), record("MODIFY", {"id": "a"}, 5, {"n": 1}, {"n": 2}, eventID=None)]
        * 2,  # with no number, which a repeat would have too
    ],
    ids=["no old image", "no eventID"],
)
def test_an_order_that_nothing_tells_is_said(follow_it, changes):
    kinesis = put(Kinesis(1), record("INSERT", {"id": "a"}, 1, {"n": 1}))
    follow_it(kinesis)
    done = follow_it(put(kinesis, *changes[:3]))
    assert done.verdict == "attention" and "changes of one moment whose order their images do not show (1 item, like id=a)" in done.words


def test_records_of_other_producers_and_keys_of_other_types_spoil_nothing(follow_it, tmp_path):
    set_up(tmp_path, bad_rows="aside")
    dms = json.dumps(
        {
            "data": {"id": 1},
            "metadata": {"timestamp": "2026-11-20T00:00:00Z", "record-type": "data", "operation": "insert", "schema-name": "s", "table-name": "t"},
        }
    ).encode()
    odd = GOOD.replace(b'{"id": {"S": "good"}', b'{"id": {"BOOL": true}', 1)
    done = follow_it(put(kinesis := Kinesis(1), dms, odd, GOOD))
    assert done.verdict == "attention" and lake(tmp_path) == [("good", "1")], done.words
    done = follow_it(put(kinesis, record("INSERT", {"id": 7}, 20, {"n": 7}), record("INSERT", {"id": "7"}, 21, {"n": 8})))
    assert "records (1) with the key id (number), like id=7, where the table's key is id (text)" in done.words and lake(tmp_path) == [
        ("7", "8"),
        ("good", "1"),
    ]


GOOD = record("INSERT", {"id": "good"}, 7, {"n": 1})
_AT = b'"ApproximateCreationDateTime": %d' % (START + 3)
_ODD = record("INSERT", {"id": "x"}, 3, {"s": "?"})
ODD = {
    "an empty map without a type": _ODD.replace(b'{"S": "?"}', b"{}"),
    "a plain value": _ODD.replace(b'{"S": "?"}', b"5"),
    "a number that is none": _ODD.replace(b'{"S": "?"}', b'{"N": 5}'),
    "a number of a billion digits": _ODD.replace(b'{"S": "?"}', b'{"N": "1E+999999999"}'),
    "no base64": _ODD.replace(b'{"S": "?"}', b'{"B": "abc"}'),
    "half a pair": _ODD.replace(b'"?"', b'"\\ud83d"'),
    "a time of 1e400": _ODD.replace(_AT, b'"ApproximateCreationDateTime": 1e400'),
    "a time that is NaN": _ODD.replace(_AT, b'"ApproximateCreationDateTime": NaN'),
    "a time in nanoseconds": _ODD.replace(_AT, b'"ApproximateCreationDateTime": 1795219200000000000'),
    "a time as a text": _ODD.replace(_AT, b'"ApproximateCreationDateTime": "2026-11-20"'),
    "deep lists": _ODD.replace(b'{"S": "?"}', b'{"L": [' * 3_000 + b"]}" * 3_000),
    "an image that is a text": record("INSERT", {"id": "x"}, 3).replace(b'"Keys"', b'"NewImage": "x", "Keys"'),
    "keys that are a list": _ODD.replace(b'{"id": {"S": "x"}}', b"[]", 1),
    "a table that is a list": _ODD.replace(b'"customer"', b'["customer"]'),
    "packed, and nothing inside": b"\xf3\x89\x9a\xc2 not at all",
    "a time in 2099": _ODD.replace(_AT, b'"ApproximateCreationDateTime": 4080000000000000'),
    "no JSON": b"\xff\xfe",
}


def test_records_that_are_none_are_quarantined_as_they_came_and_the_stream_goes_on(follow_it, tmp_path):
    set_up(tmp_path, bad_rows="aside")
    done = follow_it(put(Kinesis(1), *ODD.values(), GOOD))
    assert done.verdict == "attention" and lake(tmp_path) == [("good", "1")], done.words
    said = (
        CliRunner()
        .invoke(
            app,
            [
                "quarantine",
                "show",
                TABLE,
                "--json",
                "--folder",
                str(tmp_path),
                "--landing",
                str(tmp_path / "landing"),
                "--lake",
                str(tmp_path / "lake"),
            ],
        )
        .stdout
    )
    texts = [row["text"] for row in json.loads(said)]
    assert len(texts) == len(ODD) and base64.b64encode(b"\xff\xfe").decode() in str(texts)


def test_a_stream_of_nothing_but_rubbish_says_so(follow_it, tmp_path):
    done = follow_it(put(Kinesis(1), b"rubbish"))
    assert (
        done.verdict == "refused"
        and "record 1 of shard-0 is not a change" in done.words
        and f"dmscdc table set {TABLE} --bad-rows quarantine" in done.words
    )


def test_a_refused_window_says_which_record_it_was_and_how_to_go_on(follow_it, tmp_path):
    said: list[str] = []
    done = follow_it(put(Kinesis(1), GOOD, ODD["a plain value"]), say=said.append)
    assert "record 2 of shard-0" in said[-1] and said[-1] in done.words
    assert done.verdict == "refused" and "record 2 of shard-0" in done.words and "the attribute s is '5', without a type" in done.words
    assert f"dmscdc table set {TABLE} --bad-rows quarantine" in done.words
    set_up(tmp_path, bad_rows="aside")
    assert follow_it(Kinesis(1)).verdict == "attention" and lake(tmp_path) == [("good", "1")]


def test_shards_of_unequal_length_advance_together_through_days_of_backlog(follow_it, tmp_path, monkeypatch):
    monkeypatch.setattr("dmscdc.stream.follow.read_window", partial(read_window, limit=3_000))
    kinesis, items = Kinesis(2), {}
    for hour in range(72):
        key = f"k{hour % 24}"
        had = {"n": items[key], "wide": "x" * 900} if key in items else None
        items[key] = hour
        put(kinesis, record("MODIFY" if had else "INSERT", {"id": key}, hour * DAY // 24, {"n": hour, "wide": "x" * 900}, had), shard="shard-1")
        if hour % 12 == 0:
            items[f"s{hour}"] = hour
            put(kinesis, record("INSERT", {"id": f"s{hour}"}, hour * DAY // 24, {"n": hour}), shard="shard-0")
    done = follow_it(kinesis)
    assert done.verdict == "ok" and lake(tmp_path) == sorted((key, str(n)) for key, n in items.items()), done.words
    files = [json.loads(path.read_text())["files"] for path in sorted(tmp_path.glob("lake/_dmscdc/_streams/**/*.json"))]
    assert len(files) > 10 and files == sorted(files) and max(map(len, files)) == 1  # none came late


def test_a_change_that_comes_days_late_is_applied_beneath_what_is_newer_and_brings_no_removed_item_back(follow_it, tmp_path):
    kinesis = put(Kinesis(1), record("INSERT", {"id": "a"}, 0, {"n": 1}), record("INSERT", {"id": "c"}, 1, {"n": 1}))
    for day in range(1, 9):
        assert follow_it(put(kinesis, record("INSERT", {"id": f"d{day}"}, day * DAY, {"n": day}))).verdict == "ok"
    put(kinesis, record("REMOVE", {"id": "a"}, 9 * DAY, None, {"n": 3}))
    assert follow_it(kinesis).verdict == "ok"
    late = [
        record("MODIFY", {"id": "a"}, 2 * DAY + 1, {"n": 3}, {"n": 1}),
        record("MODIFY", {"id": "c"}, 2 * DAY + 2, {"n": 2}, {"n": 1}),
        record("INSERT", {"id": "d"}, 2 * DAY + 3, {"n": 4}),
    ]
    done = follow_it(put(kinesis, *late))
    assert done.verdict == "ok", done.words
    assert lake(tmp_path) == [("c", "2"), ("d", "4"), *((f"d{day}", str(day)) for day in range(1, 9))]


def test_a_stream_without_images_empties_no_row(follow_it, tmp_path):
    assert follow_it(put(Kinesis(1), GOOD)).verdict == "ok"
    kinesis = put(
        Kinesis(1),
        GOOD,
        record("MODIFY", {"id": "good"}, 9).replace(b'"Keys"', b'"StreamViewType": "KEYS_ONLY", "Keys"'),
        record("MODIFY", {"id": "good"}, 10, None, {"n": 1}),
    )
    done = follow_it(kinesis)
    assert (
        done.verdict == "attention"
        and "records (2) without the content of their items, like that of id=good, because the stream's view type is KEYS_ONLY" in done.words
    )
    assert lake(tmp_path) == [("good", "1")]


def test_a_first_window_of_another_table_is_not_taken_for_this_one_also_where_only_the_streams_address_names_it(follow_it, tmp_path):
    named = {"tableName": None, "eventSourceARN": "arn:aws:dynamodb:eu-west-1:1:table/supplier/stream/2026-01-01T00:00:00.000"}
    kinesis = put(Kinesis(1), record("INSERT", {"id": "s"}, 1, {"n": 1}, **named))
    with pytest.raises(BadSetting, match="the stream carries the table supplier; which is shop.customer[?] Give --source-table supplier"):
        follow_it(kinesis)
    put(kinesis, record("INSERT", {"id": "c"}, 2, {"n": 2}, **{**named, "eventSourceARN": named["eventSourceARN"].replace("supplier", "customer")}))
    said: list[str] = []
    assert follow_it(kinesis, say=said.append).verdict == "ok" and lake(tmp_path) == [("c", "2")] and "1 of other tables" in said[0]


def test_an_item_removed_and_put_back_in_one_millisecond_is_there(follow_it, tmp_path):
    lock = {"by": "me"}
    kinesis = put(Kinesis(1), record("INSERT", {"id": "lock"}, 0, lock))
    assert follow_it(kinesis).verdict == "ok"
    assert follow_it(put(kinesis, record("INSERT", {"id": "lock"}, 5, lock), record("REMOVE", {"id": "lock"}, 5, None, lock))).verdict == "ok"
    assert rows_of(tmp_path, 'id, "by"') == [("lock", "me")]


def test_so_is_one_that_was_loaded_and_one_made_and_removed_in_a_millisecond_is_not(follow_it, tmp_path):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "a.json").write_text(json.dumps({"Item": {"id": {"S": "old"}, "by": {"S": "me"}}}))
    lock = {"by": "me"}
    kinesis = put(
        Kinesis(1),
        record("INSERT", {"id": "old"}, 5, lock),
        record("REMOVE", {"id": "old"}, 5, None, lock),
        record("REMOVE", {"id": "new"}, 6, None, lock),
        record("INSERT", {"id": "new"}, 6, lock),
    )
    assert follow_it(kinesis, key=["id"], load=str(tmp_path / "export")).verdict == "ok" and rows_of(tmp_path, 'id, "by"') == [("old", "me")]


def test_what_no_image_settles_is_said_with_its_key(follow_it, tmp_path):
    kinesis = put(Kinesis(1), record("MODIFY", {"id": "a"}, 5, {"n": 1}, {"n": 2}), record("MODIFY", {"id": "a"}, 5, {"n": 2}, {"n": 1}, eventID="2"))
    done = follow_it(kinesis)
    assert done.verdict == "attention" and "changes of one moment whose order their images do not show (1 item, like id=a)" in done.words, done.words


class Trimmed(Kinesis):
    "A stream that has forgotten the record at which a reader stood."

    is_asked = False

    def get_shard_iterator(self, StreamName: str, ShardId: str, ShardIteratorType: str, **more: object) -> dict:
        was, self.is_asked = self.is_asked, True
        if not was:
            raise told("InvalidArgumentException")
        return super().get_shard_iterator(StreamName, ShardId, ShardIteratorType, **more)


def told(code: str) -> Exception:
    error = Exception(code)
    error.response = {"Error": {"Code": code}}
    return error


def test_a_reader_that_is_behind_what_the_stream_keeps_goes_on_and_says_since_when(follow_it, tmp_path):
    assert follow_it(put(Kinesis(1), GOOD)).verdict == "ok"
    done = follow_it(put(Trimmed(1), record("INSERT", {"id": "later"}, 50, {"n": 2})))
    assert (
        done.verdict == "attention"
        and "no longer has all records of shard-0: changes from 20" in done.words
        and "--table shop.customer --load dynamodb:customer" in done.words
    )
    assert lake(tmp_path) == [("good", "1"), ("later", "2")]


def test_a_stream_with_an_export_goes_on_after_a_loss_and_never_takes_that_export_again(follow_it, tmp_path, monkeypatch):
    export = exported(tmp_path / "export", OLD)
    assert follow_it(put(Kinesis(1), GOOD), key=["id"], load=export).verdict == "ok"
    done = follow_it(put(Trimmed(1), record("MODIFY", {"id": "old"}, 50, {"n": 6}, {"n": 5})), load=export)
    assert done.verdict == "attention" and lake(tmp_path) == [("good", "1"), ("old", "6")], done.words
    monkeypatch.setattr("dmscdc.stream.follow.items_of", lambda place: iter([{"id": {"S": "old"}, "n": {"N": "6"}}]))
    assert follow_it(put(Kinesis(1)), load="dynamodb:customer").verdict == "ok" and lake(tmp_path) == [("old", "6")]
    assert follow_it(put(Kinesis(1)), load=export).verdict in ("ok", "nothing") and lake(tmp_path) == [("old", "6")]


def test_a_stream_that_was_made_again_is_read_from_its_beginning_and_that_is_said(follow_it, tmp_path):
    first, second = put(Kinesis(1), GOOD), put(Kinesis(1), record("INSERT", {"id": "new"}, 60, {"n": 3}))
    for day, kinesis in (28, first), (29, second):
        kinesis.describe_stream_summary = lambda StreamName, day=day: {
            "StreamDescriptionSummary": {"RetentionPeriodHours": 24, "StreamCreationTimestamp": datetime(2026, 11, day, tzinfo=timezone.utc)}
        }
    assert follow_it(first).verdict == "ok"
    done = follow_it(second)
    assert (
        done.verdict == "attention"
        and "the stream customers was made again (2026-11-29" in done.words
        and lake(tmp_path) == [("good", "1"), ("new", "3")]
    )


def test_what_passes_is_tried_again_what_does_not_ends_with_a_sentence_and_a_request_to_stop_is_heard_while_nothing_comes(follow_it, monkeypatch):
    kinesis = put(Kinesis(1), GOOD)
    kinesis.faults = ["InternalFailure", "ExpiredTokenException", "ExpiredIteratorException"]
    assert follow_it(kinesis).verdict == "ok"
    kinesis.get_records = lambda ShardIterator: (_ for _ in ()).throw(ConnectionResetError("by peer"))
    with pytest.raises(
        SourceUnreachable,
        match="shard-0 of customers could not be read; 8 tries ended with ConnectionResetError: by peer. While the stream keeps its records nothing is lost",
    ):
        follow_it(kinesis)
    kinesis.get_records = lambda ShardIterator: {"Records": [], "MillisBehindLatest": 1000, "NextShardIterator": ShardIterator}
    monkeypatch.setattr("dmscdc.stream.shards._PAUSE", 0.1)
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    begun = time.monotonic()
    follow_it(kinesis, stop=stop, drain=False)
    assert time.monotonic() - begun < 8


def test_a_stream_that_cannot_be_read_stands_in_the_status_and_on_the_front_page(follow_it, tmp_path, monkeypatch):
    kinesis = put(Kinesis(1), GOOD)
    assert follow_it(kinesis).verdict == "ok"
    kinesis.get_records = lambda ShardIterator: (_ for _ in ()).throw(told("AccessDeniedException"))
    monkeypatch.setattr("dmscdc.cli.stream._kinesis", lambda stream: kinesis)
    typed = lambda *words: CliRunner().invoke(
        app, [*words, "--folder", str(tmp_path), "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake")]
    )
    assert typed("stream", "--stream", "customers", "--table", TABLE, "--drain", "--metrics", f"jsonl:{tmp_path}/metrics.jsonl").exit_code == 1
    [row] = [one for one in json.loads(typed("status", "--json").stdout) if one["table"] == TABLE]
    assert "the stream customers cannot be followed: AccessDeniedException" in str(row), row
    assert "the stream customers cannot be followed: AccessDeniedException" in next(tmp_path.rglob("index.html")).read_text()
    [line] = map(json.loads, (tmp_path / "metrics.jsonl").read_text().splitlines())
    assert (line["table"], line["failed"], line["verdict"]) == (TABLE, 1, "failed")


def test_attributes_called_like_columns_of_ours_in_any_case_are_kept_in_the_rest(follow_it, tmp_path):
    odd = {name: "mine" for name in ("op", "_CDC_file", "ar_h_change_seq", "_REST", "_Record_shard", "bi_id")}
    done = follow_it(put(Kinesis(1), record("INSERT", {"id": "a"}, 1, {"n": 1, **odd})))
    assert done.verdict == "ok", done.words
    assert [(key, json.loads(rest)) for key, rest in rows_of(tmp_path, "id, _rest")] == [("a", odd)]
