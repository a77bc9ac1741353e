"""What Spark is given besides its own jars is fetched by check sum. A folder, or a server on this machine, stands for the Maven repository."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from dmscdc.errors import JarMissing
from dmscdc.lake.table import versions
from dmscdc.service.config import write_config
from dmscdc.spark.formats import spark_line
from dmscdc.spark.jars import Jar, fetched_jars, listed, with_jars
from dmscdc.storage.filesystem import OUR_JARS

pytestmark = pytest.mark.quick

CLI = Path(sys.executable).with_name("dmscdc")
PART = Jar(name="shop:part:1.0", size=9, sha256=hashlib.sha256(b"as listed").hexdigest())


def put(repository: Path, jar: Jar, content: bytes) -> Path:
    file = repository / jar.path
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return file


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    "A repository in a folder, and an empty cache."
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", (tmp_path / "maven").as_uri())
    monkeypatch.delenv("DMSCDC_JARS", raising=False)
    return tmp_path / "maven"


def kept(repository: Path) -> set[str]:
    return {path.name[17:] for path in repository.parent.glob("cache/dmscdc/jars/*.[jp]ar*")}


@pytest.mark.parametrize("content", [b"as lister", b"as listed, and more" * 1000, b"as", b""])
def test_a_jar_that_is_not_what_the_list_says_is_refused_and_not_kept(repository, content):
    put(repository, PART, content)
    with pytest.raises(JarMissing, match=f"shop:part:1.0 from .* its SHA-256 is .*{PART.sha256}"):
        fetched_jars([PART])
    assert kept(repository) == set()


def test_what_was_fetched_lies_in_a_folder_of_the_user_and_is_not_fetched_again(repository):
    put(repository, PART, b"as listed").chmod(0o644)
    [first] = fetched_jars([PART])
    (repository / PART.path).unlink()
    assert fetched_jars([PART]) == [first] and first.read_bytes() == b"as listed" and first.parent.stat().st_mode & 0o077 == 0


def test_a_kept_jar_that_was_changed_since_is_fetched_again(repository):
    put(repository, PART, b"as listed")
    [first] = fetched_jars([PART])
    first.write_bytes(b"as lister")
    assert fetched_jars([PART]) == [first] and first.read_bytes() == b"as listed"


@pytest.mark.parametrize(
    "spoil",
    [lambda at: at.chmod(0o777), lambda at: (at.rename(at.with_name("other")), at.symlink_to(at.with_name("other")))],
    ids=["of all", "a link"],
)
@pytest.mark.parametrize("which", ["dmscdc", "dmscdc/jars"])
def test_a_cache_into_which_others_can_write_is_not_used(repository, spoil, which):
    put(repository, PART, b"as listed")
    [first] = fetched_jars([PART])
    spoil(repository.parent / "cache" / which)
    [second] = fetched_jars([PART])
    assert second.parent != first.parent and second.read_bytes() == b"as listed" and second.parent.stat().st_mode & 0o077 == 0


def test_a_mirror_without_tls_is_asked_only_where_somebody_said_so(repository, monkeypatch):
    put(repository, PART, b"as listed")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(repository))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(JarMissing, match="over https.*DMSCDC_PLAIN_HTTP=allow"):
            fetched_jars([PART])
        monkeypatch.setenv("DMSCDC_PLAIN_HTTP", "allow")
        assert len(fetched_jars([PART])) == 1
        server.shutdown()


def test_spark_gets_files_beside_those_of_the_user_and_none_that_it_has(repository, tmp_path):
    name = "io.delta:delta-spark_2.12:3.3.2"
    (tmp_path / "spark/jars").mkdir(parents=True)
    with pytest.raises(JarMissing, match="io.delta:delta-"):
        with_jars({OUR_JARS: name}, tmp_path / "spark")
    (tmp_path / "spark/jars/delta-spark_2.12-3.3.0.jar").touch()
    assert with_jars({OUR_JARS: name, "spark.jars": "/mine.jar"}, tmp_path / "spark") == {"spark.jars": "/mine.jar"}


def test_nothing_that_the_list_names_is_fetched_in_two_versions_or_comes_with_netty():
    for asked, jars in listed().items():
        names = [jar.name.rpartition(":")[0] for jar in jars]
        assert asked in [jar.name for jar in jars] and len(names) == len(set(names))
        assert not [name for name in names if name.startswith(("io.netty:", "org.slf4j:", "org.apache.spark:"))]


def test_a_table_whose_jars_are_not_the_listed_ones_fails_before_java_starts(repository, tmp_path):
    (wanted,) = listed()["org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"]
    put(repository, wanted, b"somebody else's")
    (tmp_path / "landing/shop/product").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "landing/shop/product/LOAD00000001.parquet")
    write_config(tmp_path, landing="landing", lake="lake", quiet_period=0, format="iceberg")
    assert subprocess.run([CLI, "table", "set", "shop.product", "--key", "id"], cwd=tmp_path).returncode == 0
    done = subprocess.run(
        [CLI, "pass"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "JAVA_HOME": "/nowhere", "DMSCDC_SMALL_BYTES": "0"},
    )
    assert done.stdout == "1 table: 1 failed\n" and f"shop.product: failed, JarMissing: {wanted.name} from file:" in done.stderr, done


def test_a_spark_of_which_no_package_index_knows_is_named_by_itself(monkeypatch):  # as that of Glue and EMR
    def unknown(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setattr("dmscdc.spark.formats.version", unknown)
    assert (spark_line(), versions()["pyspark"]) == (".".join(pyspark.__version__.split(".")[:2]), pyspark.__version__)
