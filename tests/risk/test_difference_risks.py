"""Differences under risks with more inner variables than t, and under distortions; what a certified bound refuses."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce

RISKS = [
    ce.EVaR(0.1),
    ce.MonotoneMeanVariance(2).ball(0.3),
    ce.HMCR(2, 0.3),
    ce.Mixture([0.5, 0.5], [ce.CVaR(0.1), ce.Entropic(0.5)]),
    ce.Wang(0.5),
]


@pytest.mark.parametrize("risk", RISKS, ids=repr)
def test_against_estimates(risk):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(800)
    y = 0.9 * x + 0.1 * rng.standard_normal(800)
    found = ce.difference(x, y, risk)
    both = ce.estimate(x, risk), ce.estimate(y, risk)
    assert abs(found.value - (both[0].value - both[1].value)) <= 1e-12
    assert found.stderr < 0.5 * np.hypot(both[0].stderr, both[1].stderr)  # what both have in common drops out
    constant = ce.difference(x, np.zeros(800), risk)
    np.testing.assert_allclose(constant.stderr, both[0].stderr, rtol=0.02)
    weights = rng.exponential(size=800)
    weights[:100] = 0.0
    weighted = ce.difference(x, y, risk, weights=weights)
    assert abs(weighted.value - (ce.oce(x, risk, weights) - ce.oce(y, risk, weights))) <= 1e-12
    assert ce.difference(x, x, risk).value == 0.0


@pytest.mark.parametrize("risk", [ce.EVaR(0.2), ce.Wang(0.5)], ids=repr)
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_its_size_where_the_risks_are_equal(risk):
    rng = np.random.default_rng(1)
    rejected = 0
    for _ in range(300):
        common = rng.standard_normal(300)
        x, y = common + 0.3 * rng.standard_normal((2, 300))
        rejected += ce.difference(x, y, risk).pvalue < 0.05
    assert rejected / 300 <= 0.09


@pytest.mark.parametrize("risk", [RISKS[0], RISKS[4]], ids=repr)
def test_certified_bounds_say_why_not(risk):
    losses = np.linspace(0.0, 1.0, 50)
    with pytest.raises(TypeError, match="one t chosen before the loss is seen"):
        ce.upper_bound(losses, risk, support=(0.0, 1.0))
    with pytest.raises(TypeError, match="one t chosen before the loss is seen"):
        ce.control(losses[:, None], [0], risk, 0.9, support=(0.0, 1.0))
