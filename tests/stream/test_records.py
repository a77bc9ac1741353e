"""Whatever bytes come: a change, or `Unreadable`; and what is taken for a change can be staged, beside a good record that arrives. Records are mutated by Hypothesis."""

from __future__ import annotations

import json
from datetime import timedelta

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmscdc.errors import BadSetting, Unreadable
from dmscdc.landing.files import TableRef
from dmscdc.spark.formats import odd_names
from dmscdc.stream.records import change_from
from dmscdc.stream.shards import Window
from dmscdc.stream.stage import Manifest, stage_window

pytestmark = pytest.mark.quick

RECORD = {
    "awsRegion": "eu-west-1",
    "eventID": "e",
    "eventName": "MODIFY",
    "userIdentity": None,
    "tableName": "customer",
    "dynamodb": {
        "ApproximateCreationDateTime": 1_795_219_200_000,
        "ApproximateCreationDateTimePrecision": "MILLISECOND",
        "SequenceNumber": "7",
        "Keys": {"id": {"S": "x"}},
        "NewImage": {
            "id": {"S": "x"},
            "n": {"N": "1.50"},
            "b": {"B": "AP8="},
            "l": {"L": [{"M": {"s": {"SS": ["a", "b"]}}}, {"NULL": True}]},
            "t": {"BOOL": False},
        },
        "OldImage": {"id": {"S": "x"}, "n": {"N": "1"}},
    },
}
GOOD = json.dumps(
    {
        **RECORD,
        "eventID": "good",
        "dynamodb": {**RECORD["dynamodb"], "Keys": {"id": {"S": "good"}}, "NewImage": {"id": {"S": "good"}}, "OldImage": {}},
    }
).encode()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["1E+999999999", "\ud83d", "-0", "NaN", "٣", {"S": "x"}, {"N": "1"}, {"M": {}}, {}]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["S", "N", "B", "M", "L", "NS", "id", ""]), inner, max_size=2),
    max_leaves=4,
)


def places(value: object, at: tuple = ()) -> list[tuple]:
    "Where something stands in a record."
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(one for name, part in inner for one in places(part, (*at, name)))]


def changed(value: object, at: tuple, new: object, is_gone: bool) -> object:
    if not at:
        return new
    inner = dict(value) if isinstance(value, dict) else list(value)
    if is_gone and not at[1:]:
        inner.pop(at[0])
    else:
        inner[at[0]] = changed(inner[at[0]], at[1:], new, is_gone)
    return inner


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_any_record_is_a_change_or_unreadable_and_holds_nobody_up(tmp_path_factory, data):
    told: object = RECORD
    for _ in range(data.draw(st.integers(1, 3))):
        told = changed(told, data.draw(st.sampled_from(places(told))), data.draw(VALUES), data.draw(st.booleans()))
    sent = (
        json.dumps(told).encode("utf-8", "surrogatepass")
        if data.draw(st.booleans())
        else json.dumps(told, ensure_ascii=False).encode("utf-8", "surrogatepass")
    )
    cut = data.draw(st.integers(0, 60))
    sent = sent[:-cut] if cut < 5 and cut else sent
    try:
        change = change_from(sent, "shard-0", "1")
    except Unreadable as error:
        assert "record 1 of shard-0 is not a change" in str(error)
        return
    if set(change.key) != {"id"} or change.source not in ("", "customer"):
        return
    root = tmp_path_factory.mktemp("any")
    stage_window(
        str(root),
        TableRef("shop", "customer"),
        Manifest(source="customer"),
        Window((("shard-0", "1", sent), ("shard-0", "2", GOOD))),
        retention=timedelta(days=1),
    )
    found = duckdb.execute(
        "select id from read_parquet($1, union_by_name=true) where Op is not null", [[str(file) for file in root.rglob("*.parquet")]]
    ).fetchall()
    assert ("good",) in found


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\xff",
        b"\xed\xa0\x80",
        b"null",
        b"3",
        b'"x"',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xf3\x89\x9a\xc2",
        b'{"metadata": 1}',
        b'{"dynamodb": 1, "eventName": "INSERT"}',
        b'{"eventName": [], "dynamodb": {}}',
        "\ufeff{}".encode(),
    ],
)
def test_bytes_that_are_none_are_unreadable(sent):
    with pytest.raises(Unreadable):
        change_from(sent, "shard-0", "1", ["id"])


def test_an_attribute_that_the_format_cannot_name_is_kept_in_the_rest_and_counted_and_a_key_is_refused(tmp_path):
    told = json.loads(GOOD)
    told["dynamodb"]["NewImage"] |= {"a.b": {"S": "dot"}, "Email": {"S": "first"}, "email": {"S": "second"}}
    one = Window((("shard-0", "1", json.dumps(told).encode()),))
    table = TableRef("shop", "customer")
    manifest = stage_window(str(tmp_path), table, Manifest(source="customer"), one, odd=odd_names("hudi", table))
    assert dict(manifest.unfit) == {"a.b": 1, "email": 1} and set(manifest.columns) == {"id", "Email"}
    [(rest,)] = duckdb.execute("select _rest from read_parquet($1)", [[str(file) for file in tmp_path.rglob("*.parquet")]]).fetchall()
    assert json.loads(rest) == {"a.b": "dot", "email": "second"}
    told["dynamodb"]["Keys"] = {"a.b": {"S": "dot"}}
    with pytest.raises(BadSetting, match="no column of the lake can be called a.b, which is the key"):
        stage_window(
            str(tmp_path), table, Manifest(source="customer"), Window((("shard-0", "1", json.dumps(told).encode()),)), odd=odd_names("hudi", table)
        )
