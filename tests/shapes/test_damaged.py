"""Damaged CSV files: each ends in words that name it, or every row that was not touched is read as it was written, and what was touched is read as its bytes say or is named.

The oracle are the lines that the test wrote and did not touch; a touched line is read again by Python's own `csv`."""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections import Counter
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmscdc.changes.csv_values import parse_values
from dmscdc.changes.options import options_from
from dmscdc.changes.rewrite import rewrite_files
from dmscdc.errors import Refused
from seeds import seed_of
from world import World, closed

pytestmark = pytest.mark.quick

COLUMNS = [("id", "int"), ("name", "string"), ("price", "decimal(10,2)")]
NAMES = ["plain", "a,b", 'say ""so""', "two\nlines", "é€", " blank "]


def lines_of(rng: random.Random, count: int = 40) -> list[bytes]:
    "Rows as DMS writes them, each with its line end."
    return [f'{op},{n},"{rng.choice(NAMES)} {n}",{rng.randint(1, 10**6) / 100:.2f}\n'.encode() for n, op in enumerate(rng.choices("IUD", k=count), 1)]


def parsed(content: bytes) -> list[tuple]:
    "The rows of bytes by Python's `csv`; a line that is none gives none."
    rows = []
    for row in csv.reader(io.StringIO(content.decode("utf-8", "replace"), newline="")):
        try:
            rows.append((row[0], int(row[1]), row[2], Decimal(row[3]).quantize(Decimal("0.01")) if row[3] else None))
        except (IndexError, ValueError, InvalidOperation):
            pass
    return rows


def flipped(rng, lines):
    n = rng.randrange(len(lines))
    line = bytearray(lines[n])
    line[rng.randrange(len(line))] ^= 1 << rng.randrange(8)
    return lines[:n], bytes(line), lines[n + 1 :]


def cut(rng, lines):
    n = rng.randrange(1, len(lines))
    return lines[:n], lines[n][: rng.randrange(1, len(lines[n]))], []


def inserted(what: bytes):
    def damage(rng, lines):
        n = rng.randrange(len(lines))
        at = rng.randrange(len(lines[n]))
        return lines[:n], lines[n][:at] + what + lines[n][at:], lines[n + 1 :]

    return damage


def line(what: bytes):
    def damage(rng, lines):
        n = rng.randrange(1, len(lines))
        return lines[:n], what, lines[n:]

    return damage


def swapped(rng, lines):
    n = rng.randrange(len(lines))
    op, key, rest = lines[n].split(b",", 2)
    return lines[:n], b",".join([key, op, rest]), lines[n + 1 :]


DAMAGES = {
    "a flipped bit": flipped,
    "cut": cut,
    "a quote": inserted(b'"'),
    "a delimiter": inserted(b","),
    "a line end": inserted(b"\n"),
    "a return": inserted(b"\r"),
    "a zero byte": inserted(b"\0"),
    "no UTF-8": inserted(b"\xff\xfe"),
    "a header in the middle": line(b"Op,id,name,price\n"),
    "an empty line": line(b"\n"),
    "blanks": line(b"   \n"),
    "a row of another table": line(b"I,5,7,x,y,z,8\n"),
    "too few fields": line(b"I,77\n"),
    "columns in another order": swapped,
    "a huge number": line(b"I,99999999999999999999,x,1.00\n"),
    "a huge price": line(b"I,77,x,1" + b"0" * 500 + b".00\n"),
    "a huge field": line(b'I,77,"' + b"x" * 3_000_000 + b'",1.00\n'),
    "an open quote": line(b'I,77,"open,1.00\n'),
    "Latin-1": line("I,77,caf\xe9,1.00\n".encode("latin-1")),
}


NAMED = set(
    "no UTF-8|a header in the middle|an empty line|blanks|a row of another table|too few fields|columns in another order|a huge number|a huge price|Latin-1".split(
        "|"
    )
)  # one row, in each file
REFUSED = {"a quote", "an open quote"}  # each file; where the others end is not known
MOST_REFUSED = {"cut": 7, "a flipped bit": 4, "a zero byte": 0}  # of eight files, by what is hit; three of the other damages


def read(path: Path, out: Path) -> tuple[list[tuple], int]:
    "The good rows of a file and how many others are named, by the code that is tried; one without Op is named when it is applied, and counts as 100."
    files = rewrite_files("shop.item", {path.name: str(path)}, options_from(COLUMNS), str(out))
    bad = {one.row for one in files.bad}
    rows = [
        (row["Op"], row["id"], row["name"], row["price"]) for n, row in enumerate(pq.read_table(files.urls[path.name]).to_pylist()) if n not in bad
    ]
    return [row for row in rows if row[0]], len(bad) + 100 * sum(not row[0] for row in rows)


@pytest.mark.parametrize("name", DAMAGES)
def test_no_damage_makes_a_wrong_row_or_loses_a_good_one_unsaid(tmp_path, name, record_property):
    rng, refused, bad_rows = random.Random(f"{seed_of('HISTORY_SEED')} {name}"), 0, 0
    for number in range(8):
        before, touched, after = DAMAGES[name](rng, lines_of(rng))
        path = tmp_path / f"20181215-1003{number:02}000.csv"
        path.write_bytes(b"".join([*before, touched, *after]))
        try:
            found, bad = read(path, tmp_path / f"out{number}")
        except Refused as error:
            assert path.name in str(error) and len(str(error)) > 40
            refused += 1
            continue
        good, may = Counter(parsed(b"".join(before)) + parsed(b"".join(after))), Counter(parsed(touched) + parsed(touched + b"".join(after)))
        strange, lost = Counter(found) - good - may, good - Counter(found)
        assert not strange, f"{name} {number}: rows that nobody wrote: {strange}"
        assert sum(lost.values()) <= (bad if name == "a flipped bit" else 0), f"{name} {number}: lost by damage elsewhere: {lost}, {bad} rows named"
        assert bad == 1 if name in NAMED else sum(divmod(bad, 100)) <= 2, f"{name} {number}: {bad} rows named"
        bad_rows += sum(divmod(bad, 100))
    least, most = (8, 8) if name in REFUSED else (0, 0) if name in NAMED else (0, MOST_REFUSED.get(name, 3))
    assert least <= refused <= most, f"{name}: {refused} of 8 files refused, from {least} to {most} were expected"
    record_property("looked at", f"8 files with {name}: {refused} refused, {bad_rows} rows named")


@pytest.mark.parametrize("damage", ["cut", "rubbish behind", "a flipped byte", "no gzip", "empty"])
def test_a_damaged_gzip_file_is_refused_by_name_and_one_that_is_whole_is_read(tmp_path, damage):
    rng = random.Random(f"{seed_of('HISTORY_SEED')} {damage}")
    for number in range(6):
        lines = lines_of(rng, 200)
        whole = gzip.compress(b"".join(lines))
        at = rng.randrange(20, len(whole) - 9)
        content = {
            "cut": whole[:at],
            "rubbish behind": whole + b"rubbish",
            "a flipped byte": whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :],
            "no gzip": b"".join(lines),
            "empty": b"",
        }[damage]
        path = tmp_path / f"20181215-1003{number:02}000.csv.gz"
        path.write_bytes(content)
        if damage in ("no gzip", "empty"):  # a name is not a proof: rows that are not compressed are rows
            assert read(path, tmp_path / f"out{number}") == ([] if damage == "empty" else parsed(b"".join(lines)), 0)
        else:
            with pytest.raises(Refused, match=path.name):
                read(path, tmp_path / f"out{number}")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp037"])
def test_a_file_in_another_encoding_is_refused_or_all_its_rows_are_named(tmp_path, encoding):
    path = tmp_path / "20181215-100301000.csv"
    path.write_bytes(b"".join(lines_of(random.Random(1))).decode().encode(encoding, "replace"))
    try:
        found, bad = read(path, tmp_path / "out")
    except Refused as error:
        assert path.name in str(error)
    else:
        assert not found and bad > 0


@pytest.mark.test
@pytest.mark.parametrize("bad_rows", ["stop", "aside"])
def test_damaged_files_of_many_tables_cost_no_other_table_and_no_other_file_anything(spark, tmp_path, bad_rows):
    rng, applied, refused = random.Random(seed_of("HISTORY_SEED")), set(), set()
    for number, name in enumerate(["a flipped bit", "cut", "an open quote", "a row of another table", "a zero byte", "a huge price"]):
        world = World(tmp_path, spark, dict(COLUMNS), f"shop.t{number}").set(key="id", columns=COLUMNS, bad_rows=bad_rows)
        world.raw.mkdir(parents=True)
        (world.raw / "LOAD00000001.csv").write_text("1001,first,1.00\n1002,second,2.00\n")
        before, touched, after = DAMAGES[name](rng, [row for row in lines_of(rng)])
        (world.raw / f"{closed(1)}.csv").write_bytes(b"".join([*before, touched, *after]))
        (world.raw / f"{closed(2)}.csv").write_text("U,1001,later,1.50\n")
        done = world.go()
        assert done.verdict in ("ok", "refused", "attention"), (name, done.words)
        if done.verdict == "refused":
            assert bad_rows == "stop" and f"{closed(1)}.csv" in done.words, (name, done.words)
            refused.add(name)
        found = {key: (text, price) for key, text, price in world.lake("id, name, price")}
        if done.verdict != "refused":
            assert found[1001] == ("later", Decimal("1.50")) and found[1002] == ("second", Decimal("2.00")), name
            kept = {key: (text, price) for op, key, text, price in parsed(b"".join(before)) if op != "D"}
            others = {key for _, key, _, _ in parsed(touched) + parsed(touched + b"".join(after))} | {77}
            there = {key: row for key, row in found.items() if key in kept and key not in others}
            wanted = {key: row for key, row in kept.items() if key not in others}
            assert there == wanted or not there and "quarantined" in done.words, (name, done.words)  # some damage makes the whole file unreadable
            if there == wanted:
                applied.add(name)
        else:
            assert found == {1001: ("first", Decimal("1.00")), 1002: ("second", Decimal("2.00"))}, name
    named = {"a row of another table", "a huge price"}
    assert applied >= {"a zero byte", *named} if bad_rows == "aside" else refused >= {"an open quote", *named}


def test_numbers_of_any_length_are_those_of_python_or_named(record_property):
    rng, fit = random.Random(seed_of("HISTORY_SEED")), 0

    def digits(most: int) -> str:
        return "".join(rng.choices("0123456789", k=rng.randint(1, most))) if rng.random() < 0.8 else rng.choice("019") * rng.randint(1, most)

    texts = [
        rng.choice(["", "-", "+"])
        + digits(80)
        + rng.choice(["", "." + digits(6), "." + "0" * rng.randint(0, 50)])
        + rng.choice(["", "", f"e{rng.randint(-50, 50)}"])
        for _ in range(4_000)
    ]
    texts += (
        [rng.choice(["", "-"]) + digits(9) + rng.choice(["", "." + digits(3)]) for _ in range(2_000)]
        + ["9" * n for n in range(1, 90)]
        + ["1" + "0" * n for n in range(600)]
    )
    for kind, whole, scale in (("decimal(38,0)", 38, 0), ("decimal(38,10)", 28, 10), ("decimal(10,2)", 8, 2), ("decimal(1,0)", 1, 0)):
        values, misfits = parse_values(pa.array([text.encode() for text in texts]), kind)
        for text, value, misfit in zip(texts, values.to_pylist(), misfits.to_pylist()):
            number = Fraction(text)
            fits = (number * 10**scale).denominator == 1 and abs(number) < 10**whole
            assert misfit == (not fits) and (value is None if misfit else Fraction(value) == number), (kind, text, value)
            fit += fits
    record_property("looked at", f"{len(texts)} numbers in four types, {fit} fit")
    assert fit > 2_000
