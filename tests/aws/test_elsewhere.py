"Timetables of other kinds that `dmscdc templates` writes: the DAG is run by an Airflow, the rest is judged by linters that others keep."

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aws.fetch import fetched, run
from dmscdc.capture.shop import shop_rows, write_shop
from dmscdc.cli.main import app

pytestmark = pytest.mark.proof

HERE = Path(__file__).parent
FILES = HERE.parents[1] / "infra" / "elsewhere"
RUN = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors
done = bag.dags["dmscdc_pass"].test()
tasks = [(one.task_id, one.rendered_map_index, one.state) for one in done.get_task_instances()]
open(sys.argv[2], "w").write(json.dumps([done.state, sorted(tasks, key=str)]))
"""


@pytest.mark.torture
def test_airflow_runs_a_task_for_each_table_that_has_work_and_one_that_wants_a_key_fails_alone(tmp_path, monkeypatch):
    write_shop(tmp_path / "landing")
    shutil.rmtree(tmp_path / "landing" / "sampledb" / "productorder")
    monkeypatch.chdir(tmp_path)
    for words in (["init", "--landing", "landing", "--lake", "lake", "--quiet-period", "0"], ["table", "set", "sampledb.product", "--key", "id"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    command = tmp_path / "dmscdc"
    command.write_text(f"#!/bin/sh\nPYTHONPATH={HERE.parents[1]} exec {sys.executable} -c 'from dmscdc.cli.main import main; main()' \"$@\"\n")
    command.chmod(0o755)
    env = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONDONTWRITEBYTECODE": "1",
        "AIRFLOW__CORE__DAGS_FOLDER": str(FILES),
        "DMSCDC_FOLDER": str(tmp_path),
        "DMSCDC_COMMAND": str(command),
    }
    made = run(HERE / "airflow.txt", "-m", "airflow", "db", "migrate", **env)
    assert made.returncode == 0, made.stderr[-2000:]
    done = run(HERE / "airflow.txt", "-c", RUN, str(FILES), str(tmp_path / "done.json"), **env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    tasks = [["load", "sampledb.product", "success"], ["load", "sampledb.store", "failed"], ["tables_with_work", None, "success"]]
    assert json.loads((tmp_path / "done.json").read_text()) == ["failed", tasks] and "needs attention" in done.stdout + done.stderr
    status = json.loads(CliRunner().invoke(app, ["status", "--json"]).stdout)
    assert {row["table"]: row["rows"] for row in status} == {"sampledb.product": len(shop_rows()["product"]), "sampledb.store": None}


def test_the_state_machine_and_the_container_have_no_finding():
    tools = fetched(HERE / "lint.txt")
    done = run(HERE / "lint.txt", str(tools / "bin" / "statelint"), str(FILES / "state_machine.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    judged = subprocess.run([tools / "bin" / "hadolint", FILES / "Containerfile"], capture_output=True, text=True)
    assert judged.returncode == 0 and not judged.stdout, judged.stdout + judged.stderr
