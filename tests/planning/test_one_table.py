"Awkward names are planned like others, and one table's trouble is its own: no folder, link, item or journal of one table stops the others."

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from awkward import TABLES
from dmscdc.capture.writer import write_changes, write_load
from dmscdc.cli.main import app
from dmscdc.landing.files import FolderLanding, TableRef
from dmscdc.load.process import process_table
from dmscdc.service.config import read_config
from dmscdc.service.passes import run_pass
from dmscdc.service.status import read_statuses, status_row
from dmscdc.state.items import ATTRIBUTES
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string"}


def dmscdc(home: Path, *words: str) -> tuple[int, str]:
    "A command in a folder whose landing and lake lie beside each other; nothing but words may come out."
    done = CliRunner().invoke(app, [*words, "--folder", str(home), "--landing", str(home / "landing"), "--lake", str(home / "lake")])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split())


def landed(home: Path, *tables: str) -> Path:
    "A folder with tables of a load file each, whose key is set."
    for table in tables:
        write_load(home / "landing", table, [(1, "a")], SCHEMA)
        open_state(f"sqlite:{home / 'state.db'}").put_settings(TableRef.parse(table), key="id")
    return home


def looks(home: Path) -> dict:
    "What a pass would find, by table."
    config = read_config(home, landing=str(home / "landing"), lake=str(home / "lake"), quiet_period=0)
    return {str(look.table): look for look in read_statuses(config)}


@pytest.fixture(params=[os.getuid()], ids=["user"])
def closed(request, tmp_path, monkeypatch):
    "Makes a folder unreadable. Root reads everything, so there the system's answer is given for it."
    shut = set()
    scan = os.scandir

    def refused(path):
        if str(path) in shut:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)
    return lambda path: shut.add(str(path))


# Names


def test_a_name_goes_through_text_and_back_and_no_two_tables_share_one():
    refs = [TableRef(*names) for names in (*TABLES, ('"a"', "b"), ('"', '"'), ("a.", ".b"), (" a", "b "), ("-a", "-b"), ("a\\b", "c"))]
    assert [TableRef.parse(str(ref)) for ref in refs] == refs and len({str(ref) for ref in refs}) == len(refs)


@pytest.mark.parametrize("text", ["product", ".x", "x.", "", "a/b.c", '"a.b', '"a".', '"".x', '"a"b.c'])
def test_a_text_that_names_no_table_is_refused(text):
    with pytest.raises(ValueError, match="a table is written schema.table"):
        TableRef.parse(text)


def test_every_name_that_dms_can_write_is_planned_and_its_advice_names_the_same_table(tmp_path):
    for schema, table in TABLES:
        folder = tmp_path / "landing" / schema / table
        folder.mkdir(parents=True)
        write_load(tmp_path / "one", "a.b", [(1, "a"), (2, "b")], SCHEMA)
        (folder / "LOAD00000001.parquet").write_bytes((tmp_path / "one/a/b/LOAD00000001.parquet").read_bytes())
    refs = sorted(TableRef(*names) for names in TABLES)
    assert FolderLanding(tmp_path / "landing").tables() == refs
    import shlex

    for name, look in looks(tmp_path).items():
        assert look.state == "waiting" and look.suggestion.key == ("id",), look
        words = shlex.split(look.suggestion.command)[1:]
        if not words[2].startswith("-"):
            code, said = dmscdc(tmp_path, *words)
            assert code == 0, said
    again = looks(tmp_path)
    assert [look.table for look in again.values()] == refs
    assert {look.plan.kind for look in again.values() if look.plan} == {"initial"} and all(look.plan for look in again.values())


# Trouble of one


def test_a_folder_that_cannot_be_read_is_the_trouble_of_its_table(tmp_path, closed):
    home = landed(tmp_path, "shop.good", "shop.shut", "shop.known")
    closed(home / "landing/shop/shut")
    write_load(home / "landing", "shop.new", [(1, "a")], SCHEMA)
    closed(home / "landing/shop/new")
    found = looks(home)
    assert found["shop.good"].plan.kind == found["shop.known"].plan.kind == "initial"
    assert f"{home}/landing/shop/shut cannot be read (Permission denied)" in found["shop.shut"].problem
    assert f"{home}/landing/shop/new cannot be read" in found["shop.new"].problem
    code, said = dmscdc(home, "plan")
    assert code == 3 and "waits: 1 load file" in said and "shop/shut cannot be read" in said
    done = process_table("shop.shut", str(home / "landing"), str(home / "lake"), f"sqlite:{home / 'state.db'}", quiet_period=0)
    assert done.verdict == "failed" and "shop/shut cannot be read (Permission denied)" in done.words


def test_a_folder_inside_a_table_that_cannot_be_read_stops_that_table_alone(tmp_path, closed):
    home = landed(tmp_path, "shop.good", "shop.dated")
    write_changes(home / "landing", "shop.dated", [("I", 2, "b")], "20181215-100000000", SCHEMA, folder="2018/12/15")
    closed(home / "landing/shop/dated/2018")
    found = looks(home)
    assert found["shop.good"].plan.kind == "initial" and "shop/dated/2018 cannot be read" in found["shop.dated"].problem


def test_a_schema_that_cannot_be_read_is_said_and_the_others_are_planned(tmp_path, closed):
    home = landed(tmp_path, "shop.good")
    (home / "landing/private").mkdir()
    closed(home / "landing/private")
    (home / "landing/lost+found").mkdir()
    closed(home / "landing/lost+found")
    code, said = dmscdc(home, "plan")
    assert code == 3 == dmscdc(home, "status")[0] and "waits: 1 load file" in said
    assert (
        f"the tables of private could not be looked for: {home}/landing/private cannot be read (Permission denied)" in said
        and "lost+found" not in said
    )


@pytest.mark.parametrize("command", ["plan", "status", "pass"])
def test_a_landing_that_cannot_be_read_has_failed_every_command(tmp_path, closed, command):
    home = landed(tmp_path, "shop.good")
    closed(home / "landing")
    code, said = dmscdc(home, command)
    assert code == 1 and f"{home}/landing cannot be read (Permission denied)" in said, (code, said)


@pytest.mark.parametrize("where", ["loop", "shop/loop", "shop/good/loop", "shop/good/notes.txt"])
def test_a_link_to_itself_stops_no_table(tmp_path, where):
    home = landed(tmp_path, "shop.good", "shop.other")
    link = home / "landing" / where
    link.symlink_to(link)
    found = looks(home)
    assert [look.plan.kind for look in found.values()] == ["initial", "initial"] and list(found) == ["shop.good", "shop.other"]


def test_a_link_to_itself_with_the_name_of_a_change_file_is_the_trouble_of_its_table(tmp_path):
    home = landed(tmp_path, "shop.good", "shop.other")
    link = home / "landing/shop/good/20181215-100000000.parquet"
    link.symlink_to(link)
    found = looks(home)
    assert found["shop.other"].plan.kind == "initial" and "20181215-100000000.parquet cannot be read" in found["shop.good"].problem


@pytest.mark.parametrize("to", ["..", "../.."])
def test_a_link_back_to_the_landing_makes_no_tables(tmp_path, to):
    home = landed(tmp_path, "shop.good")
    (home / "landing" / "back").symlink_to(home / "landing" / "shop" / to)
    (home / "landing" / "shop" / "up").symlink_to(home / "landing" / "shop" / to)
    assert list(looks(home)) == ["shop.good"]


def test_a_link_back_to_its_own_schema_is_no_table_of_what_cannot_be_read(tmp_path, closed):
    home = landed(tmp_path, "shop.good", "shop.shut")
    (home / "landing/shop/loop").symlink_to(".")
    for folder in ("shop/shut", "shop/loop/shut", "shop/loop"):
        closed(home / "landing" / folder)
    assert list(looks(home)) == ["shop.good", "shop.shut"]


def test_a_damaged_item_of_the_state_is_the_trouble_of_its_table(tmp_path):
    from dmscdc.state.sqlite import one_action

    home = landed(tmp_path, "shop.good", "shop.bad")
    with one_action(str(home / "state.db")) as db:
        db.execute("update DMSCDC_Controller set position = '{' where path = 'shop/bad/'")
    found = looks(home)
    assert found["shop.good"].plan.kind == "initial" and "`dmscdc table forget shop.bad`" in found["shop.bad"].problem
    assert "is damaged" in dmscdc(home, "table", "list")[1] and dmscdc(home, "table", "forget", "shop.bad")[0] == 0
    assert dmscdc(home, "table", "set", "shop.bad", "--key", "id")[0] == 0 and looks(home)["shop.bad"].plan.kind == "initial"


def test_a_table_that_cannot_be_planned_is_said_by_a_pass_without_a_server_and_without_a_run(tmp_path):
    home = landed(tmp_path, "shop.bad", "shop.new")
    open_state(f"sqlite:{home / 'state.db'}").remove(TableRef.parse("shop.new"))
    entry = home / "lake/_dmscdc/shop/bad/journal/000000000001.json"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"{}")
    config, lines = read_config(home, landing=str(home / "landing"), lake=str(home / "lake"), quiet_period=0), []
    done = run_pass(config, start=lambda *given, **more: pytest.fail("a server was started"), on_event=lines.append)
    bad = done.tables["shop.bad"]
    assert (done.verdict, done.exit_code, bad.verdict, bad.run) == ("failed", 1, "failed", None) and bad.words.startswith(f"{entry} is not an entry")
    assert [line for line in lines if f"{entry} is not an entry" in line] and not [*Path(config.runs).rglob("*.ipynb")]
    assert f"{entry} is not an entry" in (Path(config.runs) / "index.html").read_text()


LEASES = [
    ("owner", 7),
    ("owner", None),
    ("owner", b"\xff"),
    ("expiry", "soon"),
    ("expiry", None),
    ("expiry", b"\xff"),
    ("fence", "x"),
    ("fence", 1.5),
    ("fence", None),
    ("name", b"\xff"),
    ("name", 7),
]


@pytest.mark.parametrize("column, garbage", LEASES, ids=str)
def test_whatever_stands_in_a_lease_is_the_trouble_of_its_table(tmp_path, column, garbage):
    from dmscdc.state.sqlite import one_action

    home = landed(tmp_path, "shop.good", "shop.bad")
    state = open_state(f"sqlite:{home / 'state.db'}")
    state.acquire(TableRef.parse("shop.bad"), "another:1:pass", 1e9)
    with one_action(state.path) as db:
        db.execute(f"update leases set {column} = ?", (garbage,))
    with one_action(state.path) as db:
        kept = db.execute(f"select {column} from leases").fetchone()[0]
    found, sound = looks(home), column == "name" or column == "owner" and isinstance(kept, str)
    assert found["shop.good"].plan.kind == "initial" and [lease.owner for lease in state.holders()] == ([kept] if sound and column == "owner" else [])
    if sound:
        return
    words = f"its lease in the state is damaged: {column} is {kept!r}"
    assert (
        found["shop.bad"].problem.startswith(words)
        and words in dmscdc(home, "plan", "--quiet-period", "0")[1]
        and "shop.good" in dmscdc(home, "status")[1]
    )
    with one_action(state.path) as db:
        db.execute(found["shop.bad"].problem.rpartition(": ")[2])
    assert looks(home)["shop.bad"].plan.kind == "initial"


GARBAGE = ("[]", "1", "{", "null", "true", "x", "", 7, None, b"\xff")
FIELDS = (
    '"x"',
    "{}",
    "1.5",
    "NaN",
    1.5,
    "[[]]",
    '{"refused": 1}',
    '{"refused": {"words": 7}}',
    '{"full_at": "x"}',
    '{"last_words": 7}',
    '{"load": "x"}',
    '{"load_files": [["a"]]}',
    '{"load_files": [[1, 2, 3]]}',
    '{"last": 7}',
    '{"window_start": 3}',
    '{"listed_at": "x"}',
    '{"window": {"a": 7}}',
    '{"applied": [1]}',
    '{"applied": ["x", "y"]}',
    '{"kind": 7}',
    '{"commit": 0}',
    '{"kind": "rewind", "commit": "x"}',
)
NOT_A_VALUE = {
    "status": ("[]", "1", "null", '"x"', "NaN", '{"refused": 1}', '{"full_at": "x"}'),
    "commit_number": ("[]", "1", "x", 1.5, None, b"\xff"),
    "instruction": ("[]", "1", "{}", '"x"', '{"kind": 7}'),
    "intent": ("[]", "1", "true"),
    "position": ("[]", "1", "0", '{"last": 7}', '{"load": "x"}'),
    "insert_only": ("1", "[]", "null"),
    "ActiveFlag": ("1", "null"),
    "format": (7, None),
    "out_path": (7, None),
}


@pytest.mark.parametrize("column", [*ATTRIBUTES])
def test_whatever_stands_in_a_column_of_an_item_is_the_trouble_of_its_table(tmp_path, column):
    from dmscdc.state.sqlite import one_action

    home, looked, told = landed(tmp_path, "shop.good", "shop.bad"), 0, set()
    state = open_state(f"sqlite:{home / 'state.db'}")
    with one_action(state.path) as db:
        sound = tuple(db.execute("select * from DMSCDC_Controller where path = 'shop/bad/'").fetchone())
    for garbage in dict.fromkeys((*GARBAGE, *NOT_A_VALUE.get(column, ()), *FIELDS * (column in ("position", "status", "instruction")))):
        for as_text in (False, True)[: 1 + (type(garbage) is bytes)]:  # the second time as a text that is none
            with one_action(state.path) as db:
                db.execute("delete from DMSCDC_Controller where path is not 'shop/good/'")
                db.execute(f"insert into DMSCDC_Controller values ({', '.join('?' * len(sound))})", sound)
                db.execute(f"update DMSCDC_Controller set {column} = {'cast(? as text)' if as_text else '?'} where path = 'shop/bad/'", (garbage,))
            found = looks(home)
            assert found["shop.good"].plan.kind == "initial" and not found["shop.good"].problem, garbage
            assert all(status_row(look)["table"] for look in found.values())
            bad, looked = found.get("shop.bad"), looked + 1
            assert (
                bad.plan
                or bad.state in ("waiting", "paused")
                or "damaged (" in bad.problem
                and "`dmscdc table forget shop.bad`" in bad.problem
                or "format" in bad.problem
                or "LastFullLoadDate is" in bad.problem
                or "change files like" in bad.problem
            ), (garbage, bad.problem)
            if "damaged (" in bad.problem:
                told.add(garbage)
    assert looked > len(GARBAGE) and told >= set(NOT_A_VALUE.get(column, ())), set(NOT_A_VALUE.get(column, ())) - told
    for words in (("plan",), ("status",), ("table", "list")):
        assert "shop.good" in dmscdc(home, *words)[1]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'"text"', b'{"number": 1, "files": [], "adds": []}', b"\xff\xfe"])
def test_a_damaged_journal_entry_is_said_with_its_path_and_is_the_trouble_of_its_table(tmp_path, content):
    home = landed(tmp_path, "shop.good", "shop.bad")
    entry = home / "lake/_dmscdc/shop/bad/journal/000000000001.json"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(content)
    found = looks(home)
    assert found["shop.good"].plan.kind == "initial" and f"{entry} is not an entry of a transaction log of dmscdc" in found["shop.bad"].problem
    done = process_table("shop.bad", str(home / "landing"), str(home / "lake"), f"sqlite:{home / 'state.db'}", quiet_period=0)
    assert (done.verdict, f"{entry} is not an entry" in done.words) == ("failed", True) and entry.read_bytes() == content


@pytest.mark.parametrize("words", [("plan",), ("status",), ("table", "list"), ("table", "set", "shop.good", "--key", "id"), ("table", "rebuild")])
def test_a_state_of_garbage_is_said_by_every_command(tmp_path, words):
    home = landed(tmp_path, "shop.good")
    (home / "state.db").write_bytes(b"garbage " * 999)
    for ending in ("-wal", "-shm"):
        (home / f"state.db{ending}").unlink(missing_ok=True)
    code, said = dmscdc(home, *words)
    assert code == 2 and f"the state sqlite:{home}/state.db is damaged" in said and "dmscdc table rebuild" in said


# Settings held against the landing


def test_a_table_or_a_column_that_nobody_has_is_refused_unless_it_is_to_come(tmp_path):
    home = landed(tmp_path, "shop.item")
    before = open_state(f"sqlite:{home / 'state.db'}").items()
    for words, says in (
        (("shop.itme", "--key", "id"), "Did you mean shop.item?"),
        (("shop.nosuch", "--key", "id"), "neither"),
        (("shop.item", "--key", "nosuch"), "shop.item has no column nosuch; its files have id, name"),
        (("shop.item", "--partition", "day"), "has no column day"),
    ):
        code, said = dmscdc(home, "table", "set", *words)
        assert code == 2 and says in said and "--new" in said, said
    assert open_state(f"sqlite:{home / 'state.db'}").items() == before
    assert dmscdc(home, "table", "set", "shop.nosuch", "--key", "id", "--new")[0] == 0
    assert dmscdc(home, "table", "set", "shop.item", "--partition", "day", "--new")[0] == 0
    assert dmscdc(home, "table", "set", "shop.nosuch", "--paused")[0] == 0, "a table that the state knows may be set"


def test_a_column_of_any_file_that_counts_may_be_set_and_an_unknown_one_is_refused_with_all_that_there_are(tmp_path):
    home = landed(tmp_path, "shop.item")
    wide = {"id": "int", "colour": "string"}
    for minute, shape, row in ((10, {"id": "int", "weight": "int"}, (2, 7)), (20, wide, (3, "red"))):
        write_changes(home / "landing", "shop.item", [("I", *row)], f"20181215-10{minute}00000", shape)
    for words in (("--key", "id,name"), ("--key", "id,weight"), ("--key", "id,colour"), ("--partition", "colour"), ("--partition", "name")):
        code, said = dmscdc(home, "table", "set", "shop.item", *words)
        assert code == 0 and f"{words[0][2:]} {words[1]}" in said, said
    for words in (("--key", "id,nosuch"), ("--partition", "Op"), ("--key", "ID")):
        code, said = dmscdc(home, "table", "set", "shop.item", *words)
        assert code == 2 and f"has no column {words[1].split(',')[-1]}; its files have colour, id, name, weight. " in said, said
    (home / "landing/shop/item/20181215-102000000.parquet").write_bytes(b"damaged")
    assert dmscdc(home, "table", "set", "shop.item", "--key", "id,size")[0] == 0, "a file that cannot be read may have any column"
    assert dmscdc(home, "table", "set", "shop.item", "--key", "id,name")[0] == 0


def test_before_dms_has_written_anything_every_table_may_be_set(tmp_path):
    assert dmscdc(tmp_path, "table", "set", "shop.item", "--key", "id")[0] == 0


# A layout of many small files


def test_a_partition_of_many_values_is_warned_of_where_it_is_set(tmp_path):
    write_load(tmp_path / "landing", "shop.sale", [(i, f"guest {i % 150}") for i in range(300)], SCHEMA)
    write_load(tmp_path / "landing", "shop.sale", [(i, "guest 1") for i in range(300, 600)], SCHEMA, 2)
    code, said = dmscdc(tmp_path, "table", "set", "shop.sale", "--key", "id", "--partition", "id")
    assert code == 0 and "partition id, " in said and "LOAD00000002.parquet alone has rows for 300 folders" in said
    assert "dmscdc table set shop.sale --partition COLUMNS, then dmscdc table rewind shop.sale --reload" in said
    per = float(said.split(" folders, about ")[1].split(" rows")[0])
    assert 2.0 <= per <= 3.5, "600 rows of both files by 300 values, guessed from the sizes of the files"
    for partition in ("name", ""):
        code, said = dmscdc(tmp_path, "table", "set", "shop.sale", "--partition", partition)
        assert code == 0 and f"partition {partition or 'none'}, " in said and "small files" not in said


# A landing without files of DMS


@pytest.mark.parametrize(
    "found, says",
    [(None, "this folder does not exist"), ((), "this folder is empty"), (("notes.txt", "shop/item/part-0.parquet"), "found 2 files of other names")],
)
@pytest.mark.parametrize("command", ["plan", "status", "pass"])
def test_an_empty_landing_says_where_files_were_expected_and_to_look_at_the_source_and_the_task(tmp_path, found, says, command):
    landing = tmp_path / "landing"
    if found is not None:
        landing.mkdir()
    for name in found or ():
        (landing / name).parent.mkdir(parents=True, exist_ok=True)
        (landing / name).write_text("x")
    code, said = dmscdc(tmp_path, command)
    assert code == 3, said
    for words in (
        f"expected {landing}/<schema>/<table>/LOAD00000001.parquet",
        says,
        "look at the source",
        "at the DMS task",
        "aws dms describe-replication-tasks",
    ):
        assert words in said, said


@pytest.mark.parametrize("command", [["as-of"], ["feed", "--out", "parts"], ["scd2"]], ids=lambda words: words[0])
def test_who_asks_about_a_table_without_a_key_is_told_to_set_one_in_a_line_that_a_shell_takes(tmp_path, command):
    table = "my shop.line items"
    write_load(tmp_path / "landing", table, [(1, "a")], SCHEMA)
    code, said = dmscdc(tmp_path, command[0], table, *command[1:])
    assert code == 2 and f"{table} has no key yet. Set one: dmscdc table set" in said, said
    assert shlex.split(said.partition("Set one: ")[2])[3] == table, said
