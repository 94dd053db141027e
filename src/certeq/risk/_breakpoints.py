"""The breakpoints of a utility with kinks: where a loss crosses a kink as t rises, and between which of them t* lies.

The mean slope falls continuously in t but for the breakpoints y_i - k of loss i and kink k. So t* is one of them, or it
lies strictly between two neighbors, where Newton's method works.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certeq.utilities.forms import Form

Floats = NDArray[np.floating[Any]]
Mean = Callable[[Floats], float]
_EPS = float(np.finfo(np.float64).eps)
NEAR = 1e-4  # of the range: how far from a good guess t* is looked for at first
_STRIDES = 6  # from a guess, each eight times the one before
_STEEP = 4.0  # a ratio of mean slopes from which on their logarithm is closer to a straight line than they are
_MOST = 1 << 18  # breakpoints looked at together: two megabytes, however many losses and kinks there are
Trial = tuple[float, float]  # a point with the excess of the mean slope over 1 there


class Bracket(NamedTuple):
    """low < t* <= high without a breakpoint in between; where ``on_kink``, t* = high, at which the mean slope jumps."""

    low: float
    high: float
    on_kink: bool


class _Breakpoints(NamedTuple):
    """Points between two trials in rising order, and what the mean slope falls by from the lower one up to each."""

    points: Floats
    falls: Floats
    total: float  # what it falls by up to the upper trial and with it
    complete: bool


def bracket_by_breakpoints(
    y: Floats,
    weights: Floats | None,
    mean: Mean,
    form: Form,
    low: float,
    high: float,
    guess: float | None = None,
    near: float = NEAR,
) -> Bracket:
    """Close in on t* from [low, high], which holds it, over breakpoints; ``mean`` is that under the weights.

    Around a ``guess``, good to about the share ``near`` of their range, only a few of them are left to look at.
    """
    noise = 4.0 * (_EPS if y.itemsize == 8 else float(np.finfo(y.dtype).eps))

    def excess(t: float) -> float:
        """Above 0 where t* lies right of t."""
        return mean(form.left_slope(y, t)) - 1.0 - noise

    trials = (-np.inf, np.inf), (np.inf, -np.inf)  # left of t* and not, each with its excess
    if guess is not None:
        trials = _around(guess, near * (high - low), excess)
    while True:
        found = _breakpoints(y, weights, form, trials[0][0], trials[1][0])
        trials = _narrowed(found, *trials, excess)
        if found.complete:
            break
    (below, _), (above, _) = trials
    if above == np.inf:
        return Bracket(max(below, low), high, False)
    right = form.slopes(y, above)[1]
    return Bracket(max(below, min(low, above)), above, mean(right) >= 1.0 - noise)


def _around(guess: float, width: float, excess: Callable[[float], float]) -> tuple[Trial, Trial]:
    """Trials left of t* and not, by strides from the guess that grow; infinite where a few find none."""
    below, above = (-np.inf, np.inf), (np.inf, -np.inf)
    trial = guess
    for _ in range(_STRIDES):
        found = excess(trial)
        if found > 0.0:
            below, trial = (trial, found), trial + width
        else:
            above, trial = (trial, found), trial - width
        if np.isfinite(above[0] - below[0]):
            break
        width *= 8.0
    return below, above


def _narrowed(found: _Breakpoints, below: Trial, above: Trial, excess: Callable[[float], float]) -> tuple[Trial, Trial]:
    """The last of the points that is left of t*, and the first that is not; else the trials given.

    What the mean slope falls by at breakpoints is known of all of them, and the rest is nearly a straight line between
    two trials, or its logarithm is where they are far apart: where these together pass 1 is looked at first. By
    bisection where that line is a poor one: two trials in a row on one side of t*.
    """
    points, falls = found.points, found.falls
    first, last, in_a_row = 0, points.size, 0  # the first point that is not left of t* is among these
    while first < last:
        middle = (first + last) // 2
        run, ends = above[0] - below[0], (1.0 + below[1], 1.0 + above[1])
        if abs(in_a_row) < 2 and np.isfinite(run) and np.isfinite(below[1] - above[1]):
            if ends[0] > _STEEP * ends[1] > 0.0:
                trial = below[0] + run * np.log(ends[0]) / np.log(ends[0] / ends[1])
                passed = np.searchsorted(points[first:last], trial)
            else:
                fallen = falls[first - 1] if first > 0 else 0.0
                fall = (falls[last] if last < points.size else found.total) - fallen
                rate = min((above[1] - below[1] + fall) / run, 0.0)
                level = below[1] - rate * below[0] + fallen
                passed = bisect_left(range(first, last), True, key=lambda m: level + rate * points[m] - falls[m] <= 0.0)
            middle = min(first + int(passed), last - 1)
        point = float(points[middle])
        there = excess(point)
        if there > 0.0:
            first, below, in_a_row = middle + 1, (point, there), max(in_a_row, 0) + 1
        else:
            last, above, in_a_row = middle, (point, there), min(in_a_row, 0) - 1
    return below, above


def _breakpoints(y: Floats, weights: Floats | None, form: Form, below: float, above: float) -> _Breakpoints:
    """Breakpoints strictly between two; where there are too many, some of them, spread evenly."""
    step, count = 1, 0
    if np.isinf(below) and np.isinf(above):
        step = -(-y.size * len(form.kinks) // _MOST)
    points: list[Floats] = []
    falls: list[Floats] = []
    for kink in form.kinks:
        at = y[::step] - kink.at
        share = None if weights is None else weights[::step]
        if step == 1 and not (np.isinf(below) and np.isinf(above)):
            inside = (at > below) & (at <= above)
            at, share = at[inside], None if share is None else share[inside]
        points.append(at)
        falls.append(np.full(at.size, kink.jump / y.size) if share is None else kink.jump * share)
        count += at.size
        if count > 4 * _MOST:  # thin out on the way
            step *= 2
            points, falls = [part[::2] for part in points], [part[::2] for part in falls]
            count = sum(part.size for part in points)
    return _in_order(np.concatenate(points), np.concatenate(falls) * step, above, step == 1)


def _in_order(points: Floats, falls: Floats, above: float, complete: bool) -> _Breakpoints:
    """Points in rising order, each once, with what the slope has fallen by up to and with each."""
    order = np.argsort(points)
    points, falls = points[order], np.cumsum(falls[order])
    last_of_equals = np.append(points[1:] != points[:-1], np.ones(min(points.size, 1), bool))
    points, falls = points[last_of_equals], falls[last_of_equals]
    total = float(falls[-1]) if points.size else 0.0
    if points.size and points[-1] == above:  # known already, but for what the slope falls by there
        points, falls = points[:-1], falls[:-1]
    return _Breakpoints(points, falls, total, complete)
