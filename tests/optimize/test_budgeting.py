"""Risk budgeting: starts, units and tables that once failed. tests/general has the budgets of every risk."""

import numpy as np
import pytest

import certeq as ce


def panel(seed, n=400, d=6):
    rng = np.random.default_rng(seed)
    return -(0.01 * rng.standard_t(5, size=(n, d)) * rng.uniform(0.5, 3.0, d) + 0.003 * rng.normal(size=(n, 1)))


def test_a_start_and_scaled_losses_change_nothing():
    A = panel(6)
    first = ce.risk_budgeting(ce.LinearLoss(A), ce.CVaR(0.1))
    again = ce.risk_budgeting(ce.LinearLoss(A), ce.CVaR(0.1), theta0=first.theta)
    assert again.iterations < first.iterations
    assert again.theta == pytest.approx(first.theta, rel=1e-9)
    scaled = ce.risk_budgeting(ce.LinearLoss(1e6 * A), ce.CVaR(0.1))
    assert scaled.theta == pytest.approx(first.theta, rel=1e-9)
    assert scaled.value == pytest.approx(1e6 * first.value, rel=1e-9)


FEW = panel(7, n=12)
HARD = {
    "duplicates, ties and few scenarios": (
        lambda: (np.round(100.0 * np.column_stack([FEW, FEW[:, :2]]), 1), None), [ce.CVaR(0.3)]
    ),
    "plain": (lambda: (-0.01 * np.random.default_rng(0).standard_t(4, size=(2000, 20)), None), [ce.EVaR(0.05)]),
}  # fmt: skip


@pytest.mark.parametrize("name", HARD)
def test_tables_and_weights_that_once_failed(name):
    make, risks = HARD[name]
    A, weights = make()
    for risk in risks:
        found = ce.risk_budgeting(ce.LinearLoss(A), risk, weights=weights)
        assert found.status == "optimal"
        assert found.deviation < 1e-8
        assert np.abs(found.contributions * A.shape[1] / found.value - 1.0).max() < 1e-8
