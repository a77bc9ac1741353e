"As of then, as known then, and a feed, beside a real lake and by command."

from __future__ import annotations

import json
import shutil

import pytest
from test_as_of import ITEM, rows_of
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.errors import NoPast
from dmscdc.history.as_of import as_known, as_of
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.state.position import Position
from world import World, closed, query

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    "Commit 1 holds the load and file 1; commit 2 file 3 as well; commit 3 also file 2, which came late."
    world = World(tmp_path_factory.mktemp("lake"), spark, ITEM).set(key="id")
    world.load([(1, "load", 0), (2, "load", 0)]).changes(1, [("U", 1, "first", 1)])
    world.go()
    world.changes(3, [("U", 1, "third", 3), ("I", 3, "new", 3)])
    world.go()
    world.changes(2, [("U", 1, "late", 2), ("U", 2, "late", 2)])
    world.go()
    assert world.lake_table.head().number >= 3
    return world


def line(world):
    return open_changelog(str(world.landing), world.ref, position=Position.from_json(dict(world.lake_table.head().position)))


def commit_with(world, file: int) -> int:
    "The first commit that has applied a file."
    for number in range(1, world.lake_table.head().number + 1):
        if f"{closed(file)}.parquet" in dict(Position.from_json(dict(world.lake_table.at(number).position)).window):
            return number
    raise AssertionError(f"no commit holds file {file}")


def copy_of(world, root) -> World:
    shutil.copytree(world.root, root, copy_function=shutil.copy2)
    return World(root, world.spark, world.schema)


def test_a_late_file_is_in_the_table_as_of_then_and_not_in_what_the_commit_knew(spark, lake, tmp_path):
    number = commit_with(lake, 3)
    then = as_of(spark, upto(line(lake), f"{closed(3)}.parquet"), ["id"])
    assert rows_of(then, *ITEM) == [(1, "third", 3), (2, "late", 2), (3, "new", 3)]
    known = as_known(spark, lake.lake_table, number, lambda: line(lake))
    assert known.clock == "the files that the commit had applied"  # plain Parquet has rewritten that commit's files
    assert rows_of(known, *ITEM) == [(1, "third", 3), (2, "load", 0), (3, "new", 3)]
    head = as_known(spark, lake.lake_table, lake.lake_table.head().number, lambda: pytest.fail("the landing was asked"))
    assert head.clock == "commit of the lake" and rows_of(head, *ITEM, "_cdc_file", "_cdc_row") == rows_of(then, *ITEM, "_cdc_file", "_cdc_row")


def test_every_commit_is_told_alike_by_the_lake_when_it_was_new_and_by_the_landing_now(spark, tmp_path):
    world, told = World(tmp_path, spark, ITEM).set(key="id"), {}
    world.load([(n, "load", n) for n in range(4)])
    for number, rows in enumerate([[("U", 1, "one", None)], [("D", 2, None, None), ("I", 9, "nine", 9)]]):
        world.changes(number, rows).go()
        head = world.lake_table.head().number
        told[head] = rows_of(as_known(spark, world.lake_table, head, lambda: pytest.fail("the landing was asked")), *ITEM, "_cdc_file", "_cdc_row")
    shutil.rmtree(world.folder)
    for number, rows in told.items():
        assert rows_of(as_known(spark, world.lake_table, number, lambda: line(world)), *ITEM, "_cdc_file", "_cdc_row") == rows


def test_what_neither_lake_nor_landing_holds_any_more_is_refused(spark, lake, tmp_path):
    world, number = copy_of(lake, tmp_path / "copy"), commit_with(lake, 1)
    (world.raw / f"{closed(1)}.parquet").unlink()
    with pytest.raises(NoPast, match=f"{closed(1)}.parquet is no longer in landing or archive"):
        as_known(spark, world.lake_table, number, lambda: line(world))
    with pytest.raises(LookupError, match="there is no commit 99; the table has commits 1 to"):
        world.lake_table.at(99)


# Commands


@pytest.fixture
def dmscdc(lake, tmp_path, monkeypatch):
    world = copy_of(lake, tmp_path / "world")
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dmscdc.toml").write_text('landing = "world/landing"\nlake = "world/lake"\nstate = "sqlite:world/state.db"\n')

    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == code, done.output
        return done.output

    run.world = world
    return run


def test_as_of_shows_writes_and_answers_machines(dmscdc, tmp_path):
    said = dmscdc("as-of", "shop.item", "--file", f"{closed(1)}.parquet")
    assert "first" in said and "shop.item: 2 rows" in said and "by position" in said and "earliest available: load 1" in said
    told = json.loads(dmscdc("as-of", "shop.item", "--at", "2018-12-15T10:00:02", "--json"))
    assert (told["rows"], told["clock"], told["note"]) == (2, "closing time of the file", "2018-12-15T10:00:02 has no time zone and is taken as UTC")
    assert [row["name"] for row in told["first"]] == ["late", "late"]
    dmscdc("as-of", "shop.item", "--out", "then")
    assert query(f"select id, name from read_parquet('{tmp_path}/then/*.parquet') order by id") == [(1, "third"), (2, "late"), (3, "new")]
    assert len(list((tmp_path / "then").glob("*.parquet"))) == 1
    assert "then is not empty: name a new folder" in dmscdc("as-of", "shop.item", "--out", "then", code=2)


def test_as_of_a_commit_and_wrong_questions(dmscdc, lake):
    told = json.loads(dmscdc("as-of", "shop.item", "--commit", str(commit_with(lake, 3)), "--json"))
    assert [row["name"] for row in told["first"]] == ["third", "load", "new"] and told["position"].startswith(
        f"commit {commit_with(lake, 3)}: load 1"
    )
    for words, said in (
        ((), "name one position each"),
        (("--file", "20181215-100000000.parquet"), "no change file 20181215-100000000.parquet"),
        (("--commit", "99"), "there is no commit 99"),
        (("--at", "noon"), "a time is written 2026-01-01T12:00Z"),
        (("--at", "2018-12-14"), "the earliest available position"),
        (("--time-column", "ts"), "there is no column ts"),
    ):
        assert said in " ".join(dmscdc("as-of", "shop.item", *(words or ("--at", "2018-12-15", "--commit", "1")), code=2).split())
    assert "no table shop.other in" in dmscdc("as-of", "shop.other", code=2)


def test_feed_goes_where_the_lake_stands_and_then_on_from_the_cursor(dmscdc, tmp_path):
    words = ["feed", "shop.item", "--out", "parts", "--cursor", "cursor.json"]
    (first,) = json.loads(dmscdc(*words, "--json"))["parts"]
    assert first["counts"] == {"insert": 3, "reset": 1}
    dmscdc.world.changes(4, [("D", 1, None, None), ("U", 2, "late", 2)])
    said = dmscdc(*words)  # landed, and not in the lake yet
    assert "nothing new since load 1" in said and "1 file waits for a pass: dmscdc pass --only shop.item" in said
    said = dmscdc(*words, "--to", "landed")
    assert "1 delete" in said and "named by changes and as before: 1" in said
    dmscdc.world.go()
    assert "nothing new" in dmscdc(*words)
    assert len(list((tmp_path / "parts").iterdir())) == 2
    assert "leave out --from" in dmscdc(*words, "--from", "load", code=2)
    full = dmscdc("feed", "shop.item", "--out", "all", "--full", "--from", f"{closed(3)}.parquet", "--to", "landed")
    assert "1 delete, 1 update" in full
    assert "no table shop.other in" in dmscdc("feed", "shop.other", "--out", "parts", code=2)
    dmscdc.world.changes("20181212-100000000", [("U", 2, "too late", 9)])  # a pass leaves it to a person
    assert "waits for a pass" not in dmscdc(*words)
