"Old change files move between folders and buckets, and leave no empty objects behind; S3 itself says what lies where."

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from dmscdc.landing.files import RawFile, TableRef
from dmscdc.load.raw import tidy_raw
from dmscdc.state.position import Position, checksum
from dmscdc.state.sqlite import SqliteState
from dmscdc.storage.filesystem import client

pytestmark = pytest.mark.proof

DAYS = ["2018/12/10/20181210-100000000", "2018/12/15/20181215-100000000"]
NOW = datetime(2018, 12, 20, tzinfo=timezone.utc)


def lying(place: str) -> list[str]:
    "Names of all files or objects."
    if not place.startswith("s3://"):
        return sorted(str(path.relative_to(place)) for path in Path(place).rglob("*") if path.is_file())
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    return sorted(one["Key"].removeprefix(f"{prefix}/") for one in client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", ()))


@pytest.mark.parametrize("source, target", [("bucket", "bucket"), ("bucket", "folder"), ("folder", "bucket")])
def test_an_applied_file_moves_and_nothing_else_is_there(bucket, tmp_path, source, target):
    at = {"bucket": lambda name: f"s3://{bucket}/{name}", "folder": lambda name: str(tmp_path / name)}
    landing, archive, content = at[source]("dms"), at[target]("cold"), b"not read"
    for day in DAYS:
        name = f"shop/item/{day}.parquet"
        if source == "bucket":
            client("s3").put_object(Bucket=bucket, Key=f"dms/{name}", Body=content)
        else:
            (tmp_path / "dms" / name).parent.mkdir(parents=True)
            (tmp_path / "dms" / name).write_bytes(content)
    files = [RawFile(f"{day}.parquet", len(content), 0.0) for day in DAYS]
    position = Position(
        load=1,
        last=files[1].path,
        window=(files[1].identity,),
        window_start="20181214-100000000",
        listed_at=4e9,
        applied=checksum(file.identity for file in files),
    )
    state = SqliteState(tmp_path / "state.db")
    state.put_settings(TableRef("shop", "item"), key="id")
    state.change(TableRef("shop", "item"), lambda item: replace(item, position=position, commit=1))
    given = TableRef("shop", "item"), landing, f"sqlite:{tmp_path / 'state.db'}", archive, NOW
    assert [file.path for file in tidy_raw(*given).files] == [f"{DAYS[0]}.parquet"] and not lying(archive)
    tidy_raw(*given, yes=True)
    assert lying(landing) == [f"shop/item/{DAYS[1]}.parquet"] and lying(archive) == [f"shop/item/{DAYS[0]}.parquet"]
