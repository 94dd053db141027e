"""Tables read in blocks as the outer method asks for them: a step is one read, rows near a kink alone are kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certeq._table import Table
from certeq.optimize.exact._block_model import BlockPoint, KeptHinges, block_subproblem, dual_pairs, pair_up
from certeq.optimize.exact._certificate import distance, linear_minimum
from certeq.optimize.exact._descent import TraceRow, bound_constant, descend
from certeq.optimize.exact._model import Model, scale_units
from certeq.optimize.exact._recession import next_radius
from certeq.optimize.exact._risk import all_kinks, alone, bounds_of_inner, furthest_inner, parts_at, scales_of
from certeq.optimize.exact._scenarios import (
    Along,
    KeptRows,
    Look,
    Units,
    add_sums,
    add_up,
    is_piecewise,
    join_rows,
    no_rows,
)
from certeq.optimize.qp import Subproblem, SubSolution, solve_rescaled, solve_subproblem
from certeq.risk.solvers import solve_long, solve_long_inner
from certeq.utilities.forms import Inner, Term

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
_KEPT = 1 << 25  # bytes of rows near a kink that are kept
_NARROW = 1e-9  # so near a kink, where losses have size 1, a row is on it: they may all be 0 but for rounding
_STALLS = 8  # steps without a smaller gap after which none is expected
_LENGTHS = tuple(0.5**k for k in range(1, 16))


@dataclass(frozen=True)
class BlockAnswer:
    """The best point, with the multipliers that prove it, in the model's units."""

    point: BlockPoint
    covered: tuple[int, ...]  # how many of the point's rows the multipliers speak of; they come first
    hinges: KeptHinges
    share: Vector
    y: Vector
    z: Vector
    gap: float

    @property
    def size(self) -> int:
        """How many rows are kept."""
        return sum(len(rows) for rows in self.point.kept)


class BlockOracle:
    """A model whose scenarios are tables, one for each sample, and the point that was reached.

    The step's model is that of the solver in memory: a quadratic, and hinges for the rows near a kink. Those rows are
    the only ones that are kept; all others enter by their sums.
    """

    progress = 1.0

    def __init__(
        self,
        panels: Sequence[Table],
        model: Model,
        units: Sequence[Units],
        movable: Index,
        largest: float,
        deadline: float,
    ):
        self.panels, self.model, self.units, self.movable = panels, model, units, movable
        self.largest, self.deadline = largest, deadline  # no loss at a point of the set is larger
        self.size = len(model.linear)
        self.curved = any(not is_piecewise(term.form) for term in model.inner.terms)
        self.bounds = bounds_of_inner(model.inner)
        self.limit = max(2000, _KEPT // (8 * self.size * len(panels)))
        self.kinks = sum(len(term.form.kinks) for term in model.inner.terms)
        self.widths = (0.0,) * self.kinks
        self.radius = 10.0
        self.passes = self.iterations = 0
        self.trace: list[TraceRow] = []
        self.best: BlockAnswer | None = None

    def restart(self, model: Model) -> None:
        """Go on with a model of other bounds on scales."""
        self.model, self.best = model, None

    def run(self, v: Vector, width: float, tolerance: float, max_iter: int) -> BlockAnswer:
        """Steps until the estimated gap is below ``tolerance``, relative to a loss of size 1."""
        self.began = time.perf_counter()
        theta = v[: self.size]
        self.origin, self.radius = theta, 10.0 * max(1.0, float(np.max(np.abs(theta), initial=0.0)))
        self.widths = (max(width, _NARROW),) * self.kinks
        self.point = self._settle(self._look(v, [no_rows(self.size) for _ in self.panels]))
        self.last: SubSolution | None = None
        best = descend(self, tolerance, max_iter)
        if self.curved and best.gap > tolerance:  # no proof, but at least the best t for the theta there is
            settled = self._settled(best.point)
            if settled.value < best.point.value:
                return replace(best, point=settled)
        return best

    def step(self, tolerance: float) -> BlockAnswer:
        """Solve the model, and read the tables where it leads to; once more, nearer, where that is no better."""
        point = self.point
        hinges = pair_up(point.kept, point.parts, self._pairing(point))
        problem = block_subproblem(self.model, self.units, point, hinges, self.movable, self.radius)
        scales = scale_units(point.parts, len(point.inner))
        at = np.append(point.theta[self.movable], point.inner / scales)
        if len(hinges):
            solution = solve_rescaled(problem, at, max(self._spread(point, hinges), *self.widths))
        else:
            solution = self.last = solve_subproblem(problem, at, self.last)
            if not problem.is_feasible(solution.v):
                solution = SubSolution(at, solution.multipliers, solution.partition, False, solution.iterations)
        target = point.v.copy()
        target[self.movable] = solution.v[: len(self.movable)]
        target[self.size :] = np.maximum(solution.v[len(self.movable) :] * scales, self.model.inner.low)
        self._watch(problem, solution, point)
        self._widen(point, target)
        fresh = self._look(target, point.kept)
        counts = tuple([len(kept) for kept in point.kept])
        answer = self._evidence(fresh, counts, solution, hinges)
        whole = fresh.value <= point.value + 1e-13 * (1.0 + abs(point.value))
        if whole or answer.gap <= tolerance:
            return answer
        return self._evidence(self._shorter(point, target, fresh), counts, solution, hinges)

    def prepare(self, answer: BlockAnswer, tolerance: float, stalls: int) -> bool:
        """Go on from the answer's point, with few enough rows."""
        if stalls >= _STALLS:
            return False
        self.point = self._settle(answer.point)
        return True

    # -- points -------------------------------------------------------------------------------------------------

    def _look(self, v: Vector, kept: Sequence[KeptRows]) -> BlockPoint:
        """One read: all sums at v, and the rows near a kink there besides those kept, which come first."""
        model, theta, inner = self.model, v[: self.size], v[self.size :]
        parts = parts_at(model.inner, inner)
        ends = [(part.term.sample, part.t + kink.at) for part, kink in all_kinks(parts)]
        found, rows = [], []
        for sample, (panel, units, own) in enumerate(zip(self.panels, self.units, kept, strict=True)):
            mine = tuple([k for k, part in enumerate(parts) if part.term.sample == sample])
            near = tuple([(at, w) for (which, at), w in zip(ends, self.widths, strict=True) if which == sample])
            share = 2.0 * self.limit / len(panel)
            kernel = Look(theta, parts, mine, len(inner), units, np.sort(own.ids), near, share)
            sums, more = panel.reduce(kernel)
            found.append(sums)
            if len(own):
                scaled = units.rows(own.raw)
                own = KeptRows(own.ids, own.raw, own.weights, scaled @ theta)
                found.append(add_up(scaled, own.weights, own.x, parts, mine, len(inner)))
            rows.append(join_rows([own, more]))
        self.passes += 1
        total = found[0] if len(found) == 1 else add_sums(found)
        with np.errstate(all="ignore"):
            value = float(model.inner.cost @ inner) + float(model.linear @ theta)
            value += sum(part.weight * one for part, one in zip(parts, total.values.tolist(), strict=True))
            value += self._squares(theta)
        return BlockPoint(v, parts, value if np.isfinite(value) else np.inf, total, tuple(rows))

    def _squares(self, theta: Vector) -> float:
        return 0.0 if self.model.squares is None else self.model.squares.value(theta)

    def _stay(self, point: BlockPoint, kept: Sequence[KeptRows]) -> BlockPoint:
        """The same point with more rows kept."""
        rows = [replace(own, x=units.rows(own.raw) @ point.theta) for own, units in zip(kept, self.units, strict=True)]
        return replace(point, kept=tuple(rows))

    def _shorter(self, point: BlockPoint, target: Vector, there: BlockPoint) -> BlockPoint:
        """Where to go instead of a target that is no better: to its theta with better inner variables, or part way.

        Where u is steep a small change of theta asks for another t, which the model is too straight to know.
        """
        scales = scales_of(self.model.inner)
        if scales:  # to find those takes many reads
            found = self._line(point, target)
            if found is not None:
                return self._look(found, point.kept)
        if self.curved:
            settled = self._settled(there)
            if settled.value < point.value:
                return settled
        found = None if scales else self._line(point, target)
        # Where nothing on the way is better the point stays, with the rows that the step was wrong about.
        return self._stay(point, there.kept) if found is None else self._look(found, point.kept)

    def _settled(self, point: BlockPoint) -> BlockPoint:
        """The same theta with the inner variables that are best for it."""
        units, theta = self.units, point.theta
        inner, passes = best_inner_of(self.panels, self.model.inner, theta / units[0].scale)
        self.passes += passes + 1
        for term in self.model.inner.terms:
            inner[term.t] -= float(units[term.sample].center @ theta) / units[term.sample].scale
        return point if np.array_equal(inner, point.inner) else self._look(np.append(theta, inner), point.kept)

    def _settle(self, point: BlockPoint) -> BlockPoint:
        """Keep few rows enough; where the model could not balance the mean slopes, find the thresholds before it."""
        if not np.isfinite(point.value) or not self._balanced(point):
            point = self._settled(point)
        rows = list(point.kept)
        for sample, own in enumerate(rows):
            if len(own) > self.limit:
                ends = [part.t + kink.at for part, kink in all_kinks(point.parts) if part.term.sample == sample]
                far = np.min(np.abs(own.x[:, None] - np.array(ends)), axis=1)
                rows[sample] = own.pick(np.sort(np.argpartition(far, self.limit)[: self.limit]))
        return replace(point, kept=tuple(rows))

    def _balanced(self, point: BlockPoint) -> bool:
        """Whether the hinges at hand, by going to either end, can bring the mean slope of every term to its cost.

        Without curvature a model that cannot is unbounded in t; with it, it is a poor one.
        """
        hinges = pair_up(point.kept, point.parts, self._pairing(point))
        down, up = np.zeros(len(point.inner)), np.zeros(len(point.inner))
        for (part, kink), rows, cap in zip(all_kinks(point.parts), hinges.rows, hinges.split(hinges.cap), strict=True):
            above = point.kept[part.term.sample].x[rows] - part.t > kink.at
            down[part.term.t] += float(cap[above].sum())
            up[part.term.t] += float(cap[~above].sum())
        for part, slope in zip(point.parts, point.sums.slopes.tolist(), strict=True):
            t, cost = part.term.t, float(self.model.inner.cost[part.term.t])
            margin = 0.0 if is_piecewise(part.form) and part.form.kinks else 0.25 * cost
            total = part.weight * slope
            if not total - down[t] <= cost + margin or not total + up[t] >= cost - margin:
                return False
        return True

    def _line(self, point: BlockPoint, target: Vector) -> Vector | None:
        """The best of some points on the way to the target, all tried in one read; None if none is better."""
        model, here, there = self.model, point.v, target
        steps = np.array(_LENGTHS)
        on_the_way = [here + length * (there - here) for length in _LENGTHS]
        parts = tuple([parts_at(model.inner, v[self.size :]) for v in on_the_way])
        values = np.array([model.inner.cost @ v[self.size :] + model.linear @ v[: self.size] for v in on_the_way])
        values += [self._squares(v[: self.size]) for v in on_the_way]
        for sample, (panel, units) in enumerate(zip(self.panels, self.units, strict=True)):
            mine = tuple([k for k, term in enumerate(model.inner.terms) if term.sample == sample])
            kernel = Along(here[: self.size], there[: self.size], _LENGTHS, parts, mine, units)
            values = values + panel.reduce(kernel)
        self.passes += 1
        values = np.where(np.isfinite(values), values, np.inf)
        k = int(np.argmin(values))
        return here + steps[k] * (there - here) if values[k] < point.value else None

    def _widen(self, point: BlockPoint, target: Vector) -> None:
        """How near a kink a row must be to be kept: as far as the rows at hand are about to move.

        A model that moves them far beyond the rows it knows is not to be trusted so far.
        """
        step, widths = target - point.v, list(self.widths)
        moved = [units.rows(own.raw) @ step[: self.size] for units, own in zip(self.units, point.kept, strict=True)]
        for k, (part, kink) in enumerate(all_kinks(point.parts)):
            way, most = moved[part.term.sample], np.inf
            if len(way):
                ends = step[self.size + part.term.t]
                if part.term.s is not None:
                    ends = ends + step[self.size + part.term.s] * kink.at / part.s
                most = float(np.max(np.abs(way - ends)))
            widths[k] = max(min(most, 2.0 * widths[k]), _NARROW)
        self.widths = tuple(widths)

    def _spread(self, point: BlockPoint, hinges: KeptHinges) -> float:
        """How far from their kinks the hinges are."""
        return max(
            float(np.max(np.abs(point.kept[part.term.sample].x[rows] - part.t - kink.at), initial=0.0))
            for (part, kink), rows in zip(all_kinks(point.parts), hinges.rows, strict=True)
        )

    def _pairing(self, point: BlockPoint) -> tuple[float, ...]:
        """How near a kink a kept row must be to have its hinge: never so near that few rows determine the step."""
        few = 40 * len(self.movable) + 400
        widths = []
        for (part, kink), width in zip(all_kinks(point.parts), self.widths, strict=True):
            far = np.abs(point.kept[part.term.sample].x - part.t - kink.at)
            least = float(np.partition(far, few)[few]) if len(far) > few else np.inf
            widths.append(max(width, least))
        return tuple(widths)

    # -- evidence -----------------------------------------------------------------------------------------------

    def _evidence(
        self, point: BlockPoint, counts: tuple[int, ...], solution: SubSolution, hinges: KeptHinges
    ) -> BlockAnswer:
        """The gap at a point that the model's multipliers prove, up to rounding."""
        model, theta = self.model, point.theta
        share = solution.multipliers.p / hinges.cap if len(hinges) else np.zeros(0)
        if solution.exact:  # a share of 1 but for rounding would support its row at the kink instead of where it is
            side = solution.partition.side
            share = np.where(side > 0, 1.0, np.where(side < 0, 0.0, share))
        constants, slopes = point.sums.constants.copy(), point.sums.slopes.copy()
        column_sums, first, shares = point.sums.column_sums, 0, hinges.split(share)
        for k, part in enumerate(point.parts):
            count, form = len(part.form.kinks), part.form
            rows, given = hinges.rows[first : first + count], shares[first : first + count]
            first += count
            if not any(len(mine) for mine in rows):
                continue
            kept = point.kept[part.term.sample].pick(slice(0, counts[part.term.sample]))
            y = kept.x - part.t
            support, slope = dual_pairs(y, form, rows, given)
            with np.errstate(all="ignore"):
                old = form.left_slope(y)
                moved = kept.weights * (slope - old)
                values = kept.weights * (form.utility.value(support) - form.utility.value(y))
                constants[k] += float(np.sum(values - kept.weights * (slope * support - old * y)))
                slopes[k] += float(moved.sum())
                column_sums = column_sums + (part.weight * moved) @ self.units[part.term.sample].rows(kept.raw)
        far = distance(theta, 1.0)
        low = np.where(np.isinf(model.low), theta - far, model.low)
        high = np.where(np.isinf(model.high), theta + far, model.high)
        y, z = solution.multipliers.y, solution.multipliers.z
        most = self.largest if np.isfinite(self.largest) else 1.0 + point.sums.reach
        with np.errstate(all="ignore"):  # sums that overflowed prove nothing, as the gap will say
            bound, y, _ = linear_minimum(column_sums + model.costs(theta), model.polyhedron, low, high, y, z)
            furthest = furthest_inner(self.bounds, most, point.inner)
            constant = bound_constant(model.inner, point.parts, constants.tolist(), slopes.tolist(), furthest)
            gap = point.value + self._squares(theta) - constant - bound  # in the bound their tangent stands for them
        return BlockAnswer(point, counts, hinges, share, y, z, float(gap) if np.isfinite(gap) else np.inf)

    # -- no minimum ---------------------------------------------------------------------------------------------

    def _watch(self, problem: Subproblem, solution: SubSolution, point: BlockPoint) -> None:
        """As in memory."""

        def losses(direction: Vector, term: Term) -> tuple[Table, float]:
            self.passes += 1
            units = self.units[term.sample]
            way = direction / units.scale
            return self.panels[term.sample].losses(way), float(units.center @ way)

        here = point.theta
        self.radius = next_radius(self.model, problem, solution.v, self.movable, here, self.origin, self.radius, losses)


def best_inner_of(panels: Sequence[Table], inner: Inner, theta: Vector) -> tuple[Vector, int]:
    """The inner variables that are best for the losses at theta, and how many reads it took to find them."""
    found, passes = np.empty(len(inner.cost)), 0
    for term in inner.terms:
        losses, utility = panels[term.sample].losses(theta), term.form.utility
        if term.s is not None:
            _, (t, s), _, _, reads = solve_long_inner(losses, alone(inner, term))
            passes += reads
            found[term.t], found[term.s] = t, s
            least = float(inner.low[term.s])
            if s >= least:
                continue
            even = float(inner.cost[term.t]) / term.weight  # what the tilt sums to
            found[term.s], utility = least, (1.0 / even) * term.form.scaled(least).utility
        solved = solve_long(losses, utility)
        passes += solved.passes
        found[term.t] = solved.threshold
    return found, passes
