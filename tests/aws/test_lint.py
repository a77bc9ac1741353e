"The templates under infra/ before judges that others keep: cfn-lint (schemas of all resources), checkov (what is not safe), parliament (policies)."

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aws.fetch import run
from aws.test_templates import CHOICES, INFRA, policies

pytestmark = pytest.mark.proof

PINS = Path(__file__).with_name("lint.txt")
DMS = "arn:aws:dms:eu-central-1:111122223333:"
MADE = {
    "<KmsKeyArn>": "arn:aws:kms:eu-central-1:111122223333:key/ONE",
    "<Source>": f"{DMS}endpoint:SOURCE",
    "<Target>": f"{DMS}endpoint:TARGET",
    "<Task>": f"{DMS}task:ONE",
    "<Replication>": f"{DMS}replication-config:ONE",
    "<Application.Arn>": "arn:aws:emr-serverless:eu-central-1:111122223333:/applications/ONE",
    "<JobRole.Arn>": "arn:aws:iam::111122223333:role/ONE",
    "<Look.Arn>": "arn:aws:lambda:eu-central-1:111122223333:function:ONE",
    "<Log.Arn>": "arn:aws:logs:eu-central-1:111122223333:log-group:ONE:*",
    "<Loader.Arn>": "arn:aws:lambda:eu-central-1:111122223333:function:ONE",
    "<Password>": "arn:aws:secretsmanager:eu-central-1:111122223333:secret:ONE-abcdef",
}  # what Ref is then
POLICIES = """
import json, sys
from parliament import analyze_policy_string
for policy in json.load(sys.stdin):
    for found in analyze_policy_string(json.dumps(policy)).findings: print(found)
"""


LACKS = re.compile(
    r"source\.yaml:.*E3006:Resource type 'AWS::DMS::\w+' does not exist|sample\.yaml:.*E3025:'db\.t4g\.micro'"
)  # what a region may lack: DMS, or its serverless kind; the small machine


@pytest.mark.parametrize("regions", ["us-east-1 eu-central-1 us-gov-west-1 cn-north-1", pytest.param("ALL_REGIONS", marks=pytest.mark.torture)])
def test_no_template_has_a_finding_of_cfn_lint_in_any_region(regions):
    words = ["--regions", *regions.split(), "--format", "parseable", "--"]
    done = run(PINS, "-c", "from cfnlint.runner import main; main()", *words, *(str(INFRA / f"{name}.yaml") for name in CHOICES))
    findings = done.stdout.split("\n/")
    assert any("ReplicationConfig" in one for one in findings) and not [one for one in findings if one.strip() and not LACKS.search(one)], (
        done.stdout + done.stderr
    )


@pytest.mark.torture
def test_what_checkov_finds_unsafe_has_a_reason_in_the_template():
    done = run(PINS, "-m", "checkov.main", "--compact", "--output", "json", "--skip-download", "--framework", "cloudformation", "-d", str(INFRA))
    said = json.loads(done.stdout)
    assert said["summary"]["passed"] > 50 and not said["summary"]["parsing_errors"], done.stderr[-2000:]
    assert not [(one["check_id"], one["resource"]) for one in said["results"]["failed_checks"]]


@pytest.mark.parametrize("name", ["shared", "source", "sample", "stream"])
def test_policies_are_as_iam_reads_them(name):
    texts = {json.dumps(policy) for policy in policies(name)}
    found = [json.loads(text) for text in sorted(texts)]
    for policy in found:
        for statement in policy["Statement"]:
            statement["Resource"] = [
                MADE.get(place, re.sub("[<>]", "", place.replace("<Runs.Arn>", "arn:aws:s3:::runs"))) for place in statement["Resource"]
            ]
    done = run(PINS, "-c", POLICIES, given=json.dumps(found))
    assert found and not done.returncode and not done.stdout, done.stdout + done.stderr
