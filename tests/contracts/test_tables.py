"What every format of the lake promises (`tables.LakeTable`). One suite, a parameter a format."

from __future__ import annotations

import os
import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSelector

from dmscdc.changes.partition_runners import get_text, put_text
from dmscdc.changes.read import change_files
from dmscdc.changes.schema import OURS, columns, ddl, lake_arrow_type, read_footers
from dmscdc.changes.stage import stage
from dmscdc.errors import ColumnsGone, CommitConflict, FormatMissing
from dmscdc.lake.table import IN_CATALOG, LoadFiles, Transaction, open_table
from dmscdc.landing.files import TableRef
from dmscdc.service.config import check_value
from dmscdc.spark.formats import FORMATS, formats
from dmscdc.spark.session import spark_conf
from dmscdc.state.position import Position
from dmscdc.storage.filesystem import fs_and_path, new_fs_and_path
from readers import FORMAT

pytestmark = [pytest.mark.test, pytest.mark.compiled]
T, SCHEMA = TableRef("shop", "item"), columns("id int, name string, price decimal(10,2)")
ROWS = [
    ("I", 1, "one", 1, "LOAD00000001.parquet#1", 0),
    ("I", 2, "two", 2, "LOAD00000001.parquet#1", 1),
    ("I", 3, "three", 3, "LOAD00000001.parquet#1", 2),
]


@pytest.fixture(params=os.environ.get("DMSCDC_FORMAT", "parquet").split())
def opened(request, tmp_path):
    "Opens the table again, as another process would; in a folder, or below the address that DMSCDC_LAKE gives."
    lake = os.environ.get("DMSCDC_LAKE", "") and f"{os.environ['DMSCDC_LAKE']}/{tmp_path.name}"
    kept = {"catalog": f"glue:{re.sub('[^a-z0-9]', '', tmp_path.name.lower())}?create"} if lake and request.param in IN_CATALOG else {}
    return lambda table=T, **settings: open_table(request.param, lake or str(tmp_path / "lake"), table, **kept, **settings)


@pytest.fixture()
def loaded(opened, spark):
    "A table of three rows."
    table = opened()
    table.replace(spark, frame(spark, ROWS), Transaction(None, {"last": "load"}, "run 1", SCHEMA, ("id",)), 3, 300).commit()
    return opened()


def frame(spark, rows, schema=SCHEMA):
    "Rows of the lake: Op, the source's columns, file, row."
    return spark.createDataFrame(
        [
            tuple(Decimal(v) if c.type.startswith("decimal") and v is not None else v for c, v in zip((OURS[0], *schema, *OURS[1:]), row))
            for row in rows
        ],
        ddl((OURS[0], *schema, *OURS[1:])),
    )


def draft(table, position="moved", schema=SCHEMA):
    "The next commit of a table."
    head = table.head()
    return Transaction(head, {"last": position}, "run 2", schema, ("id",), head.partition)


def batch(spark, table, plan, changes, soft=False, carries=None, file="20181215-100000000.parquet"):
    "Changes of one file as a staged batch; `carries` names the columns that it carries."
    url = f"{table.staging_dir(plan)}/{file}"
    known = [c for c in plan.schema if carries is None or c.name in carries]
    columns = {"Op": pa.array([row[0] for row in changes], pa.string())}
    for at, c in enumerate(plan.schema, 1):
        if c in known:
            columns[c.name] = pa.array(
                [Decimal(row[at]) if c.type.startswith("decimal") and row[at] is not None else row[at] for row in changes], lake_arrow_type(c.type)
            )
    fs, path = new_fs_and_path(url)
    pq.write_table(pa.table(columns), path, filesystem=fs)
    return stage(
        spark, change_files(read_footers({file: url}), {file: url}, plan.schema), plan.key, f"{table.staging_dir(plan)}/staged", soft_deletes=soft
    )


def staged(spark, table, changes, plan=None, **more):
    "A batch that is applied, but not committed."
    plan = plan or draft(table)
    return table.apply(spark, batch(spark, table, plan, changes, **more), plan)


def apply(spark, table, changes, plan=None, **more):
    return staged(spark, table, changes, plan, **more).commit()


def rows(table, spark, names="Op id name price", number=None):
    "Rows of the head, sorted by the first number."
    return sorted((tuple(row) for row in table.read(spark, number).select(*names.split()).collect()), key=str)


def files(table) -> dict[str, int]:
    "The data files in the table's folder, without what a format writes down about them."
    fs, path = fs_and_path(table.location)
    found = {one.path: one.mtime_ns for one in fs.get_file_info(FileSelector(path, recursive=True, allow_not_found=True)) if one.is_file}
    return {name: time for name, time in found.items() if name.endswith(".parquet") and not re.search(r"/(_delta_log|metadata|\.hoodie)/", name)}


def own_files(table):
    "The table, where it writes its files itself; else they are the format's affair."
    if not table.writes_own_files or os.environ.get("WRITER") == "format":
        pytest.skip("not allowed here: its format writes the files")
    return table


def counts(written) -> tuple[int, ...]:
    return written.inserted, written.updated, written.deleted, written.unchanged


# A table and its commits


def test_a_table_that_was_never_written_has_no_head_and_settles(opened):
    assert opened().head() is None and opened().recover() == [] and opened().head() is None


def test_a_commit_keeps_data_position_run_and_columns_together(loaded, spark):
    head = loaded.head()
    assert (head.number, dict(head.position), head.run, head.schema, head.key, head.partition, head.rows) == (
        1,
        {"last": "load"},
        "run 1",
        SCHEMA,
        ("id",),
        (),
        3,
    )
    assert rows(loaded, spark, "Op id name price _cdc_file _cdc_row") == [(*r[:3], Decimal(r[3]), *r[4:]) for r in ROWS]


def test_a_batch_inserts_updates_and_deletes_in_one_commit_and_counts_rows(loaded, opened, spark):
    written = apply(spark, loaded, [("U", 1, "uno", 1), ("D", 2, None, None), ("I", 4, "four", 4), ("I", 3, "three", 3), ("D", 9, None, None)])
    assert counts(written) == (1, 1, 1, 2) and written.commit.number == 2 == opened().head().number and written.commit.rows == 3
    assert rows(opened(), spark) == [("I", 3, "three", Decimal(3)), ("I", 4, "four", Decimal(4)), ("U", 1, "uno", Decimal(1))]
    assert dict(opened().head().position) == {"last": "moved"}


def test_the_same_batch_again_changes_no_row_and_no_file_but_commits(loaded, spark):
    changes = [("U", 1, "uno", 1), ("D", 2, None, None), ("I", 4, "four", 4)]
    apply(spark, loaded, changes)
    before, table = files(loaded), rows(loaded, spark)
    written = apply(spark, loaded, changes, draft(loaded, "again"))
    assert counts(written) == (0, 0, 0, 3) and files(loaded) == before and rows(loaded, spark) == table
    assert loaded.head().number == 3 and dict(loaded.head().position) == {"last": "again"}
    assert (written.files["rewritten"], written.files["added"], written.bytes_written) == (0, 0, 0)


def test_a_position_is_committed_without_touching_a_file(loaded, spark):
    before = files(loaded)
    written = loaded.commit_position(draft(loaded, "later"), lambda: spark).commit()
    assert (written.commit.number, dict(written.commit.position), written.commit.rows, files(loaded)) == (2, {"last": "later"}, 3, before)


def test_columns_that_a_batch_does_not_carry_keep_their_values_and_a_null_is_a_null(loaded, spark):
    apply(spark, loaded, [("U", 1, None, None), ("I", 4, "four", None)], carries={"id", "name"})
    assert rows(loaded, spark) == [("I", 2, "two", Decimal(2)), ("I", 3, "three", Decimal(3)), ("I", 4, "four", None), ("U", 1, None, Decimal(1))]


def test_soft_deletes_mark_rows_that_keep_their_values_and_can_come_back(loaded, spark):
    written = apply(spark, loaded, [("D", 1, None, None), ("D", 9, None, None)], soft=True)
    assert counts(written) == (0, 0, 1, 1) and rows(loaded, spark)[0] == ("D", 1, "one", Decimal(1)) and written.commit.rows == 3
    apply(spark, loaded, [("I", 1, "back", None)], soft=True, carries={"id", "name"}, file="20181215-100100000.parquet")
    assert ("I", 1, "back", None) in rows(loaded, spark)


def test_a_replacement_may_bring_other_columns_and_another_layout(loaded, spark):
    schema = columns("id int, dept string")
    new = frame(spark, [("I", 1, "a b/ü", "LOAD00000001.parquet#2", 0), ("I", 2, None, "LOAD00000001.parquet#2", 1)], schema)
    loaded.replace(spark, new, Transaction(loaded.head(), {"last": "reload"}, "run 2", schema, ("id",), ("dept",)), 2, 100).commit()
    assert loaded.head().partition == ("dept",) and rows(loaded, spark, "id dept") == [(1, "a b/ü"), (2, None)]
    apply(spark, loaded, [("U", 1, None), ("U", 2, "a b/ü"), ("I", 3, "a b/ü")], draft(loaded, schema=schema))
    assert rows(loaded, spark, "id dept _cdc_row") == [(1, None, 0), (2, "a b/ü", 1), (3, "a b/ü", 2)]


def test_a_replacement_by_nothing_leaves_an_empty_table_that_can_be_read_and_filled(loaded, spark):
    loaded.replace(spark, frame(spark, []), draft(loaded), 0, 0).commit()
    assert rows(loaded, spark) == [] and loaded.head().rows == 0
    apply(spark, loaded, [("I", 1, "one", 1), ("D", 2, None, None)])
    assert rows(loaded, spark) == [("I", 1, "one", Decimal(1))]


def test_added_and_wider_columns_leave_the_values_of_old_rows(loaded, spark):
    wider = columns("id bigint, name string, price decimal(14,3), stock int")
    written = apply(spark, loaded, [("U", 2, "zwei", Decimal("2.125"), 7)], draft(loaded, schema=wider))
    assert loaded.head().schema == wider and written.files["kept"] == 0
    assert rows(loaded, spark, "id name price stock") == [
        (1, "one", Decimal(1), None),
        (2, "zwei", Decimal("2.125"), 7),
        (3, "three", Decimal(3), None),
    ]
    assert loaded.read(spark).select("id", "price", "stock").dtypes == [("id", "bigint"), ("price", "decimal(14,3)"), ("stock", "int")]


def test_a_reader_that_asks_for_large_values_for_nan_or_for_zero_finds_them(opened, spark):
    floats, nan = columns("id int, f double"), float("nan")
    first = frame(
        spark,
        [("I", 1, 1.0, "LOAD00000001.parquet#1", 0), ("I", 2, nan, "LOAD00000001.parquet#1", 1), ("I", 3, 2.0, "LOAD00000001.parquet#1", 2)],
        floats,
    )
    opened().replace(spark, first, Transaction(None, {"last": "load"}, "run 1", floats, ("id",)), 3, 300).commit()
    table = opened()
    apply(spark, table, [("I", 4, nan), ("U", 3, 3.0)], draft(table, schema=floats))
    apply(spark, table, [("I", 5, -0.0)], draft(table, schema=floats), file="20181215-110000000.parquet")
    asked = {"f > 5": {2, 4}, "f = cast('NaN' as double)": {2, 4}, "f < 5": {1, 3, 5}}
    if not table.format.startswith("hudi"):
        asked |= {"f = 0": {5}, "f >= 0": {1, 2, 3, 4, 5}}  # Spark 3.5 misses -0.0 in files of its own
    assert {what: {row.id for row in table.read(spark).where(what).collect()} for what in asked} == asked


def test_tables_of_one_lake_do_not_touch_each_other(loaded, opened, spark):
    other = opened(TableRef("shop", "item2"))
    other.replace(spark, frame(spark, ROWS[:1]), Transaction(None, {}, "run 3", SCHEMA, ("id",)), 1, 100).commit()
    assert (other.head().rows, loaded.head().rows, other.recover(), loaded.recover()) == (1, 3, [], [])


def test_an_unknown_format_is_named_with_those_there_are():
    with pytest.raises(FormatMissing, match="'csv' is not one of .*parquet"):
        open_table("csv", "lake", T)


class Elsewhere:
    "A table in a format of another package."

    spark_conf = {"spark.jars.packages": "org.example:format:1"}

    def __init__(self, lake, table, **settings):
        self.lake, self.table, self.settings = lake, table, settings


def test_another_package_brings_a_format_by_an_entry_point(tmp_path, monkeypatch):
    found = tmp_path / "elsewhere-1.0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (found / "entry_points.txt").write_text(f"[dmscdc.formats]\nelsewhere = {__name__}:Elsewhere\nparquet = {__name__}:Elsewhere\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    table = open_table("elsewhere", "lake", T, target_bytes=1)
    assert (type(table).__name__, table.lake, table.table, table.settings) == ("Elsewhere", "lake", T, {"target_bytes": 1})
    assert spark_conf("elsewhere")["spark.jars.packages"] == "org.example:format:1"
    assert check_value("format", "elsewhere", "dmscdc.toml") == "elsewhere"
    assert formats()["parquet"] == FORMATS["parquet"].target, "nobody takes the place of a format of ours"
    with pytest.raises(FormatMissing, match="'csv' is not one of elsewhere, .*parquet, .*delta, iceberg"):
        open_table("csv", "lake", T)
    with pytest.raises(FormatMissing, match="'csv' is not one of"):
        spark_conf("csv")


def test_an_earlier_commit_is_there_and_its_rows_where_the_format_can_travel_in_time(loaded, opened, spark):
    before, held = loaded.head(), rows(loaded, spark)
    apply(spark, loaded, [("U", 1, "other", None), ("D", 2, "two", None)])
    again = opened()
    assert again.at(1) == before and again.head().number == 2
    with pytest.raises(LookupError, match="there is no commit 3"):
        again.at(3)
    if again.can_time_travel:
        assert rows(again, spark, number=1) == held
    else:
        with pytest.raises(Exception):
            rows(again, spark, number=1)


def test_a_table_takes_over_files_of_others_where_its_format_can(opened, spark):
    table = opened()
    spark.range(3).selectExpr("cast(id as int) as id", "'a' as name", "'I' as Op").coalesce(1).write.parquet(table.location)
    names = table.unmanaged_files()
    if not table.can_migrate:
        with pytest.raises(Exception):
            table.migrate(spark, LoadFiles((), {}, 0), Transaction(None, {}, "r", (), ("id",)))
        return
    table.migrate(spark, table.to_migrate(()), Transaction(None, Position().to_commit(), "r", columns("id int, name string"), ("id",))).commit()
    assert names and sorted(row.id for row in table.read(spark).collect()) == [0, 1, 2] and opened().head().rows == 3


def test_the_partitions_of_each_commit_are_told_with_their_folders(opened, spark):
    table, more = opened(), columns("id int, name string, day string")
    given = [("I", 1, "one", "mon", "LOAD00000001.parquet#1", 0), ("I", 2, "two", None, "LOAD00000001.parquet#1", 1)]
    for wanted in (given, given[:1]):
        plan = Transaction(table.head(), {"last": "load"}, "run", more, ("id",), ("day",))
        table.replace(spark, frame(spark, wanted, more), plan, len(wanted), 300).commit()
    if not table.writes_own_files:
        return  # others tell those of the newest commit at most
    assert set(table.partitions(1)) == {("mon",), (None,)} and list(table.partitions(2)) == [("mon",)]
    folders = {folder for number in (1, 2) for folder in table.partitions(number).values()}
    assert all(folder.startswith("day=") for folder in folders)


# The fence


def test_of_two_drafts_from_one_head_only_the_first_is_committed(loaded, opened, spark):
    late, first = draft(opened()), draft(loaded, "first")
    changes = batch(spark, opened(), late, [("U", 1, "late", 0)])
    loaded.commit_position(first).commit()
    before = files(loaded)
    for write in (
        lambda: opened().apply(spark, changes, late).commit(),
        lambda: opened().commit_position(late).commit(),
        lambda: opened().replace(spark, frame(spark, []), late, 0, 0).commit(),
        lambda: opened().commit_position(Transaction(None, {}, "run 2", SCHEMA, ("id",))).commit(),
    ):
        with pytest.raises(CommitConflict, match="made by|another writer"):
            write()
    assert (
        opened().recover() == [] and files(loaded) == before and opened().head().number == 2 and dict(opened().head().position) == {"last": "first"}
    )


def test_a_writer_that_is_overtaken_while_it_writes_leaves_nothing(loaded, opened, spark):
    pending = staged(spark, loaded, [("U", 1, "late", 0), ("I", 4, "late", 0)])
    opened().commit_position(draft(opened(), "overtook")).commit()
    with pytest.raises(CommitConflict, match="commit 2 was made by run 2"):
        pending.commit()
    assert rows(opened(), spark, "id name") == [(1, "one"), (2, "two"), (3, "three")] and dict(opened().head().position) == {"last": "overtook"}


@pytest.mark.parametrize("write", ["apply", *(pytest.param(write, marks=pytest.mark.torture) for write in ("replace", "commit_position"))])
def test_what_is_staged_and_not_committed_is_seen_by_nobody_and_in_nobody_s_way(loaded, opened, spark, write):
    before, table, plan = files(loaded), rows(loaded, spark), draft(loaded)
    if write == "apply":
        staged(spark, loaded, [("U", 1, "never", 0), ("I", 9, "never", 0)], plan)
    elif write == "replace":
        loaded.replace(spark, frame(spark, []), plan, 0, 0)
    else:
        loaded.commit_position(plan)
    assert opened().head().number == 1 and opened().recover() == [] and before.items() <= files(loaded).items() and rows(opened(), spark) == table
    assert files(loaded) == before or not loaded.writes_own_files, "readers of a folder would see it"
    assert apply(spark, opened(), [("U", 1, "uno", 1)]).commit.number == 2 and rows(opened(), spark)[2][:3] == ("U", 1, "uno")


# What a batch touches


def test_small_targets_give_several_files_and_only_those_with_touched_keys_are_opened(opened, spark):
    table = own_files(opened(target_bytes=4000))
    many = (
        spark.range(3000)
        .selectExpr(
            "'I' as Op",
            "cast(id as int) id",
            "concat('name ', id) name",
            "cast(id as decimal(10,2)) price",
            "'LOAD00000001.parquet#1' as _cdc_file",
            "id as _cdc_row",
        )
        .coalesce(1)
    )
    first = table.replace(spark, many, Transaction(None, {}, "run 1", SCHEMA, ("id",)), 3000, 30000).commit()
    assert 6 <= first.files["added"] <= 10
    written = apply(spark, table, [("U", 2999, "new", 1), ("U", 2990, "new", 1), ("D", 2980, None, None)])
    assert (written.files["opened"], written.files["rewritten"], counts(written)) == (1, 1, (0, 2, 1, 0)) and written.files["kept"] == first.files[
        "added"
    ] - 1
    assert written.bytes_read < first.bytes_written / 4
    beyond = apply(spark, table, [("I", 5000, "beyond", 1)])
    assert (beyond.files["opened"], beyond.bytes_read, beyond.inserted) == (0, 0, 1)
    edges = apply(spark, table, [("U", 0, "first", 1), ("U", 5000, "last", 1)])
    assert (edges.updated, edges.inserted) == (2, 0)


def test_many_small_files_become_few_with_the_next_rows(opened, spark):
    table = own_files(opened())
    table.replace(spark, frame(spark, ROWS).repartition(1), Transaction(None, {}, "run 1", SCHEMA, ("id",)), 3, 300).commit()
    for i in range(4, 13):
        written = apply(spark, table, [("I", i, f"name {i}", i)])
    assert len(files(table)) < 6 and written.commit.rows == 12
    assert [r[0] for r in sorted(table.read(spark).select("id").collect())] == list(range(1, 13))


# Other programs


def by_others(spark, table, *statements: str) -> None:
    "Let another program change the table by SQL; {} stands for its name."
    name = f"delta.`{table.location}`" if table.format == "delta" else table._named(spark) if table.format == "iceberg" else "hudi_of_others"
    if name == "hudi_of_others":
        spark.sql(f"create table {name} using hudi location '{table.location}'")
    try:
        for statement in statements:
            spark.sql(statement.format(name)).collect()
    finally:
        if name == "hudi_of_others":
            spark.sql(f"drop table {name}")


MAPPED = "alter table {} set tblproperties ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"


@pytest.mark.skipif(FORMAT not in {*FORMATS} - {"parquet"}, reason="not allowed here: other programs change no columns of such a table")
@pytest.mark.parametrize(
    "statement, keeps",
    [
        ("alter table {} drop column name", True),
        ("alter table {} rename column name to title", True),
        ("alter table {} add columns (more int)", False),
    ],
    ids=["dropped", "renamed", "added"],
)
def test_a_column_that_another_program_takes_away_stops_every_run_until_a_load_brings_it_back(loaded, spark, statement, keeps):
    if FORMAT.startswith("hudi"):
        for name in ("hoodie.schema.on.read.enable", "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"):
            spark.conf.set(name, "true")
    by_others(spark, loaded, *[MAPPED] * (FORMAT == "delta"), statement)
    if not keeps:
        assert loaded.inspect() == ([], False) and loaded.recover() == []
        return
    for look in (loaded.inspect, loaded.recover):
        with pytest.raises(ColumnsGone, match="another program has dropped or renamed the column name, which our commit 1 has"):
            look()
    loaded.replace(spark, frame(spark, ROWS), draft(loaded), 3, 300).commit()
    assert loaded.inspect() == ([], False) and rows(loaded, spark, "id name") == [(r[1], r[2]) for r in ROWS]


@pytest.mark.skipif(FORMAT != "iceberg", reason="not allowed here: only Iceberg keeps our note in what others expire")
@pytest.mark.parametrize("statement, told", [("", 0), ("delete from {} where id = 1", 1)], ids=["rewritten", "and rows deleted"])
def test_upkeep_of_others_that_leaves_one_snapshot_leaves_our_newest_commit_too(loaded, spark, statement, told):
    apply(spark, loaded, [("I", 9, "nine", 9)])
    by_others(spark, loaded, *filter(None, [statement]))
    for _ in range(2):
        loaded._call(spark, "rewrite_data_files", options="map('rewrite-all', 'true')")
    loaded._call(spark, "expire_snapshots", older_than="timestamp '2200-01-01 00:00:00'", retain_last="1")
    assert loaded.head().number == 2 and len(loaded.inspect()[0]) == told
    if not told:
        apply(spark, loaded, [("U", 9, "again", 9)])
        assert rows(loaded, spark, "id name") == [(1, "one"), (2, "two"), (3, "three"), (9, "again")] and loaded.head().number == 3


def test_strangers_in_the_folder_are_named_and_left_alone(loaded, opened):
    own_files(loaded)
    put_text(f"{loaded.location}/by-hand.parquet", "")
    assert "holds by-hand.parquet, which no commit of ours wrote;" in opened().recover()[0] and get_text(f"{loaded.location}/by-hand.parquet") == ""
