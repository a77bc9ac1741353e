"""The shared stack and a stream's, made by MiniStack's CloudFormation from the templates under infra/, used as AWS would use them, and deleted. A job runs by
`spark-submit` with the arguments that the template gave it, on a Python that has the packages of the archive and nothing else; PySpark comes from Spark's folder.
The oracles are the shop's own story, a scan of the DynamoDB table, and what the services say is left."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
from copy import deepcopy
from datetime import date
from fnmatch import fnmatch
from pathlib import Path

import boto3
import duckdb
import pytest

from aws.rendered import Rendered, loaded
from aws.stack import ministack
from aws.usual import usual
from dmscdc.capture.shop import story_result, write_shop, write_story
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.spark.jars import with_jars
from dmscdc.spark.server import spark_home
from dmscdc.storage.filesystem import s3a
from wheels import build_wheel

pytestmark = pytest.mark.proof

INFRA = Path(__file__).parents[2] / "infra"
SERVICES = "cloudformation,cloudwatch,dynamodb,glue,iam,kinesis,lambda,logs,monitoring,s3,scheduler,sns,ssm,sts"
PAGE = (INFRA / "README.md").read_text()


@pytest.fixture
def cloud(monkeypatch):
    "An account with nothing in it."
    with ministack(SERVICES) as url, usual(monkeypatch, AWS_ENDPOINT_URL=url):
        yield boto3.client("cloudformation")


def waited(cloud, name: str) -> dict:
    for _ in range(120):
        stack = cloud.describe_stacks(StackName=name)["Stacks"][0]
        if not stack["StackStatus"].endswith("IN_PROGRESS"):
            return stack
        time.sleep(0.5)
    raise AssertionError(f"{name} is still {stack['StackStatus']}")


def as_known(template: str) -> str:
    "A template without what MiniStack refuses: alarms over a query, for which it gets one over a metric. `test_day.py` holds what the queries ask."
    made = deepcopy(loaded(INFRA / template))
    for part in made["Resources"].values():
        if part.get("Properties", {}).pop("Metrics", None):
            part["Properties"] |= {"Namespace": "dmscdc", "MetricName": "failed", "Statistic": "Maximum", "Period": 3600}
    return json.dumps(made)


def made(cloud, name: str, template: str, **given: str) -> dict[str, str]:
    "The outputs of a new stack."
    parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()]
    cloud.create_stack(StackName=name, TemplateBody=as_known(template), Capabilities=["CAPABILITY_IAM"], Parameters=parameters)
    stack = waited(cloud, name)
    reasons = [
        event.get("ResourceStatusReason")
        for event in cloud.describe_stack_events(StackName=name)["StackEvents"]
        if "FAILED" in event["ResourceStatus"]
    ]
    assert stack["StackStatus"] == "CREATE_COMPLETE", reasons
    return {one["OutputKey"]: one["OutputValue"] for one in stack["Outputs"]}


def names_of(kind: str, cloud, stack: str) -> list[str]:
    return [
        one["PhysicalResourceId"]
        for one in cloud.describe_stack_resources(StackName=stack)["StackResources"]
        if one["ResourceType"].endswith(f"::{kind}")
    ]


def gone(cloud, name: str) -> None:
    cloud.delete_stack(StackName=name)
    for _ in range(120):
        left = [one["StackName"] for one in cloud.list_stacks()["StackSummaries"] if one["StackStatus"] != "DELETE_COMPLETE"]
        if name not in left:
            return
        time.sleep(0.5)
    raise AssertionError(f"{name} is not deleted")


def typed(*words: str, code: int = 0) -> str:
    "What a command says."
    done = subprocess.run([sys.executable, "-c", "from dmscdc.cli.main import main; main()", *words], capture_output=True, text=True, timeout=400)
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def code(tmp_path_factory) -> Path:
    "What the page has the operator make and upload: the program and the archive, of this machine's Python."
    folder, mine = tmp_path_factory.mktemp("code"), "{}.{}".format(*sys.version_info)
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    typed("templates", "--out", str(folder), "--environment", str(wheel), "--python", mine)
    (folder / "notes").mkdir()
    (folder / "notes" / "sitecustomize.py").write_text(NOTES)
    return folder


NOTES = """
import os

import botocore.client

send = botocore.client.BaseClient._make_api_call
def noted(client, operation, given):
    keys = [one["Key"] for one in given.get("Delete", {}).get("Objects", ())] or [given.get("Key", "")]
    with open(os.environ["NOTES"], "a") as file:
        for key in keys: print(client.meta.service_model.endpoint_prefix, operation, given.get("Bucket", ""), key, file=file)
    return send(client, operation, given)
botocore.client.BaseClient._make_api_call = noted
"""  # a `sitecustomize`: each process of a job writes down what it asks of AWS
ACTIONS = {
    "ListObjectsV2": "ListBucket",
    "HeadObject": "GetObject",
    "CopyObject": "PutObject",
    "DeleteObjects": "DeleteObject",
    "HeadBucket": "ListBucket",
}  # as IAM calls them
ACTIONS |= {operation: "PutObject" for operation in ("CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload")}


def check_rights(role: str, calls: Path) -> set[str]:
    "That a role allows what a job has asked of AWS, on the objects that it asked for. What the job did, as IAM calls it."
    iam, done = boto3.client("iam"), set()
    statements = [
        one
        for name in iam.list_role_policies(RoleName=role)["PolicyNames"]
        for one in iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]["Statement"]
    ]
    for line in calls.read_text().splitlines():
        service, operation, bucket, key = line.split(" ", 3)
        action = f"{service}:{ACTIONS.get(operation, operation)}"
        done.add(action)
        places = [place for one in statements if action in one["Action"] for place in one["Resource"]]
        asked = f"arn:aws:s3:::{bucket}/{key}".rstrip("/") if service == "s3" else ""
        assert places and (not asked or any(fnmatch(asked, place) for place in places)), f"{role}: {line}: {places}"
    return done


def submitted(program: Path, pythons: dict[str, str], conf: list[str], *words: str) -> str:
    """What a program says that a service starts, where PySpark comes with Spark and this package with the archive.
    Its tasks run on two cores, and none of its work is too small for them."""
    missing = subprocess.run([pythons["PYSPARK_PYTHON"], "-c", "import pyspark"], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    assert "No module named 'pyspark'" in missing.stderr
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env |= {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1", "DMSCDC_SMALL_BYTES": "-1", **pythons}
    env |= {"PYTHONPATH": str(program.parent / "notes"), "NOTES": str(program.parent / "calls")}
    with s3a(["s3://any"], spark_home()) as settings:
        there = with_jars(settings, spark_home())  # what the service's own Spark knows of S3
    given = [word for one in (*conf, *(f"{name}={value}" for name, value in there.items())) for word in ("--conf", one)]
    command = [
        str(spark_home() / "bin/spark-submit"),
        "--master",
        "local[2]",
        "--driver-memory",
        "2g",
        "--conf",
        "spark.ui.enabled=false",
        *given,
        str(program),
        *words,
    ]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=400)
    assert " ERROR " not in done.stderr and "Traceback" not in done.stderr, done.stderr[-6000:]
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def environment(code, tmp_path_factory) -> Path:
    "The archive as a service unpacks it."
    there = tmp_path_factory.mktemp("environment")
    with tarfile.open(code / "environment.tar.gz") as archive:
        archive.extractall(there, filter="fully_trusted")
    link = there / "bin" / "python{}.{}".format(*sys.version_info)
    if not link.exists():  # this machine's Python is not in /usr/bin
        link.unlink()
        link.symlink_to(Path(sys.base_prefix, "bin", link.name))
    return there


def as_glue(environment: Path, code: Path, name: str, *more: str, **changed: str) -> str:
    "A run of a job, whose arguments may be others than the job's own: what it says."
    job = boto3.client("glue").get_job(JobName=name)["Job"]
    arguments = {**job["DefaultArguments"], **changed}
    assert job["Command"]["ScriptLocation"].endswith("/code/inside.py") and arguments["--python-virtual-env"].endswith("/code/environment.tar.gz")
    arguments["--dmscdc"] = shlex.join([*shlex.split(arguments["--dmscdc"]), *more])
    conf = arguments["--conf"].split(" --conf ")
    words = [word for pair in {"--JOB_NAME": name, **arguments}.items() for word in pair]
    python = str(environment / "bin/python")
    return submitted(code / "inside.py", {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}, conf, *words)


def as_emr(environment: Path, code: Path, out: dict[str, str]) -> str:
    "A pass as the clock starts it on EMR Serverless, which unpacks the archive where the program works: what it says."
    names = {"<Raw>": out["RawBucket"], "<Lake>": out["LakeBucket"], "<Runs>": out["RunsBucket"], "<State>": out["StateTable"], "<Log>": out["Log"]}
    made = Rendered(INFRA / "shared.yaml", RunsOn="emr-serverless").resources
    text = re.sub("|".join(names), lambda found: names[found[0]], made["Clock"]["Properties"]["Target"]["Input"])
    driver = json.loads(text)["jobDriver"]["sparkSubmit"]
    given = dict(one.split("=", 1) for one in driver["sparkSubmitParameters"].removeprefix("--conf ").split(" --conf "))
    assert driver["entryPoint"].endswith("/code/inside.py") and given.pop("spark.archives").endswith("/code/environment.tar.gz#environment")
    Path("environment").symlink_to(environment)
    of_driver = "spark.emr-serverless.driverEnv."
    env = {name.removeprefix(of_driver): value for name, value in given.items() if name.startswith(of_driver)}
    conf = [f"{name}={value}" for name, value in given.items() if not name.startswith(of_driver)]
    return submitted(code / "inside.py", env, conf, *driver["entryPointArguments"])


def asked_first(cloud, code: Path, job: str) -> str:
    "What the function says that the clock asks, with the variables that the stack gave it."
    (name,) = names_of("Function", cloud, "dmscdc-shared")
    given = boto3.client("lambda").get_function(FunctionName=name)["Configuration"]["Environment"]["Variables"]
    program = f"import sys\nfrom types import SimpleNamespace\n{loaded(INFRA / 'shared.yaml')['Resources']['Look']['Properties']['Code']['ZipFile']}\nhandler({{'JobName': sys.argv[1]}}, SimpleNamespace(get_remaining_time_in_millis=lambda: 900_000))"
    env = {**os.environ, **given, "PYTHONPATH": str(code / "notes"), "NOTES": str(code / "calls")}
    done = subprocess.run([sys.executable, "-c", program, job], env=env, capture_output=True, text=True, timeout=60)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)["words"]


def rows(table: str) -> list[tuple]:
    "What the catalogue's table of Parquet holds."
    place = boto3.client("glue").get_table(DatabaseName="dmscdc", Name=table)["Table"]["StorageDescriptor"]["Location"].replace("s3a://", "s3://")
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    s3, there = boto3.client("s3"), Path(table)
    for one in s3.list_objects_v2(Bucket=bucket, Prefix=prefix.rstrip("/") + "/")["Contents"]:
        path = there / one["Key"].removeprefix(prefix).strip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet" and not path.name.startswith(("_", ".")):
            s3.download_file(bucket, one["Key"], str(path))
    found = duckdb.sql(f"select columns('^([^_O]|O[^p])') from read_parquet('{there}/**/*.parquet') order by id").fetchall()
    return [tuple(map(str, row)) for row in found]


def inits(names: dict[str, str]) -> list[list[str]]:
    "The settings that the page has an operator make, of passes and of streams, with the names of buckets put in."
    lines = re.findall(r"^dmscdc (init .*?[^\\])$", PAGE, re.S | re.M)
    assert len(lines) == 2
    return [
        [re.sub(r"//(RAW|LAKE|RUNS)/", lambda found: f"//{names[found[1]]}/", word) for word in shlex.split(line.replace("\\\n", " "))]
        for line in lines
    ]


def test_the_stacks_are_made_used_by_the_commands_of_their_jobs_and_deleted(cloud, code, environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = made(cloud, "dmscdc-shared", "shared.yaml", AlarmEmail="you@example.com", RawDays="30")
    write_shop("shop")
    write_story("shop")
    for path in Path("shop").rglob("*.parquet"):
        boto3.client("s3").upload_file(str(path), out["RawBucket"], f"{out['DMSFolder']}/{path.relative_to('shop')}")

    # what the page tells the operator to type, with the names that the outputs gave
    names = {"RAW": out["RawBucket"], "LAKE": out["LakeBucket"], "RUNS": out["RunsBucket"]}
    typed(*inits(names)[0])
    for command in ("doctor", "status"):
        assert f"\ndmscdc {command}\n" in PAGE and typed(command, code=3)  # both ask for keys
    said = as_glue(environment, code, out["JobName"])
    assert "3 tables: 3 attention" in said, said  # tables are there, and want a key; the alarm tells it, the job is not a failure
    for table in ("product", "productorder", "store"):
        typed("table", "set", f"sampledb.{table}", "--key", "id")
    assert "3 tables: 3 ok" in as_glue(environment, code, out["JobName"], "--quiet-period", "0")
    for table, expected in story_result().items():
        assert rows(table) == [tuple(map(str, row)) for row in sorted(expected)]
    logs = boto3.client("logs")
    lines = [
        json.loads(one["message"])
        for stream in logs.describe_log_streams(logGroupName=out["Log"])["logStreams"]
        for one in logs.get_log_events(logGroupName=out["Log"], logStreamName=stream["logStreamName"])["events"]
    ]
    assert sorted((one["table"], one["verdict"]) for one in lines if one["event"] == "table" and one["verdict"] == "ok") == [
        (f"sampledb.{table}", "ok") for table in ("product", "productorder", "store")
    ]

    for name in names_of("Schedule", cloud, "dmscdc-shared"):  # a pass, and upkeep, as the clock starts them
        given = json.loads(boto3.client("scheduler").get_schedule(Name=name)["Target"]["Input"])
        as_glue(environment, code, given["JobName"], **given.get("Arguments", {}))
    assert "3 tables: 3 nothing" in as_emr(environment, code, out)

    of_job, of_look, _ = names_of("Role", cloud, "dmscdc-shared")
    done = check_rights(of_job, code / "calls")
    assert {one for one in done if one.startswith("dynamodb:")} == {"dynamodb:GetItem", "dynamodb:Scan", "dynamodb:UpdateItem"}
    (code / "calls").unlink()
    assert asked_first(cloud, code, out["JobName"]).endswith(" is new")  # within a quarter of an hour; tests/aws/test_look.py has a clock
    assert check_rights(of_look, code / "calls") == {"s3:GetObject", "s3:ListBucket", "dynamodb:Scan", "glue:StartJobRun"}
    (code / "calls").unlink()
    before = b'$ion_1_0 {Item:{id:"before",custName:"of an export"}}'
    boto3.client("s3").put_object(Bucket=names["RAW"], Key="export/data/a.ion.gz", Body=gzip.compress(before))
    export = {"FirstContent": "export", "ExportBucket": names["RAW"], "ExportFolder": "export"}
    made(cloud, "dmscdc-stream", "stream.yaml", ScheduleState="ENABLED", **export)
    follows = {one["OutputKey"]: one["OutputValue"] for one in waited(cloud, "dmscdc-stream")["Outputs"]}
    dynamo, arn = (
        boto3.client("dynamodb"),
        boto3.client("kinesis").describe_stream_summary(StreamName=follows["Stream"])["StreamDescriptionSummary"]["StreamARN"],
    )
    if not dynamo.describe_kinesis_streaming_destination(TableName=follows["Table"])[
        "KinesisDataStreamDestinations"
    ]:  # MiniStack leaves it out of a stack
        dynamo.enable_kinesis_streaming_destination(TableName=follows["Table"], StreamArn=arn)
    items, db = {f"{number:04}": f"customer {number}" for number in range(30)}, boto3.resource("dynamodb").Table(follows["Table"])
    for key, name in items.items():
        db.put_item(Item={"id": key, "custName": name})
    for key in [*items][:10]:
        db.update_item(Key={"id": key}, UpdateExpression="SET custName = :name", ExpressionAttributeValues={":name": "another"})
    for key in [*items][5:15]:
        db.delete_item(Key={"id": key})
    as_glue(environment, code, follows["JobName"])
    check_rights(*names_of("Role", cloud, "dmscdc-stream")[:1], code / "calls")
    left = [*sorted((one["id"], one["custName"]) for one in db.scan()["Items"]), ("before", "of an export")]
    assert len(left) == 21 and [row[:2] for row in rows("customer")] == left

    written = {
        bucket: {one["Key"].split("/")[0] for one in boto3.client("s3").list_objects_v2(Bucket=bucket)["Contents"]} for bucket in names.values()
    }
    assert written == {names["RAW"]: {"dms", "export", "streams"}, names["LAKE"]: {"lake"}, names["RUNS"]: {"runs"}}, "as the roles allow it"

    for name in ("dmscdc-stream", "dmscdc-shared"):
        gone(cloud, name)
    assert not boto3.client("glue").get_jobs()["Jobs"] and not boto3.client("scheduler").list_schedules()["Schedules"]
    assert not boto3.client("cloudwatch").describe_alarms()["MetricAlarms"]
    kept = {one["Name"] for one in boto3.client("s3").list_buckets()["Buckets"]}
    assert kept == set(names.values()), "buckets outlive the stack"


MOVES = (INFRA / "from-2019.md").read_text()
SHOP = {
    "product": {"id": "int", "name": "string", "price": "int"},
    "store": {"id": "int", "city": "string"},
    "productorder": {"id": "int", "qty": "int", "create_dt": "date"},
}
LOADED = {
    "product": [(1, "lamp", 5), (2, "desk", 9)],
    "store": [(1, "Berlin"), (2, "Wien")],
    "productorder": [(1, 3, date(2018, 12, 1)), (2, 1, date(2018, 12, 2)), (3, 7, date(2018, 12, 2))],
}
SINCE = {"product": [("U", 2, "desk", 11), ("I", 3, "rug", 4)], "store": [("D", 1, None)], "productorder": [("I", 4, 2, date(2018, 12, 3))]}
NOW = {
    "product": [(1, "lamp", 5), (2, "desk", 11), (3, "rug", 4)],
    "store": [(2, "Wien")],
    "productorder": [*LOADED["productorder"], (4, 2, date(2018, 12, 3))],
}


def left_by_2019(folder: Path) -> None:
    "Buckets with everything at their tops, the state table with its items, the catalogue's database: after a load, and with changes that wait."
    s3, dynamo = boto3.client("s3"), boto3.client("dynamodb")
    for bucket in ("raw-2019", "lake-2019"):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    dynamo.create_table(
        TableName="DMSCDC_Controller",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "path", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "path", "KeyType": "HASH"}],
    )
    boto3.client("glue").create_database(DatabaseInput={"Name": "sampledb"})
    (folder / "lake").mkdir()
    for table, columns in SHOP.items():
        write_load(folder / "raw", f"sampledb.{table}", LOADED[table], columns)
        write_changes(folder / "raw", f"sampledb.{table}", SINCE[table], "20181215-100311204", columns)
        load = folder / "raw" / "sampledb" / table / "LOAD00000001.parquet"
        by = "(format parquet, partition_by (create_dt))" if "create_dt" in columns else "(format parquet, per_thread_output true)"
        duckdb.sql(f"copy (select 'I' as \"Op\", {', '.join(columns)} from '{load}') to '{folder}/lake/{table}' {by}")
    for place in ("raw", "lake"):
        for path in sorted((folder / place).rglob("*.parquet"), key=lambda path: (path.name[0] == "2", path)):
            s3.upload_file(str(path), f"{place}-2019", str(path.relative_to(folder / place)))
    for table in SHOP:
        path = f"raw-2019/sampledb/{table}/"
        loaded = s3.head_object(Bucket="raw-2019", Key=f"sampledb/{table}/LOAD00000001.parquet")["LastModified"]
        keyed = table != "productorder"  # which the blog sets without a key, by date
        texts = {
            "path": path,
            "bucket": "raw-2019",
            "prefix": "sampledb/",
            "folder": f"{table}/",
            "PrimaryKey": "id" if keyed else "null",
            "PartitionKey": "null" if keyed else "create_dt",
            "LastFullLoadDate": f"{loaded:%Y-%m-%d %H:%M:%S}",
            "LastIncrementalFile": f"{path}0.parquet",
            "ActiveFlag": "true",
            "out_path": "lake-2019/",
        }
        kinds = [
            {"Name": name, "Type": kind} for name, kind in {"op": "string", **columns}.items() if name != "create_dt"
        ]  # as the crawler entered it
        parquet = {
            "Location": f"s3://lake-2019/{table}/",
            "Columns": kinds,
            "InputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
            "OutputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
            "SerdeInfo": {"SerializationLibrary": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"},
        }
        crawled = {
            "Name": table,
            "Owner": "owner",
            "TableType": "EXTERNAL_TABLE",
            "StorageDescriptor": parquet,
            "PartitionKeys": [] if keyed else [{"Name": "create_dt", "Type": "string"}],
            "Parameters": {
                "classification": "parquet",
                "typeOfData": "file",
                "CrawlerSchemaDeserializerVersion": "1.0",
                "UPDATED_BY_CRAWLER": "lake",
            },
        }
        boto3.client("glue").create_table(DatabaseName="sampledb", TableInput=crawled)
        dynamo.put_item(TableName="DMSCDC_Controller", Item={name: {"S": text} for name, text in texts.items()})


def test_a_deployment_of_2019_goes_on_where_it_is_and_goes_back(cloud, code, environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left_by_2019(tmp_path)
    given = dict(
        word.split("=", 1) for word in re.search(r"shared\.yaml.*?--parameter-overrides (.*?)\n```", MOVES, re.S)[1].replace("\\\n", " ").split()
    )
    names = {"RAW": "raw-2019", "LAKE": "lake-2019", "DATABASE": "sampledb"}
    out = made(cloud, "dmscdc-shared", "shared.yaml", **{name: names.get(value, value) for name, value in given.items()})
    names["RUNS"] = out["RunsBucket"]
    (init,) = re.findall(r"^dmscdc init .*?[^\\]$", MOVES, re.S | re.M)
    typed(*[re.sub(r"\b(RAW|LAKE|RUNS|DATABASE)\b", lambda found: names[found[1]], word) for word in shlex.split(init.replace("\\\n", " "))[1:]])
    said = typed("plan")
    assert said.count("2019") >= 3, said
    said = as_glue(environment, code, out["JobName"], "--quiet-period", "0")
    assert "3 tables: 3 ok" in said, said
    for table, wanted in NOW.items():
        assert rows_of("lake-2019", table, SHOP[table]) == wanted, table
        entry = boto3.client("glue").get_table(DatabaseName="sampledb", Name=table)["Table"]
        assert {one["Name"] for one in entry["StorageDescriptor"]["Columns"] + entry["PartitionKeys"]} == {
            "op",
            *SHOP[table],
            "_cdc_file",
            "_cdc_row",
        }
    assert "3 tables: 3 nothing" in as_glue(environment, code, out["JobName"], "--quiet-period", "0")

    gone(cloud, "dmscdc-shared")
    items = {one["folder"]["S"]: one for one in boto3.client("dynamodb").scan(TableName="DMSCDC_Controller")["Items"] if "folder" in one}
    assert {folder: (one["LastIncrementalFile"]["S"], one["PrimaryKey"]["S"], one["out_path"]["S"]) for folder, one in items.items()} == {
        f"{table}/": (f"raw-2019/sampledb/{table}/20181215-100311204.parquet", "null" if table == "productorder" else "id", "lake-2019/")
        for table in SHOP
    }
    assert {one["Name"] for one in boto3.client("s3").list_buckets()["Buckets"]} == {"raw-2019", "lake-2019", names["RUNS"]} and boto3.client(
        "glue"
    ).get_database(Name="sampledb")


def rows_of(bucket: str, table: str, columns: dict[str, str]) -> list[tuple]:
    "The table's rows as a reader of the folder finds them."
    s3, there = boto3.client("s3"), Path("read") / table
    for one in s3.list_objects_v2(Bucket=bucket, Prefix=f"{table}/")["Contents"]:
        path = there / one["Key"].removeprefix(f"{table}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            s3.download_file(bucket, one["Key"], str(path))
    return duckdb.sql(f"select {', '.join(columns)} from read_parquet('{there}/**/*.parquet', hive_partitioning = true) order by id").fetchall()
