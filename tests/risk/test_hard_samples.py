"""Samples that once gave a wrong number, or would fool a careless solver."""

import tracemalloc

import numpy as np
import pytest

import certeq as ce
from certeq.risk._rows import find_root
from certeq.utilities.forms import Form

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("outlier", [-1e4, -1e6, -1e9])
@pytest.mark.parametrize(
    "utility",
    [ce.Quartic(), ce.MonotoneMeanVariance(4), ce.MonotoneMeanVariance(10), 0.3 * ce.Mean() + 0.7 * ce.Quartic()],
    ids=repr,
)
def test_a_gain_far_below_the_bulk(utility, outlier):
    """The start is then far from the root, and the residual falls by orders of magnitude before it is small."""
    z = np.r_[np.random.default_rng(0).normal(size=50), outlier]
    t = ce.threshold(z, utility)
    assert np.mean(utility.slope(z - t)) == pytest.approx(1.0, abs=1e-9)
    exact = ce.oce(z, utility, method="bisect", delta=1e-13, epsilon=1e-13)
    assert ce.oce(z, utility) == pytest.approx(exact, rel=1e-12)
    milder = np.where(z == outlier, -50.0, z)
    assert ce.oce(z, utility) <= ce.oce(milder, utility) + 1e-12 * abs(outlier)


def test_heavy_left_tails():
    for seed in range(5):
        z = -np.random.default_rng(seed).lognormal(0, 3, 300)
        utility = ce.MonotoneMeanVariance(10)
        t = ce.threshold(z, utility)
        assert np.mean(utility.slope(z - t)) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(
    "utility",
    [ce.Entropic(1.0), ce.Quartic(), ce.MeanVariance(1.0), 0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.1)],
    ids=repr,
)
def test_a_huge_loss_without_weight_counts_for_nothing(utility):
    z = RNG.normal(size=100_000)
    w = np.ones(z.size)
    w[7] = 0.0
    expected = ce.oce(np.delete(z, 7), utility)
    z[7] = 1e200
    assert ce.oce(z, utility, w) == pytest.approx(expected, rel=1e-12)
    assert ce.estimate(z, utility, w).value == pytest.approx(expected, rel=1e-12)
    tilt = ce.tilt(z, utility, w)
    assert tilt[7] == 0.0
    assert tilt.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "custom",
    [
        ce.utility(lambda x: np.where(x >= 0, x / 0.3, 0)),
        ce.utility(lambda x: np.maximum(x, 0) / 0.3, du=lambda x: (x >= 0) / 0.3),
        ce.utility(lambda x: (x >= 0) * x / 0.3),
    ],
)
def test_a_custom_utility_that_took_the_right_derivative(custom):
    for z in ([0, 1, 1, 2, 5.0, -3], [1.0, 2, 3, 4]):
        assert ce.oce(z, custom) == pytest.approx(ce.oce(z, ce.CVaR(0.3)), rel=1e-14)
        np.testing.assert_allclose(ce.tilt(z, custom), ce.tilt(z, ce.CVaR(0.3)), atol=1e-14)


def test_two_kinks_side_by_side_are_both_found():
    custom = ce.utility(lambda x: 0.5 * x + np.maximum(x - 1000, 0) + np.maximum(x - 1010, 0))
    assert custom.kinks == ((1000.0, 1.0), (1010.0, 1.0))


def test_derivatives_slightly_off_are_noticed():
    with pytest.raises(ValueError, match="du is not the derivative"):
        ce.utility(np.expm1, lambda x: np.exp(x) * (1 + 0.02 * x / (1 + x * x)))
    with pytest.raises(ValueError, match="d2u is not the derivative"):
        ce.utility(lambda x: 20 * 0.01 * np.logaddexp(0, x / 0.01), d2u=lambda x: 0 * x)
    with pytest.raises(ValueError, match="pass du="):
        ce.utility(lambda x: (x + np.sqrt(x**2)) / 2 / 0.3)


def test_effective_size_at_ties():
    for z in ((RNG.random(5000) < 0.2).astype(float), np.round(RNG.normal(size=5000)), np.ones(100)):
        found = ce.estimate(z, ce.CVaR(0.05))
        assert found.ess == pytest.approx(1 / np.sum(found.tilt**2), rel=1e-9)


def test_a_heavy_lower_tail_spoils_the_mean():
    assert ce.estimate(-np.abs(RNG.standard_cauchy(5000)), ce.Mean()).warnings
    assert not ce.estimate(RNG.exponential(size=5000), ce.Entropic(0.3)).warnings


def test_weight_zero_in_a_sum_and_weights_at_the_ends_of_the_floats():
    assert ce.oce([1, 2, 3.0], 0.0 * ce.Entropic(1.0) + 1.0 * ce.CVaR(0.3)) == ce.oce([1, 2, 3.0], ce.CVaR(0.3))
    for scale in (1e-300, 1e-170, 1e160, 1e308):
        assert ce.oce([1, 2, 3.0, 4], ce.CVaR(0.3), [scale] * 4) == ce.oce([1, 2, 3.0, 4], ce.CVaR(0.3))
        assert np.isfinite(ce.estimate(np.arange(50.0), ce.Entropic(0.1), [scale] * 50).stderr)


def test_hash_agrees_with_equality_and_a_failed_change_changes_nothing():
    assert hash(ce.Entropic(1)) == hash(ce.Entropic(1.0))
    assert hash(ce.CVaR(np.float64(0.1))) == hash(ce.CVaR(0.1))
    assert repr(ce.CVaR(np.float64(0.1))) == "CVaR(alpha=0.1)"
    scaled = ce.CVaR(0.05).scaled(2.0)
    with pytest.raises(ValueError, match="scale"):
        scaled.set_params(utility__alpha=0.2, scale=-1)
    assert scaled == ce.CVaR(0.05).scaled(2.0)


def test_a_sum_notices_that_its_term_changed():
    inner = ce.LeakyCVaR(0.2)
    mixed = 0.5 * ce.Entropic(1.0) + 0.5 * inner
    before = ce.oce([3.0], mixed)
    mixed.terms[1].set_params(alpha=0.6)
    assert ce.oce([3.0], mixed) == pytest.approx(3.0 + mixed.oce_of_zero)
    assert ce.oce([3.0], mixed) != before


def test_the_value_at_risk_is_a_loss_that_occurred():
    for seed in range(50):
        z = np.random.default_rng(seed).normal(size=37) * 10
        assert ce.threshold(z, ce.CVaR(0.13)) in z


def test_bisection_refuses_minus_infinity():
    with pytest.raises(ValueError, match="-inf"):
        ce.oce([1, -np.inf], ce.Entropic(1.0), method="bisect")
    for z in (np.r_[-np.inf, 1.0, 2.0], np.r_[-np.inf, np.ones(100_000)]):
        with pytest.raises(ValueError, match="-inf"):
            ce.oce(z, ce.CVaR(0.1))


def test_memory_of_everything_that_reads_a_file(tmp_path):
    path = tmp_path / "losses.npy"
    np.save(path, RNG.standard_normal(2_000_000).astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    calls = {
        "estimate": (lambda: ce.estimate(mapped, ce.CVaR(0.05)), 16e6),
        "ubsr": (lambda: ce.ubsr(mapped, np.exp, 1.0), 8e6),
        "bisect": (lambda: ce.oce(mapped, ce.Entropic(1.0), method="bisect"), 8e6),
        "tilt": (lambda: ce.tilt(mapped, ce.CVaR(0.05)), 16e6 + 12e6),  # the answer itself is 16 MB
    }
    for name, (call, limit) in calls.items():
        tracemalloc.start()
        call()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < limit, f"{name}: {peak / 1e6:.1f} MB"


def test_axis_of_the_wrong_type():
    with pytest.raises(TypeError, match="axis must be a whole number"):
        ce.oce([[1.0, 2.0]], ce.CVaR(0.1), axis=1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [1, 5, 1000, 70_000])
@pytest.mark.parametrize("scale", [1e-300, 1e100, 1e200])
def test_sizes_near_the_ends_of_float64_give_an_answer_or_a_reason_and_no_warning(n, scale):
    x = np.random.default_rng(n).standard_normal(n) * scale
    for utility in [
        ce.Entropic(1.0),
        ce.MonotoneMeanVariance(3),
        ce.CVaR(0.05),
        ce.LeakyCVaR(0.05),
        ce.SmoothCVaR(0.05),
    ]:
        assert x.min() - 1.0 <= ce.oce(x, utility.normalized()) <= x.max() + 1.0
        assert np.isfinite(ce.threshold(x, utility))
        assert ce.tilt(x, utility).sum() == pytest.approx(1.0, abs=1e-9)


def test_a_risk_beyond_float64_is_refused_with_the_remedy():
    x = 1e200 * np.random.default_rng(0).standard_normal(100)
    with pytest.raises(OverflowError, match=r"OCE under MeanVariance\(beta=0.5\) is beyond float64 .* larger unit"):
        ce.oce(x, ce.MeanVariance(0.5))
    found, unit = ce.estimate(x, ce.CVaR(0.05)), ce.estimate(x / 1e200, ce.CVaR(0.05))
    assert found.stderr / 1e200 == pytest.approx(unit.stderr, rel=1e-12)  # squares of 1e200 are beyond float64
    with pytest.raises(OverflowError, match="standard error under CVaR"):
        ce.estimate(5e107 * x, ce.CVaR(0.05))


@pytest.mark.parametrize(
    ("axis", "shape"), [(-1, (3, 4, 5)), (0, (3, 4, 5)), (1, (3, 4, 5)), (None, (3, 4, 5)), ((0, 2), (3, 4, 5))]
)
def test_nan_is_placed_by_the_callers_index(axis, shape):
    x = np.zeros(shape)
    x[2, 1, 3] = np.nan
    for ask in (lambda: ce.oce(x, ce.CVaR(0.1), axis=axis), lambda: ce.ubsr(x, np.exp, 1.0, axis=axis)):
        with pytest.raises(ValueError, match=r"NaN at index \(2, 1, 3\)"):
            ask()


@pytest.mark.parametrize("a", [2, 2.5, 3, 4, 7])
@pytest.mark.parametrize("n", [500, 70_000])
def test_losses_far_below_the_unit_of_a_power_keep_their_digits(a, n):
    """On losses of 1e-9 the value of a power is mean + (a-1)/2 variance to terms of 1e-27."""
    x = 1e-9 * np.random.default_rng(5).standard_normal(n)
    wanted = x.mean() + 0.5 * (a - 1) * x.var()
    for z, w in ((x, None), (np.r_[x, 5.0], np.r_[np.ones(n), 0.0])):
        assert ce.oce(z, ce.MonotoneMeanVariance(a), w) == pytest.approx(wanted, abs=1e-24)


def test_a_curvature_that_overflows_is_no_reason_to_stop():
    """Newton's step is then 0; the mean slope there was 1e302."""

    def mean_slope(t, rows):
        with np.errstate(over="ignore"):
            return np.exp(-t), 1e5 * np.exp(-t) * 1e1

    low, high, start = np.array([-800.0]), np.array([50.0]), np.array([-698.0])
    with np.errstate(over="ignore"):
        assert not np.isfinite(mean_slope(start, None)[1])
    assert find_root(mean_slope, low, high, start).t[0] == pytest.approx(0.0, abs=1e-9)


def test_a_steep_utility_with_a_kink_takes_few_steps_on_losses_over_many_decades(monkeypatch):
    """The greatest loss bounds the threshold from below: without that, bisection took 667 evaluations."""
    calls = []
    plain = Form.derivatives
    monkeypatch.setattr(Form, "derivatives", lambda *args: calls.append(1) or plain(*args))
    x = np.exp(3.0 * np.random.default_rng(0).normal(size=20_000))
    u = 0.5 * ce.CVaR(0.05) + 0.5 * ce.Entropic(1.0)
    found = ce.oce(x, u)
    assert 0 < len(calls) < 50
    weighted = ce.oce(x, u, weights=np.ones(x.size))
    np.testing.assert_allclose([found, weighted], ce.oce(np.tile(x, 4), u), rtol=1e-13)  # long enough for blocks


@pytest.mark.parametrize("outlier", [1e20, 1e30, 1e50, 1e200, -1e50])
@pytest.mark.parametrize("utility", [ce.SmoothCVaR(0.2), ce.LeakyCVaR(0.2)], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_an_outlier_however_far_leaves_threshold_and_tilt_right(utility, outlier, weighted):
    """Bounded slopes do not see how far: an outlier of 1e9 has the same threshold and tilt."""
    x = np.random.default_rng(1).normal(size=1000)
    weights = np.ones(1000) if weighted else None
    far, near = x.copy(), x.copy()
    far[7], near[7] = outlier, np.copysign(1e9, outlier)
    np.testing.assert_allclose(
        ce.threshold(far, utility, weights=weights), ce.threshold(near, utility, weights=weights), rtol=1e-13
    )
    np.testing.assert_allclose(
        ce.tilt(far, utility, weights=weights), ce.tilt(near, utility, weights=weights), rtol=1e-13, atol=1e-18
    )
