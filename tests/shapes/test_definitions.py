"Table definitions: what each engine's types are in files of DMS, in tables written by hand, and scripts as the engines' tools print them."

from __future__ import annotations

import json

import pytest

from dmscdc.changes.definition import read_ddl, read_json
from dmscdc.errors import BadSetting
from dmscdc.landing.files import TableRef

pytestmark = pytest.mark.quick

T = TableRef("sampledb", "product")
MYSQL = """
tinyint: tinyint | tinyint(1): tinyint | tinyint unsigned: smallint | bool: tinyint | smallint: smallint | smallint unsigned: int | year(4): smallint
mediumint: int | mediumint unsigned zerofill: bigint | int: int | int(10) unsigned: bigint | integer: int | bigint: bigint | bigint unsigned: decimal(20,0)
decimal(10,2): decimal(10,2) | decimal: decimal(10,0) | dec(5,1): decimal(5,1) | numeric(9): decimal(9,0) | decimal(65,30): string
float: double | float(7,3): double | double precision: double | real: double | bit: boolean | bit(1): boolean | bit(64): binary
date: date | datetime(6): timestamp | timestamp: timestamp | time(3): string
char(3): string | varchar(20) character set utf8mb4 collate utf8mb4_bin: string | tinytext: string | longtext: string | enum('a','b, c'): string | set('x)','y'): string | json: string
binary(16): binary | varbinary(9): binary | tinyblob: binary | longblob: binary | geometry: binary
"""
POSTGRESQL = """
smallint: smallint | int2: smallint | smallserial: smallint | integer: int | serial: int | bigint: bigint | bigserial: bigint | oid: int
numeric: decimal(28,6) | numeric(10,2): decimal(10,2) | numeric(40,2): string | decimal(5): decimal(5,0) | money: decimal(38,4)
real: float | float4: float | float(24): float | float(25): double | float: double | double precision: double
boolean: boolean | bool: boolean | bytea: binary | date: date | timestamp: timestamp | timestamp(3) without time zone: timestamp | timestamp with time zone: timestamp | timestamptz: timestamp
time: string | timetz: string | time(6) with time zone: string | interval: string | interval day to second: string
char(3): string | bpchar: string | character varying(20): string | varchar: string | text: string | citext: string | uuid: string | json: string | jsonb: string | xml: string
inet: string | cidr: string | macaddr: string | bit(3): string | bit varying(5): string | int[]: string | text[][]: string | integer array: string | hstore: string | tsvector: string | int4range: string | point: string
"""
ORACLE = """
number: decimal(38,10) | number(10): decimal(10,0) | number(10,2): decimal(10,2) | number(*,2): decimal(38,2) | number(5,-2): decimal(7,0) | number(2,5): decimal(5,5) | integer: decimal(38,0) | int: decimal(38,0)
float(63): double | binary_float: float | binary_double: double | date: timestamp | timestamp(6): timestamp | timestamp with time zone: string | timestamp(3) with local time zone: string
char(3): string | varchar2(20 char): string | nvarchar2(5): string | clob: string | nclob: string | long: string | xmltype: string | rowid: string | interval day(2) to second(6): string
raw(16): binary | long raw: binary | blob: binary
"""
SQLSERVER = """
bit: boolean | tinyint: smallint | smallint: smallint | int: int | [int]: int | bigint: bigint | decimal(18,2): decimal(18,2) | numeric: decimal(18,0) | money: decimal(19,4) | smallmoney: decimal(10,4)
real: float | float: double | float(24): float | float(53): double | date: date | datetime: timestamp | datetime2(7): timestamp | smalldatetime: timestamp | time(7): string | datetimeoffset(7): string
char(3): string | varchar(max): string | nchar(2): string | [nvarchar](50): string | ntext: string | xml: string | uniqueidentifier: string | sysname: string | hierarchyid: string | geography: string
binary(8): binary | varbinary(max): binary | image: binary | rowversion: binary | timestamp: binary
"""
CASES = [
    (dialect, *map(str.strip, case.rsplit(": ", 1)))
    for dialect, table in {"mysql": MYSQL, "postgresql": POSTGRESQL, "oracle": ORACLE, "sqlserver": SQLSERVER}.items()
    for line in table.strip().splitlines()
    for case in line.split(" | ")
]


def test_there_are_many_cases():
    assert len(CASES) > 120 and {kind for *_, kind in CASES} >= {
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "boolean",
        "date",
        "timestamp",
        "string",
        "binary",
    }


@pytest.mark.parametrize("dialect, text, kind", CASES, ids=[f"{d} {t}" for d, t, _ in CASES])
def test_a_type_is_what_dms_makes_of_it(dialect, text, kind):
    found = read_ddl(f"create table product (a {text} not null, b int)", T, dialect)
    assert [(c.name, c.type) for c in found.columns][0] == ("a", kind)


NOTES = {
    ("mysql", "longtext"): "LobMaxSize",
    ("postgresql", "numeric"): "MapUnboundedNumericAsString",
    ("oracle", "number"): "NumberDatatypeScale",
    ("oracle", "timestamp with time zone"): "time zone",
    ("sqlserver", "varchar(max)"): "LobMaxSize",
    ("sqlserver", "datetimeoffset"): "time zone",
    ("postgresql", "numeric(40,2)"): "more than 38",
    ("postgresql", "int[]"): "array",
    ("mysql", "time"): "time of day",
}


@pytest.mark.parametrize("dialect, text", NOTES)
def test_what_a_file_lacks_is_said(dialect, text):
    (note,) = read_ddl(f"create table product (a {text})", T, dialect).notes
    assert note.startswith("column a ") and NOTES[dialect, text] in note


MYSQLDUMP = """-- MySQL dump 10.13  Distrib 8.0.36
/*!40101 SET @saved_cs_client     = @@character_set_client */;
DROP TABLE IF EXISTS `store`;
CREATE TABLE `store` (`id` int NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;
INSERT INTO `store` VALUES (1),(2);
CREATE TABLE `product` (
  `id` int unsigned NOT NULL AUTO_INCREMENT COMMENT 'the key (never changed)',
  `name` varchar(100) COLLATE utf8mb4_general_ci DEFAULT 'it''s, a name',
  `price` decimal(10,2) DEFAULT NULL,
  `order` enum('a','b') DEFAULT NULL,
  `total` decimal(12,2) GENERATED ALWAYS AS ((`price` * 2)) VIRTUAL,
  PRIMARY KEY (`id`,`name`(10)),
  UNIQUE KEY `u` (`name`),
  KEY `k` (`price`) USING BTREE,
  CONSTRAINT `f` FOREIGN KEY (`price`) REFERENCES `store` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4
/*!50100 PARTITION BY HASH (`id`) PARTITIONS 4 */;
INSERT INTO `product` VALUES (1,'create table product (x int)',2,'a',4);
"""
PG_DUMP = """--
-- PostgreSQL database dump
--
SET statement_timeout = 0;
CREATE TYPE sampledb.mood AS ENUM ('sad', 'ok');
CREATE TABLE sampledb.product (
    id bigint NOT NULL,
    name character varying(100) DEFAULT 'none'::character varying,
    "Mixed Case" numeric(10,2),
    state sampledb.mood,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT c CHECK ((("Mixed Case" > (0)::numeric)))
);
ALTER TABLE sampledb.product OWNER TO shop;
CREATE SEQUENCE sampledb.product_id_seq START WITH 1;
ALTER TABLE ONLY sampledb.product
    ADD CONSTRAINT product_pkey PRIMARY KEY (id);
CREATE INDEX i ON sampledb.product USING btree (name);
"""
ORACLE_SCRIPT = """
  CREATE TABLE "SAMPLEDB"."PRODUCT"
   (	"ID" NUMBER(10,0) NOT NULL ENABLE,
	"NAME" VARCHAR2(100 CHAR) DEFAULT 'x',
	"MADE" DATE DEFAULT sysdate,
	"NOTE" CLOB,
	 CONSTRAINT "P" PRIMARY KEY ("ID") USING INDEX PCTFREE 10 ENABLE
   ) SEGMENT CREATION IMMEDIATE PCTFREE 10 TABLESPACE "USERS"
 LOB ("NOTE") STORE AS SECUREFILE ( ENABLE STORAGE IN ROW 4000 ) ;
"""
SSMS = """USE [sampledb]
GO
/****** Object:  Table [sampledb].[product] ******/
SET ANSI_NULLS ON
GO
CREATE TABLE [sampledb].[product](
	[id] [int] IDENTITY(1,1) NOT NULL,
	[name] [nvarchar](100) COLLATE Latin1_General_CI_AS NULL,
	[price] [money] NULL CONSTRAINT [d] DEFAULT ((0)),
	[guid] [uniqueidentifier] ROWGUIDCOL NOT NULL,
 CONSTRAINT [PK_product] PRIMARY KEY CLUSTERED ([id] ASC) WITH (PAD_INDEX = OFF) ON [PRIMARY]
) ON [PRIMARY]
GO
"""


@pytest.mark.parametrize(
    "text, dialect, columns, key",
    [
        (MYSQLDUMP, "mysql", "id bigint, name string, price decimal(10,2), order string, total decimal(12,2)", ("id", "name")),
        (PG_DUMP, "postgresql", "id bigint, name string, Mixed Case decimal(10,2), state string, at timestamp", ("id",)),
        (ORACLE_SCRIPT, "oracle", "ID decimal(10,0), NAME string, MADE timestamp, NOTE string", ("ID",)),
        (SSMS, "sqlserver", "id int, name string, price decimal(19,4), guid string", ("id",)),
    ],
    ids=["mysqldump", "pg_dump", "oracle", "ssms"],
)
def test_a_script_of_the_engines_own_tool_is_read_and_its_engine_recognised(text, dialect, columns, key):
    found = read_ddl(text, T)
    assert (found.dialect, ", ".join(map(str, found.columns)), found.key) == (dialect, columns, key)


def test_without_a_sign_of_an_engine_the_types_must_mean_the_same_in_all():
    plain = read_ddl("create table product (id int primary key, name varchar(20), price decimal(10,2), made date)", T)
    assert plain.key == ("id",) and ", ".join(map(str, plain.columns)) == "id int, name string, price decimal(10,2), made date"
    with pytest.raises(BadSetting) as said:
        read_ddl("create table product (id int, `at` timestamp)".replace("`", ""), T)
    assert "column at has a type that differs between databases: timestamp in mysql, binary in sqlserver" in str(said.value)
    assert "--ddl FILE --dialect mysql (or postgresql, oracle, sqlserver)" in str(said.value)


def test_a_word_behind_the_columns_names_the_engine():
    body = "create table product (id int primary key, `on` bit, at timestamp)".replace("`", "")
    assert read_ddl(f"{body} engine=InnoDB default charset=utf8mb4", T).dialect == "mysql"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- nothing",
        "create view product as select 1",
        "create table product",
        "create table product (",
        "create table product (a 'b)",
        "create table productorder (id int)",
        "create table other.product (id int)",
        "create table product ()",
        "create table product (a)",
        "create table product (a int) create table product (b int)",
        "\0",
        "create table `product (a int)",
    ],
)
@pytest.mark.parametrize("dialect", ["", "mysql", "oracle"])
def test_a_hostile_script_is_refused_in_words(text, dialect):
    with pytest.raises(BadSetting) as error:
        read_ddl(text, T, dialect)
    assert any(words in str(error.value) for words in ("sampledb.product", "create table of product", "not a list of columns"))


@pytest.mark.parametrize("text", ["", "[]x", "{}", '"id int"', "[1]", '["id"]', '[{"name": "id"}]', '["id int4"]', '["id decimal(40,2)"]'])
def test_a_list_that_is_none_is_refused_in_words(text):
    with pytest.raises(BadSetting):
        read_json(text)


def test_the_command_takes_a_definition_and_its_key_and_shows_both(tmp_path):
    from typer.testing import CliRunner

    from dmscdc.cli.main import app

    def dmscdc(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words, "--folder", str(tmp_path)])
        return done.exit_code, " ".join(done.output.split())

    (tmp_path / "landing" / "sampledb" / "product").mkdir(parents=True)
    (tmp_path / "landing" / "sampledb" / "product" / "LOAD00000001.csv").write_text("1,a,1.00,a,2.00\n")
    (tmp_path / "shop.sql").write_text(MYSQLDUMP)
    (tmp_path / "list.json").write_text('["id int", "name string"]')
    assert dmscdc("init", "--landing", "landing", "--lake", "lake", "--quiet-period", "0")[0] == 0
    code, said = dmscdc("plan")
    assert code == 0 and "dmscdc table columns sampledb.product --ddl FILE" in said
    code, said = dmscdc("table", "columns", "sampledb.product", "--ddl", str(tmp_path / "shop.sql"))
    assert code == 0 and "price decimal(10,2)" in said and "key id,name" in said
    code, said = dmscdc("table", "columns", "sampledb.product", "--json", str(tmp_path / "list.json"))
    assert code == 0 and "price" not in said and "key id,name" in said, "a key that is set stays"
    for words, expected in (
        (("sampledb.produkt", "--json", str(tmp_path / "list.json")), "Did you mean sampledb.product?"),
        (("sampledb.product", "--ddl", str(tmp_path / "none.sql")), "No such file"),
        (("sampledb.product", "--ddl", "a", "--clear"), "exclude each other"),
        (("sampledb.product", "--from-source"), "no source is set"),
    ):
        code, said = dmscdc("table", "columns", *words)
        assert code == 2 and expected in said, said
    code, said = dmscdc("table", "columns", "sampledb.product", "--clear")
    assert code == 0 and "has no columns set" in said


def test_a_file_of_several_tables_is_taken_as_a_whole_and_the_source_of_the_settings_says_its_dialect(tmp_path):
    from typer.testing import CliRunner

    from dmscdc.cli.main import app

    run = lambda *words: CliRunner().invoke(app, [*words, "--folder", str(tmp_path)])
    for table in ("item", "sale"):
        (tmp_path / "landing" / "shop" / table).mkdir(parents=True)
        (tmp_path / "landing" / "shop" / table / "LOAD00000001.csv").write_text("1,2018-12-15 10:00:00\n")
    (tmp_path / "shop.sql").write_text("create table item (id int primary key, made date); create table sale (id int primary key, made timestamp);")
    run("init", "--landing", "landing", "--lake", "lake")
    refused = run("table", "columns", "--ddl", str(tmp_path / "shop.sql"))
    assert refused.exit_code == 2 and "shop.sale: column made has a type that differs" in " ".join(refused.output.split())
    assert run("table", "list", "--json").stdout.strip() == "[]"
    taken = run("table", "columns", "--ddl", str(tmp_path / "shop.sql"), "--source", "postgresql://reader@localhost/shop")
    assert taken.exit_code == 0 and {row["table"] for row in json.loads(run("table", "list", "--json").stdout)} == {"shop.item", "shop.sale"}
