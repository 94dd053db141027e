"""The form of a utility: one location for every kink, sides decided by breakpoints, and answers that scaling keeps.

Random utilities are those of the referee (`tests.referee.specification`): nested sums of built-in and custom ones,
scaled and normalized in any order, each with an exact form of its own in fractions.
"""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import certeq as ce
from certeq.utilities.forms import form
from tests.blocks import short_samples_in_blocks
from tests.referee.reference import exact_minimum, reference
from tests.referee.specification import Draw, custom, exact, ld, weighted
from tests.referee.specification import cvar as cvar_of
from tests.referee.specification import leaky as leaky_of

# Random tails are often longer than half of the losses.
pytestmark = pytest.mark.filterwarnings("ignore:CVaR.alpha=.* is the mean of the worst")

DRAW = Draw(seed=7, customs=6, kinked=True)
SEEDS = st.integers(0, 10**6)


def drawn(seed):
    """A random nested utility, what the referee knows of it, and a generator to go on with."""
    rng = np.random.default_rng([seed, 11])
    spec = DRAW(rng)
    return DRAW.make(spec, {"ce": ce, "np": np}), spec, rng


def losses(rng, most=40):
    """Rounded losses: ties among them, and breakpoints that coincide."""
    return rng.normal(size=int(rng.integers(2, most))).round(1) * float(rng.choice([0.3, 1.0, 7.0]))


def size_of(x, spec):
    """What the roundings of a value are measured by."""
    found = reference(x[None, :], None, spec.form)
    return float(np.abs(x).max() + spec.form.width + np.abs(found.objective(spec.form, found.t))[0])


ONE = 0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.1)  # of the review: its kink is off 0 once it is normalized
TWO = ce.utility(lambda x: 0.2 * x + 0.7 * np.maximum(x + 0.7, 0) + 1.6 * np.maximum(x - 0.4, 0), name="two")
EXACT_TWO = custom("C", 0.2, [(-0.7, 0.7), (0.4, 1.6)], None, "u").form


# -- what nesting must not change ----------------------------------------------------------------------------------


@given(SEEDS, st.integers(-8, 8))
def test_scaling_by_a_power_of_two_keeps_ties_and_with_them_the_tilt(seed, power):
    u, spec, rng = drawn(seed)
    x, s = losses(rng), 2.0**power
    limit = 1e-12 * max(size_of(x, spec), s * size_of(x / s, spec))
    assert ce.oce(x, u.scaled(s)) == pytest.approx(s * ce.oce(x / s, u), rel=1e-12, abs=limit)
    assert ce.oce(x, u.scaled(3.0)) == pytest.approx(3.0 * ce.oce(x / 3.0, u), rel=1e-12, abs=100.0 * limit)
    assert ce.tilt(x, u.scaled(s)) == pytest.approx(ce.tilt(x / s, u), abs=1e-12)
    assert ce.threshold(x, u.scaled(s)) == pytest.approx(s * ce.threshold(x / s, u), abs=s * 1e-12 * size_of(x, spec))


@given(SEEDS)
def test_normalizing_shifts_the_risk_and_the_threshold(seed):
    u, spec, rng = drawn(seed)
    x = losses(rng)
    tolerance = 1e-12 * size_of(x, spec)
    assert ce.oce(x, u.normalized()) == pytest.approx(ce.oce(x, u) - u.oce_of_zero, abs=tolerance)
    assert ce.oce(np.full(3, 0.7), u.normalized()) == pytest.approx(0.7, abs=1e-15)
    if not spec.level:  # else the anchor, and with it the threshold, is a matter of rounding
        assert ce.threshold(x, u.normalized()) == pytest.approx(ce.threshold(x, u) + u.anchor, abs=10.0 * tolerance)


@given(SEEDS, st.floats(0.05, 0.95))
def test_a_sum_of_a_utility_with_itself_is_that_utility(seed, share):
    u, spec, rng = drawn(seed)
    x, twice = losses(rng), share * u + (1.0 - share) * u
    assert [kink.at for kink in form(twice).kinks] == [kink.at for kink in form(u).kinks]
    assert ce.oce(x, twice) == pytest.approx(ce.oce(x, u), rel=1e-12, abs=1e-12 * size_of(x, spec))
    assert ce.tilt(x, twice) == pytest.approx(ce.tilt(x, u), abs=1e-12)


@given(SEEDS, SEEDS, st.floats(0.1, 0.9))
def test_slopes_of_a_sum_are_the_sums_of_slopes(first, second, share):
    (u, _, rng), (v, _, _) = drawn(first), drawn(second)
    x = 3.0 * rng.normal(size=50)
    both = share * u + (1.0 - share) * v
    for side in ("slope", "right_slope", "curvature"):
        with np.errstate(over="ignore"):
            wanted = share * getattr(u, side)(x) + (1.0 - share) * getattr(v, side)(x)
            assert getattr(both, side)(x) == pytest.approx(wanted, rel=1e-12)


@given(SEEDS, st.sampled_from([0.0, 0.0, 1e6]))
def test_the_tilt_sums_to_1_and_lies_between_the_slopes(seed, offset):
    u, spec, rng = drawn(seed)
    x = losses(rng) + offset
    q = ce.tilt(x, u)
    assert abs(q.sum() - 1.0) <= 1e-12 * max(np.abs(q).sum(), 1.0)
    ref = reference(x[None, :], None, spec.form)
    y, t = ref.y[0], ref.t[0]
    near = 1e-11 * (np.abs(y - t) + abs(t) + spec.form.width) + 4.0 * np.spacing(np.abs(x).max())
    left, right = spec.form.slope(y - t - near), spec.form.slope(y - t + near, "right")
    tolerance = 1e-11 * np.abs(q).sum()
    assert np.all(q >= left / x.size - tolerance)
    assert np.all(q <= right / x.size + tolerance)


# -- kinks -----------------------------------------------------------------------------------------------------------


@given(SEEDS)
def test_slopes_at_every_kink(seed):
    u, spec, _ = drawn(seed)
    kinks = form(u).kinks
    assert u.kinks == tuple((kink.at, kink.jump) for kink in kinks)
    for kink in kinks:
        # To an ulp: NumPy's exponential of one number and of several need not have the same last bit.
        assert [float(u.slope(kink.at)), float(u.right_slope(kink.at))] == pytest.approx(
            [kink.left, kink.right], rel=4e-16, abs=0.0
        )
    # Where and how high: the referee's own, in fractions. What only its exact arithmetic tells apart is one kink here.
    tolerance = 1e-13 * spec.form.width
    points = [float(at) for at, _ in spec.form.hinges]
    groups = np.split(np.arange(len(points)), 1 + np.flatnonzero(np.diff(points) > tolerance)) if points else []
    # A jump below the rounding of the slope it is added to is no kink; beside a steep curve that is a large number.
    seen = {}
    for group in groups:
        hinges = [spec.form.hinges[i] for i in group]
        at, jump = float(hinges[0][0]), float(sum(jump for _, jump in hinges))
        with np.errstate(all="ignore"):
            slope = float(spec.form.slope(ld(hinges[0][0])))
        seen[at] = jump, slope, 16.0 * np.spacing(abs(slope) + jump)
    for kink in kinks:
        at = min(seen, key=lambda point: abs(point - kink.at))
        assert kink.at == pytest.approx(at, abs=tolerance)
        jump, slope, rounding = seen.pop(at)
        assert kink.jump == pytest.approx(jump, rel=1e-9, abs=rounding)
        assert kink.left == pytest.approx(slope, rel=1e-9, abs=1e-12)
    assert all(jump <= rounding or not np.isfinite(rounding) for jump, _, rounding in seen.values())


def test_kinks_that_only_rounding_tells_apart_are_one():
    twice = 0.5 * TWO.scaled(0.1).scaled(3.0) + 0.5 * TWO.scaled(0.3)  # 0.1 * 3 is not 0.3
    assert len(twice.kinks) == 2
    assert [jump for _, jump in twice.kinks] == pytest.approx([0.7, 1.6])
    x = np.array([-0.5, -0.2, 0.1, 0.1])
    assert ce.oce(x, twice) == pytest.approx(ce.oce(x, TWO.scaled(0.3)), abs=1e-15)
    apart = 0.5 * TWO.scaled(0.3) + 0.5 * TWO.scaled(0.3 * (1.0 + 1e-9))
    assert len(apart.kinks) == 4


def test_losses_that_meet_two_kinks_at_once_take_the_outer_slopes():
    """Beside 1e9 two kinks 1e-9 apart are one for everybody: y - at rounds to the same breakpoint."""
    close = 0.5 * TWO.scaled(1.0) + 0.5 * TWO.scaled(1.0 + 1e-9)
    y = np.array([1e9])
    t = float((y - close.kinks[0][0])[0])
    left, right = form(close).slopes(y, t)
    assert (left[0], right[0]) == pytest.approx((0.2, 0.9))


def test_a_breakpoint_is_a_tie_to_the_bit():
    rng, many = np.random.default_rng(0), stairs(20)  # many kinks are counted by bisection
    for seed in range(100):
        u = drawn(seed)[0] if seed % 4 else many
        y = rng.normal(size=20) * 10.0 ** rng.uniform(-3, 6)
        for kink in form(u).kinks:
            t = y - kink.at
            left, right = form(u).slopes(y, t)
            assert np.all(left <= kink.left)
            assert np.all(right >= kink.right)
            for at in (t, np.nextafter(t, -np.inf)) if u is many else ():
                passed = (y[:, None] - form(u).kink_locations > at[:, None]).sum(axis=1)
                np.testing.assert_array_equal(form(u).passed(y, at), passed)


def stairs(count):
    """As many kinks, evenly between -3 and 3, and slopes from exp(-2) to exp(2); found by bisection."""
    points, slopes = np.linspace(-3.0, 3.0, count), np.exp(np.linspace(-2.0, 2.0, count + 1))
    heights = np.append(slopes[0] * points[0], slopes[0] * points[0] + np.cumsum(slopes[1:-1] * np.diff(points)))

    def value(x):
        i = np.searchsorted(points, x)
        base = np.maximum(i - 1, 0)
        return heights[base] + slopes[i] * (x - points[base])

    return ce.utility(value, lambda x: slopes[np.searchsorted(points, x)], lambda x: 0.0 * x, kinks=tuple(points))


def test_two_thousand_kinks_in_little_memory():
    u, x = stairs(2000), np.random.default_rng(1).standard_normal(65_000)
    assert len(u.kinks) == 2000
    form(u)
    tracemalloc.start()
    found, estimate = ce.oce(x, u), ce.estimate(x, u)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6  # bytes; all breakpoints at once would be 1 GB
    t = ce.threshold(x, u)
    heights = [at + np.mean(u.value(x - at)) for at in t + np.array([0.0, -1.0, 1.0, -1e-2, 1e-2, -1e-5, 1e-5])]
    assert found == pytest.approx(heights[0], abs=1e-13)
    assert min(heights) >= found - 1e-13
    assert estimate.value == pytest.approx(found, rel=1e-13)
    assert estimate.stderr > 0.0


def test_a_utility_is_a_risk_measure_of_one_inner_variable():
    risk = ONE.normalized().scaled(0.3)
    inner = risk.inner()
    assert (inner.cost.tolist(), inner.low.tolist(), inner.high.tolist()) == ([1.0], [-np.inf], [np.inf])
    (term,) = inner.terms
    assert (term.weight, term.t, term.s) == (1.0, 0, None)
    assert term.form is form(risk)
    x = np.random.default_rng(0).normal(size=50)
    t = ce.threshold(x, risk)
    value = inner.cost[0] * t + term.weight * np.mean(term.form.utility.value(x - t))
    assert value == pytest.approx(ce.oce(x, risk), rel=1e-14)
    assert (risk.is_smooth, ce.LeakyCVaR(0.1).is_smooth) == (False, True)
    assert pickle.loads(pickle.dumps(inner)).terms[0].form.kinks == term.form.kinks


# -- parameters: changed, copied --------------------------------------------------------------------------------------


def test_the_form_follows_the_parameters():
    inner = 0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.1)
    u = inner.normalized().scaled(0.3)
    kept = form(u)
    assert form(u) is kept
    u.set_params(scale=0.6)
    assert u.kinks[0] == pytest.approx((2.0 * kept.kinks[0].at, kept.kinks[0].jump))
    u.set_params(scale=0.3, utility__utility__term_1__alpha=0.2)
    fresh = (0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.2)).normalized().scaled(0.3)
    assert (u, u.kinks) == (fresh, fresh.kinks)
    before = form(u)
    u.utility.utility.terms[1].set_params(alpha=0.4)  # behind its back
    assert form(u) is not before
    assert u.kinks == (0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.4)).normalized().scaled(0.3).kinks


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda u: pickle.loads(pickle.dumps(u))])
def test_copies_and_pickles_leave_the_form_behind(again):
    u = ONE.normalized().scaled(0.16344793837667065)
    x = np.random.default_rng(0).normal(size=50).round(1)
    found, small = ce.oce(x, u), len(pickle.dumps(ONE.normalized().scaled(0.16344793837667065)))
    assert "_form" in u.__dict__
    other = again(u)
    assert "_form" not in other.__dict__
    assert len(pickle.dumps(u)) <= small + 64
    assert (other, other.kinks, ce.oce(x, other)) == (u, u.kinks, found)
    kinks = other.kinks
    u.set_params(scale=2.0)  # the copy does not follow
    assert other.kinks == kinks != u.kinks


# -- one loss far from the others -------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e9, 1e16, -1e9])
@pytest.mark.parametrize("s", [1.0, 0.43])
def test_an_outlier_keeps_threshold_and_tilt_of_linear_pieces(far, s):
    x = np.append(np.random.default_rng(3).normal(size=40).round(2), far)
    u, truth = TWO.scaled(s), EXACT_TWO.scaled(exact(s))
    points = sorted({exact(float(a)) - at for a in x for at, _ in truth.hinges})

    def slope(t, side):
        def of(a):
            return truth.line + sum(j for at, j in truth.hinges if a - t > at or (side == "right" and a - t == at))

        return sum(of(exact(float(a))) for a in x) / len(x)

    wanted = next(t for t in points if slope(t, "left") <= 1)
    t = ce.threshold(x, u)
    assert t == pytest.approx(float(wanted), abs=1e-13)
    value = exact_minimum(x, None, truth)
    assert ce.oce(x, u) == pytest.approx(float(value), rel=1e-14)
    left, right = slope(wanted, "left"), slope(wanted, "right")
    share = (1 - left) / (right - left)
    assert 0 <= share <= 1

    def weight(a):
        d = exact(float(a)) - wanted
        below = truth.line + sum(j for at, j in truth.hinges if d > at)
        return below + share * sum(j for at, j in truth.hinges if d == at)

    # The kinks of the package are rounded once, so that its ties are those of fractions rounded to floats.
    near = Fraction(1, 10**12)
    tied = [any(abs(exact(float(a)) - wanted - at) < near for at, _ in truth.hinges) for a in x]
    q, q_true = ce.tilt(x, u), np.array([float(weight(a)) for a in x]) / len(x)
    apart = ~np.array(tied)
    assert q[apart] == pytest.approx(q_true[apart], abs=1e-13)
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    assert q.max() <= float(sum(j for _, j in truth.hinges) + truth.line) / len(x) * (1.0 + 1e-12)


def test_far_losses_in_rows_and_in_blocks():
    """65,000 losses are solved as a row and 66,000 in blocks: the same way of counting, the same answer."""
    x, w = np.random.default_rng(5).lognormal(0.0, 3.0, 65_000), np.ones(65_000)
    u = 0.5 * ce.CVaR(0.05) + 0.5 * ce.Entropic(1.0)
    with short_samples_in_blocks():
        value, t = ce.oce(x, u, w), ce.threshold(x, u, w)
    assert ce.oce(x, u) == pytest.approx(value, rel=1e-13)
    assert ce.threshold(x, u) == pytest.approx(t, rel=1e-12)


# -- answers that were wrong ----------------------------------------------------------------------------------------


def test_a_scaled_kink_off_0():
    """Once 0.5198, and -0.15288: the left slope at a scaled kink was the right one."""
    x = np.array([-0.5, -0.2])
    assert ce.oce(x, TWO.scaled(1.58)) == pytest.approx(0.3760, abs=5e-5)
    assert ce.oce(x, TWO.scaled(1.58)) == pytest.approx(1.58 * ce.oce(x / 1.58, TWO), abs=1e-14)
    assert ce.oce(x, TWO.scaled(1.58)) == pytest.approx(
        float(exact_minimum(x, None, EXACT_TWO.scaled(exact(1.58)))), abs=1e-14
    )
    v = (0.5 * ce.LeakyCVaR(0.2) + 0.5 * ce.CVaR(0.5)).normalized().scaled(1.18)
    z = np.array([0.2, 0.0, -1.2, -0.3, -0.7, -1.3])
    assert ce.oce(z, v) == pytest.approx(-0.15377, abs=5e-6)
    truth = weighted([0.5, 0.5], [leaky_of(0.2), cvar_of(0.5)]).normalized().scaled(1.18).form
    found = reference(z[None, :], None, truth)
    assert ce.oce(z, v) == pytest.approx(float(found.center[0] + found.value[0]), abs=1e-14)


def test_nested_scaling_of_a_sum():
    """Once 0.78145."""
    s = 0.16344793837667065
    x = np.array([-0.21, -0.03, 0.09, 0.06, 0.15, -0.54, 0.84, 0.03, -0.6, -0.06, 0, -0.36])
    u = ONE.normalized().scaled(s)
    assert ce.oce(x, u) == pytest.approx(0.67869, abs=5e-6)
    assert ce.oce(x, u) == pytest.approx(s * ce.oce(x / s, ONE.normalized()), abs=1e-14)
    assert float(u.right_slope(u.kinks[0][0])) == pytest.approx(10.0, rel=1e-14)  # once 15, the jump counted twice
    torch = pytest.importorskip("torch")
    from certeq.torch import oce

    assert oce(torch.tensor(x), u).item() == pytest.approx(ce.oce(x, u), abs=1e-14)
