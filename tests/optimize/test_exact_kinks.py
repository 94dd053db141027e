"""Utilities with several kinks: the bound is a bound, also where the model has scenarios on the wrong sides."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.exact import solve_exact
from tests.conftest import UTILITIES


@pytest.mark.parametrize("seed", [1, 2, 5, 6])
def test_no_value_lies_below_the_bound(seed):
    rng = np.random.default_rng(seed)
    losses, w = 0.05 * rng.standard_cauchy((900, 4)), rng.uniform(size=900) ** 4
    utility = UTILITIES["two_kinks"]
    found = solve_exact(losses, utility, weights=w, lower=0.0, C=np.ones(4), c=1.0)
    assert found.lower_bound <= ce.oce(losses @ found.theta, utility, weights=w) + 1e-12
    for theta in rng.dirichlet(np.ones(4), size=30):
        mixed = 0.9 * found.theta + 0.1 * theta
        assert found.lower_bound <= ce.oce(losses @ mixed, utility, weights=w) + 1e-12
