"""The house rules, checked on whatever notebooks there are."""

import ast
import filecmp
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from dmscdc.cli.main import app
from dmscdc.landing.advice import Advice
from rooms import on_this_machine

pytestmark = pytest.mark.quick

HOME = Path(__file__).parents[2]
NOTEBOOKS = HOME / "notebooks"
NUMBERED = sorted([*NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"), *NOTEBOOKS.glob("[0-9][0-9]_*/**/[0-9][0-9]_*.ipynb")])
ROOMS = [path for path in NUMBERED if "default_exp" in path.read_text(encoding="utf-8")]  # the others show files that are kept elsewhere
JOBS = sorted(NOTEBOOKS.glob("jobs/*.ipynb"))
EXPLORE = sorted(NOTEBOOKS.glob("explore/*.ipynb"))
GUIDE = sorted(NOTEBOOKS.glob("guide/*.ipynb"))
ALL = NUMBERED + JOBS + EXPLORE + GUIDE + sorted(NOTEBOOKS.glob("[!0-9]*.ipynb"))


def module_of(path: Path) -> str:
    "What a notebook exports or would export: errors, load.plan, lake.parquet.transaction_log, explore.tour."
    return ".".join(re.sub(r"^\d+_", "", part) for part in path.relative_to(NOTEBOOKS).with_suffix("").parts)


ORDER = {module_of(path): number for number, path in enumerate(ROOMS)}  # of reading
NAMES = {"ids": module_of}


def cells(path: Path, kind: str = "code") -> list[dict]:
    "The cells of a notebook with their source as one text."
    book = json.loads(path.read_text(encoding="utf-8"))
    return [{**cell, "source": "".join(cell["source"])} for cell in book["cells"] if cell["cell_type"] == kind]


def is_exported(source: str) -> bool:
    "Whether nbdev exports a cell: a directive on any of its first lines."
    return bool(re.search(r"^#\|\s*export(s|i)?\b", source, re.MULTILINE))


def exported(path: Path) -> list[str]:
    "Sources of the cells that a notebook exports."
    return [cell["source"] for cell in cells(path) if is_exported(cell["source"])]


def python(source: str) -> ast.Module:
    "The syntax tree of a cell, without magics."
    return ast.parse("\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()))


def imported(source: str) -> set[str]:
    "Modules of dmscdc that a cell imports, or whatever it takes from a package that is not a module."
    nodes = list(ast.walk(python(source)))
    found = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            is_room = node.module.removeprefix("dmscdc.") in ORDER
            found |= {node.module} if is_room else {f"{node.module}.{name.name}" for name in node.names if name.name[0] != "_"}
    return {name.removeprefix("dmscdc.") for name in found if name.startswith("dmscdc.")}


def test_modules_are_what_the_notebooks_export(tmp_path):
    for name in ("settings.ini", "notebooks", "dmscdc"):
        source = HOME / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        else:
            shutil.copy(source, tmp_path / name)
    for module in (tmp_path / "dmscdc").rglob("*.py"):
        if module.name != "__init__.py":  # what a package offers, a list of names: test_faces.py
            module.unlink()
    run = subprocess.run(
        [str(Path(sys.executable).parent / "nbdev_export")], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""}
    )
    assert run.returncode == 0, run.stderr
    ours, made = ({str(path.relative_to(folder)) for path in folder.rglob("*.py")} for folder in (HOME / "dmscdc", tmp_path / "dmscdc"))
    assert ours == made and len(ours) > len(ROOMS), "modules without a notebook, or notebooks without a module: run nbdev_export"
    _, differ, errors = filecmp.cmpfiles(HOME / "dmscdc", tmp_path / "dmscdc", sorted(ours), shallow=False)
    assert not differ + errors, f"run nbdev_export: {differ + errors} are not what their notebooks export"


@pytest.mark.parametrize("path", ROOMS, **NAMES)
def test_a_notebook_begins_with_its_module_its_subject_and_one_line(path):
    book = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first, title = "".join(book[0]["source"]), "".join(book[1]["source"])
    assert first.strip() == f"#| default_exp {module_of(path)}"
    lines = [line for line in title.splitlines() if line.strip()]
    assert re.match(r"# \S", lines[0]) and re.match(r"> \S", lines[1]) and len(lines[1]) <= 100, title


ARROWS = {  # the packages, in the order of reading, and those that the exported code of each may import; errors are for all
    "errors": "",
    "storage": "",
    "landing": "storage",
    "capture": "storage landing",
    "spark": "storage landing",
    "changes": "storage landing",
    "state": "storage landing",
    "lake": "storage landing spark changes state",
    "load": "storage landing spark changes state lake",
    "runs": "storage landing spark",
    "history": "storage landing changes state lake runs",
    "scd2": "storage landing spark changes state lake history",
    "reconcile": "storage landing capture spark changes state lake history",
    "service": "storage landing spark changes state lake load runs reconcile",
    "doctor": "storage landing spark changes state lake load runs service",
    "stream": "storage landing capture spark changes state reconcile service",
    "deploy": "landing capture runs spark service",
    "cli": "storage landing capture spark changes state lake load runs history scd2 reconcile service doctor stream deploy",
    "analyst": "storage landing spark changes lake runs history service cli deploy",
}


def test_packages_lie_in_the_order_of_reading_with_an_arrow_for_each_import():
    found = {}
    for path in ROOMS:
        mine = module_of(path).split(".")[0]
        found.setdefault(mine, set()).update(module.split(".")[0] for source in exported(path) for module in imported(source))
    assert list(found) == list(ARROWS)
    upwards = {
        mine: far for mine, names in ARROWS.items() if (far := [one for one in names.split() if list(ARROWS).index(one) >= list(ARROWS).index(mine)])
    }
    assert not upwards
    extra = {mine: far for mine, packages in found.items() if (far := packages - {mine, "errors"} - set(ARROWS[mine].split()))}
    assert not extra, "an arrow that is not in the table: import it elsewhere, or say here why not"


@pytest.mark.parametrize("path", ROOMS, **NAMES)
def test_a_notebook_imports_only_what_is_read_before_it(path):
    for cell in cells(path):
        for module in imported(cell["source"]):
            assert module in ORDER, f"{module_of(path)} imports dmscdc.{module}, which no notebook exports"
            # A room may show first what it makes.
            is_shown_first = module == module_of(path) and not is_exported(cell["source"])
            assert is_shown_first or ORDER[module] < ORDER[module_of(path)], f"{module_of(path)} imports dmscdc.{module}, which is read after it"


def test_every_notebook_of_a_package_has_a_number_and_a_directive_of_its_own_line():
    every = [path for path in NOTEBOOKS.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts]
    assert sorted(every) == sorted(ALL), f"no rule looks at {sorted(set(every) - set(ALL))}"
    for path in ROOMS:
        for cell in cells(path):
            odd = re.findall(r"(?m)^#\|\s*(eval:.*|export.*|hide.*)$", cell["source"])
            assert not [one for one in odd if one not in ("eval: false", "export", "exports", "hide")], f"{module_of(path)}: {odd}"
            assert not (is_exported(cell["source"]) and not re.match(r"#\|\s*exports?\b", cell["source"])), (
                f"{module_of(path)}: a directive before its export"
            )


SCRIPTS = sorted([*(HOME / "bench").rglob("*.py"), *(HOME / "runs").rglob("*.py"), *(HOME / "tests").rglob("*.py")])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(HOME)))
def test_a_script_takes_only_names_that_are_there(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dmscdc"):
            source = HOME.joinpath(*node.module.split("."))
            text = (source / "__init__.py" if source.is_dir() else source.with_suffix(".py")).read_text(encoding="utf-8")
            missing = [
                one.name
                for one in node.names
                if not re.search(rf"\b{re.escape(one.name)}\b", text)
                and not (source / f"{one.name}.py").exists()
                and not (source / one.name).is_dir()
            ]
            assert not missing, f"{node.module} has no {', '.join(missing)}"


def test_no_two_notebooks_or_packages_of_a_folder_have_one_number():
    every = {part for path in ROOMS for part in (path, *path.parents) if NOTEBOOKS in part.parents}
    assert len({(part.parent, part.name[:2]) for part in every}) == len(every) > len(ROOMS)


COMMON = {  # beside each other, what asks may use these: files, places and sessions; what one raw row or file says; state, runs and pictures
    *(
        "errors",
        "storage.filesystem",
        "storage.log_store",
        "landing.advice",
        "landing.files",
        "landing.joined",
        "landing.partition_transforms",
        "landing.load_set",
        "landing.s3",
    ),
    *(
        "spark.formats",
        "spark.jars",
        "spark.session",
        "changes.schema",
        "changes.derived",
        "changes.read",
        "changes.partition_runners",
        "changes.csv_values",
        "changes.options",
        "changes.csv_file",
        "changes.csv_fit",
        "changes.csv_refusals",
        "changes.csv_layout",
        "changes.corrections",
        "changes.csv_rows",
        "changes.rewrite",
        "state.position",
        "state.items",
        "state.registry",
    ),
    *("runs.store", "runs.log", "runs.report", "runs.charts", "runs.index"),
}
SHARED = {  # rooms at which the closure ends, and the names that may be taken from them: how a lake is opened, read and written, never what stands in its rows
    "lake.table": {
        "LakeTable",
        "Commit",
        "PendingCommit",
        "Transaction",
        "CommitMetrics",
        "PlainFile",
        "VERSIONS",
        "open_lake",
        "open_table",
        "lake_columns",
        "NEW",
        "SAMPLE",
        "origin_of",
        "shown_row",
    },  # and how a changed row looks in a report
    "changes.quarantine": {
        "KEYLESS",
        "quarantine_folder_of",
        "read_quarantined",
    },  # which rows the loader has quarantined, as it has written them down
    "capture.items": {"SEQUENCE", "scan", "write_rows"},  # what an item of DynamoDB is as a row; the files of a stream are written by it
    "changes.definition": {"read_catalog"},  # the types in a source's catalogue; only what is lost of them is told, nothing is compared by them
    "changes.fold": {"FoldResult"},  # its counts, and
    "changes.stage": {"Batch", "batch_types"},  # the form in which a type-2 table hands its rows to the lake's writer
}
ASKS = ("history", "scd2", "reconcile")


def taken(path: Path) -> dict[str, set[str]]:
    "Names that the exported cells of a notebook import, by room of dmscdc."
    every = [node for source in exported(path) for node in ast.walk(python(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    packages = {"dmscdc"} | {f"dmscdc.{'.'.join(module.split('.')[:depth])}" for module in ORDER for depth in range(1, module.count(".") + 1)}
    whole = [node for node in every if getattr(node, "module", None) in packages or any(name.name.startswith("dmscdc.") for name in node.names)]
    assert not whole, f"{path.stem} imports a whole module in line {whole[0].lineno} of a cell: from dmscdc.room import names"
    nodes = [node for node in every if (getattr(node, "module", None) or "").startswith("dmscdc.")]
    return {
        room: {name.name for node in nodes if node.module == f"dmscdc.{room}" for name in node.names} for room in {node.module[7:] for node in nodes}
    }


@pytest.mark.parametrize("path", [path for path in ROOMS if module_of(path).split(".")[0] in ASKS], **NAMES)
def test_what_asks_shares_no_code_with_what_loads(path):
    by_name, seen, todo = {module_of(room): room for room in ROOMS}, {}, [module_of(path)]
    while todo:
        asks = todo.pop()
        for room, names in taken(by_name[asks]).items():
            if room in SHARED:
                assert names <= SHARED[room], f"{asks} takes {names - SHARED[room]} from {room}"
            elif room not in seen:
                seen[room] = asks
                todo.append(room)
    assert not {room: asks for room, asks in seen.items() if room not in COMMON and room.split(".")[0] not in ASKS}


@pytest.mark.parametrize("path", ROOMS, **NAMES)
def test_no_exported_line_is_longer_than_120_characters(path):
    long = {line.strip()[:60]: len(line) for source in exported(path) for line in source.splitlines() if len(line) > 120}
    assert not long, f"exported lines of more than 120 characters: {long}"


@pytest.mark.parametrize("path", ROOMS, **NAMES)
def test_what_is_public_says_what_it_does_and_is_annotated(path):
    for source in exported(path):
        for node in python(source).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path.name}: {node.name} has no docstring"
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                assert node.returns is not None and all(one.annotation for one in every), f"{path.name}: {node.name} is not annotated"


@pytest.mark.parametrize("path", ALL, **NAMES)
def test_notebooks_are_clean(path):
    book = json.loads(path.read_text(encoding="utf-8"))
    assert set(book["metadata"]) <= {"kernelspec"}, "run nbdev_clean"
    assert book["metadata"].get("kernelspec", {}).get("name", "python3") == "python3"
    for cell in book["cells"]:
        assert cell.get("execution_count") is None and set(cell["metadata"]) <= {"tags", "jupyter"}, "run nbdev_clean"
        # JupyterLab knows nothing of `#| hide`; a reader of the guide sees its setup folded.
        is_setup = path.parent.name == "guide" and "".join(cell["source"]).startswith("#| hide")
        assert not is_setup or cell["metadata"].get("jupyter") == {"source_hidden": True}, cell["source"]
        assert all(output.get("execution_count") is None for output in cell.get("outputs", [])), "run nbdev_clean"


@pytest.mark.parametrize("path", ALL, **NAMES)
def test_no_machine_and_no_secret_in_what_is_shown(path):
    assert not on_this_machine([cell.get("outputs", []) for cell in cells(path)])


@pytest.mark.parametrize("path", JOBS, **NAMES)
def test_a_job_has_one_parameters_cell_of_literals(path):
    found = cells(path)
    tagged = [cell["source"] for cell in found if "parameters" in cell["metadata"].get("tags", [])]
    assert len(tagged) == 1
    assert all(isinstance(node, (ast.Assign, ast.AnnAssign)) for node in python(tagged[0]).body)
    for node in python(tagged[0]).body:
        ast.literal_eval(node.value)
    assert all("#" in line for line in tagged[0].splitlines() if line.strip()), "one parameter a line, with type and comment"


@pytest.mark.parametrize("path", JOBS, **NAMES)
def test_a_job_only_calls(path):
    for cell in cells(path):
        kinds = {type(node).__name__ for node in ast.walk(python(cell["source"]))}
        assert not kinds & {"FunctionDef", "ClassDef", "AsyncFunctionDef", "For", "While"}, f"{path.name} defines or loops"
    assert any('record("verdict"' in cell["source"] for cell in cells(path)), "a job records its verdict"


@pytest.mark.parametrize("path", JOBS, **NAMES)
def test_jobs_are_committed_without_outputs(path):
    assert not any(cell["outputs"] for cell in cells(path)), "a run keeps its own"


@pytest.mark.parametrize("folder", ["jobs", "explore"])
def test_jobs_and_explorations_are_left_to_pytest(folder):
    if list((NOTEBOOKS / folder).glob("*.ipynb")):
        assert (NOTEBOOKS / folder / ".notest").exists()


def test_every_page_stands_alone():
    "Nothing comes from elsewhere, and the one script is our own file, which asks for nothing: its fingerprint stands in the page's policy."
    for path in sorted((HOME / "dmscdc" / "pages").iterdir()):
        text = path.read_text(encoding="utf-8")
        scripts, policy = re.findall(r"<script.*?</script>|<script[^>]*>", text, re.DOTALL), re.findall(r"default-src 'none'(.*)\"", text)
        assert scripts in ([], ["<script>{{ script }}</script>"]) and (not scripts or "script-src '{{ script_hash }}'" in policy[0]), path.name
        assert not re.search(r"""<link|<iframe|\bsrc\s*=|\bon\w+\s*=\s*["']|javascript:|@import|url\(|https?://|unsafe-eval""", text), path.name
        assert "<!doctype" not in text or policy, path.name
        assert path.suffix != ".js" or not re.search(
            r"fetch|XMLHttp|import\b|WebSocket|sendBeacon|innerHTML|eval\b|localStorage|cookie|window\.open|location", text
        )


def test_no_two_modules_of_tests_have_one_name():
    "All of them share one path: pytest would take the first for both."
    names = [path.name for path in (HOME / "tests").rglob("*.py") if path.name not in ("conftest.py", "sitecustomize.py")]
    assert len(names) > 50 and sorted(names) == sorted(set(names))


def test_no_cell_is_left_out_of_the_tests_by_a_mark():
    marks = re.search(r"tst_flags = (.*)", (HOME / "settings.ini").read_text())[1].split()
    sources = [(module_of(path), cell["source"]) for path in [*ROOMS, *JOBS, *EXPLORE, *GUIDE] for cell in cells(path)]
    left = [path for path, source in sources if re.search(rf"^#\| *({'|'.join(marks)})\b", source, re.M)]
    assert len(sources) > 1000 and len(marks) == 3 and not left
    assert [path for path, source in sources if re.search(r"^#\| *eval: *false", source, re.M)] == ["lake.hudi"] * 3 + [
        "cli.main"
    ]  # Hudi's Spark, see tests/formats; the story, which tests/jobs types


TYPED = re.compile(r"dmscdc (?:pass|plan|as-of|feed|scd2|history|reconcile|table (?:\w+|\0))(?: --only)? \Z")


def named(module: Path):
    "What stands for a table in the commands that a module prints: the source of each value behind `dmscdc … `, with its line."
    for text in [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.JoinedStr)]:
        before = ""
        for part in text.values:
            if isinstance(part, ast.Constant):
                before += part.value
            else:
                if TYPED.search(before):
                    yield part.lineno, ast.unparse(part.value)
                before += "\0"


def test_a_table_in_a_printed_command_is_quoted_for_the_shell():
    found = [(module.name, line, value) for module in sorted((NOTEBOOKS.parent / "dmscdc").rglob("*.py")) for line, value in named(module)]
    assert len(found) > 5, found
    assert [at for at in found if not at[2].startswith("for_shell(")] == []


def test_every_advice_is_a_command_with_arguments_and_options_that_there_are():
    facts = {"old": "a", "new": "b", "file": "20181215-100311204.parquet", "format": "delta", "landing": "dms", "lake": "lake", "folder": "cdc"}
    facts |= {"stream": "orders", "source": "dynamodb:orders"}
    options = {Advice.SET: "--key id", Advice.COLUMNS: "--ddl FILE", Advice.TABLE_INIT: "--state dynamodb:State"}
    options |= {Advice.FIND: "id=1", Advice.HISTORY: "--where 'id = 1'"}
    for advice in Advice:
        _, *words = shlex.split(advice("sampledb.odd name", options.get(advice, ""), **facts))
        command = typer.main.get_command(app)
        while isinstance(command, typer.core.TyperGroup):
            command = command.commands[words.pop(0)]
        command.make_context(command.name, words)  # raises for what the command does not take


def test_no_expression_of_spark_is_built_before_the_session_that_is_opened_on_demand():
    trees = {module: ast.parse(module.read_text()) for module in sorted((HOME / "dmscdc").rglob("*.py"))}
    loading = [
        node
        for module, tree in trees.items()
        if module.parent == HOME / "dmscdc/load"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    given: set[str] = set()  # functions that get a session on demand, in load also from another one that has it
    for _ in range(9):
        for node in loading:
            sessions = {one.arg for one in node.args.args if node.name in given and one.annotation and "SparkSession" in ast.unparse(one.annotation)}
            for call in (one for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)):
                words = {ast.unparse(one) for one in call.args}
                if "step.spark" in words or words & sessions and call.func.id in {one.name for one in loading}:
                    given.add(call.func.id)
    early, seen = [], 0
    for node in (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        opens = [
            one.arg
            for one in node.args.args
            if one.annotation
            and (ast.unparse(one.annotation) == "OpenSession" or node.name in given and "SparkSession" in ast.unparse(one.annotation))
        ]
        names = [one for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
        built, opened = ([(one.lineno, one.col_offset) for one in names if one.id in wanted] for wanted in (("F",), opens))
        if opens and built:
            seen += 1
            early += [node.name] * (not opened or min(built) < min(opened))
    assert seen > 5 and not early, early
