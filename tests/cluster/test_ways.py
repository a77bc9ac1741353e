"The ways onto a cluster that a person has: commands of ours with notebooks as clients, a program of spark-submit, a pass inside one."

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from story import TABLES
from test_cluster import CLEAN, HERE, check_lake

from dmscdc.capture.shop import write_shop, write_story
from dmscdc.landing.files import TableRef
from dmscdc.service.config import write_config
from dmscdc.spark.server import PLUGIN, spark_home
from dmscdc.state.registry import open_state
from wheels import build_wheel

pytestmark = pytest.mark.proof


@pytest.fixture
def shop(tmp_path) -> Path:
    "A folder with settings, three tables that know their keys, and the shop as the full load of DMS."
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, driver_memory="1g")
    for name, settings in TABLES.items():
        open_state(f"sqlite:{tmp_path}/state.db").put_settings(TableRef("sampledb", name), **settings)
    write_shop(tmp_path / "landing")
    return tmp_path


@pytest.fixture
def env(bare_python) -> dict[str, str]:
    "Nobody's client; tasks run a Python that does not hold the package, the driver is here."
    return {**CLEAN, "PYSPARK_PYTHON": str(bare_python), "SPARK_LOCAL_IP": "127.0.0.1"}


def dmscdc(folder: Path, env: dict[str, str], *words: str) -> str:
    "The command in a process of its own; what it says."
    done = subprocess.run(
        [sys.executable, "-c", "from dmscdc.cli.main import main; main()", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout.strip()


def submit(folder: Path, env: dict[str, str], *words: str) -> str:
    "`spark-submit`, as a cluster's service does it; what the program says."
    command = [str(spark_home() / "bin" / "spark-submit"), "--conf", "spark.ui.enabled=false", *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + "\n".join(line for line in done.stderr.splitlines() if " INFO " not in line)[-4000:]
    return done.stdout.strip()


@contextmanager
def lent(folder: Path, env: dict[str, str], *words: str):
    "`dmscdc serve-spark` while the block runs: the process, and what its line exports."
    command = [sys.executable, "-c", "from dmscdc.cli.main import main; main()", "serve-spark", *words]
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            _, setting = shlex.split(process.stdout.readline()) or ("", "=")
            yield process, dict([setting.split("=", 1)])
        finally:
            process.kill()  # if it still runs


def child(pid: int) -> int:
    "The one process that a process has started."
    return int(subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True).stdout.split()[0])


@pytest.mark.torture
def test_a_pass_on_a_cluster_and_one_on_a_server_lent_there_bring_the_story_to_its_end(shop, cluster, env):
    before = cluster.applications()
    assert dmscdc(shop, env, "pass", "--master", cluster) == "3 tables: 3 ok"
    assert cluster.applications() == before + 1, "all notebooks share one application of the cluster"
    write_story(shop / "landing")
    with lent(shop, env, "--master", cluster) as (server, setting):
        assert re.fullmatch(r"sc://localhost:\d+/;token=\S{20,}", setting["SPARK_REMOTE"])
        assert dmscdc(shop, {**env, **setting}, "pass") == "3 tables: 3 ok"
        told = dmscdc(shop, {**env, **setting}, "as-of", "sampledb.store")  # of its columns none is a time
        assert "sampledb.store: 9 rows" in told, told
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0
        told = server.stderr.read()
        assert "secret" in told and "the server has stopped" in told and setting["SPARK_REMOTE"] not in told
    assert cluster.applications() == before + 2
    check_lake(shop)


def test_a_server_that_is_lent_and_dies_says_so(tmp_path, env):
    with lent(tmp_path, env, "--master", "local[1]", "--driver-memory", "600m") as (server, _):
        os.kill(child(child(server.pid)), signal.SIGKILL)
        assert server.wait(60) == 1
        assert "the Spark server was ended by signal 9 (SIGKILL)" in (told := server.stderr.read()) and "serve-spark.log" in told


def test_a_server_that_cannot_begin_says_why(tmp_path, env):
    with lent(tmp_path, env, "--master", "local[1]", "--driver-memory", "10m") as (server, setting):
        assert (server.wait(60), setting) == (1, {"": ""})
        assert "out of memory" in (told := server.stderr.read()) and "--driver-memory" in told and "serve-spark.log" in told


@pytest.mark.torture
def test_classic_notebooks_on_a_cluster_and_a_pass_inside_an_application_with_the_plugin(shop, cluster, env):
    before = cluster.applications()
    assert dmscdc(shop, env, "pass", "--classic", "--master", cluster, "--only", "sampledb.store") == "1 table: 1 ok"
    assert cluster.applications() == before + 1, "the notebook is a driver of its own"
    write_story(shop / "landing")
    beside = {**env, "PYSPARK_DRIVER_PYTHON": sys.executable}  # the package is installed where the driver runs
    said = submit(shop, beside, "--master", cluster, "--driver-memory", "1g", "--conf", PLUGIN, str(HERE / "inside.py"), "--folder", str(shop))
    assert said.splitlines()[-1] == "3 tables: 3 ok"
    assert cluster.applications() == before + 2, "the notebooks of the pass use the application's Spark"
    check_lake(shop)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_a_program_of_spark_submit_loads_a_table_with_nothing_but_the_wheel(shop, cluster, env, wheel):
    write_story(shop / "landing")
    options = ("--master", cluster, "--py-files", str(wheel), "--executor-memory", "900m")
    said = json.loads(submit(shop, env, *options, str(HERE / "one_table.py"), str(shop), "sampledb.productorder").splitlines()[-1])
    assert said["verdict"] == "ok" and said["master"] == cluster and said["memory"] == "900m", "as spark-submit was told"
    assert wheel.name in said["driver"] and "dmscdc-" in said["package"] and ".zip" in said["package"], said
    check_lake(shop, "productorder")
