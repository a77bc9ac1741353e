"The function of a source's stack, as Lambda would run it, beside a DMS of our own that goes through the states which AWS's pages list."

from __future__ import annotations

import json
import sys
import types
from datetime import datetime, timezone

import pytest

from aws.rendered import loaded
from aws.test_templates import INFRA

pytestmark = pytest.mark.quick

CODE = loaded(INFRA / "source.yaml")["Resources"]["Starter"]["Properties"]["Code"]["ZipFile"]
STARTING = ["metadata_resources", "testing_connection", "fetching_metadata", "calculating_capacity", "provisioning_capacity", "replication_starting"]


class Dms:
    "A replication by name, serverless or a task; each look at it brings it on by one state."

    def __init__(self, state: str, *coming: str, fails: bool = False, others: int = 3):
        self.state, self.coming, self.fails, self.others, self.asked, self.tested = state, [*coming], fails, others, [], {}

    def look(self) -> str:
        now = self.state
        if self.coming:
            self.state = self.coming.pop(0)
        return now

    def page(self, kind: str, marker: str) -> dict:
        "Two pages, ours on the second."
        row = lambda name, state: {f"{kind}Identifier": name, f"{kind}Arn": f"arn:{name}", "Status": state}
        return {"rows": [row("another", "running")] * self.others, "Marker": "2"} if not marker else {"rows": [row("shop", self.look())]}

    def describe_replications(self, Marker: str = ""):
        found = self.page("ReplicationConfig", Marker)
        return {"Replications": found.pop("rows"), **found}

    def describe_replication_tasks(self, WithoutSettings: bool, Marker: str = ""):
        found = self.page("ReplicationTask", Marker)
        return {"ReplicationTasks": found.pop("rows"), **found}

    def started(self, arn: str, how: str) -> None:
        assert arn == "arn:shop" and self.state in ("created", "ready", "stopped", "failed"), self.state
        self.asked.append(how)
        self.coming = [*STARTING, "failed" if self.fails else "running"]

    def stopped(self, arn: str) -> None:
        assert arn == "arn:shop" and self.state == "running", f"there is no stop while it is {self.state}"
        self.asked.append("stop")
        self.coming = ["stopping", "stopped"]

    def start_replication(self, ReplicationConfigArn, StartReplicationType):
        self.started(ReplicationConfigArn, StartReplicationType)

    def start_replication_task(self, ReplicationTaskArn, StartReplicationTaskType):
        self.started(ReplicationTaskArn, StartReplicationTaskType)

    def stop_replication(self, ReplicationConfigArn):
        self.stopped(ReplicationConfigArn)

    def stop_replication_task(self, ReplicationTaskArn):
        self.stopped(ReplicationTaskArn)

    def test_connection(self, ReplicationInstanceArn, EndpointArn):
        self.asked.append(f"test {EndpointArn}")
        self.tested[EndpointArn] = "failed" if EndpointArn == "bad" else "successful"

    def describe_connections(self, Filters):
        found = self.tested.get(Filters[0]["Values"][0])
        return {"Connections": [{"Status": found}] if found else []}


ROUTES = {"rtb-main": [{"Main": True}], "rtb-own": [{"SubnetId": "subnet-2"}]}


def runs(
    monkeypatch,
    dms: Dms,
    request: str,
    step: str,
    *,
    endpoints: list[dict] = [],
    seconds: float = 900,
    before: dict | None = None,
    has_role=lambda RoleName: {"Role": {"CreateDate": datetime.fromtimestamp(0)}},
    **properties: str,
) -> list[str]:
    "What CloudFormation hears of a request; the function is started again where it asks for that. Each wait takes ten seconds of its time."
    heard, again = [], []
    ec2 = types.SimpleNamespace(
        describe_subnets=lambda SubnetIds: {"Subnets": [{"VpcId": "vpc-7"}]},
        describe_route_tables=lambda Filters: {
            "RouteTables": [{"RouteTableId": name, "Associations": own} for name, own in ROUTES.items() if Filters[0]["Values"] == ["vpc-7"]]
        },
        describe_vpc_endpoints=lambda Filters: {"VpcEndpoints": endpoints if Filters[0]["Values"] == ["vpc-7"] else []},
    )
    iam = types.SimpleNamespace(get_role=has_role, exceptions=types.SimpleNamespace(NoSuchEntityException=LookupError))
    clients = {
        "dms": dms,
        "ec2": ec2,
        "iam": iam,
        "lambda": types.SimpleNamespace(invoke=lambda FunctionName, InvocationType, Payload: again.append(json.loads(Payload))),
    }
    send = lambda event, context, status, data, place, reason: heard.append(f"{status}: {reason}" if reason else status)
    monkeypatch.setitem(sys.modules, "boto3", types.SimpleNamespace(client=clients.__getitem__))
    monkeypatch.setitem(sys.modules, "cfnresponse", types.SimpleNamespace(SUCCESS="ok", FAILED="failed", send=send))
    left = [seconds]
    monkeypatch.setattr("time.sleep", lambda pause: left.__setitem__(0, left[0] - pause))
    context = types.SimpleNamespace(get_remaining_time_in_millis=lambda: left[0] * 1000, function_name="shop-starter")
    given = {"step": step, "name": "shop", "instance": "", "subnets": "", "source": "db", "target": "bucket", **properties}
    again.append(
        {"RequestType": request, "ResourceProperties": given, **({"OldResourceProperties": {**given, **before}} if before is not None else {})}
    )
    while again:
        left[0], space = seconds, {}
        exec(CODE, space)
        space["handler"](again.pop(0), context)
    return heard


def test_the_stack_is_there_when_the_replication_runs(monkeypatch):
    dms = Dms("created")
    assert runs(monkeypatch, dms, "Create", "run") == ["ok"] and dms.asked == ["start-replication"] and dms.state == "running"


def test_a_replication_that_takes_longer_than_a_function_may_run_is_followed_by_the_next(monkeypatch):
    dms = Dms("created")
    assert runs(monkeypatch, dms, "Create", "run", seconds=120) == ["ok"] and dms.asked == ["start-replication"]


def test_a_replication_that_fails_or_never_runs_fails_the_stack_in_words(monkeypatch):
    assert runs(monkeypatch, Dms("created", fails=True), "Create", "run") == ["failed: RuntimeError: DMS says failed; see its log"]
    assert runs(monkeypatch, Dms("provisioning_capacity"), "Create", "run", seconds=120) == [
        "failed: DMS is still at provisioning_capacity after an hour; see its log"
    ]


@pytest.mark.parametrize("state", STARTING)
def test_a_stack_that_goes_while_the_replication_starts_waits_until_it_can_be_stopped(monkeypatch, state):
    dms = Dms(state, *STARTING[STARTING.index(state) :], "running")
    assert runs(monkeypatch, dms, "Delete", "run") == ["ok"] and dms.asked == ["stop"] and dms.state == "stopped"


def test_a_change_stops_the_replication_before_and_resumes_it_afterwards(monkeypatch):
    dms = Dms("running")
    assert runs(monkeypatch, dms, "Update", "pause") == ["ok"] and dms.state == "stopped"
    assert runs(monkeypatch, dms, "Update", "run") == ["ok"] and dms.asked == ["stop", "resume-processing"]
    assert runs(monkeypatch, dms, "Delete", "pause") == ["ok"] and dms.asked == ["stop", "resume-processing"]


def test_a_change_goes_on_where_a_failed_replication_was_and_loads_nothing_again(monkeypatch):
    for state, asked in {"failed": "resume-processing", "stopped": "resume-processing", "created": "start-replication"}.items():
        dms = Dms(state)
        assert runs(monkeypatch, dms, "Update", "run") == ["ok"] and dms.asked == [asked], state


def test_a_change_from_serverless_to_an_instance_stops_what_was_serverless(monkeypatch):
    dms = Dms("running")
    dms.describe_replication_tasks = lambda **more: {"ReplicationTasks": []}  # there is none yet
    assert (
        runs(monkeypatch, dms, "Update", "pause", instance="rep", before={"instance": ""}) == ["ok"]
        and dms.asked == ["stop"]
        and dms.state == "stopped"
    )


GATE = {"ServiceName": "com.amazonaws.eu-central-1.s3", "State": "available", "VpcEndpointType": "Gateway", "RouteTableIds": ["rtb-main", "rtb-own"]}


@pytest.mark.parametrize("request_type", ["Create", "Update"])
@pytest.mark.parametrize(
    "lacks, endpoint",
    [
        ("", GATE),
        ("", {**GATE, "VpcEndpointType": "Interface", "RouteTableIds": []}),
        ("rtb-main and rtb-own", {**GATE, "ServiceName": "com.amazonaws.eu-central-1.dynamodb"}),
        ("rtb-main and rtb-own", {**GATE, "State": "deleting"}),
        ("rtb-own", {**GATE, "RouteTableIds": ["rtb-main"]}),
        ("rtb-main", {**GATE, "RouteTableIds": ["rtb-own", "rtb-elsewhere"]}),
    ],
)
def test_serverless_without_a_way_to_s3_from_each_subnet_is_refused_before_anything_starts_or_stops(monkeypatch, request_type, lacks, endpoint):
    dms = Dms("running")
    (said,) = runs(monkeypatch, dms, request_type, "pause", subnets="subnet-1,subnet-2", endpoints=[endpoint])
    if lacks:
        assert said.startswith(f"failed: RuntimeError: vpc-7 has no endpoint for S3 in {lacks}, ") and "RouteTables" in said and not dms.asked
    else:
        assert said == "ok"


def test_serverless_without_the_role_of_the_account_is_refused_in_words_and_a_new_one_is_waited_for(monkeypatch):
    def none(RoleName):
        raise LookupError(RoleName)

    assert runs(monkeypatch, Dms("gone"), "Create", "pause", has_role=none) == [
        "failed: RuntimeError: the account has no role dms-vpc-role: deploy roles.yaml first"
    ]
    waited = []

    def new(RoleName):
        monkeypatch.setattr("time.sleep", waited.append)
        return {"Role": {"CreateDate": datetime.now(timezone.utc)}}

    assert runs(monkeypatch, Dms("gone"), "Create", "pause", has_role=new) == ["ok"] and 50 < waited[0] <= 60


def test_a_task_starts_when_both_of_its_endpoints_answer(monkeypatch):
    dms = Dms("ready")
    assert runs(monkeypatch, dms, "Create", "run", instance="rep") == ["ok"] and dms.asked == ["test db", "test bucket", "start-replication"]
    dms = Dms("ready")
    assert (
        runs(monkeypatch, dms, "Create", "run", instance="rep", source="bad") == ["failed: RuntimeError: DMS says ['failed']; see its log"]
        and "start-replication" not in dms.asked
    )
