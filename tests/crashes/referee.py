"""Writes down the requests that the code of the commit really makes, and holds each to what the protocol allows in that state.

`record` wraps the store inside a forked run: a line when it asks, a line when it is answered. `Referee` reads the lines of all runs on
one table in their order and knows what journal and folder must hold; what settling may do comes from the model, `model.todo`.
"""

from __future__ import annotations

import json
import os
import re
from types import SimpleNamespace
from typing import Any

from model import todo


def record(path: str) -> None:
    "From now on every request to a store leaves its lines in a file."
    from dmscdc.storage.log_store import BucketLogStore, LogStore

    BucketLogStore.parallel_requests = 1  # one request after the other, so that each has its place among the others
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def told(name: str, request: Any, listed: Any) -> Any:
        def call(store: Any, *given: Any) -> Any:
            if name == "create":
                wanted = asides(given)
                there = set(listed(store, f"{given[0].rpartition('/journal/')[0]}/aside")) if wanted else set()
                given = (*given[:1], given[1].decode(), [f for f in wanted if f not in there])
            write = lambda *what: os.write(log, f"{json.dumps([os.getpid(), *what])}\n".encode())  # noqa: E731
            write("asks", name, *given)
            try:
                answer = request(store, *((given[0], given[1].encode()) if name == "create" else given))
            except Exception as error:
                write("answers", name, type(error).__name__)
                raise
            write("answers", name, answer if isinstance(answer, (list, bool)) else json.loads(answer)["attempt"] if name == "read" else None)
            return answer

        return call

    for kind in (LogStore, BucketLogStore):
        listed = kind.list
        for name, request in list(vars(kind).items()):
            if callable(request) and not name.startswith("_") and name not in ("path", "last"):
                setattr(kind, name, told(name, request, listed))


def asides(create: tuple) -> list[str]:
    "The names of an entry's asides, from the request that creates it."
    entry, home = json.loads(create[1]), create[0].rpartition("/journal/")[0]
    return [f"{home}/aside/{f['aside']}" for f in entry["files"] if f["name"] in entry["adds"]]


def number(name: str) -> float:
    "The commit number that the name of a lake file, or of an attempt's folder, carries."
    found = re.match(r"(\d{12})-[0-9a-f]+", name.rpartition("/")[2]) or re.match(r"(\d{12})-[0-9a-f]+/", name)
    return int(found[1]) if found else float("inf")


class Broken(AssertionError):
    "A request that the protocol does not allow there."


class Settling:
    """How far a run has come in settling an entry. `marks`: in a bucket a delete of what is not there leaves a mark, so what a listing did
    not show is not deleted, and asides are freed and collected by one listing."""

    def __init__(self, entry: dict, marks: bool):
        self.names = {f["aside"]: f["name"] for f in entry["files"] if f["name"] in entry["adds"]}
        self.asides = {name: aside for aside, name in self.names.items()}
        self.entry = SimpleNamespace(number=entry["number"], adds=entry["adds"], removes=entry["removes"], files={f["name"] for f in entry["files"]})
        self.stage, self.left, self.over, self.marks, self.here = "", set(), False, marks, set()

    def work(self, stage: str, listed: list[str] = ()) -> set:
        "What there is to do in a stage."
        if self.marks and stage == "free":
            return set()
        if self.marks and stage == "collect":
            return {f for f in listed if number(f) <= self.entry.number}
        found = todo(stage, self.entry, listed, number)
        return found & self.here if self.marks and stage == "drop" else found

    def begin(self, stage: str, listed: list[str] = ()) -> None:
        if stage == "copy":
            self.here = set(listed)
        self.stage, self.left = stage, self.work(stage, listed)

    def take(self, stage: str, name: str) -> bool:
        "Whether this is a step of the stage, after all steps of the stages before it."
        if stage in ("drop", "free") and (self.stage, bool(self.left)) == ({"drop": "copy", "free": "sweep"}[stage], False):
            self.begin(stage)
        if self.stage != stage or name not in self.left:
            return False
        self.left.discard(name)
        return True

    def is_done(self, stage: str) -> bool:
        "Nothing is left of this stage; one without any step counts as done when the one before it is."
        if stage in ("drop", "free") and self.is_done({"drop": "copy", "free": "sweep"}[stage]) and not self.work(stage):
            return True
        return self.stage == stage and not self.left


class Run:
    "What one process has read and done."

    def __init__(self):
        self.pending, self.seen, self.read, self.settling, self.settled, self.lost = None, None, 0, None, 0, ""


class Referee:
    "All requests on one table."

    def __init__(self, table: str = "shop/item", marks: bool = False):
        self.marks, self.folder_name, self.meta = marks, table, f"_dmscdc/{table}"
        self.entries: dict[int, dict] = {}
        self.folder: set[str] = set()
        self.runs: dict[int, Run] = {}
        self.made: set[str] = set()  # names that were ever used
        self.unsure: list[tuple[str, list]] = []  # requests whose answer was an error: they may have failed after they were done
        self.steps: dict[str, int] = {}  # how often which was seen

    def watch(self, lines: list[str]) -> Referee:
        for line in lines:
            pid, way, verb, *what = json.loads(line)
            run = self.runs.setdefault(pid, Run())
            try:
                if way == "asks":
                    run.pending = (verb, what)
                    getattr(self, f"ask_{verb}", lambda *_: None)(run, *what)
                    self.steps[verb] = self.steps.get(verb, 0) + 1
                else:
                    asked, run.pending = run.pending[1], None
                    if verb in ("create", "copy", "delete") and what[0] not in (None, True, False, "AlreadyExists"):
                        self.unsure.append((verb, asked))
                    getattr(self, f"told_{verb}", lambda *_: None)(run, what[0], *asked)
            except Broken as error:
                at = vars(run.settling) if run.settling else None
                raise Broken(
                    f"{verb} {str(what)[:300]}: {error}; the run settles {at and (at['entry'].number, at['stage'], at['left'])}, has settled {run.settled}"
                ) from None
        return self

    def need(self, is_so: bool, words: str) -> None:
        if not is_so:
            raise Broken(words)

    def below(self, name: str) -> tuple[str, str]:
        "Which of the three places a name lies in, and what it is called there."
        for place, prefix in (("aside", f"{self.meta}/aside"), ("journal", f"{self.meta}/journal"), ("folder", self.folder_name)):
            if name == prefix or name.startswith(f"{prefix}/"):
                return place, name[len(prefix) + 1 :]
        raise Broken(f"{name} is in none of the three places")

    def doubts(self, verb: str) -> list[list]:
        "What was asked and not answered: it may have happened, or may happen yet."
        pending = [run.pending for run in self.runs.values() if run.pending]
        return [what for asked, what in [*pending, *self.unsure] if asked == verb]

    # Listing and reading is always allowed, and shows what must be there.

    def told_list(self, run: Run, found: list[str], prefix: str) -> None:
        place, rest = self.below(prefix)
        names = [name[len(prefix) + 1 :] for name in found]
        if place == "journal":
            for name in names:
                self.see(int(name[:12]))
            run.seen = max((int(n[:12]) for n in names), default=0)
            self.need(
                run.seen == max(self.entries, default=0) and len(names) == run.seen, f"the journal holds {names}, created were {sorted(self.entries)}"
            )
        if place == "folder":
            doubtful = {
                self.below(given[-1])[1] for verb in ("copy", "delete") for given in self.doubts(verb) if self.below(given[-1])[0] == "folder"
            }
            self.need(not (self.folder ^ set(names)) - doubtful, f"the folder holds {sorted(names)}, by all requests so far {sorted(self.folder)}")
            self.folder = set(names)
            if run.settling and not run.settling.over:
                if not run.settling.stage:
                    run.settling.begin("copy", names)
                elif run.settling.is_done("drop"):
                    run.settling.begin("sweep", names)
        if place == "aside" and not rest and run.settling and run.settling.is_done("free"):
            run.settling.begin("collect", [run.settling.names.get(name, name) for name in names])

    def told_read(self, run: Run, attempt: str, name: str) -> None:
        n = int(self.below(name)[1][:12])
        self.see(n, attempt)
        self.need(self.entries[n]["attempt"] == attempt, f"entry {n} is that of {attempt}, created was {self.entries[n]['attempt']}")
        run.read = n
        if self.entries.get(n, {}).get("attempt") != run.lost and run.lost:
            run.lost = f"{n:012d}-{run.lost}"
        if run.settled != n and (run.settling is None or run.settling.entry.number != n):
            run.settling = Settling(self.entries[n], self.marks)

    # What changes something must be a step of the writer or of who settles.

    def ask_copy(self, run: Run, source: str, target: str) -> None:
        (_, aside), (place, name) = self.below(source), self.below(target)
        self.need(
            bool(run.settling) and place == "folder" and run.settling.take("copy", name) and run.settling.asides[name] == aside,
            "no copy that the entry asks for",
        )

    def told_copy(self, run: Run, moved: Any, source: str, target: str) -> None:
        if moved is True:
            self.folder.add(self.below(target)[1])

    def ask_delete(self, run: Run, name: str) -> None:
        place, name = self.below(name)
        self.need(place != "journal", "entries are never deleted")
        if place == "aside" and run.lost and name.startswith(run.lost + "/"):
            return
        stages = ("drop", "sweep") if place == "folder" else ("free", "collect")
        called = run.settling.names.get(name, name) if run.settling and place == "aside" else name
        self.need(bool(run.settling) and any(run.settling.take(stage, called) for stage in stages), "no deletion that settling asks for now")

    def told_delete(self, run: Run, error: Any, name: str) -> None:
        if not error and self.below(name)[0] == "folder":
            self.folder.discard(self.below(name)[1])

    def ask_clear_staging(self, run: Run, prefix: str, n: int) -> None:
        s = run.settling
        self.need(bool(s) and s.is_done("collect") and n == s.entry.number, "tidied before all else was done, or another number")
        s.over, run.settled = True, n

    def ask_create(self, run: Run, name: str, content: str, missing: list[str]) -> None:
        entry, n = json.loads(content), int(self.below(name)[1][:12])
        head = self.entries.get(n - 1, {"files": [], "attempt": ""})
        files, new = {f["name"]: f for f in head["files"]}, {f["name"] for f in entry["files"]} - {f["name"] for f in head["files"]}
        self.need(
            entry["number"] == n and (run.read == run.settled == n - 1 or run.seen == n - 1 == 0),
            f"entry {n} is asked for by one who has read {run.read} and settled {run.settled}",
        )
        self.need(entry["before"] == head["attempt"] and set(entry["removes"]) <= set(files), "its predecessor is another one")
        self.need(
            {f["name"] for f in entry["files"]} == set(files) - set(entry["removes"]) | set(entry["adds"]) and new == set(entry["adds"]),
            "its list is no step from the one before",
        )
        self.need(
            all(f"{n:012d}-{entry['attempt']}-" in f.rpartition("/")[2] for f in new) and not new & self.made,
            "its names are not its own, or were used before",
        )
        self.need(not missing or n in self.entries, f"{missing} is not there")  # who lost may find its asides collected
        run.lost = entry["attempt"]  # until the answer says better

    def told_create(self, run: Run, error: Any, name: str, content: str, _: Any) -> None:
        if error:
            return
        run.lost = ""
        self.need(self.see(json.loads(content)["number"], json.loads(content)["attempt"], content), "its number had been taken by another")
        run.settling = Settling(json.loads(content), self.marks)

    def see(self, n: int, attempt: str = "", content: str = "") -> bool:
        "Somebody saw an entry, perhaps before its writer heard of it; whether that is the attempt's."
        asked = [content] if content else [content for _, content, _ in self.doubts("create")]
        mine = [entry for entry in map(json.loads, asked) if entry["number"] == n and attempt in ("", entry["attempt"])]
        if n not in self.entries and mine:
            self.enter(mine[0])
        return self.entries.get(n, {}).get("attempt") == attempt

    def enter(self, entry: dict) -> None:
        self.need(entry["number"] == max(self.entries, default=0) + 1, f"entry {entry['number']} after {sorted(self.entries)}")
        self.entries[entry["number"]] = entry
        self.made |= set(entry["adds"])

    def unfinished(self, pid: int) -> bool:
        "Whether a run that ended by itself left the head that it knew unsettled."
        run = self.runs[pid]
        return run.settling is not None and not run.settling.over
