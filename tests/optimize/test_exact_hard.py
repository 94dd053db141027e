"""Hard cases of the exact solver: degenerate tables, sets without an inside, extreme units, errors with a cause."""

from __future__ import annotations

import time

import numpy as np
import pytest

import certeq.utilities as ce
from certeq.optimize import Box, Free, L1Ball, LinearLoss, LongShort, NonNegative, Simplex, minimize
from certeq.optimize.domains import InfeasibleError, UnboundedError
from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact import solve_exact
from certeq.optimize.exact._certificate import is_feasible
from certeq.risk import oce, threshold
from tests.optimize.test_exact import NAMES, UTILITIES, check, panel, simplex


@pytest.fixture(scope="module")
def losses():
    return panel(700, 20, seed=7)


def budget(assets, **more):
    return {"lower": 0.0, "C": np.ones(assets), "c": 1.0} | more


TABLES = {
    "equal assets": lambda a: np.hstack([a, a[:, :10]]),
    "a constant asset": lambda a: np.hstack([a, np.full((len(a), 1), 0.001)]),
    "a good constant asset": lambda a: np.hstack([a, np.full((len(a), 1), -0.001)]),
    "an asset that dominates": lambda a: np.hstack([a, a.min(axis=1, keepdims=True) - 0.01]),
    "more assets than scenarios": lambda a: panel(30, 90, seed=8),
    "many more assets": lambda a: panel(60, 400, seed=9),
    "units of 1e-4": lambda a: 1e-4 * a,
    "a large offset": lambda a: a + 1.0,
    "one scenario": lambda a: a[:1],
    "three scenarios": lambda a: a[:3],
    "one asset": lambda a: a[:, :1],
    "single precision": lambda a: a.astype(np.float32),
    "repeated scenarios": lambda a: np.vstack([a[:50]] * 6),
    "all equal": lambda a: np.full((50, 4), 0.25),
    "zeros": lambda a: np.zeros((50, 4)),
}


@pytest.mark.parametrize("utility", UTILITIES, ids=NAMES)
@pytest.mark.parametrize("table", TABLES)
def test_tables(losses, table, utility):
    x = TABLES[table](losses)
    check(solve_exact(x, utility, **simplex(x)), x, utility)


SETS = {
    "a single point": budget(20, lower=np.full(20, 0.05), upper=np.full(20, 0.05)),
    "a point forced by the budget": budget(20, upper=0.05),
    "some fixed": budget(
        20, lower=np.r_[np.full(3, 0.05), np.zeros(17)], upper=np.r_[np.full(3, 0.05), np.full(17, 0.2)]
    ),
    "repeated equalities": budget(20) | {"C": np.vstack([np.ones(20), 2 * np.ones(20)]), "c": [1.0, 2.0]},
    "an equality as two rows": budget(20, G=np.vstack([np.eye(20)[0], -np.eye(20)[0]]), b=[0.2, -0.2]),
    "capped": budget(20, upper=0.06),
    "long-short": budget(20, lower=-0.2, upper=0.3),
    "only a budget": {"C": np.ones(20), "c": 1.0},
    "a box around 0": {"lower": -1.0, "upper": 1.0},
    "a large budget": budget(20) | {"c": 100.0},
    "a small budget": budget(20) | {"c": 1e-6},
    "groups": budget(
        20, G=np.vstack([np.r_[np.ones(5), np.zeros(15)], -np.r_[np.zeros(12), np.ones(8)]]), b=[0.1, -0.6]
    ),
    "a redundant row": budget(20, G=np.vstack([np.ones(20), np.zeros(20)]), b=[5.0, 0.0]),
    "a row without limit": budget(20, G=np.ones((1, 20)), b=[np.inf]),
}


@pytest.mark.parametrize("utility", UTILITIES, ids=NAMES)
@pytest.mark.parametrize("name", SETS)
def test_sets(losses, name, utility):
    rows = SETS[name]
    if name == "only a budget" and utility.slope_range == (1.0, 1.0):
        with pytest.raises(UnboundedError, match="asset"):
            solve_exact(losses, utility, **rows)
        return
    result = solve_exact(losses, utility, **rows)
    check(result, losses, utility)
    theta = result.theta
    assert np.all(theta >= np.asarray(rows.get("lower", -np.inf)))
    assert np.all(theta <= np.asarray(rows.get("upper", np.inf)))
    size = max(1.0, float(np.abs(theta).sum()))
    if "C" in rows:
        assert np.abs(np.atleast_2d(rows["C"]) @ theta - rows["c"]).max() <= 1e-15 * size
    if "G" in rows:
        assert (np.atleast_2d(rows["G"]) @ theta - rows["b"]).max() <= 1e-15 * size


@pytest.mark.parametrize("utility", UTILITIES[:9], ids=NAMES[:9])
def test_large_units(losses, utility):
    x = 1e4 * losses
    check(solve_exact(x, utility, **simplex(x)), x, utility)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
@pytest.mark.parametrize("utility", UTILITIES, ids=NAMES)
def test_units_do_not_matter_when_the_utility_follows(losses, utility, scale):
    here = solve_exact(losses, utility, **simplex(losses))
    there = solve_exact(scale * losses, utility.scaled(scale), **simplex(losses))
    assert there.value == pytest.approx(scale * here.value, rel=1e-9, abs=1e-12 * scale)
    assert there.relative_gap <= 1e-9


def test_ties_carry_the_duals_own_shares():
    # Two scenarios tie at the optimum with unequal duals: equal shares would leave a gap.
    x = np.array([[1.0, 0.0], [0.0, 3.0], [-5.0, -5.0], [-5.0, -5.0]])
    result = solve_exact(x, ce.CVaR(0.25), **simplex(x))
    assert result.theta == pytest.approx([0.75, 0.25])
    assert result.tilt == pytest.approx([0.75, 0.25, 0.0, 0.0])
    assert result.gap < 1e-13


def test_infeasible_names_the_constraint(losses):
    one = np.ones(20)
    halves = np.vstack([np.r_[np.ones(10), np.zeros(10)], np.r_[np.zeros(10), np.ones(10)]])
    cycle = np.zeros((3, 20))
    cycle[0, :2], cycle[1, 1:3], cycle[2, [2, 0]] = [1, -1], [1, -1], [1, -1]
    cases = [
        ({"upper": 0.04}, r"sum of upper bounds 0.8 < budget 1"),
        ({"lower": 0.1}, r"sum of lower bounds 2 > budget 1"),
        ({"lower": 0.3, "upper": 0.2}, r"lower\[0\] = 0.3 is above upper\[0\] = 0.2"),
        ({"G": halves, "b": [0.3, 0.3]}, r"C\[0\], G\[0\], G\[1\] cannot hold together"),
        ({"G": -halves, "b": [-2.0, 0.0]}, r"G\[0\]"),
        ({"C": np.vstack([one, 2 * one]), "c": [1.0, 3.0]}, r"C\[1\] is a combination of C\[0\]"),
        ({"C": np.vstack([one, 0 * one]), "c": [1.0, 3.0]}, r"C\[1\] is zero but must equal 3"),
        ({"G": np.zeros((1, 20)), "b": [-1.0]}, r"G\[0\] is zero"),
        ({"upper": 1.0, "G": cycle, "b": [-0.1, -0.1, -0.1]}, r"G\["),
    ]
    for more, message in cases:
        with pytest.raises(InfeasibleError, match=message):
            solve_exact(losses, ce.CVaR(0.05), **(budget(20) | more))


def test_unbounded_names_the_direction(losses):
    sure = np.hstack([losses, losses.min(axis=1, keepdims=True) - 0.01])
    twin = np.hstack([losses, losses[:, :1] - 0.01])
    cases = [
        (losses, ce.Mean(), {}),
        (losses, ce.Mean(), {"lower": 0.0}),
        (sure, ce.CVaR(0.05), {"C": np.ones(21), "c": 1.0}),
        (sure, ce.Entropic(50.0), {"C": np.ones(21), "c": 1.0}),
        (twin, ce.MeanVariance(25.0), {"C": np.ones(21), "c": 1.0}),
        (losses[:10], ce.CVaR(0.05), {"C": np.ones(20), "c": 1.0}),
        (losses, ce.Entropic(50.0), {"lower": 0.0, "linear": np.full(20, -0.1)}),
    ]
    for x, utility, rows in cases:
        with pytest.raises(UnboundedError, match=r"unbounded under .* of asset \d+") as caught:
            solve_exact(x, utility, **rows)
        # The direction is a real one: the objective falls along it.
        direction = caught.value.direction
        cost = rows.get("linear", np.zeros(x.shape[1])) @ direction
        slope = [
            solve_exact(x @ (s * direction)[:, None], utility, lower=1.0, upper=1.0).value + s * cost
            for s in (1e5, 1e6)
        ]
        assert slope[1] < slope[0]


def test_bad_input_is_refused(losses):
    rows = budget(20)
    broken = losses.copy()
    broken[3, 4] = np.nan
    cases = [
        (broken, ce.CVaR(0.05), rows, ValueError, "scenario 3, asset 4"),
        (losses + 0j, ce.CVaR(0.05), rows, TypeError, "real numbers"),
        (losses[0], ce.CVaR(0.05), {}, ValueError, "scenarios x assets"),
        (losses, ce.CVaR(0.05), rows | {"lower": np.zeros(3)}, ValueError, "lower"),
        (losses, ce.CVaR(0.05), rows | {"lower": np.inf}, ValueError, "lower"),
        (losses, ce.CVaR(0.05), rows | {"upper": np.nan}, ValueError, "upper"),
        (losses, ce.CVaR(0.05), {"C": np.ones(3), "c": 1.0}, ValueError, "20 columns"),
        (losses, ce.CVaR(0.05), {"C": np.ones(20)}, ValueError, "go together"),
        (losses, ce.CVaR(0.05), rows | {"weights": -np.ones(700)}, ValueError, "weights must not be negative"),
        (losses, ce.CVaR(0.05), rows | {"weights": np.ones(3)}, ValueError, "weights"),
        (losses, ce.CVaR(0.05), rows | {"linear": np.full(20, np.nan)}, ValueError, "linear"),
        (losses, ce.CVaR(0.05), rows | {"theta0": np.ones(3)}, ValueError, "theta0"),
        (losses, ce.CVaR(0.05), rows | {"tol": 0.0}, ValueError, "tol"),
        (losses, ce.CVaR(0.05), rows | {"max_iter": 0}, ValueError, "max_iter"),
        (losses, ce.CVaR(0.05), rows | {"time_limit": -1}, ValueError, "time_limit"),
        (losses, "cvar", rows, TypeError, "utility"),
        (losses, 0.2 * ce.Mean() + 0.3 * ce.Mean(), rows, ValueError, "slopes"),
    ]
    for x, utility, arguments, error, message in cases:
        with pytest.raises(error, match=message):
            solve_exact(x, utility, **arguments)


def test_weights_are_probabilities(losses):
    counts = np.random.default_rng(1).integers(0, 4, len(losses))
    repeated = np.repeat(losses, counts, axis=0)
    for utility in UTILITIES[:8]:
        one = solve_exact(losses, utility, weights=counts, **simplex(losses))
        other = solve_exact(repeated, utility, **simplex(losses))
        assert one.value == pytest.approx(other.value, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("utility", [*UTILITIES[:8], 0.5 * ce.Entropic(50.0) + 0.5 * ce.CVaR(0.05)], ids=repr)
def test_a_million_scenarios(utility):
    big = panel(1_000_000, 50, seed=3)
    began = time.perf_counter()
    result = solve_exact(big, utility, **simplex(big))
    check(result, big, utility)
    assert time.perf_counter() - began < 120.0  # seconds on an idle machine; generous for a busy one


@pytest.mark.parametrize("seed", range(20))
def test_pivoting_finds_what_the_interior_method_finds(seed):
    """Bounded quadratic programs of random shape: wherever pivoting settles, its point is the optimum."""
    from certeq.optimize.qp import Subproblem
    from certeq.optimize.qp._active_set import pivoted
    from certeq.optimize.qp._interior import InteriorMethod

    rng = np.random.default_rng(seed)
    size, rows = int(rng.integers(2, 40)), int(rng.integers(0, 3))
    root = rng.standard_normal((size + 5, size))
    C = np.vstack([np.ones(size), rng.standard_normal(size)])[:rows]
    none = np.zeros((0, size))
    problem = Subproblem(
        g=rng.standard_normal(size),
        H=root.T @ root / size,
        lower=np.append(np.zeros(size - 1), -np.inf),
        upper=np.append(np.where(rng.random(size - 1) < 0.5, 0.4, np.inf), np.inf),
        C=C,
        c=C @ np.full(size, 0.3),
        G=none,
        b=np.zeros(0),
        B=none,
        kink=np.zeros(0),
        cap=np.zeros(0),
    )
    method = InteriorMethod(problem, np.full(size, 0.3))
    interior = method.run(1e-11)
    found = pivoted(problem, None)
    assert found is not None
    # Feasible, and with multipliers that prove it optimal.
    prices = found.multipliers
    assert np.all(found.v >= problem.lower)
    assert np.all(found.v <= problem.upper)
    assert problem.C @ found.v == pytest.approx(problem.c, abs=1e-10)
    assert problem.gradient(found.v) - prices.y @ problem.C == pytest.approx(prices.below - prices.above, abs=1e-10)
    assert min(prices.below.min(), prices.above.min()) >= 0.0
    assert np.all((prices.below == 0.0) | (found.v == problem.lower))
    assert np.all((prices.above == 0.0) | (found.v == problem.upper))
    # The interior method ends where it was asked to; what its residuals leave depends on the order of sums, and bounds
    # its objective: f(v) - f* <= grad f(v) (v - v*) <= off.
    slope_gap, row_gap, _ = (np.abs(residual) for residual in method._residuals())
    assert interior.complementarity + max(slope_gap.max(), row_gap.max(initial=0.0)) <= 1e-11
    off = interior.complementarity + slope_gap @ np.abs(found.v - interior.v) + 1e-13
    off += row_gap @ (np.abs(interior.multipliers.y) + np.abs(prices.y))
    assert abs(problem.objective(found.v) - problem.objective(interior.v)) <= off
    # Its point is as near as the objective is curved: mu/2 |v - v*|^2 <= f(v) - f*.
    mu = float(np.linalg.eigvalsh(problem.H)[0])
    assert np.linalg.norm(found.v - interior.v) <= np.sqrt(2.0 * off / mu)


def test_pivoting_leaves_alone_what_it_is_not_made_for():
    """Too many variables, rows, hinges, or a curvature that is singular: None, and the interior method decides."""
    from dataclasses import replace

    from certeq.optimize.qp import Subproblem
    from certeq.optimize.qp._active_set import pivoted

    def problem(size: int) -> Subproblem:
        none = np.zeros((0, size))
        box = -np.ones(size), np.ones(size)
        return Subproblem(
            -np.ones(size), np.eye(size), *box, none, np.zeros(0), none, np.zeros(0), none, *np.zeros((2, 0))
        )

    assert pivoted(problem(3), None) is not None
    assert pivoted(problem(102), None) is None
    assert pivoted(replace(problem(3), H=None), None) is None
    assert pivoted(replace(problem(3), H=np.ones((3, 3))), None) is None
    assert pivoted(replace(problem(3), G=np.ones((1, 3)), b=np.ones(1)), None) is None
    assert pivoted(replace(problem(3), B=np.ones((1, 3)), kink=np.ones(1), cap=np.ones(1)), None) is None


@pytest.mark.parametrize(
    "utility", [ce.MeanVariance(1.0), ce.Entropic(1.0), ce.SmoothCVaR(0.1), ce.CVaR(0.1)], ids=repr
)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("twins", [False, True])
def test_an_inequality_that_the_budget_settles(utility, seed, twins):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(20, 30))
    if twins:
        A[:, 1] = A[:, 0]
    cap, budget = np.eye(30)[:1], np.ones((1, 30))
    found = solve_exact(A, utility, lower=0, upper=1, C=budget, c=[1.0], G=np.vstack([cap, -budget]), b=[0.25, -1.0])
    plain = solve_exact(A, utility, lower=0, upper=np.where(cap[0] > 0, 0.25, 1.0), C=budget, c=[1.0])
    assert found.status == "optimal"
    assert found.value == pytest.approx(plain.value, rel=1e-9, abs=1e-12)


def test_weights_whose_sum_is_no_number():
    A = np.random.default_rng(0).normal(size=(20, 5))
    found = solve_exact(A, ce.CVaR(0.1), lower=0, C=np.ones(5), c=1.0, weights=np.full(20, 1e308))
    plain = solve_exact(A, ce.CVaR(0.1), lower=0, C=np.ones(5), c=1.0)
    assert found.value == pytest.approx(plain.value, rel=1e-12)


@pytest.mark.parametrize("seed", [3, 17, 49])  # the last needs a second start
def test_more_assets_than_scenarios_with_uneven_weights(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(4, 24))
    weights = rng.random(4) ** 3 + 1e-3
    found = solve_exact(
        A, ce.LeakyCVaR(0.05), lower=0, C=np.ones(24), c=1.0, weights=weights
    )  # 49 needs a second start
    assert found.status == "optimal"
    assert found.relative_gap <= 1e-9


def test_a_curvature_of_low_rank_does_not_lead_out_of_the_set():
    """Two scenarios of two assets: the first solve of a nearly singular system is far off, and refinement moves it."""
    losses = np.array([[0.119, 0.081], [0.093, 0.101]])
    utility = ce.Quartic().scaled(0.43665598170727754).normalized()
    found = solve_exact(losses, utility, lower=0.0, C=np.ones(2), c=2.5)
    assert found.status == "optimal"
    assert found.theta == pytest.approx([0.0, 2.5], abs=1e-12)


OFFSET_UTILITIES = (
    ce.LeakyCVaR(0.1),
    ce.Quartic(),
    ce.Entropic(1.0),
    ce.SmoothCVaR(0.1),
    ce.MeanVariance(1.0),
    ce.CVaR(0.1),
    0.5 * ce.CVaR(0.1) + 0.5 * ce.Quartic(),
)


@pytest.mark.parametrize("utility", OFFSET_UTILITIES, ids=repr)
@pytest.mark.parametrize("scenarios", [1, 30])
def test_losses_far_from_zero_are_solved_like_losses_near_it(utility, scenarios):
    near = np.random.default_rng(0).integers(-(2**20), 2**20, size=(scenarios, 3)) / 2.0**19
    offset = 2.0**30  # no digit of the sum is lost
    there = solve_exact(offset + near, utility, **simplex(near))
    here = solve_exact(near, utility, **simplex(near))
    assert there.status == "optimal"
    assert there.gap < 1e-5  # 2**30 has an ulp of 2.4e-7
    assert abs(there.tilt.sum() - 1.0) < 1e-12
    assert oce(near @ there.theta, utility) <= here.value + 1e-5
    np.testing.assert_allclose(there.value, offset + here.value, rtol=1e-14)
    np.testing.assert_allclose(there.threshold - offset, threshold(near @ there.theta, utility), atol=1e-5)


def test_nothing_held_is_proved_where_losses_are_far_from_zero():
    A = 1e4 + 0.05 * np.random.default_rng(0).normal(size=(40, 5))
    found = solve_exact(A, ce.CVaR(0.1), lower=0)
    assert (found.status, found.value) == ("optimal", 0.0)
    assert found.gap < 1e-12


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("squares", [None, np.full(10, 1e-3)], ids=["plain", "squares"])
@pytest.mark.parametrize(
    "utility", [ce.CVaR(0.05), 0.5 * ce.CVaR(0.05) + 0.5 * ce.Entropic(10.0)], ids=["kink", "both"]
)
def test_weights_over_twenty_decades(utility, squares, seed):
    """As entropy pooling makes them: a few scenarios carry nearly all, and hundreds next to nothing."""
    rng = np.random.default_rng(seed)
    A, weights = 0.02 * rng.normal(size=(1000, 10)), rng.exponential(size=1000) ** 8
    found = solve_exact(A, utility, weights=weights, quadratic=squares, lower=0, C=np.ones(10), c=1.0)
    assert found.status == "optimal"
    # What the least weights add is below the tolerance, and without them the problem is an easy one.
    heavy = weights > 1e-13 * weights.sum()
    without = solve_exact(A[heavy], utility, weights=weights[heavy], quadratic=squares, lower=0, C=np.ones(10), c=1.0)
    assert found.value == pytest.approx(without.value, rel=1e-6)


@pytest.mark.parametrize("risk", [ce.EVaR(0.05), ce.HMCR(2, 0.1), ce.MonotoneMeanVariance(2).ball(0.5)], ids=repr)
def test_a_risk_with_a_scale_where_nothing_can_move(risk):
    losses = np.array([[1.0], [2.0], [0.0]])
    found = minimize(LinearLoss(losses), risk, domain=Simplex())
    assert found.converged
    assert found.value == pytest.approx(oce(losses[:, 0], risk), rel=1e-9)


def test_one_scenario_over_a_ball_whose_center_is_the_start():
    """The least value of a.theta is a.center - radius max |a|; the start holds nothing but rounding."""
    a, center = np.array([[0.1, -1.5, 0.0, 0.1]]), np.array([-0.1, 1.3, -1.1, -0.6])
    found = minimize(LinearLoss(a), ce.CVaR(0.1), domain=L1Ball(2.2, center))
    assert found.converged
    assert found.value == pytest.approx(float(a[0] @ center) - 2.2 * 1.5, rel=1e-9)


@pytest.mark.parametrize("utility", [ce.Entropic(), ce.LeakyCVaR(0.1)], ids=repr)
@pytest.mark.parametrize("rows", [5, 7, 20])
def test_equal_scenarios_long_and_short(utility, rows):
    found = minimize(LinearLoss(np.tile([0.3, -1.5, 0.7], (rows, 1))), utility, domain=LongShort(1.3, 0.3))
    assert found.converged
    assert found.value == pytest.approx(oce([-2.16], utility), abs=1e-9)


@pytest.mark.parametrize("upper", [1.0, 2.0])
def test_a_power_norm_whose_best_is_to_hold_nothing(upper):
    """Of equal losses the threshold of a term whose weight is not 1 is not the anchor of its utility."""
    losses = np.random.default_rng(0).exponential(size=(1000, 1)) ** 3
    found = minimize(LinearLoss(losses), ce.HMCR(2, 0.1), domain=Box(0.0, upper))
    assert found.converged
    assert found.theta.tolist() == [0.0]
    assert found.value == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("risk", [ce.CVaR(0.05), ce.EVaR(0.05)], ids=repr)
def test_an_edge_that_hardly_falls(risk):
    """Of 10 scenarios both risks are the largest loss: short, the least loss of size 1e-5 beside others of size 40."""
    losses = np.array([1.0625334367344473e-05, 6.2e-05, 9.9e-03, 0.13, 0.14, 0.7, 1.4, 5.5, 15.0, 41.3])[:, None]
    found = minimize(LinearLoss(losses), risk, domain=Box(-1.0, 1.0))
    assert found.converged
    assert found.theta.tolist() == [-1.0]
    assert found.value == pytest.approx(-losses[0, 0], abs=1e-11)


@pytest.mark.parametrize("risk", [ce.EVaR(0.05), ce.HMCR(2, 0.1), ce.MonotoneMeanVariance(2).ball(0.5)], ids=repr)
def test_holding_nothing_beside_losses_far_from_zero(risk):
    """The value is 0; what is left of the gap is the rounding of losses of size 1000."""
    losses = 1e3 + np.random.default_rng(150).normal(size=(100, 1))
    found = minimize(LinearLoss(losses), risk, domain=Box(0.0, 1.0))
    assert found.converged
    assert found.gap <= 1e-13 * 1e3


@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
@pytest.mark.parametrize("domain", [Free(), NonNegative()], ids=repr)
@pytest.mark.parametrize("utility", [ce.MonotoneMeanVariance(2), ce.Entropic(1.0), ce.SmoothCVaR(0.1)], ids=repr)
def test_columns_of_very_different_sizes_without_bounds(utility, domain):
    """The rounding of a proof within a distance of theta is that of each column times its own entry of theta."""
    sizes = np.array([10.0, 1e-3, 0.1])
    for seed in range(20):
        A = np.random.default_rng(seed).normal(size=(60, 3))
        found = minimize(LinearLoss(A * sizes), utility, domain=domain, method="exact")
        assert found.status == "converged", seed
        alike = minimize(LinearLoss(A), utility, domain=domain, method="exact")
        assert found.value == pytest.approx(alike.value, rel=1e-9, abs=1e-12)
        assert np.allclose(found.theta * sizes, alike.theta, rtol=1e-4, atol=1e-6)
        assert oce(A * sizes @ found.theta, utility) == pytest.approx(found.value, rel=1e-12, abs=1e-14)
        assert found.radius == alike.radius == np.inf or found.radius > 0.0


def test_multipliers_are_in_the_units_of_the_caller():
    rng = np.random.default_rng(3)
    sizes = np.array([100.0, 1e-3, 1.0, 0.1])
    A = rng.normal(0.1, 1.0, size=(80, 4))
    settings = {"lower": 0.0, "G": np.array([[1.0, 1.0, 0.0, 0.0]]), "b": [5.0], "linear": -0.05 * np.ones(4)}
    plain = solve_exact(A, ce.Entropic(1.0), **settings)
    rows = settings | {"G": settings["G"] * sizes, "linear": settings["linear"] * sizes}
    scaled = solve_exact(A * sizes, ce.Entropic(1.0), **rows)
    assert scaled.value == pytest.approx(plain.value, rel=1e-10, abs=1e-13)
    for side in ("lower", "upper"):
        assert np.allclose(scaled.multipliers[side] / sizes, plain.multipliers[side], rtol=1e-6, atol=1e-8)
    assert np.allclose(scaled.multipliers["G"], plain.multipliers["G"], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [1.0, 2.0**20, 2.0**30, 2.0**35, 2.0**50])
def test_a_variable_that_is_fixed_far_away(size):
    """It is no measure of the others: 2**35 beside weights of 1 was answered by weights of 0, off the budget."""
    A = np.random.default_rng(8).normal(0.0, 0.03, (100, 4))
    plain = solve_exact(A, ce.CVaR(0.1), lower=0.0, C=np.ones((1, 4)), c=[1.0])
    found = solve_exact(
        np.column_stack([A, np.full(100, -1e3 / size)]),
        ce.CVaR(0.1),
        lower=np.append(np.zeros(4), size),
        upper=np.append(np.full(4, np.inf), size),
        C=np.array([[1.0, 1.0, 1.0, 1.0, 0.0]]),
        c=[1.0],
    )
    assert found.theta[:4].sum() == pytest.approx(1.0, rel=1e-12)
    assert 0.0 <= found.value - (plain.value - 1e3) + 1e-12 <= found.gap + 1e-12
    if size <= 2.0**30:
        assert found.status == "optimal"
        assert np.allclose(found.theta[:4], plain.theta, atol=1e-7)


@pytest.mark.parametrize("theta, kept", [([0.5, 0.5], True), ([0.5, 0.5 + 1e-15], True), ([0.5, 0.5 + 1e-8], False),
                                         ([0.0, 0.0], False), ([1.5, -0.5], False), ([0.9, 0.1], False)])  # fmt: skip
def test_nothing_is_proved_of_a_point_that_breaks_a_row_or_a_bound(theta, kept):
    q = Constraints(
        np.zeros(2), np.full(2, np.inf), np.ones((1, 2)), np.ones(1), np.array([[1.0, 0.0]]), np.array([0.8])
    )
    assert is_feasible(q, np.array(theta)) is kept
