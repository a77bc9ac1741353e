"""The session in this process: what is stored with it, and what reaches its workers."""

import datetime
import json
import os
import subprocess
import sys
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dmscdc.changes.partition_runners import write_table
from dmscdc.errors import PythonMismatch
from dmscdc.spark.session import SESSION_SETTINGS, _has_package, check_python, package_zip

pytestmark = pytest.mark.test


@pytest.mark.compiled
def test_every_setting_of_ours_reaches_the_session(spark):
    named = {key: key if key.startswith("spark.") else f"spark.hadoop.{key}" for key in SESSION_SETTINGS}  # as spark-submit takes them
    assert {key: spark.conf.get(name) for key, name in named.items()} == SESSION_SETTINGS


def test_spark_reads_no_value_out_of_a_page_with_one_wrong_byte(spark, tmp_path):
    "Of our own files and of those that Spark writes; Snappy alone would give another name."
    rows = pa.table({"id": range(500), "name": [f"name {n * 7}" for n in range(500)]})
    write_table(rows, str(tmp_path / "ours" / "0.parquet"), {"id": "bigint", "name": "string"}, ("id",))
    spark.createDataFrame([(n, f"name {n * 7}") for n in range(500)], "id bigint, name string").coalesce(1).write.parquet(str(tmp_path / "sparks"))
    for path in (tmp_path / "ours" / "0.parquet", *(tmp_path / "sparks").glob("*.parquet")):
        sound, names = path.read_bytes(), pq.read_metadata(path).row_group(0).column(1)
        at = (names.dictionary_page_offset or names.data_page_offset) + names.total_compressed_size - 6
        (tmp_path / "wrong.parquet").write_bytes(sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :])
        assert pq.read_table(tmp_path / "wrong.parquet")["name"] != rows["name"], "who does not look takes another value"
        with pytest.raises(Exception, match="FAILED_READ_FILE"):
            spark.read.parquet(str(tmp_path / "wrong.parquet")).collect()


def test_a_timestamp_is_stored_as_utc_microseconds_and_never_as_int96(spark, tmp_path):
    spark.sql("SELECT timestamp '9999-12-31 23:59:59.123456' AS t").coalesce(1).write.parquet(str(tmp_path / "t"))
    [file] = (tmp_path / "t").glob("*.parquet")
    table = pq.read_table(file)
    assert str(table.schema.field("t").type) == "timestamp[us, tz=UTC]"
    assert table["t"][0].as_py() == datetime.datetime(9999, 12, 31, 23, 59, 59, 123456, datetime.timezone.utc)


def test_a_file_that_went_away_is_an_error(spark, tmp_path):
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "t"))
    [file] = (tmp_path / "t").glob("*.parquet")
    frame = spark.read.parquet(str(file))
    file.unlink()
    with pytest.raises(Exception, match="(?i)not.exist"):
        frame.collect()


def test_importing_the_session_starts_nothing_and_needs_no_spark():
    code = "import sys, dmscdc.spark.session; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_package_zip_is_named_after_its_content_and_imports(tmp_path):
    with zipfile.ZipFile(package_zip(tmp_path)) as file:
        file.extractall(tmp_path)
    code = "import sys, pathlib, dmscdc.spark.session as s; print(s.package_zip(pathlib.Path(sys.argv[1])).name, s.__file__)"
    said = [
        subprocess.run([sys.executable, "-c", code, tmp_path], cwd=cwd, capture_output=True, text=True, check=True).stdout for cwd in (tmp_path, "/")
    ]
    assert [words.split()[0] for words in said] == [package_zip(tmp_path).name] * 2
    assert said[0].split()[1].startswith(str(tmp_path)) and said[0] != said[1]


def test_a_server_that_tells_another_python_is_refused_in_words():
    class Session:  # all that the check asks of a session
        class conf:
            get = staticmethod(lambda key, default: "3.9")

    with pytest.raises(PythonMismatch, match=r"the workers run Python 3\.9.*PYSPARK_PYTHON"):
        check_python(Session)


def test_a_server_with_another_copy_of_the_package_is_refused_in_words():
    class Session:
        class conf:
            get = staticmethod(lambda key, default: "dmscdc 0.0.1 of /elsewhere/dmscdc")

    with pytest.raises(PythonMismatch, match=r"started with dmscdc 0\.0\.1 of /elsewhere/dmscdc, this is dmscdc"):
        _has_package(Session)


def test_what_spark_puts_down_lies_in_a_folder_of_its_own_and_goes_with_it(tmp_path):
    code = (
        "import json, os, sys; os.umask(0); from pathlib import Path; from dmscdc.spark.session import open_session; spark = open_session(master='local[1]', conf={'spark.driver.memory': '1g'}); "
        "spark.range(1000).repartition(3).count(); print(json.dumps({one.name: one.stat().st_mode & 0o777 for one in Path(sys.argv[1]).iterdir()}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=300, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert set(json.loads(done.stdout).values()) == {0o700}, done
    assert not [*tmp_path.iterdir()], "nothing is left"
