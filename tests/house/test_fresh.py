"""What a machine brings decides nothing: versions are pinned, the home is empty, a missing part is red where nobody looks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from shutil import copy

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.proof

HOME = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13")


def wanted() -> set[str]:
    "Every requirement of settings.ini."
    ini = ConfigParser(delimiters=["="], interpolation=None)
    ini.read(HOME / "settings.ini", encoding="utf-8")
    return {word for name, words in ini["DEFAULT"].items() if name.endswith("requirements") for word in words.split()}


def pinned(python: str) -> dict[str, str]:
    "Versions by package on Linux."
    here = {"python_version": python, "python_full_version": f"{python}.5", "sys_platform": "linux", "os_name": "posix", "platform_system": "Linux"}
    lines = [Requirement(line) for line in (HOME / "constraints.txt").read_text().splitlines() if line[0] != "#"]
    lines = [line for line in lines if line.marker is None or line.marker.evaluate(here)]
    assert len({line.name for line in lines}) == len(lines) and all(str(line.specifier).startswith("==") for line in lines)
    return {canonicalize_name(line.name): str(line.specifier)[2:] for line in lines}


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_pinned_at_a_version_that_it_allows(python):
    pins, every = pinned(python), [Requirement(word) for word in wanted()]
    every = [one for one in every if one.marker is None or one.marker.evaluate({"python_version": python})]
    wrong = [str(one) for one in every if not one.specifier.contains(pins.get(canonicalize_name(one.name), "0"), prereleases=True)]
    assert len(every) > 25 and not wrong, f"{wrong}: run make constraints"
    assert {"pip", "setuptools", "wheel"} <= set(pins)


def type_fresh(*words: str, **env: str) -> str:
    done = subprocess.run([HOME / ".ci/fresh", *words], env={**os.environ, **env}, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_fresh_home_is_empty_for_java_too_and_goes_afterwards(tmp_path):
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2/settings.xml").write_text("<settings/>")
    (tmp_path / ".aws").mkdir()
    options = {
        "CI": "true",
        "JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost=proxy",
        "https_proxy": "http://proxy",
        "SPARK_HOME": "/opt/spark",
        "AWS_PROFILE": "mine",
    }
    said = type_fresh("sh", "-c", "env; cd; echo files $(find . -type f)", **options, HOME=str(tmp_path))
    seen = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    assert "files ./.m2/settings.xml\n" in said and not Path(seen["HOME"]).exists() and seen["HOME"] != str(tmp_path)
    assert seen["JAVA_TOOL_OPTIONS"] == f"-Dhttps.proxyHost=proxy -Duser.home={seen['HOME']}" and seen["https_proxy"] == "http://proxy"
    assert not {"SPARK_HOME", "AWS_PROFILE", "VIRTUAL_ENV", "PYTHONPATH"} & set(seen)
    assert seen["CI"] == "true" and Path(seen["PIP_CACHE_DIR"]).is_absolute() and Path(seen["PYTHON"]).name.startswith("python")


def test_a_command_that_fails_in_a_fresh_home_fails():
    assert subprocess.run([HOME / ".ci/fresh", "false"]).returncode == 1


SKIPS = """
import pytest
pytestmark = pytest.mark.quick
def test_part(): pytest.skip("chromium is not installed: apt-get install chromium")
@pytest.mark.skipif(True, reason="maven is not installed")
def test_another(): pass
def test_root(): pytest.skip("not allowed here: mounting a file system")
@pytest.mark.xfail
def test_known(): assert False
"""


@pytest.mark.parametrize("ci, outcome", [("", "3 skipped, 1 xfailed"), ("true", "1 failed, 1 skipped, 1 xfailed, 1 error")])
def test_a_missing_part_is_red_in_ci_and_named_elsewhere(tmp_path, ci, outcome):
    (tmp_path / "test_it.py").write_text(SKIPS)
    env = {**os.environ, "CI": ci, "PYTHONPATH": str(HOME / "tests")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rsf",
        "-W",
        "ignore",
        "--noconftest",
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tmp_path,
        tmp_path,
    ]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert outcome in done.stdout and done.returncode == bool(ci), done.stdout
    assert "chromium is not installed: apt-get install chromium" in done.stdout


def test_ci_and_make_fresh_run_with_an_empty_home_where_a_skip_is_red():
    assert "\nCI=true .ci/fresh make ci || failed=1\n" in (HOME / ".ci/run").read_text()
    said = subprocess.run(["make", "--no-print-directory", "--dry-run", "fresh"], cwd=HOME, capture_output=True, text=True, check=True).stdout
    assert " && .ci/fresh make -C " in said and said.endswith(" ci\n")


def test_asking_for_help_starts_nothing_and_another_word_is_refused():
    asked = {
        word: subprocess.run([HOME / ".ci/run", word], env={"PATH": "/bin:/usr/bin"}, capture_output=True, text=True) for word in ("--help", "quick")
    }
    assert {word: done.returncode for word, done in asked.items()} == {"--help": 0, "quick": 2}
    assert all(done.stdout.startswith("What continuous integration runs") and not done.stderr for done in asked.values())


def test_make_installs_what_the_constraints_say():
    said = subprocess.run(["make", "--dry-run", "--always-make", "env"], cwd=HOME, capture_output=True, text=True, check=True).stdout
    installs = [line for line in said.splitlines() if "-m pip install" in line]
    assert (
        len(installs) == 3  # pip itself, what a user has, what tests need
        and all(" --constraint constraints.txt" in line for line in installs)
        and all(" --build-constraint constraints.txt" in line for line in installs[1:])
    )


def test_what_is_drawn_at_random_is_the_same_in_every_run():
    import hypothesis

    import seeds

    assert hypothesis.settings().derandomize == seeds.IS_FIXED and (hypothesis.settings().database is None) == seeds.IS_FIXED


def test_reasons_of_skips_are_printed():
    assert " -rs " in (HOME / "pyproject.toml").read_text()


def told_by(target: str) -> list[str]:
    "The lines that make would have run."
    return subprocess.run(["make", "--dry-run", target], cwd=HOME, capture_output=True, text=True, check=True).stdout.splitlines()


def folders_of(lines: list[str], tier: str) -> list[str]:
    "The folders of tests in which a tier is run."
    return sorted(word for line in lines if f"--tier {tier} " in line for word in re.findall(r"tests/(\w+)", line))


@pytest.mark.quick
def test_each_tier_is_run_in_every_folder_that_has_it_and_every_package_of_rooms_once():
    said = told_by("ci")
    for tier in ("quick", "test", "proof"):
        folders = folders_of(said, tier)
        having = {path.parent.name for path in (HOME / "tests").glob("*/*.py") if f"mark.{tier}" in path.read_text()}
        assert len(having) > 5 and having <= {*folders} and len({*folders}) == len(folders), tier
        assert folders == folders_of(told_by(tier), tier)
    packages = [path.name for path in sorted((HOME / "notebooks").glob("[0-9][0-9]_*")) if path.is_dir()]
    asked = [word for line in said if " tests/rooms.py " in line for word in line.split() if word.startswith("notebooks/")]
    assert len(packages) > 10 and sorted(asked) == [f"notebooks/{name}" for name in ("00_errors.ipynb", *packages, "guide", "shapes.ipynb")]


def test_the_mark_nearest_to_a_test_says_its_tier_and_one_without_is_an_error(tmp_path):
    (tmp_path / "test_it.py").write_text("""
import pytest
from tiers import sampled
pytestmark = pytest.mark.test
def test_a(): pass
@pytest.mark.quick
@pytest.mark.parametrize("n", sampled([1, 2], 1))
def test_b(n): pass
""")
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "conftest", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    env = {**os.environ, "PYTHONPATH": str(HOME / "tests")}
    ran = {
        tier: subprocess.run([*command, *words], env=env, cwd=tmp_path, capture_output=True, text=True).stdout
        for tier, words in {"": [], "torture": ["--tier", "torture"]}.items()
    }
    assert {tier: re.search(r"(\d+) passed", said)[1] for tier, said in ran.items()} == {"": "2", "torture": "1"}, ran
    (tmp_path / "test_it.py").write_text("def test_a(): pass")
    assert "test_it.py::test_a has no tier" in subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True).stderr


@pytest.mark.parametrize("part, room", [("rooms/04_spark", "04_spark/02_session"), ("rooms/07_lake", "07_lake/01_table")])
def test_a_part_of_the_tests_that_finds_no_room_is_red(part, room, tmp_path):
    for name in ("Makefile", "settings.ini", "setup.py", "pyproject.toml", "constraints.txt"):
        copy(HOME / name, tmp_path)
    for folder in ("tests", "notebooks/01_storage", f"notebooks/{room.split('/')[0]}"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".ci").mkdir(), copy(HOME / ".ci" / "timed", tmp_path / ".ci")
    copy(HOME / "tests" / "rooms.py", tmp_path / "tests")
    for name in ("01_storage/01_aws", room):
        copy(HOME / "notebooks" / "index.ipynb", tmp_path / "notebooks" / f"{name}.ipynb")
    made = ["BASE=.ci/timed", "STAMP=tests/rooms.py", f"BIN={Path(sys.executable).parent}"]  # files in the order in which they were copied
    asked = ["env", "-u", "TIMES", "make", "--no-print-directory", part, *made]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and f"{room}.ipynb: 0 cells" in done.stdout
    (tmp_path / "notebooks" / f"{room}.ipynb").unlink()
    alone = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)
    assert (
        alone.returncode == 2
        and "cells" not in alone.stdout
        and part in alone.stderr
        and f"no notebooks: notebooks/{room.split('/')[0]}" in alone.stderr
    )
