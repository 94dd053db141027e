"""Samples that would fool a careless solver: outliers, decades, ties, weights of 0, and the ends of float64."""

import numpy as np
import pytest

import certeq as ce
from tests.problems import HARD, UTILITIES, hostile_samples

NORMAL = np.random.default_rng(0).normal(size=50)
STEEP = [ce.Quartic(), ce.MonotoneMeanVariance(4), ce.MonotoneMeanVariance(10), 0.3 * ce.Mean() + 0.7 * ce.Quartic()]


def check_minimum(x, utility, digits=1e-12):
    """Check t* and OCE by the definition alone: no t nearby is better."""
    t, value = ce.threshold(x, utility), ce.oce(x, utility)
    scale = np.ptp(x) + 1e-9
    steps = scale * np.array([0.0, -1e-2, 1e-2, -1e-5, 1e-5, -1e-8, 1e-8])
    with np.errstate(over="ignore"):
        at = [s + np.mean(utility.value(x - s)) for s in t + steps]
    tolerance = digits * (scale + abs(value) + np.abs(x).max())
    assert value == pytest.approx(at[0], abs=tolerance)
    assert value <= min(at) + tolerance


@pytest.mark.parametrize("outlier", [-1e4, -1e6, -1e9])
@pytest.mark.parametrize("utility", STEEP, ids=repr)
def test_a_gain_far_below_the_bulk(utility, outlier):
    """The start is then far from the root, and the residual falls by orders of magnitude before it is small."""
    z = np.r_[NORMAL, outlier]
    t = ce.threshold(z, utility)
    assert np.mean(utility.slope(z - t)) == pytest.approx(1.0, abs=1e-9)
    assert ce.oce(z, utility) == pytest.approx(t + np.mean(utility.value(z - t)), rel=1e-12)
    milder = np.where(z == outlier, -50.0, z)
    assert ce.oce(z, utility) <= ce.oce(milder, utility) + 1e-12 * abs(outlier)
    heavy = -np.random.default_rng(1).lognormal(0, 3, 300)
    assert np.mean(utility.slope(heavy - ce.threshold(heavy, utility))) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("outlier", [1e9, 1e20, 1e50, 1e200, -1e50])
@pytest.mark.parametrize("utility", [ce.SmoothCVaR(0.2), ce.LeakyCVaR(0.2)], ids=repr)
def test_a_far_outlier_leaves_threshold_and_tilt_right(utility, outlier):
    """Slopes are bounded: a loss that is ever further away has the threshold and tilt of one at 1e9."""
    far = np.r_[np.random.default_rng(1).normal(size=999), outlier]
    near = np.r_[far[:-1], np.copysign(1e9, outlier)]
    for weights in (None, np.ones(1000)):
        np.testing.assert_allclose(
            ce.threshold(far, utility, weights), ce.threshold(near, utility, weights), rtol=1e-13
        )
        found, wanted = ce.tilt(far, utility, weights), ce.tilt(near, utility, weights)
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-18)
        assert found[-1] == pytest.approx((outlier > 0) * utility.slope_range[1] / 1000, rel=1e-6)


@pytest.mark.parametrize("n", [500, 100_000])
@pytest.mark.parametrize("name", ["entropic", "quartic", "mean_variance", "entropic_cvar", "cvar", "leaky"])
def test_a_huge_loss_without_weight_counts_for_nothing(name, n):
    utility, z, w = UTILITIES[name], np.random.default_rng(0).normal(size=n), np.ones(n)
    w[7] = 0.0
    expected = ce.oce(np.delete(z, 7), utility)
    z[7] = 1e200
    assert ce.oce(z, utility, w) == pytest.approx(expected, rel=1e-12)
    assert ce.estimate(z, utility, w).value == pytest.approx(expected, rel=1e-12)
    tilt = ce.tilt(z, utility, w)
    assert tilt[7] == 0.0
    assert tilt.sum() == pytest.approx(1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [1, 5, 1000, 70_000])
@pytest.mark.parametrize("scale", [1e-300, 1e100, 1e200])
def test_sizes_near_the_ends_of_float64_give_no_warning(n, scale):
    x = np.random.default_rng(n).standard_normal(n) * scale
    for name in ("entropic", "mmv3", "cvar", "leaky", "smooth"):
        utility = UTILITIES[name]
        assert x.min() - 1.0 <= ce.oce(x, utility.normalized()) <= x.max() + 1.0
        assert np.isfinite(ce.threshold(x, utility))
        assert ce.tilt(x, utility).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_errors_of_huge_losses():
    x = 1e200 * np.random.default_rng(0).standard_normal(100)  # squares are beyond float64
    found, unit = ce.estimate(x, ce.CVaR(0.05)), ce.estimate(x / 1e200, ce.CVaR(0.05))
    assert found.stderr / 1e200 == pytest.approx(unit.stderr, rel=1e-12)


@pytest.mark.parametrize("a", [2, 2.5, 3, 4, 7])
@pytest.mark.parametrize("n", [500, 70_000])
def test_losses_far_below_the_unit_of_a_power_keep_their_digits(a, n):
    """On losses of 1e-9 the value of a power is mean + (a-1)/2 variance to terms of 1e-27."""
    x = 1e-9 * np.random.default_rng(5).standard_normal(n)
    wanted = x.mean() + 0.5 * (a - 1) * x.var()
    for z, w in ((x, None), (np.r_[x, 5.0], np.r_[np.ones(n), 0.0])):
        assert ce.oce(z, ce.MonotoneMeanVariance(a), w) == pytest.approx(wanted, abs=1e-24)


def test_an_exponential_that_overflows_on_the_way():
    """Newton's step is 0 where the curvature is infinite; of a utility without closed form."""
    twin = UTILITIES["custom"]
    for x in (np.array([0.0, 1400.0]), np.array([-1e4, 0.0, 1410.0]), np.array([0.0, 1e5])):
        assert ce.oce(x, twin) == pytest.approx(ce.oce(x, ce.Entropic(0.5)), rel=1e-13)


def test_many_ties_on_a_kink():
    x = np.repeat(np.arange(3.0), 5000)
    u = ce.Entropic(1.0) + ce.CVaR(0.1)
    assert ce.threshold(x, u) == 2.0  # a third of the losses is more than the tail: the mean slope passes 1 at the top
    q = ce.tilt(x, u)
    assert q.sum() == pytest.approx(1.0, abs=1e-13)
    np.testing.assert_allclose(q[:5000], np.exp(-2.0) / 15_000, rtol=1e-12)
    assert np.ptp(q[-5000:]) <= 1e-18


def test_effective_size_at_ties():
    rng = np.random.default_rng(0)
    for z in ((rng.random(5000) < 0.2).astype(float), np.round(rng.normal(size=5000)), np.ones(100)):
        found = ce.estimate(z, ce.CVaR(0.05))
        assert found.ess == pytest.approx(1 / np.sum(found.tilt**2), rel=1e-9)


class Steps:
    """Slopes of a custom utility, and how often they are computed."""

    def __init__(self):
        self.count = 0

    def __call__(self, x):
        self.count += 1
        return np.exp(0.5 * x)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_few_evaluations_of_a_custom_utility(share, weighted):
    """Bisection alone takes a thousand on losses over many decades; the greatest loss bounds the threshold below."""
    slope = Steps()
    u = ce.utility(lambda x: np.expm1(0.5 * x) / 0.5, slope, lambda x: 0.5 * np.exp(0.5 * x))
    if share:
        u = share * ce.CVaR(0.05) + (1.0 - share) * u
    for name, z in hostile_samples(2000).items():
        slope.count = 0
        with np.errstate(all="ignore"):
            ce.oce(z, u, weights=np.ones(z.size) if weighted else None)
        assert slope.count <= 120, name


@pytest.mark.parametrize("name", HARD)
def test_value_and_threshold_are_the_minimum(name):
    for sample, x in hostile_samples(400).items():
        check_minimum(x, HARD[name])
        tilt = ce.tilt(x, HARD[name])
        assert tilt.sum() == pytest.approx(1.0, abs=1e-11 * max(1.0, np.abs(tilt).sum())), sample
