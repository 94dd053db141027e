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
    assert ce.threshold(distribution, utility) == np.inf


def test_what_cannot_be_told_is_said():
    with pytest.raises(ValueError, match=r"found gengamma\(1.0, 2.0\). Whether its OCE under .* cannot be told"):
        ce.oce(stats.gengamma(1.0, 2.0), ce.Entropic())
    with pytest.raises(ValueError, match="cannot be told"):
        ce.oce(stats.norm(), ce.utility(lambda x: np.expm1(x)))
    with pytest.raises(ValueError, match="not defined: gains have no mean"):
        ce.oce(stats.cauchy(), ce.Mean())
    with pytest.raises(ValueError, match="more values that matter"):
        ce.oce(stats.zipf(2.5), ce.CVaR(0.1))
    with pytest.raises(TypeError, match="weights must be left out"):
        ce.oce(stats.norm(), ce.CVaR(0.1), [1.0])
    with pytest.raises(TypeError, match="with its parameters, df; found scipy.stats.t without any"):
        ce.oce(stats.t, ce.CVaR(0.1))
    with pytest.raises(ValueError, match="arrays as parameters"):
        ce.oce(stats.norm([0.0, 1.0]), ce.CVaR(0.1))


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
