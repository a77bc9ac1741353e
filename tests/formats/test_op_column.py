"Our column for the operation has another name in the lake, or is left out: for sources with a column op, and for readers that do not want it."

from __future__ import annotations

import duckdb
import pytest

from dmscdc.errors import BadSetting
from dmscdc.history.audit import audit_row
from readers import FORMAT, source
from world import World

pytestmark = [pytest.mark.proof, pytest.mark.compiled]

COLUMNS = {"id": "int", "op": "string", "none": "string", "region": "string"}
ROWS = [(n, f"op {n}", f"none {n}", "north" if n % 2 else "süd") for n in range(1, 7)]
CHANGES = [
    [("U", 2, "zwei", None, "süd"), ("D", 3, None, None, None), ("I", 9, "neun", "x", "ost")],
    [("D", 4, None, None, None), ("U", 9, "nine", "y", "süd"), ("U", 1, "eins", "z", "ost")],
]
OURS = {"_op": ["_op", "_cdc_file", "_cdc_row"], "none": ["_cdc_file", "_cdc_row"], "Op": ["Op", "_cdc_file", "_cdc_row"]}


def after(batches: int) -> list[tuple]:
    "The source's rows after some batches."
    rows = {row[0]: row for row in ROWS}
    for op, *row in (change for batch in CHANGES[:batches] for change in batch):
        rows.pop(row[0], None)
        if op != "D":
            rows[row[0]] = tuple(row)
    return sorted(rows.values())


def held(here: World, *names: str) -> list[tuple]:
    with duckdb.connect() as duck:
        return duck.execute(f"select {', '.join(names)} from {source(duck, here.folder)} order by id").fetchall()


def columns(here: World) -> list[str]:
    with duckdb.connect() as duck:
        names = [row[0] for row in duck.execute(f"describe select * from {source(duck, here.folder)}").fetchall()]
    return sorted(name for name in names if not name.startswith("_hoodie_"))


@pytest.mark.parametrize(
    "name, partition",
    [("_op", ("region",)), ("none", ()), *(pytest.param(*one, marks=pytest.mark.torture) for one in (("_op", ()), ("none", ("region",))))],
    ids=["_op-in folders", "none-plain", "_op-plain", "none-in folders"],
)
def test_a_source_with_a_column_op_has_a_table_that_every_reader_reads(tmp_path, spark, name, partition):
    here = World(tmp_path, spark, COLUMNS).set(key="id", op_column=name, partition=partition).load(ROWS)
    assert here.go().verdict == "ok"
    for number, rows in enumerate(CHANGES, 1):
        assert here.changes(number, rows).go().verdict == "ok"
        wanted = after(number)
        assert held(here, "id", "op", '"none"', "region") == wanted
        assert columns(here) == sorted([*COLUMNS, *OURS[name]])
    spark.conf.set("spark.sql.caseSensitive", "false")
    try:
        there = spark.read.parquet(str(here.folder)) if FORMAT == "parquet" else here.lake_table.frame(spark, here.lake_table.newest().top.id)
        assert sorted(row["op"] for row in there.where("OP is not null").collect()) == sorted(row[1] for row in wanted)
    finally:
        spark.conf.set("spark.sql.caseSensitive", "true")
    if name == "_op":
        assert held(here, "id", "_op") == [(1, "U"), (2, "U"), (5, "I"), (6, "I"), (9, "U")]
    (audit,), _ = audit_row(str(here.landing), here.lake_table, {"id": "9"}, spark=lambda: spark)
    assert audit.verdict == "agrees" and audit.rows[0].values == {"id": 9, "op": "nine", "none": "y", "region": "süd"}


def test_another_name_is_taken_with_the_next_reload(tmp_path, spark):
    here = World(tmp_path, spark, COLUMNS).set(key="id", op_column="_op").load(ROWS)
    here.go()
    here.set(op_column="none").changes(1, CHANGES[0])
    done = here.go()
    assert (
        done.verdict == "attention"
        and "the op-column is now none, but the lake table was written with _op" in done.words
        and "--reload" in done.words
    ), done.words
    assert columns(here) == sorted([*COLUMNS, *OURS["_op"]])
    here.state.instruct(here.ref, {"kind": "reload"})
    assert here.go().verdict == "ok" and columns(here) == sorted([*COLUMNS, *OURS["none"]])
    assert here.changes(2, CHANGES[1]).go().verdict == "ok"
    assert [row[0] for row in held(here, "id")] == [row[0] for row in after(2)]
    here.set(op_column="Op").state.instruct(here.ref, {"kind": "reload"})
    assert (
        (done := here.go()).verdict == "refused"
        and "its column op has the name of Op, our column for the operation, or differs from it only in the case of letters" in done.words
    )


def test_rows_marked_as_deleted_are_marked_in_the_column_of_another_name(tmp_path, spark):
    here = World(tmp_path, spark, COLUMNS).set(key="id", op_column="_op", delete="soft").load(ROWS)
    here.go()
    for number, rows in enumerate(CHANGES, 1):
        here.changes(number, rows).go()
    assert held(here, "id", "_op") == [(1, "U"), (2, "U"), (3, "D"), (4, "D"), (5, "I"), (6, "I"), (9, "U")]
    with pytest.raises(BadSetting, match="marked with D in the operation column"):
        here.set(op_column="none")
