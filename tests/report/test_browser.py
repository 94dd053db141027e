"""The page in a browser: it renders, says nothing on the console, fetches nothing, and answers hover and legend."""

import pytest

from certeq.report import save

from .chromium import BINARY, Chromium
from .test_page import KEYS

pytestmark = [
    pytest.mark.skipif(BINARY is None, reason="chromium is not installed (Debian: apt-get install chromium)"),
    pytest.mark.xdist_group("chromium"),
]
CENTER = "(() => {{ const b = {node}.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"


@pytest.fixture(scope="module")
def page(hostile, tmp_path_factory):
    return save(hostile, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def browser():
    with Chromium() as opened:
        yield opened


def sound(browser):
    assert browser.complaints() == []
    assert browser.requests() == []
    assert "pwned" not in browser.evaluate("document.title")
    drawn = browser.evaluate(
        "[...document.querySelectorAll('.chart')].map((c) => c.querySelectorAll('svg').length > 0)"
    )
    assert drawn == [True] * len(KEYS)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")  # nothing sticks out sideways


def test_laptop_hover_legend_and_hostile_names(browser, page):
    browser.open(page)
    sound(browser)
    assert browser.evaluate("document.querySelectorAll('main b, main i, main img').length") == 0
    assert browser.evaluate("document.querySelectorAll('svg a').length") == 0

    # Hover: the box names the strategies and their values.
    browser.evaluate("document.getElementById('wealth').scrollIntoView({behavior: 'instant'})")
    plot = "document.querySelector('[data-chart=wealth] .nsewdrag')"
    x, y = browser.evaluate(CENTER.format(node=plot))
    browser.move(x - 5, y)
    browser.move(x, y)
    label = "[...document.querySelectorAll('[data-chart=wealth] .hoverlayer text')].map((t) => t.textContent).join(' ')"
    browser.wait(f"({label}).includes('Equal weights')", 20)

    # Legend: a click hides its line, another shows it again.
    chart = "document.querySelector('[data-chart=wealth]')"
    for wanted in ("legendonly", True):
        browser.wait(f"{chart}.querySelector('.legendtoggle') !== null")
        browser.click(*browser.evaluate(CENTER.format(node=f"{chart}.querySelectorAll('.legendtoggle')[1]")))
        shown = f"({chart}.data[1].visible ?? true)"
        browser.wait(f"{shown} === {'true' if wanted is True else repr(wanted)}", 20)
        browser.evaluate("new Promise((done) => setTimeout(done, 400))")  # two quick clicks would isolate instead
    sound(browser)

    # Nothing offers to send the chart anywhere.
    titles = browser.evaluate(
        "[...document.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title || '').join('|')"
    )
    assert "loud" not in titles
    assert "hare" not in titles


BEYOND = """[...document.querySelectorAll('section td, section th, td small, figcaption, .card, p')].filter((e) => {
  const b = e.getBoundingClientRect(); return b.width && (b.right > innerWidth + 1 || b.left < -1); })
  .map((e) => e.tagName + ': ' + e.textContent.slice(0, 40))"""


def test_phone_in_the_dark(browser, page):
    browser.open(page, width=390, height=844, dark=True)
    sound(browser)
    assert browser.evaluate(BEYOND) == []
    assert browser.evaluate("document.querySelectorAll('#metrics td').length") > 10
    named = "getComputedStyle(document.querySelector('#metrics td'), '::before').content"
    assert browser.evaluate(named) == '"Return a year"'
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
    inks = browser.evaluate("document.querySelector('[data-chart=wealth]').layout.font.color")
    assert inks == "#e6eaef"


def test_printed_on_a4_nothing_is_cut(browser, page):
    browser.open(page, width=1400)
    printed = browser.call("Page.printToPDF", preferCSSPageSize=True)["data"]
    assert len(printed) > 100_000
    browser.call("Emulation.setEmulatedMedia", media="print")
    # A4 less its margins, at 96 dots an inch.
    browser.call("Emulation.setDeviceMetricsOverride", width=703, height=1033, deviceScaleFactor=1, mobile=False)
    try:
        browser.evaluate("dispatchEvent(new Event('beforeprint')); 1")
        beyond = browser.evaluate(
            "[...document.querySelectorAll('table, td, th, figure, svg.main-svg, .card, p')].filter((e) => {"
            " const b = e.getBoundingClientRect(); return b.width && (b.right > innerWidth + 1 || b.left < -1); })"
            ".map((e) => e.tagName + ': ' + e.textContent.slice(0, 40))"
        )
        assert beyond == []
        scrolled = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
        assert browser.evaluate(scrolled) == 0
    finally:
        browser.evaluate("dispatchEvent(new Event('afterprint')); 1")
        browser.call("Emulation.setEmulatedMedia", media="")
    assert browser.complaints() == []
    assert browser.requests() == []
