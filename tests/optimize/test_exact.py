"""The exact solver on real and on hard tables: proved gaps, reference optima, and bounds in exact arithmetic.

What holds for every risk and every feasible set is in tests/general.
"""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.exact import solve_exact
from certeq.optimize.exact._certificate import is_feasible
from certeq.optimize.qp import Subproblem, solve_subproblem
from tests.problems import UTILITIES as REGISTERED
from tests.problems import cone

pytestmark = [
    pytest.mark.filterwarnings("ignore::certeq.UnitWarning"),
    pytest.mark.filterwarnings("ignore:Solution may be inaccurate"),
]
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
each_utility = pytest.mark.parametrize("utility", UTILITIES, ids=repr)


def pairs(names, each):
    """Return every name with some of the utilities, so that each of these comes as often."""
    return [(name, UTILITIES[(i * each + k) % len(UTILITIES)]) for i, name in enumerate(names) for k in range(each)]


def panel(scenarios=1361, assets=1455, factors=10, seed=0):
    """Return losses of assets with common factors and heavy tails, as daily returns have them."""
    rng = np.random.default_rng(seed)
    common = rng.standard_t(4, size=(scenarios, factors)) * 0.006 * np.r_[1.5, np.full(factors - 1, 0.6)]
    loading = rng.normal(0.0, 0.5, size=(assets, factors))
    loading[:, 0] = rng.uniform(0.4, 1.6, assets)
    own = rng.standard_t(4, size=(scenarios, assets)) * rng.uniform(0.006, 0.016, assets)
    return -(common @ loading.T + own + rng.normal(0.0004, 0.0003, assets))


def simplex(losses, **more):
    return {"lower": 0.0, "C": np.ones(losses.shape[1]), "c": 1.0} | more


def check(result, losses, utility, weights=None, linear=None):
    """Check what a result states, by arithmetic that is not the solver's."""
    assert result.status == "optimal"
    assert result.relative_gap <= 1e-9
    assert 0.0 <= result.gap == pytest.approx(result.value - result.lower_bound, abs=1e-300)
    w = np.full(len(losses), 1 / len(losses)) if weights is None else weights / weights.sum()
    x, t = losses @ result.theta, result.threshold
    cost = 0.0 if linear is None else linear @ result.theta
    size = max(abs(result.value), float(np.abs(x).max()))
    assert t + w @ utility.value(x - t) + cost == pytest.approx(result.value, abs=1e-12 * size)
    assert abs(result.tilt.sum() - 1.0) < 1e-11
    assert not utility.is_monotone or result.tilt.min() >= 0.0


# -- real and large panels --------------------------------------------------------------------------------------------


def train(prices):
    from skfolio.preprocessing import prices_to_returns
    from sklearn.model_selection import train_test_split

    return -train_test_split(prices_to_returns(prices), shuffle=False)[0].to_numpy()


@pytest.fixture(scope="module")
def sp500():
    return train(pytest.importorskip("skfolio.datasets").load_sp500_dataset())


@pytest.fixture(scope="module")
def wide():
    return panel()


@each_utility
def test_sp500_cold_and_warm(sp500, utility):
    cold = solve_exact(sp500, utility, **simplex(sp500))
    check(cold, sp500, utility)
    assert cold.theta.min() >= 0.0
    assert cold.theta.sum() == pytest.approx(1.0, abs=4e-16)
    again = solve_exact(sp500, utility, theta0=cold.theta, **simplex(sp500))
    check(again, sp500, utility)
    assert len(again.trace) <= max(1, len(cold.trace) - 1)
    assert again.value == pytest.approx(cold.value, abs=1e-12)
    fewer = sp500[:-5]  # a neighboring problem, and a start that is not feasible
    for start in (cold.theta, np.full(20, 0.3)):
        check(solve_exact(fewer, utility, theta0=start, **simplex(fewer)), fewer, utility)


@pytest.mark.parametrize("utility", [*UTILITIES[1::2], UTILITIES[10]], ids=repr)
def test_more_assets_than_scenarios_in_a_large_panel(wide, utility):
    check(solve_exact(wide, utility, **simplex(wide)), wide, utility)


@pytest.mark.parametrize(
    ("utility", "optimum"),
    [
        (ce.Entropic(50.0), 0.0023021341),
        (ce.MeanVariance(25.0), 0.0019115557),
        (ce.MonotoneMeanVariance(2), -0.0010856511),
        (ce.Quartic(), -0.4730477477),
        (ce.CVaR(0.05), 0.0222484722),
        (ce.SmoothCVaR(0.005, 0.005), 0.0491256210),  # stated for ln(1 + exp(x/.005))
    ],
    ids=repr,
)
def test_reference_optima(sp500, utility, optimum):
    # The references are printed optima of another solver: ours may be lower by its error, not higher.
    assert -4e-10 < solve_exact(sp500, utility, **simplex(sp500)).value - optimum < 6e-11


def test_stopped_early_the_gap_is_valid(sp500):
    best = solve_exact(sp500, ce.Entropic(50.0), **simplex(sp500))
    cut = solve_exact(sp500, ce.Entropic(50.0), max_iter=1, **simplex(sp500))
    assert cut.lower_bound <= best.value <= cut.value + best.gap
    assert cut.status == "iteration limit"
    assert cut.gap > 1e-7
    late = solve_exact(np.vstack([sp500] * 3), ce.SmoothCVaR(0.05, 0.0005), time_limit=1e-6, **simplex(sp500))
    assert late.status == "time limit"
    assert math.isfinite(late.gap)


def test_multipliers_price_the_constraints(sp500):
    rows = simplex(sp500, G=[np.arange(20) < 10.0], b=[0.3])
    result = solve_exact(sp500, ce.Entropic(50.0), **rows)
    step = 1e-5
    wider = solve_exact(sp500, ce.Entropic(50.0), **(rows | {"b": [0.3 + step]}))
    richer = solve_exact(sp500, ce.Entropic(50.0), **(rows | {"c": 1.0 + step}))
    assert result.multipliers["G"][0] > 0.0
    assert (result.value - wider.value) / step == pytest.approx(result.multipliers["G"][0], rel=1e-3)
    assert (richer.value - result.value) / step == pytest.approx(result.multipliers["C"][0], rel=1e-3)


def test_same_input_same_bits_and_nothing_is_changed():
    losses = panel(300, 40, seed=2)
    before, start = losses.copy(), np.full(40, 0.025)
    first, second = (solve_exact(losses, ce.CVaR(0.1), theta0=start, **simplex(losses)) for _ in range(2))
    assert np.array_equal(losses, before)
    assert np.all(start == 0.025)
    assert np.array_equal(first.theta, second.theta)
    assert first.gap == second.gap


@pytest.mark.slow
@pytest.mark.parametrize("utility", [ce.CVaR(0.05), ce.SmoothCVaR(0.05, 0.005), UTILITIES[10]], ids=repr)
def test_a_million_scenarios(utility):
    big = panel(1_000_000, 50, seed=3)
    check(solve_exact(big, utility, **simplex(big)), big, utility)


# -- hard tables and sets ---------------------------------------------------------------------------------------------

LOSSES = panel(700, 20, seed=7)
TABLES = {
    "equal assets": np.hstack([LOSSES, LOSSES[:, :10]]),
    "a constant asset": np.hstack([LOSSES, np.full((700, 1), 0.001)]),
    "a good constant asset": np.hstack([LOSSES, np.full((700, 1), -0.001)]),
    "an asset that dominates": np.hstack([LOSSES, LOSSES.min(axis=1, keepdims=True) - 0.01]),
    "more assets than scenarios": panel(30, 90, seed=8),
    "many more assets": panel(60, 400, seed=9),
    "units of 1e-4": 1e-4 * LOSSES,
    "a large offset": LOSSES + 1.0,
    "one scenario": LOSSES[:1],
    "three scenarios": LOSSES[:3],
    "one asset": LOSSES[:, :1],
    "single precision": LOSSES.astype(np.float32),
    "repeated scenarios": np.vstack([LOSSES[:50]] * 6),
    "all equal": np.full((50, 4), 0.25),
    "zeros": np.zeros((50, 4)),
}
SETS = {
    "a single point": {"lower": np.full(20, 0.05), "upper": np.full(20, 0.05)},
    "a point forced by the budget": {"upper": 0.05},
    "some fixed": {
        "lower": np.r_[np.full(3, 0.05), np.zeros(17)], "upper": np.r_[np.full(3, 0.05), np.full(17, 0.2)]
    },
    "repeated equalities": {"C": np.vstack([np.ones(20), 2 * np.ones(20)]), "c": [1.0, 2.0]},
    "an equality as two rows": {"G": np.vstack([np.eye(20)[0], -np.eye(20)[0]]), "b": [0.2, -0.2]},
    "a large budget": {"c": 100.0},
    "a small budget": {"c": 1e-6},
    "a redundant row": {"G": np.vstack([np.ones(20), np.zeros(20)]), "b": [5.0, 0.0]},
    "a row without limit": {"G": np.ones((1, 20)), "b": [np.inf]},
}  # fmt: skip


@pytest.mark.parametrize(("table", "utility"), pairs(TABLES, 5), ids=repr)
def test_tables(table, utility):
    x = TABLES[table]
    check(solve_exact(x, utility, **simplex(x)), x, utility)


# Losses near 0 of a utility that is shifted show an error in what is allowed for rounding.
SHIFTED = 0.5 * ce.SmoothCVaR(0.05, 0.005).normalized() + 0.5 * ce.CVaR(0.05)


@pytest.mark.parametrize(("name", "utility"), [*pairs(SETS, 5), ("a small budget", SHIFTED)], ids=repr)
def test_sets(name, utility):
    rows = simplex(LOSSES, **SETS[name])
    result = solve_exact(LOSSES, utility, **rows)
    check(result, LOSSES, utility)
    theta = result.theta
    size = max(1.0, float(np.abs(theta).sum()))
    assert np.all(theta >= np.asarray(rows["lower"]))
    assert np.all(theta <= np.asarray(rows.get("upper", np.inf)))
    assert np.abs(np.atleast_2d(rows["C"]) @ theta - rows["c"]).max() <= 1e-15 * size
    if "G" in rows:
        assert (np.atleast_2d(rows["G"]) @ theta - rows["b"]).max() <= 1e-15 * size


@pytest.mark.parametrize(("scale", "utility"), pairs([1e-4, 1e4], 7), ids=repr)
def test_units_do_not_matter_if_the_utility_follows(utility, scale):
    here = solve_exact(LOSSES, utility, **simplex(LOSSES))
    there = solve_exact(scale * LOSSES, utility.scaled(scale), **simplex(LOSSES))
    assert there.value == pytest.approx(scale * here.value, rel=1e-9, abs=1e-12 * scale)
    assert there.relative_gap <= 1e-9
    if utility not in UTILITIES[10:]:
        check(solve_exact(1e4 * LOSSES, utility, **simplex(LOSSES)), 1e4 * LOSSES, utility)


@pytest.mark.parametrize("scenarios", [1, 30])
@pytest.mark.parametrize("utility", [u for name, u in REGISTERED.items() if "_" not in name and "." not in name])
def test_losses_far_from_0_are_solved_like_losses_near_0(utility, scenarios):
    near = np.random.default_rng(0).integers(-(2**20), 2**20, size=(scenarios, 3)) / 2.0**19
    offset = 2.0**30  # no digit of the sum is lost
    there, here = (solve_exact(x, utility, **simplex(near)) for x in (offset + near, near))
    assert there.status == "optimal"
    assert there.gap < 1e-5  # 2**30 has an ulp of 2.4e-7
    assert abs(there.tilt.sum() - 1.0) < 1e-12
    assert ce.oce(near @ there.theta, utility) <= here.value + 1e-5
    np.testing.assert_allclose(there.value, offset + here.value, rtol=1e-14)
    np.testing.assert_allclose(there.threshold - offset, ce.threshold(near @ there.theta, utility), atol=1e-5)


UNBOUNDED = {
    "mean": (LOSSES, ce.Mean(), {"lower": None, "C": None, "c": None}),
    "mean of nonnegative": (LOSSES, ce.Mean(), {"C": None, "c": None}),
    "dominated": (TABLES["an asset that dominates"], ce.CVaR(0.05), {"lower": None}),
    "dominated, entropic": (TABLES["an asset that dominates"], ce.Entropic(50.0), {"lower": None}),
    "twins": (np.hstack([LOSSES, LOSSES[:, :1] - 0.01]), ce.MeanVariance(25.0), {"lower": None}),
    "few scenarios": (LOSSES[:10], ce.CVaR(0.05), {"lower": None}),
    "costs": (LOSSES, ce.Entropic(50.0), {"C": None, "c": None, "linear": np.full(20, -0.1)}),
    "evar": (np.column_stack([LOSSES, LOSSES[:, 0] + 0.01]), ce.EVaR(0.1), {"lower": None}),
    "mixture": (
        np.column_stack([LOSSES, LOSSES[:, 0] + 0.01]), ce.Mixture([0.6, 0.4], [ce.CVaR(0.2), ce.EVaR(0.1)]),
        {"lower": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNBOUNDED)
def test_unbounded_names_a_direction_along_which_the_objective_falls(name):
    x, risk, rows = UNBOUNDED[name]
    with pytest.raises(ce.UnboundedError, match=r"unbounded under .* of asset \d+") as caught:
        solve_exact(x, risk, **simplex(x, **rows))
    along = caught.value.direction
    cost = rows.get("linear", np.zeros(x.shape[1])) @ along
    slope = [float(ce.oce(x @ (s * along), risk)) + s * cost for s in (1e5, 1e6)]
    assert slope[1] < slope[0]


# -- numbers that once failed -----------------------------------------------------------------------------------------


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def uneven(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(4, 24)), rng.random(4) ** 3 + 1e-3


STEEP = np.array([1.0625334367344473e-05, 6.2e-05, 9.9e-03, 0.13, 0.14, 0.7, 1.4, 5.5, 15.0, 41.3])[:, None]
BALL = np.array([[0.1, -1.5, 0.0, 0.1]]), np.array([-0.1, 1.3, -1.1, -0.6])
CUBES = np.random.default_rng(0).exponential(size=(1000, 1)) ** 3
SCALED = [ce.EVaR(0.05), ce.HMCR(2, 0.1), ce.MonotoneMeanVariance(2).ball(0.5)]  # the scale s tends to 0
# Table, risk, set, minimum (None: only the proof counts), largest gap.
ONCE_FAILED = {
    "low rank": (  # the first solve of a nearly singular system is far off, and refinement moves it
        [[0.119, 0.081], [0.093, 0.101]], ce.Quartic().scaled(0.43665598170727754).normalized(),
        ce.Simplex(2.5), None, 1e-9,
    ),
    "far from 0": (1e4 + 0.05 * normal(0, 40, 5), ce.CVaR(0.1), ce.NonNegative(), 0.0, 1e-12),
    "center of a ball": (BALL[0], ce.CVaR(0.1), ce.L1Ball(2.2, BALL[1]), float(BALL[0][0] @ BALL[1]) - 3.3, 1e-9),
    "power norm": (CUBES, ce.HMCR(2, 0.1), ce.Box(0.0, 1.0), 0.0, 1e-9),  # holds nothing
    "power norm in a larger box": (CUBES, ce.HMCR(2, 0.1), ce.Box(0.0, 2.0), 0.0, 1e-9),
    "edge, cvar": (STEEP, ce.CVaR(0.05), ce.Box(-1.0, 1.0), -STEEP[0, 0], 1e-11),  # hardly falls
    "edge, evar": (STEEP, ce.EVaR(0.05), ce.Box(-1.0, 1.0), -STEEP[0, 0], 1e-11),
    "ties": ([[1.0, 0.0], [0.0, 3.0], [-5.0, -5.0], [-5.0, -5.0]], ce.CVaR(0.25), ce.Simplex(), 0.75, 1e-13),
    "overflow of weights": (normal(0, 20, 5), ce.CVaR(0.1), ce.Simplex(), None, 1e-9, np.full(20, 1e308)),
} | {
    f"{kind}, {risk!r}": row
    for risk in SCALED
    for kind, row in {
        "nothing can move": ([[1.0], [2.0], [0.0]], risk, ce.Simplex(), float(ce.oce([1.0, 2, 0], risk)), 1e-9),
        "holding nothing": (1e3 + normal(150, 100, 1), risk, ce.Box(0.0, 1.0), None, 1e-10),
    }.items()
} | {
    f"equal scenarios, {rows}, {u!r}": (
        np.tile([0.3, -1.5, 0.7], (rows, 1)), u, ce.LongShort(1.3, 0.3), float(ce.oce([-2.16], u)), 1e-9
    )
    for u in (ce.Entropic(), ce.LeakyCVaR(0.1)) for rows in (5, 7, 20)
} | {
    f"uneven weights, {seed}": (uneven(seed)[0], ce.LeakyCVaR(0.05), ce.Simplex(), None, 2e-9, uneven(seed)[1])
    for seed in (3, 17, 49)  # the last needs a second start
}  # fmt: skip


@pytest.mark.parametrize("name", ONCE_FAILED)
def test_numbers_that_once_failed(name):
    A, risk, domain, least, gap, *weights = ONCE_FAILED[name]
    found = ce.minimize(ce.LinearLoss(A), risk, domain=domain, weights=weights[0] if weights else None)
    assert found.converged
    assert found.gap <= gap * max(1.0, abs(found.value))
    assert domain.contains(found.theta, 1e-12)
    if least is not None:
        assert found.value == pytest.approx(least, rel=1e-9, abs=max(1e-11, gap))
    if name == "ties":  # of the tied scenarios with unequal duals: equal shares would leave a gap
        assert found.tilt == pytest.approx([0.75, 0.25, 0.0, 0.0])


@pytest.mark.parametrize("seed, twins", [(0, False), (1, True), (2, False), (3, True)])
@pytest.mark.parametrize("utility", [ce.MeanVariance(1.0), ce.Entropic(1.0), ce.SmoothCVaR(0.1), ce.CVaR(0.1)])
def test_an_inequality_that_the_budget_settles(utility, seed, twins):
    A = np.random.default_rng(seed).normal(size=(20, 30))
    if twins:
        A[:, 1] = A[:, 0]
    cap, budget = np.eye(30)[:1], np.ones((1, 30))
    found = solve_exact(A, utility, lower=0, upper=1, C=budget, c=[1.0], G=np.vstack([cap, -budget]), b=[0.25, -1.0])
    plain = solve_exact(A, utility, lower=0, upper=np.where(cap[0] > 0, 0.25, 1.0), C=budget, c=[1.0])
    assert found.status == "optimal"
    assert found.value == pytest.approx(plain.value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed, squares", [(0, None), (1, 1e-3), (2, 1e-3), (3, None)])
@pytest.mark.parametrize("utility", [ce.CVaR(0.05), 0.5 * ce.CVaR(0.05) + 0.5 * ce.Entropic(10.0)], ids=repr)
def test_weights_over_twenty_decades(utility, squares, seed):
    """As entropy pooling makes them: a few scenarios carry nearly all, and hundreds next to nothing."""
    rng = np.random.default_rng(seed)
    A, weights = 0.02 * rng.normal(size=(1000, 10)), rng.exponential(size=1000) ** 8
    rows = simplex(A, quadratic=None if squares is None else np.full(10, squares))
    found = solve_exact(A, utility, weights=weights, **rows)
    assert found.status == "optimal"
    # What the least weights add is below the tolerance, and without them the problem is an easy one.
    heavy = weights > 1e-13 * weights.sum()
    without = solve_exact(A[heavy], utility, weights=weights[heavy], **rows)
    assert found.value == pytest.approx(without.value, rel=1e-6)


@pytest.mark.parametrize("domain", [ce.Free(), ce.NonNegative()], ids=repr)
@pytest.mark.parametrize("utility", [ce.MonotoneMeanVariance(2), ce.Entropic(1.0), ce.SmoothCVaR(0.1)], ids=repr)
def test_columns_of_very_different_sizes_without_bounds(utility, domain):
    """The rounding of a proof within a distance of theta is that of each column times its own entry of theta."""
    sizes = np.array([10.0, 1e-3, 0.1])
    for seed in range(7):
        A = np.random.default_rng(seed).normal(size=(60, 3))
        found, alike = (ce.minimize(ce.LinearLoss(x), utility, domain=domain) for x in (A * sizes, A))
        assert found.status == "converged", seed
        assert found.value == pytest.approx(alike.value, rel=1e-9, abs=1e-12)
        assert np.allclose(found.theta * sizes, alike.theta, rtol=1e-4, atol=1e-6)
        assert ce.oce(A * sizes @ found.theta, utility) == pytest.approx(found.value, rel=1e-12, abs=1e-14)
        assert found.radius == alike.radius == np.inf or found.radius > 0.0
        assert (found.radius < np.inf) == ("radius" in repr(found))


def test_multipliers_are_in_the_units_of_the_caller():
    rng = np.random.default_rng(3)
    sizes = np.array([100.0, 1e-3, 1.0, 0.1])
    A = rng.normal(0.1, 1.0, size=(80, 4))
    settings = {"lower": 0.0, "G": np.array([[1.0, 1.0, 0.0, 0.0]]), "b": [5.0], "linear": -0.05 * np.ones(4)}
    plain = solve_exact(A, ce.Entropic(1.0), **settings)
    rows = settings | {"G": settings["G"] * sizes, "linear": settings["linear"] * sizes}
    scaled = solve_exact(A * sizes, ce.Entropic(1.0), **rows)
    assert scaled.value == pytest.approx(plain.value, rel=1e-10, abs=1e-13)
    for side, unit in (("lower", sizes), ("upper", sizes), ("G", 1.0)):
        assert np.allclose(scaled.multipliers[side] / unit, plain.multipliers[side], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [1.0, 2.0**20, 2.0**35, 2.0**50])
def test_a_variable_that_is_fixed_far_away(size):
    """It is no measure of the others: 2**35 beside weights of 1 was answered by weights of 0, off the budget."""
    A = np.random.default_rng(8).normal(0.0, 0.03, (100, 4))
    plain = solve_exact(A, ce.CVaR(0.1), **simplex(A))
    found = solve_exact(
        np.column_stack([A, np.full(100, -1e3 / size)]), ce.CVaR(0.1), lower=np.append(np.zeros(4), size),
        upper=np.append(np.full(4, np.inf), size), C=[[1.0, 1.0, 1.0, 1.0, 0.0]], c=[1.0],
    )  # fmt: skip
    assert found.theta[:4].sum() == pytest.approx(1.0, rel=1e-12)
    assert 0.0 <= found.value - (plain.value - 1e3) + 1e-12 <= found.gap + 1e-12
    if size <= 2.0**30:
        assert found.status == "optimal"
        assert np.allclose(found.theta[:4], plain.theta, atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["fixed", "groups", "dense"])
def test_equality_rows_that_fix_assets_keep_the_certificate(seed, kind):
    """Rows that leave no asset, or a single point, to choose: no multiplier may grow out of nothing."""
    rng = np.random.default_rng(seed)
    assets = int(rng.integers(1, 12))
    count = int(rng.integers(1, assets + 1))
    rows = {
        "fixed": np.eye(assets)[:count],
        "groups": (rng.random((count, assets)) < 0.5).astype(float),
        "dense": rng.standard_normal((count, assets)),
    }[kind]
    table, inside = rng.standard_normal((int(rng.integers(2, 80)), assets)), rng.uniform(0.1, 1.5, assets)
    domain = ce.Polyhedron(0.0, 2.0, C=rows, c=rows @ inside)
    mixtures = [0.3 * ce.Mean() + 0.7 * ce.CVaR(0.1), 0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.1)]
    for utility in [ce.CVaR(0.1), ce.Mean(), ce.Entropic(1.0), ce.Quartic(), *mixtures]:
        found = ce.minimize(ce.LinearLoss(table), utility, domain=domain)
        assert found.status == "converged", (utility, found)
        assert found.gap <= 1e-9 * max(abs(found.value), 1e-2)


# -- bounds in exact arithmetic ---------------------------------------------------------------------------------------


def fractions(table):
    return [[Fraction(float(entry)) for entry in row] for row in np.atleast_2d(table)]


def eliminated(rows, right):
    """Return the solution of a square system of Fractions."""
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    size = len(table)
    for k in range(size):
        pivot = next(i for i in range(k, size) if table[i][k] != 0)
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [entry / table[k][k] for entry in table[k]]
        for i in range(size):
            if i != k and table[i][k] != 0:
                factor = table[i][k]
                table[i] = [a - factor * b for a, b in zip(table[i], table[k], strict=True)]
    return [row[-1] for row in table]


def exact_mean_variance(losses, support, beta):
    """Return the minimum of mean + beta variance over the simplex: solved on its support, then proved."""
    rows = fractions(losses)
    count, assets = len(rows), len(rows[0])
    mean = [sum(row[j] for row in rows) / count for j in range(assets)]
    cov = [
        [sum((row[i] - mean[i]) * (row[j] - mean[j]) for row in rows) / count for j in range(assets)]
        for i in range(assets)
    ]
    system = [[*(2 * beta * cov[i][j] for j in support), Fraction(-1)] for i in support]
    system.append([Fraction(1)] * len(support) + [Fraction(0)])
    *weights, price = eliminated(system, [-mean[i] for i in support] + [Fraction(1)])
    assert all(weight >= 0 for weight in weights)
    slopes = [
        mean[i] + 2 * beta * sum(cov[i][j] * w for j, w in zip(support, weights, strict=True)) for i in range(assets)
    ]
    assert all(slope >= price for slope in slopes)  # no asset left out would pay
    both = list(zip(support, weights, strict=True))
    return sum(mean[i] * w for i, w in both) + beta * sum(a * b * cov[i][j] for i, a in both for j, b in both)


@pytest.mark.parametrize("seed, offset", [(0, 0.0), (1, 1.0), (2, 1e6), (3, 1e6)])
def test_the_bound_of_a_quadratic_utility_holds_in_exact_arithmetic(seed, offset):
    rng = np.random.default_rng(seed)
    losses = offset + rng.standard_t(4, size=(60, 6)) * rng.uniform(0.5, 2.0, 6)
    found = solve_exact(losses, ce.MeanVariance(0.5), **simplex(losses))
    optimum = exact_mean_variance(losses, [int(j) for j in np.flatnonzero(found.theta)], Fraction(0.5))
    assert (found.status, found.iterations) == ("optimal", 1)  # solved at once
    assert Fraction(found.lower_bound) <= optimum
    assert abs(float(Fraction(found.value) - optimum)) <= found.gap
    assert found.gap <= 1e-9 * max(abs(found.value), 1e-2)
    ((value, gap, seconds, support),) = found.trace
    assert (value, gap, support) == (found.value, found.gap, 6)
    assert seconds >= 0.0


def exact_cvar(losses, theta, count):
    """Return the mean of the `count` largest losses."""
    x = sorted(sum(a * b for a, b in zip(row, theta, strict=True)) for row in fractions(losses))
    return sum(x[-count:]) / count


@pytest.mark.parametrize("offset", [0.0, 100.0, 1e6])
@pytest.mark.parametrize("count", [1, 4])
def test_the_bound_of_cvar_holds_in_exact_arithmetic(count, offset):
    """At the solution, and at points near it whose weights add up to 1 exactly."""
    losses = offset + np.random.default_rng(count).standard_t(3, size=(64, 5))
    found = solve_exact(losses, ce.CVaR(count / 64), **simplex(losses))
    assert found.status == "optimal"
    for other in np.vstack([np.zeros(5), 1e-9 * np.eye(5), 1e-15 * np.eye(5)]):
        theta = [Fraction(float(a)) for a in found.theta + other]
        total = sum(theta)
        value = exact_cvar(losses, [a / total for a in theta], count)
        assert Fraction(found.lower_bound) <= value
    assert abs(float(Fraction(found.value) - exact_cvar(losses, fractions(found.theta)[0], count))) <= found.gap
    assert found.gap <= 1e-12 * (1.0 + offset)


@pytest.mark.parametrize("utility", [ce.MeanVariance(1.0), ce.CVaR(0.5), ce.Mean(), ce.Entropic(1.0)], ids=repr)
@pytest.mark.parametrize("center", [[-3e8, 1e8], [1e4, -3e3], [0.0, 0.0]])
def test_the_gap_holds_at_a_center_far_away(utility, center):
    """Of one scenario every normalized OCE is the loss: the minimum is half of the largest coefficient below it."""
    A = np.array([[0.1, 0.3]])
    found = ce.minimize(ce.LinearLoss(A), utility, domain=ce.L1Ball(0.5, center=center))
    exact = lambda theta: sum(a * b for a, b in zip(fractions(A)[0], fractions(theta)[0], strict=True))
    least = exact(center) - Fraction(0.5) * max(fractions(A)[0])
    assert Fraction(found.value) - Fraction(found.gap) <= least
    assert exact(found.theta) <= Fraction(found.value) + Fraction(found.gap)
    if not any(center):
        assert found.status == "converged"
        assert found.gap <= 1e-13


@pytest.mark.parametrize(
    "theta, kept",
    [
        ([0.5, 0.5], True), ([0.5, 0.5 + 1e-15], True), ([0.5, 0.5 + 1e-8], False), ([0.0, 0.0], False),
        ([1.5, -0.5], False), ([0.9, 0.1], False), ([0.8 + 1e-15, 0.2], True),
    ],
)  # fmt: skip
def test_nothing_is_proved_of_a_point_that_breaks_a_row_or_a_bound(theta, kept):
    rows = {"C": np.ones((1, 2)), "c": np.ones(1), "G": np.array([[1.0, 0.0]]), "b": np.array([0.8])}
    q = SimpleNamespace(lower=np.zeros(2), upper=np.full(2, np.inf), **rows)
    assert is_feasible(q, np.array(theta)) is kept


# -- quadratic utilities and squares ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 401.0)], ids=["even", "weighted"])
def test_every_layout_of_a_table_gives_the_same_answer(weights):
    losses = np.random.default_rng(0).standard_normal((400, 7)).astype(np.float32)
    sparse = np.zeros((800, 14))
    sparse[::2, ::2] = losses
    tables = [losses, losses.astype(float), np.asfortranarray(losses, dtype=float), sparse[::2, ::2]]
    answers = [solve_exact(table, ce.MeanVariance(2.0), weights=weights, **simplex(losses)) for table in tables]
    for answer in answers:
        assert answer.relative_gap <= 1e-9
        assert answer.theta == pytest.approx(answers[0].theta, abs=1e-12)
        assert answer.value == pytest.approx(answers[0].value, abs=1e-13)


SQUARED = [
    ce.CVaR(0.1),
    ce.Entropic(2.0),
    ce.MeanVariance(1.0),
    0.5 * ce.Mean() + 0.5 * ce.CVaR(0.3),
    0.5 * ce.MeanVariance(0.5) + 0.5 * ce.CVaR(0.2),
]


@pytest.mark.parametrize("kind, free", [("diagonal", True), ("rows", False), ("rows", True)])
@pytest.mark.parametrize("utility", SQUARED, ids=repr)
def test_squares_agree_with_clarabel(utility, kind, free):
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(len(repr(utility)) + 7 * free)
    n, d = 120, 6
    A = rng.normal(size=(n, d)) * rng.uniform(0.5, 2.0, d) - 0.1
    F = rng.normal(size=(3, d)) if kind == "rows" else np.diag(np.sqrt(rng.uniform(0.0, 1.0, d)))
    G, b, linear = rng.normal(size=(2, d)), rng.uniform(0.0, 0.1, 2), np.arange(d) / 50.0
    scale = np.array([1e-4, 1e3])
    bounds = {} if free else {"lower": -0.5, "upper": 1.0}
    found = solve_exact(
        A, utility, quadratic=F if kind == "rows" else np.diag(F) ** 2, linear=linear, C=np.ones(d), c=1.0,
        G=G * scale[:, None], b=b * scale, **bounds,
    )  # fmt: skip
    v = cp.Variable(d)
    value, more = cone(utility, A @ v, np.full(n, 1.0 / n))
    limits = [cp.sum(v) == 1, G @ v <= b, *more] + ([] if free else [v >= -0.5, v <= 1.0])
    problem = cp.Problem(cp.Minimize(value + 0.5 * cp.sum_squares(F @ v) + linear @ v), limits)
    best = problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert found.status == "optimal"
    assert found.value == pytest.approx(best, abs=3e-7)
    assert found.lower_bound <= best + 3e-7
    assert found.gap == pytest.approx(found.value - found.lower_bound, abs=1e-15)
    assert np.all(G @ found.theta - b <= 1e-12)
    half = 0.5 * float(np.sum(np.square(F @ found.theta)))
    direct = float(ce.oce(A @ found.theta, utility)) + half + linear @ found.theta
    assert found.value == pytest.approx(direct, abs=1e-12)


def test_squares_bound_what_nothing_else_does():
    A = np.random.default_rng(0).normal(-1.0, 1.0, (50, 3))
    for squares in (None, [[0.0, 1.0, 0.0]]):  # a row of squares leaves the other directions as they are
        with pytest.raises(ce.UnboundedError):
            solve_exact(A, ce.CVaR(0.5), linear=[-3.0, 0.0, 0.0], quadratic=squares)
    found = solve_exact(A, ce.CVaR(0.5), linear=[-3.0, 0.0, 0.0], quadratic=np.full(3, 1e-4))
    assert found.status == "optimal"
    assert np.abs(found.theta).max() > 1e3


def test_many_assets_take_a_working_set():
    A = np.random.default_rng(1).normal(size=(400, 250)) - 0.05
    found = solve_exact(A, ce.CVaR(0.1), quadratic=np.full(250, 0.5), **simplex(A))
    plain = solve_exact(A, ce.CVaR(0.1), **simplex(A))
    assert found.status == "optimal"
    assert float(found.theta @ found.theta) < float(plain.theta @ plain.theta)
    assert found.value <= plain.value + 0.25 * float(plain.theta @ plain.theta) + 1e-12


def test_a_thin_set_is_reached():
    """The target return leaves a sliver: a point short of it, with a value below every feasible one, is no answer."""
    X = np.random.default_rng(0).normal(0.0005, 0.01, (500, 5))
    mean = X.mean(axis=0)
    for share in (0.5, 0.9, 0.999, 1.0 - 1e-7):
        target = mean.mean() + share * (mean.max() - mean.mean())
        for utility in (ce.CVaR(0.05), ce.LeakyCVaR(0.1).scaled(0.01), ce.Entropic(20.0)):
            found = solve_exact(-X, utility, quadratic=np.full(5, 2e-3), G=-mean, b=-target, **simplex(X))
            assert found.status == "optimal", (share, utility)
            assert mean @ found.theta >= target * (1.0 - 1e-13)


# -- risks with other inner variables ---------------------------------------------------------------------------------


@pytest.mark.parametrize("risk", [ce.EVaR(1e-3), ce.EVaR(0.02), ce.HMCR(3, 0.1), ce.MonotoneMeanVariance(2).ball(80.0)])
def test_risks_that_are_about_the_largest_loss(risk):
    """A radius beyond, or about, what the weights of a few scenarios reach: s is 0 at the minimum."""
    cp = pytest.importorskip("cvxpy")
    A = 1e-2 * np.random.default_rng(4).standard_t(4, size=(100, 8))
    found, theta = solve_exact(A, risk, **simplex(A)), cp.Variable(8, nonneg=True)
    value, rows = cone(risk, 100.0 * A @ theta, np.full(100, 0.01))
    least = 0.01 * cp.Problem(cp.Minimize(value), [*rows, cp.sum(theta) == 1]).solve(solver=cp.CLARABEL)
    assert found.status == "optimal"
    assert found.value == pytest.approx(least, abs=1e-8)
    assert found.value - (found.tilt @ A).min() <= 2e-9 * np.abs(A).max()
    assert found.lower_bound <= solve_exact(A, ce.CVaR(1e-3), **simplex(A)).value


def test_the_same_risk_twice_is_that_risk_and_inner_variables_are_returned():
    A = 1e-2 * np.random.default_rng(11).standard_t(4, size=(300, 6))
    for risk in (ce.CVaR(0.1), ce.Entropic(30.0), ce.EVaR(0.1)):
        one = solve_exact(A, risk, **simplex(A))
        two = solve_exact(A, ce.Mixture([0.5, 0.5], [risk, risk]), **simplex(A))
        assert abs(one.value - two.value) <= one.gap + two.gap
        assert len(two.inner) == 2 * len(one.inner)
    found = ce.minimize(ce.LinearLoss(A), ce.EVaR(0.1), domain=ce.Simplex())
    assert found.threshold == found.inner[0]
    mixed = ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.2), ce.CVaR(0.1), ce.CVaR(0.03)])
    assert ce.minimize(ce.LinearLoss(A), mixed, domain=ce.L1Ball(2.0)).threshold.shape == (3,)
    assert ce.minimize(ce.LinearLoss(A), ce.CVaR(0.1), domain=ce.Simplex()).inner is None


# -- the quadratic program of one step --------------------------------------------------------------------------------


@pytest.mark.parametrize("hinges", [0, 3])
@pytest.mark.parametrize("seed", range(15))
def test_the_problem_of_one_step_is_solved_to_its_multipliers(seed, hinges):
    """Bounded quadratic programs of random shape: feasible, and with multipliers that prove the point optimal."""
    rng = np.random.default_rng(seed)
    size, rows, sides = int(rng.integers(2, 40)), int(rng.integers(0, 3)), int(rng.integers(0, 3)) * (seed % 2)
    root = rng.standard_normal((size + 5, size))
    C = np.vstack([np.append(np.ones(size - 1), 0.0), np.append(rng.standard_normal(size - 1), 0.0)])[:rows]
    G = np.column_stack([rng.standard_normal((sides, size - 1)), np.zeros(sides)])
    problem = Subproblem(
        g=rng.standard_normal(size),
        H=root.T @ root / size,
        lower=np.append(np.zeros(size - 1), -np.inf),
        upper=np.append(np.where(rng.random(size - 1) < 0.5, 0.4, np.inf), np.inf),
        C=C, c=C @ np.full(size, 0.3), G=G, b=G @ np.full(size, 0.3) + 0.05,
        B=np.column_stack([rng.standard_normal((hinges, size - 1)), -np.ones(hinges)]),
        kink=np.zeros(hinges), cap=rng.random(hinges),
    )  # fmt: skip
    found = solve_subproblem(problem, np.full(size, 0.3), None)
    v, m, off = found.v, found.multipliers, problem.B @ found.v - problem.kink
    assert found.exact
    assert np.all((v >= problem.lower) & (v <= problem.upper))
    assert problem.C @ v == pytest.approx(problem.c, abs=1e-9)
    assert (problem.G @ v - problem.b).max(initial=0.0) <= 1e-9
    slope = problem.gradient(v) - m.y @ problem.C + m.z @ problem.G + m.p @ problem.B
    assert slope == pytest.approx(m.below - m.above, abs=1e-8)
    assert min(m.below.min(), m.above.min(), m.z.min(initial=0.0)) >= -1e-12
    assert np.abs(m.below * np.where(v > problem.lower, 1.0, 0.0)).max() <= 1e-8
    assert np.abs(m.above * np.where(v < problem.upper, 1.0, 0.0)).max() <= 1e-8
    assert np.all((m.p >= -1e-12) & (m.p <= problem.cap + 1e-12))
    assert np.all((off <= 1e-9) | (m.p >= problem.cap - 1e-9))
    assert np.all((off >= -1e-9) | (m.p <= 1e-9))
