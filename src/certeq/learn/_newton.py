"""Newton's method for linear estimators: a few exact second-order steps, and old Hessians as long as they serve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from certeq.learn._objective import At, LinearObjective
from certeq.learn._scores import Floats

DENSE = 1000  # parameters up to which the Hessian is formed and factored; beyond, conjugate gradients
_SERVES = 0.2  # an old Hessian is kept while each step with it shrinks the gradient at least so far
Solve = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Reached:
    """Where Newton's method ended, and whether tol was met; ``solve`` is the latest inverse Hessian."""

    at: At
    iterations: int
    converged: bool
    solve: Solve | None

    @property
    def gradient_norm(self) -> float:
        """Largest entry of the gradient."""
        return float(np.abs(self.at.gradient).max())


def minimise(
    objective: LinearObjective,
    theta: Floats,
    tol: float,
    max_iter: int,
    solve: Solve | None = None,
) -> Reached:
    """Minimise until no entry of the gradient exceeds ``tol``.

    ``solve`` is an approximate inverse Hessian to begin with, for instance that of a part of the samples.
    """
    at, iterations = objective.evaluate(theta), 0
    latest = solve
    while True:
        norm = float(np.abs(at.gradient).max())
        if norm <= tol or iterations >= max_iter:
            break
        fresh = solve is None
        if solve is None:
            solve = latest = inverse(objective, at.slopes, at.tilt, objective.bend(at))
        step = -solve(at.gradient)
        slope = float(np.vdot(step, at.gradient))
        found = _search(objective, at, step, slope) if slope < 0.0 else None
        if found is None:
            if fresh:  # nothing lower along an exact Newton step: rounding is reached
                break
            solve = None
            continue
        at, full = found
        iterations += 1
        if not full or float(np.abs(at.gradient).max()) > _SERVES * norm:
            solve = None
    return Reached(at, iterations, norm <= tol, latest)


def _search(objective: LinearObjective, at: At, step: Floats, slope: float) -> tuple[At, bool] | None:
    """Halve the step until the value falls as far as its slope promises; None where it never does."""
    noise = 8.0 * np.finfo(float).eps * max(abs(at.value), float(np.abs(at.losses).max()))
    length = 1.0
    for _ in range(60):
        with np.errstate(over="ignore", invalid="ignore"):
            there = objective.evaluate(at.theta + length * step)
        fall = there.value - at.value
        if np.isfinite(fall):
            if fall <= 1e-4 * length * slope:
                return there, length == 1.0
            # Too close for values to tell: the gradient still can.
            if abs(fall) <= noise and np.abs(there.gradient).max() < np.abs(at.gradient).max():
                return there, length == 1.0
        length *= 0.5 if np.isfinite(fall) else 0.1
        if length * -slope < 1e-3 * noise and length < 1.0:
            return None
    return None


def inverse(objective: LinearObjective, slopes: Floats, tilt: Floats, bend: Floats) -> Solve:
    """g -> H^-1 g at a point, made definite where it is not."""
    if objective.size > DENSE:
        return _conjugate_gradients(objective, slopes, tilt, bend)
    H = objective.hessian(slopes, tilt, bend)
    diagonal = np.abs(H.diagonal())
    # Scaling to a unit diagonal makes the shift mean the same for every column, whatever its units.
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    H = H * scale[:, None] * scale
    shift = 0.0
    while True:
        try:
            factor = cho_factor(H + shift * np.eye(len(H)), lower=True, check_finite=False)
            if shift > 0.0 or float(factor[0].diagonal().min()) > 1e-7:
                break
        except LinAlgError:
            pass
        shift = max(10.0 * shift, 1e-10)
    shape = objective.shape
    return lambda g: np.asarray((scale * cho_solve(factor, scale * g.ravel(), check_finite=False)).reshape(shape))


def _conjugate_gradients(objective: LinearObjective, slopes: Floats, tilt: Floats, bend: Floats) -> Solve:
    def solve(g: Floats) -> Floats:
        x = np.zeros_like(g)
        residual, direction = g.copy(), g.copy()
        square = start = float(np.vdot(g, g))
        # Solving to sqrt(norm) keeps the outer convergence faster than linear.
        goal = start * min(0.25, np.sqrt(start)) ** 2
        for _ in range(min(2 * objective.size, 200)):
            if square <= goal:
                break
            product = objective.hessian_product(slopes, tilt, bend, direction)
            curvature = float(np.vdot(direction, product))
            if curvature <= 0.0:  # a direction of negative curvature still leads down
                return x if x.any() else direction
            length = square / curvature
            x += length * direction
            residual -= length * product
            before, square = square, float(np.vdot(residual, residual))
            direction = residual + (square / before) * direction
        return x

    return solve
