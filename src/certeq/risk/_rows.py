"""Many small problems at once: rows of a 2-d block that fits the cache, solved together.

All arithmetic is on losses less a center near the threshold: at an offset of 1e9 a float has seven digits left for
what matters, and t* - center keeps all of them. Where slopes are bounded t* lies near a quantile, however far away
the greatest loss is; where they are not, the greatest loss holds it close.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from certeq.risk._root import Floats, find_root
from certeq.risk._vector import ONE, bracket_by_breakpoints, furthest
from certeq.utilities import Exponential, Pieces, Quadratic, Utility
from certeq.utilities.forms import Form
from certeq.utilities.forms import form as form_of

_EPS = float(np.finfo(np.float64).eps)
_TOGETHER = 1 << 20  # breakpoints of all rows that are sorted at once


@dataclass
class Solved:
    """Rows with their center c and threshold c + s; ``y`` is the losses less c."""

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


def mean(a: Floats, weights: Floats | None) -> Floats:
    """Mean along rows, under weights that sum to 1."""
    if weights is None:
        return np.asarray(a.mean(axis=1))
    return np.asarray((a * weights).sum(axis=1))


def slope_and_bend(form: Form, y: Floats, t: Floats | float) -> tuple[Floats, Floats]:
    """Slope and curvature at y - t; an unknown curvature counts as 0, which turns Newton into bisection."""
    if form.utility.has_curvature:
        return form.derivatives(y, t)
    slope = np.asarray(form.left_slope(y, t))
    return slope, np.zeros_like(slope)


def without_idle(y: Floats, weights: Floats) -> Floats:
    """Rows of y with the least loss that counts in place of those without weight.

    Such a loss may lie anywhere, and must not overflow anything; the least has the least slope.
    """
    counts = weights > 0
    least = np.where(counts, y, 0.0).min(axis=1, keepdims=True)
    return np.where(counts, y, np.where(np.isfinite(least), least, 0.0))


def solve_rows(z: Floats, weights: Floats | None, utility: Utility) -> Solved:
    """Threshold and OCE of each row of z (float64, contiguous). Weights, if any, sum to 1 along rows."""
    shape = utility.shape
    least, most = utility.slope_range
    if not isinstance(shape, Exponential | Quadratic) and least < 1.0 < most < np.inf:
        center = upper_quantile(z, weights, (1.0 - least) / (most - least))
    elif weights is None:
        center = z.max(axis=1)
    else:
        center = np.where(weights > 0, z, -np.inf).max(axis=1)
    with np.errstate(over="ignore"):  # losses too far apart for their difference to be a number: see Solved.value
        y = z - center[:, None]
    if weights is not None:
        y = without_idle(y, weights)
    solved = Solved(y, weights, center, np.zeros_like(center), center)
    match shape:
        case Exponential(rate):
            _log_mean_exp(solved, rate, utility)
        case Quadratic(bend):
            _mean_and_variance(solved, bend, utility)
        case Pieces() as pieces:
            _two_pieces(solved, pieces, utility)
        case _:
            _newton(solved, utility)
    return solved


def upper_quantile(z: Floats, weights: Floats | None, tail: float) -> Floats:
    """The least loss of each row with mass above it at most ``tail``: a loss of positive weight."""
    samples = z.shape[1]
    if weights is None:
        place = samples - 1 - tail_count(tail, samples)
        return np.asarray(np.partition(z, place, axis=1)[:, place])
    order = np.argsort(-z, axis=1, kind="stable")
    ranked = np.take_along_axis(weights, order, axis=1)
    mass = np.cumsum(ranked, axis=1)
    # The last place whose mass above is within the tail; points without weight are passed over by themselves.
    within = np.concatenate([np.ones((len(z), 1), dtype=bool), mass[:, :-1] <= tail * (1 + 4 * _EPS)], axis=1)
    within &= ranked > 0
    last = samples - 1 - np.argmax(within[:, ::-1], axis=1)
    return np.asarray(np.take_along_axis(np.take_along_axis(z, order, axis=1), last[:, None], axis=1)[:, 0])


def _log_mean_exp(solved: Solved, rate: float, utility: Utility) -> None:
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


def _mean_and_variance(solved: Solved, bend: float, utility: Utility) -> None:
    average = mean(solved.y, solved.weights)
    deviation = solved.y - average[:, None]
    variance = mean(deviation * deviation, solved.weights)
    solved.s = average - utility.anchor
    solved.value = solved.center + average + utility.oce_of_zero + 0.5 * bend * variance


def _two_pieces(solved: Solved, pieces: Pieces, utility: Utility) -> None:
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


def tail_count(tail: float, samples: int) -> int:
    """How many whole samples the tail holds; 100 * 0.29 is 28.999999999999996 in floats and means 29."""
    return min(int(tail * samples * (1.0 + 4.0 * _EPS)), samples - 1)


def _newton(solved: Solved, utility: Utility) -> None:
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
        slope, curvature = slope_and_bend(form, part, t[:, None])
        return mean(slope, w), mean(curvature, w)

    opened = np.arange(len(y))
    solved.s = high
    if form.kinks:
        low, high, settled = _between_breakpoints(y, weights, form, low, high)
        solved.s, opened = high.copy(), np.flatnonzero(~settled)
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
                found.append(bracket_by_breakpoints(row, partial(_mean_of_one, w), form, float(low[i]), float(high[i])))
            lows, highs, on_kink = zip(*found, strict=True)
            return np.array(lows), np.array(highs), np.array(on_kink)
        points = np.sort(np.concatenate([y - at for at in form.places], axis=1), axis=1)
        row = np.arange(len(y))
        a, b = np.full(len(y), -1), np.full(len(y), points.shape[1])
        while np.any(b - a > 1):
            middle = np.clip((a + b) // 2, 0, points.shape[1] - 1)
            above = mean(form.left_slope(y, points[row, middle][:, None]), weights) > ONE
            a, b = np.where((b - a > 1) & above, middle, a), np.where((b - a > 1) & ~above, middle, b)
        left = np.where(a >= 0, points[row, np.maximum(a, 0)], low)
        right = np.where(b < points.shape[1], points[row, np.minimum(b, points.shape[1] - 1)], high)
        limit = mean(form.slopes(y, right[:, None])[1], weights)
    settled = (b < points.shape[1]) & (limit >= 2.0 - ONE)
    return np.minimum(left, right), right, settled


def _mean_of_one(weights: Floats | None, a: Floats) -> float:
    return float(mean(a[None, :], weights)[0])


def tilt_rows(solved: Solved, utility: Utility) -> Floats:
    """q_i = w_i u'(z_i - t*), ties at a kink sharing what is left so that each row sums to 1."""
    y, t, shape = solved.y, solved.s[:, None], utility.shape
    weights = np.full(y.shape, 1.0 / y.shape[1]) if solved.weights is None else solved.weights
    if isinstance(shape, Pieces) and shape.low == shape.high:
        return weights
    with np.errstate(under="ignore"):
        left, right = form_of(utility).slopes(y, t)
    q = weights * left
    if right is not left:
        below, above = q.sum(axis=1), (weights * right).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.clip(np.where(above > below, (1.0 - below) / (above - below), 0.0), 0.0, 1.0)
        q = weights * (left + share[:, None] * (right - left))
    if not utility.is_monotone:  # slopes of both signs: their sum has fewer digits than the 1 it should be
        return np.asarray(q)
    return np.asarray(q / q.sum(axis=1, keepdims=True))
