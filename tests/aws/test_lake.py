"The commit of plain Parquet on a bucket: races, deaths at every request, and answers that fail. Files of text stand for Parquet."

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from botocore.httpsession import URLLib3Session
from moto.s3.models import s3_backends

from dmscdc.changes.partition_runners import get_text, put_text
from dmscdc.errors import AlreadyExists, CommitConflict, UnsupportedStore
from dmscdc.lake.parquet.transaction_log import LakeFile, TransactionLog, commit, name_prefix, recover, urls_by_base
from dmscdc.storage.filesystem import client, files_in
from dmscdc.storage.log_store import BucketLogStore, LogStore, check_boto3, open_store

pytestmark = pytest.mark.proof

ODD = "dms 2019/a+b %20c/ü"  # a prefix with odd characters


class Killed(Exception):
    "The writer died here."


class Wire:
    "What goes over the wire to S3, by number; `fault` may do something about a request."

    def __init__(self):
        self.asked, self.fault = [], lambda number, operation, request: None
        client("s3").meta.events.register("before-send.s3", self.before)
        client("s3").meta.events.register("response-received.s3", self.after)
        self.after_number = 0

    def before(self, request, event_name, **_):
        operation = event_name.split(".")[-1]
        self.asked.append(operation)
        return self.fault(len(self.asked), operation, request)

    def after(self, **_):
        if self.after_number and len(self.asked) == self.after_number:
            raise Killed


class Lake:
    "A table whose files hold one word a row."

    def __init__(self, bucket: str, prefix: str = "lake"):
        self.store = BucketLogStore(bucket, prefix)
        self.transaction_log = TransactionLog(self.store, "shop/item", "_dmscdc/shop/item")

    def write(self, attempt: str, adds: dict[str, str], removes=(), position=""):
        "One writer: read the head, settle, read the table, write aside, commit."
        head = self.transaction_log.head()
        recover(self.transaction_log, head)
        if head:
            urls_by_base(self.transaction_log, head)
        return self.step(head, attempt, adds, removes, position)

    def step(self, head, attempt, adds, removes=(), position=""):
        prefix, files = name_prefix(head.number + 1 if head else 1, attempt), []
        for name, words in adds.items():
            files.append(LakeFile(f"{prefix}-{name}.parquet", f"{prefix}/{name}.parquet", len(words.split()), len(words)))
            put_text(self.store.path(f"{self.transaction_log.staging_folder}/{files[-1].aside}"), words)
        gone = [f.name for f in (head.files if head else ()) if f.name.split("-")[-1][:-8] in removes]
        return commit(self.transaction_log, head, attempt, files, gone, {"position": position, "run": attempt})

    def listed(self):
        return {f"shop/item/{f.name}" for f in self.transaction_log.head().files} if self.transaction_log.head() else set()

    def folder(self):
        return set(self.store.list("shop/item"))

    def words(self):
        return sorted(" ".join(get_text(self.store.path(name)) for name in self.folder()).split())

    def all_keys(self):
        return [
            one["Key"]
            for page in client("s3").get_paginator("list_objects_v2").paginate(Bucket=self.store.bucket, Prefix=f"{self.store.prefix}/")
            for one in page.get("Contents", ())
        ]

    def is_right(self, words: str):
        assert self.folder() == self.listed() and self.words() == sorted(words.split())
        assert self.store.list(self.transaction_log.staging_folder) == []


def loaded(lake: Lake):
    lake.write("a1", {"one": "a b", "two": "c", "three": "d e"}, position="load")
    return lake


def fill(bucket: str, keys: list[str]) -> None:
    "Many small objects, past the wire."
    for key in keys:
        s3_backends["123456789012"]["aws"].put_object(bucket, key, b"{}")


# Requests


def test_a_store_in_a_bucket_answers_as_a_folder_does(bucket, tmp_path):
    for store in (open_store(f"s3://{bucket}/{ODD}/"), open_store(f"s3a://{bucket}"), open_store(str(tmp_path))):
        assert store.list("box") == [] and store.last("box/journal") == 0
        store.create("box/journal/000000000001.json", b"{}")
        with pytest.raises(AlreadyExists):
            store.create("box/journal/000000000001.json", b"other")
        assert store.read("box/journal/000000000001.json") == b"{}" and store.last("box/journal") == 1
        put_text(store.path("box/aside/day=a%2Fb +ü/x.parquet"), "x")
        assert store.copy("box/aside/day=a%2Fb +ü/x.parquet", "box/day=a%2Fb +ü/x.parquet") and not store.copy("box/aside/none", "box/y")
        assert store.list("box/day=a%2Fb +ü") == ["box/day=a%2Fb +ü/x.parquet"] and get_text(store.path("box/day=a%2Fb +ü/x.parquet")) == "x"
        assert [name.rpartition("/")[2] for name in files_in(store.path("box/day=a%2Fb +ü"))] == ["x.parquet"]
        store.delete("box/day=a%2Fb +ü/x.parquet"), store.delete("box/day=a%2Fb +ü/x.parquet")
        assert not store.list("box/day=a%2Fb +ü")


def test_nothing_but_files_is_put_into_a_bucket(bucket):
    lake = loaded(Lake(bucket))
    assert not [key for key in lake.all_keys() if key.endswith("/")] and len(lake.all_keys()) == 3 + 2


def test_the_last_entry_of_a_long_journal_is_found_by_few_requests(bucket):
    lake, wire = Lake(bucket), Wire()
    fill(bucket, [f"lake/{lake.transaction_log.entry_name(n)}" for n in range(1, 2401)])
    assert lake.transaction_log.newest() == 2400 and len(wire.asked) <= 5


def test_what_dead_attempts_left_is_tidied_and_strangers_stay(bucket):
    lake = loaded(Lake(bucket))
    for name in (
        "000000000001-dead/rows/_SUCCESS",
        "000000000001-dead/rows/",
        "000000000001-dead/x.parquet",
        "000000000002-a2/x.parquet",
        "notes.txt",
    ):
        client("s3").put_object(Bucket=bucket, Key=f"lake/{lake.transaction_log.staging_folder}/{name}", Body=b"")
    assert recover(lake.transaction_log, lake.transaction_log.head()) == [
        f"{lake.transaction_log.staging_folder} holds notes.txt, which no commit of ours wrote; readers that list this folder read more than the table"
    ]
    assert [key.partition("aside/")[2] for key in lake.all_keys() if "aside/" in key] == ["000000000002-a2/x.parquet", "notes.txt"]


def test_a_table_at_rest_costs_few_requests_and_a_bucket_with_versions_gets_no_marks(bucket):
    client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    lake = loaded(Lake(bucket))
    lake.write("b2", {"four": "f"}, ("one",))
    marks = lambda: len(client("s3").list_object_versions(Bucket=bucket).get("DeleteMarkers", []))
    before, wire = marks(), Wire()
    recover(lake.transaction_log, lake.transaction_log.head())
    assert marks() == before and set(wire.asked[:-1]) == {"ListObjectsV2", "GetObject"} and len(wire.asked) <= 7


# Writers


def test_of_sixteen_writers_one_wins_each_commit(strict):
    lake, gate = loaded(Lake(strict)), Barrier(16)
    head = lake.transaction_log.head()

    def race(i: int):
        gate.wait()
        try:
            return lake.step(head, f"b{i:x}", {"new": f"w{i}"}, ("one",)).attempt
        except CommitConflict as error:
            return error

    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(race, range(16)))
    winners = [one for one in said if isinstance(one, str)]
    assert len(winners) == 1 and lake.transaction_log.numbers() == [1, 2] and lake.transaction_log.head().attempt == winners[0]
    lake.write("c3", {})
    lake.is_right(f"c d e w{int(winners[0][1:], 16)}")


KINDS = {  # what the writer adds and removes, the rows after
    "incremental": ({"four": "A b", "five": "f"}, ("one",), "A b c d e f"),
    "deletes only": ({}, ("one", "two"), "d e"),
}


@pytest.mark.torture
@pytest.mark.parametrize("kind, when", [("incremental", "before"), ("incremental", "after"), ("deletes only", "after")])
def test_a_writer_killed_at_any_request_is_healed_by_the_next_pass(bucket, kind, when, monkeypatch):
    monkeypatch.setattr(BucketLogStore, "parallel_requests", 1)  # so that each request has its number
    adds, removes, after = KINDS[kind]
    point, done, wire = 0, False, Wire()
    while not done:
        lake, point = loaded(Lake(bucket, f"lake{point}")), point + 1
        wire.asked.clear()
        if when == "before":

            def fault(number, operation, request, last=point):
                if number == last:
                    raise Killed

            wire.fault = fault
        else:
            wire.after_number = point
        try:
            done = bool(lake.write("b2", adds, removes, "changes"))
        except Killed:
            pass
        wire.fault, wire.after_number = (lambda *_: None), 0
        head = lake.transaction_log.head()
        recover(lake.transaction_log, head)
        made = head.attempt == "b2"
        assert lake.folder() == lake.listed() and lake.words() == sorted((after if made else "a b c d e").split()), point
        assert head.facts["position"] == ("changes" if made else "load"), point
        lake.write("c3", {})
        lake.is_right(after if made else "a b c d e")
    assert point > 10, "every request of the writer was a place to die"


# Faults of S3


def answer(status: int, code: str):
    "An answer of S3 without S3."
    body = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()

    class Raw:
        def stream(self, **_):
            yield body

    return lambda request: AWSResponse(request.url, status, {}, Raw())


def reset(request):
    raise ConnectionClosedError(endpoint_url=request.url)


def time_out(request):
    raise ReadTimeoutError(endpoint_url=request.url)


def lost(request):
    "It is done, and nobody hears of it."
    URLLib3Session().send(request)
    raise ConnectionClosedError(endpoint_url=request.url)


FAULTS = {
    "503 SlowDown": answer(503, "SlowDown"),
    "time-out": time_out,
    "connection reset": reset,
    "answer lost": lost,
    "500": answer(500, "InternalError"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_that_passes_is_not_seen(bucket, kind):
    lake, wire, hit = loaded(Lake(bucket)), Wire(), set()

    def fault(number, operation, request):
        if operation not in hit:
            hit.add(operation)
            return FAULTS[kind](request)

    wire.fault = fault
    assert lake.write("b2", {"four": "A b"}, ("one",), "changes").number == 2
    assert hit == {"ListObjectsV2", "GetObject", "HeadObject", "PutObject", "CopyObject", "DeleteObject"}
    lake.is_right("A b c d e")


@pytest.mark.parametrize("operation", ["ListObjectsV2", "GetObject", "HeadObject", "PutObject", "CopyObject", "DeleteObject"])
def test_a_fault_that_stays_is_a_clear_error_and_the_next_pass_is_right(bucket, operation):
    lake, wire = loaded(Lake(bucket)), Wire()
    head = lake.transaction_log.head()
    wire.fault = lambda number, asked, request: answer(403, "AccessDenied")(request) if asked == operation else None
    if operation in ("ListObjectsV2", "GetObject"):
        with pytest.raises(ClientError, match=f"AccessDenied.*{operation}"):
            lake.write("b2", {})
    else:
        with pytest.raises(ClientError, match=f"AccessDenied.*{operation}"):
            lake.step(head, "b2", {"four": "A b"}, ("one",), "changes")
    wire.fault = lambda *_: None
    made = operation in ("CopyObject", "DeleteObject")  # the entry was there
    assert (lake.transaction_log.newest() == 2) == made
    lake.write("c3", {})
    lake.is_right("A b c d e" if made else "a b c d e")


def test_a_listing_that_fails_on_its_third_page_is_no_listing(bucket):
    lake, wire = loaded(Lake(bucket)), Wire()
    fill(bucket, [f"lake/shop/item/x{n}.parquet" for n in range(2100)])
    wire.asked.clear()
    wire.fault = lambda number, *_: answer(403, "AccessDenied")(_[1]) if number == 3 else None
    with pytest.raises(ClientError, match="AccessDenied"):
        lake.store.list("shop/item")
    assert wire.asked == ["ListObjectsV2"] * 3


def test_a_conflict_is_asked_again_until_somebody_has_won(bucket):
    lake, wire, hit = loaded(Lake(bucket)), Wire(), []

    def fault(number, operation, request):
        if operation == "PutObject" and "/journal/" in request.url and len(hit) < 3:
            hit.append(number)
            return answer(409, "ConditionalRequestConflict")(request)

    wire.fault = fault
    assert lake.write("b2", {"four": "A b"}, ("one",)).number == 2 and len(hit) == 3
    lake.is_right("A b c d e")


@pytest.mark.parametrize("way", ["overlooks", "refuses"])
def test_a_store_without_conditional_puts_is_refused_before_the_first_commit(bucket, way):
    lake, wire = Lake(bucket), Wire()

    def fault(number, operation, request):
        if "If-None-Match" not in request.headers:
            return None
        if way == "refuses":
            return answer(501, "NotImplemented")(request)
        del request.headers["If-None-Match"]
        return URLLib3Session().send(request)

    wire.fault = fault
    with pytest.raises(UnsupportedStore, match="in spite of If-None-Match" if way == "overlooks" else "no conditional put"):
        lake.write("a1", {"one": "a"})
    wire.fault = lambda *_: None
    assert lake.transaction_log.head() is None and lake.folder() == set()


def test_a_boto3_that_cannot_put_under_a_condition_is_refused_before_anything_is_done(aws, monkeypatch):
    check_boto3.cache_clear()
    monkeypatch.delitem(client("s3").meta.service_model.operation_model("PutObject").input_shape.members, "IfNoneMatch")
    with pytest.raises(UnsupportedStore, match=r"boto3 [\d.]+ cannot commit to S3: .*pip install 'boto3>=1.35.69'"):
        open_store("s3://bucket/lake")
    assert isinstance(open_store("/lake"), LogStore)
    monkeypatch.undo()
    assert isinstance(open_store("s3://bucket/lake"), BucketLogStore)
