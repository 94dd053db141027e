"""scikit-learn's own checks, on every estimator. What is expected to fail is listed with the reason."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor

EXPECTED: dict[type, dict[str, str]] = {OCEClassifier: {}, OCERegressor: {}}

ESTIMATORS = [
    OCEClassifier(),
    OCEClassifier(0.5 * ce.Mean() + 0.5 * ce.CVaR(0.2)),
    OCERegressor(),
    OCERegressor(ce.CVaR(0.2)),
]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED[type(estimator)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
