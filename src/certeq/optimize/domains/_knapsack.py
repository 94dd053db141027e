"""Linear minimisation under bounds and one budget: the fractional knapsack, and gaps measured against it."""

from __future__ import annotations

import numpy as np

from ._backend import FloatArray
from ._errors import UnboundedError

__all__ = ["budget_diameter", "budget_gap", "budget_residual", "budget_start", "fill_cheapest"]


def fill_cheapest(g: FloatArray, lower: FloatArray, upper: FloatArray, total: float) -> tuple[FloatArray, float]:
    r"""Return a minimiser v and the price nu of the budget.

    .. math:: \min_v g \cdot v \ \text{s.t.}\ l \le v \le h,\ \textstyle\sum_i v_i = s
              \quad\Rightarrow\quad v_i = h_i \text{ if } g_i < \nu,\ v_i = l_i \text{ if } g_i > \nu

    Bounds may be infinite as long as the minimum is finite.
    """
    lower, upper = _settle_free_ties(g, lower, upper)
    no_floor, no_ceiling = np.isinf(lower), np.isinf(upper)
    # Among equal prices an entry that can sink comes before one that can rise, so that the two infinities below are
    # never added.
    order = np.lexsort((no_ceiling.astype(int) - no_floor, g))
    lo, hi = lower[order], upper[order]
    filled = np.concatenate(([0.0], np.cumsum(hi)))
    empty = np.concatenate((np.cumsum(lo[::-1])[::-1], [0.0]))
    k = int(np.clip(np.searchsorted(filled + empty, total, side="right") - 1, 0, g.size - 1))
    v_sorted = np.concatenate((hi[:k], [0.0], lo[k + 1 :]))
    v_sorted[k] = np.clip(total - np.sum(v_sorted), lo[k], hi[k])
    v = np.empty(g.size)
    v[order] = v_sorted
    return v, float(g[order[k]])


def _settle_free_ties(g: FloatArray, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Refuse an unbounded problem; among unbounded entries of one price, leave only one to carry the budget."""
    no_floor, no_ceiling = np.isinf(lower), np.isinf(upper)
    if not (no_floor.any() and no_ceiling.any()):
        return lower, upper
    i = int(np.argmax(np.where(no_floor, g, -np.inf)))
    j = int(np.argmin(np.where(no_ceiling, g, np.inf)))
    if g[i] > g[j]:
        direction = np.zeros(g.size)
        direction[i], direction[j] = -1.0, 1.0
        raise UnboundedError(
            f"g.theta is unbounded below: weight can move for ever from theta[{i}] (g = {g[i]:g}, no lower bound) "
            f"to theta[{j}] (g = {g[j]:g}, no upper bound)",
            direction,
        )
    both = np.flatnonzero(no_floor & no_ceiling)
    lower, upper = lower.copy(), upper.copy()
    lower[both[1:]] = upper[both[1:]] = 0.0
    return lower, upper


def budget_gap(theta: FloatArray, v: FloatArray, g: FloatArray, nu: float, total: float) -> float:
    """Return g.(theta - v) as sum (g - nu)(theta - v), each term >= 0, plus nu times the budget's residual.

    The last term would be noise of size eps * |nu| when theta meets its budget to within rounding, and is left out.
    """
    gap = float((g - nu) @ (theta - v))
    residual = float(np.sum(theta)) - total
    rounding = 64 * np.finfo(float).eps * max(abs(total), float(np.sum(np.abs(theta))))
    return gap + nu * residual if abs(residual) > rounding else gap


def budget_residual(x: FloatArray, total: float, name: str = "sum of theta") -> tuple[FloatArray, str]:
    """Return the violation of a budget in the form of `Domain._residuals`."""
    sums = np.sum(x, axis=-1, keepdims=True)
    worst = float(sums.flat[int(np.argmax(np.abs(sums - total)))])
    return np.abs(sums - total), f"{name} is {worst!r}, must be {total!r}"


def budget_start(lower: FloatArray, upper: FloatArray, total: float) -> FloatArray:
    """Return a point of the relative interior: every coordinate the same share of the way up its range."""
    finite = np.abs(lower[np.isfinite(lower)]).sum() + np.abs(upper[np.isfinite(upper)]).sum()
    reach = 1.0 + abs(total) + finite  # far enough that a bound put there in place of infinity decides nothing
    lo = np.where(np.isinf(lower), np.minimum(upper, 0.0) - reach, lower)
    hi = np.where(np.isinf(upper), np.maximum(lower, 0.0) + reach, upper)
    low, high = float(np.sum(lo)), float(np.sum(hi))
    share = np.clip((total - low) / (high - low), 0.0, 1.0) if high > low else 0.0
    return np.clip(lo + share * (hi - lo), lower, upper)


def budget_diameter(lower: FloatArray, upper: FloatArray, total: float) -> float:
    """Bound the distance of two points: no coordinate moves more than its range, all together twice the slack."""
    slack = min(total - float(np.sum(lower)), float(np.sum(upper)) - total)
    if lower.size == 1 or slack <= 0:
        return 0.0
    if not np.isfinite(slack):
        return float("inf")
    moves = -np.sort(-np.minimum(upper - lower, slack))
    used = np.minimum(np.cumsum(moves), 2.0 * slack)
    return float(np.linalg.norm(np.diff(used, prepend=0.0)))
