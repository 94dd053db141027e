"""One vector of losses on the CPU: OCE, shortfall and tilt in one go, at the least overhead.

A training batch is small: the cost of its loss is the number of calls, not the arithmetic. A Python loop may stop as
soon as it has converged, and value and gradient share all the work. In the midst of a training step the first call of
a function costs several times a repeated one, so the fewer *different* calls the better: one sort tells the least and
greatest loss, whether all are finite, and the quantile.

Everything else (rows of a batch, other devices, compiled code, derivatives of derivatives) is in ``_rows``; the two
share no code, and the tests hold them against each other.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from certeq.risk._vector import bracket_by_breakpoints
from certeq.torch._starts import Floats, Mean, near_quantile, rank_of, tail_of, upper_quantile
from certeq.utilities import Exponential, Pieces, Quadratic, Utility
from certeq.utilities._backend import NUMPY
from certeq.utilities.forms import form

SMALL = 4096  # up to here a call costs more than its arithmetic: sort rather than select, float64 rather than float32
COARSE = 1e-9  # a tolerance from here on asks for the digits of float32
_EPS = 2.0**-52
_ones = [np.ones(0)]


class Solved(NamedTuple):
    """OCE, the shortfall t*, and the tilt q_i = w_i u'(x_i - t*)."""

    value: float
    shortfall: float
    tilt: Floats


class _Answer(NamedTuple):
    """OCE and shortfall of centred losses; the tilt is weight * density / total."""

    value: float
    shortfall: float
    density: Floats
    total: float = 1.0


def solve_vector(
    x: Floats,
    weights: Floats | None,
    utility: Utility,
    tolerance: float = 1e-14,
    dtype: DTypeLike = np.float64,
) -> Solved | None:
    """Solve one vector; None where its losses are not all finite, or too far apart for their dtype.

    Weights, if any, sum to 1. ``tolerance`` bounds the mean slope's distance from 1; ``dtype`` is that of the tilt.
    """
    size = x.shape[0]
    shape, tail = utility.shape, tail_of(utility)
    held = x if weights is None else x[weights > 0]
    if size <= SMALL:
        parted = np.sort(held)
        low, high = float(parted[0]), float(parted[-1])
    else:
        parted, low, high = held, float(held.min()), float(held.max())
    most = math.inf if x.itemsize == 8 else 1e30  # sums and powers of larger differences would leave float32
    if not (high - low < most or (isinstance(shape, Exponential) and -math.inf < high < math.inf)):
        return None
    # At an offset of 1e9 a float has seven digits left; losses less a center near the threshold keep all of them.
    centre = high
    if tail is not None and not isinstance(shape, Exponential | Quadratic):
        if weights is not None:
            centre = upper_quantile(x, weights, tail)
        else:
            place = rank_of(size, tail)
            parted = parted if size <= SMALL else np.partition(held, place)
            centre = float(parted[place])
    z = x - centre
    if weights is not None:
        # A loss without weight may lie anywhere, and must not overflow anything: the least does not.
        z = np.where(weights > 0, z, x.dtype.type(low - centre if low > -math.inf else 0.0))
        mean: Mean = lambda a: float(a.dot(weights))
    elif size <= SMALL:
        ones = _ones[0]
        if ones.shape[0] != size:
            ones = _ones[0] = np.ones(size)
        mean = lambda a: float(a.dot(ones)) / size
    else:
        mean = lambda a: float(np.add.reduce(a)) / size
    if isinstance(shape, Pieces):
        answer = _two_pieces(z, mean, shape, utility)
    elif isinstance(shape, Exponential):
        answer = _log_mean_exp(z, mean, shape.rate, utility)
    elif shape is not None:
        answer = _mean_and_variance(z, mean, shape.bend, utility)
    else:
        anchor = utility.anchor
        if tail is None:
            start = mean(z) - anchor
        else:
            start = -0.5 * anchor if weights is not None else near_quantile(parted, centre, tail, anchor)
        answer = _by_search(z, mean, utility, low - centre, high - centre, start, tolerance)
    if weights is None:
        scale = 1.0 / (size * answer.total)
        tilt = np.multiply(answer.density, scale, dtype=dtype, casting="same_kind")
    else:
        tilt = (answer.density * weights / answer.total).astype(dtype, copy=False)
    return Solved(centre + answer.value, centre + answer.shortfall, tilt)


def _by_search(
    z: Floats, mean: Mean, utility: Utility, low: float, high: float, start: float, tolerance: float
) -> _Answer:
    least, most = utility.slope_range
    # Low powers and bounded slopes do not overflow on losses of a sane size; the others may, harmlessly.
    tame = (1.0 < utility.growth <= 4.0 or most - least < math.inf) and high - low < 1e50
    with nullcontext() if tame else np.errstate(all="ignore"):
        anchor = utility.anchor
        if form(utility).kinks:
            return _with_kinks(z, mean, utility, low - anchor, high - anchor, tolerance)
        return _solve(z, mean, utility, low - anchor, high - anchor, start, tolerance)


# -- closed forms ------------------------------------------------------------------------------------------------------


def _of_zero(utility: Utility, anchor: float) -> float:
    return float(utility._value(anchor, NUMPY)) - anchor


def _log_mean_exp(z: Floats, mean: Mean, rate: float, utility: Utility) -> _Answer:
    exponent = z * rate
    density = np.exp(exponent)
    total = mean(density)
    if total > 0.5:  # nearly constant losses: 1 + a small mean would round the answer away
        certain = math.log1p(mean(np.expm1(exponent))) / rate
    else:
        certain = math.log(total) / rate
    anchor = utility.anchor
    return _Answer(certain + _of_zero(utility, anchor), certain - anchor, density, total)


def _mean_and_variance(z: Floats, mean: Mean, bend: float, utility: Utility) -> _Answer:
    middle = mean(z)
    y = z - middle
    variance = mean(y * y)
    y *= bend
    y += 1.0
    anchor = utility.anchor
    return _Answer(middle + 0.5 * bend * variance + _of_zero(utility, anchor), middle - anchor, y)


def _two_pieces(z: Floats, mean: Mean, pieces: Pieces, utility: Utility) -> _Answer:
    """low * mean + (1 - low) * CVaR of losses less their quantile; ties there share the mass that is left."""
    if pieces.low == pieces.high:
        middle, anchor = mean(z), utility.anchor
        return _Answer(middle + _of_zero(utility, anchor), middle - anchor, np.ones_like(z))
    tail, rise = pieces.tail, pieces.high - pieces.low
    density = (z > 0.0).astype(z.dtype)
    ties = z == 0.0
    mass, excess, tied = mean(density), mean(density * z), mean(ties.astype(z.dtype))
    density *= rise
    density[ties] = rise * max(tail - mass, 0.0) / tied
    value = rise * excess + _of_zero(utility, pieces.kink)
    if pieces.low != 0.0:
        density += pieces.low
        value += pieces.low * mean(z)
    return _Answer(value, -pieces.kink, density)


# -- everything else: Newton in a bracket ------------------------------------------------------------------------------


def _solve(z: Floats, mean: Mean, utility: Utility, low: float, high: float, start: float, tolerance: float) -> _Answer:
    """Safeguarded Newton on a function of the mean slope that is nearly a straight line in t.

    That is the p-th root where the slope grows like a power p, and the log-odds where it is bounded (one sigmoid
    would be hit exactly). A step out of the bracket, or a residual that does not halve, is replaced by bisection.

    A float32 batch asks for few digits; then the later steps interpolate what is known of t as a function of the
    residual, by a parabola, and need no curvature.
    """
    shape, power, (least, most) = form(utility), utility.growth, utility.slope_range
    bounded = math.isfinite(most - least)
    odds = math.log((1.0 - least) / (most - 1.0)) if bounded else 0.0
    coarse, known = tolerance >= COARSE, False
    t, last = min(max(start, low), high), math.inf
    f = math.nan
    seen: list[tuple[float, float, float]] = []  # (residual, t, dt/d residual or NaN) since the last bisection
    while True:
        if known:
            slope, h = shape.left_slope(z, t), math.nan
        else:
            slope, curvature = shape.derivatives(z, t)
            h = mean(curvature)
        m = mean(slope)
        size = abs(m - 1.0)
        if size <= tolerance:
            break
        if m > 1.0:
            low = t
        else:
            high = t
        middle = 0.5 * (low + high)
        if size > 0.5 * last and size <= 64 * tolerance:
            break  # sums of rounded slopes wobble
        if not low < middle < high:
            return _between(z, mean, utility, low, high)
        f = math.nan
        within = least < m < most and (bounded or power == 1.0 or m > 0.0)  # slopes may be negative, and have no root
        if within:
            f = math.log((m - least) / (most - m)) - odds if bounded else m ** (1.0 / power) - 1.0
        run = math.nan
        if within and not known and h > 0.0:
            steep = (most - least) / ((m - least) * (most - m)) if bounded else m ** (1.0 / power - 1.0) / power
            run = -1.0 / (steep * h)
        seen.append((f, t, run))
        trial = _interpolate(seen) if known else t - run * f
        if low < trial < high and not size > 0.5 * last:
            t, last, known = trial, size, coarse
        else:
            t, last, known = middle, math.inf, False
            seen.clear()
    return _Answer(t + mean(utility._value(z - t, NUMPY)), t, slope, m if 0.0 < m < math.inf else 1.0)


def _between(z: Floats, mean: Mean, utility: Utility, low: float, high: float) -> _Answer:
    """Where the mean slope passes 1 between neighbouring floats: the slopes at both, mixed so that their mean is 1."""
    shape = form(utility)
    density, above = shape.left_slope(z, high), shape.left_slope(z, low)
    m, most = mean(density), mean(above)
    if most > 1.0 > m:
        density = density + (1.0 - m) / (most - m) * (above - density)
        m = 1.0
    return _Answer(high + mean(utility._value(z - high, NUMPY)), high, density, m if 0.0 < m < math.inf else 1.0)


def _interpolate(seen: list[tuple[float, float, float]]) -> float:
    """t where the residual is 0, by the parabola t(f) through the last points; through two, with the slope at one."""
    (f1, t1, run), (f2, t2, _) = seen[-2:]
    if f1 == f2:
        return math.nan
    chord = (t2 - t1) / (f2 - f1)
    if len(seen) == 2:
        bend = (chord - run) / (f2 - f1)
    else:
        f0, t0, _ = seen[-3]
        if f0 in (f1, f2):
            return t2 - chord * f2
        bend = (chord - (t1 - t0) / (f1 - f0)) / (f2 - f0)
    return t2 - chord * f2 + bend * f1 * f2


def _with_kinks(z: Floats, mean: Mean, utility: Utility, low: float, high: float, tolerance: float) -> _Answer:
    """Where the slope jumps, t* either puts a loss on a kink or lies between two such places, where Newton works."""
    shape = form(utility)
    low, t, on_kink = bracket_by_breakpoints(z, mean, shape, low, high)
    if not on_kink:
        return _solve(z, mean, utility, low, t, 0.5 * (low + t), tolerance)
    left, right = shape.slopes(z, t)
    jump = right - left
    m, rise = mean(left), mean(jump)
    density = left + jump * (min(max((1.0 - m) / rise, 0.0), 1.0) if rise > 0.0 else 0.0)
    return _Answer(t + mean(utility._value(z - t, NUMPY)), t, density)
