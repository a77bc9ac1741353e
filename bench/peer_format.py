"""What a user of Delta, Iceberg or Hudi would write: the load as a new table, then the last change of each key by one MERGE or upsert.

python bench/peer_format.py RAW OUT FORMAT   prints one line of JSON; Spark's start is not counted.
FORMAT is delta, iceberg or hudi, or one that marks rows as removed: delta-vectors, iceberg-mor, hudi-mor.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from measure import differing, java_megabytes, phase
from pyspark.sql import Window
from pyspark.sql import functions as F

from dmscdc.spark.session import open_session

MEMORY = "3g"
HUDI = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}


def main(raw: Path, out: Path, format: str) -> None:
    conf = {"spark.driver.memory": MEMORY, "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
    conf |= {"spark.sql.catalog.lake.type": "hadoop", "spark.sql.catalog.lake.warehouse": str(out)}
    base, _, marks = format.partition("-")
    spark = open_session(
        "peer", master="local[2]", conf=conf if base == "iceberg" else {"spark.driver.memory": MEMORY}, format=base
    )
    spark.range(1).count()
    shutil.rmtree(out, ignore_errors=True)
    folder, said = raw / "sampledb" / "productorder", {}
    table = {"delta": f"delta.`{out}`", "iceberg": "lake.db.t"}.get(base, "")
    kind = {"hoodie.datasource.write.table.type": "MERGE_ON_READ" if marks else "COPY_ON_WRITE"}
    with phase("initial", said):
        load = spark.read.parquet(f"{folder}/LOAD*.parquet").drop("Op")
        if base == "delta":
            load.write.format("delta").option("delta.enableDeletionVectors", str(bool(marks)).lower()).save(str(out))
        elif base == "iceberg":
            load.writeTo(table).tableProperty(
                "write.merge.mode", "merge-on-read" if marks else "copy-on-write"
            ).create()
        else:
            load.write.format("hudi").options(**HUDI, **kind).option(
                "hoodie.datasource.write.operation", "bulk_insert"
            ).save(str(out))
    with phase("incremental", said):
        place = [F.col("_metadata.file_name").alias("f"), F.col("_metadata.row_index").alias("r")]
        changes = spark.read.parquet(*sorted(map(str, folder.glob("2*.parquet")))).select("*", *place)
        newest = F.row_number().over(Window.partitionBy("id").orderBy(F.desc("f"), F.desc("r")))
        last = changes.withColumn("n", newest).where("n = 1").drop("n", "f", "r")
        names = [name for name in last.columns if name != "Op"]
        if table:
            last.createOrReplaceTempView("changes")
            spark.sql(f"""merge into {table} t using changes c on t.id = c.id when matched and c.Op = 'D' then delete
                when matched then update set {", ".join(f"{name} = c.{name}" for name in names)}
                when not matched and c.Op <> 'D' then insert ({", ".join(names)}) values ({", ".join(f"c.{name}" for name in names)})""").collect()
        else:
            gone = last.selectExpr(*names, "Op = 'D' as _hoodie_is_deleted")
            gone.write.format("hudi").options(**HUDI, **kind).mode("append").save(str(out))
    said["differing"] = differing(spark.table(table) if table else spark.read.format("hudi").load(str(out)), raw)
    print(json.dumps({**said, "driver": MEMORY, "java_mb": java_megabytes()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute(), sys.argv[3])
