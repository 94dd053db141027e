"""The breakpoints of a utility with kinks: where a loss crosses a kink as t rises, and between which of them t* lies.

The mean slope falls continuously in t but for the breakpoints y_i - k of loss i and kink k. So t* is one of them, or it
lies strictly between two neighbors, where Newton's method works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certeq.utilities.forms import Form

Floats = NDArray[np.floating[Any]]
Mean = Callable[[Floats], float]
_FALSI = 12  # steps of regula falsi before bisection
_NEAR = 1e-3  # of a deviation: how far from a guess t* is looked for at first
_MOST = 1 << 18  # breakpoints looked at together: two megabytes, however many losses and kinks there are
Trial = tuple[float, float]  # a point with the excess of the mean slope over 1 there


class Bracket(NamedTuple):
    """low < t* <= high without a breakpoint in between; where ``on_kink``, t* = high, at which the mean slope jumps."""

    low: float
    high: float
    on_kink: bool


def bracket_by_breakpoints(
    y: Floats, mean: Mean, form: Form, low: float, high: float, guess: float | None = None
) -> Bracket:
    """Close in on t* from [low, high], which holds it, over breakpoints; ``mean`` weighs the losses.

    Near a good ``guess`` only a few of them are left to look at.
    """
    noise = 4.0 * float(np.finfo(y.dtype).eps)

    def excess(t: float) -> float:
        """Above 0 where t* lies right of t."""
        return mean(form.left_slope(y, t)) - 1.0 - noise

    trials = (-np.inf, np.inf), (np.inf, -np.inf)  # left of t* and not, each with its excess
    if guess is not None:
        trials = _around(guess, _NEAR * float(np.std(y)), excess)
    while True:
        points, complete = _breakpoints(y, form, trials[0][0], trials[1][0])
        trials = _narrowed(points, *trials, excess)
        if complete:
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
    for _ in range(4):
        found = excess(trial)
        if found > 0.0:
            below, trial = (trial, found), trial + width
        else:
            above, trial = (trial, found), trial - width
        if np.isfinite(above[0] - below[0]):
            break
        width *= 8.0
    return below, above


def _narrowed(points: Floats, below: Trial, above: Trial, excess: Callable[[float], float]) -> tuple[Trial, Trial]:
    """The last of the points, in rising order, that is left of t*, and the first that is not; else the trials given.

    By regula falsi with the Illinois rule on their ranks, since the excess falls evenly over many points; by bisection
    where it does not.
    """
    first, last = 0, points.size  # the first point that is not left of t* is among these
    left, right, side = below[1], above[1], 0
    count = 0
    while first < last:
        middle = (first + last) // 2
        if count < _FALSI and np.isfinite(left - right):
            share = left / (left - right)
            middle = min(max(first - 1 + round(share * (last + 1 - first)), first), last - 1)
        point, count = float(points[middle]), count + 1
        found = excess(point)
        if found > 0.0:
            first, below, left = middle + 1, (point, found), found
            right, side = (0.5 * right if side > 0 else right), 1
        else:
            last, above, right = middle, (point, found), found
            left, side = (0.5 * left if side < 0 else left), -1
    return below, above


def _breakpoints(y: Floats, form: Form, below: float, above: float) -> tuple[Floats, bool]:
    """Breakpoints strictly between two, sorted; where there are too many, some of them, spread evenly."""
    step = 1
    if np.isinf(below) and np.isinf(above):
        step = -(-y.size * len(form.kinks) // _MOST)
        found = [(y[::step] - at) for at in form.kink_locations.tolist()]
        return np.unique(np.concatenate(found)), step == 1
    found, count = [], 0
    for at in form.kink_locations.tolist():
        points = y - at
        points = np.unique(points[(points > below) & (points < above)])
        found.append(points)
        count += points.size
        if count > 4 * _MOST:  # thin out on the way
            step, found = 2, [part[::2] for part in found]
            count = sum(part.size for part in found)
    return np.unique(np.concatenate(found)), step == 1
