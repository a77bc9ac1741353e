"""Change files that were moved to an archive count once, and are read there; DuckDB and plain dictionaries say what must come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.errors import ConfigError
from dmscdc.service.config import read_config, table_parameters, write_config
from dmscdc.service.status import read_statuses
from world import World

pytestmark = pytest.mark.test

OLD, NEW = "20181215-100000000", "20181218-100000000"  # the look-back window of the newer one begins after the older one


def archived(w: World, copy: bool = False) -> Path:
    "The older change file lies in the archive; with `copy` in the landing, too."
    there = w.root / "archive" / w.ref.schema / w.ref.name
    there.mkdir(parents=True)
    name = f"{OLD}.parquet"
    (there / name).write_bytes((w.raw / name).read_bytes())
    if not copy:
        w.gone(OLD)
    return w.root / "archive"


def loaded(tmp_path, spark=None) -> World:
    w = World(tmp_path, spark, {"id": "int", "name": "string"}).set(key="id")
    w.load([(1, "a"), (2, "b"), (3, "c")])
    w.changes(OLD, [("U", 1, "older"), ("D", 2, None)]).changes(NEW, [("U", 3, "newer")])
    return w


@pytest.mark.parametrize("copy", [False, True], ids=["moved", "in both"])
def test_a_reload_applies_changes_that_lie_in_the_archive(tmp_path, spark, copy):
    w = loaded(tmp_path, spark)
    assert w.go().verdict == "ok"
    archive = str(archived(w, copy))
    assert w.idle(archive=archive).verdict == "nothing", "what was applied is not applied again"
    w.state.instruct(w.ref, {"kind": "reload", "changes": "keep"})
    done = w.go(archive=archive)
    assert done.verdict == "ok" and [file["path"] for file in done.files] == ["LOAD00000001.parquet", f"{OLD}.parquet", f"{NEW}.parquet"]
    assert w.lake("id, name, _cdc_file") == [(1, "older", f"{OLD}.parquet"), (3, "newer", f"{NEW}.parquet")]


def test_a_file_of_the_archive_that_changes_during_the_run_voids_it(tmp_path, spark, in_spark):
    w = loaded(tmp_path, spark)
    assert w.go().verdict == "ok"
    archive = archived(w)
    w.state.instruct(w.ref, {"kind": "reload", "changes": "keep"})

    def spark_and_a_change():
        (archive / "shop" / "item" / f"{OLD}.parquet").unlink(missing_ok=True)
        return spark

    done = w.go(archive=str(archive), spark=spark_and_a_change)
    assert done.verdict == "failed" and f"{OLD}.parquet is gone" in done.words and "Nothing was applied" in done.words


def test_the_setting_reaches_plan_and_history(tmp_path):
    w = loaded(tmp_path)
    archived(w)
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, archive="archive")
    [look] = read_statuses(read_config(tmp_path))
    assert [file.name for file in look.plan.changes] == [f"{OLD}.parquet", f"{NEW}.parquet"] and look.plan.archived == (f"{OLD}.parquet",)
    assert table_parameters(read_config(tmp_path), w.ref)["archive"] == str(tmp_path / "archive")
    done = CliRunner().invoke(app, ["history", "shop.item", "--key", "id=2", "--json", "--folder", str(tmp_path)])
    steps = json.loads(done.stdout)["lives"][0]["steps"]
    assert [step["file"].partition("#")[0] for step in steps] == ["LOAD00000001.parquet", f"{OLD}.parquet"], done.output


@pytest.mark.parametrize("place", ["landing", "landing/old", "lake"])
def test_an_archive_has_a_place_of_its_own(tmp_path, place):
    with pytest.raises(ConfigError, match="give the archive a place of its own"):
        read_config(tmp_path, landing="landing", lake="lake", archive=place)
