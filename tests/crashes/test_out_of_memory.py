"A batch that does not fit into the memory of a real Spark server, beside a table that does: down to the run log and the page."

from __future__ import annotations

import pytest

from dmscdc.capture.writer import write_load
from dmscdc.landing.files import TableRef
from dmscdc.runs.log import RunLog
from dmscdc.service.config import read_config
from dmscdc.service.passes import run_pass
from dmscdc.state.registry import open_state
from world import query

pytestmark = pytest.mark.torture

SHAPE = {"id": "int", "part": "string", "said": "string"}
LARGE = 300 * 2**20  # characters of one text; the server has 512 MB for everything


@pytest.mark.torture
def test_a_batch_larger_than_the_servers_memory_fails_alone_and_says_what_to_do(tmp_path):
    config = read_config(tmp_path, landing="landing", lake="lake", quiet_period=0, workers=2, driver_memory="512m")
    state = open_state(config.state)
    for name, said in (("large", "x" * LARGE), ("small", "x")):
        write_load(config.landing, f"shop.{name}", [(1, "a", said), (2, "b", "y")], SHAPE)
        state.put_settings(TableRef("shop", name), key="id", partition="part")
    events = []
    done = run_pass(config, on_event=events.append)
    large, small = done.tables["shop.large"], done.tables["shop.small"]
    assert (done.exit_code, large.verdict, large.run.cause, small.verdict) == (1, "failed", "server out of memory", "ok"), [large.words, small.words]
    assert (
        large.words == "alone on a new server, and again: the Spark server ran out of memory (it had 512m); give it more: --driver-memory, now 512m"
    )
    assert [line for line in events if "its server died, so once more, alone" in line]
    assert query(f"select id, said from read_parquet('{tmp_path}/lake/shop/small/**/*.parquet') order by id") == [(1, "x"), (2, "y")]
    assert not list((tmp_path / "lake" / "shop" / "large").rglob("*.parquet")) and state.get(TableRef("shop", "large")).commit == 0
    lines = [line for line in RunLog(config.runs).runs() if line.table == "shop.large"]
    assert len(lines) == 2 and {(line.verdict, line.cause) for line in lines} == {("failed", "server out of memory")}
    for line in lines:
        page = (tmp_path / "runs" / line.html).read_text()
        assert "ran out of memory (it had 512m)" in page and "--driver-memory" in page
    front = (tmp_path / "runs" / "index.html").read_text()
    assert "shop.large" in front and "ran out of memory" in front
    assert not any(state.holder(TableRef("shop", name)) for name in ("large", "small"))
