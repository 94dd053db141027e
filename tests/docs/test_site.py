"""The built site: no warnings, no dead links, nothing fetched, no word on the console, and a search that finds."""

from __future__ import annotations

import importlib.util
import os

import pytest

import certeq as ce
from tests.report.chromium import BINARY, Chromium

from .links import dead_links, outside_resources
from .site import build, serve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("chromium"),
    pytest.mark.skipif(
        importlib.util.find_spec("pydata_sphinx_theme") is None, reason="the docs extra is not installed (make docs)"
    ),
]
needs_browser = pytest.mark.skipif(
    BINARY is None, reason="chromium is not installed (Debian: apt-get install chromium)"
)
# Wide and narrow: a laptop and a phone.
PAGES = (
    "index", "start/quant", "start/install", "guide/minimization", "guide/portfolio", "guide/scikit_learn",
    "guide/reports", "guide/which_risk", "guide/conversions", "guide/small_batches", "guide/torch", "theory/index",
    "theory/errata", "paper/index", "comparison", "whatsnew", "api/certeq", "api/generated/certeq.CVaR",
    "api/generated/certeq.estimate", "api/generated/certeq.portfolio.MinimumOCE",
    "api/generated/certeq.report.METRICS", "gallery/index",
)  # fmt: skip
READY = "document.readyState === 'complete'"
# What reaches beyond the screen must lie in a box of its own that scrolls, or a phone never shows the rest.
CUT = """
[...document.querySelectorAll('article math, article math *, article table, article pre, article code, article img, '
  + '.bd-sidebar-secondary code')]
  .filter((e) => {
    const box = e.getBoundingClientRect();
    if (!box.width || (box.left >= -1 && box.right <= innerWidth + 1)) return false;
    for (let p = e.parentElement; p && p.tagName !== 'ARTICLE'; p = p.parentElement)
      if (['auto', 'scroll'].includes(getComputedStyle(p).overflowX)) return box.left + p.scrollLeft < -1;
    return true;
  })
  .map((e) => `${e.tagName}: ${e.textContent.slice(0, 60)}`)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    # The gallery's scripts have tests of their own; CERTEQ_DOCS_EXAMPLES=1 runs them here as well.
    folder, said, code = build(tmp_path_factory.mktemp("site"), examples=os.environ.get("CERTEQ_DOCS_EXAMPLES") == "1")
    assert code == 0, said
    return folder


def test_links_lead_somewhere_and_nothing_is_fetched_from_other_sites(built):
    assert dead_links(built) == []
    assert outside_resources(built) == []


def test_every_public_name_has_a_page(built):
    missing = [name for name in ce.__all__ if not (built / "api" / "generated" / f"certeq.{name}.html").exists()]
    assert missing == ["bounds"]  # a module, with a page of its own
    assert (built / "api" / "certeq.risk.bounds.html").exists()
    # No page shows the docstring of a builtin.
    assert [path.stem for path in (built / "api").rglob("*.html") if "Built-in immutable" in path.read_text()] == []


@needs_browser
@pytest.mark.parametrize("width, height", [(1400, 900), (390, 844)], ids=["laptop", "phone"])
def test_pages_open_in_a_browser(built, width, height):
    with serve(built) as address, Chromium() as browser:
        for page in PAGES:
            visit(browser, f"{address}/{page}.html", width, height)
            assert browser.complaints() == [], page
            outside = [url for url in browser.requests() if not url.startswith(address)]
            assert outside == [], page
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), f"{page} sticks out"
            assert browser.evaluate(CUT) == [], f"{page}: cut off"
            broken = "[...document.images].filter((i) => i.complete && !i.naturalWidth).map((i) => i.src)"
            assert browser.evaluate(broken) == [], page


@needs_browser
def test_search_finds_threshold(built):
    with serve(built) as address, Chromium() as browser:
        visit(browser, f"{address}/search.html?q=threshold", 1400, 900)
        browser.wait("document.querySelectorAll('#search-results li a').length >= 5", 30)
        titles = browser.evaluate("[...document.querySelectorAll('#search-results li a')].map((a) => a.textContent)")
        assert any("threshold" in title.lower() for title in titles)
        assert browser.complaints() == []


def visit(browser, url, width, height):
    phone = width < 600
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
    browser.events.clear()
    browser.call("Page.navigate", url=url)
    browser.wait(f"location.href.startsWith({url.split('?')[0]!r}) && {READY}")


def test_the_link_checker_notices(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"></p><a href="b.html">1</a><a href="#there">2</a><a href="#here">3</a>'
    )
    assert [line.split(" -> ")[1] for line in dead_links(tmp_path)] == ["b.html", "#there"]
