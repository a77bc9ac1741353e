"The templates under infra/, with every choice of parameters that changes what is made. No AWS: values are put in by `rendered`, DMS's settings are judged by the doctor."

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path

import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator
from typer.testing import CliRunner

from aws.rendered import Rendered, loaded
from dmscdc.cli.main import app
from dmscdc.deploy.environment import service_for, versions_for
from dmscdc.deploy.on_call import DEFAULTS
from dmscdc.doctor.task_checks import TASK_CHECKS, parse_settings
from dmscdc.lake.glue import glue_table
from dmscdc.landing.files import TableRef
from dmscdc.service.config import check_value
from dmscdc.service.metrics import FLOORS
from dmscdc.spark.formats import FORMATS

pytestmark = pytest.mark.quick

INFRA = Path(__file__).parents[2] / "infra"
MADE = ("shop.sql", "changes.sql", "environment.tar.gz", "environment-hudi.tar.gz")
SHARED = {
    f"dmscdc-shared-{name}": f"<{name}>"
    for name in (
        "RawBucket",
        "DMSFolder",
        "LakeBucket",
        "LakePlace",
        "LakeDBName",
        "Catalog",
        "RunsBucket",
        "StateTable",
        "Log",
        "AlarmTopic",
        "KmsKeyArn",
        "NoKmsKey",
        "NoDMSFolder",
        "StreamBucket",
    )
}
KEY = "arn:aws:kms:eu-central-1:111122223333:key/ONE"
DATABASE = {"DBServer": "db.example.com", "DBUser": "dms", "DBSecret": "shop", "DMSSchemaFilter": "sampledb"}
CHOICES = {
    "shared": {"LakeFormat": ("parquet", "delta", "iceberg"), "ScheduleState": ("ENABLED", "DISABLED"), "RunsOn": ("glue", "emr-serverless")},
    "source": {
        "DMSReplicationInstanceArn": ("", "arn:aws:dms:eu-central-1:111122223333:rep:ONE"),
        "DBEngine": ("mysql", "postgres"),
        "SequenceColumn": ("yes", "no"),
        "BeforeImages": ("yes", "no"),
        "Vpc": ("", "vpc-1"),
        "Encryption": ("s3", "kms"),
        "LobKilobytes": (1024, 32768),
        "CertificateArn": ("", "arn:certificate"),
        "SecurityGroups": ("", "sg-1"),
        **{name: (one,) for name, one in DATABASE.items()},
    },
    "roles": {},
    "sample": {"Subnets": ("subnet-1,subnet-2",), "SecurityGroups": ("sg-1",)},
    "stream": {
        "SourceTable": ("", "customers"),
        "StreamName": ("changes",),
        "EverySeconds": ("0", "100"),
        "LakeFormat": ("parquet", "iceberg", "hudi"),
        "Encryption": ("s3", "kms"),
        "ScheduleState": ("ENABLED", "DISABLED"),
    },
}


ALONE = {
    "shared": {
        "DMSFolder": "",
        "LakeFolder": "",
        "RawBucket": "raw",
        "LakeBucket": "lake",
        "MakeStateTable": "no",
        "MakeLakeDB": "no",
        "DBPerSchema": "yes",
        "AlarmEmail": "you@example.com",
        "KmsKeyArn": KEY,
        "RawDays": "30",
        "RunDays": "0",
    },
    "source": {"AtTop": "yes"},
    "stream": {"FirstContent": "export"},
}  # none asks for another


def every(name: str) -> list[Rendered]:
    "The template with each choice; those that stand alone one by one, and all at once."
    choices, alone = CHOICES[name], ALONE.get(name, {})
    some = [{}, *({one: value} for one, value in alone.items()), *([alone] if alone else [])]
    return [Rendered(INFRA / f"{name}.yaml", SHARED, **dict(zip(choices, values)), **more) for values in product(*choices.values()) for more in some]


def test_the_command_writes_all_files_and_no_template_is_longer_than_cloudformation_reads(tmp_path):
    done = CliRunner().invoke(app, ["templates", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    written, kept = (
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name not in MADE}
        for folder in (tmp_path, INFRA)
    )
    assert (tmp_path / "shop.sql").read_text().count("INSERT INTO") and kept == written
    assert not {name: len(text) for name, text in written.items() if name.endswith(".yaml") and len(text) > 51_200}


def test_a_stream_into_any_format_runs_where_its_archive_is_for():
    assert set(loaded(INFRA / "stream.yaml")["Parameters"]["LakeFormat"]["AllowedValues"]) == set(FORMATS)
    for format in FORMATS:
        job, service = Rendered(INFRA / "stream.yaml", SHARED, LakeFormat=format).resources["Job"]["Properties"], service_for(format)
        glue = {"6.0": ("4.1", "3.13"), "5.1": ("3.5", "3.11")}  # page of AWS: AWS Glue versions
        assert glue[job["GlueVersion"]] == (service.spark, service.python), format
        assert (
            job["DefaultArguments"]["--python-virtual-env"].endswith(f"/{service.archive}")
            and f"--format {format}" in job["DefaultArguments"]["--dmscdc"]
        )
        assert service.spark in (FORMATS[format].parts or glue["6.0"])


def test_the_versions_for_spark_3_5_are_those_that_its_tests_run_with():
    named = re.findall(r"\b(?:numpy|pandas|pyarrow)==[\d.]+", (INFRA.parent / ".ci" / "spark35").read_text())
    lines = versions_for(service_for("hudi")).splitlines()
    assert len(named) == 3 and sorted(named) == sorted(line for line in lines if re.match("(numpy|pandas|pyarrow)==", line))
    assert len(lines) > 100 and "numpy==1.26.4" not in versions_for(service_for("parquet"))


@pytest.mark.parametrize("name", CHOICES)
def test_whatever_is_chosen_all_that_is_named_is_made(name):
    made = [set(one.resources) for one in every(name)]
    unused = set(every(name)[0].template["Resources"]) - set.union(*made)
    assert not unused, f"made by no choice: {unused}"


def policies(name: str) -> list[dict]:
    "All policies that roles of a template may have."
    roles = [part["Properties"] for one in every(name) for part in one.resources.values() if part["Type"] == "AWS::IAM::Role"]
    return [policy["PolicyDocument"] for one in roles for policy in one.get("Policies", [])]


@pytest.mark.parametrize("name", CHOICES)
def test_no_right_is_wider_than_it_says(name):
    found = [one for policy in policies(name) for one in policy["Statement"]]
    assert not [action for one in found for action in one["Action"] if "*" in action]
    looks = {action for one in found if "*" in one["Resource"] for action in one["Action"]}
    assert looks <= {
        "cloudwatch:PutMetricData",
        "dms:DescribeConnections",
        "dms:DescribeReplicationTasks",
        "dms:DescribeReplications",
        "ec2:DescribeRouteTables",
        "ec2:DescribeSubnets",
        "ec2:DescribeVpcEndpoints",
    }


def test_with_a_key_of_your_own_all_is_encrypted_by_it_and_who_reads_or_writes_may_use_it():
    for name, given in {
        "shared": {"KmsKeyArn": KEY},
        "source": {**DATABASE, "Encryption": "kms", "SequenceColumn": "yes"},
        "stream": {"Encryption": "kms"},
    }.items():
        made, key = Rendered(INFRA / f"{name}.yaml", SHARED, **given).resources, KEY if name == "shared" else "<KmsKeyArn>"
        for role in [one["Properties"] for one in made.values() if one["Type"] == "AWS::IAM::Role"]:
            may = [
                (action, statement["Resource"])
                for policy in role["Policies"]
                for statement in policy["PolicyDocument"]["Statement"]
                for action in statement["Action"]
            ]
            needs = {"kms:Decrypt"} if "s3:GetObject" in dict(may) else set()
            needs |= {"kms:GenerateDataKey"} if "s3:PutObject" in dict(may) else set()
            assert needs <= {action for action, places in may if key in places}, (name, role)
        kept = {
            kind: [one["Properties"] for one in made.values() if one["Type"] == kind]
            for kind in ("AWS::S3::Bucket", "AWS::Logs::LogGroup", "AWS::Kinesis::Stream", "AWS::DMS::Endpoint")
        }
        assert {
            one["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]["ServerSideEncryptionByDefault"]["KMSMasterKeyID"]
            for one in kept["AWS::S3::Bucket"]
        } <= {key}
        assert {one["KmsKeyId"] for one in kept["AWS::Logs::LogGroup"]} | {
            one["StreamEncryption"]["KeyId"] for one in kept["AWS::Kinesis::Stream"]
        } <= {key}
        assert {one["S3Settings"].get("ServerSideEncryptionKmsKeyId") for one in kept["AWS::DMS::Endpoint"] if "S3Settings" in one} <= {key}


def test_the_doctor_has_no_question_to_what_the_source_sets():
    for one in every("source"):
        task = one.resources.get("Task", one.resources.get("Replication"))["Properties"]
        texts = [
            json.dumps({"EndpointIdentifier": "raw", "EngineName": "s3", **one.resources["Target"]["Properties"]}),
            *(
                one if isinstance(one, str) else json.dumps(one)
                for one in (task.get("ReplicationTaskSettings", task.get("ReplicationSettings")), task["TableMappings"])
            ),
        ]
        findings = [found for text in texts for said in parse_settings(text, "stack") for check in TASK_CHECKS for found in check(said)]
        asked = {found.what for found in findings if "LobMaxSize" not in found.what}  # longer ones suspend their table, as its settings say
        images, order = one.values["BeforeImages"] == "yes", one.values["SequenceColumn"] == "yes"
        assert asked == {words for words, given in (("no rule adds before images", images), ("no rule adds AR_H_CHANGE_SEQ", order)) if not given}


def test_a_rule_reads_the_tables_that_the_filter_names():
    given = {**DATABASE, "DMSTableFilter": "order%", "BeforeImages": "yes"}
    serverless = Rendered(INFRA / "source.yaml", SHARED, **given).resources["Replication"]["Properties"]
    task = Rendered(INFRA / "source.yaml", SHARED, **given, DMSReplicationInstanceArn="arn").resources["Task"]["Properties"]
    rules = serverless["TableMappings"]["rules"]
    assert json.loads(task["TableMappings"])["rules"] == rules and json.loads(task["ReplicationTaskSettings"]) == serverless["ReplicationSettings"]
    assert [rule["object-locator"] for rule in rules] == [{"schema-name": "sampledb", "table-name": "order%"}] * 3
    assert [rule["rule-action"] for rule in rules] == ["include", "add-column", "add-before-image-columns"]


def test_every_parameter_that_the_page_names_is_one_of_its_template():
    page = (INFRA / "README.md").read_text()
    for part in page.split("aws cloudformation deploy ")[1:]:
        command = part[: re.search(r"[^\\]\n", part).end()]  # lines that end with a backslash go on
        name = command.split("--template-file ")[1].split(".yaml")[0]
        given = [word.split("=")[0] for word in command.partition("--parameter-overrides")[2].split() if "=" in word]
        assert set(given) <= set(every(name)[0].values) and (given or name == "roles"), command


def test_every_alarm_has_its_paragraph_on_the_page():
    page, on_call = (INFRA / "README.md").read_text(), (INFRA.parent / "notebooks" / "explore" / "on_call.ipynb").read_text()
    made = {**every("shared")[0].resources, **{f"{name}OfStreams": one for name, one in every("stream")[0].resources.items()}}
    alarms = {
        name.removesuffix("OfStreams").removesuffix("Alarm"): one["Properties"]
        for name, one in made.items()
        if one["Type"] == "AWS::CloudWatch::Alarm"
    }
    assert len(alarms) >= 8 and all(
        f"* **{name}**:" in page and f"**{name}**" in on_call and one["AlarmDescription"].endswith(f"dmscdc templates, {name}")
        for name, one in alarms.items()
    )


@pytest.mark.parametrize("code, ends_with", [(0, None), (3, None), (4, None), (1, 1), (2, 2), (-9, -9)])
def test_a_job_is_failed_where_its_command_failed_or_was_killed(monkeypatch, code, ends_with):
    asked = []
    monkeypatch.setattr("dmscdc.cli.main.inside", lambda *words: asked.append(words) or code)
    monkeypatch.setattr("sys.argv", ["inside.py", "--JOB_NAME", "job", "--dmscdc", "pass --only 'shop.a b'", "--more", "x"])
    try:
        ended = exec((INFRA / "inside.py").read_text(), {})
    except SystemExit as error:
        ended = error.code
    assert (ended, asked) == (ends_with, [("pass", "--only", "shop.a b")])


def test_schemas_with_tables_of_the_same_name_get_a_database_each():
    made = Rendered(INFRA / "shared.yaml", DBPerSchema="yes")
    words = made.resources["Job"]["Properties"]["DefaultArguments"]["--dmscdc"].split()
    catalog = check_value("catalog", words[words.index("--catalog") + 1], "the job")
    assert glue_table(catalog, TableRef("Shop", "item"), glue=object()).database == "dmscdc_shop" and "Catalog" not in made.resources
    allowed = [
        one for one in made.resources["JobRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"] if "glue:CreateDatabase" in one["Action"]
    ]
    assert allowed[0]["Resource"][-1].endswith("database/dmscdc_*")


def test_whatever_the_folders_of_the_shared_stack_sources_and_streams_find_its_exports_and_one_told_otherwise_is_refused():
    for folder, at_top in (("dms", "no"), ("", "yes")):
        out = loaded(INFRA / "shared.yaml")["Outputs"]
        made = Rendered(INFRA / "shared.yaml", DMSFolder=folder, RawDays="30")
        exports = {f"dmscdc-shared-{name}": value for name, value in made.outputs.items() if "Export" in out[name]}
        source = Rendered(INFRA / "source.yaml", exports, **DATABASE, AtTop=at_top)
        assert source.resources["Target"]["Properties"]["S3Settings"].get("BucketFolder", "") == folder
        with pytest.raises(KeyError):
            Rendered(INFRA / "source.yaml", exports, **DATABASE, AtTop="no" if at_top == "yes" else "yes")
        stream = Rendered(INFRA / "stream.yaml", exports)
        landing = re.search(r"--landing (\S+)", stream.resources["Job"]["Properties"]["DefaultArguments"]["--dmscdc"])[1]
        assert landing == ("s3://<Raw>/streams" if folder else "s3://<Runs>/streams")  # not in the schemas of a landing at the top
        moves = {
            (action, place)
            for one in made.resources["JobRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
            for action in one["Action"]
            for place in one["Resource"]
            if "/archive/" in place
        }
        assert {action for action, _ in moves} >= {"s3:GetObject", "s3:PutObject"}
        writes = {
            place
            for one in made.resources["JobRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
            for action in one["Action"]
            if action in ("s3:PutObject", "s3:DeleteObject")
            for place in one["Resource"]
        }
        assert not folder or not any(place.endswith("<Raw>/*") for place in writes)


def test_who_asks_for_the_alarms_here_compares_with_what_the_stack_does():
    values = every("shared")[0].values
    assert DEFAULTS == {name: values[name] for name in DEFAULTS}


def test_a_table_in_trouble_makes_the_metric_that_an_alarm_looks_at_whatever_its_limit():
    seen = set()
    for name in ("shared", "stream"):
        template = loaded(INFRA / f"{name}.yaml")
        for one in every(name)[0].resources.values():
            if one["Type"] != "AWS::CloudWatch::Alarm":
                continue
            told = one["Properties"]
            query = next((metric["Expression"] for metric in told.get("Metrics", ())), "")
            if not query and not any(dimension["Name"] == "table" for dimension in told.get("Dimensions", ())):
                continue
            metric = re.search(r"MAX\((\w+)\)", query)[1] if query else told["MetricName"]
            limit = (
                template["Parameters"]
                .get({"waited": "WaitSeconds", "behind": "BehindSeconds"}.get(metric, ""), {})
                .get("MinValue", told["Threshold"])
            )
            assert told["TreatMissingData"] == "notBreaching" and FLOORS[metric] <= limit, metric
            seen.add(metric)
    assert seen == set(FLOORS)


def test_no_pass_is_missed_before_the_timetable_is_on():
    of = lambda state: Rendered(INFRA / "shared.yaml", ScheduleState=state).resources
    assert "NoPassAlarm" not in of("DISABLED") and of("ENABLED")["NoPassAlarm"]["Properties"]["TreatMissingData"] == "breaching"


def test_what_the_clock_sends_is_what_boto3_knows_and_holds_the_command_of_a_pass():
    for service in ("glue", "emr-serverless"):
        made = Rendered(INFRA / "shared.yaml", RunsOn=service, RawDays="30").resources
        clocks = {name: one["Properties"]["Target"] for name, one in made.items() if one["Type"] == "AWS::Scheduler::Schedule"}
        assert {name: clock["Arn"].rpartition(":aws-sdk:")[2] for name, clock in clocks.items()} == {
            "Clock": "<Look.Arn>",
            **dict.fromkeys(("MoveRaw", "ThinRuns"), f"{service.replace('-', '')}:startJobRun"),
        }
        for name, clock in clocks.items():
            request = json.loads(clock["Input"].replace("<JobRole.Arn>", "arn:aws:iam::111122223333:role/job"))
            shape = get_session().get_service_model(service).operation_model("StartJobRun").input_shape
            if service == "emr-serverless" and name != "Clock":
                request = camel(request)  # the function is boto3
            assert not (report := ParamValidator().validate(request, shape)).has_errors(), report.generate_report()
            given = (
                dict(pairs(request["jobDriver"]["sparkSubmit"]["entryPointArguments"]))
                if "jobDriver" in request
                else request.get("Arguments", made["Job"]["Properties"]["DefaultArguments"] if "Job" in made else {})
            )
            assert re.match(r"(pass|maintain raw|maintain runs) .*--landing s3://<Raw>/dms ", given["--dmscdc"]) and "${" not in given["--dmscdc"], (
                given
            )


def camel(value):
    "Names as boto3 writes them; the scheduler begins them in upper case."
    if isinstance(value, dict):
        return {name[0].lower() + name[1:]: camel(one) for name, one in value.items()}
    return value


def pairs(words: list[str]) -> list[tuple[str, str]]:
    return list(zip(words[::2], words[1::2]))
