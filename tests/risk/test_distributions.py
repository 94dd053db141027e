"""OCE and threshold of distributions, against closed forms and fine weighted grids."""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

import certeq as ce
from tests.problems import RISKS, UTILITIES

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
    (stats.bernoulli(0.1), ce.CVaR(0.1), 1.0),
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
@pytest.mark.parametrize("name", [name for name in UTILITIES if RISKS[name].distributions])
def test_every_utility_against_a_fine_grid(distribution, name):
    utility = UTILITIES[name]
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


# -- risks with more inner variables than t, and distortions -----------------------------------------------------------

NORMAL = math.sqrt(-2.0 * math.log(0.05))


def exponential_evar(alpha):
    """min over s > 1 of s ln(E exp(X/s)/alpha), E exp(X/s) = 1/(1 - 1/s): value and threshold."""
    with mp.workdps(30):
        s = mp.findroot(lambda s: mp.diff(lambda s: s * mp.log(1 / (1 - 1 / s) / alpha), s), 1.2)
        s = mp.re(s)
        t = s * mp.log(1 / (1 - 1 / s))
        return float(t - s * mp.log(alpha)), float(t)


EXPONENTIAL = exponential_evar(0.05)
RISKS_CLOSED = [
    (stats.norm(1.0, 2.0), ce.EVaR(0.05), 1.0 + 2.0 * NORMAL),
    (stats.norm(1e9, 2.0), ce.EVaR(0.05), 1e9 + 2.0 * NORMAL),
    (stats.expon(), ce.EVaR(0.05), EXPONENTIAL[0]),
    (stats.bernoulli(0.2), ce.EVaR(0.1), 1.0),
    (stats.lognorm(1.0), ce.EVaR(0.1), math.inf),
    (stats.t(5), ce.Entropic().ball(0.1), math.inf),
    (stats.norm(), ce.MeanVariance(0.5).ball(0.3), math.sqrt(0.6)),
    (stats.uniform(), ce.MonotoneMeanVariance(2).ball(0.1), 0.5 + math.sqrt(0.2 / 12)),
    (stats.norm(), ce.HMCR(1, 0.05), 2.0627128075074257),
    (stats.norm(3.0, 2.0), ce.Wang(0.7), 4.4),
    (stats.lognorm(0.5), ce.Wang(0.7), math.exp(0.35 + 0.125)),
    (stats.expon(scale=2.0), ce.ProportionalHazard(3), 6.0),
    (stats.pareto(3.0), ce.ProportionalHazard(2), 3.0),
    (stats.pareto(2.0), ce.ProportionalHazard(2), math.inf),
    (stats.uniform(), ce.PowerDistortion(5), 5.0 / 6.0),
    (stats.expon(), ce.PowerDistortion(4), 25.0 / 12.0),
    (stats.pareto(1.2), ce.PowerDistortion(2), 12.0 - 12.0 / 7.0),
    (stats.norm(), ce.Distortion(lambda p: np.minimum(p / 0.05, 1.0)), 2.0627128075074257),
    (stats.binom(10, 0.3), ce.PowerDistortion(2), sum(1.0 - stats.binom(10, 0.3).cdf(k) ** 2 for k in range(10))),
    (stats.poisson(4), ce.PowerDistortion(1), 4.0),
    (stats.norm(), ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.Wang(1.0)]), 0.5 * 2.0627128075074257 + 0.5),
]


@pytest.mark.parametrize(("distribution", "risk", "wanted"), RISKS_CLOSED)
def test_closed_forms_of_other_risks(distribution, risk, wanted):
    found = ce.oce(distribution, risk)
    assert found == wanted or abs(found - wanted) <= 1e-9 * abs(wanted)


def test_thresholds_of_other_risks():
    for distribution, risk, wanted in (
        (stats.norm(1.0, 2.0), ce.EVaR(0.05), 1.0 + NORMAL),
        (stats.expon(), ce.EVaR(0.05), EXPONENTIAL[1]),
        (stats.bernoulli(0.2), ce.EVaR(0.1), 1.0),
        (stats.lognorm(1.0), ce.EVaR(0.1), math.inf),
    ):
        assert ce.threshold(distribution, risk) == pytest.approx(wanted, rel=1e-9)
    both = ce.threshold(stats.norm(), ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.EVaR(0.05)]))
    np.testing.assert_allclose(both, [1.6448536269514722, NORMAL / 2.0], rtol=1e-9)


def test_higher_moments_of_an_exponential_distribution():
    """E[max(X - t, 0)**p] = gamma(p + 1) exp(-t) for t >= 0, so that the best t has the norm p alpha."""
    t = 2.0 * math.log(math.sqrt(2.0) / 0.2)
    assert ce.threshold(stats.expon(3.0, 2.0), ce.HMCR(2, 0.1)) == pytest.approx(3.0 + 2.0 * t, rel=1e-8)
    assert ce.oce(stats.expon(3.0, 2.0), ce.HMCR(2, 0.1)) == pytest.approx(3.0 + 2.0 * (t + 2.0), rel=1e-9)


@pytest.mark.parametrize("name", [name for name in RISKS if name not in UTILITIES])
def test_other_risks_against_a_fine_grid(name):
    """Of uniform losses, which no tail makes hard to integrate."""
    grid = (np.arange(50_000) + 0.5) / 50_000
    wanted = ce.oce(grid, RISKS[name].risk)
    assert ce.oce(stats.uniform(), RISKS[name].risk) == pytest.approx(wanted, abs=2e-4)
