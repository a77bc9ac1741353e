"""Tables that the settings leave out: not planned, not run, counted and named once."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dmscdc.capture.writer import write_load
from dmscdc.cli.main import app
from dmscdc.errors import ConfigError
from dmscdc.landing.files import TableRef
from dmscdc.runs.log import RunLog
from dmscdc.service.config import read_config, write_config
from dmscdc.state.registry import open_state

pytestmark = pytest.mark.quick

TABLES = ("shop.item", "shop.tmp_1", "shop.tmp_2", "other.item")


@pytest.fixture
def home(tmp_path):
    "Four tables, of which the settings mean one; it is paused, so that a pass needs no Spark."
    for table in TABLES:
        write_load(tmp_path / "landing", table, [(1, "a")], {"id": "int", "name": "string"})
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, include="shop.*", exclude="*.tmp_*")
    open_state(f"sqlite:{tmp_path / 'state.db'}").put_settings(TableRef("shop", "item"), key="id", active=False)
    return tmp_path


def typed(home, *words: str):
    done = CliRunner().invoke(app, [*words, "--folder", str(home)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.parametrize("command", ["plan", "status", "pass"])
def test_they_are_counted_and_named_once(home, command):
    done = typed(home, command)
    said = '3 tables left out by include = "shop.*" and exclude = "*.tmp_*": other.item, shop.tmp_1, shop.tmp_2'
    assert " ".join(done.output.split()).count(said) == 1 and done.output.count("tmp_1") == 1
    if command == "pass":
        assert done.exit_code == 0 and done.stdout.strip() == f"1 table: 1 paused; {said}"
        assert [line.words for line in RunLog(home / "runs").newest_first()] == [f"1 table: 1 paused; {said}"]
        assert "tmp_1" not in {row["table"] for row in json.loads(typed(home, "status", "--json").stdout)}


def test_one_that_is_named_is_refused_in_words_unless_the_setting_is_changed(home):
    done = typed(home, "plan", "--only", "shop.tmp_1")
    assert done.exit_code == 2 and "shop.tmp_1" in done.output and "--exclude" in done.output
    assert typed(home, "plan", "--only", "shop.tmp_1", "--exclude", "").exit_code == 0


def test_without_patterns_all_are_meant_and_patterns_that_fit_no_name_are_refused(home):
    done = typed(home, "plan", "--include", "", "--exclude", "", "--json")
    assert sorted(row["table"] for row in json.loads(done.stdout)) == sorted(TABLES)
    with pytest.raises(ConfigError, match="include is patterns of schema.table"):
        read_config(home, include="shop")
