"What `dmscdc doctor` says of files, settings and machines that will hurt. Every landing is made by hand, so what is wrong with it is known; each has a neighbour that is right."

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.doctor.diagnosis import doctor, exit_code
from dmscdc.doctor.evidence import Finding
from dmscdc.doctor.place_checks import Survey, java_version, rights
from dmscdc.errors import BadSetting, UnknownTable
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.service.config import Config, read_config
from dmscdc.state.position import Position
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.quick

LOAD, FIRST, SECOND = "LOAD00000001.parquet", "20181215-100311204.parquet", "20181215-100412204.parquet"
GB = 10**9
LOADED = datetime(2018, 12, 15, 9, tzinfo=timezone.utc).timestamp()
Files = Mapping[str, Any]  # rows by column, the text of a CSV file, or bytes


def put(home: Path, files: Files, table: str = "item") -> None:
    "Files below a table's folder, put when their names say, load files before."
    for name, content in files.items():
        path = home / "landing/shop" / table / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            pq.write_table(content if isinstance(content, pa.Table) else pa.table(content), path)
        at, stamp = LOADED, re.fullmatch(r"((?:19|20)\d{6}-\d{6})\d{3}\..*", path.name)
        if stamp:
            at = datetime.strptime(stamp[1], "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc).timestamp() + 1
        os.utime(path, (at, at))


def settings_of(home: Path, **more: Any) -> Config:
    return read_config(home, **{"landing": str(home / "landing"), "lake": str(home / "lake"), "quiet_period": 0, **more})


def laptop(config: Config) -> Survey:
    "A machine that has everything."
    return Survey(config, landed=GB, free=100 * GB, memory=64 * GB, java='openjdk version "17.0.15"', spark="4.1.4")


def said(home: Path, files: Files = {}, key: str = "id", told: Any = None, **settings: Any) -> list[Finding]:
    "What the doctor finds in one table."
    put(home, files)
    config = settings_of(home)
    if key or settings:
        open_state(config.state, config.landing).put_settings(TableRef("shop", "item"), **({"key": key} if key else {}), **settings)
    (home / "told.json").write_text(json.dumps(told))
    return doctor(config, settings=[home / "told.json"] if told else [], machine=laptop(config))


def about(findings: list[Finding], words: str) -> list[Finding]:
    return [one for one in findings if re.search(words, str(one))]


def changed(**columns: list) -> dict[str, list]:
    "A change file of inserts, with columns of its own."
    rows = len(next(iter(columns.values())))
    return {"Op": ["I"] * rows, "id": [*range(100, 100 + rows)], **columns}


# What is right


def test_a_table_as_dms_should_write_it_is_not_worth_a_word(tmp_path):
    sequence = [f"20181215100211250000000000000000{n:03d}" for n in (61, 73)]
    stamps = ["2018-12-15 10:02:11.250000"] * 2
    load = {
        "dms_ts": ["2018-12-15 08:00:00.000000"] * 2,
        "id": [1, 2],
        "name": ["a", "b"],
        "price": pa.array([Decimal("1.50")] * 2, pa.decimal128(10, 2)),
        "AR_H_CHANGE_SEQ": [""] * 2,
    }
    change = {"Op": ["U", "D"], "dms_ts": stamps, "id": [1, 2], "name": ["c", "b"], "price": load["price"], "AR_H_CHANGE_SEQ": sequence}
    assert said(tmp_path, {LOAD: load, FIRST: change}) == []


def test_the_worst_comes_first_and_notes_alone_are_no_reason_to_look(tmp_path):
    findings = said(tmp_path, {LOAD: {"id": [1]}, FIRST: changed(name=["a"]), SECOND: b"PAR1 and no more"})
    assert {one.severity for one in findings} >= {"error", "note"} and exit_code(findings) == 3
    for some in (findings, on(tmp_path, java="", ahead=400.0)):  # tables are examined before the machine
        assert [one.severity for one in some] == sorted((one.severity for one in some), key=["error", "warning", "note"].index)
    assert exit_code([one for one in findings if one.severity == "note"]) == 0 == exit_code([])


# Files that cannot be read, and CSV


def test_a_damaged_file_is_an_error_by_its_name(tmp_path):
    [one] = about(said(tmp_path, {LOAD: {"id": [1]}, FIRST: b"PAR1 and no more"}), "not a complete Parquet file")
    assert one.severity == "error" and FIRST in one.what and "take it out" in one.mend.lower()


def test_a_type_that_spark_cannot_read_is_an_error_by_its_column(tmp_path):
    [one] = about(said(tmp_path, {LOAD: {"id": [1], "at": pa.array([1], pa.time64("us"))}}), "which Spark cannot read")
    assert (one.severity, "column at" in one.what) == ("error", True)


def test_csv_without_header_and_definition_is_refused_and_its_command_named(tmp_path):
    findings = said(tmp_path, {"LOAD00000001.csv": "1,a\n2,b\n"}, key="")
    [one] = about(findings, "CSV")
    assert one.severity == "error" and one.mend == "dmscdc table columns shop.item --ddl FILE"
    assert not about(findings, "its key is not known")  # the definition brings it


def test_csv_with_a_header_only_is_a_note_and_with_a_definition_nothing(tmp_path):
    files = {"20181215-100311204.csv": "Op,id,name\nI,1,a\n"}
    assert [one.severity for one in about(said(tmp_path, files), "all its columns become texts|All its columns")] == ["note"]
    assert not about(said(tmp_path, files, columns=[("id", "int"), ("name", "string")]), "CSV")


def test_csv_that_does_not_fit_its_definition_is_an_error(tmp_path):
    [one] = about(said(tmp_path, {"LOAD00000001.csv": "1,a,x,y\n"}, columns=[("id", "int"), ("name", "string")]), "has 4 fields")
    assert one.severity == "error" and "dmscdc table columns shop.item" in one.mend


def named(*columns: tuple[str, list]) -> pa.Table:
    return pa.table([pa.array(values) for _, values in columns], names=[name for name, _ in columns])


@pytest.mark.parametrize(
    "files",
    [
        {LOAD: {"id": [1], "tags": [["a"]]}},
        {LOAD: named(("id", [1]), ("id", [2]))},
        {FIRST: named(("Op", ["I"]), ("id", [1]), ("Op", ["x"]))},
        {FIRST: {"Op": [1], "id": [1]}},
        {LOAD: pa.table({"id": pa.array([], pa.int32())})},
        {LOAD: {"id": [1], "n": pa.nulls(1)}},
        {LOAD: pa.table({})},
        {LOAD: {"id": [1, 2], "d": pa.array(["a", "b"]).dictionary_encode()}},
        {
            LOAD: {"id": [1], "s": pa.array(["a"], pa.large_string()), "f": pa.array([b"ab"], pa.binary(2))},
            FIRST: {"Op": ["I"], "id": [2], "s": ["b"]},
        },
        {LOAD: {"id": [1], "t": pa.array([1], pa.timestamp("ns"))}},
        {LOAD: {"id": [[1]]}, FIRST: {"Op": ["U"], "id": [[2]]}},
        {LOAD: {"id": [1], "": ["x"], "a.b": [1], "`": [2], "_cdc_file": ["x"]}},
        {LOAD: {"id": [1], "d": pa.array([1], pa.decimal256(50, 2))}},
        {"LOAD00000001.csv": ""},
        {FIRST.replace("parquet", "csv"): "I"},
        {"LOAD00000001.csv": '1,"a\n'},
        {"LOAD00000001.csv": b"\xff\xfe1,a"},
        {"LOAD00000001.csv": "1,ü\n".encode("latin1")},
        {"LOAD00000001.csv.gz": b"\x1f\x8b\x08\x00abc"},
        {"9999/12/31/99991231-235959998.parquet": {"Op": ["I"], "id": [1]}},
        {"0001/01/01/00010101-000000001.parquet": {"Op": ["I"], "id": [1]}},
        {LOAD: {"id": [1], "t": pa.array([-(2**63) + 1], pa.timestamp("us"))}},
        {FIRST: {"Op": ["I"], "id": [1], "AR_H_CHANGE_SEQ": [5]}, SECOND: {"Op": ["I"], "id": [1], "AR_H_CHANGE_SEQ": [3]}},
    ],
)
@pytest.mark.parametrize(
    "settings", [{}, {"key": ""}, {"key": "", "columns": [("id", "int"), ("s", "string")]}], ids=["key", "nothing", "definition"]
)
def test_whatever_lies_there_every_check_ends_in_words(tmp_path, files, settings):
    assert about(said(tmp_path, files, **settings), "ended with") == []


# Key


def test_an_unknown_key_is_proposed_with_its_command(tmp_path):
    [one] = about(said(tmp_path, {LOAD: {"id": [1, 2], "name": ["a", "a"]}}, key=""), "its key is not known")
    assert (one.severity, one.mend) == ("warning", "dmscdc table set shop.item --key id")


def test_a_table_of_inserts_needs_no_key_unless_its_files_have_updates_or_deletes(tmp_path):
    assert not about(said(tmp_path, {LOAD: {"id": [1, 1]}}, key="", insert_only=True), "key")
    [one] = about(said(tmp_path, {LOAD: {"id": [1, 1]}, FIRST: {"Op": ["I", "U", "D"], "id": [1, 1, 1]}}, key="", insert_only=True), "it has no key")
    assert (one.severity, one.what) == ("warning", "2 updates and deletes in its change files, and it has no key")


def test_a_file_without_the_key_column_is_an_error(tmp_path):
    [one] = about(said(tmp_path, {LOAD: {"id": [1]}, FIRST: {"Op": ["I"], "name": ["a"]}}), "does not carry the key column id")
    assert one.severity == "error"


# Order


def test_whole_seconds_without_a_change_sequence_are_a_warning_and_fractions_a_note(tmp_path):
    def severity(*stamps: str) -> list[str]:
        return [
            one.severity
            for one in about(
                said(tmp_path, {FIRST: {"Op": ["I"] * len(stamps), "dms_ts": [*stamps], "id": [*range(len(stamps))]}}), "no change sequence"
            )
        ]

    assert severity("2018-12-15 10:02:11.000000", "2018-12-15 10:02:12.000000") == ["warning"]
    assert severity("2018-12-15 10:02:11.000000", "2018-12-15 10:02:12.000001") == ["note"]
    assert severity("2018-12-15 10:02:11", "2018-12-15 10:02:12") == ["warning"]


@pytest.mark.parametrize(
    "column, sequence, there",
    [
        ("AR_H_CHANGE_SEQ", "20181215100211000000000000000000061", True),
        ("transact_id", "20181215100211000000000000000000061", True),
        ("transact_id", "99999999999999999999999999999999999", False),
        ("transact_id", "2018121510021100000000000000000006", False),
    ],
)
def test_a_change_sequence_is_known_by_its_name_or_by_its_time(tmp_path, column, sequence, there):
    findings = about(said(tmp_path, {FIRST: changed(**{column: [sequence]})}), "no change sequence|35 digits of text were expected")
    assert len(findings) == (not there)
    assert there or "$AR_H_CHANGE_SEQ" in findings[0].mend


# Operations


def test_change_files_without_op_are_an_error_until_somebody_says_that_they_are_inserts(tmp_path):
    files = {LOAD: {"id": [1]}, FIRST: {"id": [2]}}
    [one] = about(said(tmp_path, files), "no column Op")
    assert one.severity == "error" and "dmscdc table set shop.item --csv inserts=true" in one.mend and "CdcInsertsOnly=false" in one.mend
    [one] = about(said(tmp_path, files, csv={"inserts": True}), "no column Op")
    assert one.severity == "note" and "never come" in one.why


@pytest.mark.parametrize("ops, setting", [("IU", "CdcInsertsAndUpdates"), ("I", "CdcInsertsOnly"), ("IUD", "")])
def test_many_changes_without_a_delete_are_a_hint(tmp_path, ops, setting):
    many = [ops[n % len(ops)] for n in range(1200)]
    findings = about(said(tmp_path, {FIRST: {"Op": many, "id": [*range(1200)]}}), "no delete among 1,200 changes")
    assert [one.mend.partition("=")[0] for one in findings] == ([setting] if setting else [])
    assert all(one.severity == "note" for one in findings)


def test_few_changes_without_a_delete_are_no_hint(tmp_path):
    assert not about(said(tmp_path, {FIRST: {"Op": ["I", "U"] * 400, "id": [*range(400)] * 2}}), "no delete")


def test_an_unknown_op_is_an_error(tmp_path):
    [one] = about(said(tmp_path, {FIRST: {"Op": ["I", "X", None], "id": [1, 2, 3]}}), "Op is ")
    assert (
        one.severity == "error"
        and "row 2 of 20181215-100311204.parquet: Op is 'X'" in one.what
        and "row 3 of 20181215-100311204.parquet: Op is null" in one.what
    )


# Keys that change


def test_an_update_of_a_key_that_no_row_had_is_a_key_change(tmp_path):
    [one] = about(said(tmp_path, {LOAD: {"id": [1, 2]}, FIRST: {"Op": ["U", "U", "U"], "id": [2, 7, 8]}}), "keys that no row had before")
    assert (
        one.severity == "warning" and one.what.startswith("2 updates") and f"id=7 in {FIRST}" in one.what and "add-before-image-columns" in one.mend
    )


@pytest.mark.parametrize(
    "files",
    [
        {LOAD: {"id": [1]}, FIRST: {"Op": ["I", "U"], "id": [7, 7]}},
        {LOAD: {"id": [1]}, FIRST: {"Op": ["I"], "id": [7]}, SECOND: {"Op": ["U"], "id": [7]}},
        {LOAD: {"id": [1]}, FIRST: {"Op": ["U"], "id": [7], "BI_id": [1]}},
        {FIRST: {"Op": ["U"], "id": [7]}},  # the rows before are not known
        {LOAD: {"id": [1]}, FIRST: b"PAR1", SECOND: {"Op": ["U"], "id": [7]}},  # the damaged file may have inserted it
        {LOAD: {"id": [1]}, FIRST: {"Op": ["I"] * 12_000, "id": [*range(12_000)]}, SECOND: {"Op": ["U"], "id": [11_999]}},
    ],
    ids=["inserted before", "in an earlier file", "with a before image", "without a load", "behind a damaged file", "behind a long file"],
)
def test_other_updates_are_none(tmp_path, files):
    assert not about(said(tmp_path, files), "keys that no row had")


def test_changes_that_a_newer_load_has_made_obsolete_are_not_held_against_it(tmp_path):
    files = {LOAD: {"id": [1, 2]}, FIRST: {"Op": ["U"], "id": [7]}, SECOND: {"Op": ["U"], "id": [2]}}
    assert about(said(tmp_path, files), "keys that no row had")
    state, item = open_state(settings_of(tmp_path).state), TableRef("shop", "item")
    load = FolderLanding(tmp_path / "landing").files(item).load
    state.change(item, lambda one: replace(one, position=Position(2, load, cut=FIRST, last=SECOND), commit=2))
    assert not about(said(tmp_path), "keys that no row had")


def test_keys_of_a_load_are_read_behind_its_first_rows(tmp_path):
    load = pa.table({"id": [*range(30_000)], "name": ["a"] * 30_000})
    assert not about(said(tmp_path, {LOAD: load, FIRST: {"Op": ["U"], "id": [29_999]}}), "keys that no row had")
    assert about(said(tmp_path, {LOAD: load, FIRST: {"Op": ["U"], "id": [30_000]}}), "keys that no row had")


def test_a_key_of_two_columns_is_followed_in_csv_as_well(tmp_path):
    files = {"LOAD00000001.csv": "1,1,a\n1,2,b\n", "20181215-100311204.csv": "U,1,2,c\nU,2,1,d\n"}
    [one] = about(said(tmp_path, files, key="id,line", columns=[("id", "int"), ("line", "int"), ("name", "string")]), "keys that no row had")
    assert one.what.startswith("1 update of") and "id=2,line=1" in one.what


# Times of load rows


@pytest.mark.parametrize("loaded, late", [("2018-12-15 10:00:00.118402", True), ("2018-12-15 09:59:11.250000", False)])
def test_load_rows_stamped_later_than_the_first_change(tmp_path, loaded, late):
    files = {LOAD: {"dms_ts": [loaded], "id": [1]}, FIRST: {"Op": ["U"], "dms_ts": ["2018-12-15 09:59:11.250000"], "id": [1]}}
    findings = about(said(tmp_path, files), "load rows are stamped")
    assert [(one.severity, one.mend) for one in findings] == [("warning", "UseTaskStartTimeForFullLoadTimestamp=true at the DMS endpoint")] * late


# Values


@pytest.mark.parametrize(
    "lengths, cut",
    [((32768, 32768, 5), "32,768 bytes (32 KB)"), ((65536, 65536), "64 KB"), ((32768, 5), ""), ((32767, 32767), ""), ((40000, 32768, 32768), "")],
)
@pytest.mark.parametrize("letter", ["x", b"x"], ids=["text", "bytes"])
def test_longest_values_of_one_round_length_were_cut(tmp_path, lengths, cut, letter):
    findings = about(said(tmp_path, {LOAD: {"id": [*range(len(lengths))], "body": [letter * n for n in lengths]}}), "LobMaxSize")
    assert bool(findings) == bool(cut)
    assert all(one.severity == "warning" and cut in one.what and "column body" in one.what for one in findings)


def test_a_text_is_cut_in_characters_too(tmp_path):
    [one] = about(said(tmp_path, {LOAD: {"id": [1, 2], "body": ["é" * 1024, "ü" * 1023 + "x"]}}), "LobMaxSize")
    assert "1,024 characters" in one.what


@pytest.mark.parametrize("digits, mend", [((28, 6), "MapUnboundedNumericAsString"), ((38, 10), "NumberDatatypeScale")])
@pytest.mark.parametrize("value, severity", [("1001", "note"), ("-7", "note"), ("0.{}1", "warning"), ("0.5", "")])
def test_numbers_without_a_scale(tmp_path, digits, mend, value, severity):
    values = pa.array([Decimal(value.format("0" * (digits[1] - 1))), None, Decimal(3)], pa.decimal128(*digits))
    findings = about(said(tmp_path, {LOAD: {"id": [1, 2, 3], "amount": values}}), "column amount")
    assert [one.severity for one in findings] == [severity] * bool(severity)
    assert all(mend in one.mend for one in findings)


def test_a_number_of_38_digits_is_no_trouble(tmp_path):
    def severity(end: str) -> list[str]:
        values = pa.array([Decimal("9" * 28 + "." + end), Decimal("-" + "9" * 28)], pa.decimal128(38, 10))
        return [one.severity for one in about(said(tmp_path, {LOAD: {"id": [1, 2], "amount": values}}), "amount|ended with")]

    assert severity("0" * 10) == ["note"] and severity("9" * 10) == ["warning"]


def test_other_decimals_are_not_looked_at(tmp_path):
    assert said(tmp_path, {LOAD: {"id": [1], "amount": pa.array([Decimal(3)], pa.decimal128(28, 4))}}) == []


def test_times_of_day_and_values_out_of_range(tmp_path):
    columns = {
        "opens": pa.array([time(10, 2)], pa.time32("ms")),
        "old": [date(1582, 10, 14)],
        "young": [date(1582, 10, 15)],
        "early": pa.array([datetime(1899, 12, 30)], pa.timestamp("us")),
        "late": pa.array([253_402_300_800_000], pa.timestamp("ms", "UTC")),
    }
    findings = about(said(tmp_path, {LOAD: {"id": [1], **columns}}), "column (opens|old|young|early|late)")
    assert {re.search(r"column (\w+)", one.what)[1]: one.severity for one in findings} == {
        "opens": "note",
        "old": "note",
        "early": "note",
        "late": "warning",
    }


# Columns


def test_columns_that_come_are_a_note_and_those_that_go_a_warning(tmp_path):
    files = {LOAD: {"id": [1], "name": ["a"]}, FIRST: {"Op": ["I"], "id": [2], "stock": [5]}}
    assert {one.severity: one.what for one in about(said(tmp_path, files), "column (name|stock)")} == {
        "note": f"column stock bigint added by {FIRST}",
        "warning": f"column name is absent from {FIRST}; rows keep the values they have",
    }


def test_a_column_of_another_type_is_what_the_loader_would_refuse(tmp_path):
    [one] = about(said(tmp_path, {LOAD: {"id": [1]}, FIRST: {"Op": ["I"], "id": ["two"]}}), "column id")
    assert one.severity == "error" and FIRST in one.what and "dmscdc table rewind shop.item --reload" in one.mend


def test_a_wider_column_is_a_note(tmp_path):
    files = {LOAD: {"id": pa.array([1], pa.int32())}, FIRST: {"Op": ["I"], "id": pa.array([2], pa.int64())}}
    assert [one.severity for one in about(said(tmp_path, files), "widened from int to bigint")] == ["note"]


# Zones


def in_zone(home: Path, hours: float, count: int = 4) -> list[Finding]:
    "What is said of files that were put a second after their names, in a zone."
    start = datetime(2018, 12, 15, 10, tzinfo=timezone.utc)
    stamps = [start + timedelta(minutes=7 * n) for n in range(count)]
    put(home, {f"{at:%Y/%m/%d/%Y%m%d-%H%M%S}000.parquet": changed(name=["a"]) for at in stamps})
    for at in stamps:
        was = at.timestamp() - hours * 3600 + 1
        os.utime(home / f"landing/shop/item/{at:%Y/%m/%d/%Y%m%d-%H%M%S}000.parquet", (was, was))
    return about(said(home), "DatePartitionTimezone")


@pytest.mark.parametrize("hours, zone", [(0, ""), (1, "+1 h"), (-5, "-5 h"), (5.75, "+5.75 h")])
def test_names_ahead_of_the_times_at_which_their_files_were_put_are_in_a_zone(tmp_path, hours, zone):
    assert [one.what for one in in_zone(tmp_path, hours)] == ([f"names of change files differ from UTC by {zone}"] if zone else [])


def test_files_that_were_copied_have_no_zone(tmp_path):
    put(tmp_path, {f"2018/12/15/20181215-10{n:02d}00000.parquet": changed(name=["a"]) for n in (1, 17, 22)})
    for path in (tmp_path / "landing").rglob("*.parquet"):
        os.utime(path, (LOADED + 12_345, LOADED + 12_345))
    assert not about(said(tmp_path), "DatePartitionTimezone")


def test_a_zone_with_daylight_saving_shows_two_shifts(tmp_path):
    put(tmp_path, {f"20181028/20181028-02{minute}00000.parquet": changed(name=["a"]) for minute in (30, 40, 50)})
    for minute, hours in ((30, 2), (40, 2), (50, 1)):
        at = datetime(2018, 10, 28, 2 - hours, minute, 1, tzinfo=timezone.utc).timestamp()
        os.utime(tmp_path / f"landing/shop/item/20181028/20181028-02{minute}00000.parquet", (at, at))
    [one] = about(said(tmp_path), "DatePartitionTimezone")
    assert one.severity == "warning" and one.what.endswith("+1 h and +2 h: daylight saving")


@pytest.mark.parametrize(
    "folder, odd",
    [
        ("2018/12/16", True),
        ("2018-12-16", True),
        ("20181216", True),
        ("2018/12/16/01", True),
        ("2018/12/15", False),
        ("2018/12/15/23", False),
        ("2018/12/14", False),
    ],
)
def test_a_folder_that_begins_after_its_file_was_closed_is_in_another_zone(tmp_path, folder, odd):
    findings = about(said(tmp_path, {f"{folder}/20181215-233011204.parquet": changed(name=["a"])}), "named earlier than its folder")
    assert len(findings) == odd


# Two tasks, strangers, clock


def test_one_name_in_two_folders_is_from_two_tasks(tmp_path):
    [one] = about(said(tmp_path, {f"{day}/{FIRST}": changed(name=["a"]) for day in ("20181215", "20181216")}), "Two DMS tasks")
    assert one.severity == "warning" and one.what == f"20181215/{FIRST} and 20181216/{FIRST} have one name"


def test_two_formats_in_one_table_are_from_two_tasks(tmp_path):
    assert (
        "its files are csv and parquet"
        in about(said(tmp_path, {LOAD: {"id": [1]}, "20181215-100311204.csv": "Op,id\nI,2\n"}), "Two DMS tasks")[0].what
    )


@pytest.mark.parametrize("sequences, mixed", [((10, 30, 20, 40, 25, 50), True), ((10, 20, 30, 40, 50, 60), False)])
def test_changes_that_go_back_more_than_once_are_from_two_tasks(tmp_path, sequences, mixed):
    files = {f"20181215-1{n:02d}311204.parquet": changed(AR_H_CHANGE_SEQ=[f"20181215{n:027d}"]) for n in sequences}
    ordered = {f"20181215-100{n}11204.parquet": rows for n, rows in enumerate(files.values())}
    assert bool(about(said(tmp_path, ordered), "changes go back in")) == mixed


@pytest.mark.parametrize("steps, mixed", [((17, 43) * 4, True), ((60,) * 8, False), ((60, 75, 90, 61, 70, 64, 88, 60), False)])
def test_names_in_two_series_that_alternate_are_from_two_tasks(tmp_path, steps, mixed):
    at, files = datetime(2018, 12, 15, 10), {}
    for step in (0, *steps):
        at += timedelta(seconds=step)
        files[f"{at:%Y%m%d-%H%M%S}204.parquet"] = changed(name=["a"])
    assert bool(about(said(tmp_path, files), "two series that alternate")) == mixed


def test_files_that_dms_does_not_write_are_named(tmp_path):
    findings = said(tmp_path, {LOAD: {"id": [1]}, f"old/{FIRST}": changed(name=["a"]), "readme.txt": "hello"})
    assert [(one.severity, "readme.txt" in one.what) for one in about(findings, "other names")] == [("note", True)]
    assert [(one.severity, f"old/{FIRST}" in one.what) for one in about(findings, "where DMS does not write")] == [("warning", True)]


def test_a_file_from_the_future_is_a_clock_that_is_wrong(tmp_path):
    put(tmp_path, {LOAD: {"id": [1]}})
    now = (tmp_path / "landing/shop/item" / LOAD).stat().st_mtime
    config = settings_of(tmp_path)
    assert [len(about(doctor(config, now=now - behind, machine=laptop(config)), "in the future of this machine")) for behind in (3600, 10)] == [1, 0]


def test_what_a_plan_leaves_to_a_person_is_a_finding(tmp_path):
    files = {"LOAD00000001.parquet": {"id": [1]}, "LOAD00000002.parquet": {"id": [2]}}
    put(tmp_path, files)
    os.utime(tmp_path / "landing/shop/item/LOAD00000002.parquet", (LOADED - 86_400,) * 2)
    [one] = about(said(tmp_path), "belongs to an earlier load")
    assert one.severity == "warning"


# Settings of DMS

TASK = {
    "TargetMetadata": {"SupportLobs": True, "LobMaxSize": 0, "BatchApplyEnabled": False},
    "FullLoadSettings": {"TargetTablePrepMode": "DROP_AND_CREATE"},
}
ENDPOINT = {"DataFormat": "parquet", "TimestampColumnName": "dms_ts", "UseTaskStartTimeForFullLoadTimestamp": True}
RULES = [{"rule-action": "add-column", "expression": "$AR_H_CHANGE_SEQ"}, {"rule-action": "add-before-image-columns"}]


def endpoint(**settings: Any) -> dict:
    return {
        "Endpoints": [
            {"EndpointIdentifier": "source", "EngineName": "mysql"},
            {"EndpointIdentifier": "lake", "EngineName": "s3", "S3Settings": ENDPOINT | settings},
        ]
    }


def task(rules: Any = RULES, **groups: dict) -> dict:
    "As `aws dms describe-replication-tasks` prints it: JSON in JSON."
    merged = {name: {**TASK.get(name, {}), **groups.get(name, {})} for name in {*TASK, *groups}}
    return {
        "ReplicationTasks": [
            {"ReplicationTaskIdentifier": "shop", "ReplicationTaskSettings": json.dumps(merged), "TableMappings": json.dumps({"rules": rules})}
        ]
    }


@pytest.mark.parametrize(
    "told, severity, words",
    [
        (task(TargetMetadata={"BatchApplyEnabled": True}), "error", "task shop: BatchApplyEnabled is true"),
        (task(FullLoadSettings={"TargetTablePrepMode": "DO_NOTHING"}), "warning", "task shop: TargetTablePrepMode is DO_NOTHING"),
        (task(TargetMetadata={"LobMaxSize": 32}), "warning", "task shop: LobMaxSize is 32 KB"),
        (task(TargetMetadata={"SupportLobs": False}), "warning", "task shop: SupportLobs is false"),
        (task(TargetMetadata={"FullLobMode": True}), "warning", "task shop: FullLobMode is true"),
        (task(BeforeImageSettings={"EnableBeforeImage": True}), "warning", "task shop: BeforeImageSettings are on"),
        (task(ErrorBehavior={"DataErrorPolicy": "LOG_ERROR"}), "note", "task shop: DataErrorPolicy is LOG_ERROR"),
        (task(rules=RULES[1:]), "note", "task shop: no rule adds AR_H_CHANGE_SEQ"),
        (task(rules=RULES[:1]), "note", "task shop: no rule adds before images"),
        (endpoint(PreserveTransactions=True), "note", "endpoint lake: PreserveTransactions is true"),
        (endpoint(CdcInsertsOnly=True), "warning", "endpoint lake: CdcInsertsOnly is true"),
        (endpoint(CdcInsertsAndUpdates=True), "warning", "endpoint lake: CdcInsertsAndUpdates is true"),
        (endpoint(TimestampColumnName=""), "note", "endpoint lake: TimestampColumnName is not set"),
        (endpoint(UseTaskStartTimeForFullLoadTimestamp=False), "warning", "UseTaskStartTimeForFullLoadTimestamp is not set"),
        (endpoint(DatePartitionEnabled=True, DatePartitionTimezone="Europe/Berlin"), "warning", "DatePartitionTimezone is Europe/Berlin"),
        (endpoint(DataFormat="csv"), "note", "endpoint lake: files are CSV without names of columns"),
        (endpoint(DataFormat="csv", Rfc4180=False, AddColumnName=True), "warning", "endpoint lake: Rfc4180 is false"),
    ],
)
def test_each_setting_that_hurts_is_named(tmp_path, told, severity, words):
    [one] = about(said(tmp_path, {LOAD: {"id": [1]}}, told=told), "^(error|warning|note) (task|endpoint) ")
    assert one.severity == severity and words in str(one) and one.mend


@pytest.mark.parametrize(
    "told",
    [task(), endpoint(), endpoint(DatePartitionEnabled=True, DatePartitionTimezone="Asia/Tokyo"), endpoint(DatePartitionTimezone="Europe/Berlin")],
)
def test_settings_that_do_not_hurt_are_not_mentioned(tmp_path, told):
    assert said(tmp_path, {LOAD: {"id": [1]}}, told=told) == []


@pytest.mark.parametrize(
    "told",
    [
        {"Endpoint": {"EndpointIdentifier": "lake", "S3Settings": {"CdcInsertsOnly": True}}},
        {"EngineName": "s3", "ExtraConnectionAttributes": "dataFormat=parquet;cdcInsertsOnly=true;"},
        {"DataFormat": "parquet", "CdcInsertsOnly": True},
        [endpoint(CdcInsertsOnly=True), task()],
    ],
)
def test_every_way_to_print_an_endpoint_is_read(tmp_path, told):
    assert about(said(tmp_path, {LOAD: {"id": [1]}}, told=told), "CdcInsertsOnly is true")


@pytest.mark.parametrize(
    "text, words", [("{", "JSON was expected"), ("{}", "holds no settings of a DMS endpoint"), ("[1]", "holds no settings"), (None, "No such file")]
)
def test_a_file_without_settings_is_wrong_use(tmp_path, text, words):
    put(tmp_path, {LOAD: {"id": [1]}})
    path = tmp_path / "dms.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(BadSetting, match=words):
        doctor(settings_of(tmp_path), settings=[path], machine=laptop(settings_of(tmp_path)))


# The machine


def on(home: Path, config: Config | None = None, **machine: Any) -> list[Finding]:
    put(home, {LOAD: {"id": [1]}})
    open_state(f"sqlite:{home / 'state.db'}").put_settings(TableRef("shop", "item"), key="id")
    config = config or settings_of(home)
    return doctor(config, machine=replace(laptop(config), **machine))


@pytest.mark.parametrize(
    "machine, place, severity",
    [
        ({"java": ""}, "this machine", "error"),
        ({"java": 'java version "1.8.0_392"'}, "this machine", "error"),
        ({"java": 'openjdk version "25" 2025-09-16'}, "this machine", "warning"),
        ({"java": 'openjdk version "11.0.2"'}, "this machine", "error"),
        ({"java": 'java version "1.8.0_392"', "spark": "3.5.5"}, "", ""),
        ({"spark": ""}, "this machine", "error"),
        ({"free": 10 * GB, "landed": 6 * GB}, "lake", "warning"),
        ({"free": 12 * GB, "landed": 6 * GB}, "", ""),
        ({"free": None, "landed": 6 * GB}, "", ""),
        ({"memory": 2 * GB}, "driver_memory", "error"),
        ({"memory": 0}, "", ""),
        ({"memory": 2 * GB, "java": None}, "", ""),
        ({"ahead": 400.0}, "this machine", "warning"),
        ({"ahead": -400.0}, "this machine", "warning"),
        ({"ahead": 5.0}, "", ""),
        ({}, "", ""),
    ],
)
def test_what_the_machine_lacks(tmp_path, machine, place, severity):
    assert [(one.place, one.severity) for one in on(tmp_path, **machine)] == [(place, severity)] * bool(place)


@pytest.mark.parametrize(
    "text, number",
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023', 21),
        ("no Java", 0),
    ],
)
def test_versions_of_java(text, number):
    assert java_version(text) == number


def test_a_format_whose_parts_are_missing(tmp_path):
    [one] = on(tmp_path, replace(settings_of(tmp_path), format="dbase"))
    assert (one.severity, one.place) == ("error", "format") and "dbase is not installed" in one.what


@pytest.mark.parametrize(
    "name, place, severity",
    [("lake", "landing/lake", "error"), ("runs", "landing/runs", "warning"), ("archive", "landing/old", "error"), ("lake", ".", "error")],
)
def test_places_of_ours_in_the_landing(tmp_path, name, place, severity):
    config = replace(settings_of(tmp_path), **{name: str(tmp_path / place)})
    [one] = [one for one in on(tmp_path, config) if one.place == name]
    assert one.severity == severity


def test_no_right_is_tried_in_the_landing(tmp_path):
    put(tmp_path, {LOAD: {"id": [1]}})
    config = replace(
        settings_of(tmp_path),
        **{name: str(tmp_path / "landing" / name) for name in ("lake", "runs")},
        state=f"sqlite:{tmp_path / 'landing/state/state.db'}",
    )
    os.utime(tmp_path / "landing", (LOADED, LOADED))
    assert list(rights(laptop(config))) == [] and (tmp_path / "landing").stat().st_mtime == LOADED  # no name came or went


# Rights are tried


def test_rights_are_tried_and_nothing_stays(tmp_path):
    assert on(tmp_path) == [] and sorted(path.name for path in tmp_path.iterdir()) == ["landing", "state.db"]


@pytest.mark.parametrize(
    "mode, owner, what",
    [(0o777, -1, "everybody may write there"), (0o700, 65534, "it belongs to another user (number 65534)"), (0o755, -1, "")],
    ids=["everybody", "another", "ours"],
)
def test_a_place_that_others_own_or_may_write_into_is_told(tmp_path, mode, owner, what):
    if owner > 0 and os.getuid():
        pytest.skip("only root gives a folder away")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake").chmod(mode)
    os.chown(tmp_path / "lake", owner, owner)
    assert [(one.severity, one.place, one.what.rpartition(": ")[2]) for one in on(tmp_path)] == [("warning", "lake", what)] * bool(what)


def test_a_lake_where_nothing_can_be_written_is_an_error(tmp_path):
    (tmp_path / "lake").write_text("a file, not a folder")
    [one] = on(tmp_path)
    assert (one.severity, one.place) == ("error", "lake") and "cannot be written: Not a directory" in one.what


def test_a_refusal_of_the_system_is_said_as_it_is(tmp_path, monkeypatch):
    def refused(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied", "there")

    config = settings_of(tmp_path)
    monkeypatch.setattr("tempfile.NamedTemporaryFile", refused)
    assert [(one.place, "Permission denied" in one.what) for one in rights(laptop(config))] == [("lake", True), ("runs", True), ("state", True)]
    assert sorted(path.name for path in tmp_path.iterdir()) == []


def test_a_state_that_is_no_database_is_an_error(tmp_path):
    (tmp_path / "state.db").write_bytes(b"garbage " * 512)
    config = settings_of(tmp_path)
    put(tmp_path, {LOAD: {"id": [1]}})
    found = [one for one in doctor(config, machine=laptop(config)) if one.place == "state"]
    assert found and all(one.severity == "error" for one in found) and "is damaged" in found[0].what


def test_a_state_that_somebody_writes_is_tried_without_a_change(tmp_path):
    assert on(tmp_path) == []
    with sqlite3.connect(tmp_path / "state.db") as db:
        before = db.execute("select count(*) from sqlite_master").fetchone()
    assert on(tmp_path) == []
    with sqlite3.connect(tmp_path / "state.db") as db:
        assert db.execute("select count(*) from sqlite_master").fetchone() == before


# The whole


def test_nothing_is_written_and_nothing_in_the_landing_is_touched(tmp_path):
    put(tmp_path, {LOAD: {"id": [1]}, FIRST: changed(name=["a"]), "readme.txt": "hello"})

    def state() -> dict:
        return {str(path.relative_to(tmp_path)): (path.stat().st_mtime, path.stat().st_size) for path in tmp_path.rglob("*") if path.is_file()}

    before, config = state(), settings_of(tmp_path)
    assert doctor(config, machine=laptop(config)) and state() == before


def test_tables_that_are_left_out_are_not_examined_and_unknown_ones_are_refused(tmp_path):
    for table in ("item", "other"):
        put(tmp_path, {LOAD: {"id": [1]}}, table)
    config = settings_of(tmp_path, exclude="shop.o*")
    assert {one.place for one in doctor(config, machine=laptop(config))} == {"shop.item"}
    with pytest.raises(UnknownTable, match="no table shop.nowhere"):
        doctor(config, ["shop.nowhere"], machine=laptop(config))


def test_an_empty_landing_is_an_error_and_the_machine_is_examined_all_the_same(tmp_path):
    config = settings_of(tmp_path)
    found = doctor(config, machine=replace(laptop(config), java=""))
    assert {(one.severity, one.place) for one in found} == {("error", "landing"), ("error", "this machine")} and "no files of DMS" in str(found)


@pytest.mark.parametrize(
    "place",
    [
        "CDC_TXN-20201117153046033.csv",
        "cdc/CDC_TXN-20201117153046033.csv",
        "changes/cdc/CDC_TXN-20201117153046033.csv",
        "shop/item/CDC_TXN-20201117153046033.csv",
    ],
)
def test_mixed_files_of_transactions_beside_the_tables_are_an_error(tmp_path, place):
    path = tmp_path / "landing" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("U,item,shop,1\n")
    [one] = about(said(tmp_path, {LOAD: {"id": [1]}}), "^error landing")
    assert one.what.startswith(place) and one.mend == (
        f"dmscdc pass --transactions {place.rpartition('/')[0]}"
        if "/" in place
        else "the setting transactions names its folder, and it is divided among its tables"
    )


def test_a_check_that_fails_does_not_end_the_others(tmp_path, monkeypatch):
    def odd(evidence: Any) -> list:
        raise KeyError("of a file like no other")

    monkeypatch.setattr("dmscdc.doctor.diagnosis.TABLE_CHECKS", [odd, *__import__("dmscdc.doctor.table_checks", fromlist=["x"]).TABLE_CHECKS])
    found = said(tmp_path, {LOAD: {"id": [1]}, FIRST: b"PAR1"})
    assert about(found, "the check odd ended with KeyError") and about(found, "not a complete Parquet file")


def dmscdc(home: Path, *words: str) -> Any:
    "The command, as on a machine whose Spark is elsewhere."
    return CliRunner().invoke(
        app,
        ["doctor", *words, "--folder", str(home), "--landing", str(home / "landing"), "--lake", str(home / "lake")],
        env={"SPARK_REMOTE": "sc://host:15002"},
    )


def test_the_command_prints_one_finding_a_line_and_what_they_are_together(tmp_path):
    put(tmp_path, {LOAD: {"id": [1, 2]}})
    done = dmscdc(tmp_path)
    *lines, last = done.output.strip().splitlines()
    assert done.exit_code == 3 and last == "1 warning" and len(lines) == 1
    assert lines[0].startswith("warning shop.item: its key is not known") and lines[0].endswith("Fix: dmscdc table set shop.item --key id")


def test_the_command_ends_with_0_for_notes_alone(tmp_path):
    put(tmp_path, {LOAD: {"id": [1, 2]}, FIRST: changed(name=["a"])})
    open_state(f"sqlite:{tmp_path / 'state.db'}", str(tmp_path / "landing")).put_settings(TableRef("shop", "item"), key="id")
    done = dmscdc(tmp_path)
    assert (done.exit_code, done.output.strip().splitlines()[-1]) == (0, "2 notes")


def test_the_command_for_programs(tmp_path):
    put(tmp_path, {LOAD: {"id": [1, 2]}})
    (tmp_path / "task.json").write_text(json.dumps(task(TargetMetadata={"BatchApplyEnabled": True})))
    done = dmscdc(tmp_path, "--json", "--settings", str(tmp_path / "task.json"))
    rows = json.loads(done.output)
    assert done.exit_code == 3 and [row["severity"] for row in rows] == ["error", "warning"]
    assert all(set(row) == {"severity", "place", "what", "why", "mend"} and all(row.values()) for row in rows)


@pytest.mark.parametrize("words", [("--settings", "no.json"), ("--only", "shop.nowhere"), ("--only", "itm")])
def test_what_is_typed_wrongly_ends_with_2(tmp_path, words):
    put(tmp_path, {LOAD: {"id": [1, 2]}})
    done = dmscdc(tmp_path, *words)
    assert done.exit_code == 2 and "error" in done.output


OF_DMS = {
    "ReplicationTaskIdentifier": "shop",
    "ReplicationTaskArn": "arn:aws:dms:eu-west-1:111122223333:task:SHOP",
    "TargetEndpointArn": "arn:aws:dms:eu-west-1:111122223333:endpoint:LAKE",
    "Status": "running",
    "ReplicationTaskSettings": json.dumps({"TargetMetadata": {"BatchApplyEnabled": True}}),
}
COUNTS = {"SchemaName": "shop", "TableName": "item", "FullLoadRows": 2, "Inserts": 0, "Updates": 1, "Deletes": 0, "TableState": "Table completed"}


def of_dms(monkeypatch, counts: list[dict] | None, endpoint: dict | None, **task: Any) -> None:
    "DMS as botocore knows its answers; None is not allowed."
    import boto3
    from botocore.stub import Stubber

    dms = boto3.client("dms", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")
    stub = Stubber(dms)
    stub.add_response(
        "describe_replication_tasks", {"ReplicationTasks": [OF_DMS | task]}, {"Filters": [{"Name": "replication-task-id", "Values": ["shop"]}]}
    )
    if endpoint is None:
        stub.add_client_error("describe_endpoints", "AccessDeniedException")
    else:
        stub.add_response("describe_endpoints", {"Endpoints": [{"EndpointIdentifier": "lake", "EngineName": "s3", "S3Settings": endpoint}]})
    if counts is None:
        stub.add_client_error("describe_table_statistics", "AccessDeniedException")
    for number, one in enumerate(counts or ()):
        stub.add_response("describe_table_statistics", {"TableStatistics": [one], **({"Marker": "more"} if number < len(counts) - 1 else {})})
    stub.activate()
    monkeypatch.setattr("dmscdc.doctor.running_task.client", lambda name: dms)


def task_says(home: Path, *words: str) -> tuple[int, str]:
    put(home, {LOAD: {"id": [1, 2]}, FIRST: {"Op": ["U"], "id": [1]}})
    (home / "dmscdc.toml").write_text('landing = "landing"\nlake = "lake"\n')
    done = CliRunner().invoke(app, ["doctor", "--task", "shop", "--folder", str(home), *words])
    return done.exit_code, " ".join(done.output.split())


def test_a_running_task_is_asked_for_settings_and_counts_which_the_landing_bears_out(tmp_path, monkeypatch):
    of_dms(monkeypatch, [COUNTS], {"BucketName": "b", "DataFormat": "parquet", "CdcInsertsOnly": True})
    code, said = task_says(tmp_path)
    assert code == 3 and "error task shop: BatchApplyEnabled is true" in said and "warning endpoint lake: CdcInsertsOnly is true" in said
    assert "DMS has" not in said and "DMS counts" not in said and "DMS says" not in said


@pytest.mark.parametrize(
    "counts, task, words",
    [
        ([COUNTS | {"FullLoadRows": 5}], {}, "warning shop.item: DMS has loaded 5 rows, the load files here have 2"),
        ([COUNTS, COUNTS | {"TableName": "other"}], {}, "error shop.other: DMS has written 3 rows, and no file lies here"),
        ([COUNTS | {"TableState": "Table error", "FullLoadErrorRows": 1}], {}, "error shop.item: DMS could not load 1 row"),
        ([COUNTS | {"Ddls": 2}], {}, "note shop.item: DMS has seen 2 statements that changed the table itself"),
        ([COUNTS], {"Status": "failed", "LastFailureMessage": "out of storage"}, "warning task shop: the task is failed: out of storage"),
        (None, {}, "note task shop: DescribeTableStatistics has not answered: An error occurred (AccessDeniedException)"),
    ],
)
def test_what_dms_counts_and_the_landing_does_not_bear_out_is_said(tmp_path, monkeypatch, counts, task, words):
    of_dms(monkeypatch, counts, None, **task)
    code, said = task_says(tmp_path)
    assert (
        words in said
        and "note task shop: DescribeEndpoints has not answered" in said
        and "Fix: a policy with dms:DescribeEndpoints" in said
        and code == 3
    )


def test_a_task_for_changes_alone_and_a_state_that_we_do_not_know_are_no_trouble(tmp_path, monkeypatch):
    of_dms(monkeypatch, [COUNTS | {"FullLoadRows": 0}, COUNTS | {"TableState": "Table is being reloaded", "FullLoadRows": 1}], None)
    said = task_says(tmp_path)[1]
    assert "DMS has" not in said and "DMS says" not in said


def test_without_a_region_or_credentials_the_doctor_says_so(tmp_path, monkeypatch):
    from botocore.exceptions import NoCredentialsError, NoRegionError

    for error in (NoRegionError(), NoCredentialsError()):

        def no_client(name: str, error=error):
            raise error

        monkeypatch.setattr("dmscdc.doctor.running_task.client", no_client)
        code, said = task_says(tmp_path)
        assert code == 2 and "DMS was asked for the task shop and answers" in said and "Traceback" not in said


def test_of_chosen_tables_only_these_are_compared(tmp_path, monkeypatch):
    of_dms(monkeypatch, [COUNTS, COUNTS | {"TableName": "other"}], None, ReplicationTaskSettings="{}")
    assert "shop.other" not in task_says(tmp_path, "--only", "shop.item")[1]
