"Tables and schemas of every name that DMS can write, in every question: each is told from its own files and its own lake, whatever lies beside it."

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from awkward import TABLES
from dmscdc.history.as_of import as_known
from dmscdc.history.audit import AGREES, audit_row
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.span import landed
from dmscdc.landing.files import TableRef
from dmscdc.reconcile.explain import ProofRequest, prove
from dmscdc.scd2.update import read_versions, update_versions
from engines import as_of, feed
from world import World

pytestmark = pytest.mark.torture

ODD = ".#%*?[{\\+:=' \"_"  # what a file system, an address or a pattern may take for something else
HARD = list(dict.fromkeys(next(names for names in TABLES if character in "".join(names)) for character in ODD)) + [("shop", "%2F"), ("x.y", "z")]
BESIDE = (("shop", "axby"), ("shop", "0"), ("shop", "x"), ("x", "y.z"))  # what a pattern or a part of a name would find instead


def rows_of(frame: Any) -> dict[int, str]:
    return {row["id"]: row["name"] for row in frame.collect()}


class SyncResult(World):
    "A load of two rows, one that changes and one that goes, and an insert; texts have the table's number."

    number = 0

    @property
    def past(self):
        return open_changelog(str(self.landing), self.ref)

    @property
    def now(self) -> dict[int, str]:
        return {1: f"changed in {self.number}", 3: f"new in {self.number}"}

    def put(self) -> SyncResult:
        begin = datetime(2018, 12, 15, 9, 59, tzinfo=timezone.utc)
        self.load([(1, f"load of {self.number}"), (2, f"gone from {self.number}")], time=begin)
        self.changes(1, [("U", 1, self.now[1]), ("D", 2, None), ("I", 3, self.now[3])], time=begin + timedelta(minutes=2))
        return self.set(key="id")


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory) -> list[SyncResult]:
    "All in one landing and one lake; asked about are those of hard names."
    root, told = tmp_path_factory.mktemp("names"), []
    for number, names in enumerate((*HARD, *BESIDE)):
        told.append(SyncResult(root, spark, {"id": "int", "name": "string"}, str(TableRef(*names))))
        told[-1].number = number
        assert told[-1].put().go().verdict == "ok"
    assert len({str(one.raw) for one in told}) == len(HARD) + len(BESIDE) and len(HARD) > 12
    return told[: len(HARD)]


def test_every_table_is_told_as_of_then_and_row_by_row(tables, spark):
    for one in tables:
        assert rows_of(as_of(spark, one.past, ["id"]).rows) == one.now, one.ref
        for key, name in {1: one.now[1], 2: None}.items():
            (audit,), _ = audit_row(str(one.landing), one.lake_table, {"id": str(key)}, key=("id",))
            assert (audit.life.state or {}).get("name") == name and len(audit.life.steps) == 2, one.ref


def test_a_feed_of_every_table_tells_its_own_changes(tables, spark):
    for one in tables:
        told = feed(spark, one.past, ["id"], landed(upto(one.past, "load"))).rows.collect()
        assert {(row["_change_type"], row["name"]) for row in told} == {
            ("update_preimage", f"load of {one.number}"),
            ("update_postimage", one.now[1]),
            ("delete", f"gone from {one.number}"),
            ("insert", one.now[3]),
        }, one.ref


def test_the_lake_of_every_table_is_read_as_a_commit_knew_it_and_agrees_with_its_history(tables, spark):
    for one in tables:
        assert rows_of(as_known(spark, one.lake_table, 2, lambda: one.past).rows) == one.now, one.ref
        (audit,), _ = audit_row(str(one.landing), one.lake_table, {"id": "1"})
        assert audit.verdict == AGREES, (one.ref, audit.why)


def test_versions_of_every_table_are_its_own_and_go_on(tables, spark):
    for one in tables:
        assert update_versions(*one.places, landed=True, quiet_period=0, spark=lambda: spark).verdict == "ok"
        versions = read_versions(spark, one.table, str(one.root / "lake")).collect()
        assert {(row["id"], row["name"], row["is_current"]) for row in versions} == {
            (1, f"load of {one.number}", False),
            (1, one.now[1], True),
            (2, f"gone from {one.number}", False),
            (3, one.now[3], True),
        }, one.ref


def test_every_table_is_reconciled_with_its_own_source(tables, spark):
    for one in tables:
        path = one.root / f"source {one.number}.db"
        with closing(sqlite3.connect(path)) as db, db:
            named = '"' + one.ref.name.replace('"', '""') + '"'
            db.execute(f"create table {named} (id int, name text)")
            db.executemany(f"insert into {named} values (?, ?)", one.now.items())
        asked = ProofRequest(one.ref, str(one.landing), str(one.root / "lake"), one.places[3], f"sqlite:{path}")
        done = prove(asked, lambda: spark)
        assert (done.verdict, done.done.lake.rows) == ("ok", 2), (one.ref, done.words)
