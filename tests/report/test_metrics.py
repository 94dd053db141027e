"""The seven figures against skfolio, and their intervals against what is known."""

from functools import partial

import numpy as np
import pytest

import certeq as ce
from certeq.report import METRICS, intervals, measure
from certeq.report.metrics import stationary_indices

skfolio = pytest.importorskip("skfolio")


daily = partial(intervals, periods_per_year=252)


@pytest.mark.parametrize("n", [2, 3, 19, 20, 250, 1000])
def test_agree_with_skfolio(n):
    returns = 0.0005 + 0.01 * np.random.default_rng(n).standard_t(4, size=n)
    portfolio = skfolio.Portfolio(X=returns[:, None], weights=[1.0])
    found = measure(returns, 252)
    for metric in METRICS:
        assert found[metric.key] == pytest.approx(float(getattr(portfolio, metric.key)), rel=2e-6), metric.key


def test_flat_returns_have_no_ratio():
    found = measure(np.zeros(50), 252)
    assert found["cvar"] == found["cdar"] == found["gini_mean_difference"] == 0.0
    assert np.isnan(found["annualized_sharpe_ratio"])
    assert METRICS[-1].show(found["annualized_sortino_ratio"]) == "n/a"


def test_places_are_blocks_of_the_asked_length():
    indices = stationary_indices(400, 200, 20.0, np.random.default_rng(0))
    assert indices.shape == (200, 400)
    assert indices.min() >= 0
    assert indices.max() <= 399
    joined = (np.diff(indices, axis=1) % 400 == 1).mean()
    assert joined == pytest.approx(0.95, abs=0.01)


def test_intervals_cover_the_mean_of_independent_days():
    rng, covered = np.random.default_rng(1), 0
    for _ in range(60):
        low, high = intervals(rng.normal(0.001, 0.01, size=300), 0.9, periods_per_year=252, replicates=120, block=5)[
            "annualized_mean"
        ]
        covered += low <= 252 * 0.001 <= high
    assert covered >= 44  # 54 expected; short of 44 with probability 1e-4


def test_intervals_repeat_and_decline():
    returns = np.random.default_rng(2).normal(size=200) * 0.01
    assert daily(returns, replicates=20) == daily(returns, replicates=20)
    assert np.isnan(daily(returns[:50])["cvar"]).all()


def test_one_interval_for_one_number():
    """The CVaR of a report has the interval that `estimate` gives it."""
    returns = np.random.default_rng(2).normal(size=200) * 0.01
    wanted = ce.estimate(-returns, ce.CVaR(0.05), dependence="auto").interval()
    assert daily(returns, replicates=20)["cvar"] == pytest.approx(wanted)
