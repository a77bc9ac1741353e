"Asked about a table one of whose files is damaged: the answer names the file, and never gives a part of it for the whole."
from __future__ import annotations

import pytest

from damage import ROWS, damages, encoded, put, rows_of
from dmscdc.as_of import as_of
from dmscdc.feed import feed
from dmscdc.files import TableRef
from dmscdc.history import states_of
from dmscdc.past import open_past
from dmscdc.schema import Refused
from dmscdc.tasks import explained

T = TableRef("shop", "item")
LOAD, CHANGES = "LOAD00000001.parquet", ["20181215-100001000.parquet", "20181215-100002000.parquet"]


@pytest.fixture
def landing(tmp_path):
    "A load and two change files; the tests damage one of them."
    folder = tmp_path / "shop/item"
    put(folder / LOAD, encoded(rows_of(None)))
    for name in CHANGES: put(folder / name, encoded(rows_of("U")))
    return tmp_path


@pytest.mark.parametrize("name, op", [(LOAD, None), (CHANGES[1], "U")])
def test_a_row_s_life_says_which_file_could_not_be_read(landing, name, op):
    looked = told = 0
    for what, raw, words in damages(op):
        put(landing / "shop/item" / name, raw)
        lives = states_of(open_past(str(landing), T), [{"id": 71, "site": "site 2"}, {"id": 0, "site": "site 0"}, {"id": 149, "site": "site 2"}])
        said = " ".join(lives[0].words)
        files = [{step.file.split("#")[0] for step in life.steps} for life in lives]
        assert name in said or all(len(f) == 3 for f in files) or "site" in what or "beyond" in what, (what, said)
        assert "'utf-8' codec" not in said and "Traceback" not in said, (what, said)
        looked, told = looked + 1, told + (name in said)
    assert looked == 18 and told >= 12


@pytest.mark.parametrize("ask", ["as of", "feed"])
@pytest.mark.parametrize("name, op", [(LOAD, None), (CHANGES[1], "U")])
def test_an_answer_of_spark_names_the_damaged_file(landing, spark, name, op, ask):
    looked = 0
    for what, raw, words in damages(op):
        put(landing / "shop/item" / name, raw)
        try:
            past = open_past(str(landing), T)
            answer = as_of(spark, past, ("id", "site")) if ask == "as of" else feed(spark, past, ("id", "site"), net=False)
            rows = answer.rows.collect()
        except Refused as error: said = error
        except Exception as error: said = explained(error, past.urls)
        else: raise AssertionError((what, len(rows)))
        assert said is not None and name in str(said), (what, said)
        assert all(part in str(said) for part in words), (what, words, said)
        assert len(str(said)) < 400 and "org.apache" not in str(said), (what, said)
        looked += 1
    assert looked == 18
    put(landing / "shop/item" / name, encoded(rows_of(op)))
    assert as_of(spark, open_past(str(landing), T), ("id", "site")).rows.count() == ROWS
