"The story of a table with its lake in a bucket: load, changes, a late file, a reload. Tasks have no access but the one that travels with them."

from __future__ import annotations

import subprocess
import sys
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, repeat
from socket import SHUT_RDWR

import boto3
import pytest
from botocore.exceptions import ClientError
from pyspark.errors import PythonException
from test_lake import Killed, Wire, answer

from aws.worlds import SCHEMA, BucketWorld
from dmscdc.storage.filesystem import client

pytestmark = pytest.mark.proof


@pytest.fixture
def w(spark, bucket, tmp_path):
    "The session was started without access to AWS, or with another one."
    return BucketWorld(tmp_path, spark, SCHEMA, lake_url=f"s3a://{bucket}/lake +ü").set(key="id")


@pytest.mark.parametrize("landing", ["folder", "bucket"])
def test_load_changes_a_late_file_and_a_reload_in_a_bucket_equal_the_replay(w, bucket, landing):
    if landing == "bucket":
        w.landing_url = f"s3://{bucket}/raw +ü%20(1)"
    by_key = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": boto3.client("kms").create_key()["KeyMetadata"]["Arn"]}  # as the shared stack sets it
    boto3.client("s3").put_bucket_encryption(
        Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": by_key, "BucketKeyEnabled": True}]}
    )
    w.load([(i, f"name {i}", "a") for i in range(1, 9)]).load([(20, "x", "b")], number=2)
    done = w.go()
    assert (done.verdict, done.commit, done.rows["inserted"]) == ("ok", 1, 9), done.words
    assert w.equals_the_replay()
    w.changes(1, [("U", 1, "uno", "a"), ("D", 2, None, None), ("I", 30, "thirty", "c")]).changes(5, [("U", 3, "drei", "b"), ("U", 1, "eins", "b")])
    assert w.go().verdict == "ok" and w.equals_the_replay()
    before = w.files()
    assert w.idle().verdict == "nothing" and w.files() == before
    w.changes(3, [("U", 1, "late", "z"), ("U", 4, "late", "z"), ("D", 30, None, None)])
    done = w.go()
    assert [f["kind"] for f in done.files] == ["late", "again"] and w.equals_the_replay()
    w.changes(7, [("I", 40, "forty", "d", 7)], {**SCHEMA, "stock": "int"})
    assert w.go().schema and w.lake("id, stock")[-1] == (40, 7) and w.settled()
    w.load([(1, "again", "q"), (5, "five", "q"), (6, "another size", "q")])
    w.sent.clear()
    w.state.instruct(w.ref, {"kind": "reload", "changes": "supersede"})
    assert w.go().verdict == "ok" and w.settled()
    assert [row[:2] for row in w.lake("id, name, _cdc_file") if row[2].startswith("LOAD00000001")] == [(1, "again"), (5, "five"), (6, "another size")]
    kept = [boto3.client("s3").head_object(Bucket=bucket, Key=one["Key"]) for one in boto3.client("s3").list_objects_v2(Bucket=bucket)["Contents"]]
    assert len(kept) > 5 and {(one.get("ServerSideEncryption"), one.get("SSEKMSKeyId")) for one in kept} == {("aws:kms", by_key["KMSMasterKeyID"])}


def test_a_pass_that_dies_at_a_put_or_a_copy_is_made_good_by_the_next(w):
    w.load([(i, f"name {i}", "a") for i in range(1, 5)])
    assert w.go().verdict == "ok"
    for number, operation in enumerate(["PutObject", "CopyObject", "DeleteObject", "ListObjectsV2"], 1):
        wire = Wire()
        w.changes(number, [("U", 1, f"after {operation}", "a"), ("I", 10 + number, "new", "a")])

        def die(_, asked, request, operation=operation):
            if asked == operation:
                raise Killed

        wire.fault = die
        with pytest.raises(Killed):
            w.go()
        wire.fault = lambda *_: None
        done = w.go()
        assert done.verdict in ("ok", "nothing") and w.equals_the_replay(), operation


def test_a_fault_that_stays_ends_the_pass_with_the_word_of_s3_and_the_next_is_right(w):
    w.load([(1, "one", "a")])
    wire = Wire()
    wire.fault = lambda _, asked, request: answer(403, "AccessDenied")(request) if asked == "PutObject" else None
    with pytest.raises(ClientError, match="AccessDenied"):
        w.go()
    wire.fault = lambda *_: None
    assert w.go().verdict == "ok" and w.equals_the_replay()


class Unreliable(BaseHTTPRequestHandler):
    """S3 behind a bad line, for boto3 and pyarrow alike: every fifth request is answered 503, cut off, or done and never answered."""

    protocol_version, target, count, turns = "HTTP/1.1", "", count(1), {5: "slow down", 10: "cut", 15: "lost"}

    def serve(self):
        body = self.body()
        fault = self.turns.get(next(self.count) % 16)
        if fault == "cut":
            return self.cut()
        if fault == "slow down":
            return self.answer(
                503, {"Content-Type": "application/xml"}, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            )
        line = HTTPConnection(self.target)
        line.request(
            self.command,
            self.path,
            body,
            {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "expect", "transfer-encoding", "content-length")},
        )
        said = line.getresponse()
        content = said.read()
        if fault == "lost":
            return self.cut()
        self.answer(said.status, dict(said.getheaders()), content, said.getheader("Content-Length"))

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = iter(lambda: self.rfile.read(int(self.rfile.readline(), 16) + 2)[:-2], b"")
        return b"".join(parts)

    def cut(self):
        self.close_connection = True
        self.connection.shutdown(SHUT_RDWR)

    def answer(self, status, headers, content, length=None):
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" and length else str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = serve

    def log_message(self, *_):
        pass


@pytest.fixture
def bad_line(aws, monkeypatch):
    "From now on all requests go over it."
    server = ThreadingHTTPServer(("127.0.0.1", 0), Unreliable)
    Unreliable.target, Unreliable.count = aws.removeprefix("http://"), count(1)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def connect():
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        client.cache_clear()

    yield connect
    server.shutdown()
    server.server_close()


def passes(w) -> list[Exception]:
    "Passes until one comes through; the errors of the others. pyarrow sends a read that was cut off no second time."
    errors = []
    while True:
        try:
            done = w.go()
        except (OSError, PythonException) as error:
            errors.append(error)
            assert "AWS Error" in str(error) and len(errors) < 5, error
        else:
            assert done.verdict in ("ok", "nothing"), done.words
            return errors


def test_over_a_bad_line_the_passes_come_through_or_the_next_one_does_and_the_table_is_right(w, bad_line):
    bad_line()
    w.load([(i, f"name {i}", "a") for i in range(1, 5)])
    passes(w)
    for number in range(1, 4):
        w.changes(number, [("U", number, f"pass {number}", "a"), ("I", 10 + number, "new", "a"), ("D", number - 1, None, None)])
        passes(w)
    assert next(Unreliable.count) > 100
    client.cache_clear()
    Unreliable.count = repeat(0)  # the line is mended
    assert w.equals_the_replay()


def test_a_process_that_has_asked_s3_ends_quietly(w):
    w.load([(1, "one", "a")])
    w.go()
    code = "import sys; from dmscdc.lake.parquet.table import ParquetTable; from dmscdc.landing.files import TableRef; from dmscdc.storage.filesystem import fs_and_path\nt = ParquetTable(sys.argv[1], TableRef('shop', 'item')); fs, p = fs_and_path(t.location); print(t.head().number, len(fs.get_file_info(__import__('pyarrow.fs').fs.FileSelector(p))))"
    run = subprocess.run([sys.executable, "-c", code, w.lake_url], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1 1\n", "")


def test_nothing_that_is_written_holds_a_secret(w, bucket, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDSECRET1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "verysecret2")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "tokensecret3")
    client.cache_clear()
    boto3.setup_default_session()
    w.load([(1, "one", "a")]).changes(1, [("U", 1, "uno", "a")])
    kept, deleted = [], client("s3").meta.events
    deleted.register("before-send.s3", lambda request, **_: kept.append(request.body if isinstance(request.body, bytes) else b""))
    done = w.go()
    boto3.setup_default_session()
    assert done.verdict == "ok"
    store = w.lake_table.transaction_log.store
    said = repr(done).encode() + b"".join(kept) + b"".join(store.read(name) for name in store.list("_dmscdc")) + (w.root / "state.db").read_bytes()
    assert not [secret for secret in (b"AKIDSECRET1", b"verysecret2", b"tokensecret3") if secret in said]
    plan = w.spark.range(1).mapInArrow(lambda batches: batches, "id bigint")
    assert "secret" not in plan._jdf.queryExecution().toString()
