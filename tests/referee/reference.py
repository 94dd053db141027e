"""OCE and thresholds by enumeration of breakpoints and long double bisection: no package code."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tests.referee.specification import LD, Form, exact

CHUNK = 1 << 21  # long doubles evaluated at a time


@dataclass
class Reference:
    """Of rows y = x - center: the minimum of t + E u(y - t), and a minimizer t, both less the center."""

    y: np.ndarray
    w: np.ndarray
    center: np.ndarray
    value: np.ndarray
    t: np.ndarray

    def objective(self, form: Form, t: np.ndarray) -> np.ndarray:
        """t + E u(y - t) at one t (less the center) per row."""
        with np.errstate(all="ignore"):
            return _height(self.y, self.w, form, t)

    def mean_slope(self, form: Form, t: np.ndarray, side: str) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.where(self.w > 0, self.w * form.slope(self.y - t[:, None], side), 0).sum(axis=1)


def normalized_weights(x: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    w = np.ones(x.shape, dtype=LD) if weights is None else np.broadcast_to(weights, x.shape).astype(LD)
    return w / w.sum(axis=1, keepdims=True)


def reference(x: np.ndarray, weights: np.ndarray | None, form: Form) -> Reference:
    """Rows x (R, n) of float64 losses; rows of weight 0 count for nothing."""
    w = normalized_weights(x, weights)
    order = np.sort(np.where(w > 0, x, np.nan), axis=1)
    count = (w > 0).sum(axis=1)
    center = order[np.arange(len(x)), (count - 1) // 2]
    y = x.astype(LD) - center.astype(LD)[:, None]
    with np.errstate(all="ignore"):
        value, t = _minimize(y, w, form)
    return Reference(y, w, center, value, t)


def _minimize(y: np.ndarray, w: np.ndarray, form: Form) -> tuple[np.ndarray, np.ndarray]:
    if form.hinges:
        counted = np.repeat(w > 0, len(form.kink_locations), axis=1)
        points = np.where(counted, (y[:, :, None] - form.kink_locations).reshape(len(y), -1), np.nan)
        points = np.sort(points, axis=1)  # NaN last
        last = counted.sum(axis=1) - 1
        points = np.where(np.isnan(points), points[np.arange(len(y)), last][:, None], points)
        value, t = _best_point(y, w, form, points)
        if form.is_linear:
            return value, t
        # The minimum lies next to the best breakpoint, on one side or the other, where u has no kink in between.
        edge = _edge(y, w, form)
        for side in (-1, 1):
            other, found = _neighbor(points, t, side)
            a, b = (other, t) if side < 0 else (t, other)
            a = np.where(found | (side > 0), a, edge[0])
            b = np.where(found | (side < 0), b, edge[1])
            at = _bisect(y, w, form, a, b)
            height = _height(y, w, form, at)
            better = height < value
            value, t = np.where(better, height, value), np.where(better, at, t)
        return value, t
    if form.is_linear:  # the mean: every t is a minimizer
        t = (w * y).sum(axis=1)
    else:
        t = _bisect(y, w, form, *_edge(y, w, form))
    return _height(y, w, form, t), t


def _height(y: np.ndarray, w: np.ndarray, form: Form, t: np.ndarray) -> np.ndarray:
    return t + np.where(w > 0, w * form.value(y - t[:, None]), 0).sum(axis=1)


def _best_point(y: np.ndarray, w: np.ndarray, form: Form, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The least height among sorted points: a grid of them, then the stretch around its best, until none is left out.

    The height is convex, so the least of all lies between the neighbors of the best on a grid. Values that rounding
    could have put in the wrong order all count as best.
    """
    rows = np.arange(len(y))
    low, high = np.zeros(len(y), dtype=int), np.full(len(y), points.shape[1] - 1)
    spread = np.where(w > 0, np.abs(y), 0).max(axis=1)
    while True:
        steps = np.linspace(0.0, 1.0, min(24, int((high - low).max()) + 1))
        index = (low[:, None] + np.round(steps * (high - low)[:, None])).astype(int)
        heights = _at_points(y, w, form, np.take_along_axis(points, index, axis=1))
        heights = np.where(np.isnan(heights), np.inf, heights)
        best = heights.min(axis=1)
        near = heights <= (best + LD(1e-17) * (np.abs(best) + spread))[:, None]
        first, last = near.argmax(axis=1), near.shape[1] - 1 - near[:, ::-1].argmax(axis=1)
        if len(steps) >= int((high - low).max()) + 1:
            at = heights.argmin(axis=1)
            return heights[rows, at], points[rows, index[rows, at]]
        new_low = index[rows, np.maximum(first - 1, 0)]
        new_high = index[rows, np.minimum(last + 1, near.shape[1] - 1)]
        if np.array_equal(new_low, low) and np.array_equal(new_high, high):  # level but for rounding: all of them
            width = int((high - low).max())
            index = np.minimum(low[:, None] + np.arange(width + 1), high[:, None])
            heights = _at_points(y, w, form, np.take_along_axis(points, index, axis=1))
            at = np.where(np.isnan(heights), np.inf, heights).argmin(axis=1)
            return heights[rows, at], points[rows, index[rows, at]]
        low, high = new_low, new_high


def _neighbor(points: np.ndarray, t: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """The nearest breakpoint strictly left or right of t, and whether there is one."""
    beyond = points < t[:, None] if side < 0 else points > t[:, None]
    found = beyond.any(axis=1)
    filled = np.where(beyond, points, -np.inf if side < 0 else np.inf)
    return (filled.max(axis=1) if side < 0 else filled.min(axis=1)), found


def _edge(y: np.ndarray, w: np.ndarray, form: Form) -> tuple[np.ndarray, np.ndarray]:
    """t* lies between min y - x0 and max y - x0; a little more, for rounding."""
    x0 = LD(float(form.anchor))
    low = np.where(w > 0, y, np.inf).min(axis=1) - x0
    high = np.where(w > 0, y, -np.inf).max(axis=1) - x0
    margin = 1e-9 * (1 + abs(x0) + (high - low)) + form.width
    return low - margin, high + margin


def _bisect(y: np.ndarray, w: np.ndarray, form: Form, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(LD).copy(), b.astype(LD).copy()
    for _ in range(140):
        middle = (a + b) / 2
        mean = np.where(w > 0, w * form.slope(y - middle[:, None]), 0).sum(axis=1)
        go_right = mean > 1
        a, b = np.where(go_right, middle, a), np.where(go_right, b, middle)
        if np.all((b - a) <= 1e-19 * (np.abs(a) + np.abs(b))):
            break
    return b


def _at_points(y: np.ndarray, w: np.ndarray, form: Form, points: np.ndarray) -> np.ndarray:
    rows, count = points.shape
    n = y.shape[1]
    step = max(1, CHUNK // max(1, rows * n))
    out = np.empty((rows, count), dtype=LD)
    for start in range(0, count, step):
        t = points[:, start : start + step]
        inner = form.value(y[:, None, :] - t[:, :, None])
        out[:, start : start + step] = t + np.where(w[:, None, :] > 0, w[:, None, :] * inner, 0).sum(axis=2)
    return out


def minimum_by_thirds(ref: Reference, form: Form, i: int) -> np.longdouble:
    """The minimum of row i by ternary search on the height alone: no breakpoints and no slopes. Slow; to confirm."""
    y, w = ref.y[i : i + 1], ref.w[i : i + 1]
    (a,), (b,) = _edge(y, w, form)
    with np.errstate(all="ignore"):
        for _ in range(400):
            one, other = a + (b - a) / 3, b - (b - a) / 3
            if not a < one < other < b:
                break
            left, right = (_height(y, w, form, np.array([t]))[0] for t in (one, other))
            # An overflow is on the side of small t, where losses less t are large.
            a, b = (a, other) if left <= right and np.isfinite(left) else (one, b)
        return min(_height(y, w, form, np.array([t]))[0] for t in (a, b, (a + b) / 2))


def confirm(ref: Reference, form: Form, i: int, x: np.ndarray, weights: np.ndarray | None, tolerance: float) -> None:
    """Before anybody is accused: the value of row i found in another way, for linear pieces without any rounding."""
    if form.is_linear and len(x) <= 100:
        other = exact_minimum(x, weights, form) - exact(float(ref.center[i]))
        assert abs(float(other) - float(ref.value[i])) <= tolerance, "the referee is wrong"
    else:
        assert ref.value[i] <= minimum_by_thirds(ref, form, i) + tolerance, "the referee is wrong"


def exact_minimum(x: np.ndarray, weights: np.ndarray | None, form: Form) -> Fraction:
    """The OCE of one piecewise linear utility in rational arithmetic: no rounding at all."""
    assert form.is_linear
    w = [Fraction(1)] * len(x) if weights is None else [exact(float(each)) for each in weights]
    total = sum(w)
    pairs = [(exact(float(a)), each / total) for a, each in zip(x, w, strict=True) if each > 0]

    def height(t: Fraction) -> Fraction:
        return t + sum(each * form.exact_value(a - t) for a, each in pairs)

    if not form.hinges:
        return height(Fraction(0))
    points = sorted({a - at for a, _ in pairs for at, _ in form.hinges})
    low, high = 0, len(points) - 1  # convex on the sorted points, in exact arithmetic: ternary by neighbors
    while low < high:
        middle = (low + high) // 2
        if height(points[middle]) <= height(points[middle + 1]):
            high = middle
        else:
            low = middle + 1
    return height(points[low])
