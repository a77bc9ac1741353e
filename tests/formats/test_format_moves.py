"A table moves from plain Parquet to one format (`DMSCDC_FORMAT`) and back, also by runs that die; its rows are read by another program each time."

from __future__ import annotations

import duckdb
import pytest

from dmscdc.errors import Refused
from dmscdc.load.migrate import migrate
from dmscdc.storage.log_store import LogStore
from readers import FORMAT, source
from world import World, query

pytestmark = pytest.mark.proof if FORMAT == "iceberg" else pytest.mark.torture

ROWS = [(n, f"name {n}", n % 3) for n in range(1, 10)]
CHANGES = {1: [("U", 1, "first", 2), ("D", 2, "name 2", 2)], 2: [("U", 3, "second", 0)], 3: [("I", 99, "third", 1)]}


class Killed(BaseException):
    pass


def read(world: World, format: str) -> list[tuple]:
    with duckdb.connect() as duck:
        return duck.execute(
            f"select id, name, part from {source(duck, world.folder, format, **({'hive_partitioning': 'true'} if format == 'parquet' else {}))} order by id"
        ).fetchall()


def load(world: World, number: int, format: str) -> list[tuple]:
    done = world.changes(number, CHANGES[number]).go(format=format)
    assert done.verdict == "ok", done.words
    return read(world, format)


def after(number: int) -> list[tuple]:
    rows = {row[0]: row for row in ROWS}
    for n in range(1, number + 1):
        for op, *row in CHANGES[n]:
            rows.pop(row[0], None)
            if op != "D":
                rows[row[0]] = tuple(row)
    return sorted(rows.values())


@pytest.fixture
def world(tmp_path, spark) -> World:
    world = World(tmp_path, spark, {"id": "int", "name": "string", "part": "int"}).set(key="id", partition="part", format="parquet").load(ROWS)
    assert world.go(format="parquet").verdict == "ok"
    return world


def move(world: World, format: str):
    return migrate(world.ref, format, *world.places[1:], lambda name: world.spark)


def test_it_moves_there_and_back_and_goes_on_each_time(world):
    assert load(world, 1, "parquet") == after(1)
    assert move(world, FORMAT).rows == 8 and read(world, FORMAT) == after(1)
    assert load(world, 2, FORMAT) == after(2)
    assert move(world, "parquet").rows == 8 and read(world, "parquet") == after(2)
    assert load(world, 3, "parquet") == after(3)
    assert query(f"select count(*) from '{world.folder}/**/*.parquet'") == [(9,)], "a file of the other format is left"


@pytest.mark.parametrize("step", ["change", "delete"])
def test_a_move_that_dies_is_healed_by_the_same_command(world, monkeypatch, step):
    def killed(*given, **more):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(*((type(world.state), "change") if step == "change" else (LogStore, "delete")), killed)
        with pytest.raises(Killed):
            move(world, FORMAT)
    if held := world.state.holder(world.ref):
        world.state.release(held)
    seen = 0
    if step == "change":  # the table is still the old one, and goes on
        done = world.changes(1, CHANGES[1]).go(format="parquet")
        assert done.verdict == "attention" and "which no commit of ours wrote" in done.words
        seen = 1
    move(world, FORMAT)
    assert read(world, FORMAT) == after(seen)
    assert load(world, seen + 1, FORMAT) == after(seen + 1)
    assert not list((world.root / "lake" / "_dmscdc").rglob("mov*")) and not list((world.root / "lake" / "_dmscdc").rglob("*/journal/*"))


def test_what_holds_nothing_is_set_not_moved(tmp_path, spark):
    world = World(tmp_path, spark, {"id": "int"}).set(key="id", format="parquet")
    with pytest.raises(Refused, match=f"dmscdc table set shop.item --format {FORMAT}"):
        move(world, FORMAT)
