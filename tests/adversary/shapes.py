"""The tables of the siege: a fixed set, and random ones from a seed."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import spoiling
from told import File, Row, Said, Table, changes, closing, load

import awkward

ITEM = {"id": pa.int32(), "name": pa.string(), "price": pa.decimal128(10, 2)}
ROWS = [{"id": n, "name": f"Lamp {n}", "price": Decimal(n)} for n in (1, 2, 3)]
UTC = timezone.utc
F32_MAX = 3.4028234663852886e38

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {  # what DMS writes, with awkward values
    "flag": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [0, -128, 127]),
    "small": (pa.int16(), [-32768, 32767]),
    "whole": (pa.int32(), [0, -(2**31), 2**31 - 1]),
    "large": (pa.int64(), [0, -(2**63), 2**63 - 1]),
    "utiny": (pa.uint8(), [0, 255]),
    "usmall": (pa.uint16(), [0, 65535]),
    "uwhole": (pa.uint32(), [0, 2**32 - 1]),
    "ularge": (pa.uint64(), [0, 2**64 - 1]),
    "price": (pa.decimal128(10, 2), [Decimal("39.00"), Decimal("-0.01"), Decimal("0.00"), Decimal("99999999.99")]),
    "digits": (pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001")]),
    "single": (pa.float32(), [0.5, -0.0, math.inf, F32_MAX]),
    "twice": (pa.float64(), [0.1, -0.0, 0.0, 5e-324, -math.inf, 1 / 3]),
    "day": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10), date(2018, 12, 15)]),
    "moment": (
        pa.timestamp("us", "UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)],
    ),
    "milli": (pa.timestamp("ms", "UTC"), [datetime(2018, 12, 15, 10, 2, 11, 123000, UTC), datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)]),
    "title": (pa.string(), ["", " ", "Größe 55” 🛒", "null", "a\0b", "'\"\\\n", "e\u0301", "é", "x" * 3000]),
    "bytes": (pa.binary(), [b"", b"\0", b"\xff\0x"]),
    "clock": (pa.time32("ms"), [time(0), time(10, 2, 11), time(23, 59, 59, 999000)]),
}


def table(name: str, about: str, *files: File, key: tuple[str, ...] = ("id",), **more: Any) -> Table:
    settings = {k: more.pop(k) for k in ("delete", "partition", "insert_only") if k in more}
    if settings.get("insert_only"):
        key = ()
    return Table(f"adv.{name}", key, list(files), settings, about=about, **more)


def item(name: str, about: str, *files: File, **more: Any) -> Table:
    return table(name, about, load(ROWS, ITEM), *files, **more)


def update(minute: float, *rows: Row, **more: Any) -> File:
    return changes(minute, [("U", row) for row in rows], more.pop("columns", ITEM), **more)


# Right, whatever it looks like


def usual() -> list[Table]:
    first = changes(
        1, [("U", {"id": 1, "name": "one", "price": None}), ("D", {"id": 2}), ("I", {"id": 4, "name": "vier", "price": Decimal("4.40")})], ITEM
    )
    part = {"id": pa.int32(), "price": pa.decimal128(10, 2)}
    second = changes(2, [("I", {"id": 2, "price": Decimal(22)}), ("U", {"id": 1, "price": Decimal(11)}), ("D", {"id": 4}), ("D", {"id": 77})], part)
    moved = changes(
        3,
        [
            ("D", {"id": 3}),
            ("I", {"id": 33, "name": "key changed", "price": Decimal(3)}),
            ("I", {"id": 4}),
            ("D", {"id": 4}),
            ("I", {"id": 4, "name": "third life"}),
        ],
        ITEM,
        round=2,
    )
    wide = {**ITEM, "price": pa.decimal128(12, 3), "later": pa.string()}
    late = changes(1.5, [("U", {"id": 1, "name": "late"}), ("D", {"id": 3})], ITEM, round=2, at=closing(5))
    return [
        item("usual", "updates, deletes, lives, keys that change, files with fewer columns", first, second, moved),
        item("soft", "the same, deletes mark", first, second, moved, delete="soft"),
        item(
            "grown",
            "a column more, a wider one",
            first,
            update(2, {"id": 1, "name": "n", "price": Decimal("1.125"), "later": "x"}, columns=wide, round=2),
        ),
        item("late", "a late file that meets applied keys", first, second, late, said={2: Said((late.name,), ("attention",), right=True)}),
        item("empty", "files without rows", changes(1, [], ITEM), update(2, {"id": 1}), changes(3, [], ITEM, round=2)),
        table("nothing", "no load at all", first, second, moved, asked=False, said={1: Said(("matched no row",), ("attention",), right=True)}),
        item(
            "groups",
            "many small row groups",
            changes(1, [(op, {"id": n % 7, "name": f"{n}"}) for n in range(200) for op in ("U" if n % 5 else "D",)], ITEM, group=3),
            asked=False,
        ),
        table(
            "inserts",
            "inserts alone, without a key",
            load(ROWS, ITEM),
            changes(1, [("I", ROWS[0]), ("I", ROWS[0])], ITEM),
            changes(2, [("I", {"id": None})], ITEM, round=2),
            insert_only=True,
        ),
        table(
            "twins", "keys that the load holds twice", load([*ROWS, ROWS[1]], ITEM), said={1: Said(("LOAD00000001", "id"), ("refused",))}, asked=False
        ),
    ]


def plainly(names: tuple[str, ...], key: str, partition: str = "") -> tuple[File, File, File]:
    "A table whose columns have these names."
    columns = {name: pa.string() for name in dict.fromkeys((key, *names))}
    other = next(name for name in names if name != key)
    row = lambda n, mark: {name: f"{n}" if name == key else f"{mark}{n % 2}" if name == partition else f"{mark} {n} {name}" for name in columns}  # noqa: E731
    return (
        load([row(n, "load") for n in range(4)], columns),
        changes(1, [("U", row(1, "change")), ("D", row(2, "gone")), ("I", row(5, "new"))], columns),
        changes(2, [("U", {key: "0", other: "only one"}), ("D", {key: "5"})], {k: t for k, t in columns.items() if k in (key, other)}, round=2),
    )


def named() -> list[Table]:
    few = ("a.b", "x`y", "größe", "_metadata", "it's", "50%", "a/b", "line\nbreak", "Name", "select", " ")
    key, name = "x`y. z", "a.b`%=/ü"
    return [
        table("columns", "awkward names of columns", *plainly(awkward.COLUMNS, "id")),
        table("key", f"a key called {key!r}", *plainly(few, key), key=(key,)),
        table("part", f"a partition called {name!r}", *plainly((*few, name), "id", name), partition=name),
    ]


def named_each() -> list[Table]:
    few = ("a.b", "x`y", "größe", "_metadata", "it's", "50%", "a/b", "Name", "select", " ")
    found = [table(f"key_{n}", f"a key called {key!r}", *plainly(few, key), key=(key,)) for n, key in enumerate(awkward.KEYS)]
    return found + [
        table(f"parted_{n}", f"a partition called {name!r}", *plainly((*few, name), "id", name), partition=name)
        for n, name in enumerate(awkward.PARTITIONS)
    ]


def typed() -> list[Table]:
    return [every_type(), *keyed()[:2]]


def keyed_each() -> list[Table]:
    return keyed()[2:]


def every_type() -> Table:
    columns = {"id": pa.int32(), **{name: kind for name, (kind, _) in TYPES.items()}}
    value = lambda name, n: (TYPES[name][1] + [None])[n % (len(TYPES[name][1]) + 1)]  # noqa: E731
    row = lambda n, k: {"id": n, **{name: value(name, k) for name in TYPES}}  # noqa: E731
    return table(
        "types",
        "every type, awkward values, nulls",
        load([row(n, n) for n in range(12)], columns),
        changes(1, [("U", row(n, n + 1)) for n in range(0, 12, 2)] + [("D", {"id": 1})], columns),
        changes(2, [("I", row(1, 3)), ("U", {"id": 3})], columns, round=2),
    )


def keyed() -> list[Table]:
    found, mixed = (
        [],
        [
            ("day", "price", "large"),
            ("moment", "title"),
            ("flag", "tiny", "small"),
            ("bytes",),
            ("uwhole", "ularge"),
            ("digits",),
            ("utiny", "usmall"),
        ],
    )
    for names in mixed:
        kinds = {**{name: TYPES[name][0] for name in names}, "text": pa.string()}
        keys = [{name: TYPES[name][1][n % len(TYPES[name][1])] for name in names} for n in range(max(len(TYPES[name][1]) for name in names))]
        keys = list({repr(sorted(k.items())): k for k in keys}.values())
        found.append(table("key_of_" + "_".join(names), "keys of these types", load([{**k, "text": "load"} for k in keys[:-1]], kinds), key=names))
        found[-1].files.append(changes(1, [("U", {**k, "text": "changed"}) for k in keys[:-1:2]] + [("D", k) for k in keys[1:-1:2]], kinds))
        found[-1].files.append(changes(2, [("I", {**k, "text": "again"}) for k in keys[-2:]], kinds, round=2))
    return found


def floats() -> list[Table]:
    "Keys of floating point: right, or refused; never a row twice."
    kinds = {"x": pa.float64(), "text": pa.string()}
    odd, found = {"zeros": [0.0, -0.0], "floats": [0.0, -0.0, math.nan]}, []
    for name, values in odd.items():
        begin = load([{"x": values[0], "text": "load"}, {"x": 0.5}, *({"x": x} for x in values[2:])], kinds)
        told = changes(1, [*(("U", {"x": x, "text": f"changed {n}"}) for n, x in enumerate(values)), ("D", {"x": 0.5})], kinds)
        again = changes(2, [("D", {"x": -0.0}), ("I", {"x": 0.0, "text": "again"}), ("I", {"x": 0.5, "text": "again"})], kinds, round=2)
        unasked = ("reconcile",) if values[2:] else ()  # SQLite knows no NaN
        found.append(table(name, f"keys {values}", begin, told, again, key=("x",), unasked=unasked))
    return found


def parted() -> list[Table]:
    kinds = {"id": pa.int32(), "place": pa.string(), "n": pa.int32()}
    values = ["north", "a/b=50%", " ", None, "Süd", "..", ".", "x:y", "'\"", "2018-12-15", "null", "a\nb", "%2F", "x" * 80]
    begin = load([{"id": n, "place": v, "n": 0} for n, v in enumerate(values)], kinds)
    moves = changes(1, [("U", {"id": n, "place": values[n - 1], "n": 1}) for n in range(0, len(values), 2)] + [("D", {"id": 3})], kinds)
    found = [
        table(
            "places",
            "values of partitions, and rows that move",
            begin,
            moves,
            changes(2, [("U", {"id": 5, "n": 2})], {k: v for k, v in kinds.items() if k != "place"}, round=2),
            partition="place",
        )
    ]
    for name, value in {"long": "x" * 300, "wide": "ü" * 130, "nul": "a\0b", "nobody": "__HIVE_DEFAULT_PARTITION__", "blank": ""}.items():
        bad = changes(1, [("U", {"id": 0, "place": value, "n": 9})], kinds, round=2)
        good = load([{"id": n, "place": v, "n": 0} for n, v in enumerate(["north", None])], kinds)
        found.append(
            table(
                f"place_{name}",
                f"a change moves a row into a partition that no folder can be called ({name})",
                good,
                bad,
                partition="place",
                said={2: Said(("place",), ("refused",))},
                asked=False,
            )
        )
        found.append(
            table(
                f"load_{name}",
                f"the load holds a partition that no folder can be called ({name})",
                load([{"id": 1, "place": value}, {"id": 2, "place": None}], kinds),
                partition="place",
                said={1: Said(("place",), ("refused",))},
                asked=False,
            )
        )
    return found


def digits(minute: float, number: int) -> str:
    return f"{closing(minute):%Y%m%d%H%M%S}00{number:019d}"


def counted() -> list[Table]:
    kinds = {**ITEM, "seq": pa.string()}
    row = lambda n, name, seq: {"id": n, "name": name, "seq": seq}  # noqa: E731
    begin = load([{**r, "seq": ""} for r in ROWS], kinds)
    good = changes(1, [("U", row(1, "a", digits(0.5, 1))), ("U", row(1, "b", digits(0.5, 2))), ("D", row(2, None, digits(0.5, 3)))], kinds)
    more = changes(2, [("U", row(1, "c", digits(1.5, 4))), ("I", row(2, "again", digits(1.5, 5)))], kinds, round=2)
    inside = changes(2, [("U", row(1, "newer", digits(1.5, 9))), ("U", row(1, "older", digits(1.5, 8)))], kinds, round=2)
    across = changes(2, [("U", row(1, "older", digits(0.4, 0)))], kinds, round=2)
    text = {**ITEM, "code": pa.string()}
    nines, ones = "9" * 35, "1" * 35
    strange = changes(
        1,
        [
            ("U", {"id": 1, "name": "first", "code": nines}),
            ("U", {"id": 1, "name": "second", "code": ones}),
            ("U", {"id": 2, "name": "x", "code": nines}),
            ("D", {"id": 2, "code": ones}),
        ],
        text,
    )
    return [
        table("counted", "a change sequence that agrees", begin, good, more, sequence="seq"),
        table(
            "counted_inside",
            "a sequence that contradicts the rows of one file",
            begin,
            good,
            inside,
            sequence="seq",
            said={2: Said((inside.name,), ("attention",), right=True)},
            asked=False,
        ),
        table("counted_across", "changes that a resumed task sends again", begin, good, across, sequence="seq"),
        table("no_sequence", "texts of 35 digits that are none", load([{**r, "code": "7" * 35} for r in ROWS], text), strange),
    ]


# Words, and nothing wrong


def spoiled() -> list[Table]:
    found = []
    sound = update(1, {"id": 1, "name": "sound"}, round=2)
    many = [{"id": n, "name": f"n{n} " * 9, "price": Decimal(n)} for n in range(40)]
    for how in (
        spoiling.bad_check("name"),
        spoiling.bad_page("name"),
        spoiling.cut,
        spoiling.empty,
        spoiling.no_parquet,
        spoiling.promises_more,
        spoiling.promises_less,
    ):
        name = how.__name__ if how.__name__ != "<lambda>" else "bad_check"
        name = {"spoil": "bad_page"}.get(name, name)
        change = update(2, *many, spoil=how, round=2)
        found.append(
            table(f"change_{name}", f"a change file is spoiled: {name}", load(many, ITEM), sound, change, said={2: Said((change.name,))}, asked=False)
        )
        found.append(
            table(
                f"load_{name}", f"a load file is spoiled: {name}", load(many, ITEM, spoil=how), said={1: Said(("LOAD00000001.parquet",))}, asked=False
            )
        )
    return found


def latin() -> list[Table]:
    bad = b"Gr\xf6\xdfe"
    data = lambda ops, ids, names: pa.table({**({"Op": ops} if ops else {}), "id": ids, "name": names})  # noqa: E731
    kinds = {"id": pa.string(), "name": pa.string()}
    begin = load([{"id": "1", "name": "a"}], kinds)
    value = replace(update(1, columns=kinds, round=2), as_is=data(["U"], ["1"], spoiling.texts([bad])))
    key = replace(update(1, columns=kinds, round=2), as_is=data(["U"], spoiling.texts([bad]), ["x"]))
    later = replace(update(1, columns=kinds, round=2), as_is=data(["U", "U"], ["1", "1"], spoiling.texts([b"fine", bad])))
    loaded = replace(load([], kinds), as_is=data(None, ["1"], spoiling.texts([bad])))
    return [
        table("latin_value", "a text of the first change that is not UTF-8", begin, value, said={2: Said((value.name, "name"))}, asked=False),
        table("latin_later", "a text of a later change that is not UTF-8", begin, later, said={2: Said((later.name, "name"))}, asked=False),
        table("latin_key", "a key that is not UTF-8", begin, key, said={2: Said((key.name, "id"))}, asked=False),
        table("latin_load", "a text of the load that is not UTF-8", loaded, said={1: Said(("LOAD00000001.parquet", "name"))}, asked=False),
    ]


def shaped() -> list[Table]:
    "Columns that cannot be applied."

    def one(name: str, about: str, words: tuple[str, ...], names: list[str], *arrays: Any) -> list[Table]:
        data = pa.Table.from_arrays([pa.array(a) if isinstance(a, list) else a for a in arrays], names=names)
        change = replace(update(1, round=2), as_is=data)
        found = [item(f"change_{name}", about, change, said={2: Said((change.name, *words))}, asked=False)]
        if name.startswith("op_"):
            return found
        whole = data.drop_columns(["Op"]) if "Op" in names and names.count("Op") == 1 else data
        return [
            *found,
            table(f"load_{name}", about, replace(load([], ITEM), as_is=whole), said={1: Said(("LOAD00000001.parquet", *words))}, asked=False),
        ]

    ids, price = pa.array([1], pa.int32()), pa.array([Decimal("1.00")], pa.decimal128(10, 2))
    narrow = update(1, round=2, columns={**ITEM, "id": pa.string()})
    return [
        *one("ours", "a column with a name of ours", ("_cdc_file",), ["Op", "id", "_cdc_file"], ["U"], ids, ["x"]),
        *one("ours_too", "a column with a name of ours in other letters", ("_CDC_row",), ["Op", "id", "_CDC_row"], ["U"], ids, ["x"]),
        *one("two_ops", "two columns Op", ("Op",), ["Op", "id", "Op"], ["U"], ids, ["x"]),
        *one("twice", "two columns of one name", ("name",), ["Op", "id", "name", "name"], ["U"], ids, ["x"], ["y"]),
        *one("list", "a type that no table has", ("name",), ["Op", "id", "name"], ["U"], ids, pa.array([["x"]])),
        *one("huge", "a decimal of over 38 digits", ("price",), ["Op", "id", "price"], ["U"], ids, pa.array([Decimal(1)], pa.decimal256(50, 2))),
        *one("op_number", "an Op that is a number", ("Op",), ["Op", "id", "name"], [1], ids, ["x"]),
        *one("op_none", "no column Op", ("Op",), ["id", "name"], ids, ["x"]),
        *one("op_null", "an Op that is null", ("Op",), ["Op", "id", "name"], pa.array([None], pa.string()), ids, ["x"]),
        *one("op_other", "an Op that is none", ("Op",), ["Op", "id", "name"], ["X"], ids, ["x"]),
        *one("op_key_null", "a change without its key", ("id",), ["Op", "id", "name"], ["U"], pa.array([None], pa.int32()), ["x"]),
        *one("op_key_gone", "a change file without the key's column", ("id",), ["Op", "name", "price"], ["U"], ["x"], price),
        item(
            "narrow",
            "a number becomes a text",
            replace(narrow, rows=[{"Op": "U", "id": "1"}]),
            said={2: Said((narrow.name, "id"), ("refused",))},
            asked=False,
        ),
    ]


# Behind its back


def tampered() -> list[Table]:
    one, two = update(1, {"id": 1, "name": "one"}), update(2, {"id": 2, "name": "two"}, round=2)

    def lost(*below: str) -> Callable[[Any], None]:
        def act(place: Any) -> None:
            for folder in below:
                shutil.rmtree(place.lake / folder / "adv" / place.ref.name if folder else place.folder)

        return act

    def journal(place: Any, content: bytes) -> None:
        entry = sorted((place.lake / "_dmscdc" / "adv" / place.ref.name / "journal").iterdir())[-1]
        entry.write_bytes(content or entry.read_bytes()[:60])

    def spoil(place: Any) -> None:
        path = max(place.folder.rglob("*.parquet"), key=lambda p: p.stat().st_size)
        path.write_bytes(spoiling.bad_check("name")(path.read_bytes()))

    def forget(place: Any) -> None:
        (place.home / "state.db").unlink()
        place.state.put_settings(place.ref, key=place.table.key)

    gone = lambda place: (place.raw / one.name).unlink(missing_ok=True)  # noqa: E731

    def loop(place: Any) -> None:
        if not (place.raw / "again").is_symlink():
            (place.raw / "again").symlink_to(place.raw)

    def itself(place: Any) -> None:
        if not (place.raw / "self").is_symlink():
            (place.raw / "self").symlink_to(place.raw / "self")

    attention = Said(("adv.",), ("attention", "failed", "refused"))

    def kept(name: str, about: str, act: Callable[[Any], None], said: Said | None, **more: Any) -> Table:
        return item(name, about, one, two, tampered={2: act}, said={2: said} if said else {}, asked=False, **more)

    return [
        kept("gone_file", "an applied change file was removed", gone, None, either=(2,)),
        kept("linked", "a link leads back to its folder", loop, None, either=(2,)),
        kept("looped", "a link leads to itself", itself, None, either=(2,)),
        kept("cut_entry", "the newest entry of the journal was cut", lambda place: journal(place, b""), replace(attention, names=(".json",))),
        kept(
            "strange_entry",
            "the newest entry of the journal is another JSON",
            lambda place: journal(place, b"{}"),
            replace(attention, names=(".json",)),
        ),
        kept("forgotten", "the state was lost", forget, None),
        kept("spoiled_lake", "a page of a lake file is damaged", spoil, replace(attention, names=(".parquet",), spoiled=True)),
    ]


def lost_lakes() -> list[Table]:
    "The lake, or what it knows of its commits, was removed: nothing is built from what is left."
    one, two = update(1, {"id": 1, "name": "one"}), update(2, {"id": 2, "name": "two"}, round=2)

    def remove(*parts: str) -> Callable[[Any], None]:
        def act(place: Any) -> None:
            for part in parts:
                shutil.rmtree(place.lake / part / "adv" / place.ref.name)
            (place.raw / one.name).unlink(missing_ok=True)  # archived

        return act

    return [
        item(
            "lost_journal",
            "the journal was removed, and applied files were archived",
            one,
            two,
            tampered={2: remove("_dmscdc")},
            said={2: Said(("adv.lost_journal",), ("attention",))},
            asked=False,
        ),
        item(
            "lost_lake",
            "the whole lake was removed, and applied files were archived",
            one,
            two,
            tampered={2: remove("_dmscdc", "")},
            said={2: Said(("adv.lost_lake",), ("attention",), gone=True)},
            asked=False,
        ),
    ]


def replayed() -> list[Table]:
    "A file of inserts is replaced by another one and replayed."
    was = changes(1, [("I", {"id": n, "name": "was"}) for n in range(10, 15)], ITEM)
    now = changes(1, [("I", {"id": 20, "name": "is"})], ITEM, at=closing(9), round=2)

    def again(place: Any) -> None:
        place.state.instruct(place.ref, {"kind": "replay", "files": [was.name]})

    return [
        table(
            "replayed",
            "inserts alone, a file is replaced and replayed",
            load(ROWS, ITEM),
            was,
            now,
            tampered={2: again},
            insert_only=True,
            asked=False,
        )
    ]


def wide() -> list[Table]:
    return [many_columns("wide", 1000), many_columns("broad", 120)]


def many_columns(name: str, columns: int) -> Table:
    kinds = {"id": pa.int32(), **{f"c{n}": pa.string() for n in range(columns)}}
    row = lambda i, mark: {"id": i, **{f"c{n}": f"{mark}{n}" for n in range(columns)}}  # noqa: E731
    half = dict(list(kinds.items())[: columns // 2])
    first, second = changes(1, [("U", row(1, "b")), ("D", {"id": 2})], kinds), changes(2, [("I", row(2, "c"))], kinds, round=2)
    return table(
        name,
        f"{columns} columns",
        load([row(1, "a"), row(2, "a")], kinds),
        first,
        second,
        changes(3, [("U", {n: row(1, "d")[n] for n in half})], half, round=2),
    )


# At random

KEYS = (
    "flag",
    "tiny",
    "small",
    "whole",
    "large",
    "utiny",
    "usmall",
    "uwhole",
    "ularge",
    "price",
    "digits",
    "day",
    "moment",
    "milli",
    "title",
    "bytes",
)
FOLDERS = {
    "place": (pa.string(), ["north", "a/b=50%", " ", None, "Süd", ".."]),
    "part": (pa.int32(), [0, -1, None]),
    "date": (pa.date32(), [date(2018, 12, 15), date(1582, 10, 10), None]),
}
UNSURE = Said((), ("ok", "nothing", "attention"), right=True)  # the rows are right; a remark may be due


def drawn(seed: int) -> Table:
    "Any table: names, types, keys, partitions, files with some of the columns, lives, late files, and sometimes one that is spoiled."
    draw = random.Random(f"{seed} adversary")
    key = tuple(draw.sample(awkward.KEYS, draw.choice([1, 1, 2, 3])))
    words = [name for name in draw.sample(awkward.COLUMNS, 9) if name not in key]
    kinds = {name: draw.choice(KEYS) for name in key} | {name: draw.choice(list(TYPES)) for name in words[: draw.randint(1, 7)]}
    values, columns = {name: TYPES[kind][1] for name, kind in kinds.items()}, {name: TYPES[kind][0] for name, kind in kinds.items()}
    settings: dict[str, Any] = {"delete": draw.choice(["hard", "hard", "soft"])}
    if draw.random() < 0.4:
        settings["partition"] = words[8] if len(words) > 8 and words[8] not in columns and "," not in words[8] else "place"
        columns[settings["partition"]], values[settings["partition"]] = draw.choice(list(FOLDERS.values()))
    sequence = "seq of it" if draw.random() < 0.3 else ""
    every = [dict(zip(key, one)) for one in dict.fromkeys(tuple(draw.choice(values[name]) for name in key) for _ in range(8))]
    row = lambda one, carried: {**{name: draw.choice([*values[name], None]) for name in carried if name not in key}, **one}  # noqa: E731
    files, number = [], 0
    if draw.random() < 0.85:
        files.append(load([row(one, columns) for one in every if draw.random() < 0.7], columns))
    for minute in range(1, draw.randint(2, 5)):
        carried = {name: kind for name, kind in columns.items() if name in key or draw.random() < 0.8}
        told = [(draw.choice("IUUD"), row(draw.choice(every), carried)) for _ in range(draw.randint(0, 12))]
        if sequence:
            carried[sequence] = pa.string()
            told = [(op, {**one, sequence: digits(minute - 0.5, number + n)}) for n, (op, one) in enumerate(told)]
            number += len(told)
        files.append(changes(minute, told, carried, group=draw.choice([2, 10_000]), round=1 + minute // 2))
    late = [f for f in files if not f.is_load and f.round == 1]
    if late and draw.random() < 0.3:
        late[0].round = max(f.round for f in files)
    said = {n: UNSURE for n in range(1, 1 + max(f.round for f in files))}
    last = files[-1]
    if draw.random() < 0.15 and len(last.rows) > 2:
        last.spoil, last.group = draw.choice([spoiling.cut, spoiling.promises_more, spoiling.promises_less, spoiling.bad_check(key[0])]), 10_000
        said[last.round] = Said((last.name,))
        for file in files[:-1]:
            file.round = min(file.round, last.round - 1) or 1
        if last.round == 1:
            return drawn(seed + 1_000_000)
    first = min(f.round for f in files)
    for file in files:
        file.round -= first - 1
    said = {n - first + 1: one for n, one in said.items() if n >= first}
    return Table(f"adv.t{seed}", key, files, settings, sequence, said, asked=not last.spoil, about="drawn at random")


GROUPS = {
    f.__name__: f()
    for f in (usual, named, named_each, typed, keyed_each, floats, parted, counted, spoiled, latin, shaped, tampered, lost_lakes, replayed, wide)
}
TABLES = [table for group in GROUPS.values() for table in group]
