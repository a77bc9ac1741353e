"Tables laid out by columns: odd values, moves, changes without those columns."

from __future__ import annotations

import random
import re
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

from damage import encoded, put
from dmscdc.cli.main import app
from dmscdc.errors import Refused
from dmscdc.history.audit import audit_row
from dmscdc.landing.files import FolderLanding
from dmscdc.load.arrivals import Plan
from dmscdc.load.initial import prepare_load
from dmscdc.load.results import Step, TableContext
from world import World, closed, query, replayed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "site": "string", "day": "date", "name": "string"}
ODD = ["a b", "a/b", "ü 😀", "50%", "a=b", "x%2Fy", "it's", '"q"', "a:b*?", "{x}[y]", "007", "c\\d", "#1 +2", "null"]


def lake(w, columns="id, site, day, name"):
    "The lake with partition values as texts, as DuckDB unescapes them."
    return query(
        f"select {columns} from read_parquet('{w.folder}/**/*.parquet', hive_partitioning=true, hive_types={{'site': varchar, 'day': date}}) order by all"
    )


def test_any_value_of_two_partition_columns_is_kept_through_load_insert_and_rewrite(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id", partition="site,day")
    day = "2018-12-15"
    w.load(
        [(i, site, day, "loaded") for i, site in enumerate(ODD)]
        + [(90, None, day, "no site"), (91, "s", None, "no day"), (92, None, None, "neither")]
    )
    assert w.go().verdict == "ok" and lake(w) == replayed(w.raw, ["id"], "id, site, day, name")
    w.changes(
        1, [("U", i, site, day, "changed") for i, site in enumerate(ODD)] + [("I", 50 + i, site, "0001-01-01", "new") for i, site in enumerate(ODD)]
    )
    w.changes(2, [("U", 90, None, day, "still no site"), ("U", 91, "s", None, "still"), ("D", 92, None, None, None)])
    done = w.go()
    assert (done.verdict, done.rows["updated"], done.rows["inserted"], done.rows["deleted"]) == ("ok", len(ODD) + 2, len(ODD), 1)
    assert lake(w) == replayed(w.raw, ["id"], "id, site, day, name")
    rows = [tuple(r) for r in w.lake_table.read(spark).select("id", "site", "day", "name").collect()]
    assert sorted(rows, key=lambda r: (r[0], r[1] or "")) == lake(w)


def test_rows_move_between_partitions_and_changes_without_those_columns_leave_them_there(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id", partition="site,day", delete="soft")
    d1, d2 = "2018-12-15", "2018-12-16"
    w.load([(1, "a", d1, "one"), (2, "a", d1, "two"), (3, "b", d1, "three"), (4, "b", None, "four"), (5, "a", d1, "five")])
    w.changes(
        1,
        [
            ("U", 1, "b", d1, "moved"),
            ("U", 3, "a/ü", d2, "moved"),
            ("U", 4, "b", d1, "from null"),
            ("U", 5, None, d1, "to null"),
            ("I", 6, "c d", d2, "six"),
        ],
    )
    w.changes(2, [("U", 1, "patched"), ("U", 2, "patched"), ("D", 3, None), ("I", 7, "no place")], {"id": "int", "name": "string"})
    done = w.go()
    assert (done.verdict, done.rows["updated"], done.rows["inserted"], done.rows["deleted"]) == ("ok", 4, 5 + 2, 1)  # five of the load
    D1, D2 = date(2018, 12, 15), date(2018, 12, 16)
    expected = [
        (1, "b", D1, "patched", "U"),
        (2, "a", D1, "patched", "U"),
        (3, "a/ü", D2, "moved", "D"),
        (4, "b", D1, "from null", "U"),
        (5, None, D1, "to null", "U"),
        (6, "c d", D2, "six", "I"),
        (7, None, None, "no place", "I"),
    ]
    assert lake(w, "id, site, day, name, Op") == expected == replayed(w.raw, ["id"], "id, site, day, name, Op", soft=True)
    w.changes(3, [("U", 3, None), ("U", 7, "patched")], {"id": "int", "name": "string"})  # a marked row starts again, without a place
    assert w.go().verdict == "ok"
    assert lake(w, "id, site, day, name, Op") == replayed(w.raw, ["id"], "id, site, day, name, Op", soft=True)


def test_partitions_may_be_numbers_decimals_times_and_truths(tmp_path, spark):
    schema = {"id": "int", "n": "bigint", "p": "decimal(10,2)", "moment": "timestamp", "ok": "boolean"}
    w = World(tmp_path, spark, schema).set(key="id", partition="n,p,moment,ok")
    rows = [(1, -5, "1.50", "2018-12-15 10:00:00", True), (2, 2**62, "-0.01", "1899-12-30 00:00:00.000001", False), (3, None, None, None, None)]
    w.load(rows)
    assert w.go().verdict == "ok"
    w.changes(
        1, [("U", 1, -5, "1.50", "2018-12-15 10:00:00", True), ("U", 2, 2**62, "-0.02", "1899-12-30 00:00:00.000001", True), ("I", 4, *rows[0][1:])]
    )
    done = w.go()
    assert (done.verdict, done.rows["updated"], done.rows["unchanged"], done.rows["inserted"]) == ("ok", 1, 1, 1)
    found = w.lake_table.read(spark).selectExpr("id", "n", "p", "unix_micros(moment)", "ok").collect()
    assert sorted(map(tuple, found), key=lambda r: r[0]) == [
        (1, -5, Decimal("1.50"), 1544868000000000, True),
        (2, 2**62, Decimal("-0.02"), -2209161599999999, True),
        (3, None, None, None, None),
        (4, -5, Decimal("1.50"), 1544868000000000, True),
    ]


@pytest.mark.parametrize("kind", ["float", "double"])
def test_both_zeros_lie_in_one_partition_and_no_other_floating_value_is_another(tmp_path, spark, kind):
    values = [0.0, -0.0, 0.0, -0.0, None, float("nan"), float("inf"), float("-inf"), 0.1, -1e-30, 1.5e30]
    w = World(tmp_path, spark, {"id": "int", "p": kind, "name": "string"}).set(key="id", partition="p")
    w.load([(i, value, "load") for i, value in enumerate(values)])
    assert w.go().verdict == "ok"
    w.changes(1, [("U", i, value, "changed") for i, value in enumerate(values)] + [("I", 20 + i, value, "new") for i, value in enumerate(values)])
    w.changes(2, [("U", 0, -0.0, "other zero"), ("U", 1, 0.0, "other zero"), ("U", 8, -0.0, "moved"), ("U", 24, 0.0, "moved")])
    assert w.go().verdict == "ok"
    known = lambda rows: sorted(repr((id, None if p is None else p + 0.0, name)) for id, p, name in rows)
    told, found = replayed(w.raw, ["id"], "id, p, name"), w.lake_table.read(spark).select("id", "p", "name").collect()
    assert len(found) == 22 and known(found) == known(told)
    assert len({f.partition("/")[0] for f in map(str, (path.relative_to(w.folder) for path in w.folder.rglob("p=*/*.parquet")))}) == 8


FAR = {
    pa.date32(): (-800_000, -719_528, 0, 2_932_897),
    pa.timestamp("ms", "UTC"): (-62_167_219_200_001, -99_999_999_999_999, 0, 253_402_300_800_123),
}  # days and milliseconds since 1970


@pytest.mark.parametrize("kind", FAR, ids=str)
def test_days_and_times_before_the_year_1_and_after_9999_lay_out_a_lake_that_goes_on_and_is_told(tmp_path, spark, kind):
    def far(first, op, at):
        numbers = pa.array(at, pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
        ops = {"Op": [op] * len(at)} if op else {}
        return encoded(pa.table({**ops, "id": pa.array(range(first, first + len(at)), pa.int32()), "at": numbers, "name": [op or "load"] * len(at)}))

    w, values = World(tmp_path, spark, {}).set(key="id", partition="at"), FAR[kind]
    put(w.raw / "LOAD00000001.parquet", far(0, None, [*values, None]))
    assert w.go().verdict == "ok"
    put(w.raw / f"{closed(1)}.parquet", far(2, "U", [values[2], values[3], values[0]]))  # the last one moves
    put(w.raw / f"{closed(2)}.parquet", far(10, "I", values))
    done = w.go()
    assert (done.verdict, done.rows["updated"], done.rows["inserted"]) == ("ok", 3, 4), done.words
    put(w.raw / f"{closed(3)}.parquet", far(11, "D", values[1:2]))
    assert w.go().verdict == "ok"
    number = "datediff(at, date'1970-01-01')" if kind == pa.date32() else "unix_millis(at)"
    found = sorted(map(tuple, w.lake_table.read(spark).selectExpr("id", number, "name").collect()))
    assert found == [
        (0, values[0], "load"),
        (1, values[1], "load"),
        (2, 0, "U"),
        (3, values[3], "U"),
        (4, values[0], "U"),
        (10, values[0], "I"),
        (12, 0, "I"),
        (13, values[3], "I"),
    ]
    told = {n: audit_row(str(w.landing), w.lake_table, {"id": n})[0][0] for n in (1, 3, 4, 13)}
    assert {story.verdict for story in told.values()} == {"agrees"}
    shown = {n: str(story.life.state["at"]) for n, story in told.items()}
    assert [shown[3], shown[1]] == (
        ["10000-01-01", "0000-01-01"] if kind == pa.date32() else ["10000-01-01T00:00:00.123", "-1199-02-15T14:13:20.001"]
    )
    put(w.raw / f"{closed(4)}.parquet", far(1, "X", values[3:]))
    assert f"row 1 of {closed(4)}.parquet: column Op is 'X'" in w.go().words


def test_all_readers_of_the_folder_agree_between_passes(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id", partition="site,day")
    w.load([(1, "a", "2018-12-15", "x"), (2, "b c", "2018-12-16", None), (3, None, "2018-12-16", "z")])
    w.changes(1, [("I", 4, "b c", "2018-12-17", "new"), ("U", 1, "b c", "2018-12-15", "moved")])
    assert w.go().verdict == "ok" and w.settled()
    rows = [
        (1, "b c", date(2018, 12, 15), "moved"),
        (2, "b c", date(2018, 12, 16), None),
        (3, None, date(2018, 12, 16), "z"),
        (4, "b c", date(2018, 12, 17), "new"),
    ]
    names = ["id", "site", "day", "name"]
    assert sorted(map(tuple, spark.read.parquet(str(w.folder)).select(*names).collect()), key=lambda r: r[0]) == rows == lake(w)
    arrow = ds.dataset(str(w.folder), format="parquet", partitioning="hive").to_table(columns=names)
    assert sorted((r["id"], r["site"], r["day"] and date.fromisoformat(str(r["day"])), r["name"]) for r in arrow.to_pylist()) == rows


UNFIT = [
    ("", "is the empty text, which no folder can hold"),
    ("__HIVE_DEFAULT_PARTITION__", "is '__HIVE_DEFAULT_PARTITION__', which no folder can hold: readers would take it for null"),
    ("a\0b", "is 'a\\x00b' with a NUL character"),
    ("x" * 251, "of 251 bytes, more than a folder's name can hold"),
    ("ü" * 126, "of 252 bytes"),
    ("x/" * 63, "of 126 bytes"),
    ("x" * 5000, "of 5,000 bytes"),
]


@pytest.mark.parametrize("value, words", UNFIT, ids=[words[:20] for _, words in UNFIT])
def test_a_text_that_no_folder_can_be_called_refuses_a_load_and_a_batch_in_words(tmp_path, spark, value, words):
    w = World(tmp_path, spark, SCHEMA).set(key="id", partition="site")
    w.load([(1, None, None, "null"), (2, "a", None, "x"), (3, value, None, "x")])
    before, done = w.table_state(), w.go()
    assert (
        done.verdict == "refused"
        and "row 3 of LOAD00000001.parquet: partition column site " in done.words
        and words in done.words
        and w.table_state() == before
    )
    w.gone("LOAD00000001").load([(1, None, None, "null"), (2, "a", None, "x"), (3, "b", None, "x")])
    assert w.go().verdict == "ok"
    w.changes(
        1, [("I", 4, "c", None, "good"), ("I", 5, value, None, "over"), ("U", 5, "d", None, "written")]
    )  # a value that is never written is no harm
    assert w.go().verdict == "ok"
    w.changes(2, [("I", 6, "c", None, "good"), ("U", 1, value, None, "bad")])
    before, done = w.table_state(), w.go()
    assert (
        done.verdict == "refused"
        and f"row 2 of {closed(2)}.parquet: partition column site " in done.words
        and words in done.words
        and w.table_state() == before
    )
    assert len(done.words) < 500 and "dmscdc table set shop.item --partition" in done.words


def test_the_longest_text_that_a_folder_can_be_called_is_kept(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id", partition="site,day")
    values = ["x" * 250, "ü" * 125, "/" * 83 + "x", "".join(map(chr, range(1, 32))), "\x7f[]^{}", "😀" * 62]
    w.load([(i, value, None, "load") for i, value in enumerate(values)])
    assert w.go().verdict == "ok" and lake(w) == replayed(w.raw, ["id"], "id, site, day, name")
    w.changes(
        1,
        [("I", 10 + i, value, None, "new") for i, value in enumerate(values)] + [("U", i, value, None, "changed") for i, value in enumerate(values)],
    )
    assert w.go().verdict == "ok" and lake(w) == replayed(w.raw, ["id"], "id, site, day, name")


@pytest.mark.parametrize(
    "key, partition, words",
    [
        (("id", "id"), (), "the key is set to id,id; each column was expected once. Set it: dmscdc table set shop.item --key id"),
        (
            ("id",),
            ("site", "day", "site"),
            "the partition is set to site,day,site; each column was expected once. Set it: dmscdc table set shop.item --partition site,day",
        ),
        (("id",), ("b",), "the partition column b is binary, folders are called by texts"),
    ],
    ids=["key twice", "partition twice", "binary"],
)
def test_a_key_or_partition_that_cannot_be_is_refused_in_words(tmp_path, spark, key, partition, words):
    w = World(tmp_path, spark, {**SCHEMA, "b": "binary"}).load([(1, "a", None, "x", b"\xff")])
    landing = FolderLanding(w.landing)
    with pytest.raises(Refused, match=re.escape(words)):
        context = TableContext(w.ref, landing, w.lake_table, key, partition)
        prepare_load(Step(lambda: spark, context, Plan(w.ref, load=landing.files(w.ref).load, load_number=1), None))
    assert not w.folder.exists()


def test_many_small_files_are_said_by_the_load_that_writes_them_and_by_every_plan_after_it(tmp_path, spark):
    w = World(tmp_path, spark, {"id": "int", "guest": "string"}).set(key="id", partition="guest")
    w.load([(i, f"guest {i % 110}") for i in range(220)])
    done = w.go()
    said = "the partition guest makes many small files: 110 files in 110 folders, 2.0 rows a file on average"
    assert (done.verdict, len(w.files())) == ("attention", 110) and said in done.words and said in done.notes[0]
    assert "dmscdc table set shop.item --partition COLUMNS, then dmscdc table rewind shop.item --reload" in done.words
    idle = w.idle()
    assert (idle.verdict, idle.notes) == ("nothing", ()) and said in idle.plan["sentence"]
    w.changes(1, [("U", 1, "guest 2")])
    changed = w.go()
    assert changed.verdict == "ok" and said in changed.plan["sentence"], "it is no news"
    w.state.put_settings(w.ref, partition="")
    w.state.instruct(w.ref, {"kind": "reload", "changes": "keep"})
    done = w.go()
    assert done.verdict == "ok" and "small files" not in done.plan["sentence"] + done.words and len(w.files()) < 5


def test_a_batch_that_makes_a_layout_too_fine_says_so_once(tmp_path, spark):
    w = World(tmp_path, spark, {"id": "int", "guest": "string"}).set(key="id", partition="guest")
    w.load([(i, f"guest {i}") for i in range(100)])
    assert w.go().verdict == "ok", "a hundred folders are none too many"
    w.changes(1, [("I", 100, "guest 100")])
    done = w.go()
    assert done.verdict == "attention" and "101 files in 101 folders, 1.0 rows a file on average" in done.words
    w.changes(2, [("I", 101, "guest 101")])
    assert w.go().verdict == "ok"


def test_a_partition_column_whose_name_leaves_no_room_for_a_null_is_refused_and_one_that_leaves_it_is_kept(tmp_path, spark):
    long, fits = "p" * 214, "p" * 213  # and the sign between: 40 or 41 of 255 bytes are left
    for name, verdict in ((long, "refused"), (fits, "ok")):
        w = World(tmp_path / verdict, spark, {"id": "int", name: "decimal(38,38)"}).set(key="id", partition=name)
        w.load([(1, None), (2, "-0." + "1" * 38)])
        done = w.go()
        assert done.verdict == verdict, done.words
    assert w.lake(f"id, {fits} is null") == [(1, True), (2, False)]
    w = World(tmp_path / "refused", spark, {"id": "int", long: "decimal(38,38)"})
    assert "leaves 40 bytes of a folder's name" in w.go().words and not w.folder.exists()


NOW = {"id": "string", "email": "string", "since": "string", "n": "int"}
BY = {
    "id_right_1": "right(id, 1)",
    "email_left_2": "nullif(left(email, 2), '')",
    "since_date": "try_cast(left(since, 10) as date)",
    "n_left_1": "left(n::varchar, 1)",
    "email_substring_end2_1": "case when length(email) > 1 then substr(email, length(email) - 1, 1) end",
}


def test_expressions_lay_a_table_out_and_no_row_is_where_it_does_not_belong(tmp_path, spark):
    rng, rows = random.Random(5), {}
    w = World(tmp_path, spark, NOW).set(key="id", partition="right(id,1), left( email , 2 ),date(since),left(n,1),substring(email, -2,1)")
    one = lambda key: (
        key,
        rng.choice(["ünal@x", "u", "", None, f"{rng.randrange(9)}@y"]),
        rng.choice(["2021-01-01T10:00", "2020-02-29", "2021-02-29", "soon", None]),
        rng.choice([None, rng.randrange(-20, 300)]),
    )
    rows |= {key: one(key) for key in (f"c{i:03d}" for i in range(40))}
    w.load(list(rows.values()))
    assert w.go().verdict == "ok"
    for window in range(1, 4):
        changes = []
        for key in rng.sample(sorted(rows), 9):
            if rng.random() < 0.3:
                changes.append(("D", *rows.pop(key)))
            else:
                rows[key] = one(key)
                changes.append(("U", *rows[key]))
        fresh = f"d{window:03d}"
        rows[fresh] = one(fresh)
        w.changes(window, [*changes, ("I", *rows[fresh])])
        assert w.go().verdict == "ok"
        assert w.lake("id, email, since, n") == sorted(rows.values())
        read = f"read_parquet('{w.folder}/**/*.parquet', hive_partitioning=true, hive_types={{'since_date': date, 'email_left_2': varchar, 'id_right_1': varchar, 'n_left_1': varchar, 'email_substring_end2_1': varchar}})"
        wrong = " or ".join(f"{name} is distinct from {sql}" for name, sql in BY.items())
        assert query(f"select * from {read} where {wrong}") == []


def test_a_batch_opens_only_the_partitions_that_its_keys_lie_in(tmp_path, spark):
    w = World(tmp_path, spark, NOW).set(key="id", partition="right(id,1)")
    w.load([(f"{i:x}{i % 10}", "a@x", "2021-01-01", i) for i in range(200)])
    assert w.go().verdict == "ok" and len(w.files()) == 10
    w.changes(1, [("U", "33", "b@x", "2021-01-01", 1), ("D", "c13", None, None, None)])  # in one partition of ten, at both ends of all keys
    done = w.go()
    assert done.verdict == "ok" and done.lake["files_opened"] == 1, done.lake


def test_what_an_expression_cannot_be_computed_from_is_refused_by_name(tmp_path, spark):
    w = World(tmp_path, spark, {"id": "int", "p": "double", "id_right_1": "int"}).set(key="id", partition="date(p)")
    w.load([(1, 1.5, 7)])
    done = w.go()
    assert (
        done.verdict == "refused"
        and "the partition date(p) was expected to find one of string, date, timestamp in p; LOAD00000001.parquet has double" in done.words
    )
    w.set(partition="right(id,1)")
    done = w.go()
    assert done.verdict == "refused" and "LOAD00000001.parquet has a column id_right_1, and the partition right(id,1) needs that name" in done.words


def test_a_changed_expression_waits_for_a_reload_and_a_wrong_one_is_not_taken(tmp_path, spark):
    w = World(tmp_path, spark, NOW).set(key="id", partition="right(id,1)")
    w.load([("a1", "x", "2021-01-01", 1)])
    assert w.go().verdict == "ok"
    places = ["--folder", str(tmp_path), "--landing", str(w.landing), "--lake", str(tmp_path / "lake")]
    told = lambda *words: CliRunner().invoke(app, ["table", *words, *places])
    wrong = told("set", str(w.ref), "--partition", "right(ID,2)")
    assert wrong.exit_code == 2 and f"{w.ref} has no column ID" in " ".join(wrong.output.split()), wrong.output
    other = " ".join(told("set", str(w.ref), "--partition", "year( since ), right(id,2)").output.split())
    assert (
        "partition year(since),right(id,2)" in other
        and f"was written with right(id,1); no changes are applied until you reload: `dmscdc table rewind {w.ref} --reload`" in other
    )
    assert w.go().verdict == "attention"
    assert told("rewind", str(w.ref), "--reload").exit_code == 0 and w.go().verdict == "ok"
    assert [file.rpartition("/")[0] for file in w.files()] == ["since_year=2021/id_right_2=a1"]
