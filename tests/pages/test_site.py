"The site that `make docs` builds, read in a browser without a network."

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from test_pages import shown  # noqa: F401  fixtures

pytestmark = pytest.mark.proof

HOME = Path(__file__).parents[2]
READ = [*sorted((HOME / "notebooks" / "guide").glob("*.ipynb")), *sorted((HOME / "notebooks" / "pages").glob("*.md")), HOME / "notebooks" / "site.md"]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    "Built as a person builds it: a warning of Sphinx, such as one about a link that leads nowhere, is an error."
    out = tmp_path_factory.mktemp("site")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(["make", "docs", f"OUT={out / 'html'}"], cwd=HOME, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return out / "html"


def test_guide_and_pages_are_read_on_a_desk_and_on_a_phone_by_day_and_by_night(site, shown):  # noqa: F811
    assert len(READ) > 15
    for how in (
        {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
        {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
    ):
        page = shown(site / "site.html", **how)
        assert page.locator("h1").inner_text().startswith("dmscdc") and page.locator(".sidebar-tree a[href^='guide/']").count() == 6
        for path in READ:
            page.goto((site / path.relative_to(HOME / "notebooks").with_suffix(".html")).as_uri())
            assert page.locator("h1").count() == 1, path
            assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 1, (
                f"{path} is wider than the screen of {how}"
            )
            assert (
                page.evaluate("[...document.querySelectorAll('article img')].filter(one => !one.complete || !one.naturalWidth).map(one => one.src)")
                == []
            ), path


def test_a_word_is_found_without_a_network(site, shown):  # noqa: F811
    page = shown(site / "search.html")
    page.goto((site / "search.html").as_uri() + "?q=lease")
    page.wait_for_selector("#search-results li", timeout=30_000)
    assert page.locator("#search-results li a").count() >= 3


def test_the_interface_has_every_question_of_a_table(site, shown):  # noqa: F811
    page = shown(site / "pages" / "api.html")
    text = page.locator("article").inner_text()
    assert all(f"{name}(" in text for name in ("rows", "history", "as_of", "changes", "find", "blame", "compare", "reconcile", "run_pass"))
