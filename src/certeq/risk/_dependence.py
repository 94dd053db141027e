"""Losses in the order of time: whether they remember, and how far that moves the error of a mean.

The error of an OCE is, to first order, that of the mean of the influence values psi_i = t* + u(x_i - t*) - OCE; so
everything here is about means of series. A series is read in blocks, and what is found in one block is joined with what
was found in the next: nothing has to fit in memory.

The rule for the interval is one for all: the long-run variance from the lowest cosine frequencies of psi (Müller, 2007;
Lazarus, Lewis, Stock and Watson, 2018), as many as the length of the memory allows, a t quantile with as many degrees
of freedom, and Hall's (1992) transformation against skewness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certeq._checks import shown
from certeq.risk._input import check_level

Floats = NDArray[np.float64]

# A false alarm in some 3 % of independent samples, whatever their distribution: three series, some 12 lifetimes each.
_DETECTED = 3.2
_SHORTEST, _LONGEST = 1.25, 250.0  # lifetimes looked for, in periods
_SHORT = 20  # periods in which no memory is looked for
_FEWEST, _MOST = 3, 64  # cosines
_BINS = 8192  # a long series is summed in so many bins before the cosines: a 1e-4 of the shortest wave
# A series of losses that remember each other for tau periods has to be so many times as long: at 50 intervals of
# CVaR(0.05) cover .88 to .91, at 20 (AR(.99), n = 1000) below .80.
_LONG_ENOUGH = 50.0
_LONGER = 3.0  # so many times the lifetime that an overlap explains is more than noise in finding it
_OVERLAP = 2.5  # k overlapping periods are remembered for as long as a geometric memory of lifetime k / 2.5
# The skewness of psi is taken at half of what the sample shows, which is what small samples of heavy tails support.
_SKEWNESS_SHARE, _MOST_SKEWED = 0.5, 0.5


def check_dependence(dependence: Any, size: int) -> int | str | None:
    """None, "auto" or a number of overlapping periods, fewer than there are losses."""
    if dependence is None or (isinstance(dependence, str) and dependence == "auto"):
        return dependence
    wanted = 'None (independent losses), "auto", or the number of periods that overlap'
    if isinstance(dependence, (bool, np.bool_, str)) or not hasattr(dependence, "__index__"):
        raise TypeError(f"dependence must be {wanted}; found {shown(dependence)}.")
    if int(dependence) < 1:
        raise ValueError(f"dependence must be {wanted}, at least 1; found {int(dependence)}.")
    if int(dependence) >= max(size, 2):
        raise ValueError(
            f"dependence must be below the number of losses, {size}, as a number of periods that overlap; found "
            f"{int(dependence)}."
        )
    return int(dependence)


def lifetime_of_overlap(periods: int) -> float:
    """The lifetime of a memory that comes from windows of so many periods; 0 where they do not overlap."""
    return max(1.0, periods / _OVERLAP) if periods > 1 else 0.0


# -- memory -----------------------------------------------------------------------------------------------------------


def _lifetimes(size: int) -> Floats:
    """The lifetimes looked for in a series: a grid from one period to a tenth of the series."""
    longest = max(4.0, min(size / 10.0, _LONGEST))
    return np.asarray(_SHORTEST * 2.0 ** (0.5 * np.arange(int(2.0 * math.log2(longest / _SHORTEST)) + 1)))


def lags_for(size: int) -> int:
    """How many autocorrelations `lifetime` looks at; 0 for a series too short to show any."""
    return math.ceil(1.5 * float(_lifetimes(size)[-1])) if size >= _SHORT else 0


@dataclass(frozen=True)
class Lags:
    """Sums and lagged products of several series side by side, over consecutive periods."""

    size: int
    sums: Floats  # one per series
    products: Floats  # series x (lags + 1)
    head: Floats  # the first periods, as many as there are lags, for the products with what came before
    tail: Floats


def lags_of(series: Floats, lags: int) -> Lags:
    """Of one block of periods; series are rows."""
    size = series.shape[1]
    products = np.zeros((series.shape[0], lags + 1))
    points = _smooth_length(size + lags)
    spectrum = np.fft.rfft(series, points)
    count = min(lags + 1, size)
    products[:, :count] = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, points)[:, :count]
    return Lags(size, series.sum(axis=1), products, series[:, :lags].copy(), series[:, max(0, size - lags) :].copy())


def join_lags(parts: Sequence[Lags]) -> Lags:
    """Of neighboring blocks, in order."""
    whole = parts[0]
    for part in parts[1:]:
        lags = whole.products.shape[1] - 1
        products = whole.products + part.products
        products[:, 1:] += _across(whole.tail, part.head, lags)
        head = np.concatenate((whole.head, part.head), axis=1)[:, :lags]
        tail = np.concatenate((whole.tail, part.tail), axis=1)
        tail = tail[:, max(0, tail.shape[1] - lags) :]
        whole = Lags(whole.size + part.size, whole.sums + part.sums, products, head, tail)
    return whole


def _across(tail: Floats, head: Floats, lags: int) -> Floats:
    """Lagged products of periods before a seam with those after it: a convolution, as their distances add up."""
    points = _smooth_length(2 * lags)
    spectrum = np.fft.rfft(tail[:, ::-1], points) * np.fft.rfft(head, points)
    return np.fft.irfft(spectrum, points)[:, :lags]


def _smooth_length(least: int) -> int:
    """A length not below ``least`` whose transforms are fast: a power of two, or 5/8 or 3/4 of one."""
    power = max(8, 1 << (least - 1).bit_length())
    return next(length for length in (5 * power // 8, 3 * power // 4, power) if length >= least)


class Memory(NamedTuple):
    """What several series side by side remember: influence values first, then losses and their distances in turn."""

    lifetime: float = 0.0  # the longest, in periods; 0 where none was found
    of_losses: float = 0.0  # the longest that the losses show, rather than their size
    effect: float = 0.0  # how strongly influence values remember for so long, in standard deviations; may be negative
    is_longest: bool = False  # whether a longer one would not have been found

    def is_left_out(self, explained: float) -> bool:
        """Whether standard errors for a memory of the lifetime ``explained`` are plainly too narrow."""
        return self.lifetime > _LONGER * explained and self.effect > 1.0

    def is_too_long(self, size: float) -> bool:
        """Whether so many periods are too few for it."""
        return self.effect > 0.0 and (self.is_longest or size < _LONG_ENOUGH * self.of_losses)


def memory_of(lags: Lags) -> Memory:
    """The memory that any of the series shows.

    Autocorrelations that fall like phi**k are matched with those of the series, for each of several phi: their weighted
    sum has standard deviation 1 where there is no memory.
    """
    size, count = lags.size, lags.products.shape[1] - 1
    if count == 0:
        return Memory()
    mean = lags.sums / size
    # sum_i (y_i - m)(y_(i+k) - m): the products less what the mean contributes, without the ends that have no partner
    ends = np.zeros((2, *lags.products.shape))
    ends[0, :, 1:], ends[1, :, 1:] = np.cumsum(lags.head, axis=1), np.cumsum(lags.tail[:, ::-1], axis=1)
    paired = 2.0 * lags.sums[:, None] - ends.sum(axis=0)
    centered = lags.products - mean[:, None] * paired + (size - np.arange(count + 1)) * mean[:, None] ** 2
    grid = _lifetimes(size)
    decay = (1.0 - 1.0 / grid) ** np.arange(1, count + 1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        strength = math.sqrt(size) * (centered[:, 1:] / centered[:, :1]) @ decay / np.sqrt((decay**2).sum(axis=0))
    # A series without variance, or beyond the range of floats, shows nothing.
    strength = np.where(np.isfinite(strength), strength, -np.inf)
    found = np.where(strength.max(axis=1) > _DETECTED, grid[strength.argmax(axis=1)], 0.0)
    longest = float(found.max())
    if longest == 0.0:
        return Memory()
    effect = float(strength[0, np.searchsorted(grid, longest)])
    return Memory(longest, float(found[1::2].max(initial=0.0)), effect, longest == grid[-1])


# -- long-run variance ------------------------------------------------------------------------------------------------


def cosines_for(size: float, lifetime: float) -> int:
    """How many cosine frequencies lie below those that the memory of a series of (effectively) that size touches."""
    return min(max(int((size / lifetime) ** (1.0 / 3.0)), _FEWEST), _MOST, max(1, math.ceil(size) - 1))


def cosine_sums(series: Floats, first: int, whole: int, count: int) -> Floats:
    """sum_i y_i cos(pi j (i + 1/2) / whole), j = 1 .. count, over the periods i from ``first`` on; series are rows.

    Of a long series neighbors are added up first, and stand in their middle.
    """
    size, length = series.shape[1], max(1, whole // _BINS)
    starts = np.arange(0, size, length)
    middle = first + 0.5 * (starts + np.minimum(starts + length, size))
    if length > 1:
        series = np.add.reduceat(series, starts, axis=1)
    return np.asarray(series @ np.cos(np.pi / whole * middle[:, None] * np.arange(1, count + 1)))


def long_run_variances(sums: Floats, size: int) -> list[float]:
    """Of each series of ``size`` periods, from its cosine sums: the mean square of its cosine coefficients."""
    return [float(found) for found in 2.0 / size * (sums * sums).mean(axis=1)]


# -- the interval -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ErrorBars:
    """Standard error, degrees of freedom and skewness of an estimate: enough for an interval at any level.

    ``rate`` is that of Hall's transformation, a third of the skewness of the estimate over its standard error. No
    degrees of freedom are left where the influence values are all equal: such a sample says nothing of its error.
    """

    stderr: float
    df: float
    rate: float

    def reach(self, level: float) -> tuple[float, float]:
        """How far the interval reaches below and above."""
        level = check_level(level)
        if self.stderr == 0.0:
            return 0.0, 0.0
        from scipy.special import stdtrit

        q = float(stdtrit(self.df, 0.5 + 0.5 * level))
        rate = abs(self.rate)
        if rate * q < 1e-8:
            return q * self.stderr, q * self.stderr
        near, far = -math.expm1(-q * rate) / rate * self.stderr, math.expm1(q * rate) / rate * self.stderr
        return (near, far) if self.rate > 0.0 else (far, near)


def error_bars(
    size: int,
    effective: float,
    variance: float,
    skewness: float,
    kurtosis: float,
    carriers: float,
    long_run: float | None = None,
    cosines: int = 0,
) -> ErrorBars:
    """The rule: standard error of the mean of influence values.

    Parameters
    ----------
    size, effective : int, float
        Number of values, and of equally weighted ones that would be as good: 1 / (sum of squared weights).
    variance, skewness, kurtosis : float
        Of the influence values, times their weights times ``size`` where those differ.
    carriers : float
        How many losses carry the risk, beyond what equal weights make of it: 1 / (1/ess - 1/effective).
    long_run : float, optional
        The long-run variance, from so many ``cosines``; None where the values are independent.
    """
    independent = max(effective - 1.0, 1.0)
    if not variance > 0.0:
        return ErrorBars(0.0, 0.0, 0.0)
    if long_run is None:
        omega, df = variance * (effective / (effective - 1.0) if effective > 1.0 else 1.0), independent
    else:
        omega, df = max(long_run, variance), float(cosines)
    ratio = omega / variance
    df = min(df, max(2.0, 2.0 * size / (max(kurtosis - 1.0, 1e-9) * ratio)), max(2.0, 0.5 * carriers / ratio))
    rate = 2.0 / 3.0 * _SKEWNESS_SHARE * skewness * math.sqrt(ratio / size)
    return ErrorBars(math.sqrt(omega / size), df, min(max(rate, -_MOST_SKEWED), _MOST_SKEWED))
