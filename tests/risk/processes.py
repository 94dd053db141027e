"""Series whose true risk is known, and how often intervals cover it: what the simulations of error bars share."""

import warnings
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace

import numpy as np
from scipy import stats
from scipy.signal import fftconvolve, lfilter

import certeq as ce

Draw = Callable[[np.random.Generator, int, int], np.ndarray]  # (generator, samples, periods) -> samples x periods


def autoregression(coefficient: float) -> Draw:
    def draw(rng, samples, n):
        noise = rng.standard_normal((samples, n + 300))
        return lfilter([1.0], [1.0, -coefficient], noise, axis=1)[:, 300:] * np.sqrt(1.0 - coefficient**2)

    return draw


def overlap(periods: int) -> Draw:
    def draw(rng, samples, n):
        sums = np.cumsum(rng.standard_normal((samples, n + periods)), axis=1)
        return (sums[:, periods:] - sums[:, :-periods]) / np.sqrt(periods)

    return draw


def garch(a: float, b: float) -> Draw:
    def draw(rng, samples, n):
        z = rng.standard_normal((n + 800, samples))
        variance = np.ones(samples)
        for row in z:
            row *= np.sqrt(variance)
            variance = (1.0 - a - b) + a * row**2 + b * variance
        return np.ascontiguousarray(z[800:].T)

    return draw


def fractional(d: float) -> Draw:
    """Fractionally integrated noise, whose autocorrelations fall so slowly that they have no sum."""

    def draw(rng, samples, n):
        lags = np.arange(1, 3000)
        response = np.append(1.0, np.cumprod((lags - 1 + d) / lags))
        return fftconvolve(rng.standard_normal((samples, n + 3000)), response[None], axes=1)[:, 3000 : 3000 + n]

    return draw


def switching(rng, samples, n):
    """Standard deviations of .7 and 1.8, left with probability .01 and .02; a third of the time in the second."""
    state = rng.random(samples) < 1.0 / 3.0
    rough = np.empty((n, samples), dtype=bool)
    for row, chance in zip(rough, rng.random((n, samples)), strict=True):
        row[:] = state
        state = np.where(state, chance >= 0.02, chance < 0.01)
    return rng.standard_normal((samples, n)) * np.where(rough.T, 1.8, 0.7)


PROCESSES = {
    "iid": lambda rng, samples, n: rng.standard_normal((samples, n)),
    "ar.6": autoregression(0.6),
    "overlap10": overlap(10),
    "garch.06.92": garch(0.06, 0.92),
    "garch.10.88": garch(0.10, 0.88),
    "switching": switching,
}
DISTRIBUTIONS = {
    "normal": stats.norm(),
    "t5": stats.t(5),
    "t3": stats.t(3),
    "lognormal": stats.lognorm(1.0),
    "exponential": stats.expon(),
    "bernoulli": stats.bernoulli(0.1),
}


@cache
def _quantiles() -> np.ndarray:
    return stats.norm.ppf((np.arange(1_000_000) + 0.5) / 1_000_000)


@cache
def _long_garch(name: str) -> np.ndarray:
    return np.concatenate([PROCESSES[name](np.random.default_rng(seed), 4000, 1000).ravel() for seed in range(5)])


def true_risk(process: str, utility: ce.Utility) -> float:
    """Of the stationary distribution; of a GARCH series from 20 million periods."""
    if process == "switching":
        q = _quantiles()
        return ce.oce(np.concatenate([0.7 * q, 1.8 * q]), utility, np.repeat([2.0, 1.0], q.size))
    return ce.oce(_long_garch(process) if process.startswith("garch") else _quantiles(), utility)


def coverage(losses: np.ndarray, utility: ce.Utility, truth: float, dependence=None, weights=None) -> SimpleNamespace:
    """Share of the rows whose 95 % interval covers the truth, of those with warnings; and how wide the intervals are.

    ``width`` is the median of what is divided by that of the normal interval of independent losses, ``textbook`` the
    share of such intervals that cover, and ``short`` that of the rows said to be too short for what they remember.
    """
    inside = warned = remembered = textbook = short = 0
    rounding = 1e-12 * abs(truth) if np.isfinite(truth) else 0.0  # an interval of no width is a number
    width = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in losses:
            found = ce.estimate(row, utility, weights, dependence=dependence)
            low, high = found.interval(0.95)
            inside += low - rounding <= truth <= high + rounding
            warned += bool(found.warnings)
            remembered += found.memory > 0.0 or any("depend on those before" in reason for reason in found.warnings)
            short += any("too few for that" in reason for reason in found.warnings)
            spread = np.std(utility.value(row - found.threshold)) / np.sqrt(row.size)
            textbook += abs(found.value - truth) <= 1.959964 * spread + rounding
            width.append((high - low) / (2 * 1.959964 * spread) if spread > 0 else np.nan)
    count = len(losses)
    return SimpleNamespace(
        inside=inside / count,
        warned=warned / count,
        remembered=remembered / count,
        textbook=textbook / count,
        short=short / count,
        width=float(np.nanmedian(width)),
    )
