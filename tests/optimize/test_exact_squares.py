"""Squares beside the risk: the exact solver against Clarabel, and a lower bound that no point beats."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import certeq as ce
from certeq.optimize.exact import solve_exact

UTILITIES = [
    ce.CVaR(0.1),
    ce.Entropic(2.0),
    ce.MeanVariance(1.0),
    0.5 * ce.Mean() + 0.5 * ce.CVaR(0.3),
    0.5 * ce.MeanVariance(0.5) + 0.5 * ce.CVaR(0.2),
]


def _risk(losses: cp.Expression, utility: ce.Utility, n: int) -> cp.Expression:
    t = cp.Variable()
    x = losses - t
    pieces: list[cp.Expression] = []
    for weight, part in zip(getattr(utility, "weights", [1.0]), getattr(utility, "terms", [utility]), strict=True):
        if isinstance(part, ce.CVaR):
            pieces.append(weight * cp.sum(cp.pos(x)) / (part.alpha * n))
        elif isinstance(part, ce.MeanVariance):
            pieces.append(weight * (cp.sum(x) + part.beta * cp.sum_squares(x)) / n)
        elif isinstance(part, ce.Mean):
            pieces.append(weight * cp.sum(x) / n)
        else:
            assert isinstance(part, ce.Entropic)
            assert len(pieces) == 0
            return cp.log_sum_exp(part.beta * losses - np.log(n)) / part.beta
    return t + sum(pieces)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize("kind", ["diagonal", "rows"])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_agrees_with_clarabel(utility: ce.Utility, kind: str, free: bool) -> None:
    rng = np.random.default_rng(len(repr(utility)) + 7 * free)
    n, d = 120, 6
    A = rng.normal(size=(n, d)) * rng.uniform(0.5, 2.0, d) - 0.1
    F = rng.normal(size=(3, d)) if kind == "rows" else np.sqrt(rng.uniform(0.0, 1.0, d))
    quadratic = F if kind == "rows" else np.square(F)
    G, b = rng.normal(size=(2, d)), rng.uniform(0.0, 0.1, 2)
    scale = np.array([1e-4, 1e3])
    bounds = {} if free else {"lower": -0.5, "upper": 1.0}
    found = solve_exact(
        A, utility, quadratic=quadratic, linear=np.arange(d) / 50.0, C=np.ones(d), c=1.0, G=G * scale[:, None],
        b=b * scale, **bounds,
    )  # fmt: skip
    v = cp.Variable(d)
    squares = 0.5 * cp.sum_squares(F @ v if kind == "rows" else cp.multiply(F, v))
    limits = [cp.sum(v) == 1, G @ v <= b] + ([] if free else [v >= -0.5, v <= 1.0])
    problem = cp.Problem(cp.Minimize(_risk(A @ v, utility, n) + squares + np.arange(d) / 50.0 @ v), limits)
    best = problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert found.status == "optimal"
    assert found.value == pytest.approx(best, abs=3e-7)
    # A bound from weak duality: Clarabel's value, good to its tolerance, cannot lie below it.
    assert found.lower_bound <= best + 3e-7
    assert found.gap == pytest.approx(found.value - found.lower_bound, abs=1e-15)
    assert np.all(G @ found.theta - b <= 1e-12)
    direct = float(ce.oce(A @ found.theta, utility))
    half = 0.5 * float(np.sum(np.square(F @ found.theta if kind == "rows" else F * found.theta)))
    assert found.value == pytest.approx(direct + half + np.arange(d) / 50.0 @ found.theta, abs=1e-12)


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_no_feasible_point_lies_below_the_bound(utility: ce.Utility) -> None:
    rng = np.random.default_rng(3)
    A = rng.normal(size=(60, 4))
    q = np.array([0.0, 0.5, 1.0, 2.0])
    found = solve_exact(A, utility, quadratic=q, lower=0.0, C=np.ones(4), c=1.0)
    for theta in [found.theta, *rng.dirichlet(np.ones(4), 200)]:
        near = found.theta + 1e-3 * (theta - found.theta)
        for point in (theta, near):
            assert float(ce.oce(A @ point, utility)) + 0.5 * q @ point**2 >= found.lower_bound
    # Stopped early, the bound is weaker and still a bound.
    early = solve_exact(A, utility, quadratic=q, lower=0.0, C=np.ones(4), c=1.0, theta0=[1, 0, 0, 0], max_iter=1)
    assert early.lower_bound <= found.value
    assert early.value >= found.lower_bound


def test_squares_bound_what_nothing_else_does() -> None:
    A = np.random.default_rng(0).normal(-1.0, 1.0, (50, 3))
    with pytest.raises(ce.UnboundedError):
        solve_exact(A, ce.CVaR(0.5), linear=[-3.0, 0.0, 0.0])
    found = solve_exact(A, ce.CVaR(0.5), linear=[-3.0, 0.0, 0.0], quadratic=np.full(3, 1e-4))
    assert found.status == "optimal"
    assert np.abs(found.theta).max() > 1e3
    with pytest.raises(ce.UnboundedError):  # a row of squares leaves the other directions as they are
        solve_exact(A, ce.CVaR(0.5), linear=[-3.0, 0.0, 0.0], quadratic=[[0.0, 1.0, 0.0]])


def test_many_assets_take_a_working_set() -> None:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(400, 250)) - 0.05
    found = solve_exact(A, ce.CVaR(0.1), quadratic=np.full(250, 0.5), lower=0.0, C=np.ones(250), c=1.0)
    plain = solve_exact(A, ce.CVaR(0.1), lower=0.0, C=np.ones(250), c=1.0)
    assert found.status == "optimal"
    assert float(found.theta @ found.theta) < float(plain.theta @ plain.theta)
    assert found.value <= plain.value + 0.25 * float(plain.theta @ plain.theta) + 1e-12


@pytest.mark.parametrize(
    ("quadratic", "message"),
    [
        ([1.0, 2.0], r"quadratic must have shape \(3,\), a diagonal, or \(k, 3\)"),
        ([1.0, -2.0, 0.0], "quadratic must not be negative; found -2"),
        ([1.0, np.nan, 0.0], "quadratic must be finite; found nan"),
    ],
)
def test_refusals(quadratic: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve_exact(np.ones((5, 3)), ce.CVaR(0.5), quadratic=quadratic, lower=0.0, C=np.ones(3), c=1.0)


def test_a_thin_set_is_reached() -> None:
    """The target return leaves a sliver: a point short of it, with a value below every feasible one, is no answer."""
    rng = np.random.default_rng(0)
    X = rng.normal(0.0005, 0.01, (500, 5))
    mean = X.mean(axis=0)
    for share in (0.5, 0.9, 0.999, 1.0 - 1e-7):
        target = mean.mean() + share * (mean.max() - mean.mean())
        for utility in (ce.CVaR(0.05), ce.LeakyCVaR(0.1).scaled(0.01), ce.Entropic(20.0)):
            found = solve_exact(
                -X, utility, quadratic=np.full(5, 2e-3), lower=0.0, C=np.ones(5), c=1.0, G=-mean, b=-target
            )
            assert found.status == "optimal", (share, utility)
            assert mean @ found.theta >= target * (1.0 - 1e-13)
