"""Facts about a utility found by search, for sums and custom utilities that have no formula for them."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    """The largest x with left slope <= target, to the last bit."""
    a, b = bracket_slope(utility, target)
    with np.errstate(all="ignore"):
        while a < (middle := 0.5 * (a + b)) < b:
            if float(utility.slope(middle)) <= target:
                a = middle
            else:
                b = middle
    # A kink that is known exactly beats a bisection that ends one float beside it.
    for kink, _ in utility.kinks:
        if a <= kink <= b:
            return kink
    return a


def conjugate_by_search(utility: Utility, y: Any) -> Any:
    """sup_x x*y - u(x), elementwise, by bisection on the slope; +inf outside the range of slopes."""
    y = np.asarray(y, dtype=float)
    low, high = utility.slope_range
    result = np.full(y.shape, np.inf)
    inside = (y > low + 1e-12 * (1.0 + abs(low))) & (y < high)
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
    """kappa = concave envelope of curvature as a function of slope, at slope 1, on a grid.

    Among all laws with mean slope 1 a two-point law attains the supremum, and its value is the height at 1 of a
    chord of the curve (slope, curvature).
    """
    anchor = utility.anchor
    reach = np.sinh(np.linspace(-30.0, 30.0, points))
    with np.errstate(all="ignore"):
        slope, curvature = utility.derivatives(anchor + reach)
    keep = np.isfinite(slope) & np.isfinite(curvature) & (slope < 1e12)
    slope, curvature = slope[keep], curvature[keep]
    left = slope < 1.0
    best = float(np.asarray(utility.curvature(anchor)))
    # The best chord over 1 is the least line height: minimise over multipliers of max(curvature - m*(slope-1)).
    from scipy.optimize import minimize_scalar

    def height(multiplier: float) -> float:
        return float(np.max(curvature - multiplier * (slope - 1.0)))

    if np.any(left) and np.any(~left):
        bound = max(1.0, float(np.max(np.abs(curvature / np.where(slope == 1.0, np.inf, slope - 1.0)))))
        found = minimize_scalar(height, bounds=(-bound, bound), method="bounded", options={"xatol": 1e-10 * bound})
        fine = minimize_scalar(height, bracket=(found.x - 1e-3, found.x + 1e-3))
        best = max(best, min(float(found.fun), float(fine.fun)))
    return best
