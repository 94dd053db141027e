"""Many small problems at once: rows of a 2-d block that fits the cache, solved together.

All arithmetic is on losses less a center near the threshold: at an offset of 1e9 a float has seven digits left for
what matters, and t* - center keeps all of them. Where slopes are bounded t* lies near a quantile, however far away
the greatest loss is; where they are not, the greatest loss is never far from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.risk._breakpoints import bracket_by_breakpoints
from certeq.risk._vector import ONE, furthest, rank_of, solve_each
from certeq.utilities import Exponential, Pieces, Quadratic, Utility
from certeq.utilities.forms import Form
from certeq.utilities.forms import form as form_of

Floats = NDArray[np.float64]
# (t of the rows still open, their indices) -> mean slope and mean curvature there
MeanSlope = Callable[[Floats, NDArray[np.intp]], tuple[Floats, Floats]]

_EPS = float(np.finfo(np.float64).eps)
_NOISE = 4.0 * _EPS  # a mean may be so many of its terms' mean sizes above the level and still be level
_STEPS = 2200  # bisection of the widest float interval ends well before
_TOGETHER = 1 << 20  # breakpoints of all rows that are sorted at once


@dataclass
class SolvedRows:
    """Rows with their center c and threshold c + s; ``y`` is the losses less c."""

    utility: Utility
    y: Floats
    weights: Floats | None
    center: Floats
    s: Floats
    value: Floats
    evaluations: int = 1

    @property
    def threshold(self) -> Floats:
        """t* in the units of the losses."""
        return self.center + self.s

    def tilt(self) -> Floats:
        """q_i = w_i u'(z_i - t*), ties at a kink sharing what is left so that each row sums to 1."""
        y, shape = self.y, self.utility.shape
        weights = np.full(y.shape, 1.0 / y.shape[1]) if self.weights is None else self.weights
        if isinstance(shape, Pieces) and shape.low == shape.high:
            return weights
        with np.errstate(under="ignore"):
            left, right = form_of(self.utility).slopes(y, self.s[:, None])
        q = weights * left
        if right is not left:
            below, above = q.sum(axis=1), (weights * right).sum(axis=1)
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.clip(np.where(above > below, (1.0 - below) / (above - below), 0.0), 0.0, 1.0)
            q = weights * (left + share[:, None] * (right - left))
        if not self.utility.is_monotone:  # slopes of both signs: their sum has fewer digits than the 1 it should be
            return np.asarray(q)
        return np.asarray(q / q.sum(axis=1, keepdims=True))


def mean(a: Floats, weights: Floats | None) -> Floats:
    """Mean along rows, under weights that sum to 1."""
    if weights is None:
        return np.asarray(a.mean(axis=1))
    return np.asarray((a * weights).sum(axis=1))


def slope_and_curvature(form: Form, y: Floats, t: Floats | float) -> tuple[Floats, Floats]:
    """Slope and curvature at y - t; an unknown curvature counts as 0, which turns Newton into bisection."""
    if form.utility.has_curvature:
        return form.derivatives(y, t)
    slope = np.asarray(form.left_slope(y, t))
    return slope, np.zeros_like(slope)


def with_least_for_zero_weight(y: Floats, weights: Floats) -> Floats:
    """Rows of y with the least loss that counts in place of those without weight.

    Such a loss may lie anywhere, and must not overflow anything; the least has the least slope.
    """
    counts = weights > 0
    least = np.where(counts, y, 0.0).min(axis=1, keepdims=True)
    return np.where(counts, y, np.where(np.isfinite(least), least, 0.0))


def solve_rows(z: Floats, weights: Floats | None, utility: Utility) -> SolvedRows:
    """Threshold and OCE of each row of z (float64, contiguous). Weights, if any, sum to 1 along rows."""
    shape = utility.shape
    least, most = utility.slope_range
    if not isinstance(shape, Exponential | Quadratic) and least < 1.0 < most < np.inf:
        center = upper_quantile(z, weights, (1.0 - least) / (most - least))
    elif weights is None:
        center = z.max(axis=1)
    else:
        center = np.where(weights > 0, z, -np.inf).max(axis=1)
    with np.errstate(over="ignore"):  # losses too far apart for their difference to be a number: see SolvedRows.value
        y = z - center[:, None]
    if weights is not None:
        y = with_least_for_zero_weight(y, weights)
    solved = SolvedRows(utility, y, weights, center, np.zeros_like(center), center)
    match shape:
        case Exponential(rate):
            _log_mean_exp(solved, rate, utility)
        case Quadratic(curvature):
            _mean_and_variance(solved, curvature, utility)
        case Pieces() as pieces:
            _two_pieces(solved, pieces, utility)
        case _:
            _newton(solved, utility)
    return solved


def values_of_rows(z: Floats, weights: Floats | None, utility: Utility) -> tuple[Floats, Floats]:
    """OCE and threshold of each row, by the compiled routine where it knows the slope and there are no weights."""
    found = solve_each(z, form_of(utility)) if weights is None else None
    if found is not None:
        return np.asarray(found[0], np.float64), np.asarray(found[1], np.float64)
    solved = solve_rows(z, weights, utility)
    return solved.value, solved.threshold


def upper_quantile(z: Floats, weights: Floats | None, tail: float) -> Floats:
    """The least loss of each row with mass above it at most ``tail``: a loss of positive weight."""
    samples = z.shape[1]
    if weights is None:
        rank = rank_of(samples, tail)
        return np.asarray(np.partition(z, rank, axis=1)[:, rank])
    order = np.argsort(-z, axis=1, kind="stable")
    ranked = np.take_along_axis(weights, order, axis=1)
    mass = np.cumsum(ranked, axis=1)
    # The last rank whose mass above is within the tail; points without weight are passed over by themselves.
    within = np.concatenate([np.ones((len(z), 1), dtype=bool), mass[:, :-1] <= tail * (1 + 4 * _EPS)], axis=1)
    within &= ranked > 0
    last = samples - 1 - np.argmax(within[:, ::-1], axis=1)
    return np.asarray(np.take_along_axis(np.take_along_axis(z, order, axis=1), last[:, None], axis=1)[:, 0])


def _log_mean_exp(solved: SolvedRows, rate: float, utility: Utility) -> None:
    with np.errstate(under="ignore"):
        exponent = rate * solved.y
        flat = exponent.min(axis=1) > -1.0
        if np.all(flat):
            total = np.log1p(mean(np.expm1(exponent), solved.weights))
        else:
            total = np.log(mean(np.exp(exponent), solved.weights))
            if np.any(flat):  # near-constant rows: 1 + a small mean would round the answer away
                small = None if solved.weights is None else solved.weights[flat]
                total[flat] = np.log1p(mean(np.expm1(exponent[flat]), small))
    solved.s = total / rate - utility.anchor
    solved.value = solved.center + total / rate + utility.oce_of_zero


def _mean_and_variance(solved: SolvedRows, curvature: float, utility: Utility) -> None:
    average = mean(solved.y, solved.weights)
    deviation = solved.y - average[:, None]
    variance = mean(deviation * deviation, solved.weights)
    solved.s = average - utility.anchor
    solved.value = solved.center + average + utility.oce_of_zero + 0.5 * curvature * variance


def _two_pieces(solved: SolvedRows, pieces: Pieces, utility: Utility) -> None:
    """low * mean + (1 - low) * CVaR; the center is the quantile."""
    average = mean(solved.y, solved.weights) if pieces.low != 0.0 else np.zeros_like(solved.center)
    if pieces.low == pieces.high:
        solved.s = average - utility.anchor
        solved.value = solved.center + average + utility.oce_of_zero
        return
    solved.s = np.full_like(solved.center, -pieces.kink)
    excess = mean(np.maximum(solved.y, 0.0), solved.weights)
    level = pieces.low * average + (pieces.high - pieces.low) * excess
    solved.value = solved.center + (level + (float(utility.value(pieces.kink)) - pieces.kink))


def _newton(solved: SolvedRows, utility: Utility) -> None:
    y, weights, anchor, form = solved.y, solved.weights, utility.anchor, form_of(utility)
    low, high = y.min(axis=1) - anchor, y.max(axis=1) - anchor
    bounded = utility.slope_range[1] < np.inf  # then the center is a good guess
    if not bounded and utility.is_monotone:
        # The greatest loss alone keeps the mean slope above 1 where its own exceeds the inverse of its weight.
        least = 1.0 / y.shape[1] if weights is None else float(weights[weights > 0.0].min())
        low = np.maximum(low, y.max(axis=1) - furthest(form, 1.0 / least))
    start = (np.zeros_like(low) if bounded else mean(y, weights)) - anchor

    def mean_slope(t: Floats, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
        part, w = y, weights
        if rows.size < len(y):
            part, w = y[rows], None if weights is None else weights[rows]
        slope, curvature = slope_and_curvature(form, part, t[:, None])
        return mean(slope, w), mean(curvature, w)

    opened = np.arange(len(y))
    solved.s = high
    if form.kinks:
        low, high, on_kink = _between_breakpoints(y, weights, form, low, high)
        solved.s, opened = high.copy(), np.flatnonzero(~on_kink)
        start = 0.5 * (low + high)
    if opened.size:
        root = find_root(
            lambda t, rows: mean_slope(t, opened[rows]), low[opened], high[opened], start[opened], utility.growth
        )
        solved.s[opened], solved.evaluations = root.t, root.evaluations
    with np.errstate(over="ignore"):
        solved.value = solved.center + (solved.s + mean(utility.value(y - solved.s[:, None]), weights))


def _between_breakpoints(
    y: Floats, weights: Floats | None, form: Form, low: Floats, high: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """`bracket_by_breakpoints` of every row; all rows at once where they have few breakpoints."""
    with np.errstate(over="ignore"):
        if y.size * len(form.kinks) > _TOGETHER or len(y) == 1:
            found = []
            for i, row in enumerate(y):
                w = None if weights is None else weights[i : i + 1]
                one = None if w is None else w[0]
                ends = float(low[i]), float(high[i])
                found.append(bracket_by_breakpoints(row, one, partial(_mean_of_one, w), form, *ends))
            lows, highs, on_kink = zip(*found, strict=True)
            return np.array(lows), np.array(highs), np.array(on_kink)
        points = np.sort(np.concatenate([y - at for at in form.kink_locations], axis=1), axis=1)
        row = np.arange(len(y))
        a, b = np.full(len(y), -1), np.full(len(y), points.shape[1])
        while np.any(b - a > 1):
            middle = np.clip((a + b) // 2, 0, points.shape[1] - 1)
            above = mean(form.left_slope(y, points[row, middle][:, None]), weights) > ONE
            a, b = np.where((b - a > 1) & above, middle, a), np.where((b - a > 1) & ~above, middle, b)
        left = np.where(a >= 0, points[row, np.maximum(a, 0)], low)
        right = np.where(b < points.shape[1], points[row, np.minimum(b, points.shape[1] - 1)], high)
        limit = mean(form.slopes(y, right[:, None])[1], weights)
    on_kink = (b < points.shape[1]) & (limit >= 2.0 - ONE)
    return np.minimum(left, right), right, on_kink


def _mean_of_one(weights: Floats | None, a: Floats) -> float:
    return float(mean(a[None, :], weights)[0])


# -- the root finder --------------------------------------------------------------------------------------------------


@dataclass
class Root:
    """t with mean slope 1, the slope reached there, and the final bracket; one entry per row."""

    t: Floats
    slope: Floats
    low: Floats
    high: Floats
    evaluations: int


def find_root(
    mean_slope: MeanSlope,
    low: Floats,
    high: Floats,
    start: Floats,
    growth: float = 1.0,
    target: float = 1.0,
) -> Root:
    """Safeguarded Newton for ``mean slope(t) = target``, many rows at once.

    Newton works on the growth-th root of the mean slope: far from the root of a power the plain step contracts by
    1 - 1/p only. A step that leaves the bracket, or a residual that does not halve, is replaced by bisection.

    A row ends when its step or its residual is down to rounding, or its bracket has closed.
    """
    t = np.clip(start, low, high)
    low, high = low.copy(), high.copy()
    slope = np.full(t.shape, np.nan)
    rows = np.arange(t.size)
    last = np.full(t.shape, np.inf)  # size of the previous residual
    evaluations = 0
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            at = t[rows]
            m, h = mean_slope(at, rows)
            evaluations += 1
            slope[rows] = m
            above = m > target
            low[rows] = np.where(above, at, low[rows])
            high[rows] = np.where(above, high[rows], at)
            lo, hi = low[rows], high[rows]
            residual = np.abs(m - target)
            step = step_of(m, h, growth, target)
            trial, middle = at + step, 0.5 * (lo + hi)
            inside = (trial > lo) & (trial < hi)
            before = last[rows]
            slow = residual > 0.5 * before
            last[rows] = np.where(slow, np.inf, residual)
            # Sums of rounded slopes wobble by some eps; a residual of that size which no longer falls is the end.
            done = residual <= 4.0 * _EPS * target
            # A step below rounding is the end too, unless the curve is steep just here (or its slope has overflowed).
            done |= (np.abs(step) <= _EPS * np.abs(at)) & (residual <= 1e-3 * target)
            done |= slow & (residual <= 256.0 * _EPS * target)
            # Newton squares the error: the residual to come is about (residual / before**2) * residual**2. When that
            # is far below rounding the last step is taken on trust, which saves one pass over the data. Only near the
            # root, though: from afar a residual can fall a millionfold and still be large.
            trusted = inside & ~slow & (16.0 * (residual / before) ** 2 * residual <= 4.0 * _EPS * target)
            trusted &= (before <= 0.1 * target) & (residual <= 1e-2 * before) & ~done
            closed = ~((middle > lo) & (middle < hi))
            t[rows] = np.where(closed, hi, np.where(done, at, np.where(inside & ~slow, trial, middle)))
            rows = rows[~(done | closed | trusted)]
            if rows.size == 0:
                return Root(t, slope, low, high, evaluations)
    raise RuntimeError(f"No threshold found in {_STEPS} steps; the slope is not a decreasing function of t.")


def step_of(m: Any, h: Any, growth: float = 1.0, target: float = 1.0) -> Any:
    """Newton's step from a mean slope m of mean curvature h, on the growth-th root of m."""
    if growth == 1.0:
        return (m - target) / h
    return growth * m * (1.0 - (m / target) ** (-1.0 / growth)) / h


# -- an opaque increasing function ------------------------------------------------------------------------------------


def solve_rising_rows(
    z: Floats, w: Floats | None, function: Callable[[Any], Any], level: float, anchor: float
) -> Floats:
    """The smallest t of each row at which the mean of function(z - t) is at most the level; the function rises."""
    counted = z if w is None else np.where(w > 0, z, np.nan)
    center = np.nanmax(counted, axis=1)
    y = z - center[:, None] if w is None else with_least_for_zero_weight(z - center[:, None], w)
    least = np.nanmin(counted, axis=1) - center
    low = below_all(least, least, anchor)

    def excess(t: Floats) -> Floats:
        with np.errstate(all="ignore"):
            values = np.asarray(function(y - t[:, None]), dtype=float)
            means = mean(values, w)
        if np.isnan(means).any():
            raise no_mean(float((center + t)[np.isnan(means)][0]))
        return np.asarray(excess_of(means, mean(np.abs(values), w), level))

    return np.asarray(center + _smallest(excess, low, np.full(len(z), -anchor), level))


def _smallest(excess: Callable[[Floats], Floats], low: Floats, high: Floats, level: float) -> Floats:
    """The smallest t with excess(t) <= 0, by chords safeguarded by bisection, to neighboring floats."""
    above, below = excess(low), excess(high)
    noise = 1e-9 * (np.abs(level) + np.abs(above) + np.abs(below))
    if np.any(below > noise) or np.any(above < -noise):
        raise ValueError("loss must be increasing; on these losses its mean rises with t.")
    for step in range(2200):
        middle = 0.5 * (low + high)
        closed = ~((middle > low) & (middle < high))
        # Reaching the level exactly from the right is not yet the smallest t of a flat stretch; a closed bracket is.
        if np.all(closed):
            break
        with np.errstate(all="ignore"):
            chord = high - below * (high - low) / (below - above)
        # Every third step bisects, so that a jump cannot hold the chord at one end.
        trial = np.where((step % 3 < 2) & (chord > low) & (chord < high), chord, middle)
        trial = np.where(closed, high, trial)
        g = excess(trial)
        up = (g > 0) & ~closed
        low, above = np.where(up, trial, low), np.where(up, g, above)
        high, below = np.where(up, high, trial), np.where(up, below, g)
    return high


def excess_of(mean: Any, size: Any, level: float) -> Any:
    """How far a mean of numbers of this mean size is above the level, less what rounding may have added."""
    with np.errstate(all="ignore"):
        return mean - level - _NOISE * (np.where(np.isfinite(size), size, 0.0) + abs(level))


def below_all(least: Any, furthest: Any, anchor: float) -> Any:
    """A t below every answer: so far below least - anchor that x - t passes the anchor in rounded numbers too."""
    t = least - anchor
    return np.nextafter(t, -np.inf) - 2.0 * np.spacing(np.abs(furthest) + abs(anchor))


def no_mean(t: float) -> OverflowError:
    """What to raise where the function overflows to both sides."""
    return OverflowError(
        f"The mean of loss(x - t) is not a number at t = {t:g}: loss overflows to +inf for some losses and to -inf for "
        "others. Use larger units for x, or a loss that grows more slowly."
    )
