"""Intervals that cannot be relied on are marked wherever they stand, and the reason is given once."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import certeq as ce
from certeq.report import Strategy, Study, figures, render
from certeq.report._charts_paths import risk_chart
from certeq.report._report import _finding
from certeq.report._tables import certificate_table, differences, metrics_table
from certeq.report.reliability import Doubt, doubts, reasons

from .conftest import study
from .test_page import Elements


@pytest.fixture(scope="module")
def doubtful():
    """Seventy months: three or four of them are the tail."""
    table = 0.005 + 0.04 * np.random.default_rng(5).standard_t(4, size=(200, 2))
    returns = pd.DataFrame(table, pd.date_range("2005-01-31", periods=200, freq="ME"), ["A", "B"])
    mine = Strategy("Mine", np.array([0.3, 0.7]), ce.CVaR(0.05), 0.02, 1e-12, 4)
    equal = Strategy("Equal weights", np.array([0.5, 0.5]))
    return Study("Monthly", "made up", returns[:130], returns[130:], (mine, equal), focus="Mine")


def test_marked_wherever_it_stands(doubtful):
    found, doubted = figures(doubtful), doubts(doubtful)
    assert "(unreliable)" in certificate_table(doubtful).rows[0][3]
    table = metrics_table(doubtful, found, doubted)
    cells = dict(zip(table.head, table.rows[0], strict=True))
    assert cells["CVaR 95 %"].endswith(" (unreliable)")
    assert "unreliable" not in cells["Return a year"]
    pairs = differences(doubtful)
    assert re.search(r"confidence interval .* to .* %, unreliable\)", _finding(doubtful, found, pairs, doubted))
    chart = risk_chart(doubtful, found, doubted)
    assert {trace["marker"]["symbol"] for trace in chart.traces} == {"circle-open", "diamond-open"}
    assert "Those of open marks are unreliable" in chart.summary
    assert all(row[-1].endswith("(unreliable)") for row in chart.table.rows)


def test_the_reason_is_on_the_page_once(doubtful):
    words = " ".join(Elements(render(doubtful)).words)
    assert "Unreliable intervals" in words
    assert len(re.findall(r"Only about [\d. to]+ samples carry the risk", words)) == 1


def test_nothing_is_marked_where_nothing_is_doubtful():
    sound = study(["A", "B"], days=4000)
    only = (replace(sound.strategies[0], utility=ce.CVaR(0.2)),)
    sound = replace(sound, strategies=only)
    assert not [doubt for doubt in doubts(sound) if doubt.figure != "EVaR 95 %"]
    assert {trace["marker"]["symbol"] for trace in risk_chart(sound, figures(sound), doubts(sound)).traces} == {
        "circle"
    }


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


def test_compare_warns_of_its_intervals_in_both_modes(tmp_path, monkeypatch):
    runner = pytest.importorskip("typer.testing").CliRunner()
    from certeq.cli._app import app

    monkeypatch.chdir(tmp_path)
    table = 1.005 + 0.04 * np.random.default_rng(5).standard_t(6, size=(260, 3)).clip(-5, 5)
    dates = pd.date_range("2000-01-31", periods=260, freq="ME", name="Date")
    pd.DataFrame(table.cumprod(axis=0), dates, list("ABC")).to_csv("prices.csv")
    shown = runner.invoke(app, ["compare", "prices.csv", "--no-report"])
    asked = runner.invoke(app, ["compare", "prices.csv", "--no-report", "--json"])
    found = json.loads(asked.stdout)
    assert found["warnings"]
    names = [row["name"] for row in found["strategies"]]
    assert all(any(name in text.partition(": ")[0] for name in names) for text in found["warnings"])
    for each in (shown, asked):
        told = [line for line in each.stderr.splitlines() if line.startswith("warning: ")]
        assert any(line.startswith("warning: unreliable intervals (") and "CVaR 95 %" in line for line in told)
        assert not any(line.startswith(("warning: Only", "warning: The losses")) for line in told)
