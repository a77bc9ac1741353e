"""README and pages promise nothing that is not there: every command, flag, target and file that they name exists."""

from __future__ import annotations

import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from dmscdc.cli.main import app
from dmscdc.errors import UnsupportedStore
from dmscdc.landing.files import TableRef
from dmscdc.spark.formats import FORMATS

pytestmark = pytest.mark.quick

HOME = Path(__file__).parents[2]
PAGES = {path: path.read_text(encoding="utf-8") for path in [HOME / "README.md", *sorted((HOME / "notebooks" / "pages").glob("*.md"))]}
README, TEXT = PAGES[HOME / "README.md"], "\n".join(PAGES.values())
ROOT = typer.main.get_command(app)  # of click's kind, which some typers bring themselves: so we ask what it has, not what it is


def codes() -> list[str]:
    "Lines of shell blocks without their comments, what a comment offers instead (`or: …`), and everything between backticks."
    fence = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
    lines = [line for block in fence.findall(TEXT) for line in block.splitlines()]
    typed = [line.split("#")[0].strip() for line in lines] + [found for line in lines for found in re.findall(r"# or: (.*)", line)]
    return [code for code in [*typed, *re.findall(r"`([^`\n]+)`", fence.sub("", TEXT))] if code]


def commands() -> list[str]:
    return sorted({code for code in codes() if code.startswith("dmscdc ")})


def options(command: Any) -> set[str]:
    "Long flags of a command, the second names of switches too."
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("--")} | {"--help"}


def walked(words: list[str]) -> tuple[Any, list[str]]:
    "The command that words name, and what is left of them. Fails where there is none."
    command = ROOT
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"`dmscdc {words[0]}`: known are {', '.join(sorted(command.commands))}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


def every_command(group: Any = ROOT, above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    "Paths of all commands of the app."
    found = set()
    for name, one in group.commands.items():
        found |= every_command(one, (*above, name)) if hasattr(one, "commands") else {(*above, name)}
    return found


def table_of_commands() -> list[tuple[str, ...]]:
    "What the table of commands names; words behind a comma go on from the first word's group: `table list`, `set`."
    section = PAGES[HOME / "notebooks/pages/commands.md"]
    found = []
    for cell in re.findall(r"^\| (`dmscdc .*?) \|", section, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", cell)
        path = tuple(word for word in first.removeprefix("dmscdc ").split() if re.fullmatch("[a-z][a-z-]*", word))
        path = path[: 2 if path[0] in ("table", "runs", "quarantine", "maintain") else 1]
        found += [path, *((*path[:-1], other.split()[0]) for other in others)]
    return found


def table_of_formats() -> list[str]:
    "What each format can do, as its class says, and the Sparks on which `make proof` tries it."
    lanes = re.search(r"^LAKES *:= (.*)$", (HOME / "Makefile").read_text(), re.MULTILINE)[1]
    tried = {tuple(lane.split("/")) for lane in lanes.split()} | {("4.1", "parquet")}
    lines = ["| format | Spark, and what it fetches | earlier commits | takes over old files | lake in a bucket |", "|---|---|---|---|---|"]
    for name, one in FORMATS.items():
        sparks = [f"{line}{f' (`{one.parts[line]}`)' if one.parts else ''}" for line in ("4.1", "3.5") if (line, name) in tried]
        table = pkgutil.resolve_name(one.target)
        try:
            in_bucket = bool(table("s3://bucket/lake", TableRef("shop", "item"))) and "yes"
        except UnsupportedStore:
            in_bucket = bool(table("s3://bucket/lake", TableRef("shop", "item"), catalog="glue:lake")) and "in Glue"
        can = ["read by Spark" if table.can_time_travel else "told from raw files", "yes" if table.can_migrate else "no", in_bucket]
        lines.append(f"| {name} | {', '.join(sparks)} | {' | '.join(can)} |")
    return lines


def test_the_table_of_formats_says_what_they_can_do_and_where_they_are_tried(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert "\n".join(table_of_formats()) in TEXT


@pytest.mark.parametrize("code", commands())
def test_every_command_of_the_readme_is_known_with_its_flags(code):
    command, left = walked(shlex.split(code.replace("[", "").replace("]", ""))[1:])
    flags = [word.split("=")[0] for word in left if word.startswith("--")]
    assert set(flags) <= options(command), f"{code}: known are {sorted(options(command))}"
    taken = [one for one in command.params if one.param_type_name == "argument"]
    assert taken or not left or left[0].startswith("-"), f"{code}: {command.name} takes no argument"


def test_the_table_of_commands_is_the_app():
    assert set(table_of_commands()) == every_command() and len(table_of_commands()) == len(every_command())


def test_every_flag_in_prose_belongs_to_some_command():
    known = set().union(*(options(walked(list(path))[0]) for path in every_command()), options(ROOT))
    named = {word for code in codes() for word in re.findall(r"(?<!\S)--[a-z][a-z-]*", code) if not code.startswith(("apt-get", "pip", "make"))}
    assert named and named <= known, sorted(named - known)


def test_every_make_target_of_the_readme_is_in_the_makefile():
    made = set(re.findall(r"^([a-z]+):", (HOME / "Makefile").read_text(), re.MULTILINE))
    named = {target for code in codes() for target in re.findall(r"^make ([a-z]+)", code)}
    assert {"demo", "test"} <= named <= made, sorted(named - made)
    assert made >= set(re.search(r"^\.PHONY: (.*)$", (HOME / "Makefile").read_text(), re.MULTILINE)[1].split())


def test_the_notebooks_of_the_main_job_are_linked_in_the_order_of_their_numbers():
    path = TEXT[TEXT.index("Twelve notebooks explain") :].split("\n#")[0]
    numbers = re.findall(r"\]\(\.\./(\d\d_\S+)\.ipynb\)", path)
    assert len(numbers) == 11 and numbers == sorted(numbers)


def test_every_file_and_notebook_of_the_pages_is_there():
    for page, text in PAGES.items():
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            assert not link.startswith(("http", "/")) and (page.parent / link).exists(), f"{page.name}: {link}"
    for name in re.findall(r"`(?:\d\d_[a-z0-9_]+/)+\d\d_[a-z0-9_]+`|`explore/[a-z_]+`", TEXT):
        assert (HOME / "notebooks" / f"{name.strip('`')}.ipynb").is_file(), name
    files = {code for code in codes() if re.fullmatch(r"(bench|tests|notebooks|runs)/[a-z_./]+|[a-z]+\.(txt|ini|md)", code)}
    assert len(files) >= 4 and all((HOME / name).exists() for name in files), sorted(files)


def test_the_readme_is_read_in_three_minutes():
    assert len(README.split()) < 1_000


def test_the_readme_is_what_its_notebook_says(tmp_path):
    jupyter = Path(sys.executable).parent / "jupyter"
    make = [
        jupyter,
        "nbconvert",
        "--to",
        "markdown",
        "--log-level=ERROR",
        "--output-dir",
        tmp_path,
        "--output",
        "README",
        HOME / "notebooks/index.ipynb",
    ]
    subprocess.run(make, check=True, capture_output=True, timeout=120)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == README, "run make readme"


def test_the_example_is_whole_small_and_from_no_machine():
    example = HOME / "runs" / "example"
    files = [path for path in example.rglob("*") if path.is_file() and path.suffix != ".py"]
    assert sum(path.stat().st_size for path in files) < 650_000 and {path.suffix for path in files} == {".ipynb", ".html", ".jsonl", ".png"}
    for path in files:
        text = path.read_text(encoding="utf-8") if path.suffix != ".png" else ""
        found = re.search(r"(?<![\w.:/<])/(home|root|tmp|work|Users|var|private|opt|usr)/\w|sc://|token=|127\.0\.0\.1", text)
        assert not found, f"{path.name} holds {found[0]}"
    for page in example.rglob("*.html"):
        links = re.findall(r'href="([^"#]+)"', page.read_text(encoding="utf-8"))
        assert links and all(link.startswith("data:text/csv") or (page.parent / link).is_file() for link in links), page.name


def test_torture_has_a_part_for_every_test_that_continuous_integration_leaves_out():
    import torture

    asked = " ".join(word for words in torture.PARTS.values() for word in words)
    left_out = {
        path.relative_to(HOME).as_posix()
        for path in (HOME / "tests").glob("*/*.py")
        if "mark.torture" in path.read_text() or "sampled(" in path.read_text()
    }
    assert len(left_out) > 30 and not [path for path in left_out if path not in asked and path.rpartition("/")[0] not in asked.split()]
    assert {f"lakes/{name}" for name in re.search(r"^LAKES *:= (.*)$", (HOME / "Makefile").read_text(), re.MULTILINE)[1].split()} <= {*torture.ALL}
    assert all(f"\n{part} " in torture.table() for part in torture.ALL)
