"""Risks with more inner variables than t, against methods that share no code with the solver."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import certeq as ce
from certeq._table import ArrayTable
from certeq.risk import _compiled
from certeq.risk.solvers import solve_inner, solve_long_risk, solve_risk
from certeq.utilities.forms import Inner, Term, form
from tests.blocks import Counted, reads_of

PIECES = ce.utility(lambda x: np.maximum(np.maximum(0.0 * x, 1.5 * x - 0.1), np.maximum(5.0 * x - 3.0, 0.5 * x)))
SOFT = ce.utility(lambda x: np.logaddexp(0.0, x) + 0.5 * np.maximum(x, 0.0))
BALLS = [
    ce.EVaR(0.05),
    ce.EVaR(0.9),
    ce.Entropic(3.0).ball(0.01),
    ce.MonotoneMeanVariance(2).ball(0.3),
    ce.MonotoneMeanVariance(2).ball(0.01),
    ce.MonotoneMeanVariance(2.5).scaled(0.3).ball(2.0),
    ce.Quartic().ball(0.2),
    ce.HMCR(1.5, 0.1),
    ce.HMCR(2, 0.3),
    ce.HMCR(3, 0.4),
    ce.SmoothCVaR(0.2).ball(0.02),
    ce.SmoothCVaR(0.2).ball(0.5),
    ce.LeakyCVaR(0.2).ball(0.03),
    (0.5 * ce.Entropic() + 0.5 * ce.CVaR(0.2)).ball(0.2),
    PIECES.ball(0.1),
    SOFT.ball(0.05),
]
DISTORTIONS = [ce.Wang(0.5), ce.ProportionalHazard(2), ce.PowerDistortion(3), ce.Distortion(np.sqrt)]
NOT_MONOTONE = [ce.MeanVariance(0.5).ball(0.2)]
MIXTURES = [
    ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.1), ce.EVaR(0.3), ce.HMCR(2, 0.4)]),
    ce.Mixture([0.6, 0.4], [ce.Entropic(0.5), ce.Wang(0.4)]),
]
ALL = [*BALLS, *DISTORTIONS, *NOT_MONOTONE, *MIXTURES]
RNG = np.random.default_rng(5)
SAMPLES = {
    "normal": RNG.normal(size=60),
    "ties": np.round(RNG.standard_t(4, size=60)),
    "offset": RNG.normal(size=40) + 1e9,
    "tiny": 1e-200 * RNG.normal(size=30),
    "huge": 1e200 * RNG.normal(size=30),
    "two": np.array([0.0, 1.0]),
    "heavy": RNG.pareto(1.1, size=50),
}


def tolerance(x):
    return 1e-9 * float(np.ptp(x)) + 8.0 * np.spacing(np.abs(x).max())


def least(function, low, high, steps=110):
    """The minimum of a convex function, by golden sections."""
    ratio = (np.sqrt(np.longdouble(5)) - 1) / 2
    a, b = np.longdouble(low), np.longdouble(high)
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    fc, fd = function(c), function(d)
    for _ in range(steps):
        if fc < fd:
            b, d, fd = d, c, fc
            c = b - ratio * (b - a)
            fc = function(c)
        else:
            a, c, fc = c, d, fd
            d = a + ratio * (b - a)
            fd = function(d)
    return min(fc, fd)


def by_sections(x, w, risk):
    """min over s, and for each s over t, of the definition, in extended precision; units and offset taken out."""
    (term,) = risk.inner().terms
    cost = np.longdouble(risk.inner().cost[1])
    center, width = np.longdouble(x.max()), np.longdouble(np.ptp(x))
    y = (np.longdouble(1) * x - center) / width
    u, anchor = term.form.utility, term.form.utility.anchor

    def at(log_s):
        s = np.exp(log_s)

        def objective(t):
            with np.errstate(all="ignore"):  # far from the answer it overflows
                return t + cost * s + term.weight * (w * s * u._value((y - t) / s, xp)).sum()

        reach = s * (abs(anchor) + 2.0)
        return least(objective, -1 - reach - s * 40, reach)

    return float(center + width * least(at, math.log(1e-12), math.log(1e3), 75))


class xp:
    """What the utilities here ask of their backend, in extended precision."""

    relu = staticmethod(lambda x: np.maximum(x, 0))
    exp, expm1, log1p, abs, where = np.exp, np.expm1, np.log1p, np.abs, np.where
    zeros_like, ones_like, atan = np.zeros_like, np.ones_like, np.arctan
    softplus = staticmethod(lambda x: np.logaddexp(np.longdouble(0), x))
    log = np.log
    indicator = staticmethod(lambda c, x: c * np.ones_like(x))


def evar_by_mpmath(x, w, risk):
    """The minimum over s of s ln(E exp(x/s) / alpha), with fifty digits."""
    mpmath.mp.dps = 50
    top = mpmath.mpf(float(x.max()))
    pairs = [(mpmath.mpf(float(a)) - top, mpmath.mpf(float(b))) for a, b in zip(x, w, strict=True) if b > 0]
    width = -min(a for a, _ in pairs)

    def divergence(b):
        terms = [(q * mpmath.exp(b * a), a) for a, q in pairs]
        total = sum(e for e, _ in terms)
        return b * sum(e * a for e, a in terms) / total - mpmath.log(total)

    radius = -mpmath.log(mpmath.mpf(risk.alpha))
    low, high = mpmath.mpf(10) ** -9 / width, mpmath.mpf(10) ** 6 / width
    if divergence(high) < radius:
        return float(top)
    for _ in range(200):
        middle = mpmath.sqrt(low * high)
        low, high = (middle, high) if divergence(middle) < radius else (low, middle)
    return float(top + (radius + mpmath.log(sum(q * mpmath.exp(low * a) for a, q in pairs))) / low)


def chi_square_by_sorting(x, w, radius):
    """max E qx, E q = 1, E (q-1)**2 <= 2 r, q >= 0: for every number of losses that count, a closed form."""
    order = np.argsort(-x)
    y, v = np.longdouble(1) * x[order] - np.longdouble(x.max()), np.longdouble(1) * w[order]
    best = np.longdouble(0.0)
    candidates = [np.longdouble(0)]
    for k in range(1, len(y) + 1):
        mass, mean = v[:k].sum(), (v[:k] * y[:k]).sum() / v[:k].sum()
        variance = (v[:k] * (y[:k] - mean) ** 2).sum() / mass
        slack = (1 + 2 * np.longdouble(radius)) * mass - 1  # E q**2 <= 1 + 2 r, with mean 1/mass on these
        if variance == 0 or slack < 0:
            continue
        q = (1 + np.sqrt(slack / variance) * (y[:k] - mean)) / mass
        if (q >= -1e-15).all() and (k == len(y) or y[k] <= mean - 1 / np.sqrt(slack / variance) + 1e-12):
            candidates.append((v[:k] * q * y[:k]).sum())
    top = v[y == 0].sum()
    if (1 + 2 * radius) * top >= 1:
        return float(x.max())
    best = min(candidates[1:]) if len(candidates) > 1 else best
    return float(np.longdouble(x.max()) + max(candidates[1:])) if len(candidates) > 1 else float(x.max() + best)


def by_ranks(x, w, g):
    """Sorted losses times distorted weights, one by one."""
    order = np.argsort(-x, kind="stable")
    total, above = np.longdouble(0), 0.0
    before = float(g(np.array([0.0]))[0])
    masses = np.cumsum(w[order])
    for i, which in enumerate(order):
        above = 1.0 if i == len(x) - 1 else float(min(masses[i], 1.0))
        now = float(g(np.array([above]))[0])
        total += (np.longdouble(now) - before) * (np.longdouble(x[which]) - x.max())
        before = now
    return float(np.longdouble(x.max()) + total)


def weights_of(x, weighted):
    w = np.random.default_rng(len(x)).random(len(x)) + 0.05 if weighted else np.ones(len(x))
    return w / w.sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SAMPLES)
def test_evar_is_that_of_fifty_digits(name, weighted):
    x = SAMPLES[name]
    w = weights_of(x, weighted)
    for alpha in (0.5, 0.05, 1e-3):
        risk = ce.EVaR(alpha)
        found = ce.oce(x, risk, weights=w if weighted else None)
        assert abs(found - evar_by_mpmath(x, w, risk)) <= tolerance(x)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in ("tiny", "huge")])
def test_chi_square_and_second_moments_are_their_closed_forms(name, weighted):
    x = SAMPLES[name]
    w = weights_of(x, weighted)
    given = w if weighted else None
    for radius in (0.02, 0.4, 5.0, 60.0):
        truth = chi_square_by_sorting(x, w, radius)
        assert abs(ce.oce(x, ce.MonotoneMeanVariance(2).ball(radius), weights=given) - truth) <= tolerance(x)
        alpha = 1.0 / math.sqrt(1.0 + 2.0 * radius)
        assert abs(ce.oce(x, ce.HMCR(2, alpha), weights=given) - truth) <= tolerance(x)


@pytest.mark.parametrize("risk", BALLS, ids=repr)
def test_balls_are_the_minimum_over_both_variables(risk):
    for name in ("normal", "offset"):
        x = SAMPLES[name][:12]
        w = weights_of(x, name == "offset")
        found = solve_risk(x, w if name == "offset" else None, risk)
        truth = by_sections(x, w, risk)
        assert abs(found.value - truth) <= tolerance(x)


@pytest.mark.parametrize("risk", DISTORTIONS, ids=repr)
@pytest.mark.parametrize("name", SAMPLES)
def test_distortions_are_sorted_losses_times_weights(risk, name):
    x = SAMPLES[name]
    for weighted in (False, True):
        w = weights_of(x, weighted)
        found = ce.oce(x, risk, weights=w if weighted else None)
        assert abs(found - by_ranks(x, w, risk.distorted)) <= tolerance(x)


def test_mixtures_are_the_average_of_their_risks():
    for risk in MIXTURES:
        for x in SAMPLES.values():
            w = weights_of(x, True)
            parts = sum(c * ce.oce(x, part, weights=w) for c, part in zip(risk.weights, risk.risks, strict=True))
            assert abs(ce.oce(x, risk, weights=w) - parts) <= tolerance(x)


@pytest.mark.parametrize("risk", ALL, ids=repr)
@pytest.mark.parametrize("name", SAMPLES)
def test_the_tilt_sums_to_one_and_attains_the_value(risk, name):
    x = SAMPLES[name]
    homogeneous = not isinstance(risk, ce.Mixture) or risk.is_coherent
    if not homogeneous and name in ("tiny", "huge", "heavy"):
        return
    for weighted in (False, True):
        w = weights_of(x, weighted) if weighted else None
        q, value = ce.tilt(x, risk, weights=w), ce.oce(x, risk, weights=w)
        assert abs(q.sum() - 1.0) <= 1e-13 * max(1.0, np.abs(q).sum())
        if risk.is_monotone:
            assert q.min() >= -1e-15
        if homogeneous:
            top = x.max()
            assert abs(top + q @ (x - top) - value) <= tolerance(x)
            assert abs(ce.oce(7.0 * x - 3.0, risk, weights=w) - (7.0 * value - 3.0)) <= 8 * tolerance(7.0 * x - 3.0)
            shuffled = np.random.default_rng(0).permutation(len(x))
            again = ce.tilt(x[shuffled], risk, weights=None if w is None else w[shuffled])
            np.testing.assert_allclose(again, q[shuffled], atol=2e-7)
    q = ce.tilt(x, risk)
    for tie in np.unique(x):  # losses that tie have the same tilt
        assert np.ptp(q[x == tie]) <= 1e-15


@pytest.mark.parametrize("risk", ALL, ids=repr)
def test_one_loss_and_constants_are_their_own_risk(risk):
    for c in (0.0, -2.5, 1e9, 1e-300):
        zero = sum(
            w * part.oce_of_zero
            for w, part in zip(getattr(risk, "weights", ()), getattr(risk, "risks", ()), strict=True)
            if isinstance(part, ce.Utility)
        )
        for x in (np.array([c]), np.full(7, c)):
            assert abs(ce.oce(x, risk) - c - zero) <= 8.0 * np.spacing(abs(c))
            np.testing.assert_allclose(ce.tilt(x, risk), 1.0 / len(x), rtol=1e-14)


def test_a_large_radius_is_the_largest_loss_and_bounded_slopes_are_cvar():
    x = np.array([3.0, -1.0, 0.5, 3.0, 2.0])
    for risk in (ce.EVaR(0.1), ce.HMCR(2, 0.3), ce.HMCR(1.1, 0.1), ce.MonotoneMeanVariance(3).ball(50.0)):
        found = solve_risk(x, None, risk)
        assert found.value == 3.0
        assert found.inner[1] == 0.0
        np.testing.assert_array_equal(found.tilt, [0.5, 0.0, 0.0, 0.5, 0.0])
    for u in (ce.SmoothCVaR(0.3), ce.LeakyCVaR(0.3)):
        assert ce.oce(x, u.ball(100.0)) == pytest.approx(ce.oce(x, ce.CVaR(0.3)), rel=1e-15)
    assert ce.oce(x, ce.CVaR(0.3).ball(2.0)) == ce.oce(x, ce.CVaR(0.3))
    twenty = np.arange(20.0)  # alpha n = 1, and on either side of it
    assert ce.oce(twenty, ce.EVaR(0.05)) == pytest.approx(19.0, rel=1e-14)
    assert ce.oce(twenty, ce.EVaR(0.0499999)) == 19.0
    assert ce.oce(twenty, ce.EVaR(0.0501)) < 19.0


def test_formulas():
    x = np.random.default_rng(1).normal(size=200)
    assert ce.oce(x, ce.MeanVariance(0.7).ball(0.3)) == pytest.approx(x.mean() + math.sqrt(4 * 0.7 * 0.3 * x.var()))
    assert ce.oce(x, ce.MonotoneMeanVariance(2).ball(1e-3)) == pytest.approx(x.mean() + math.sqrt(2e-3 * x.var()))
    for radius in (1e-8, 1e-12, 1e-15):  # any smooth ball is mean and deviation
        for u in (ce.Entropic(), ce.MonotoneMeanVariance(2), ce.MonotoneMeanVariance(3)):
            near = x.mean() + math.sqrt(2.0 * radius * float(u.curvature(0.0)) * x.var())
            assert ce.oce(x, u.ball(radius)) == pytest.approx(near, abs=16.0 * radius + 1e-12)
    assert ce.oce(x, ce.Wang(0)) == pytest.approx(x.mean())
    assert ce.oce(x, ce.Distortion(lambda p: np.minimum(p / 0.05, 1.0))) == pytest.approx(ce.oce(x, ce.CVaR(0.05)))
    pairs = np.maximum(x[:, None], x[None, :]).mean()
    assert ce.oce(x, ce.PowerDistortion(2)) == pytest.approx(pairs)


COHERENT = [risk for risk in ALL if risk.is_coherent]
tables = st.integers(1, 9).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-50, 50), min_size=n, max_size=n)] * 2, st.just(n))
)


def test_which_are_coherent():
    """All but balls that are not monotone, and mixtures with a utility, which is not homogeneous."""
    assert [risk for risk in ALL if not risk.is_coherent] == [*NOT_MONOTONE, MIXTURES[1]]


@pytest.mark.parametrize("risk", COHERENT, ids=repr)
@settings(max_examples=15, deadline=None)
@given(tables, st.floats(0.01, 100.0), st.booleans(), st.sampled_from([0.0, 1e9]))
def test_coherence(risk, table, scale, weighted, offset):
    """Whole numbers tie often, and nine losses are fewer than 1/alpha."""
    x, y = 0.1 * np.array(table[0]), 0.1 * np.array(table[1])
    w = 1.0 + np.arange(table[2]) if weighted else None
    rho = lambda z: ce.oce(z, risk, weights=w)
    off = 1e-9 * (np.ptp(x) + np.ptp(y)) + 1e-12
    assert rho(x + y) <= rho(x) + rho(y) + off
    assert rho(np.maximum(x, y)) >= max(rho(x), rho(y)) - off
    assert rho(0.3 * x + 0.7 * y) <= 0.3 * rho(x) + 0.7 * rho(y) + off
    assert rho(scale * x) == pytest.approx(scale * rho(x), rel=1e-9, abs=1e-12)
    assert abs(rho(x + offset + 3.0) - (rho(x) + offset + 3.0)) <= off + 8.0 * np.spacing(offset)
    assert np.average(x, weights=w) - off <= rho(x) <= x.max() + off


def test_mean_variance_balls_are_not_monotone():
    risk = ce.MeanVariance(0.5).ball(2.0)
    assert ce.oce([0.0, -10.0], risk) > ce.oce([0.0, 0.0], risk)


@pytest.mark.parametrize("risk", [risk for risk in BALLS if len(risk.inner().cost) == 2], ids=repr)
def test_a_guess_and_a_bound_on_the_scale(risk):
    x = SAMPLES["normal"]
    inner, free = risk.inner(), solve_risk(x, None, risk)
    for factor in (0.999, 1.3, 50.0):
        again = solve_inner(x, None, inner, guess=factor * free.inner)
        assert again.value == pytest.approx(free.value, rel=1e-12)
        np.testing.assert_allclose(again.inner, free.inner, rtol=1e-6, atol=1e-9)
    low = 2.0 * free.inner[1] + 0.5
    held = solve_inner(x, None, type(inner)(inner.cost, np.array([-np.inf, low]), inner.high, inner.terms))
    assert held.inner[1] == low
    (term,) = inner.terms

    def objective(t):
        return t + inner.cost[1] * low + term.weight * low * np.mean(term.form.utility.value((x - t) / low))

    assert held.value == pytest.approx(objective(held.inner[0]), rel=1e-12)
    assert held.value <= min(objective(held.inner[0] + away) for away in (-1e-3, 1e-3)) + 1e-14


@pytest.mark.parametrize("risk", [*BALLS, MIXTURES[0]], ids=repr)
def test_rows_frames_axes_and_weights(risk):
    x = np.random.default_rng(2).normal(size=(3, 4, 20))
    whole = ce.oce(x, risk, axis=-1)
    assert whole.shape == (3, 4)
    assert whole[1, 2] == pytest.approx(ce.oce(x[1, 2], risk), rel=1e-14)
    assert ce.oce(x, risk) == pytest.approx(ce.oce(x.reshape(-1), risk), rel=1e-14)
    tilts = ce.tilt(x, risk, axis=(0, 2))
    np.testing.assert_allclose(tilts.sum(axis=(0, 2)), 1.0)
    counts = np.random.default_rng(3).integers(0, 3, size=20)
    repeated = np.repeat(x[0, 0], counts)
    assert ce.oce(x[0, 0], risk, weights=counts) == pytest.approx(ce.oce(repeated, risk), rel=1e-12)
    thresholds = ce.threshold(x, risk, axis=-1)
    parts = (3,) if isinstance(risk, ce.Mixture) else ()
    assert thresholds.shape == (3, 4, *parts)
    np.testing.assert_allclose(thresholds[0, 1], ce.threshold(x[0, 1], risk))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x[0].T, columns=list("abcd"))
    by_column = ce.oce(frame, risk)
    assert list(by_column.index) == list("abcd")
    np.testing.assert_allclose(by_column, ce.oce(x[0], risk, axis=1))
    assert ce.threshold(frame, risk).shape == (4, *parts)


@pytest.mark.parametrize("risk", [ce.EVaR(0.05), ce.EVaR(0.9), *BALLS[3:6], BALLS[8], MIXTURES[0]], ids=repr)
def test_one_vector_of_weights_for_many_rows(risk):
    x, w = RNG.normal(size=(3, 4, 33)), RNG.random(33)
    for axis, table in ((-1, x), (0, np.moveaxis(x, -1, 0))):
        found, tilts = ce.oce(table, risk, weights=w, axis=axis), ce.tilt(table, risk, weights=w, axis=axis)
        wanted = [[ce.oce(row, risk, weights=w) for row in rows] for rows in x]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        np.testing.assert_allclose(np.moveaxis(tilts, axis, -1)[1, 2], ce.tilt(x[1, 2], risk, weights=w), atol=1e-12)


def test_refusals():
    x = np.arange(5.0)
    with pytest.raises(TypeError, match="no finite number of inner variables"):
        ce.threshold(x, ce.Wang(0.3))
    with pytest.raises(ValueError, match='method must be "auto"'):
        ce.oce(x, ce.EVaR(0.1), method="bisect")
    for bad in (np.nan, np.inf, -np.inf):
        for risk in (ce.EVaR(0.1), ce.Wang(0.2)):
            with pytest.raises(ValueError, match="index 3"):
                ce.oce(np.array([0.0, 1.0, 2.0, bad]), risk)
            with pytest.raises(ValueError, match="index 70000"):
                ce.oce(np.where(np.arange(80000) == 70000, bad, 1.0), risk)
    with pytest.raises(OverflowError, match="beyond float64"):
        ce.oce(np.array([-1.7e308, 1.7e308]), ce.EVaR(0.9))


@pytest.mark.parametrize("offset", [0.0, 1e9])
@pytest.mark.parametrize(
    "risk", [ce.EVaR(0.05), ce.EVaR(1e-6), *BALLS[3:5], ce.HMCR(3, 0.05), BALLS[11], MIXTURES[0]], ids=repr
)
def test_long_samples_have_the_risk_of_the_vector(risk, offset):
    x = np.random.default_rng(4).standard_t(6, size=80_000) + offset
    for weights in (None, np.random.default_rng(5).random(len(x))):
        vector = solve_risk(x, None if weights is None else weights / weights.sum(), risk)
        found = solve_long_risk(ArrayTable(x, weights), risk)
        assert abs(found.value - vector.value) <= 1e-13 * np.ptp(x) + 2 * np.spacing(offset)
        digits = 1e-6 if offset else 1e-8  # of the scale, where losses have seven digits left
        np.testing.assert_allclose(found.inner, vector.inner, rtol=digits, atol=digits)
        q = ce.tilt(x, risk, weights=weights)
        assert abs(q.sum() - 1.0) <= 1e-12
        np.testing.assert_allclose(q, vector.tilt, atol=1e-8)


def test_evar_of_many_samples_takes_few_reads():
    rng = np.random.default_rng(6)
    for x in (rng.normal(size=400_000), rng.standard_t(5, size=400_000), rng.exponential(size=400_000)):
        assert solve_long_risk(ArrayTable(x, None), ce.EVaR(0.05)).passes <= 6


@pytest.mark.slow
def test_evar_of_ten_million_samples_takes_few_reads(tmp_path):
    """Of a file that is read in blocks; an answer of the vector in memory is the second method."""
    x = np.lib.format.open_memmap(tmp_path / "losses.npy", mode="w+", dtype=np.float64, shape=(10_000_000,))
    rng = np.random.default_rng(6)
    for draw in (rng.standard_normal, lambda n: rng.standard_t(5, size=n), rng.standard_exponential):
        x[:] = draw(len(x))
        for alpha in (0.05, 0.001):
            found, reads = reads_of(lambda alpha=alpha: solve_long_risk(Counted(x), ce.EVaR(alpha)))
            assert reads == found.passes <= 6
            wanted = solve_risk(np.asarray(x), None, ce.EVaR(alpha))
            assert abs(found.value - wanted.value) <= 1e-13 * np.ptp(x)


@pytest.mark.parametrize("risk", [ce.EVaR(0.1), ce.HMCR(2, 0.3), ce.HMCR(3, 0.4), BALLS[3]], ids=repr)
def test_short_samples_in_blocks_have_the_risk_of_the_vector(risk):
    # A draw of few losses may miss the largest or hold it twice: the search for the scale then begins far off.
    rng = np.random.default_rng(0)
    for k in range(120):
        x = rng.standard_t(3, size=int(rng.integers(5, 40))) * 10.0 ** rng.integers(-3, 3)
        if k % 3 == 0:  # largest losses that tie, or nearly do
            x[:3] = x.max() * (1.0 + rng.choice([0.0, 1e-15, 1e-12, 1e-6], 3))
        weights = rng.random(len(x)) if k % 2 else None
        vector = solve_risk(x, None if weights is None else weights / weights.sum(), risk)
        assert abs(solve_long_risk(ArrayTable(x, weights), risk).value - vector.value) <= 1e-12 * np.ptp(x)


def test_short_samples_in_blocks_whose_largest_losses_are_near_each_other():
    x = np.array([76.919, 76.868, 76.862, 76.363, 75.406, 57.518, 54.101, 45.921, 6.278, -1.408, -8.841, -8.954])
    x = np.append(x, [-10.379, -27.453, -30.138, -34.103, -131.029, -150.305, -219.687, -289.820])
    for k in range(20):  # the draw depends on the order
        shuffled = np.random.default_rng(k).permutation(x)
        found = solve_long_risk(ArrayTable(shuffled, None), ce.HMCR(2, 0.3))
        assert abs(found.value - ce.oce(x, ce.HMCR(2, 0.3))) <= 1e-12 * np.ptp(x)


def test_the_compiled_search_for_a_scale_takes_the_steps_of_the_other(monkeypatch):
    """EVaR and balls of Entropic: radii from 1e-9 to nearly the largest, weights, ties, one loss far above."""
    rng = np.random.default_rng(11)
    cases = []
    for k in range(150):
        x = rng.standard_t(3, size=int(rng.integers(2, 200))) * 10.0 ** rng.integers(-3, 4)
        if k % 3 == 0:
            x = np.round(x, 1)
        if k % 7 == 0:
            x[0] = 1e6
        weights = rng.dirichlet(np.ones(x.size)) if k % 2 else None
        risk = ce.EVaR(float(rng.uniform(0.001, 0.999))) if k % 4 else ce.Entropic(2.0).ball(10.0 ** rng.uniform(-9, 0))
        cases.append((x, weights, risk, solve_risk(x, weights, risk)))
    monkeypatch.setattr(_compiled, "_fused", None)
    for x, weights, risk, found in cases:
        other = solve_risk(x, weights, risk)
        assert found.value == pytest.approx(other.value, abs=1e-13 * np.ptp(x) + 4e-16 * np.abs(x).max())
        np.testing.assert_allclose(found.inner[1], other.inner[1], rtol=1e-5)
        np.testing.assert_allclose(found.tilt, other.tilt, atol=1e-6)


@pytest.mark.parametrize(
    "cost, low, terms, message",
    [
        ([1.0], [-np.inf], [(0.5, 0, None), (0.5, 0, None)], r"t = \[0, 0\]"),  # 4.5 for the losses 0, 1, 2, 5
        ([0.5, 0.5, 0.1], [-np.inf, -np.inf, 0.0], [(0.5, 0, 2), (0.5, 1, 2)], r"s = \[2, 2\]"),
        ([1.0, 0.1], [-np.inf, -np.inf], [(1.0, 0, 1)], "low must be"),
        ([1.0, 0.1], [-np.inf, 1.0], [(1.0, 0, 1)], "low must be 0"),
        ([1.0], [0.0], [(1.0, 0, None)], "low must be"),
        ([1.0], [-np.inf], [(0.5, 0, None)], "weight must be positive and equal to the cost of t, 1; found 0.5"),
    ],
)
def test_inner_variables_that_no_solver_takes_are_refused(cost, low, terms, message):
    class Own(ce.EVaR):
        def _make_inner(self):
            utilities = (ce.CVaR(0.5), ce.MeanVariance(1.0))
            made = [Term(weight, form(u), t, s) for (weight, t, s), u in zip(terms, utilities, strict=False)]
            return Inner(np.array(cost), np.array(low), np.full(len(cost), np.inf), tuple(made))

    with pytest.raises(ValueError, match=message):
        ce.oce([0.0, 1.0, 2.0, 5.0], Own(0.5))
