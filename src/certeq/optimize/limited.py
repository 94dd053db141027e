"""Minimization under limits on risks: cuts and a Lagrangian term together, with one proved gap for the whole problem.

Minimize f over a polyhedron P where rho_j <= level_j. A point v_k with a slope g_j of rho_j there gives the cut
c_j(v) = rho_j(v_k) + g_j.(v - v_k) <= rho_j(v), a row. With multipliers lambda the step

    min  f(v) + sum_j lambda_j (rho_j(v) - c_j(v))   over P and the cuts  c_j(v) <= level_j

is one exact problem; the multipliers of its cuts are the next lambda (Robinson 1972). Near the solution that converges
quadratically where the risks are smooth, and finitely where they are piecewise linear: the slope that the exact solver
proves its answer with is the one that attains the dual of the whole problem, and a cut made of it is exact there.

For any lambda >= 0 and every v that keeps the limits,  f(v) >= f(v) + sum_j lambda_j (rho_j(v) - level_j), so that the
proved lower bound of that sum over P, one more exact problem, bounds the minimum. Only this and the value at a point
that keeps the limits go into the gap.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains import InfeasibleError, UnboundedError
from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact._solve import status_of
from certeq.optimize.functions import (
    RiskFunction,
    SquareFunction,
    SumMinimum,
    ValueAt,
    WeightedSum,
    minimize_objective,
    time_left,
)
from certeq.optimize.gaps import proved_gap
from certeq.optimize.widening import solve_widening

Vector = NDArray[np.float64]
Function = RiskFunction | SquareFunction
_EPS = float(np.finfo(np.float64).eps)
_KEPT = 1e-11  # a limit broken by this share of its unit is kept, but for rounding
_AMPLE = 1e-3  # to spare, in units, where a point inside the limits is good enough to start from
_BORDER = 1e-10  # a least level so little above the one asked for is taken as that one
_STEPS = 25  # with cuts, before the dual is maximized instead
_SLOW = 5  # of them without coming half as near to the limits: the dual is maximized once
_NEAR = 1e-6  # excess over a limit, in units, at which a proof is tried
_KNOWN = 60  # points that are kept
_DUST = 1e-12  # of what could be held: nothing is, but for rounding
_PATIENCE = 6  # steps for which a cut without a multiplier is kept


class InfeasibleLimitsError(InfeasibleError):
    """No point of the feasible set keeps the limits.

    The arguments beside the message are kept as attributes.

    Parameters
    ----------
    message : str
        Which limits cannot be kept.
    limits : tuple of int
        Which of them: one that cannot be met by itself, or several that cannot be met together.
    least : tuple of float
        Of one limit, the least level it could have; of several, the levels that all would have to be raised to.
    excess : float
        By how much at least one of them must be exceeded.

    See Also
    --------
    certeq.InfeasibleError
        Error raised for an empty feasible set.
    certeq.Limit
        A limit on a risk.

    Examples
    --------
    >>> import certeq as ce
    >>> losses = ce.LinearLoss([[1.0, 2.0], [2.0, 0.0]])
    >>> limit = ce.Limit(losses, ce.CVaR(0.5), 1.0)
    >>> try:
    ...     ce.minimize(losses, ce.Mean(), domain=ce.Simplex(), limits=[limit])
    ... except ce.InfeasibleError as error:
    ...     print(error.limits, round(error.least[0], 6))
    (0,) 1.333333
    """

    def __init__(self, message: str, limits: tuple[int, ...], least: tuple[float, ...], excess: float) -> None:
        super().__init__(message)
        self.limits, self.least, self.excess = limits, least, excess

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.limits, self.least, self.excess)


@dataclass(frozen=True)
class LimitedResult:
    """A point that keeps the limits, with a proved gap and the multipliers of the limits."""

    theta: Vector
    value: float
    gap: float
    lower_bound: float
    relative_gap: float
    limit_values: Vector
    limit_multipliers: Vector
    binding: tuple[int, ...]
    status: str
    iterations: int
    trace: list[tuple[float, float, float, int]]
    radius: float = np.inf


@dataclass(frozen=True)
class RiskCut:
    """slope.v <= right, of a limit; ``unused`` counts the steps since it had a multiplier."""

    limit: int
    slope: Vector
    right: float
    unused: int = 0


@dataclass(frozen=True)
class KnownPoint:
    """A point, the objective there, and the limits' functions."""

    v: Vector
    objective: ValueAt
    limits: list[ValueAt]


def solve_limited(
    objective: WeightedSum,
    limits: Sequence[tuple[Function, float]],
    q: Constraints,
    *,
    names: Sequence[str] = (),
    theta0: Vector | None = None,
    multipliers0: Vector | None = None,
    tol: float = 1e-9,
    max_iter: int = 60,
    time_limit: float | None = None,
) -> LimitedResult:
    """Minimize the objective over the polyhedron where every function is at most its level."""
    deadline = np.inf if time_limit is None else time.perf_counter() + time_limit
    called = list(names) or [f"limits[{j}]" for j in range(len(limits))]
    try:
        return _Limited(objective, limits, q, called, tol, max_iter, deadline).solve(theta0, multipliers0)
    except UnboundedError:
        if not limits:
            raise

    def within(box: Constraints) -> LimitedResult:
        return _Limited(objective, limits, box, called, tol, max_iter, deadline).solve(theta0, None)

    units = [abs(level) / one.deviation for one, level in limits if one.deviation > 0.0]
    return solve_widening(within, q, theta0, max(units, default=0.0) or 1.0, tol)


class _Limited:
    def __init__(
        self,
        objective: WeightedSum,
        limits: Sequence[tuple[Function, float]],
        q: Constraints,
        names: list[str],
        tol: float,
        max_iter: int,
        deadline: float,
    ) -> None:
        self.objective, self.q, self.names, self.tol = objective, q, names, tol
        self.functions = [function for function, _ in limits]
        self.levels = np.array([level for _, level in limits], dtype=np.float64)
        self.max_iter, self.deadline = max_iter, deadline
        self.began, self.iterations = time.perf_counter(), 0
        self.trace: list[tuple[float, float, float, int]] = []
        self.cuts: list[RiskCut] = []
        self.known: list[KnownPoint] = []
        self.best: KnownPoint | None = None  # of least value among those that keep the limits
        self.lower, self.multipliers, self.radius = -np.inf, np.zeros(len(limits)), np.inf
        self.floor = 0.0  # what the gap is relative to at least

    # -- the method -----------------------------------------------------------------------------------------------

    def solve(
        self, start: Vector | None, multipliers: Vector | None, inside: KnownPoint | None = None
    ) -> LimitedResult:
        """Where no limit binds, the first answer is the answer; else steps from there."""
        lam = None if multipliers is None or not len(self.levels) else np.maximum(multipliers, 0.0)
        free: KnownPoint | None = None
        if lam is None:
            found = self._minimize(self.objective, start=start)
            free = self._point(found.v)
            self.lower, self.radius = found.lower_bound, found.radius
            if self._worst(free) <= 0.0:
                # Its answer is the answer, and what it is measured by as well: losses that cancel have no size.
                self.best, self.floor = free, max(self.floor, found.size)
                return self._result()
        self.best = inside = self._inside() if inside is None else inside
        self.known = [inside] if free is None else [free, inside]
        if lam is None:
            assert free is not None
            lam = self._first_multipliers(free, inside)
        last = self._prove(lam, None if multipliers is None else start)  # what is far away is a poor start
        proved, stuck, nearest, slow = np.inf, False, np.inf, 0
        for step in range(self.max_iter):
            if self._closed() or time.perf_counter() > self.deadline:
                break
            if stuck or step >= _STEPS or slow >= _SLOW:
                # Where tilts tie, cuts and the Lagrangian term may balance at multipliers that are not the limits'.
                lam = self._best_multipliers()
                last, slow = self._prove(lam, last.v), 0
                continue
            self._cut(last)
            found = self._step(last, lam)
            last = self._reached(found, lam)
            lam = self._next_multipliers(found)
            apart = np.array([one.value for one in last.limits]) - self.levels
            spent = float(lam @ np.abs(apart)) / self._scale()
            away = max(self._worst(last), spent)
            nearest, slow = min(nearest, away), 0 if away <= 0.5 * nearest else slow + 1
            if self._worst(last) <= _NEAR and spent <= 0.3 * self.tol:
                self._prove(lam, last.v)
                stuck = self._gap() > 0.5 * proved
                proved = min(proved, self._gap())
        return self._result()

    def _minimize(
        self, objective: WeightedSum, q: Constraints | None = None, start: Vector | None = None, share: float = 1.0
    ) -> SumMinimum:
        found = minimize_objective(objective, q or self.q, start, share * self.tol, time_left(self.deadline))
        self.iterations += 1
        return found

    def _prove(self, lam: Vector, start: Vector | None) -> KnownPoint:
        """The minimum of f + sum_j lambda_j (rho_j - level_j), and the bound that it is."""
        terms = [(float(price), one) for price, one in zip(lam, self.functions, strict=True) if price > 0.0]
        spent, size = float(lam @ self.levels), float(lam @ np.abs(self.levels))
        # The tolerance is relative to the sum, which may be much larger than the objective.
        share = 0.1 if self.best is None else 0.1 * self._scale() / (self._scale() + size)
        found = self._minimize(self.objective.plus(terms, np.zeros(len(self.q.lower))), start=start, share=share)
        lower = found.lower_bound - spent - 4.0 * _EPS * (len(lam) + 1.0) * size
        if lower > self.lower:
            self.lower, self.multipliers, self.radius = lower, lam, found.radius
        return self._reached(found, lam)

    def _reached(self, found: SumMinimum, lam: Vector) -> KnownPoint:
        """The point that an exact problem led to."""
        point = self._point(found.v, found, lam)
        self.known = [*self.known[-_KNOWN:], point]
        self._offer(point)
        return point

    def _best_multipliers(self) -> Vector:
        """Those that maximize the least of f(v) + lambda.(rho(v) - level) over all points known: a bound on the bound.

        For one limit that is where the lines of two points meet. The multipliers of the linear program for several mix
        the points; the mixture keeps the limits, as risks are convex.
        """
        values, apart = self._known_values()
        if apart.shape[1] == 1:
            h = apart[:, 0]
            below, above = np.flatnonzero(h <= 0.0), np.flatnonzero(h > 0.0)
            if not len(above):
                return 0.5 * self.multipliers
            width = h[above] - h[below][:, None]
            slopes = (values[below][:, None] - values[above]) / width
            chords = values[below][:, None] + slopes * h[below][:, None]
            # Of pairs that say the same the one whose points are furthest apart has the most digits.
            same = chords <= chords.min() + 1e-3 * self.tol * self._scale()
            i, j = np.unravel_index(int(np.argmax(np.where(same, width, -1.0))), width.shape)
            return np.maximum(slopes[i, j : j + 1], 0.0)
        from scipy.optimize import linprog  # slow to import, and rarely needed

        assert self.best is not None
        scale, unit = self._scale(), self._units(self.best)
        found = linprog(
            np.append(-1.0, np.zeros(len(unit))),
            A_ub=np.column_stack([np.ones(len(values)), -apart / unit]),
            b_ub=(values - self.best.objective.value) / scale,
            bounds=[(None, None), *[(0.0, None)] * len(unit)],
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if found.status != 0:
            return self.multipliers
        shares = np.maximum(-found.ineqlin.marginals, 0.0)
        self._offer(self._point((shares / shares.sum()) @ np.array([point.v for point in self.known])))
        return np.asarray(found.x[1:] * scale / unit)

    def _step(self, last: KnownPoint, lam: Vector) -> SumMinimum:
        """The exact problem with the cuts, in which every risk with a multiplier stands less its last cut."""
        active = [j for j in range(len(lam)) if lam[j] > 0.0]
        slope = -sum((lam[j] * last.limits[j].slope for j in active), np.zeros(len(last.v)))
        objective = self.objective.plus([(float(lam[j]), self.functions[j]) for j in active], slope)
        G = np.vstack([self.q.G, *[cut.slope for cut in self.cuts]])
        b = np.append(self.q.b, [cut.right for cut in self.cuts])
        assert self.best is not None
        # Cuts hold where the limits do: from there towards the last point as far as they allow.
        inside, rows = self.best.v, G[len(self.q.b) :]
        moved, spare = rows @ (last.v - inside), np.maximum(b[len(self.q.b) :] - rows @ inside, 0.0)
        over = moved > spare
        share = float((spare[over] / moved[over]).min(initial=1.0))
        return self._minimize(objective, replace(self.q, G=G, b=b), inside + share * (last.v - inside))

    def _next_multipliers(self, found: SumMinimum) -> Vector:
        """The multipliers of the cuts, by limit; cuts that have had none for long are left out."""
        prices = found.rows[len(self.q.b) :]
        lam, kept = np.zeros(len(self.levels)), []
        for cut, price in zip(self.cuts, prices, strict=True):
            lam[cut.limit] += price
            if price > 0.0 or cut.unused < _PATIENCE:
                kept.append(replace(cut, unused=0 if price > 0.0 else cut.unused + 1))
        self.cuts = kept
        assert self.best is not None
        lam[lam * self._units(self.best) < 1e-14 * self._scale()] = 0.0
        return lam

    def _cut(self, point: KnownPoint) -> None:
        for j, one in enumerate(point.limits):
            right = float(self.levels[j] - one.value + one.slope @ point.v)
            self.cuts.append(RiskCut(j, one.slope, right))

    def _point(self, v: Vector, found: SumMinimum | None = None, lam: Vector | None = None) -> KnownPoint:
        """Values and slopes at v; slopes by the tilts that an exact solution was proved with, where it has them."""
        slopes: list[Vector | None] = [None] * len(self.functions)
        if found is not None and lam is not None:
            for j, slope in zip(np.flatnonzero(lam > 0.0), found.slopes[len(self.objective.terms) :], strict=True):
                slopes[int(j)] = slope
        at = [function.at(v, slope) for function, slope in zip(self.functions, slopes, strict=True)]
        return KnownPoint(v, self.objective.at(v), at)

    # -- points that keep the limits --------------------------------------------------------------------------------

    def _units(self, point: KnownPoint) -> Vector:
        """What a limit is kept relative to: its level, or the spread of its losses."""
        units = np.maximum(np.abs(self.levels), [one.spread for one in point.limits])
        if units.all():
            return units
        return np.where(units > 0.0, units, [max(self._reach() * one.deviation, 1e-300) for one in self.functions])

    def _worst(self, point: KnownPoint) -> float:
        """The largest excess over a limit, in units, beyond what rounding explains."""
        over = np.array([one.value for one in point.limits]) - self.levels
        return float(np.max(over / self._units(point) - _KEPT, initial=-np.inf))

    def _offer(self, point: KnownPoint) -> None:
        """Keep the point if it keeps the limits and is the best so far; else the best mixture of two known points.

        Along a segment a convex function lies below its chord, so a mixture that the chords allow keeps the limits.
        """
        assert self.best is not None
        if self._worst(point) <= 0.0:
            if point.objective.value < self.best.objective.value:
                self.best = point
            return
        values, apart = self._known_values()
        inside = np.flatnonzero((apart <= 0.0).all(axis=1))
        over, spare = np.array([one.value for one in point.limits]) - self.levels, -apart[inside]
        with np.errstate(invalid="ignore"):
            shares = np.where(over > 0.0, spare / (np.maximum(over, 0.0) + spare), 1.0).min(axis=1)
        chords = values[inside] + shares * (point.objective.value - values[inside])
        k = int(np.nanargmin(chords)) if len(chords) else 0
        if len(chords) and chords[k] < self.best.objective.value and shares[k] > 0.0:
            start = self.known[inside[k]].v
            mixed = self._point(start + shares[k] * (point.v - start))
            if mixed.objective.value < self.best.objective.value and self._worst(mixed) <= 0.0:
                self.best = mixed

    def _known_values(self) -> tuple[Vector, Vector]:
        """Objective and excesses over the limits of all points known."""
        values = np.array([point.objective.value for point in self.known])
        return values, np.array([[one.value for one in point.limits] for point in self.known]) - self.levels

    def _inside(self) -> KnownPoint:
        """A point that keeps all limits, with something to spare where there is such a point."""
        tried: list[KnownPoint] = []
        for j, function in enumerate(self.functions):
            found = self._minimize(WeightedSum([(1.0, function)], np.zeros(len(self.q.lower))))
            point = self._point(found.v)
            unit = _BORDER * float(self._units(point)[j])
            if found.lower_bound > self.levels[j] + unit:
                self._refuse_one(j, point)
            # A level that only the least risk reaches is taken as that: within rounding, nothing else is left.
            self.levels[j] = max(self.levels[j], point.limits[j].value + unit)
            tried += [point] if j == 0 else [point, self._point(np.mean([one.v for one in tried] + [point.v], axis=0))]
            best = min(tried, key=self._worst)
            if self._worst(best) < -_AMPLE:
                return best
        return best if self._worst(best) < -2.0 * _KEPT else self._least_excess(best)

    def _refuse_one(self, j: int, point: KnownPoint) -> None:
        one, level = self.functions[j], float(self.levels[j])
        least = one.norm(point.v) if isinstance(one, SquareFunction) else point.limits[j].value
        raise InfeasibleLimitsError(
            f"{self.names[j]} cannot be met on the feasible set: the least value there is {least:.10g}, above the "
            f"level {level:.10g}.",
            (j,),
            (least,),
            least - level,
        )

    def _least_excess(self, start: KnownPoint) -> KnownPoint:
        """A point of least largest excess over the limits, which is one more variable; raises where it is above 0."""
        values = np.array([one.value for one in start.limits])
        unit = float(self._units(start).min())
        most = float((values - self.levels).max()) + unit
        q, d = self.q, len(start.v)
        wide = Constraints(
            np.append(q.lower, -unit),
            np.append(q.upper, most),
            *(part for rows, side in ((q.C, q.c), (q.G, q.b)) for part in (np.column_stack([rows, 0.0 * side]), side)),
        )
        shared: dict[int, Any] = {}
        limits = [(one.padded(shared), float(level)) for one, level in zip(self.functions, self.levels, strict=True)]
        within = _Limited(
            WeightedSum([], np.eye(d + 1)[d]), limits, wide, self.names, self.tol, self.max_iter, self.deadline
        )
        within.floor = unit
        found = within.solve(None, None, within._point(np.append(start.v, most)))
        self.iterations += found.iterations
        if found.lower_bound > _BORDER * unit:
            self._refuse_several(found, d)
        if found.value > -_BORDER * unit:
            self.levels += max(found.value, 0.0) + _BORDER * unit
        return self._point(found.theta[:d])

    def _refuse_several(self, found: LimitedResult, d: int) -> None:
        which = tuple(int(j) for j in np.flatnonzero(found.limit_multipliers > 1e-9))
        named = " and ".join(self.names[j] for j in which)
        levels = [float(self.levels[j]) + found.value for j in which]
        for k, j in enumerate(which):
            if isinstance(self.functions[j], SquareFunction):
                levels[k] = float(np.sqrt(self.levels[j] * (self.levels[j] + 2.0 * found.value)))
        shown = ", ".join(f"{level:.10g}" for level in levels)
        excess = min(level - float(self.levels[j]) for level, j in zip(levels, which, strict=True))
        raise InfeasibleLimitsError(
            f"{named} can each be met on the feasible set, but not together: one of them is exceeded by "
            f"{excess:.6g} at least. Levels of {shown} can be met together.",
            which,
            tuple(levels),
            excess,
        )

    # -- multipliers and the end ------------------------------------------------------------------------------------

    def _first_multipliers(self, free: KnownPoint, inside: KnownPoint) -> Vector:
        """A guess from the best point without limits and one inside them, for the limit that is furthest off.

        Between the least risk and the other end the best objective falls about as the root of what is added to the
        least risk, half as steeply as the chord at that end.
        """
        lam = np.zeros(len(self.levels))
        gained = max(inside.objective.value - free.objective.value, 0.0)
        shares = [
            max(level - low.value, 1e-6 * (high.value - low.value)) / (high.value - low.value)
            if high.value > level
            else np.inf
            for level, low, high in zip(self.levels, inside.limits, free.limits, strict=True)
        ]
        j = int(np.argmin(shares))
        chord = gained / (free.limits[j].value - inside.limits[j].value)
        lam[j] = 0.5 * chord / np.sqrt(shares[j])
        return lam

    def _scale(self) -> float:
        assert self.best is not None
        at = self.best.objective
        spread, size = at.spread, float(np.abs(self.best.v).sum())
        if size <= _DUST * self._reach():
            spread = self._reach() * sum(weight * one.deviation for weight, one in self.objective.terms)
        return max(abs(at.value), 1e-2 * spread, self.floor, 1e-300)

    def _reach(self) -> float:
        """What could be held, which says what is small where nothing is."""
        ends = np.maximum(np.abs(self.q.lower), np.abs(self.q.upper))
        return float(ends[np.isfinite(ends)].sum()) or 1.0

    def _gap(self) -> float:
        """Of the best point, with what its distance from the limits, which is rounding, may have gained."""
        best = self.best
        assert best is not None
        over = np.maximum(np.array([one.value for one in best.limits]) - self.levels, 0.0)
        errors = np.array([one.error for one in best.limits])
        allowance = best.objective.error + float(self.multipliers @ (over + errors))
        return proved_gap(best.objective.value, self.lower, allowance)

    def _closed(self) -> bool:
        gap = self._gap()
        assert self.best is not None
        self.trace.append((self.best.objective.value, gap, time.perf_counter() - self.began, len(self.cuts)))
        return gap <= self.tol * self._scale()

    def _result(self) -> LimitedResult:
        closed, best = self._closed(), self.best
        assert best is not None
        gap = self._gap()
        values = [
            one.norm(best.v) if isinstance(one, SquareFunction) else at.value
            for one, at in zip(self.functions, best.limits, strict=True)
        ]
        return LimitedResult(
            theta=best.v,
            value=best.objective.value,
            gap=gap,
            lower_bound=best.objective.value - gap,
            relative_gap=gap / self._scale(),
            limit_values=np.array(values),
            limit_multipliers=self.multipliers,
            # Below that, a level raised by its whole unit would gain less than the gap that is asked for: rounding.
            binding=tuple(
                int(j) for j in np.flatnonzero(self.multipliers * self._units(best) > self.tol * self._scale())
            ),
            status=status_of(closed, len(self.trace) > self.max_iter, time.perf_counter() > self.deadline),
            iterations=self.iterations,
            trace=self.trace,
            radius=self.radius,
        )
