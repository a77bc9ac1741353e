"""In continuous integration a test that is skipped because a part is missing is red; otherwise nobody would see that it never ran."""

from __future__ import annotations

import os
from typing import Any

import pytest

NOT_ALLOWED = "not allowed here"  # how a reason begins that no installation could mend


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    "Turns such a skip into a failure."
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI", "").lower() in ("1", "true"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(NOT_ALLOWED):
            report.outcome, report.longrepr = "failed", f"skipped, and in CI no part may be missing: {reason}"
    return report
