"""Budgets of absolute values, solved exactly in long and short parts, against cvxpy."""

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
]


@pytest.mark.parametrize(
    "domain, constraints", CASES, ids=["130/30", "130/30 with bounds", "L1 ball", "L1 ball off centre"]
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
