"""The usual recipe of a load and an incremental merge, our own writing of it, on local files: the baseline to beat.

python bench/usual_recipe.py RAW OUT   prints one line of JSON; Spark's start is not counted.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import urllib.parse

from measure import java_megabytes, phase
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

MEMORY = "8g"


def initial(spark: SparkSession, folder: str, out: str) -> None:
    spark.read.parquet(f"{folder}/LOAD*.parquet").withColumn("Op", F.lit("I")).write.mode("overwrite").parquet(out)


def incremental(spark: SparkSession, folder: str, out: str, key: list[str]) -> int:
    "Join the whole table to find its files with a touched key, rank all their rows, write one new file."
    changes = spark.read.parquet(*sorted(glob.glob(f"{folder}/2*.parquet")))
    table = (
        spark.read.parquet(out)
        .withColumn("sortpath", F.lit("0"))
        .withColumn("tgt_file", F.input_file_name())
        .withColumn("rownum", F.lit(1))
    )
    numbered = F.row_number().over(Window.partitionBy(*key).orderBy("sortpath"))
    news = (
        changes.withColumn("sortpath", F.input_file_name())
        .withColumn("src_file", F.input_file_name())
        .withColumn("rownum", numbered)
    )
    hit = table.join(news, key, "inner").select(F.col("tgt_file").alias("hit_file")).distinct()
    old = [row[0] for row in hit.collect()]
    both = news.unionByName(table.join(hit, hit.hit_file == table.tgt_file), allowMissingColumns=True)
    newest = Window.partitionBy(*key).orderBy(F.desc("sortpath"), F.desc("rownum"))
    result = both.withColumn("rnk", F.rank().over(newest)).where("rnk = 1").where("Op != 'D'")
    result.coalesce(1).select(changes.columns).write.mode("append").parquet(out)
    for file in old:
        os.remove(urllib.parse.unquote(urllib.parse.urlparse(file).path))
    return len(old)


def main(raw: str, out: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", MEMORY)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.range(1).count()
    shutil.rmtree(out, ignore_errors=True)
    folder, said = f"{raw}/sampledb/productorder", {}
    with phase("initial", said):
        initial(spark, folder, out)
    with phase("incremental", said):
        said["files_rewritten"] = incremental(spark, folder, out, ["id"])
    print(json.dumps({**said, "driver": MEMORY, "java_mb": java_megabytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
