"The commit of plain Parquet, stopped, killed and woken between any two requests. Files of text stand for Parquet: the protocol never looks inside."

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from dmscdc.errors import AlreadyExists, CommitConflict, MissingDataFile, UnsupportedStore
from dmscdc.lake.parquet.transaction_log import Entry, LakeFile, TransactionLog, commit, name_prefix, recover, urls_by_base
from dmscdc.storage.log_store import LogStore, entry_number

pytestmark = pytest.mark.quick

REQUESTS = ("list", "last", "read", "delete", "copy", "create", "clear_staging")


class Killed(Exception):
    "The writer died here."


class Watched:
    "A store that calls `before` ahead of every request, with its number."

    def __init__(self, store: LogStore, before):
        self.store, self.before, self.count = store, before, 0

    def __getattr__(self, name):
        request = getattr(self.store, name)
        if name not in REQUESTS:
            return request

        def call(*given):
            self.count += 1
            self.before(self.count)
            return request(*given)

        return call


class Lake:
    "A table whose files hold one word a row."

    def __init__(self, root: Path):
        self.root = root
        self.transaction_log = self.watched(lambda number: None)

    def watched(self, before) -> TransactionLog:
        return TransactionLog(Watched(LogStore(str(self.root)), before), "shop/item", "_dmscdc/shop/item", "shop.item")

    def write(self, attempt: str, adds: dict[str, str], removes=(), journal=None, position=""):
        "One writer: read the head, settle, read the table, write aside, commit."
        journal = journal or self.transaction_log
        head = journal.head()
        recover(journal, head)
        if head:
            urls_by_base(journal, head)
        prefix, files = name_prefix(head.number + 1 if head else 1, attempt), []
        for name, words in adds.items():
            files.append(LakeFile(f"{prefix}-{name}.parquet", f"{prefix}/{name}.parquet", len(words.split()), len(words)))
            aside = self.root / journal.staging_folder / files[-1].aside
            aside.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(words)
        gone = [f.name for f in (head.files if head else ()) if f.name.split("-")[-1][:-8] in removes]
        return commit(journal, head, attempt, files, gone, {"position": position, "run": attempt})

    def listed(self) -> set[str]:
        return {f.name for f in self.transaction_log.head().files} if self.transaction_log.head() else set()

    def folder(self) -> set[str]:
        return {p.name for p in (self.root / "shop/item").rglob("*") if p.is_file()}

    def words(self) -> list[str]:
        "What a reader of the folder reads."
        return sorted(" ".join(p.read_text() for p in (self.root / "shop/item").rglob("*") if p.is_file()).split())

    def asides(self) -> list[str]:
        return self.transaction_log.store.list(self.transaction_log.staging_folder)


def nothing(lake: Lake):
    pass


def loaded(lake: Lake):
    lake.write("a1", {"one": "a b", "two": "c", "three": "d e"}, position="load")


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
            if number == last:
                raise Killed

        try:
            done = bool(lake.write("b2", adds, removes, lake.watched(kill), "changes"))
        except Killed:
            pass
        head = lake.transaction_log.head()
        recover(lake.transaction_log, head)
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
            if number == last:
                asleep.set()
                assert wake.wait(30)

        def writer():
            try:
                said.append(lake.write("b2", adds, removes, lake.watched(wait)))
            except CommitConflict as error:
                said.append(error)
            except Exception as error:
                said.append(repr(error))
            finally:
                asleep.set()

        thread = threading.Thread(target=writer)
        thread.start()
        assert asleep.wait(30)
        stopped = not said
        lake.write("c3", {"six": "s"}, ("one", "two", "four", "all"))  # removes what the sleeper just added, too
        lake.write("d4", {"seven": "t u"}, ("six", "five"))
        files = lake.folder()
        wake.set()
        thread.join(30)
        assert isinstance(said[0], CommitConflict) or said[0].attempt == "b2", said
        if isinstance(said[0], Entry) and said[0].before == "d4":  # it slept before it read the head, so it comes after the others
            files = files - set(said[0].removes) | set(said[0].adds)
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
    for number in lake.transaction_log.numbers():
        recover(lake.transaction_log, lake.transaction_log.entry(number))
        assert lake.folder() == lake.listed() and lake.words() == ["d", "e", "g"]


def test_settling_leaves_what_a_writer_prepares_for_the_next_commit(tmp_path):
    lake = Lake(tmp_path)
    loaded(lake)
    prepared = tmp_path / lake.transaction_log.staging_folder / name_prefix(2, "b2") / "four.parquet"
    prepared.parent.mkdir(parents=True)
    prepared.write_text("f")
    recover(lake.transaction_log, lake.transaction_log.head())
    assert lake.asides() == [f"{lake.transaction_log.staging_folder}/{name_prefix(2, 'b2')}/four.parquet"]


def test_an_answer_that_was_lost_is_no_reason_to_clean_up(tmp_path):
    lake = Lake(tmp_path)
    loaded(lake)

    class Deaf(Watched):
        def __getattr__(self, name):
            def create(*given):
                self.store.create(*given)
                self.store.create(*given)  # repeated because the first answer was lost

            return create if name == "create" else getattr(self.store, name)

    journal = TransactionLog(Deaf(LogStore(str(tmp_path)), None), "shop/item", "_dmscdc/shop/item")
    assert lake.write("b2", {"four": "f"}, ("one",), journal).number == 2
    assert lake.folder() == lake.listed() and lake.words() == ["c", "d", "e", "f"]


def test_a_reader_needs_one_listing_and_during_a_switch_at_most_three(tmp_path):
    lake, asked = Lake(tmp_path), []
    loaded(lake)
    journal, head = lake.watched(asked.append), lake.transaction_log.head()
    assert len(urls_by_base(journal, head)[str(tmp_path / "shop/item")]) == 3 and len(asked) == 1
    aside = tmp_path / journal.staging_folder / head.files[0].aside
    aside.parent.mkdir()
    (tmp_path / "shop/item" / head.files[0].name).rename(aside)  # as if it were not copied yet
    assert list(map(len, urls_by_base(journal, head).values())) == [1, 2] and len(asked) == 3
    aside.unlink()
    with pytest.raises(
        MissingDataFile, match="which commit 1 lists, is missing from the lake. Restore it, or: dmscdc table rewind shop.item --reload"
    ):
        urls_by_base(journal, head)
    assert len(asked) == 7


def test_strangers_among_the_asides_are_named_and_left_alone(tmp_path):
    lake = Lake(tmp_path)
    loaded(lake)
    aside = tmp_path / lake.transaction_log.staging_folder
    for name in (".DS_Store", "notes.txt", "20181215/x.parquet", "000000000001.parquet"):
        (aside / name).parent.mkdir(exist_ok=True)
        (aside / name).write_text("x")
    (said,) = recover(lake.transaction_log, lake.transaction_log.head())
    assert said.startswith("_dmscdc/shop/item/aside holds 000000000001.parquet and 2 more, which no commit of ours wrote; ")
    lake.write("b2", {"four": "f"}, ("one",))
    assert len(lake.asides()) == 3 and (aside / ".DS_Store").exists() and lake.words() == ["c", "d", "e", "f"]
    (tmp_path / "shop/item/part-0.parquet").write_text("x")
    assert recover(lake.transaction_log, lake.transaction_log.head())[0].startswith("shop/item holds part-0.parquet, which no commit of ours wrote; ")


def test_where_there_are_no_hard_links_the_loser_leaves_nothing(tmp_path, monkeypatch):
    def no_links(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    lake = Lake(tmp_path)
    first = lake.write("a1", {"one": "a b"})
    second = lake.write("b2", {"two": "c"}, ("one",))
    with pytest.raises(CommitConflict):
        commit(lake.transaction_log, first, "c3", [], [], {})
    assert sorted(os.listdir(tmp_path / "_dmscdc/shop/item/journal")) == ["000000000001.json", "000000000002.json"]
    assert (lake.transaction_log.numbers(), lake.transaction_log.head(), lake.words()) == ([1, 2], second, ["c"])


class Bucket:
    "The requests on names alone: no folders, no disk."

    parallel_requests, leaves_delete_markers, max_copy_bytes = 4, True, 5 << 30

    def __init__(self):
        self.objects = {}

    def path(self, name):
        return f"s3://lake/{name}"

    def list(self, prefix):
        return sorted(name for name in self.objects if name.startswith(f"{prefix}/"))

    def last(self, prefix):
        return max(map(entry_number, self.list(prefix)), default=0)

    def read(self, name):
        return self.objects[name]

    def delete(self, name):
        self.objects.pop(name, None)

    def copy(self, source, target):
        if source in self.objects:
            self.objects[target] = self.objects[source]
        return source in self.objects

    def create(self, name, content):
        if name in self.objects:
            raise AlreadyExists(name)
        self.objects[name] = content

    def clear_staging(self, prefix, number):
        pass


def test_a_store_without_folders_can_be_plugged_in():
    bucket = Bucket()
    journal, head = TransactionLog(bucket, "shop/item", "_dmscdc/shop/item"), None
    for number, word in enumerate("abc", 1):
        file = LakeFile(f"{name_prefix(number, word)}-0.parquet", f"{name_prefix(number, word)}/0.parquet", 1, 1)
        bucket.objects[f"{journal.staging_folder}/{file.aside}"] = word.encode()
        assert recover(journal, journal.head()) == [] and journal.head() == head
        head = commit(journal, head, word, [file], head.adds if head else [], {})
    with pytest.raises(CommitConflict):
        commit(journal, journal.entry(1), "d", [], [], {})
    assert journal.numbers() == [1, 2, 3] and bucket.list(journal.staging_folder) == []
    assert urls_by_base(journal, head) == {"s3://lake/shop/item": [f"s3://lake/shop/item/{head.adds[0]}"]}
    assert [bucket.read(name) for name in bucket.list("shop/item")] == [b"c"]


def test_a_file_that_no_request_can_copy_is_refused_before_the_commit():
    bucket = Bucket()
    journal, file = (
        TransactionLog(bucket, "shop/item", "_dmscdc/shop/item"),
        LakeFile("000000000001-a-0.parquet", "000000000001-a/0.parquet", 1, 6 << 30),
    )
    with pytest.raises(UnsupportedStore, match="has 6,442,450,944 bytes, and one request copies at most 5,368,709,120; nothing was committed"):
        commit(journal, None, "a", [file], [], {})
    assert bucket.objects == {}
