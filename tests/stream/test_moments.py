"""Which of two changes came last: random lives of items, with ties, sets, repeats, disorder and days between windows, staged window by window. The oracle is the dictionary that the test changes;
what the lake would hold is the newest change sequence of each key in the staged files, read by DuckDB."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from dmscdc.landing.files import TableRef
from dmscdc.storage.log_store import open_store
from dmscdc.stream.known import WindowIndex
from dmscdc.stream.shards import Window
from dmscdc.stream.stage import Manifest, stage_window
from tiers import sampled

pytestmark = pytest.mark.quick

TABLE, START = TableRef("shop", "customer"), 1_795_219_200_000  # milliseconds
STATES = [
    {"by": {"S": "me"}},
    {"by": {"S": "you"}},
    {"n": {"N": "1"}, "tags": {"SS": ["x", "y", "z"]}},
    {"n": {"N": "1.50"}, "m": {"M": {"s": {"NS": ["10", "9"]}}}},
]


def in_any_order(rng: random.Random, value: object) -> object:
    "The same item as DynamoDB may give it another time: members of sets and attributes in another order."
    if isinstance(value, dict):
        parts = [(name, rng.sample(one, len(one)) if name in ("SS", "NS") else in_any_order(rng, one)) for name, one in value.items()]
        return dict(rng.sample(parts, len(parts)))
    return value


class Life:
    "Items, and the records of their changes, of which many have one time."

    def __init__(self, rng: random.Random):
        self.rng, self.at, self.items = rng, START, {}

    def change(self) -> bytes:
        self.at += self.rng.choice([0, 0, 0, 1, 40, 86_400_000])
        key = {"id": {"S": self.rng.choice("abc")}, "line": {"N": self.rng.choice("12")}}
        name, rng = str(key), self.rng
        old = self.items.pop(name, None)
        new = None if old and rng.random() < 0.4 else {**key, **rng.choice(STATES)}
        if new:
            self.items[name] = new
        images = {"NewImage": new, "OldImage": old}
        body = {
            "ApproximateCreationDateTime": self.at,
            "ApproximateCreationDateTimePrecision": "MILLISECOND",
            "Keys": key,
            **{n: in_any_order(rng, one) for n, one in images.items() if one},
        }
        return json.dumps(
            {
                "eventName": "REMOVE" if not new else "MODIFY" if old else "INSERT",
                "eventID": f"{rng.random()}",
                "tableName": "customer",
                "dynamodb": body,
            }
        ).encode()

    def rows(self) -> dict[tuple, tuple]:
        return {(item["id"]["S"], item["line"]["N"]): (item.get("by", {}).get("S"), item.get("n", {}).get("N")) for item in self.items.values()}


def staged(root: Path) -> dict[tuple, tuple]:
    "The last row of each key by its change sequence."
    files = sorted(map(str, (root / "landing").rglob("*.parquet")))
    last = duckdb.execute(
        "select id, line, arg_max({'op': Op, 'by': \"by\", 'n': n}, AR_H_CHANGE_SEQ) as one from read_parquet($1, union_by_name=true) where Op is not null group by all",
        [files],
    ).fetchall()
    return {(key, line): (one["by"], one["n"]) for key, line, one in last if one["op"] != "D"}


def lived(root: Path, seed: int, windows: int) -> tuple[Manifest, Life]:
    rng, manifest, waits = random.Random(seed), Manifest(is_watched=True), []
    life, known, number = Life(rng), WindowIndex(open_store(str(root)), "known"), 0
    for window in range(windows):
        waits += [life.change() for _ in range(rng.randrange(2, 12))]
        rng.shuffle(waits)
        held = waits[: rng.randrange(5)] if window < windows - 1 else []
        records = [
            (f"shard-{rng.randrange(2)}", str(number := number + 1), data) for data in waits[len(held) :] for _ in range(1 + (rng.random() < 0.2))
        ]
        waits = held
        manifest = stage_window(
            str(root / "landing"),
            TABLE,
            manifest,
            Window(tuple(records)),
            index=known,
            retention=timedelta(days=30),
            declared=[("id", "string"), ("line", "string"), ("by", "string"), ("n", "string")],
        )
    return manifest, life


@pytest.mark.parametrize("windows, lives", sampled([(1, 40), (4, 60), (1, 300), (4, 300), (9, 300)], (1, 40), (4, 60)))
def test_after_any_life_the_newest_change_of_each_item_is_the_last(tmp_path, windows, lives):
    unsure = 0
    for seed in range(lives):
        manifest, life = lived(tmp_path / str(seed), seed, windows)
        items, found = life.rows(), staged(tmp_path / str(seed))
        named = {tuple(next(iter(value.values())) for value in json.loads(text)["dynamodb"]["Keys"].values()) for _, _, text in manifest.open}
        assert {key for key in {**items, **found} if items.get(key) != found.get(key)} <= named, seed
        unsure += bool(named)
    assert unsure <= 1 + lives // 100  # three and more changes in one millisecond, divided over windows
