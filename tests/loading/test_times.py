"Moments of one table in every form that DMS and its engines write: milliseconds and microseconds, with and without the mark of UTC, old 96-bit ones."

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from world import World, closed

pytestmark = pytest.mark.test

FIRST = datetime(2018, 12, 15, 10, 3, 11, 204000, timezone.utc)
FORMS = [
    pa.timestamp("ms"),
    pa.timestamp("us"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
]  # the last is written as 96 bits


def put(world: World, name: str, rows: list[tuple[str | None, int, datetime]], form: pa.DataType) -> None:
    ops, keys, moments = zip(*rows)
    micros = [int((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(microseconds=1)) for moment in moments]
    at = pa.array([one // 1000 if form.unit == "ms" else one * 1000 if form.unit == "ns" else one for one in micros], pa.int64()).cast(form)
    columns = {"Op": list(ops)} if ops[0] else {}
    world.raw.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table({**columns, "id": pa.array(keys, pa.int32()), "at": at}),
        world.raw / f"{name}.parquet",
        use_deprecated_int96_timestamps=form.unit == "ns",
    )


def test_the_same_moments_whatever_form_a_file_has(spark, tmp_path):
    world, wanted = World(tmp_path, spark, {}).set(key="id"), {}
    for number, form in enumerate([FORMS[2], *FORMS]):
        changed = [(None if not number else "I", 10 * number + n, FIRST + timedelta(seconds=10 * number + n)) for n in range(3)]
        changed += [("U", key, moment + timedelta(days=1)) for key, moment in list(wanted.items())[:2]]
        put(world, closed(number) if number else "LOAD00000001", changed, form)
        done = world.go()
        assert done.verdict == "ok", (form, done.words)
        wanted.update({key: moment for _, key, moment in changed})
        assert world.lake('id, epoch_us("at")') == sorted(
            (key, int(moment.timestamp()) * 1_000_000 + moment.microsecond) for key, moment in wanted.items()
        ), form
    assert [str(c) for c in world.lake_table.head().schema] == ["id int", "at timestamp"]
