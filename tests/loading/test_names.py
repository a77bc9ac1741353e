"Columns of any name and letter case are loaded, folded, rewritten and laid out; the few that would collide are refused in words."

from __future__ import annotations

from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from awkward import COLUMNS, KEYS, PARTITIONS, REFUSED, TWICE
from world import World, closed

pytestmark = pytest.mark.proof

TEXTS = dict.fromkeys(COLUMNS, "string")


def lake(w: World, key: str) -> dict[int, dict]:
    "The rows of the lake's folder by key, without our columns; file by file, partition values from the folders."
    found = {}
    for name in w.files():
        folders = [part.partition("=") for part in name.split("/")[:-1]]
        values = {unquote(column): None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value) for column, _, value in folders}
        table = pq.ParquetFile(w.folder / name).read()
        assert len(set(table.column_names)) == len(table.column_names) and not set(values) & set(table.column_names)
        for row in table.to_pylist():
            row = {n: v for n, v in {**row, **values}.items() if n not in ("Op", "_cdc_file", "_cdc_row")}
            assert found.setdefault(row[key], row) is row
    return found


def rows_of(schema: dict[str, str], said: str, numbers) -> dict[int, dict]:
    "Rows with a value of its own in every cell."
    return {i: {n: i if t == "int" else f"{said} {i} of {n}" for n, t in schema.items()} for i in numbers}


def play(w: World, key: str, *more: str, fixed: dict[str, str] = {}) -> None:
    "A load, and a batch that patches, replaces, inserts and deletes, one file without half of the columns; the lake is looked at after both."
    table = {i: row | fixed for i, row in rows_of(w.schema, "load", range(1, 7)).items()}
    w.load([tuple(row.values()) for row in table.values()])
    assert (done := w.go()).verdict == "ok", done.words
    assert lake(w, key) == table
    half = {n: t for i, (n, t) in enumerate(w.schema.items()) if i % 2 or n in (key, *more) or n in fixed}
    one, two = (
        {i: row | {n: v + "'" for n, v in fixed.items()} for i, row in rows_of(names, said, some).items()}
        for names, said, some in ((w.schema, "new", (1, 2, 8)), (half, "half", (2, 3, 9)))
    )
    w.changes(1, [("U" if i < 8 else "I", *row.values()) for i, row in one.items()] + [("D", *table[5].values())])
    w.changes(2, [("U" if i < 8 else "I", *row.values()) for i, row in two.items()], half)
    for change in (one, two):
        table |= {i: {**dict.fromkeys(w.schema), **table.get(i, {}), **row} for i, row in change.items()}
    del table[5]
    done = w.go()
    assert (done.verdict, done.rows["updated"], done.rows["inserted"], done.rows["deleted"]) == ("ok", 3, 2, 1), done.words
    assert lake(w, key) == table
    read = {row[0]: tuple(row) for row in w.lake_table.read(w.spark).select(*[f"`{n.replace('`', '``')}`" for n in (key, *table[1])]).collect()}
    assert read == {i: (i, *(row[n] for n in table[1])) for i, row in table.items()}


def test_columns_of_any_name_are_taken_as_they_are(tmp_path, spark):
    play(World(tmp_path, spark, {"id": "int", **TEXTS}).set(key="id"), "id")


def test_a_key_of_columns_of_any_name(tmp_path, spark):
    play(World(tmp_path, spark, {"a": "string", **dict.fromkeys(KEYS, "int"), "name": "string"}).set(key=KEYS), *KEYS)


@pytest.mark.torture
def test_a_lake_laid_out_by_columns_of_any_name_with_all_the_others_beside_them(tmp_path, spark):
    play(
        World(tmp_path, spark, {"id": "int", **TEXTS, **dict.fromkeys(PARTITIONS, "string")}).set(key="id", partition=PARTITIONS),
        "id",
        fixed={p: f"{i} b/ü" for i, p in enumerate(PARTITIONS)},
    )


def put(w: World, name: str, *columns: tuple[str, list]) -> None:
    "A raw file of these columns, whatever they are called."
    w.raw.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_arrays([pa.array(values) for _, values in columns], [name for name, _ in columns]), w.raw / f"{name}.parquet")


BAD = [
    *[(((name, ["x"]),), f"has a column {name}; ") for name in REFUSED],
    *[(((name, ["x"]), (name, ["y"])), f"has 2 columns {name}") for name in TWICE if name != "Op"],
    ((("price", [Decimal(10) ** 40]),), "column price has type decimal256(41, 0), which Spark cannot read: a decimal has at most 38 digits"),
]
OPS = [
    ((("Op", ["I"]), ("Op", ["x"])), "has 2 columns Op, DMS's own and one of the source"),
    ((("Op", [1]),), "column Op is bigint; a text was expected, I, U or D"),
]


@pytest.mark.parametrize("columns, words", [*BAD, *OPS])
def test_columns_that_collide_with_ours_or_with_each_other_are_refused_in_words(tmp_path, spark, columns, words):
    w = World(tmp_path, spark, {"id": "int"}).set(key="id")
    put(w, "LOAD00000001", *columns, ("id", [1]))
    before, done = w.table_state(), w.go()
    assert (
        done.verdict == "refused"
        and f"LOAD00000001.parquet{'' if words.startswith('has') else ':'} {words}" in done.words
        and w.table_state() == before
    )
    (w.raw / "LOAD00000001.parquet").unlink()
    w.load([(1,)])
    assert w.go().verdict == "ok"
    put(w, closed(1), *([("Op", ["I"])] if columns[0][0] != "Op" else []), *columns, ("id", [2]))
    before, done = w.table_state(), w.go()
    assert (
        done.verdict == "refused"
        and f"{closed(1)}.parquet{'' if words.startswith('has') else ':'} {words}" in done.words
        and w.table_state() == before
    )


@pytest.mark.parametrize(
    "columns, words",
    [
        (("op",), "its column op has the name of Op, our column for the operation, or differs from it only in the case of letters"),
        (("name", "Name"), "its columns name and Name differ only in the case of letters"),
    ],
)
def test_columns_that_readers_without_letter_case_take_for_one_are_refused_before_the_table_is_unreadable(tmp_path, spark, columns, words):
    w = World(tmp_path, spark, {"id": "int", **dict.fromkeys(columns, "string")}).set(key="id").load([(1, *columns)])
    assert (done := w.go()).verdict == "refused" and words in done.words and not w.files(), done.words
    (w.raw / "LOAD00000001.parquet").unlink()
    w.load([(1, *columns[:-1])], dict.fromkeys(["id", *columns[:-1]], "string") | {"id": "int"}).changes(1, [("U", 1, *columns)])
    assert (done := w.go()).verdict == "refused" and words in done.words and [c.name for c in w.lake_table.head().schema] == ["id", *columns[:-1]], (
        done.words
    )


def test_a_thousand_columns(tmp_path, spark):
    play(World(tmp_path, spark, {"id": "int", **{f"column {i}": "string" for i in range(1000)}}).set(key="id"), "id")
