"What is typed wrongly ends a command with code 2 and a sentence, before any work."

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import write_load
from dmscdc.cli.main import app
from dmscdc.landing.files import TableRef
from dmscdc.runs.log import LoggedRun, RunLog
from dmscdc.service.config import write_config
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.proof

T = TableRef("shop", "item")


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    "A folder with settings, a source, a landing of one table whose key is known, and a run log of three runs."
    home = tmp_path_factory.mktemp("typed")
    write_config(home, landing="landing", lake="lake", source=f"sqlite:{home / 'source.db'}")
    (home / "source.db").touch()
    open_state(f"sqlite:{home / 'state.db'}").put_settings(T, key="id")
    write_load(home / "landing", T, [(1, "a")], {"id": "int", "name": "string"})
    log = RunLog(str(home / "runs"))
    for number, begun in enumerate(("2018-11-30T23:59:59", "2018-12-13T10:00:00", "2019-01-01T00:00:00")):
        log.append(
            LoggedRun.from_json(
                {
                    "run": f"{number}abc",
                    "job": "process_table",
                    "table": str(T),
                    "start": f"{begun}.000Z",
                    "end": f"{begun}.500Z",
                    "verdict": "ok",
                    "files": 1,
                    "words": "x",
                    "notebook": f"{number}.ipynb",
                }
            )
        )
    return home


def said_by(home: Path, *words: str) -> tuple[int, str]:
    "Exit code and words of a command, on one line; what is wrong comes out as words."
    done = CliRunner().invoke(app, [*words, "--folder", str(home)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    "words, says",
    [
        ("history shop.item --key id=1 --svg .", "--svg . is a folder; the name of a file was expected"),
        ("history shop.item --key id=1 --html .", "--html . is a folder; the name of a file was expected"),
        ("history shop.item --key id=1 --svg /nope/row.svg", "--svg /nope/row.svg: there is no folder /nope"),
        ("runs list --since 2018/12/13", "a time is written 2026-01-01T12:00Z, 2026-01-01, now, today or yesterday, not '2018/12/13'"),
        ("runs list --since tomorrow", "a time is written 2026-01-01T12:00Z, 2026-01-01, now, today or yesterday, not 'tomorrow'"),
        ("runs list --most 0", "Invalid value for '--"),
        ("reconcile shop.item --source-table nope", "nope"),
        ("reconcile shop.item --limit 0", "Invalid value for '--"),
        ("reconcile shop.item --wait -1", "Invalid value for '--"),
        ("reconcile shop.item --interval -1", "Invalid value for '--"),
        (
            "table rebuild --only shop.itme",
            "no table shop.itme: it is neither in the landing nor in the state nor in the lake. Did you mean shop.item?",
        ),
    ],
)
def test_it_is_said_with_code_2_and_nothing_is_kept(home, words, says):
    before = sorted(home.rglob("*"))
    code, said = said_by(home, *words.split())
    plain = " ".join(said.replace("│", " ").split())
    assert code == 2 and says in plain, said
    assert sorted(home.rglob("*")) == before and [str(item.table) for item in open_state(f"sqlite:{home / 'state.db'}").items()] == [str(T)]


def test_capture_takes_no_negative_time(home):
    done = CliRunner().invoke(app, ["capture", f"sqlite:{home / 'source.db'}", "--landing", str(home / "none"), "--interval", "-1"])
    assert done.exit_code == 2 and "Invalid value for '--interval'" in done.output and not (home / "none").exists()


def test_a_run_without_a_name_is_none(home):
    for command in ("show", "html"):
        code, said = said_by(home, "runs", command, "")
        assert code == 2 and "no run ''" in said, said
    assert said_by(home, "runs", "show", "item") == said_by(home, "runs", "show", "2abc") != said_by(home, "runs", "show", "1abc")


@pytest.mark.parametrize(
    "since, runs",
    [
        ("2018", "012"),
        ("2018-12", "12"),
        ("2018-12-13 10:00", "12"),
        ("2018-12-13T11:00:01+01:00", "2"),
        ("2018-12-13T09:00-01:00", "12"),
        ("2019-01-01", "2"),
        ("2020", ""),
    ],
)
def test_runs_since_a_time_of_any_spelling(home, since, runs):
    code, said = said_by(home, "runs", "list", "--since", since)
    assert code == 0 and [number for number in "012" if f"{number}abc" in said] == list(runs), said


def test_no_run_is_said_in_words(home):
    code, said = said_by(home, "runs", "list", "--table", "shop.none", "--verdict", "failed")
    assert code == 0 and said == f"no run in {home / 'runs'}, table shop.none, verdict failed", said


@pytest.mark.parametrize(
    "given, says",
    [
        (("--landing", "a", "--lake", "a"), "are the same place"),
        (("--landing", "a", "--lake", "a/lake"), "lie one inside the other"),
        (("--landing", "a", "--lake", "b", "--format", "paimon"), "format 'paimon' is not one of parquet"),
    ],
    ids=["same", "inside", "format"],
)
def test_init_writes_no_settings_that_no_command_takes(tmp_path, given, says):
    done = CliRunner().invoke(app, ["init", "--folder", str(tmp_path), *given])
    assert done.exit_code == 2 and says in " ".join(done.output.split()) and not list(tmp_path.iterdir()), done.output


def test_a_table_is_set_to_no_format_that_there_is_not_and_plan_says_it_in_words(home, tmp_path):
    code, said = said_by(home, "table", "set", str(T), "--format", "paimon")
    assert code == 2 and "--format: format is one of parquet, delta, iceberg, hudi, hudi-mor, not 'paimon'" in said
    assert open_state(f"sqlite:{home / 'state.db'}").get(T).format == "parquet"
    write_config(tmp_path, landing="landing", lake="lake")
    open_state(f"sqlite:{tmp_path / 'state.db'}").put_settings(T, key="id", format="paimon")
    write_load(tmp_path / "landing", T, [(1, "a")], {"id": "int", "name": "string"})
    code, said = said_by(tmp_path, "plan")
    assert code and "format 'paimon' is not one of parquet" in said and "FormatMissing" not in said, said


def test_a_binary_key_is_written_in_hexadecimal(tmp_path):
    write_config(tmp_path, landing="landing", lake="lake")
    open_state(f"sqlite:{tmp_path / 'state.db'}").put_settings(T, key="b")
    write_load(tmp_path / "landing", T, [(b"\x00\xff", "a")], {"b": "binary", "name": "string"})
    code, said = said_by(tmp_path, "history", str(T), "--key", "b=zz")
    assert code == 2 and "'zz' is not a binary value (binary): write its bytes in hexadecimal, like 00ff" in said
    code, said = said_by(tmp_path, "history", str(T), "--key", "b=00ff")
    assert code == 0 and "inserted" in said, said
