"""scikit-learn's own checks, on every estimator. None is expected to fail."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor

pytestmark = pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # samples are few here

ESTIMATORS = [
    OCEClassifier(),
    OCEClassifier(0.5 * ce.Mean() + 0.5 * ce.CVaR(0.2)),
    OCERegressor(),
    OCERegressor(ce.CVaR(0.2)),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
