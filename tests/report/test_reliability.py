"""Intervals that cannot be relied on are marked wherever they stand, and the reason is given once."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import certeq as ce
from certeq.report import Strategy, Study, render
from certeq.report.reliability import Doubt, doubts, reasons

from .conftest import Page, study


@pytest.fixture(scope="module")
def doubtful():
    """Seventy months: three or four of them are the tail."""
    table = 0.005 + 0.04 * np.random.default_rng(5).standard_t(4, size=(200, 2))
    returns = pd.DataFrame(table, pd.date_range("2005-01-31", periods=200, freq="ME"), ["A", "B"])
    mine = Strategy("Mine", np.array([0.3, 0.7]), ce.CVaR(0.05), 0.02, 1e-12, 4)
    equal = Strategy("Equal weights", np.array([0.5, 0.5]))
    return Study("Monthly", "made up", returns[:130], returns[130:], (mine, equal), focus="Mine")


def symbols(page):
    return {trace["marker"]["symbol"] for trace in page.chart("risk")["traces"]}


def test_marked_wherever_it_stands(doubtful):
    page = Page(render(doubtful))
    assert "(unreliable)" in page.table("certificate")["Mine"]["OCE, held out"]
    metrics = page.table("metrics")["Mine"]
    assert metrics["CVaR 95 %"].endswith(" (unreliable)")
    assert "unreliable" not in metrics["Return a year"]
    assert re.search(r"confidence interval .* to .* %, unreliable\)", page.said)
    assert symbols(page) == {"circle-open", "diamond-open"}
    assert "Those of open marks are unreliable" in page.said
    assert all(row[-1].endswith("(unreliable)") for row in page.rows["risk"][1:])
    assert "Unreliable intervals" in page.said
    assert len(re.findall(r"Only about [\d. to]+ samples carry the risk", page.said)) == 1  # the reason, once


def test_nothing_is_marked_where_nothing_is_doubtful():
    sound = study(["A", "B"], days=4000)
    sound = replace(sound, strategies=(replace(sound.strategies[0], utility=ce.CVaR(0.2)),))
    assert not [doubt for doubt in doubts(sound) if doubt.figure != "EVaR 95 %"]
    assert symbols(Page(render(sound))) == {"circle"}


def test_few_returns_have_no_intervals_to_doubt():
    assert doubts(study(["A", "B"], days=60)) == ()


def test_each_reason_once_with_a_range_of_its_numbers():
    why = "Only about {} samples carry X**4."
    found = [Doubt(name, "CVaR 95 %", why.format(count)) for name, count in (("A", 12.5), ("B", 4.0), ("C", 9.0))]
    found.append(Doubt("A", "EVaR 95 %", "Heavy tail."))
    many = [Doubt(name, "EVaR 95 %", "Heavy tail.") for name in "ABCDE"]
    assert reasons(many, list("ABCDEF")) == [("EVaR 95 %: 5 of 6 strategies", "Heavy tail.")]
    assert reasons(found, ["A", "B", "C"]) == [
        ("CVaR 95 %: all strategies", "Only about 4.0 to 12.5 samples carry X**4."),
        ("EVaR 95 %: A", "Heavy tail."),
    ]
