"Logs of Delta and Iceberg tables as other programs leave them: where our newest commit is found, and what is said. No Spark."

from __future__ import annotations

import json

import pytest

from dmscdc.changes.schema import columns
from dmscdc.errors import CommitConflict, Refused, UnsupportedStore
from dmscdc.lake.open import to_note
from dmscdc.lake.table import Commit, Transaction, open_table
from dmscdc.landing.files import TableRef
from dmscdc.load.table_state import lost_since
from dmscdc.state.items import TableItem
from dmscdc.state.position import Position

pytestmark = pytest.mark.quick

T, SCHEMA = TableRef("shop", "item"), columns("id int, name string")


def note(number: int) -> str:
    base = Commit(number - 1, {}, "", SCHEMA, ("id",), (), 0, "") if number > 1 else None
    return to_note(Transaction(base, {"load": number}, f"run {number}", SCHEMA, ("id",)), number)


def delta(folder, *entries):
    "A Delta table whose log has these entries: operation, note, and what else is in the first line."
    log = folder / "shop" / "item" / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for number, (what, said, more) in enumerate(entries):
        info = {"operation": what, **({"userMetadata": said} if said else {}), **more}
        lines = [{"commitInfo": info}, {"add": {"path": "a\u2028b.parquet", "dataChange": what != "OPTIMIZE"}}]
        (log / f"{number:020d}.json").write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines))
    return open_table("delta", str(folder), T)


RESTORE = lambda **to: ("RESTORE", "", {"operationParameters": {"version": None, "timestamp": None, **to}})


@pytest.mark.parametrize(
    "later, head, said",
    [
        ([], 2, 0),
        ([("OPTIMIZE", "", {})], 2, 0),
        ([("UPDATE", "", {})], 2, 1),
        ([RESTORE(version=0)], 1, 0),
        ([RESTORE(version=0), ("MERGE", note(2), {})], 2, 0),
        ([RESTORE(timestamp="2018-12-15 10:00:00")], 2, 1),
    ],
    ids=["ours", "compacted", "updated", "restored", "gone on after it", "restored to a time"],
)
def test_our_newest_commit_is_found_among_those_of_others(tmp_path, later, head, said):
    table = delta(tmp_path, ("WRITE", note(1), {}), ("MERGE", note(2), {}), *later)
    assert (table.head().number, len(table.recover())) == (head, said)
    assert not said or "was written by another program" in table.inspect()[0][0]


def test_a_table_of_others_is_not_overwritten_and_a_stale_plan_not_carried_out(tmp_path):
    first = Transaction(None, {}, "run", SCHEMA, ("id",))
    with pytest.raises(Refused, match="that we did not write"):
        delta(tmp_path / "a", ("WRITE", "", {})).check_base(first)
    with pytest.raises(CommitConflict, match="commit 2 was made by run 2"):
        delta(tmp_path / "b", ("WRITE", note(2), {})).check_base(first)


def test_a_hudi_table_that_a_hudi_before_1_0_has_made_is_not_overwritten(tmp_path):
    made = tmp_path / "shop/item/.hoodie/20201015120000.commit"  # as the script of the guide of 2020 leaves it
    made.parent.mkdir(parents=True)
    made.write_text("{}")
    table = open_table("hudi", str(tmp_path), T)
    assert table.head() is None
    with pytest.raises(Refused, match="holds a table of the format hudi that we did not write"):
        table.check_base(Transaction(None, {}, "run", SCHEMA, ("id",)))


def test_upkeep_does_not_hide_what_another_program_did_to_the_rows(tmp_path):
    table = delta(tmp_path, ("WRITE", note(1), {}), ("UPDATE", "", {}))
    with pytest.raises(Refused, match="was written by another program"):
        list(table.maintain(lambda: pytest.fail("Spark was started"), ""))


def test_a_delta_table_whose_commits_a_catalogue_makes_is_refused_in_words(tmp_path):
    table = delta(tmp_path, ("WRITE", note(1), {}))
    line = json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["catalogManaged"]}})
    (tmp_path / "shop" / "item" / "_delta_log" / f"{1:020d}.json").write_text(line)
    with pytest.raises(Refused, match="shop.item: version 1 of its log gave it the feature catalogManaged"):
        table.head()


def test_an_iceberg_table_of_version_3_is_refused_in_words(tmp_path):
    place = tmp_path / "shop" / "item" / "metadata"
    place.mkdir(parents=True)
    (place / "v1.metadata.json").write_text(json.dumps({"format-version": 3, "snapshots": []}))
    with pytest.raises(Refused, match="upgraded the table to version 3 of Iceberg's format"):
        open_table("iceberg", str(tmp_path), T).head()


def test_an_iceberg_table_in_a_bucket_asks_for_a_catalogue():
    with pytest.raises(UnsupportedStore, match='catalog = "glue:DATABASE"'):
        open_table("iceberg", "s3://bucket/lake", T)


def test_a_table_that_is_set_to_another_format_says_how_it_was_written(tmp_path):
    delta(tmp_path, ("WRITE", note(1), {}))
    item = TableItem(T, ("id",), format="parquet", position=Position(load=1), commit=1)
    words = lost_since(item, open_table("parquet", str(tmp_path), T), None)
    assert "the format is now parquet, but the lake table was written as delta" in words and "dmscdc table set shop.item --format delta" in words


def test_of_an_iceberg_table_that_was_replaced_the_old_commits_are_still_known(tmp_path):
    place = tmp_path / "shop" / "item" / "metadata"
    place.mkdir(parents=True)
    snapshots = [{"snapshot-id": n, "timestamp-ms": n, "summary": {"operation": "overwrite", "dmscdc": note(n)}} for n in (1, 2)]
    told = {"current-snapshot-id": 2, "snapshots": snapshots, "snapshot-log": [{"snapshot-id": n, "timestamp-ms": n} for n in (1, 2)]}
    (place / "v9.metadata.json").write_text("{}"), (place / "v10.metadata.json").write_text(json.dumps(told))
    table = open_table("iceberg", str(tmp_path), T)
    assert (table.head().number, table.at(1).run) == (2, "run 1")
