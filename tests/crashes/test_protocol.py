"The protocol in small, in every order; and the requests of the code, which are steps of it."

from __future__ import annotations

import json

import pytest
from model import WRONG, Protocol, explore
from referee import Broken, Referee
from stories import STORIES

pytestmark = pytest.mark.proof


@pytest.mark.quick
@pytest.mark.parametrize("local", [False, True], ids=["copy", "rename"])
def test_two_writers_that_stop_or_sleep_anywhere_lose_and_double_nothing(local):
    count, fault, trail = explore(Protocol(local=local), attempts=(1, 2))
    assert (fault, trail) == ("", []) and count > 40_000


@pytest.mark.parametrize("wrong", WRONG)
def test_each_wrong_reading_loses_or_doubles_data(wrong):
    attempts = (1, 2) if wrong == "trims the journal" else (1, 1)
    _, fault, trail = explore(Protocol(wrong), attempts)
    assert fault and len(trail) < 40, "the shortest way to it is short"


@pytest.mark.torture
@pytest.mark.parametrize("local", [False, True], ids=["copy", "rename"])
def test_two_writers_with_two_attempts_each_lose_and_double_nothing(local):
    count, fault, _ = explore(Protocol(local=local), attempts=(2, 2), most=2_000_000)
    assert fault == "" and count > 400_000


# The code


@pytest.mark.parametrize("name", STORIES)
def test_every_request_of_the_code_is_a_step_of_the_protocol(house, name):
    house.count(name)
    referee = Referee().watch(house.calm[name]["requests"])
    assert {"list", "read", "create", "copy", "clear_staging"} <= set(referee.steps) and referee.steps["create"] >= house.calm[name]["commit"]
    assert not any(referee.unfinished(pid) for pid in list(referee.runs)[-1:])


def spoken(lines: list[str]) -> list[list]:
    "Requests with their answers, of the last run."
    said = [json.loads(line) for line in lines]
    return [[a, b] for a, b in zip(said, said[1:]) if a[0] == said[-1][0] and a[1] == "asks" and b[1] == "answers"]


def is_a(pair: list, verb: str, word: str = "") -> bool:
    return pair[0][2] == verb and word in json.dumps(pair[0][3:])


def of(pairs: list, verb: str, word: str = "") -> int:
    return next(i for i, pair in enumerate(pairs) if is_a(pair, verb, word))


def swapped(pairs: list, one: int, other: int) -> list:
    pairs[one], pairs[other] = pairs[other], pairs[one]
    return pairs


def wild(verb: str, *given) -> list:
    return [[0, "asks", verb, *given], [0, "answers", verb, None]]


HEAD, FOLDER, META = "000000000003", "shop/item", "_dmscdc/shop/item"
SPOILED = {
    "does not settle before it commits": lambda p: [pair for pair in p[: of(p, "create")] if not is_a(pair, "clear_staging")] + p[of(p, "create") :],
    "frees an aside before the last copy": lambda p: swapped(p, of(p, "copy"), of(p, "delete", "aside/" + HEAD)),
    "drops before it copies": lambda p: swapped(p, of(p, "copy"), of(p, "delete", FOLDER + "/0")),
    "copies what the entry does not add": lambda p: (
        p[: of(p, "copy")] + [wild("copy", f"{META}/aside/{HEAD}-ab/x.parquet", f"{FOLDER}/{HEAD}-ab-x.parquet")]
    ),
    "deletes a file of a larger number": lambda p: p + [wild("delete", f"{FOLDER}/000000000009-ab-x.parquet")],
    "deletes an aside of a larger number": lambda p: p + [wild("delete", f"{META}/aside/000000000009-ab/x.parquet")],
    "deletes a file that the head lists": lambda p: p + [wild("delete", p[of(p, "copy")][0][-1])],
    "deletes an entry": lambda p: p + [wild("delete", f"{META}/journal/{HEAD}.json")],
    "clears staging without sweeping": lambda p: p[: of(p, "create") + 1] + [wild("clear_staging", f"{META}/aside", 3)],
    "commits twice under one number": lambda p: p + [p[of(p, "create")]],
    "commits on another predecessor": lambda p: [
        [[*a[:4], a[4].replace('"before": "', '"before": "x'), a[5]] if a[2] == "create" else a, b] for a, b in p
    ],
    "commits files that are not there yet": lambda p: [[[*a[:5], ["x"]] if a[2] == "create" else a, b] for a, b in p],
    "commits names of another number": lambda p: [
        [[*a[:4], a[4].replace(f"{HEAD}-", "000000000002-"), a[5]] if a[2] == "create" else a, b] for a, b in p
    ],
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_code_that_does_otherwise_is_caught(house, how):
    house.count("incremental load")
    lines = house.calm["incremental load"]["requests"]
    pairs = spoken(lines)
    pid = pairs[0][0][0]
    before = [line for line in lines if json.loads(line)[0] != pid]
    Referee().watch(before + [json.dumps(line) for pair in pairs for line in pair])
    changed = [[[pid, *line[1:]] for line in pair] for pair in SPOILED[how](pairs)]
    with pytest.raises(Broken):
        Referee().watch(before + [json.dumps(line) for pair in changed for line in pair])
