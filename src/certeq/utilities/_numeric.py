"""Facts about a utility found by search, for sums and custom utilities that have no formula for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.utilities._base import Utility

_FAR = 1e150  # squares of it are still finite


def bracket_slope(utility: Utility, target: float) -> tuple[float, float]:
    """(a, b) with slope(a) <= target < slope(b), by doubling; an error where the slope never gets there."""
    with np.errstate(all="ignore"):
        a, b = -1.0, 1.0
        while not float(utility.slope(a)) <= target:
            a *= 2.0
            if a < -_FAR:
                raise ValueError(f"The slope of {utility!r} never falls to {target:g}, so it has no anchor.")
        while not float(utility.slope(b)) > target:
            b *= 2.0
            if b > _FAR:
                raise ValueError(f"The slope of {utility!r} never rises above {target:g}, so it has no anchor.")
    return a, b


def find_anchor(utility: Utility, target: float = 1.0) -> float:
    """The largest x with left slope <= target, to the last bit; a kink, or 0, where that is it but for rounding."""
    a, b = bracket_slope(utility, target)
    with np.errstate(all="ignore"):
        slack = 8.0 * np.finfo(float).eps * target
        for kink, jump in utility.kinks:
            if float(utility.slope(kink)) <= target + slack and float(utility.slope(kink)) + jump >= target - slack:
                return kink
        # 0 is where utilities are normalized; a slope of exactly 1 on a stretch around it ends further right.
        if abs(float(utility.slope(0.0)) - target) <= slack and float(utility.slope(1e-6)) > target + slack:
            return 0.0
        while a < (middle := 0.5 * (a + b)) < b:
            if float(utility.slope(middle)) <= target:
                a = middle
            else:
                b = middle
    return a


def conjugate_by_search(utility: Utility, y: Any) -> Any:
    """sup_x x*y - u(x), elementwise, by bisection on the slope; +inf outside the range of slopes."""
    y = np.asarray(y, dtype=float)
    low, high = utility.slope_range
    result = np.full(y.shape, np.inf)
    inside = (y > low) & (y < high)
    if np.isfinite(low):
        inside &= y > low + 1e-12 * (1.0 + abs(low))
    if np.isfinite(high):
        inside &= y < high - 1e-12 * (1.0 + abs(high))
    if np.any(inside):
        target = y[inside]
        a, b = np.full(target.shape, -1.0), np.full(target.shape, 1.0)
        with np.errstate(all="ignore"):
            for _ in range(500):
                off = utility.slope(a) > target
                if not np.any(off):
                    break
                a[off] *= 2.0
            for _ in range(500):
                off = utility.slope(b) < target
                if not np.any(off):
                    break
                b[off] *= 2.0
            for _ in range(200):
                middle = 0.5 * (a + b)
                if np.all((middle <= a) | (middle >= b)):
                    break
                left = utility.slope(middle) <= target
                a, b = np.where(left, middle, a), np.where(left, b, middle)
            result[inside] = np.maximum(a * target - utility.value(a), b * target - utility.value(b))
    for end, side in ((low, -1.0), (high, 1.0)):
        if np.isfinite(end):
            at_end = np.abs(y - end) <= 1e-12 * (1.0 + abs(end))
            if np.any(at_end):
                result[at_end] = _conjugate_at_end(utility, end, side)
    return result


def _conjugate_at_end(utility: Utility, end: float, side: float) -> float:
    """The limit of x*end - u(x) as x runs off; finite where u has an asymptote of that slope."""
    before, far = -np.inf, 8.0
    while far < 1e15:
        now = side * far * end - float(utility.value(side * far))
        # It only grows; past the last kink of a piecewise linear u it stands still, exactly.
        if now - before <= 1e-14 * (1.0 + abs(now)):
            return max(now, before)
        before, far = now, 2.0 * far
    return before if before < 1e8 else np.inf


def curvature_bound(utility: Utility, points: int = 40001) -> float:
    """kappa = concave envelope of curvature as a function of slope, at slope 1, on a grid; rounded up.

    Among all distributions with mean slope 1 one on two points attains the supremum: the height at 1 of a chord of the
    curve (slope, curvature). What the grid misses, some 1e-4, is added: a step from kappa must be safe.
    """
    anchor = utility.anchor
    reach = np.sinh(np.linspace(-30.0, 30.0, points))
    with np.errstate(all="ignore"):
        slope, curvature = (np.asarray(part, dtype=float) for part in utility.derivatives(anchor + reach))
    keep = np.isfinite(slope) & np.isfinite(curvature) & (np.abs(slope) < 1e12)
    slope, curvature = slope[keep], curvature[keep]
    here = float(np.asarray(utility.curvature(anchor)))
    if float(np.ptp(curvature)) <= 1e-12 * float(np.max(np.abs(curvature), initial=0.0)):
        return here
    left, right = slope < 1.0, slope > 1.0
    if not (np.any(left) and np.any(right)):
        return here
    return (1.0 + 2e-4) * max(here, _chord_over_one(slope, curvature, left, right))


def _chord_over_one(
    slope: NDArray[np.float64], curvature: NDArray[np.float64], left: NDArray[np.bool_], right: NDArray[np.bool_]
) -> float:
    """The greatest height at slope 1 of a chord between a point left of it and one right of it.

    For a multiplier m no chord is higher there than max(curvature - m (slope - 1)); the least such line is the answer.
    Its slope lies between those at which the left and the right side alone decide, and is found by bisection: where
    the greatest is on the left m must rise.
    """
    x, y = slope - 1.0, curvature

    def tops(m: float) -> tuple[float, float]:
        height = y - m * x
        return float(height[left].max()), float(height[right].max())

    low, high = -1.0, 1.0
    while tops(low)[0] > tops(low)[1] and low > -1e150:
        low *= 4.0
    while tops(high)[1] > tops(high)[0] and high < 1e150:
        high *= 4.0
    for _ in range(200):
        m = 0.5 * (low + high)
        one, other = tops(m)
        if not low < m < high or one == other:
            break
        low, high = (low, m) if one > other else (m, high)
    return max(tops(0.5 * (low + high)))
