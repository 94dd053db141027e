"""Risk budgeting: contributions follow the budget, the proof holds, and what has no answer is refused."""

import numpy as np
import pytest

import certeq as ce
from certeq._table import ArrayTable

RISKS = [
    ce.CVaR(0.1),
    ce.EVaR(0.1),
    ce.HMCR(2, 0.1),
    ce.MonotoneMeanVariance(2).ball(0.3),
    ce.Mixture([0.5, 0.5], [ce.CVaR(0.2), ce.EVaR(0.1)]),
    ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.2), ce.CVaR(0.05), ce.Mean()]),
]


def panel(seed, n=400, d=6):
    rng = np.random.default_rng(seed)
    return -(0.01 * rng.standard_t(5, size=(n, d)) * rng.uniform(0.5, 3.0, d) + 0.003 * rng.normal(size=(n, 1)))


def objective(A, risk, b, w, weights=None):
    return float(ce.oce(A @ w, risk, weights)) - float(b @ np.log(w))


@pytest.mark.parametrize("risk", RISKS, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_contributions_follow_the_budget(risk, weighted):
    A, rng = panel(1), np.random.default_rng(2)
    b = rng.dirichlet(np.ones(6))
    weights = rng.exponential(size=len(A)) * (rng.random(len(A)) > 0.1) if weighted else None
    found = ce.risk_budgeting(ce.LinearLoss(A), risk, b, weights=weights, total=2.0)
    assert found.status == "optimal"
    assert found.theta.sum() == pytest.approx(2.0, rel=1e-14)
    assert found.value == pytest.approx(float(ce.oce(A @ found.theta, risk, weights)), rel=1e-13)
    assert np.abs(found.contributions / (b * found.value) - 1.0).max() < 1e-8
    assert found.deviation < 1e-8
    assert found.gap < 1e-9
    assert found.tilt.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.tilt.min() >= -1e-15
    # The tilt attains the risk, so that contributions are those of a subgradient.
    assert float(found.tilt @ (A @ found.theta)) == pytest.approx(found.value, rel=1e-9)


@pytest.mark.parametrize("risk", RISKS[:3], ids=repr)
def test_no_point_nearby_is_better_than_the_gap_allows(risk):
    A, rng = panel(3), np.random.default_rng(4)
    b = np.full(6, 1.0 / 6.0)
    found = ce.risk_budgeting(ce.LinearLoss(A), risk)
    w = found.theta / found.value
    here = objective(A, risk, b, w)
    for size in 10.0 ** -np.arange(0, 9):
        for _ in range(20):
            other = w * np.exp(size * rng.normal(size=6))
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
    assert ours <= theirs + 1e-12
    assert ours >= theirs - 1e-6


def test_a_start_and_scaled_losses_change_nothing():
    A = panel(6)
    first = ce.risk_budgeting(ce.LinearLoss(A), ce.CVaR(0.1))
    again = ce.risk_budgeting(ce.LinearLoss(A), ce.CVaR(0.1), theta0=first.theta)
    assert again.iterations < first.iterations
    assert again.theta == pytest.approx(first.theta, rel=1e-9)
    scaled = ce.risk_budgeting(ce.LinearLoss(1e6 * A), ce.CVaR(0.1))
    assert scaled.theta == pytest.approx(first.theta, rel=1e-9)
    assert scaled.value == pytest.approx(1e6 * first.value, rel=1e-9)


def test_duplicates_ties_and_few_scenarios():
    A = panel(7, n=12)
    doubled = np.column_stack([A, A[:, :2]])
    found = ce.risk_budgeting(ce.LinearLoss(np.round(100.0 * doubled, 1)), ce.CVaR(0.3))
    assert found.status == "optimal"
    assert found.deviation < 1e-8


def test_weights_of_pooled_views():
    """The sample weights that views on the CVaR of two assets lead to lie on few days; other solvers fail on them."""
    skfolio = pytest.importorskip("skfolio.prior")
    from skfolio.datasets import load_sp500_dataset
    from skfolio.preprocessing import prices_to_returns

    X = prices_to_returns(load_sp500_dataset())
    views = [
        ("amd", skfolio.EntropyPooling(cvar_views=["AMD == 0.10"])),
        ("ge", skfolio.EntropyPooling(cvar_views=["GE == 0.12"])),
    ]
    prior = skfolio.OpinionPooling(estimators=views, opinion_probabilities=[0.5, 0.5]).fit(X).return_distribution_
    for risk in (ce.CVaR(0.05), ce.EVaR(0.05)):
        found = ce.risk_budgeting(ce.LinearLoss(-prior.returns), risk, weights=prior.sample_weight)
        assert found.status == "optimal"
        assert found.deviation < 1e-8
        assert np.abs(found.contributions * 20.0 / found.value - 1.0).max() < 1e-8


def test_evar_of_a_plain_panel():
    A = -0.01 * np.random.default_rng(0).standard_t(4, size=(2000, 20))
    found = ce.risk_budgeting(ce.LinearLoss(A), ce.EVaR(0.05))
    assert found.status == "optimal"
    assert found.deviation < 1e-8


def test_what_has_no_answer_is_refused():
    A = panel(8)
    loss = ce.LinearLoss(A)
    with pytest.raises(ValueError, match="coherent"):
        ce.risk_budgeting(loss, ce.Entropic(1.0))
    with pytest.raises(ValueError, match="budget must be positive; found 0"):
        ce.risk_budgeting(loss, ce.CVaR(0.1), [0.0, 1, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="theta0 must be positive"):
        ce.risk_budgeting(loss, ce.CVaR(0.1), theta0=np.zeros(6))
    with pytest.raises(TypeError, match="LinearLoss"):
        ce.risk_budgeting(A, ce.CVaR(0.1))
    with pytest.raises(ce.InfeasibleError, match="not positive"):
        ce.risk_budgeting(ce.LinearLoss(A - 1.0), ce.CVaR(0.1))
    cash = np.column_stack([A, np.full(len(A), -0.001)])
    with pytest.raises(ce.InfeasibleError, match="of asset 6"):
        ce.risk_budgeting(ce.LinearLoss(cash), ce.CVaR(0.1))


def test_scenarios_in_blocks_are_refused_with_the_reason():
    table = ArrayTable(np.ones((5, 2)))
    with pytest.raises(TypeError, match="in memory for a risk budget.*read in blocks"):
        ce.risk_budgeting(ce.LinearLoss(table), ce.CVaR(0.05))
