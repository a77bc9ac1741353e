"What holds in one process holds on a cluster: the order of rows in a file that many tasks read, and the whole story."

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from dmscdc.capture.shop import COLUMNS
from dmscdc.spark.server import serve
from world import query, replay

pytestmark = pytest.mark.torture

HERE = Path(__file__).parent
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}


def run(script: str, *words: str, **env: str) -> dict:
    "A script in a process of its own; its last line is JSON."
    done = subprocess.run([sys.executable, str(HERE / script), *words], env={**CLEAN, **env}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def check_order(found: dict, executors: int) -> None:
    "The file was large, many tasks read it in as many processes, and no older change won."
    assert found["megabytes"] >= 25 and found["tasks"] > 8 and found["executors"] == executors, found
    assert (found["keys"], found["stale"]) == (20_000, 0), found


def test_of_forty_changes_of_a_key_in_one_file_that_many_tasks_read_the_last_one_wins(tmp_path):
    check_order(run("order.py", "local-cluster[4,2,1024]", str(tmp_path)), 4)


def test_of_forty_changes_of_a_key_in_one_file_that_two_machines_read_the_last_one_wins(tmp_path, cluster, bare_python):
    check_order(run("order.py", cluster, str(tmp_path), PYSPARK_PYTHON=str(bare_python), SPARK_LOCAL_IP="127.0.0.1"), 2)


def check_story(root: Path, said: dict) -> None:
    "Both passes went well, and the lake is right."
    assert [[verdict for _, verdict, _ in done] for done in said["passes"]] == [["ok"] * 3] * 2, said
    check_lake(root)


def check_lake(root: Path, *tables: str) -> None:
    "Every lake table, or some, equals the replay of its raw files by another reader."
    for table in tables or COLUMNS:
        raw, lake, names = root / "landing" / "sampledb" / table, root / "lake" / "sampledb" / table, [*COLUMNS[table], "_cdc_file", "_cdc_row"]
        rows = query(f"select {', '.join(names)} from read_parquet('{lake}/**/*.parquet', hive_partitioning=true) order by id")
        want = [row for _, row in sorted(replay(raw, ["id"]).items())]
        assert all({*row} == {*names, "Op"} for row in want), f"{table}: every column is compared"
        assert rows == [tuple(row[n] for n in names) for row in want] and rows, table
    assert query(f"select count(*) from read_parquet('{root}/lake/sampledb/productorder/**/*.parquet')") == [(9_770,)]


def test_the_story_on_a_cluster_whose_workers_do_not_hold_the_package(tmp_path, cluster, bare_python):
    said = run("story.py", str(tmp_path), SPARK_MASTER=cluster, PYSPARK_PYTHON=str(bare_python), SPARK_LOCAL_IP="127.0.0.1")
    assert ".zip" in said["package"], "the package came with the session"
    check_story(tmp_path, said)


def test_the_story_over_connect_on_a_cluster_whose_workers_do_not_hold_the_package(tmp_path, cluster, bare_python, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare_python))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    with serve(master=cluster, memory="1g", log=tmp_path / "server.log") as server:
        said = run("story.py", str(tmp_path), SPARK_REMOTE=server.url)
    assert str(HERE.parents[1]) not in said["package"], "the package came with the session"
    check_story(tmp_path, said)


def test_shards_of_a_stream_are_read_by_tasks_on_workers_that_do_not_hold_the_package(tmp_path, cluster, bare_python):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    aws = {"AWS_ENDPOINT_URL": address, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    try:
        said = run("stream.py", str(tmp_path), CLUSTER=cluster, PYSPARK_PYTHON=str(bare_python), SPARK_LOCAL_IP="127.0.0.1", **aws)
    finally:
        server.stop()
    assert said["done"] == ["ok"] * 3 and not said["left"] and ".zip" in said["package"], said
    lake = query(f"select id, n from read_parquet('{tmp_path}/lake/shop/customer/*.parquet') order by id")
    assert [list(row) for row in lake] == said["items"] and len(lake) > 5
