"`dmscdc maintain lake` in one format (`DMSCDC_FORMAT`): a plan that changes nothing, fewer files, the same rows to another reader, and passes that go on."
from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.service.config import write_config

from readers import FORMAT
from world import World, query, replayed

pytestmark = pytest.mark.proof if FORMAT == "parquet" else pytest.mark.torture

PACKED = {"parquet": "small files packed into 1", "delta": "OPTIMIZE: ", "iceberg": "rewrite_data_files: ", "hudi": "nothing to do", "hudi-mor": "run_compaction: "}
NAMES = "id, name, Op, _cdc_file, _cdc_row"


@pytest.fixture
def world(tmp_path, spark, monkeypatch):
    world = World(tmp_path, spark, {"id": "int", "name": "string"}).set(key="id", active=True).load([(1, "a"), (2, "b")])
    world.go()
    changes = [("U", 1, "again")] if FORMAT == "hudi-mor" else [("I", 10, "new")]  # Hudi puts new rows into the small file
    for number in range(1, 4 if FORMAT.startswith("hudi") else 6):  # at the sixth commit Hudi merges logs itself; Iceberg packs five files
        assert world.changes(number, [(op, key + number * (op == "I"), name) for op, key, name in changes]).go().verdict == "ok"
    write_config(tmp_path, landing=str(world.landing), lake=str(tmp_path / "lake"), state=world.places[3], settle=0, format=FORMAT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dmscdc.lake.parquet.write.MANY", 3)
    return world


def said(*words: str) -> str:
    done = CliRunner().invoke(app, ["maintain", "lake", *words])
    assert done.exit_code == 0, done.output + str(done.exception)
    return done.output


def test_upkeep_makes_few_files_of_many_and_the_rows_stay(world):
    before, number = world.files(), world.lake_table.head().number
    plan = said("shop.item", "--keep-days", "0")
    assert "Nothing was done yet: dmscdc maintain lake shop.item --keep-days 0 --yes" in plan and world.files() == before
    done = CliRunner().invoke(app, ["maintain", "lake", "shop.nobody", "shop.item", "--keep-days", "0", "--yes"])  # one's trouble costs no other
    assert done.exit_code == 2 and "shop.nobody: no table shop.nobody in the state" in done.output and PACKED[FORMAT] in done.output, done.output
    assert world.lake_table.head().number == number + (FORMAT == "parquet") and world.lake_table.inspect() == ([], False)
    assert world.lake(NAMES) == replayed(world.raw, ["id"], NAMES)
    assert world.idle().verdict == "nothing" and world.state.get(world.ref).commit == world.lake_table.head().number
    assert world.changes(9, [("U", 2, "after"), ("D", 1, None)]).go().verdict == "ok"
    assert world.lake(NAMES) == replayed(world.raw, ["id"], NAMES)


def as_before(file: Path) -> None:
    "Write a file with pyarrow's own bounds, in as many bytes."
    rows, size = pq.read_table(file), file.stat().st_size
    for pad in range(size):
        with pq.ParquetWriter(file, rows.schema, store_schema=False) as out:
            out.write_table(rows)
            out.add_key_value_metadata({"pad": "x" * pad})
        if file.stat().st_size == size: return


@pytest.mark.skipif(FORMAT != "parquet", reason="not allowed here: its format writes the files")
def test_files_of_before_whose_bounds_leave_nan_out_are_written_again(tmp_path, spark, monkeypatch):
    asked = f"select id from read_parquet('{tmp_path}/lake/shop/item/*.parquet') where f > 5"
    world = World(tmp_path, spark, {"id": "int", "f": "double"}).set(key="id").load([(1, 1.0), (2, float("nan")), (3, 2.0)])
    world.go()
    (file,) = world.folder.glob("*.parquet")
    as_before(file)
    assert query(asked) == []
    write_config(tmp_path, landing=str(world.landing), lake=str(tmp_path / "lake"), state=world.places[3], settle=0)
    monkeypatch.chdir(tmp_path)
    assert "write 1 file again, because its bounds leave NaN out" in said("shop.item")
    assert "1 file written again" in said("shop.item", "--yes") and query(asked) == [(2,)] and "nothing to do" in said("shop.item")
