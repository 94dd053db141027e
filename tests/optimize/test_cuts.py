"""Distortions minimized by cuts of their own tilts, against linear programs of all CVaRs."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import certeq as ce
from certeq.optimize.cuts import solve_by_cuts

RISKS = [ce.Wang(0.7), ce.ProportionalHazard(3), ce.PowerDistortion(4), ce.Distortion(np.sqrt)]


def linear_program(A, risk, low):
    """The minimum over weights of sum 1: a distortion of n losses is an average of the CVaRs at 1/n, 2/n, ..., 1."""
    n, d = A.shape
    density = n * np.diff(risk.distorted(np.arange(n + 1) / n))
    shares = np.append(-np.diff(density), density[-1]) * np.arange(1, n + 1) / n
    cost = np.concatenate([np.zeros(d), shares, np.repeat(shares / np.arange(1, n + 1), n)])
    rows = sp.hstack([np.tile(A, (n, 1)), -sp.kron(sp.eye(n), np.ones((n, 1))), -sp.eye(n * n)]).tocsr()
    budget = [np.append(np.ones(d), np.zeros(n + n * n))]
    bounds = [(low, None)] * d + [(None, None)] * n + [(0.0, None)] * (n * n)
    return linprog(cost, A_ub=rows, b_ub=np.zeros(n * n), A_eq=budget, b_eq=[1.0], bounds=bounds).fun


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_against_a_linear_program(risk, low):
    A = np.random.default_rng(1).standard_normal((30, 4))
    found = solve_by_cuts(A, risk, lower=low, C=np.ones(4), c=1.0)
    least = linear_program(A, risk, low)
    assert found.status == "optimal"
    assert -1e-12 <= found.value - least <= found.gap <= 1e-7 * abs(found.value)
    assert abs(found.tilt.sum() - 1.0) <= 1e-12
    assert abs(found.value - float(ce.oce(A @ found.theta, risk))) <= 1e-13


@pytest.mark.parametrize("risk", [*RISKS, ce.Mixture([0.5, 0.5], [RISKS[0], ce.Entropic(1.0)])], ids=repr)
def test_bounds_rows_squares_and_weights(risk):
    rng = np.random.default_rng(2)
    A = rng.standard_t(4, (300, 6)) + np.linspace(0.0, 0.3, 6)
    weights = rng.exponential(size=300)
    weights[:80] = 0.0
    rows = {"lower": 0.0, "upper": 0.4, "C": np.ones(6), "c": 1.0, "G": [[1.0, 1.0, 0, 0, 0, 0]], "b": [0.3]}
    more = {"linear": 0.1 * np.arange(6), "quadratic": np.full(6, 0.5)}
    found = solve_by_cuts(A, risk, weights=weights, **rows, **more)
    assert found.status == "optimal"
    assert found.tilt[:80].max() == 0.0

    def objective(theta):
        return float(ce.oce(A @ theta, risk, weights)) + 0.1 * np.arange(6) @ theta + 0.25 * theta @ theta

    assert abs(objective(found.theta) - found.value) <= 1e-12
    others = rng.dirichlet(np.ones(6), 300)
    others = others[(others.max(axis=1) <= 0.4) & (others[:, 0] + others[:, 1] <= 0.3)]
    assert len(others) > 10
    assert min(map(objective, others)) >= found.lower_bound
    again = solve_by_cuts(A, risk, weights=weights, theta0=found.theta, **rows, **more)
    assert abs(again.value - found.value) <= again.gap + found.gap


def test_sets_without_bounds():
    A = np.random.default_rng(3).standard_normal((200, 5)) + [0.1, 0.0, 0.0, 0.0, 0.0]
    found = solve_by_cuts(A, ce.Wang(0.5), C=np.ones(5), c=1.0)
    assert found.status == "optimal"
    assert found.radius < np.inf
    for risk in (ce.Wang(0.5), ce.Mixture([0.5, 0.5], [ce.Wang(0.5), ce.Entropic(1.0)])):
        with pytest.raises(ce.UnboundedError, match=r"under .*Wang"):
            solve_by_cuts(A - 0.8, risk)


@pytest.mark.parametrize(
    ("A", "least"),
    [
        (np.array([[3.0, 1.0, 2.0]]), 1.0),
        (np.ones((50, 3)), 1.0),
        (np.full((50, 3), 1e9) + np.random.default_rng(0).standard_normal((50, 3)), None),
        (np.zeros((50, 3)), 0.0),
    ],
    ids=["one scenario", "constants", "an offset of 1e9", "nothing"],
)
def test_plain_cases(A, least):
    found = solve_by_cuts(A, ce.ProportionalHazard(2), lower=0.0, C=np.ones(3), c=1.0)
    assert found.status == "optimal"
    if least is not None:
        assert abs(found.value - least) <= 1e-14


@pytest.mark.parametrize("beside", [0.0, np.random.default_rng(5).standard_normal(100)], ids=["plain", "offset"])
def test_minimize_takes_it(beside):
    A = np.random.default_rng(4).standard_normal((100, 4)) + 1.0
    for domain in (ce.Simplex(), ce.CappedSimplex(upper=0.4), ce.LongShort()):
        found = ce.minimize(ce.LinearLoss(A, offset=beside), ce.Wang(0.5), domain=domain)
        assert (found.method, found.status, found.threshold) == ("exact", "converged", None)
        assert found.gap <= 1e-7 * found.value
        assert abs(found.value - float(ce.oce(A @ found.theta + beside, ce.Wang(0.5)))) <= 1e-14
