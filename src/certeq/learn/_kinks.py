r"""Utilities with kinks, such as CVaR: a primal-dual interior-point method.

Write u = v + sum_j a_j (x - k_j)^+ with v smooth. The problem is

.. math:: \min_{\theta, t, s}\; t + E[v(F - t)] + \sum_j a_j E[s_j] + \text{ridge},
          \qquad s_j \ge F - t - k_j,\; s_j \ge 0.

Each step solves the system of Newton's method, with the multipliers' part in place of u'': the same small matrix as
for a smooth utility. The multipliers give a lower bound on the minimum, hence the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certeq.learn._certificate import gap_of, lower_bound
from certeq.learn._newton import inverse
from certeq.learn._objective import LinearObjective, second_derivative
from certeq.learn._scores import Floats

_NEAR = 0.995  # how far towards a bound a step may go


@dataclass(frozen=True)
class Corners:
    """Where the interior-point method ended.

    The gap is proved, see `_certificate`. ``estimate`` is the same to second order in the gradient, and there without
    a penalty too: the method stops by the less of the two.
    """

    theta: Floats
    value: float
    shortfall: float
    gradient_norm: float
    gap: float
    estimate: float
    iterations: int


@dataclass
class _Point:
    theta: Floats
    t: float
    s: Floats  # (kinks, n), above max(0, F - t - k)
    losses: Floats
    slopes: Floats


class CornerProblem:
    """The objective with its kinks split off; ``multipliers`` below are per unit of sample weight, in (0, a_j)."""

    def __init__(self, objective: LinearObjective) -> None:
        self.objective, self.utility = objective, objective.utility
        self.w = objective.shares()
        self.kinks = np.array([kink for kink, _ in self.utility.kinks])[:, None]
        self.jumps = np.array([jump for _, jump in self.utility.kinks])[:, None]
        self._least = 1e-300

    # -- the smooth part ----------------------------------------------------------------------------------------

    def _smooth_value(self, x: Floats) -> Floats:
        corners = (self.jumps * np.maximum(x - self.kinks, 0.0)).sum(axis=0)
        return np.asarray(self.utility.value(x) - corners)

    def _smooth_slope(self, x: Floats) -> Floats:
        return np.asarray(self.utility.slope(x) - (self.jumps * (x > self.kinks)).sum(axis=0))

    def _over(self, point: _Point) -> Floats:
        """F - t - k, one row per kink."""
        return np.asarray(point.losses - point.t - self.kinks)

    def _barrier(self, point: _Point, mu: float) -> float:
        """The objective of a stage, s included; +inf outside."""
        room = point.s - self._over(point)
        if not (room.min() > 0.0 and point.s.min() > 0.0):
            return float("inf")
        total = self._smooth_value(point.losses - point.t) + (self.jumps * point.s).sum(axis=0)
        total -= mu * (np.log(point.s) + np.log(room)).sum(axis=0)
        return point.t + float(self.w @ total) + self.objective.ridge(point.theta)

    # -- the method ---------------------------------------------------------------------------------------------

    def solve(self, theta: Floats, tol: float, max_iter: int) -> Corners:
        """Step until the gap, or its estimate, is at most tol times the spread of the losses."""
        losses, slopes = self.objective.loss.evaluate(self.objective.scores(theta))
        self._least = 1e-9 * self._spread(losses)  # a perfect fit has no spread of its own to be measured by
        t = self.objective.shortfall(losses)
        point = _Point(theta, t, np.zeros(0), losses, slopes)
        mu = 0.2 * self._spread(losses)
        # On the central path in s and the multipliers, whatever theta and t.
        over, reach = self._over(point), 2.0 * mu / self.jumps
        point.s = 0.5 * (over + reach + np.sqrt(over * over + reach * reach))
        multipliers = np.clip(mu / (point.s - over), 1e-12 * self.jumps, (1.0 - 1e-12) * self.jumps)
        best: Corners | None = None
        went = 0.0
        for iteration in range(max_iter + 1):
            room = point.s - self._over(point)
            mean_gap = float((self.w * (multipliers * room + (self.jumps - multipliers) * point.s)).sum())
            if iteration == max_iter or mean_gap <= 4.0 * tol * self._spread(point.losses):
                found = self._certified(point, multipliers, iteration)
                best = found if best is None or not found.estimate >= best.estimate else best
                # A gap that no longer falls although the barrier is all but gone is rounding.
                if best.estimate <= tol * self._spread(point.losses) or mean_gap <= 1e-15 * self._spread(point.losses):
                    break
            # After a short step the barrier shrinks less: the point first goes back to the middle.
            mu = max(0.1, min(1.0, (1.0 - went) ** 2)) * mean_gap / (2.0 * len(self.jumps))
            point, multipliers, went = self._step(point, multipliers, mu)
        assert best is not None
        return best

    def _step(self, point: _Point, multipliers: Floats, mu: float) -> tuple[_Point, Floats, float]:
        room = point.s - self._over(point)
        rest = self.jumps - multipliers
        x = point.losses - point.t
        smooth = self._smooth_slope(x)
        pull = 1.0 / (room + multipliers * point.s / rest)
        stiffness = multipliers * pull
        push = (mu - multipliers * room - multipliers * (mu / rest - point.s)) * pull
        bend = self.w * (second_derivative(self.utility, x) + stiffness.sum(axis=0))
        tilt = self.w * (smooth + multipliers.sum(axis=0))
        aim = tilt + self.w * push.sum(axis=0)
        # d/dt: 1 - sum(aim) - bend.(g.dtheta) + rise*dt = 0; eliminated, it leaves the centred matrix of `hessian`.
        rise, off = float(bend.sum()), 1.0 - float(aim.sum())
        right = self.objective.gradient(point.theta, point.slopes, aim)
        right += self.objective.pull((bend * (off / rise))[:, None] * point.slopes)
        step = -inverse(self.objective, point.slopes, np.maximum(tilt, 0.0), bend)(right)
        along = np.einsum("ik,ik->i", point.slopes, self.objective.scores(step))
        dt = (float(bend @ along) - off) / rise
        d_multipliers = stiffness * (along - dt) + push
        ds = (mu - rest * point.s + point.s * d_multipliers) / rest
        # Multipliers and the rest move by their own length; the primal part by one that lowers the barrier function.
        dual = min(_longest(multipliers, d_multipliers), _longest(rest, -d_multipliers))
        length = min(_longest(point.s, ds), _longest(room, ds - (along - dt)))
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

    def _moved(self, point: _Point, length: float, step: Floats, dt: float, ds: Floats) -> _Point:
        theta = point.theta + length * step
        losses, slopes = self.objective.loss.evaluate(self.objective.scores(theta))
        moved = _Point(theta, point.t + length * dt, point.s + length * ds, losses, slopes)
        # F is not linear: s follows it where the room it was promised has gone.
        room = (1.0 - _NEAR * length) * (point.s - self._over(point))
        moved.s = np.maximum(moved.s, self._over(moved) + room)
        return moved

    def spread_at(self, theta: Floats) -> float:
        """What the gap at theta is compared with."""
        return self._spread(self.objective.loss.evaluate(self.objective.scores(theta))[0])

    def _spread(self, losses: Floats) -> float:
        middle = float(self.w @ losses)
        spread = float(np.sqrt(self.w @ np.square(losses - middle)))
        return max(spread, 0.1 * abs(middle), self._least)

    # -- the bound ----------------------------------------------------------------------------------------------

    def _certified(self, point: _Point, multipliers: Floats, iterations: int) -> Corners:
        """OCE at theta against t + E[v(F-t)] + E[sum_j m_j (F-t-k_j)], which never exceeds it anywhere."""
        objective, w = self.objective, self.w
        x = point.losses - point.t
        smooth = self._smooth_slope(x)
        # The tilt must sum to 1; the multipliers give way towards 0 or towards their jumps.
        off = 1.0 - float(w @ smooth) - float((w * multipliers).sum())
        if off < 0.0:
            multipliers = multipliers * max(0.0, 1.0 + off / float((w * multipliers).sum()))
        else:
            rest = self.jumps - multipliers
            multipliers = multipliers + rest * min(1.0, off / float((w * rest).sum()))
        tilt = w * (smooth + multipliers.sum(axis=0))
        exact = objective.oce(point.losses)
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
        return Corners(point.theta, value, objective.shortfall(point.losses), norm, gap, estimate, iterations)


def _longest(a: Floats, da: Floats) -> float:
    """The longest step up to 1 that keeps a + length*da above 0."""
    down = da < 0.0
    return float(min(1.0, _NEAR * np.min(-a[down] / da[down]))) if np.any(down) else 1.0
