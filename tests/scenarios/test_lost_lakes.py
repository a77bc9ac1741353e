"The state remembers a commit that the lake does not hold: nothing is touched, a person is asked, and both ways on work."

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from dmscdc.cli.tables import tables
from world import World, closed

pytestmark = pytest.mark.test

SCHEMA = {"id": "int", "name": "string"}


@pytest.fixture()
def w(tmp_path, spark):
    "A load and two batches: commit 3. The lake as it was at commit 2 lies beside."
    w = World(tmp_path, spark, SCHEMA).set(key="id").load([(1, "a"), (2, "b")]).changes(1, [("I", 3, "c")])
    assert w.go().verdict == "ok"
    shutil.copytree(w.root / "lake", w.root / "lake at 2")
    w.changes(2, [("U", 1, "A")])
    assert w.go().commit == 3
    return w


def command(w: World, *words: str) -> tuple[int, str]:
    "`dmscdc table …` on the world: exit code, and what it says."
    places = ["--landing", str(w.landing), "--lake", str(w.root / "lake"), "--state", f"sqlite:{w.root / 'state.db'}"]
    done = CliRunner().invoke(tables, [*words, *places])
    return done.exit_code, " ".join(done.output.split())


def without_lake(w: World):
    shutil.rmtree(w.root / "lake")


def without_journal(w: World):
    shutil.rmtree(w.root / "lake" / "_dmscdc")


def older(w: World):
    shutil.rmtree(w.root / "lake")
    shutil.copytree(w.root / "lake at 2", w.root / "lake")


def of_another(w: World):
    "The lake of a table of the same name from another landing, with more commits."
    other = World(w.root / "other", w.spark, SCHEMA).set(key="id").load([(7, "x")])
    for number in range(1, 4):
        other.changes(number, [("U", 7, f"x{number}")])
        assert other.go().verdict == "ok"
    shutil.rmtree(w.root / "lake")
    shutil.copytree(other.root / "lake", w.root / "lake")


def everything(w: World) -> dict[str, bytes]:
    "Every file of the lake, and the state's item."
    return {str(p): p.read_bytes() for p in sorted((w.root / "lake").rglob("*")) if p.is_file()} | {"": repr(w.state.get(w.ref)).encode()}


@pytest.mark.parametrize(
    "lose, found",
    [
        (without_lake, "holds no commit of ours"),
        (without_journal, "holds no commit of ours"),
        (older, f"stands at commit 2, load 1 (1 file), changes up to {closed(1)}.parquet"),
        (of_another, "holds another table: its commit 3"),
    ],
)
def test_a_lake_that_is_not_the_one_remembered_is_left_alone_and_a_person_is_asked(w, lose, found):
    lose(w)
    w.changes(3, [("I", 4, "d")])
    for path in w.raw.glob("2*"):
        if path.stem <= closed(2):
            path.rename(w.root / path.name)  # what was applied is archived
    before = everything(w)
    done = w.idle()
    assert (done.verdict, everything(w)) == ("attention", before)
    assert f"the state remembers commit 3 (load 1 (1 file), changes up to {closed(2)}.parquet)" in done.words and found in done.words, done.words
    assert "`dmscdc table rewind shop.item --reload`" in done.words
    assert ("`dmscdc table rebuild --only shop.item`" in done.words) == ("no commit" not in found)


@pytest.mark.parametrize("lose", [without_lake, without_journal, older, of_another])
def test_a_reload_on_request_loads_the_table_anew_and_leaves_nothing_of_the_old_lake(w, lose):
    lose(w)
    assert command(w, "rewind", "shop.item", "--reload")[0] == 0
    done = w.go()
    assert done.verdict == "ok", done.words
    assert w.lake("id, name") == [(1, "A"), (2, "b"), (3, "c")] and w.settled() and w.state.get(w.ref).instruction is None
    assert w.idle().verdict == "nothing"


def test_a_reload_says_which_applied_change_files_are_gone(w):
    without_lake(w)
    (w.raw / f"{closed(1)}.parquet").unlink()
    command(w, "rewind", "shop.item", "--reload")
    done = w.go()
    assert done.verdict == "attention" and f"{closed(1)}.parquet had been applied before the lake was lost" in done.words


def test_a_reload_without_load_files_is_not_carried_out(w):
    without_lake(w)
    (w.raw / "LOAD00000001.parquet").unlink()
    command(w, "rewind", "shop.item", "--reload")
    done = w.idle()
    assert done.verdict == "attention" and "there is no load file in the landing" in done.words and not w.files()


def test_rebuild_takes_an_older_lake_as_it_is_and_the_next_pass_applies_the_rest(w):
    older(w)
    assert command(w, "rebuild") == (3, f"shop.item: {w.idle().plan['notes'][0]}")
    code, said = command(w, "rebuild", "--only", "shop.item")
    assert (code, "shop.item: commit 2" in said) == (0, True), said
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "A"), (2, "b"), (3, "c")]


def test_rebuild_names_the_files_that_an_older_lake_lacks_and_the_landing_too(w):
    older(w)
    (w.raw / f"{closed(2)}.parquet").unlink()
    code, said = command(w, "rebuild", "--only", "shop.item")
    assert code == 3 and f"{closed(2)}.parquet was applied after it" in said and "table rewind shop.item --reload" in said, said


def test_a_lake_that_comes_back_goes_on(w):
    (w.root / "lake").rename(w.root / "elsewhere")
    assert w.idle().verdict == "attention"
    (w.root / "elsewhere").rename(w.root / "lake")
    w.changes(3, [("I", 4, "d")])
    assert w.go().verdict == "ok" and w.lake("id, name") == [(1, "A"), (2, "b"), (3, "c"), (4, "d")]


def test_a_state_behind_the_lake_is_brought_forward_and_a_table_never_committed_is_not_lost(w):
    other = World(w.root / "late", w.spark, SCHEMA).set(key="id").load([(1, "a")])
    other.state.intent(other.ref, {"commit": 1, "run": "died"})
    assert other.go().verdict == "ok"
    shutil.copy(other.root / "state.db", other.root / "old.db")
    for number in (1, 2):
        other.changes(number, [("U", 1, f"v{number}")])
        assert other.go().verdict == "ok"
    for ending in ("-wal", "-shm"):
        (other.root / f"state.db{ending}").unlink(missing_ok=True)
    shutil.copy(other.root / "old.db", other.root / "state.db")
    assert other.idle().verdict == "nothing" and other.state.get(other.ref).commit == 3


@pytest.mark.parametrize("which", [0, -1])
def test_a_file_that_any_commit_wrote_and_somebody_removed_is_said_and_loaded_anew_on_request(w, which):
    for number in range(4, 7):
        w.changes(number, [("I", number, "x" * number)]), w.go()
    files = sorted(w.files())  # by their commits
    assert len(files) > 2
    lost = w.folder / files[which]
    kept = lost.read_bytes()
    lost.unlink()
    w.changes(7, [("I", 99, "new")])
    before = everything(w)
    done = w.idle()
    assert (done.verdict, everything(w)) == ("attention", before)
    assert lost.name in done.words and "`dmscdc table rewind shop.item --reload`" in done.words, done.words
    code, said = command(w, "rebuild", "--only", "shop.item")
    assert code == 3 and lost.name in said, said
    lost.write_bytes(kept)
    assert w.go().verdict == "ok"
    next(w.folder / name for name in w.files()).unlink()
    assert w.idle().verdict == "attention" and command(w, "rewind", "shop.item", "--reload")[0] == 0
    assert w.go().verdict == "ok" and w.settled()
    assert w.lake("id, name") == [(1, "A"), (2, "b"), (3, "c"), (4, "xxxx"), (5, "xxxxx"), (6, "xxxxxx"), (99, "new")]
