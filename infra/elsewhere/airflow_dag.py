"""dmscdc by Airflow: which tables have work, then a task for each. Written by dmscdc templates."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime, timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException

FOLDER = os.environ.get("DMSCDC_FOLDER", "/srv/dmscdc")  # where dmscdc.toml lies
DMSCDC = os.environ.get("DMSCDC_COMMAND", f"{FOLDER}/.venv/bin/dmscdc")  # in an environment of its own
AT_ONCE = 2  # tables


def dmscdc(*words: str) -> subprocess.CompletedProcess[str]:
    "A command; what it says on standard error goes to the log of the task."
    return subprocess.run([DMSCDC, *words], cwd=FOLDER, stdout=subprocess.PIPE, text=True)


@dag(schedule="@hourly", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1, tags=["dmscdc"])
def dmscdc_pass():
    @task(retries=2, retry_delay=timedelta(minutes=1))
    def tables_with_work() -> list[str]:
        done = dmscdc("plan", "--json")
        if done.returncode not in (0, 3):  # 3: a table wants attention, and its own task says so
            raise RuntimeError(f"dmscdc plan ended with {done.returncode}")
        return [row["table"] for row in json.loads(done.stdout) if row["needs"] or row["plan"] not in ("", "nothing")]

    @task(
        max_active_tis_per_dag=AT_ONCE,
        retries=2,
        retry_delay=timedelta(minutes=5),
        map_index_template="{{ task.op_kwargs['table'] }}",
    )
    def load(table: str) -> None:
        done = dmscdc("pass", "--only", table)
        print(done.stdout)
        if done.returncode == 3:
            raise AirflowFailException(f"{table} needs attention, and trying again does not help")
        if done.returncode not in (0, 4):  # 4: another run is at work on the table
            raise RuntimeError(f"{table}: dmscdc pass ended with {done.returncode}")

    load.expand(table=tables_with_work())


dmscdc_pass()
