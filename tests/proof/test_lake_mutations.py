"""
One value of a lake table is another than its source's: `dmscdc reconcile` finds it and names key and column, for every type that DMS writes. The lake is
made by the loader; then its file is replaced by one of the same rows, one value in each of a hundred lots changed. MariaDB stands for MySQL.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter

import pytest
from test_mutations import COLUMNS, ENGINES, ROWS, SEED, TABLES, made, nearest, put
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.service.config import write_config
from dmscdc.spark.server import serve
from world import World

pytestmark = pytest.mark.torture

SHAPE = {"lot": "int", "id": "int", **{name: column[0] for name, column in COLUMNS.items()}}
NAMES = list(COLUMNS)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve(master="local[2]", memory="1g", log=tmp_path_factory.mktemp("server") / "spark.log") as server:
        yield server


@pytest.fixture(params=ENGINES)
def db(request):
    return request.getfixturevalue({"mysql": "mariadb"}.get(request.param, request.param))


def changed(kind: str, rows: list[dict]) -> tuple[list[dict], dict[int, tuple[int, str]]]:
    "One value in each lot, the types in turn; by lot the id and the column."
    rng, done, expected = random.Random(f"{kind} lake"), [dict(row) for row in rows], {}
    for lot in range(TABLES):
        row, name = rng.choice([row for row in done if row["lot"] == lot]), NAMES[lot % len(NAMES)]
        row[name] = nearest(name, row[name], rng)
        expected[lot] = (row["id"], name)
    return done, expected


def loaded(root, spark, rows: list[dict]) -> World:
    world = World(root, spark, SHAPE, "shop.proven").set(key="lot,id").load([tuple(row.values()) for row in rows])
    world.go()
    return world


def test_any_one_value_of_a_lake_is_found_and_named_by_the_command(spark, server, db, tmp_path):
    rows = made(db.kind, SEED + 2)
    other, expected = changed(db.kind, rows)
    put(db, "proven", rows)
    world, spoilt = loaded(tmp_path / "home", spark, rows), loaded(tmp_path / "other", spark, other)
    write_config(world.root, landing="landing", lake="lake", quiet_period=0, source=db.source)

    def reconcile() -> tuple[int, dict]:
        done = CliRunner(env={"SPARK_REMOTE": server.url, **db.env}).invoke(
            app, ["reconcile", "shop.proven", "--json", "--limit", "1000", "--wait", "0.01", "--folder", str(world.root)]
        )
        return done.exit_code, json.loads(done.stdout)[0]

    code, found = reconcile()
    assert (code, found["verdict"], found["lake"]["rows"], found["not_compared"]) == (0, "ok", TABLES * ROWS, {}), found["words"]
    (mine,), (theirs,) = world.files(), spoilt.files()
    shutil.copy(spoilt.folder / theirs, world.folder / mine)
    code, found = reconcile()
    named = {int(f["key"]["lot"]): (int(f["key"]["id"]), *f["columns"]) for f in found["findings"]}
    assert (code, found["differences"], named) == (1, {"different": TABLES}, expected)
    assert Counter(name for _, name in named.values()).keys() == set(COLUMNS) and min(
        Counter(name for _, name in named.values()).values()
    ) >= TABLES // len(COLUMNS)
