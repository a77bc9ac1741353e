"""CSV files whose shape changes: each is read by the version of the definition that is valid for it, or refused; never is a value under another name. The oracle is a dictionary that the test changes while it writes the files."""

from __future__ import annotations

import itertools
import random

import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.small import table_then
from dmscdc.service.config import write_config
from dmscdc.state.position import Position
from seeds import seed_of
from ways import EACH, way  # noqa: F401
from world import World, closed

pytestmark = pytest.mark.test

ORDERS = "order_id,customer_id,employee_id,order_date,required_date,shipped_date,ship_via,freight,ship_name,ship_address,ship_city,ship_region,ship_postal_code,ship_country"
ORDERS_DDL = """create table orders (order_id smallint not null primary key, customer_id varchar(5), employee_id smallint, order_date date, required_date date,
    shipped_date date, ship_via smallint, freight real, ship_name varchar(40), ship_address varchar(60), ship_city varchar(15), ship_region varchar(15),
    ship_postal_code varchar(10), ship_country varchar(15));"""
ITEM, WITH_STOCK, WITHOUT_NAME = (
    "id int, name text, price numeric(10,2)",
    "id int, stock int, name text, price numeric(10,2)",
    "id int, stock int, price numeric(10,2)",
)


def seq(number: int, at: str = "2018121510020000") -> str:
    return f"{at}{number:019d}"


class House(World):
    def put(self, name: str, text: str) -> None:
        (self.raw / name).parent.mkdir(parents=True, exist_ok=True)
        (self.raw / name).write_text(text)

    def typed(self, *words: str, code: int = 0) -> str:
        "A command in the table's folder; nothing but words may come out."
        done = CliRunner().invoke(app, [*words, "--folder", str(self.root)], env={"COLUMNS": "400"})
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert done.exit_code == code, done.output
        return " ".join(done.output.split())

    def defined(self, columns: str, *since: str, code: int = 0) -> str:
        "The columns of the table, by a create table."
        (self.root / "t.sql").write_text(columns if columns.startswith("create") else f"create table item ({columns});")
        return self.typed("table", "columns", self.table, "--ddl", str(self.root / "t.sql"), "--dialect", "postgresql", *since, code=code)

    def past(self):
        head = self.lake_table.head()
        return open_changelog(str(self.landing), self.ref, position=Position.from_json(dict(head.position)))

    def at(self, file: str, *names: str) -> list[tuple]:
        return sorted(tuple(row[n] for n in names) for row in table_then(upto(self.past(), file), ["id"]).rows.to_pylist())


@pytest.fixture
def house(spark, tmp_path):
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    return House(tmp_path, spark, {})


def test_a_real_capture_before_images_behind_an_empty_sequence(house):
    house.table = "public.orders"
    at, row = "2024-06-12 10:30:25.104667", "VINET,5,1996-07-04,1996-08-01,1996-07-16,3,+3.23800011e+01,Vins,59 rue,Reims,,51100,France"
    house.put("LOAD00000001.csv", "".join(f"I,{at},{n},{row},\n" for n in (10248, 10249)))
    house.put("20240612-103125104.csv", f"U,{at},10248,{row.replace('Reims', 'Lyon')},{seq(61, '2024061210302510')}\n")
    house.put("20240705-201037892.csv", f"U,2024-07-05 20:09:37.000000,10250,{row.replace('Reims', 'Paris')},{seq(7, '2024070520093700')},10249\n")
    house.defined(ORDERS_DDL)
    house.typed("table", "set", "public.orders", "--csv", "timestamp=ts", "--csv", "more=seq,BI_order_id")
    assert house.go().verdict == "ok"
    assert house.lake("order_id, ship_city, ship_country, seq") == [
        (10248, "Lyon", "France", seq(61, "2024061210302510")),
        (10250, "Paris", "France", seq(7, "2024070520093700")),
    ]
    said = house.typed("history", "public.orders", "--key", "order_id=10250")
    assert "10249" in said and house.typed("table", "columns", "public.orders").count("varchar") == 0


@pytest.mark.parametrize("name", ["transact_id", "AR_H_CHANGE_SEQ"])
def test_a_change_sequence_in_the_definition_is_to_be_left_out_of_it(house, name):
    house.put("LOAD00000001.csv", "1,a,\n2,b,\n")
    house.put(f"{closed(1)}.csv", f"U,1,A,{'20181215100001':0<35}\n")
    house.defined(f"id int, name text, {name} text")
    house.typed("table", "set", "shop.item", "--key", "id")
    found = house.go()
    assert found.verdict == "refused" and f"{name} is added by a rule of the task: leave it out of the definition (--since load)" in found.words, (
        found.words
    )
    house.defined("id int, name text", "--since", "load")
    house.go()
    assert house.lake("id, name") == [(1, "A"), (2, "b")]


def test_columns_change_in_the_middle_and_every_file_is_read_by_its_own_version(house):
    house.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n")
    house.put(f"{closed(1)}.csv", "U,1,A,1.10\n")
    house.defined(ITEM)
    house.typed("table", "set", "shop.item", "--key", "id")
    assert house.go().verdict == "ok"
    house.put(f"{closed(3)}.csv", "U,2,7,B,2.20\nI,3,8,c,3.00\n")
    found = house.go()
    assert (
        found.verdict == "refused"
        and f"a row of {closed(3)}.csv has 5 fields" in found.words
        and f"dmscdc table columns shop.item --ddl FILE --since {closed(3)}.csv" in found.words
    )
    assert "--since" in house.defined(WITH_STOCK, code=2) and house.lake("id, name") == [(1, "A"), (2, "b")]
    assert closed(3) in house.defined(WITH_STOCK, "--since", f"{closed(3)}.csv")
    assert "4 columns of the table's definition valid from 20181215-100003000.csv on" in house.typed("plan")
    assert "stock null → 7" in house.typed("history", "shop.item", "--key", "id=2")  # as the next pass reads it, not as the last one
    assert house.go().verdict == "ok"
    house.put(f"{closed(5)}.csv", "U,3,9,3.30\n")
    house.defined(WITHOUT_NAME, "--since", f"{closed(5)}.csv")
    assert house.go().verdict == "ok"
    house.put(f"{closed(2)}.csv", "U,1,AA,1.11\n")  # late, by the old writer
    assert house.go().verdict == "ok"
    assert house.lake("id, stock, name, price::varchar") == [(1, None, "AA", "1.11"), (2, 7, "B", "2.20"), (3, 9, "c", "3.30")]
    assert house.at(f"{closed(2)}.csv", "id", "name") == [(1, "AA"), (2, "b")] and house.at(f"{closed(5)}.csv", "id", "name", "stock") == [
        (1, "AA", None),
        (2, "B", 7),
        (3, "c", 9),
    ]
    for key in (1, 2, 3):
        house.typed("history", "shop.item", "--key", f"id={key}")  # code 0: it agrees with the lake
    house.state.remove(house.ref)  # what the commits keep is enough
    house.set(key="id")
    house.put(f"{closed(6)}.csv", "D,1,,\n")
    assert house.go().verdict == "ok" and house.lake("id") == [(2,), (3,)]


@pytest.mark.parametrize(
    "text, words",
    [
        ("U,1,9.50\n", "has 3 fields; the table's definition has 3 columns (id, name, price), so 4, 5 or 6 fields were expected"),
        ("U;1;b;9.50\n", "dmscdc table set shop.item --csv delimiter=';'"),
        ("U,1,b,9.50,x\n", "--csv more=A,B"),
        ("2,b,9.50\n", "--csv inserts=true"),
        (f"U,1,b,9.50,{'7' * 35},1\n", "has 6 fields"),
        ("U,noon,1,b,9.50\n", "has 5 fields"),
        ("".join(f"U,x{n},b,1.00\n" for n in range(10)), "row 1: column id: 'x0' is not a valid int"),
    ],
)
@pytest.mark.parametrize("bad_rows", ["stop", "aside"])
def test_a_file_that_fits_no_layout_of_its_version_is_never_guessed_at(house, text, words, bad_rows):
    house.put("LOAD00000001.csv", "1,a,1.00\n")
    house.defined(ITEM)
    house.typed("table", "set", "shop.item", "--key", "id", "--bad-rows", bad_rows)
    house.go()
    house.put(f"{closed(1)}.csv", text)
    found = house.go()
    assert found.verdict == {"stop": "refused", "aside": "attention"}[bad_rows] and words in found.words, found.words
    assert house.lake("id, name, price::varchar") == [(1, "a", "1.00")]
    assert words in house.typed("doctor", "--only", "shop.item", code=3) or bad_rows == "aside"


def test_a_text_column_does_not_take_the_change_sequence_and_not_a_whole_row(house):
    house.defined("id int, name text")
    house.typed("table", "set", "shop.item", "--key", "id", "--csv", "more=seq", "--new")
    house.put(f"{closed(1)}.csv", f"I,1,a,{seq(1)}\n")
    assert house.go().verdict == "ok"
    house.defined("id int, name text, note text", "--since", f"{closed(2)}.csv")
    house.put(f"{closed(2)}.csv", f"I,2,b,{seq(2)}\n")  # the version came too early
    found = house.go()
    assert found.verdict == "refused" and "would fit (2 columns)" in found.words
    house.defined("id int, name text, note text", "--since", f"{closed(3)}.csv")
    house.typed("table", "columns", "shop.item", "--clear")
    house.defined("id int, name text", "--since", "load")
    house.defined("id int, name text, note text", "--since", f"{closed(3)}.csv")
    house.put(f"{closed(3)}.csv", f"I,3,c,new,{seq(3)}\n")
    assert house.go().verdict == "ok" and house.lake("id, name, note, seq") == [
        (1, "a", None, seq(1)),
        (2, "b", None, seq(2)),
        (3, "c", "new", seq(3)),
    ]


COLUMN_OF_TEXT = "name text, kind text"


def test_a_first_row_that_may_be_a_header_is_asked_about(house):
    house.put("LOAD00000001.csv", "name,kind\na,b\n")
    house.defined(COLUMN_OF_TEXT)
    house.typed("table", "set", "shop.item", "--key", "name")
    found = house.go()
    assert found.verdict == "refused" and "--csv header=true" in found.words and "--csv header=false" in found.words
    house.typed("table", "set", "shop.item", "--csv", "header=false")
    assert house.go().verdict == "ok" and house.lake("name, kind") == [("a", "b"), ("name", "kind")]
    house.put(f"{closed(1)}.csv", "U,name,value\nI,kind,name\n")  # changes begin with an operation: no header
    assert house.go().verdict == "ok" and house.lake("name, kind") == [("a", "b"), ("kind", "name"), ("name", "value")]


def test_a_header_that_begins_with_a_comma_names_the_columns_behind_it(house):
    house.defined(ITEM)
    house.typed("table", "set", "shop.item", "--key", "id", "--new")
    house.put("LOAD00000001.csv", ",id,name,price\n1,a,1.00\n")  # engines before 3.4.6, TimestampColumnName empty
    house.put(f"{closed(1)}.csv", "Op,,id,name,price\nU,1,b,2.00\n")
    assert house.go().verdict == "ok" and house.lake("id, name, price::varchar") == [(1, "b", "2.00")]


def test_a_row_of_another_length_is_quarantined_and_the_good_one_applied_whichever_comes_first(house):
    house.defined(ITEM)
    house.typed("table", "set", "shop.item", "--key", "id", "--bad-rows", "aside", "--new")
    house.put("LOAD00000001.csv", "1,a,1.00\n")
    house.put(f"{closed(1)}.csv", "I,2,b\nI,3,c,3.00\n")
    assert house.go().verdict == "attention" and house.lake("id, name") == [(1, "a"), (3, "c")]
    shown = house.typed("quarantine", "show", "shop.item")
    assert "3 fields, where 4 were expected I,2,b" in shown and "c,3.00" not in shown


KINDS = {
    "binary": ("bytea", ["00ff", "01", "0a0b"]),
    "date": ("date", ["2018-01-01", "2018-01-02", "0001-01-01"]),
    "timestamp": ("timestamp", ["2018-01-01 10:00:00.000001", "2018-01-02 00:00:00", "1899-12-30 00:00:00"]),
    "boolean": ("boolean", ["t", "f", "t"]),
    "decimal": ("numeric(5,2)", ["1.00", "2.50", "-3.00"]),
    "text": ("text", ["a", "", "NULL"]),
    "int": ("bigint", ["1", "2", "+3"]),
}


@EACH
def test_a_changed_key_of_every_type_leaves_no_row_behind(house, way):
    "A key of a column of each type; of each row another one changes."
    kinds = {name: [f'"{text}"' for text in values[:2]] for name, (_, values) in KINDS.items()}
    first = [one for one, _ in kinds.values()]
    turned = lambda at: [one if number != at else two for number, (one, two) in enumerate(kinds.values())]
    house.defined(", ".join(["row int", *(f"k_{name} {sql}" for name, (sql, _) in KINDS.items()), "v int"]))
    keys = [f"k_{name}" for name in kinds]
    house.typed(
        "table", "set", "shop.item", "--key", ",".join(["row", *keys]), "--csv", "more=" + ",".join(f"BI_{name}" for name in ["row", *keys]), "--new"
    )
    house.put("LOAD00000001.csv", "".join(",".join([str(at), *first, "1"]) + "\n" for at in range(len(kinds))))
    house.put(f"{closed(1)}.csv", "".join(",".join(["U", str(at), *turned(at), "2", str(at), *first]) + "\n" for at in range(len(kinds))))
    found = house.go()
    assert found.verdict == "ok" and house.lake("row, v") == [(at, 2) for at in range(len(kinds))], found.words


def test_random_shapes_never_put_a_value_under_another_name(house):
    """Tables whose columns come, go and move between files: with the version of each file the lake is what a dictionary says; without one, a file of another length is refused."""
    draw = random.Random(seed_of("CSV_SEED"))
    pool = {"a": "int", "b": "numeric(8,2)", "c": "date", "d": "text", "e": "text"}
    value = {
        "a": lambda: str(draw.randrange(100)),
        "b": lambda: f"{draw.randrange(9999) / 100:.2f}",
        "c": lambda: f"2018-0{draw.randint(1, 9)}-11",
        "d": lambda: draw.choice("xyz") * 3,
        "e": lambda: draw.choice(["", "7", "U"]),
    }
    for turn in range(4):
        house.table, kept = f"shop.t{turn}", {}
        columns = ["a", "b", "d"]
        ddl = lambda names: f"create table t{turn} (id int primary key, {', '.join(f'{n} {pool[n]}' for n in names)});"  # noqa: B023
        house.put("LOAD00000001.csv", "")
        house.defined(ddl(columns))
        for number in range(1, 6):
            if draw.random() < 0.7:
                before, columns = columns, draw.sample(sorted(pool), draw.randint(1, 4))
                if is_said := len(before) == len(columns):
                    house.defined(ddl(columns), "--since", f"{closed(number)}.csv")
            else:
                is_said = True
            rows = {n: {c: value[c]() for c in columns} for n in draw.sample(range(20), 5)}
            house.put(
                f"{closed(number)}.csv", "".join(f"{'U' if n in kept else 'I'},{n}," + ",".join(row.values()) + "\n" for n, row in rows.items())
            )
            if not is_said:
                assert house.go().verdict == "refused"
                house.defined(ddl(columns), "--since", f"{closed(number)}.csv")
            assert (found := house.go()).verdict in ("ok", "attention"), found.words
            for n, row in rows.items():
                kept[n] = {**kept.get(n, {}), **row}
        names = sorted({c for row in kept.values() for c in row})
        there = {row[0]: dict(zip(names, row[1:])) for row in house.lake(", ".join(["id", *(f"{n}::varchar" for n in names)]))}
        assert {n: {c: row.get(c) or None for c in names} for n, row in kept.items()} == {
            n: {c: row[c] or None for c in names} for n, row in there.items()
        }


def test_settings_may_be_typed_in_any_order(spark, tmp_path):
    "Some orders, each in a folder of its own; `plan` is asked after every command, and the last one is loaded."
    ddl = tmp_path / "item.sql"
    ddl.write_text("create table item (id int primary key, site text, price numeric(10,2));")
    typed = {
        "columns": ["columns", "shop.item", "--ddl", str(ddl), "--dialect", "postgresql"],
        "key": ["set", "shop.item", "--key", "id"],
        "partition": ["set", "shop.item", "--partition", "site"],
        "csv": ["set", "shop.item", "--csv", "nulls=,NULL"],
        "rows": ["set", "shop.item", "--bad-rows", "aside", "--schema-policy", "strict"],
    }
    for number, order in enumerate([*itertools.permutations(typed)][::40]):
        house = House(tmp_path / str(number), spark, {})
        house.put("LOAD00000001.csv", "1,a,1.00\n2,b,\n")
        write_config(house.root, landing="landing", lake="lake", quiet_period=0)
        for name in order:
            house.typed("table", *typed[name])
            plan = CliRunner().invoke(app, ["plan", "--folder", str(house.root)], env={"COLUMNS": "400"})
            assert plan.exit_code in (0, 3) and "Traceback" not in plan.output, (order, plan.output)
        item = house.state.get(house.ref)
        assert (item.key, item.partition, item.bad_rows, item.schema_policy, len(item.columns)) == (("id",), ("site",), "aside", "strict", 3), order
    assert house.go().verdict == "ok" and house.lake("id, site, price::varchar") == [(1, "a", "1.00"), (2, "b", None)]
    house.typed("table", "set", "shop.item", "--key", "nobody", code=2)


def test_one_dump_defines_every_table_of_the_landing(spark, tmp_path):
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0)
    (tmp_path / "shop.sql").write_text(
        "create table item (id int primary key, name text);\ncreate table shop.visit (n serial primary key, at timestamptz);\ncreate table other (a int);"
    )
    item, visit = House(tmp_path, spark, {}), House(tmp_path, spark, {}, "shop.visit")
    item.put("LOAD00000001.csv", "1,a\n"), visit.put("LOAD00000001.csv", "7,2018-12-15 10:00:00\n")
    said = item.typed("table", "columns", "--ddl", str(tmp_path / "shop.sql"), "--dialect", "postgresql")
    assert (
        "not in the landing, so left alone: other" in said
        and item.state.get(item.ref).key == ("id",)
        and visit.state.get(visit.ref).columns == (("n", "int"), ("at", "timestamp"))
    )
    assert "only --ddl FILE sets all tables" in item.typed("table", "columns", code=2)


@pytest.mark.parametrize("odd", ['1,5" pipe,1.00\n2,6" pipe,2.00\n', "1,a,1.00\r2,b,2.00\n"], ids=["quotes in texts", "a lone return"])
def test_a_bad_row_is_refused_also_where_its_line_in_the_file_cannot_be_told(house, odd):
    house.put("LOAD00000001.csv", odd + "3,c,cheap\n4,d,4.00\n")
    house.defined(ITEM)
    house.typed("table", "set", "shop.item", "--insert-only")
    found = house.go()
    assert (
        found.verdict == "refused"
        and "row 3 of LOAD00000001.csv cannot be read: column price: cheap is not a valid decimal(10,2)" in found.words
        and house.files() == []
    )
