"""Problems that nothing but their limits bounds: boxes that widen until the minimum is well inside one.

On the way to the solution multipliers may be too small to bound anything, so the problem is solved within bounds at a
distance that stand for none. Let F be convex on a convex set S, and F(w) >= F(v) - gap for every w of S within the
distance r of v. Then F(w) >= F(v) - gap |w - v|/r for every w beyond: the point of the segment at the distance r is in
S, and F there is at most the chord. So a gap within bounds that the solution is far from is one for all points, but for
a factor that is their distance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains import InfeasibleError, UnboundedError
from certeq.optimize.domains._rows import Constraints, feasible_point, implied_box, presolve_rows
from certeq.optimize.exact._solve import status_of

if TYPE_CHECKING:
    from certeq.optimize.limited import LimitedResult

Vector = NDArray[np.float64]
_WIDTHS = (1e2, 1e4, 1e6, 1e8)  # of the boxes, in units
_INSIDE = 0.1  # of a width: a solution nearer the center is one without the box


def solve_widening(
    solve: Callable[[Constraints], LimitedResult], q: Constraints, start: Vector | None, unit: float, tol: float
) -> LimitedResult:
    """The solution within bounds that it is far from; raises where there is none within the widest.

    Widths are multiples of the size of the start, or of a feasible point, or of ``unit`` where that is larger.
    """
    low, high = implied_box(q)
    falls, rises = np.isneginf(low), np.isposinf(high)
    center = start
    if center is None:
        center = feasible_point(presolve_rows(q), low, high, None, np.arange(len(low)), len(low))
    size = max(unit, float(np.abs(center).sum()))
    refused: InfeasibleError | None = None
    before: LimitedResult | None = None
    iterations = 0
    for width in size * np.array(_WIDTHS):
        lower = np.where(falls, np.maximum(q.lower, center - width), q.lower)
        upper = np.where(rises, np.minimum(q.upper, center + width), q.upper)
        try:
            found = solve(replace(q, lower=lower, upper=upper))
        except InfeasibleError as error:
            if refused is not None and str(error) == str(refused):  # a wider box does not help
                raise
            refused = error
            continue
        refused, iterations = None, iterations + found.iterations
        found = replace(found, iterations=iterations)
        if _away(found, center, falls | rises) <= _INSIDE * width:
            return replace(found, radius=width - _away(found, center, falls | rises))
        if before is not None and before.value <= found.value + found.gap:
            # The objective is flat along the way out: the nearer of the two points is as good.
            gap = before.value - found.lower_bound
            relative = gap * found.relative_gap / found.gap if found.gap > 0.0 else before.relative_gap
            status = status_of(True, False, False) if relative <= tol else found.status
            radius = width - _away(before, center, falls | rises)
            return replace(
                found, theta=before.theta, value=before.value, gap=gap, relative_gap=relative, status=status,
                limit_values=before.limit_values, radius=radius,
            )  # fmt: skip
        before = found
    if refused is not None:
        raise refused
    assert before is not None
    direction = (before.theta - center) / float(np.abs(before.theta - center).max())
    order = np.argsort(-np.abs(direction), kind="stable")[:3]
    named = ", ".join(f"{direction[j]:+.3g} of asset {j}" for j in order if abs(direction[j]) > 1e-6)
    raise UnboundedError(
        f"The problem is unbounded under its limits: {width:.3g} away from a feasible point the objective still falls "
        f"along {named}, which no bound, row or limit stops. Add bounds, a budget, or a limit on what grows that way.",
        direction,
    )


def _away(found: LimitedResult, center: Vector, unbounded: NDArray[np.bool_]) -> float:
    return float(np.abs(found.theta - center)[unbounded].max(initial=0.0))
