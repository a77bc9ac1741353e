"""Tables of one format (`DMSCDC_FORMAT`) in a bucket: what every format promises, by Spark on S3A and moto's S3 and Glue, in a process of its own.

moto's Glue does not look at the version of an entry that is replaced, as Glue does: Iceberg's own look at the metadata is what is tried here."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from aws.usual import usual
from dmscdc.storage.filesystem import client
from tiers import sampled

pytestmark = pytest.mark.proof

TESTS = Path(__file__).parents[1]
SOME = "inserts_updates or overtaken or bucket"  # of the suite
OURS = "our_own_tasks"


@pytest.fixture
def bucket(monkeypatch):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    with usual(monkeypatch, AWS_ENDPOINT_URL="http://{}:{}".format(*server.get_host_and_port())):
        name = f"shop-{secrets.token_hex(4)}"
        client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        yield name
    server.stop()


@pytest.mark.parametrize("some", sampled([SOME, OURS], OURS))
def test_a_table_in_a_bucket_keeps_what_its_format_promises_and_is_found_in_glue(bucket, tmp_path, some):
    env = {
        **os.environ,
        "DMSCDC_LAKE": f"s3://{bucket}/suite",
        "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS / "aws", TESTS / "formats", TESTS.parent))),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--noconftest",
        "-p",
        "s3a",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        f"--basetemp={tmp_path / 'inside'}",
    ]
    what = [str(TESTS / "contracts/test_tables.py"), str(TESTS / "formats/in_a_bucket.py"), "-k", some]
    run = subprocess.run([*command, *what], env=env, cwd=TESTS.parent, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-3000:]
