"""``certeq portfolio`` with groups, costs, holdings, limits, a benchmark, and walking forward."""

import json
import re

import numpy as np
import pytest

import certeq as ce
from certeq.portfolio import MinimumOCE

WALK = ("--refit-every", "100", "--train-size", "200")
TAIL = ce.CVaR(0.05)


def test_groups_by_name_and_by_file(certeq, prices, csv):
    limit = ["--constraint", "calm <= 0.25"]
    named = certeq.json("portfolio", csv(prices), *limit, "--groups", "A=calm", "--groups", "B=calm")
    (certeq.folder / "groups.csv").write_text("asset;sector;land\nA;calm;US\nB;calm;\nZ;other;US\n")
    filed = certeq.json("portfolio", csv(prices), *limit, "--groups", "groups.csv")
    assert filed["weights"] == named["weights"]
    assert named["weights"]["A"] + named["weights"]["B"] == pytest.approx(0.25, abs=1e-9)


def test_costs_turnover_and_what_is_held(certeq, prices, returns, csv):
    held = {"A": 0.5, "F": 0.3, "GONE": 0.2}
    (certeq.folder / "held.json").write_text(json.dumps({"weights": held}))
    (certeq.folder / "held.csv").write_text("asset,weight\n" + "".join(f"{k},{v}\n" for k, v in held.items()))
    (certeq.folder / "broker.csv").write_text("Asset;Price;Weight\nA;101,5;0,5\nF;33,2;0,3\nGONE;7;0,2\n")
    (certeq.folder / "percent.csv").write_text("asset,weight\nA,50%\nF,30 %\nGONE,20%\n")
    options = ["--costs", "0.01", "--costs", "F=0.02", "--max-turnover", "0.4", "--previous"]
    found = certeq.json("portfolio", csv(prices), *options, "held.json")
    for name in ("held.csv", "broker.csv", "percent.csv"):
        assert certeq.json("portfolio", csv(prices), *options, name)["weights"] == found["weights"]
    costs = dict.fromkeys("ABCDE", 0.01 / 252) | {"F": 0.02 / 252, "GONE": 0.01 / 252}
    model = MinimumOCE(TAIL, transaction_costs=costs, previous_weights=held, max_turnover=0.4).fit(returns)
    assert found["objective"] == pytest.approx(model.objective_, rel=1e-9)
    assert any("before costs" in text for text in found["notes"])


def test_notes_are_in_json_and_in_the_report(certeq, prices, csv):
    found = certeq.json("portfolio", csv(prices), "--max-weight", "20", "--max-risk", "2", "-r", "r.html")
    noted = [text for text in found["notes"] if "limits nothing" in text]
    assert [text.split(" limits")[0] for text in noted] == ["--max-weight 20", "--max-risk 2"]
    page = (certeq.folder / "r.html").read_text()
    assert all(text in page for text in noted)
    assert noted[0] in certeq.json("compare", csv(prices), "--max-weight", "20", "--no-report")["notes"]


# -- benchmarks --------------------------------------------------------------------------------------------------------


def test_benchmark_from_a_column_or_a_file(certeq, prices, returns, csv):
    asked = ("portfolio", csv(prices), "--benchmark", "F")
    found, said = certeq.json(*asked, "-r", "r.html"), certeq(*asked).out
    assert set(found["weights"]) == set("ABCDE")
    away = returns.drop(columns="F") @ np.array(list(found["weights"].values())) - returns["F"]
    assert found["benchmark"]["name"] == "F"
    assert found["benchmark"]["return"] == pytest.approx(252 * returns["F"].mean())
    assert found["benchmark"]["cvar"] == pytest.approx(ce.oce(-returns["F"].to_numpy(), TAIL))
    assert found["benchmark"]["tracking_error"] == pytest.approx(np.sqrt(252) * away.std())
    assert f"Against F: it returned {100 * found['benchmark']['return']:.2f} % a year, with a CVaR 95 % of" in said
    text = (certeq.folder / "r.html").read_text()
    assert "Against the benchmark" in text
    assert "Information ratio" in text
    assert "benchmark" not in certeq.json("portfolio", csv(prices))
    # A file with dates that the panel does not have: returns run from one date of the panel to the next.
    sparse, index = csv(prices.drop(columns="F").iloc[::2], "sparse.csv"), csv(prices[["F"]], "index.csv")
    found = certeq.json("portfolio", sparse, "--benchmark", index, "--periods-per-year", 126)
    f = prices["F"].iloc[::2].pct_change().dropna()
    assert found["benchmark"]["return"] == pytest.approx(126 * f.mean())


def test_gaps_of_a_benchmark_are_filled_in_a_column_and_in_a_file(certeq, prices, csv):
    table = prices.copy()
    table.iloc[[50, 51, 120], 5] = np.nan
    column = certeq.json("portfolio", csv(table), "--benchmark", "F")
    for index in (table[["F"]], table[["F"]].dropna()):
        file = csv(index, "index.csv")
        found = certeq.json("portfolio", csv(prices.drop(columns="F")), "--benchmark", file)
        assert found["benchmark"] | {"name": "F"} == pytest.approx(column["benchmark"], rel=1e-12)
        (text,) = found["notes"]
        assert "3 missing price(s) (0.75%) filled with the last price before" in text


@pytest.mark.parametrize(
    ("name", "walk"), [("CVaR", ("--test-size", "0.25")), ("CVaR", WALK), ("Equal weights", WALK)], ids=str
)
def test_a_benchmark_may_have_the_name_of_a_strategy(certeq, prices, csv, name, walk):
    column = csv(prices.rename(columns={"F": name}))
    found = certeq.json("portfolio", column, "--benchmark", name, *walk, "-r", "r.html")
    assert found["benchmark"]["name"] == f"{name} (benchmark)"
    assert f"{name} (benchmark)" in (certeq.folder / "r.html").read_text()
    file = csv(prices[["F"]], f"{name}.csv")
    found = certeq.json("portfolio", csv(prices), "--benchmark", file, *walk, "--objective", "return")
    assert found["benchmark"]["name"] == f"{name} (benchmark)"


def test_tracking_error_is_told_a_year_as_it_was_given(certeq, prices, returns, csv):
    options = ["--benchmark", "F", "--max-tracking-error", 0.14]
    found = certeq.json("portfolio", csv(prices), *options)
    model = MinimumOCE(max_tracking_error=0.14 / np.sqrt(252)).fit(returns.drop(columns="F"), returns["F"])
    assert found["objective"] == pytest.approx(model.objective_, rel=1e-9)
    (limit,) = found["limits"]
    assert limit["level"] == pytest.approx(0.14 / np.sqrt(252))
    said = certeq("portfolio", csv(prices), *options, "-r", "r.html").out
    gain = f"{limit['multiplier'] / np.sqrt(252):.3g} basis points less of the risk"
    assert "--max-tracking-error: 14 % a year, limit 14 % a year, binds: one basis point more" in said
    assert gain in said
    page = (certeq.folder / "r.html").read_text()
    assert re.search(r"Largest tracking error a year\W[^0-9]*0\.14\b", page)
    assert '<th scope="row">Tracking error against F, a year</th>' in page
    assert len(certeq.json("portfolio", csv(prices), *options, *WALK)["portfolios"]) == 2


# -- objectives and limits ---------------------------------------------------------------------------------------------


def test_limits(certeq, prices, returns, csv):
    least = MinimumOCE(TAIL).fit(returns).risk_
    limits = ["--max-risk", 1.02 * least, "--max-risk", f"evar:0.1={2 * least}"]
    found = certeq.json("portfolio", csv(prices), "--objective", "return", *limits)
    pairs = [(TAIL, 1.02 * least), (ce.EVaR(0.1), 2 * least)]
    model = MinimumOCE(objective_function="maximize_return", risk_limits=pairs).fit(returns)
    assert found["objective"] == pytest.approx(model.objective_, rel=1e-9)
    assert found["goal"] == "maximize_return"
    assert [limit["multiplier"] for limit in found["limits"]] == pytest.approx(list(model.limit_multipliers_), rel=1e-6)
    said = certeq("portfolio", csv(prices), "--objective", "return", *limits, "-r", "r.html").out
    for words in ("mean return", "one basis point more would have brought", "basis points of return a year"):
        assert words in said
    assert re.search(r"--max-risk EVaR\(alpha=0.1\): [\d.]+ %, limit [\d.]+ %, does not bind\.", said)
    page = (certeq.folder / "r.html").read_text()
    assert "One basis point more would have brought" in page
    assert '<th scope="row">CVaR(alpha=0.05)</th>' in page
    assert "risk_limits" not in page
    mixed = certeq.json("portfolio", csv(prices), "--max-risk", f"0.5 cvar + 0.5 evar alpha=0.1 <= {2 * least}")
    assert mixed["limits"][0]["name"].startswith("risk_limits[0], Mixture")


def test_ratio_and_utility(certeq, prices, returns, csv):
    ratio = certeq.json("portfolio", csv(prices), "--objective", "ratio", "--risk-free-rate", 0.01)
    best = MinimumOCE(TAIL, "maximize_ratio", risk_free_rate=0.01 / 252).fit(returns)
    assert ratio["objective"] == pytest.approx(best.objective_, rel=1e-9)
    utility = certeq.json("portfolio", csv(prices), "--objective", "utility", "--risk-aversion", 2)
    best = MinimumOCE(TAIL, "maximize_utility", risk_aversion=2.0).fit(returns)
    assert utility["objective"] == pytest.approx(best.objective_, rel=1e-9)


def test_figures_are_named_and_missing_ones_are_not_nan(certeq, prices, csv):
    said = certeq("portfolio", csv(prices)).out
    assert re.search(r"Return [\d.-]+ % a year, CVaR 95 % [\d.]+ % a day, Sharpe ", said)
    assert "Sharpe n/a" in certeq("portfolio", csv(prices.assign(A=1.0))).out


# -- walking forward ---------------------------------------------------------------------------------------------------


def test_walking_forward(certeq, prices, returns, csv):
    walk = ["--refit-every", 100, "--train-size", 150, "--costs", 0.001, "--max-turnover", 0.2]
    found = certeq.json("portfolio", csv(prices), *walk, "--benchmark", "F", "-r", "w.html", "-o", "last.csv")
    first, second, third = (np.array(list(each["weights"].values())) for each in found["portfolios"])
    X = returns.drop(columns="F")
    entry = MinimumOCE(TAIL, transaction_costs=1e-5).fit(X[:150])
    np.testing.assert_allclose(first, entry.weights_, atol=1e-7)
    later = MinimumOCE(TAIL, transaction_costs=1e-5, max_turnover=0.2, previous_weights=first)
    np.testing.assert_allclose(second, later.fit(X[100:250]).weights_, atol=1e-7)
    assert np.abs(third - second).max() <= 0.2 + 1e-9
    assert found["portfolios"][1]["turnover"] == pytest.approx(0.5 * np.abs(second - first).sum())
    assert found["portfolios"][1]["costs"] == pytest.approx(0.001 * np.abs(second - first).sum())
    assert list(found["metrics"]) == ["CVaR", "Equal weights", "F"]
    page = (certeq.folder / "w.html").read_text()
    assert "Weights through time" in page
    assert "0.1 % of its size, spread over 100 days" in page
    assert (certeq.folder / "last.csv").read_text().startswith("asset,weight")
    said = certeq("portfolio", csv(prices), *walk, "--benchmark", "F").out.replace("\n", " ")
    assert "3 portfolios from" in said
    assert "Optimality gap of every fit" in said
    assert f"tracking error {100 * found['benchmark']['tracking_error']:.2f} % a year" in said
    assert "1 portfolio from" in certeq("portfolio", csv(prices), "--refit-every", 300, "--train-size", 150).out
