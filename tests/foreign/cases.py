"""Cases of other projects, as facts: what goes in and what must come out, written anew. Each names the repository, file and test that has it.

A case where we decide otherwise has our result as its expected one, and says why in `otherwise`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dmscdc.capture.writer import NOT_LOGGED

AUTOCDC = "apache/spark sql/pipelines/src/test/scala/org/apache/spark/sql/pipelines/autocdc"
HUDI_DMS = "apache/hudi hudi-common/src/test/java/org/apache/hudi/common/model/TestAWSDmsAvroPayload.java"
MOJ = "ministryofjustice/digital-prison-reporting-jobs src/test/java/uk/gov/justice/digital"
INGESTR = "bruin-data/ingestr"
FENCE = f"{INGESTR} tests/integration/postgres_destination_cdc_lsn_fence_test.go"
FILL = f"{INGESTR} pkg/source/postgres_cdc/cdc_fill_test.go"
AIRBYTE = "airbytehq/airbyte airbyte-cdk/bulk/core/load/src/testFixtures/kotlin/io/airbyte/cdk/load/component/TableOperationsSuite"
DLT = "dlt-hub/dlt tests/load/pipeline"
DBT = "dbt-labs/dbt-adapters dbt-tests-adapter/src/dbt/tests/adapter/simple_snapshot"
RELADIFF = "erezsh/reladiff tests"
PYICEBERG = "apache/iceberg-python tests/table/test_upsert.py"
DELTA_RS = "delta-io/delta-rs python/tests/test_merge.py"
ESTUARY = "estuary/connectors source-mysql/capture_test.go"

_ = NOT_LOGGED
Change = tuple  # op, key, value; and the place in the source's order where it is not that of the rows


@dataclass(frozen=True)
class Case:
    "Rows before, changes file by file, and what must be there afterwards."

    source: str  # repository, file, test
    load: dict[Any, Any] = field(default_factory=dict)  # value by key
    files: tuple[tuple[Change, ...], ...] = ()
    expected: Any = None
    otherwise: str = ""  # why ours is another result than theirs


# A row is one key with one value. Places in the order are given where they are not those of the rows.
APPLIED = {
    "three changes of a key in one batch": Case(
        f"{AUTOCDC}/Scd1BatchProcessorMergeSuite", {}, ((("I", 1, "a"), ("D", 1, "a"), ("I", 1, "c")),), {1: "c"}
    ),
    "a batch without changes of a key": Case(f"{AUTOCDC}/Scd1BatchProcessorMergeSuite", {1: "a"}, (), {1: "a"}),
    "a composite key that shares a part": Case(
        f"{AUTOCDC}/Scd1BatchProcessorMergeSuite",
        {("a", "x"): "1", ("a", "y"): "2"},
        ((("U", ("a", "x"), "3"),),),
        {("a", "x"): "3", ("a", "y"): "2"},
    ),
    "a key of the parts a.b and c": Case(
        f"{INGESTR} pkg/destination/cdc_test.go", {("a.b", "c"): "1", ("a", "b.c"): "2"}, ((("D", ("a.b", "c"), "1"),),), {("a", "b.c"): "2"}
    ),
    "a newer delete": Case(f"{AUTOCDC}/Scd1OutOfOrderConvergenceSuite", {1: "a"}, ((("U", 1, "b", 20), ("D", 1, "b", 30)),), {}),
    "an upsert after a delete": Case(f"{AUTOCDC}/Scd1OutOfOrderConvergenceSuite", {1: "a"}, ((("D", 1, "a", 20),), (("I", 1, "c", 30),)), {1: "c"}),
    "an older delete in the same batch": Case(f"{AUTOCDC}/Scd1OutOfOrderConvergenceSuite", {}, ((("I", 1, "c", 30), ("D", 1, "a", 20)),), {1: "c"}),
    "an older upsert in the same batch": Case(
        f"{AUTOCDC}/Scd1OutOfOrderConvergenceSuite", {}, ((("U", 1, "new", 40), ("U", 1, "old", 20)),), {1: "new"}
    ),
    "the same batch twice": Case(
        f"{AUTOCDC}/Scd1TargetTableDurabilitySuite",
        {1: "a", 2: "b"},
        ((("U", 1, "x"), ("D", 2, "b"), ("I", 3, "c")), (("U", 1, "x"), ("D", 2, "b"), ("I", 3, "c"))),
        {1: "x", 3: "c"},
    ),
    "an insert is stored": Case(f"{HUDI_DMS} testInsert", {}, ((("I", 1, "a"),),), {1: "a"}),
    "an update over an insert": Case(f"{HUDI_DMS} testUpdate", {1: "a"}, ((("U", 1, "b"),),), {1: "b"}),
    "a delete over an update": Case(f"{HUDI_DMS} testDelete", {1: "a"}, ((("U", 1, "b"),), (("D", 1, "b"),)), {}),
    "delete and insert in one batch, the delete later": Case(
        f"{HUDI_DMS} testPreCombineWithDelete", {}, ((("D", 1, "a", 20), ("I", 1, "a", 10)),), {}
    ),
    "a delete against nothing": Case(f"{HUDI_DMS} testDeleteWithEmptyPayLoad", {}, ((("D", 1, "a"),),), {}),
    "three rows of one time, by sequence": Case(
        f"{MOJ}/job/batchprocessing/CdcBatchProcessorLatestRecordsTest", {}, ((("I", 1, "a", 865), ("U", 1, "b", 869), ("U", 1, "c", 866)),), {1: "b"}
    ),
    "a load row is older than any change": Case(
        f"{MOJ}/job/batchprocessing/CdcBatchProcessorLatestRecordsTest", {1: "load"}, ((("U", 1, "change"),),), {1: "change"}
    ),
    "other keys stay": Case(
        f"{MOJ}/job/batchprocessing/CdcBatchProcessorLatestRecordsTest", {1: "a", 2: "b", 3: "c"}, ((("U", 2, "x"),),), {1: "a", 2: "x", 3: "c"}
    ),
    "a table is made by its first change": Case(
        f"{MOJ}/service/DataStorageServiceMergeRecordsIntegrationTest", {}, ((("I", 1, "a"), ("I", 2, "b")),), {1: "a", 2: "b"}
    ),
    "an insert over a row": Case(f"{MOJ}/service/DataStorageServiceMergeRecordsIntegrationTest", {1: "a"}, ((("I", 1, "b"),),), {1: "b"}),
    "an update of an unknown key": Case(f"{MOJ}/service/DataStorageServiceMergeRecordsIntegrationTest", {}, ((("U", 1, "b"),),), {1: "b"}),
    "a delete of an unknown key": Case(f"{MOJ}/service/DataStorageServiceMergeRecordsIntegrationTest", {2: "b"}, ((("D", 1, "a"),),), {2: "b"}),
    "insert, update, update, delete in one batch": Case(
        f"{MOJ}/job/cdc/TableStreamingQueryIT", {}, ((("I", 1, "a"), ("U", 1, "b"), ("U", 1, "c"), ("D", 1, "c")),), {}
    ),
    "insert, update, update, delete over batches": Case(
        f"{MOJ}/job/cdc/TableStreamingQueryIT", {}, ((("I", 1, "a"),), (("U", 1, "b"),), (("U", 1, "c"),), (("D", 1, "c"),)), {}
    ),
    "a delete that has only its key": Case(f"{MOJ}/job/cdc/TableStreamingQueryIT", {1: "a", 2: "b"}, ((("D", 1, None),),), {2: "b"}),
    "a null in a value": Case(f"{MOJ}/service/ValidationServiceTest", {1: "a"}, ((("U", 1, None),),), {1: None}),
    "insert and delete at one place": Case(FENCE, {}, ((("I", 1, "a", 20), ("D", 1, "a", 20)),), {}),
    "a delete at the place of an update": Case(FENCE, {1: "a"}, ((("U", 1, "b", 20), ("D", 1, "b", 20)),), {}),
    "the same change again": Case(FENCE, {1: "a"}, ((("U", 1, "b", 20),), (("U", 1, "b", 20),)), {1: "b"}),
    "a row of the load takes the first change": Case(FENCE, {1: "a"}, ((("U", 1, "b", 1),),), {1: "b"}),
    "a change of the key": Case(f"{INGESTR} pkg/source/postgres_cdc/expand_updates_test.go", {1: "a"}, ((("D", 1, "a"), ("I", 2, "a")),), {2: "a"}),
    "keys 1 to 6 and 4 to 7": Case(
        f"{ESTUARY} TestPrimaryKeyUpdate",
        {1: "one", 4: "four"},
        ((("D", 1, "one"), ("I", 6, "one"), ("D", 4, "four"), ("I", 7, "four")),),
        {6: "one", 7: "four"},
    ),
    "a table made again with the same keys": Case(
        f"{ESTUARY} TestDropAndRecreate", {1: "a", 2: "b"}, ((("D", 1, "a"), ("D", 2, "b"), ("I", 1, "x"), ("I", 2, "y")),), {1: "x", 2: "y"}
    ),
    "a batch of updates, inserts and deletes": Case(
        AIRBYTE,
        {1: "123", 2: "456", 3: "789", 4: "101112"},
        ((("U", 2, "86"), ("U", 3, "75"), ("D", 3, "75"), ("U", 4, "309"), ("I", 5, "309"), ("D", 5, "309")),),
        {1: "123", 2: "86", 4: "309"},
    ),
    "sort column 1, 3, 2": Case(f"{DLT}/test_merge_disposition.py", {}, ((("I", 1, "1", 1), ("U", 1, "3", 3), ("U", 1, "2", 2)),), {1: "3"}),
    "the newest is a delete": Case(f"{DLT}/test_merge_disposition.py", {}, ((("I", 1, "1", 1), ("D", 1, "3", 3), ("U", 1, "2", 2)),), {}),
    "an emoji in a value": Case(f"{DLT}/test_scd2.py", {1: "🙂"}, ((("U", 1, "🛒"),),), {1: "🛒"}),
    "rows that a source has twice": Case(
        f"{PYICEBERG} test_upsert_with_duplicate_rows_in_source",
        {},
        ((("I", 1, "a"), ("I", 1, "b")),),
        {1: "b"},
        "they refuse; two inserts of a key are what DMS writes after a restart, and the later one is what the source has",
    ),
    "a key with a blank": Case(f"{DELTA_RS} issue 4352", {"foo bar": "1"}, ((("U", "foo bar", "2"),), (("U", "foo bar", "3"),)), {"foo bar": "3"}),
    "an older change in a later batch": Case(FENCE, {1: "a"}, ((("U", 1, "new", 30),), (("U", 1, "old", 20),)), {1: "new"}),
}

# Values of two columns; `_` is one that the log did not have.
PARTIAL = {
    "each side once": Case(
        f"{AUTOCDC} SPARK-58784",
        {1: (None, None)},
        ((("U", 1, ("left-1", "right-1")), ("U", 1, ("left-2", _)), ("U", 1, (_, "right-3"))),),
        {1: ("left-2", "right-3")},
    ),
    "each side once, over batches": Case(
        f"{AUTOCDC} SPARK-58784",
        {1: (None, None)},
        ((("U", 1, ("left-1", "right-1")),), (("U", 1, ("left-2", _)),), (("U", 1, (_, "right-3")),)),
        {1: ("left-2", "right-3")},
    ),
    "an authored null beats an older value": Case(f"{AUTOCDC} SPARK-58784", {1: ("a", "b")}, ((("U", 1, (None, _)),),), {1: (None, "b")}),
    "a delete resets": Case(f"{AUTOCDC} SPARK-58784", {1: ("a", "b")}, ((("D", 1, ("a", "b")), ("I", 1, ("c", _))),), {1: ("c", None)}),
    "a delete resets, over batches": Case(
        f"{AUTOCDC} SPARK-58784", {1: ("a", "b")}, ((("D", 1, ("a", "b")),), (("I", 1, ("c", _)),)), {1: ("c", None)}
    ),
    "twice the same": Case(f"{AUTOCDC} SPARK-58784", {1: ("a", "b")}, ((("U", 1, ("x", _)),), (("U", 1, ("x", _)),)), {1: ("x", "b")}),
    "an insert, then a partial update": Case(FILL, {}, ((("I", 1, ("a", "big")), ("U", 1, ("b", _))),), {1: ("b", "big")}),
    "changed, then unchanged": Case(FILL, {1: ("a", "big")}, ((("U", 1, ("a", "bigger")), ("U", 1, ("b", _))),), {1: ("b", "bigger")}),
    "a null, then unchanged": Case(FILL, {1: ("a", "big")}, ((("U", 1, ("a", None)), ("U", 1, ("b", _))),), {1: ("b", None)}),
    "no earlier value in the batch": Case(FILL, {1: ("a", "big")}, ((("U", 1, ("b", _)),),), {1: ("b", "big")}),
    "not across keys": Case(
        FILL, {1: ("a", "big"), 2: ("b", "other")}, ((("U", 1, ("c", "biggest")), ("U", 2, ("d", _))),), {1: ("c", "biggest"), 2: ("d", "other")}
    ),
    "a delete between": Case(
        FILL, {1: ("a", "big")}, ((("U", 1, ("b", "bigger")), ("D", 1, ("b", "bigger")), ("I", 1, ("c", _))),), {1: ("c", None)}
    ),
    "over commits with several rows": Case(
        FILL,
        {1: ("a", "one"), 2: ("b", "two")},
        ((("U", 1, ("c", _)), ("U", 2, ("d", _))), (("U", 2, ("e", _)), ("U", 1, ("f", "ONE")))),
        {1: ("f", "ONE"), 2: ("e", "two")},
    ),
}

# Changes at places of time; (value, from, to) of each version. What comes late is in the second group.
VERSIONED = {
    "two upserts": Case(f"{AUTOCDC}/Scd2SinglePipelineSuite", {}, ((("I", "a", 10), ("U", "b", 20)), ()), [("a", 10, 20), ("b", 20, None)]),
    "a gap after a delete": Case(
        f"{AUTOCDC}/Scd2SinglePipelineSuite",
        {},
        ((("I", "a", 10), ("U", "b", 20), ("D", "b", 30), ("I", "c", 40)), ()),
        [("a", 10, 20), ("b", 20, 30), ("c", 40, None)],
    ),
    "the same value twice": Case(f"{AUTOCDC}/Scd2ForeachBatchHandlerSuite", {}, ((("I", "a", 10), ("U", "a", 20)), ()), [("a", 10, None)]),
    "a delete of an unknown key, then a late upsert": Case(
        f"{AUTOCDC}/Scd2ForeachBatchHandlerSuite", {}, ((("D", "a", 20),), (("I", "a", 10),)), [("a", 10, 20)]
    ),
    "a late value inside a version": Case(
        f"{AUTOCDC}/Scd2ForeachBatchHandlerSuite", {}, ((("I", "a", 10), ("D", "a", 20)), (("U", "b", 15),)), [("a", 10, 15), ("b", 15, 20)]
    ),
    "a late delete inside a version": Case(
        f"{AUTOCDC}/Scd2ForeachBatchHandlerSuite", {}, ((("I", "a", 10), ("U", "b", 30)), (("D", "a", 20),)), [("a", 10, 20), ("b", 30, None)]
    ),
    "a late delete before the delete": Case(
        f"{AUTOCDC}/Scd2ForeachBatchHandlerSuite", {}, ((("I", "a", 10), ("D", "a", 20)), (("D", "a", 15),)), [("a", 10, 15)]
    ),
    "a late value before everything": Case(
        f"{AUTOCDC}/Scd2ForeachBatchHandlerSuite", {}, ((("U", "a", 10),), (("I", "b", 5),)), [("b", 5, 10), ("a", 10, None)]
    ),
    "equal neighbours, divided again": Case(
        f"{AUTOCDC}/Scd2OutOfOrderConvergenceSuite",
        {},
        ((("I", "Alice", 5), ("U", "Alice", 10), ("U", "Alice", 15), ("U", "Charlie", 20)), (("U", "Bob", 12),)),
        [("Alice", 5, 12), ("Bob", 12, 15), ("Alice", 15, 20), ("Charlie", 20, None)],
    ),
    "two late values in one batch, one": Case(
        f"{AUTOCDC}/Scd2ForeachBatchHandlerSuite",
        {},
        ((("I", "a", 10), ("U", "b", 20)), (("U", "x", 15),)),
        [("a", 10, 15), ("x", 15, 20), ("b", 20, None)],
    ),
    "two late values in one batch, two": Case(
        f"{AUTOCDC}/Scd2ForeachBatchHandlerSuite",
        {},
        ((("I", "a", 10), ("U", "b", 40)), (("U", "x", 12), ("U", "y", 15))),
        [("a", 10, 12), ("x", 12, 15), ("y", 15, 40), ("b", 40, None)],
    ),
    "deleted twice": Case(
        f"{DBT}/test_ephemeral_snapshot_hard_deletes.py", {}, ((("I", "a", 10), ("D", "a", 20), ("D", "a", 30)), ()), [("a", 10, 20)]
    ),
    "gone and back": Case(f"{DBT}/test_snapshot.py", {}, ((("I", "a", 10), ("D", "a", 20), ("I", "a", 30)), ()), [("a", 10, 20), ("a", 30, None)]),
    "retired, and the same row again": Case(
        f"{DLT}/test_scd2.py", {}, ((("I", "a", 5), ("D", "a", 10), ("I", "a", 20), ("D", "a", 40)), ()), [("a", 5, 10), ("a", 20, 40)]
    ),
}

# A source's row beside the lake's: None where they are equal, else what differs.
COMPARED = {
    "equal": (f"{RELADIFF}/test_diff_tables.py", (1, "a", 1.5, "0.139"), (1, "a", 1.5, "0.139"), None),
    "a null beside a text": (f"{RELADIFF}/test_diff_tables.py TestDiffTables null", (2, None, 1.5, "1"), (2, "a", 1.5, "1"), ("different", "name")),
    "a null beside the empty text": (f"{RELADIFF}/test_diff_tables.py", (3, None, 1.5, "1"), (3, "", 1.5, "1"), ("different", "name")),
    "a null in the only other column": (f"{RELADIFF}/test_diff_tables.py", (4, "1", None, "1"), (4, "1-different", None, "1"), ("different", "name")),
    "nulls on both sides": (f"{RELADIFF}/test_diff_tables.py", (5, None, None, None), (5, None, None, None), None),
    "a row that is missing": (f"{RELADIFF}/test_diff_tables.py", (6, "a", 1.0, "1"), None, ("missing",)),
    "a row too many": (f"{RELADIFF}/test_diff_tables.py", None, (7, "a", 1.0, "1"), ("extra",)),
    "a negative key": (f"{RELADIFF}/test_diff_tables.py negative keys", (-8, "a", 1.0, "1"), (-8, "b", 1.0, "1"), ("different", "name")),
    "0.00188": (f"{RELADIFF}/test_database_types.py floats", (9, "a", 0.00188, "1"), (9, "a", 0.00188, "1"), None),
    "a third": (f"{RELADIFF}/test_database_types.py floats", (10, "a", 1 / 3, "1"), (10, "a", 1 / 3, "1"), None),
    "a small fraction": (f"{RELADIFF}/test_database_types.py floats", (11, "a", 1 / 109489, "1"), (11, "a", 1 / 109489, "1"), None),
    "floats that differ in their last digit": (
        f"{RELADIFF}/test_database_types.py floats",
        (12, "a", 0.1 + 0.2, "1"),
        (12, "a", 0.3, "1"),
        ("different", "share"),
    ),
    "a decimal that ends in zeros": (f"{RELADIFF}/test_database_types.py decimals", (13, "a", 1.0, "0.500"), (13, "a", 1.0, "0.5"), None),
    "decimals one digit apart": (
        f"{RELADIFF}/test_database_types.py decimals",
        (14, "a", 1.0, "0.501"),
        (14, "a", 1.0, "0.5"),
        ("different", "part"),
    ),
    "blanks at the end": (f"{RELADIFF}/test_database_types.py char", (15, "a ", 1.0, "1"), (15, "a", 1.0, "1"), ("different", "name")),
    "the same letters in another case": (f"{RELADIFF}/test_diff_tables.py", (16, "A", 1.0, "1"), (16, "a", 1.0, "1"), ("different", "name")),
}

# The key that a lake was written with, and the one that is set: whether it is said that it is another.
DRIFTS = {
    "a column more": (f"{AUTOCDC}/KeyDriftSuite add", "a", "a,b", True),
    "a column less": (f"{AUTOCDC}/KeyDriftSuite drop", "a,b", "a", True),
    "another column": (f"{AUTOCDC}/KeyDriftSuite swap", "a", "b", True),
    "the same key": (f"{AUTOCDC}/KeyDriftSuite", "a,b", "a,b", False),
    "another order": (f"{AUTOCDC}/KeyDriftSuite reorder", "a,b", "b,a", False),
    "one of two is another": (f"{AUTOCDC}/KeyDriftSuite swap", "a,b", "a,c", True),
}

# Rows of a load, changes of them, the rows of the next load, and what a follower is told of it.
_DIFF = f"{MOJ}/job/batchprocessing/ReloadDiffProcessorTest"
RELOADED = {
    "the same again": (_DIFF, {1: "a", 2: "b"}, (), {1: "a", 2: "b"}, []),
    "nothing was there": (_DIFF, {}, (), {1: "a", 2: "b"}, [("insert", 1, "a"), ("insert", 2, "b")]),
    "gone, with its newest values": (_DIFF, {1: "1", 2: "2"}, (("U", 2, "2a"),), {1: "1"}, [("delete", 2, "2a")]),
    "only in the new load": (_DIFF, {1: "a"}, (), {1: "a", 3: "c"}, [("insert", 3, "c")]),
    "another value": (_DIFF, {1: "a"}, (), {1: "b"}, [("update_postimage", 1, "b"), ("update_preimage", 1, "a")]),
    "deleted already": (_DIFF, {1: "a", 5: "e"}, (("D", 5, "e"),), {1: "a"}, []),
}

# What was read of each shard of a stream (number of its last record, read to its end), which shards are there, hours since the last round; whether records are said to be lost.
_SHARDS = "apache/hudi hudi-utilities/src/test/java/org/apache/hudi/utilities/sources/helpers/TestKinesisDataLossChecks"
LOST = {
    "closed, read to its end, gone": (_SHARDS, {"a": ("9", True)}, [], 1, False),
    "closed, not read to its end, gone": (_SHARDS, {"a": ("5", False)}, [], 1, True),
    "open, and expired": (_SHARDS, {"a": ("5", False)}, ["b"], 1, True),
    "nothing was read of it, and gone": (_SHARDS, {"a": ("", False), "b": ("3", False)}, ["b"], 1, True),
    "the oldest record is younger than the last one read": (_SHARDS, {"a": ("5", False)}, ["a"], 30, True),
    "the oldest record is the last one read": (_SHARDS, {"a": ("5", False)}, ["a"], 24, False),
    "a new shard beside a read one": (_SHARDS, {"a": ("5", False)}, ["a", "b"], 1, False),
    "a parent that was read and is gone, and its child": (_SHARDS, {"a": ("5", True)}, ["child"], 1, False),
    "no checkpoint at all": (
        _SHARDS,
        {},
        ["a"],
        1,
        False,
    ),  # theirs says that records are lost; our first window begins at the oldest record, and nothing is promised of before
}
