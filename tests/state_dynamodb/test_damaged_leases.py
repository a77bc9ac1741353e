"Garbage in the lease of an item in DynamoDB is the trouble of its table, and is said with the command that frees it."

from __future__ import annotations

import json
import shlex

import boto3
import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import write_load
from dmscdc.cli.main import app
from dmscdc.errors import StateUnusable
from dmscdc.landing.files import TableRef
from dmscdc.service.config import read_config
from dmscdc.service.status import read_statuses
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.proof

GOOD, BAD = TableRef("shop", "good"), TableRef("shop", "o'bad")
KINDS = ({"NULL": True}, {"BOOL": True}, {"B": b"\xff"}, {"M": {"a": {"S": "b"}}}, {"L": []}, {"SS": ["a"]}, None)
GARBAGE = [
    (name, value)
    for name in ("owner", "expiry", "fence")
    for value in (*KINDS, *{"owner": [{"N": "7"}], "expiry": [{"S": "soon"}, {"S": ""}], "fence": [{"S": "x"}, {"N": "1.5"}]}[name])
]


def said_of(value):
    "As it stands in the words."
    return "None" if value is None else next(iter(value.values())) if "N" in value else repr(value.get("S", value))


def test_whatever_stands_in_a_lease_is_the_trouble_of_its_table(dynamodb_table, tmp_path):
    home, db, told = tmp_path, boto3.client("dynamodb"), 0
    given = {"landing": str(home / "landing"), "lake": str(home / "lake"), "state": f"dynamodb:{dynamodb_table}"}
    state = open_state(given["state"], given["landing"])
    for table in (GOOD, BAD):
        write_load(home / "landing", str(table), [(1, "a")], {"id": "int", "name": "string"})
        state.put_settings(table, key="id")
    state.acquire(GOOD, "another:1:pass", 1e9)
    state.acquire(BAD, "another:1:pass", 1e9)
    sound = state.stored.find(BAD)[1]

    def looks():
        return {look.table: look for look in read_statuses(read_config(home, quiet_period=0, **given))}

    def command(*words):
        options = [part for name, value in given.items() for part in (f"--{name}", value)]
        done = CliRunner().invoke(app, [*words, "--folder", str(home), *options])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, " ".join(done.output.split())

    assert looks()[BAD].holder.owner == "another:1:pass"
    for name, value in GARBAGE:
        kept = {k: v for k, v in sound.items() if k != f"lease_{name}"} | ({f"lease_{name}": value} if value else {})
        db.put_item(TableName=dynamodb_table, Item=kept)
        found, words = looks(), f"its lease in the state is damaged: {name} is {said_of(value)}"
        assert found[GOOD].plan.kind == "initial" and found[GOOD].holder.owner == "another:1:pass" and not found[GOOD].problem
        assert found[BAD].problem.startswith(words), (name, value, found[BAD].problem)
        assert [lease.table for lease in state.holders()] == [GOOD], (name, value)
        asked = (lambda: state.holder(BAD), lambda: state.acquire(BAD, "we", 60), lambda: state.put_settings(BAD, key="id"))
        for ask in asked:
            with pytest.raises(StateUnusable, match="its lease in the state is damaged"):
                ask()
        assert state.stored.read("shop/o'bad/") == kept, "nobody has written"
        told += 1
    assert told == len(GARBAGE) == 26 and words in command("plan", "--quiet-period", "0")[1] and "shop.good" in command("status")[1]
    _, _, _, *options = shlex.split(found[BAD].problem.rpartition("free it by: ")[2])
    call = dict(zip(options[::2], options[1::2], strict=True))
    db.update_item(TableName=call["--table-name"], Key=json.loads(call["--key"]), UpdateExpression=call["--update-expression"])
    assert looks()[BAD].plan.kind == "initial" and looks()[BAD].holder is None and state.get(BAD).key == ("id",)
    assert state.acquire(BAD, "we", 60).fence == 1


def test_a_fence_that_is_no_number_is_said_also_where_the_lease_is_free(dynamodb_table):
    state, db, told = open_state(f"dynamodb:{dynamodb_table}"), boto3.client("dynamodb"), 0
    free = {"path": {"S": "shop/good/"}, "lease_owner": {"S": ""}, "lease_expiry": {"N": "0"}}
    for value in ({"S": "x"}, *filter(None, KINDS)):
        item = free | {"lease_fence": value}
        db.put_item(TableName=dynamodb_table, Item=item)
        with pytest.raises(StateUnusable, match="shop.good: its lease in the state is damaged: fence is "):
            state.acquire(GOOD, "we", 60)
        told += state.stored.read("shop/good/") == item
    assert told == 7
    db.put_item(TableName=dynamodb_table, Item=free | {"lease_fence": {"N": "6"}})
    assert state.acquire(GOOD, "we", 60).fence == 7
