"""The timetable, on a clock that is moved by hand."""

import os
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone

import pytest

from dmscdc.errors import BadSchedule
from dmscdc.service.schedule import next_tick, run_schedule, ticks_between, wait_until, zone_of

pytestmark = pytest.mark.test

START = datetime(2018, 12, 13, 10, 20, tzinfo=timezone.utc)


class Day:
    "A clock, the passes that ran on it and what was said."

    def __init__(self, *minutes, start=START, oversleeps=()):
        self.now, self.minutes, self.oversleeps = start, list(minutes), list(oversleeps)
        self.stop, self.began, self.said = threading.Event(), [], []

    def wait(self, tick, stop, now):
        self.now = tick + timedelta(minutes=self.oversleeps.pop(0) if self.oversleeps else 0)

    def action(self, hard):
        self.began.append(self.now.strftime("%H:%M"))
        lasted = self.minutes.pop(0)
        if not self.minutes:
            self.stop.set()
        if isinstance(lasted, Exception):
            raise lasted
        self.now += timedelta(minutes=lasted)

    def run(self, cron):
        return run_schedule(cron, self.action, stop=self.stop, now=lambda: self.now, wait=self.wait, say=self.said.append)


def test_a_pass_begins_at_every_tick():
    day = Day(1, 1, 1)
    assert day.run("0,30 * * * *") == 3
    assert day.began == ["10:30", "11:00", "11:30"]
    assert [line for line in day.said if "next" in line][0] == "next pass: Thu 2018-12-13 10:30 UTC"


def test_ticks_during_a_pass_are_missed_counted_and_never_made_up():
    day = Day(100, 1)
    day.run("0,30 * * * *")
    assert day.began == ["10:30", "12:30"]
    assert "3 ticks missed, not made up" in day.said


def test_a_pass_that_ends_exactly_at_a_tick_does_not_run_twice_for_it():
    day = Day(30, 1)
    day.run("0,30 * * * *")
    assert day.began == ["10:30", "11:30"] and "1 tick missed, not made up" in day.said


def test_a_tick_that_the_machine_slept_through_is_not_made_up():
    day = Day(1, oversleeps=[95])
    day.run("0 * * * *")
    assert day.began == ["13:00"]
    assert "2 ticks missed, not made up" in day.said


def test_a_failing_pass_does_not_end_the_timetable():
    day = Day(OSError("the disk is full"), 1)
    assert day.run("0 * * * *") == 2
    assert "the pass failed: OSError: the disk is full" in day.said


def test_hours_are_those_of_the_zone_also_on_the_day_when_clocks_change():
    eve = datetime(2018, 3, 10, 12, 0, tzinfo=zone_of("America/Los_Angeles"))
    ticks = [next_tick("0 6 * * *", eve)]
    ticks.append(next_tick("0 6 * * *", ticks[0]))
    assert [tick.astimezone(timezone.utc).hour for tick in ticks] == [13, 13]
    assert next_tick("0 6 * * *", eve - timedelta(days=1)).astimezone(timezone.utc).hour == 14
    assert ticks_between("0 * * * *", eve, eve + timedelta(hours=6)) == 6


def test_waiting_ends_at_once_when_told_to_stop():
    stop = threading.Event()
    stop.set()
    wait_until(START + timedelta(days=1), stop, lambda: START)


@pytest.mark.parametrize("cron", ["", "* * * *", "61 * * * *", "0 0 30 2 *", "hourly"])
def test_a_timetable_that_makes_no_sense_is_refused_with_an_example(cron):
    with pytest.raises(BadSchedule, match="0 \\* \\* \\* \\*"):
        run_schedule(cron, lambda hard: None)


PROCESS = """
import sys, threading
from datetime import datetime, timezone
from dmscdc.service.schedule import run_schedule

def action(hard):
    print("begun", flush=True)
    is_forced = any(hard.wait(0.5) for _ in range(2 * int(sys.argv[1])))  # a signal just before a wait begins does not end it
    print("ended by force" if is_forced else "ended by itself", flush=True)
    return "a pass"

print(run_schedule("* * * * *", action, wait=lambda tick, stop, now: None, now=lambda: datetime(2018, 12, 13, tzinfo=timezone.utc)), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_running_pass_finish(number):
    process = subprocess.Popen([sys.executable, "-c", PROCESS, "1"], stdout=subprocess.PIPE, text=True)
    said = [process.stdout.readline() for _ in range(2)]
    process.send_signal(number)
    said += process.stdout.read().splitlines()
    assert said[1] == "begun\n" and "ended by itself" in said and said[-1] == "1"
    assert process.wait() == 0 and sum("begun" in line for line in said) == 1


def test_the_second_signal_ends_the_running_pass():
    process = subprocess.Popen([sys.executable, "-c", PROCESS, "600"], stdout=subprocess.PIPE, text=True)
    for _ in range(2):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    while "SIGTERM" not in process.stdout.readline():
        pass
    os.kill(process.pid, signal.SIGTERM)
    assert "ended by force" in process.stdout.read() and process.wait() == 0
