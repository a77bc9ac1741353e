"""A run ends with a verdict, a cause and words, whatever ends it; its notebook, page and run log line are always there."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from papermill.iorw import LocalHandler

import dmscdc.runs.run as module
from dmscdc.errors import NoSuchJob, RefusedParameters
from dmscdc.runs.fork import ForkServer
from dmscdc.runs.log import RunLog, rebuild, records
from dmscdc.runs.run import close_lost

pytestmark = pytest.mark.proof

run_notebook = module.run_notebook  # with `kernels`
WAIT = "threading.Event().wait(50)"
MARK = "only_the_code_says_this = 1"


def kernels_at_work(of: int | None = None) -> list[psutil.Process]:
    "Kernels below this process, or below another one: new processes, and forked ones. A zombie has ended, and so has a child that goes while we look: neither is one."
    found = []
    for child in psutil.Process(of).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # psutil.ZombieProcess is one of them
            words, above = (" ".join(process.cmdline()) for process in (child, child.parent()))
            if child.status() != psutil.STATUS_ZOMBIE and ("ipykernel.kernelapp" in words or "serve_forks" in words and words == above):
                found.append(child)
    return found


@pytest.fixture(scope="module", autouse=True, params=["forked", pytest.param("new", marks=pytest.mark.torture)])
def kernels(request):
    "How kernels start: forked, as in a pass on Linux, or each a new process."
    forks = ForkServer("this, dmscdc.runs.log", os.environ) if request.param == "forked" else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "run_notebook", partial(module.run_notebook, forks=forks))
        yield
    if forks:
        forks.close()


@pytest.fixture(scope="module")
def runs(kernels, tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def ends(kernels, a_job, says, runs):
    "One run for every way to end."
    cells = {
        "ok": (MARK, says("ok", "27 rows")),
        "nothing": (MARK, says("nothing")),
        "attention": (MARK, says("attention", "a late file <b>needs</b> a person")),
        "raises": (says("ok"), "store = 1009\nraise ValueError(f'store {store} has two addresses')"),
        "says_no": ("class Refused(Exception): pass", "raise Refused('LOAD1, row 3: Op is X')"),
        "no_verdict": (MARK,),
        "unknown_verdict": (says("great"),),
        "left_early": ("sys.exit(0)", says("ok")),
        "killed": (says("ok"), "os.kill(os.getpid(), 9)", MARK),
        "aborted": ("os.abort()",),
        "waits": ("print('before it hung')", WAIT),
    }
    limits = {"waits": 4}
    given = lambda name: {"runs": runs, "table": f"shop.{name}", "timeout": limits.get(name), "run_id": name}  # noqa: E731
    with ThreadPoolExecutor(4) as pool:
        jobs = {name: a_job(name, *source) for name, source in cells.items()}
        done = {name: pool.submit(run_notebook, job, {"table": f"shop.{name}"}, **given(name)) for name, job in jobs.items()}
        return {name: run.result() for name, run in done.items()}


@pytest.mark.parametrize(
    "name, verdict, cause, code, words",
    [
        ("ok", "ok", "", 0, "27 rows"),
        ("nothing", "nothing", "", 0, "as expected"),
        ("attention", "attention", "", 3, "a late file <b>needs</b> a person"),
        ("raises", "failed", "cell error", 1, "ValueError in cell [5]: store 1009 has two addresses"),
        ("says_no", "refused", "cell error", 1, "LOAD1, row 3: Op is X"),
        ("no_verdict", "failed", "", 1, "the notebook ran to its end but recorded no verdict"),
        ("unknown_verdict", "failed", "", 1, "the notebook recorded a verdict that is none: 'great'"),
        ("left_early", "failed", "", 1, "the notebook ran to its end but recorded no verdict"),
        ("killed", "failed", "kernel killed", 1, "the kernel was killed by SIGKILL: by a person, or by the machine when its memory was full"),
        ("aborted", "failed", "kernel killed", 1, "the kernel was killed by SIGABRT"),
        ("waits", "failed", "time-out", 1, "not done after 4 seconds, so it was ended"),
    ],
)
def test_every_end_has_its_verdict_cause_words_and_exit_code(ends, runs, name, verdict, cause, code, words):
    run = ends[name]
    assert (run.verdict, run.cause, run.exit_code, run.words) == (verdict, cause, code, words)
    [line] = [line for line in RunLog(runs).runs() if line.run == name]
    assert (line.verdict, line.cause, line.words, line.table) == (verdict, cause, words, f"shop.{name}")
    page = run.html.read_text()
    banner = page[page.index('class="banner') : page.index("</section>")]
    assert f'class="banner {verdict}"' in banner and (cause in banner) and run.command in banner
    assert words.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;") in banner


def test_a_notebook_and_its_page_lie_side_by_side_under_job_and_table(ends, runs):
    for name, run in ends.items():
        assert run.notebook.parent == runs / name / f"shop.{name}"
        assert re.fullmatch(rf"\d{{8}}T\d{{9}}Z-{name}\.ipynb", run.notebook.name)
        assert sorted(run.notebook.parent.iterdir()) == [run.html, run.notebook]


def test_pages_are_small_and_have_no_code_no_scripts_and_no_network(ends):
    for run in ends.values():
        page = run.html.read_text()
        assert len(page.encode()) < 300_000
        assert "only_the_code_says_this" not in page and "record(" not in page
        assert not re.search(r"""<script|<link|<iframe|<object|\bsrc\s*=\s*["']?(?!data:)|@import|url\(""", page, re.IGNORECASE)


def test_a_failed_cell_shows_its_traceback_in_colours(ends):
    assert '<span class="ansi-red-fg">ValueError</span>' in ends["raises"].html.read_text()


def test_a_run_that_was_ended_shows_where_it_hung(ends):
    page = ends["waits"].html.read_text()
    assert "before it hung" in page and "KeyboardInterrupt" in page


def test_the_cell_in_which_a_kernel_died_is_not_called_completed(ends):
    cells = json.loads(ends["killed"].notebook.read_text())["cells"]
    assert [cell["metadata"]["papermill"]["status"] for cell in cells[-2:]] == ["failed", "pending"]


def test_records_are_kept_of_failed_runs_too(ends):
    assert (
        records(ends["killed"].notebook)
        == ends["killed"].records
        == {"verdict": {"verdict": "ok", "words": "as expected", "command": "run it again"}}
    )


def test_no_kernel_outlives_its_run(ends):
    assert kernels_at_work() == []


def test_a_lost_ledger_is_rebuilt_from_the_notebooks(ends, runs):
    run_log = RunLog(runs)
    before = sorted(run_log.runs(), key=lambda line: line.run)
    run_log.path.write_text('{"run": "torn"')
    assert rebuild(runs) == len(ends)
    assert sorted(run_log.runs(), key=lambda line: line.run) == before


def test_a_killed_kernel_is_noticed_at_once(a_job, tmp_path):
    after = tmp_path / "after"
    job = a_job("quick_death", "os.kill(os.getpid(), 9)", f"open({str(after)!r}, 'w').close()")
    run = run_notebook(job, {}, runs=tmp_path / "runs", timeout=60)
    assert run.cause == "kernel killed"  # a death that is noticed only when the time is over is a time-out
    assert not after.exists()


def test_a_secret_that_holds_another_is_removed_whole():
    from dmscdc.runs.run import without_secrets

    env = {"SHORT_PASSWORD": "abcd", "LONG_PASSWORD": "abcd-9xyz", "HOST": "db", "URL": "jdbc:x?password=abcd-9xyz-more"}
    assert without_secrets("one abcd-9xyz-more, two abcd-9xyz, three abcd", env) == "one *****, two *****, three *****"


@pytest.mark.parametrize("parameters, words", [
    ({"tabel": "shop.store"}, "does not know 'tabel'; its parameters: table, rows"),
    ({"table": "mysql://admin:hunter2@db/shop"}, "its value looks like a URL with a password"),
    ({"table": "sc://localhost:15002/;token=hunter2"}, "its value looks like a token or password"),
    ({"table": ["a", {"b": "AKIA" + "IOSFODNN7EXAMPLE"}]}, "its value looks like an AWS key"),
    ({"table": {"password": "hunter2"}}, "the name `password` says that it is a secret"),
])  # fmt: skip
def test_unknown_and_secret_parameters_are_refused_before_anything_starts(a_job, says, tmp_path, parameters, words):
    with pytest.raises(RefusedParameters) as refused:
        run_notebook(a_job("count", says("ok")), parameters, runs=tmp_path / "runs", table="shop.store")
    assert words in str(refused.value) and "hunter2" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_a_job_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NoSuchJob, match="no job `proces_table`"):
        run_notebook("proces_table", {}, runs=tmp_path)


def test_the_environment_reaches_the_kernel_and_never_the_kept_files(a_job, tmp_path):
    job = a_job("leaky", "print(os.environ['SPARK_REMOTE'])", "raise OSError('no answer from ' + os.environ['SPARK_REMOTE'])")
    run = run_notebook(job, {}, runs=tmp_path, env={"SPARK_REMOTE": "sc://localhost:15002/;token=abc123xyz"})
    assert run.words == "OSError in cell [4]: no answer from sc://localhost:15002/;token=*****"
    for kept in (run.notebook, run.html, RunLog(tmp_path).path):
        assert "abc123xyz" not in kept.read_text()


def test_the_process_keeps_its_environment_and_folder(a_job, says, tmp_path):
    before = dict(os.environ), os.getcwd()
    run_notebook(a_job("quiet", says("ok")), {}, runs=tmp_path, env={"DMSCDC_TEST": "1"})
    assert (dict(os.environ), os.getcwd()) == before


def test_kernel_specs_of_the_user_do_not_matter(a_job, says, tmp_path, monkeypatch):
    bogus = tmp_path / "jupyter" / "kernels" / "python3"
    bogus.mkdir(parents=True)
    (bogus / "kernel.json").write_text(json.dumps({"argv": ["/bin/false", "{connection_file}"], "display_name": "x", "language": "python"}))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    run = run_notebook(a_job("which", 'record("python", sys.executable)', says("ok")), {}, runs=tmp_path / "runs")
    assert (run.verdict, run.records["python"]) == ("ok", sys.executable)


@pytest.mark.parametrize(
    "words, cause", [("the Spark server died (exit code 137)", "server died"), ("the Spark server ran out of memory", "server out of memory")]
)
def test_a_cell_that_failed_because_the_server_died_says_so(a_job, tmp_path, words, cause):
    job = a_job("lost_server", "raise ConnectionError('Connection refused')")

    def server_death():  # the news comes with the error
        kept = list((tmp_path / "lost_server").glob("*.ipynb"))
        return words if kept and "ConnectionError" in kept[0].read_text() else ""

    run = run_notebook(job, {}, runs=tmp_path, server_death=server_death)
    assert (run.verdict, run.cause, run.words) == ("failed", cause, words)


def test_a_cell_that_waits_for_a_dead_server_is_ended(a_job, tmp_path):
    here = tmp_path / "here"
    job = a_job("waits_for_server", f"open({str(here)!r}, 'w').close()", WAIT)
    run = run_notebook(job, {}, runs=tmp_path / "runs", timeout=60, server_death=lambda: "the Spark server was killed" if here.exists() else "")
    assert (run.cause, run.words) == ("server died", "the Spark server was killed")


def test_an_error_of_a_cell_stays_one_while_the_server_lives(a_job, tmp_path):
    run = run_notebook(a_job("own_fault", "1 / 0"), {}, runs=tmp_path, server_death=lambda: "")
    assert (run.cause, run.words) == ("cell error", "ZeroDivisionError in cell [3]: division by zero")


def test_a_run_can_be_stopped(a_job, tmp_path):
    stop, here = threading.Event(), tmp_path / "here"
    job = a_job("stopped", f"open({str(here)!r}, 'w').close()", WAIT)
    run = run_notebook(job, {}, runs=tmp_path / "runs", stop=stop, server_death=lambda: stop.set() or "" if here.exists() else "")
    assert (run.verdict, run.cause, run.words) == ("failed", "stopped", "stopped on request before it was done")


def test_a_run_that_is_stopped_while_its_kernel_starts_says_so_in_a_line_and_prints_no_traceback(a_job, tmp_path, capfd):
    stop = threading.Event()
    stop.set()
    run = run_notebook(a_job("never_begun", "1"), {}, runs=tmp_path, stop=stop)
    assert (run.verdict, run.cause, run.words) == ("failed", "stopped", "stopped on request before it was done")
    assert "".join(capfd.readouterr()) == "" and kernels_at_work() == []


def test_ctrl_c_ends_the_kernel_and_keeps_the_run(a_job, tmp_path):
    job = a_job("interrupts", "import signal", f"os.kill({os.getpid()}, signal.SIGINT)\n{WAIT}")
    with pytest.raises(KeyboardInterrupt):
        run_notebook(job, {}, runs=tmp_path)
    [line] = RunLog(tmp_path).runs()
    assert (line.verdict, line.cause) == ("failed", "stopped") and (tmp_path / line.html).exists()
    assert kernels_at_work() == []


def at_work(process: psutil.Process) -> bool:
    "Not ended; one that has ended and for which nobody waits is still in the list of processes."
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_a_killed_kernel_started_is_gone_too(a_job, tmp_path):
    job = a_job(
        "parent",
        f"import subprocess\nrecord('child', subprocess.Popen([sys.executable, '-c', 'import threading; {WAIT}']).pid)",
        "os.kill(os.getpid(), 9)",
    )
    child = run_notebook(job, {}, runs=tmp_path).records["child"]
    assert not psutil.pid_exists(child) or not at_work(psutil.Process(child))


def test_a_run_whose_process_was_killed_is_closed_by_the_next_pass(a_job, tmp_path):
    job = a_job(
        "orphan", f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\nprint('ready', file=open({str(tmp_path / 'here')!r}, 'w'))", WAIT
    )
    code = f"from dmscdc.runs.run import run_notebook; run_notebook({str(job)!r}, {{}}, runs={str(tmp_path / 'runs')!r}, table='shop.orphan')"
    controller = subprocess.Popen([sys.executable, "-c", code])
    while not (tmp_path / "here").exists():
        assert controller.poll() is None
        threading.Event().wait(0.1)
    assert close_lost(tmp_path / "runs") == []  # it goes on
    kernel = psutil.Process(int((tmp_path / "pid").read_text()))
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    until = time.monotonic() + 30
    while at_work(kernel):  # a kernel without its controller ends by itself
        assert time.monotonic() < until
        threading.Event().wait(0.1)
    [run] = close_lost(tmp_path / "runs")
    assert (run.table, run.verdict, run.cause) == ("shop.orphan", "failed", "stopped") and run.html.exists()
    assert [line.run for line in RunLog(tmp_path / "runs").runs()] == [run.id] and close_lost(tmp_path / "runs") == []


@pytest.mark.parametrize("lost", ["the line", "the page"])
def test_a_run_whose_process_was_killed_while_it_was_kept_gets_its_line_and_its_page_once(a_job, says, tmp_path, monkeypatch, lost):
    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(*((RunLog, "append") if lost == "the line" else (module, "report_html")), die)
        with pytest.raises(Killed):
            run_notebook(a_job("count", says("ok")), {}, runs=tmp_path, table="shop.item")
    assert close_lost(tmp_path) == [] and len(list(tmp_path.rglob("2*.html"))) == 1
    assert [(line.table, line.verdict) for line in RunLog(tmp_path).runs()] == [("shop.item", "ok")]


def test_names_of_tables_and_folders_are_taken_as_they_stand(a_job, says, tmp_path):
    run = run_notebook(a_job("count", says("ok")), {"table": "sh/op.{x}"}, runs=tmp_path / "{runs}", table="sh/op.{x}")
    assert run.verdict == "ok" and run.notebook.parent.parent == tmp_path / "{runs}" / "count"
    assert RunLog(tmp_path / "{runs}").runs()[0].table == "sh/op.{x}"


def test_a_notebook_torn_inside_a_letter_still_has_its_page_and_its_line(a_job, says, tmp_path, monkeypatch):
    """The disk is full in the middle of an ö: papermill's own writer is stopped there."""

    def full(self, text, path):
        Path(path).write_bytes(text.encode().partition(b"Malm\xc3")[0] + b"Malm\xc3")
        if "Malmö" in text:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LocalHandler, "write", full)
    run = run_notebook(a_job("torn", "store = 'Malmö'", says("ok")), {}, runs=tmp_path, table="shop.store", run_id="torn")
    assert (run.verdict, run.records) == ("failed", {}) and "No space left on device" in run.words
    assert "The notebook of this run could not be read." in run.html.read_text()
    assert [line.run for line in RunLog(tmp_path).runs()] == ["torn"] and rebuild(tmp_path) == 1


def test_an_error_out_of_a_task_of_spark_is_one_sentence_and_its_trace_stays_in_the_report(a_job, tmp_path):
    trace = "Job aborted: Traceback (most recent call last):\\n  File \"/lib/fold.py\", line 7, in fold\\n    x = 1 / 0\\npyarrow.lib.ArrowInvalid: Failed to parse string: \\'noon\\'\\n\\nJVM stacktrace: a.b.C"
    run = run_notebook(a_job("out_of_a_task", f"class PythonException(Exception): pass\nraise PythonException('{trace}')"), {}, runs=tmp_path)
    assert (
        (run.verdict, run.cause) == ("failed", "cell error") and "\n" not in run.words and "Traceback" not in run.words and "fold.py" not in run.words
    )
    assert (
        run.words
        == "PythonException in cell [3]: pyarrow.lib.ArrowInvalid: Failed to parse string: 'noon'. Nobody expected that: it is a fault in dmscdc, and the trace is in the report"
    )
    page = run.html.read_text()
    assert "/lib/fold.py" in page[page.index("<details") :] and "/lib/fold.py" not in page[: page.index("<details")]
