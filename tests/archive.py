"""Keeps what Spark's Java loads at its start in one file, so that every later start takes about half of the processor time: `python tests/archive.py FILE`.

Java calls it an archive of class data (`-XX:ArchiveClassesAtExit`, JDK 13 and later). One session is started that also serves Spark Connect, and
does a little of what the tests do. A Java that cannot write the archive leaves an empty file, with which Java starts as usual.
"""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
frame = spark.createDataFrame([(number, str(number % 7)) for number in range(100)], "id bigint, name string")
frame.write.mode("overwrite").partitionBy("name").parquet(sys.argv[2])
there = spark.read.parquet(sys.argv[2])
there.join(frame, "id").groupBy(frame["name"]).count().orderBy("name").collect()
there.mapInArrow(lambda batches: batches, "id bigint, name string").toPandas()
spark.sql("select id, row_number() over (partition by id % 3 order by id desc) as at from range(9)").collect()
"""


def start(folder: Path) -> None:
    "A session that Java takes note of, with a client of Spark Connect."
    from pyspark.sql import SparkSession

    from dmscdc.spark.server import plugin_port

    conf = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.connect.grpc.binding.port": "0", "spark.ui.enabled": "false"}
    builder = SparkSession.builder.master("local[2]").config(map=conf | {"spark.sql.warehouse.dir": folder.as_uri(), "spark.driver.bindAddress": "127.0.0.1"})
    spark = builder.getOrCreate()
    url = f"sc://127.0.0.1:{plugin_port(spark)}"
    subprocess.run([sys.executable, "-c", CLIENT, url, str(folder / "frame")], check=True, timeout=300)
    frame = spark.createDataFrame([(1, "a"), (2, None)], "id int, name string")
    frame.mapInArrow(lambda batches: batches, frame.schema).collect()
    spark.read.parquet(str(folder / "frame")).groupBy("name").count().toPandas()
    spark.stop()


def main(target: Path) -> None:
    "Writes the archive; says in one line what came out."
    with tempfile.TemporaryDirectory() as there:
        if os.environ.get("ARCHIVE"): return start(Path(there))
        made = Path(there) / "made.jsa"
        options = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -XX:ArchiveClassesAtExit={made} -Xlog:disable"
        done = subprocess.run([sys.executable, __file__, str(made)], env={**os.environ, "ARCHIVE": "1", "JAVA_TOOL_OPTIONS": options}, capture_output=True, text=True, timeout=600)
        size = made.stat().st_size if made.exists() else 0  # Java writes it at its end, and ends before its pipes are closed
        target.write_bytes(made.read_bytes() if size else b"")
    print(f"{target.name}: {size >> 20} MB" if size else f"{target.name}: empty, Java starts as usual\n{done.stderr[-1000:]}")


if __name__ == "__main__": main(Path(sys.argv[1]))
