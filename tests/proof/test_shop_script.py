"The shop's script as a client of MySQL reads it, on MariaDB, and a day's business by its procedure."

from __future__ import annotations

import subprocess

import pytest
from databases import program

from dmscdc.capture.shop import shop_mysql, shop_rows, story_result
from dmscdc.deploy.files import templates

pytestmark = pytest.mark.proof


def test_the_script_runs_as_a_client_reads_it_and_its_procedure_adds_orders(request):
    database = request.getfixturevalue("mariadb")
    client = program("mariadb", "mariadb-client")
    socket = database.url.partition("unix_socket=")[2].partition("&")[0]

    def run(sql: str) -> list[tuple[str, ...]]:
        done = subprocess.run(
            [client, "--no-defaults", "--batch", "--skip-column-names", f"--socket={socket}", "--user=root"],
            input=sql,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    run("drop database if exists sampledb;" + shop_mysql())
    rows = shop_rows()
    counted = {table: int(run(f"select count(*) from sampledb.{table}")[0][0]) for table in rows}
    assert counted == {table: len(each) for table, each in rows.items()}
    run(templates()["changes.sql"])  # the story, which lies beside it
    after = story_result()
    assert {table: int(run(f"select count(*) from sampledb.{table}")[0][0]) for table in after} == {table: len(each) for table, each in after.items()}
    assert run("select id, name, dept from sampledb.product order by id") == [(str(row[0]), row[1], row[2]) for row in sorted(after["product"])]
    last = int(run("select max(id) from sampledb.productorder")[0][0])
    run("use sampledb; call loadorders(7, '2018-12-16'); call loadorders(0, '2018-12-17')")
    new = run(
        f"select o.id, o.create_dt, o.qty between 1 and 9, o.soldprice = p.price * o.qty, s.id is not null from sampledb.productorder o "
        f"join sampledb.product p on p.id = o.productid join sampledb.store s on s.id = o.storeid where o.id > {last} order by o.id"
    )
    assert new == [(str(last + n), "2018-12-16", "1", "1", "1") for n in range(1, 8)]
    run("drop database sampledb")
