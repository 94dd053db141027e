"""scikit-learn's own checks, on every estimator. What is expected to fail is listed with the reason."""

from __future__ import annotations

import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

import certeq as ce
from certeq.learn import (
    DeepEnsembleRegressor,
    MVERegressor,
    OCEClassifier,
    OCENetworkClassifier,
    OCENetworkRegressor,
    OCERegressor,
)

torch.set_num_threads(1)

QUICK = {"hidden_sizes": (8,), "epochs": 30, "learning_rate": 0.1}
MEMBER = MVERegressor(hidden_sizes=(8,), epochs=30, learning_rate=0.1, burn_in=20)

ROUNDING = {
    "check_methods_subset_invariance": "float32: a batch of another size is summed in another order, which moves the "
    "seventh digit; the check compares to 1e-7",
    "check_sample_weight_equivalence_on_dense_data": "float32: a weight of 2 and two copies of a sample differ in the "
    "seventh digit of every step; the check compares to 1e-7",
}

EXPECTED: dict[type, dict[str, str]] = {
    OCEClassifier: {},
    OCERegressor: {},
    OCENetworkClassifier: ROUNDING,
    OCENetworkRegressor: ROUNDING,
    MVERegressor: ROUNDING,
    DeepEnsembleRegressor: ROUNDING,
}

ESTIMATORS = [
    OCEClassifier(),
    OCEClassifier(0.5 * ce.Mean() + 0.5 * ce.CVaR(0.2)),
    OCERegressor(),
    OCERegressor(ce.CVaR(0.2)),
    OCENetworkClassifier(**QUICK),
    OCENetworkRegressor(**QUICK),
    MEMBER,
    DeepEnsembleRegressor(MEMBER, n_members=2),
]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED[type(estimator)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
