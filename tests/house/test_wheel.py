"""What `pip install dmscdc` asks for, and that it goes in beside Airflow and Glue as they are pinned."""

from __future__ import annotations

import re
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.proof

PINS = Path(__file__).parent / "pins"
THEIRS = ("pyspark", "boto3", "pyarrow")  # who runs us has them already


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


def pins(name: str) -> list[str]:
    return [line for line in (PINS / f"{name}.txt").read_text().splitlines() if line and line[0] != "#"]


def names(lines: list[str]) -> set[str]:
    return {re.split(r"[\s\[<>=!~]", line)[0] for line in lines}


def test_the_package_alone_asks_for_little_and_for_no_spark_and_no_aws(needs):
    assert names(needs[""]) == {"typer", "rich", "cronsim", "jinja2", "markupsafe", "pyarrow", "numpy", "sqlglot"}
    assert set(needs) - {"", "dev"} == {"local", "runs", "lab", "notebooks", "aws", "stream", "lineage", "delta", "iceberg", "hudi", "source", "all"}


def test_what_others_pin_has_a_lower_bound_only_except_for_the_spark_of_a_laptop(needs):
    for extra, lines in needs.items():
        for line in lines:
            if extra not in ("local", "all", "dev") and re.split(r"[\s\[<>=!~]", line)[0] in THEIRS:
                assert re.fullmatch(r"\w+>=[\d.]+", line.replace(" ", "")), f"{extra}: {line}"
    assert names(needs["local"]) == {"pyspark", "setuptools", "sqlalchemy"}  # the demo compares with its shop
    assert names(needs["all"]) == names(
        [line for extra in ("local", "notebooks", "aws", "stream", "lineage", "delta", "iceberg", "hudi", "source") for line in needs[extra]]
    )


def conflicts(needs: dict[str, list[str]], extras: str, name: str) -> list[str]:
    "Requirements of ours that what they pin does not meet. Read from the files alone: what an index holds today decides nothing."
    pinned = {canonicalize_name(one): version for one, version in (line.split("==") for line in pins(name))}
    asked = [Requirement(line) for extra in ("", *extras.split(",")) for line in needs[extra]]
    return [str(one) for one in asked if canonicalize_name(one.name) in pinned and not one.specifier.contains(pinned[canonicalize_name(one.name)])]


@pytest.mark.parametrize(
    "name, extras", [("airflow-3.0", "aws,notebooks,stream"), ("glue-5.1", "aws,runs,source,stream")]
)  # Airflow pins SQLAlchemy 1.4
def test_it_goes_in_beside_what_they_pin(needs, name, extras):
    assert conflicts(needs, extras, name) == []


def test_the_boto3_of_glue_5_0_cannot_put_under_a_condition_and_is_not_taken(needs):
    assert conflicts(needs, "aws", "glue-5.0") == ["boto3>=1.35.69"]
