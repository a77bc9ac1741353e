"""The stream's stack with a table of Hudi, made by MiniStack's CloudFormation, its job run as Glue 5.1 would: by the `spark-submit` of Spark 3.5, on a Python that has
the packages of the archive and nothing else, where no jar can be fetched. The oracles are a scan of the DynamoDB table, and hudi-rs, which reads the table."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import boto3
import pytest

import readers
from aws.test_stacks import NOTES, check_rights, cloud, inits, made, names_of, typed  # noqa: F401  cloud is a fixture
from dmscdc.spark.jars import fetched_jars, listed
from tiers import sampled
from wheels import HOME, build_wheel

pytestmark = pytest.mark.proof

SPARK = HOME / ".spark35"
PYTHON = SPARK / "bin" / "python"
DEFAULTS = {
    "spark.master": "yarn",
    "spark.dynamicAllocation.enabled": "true",
    "spark.shuffle.service.enabled": "true",
    "spark.driver.memory": "10g",
    "spark.executor.memory": "10g",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Path:
    "The folder of Spark 3.5 as a service has it: with the jars that read S3, and defaults for a cluster, as on EMR."
    if not PYTHON.exists():
        pytest.skip("no Spark 3.5: make .spark35/.made")
    there, here = tmp_path_factory.mktemp("spark"), next(SPARK.glob("lib/python3*/site-packages/pyspark"))
    for path in here.iterdir():
        if path.name not in ("jars", "conf"):
            (there / path.name).symlink_to(path)
    for name in ("jars", "conf"):
        (there / name).mkdir()
    (there / "conf" / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in DEFAULTS.items()))
    for path in (here / "jars").iterdir():
        (there / "jars" / path.name).symlink_to(path)
    for path in fetched_jars(listed()["org.apache.hadoop:hadoop-aws:3.3.4"]):
        (there / "jars" / path.name.partition("-")[2]).symlink_to(path)
    return there


@pytest.fixture(scope="module")
def code(tmp_path_factory) -> Path:
    "What the page has the operator make and upload, for the Python of Spark 3.5 here; `environment` is the archive as Glue unpacks it."
    folder = tmp_path_factory.mktemp("code")
    python, base = subprocess.run(
        [PYTHON, "-c", "import sys; print('{}.{}'.format(*sys.version_info), sys.base_prefix)"], capture_output=True, text=True, check=True
    ).stdout.split()
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    typed("templates", "--out", str(folder), "--environment", str(wheel), "--format", "hudi", "--python", python)
    (folder / "notes").mkdir()
    (folder / "notes" / "sitecustomize.py").write_text(NOTES)
    with tarfile.open(folder / "environment-hudi.tar.gz") as archive:
        archive.extractall(folder / "environment", filter="fully_trusted")
    link = folder / "environment" / "bin" / f"python{python}"
    if not link.exists():  # this machine's Python is not in /usr/bin
        link.unlink()
        link.symlink_to(Path(base, "bin", link.name))
    return folder


def as_glue(service: Path, code: Path, name: str, *more: str) -> str:
    "A run of the job, whose command may have more words: what it says."
    job = boto3.client("glue").get_job(JobName=name)["Job"]
    arguments, python = job["DefaultArguments"], str(code / "environment/bin/python")
    assert (job["GlueVersion"], job["NumberOfWorkers"]) == ("5.1", 2) and arguments["--python-virtual-env"].endswith("/code/environment-hudi.tar.gz")
    assert job["Command"]["ScriptLocation"].endswith("/code/inside.py") and not {"--conf", "--datalake-formats"} & set(arguments)
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "DMSCDC_JARS")}
    env |= {
        "SPARK_HOME": str(service),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "DEFAULT_ARTIFACT_REPOSITORY": "file:///nowhere",
    }
    env |= {"PYTHONPATH": str(code / "notes"), "NOTES": str(code / "calls"), "XDG_CACHE_HOME": str(code / "cache")}
    arguments["--dmscdc"] = " ".join([arguments["--dmscdc"], *more])
    words = [word for pair in {"--JOB_NAME": name, **arguments}.items() for word in pair]
    done = subprocess.run(
        [service / "bin/spark-submit", "--master", "local[2]", code / "inside.py", *words], env=env, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0 and " ERROR " not in done.stderr and "Traceback" not in done.stderr, done.stdout + done.stderr[-6000:]
    return done.stdout


def rows(there: Path, format: str) -> list[tuple[str, str]]:
    "What another program finds in the lake, where Glue's entry says."
    entry = boto3.client("glue").get_table(DatabaseName="dmscdc", Name="customer")["Table"]["StorageDescriptor"]
    assert entry["InputFormat"].endswith({"hudi": ".HoodieParquetInputFormat", "hudi-mor": ".HoodieParquetRealtimeInputFormat"}[format])
    bucket, _, prefix = entry["Location"].partition("://")[2].strip("/").partition("/")
    s3 = boto3.client("s3")
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/"):
        for one in page["Contents"]:
            path = there / one["Key"].removeprefix(f"{prefix}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            if not one["Key"].endswith("/"):
                s3.download_file(bucket, one["Key"], str(path))
    return sorted((row["id"], row["custName"]) for row in readers.hudi(there).to_pylist())


@pytest.mark.parametrize("format", sampled(["hudi", "hudi-mor"], "hudi"))
def test_a_stream_goes_into_a_table_of_hudi_that_equals_its_source(cloud, service, code, tmp_path, format, monkeypatch):  # noqa: F811
    out = made(cloud, "dmscdc-shared", "shared.yaml")
    follows = made(cloud, "dmscdc-stream", "stream.yaml", LakeFormat=format, Workers="5")
    dynamo, arn = (
        boto3.client("dynamodb"),
        boto3.client("kinesis").describe_stream_summary(StreamName=follows["Stream"])["StreamDescriptionSummary"]["StreamARN"],
    )
    if not dynamo.describe_kinesis_streaming_destination(TableName=follows["Table"])[
        "KinesisDataStreamDestinations"
    ]:  # MiniStack leaves it out of a stack
        dynamo.enable_kinesis_streaming_destination(TableName=follows["Table"], StreamArn=arn)
    db = boto3.resource("dynamodb").Table(follows["Table"])
    scan = lambda: sorted((one["id"], one["custName"]) for one in db.scan()["Items"])
    rename = lambda key: db.update_item(Key={"id": key}, UpdateExpression="SET custName = :name", ExpressionAttributeValues={":name": "another"})
    keys = [f"{number:03}" for number in range(30)]

    for key in keys:
        db.put_item(Item={"id": key, "custName": f"customer {key}"})
    for key in keys[:10]:
        rename(key)
    assert "shop.customer: ok" in as_glue(service, code, follows["JobName"])
    assert len(scan()) == 30 and rows(tmp_path / "first", format) == scan()

    for key in keys[5:15]:
        db.delete_item(Key={"id": key})
    for key in keys[20:]:
        rename(key)
    db.put_item(Item={"id": "new", "custName": "came later"})
    by_spark = ["--fetch", "spark"] if format == "hudi-mor" else []  # as where shards are many
    assert "shop.customer: ok" in as_glue(service, code, follows["JobName"], *by_spark)
    assert len(scan()) == 21 and rows(tmp_path / "second", format) == scan()

    assert "no new record" in as_glue(service, code, follows["JobName"]) and rows(tmp_path / "third", format) == scan()
    check_rights(*names_of("Role", cloud, "dmscdc-stream")[:1], code / "calls")
    written = {
        bucket: {one["Key"].split("/")[0] for one in boto3.client("s3").list_objects_v2(Bucket=out[bucket])["Contents"]}
        for bucket in ("RawBucket", "LakeBucket", "RunsBucket")
    }
    assert written == {"RawBucket": {"streams"}, "LakeBucket": {"lake"}, "RunsBucket": {"runs"}}, "as the role allows it"

    monkeypatch.chdir(tmp_path)  # a laptop
    typed(*inits({"RAW": out["RawBucket"], "LAKE": out["LakeBucket"], "RUNS": out["RunsBucket"]})[1])
    assert "shop.customer" in typed("status")
