"""Error bars: standard errors, intervals, bias, and the warnings that come with them."""

import warnings

import numpy as np
import pytest
from scipy import stats

import certeq as ce
from certeq.risk import ReliabilityWarning, bounds
from tests.problems import RISKS

NORMAL_TRUTH = {
    "entropic": (ce.Entropic(0.5), 0.25),
    "mean_variance": (ce.MeanVariance(0.5), 0.5),
    "cvar": (ce.CVaR(0.05), stats.norm.pdf(stats.norm.isf(0.05)) / 0.05),
    "mean": (ce.Mean(), 0.0),
}


def test_mean_and_mean_variance_in_closed_form():
    x = np.random.default_rng(0).standard_normal(500)
    found = ce.estimate(x, ce.Mean())
    assert found.value == pytest.approx(x.mean())
    assert found.stderr == pytest.approx(x.std(ddof=1) / np.sqrt(500))
    assert found.bias == 0.0
    assert found.ess == pytest.approx(500)
    found = ce.estimate(x, ce.MeanVariance(0.5))
    assert found.bias == pytest.approx(-0.5 * x.var() / 500, rel=1e-9)
    assert found.debiased == pytest.approx(found.value - found.bias)


def test_parts_and_equal_weights(utility):
    x = np.random.default_rng(2).standard_normal(300)
    found, weighted = ce.estimate(x, utility), ce.estimate(x, utility, np.full(300, 2.5))
    assert found.threshold == pytest.approx(ce.threshold(x, utility), abs=1e-9)
    assert found.inner == (found.threshold,)
    assert found.stderr == pytest.approx(np.std(utility.value(x - found.threshold), ddof=1) / np.sqrt(300), rel=1e-6)
    assert -0.5 * found.stderr <= found.bias <= 0.0
    assert repr(utility) in repr(found)
    assert weighted.value == pytest.approx(found.value, rel=1e-12)
    assert weighted.stderr == pytest.approx(found.stderr, rel=1e-9)
    assert weighted.bias == pytest.approx(found.bias, rel=1e-6, abs=1e-15)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # of other kinds
def test_losses_that_are_all_equal_tell_nothing_of_their_error(utility):
    for x, weights in ((np.full(50, 3.0), None), (np.r_[np.full(49, 3.0), 7.0], np.r_[np.ones(49), 0.0])):
        found = ce.estimate(x, utility, weights)
        assert (found.stderr, found.df) == (0.0, 0.0)
        with pytest.warns(ReliabilityWarning, match="nothing of its own error"):
            low, high = found.interval()
        assert low == high


def test_an_estimate_from_a_file(tmp_path, utility):
    x = np.random.default_rng(5).standard_normal(70_000)
    np.save(tmp_path / "losses.npy", x)
    assert ce.estimate(np.load(tmp_path / "losses.npy", mmap_mode="r"), utility) == ce.estimate(x, utility)


def test_bias_never_exceeds_half_a_standard_error():
    """The plug-in bias of a narrow soft CVaR explodes: m E[b] = 6e3 at alpha = tau = .05, m = 100."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        found = ce.estimate(rng.standard_normal(100), ce.SmoothCVaR(0.05))
        assert abs(found.bias) <= 0.5 * found.stderr


@pytest.mark.parametrize("name", NORMAL_TRUTH)
def test_bootstrap_interval_is_like_the_normal_one(name):
    utility, truth = NORMAL_TRUTH[name]
    found = ce.estimate(np.random.default_rng(7).standard_normal(2000), utility)
    low, high = found.interval(0.9)
    b_low, b_high = found.interval(0.9, "bootstrap", rng=0)
    wide = found.interval(0.999)
    assert wide[0] < truth < wide[1]
    assert b_high - b_low == pytest.approx(high - low, rel=0.15)
    assert (b_low, b_high) == found.interval(0.9, "bootstrap", rng=0)
    x, w = np.random.default_rng(7).standard_normal(1000), np.random.default_rng(8).integers(0, 3, 1000)
    low, high = ce.estimate(x, utility, w).interval(0.95, "bootstrap", replicates=200, rng=1)
    assert low < ce.oce(x, utility, w) < high
    far = ce.estimate(np.append(x, np.full(500, 50.0)), utility, np.append(w, np.zeros(500)))
    assert far.interval(0.95, "bootstrap", replicates=200, rng=1)[1] == pytest.approx(high, abs=0.5 * (high - low))


def test_samples_for_an_accuracy():
    found = ce.estimate(np.random.default_rng(0).standard_normal(1000), ce.CVaR(0.1))
    n = found.samples_for(0.01)
    low, high = found.interval()
    assert n == pytest.approx(1000 * ((high - low) / 0.02) ** 2, rel=0.01)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # of other kinds
def test_heavy_tails_are_told():
    rng = lambda: np.random.default_rng(0)
    for x, utility in ((rng().standard_t(5, 5000), ce.Quartic()), (rng().standard_t(1.5, 5000), ce.CVaR(0.1))):
        with pytest.warns(ReliabilityWarning, match="tail of u"):
            ce.estimate(x, utility).interval()
    assert ce.estimate(-np.abs(rng().standard_cauchy(5000)), ce.Mean()).warnings
    assert not ce.estimate(rng().exponential(size=5000), ce.Entropic(0.3)).warnings


def test_thresholds_that_are_not_unique_are_told():
    few = (np.arange(200) < 20).astype(float)
    word = "every threshold is as good"
    mixed = 0.5 * ce.Entropic(0.5) + 0.5 * ce.CVaR(0.1)
    rng = np.random.default_rng(0)
    for utility in (ce.CVaR(0.1), mixed):
        assert any(word in reason for reason in ce.estimate(rng.permutation(few), utility).warnings)
    assert not ce.estimate(rng.permutation(few), ce.CVaR(0.5)).warnings
    rounded = np.round(rng.standard_normal(2000), 2)  # many ties, and nothing but
    assert not ce.estimate(rounded, ce.CVaR(0.1)).warnings


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_fewer_than_one_loss_in_the_tail():
    """The largest loss is CVaR of the sample, and says little of that of its source."""
    x = np.random.default_rng(0).standard_normal(90)
    found = ce.estimate(x, ce.CVaR(0.01))
    assert found.value == x.max()
    assert any("fewer than one sample is in the tail" in reason for reason in found.warnings)
    low, high = found.interval()
    assert low < 2.665 < high  # the true one
    assert found.samples_for(0.1) > 1000


@pytest.mark.parametrize("ones", [6, 8])
@pytest.mark.parametrize("utility", [ce.CVaR(0.1), ce.SmoothCVaR(0.1, tau=0.05)], ids=repr)
@pytest.mark.parametrize("weights", [None, np.full(50, 2.0)], ids=["equal", "weighted"])
def test_a_tail_on_one_value_is_not_known_exactly(ones, utility, weights):
    x = np.random.default_rng(0).permutation((np.arange(50) < ones).astype(float))
    found = ce.estimate(x, utility, weights)
    with pytest.warns(ReliabilityWarning, match="Most of the tail lies on one value"):
        low, high = found.interval()
    assert low < ce.oce(stats.bernoulli(0.08), utility) < high
    moved = ce.estimate(10.0 * x + 1e6, utility.scaled(10.0), weights)
    assert moved.stderr == pytest.approx(10.0 * found.stderr, rel=1e-6)


def test_capped_losses_of_a_long_sample(tmp_path):
    x = np.minimum(np.random.default_rng(0).standard_normal(200_000), 1.64)  # 5.05 % at the cap
    found = ce.estimate(x, ce.CVaR(0.05))
    assert found.value == 1.64
    assert 0.0 < found.stderr < 0.01
    assert any("Most of the tail" in reason for reason in found.warnings)


@pytest.mark.parametrize("risk", [ce.EVaR(0.05), ce.HMCR(2, 0.1), ce.Mixture([0.5, 0.5], [ce.EVaR(0.1), ce.CVaR(0.1)])])
def test_no_advice_that_cannot_be_followed(risk):
    """`upper_bound` takes utilities alone."""
    x = np.exp(3.0 * np.random.default_rng(0).normal(size=300))
    for found in (ce.estimate(x, risk), ce.difference(x, x[::-1], risk)):
        assert "upper_bound" not in " ".join([found.assumptions, *found.warnings])
    found = ce.estimate(x, ce.Quartic().scaled(x.max()))
    assert "upper_bound" in found.assumptions


@pytest.mark.parametrize(
    ("utility", "needs"),
    [
        (ce.Entropic(0.6), "E exp(1.2 X)"),
        (ce.Entropic(0.6).scaled(2.0), "E exp(0.6 X)"),
        (ce.MonotoneMeanVariance(3), "E max(X, 0)**6"),
        (ce.Quartic().normalized(), "E max(X, 0)**8"),
        (ce.MeanVariance(2.0), "E X**4"),
        (0.5 * ce.CVaR(0.1) + 0.5 * ce.MonotoneMeanVariance(2), "E max(X, 0)**4"),
        (ce.utility(lambda x: np.expm1(0.5 * x) / 0.5), "E u(X - t*)**2"),
    ],
    ids=repr,
)
def test_unbounded_slopes_say_which_moments_they_need(utility, needs):
    """No sample shows them: the variance of Entropic(0.6) of exponential losses is infinite, and no test sees it."""
    found = ce.estimate(np.random.default_rng(0).exponential(size=100), utility)
    assert needs in found.assumptions
    assert "no sample can show" in repr(found)
    assert ("upper_bound" in found.assumptions) is utility.is_monotone
    assert ce.estimate(np.arange(50.0), ce.LeakyCVaR(0.1)).assumptions == ""


@pytest.mark.parametrize(
    "utility",
    [ce.Mean(), ce.Entropic(0.3), ce.MeanVariance(0.5), ce.CVaR(0.1), ce.SmoothCVaR(0.1), ce.LeakyCVaR(0.2)],
    ids=repr,
)
def test_no_warnings_where_the_theory_holds(utility):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(5):
            ce.estimate(np.random.default_rng(seed).standard_normal(3000), utility).interval()


def test_no_curvature_still_gives_error_bars():
    custom = ce.utility(np.expm1, lambda x: np.asarray(np.vectorize(lambda v: float(np.exp(v)))(np.minimum(x, 700.0))))
    assert not custom.has_curvature
    x = 0.3 * np.random.default_rng(0).standard_normal(400)
    found, twin = ce.estimate(x, custom), ce.estimate(x, ce.Entropic(1.0))
    assert found.value == pytest.approx(twin.value, rel=1e-12)
    assert found.bias == pytest.approx(twin.bias, rel=1e-3)


@pytest.mark.slow
def test_bias_term_removes_the_bias():
    """OCE_m less its unbiased twin, the sample objective at the true threshold: all that is left is the bias."""
    rng = np.random.default_rng(9)
    utility, truth, m = ce.Entropic(0.5), 0.25, 100
    plain = debiased = 0.0
    for _ in range(20_000):
        x = rng.standard_normal(m)
        found, twin = ce.estimate(x, utility), truth + float(np.mean(utility.value(x - truth)))
        plain, debiased = plain + found.value - twin, debiased + found.debiased - twin
    assert plain / 20_000 == pytest.approx(-np.expm1(0.25) / 100, rel=0.1)
    assert abs(debiased) < 0.2 * abs(plain)


def test_bounds_contain_the_error():
    """MAE and MSE over repeated samples stay below the bounds, and the moment gives a looser one than J1."""
    rng = np.random.default_rng(4)
    alpha, m = 0.1, 200
    truth = stats.norm.pdf(stats.norm.isf(alpha)) / alpha
    error = ce.oce(rng.standard_normal((2000, m)), ce.CVaR(alpha), axis=1) - truth
    j1 = bounds.dispersion(stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000))
    moment = (2 * np.sqrt(2 / np.pi)) ** (1 / 3)  # third absolute moment of a standard normal
    assert np.mean(np.abs(error)) <= bounds.mae_bound(m, 1 / alpha, j1=j1)
    assert np.mean(error**2) <= bounds.mse_bound_lipschitz(m, 1 / alpha, j1=j1)
    assert bounds.mae_bound(m, 1 / alpha, j1=j1) < bounds.mae_bound(m, 1 / alpha, moment)
    assert j1 <= bounds.dispersion_bound(moment, q=3)
    z = stats.norm(-1, 2).ppf((np.arange(400_000) + 0.5) / 400_000)
    assert bounds.dispersion(z) == pytest.approx(3.23, abs=0.02)  # of the paper


def test_the_wasserstein_bound_needs_both_variances():
    utility, s = ce.MeanVariance(0.5), 3.0
    gap = abs(ce.oce([0.0], utility) - ce.oce([-s, s], utility))
    assert bounds.wasserstein_bound(s, 0.0, 0.0) < gap <= bounds.wasserstein_bound(s, 0.0, s**2)


def test_the_gradient_bound_contains_the_error():
    """u' in {.5, 1.5}, gradient c/u' with c = M/2: the exact mean squared error at m = 50 is 13.08 for M = 100."""
    m, M = 50, 100.0
    z = np.log([0.5, 1.5])
    k = np.arange(m + 1)
    chance = stats.binom.pmf(k, m, 0.5)
    gradient = 0.5 * M / np.array([0.5, 1.5])
    estimates = []
    for count in k:
        q = ce.tilt(z, ce.Entropic(1.0), [m - count, count])
        estimates.append(float(q @ gradient))
    mse = float(chance @ (np.array(estimates) - 0.5 * M) ** 2)
    assert mse == pytest.approx(13.08, abs=0.01)
    assert mse <= bounds.gradient_mse_bound(m, M, 0.25, 0.0)


# -- risks with more inner variables than t ----------------------------------------------------------------------------

SEVERAL = ["evar", "chi_square", "hmcr", "hmcr1", "mixture", "wang"]


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_errors_are_those_of_repeated_samples(name):
    rng, risk = np.random.default_rng(1), RISKS[name].risk
    found = [ce.estimate(rng.normal(size=400), risk) for _ in range(60)]
    truth = ce.oce(np.random.default_rng(2).normal(size=200_000), risk)
    values = np.array([one.value for one in found])
    assert np.mean([one.stderr for one in found]) == pytest.approx(values.std(), rel=0.35)
    assert np.mean([one.bias for one in found]) <= 0.0
    assert abs(np.mean([one.debiased for one in found]) - truth) <= 4.0 * values.std() / np.sqrt(60)
    assert np.mean([low <= truth <= high for low, high in (one.interval() for one in found)]) >= 0.85


@pytest.mark.parametrize("name", SEVERAL)
def test_weights_and_units_of_several_inner_variables(name):
    risk, rng = RISKS[name].risk, np.random.default_rng(4)
    x, w = rng.normal(size=300), rng.random(300)
    one, other = ce.estimate(x, risk, weights=w), ce.estimate(7.0 * x - 3.0, risk, weights=w)
    assert other.stderr == pytest.approx(7.0 * one.stderr, rel=1e-9)
    assert other.bias == pytest.approx(7.0 * one.bias, rel=1e-6)
    assert ce.estimate(x + 1e9, risk).stderr == pytest.approx(ce.estimate(x, risk).stderr, rel=1e-4)
    assert ce.estimate(np.full(50, 2.5), risk).stderr == 0.0
    series = np.convolve(rng.normal(size=600), np.ones(10), "valid")
    remembered = ce.estimate(series, risk, dependence="auto")
    assert remembered.stderr > 1.3 * ce.estimate(series, risk).stderr
    assert remembered.bias <= ce.estimate(series, risk).bias
    assert repr(risk) in repr(remembered)
    low, high = ce.estimate(x, risk).interval(method="bootstrap", replicates=50, rng=0)
    assert low < high


def test_inner_variables_and_other_names_of_a_risk():
    x = np.random.default_rng(3).normal(size=500)
    found = ce.estimate(x, ce.EVaR(0.3))
    t, s = found.inner
    assert (found.threshold, found.value) == (t, pytest.approx(ce.oce(x, ce.EVaR(0.3)), rel=1e-13))
    assert found.stderr == pytest.approx((s * np.expm1((x - t) / s)).std(ddof=0) / np.sqrt(500), rel=0.01)
    assert "u(X - t*)" not in found.assumptions
    assert "E exp" in found.assumptions
    assert ce.estimate(x, ce.EVaR(1e-4)).warnings  # one loss carries it
    thresholds = ce.estimate(x, RISKS["mixture"].risk).threshold
    np.testing.assert_allclose(thresholds, ce.threshold(x, RISKS["mixture"].risk), rtol=1e-9)
    plain = ce.estimate(x, ce.CVaR(0.1))
    for same in (ce.HMCR(1, 0.1), ce.CVaR(0.1).ball(2.0), ce.Mixture([1.0], [ce.CVaR(0.1)])):
        other = ce.estimate(x, same)
        for name in ("value", "stderr", "bias", "ess"):
            assert getattr(other, name) == pytest.approx(getattr(plain, name)), name
    distorted = ce.estimate(x, ce.Distortion(lambda p: np.minimum(p / 0.1, 1.0)))
    assert distorted.stderr == pytest.approx(plain.stderr, rel=0.05)
    assert distorted.inner == ()
    assert np.isnan(distorted.threshold)
