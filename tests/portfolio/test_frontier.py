"""The efficient frontier: each point is optimal for its target, and the ends are the least risk and the most return."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from skfolio import Population, RiskMeasure
from skfolio.optimization import MeanRisk

import certeq as ce
from certeq.portfolio import Frontier, MinimumOCE
from tests.portfolio import reference


@pytest.mark.parametrize("utility", [ce.CVaR(0.05), ce.Entropic(30.0), ce.Quartic().scaled(0.1)], ids=repr)
def test_ends_and_shape(utility: ce.Utility, small: pd.DataFrame) -> None:
    model = MinimumOCE(utility)
    frontier = model.efficient_frontier(small, n=12)
    assert not hasattr(model, "weights_")
    assert len(frontier) == 12
    assert frontier.weights.shape == (12, 5)
    np.testing.assert_allclose(frontier.weights[0], MinimumOCE(utility).fit(small).weights_, atol=1e-9)
    assert frontier.expected_returns[-1] == pytest.approx(small.mean().max(), rel=1e-6)
    assert np.all(np.diff(frontier.expected_returns) > 0)
    assert np.all(np.diff(frontier.risks) > -1e-12)
    assert frontier.gaps.max() < 1e-9
    # Least risk is a convex function of the target.
    slopes = np.diff(frontier.risks) / np.diff(frontier.expected_returns)
    assert np.all(np.diff(slopes) > -1e-6)


def test_points_agree_with_single_fits_and_cvxpy(small: pd.DataFrame) -> None:
    frontier = MinimumOCE(ce.CVaR(0.05)).efficient_frontier(small, n=6)
    for target, risk in zip(frontier.expected_returns[1:-1], frontier.risks[1:-1], strict=True):
        assert MinimumOCE(ce.CVaR(0.05), min_return=target).fit(small).risk_ == pytest.approx(risk, abs=1e-9)
        assert reference.solve(small.to_numpy(), ce.CVaR(0.05), min_return=target)[0] == pytest.approx(risk, abs=1e-8)


def test_costs_and_limits_are_kept_along_the_way(small: pd.DataFrame) -> None:
    params = {"transaction_costs": 0.0005, "previous_weights": {"GOLD": 1.0}, "max_weights": 0.6, "l2_coef": 1e-4}
    frontier = MinimumOCE(ce.Entropic(20.0), **params).efficient_frontier(small, n=5)
    assert frontier.weights.max() <= 0.6 + 1e-12
    w, r = frontier.weights, small.mean().to_numpy()
    paid = 0.0005 * np.abs(w - np.array([0, 1, 0, 0, 0])).sum(axis=1)
    np.testing.assert_allclose(frontier.expected_returns, w @ r - paid, atol=1e-15)


def test_as_an_estimator_and_as_a_population(small: pd.DataFrame) -> None:
    model = MinimumOCE(efficient_frontier_size=4).fit(small)
    assert model.weights_.shape == (4, 5)
    assert model.risk_.shape == model.gap_.shape == model.objective_.shape == (4,)
    assert model.risk_contributions_.shape == (4, 5)
    np.testing.assert_allclose(model.risk_contributions_.sum(axis=1), model.risk_)
    assert model.tilt_.shape == (4, 500)
    population = model.predict(small)
    assert isinstance(population, Population)
    frontier = MinimumOCE().efficient_frontier(small, n=4)
    np.testing.assert_allclose([each.cvar for each in frontier.population(small)], frontier.risks, atol=1e-12)
    assert "4 portfolios" in repr(frontier)
    assert repr(Frontier(np.zeros((0, 2)), *[np.zeros(0)] * 3)) == "Frontier(empty)"


@pytest.mark.parametrize(
    "risk",
    [ce.EVaR(0.05), ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.1), ce.CVaR(0.05), ce.CVaR(0.02)]), ce.Wang(0.7)],
    ids=repr,
)
def test_other_risks(risk: ce.Risk, small: pd.DataFrame) -> None:
    weights = MinimumOCE(risk, efficient_frontier_size=5).fit(small).weights_
    risks = ce.oce(-weights @ small.to_numpy().T, risk, axis=1)
    assert weights.shape == (5, 5)
    assert np.all(np.diff(risks) >= -1e-12)
    assert np.all(np.diff(weights @ small.mean().to_numpy()) > 0.0)


def test_several_targets_in_the_order_given(small: pd.DataFrame) -> None:
    targets = [0.0007, 0.0005, 0.0009]
    model = MinimumOCE(min_return=targets).fit(small)
    theirs = MeanRisk(risk_measure=RiskMeasure.CVAR, min_return=targets).fit(small)
    np.testing.assert_allclose(model.weights_, theirs.weights_, atol=1e-4)
    np.testing.assert_allclose(model.weights_ @ small.mean().to_numpy(), targets, atol=1e-9)
