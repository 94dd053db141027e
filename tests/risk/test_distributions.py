"""OCE and threshold of distributions, against closed forms and fine weighted grids."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, stats

import certeq as ce
from tests.conftest import UTILITIES

CLOSED = [
    (stats.norm(), ce.CVaR(0.05), stats.norm.pdf(stats.norm.isf(0.05)) / 0.05),
    (stats.norm(1e6, 0.01), ce.CVaR(0.05), 1e6 + 0.01 * stats.norm.pdf(stats.norm.isf(0.05)) / 0.05),
    (stats.norm(3, 2), ce.Entropic(0.5), 4.0),
    (stats.norm(), ce.Entropic(500.0), 250.0),  # the tilted density lies where the density is below 1e-308
    (stats.norm(), ce.Entropic(1e-6), 0.5e-6),
    (stats.norm(3, 2), ce.MeanVariance(0.5), 3.0 + 0.5 * 4.0),
    (stats.expon(), ce.CVaR(0.1), 1.0 - np.log(0.1)),
    (stats.expon(), ce.Entropic(0.5), -2.0 * np.log(0.5)),
    (stats.gamma(3.0), ce.Entropic(0.999), -3.0 * np.log(0.001) / 0.999),
    (stats.gamma(0.05), ce.MeanVariance(0.5), 0.075),  # an infinite density at 0
    (stats.beta(0.5, 0.5), ce.MeanVariance(0.5), 0.5 + 0.5 * 0.125),
    (stats.pareto(1.5), ce.CVaR(0.05), 3.0 * 0.05 ** (-1 / 1.5)),
    (stats.t(5), ce.CVaR(0.1), stats.t.pdf(stats.t.isf(0.1, 5), 5) / 0.1 * (5 + stats.t.isf(0.1, 5) ** 2) / 4),
    (stats.t(2.1), ce.MeanVariance(0.5), 0.5 * 2.1 / 0.1),
    (stats.uniform(), ce.Quartic(), None),
    (stats.laplace(), ce.Mean(), 0.0),
    (stats.poisson(3.0), ce.Entropic(0.1), 3.0 * np.expm1(0.1) / 0.1),
    (stats.bernoulli(0.03), ce.CVaR(0.1), 0.3),
    (stats.binom(10, 0.3), ce.Mean(), 3.0),
    (stats.geom(0.2), ce.Mean(), 5.0),
    (stats.rv_discrete(values=([0.5, 2.0, 5.0], [0.5, 0.3, 0.2])), ce.CVaR(0.4), 3.5),
    (stats.rv_histogram(([1, 3], [0.0, 1.0, 2.0])), ce.Mean(), 1.25),
]  # fmt: skip


@pytest.mark.parametrize(("distribution", "utility", "value"), CLOSED)
def test_closed_forms(distribution, utility, value):
    if value is None:
        t = ce.threshold(distribution, utility)
        value = t + integrate.quad(lambda x: float(utility.value(x - t)), 0, 1, epsabs=1e-14)[0]
    assert ce.oce(distribution, utility) == pytest.approx(value, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize("distribution", [stats.norm(), stats.gamma(2.0, scale=0.5)], ids=["norm", "gamma"])
def test_every_utility_against_a_fine_grid(distribution, utility):
    if utility is UTILITIES["custom"]:
        pytest.skip("cannot be told: u is unbounded and unknown")
    value = ce.oce(distribution, utility)
    edges = np.linspace(np.log(2.0), 60.0, 100_001)  # of minus the logarithm of the mass beyond
    mass = -np.diff(np.exp(-edges))
    beyond = np.exp(-0.5 * (edges[1:] + edges[:-1]))
    grid = np.concatenate([distribution.isf(beyond), distribution.ppf(beyond)])
    assert value == pytest.approx(ce.oce(grid, utility, np.concatenate([mass, mass])), rel=2e-6)
    slopes = utility.slope(grid - ce.threshold(distribution, utility))
    assert np.concatenate([mass, mass]) @ slopes == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(
    ("distribution", "utility"),
    [
        (stats.lognorm(1.0), ce.Entropic(0.1)),
        (stats.t(30), ce.Entropic(0.1)),
        (stats.pareto(5.0), ce.Entropic(0.1)),
        (stats.expon(scale=2.0), ce.Entropic(0.5)),
        (stats.expon(scale=2.0), ce.Entropic(1.0).scaled(2.0)),
        (stats.t(4), ce.Quartic()),
        (stats.t(2), ce.MeanVariance(0.5)),
        (stats.pareto(3.0), ce.MonotoneMeanVariance(3)),
        (stats.cauchy(), ce.CVaR(0.05)),
        (stats.pareto(1.0), ce.Mean()),
        (stats.weibull_min(0.9), ce.Entropic(0.1)),
        (stats.geom(0.5), ce.Entropic(0.7)),
        (stats.zipf(2.0), ce.CVaR(0.1)),
        (stats.t(3), 0.5 * ce.CVaR(0.1) + 0.5 * ce.Quartic()),
    ],
)
def test_infinite_risks(distribution, utility):
    assert ce.oce(distribution, utility) == np.inf


@pytest.mark.parametrize(
    ("distribution", "utility", "t"),
    [
        (stats.cauchy(), ce.CVaR(0.05), stats.cauchy.isf(0.05)),
        (stats.cauchy(2.0, 3.0), ce.CVaR(0.05), 2.0 + 3.0 * stats.cauchy.isf(0.05)),
        (stats.pareto(0.9), ce.CVaR(0.05), 0.05 ** (-1 / 0.9)),
        (stats.zipf(1.9), ce.CVaR(0.05), stats.zipf(1.9).isf(0.05)),
        (stats.t(1.5, 3.0, 2.0), ce.MeanVariance(0.5), 3.0),  # E u' = 1 at the mean; the variance is infinite
        (stats.t(1.0, 3.0, 2.0), ce.MeanVariance(0.5), np.inf),
        (stats.lognorm(1.0), ce.Entropic(0.1), np.inf),
        (stats.t(3), ce.Quartic(), np.inf),
        (stats.pareto(1.0), ce.Mean(), np.inf),
        (stats.rv_histogram(([5, 0, 5], [0, 1, 2, 3])), ce.CVaR(0.5), 1.0),  # the smallest of all
        (stats.rv_histogram(([5, 0, 0, 5], [0, 1, 2, 3, 4])), ce.CVaR(0.5), 1.0),
        (stats.uniform(1e6, 2.0), ce.CVaR(0.25), 1e6 + 1.5),
    ],
)
def test_thresholds(distribution, utility, t):
    assert ce.threshold(distribution, utility) == pytest.approx(t, rel=1e-12)


def test_threshold_where_oce_is_infinite_solves_its_equation():
    t = ce.threshold(stats.t(4), ce.Quartic())
    mean = integrate.quad(lambda x: float(ce.Quartic().slope(x - t)) * stats.t.pdf(x, 4), t - 1, np.inf, epsabs=1e-13)
    assert mean[0] == pytest.approx(1.0, rel=1e-7)


def test_what_cannot_be_told_is_said():
    with pytest.raises(ValueError, match=r"found gengamma\(1.0, 2.0\). Whether its OCE under .* cannot be told"):
        ce.oce(stats.gengamma(1.0, 2.0), ce.Entropic())
    with pytest.raises(ValueError, match="cannot be told"):
        ce.oce(stats.norm(), ce.utility(lambda x: np.expm1(x)))
    with pytest.raises(ValueError, match="not defined: gains have no mean"):
        ce.oce(stats.cauchy(), ce.Mean())
    with pytest.raises(ValueError, match="more values that matter"):
        ce.oce(stats.zipf(3.5), ce.MeanVariance(0.1))
    with pytest.raises(ValueError, match="masses that matter below 1e-308"):
        ce.oce(stats.poisson(5.0), 0.5 * ce.CVaR(0.1) + 0.5 * ce.Entropic(9.0))
    with pytest.raises(ValueError, match="could not be integrated to ten digits: .* the total mass 1 came out as"):
        ce.oce(stats.beta(1.0, 0.01), ce.CVaR(0.1))
    with pytest.raises(TypeError, match="weights must be left out"):
        ce.oce(stats.norm(), ce.CVaR(0.1), [1.0])
    with pytest.raises(TypeError, match="with its parameters, df; found scipy.stats.t without any"):
        ce.oce(stats.t, ce.CVaR(0.1))
    with pytest.raises(ValueError, match="arrays as parameters"):
        ce.oce(stats.norm([0.0, 1.0]), ce.CVaR(0.1))


class _NotNormal(stats.rv_continuous):
    def _pdf(self, x):
        return 1.0 / (np.pi * (1.0 + x * x))


class _FiveTimes(stats.rv_continuous):
    def _pdf(self, x):
        return 5.0 + 0.0 * x


def test_what_only_looks_like_a_distribution_is_refused():
    with pytest.raises(ValueError, match=r"found norm\(\)\. Whether its OCE .* cannot be told"):  # a name is no family
        ce.oce(_NotNormal(name="norm"), ce.CVaR(0.1))
    with pytest.raises(ValueError, match=r"found _FiveTimes\(\), whose density and cdf contradict each other"):
        ce.oce(_FiveTimes(a=0.0, b=1.0), ce.CVaR(0.1))


@pytest.mark.parametrize("x", [stats.Normal(), stats.gaussian_kde([0.0, 1.0, 3.0]), stats.Mixture([stats.Normal()])])
def test_other_objects_of_scipy_are_told_what_is_taken(x):
    with pytest.raises(TypeError, match=r"found a .*distributions with their parameters, such as scipy.stats.norm"):
        ce.oce(x, ce.CVaR(0.1))


def test_estimate_takes_samples_only():
    with pytest.raises(TypeError, match=r"certeq.oce and certeq.threshold take distributions"):
        ce.estimate(stats.norm(), ce.CVaR(0.1))


@pytest.mark.parametrize(
    "distribution",
    [
        stats.gamma(0.3, loc=10), stats.chi2(0.5, loc=5), stats.weibull_min(0.3, loc=100), stats.norm(1e9, 1e-3),
        stats.beta(4.5, 0.4, loc=0.0853, scale=1.7276), stats.expon(1e9, 1e-3), stats.t(5, 1e7, 1e-4),
        stats.gamma(1e6), stats.gamma(1e6, -1e6, 1e-3), stats.chi2(3e5), stats.poisson(1e6), stats.poisson(1e6, -1e6),
        stats.binom(10**9, 0.3), stats.gausshyper(13.7, 3.1, 2.5, 5.1), stats.triang(0.03835929194250187),
    ],
    ids=lambda distribution: distribution.dist.name,
)  # fmt: skip
def test_locations_scales_and_sizes(distribution):
    if distribution.dist.name == "binom":
        n, p = distribution.args
        by_stirling = (2 * np.pi * n * p * (1 - p)) ** -0.5  # to 3e-10 here
        if abs(distribution.pmf(round(n * p)) / by_stirling - 1.0) > 1e-8:
            pytest.skip("masses of this SciPy have seven digits only (before 1.17), and the answer is a refusal")
    mean, variance = (float(moment) for moment in distribution.stats("mv"))
    assert ce.oce(distribution, ce.Mean()) == pytest.approx(mean, rel=1e-10, abs=1e-10 * variance**0.5)
    assert ce.oce(distribution, ce.MeanVariance(0.5)) == pytest.approx(mean + 0.5 * variance, rel=1e-10)
    if isinstance(distribution.dist, stats.rv_continuous):  # the same member at another location and scale
        shapes, location, scale = distribution.dist._parse_args(*distribution.args, **distribution.kwds)
        value = (ce.oce(distribution, ce.CVaR(0.1)) - location) / scale
        moved = ce.oce(distribution.dist(*shapes, loc=-3.0, scale=4.0), ce.CVaR(0.1))
        assert moved == pytest.approx(4.0 * value - 3.0, rel=1e-10, abs=1e-10 * (abs(location / scale) + abs(value)))


@pytest.mark.parametrize("bins", [50, 300, 2000])
def test_histograms(bins):
    counts, edges = np.histogram(np.random.default_rng(bins).normal(size=10_000), bins)
    share, low, high = counts / counts.sum(), edges[:-1], edges[1:]
    distribution = stats.rv_histogram((counts, edges))
    mean, square = share @ (low + high) / 2, share @ (low**2 + low * high + high**2) / 3
    assert ce.oce(distribution, ce.MeanVariance(0.5)) == pytest.approx(mean + 0.5 * (square - mean**2), rel=1e-10)
    entropic = np.log(share @ ((np.exp(high) - np.exp(low)) / (high - low)))
    assert ce.oce(distribution, ce.Entropic(1.0)) == pytest.approx(entropic, rel=1e-10)
    t = ce.threshold(distribution, ce.CVaR(0.1))
    excess = (np.maximum(high - t, 0.0) ** 2 - np.maximum(low - t, 0.0) ** 2) / (2 * (high - low))
    assert ce.oce(distribution, ce.CVaR(0.1)) == pytest.approx(t + share @ excess / 0.1, rel=1e-10)


def test_many_values_of_a_discrete_distribution():
    losses = np.random.default_rng(0).normal(size=100_000)
    distribution = stats.rv_discrete(values=(losses, np.full(losses.size, 1.0 / losses.size)))
    assert ce.oce(distribution(loc=3.0), ce.CVaR(0.1)) == pytest.approx(3.0 + ce.oce(losses, ce.CVaR(0.1)), rel=1e-12)


def test_a_risk_is_at_most_that_of_the_largest_loss():
    assert ce.oce(stats.bernoulli(0.1), ce.CVaR(0.1)) == 1.0


def test_bounded_custom_utilities_of_unbounded_distributions():
    u = UTILITIES["two_kinks"]
    grid = stats.norm.ppf((np.arange(2_000_000) + 0.5) / 2_000_000)
    assert ce.oce(stats.norm(), u) == pytest.approx(ce.oce(grid, u), rel=1e-5)


def test_a_sample_of_the_distribution_agrees():
    sample = stats.gamma(2.0).rvs(size=200_000, random_state=1)
    for u in (ce.CVaR(0.1), ce.SmoothCVaR(0.1), ce.MonotoneMeanVariance(2)):
        found = ce.estimate(sample, u)
        assert abs(found.value - ce.oce(stats.gamma(2.0), u)) < 4 * found.stderr


def test_import_needs_no_statistics():
    code = (
        "import sys, certeq; certeq.oce; print({'scipy.stats', 'scipy.special', 'scipy.optimize'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
