"""Solve a step's model where it happens: millions of scenarios make tiny hinges a hair's breadth apart.

With v = v0 + width * s and the objective divided by width times the hinges' total weight, both the distances between
kinks and the multipliers are of a size that the interior point method can tell apart; its tolerances are absolute.
"""

from __future__ import annotations

import numpy as np

from certeq._table import Array as Vector
from certeq.optimize.exact.interior import InteriorMethod, InteriorPoint, _largest
from certeq.optimize.exact.polish import polish
from certeq.optimize.exact.solver import solve_subproblem
from certeq.optimize.exact.subproblem import Multipliers, Subproblem, SubSolution


class PatientMethod(InteriorMethod):
    """Goes down with the complementarity sum alone, and not faster than the residuals.

    Where thousands of hinges crowd about the solution, the residual of the slopes ends at the rounding of the factor,
    above the weight of a hinge. Iterates that go on are pressed against whichever hinges were near and name the wrong
    ones; those halfway down name the right ones.
    """

    def descend(self, target: float, max_iter: int = 25) -> InteriorPoint | None:
        """Iterate until the complementarity sum is at most ``target``; None where that cannot be."""
        together = self.problem.H is not None
        for _ in range(max_iter):
            slope_gap, row_gap, slack_gap = self._residuals()
            total = float(self.x @ self.z)
            missing = max(_largest(slope_gap), _largest(row_gap), _largest(slack_gap))
            if total <= target:
                return self._report()
            solve = self._factor() if np.isfinite(total + missing) else None
            if solve is None:
                return None
            self.iterations += 1
            product = self.x * self.z
            mean = total / len(product)
            dv, dy, dx, dz = self._direction(solve, slope_gap, row_gap, slack_gap, -product)
            primal, dual = self._lengths(dx, dz, 1.0, together)
            after = float((self.x + primal * dx) @ (self.z + dual * dz))
            centering = min(1.0, (max(after, 0.0) / total) ** 3)
            if missing > 0.01 * total:
                centering = max(centering, 0.1)
            dv, dy, dx, dz = self._direction(solve, slope_gap, row_gap, slack_gap, centering * mean - product - dx * dz)
            if not np.isfinite(dv).all():
                return None
            primal, dual = self._lengths(dx, dz, 0.9, together)
            self.v, self.x = self.v + primal * dv, self.x + primal * dx
            self.y, self.z = self.y + dual * dy, self.z + dual * dz
        return None


def solve_zoomed(problem: Subproblem, at: Vector, width: float) -> SubSolution:
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
            if not feasible(problem, found.v):
                found = SubSolution(at, found.multipliers, found.partition, False, found.iterations)
            if found.exact:
                return found
            if best is None or problem.objective(found.v) < problem.objective(best.v):
                best = found
    assert best is not None
    return best


def feasible(problem: Subproblem, v: Vector) -> bool:
    """Whether the rows hold but for rounding; an interior point that was stopped may be far off them."""
    size = 1e-9 * (1.0 + float(np.max(np.abs(v), initial=0.0)))
    off = np.concatenate([np.abs(problem.C @ v - problem.c), problem.G @ v - problem.b])
    return bool(np.isfinite(v).all() and np.all(off <= size))


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
    method = PatientMethod(problem, np.zeros(len(problem.g)))
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
