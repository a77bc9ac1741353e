"""A source by its address: the secret stays one, the look is consistent and changes nothing."""

from __future__ import annotations

import json
import tracemalloc

import boto3
import pytest
from moto import mock_aws

from dmscdc.errors import SourceRefused, SourceUnreachable
from dmscdc.landing.files import TableRef
from dmscdc.reconcile.source import PASSWORD, address, columns_of, snapshot, source_name
from dmscdc.storage.filesystem import client

pytestmark = pytest.mark.proof

WORD = "hunter2-of-nobody"


@pytest.fixture(params=["sqlite", "mysql", "postgresql"])
def db(request):
    return request.getfixturevalue({"mysql": "mariadb"}.get(request.param, request.param))


def look(db):
    return snapshot(address(db.source, env=db.env))


def in_schema(db, table: str) -> str:
    return f"shop.{table}" if db.kind == "postgresql" else table


def said(error: pytest.ExceptionInfo) -> str:
    "What a person may see of an error; what came before it is not told."
    assert error.value.__cause__ is None and (error.value.__context__ is None or error.value.__suppress_context__)
    return f"{error.value} {error.value!r} {vars(error.value)}"


@pytest.mark.parametrize(
    "source",
    [f"mysql://reader:{WORD}@h/d", f"mariadb+pymysql://reader:{WORD}@h/d", f"postgresql://h/d?password={WORD}", f"postgresql://reader:{WORD}@h:5/d"],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(source):
    with pytest.raises(SourceRefused) as error:
        address(source, env={})
    assert WORD not in said(error) and all(
        way in str(error.value) for way in (PASSWORD, "--secret env:NAME", "--secret aws:SECRET_ID", "--source env:NAME")
    )


@pytest.mark.parametrize(
    "secret, env",
    [("", {PASSWORD: WORD}), ("env:MINE", {"MINE": WORD}), ("env:MINE", {"MINE": json.dumps({"username": "reader", "password": WORD})})],
)
def test_a_password_comes_from_the_environment(secret, env):
    url = address("mysql://reader@h/d", secret, env)
    assert (url.username, url.password, WORD in str(url), WORD in repr(url)) == ("reader", WORD, False, False)


def test_a_whole_address_may_come_from_the_environment():
    assert address("env:SHOP", env={"SHOP": f"postgres://reader:{WORD}@h:5433/d"}).password == WORD
    with pytest.raises(SourceRefused, match="the variable SHOP was expected"):
        address("env:SHOP", env={})
    with pytest.raises(SourceRefused) as error:
        address("env:SHOP", env={"SHOP": f"reader:{WORD}@h"})
    assert WORD not in said(error)


def test_a_secret_of_secrets_manager_is_read_as_rds_keeps_it(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    client.cache_clear()
    with mock_aws():
        keeper = boto3.client("secretsmanager")
        keeper.create_secret(
            Name="shop/reader",
            SecretString=json.dumps(
                {"username": "reader", "password": WORD, "engine": "mariadb", "host": "db.example", "port": 3307, "dbname": "shop"}
            ),
        )
        keeper.create_secret(Name="plain", SecretString=WORD)
        url = address("mariadb://", "aws:shop/reader", {})
        assert (url.username, url.password, url.host, url.port, url.database) == ("reader", WORD, "db.example", 3307, "shop")
        assert address("mysql://me@h/d", "aws:plain", {}).password == WORD
        assert address("mysql://replica.example/d", "aws:shop/reader", {}).host == "replica.example"  # the address knows better
        with pytest.raises(SourceUnreachable, match="the secret gone cannot be read: ResourceNotFoundException"):
            address("mysql://h/d", "aws:gone", {})
    client.cache_clear()


@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_a_wrong_password_and_a_dead_server_show_no_secret(request, kind):
    db = request.getfixturevalue(kind)
    at = db.source.partition("@")[2]
    dead = db.source.replace(at.partition("/")[0], "127.0.0.1:1")
    for source, words in ((db.source, "reader"), (dead, "127.0.0.1:1")):
        with pytest.raises(SourceUnreachable, match=words) as error:
            with snapshot(address(source, env={PASSWORD: WORD})):
                pass
        assert WORD not in said(error) and "***" in str(error.value)


def test_a_look_sees_one_moment_whatever_happens_meanwhile(db):
    name = in_schema(db, "moment")
    db.run(f"create table {name} (id int primary key)", f"insert into {name} values (1)")
    if db.kind == "sqlite":
        db.run("pragma journal_mode = wal")
    with look(db) as source:
        if db.kind == "postgresql":
            source.rows("select 1")  # its moment has come already: this changes nothing
        db.run(f"insert into {name} values (2)")
        assert source.rows(f"select count(*) from {name}") == [(1,)]
        assert list(source.stream(f"select id from {name} where id < :most", most=9)) == [(1,)]
    with look(db) as source:
        assert source.rows(f"select count(*) from {name}") == [(2,)]


def test_a_look_cannot_write(db):
    name = in_schema(db, "kept")
    db.run(f"create table {name} (id int primary key)")
    if db.kind != "sqlite":  # let it not be for want of a right
        db.run({"mysql": "grant all on *.* to reader", "postgresql": f"grant all on {name} to reader"}[db.kind])
    with look(db) as source:
        with pytest.raises(SourceUnreachable, match="(?i)read.?only"):
            source.rows(f"insert into {name} values (1)")
    assert db.rows(f"select count(*) from {name}") == [(0,)]


def test_columns_come_in_the_words_of_the_engine(db):
    types = {
        "sqlite": ["INT", "DECIMAL(10,2)", "CHAR(5)"],
        "mysql": ["int(10) unsigned", "decimal(10,2)", "enum('a','b')"],
        "postgresql": ["integer", "numeric(10,2)", "character(5)"],
    }[db.kind]
    name = in_schema(db, "wide")
    db.run(f"create table {name} ({', '.join(f'{c} {t}' for c, t in zip('abc', types))})")
    with look(db) as source:
        assert [(c.name, c.type) for c in columns_of(source, TableRef("shop", "wide"))] == list(zip("abc", types))
        with pytest.raises(SourceRefused, match="has no table .*nowhere"):
            columns_of(source, TableRef("shop", "nowhere"))


def test_names_with_quotes_colons_and_blanks_are_names(db):
    quote = "`{}`" if db.kind == "mysql" else '"{}"'
    table, column = "odd :x 100%", "a b:c %s"
    where = (quote.format("shop") + "." if db.kind != "sqlite" else "") + quote.format(table)
    db.run(
        f"create table {where} ({quote.format(column)} int)".replace("%", "%%" if db.kind != "sqlite" else "%"),
        f"insert into {where} values (7)".replace("%", "%%" if db.kind != "sqlite" else "%"),
    )
    with look(db) as source:
        (found,) = columns_of(source, TableRef("shop", table))
        assert source.rows(f"select {source.quoted(found.name)} from {source_name(source, TableRef('shop', table))} where 1 = :one", one=1) == [(7,)]


def test_a_stream_of_any_length_needs_little_memory(db):
    sql = "with recursive n as (select 1 as i union all select i + 1 from n where i < 50000) select i as place, 'a text of some forty bytes, %, and more' as id from n"
    if db.kind == "mysql":
        sql = "select seq as place, 'a text of some forty bytes, %, and more' as id from seq_1_to_50000"
    with look(db) as source:
        tracemalloc.start()
        count = sum(1 for _ in source.stream(sql))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 50_000 and peak < 4 << 20  # all rows at once take 10 MB
