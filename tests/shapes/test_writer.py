"The stand-in's files byte by byte, beside text that was written by hand from what is known of DMS, and the settings of real endpoints."

from __future__ import annotations

import gzip
import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from botocore.session import get_session

from dmscdc.capture.settings import API, CHOICES, NOT_WRITTEN, SHAPELESS, DmsSettings, settings_from_json
from dmscdc.capture.writer import typed_rows, write_changes, write_load, write_load_set, write_transactions
from dmscdc.errors import BadSetting

pytestmark = pytest.mark.quick

T = "sampledb.product"
PRODUCT = {"id": "int", "name": "string", "price": "decimal(10,2)"}
LOAD = [(1001, "Fire 7", "39.00"), (1002, 'Fire "HD", 8', None)]
CHANGES = [("I", 1004, "Mug", "7.50"), ("U", 2003, "Tent", "119.00"), ("D", 1002, "Fire HD 8", "89.00")]
CLOSED, BEGUN = datetime(2018, 12, 15, 10, 3, 11, 204000), datetime(2018, 12, 14, 9, 15, 2, 118334)
OLD = [None, (1003, "Tent", "110.00"), None]


def load_text(root: Path, **settings) -> str:
    return write_load(root, T, LOAD, PRODUCT, settings=DmsSettings(data_format="csv", **settings), moment=BEGUN, key=["id"]).read_bytes().decode()


def change_text(root: Path, **settings) -> str:
    return write_changes(root, T, CHANGES, CLOSED, PRODUCT, DmsSettings(data_format="csv", **settings), key=["id"], before=OLD).read_bytes().decode()


@pytest.mark.parametrize(
    "settings, load, changes",
    [
        ({}, '1001,Fire 7,39.00\n1002,"Fire ""HD"", 8",\n', "I,1004,Mug,7.50\nU,2003,Tent,119.00\nD,1002,Fire HD 8,89.00\n"),
        (
            {"include_op_for_full_load": True},
            'I,1001,Fire 7,39.00\nI,1002,"Fire ""HD"", 8",\n',
            "I,1004,Mug,7.50\nU,2003,Tent,119.00\nD,1002,Fire HD 8,89.00\n",
        ),
        ({"cdc_inserts_only": True}, '1001,Fire 7,39.00\n1002,"Fire ""HD"", 8",\n', "1004,Mug,7.50\n"),
        ({"cdc_inserts_only": True, "include_op_for_full_load": True}, 'I,1001,Fire 7,39.00\nI,1002,"Fire ""HD"", 8",\n', "I,1004,Mug,7.50\n"),
        ({"cdc_inserts_and_updates": True}, '1001,Fire 7,39.00\n1002,"Fire ""HD"", 8",\n', "I,1004,Mug,7.50\nU,2003,Tent,119.00\n"),
        ({"key_only_deletes": True}, '1001,Fire 7,39.00\n1002,"Fire ""HD"", 8",\n', "I,1004,Mug,7.50\nU,2003,Tent,119.00\nD,1002,,\n"),
        (
            {"before_image": "pk-only"},
            '1001,Fire 7,39.00,\n1002,"Fire ""HD"", 8",,\n',
            "I,1004,Mug,7.50,\nU,2003,Tent,119.00,1003\nD,1002,Fire HD 8,89.00,\n",
        ),
        (
            {"before_image": "all"},
            '1001,Fire 7,39.00,,,\n1002,"Fire ""HD"", 8",,,,\n',
            "I,1004,Mug,7.50,,,\nU,2003,Tent,119.00,1003,Tent,110.00\nD,1002,Fire HD 8,89.00,,,\n",
        ),
        (
            {"before_image": "all", "key_only_deletes": True},
            '1001,Fire 7,39.00,,,\n1002,"Fire ""HD"", 8",,,,\n',
            "I,1004,Mug,7.50,,,\nU,2003,Tent,119.00,1003,,\nD,1002,,,,,\n",
        ),
        (
            {"timestamp_column": "ts"},
            '2018-12-14 09:15:02.118334,1001,Fire 7,39.00\n2018-12-14 09:15:02.118335,1002,"Fire ""HD"", 8",\n',
            "I,2018-12-15 10:02:11.204000,1004,Mug,7.50\nU,2018-12-15 10:02:11.204000,2003,Tent,119.00\nD,2018-12-15 10:02:11.204000,1002,Fire HD 8,89.00\n",
        ),
        (
            {"timestamp_column": "ts", "use_task_start_time": True},
            '2018-12-14 09:15:02.118334,1001,Fire 7,39.00\n2018-12-14 09:15:02.118334,1002,"Fire ""HD"", 8",\n',
            "I,2018-12-15 10:02:11.204000,1004,Mug,7.50\nU,2018-12-15 10:02:11.204000,2003,Tent,119.00\nD,2018-12-15 10:02:11.204000,1002,Fire HD 8,89.00\n",
        ),
        (
            {"sequence_column": "seq", "before_image": "pk-only"},
            '1001,Fire 7,39.00,"",\n1002,"Fire ""HD"", 8",,"",\n',
            "I,1004,Mug,7.50,20181215100211200000000000000000001,\nU,2003,Tent,119.00,20181215100211200000000000000000002,1003\n"
            "D,1002,Fire HD 8,89.00,20181215100211200000000000000000003,\n",
        ),
        (
            {"add_column_name": True, "before_image": "pk-only"},
            'id,name,price,BI_id\n1001,Fire 7,39.00,\n1002,"Fire ""HD"", 8",,\n',
            "Op,id,name,price,BI_id\nI,1004,Mug,7.50,\nU,2003,Tent,119.00,1003\nD,1002,Fire HD 8,89.00,\n",
        ),
        (
            {"csv_delimiter": ";", "csv_row_delimiter": "\r", "csv_null_value": "NULL"},
            '1001;Fire 7;39.00\r1002;"Fire ""HD"", 8";NULL\r',
            "I;1004;Mug;7.50\rU;2003;Tent;119.00\rD;1002;Fire HD 8;89.00\r",
        ),
        ({"rfc4180": False}, '1001,Fire 7,39.00\n1002,Fire "HD", 8,\n', "I,1004,Mug,7.50\nU,2003,Tent,119.00\nD,1002,Fire HD 8,89.00\n"),
    ],
    ids=lambda given: "+".join(given) if isinstance(given, dict) else "",
)
def test_each_setting_gives_these_bytes(tmp_path, settings, load, changes):
    assert load_text(tmp_path, **settings) == load and change_text(tmp_path, **settings) == changes


def test_line_ends_are_written_as_they_are_set(tmp_path):
    path = write_load(tmp_path, T, LOAD, PRODUCT, settings=DmsSettings(data_format="csv", csv_row_delimiter="\r\n"))
    assert path.read_bytes() == b'1001,Fire 7,39.00\r\n1002,"Fire ""HD"", 8",\r\n'


@pytest.mark.parametrize(
    "settings, folder",
    [
        ({}, ""),
        ({"bucket_folder": "/raw/shop/"}, "raw/shop/"),
    ],
)
def test_the_bucket_folder_stands_above_the_schema(tmp_path, settings, folder):
    load = write_load(tmp_path, T, LOAD, PRODUCT, settings=DmsSettings(**settings))
    changes = write_changes(tmp_path, T, CHANGES, CLOSED, PRODUCT, DmsSettings(**settings))
    transactions = write_transactions(tmp_path, "/cdc/", [], CLOSED, DmsSettings(**settings))
    assert [p.relative_to(tmp_path).as_posix() for p in (load, changes, transactions)] == [
        f"{folder}sampledb/product/LOAD00000001.parquet",
        f"{folder}sampledb/product/20181215-100311204.parquet",
        f"{folder}cdc/CDC_TXN-20181215100311204.csv",
    ]
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == sorted([load, changes, transactions])


FOLDERS = {
    "YYYYMMDD": ["2018/12/15", "2018-12-15", "2018_12_15", "20181215"],
    "YYYYMMDDHH": ["2018/12/15/23", "2018-12-15-23", "2018_12_15_23", "2018121523"],
    "YYYYMM": ["2018/12", "2018-12", "2018_12", "201812"],
    "MMYYYYDD": ["12/2018/15", "12-2018-15", "12_2018_15", "12201815"],
    "DDMMYYYY": ["15/12/2018", "15-12-2018", "15_12_2018", "15122018"],
}


@pytest.mark.parametrize("sequence", FOLDERS)
def test_a_change_lies_in_the_folder_of_its_commit_and_is_named_by_its_close(tmp_path, sequence):
    for delimiter, folder in zip(("SLASH", "DASH", "UNDERSCORE", "NONE"), FOLDERS[sequence]):
        settings = DmsSettings(data_format="csv", date_partition=True, date_partition_sequence=sequence, date_partition_delimiter=delimiter)
        path = write_changes(tmp_path, T, CHANGES, datetime(2018, 12, 16, 0, 0, 30), PRODUCT, settings)
        assert path.relative_to(tmp_path / "sampledb/product").as_posix() == f"{folder}/20181216-000030000.csv"
        load = write_load(tmp_path, T, LOAD, PRODUCT, settings=settings)
        assert load.relative_to(tmp_path / "sampledb/product").as_posix() == "LOAD00000001.csv"


@pytest.mark.parametrize(
    "zone, place",
    [
        ("", "2018/12/15/20181215-230011204"),
        ("UTC", "2018/12/15/20181215-230011204"),
        ("Europe/Berlin", "2018/12/15/20181216-000011204"),
        ("Asia/Kolkata", "2018/12/16/20181216-043011204"),
        ("America/New_York", "2018/12/15/20181215-180011204"),
    ],
)
def test_the_zone_rules_folder_and_name_but_not_the_commit_time(tmp_path, zone, place):
    settings = DmsSettings(data_format="csv", date_partition=True, date_partition_timezone=zone, timestamp_column="ts")
    path = write_changes(tmp_path, T, CHANGES[:1], datetime(2018, 12, 15, 23, 0, 11, 204000), PRODUCT, settings)
    assert path.relative_to(tmp_path / "sampledb/product").as_posix() == f"{place}.csv"
    assert path.read_text() == "I,2018-12-15 22:59:11.204000,1004,Mug,7.50\n"
    again = write_changes(tmp_path / "named", T, CHANGES[:1], place.rpartition("/")[2], PRODUCT, settings)
    assert again.read_text() == path.read_text() and again.relative_to(tmp_path / "named") == path.relative_to(tmp_path)


def test_a_clock_that_is_put_back_repeats_names_an_hour_later(tmp_path):
    settings = DmsSettings(data_format="csv", date_partition=True, date_partition_timezone="Europe/Berlin")
    closes = [datetime(2018, 10, 28, 0, 30), datetime(2018, 10, 28, 1, 15), datetime(2018, 10, 28, 1, 30)]
    assert [write_changes(tmp_path, T, CHANGES, close, PRODUCT, settings).name for close in closes] == [
        "20181028-023000000.csv",
        "20181028-021500000.csv",
        "20181028-023000001.csv",
    ]


def test_where_no_change_is_let_through_there_is_no_file(tmp_path):
    assert write_changes(tmp_path, T, CHANGES[1:], CLOSED, PRODUCT, DmsSettings(cdc_inserts_only=True)) is None
    assert write_changes(tmp_path, T, CHANGES[2:], CLOSED, PRODUCT, DmsSettings(cdc_inserts_and_updates=True)) is None
    assert list(tmp_path.iterdir()) == []


def test_rows_that_are_let_through_keep_the_numbers_they_had(tmp_path):
    settings = DmsSettings(data_format="csv", cdc_inserts_only=True, sequence_column="seq")
    path = write_changes(tmp_path, T, [CHANGES[2], CHANGES[0]], CLOSED, PRODUCT, settings)
    assert path.read_text() == "1004,Mug,7.50,20181215100211200000000000000000002\n"


def test_the_task_has_one_start_over_all_files_of_a_load(tmp_path):
    settings = DmsSettings(data_format="csv", timestamp_column="ts", use_task_start_time=True, max_file_size=1)
    paths = write_load_set(tmp_path, T, typed_rows(((n,) for n in range(600)), {"id": "int"}), settings, moment=BEGUN)
    assert [path.name for path in paths] == ["LOAD00000001.csv", "LOAD00000002.csv", "LOAD00000003.csv"]
    assert {line.partition(",")[0] for path in paths for line in path.read_text().splitlines()} == {"2018-12-14 09:15:02.118334"}


def test_without_a_key_there_is_no_key_to_keep_and_no_image_of_it(tmp_path):
    settings = DmsSettings(data_format="csv", key_only_deletes=True, before_image="pk-only")
    assert (
        write_changes(tmp_path, T, CHANGES, CLOSED, PRODUCT, settings).read_text() == "I,1004,Mug,7.50\nU,2003,Tent,119.00\nD,1002,Fire HD 8,89.00\n"
    )


def test_a_composite_key_is_kept_whole_and_seen_to_change_in_any_part(tmp_path):
    settings = DmsSettings(data_format="csv", key_only_deletes=True, before_image="pk-only")
    rows = [("U", 1, 2, 5), ("U", 1, 3, 5), ("D", 1, 3, 5)]
    path = write_changes(
        tmp_path, T, rows, CLOSED, {"a": "int", "b": "int", "n": "int"}, settings, key=["a", "b"], before=[(1, 2, 4), {"a": 1, "b": 2, "n": 5}, None]
    )
    assert path.read_text() == "U,1,2,5,,\nU,1,3,5,1,2\nD,1,3,,,\n"


def test_before_images_in_parquet_have_the_types_of_their_columns(tmp_path):
    path = write_changes(tmp_path, T, CHANGES, CLOSED, PRODUCT, DmsSettings(before_image="all"), before=OLD)
    found = pq.read_table(path)
    assert found.column_names == ["Op", "id", "name", "price", "BI_id", "BI_name", "BI_price"]
    assert [found.schema.field(f"BI_{name}").type for name in PRODUCT] == [found.schema.field(name).type for name in PRODUCT]
    assert [found[f"BI_{name}"].to_pylist() for name in PRODUCT] == [[None, 1003, None], [None, "Tent", None], [None, Decimal("110.00"), None]]


def test_transactions_are_rows_of_their_own_lengths(tmp_path):
    rows = [
        ("U", "product", "sampledb", 1001, 'Sample "Product"', None, Decimal("39.00")),
        ("I", "store", "sampledb", 1009, "125 Technology Dr., Irvine", b"\xff", True, 0.5, date(2018, 12, 15), datetime(2018, 12, 15, 10, 2, 11)),
        ("D", "visits", "my.schema"),
    ]
    path = write_transactions(tmp_path, "cdc", rows, CLOSED, DmsSettings(boolean_texts=("t", "f")))
    assert path.relative_to(tmp_path).as_posix() == "cdc/CDC_TXN-20181215100311204.csv"
    assert path.read_text() == (
        'U,product,sampledb,1001,"Sample ""Product""",,39.00\n'
        'I,store,sampledb,1009,"125 Technology Dr., Irvine",ff,t,+5.0000000000000000e-01,2018-12-15,2018-12-15 10:02:11.000000\n'
        "D,visits,my.schema\n"
    )
    zipped = write_transactions(tmp_path, "cdc", rows[2:], "CDC_TXN-20181215100311204.csv.gz", DmsSettings(gzip=True))
    assert gzip.decompress(zipped.read_bytes()) == b"D,visits,my.schema\n"


def test_a_file_of_transactions_replaces_no_other(tmp_path):
    assert [write_transactions(tmp_path, "cdc", [("I", "a", "s", n)], CLOSED).name for n in range(2)] == [
        "CDC_TXN-20181215100311204.csv",
        "CDC_TXN-20181215100311205.csv",
    ]
    with pytest.raises(FileExistsError):
        write_transactions(tmp_path, "cdc", [], "CDC_TXN-20181215100311204.csv")
    assert (tmp_path / "cdc/CDC_TXN-20181215100311204.csv").read_text() == "I,a,s,0\n"


def test_parquet_is_packed_encoded_and_described_as_it_is_set(tmp_path):
    plain = pq.read_metadata(write_load(tmp_path, T, LOAD, PRODUCT))
    other = pq.read_metadata(
        write_load(
            tmp_path, T, LOAD, PRODUCT, 2, DmsSettings(gzip=True, parquet_version="parquet-2-0", encoding_type="plain", enable_statistics=False)
        )
    )
    facts = [
        (one.format_version, *[(c.compression, c.has_dictionary_page, c.is_stats_set) for c in [one.row_group(0).column(0)]])
        for one in (plain, other)
    ]
    assert facts == [("1.0", ("UNCOMPRESSED", True, True)), ("2.6", ("GZIP", False, False))]


# The settings of real endpoints: the names and values of the API are botocore's.

MEMBERS = get_session().get_service_model("dms").shape_for("S3Settings").members
CAMEL = {name: name[0].lower() + name[1:] for name in MEMBERS}


def test_every_setting_of_the_api_is_known_and_no_other():
    assert {*API.values(), *SHAPELESS, *NOT_WRITTEN} == set(MEMBERS)
    assert len(API) + len(SHAPELESS) + len(NOT_WRITTEN) == len(MEMBERS)
    listed = {theirs: set(MEMBERS[theirs].enum) for ours, theirs in API.items() if getattr(MEMBERS[theirs], "enum", ()) and ours != "gzip"}
    assert listed == {API[ours]: set(allowed) for ours, allowed in CHOICES.items() if ours in API}


@pytest.mark.parametrize("theirs", API.values())
def test_each_setting_is_taken_from_json_and_from_the_old_attributes(theirs):
    kind, allowed = MEMBERS[theirs].type_name, getattr(MEMBERS[theirs], "enum", [])
    needed = {"PreserveTransactions": {"CdcPath": "cdc"}}.get(theirs, {})
    value = {"DatePartitionTimezone": "Asia/Kolkata", "EnableStatistics": False, "Rfc4180": False}.get(
        theirs, allowed[-1] if allowed else {"boolean": True, "integer": 7, "string": "x"}[kind]
    )
    ours = next(name for name, one in API.items() if one == theirs)
    expected = True if ours == "gzip" else value
    settings, unknown = settings_from_json(json.dumps({theirs: value, **needed}))
    assert unknown == [] and getattr(settings, ours) == expected
    text = "".join(f"{CAMEL[name]}={str(one).lower() if isinstance(one, bool) else one};" for name, one in {theirs: value, **needed}.items())
    assert settings_from_json(text) == (settings, [])


def test_what_describe_endpoints_prints_is_read(tmp_path):
    printed = {
        "Endpoints": [
            {"EndpointIdentifier": "shop", "EndpointType": "SOURCE", "EngineName": "mysql", "MySQLSettings": {"Port": 3306}},
            {
                "EndpointIdentifier": "lake",
                "EndpointType": "TARGET",
                "EngineName": "s3",
                "ExtraConnectionAttributes": "addColumnName=true;csvDelimiter=,;",
                "S3Settings": {
                    "ServiceAccessRoleArn": "arn:aws:iam::1:role/dms",
                    "CsvRowDelimiter": "\\n",
                    "CsvDelimiter": "|",
                    "BucketName": "shop-raw",
                    "BucketFolder": "raw",
                    "CompressionType": "NONE",
                    "EnableStatistics": True,
                    "DatePartitionEnabled": True,
                    "DatePartitionSequence": "yyyymmdd",
                    "CdcMaxBatchInterval": 30,
                    "CsvNullValue": None,
                    "UseCsvNoSupValue": False,
                },
            },
        ]
    }
    settings, unknown = settings_from_json("\ufeff" + json.dumps(printed))
    assert unknown == []
    assert settings == DmsSettings(
        data_format="csv", csv_delimiter="|", bucket_folder="raw", add_column_name=True, date_partition=True, batch_interval=30.0
    )
    assert settings_from_json(json.dumps({"Endpoint": printed["Endpoints"][1]})) == (settings, [])
    path = write_changes(tmp_path, T, CHANGES[:1], CLOSED, PRODUCT, settings)
    assert (path.relative_to(tmp_path).as_posix(), path.read_text()) == (
        "raw/sampledb/product/2018/12/15/20181215-100311204.csv",
        "Op|id|name|price\nI|1004|Mug|7.50\n",
    )


def test_names_that_nobody_knows_or_nobody_follows_are_returned():
    given = {"DataFormat": "parquet", "QuickWrite": 1, "AddTrailingPaddingCharacter": True, "UseCsvNoSupValue": False, "bucketname": "b"}
    assert settings_from_json(json.dumps({"S3Settings": given})) == (DmsSettings(), ["QuickWrite", "AddTrailingPaddingCharacter"])
    assert settings_from_json("dataFormat=parquet;quickWrite=1;addTrailingPaddingCharacter=y") == (
        DmsSettings(),
        ["quickWrite", "addTrailingPaddingCharacter"],
    )


@pytest.mark.parametrize(
    "text, words",
    [
        ('{"DataFormat": "orc"}', "DataFormat (data_format): expected 'csv' or 'parquet', found 'orc'"),
        ('{"CompressionType": "snappy"}', "CompressionType (gzip): expected 'none' or 'gzip', found 'snappy'"),
        ('{"DatePartitionEnabled": "perhaps"}', "DatePartitionEnabled (date_partition): expected true or false, found 'perhaps'"),
        ('{"DatePartitionDelimiter": "/"}', "expected 'SLASH' or 'DASH' or 'UNDERSCORE' or 'NONE', found '/'"),
        (
            '{"DatePartitionTimezone": "Berlin"}',
            "DatePartitionTimezone (date_partition_timezone): expected a zone like 'Europe/Berlin', found 'Berlin'",
        ),
        ('{"CdcMaxBatchInterval": -5}', "CdcMaxBatchInterval (batch_interval): expected a whole number, found -5"),
        ('{"MaxFileSize": true}', "MaxFileSize (max_file_size): expected a whole number, found True"),
        ('{"TimestampColumnName": 5}', "TimestampColumnName (timestamp_column): expected a text, found 5"),
        (
            '{"CdcInsertsOnly": true, "CdcInsertsAndUpdates": true}',
            "CdcInsertsAndUpdates (cdc_inserts_and_updates): expected False beside CdcInsertsOnly",
        ),
        ('{"PreserveTransactions": true}', "CdcPath (cdc_path): expected a folder, because PreserveTransactions is set, found ''"),
        (
            '{"PreserveTransactions": true, "CdcPath": "cdc", "AddColumnName": true}',
            "AddColumnName (add_column_name): expected False beside PreserveTransactions",
        ),
        ("dataFormat", "extra connection attributes: expected name=value;name=value, found 'dataFormat'"),
        ("csvDelimiter=;", "CsvDelimiter (csv_delimiter): expected at least one character, found ''"),
        ('{"Endpoints": []}', "Endpoints: expected one target with S3Settings, found none"),
        ('{"Endpoints": [{"EndpointIdentifier": "a", "S3Settings": {}}, {"EndpointIdentifier": "b", "S3Settings": {}}]}', "found a, b"),
        ('{"S3Settings": []}', "expected an object S3Settings, found []"),
        ('{"DataFormat": }', "settings of an endpoint: expected JSON, found "),
    ],
)
def test_a_wrong_setting_is_named_with_what_was_expected_and_found(text, words):
    with pytest.raises(BadSetting) as error:
        settings_from_json(text)
    assert words in str(error.value)
