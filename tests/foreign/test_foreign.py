"What other tools promise of changes, partial rows, versions and comparisons, as their tests have it (`cases.py`). All cases of a family are rows of one table, apart by a column of its key."

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from datetime import datetime, timezone
from decimal import Decimal

import pytest
from cases import APPLIED, COMPARED, DRIFTS, LOST, PARTIAL, RELOADED, VERSIONED

from dmscdc.capture.writer import DmsSettings, change_sequence
from dmscdc.changes.schema import columns
from dmscdc.history.changelog import open_changelog
from dmscdc.history.small_feed import small_feed
from dmscdc.lake.table import Commit, set_otherwise
from dmscdc.landing.files import TableRef
from dmscdc.reconcile.canonical import rules_of
from dmscdc.reconcile.compare import compare_ranges, find_differences, spark_side
from dmscdc.reconcile.source import address, columns_of, snapshot, source_side
from dmscdc.scd2.update import read_versions, update_versions
from dmscdc.state.position import Position, reload_folder
from dmscdc.stream.follow import lost_words
from dmscdc.stream.shards import read_window
from dmscdc.stream.stage import Manifest
from world import DAY, World

pytestmark = pytest.mark.test

DAWN = datetime(2018, 12, 15, 9, tzinfo=timezone.utc)
KEYED = {"what": "string", "a": "string", "b": "string"}


def parts(key) -> tuple[str, str]:
    return tuple(map(str, key)) if isinstance(key, tuple) else (str(key), "")


def rows_of(file) -> list[tuple]:
    "Changes with their place in the order, which is that of the rows where a case says nothing."
    return [(*change, number + 1) if len(change) == 3 else change for number, change in enumerate(file)]


@pytest.fixture(scope="module")
def applied(spark, tmp_path_factory) -> dict:
    "The rows of each case after a load and one pass a file."
    w = World(tmp_path_factory.mktemp("applied"), spark, {**KEYED, "v": "string"}).set(key="what,a,b")
    w.load([(what, *parts(key), v) for what, case in APPLIED.items() for key, v in case.load.items()])
    w.go()
    for number in range(max(len(case.files) for case in APPLIED.values())):
        found = [(what, *change) for what, case in APPLIED.items() for change in rows_of(case.files[number] if number < len(case.files) else ())]
        rows = [(op, what, *parts(key), v) for what, op, key, v, _ in found]
        places = [change_sequence(DAWN, 1_000 * (0 if "later batch" in what else number) + place) for what, _, _, _, place in found]
        w.changes(number + 1, rows, sequences=places, settings=DmsSettings(sequence_column="seq")).go()
    w.set(key="b,a,what").changes(
        9, [("U", "the key in another order", "1", "", "a")], sequences=[change_sequence(DAWN, 9_000)], settings=DmsSettings(sequence_column="seq")
    ).go()
    return {
        "world": w,
        **{what: sorted(row[1:] for row in w.lake("what, a, b, v") if row[0] == what) for what in (*APPLIED, "the key in another order")},
    }


@pytest.mark.parametrize("what", APPLIED)
def test_rows_are_those_that_others_expect(applied, what):
    assert applied[what] == sorted((*parts(key), v) for key, v in APPLIED[what].expected.items()), APPLIED[what].source


def test_a_second_run_touches_no_file(applied):
    """bruin-data/ingestr, the fence test's second run leaves each row's `xmin`; apache/iceberg-python: the same again makes no snapshot. A key whose columns are named in
    another order is the same key (apache/spark, KeyDriftSuite)."""
    before = applied["world"].table_state()
    assert applied["world"].idle().verdict == "nothing" and applied["world"].table_state() == before
    assert applied["the key in another order"] == [("1", "", "a")]


@pytest.fixture(scope="module")
def partial(spark, tmp_path_factory) -> dict:
    "The rows of each case; values that were not logged have a marker."
    csv = DmsSettings(data_format="csv", use_csv_no_sup_value=True, csv_no_sup_value="¬", add_column_name=True, include_op_for_full_load=True)
    schema = {**KEYED, "v": "string", "w": "string"}
    w = World(tmp_path_factory.mktemp("partial"), spark, schema).set(
        key="what,a,b", csv={"marker": "¬"}, columns=[list(one) for one in schema.items()]
    )
    w.load([(what, str(key), "-", *values) for what, case in PARTIAL.items() for key, values in case.load.items()], settings=csv)
    for number in range(max(len(case.files) for case in PARTIAL.values())):
        w.changes(
            number + 1,
            [
                (op, what, str(key), "-", *values)
                for what, case in PARTIAL.items()
                for op, key, values in (case.files[number] if number < len(case.files) else ())
            ],
            settings=csv,
        ).go()
    return {what: {int(key): values for which, key, *values in w.lake("what, a, v, w") if which == what} for what in PARTIAL}


@pytest.mark.parametrize("what", PARTIAL)
def test_values_that_were_not_logged_are_those_that_others_expect(partial, what):
    assert partial[what] == {key: list(values) for key, values in PARTIAL[what].expected.items()}, PARTIAL[what].source


@pytest.fixture(scope="module")
def versioned(spark, tmp_path_factory) -> list[tuple]:
    "The versions of all cases: what comes in time, then what comes late, then nothing new."
    w = World(tmp_path_factory.mktemp("versioned"), spark, {"what": "string", "v": "string"}).set(key="what")
    told = []
    for late in (False, True):
        at = sorted({place for case in VERSIONED.values() for _, _, place in case.files[late]})
        for place in at:  # a late file lies one second behind the one that came in time
            w.changes(60 * place + late, [(op, what, v) for what, case in VERSIONED.items() for op, v, when in case.files[late] if when == place])
        w.go()
        update_versions(*w.places, quiet_period=0, spark=lambda: spark)
    assert update_versions(*w.places, quiet_period=0, spark=lambda: pytest.fail("Spark was started")).verdict == "nothing"
    for row in read_versions(spark, w.table, w.places[2]).collect():
        told.append((row["what"], row["v"], row["valid_from"], row["valid_to"]))
    return told


def place_of(moment) -> int | None:
    return None if moment is None else round((moment - datetime.strptime(f"{DAY}0000", "%Y%m%d-%H%M%S")).total_seconds()) // 60


@pytest.mark.parametrize("what", VERSIONED)
def test_versions_are_those_that_others_expect(versioned, what):
    found = [(v, place_of(since), place_of(until)) for which, v, since, until in versioned if which == what]
    assert sorted(found, key=lambda one: one[1]) == VERSIONED[what].expected, VERSIONED[what].source


@pytest.fixture(scope="module")
def compared(spark, tmp_path_factory) -> dict:
    "What a comparison finds of each key."
    path, schema = tmp_path_factory.mktemp("compared") / "s.db", "id int, name string, share double, part decimal(9,3)"
    with sqlite3.connect(path) as db:
        db.execute("create table t (id integer primary key, name text, share double, part decimal(9,3))")
        db.executemany("insert into t values (?,?,?,?)", [row for _, row, _, _ in COMPARED.values() if row])
    lake = [(*row[:3], row[3] and Decimal(row[3])) for _, _, row, _ in COMPARED.values() if row]
    with ExitStack() as stack:
        look = stack.enter_context(snapshot(address(f"sqlite:{path}")))
        rules = rules_of("sqlite", columns(schema), columns_of(look, TableRef("s", "t")))
        sides = source_side(look, "t"), stack.enter_context(spark_side(spark, spark.createDataFrame(lake, schema).coalesce(1)))
        found, layout = find_differences(sides, rules, ["id"])
        return {int(one.key["id"]): (one.kind, *one.columns) for one in compare_ranges(sides, found, layout, 100).findings}


@pytest.mark.parametrize("what", COMPARED)
def test_differences_are_those_that_others_expect(compared, what):
    source, theirs, ours, expected = COMPARED[what]
    assert compared.get((theirs or ours)[0]) == expected, source


@pytest.mark.parametrize("what", DRIFTS)
def test_a_key_is_said_to_be_another_where_others_say_so(what):
    source, written, now, expected = DRIFTS[what]
    head = Commit(1, {}, "run", (), tuple(written.split(",")), (), 5, "2018-12-15T10:00:00Z")
    assert bool(set_otherwise(TableRef("shop", "t"), head, tuple(now.split(",")), (), True)) == expected, source


@pytest.fixture(scope="module")
def reloaded(spark, tmp_path_factory) -> list[tuple]:
    "What a follower is told of the next load."
    w = World(tmp_path_factory.mktemp("reloaded"), spark, {"what": "string", "a": "int", "v": "string"}).set(key="what,a", reload="difference")
    w.load([(what, key, v) for what, case in RELOADED.items() for key, v in case[1].items()], time=DAWN)
    w.changes(1, [(op, what, key, v) for what, case in RELOADED.items() for op, key, v in case[2]], time=DAWN.replace(hour=10, second=3)).go()
    stood = Position.from_json(w.lake_table.head().position)
    w.load([(what, key, v) for what, case in RELOADED.items() for key, v in case[3].items()], time=DAWN.replace(hour=11)).go()
    past = open_changelog(str(w.landing), w.ref, position=Position.from_json(w.lake_table.head().position), reloads=reload_folder(w.places[2], w.ref))
    told = small_feed(past, ["what", "a"], stood).rows.to_pylist()
    return [(row["what"], (row["_change_type"], row["a"], row["v"])) for row in told]


@pytest.mark.parametrize("what", RELOADED)
def test_a_follower_is_told_of_a_new_load_what_others_write(reloaded, what):
    assert sorted(told for which, told in reloaded if which == what) == RELOADED[what][4], RELOADED[what][0]


@pytest.mark.parametrize("what", LOST)
def test_a_stream_that_may_have_lost_records_says_so_where_others_do(what):
    source, read, there, hours, expected = LOST[what]

    class Kinesis:
        def list_shards(self, **asked):
            return {"Shards": [{"ShardId": shard} for shard in there]}

        def get_shard_iterator(self, **asked):
            return {"ShardIterator": "at the end"}

        def get_records(self, ShardIterator):
            return {"Records": [], "MillisBehindLatest": 0, "NextShardIterator": ShardIterator}

    before = Manifest(
        number=len(read), positions={shard: {"number": number, "closed": closed} for shard, (number, closed) in read.items()}, read_at=1e9
    )
    gone = read_window(Kinesis(), "customers", before.positions, "TRIM_HORIZON").lost
    assert bool(lost_words("customers", TableRef("shop", "customer"), before, 1e9 + hours * 3600, hours=24, trimmed=gone)) == expected, source
