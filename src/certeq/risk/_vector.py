"""One vector of losses under a utility with kinks: between which breakpoints does its threshold lie?

The mean slope falls as t rises, continuously but for the *breakpoints* y_i - k, where loss i crosses kink k. So t* is a
breakpoint, or it lies strictly between two neighboring ones, where Newton's method works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certeq.utilities.forms import Form

Floats = NDArray[np.floating[Any]]
Mean = Callable[[Floats], float]

_EPS = float(np.finfo(np.float64).eps)
ONE = 1.0 + 4.0 * _EPS  # a mean slope up to here is 1 in sums that are rounded
_MOST = 1 << 18  # breakpoints looked at together: two megabytes, however many losses and kinks there are


class Bracket(NamedTuple):
    """low < t* <= high without a breakpoint in between; where ``on_kink``, t* = high, at which the mean slope jumps."""

    low: float
    high: float
    on_kink: bool


def bracket_by_breakpoints(y: Floats, mean: Mean, form: Form, low: float, high: float) -> Bracket:
    """Close in on t* from [low, high], which holds it, by bisection over breakpoints; ``mean`` weighs the losses."""
    noise = 4.0 * float(np.finfo(y.dtype).eps)

    def is_left(t: float) -> bool:
        """Whether t* lies right of t."""
        return mean(form.left_slope(y, t)) > 1.0 + noise

    below, above = -np.inf, np.inf  # no breakpoint outside of these is of interest any more
    while True:
        points, complete = _breakpoints(y, form, below, above)
        first, last = 0, points.size  # the first point that is not left of t* is among these
        while first < last:
            middle = (first + last) // 2
            first, last = (middle + 1, last) if is_left(float(points[middle])) else (first, middle)
        if first > 0:
            below = float(points[first - 1])
        if first < points.size:
            above = float(points[first])
        if complete:
            break
    if above == np.inf:
        return Bracket(max(below, low), high, False)
    right = form.slopes(y, above)[1]
    return Bracket(max(below, min(low, above)), above, mean(right) >= 1.0 - noise)


def _breakpoints(y: Floats, form: Form, below: float, above: float) -> tuple[Floats, bool]:
    """Breakpoints strictly between two, sorted; where there are too many, some of them, spread evenly."""
    step = 1
    if np.isinf(below) and np.isinf(above):
        step = -(-y.size * len(form.kinks) // _MOST)
        found = [(y[::step] - at) for at in form.places.tolist()]
        return np.unique(np.concatenate(found)), step == 1
    found, count = [], 0
    for at in form.places.tolist():
        points = y - at
        points = np.unique(points[(points > below) & (points < above)])
        found.append(points)
        count += points.size
        if count > 4 * _MOST:  # thin out on the way
            step, found = 2, [part[::2] for part in found]
            count = sum(part.size for part in found)
    return np.unique(np.concatenate(found)), step == 1
