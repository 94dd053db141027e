r"""Minimize a risk of a linear predictor's losses: Newton's method, and an interior-point method where it has kinks.

Newton's method takes a few exact second-order steps, and uses old Hessians as long as they serve. Risks with kinks,
such as CVaR, take a primal-dual interior-point method. With u = v + sum_j a_j (x - k_j)^+, v smooth, the problem of an
OCE is

.. math:: \min_{\theta, t, s}\; t + E[v(F - t)] + \sum_j a_j E[s_j] + \text{ridge},
          \qquad s_j \ge F - t - k_j,\; s_j \ge 0,

and that of a risk with more terms and scales has all of their inner variables in place of t. Each step solves the
system of Newton's method, with the multipliers' part in place of u'': the same small matrix as without kinks, as inner
variables are eliminated from it. The multipliers give a lower bound on the minimum, hence the gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from certeq._threads import one_blas_thread
from certeq.optimize.exact._risk import alone, has_kinks, scales_of, thresholds_of, with_least
from certeq.optimize.predictor import (
    DENSE,
    ROUNDING,
    At,
    Curvature,
    Floats,
    LinearObjective,
    gap_of,
    lower_bound,
    row_products,
    second_derivative,
    smooth_gap,
)
from certeq.risk.solvers import solve_inner
from certeq.utilities import CVaR, Mean, Pieces
from certeq.utilities.forms import Inner, Term

_SERVES = 0.2  # an old Hessian is kept while each step with it shrinks the gradient at least so far
Solve = Callable[[Floats], Floats]
_NEAR = 0.995  # how far towards a bound a step may go
_SHORT = 0.1  # a step that went no further went nowhere
_FIRST = 0.1  # the barrier at first, in units of the spread of the losses and of the largest jump
_FALL = 8.0  # by which a scale may fall below that of a start, and then from bound to bound
_SETTLED, _SETTLED_LAST = 1e-5, 1e-10  # decrements of Newton's method, in units of the barrier, before that shrinks
_SHRINK = 0.01  # by how much it may at once
_ATTEMPT = 40  # steps in which the limit of a scale at 0 may prove itself the answer
_TINY = 1e-150  # losses below it have squares that float64 cannot hold: they are all 0
_ROUGH = 0.05  # of its first gradient, how small that of a start need be


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

    It has converged when the gap is at most tol times the spread of the losses; without kinks also when no entry of the
    gradient exceeds tol*scale.
    """
    with np.errstate(under="ignore"), one_blas_thread():
        if objective.columns > len(objective.X):
            small, basis = objective.in_row_space()
            start = np.hstack([theta[:, : len(basis)] @ basis, theta[:, len(basis) :]])
            fitted = solve_linear(small, start, tol, max_iter, scale, rng, warm)
            theta, gradient = (
                np.hstack([a[:, : small.columns] @ basis.T, a[:, small.columns :]])
                for a in (fitted.theta, fitted.gradient)
            )
            return replace(fitted, theta=theta, gradient=gradient)
        least = 1e-9 * spread(objective, objective.loss.evaluate(objective.scores(theta))[0])
        least = max(least, ROUNDING * objective.loss.unit / tol)
        solve, spent = None, 0
        if not warm and (has_kinks(objective.inner) or scales_of(objective.inner)):
            theta, spent = _least_mean(objective, theta, max_iter // 4)
        limit = _limit(objective) if _is_largest(objective) else None
        if limit is not None:
            problem = KinkedProblem(objective.with_inner(limit), least, limit_of=objective)
            return problem.solve(theta, tol, max_iter, spent)
        if has_kinks(objective.inner):
            return KinkedProblem(objective, least).solve(theta, tol, max_iter, spent)
        if not warm:
            theta, solve, steps = _start(objective, theta, tol * scale, max_iter - spent, rng)
            spent += steps
        bounded = _bounded(objective, theta)
        if bounded is not objective:
            rough = max(tol * scale, _ROUGH * float(np.abs(bounded.evaluate(theta).gradient).max()))
            reached = minimize(bounded, theta, rough, (max_iter - spent) // 4, solve=solve)
            theta, solve, spent = reached.at.theta, reached.solve, spent + reached.iterations
            # A scale on its way to 0: the risk has kinks there, and near them Newton's method alone crawls.
            if not reached.converged or np.any(reached.at.inner <= bounded.inner.low):
                return _towards_zero(objective, reached.at, least, tol, max_iter, spent)
        reached = minimize(bounded, theta, tol * scale, max_iter - spent, solve=solve)
        at, spent = reached.at, spent + reached.iterations
        if np.any(at.inner <= bounded.inner.low):
            return _towards_zero(objective, at, least, tol, max_iter, spent)
        gap = smooth_gap(objective, at, None if reached.solve is None else -reached.solve(at.gradient))
        converged = reached.converged or gap <= tol * spread(objective, at.losses, least)
    thresholds = at.inner[thresholds_of(objective.inner)]
    return Fitted(at.theta, at.value, thresholds, at.gradient, gap, spent, converged)


@dataclass(frozen=True)
class Fitted:
    """The minimizer found, and how good it is known to be."""

    theta: Floats
    value: float
    thresholds: Floats  # one for each term of the risk
    gradient: Floats
    gap: float
    iterations: int
    converged: bool


def spread(objective: LinearObjective, losses: Floats, least: float = _TINY) -> float:
    """The standard deviation of the losses, or a tenth of their mean: what a gap is compared with."""
    w = objective.shares()
    center = float(w @ losses)
    return max(float(np.sqrt(w @ np.square(losses - center))), 0.1 * abs(center), least)


def _least_mean(objective: LinearObjective, theta: Floats, max_iter: int) -> tuple[Floats, int]:
    """Where the mean of the losses is about least, and the steps this took: a start for risks that have their unit."""
    mean = objective.with_inner(Mean().inner())
    reached = minimize(mean, theta, _ROUGH * float(np.abs(mean.evaluate(theta).gradient).max()), max_iter)
    return reached.at.theta, reached.iterations


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
    part = _bounded(part, theta)
    reached = minimize(part, theta, max(tol, 1e-4), max_iter // 4)
    return reached.at.theta, reached.solve, spent + reached.iterations


def _widened(objective: LinearObjective, theta: Floats, max_iter: int) -> tuple[Floats, int]:
    """Solve roughly with s*u(x/s), s falling to 1, where u is sharp compared with the losses.

    The curvature of u then rests on very few samples: its quadratic model holds in a tiny neighborhood only, and
    Newton's method from afar crawls.
    """
    scale, fixed = 1.0, [term for term in objective.inner.terms if term.s is None]
    enough = min(0.02 * len(objective.X), 2.0 * objective.size)
    objective = _bounded(objective, theta)
    wide = objective
    for _ in range(20 if fixed else 0):
        curvature = wide.curvature(wide.evaluate(theta)).total
        square = float(curvature @ curvature)
        if square == 0.0 or float(curvature.sum()) ** 2 >= enough * square:
            break
        scale *= 4.0
        wide = objective.with_inner(_wider(objective.inner, scale))
    spent = 0
    while scale > 1.0 and spent < max_iter:
        wide = objective.with_inner(_wider(objective.inner, scale))
        rough = _ROUGH * float(np.abs(wide.evaluate(theta).gradient).max())
        reached = minimize(wide, theta, rough, max_iter - spent)
        theta, spent = reached.at.theta, spent + reached.iterations
        scale /= 4.0
    return theta, spent


def _wider(inner: Inner, scale: float) -> Inner:
    """The risk with its utilities in a larger unit of loss; a term with a scale finds its own."""
    terms = tuple(term if term.s is not None else replace(term, form=term.form.scaled(scale)) for term in inner.terms)
    return Inner(inner.cost, inner.low, inner.high, terms)


def _bounded(objective: LinearObjective, theta: Floats) -> LinearObjective:
    """The objective with scales not much below those at theta; itself where s is no variable."""
    which = scales_of(objective.inner)
    if not which:
        return objective
    losses = objective.loss.evaluate(objective.scores(theta))[0]
    low = np.maximum(objective.risk(losses).inner[which] / _FALL, 1e-3 * spread(objective, losses))
    return objective.with_inner(with_least(objective.inner, low))


def _towards_zero(objective: LinearObjective, at: At, least: float, tol: float, max_iter: int, spent: int) -> Fitted:
    """Solve where a scale seems to tend to 0: with the scale, and if that stalls by the limit, a CVaR.

    With s = 0 the risk is the CVaR of its steepest slope, or the largest loss. It is never above that, and not below
    what a tilt of the limit gives if that is one of the risk's own: so a minimum of the limit is one of the risk then.
    """
    limit = _limit(objective)
    enough = max_iter if limit is None else max_iter - min(_ATTEMPT, (max_iter - spent) // 2)
    found = KinkedProblem(objective, least).solve(at.theta, tol, enough, spent, at.inner)
    if found.converged or limit is None:
        return found
    problem = KinkedProblem(objective.with_inner(limit), least, limit_of=objective)
    other = problem.solve(at.theta, tol, max_iter, found.iterations)
    return other if other.converged else replace(found, iterations=other.iterations)


def _is_largest(objective: LinearObjective) -> bool:
    """Whether every risk with a scale is the largest loss, whatever the losses: its tilt may be all on one sample."""
    inner, each = objective.inner, objective.shares()[: 1 if objective.weights is None else None]
    for term in inner.terms:
        if term.s is not None:
            u, even = term.form.utility, float(inner.cost[term.t]) / term.weight
            with np.errstate(over="ignore"):
                cost = each * u.conjugate(even / each) + (1.0 - each) * u.conjugate(np.float64(0.0))
            if not term.weight * float(np.max(cost)) <= float(inner.cost[term.s]):
                return False
    return bool(scales_of(inner))


def _limit(objective: LinearObjective) -> Inner | None:
    """The risk with every scale at 0; None where it is no sum of CVaRs."""
    inner = objective.inner
    cost, terms = inner.cost[thresholds_of(inner)], []
    weight = float(objective.shares().min())  # a CVaR of no more than the weight of a sample is the largest loss
    for k, (term, share) in enumerate(zip(inner.terms, cost.tolist(), strict=True)):
        if term.s is None:
            terms.append(replace(term, t=k))
            continue
        low, high = term.form.utility.slope_range
        alpha = max(share / (term.weight * high), weight)
        if low != 0.0 or not alpha < 1.0:
            return None
        terms.append(replace(CVaR(alpha).inner().terms[0], weight=share, t=k))
    free = np.full(len(cost), np.inf)
    return Inner(cost, -free, free, tuple(terms))


# -- without kinks ----------------------------------------------------------------------------------------------------


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


def inverse(objective: LinearObjective, slopes: Floats, tilt: Floats, curvature: Curvature | None) -> Solve:
    """g -> H^-1 g at a point, made definite where it is not."""
    # Blocks of outputs precondition well, but not well enough for the weights that an interior point gives to kinks.
    enough = DENSE if objective.shape[0] == 1 or has_kinks(objective.inner) else DENSE // 5
    if objective.size > enough:
        return _conjugate_gradients(objective, slopes, tilt, curvature)
    solve = _factored(objective.hessian(slopes, tilt, curvature))
    return lambda g: solve(g.ravel()).reshape(objective.shape)


def _factored(H: Floats) -> Solve:
    """b -> H^-1 b, H made definite where it is not."""
    diagonal = np.abs(H.diagonal())
    # Scaling to a unit diagonal makes the shift mean the same for every column, whatever its units.
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    H = H * scale[:, None] * scale
    factor, failed = dpotrf(H, lower=True)
    shift = 0.0
    while failed or (shift == 0.0 and not float(factor.diagonal().min()) > 1e-7):
        shift = max(10.0 * shift, 1e-10)
        factor, failed = dpotrf(H + shift * np.eye(len(H)), lower=True)
    return lambda b: np.asarray(scale * dpotrs(factor, scale * b, lower=True)[0])


def _preconditioner(objective: LinearObjective, slopes: Floats, tilt: Floats, curvature: Curvature | None) -> Solve:
    """Return an approximate inverse Hessian that treats the outputs, or all parameters, as independent."""
    blocks = [objective.block(slopes, np.maximum(tilt, 0.0), curvature, k) for k in range(objective.shape[0])]
    if blocks[0].ndim == 1:
        diagonal = np.array(blocks)
        diagonal = np.where(diagonal > 0.0, diagonal, 1.0)
        return lambda g: g / diagonal
    solves = [_factored(H) for H in blocks]
    return lambda g: np.array([solve(row) for solve, row in zip(solves, g, strict=True)])


def _conjugate_gradients(
    objective: LinearObjective, slopes: Floats, tilt: Floats, curvature: Curvature | None
) -> Solve:
    precondition = _preconditioner(objective, slopes, tilt, curvature)

    def solve(g: Floats) -> Floats:
        x, residual = np.zeros_like(g), g.copy()
        direction = z = precondition(g)
        square, start = float(np.vdot(g, z)), float(np.vdot(g, g))
        # Solving to sqrt(norm) keeps the outer convergence faster than linear.
        goal = start * min(0.25, np.sqrt(start)) ** 2
        for _ in range(min(2 * objective.size, 200)):
            if float(np.vdot(residual, residual)) <= goal:
                break
            product = objective.hessian_product(slopes, tilt, curvature, direction)
            along = float(np.vdot(direction, product))
            if along <= 0.0:  # a direction of negative curvature still leads down
                return x if x.any() else direction
            length = square / along
            x += length * direction
            residual -= length * product
            z = precondition(residual)
            before, square = square, float(np.vdot(residual, z))
            direction = z + (square / before) * direction
        return x

    return solve


# -- with kinks -------------------------------------------------------------------------------------------------------


class KinkedProblem:
    """The objective with its kinks split off, and scales that may tend to 0.

    ``jumps`` are those of the kinks of all terms, one after the other, times the weights of the terms; ``multipliers``
    below are per unit of sample weight, between 0 and them. ``least`` is the spread of losses that are hardly any. With
    ``limit_of`` the risk is the limit of that objective's, whose value and tilt the answer is judged by.
    """

    def __init__(self, objective: LinearObjective, least: float, limit_of: LinearObjective | None = None) -> None:
        self.objective, self.inner, self.least = objective, objective.inner, least
        self.judge = objective if limit_of is None else limit_of
        self.w = objective.shares()
        kinks = [(term, kink) for term in self.inner.terms for kink in term.form.kinks]
        self.owner = [term for term, _ in kinks]
        self.jumps = np.array([term.weight * kink.jump for term, kink in kinks]).reshape(-1, 1)
        # A kink of s u((F - t)/s) is where F = t + s k: how the inner variables move it, and where it is beside them.
        self.moves, self.fixed = np.zeros((len(kinks), len(self.inner.cost))), np.zeros((len(kinks), 1))
        for j, (term, kink) in enumerate(kinks):
            self.moves[j, term.t] = 1.0
            if term.s is None:
                self.fixed[j] = kink.at
            else:
                self.moves[j, term.s] = kink.at
        self.scales = scales_of(self.inner)

    # -- the smooth part ----------------------------------------------------------------------------------------

    def _smooth_value(self, term: Term, point: _Iterate) -> Floats:
        """weight * s v((F - t)/s)."""
        t, s = point.at(term)
        x = (point.losses - t) / s
        if isinstance(line := term.form.shape, Pieces):  # what is left of two lines is one, through the kink
            at_kink = float(term.form.utility.value(np.float64(line.kink)))
            return np.asarray((term.weight * s) * (at_kink + line.low * (x - line.kink)))
        hinges = sum((kink.jump * np.maximum(x - kink.at, 0.0) for kink in term.form.kinks), np.zeros(1))
        return np.asarray((term.weight * s) * (term.form.utility.value(x) - hinges))

    def _smooth_slope(self, term: Term, point: _Iterate) -> Floats:
        t, s = point.at(term)
        if isinstance(line := term.form.shape, Pieces):
            return np.full(len(point.losses), term.weight * line.low)
        if s == 1.0:
            return np.asarray(term.weight * term.form.smooth_slope(point.losses, t))
        return np.asarray(term.weight * term.form.smooth_slope((point.losses - t) / s))

    def _in_inner(self, point: _Iterate) -> Floats:
        """The derivative of the smooth part in the inner variables."""
        slope = self.inner.cost.copy()
        for term in self.inner.terms:
            t, s = point.at(term)
            own = self.w * self._smooth_slope(term, point)
            slope[term.t] -= float(own.sum())
            if term.s is not None:
                slope[term.s] += float(self.w @ self._smooth_value(term, point) - own @ (point.losses - t)) / s
        return np.asarray(slope)

    def _barrier(self, point: _Iterate, mu: float) -> float:
        """The objective of a stage, s included; +inf outside."""
        slack, scales = point.s - point.over, point.v[self.scales]
        if not ((slack > 0.0).all() and (point.s > 0.0).all() and (scales > 0.0).all()):
            return float("inf")
        fixed = float(self.inner.cost @ point.v) - mu * float(np.log(scales).sum()) + self.objective.ridge(point.theta)
        for jump, s, free in zip(self.jumps[:, 0], point.s, slack, strict=True):
            fixed += float(self.w @ (jump * s - mu * np.log(s * free)))
        for term in self.inner.terms:
            fixed += float(self.w @ self._smooth_value(term, point))
        return fixed

    # -- the method ---------------------------------------------------------------------------------------------

    def solve(self, theta: Floats, tol: float, max_iter: int, spent: int = 0, inner: Floats | None = None) -> Fitted:
        """Step until the gap, or its estimate, is at most tol times the spread of the losses.

        ``inner`` are the best inner variables at theta of a risk without kinks, with scales at lower bounds.
        """
        losses, slopes = self.objective.loss.evaluate(self.objective.scores(theta))
        size = spread(self.objective, losses, self.least)
        v = self.objective.risk(losses).inner if inner is None else inner.copy()
        v[self.scales] = np.maximum(v[self.scales], 0.1 * size)
        point = self._iterate(theta, v, np.zeros(0), losses, slopes)
        barrier = _Barrier(_FIRST * size * float(self.jumps.max(initial=1.0)))
        if inner is not None:  # least at the bound, where a slope is left: so it is least with this barrier instead
            left = self._in_inner(point)[self.scales] * v[self.scales]
            barrier.mu = max(float(left.max()), 1e-3 * size)
        # On the central path in s and the multipliers, whatever theta and t.
        mu, over = barrier.mu, point.over
        reach = 2.0 * mu / self.jumps
        point.s = 0.5 * (over + reach + np.sqrt(over * over + reach * reach))
        multipliers = np.clip(mu / (point.s - over), 1e-12 * self.jumps, (1.0 - 1e-12) * self.jumps)
        of_scales = mu / v[self.scales]
        best: tuple[float, Fitted] | None = None
        count = 2.0 * len(self.jumps) + len(self.scales)
        for iteration in range(spent, max_iter + 1):
            size = spread(self.objective, point.losses, self.least)
            # m (s - over) + (jump - m) s
            mean_gap = float(of_scales @ point.v[self.scales])
            mean_gap += float(((self.jumps * point.s - multipliers * point.over) @ self.w).sum())
            barrier.now, barrier.target = mean_gap / count, 0.5 * tol * size / count
            if iteration == max_iter or mean_gap <= 4.0 * tol * size:
                found = self._certified(point, multipliers, iteration, tol)
                best = found if best is None or not found[0] >= best[0] else best
                # A gap that no longer falls although the barrier is all but gone is rounding.
                if best[0] <= tol * size or mean_gap <= 1e-15 * size:
                    break
            point, multipliers, of_scales = self._step(point, multipliers, of_scales, barrier)
        assert best is not None
        return best[1]

    def _step(
        self, point: _Iterate, multipliers: Floats, of_scales: Floats, barrier: _Barrier
    ) -> tuple[_Iterate, Floats, Floats]:
        w, objective, scales = self.w, self.objective, point.v[self.scales]
        slack = point.s - point.over
        rest = self.jumps - multipliers
        ratio = multipliers / rest
        inverse_slack = 1.0 / (slack + ratio * point.s)
        stiffness, pressed = multipliers * inverse_slack, multipliers * point.over
        curvature = Curvature.zero(len(w), len(point.v))
        tilt = multipliers.sum(axis=0)
        for j, moves in enumerate(self.moves):
            curvature.add(w * stiffness[j], [(k, float(moves[k])) for k in np.flatnonzero(moves).tolist()])
        for term in self.inner.terms:
            t, s = point.at(term)
            tilt += self._smooth_slope(term, point)
            if not isinstance(term.form.shape, Pieces):
                z = (point.losses - t) / s
                ways: list[tuple[int, Floats | float]] = [(term.t, 1.0)]
                curvature.add(
                    w * second_derivative(term.form, z, 0.0) * (term.weight / s),
                    ways if term.s is None else [*ways, (term.s, z)],
                )
        tilt *= w
        smooth_in_v = self._in_inner(point)  # but for the multipliers' part
        curvature.inner[self.scales, self.scales] += of_scales / scales
        solve = inverse(objective, point.slopes, np.maximum(tilt, 0.0), curvature)

        def towards(first: Floats | float, second: Floats | float, mu: float) -> tuple[Any, ...]:
            """The step to products of slack and multipliers, and of s and what is left of these, as given."""
            shift = (first - ratio * second + pressed) * inverse_slack
            in_v = smooth_in_v - self.moves.T @ ((multipliers + shift) @ w)
            in_v[self.scales] -= mu / scales
            # d/dv: in_v - M along + K dv = 0; eliminated, it leaves the matrix of `hessian`.
            aim = tilt + w * shift.sum(axis=0) + curvature.solve(in_v) @ curvature.mixed
            right = objective.gradient(point.theta, point.slopes, aim)
            step = -solve(right)
            along = row_products(point.slopes, objective.scores(step))
            dv = curvature.solve(curvature.mixed @ along - in_v)
            change = along - (self.moves @ dv)[:, None]
            d_multipliers = stiffness * change + shift
            ds = (second + point.s * d_multipliers) / rest - point.s
            decrement = -float(np.vdot(step, right)) + float(in_v @ curvature.solve(in_v))
            return step, dv, change, d_multipliers, ds, decrement

        if self.scales:
            previous = barrier.mu
            found = towards(previous, previous, previous)
            mu = barrier.next(max(found[-1], 0.0) / previous)
            step, dv, change, d_multipliers, ds, _ = found if mu == previous else towards(mu, mu, mu)
        else:  # as far as a step without a barrier would go, and its products, to second order
            _, _, change, d_multipliers, ds, _ = towards(0.0, 0.0, 0.0)
            dual = min(_longest(multipliers, d_multipliers), _longest(rest, -d_multipliers))
            length = min(_longest(point.s, ds), _longest(slack, ds - change))
            m = multipliers + dual * d_multipliers
            s, over = point.s + length * ds, point.over + length * change
            then = float(((self.jumps * s - m * over) @ w).sum()) / (2.0 * len(self.jumps))
            # After a step that went nowhere some products are far smaller than others: first back to the path.
            ahead = barrier.went > _SHORT
            mu = barrier.mu = (max(1e-3, (then / barrier.now) ** 3) if ahead else 1.0) * barrier.now
            first, second = mu - d_multipliers * (ds - change) * ahead, mu + d_multipliers * ds * ahead
            step, dv, change, d_multipliers, ds, _ = towards(first, second, mu)
        d_of_scales = (mu - of_scales * (scales + dv[self.scales])) / scales
        # Multipliers and the rest move by their own length; the primal part by one that lowers the barrier function.
        dual = min(
            _longest(multipliers, d_multipliers), _longest(rest, -d_multipliers), _longest(of_scales, d_of_scales)
        )
        length = min(_longest(point.s, ds), _longest(slack, ds - change), _longest(scales, dv[self.scales]))
        before = self._barrier(point, mu)
        noise = 1e-13 * max(abs(before), spread(objective, point.losses, self.least))
        for _ in range(40):
            there = self._moved(point, length, step, dv, ds)
            if self._barrier(there, mu) <= before + noise:
                break
            length *= 0.5
        else:
            there, length = point, 0.0
        barrier.went = min(length, dual)
        return there, multipliers + dual * d_multipliers, of_scales + dual * d_of_scales

    def _iterate(self, theta: Floats, v: Floats, s: Floats, losses: Floats, slopes: Floats) -> _Iterate:
        """A point, and F - t - k there, one row per kink."""
        over = losses - ((self.moves @ v)[:, None] + self.fixed)
        return _Iterate(theta, v, s, losses, slopes, over)

    def _moved(self, point: _Iterate, length: float, step: Floats, dv: Floats, ds: Floats) -> _Iterate:
        theta = point.theta + length * step
        losses, slopes = self.objective.loss.evaluate(self.objective.scores(theta))
        moved = self._iterate(theta, point.v + length * dv, point.s + length * ds, losses, slopes)
        # F is not linear: s follows it where the slack of the linear model has gone.
        slack = (1.0 - _NEAR * length) * (point.s - point.over)
        moved.s = np.maximum(moved.s, moved.over + slack)
        return moved

    # -- the bound ----------------------------------------------------------------------------------------------

    def _certified(self, point: _Iterate, multipliers: Floats, iterations: int, tol: float) -> tuple[float, Fitted]:
        """The risk at theta against a supporting plane of it, which never exceeds it anywhere.

        The gap is proved, see `lower_bound`. The number beside it is the same to second order in the gradient, and
        there without a penalty too: the method stops by the less of the two.
        """
        objective, w = self.objective, self.w
        lower, tilt = 0.0, np.zeros(len(w))
        for term, judge in zip(self.inner.terms, self.judge.inner.terms, strict=True):
            own = multipliers[[j for j, owner in enumerate(self.owner) if owner is term]]
            plane, part = self._supported(term, point, own)
            if judge.s is not None and term.s is None:
                plane, part = self._within(judge, part / w, point)
            lower, tilt = lower + plane, tilt + part
        solved = self.judge.risk(point.losses)
        gradient = objective.gradient(point.theta, point.slopes, tilt)
        value = solved.value + objective.ridge(point.theta)
        # The plane lies where the tilt's own weighted losses are least: one Newton step on them, for squares exact.
        step = inverse(objective, point.slopes, np.maximum(tilt, 0.0), None)(gradient)
        bound = lower_bound(objective, tilt, lower, point.losses, point.slopes)
        if np.isfinite(bound):
            losses, slopes = objective.loss.evaluate(objective.scores(point.theta - step))
            plane = lower + float(tilt @ (losses - point.losses))
            bound = max(bound, lower_bound(objective, tilt, plane, losses, slopes))
        gap = gap_of(objective, value, bound, point.losses)
        estimate = min(gap, solved.value - lower + 0.5 * max(float(np.vdot(gradient, step)), 0.0))
        good = estimate <= tol * spread(objective, point.losses, self.least)
        thresholds = solved.inner[thresholds_of(self.judge.inner)]
        return estimate, Fitted(point.theta, value, thresholds, gradient, gap, iterations, good)

    def _supported(self, term: Term, point: _Iterate, multipliers: Floats) -> tuple[float, Floats]:
        """A supporting plane of one term, as its value at the losses and its tilt.

        With neither kinks nor a scale it is the term's own. Otherwise multipliers give way, towards 0 or their jumps,
        until the tilt has the right sum. It supports t + E[v(F-t)] + E[sum_j m_j (F-t-k_j)] then, or with a scale q.F
        if its divergence costs no more than s does; else it is mixed with the even tilt, as far as convexity asks.
        """
        share, t, w = float(self.inner.cost[term.t]), point.at(term)[0], self.w
        if term.s is None and not term.form.kinks:
            solved = solve_inner(point.losses, self.objective.weights, alone(self.inner, term))
            return (-np.inf, np.zeros(len(w))) if solved is None else (solved.value, solved.tilt)
        smooth = self._smooth_slope(term, point)
        jumps = np.array([term.weight * kink.jump for kink in term.form.kinks]).reshape(-1, 1)
        off = share - float(w @ smooth) - float((w * multipliers).sum())
        if not term.form.kinks:
            smooth = smooth * (share / (share - off)) if share > off else np.full(len(w), share)
        elif off < 0.0:
            multipliers = multipliers * max(0.0, 1.0 + off / float((w * multipliers).sum()))
        else:
            rest = jumps - multipliers
            multipliers = multipliers + rest * min(1.0, off / float((w * rest).sum()))
        slopes = smooth + multipliers.sum(axis=0)
        if term.s is None:
            over = point.losses - t - term.form.kink_locations[:, None]
            hinges = (multipliers * over).sum(axis=0)
            return share * t + float(w @ (self._smooth_value(term, point) + hinges)), w * slopes
        return self._within(term, slopes, point)

    def _within(self, term: Term, slopes: Floats, point: _Iterate) -> tuple[float, Floats]:
        """The plane of a tilt, given per unit of sample weight, of a term with a scale."""
        w, inner = self.w, self.judge.inner
        share, cost, u = float(inner.cost[term.t]), float(inner.cost[term.s or 0]), term.form.utility
        even = share / term.weight
        least, most = (
            term.weight * float(w @ np.asarray(u.conjugate(y))) for y in (even + 0.0 * w, slopes / term.weight)
        )
        if not most <= cost:
            slopes = share + (cost - least) / (most - least) * (slopes - share)
        return float(w @ (slopes * point.losses)), w * slopes


@dataclass
class _Iterate:
    theta: Floats
    v: Floats  # inner variables
    s: Floats  # (kinks, n), above max(0, F - t - k)
    losses: Floats
    slopes: Floats
    over: Floats  # (kinks, n), F - t - k

    def at(self, term: Term) -> tuple[float, float]:
        """Threshold and scale of a term."""
        return float(self.v[term.t]), 1.0 if term.s is None else float(self.v[term.s])


@dataclass
class _Barrier:
    """How strong the barrier is, and how it may shrink where there are scales.

    Without scales each step finds its own. A term of a scale is as sharp as s is small, without multipliers: there
    Newton's method must settle before the barrier shrinks. What is off then is off in the unit of s, so that it grows
    as s shrinks: the better it has settled, and the better the last time went, the more. Beyond the target rounding of
    the losses comes near s, so that it shrinks slowly there.
    """

    mu: float
    now: float = np.inf  # the mean product of slack and multiplier
    target: float = 0.0  # as weak as it need be
    went: float = 1.0  # how far the last step went
    shrink: float = 1.0

    def next(self, off: float) -> float:
        """Make it weaker if ``off`` allows, the decrement of Newton's method in units of mu."""
        beyond = self.now <= 4.0 * self.target
        if off <= (_SETTLED_LAST if beyond else _SETTLED):
            slow = beyond or self.went < 1.0
            self.shrink = 0.25 if slow else min(0.25, max(_SHRINK, 0.25 * self.shrink, 10.0 * float(np.sqrt(off))))
            mu = max(self.shrink, min(1.0, (1.0 - self.went) ** 2)) * self.now
            self.mu = mu if beyond else max(mu, self.target)
        return self.mu


def _longest(a: Floats, da: Floats) -> float:
    """The longest step up to 1 that keeps a + length*da above 0."""
    if a.size == 0:
        return 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        fastest = -float(np.fmin.reduce(da / a, axis=None))
    return 1.0 if not fastest > _NEAR else _NEAR / fastest
