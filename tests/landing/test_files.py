"""Names, places and listings where a notebook's handful of files is not enough."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.errors import NotADmsName
from dmscdc.landing.files import FolderLanding, RawFile, TableRef, classify, parse_name
from dmscdc.landing.s3 import open_landing

pytestmark = pytest.mark.quick

T = TableRef("sampledb", "product")


def put(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x")


def test_load_files_are_ordered_by_number_whatever_the_order_of_arrival():
    files = [RawFile(f"LOAD{n:08X}.parquet", 1, 0.0) for n in range(1, 40)]
    shuffled = random.Random(3).sample(files, len(files))
    assert list(classify(shuffled).load) == files


def test_segments_are_ordered_as_numbers():
    paths = [f"SEGMENT{s}_LOAD{n:08X}.parquet" for s in (1, 2, 10) for n in (1, 2)]
    shuffled = random.Random(3).sample(paths, len(paths))
    assert [f.path for f in classify(RawFile(p, 1, 0.0) for p in shuffled).load] == paths


def test_2500_change_files_are_all_listed_once_in_order_with_one_listing(tmp_path):
    names = [f"2018{month:02d}{day:02d}-{hour:02d}0000007.parquet" for month in range(1, 6) for day in range(1, 26) for hour in range(20)]
    put(tmp_path, *(f"sampledb/product/{n}" for n in names))
    landing = FolderLanding(tmp_path)
    assert [f.name for f in landing.files(T).changes] == sorted(names) and len(names) == 2500
    assert landing.listings == 1


def test_discovery_does_not_list_the_tables(tmp_path):
    put(tmp_path, *(f"sampledb/t{i:03d}/LOAD00000001.parquet" for i in range(200)))
    landing = FolderLanding(tmp_path)
    assert len(landing.tables()) == 200 and landing.listings == 0


def test_files_of_other_names_and_places_are_named_as_foreign(tmp_path):
    paths = [
        "LOAD00000001.parquet",
        "LOAD0000000A.parquet",
        "2022-10-23/20221023-013830913.parquet",
        "east/LOAD00000001.parquet",
        "20221022-013830913.parquet",
        "old/20221021-013830913.parquet",
        "old/LOAD00000001.parquet",
        "_SUCCESS",
        "20221399-013830913.parquet",
    ]
    put(tmp_path, *(f"sampledb/product/{p}" for p in paths))
    folder = FolderLanding(tmp_path).files(T)
    assert [f.path for f in folder.foreign] == [
        "20221399-013830913.parquet",
        "_SUCCESS",
        "old/20221021-013830913.parquet",
        "old/LOAD00000001.parquet",
    ]


@pytest.mark.parametrize("more", [[], ["orders/20260301-100000000.parquet", "orders/LOAD00000001.parquet"]])
def test_tables_below_a_landing_one_level_too_high_are_never_joined_and_the_right_one_is_named(tmp_path, more):
    put(tmp_path / "raw", *(f"dms/shop/{path}" for path in ["colours/LOAD00000001.parquet", "sizes/LOAD00000001.parquet", *more]))
    done = CliRunner().invoke(app, ["plan", "--folder", str(tmp_path), "--landing", str(tmp_path / "raw"), "--lake", str(tmp_path / "lake")])
    assert done.exit_code == 3 and "dms.shop" not in done.output and f"dmscdc plan --landing {tmp_path}/raw/dms" in " ".join(done.output.split()), (
        done.output
    )


def typed(*words: str):
    done = CliRunner().invoke(app, [*words])
    return done.exit_code, " ".join(done.output.split())


def test_loads_and_changes_that_lie_apart_are_said_with_the_command_and_are_one_table(tmp_path):
    raw, home = tmp_path / "raw", ("--folder", str(tmp_path))
    put(raw, "cdc/shop/item/20260301-100000000.parquet", "cdc/shop/other/20260301-100000000.parquet", "full/shop/item/LOAD00000001.parquet")
    both = ("--landing", f"{raw}/full", "--landing", f"{raw}/cdc")
    assert typed("init", "--landing", str(raw), "--lake", f"{tmp_path}/lake", *home)[0] == 0
    code, said = typed("plan", *home)
    assert code == 3 and f"dmscdc plan {' '.join(both)} shows what lies there" in said, said
    listing = open_landing(",".join(both[1::2])).files(TableRef("shop", "item"))
    assert [file.name for file in (*listing.load, *listing.changes)] == ["LOAD00000001.parquet", "20260301-100000000.parquet"]

    put(raw, "test/shop/item/LOAD00000001.parquet", "test/shop/item/20260301-100000000.parquet")  # a landing of its own
    beside = typed("doctor", *home, "--landing", f"{raw}/full")[1]
    assert beside.count(f"{raw}/cdc has changes of shop.item, of which the landing has only loads") == 1 and f"{raw}/test has" not in beside
    assert f"{raw}/full has loads of shop.item" in typed("doctor", *home, "--landing", f"{raw}/cdc")[1]
    assert "has changes of" not in typed("doctor", *home, *both)[1]


@pytest.mark.parametrize(
    "name, says", [("LOAD00000002.parquet", "which of them the table begins with cannot be told"), ("20260301-100000000.parquet", "lies in")]
)
def test_places_that_contradict_each_other_cost_their_table_its_run_and_no_other(tmp_path, name, says):
    put(tmp_path, "cdc/shop/item/20260301-100000000.parquet", "full/shop/item/LOAD00000001.parquet", "full/shop/other/LOAD00000001.parquet")
    put(tmp_path, f"{'cdc' if 'LOAD' in name else 'full'}/shop/item/{name}")
    code, said = typed(
        "plan",
        "--landing",
        f"{tmp_path}/full",
        "--landing",
        f"{tmp_path}/cdc",
        "--lake",
        f"{tmp_path}/lake",
        "--quiet-period",
        "0",
        "--folder",
        str(tmp_path),
    )
    assert code == 3 and says in said and "shop.other waiting LOAD00000001.parquet: not a complete Parquet file" in said, said


def test_a_place_inside_another_is_said_with_the_command_and_both_are_one_landing(tmp_path):
    home, outer, inner = ("--lake", f"{tmp_path}/lake", "--quiet-period", "0", "--folder", str(tmp_path)), tmp_path / "raw", tmp_path / "raw/changes"
    put(
        outer,
        "shop/item/LOAD00000001.parquet",
        "changes/shop/item/2026/03/01/20260301-100000000.parquet",
        "old/shop/_tmp/x/LOAD00000001.parquet",
        "docs/list/readme/a.txt",
    )
    both, deep = ("--landing", str(outer), "--landing", str(inner)), "changes/shop/item/2026/03/01/20260301-100000000.parquet lies too deep"
    said = typed("plan", "--landing", str(outer), *home)[1]
    assert (
        said.count("lies too deep") == 1 and f"{deep} in {outer} and belongs to no table. dmscdc plan {' '.join(both)} shows what lies there" in said
    ), said
    assert f"warning landing: {deep}" in typed("doctor", "--landing", str(outer), *home)[1]
    assert f"{outer} has loads of shop.item, of which the landing has only changes" in typed("doctor", "--landing", str(inner), *home)[1]

    for places in (both[1::2], both[3:0:-2]):
        landing = open_landing(",".join(places))
        listing = landing.files(TableRef("shop", "item"))
        assert landing.tables() == [TableRef("shop", "item")], places
        assert [Path(landing.url(TableRef("shop", "item"), file.path)).relative_to(outer).parts[0] for file in (*listing.load, *listing.changes)] == [
            "shop",
            "changes",
        ]
    assert "too deep" not in typed("plan", *both, *home)[1] + typed("doctor", *both, *home)[1]


def test_a_load_and_changes_of_names_that_differ_in_letter_case_are_said(tmp_path):
    put(tmp_path, "full/SHOP/ITEM/LOAD00000001.parquet", "cdc/shop/item/20260301-100000000.parquet")
    said = typed("doctor", "--landing", f"{tmp_path}/full", "--landing", f"{tmp_path}/cdc", "--lake", f"{tmp_path}/lake", "--folder", str(tmp_path))[
        1
    ]
    assert "SHOP.ITEM has only loads and shop.item only changes" in said, said


def test_a_file_deleted_during_the_walk_is_not_there(tmp_path):
    put(tmp_path, "sampledb/product/LOAD00000001.parquet")
    os.symlink(tmp_path / "gone", tmp_path / "sampledb/product/LOAD00000002.parquet")  # its stat finds no file
    assert [f.name for f in FolderLanding(tmp_path).files(T).load] == ["LOAD00000001.parquet"]


def test_names_of_ten_digits_sort_with_names_of_nine():
    names = ["20141029-113400999.parquet", "20141029-1134010000.parquet", "20141029-113401001.parquet"]
    assert [f.name for f in classify(RawFile(n, 1, 0.0) for n in reversed(names)).changes] == names
    stamps = [parse_name(n).stamp for n in names]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "LOAD00000001.parquet ",
        "LOAD00000001.PARQUET",
        "LOAD00000001.parquet\n",
        "LOAD00000001.orc",
        "20180230-100311204.parquet",
        "20181215-246060000.parquet",
        "x20181215-100311204.parquet",
    ],
)
def test_near_misses_are_foreign_and_never_raise_in_a_listing(name):
    with pytest.raises(NotADmsName):
        parse_name(name)
    listing = classify([RawFile(name, 1, 0.0)])
    assert listing.is_empty and len(listing.foreign) == 1


@pytest.mark.parametrize(
    "odd",
    [
        ("LOAD00000002.parquet", "a pipe"),
        ("20181215-100311204.parquet", "a pipe"),
        ("2018/12/15/20181215-100311204.parquet", "a pipe"),
        ("20181215-100311204.parquet", "a folder"),
        ("LOAD00000002.parquet", "a folder"),
        ("20181215-100311204.parquet", "a link to a folder"),
    ],
    ids=" is ".join,
)
def test_what_only_has_the_name_of_a_file_of_dms_is_foreign_and_nobody_waits_for_it(tmp_path, odd):
    put(tmp_path, "sampledb/product/LOAD00000001.parquet", "elsewhere/x")
    name, what = odd
    place = tmp_path / "sampledb/product" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    {"a pipe": os.mkfifo, "a folder": os.mkdir, "a link to a folder": lambda at: os.symlink(tmp_path / "elsewhere", at)}[what](place)
    found = FolderLanding(tmp_path).files(T)
    assert [f.path for f in found.load] == ["LOAD00000001.parquet"] and not found.changes
    assert [f.path for f in found.foreign] == [f"{name} (a folder)" if what == "a folder" else f"{name} (not a plain file)"]
