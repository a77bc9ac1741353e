"A damaged load file is never loaded in part: the run says which file, row and column, and nothing has moved."
from __future__ import annotations

import pytest

from damage import ROWS, SOURCE, damages, encoded, put, rows_of
from test_damage import check
from world import World


@pytest.fixture(scope="module", autouse=True)
def way(): "A load is not folded: there is one way."


@pytest.mark.parametrize("settings", [{"key": "id,site"}, {"key": "id,site", "partition": "site"}, {"key": "id", "partition": "at"}, {"insert_only": True}, {"insert_only": True, "partition": "site"}], ids=str)
def test_a_damaged_load_file_refuses_the_load_by_name(tmp_path, spark, settings):
    w = World(tmp_path, spark, SOURCE).set(**settings)
    put(w.raw / "LOAD00000001.parquet", encoded(rows_of(None)))
    path, before, looked = w.raw / "LOAD00000002.parquet", w.standing(), 0
    for what, raw, words in damages(None, ROWS):
        put(path, raw)
        check(w.go(), before, w, path.name, words, what)
        looked += 1
    assert looked == 18
    put(path, encoded(rows_of(None, ROWS)))
    assert w.go().verdict == ("attention" if settings.get("partition") == "at" else "ok") and [n for n, in w.lake("count(*)")] == [2 * ROWS]
