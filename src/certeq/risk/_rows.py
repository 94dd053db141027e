"""Many small problems at once: rows of a 2-d block that fits the cache, solved together.

All arithmetic is on losses less their row's maximum: at an offset of 1e9 a float has seven digits left for what
matters, and t* - max keeps all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certeq.risk._root import Floats, find_root
from certeq.utilities import Exponential, Pieces, Quadratic, Utility

_EPS = float(np.finfo(np.float64).eps)


@dataclass
class Solved:
    """Rows with their centre c and shortfall c + s; ``y`` is the losses less c."""

    y: Floats
    weights: Floats | None
    centre: Floats
    s: Floats
    value: Floats
    evaluations: int = 1
    t: Floats | None = None

    @property
    def shortfall(self) -> Floats:
        """t* in the units of the losses."""
        return self.centre + self.s if self.t is None else self.t


def mean(a: Floats, weights: Floats | None) -> Floats:
    """Mean along rows, under weights that sum to 1."""
    if weights is None:
        return np.asarray(a.mean(axis=1))
    return np.asarray((a * weights).sum(axis=1))


def slope_and_bend(utility: Utility, x: Floats) -> tuple[Floats, Floats]:
    """Slope and curvature; an unknown curvature counts as 0, which turns Newton into bisection."""
    if utility.has_curvature:
        return utility.derivatives(x)
    slope = np.asarray(utility.slope(x))
    return slope, np.zeros_like(slope)


def without_idle(y: Floats, weights: Floats) -> Floats:
    """Rows of y with the least loss that counts in place of those without weight.

    Such a loss may lie anywhere, and must not overflow anything; the least has the least slope.
    """
    counts = weights > 0
    least = np.where(counts, y, 0.0).min(axis=1, keepdims=True)
    return np.where(counts, y, np.where(np.isfinite(least), least, 0.0))


def solve_rows(z: Floats, weights: Floats | None, utility: Utility) -> Solved:
    """Shortfall and OCE of each row of z (float64, contiguous). Weights, if any, sum to 1 along rows."""
    if weights is None:
        centre = z.max(axis=1)
    else:
        centre = np.where(weights > 0, z, -np.inf).max(axis=1)
    y = z - centre[:, None]
    if weights is not None:
        y = without_idle(y, weights)
    solved = Solved(y, weights, centre, np.zeros_like(centre), centre)
    match utility.shape:
        case Exponential(rate):
            _log_mean_exp(solved, rate, utility)
        case Quadratic(bend):
            _mean_and_variance(solved, bend, utility)
        case Pieces() as pieces:
            _quantile(solved, pieces, utility, z)
        case _:
            _newton(solved, utility)
    return solved


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
    solved.value = solved.centre + total / rate + utility.oce_of_zero


def _mean_and_variance(solved: Solved, bend: float, utility: Utility) -> None:
    average = mean(solved.y, solved.weights)
    deviation = solved.y - average[:, None]
    variance = mean(deviation * deviation, solved.weights)
    solved.s = average - utility.anchor
    solved.value = solved.centre + average + utility.oce_of_zero + 0.5 * bend * variance


def _quantile(solved: Solved, pieces: Pieces, utility: Utility, z: Floats) -> None:
    y, weights = solved.y, solved.weights
    samples = y.shape[1]
    average = mean(y, weights)
    if pieces.low == pieces.high:
        solved.s, excess = average - utility.anchor, np.zeros_like(average)
        quantile = average
    elif weights is None:
        above = tail_count(pieces.tail, samples)
        part = np.partition(z, samples - 1 - above, axis=1)
        solved.t = part[:, samples - 1 - above]
        quantile = solved.t - solved.centre
        excess = (part[:, samples - above :] - solved.t[:, None]).sum(axis=1) / samples
    else:
        order = np.argsort(-y, axis=1, kind="stable")
        mass = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
        # The last place whose mass above is within the tail; points without weight are passed over by themselves.
        within = np.concatenate(
            [np.ones((len(y), 1), dtype=bool), mass[:, :-1] <= pieces.tail * (1 + 4 * _EPS)], axis=1
        )
        last = samples - 1 - np.argmax(within[:, ::-1], axis=1)
        held = np.take_along_axis(weights, order, axis=1) > 0
        last = np.minimum(last, samples - 1 - np.argmax(held[:, ::-1], axis=1))
        solved.t = np.take_along_axis(np.take_along_axis(z, order, axis=1), last[:, None], axis=1)[:, 0]
        quantile = solved.t - solved.centre
        excess = mean(np.maximum(y - quantile[:, None], 0.0), weights)
    if pieces.low != pieces.high:
        solved.s = quantile - pieces.kink
        assert solved.t is not None
        solved.t = solved.t - pieces.kink  # a loss itself, where the kink is at 0
    base = float(utility.value(pieces.kink)) - pieces.kink
    level = quantile + pieces.low * (average - quantile) + (pieces.high - pieces.low) * excess
    solved.value = solved.centre + level + base


def tail_count(tail: float, samples: int) -> int:
    """How many whole samples the tail holds; 100 * 0.29 is 28.999999999999996 in floats and means 29."""
    return min(int(tail * samples * (1.0 + 4.0 * _EPS)), samples - 1)


def _newton(solved: Solved, utility: Utility) -> None:
    y, weights, anchor = solved.y, solved.weights, utility.anchor
    low, high = y.min(axis=1) - anchor, np.full(len(y), -anchor)
    start = _start(y, weights, utility)

    def mean_slope(t: Floats, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
        part, w = y, weights
        if rows.size < len(y):
            part, w = y[rows], None if weights is None else weights[rows]
        slope, curvature = slope_and_bend(utility, part - t[:, None])
        return mean(slope, w), mean(curvature, w)

    opened = np.arange(len(y))
    solved.s = high
    if utility.kinks:
        low, high, settled = _between_kinks(solved, utility, low, high)
        solved.s, opened = high.copy(), np.flatnonzero(~settled)
        start = 0.5 * (low + high)
    if opened.size:
        root = find_root(
            lambda t, rows: mean_slope(t, opened[rows]), low[opened], high[opened], start[opened], utility.growth
        )
        solved.s[opened], solved.evaluations = root.t, root.evaluations
    with np.errstate(over="ignore"):
        solved.value = solved.centre + (solved.s + mean(utility.value(y - solved.s[:, None]), weights))


def _start(y: Floats, weights: Floats | None, utility: Utility) -> Floats:
    """Where Newton begins: the mean, or for bounded slopes the quantile whose tail has the right mass."""
    least, most = utility.slope_range
    if np.isfinite(most) and weights is None and least < 1.0 < most:
        place = y.shape[1] - 1 - tail_count((1.0 - least) / (most - least), y.shape[1])
        return np.partition(y, place, axis=1)[:, place] - utility.anchor
    return mean(y, weights) - utility.anchor


def _between_kinks(
    solved: Solved, utility: Utility, low: Floats, high: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """The stretch between two neighbouring breakpoints y_i - kink where the mean slope passes 1.

    Inside it the mean slope is continuous. ``settled`` rows have their shortfall at the right end, because the slope
    jumps past 1 there.
    """
    y, weights = solved.y, solved.weights
    points = np.sort(np.concatenate([y - kink for kink, _ in utility.kinks], axis=1), axis=1)
    row = np.arange(len(y))
    a, b = np.full(len(y), -1), np.full(len(y), points.shape[1])
    with np.errstate(over="ignore"):
        while np.any(b - a > 1):
            middle = np.clip((a + b) // 2, 0, points.shape[1] - 1)
            above = mean(utility.slope(y - points[row, middle][:, None]), weights) > 1.0
            a, b = np.where((b - a > 1) & above, middle, a), np.where((b - a > 1) & ~above, middle, b)
        left = np.where(a >= 0, points[row, np.maximum(a, 0)], low)
        right = np.where(b < points.shape[1], points[row, np.minimum(b, points.shape[1] - 1)], high)
        limit = mean(near_kink(y - right[:, None], utility)[1], weights)
    settled = (b < points.shape[1]) & (limit >= 1.0)
    return np.minimum(left, right), right, settled


def near_kink(x: Floats, utility: Utility) -> tuple[Floats, Floats]:
    """Left and right slopes at x, where a point within rounding of a kink counts as on it."""
    left = np.asarray(utility.slope(x))
    right = left
    for kink, jump in utility.kinks:
        tie = np.abs(x - kink) <= 8.0 * _EPS * (np.abs(x) + np.abs(kink))
        tie |= x == kink
        if np.any(tie):
            below = float(utility.slope(kink))
            left = np.where(tie, below, left)
            right = np.where(tie, below + jump, right)
    return left, right


def tilt_rows(solved: Solved, utility: Utility) -> Floats:
    """q_i = w_i u'(z_i - t*), ties at a kink sharing what is left so that each row sums to 1."""
    x = solved.y - solved.s[:, None]
    weights = np.full(x.shape, 1.0 / x.shape[1]) if solved.weights is None else solved.weights
    if isinstance(utility.shape, Pieces):
        q = _tilt_of_pieces(x, weights, utility.shape)
    elif utility.kinks:
        left, right = near_kink(x, utility)
        below, above = (weights * left).sum(axis=1), (weights * right).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.clip(np.where(above > below, (1.0 - below) / (above - below), 0.0), 0.0, 1.0)
        q = weights * (left + share[:, None] * (right - left))
    else:
        with np.errstate(under="ignore"):
            q = weights * utility.slope(x)
    if not utility.is_monotone:  # slopes of both signs: their sum has fewer digits than the 1 it should be
        return np.asarray(q)
    return np.asarray(q / q.sum(axis=1, keepdims=True))


def _tilt_of_pieces(x: Floats, weights: Floats, pieces: Pieces) -> Floats:
    if pieces.low == pieces.high:
        return weights
    # s is an exact difference of losses only when the kink is at 0; elsewhere the subtraction may be a float off.
    near = 8.0 * _EPS * abs(pieces.kink)
    tie, above = np.abs(x - pieces.kink) <= near, x - pieces.kink > near
    mass_above = (weights * above).sum(axis=1, keepdims=True)
    mass_tie = (weights * tie).sum(axis=1, keepdims=True)
    share = np.clip((pieces.tail - mass_above) / np.where(mass_tie > 0, mass_tie, 1.0), 0.0, 1.0)
    return np.asarray(weights * (pieces.low + (pieces.high - pieces.low) * (above + share * tie)))
