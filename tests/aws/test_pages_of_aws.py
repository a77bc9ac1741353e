"What the pages beside the templates say: operations and options of their `aws` lines are those of botocore's models, and the bill counts the requests that are made."

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator

from aws.worlds import NAMES, SCHEMA, BucketWorld
from ways import taken
from world import replayed

pytestmark = pytest.mark.proof

INFRA = Path(__file__).parents[2] / "infra"
OURS = ("s3", "cloudformation deploy")  # commands of the command line alone
COMMANDS = sorted(
    {
        command.replace("\\\n", " ").strip()
        for page in ("README.md", "readers.md")
        for command in re.findall(r"^ *`?(aws (?:[^\n`]*\\\n)*[^\n`]*)", (INFRA / page).read_text(), re.MULTILINE)
    }
)


def asked(command: str) -> tuple[str, str, dict[str, object]]:
    "Service, operation and parameters of an `aws` line."
    _, service, name, *words = shlex.split(command)
    camel = lambda text: "".join(map(str.capitalize, text.split("-")))
    operation = camel(name) if name != "wait" else get_session().get_waiter_model(service).get_waiter(camel(words.pop(0))).operation
    given: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            given[word[2:]] = []
        else:
            given[[*given][-1]].append(word)
    return service, operation, given


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith(tuple(f"aws {ours}" for ours in OURS))])
def test_an_aws_line_names_an_operation_and_options_that_there_are(command):
    service, operation, given = asked(command)
    shape = get_session().get_service_model(service).operation_model(operation).input_shape
    members = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower(): name for name in shape.members}
    general = {"query", "output", "region"}
    flags = {name.removeprefix("no-") for name, values in given.items() if not values}
    assert {name if name in members else name.removeprefix("no-") for name in given} <= {*members, *general}, command
    required = {name for name, member in members.items() if member in shape.required_members}
    assert required <= {*given}, command
    for name in {*given} - general - flags:
        member = shape.members[members[name]]
        if member.type_name == "structure" and given[name][0].startswith("{"):
            assert not ParamValidator().validate(json.loads(given[name][0]), member).has_errors(), command
        elif member.type_name == "structure":
            assert given[name][0].split("=")[0] in member.members, command
        elif member.type_name == "list" and getattr(member.member, "enum", None):
            assert {*given[name]} <= {*member.member.enum}, command


def test_a_pass_over_a_table_with_work_sends_no_more_requests_than_the_bill_counts(spark, bucket, tmp_path, monkeypatch):
    w = BucketWorld(tmp_path, spark, SCHEMA, lake_url=f"s3a://{bucket}/lake").set(key="id")
    w.landing_url = f"s3://{bucket}/raw"
    w.load([(number, "one", "a") for number in range(100)])
    assert w.go().verdict == "ok"
    w.changes(1, [("U", 1, "two", "a"), ("D", 2, None, None), ("I", 300, "three", "b")])
    sent: list[str] = []
    monkeypatch.setattr("werkzeug.serving.WSGIRequestHandler.log_request", lambda self, *more: sent.append(f"{self.command} {self.path}"))
    assert w.go().verdict == "ok"
    writes = [one for one in sent if one.startswith(("PUT", "POST")) or "list-type" in one]
    reads = [one for one in sent if one.startswith(("GET", "HEAD")) and one not in writes]
    bill = (INFRA.parent / "notebooks" / "16_deploy" / "08_readers.ipynb").read_text()
    counted = [int(re.search(rf"{name} = day.passes \* .*?(\d+) \* day\.busy", bill)[1]) for name in ("listed", "read")]
    assert 0 < len(writes) <= counted[0] and 0 < len(reads) <= counted[1], (len(writes), len(reads), counted)


def test_what_a_small_batch_stages_beside_us_goes_to_the_bucket_once_tasks_apply_it(spark, bucket, tmp_path):
    w = BucketWorld(tmp_path, spark, SCHEMA, lake_url=f"s3a://{bucket}/lake").set(key="id")
    w.landing_url = f"s3://{bucket}/raw"
    w.load([(number, "one", "a") for number in range(1000)])
    assert w.go().verdict == "ok"
    w.changes(1, [("U", 1, "two", "a"), ("D", 2, None, None), ("I", 3000, "three", "b")])
    with taken("apart", spark):
        done = w.go()
    assert done.verdict == "ok" and w.lake(NAMES) == replayed(w.raw, ["id"], NAMES), done.words
