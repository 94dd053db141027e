"""The page as text: self-contained, escaped, complete, and drawable."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest

import certeq as ce
from certeq.report import HeldLimit, Strategy, differences, figures, render, why_not_compared
from certeq.report.page import data_block, distinct, in_chart, in_page, plain

from .conftest import HOSTILE, Page, study

KEYS = ["risk", "wealth", "drawdowns", "weights", "losses", "contributions", "frontier", "sensitivity", "outcome"]


@pytest.fixture(scope="module")
def text(hostile):
    return render(hostile)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.fixture(scope="module")
def data(page):
    return page.data


def test_is_one_file_of_modest_size(text, page):
    assert len(text.encode()) < 6e6
    for tag, attrs in page.found:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        assert "src" not in attrs
        assert attrs.get("href", "#").startswith("#")
    assert [tag for tag, _ in page.found].count("script") == 3


def test_only_its_own_scripts_may_run(text, page):
    policy = next(attrs["content"] for tag, attrs in page.found if attrs.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'unsafe-inline'" not in policy
    for script in re.findall(r"<script>(.*?)</script>", text, re.S):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_nothing_from_a_file_becomes_an_element(page):
    assert {tag for tag, _ in page.found} <= {
        "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "dl", "dt", "dd", "div", "nav",
        "a", "main", "section", "table", "thead", "tbody", "tr", "th", "td", "small", "figure", "figcaption", "details",
        "summary", "noscript", "script", "span",
    }  # fmt: skip
    assert not any(name.startswith("on") for _, attrs in page.found for name in attrs)
    words = page.said
    assert "</script><script>docume…" in words
    assert "A <b>study</b> & its title" in words


def test_every_chart_has_words_and_numbers(page, data):
    assert [chart["key"] for chart in data["charts"]] == KEYS
    drawn = [attrs for _, attrs in page.found if attrs.get("class") == "chart"]
    assert [attrs["data-chart"] for attrs in drawn] == KEYS
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 60 for attrs in drawn)
    tags = [tag for tag, _ in page.found]
    assert tags.count("figcaption") == tags.count("details") == len(KEYS)
    words = page.said
    for wanted in (
        "Optimality certificate",
        "What was run",
        "skfolio",
        "Optimality gap of the fit",
        "CVaR 95 %, held out",
        "1.0e-12",
        "CDaR",
        "failed: ",
    ):
        assert wanted in words


def test_plotly_accepts_every_trace_and_layout(data):
    import plotly.graph_objects as go

    def filled(node):
        if isinstance(node, list):
            return [filled(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$css" in node:
            return "#123456"
        if "$ref" in node:
            return data["shared"][node["$ref"]]
        return {key: filled(item) for key, item in node.items()}

    for chart in data["charts"]:
        go.Figure(filled(chart["traces"]), filled(chart["layout"]))  # raises on an unknown or ill-typed property


def test_names_become_harmless_labels():
    labels = distinct(HOSTILE)
    assert len(set(labels)) == len(labels)
    assert all(len(label) <= 24 and label.isprintable() for label in labels)
    assert distinct(["x" * 40, "x" * 41]) == ["x" * 23 + "…", "x" * 18 + "… (2)"]
    assert plain("\n\t ") == "(no name)"
    assert in_chart("<b>&") == "&lt;b&gt;&amp;"
    assert "</" not in data_block({"a": "</script>&<!--"})


def test_many_assets_many_days_and_nothing_held_out():
    text = render(study([f"asset {i}" for i in range(10_000)], days=40, held_out=False))
    assert "others" in text
    assert "in sample" in text
    assert len(text.encode()) < 6e6
    long = Page(render(study(["A", "B"], days=9_000)))
    assert len(long.data["shared"]["days"]) <= 4010


def test_limits_are_shown_with_their_multipliers_in_words():
    whole = study(["A", "B"], days=300)
    limits = (HeldLimit("<b>CVaR</b> <= 0.02", 0.02, 0.02, 0.05), HeldLimit("EVaR <= 0.04", 0.04, 0.03, 0.0))
    for goal, words in (
        ("maximize_return", "12.6 basis points of return a year"),
        ("maximize_ratio", "5e-06 more of the ratio"),
        ("maximize_utility", "12.6 basis points of utility a year"),
        ("minimize_risk", "0.05 basis points less of the risk"),
    ):
        mine = replace(whole.strategies[0], limits=limits, goal=goal)
        page = render(replace(whole, strategies=(mine, *whole.strategies[1:])))
        assert words in page
        assert "&lt;b&gt;CVaR&lt;/b&gt;" in page
        assert 'href="#limits"' in page
        assert "nothing" in page


def test_it_opens_with_its_finding_and_the_picture_of_it(page):
    words = page.said
    assert re.search(r"Held out, the strategy .{1,80}? has a CVaR 95 % of [\d.]+ % a day", words)
    assert re.search(r"compared day by day, the difference (may be chance|is significant) \(p = [\d.e-]+", words)
    kinds = [attrs.get("id") for tag, attrs in page.found if tag in ("figure", "section")]
    assert kinds[:3] == ["risk", "wealth", "metrics"]


def test_the_first_chart_shows_every_risk_with_its_interval(hostile, data):
    chart = next(chart for chart in data["charts"] if chart["key"] == "risk")
    found = figures(hostile)
    points = {
        label: (x, x - below, x + above)
        for trace in chart["traces"]
        for label, x, below, above in zip(
            trace["y"], trace["x"], trace["error_x"]["arrayminus"], trace["error_x"]["array"], strict=True
        )
    }
    assert len(points) == len(found)
    assert np.allclose(sorted(points.values()), sorted(found[name]["cvar"] for name in found), rtol=1e-3)
    labels = chart["layout"]["yaxis"]["categoryarray"]
    assert [points[label][0] for label in labels] == sorted(point[0] for point in points.values())


def test_days_are_listed_where_their_weights_differ():
    """Under CVaR all days of the tail have the same weight."""
    few = study(["A", "B"], days=120)  # three days of 60 in the tail, all others of weight 0
    assert "by weight</h2>" not in render(few)
    assert "by weight</h2>" in render(replace(few, focus="Entropic"))
    squares = replace(few.strategies[0], utility=ce.HMCR(2.0, 0.2))
    rows = Page(render(replace(few, strategies=(squares, *few.strategies[1:])))).rows["days"][1:]
    assert 1 <= len(rows) < 10  # of 60: most have no weight
    assert all(float(row[2]) >= 0.05 for row in rows)


def test_dust_is_not_held():
    whole = study()
    weights = np.full(whole.fitted_on.shape[1], 1e-5)
    weights[0] = 1.0 - weights[1:].sum()
    dusty = replace(whole, strategies=(replace(whole.focused, weights=weights),))
    assert f"Assets held 1 of {weights.size} " in Page(render(dusty)).said


def test_one_number_has_one_interval(hostile):
    """The risk that a strategy minimizes stands among the metrics and in the certificate, with the same interval."""
    weights = hostile.strategies[0].weights
    kinds = {"cvar": ce.CVaR(0.05), "evar": ce.EVaR(0.05), "annualized_mean": ce.Mean()}
    chosen = tuple(Strategy(key, weights, utility, 0.02, 1e-12, 4) for key, utility in kinds.items())
    study = replace(hostile, strategies=chosen, focus="cvar")
    found = figures(study)
    shown = Page(render(study)).table("certificate")
    for key in kinds:
        value, low, high = found[key][key]
        if key == "annualized_mean":
            value, low, high = (-each / study.frequency.periods_per_year for each in (value, high, low))
        wanted = f"{100 * value:.3f} % {100 * low:.3f} to {100 * high:.3f}"
        assert shown[key]["OCE, held out"].removesuffix(" (unreliable)") == wanted


def test_no_significance_in_sample():
    """A test takes no account of weights that were chosen on the same days."""
    whole = study(["A", "B"], days=300, held_out=False)
    assert differences(whole) == ()
    assert "chosen on the same days" in why_not_compared(whole)
    words = Page(render(whole)).said
    assert not re.search(r"p = |p-value[s]? adjusted|Adjusted p|significant|may be chance", words)
    assert "Which strategies differ" not in words
    assert "so that no test can judge the difference" in words
    assert "Strategies are not compared in CVaR 95 %: the weights were chosen on the same days" in words
    assert "Which strategies differ" in render(study(["A", "B"], days=300))


def test_few_held_out_returns_have_no_intervals_anywhere():
    few = study(["A", "B"], days=110)  # 55 are held out
    page = Page(render(few))
    words = page.said
    assert not re.search(r"-?\d+\.\d+ to -?\d+\.\d+", page.table("certificate")["CVaR"]["OCE, held out"])
    assert "Below each value" not in words
    assert "confidence interval" not in words.replace("No confidence intervals: they take at least 60 days", "")
    assert "No confidence intervals: they take at least 60 days; found 55." in words
    assert "Below each value" in render(study(["A", "B"], days=130))


def test_the_first_sentence_compares_with_the_benchmark_that_was_named():
    whole = study(["A", "B"], days=300)
    index = Strategy("IDX", None, returns=whole.judged_on["A"].to_numpy())
    against = replace(whole, strategies=(*whole.strategies, index))
    sentence = Page(render(against)).said.split(" assets, fitted on")[0]
    pair = next(p for p in differences(against) if {p.riskier, p.other} == {"CVaR", "IDX"})
    assert re.search(r"\d+ % (below|above) IDX \(", sentence)
    assert f"p = {pair.adjusted:.2g}" in sentence
    assert "Equal weights" not in sentence
    assert "Equal weights" in Page(render(whole)).said.split(" assets, fitted on")[0]


def test_names_cannot_turn_sentences_around():
    """Characters that override the direction of text are written out, in the page and in its charts."""
    name = "Mine\u202e\u2066\x1b"
    whole = study(["A\u202e", "B"], days=300)
    strategies = (replace(whole.strategies[0], name=name), *whole.strategies[1:])
    turned = replace(whole, title="p\u202ex.csv \udcff", source="p\u202ex.csv", strategies=strategies, focus=name)
    turned = replace(turned, notes=("a\u202enote",), parameters={"b\u202e": "c\u202e"})
    text = render(turned)
    text.encode()
    page = Page(text)
    texts = page.words + [value or "" for _, attrs in page.found for value in attrs.values()]
    texts.append(json.dumps(page.data, ensure_ascii=False))
    assert not any(re.search("[\u202a-\u202e\u2066-\u2069\x1b]", text) for text in texts)
    assert "p\\u202ex.csv \\udcff" in page.said
    assert "the strategy Mine\\u202e\\u2066\\x1b has a CVaR" in page.said
    assert in_page("a\n\u00a0\u200d \u05d0") == "a\n\u00a0\u200d \u05d0"
