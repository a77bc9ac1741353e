"A lake and items of the AWS solution of 2019 are taken over where they lie, and the replay goes on. The old solution is played by plain SQL."

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aws.dynamo import dynamodb, dynamodb_server, dynamodb_table  # noqa: F401
from dmscdc.lake.parquet.copy import unmanaged_files
from dmscdc.lake.parquet.table import ParquetTable
from dmscdc.lake.parquet.transaction_log import LakeFile, TransactionLog, commit, recover
from dmscdc.landing.files import RawFile
from dmscdc.service.config import read_config, write_config
from dmscdc.service.status import read_statuses, status_row
from dmscdc.state.sqlite import SqliteState
from dmscdc.storage.log_store import LogStore
from world import World, closed, replay, replayed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string", "dept": "string", "at": "timestamp", "n": "int"}
ALL, RAW = 'id, name, dept, epoch_us("at"), n, Op', "id, name, dept, at, n, Op"
FAR = datetime(9999, 12, 31, 23, 59, 59)
LOADED = [
    (1, "Lamp", "home", FAR, 1),
    (2, "Desk", "home", datetime(2018, 12, 1), None),
    (3, "Sofa", "A&B", None, 3),
    (4, "Bed", "home", FAR, 4),
    (7, "Chair", None, FAR, 7),
]


@dataclass
class Old(World):
    "A table that the old solution has loaded."

    @property
    def folder(self) -> Path:
        return self.root / "old" / self.ref.name

    @property
    def lake_table(self) -> ParquetTable:
        return ParquetTable(str(self.root / "old"), self.ref, folder=self.ref.name)

    def asides(self) -> list[Path]:
        return [p for p in (self.root / "old" / "_dmscdc").rglob("aside/**/*") if p.is_file()]

    def settled(self) -> bool:
        return self.files() == sorted(f.name for f in self.lake_table.transaction_log.head().files) and not self.asides()

    def loaded_in_2019(self, keys=("id",), partition=("dept",)) -> Old:
        "Lake and item after all raw files that are there: Spark's names, times in 96 bits, `Op` where it happens to be, files that differ."
        rows = replay(self.raw, keys)
        for kind in ("I", "U"):
            folders: dict[str, list[dict]] = {}
            for row in (row for row in rows.values() if row["Op"] == kind):
                at = "/".join(
                    f"{name}={str(row[name]).replace('&', '%26') if row[name] is not None else '__HIVE_DEFAULT_PARTITION__'}" for name in partition
                )
                folders.setdefault(at, []).append({name: value for name, value in row.items() if name not in (*partition, "_cdc_file", "_cdc_row")})
            for number, (folder, found) in enumerate(folders.items()):
                names = list(dict.fromkeys(name for row in found for name in row if name != "Op"))
                types = {"id": pa.int32(), "n": pa.int32(), "at": pa.timestamp("us", "UTC")}
                columns = {name: pa.array([row.get(name) for row in found], types.get(name, pa.string())) for name in names}
                op = {"Op": [kind] * len(found)}
                path = self.folder / folder / f"part-{number:05}-{kind.lower()}0c7-{kind.lower()}.c000.snappy.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.table(columns | op if kind == "I" else op | columns), path, use_deprecated_int96_timestamps=True)
        (self.folder / "_SUCCESS").touch()
        self.set(key=keys, partition=partition) if keys else self.set(insert_only=True, partition=partition)
        changes = sorted(p.name for p in self.raw.glob("2*.parquet"))
        put = max(p.stat().st_mtime for p in self.raw.glob("LOAD*"))
        self.item(
            folder=f"{self.ref.name}/",
            out_path=str(self.root / "old"),
            LastIncrementalFile=f"shop-raw/{self.ref.schema}/{self.ref.name}/{changes[-1]}",
            LastFullLoadDate=datetime.fromtimestamp(put, timezone.utc).strftime("%Y-%m-%d %H:%M:%S"),
        )
        return self

    def item(self, **texts: str) -> None:
        "What the old solution, or a person, writes into the item."
        self.state
        with sqlite3.connect(self.root / "state.db") as db:
            for name, text in texts.items():
                db.execute(f"update DMSCDC_Controller set {name} = ? where path = ?", (text, f"{self.ref.schema}/{self.ref.name}/"))

    def equals_the_replay(self, **more) -> None:
        assert self.lake(ALL) == replayed(self.raw, ["id"], RAW, **more) and self.settled()


def of_2019(tmp_path, spark) -> Old:
    "Five rows loaded, one of them changed, one gone and one come since."
    w = Old(tmp_path, spark, SCHEMA).load(LOADED)
    return (
        w.changes(2, [("U", 1, "Night Lamp", "home", FAR, 10), ("D", 4, *[None] * 4)]).changes(4, [("I", 5, "Rug", "A&B", FAR, 5)]).loaded_in_2019()
    )


def more(w: Old) -> Old:
    "What DMS brings next: an update, one that moves a row to another partition, a delete, a new row."
    return w.changes(
        6, [("U", 1, "Sun Lamp", "home", FAR, 11), ("U", 2, "Oak Desk", "garden", None, 2), ("D", 3, *[None] * 4), ("I", 6, "Tent", "garden", FAR, 6)]
    )


def test_the_plan_shows_settings_and_position_as_they_were_and_says_what_going_on_means(tmp_path, spark):
    w = more(of_2019(tmp_path, spark))
    write_config(tmp_path, landing="landing", lake="lake", state="sqlite:state.db", quiet_period=0)
    before = w.table_state()
    (look,) = read_statuses(read_config(tmp_path))
    shown = status_row(look)
    assert (shown["state"], shown["key"], shown["plan"], shown["position"]) == (
        "ready",
        ["id"],
        "incremental",
        f"load 1 (1 file), changes up to {closed(4)}.parquet",
    )
    assert [f.name for f in look.plan.changes] == [f"{closed(6)}.parquet"] and look.has_work and look.item.partition == ("dept",)
    assert "go on from the 2019 solution" in look.plan.sentence and "all 4 files of its lake are rewritten once" in look.plan.sentence
    assert (
        "certain only after a reconcile or a reload" in look.plan.sentence
        and "it knows no lease" in look.plan.sentence
        and "ATTENTION" not in look.plan.sentence
    )
    assert w.table_state() == before


def test_the_first_pass_takes_the_lake_over_where_it_lies_and_goes_on(tmp_path, spark):
    w = more(of_2019(tmp_path, spark))
    theirs = {f for f in w.files() if "part-" in f}
    done = w.go()
    assert done.verdict == "ok" and done.words.startswith(
        "4 files of the 2019 lake taken over, 5 rows, equal to the source for certain only after a reconcile or a reload; 1 file, 4 rows read"
    )
    assert (done.position["before"], done.commit) == (f"load 1 (1 file), changes up to {closed(4)}.parquet", 2)
    (w.folder / "_SUCCESS").unlink()
    w.equals_the_replay()
    assert (
        not theirs & set(w.files()) and {f.split("/")[0] for f in theirs} <= {f.split("/")[0] for f in w.files()} and not (tmp_path / "lake").exists()
    )
    assert w.lake("id, _cdc_file") == [
        (1, f"{closed(6)}.parquet"),
        (2, f"{closed(6)}.parquet"),
        (5, "dept=A%26B/0-adopted-part-00001-i0c7-i.c000.snappy.parquet"),
        (6, f"{closed(6)}.parquet"),
        (7, "dept=__HIVE_DEFAULT_PARTITION__/0-adopted-part-00002-i0c7-i.c000.snappy.parquet"),
    ]
    assert w.state.get(w.ref).instruction is None and w.idle().verdict == "nothing"


def test_without_anything_new_the_lake_is_taken_over_and_files_that_come_late_are_seen(tmp_path, spark):
    w = of_2019(tmp_path, spark)
    done = w.go()
    assert (done.verdict, done.commit, done.lake["files_rewritten"]) == ("ok", 1, 4) and done.words.endswith("a reconcile or a reload")
    w.changes(6, [("U", 1, "six", "home", FAR, 6)]).changes(8, [("U", 2, "eight", "home", FAR, 8)])
    assert w.go().verdict == "ok"
    w.changes(7, [("U", 1, "seven", "garden", FAR, 7), ("U", 2, "seven", "home", FAR, 7)])
    assert [(f["path"][:-8], f["kind"]) for f in w.go().files] == [(closed(7), "late"), (closed(8), "again")]
    (w.folder / "_SUCCESS").unlink()
    w.equals_the_replay()
    w.changes(3, [("U", 1, "three", "home", FAR, 3)])
    done = w.idle()
    assert (
        done.verdict == "attention"
        and f"arrived too late, before the look-back window (from {closed(4)}.parquet), and not applied: {closed(3)}" in done.words
    )


def test_a_column_that_waits_in_a_change_file_is_added_by_the_one_rewrite(tmp_path, spark):
    w = of_2019(tmp_path, spark)
    w.changes(6, [("U", 1, "Lamp", "home", FAR, 2**40, "red")], {**SCHEMA, "n": "bigint", "color": "string"})
    done = w.go()
    assert done.verdict == "ok" and [str(c) for c in w.lake_table.head().schema][-2:] == ["n bigint", "color string"]
    assert w.lake("id, n, color") == replayed(w.raw, ["id"], "id, n, color") and done.schema == ()


def test_inserts_without_a_key_are_taken_over_too_and_never_doubled(tmp_path, spark):
    w = Old(tmp_path, spark, SCHEMA).load(LOADED).changes(2, [("I", 1, "again", "home", FAR, 1)]).loaded_in_2019((), ())
    assert w.lake("count(*)") == [(1,)], "without a key, the stand-in for the old solution keeps one row"
    w.changes(4, [("I", 1, "third", "home", FAR, 1)])
    assert (w.go().verdict, w.lake("name")) == ("ok", [("again",), ("third",)]) and w.idle().verdict == "nothing"


# Crashes


class Death(BaseException):
    "The process ends here."


def dying(method, after: int, done: bool):
    "A request that ends the process the n-th time, before or after it was done."

    def call(self, *args):
        call.count += 1
        if call.count == after and not done:
            raise Death
        answer = method(self, *args)
        if call.count == after:
            raise Death
        return answer

    call.count = 0
    return call


@pytest.mark.parametrize(
    "request_, after, done, begun",
    [("create", 1, False, False), ("create", 1, True, True), ("copy", 2, True, True), ("delete", 2, True, True), ("save", 1, False, True)],
)
def test_a_death_in_the_middle_leaves_the_old_lake_or_the_new_and_the_next_pass_ends_it(tmp_path, spark, monkeypatch, request_, after, done, begun):
    w = more(of_2019(tmp_path, spark))
    theirs = w.lake("id, name, dept, n, Op")
    where, name = (SqliteState, "save_position") if request_ == "save" else (LogStore, request_)
    with monkeypatch.context() as patch, pytest.raises(Death):
        patch.setattr(where, name, dying(getattr(where, name), after, done))
        w.go()
    head = w.lake_table.head()
    assert (head is not None) == begun
    seen = (
        [tuple(row) for row in w.lake_table.read(spark).select("id", "name", "dept", "n", "Op").collect()]
        if begun
        else w.lake("id, name, dept, n, Op")
    )
    assert sorted(seen) == sorted(theirs)
    SqliteState(tmp_path / "state.db").release(w.state.holder(w.ref)) if w.state.holder(w.ref) else None
    assert w.go().verdict == "ok"
    (w.folder / "_SUCCESS").unlink()
    w.equals_the_replay()
    assert w.state.get(w.ref).instruction is None and w.idle().verdict == "nothing"


def test_at_every_request_the_folder_is_theirs_or_ours_once_it_is_settled(tmp_path):
    points, ended = 0, False
    while not ended:
        points += 1
        root = tmp_path / str(points)
        for name in ("part-a.parquet", "day=1/part-b.parquet"):
            (root / "item" / name).parent.mkdir(parents=True, exist_ok=True), (root / "item" / name).write_text("theirs")
        journal, adds = TransactionLog(LogStore(str(root)), "item", "_dmscdc/item"), []
        for name in ("000000000001-ab-1.parquet", "day=1/000000000001-ab-2.parquet"):
            path = root / "_dmscdc/item/aside/000000000001-ab" / name
            path.parent.mkdir(parents=True, exist_ok=True), path.write_text("ours")
            adds.append(LakeFile(name, f"000000000001-ab/{name}", 1, 4))
        left = [points]

        class Mortal(LogStore):
            "Each request may be the last."

        for name in ("list", "last", "read", "delete", "copy", "create", "clear_staging"):

            def request_(self, *args, method=getattr(LogStore, name)):
                left[0] -= 1
                if left[0] == 0:
                    raise Death
                return method(self, *args)

            setattr(Mortal, name, request_)
        try:
            commit(replace(journal, store=Mortal(str(root))), None, "ab", adds, unmanaged_files(journal), {})
            ended = True
        except Death:
            pass
        entry = journal.head()
        recover(journal, entry), recover(journal, entry)
        found = sorted(str(p.relative_to(root / "item")) for p in (root / "item").rglob("*.parquet"))
        assert found == (sorted(f.name for f in adds) if entry else ["day=1/part-b.parquet", "part-a.parquet"]), f"dead at request {points}"
    assert points > 8


# The old schedule


def test_an_old_schedule_that_works_while_the_lake_is_taken_over_is_noticed_and_nothing_has_moved(tmp_path, spark):
    w = of_2019(tmp_path, spark)

    def meanwhile():
        pq.write_table(pa.table({"Op": ["I"], "id": pa.array([9], pa.int32())}), w.folder / "dept=home" / "part-00000-new.parquet")
        return spark

    theirs = w.files()
    import dmscdc.lake.parquet.table as parquet

    copy = parquet.copy_staged
    try:
        parquet.copy_staged = lambda *args, **how: (copy(*args, **how), meanwhile())[0]
        done = w.go()
    finally:
        parquet.copy_staged = copy
    assert done.verdict == "failed" and "dept=home/part-00000-new.parquet came or went" in done.words and "stop its Glue trigger" in done.words
    assert w.lake_table.head() is None and set(theirs) < set(w.files())
    (w.folder / "dept=home" / "part-00000-new.parquet").unlink()
    assert w.go().verdict == "ok"


def test_a_progress_that_moves_without_us_is_said_by_every_plan(tmp_path, spark):
    w = of_2019(tmp_path, spark)
    assert w.go().verdict == "ok"
    w.item(LastIncrementalFile=f"shop/item/{closed(6)}.parquet")
    done = w.idle()
    assert done.verdict == "attention" and "the schedule of the 2019 solution still seems to run. Stop its Glue trigger" in done.words
    assert w.idle().verdict == "attention"
    more(w)
    done = w.go()
    assert done.verdict == "attention" and done.files[0]["path"] == f"{closed(6)}.parquet" and "still seems to run" in done.words
    assert w.idle().verdict == "nothing"


def test_a_lake_that_is_ours_already_is_not_taken_over_again_and_items_ahead_of_it_are_said(tmp_path, spark):
    w = of_2019(tmp_path, spark)
    assert w.go().commit == 1
    (tmp_path / "state.db").unlink()
    w.set(key="id", partition="dept")
    w.item(
        folder="item/", out_path=str(tmp_path / "old"), LastIncrementalFile=f"shop/item/{closed(6)}.parquet", LastFullLoadDate="2018-12-15 00:00:00"
    )
    done = w.idle()
    assert (done.verdict, done.commit) == (
        "attention",
        1,
    ) and f"says that it has applied {closed(6)}.parquet, but this lake has commits of ours" in done.words
    assert w.state.get(w.ref).instruction is None and w.idle().verdict == "nothing"


# Another way, and no way


def test_a_reload_or_a_new_load_set_replaces_their_files_where_they_lie(tmp_path, spark):
    w = more(of_2019(tmp_path, spark))
    w.state.instruct(w.ref, {"kind": "reload"})
    done = w.go()
    assert done.verdict == "ok" and "part-" not in " ".join(w.files())
    (w.folder / "_SUCCESS").unlink()
    w.equals_the_replay()


def test_a_load_set_that_the_old_solution_has_not_seen_is_a_load_like_any_other(tmp_path, spark):
    w = more(of_2019(tmp_path, spark))
    w.item(LastFullLoadDate="2018-12-14 00:00:00")
    done = w.idle()
    assert (
        done.verdict == "attention"
        and "a new load set of 1 file, but files were rewritten or copied after DMS wrote them" in done.words
        and RELOAD in done.words
    )
    for path in w.raw.glob("2*.parquet"):
        os.utime(path, (RawFile(path.name, 0, 0).stamp.timestamp() + 2,) * 2)
    os.utime(next(w.raw.glob("LOAD*")), (RawFile(f"{closed(1800)}.parquet", 0, 0).stamp.timestamp(),) * 2)
    done = w.go()
    assert (done.verdict, done.commit) == ("ok", 1), done.notes
    assert "replace the table by load 1" in done.plan["sentence"] and "taken over" not in done.words
    assert w.lake("id, name") == sorted(row[:2] for row in LOADED) and "part-" not in " ".join(w.files())


RELOAD = "dmscdc table rewind shop.item --reload --keep-changes"


@pytest.mark.parametrize(
    "break_, words, help_",
    [
        (
            lambda w: pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "Op": ["I"]}), w.folder / "dept=home" / "part-9.parquet"),
            "id=1 stands in 2 rows",
            RELOAD,
        ),
        (lambda w: w.state.put_settings(w.ref, partition="name"), "the partition is set to name", "dmscdc table set shop.item --partition dept"),
        (lambda w: w.state.put_settings(w.ref, key="code"), "the key column code was expected", "dmscdc table set shop.item --key"),
        (
            lambda w: pq.write_table(pa.table({"id": pa.array([7], pa.int32()), "n": ["x"]}), w.folder / "dept=home" / "part-9.parquet"),
            "column n of dept=home/part-9.parquet is string, the lake holds int",
            RELOAD,
        ),
        (lambda w: w.item(PrimaryKey="null"), "no key is set", "dmscdc table set shop.item --key"),
        (lambda w: [p.unlink() for p in w.folder.rglob("part-*")], "no Parquet file lies where its item says", RELOAD),
    ],
)
def test_what_cannot_be_taken_over_stays_as_it_is_with_the_command_that_helps(tmp_path, spark, break_, words, help_):
    w = more(of_2019(tmp_path, spark))
    break_(w)
    before = w.table_state()
    done = w.go()
    assert done.verdict in ("refused", "attention") and words in done.words and help_ in done.words, done.words
    assert w.table_state() == before


# Items in DynamoDB


@pytest.mark.proof
def test_items_in_dynamodb_bring_their_lake_with_them(tmp_path, spark, dynamodb_table):  # noqa: F811
    from dmscdc.storage.filesystem import client

    w = more(of_2019(tmp_path, spark))
    path = "shop-raw/dms/shop/item/"
    texts = {
        "path": path,
        "bucket": "shop-raw",
        "prefix": "dms/shop/",
        "folder": "item/",
        "PrimaryKey": "id",
        "PartitionKey": "dept",
        "ActiveFlag": "true",
        "out_path": f"{tmp_path}/old/",
        "LastFullLoadDate": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S"),
        "LastIncrementalFile": f"{path}{closed(4)}.parquet",
    }
    client("dynamodb").put_item(TableName=dynamodb_table, Item={name: {"S": text} for name, text in texts.items()})
    from dmscdc.load.process import process_table

    run = lambda: process_table(w.table, str(w.landing), str(tmp_path / "lake"), f"dynamodb:{dynamodb_table}", quiet_period=0, spark=lambda: spark)  # noqa: E731
    assert (run().verdict, run().verdict) == ("ok", "nothing")
    (w.folder / "_SUCCESS").unlink()
    w.equals_the_replay()
    now = client("dynamodb").get_item(TableName=dynamodb_table, Key={"path": {"S": path}})["Item"]
    assert now["LastIncrementalFile"]["S"] == f"{path}{closed(6)}.parquet" and {now[name]["S"] for name in ("folder", "out_path")} == {
        "item/",
        f"{tmp_path}/old/",
    }
