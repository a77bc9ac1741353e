"""What must hold when all is over, and what must not have moved."""

from __future__ import annotations

from typing import Any

from dmscdc.state.position import Position
from world import World


def placed(world: World) -> dict[str, Any]:
    "What of the landing the table holds, by its newest commit, without the times of our looking."
    position = world.lake_table.transaction_log.head().facts["position"]
    return {**position, "listed_at": None, "load_files": [f[:2] for f in position["load_files"]]}


def whole(case: Any, calm: dict[str, Any]) -> None:
    "The table is what the files say, by commits that follow each other; the state says so too, and nothing else lies about."
    world, (lake, oracle) = case.world, case.rows()
    assert lake == oracle
    steps(world)
    head, item = world.lake_table.transaction_log.head(), world.state.get(world.ref)
    assert (head.number, placed(world)) == (calm["commit"], calm["position"]), "every input is in one commit"
    assert world.settled() and not world.aside()
    assert (item.commit, item.position) == (head.number, Position.from_json(head.facts["position"])) and world.state.holder(world.ref) is None
    table_state = world.table_state()
    assert world.idle().verdict == "nothing" and world.table_state() == table_state


def steps(world: World) -> None:
    "Every commit is a step from the one before it, and no file's name was ever used twice."
    journal, old = world.lake_table.transaction_log, None
    entries = [journal.entry(n) for n in journal.numbers()]
    for new in entries:
        files = {f.name for f in old.files} if old else set()
        assert (new.number, new.before) == ((old.number + 1, old.attempt) if old else (1, ""))
        assert set(new.removes) <= files and {f.name for f in new.files} == files - set(new.removes) | set(new.adds)
        old = new
    assert len({name for e in entries for name in e.adds}) == sum(len(e.adds) for e in entries)


def committed(world: World) -> tuple:
    "All that readers see: the folder's files with size and time, and every entry of the journal."
    journal = world.lake_table.transaction_log
    return world.table_state()[1], [journal.store.read(journal.entry_name(n)) for n in journal.numbers()]


def readable(world: World) -> bool:
    "Every file of the newest commit is there, in the folder or still aside."
    journal = world.lake_table.transaction_log
    head = journal.head()
    here = set(journal.store.list(journal.folder)) | set(journal.store.list(journal.staging_folder))
    asides = {f.name: f.aside for f in head.added} if head else {}
    return all(f"{journal.folder}/{f.name}" in here or f"{journal.staging_folder}/{asides.get(f.name)}" in here for f in (head.files if head else ()))


def stray_drafts(world: World) -> list[str]:
    "Entries that were written down and never came to their names."
    return [p.name for p in (world.root / "lake/_dmscdc/shop/item/journal").glob(".*")]
