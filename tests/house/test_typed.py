"""Every command of README and pages typed as it is written: the wheel in an empty environment with what a laptop needs, in a folder like a clone."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from aws.conftest import aws, moto  # noqa: F401
from dmscdc.capture.shop import create_shop
from dmscdc.storage.filesystem import client

pytestmark = pytest.mark.proof

HOME = Path(__file__).parents[2]
PAGES = [HOME / "README.md", *sorted((HOME / "notebooks" / "pages").glob("*.md"))]
README = "\n".join(re.sub("^# ", "## ", path.read_text(encoding="utf-8")) for path in PAGES)  # and what it leads to
MADE = ("Makefile", "settings.ini", "setup.py", "pyproject.toml", "constraints.txt")  # what make looks at
WAIT = 600.0  # seconds at most


def block(section: str) -> list[str]:
    "The lines of a section's shell block, without comments."
    found = re.search(rf"^## {re.escape(section)}\n.*?^```sh\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return [line.split(" #")[0].strip() for line in found[1].splitlines()]


DEMO, OWN, AWS = block("Try it"), block("Your own DMS folder"), block("On AWS")
QUESTIONS = block("What happened to this row, and is the table right?")
ELSEWHERE = {  # what prose and tables name with its arguments, and what is typed for it
    "dmscdc capture sqlite:shop.db --landing ./landing": "dmscdc capture sqlite:shop.db --landing ./landing",
    "dmscdc capture sqlite:shop.db --landing DIR": "dmscdc capture sqlite:shop.db --landing DIR",
    "dmscdc conformance FORMAT": "dmscdc conformance parquet",
    "dmscdc demo [DIR]": "make demo",
    "dmscdc pass --master spark://host:7077": "dmscdc pass --master local[2]",
    "dmscdc reconcile shop.customer --source dynamodb:customer": "",  # tests/stream types it
    'dmscdc schedule --cron "0 * * * *"': 'dmscdc schedule --cron "0 * * * *"',
    "dmscdc serve-spark --master spark://host:7077": "dmscdc serve-spark --master local[2]",
    "dmscdc templates --out DIR": "",  # tests/aws/test_templates.py types it
    "dmscdc templates --out infra": "",
    "dmscdc table rename T old new": "",  # tests/loading types it
    "dmscdc table columns --ddl shop.sql": "dmscdc table columns --ddl shop.sql",
    "dmscdc table columns sampledb.product --ddl new.sql --since 20240705-201037892.csv": "dmscdc table columns sampledb.product --ddl new.sql --since 20240705-201037892.csv",
}
NAMED = (
    "init",
    "plan",
    "history",
    "changes",
    "lab",
    "schedule",
    "reconcile",
    "stream",
    "maintain",
)  # by their names alone; the blocks have them with arguments


def installed(clone: Path, *what: str) -> None:
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", clone / ".venv/bin/python", "--constraint", HOME / "constraints.txt"]
    done = subprocess.run([*uv, *what], capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def clone(wheel, tmp_path_factory) -> Path:
    "A folder like a clone after `make env`, whose environment holds nothing but the wheel and what it asks for."
    here = tmp_path_factory.mktemp("typed") / "clone"
    here.mkdir()
    subprocess.run([sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, here / ".venv"], check=True)
    installed(here, f"dmscdc[local,notebooks] @ {wheel.as_uri()}")
    for name in MADE:
        shutil.copy(HOME / name, here)
    (here / ".venv/.base").touch()
    return here


def environment(clone: Path) -> dict[str, str]:
    "That of a person who has just opened a shell."
    skip = ("PYTHON", "VIRTUAL_ENV", "SPARK", "AWS_", "DMSCDC", "JUPYTER", "MAKE", "MFLAGS", "COLUMNS")
    return {name: value for name, value in os.environ.items() if not name.startswith(skip)} | {"HOME": str(clone.parent)}


def typed(clone: Path, lines: list[str], **env: str) -> str:
    "What a shell says; it ends with the first line that fails."
    script = "\n".join(["trap 'echo \"this failed: $BASH_COMMAND\" >&2' ERR", *lines])
    done = subprocess.run(["bash", "-e"], input=script, cwd=clone, env=environment(clone) | env, capture_output=True, text=True, timeout=WAIT)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-3000:]}\n{done.stdout[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def readme(clone, tmp_path_factory) -> dict[str, str]:
    "What is said to the README's shell and Python lines, typed in their order into one shell, each from where it stands."
    data = tmp_path_factory.mktemp("data")
    (python,) = re.findall(r"```python\n(import dmscdc\n.*?)```", README, re.DOTALL)
    has_landed = [
        f"mkdir -p {data}/dms/sampledb",
        f"cp -r landing/sampledb/product {data}/dms/sampledb",
        f"touch -d '1 hour ago' {data}/dms/sampledb/product/*",
    ]
    own = [line.replace("/data/", f"{data}/") for line in OWN]
    parts = {"demo": [f"{DEMO[0]} 2>&1", *DEMO[1:]], "python": [f"python -i <<'END'\n{python}END"], "own": [*has_landed, *own]}
    script = [line for name, lines in parts.items() for line in (*lines, f"echo; echo '=== {name}'")]
    said = re.split(r"^=== \w+\n", typed(clone, script), flags=re.MULTILINE)
    shutil.move(data / "lake", clone / "own")
    return dict(zip(parts, said))


@pytest.fixture(scope="module")
def told(readme) -> str:
    "What the first block says; after it the demo is there."
    return readme["demo"]


def in_clone(clone: Path, *lines: str) -> str:
    return typed(clone, [". .venv/bin/activate", *lines])


def in_demo(clone: Path, *lines: str) -> str:
    return typed(clone, [". .venv/bin/activate && cd demo", *lines])


def ended(clone: Path, line: str, ready: str) -> tuple[int, str]:
    "Types a command that goes on until Ctrl-C, and presses that when it says it is ready."
    log = clone.parent / "said"
    with log.open("wb") as out:
        command = ["bash", "-c", f". .venv/bin/activate && cd demo && exec {line}"]
        process = subprocess.Popen(command, cwd=clone, env=environment(clone), stdout=out, stderr=out, start_new_session=True)
    until = time.monotonic() + WAIT
    while ready not in log.read_text() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    said = log.read_text()
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    assert ready in said, said
    return process.wait(60), log.read_text()


def test_the_environment_holds_nothing_but_what_the_wheel_asks_for(clone):
    lines = in_clone(clone, "python -c 'import dmscdc; print(dmscdc.__file__)'", "ls .venv/lib/python3*/site-packages")
    assert "/clone/.venv/" in lines.splitlines()[0] and not {"pytest", "nbdev", "boto3", "moto", "uv"} & set(lines.split())


def test_the_demo_and_its_status(told):
    assert "To go on: cd demo && dmscdc status" in told
    assert told.count("equal at 20") == 3  # the status knows what the demo's comparison found
    shown, session = re.findall(r"```text\n(.*?)```", README, re.DOTALL)  # in README.md, and on the page of a row's way
    assert shown.splitlines() == [re.sub(r"^\S+Z +", "", line) for line in told.splitlines() if "equal, " in line or line.startswith("The front")]
    assert not set(without_varying(session)) - set(without_varying(told)), told


def without_varying(session: str) -> list[str]:
    "The lines of a session without times, sizes, and where it happened."
    return [re.sub(r"^\S+Z +|\S+(?=demo/)|[\d-]+(?=\.parquet)|[\d,]+(?= bytes)", "", line.strip()) for line in session.splitlines()]


def test_the_lines_of_python_are_answered(readme):
    said = readme["python"]
    tables, rows, history, load, runs = (
        said.partition(start)[2] for start in ("tables of ", "sampledb.product\nOp ", "sampledb.product\nkey ", "25 rows", "runs of sampledb.product")
    )
    assert (
        "sampledb.store" in tables and "24 rows" in rows and "Trail Lantern 300 → Sample Product" in history and load and "process_table" in runs
    ), said


def test_the_notebook_of_a_table_has_answers(clone, told):
    "What `dmscdc lab` opens, in the environment of the README."
    said = in_demo(clone, "dmscdc lab sampledb.product --no-open")
    shown = [
        out["data"]
        for cell in json.loads((clone / "demo/sampledb.product.ipynb").read_text())["cells"]
        for out in cell.get("outputs", [])
        if "data" in out
    ]
    assert "sampledb.product.ipynb" in said and len(shown) == 5 and "Trail Lantern 300 → Sample Product" in "".join(shown[2]["text/plain"])
    (report, *_) = re.findall('href="([^"]+)"', "".join(shown[4]["text/html"]))
    assert (clone / "demo" / report).read_text().startswith("<!")


def test_the_questions_about_rows_and_tables(clone, told):
    *questions, compare = QUESTIONS
    assert len(questions) >= 5 and compare.startswith("dmscdc reconcile")
    said = in_demo(clone, *questions)
    assert "Trail Lantern 300" in said and "Sample Product" in said  # the row before and after
    assert "25 rows" in said and "24 rows" in said  # at the first commit, and now
    assert pq.read_table(clone / "demo/then").num_rows == 24 and (clone / "demo/feed.json").is_file()
    reports = len(list((clone / "demo/runs/reconcile").rglob("*.html")))
    assert "equal as of" in in_demo(clone, compare) and len(list((clone / "demo/runs/reconcile").rglob("*.html"))) == reports + 1
    server = in_demo(clone, f"{compare} --source mariadb://reader@localhost/sampledb 2>&1 || test $? = 2")
    assert "pip install 'dmscdc[source]'" in server, server  # its driver, which [all] brings


def test_a_folder_of_ones_own(clone, readme):
    assert "--key id" in readme["own"] and "1 ok" in readme["own"] and len(OWN) >= 5
    assert pq.read_table(clone / "own/sampledb/product").num_rows == 24


def test_what_goes_on_until_it_is_stopped(clone, told):
    assert "or: dmscdc schedule" in README
    code, said = ended(clone, ELSEWHERE['dmscdc schedule --cron "0 * * * *"'], "next pass")
    assert code == 0 and "0 passes ran" in said, said
    code, said = ended(clone, ELSEWHERE["dmscdc serve-spark --master spark://host:7077"], "SPARK_REMOTE")
    assert code == 0, said


@pytest.mark.torture
def test_the_instructions_for_a_table(clone, told):
    "What the table of commands names behind a comma; the lake holds the same rows before and after."
    assert "`dmscdc table list`, `set`, `columns`, `rename`, `forget`, `rewind`, `replay`, `accept`, `migrate`, `rebuild`, `init`" in README
    shutil.copytree(clone / "demo", clone / "told")
    file = sorted(path.name for path in (clone / "told/landing/sampledb/product").glob("2*.parquet"))[-1]
    go, before = ". .venv/bin/activate && cd told", rows_of(clone / "told/lake/sampledb")
    told_to = ["rewind sampledb.store --reload", f"replay sampledb.product {file}", "accept sampledb.productorder"]
    said = typed(
        clone,
        [
            go,
            *(f"dmscdc table {each}" for each in told_to),
            "dmscdc pass",
            "dmscdc table rebuild",
            "dmscdc table migrate sampledb.product --format parquet",
            "dmscdc table forget sampledb.store",
        ],
    )
    assert said.count("is carried out by the next pass") == 3 and "sampledb.store is forgotten" in said, said
    assert "24 rows in format parquet; 0 files of the old table removed" in said, "tests/formats moves one to another format"
    assert rows_of(clone / "told/lake/sampledb") == before and {"store", "product", "productorder"} <= set(before) and min(before.values()) > 1
    assert "sampledb.store" not in typed(clone, [go, "dmscdc table list"])


def rows_of(lake: Path) -> dict[str, int]:
    return {path.name: pq.read_table(path).num_rows for path in lake.iterdir()}


def test_the_explorations_of_the_wheel_find_what_they_import(clone, told, wheel):
    "The notebooks that the wheel brings, in the environment of the README; tests/pages and tests/jobs execute all. Boto3 is asked for by one of them, in words."
    brought = next(clone.glob(".venv/lib/python3*/site-packages/dmscdc/explore"))
    ours, theirs = ({path.name: path.read_bytes() for path in folder.glob("*.ipynb")} for folder in (HOME / "notebooks/explore", brought))
    assert len(ours) >= 6 and ours == theirs
    run = "python -m papermill --log-level ERROR --no-progress-bar"
    lacks = in_demo(clone, f"{run} {brought}/on_a_cluster.ipynb ../cluster.ipynb 2>&1 || true")
    assert "ImportError: AWS needs boto3: pip install 'dmscdc[aws]'" in lacks, lacks
    installed(clone, f"dmscdc[aws] @ {wheel.as_uri()}")
    lines = {
        line
        for book in theirs.values()
        for cell in json.loads(book)["cells"]
        if cell["cell_type"] == "code"
        for line in "".join(cell["source"]).splitlines()
        if re.match("(from|import) ", line)
    }
    (clone / "imports.py").write_text("\n".join(sorted(lines, key=lambda line: "__future__" not in line)))
    in_clone(clone, "python imports.py")


@pytest.mark.torture
def test_the_story_of_a_stream_needs_no_aws_and_no_package_of_it(clone):
    (line,) = [line for line in block("A table of DynamoDB") if "demo" in line]
    folder = line.split()[2]
    in_clone(clone, f"PATH=.venv/bin:/usr/bin:/bin {line} 2> said")
    assert "in memory" in (clone / "said").read_text() and "shop.customer: equal, 124 rows" in (clone / "said").read_text()
    assert "equal as of" in in_clone(clone, f"cd {folder} && dmscdc reconcile shop.customer")


def test_what_prose_and_tables_name(clone, told, tmp_path):
    named = set(re.findall(r"`(dmscdc [^`]+)`", README)) | set(re.findall(r"# or: (dmscdc .*)", README))
    alone = {code for code in named if not re.search(r"--|[A-Z]|:", code)}
    assert named - alone == set(ELSEWHERE), "say here what is typed for it"
    with closing(sqlite3.connect(clone / "shop.db")) as db:
        create_shop(db)
    for name in ("./landing", "DIR"):
        in_clone(
            clone,
            "cp shop.db copy.db",
            f"mkdir -p c{name[-3:]} && cd c{name[-3:]} && cp ../shop.db .",
            f"dmscdc capture sqlite:shop.db --landing {name}",
        )
    assert len(list(clone.glob("c*/*/shop/product/LOAD*.parquet"))) == 2
    script = "echo 'create table product (id int unsigned primary key, name varchar(40))' > shop.sql"
    newer = "sed 's/name varchar(40)/dept text, name text/' shop.sql > new.sql"
    later = ELSEWHERE["dmscdc table columns sampledb.product --ddl new.sql --since 20240705-201037892.csv"]
    said = in_demo(clone, script, ELSEWHERE["dmscdc table columns --ddl shop.sql"], newer, later, "dmscdc table columns sampledb.product --clear")
    assert re.search("id +bigint +yes", said) and re.search("dept +string +20240705-201037892.csv", said) and "no columns set" in said, said
    said = in_demo(
        clone,
        ELSEWHERE["dmscdc pass --master spark://host:7077"],
        *sorted(f"{code}" for code in alone if code.split()[1] not in NAMED),
        "dmscdc runs html",
    )
    assert "3 nothing" in said and "process_table" in said
    run = re.search(r"^([0-9a-f]{8}) +process_table", said, re.MULTILINE)[1]
    assert "inserted" in in_demo(clone, f"dmscdc runs show {run}")


def test_the_suite_for_formats_says_what_it_needs(clone):
    asked = [". .venv/bin/activate", f"{ELSEWHERE['dmscdc conformance FORMAT']} 2>&1 || echo exit $?"]
    assert "the suite needs pytest: pip install pytest" in " ".join(typed(clone, asked).split())  # tests/jobs/test_cli.py runs it


def test_the_commands_for_aws(clone, told, wheel, aws):  # noqa: F811
    installed(clone, f"dmscdc[aws] @ {wheel.as_uri()}")
    client("s3").create_bucket(Bucket="shop", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    for path in (clone / "demo/landing").rglob("*.parquet"):
        client("s3").upload_file(str(path), "shop", f"dms/{path.relative_to(clone / 'demo/landing').as_posix()}")
    env = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    said = typed(clone, [". .venv/bin/activate && mkdir aws && cd aws", *AWS], **env)
    assert all(f"dmscdc table set sampledb.{name} --key id" in " ".join(said.split()) for name in ("store", "product", "productorder"))
