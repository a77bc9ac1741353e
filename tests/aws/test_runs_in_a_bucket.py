"""Runs kept in a bucket: uploaded once however they end, no line lost, the front page right, failures said; against moto's server."""

import json
import re
import secrets
import shutil
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from typer.testing import CliRunner

from dmscdc.capture.writer import write_load
from dmscdc.cli.main import app
from dmscdc.errors import RunStoreError
from dmscdc.landing.files import TableRef
from dmscdc.runs import store as shelves
from dmscdc.runs.log import LoggedRun, RunLog, rebuild
from dmscdc.runs.pages import write_front_page
from dmscdc.runs.run import claimed, close_lost, run_notebook
from dmscdc.runs.store import BucketRunStore, open_run_store, write_whole
from dmscdc.service.config import read_config, table_parameters
from dmscdc.service.passes import run_pass
from dmscdc.state.registry import open_state
from dmscdc.storage.filesystem import client

pytestmark = pytest.mark.proof

DOES = {
    "good": "",
    "raises": "raise ValueError('row 3')",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "waits": "import threading; threading.Event().wait(50)",
}
ENDS = {
    "shop.good": ("ok", ""),
    "shop.raises": ("failed", "cell error"),
    "shop.killed": ("failed", "kernel killed"),
    "shop.waits": ("failed", "time-out"),
}
SAYS = 'from dmscdc.runs.log import record\nrecord("verdict", {"verdict": "ok", "words": "as expected", "command": "run it again"})'


def a_job(folder: Path, *cells: str) -> Path:
    "A notebook that takes what a controller gives, and has these cells."
    folder.mkdir(parents=True, exist_ok=True)
    config = read_config(folder, landing="landing", lake="lake")
    given = "\n".join(f'{name} = ""' for name in table_parameters(config, TableRef("shop", "good"), run="", owner="", fence=0))
    meta = {"kernelspec": {"name": "python3", "language": "python", "display_name": "python3"}}
    book = new_notebook(cells=[new_code_cell(given, metadata={"tags": ["parameters"]}), *map(new_code_cell, cells)], metadata=meta)
    nbformat.write(book, folder / "job.ipynb")
    return folder / "job.ipynb"


def a_house(folder: Path, runs: str, tables: list[str], timeout: float = 60) -> SimpleNamespace:
    "Tables with work, a job without Spark that ends as the table's name says, and runs kept at an address."
    config = read_config(folder, landing="landing", lake="lake", runs=runs, quiet_period=0, workers=4, timeout=timeout)
    for name in tables:
        write_load(config.landing, f"shop.{name}", [(1, "a")], {"id": "int", "said": "string"})
        open_state(config.state).put_settings(TableRef("shop", name), key="id")
    does = a_job(folder, SAYS, f"exec({DOES!r}[table.partition('.')[2]])")
    return SimpleNamespace(config=config, run=lambda: run_pass(config, job=does, classic=True, on_event=lambda line: None))


@contextmanager
def seen(verb: str):
    "Keys of the requests of a kind that reach the server, each time they do."
    keys: list[str] = []

    def note(request, **_):
        keys.append(request.url.split("?")[0].split("/", 4)[4])

    client("s3").meta.events.register(f"request-created.s3.{verb}", note)
    try:
        yield keys
    finally:
        client("s3").meta.events.unregister(f"request-created.s3.{verb}", note)


def objects(bucket: str) -> dict[str, dict]:
    "Key → what S3 tells of it."
    s3 = client("s3")
    return {one["Key"]: s3.head_object(Bucket=bucket, Key=one["Key"]) for one in s3.list_objects_v2(Bucket=bucket).get("Contents", ())}


def text(bucket: str, key: str) -> str:
    return client("s3").get_object(Bucket=bucket, Key=key)["Body"].read().decode()


def dmscdc(*words: str, folder: Path) -> str:
    "What a command says."
    done = CliRunner().invoke(app, [*words, "--folder", str(folder)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    "Where runs in buckets are executed."
    home = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    shelves._bucket_run_store.cache_clear()
    return home


@pytest.fixture(scope="module")
def told(moto, tmp_path_factory):
    "One pass over four tables that end in four ways, and the writes that it took."
    folder = tmp_path_factory.mktemp("pass")
    with pytest.MonkeyPatch.context() as patch:
        said = {
            "AWS_ENDPOINT_URL": moto,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        for name, value in said.items():
            patch.setenv(name, value)
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        client.cache_clear(), shelves._bucket_run_store.cache_clear()
        bucket = f"runs-{secrets.token_hex(4)}"
        client("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        house = a_house(folder, f"s3://{bucket}/kept/here", list(DOES), timeout=5)
        with seen("PutObject") as puts:
            result = house.run()
        (folder / "dmscdc.toml").write_text(f'landing = "landing"\nlake = "lake"\nruns = "s3a://{bucket}/kept/here/"\n')
    client.cache_clear()
    return SimpleNamespace(folder=folder, bucket=bucket, result=result, puts=puts, runs=house.config.runs)


def test_every_run_has_its_verdict_and_the_pass_its_own(told):
    assert {name: (o.verdict, o.run.cause) for name, o in told.result.tables.items()} == ENDS
    assert (told.result.verdict, told.result.words) == ("failed", "4 tables: 3 failed, 1 ok")


def test_each_file_of_a_run_is_put_once_and_nothing_stays_on_the_machine(told, aws):
    counts = Counter(told.puts)
    run_log = {key: count for key, count in counts.items() if key.startswith("kept/here/ledger/")}
    assert run_log == {"kept/here/ledger/000001.jsonl": 5}
    files = {key: count for key, count in counts.items() if key not in run_log}
    assert files.pop("kept/here/tables/index.json") == 2  # it is begun once, and then says what was written
    assert (
        len(files) == 9 + 10 + 1  # the last is the page of the pass
        and set(files.values()) == {1}
        and files.keys() | run_log.keys() | {"kept/here/tables/index.json"} == objects(told.bucket).keys()
    )
    assert [path for path in (told.folder / "cache").rglob("*") if path.is_file()] == []


def test_objects_have_the_type_that_a_browser_and_jupyter_know(told, aws):
    kinds = {(Path(key).suffix, said["ContentType"]) for key, said in objects(told.bucket).items()}
    assert kinds == {
        (".ipynb", "application/x-ipynb+json"),
        (".html", "text/html; charset=utf-8"),
        (".jsonl", "application/x-ndjson"),
        (".json", "application/json"),
    }


@pytest.mark.parametrize("table", ENDS)
def test_a_notebook_and_its_page_are_there_however_the_run_ended(told, aws, table):
    run = told.result.tables[table].run
    assert re.fullmatch(rf"s3://{told.bucket}/kept/here/job/{table}/\d{{8}}T\d{{9}}Z-{run.id}\.ipynb", run.notebook)
    book, page = (json.loads(text(told.bucket, run.notebook.split("/", 3)[3])), text(told.bucket, run.html.split("/", 3)[3]))
    facts = book["metadata"]["dmscdc"]
    assert (facts["verdict"], facts["cause"], facts["run"]) == (*ENDS[table], run.id)
    assert f'class="banner {run.verdict}"' in page and str(told.folder / "cache") not in page


def test_the_front_page_names_all_tables_and_links_to_pages_that_are_there(told, aws):
    page = text(told.bucket, "kept/here/index.html")
    links = {link for link in re.findall(r'href="([^"#]+)"', page)}
    (of_pass,) = (link for link in links if link.startswith("pass/"))
    assert {link.split("/")[1] for link in links - {of_pass}} == {*ENDS, *(f"{table}.html" for table in ENDS), "other.html"}
    assert {f"kept/here/{link}" for link in links} < objects(told.bucket).keys()
    assert not re.search(r"https?://|s3a?://|127\.0\.0\.1", page)


def test_a_list_of_runs_is_the_same_from_a_bucket_and_from_a_folder(told, aws, tmp_path):
    "The folder is a copy of the bucket, its run log rebuilt from the notebooks and the line of the pass."
    for key in objects(told.bucket):
        if key.endswith(".ipynb"):
            there = tmp_path / "runs" / key.removeprefix("kept/here/")
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_text(text(told.bucket, key))
    *_, last = RunLog(told.runs).runs()
    RunLog(tmp_path / "runs").append(last)
    rebuild(tmp_path / "runs")
    for words, count in ((), 5), (("--table", "shop.killed"), 1), (("--most", "2"), 2):
        one, other = (
            json.loads(dmscdc("runs", "list", "--json", *words, *more, folder=told.folder)) for more in ([], ["--runs", str(tmp_path / "runs")])
        )
        assert one == other and len(one) == count


def test_a_run_is_shown_and_its_page_made_anew(told, aws):
    run = told.result.tables["shop.killed"].run
    shown = json.loads(dmscdc("runs", "show", run.id[:6], "--json", folder=told.folder))
    assert shown["cause"] == "kernel killed" and shown["records"]["verdict"]["words"] == "as expected"
    key = run.html.split("/", 3)[3]
    before = text(told.bucket, key)
    client("s3").put_object(Bucket=told.bucket, Key=key, Body=b"old")
    assert dmscdc("runs", "html", run.id, folder=told.folder).split() == [run.html]
    assert text(told.bucket, key).splitlines()[-20:] == before.splitlines()[-20:]


def test_a_command_that_cannot_read_the_bucket_says_so(aws, tmp_path):
    done = CliRunner().invoke(app, ["runs", "list", "--folder", str(tmp_path), "--landing", "a", "--lake", "b", "--runs", "s3://nowhere-at-all/kept"])
    assert done.exit_code == 1 and "s3://nowhere-at-all/kept/ledger/ could not be listed" in " ".join(done.output.split())


WRITES = """
import sys
from concurrent.futures import ThreadPoolExecutor
from dmscdc.runs import charts
from dmscdc.runs import store as run_store
from dmscdc.runs.log import LoggedRun, RunLog
from dmscdc.runs.pages import write_front_page

run_store.PIECE, charts.can_draw = 1_000, lambda: False  # pictures are not the point here, and take time
runs, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def write(number):
    name, end = f"{who}{number:03d}", f"2018-12-13T10:00:{number:02d}.000Z"
    RunLog(runs).append(LoggedRun.from_json({"run": name, "job": "load", "table": f"shop.{name}", "start": end, "end": end, "verdict": "ok", "words": name, "html": f"{name}.html"}))
    if number % 10 == 5: write_front_page(runs, [{"table": f"shop.{name}"}])

print("ready", flush=True)
sys.stdin.readline()
with ThreadPoolExecutor(8) as pool: list(pool.map(write, range(count)))
write_front_page(runs, [{"table": f"shop.{one}{number:03d}"} for one in "ab" for number in range(count)])
"""


def test_two_processes_of_eight_threads_lose_no_line_and_the_last_page_names_all(strict):
    runs, count = f"s3://{strict}/kept", 16
    both = [
        subprocess.Popen([sys.executable, "-c", WRITES, runs, who, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for who in "ab"
    ]
    assert [process.stdout.readline() for process in both] == ["ready\n"] * 2
    for process in both:
        process.stdin.write("go\n"), process.stdin.flush()
    assert [process.wait(60) for process in both] == [0, 0]
    expected = sorted(f"{who}{number:03d}" for who in "ab" for number in range(count))
    assert sorted(line.run for line in RunLog(runs).runs()) == expected
    assert len([key for key in objects(strict) if "/ledger/" in key]) > 3  # it was written in pieces
    page = text(strict, "kept/index.html")
    assert [name for name in expected if f'href="{name}.html"' not in page] == []


def test_a_line_comes_behind_those_that_others_wrote_meanwhile_so_no_page_misses_it(bucket, monkeypatch):
    monkeypatch.setattr(shelves, "PIECE", 500)
    runs, theirs, once = f"s3://{bucket}", BucketRunStore(bucket, ""), []
    line = {"job": "load", "verdict": "ok", "start": "2018-12-13T10:00:00Z", "end": "2018-12-13T10:00:01Z"}
    ended = lambda name: LoggedRun.from_json({**line, "run": name, "table": f"shop.{name}", "html": f"{name}.html", "words": "x" * 100})
    RunLog(runs).append(ended("first"))

    class Between(BucketRunStore):
        "Others fill this piece, begin the next and make the page of it after we have read ours and before we write."

        def put(self, name, *content, **condition):
            if not once:
                once.append(name)
                for number in range(4):
                    RunLog(theirs).append(ended(f"other{number}"))
                write_front_page(theirs, [])
            super().put(name, *content, **condition)

    RunLog(Between(bucket, "")).append(ended("ours"))
    write_front_page(runs, [{"table": "shop.ours"}])
    assert once and len([key for key in objects(bucket) if "ledger/" in key]) > 1 and 'href="ours.html"' in text(bucket, "index.html")


def test_a_page_that_was_made_while_another_controller_wrote_is_made_again(bucket):
    runs, tables = f"s3://{bucket}", [{"table": "shop.ours"}, {"table": "shop.theirs"}]
    line = {"job": "load", "start": "2018-12-13T10:00:00Z", "end": "2018-12-13T10:00:01Z", "verdict": "ok", "words": ""}
    RunLog(runs).append(LoggedRun.from_json({**line, "run": "1", "table": "shop.ours", "html": "ours.html"}))
    theirs, once = BucketRunStore(bucket, ""), []

    class Between(BucketRunStore):
        "Another controller ends its pass after we have read the run log and before we write the page."

        def put(self, name, *content, **condition):
            if name == "index.html" and not once:
                once.append(name)
                RunLog(theirs).append(LoggedRun.from_json({**line, "run": "2", "table": "shop.theirs", "html": "theirs.html"}))
                write_front_page(theirs, tables)
            super().put(name, *content, **condition)

    write_front_page(Between(bucket, ""), tables)
    assert once and set(re.findall(r'href="(\w+\.html)"', text(bucket, "index.html"))) == {"ours.html", "theirs.html"}


def test_a_pass_that_ran_one_table_of_many_needs_few_requests(bucket):
    runs, ended = f"s3://{bucket}/kept", "2018-12-13T10:00:{:02d}.000Z"
    line = {"job": "load", "verdict": "ok", "words": "", "rows": {}, "html": ""}
    for number in range(12):
        RunLog(runs).append(
            LoggedRun.from_json({**line, "run": f"{number}", "table": f"shop.t{number}", "start": ended.format(number), "end": ended.format(number)})
        )
    write_front_page(runs, [])
    RunLog(runs).append(LoggedRun.from_json({**line, "run": "again", "table": "shop.t7", "start": ended.format(30), "end": ended.format(30)}))
    with seen("PutObject") as puts, seen("GetObject") as gets:
        write_front_page(runs, [])
    kept = {"index.html", "tables/index.json", "tables/shop.t7.html", "tables/shop.t7.json"}
    assert Counter(puts) == {f"kept/{name}": 1 for name in kept} and set(gets) == {*puts, "kept/ledger/000001.jsonl"}
    assert len(gets) <= 10
    with seen("PutObject") as puts, seen("GetObject") as gets:
        write_front_page(runs, [])
    assert puts == ["kept/index.html"] and len(gets) <= 5


def test_a_page_that_cannot_be_written_in_so_many_tries_is_an_error(bucket, monkeypatch):
    monkeypatch.setattr(shelves, "_TRIES", 3)
    monkeypatch.setattr(shelves, "LONGEST", 0)
    there = open_run_store(f"s3://{bucket}/kept")
    quicker = lambda: client("s3").put_object(Bucket=bucket, Key="kept/index.html", Body=secrets.token_bytes(4)) and "ours"  # noqa: E731
    with seen("PutObject") as puts, pytest.raises(RunStoreError, match="index.html could not be written: 3 times somebody else was quicker"):
        there.publish("index.html", quicker)
    assert len(puts) == 6


def test_a_boto3_that_knows_no_conditions_is_said_with_the_version_that_does(bucket):
    old = lambda params, **_: params.update(IfSomething="*")  # noqa: E731  what this boto3 does not know, as an old one does not know If-Match
    client("s3").meta.events.register("provide-client-params.s3.PutObject", old)
    with pytest.raises(RunStoreError, match=r"index.html could not be written: .*pip install 'boto3>=1.35.69'"):
        open_run_store(f"s3://{bucket}/kept").publish("index.html", str)


def test_the_newest_lines_need_only_the_last_pieces(bucket, monkeypatch):
    monkeypatch.setattr(shelves, "PIECE", 500)
    run_log = RunLog(f"s3://{bucket}/kept")
    for number in range(30):
        run_log.append(LoggedRun.from_json({"run": f"{number:02d}", "end": f"{number:02d}", "words": "x" * 50}))
    with seen("GetObject") as gets:
        assert [line.run for line in run_log.runs(600)][-3:] == ["27", "28", "29"] and next(run_log.newest_first()).run == "29"
    assert len(gets) <= 3 < len(objects(bucket))


def test_a_line_that_was_sent_twice_stands_once_and_a_late_one_in_its_place(bucket):
    run_log = RunLog(f"s3://{bucket}/kept")
    for run, end in (("2", "2018-12-13T10"), ("3", "2018-12-13T11"), ("2", "2018-12-13T10"), ("1", "2018-12-13T09")):
        run_log.append(LoggedRun.from_json({"run": run, "end": end}))
    assert [line.run for line in run_log.runs()] == ["1", "2", "3"]


def test_a_run_that_cannot_be_uploaded_keeps_its_verdict_is_named_and_sent_by_the_next_pass(aws, tmp_path, cache):
    name = f"later-{secrets.token_hex(4)}"
    house = a_house(tmp_path, f"s3://{name}/kept", ["good", "raises"])
    result = house.run()
    good, raises = (result.tables[f"shop.{one}"] for one in ("good", "raises"))
    assert (good.verdict, raises.verdict, result.verdict) == ("attention", "failed", "failed")
    for outcome, own in ((good, "as expected. "), (raises, "ValueError in cell [4]: row 3. ")):
        assert (
            outcome.words.startswith(f"{own}Its report could not be kept: s3://{name}/kept/job/{outcome.table}/") and "NoSuchBucket" in outcome.words
        )
        here = re.search(r"It lies in (\S+\.ipynb); the next pass on this machine sends it$", outcome.words)[1]
        assert Path(here) == outcome.run.notebook and Path(here).is_relative_to(cache) and outcome.run.html.exists()
    assert result.words.startswith("2 tables: 1 failed, 1 attention. The front page could not be kept: s3://") and result.exit_code == 1
    assert {item.table.name: item.status["last_verdict"] for item in open_state(house.config.state).items()} == {
        "good": "attention",
        "raises": "failed",
    }

    client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    with seen("PutObject") as puts:
        assert close_lost(house.config.runs) == []
    assert {line.table: line.verdict for line in RunLog(house.config.runs).runs()} == {"shop.good": "ok", "shop.raises": "failed"}
    assert Counter(Path(key).suffix for key in puts) == {".ipynb": 2, ".html": 2, ".jsonl": 2}
    assert not list(cache.rglob("*.ipynb")) and not list(cache.rglob("*.html")) and close_lost(house.config.runs) == []


def test_two_passes_that_begin_at_once_close_a_lost_run_once(bucket, tmp_path):
    runs = f"s3://{bucket}/kept"
    home = open_run_store(runs).home / "job" / "shop.good"
    home.mkdir(parents=True)
    for number in range(4):
        shutil.copy(a_job(tmp_path, SAYS), home / f"20181213T10000000{number}Z-lost{number}.ipynb")
    with ThreadPoolExecutor(4) as pool:
        closed = [run.id for found in pool.map(close_lost, [runs] * 4) for run in found]
    assert sorted(closed) == ["lost0", "lost1", "lost2", "lost3"]
    lines = RunLog(runs).runs()
    assert [(line.run, line.verdict, line.cause) for line in lines] == [(run, "failed", "stopped") for run in sorted(closed)]
    assert all(f"kept/{getattr(line, kind)}" in objects(bucket) for line in lines for kind in ("notebook", "html"))


def test_who_opened_a_notebook_that_another_has_closed_meanwhile_does_not_have_it(tmp_path):
    class Closed(type(Path())):
        "Between our opening it and our lock, another pass closes the run: a new file has the name."

        def open(self, *given):
            file = super().open(*given)
            write_whole(self, "{}")
            return file

    write_whole(tmp_path / "a.ipynb", "torn")
    with claimed(Closed(tmp_path / "a.ipynb")) as ours, claimed(tmp_path / "a.ipynb") as theirs:
        assert (ours, theirs) == (False, True)


def test_a_run_that_is_being_uploaded_is_taken_over_by_nobody(bucket, tmp_path):
    runs, found = f"s3://{bucket}/kept", []

    def look(request, **_):
        if "/job/" in request.url:
            found.append((len(list(open_run_store(runs).home.rglob("*.ipynb"))), close_lost(runs)))

    client("s3").meta.events.register("request-created.s3.PutObject", look)
    run = run_notebook(a_job(tmp_path, SAYS), {}, runs=runs, table="shop.good")
    assert found == [(1, []), (1, [])] and [line.run for line in RunLog(runs).runs()] == [run.id]


@pytest.mark.parametrize(
    "said, told", [("", (None, None)), ("AES256", ("AES256", None)), ("aws:kms", ("aws:kms", None)), ("alias/runs", ("aws:kms", "alias/runs"))]
)
def test_objects_are_encrypted_as_the_environment_asks(bucket, monkeypatch, said, told):
    monkeypatch.setenv("DMSCDC_ENCRYPTION", said)
    asked = []
    client("s3").meta.events.register("provide-client-params.s3.PutObject", lambda params, **_: asked.append(params))
    RunLog(f"s3://{bucket}/kept").append(LoggedRun.from_json({"run": "1"}))
    write_front_page(f"s3://{bucket}/kept", [])
    assert len(asked) == 6 and {(one.get("ServerSideEncryption"), one.get("SSEKMSKeyId")) for one in asked} == {told}
    assert {one.get("ServerSideEncryption") for one in objects(bucket).values()} <= {told[0], "AES256"}


def test_a_wrong_wish_for_encryption_is_refused_before_anything_runs(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("DMSCDC_ENCRYPTION", "kms")
    with pytest.raises(ValueError, match="DMSCDC_ENCRYPTION is AES256"):
        run_notebook(a_job(tmp_path, SAYS), {}, runs=f"s3://{bucket}/kept")
    assert objects(bucket) == {}


def test_no_secret_of_the_environment_reaches_the_bucket(bucket, tmp_path):
    job = a_job(tmp_path, "import os", "raise OSError('no answer from ' + os.environ['SPARK_REMOTE'])")
    run_notebook(job, {}, runs=f"s3://{bucket}/kept", env={"SPARK_REMOTE": "sc://localhost:15002/;token=abc123xyz"})
    kept = objects(bucket)
    assert len(kept) == 3 and not [key for key in kept if "abc123xyz" in text(bucket, key)]


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_of_older_runs_that_went_well_no_report_stays_and_no_page_leads_to_one(bucket, tmp_path, place):
    runs = f"s3://{bucket}/kept" if place == "bucket" else str(tmp_path)
    store, stays = open_run_store(runs), set()
    for number in range(40):
        name, when = f"process_table/shop.good/20260101T{number:06d}000Z-{number:08x}", f"2026-01-01T00:00:{number:02d}.000Z"
        verdict = "failed" if number % 7 == 3 else "ok"
        stays |= {name} if verdict == "failed" or number >= 20 else set()
        for ending in (".ipynb", ".html"):
            store.publish(name + ending, lambda: "x")
        RunLog(runs).append(
            LoggedRun.from_json(
                {
                    "run": f"{number:08x}",
                    "job": "process_table",
                    "table": "shop.good",
                    "start": when,
                    "end": when,
                    "verdict": verdict,
                    "words": verdict,
                    "cause": "",
                    "command": "",
                    "rows": {},
                    "files": 1,
                    "bytes_written": 1,
                    "lag": 1,
                    "notebook": f"{name}.ipynb",
                    "html": f"{name}.html",
                }
            )
        )
        if number in (25, 39):
            write_front_page(runs, [], keep=20)
    there = {name for name, _ in store.names("process_table/")}
    assert there == {name + ending for name in stays for ending in (".ipynb", ".html")} and len(RunLog(runs).runs()) == 40
    pages = [store.get(name).decode() for name in ("index.html", "tables/shop.good.html")]
    assert {link for page in pages for link in re.findall(r'href="(?:\.\./)?(process_table/[^"]*)"', page)} == {f"{name}.html" for name in stays}
