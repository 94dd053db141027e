"""``certeq compare``: ten rows, a report, and the benchmark rows of the paper."""

import numpy as np
import pandas as pd
import pytest

NAMES = [
    "CVaR", "Entropic", "Mean-variance", "Monotone mean-variance", "Quartic", "Leaky CVaR", "Smooth CVaR",
    "Equal weights", "Hierarchical risk parity (HRP)", "Maximum Sharpe",
]  # fmt: skip
KEYS = [
    "annualized_mean", "gini_mean_difference", "cvar", "evar", "cdar", "annualized_sharpe_ratio",
    "annualized_sortino_ratio",
]  # fmt: skip
PRINTED = {
    "Equal weights": (0.1717, 0.0115, 0.0274, 0.0565, 0.1448, 0.9241, 1.2885),
    "Hierarchical risk parity (HRP)": (0.1462, 0.0102, 0.0251, 0.0541, 0.1302, 0.8663, 1.1988),
    "Maximum Sharpe": (0.1814, 0.0115, 0.0270, 0.0542, 0.1409, 0.9684, 1.3724),
    "CVaR": (0.1250, 0.0100, 0.0239, 0.0484, 0.1561, 0.7639, 1.0679),
}


def test_rows_of_the_paper(certeq):
    """On the panel in skfolio's wheel, which is used without a file."""
    found = certeq.json("compare", "--no-report")
    rows = {row["name"]: row for row in found["strategies"]}
    assert list(rows) == NAMES
    assert found["fitted_on"][2] == 6234
    assert found["judged_on"][2] == 2078
    for name, values in PRINTED.items():
        assert [rows[name]["metrics"][key] for key in KEYS] == pytest.approx(values, abs=1.05e-4)
    for row in rows.values():
        assert row["failure"] is None
        assert row["benchmark"] or row["gap"] < 1e-9 * abs(row["objective"])
        for key, (low, high) in row["intervals_95"].items():
            assert low < row["metrics"][key] < high or key in {"cdar", "evar"}


def test_table_and_report(certeq, prices, csv):
    path = csv(prices)
    said = certeq("compare", path, "--focus", "smooth-cvar").out
    assert all(name in said for name in NAMES)
    assert "certeq-report.html" in said
    assert "can be told apart in CVaR 95 % at the 5 % level" in said
    assert "Return a year" in said
    page = (certeq.folder / "certeq-report.html").read_text()
    assert "Smooth CVaR" in page
    assert "Which strategies differ" in page
    certeq("compare", path)  # the first report stays
    assert (certeq.folder / "certeq-report-2.html").exists()
    assert "--force" in certeq.refused("compare", path, "--report", "certeq-report.html")
    assert certeq.json("compare", path, "--report", "c.html")["report"] == "c.html"


def test_says_which_strategies_differ(certeq, prices, csv):
    found = certeq.json("compare", csv(prices), "--no-report")
    pairs, count = found["cvar_differences"], sum("weights" in row for row in found["strategies"])
    assert len(pairs) == count * (count - 1) // 2 > 20
    assert all(pair["difference"] >= 0 for pair in pairs)
    assert all(pair["pvalue"] <= pair["adjusted_pvalue"] <= 1 for pair in pairs)
    assert found["why_not_compared"] == ""


def test_too_few_returns_to_compare_strategies_are_told(certeq, prices, csv):
    path = csv(prices[:90])
    found = certeq.json("compare", path)
    assert found["cvar_differences"] == []
    assert found["why_not_compared"].startswith("Strategies are not compared in CVaR 95 %: that takes at least ")
    assert found["why_not_compared"] in certeq("compare", path, "--no-report").err
    assert "Strategies are not compared in CVaR" in (certeq.folder / "certeq-report.html").read_text()


def test_unreliable_intervals_are_warned_of_in_both_modes(certeq, csv):
    table = 1.005 + 0.04 * np.random.default_rng(5).standard_t(6, size=(260, 3)).clip(-5, 5)
    dates = pd.date_range("2000-01-31", periods=260, freq="ME", name="Date")
    path = csv(pd.DataFrame(table.cumprod(axis=0), dates, list("ABC")))
    asked = certeq("compare", path, "--no-report", "--json")
    found = asked.json()
    names = [row["name"] for row in found["strategies"]]
    assert found["warnings"]
    assert all(any(name in text.partition(": ")[0] for name in names) for text in found["warnings"])
    for each in (certeq("compare", path, "--no-report"), asked):
        told = [line for line in each.err.splitlines() if line.startswith("warning: ")]
        assert any(line.startswith("warning: unreliable intervals (") and "CVaR 95 %" in line for line in told)
        assert not any(line.startswith(("warning: Only", "warning: The losses")) for line in told)


def test_strategies_that_fail_leave_the_others(certeq, prices, csv):
    """A power of 1e300 leaves the floating-point numbers; no asset earns enough for a Sharpe ratio to maximize."""
    options = ("--also", "hmcr p=1e300", "--focus", "hmcr", "--no-report")
    result = certeq("compare", csv(prices[:150], "short.csv"), *options)
    assert "Higher-moment risk failed; the report looks at CVaR instead" in result.err
    assert "n/a" in result.out
    rows = certeq.json("compare", csv(prices))["strategies"]
    assert [row["name"] for row in rows if row["failure"]] == ["Maximum Sharpe"]
    assert "Cannot optimize" in (certeq.folder / "certeq-report.html").read_text()


def test_strategies_can_be_added(certeq, prices, csv):
    arguments = ["--also", "evar", "--also", "wang shift=1", "--also", "0.5 cvar alpha=0.1 + 0.5 wang shift=0.5"]
    found = certeq.json("compare", csv(prices), *arguments, "--focus", "wang", "--no-report")
    assert [row["name"] for row in found["strategies"]][7:10] == ["EVaR", "Wang", "Mixture"]
    assert found["strategies"][8]["utility"] == "Wang(shift=1.0)"
    assert not any(row["failure"] for row in found["strategies"][:10])


def test_cash_is_held(certeq, prices, csv):
    table = prices.assign(cash=1.00001 ** np.arange(len(prices)))
    rows = {row["name"]: row for row in certeq.json("compare", csv(table), "--no-report")["strategies"]}
    assert rows["CVaR"]["weights"]["cash"] > 0.9


def test_a_default_report_that_cannot_be_written_is_told_before_the_work(certeq):
    (certeq.folder / "certeq-report.html").mkdir()
    assert "certeq-report.html" in certeq.refused("compare", "missing.csv", "--force")
