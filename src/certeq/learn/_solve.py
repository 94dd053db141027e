"""How a linear problem is solved: on a few rows first, then on all; with kinks, rounder before sharper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certeq.learn._newton import Reached, Solve, minimise
from certeq.learn._objective import LinearObjective
from certeq.learn._scores import Floats
from certeq.learn._smoothing import Rounded

_SHARPER = 0.2  # tau shrinks so far from one stage to the next
_STALLED = 1e-13


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
    """Minimise from theta. ``scale`` is what the gradient (or, with kinks, the gap) is compared with, times tol."""
    with np.errstate(under="ignore"):
        if objective.utility.kinks:
            return _with_kinks(objective, theta, tol, max_iter)
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


def _with_kinks(objective: LinearObjective, theta: Floats, tol: float, max_iter: int) -> Fitted:
    """Stages of rounded utilities. With tau the OCE is at most ``excess`` too high, which bounds the gap."""
    utility = objective.utility
    losses = objective.losses(theta)
    spread = float(losses.std()) or float(np.abs(losses).max()) or 1.0
    tau, spent, best = 0.5 * spread, 0, None
    goal = tol * spread
    while True:
        rounded = Rounded(utility, tau)
        # A stage need not be solved better than the next one moves the target.
        reached = minimise(objective.with_utility(rounded), theta, 0.0, max_iter - spent, decrement=0.05 * rounded.excess)
        spent += reached.iterations
        theta = reached.at.theta
        fitted = _certified(objective, rounded, reached, spent, goal)
        best = fitted if best is None or fitted.gap < best.gap else best
        if fitted.converged or spent >= max_iter or tau < _STALLED * spread:
            return best
        tau *= _SHARPER


def _certified(objective: LinearObjective, rounded: Rounded, reached: Reached, spent: int, goal: float) -> Fitted:
    at = reached.at
    exact = objective.oce(at.losses, objective.utility)
    soft = objective.oce(at.losses, rounded)
    value = at.value - (soft - exact)
    gap = reached.decrement + rounded.excess - (soft - exact)
    if not objective.utility.is_monotone:
        gap = float("nan")
    return Fitted(at.theta, value, at.shortfall, reached.gradient_norm, gap, spent, gap <= goal)
