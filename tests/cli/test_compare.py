"""``certeq compare``: ten rows, a report, and the benchmark rows of the paper."""

import json

import numpy as np
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
    result = certeq("compare", path, "--focus", "smooth-cvar")
    for name in NAMES:
        assert name in result.stdout
    assert "certeq-report.html" in result.stdout
    assert "Smooth CVaR" in (certeq.folder / "certeq-report.html").read_text()
    certeq("compare", path)  # the first report stays
    assert (certeq.folder / "certeq-report-2.html").exists()
    assert "--force" in certeq.refused("compare", path, "--report", "certeq-report.html")
    said = certeq("compare", csv(prices), "--no-report").stdout
    assert "Return a year" in said  # as everywhere
    assert "95%" not in said


def test_says_which_strategies_differ(certeq, prices, csv):
    path = csv(prices)
    found = certeq.json("compare", path, "--no-report")
    pairs, count = found["cvar_differences"], sum("weights" in row for row in found["strategies"])
    assert len(pairs) == count * (count - 1) // 2 > 20
    assert all(pair["difference"] >= 0 for pair in pairs)
    assert all(pair["pvalue"] <= pair["adjusted_pvalue"] <= 1 for pair in pairs)
    said = certeq("compare", path).stdout
    assert "can be told apart in CVaR 95 % at the 5 % level" in said
    assert found["why_not_compared"] == ""
    assert "Which strategies differ" in (certeq.folder / "certeq-report.html").read_text()


def test_too_few_returns_to_compare_strategies_are_told(certeq, prices, csv):
    path = csv(prices[:90])
    found = certeq.json("compare", path, "--no-report")
    assert found["cvar_differences"] == []
    assert found["why_not_compared"].startswith("Strategies are not compared in CVaR 95 %: that takes at least ")
    assert found["why_not_compared"] in certeq("compare", path, "--no-report").stderr
    certeq("compare", path)
    assert "Strategies are not compared in CVaR" in (certeq.folder / "certeq-report.html").read_text()


def test_json_is_all_there_is_on_standard_output(certeq, prices, csv):
    result = certeq("compare", csv(prices), "--json", "--report", "c.html")
    assert json.loads(result.stdout)["report"] == "c.html"


def test_a_strategy_that_fails_leaves_the_others(certeq, prices, csv, monkeypatch):
    from certeq.cli import _compare

    def fragile(name, *more, **settings):
        if name in {"CVaR", "Hierarchical risk parity (HRP)"}:
            raise _compare.BadData("no [luck]")
        return genuine(name, *more, **settings)

    genuine = _compare.fitted
    monkeypatch.setattr(_compare, "fitted", fragile)
    result = certeq("compare", csv(prices))
    assert "CVaR failed; the report looks at Entropic instead" in result.stderr
    assert "Hierarchical risk parity (HRP) failed: no [luck]" in result.stderr
    assert "n/a" in result.stdout
    assert "no [luck]" in (certeq.folder / "certeq-report.html").read_text()


def test_cash_is_held(certeq, prices, csv):
    table = prices.assign(cash=1.00001 ** np.arange(len(prices)))
    rows = {row["name"]: row for row in certeq.json("compare", csv(table), "--no-report")["strategies"]}
    assert rows["CVaR"]["weights"]["cash"] > 0.9


def test_refusals(certeq, prices, csv):
    path = csv(prices)
    assert "at least 0.1667" in certeq.refused("compare", path, "--max-weight", "0.1", "--no-report")
    assert "did you mean 'quartic'" in certeq.refused("compare", path, "--focus", "quartik", code=2)
    certeq.refused("compare", path, "--report", "a.html", "--no-report", code=2)
    assert "too few" in certeq.refused("compare", csv(prices.iloc[:12]), "--no-report", "--test-size", "0.5")


def test_a_default_report_that_cannot_be_written_is_told_before_the_work(certeq, prices, csv, monkeypatch):
    path = csv(prices)
    (certeq.folder / "certeq-report.html").mkdir()
    assert "certeq-report.html" in certeq.refused("compare", path, "--force")
    monkeypatch.setattr("certeq.cli._compare.load_panel", lambda *a, **b: pytest.fail("the work was begun"))
    certeq.refused("compare", path, "--force")


def test_names_of_files_do_not_talk_to_the_terminal(certeq, prices, csv):
    path = csv(prices).rename(certeq.folder / "a\x1b[31m\u202eb.csv")
    said = certeq("compare", path, "--no-report")
    assert "\x1b" not in said.stdout + said.stderr
    assert "\u202e" not in said.stdout + said.stderr


def test_no_advice_of_an_option_that_is_not_there(certeq, prices, csv):
    said = certeq("compare", csv(np.exp(np.log(prices) * 1e-3)), "--no-report")
    assert "hardly sees" in said.stderr
    assert "--scale" not in said.stderr
