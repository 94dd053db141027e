"""The outer method for tables read in blocks: each step is one read, and the rows near a kink alone are kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certeq._table import Table
from certeq.optimize.exact._certificate import distance, linear_minimum
from certeq.optimize.exact._model import KeptHinges, Model, block_subproblem, dual_pairs, pair_up
from certeq.optimize.exact._oracle import Along, KeptRows, Look, Sums, Units, add_up, join_rows, no_rows
from certeq.optimize.exact._recession import next_radius
from certeq.optimize.qp import Subproblem, SubSolution, solve_rescaled, solve_subproblem
from certeq.risk.solvers import solve_long
from certeq.utilities import Pieces
from certeq.utilities.forms import Term

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
_KEPT = 1 << 25  # bytes of rows near a kink that are kept
_NARROW = 1e-9  # so near a kink, where losses have size 1, a row is on it: they may all be 0 but for rounding
_LENGTHS = tuple(0.5**k for k in range(1, 16))


@dataclass(frozen=True)
class BlockPoint:
    """(theta, t) with its value and the sums over all rows; ``kept`` are known row by row."""

    v: Vector
    value: float
    sums: Sums
    kept: KeptRows


@dataclass(frozen=True)
class BlockAnswer:
    """The best point, with the multipliers that prove it, in the model's units."""

    point: BlockPoint
    covered: int  # how many of the point's rows the multipliers speak of; they come first
    hinges: KeptHinges
    share: Vector
    y: Vector
    z: Vector
    gap: float


class BlockDescent:
    """Minimize a model whose scenarios are a panel, from a feasible start.

    The step's model is that of the solver in memory: a quadratic, and hinges for the rows near a kink. Those rows are
    the only ones that are kept; all others enter by their sums.
    """

    def __init__(self, panel: Table, model: Model, units: Units, movable: Index, widest: float, deadline: float):
        self.panel, self.model, self.units, self.movable = panel, model, units, movable
        self.widest, self.deadline = widest, deadline
        self.curved = not isinstance(model.form.shape, Pieces)
        self.limit = max(2000, _KEPT // (8 * panel.shape[1]))
        self.widths = tuple(0.0 for _ in model.form.kinks)
        self.radius = 10.0
        self.passes = self.iterations = 0
        self.trace: list[tuple[float, float, float, int]] = []
        self.best: BlockAnswer | None = None

    def run(self, v: Vector, width: float, tolerance: float, max_iter: int) -> BlockAnswer:
        """Steps until the estimated gap is below ``tolerance``, relative to a loss of size 1."""
        began = time.perf_counter()
        self.origin, self.radius = v[:-1], 10.0 * max(1.0, float(np.max(np.abs(v[:-1]), initial=0.0)))
        self.widths = tuple(max(width, _NARROW) for _ in self.model.form.kinks)
        point = self._settle(self._look(v, no_rows(self.panel.shape[1])))
        last: SubSolution | None = None
        stalls = 0
        for _ in range(max_iter):
            self.iterations += 1
            widths = self._pairing(point.kept)
            hinges = pair_up(point.kept, self.model.form, widths)
            problem = block_subproblem(
                self.model, self.units, point.v, point.sums, point.kept, hinges, self.movable, self.radius
            )
            columns = np.append(self.movable, len(point.v) - 1)
            at = point.v[columns]
            if len(hinges.row):
                solution = solve_rescaled(problem, at, max(self._spread(point.kept, hinges), *self.widths))
            else:
                solution = last = solve_subproblem(problem, at, last)
                if not problem.is_feasible(solution.v):
                    solution = SubSolution(at, solution.multipliers, solution.partition, False, solution.iterations)
            target = point.v.copy()
            target[columns] = solution.v
            self._watch(problem, solution, point)
            self._widen(point, target)
            fresh = self._look(target, point.kept)
            answer = self._evidence(fresh, len(point.kept), solution, hinges)
            whole = fresh.value <= point.value + 1e-13 * (1.0 + abs(point.value))
            if not whole and not answer.gap <= tolerance:
                fresh = self._shorter(point, target, fresh)
                answer = self._evidence(fresh, len(point.kept), solution, hinges)
            stalls = stalls + 1 if self.best is not None and not answer.gap < self.best.gap else 0
            if self.best is None or answer.gap < self.best.gap:
                self.best = answer
            self.trace.append((answer.point.value, answer.gap, time.perf_counter() - began, len(fresh.kept)))
            if self.best.gap <= tolerance or time.perf_counter() > self.deadline or stalls >= 8:
                break
            point = self._settle(fresh)
        assert self.best is not None
        if self.curved and self.best.gap > tolerance:  # no proof, but at least the best t for the theta there is
            settled = self._at_threshold(self.best.point)
            if settled.value < self.best.point.value:
                return replace(self.best, point=settled)
        return self.best

    # -- points -------------------------------------------------------------------------------------------------

    def _look(self, v: Vector, kept: KeptRows) -> BlockPoint:
        """One pass: all sums at v, and the rows near a kink there besides those kept, which come first."""
        model, theta, t = self.model, v[:-1], float(v[-1])
        order = np.sort(kept.ids)
        share = 2.0 * self.limit / len(self.panel)
        kernel = Look(theta, t, model.form, self.units, self.curved, order, self.widths, share)
        sums, near = self.panel.reduce(kernel)
        self.passes += 1
        if len(kept):
            rows = self.units.rows(kept.raw)
            x = rows @ theta
            kept = KeptRows(kept.ids, kept.raw, kept.weights, x - t)
            sums = sums.plus(add_up(rows, kept.weights, kept.at, x, model.form, self.curved))
        value = t + sums.value + float(model.linear @ theta)
        return BlockPoint(v, value if np.isfinite(value) else np.inf, sums, join_rows([kept, near]))

    def _stay(self, point: BlockPoint, kept: KeptRows) -> BlockPoint:
        """The same point with more rows kept."""
        at = self.units.rows(kept.raw) @ point.v[:-1] - point.v[-1]
        return BlockPoint(point.v, point.value, point.sums, KeptRows(kept.ids, kept.raw, kept.weights, at))

    def _shorter(self, point: BlockPoint, target: Vector, there: BlockPoint) -> BlockPoint:
        """Where to go instead of a target that is no better: to its theta with a better t, or part of the way.

        Where u is steep a small change of theta asks for another t, which the model is too straight to know.
        """
        if self.curved:
            settled = self._at_threshold(there)
            if settled.value < point.value:
                return settled
        found = self._line(point, target)
        # Where nothing on the way is better the point stays, with the rows that the step was wrong about.
        return self._stay(point, there.kept) if found is None else self._look(found, point.kept)

    def _at_threshold(self, point: BlockPoint) -> BlockPoint:
        """The same theta with the t that is best for it."""
        theta = point.v[:-1]
        losses = self.panel.losses(theta / self.units.scale)
        found = solve_long(losses, self.model.utility)
        self.passes += found.passes + 1
        t = found.threshold - float(self.units.center @ theta) / self.units.scale
        return point if t == point.v[-1] else self._look(np.append(theta, t), point.kept)

    def _settle(self, point: BlockPoint) -> BlockPoint:
        """Keep few rows enough; where the model could not balance the mean slope, find the threshold before it."""
        if not np.isfinite(point.value) or not self._balanced(point):
            point = self._at_threshold(point)
        if len(point.kept) > self.limit:
            far = np.min(np.abs(point.kept.at[:, None] - self.model.form.kink_locations), axis=1)
            nearest = np.sort(np.argpartition(far, self.limit)[: self.limit])
            point = BlockPoint(point.v, point.value, point.sums, point.kept.pick(nearest))
        return point

    def _balanced(self, point: BlockPoint) -> bool:
        """Whether the hinges at hand, by going to either end, can bring the mean slope to 1.

        Without curvature a model that cannot is unbounded in t; with it, it is a poor one.
        """
        hinges = pair_up(point.kept, self.model.form, self._pairing(point.kept))
        above = point.kept.at[hinges.row] > hinges.location
        down, up = float(hinges.cap[above].sum()), float(hinges.cap[~above].sum())
        margin = 0.25 if self.curved or not self.widths else 0.0
        return bool(point.sums.slope - down <= 1.0 + margin and point.sums.slope + up >= 1.0 - margin)

    def _line(self, point: BlockPoint, target: Vector) -> Vector | None:
        """The best of some points on the way to the target, all tried in one pass; None if none is better."""
        here, there = point.v, target
        kernel = Along(
            here[:-1], float(here[-1]), there[:-1], float(there[-1]), _LENGTHS, self.model.utility, self.units
        )
        values = self.panel.reduce(kernel)
        self.passes += 1
        steps = np.array(_LENGTHS)
        values = values + (1 - steps) * here[-1] + steps * there[-1]
        values = values + (1 - steps) * float(self.model.linear @ here[:-1])
        values = values + steps * float(self.model.linear @ there[:-1])
        values = np.where(np.isfinite(values), values, np.inf)
        k = int(np.argmin(values))
        return here + steps[k] * (there - here) if values[k] < point.value else None

    def _widen(self, point: BlockPoint, target: Vector) -> None:
        """How near a kink a row must be to be kept: as far as the rows at hand are about to move.

        A model that moves them far beyond the rows it knows is not to be trusted so far.
        """
        if not len(point.kept):
            self.widths = tuple(2.0 * width for width in self.widths)
            return
        step = target - point.v
        most = float(np.max(np.abs(self.units.rows(point.kept.raw) @ step[:-1] - step[-1])))
        self.widths = tuple(max(min(most, 2.0 * width), _NARROW) for width in self.widths)

    def _spread(self, kept: KeptRows, hinges: KeptHinges) -> float:
        """How far from their kinks the hinges are."""
        return float(np.max(np.abs(kept.at[hinges.row] - hinges.location)))

    def _pairing(self, kept: KeptRows) -> tuple[float, ...]:
        """How near a kink a kept row must be to have its hinge: never so near that few rows determine the step."""
        few = 40 * len(self.movable) + 400
        widths = []
        for kink, width in zip(self.model.form.kinks, self.widths, strict=True):
            far = np.abs(kept.at - kink.at)
            least = float(np.partition(far, few)[few]) if len(far) > few else np.inf
            widths.append(max(width, least))
        return tuple(widths)

    # -- evidence -----------------------------------------------------------------------------------------------

    def _evidence(self, point: BlockPoint, count: int, solution: SubSolution, hinges: KeptHinges) -> BlockAnswer:
        """The gap at a point that the model's multipliers prove, up to rounding."""
        model, theta, t = self.model, point.v[:-1], float(point.v[-1])
        share = solution.multipliers.p / hinges.cap if len(hinges.cap) else np.zeros(0)
        if solution.exact:  # a share of 1 but for rounding would support its row at the kink instead of where it is
            side = solution.partition.side
            share = np.where(side > 0, 1.0, np.where(side < 0, 0.0, share))
        constant, slope, column_sums = point.sums.constant, point.sums.slope, point.sums.column_sums
        if len(hinges.row):
            kept = point.kept.pick(slice(0, count))
            support, slopes = dual_pairs(kept.at, hinges, share, model.form)
            with np.errstate(all="ignore"):
                old = model.form.left_slope(kept.at)
                moved = kept.weights * (slopes - old)
                values = kept.weights * (model.utility.value(support) - model.utility.value(kept.at))
                constant += float(np.sum(values - kept.weights * (slopes * support - old * kept.at)))
                slope += float(moved.sum())
                column_sums = column_sums + moved @ self.units.rows(kept.raw)
        far = distance(theta, 1.0)
        low = np.where(np.isinf(model.low), theta - far, model.low)
        high = np.where(np.isinf(model.high), theta + far, model.high)
        y, z = solution.multipliers.y, solution.multipliers.z
        with np.errstate(all="ignore"):  # sums that overflowed prove nothing, as the gap will say
            bound, y, _ = linear_minimum(column_sums + model.linear, model.polyhedron, low, high, y, z)
        widest = self.widest if np.isfinite(self.widest) else 1.0 + point.sums.reach
        gap = point.value - constant - bound + abs(1.0 - slope) * (widest + abs(t))
        return BlockAnswer(point, count, hinges, share, y, z, float(gap) if np.isfinite(gap) else np.inf)

    # -- no minimum ---------------------------------------------------------------------------------------------

    def _watch(self, problem: Subproblem, solution: SubSolution, point: BlockPoint) -> None:
        """As in memory."""

        def losses(direction: Vector, _: Term) -> tuple[Table, float]:
            self.passes += 1
            way = direction / self.units.scale
            return self.panel.losses(way), float(self.units.center @ way)

        here = point.v[:-1]
        self.radius = next_radius(self.model, problem, solution.v, self.movable, here, self.origin, self.radius, losses)
