"""Utility-based shortfall risk: the smallest cushion t that brings the expected loss of X - t down to a level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certeq._checks import check_number, check_weight_sums
from certeq._table import BLOCK, ArrayTable, Table, as_sample
from certeq.risk._fan import FanSearch, Rising, below_all, excess_of, no_mean
from certeq.risk._frames import by_label, is_frame
from certeq.risk._input import (
    Axis,
    as_array,
    as_axis_last,
    as_weights,
    check_aligned,
    check_not_empty,
    complain_not_finite,
    locating,
)
from certeq.risk._root import Floats
from certeq.risk._rows import mean, without_idle
from certeq.risk._survey import LONG, NotFinite, drawn_from, raise_not_finite, survey
from certeq.utilities import Utility

_FAR = 1e150


def ubsr(
    x: ArrayLike,
    loss: Callable[[Any], Any] | Utility,
    level: float,
    weights: ArrayLike | None = None,
    axis: Axis = None,
) -> Any:
    r"""Utility-based shortfall risk :math:`\inf\{t : E[l(X - t)] \le \lambda\}`.

    Parameters
    ----------
    x : array_like
        Losses.
    loss : callable or Utility
        An increasing function l, elementwise on NumPy arrays; of a `Utility` its value is taken. The threshold of
        OCE is the special case ``loss=utility.slope, level=1``.
    level : float
        The level lambda, strictly inside the range of l.
    weights, axis
        As in `certeq.oce`.

    Returns
    -------
    float, ndarray or Series

    Notes
    -----
    If x0 is the largest point with l(x0) <= level, the answer lies in [min x - x0, max x - x0]; it is found there by
    a secant method safeguarded by bisection, to rounding, for continuous and for jumping l alike; a mean within
    rounding of the level counts as level. Not for a decreasing l: it is refused where the sample shows it. A long
    sample takes three to six passes as a rule, also where l jumps in a few places, and some twenty-five where it
    jumps everywhere, as a rounded loss does.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> round(ce.ubsr([0.0, 1.0], np.exp, 1.0), 12)  # with l = exp it is the entropic risk
    0.620114506958
    """
    function: Callable[[Any], Any] = loss.value if isinstance(loss, Utility) else loss
    if not callable(function):
        raise TypeError(f"loss must be an increasing function or a Utility; found {loss!r}.")
    level = check_number("level", level)
    if is_frame(x):
        return by_label(lambda z, w, along: ubsr(z, function, level, w, along), x, weights, axis)
    far = as_sample(x, weights, axis)
    if far is not None:
        return _solve_far(far, function, level)
    array = as_array("x", x)
    rows, lead = as_axis_last(array, axis)
    check_not_empty(rows)
    check_aligned(x, weights)
    held = as_weights(weights, array, axis)
    if rows.shape[1] >= LONG:
        try:
            found = [
                np.array([_solve_long(ArrayTable(row, held if held is None else held[i % len(held)]), function, level)])
                for i, row in enumerate(rows)
            ]
        except NotFinite:
            complain_not_finite(rows, False, locating(array, axis))
            raise
    else:
        complain_not_finite(rows, False, locating(array, axis))
        anchor = _anchor(function, level)
        height = max(1, BLOCK // rows.shape[1])
        found = []
        for start in range(0, rows.shape[0], height):
            z = np.ascontiguousarray(rows[start : start + height], dtype=np.float64)
            w = None
            if held is not None:
                chosen = held if held.shape[0] == 1 else held[start : start + height]
                w = np.array(np.broadcast_to(chosen, z.shape), dtype=np.float64)
                total = w.sum(axis=1, keepdims=True)
                check_weight_sums(float(w.min()), float(total.min()), float(w.max()))
                w /= total
            found.append(_solve_rows(z, w, function, level, anchor))
    answers = np.concatenate(found) if found else np.empty(0)
    return float(answers[0]) if lead == () else answers.reshape(lead)


def _at(function: Callable[[Any], Any], point: float) -> float:
    with np.errstate(all="ignore"):
        result = np.asarray(function(np.array([point])), dtype=float)
    if result.shape != (1,) or np.isnan(result[0]):
        raise ValueError(f"loss must map an array elementwise to numbers; at x = {point:g} it gave {result!r}.")
    return float(result[0])


def _anchor(function: Callable[[Any], Any], level: float) -> float:
    """The largest point with l <= level; an error where l never passes it."""
    a, b = -1.0, 1.0
    while _at(function, a) > level:
        a *= 2.0
        if a < -_FAR:
            raise ValueError(f"level must lie inside the range of loss; loss never falls to {level:g}.")
    while _at(function, b) <= level:
        b *= 2.0
        if b > _FAR:
            raise ValueError(f"level must lie inside the range of loss; loss never rises above {level:g}.")
    while a < (middle := 0.5 * (a + b)) < b:
        a, b = (middle, b) if _at(function, middle) <= level else (a, middle)
    return a


def _solve_rows(z: Floats, w: Floats | None, function: Callable[[Any], Any], level: float, anchor: float) -> Floats:
    held = z if w is None else np.where(w > 0, z, np.nan)
    center = np.nanmax(held, axis=1)
    y = z - center[:, None] if w is None else without_idle(z - center[:, None], w)
    least = np.nanmin(held, axis=1) - center
    low = below_all(least, least, anchor)

    def excess(t: Floats) -> Floats:
        with np.errstate(all="ignore"):
            values = np.asarray(function(y - t[:, None]), dtype=float)
            means = mean(values, w)
        if np.isnan(means).any():
            raise no_mean(float((center + t)[np.isnan(means)][0]))
        return np.asarray(excess_of(means, mean(np.abs(values), w), level))

    return np.asarray(center + _smallest(excess, low, np.full(len(z), -anchor), level))


def _solve_far(sample: Table, function: Callable[[Any], Any], level: float) -> float:
    try:
        return _solve_long(sample, function, level)
    except NotFinite:
        raise_not_finite(sample, False)
        raise


def _solve_long(sample: Table, function: Callable[[Any], Any], level: float) -> float:
    """One long sample: a small draw gives the start, each pass over the blocks tries a few t; no copy is ever made."""
    anchor = _anchor(function, level)
    draw = drawn_from(sample, 1 << 15)
    center, rising = draw.center, Rising(function, level, anchor)
    first = _first_fan(draw.z - center, draw.weights, function, level, anchor) if draw.z.size else (0.0,)
    size, means = survey(sample, rising.summing(center, first))
    search = FanSearch(sample, rising, center, size.mass, size.low - center, size.high - center, draw.sketch())
    search.learn(first, [float(found) for found in means])
    return center + search.run()


def _first_fan(
    y: Floats, w: Floats | None, function: Callable[[Any], Any], level: float, anchor: float
) -> tuple[float, ...]:
    """The answer of a small sample, and what it could be off by on either side."""
    share = np.full(y.size, 1.0 / y.size) if w is None else w / w.sum()
    t = float(_solve_rows(y[None, :], share[None, :], function, level, anchor)[0])
    reach = 1e-2 * float(y.max() - y.min())
    with np.errstate(all="ignore"):
        value, left, right = (np.asarray(function(y - s), dtype=float) for s in (t, t - reach, t + reach))
        noise = float(np.sqrt((share**2 * (value - level) ** 2).sum()))
        fall = float((share * (left - right)).sum()) / (2.0 * reach) if reach > 0.0 else 0.0
        off = 5.0 * noise / fall if fall > 0.0 else reach
    return (t - off, t, t + off) if np.isfinite(off) and off > 0.0 else (t,)


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
