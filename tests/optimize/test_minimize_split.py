"""Budgets of absolute values, solved exactly in long and short parts, against cvxpy."""

from fractions import Fraction

import numpy as np
import pytest

import certeq as ce

cp = pytest.importorskip("cvxpy")
A = 0.01 * np.random.default_rng(0).standard_normal((300, 6))
CASES = [
    (ce.LongShort(1.3, 0.3), lambda v: [cp.sum(v) == 1, cp.norm1(v) <= 1.6]),
    (
        ce.LongShort(1.3, 0.3, lower=-0.1, upper=0.4),
        lambda v: [cp.sum(v) == 1, cp.norm1(v) <= 1.6, v >= -0.1, v <= 0.4],
    ),
    (ce.L1Ball(0.7), lambda v: [cp.norm1(v) <= 0.7]),
    (ce.L1Ball(0.3, center=np.full(6, 0.2)), lambda v: [cp.norm1(v - 0.2) <= 0.3]),
    (
        ce.Product([ce.Simplex(), ce.L1Ball(0.4)], sizes=[3, 3]),
        lambda v: [v[:3] >= 0, cp.sum(v[:3]) == 1, cp.norm1(v[3:]) <= 0.4],
    ),
    (
        ce.Product(
            [ce.Box(-0.3, 0.2), ce.Product([ce.L1Ball(0.3, center=[0.1, -0.2]), ce.LongShort(1.3, 0.3)], [2, 2])],
            [2, 4],
        ),
        lambda v: [
            v[:2] >= -0.3,
            v[:2] <= 0.2,
            cp.norm1(v[2:4] - np.array([0.1, -0.2])) <= 0.3,
            cp.sum(v[4:]) == 1,
            cp.norm1(v[4:]) <= 1.6,
        ],
    ),
]


@pytest.mark.parametrize(
    "domain, constraints",
    CASES,
    ids=["130/30", "130/30 with bounds", "L1 ball", "L1 ball off center", "simplex and L1 ball", "nested products"],
)
@pytest.mark.parametrize("linear", [None, np.linspace(-1e-3, 1e-3, 6)], ids=["plain", "linear"])
def test_long_short_and_l1(domain, constraints, linear):
    found = ce.minimize(ce.LinearLoss(A), ce.CVaR(0.1), domain=domain, linear=linear)
    v, t = cp.Variable(6), cp.Variable()
    cost = 0 if linear is None else linear @ v
    problem = cp.Problem(cp.Minimize(t + cp.sum(cp.pos(A @ v - t)) / 30 + cost), constraints(v))
    problem.solve(solver="CLARABEL")
    assert found.value == pytest.approx(problem.value, abs=1e-8)
    assert found.gap <= 1e-9 * max(abs(found.value), 1e-4)  # the L1 ball holds 0, where the risk is 0
    assert domain.contains(found.theta)
    again = ce.minimize(ce.LinearLoss(A), ce.CVaR(0.1), domain=domain, linear=linear, theta0=found.theta)
    assert again.value == pytest.approx(found.value, rel=1e-12)


def test_a_block_that_is_no_polyhedron_is_named():
    domain = ce.Product([ce.L1Ball(0.4), ce.Ball(1.0)], sizes=[3, 3])
    with pytest.raises(ValueError, match=r"found Ball\(.*\) in block 1 of a Product\. Use 'sg'"):
        ce.minimize(ce.LinearLoss(A), ce.CVaR(0.1), domain=domain, method="exact")


def test_a_linear_term_of_the_wrong_size_is_refused_in_the_callers_words():
    with pytest.raises(ValueError, match=r"linear must have shape \(6,\); found \(12,\)"):
        ce.minimize(ce.LinearLoss(A), ce.CVaR(0.1), domain=ce.L1Ball(0.4), linear=np.zeros(12))


def test_a_block_of_absolute_values_in_scenarios_read_in_blocks():
    dask = pytest.importorskip("dask.array")
    domain = ce.Product([ce.Simplex(), ce.L1Ball(0.4, center=[0.1, 0.0, 0.0])], sizes=[3, 3])
    whole = ce.minimize(ce.LinearLoss(A), ce.CVaR(0.1), domain=domain)
    parts = ce.minimize(ce.LinearLoss(dask.from_array(A, chunks=(100, 6))), ce.CVaR(0.1), domain=domain)
    assert parts.value == pytest.approx(whole.value, rel=1e-9)
    assert domain.contains(parts.theta)


def exact_oce(utility, A, theta):
    """OCE of one scenario or a mean in rational numbers: both are the mean loss."""
    rows = [sum(Fraction(a) * Fraction(x) for a, x in zip(row, theta, strict=True)) for row in A.tolist()]
    return sum(rows) / len(rows)


@pytest.mark.parametrize("utility", [ce.MeanVariance(1.0), ce.CVaR(0.5), ce.Mean(), ce.Entropic(1.0)], ids=repr)
@pytest.mark.parametrize("center", [[-3e8, 1e8], [1e4, -3e3], [0.0, 0.0]])
def test_the_gap_holds_at_a_center_far_away(utility, center):
    A = np.array([[0.1, 0.3]])
    found = ce.minimize(ce.LinearLoss(A), utility, domain=ce.L1Ball(0.5, center=center))
    # Of one scenario every normalized OCE is the loss: the least is half of the largest coefficient below the center's.
    least = exact_oce(utility, A, center) - Fraction(0.5) * max(Fraction(a) for a in A[0].tolist())
    value = exact_oce(utility, A, found.theta.tolist())
    assert Fraction(found.value) - Fraction(found.gap) <= least
    assert value <= Fraction(found.value) + Fraction(found.gap)
    if not any(center):
        assert found.status == "converged"
        assert found.gap <= 1e-13
