"""Walk-forwards: figures against a computation by hand, every way in, refusals, and the page."""

import numpy as np
import pandas as pd
import pytest
from skfolio import Portfolio
from skfolio.model_selection import WalkForward, cross_val_predict
from skfolio.optimization import EqualWeighted

import certeq as ce
from certeq.portfolio import MinimumOCE
from certeq.report import WalkStudy, figures, render, save, walk_forward, walk_of
from tests.report.chromium import BINARY, Chromium
from tests.report.conftest import HOSTILE, Page


@pytest.fixture(scope="module")
def returns():
    table = 0.0005 + 0.01 * np.random.default_rng(3).standard_t(5, size=(700, 5))
    return pd.DataFrame(table, index=pd.bdate_range("2021-01-04", periods=700), columns=list("ABCDE"))


@pytest.fixture(scope="module")
def study(returns):
    costly = MinimumOCE(ce.CVaR(0.1), transaction_costs=0.001 / 60, management_fees=1e-5)
    walk = walk_forward("costly", costly, returns, train_size=200, test_size=60)
    free = walk_forward("free", MinimumOCE(ce.EVaR(0.1)), returns, train_size=200, test_size=60)
    return WalkStudy("Walk", "made up", (walk, free), benchmark=returns["A"])


def test_is_the_walk_of_skfolio(returns, study):
    """The same weights, costs and returns as skfolio's cross-validation, which hands on what is held."""
    model = MinimumOCE(ce.CVaR(0.1), transaction_costs=0.001 / 60, management_fees=1e-5)
    theirs = cross_val_predict(model, returns, cv=WalkForward(train_size=200, test_size=60, reduce_test=True))
    mine, same = study.focused, walk_of("theirs", theirs)
    np.testing.assert_allclose(mine.weights, same.weights, atol=1e-12)
    np.testing.assert_allclose(mine.returns, theirs.returns, atol=1e-15)
    np.testing.assert_allclose(mine.costs, same.costs, rtol=1e-9)
    np.testing.assert_allclose(2.0 * mine.turnover[1:], theirs.turnover.to_numpy()[1:], atol=1e-12)
    assert mine.gaps.max() < 1e-9
    assert same.gaps is None


def test_by_hand(returns):
    """Two periods: costs are charged on every date, turnover is half the change, years are compounded."""
    X = returns.iloc[:400]
    first = Portfolio(X[:250], [1.0, 0, 0, 0, 0], transaction_costs=1e-4)
    second = Portfolio(X[250:], [0.25, 0.75, 0, 0, 0], transaction_costs=1e-4, previous_weights=[1.0, 0, 0, 0, 0])
    walk = walk_of("two", [first, second])
    a, b = X["A"].to_numpy(), X["B"].to_numpy()
    by_hand = np.concatenate([a[:250] - 1e-4, 0.25 * a[250:] + 0.75 * b[250:] - 1.5e-4])
    np.testing.assert_allclose(walk.returns, by_hand, atol=1e-15)
    np.testing.assert_allclose(walk.turnover, [np.nan, 0.75])
    np.testing.assert_allclose(walk.costs, [0.025, 0.0225])
    study = WalkStudy("t", "s", (walk,), benchmark=X["A"].rename("index"), window=50)
    page = Page(render(study))
    inside = X.index.year == 2022
    row = page.table("years")["2022"]
    assert row["Return"] == f"{100 * (np.prod(1 + by_hand[inside]) - 1):.1f} %"
    assert row["index"] == f"{100 * (np.prod(1 + a[inside]) - 1):.1f} %"
    assert row["Costs"] == f"{100 * np.where(np.arange(400) < 250, 1e-4, 1.5e-4)[inside].sum():.2f} %"
    assert figures(study)["two"]["annualized_mean"][0] == pytest.approx(252 * by_hand.mean())
    mine = next(trace for trace in page.chart("rolling")["traces"] if trace["name"] == "two")
    ends = [mine["x"].index(f"{X.index[k]:%Y-%m-%d}") for k in (49, 399)]
    wanted = [ce.oce(-by_hand[:50], ce.CVaR(0.05)), ce.oce(-by_hand[350:], ce.CVaR(0.05))]
    np.testing.assert_allclose(np.array(mine["y"])[ends], wanted, rtol=1e-4)
    cells = page.table("benchmark")["two"]
    slope, level = np.polyfit(a, by_hand, 1)
    assert cells["Beta"] == f"{slope:.2f}"
    assert cells["Alpha"] == f"{25200 * level:.2f} %"
    assert cells["Tracking error"] == f"{100 * np.sqrt(252) * (by_hand - a).std(ddof=1):.2f} %"
    assert page.rows["trades"][2][1:4] == ["150", "75.0 %", "2.250 %"]


def test_lists_of_fits_drift_and_changing_assets(returns):
    fits = [(EqualWeighted().fit(returns[:100]), returns[100:200]), (EqualWeighted().fit(returns), returns[200:300])]
    assert walk_of("equal", fits).turnover[1] == 0.0
    drifting = [Portfolio(each, [0.2] * 5, weight_drift=True) for each in (returns[:100], returns[100:200])]
    assert walk_of("drift", drifting).turnover[1] > 0.001
    fewer = [Portfolio(returns[:100], [0.2] * 5), Portfolio(returns[["A", "B"]][100:200], [0.5, 0.5])]
    assert walk_of("fewer", fewer).turnover[1] == pytest.approx(0.6)


def test_failed_periods_are_noted(returns):
    model = MinimumOCE(ce.CVaR(0.1), min_return=0.0008, raise_on_failure=False)
    with pytest.warns(UserWarning, match="min_return"):
        found = cross_val_predict(model, returns, cv=WalkForward(train_size=200, test_size=50))
    assert 0 < found.n_failed_portfolios < len(found)
    walk = walk_of("greedy", found)
    assert walk.notes == (f"greedy: {found.n_failed_portfolios} portfolios failed, and their periods are left out.",)


@pytest.fixture(scope="module")
def hostile():
    n = len(HOSTILE)
    table = 0.0004 + 0.01 * np.random.default_rng(0).standard_t(5, size=(500, n))
    X = pd.DataFrame(table, index=pd.bdate_range("2020-01-01", periods=500), columns=HOSTILE)
    shares = np.random.default_rng(1).dirichlet(np.ones(n), size=5)
    shares[:, 0] *= -1.0  # short: lines instead of areas
    periods = [Portfolio(X[k * 100 : (k + 1) * 100], share) for k, share in enumerate(shares)]
    return WalkStudy("A <b>walk</b>", "x", (walk_of("<i>w</i>", periods),), benchmark=X[HOSTILE[1]])


def test_page_has_words_and_numbers(study):
    page = Page(render(study))
    assert [c["key"] for c in page.data["charts"]] == ["risk", "wealth", "drawdowns", "rolling", "weights", "trades"]
    for wanted in ("Against the benchmark", "Years of costly", "Turnover a year", "Optimality gap, every fit"):
        assert wanted in page.said


@pytest.mark.skipif(BINARY is None, reason="chromium is not installed (Debian: apt-get install chromium)")
@pytest.mark.xdist_group("chromium")
def test_in_a_browser(hostile, tmp_path):
    page = save(hostile, tmp_path / "walk.html")
    with Chromium() as browser:
        for width in (1280, 380):
            browser.open(page, width=width)
            assert browser.complaints() == []
            assert browser.requests() == []
            assert "pwned" not in browser.evaluate("document.title")
            drawn = "[...document.querySelectorAll('.chart')].map((c) => c.querySelectorAll('svg').length > 0)"
            assert browser.evaluate(drawn) == [True] * 6
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert browser.evaluate("document.querySelectorAll('main b, main i, main img').length") == 0


def test_a_year_of_few_returns_has_no_tail(returns):
    X = returns.loc["2021-12-10":"2022-03-31"]
    years = Page(render(WalkStudy("t", "s", (walk_of("w", [Portfolio(X, [0.2] * 5)]),)))).table("years")
    assert [(year["Days"], year["CVaR 95 %"] == "n/a") for year in years.values()] == [("16", True), ("64", False)]
