"Names of columns that sources may have, in every question: what comes back is what stands in the files, under its own name."

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from raw_replay import T

from awkward import COLUMNS, KEYS
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.errors import Refused
from dmscdc.history.audit import audit_row
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.span import landed
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.scd2.update import read_versions, update_versions
from dmscdc.state.sqlite import SqliteState
from engines import as_of, feed
from world import closed

pytestmark = pytest.mark.torture

OURS = ("_cdc_file", "_cdc_row")
FEW = ("a.b", "x`y", "_metadata", "_METADATA", "Name", "name", "op", "50%", "it's", "größe", "position", "_position", "_commit_time", "_change_type")


def put(folder: Any, key: str, names: tuple[str, ...]) -> dict[int, dict[str, str | None]]:
    "A load of two rows, a change of one in half of the columns, an insert; the table by key, told beside it."
    shape = {key: "int", **{name: "string" for name in names if name != key}}
    half = dict(list(shape.items())[: 1 + len(shape) // 2])
    row = lambda id, kind, of: {name: id if name == key else f"{kind} {n}" for n, name in enumerate(of)}
    first, second, third = row(1, "load", shape), row(2, "load", shape), row(3, "new", shape)
    write_load(folder, T, [tuple(r.values()) for r in (first, second)], shape)
    change = row(1, "changed", half)
    write_changes(folder, T, [("U", *change.values())], closed(1), half)
    write_changes(folder, T, [("D", *second.values()), ("I", *third.values())], closed(2), shape)
    return {1: {**first, **change}, 3: third}


def by_key(rows: list, key: str, drop: tuple[str, ...] = OURS) -> dict[int, dict[str, Any]]:
    "Rows as dictionaries, without our own columns."
    return {row[key]: {name: row[name] for name in row.asDict() if name not in drop} for row in rows}


@pytest.mark.parametrize("key, names", [("Id", COLUMNS), *product(KEYS, [FEW])], ids=["all", *KEYS])
def test_a_column_of_any_name_comes_back_as_of_then_and_in_a_feed(spark, tmp_path, key, names):
    told = put(tmp_path, key, tuple(n for n in names if not n.startswith(("_position", "_commit_time", "_change_type"))))
    past = open_changelog(str(tmp_path), T)
    assert by_key(as_of(spark, past, [key]).rows.collect(), key) == told
    ours = (*OURS, "_change_type", "_position", "_commit_time")
    for net in (True, False):
        rows = feed(spark, past, [key], landed(upto(past, "load")), net=net).rows.collect()
        assert sorted(row["_change_type"] for row in rows) == ["delete", "insert", "update_postimage", "update_preimage"]
        assert by_key([row for row in rows if row["_change_type"] in ("insert", "update_postimage")], key, ours) == told


def test_a_source_may_name_its_columns_like_those_of_a_feed_but_a_feed_says_so(spark, tmp_path):
    told = put(tmp_path, "id", FEW)
    past = open_changelog(str(tmp_path), T)
    assert by_key(as_of(spark, past, ["id"]).rows.collect(), "id") == told
    with pytest.raises(Refused, match="shop.item: the source has a column _position, a name that a feed needs for itself"):
        feed(spark, past, ["id"], net=False)


@pytest.mark.parametrize(
    "key, names",
    [("Id", COLUMNS), *[(k, [n for n in FEW if n != "position"]) for k in ("a.b", "x`y", "_metadata", "it's")]],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_column_of_any_name_comes_back_in_versions(spark, tmp_path, key, names):
    told = put(tmp_path / "landing", key, tuple(names))
    state = f"sqlite:{tmp_path}/state.db"
    SqliteState(tmp_path / "state.db").put_settings(T, key=[key])
    update_versions(str(T), str(tmp_path / "landing"), str(tmp_path / "lake"), state, landed=True, quiet_period=0, spark=lambda: spark)
    rows = read_versions(spark, str(T), str(tmp_path / "lake")).where("is_current").collect()
    ours = (*OURS, "Op", "valid_from", "valid_to", "is_current", "position", "position_to")
    assert by_key(rows, key, ours) == told


@pytest.mark.parametrize("key, names", [("Id", COLUMNS), *product(KEYS, [FEW])], ids=["all", *KEYS])
def test_a_column_of_any_name_is_told_in_a_row_s_history(tmp_path, key, names):
    told = put(tmp_path, key, tuple(names))
    (audit,), _ = audit_row(str(tmp_path), ParquetTable(str(tmp_path / "lake"), T), {key: "1"}, key=(key,))
    assert audit.life.state == told[1] and len(audit.life.steps) == 2
    assert {cell.column for cell in audit.life.steps[1].cells} == {
        name for name in told[1] if told[1][name] != 1 and str(told[1][name]).startswith("changed")
    }


def test_a_change_of_a_column_without_a_name_begins_a_version_and_is_told(spark, tmp_path):
    landing, shape = tmp_path / "landing", {"id": "int", "": "string", "b": "string"}
    write_load(landing, T, [(1, "a", "x"), (2, "a", "x")], shape, time=1_544_868_000)
    write_changes(landing, T, [("U", 1, "changed", "x")], closed(1), shape)
    state = f"sqlite:{tmp_path}/state.db"
    SqliteState(tmp_path / "state.db").put_settings(T, key=["id"])
    update_versions(str(T), str(landing), str(tmp_path / "lake"), state, landed=True, quiet_period=0, spark=lambda: spark)
    rows = read_versions(spark, str(T), str(tmp_path / "lake")).collect()
    assert sorted((row["id"], row[""], row["is_current"]) for row in rows) == [(1, "a", False), (1, "changed", True), (2, "a", True)]
    (audit,), _ = audit_row(str(landing), ParquetTable(str(tmp_path / "mirror"), T), {"id": "1"}, key=("id",))
    assert [(cell.column, cell.new) for cell in audit.life.steps[1].cells] == [("", "changed")]
