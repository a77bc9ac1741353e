"A run tells some of the rows that it has changed, as the source had them before and after."

from __future__ import annotations

import random

import pytest

from dmscdc.history.sample import changed_by, with_deletions
from world import World

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string", "qty": "int"}


def told(done) -> dict:
    "The changed rows by key: what became of each, and its cells."
    return {int(dict(row["key"])["id"]): (row["what"], [tuple(cell) for cell in row["cells"]]) for row in done.sample}


def text(value) -> str | None:
    return None if value is None else str(value)


def asked(w: World, done):
    "With the rows that the job asks the files for, where the format of the lake does not tell them."
    return done.with_sample(changed_by(w.table, done.applied, *w.places[1:]), mask="")


def completed(w: World, done):
    "With what the job asks the files about deletions."
    return done.with_sample(with_deletions(w.table, done.sample, *w.places[1:]), mask="")


@pytest.mark.parametrize("partition", ["", "name"])
def test_rows_before_and_after_are_those_of_the_source(tmp_path, spark, partition, monkeypatch):
    luck, w = random.Random(4), World(tmp_path, spark, SCHEMA).set(key="id", partition=partition)
    draw = lambda: (luck.choice(["lamp", "desk", None]), luck.choice([1, 2, None]))
    rows = {key: draw() for key in range(12)}
    w.load([(key, *row) for key, row in rows.items()])
    first = w.go()
    assert (first.sample, first.rows_before) == ((), None)
    for number in range(1, 4):
        before, lines = dict(rows), []
        for _ in range(9):
            key = luck.randrange(16)
            op = luck.choice("UUD") if key in rows else "I"
            row = rows.pop(key) if op == "D" else draw()
            if op != "D":
                rows[key] = row
            lines.append((op, key, *row))
        done = w.changes(number, lines).go()
        expected = {}
        for key in before.keys() | rows.keys():
            was, now = before.get(key), rows.get(key)
            if was == now:
                continue
            cells = [
                (name, text(a), text(b))
                for name, a, b in zip(SCHEMA, (key, *was) if was else (None,) * 3, (key, *now) if now else (None,) * 3)
                if not (was and now) or a != b
            ]
            expected[key] = ("updated" if was and now else "inserted" if now else "deleted", cells)
        assert len(expected) > 3 and told(asked(w, done)) == expected
        assert told(done) == expected or partition and done.lacks_sample
        (file,) = done.files
        assert file["ops"] == [sum(line[0] == op for line in lines) for op in "IUD"]
        assert done.rows_before + done.rows["inserted"] - done.rows["deleted"] == done.lake["rows"] == len(rows)
    monkeypatch.setattr("dmscdc.history.sample._FILES", 3)
    assert changed_by(w.table, done.applied, *w.places[1:]) == [], "a table of many files is not read again for a report"


@pytest.mark.parametrize("partition", ["", "name"])
def test_a_changed_row_names_the_file_and_row_of_its_last_change_its_time_at_the_source_and_who_made_it(tmp_path, spark, partition):
    luck, schema = random.Random(7), {"dms_ts": "string", "id": "int", "name": "string", "AR_H_USER": "string"}
    w = World(tmp_path, spark, schema).set(key="id", partition=partition)
    w.load([("2018-12-13 09:00:00.000000", key, "lamp", "") for key in range(8)]).go()
    keys, lines, last = set(range(8)), [], {}
    for row in range(1, 49):
        key = luck.randrange(14)
        op = luck.choice("UD") if key in keys else "I"
        (keys.discard if op == "D" else keys.add)(key)
        at, user = f"2018-12-15 09:50:{row:02}.5", luck.choice(["ada", "bob"])
        lines.append((op, f"{at}00000", key, luck.choice(["lamp", "desk"]), user))
        last[key] = (row, at, user)
    done = w.changes(1, lines).go()
    (path,) = (file["path"] for file in done.files)
    assert done.has_deletions
    for sample in [completed(w, asked(w, done)).sample, *([] if done.lacks_sample else [completed(w, done).sample])]:
        assert len(sample) > 6 and {row["what"] for row in sample} == {"inserted", "updated", "deleted"}
        for row in sample:
            number, at, user = last[int(dict(row["key"])["id"])]
            assert (row["file"], row["row"], row["at"], row["facts"]) == (path, number, at, [["AR_H_USER", user]]), row


def test_of_masked_columns_it_is_only_said_that_they_changed_and_of_many_rows_the_first_are_told(tmp_path, spark):
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(key, "lamp", 1) for key in range(200)])
    w.go()
    done = w.changes(1, [("U", key, f"lamp {key}", None) for key in range(100)]).go(mask="NA*, other")
    assert len(done.sample) == 50 and done.rows["updated"] == 100
    assert {(row["what"], *map(tuple, row["cells"])) for row in done.sample} == {("updated", ("name", "•••", "•••"), ("qty", "1", None))}
    assert "lamp" not in str(done.sample)


@pytest.mark.parametrize(
    "at, said", [("2018-12-15 09:50:30", "2018-12-15 09:50:30"), ("2031-01-01 00:00:00", "")], ids=["whole second", "no time of the file"]
)
def test_a_time_is_shown_whole_and_only_where_it_can_be_one_of_the_change_and_a_mask_covers_before_images(tmp_path, spark, at, said):
    schema = {"dms_ts": "string", "id": "int", "name": "string", "BI_name": "string"}
    w = World(tmp_path, spark, schema).set(key="id").load([("2018-12-13 09:00:00.000000", 1, "lamp", None)])
    w.go()
    (row,) = w.changes(1, [("U", at, 1, "desk", "secret")]).go(mask="name").sample
    assert row["at"] == said and "secret" not in str(row) and "desk" not in str(row), row
