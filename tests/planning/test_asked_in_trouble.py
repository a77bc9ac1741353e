"Questions about a table in trouble are answered in words, before any Spark is started."

from __future__ import annotations

import json
import shlex
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from dmscdc.analyst.lake import open_folder
from dmscdc.capture.writer import write_load
from dmscdc.changes.schema import read_footer
from dmscdc.cli.ask import refusals
from dmscdc.cli.main import app
from dmscdc.errors import LakeDamaged, Refused, Unreadable
from dmscdc.history.audit import lake_rows_in
from dmscdc.history.lookup import KeyIndex
from dmscdc.lake.table import PlainFile
from dmscdc.landing.files import TableRef
from dmscdc.landing.s3 import open_landing
from dmscdc.load.results import ended_by, message_of
from dmscdc.runs.log import LoggedRun, RunLog
from dmscdc.runs.report import commands_in
from dmscdc.scd2.update import Increment, update_versions
from dmscdc.service.config import read_config
from dmscdc.service.status import TableStatus, input_fingerprint, read_statuses, refusal_words
from dmscdc.state.items import TableItem
from dmscdc.state.position import Position
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.test

T = TableRef("shop", "item")


def put(home, shape, rows):
    "A table of one load file, with its key, and a source to compare with."
    write_load(home / "landing", "shop.item", rows, shape)
    open_state(f"sqlite:{home / 'state.db'}").put_settings(T, key="id")
    (home / "source.db").touch()


@pytest.mark.parametrize("content", [b"", b"{", b'{"number": 1, "fi', b"\xff\xfe"])
@pytest.mark.parametrize(
    "words",
    [
        ("history", "shop.item", "--key", "id=1"),
        ("as-of", "shop.item"),
        ("as-of", "shop.item", "--commit", "1"),
        ("feed", "shop.item", "--out", "OUT"),
        ("scd2", "shop.item"),
        ("reconcile", "shop.item", "--source", "sqlite:SOURCE"),
    ],
    ids=lambda words: "-".join(words[::2]),
)
def test_a_cut_journal_entry_is_said_with_its_path_by_every_question(tmp_path, words, content):
    put(tmp_path, {"id": "int"}, [(1,)])
    entry = tmp_path / "lake/_dmscdc/shop/item/journal/000000000001.json"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(content)
    words = [word.replace("OUT", str(tmp_path / "out")).replace("SOURCE", str(tmp_path / "source.db")) for word in words]
    done = CliRunner().invoke(app, [*words, "--folder", str(tmp_path), "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake")])
    assert isinstance(done.exception, SystemExit) and done.exit_code == 1, done.exception
    assert f"{entry} is not an entry of a transaction log of dmscdc" in " ".join((done.stdout if words[0] == "reconcile" else done.stderr).split())


@pytest.mark.parametrize("name", ["valid_from", "valid_to", "is_current", "position", "position_to", "Is_Current", "POSITION"])
def test_a_column_whose_name_a_type_2_table_needs_is_refused_before_spark_is_started(tmp_path, name):
    put(tmp_path, {"id": "int", name: "string"}, [(1, "a")])
    with pytest.raises(
        Refused, match=f"shop.item: the source has a column {name}, a name that a type-2 table needs.*Rename it in the task's mapping"
    ):
        update_versions(
            "shop.item",
            str(tmp_path / "landing"),
            str(tmp_path / "lake"),
            f"sqlite:{tmp_path / 'state.db'}",
            landed=True,
            quiet_period=0,
            spark=lambda: pytest.fail("Spark was started"),
        )
    assert not (tmp_path / "lake").exists() or not list((tmp_path / "lake").rglob("*.parquet"))


def test_a_history_says_that_the_lake_is_lost_and_somebody_must_look(tmp_path):
    put(tmp_path, {"id": "int"}, [(1,)])
    ask = lambda *more: CliRunner().invoke(
        app,
        [
            "history",
            "shop.item",
            "--key",
            "id=1",
            *more,
            "--folder",
            str(tmp_path),
            "--landing",
            str(tmp_path / "landing"),
            "--lake",
            str(tmp_path / "lake"),
        ],
    )
    assert ask().exit_code == 0 and "The lake has no commit of this table." in ask().stdout
    load = open_landing(str(tmp_path / "landing")).files(T).load
    open_state(f"sqlite:{tmp_path / 'state.db'}").save_position(T, Position(1, load), 2, 0)
    done, said = ask(), " ".join(ask().stdout.split())
    assert done.exit_code == 3 and said.startswith("shop.item: the state remembers commit 2 (load 1 (1 file), no changes yet), but the lake")
    assert "holds no commit of ours" in said and "`dmscdc table rewind shop.item --reload`" in said and "inserted" in said
    assert ask("--json").exit_code == 3 and json.loads(ask("--json").stdout)["words"][0].startswith("shop.item: the state remembers commit 2")


@pytest.mark.parametrize(
    "command",
    [["plan"], ["status"], ["pass"], ["history", "shop.item", "--key", "id=1"], ["as-of", "shop.item"], ["feed", "shop.item", "--out", "OUT"]],
    ids=" ".join,
)
def test_a_landing_that_is_gone_after_tables_were_loaded_fails_every_command(tmp_path, command):
    put(tmp_path, {"id": "int"}, [(1,)])
    state = open_state(f"sqlite:{tmp_path / 'state.db'}")
    state.put_settings(T, key="id")
    load = open_landing(str(tmp_path / "landing")).files(T).load
    state.save_position(T, Position(1, load), 2, 0)
    (tmp_path / "landing").rename(tmp_path / "elsewhere")
    code, said = said_by(tmp_path, *(word.replace("OUT", str(tmp_path / "out")) for word in command))
    assert code == 1 and f"no files of DMS in {tmp_path}/landing: expected " in said and "but this folder does not exist" in said, said


def test_a_damaged_file_of_the_lake_is_none_of_the_landing(tmp_path):
    (tmp_path / "part.parquet").write_bytes(b"PAR1" + b"\x07" * 90 + b"PAR1")
    with pytest.raises(LakeDamaged, match="the lake's file .*part.parquet.*damaged") as error:
        lake_rows_in(PlainFile(str(tmp_path / "part.parquet"), {}, {}), {"id": pa.int32()}, {"id": 1}, KeyIndex(["id"]))
    assert "landing" not in str(error.value)


def said_by(home, *words):
    "Exit code and words of a command, on one line; what is wrong comes out as words."
    done = CliRunner().invoke(app, [*words, "--folder", str(home), "--landing", str(home / "landing"), "--lake", str(home / "lake")])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split())


CUT = (
    ("no Parquet", lambda raw: b"no Parquet", "not a complete Parquet file"),
    ("empty", lambda raw: b"", "not a complete Parquet file"),
    ("half", lambda raw: raw[: len(raw) // 2], "not a complete Parquet file"),
    ("a page", lambda raw: raw[:4] + b"\x07" * 40 + raw[44:], "damaged"),
)


@pytest.mark.parametrize("damage, found", [case[1:] for case in CUT], ids=[case[0] for case in CUT])
def test_a_damaged_file_of_a_table_without_a_key_is_said_as_damage_and_no_key_is_asked_for(tmp_path, damage, found):
    for table in ("shop.bad", "shop.good"):
        write_load(tmp_path / "landing", table, [(n, "a") for n in range(50)], {"id": "int", "name": "string"})
    file = tmp_path / "landing/shop/bad/LOAD00000001.parquet"
    file.write_bytes(damage(file.read_bytes()))
    for command in ("plan", "status", "pass"):
        code, said = said_by(tmp_path, command)
        assert "shop.bad" in said and "LOAD00000001.parquet: " in said and found in said, (command, said)
        assert "Take it out of the landing and let DMS write it again" in said and "Then: dmscdc plan --only shop.bad" in said
        assert "shop.bad waits" not in said and "bad: new, waits" not in said and "Arrow" not in said and ".." not in said.replace("...", ""), (
            command,
            said,
        )
        assert "dmscdc table set shop.good --key id" in said or command == "pass"
    row = next(
        row
        for row in json.loads(
            CliRunner()
            .invoke(app, ["status", "--json", "--folder", str(tmp_path), "--landing", str(tmp_path / "landing"), "--lake", str(tmp_path / "lake")])
            .stdout
        )
        if row["table"] == "shop.bad"
    )
    assert (row["verdict"], row["state"], row["suggested"]) == ("attention", "waiting", []) and row["words"].startswith("LOAD00000001.parquet: ")


def test_a_type_that_is_refused_is_said_with_table_and_file_and_what_to_do(tmp_path, capsys):
    folder = tmp_path / "landing/shop/item"
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table({"id": pa.array([1], pa.int32()), "price": pa.array([Decimal(1)], pa.decimal256(41, 0))}), folder / "LOAD00000001.parquet"
    )
    expected = "LOAD00000001.parquet: column price has type decimal256(41, 0), which Spark cannot read: a decimal has at most 38 digits. Map it to another type in the task"
    with pytest.raises(Unreadable) as refused:
        read_footer("LOAD00000001.parquet", str(folder / "LOAD00000001.parquet"))
    words = message_of(refused.value, "shop.item")
    assert words.startswith(f"shop.item: {expected}") and words.endswith(". Then: dmscdc pass --only shop.item") and ".." not in words
    code, said = said_by(tmp_path, "status")
    assert code == 3 and f"shop.item: {expected}" in said and "waits for its key" not in said
    with pytest.raises(typer.Exit), refusals("shop.item"):
        raise refused.value
    assert f"error shop.item: {expected}" in " ".join(capsys.readouterr().err.split())


def test_a_refusal_that_holds_names_one_command_and_that_one_works():
    words = ended_by(Unreadable("LOAD00000001.parquet: damaged"), "shop.item", [], None, None)[1]
    assert words == "shop.item: LOAD00000001.parquet: damaged. Then: dmscdc pass --only shop.item"
    recalled = TableStatus(
        TableRef("shop", "item"), "ready", TableItem(TableRef("shop", "item")), refusal={"words": f"{words}. The lake is as it was (never loaded)"}
    )
    assert commands_in(refusal_words(recalled)) == ["dmscdc pass --only shop.item --retry"]
    assert refusal_words(recalled).endswith(
        "damaged. The lake is as it was (never loaded). A pass retries it once a file or setting changes; `dmscdc pass --only shop.item --retry` tries it unchanged"
    )


ASKED = [
    ("as-of", "shop.nosuch"),
    ("feed", "shop.nosuch", "--out", "OUT"),
    ("scd2", "shop.nosuch"),
    ("scd2", "shop.item", "shop.nosuch"),
    ("history", "shop.nosuch", "--key", "id=1"),
    ("reconcile", "shop.nosuch", "--source", "sqlite:SOURCE"),
    ("plan", "--only", "shop.nosuch"),
]


@pytest.mark.parametrize("words", ASKED, ids=["-".join(words[:2]) for words in ASKED])
def test_of_a_table_that_is_not_here_this_is_said_with_those_that_are_before_spark_is_started(tmp_path, monkeypatch, words):
    monkeypatch.setattr("dmscdc.cli.ask.session", lambda *given: pytest.fail("Spark was started"))
    monkeypatch.setattr("dmscdc.service.schedule.run_proof", lambda *given, **more: pytest.fail("a run was begun"))
    monkeypatch.setattr(
        "dmscdc.scd2.update.update_versions",
        lambda table, *given, **more: pytest.fail("Spark was started") if table == "shop.nosuch" else weave_nothing(table),
    )
    put(tmp_path, {"id": "int"}, [(1,)])
    write_load(tmp_path / "landing", "shop.other", [(1,)], {"id": "int"})
    code, said = said_by(tmp_path, *[word.replace("OUT", str(tmp_path / "out")).replace("SOURCE", str(tmp_path / "source.db")) for word in words])
    assert (
        code == 2
        and f"error no table shop.nosuch in {tmp_path}/landing or in the state. There are: shop.item, shop.other. All of them: dmscdc status" in said
    ), said
    assert not (tmp_path / "out").exists() and not (tmp_path / "runs").exists()


def weave_nothing(table: str) -> Increment:
    return Increment(table, "", "nothing", "nothing to do", {})


@pytest.mark.parametrize(
    "words",
    [
        ("plan",),
        ("plan", "--json"),
        ("status",),
        ("table", "list"),
        ("history", "shop.item", "--key", "id=1"),
        ("as-of", "shop.item"),
        ("feed", "shop.item", "--out", "OUT"),
        ("scd2", "shop.item"),
        ("runs", "list"),
        ("runs", "show", "abc"),
        ("reconcile", "shop.item", "--source", "sqlite:SOURCE"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_who_only_asks_makes_no_state_and_no_folder(tmp_path, monkeypatch, words):
    monkeypatch.setattr("dmscdc.cli.ask.session", lambda *given: pytest.fail("Spark was started"))
    write_load(tmp_path / "landing", "shop.item", [(1,)], {"id": "int"})
    (tmp_path / "source.db").touch()
    before = sorted(tmp_path.rglob("*"))
    words = [word.replace("OUT", str(tmp_path / "out")).replace("SOURCE", str(tmp_path / "source.db")) for word in words]
    code, said = said_by(tmp_path, *words, "--state", f"sqlite:{tmp_path}/nope/x.db")
    assert sorted(tmp_path.rglob("*")) == before
    if words[0] in ("plan", "status", "table", "history") and "--json" not in words:
        assert said.count(f"State sqlite:{tmp_path}/nope/x.db does not exist yet") == 1, said
    assert (
        said_by(tmp_path, "table", "set", "shop.item", "--key", "id", "--state", f"sqlite:{tmp_path}/nope/x.db")[0] == 0
        and (tmp_path / "nope/x.db").is_file()
    )


def test_status_does_not_repeat_a_refusal_whose_input_has_changed(tmp_path):
    put(tmp_path, {"id": "int"}, [(1,)])
    config = read_config(tmp_path, landing=str(tmp_path / "landing"), lake=str(tmp_path / "lake"), quiet_period=0)
    state, words = open_state(config.state), "LOAD00000001.parquet row 2 has no id. Correct the file"
    state.note_run(
        T,
        {
            "last_verdict": "refused",
            "last_words": f"shop.item: {words}",
            "refused": {"mark": input_fingerprint(read_statuses(config)[0]), "words": words, "run": "1"},
        },
    )
    code, said = said_by(tmp_path, "status", "--quiet-period", "0")
    assert (
        code == 3
        and "row 2 has no id" in said
        and "A pass retries it once a file or setting changes" in said
        and said.count("dmscdc pass --only shop.item --retry") == 1
    )
    table = open_folder(tmp_path, landing=str(tmp_path / "landing"), lake=str(tmp_path / "lake"), quiet_period=0)["item"]
    assert table.plan().startswith("shop.item: refused: LOAD00000001.parquet row 2 has no id")
    write_load(tmp_path / "landing", "shop.item", [(1,), (2,)], {"id": "int"})
    code, said = said_by(tmp_path, "status", "--quiet-period", "0")
    assert code == 0 and "row 2 has no id" not in said, said
    assert (
        "shop.item: was refused by the last run, and its files or settings have changed since. The next pass takes them: dmscdc pass --only shop.item"
        in said
    )
    assert said_by(tmp_path, "plan", "--quiet-period", "0")[0] == 0


def test_the_lag_of_a_run_has_a_unit(tmp_path):
    line = {
        "run": "3f2a",
        "job": "process_table",
        "table": "shop.item",
        "start": "2026-01-01T00:00:00.000Z",
        "end": "2026-01-01T00:00:01.000Z",
        "verdict": "ok",
        "words": "done",
        "notebook": "n.ipynb",
        "html": "n.html",
    }
    for lag, text in ((200.4, "lag 3 min 20 s"), (0.5, "lag 0.5 s"), (None, "")):
        RunLog(tmp_path / "runs").append(LoggedRun.from_json({**line, "run": f"id{lag}", "lag": lag}))
        code, said = said_by(tmp_path, "runs", "show", f"id{lag}")
        assert code == 0 and text in said and "200.4" not in said.replace("id200.4", ""), said


def test_a_pass_that_is_listed_is_said_to_have_no_report_and_its_command_can_be_pasted(tmp_path):
    from dmscdc.runs.log import RunLog
    from dmscdc.service.config import read_config
    from dmscdc.service.passes import PassResult, _finish

    write_load(tmp_path / "landing", "shop.item", [(1,)], {"id": "int"})
    (tmp_path / "dmscdc.toml").write_text('landing = "landing"\nlake = "lake"\n')
    config = read_config(tmp_path)
    _finish(
        config,
        PassResult("5a5a5a5a", "2018-12-15T10:00:00.000Z", "2018-12-15T10:00:01.000Z", "nothing", "1 table: 1 nothing"),
        [],
        ["shop.a b;touch x"],
    )
    (line,) = RunLog(config.runs).newest_first()
    assert shlex.split(line.command) == ["dmscdc", "pass", "--only", "shop.a b;touch x"]
    code, said = said_by(tmp_path, "runs", "show", "5a5a")
    assert code == 2 and "is a pass, which keeps no report" in " ".join(said.split())
