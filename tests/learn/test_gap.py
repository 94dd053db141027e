"""``gap_`` is a proof: the minimum that cvxpy finds is never further below than it says."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor
from tests.learn.conic import SLACK, data, minimum

UTILITIES = [ce.Mean(), ce.Entropic(1.0), ce.CVaR(0.2), 0.4 * ce.Mean() + 0.6 * ce.CVaR(0.3)]


def fit(model: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are stopped long before the end
        return model.fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("outputs", [0, 2, 3])
@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_the_minimum_is_no_further_than_the_gap(utility: ce.Utility, outputs: int) -> None:
    X, y, weight = data(outputs, 40)
    for strength, given in ((1.0, None), (0.01, weight)):
        total = len(y) if given is None else float(given.sum())
        w = np.full(len(y), 1.0 / len(y)) if given is None else given / total
        best = minimum(utility, X, y, (2.0 if outputs == 0 else 1.0) * strength / total, w, outputs)
        made: Any = partial(OCEClassifier, utility, C=1.0 / strength)
        if outputs == 0:
            made = partial(OCERegressor, utility, alpha=strength)
        for settings in ({}, {"tol": 1e-2}, {"tol": 1e-12, "max_iter": 2}, {"tol": 1e-12, "max_iter": 5}):
            model = fit(made(**settings), X, y, given)
            assert -SLACK <= model.objective_ - best <= model.gap_ + SLACK, (strength, settings)
            assert model.gap_ > 0.0
            if not settings:
                assert model.gap_ <= 1e-5


def test_without_a_penalty() -> None:
    X, y, _ = data(0, 40)
    w = np.full(len(y), 1.0 / len(y))
    for utility in UTILITIES:
        model = fit(OCERegressor(utility, alpha=0.0), X, y)
        best = minimum(utility, X, y, 0.0, w, 0)
        assert model.objective_ - best <= model.gap_ + SLACK
        assert model.gap_ <= 1e-5
        # A column twice: no smallest eigenvalue to rely on, and the bound is that losses are not negative.
        twice = fit(OCERegressor(utility, alpha=0.0), np.column_stack([X, X[:, 0]]), y)
        assert twice.gap_ >= twice.objective_ - best - SLACK
        assert twice.converged_
    X, y, _ = data(2, 40)
    model = fit(OCEClassifier(ce.CVaR(0.3), C=np.inf), X, y)
    assert model.converged_
    assert model.gap_ >= 0.0
    assert model.objective_ - minimum(ce.CVaR(0.3), X, y, 0.0, w, 2) <= model.gap_ + SLACK


def test_a_utility_that_is_not_monotone_is_certified_where_its_tilt_allows_it() -> None:
    X, y, _ = data(0, 40)
    gentle = fit(OCERegressor(ce.MeanVariance(0.01)), X, y)
    assert 0.0 < gentle.gap_ < 1e-6
    rng = np.random.default_rng(0)
    for _ in range(200):  # the problem may have other valleys; none is lower
        theta = rng.normal(size=4) * 2.0
        losses = np.square(X @ theta[:3] + theta[3] - y)
        ridge = float(theta[:3] @ theta[:3]) / len(y)
        assert float(ce.oce(losses, ce.MeanVariance(0.01))) + ridge >= gentle.objective_ - gentle.gap_
    assert fit(OCERegressor(ce.MeanVariance(5.0)), X, y).gap_ == np.inf
