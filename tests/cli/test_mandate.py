"""``certeq portfolio`` with groups, costs, holdings, a benchmark, and walking forward."""

import json
import re

import numpy as np
import pytest

import certeq as ce
from certeq.portfolio import MinimumOCE


@pytest.fixture
def returns(prices):
    return prices.pct_change().dropna()


def test_groups_by_name_and_by_file(certeq, prices, csv):
    limit = ["--constraint", "calm <= 0.25"]
    named = certeq.json("portfolio", csv(prices), *limit, "--groups", "A=calm", "--groups", "B=calm")
    (certeq.folder / "groups.csv").write_text("asset;sector;land\nA;calm;US\nB;calm;\nZ;other;US\n")
    filed = certeq.json("portfolio", csv(prices), *limit, "--groups", "groups.csv")
    assert filed["weights"] == named["weights"]
    assert named["weights"]["A"] + named["weights"]["B"] == pytest.approx(0.25, abs=1e-9)
    assert "no asset 'Q'" in certeq.refused("portfolio", csv(prices), "--groups", "Q=calm")
    assert "--groups" in certeq.refused("portfolio", csv(prices), "--groups", "nowhere.csv")


def test_messages_name_options_and_not_parameters(certeq, prices, csv):
    said = certeq.refused("portfolio", csv(prices), "--constraint", "A >= 0.9", "--max-weight", "0.5")
    assert "--constraint" in said
    assert "linear_constraints" not in said
    assert "max_weights" not in said
    said = certeq.refused("portfolio", csv(prices), "--constraint", "Q >= 0.9")
    assert "--constraint" in said
    assert "linear_constraints" not in said
    assert "unknown_names" not in said
    assert "--max-risk, CVaR" in certeq.refused("portfolio", csv(prices), "--max-risk", "1e-6")


@pytest.mark.parametrize("walk", [(), ("--refit-every", "60", "--train-size", "100")], ids=["once", "walk"])
def test_errors_say_what_a_number_per_year_is_per_period(certeq, prices, csv, walk):
    options = ("--benchmark", "F", "--max-tracking-error", "1e-6")
    said = certeq.refused("portfolio", csv(prices), *options, *walk)
    assert "--max-tracking-error 1e-06 a year is 6.29941e-08 a day, and per day: " in said
    said = certeq.refused("portfolio", csv(prices), "--min-return", "9", *walk)
    assert "--min-return 9 a year is out of reach" in said


def test_a_largest_weight_in_per_cent_is_pointed_out(certeq, prices, csv):
    said = certeq("portfolio", csv(prices), "--max-weight", "20").stderr
    assert "--max-weight 20 limits nothing: no weight can exceed 1. Weights are fractions; 20 % is 0.2." in said
    said = certeq("portfolio", csv(prices), "--max-weight", "20", "--max-weight", "A=0.1").stderr
    assert "--max-weight 20 limits nothing" in said
    assert "found '20%'. 20 % is 0.2." in certeq.refused("portfolio", csv(prices), "--max-weight", "20%", code=2)
    assert "limits nothing" not in certeq("portfolio", csv(prices), "--max-weight", "0.5").stderr
    assert "limits nothing" not in certeq("portfolio", csv(prices), "--max-weight", "1").stderr


def test_costs_turnover_and_what_is_held(certeq, prices, returns, csv):
    held = {"A": 0.5, "F": 0.3, "GONE": 0.2}
    (certeq.folder / "held.json").write_text(json.dumps({"weights": held}))
    (certeq.folder / "held.csv").write_text("asset,weight\n" + "".join(f"{k},{v}\n" for k, v in held.items()))
    options = ["--costs", "0.01", "--costs", "F=0.02", "--max-turnover", "0.4"]
    found = certeq.json("portfolio", csv(prices), *options, "--previous", "held.json")
    same = certeq.json("portfolio", csv(prices), *options, "--previous", "held.csv")
    assert same["weights"] == found["weights"]
    costs = dict.fromkeys("ABCDE", 0.01 / 252) | {"F": 0.02 / 252, "GONE": 0.01 / 252}
    model = MinimumOCE(ce.CVaR(0.05), transaction_costs=costs, previous_weights=held, max_turnover=0.4).fit(returns)
    assert found["objective"] == pytest.approx(model.objective_, rel=1e-9)
    assert any("before costs" in text for text in found["notes"])
    assert "needs what is held" in certeq.refused("portfolio", csv(prices), "--max-turnover", "0.1", code=2)
    assert "must not be below 0; found '-0.1'" in certeq.refused("portfolio", csv(prices), "--costs", "-0.1", code=2)
    (certeq.folder / "bad.json").write_text("[1]")
    assert "under 'weights'" in certeq.refused("portfolio", csv(prices), "--previous", "bad.json")


def test_benchmark_from_a_column_or_a_file(certeq, prices, returns, csv):
    column = certeq.json("portfolio", csv(prices), "--benchmark", "F", "-r", "r.html")
    assert set(column["weights"]) == set("ABCDE")
    text = (certeq.folder / "r.html").read_text()
    assert "Against the benchmark" in text
    assert "Information ratio" in text
    # A file with dates that the panel does not have: returns run from one date of the panel to the next.
    sparse = csv(prices.drop(columns="F").iloc[::2], "sparse.csv")
    index = csv(prices[["F"]], "index.csv")
    certeq.json("portfolio", sparse, "--benchmark", index, "-r", "s.html", "--periods-per-year", 126)
    f = prices["F"].iloc[::2].pct_change().dropna()
    assert f"{126 * 100 * f.mean():.2f} %" in (certeq.folder / "s.html").read_text()
    assert "no such column or file" in certeq.refused("portfolio", csv(prices), "--benchmark", "f")
    late = csv(prices[["F"]].iloc[50:], "late.csv")
    assert "has no return on 5" in certeq.refused("portfolio", csv(prices), "--benchmark", late)
    assert "one column of prices" in certeq.refused("portfolio", csv(prices), "--benchmark", csv(prices, "two.csv"))


def test_gaps_of_a_benchmark_are_filled_in_a_column_and_in_a_file(certeq, prices, csv):
    table = prices.copy()
    table.iloc[[50, 51, 120], 5] = np.nan
    column = certeq.json("portfolio", csv(table), "--benchmark", "F")
    for index in (table[["F"]], table[["F"]].dropna()):
        file = csv(index, "index.csv")
        found = certeq.json("portfolio", csv(prices.drop(columns="F")), "--benchmark", file)
        assert found["benchmark"] | {"name": "F"} == pytest.approx(column["benchmark"], rel=1e-12)
        (text,) = found["notes"]
        assert text.endswith(
            "3 missing price(s) (0.75%) filled with the last price before: returns of 0 on those dates."
        )


def test_a_benchmark_with_long_or_many_gaps_is_refused_with_what_to_do(certeq, prices, csv):
    long, many = prices[["F"]].copy(), prices[["F"]].iloc[::5]
    long.iloc[100:115] = np.nan
    for index in (long, many):
        said = certeq.refused("portfolio", csv(prices), "--benchmark", csv(index, "index.csv"))
        assert "has no return on" in said
        assert "Give a price for each of them; gaps of up to 10 dates are filled with the last price" in said
    returns = prices.pct_change().dropna()
    said = certeq.refused(
        "portfolio", csv(returns), "--returns", "--benchmark", csv(returns[["F"]].drop(returns.index[7]), "index.csv")
    )
    assert "has no return on 1 of the 400 dates" in said
    assert "Give a return for each of them" in said


WALK = ("--refit-every", "100", "--train-size", "200")


@pytest.mark.parametrize("walk", [("--test-size", "0.25"), WALK], ids=["once", "walk"])
@pytest.mark.parametrize("name", ["CVaR", "Equal weights"])
def test_a_benchmark_may_have_the_name_of_a_strategy(certeq, prices, csv, name, walk):
    column = csv(prices.rename(columns={"F": name}))
    found = certeq.json("portfolio", column, "--benchmark", name, *walk, "-r", "r.html")
    assert found["benchmark"]["name"] == f"{name} (benchmark)"
    assert f"{name} (benchmark)" in (certeq.folder / "r.html").read_text()
    file = csv(prices[["F"]], f"{name}.csv")
    found = certeq.json("portfolio", csv(prices), "--benchmark", file, *walk, "--objective", "return")
    assert found["benchmark"]["name"] == f"{name} (benchmark)"


@pytest.mark.parametrize(
    ("objective", "name", "title"),
    [
        ("risk", "CVaR", "CVaR portfolio"),
        ("return", "Largest return", "Portfolio of largest return"),
        ("ratio", "Largest return/CVaR", "Portfolio of largest return/CVaR"),
        ("utility", "Largest utility, CVaR", "Portfolio of largest utility, CVaR"),
    ],
)
def test_a_portfolio_is_called_by_its_goal(certeq, prices, csv, objective, name, title):
    path, limits = csv(prices), ["--objective", objective, "--max-weight", "0.5"]
    limits += ["--risk-free-rate", "-1"] if objective == "ratio" else []  # one of the fits has falling prices
    said = certeq("portfolio", path, *limits, "-r", "r.html").stdout
    assert f"{name}: weights" in said
    assert f"{title}: prices.csv" in (certeq.folder / "r.html").read_text()
    if objective != "risk":
        assert f"\n{name}: " in said
        assert "\nCVaR: " not in said
    walked = certeq("portfolio", path, *limits, *WALK).stdout
    assert f"{name}, walking forward: prices.csv" in walked
    assert list(certeq.json("portfolio", path, *limits, *WALK)["metrics"]) == ["CVaR", "Equal weights"]


def test_walking_forward(certeq, prices, returns, csv):
    walk = ["--refit-every", 100, "--train-size", 150, "--costs", 0.001, "--max-turnover", 0.2]
    found = certeq.json("portfolio", csv(prices), *walk, "--benchmark", "F", "-r", "w.html", "-o", "last.csv")
    first, second, third = (np.array(list(each["weights"].values())) for each in found["portfolios"])
    X = returns.drop(columns="F")
    entry = MinimumOCE(ce.CVaR(0.05), transaction_costs=1e-5).fit(X[:150])
    np.testing.assert_allclose(first, entry.weights_, atol=1e-7)
    later = MinimumOCE(ce.CVaR(0.05), transaction_costs=1e-5, max_turnover=0.2, previous_weights=first)
    np.testing.assert_allclose(second, later.fit(X[100:250]).weights_, atol=1e-7)
    assert np.abs(third - second).max() <= 0.2 + 1e-9
    assert found["portfolios"][1]["turnover"] == pytest.approx(0.5 * np.abs(second - first).sum())
    assert found["portfolios"][1]["costs"] == pytest.approx(0.001 * np.abs(second - first).sum())
    assert "Weights through time" in (certeq.folder / "w.html").read_text()
    assert (certeq.folder / "last.csv").read_text().startswith("asset,weight")
    said = certeq("portfolio", csv(prices), *walk).stdout
    assert "3 portfolios from" in said
    assert "Optimality gap of every fit" in said
    assert "leave out --test-size" in certeq.refused("portfolio", "--refit-every", 5, "--test-size", 0.1, code=2)
    assert "belongs to --refit-every" in certeq.refused("portfolio", "--train-size", 5, code=2)
    assert "--train-size must be at least" in certeq.refused("portfolio", csv(prices), "--refit-every", 5)


def test_objectives_and_limits(certeq, prices, returns, csv):
    tail = ce.CVaR(0.05)
    least = MinimumOCE(tail).fit(returns).risk_
    limits = ["--max-risk", 1.02 * least, "--max-risk", f"evar:0.1={2 * least}"]
    found = certeq.json("portfolio", csv(prices), "--objective", "return", *limits)
    model = MinimumOCE(
        objective_function="maximize_return", risk_limits=[(tail, 1.02 * least), (ce.EVaR(0.1), 2 * least)]
    ).fit(returns)
    assert found["objective"] == pytest.approx(model.objective_, rel=1e-9)
    assert found["goal"] == "maximize_return"
    assert [limit["multiplier"] for limit in found["limits"]] == pytest.approx(list(model.limit_multipliers_), rel=1e-6)
    said = certeq("portfolio", csv(prices), "--objective", "return", *limits, "-r", "r.html").stdout
    assert "mean return" in said
    assert "one basis point more would have brought" in said
    assert "basis points of return a year" in said
    assert "does not bind" in said
    text = (certeq.folder / "r.html").read_text()
    assert "One basis point more would have brought" in text
    ratio = certeq.json("portfolio", csv(prices), "--objective", "ratio", "--risk-free-rate", 0.01)
    best = MinimumOCE(tail, "maximize_ratio", risk_free_rate=0.01 / 252).fit(returns)
    assert ratio["objective"] == pytest.approx(best.objective_, rel=1e-9)
    utility = certeq("portfolio", csv(prices), "--objective", "utility", "--risk-aversion", 2, "-r", "u.html").stdout
    assert "utility" in utility
    assert "out of reach" in certeq.refused("portfolio", csv(prices), "--max-risk", 1e-4)
    assert "there is no utility 'cvr'; did you mean 'cvar'" in certeq.refused(
        "portfolio", csv(prices), "--max-risk", "cvr=0.1", code=2
    ).replace("\n", " ")
    mixed = certeq.json("portfolio", csv(prices), "--max-risk", f"0.5 cvar + 0.5 evar alpha=0.1 <= {2 * least}")
    assert mixed["limits"][0]["name"].startswith("risk_limits[0], Mixture")
    assert "after a colon" in certeq.refused("portfolio", csv(prices), "--max-risk", "hmcr p=3:2=0.1", code=2)
    said = certeq.refused("portfolio", csv(prices), "--max-risk", "cvar=x", code=2)
    assert "--max-risk: must be a number, or NAME=NUMBER; found 'cvar=x'." in said
    assert "must be one of risk" in certeq.refused("portfolio", csv(prices), "--objective", "risc", code=2)
    assert "belongs to --objective" in certeq.refused("portfolio", csv(prices), "--risk-free-rate", 0.1, code=2)


def test_tracking_error(certeq, prices, returns, csv):
    found = certeq.json("portfolio", csv(prices), "--benchmark", "F", "--max-tracking-error", 0.16)
    model = MinimumOCE(max_tracking_error=0.16 / np.sqrt(252)).fit(returns.drop(columns="F"), returns["F"])
    assert found["objective"] == pytest.approx(model.objective_, rel=1e-9)
    walk = ["--benchmark", "F", "--max-tracking-error", 0.16, "--refit-every", 100, "--train-size", 200]
    assert len(certeq.json("portfolio", csv(prices), *walk)["portfolios"]) == 2
    certeq("portfolio", csv(prices), *walk[:4], "-r", "r.html")
    assert "needs a --benchmark" in certeq.refused("portfolio", csv(prices), "--max-tracking-error", 0.1, code=2)


def test_tracking_error_is_told_a_year_as_it_was_given(certeq, prices, csv):
    options = ["--benchmark", "F", "--max-tracking-error", 0.14]
    (limit,) = certeq.json("portfolio", csv(prices), *options)["limits"]
    assert limit["level"] == pytest.approx(0.14 / np.sqrt(252))
    said = certeq("portfolio", csv(prices), *options, "-r", "r.html").stdout
    gain = f"{limit['multiplier'] / np.sqrt(252):.3g} basis points less of the risk"
    assert (
        "--max-tracking-error: 14 % a year, limit 14 % a year, binds: one basis point more would have brought "
        f"{gain}." in said
    )
    text = (certeq.folder / "r.html").read_text()
    assert re.search(r"Largest tracking error a year\W[^0-9]*0\.14\b", text)


def test_a_file_without_headings_is_refused(certeq, prices, csv):
    (certeq.folder / "groups.csv").write_text("A,calm\nB,calm\n")
    said = certeq.refused("portfolio", csv(prices), "--groups", "groups.csv", "--constraint", "calm <= 0.25")
    assert "the first row holds the asset 'A', where headings belong. Add a row of headings." in said
    (certeq.folder / "held.csv").write_text("A,0.5\nB,0.5\n")
    assert "the first row holds the asset 'A'" in certeq.refused("portfolio", csv(prices), "--previous", "held.csv")


def test_names_that_are_no_assets_are_noted(certeq, prices, csv):
    named = csv(prices.rename(columns={"A": "AAPL", "B": "MSFT"}))
    (certeq.folder / "groups.csv").write_text("asset,sector\naapl,calm\nMSFT,calm\nNVDA,calm\n")
    found = certeq.json("portfolio", named, "--groups", "groups.csv")
    text = next(each for each in found["notes"] if "--groups" in each)
    assert text == (
        "--groups groups.csv: 'aapl', 'NVDA' are no assets of the data, and are passed over. Did you mean 'AAPL' "
        "for 'aapl'?"
    )
    (certeq.folder / "held.csv").write_text("asset,weight\naapl,0.5\nMSFT,0.5\nNVDA,0\n")
    found = certeq.json("portfolio", named, "--previous", "held.csv", "--costs", "0.001")
    text = next(each for each in found["notes"] if "--previous" in each)
    assert text == ("--previous held.csv: 'aapl' is no asset of the data, and is sold. Did you mean 'AAPL' for 'aapl'?")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("asset,weight\nA,0.5\nA,0.5\n", "row 2 of the data, 'A', occurs twice; each asset has one weight."),
        ("asset,weight\nA,0.5\nB,\n", "row 2 of the data, 'B', has no weight; write 0 for an asset that is not held."),
        ("asset,weight\nA,half\n", "row 1 of the data, 'A', must have a number for a weight; found 'half'."),
        ("asset,name,part\nA,x,0.5\n", "or one that is called weight; found 'asset', 'name', 'part'."),
        ("asset\nA\n", "must have two columns, asset and weight; found 'asset' alone."),
        ("asset,weight\nA,50\nB,50\n", "weights are fractions; found a sum of 100: are these per cent, shares or"),
        ("asset,weight\nA,0,5\n", "row 1 of the data has 3 cells and the header 2."),
        ("asset,weight\nA,inf\n", "must hold finite weights; found inf for 'A'."),
    ],
)
def test_holdings_that_will_not_do_are_refused(certeq, prices, csv, text, said):
    (certeq.folder / "held.csv").write_text(text)
    assert said in certeq.refused("portfolio", csv(prices), "--previous", "held.csv")


def test_holdings_with_more_columns_and_decimal_commas(certeq, prices, csv):
    (certeq.folder / "plain.csv").write_text("asset,weight\nA,0.5\nF,0.5\n")
    (certeq.folder / "broker.csv").write_text("Asset;Price;Weight\nA;101,5;0,5\nF;33,2;0,5\n")
    (certeq.folder / "percent.csv").write_text("asset,weight\nA,50%\nF,50 %\n")
    options = ["--max-turnover", "0.1", "--previous"]
    plain = certeq.json("portfolio", csv(prices), *options, "plain.csv")
    assert certeq.json("portfolio", csv(prices), *options, "broker.csv")["weights"] == plain["weights"]
    assert certeq.json("portfolio", csv(prices), *options, "percent.csv")["weights"] == plain["weights"]
    (certeq.folder / "twice.json").write_text('{"weights": {"A": 0.5, "A": 0.5}}')
    assert "'A' occurs twice" in certeq.refused("portfolio", csv(prices), *options, "twice.json")


def test_costs_are_spoken_of_in_the_terminal(certeq, prices, csv):
    said = certeq("portfolio", csv(prices), "--costs", "0.2").stderr
    assert "note: the weights reckon with the costs; returns and figures are before costs." in said
    assert "--costs 0.2 is 20 % of a trade. Costs are fractions: 0.001 is 0.1 %." in said
    assert "Costs are fractions" not in certeq("portfolio", csv(prices), "--costs", "0.01").stderr


def test_numbers_in_per_cent_are_noted_in_json_and_report(certeq, prices, csv):
    found = certeq.json("portfolio", csv(prices), "--max-weight", "20", "--max-risk", "2", "-r", "r.html")
    noted = [
        "--max-weight 20 limits nothing: no weight can exceed 1. Weights are fractions; 20 % is 0.2.",
        "--max-risk 2 limits nothing: no loss exceeds 1, which is 100 %. Levels are fractions; 2 % is 0.02.",
    ]
    assert [text for text in found["notes"] if "limits nothing" in text] == noted
    page = (certeq.folder / "r.html").read_text()
    assert all(text in page for text in noted)
    assert noted[0] in certeq.json("compare", csv(prices), "--max-weight", "20", "--no-report")["notes"]
    quartic = ["--max-risk", "quartic=2"]
    assert not any("limits nothing" in text for text in certeq.json("portfolio", csv(prices), *quartic)["notes"])


@pytest.mark.parametrize("command", ["portfolio", "compare"])
@pytest.mark.parametrize("number", ["0", "-1", "nan", "inf"])
def test_periods_of_a_year_that_will_not_do_without_a_file(certeq, command, number):
    assert "--periods-per-year: must be" in certeq.refused(command, "--periods-per-year", number, code=2)


def test_sheet_of_what_has_none_and_a_budget_that_is_no_number(certeq, prices, csv):
    said = certeq.refused("portfolio", csv(prices), "--sheet", "One")
    assert "--sheet 'One' is for Excel files; this is none." in said
    assert "--sheet 'One'" in certeq.refused("estimate", csv(prices), "-c", "A", "--sheet", "One")
    said = certeq.refused("portfolio", csv(prices), "--budget", "nan", code=2)
    assert "--budget: must be a finite number; found NaN." in said


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-weight", "abc", "must be a number or NAME=NUMBER; found 'abc'."),
        ("--max-weight", "nan", "must be finite; found 'nan'."),
        ("--min-weight", "A=x", "must be a number or NAME=NUMBER; found 'A=x'."),
        ("--costs", "-1", "must not be below 0; found '-1'."),
        ("--costs", "A=-1", "must not be below 0; found 'A=-1'."),
        ("--periods-per-year", "0", "must be a finite number above 0; found 0.0."),
        ("--min-return", "nan", "must be a finite number; found NaN."),
        ("--max-risk", "nan", "must be a number, or NAME=NUMBER; found 'nan'."),
        ("--constraint", "A >>> 3", "one of <=, >= and ==, with terms on both sides, must be in 'A >>> 3'."),
        ("--constraint", "A >= 5%", "write 0.05 for 5 %, in 'A >= 5%'."),
    ],
)
def test_what_no_data_would_make_right_is_bad_usage(certeq, prices, csv, option, value, said):
    told = certeq.refused("portfolio", csv(prices), option, value, code=2)
    assert f"{option}: {said}" in told
    assert "CVaR" not in told


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-tracking-error", "-1", "must be a finite number not below 0; found -1.0."),
        ("--risk-aversion", "0", "must be a finite number above 0; found 0.0."),
        ("--risk-free-rate", "inf", "must be a finite number; found inf."),
    ],
)
def test_numbers_are_checked_before_files_are_read(certeq, option, value, said):
    told = certeq.refused("portfolio", "missing.csv", "--benchmark", "A", option, value, code=2)
    assert f"{option}: {said}" in told


def test_numbers_of_a_comparison_are_checked_before_files_are_read(certeq):
    told = certeq.refused("compare", "missing.csv", "--max-weight", "nan", code=2)
    assert "--max-weight: must be a finite number; found NaN." in told


@pytest.mark.parametrize("walk", [(), WALK], ids=["once", "walk"])
def test_errors_of_a_single_portfolio_do_not_name_its_risk(certeq, prices, csv, walk):
    said = certeq.refused("portfolio", csv(prices), "--constraint", "Q >= 0.9", *walk)
    assert said.startswith("error: --constraint: there is no asset or group 'Q'")


def test_errors_speak_of_a_year(certeq, prices, csv, returns):
    most = 252 * returns.mean().max()
    said = certeq.refused("portfolio", csv(prices), "--min-return", "10")
    assert f"--min-return 10 a year is out of reach: the other constraints allow {most:.4g} a year at most." in said
    assert said.endswith(" 10 % is 0.1.")
    said = certeq.refused("portfolio", csv(prices), "--objective", "ratio", "--risk-free-rate", "2")
    assert f"more than --risk-free-rate, 2 a year; the most is {most:.4g} a year. 2 % is 0.02." in said


def test_limits_are_told_in_per_cent(certeq, prices, csv):
    limits = ("--max-risk", "0.5", "--benchmark", "F", "--max-tracking-error", "0.5")
    said = certeq("portfolio", csv(prices), *limits).stdout
    assert re.search(r"--max-risk CVaR\(alpha=0.05\): [\d.]+ %, limit 50 %, does not bind\.", said)
    assert re.search(r"--max-tracking-error: [\d.]+ % a year, limit 50 % a year, does not bind\.", said)


def test_a_benchmark_is_compared_with_in_the_terminal(certeq, prices, returns, csv):
    said = certeq("portfolio", csv(prices), "--benchmark", "F").stdout
    found = certeq.json("portfolio", csv(prices), "--benchmark", "F")
    away = returns.drop(columns="F") @ np.array(list(found["weights"].values())) - returns["F"]
    assert found["benchmark"]["name"] == "F"
    assert found["benchmark"]["return"] == pytest.approx(252 * returns["F"].mean())
    assert found["benchmark"]["cvar"] == pytest.approx(ce.oce(-returns["F"].to_numpy(), ce.CVaR(0.05)))
    assert found["benchmark"]["tracking_error"] == pytest.approx(np.sqrt(252) * away.std())
    assert f"Against F: it returned {100 * found['benchmark']['return']:.2f} % a year, with a CVaR 95 % of" in said
    assert "benchmark" not in certeq.json("portfolio", csv(prices))


def test_a_walk_is_compared_with_its_benchmark_in_the_terminal(certeq, prices, csv):
    walk = ("portfolio", csv(prices), "--benchmark", "F", "--refit-every", 60, "--train-size", 150)
    found = certeq.json(*walk)["benchmark"]
    said = certeq(*walk).stdout.replace("\n", " ")
    assert found["name"] == "F"
    assert f"tracking error {100 * found['tracking_error']:.2f} % a year" in said


def test_limits_in_the_report_are_named_in_words(certeq, prices, csv):
    limits = ("--max-risk", "0.5", "--benchmark", "F", "--max-tracking-error", "0.5")
    certeq("portfolio", csv(prices), *limits, "-r", "r.html")
    page = (certeq.folder / "r.html").read_text()
    assert '<th scope="row">CVaR(alpha=0.05)</th>' in page
    assert '<th scope="row">Tracking error against F, a year</th>' in page
    assert "risk_limits" not in page


def test_figures_are_named_and_missing_ones_are_not_nan(certeq, prices, csv):
    said = certeq("portfolio", csv(prices)).stdout
    assert re.search(r"Return [\d.-]+ % a year, CVaR 95 % [\d.]+ % a day, Sharpe ", said)
    assert re.search(r"\d\.\d\d %", said)
    cash = prices.assign(A=1.0)
    assert "Sharpe n/a" in certeq("portfolio", csv(cash)).stdout


def test_one_portfolio_of_a_walk_and_its_costs(certeq, prices, csv):
    walk = ("--refit-every", 300, "--train-size", 150, "--costs", 0.001, "-r", "w.html")
    assert "1 portfolio from" in certeq("portfolio", csv(prices), *walk).stdout
    assert "0.1 % of its size, spread over 300 days" in (certeq.folder / "w.html").read_text()


def test_report_that_is_a_folder_and_goals_in_help(certeq, prices, csv):
    assert "'.' must end in .html" in certeq.refused("portfolio", csv(prices), "--report", ".", code=2)
    text = " ".join(certeq("portfolio", "--help").stdout.split())
    assert "risk for the least risk; return, ratio (of return to risk) or utility for the largest" in text


@pytest.mark.parametrize(
    ("option", "first", "second", "said"),
    [
        ("--max-weight", "A=.1", "A=.9", "A is given twice: 0.1 and 0.9"),
        ("--min-weight", "A=.1", "A=.1", "A is given twice: 0.1 and 0.1"),
        ("--costs", "0.001", "0.002", "the number for all assets is given twice: 0.001 and 0.002"),
        ("--max-risk", "cvar=.02", "cvar:0.05=.03", "CVaR(alpha=0.05) is given twice: 0.02 and 0.03"),
    ],
)
def test_a_limit_given_twice_is_refused(certeq, prices, csv, option, first, second, said):
    found = certeq.refused("portfolio", csv(prices), option, first, option, second, code=2)
    assert option in found
    assert said in found
    assert certeq.json("portfolio", csv(prices), option, first, "--max-weight", "B=0.5")["gap"] < 1e-9
