"""Which tests `make quick`, `make test` and `make proof` run. Each test belongs to one tier:

* `quick`: needs no Java. `make quick` takes less than a minute.
* `test`: needs Spark in its own process, or takes seconds. `make test` runs it with the quick ones and with every notebook.
* `proof`: needs a server, a kernel, a browser, a database or a cluster, kills something, or sweeps over many names, tables or files. `make proof` runs it;
  what is drawn at random is drawn from seeds that are fixed (`seeds.py`).

`make torture` runs everything, with what is marked `torture` too: all kill points, more histories, other seeds, and the rest of each of the SWEEPS,
of which the other targets run a few.
"""
from __future__ import annotations

import re
from typing import Any

TIERS = {  # the longest beginning of a test's id decides; a fixture of SERVERS decides before it
    "adversary": "proof",
    "asking": "test",
    "asking/test_asked_": "proof",  # sweeps over names, tables and archives
    "asking/test_damaged_": "proof",  # every command over every damage
    "asking/test_feed.py::test_a_key_on_a_day": "proof",
    "asking/test_feed_and_lake.py": "proof",
    "asking/test_first_day.py": "proof",
    "asking/test_history.py": "quick",
    "asking/test_questions.py": "quick",
    "asking/test_scd2.py::test_a_reload_closes": "proof",
    "asking/test_scd2.py::test_both_zeros": "proof",
    "asking/test_width.py": "proof",
    "aws": "proof",
    "aws/test_templates.py": "quick",
    "cluster": "proof",
    "contracts": "test",
    "contracts/test_commit.py": "quick",
    "contracts/test_open_logs.py": "quick",
    "contracts/test_state.py": "quick",
    "crashes": "proof",
    "crashes/test_protocol.py::test_two_writers": "quick",
    "foreign": "test",
    "formats": "proof",
    "histories": "test",
    "house": "quick",
    "house/test_fresh.py": "proof",
    "house/test_imports.py": "test",
    "house/test_imports.py::test_words": "quick",
    "house/test_pythons.py": "proof",
    "house/test_rooms.py": "test",
    "house/test_typed.py": "proof",
    "house/test_wheel.py": "proof",
    "jobs": "proof",
    "jobs/test_cli.py": "test",
    "jobs/test_cli.py::test_conformance_": "proof",
    "landing": "quick",
    "loading": "test",
    "loading/test_damaged_loads.py": "proof",
    "loading/test_names.py": "proof",
    "pages": "proof",
    "planning": "quick",
    "planning/test_asked_in_trouble.py": "test",
    "planning/test_one_table.py": "test",
    "planning/test_set_otherwise.py": "test",
    "proof": "proof",
    "proof/test_in_flight.py": "test",
    "proof/test_proof_words.py": "quick",
    "running": "proof",
    "running/test_old_runs.py": "quick",
    "stream": "proof",
    "running/test_metrics.py": "test",
    "running/test_schedule.py": "test",
    "scenarios": "test",
    "shapes": "quick",
    "shapes/test_csv.py": "test",
    "shapes/test_settings.py": "proof",
    "shapes/test_unlogged.py": "test",
    "shapes/test_unlogged.py::test_a_captured": "proof",
    "shapes/test_key_changes.py::test_random_": "proof",

    "scenarios/test_table_names.py": "proof",
    "session": "proof",
    "session/test_session.py": "test",
    "state_dynamodb": "proof",
}
SWEEPS = (  # ids that repeat another test for one more name, table, moment or way, or whose rare case takes long
    r"adversary/test_adversary.py::.*\[adv\.(?!columns|late\])",
    r"asking/test_as_of.py::test_as_of_every_position.*\[from empty",
    r"asking/test_asked_archive.py::test_",
    r"asking/test_asked_names.py::test_",
    r"asking/test_asked_tables.py::test_",
    r"asking/test_damaged_files.py::.*\[(?!20181215\S*-as of|as-of-here|scd2-here)",
    r"asking/test_feed.py::test_dead_at_any_step.*\[(?!visible)",
    r"asking/test_first_day.py::.*\[(?!names)",
    r"aws/test_decided.py::test_a_writer_killed.*\[(?!sqlite-incremental)",
    r"aws/test_decided.py::test_of_sixteen.*\[(?!dynamodb-overlooks)",
    r"aws/test_elsewhere.py::test_airflow",
    r"aws/test_lake.py::test_a_writer_killed",
    r"aws/test_landing.py::test_a_bucket_gives.*\[(?!flat|YYYYMMDD SLASH|YYYYMMDDHH DASH)",
    r"aws/test_lint.py::test_what_checkov",
    r"aws/test_s3a.py::test_",
    r"cluster/test_cluster.py::test_(the_story|shards_of|of_forty)",
    r"cluster/test_ways.py::test_classic_notebooks",
    r"contracts/test_tables.py::test_what_is_staged.*\[(?!parquet|\S*-apply)",
    r"crashes/test_buckets.py::test_whatever_changes",
    r"crashes/test_buckets.py::test_a_run_killed_anywhere.*\[(?!partitioned)",
    r"crashes/test_buckets.py::test_a_sleeper",
    r"crashes/test_controllers.py::test_a_controller_killed.*\[(?!later)",
    r"crashes/test_disks.py::test_a_disk.*\[(?!incremental load-full|partitioned-refuse|partitioned\])",
    r"crashes/test_disks.py::test_an_input.*\[(?!incremental)",
    r"formats/test_format_kills.py::test_a_run_killed_at_any.*\[(?!0)",
    r"jobs/test_working_folder.py::test_a_pass_imports",
    r"loading/test_(columns|damage|inserts|names|partitions|reload_difference|rename|times|values|when_gone|without_key).py::.*\[shuffled",
    r"loading/test_damage.py::test_a_damaged_change_file.*\[direct-site",
    r"loading/test_damaged_loads.py::test_a_damaged_load_file.*\[(?!{'key': 'id,site', 'partition)",
    r"loading/test_fold.py::test_passes_cut.*\[(?!direct-key1|shuffled-key2)",
    r"loading/test_order.py::test_another_text.*\[shuffled",
    r"pages/test_explorations.py::test_an_exploration_reads_the_nearest.*\[(?!run_reports)",
    r"proof/test_float_keys.py::test_a_table",
    r"proof/test_in_flight.py::test_columns_of_any_name.*\[(?!x)",
    r"proof/test_in_flight.py::test_(it_is_different_(once_a_later_file_of_another|after)|a_late_file_(does_not|fills)|a_column_that|a_deleted_row|a_later_name)",
    r"proof/test_lake_mutations.py::test_any_one_value.*\[(?!mysql)",
    r"proof/test_mutations.py::.*\[(?!postgresql)",
    r"running/test_controller.py::test_ctrl_c_and_sigterm.*\[(?!1-15)",
    r"running/test_gone.py::test_a_refused_file_that_comes_back",
    r"running/test_standing.py::test_a_change_of.*\[(?!another_file|an_instruction)",
    r"session/test_jars.py::test_a_description_without",
    r"session/test_server.py::test_a_task_that_does_not_listen",
    r"shapes/test_csv.py::test_random_changes.*\[shuffled",
    r"shapes/test_key_changes.py::test_the_old_key.*\[shuffled-(?!a swap)",
    r"shapes/test_quarantine.py::test_a_replayed_row.*\[shuffled",
    r"shapes/test_unlogged.py::test_random.*\[(?!direct-marker|shuffled-keep-area)",
    r"stream/test_lives.py::test_the_lake_equals.*\[(?![0-1]\])",
    r"stream/test_stream.py::test_the_story_of_a_stream",
)
SERVERS = {"aws", "bucket", "browser", "cluster", "dynamodb", "dynamodb_server", "dynamodb_table", "mariadb", "moto", "postgresql"}

def tier_of(name: str, fixtures: Any = ()) -> str:
    "The tier of a test: `asking/test_feed.py::test_…`, with the names of its fixtures."
    if any(re.match(sweep, name) for sweep in SWEEPS): return "torture"
    # a dot joins the name of a module, which may be called as a server is
    if SERVERS & {*fixtures, *re.split(r"[^\w.]|_", name.partition("[")[2])}: return "proof"
    tier = TIERS[max((key for key in TIERS if name.startswith(key)), key=len)]  # a folder without a tier is an error here
    return "test" if tier == "quick" and "spark" in fixtures else tier
