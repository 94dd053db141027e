r"""Minimize an OCE of a linear predictor's losses: Newton's method, and an interior-point method where u has kinks.

Newton's method takes a few exact second-order steps, and uses old Hessians as long as they serve. Utilities with kinks,
such as CVaR, take a primal-dual interior-point method. With u = v + sum_j a_j (x - k_j)^+, v smooth, the problem is

.. math:: \min_{\theta, t, s}\; t + E[v(F - t)] + \sum_j a_j E[s_j] + \text{ridge},
          \qquad s_j \ge F - t - k_j,\; s_j \ge 0.

Each step solves the system of Newton's method, with the multipliers' part in place of u'': the same small matrix as
for a smooth utility. The multipliers give a lower bound on the minimum, hence the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from certeq._threads import one_blas_thread
from certeq.optimize.predictor import (
    DENSE,
    At,
    Floats,
    LinearObjective,
    gap_of,
    lower_bound,
    second_derivative,
    smooth_gap,
)
from certeq.utilities.forms import form

_SERVES = 0.2  # an old Hessian is kept while each step with it shrinks the gradient at least so far
Solve = Callable[[Floats], Floats]
_NEAR = 0.995  # how far towards a bound a step may go


def solve_linear(
    objective: LinearObjective,
    theta: Floats,
    tol: float,
    max_iter: int,
    scale: float,
    rng: np.random.RandomState,
    warm: bool = False,
) -> Fitted:
    """Minimize from theta; with ``warm``, theta is trusted to be near the solution.

    A smooth utility has converged when no entry of the gradient exceeds tol*scale, one with kinks when the gap is at
    most tol times the spread of the losses.
    """
    with np.errstate(under="ignore"), one_blas_thread():
        if objective.utility.kinks:
            return KinkedProblem(objective).solve(theta, tol, max_iter)
        solve, spent = None, 0
        if not warm:
            theta, solve, spent = _start(objective, theta, tol * scale, max_iter, rng)
        reached = minimize(objective, theta, tol * scale, max_iter - spent, solve=solve)
        at = reached.at
        gap = smooth_gap(objective, at, None if reached.solve is None else -reached.solve(at.gradient))
    iterations = spent + reached.iterations
    return Fitted(at.theta, at.value, at.threshold, reached.gradient_norm, gap, iterations, reached.converged)


@dataclass(frozen=True)
class Fitted:
    """The minimizer found, and how good it is known to be."""

    theta: Floats
    value: float
    threshold: float
    gradient_norm: float
    gap: float
    iterations: int
    converged: bool


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
    reached = minimize(part, theta, max(tol, 1e-4), max_iter // 4)
    return reached.at.theta, reached.solve, spent + reached.iterations


def _widened(objective: LinearObjective, theta: Floats, max_iter: int) -> tuple[Floats, int]:
    """Solve roughly with s*u(x/s), s falling to 1, where u is sharp compared with the losses.

    The curvature of u then rests on very few samples: its quadratic model holds in a tiny neighborhood only, and
    Newton's method from afar crawls.
    """
    scale, utility = 1.0, objective.utility
    enough = min(0.02 * len(objective.X), 2.0 * objective.size)
    wide = objective
    for _ in range(20):
        curvature = wide.curvature(wide.evaluate(theta))
        square = float(curvature @ curvature)
        if square == 0.0 or float(curvature.sum()) ** 2 >= enough * square:
            break
        scale *= 4.0
        wide = objective.with_utility(utility.scaled(scale))
    spent = 0
    while scale > 1.0 and spent < max_iter:
        wide = objective.with_utility(utility.scaled(scale))
        rough = 0.05 * float(np.abs(wide.evaluate(theta).gradient).max())
        reached = minimize(wide, theta, rough, max_iter - spent)
        theta, spent = reached.at.theta, spent + reached.iterations
        scale /= 4.0
    return theta, spent


# -- smooth utilities -------------------------------------------------------------------------------------------------


def minimize(
    objective: LinearObjective,
    theta: Floats,
    tol: float,
    max_iter: int,
    solve: Solve | None = None,
) -> Reached:
    """Minimize until no entry of the gradient exceeds ``tol``.

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
            solve = latest = inverse(objective, at.slopes, at.tilt, objective.curvature(at))
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


def inverse(objective: LinearObjective, slopes: Floats, tilt: Floats, curvature: Floats) -> Solve:
    """g -> H^-1 g at a point, made definite where it is not."""
    if objective.size > DENSE:
        return _conjugate_gradients(objective, slopes, tilt, curvature)
    H = objective.hessian(slopes, tilt, curvature)
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


def _conjugate_gradients(objective: LinearObjective, slopes: Floats, tilt: Floats, curvature: Floats) -> Solve:
    def solve(g: Floats) -> Floats:
        x = np.zeros_like(g)
        residual, direction = g.copy(), g.copy()
        square = start = float(np.vdot(g, g))
        # Solving to sqrt(norm) keeps the outer convergence faster than linear.
        goal = start * min(0.25, np.sqrt(start)) ** 2
        for _ in range(min(2 * objective.size, 200)):
            if square <= goal:
                break
            product = objective.hessian_product(slopes, tilt, curvature, direction)
            along = float(np.vdot(direction, product))
            if along <= 0.0:  # a direction of negative curvature still leads down
                return x if x.any() else direction
            length = square / along
            x += length * direction
            residual -= length * product
            before, square = square, float(np.vdot(residual, residual))
            direction = residual + (square / before) * direction
        return x

    return solve


# -- utilities with kinks ---------------------------------------------------------------------------------------------


class KinkedProblem:
    """The objective with its kinks split off; ``multipliers`` below are per unit of sample weight, in (0, a_j)."""

    def __init__(self, objective: LinearObjective) -> None:
        self.objective, self.utility = objective, objective.utility
        self.w = objective.shares()
        self.form = form(self.utility)
        self.kinks, self.jumps = self.form.kink_locations[:, None], self.form.jumps[:, None]
        self._least = 1e-300

    # -- the smooth part ----------------------------------------------------------------------------------------

    def _smooth_value(self, x: Floats) -> Floats:
        hinges = (self.jumps * np.maximum(x - self.kinks, 0.0)).sum(axis=0)
        return np.asarray(self.utility.value(x) - hinges)

    def _over(self, point: _Iterate) -> Floats:
        """F - t - k, one row per kink."""
        return np.asarray(point.losses - point.t - self.kinks)

    def _barrier(self, point: _Iterate, mu: float) -> float:
        """The objective of a stage, s included; +inf outside."""
        slack = point.s - self._over(point)
        if not (slack.min() > 0.0 and point.s.min() > 0.0):
            return float("inf")
        total = self._smooth_value(point.losses - point.t) + (self.jumps * point.s).sum(axis=0)
        total -= mu * (np.log(point.s) + np.log(slack)).sum(axis=0)
        return point.t + float(self.w @ total) + self.objective.ridge(point.theta)

    # -- the method ---------------------------------------------------------------------------------------------

    def solve(self, theta: Floats, tol: float, max_iter: int) -> Fitted:
        """Step until the gap, or its estimate, is at most tol times the spread of the losses."""
        losses, slopes = self.objective.loss.evaluate(self.objective.scores(theta))
        self._least = 1e-9 * self._spread(losses)  # a perfect fit has no spread of its own to be measured by
        _, t = self.objective.risk(losses)
        point = _Iterate(theta, t, np.zeros(0), losses, slopes)
        mu = 0.2 * self._spread(losses)
        # On the central path in s and the multipliers, whatever theta and t.
        over, reach = self._over(point), 2.0 * mu / self.jumps
        point.s = 0.5 * (over + reach + np.sqrt(over * over + reach * reach))
        multipliers = np.clip(mu / (point.s - over), 1e-12 * self.jumps, (1.0 - 1e-12) * self.jumps)
        best: tuple[float, Fitted] | None = None
        went = 0.0
        for iteration in range(max_iter + 1):
            slack = point.s - self._over(point)
            mean_gap = float((self.w * (multipliers * slack + (self.jumps - multipliers) * point.s)).sum())
            if iteration == max_iter or mean_gap <= 4.0 * tol * self._spread(point.losses):
                found = self._certified(point, multipliers, iteration, tol)
                best = found if best is None or not found[0] >= best[0] else best
                # A gap that no longer falls although the barrier is all but gone is rounding.
                if best[0] <= tol * self._spread(point.losses) or mean_gap <= 1e-15 * self._spread(point.losses):
                    break
            # After a short step the barrier shrinks less: the point first goes back to the central path.
            mu = max(0.1, min(1.0, (1.0 - went) ** 2)) * mean_gap / (2.0 * len(self.jumps))
            point, multipliers, went = self._step(point, multipliers, mu)
        assert best is not None
        return best[1]

    def _step(self, point: _Iterate, multipliers: Floats, mu: float) -> tuple[_Iterate, Floats, float]:
        slack = point.s - self._over(point)
        rest = self.jumps - multipliers
        smooth = np.asarray(self.form.smooth_slope(point.losses, point.t))
        inverse_slack = 1.0 / (slack + multipliers * point.s / rest)
        stiffness = multipliers * inverse_slack
        shift = (mu - multipliers * slack - multipliers * (mu / rest - point.s)) * inverse_slack
        curvature = self.w * (second_derivative(self.utility, point.losses, point.t) + stiffness.sum(axis=0))
        tilt = self.w * (smooth + multipliers.sum(axis=0))
        aim = tilt + self.w * shift.sum(axis=0)
        # d/dt: 1 - sum(aim) - curvature.(g.dtheta) + total*dt = 0; eliminated, it leaves `hessian`'s centered matrix.
        total, off = float(curvature.sum()), 1.0 - float(aim.sum())
        right = self.objective.gradient(point.theta, point.slopes, aim)
        right += self.objective.weighted_sum((curvature * (off / total))[:, None] * point.slopes)
        step = -inverse(self.objective, point.slopes, np.maximum(tilt, 0.0), curvature)(right)
        along = np.einsum("ik,ik->i", point.slopes, self.objective.scores(step))
        dt = (float(curvature @ along) - off) / total
        d_multipliers = stiffness * (along - dt) + shift
        ds = (mu - rest * point.s + point.s * d_multipliers) / rest
        # Multipliers and the rest move by their own length; the primal part by one that lowers the barrier function.
        dual = min(_longest(multipliers, d_multipliers), _longest(rest, -d_multipliers))
        length = min(_longest(point.s, ds), _longest(slack, ds - (along - dt)))
        before = self._barrier(point, mu)
        noise = 1e-13 * max(abs(before), self._spread(point.losses))
        for _ in range(40):
            there = self._moved(point, length, step, dt, ds)
            if self._barrier(there, mu) <= before + noise:
                break
            length *= 0.5
        else:
            there, length = point, 0.0
        return there, multipliers + dual * d_multipliers, min(length, dual)

    def _moved(self, point: _Iterate, length: float, step: Floats, dt: float, ds: Floats) -> _Iterate:
        theta = point.theta + length * step
        losses, slopes = self.objective.loss.evaluate(self.objective.scores(theta))
        moved = _Iterate(theta, point.t + length * dt, point.s + length * ds, losses, slopes)
        # F is not linear: s follows it where the slack of the linear model has gone.
        slack = (1.0 - _NEAR * length) * (point.s - self._over(point))
        moved.s = np.maximum(moved.s, self._over(moved) + slack)
        return moved

    def _spread(self, losses: Floats) -> float:
        center = float(self.w @ losses)
        spread = float(np.sqrt(self.w @ np.square(losses - center)))
        return max(spread, 0.1 * abs(center), self._least)

    # -- the bound ----------------------------------------------------------------------------------------------

    def _certified(self, point: _Iterate, multipliers: Floats, iterations: int, tol: float) -> tuple[float, Fitted]:
        """OCE at theta against t + E[v(F-t)] + E[sum_j m_j (F-t-k_j)], which never exceeds it anywhere.

        The gap is proved, see `lower_bound`. The number beside it is the same to second order in the gradient, and
        there without a penalty too: the method stops by the less of the two.
        """
        objective, w = self.objective, self.w
        x = point.losses - point.t
        smooth = np.asarray(self.form.smooth_slope(point.losses, point.t))
        # The tilt must sum to 1; the multipliers give way towards 0 or towards their jumps.
        off = 1.0 - float(w @ smooth) - float((w * multipliers).sum())
        if off < 0.0:
            multipliers = multipliers * max(0.0, 1.0 + off / float((w * multipliers).sum()))
        else:
            rest = self.jumps - multipliers
            multipliers = multipliers + rest * min(1.0, off / float((w * rest).sum()))
        tilt = w * (smooth + multipliers.sum(axis=0))
        exact, threshold = objective.risk(point.losses)
        lower = point.t + float(w @ (self._smooth_value(x) + (multipliers * (x - self.kinks)).sum(axis=0)))
        gradient = objective.gradient(point.theta, point.slopes, tilt)
        value, norm = exact + objective.ridge(point.theta), float(np.abs(gradient).max())
        # The plane lies where the tilt's own weighted losses are least: one Newton step on them, for squares exact.
        step = inverse(objective, point.slopes, np.maximum(tilt, 0.0), np.zeros(len(w)))(gradient)
        bound = lower_bound(objective, tilt, lower, point.losses, point.slopes)
        if np.isfinite(bound):
            losses, slopes = objective.loss.evaluate(objective.scores(point.theta - step))
            plane = lower + float(tilt @ (losses - point.losses))
            bound = max(bound, lower_bound(objective, tilt, plane, losses, slopes))
        gap = gap_of(objective, value, bound, point.losses)
        estimate = min(gap, exact - lower + 0.5 * max(float(np.vdot(gradient, step)), 0.0))
        good = estimate <= tol * self._spread(point.losses)
        return estimate, Fitted(point.theta, value, threshold, norm, gap, iterations, good)


@dataclass
class _Iterate:
    theta: Floats
    t: float
    s: Floats  # (kinks, n), above max(0, F - t - k)
    losses: Floats
    slopes: Floats


def _longest(a: Floats, da: Floats) -> float:
    """The longest step up to 1 that keeps a + length*da above 0."""
    down = da < 0.0
    return float(min(1.0, _NEAR * np.min(-a[down] / da[down]))) if np.any(down) else 1.0
