"A landing in a bucket is the landing in a folder, listed with few requests. moto answers, or a list in memory where keys are many."

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from hashlib import md5
from pathlib import Path

import boto3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from typer.testing import CliRunner

from dmscdc.capture.shop import write_shop
from dmscdc.cli.main import app
from dmscdc.errors import LandingUnreachable
from dmscdc.lake.table import Transaction, open_table
from dmscdc.landing.files import FolderLanding, RawFile, TableRef, classify
from dmscdc.landing.s3 import BucketLanding
from dmscdc.load.plan import plan_table
from dmscdc.load.process import check_inputs
from dmscdc.load.results import TableState
from dmscdc.load.table_state import plan_state
from dmscdc.service.config import read_config
from dmscdc.service.status import read_statuses
from dmscdc.state.items import TableItem
from dmscdc.state.registry import open_state
from dmscdc.storage.filesystem import client, credentials, fs_and_path
from tiers import sampled

pytestmark = pytest.mark.proof

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from listing import BUSY, FILES, MORE, TABLES, Bucket, applied, landing_keys, some_tables  # noqa: E402

T = TableRef("sampledb", "product")
START = datetime(2018, 12, 10, tzinfo=timezone.utc)
ZERO = START.timestamp()
PARTS = {"YYYYMMDD": "%Y %m %d", "YYYYMMDDHH": "%Y %m %d %H", "YYYYMM": "%Y %m", "MMYYYYDD": "%m %Y %d", "DDMMYYYY": "%d %m %Y"}
BETWEEN = {"SLASH": "/", "DASH": "-", "UNDERSCORE": "_", "NONE": ""}
LAYOUTS = ["flat", *(f"{sequence} {delimiter}" for sequence in PARTS for delimiter in BETWEEN)]


def change(minute: float, layout: str = "flat", lag: float = 0, put: float | None = None, size: int = 804) -> RawFile:
    "A change file closed so many minutes after the start; DMS is `lag` minutes behind, and puts it a second later or at another minute."
    closed, folder = START + timedelta(minutes=minute), ""
    if layout != "flat":
        sequence, delimiter = layout.split()
        folder = f"{closed - timedelta(minutes=lag + 1):{PARTS[sequence]}}".replace(" ", BETWEEN[delimiter]) + "/"
    return RawFile(f"{folder}{closed:%Y%m%d-%H%M%S}000.parquet", size, ZERO + (60 * minute + 1 if put is None else 60 * put))


def load(number: int = 1, minute: float = 0, folder: str = "", size: int = 804) -> RawFile:
    return RawFile(f"{folder}LOAD{number:08X}.parquet", size, ZERO + 60 * minute)


@pytest.fixture
def put(bucket, tmp_path):
    "Puts files of the table into a folder and into the bucket, with the same sizes and times."

    def both(*files: RawFile, prefix: str = "raw/") -> tuple[FolderLanding, BucketLanding]:
        for file in files:
            here, key = tmp_path / "landing" / str(T).replace(".", "/") / file.path, f"{prefix}sampledb/product/{file.path}"
            here.parent.mkdir(parents=True, exist_ok=True)
            here.write_bytes(b"x" * file.size)
            os.utime(here, (file.time, file.time))
            client("s3").put_object(Bucket=bucket, Key=key, Body=b"x" * file.size)
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_bucket(bucket).keys[key].last_modified = datetime.fromtimestamp(
                file.time, timezone.utc
            ).replace(tzinfo=None)
        return FolderLanding(tmp_path / "landing"), BucketLanding(f"s3://{bucket}/{prefix}")

    return both


@pytest.fixture
def remove(bucket, tmp_path):
    def both(file: RawFile) -> None:
        (tmp_path / "landing/sampledb/product" / file.path).unlink()
        client("s3").delete_object(Bucket=bucket, Key=f"raw/sampledb/product/{file.path}")

    return both


def plan(listing, position=None, minute: float = 20_000, **more):
    return plan_table(T, listing, position, now=ZERO + 60 * minute, quiet_period=0, **more)


def landing_of(there: Bucket, clients=[]) -> BucketLanding:
    "A landing whose requests a list answers; one client for all, because making it takes longer than all its requests."
    clients[:] = clients or [boto3.client("s3", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")]
    clients[0].meta.events.unregister("before-send.s3.ListObjectsV2", unique_id="list")
    clients[0].meta.events.register("before-send.s3.ListObjectsV2", there.answer, unique_id="list")
    return BucketLanding("s3://shop/raw", clients[0])


def in_memory(files) -> tuple[Bucket, BucketLanding]:
    "The table's files in a bucket that is a list."
    times = {f"raw/sampledb/product/{f.path}": f.time for f in files}
    there = Bucket(times, put=times)
    return there, landing_of(there)


# The same files, the same listing


@pytest.mark.parametrize("layout", sampled(LAYOUTS, "flat", "YYYYMMDD SLASH", "YYYYMMDDHH DASH"))
def test_a_bucket_gives_what_a_folder_gives_in_every_layout_of_dms_and_with_a_position_all_that_is_new_late_or_known(put, layout):
    changes = [change(minute, layout) for minute in range(60, 12 * 1440, 1000)]
    strangers = [RawFile("_SUCCESS", 0, ZERO), RawFile("LOAD00000001.parquet.crc", 3, ZERO), RawFile("readme-first.txt", 3, ZERO)]
    folder, bucket = put(load(), load(2, 1, "1/"), load(3, 2, "east-1/"), *strangers, *changes[:-3])
    assert bucket.tables() == folder.tables() == [T]
    assert bucket.files(T) == folder.files(T)
    assert {file.etag for file in bucket.files(T).load} == {md5(b"x" * 804).hexdigest()}, "a report names inputs by it"
    position = plan(folder.files(T)).after
    folder, bucket = put(*changes[-3:], change(changes.index(changes[-4]) * 1000 - 700, layout))
    everything, few = folder.files(T), bucket.files(T, position)
    assert few.load == everything.load and few.foreign == everything.foreign
    assert set(everything.changes) - set(few.changes) == (set() if layout in ("MMYYYYDD DASH", "DDMMYYYY DASH") else set(changes[:-5]))
    assert plan(few, position) == plan(everything, position) and len(plan(few, position).late) == 1


def test_the_plans_of_folder_and_bucket_are_equal_pass_after_pass_whatever_happens(put, remove):
    morning, position = [change(minute) for minute in range(600, 3000, 100)], None
    again = {"kind": "replay", "files": [morning[2].name]}
    passes = {  # what arrives before it, or goes; a person's word
        "first load": ([load(), *morning], None),
        "nothing": ([], None),
        "new": ([change(3100), change(3200)], None),
        "late": ([change(2950, put=3300), change(3300)], None),
        "rewind": ([], {"kind": "rewind", "to": morning[1].name}),
        "other size": ([replace(change(3200, put=3400), size=9)], None),
        "accept": ([], {"kind": "accept"}),
        "replay": ([], again),
        "reload": ([load(minute=4000, size=77), change(4100)], None),
        "which one": ([], {"kind": "reload", "changes": "supersede"}),
        "date folders": ([change(4200, "YYYYMMDD SLASH")], None),
        "other dashes": ([change(4300, "YYYYMMDD DASH"), change(4400, "DDMMYYYY NONE")], None),
        "copied": ([replace(f, time=ZERO + 300_000) for f in [load(size=77), *morning]], None),
        "gone": ([change(4200, "YYYYMMDD SLASH")], None),
        "late and blocked": ([change(4150, put=5500)], None),
    }
    kinds = {}
    for name, (files, asked) in passes.items():
        if name == "gone":
            remove(files[0])
            files = []
        folder, bucket = put(*files)
        expected = plan(folder.files(T), position, instruction=asked)
        found = plan(bucket.files(T, None if asked else position), position, instruction=asked)
        assert found == expected, name
        check_inputs(bucket, found)
        kinds[name], position = found.kind, position if found.is_empty else found.after
    assert kinds == {
        "first load": "both",
        "nothing": "nothing",
        "new": "incremental",
        "late": "incremental",
        "rewind": "incremental",
        "other size": "attention",
        "accept": "incremental",
        "replay": "incremental",
        "reload": "attention",
        "which one": "both",
        "date folders": "incremental",
        "other dashes": "incremental",
        "copied": "attention",
        "gone": "attention",
        "late and blocked": "attention",
    }


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(LAYOUTS),
    st.sampled_from([(0, 0), (90, 0), (5000, 0), (5000, 1)]),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 700), st.booleans()), min_size=1, max_size=30, unique_by=lambda x: x[:2]),
)
def test_in_any_layout_and_however_far_dms_is_behind_no_pass_over_a_bucket_differs_from_one_over_a_folder(layout, lag, arrivals):
    here, position = [load()], None
    for number in range(7):
        minutes = [600 * k + minute for k, minute, late in arrivals if k + late == number]
        here += [change(minute, layout, lag[0] - lag[1] * minute, put=700 * (number + 1)) for minute in minutes]  # behind, and perhaps catching up
        _, bucket = in_memory(here)
        now = 700 * (number + 1) + 1
        found = plan(bucket.files(T, position), position, now)
        assert found == plan(classify(here), position, now)
        position = position if found.is_empty else found.after


def test_known_names_are_seen_where_dms_catches_up_and_their_folders_are_days_apart():
    def behind(minute: float, **more) -> RawFile:
        return change(minute, "YYYYMMDDHH DASH", 5000 - minute, **more)

    here = [load(), *(behind(minute) for minute in range(100, 3800, 100))]
    position = plan(classify(here)).after
    here.append(behind(2270, put=5000))
    _, bucket = in_memory(here)
    found = plan(bucket.files(T, position), position)
    assert found == plan(classify(here), position) and found.late == (here[-1],) and not found.notes
    assert len(bucket.files(T, position).changes) < len(here) - 1


def test_a_file_that_waits_for_a_person_is_seen_until_it_is_accepted():
    here = [load(), *(change(minute) for minute in range(100, 3800, 100))]
    position = plan(classify(here)).after
    here.append(change(50, put=21_000))
    asked = {"kind": "rewind", "to": here[-2].name}
    position = plan(classify(here), position, 22_000, instruction=asked).after
    _, bucket = in_memory(here)
    found = plan(bucket.files(T, position), position, 23_000)
    assert found == plan(classify(here), position, 23_000) and found.kind == "attention" and here[-1].name in found.notes[0]


# Few requests


def test_all_of_2500_change_files_are_seen_and_then_only_new_ones_with_two_requests_however_many_there_are():
    here = [load(), *(change(minute) for minute in range(10, 25_010, 10))]
    there, bucket = in_memory(here)
    assert len(bucket.files(T).changes) == 2500 and bucket.requests == 3
    position = plan(bucket.files(T)).after
    there, bucket = in_memory([*here, change(25_010), change(25_020)])
    listing = bucket.files(T, position)
    assert bucket.requests == len(there.asked) == 2 and len(listing.changes) == 144 + 2 + 1
    assert plan(listing, position).changes == (change(25_010), change(25_020))
    assert there.asked[1]["start-after"] == "raw/sampledb/product/20181226-084000000"


@pytest.mark.parametrize(
    "layout, minutes, requests",
    [
        ("YYYYMMDD SLASH", 25_000, 2),
        ("YYYYMMDDHH SLASH", 25_000, 2),
        ("YYYYMM NONE", 25_000, 2),
        ("DDMMYYYY UNDERSCORE", 25_000, 2),
        ("MMYYYYDD SLASH", 25_000, 2),
        ("DDMMYYYY SLASH", 32_000, 3),
        ("YYYYMMDD DASH", 25_000, 4),
    ],
)  # the first of January, far from the last of December; days behind dashes
def test_an_idle_table_with_date_folders_costs_two_requests_too_and_a_few_more_where_days_lie_apart(layout, minutes, requests):
    here = [load(), *(change(minute, layout) for minute in range(10, minutes + 10, 10))]
    position = plan(classify(here), minute=40_000).after
    _, bucket = in_memory(here)
    assert plan(bucket.files(T, position), position, 40_000).kind == "nothing" and bucket.requests == requests


def test_the_check_before_a_commit_lists_no_more_than_the_plan_did():
    here = [load(), *(change(minute) for minute in range(10, 25_010, 10))]
    position = plan(classify(here)).after
    _, bucket = in_memory([*here, change(25_010)])
    found = plan(bucket.files(T, position), position)
    check_inputs(bucket, found)
    assert bucket.requests == 4 and found.changes


def test_a_pass_lists_what_is_new_and_everything_where_a_person_has_asked_for_something(tmp_path):
    lake = open_table("parquet", str(tmp_path), T)
    here = [load(), *(change(minute) for minute in range(10, 25_010, 10))]
    item, position = TableItem(T, key=("id",), status={"full_at": ZERO + 1e7 - 3600}), plan(classify(here)).after
    _, bucket = in_memory(here)
    assert plan_state(TableState(item, lake, None, position), bucket, 0, ZERO + 1e7).kind == "nothing" and bucket.requests == 2
    asked = replace(item, instruction={"kind": "replay", "files": [here[1].name]})
    assert plan_state(TableState(asked, lake, None, position), bucket, 0, ZERO + 1e7).late == (here[1],) and bucket.requests == 2 + 3


def test_a_file_put_before_the_look_back_is_said_within_a_day_and_until_a_person_has_decided(put, bucket, tmp_path):
    changes = [change(1440 * day) for day in range(1, 9)]
    put(load(), *changes)
    config = read_config(tmp_path, landing=f"s3://{bucket}/raw", lake=str(tmp_path / "lake"), quiet_period=0)
    state, begun = open_state(config.state), ZERO + 60 * 1440 * 8 + 60
    state.put_settings(T, key="id")
    position = plan_table(T, classify([load(), *changes]), None, now=begun, quiet_period=0).after
    open_table("parquet", config.lake, T).commit_position(Transaction(None, position.to_json(), "test", (), ("id",))).commit()

    def said(hours: float):
        [look] = read_statuses(config, now=begun + 3600 * hours, owner="a pass")
        return look.plan.kind, " ".join(look.plan.notes)

    assert said(0) == ("nothing", ""), "the first look is at everything"
    put(late := change(1440 * 3 + 7, put=1440 * 8 + 2))
    assert said(1) == ("nothing", ""), "what is listed begins a day before the last file"
    for hours in (25, 26, 60):
        kind, words = said(hours)
        assert kind == "attention" and "arrived too late, before the look-back window" in words and late.path in words
    state.instruct(T, {"kind": "accept"})
    assert said(61)[0] == "incremental", "the position moves, so that it is not said again"


def a_survey(tables: int, files: int, minutes: float, busy: int) -> tuple[int, int]:
    "Requests of discovery and listings of all tables, and how many of these have something new."
    names, position = some_tables(tables), applied(files, minutes)
    there = Bucket(landing_keys(names, files, minutes, busy, MORE))
    landing = landing_of(there)
    assert landing.tables(names) == names and landing.requests == 2
    with ThreadPoolExecutor(16) as pool:
        listings = list(pool.map(lambda table: landing.files(table, position), names))
    assert landing.requests == len(there.asked) and landing.listings == tables
    plans = [plan_table(table, listing, position, now=position.listed_at + 86_400) for table, listing in zip(names, listings)]
    return landing.requests, sum(len(found.changes) == MORE for found in plans)


def test_a_landing_of_a_million_objects_needs_402_requests():
    assert a_survey(TABLES, FILES, 10, BUSY) == (2 + 2 * TABLES, BUSY)


def test_more_than_a_thousand_files_of_the_look_back_cost_their_pages_and_nothing_else():
    assert a_survey(3, 5000, 1, 1) == (2 + 3 * (1 + 2), 1)


def test_a_known_table_needs_no_look_and_a_new_one_a_single_request(put, bucket):
    put(load())
    for key in (
        "raw/sampledb/store/LOAD00000001.parquet",
        "raw/sampledb/notes/readme.txt",
        "raw/sampledb/",
        "raw/_dmscdc/x/LOAD00000001.parquet",
        "rawer/a/b/LOAD00000001.parquet",
    ):
        client("s3").put_object(Bucket=bucket, Key=key, Body=b"x")
    store = TableRef("sampledb", "store")
    for known, requests in (((), 5), ((T,), 4), ((T, store, TableRef("sampledb", "notes")), 2)):
        landing = BucketLanding(f"s3a://{bucket}/raw/")
        assert set(landing.tables(known)) == {T, store, *known} and landing.requests == requests


def test_files_too_deep_beside_tables_are_known(put, bucket):
    put(load())
    client("s3").put_object(Bucket=bucket, Key="raw/old/sampledb/store/LOAD00000001.parquet", Body=b"x")
    landing = BucketLanding(f"s3a://{bucket}/raw/")
    assert (landing.tables(), landing.deep) == ([T], ["old/sampledb/store/LOAD00000001.parquet"])


# Addresses, errors, the command


@pytest.mark.parametrize("prefix", ["", "a b%20c+ü/", "dms=1/(x)/~&;$@,:/", "%2F/"])
def test_prefixes_and_folders_with_odd_characters_are_listed_and_opened(put, prefix):
    folder, bucket = put(load(folder="Größe 1+1%/"), change(10), prefix=prefix)
    assert bucket.files(T) == folder.files(T) and bucket.tables() == [T]
    there, path = fs_and_path(bucket.url(T, "Größe 1+1%/LOAD00000001.parquet"))
    assert there.get_file_info(path).size == 804
    position = plan(bucket.files(T)).after
    assert plan(bucket.files(T, position), position).kind == "nothing"


def test_a_bucket_with_versions_shows_the_newest_and_not_what_was_deleted(bucket, put, remove):
    client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    put(load(size=1), change(10), change(20))
    folder, landing = put(load(size=2))
    remove(change(20))
    assert landing.files(T) == folder.files(T) and [f.size for f in landing.files(T).load] == [2]


def test_who_pays_is_said_with_every_request(monkeypatch):
    monkeypatch.setenv("AWS_REQUEST_PAYER", "requester")
    there, bucket = in_memory([load(), change(10)])
    bucket.files(T, plan(bucket.files(T)).after)
    assert [query["payer"] for query in there.asked] == ["requester"] * 3


def test_a_bucket_that_is_not_there_is_named_with_what_helps(aws):
    with pytest.raises(
        LandingUnreachable,
        match=r"s3://nobodys-bucket/raw cannot be listed: there is no such bucket \(NoSuchBucket: .*aws s3 ls s3://nobodys-bucket/raw/",
    ):
        BucketLanding("s3a://nobodys-bucket/raw").tables()


def test_the_profile_of_the_shell_is_the_one_that_is_used(aws, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = usual\naws_secret_access_key = a\n[shop]\naws_access_key_id = of-the-shop\naws_secret_access_key = b\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for profile, key in (("shop", "of-the-shop"), ("default", "usual")):
        monkeypatch.setenv("AWS_PROFILE", profile)
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        client.cache_clear()
        assert credentials().key == key


def test_without_credentials_the_error_says_where_they_are_looked_for(aws, monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    client.cache_clear()
    with pytest.raises(LandingUnreachable, match="no credentials are found: set AWS_PROFILE"):
        BucketLanding("s3://shop/raw").tables()


@pytest.fixture
def dmscdc(aws, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, [*words])


def test_the_command_plans_a_landing_in_a_bucket(dmscdc, bucket, tmp_path):
    write_shop(tmp_path / "shop")
    for file in (tmp_path / "shop").rglob("*.parquet"):
        client("s3").upload_file(str(file), bucket, f"dms out/{file.relative_to(tmp_path / 'shop').as_posix()}")
    assert dmscdc("init", "--landing", f"s3a://{bucket}/dms out", "--lake", "lake", "--quiet-period", "0").exit_code == 0
    found = {one["table"]: one for one in json.loads(dmscdc("plan", "--json").stdout)}
    assert sorted(found) == ["sampledb.product", "sampledb.productorder", "sampledb.store"]
    assert [one["suggested"] for one in found.values()] == [["id"]] * 3, found
    dmscdc("table", "set", "sampledb.product", "--key", "id")
    found = {one["table"]: one for one in json.loads(dmscdc("plan", "--json").stdout)}
    assert (found["sampledb.product"]["plan"], found["sampledb.product"]["files"]["load"][0]["path"]) == ("initial", "LOAD00000001.parquet")


@pytest.mark.parametrize(
    "prefix, says",
    [
        ("", "no files of DMS in s3://{}: expected"),
        ("raw/sampledb", "lies one level too high: dmscdc plan --landing s3://{}/raw shows"),
        ("deep", "dmscdc plan --landing s3://{}/deep/raw shows"),
    ],
)
def test_an_address_on_the_wrong_level_is_told_the_right_one(dmscdc, bucket, prefix, says):
    for key in {"": (), "deep": ("deep/raw/sampledb/product/20181215-100311204.parquet",)}.get(
        prefix, ("raw/sampledb/product/LOAD00000001.parquet",)
    ):
        client("s3").put_object(Bucket=bucket, Key=key, Body=b"x")
    done = dmscdc("plan", "--landing", f"s3://{bucket}/{prefix}", "--lake", "lake")
    assert done.exit_code == 3 and says.format(bucket) in done.output, done.output


def test_the_command_says_in_a_line_what_aws_said(dmscdc):
    done = dmscdc("plan", "--landing", "s3://nobodys-bucket/raw", "--lake", "lake")
    assert done.exit_code == 1 and "there is no such bucket" in done.output and "Traceback" not in done.output


def test_a_pass_over_a_landing_that_cannot_be_listed_has_failed_and_one_over_an_empty_bucket_wants_a_look(dmscdc, bucket):
    done = dmscdc("pass", "--landing", "s3://nobodys-bucket/raw", "--lake", "lake")
    assert done.exit_code == 1 and "there is no such bucket" in done.output, done.output
    assert dmscdc("pass", "--landing", f"s3://{bucket}/raw", "--lake", "lake").exit_code == 3


def test_a_name_that_steers_a_terminal_is_no_table_of_a_bucket_and_is_said(put, bucket):
    _, landing = put(load())
    for key in ("raw/sampledb/a\x1b[2Jb", "raw/shop\u202e/t"):
        client("s3").put_object(Bucket=bucket, Key=f"{key}/LOAD00000001.parquet", Body=b"x")
    assert landing.tables() == [T] and set(landing.odd) == {"sampledb/a\x1b[2Jb", "shop\u202e"}
