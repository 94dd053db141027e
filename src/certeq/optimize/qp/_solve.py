"""Solve the small problem: by an active set where a guess is at hand, else by the interior point method and polish.

`solve_rescaled` is for hinges by the thousand a hair's breadth apart, as millions of scenarios make them. With
v = v0 + width * s and the objective divided by width times the hinges' total weight, both the distances between kinks
and the multipliers are of a size that the interior point method can tell apart; its tolerances are absolute.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.qp._active_set import BLOCKED, pivoted, polish
from certeq.optimize.qp._interior import CautiousMethod, InteriorMethod
from certeq.optimize.qp._subproblem import Multipliers, Subproblem, SubSolution

Vector = NDArray[np.float64]
# Of the interior point method, until the active set that it suggests is right. Beside a scale that tends to 0 the point
# itself counts, and not the active set alone: nothing is tried before it is near.
_TOLERANCES = (1e-6, 1e-8, 1e-10, 1e-13)
_NEAR = 1e-7
_GUESSES = 8  # exchanges of active constraints from a guess before the interior point method is asked


def solve_subproblem(problem: Subproblem, at: Vector, last: SubSolution | None) -> SubSolution:
    """By pivoting from the last active set, else on that set if it still fits, else by an interior point method."""
    settled = pivoted(problem, None if last is None else last.partition)
    if settled is not None and settled.exact:
        return settled
    for guess in (last, settled):
        found = None if guess is None else polish(problem, guess.partition, guess.v, guess.multipliers, rounds=_GUESSES)
        if found is not None:
            return found
    method = InteriorMethod(problem, at)
    for tolerance in _TOLERANCES if problem.inner == 1 else (_NEAR, *_TOLERANCES[2:]):
        interior = method.run(tolerance)
        blocked = BLOCKED if tolerance == _TOLERANCES[-1] else 0
        found = polish(problem, interior.partition, interior.v, interior.multipliers, blocked=blocked)
        if found is not None:
            return SubSolution(found.v, found.multipliers, found.partition, True, interior.iterations)
    return SubSolution(
        np.clip(interior.v, problem.lower, problem.upper),
        interior.multipliers,
        interior.partition,
        False,
        interior.iterations,
    )


def solve_rescaled(problem: Subproblem, at: Vector, width: float) -> SubSolution:
    """The solution near ``at`` of a problem whose hinges lie within about ``width`` of their kinks there.

    Where the active set is not found at that width, it is tried at others; beside curvature first without any. What
    is returned satisfies the constraints, and is ``at`` itself where nothing better was found.
    """
    best: SubSolution | None = None
    with np.errstate(all="ignore"):
        for factor in (1.0, 0.1, 30.0, 0.0) if problem.H is None else (0.0, 1.0, 0.1, 30.0):
            if factor > 0.0:
                found = _at_width(problem, at, min(1.0, max(factor * width, 1e-7)))
            else:
                found = solve_subproblem(problem, at, None)
            if not problem.is_feasible(found.v):
                found = SubSolution(at, found.multipliers, found.partition, False, found.iterations)
            if found.exact:
                return found
            if best is None or problem.objective(found.v) < problem.objective(best.v):
                best = found
    assert best is not None
    return best


def _at_width(problem: Subproblem, at: Vector, width: float) -> SubSolution:
    weight = float(problem.cap.sum())
    small = Subproblem(
        problem.gradient(at) / weight,
        None if problem.H is None else problem.H * (width / weight),
        (problem.lower - at) / width,
        (problem.upper - at) / width,
        problem.C,
        (problem.c - problem.C @ at) / width,
        problem.G,
        (problem.b - problem.G @ at) / width,
        problem.B,
        (problem.kink - problem.B @ at) / width,
        problem.cap / weight,
        problem.inner,
    )
    found = _solve(small)
    prices, sides = found.multipliers, found.partition
    v = np.clip(at + width * found.v, problem.lower, problem.upper)
    v = np.where(sides.at_lower, problem.lower, np.where(sides.at_upper, problem.upper, v))
    scaled = Multipliers(
        prices.y * weight, prices.z * weight, prices.p * weight, prices.below * weight, prices.above * weight
    )
    return SubSolution(v, scaled, sides, found.exact, found.iterations)


def _solve(problem: Subproblem) -> SubSolution:
    """Down by steps of the complementarity sum, and at each the exact solution if the active set is the right one."""
    method = CautiousMethod(problem, np.zeros(len(problem.g)))
    last = None
    for power in range(3, 16):
        point = method.descend(10.0**-power)
        if point is None:
            break
        last = point
        if int(np.sum(point.partition.side == 0)) > 2 * len(problem.g) + 20 and power < 12:
            continue  # too early: no vertex ties so many, and the attempt would be dear
        found = polish(problem, point.partition, point.v, point.multipliers)
        if found is not None:
            return SubSolution(found.v, found.multipliers, found.partition, True, point.iterations)
    last = method._report() if last is None else last
    v = np.clip(last.v, problem.lower, problem.upper)
    return SubSolution(v, last.multipliers, last.partition, False, last.iterations)
