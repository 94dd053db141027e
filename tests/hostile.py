"""Samples and utilities that are hard to search, and a count of how often a sample is read."""

from __future__ import annotations

import numpy as np

import certeq as ce
from certeq._table import ArrayTable
from tests.conftest import UTILITIES


def hostile_samples(n):
    """Heavy tails, ties, clusters, offsets and outliers: 25 samples of n losses, the same every time."""
    rng = np.random.default_rng(3)
    normal = rng.standard_normal(n)

    def coin(share):
        return (np.arange(n) < round(share * n)).astype(float)

    return {
        "normal": normal,
        "large": 1e4 * normal,
        "small": 1e-6 * normal,
        "sorted": np.sort(normal),
        "far_from_0": 1e9 + normal,
        "lognormal": np.exp(2.0 * normal),
        "minus_lognormal": -np.exp(2.0 * normal),
        "pareto": rng.pareto(1.5, n),
        "cauchy": rng.standard_cauchy(n),
        "coin": coin(0.05),
        "coin_far_apart": 1e6 * coin(0.05),
        "coin_far_from_0": 1e9 + coin(0.2),
        "one_loss": 1e6 * (np.arange(n) == 7),
        "constant": np.full(n, 0.1),
        "integers": rng.integers(0, 10, n).astype(float),
        "cents": np.round(normal, 2),
        "half_an_atom": np.where(rng.random(n) < 0.7, 0.0, np.exp(normal)),
        "clusters": rng.choice([-100.0, 0.0, 5.0, 1000.0], n, p=[0.3, 0.65, 0.04, 0.01]) + 1e-6 * normal,
        "two_clusters": rng.choice([0.0, 1e5], n, p=[0.95, 0.05]) + normal,
        "one_far_gain": np.r_[-1e9, normal[1:]],
        "one_far_loss": np.r_[1e5, normal[1:]],
        "decades": np.exp(10.0 * normal),  # the largest is so far above the others that t* lies between two floats
        "more_decades": np.exp(18.0 * normal),
        "minus_decades": -np.exp(10.0 * normal),
        "decades_apart": rng.choice([1e-4, -3e7, 6e2, 1e5], n, p=[0.5, 0.2, 0.28, 0.02]) * (1.0 + 1e-9 * normal),
    }


def with_kinks(count):
    """Slopes between exp(-2) and exp(2) that jump at evenly spaced points."""
    kinks, slopes = np.linspace(-3.0, 3.0, count), np.exp(np.linspace(-2.0, 2.0, count + 1))
    pairs = list(zip(kinks, np.diff(slopes), strict=True))
    return ce.utility(
        lambda x: slopes[0] * x + sum(jump * np.maximum(x - kink, 0.0) for kink, jump in pairs),
        lambda x: slopes[0] + sum(jump * (x > kink) for kink, jump in pairs),
        lambda x: 0.0 * x,  # derived, it takes most of the time that the search for kinks does
        name=f"{count} kinks",
    )


def stairs():
    """No kink, but nine steps of the slope between 1e-6 and 2 wide."""
    points = (-2.0, -1.3, -0.2, 0.1, 0.9, 1.7, 2.2, 3.1, 6.0)
    widths = (1e-5, 0.1, 1e-4, 1.0, 1e-3, 1e-5, 0.01, 1e-6, 2.0)
    steps = list(zip(points, widths, strict=True))
    return ce.utility(
        lambda x: 0.05 * x + sum(0.3 * w * np.logaddexp(0.0, (x - p) / w) for p, w in steps),
        lambda x: 0.05 + sum(0.15 * (1.0 + np.tanh(0.5 * (x - p) / w)) for p, w in steps),
        name="stairs",
    )


MIXED = {
    "many_kinks": with_kinks(15),
    "stairs": stairs(),
    "entropic_cvar.05": 0.5 * ce.Entropic() + 0.5 * ce.CVaR(0.05),
    "steep_entropic_cvar": 0.5 * ce.Entropic(10.0) + 0.5 * ce.CVaR(0.01),
    "quartic_cvar": 0.5 * ce.Quartic() + 0.5 * ce.CVaR(0.1),
    "mmv_cvar": 0.3 * ce.MonotoneMeanVariance(3) + 0.7 * ce.CVaR(0.05),
    "entropic_mean": 0.5 * ce.Entropic() + 0.5 * ce.Mean(),
    "two_cvars": 0.5 * ce.CVaR(0.01) + 0.5 * ce.CVaR(0.2),
    "smooth.05": ce.SmoothCVaR(0.05),
    "sharp": ce.SmoothCVaR(0.05, 0.01),
    "sharper": ce.SmoothCVaR(0.05, 1e-4),
    "sharp_entropic": 0.5 * ce.SmoothCVaR(0.05, 1e-3) + 0.5 * ce.Entropic(),
    "leaky.05": ce.LeakyCVaR(0.05),
    "mmv10": ce.MonotoneMeanVariance(10),
    "steep_quartic": 0.3 * ce.Mean() + 0.3 * ce.Entropic(60.0) + 0.4 * ce.Quartic(),
    "variance_cvar": 0.4 * ce.MeanVariance(20.0) + 0.6 * ce.CVaR(0.05),
    "variance_mmv": 0.7 * ce.MeanVariance(5.0) + 0.3 * ce.MonotoneMeanVariance(2.5),
}
HARD = {name: UTILITIES[name] for name in ("entropic_leaky", "entropic_cvar", "two_kinks", "custom", "smooth")} | MIXED


class Counted(ArrayTable):
    """Counts how often it is read."""

    reads = 0

    def reduce(self, *args, **kwargs):
        type(self).reads += 1
        return super().reduce(*args, **kwargs)


def reads_of(call):
    Counted.reads = 0
    return call(), Counted.reads
