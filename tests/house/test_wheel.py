"""What `pip install dmscdc` asks for, and that it goes in beside Airflow, dlt and Glue as they are pinned."""
from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from email.parser import Parser
from pathlib import Path

import pytest

HOME, PINS = Path(__file__).parents[2], Path(__file__).parent / "pins"
THEIRS = ("pyspark", "boto3", "pyarrow")  # who runs us has them already
PINNED = ("airflow-3.0", "glue-5.1")  # files of pins


@pytest.fixture(scope="module")
def needs(wheel) -> dict[str, list[str]]:
    "Requirements by extra; those of the package itself under an empty name."
    with zipfile.ZipFile(wheel) as zip:
        [name] = [name for name in zip.namelist() if name.endswith(".dist-info/METADATA")]
        said = Parser().parsestr(zip.read(name).decode()).get_all("Requires-Dist")
    found: dict[str, list[str]] = {}
    for line in said:
        extra = re.search(r"extra == [\"'](\w+)[\"']", line)
        found.setdefault(extra[1] if extra else "", []).append(line.partition(";")[0].strip())
    return found


def resolve(*lines: str) -> subprocess.CompletedProcess:
    "What would be installed for these requirements on Python 3.11 on the day of constraints.txt, by metadata alone."
    day = re.search(r"index was on (\S+)\.", (HOME / "constraints.txt").read_text())[1]
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--python-version", "3.11", "--exclude-newer", day, "--no-header", "--no-annotate", "--quiet"]
    return subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def registry() -> None:
    "A package index that answers."
    pytest.importorskip("uv", reason="no resolver: pip install uv")
    try:
        asked = resolve("cronsim>=2.5")
    except subprocess.TimeoutExpired:
        pytest.skip("no package index within reach: it did not answer within a minute")
    if asked.returncode:
        pytest.skip(f"no package index within reach: {asked.stderr.strip().splitlines()[-1]}")


def installed(done: subprocess.CompletedProcess) -> dict[str, str]:
    "Versions by package of a resolution that has worked."
    assert done.returncode == 0, done.stderr
    return dict(line.lower().split("==") for line in done.stdout.splitlines() if "==" in line)


def test_a_version_that_is_newer_than_the_constraints_is_not_resolved(registry):
    pinned = {tuple(line.split(" ")[0].split("==")) for line in (HOME / "constraints.txt").read_text().splitlines() if "==" in line}
    assert set(installed(resolve("boto3", "typer", "jinja2")).items()) <= pinned


def pins(name: str) -> list[str]:
    return [line for line in (PINS / f"{name}.txt").read_text().splitlines() if line and line[0] != "#"]


@pytest.fixture(scope="module")
def beside(wheel, registry) -> dict[str, subprocess.CompletedProcess]:
    "Resolutions beside the others, all asked for at the same time."
    extras = {name: "aws,notebooks,stream" if name.startswith("airflow") else "aws,notebooks,source,stream" for name in PINNED}  # Airflow pins SQLAlchemy 1.4
    asked = {name: [*pins(name), f"dmscdc[{extras[name]}] @ {wheel.as_uri()}"] for name in PINNED}
    asked["glue-5.0"] = [*pins("glue-5.0"), f"dmscdc[aws] @ {wheel.as_uri()}"]
    asked["dlt"] = ["dlt", f"dmscdc[all] @ {wheel.as_uri()}"]
    asked["pyarrow 10"] = ["pyarrow==10.0.0", f"dmscdc @ {wheel.as_uri()}"]
    with ThreadPoolExecutor() as pool:
        return dict(zip(asked, pool.map(lambda lines: resolve(*lines), asked.values())))


def names(lines: list[str]) -> set[str]:
    return {re.split(r"[\s\[<>=!~]", line)[0] for line in lines}


def test_the_package_alone_asks_for_little_and_for_no_spark_and_no_aws(needs):
    assert names(needs[""]) == {"typer", "rich", "cronsim", "jinja2", "markupsafe", "pyarrow", "numpy", "tomli", "sqlglot"}
    assert set(needs) - {"", "dev"} == {"local", "notebooks", "aws", "stream", "source", "all"}


def test_what_others_pin_has_a_lower_bound_only_except_for_the_spark_of_a_laptop(needs):
    for extra, lines in needs.items():
        for line in lines:
            if extra not in ("local", "all", "dev") and re.split(r"[\s\[<>=!~]", line)[0] in THEIRS:
                assert re.fullmatch(r"\w+>=[\d.]+", line.replace(" ", "")), f"{extra}: {line}"
    assert names(needs["local"]) == {"pyspark", "setuptools", "sqlalchemy"}  # the demo compares with its shop
    assert names(needs["all"]) == names([line for extra in ("local", "notebooks", "aws", "source") for line in needs[extra]])


@pytest.mark.parametrize("name", PINNED)
def test_it_goes_in_beside_what_they_pin_and_changes_none_of_it(beside, name):
    wanted = dict(line.lower().replace("_", "-").split("==") for line in pins(name))
    got = installed(beside[name])
    assert {name: got.get(name) for name in wanted} == wanted
    assert {"typer", "cronsim", "papermill", "boto3"} <= set(got)


def test_the_boto3_of_glue_5_0_cannot_put_under_a_condition_and_is_not_taken(beside):
    assert beside["glue-5.0"].returncode and "boto3>=1.35.69" in beside["glue-5.0"].stderr


def test_it_goes_in_beside_dlt_with_spark(beside):
    got = installed(beside["dlt"])
    assert got["dlt"] and got["pyspark"].startswith("4.1.")


def test_a_conflict_would_be_seen(beside):
    assert beside["pyarrow 10"].returncode and "pyarrow" in beside["pyarrow 10"].stderr
