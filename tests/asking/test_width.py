"Many columns: what Spark is asked for does not grow with their square. Nothing is timed."

from __future__ import annotations

import sys

import pytest
from raw_replay import T

from dmscdc.capture.writer import write_changes, write_load
from dmscdc.history.as_of import as_of
from dmscdc.history.changelog import open_changelog, upto
from dmscdc.history.feed import feed
from dmscdc.history.span import landed
from dmscdc.scd2 import update as scd2_table
from dmscdc.state.registry import open_state
from tiers import sampled
from world import closed

pytestmark = pytest.mark.proof


def put(folder, columns: int) -> dict[str, object]:
    "Two rows, a change of one in half of the columns, and a delete; the row that is left."
    shape = {"id": "int", **{f"c{n}": ("int", "string")[n % 2] for n in range(columns - 1)}}
    half = dict(list(shape.items())[: columns // 2])
    row = lambda id, of, add=0: [id, *[str(n + add) if n % 2 else n + add for n in range(len(of) - 1)]]
    write_load(folder, T, [row(1, shape), row(2, shape)], shape)
    write_changes(folder, T, [("U", *row(1, half, 7))], closed(1), half)
    write_changes(folder, T, [("D", *row(2, shape))], closed(2), shape)
    return {**dict(zip(shape, row(1, shape))), **dict(zip(half, row(1, half, 7)))}


def versions(spark, folder):
    "The rows of a type-2 table, as they are about to be written."
    made, state = [], f"sqlite:{folder / 'state.db'}"
    open_state(state).put_settings(T, key="id")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scd2_table, "stage_versions", lambda spark, scd2, transaction, rows, *more: made.append(rows) or sys.exit())
        with pytest.raises(SystemExit):
            scd2_table.update_versions(str(T), str(folder), f"{folder}-lake", state, landed=True, quiet_period=0, spark=lambda: spark)
    return made[0]


def questions(spark, folder):
    past = open_changelog(str(folder), T)
    first = landed(upto(past, "load"))
    return {
        "versions": lambda: versions(spark, folder),
        "as-of": lambda: as_of(spark, past, ["id"]).rows,
        "feed": lambda: feed(spark, past, ["id"], first).rows,
        "feed full": lambda: feed(spark, past, ["id"], first, net=False).rows,
        "feed reset": lambda: feed(spark, past, ["id"], net=False).rows,
    }


def windows(rows) -> int:
    "How many looks over a key's changes Spark is asked for. Each of them carries a row, so one a column would make the square."
    return rows._jdf.queryExecution().optimizedPlan().toString().count("windowspecdefinition")


@pytest.mark.parametrize("name", sampled(["as-of", "feed", "feed full", "feed reset", "versions"], "feed", "versions"))
def test_the_looks_over_the_changes_of_a_key_do_not_grow_with_the_columns(spark, tmp_path, name):
    spark.conf.set("spark.sql.debug.maxToStringFields", "100000")
    found = []
    for columns in (10, 40):
        put(tmp_path / str(columns), columns)
        found.append(windows(questions(spark, tmp_path / str(columns))[name]()))
    spark.conf.unset("spark.sql.debug.maxToStringFields")
    assert found[0] == found[1] > 0, found
