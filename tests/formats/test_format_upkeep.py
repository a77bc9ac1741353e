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

PACKED = {
    "parquet": "small files packed into 1",
    "delta": "OPTIMIZE: ",
    "iceberg": "rewrite_data_files: ",
    "hudi": "nothing to do",
    "hudi-mor": "run_compaction: ",
}
NAMES = "id, name, Op, _cdc_file, _cdc_row"


@pytest.fixture
def world(tmp_path, spark, monkeypatch):
    world = World(tmp_path, spark, {"id": "int", "name": "string"}).set(key="id", active=True).load([(1, "a"), (2, "b")])
    world.go()
    changes = [("U", 1, "again")] if FORMAT == "hudi-mor" else [("I", 10, "new")]  # Hudi puts new rows into the small file
    for number in range(1, 4 if FORMAT.startswith("hudi") else 6):  # at the sixth commit Hudi merges logs itself; Iceberg packs five files
        assert world.changes(number, [(op, key + number * (op == "I"), name) for op, key, name in changes]).go().verdict == "ok"
    write_config(tmp_path, landing=str(world.landing), lake=str(tmp_path / "lake"), state=world.places[3], quiet_period=0, format=FORMAT)
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
        if file.stat().st_size == size:
            return


@pytest.mark.skipif(
    FORMAT not in ("parquet", "iceberg"), reason="not allowed here: nothing was wrong with bounds in its tables, or its format gives no way"
)
def test_files_of_before_whose_bounds_leave_nan_out_are_written_again(tmp_path, spark, monkeypatch):
    world = World(tmp_path, spark, {"id": "int", "f": "double"}).set(key="id").load([(1, 1.0), (2, float("nan")), (3, 2.0)])
    with monkeypatch.context() as before:
        if FORMAT == "iceberg":
            before.setattr("dmscdc.lake.iceberg.without_bounds", lambda column: {})
        world.go()
    if FORMAT == "parquet":
        as_before(*world.folder.glob("*.parquet"))
    found = lambda: [row.id for row in world.lake_table.read(spark).where("f > 5").collect()]
    asked = lambda: (
        [id for (id,) in query(f"select id from read_parquet('{world.folder}/*.parquet') where f > 5")] if FORMAT == "parquet" else found()
    )
    assert asked() == []
    write_config(tmp_path, landing=str(world.landing), lake=str(tmp_path / "lake"), state=world.places[3], quiet_period=0, format=FORMAT)
    monkeypatch.chdir(tmp_path)
    plan, done = {
        "parquet": ("write 1 file again, because its bounds leave NaN out", "1 file written again"),
        "iceberg": ("rewrite_data_files", "1 files became 1"),
    }[FORMAT]
    assert plan in said("shop.item") and done in said("shop.item", "--yes")
    assert asked() == [2]
