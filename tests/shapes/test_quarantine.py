"""Rows and files that cannot be applied, quarantined, shown, repaired and replayed. The oracle is what the test itself wrote into the files."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dmscdc.changes.options import options_from
from dmscdc.changes.quarantine import QuarantinedRow, quarantine_folder_of, read_quarantined
from dmscdc.cli.main import app
from dmscdc.history.changelog import open_changelog
from dmscdc.history.small import table_then
from dmscdc.history.small_feed import small_feed
from dmscdc.state.position import Position
from seeds import seed_of
from tiers import sampled
from ways import way  # noqa: F401
from world import World, closed

pytestmark = pytest.mark.test

PRODUCT = {"id": "int", "name": "string", "price": "decimal(10,2)"}
ITEM = {"id": "int", "name": "string"}


def put(world: World, name: str, text: str | bytes) -> None:
    world.raw.mkdir(parents=True, exist_ok=True)
    (world.raw / name).write_bytes(text.encode() if isinstance(text, str) else text)


def csv_table(spark, root: Path, **settings: Any) -> World:
    world = World(root, spark, PRODUCT).set(key="id", columns=[*PRODUCT.items()], bad_rows="aside", **settings)
    put(world, "LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n3,c,3.00\n")
    return world


def position(world: World) -> Position:
    return Position.from_json(dict(world.lake_table.head().position))


def aside(world: World) -> list[QuarantinedRow]:
    return read_quarantined(quarantine_folder_of(str(world.root / "lake"), world.ref), position(world).quarantined or {})


def asked(spark, world: World) -> list[tuple]:
    past = open_changelog(str(world.landing), world.ref, position=position(world))
    return sorted((row["id"], row["name"]) for row in table_then(past, ["id"]).rows.to_pylist())


def typed(world: World, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words, "--folder", str(world.root), "--landing", str(world.landing), "--lake", str(world.root / "lake")])
    return done.exit_code, done.stdout


def test_bad_rows_of_csv_go_aside_and_the_table_goes_on(spark, way, tmp_path):
    world = csv_table(spark, tmp_path)
    put(world, f"{closed(1)}.csv", "U,1,A,cheap\nU,2,B\nU,3,C,3.50\nX,1,a,1.00\nD,,,\nI,4,d,4.00\n")
    found = world.go()
    assert (
        found.verdict == "attention"
        and f"4 rows of 1 file were quarantined: row 1 of {closed(1)}.csv: column price: cheap is not a valid decimal(10,2)" in found.words
    )
    assert world.lake("id, name, price") == [
        (1, "a", Decimal("1.00")),
        (2, "b", Decimal("2.00")),
        (3, "C", Decimal("3.50")),
        (4, "d", Decimal("4.00")),
    ]
    assert [(bad.row, bad.text) for bad in aside(world)[:2]] == [(0, "U,1,A,cheap"), (1, "U,2,B")] and [bad.row for bad in aside(world)] == [
        0,
        1,
        3,
        4,
    ]
    assert [bad.reason for bad in aside(world)[2:]] == ["column Op is 'X'; I, U or D was expected", "key column id is null"]
    put(world, f"{closed(2)}.csv", "U,2,later,2.50\n")  # the table does not wait
    assert world.go().verdict == "attention" and (2, "later") in world.lake("id, name")
    idle = world.idle()
    assert (
        idle.verdict == "attention"
        and "quarantined and not in the table: 4 rows of 1 file" in idle.words
        and "dmscdc quarantine show shop.item" in idle.words
    )
    assert asked(spark, world) == world.lake("id, name")


def test_a_repaired_file_is_replayed_in_its_place_and_a_newer_change_wins(spark, way, tmp_path):
    world = csv_table(spark, tmp_path)
    put(world, f"{closed(1)}.csv", "U,1,A,cheap\nU,2,B,dear\nU,3,C,3.50\n")
    world.go()
    put(world, f"{closed(2)}.csv", "U,2,newer,9.00\nD,3,,\n")
    world.go()
    put(world, f"{closed(1)}.csv", "U,1,A,1.50\nU,2,B,2.50\nU,3,C,3.50\n")  # repaired
    world.state.instruct(world.ref, {"kind": "replay", "files": [f"{closed(1)}.csv"]})
    found = world.go()
    assert world.lake("id, name, price") == [(1, "A", Decimal("1.50")), (2, "newer", Decimal("9.00"))], found.words
    assert not position(world).quarantined and world.idle().verdict == "nothing"
    assert asked(spark, world) == world.lake("id, name")


def test_a_file_repaired_as_advised_is_certain_and_earlier_commits_can_still_be_told(spark, way, tmp_path):
    world = csv_table(spark, tmp_path)
    put(world, f"{closed(1)}.csv", "U,1,A,cheap\nU,2,B,2.50\nU,3,c,3.00\n")
    put(world, f"{closed(2)}.csv", "U,2,newer,9.00\n")
    world.go()
    put(world, f"{closed(1)}.csv", "U,1,A,1.50\nU,2,B,2.50\nU,3,c,3.00\n")
    assert "`dmscdc quarantine replay shop.item` applies it as it is now" in world.idle().words
    assert typed(world, "quarantine", "replay", "shop.item")[0] == 0
    found = world.go()
    assert (found.verdict, found.rows["updated"], found.rows["unchanged"]) == ("ok", 1, 2), found.words
    assert world.idle().verdict == "nothing" and world.lake("id, name") == [(1, "A"), (2, "newer"), (3, "c")]
    code, said = typed(world, "as-of", "shop.item", "--commit", "2")
    assert code == 0 and sorted(line.split()[:2] for line in said.splitlines()[1:4]) == [["1", "a"], ["2", "newer"], ["3", "c"]]


def test_a_repair_that_changes_other_rows_too_stays_in_doubt_until_somebody_decides(spark, way, tmp_path):
    world = csv_table(spark, tmp_path)
    put(world, f"{closed(1)}.csv", "U,1,A,cheap\nI,4,d,2.50\n")
    world.go()
    put(world, f"{closed(1)}.csv", "U,1,A,1.50\nI,5,other,12.50\n")  # 4 is gone from the file, and stays in the table
    world.state.instruct(world.ref, {"kind": "replay", "files": [f"{closed(1)}.csv"]})
    words = f"applied as it is now: {closed(1)}.csv; changes made only by its old version remain"
    assert world.go().verdict == "attention" and (4, "d") in world.lake("id, name") and words in world.idle().words
    put(world, f"{closed(2)}.csv", "U,2,B,2.00\n")
    assert words in world.go().words and words in world.idle().words
    world.state.instruct(world.ref, {"kind": "accept"})
    assert world.go().verdict == "nothing" and world.idle().verdict == "nothing"


def test_what_a_terminal_would_obey_is_shown_escaped(spark, tmp_path):
    world = csv_table(spark, tmp_path)
    put(world, f"{closed(1)}.csv", b"U,\x1b[31m1,A,1.00\nU,2\xc2\x85,B,2.00\nU,3\x00," + b"x" * 200 + b",3.00\n")
    found = world.go()
    assert found.verdict == "attention" and "column id: \\x1b[31m1 is not a valid int" in found.words
    code, said = typed(world, "quarantine", "show", "shop.item")
    assert code == 0 and r"U,\x1b[31m1,A,1.00" in said and r"U,2\x85,B,2.00" in said and "x" * 60 in said and "x" * 80 not in said
    assert not {"\x1b", "\x85", "\x00"} & set(said)


def test_a_repaired_definition_needs_no_other_file(spark, tmp_path):
    world = csv_table(spark, tmp_path)
    put(world, f"{closed(1)}.csv", "U,1,A,123456789012.50\n")
    assert world.go().verdict == "attention" and world.lake("id, name")[0] == (1, "a")
    world.set(columns=[("id", "int"), ("name", "string"), ("price", "decimal(14,2)")])
    world.state.instruct(world.ref, {"kind": "replay", "files": [f"{closed(1)}.csv"]})
    assert world.go().verdict == "ok" and world.lake("id, price")[0] == (1, Decimal("123456789012.50")) and not position(world).quarantined


def test_rows_of_parquet_without_key_or_operation(spark, way, tmp_path):
    world = World(tmp_path, spark, ITEM).set(key="id", bad_rows="aside").load([(1, "a"), (2, "b")])
    world.changes(1, [("U", None, "x"), ("Q", 1, "y"), (None, 2, "z"), ("U", 2, "B")])
    assert world.go().verdict == "attention" and world.lake("id, name") == [(1, "a"), (2, "B")]
    assert [(bad.row, bad.text) for bad in aside(world)] == [
        (0, '{"Op":"U","name":"x"}'),
        (1, '{"Op":"Q","id":1,"name":"y"}'),
        (2, '{"id":2,"name":"z"}'),
    ]


@pytest.mark.parametrize("partition", ["", "name"])
def test_rows_of_a_load_without_a_key(spark, tmp_path, partition):
    world = World(tmp_path, spark, ITEM).set(key="id", bad_rows="aside", partition=partition).load([(1, "a"), (None, "b"), (3, "c")])
    found = world.go()
    assert found.verdict == "attention" and "1 row of 1 file was quarantined: row 2 of LOAD00000001.parquet: key column id is null" in found.words
    assert world.lake("id, name") == [(1, "a"), (3, "c")] and world.lake_table.head().rows == 2
    assert asked(spark, world) == [(1, "a"), (3, "c")]
    world.changes(1, [("U", 3, "C")])
    assert world.go().verdict == "attention" and world.lake("id, name") == [(1, "a"), (3, "C")]
    twice = World(tmp_path / "twice", spark, ITEM).set(key="id", bad_rows="aside").load([(1, "a"), (None, "b"), (1, "c")])
    assert twice.go().verdict == "refused"  # two rows of one key are no bad row: which one is right?


def test_rows_of_a_csv_load(spark, tmp_path):
    world = csv_table(spark, tmp_path)
    put(world, "LOAD00000001.csv", "1,a,1.00\n2,b\n3,c,free\n,d,4.00\n5,e,5.00\n")
    assert world.go().verdict == "attention" and world.lake("id, name") == [(1, "a"), (5, "e")]
    assert [(bad.row, bad.reason) for bad in aside(world)] == [
        (1, "2 fields, where 3 were expected"),
        (2, "column price: free is not a valid decimal(10,2)"),
        (3, "key column id is null"),
    ]


@pytest.mark.parametrize("kind", ["cut", "empty", "text", "quote"])
def test_a_file_that_cannot_be_read_keeps_no_other_waiting(spark, tmp_path, kind):
    world = (
        csv_table(spark, tmp_path)
        if kind == "quote"
        else World(tmp_path, spark, ITEM).set(key="id", bad_rows="aside").load([(1, "a"), (2, "b"), (3, "c")])
    )
    bad, ending = f"{closed(1)}.{'csv' if kind == 'quote' else 'parquet'}", ".csv" if kind == "quote" else ".parquet"
    if kind == "quote":
        put(world, bad, 'U,1,"A,1.00\n')
        put(world, f"{closed(2)}.csv", "U,2,B,2.00\n")
    else:
        world.changes(1, [("U", 1, "A"), ("U", 2, "old")]).changes(2, [("U", 2, "B")])
        whole = (world.raw / bad).read_bytes()
        put(world, bad, {"cut": whole[:-20], "empty": b"", "text": b"not a file of DMS" * 9}[kind])
    found = world.go()
    assert found.verdict == "attention" and "1 unreadable file was quarantined" in found.words, found.words
    (evidence,) = found.not_applied_files  # what an auditor asks about it
    assert (evidence["path"], evidence["bytes"]) == (bad, (world.raw / bad).stat().st_size) and evidence["checksum"]
    assert world.lake("id, name") == [(1, "a"), (2, "B"), (3, "c")] and [row.row for row in aside(world)] == [None]
    assert asked(spark, world) == world.lake("id, name") and world.idle().verdict == "attention"
    if kind == "quote":
        put(world, bad, 'U,1,"A",1.00\nU,2,old,1.00\n')
    else:
        put(world, bad, whole)
    world.state.instruct(world.ref, {"kind": "replay", "files": [f"{closed(1)}{ending}"]})
    world.go()
    assert world.lake("id, name") == [(1, "A"), (2, "B"), (3, "c")] == asked(spark, world) and not position(world).quarantined
    assert world.idle().verdict == "nothing"


def test_a_batch_of_nothing_but_an_unreadable_file_moves_the_position(spark, tmp_path):
    world = World(tmp_path, spark, ITEM).set(key="id", bad_rows="aside").load([(1, "a")])
    world.go()
    put(world, f"{closed(1)}.parquet", b"PAR1")
    found = world.go()
    assert found.verdict == "attention" and position(world).last == f"{closed(1)}.parquet" and world.lake("id, name") == [(1, "a")]


def test_what_a_person_drops_is_asked_about_no_more(spark, tmp_path):
    world = csv_table(spark, tmp_path)
    put(world, f"{closed(1)}.csv", "U,1,A,x\n")
    put(world, f"{closed(2)}.csv", "U,2,B,x\n")
    world.go()
    world.state.instruct(world.ref, {"kind": "drop", "files": [f"{closed(1)}.csv"]})
    assert world.go().verdict == "attention" and list(position(world).quarantined) == [f"{closed(2)}.csv"]
    world.state.instruct(world.ref, {"kind": "drop"})
    assert world.go().verdict == "nothing" and not position(world).quarantined and world.idle().verdict == "nothing"


def test_unless_told_otherwise_a_bad_row_refuses_its_batch(spark, tmp_path):
    world = csv_table(spark, tmp_path).set(bad_rows="stop")
    put(world, f"{closed(1)}.csv", "U,1,A,x\n")
    assert world.go().verdict == "refused" and not (tmp_path / "lake/_quarantine").exists()


def test_an_answer_over_files_with_a_row_that_cannot_be_read_counts_it_as_such(spark, tmp_path):
    world = csv_table(spark, tmp_path).set(bad_rows="stop")
    put(world, f"{closed(1)}.csv", "U,1,A,cheap\nQ,2,b,1.00\nU,3,C,3.50\n")
    world.go()
    said = typed(world, "as-of", "shop.item")[1]
    assert "not applied: 1 row that cannot be read (dmscdc doctor names it)" in said and "not applied: 1 row without a known Op" in said, said


def test_ten_thousand_bad_rows_are_a_wrong_definition(spark, tmp_path):
    world = csv_table(spark, tmp_path)
    put(world, f"{closed(1)}.csv", "U,1,A,1.00\n" * 10_001 + "U,1,A,x\n" * 10_001)
    found = world.go()
    assert found.verdict == "attention" and "more than 10,000 rows cannot be read, and counting stopped there" in found.words
    assert world.lake("id, name") == [(1, "a"), (2, "b"), (3, "c")]


def test_random_bad_rows_cost_no_good_one_and_come_back_in_their_place(spark, tmp_path):
    draw, world = random.Random(seed_of("QUARANTINE_SEED")), csv_table(spark, tmp_path)
    wanted, lines, bad = {1: "a", 2: "b", 3: "c"}, [], 0
    for number in range(1, 9):
        good, written = [], []
        for _ in range(draw.randint(1, 12)):
            key, name = draw.randrange(1, 12), f"n{draw.randrange(100)}"
            line = f"D,{key},," if draw.random() < 0.2 else f"U,{key},{name},1.00"
            good.append(line)
            broken = draw.random() < 0.25
            bad += broken
            written.append(
                draw.choice([line[:-4] + "x.y", line + ",more", "?" + line[1:], line[0] + ",," + line]) if broken and line[0] == "U" else line
            )
        lines.append(good)
        put(world, f"{closed(number)}.csv", "\n".join(written) + "\n")
        if draw.random() < 0.5:
            world.go()
    world.go()
    files = [path for path in (position(world).quarantined or {})]
    for name in files:
        put(world, name, "\n".join(lines[[f"{closed(n)}.csv" for n in range(1, 9)].index(name)]) + "\n")
    world.state.instruct(world.ref, {"kind": "replay", "files": files})
    world.go()
    for line in (line for good in lines for line in good):
        op, key, name, _ = line.split(",")
        if op == "D":
            wanted.pop(int(key), None)
        else:
            wanted[int(key)] = name
    assert world.lake("id, name") == sorted(wanted.items()) and not position(world).quarantined
    print(f"{bad} rows drawn to be bad in {len(files)} files")


def test_a_file_that_was_applied_is_never_quarantined(spark, tmp_path):
    world = World(tmp_path, spark, ITEM).set(key="id", bad_rows="aside").load([(1, "a"), (2, "b")]).changes(2, [("U", 1, "A"), ("U", 2, "B")])
    world.go()
    path = world.raw / f"{closed(2)}.parquet"
    data = bytearray(path.read_bytes())
    data[4:40] = bytes(36)  # as long as before, and damaged
    path.write_bytes(data)
    world.changes(1, [("U", 1, "late")])  # it needs the later file again
    found = world.go()
    assert found.verdict == "refused" and f"{closed(2)}.parquet" in found.words and not position(world).quarantined
    assert world.lake("id, name") == [(1, "A"), (2, "B")]


def versions(world: World) -> list[tuple]:
    from dmscdc.scd2.update import read_versions, update_versions

    update_versions(*world.places, quiet_period=0, spark=lambda: world.spark)
    return sorted((row["id"], str(row["price"])) for row in read_versions(world.spark, world.table, world.places[2]).where("is_current").collect())


class Reader:
    "Somebody who follows the feed with a dictionary."

    def __init__(self, world: World):
        self.world, self.rows, self.at = world, {}, None

    def read(self) -> list[str]:
        how, lists = options_from(self.world.state.get(self.world.ref).columns), quarantine_folder_of(str(self.world.root / "lake"), self.world.ref)
        past = open_changelog(str(self.world.landing), self.world.ref, position=position(self.world), csv=how, quarantine_folder=lists)
        told = small_feed(past, ["id"], self.at, position(self.world))
        kinds = []
        for row in told.rows.to_pylist():
            kinds.append(f"{row['_change_type']} {row['id']}")
            if row["_change_type"] == "reset":
                self.rows = {}
            elif row["_change_type"] == "delete":
                self.rows.pop(row["id"])
            elif row["_change_type"] != "update_preimage":
                self.rows[row["id"]] = str(row["price"])
        self.at = Position.from_json(told.until.to_json())
        return kinds


@pytest.mark.parametrize("repair", sampled(["definition", "file", "grown"], "definition", "grown"))
def test_a_replayed_row_reaches_the_type_2_table_and_every_follower(spark, way, tmp_path, repair):
    narrow, wide = ([("id", "int"), ("name", "string"), ("price", kind)] for kind in ("decimal(4,2)", "decimal(10,2)"))
    world = csv_table(spark, tmp_path).set(columns=narrow)
    put(world, "LOAD00000001.csv", "1,a,1.00\n")
    put(world, f"{closed(1)}.csv", "I,2,b,123.45\nI,3,c,3.00\n" if repair != "grown" else "I,3,c,3.00\n")
    reader = Reader(world)
    world.go()
    reader.read()
    assert versions(world) == [(1, "1.00"), (3, "3.00")] and reader.rows == {1: "1.00", 3: "3.00"}
    put(world, f"{closed(2)}.csv", "U,1,A,1.10\n")
    world.go()
    reader.read()
    if repair == "definition":
        world.set(columns=wide)
        newcomer = Reader(world)
        assert (
            reader.read() == [] and newcomer.read() and newcomer.rows == reader.rows
        )  # the definition alone changes nothing: the row is still aside
    else:
        put(world, f"{closed(1)}.csv", "I,2,b,12.45\nI,3,c,3.00\n" if repair == "file" else "I,3,c,3.00\nI,2,b,12.45\n")
    world.state.instruct(world.ref, {"kind": "replay", "files": [f"{closed(1)}.csv"]})
    world.go()
    wanted = {1: "1.10", 2: "123.45" if repair == "definition" else "12.45", 3: "3.00"}
    assert dict(world.lake("id, price::varchar")) == wanted
    told = reader.read()
    assert told == ["insert 2"] if repair != "grown" else told[0] == "reset None"
    assert reader.rows == wanted and dict(versions(world)) == wanted and reader.read() == []
    put(world, f"{closed(3)}.csv", "U,2,B,2.20\nD,3,,\n")
    world.go()
    reader.read()
    assert reader.rows == dict(versions(world)) == dict(world.lake("id, price::varchar")) == {1: "1.10", 2: "2.20"}


def test_the_history_says_since_when_a_row_that_was_quarantined_is_in_the_lake(spark, tmp_path):
    from dmscdc.history.audit import audit_row
    from dmscdc.history.row_page import life_lines

    world = csv_table(spark, tmp_path).set(columns=[("id", "int"), ("name", "string"), ("price", "decimal(4,2)")])
    put(world, f"{closed(1)}.csv", "I,7,b,123.45\nI,8,c,3.00\n")
    world.go()
    ask = lambda key: audit_row(
        str(world.landing), world.lake_table, {"id": key}, quarantine_folder=quarantine_folder_of(str(world.root / "lake"), world.ref)
    )[0][0]
    assert ask(7).life.steps == () and ask(7).verdict == "agrees"
    world.set(columns=[*PRODUCT.items()])
    put(world, f"{closed(2)}.csv", "I,9,d,9.00\n")
    world.go()  # reads by the new definition, by which the row that is aside would fit
    assert ask(7).life.steps == () and ask(7).verdict == "agrees" and (7,) not in world.lake("id")
    world.state.instruct(world.ref, {"kind": "replay", "files": [f"{closed(1)}.csv"]})
    world.go()
    (line,), (other,) = life_lines(ask(7).life), life_lines(ask(8).life)
    assert (
        line["in the lake since"].startswith("commit 4, ")
        and line["in the lake since"].endswith("(quarantined in commit 2)")
        and other["in the lake since"].startswith("commit 2, ")
    )


def test_parts_of_a_feed_sort_as_they_were_told_also_where_both_end_at_one_file(spark, tmp_path):
    from dmscdc.history.parts import deliver_next, read_cursor

    world = csv_table(spark, tmp_path).set(columns=[("id", "int"), ("name", "string"), ("price", "decimal(4,2)")])
    put(world, f"{closed(1)}.csv", "I,7,b,123.45\nI,8,c,123.00\nI,9,d,1.00\n")
    world.go()
    lists, out, url, told = quarantine_folder_of(str(world.root / "lake"), world.ref), tmp_path / "parts", str(tmp_path / "cursor.json"), []
    for kind in ("decimal(4,2)", "decimal(5,2)"):
        world.set(columns=[("id", "int"), ("name", "string"), ("price", kind)])
        if told:
            world.state.instruct(world.ref, {"kind": "replay", "files": [f"{closed(1)}.csv"]})
            world.go()
        past = open_changelog(str(world.landing), world.ref, position=position(world), quarantine_folder=lists)
        told += deliver_next(lambda: spark, past, ["id"], str(out), url, read_cursor(url, world.ref), position(world), True)
    assert [part.counts for part in told] == [{"insert": 4, "reset": 1}, {"insert": 2}] and [part.path for part in told] == sorted(
        part.path for part in told
    )
    assert "-r0001-" in told[1].path
