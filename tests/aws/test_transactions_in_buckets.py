"Files of transactions in a bucket: listed once a day as a whole, else from the last day on; changes older than a load are left out, because no object's time can be set."

from __future__ import annotations

import pytest

from dmscdc.landing import transactions as room
from dmscdc.landing.s3 import BucketLanding, open_landing
from dmscdc.landing.transactions import Routed, route, waiting
from dmscdc.storage.filesystem import client

pytestmark = pytest.mark.proof

DAYS = [f"CDC_TXN-201812{day}100311204.csv" for day in (10, 14, 15)]


def put(bucket: str, key: str, text: str) -> None:
    client("s3").put_object(Bucket=bucket, Key=f"dms/{key}", Body=text.encode())


def keys(bucket: str, prefix: str) -> list[str]:
    return [one["Key"] for one in client("s3").list_objects_v2(Bucket=bucket, Prefix=f"dms/{prefix}").get("Contents", ())]


def test_files_in_a_bucket_are_divided_once_and_only_the_last_day_is_listed_again(bucket, monkeypatch):
    for number, name in enumerate(DAYS):
        put(bucket, f"cdc/{name}", f"I,parent,shop,{number},a\nI,child,shop,{number},{number}\n")
    landing, asked = f"s3://{bucket}/dms", []
    assert route(landing, "cdc") == Routed(3, 6, 0, DAYS[-1])
    assert keys(bucket, "shop/") == [f"dms/shop/{table}/201812{day}-100311204.csv" for table in ("child", "parent") for day in (10, 14, 15)]
    assert client("s3").get_object(Bucket=bucket, Key="dms/shop/child/20181214-100311204.csv")["Body"].read() == b"I,1,1\n"
    real = BucketLanding.transactions
    monkeypatch.setattr(BucketLanding, "transactions", lambda self, folder, after="": asked.append(found := real(self, folder, after)) or found)
    assert waiting(landing, "cdc") == () and [file.name for file in asked[-1]] == DAYS[1:]
    put(bucket, "cdc/CDC_TXN-20181215100400000.csv", "D,child,shop,1,1\n")
    assert route(landing, "cdc") == Routed(1, 1, 0, "CDC_TXN-20181215100400000.csv")
    monkeypatch.setattr(room, "_DAY", 0.0)
    assert waiting(landing, "cdc") == () and len(asked[-1]) == 4


@pytest.mark.parametrize("seconds, routed", [(61, (1, 1, 0)), (30, (2, 0, 1)), (-1, (2, 0, 0))])
def test_changes_that_are_older_than_a_load_are_left_out_and_near_ones_are_said(bucket, monkeypatch, seconds, routed):
    put(bucket, f"cdc/{DAYS[0]}", "I,parent,shop,1,a\nI,child,shop,1,1\n")
    put(bucket, "shop/child/LOAD00000001.csv", "1,1\n")
    real = BucketLanding.files

    def files(self, table, position=None):
        found = real(self, table, position)
        return (
            found
            if table.name == "parent"
            else type(found)(tuple(file.__class__(file.path, file.size, file.time + seconds) for file in found.load), found.changes)
        )

    monkeypatch.setattr(BucketLanding, "files", files)
    done = route(f"s3://{bucket}/dms", "cdc")
    assert (done.written, done.old, len(done.problems)) == routed
    assert all("shop.child/20181210-100311204.csv was put shortly before the table's load" in problem for problem in done.problems)


@pytest.mark.parametrize("folder", ["cdc", "my/cdc"])
def test_folders_with_files_of_transactions_are_found_while_tables_are_looked_for(bucket, folder):
    put(bucket, f"{folder}/{DAYS[0]}", "I,parent,shop,1,a\n")
    put(bucket, "shop/parent/LOAD00000001.csv", "1,a\n")
    landing = open_landing(f"s3://{bucket}/dms")
    assert [str(table) for table in landing.tables()] == ["shop.parent"] and landing.mixed == [folder]
