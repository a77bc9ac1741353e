"""Where Spark finds the jars that it fetches, whatever a machine's user has in `~/.m2`. A repository in a folder stands for Maven Central."""
from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dmscdc.spark.server import spark_home
from dmscdc.storage.filesystem import ivy_settings, s3a

pytestmark = pytest.mark.proof

COORDINATES = {"wanted": ("shop", "wanted", "1"), "logging": ("commons-logging", "commons-logging", "1.2")}


def element(**parts: str) -> str: return "".join(f"<{name}>{text}</{name}>" for name, text in parts.items())


def put(repository: Path, group: str, artifact: str, version: str, needs: str = "", jar: bool = True) -> None:
    "A description, and the jar unless Maven had no need of it."
    folder = repository / group.replace(".", "/") / artifact / version
    folder.mkdir(parents=True)
    text = element(modelVersion="4.0.0", groupId=group, artifactId=artifact, version=version, dependencies=needs)
    (folder / f"{artifact}-{version}.pom").write_text(f'<project xmlns="http://maven.apache.org/POM/4.0.0">{text}</project>')
    if jar: zipfile.ZipFile(folder / f"{artifact}-{version}.jar", "w").close()


@pytest.fixture
def machine(tmp_path) -> Path:
    "A home whose Maven holds a description without its jar, beside a repository that holds both."
    group, artifact, version = COORDINATES["logging"]
    needs = element(dependency=element(groupId=group, artifactId=artifact, version=version))
    put(tmp_path / "central", *COORDINATES["wanted"], needs)
    put(tmp_path / "central", *COORDINATES["logging"])
    put(tmp_path / "home/.m2/repository", *COORDINATES["logging"], jar=False)
    (tmp_path / "program.py").write_text("print('it runs')")
    return tmp_path


def env_of(machine: Path) -> dict[str, str]:
    "Java takes its home from the password file, unless it is told another."
    return {**os.environ, "JAVA_TOOL_OPTIONS": f"-Duser.home={machine / 'home'}", "DEFAULT_ARTIFACT_REPOSITORY": f"{(machine / 'central').as_uri()}/"}


def submit(machine: Path, conf: dict[str, str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    "A program that needs a part, with that home."
    conf = {"spark.jars.packages": ":".join(COORDINATES["wanted"]), **conf}
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [spark_home() / "bin/spark-submit", "--master", "local[1]", *options, machine / "program.py"]
    return subprocess.run(command, env=env or env_of(machine), capture_output=True, text=True, timeout=300)


@pytest.mark.torture
def test_a_description_without_its_jar_in_the_users_maven_repository_stops_nothing(machine):
    by_default = submit(machine, {})
    assert by_default.returncode and "download failed: commons-logging" in by_default.stderr, "Spark's own list is no trap any more: this can be simplified"
    ours = submit(machine, ivy_settings(spark_home()))  # Ivy's cache has kept by now what it believed
    assert ours.returncode == 0 and ours.stdout.endswith("it runs\n"), ours.stderr


def test_without_a_mirror_maven_central_is_asked_and_what_cannot_be_fetched_is_said(machine):
    nowhere = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"  # nothing leaves this machine
    env = {**env_of(machine), "JAVA_TOOL_OPTIONS": f"-Duser.home={machine / 'home'} {nowhere}"}
    del env["DEFAULT_ARTIFACT_REPOSITORY"]
    done = submit(machine, ivy_settings(spark_home()), env)
    assert done.returncode and "unresolved dependency: shop#wanted;1: not found" in done.stderr
    assert "https://repo1.maven.org/maven2/shop/wanted/1/wanted-1.pom" in done.stderr


def test_a_session_fetches_its_parts_and_says_nothing_where_answers_are_printed(machine):
    code = "import sys; from dmscdc.spark.session import open_session; open_session('jars', master='local[1]', conf=dict(a.split('=') for a in sys.argv[1:])); print('{}')"
    conf = {"spark.jars.packages": ":".join(COORDINATES["wanted"]), **ivy_settings(spark_home())}
    done = subprocess.run([sys.executable, "-c", code, *(f"{name}={value}" for name, value in conf.items())], env=env_of(machine), capture_output=True, text=True, timeout=300)
    assert done.stdout == "{}\n" and list(machine.glob("home/.ivy2*/jars/shop_wanted-1.jar")), done.stderr


def test_a_spark_for_buckets_gets_these_settings(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"): monkeypatch.setenv(name, "x")
    with s3a(["s3://shop-landing"], spark_home()) as settings:
        assert "hadoop-aws" in settings["spark.jars.packages"]
        assert ivy_settings(spark_home()).items() <= settings.items() and settings["spark.jars.ivySettings"].endswith("ivy.xml")
