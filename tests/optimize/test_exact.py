"""The exact solver on real panels: proved gaps, reference optima, agreement with an independent conic solver."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

import certeq.utilities as ce
from certeq.optimize.exact import solve_exact

UTILITIES = [
    ce.Entropic(50.0),
    ce.MeanVariance(25.0),
    ce.MonotoneMeanVariance(2),
    ce.MonotoneMeanVariance(3),
    ce.Quartic(),
    ce.CVaR(0.05),
    ce.LeakyCVaR(0.05),
    ce.SmoothCVaR(0.05, 0.005),
    ce.Mean(),
    0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05),
    0.5 * ce.Entropic(50.0) + 0.5 * ce.CVaR(0.05),
    0.5 * ce.SmoothCVaR(0.05, 0.005).normalized() + 0.5 * ce.CVaR(0.05),
    ce.Quartic().scaled(0.02).normalized(),
    ce.utility(lambda x: np.expm1(20 * x) / 20, name="custom exponential"),
]
NAMES = [repr(u) for u in UTILITIES]


def train(prices):
    from skfolio.preprocessing import prices_to_returns
    from sklearn.model_selection import train_test_split

    return -train_test_split(prices_to_returns(prices), shuffle=False)[0].to_numpy()


@pytest.fixture(scope="module")
def sp500():
    datasets = pytest.importorskip("skfolio.datasets")
    return train(datasets.load_sp500_dataset())


@pytest.fixture(scope="module")
def ftse100():
    datasets = pytest.importorskip("skfolio.datasets")
    home = os.environ.get("SKFOLIO_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
    if not (Path(home) / "ftse100_dataset.csv.gz").exists():
        pytest.skip("FTSE 100 prices are not here; set SKFOLIO_DATA to the folder with ftse100_dataset.csv.gz")
    return train(datasets.load_ftse100_dataset(data_home=str(home), download_if_missing=False))


def panel(scenarios=1361, assets=1455, factors=10, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.standard_t(4, size=(scenarios, factors)) * 0.006 * np.r_[1.5, np.full(factors - 1, 0.6)]
    loading = rng.normal(0.0, 0.5, size=(assets, factors))
    loading[:, 0] = rng.uniform(0.4, 1.6, assets)
    own = rng.standard_t(4, size=(scenarios, assets)) * rng.uniform(0.006, 0.016, assets)
    return -(common @ loading.T + own + rng.normal(0.0004, 0.0003, assets))


@pytest.fixture(scope="module")
def wide():
    return panel()


def simplex(losses):
    return {"lower": 0.0, "C": np.ones(losses.shape[1]), "c": 1.0}


def check(result, losses, utility, tol=1e-9, weights=None, linear=None):
    """Everything a result promises, by arithmetic that is not the solver's."""
    assert result.status == "optimal"
    assert result.relative_gap <= tol
    assert 0.0 <= result.gap == pytest.approx(result.value - result.lower_bound, abs=1e-300)
    w = np.full(len(losses), 1 / len(losses)) if weights is None else weights / weights.sum()
    x = losses @ result.theta
    t = result.threshold
    cost = 0.0 if linear is None else linear @ result.theta
    size = max(abs(result.value), float(np.abs(x).max()))
    assert t + w @ utility.value(x - t) + cost == pytest.approx(result.value, abs=1e-12 * size)
    assert abs(result.tilt.sum() - 1.0) < 1e-11
    if utility.is_monotone:
        assert result.tilt.min() >= 0.0


@pytest.mark.parametrize("utility", UTILITIES, ids=NAMES)
def test_sp500_gap(sp500, utility):
    result = solve_exact(sp500, utility, **simplex(sp500))
    check(result, sp500, utility)
    assert result.theta.min() >= 0.0
    assert result.theta.sum() == pytest.approx(1.0, abs=4e-16)


@pytest.mark.parametrize("utility", UTILITIES, ids=NAMES)
def test_ftse100_gap(ftse100, utility):
    check(solve_exact(ftse100, utility, **simplex(ftse100)), ftse100, utility)


@pytest.mark.parametrize("utility", UTILITIES, ids=NAMES)
def test_wide_panel_gap(wide, utility):
    losses = wide
    check(solve_exact(losses, utility, **simplex(losses)), losses, utility)


@pytest.mark.parametrize(
    ("utility", "optimum"),
    [
        (ce.Entropic(50.0), 0.0023021341),
        (ce.MeanVariance(25.0), 0.0019115557),
        (ce.MonotoneMeanVariance(2), -0.0010856511),
        (ce.Quartic(), -0.4730477477),
        (ce.CVaR(0.05), 0.0222484722),
        (ce.SmoothCVaR(0.05, 0.005), None),
    ],
    ids=lambda item: repr(item),
)
def test_reference_optima(sp500, utility, optimum):
    result = solve_exact(sp500, utility, **simplex(sp500))
    if optimum is None:  # stated for ln(1 + exp(x/.005)), the utility with tau = alpha = .005
        optimum, result = 0.0491256210, solve_exact(sp500, ce.SmoothCVaR(0.005, 0.005), **simplex(sp500))
    # The references are printed optima of another solver: ours may be lower by its error, not higher.
    assert -4e-10 < result.value - optimum < 6e-11


def conic(losses, utility, weights=None, linear=None, extra=lambda theta: []):
    """An independent formulation, solved by Clarabel."""
    cp = pytest.importorskip("cvxpy")
    count, assets = losses.shape
    theta, t = cp.Variable(assets), cp.Variable()
    x = losses @ theta
    w = np.full(count, 1 / count) if weights is None else weights / weights.sum()

    def risk(u, x):
        match u:
            case ce.Sum():
                return sum(weight * risk(term, x) for weight, term in zip(u.weights, u.terms, strict=True))
            case ce.Mean():
                return w @ (x - t)
            case ce.Entropic():
                return (w @ cp.exp(u.beta * (x - t)) - 1) / u.beta
            case ce.MeanVariance():
                return w @ (x - t) + u.beta * (w @ cp.square(x - t))
            case ce.MonotoneMeanVariance():
                return (w @ cp.power(cp.pos(x - t + 1), u.a) - 1) / u.a
            case ce.Quartic():
                return w @ cp.power(cp.pos(x - t + 1), 4) - 1
            case ce.CVaR():
                return w @ cp.pos(x - t) / u.alpha
            case ce.SmoothCVaR():
                return (u.width / u.alpha) * (w @ cp.logistic((x - t) / u.width))
        raise AssertionError(u)

    objective = t + risk(utility, x)
    if isinstance(utility, ce.Entropic):
        objective = (cp.log_sum_exp(utility.beta * x + np.log(w))) / utility.beta
    if linear is not None:
        objective = objective + linear @ theta
    problem = cp.Problem(cp.Minimize(objective), extra(theta))
    problem.solve(solver=cp.CLARABEL)
    assert problem.status in ("optimal", "optimal_inaccurate")
    return float(problem.value), np.asarray(theta.value)


EXPRESSIBLE = [
    ce.Entropic(50.0),
    ce.MeanVariance(25.0),
    ce.MonotoneMeanVariance(2),
    ce.MonotoneMeanVariance(3),
    ce.Quartic(),
    ce.CVaR(0.05),
    ce.SmoothCVaR(0.05, 0.005),
    0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05),
    0.5 * ce.MonotoneMeanVariance(2) + 0.5 * ce.CVaR(0.05),
]


@pytest.mark.parametrize("utility", EXPRESSIBLE, ids=repr)
@pytest.mark.parametrize("case", ["simplex", "long-short", "groups", "weights and costs"])
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_agrees_with_clarabel(utility, case):
    losses = panel(400, 30, seed=3)
    rng = np.random.default_rng(5)
    assets = losses.shape[1]
    group = np.zeros((2, assets))
    group[0, :10] = 1.0
    group[1, 10:20] = -1.0
    weights = linear = None
    ours = simplex(losses)

    def extra(theta):
        cons = [ours["C"] @ theta == 1, theta >= ours["lower"]]
        cons += [theta <= ours["upper"]] if "upper" in ours else []
        return cons + ([group @ theta <= ours["b"]] if "b" in ours else [])

    if case == "long-short":
        ours |= {"lower": -0.1, "upper": 0.15}
    elif case == "groups":
        ours |= {"G": group, "b": np.array([0.2, -0.5])}
    elif case == "weights and costs":
        weights = np.where(rng.random(400) < 0.2, 0.0, rng.random(400))
        linear = rng.normal(0.0, 0.001, assets)
        losses_kept, weights_kept = losses[weights > 0], weights[weights > 0]
    result = solve_exact(losses, utility, weights=weights, linear=linear, **ours)
    check(result, losses, utility, weights=weights, linear=linear)
    if weights is None:
        value, theirs = conic(losses, utility, extra=extra)
    else:
        value, theirs = conic(losses_kept, utility, weights_kept, linear, extra)
        assert np.all(result.tilt[weights == 0] == 0.0)
    assert result.value == pytest.approx(value, abs=2e-7 * max(1.0, abs(value)))
    # The bound is proved: a point that another solver found, made feasible, cannot beat it.
    if case == "simplex":
        theirs = np.maximum(theirs, 0.0)
        theirs /= theirs.sum()
        there = solve_exact(losses @ theirs[:, None], utility, lower=1.0, upper=1.0)
        assert there.value >= result.lower_bound
        assert there.value >= result.value - result.gap


@pytest.mark.parametrize("utility", UTILITIES[:8], ids=NAMES[:8])
def test_bound_holds_at_random_points(sp500, utility):
    losses = sp500[:600]
    result = solve_exact(losses, utility, max_iter=1, **simplex(losses))  # a bound from an unfinished run
    rng = np.random.default_rng(0)
    exact = solve_exact(losses, utility, **simplex(losses))
    assert exact.value >= result.lower_bound
    for theta in rng.dirichlet(np.full(20, 0.3), size=20):
        value = solve_exact(losses @ theta[:, None], utility, lower=1.0, upper=1.0).value
        assert value >= exact.lower_bound
        assert value >= result.lower_bound


def test_iteration_limit_is_reported_with_a_valid_gap(sp500):
    cut = solve_exact(sp500, ce.Entropic(50.0), max_iter=1, **simplex(sp500))
    best = solve_exact(sp500, ce.Entropic(50.0), **simplex(sp500))
    assert cut.status == "iteration limit"
    assert cut.value - best.value <= cut.gap
    assert cut.gap > 1e-7


def test_time_limit(sp500):
    result = solve_exact(np.vstack([sp500] * 3), ce.SmoothCVaR(0.05, 0.0005), time_limit=1e-6, **simplex(sp500))
    assert result.status == "time limit"
    assert math.isfinite(result.gap)


@pytest.mark.parametrize("utility", UTILITIES, ids=NAMES)
def test_warm_start_saves_work(sp500, utility):
    cold = solve_exact(sp500, utility, **simplex(sp500))
    again = solve_exact(sp500, utility, theta0=cold.theta, **simplex(sp500))
    check(again, sp500, utility)
    assert len(again.trace) <= max(1, len(cold.trace) - 1) or len(again.trace) == 1
    assert again.value == pytest.approx(cold.value, abs=1e-12)
    fewer = sp500[:-5]  # a neighboring problem
    moved = solve_exact(fewer, utility, theta0=cold.theta, **simplex(fewer))
    check(moved, fewer, utility)


def test_infeasible_warm_start_is_projected(sp500):
    result = solve_exact(sp500, ce.CVaR(0.05), theta0=np.full(20, 0.3), **simplex(sp500))
    check(result, sp500, ce.CVaR(0.05))


def test_multipliers_price_the_constraints(sp500):
    utility = ce.Entropic(50.0)
    group = np.zeros((1, 20))
    group[0, :10] = 1.0
    rows = simplex(sp500) | {"G": group, "b": [0.3]}
    result = solve_exact(sp500, utility, **rows)
    step = 1e-5
    wider = solve_exact(sp500, utility, **(rows | {"b": [0.3 + step]}))
    assert result.multipliers["G"][0] > 0.0
    assert (result.value - wider.value) / step == pytest.approx(result.multipliers["G"][0], rel=1e-3)
    richer = solve_exact(sp500, utility, **(rows | {"c": 1.0 + step}))
    assert (richer.value - result.value) / step == pytest.approx(result.multipliers["C"][0], rel=1e-3)


def test_nothing_passed_in_is_changed():
    losses = panel(200, 8, seed=1)
    before = losses.copy()
    start = np.full(8, 0.125)
    solve_exact(losses, ce.CVaR(0.1), theta0=start, **simplex(losses))
    assert np.array_equal(losses, before)
    assert np.all(start == 0.125)


def test_same_input_same_bits():
    losses = panel(300, 40, seed=2)
    first, second = (solve_exact(losses, ce.CVaR(0.1), **simplex(losses)) for _ in range(2))
    assert np.array_equal(first.theta, second.theta)
    assert first.gap == second.gap
