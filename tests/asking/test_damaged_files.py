"Asked about a table one of whose files is damaged: the answer names the file, and never gives a part of it for the whole."

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from damage import DAMAGES, LIBRARIES, ROWS, damages, encoded, put, rows_of
from dmscdc.changes import partition_runners
from dmscdc.changes.partition_runners import explained
from dmscdc.cli.main import app
from dmscdc.errors import Refused
from dmscdc.history.as_of import as_of
from dmscdc.history.changelog import open_changelog
from dmscdc.history.row import row_lives
from dmscdc.landing.files import TableRef
from dmscdc.service.config import write_config
from dmscdc.state.registry import open_state
from engines import feed
from tiers import sampled

pytestmark = pytest.mark.proof

T = TableRef("shop", "item")
LOAD, CHANGES = "LOAD00000001.parquet", ["20181215-100001000.parquet", "20181215-100002000.parquet"]


@pytest.fixture
def landing(tmp_path):
    "A load and two change files; the tests damage one of them."
    folder = tmp_path / "shop/item"
    put(folder / LOAD, encoded(rows_of(None)))
    for name in CHANGES:
        put(folder / name, encoded(rows_of("U")))
    return tmp_path


@pytest.mark.torture
@pytest.mark.parametrize("name, op", [(LOAD, None), (CHANGES[1], "U")])
def test_a_row_s_life_says_which_file_could_not_be_read(landing, name, op):
    looked = 0
    for what, raw, words in damages(op):
        put(landing / "shop/item" / name, raw)
        lives = row_lives(open_changelog(str(landing), T), [{"id": 71, "site": "site 2"}, {"id": 0, "site": "site 0"}, {"id": 149, "site": "site 2"}])
        said = " ".join(lives[0].words)
        assert name in said or "beyond" in what, (what, said)
        assert "'utf-8' codec" not in said and "Traceback" not in said, (what, said)
        looked += 1
    assert looked == DAMAGES


@pytest.mark.parametrize("ask", sampled(["as of", "feed"], "as of"))
@pytest.mark.parametrize("name, op", [pytest.param(LOAD, None, marks=pytest.mark.torture), (CHANGES[1], "U")])
def test_an_answer_of_spark_names_the_damaged_file(landing, spark, name, op, ask):
    looked = 0
    for what, raw, words in damages(op):
        put(landing / "shop/item" / name, raw)
        try:
            past = open_changelog(str(landing), T)
            answer = as_of(spark, past, ("id", "site")) if ask == "as of" else feed(spark, past, ("id", "site"), net=False)
            rows = answer.rows.collect()
        except Refused as error:
            said = error
        except Exception as error:
            said = explained(error, past.urls)
        else:
            raise AssertionError((what, len(rows)))
        assert said is not None and name in str(said), (what, said)
        assert all(part in str(said) for part in words), (what, words, said)
        assert len(str(said)) < 400 and "org.apache" not in str(said), (what, said)
        looked += 1
    assert looked == DAMAGES
    put(landing / "shop/item" / name, encoded(rows_of(op)))
    assert as_of(spark, open_changelog(str(landing), T), ("id", "site")).rows.count() == ROWS


@pytest.mark.parametrize("way", sampled(["here", "in tasks"], "here"))
@pytest.mark.parametrize(
    "command",
    [
        ["as-of", "shop.item"],
        pytest.param(["feed", "shop.item", "--to", "landed", "--out", "delivered"], marks=pytest.mark.torture),
        ["scd2", "shop.item", "--to", "landed"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_names_the_damaged_file_and_delivers_nothing(landing, spark, tmp_path_factory, monkeypatch, command, way):
    home = tmp_path_factory.mktemp("home")
    if way == "in tasks":
        monkeypatch.setattr(partition_runners, "AT_ONCE", -1)
    write_config(home, landing=str(landing), lake="lake", quiet_period=0)
    open_state(f"sqlite:{home / 'state.db'}").put_settings(T, key="id,site")
    chosen = [
        (what, raw, words)
        for what, raw, words in damages("U")
        if what in ("a bit in a page of price", "one bit makes nulls of names", "name of row 149 is Latin-1")
    ]
    for what, raw, words in chosen:
        put(landing / "shop/item" / CHANGES[1], raw)
        done = CliRunner().invoke(app, [*command, "--folder", str(home)])
        assert isinstance(done.exception, SystemExit) and done.exit_code == 1, (what, done.output, done.exception)
        said = " ".join(done.output.split())
        assert "shop.item: " in said and f" {CHANGES[1]}" in said and "file://" not in said and "///" not in said, (what, said)
        assert all(part in said for part in words) and not any(word in said for word in LIBRARIES), (what, said)
        assert not list(home.glob("delivered/*")) and not list(home.glob("lake/**/*.parquet"))
    assert len(chosen) == 3
