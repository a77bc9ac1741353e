"Spark on S3A, in a process of its own: a session learns S3A only when it begins. Fetches hadoop-aws (640 MB) from Maven Central the first time."
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOME = "spark or keeps_data or inserts_updates or may_bring or by_nothing or added_and_wider or overtaken or strangers"  # of the suite; all by EVERY_TEST=1


@pytest.mark.torture  # the first fetch takes up to nine minutes
def test_spark_reads_and_writes_a_bucket_and_the_table_keeps_its_promises_there(bucket, tmp_path):
    env = {**os.environ, "AWS_SECRET_ACCESS_KEY": "kept-to-itself", "DMSCDC_LAKE": f"s3://{bucket}/suite", "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS / "aws"), str(TESTS.parent)])}
    files = [str(TESTS / "aws/s3a.py"), str(TESTS / "contracts/test_tables.py")]
    which = [] if os.environ.get("EVERY_TEST") else ["-k", SOME]
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "s3a", "-p", "no:cacheprovider", "--tb=short", f"--basetemp={tmp_path / 'inside'}", *which, *files]
    run = subprocess.run(command, env=env, cwd=TESTS.parent, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-3000:]
