"""Balls, higher moments, mixtures and distortions of distributions of scipy.stats: closed forms, and mpmath."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import certeq as ce

NORMAL = math.sqrt(-2.0 * math.log(0.05))


def exponential_evar(alpha):
    """min over s > 1 of s ln(E exp(X/s)/alpha), E exp(X/s) = 1/(1 - 1/s): value and threshold."""
    with mp.workdps(30):
        s = mp.findroot(lambda s: mp.diff(lambda s: s * mp.log(1 / (1 - 1 / s) / alpha), s), 1.2)
        s = mp.re(s)
        t = s * mp.log(1 / (1 - 1 / s))
        return float(t - s * mp.log(alpha)), float(t)


def higher_moment(density, p, alpha, start, far):
    """min over t of t + |(X - t)^+|_p / alpha, by mpmath: value and threshold."""
    with mp.workdps(25):
        value = lambda t: (
            t + mp.quad(lambda x: (x - t) ** p * density(x), [t, t + 2, t + 8, far]) ** mp.mpf(1 / p) / alpha
        )
        t = mp.findroot(lambda t: mp.diff(value, t), start)
        return float(value(t)), float(t)


EXPONENTIAL = exponential_evar(0.05)
CASES = [
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


@pytest.mark.parametrize(("distribution", "risk", "wanted"), CASES)
def test_values(distribution, risk, wanted):
    found = ce.oce(distribution, risk)
    assert found == wanted or abs(found - wanted) <= 1e-9 * abs(wanted)


@pytest.mark.parametrize(
    ("distribution", "risk", "wanted"),
    [
        (stats.norm(1.0, 2.0), ce.EVaR(0.05), 1.0 + NORMAL),
        (stats.expon(), ce.EVaR(0.05), EXPONENTIAL[1]),
        (stats.bernoulli(0.2), ce.EVaR(0.1), 1.0),
        (stats.lognorm(1.0), ce.EVaR(0.1), math.inf),
    ],
)
def test_thresholds(distribution, risk, wanted):
    found = ce.threshold(distribution, risk)
    assert found == wanted or abs(found - wanted) <= 1e-9 * abs(wanted)


def test_a_higher_moment():
    value, threshold = higher_moment(mp.npdf, 2.0, 0.2, 0.4, 40)
    assert ce.oce(stats.norm(), ce.HMCR(2, 0.2)) == pytest.approx(value, rel=1e-9)
    assert ce.threshold(stats.norm(), ce.HMCR(2, 0.2)) == pytest.approx(threshold, rel=1e-9)


def test_parts_and_refusals():
    both = ce.threshold(stats.norm(), ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.EVaR(0.05)]))
    np.testing.assert_allclose(both, [1.6448536269514722, NORMAL / 2.0], rtol=1e-9)
    with pytest.raises(TypeError, match="needs all losses sorted"):
        ce.threshold(stats.norm(), ce.Wang(0.5))
    with pytest.raises(ValueError, match="summed up"):
        ce.oce(stats.zipf(2.5), ce.ProportionalHazard(1.2))
    with pytest.raises(TypeError, match="left out"):
        ce.oce(stats.norm(), ce.EVaR(0.1), weights=[1.0])


def test_a_large_sample_comes_near():
    x = stats.t(5).ppf((np.arange(200_000) + 0.5) / 200_000)
    for risk in (ce.Wang(0.5), ce.PowerDistortion(3)):
        assert abs(ce.oce(stats.t(5), risk) - ce.oce(x, risk)) <= 5e-4
