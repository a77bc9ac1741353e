"Spark on S3A, in a process of its own: a session learns S3A only when it begins. What S3A needs is fetched from Maven Central the first time, 18 MB."

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torture

TESTS = Path(__file__).parents[1]
SOME = "spark or keeps_data or inserts_updates or may_bring or by_nothing or added_and_wider or overtaken or strangers"  # of the suite


def passes(bucket: str, folder: Path, *words: str) -> None:
    env = {
        **os.environ,
        "AWS_SECRET_ACCESS_KEY": "kept-to-itself",
        "DMSCDC_LAKE": f"s3://{bucket}/suite",
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "aws"), str(TESTS.parent)]),
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
        f"--basetemp={folder / 'inside'}",
        *words,
    ]
    run = subprocess.run(command, env=env, cwd=TESTS.parent, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-3000:]


def test_spark_reads_and_writes_a_bucket(bucket, tmp_path):
    passes(bucket, tmp_path, str(TESTS / "aws/s3a.py"))


@pytest.mark.torture  # the same promises, which a folder and pyarrow keep every day
def test_the_table_keeps_its_promises_in_a_bucket_by_spark(bucket, tmp_path):
    passes(bucket, tmp_path, "-k", SOME, str(TESTS / "contracts/test_tables.py"))
