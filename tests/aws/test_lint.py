"The templates under infra/ before judges that others keep: cfn-lint (schemas of all resources), checkov (what is not safe), parliament (policies)."
from __future__ import annotations

import json
from pathlib import Path

import pytest

from aws.fetch import run
from aws.test_templates import CHOICES, INFRA, every

PINS = Path(__file__).with_name("lint.txt")
POLICIES = """
import json, sys
from parliament import analyze_policy_string
for policy in json.load(sys.stdin):
    for found in analyze_policy_string(json.dumps(policy)).findings: print(found)
"""


def test_no_template_has_a_finding_of_cfn_lint():
    done = run(PINS, "-m", "cfnlint", *(str(INFRA / f"{name}.yaml") for name in CHOICES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_checkov_finds_unsafe_has_a_reason_in_the_template():
    done = run(PINS, "-m", "checkov.main", "--compact", "--output", "json", "--skip-download", "--framework", "cloudformation", "-d", str(INFRA))
    said = json.loads(done.stdout)
    assert said["summary"]["passed"] > 50 and not said["summary"]["parsing_errors"], done.stderr[-2000:]
    assert not [(one["check_id"], one["resource"]) for one in said["results"]["failed_checks"]]


@pytest.mark.parametrize("name", ["shared", "source", "stream"])
def test_policies_are_as_iam_reads_them(name):
    policies = [one["PolicyDocument"] for part in every(name)[0].resources.values() if part["Type"] == "AWS::IAM::Role" for one in part["Properties"].get("Policies", [])]
    for policy in policies:
        for statement in policy["Statement"]: statement["Resource"] = [place.replace("<", "").replace(">", "") for place in statement["Resource"]]
    done = run(PINS, "-c", POLICIES, given=json.dumps(policies))
    assert policies and not done.returncode and not done.stdout, done.stdout + done.stderr
