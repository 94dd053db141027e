"""Entropic estimation and optimisation: slopes, limits and the optimum, each against an independent account."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from certeq.paper import entropic_estimation, entropic_optimisation
from certeq.paper._job import LocalJob

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def estimation():
    with LocalJob(jobs=1) as job:
        return entropic_estimation.run(job)


def test_mean_squared_error_falls_as_one_over_m(estimation):
    assert estimation.numbers["slopes"]["mse"] == pytest.approx(-1.0, abs=0.1)
    assert estimation.numbers["slopes"]["mae"] == pytest.approx(-0.5, abs=0.05)
    assert [claim.verdict for claim in estimation.claims] == ["reproduced"] * 3
    assert all(len(row) == len(table.columns) for table in estimation.tables for row in table.rows)


def test_limits_of_the_estimate_are_those_of_the_log_normal():
    x = entropic_estimation.MEAN + entropic_estimation.DEVIATION * np.random.default_rng(0).normal(size=2_000_000)
    value = (np.exp(entropic_estimation.BETA * (x - entropic_estimation.TRUE)) - 1) / entropic_estimation.BETA
    assert value.var() == pytest.approx(entropic_estimation.MSE_LIMIT, rel=0.03)


def test_errors_repeat_with_the_seed():
    assert entropic_estimation.errors(50, 20, 1) == entropic_estimation.errors(50, 20, 1)
    assert entropic_estimation.errors(50, 20, 1) != entropic_estimation.errors(50, 20, 2)


def test_optimum_solves_the_quadratic_programme():
    """All 31 supports tried: the one whose weights are positive and whose other assets do not pay."""
    mean, covariance = entropic_optimisation.market()
    theta, gap = entropic_optimisation.optimum(mean, covariance)
    assert 0 <= gap < 1e-10
    found = []
    for size in range(1, 6):
        for held in combinations(range(5), size):
            matrix = np.zeros((size + 1, size + 1))
            matrix[:size, :size] = entropic_optimisation.BETA * covariance[np.ix_(held, held)]
            matrix[:size, size] = matrix[size, :size] = 1.0
            solved = np.linalg.solve(matrix, np.append(mean[list(held)], 1.0))
            weights = np.zeros(5)
            weights[list(held)] = solved[:size]
            gradient = entropic_optimisation.BETA * covariance @ weights - mean
            if weights.min() >= 0 and gradient.min() >= -solved[size] - 1e-12:
                found.append(weights)
    assert len(found) == 1
    np.testing.assert_allclose(theta, found[0], atol=1e-6)


@pytest.fixture(scope="module")
def optimisation():
    with LocalJob(quick=True, jobs=1) as job:
        return entropic_optimisation.run(job)


def test_iterates_approach_the_optimum(optimisation):
    mse = optimisation.numbers["mse"]
    assert mse[-1] < 1e-3 * mse[0]
    assert optimisation.claims[0].verdict == "reproduced"
    np.testing.assert_allclose(optimisation.tables[1].rows[0][1:], optimisation.tables[1].rows[1][1:], atol=0.01)


def test_slope_of_the_iterates_is_that_of_theory(optimisation):
    assert optimisation.numbers["slopes"]["mse"] == pytest.approx(-1.5, abs=0.25)
    assert optimisation.numbers["slopes"]["mae"] == pytest.approx(-0.75, abs=0.13)
