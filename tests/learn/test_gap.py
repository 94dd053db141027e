"""``gap_`` is a proof: the minimum that cvxpy finds is never further below than it says."""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor

UTILITIES = [ce.Mean(), ce.Entropic(1.0), ce.CVaR(0.2), 0.4 * ce.Mean() + 0.6 * ce.CVaR(0.3)]
SLACK = 2e-7  # what Clarabel's own answers are good for, relative to objectives of size 1


def _oce(losses: list[cp.Expression], utility: ce.Utility, w: np.ndarray) -> cp.Expression:
    F = cp.hstack(losses)
    if isinstance(utility, ce.Mean):
        return w @ F
    if isinstance(utility, ce.Entropic):
        return cp.log_sum_exp(utility.beta * F + np.log(w)) / utility.beta
    t = cp.Variable()
    if isinstance(utility, ce.CVaR):
        return t + w @ cp.pos(F - t) / utility.alpha
    (mean, tail), (_, cvar) = utility.weights, utility.terms
    return t + mean * (w @ (F - t)) + tail * (w @ cp.pos(F - t)) / cvar.alpha


def _minimum(X: np.ndarray, y: np.ndarray, utility: ce.Utility, penalty: float, w: np.ndarray, outputs: int) -> float:
    """The least objective by Clarabel: squared errors for ``outputs`` 0, else cross-entropies."""
    n, d = X.shape
    if outputs == 0:
        c, b = cp.Variable(d), cp.Variable()
        losses = [cp.square(X[i] @ c + b - y[i]) for i in range(n)]
    elif outputs == 2:
        c, b = cp.Variable(d), cp.Variable()
        losses = [cp.logistic(-(1.0 if y[i] == 1 else -1.0) * (X[i] @ c + b)) for i in range(n)]
    else:
        c, b = cp.Variable((outputs, d)), cp.Variable(outputs)
        losses = [cp.log_sum_exp(c @ X[i] + b) - (c[int(y[i])] @ X[i] + b[int(y[i])]) for i in range(n)]
    problem = cp.Problem(cp.Minimize(_oce(losses, utility, w) + 0.5 * penalty * cp.sum_squares(c)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return float(problem.value)


def _data(seed: int, outputs: int, n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 0.3, 3.0]
    score = X @ [0.5, 1.0, -0.2] + 0.5 * rng.standard_t(4, size=n)
    if outputs == 0:
        return X, 1.0 + score, rng.uniform(0.5, 2.0, n)
    edges = np.quantile(score, np.arange(1, outputs) / outputs)
    return X, np.digitize(score, edges), rng.uniform(0.5, 2.0, n)


def _fit(model: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are stopped long before the end
        return model.fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("outputs", [0, 2, 3])
@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_the_minimum_is_no_further_than_the_gap(utility: ce.Utility, outputs: int) -> None:
    X, y, weight = _data(outputs, outputs)
    for strength, given in ((1.0, None), (0.01, weight)):
        total = len(y) if given is None else float(given.sum())
        w = np.full(len(y), 1.0 / len(y)) if given is None else given / total
        penalty = (2.0 if outputs == 0 else 1.0) * strength / total
        best = _minimum(X, y, utility, penalty, w, outputs)
        for settings in ({}, {"tol": 1e-2}, {"tol": 1e-12, "max_iter": 2}, {"tol": 1e-12, "max_iter": 5}):
            kind: Any = OCERegressor(utility, alpha=strength, **settings) if outputs == 0 else None
            kind = kind or OCEClassifier(utility, C=1.0 / strength, **settings)
            model = _fit(kind, X, y, given)
            assert model.objective_ - best <= model.gap_ + SLACK, (strength, settings)
            assert model.gap_ > 0.0
            if not settings:
                assert model.gap_ <= 1e-5


def test_least_squares_without_a_penalty() -> None:
    X, y, _ = _data(5, 0)
    w = np.full(len(y), 1.0 / len(y))
    for utility in UTILITIES:
        model = _fit(OCERegressor(utility, alpha=0.0), X, y, None)
        best = _minimum(X, y, utility, 0.0, w, 0)
        assert model.objective_ - best <= model.gap_ + SLACK
        assert model.gap_ <= 1e-5
        # A column twice: no least eigenvalue to rely on, and nothing is claimed but that losses are not negative.
        twice = _fit(OCERegressor(utility, alpha=0.0), np.column_stack([X, X[:, 0]]), y, None)
        assert twice.gap_ >= twice.objective_ - best - SLACK
        assert twice.converged_


def test_a_utility_that_is_not_monotone_is_certified_where_its_tilt_allows_it() -> None:
    X, y, _ = _data(7, 0)
    gentle = _fit(OCERegressor(ce.MeanVariance(0.01)), X, y, None)
    w = np.full(len(y), 1.0 / len(y))
    assert 0.0 < gentle.gap_ < 1e-6
    rng = np.random.default_rng(0)
    for _ in range(200):  # the problem may have other valleys; none is lower
        theta = rng.normal(size=4) * 2.0
        losses = np.square(X @ theta[:3] + theta[3] - y)
        ridge = float(theta[:3] @ theta[:3]) / len(y)
        assert float(ce.oce(losses, ce.MeanVariance(0.01), w)) + ridge >= gentle.objective_ - gentle.gap_
    steep = _fit(OCERegressor(ce.MeanVariance(5.0)), X, y, None)
    assert steep.gap_ == np.inf


def test_a_classifier_without_a_penalty_claims_little() -> None:
    X, y, _ = _data(9, 2)
    model = _fit(OCEClassifier(ce.CVaR(0.3), C=np.inf), X, y, None)
    assert model.converged_
    assert model.gap_ >= 0.0
    best = _minimum(X, y, ce.CVaR(0.3), 0.0, np.full(len(y), 1.0 / len(y)), 2)
    assert model.objective_ - best <= model.gap_ + SLACK
