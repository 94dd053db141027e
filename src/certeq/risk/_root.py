"""The one root finder: where does a decreasing mean slope pass 1?

Every place where samples live (an array, a file, a cluster) only has to answer with the mean slope and mean
curvature at a trial t. The bracket is guaranteed, so there is no bracket search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# (t of the rows still open, their indices) -> mean slope and mean curvature there
MeanSlope = Callable[[Floats, NDArray[np.intp]], tuple[Floats, Floats]]

_EPS = float(np.finfo(np.float64).eps)
_STEPS = 2200  # bisection of the widest float interval ends well before


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
