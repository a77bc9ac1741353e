"The commit of plain Parquet, stopped, killed and woken between any two requests. Files of text stand for Parquet: the protocol never looks inside."
from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dmscdc.journal import Journal, LakeFile, Store, commit, name_prefix, settle
from dmscdc.tables import StaleCommit

REQUESTS = ("list", "read", "delete", "copy", "create", "tidy")


class Killed(Exception):
    "The writer died here."


class Watched:
    "A store that calls `before` ahead of every request, with its number."
    def __init__(self, store: Store, before): self.store, self.before, self.count = store, before, 0

    def __getattr__(self, name):
        request = getattr(self.store, name)
        if name not in REQUESTS: return request
        def call(*given):
            self.count += 1
            self.before(self.count)
            return request(*given)
        return call


class Lake:
    "A table whose files hold one word a row."
    def __init__(self, root: Path):
        self.root = root
        self.journal = self.watched(lambda number: None)

    def watched(self, before) -> Journal: return Journal(Watched(Store(str(self.root)), before), "shop/item", "_dmscdc/shop/item")

    def write(self, attempt: str, adds: dict[str, str], removes=(), journal=None, position=""):
        "One writer: read the head, settle, write aside, commit."
        journal = journal or self.journal
        head = journal.head()
        settle(journal, head)
        prefix, files = name_prefix(head.number + 1 if head else 1, attempt), []
        for name, words in adds.items():
            files.append(LakeFile(f"{prefix}-{name}.parquet", f"{prefix}/{name}.parquet", len(words.split()), len(words)))
            aside = self.root / journal.aside / files[-1].aside
            aside.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(words)
        gone = [f.name for f in (head.files if head else ()) if f.name.split("-")[-1][:-8] in removes]
        return commit(journal, head, attempt, files, gone, {"position": position, "run": attempt})

    def listed(self) -> set[str]: return {f.name for f in self.journal.head().files} if self.journal.head() else set()

    def folder(self) -> set[str]: return {p.name for p in (self.root / "shop/item").rglob("*") if p.is_file()}

    def words(self) -> list[str]:
        "What a reader of the folder reads."
        return sorted(" ".join(p.read_text() for p in (self.root / "shop/item").rglob("*") if p.is_file()).split())

    def asides(self) -> list[str]: return self.journal.store.list(self.journal.aside)


def nothing(lake: Lake): pass


def loaded(lake: Lake): lake.write("a1", {"one": "a b", "two": "c", "three": "d e"}, position="load")


KINDS = {  # what is there, what the writer adds and removes, the rows before and after
    "initial": (nothing, {"one": "a b", "two": "c"}, (), "", "a b c"),
    "incremental": (loaded, {"four": "A b", "five": "f"}, ("one",), "a b c d e", "A b c d e f"),
    "reload": (loaded, {"all": "x y"}, ("one", "two", "three"), "a b c d e", "x y"),
    "deletes only": (loaded, {}, ("one", "two"), "a b c d e", "d e"),
    "position only": (loaded, {}, (), "a b c d e", "a b c d e"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_killed_between_any_two_requests_is_healed_by_the_next_pass(tmp_path, kind):
    start, adds, removes, before, after = KINDS[kind]
    points, done = 0, False
    while not done:
        lake, points = Lake(tmp_path / str(points)), points + 1
        start(lake)
        def kill(number, last=points):
            if number == last: raise Killed
        try: done = bool(lake.write("b2", adds, removes, lake.watched(kill), "changes"))
        except Killed: pass
        head = lake.journal.head()
        settle(lake.journal, head)
        made = bool(head) and head.attempt == "b2"
        assert lake.folder() == lake.listed() and lake.words() == sorted((after if made else before).split()), points
        assert (head.facts["position"] if head else "") == ("changes" if made else "load" if before else ""), points
        lake.write("c3", {})
        assert lake.asides() == [] and lake.folder() == lake.listed() and lake.words() == sorted((after if made else before).split()), points
    assert points >= 5, "every request of the writer was a place to die"


@pytest.mark.parametrize("kind", KINDS)
def test_a_stalled_writer_woken_after_others_have_committed_harms_nothing(tmp_path, kind):
    start, adds, removes, _, after = KINDS[kind]
    points, stopped = 0, True
    while stopped:
        lake, points = Lake(tmp_path / str(points)), points + 1
        start(lake)
        asleep, wake, said = threading.Event(), threading.Event(), []
        def wait(number, last=points):
            if number == last: asleep.set(); assert wake.wait(30)
        def writer():
            try: said.append(lake.write("b2", adds, removes, lake.watched(wait)))
            except StaleCommit as error: said.append(error)
            except Exception as error: said.append(repr(error))
            finally: asleep.set()
        thread = threading.Thread(target=writer)
        thread.start()
        assert asleep.wait(30)
        stopped = not said
        lake.write("c3", {"six": "s"}, ("one", "two", "four", "all"))   # removes what the sleeper just added, too
        lake.write("d4", {"seven": "t u"}, ("six", "five"))
        files = lake.folder()
        wake.set()
        thread.join(30)
        assert isinstance(said[0], StaleCommit) or said[0].attempt == "b2", said
        assert lake.folder() == files == lake.listed() and {"t", "u"} <= set(lake.words()), points
        lake.write("e5", {})
        assert lake.asides() == [] and lake.folder() == files, points
    assert points >= 5


def test_settling_an_old_commit_again_changes_nothing(tmp_path):
    lake = Lake(tmp_path)
    loaded(lake)
    lake.write("b2", {"four": "f"}, ("one",))
    lake.write("c3", {}, ("four", "two"))
    lake.write("d4", {"five": "g"})
    for number in lake.journal.numbers():
        settle(lake.journal, lake.journal.entry(number))
        assert lake.folder() == lake.listed() and lake.words() == ["d", "e", "g"]


def test_an_answer_that_was_lost_is_no_reason_to_clean_up(tmp_path):
    lake = Lake(tmp_path)
    loaded(lake)
    class Deaf(Watched):
        def __getattr__(self, name):
            def create(*given):
                self.store.create(*given)
                self.store.create(*given)  # repeated because the first answer was lost
            return create if name == "create" else getattr(self.store, name)
    journal = Journal(Deaf(Store(str(tmp_path)), None), "shop/item", "_dmscdc/shop/item")
    assert lake.write("b2", {"four": "f"}, ("one",), journal).number == 2
    assert lake.folder() == lake.listed() and lake.words() == ["c", "d", "e", "f"]
