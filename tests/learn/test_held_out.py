"""Risk-averse training lowers the tail of held-out losses, at a price in their mean that is stated."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor

TAIL = ce.CVaR(0.1)
SEEDS = range(20)


def regression(seed, n):
    """A tenth of the samples follows a steeper line."""
    rng = np.random.default_rng(seed)
    X, other = rng.normal(size=(n, 5)), rng.random(n) < 0.1
    return X, X @ [1.0, -1.0, 0.5, 0.0, 0.0] + np.where(other, 2.0 * X[:, 0], 0.0) + 0.3 * rng.normal(size=n)


def classification(seed, n):
    """A tenth of the samples follows another rule."""
    rng = np.random.default_rng(seed)
    X, other = rng.normal(size=(n, 5)), rng.random(n) < 0.1
    score = np.where(other, -3.0 * X[:, 1], 2.0 * X[:, 0] + 2.0 * X[:, 1])
    return X, (score + 0.5 * rng.logistic(size=n) > 0).astype(int)


def changes(make, estimator, utility):
    """Relative changes of the held-out tail and mean, one row per seed."""
    rows = []
    for seed in SEEDS:
        X, y = make(seed, 1000)
        X_test, y_test = make(1000 + seed, 10_000)
        plain = estimator(ce.Mean()).fit(X, y).losses(X_test, y_test)
        averse = estimator(utility).fit(X, y).losses(X_test, y_test)
        rows.append((ce.oce(averse, TAIL) / ce.oce(plain, TAIL) - 1.0, averse.mean() / plain.mean() - 1.0))
    return np.array(rows).T


@pytest.mark.parametrize(
    "make, estimator, utility, gain, price",
    [
        (regression, OCERegressor, 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1), 0.11, 0.15),
        (classification, OCEClassifier, ce.Entropic(1.0), 0.43, 0.15),
    ],
)
def test_the_tail_falls_and_the_mean_pays(make, estimator, utility, gain, price):
    tail, mean = changes(make, estimator, utility)
    assert (tail < 0.0).all()
    # The figures of the docstrings.
    assert -tail.mean() == pytest.approx(gain, abs=0.01)
    assert mean.mean() == pytest.approx(price, abs=0.01)
