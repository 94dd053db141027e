"""The largest ratio of reward to risk: by its bound, with limits, and where its search begins.

tests/general has the ratio of every coherent risk.
"""

import numpy as np
import pytest

import certeq as ce
from tests.optimize.test_budgeting import panel

REWARD = np.array([0.02, 0.01, 0.05, -0.01, 0.03, 0.04])


@pytest.mark.parametrize("risk", [ce.CVaR(0.1), ce.EVaR(0.1), ce.Entropic(20.0)], ids=repr)
def test_no_point_has_a_higher_ratio(risk):
    A, rng = 10.0 * panel(21), np.random.default_rng(22)
    found = ce.maximize_ratio(REWARD, ce.LinearLoss(A), risk, domain=ce.Simplex(), reward_offset=-0.005)
    assert found.status == "converged"
    assert found.gap <= 1e-9 * found.ratio
    assert found.risk == pytest.approx(float(ce.oce(A @ found.theta, risk)), rel=1e-12)
    assert found.ratio == pytest.approx((REWARD @ found.theta - 0.005) / found.risk, rel=1e-13)
    for size in 10.0 ** -np.arange(0, 8):
        for other in ce.Simplex().project(found.theta + size * rng.normal(size=(20, 6))):
            assert (REWARD @ other - 0.005) / float(ce.oce(A @ other, risk)) <= found.ratio + found.gap


def test_cvar_against_a_linear_program_in_other_variables():
    cp = pytest.importorskip("cvxpy")
    A = 10.0 * panel(23)
    n, d = A.shape
    found = ce.maximize_ratio(REWARD, ce.LinearLoss(A), ce.CVaR(0.1), domain=ce.CappedSimplex(upper=0.3))
    v, k, t = cp.Variable(d, nonneg=True), cp.Variable(nonneg=True), cp.Variable()
    rows = [cp.sum(v) == k, v <= 0.3 * k, t + cp.sum(cp.pos(A @ v - t)) / (0.1 * n) <= 1.0]
    expected = cp.Problem(cp.Maximize(REWARD @ v), rows).solve(solver=cp.CLARABEL)
    assert expected * (1.0 - 1e-9) <= found.ratio <= expected * (1.0 + 1e-6)


def test_terms_limits_weights_and_a_start():
    A = 10.0 * panel(24)
    loss, weights = ce.LinearLoss(A), np.arange(1.0, len(A) + 1.0)
    terms = [ce.RiskTerm(loss, ce.CVaR(0.1), 0.5), ce.RiskTerm(loss, ce.EVaR(0.2), 0.5)]
    settings = {"domain": ce.Simplex(), "weights": weights}
    free = ce.maximize_ratio(REWARD, terms, **settings)
    same = ce.maximize_ratio(REWARD, loss, ce.Mixture([0.5, 0.5], [ce.CVaR(0.1), ce.EVaR(0.2)]), **settings)
    assert free.ratio == pytest.approx(same.ratio, rel=1e-9)
    level = 0.9 * float(ce.oce(A @ free.theta, ce.CVaR(0.05), weights))
    limits = [ce.Limit(loss, ce.CVaR(0.05), level)]
    for start in (None, free.theta):  # which breaks the limit
        found = ce.maximize_ratio(REWARD, terms, limits=limits, theta0=start, **settings)
        assert found.status == "converged"
        assert found.ratio < free.ratio
        assert float(ce.oce(A @ found.theta, ce.CVaR(0.05), weights)) <= level * (1.0 + 1e-9)
        assert found.limit_values[0] == pytest.approx(level, rel=1e-9)
    again = ce.maximize_ratio(REWARD, terms, theta0=free.theta, **settings)
    assert again.iterations <= free.iterations
    assert again.ratio == pytest.approx(free.ratio, rel=1e-9)


def test_rewards_and_risks_near_0():
    """Where the portfolio of minimum risk loses, and where the sign of a risk hangs on its digits."""
    A, reward = 10.0 * panel(26), np.where(np.arange(6) == 2, 0.001, -np.abs(REWARD))
    found = ce.maximize_ratio(reward, ce.LinearLoss(A), ce.CVaR(0.1), domain=ce.Simplex())
    assert found.status == "converged"
    assert found.reward > 0.0
    x = np.random.default_rng(4).normal(size=(200, 1))
    hedged = ce.LinearLoss(np.column_stack([x, -x]) + 1e-9)  # half of each leaves a loss of 1e-9
    assert ce.maximize_ratio([1.0, 1.0], hedged, ce.CVaR(0.1), domain=ce.Simplex()).ratio == pytest.approx(
        1e9, rel=1e-5
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_multiple_of_reward_one_is_where_the_method_begins(seed):
    """Coherent risks: three exact problems, over any set with a budget, find what many from another start find."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 8))
    A = rng.standard_t(4, size=(200, d)) + rng.normal(size=(200, 1))
    reward, offset = rng.normal(0.02, 0.03, size=d), float(rng.choice([0.0, -0.002]))
    reward[0] = 0.05
    rows = np.vstack([np.eye(d)[0], rng.normal(size=d)])
    domain = [
        ce.Simplex(),
        ce.CappedSimplex(upper=0.8),
        ce.LongShort(1.3, 0.3),
        ce.Polyhedron(lower=-0.2, upper=1.0, C=np.ones((1, d)), c=1.0, A=rows, b=[0.7, 1.5]),
    ][seed % 4]
    risk = [ce.CVaR(0.1), ce.EVaR(0.2), ce.HMCR(2.0, 0.1)][seed % 3]
    settings = {"domain": domain, "reward_offset": offset}
    found = ce.maximize_ratio(reward, ce.LinearLoss(A), risk, **settings)
    assert found.status == "converged"
    assert domain.contains(found.theta, 1e-12)
    assert found.iterations <= 5
    start = domain.project(rng.normal(size=d))
    again = ce.maximize_ratio(reward, ce.LinearLoss(A), risk, theta0=start, **settings)
    assert found.ratio == pytest.approx(again.ratio, rel=2e-9)


def test_sets_without_bounds():
    """The bound names the radius it holds within; where the ratio rises for ever, that is an error."""
    rng = np.random.default_rng(0)
    loss, free = ce.LinearLoss(rng.normal(size=(300, 4))), ce.Polyhedron(-np.inf, np.inf, C=np.ones((1, 4)), c=1.0)
    for domain, bounded in ((free, False), (ce.Simplex(), True)):
        found = ce.maximize_ratio([0.2, 0.2, 0.25, 0.22], loss, ce.CVaR(0.1), domain=domain)
        assert found.status == "converged"
        assert (found.radius == np.inf) == bounded
    with pytest.raises(ce.UnboundedError, match="no point of the feasible set has the largest ratio.*of asset 1.*Add"):
        ce.maximize_ratio([-0.1, -0.2, -0.05, 0.01], loss, ce.CVaR(0.1), domain=free)


@pytest.mark.parametrize("lowest", [0.01, -0.01])
def test_a_start_spares_a_problem_if_every_reward_is_positive(lowest):
    loss, reward = ce.LinearLoss(10.0 * panel(28)), np.array([0.02, 0.01, 0.05, lowest, 0.03, 0.04])
    cold = ce.maximize_ratio(reward, loss, ce.EVaR(0.1), domain=ce.Simplex())
    again = ce.maximize_ratio(reward, loss, ce.EVaR(0.1), domain=ce.Simplex(), theta0=cold.theta)
    assert again.status == "converged"
    assert again.ratio == pytest.approx(cold.ratio, rel=2e-9)
    assert cold.iterations == 3
    assert again.iterations == (1 if lowest > 0.0 else 2)
