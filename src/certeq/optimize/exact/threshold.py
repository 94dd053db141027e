"""The threshold t* of weighted losses: the root of mean slope = 1, warm started, exact at a kink."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.risk.solvers import bracket_by_breakpoints, furthest
from certeq.utilities import Exponential, Pieces, Quadratic
from certeq.utilities.forms import Form

Vector = NDArray[np.float64]
_LONG, _STRIDE = 4096, 16  # so many losses, and of how many one says where about the threshold lies
_EPS = float(np.finfo(np.float64).eps)


def threshold(losses: Vector, weights: Vector, form: Form, guess: float | None = None) -> float:
    """t with  sum w u'(x - t) = 1, or the point where the sum jumps over 1.

    ``guess`` is where Newton's method starts; near the root one or two passes over the losses are enough.
    """
    utility = form.utility
    anchor, shape = utility.anchor, utility.shape
    match shape:
        case Exponential(rate):
            top = float(losses.max())
            return top + float(np.log(weights @ np.exp(rate * (losses - top)))) / rate - anchor
        case Quadratic():
            return float(weights @ losses) - anchor
        case Pieces(low, high):
            if low == high:
                return float(weights @ losses)
            return _quantile(losses, weights, shape.tail) - form.kinks[0].at
    low, high = float(losses.min()) - anchor, float(losses.max()) - anchor
    if utility.slope_range[1] == np.inf and utility.is_monotone and utility.curve is None:
        low = max(low, high + anchor - furthest(form, 1.0 / float(weights.min())))
    if guess is None and form.kinks and len(losses) >= _LONG:
        some = weights[::_STRIDE] / float(weights[::_STRIDE].sum())
        guess = threshold(np.ascontiguousarray(losses[::_STRIDE]), some, form)
    if form.kinks:
        low, high, on_kink = bracket_by_breakpoints(losses, lambda a: float(weights @ a), form, low, high, guess)
        if on_kink:
            return high
    return _root(losses, weights, form, low, high, guess)


def _quantile(losses: Vector, weights: Vector, tail: float) -> float:
    """The largest loss with mass at least ``tail`` at or above it."""
    count = len(losses)
    if weights[0] == weights[-1] and float(weights.max()) == float(weights.min()):
        # Up to rounding of count*tail; either neighbor minimizes when it is a whole number.
        place = min(int(np.floor(count * tail * (1 + 4e-16))), count - 1)
        return float(np.partition(losses, count - 1 - place)[count - 1 - place])
    order = np.argsort(-losses, kind="stable")
    above = np.cumsum(weights[order])
    place = int(np.searchsorted(above, tail * (1 + 1e-15), side="right"))
    return float(losses[order[min(place, count - 1)]])


def _root(losses: Vector, weights: Vector, form: Form, low: float, high: float, guess: float | None) -> float:
    """Newton's method kept inside a shrinking bracket, on the growth-th root of the mean slope."""
    utility = form.utility
    power = 1.0 / utility.growth
    t = guess if guess is not None and low < guess < high else max(low, float(weights @ losses) - utility.anchor)
    width = high - low
    for step_count in range(200):
        slope, curvature = form.derivatives(losses, t)
        mean, bend = float(weights @ slope), float(weights @ curvature)
        excess = mean - 1.0
        if excess > 0.0:
            low = max(low, t)
        else:
            high = min(high, t)
        if excess == 0.0 or not low < high:
            return t
        if bend > 0.0 and mean > 0.0:
            step = mean / bend * (1.0 - mean**-power) / power if power < 1.0 else excess / bend
        else:
            step = np.inf if excess > 0 else -np.inf
        if abs(excess) <= 4.0 * _EPS or abs(step) <= _EPS * abs(t):  # as near 1 as the sum of slopes can be told to be
            return t
        trial = t + step
        inside = low < trial < high
        shrunk = high - low < 0.6 ** (step_count - 6) * width if step_count > 6 else True
        if not inside or not shrunk:
            trial = 0.5 * (low + high)
        if abs(trial - t) <= 4e-16 * max(abs(t), abs(low), abs(high)) or trial in (low, high):
            return trial if inside else t
        if inside and abs(step) <= 1e-9 * (abs(t) + width * 1e-3) and abs(excess) < 1e-9:
            return trial  # one more step of a quadratic method would change nothing a float can hold
        t = trial
    return t
