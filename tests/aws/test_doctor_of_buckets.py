"What the doctor says of a landing and a lake in S3, and of a state in DynamoDB: rights are tried, buckets with versions asked for their rules."

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmscdc.doctor.diagnosis import doctor
from dmscdc.doctor.evidence import Finding
from dmscdc.doctor.place_checks import Survey, old_versions, rights, survey
from dmscdc.service.config import Config, read_config
from dmscdc.storage.filesystem import client

pytestmark = pytest.mark.proof

RULE = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "NoncurrentVersionExpiration": {"NoncurrentDays": 7}}


def settings_of(home: Path, bucket: str, **more: Any) -> Config:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), out)
    client("s3").put_object(Bucket=bucket, Key="dms/shop/item/LOAD00000001.parquet", Body=out.getvalue())
    return read_config(home, **{"landing": f"s3://{bucket}/dms", "lake": f"s3://{bucket}/lake", "quiet_period": 0, **more})


def versioned(bucket: str, *rules: dict) -> None:
    client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    if rules:
        client("s3").put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [*rules]})


def keys(bucket: str) -> list[str]:
    return [one["Key"] for one in client("s3").list_objects_v2(Bucket=bucket).get("Contents", ())]


def old(config: Config) -> list[Finding]:
    return list(old_versions(Survey(config)))


def test_a_table_in_a_bucket_is_examined_and_nothing_stays_there(bucket, tmp_path):
    config = settings_of(tmp_path, bucket, runs=f"s3://{bucket}/runs")
    before = keys(bucket)
    found = doctor(config, machine=survey(config))
    assert [one.severity for one in found if one.place == "shop.item"] == ["warning"] and "its key is not known" in str(found)
    assert not [one for one in found if one.place in ("lake", "runs", "state", f"s3://{bucket}")] and keys(bucket) == before


def test_a_bucket_without_versions_is_not_worth_a_word(bucket, tmp_path):
    assert old(settings_of(tmp_path, bucket)) == []


def test_versions_without_a_rule_are_a_warning(bucket, tmp_path):
    versioned(bucket)
    [one] = old(settings_of(tmp_path, bucket))
    assert (
        (one.severity, one.place) == ("warning", f"s3://{bucket}")
        and "old versions of dms, lake" in one.what
        and "NoncurrentVersionExpiration" in one.mend
    )


@pytest.mark.parametrize(
    "rule, left",
    [
        (RULE, ""),
        ({**RULE, "Filter": {"Prefix": "dms/"}}, "lake"),
        ({**RULE, "Filter": {"Prefix": "dmsother"}}, "dms, lake"),
        ({**RULE, "Status": "Disabled"}, "dms, lake"),
        ({"ID": "new", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 7}}, "dms, lake"),
        ({**RULE, "Filter": {"Tag": {"Key": "a", "Value": "b"}}}, "dms, lake"),
    ],
)
def test_a_rule_counts_where_it_ends_old_versions_of_all_our_objects(bucket, tmp_path, rule, left):
    versioned(bucket, rule)
    assert [one.what.partition("old versions of ")[2] for one in old(settings_of(tmp_path, bucket))] == [left] * bool(left)


def test_two_rules_together_count(bucket, tmp_path):
    versioned(bucket, *[{**RULE, "ID": name, "Filter": {"Prefix": f"{name}/"}} for name in ("dms", "lake")])
    assert old(settings_of(tmp_path, bucket)) == []


def test_a_bucket_that_is_not_there_cannot_be_written_and_a_missing_right_is_said(bucket, tmp_path):
    config = settings_of(tmp_path, bucket, lake="s3://nobody-has-this-one/lake")
    [one] = [one for one in rights(Survey(config)) if one.place == "lake"]
    assert one.severity == "error" and "NoSuchBucket" in one.what and "s3:PutObject" in one.mend
    [asked] = [one for one in old(config) if "nobody" in one.place]
    assert asked.severity == "note" and "could not be asked for" in asked.what


def test_the_clock_of_s3_is_read_from_its_answers_and_from_its_refusals(bucket, tmp_path):
    for name in (bucket, "nobody-has-this-one"):
        ahead = survey(settings_of(tmp_path, bucket, landing=f"s3://{name}/dms")).ahead
        assert ahead is not None and abs(ahead) < 30


def test_a_state_in_dynamodb_is_tried_with_an_item_of_its_own(aws, bucket, tmp_path):
    config = settings_of(tmp_path, bucket, state="dynamodb:doctor_state")
    [one] = [one for one in rights(Survey(config)) if one.place == "state"]
    assert one.severity == "error" and "ResourceNotFoundException" in one.what and one.mend == "dmscdc table init"
    client("dynamodb").create_table(
        TableName="doctor_state",
        KeySchema=[{"AttributeName": "path", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "path", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    assert [one for one in rights(Survey(config)) if one.place == "state"] == []
    assert client("dynamodb").scan(TableName="doctor_state")["Count"] == 0


def test_a_landing_that_cannot_be_listed_is_an_error_among_the_others(bucket, tmp_path):
    config = settings_of(tmp_path, bucket, landing="s3://nobody-has-this-one/dms")
    found = doctor(config, machine=Survey(config, java=None, spark="4.1.4"))
    assert found[0].severity == "error" and found[0].place == "landing" and "there is no such bucket" in found[0].what


@pytest.mark.parametrize("place", ["CDC_TXN-20201117153046033.csv", "cdc/CDC_TXN-20201117153046033.csv"])
def test_files_of_transactions_beside_the_tables_are_an_error(bucket, tmp_path, place):
    config = settings_of(tmp_path, bucket)
    client("s3").put_object(Bucket=bucket, Key=f"dms/{place}", Body=b"U,item,shop,1\n")
    found = doctor(config, machine=Survey(config, java=None, spark="4.1.4"))
    assert [one.what.partition(": ")[0] for one in found if one.place == "landing"] == [place]
