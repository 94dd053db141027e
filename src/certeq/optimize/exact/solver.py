"""The outer method: second-order models on a working set, until the certificate of the whole problem closes."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains._rows import restore
from certeq.optimize.exact.certificate import closed_box, linear_minimum
from certeq.optimize.exact.model import Hinges, Model, Point
from certeq.optimize.exact.recession import Escape, falls_for_ever
from certeq.optimize.exact.working_set import first_assets, grown_hinges, missing_assets, near_hinges, no_hinges
from certeq.optimize.qp import Multipliers, Partition, Subproblem, SubSolution, solve_subproblem

Vector = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class Answer:
    """The best point with the dual evidence that goes with it, in the model's units."""

    point: Point
    t: float
    support: Vector
    seat: Index | None  # the kink at which a scenario is supported, -1 where at none
    tilt: Vector
    y: Vector
    z: Vector
    gap: float
    assets: Index
    iterations: int
    trace: list[tuple[float, float, float, int]]


class Descent:
    """Minimize a model from a feasible start."""

    def __init__(
        self, model: Model, theta: Vector, movable: Index, deadline: float, guess: float | None = None
    ) -> None:
        self.model = model
        self.movable = movable
        self.deadline = deadline
        self.point = model.evaluate(theta, guess)
        self.origin = theta
        self.radius = 10.0 * max(1.0, float(np.max(np.abs(theta), initial=0.0)))
        self.began = time.perf_counter()
        self.trace: list[tuple[float, float, float, int]] = []
        self.iterations = 0
        self.best: Answer | None = None

    def run(self, tolerance: float, max_iter: int, assets: Index | None = None, warm: bool = False) -> Answer:
        """Steps until the estimated gap is below ``tolerance``, relative to a loss of size 1."""
        model = self.model
        assets = first_assets(model, self.point.theta, self.movable) if assets is None else assets
        linear = not _has_curvature(model, self.point)
        share = 0.15 if warm else 1.0
        hinges = near_hinges(model, self.point, len(assets), share) if model.form.kinks else no_hinges(model)
        solution: SubSolution | None = None
        fresh_sets = True
        if warm:
            solution, fresh_sets = self._guess(assets, hinges, self.point.t), False
        idle = 0
        for _ in range(max_iter):
            self.iterations += 1
            problem = model.subproblem(self.point, assets, hinges, self.radius)
            at = np.append(self.point.theta[assets], self.point.t)
            if fresh_sets and solution is not None:
                solution = self._guess(assets, hinges, float(solution.v[-1]))
            solution = solve_subproblem(problem, at, solution)
            fresh_sets = False
            theta = self.point.theta.copy()
            theta[assets] = solution.v[:-1]
            if not solution.exact:
                theta = self._feasible(theta)
            self._watch(problem, solution, assets)
            before = self.point.value
            whole = self._step(theta, linear)
            answer = self._evidence(solution, hinges, assets)
            self.trace.append((answer.point.value, answer.gap, time.perf_counter() - self.began, len(assets)))
            idle = 0 if self.best is None or answer.gap < 0.5 * self.best.gap else idle + 1
            if self.best is None or answer.gap < self.best.gap:
                self.best = answer
            if self.best.gap <= tolerance or time.perf_counter() > self.deadline:
                break
            # What the model left out: assets that would pay, scenarios on the wrong side of a kink.
            reduced = self._reduced(answer, solution)
            more = missing_assets(reduced, model, self.point.theta, assets, self.movable, 0.1 * tolerance)
            if len(more):
                assets, fresh_sets = np.union1d(assets, more), True
            if model.form.kinks:
                spread = float(np.std(self.point.losses))
                grown = grown_hinges(model, hinges, self.point.losses, answer.t, 0.05 * spread)
                if grown is not None:
                    # Far from the solution the sets of a curved model are chosen anew; later they only grow.
                    anew = not linear and self.iterations < 8
                    hinges = near_hinges(model, self.point, len(assets), share) if anew else grown
                    fresh_sets = True
            if not fresh_sets and whole and idle >= 3 and before - self.point.value <= 1e-13 * (1.0 + abs(before)):
                break
        assert self.best is not None
        return self.best

    def _guess(self, assets: Index, hinges: Hinges, t: float) -> SubSolution:
        """The active set that the start itself suggests."""
        model, here, q = self.model, self.point, self.model.polyhedron
        theta = here.theta[assets]
        free = np.zeros(1, dtype=bool)
        side = np.zeros(0, dtype=np.int8)
        if len(hinges.scenario):
            excess = here.losses[hinges.scenario] - model.form.places[hinges.which] - t
            side = np.where(np.abs(excess) <= 1e-9, 0, np.sign(excess)).astype(np.int8)
        partition = Partition(
            np.append(theta <= q.lower[assets], free),
            np.append((theta >= q.upper[assets]) & (theta > q.lower[assets]), free),
            q.G @ here.theta >= q.b - 1e-12,
            side,
        )
        zero = np.zeros(len(assets) + 1)
        prices = Multipliers(np.zeros(len(q.c)), np.zeros(len(q.b)), 0.5 * model.caps(hinges), zero, zero)
        return SubSolution(np.append(theta, here.t), prices, partition, False, 0)

    def _watch(self, problem: Subproblem, solution: SubSolution, assets: Index) -> None:
        """Where a variable has no bound the model puts one at a distance; hitting it again and again is escape."""
        q = self.model.polyhedron
        v = solution.v[:-1]
        low, high = problem.lower[:-1], problem.upper[:-1]
        slack = 1e-6 * self.radius
        hit = ((low != q.lower[assets]) & (v <= low + slack)) | ((high != q.upper[assets]) & (v >= high - slack))
        if not hit.any():
            return
        direction = np.zeros(len(self.point.theta))
        direction[assets] = v - self.point.theta[assets]
        travelled = self.point.theta - self.origin
        for way in (direction, travelled):
            if np.any(way) and falls_for_ever(self.model, way):
                raise Escape(way)
        held = self.model.squares is not None and not self.model.squares.flat_along(travelled)
        if float(np.max(np.abs(travelled))) > 1e6 and not held:  # no slope is left, and still every step was downhill
            raise Escape(travelled)
        self.radius = 10.0 * self.radius if self.radius < 1e9 else 10.0

    def _feasible(self, theta: Vector) -> Vector:
        """The furthest point on the way to theta that keeps the rows.

        A subproblem that could not be solved to the end leaves its rows broken, and a point outside the set proves
        nothing: its value may lie below that of every point inside.
        """
        q, here = self.model.polyhedron, self.point.theta
        theta = restore(theta, q.C, q.c, q.lower, q.upper)
        start, moved = q.G @ here, q.G @ (theta - here)
        room = np.maximum(q.b - start, 0.0)
        over = moved > room
        length = float((room[over] / moved[over]).min(initial=1.0))
        return theta if length == 1.0 else here + length * (theta - here)

    # -- one step -----------------------------------------------------------------------------------------------

    def _step(self, theta: Vector, linear: bool) -> bool:
        """Move towards theta as far as the objective falls; True for a whole step."""
        model, here = self.model, self.point
        if linear:  # the models are relaxations: their solutions are taken as they are
            self.point = model.evaluate(theta, here.t)
            return True
        losses = model.scenarios.losses(theta)
        length = 1.0
        slack = 1e-14 * (1.0 + abs(here.value))
        for _ in range(40):
            mixed = theta if length == 1.0 else here.theta + length * (theta - here.theta)
            along = losses if length == 1.0 else here.losses + length * (losses - here.losses)
            trial = model.at(mixed, along, here.t)
            if trial.value <= here.value + slack:
                self.point = trial
                return length == 1.0
            length *= 0.5
        return True

    # -- evidence -----------------------------------------------------------------------------------------------

    def _evidence(self, solution: SubSolution, hinges: Hinges, assets: Index) -> Answer:
        """A tilt and multipliers for the new point, and the gap they prove (up to rounding)."""
        model, point = self.model, self.point
        kinks, seat = model.form.kinks, None
        t = point.t
        if kinks:
            t = float(solution.v[-1])
            support, seat, tilt = self._hinge_tilt(solution, hinges, t)
        else:
            support = point.losses - t
            with np.errstate(all="ignore"):
                tilt = model.weights * model.form.left_slope(point.losses, t)
        g = model.scenarios.pull(tilt) + model.costs(point.theta)
        y, z = solution.multipliers.y, solution.multipliers.z
        # A variable without any bound is given a distant one, as the final certificate does.
        low, high, _ = closed_box((model.low, model.high), point.theta, 1.0, g)
        bound, y = linear_minimum(g, model.polyhedron, low, high, y, z)
        if kinks:
            with np.errstate(all="ignore"):
                constant = float(model.weights @ model.utility.value(support) - tilt @ support)
        else:  # the supports are the losses themselves, whose value is known
            constant = point.value - t - float(model.linear @ point.theta) - float(tilt @ support)
            constant -= 0.0 if model.squares is None else model.squares.value(point.theta)
        if model.squares is not None:  # in the bound their tangent stands for them
            constant -= model.squares.value(point.theta)
        drift = abs(1.0 - float(tilt.sum()))
        gap = point.value - constant - bound
        if drift > 0.0:  # times any t: a loss within reach, less the anchor
            gap += drift * (1.0 + float(np.abs(point.losses).max()) + abs(t) + abs(model.utility.anchor))
        gap = float(gap) if np.isfinite(gap) else np.inf
        return Answer(point, t, support, seat, tilt, y, z, gap, assets, self.iterations, self.trace)

    def _hinge_tilt(self, solution: SubSolution, hinges: Hinges, t: float) -> tuple[Vector, Index, Vector]:
        """Supports, the kinks that they are at, and the tilt, where kinks take their multipliers from the model.

        A scenario that the model has on its own side of every kink is supported where it lies. Of every other the
        model's multipliers say the slope, and the kink that has that slope between its own two supports it; where
        none has, whatever changes the slope least.
        """
        model, losses, form = self.model, self.point.losses, self.model.form
        share = solution.multipliers.p / model.caps(hinges)
        slope: Vector = form.smooth_slope(losses, t)
        astray = np.zeros(len(losses), dtype=bool)
        for k, kink in enumerate(form.kinks):
            part = hinges.above[k].astype(float)
            mine = hinges.which == k
            part[hinges.scenario[mine]] = share[mine]
            astray |= part != (losses - kink.at > t)
            slope = slope + kink.jump * part
        support, seat = losses - t, np.full(len(losses), -1)
        rows = np.flatnonzero(astray)
        wanted = slope[rows]
        slack = 1e-13 * (1.0 + np.abs(wanted))
        left, right = (np.array([getattr(kink, side) for kink in form.kinks]) for side in ("left", "right"))
        first = np.minimum(np.searchsorted(right, wanted - slack), len(right) - 1)
        # A slope between those of two kinks belongs to a curved stretch: to the nearer of its two ends.
        before = np.maximum(first - 1, 0)
        nearer = (wanted < left[first] - slack) & (wanted - right[before] < left[first] - wanted)
        sits = np.where(nearer, before, first)
        at_kink = np.clip(wanted, left[sits], right[sits])
        own = form.left_slope(losses[rows], t)
        stays = np.abs(own - wanted) < np.abs(at_kink - wanted)
        seat[rows] = np.where(stays, -1, sits)
        support[rows] = np.where(stays, support[rows], form.places[sits])
        slope[rows] = np.where(stays, own, at_kink)
        return support, seat, model.weights * slope

    def _reduced(self, answer: Answer, solution: SubSolution) -> Vector:
        """Reduced costs at the working set's own prices: those of the certificate would hide whoever sets them."""
        q, prices = self.model.polyhedron, solution.multipliers
        costs = self.model.costs(self.point.theta)
        return self.model.scenarios.pull(answer.tilt) + costs - prices.y @ q.C + prices.z @ q.G


def _has_curvature(model: Model, point: Point) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.any(model.form.curvature(point.losses, point.t)))
