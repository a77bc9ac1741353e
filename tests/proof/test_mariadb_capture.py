"""A MariaDB as the source of the stand-in for DMS. What the log says is compared with what the server says, by two decoders that share nothing."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import create_engine
from typer.testing import CliRunner

from dmscdc.cli.main import app
from world import World

pytestmark = pytest.mark.proof

TYPES = {
    "tinyint": ("-128", "127", "0"),
    "tinyint unsigned": ("255", "0", "155"),
    "smallint": ("-32768", "32767"),
    "smallint unsigned": ("65535", "0"),
    "mediumint": ("-8388608", "8388607"),
    "mediumint unsigned": ("16777215", "0"),
    "int": ("-2147483648", "2147483647"),
    "int unsigned": ("4294967295", "0"),
    "bigint": ("-9223372036854775808", "9223372036854775807"),
    "bigint unsigned": ("18446744073709551615", "0"),
    "decimal(10,2)": ("-99999999.99", "0.01", "-0.50"),
    "decimal(38,10)": ("1234567890123456789012345678.0123456789", "-0.0000000001"),
    "decimal(5,5)": ("0.00001", "-0.99999"),
    "float": ("0.1", "-3.4e38", "16777217"),
    "double": ("0.1", "1.7976931348623157e308", "-2.2250738585072014e-308"),
    "bit(1)": ("b'1'", "b'0'"),
    "bit(9)": ("b'100000001'", "b'0'"),
    "bit(64)": ("18446744073709551615", "1"),
    "year": ("2155", "1901", "0"),
    "date": ("'9999-12-31'", "'1000-01-01'", "'0000-00-00'", "'2018-00-00'"),
    "datetime": ("'2018-12-15 23:59:59'", "'0000-00-00'"),
    "datetime(6)": ("'2018-12-15 10:03:11.204567'", "'1000-01-01'"),
    "datetime(3)": ("'2018-12-15 10:03:11.009'",),
    "timestamp(6) null": ("'2018-12-15 10:03:11.000001'", "'1970-01-02'"),
    "timestamp null": ("'2038-01-01 03:14:07'",),
    "time": ("'-838:59:59'", "'00:00:01'"),
    "time(6)": ("'-00:00:00.000001'", "'12:34:56.78'"),
    "time(2)": ("'23:59:59.99'",),
    "char(5)": ("'ab '", "''", "'äöü'"),
    "varchar(300)": ("'x'", "''", "'😀 \\'\\\"\\\\'"),
    "varchar(20) character set latin1": ("'ñandú'",),
    "text": ("'line\nline'", "''"),
    "longtext": ("repeat('z', 70000)",),
    "binary(5)": ("x'0102000000'", "x'0000000000'", "x'ff'"),
    "varbinary(9)": ("x'0100'", "x''"),
    "blob": ("x'00ff00'",),
    "longblob": ("repeat('z', 70000)",),
    "enum('small','','big')": ("'big'", "''"),
    "set('a','b','c')": ("'a,c'", "''", "'c,b'"),
    "json": ("'{\"a\": [1, null]}'",),
    "boolean": ("true", "false"),
}


@pytest.fixture()
def shell(mariadb, tmp_path, monkeypatch):
    "Types `dmscdc capture` for the database, in an empty folder."
    monkeypatch.chdir(tmp_path)
    for name, value in mariadb.env.items():
        monkeypatch.setenv(name, value)
    mariadb.run("drop database if exists seen", "create database seen character set utf8mb4")
    return lambda *more: CliRunner().invoke(app, ["capture", at(mariadb), "--landing", str(tmp_path / "landing"), *more])


def at(mariadb) -> str:
    return mariadb.source.replace("reader@", "replica@").replace("/shop", "/seen")


def sql(mariadb, *statements: str) -> None:
    mariadb.run("use seen", "set sql_mode = ''", *statements)


@contextmanager
def rolled_back(mariadb):
    "Statements of one transaction, which does not come to its end."
    with create_engine(mariadb.url).begin() as db:
        db.exec_driver_sql("use seen")
        yield db.exec_driver_sql
        raise ValueError("rolled back")


def said(done) -> str:
    return " ".join(f"{done.output} {done.stderr}".split())


def files(landing: Path, table: str, load: bool = False) -> list[pa.Table]:
    "The rows of a table's change files in order, or of its load."
    return [pq.read_table(path) for path in sorted((landing / "seen" / table).glob("LOAD*" if load else "2*"))]


def rows(landing: Path, table: str, load: bool = False) -> list[dict]:
    return [row for found in files(landing, table, load) for row in found.to_pylist()]


def test_every_type_is_logged_as_it_is_loaded(shell, mariadb, tmp_path):
    columns = {f"c{i}": kind for i, kind in enumerate(TYPES)}
    sql(mariadb, f"create table kinds (id int primary key, n int, {', '.join(f'{name} {kind}' for name, kind in columns.items())})")
    many = max(map(len, TYPES.values()))
    for place in range(many):
        values = [some[place] if place < len(some) else "null" for some in TYPES.values()]
        sql(mariadb, f"insert into kinds values ({place}, 0, {', '.join(values)})".replace("%", "%%"))
    assert "1 file" in shell().output
    sql(
        mariadb,
        "update kinds set n = 1",
        "insert into kinds select id + 100, n, " + ", ".join(columns) + " from kinds",
        "delete from kinds where id < 100",
    )
    assert "1 file" in shell().output
    (loaded,), (logged,) = files(tmp_path / "landing", "kinds", load=True), files(tmp_path / "landing", "kinds")
    assert logged["Op"].to_pylist() == ["U"] * many + ["I"] * many + ["D"] * many
    for name, kind in columns.items():
        assert logged[name].type == loaded[name].type and logged[name].to_pylist() == 3 * loaded[name].to_pylist(), (kind, logged[name], loaded[name])


def test_a_stream_is_written_as_dms_writes_it(shell, mariadb, tmp_path):
    landing = tmp_path / "landing"
    sql(
        mariadb,
        "create table item (id int primary key, name varchar(20), note text)",
        "create table bill (id int primary key, item int)",
        "insert into item values (1,'lamp','a'),(2,'desk','b')",
    )
    assert shell().output.count("LOAD00000001") == 1, "a table without rows has no load file"
    sql(
        mariadb,
        "insert into item values (3,'sofa','c'),(4,'rug',null)",
        "insert into bill values (1,3)",
        "savepoint s",
        "delete from item",
        "rollback to s",
        "update item set id = 9, name = 'LAMP' where id = 1",
        "delete from item where id = 2",
    )
    with pytest.raises(ValueError):
        with rolled_back(mariadb) as run:
            run("insert into bill values (7,7)")
    shell("--sequence-column", "seq", "--timestamp-column", "at")
    item, bill = rows(landing, "item"), rows(landing, "bill")
    assert [(r["Op"], r["id"], r["name"], r["note"]) for r in item] == [
        ("I", 3, "sofa", "c"),
        ("I", 4, "rug", None),
        ("U", 9, "LAMP", "a"),
        ("D", 2, "desk", "b"),
    ]
    assert [(r["Op"], r["id"], r["item"]) for r in bill] == [("I", 1, 3)], "what was rolled back is nowhere"
    sequences = [r["seq"] for r in item + bill]
    assert (
        len({*sequences}) == 5
        and all(len(one) == 35 for one in sequences)
        and sorted(sequences[:4]) == sequences[:4]
        and sequences[1] < sequences[4] < sequences[2]
    )
    assert len({r["at"] for r in item + bill}) == 1, "one transaction, one commit time"
    sql(
        mariadb,
        "insert into item values (5,'vase','d')",
        "alter table item add column price decimal(6,2) default 1.5 first",
        "update item set price = 2.25 where id = 5",
    )
    sql(
        mariadb,
        "alter table item drop column note",
        "insert into item (id, name) values (6,'pot')",
        "create table made (id int primary key)",
        "insert into made values (1)",
    )
    shell()
    shapes = [(found.column_names, found["Op"].to_pylist()) for found in files(landing, "item")[1:]]
    assert shapes == [(["Op", "id", "name", "note"], ["I"]), (["Op", "id", "name", "note", "price"], ["U"]), (["Op", "id", "name", "price"], ["I"])]
    assert rows(landing, "made", load=True) == [{"id": 1}] and [r["Op"] for r in rows(landing, "made")] == ["I"], (
        "the change of which the load knows is repeated, as by DMS"
    )
    sql(mariadb, "insert into bill values (2,4)", "truncate table `bill`", "insert into bill values (3,5)")
    shell()
    assert [(r["Op"], r["id"]) for r in rows(landing, "bill")] == [("I", 3)] and len(list((landing / "seen" / "bill").iterdir())) == 1, (
        "a table that is emptied loses its files"
    )
    before = {path: path.stat().st_mtime_ns for path in landing.rglob("*")}
    assert "0 files" in shell().output and before == {path: path.stat().st_mtime_ns for path in landing.rglob("*")}


def test_of_minimal_images_only_what_changed_is_known(shell, mariadb, tmp_path):
    task = tmp_path / "task.json"
    task.write_text(json.dumps({"S3Settings": {"DataFormat": "csv", "UseCsvNoSupValue": True, "CsvNoSupValue": "?", "AddColumnName": True}}))
    sql(mariadb, "create table item (id int primary key, name varchar(20), note text)", "insert into item values (1,'lamp','a'),(2,'desk','b')")
    shell("--settings", str(task))
    sql(mariadb, "set session binlog_row_image = minimal", "update item set note = null where id = 1", "update item set id = 7 where id = 2")
    shell("--settings", str(task))
    (path,) = (tmp_path / "landing" / "seen" / "item").glob("2*.csv")
    assert path.read_text().splitlines() == ["Op,id,name,note", "U,1,?,", "U,7,?,?"]


def test_what_the_log_does_not_tell_is_refused_with_its_name(shell, mariadb, tmp_path):
    sql(mariadb, "create table odd (id int primary key, at uuid)")
    assert "DMS has no type for a column: at is uuid" in said(shell())
    done = CliRunner().invoke(
        app, ["capture", at(mariadb).replace("replica", "reader"), "--landing", str(tmp_path / "landing"), "--position", "other.json"]
    )
    assert done.exit_code == 2 and "A capture needs: grant select, replication slave, binlog monitor" in said(done)
    sql(mariadb, "drop table odd", "create table item (id int primary key, n int)")
    shell()
    sql(mariadb, "set session binlog_format = statement", "insert into item values (1,1)")
    assert "a statement instead of rows: 'insert into item" in said(shell())
    (tmp_path / "capture.json").unlink()
    shell()
    sql(mariadb, "commit", "xa start 'x'", "insert into item values (2,2)", "xa end 'x'", "xa prepare 'x'", "xa commit 'x'")
    assert 'a statement instead of rows: "XA END' in said(shell())
    (tmp_path / "capture.json").unlink()
    sql(mariadb, "flush binary logs")
    shell()
    sql(mariadb, "reset master")
    assert "cannot be read from log.0" in said(shell())
    sql(mariadb, "set global binlog_row_metadata = minimal")
    try:
        assert "binlog_row_metadata is MINIMAL, FULL is needed" in said(shell())
    finally:
        sql(mariadb, "set global binlog_row_metadata = full")


def test_what_waits_for_its_file_is_not_lost_and_what_was_written_is_repeated(shell, mariadb, tmp_path):
    landing, task = tmp_path / "landing", tmp_path / "task.json"
    task.write_text(json.dumps({"S3Settings": {"DataFormat": "parquet", "CdcMinFileSize": 1, "CdcMaxBatchInterval": 3600}}))
    sql(mariadb, "create table small (id int primary key)", "create table wide (id int primary key, v text)")
    shell("--settings", str(task))
    sql(mariadb, "insert into small values (1)", "insert into wide values (1, repeat('x', 2000))")
    words = [str(Path(sys.executable).parent / "dmscdc"), "capture", at(mariadb), "--landing", str(landing), "--settings", str(task), "--watch"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        for number in (2, 3):  # a file that is full is written at once, and its place is kept before the next one
            assert "wide" in process.stdout.readline()
            sql(mariadb, f"insert into wide values ({number}, repeat('x', 2000))")
        assert "wide" in process.stdout.readline()
        process.kill()
    assert rows(landing, "small") == []
    shell("--settings", str(task))
    assert [r["id"] for r in rows(landing, "small")] == [1]
    assert [r["id"] for r in rows(landing, "wide")] == [1, 2, 3, 1, 2, 3]


def test_whatever_is_killed_a_row_never_goes_back(mariadb, tmp_path, spark):
    luck, w = random.Random(3), World(tmp_path, spark, {}, table="seen.life").set(key="id")
    words = [
        str(Path(sys.executable).parent / "dmscdc"),
        "capture",
        at(mariadb),
        "--landing",
        str(tmp_path / "landing"),
        "--interval",
        "0.1",
        "--sequence-column",
        "seq",
    ]
    start = lambda *more: subprocess.Popen([*words, *more], cwd=tmp_path, env={**os.environ, **mariadb.env}, stdout=subprocess.PIPE, text=True)
    mariadb.run("drop database if exists seen", "create database seen")
    sql(mariadb, "create table life (id int primary key, step int)", "insert into life values " + ", ".join(f"({n},1)" for n in range(12)))
    steps, seen = dict.fromkeys(range(12), 1), dict.fromkeys(range(12), 1)

    def live():
        chosen = [n for n in luck.sample(range(12), 8) if steps[n] < 8]
        for n in chosen:
            steps[n] += 1
            sql(
                mariadb,
                f"delete from life where id = {n}"
                if steps[n] == 5
                else f"insert into life values ({n},6)"
                if steps[n] == 6
                else f"update life set step = {steps[n]} where id = {n}",
            )
        return chosen

    def look():
        w.go()
        found = dict(w.lake("id, step"))
        for n in range(12):  # 5 is a row that is gone
            now = found.get(n, 5)
            assert seen[n] <= now <= steps[n], (n, seen[n], now, steps[n])
            seen[n] = now

    kills = 0
    while min(steps.values()) < 8:
        with start("--watch") as process:
            for _ in range(luck.randrange(1, 4)):
                if live():
                    process.stdout.readline()  # a file was written
            process.kill()
            kills += 1
        look()
    assert start().wait(60) == 0 and kills > 3
    look()
    assert set(seen.values()) == {8}
