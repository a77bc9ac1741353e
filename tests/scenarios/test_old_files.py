"Old change files leave the landing by `dmscdc maintain raw`; the oracle is a replay of all files, wherever they lie, and what lies where."

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.service.config import write_config
from world import World

pytestmark = pytest.mark.test

DAYS = [f"201812{day}-100000000" for day in (10, 11, 12, 17, 18)]  # the look-back window begins after the third


def typed(w: World, *words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, [*words, "--folder", str(w.root)])
    assert done.exit_code == code, done.output
    return done.output


def life(w: World) -> str:
    "What `history` tells of a key, without the times of objects, which a move changes."
    return re.sub(r'"put": .*', "", typed(w, "history", "shop.item", "--key", "id=1", "--json"))


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.rglob("*.parquet"))


@pytest.fixture
def w(tmp_path, spark):
    "A table of five days."
    w = World(tmp_path, spark, {"id": "int", "name": "string"}).set(key="id")
    w.load([(1, "a"), (2, "b"), (3, "c")])
    for day, name in enumerate(DAYS):
        w.changes(name, [("U", 1 + day % 3, f"day {day}"), ("I", 10 + day, "new")])
    assert w.go().verdict == "ok"
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, archive="archive")
    return w


def test_files_from_before_the_window_go_to_the_archive_and_every_question_finds_them(w):
    w.changes("20181210-110000000", [("U", 1, "too late")])  # came after its day: never applied, so never moved
    before = w.lake("id, name")
    said = typed(w, "maintain", "raw", "shop.item")
    assert "3 change files of 2018-12-10 to 2018-12-12" in said and "Nothing was done yet" in said and len(names(w.raw)) == 7
    told = life(w)
    typed(w, "maintain", "raw", "--yes")
    assert names(w.root / "archive") == DAYS[:3] and names(w.raw) == ["20181210-110000000", *DAYS[3:], "LOAD00000001"]
    assert life(w) == told
    assert w.idle(archive=str(w.root / "archive")).verdict == "attention", "the late file is still told"
    assert "no applied change file is old enough" in typed(w, "maintain", "raw", "--yes")
    w.gone("20181210-110000000").changes("20181218-110000000", [("D", 1, None)])
    assert w.go(archive=str(w.root / "archive")).verdict == "ok" and w.lake("id, name") == [row for row in before if row[0] != 1]


def test_deleting_is_asked_for_by_name_and_young_files_stay(w):
    assert "neither an archive nor --delete" in typed(w, "maintain", "raw", "--archive", "", code=2)
    assert "an archive and --delete" in typed(w, "maintain", "raw", "--delete", code=2)
    typed(w, "maintain", "raw", "--archive", "", "--delete", "--keep-days", "36500", "--yes")
    assert len(names(w.raw)) == 6
    typed(w, "maintain", "raw", "--archive", "", "--delete", "--yes")
    assert names(w.raw) == [*DAYS[3:], "LOAD00000001"] and w.idle().verdict == "nothing"


def test_a_move_that_was_stopped_goes_on(w):
    there = w.root / "archive" / "shop" / "item"
    there.mkdir(parents=True)
    there.joinpath(f"{DAYS[0]}.parquet").write_bytes((w.raw / f"{DAYS[0]}.parquet").read_bytes())
    there.joinpath(f"{DAYS[1]}.parquet").write_bytes(b"half")
    whole = (w.raw / f"{DAYS[1]}.parquet").read_bytes()
    typed(w, "maintain", "raw", "--yes")
    assert names(there) == DAYS[:3] and there.joinpath(f"{DAYS[1]}.parquet").read_bytes() == whole and names(w.raw) == [*DAYS[3:], "LOAD00000001"]


def test_a_table_that_is_not_equal_to_its_source_keeps_its_files(w, monkeypatch):
    from dmscdc.service import schedule

    verdicts = iter(["attention", "ok"])
    run = lambda config, tables, say: [type("Run", (), {"verdict": next(verdicts)})() for _ in tables]
    monkeypatch.setattr(schedule, "run_proofs", run)  # what a proof finds has tests of its own
    typed(w, "maintain", "raw", "--proven", "--yes", code=3)
    assert len(names(w.raw)) == 6
    typed(w, "maintain", "raw", "--proven", "--yes")
    assert len(names(w.raw)) == 3
