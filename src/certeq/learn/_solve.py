"""How a linear problem is solved: smooth utilities by Newton's method, on a few rows first; kinks from inside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certeq.learn._certificate import smooth_gap
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
    objective: LinearObjective,
    theta: Floats,
    tol: float,
    max_iter: int,
    scale: float,
    rng: np.random.RandomState,
    warm: bool = False,
) -> Fitted:
    """Minimise from theta; with ``warm``, theta is trusted to be near the solution.

    A smooth utility has converged when no entry of the gradient exceeds tol*scale, one with kinks when the gap is at
    most tol times the spread of the losses.
    """
    with np.errstate(under="ignore"), one_blas_thread():
        if objective.utility.kinks:
            corners = CornerProblem(objective)
            found = corners.solve(theta, tol, max_iter)
            good = found.estimate <= tol * corners.spread_at(found.theta)
            return Fitted(
                found.theta, found.value, found.shortfall, found.gradient_norm, found.gap, found.iterations, good
            )
        solve, spent = None, 0
        if not warm:
            theta, solve, spent = _start(objective, theta, tol * scale, max_iter, rng)
        reached = minimise(objective, theta, tol * scale, max_iter - spent, solve=solve)
        at = reached.at
        gap = smooth_gap(objective, at, None if reached.solve is None else -reached.solve(at.gradient))
    iterations = spent + reached.iterations
    return Fitted(at.theta, at.value, at.shortfall, reached.gradient_norm, gap, iterations, reached.converged)


def _start(
    objective: LinearObjective, theta: Floats, tol: float, max_iter: int, rng: np.random.RandomState
) -> tuple[Floats, Solve | None, int]:
    """A start, an inverse Hessian from a random part of many rows (off by a few percent), and the steps this took."""
    n, few = len(objective.X), max(4000, 20 * objective.size)
    if n < 5 * few:
        theta, spent = _widened(objective, theta, max_iter // 2)
        return theta, None, spent
    part = objective.take(np.sort(rng.permutation(n)[:few]))
    theta, spent = _widened(part, theta, max_iter // 4)
    reached = minimise(part, theta, max(tol, 1e-4), max_iter // 4)
    return reached.at.theta, reached.solve, spent + reached.iterations


def _widened(objective: LinearObjective, theta: Floats, max_iter: int) -> tuple[Floats, int]:
    """Solve roughly with s*u(x/s), s falling to 1, where u is sharp compared with the losses.

    The curvature of u then rests on very few samples: its quadratic model holds in a tiny neighbourhood only, and
    Newton's method from afar crawls.
    """
    scale, utility = 1.0, objective.utility
    enough = min(0.02 * len(objective.X), 2.0 * objective.size)
    wide = objective
    for _ in range(20):
        bend = wide.bend(wide.evaluate(theta))
        square = float(bend @ bend)
        if square == 0.0 or float(bend.sum()) ** 2 >= enough * square:
            break
        scale *= 4.0
        wide = objective.with_utility(utility.scaled(scale))
    spent = 0
    while scale > 1.0 and spent < max_iter:
        wide = objective.with_utility(utility.scaled(scale))
        rough = 0.05 * float(np.abs(wide.evaluate(theta).gradient).max())
        reached = minimise(wide, theta, rough, max_iter - spent)
        theta, spent = reached.at.theta, spent + reached.iterations
        scale /= 4.0
    return theta, spent
