"""Risk budgeting: the proof holds, against cvxpy, and hard weights. tests/general has the budgets of every risk."""

import numpy as np
import pytest

import certeq as ce


def panel(seed, n=400, d=6):
    rng = np.random.default_rng(seed)
    return -(0.01 * rng.standard_t(5, size=(n, d)) * rng.uniform(0.5, 3.0, d) + 0.003 * rng.normal(size=(n, 1)))


def objective(A, risk, b, w):
    return float(ce.oce(A @ w, risk)) - float(b @ np.log(w))


@pytest.mark.parametrize("risk", [ce.CVaR(0.1), ce.EVaR(0.1), ce.HMCR(2, 0.1)], ids=repr)
def test_no_point_nearby_is_better_than_the_gap_allows(risk):
    A, rng, b = panel(3), np.random.default_rng(4), np.full(6, 1.0 / 6.0)
    found = ce.risk_budgeting(ce.LinearLoss(A), risk)
    assert found.status == "optimal"
    assert found.deviation < 1e-8
    assert found.gap < 1e-9
    w = found.theta / found.value
    here = objective(A, risk, b, w)
    for size in 10.0 ** -np.arange(0, 9):
        for other in w * np.exp(size * rng.normal(size=(20, 6))):
            assert objective(A, risk, b, other) >= here - found.gap - 1e-14


def test_cvar_against_cvxpy():
    cp = pytest.importorskip("cvxpy")
    A = panel(5)
    n, d = A.shape
    found = ce.risk_budgeting(ce.LinearLoss(A), ce.CVaR(0.1))
    v, t, excess = cp.Variable(d), cp.Variable(), cp.Variable(n, nonneg=True)
    risk = t + cp.sum(excess) / (0.1 * n)
    cp.Problem(cp.Minimize(100 * risk - cp.sum(cp.log(v)) / d), [excess >= A @ v - t]).solve(solver=cp.CLARABEL)
    # The point is flat where cvxpy stops; objectives tell more.
    b, w = np.full(d, 1.0 / d), v.value / float(ce.oce(A @ v.value, ce.CVaR(0.1)))
    theirs, ours = objective(A, ce.CVaR(0.1), b, w), objective(A, ce.CVaR(0.1), b, found.theta / found.value)
    assert theirs - 1e-6 <= ours <= theirs + 1e-12


def test_a_start_and_scaled_losses_change_nothing():
    A = panel(6)
    first = ce.risk_budgeting(ce.LinearLoss(A), ce.CVaR(0.1))
    again = ce.risk_budgeting(ce.LinearLoss(A), ce.CVaR(0.1), theta0=first.theta)
    assert again.iterations < first.iterations
    assert again.theta == pytest.approx(first.theta, rel=1e-9)
    scaled = ce.risk_budgeting(ce.LinearLoss(1e6 * A), ce.CVaR(0.1))
    assert scaled.theta == pytest.approx(first.theta, rel=1e-9)
    assert scaled.value == pytest.approx(1e6 * first.value, rel=1e-9)


def pooled_views():
    """Return returns and the weights that views on the CVaR of two assets lead to: on few days."""
    skfolio = pytest.importorskip("skfolio.prior")
    from skfolio.datasets import load_sp500_dataset
    from skfolio.preprocessing import prices_to_returns

    views = [("amd", ["AMD == 0.10"]), ("ge", ["GE == 0.12"])]
    pooling = skfolio.OpinionPooling(
        estimators=[(name, skfolio.EntropyPooling(cvar_views=view)) for name, view in views],
        opinion_probabilities=[0.5, 0.5],
    )
    prior = pooling.fit(prices_to_returns(load_sp500_dataset())).return_distribution_
    return -prior.returns, prior.sample_weight


FEW = panel(7, n=12)
HARD = {
    "duplicates, ties and few scenarios": (
        lambda: (np.round(100.0 * np.column_stack([FEW, FEW[:, :2]]), 1), None), [ce.CVaR(0.3)]
    ),
    "plain": (lambda: (-0.01 * np.random.default_rng(0).standard_t(4, size=(2000, 20)), None), [ce.EVaR(0.05)]),
    "pooled views": (pooled_views, [ce.CVaR(0.05), ce.EVaR(0.05)]),
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
