"dmscdc.toml: what is written is what is read, what is not understood is refused."

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import fields

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dmscdc.cli.main import app
from dmscdc.errors import ConfigError
from dmscdc.landing.files import TableRef
from dmscdc.service.config import DEFAULTS, FILE, MEANING, Config, absolute, read_config, table_parameters, write_config

pytestmark = pytest.mark.quick

names = st.text(st.characters(blacklist_categories=("Cc", "Cs"), blacklist_characters="/:~"), min_size=1).filter(
    lambda t: t.strip() and t not in (".", "..")
)


@settings(max_examples=40, deadline=None)
@given(
    landing=names,
    lake=names,
    runs=names,
    workers=st.integers(0, 99),
    quiet_period=st.floats(0, 1e6),
    timeout=st.integers(1, 10**6),
)
def test_every_value_that_is_written_is_read_again(landing, lake, runs, workers, quiet_period, timeout):
    assume(landing != lake)
    with tempfile.TemporaryDirectory() as folder:
        write_config(folder, landing=landing, lake=lake, runs=runs, workers=workers, quiet_period=quiet_period, timeout=timeout)
        config = read_config(folder)
        assert [os.path.basename(p) for p in (config.landing, config.lake, config.runs)] == [landing, lake, runs]
        assert (config.workers, config.quiet_period, config.timeout) == (workers, quiet_period, timeout)


def test_the_names_of_0_1_are_understood(tmp_path):
    (tmp_path / "dmscdc.toml").write_text('landing = "raw"\nlake = "lake"\nsettle = 7\n')
    assert read_config(tmp_path).quiet_period == 7
    with pytest.raises(ConfigError, match="settle is the old name of quiet_period, and both are set"):
        read_config(tmp_path, settle=7, quiet_period=8)
    shop = tmp_path / "shop"
    CliRunner().invoke(app, ["init", "--folder", str(shop), "--landing", "raw", "--lake", "lake", "--settle", "8"])
    assert "\nquiet_period = 8" in (shop / "dmscdc.toml").read_text()


def test_every_setting_has_a_meaning_and_a_line_in_the_file(tmp_path):
    assert set(MEANING) == {f.name for f in fields(Config)} - {"folder"}
    text = write_config(tmp_path, landing="a", lake="b").read_text()
    assert all(f"# {meaning}\n" in text for meaning in MEANING.values())
    for line in [line[2:] for line in text.splitlines() if line.startswith("# ") and " = " in line]:  # as commented, so it works
        name, value = line.split(" = ")
        assert json.loads(value) == DEFAULTS[name]


def test_relative_paths_are_meant_from_the_folder_of_the_file(tmp_path, monkeypatch):
    write_config(tmp_path / "shop", landing="../raw", lake="lake", state="sqlite:s/state.db", runs="/var/runs")
    monkeypatch.chdir(tmp_path / "shop")
    here = read_config(".")
    monkeypatch.chdir(tmp_path)
    assert read_config("shop") == here
    assert (here.landing, here.lake) == (str(tmp_path / "raw"), str(tmp_path / "shop" / "lake"))
    assert (here.state, here.runs, here.folder) == (
        f"sqlite:{tmp_path}/shop/s/state.db",
        "/var/runs",
        str(tmp_path / "shop"),
    )


@pytest.mark.proof
@pytest.mark.parametrize("address", ["s3://bucket/raw", "s3a://bucket/raw", "dynamodb:DMSCDC_Controller"])
def test_addresses_are_no_paths(tmp_path, address):
    assert absolute(address, tmp_path) == address


@pytest.mark.parametrize("name", ["workers", "quiet_period", "timeout", "driver_memory", "landing", "lake", "runs"])
def test_a_flag_wins_over_the_file(tmp_path, name):
    in_file = {"landing": "a", "lake": "b", "runs": "c", "workers": 1, "quiet_period": 1, "timeout": 1, "driver_memory": "1g"}
    flag = {"workers": 7, "quiet_period": 7, "timeout": 7, "driver_memory": "7g"}.get(name, "/seven")
    write_config(tmp_path, **in_file)
    assert getattr(read_config(tmp_path, **{name: flag}), name) == flag


def test_two_flags_are_enough_without_a_file(tmp_path):
    config = read_config(tmp_path, landing="raw", lake="lake")
    assert config == Config(f"{tmp_path}/raw", f"{tmp_path}/lake", f"sqlite:{tmp_path}/state.db", f"{tmp_path}/runs", folder=str(tmp_path))


@pytest.mark.parametrize(
    "name, near",
    [("worker", "workers"), ("Landing", "landing"), ("driver-memory", "driver_memory"), ("quiet_perod", "quiet_period")],
)
def test_an_unknown_setting_is_refused_and_the_nearest_named(tmp_path, name, near):
    (tmp_path / FILE).write_text(f'landing = "a"\nlake = "b"\n{name} = 1\n')
    with pytest.raises(ConfigError, match=f"Unknown setting {name} in {FILE}. Did you mean {near}.*There are: landing, lake"):
        read_config(tmp_path)


def test_an_unknown_flag_is_refused_before_the_file_is_used(tmp_path):
    with pytest.raises(ConfigError, match="Unknown setting landings. Did you mean landing"):
        read_config(tmp_path, landings="raw")


def test_nothing_is_written_when_a_value_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="workers is a whole number"):
        write_config(tmp_path / "new", landing="a", lake="b", workers=-1)
    assert not (tmp_path / "new").exists()


def test_a_file_that_exists_is_never_touched(tmp_path):
    (tmp_path / FILE).write_text("# mine\n")
    with pytest.raises(ConfigError, match="already exists and was left unchanged"):
        write_config(tmp_path, landing="a", lake="b")
    assert (tmp_path / FILE).read_text() == "# mine\n"


@pytest.mark.parametrize("name", ["landing", "lake"])
def test_no_user_or_password_is_taken_from_an_address(tmp_path, name):
    with pytest.raises(ConfigError, match=f"{name} holds a user or a password") as refusal:
        read_config(tmp_path, **{"landing": "a", "lake": "b", name: "s3://AKIA:secret@bucket/raw"})
    assert "secret" not in str(refusal.value)


def test_the_parameters_of_a_job_are_literals_that_name_the_table(tmp_path):
    given = table_parameters(read_config(tmp_path, landing="raw", lake="lake"), TableRef("sampledb", "product"), run="r1")
    assert given == {
        "table": "sampledb.product",
        "landing": f"{tmp_path}/raw",
        "lake": f"{tmp_path}/lake",
        "state": f"sqlite:{tmp_path}/state.db",
        "format": "parquet",
        "quiet_period": 300,
        "run": "r1",
    }


@pytest.mark.parametrize(
    "landing, lake",
    [
        ("raw", "raw"),
        ("raw", "raw/lake"),
        ("lake/raw", "lake"),
        ("raw", "other/../raw"),
        ("raw", "link"),
        ("s3://b/raw", "s3a://b/raw/"),
        ("s3://b", "s3://b/lake"),
    ],
)
def test_a_lake_in_the_landing_or_a_landing_in_the_lake_is_refused(tmp_path, landing, lake):
    (tmp_path / "raw").mkdir()
    (tmp_path / "link").symlink_to("raw")
    with pytest.raises(ConfigError, match="give the lake a place of its own"):
        read_config(tmp_path, landing=landing, lake=lake)


@pytest.mark.parametrize(
    "landing, lake", [("raw", "raw2"), ("raw", "lake/raw"), ("s3://b/raw", "s3://b/raw2"), ("s3://b/raw", "s3://c/raw"), ("s3://b/raw", "b/raw")]
)
def test_places_beside_each_other_are_apart(tmp_path, landing, lake):
    assert read_config(tmp_path, landing=landing, lake=lake).lake.endswith(lake)


@pytest.mark.parametrize("state", ["sqlite:", "sqlite:.", "sqlite:..", "sqlite:./", "state.db", "dynamodb:", "postgres:x"])
def test_a_state_names_a_file_or_a_table(tmp_path, state):
    with pytest.raises(ConfigError, match="--state: state is sqlite:FILE or dynamodb:TABLE"):
        read_config(tmp_path, landing="a", lake="b", state=state)


def test_settings_that_are_a_folder_are_said(tmp_path):
    (tmp_path / FILE).mkdir()
    with pytest.raises(ConfigError, match=f"{FILE} cannot be read .Is a directory.: a text file"):
        read_config(tmp_path)


def test_a_working_folder_that_was_deleted_is_said(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ConfigError, match="the working folder is gone .deleted or moved.*cd into a folder that exists"):
        read_config(".", landing="/a", lake="/b")
    write_config(tmp_path, landing="a", lake="b")
    assert read_config(tmp_path).landing == str(tmp_path / "a")
