"What a table needs, from names, sizes and times. One rule a test; the files stand in the test."

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmscdc.landing.files import Listing, RawFile, TableRef, classify
from dmscdc.load.arrivals import changed_inputs
from dmscdc.load.initial import position_of_load
from dmscdc.load.plan import plan_table
from dmscdc.state.position import Position, checksum

pytestmark = pytest.mark.quick

T = TableRef("sampledb", "product")
NOON = datetime(2018, 12, 15, 12, tzinfo=timezone.utc).timestamp()
SUPERSEDE, KEEP = {"kind": "reload", "changes": "supersede"}, {"kind": "reload", "changes": "keep"}


def load(number: int, minute: float = 0, size: int = 2310, folder: str = "") -> RawFile:
    "A load file, put so many minutes after noon."
    return RawFile(f"{folder}LOAD{number:08X}.parquet", size, NOON + 60 * minute)


def name(minute: float) -> str:
    return f"{datetime.fromtimestamp(NOON + 60 * minute, timezone.utc):%Y%m%d-%H%M%S}000.parquet"


def change(minute: float, put: float | None = None, size: int = 804, folder: str = "", ending: str = "parquet") -> RawFile:
    "A change file named so many minutes after noon, put a second later or at another minute."
    path = folder + name(minute).replace("parquet", ending)
    return RawFile(path, size, NOON + 60 * minute + 1 if put is None else NOON + 60 * put)


def listing(*files: RawFile) -> Listing:
    return classify(files)


def plan(files, position=None, minute=60.0, **more):
    return plan_table(T, files if isinstance(files, Listing) else classify(files), position, now=NOON + 60 * minute, **more)


def after(*files: RawFile, minute: float = 60.0) -> Position:
    "The position of a table that was loaded from these files in one pass."
    done = plan(files, minute=minute)
    assert not done.is_empty and not done.notes
    return done.after


# The load set: complete, incomplete, mixed


def test_a_load_set_waits_until_it_was_quiet_for_the_settle_time():
    files = [load(1, 0)]
    waits = plan(files, minute=4.9)
    assert (waits.kind, waits.load, waits.waits) == (
        "nothing",
        (),
        "1 load file; complete at 2018-12-15 12:05:00 UTC, or as soon as a change file follows",
    )
    assert plan(files, minute=5).kind == "initial"


def test_a_load_set_waits_twice_the_longest_gap_between_its_files():
    files = [load(1, 0), load(2, 10), load(3, 11)]
    assert plan(files, minute=30.9).kind == "nothing"
    assert plan(files, minute=31).load == tuple(files)


def test_a_change_file_put_after_the_last_load_file_completes_the_set():
    files = [load(1, 0), load(2, 1)]
    assert plan([*files, change(0.5)], minute=1.5).kind == "nothing"
    assert plan([*files, change(1.2)], minute=1.5).kind == "both"


def test_with_settle_0_a_set_is_complete_at_once():
    assert plan([load(1, 0), load(2, 30)], minute=30, quiet_period=0).kind == "initial"


def test_no_change_is_applied_while_the_first_load_is_incomplete():
    assert plan([change(-30), change(-20), load(1, 0)], minute=1).inputs == ()


def test_no_new_change_is_applied_while_a_reload_is_incomplete():
    position = after(load(1, 0), change(10))
    found = plan([load(1, 70, size=9), load(2, 71, size=9), change(10), change(20)], position, minute=72)
    assert (found.kind, found.inputs, found.after) == ("nothing", (), position) and "2 load files" in found.waits


def test_an_older_file_under_a_higher_number_waits_and_then_asks_a_person():
    position = after(load(1, 0), load(2, 1), load(3, 2))
    files = [load(1, 70, size=9), load(2, 71, size=9), load(3, 2)]
    assert plan(files, position, minute=72).kind == "nothing"
    found = plan(files, position, minute=80)
    assert (found.kind, found.inputs) == ("attention", ())
    assert "LOAD00000003.parquet (put 2018-12-15 12:02:00 UTC) is older than LOAD00000002.parquet" in found.notes[0]
    assert "dmscdc table rewind sampledb.product --reload --keep-changes" in found.notes[0]


def test_a_mixed_first_set_is_not_complete_by_a_change_file_and_not_by_settle_0():
    files = [load(1, 10), load(2, 0), change(11)]
    assert plan(files, minute=12).kind == "nothing"
    assert plan(files, minute=12, quiet_period=0).kind == "attention"


def test_a_person_may_say_that_a_mixed_set_belongs_together():
    files = [load(1, 10), load(2, 0), change(11)]
    assert plan(files, minute=60, instruction=KEEP).kind == "both"


def test_segments_and_folders_have_their_own_numbers():
    files = [
        RawFile("SEGMENT1_LOAD00000001.parquet", 5, NOON + 90),
        RawFile("SEGMENT2_LOAD00000001.parquet", 5, NOON),
        load(1, 1, folder="west/"),
        load(1, 0.5, folder="east/"),
        load(2, 0.9, folder="east/"),
    ]
    assert len(plan(files).load) == 5


def test_a_load_file_in_csv_is_loaded_like_another():
    found = plan([RawFile("LOAD00000001.csv", 9, NOON), change(5)])
    assert (found.kind, [f.path for f in found.load], found.changes) == ("both", ["LOAD00000001.csv"], (change(5),))


# What a first load replaces


def test_the_first_load_drops_nothing_unasked_changes_of_its_day_go_on_top_and_older_ones_wait_for_a_person():
    found = plan([change(-30), change(-20), load(1, 0), change(3)])
    assert (found.obsolete, found.changes, found.kind) == ((), (change(-30), change(-20), change(3)), "both")
    assert (found.after.cut, found.after.last, found.after.load) == ("", name(3), 1)
    assert "2 change files put before the load applied on top" in found.sentence and "--reload --supersede" in found.sentence
    files = [change(-1500), change(-20), load(1, 0), change(3)]
    found = plan(files)
    assert found.kind == "attention" and "2 change files were put before it" in found.sentence
    assert all(
        words in found.sentence for words in ("--reload --supersede", "--reload --keep-changes", "another task", "an earlier life of the table")
    )
    assert plan(files, instruction=SUPERSEDE).obsolete == (change(-1500), change(-20))


def test_at_the_first_load_nothing_is_superseded_if_times_are_not_believable():
    copied = [change(-30, put=-1), change(-20, put=-1), load(1, 0)]
    found = plan(copied)
    assert (found.obsolete, found.changes, found.notes) == ((), tuple(copied[:2]), ())


@pytest.mark.parametrize("put", [-1540, -1470])
def test_times_are_believable_up_to_15_minutes_after_the_name(put):
    assert plan([change(-1500, put=put), load(1, 20)]).kind == "both"
    assert plan([change(-1500, put=-1485.1), load(1, 20)]).kind == "attention"


def test_obsolete_files_stay_obsolete_in_every_later_pass():
    files = [change(-30), load(1, 0), change(3)]
    position = after(*files)
    for more in ([], [change(4)], [change(4), change(5000)]):
        found = plan([*files, *more], position, minute=6000)
        assert change(-30) not in found.inputs and not found.notes
        position = position if found.is_empty else found.after


# A reload


def test_a_new_load_set_replaces_the_table_and_what_was_put_before_it_is_left_out():
    position = after(load(1, 0), change(10), change(20))
    found = plan([load(1, 100, size=9), change(10), change(20), change(30), change(101)], position, minute=120)
    assert (found.kind, found.load, found.load_number) == ("both", (load(1, 100, size=9),), 2)
    assert (found.obsolete, found.changes, found.late, found.notes) == (
        (change(10), change(20), change(30)),
        (change(101),),
        (),
        (),
    )
    assert plan([load(1, 100, size=9), change(10), change(20), change(30), change(101)], found.after, minute=130).kind == "nothing"


def test_a_reload_of_an_emptied_folder_needs_none_of_the_old_changes():
    position = after(load(1, 0), load(2, 1), change(10), change(20))
    found = plan([load(1, 100, size=9)], position, minute=120)
    assert (found.kind, found.load_number, found.notes) == ("initial", 2, ())


def test_a_late_part_of_a_load_is_a_new_set_with_the_changes_since_on_top():
    position = after(load(1, 0), change(10), change(20))
    files = [load(1, 0), load(2, 100), change(10), change(20)]
    assert plan(files, position, minute=104).kind == "nothing"
    found = plan(files, position, minute=105)
    assert (found.load, found.changes, found.obsolete) == ((load(1, 0), load(2, 100)), (change(10), change(20)), ())


def test_a_reload_is_not_done_if_a_change_that_belongs_on_top_is_gone():
    position = after(load(1, 0), change(10), change(20))
    found = plan([load(1, 0), load(2, 100), change(20)], position, minute=120)
    assert (found.kind, found.inputs) == (
        "attention",
        (),
    ) and f"{name(10)} came after this load and is gone" in found.notes[0]


def test_a_change_that_belongs_on_top_of_a_reload_may_lie_in_the_archive():
    position = after(load(1, 0), change(10), change(20))
    found = plan([load(1, 0), load(2, 100), change(20)], position, minute=120, archive=listing(change(10)))
    assert (found.kind, found.changes, found.archived) == ("both", (change(10), change(20)), (name(10),))


@pytest.mark.parametrize(
    "doubtful, words",
    [
        ([change(10, put=90), change(20, put=90)], "files were rewritten or copied after DMS wrote them"),
        ([change(10), change(20), change(99.5)], "29 s before the first load file"),
        ([change(10), change(95), change(96, put=101), change(97)], "names and times disagree"),
    ],
)
def test_a_reload_in_doubt_supersedes_nothing_silently_and_offers_both_commands(doubtful, words):
    position = after(load(1, 0), change(10))
    found = plan([load(1, 100, size=9), *doubtful, change(110)], position, minute=120)
    assert (found.kind, found.inputs, found.obsolete, found.after) == ("attention", (), (), position)
    assert words in found.notes[0]
    assert "`dmscdc table rewind sampledb.product --reload --supersede`" in found.notes[0]
    assert "`dmscdc table rewind sampledb.product --reload --keep-changes`" in found.notes[0]
    assert "table accept" not in found.notes[0]


def test_the_same_names_and_sizes_with_newer_times_ask_a_person():
    position = after(load(1, 0), load(2, 1), change(10))
    found = plan([load(1, 100), load(2, 101), change(10), change(110)], position, minute=120)
    assert (found.kind, found.inputs) == ("attention", ())
    for words in (
        "names and sizes of load files already loaded",
        "--reload --supersede",
        "--reload --keep-changes",
        "`dmscdc table accept sampledb.product` if it is the same load",
    ):
        assert words in found.notes[0]


def test_accept_takes_over_the_new_times_and_goes_on_with_new_changes():
    position = after(load(1, 0), change(10))
    files = [load(1, 100), change(10), change(110)]
    found = plan(files, position, minute=120, instruction={"kind": "accept"})
    assert (found.kind, found.load, found.changes, found.instruction) == (
        "incremental",
        (),
        (change(110),),
        {"kind": "accept"},
    )
    assert found.after.load_files == (load(1, 100),)
    assert plan(files, found.after, minute=130).kind == "nothing"


def test_accept_with_nothing_to_load_moves_only_the_position():
    found = plan([load(1, 100), change(10)], after(load(1, 0), change(10)), minute=120, instruction={"kind": "accept"})
    assert (found.kind, found.inputs, found.is_empty) == ("incremental", (), False)
    assert "no rows change, only the position" in found.sentence


def test_accept_does_not_fit_a_load_of_other_sizes():
    position = after(load(1, 0), change(10))
    found = plan([load(1, 100, size=9), change(99.5)], position, minute=120, instruction={"kind": "accept"})
    assert (found.kind, found.instruction) == ("attention", None) and "the instruction accept waits" in found.sentence


def test_a_person_may_supersede_up_to_the_newest_change_put_before():
    position = after(load(1, 0), change(10))
    found = plan([load(1, 100, size=9), change(10), change(99.5), change(110)], position, minute=120, instruction=SUPERSEDE)
    assert (found.obsolete, found.changes, found.instruction) == (
        (change(10), change(99.5)),
        (change(110),),
        SUPERSEDE,
    )


def test_in_a_copied_landing_supersede_leaves_out_at_least_what_was_applied():
    position = after(load(1, 0), change(10), change(20))
    copied = [change(m, put=150) for m in (10, 20, 110)]
    found = plan([load(1, 149, size=9), *copied], position, minute=200, instruction=SUPERSEDE)
    assert ([f.path for f in found.obsolete], [f.path for f in found.changes]) == ([name(10), name(20)], [name(110)])


def test_a_person_may_keep_all_changes_on_top():
    position = after(change(-30), load(1, 0), change(10))
    found = plan([change(-30), load(1, 100, size=9), change(10), change(99.5)], position, minute=120, instruction=KEEP)
    assert (found.obsolete, found.changes, found.after.cut) == ((), (change(-30), change(10), change(99.5)), "")


def test_reload_may_be_asked_for_a_known_load():
    position = after(load(1, 0), change(10))
    found = plan([load(1, 0), change(10)], position, instruction=KEEP)
    assert (found.kind, found.load_number, found.changes) == ("both", 2, (change(10),))


def test_reload_without_load_files_is_refused_and_nothing_is_emptied():
    position = after(load(1, 0), change(10))
    found = plan([change(10)], position, instruction=KEEP)
    assert (found.kind, found.inputs, found.after) == (
        "attention",
        (),
        position,
    ) and "no load file in the landing" in found.notes[0]


def test_files_that_vanish_never_make_a_new_set():
    position = after(load(1, 0), load(2, 1), change(10))
    assert plan([load(2, 1), change(10)], position).kind == "nothing"
    assert plan([change(10)], position).kind == "nothing"
    assert plan([], position).kind == "nothing"


def test_an_instruction_is_overtaken_by_a_reload():
    position = after(load(1, 0), change(10))
    asked = {"kind": "rewind", "to": name(10)}
    found = plan([load(1, 100, size=9), change(10)], position, minute=120, instruction=asked)
    assert (found.kind, found.instruction) == ("initial", asked) and "overtaken by a new load" in found.notes[0]


# No load set


def test_a_table_without_files_waits_for_the_first():
    assert (plan([]).kind, plan([]).waits) == ("nothing", "its first files")


def test_without_a_load_set_the_table_starts_empty_after_the_settle_time():
    files = [change(0), change(1)]
    assert plan(files, minute=5).kind == "nothing" and "starts empty at 2018-12-15 12:05:01 UTC" in plan(files, minute=5).waits
    found = plan(files, minute=6)
    assert (found.kind, found.changes, found.load_number, found.after.has_load) == (
        "incremental",
        tuple(files),
        0,
        False,
    )


def test_a_first_load_that_comes_after_changes_were_applied_gets_all_of_them_on_top():
    position = after(change(0), change(1))
    found = plan([change(0), change(1), load(1, 100)], position, minute=120)
    assert (found.kind, found.load_number, found.changes, found.obsolete) == (
        "both",
        1,
        (change(0), change(1)),
        (),
    ) and "2 change files put before the load applied on top" in found.remarks[0]
    gone = plan([change(1), load(1, 100)], position, minute=120)
    assert (gone.kind, gone.inputs) == ("attention", ()) and "was applied before its first load came" in gone.notes[0]
    old = plan([change(0), change(1), load(1, 2000)], position, minute=2020)
    assert (old.kind, old.inputs) == ("attention", ()) and "2 change files were put before it" in old.notes[0]


# Change files: new, applied, late


def test_a_second_look_applies_nothing():
    files = [load(1, 0), *(change(m) for m in range(10, 40))]
    found = plan(files, after(*files))
    assert (found.kind, found.inputs, found.waits, found.notes) == ("nothing", (), "", ())


def test_a_late_file_is_applied_with_every_applied_file_that_sorts_after_it():
    position = after(load(1, 0), change(10), change(20), change(40))
    late = change(15, put=50)
    found = plan([load(1, 0), change(10), late, change(20), change(40), change(50)], position, minute=70)
    assert (found.kind, found.late, found.reapplied, found.changes) == (
        "incremental",
        (late,),
        (change(20), change(40)),
        (change(50),),
    )
    assert plan([load(1, 0), change(10), late, change(20), change(40), change(50)], found.after, minute=80).kind == "nothing"


def test_the_order_of_date_folders_is_that_of_names():
    position = after(load(1, 0), change(10, folder="2018/12/15/"), change(30, folder="2018/12/14/"))
    found = plan(
        [
            load(1, 0),
            change(10, folder="2018/12/15/"),
            change(30, folder="2018/12/14/"),
            change(20, folder="2018/12/16/"),
        ],
        position,
    )
    assert ([f.path for f in found.late], [f.path for f in found.reapplied]) == (
        [f"2018/12/16/{name(20)}"],
        [f"2018/12/14/{name(30)}"],
    )


def test_of_two_files_of_one_name_each_is_its_own():
    position = after(load(1, 0), change(10, folder="2018/12/16/"))
    found = plan([load(1, 0), change(10, folder="2018/12/16/"), change(10, folder="2018/12/15/")], position)
    assert [f.path for f in found.late] == [f"2018/12/15/{name(10)}"]


def test_a_late_file_is_not_applied_if_a_file_needed_for_it_is_gone():
    position = after(load(1, 0), change(10), change(20), change(40))
    found = plan([load(1, 0), change(10), change(15, put=50), change(40)], position, minute=70)
    assert (found.kind, found.inputs, found.after) == ("attention", (), position)
    assert f"not applied: {name(15)}, because {name(20)}" in found.notes[0] and "dmscdc table accept sampledb.product" in found.notes[0]


def test_a_late_file_behind_the_gone_one_is_applied():
    position = after(load(1, 0), change(10), change(20), change(40))
    found = plan([load(1, 0), change(10), change(15), change(30), change(40)], position)
    assert (found.late, found.reapplied, len(found.notes)) == ((change(30),), (change(40),), 1)


def test_a_file_needed_for_a_late_one_may_lie_in_the_archive():
    position = after(load(1, 0), change(10), change(20))
    found = plan([load(1, 0), change(10), change(5)], position, archive=listing(change(10), change(20)))
    assert (found.late, found.reapplied, found.archived) == ((change(5),), (change(10), change(20)), (name(20),))


def test_a_late_file_that_waits_for_a_person_is_named_until_somebody_acts():
    files = [load(1, 0), change(10), change(15, put=50), change(40)]
    position = after(load(1, 0), change(10), change(20), change(40))
    for day in (1, 2, 3):
        files.append(change(1440 * day))
        found = plan(files, position, minute=1440 * day + 9)
        assert found.changes == (files[-1],) and name(15) in found.notes[0]
        position = found.after
    done = plan(files, position, minute=5000, instruction={"kind": "accept"})
    assert (done.notes, done.after.held) == ((), ())
    assert plan(files, done.after, minute=5001).kind == "nothing"


def test_a_held_late_file_is_applied_once_what_it_needs_is_back():
    files = [load(1, 0), change(10), change(15, put=50), change(40)]
    position = plan([*files, change(60)], after(load(1, 0), change(10), change(20), change(40)), minute=70).after
    found = plan([*files, change(20), change(60)], position, minute=80)
    assert (found.late, found.after.held, found.notes) == ((change(15, put=50),), (), ())


def test_a_file_that_changed_after_it_was_applied_is_named_with_both_sizes():
    position = after(load(1, 0), change(10), change(20))
    found = plan([load(1, 0), change(10, size=1001), change(20), change(30)], position)
    assert (found.changes, found.late) == ((change(30),), ())
    assert f"{name(10)} (804 → 1,001 bytes)" in found.notes[0]


def test_a_changed_file_is_applied_as_late_by_replay_and_left_by_accept():
    position, files = after(load(1, 0), change(10), change(20)), [load(1, 0), change(10, size=1001), change(20)]
    found = plan(files, position, instruction={"kind": "replay", "files": [name(10)]})
    assert (found.late, found.reapplied) == ((change(10, size=1001),), (change(20),))
    assert len(found.notes) == 1 and found.notes[0].startswith(f"applied as it is now: {name(10)}; changes made only by its old version remain")
    for done in (found, plan(files, position, instruction={"kind": "accept"})):
        assert plan(files, done.after).kind == "nothing"


# Older than the window


def test_a_file_from_before_the_window_counts_as_applied():
    files = [load(1, -3000), change(-2900), change(-2000), change(10)]
    position = after(*files)
    assert [p for p, _ in position.window] == [name(10)]
    assert plan(files, position).kind == "nothing"


def test_a_file_from_before_the_window_that_was_put_since_arrived_too_late():
    files = [load(1, -3000), change(-2900), change(-2000), change(10)]
    position, stray = after(*files), change(-2500, put=65)
    found = plan([*files, stray], position, minute=70)
    assert (found.kind, found.inputs) == ("attention", ())
    for words in (
        "arrived too late",
        stray.path,
        f"dmscdc table replay sampledb.product {stray.path}",
        "dmscdc table accept sampledb.product",
    ):
        assert words in found.notes[0]


def test_what_arrived_too_late_is_named_until_somebody_acts():
    files = [load(1, -3000), change(-2900), change(-2000), change(10)]
    position, stray = after(*files), change(-2500, put=65)
    files.append(stray)
    for minute in (70, 80, 4000):
        files.append(change(minute))
        found = plan(files, position, minute=minute + 1)
        assert found.changes == (files[-1],) and stray.path in found.notes[0]
        position = found.after
    left = plan(files, position, minute=4010, instruction={"kind": "accept"})
    assert (left.kind, left.inputs, left.notes, plan(files, left.after, minute=4020).kind) == (
        "incremental",
        (),
        (),
        "nothing",
    )
    done = plan(files, position, minute=4010, instruction={"kind": "replay", "files": [stray.path]})
    assert (done.late, done.reapplied) == ((stray,), tuple(sorted(files[2:4] + files[5:], key=lambda f: f.order)))
    assert not done.notes, "the tally says that every applied file is there"
    assert plan(files, done.after, minute=4020).kind == "nothing"


def test_a_copied_landing_makes_one_note_however_many_files_it_has():
    files = [load(1, -9000), *(change(-m) for m in range(8000, 4000, -10)), change(10)]
    position = after(*files)
    copy = [files[0], *(replace(f, time=NOON + 6000) for f in files[1:])]
    found = plan(copy, position, minute=200)
    assert (found.kind, len(found.notes)) == (
        "attention",
        1,
    ) and "as if the landing had been copied; 400 change files" in found.notes[0]
    again = plan([*copy, change(220)], position, minute=230)
    assert again.changes == (change(220),) and len(plan([*copy, change(220)], again.after, minute=240).notes) == 1
    done = plan([*copy, change(220)], again.after, minute=250, instruction={"kind": "accept"})
    assert plan([*copy, change(220)], done.after, minute=260).kind == "nothing"


def test_files_that_only_grow_old_are_never_called_too_late():
    files, position = [load(1, 0)], after(load(1, 0), minute=10)
    for minute in range(20, 6000, 400):
        files.append(change(minute))
        found = plan(files, position, minute=minute + 1)
        assert (found.notes, found.changes) == ((), (files[-1],))
        position = found.after
    assert len(position.window) < 6


def test_a_storage_clock_that_is_ahead_makes_no_false_alarm():
    files = [load(1, 0), change(10, put=12), change(3000, put=3002)]
    position = plan(files[:2], minute=11).after
    position = plan(files, position, minute=3001).after
    assert plan(files, position, minute=3010).kind == "nothing"


# Two and a half thousand files


def test_2500_change_files_all_arrive():
    files = [load(1, 0), *(change(5 + m / 2) for m in range(2500))]
    found = plan(files, minute=3000)
    assert (found.changes, len(found.after.window), found.after.shrunk) == (tuple(files[1:]), 2500, False)
    assert plan(files, found.after, minute=3001).kind == "nothing"
    late = plan([*files, change(5.1)], found.after, minute=3002)
    assert (late.late, late.reapplied) == ((change(5.1),), tuple(files[2:]))


def test_planning_looks_at_each_file_a_fixed_number_of_times():
    "Twice the files, twice the looks: counted, not timed."

    class Counted(RawFile):
        looks = 0

        @property
        def order(self):
            Counted.looks += 1
            return super().order

    def looks(n):  # n late files of one day
        position = after(load(1, 0), change(1300))
        files = tuple(Counted(name(5 + m * 1000 / n), 804, NOON + 60 * m) for m in range(n))
        Counted.looks = 0
        found = plan_table(T, Listing((load(1, 0),), (*files, change(1300))), position, now=NOON + 10**6)
        assert len(found.late) == n
        return Counted.looks

    assert looks(2000) <= 2 * looks(1000) <= 2 * 6 * 1000


def test_a_window_too_long_for_its_limit_is_shortened_and_said():
    files = [load(1, 0), *(change(5 + m / 10) for m in range(9000))]
    found = plan(files, minute=3000)
    assert found.after.shrunk and len(found.changes) == 9000
    assert f"look-back window is shortened to {len(found.after.window):,} names" in found.sentence
    assert plan(files, found.after, minute=3001).kind == "nothing"


# No key


def test_late_files_of_an_insert_only_table_are_just_added():
    position = after(load(1, 0), change(10), change(20), change(40))
    found = plan([load(1, 0), change(10), change(15), change(40), change(50)], position, minute=70, insert_only=True)
    assert (found.changes, found.late, found.reapplied, found.notes) == ((change(15), change(50)), (), (), ())
    assert plan([load(1, 0), change(10), change(15), change(40), change(50)], found.after, minute=80, insert_only=True).kind == "nothing"


# CSV


def test_csv_and_parquet_change_files_follow_each_other_by_name():
    files = [load(1, 0), change(10), change(20, ending="csv"), change(30), change(40, ending="csv.gz")]
    for position in (None, after(load(1, 0))):
        found = plan(files, position)
        assert (found.changes, found.notes) == (tuple(files[1:]), ()) and plan(files, found.after).kind == "nothing"


def test_a_late_csv_file_is_applied_with_what_follows_it():
    position = after(load(1, 0), change(10), change(40))
    found = plan([load(1, 0), change(10), change(20, ending="csv"), change(40), change(50)], position)
    assert (found.late, found.reapplied, found.changes) == ((change(20, ending="csv"),), (change(40),), (change(50),))


# Instructions


def test_rewind_applies_from_a_file_on_as_new():
    position = after(load(1, 0), change(10), change(20), change(40))
    files = [load(1, 0), change(10), change(20), change(40), change(50)]
    found = plan(files, position, instruction={"kind": "rewind", "to": name(20), "commit": 3}, commit=3)
    assert (found.changes, found.late, found.reapplied) == ((change(20), change(40), change(50)), (), ())
    assert found.instruction["kind"] == "rewind" and plan(files, found.after).kind == "nothing"


@pytest.mark.parametrize("asked", [{"to": name(60 * 24 * 5)}, {"after": name(60 * 24 * 4)}], ids=lambda asked: next(iter(asked)))
def test_rewind_to_a_file_takes_those_along_that_come_before_it_and_are_not_applied_yet(asked):
    applied, new = [load(1, 0), change(1)], [change(60 * 24), change(60 * 24 * 4), change(60 * 24 * 5)]
    found = plan([*applied, *new], after(*applied), instruction={"kind": "rewind", **asked})
    assert found.changes == tuple(new) and plan([*applied, *new], found.after).kind == "nothing"


def test_rewind_after_a_file_leaves_that_file():
    files = [load(1, 0), change(10), change(20), change(40)]
    assert plan(files, after(*files), instruction={"kind": "rewind", "after": name(20)}).changes == (change(40),)
    assert plan(files, after(*files), instruction={"kind": "rewind", "after": "0.parquet"}).changes == tuple(files[1:])


def test_rewind_finds_a_bare_name_in_its_date_folder():
    files = [load(1, 0), change(10, folder="2018/12/15/"), change(20, folder="2018/12/15/")]
    for asked, number in (({"to": name(20)}, 1), ({"to": files[1].path}, 2), ({"after": name(10)}, 1)):
        assert len(plan(files, after(*files), instruction={"kind": "rewind", **asked}).changes) == number


def test_a_late_file_before_a_rewind_is_still_late():
    position = after(load(1, 0), change(10), change(20), change(40))
    found = plan(
        [load(1, 0), change(5), change(10), change(20), change(40)],
        position,
        instruction={"kind": "rewind", "to": name(20)},
    )
    assert (found.late, found.reapplied, found.changes) == ((change(5),), (change(10),), (change(20), change(40)))


def test_rewind_goes_back_beyond_the_window_and_the_new_window_knows_it():
    files = [load(1, -4000), *(change(m) for m in range(-3900, 0, 300))]
    found = plan(files, after(*files), instruction={"kind": "rewind", "to": name(-3600)})
    assert found.changes == tuple(files[2:]) and plan(files, found.after).kind == "nothing"


def test_a_late_file_beside_touched_ones_is_no_copied_landing():
    files, stray = [load(1, -3000), change(-2900), change(10)], change(-2000, put=65)
    for first in (1, 2):  # with an older file, and without: then the window is all that was applied
        there = [files[0], *files[first:]]
        touched = [there[0], *(replace(f, time=NOON + 60 * 66) for f in there[1:])]
        position = after(*there)
        found = plan([*touched, stray], position, minute=70)
        assert len(found.notes) == 1 and f"not applied: {stray.path}. " in found.notes[0], found.notes
        replayed = plan([*touched, stray], position, minute=70, instruction={"kind": "replay", "files": [stray.path]})
        assert replayed.after.applied == checksum(f.identity for f in (*there[1:], stray))
        assert plan([*touched, stray], replayed.after, minute=75).kind == "nothing"


def test_a_rewind_over_all_that_was_in_doubt_ends_the_doubt():
    files, odd = [load(1, -5000), change(-4900), change(10)], [change(-4000), change(-3900)]  # two with old times
    there = sorted([*files, *odd], key=lambda f: f.order)
    position = after(*files)
    assert "at least one came with an old" in plan(there, position, minute=70).notes[0]
    done = plan(there, position, minute=70, instruction={"kind": "rewind", "to": name(-4900)})
    assert done.after.applied == checksum(f.identity for f in (*files[1:], *odd))
    assert plan(there, done.after, minute=75).kind == "nothing"


def test_every_plan_tallies_what_it_applies():
    files = [change(-300), change(-200)]
    begun = plan(files, minute=600)
    assert begun.kind == "incremental" and begun.after.applied == checksum(f.identity for f in files), "a table that starts empty"
    loaded = plan([load(1, -400), *files], minute=600)
    assert loaded.after.applied == checksum(f.identity for f in loaded.changes)
    assert position_of_load(loaded).applied == (0, 0), "a load whose changes are refused"


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("asked", [{"kind": "rewind", "to": name(-3600)}, {"kind": "replay", "files": [name(-3600)]}])
def test_what_is_applied_again_from_before_the_window_is_plainly_well_only_where_a_tally_proves_it(asked, counted):
    files = [load(1, -4000), *(change(m) for m in range(-3900, 0, 300))]
    there = [f for f in files if f.name != name(-3300)]  # gone, and the position knows no name from then
    stood = after(*files) if counted else replace(after(*files), applied=None)
    found = plan(there, stood, instruction=asked)
    assert found.kind == "incremental" and len(found.notes) == 1
    words = "8 change files from before the look-back window (from 20181214-070000000) had been applied, and not just these are in landing and archive now, but 7"
    assert (words if counted else "names are not known") in found.notes[0] and "dmscdc reconcile" in found.notes[0] and "--reload" in found.notes[0]
    assert (plan(files, stood, instruction=asked).notes == ()) == counted, "all of them are there"
    inside = plan(files, stood, instruction={**asked, **({"to": name(-300)} if "to" in asked else {"files": [name(-300)]})})
    assert inside.changes or inside.late
    assert not inside.notes and not plan(there, stood, instruction=asked, insert_only=True).notes


@pytest.mark.parametrize(
    "asked, words",
    [
        ({"kind": "rewind", "to": name(-30)}, "the load made it obsolete"),
        ({"kind": "rewind", "to": name(999)}, "no change file from there on"),
        ({"kind": "rewind", "to": name(10)}, f"{name(20)} would be needed and is gone"),
        ({"kind": "replay", "files": [name(-30)]}, "made obsolete"),
        ({"kind": "replay", "files": [name(11)]}, f"{name(11)} is in neither landing nor archive"),
        ({"kind": "replay", "files": [name(10)]}, f"{name(20)}, applied after it, is gone"),
    ],
)
def test_an_instruction_that_cannot_be_carried_out_says_why_and_moves_nothing(asked, words):
    position = plan([change(-30), load(1, 0), change(10), change(20), change(40)], instruction=SUPERSEDE).after
    found = plan([change(-30), load(1, 0), change(10), change(40)], position, instruction=asked)
    assert (found.kind, found.inputs, found.instruction, found.after) == ("attention", (), None, position)
    assert words in found.notes[0]


def test_replay_applies_files_and_what_follows_them_again():
    files = [load(1, 0), change(10), change(20), change(40)]
    found = plan([*files, change(50)], after(*files), instruction={"kind": "replay", "files": [name(20)]})
    assert (found.late, found.reapplied, found.changes) == ((change(20),), (change(40),), (change(50),))
    assert plan([*files, change(50)], found.after).kind == "nothing"


def test_an_instruction_for_another_commit_is_void_and_said():
    files = [load(1, 0), change(10)]
    found = plan([*files, change(20)], after(*files), instruction={"kind": "rewind", "to": name(10), "commit": 3}, commit=4)
    assert (found.changes, found.instruction) == ((change(20),), None) and "was given for commit 3" in found.notes[0]


# Inputs are fixed


def test_what_arrives_meanwhile_waits_and_does_not_void_the_run():
    made = plan([load(1, 0), change(10)])
    assert not changed_inputs(made, listing(load(1, 0), load(2, 70), change(5), change(10), change(20)))


@pytest.mark.parametrize(
    "now, words",
    [
        ([load(1, 0)], f"{name(10)} is gone"),
        ([load(1, 0), change(10, size=9)], "had 804 bytes and has 9"),
        ([load(1, 70), change(10)], "LOAD00000001.parquet was put again"),
    ],
)
def test_an_input_that_changed_voids_the_run(now, words):
    made = plan([load(1, 0), change(10)])
    assert changed_inputs(made, listing(*now))
    assert [w for w in changed_inputs(made, listing(*now)) if words in w]


def test_inputs_from_the_archive_are_looked_up_too():
    made = plan([load(1, 0), change(10), change(5)], after(load(1, 0), change(10), change(20)), archive=listing(change(20)))
    assert not changed_inputs(made, listing(change(10), change(5), change(20)))
    assert changed_inputs(made, listing(change(10), change(5))) == [f"sampledb.product: {name(20)} is gone"]


# Whatever the order of arrival


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1400), st.integers(0, 5)), min_size=1, max_size=25, unique_by=lambda x: x[0]),
    st.booleans(),
)
def test_in_any_order_of_arrival_each_file_of_a_day_is_applied_exactly_once(arrivals, insert_only):
    applied, position, here = [], None, [load(1, -2000)]
    for number in range(6):
        here += [change(minute, put=2000 + 10 * number) for minute, arrives in arrivals if arrives == number]
        found = plan(here, position, minute=2001 + 10 * number, insert_only=insert_only)
        assert not found.notes
        for file in found.reapplied:  # all that sorts after the first late one, and only that
            assert file.path in applied and file.order > found.late[0].order
        if found.late:
            assert {f.path for f in found.reapplied} == {p for p in applied if p > found.late[0].path}
        assert insert_only or all(f.path > p for f in found.changes for p in applied)
        applied += [f.path for f in found.late + found.changes]
        position = position if found.is_empty else found.after
    assert sorted(applied) == sorted(name(minute) for minute, _ in arrivals)
    assert plan(here, position, minute=2100).kind == "nothing"


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5)), min_size=1, max_size=25, unique_by=lambda x: x[0]))
def test_over_many_days_no_file_is_lost_it_is_applied_or_named_until_accepted(arrivals):
    applied, position, here = [], None, [load(1, -2000)]
    for number in range(6):
        here += [change(minute, put=6000 + 10 * number) for minute, arrives in arrivals if arrives == number]
        found = plan(here, position, minute=6001 + 10 * number)
        applied += [f.path for f in found.late + found.changes]
        position = position if found.is_empty else found.after
    assert len(applied) == len(set(applied))
    final = plan([*here, change(9000)], position, minute=9001)
    missing = {name(minute) for minute, _ in arrivals} - set(applied)
    copied = any("had been copied" in note for note in final.notes)
    assert copied or {p for p, _ in final.after.held} == missing
    assert bool(missing) <= bool(final.notes)
    assert not plan(
        [*here, change(9000)],
        plan([*here, change(9000)], final.after, minute=9010, instruction={"kind": "accept"}).after,
        minute=9020,
    ).notes
