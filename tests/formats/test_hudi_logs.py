"What holds of tables of Hudi with logs alone (`hudi-mor`)."

from __future__ import annotations

import pytest
from test_hudi_tables import filled

pytestmark = pytest.mark.torture


def test_logs_are_compacted_and_a_compaction_is_no_other_program(tmp_path, spark):
    world = filled(tmp_path, spark)
    for number in range(1, 7):
        assert world.changes(number, [("U", 1, f"change {number}", "north")]).go().verdict == "ok"
    words = [version.words for version in world.lake_table.versions()]
    assert "COMPACT" in words and world.lake_table.inspect()[0] == [], words
    assert world.lake("id, name") == [(1, "change 6"), (2, "b"), (3, "c")]
