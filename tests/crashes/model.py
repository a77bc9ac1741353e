"""The commit of plain Parquet as a machine of small steps: every order in which two writers can take them is tried.

A state is the store (journal, folder, aside) and how far each writer has come. One request is one step; a writer that takes no more
steps has crashed, one that takes them much later was asleep. `todo` is the rule of settling, and the referee holds the code to the same.
A wrong reading changes one rule; each of the eight of `parquet-commit.md` loses or doubles data here within seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

WRONG = {  # reading: what it does instead
    "rolls back without an entry": "deletes another attempt's asides of the next number, and makes no entry for it",
    "cleans up when the answer was lost": "the create is repeated and says 'exists': it deletes its own files",
    "finished when no aside is left": "settles only where asides of the entry remain",
    "keeps asides": "copies under unique names, and never frees the source",
    "sweeps what the head does not list": "deletes names of larger numbers too",
    "collects what the head does not list": "deletes asides of larger numbers too",
    "takes the position from the state": "reads it before the head, and the list from the head",
    "trims the journal": "only the newest entry is kept, so an old number can be created again",
}
KINDS = {"rewrite": (2, 9), "append": (1, 0), "delete": (0, 1), "nothing": (0, 0)}  # files added, files of the head removed


class File(NamedTuple):
    number: int  # of the commit that its name carries
    who: str  # the attempt
    piece: int


class Entry(NamedTuple):
    number: int
    who: str
    before: str
    adds: frozenset
    removes: frozenset
    files: frozenset  # the whole table
    start: int = 0  # what had been applied before
    end: int = 0  # and after


class Writer(NamedTuple):
    who: str
    pc: str = "read"  # the next step
    entry: Entry | None = None  # that it settles, or planned from
    todo: frozenset = frozenset()
    listed: frozenset = frozenset()
    draft: Entry | None = None
    position: int = 0
    left: int = 1  # attempts


class State(NamedTuple):
    journal: tuple  # entries, None for one that was trimmed
    folder: frozenset
    aside: frozenset
    settled: int  # the newest entry that somebody has settled to the end
    writers: tuple


def todo(stage: str, entry: Any, listed: Collection, number: Callable[[Any], float]) -> set:
    "What settling an entry does in a stage, by the listing that it began with: copy, drop, sweep, free the asides, collect."
    if stage == "copy":
        return set(entry.adds) - set(listed)
    if stage == "drop":
        return set(entry.removes)
    if stage == "sweep":
        return {f for f in listed if number(f) <= entry.number and f not in entry.files}
    if stage == "free":
        return set(entry.adds)
    return {f for f in listed if number(f) < entry.number or number(f) == entry.number and f not in entry.adds}


STAGES = ["copy", "drop", "sweep", "free", "collect"]
LISTS = {"copy": "folder", "sweep": "folder", "collect": "aside"}  # a stage that begins with a listing, a request of its own


class Protocol:
    "The steps, with at most one of them read wrongly; `local`: a copy is a rename, which consumes its source."

    def __init__(self, wrong: str = "", local: bool = False):
        self.wrong, self.local = wrong, local

    def todo(self, stage: str, entry: Entry, listed: frozenset) -> frozenset:
        if stage == "free" and self.wrong == "keeps asides":
            return frozenset()
        if stage == "sweep" and self.wrong == "sweeps what the head does not list":
            return listed - entry.files
        if stage == "collect" and self.wrong == "collects what the head does not list":
            return listed - entry.adds
        if stage == "collect" and self.wrong == "keeps asides":
            return frozenset(f for f in todo(stage, entry, listed, lambda f: f.number) if f.number == entry.number)
        return frozenset(todo(stage, entry, listed, lambda f: f.number))

    def into(self, stage: str, w: Writer, s: State) -> tuple[Writer, int]:
        "A writer at the beginning of a stage, or of the next one that has something to do; and what is settled now."
        for stage in STAGES[STAGES.index(stage) :]:
            if stage in LISTS:
                return w._replace(pc=f"list {stage}", todo=frozenset()), max(s.settled, w.entry.number if stage == "collect" else 0)
            if work := self.todo(stage, w.entry, frozenset()):
                return w._replace(pc=stage, todo=work), s.settled
        raise AssertionError

    def on(self, stage: str, w: Writer, s: State) -> tuple[Writer, int]:
        "A writer after a stage."
        if stage != "collect":
            return self.into(STAGES[STAGES.index(stage) + 1], w, s)
        return (w._replace(pc="choose") if w.draft is None else self.again(w)), s.settled

    def again(self, w: Writer) -> Writer:
        return Writer(f"{w.who}'" if w.left > 1 else w.who, "read" if w.left > 1 else "done", left=w.left - 1)

    def steps(self, s: State) -> Iterator[tuple[str, State]]:
        "Every next state; of the files of a stage one is taken at a time, in their order."
        for i, w in enumerate(s.writers):
            for said, writer, changes in self.of(w, s):
                if "settled" not in changes and isinstance(writer, tuple) and not isinstance(writer, Writer):
                    writer, changes = writer[0], {**changes, "settled": writer[1]}
                yield f"{w.who} {said}", s._replace(**changes, writers=(*s.writers[:i], writer, *s.writers[i + 1 :]))

    def of(self, w: Writer, s: State) -> Iterator[tuple[str, Any, dict]]:
        head, stage = s.journal[-1], w.pc.removeprefix("list ")
        if w.pc == "read":
            if self.wrong == "takes the position from the state":
                yield "reads the state", w._replace(pc="read head", position=head.end), {}
            else:
                yield from self.plan(w._replace(position=head.end), s)
        elif w.pc == "read head":
            yield from self.plan(w, s)
        elif w.pc.startswith("list "):
            listed = getattr(s, LISTS[stage])
            work = self.todo(stage, w.entry, listed)
            if stage == "sweep":
                w = w._replace(listed=listed)
            yield w.pc, w._replace(pc=stage, todo=work) if work else self.on(stage, w, s), {}
        elif w.pc in STAGES:
            yield from self.recover(w, s)
        elif w.pc == "choose":
            for kind, (adds, removes) in KINDS.items():
                yield f"means to {kind}", self.drafted(w, adds, removes), {}
        elif w.pc == "put":
            file = min(w.todo)
            yield f"puts {file} aside", w._replace(todo=w.todo - {file}, pc="put" if len(w.todo) > 1 else "create"), {"aside": s.aside | {file}}
        elif w.pc == "create":
            yield from self.create(w, s)
        elif w.pc == "lost":
            file = min(w.todo)
            yield f"deletes its {file}", w._replace(todo=w.todo - {file}) if len(w.todo) > 1 else self.again(w), {"aside": s.aside - {file}}

    def plan(self, w: Writer, s: State) -> Iterator[tuple[str, Any, dict]]:
        head = s.journal[-1]
        w = w._replace(entry=head)
        others = frozenset(f for f in s.aside if f.number == head.number + 1)
        if self.wrong == "rolls back without an entry" and others:
            yield "rolls back", w._replace(pc="read"), {"aside": s.aside - others}
        done = self.wrong == "finished when no aside is left" and not s.aside & head.adds
        yield f"reads entry {head.number}", w._replace(pc="choose") if done else self.into("copy", w, s), {}

    def recover(self, w: Writer, s: State) -> Iterator[tuple[str, Any, dict]]:
        file = min(w.todo)
        rest = w._replace(todo=w.todo - {file})
        after, changes = rest if rest.todo else None, {}
        if w.pc == "copy" and file in s.aside:
            changes = {"folder": s.folder | {file}, "aside": s.aside - {file} if self.local else s.aside}
        elif w.pc in ("drop", "sweep"):
            changes = {"folder": s.folder - {file}}
        elif w.pc in ("free", "collect"):
            changes = {"aside": s.aside - {file}}
        yield f"{w.pc} {file}", after or self.on(w.pc, rest, s._replace(**changes)), changes

    def drafted(self, w: Writer, adds: int, removes: int) -> Writer:
        head = w.entry
        new = frozenset(File(head.number + 1, w.who, piece) for piece in range(adds))
        gone = frozenset(sorted(head.files)[:removes])
        draft = Entry(head.number + 1, w.who, head.who, new, gone, head.files - gone | new, w.position, w.position + 1)
        return w._replace(pc="put" if new else "create", todo=new, draft=draft)

    def create(self, w: Writer, s: State) -> Iterator[tuple[str, Any, dict]]:
        number, mine = w.draft.number, w._replace(entry=w.draft)
        taken = s.journal[number] if number < len(s.journal) else None
        if taken is None:
            journal = (*s.journal[:number], w.draft, *s.journal[number + 1 :])
            if self.wrong == "trims the journal":
                journal = (*[None] * (len(journal) - 1), journal[-1])
            yield f"creates entry {number}", self.into("copy", mine, s), {"journal": journal}
            yield f"creates entry {number}, unheard", w, {"journal": journal}
        elif taken.who == w.who and self.wrong != "cleans up when the answer was lost":
            yield "finds its own entry", self.into("copy", mine, s), {}
        else:
            yield "has lost", w._replace(pc="lost", todo=w.draft.adds) if w.draft.adds else self.again(w), {}

    # What must hold

    def fault(self, s: State) -> str:
        "What is wrong in a state; empty where nothing is."
        head, known = s.journal[-1], [e for e in s.journal if e]
        for a, b in zip(known, known[1:]):
            if b.number == a.number + 1 and (b.before, b.start, b.files) != (a.who, a.end, a.files - b.removes | b.adds):
                return f"entry {b.number} is no step from the one before it: an input is applied twice, or lost"
        if any(a.number != i for i, a in enumerate(s.journal) if a) or len(known) > 1 and known[-1].number - known[0].number >= len(known):
            return "an entry was made below the head"
        if lost := head.files - s.folder - (s.aside & head.adds):
            return f"lost: {sorted(lost)}"
        if s.settled == head.number and s.folder != head.files:
            return f"settled, and yet the folder has {sorted(s.folder ^ head.files)} too much or too little"
        for w in s.writers:
            if w.pc == "free" and w.entry.adds - w.listed and head.number == w.entry.number:
                return "who settles finds a file of the head missing"
        folder = s.folder | (head.adds & s.aside)
        if self.wrong == "finished when no aside is left" and not s.aside & head.adds:
            folder = s.folder
        else:
            folder = folder - head.removes - {f for f in folder if f.number <= head.number and f not in head.files}
        return "" if folder == head.files else f"one who settles alone leaves {sorted(folder ^ head.files)} too much or too little"


def explore(protocol: Protocol, attempts: tuple[int, ...] = (1, 1), most: int = 500_000) -> tuple[int, str, list[str]]:
    "Number of states, the first fault, and the steps that lead to it."
    base = Entry(0, "load", "", frozenset(), frozenset(), frozenset([File(0, "load", 0), File(0, "load", 1)]))
    first = State((base,), base.files, frozenset(), 0, tuple(Writer(name, left=n) for name, n in zip("ab", attempts)))
    came: dict[State, tuple[State, str] | None] = {first: None}
    waiting = deque([first])
    while waiting:
        state = waiting.popleft()
        for said, after in protocol.steps(state):
            if after in came:
                continue
            came[after] = (state, said)
            if fault := protocol.fault(after):
                return len(came), fault, trail(came, after)
            assert len(came) < most, "more states than were meant to be tried"
            waiting.append(after)
    return len(came), "", []


def trail(came: dict, state: State) -> list[str]:
    "How a state was reached."
    steps = []
    while came[state]:
        state, said = came[state]
        steps.append(said)
    return steps[::-1]
