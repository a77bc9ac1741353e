"A file of the lake that holds other rows than the journal says is named by everybody who asks the lake."

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.errors import LakeDamaged
from dmscdc.history.as_of import as_known
from dmscdc.history.audit import audit_row
from dmscdc.service.config import write_config
from world import World

pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory) -> World:
    "Ten rows in two files, of one of which two rows are gone."
    world = World(tmp_path_factory.mktemp("short"), spark, {"id": "int", "name": "string"}).set(key="id")
    world.load([(n, f"Lamp {n}") for n in range(1, 9)]).go()
    assert world.changes(1, [("I", 20, "Desk"), ("I", 21, "Sofa")]).go().verdict == "ok" and world.lake_table.read(spark).count() == 10
    return world


def short(world: World) -> str:
    path = max(world.folder.rglob("*.parquet"), key=lambda p: pq.ParquetFile(p).metadata.num_rows)
    rows = pq.ParquetFile(path).read()
    if rows.num_rows == 8:
        pq.write_table(rows.slice(0, 6), path)
    return path.name


def test_who_reads_the_lake_with_spark_is_told_which_file_has_lost_rows(world, spark):
    words = f"the lake's file .*{short(world)}: damaged: 8 rows were promised, 6 are there$"
    with pytest.raises(LakeDamaged, match=words):
        world.lake_table.read(spark)
    with pytest.raises(LakeDamaged, match=words):
        as_known(spark, world.lake_table, 2, lambda: pytest.fail("the lake has it"))


def test_a_row_s_life_says_so_too_and_of_sound_files_all_is_told(world, tmp_path):
    name = short(world)
    with pytest.raises(LakeDamaged, match=f"{name}: damaged: 8 rows were promised, 6 are there$"):
        audit_row(str(world.landing), world.lake_table, {"id": 1})
    assert audit_row(str(world.landing), world.lake_table, {"id": 21})[0][0].verdict == "agrees"
    write_config(world.root, landing="landing", lake="lake", state="sqlite:state.db")
    done = CliRunner().invoke(app, ["history", world.table, "--key", "id=1", "--folder", str(world.root)])
    said = " ".join(done.output.split())
    assert done.exit_code == 1 and "8 rows were promised, 6 are there" in said and "Traceback" not in said
