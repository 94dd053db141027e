"""How a linear problem is solved: smooth utilities by Newton's method, on a few rows first; kinks from inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certeq.learn._kinks import CornerProblem
from certeq.learn._newton import Solve, minimise
from certeq.learn._objective import LinearObjective
from certeq.learn._scores import Floats
from certeq.optimize.exact.threads import one_blas_thread


@dataclass(frozen=True)
class Fitted:
    """The minimiser found, and how good it is known to be."""

    theta: Floats
    value: float
    shortfall: float
    gradient_norm: float
    gap: float
    iterations: int
    converged: bool


def solve_linear(
    objective: LinearObjective, theta: Floats, tol: float, max_iter: int, scale: float, rng: np.random.RandomState
) -> Fitted:
    """Minimise from theta.

    A smooth utility has converged when no entry of the gradient exceeds tol*scale, one with kinks when the gap is at
    most tol times the spread of the losses.
    """
    with np.errstate(under="ignore"), one_blas_thread():
        if objective.utility.kinks:
            corners = CornerProblem(objective)
            found = corners.solve(theta, tol, max_iter)
            good = found.gap <= tol * corners.spread_at(found.theta)
            gap = found.gap if objective.utility.is_monotone else float("nan")
            return Fitted(found.theta, found.value, found.shortfall, found.gradient_norm, gap, found.iterations, good)
        theta, solve, spent = _on_few_rows(objective, theta, tol * scale, max_iter, rng)
        reached = minimise(objective, theta, tol * scale, max_iter - spent, solve=solve)
    gap = reached.decrement if objective.utility.is_monotone else float("nan")
    at = reached.at
    iterations = spent + reached.iterations
    return Fitted(at.theta, at.value, at.shortfall, reached.gradient_norm, gap, iterations, reached.converged)


def _on_few_rows(
    objective: LinearObjective, theta: Floats, tol: float, max_iter: int, rng: np.random.RandomState
) -> tuple[Floats, Solve | None, int]:
    """A start, and an approximate inverse Hessian, from a random part of the rows: cheap, and off by a few percent."""
    n = len(objective.X)
    few = max(4000, 20 * objective.size)
    if n < 5 * few:
        return theta, None, 0
    rows = np.sort(rng.permutation(n)[:few])
    reached = minimise(objective.take(rows), theta, max(tol, 1e-4), max_iter // 2)
    return reached.at.theta, reached.solve, reached.iterations
