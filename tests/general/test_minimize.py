"""Every risk of the registry minimized: exactly against cutting planes, by OCE-SG, by L-BFGS, and with limits."""

import numpy as np
import pytest
from scipy.optimize import linprog

import certeq as ce
from tests.problems import PROBLEMS, RISKS, SETS, TABLES, D, cone

EXACT = [name for name, entry in RISKS.items() if entry.minimized]
STOCHASTIC = [name for name, entry in RISKS.items() if entry.stochastic]
pytestmark = [
    pytest.mark.filterwarnings("ignore::certeq.UnitWarning"),
    pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning"),
]


def digits(name):
    """Return the relative gap that the exact method reaches: less for risks that need sorting."""
    return 2e-9 if RISKS[name].blocks else 2e-7


def cutting_planes(risk, A, w, theta, tol):
    """Return the minimum over the simplex by cutting planes from theta: a bound that no solver of the library made."""
    cuts, least, best = [], -np.inf, np.inf
    for _ in range(200):
        value, q = float(ce.oce(A @ theta, risk, w)), ce.tilt(A @ theta, risk, w)
        best = min(best, value)
        if best - least <= tol:
            break
        slope = q @ A
        cuts.append((slope, value - slope @ theta))
        rows = np.array([np.append(slope, -1.0) for slope, _ in cuts])
        answer = linprog(
            np.append(np.zeros(D), 1.0), rows, [-level for _, level in cuts], np.append(np.ones(D), 0.0)[None], [1.0],
            [(0.0, 1.0)] * D + [(None, None)],
        )  # fmt: skip
        least, theta = answer.fun, answer.x[:D]
    return least, best


def check(found, name, A, w, tol):
    """Check all that an exact solution over the simplex states."""
    entry, x = RISKS[name], A @ found.theta
    size = float(np.abs(A - A.mean(axis=0)).max()) or 1.0
    assert found.converged
    assert found.theta.min() >= 0.0
    assert abs(found.theta.sum() - 1.0) <= 1e-12
    assert abs(found.value - float(ce.oce(x, entry.risk, w))) <= 1e-9 * size
    assert 0.0 <= found.gap <= tol * max(abs(found.value), size)
    q = found.tilt
    assert abs(q.sum() - 1.0) <= 1e-10
    if entry.monotone:
        assert q.min() >= 0.0
    if w is not None:
        assert not q[np.asarray(w) == 0.0].any()
    # The tilt is a subgradient, and proves the minimum by itself.
    assert (q @ A) @ found.theta - (q @ A).min() <= 2.0 * tol * max(abs(found.value), size) + 1e-12 * size
    for y in np.random.default_rng(50).normal(size=(3, len(x))) * size:
        assert float(ce.oce(y, entry.risk, w)) >= found.value + q @ (y - x) - 1e-8 * size


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_minimum(name, table):
    A, w = TABLES[table]
    found = ce.minimize(ce.LinearLoss(A), RISKS[name].risk, domain=ce.Simplex(), weights=w)
    check(found, name, A, w, digits(name))
    size = float(np.abs(A - A.mean(axis=0)).max())
    least, best = cutting_planes(RISKS[name].risk, A, w, found.theta, 1e-6 * size)
    assert found.value - found.gap <= best + 1e-12 * size
    assert found.value <= least + 2e-6 * size


@pytest.mark.parametrize("name", EXACT)
def test_exact_minimum_from_a_start_and_of_repeated_rows(name):
    risk, (A, w) = RISKS[name].risk, TABLES["ties"]
    found = ce.minimize(ce.LinearLoss(A), risk, domain=ce.Simplex(), weights=w)
    again = ce.minimize(ce.LinearLoss(A), risk, domain=ce.Simplex(), weights=w, theta0=found.theta)
    assert abs(again.value - found.value) <= again.gap + found.gap
    rows = np.repeat(A, w.astype(int), axis=0)
    repeated = ce.minimize(ce.LinearLoss(rows), risk, domain=ce.Simplex())
    assert abs(repeated.value - found.value) <= repeated.gap + found.gap + 1e-12
    moved = ce.minimize(ce.LinearLoss(A + 2.0**20), risk, domain=ce.Simplex(), weights=w)
    assert abs(moved.value - 2.0**20 - found.value) <= moved.gap + found.gap + 1e-8
    early = ce.minimize(ce.LinearLoss(A), risk, domain=ce.Simplex(), weights=w, max_iter=1)
    assert early.value - early.gap <= found.value + 1e-12 <= early.value + found.gap + 2e-12


@pytest.mark.parametrize("name", EXACT)
def test_one_scenario_and_constants(name):
    risk = RISKS[name].risk
    least = float(ce.oce(np.zeros(1), risk))
    for A in ([[1.0, 2.0, 3.0]], np.tile([1.0, 4.0, 6.0], (30, 1))):
        found = ce.minimize(ce.LinearLoss(A), risk, domain=ce.Simplex())
        assert found.converged
        assert found.value == pytest.approx(1.0 + least, abs=1e-9)


@pytest.mark.parametrize("domain", ["box", "long_short", "groups"])
@pytest.mark.parametrize("name", EXACT)
def test_exact_minimum_over_other_sets(name, domain):
    """No feasible point near or far is better than the certificate allows, with linear costs."""
    risk, domain, cost = RISKS[name].risk, SETS[domain].domain, np.linspace(0.0, 0.5, D)
    A = 100.0 * TABLES["returns"][0]
    found = ce.minimize(ce.LinearLoss(A), risk, domain=domain, linear=cost)
    assert found.converged
    assert domain.contains(found.theta, 1e-12)
    value = lambda theta: float(ce.oce(A @ theta, risk)) + cost @ theta
    assert found.value == pytest.approx(value(found.theta), rel=1e-9, abs=1e-9)
    assert 0.0 <= found.gap <= digits(name) * max(abs(found.value), 10.0)
    directions = np.random.default_rng(51).normal(size=(10, D))
    for size in (1.0, 1e-2, 1e-4):
        for theta in domain.project(found.theta + size * directions):
            assert value(theta) >= found.value - found.gap - 1e-9
    gradient = found.tilt @ A + cost
    assert domain.support_gap(found.theta, gradient) <= 1e-6 * max(1.0, abs(found.value))


@pytest.mark.parametrize("name", PROBLEMS)
def test_limits_terms_and_costs_agree_with_cones(name):
    cp = pytest.importorskip("cvxpy")
    problem, (A, w) = PROBLEMS[name], TABLES[PROBLEMS[name].table]
    loss, domain = ce.LinearLoss(A), SETS[problem.domain].domain
    found = ce.minimize(
        [ce.RiskTerm(loss, risk, weight) for risk, weight in problem.terms],
        domain=domain, weights=w, limits=[ce.Limit(loss, risk, level) for risk, level in problem.limits],
        **({} if problem.linear is None else {"linear": problem.linear}),
    )  # fmt: skip
    p = np.full(len(A), 1.0 / len(A)) if w is None else w / w.sum()
    kept, theta = p > 0.0, cp.Variable(D)
    rows, total = SETS[problem.domain].constraints(cp, theta), 0.0
    if problem.linear is not None:
        total = problem.linear @ theta
    for risk, weight in problem.terms:
        value, more = cone(risk, A[kept] @ theta, p[kept])
        total, rows = total + weight * value, rows + more
    for risk, level in problem.limits:
        value, more = cone(risk, A[kept] @ theta, p[kept])
        rows = [*rows, value <= level, *more]
    least = cp.Problem(cp.Minimize(total), rows).solve(solver=cp.CLARABEL)
    size = float(np.abs(A).max())
    assert found.converged
    assert domain.contains(found.theta, 1e-12)
    assert found.value == pytest.approx(least, abs=1e-6 * max(size, abs(least)))
    assert 0.0 <= found.gap <= 1e-9 * max(abs(found.value), size)
    for j, (risk, level) in enumerate(problem.limits):
        x = A @ found.theta
        at = np.sqrt(p @ x**2) if isinstance(risk, ce.RootMeanSquare) else float(ce.oce(x, risk, w))
        assert found.limit_values[j] == pytest.approx(at, rel=1e-9)
        assert at <= level + 1e-9 * size
        assert found.limit_multipliers[j] * (level - at) <= 1e-7 * size


# -- problems made of the exact one -----------------------------------------------------------------------------------

LIMITED = [name for name in EXACT if RISKS[name].blocks and name != "mean"]


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_on_every_risk(name):
    """The mean under a limit is the minimum of mean + multiplier * risk, and lies on the limit."""
    risk, A = RISKS[name].risk, 100.0 * TABLES["returns"][0] - np.linspace(0.0, 0.5, D)
    loss, mean = ce.LinearLoss(A), A.mean(axis=0)
    least = ce.minimize(loss, risk, domain=ce.Simplex())
    corner = np.eye(D)[np.argmin(mean)]
    level = 0.7 * least.value + 0.3 * float(ce.oce(A @ corner, risk))
    found = ce.minimize(loss, ce.Mean(), domain=ce.Simplex(), limits=[ce.Limit(loss, risk, level)])
    assert found.converged
    at = float(ce.oce(A @ found.theta, risk))
    assert found.limit_values[0] == pytest.approx(at, rel=1e-9)
    assert at <= level + 1e-9
    assert found.value == pytest.approx(float(mean @ found.theta), rel=1e-9)
    price = float(found.limit_multipliers[0])
    assert price * (level - at) <= 1e-7
    dual = ce.minimize([ce.RiskTerm(loss, ce.Mean()), ce.RiskTerm(loss, risk, price)], domain=ce.Simplex())
    assert dual.value - price * level == pytest.approx(found.value, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in LIMITED if RISKS[name].coherent])
def test_budgets_and_ratios_of_every_coherent_risk(name):
    risk, A, rng = RISKS[name].risk, 100.0 * TABLES["returns"][0] + 0.5, np.random.default_rng(52)
    loss, budget, w = ce.LinearLoss(A), rng.dirichlet(np.ones(D)), rng.random(len(A))
    found = ce.risk_budgeting(loss, risk, budget, weights=w, total=2.0)
    assert found.theta.sum() == pytest.approx(2.0, rel=1e-12)
    assert found.value == pytest.approx(float(ce.oce(A @ found.theta, risk, w)), rel=1e-9)
    assert found.tilt @ (A @ found.theta) == pytest.approx(found.value, rel=1e-8)
    np.testing.assert_allclose(found.contributions, found.theta * (found.tilt @ A), rtol=1e-8)
    np.testing.assert_allclose(found.contributions, budget * found.value, rtol=1e-6)
    reward = rng.random(D)
    best = ce.maximize_ratio(reward, loss, risk, domain=ce.Simplex(), weights=w)
    assert best.status == "converged"
    assert best.ratio == pytest.approx(reward @ best.theta / float(ce.oce(A @ best.theta, risk, w)), rel=1e-9)
    for theta in rng.dirichlet(np.ones(D), 30):
        for mixed in (theta, best.theta + 1e-3 * (theta - best.theta)):
            assert reward @ mixed / float(ce.oce(A @ mixed, risk, w)) <= best.ratio + best.gap + 1e-9 * best.ratio


# -- OCE-SG and L-BFGS ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", STOCHASTIC)
def test_steps_on_the_whole_sample_are_those_of_the_algorithm(name, weighted):
    risk, A = RISKS[name].risk, np.random.default_rng(53).standard_t(4, size=(60, D))
    w = np.random.default_rng(54).integers(0, 4, 60).astype(float) if weighted else None
    seen, theta = [], np.full(D, 1.0 / D)
    ce.minimize(
        ce.LinearLoss(A), risk, domain=ce.Simplex(), method="sg", weights=w, batch="full", step=0.05, average="last",
        iterations=12, log_every=1, callback=lambda at: seen.append(at.theta.copy()),
    )  # fmt: skip
    for found in seen:
        theta = ce.Simplex().project(theta - 0.05 * ce.tilt(A @ theta, risk, w) @ A)
        np.testing.assert_allclose(found, theta, atol=1e-7)


@pytest.mark.parametrize("name", STOCHASTIC)
def test_stochastic_runs_reach_the_exact_minimum(name, tmp_path):
    risk, A = RISKS[name].risk, np.random.default_rng(55).normal(size=(200, D)) + np.linspace(0.0, 0.5, D)
    exact = ce.minimize(ce.LinearLoss(A), risk, domain=ce.Simplex())
    settings = {"domain": ce.Simplex(), "method": "sg", "batch": 50, "rng": 0}
    found = ce.minimize(ce.LinearLoss(A), risk, iterations=300, **settings)
    assert exact.value - exact.gap - 1e-12 <= found.value <= exact.value + 0.03 * max(1.0, abs(exact.value))
    assert found.value - found.gap <= exact.value + 1e-12
    assert found.value == pytest.approx(float(ce.oce(A @ found.theta, risk)), rel=1e-9)


@pytest.mark.parametrize("name", STOCHASTIC)
def test_stochastic_runs_on_streams_and_from_checkpoints(name, tmp_path):
    risk, A = RISKS[name].risk, np.random.default_rng(56).normal(size=(200, D))
    settings = {"domain": ce.Simplex(), "method": "sg", "rng": 0, "theta0": np.eye(D)[0]}
    sampler = lambda rng, m: A[rng.integers(200, size=m)]
    stream = ce.minimize(ce.LinearLoss(), risk, samples=sampler, batch=60, iterations=60, **settings)
    assert float(ce.oce(A @ stream.theta, risk)) < float(ce.oce(A[:, 0], risk))
    settings |= {"batch": 16, "weights": np.arange(200.0)}
    whole = ce.minimize(ce.LinearLoss(A), risk, iterations=30, **settings)
    ce.minimize(ce.LinearLoss(A), risk, iterations=13, checkpoint=tmp_path / "run", **settings)
    resumed = ce.minimize(ce.LinearLoss(A), risk, iterations=30, checkpoint=tmp_path / "run", **settings)
    assert resumed.theta.tobytes() == whole.theta.tobytes()
    with pytest.raises(ValueError, match="different problem"):
        ce.minimize(ce.LinearLoss(A), ce.CVaR(0.123), iterations=30, checkpoint=tmp_path / "run", **settings)


@pytest.mark.parametrize("name", RISKS)
def test_lbfgs_finds_a_stationary_point_of_smooth_risks(name):
    entry, rng = RISKS[name], np.random.default_rng(57)
    X, box = rng.normal(size=(100, 3)), ce.Box(-1.0, 0.4)
    loss, w = ce.SquaredLoss(X, X @ [1.0, -0.5, 0.3] + 0.5 * rng.normal(size=100)), rng.random(100)
    if not entry.smooth:
        with pytest.raises(ValueError, match="smooth"):
            ce.minimize(loss, entry.risk, domain=box, method="lbfgs")
        return
    found = ce.minimize(loss, entry.risk, domain=box, weights=w, method="lbfgs")
    assert found.status in ("converged", "no further progress")
    assert box.contains(found.theta, 0.0)
    q = ce.tilt(loss.losses(found.theta), entry.risk, w)
    gradient = loss.gradient(found.theta, None, q)
    # Where one loss carries all of the risk, the risk is the largest loss, which has kinks.
    assert q.max() > 0.9 or np.abs(found.theta - box.project(found.theta - gradient)).max() <= 1e-4
    assert found.value == pytest.approx(float(ce.oce(loss.losses(found.theta), entry.risk, w)), rel=1e-12)


# -- bad input --------------------------------------------------------------------------------------------------------

A = np.random.default_rng(58).normal(size=(9, D))
BAD = {
    "no losses": (lambda risk: ce.oce([], risk), ValueError, "empty"),
    "nan": (lambda risk: ce.oce([0.0, np.nan], risk), ValueError, "index 1"),
    "text": (lambda risk: ce.tilt(["a"], risk), TypeError, "<U1"),
    "negative weight": (lambda risk: ce.oce([0.0, 1.0], risk, [1.0, -1.0]), ValueError, "-1"),
    "short weights": (lambda risk: ce.tilt([0.0, 1.0], risk, [1.0]), ValueError, "weights"),
    "no weight": (lambda risk: ce.estimate([0.0, 1.0, 2.0], risk, [0.0, 0.0, 0.0]), ValueError, "weights"),
    "weights of scenarios": (
        lambda risk: ce.minimize(ce.LinearLoss(A), risk, domain=ce.Simplex(), weights=np.ones(3)), ValueError, "weights"
    ),
    "start": (
        lambda risk: ce.minimize(ce.LinearLoss(A), risk, domain=ce.Simplex(), theta0=np.ones(3)), ValueError, "theta0"
    ),
    "no set": (lambda risk: ce.minimize(ce.LinearLoss(A), risk, domain="simplex"), TypeError, "domain"),
    "empty set": (
        lambda risk: ce.minimize(ce.LinearLoss(A), risk, domain=ce.CappedSimplex(0, 0.1)), ce.InfeasibleError, "0.6"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", RISKS)
def test_bad_input(name, case):
    call, error, part = BAD[case]
    with pytest.raises(error) as raised:
        call(RISKS[name].risk)
    assert part in str(raised.value)
