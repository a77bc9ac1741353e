"""A DynamoDB table whose changes go to Kinesis becomes a lake table: whatever order records come in, and however often. The oracle is a dictionary that the test itself changes, or DynamoDB's own scan."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from datetime import date, datetime
from pathlib import Path

import boto3
import pytest
from typer.testing import CliRunner

from aws.stack import command, ministack
from aws.usual import usual
from dmscdc.cli.main import app
from dmscdc.errors import BadSetting, Busy
from dmscdc.landing.files import TableRef
from dmscdc.load.process import process_table
from dmscdc.reconcile.explain import ProofRequest, prove
from dmscdc.runs.kernel import Watch, executed
from dmscdc.runs.run import run_notebook
from dmscdc.service.config import write_config
from dmscdc.state.registry import open_state
from dmscdc.stream.example import in_ministack, tell_stream
from dmscdc.stream.follow import follow, stage_next
from dmscdc.stream.shards import read_window
from dmscdc.stream.stage import put_table
from seeds import seed_of
from world import query

pytestmark = pytest.mark.proof

START = 1_795_219_200_000_000  # 2026-11-20, microseconds
TABLE = "shop.customer"
README = (Path(__file__).parents[2] / "notebooks" / "pages" / "stream.md").read_text(encoding="utf-8")
COMMANDS = [line.split("#")[0].split() for line in README.splitlines() if line.startswith("dmscdc stream ")]  # until stopped; to the end


class Kinesis:
    "Shards in memory. What is put may be read from the next window on; a shard that was split is closed."

    def __init__(self, shards: int = 2):
        self.held: dict[str, list[tuple[int, bytes]]] = {f"shard-{n}": [] for n in range(shards)}
        self.parents: dict[str, str] = {}
        self.count, self.faults = 0, []

    def put(self, shard: str, data: bytes) -> None:
        self.count += 1
        self.held[shard].append((self.count, data))

    def split(self, shard: str) -> None:
        for side in "ab":
            self.held[f"{shard}{side}"] = []
            self.parents[f"{shard}{side}"] = shard

    def open(self) -> list[str]:
        return [shard for shard in self.held if shard not in self.parents.values()]

    def describe_stream_summary(self, StreamName: str) -> dict:
        return {"StreamDescriptionSummary": {"RetentionPeriodHours": 24}}

    def list_shards(self, StreamName: str = "", NextToken: str = "") -> dict:
        every = [{"ShardId": shard, **({"ParentShardId": self.parents[shard]} if shard in self.parents else {})} for shard in reversed(self.held)]
        at = int(NextToken or 0)
        return {"Shards": every[at : at + 1], **({"NextToken": str(at + 1)} if at + 1 < len(every) else {})}

    def get_shard_iterator(self, StreamName: str, ShardId: str, ShardIteratorType: str, StartingSequenceNumber: str = "0", **more: object) -> dict:
        return {"ShardIterator": f"{ShardId} {StartingSequenceNumber}"}

    def get_records(self, ShardIterator: str) -> dict:
        if self.faults:
            error = Exception("not now")
            error.response = {"Error": {"Code": self.faults.pop()}}
            raise error
        shard, _, after = ShardIterator.partition(" ")
        left = [one for one in self.held[shard] if one[0] > int(after)]
        page, rest = left[:3], left[3:]
        answer = {"Records": [{"SequenceNumber": str(n), "Data": data} for n, data in page], "MillisBehindLatest": 1000 * bool(rest)}
        if rest or shard in self.open():
            answer["NextShardIterator"] = f"{shard} {page[-1][0] if page else after}"
        return answer


class Items:
    "A table of DynamoDB as a dictionary, and the records that it would send."

    def __init__(self, rng: random.Random, micros: bool, steps: tuple[int, ...] = (0, 1, 700, 40_000, 90_000_000)):
        self.rng, self.items, self.at, self.micros, self.steps = rng, {}, START, micros, steps

    def change(self) -> tuple[str, bytes]:
        "One change: the item's key, and its record."
        self.at += self.rng.choice(self.steps)
        key, old = self.rng.choice("abcdef"), None
        old = self.items.get(key)
        new = (
            None
            if old and self.rng.random() < 0.3
            else {
                "id": {"S": key},
                "n": {"N": str(self.rng.randrange(10**6))},
                **self.rng.choice([{}, {"tags": {"SS": ["x", "y"]}}, {"vip": {"BOOL": True}}]),
            }
        )
        if new is None:
            del self.items[key]
        else:
            self.items[key] = new
        time, how = (self.at, "MICROSECOND") if self.micros else (self.at // 1000, "MILLISECOND")
        body = {"ApproximateCreationDateTime": time, "ApproximateCreationDateTimePrecision": how, "Keys": {"id": {"S": key}}}
        body |= ({"NewImage": new} if new else {}) | ({"OldImage": old} if old else {})
        return key, json.dumps(
            {"eventName": "REMOVE" if not new else "MODIFY" if old else "INSERT", "dynamodb": body, "tableName": "customer"}
        ).encode()

    def rows(self) -> list[tuple]:
        return sorted((key, item["n"]["N"]) for key, item in self.items.items())


def lake(root: Path) -> list[tuple]:
    return (
        query(f"select id, n from read_parquet('{root}/lake/shop/customer/**/*.parquet', union_by_name=true) order by id")
        if list(root.glob("lake/shop/customer/**/*.parquet"))
        else []
    )


def places(root: Path) -> list[str]:
    return [str(root / "landing"), str(root / "lake"), f"sqlite:{root}/state.db"]


def is_open(done: object) -> bool:
    "A record is still on its way, and until it comes nobody can tell; it is said."
    return done.verdict == "attention" and any(
        one in done.words for one in ("changes of one moment", "changes of items that the table never had", "another is missing")
    )


@pytest.fixture
def run(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("dmscdc.stream.shards._PAUSE", 0.0)
    (tmp_path / "landing").mkdir()
    apply = lambda: process_table(TABLE, *places(tmp_path), quiet_period=0.0, spark=lambda: spark)
    return lambda kinesis, **more: follow("customers", TABLE, *places(tmp_path), apply, **{"key": ["id"], "drain": True, "client": kinesis, **more})


@pytest.mark.parametrize("number", range(4))
def test_the_lake_equals_the_items_whatever_order_records_come_in_and_however_often(run, tmp_path, number, record_property):
    rng = random.Random(seed_of("HISTORY_SEED") + number)
    kinesis, items, waits, sent = Kinesis(), Items(rng, micros=True), [], 0
    for window in range(6):
        for _ in range(rng.randrange(1, 14)):
            waits.append(items.change())
        rng.shuffle(waits)
        held = waits[: rng.randrange(6)] if window < 5 else []  # these come with a later window
        for key, data in waits[len(held) :]:
            for _ in range(1 + (rng.random() < 0.2)):
                kinesis.put(rng.choice(kinesis.open()), data)
                sent += 1
        waits = held
        if window == 2:
            kinesis.split("shard-0")
        kinesis.faults = rng.choices(["ProvisionedThroughputExceededException", "ExpiredIteratorException"], k=rng.randrange(3))
        done = run(kinesis)
        assert done.verdict in ("ok", "nothing") or window < 5 and is_open(done), done.words
    assert lake(tmp_path) == items.rows()
    record_property("looked at", f"{sent} records in 6 windows, {len(items.rows())} items left")


def test_records_of_one_millisecond_are_chained_by_their_images(run, tmp_path):
    rng = random.Random(7)
    kinesis, items = Kinesis(1), Items(rng, micros=False, steps=(0,))
    sent = [items.change()[1] for _ in range(30)]  # all in one moment, from no item at all
    for data in rng.sample(sent, len(sent)):
        kinesis.put("shard-0", data)
    assert run(kinesis).verdict == "ok"
    assert lake(tmp_path) == items.rows()


def sent(key: str, at: int, value: int, before: int | None = None) -> bytes:
    "A change of an item, so many microseconds after the start."
    images = {"NewImage": {"id": {"S": key}, "n": {"N": str(value)}}} | (
        {"OldImage": {"id": {"S": key}, "n": {"N": str(before)}}} if before is not None else {}
    )
    return json.dumps({"eventName": "INSERT", "dynamodb": {"ApproximateCreationDateTime": START + at, "Keys": {"id": {"S": key}}, **images}}).encode()


@pytest.mark.parametrize(
    "windows, wanted",
    [
        ([[sent("z", 600_000_000, 1)], [sent("a", 0, 1), sent("x", 300_000_000, 5)], [sent("x", 180_000_000, 3)]], ("x", "5")),
        ([[sent("x", 900, 5)], [sent("x", 100, 3)]], ("x", "5")),
        ([[sent("x", 900, 5)], [b"hello"], [sent("x", 950, 6)], [sent("x", 940, 3)]], ("x", "6")),
    ],
    ids=["older than a late file of its item", "in one millisecond", "behind a record that is none"],
)
def test_an_older_change_never_wins_whichever_file_it_comes_into(run, tmp_path, windows, wanted):
    open_state(f"sqlite:{tmp_path}/state.db", str(tmp_path / "landing")).put_settings(TableRef.parse(TABLE), key="id", bad_rows="aside")
    kinesis = Kinesis(1)
    for window in windows:
        for data in window:
            kinesis.put("shard-0", data)
        run(kinesis)
    assert wanted in lake(tmp_path)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--key", "other"], "its key is id"),
        (["--start", "yesterday"], "not from 'yesterday'"),
        (["--table", "customer"], "a table is written schema.table"),
    ],
)
def test_what_is_typed_wrongly_changes_nothing(run, tmp_path, monkeypatch, words, said):
    kinesis = Kinesis(1)
    kinesis.put("shard-0", sent("x", 0, 1))
    run(kinesis)
    monkeypatch.setattr("dmscdc.cli.stream._kinesis", lambda stream: kinesis)
    state = open_state(f"sqlite:{tmp_path}/state.db", str(tmp_path / "landing"))
    before = state.get(TableRef.parse(TABLE))
    places = ["--folder", str(tmp_path), "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake")]
    done = CliRunner().invoke(app, ["stream", "--stream", "customers", "--table", TABLE, "--drain", *words, *places])
    assert done.exit_code == 2 and said in " ".join(done.output.split()) and state.get(TableRef.parse(TABLE)) == before, done.output


def test_a_reader_that_dies_between_files_and_manifest_reads_the_window_again_and_changes_nothing_twice(run, tmp_path, monkeypatch):
    kinesis, items = Kinesis(1), Items(random.Random(3), micros=True)
    for _ in range(20):
        kinesis.put("shard-0", items.change()[1])
    with monkeypatch.context() as patch:
        patch.setattr("dmscdc.stream.follow.keep", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(kinesis)
    assert list(tmp_path.glob("landing/shop/customer/*.parquet")) and not list(tmp_path.glob("lake/_dmscdc/_streams/**/*.json"))
    assert run(kinesis).verdict == "ok" and lake(tmp_path) == items.rows()


def test_of_two_readers_of_one_stream_the_second_stops(tmp_path, monkeypatch):
    monkeypatch.setattr("dmscdc.stream.shards._PAUSE", 0.0)
    kinesis, others = Kinesis(1), []
    kinesis.put("shard-0", Items(random.Random(3), micros=True).change()[1])
    (tmp_path / "landing").mkdir()
    read = lambda: stage_next(kinesis, "customers", TableRef.parse(TABLE), *places(tmp_path)[:2])

    def slow(*given, **more):
        "While it reads, another one reads and stages the same window."
        if not others:
            others.append(None), others.append(read())
        return read_window(*given, **more)

    monkeypatch.setattr("dmscdc.stream.follow.read_window", slow)
    with pytest.raises(Busy, match="another process reads this stream"):
        read()
    assert others[1].number == 1


@pytest.mark.parametrize("bad_rows", ["stop", "aside"])
def test_a_record_that_is_no_change_refuses_its_batch_or_is_quarantined_with_what_came(run, tmp_path, bad_rows):
    kinesis, items = Kinesis(1), Items(random.Random(3), micros=True)
    open_state(f"sqlite:{tmp_path}/state.db", str(tmp_path / "landing")).put_settings(TableRef.parse(TABLE), key="id", bad_rows=bad_rows)
    for data in [items.change()[1], b"hello \xff", items.change()[1]]:
        kinesis.put("shard-0", data)
    done = run(kinesis)
    if bad_rows == "stop":
        assert done.verdict == "refused" and "column Op is null; I, U or D was expected" in done.words and not lake(tmp_path)
        return
    assert done.verdict == "attention" and lake(tmp_path) == items.rows()
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
    (row,) = json.loads(said)
    assert "record 2 of shard-0 is not a change of a DynamoDB item" in row["text"] and base64.b64encode(b"hello \xff").decode() in row["text"]


def test_a_stream_that_was_not_read_for_longer_than_it_keeps_records_wants_attention_until_somebody_accepts(run, tmp_path, monkeypatch):
    kinesis, items = Kinesis(1), Items(random.Random(3), micros=True)
    kinesis.put("shard-0", items.change()[1])
    assert run(kinesis).verdict == "ok"
    (path,) = tmp_path.glob("lake/_dmscdc/_streams/customers/shop/customer/*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "read_at": 1_795_219_200.0}))  # long ago
    monkeypatch.setattr("dmscdc.stream.follow.time.time", lambda: 1_795_219_200.0 + 30 * 3600)
    kinesis.put("shard-0", items.change()[1])
    done = run(kinesis)
    words = "the stream customers was not read from 2026-11-21 00:00:00 UTC to 2026-11-22 06:00:00 UTC, and keeps its records for 24 hours: changes of that time may be missing (shard-0)"
    assert done.verdict == "attention" and words in done.words and lake(tmp_path) == items.rows()


def test_a_shard_that_is_gone_before_it_was_read_to_its_end_is_said_once_and_the_others_go_on(run, tmp_path):
    kinesis, items = Kinesis(2), Items(random.Random(3), micros=True)
    kinesis.put("shard-0", items.change()[1])
    assert run(kinesis).verdict == "ok"
    del kinesis.held["shard-0"]
    kinesis.put("shard-1", items.change()[1])
    done = run(kinesis)
    assert done.verdict == "attention" and "no longer has all records of shard-0: changes from" in done.words and lake(tmp_path) == items.rows()
    (*_, newest) = sorted(tmp_path.glob("lake/_dmscdc/_streams/customers/shop/customer/*.json"))
    assert "shard-0" not in json.loads(newest.read_text())["positions"] and run(kinesis).words.count("no longer has") == 1


def told(run, tmp_path: Path, *records: bytes, **more: object) -> tuple[object, list[str]]:
    "One window of these records, and what was said."
    kinesis, said = Kinesis(1), []
    for data in records:
        kinesis.put("shard-0", data)
    return run(kinesis, say=said.append, **more), said


def rows_of(root: Path, columns: str) -> list[tuple]:
    return query(f"select {columns} from read_parquet('{root}/lake/shop/customer/**/*.parquet', union_by_name=true) order by id")


def test_records_that_a_producer_packed_into_one_are_read_like_others(run, tmp_path):
    from aws_kinesis_agg.aggregator import RecordAggregator

    packer = RecordAggregator()
    for value in (1, 2, 3):
        packer.add_user_record(f"k{value}", sent("x", value, value, value - 1 or None))
    packed = packer.clear_and_get().get_contents()[2]
    done, _ = told(run, tmp_path, packed, sent("y", 5, 9))
    assert done.verdict == "ok" and lake(tmp_path) == [("x", "3"), ("y", "9")]


def test_of_several_tables_on_a_stream_one_is_named_and_the_others_are_counted(run, tmp_path):
    other = sent("z", 3, 7).replace(b'"dynamodb"', b'"tableName": "supplier", "dynamodb"')
    mine = sent("x", 1, 1).replace(b'"dynamodb"', b'"tableName": "client", "dynamodb"')
    with pytest.raises(BadSetting, match="the stream carries the tables client, supplier; which is shop.customer. Give --source-table"):
        told(run, tmp_path, mine, other)
    done, said = told(run, tmp_path, mine, other, source="client")
    assert done.verdict == "ok" and lake(tmp_path) == [("x", "1")] and "2 records of 1 shard, 1 of other tables" in said[0], said


def test_odd_items_are_kept_whole_and_the_rest_column_has_what_cannot_be_a_column(run, tmp_path):
    big, odd = "12345678901234567890123456789012345678", {"a.b": "x", "c d": "\u00e9`\"'", "%20": "", "select": "a\nb\u0000c"}
    item = {
        **{name: {"S": text} for name, text in odd.items()},
        "Email": {"S": "first"},
        "email": {"S": "second"},
        "BI_id": {"S": "q"},
        "Op": {"S": "mine"},
        "n": {"N": big},
        "e": {"N": "-1.5E+20"},
        "l": {"L": []},
        "b": {"B": ""},
    }
    key = {"id": {"S": "\U0001f600/\\%"}, "sort": {"N": "10"}}
    done, _ = told(
        run,
        tmp_path,
        json.dumps({"eventName": "INSERT", "dynamodb": {"ApproximateCreationDateTime": START, "Keys": key, "NewImage": {**key, **item}}}).encode(),
        key=["sort", "id"],
    )
    assert done.verdict == "ok", done.words
    rows = query(
        f"select id, sort, n, e, l, b, Email, _rest, {', '.join(chr(34) + name + chr(34) for name in odd)} from read_parquet('{tmp_path}/lake/shop/customer/*.parquet')"
    )
    assert rows == [
        (key["id"]["S"], "10", big, "-150000000000000000000", "[]", b"", "first", '{"BI_id": "q", "Op": "mine", "email": "second"}', *odd.values())
    ]


def test_what_a_record_says_beside_the_item_becomes_columns_on_request_and_an_expired_item_is_counted(run, tmp_path):
    ttl = json.dumps(
        {
            "eventName": "REMOVE",
            "userIdentity": {"type": "Service", "principalId": "dynamodb.amazonaws.com"},
            "dynamodb": {
                "ApproximateCreationDateTime": (START + 9_000) // 1000,
                "Keys": {"id": {"S": "x"}},
                "OldImage": {"id": {"S": "x"}, "n": {"N": "1"}},
            },
        }
    ).encode()
    odd = sent("y", 2, 2).replace(b'"NewImage": {', b'"NewImage": {"_record_eventName": {"S": "its own"}, ')
    open_state(f"sqlite:{tmp_path}/state.db", str(tmp_path / "landing")).put_settings(TableRef.parse(TABLE), key="id", delete="soft")
    done, said = told(run, tmp_path, sent("x", 1, 1), odd, ttl, metadata=["eventName", "SizeBytes", "shard", "sequenceNumber"])
    assert done.verdict == "ok" and "3 records of 1 shard, 1 expired" in said[0], said
    assert rows_of(tmp_path, "id, Op, _record_eventName, _record_shard, _record_sequenceNumber, _rest") == [
        ("x", "D", "INSERT", "shard-0", "1", None),
        ("y", "I", "INSERT", "shard-0", "2", '{"_record_eventName": "its own"}'),
    ]


def test_a_value_that_does_not_fit_its_column_is_kept_beside_it_and_counted(run, tmp_path):
    open_state(f"sqlite:{tmp_path}/state.db", str(tmp_path / "landing")).put_settings(
        TableRef.parse(TABLE), key="id", columns=[("id", "string"), ("n", "decimal(5,2)")]
    )
    big = "12345678901234567890123456789012345678"
    done, said = told(run, tmp_path, sent("x", 1, 1), sent("y", 2, int(big)))
    assert done.verdict == "ok" and "1 value fits no column and is in _rest" in said[0], said
    assert rows_of(tmp_path, "id, n::varchar, _rest") == [("x", "1.00", None), ("y", None, f'{{"n": {big}}}')]


def message(operation: str, data: dict, table: str = "customer", before: dict | None = None, **more: object) -> bytes:
    "As DMS writes to Kinesis."
    kind = "control" if "control" in more else "data"
    about = {
        "timestamp": "2026-11-20T09:30:00.123456Z",
        "record-type": kind,
        "operation": operation,
        "partition-key-type": "primary-key",
        "schema-name": "shop",
        "table-name": table,
    }
    return json.dumps({**({"data": data} if kind == "data" else more), **({"before-image": before} if before else {}), "metadata": about}).encode()


def test_messages_of_dms_are_followed_in_their_order_with_changed_keys_and_typed_by_what_it_tells_of_the_table(run, tmp_path):
    columns = {"id": {"type": "INT32"}, "paid": {"type": "BOOLEAN"}, "day": {"type": "DATE"}, "made": {"type": "DATETIME"}, "n": {"type": "NUMERIC"}}
    kinesis, said = Kinesis(1), []
    row = lambda id, **more: {"id": id, "paid": False, "day": "2026-11-20", "made": "2026-11-20T09:30:00.5Z", "n": 1.10, **more}
    windows = [
        [
            message("create-table", {}, control={"table-def": {"columns": columns}}),
            message("load", row(1)),
            message("load", row(2)),
            message("load", {"id": 5}, "supplier"),
            message("insert", row(3)),
        ],
        [
            message("update", row(7, paid=True), before={"id": 1}),
            message("insert", row(1, n=2.5)),
            message("delete", {"id": 2}),
            message("update", row(3)),
            message("update", row(3, n=99.25)),
        ],
        [message("truncate-table", {}, control={})],
    ]
    done = []
    for window in windows:
        for data in window:
            kinesis.put("shard-0", data)
        done.append(run(kinesis, say=said.append))
    assert [one.verdict for one in done] == ["ok", "ok", "attention"], [one.words for one in done]
    assert "the source has emptied the table shop.customer; the lake keeps its rows" in done[2].words and "1 of other tables" in said[0]
    day, at = date(2026, 11, 20), datetime(2026, 11, 20, 9, 30, 0, 500_000)
    assert rows_of(tmp_path, "id, paid, day, made::timestamp, n") == [
        (1, False, day, at, "2.5"),
        (3, False, day, at, "99.25"),
        (7, True, day, at, "1.1"),
    ]


def test_what_the_table_held_before_the_stream_is_loaded_once_from_an_export_and_changes_go_on_top(run, tmp_path, monkeypatch):
    kinesis, export = Kinesis(1), tmp_path / "export" / "data"
    export.mkdir(parents=True)
    held = {"old": 1, "changed": 3, "gone": 7}  # changed: its last change is not in the export; gone: it is removed afterwards
    lines = [
        json.dumps({"Item": {"id": {"S": key}, "n": {"N": str(n)}, **({"vip": {"BOOL": True}} if key == "gone" else {})}}).encode()
        for key, n in held.items()
    ]
    for part, some in enumerate((lines[:1], lines[1:])):
        (export / f"{part}.json.gz").write_bytes(gzip.compress(b"\n".join(some)))
    for data in (sent("changed", 1, 2), sent("changed", 2, 3, 2), sent("changed", 3, 4, 3), sent("new", 4, 5)):
        kinesis.put("shard-0", data)
    kinesis.put(
        "shard-0",
        json.dumps(
            {"eventName": "REMOVE", "dynamodb": {"ApproximateCreationDateTime": (START + 5_000) // 1000, "Keys": {"id": {"S": "gone"}}}}
        ).encode(),
    )
    monkeypatch.setattr("dmscdc.stream.first._AT_ONCE", 1)
    with monkeypatch.context() as patch:
        real = put_table
        patch.setattr(
            "dmscdc.stream.first.put_table",
            lambda landing, table, name, data: (
                (_ for _ in ()).throw(KeyboardInterrupt) if name == "LOAD00000003.parquet" else real(landing, table, name, data)
            ),
        )
        with pytest.raises(KeyboardInterrupt):
            run(kinesis, load=str(export.parent))
    assert lake(tmp_path) == []
    (export / "1.json.gz").unlink()  # fewer items now than files that were left
    assert run(kinesis).verdict == "ok" and lake(tmp_path) == [("changed", "4"), ("new", "5"), ("old", "1")]
    assert run(kinesis, load=str(export.parent)).verdict == "nothing" and lake(tmp_path) == [("changed", "4"), ("new", "5"), ("old", "1")]
    with pytest.raises(BadSetting, match="the landing has files of it"):
        follow("others", TABLE, *places(tmp_path), run, drain=True, client=kinesis, load=str(export.parent))


def test_staged_files_may_go_after_some_days_and_the_table_goes_on(run, tmp_path, monkeypatch):
    kinesis, said, day = Kinesis(1), [], 86_400_000_000
    monkeypatch.setattr("dmscdc.stream.follow._MANIFESTS", 2)
    for number, (data, left) in enumerate(
        [(sent("a", 1, 1), 1), (sent("b", 4 * day, 2), 2), (sent("a", 10 * day, 3, 1), 1), (sent("a", 10 * day - 5, 2, 1), 2)]
    ):
        kinesis.put("shard-0", data)
        done = run(kinesis, days=5, say=said.append)
        assert done.verdict == "ok", done.words
        assert len(list((tmp_path / "landing/shop/customer").iterdir())) == left, number
    assert lake(tmp_path) == [("a", "3"), ("b", "2")] and any("2 staged files older than 5 days deleted" in line for line in said), said
    assert len(list(tmp_path.glob("lake/_dmscdc/_streams/**/*.json"))) <= 3
    with pytest.raises(BadSetting, match="at least 3 days"):
        run(kinesis, days=1)


def test_a_table_with_a_past_is_followed_by_the_commands_of_the_page_and_asked_about_like_any_table(spark, tmp_path, monkeypatch):
    with ministack("dynamodb,kinesis") as address, usual(monkeypatch, AWS_ENDPOINT_URL=address):
        dynamo, kinesis, rng = boto3.client("dynamodb"), boto3.client("kinesis"), random.Random(11)
        kinesis.create_stream(StreamName="customers", ShardCount=2)
        attributes = [{"AttributeName": "line", "AttributeType": "N"}, {"AttributeName": "id", "AttributeType": "S"}]
        dynamo.create_table(
            TableName="customer",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "line", "KeyType": "RANGE"}],
            AttributeDefinitions=attributes,
            BillingMode="PAY_PER_REQUEST",
        )
        key = lambda n: {"id": {"S": f"c{n // 4}"}, "line": {"N": str(n % 4)}}
        for n in range(0, 1_000, 25):  # before the stream
            dynamo.batch_write_item(
                RequestItems={"customer": [{"PutRequest": {"Item": {**key(one), "n": {"N": str(one)}}}} for one in range(n, n + 25)]}
            )
        dynamo.enable_kinesis_streaming_destination(
            TableName="customer", StreamArn=kinesis.describe_stream(StreamName="customers")["StreamDescription"]["StreamARN"]
        )
        write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
        (tmp_path / "landing").mkdir()

        def typed(*words: str) -> tuple[int, str]:
            done = CliRunner().invoke(app, [*words, "--folder", str(tmp_path)])
            assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
            return done.exit_code, " ".join(done.output.split())

        def change() -> None:
            for _ in range(15):
                one = key(rng.randrange(1_010))
                if rng.random() < 0.25:
                    dynamo.delete_item(TableName="customer", Key=one)
                else:
                    dynamo.put_item(TableName="customer", Item={**one, "n": {"N": str(rng.randrange(1000))}, "email": {"S": "e@example.org"}})

        def is_right() -> bool:
            rows = query(f"select id, line, n from read_parquet('{tmp_path}/lake/shop/customer/**/*.parquet', union_by_name=true) order by all")
            return rows == sorted(
                (item["id"]["S"], item["line"]["N"], item["n"]["N"])
                for page in dynamo.get_paginator("scan").paginate(TableName="customer")
                for item in page["Items"]
            )

        change()
        code, said = typed(*COMMANDS[1][1:], "--load", "dynamodb:customer", "--metadata", "shard,sequenceNumber")
        assert code == 0 and is_right(), said
        change()  # while nobody reads
        with monkeypatch.context() as patch:  # killed between files and manifest
            patch.setattr("dmscdc.stream.follow.keep", lambda *given: (_ for _ in ()).throw(SystemExit(137)))
            assert typed(*COMMANDS[1][1:])[0] == 137
        code, said = typed(*COMMANDS[1][1:])
        assert code == 0 and is_right(), said
        code, said = typed("runs", "list", "--json")
        ran = [run for run in json.loads(said) if run["job"] == "process_table"]
        assert len(ran) == 2 and all(run["verdict"] == "ok" for run in ran), ran  # a report of each window that changed something, and no more
        read = json.loads(typed("runs", "show", ran[-1]["run"], "--json")[1])["records"]["stream"]
        assert 0 < read["records"] <= 15 and read["records"] == sum(shard["records"] for shard in read["shards"])
        front = " ".join((tmp_path / "runs" / "index.html").read_text(encoding="utf-8").split())
        assert "at the end of the stream customers" in front
        change()
        job = run_notebook("stream", {"folder": str(tmp_path), "stream": "customers", "table": TABLE}, runs=tmp_path / "runs")
        assert job.verdict == "ok" and is_right(), job.words
        changed = next(item for item in dynamo.scan(TableName="customer")["Items"] if "email" in item)
        code, said = typed("history", TABLE, "--key", f"id={changed['id']['S']}", "--key", f"line={changed['line']['N']}")
        assert code == 0 and "matches the raw files" in said and "_record_shard shardId-00000000000" in said, said  # to record and shard
        compare = re.search("`dmscdc (reconcile .* --source dynamodb:.*?)`", README)[1].split()
        code, said = typed(*compare)
        assert code == 0 and "equal as of" in said, said
        dynamo.put_item(TableName="customer", Item={**key(3), "n": {"N": "1.25"}, "more": {"M": {"b": {"B": b"\x00"}}}})
        proof = prove(ProofRequest(TableRef.parse(TABLE), *places(tmp_path), "dynamodb:"), lambda: spark)  # by the lake's name
        assert proof.verdict == "attention" and "1 different: id=c0,line=3 (" in proof.words, proof.words
        code, said = typed("stream", "--stream", "nowhere", "--table", TABLE, "--drain")
        assert code == 2 and "nowhere" in said


@pytest.mark.torture
def test_the_story_of_a_stream_with_a_true_table_of_dynamodb(spark, tmp_path, monkeypatch):
    def by_hand(config, stream, table, **more):
        "Windows applied by the Spark of the tests."
        return follow(
            stream,
            table,
            config.landing,
            config.lake,
            config.state,
            lambda: process_table(table, config.landing, config.lake, config.state, quiet_period=0.0, spark=lambda: spark),
            **more,
        )

    said = []
    monkeypatch.setattr("dmscdc.stream.example.prove", lambda asked: prove(asked, lambda: spark))
    with in_ministack(command()) as place:
        proof = tell_stream(tmp_path / "customers", said.append, place, by_hand)
        email = {item["id"]["S"]: item.get("email", {}).get("S") for item in place.items()}
    assert proof.done.is_equal and "    shop.customer: equal, 124 rows" in said and proof.done.source.rows == 124
    lake = query(f"select id, email from read_parquet('{tmp_path}/customers/lake/shop/customer/**/*.parquet', union_by_name=true)")
    assert dict(lake) == email and len(email) == 124
    opened = executed(
        Path(__file__).parents[2] / "notebooks/explore/row_history.ipynb",
        {"folder": str(tmp_path / "customers"), "table": TABLE, "key": {"id": "1017"}},
        tmp_path / "opened.ipynb",
        Watch(),
        {},
    )
    assert opened is None and "matches the raw files" in (tmp_path / "opened.ipynb").read_text()
