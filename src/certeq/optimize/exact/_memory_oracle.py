"""Scenarios in memory as the outer method asks for them: models on a working set of assets and hinges."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certeq._table import ArrayTable, Table
from certeq.optimize.domains._rows import restore
from certeq.optimize.exact._certificate import closed_box, linear_minimum
from certeq.optimize.exact._descent import TraceRow, bound_constant, descend
from certeq.optimize.exact._model import Hinges, Model, Point
from certeq.optimize.exact._recession import next_radius
from certeq.optimize.exact._risk import (
    SampleRows,
    TermAt,
    all_kinks,
    bounds_of_inner,
    furthest_inner,
    has_kinks,
    parts_at,
    times,
)
from certeq.optimize.exact._working_set import first_assets, grown_hinges, missing_assets, near_hinges, no_hinges
from certeq.optimize.qp import Multipliers, Partition, Subproblem, SubSolution, solve_subproblem
from certeq.utilities.forms import Term

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
_TRUST = 4.0  # how much further than the last step, where that was cut short, the next may go without bounds
_FAR = 1e-2  # a gap, where losses have size 1, from which on the losses will still move a good deal


@dataclass(frozen=True)
class Supported:
    """Where the supporting lines of a term are: the term there, points y_i, and the tilt q_i."""

    part: TermAt
    support: Vector
    seat: Index | None  # the kink at which a scenario is supported, -1 where at none
    tilt: Vector
    moved: bool = False  # without kinks a scenario is supported where its loss lies, unless this says otherwise


@dataclass(frozen=True)
class Answer:
    """The best point with the dual evidence that goes with it, in the model's units."""

    point: Point
    supported: tuple[Supported, ...]
    y: Vector
    z: Vector
    gap: float
    assets: Index
    iterations: int
    trace: list[TraceRow]

    @property
    def size(self) -> int:
        """How many assets the step was made in."""
        return len(self.assets)


class MemoryOracle:
    """A model whose losses are in memory, and the feasible point that was reached."""

    progress = 0.5

    def __init__(self, model: Model, point: Point, movable: Index, deadline: float) -> None:
        self.model = model
        self.movable = movable
        self.deadline = deadline
        self.point = point
        self.origin = point.theta
        self.radius = 10.0 * max(1.0, float(np.max(np.abs(point.theta), initial=0.0)))
        self.began = time.perf_counter()
        self.trace: list[TraceRow] = []
        self.iterations = 0
        self.best: Answer | None = None
        self.kinked, self.bounds = has_kinks(model.inner), bounds_of_inner(model.inner)

    def restart(self, model: Model, point: Point) -> None:
        """Go on with another model, from a point of it."""
        self.model, self.point, self.best = model, point, None

    def run(self, tolerance: float, max_iter: int, assets: Index | None = None, warm: bool = False) -> Answer:
        """Steps until the estimated gap is below ``tolerance``, relative to a loss of size 1."""
        model = self.model
        self.assets = first_assets(model, self.point.theta, self.movable) if assets is None else assets
        self.linear = not _has_curvature(model, self.point)
        self.share = 0.15 if warm else 1.0  # of the hinges: fewer are enough near the solution
        self.hinges = self._near_hinges() if self.kinked else no_hinges(model)
        self.inner = self.point.inner
        # The last model's solution, from which the next one starts, unless its assets or hinges are others.
        self.solution: SubSolution | None = self._guess(self.point.parts) if warm else None
        self.fresh_sets = not warm
        return descend(self, tolerance, max_iter)

    def step(self, tolerance: float) -> Answer:
        """Solve the model, and move towards its solution as far as the objective falls."""
        model, assets, here = self.model, self.assets, self.point
        problem = model.subproblem(here, assets, self.hinges, self.radius)
        at = np.append(here.theta[assets], here.inner / here.units)
        if self.fresh_sets and self.solution is not None:
            self.solution = self._guess(parts_at(model.inner, self.inner))
        self.solution = solution = solve_subproblem(problem, at, self.solution)
        self.inner = solution.v[len(assets) :] * here.units
        self.fresh_sets = False
        theta = here.theta.copy()
        theta[assets] = solution.v[: len(assets)]
        if not solution.exact:
            theta = self.feasible(theta)
        self._watch(problem, solution, assets)
        self.whole = self._move(theta, self.linear)
        if not self.whole:  # where curvature is scarce a model without bounds goes on for ever; it was not right so far
            self.radius = min(self.radius, _TRUST * float(np.max(np.abs(self.point.theta - here.theta), initial=0.0)))
        self.fell = here.value - self.point.value > 1e-13 * (1.0 + abs(here.value))
        return self._evidence(solution, self.inner, self.hinges, assets)

    def prepare(self, answer: Answer, tolerance: float, stalls: int) -> bool:
        """Bring in what the model left out: assets that would pay, scenarios on the wrong side of a kink."""
        model, assets, solution = self.model, self.assets, self.solution
        assert solution is not None
        if len(assets) < len(self.movable):
            reduced = self._reduced(answer, solution)
            more = missing_assets(reduced, model, self.point.theta, assets, self.movable, 0.1 * tolerance)
            if len(more):
                self.assets, self.fresh_sets = np.union1d(assets, more), True
        if self.kinked:
            spread = float(np.std(self.point.losses))
            terms = tuple(one.part for one in answer.supported)
            grown = grown_hinges(self.hinges, self.point.losses, model.samples, terms, 0.05 * spread)
            if grown is not None:
                # Far from the solution the sets of a curved model are chosen anew; later they only grow.
                anew = not self.linear and (self.iterations < 8 or answer.gap > _FAR)
                self.hinges = self._near_hinges() if anew else grown
                self.fresh_sets = True
        return self.fresh_sets or not self.whole or stalls < 3 or self.fell

    def _near_hinges(self) -> Hinges:
        return near_hinges(self.model, self.point, len(self.assets), self.share)

    def _guess(self, parts: tuple[TermAt, ...]) -> SubSolution:
        """The active set that the point itself suggests."""
        model, here, q, assets, hinges = self.model, self.point, self.model.polyhedron, self.assets, self.hinges
        theta, inner = here.theta[assets], here.inner
        side = np.zeros(0, dtype=np.int8)
        if len(hinges.scenario):
            ends = np.array([(kink.at, part.t) for part, kink in all_kinks(parts)])[hinges.which]
            excess = here.losses[hinges.scenario] - ends[:, 0] - ends[:, 1]
            side = np.where(np.abs(excess) <= 1e-9, 0, np.sign(excess)).astype(np.int8)
        partition = Partition(
            np.append(theta <= q.lower[assets], inner <= model.inner.low),
            np.append((theta >= q.upper[assets]) & (theta > q.lower[assets]), inner >= model.inner.high),
            q.G @ here.theta >= q.b - 1e-12,
            side,
        )
        zero = np.zeros(len(assets) + len(inner))
        prices = Multipliers(np.zeros(len(q.c)), np.zeros(len(q.b)), 0.5 * model.caps(hinges), zero, zero)
        return SubSolution(np.append(theta, inner / here.units), prices, partition, False, 0)

    def _watch(self, problem: Subproblem, solution: SubSolution, assets: Index) -> None:
        """Where a variable has no bound the model puts one at a distance; hitting it again and again is no minimum."""

        model = self.model

        def losses(direction: Vector, term: Term) -> tuple[Table, float]:
            x = model.samples.of(model.scenarios.losses(direction), term)
            return ArrayTable(x, model.samples.of(model.weights, term)), 0.0

        here = self.point.theta
        self.radius = next_radius(self.model, problem, solution.v, assets, here, self.origin, self.radius, losses)

    def feasible(self, theta: Vector) -> Vector:
        """The furthest point on the way to theta that keeps the rows.

        A subproblem that could not be solved to the end leaves its rows broken, and a point outside the set proves
        nothing: its value may lie below that of every point inside.
        """
        q, here = self.model.polyhedron, self.point.theta
        theta = restore(theta, q.C, q.c, q.lower, q.upper)
        start, moved = q.G @ here, q.G @ (theta - here)
        slack = np.maximum(q.b - start, 0.0)
        over = moved > slack
        length = float((slack[over] / moved[over]).min(initial=1.0))
        return theta if length == 1.0 else here + length * (theta - here)

    # -- moving -------------------------------------------------------------------------------------------------

    def _move(self, theta: Vector, linear: bool) -> bool:
        """Move towards theta as far as the objective falls; True for a whole step."""
        model, here = self.model, self.point
        if linear:  # the models are relaxations: their solutions are taken as they are
            self.point = model.evaluate(theta, here.inner)
            return True
        losses = model.scenarios.losses(theta)
        length = 1.0
        slack = 1e-14 * (1.0 + abs(here.value))
        for _ in range(40):
            mixed = theta if length == 1.0 else here.theta + length * (theta - here.theta)
            along = losses if length == 1.0 else here.losses + length * (losses - here.losses)
            trial = model.at(mixed, along, here.inner)
            if trial.value <= here.value + slack:
                self.point = trial
                return length == 1.0
            length *= 0.5
        return True

    # -- evidence -----------------------------------------------------------------------------------------------

    def _evidence(self, solution: SubSolution, inner: Vector, hinges: Hinges, assets: Index) -> Answer:
        """A tilt and multipliers for the new point, and the gap they prove (up to rounding).

        Where u has kinks the tilt is that of the model's solution, at its own inner variables.
        """
        model, point = self.model, self.point
        if self.kinked:
            supported = self._hinge_tilts(solution, hinges, parts_at(model.inner, inner))
        else:
            supported = tuple(self._where_it_lies(part) for part in point.parts)
        g = model.scenarios.column_sums(total_tilt(model.samples, supported)) + model.costs(point.theta)
        y, z = solution.multipliers.y, solution.multipliers.z
        # A variable without any bound is given a distant one, as the final certificate does.
        low, high, _ = closed_box((model.low, model.high), point.theta, 1.0, g)
        bound, y, _ = linear_minimum(g, model.polyhedron, low, high, y, z)
        gap = point.value - bound - self._constant(supported)
        if model.squares is not None:  # in the bound their tangent stands for them
            gap += model.squares.value(point.theta)
        gap = float(gap) if np.isfinite(gap) else np.inf
        return Answer(point, supported, y, z, gap, assets, self.iterations, self.trace)

    def _where_it_lies(self, part: TermAt) -> Supported:
        """Every scenario supported where it lies, at which a term without kinks has one slope only."""
        samples = self.model.samples
        losses, w = samples.of(self.point.losses, part.term), samples.of(samples.weights, part.term)
        with np.errstate(all="ignore"):
            return Supported(part, losses - part.t, None, w * part.form.left_slope(losses, part.t))

    def _constant(self, supported: tuple[Supported, ...]) -> float:
        """The constant K of the bound, less what a tilt that does not sum to 1 may cost; as `_certificate` has it."""
        model, point, inner = self.model, self.point, self.model.inner
        furthest = furthest_inner(self.bounds, 1.0 + float(np.abs(point.losses).max()), point.inner)
        constants, slopes = [], []
        for one in supported:
            part, term = one.part, one.part.term
            if one.seat is None and len(supported) == 1:  # supported where they lie: their value is known
                value = point.value - float(inner.cost @ point.inner) - float(model.linear @ point.theta)
                value -= 0.0 if model.squares is None else model.squares.value(point.theta)
                value /= part.weight
            else:
                with np.errstate(all="ignore"):
                    value = float(model.samples.of(model.weights, term) @ part.form.utility.value(one.support))
            constants.append(value - float(one.tilt @ one.support))
            slopes.append(float(one.tilt.sum()))
        return bound_constant(inner, [one.part for one in supported], constants, slopes, furthest)

    def _hinge_tilts(self, solution: SubSolution, hinges: Hinges, parts: tuple[TermAt, ...]) -> tuple[Supported, ...]:
        """Of every term, where kinks take their multipliers from the model."""
        share, first, found = solution.multipliers.p / self.model.caps(hinges), 0, []
        for part, here in zip(parts, self.point.parts, strict=True):
            count = len(part.form.kinks)
            if not count:  # at its own best inner variables, where its tilt sums to 1
                found.append(self._where_it_lies(here))
                continue
            mine = (hinges.which >= first) & (hinges.which < first + count)
            start = self.model.samples.first(part.term)
            own = Hinges(hinges.scenario[mine] - start, hinges.which[mine] - first, hinges.above[first : first + count])
            found.append(self._hinge_tilt(part, share[mine], own))
            first += count
        return tuple(found)

    def _hinge_tilt(self, part: TermAt, share: Vector, hinges: Hinges) -> Supported:
        """Supports, the kinks that they are at, and the tilt of a term with kinks.

        A scenario that the model has on its own side of every kink is supported where it lies. Of every other the
        model's multipliers say the slope, and the kink that has that slope between its own two supports it; where
        none has, whatever changes the slope least.
        """
        samples, form, t = self.model.samples, part.form, part.t
        losses, w = samples.of(self.point.losses, part.term), samples.of(samples.weights, part.term)
        slope: Vector = form.smooth_slope(losses, t)
        astray = np.zeros(len(losses), dtype=bool)
        for k, kink in enumerate(form.kinks):
            given = samples.of(hinges.above[k], part.term).astype(float)
            mine = hinges.which == k
            given[hinges.scenario[mine]] = share[mine]
            astray |= given != (losses - kink.at > t)
            slope = slope + kink.jump * given
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
        support[rows] = np.where(stays, support[rows], form.kink_locations[sits])
        slope[rows] = np.where(stays, own, at_kink)
        return Supported(part, support, seat, w * slope)

    def _reduced(self, answer: Answer, solution: SubSolution) -> Vector:
        """Reduced costs at the working set's own prices: those of the certificate would hide whoever sets them."""
        q, prices = self.model.polyhedron, solution.multipliers
        costs = self.model.costs(self.point.theta)
        tilt = total_tilt(self.model.samples, answer.supported)
        return self.model.scenarios.column_sums(tilt) + costs - prices.y @ q.C + prices.z @ q.G


def total_tilt(samples: SampleRows, supported: tuple[Supported, ...]) -> Vector:
    """The tilt of all terms together: their own, by weight."""
    return samples.total([(one.part.term, times(one.part.weight, one.tilt)) for one in supported])


def _has_curvature(model: Model, point: Point) -> bool:
    with np.errstate(all="ignore"):
        return any(
            bool(np.any(part.form.curvature(model.samples.of(point.losses, part.term), part.t))) for part in point.parts
        )
