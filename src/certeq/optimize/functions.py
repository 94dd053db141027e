"""Convex functions of theta that objectives and limits are made of: value, slope, and a place in an exact problem."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certeq._table import Block, Table, summary
from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact import ExactResult, PanelResult, RiskPart, solve_exact, solve_parts
from certeq.risk.solvers import solve_long_risk, solve_risk
from certeq.utilities import Mean, Risk

Vector = NDArray[np.float64]
_EPS = float(np.finfo(np.float64).eps)


def time_left(deadline: float) -> float | None:
    """Seconds until then, for a solver that takes none as no limit."""
    return None if deadline == np.inf else max(1e-3, deadline - time.perf_counter())


class ValueAt(NamedTuple):
    """A function at a point: its value and what rounding may have done to it, a slope there, and its spread."""

    value: float
    error: float
    slope: Vector
    spread: float


@dataclass(frozen=True, eq=False)
class RiskFunction:
    """risk(A v + offset) + linear.v, scenarios with probabilities p (equal where None)."""

    A: Any
    risk: Risk
    p: Vector | None = None
    offset: Vector | None = None
    linear: Vector | None = None

    @property
    def size(self) -> int:
        """How many variables there are."""
        return int(self.A.shape[1])

    def at(self, v: Vector, slope: Vector | None = None) -> ValueAt:
        """Value and slope at v; one that is given belongs to another tilt that attains the risk."""
        last = self.__dict__.get("_last")
        if slope is None and last is not None and np.array_equal(v, last[0]):
            found: ValueAt = last[1]
            return found
        value, inner, losses, spread, own = self._in_blocks(v) if isinstance(self.A, Table) else self._in_memory(v)
        slope = own if slope is None else slope
        cost = float(self.risk.inner().cost @ np.abs(inner)) if len(inner) else abs(value)
        # Roundings of the losses, weighed by the tilt, and those of the sum over scenarios.
        error = _EPS * ((len(v) + 8.0) * losses + 64.0 * (abs(value) + 2.0 * cost))
        if self.linear is not None:
            value, slope = value + float(self.linear @ v), slope + self.linear
            error += _EPS * (len(v) + 8.0) * float(np.abs(self.linear) @ np.abs(v))
        found = ValueAt(value, error, slope, spread)
        object.__setattr__(self, "_last", (v.copy(), found))  # it is often asked for again at once
        return found

    def _in_memory(self, v: Vector) -> tuple[float, Vector, float, float, Vector]:
        """The risk, its inner variables, tilted sizes of the losses, their spread, and the slope of the tilt."""
        x = np.asarray(self.A @ v, dtype=np.float64)
        x = np.ascontiguousarray(x if self.offset is None else x + self.offset)
        found = solve_risk(x, self.p, self.risk)
        if found is None:
            raise OverflowError(f"the losses at theta are too far apart for {self.risk!r}.")
        # Of a loss a_i.v + b_i no more than |(a_i, b_i)| |(v, 1)| is rounded.
        reach = float(np.linalg.norm(v if self.offset is None else np.append(v, 1.0)))
        losses = float(np.abs(found.tilt) @ self.lengths) * reach
        return found.value, found.inner, losses, float(x.std()), np.asarray(found.tilt @ self.A, dtype=np.float64)

    def _in_blocks(self, v: Vector) -> tuple[float, Vector, float, float, Vector]:
        """The same in passes over a table."""
        table, longer = self.table(), v if self.offset is None else np.append(v, 1.0)
        found = solve_long_risk(table.losses(longer), self.risk)
        known = found.summary
        kernel = TiltedRows(found.tilt(), longer, 0.5 * (known.low + known.high))
        slope, sizes, (count, first, second) = np.split(table.reduce(kernel), [len(longer), 2 * len(longer)])
        spread = float(np.sqrt(max(second / count - (first / count) ** 2, 0.0)))
        return found.value, found.inner, float(sizes @ np.abs(longer)), spread, slope[: len(v)]

    def table(self) -> Table:
        """Scenarios that are read in blocks, with their weights; an offset is the last column."""
        found: Table = self.A if self.p is None else self.A.with_weights(self.p)
        return found if self.offset is None else found.with_column(self.offset)

    def mean(self) -> tuple[Vector, float]:
        """The mean loss as a linear function: its slope, and its value at 0."""
        if isinstance(self.A, Table):
            means = np.asarray(summary(self.table()).mean)
            return (means, 0.0) if self.offset is None else (means[:-1], float(means[-1]))
        p = np.full(len(self.A), 1.0 / len(self.A)) if self.p is None else self.p
        return np.asarray(p @ self.A, dtype=np.float64), 0.0 if self.offset is None else float(p @ self.offset)

    @property
    def lengths(self) -> Vector:
        """Norms of the scenarios, and of what is beside them."""
        kept = self.__dict__.get("_lengths")
        if kept is None:
            squares = np.vecdot(self.A, self.A)
            kept = np.sqrt(squares if self.offset is None else squares + np.square(self.offset))
            object.__setattr__(self, "_lengths", kept)
        found: Vector = kept
        return found

    @property
    def deviation(self) -> float:
        """The root mean square of the assets' deviations."""
        kept = self.__dict__.get("_deviation")
        if kept is None:
            each = summary(self.table()).deviation if isinstance(self.A, Table) else np.std(self.A, axis=0)
            each = each[: self.size]
            kept = float(np.sqrt(np.mean(np.square(each))))
            object.__setattr__(self, "_deviation", kept)
        return float(kept)

    def padded(self, shared: dict[int, Any]) -> RiskFunction:
        """The same function less one more variable, the last; tables of the same losses are ``shared``."""
        if id(self.A) not in shared:
            more = np.eye(self.size, self.size + 1)
            is_table = isinstance(self.A, Table)
            shared[id(self.A)] = self.A.mapped(more) if is_table else np.column_stack([self.A, np.zeros(len(self.A))])
        linear = np.zeros(self.size) if self.linear is None else self.linear
        return replace(self, A=shared[id(self.A)], linear=np.append(linear, -1.0))


@dataclass(frozen=True, eq=False)
class SquareFunction:
    """(|R v - r|^2/level + level)/2 + linear.v, which is at most the level where |R v - r| is."""

    R: Vector
    r: Vector
    level: float
    linear: Vector | None = None

    @property
    def size(self) -> int:
        """How many variables there are."""
        return int(self.R.shape[1])

    @property
    def deviation(self) -> float:
        """The root mean square of the assets' losses."""
        return float(np.sqrt(np.square(self.R).sum() / self.size))

    def norm(self, v: Vector) -> float:
        """|R v - r|."""
        return float(np.linalg.norm(self.R @ v - self.r))

    def at(self, v: Vector, slope: Vector | None = None) -> ValueAt:
        """Value and slope at v; there is one slope only."""
        apart = self.R @ v - self.r
        square = float(apart @ apart)
        sizes = np.abs(self.R) @ np.abs(v) + np.abs(self.r)
        error = _EPS * (len(v) + len(apart) + 8.0) * float(sizes @ sizes) / self.level
        value, slope = 0.5 * (square / self.level + self.level), (apart @ self.R) / self.level
        if self.linear is not None:
            value, slope = value + float(self.linear @ v), slope + self.linear
        return ValueAt(value, error, slope, self.level)

    def padded(self, shared: dict[int, Any]) -> SquareFunction:
        """The same function less one more variable, the last."""
        linear = np.zeros(self.size) if self.linear is None else self.linear
        return replace(self, R=np.column_stack([self.R, np.zeros(len(self.R))]), linear=np.append(linear, -1.0))


def root_mean_square(one: RiskFunction, level: float) -> SquareFunction:
    """The function that limits sqrt(E (A v + offset)^2), from a triangular factor of as many rows as variables."""
    if isinstance(one.A, Table):
        table = one.table()
        R = table.reduce(_Factor()) / np.sqrt(summary(table).mass)
        return SquareFunction(R[:, : one.size], np.zeros(len(R)) if one.offset is None else -R[:, -1], level)
    root = np.sqrt(np.full(len(one.A), 1.0 / len(one.A)) if one.p is None else one.p)
    beside = np.zeros(len(one.A)) if one.offset is None else one.offset
    R = _triangular(np.column_stack([one.A, beside]) * root[:, None])
    return SquareFunction(R[:, :-1], -R[:, -1], level)


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """sum_k weight_k function_k + linear.v + |F v|^2/2 + constant."""

    terms: Sequence[tuple[float, RiskFunction | SquareFunction]]
    linear: Vector
    squares: Vector | None = None  # rows F
    constant: float = 0.0

    def plus(self, terms: Sequence[tuple[float, RiskFunction | SquareFunction]], linear: Vector) -> WeightedSum:
        """With more terms, and another slope added."""
        return replace(self, terms=[*self.terms, *terms], linear=self.linear + linear)

    def at(self, v: Vector) -> ValueAt:
        """Value, rounding, slope and a typical size at v."""
        parts = [(weight, function.at(v)) for weight, function in self.terms]
        value = self.constant + float(self.linear @ v) + sum(weight * one.value for weight, one in parts)
        size = float(np.abs(self.linear) @ np.abs(v)) + abs(self.constant)
        error = _EPS * (len(v) + 8.0) * size + sum(weight * one.error for weight, one in parts)
        slope = self.linear + sum((weight * one.slope for weight, one in parts), np.zeros(len(v)))
        if self.squares is not None:
            s = self.squares @ v
            half = 0.5 * float(s @ s)
            value, error, slope = value + half, error + _EPS * (len(v) + len(s)) * half, slope + s @ self.squares
        # Where theta is all but free of risk, what counts as small is measured by the assets' own losses.
        size += sum(weight * one.deviation for weight, one in self.terms) * float(np.abs(v).sum())
        return ValueAt(value, error, slope, size)


class SumMinimum(NamedTuple):
    """The minimum of an objective over a polyhedron: point, proved bound, multipliers of G, and slopes of the terms.

    The slopes are those of the tilts that the bound was proved with; None of terms that have but one. ``size`` is what
    the solver's own gap was taken relative to.
    """

    v: Vector
    lower_bound: float
    radius: float
    rows: Vector
    slopes: list[Vector | None]
    iterations: int
    size: float


def minimize_objective(
    objective: WeightedSum,
    q: Constraints,
    start: Vector | None = None,
    tol: float = 1e-9,
    time_limit: float | None = None,
) -> SumMinimum:
    """The exact solver for any number of terms: means go into the linear term, squares beside each other."""
    linear, constant = objective.linear.copy(), objective.constant
    squares = [] if objective.squares is None else [objective.squares]
    risks: list[tuple[int, float, RiskFunction]] = []
    for k, (weight, one) in enumerate(objective.terms):
        if one.linear is not None:
            linear += weight * one.linear
        if isinstance(one, SquareFunction):
            squares.append(np.sqrt(weight / one.level) * one.R)
            linear -= (weight / one.level) * (one.r @ one.R)
            constant += 0.5 * weight * (float(one.r @ one.r) / one.level + one.level)
        elif isinstance(one.risk, Mean):
            slope, at_zero = one.mean()
            linear += weight * slope
            constant += weight * at_zero
        else:
            risks.append((k, weight, one))
    settings: dict[str, Any] = {"tol": tol, "time_limit": time_limit, "theta0": start, **q.as_arguments()}
    rows = np.vstack(squares) if squares else None
    slopes: list[Vector | None] = [None] * len(objective.terms)
    found: ExactResult | PanelResult
    if not risks:
        found = solve_exact(linear[None, :], Mean(), quadratic=rows, **settings)
    else:
        parts = [RiskPart(one.A, one.risk, weight, one.offset, one.p) for _, weight, one in risks]
        found = solve_parts(parts, linear=linear, quadratic=rows, **settings)
        for (k, _, one), part in zip(risks, found.parts, strict=True):
            slopes[k] = np.asarray(part.tilt @ one.A if part.slope is None else part.slope, dtype=np.float64)
    lower = found.lower_bound
    return SumMinimum(
        found.theta,
        lower + constant - 4.0 * _EPS * (abs(constant) + abs(lower)),
        found.radius,
        found.multipliers["G"],
        slopes,
        found.iterations,
        found.gap / found.relative_gap if found.relative_gap > 0.0 else 0.0,
    )


@dataclass(frozen=True)
class TiltedRows:
    """The kernel of sum_i q_i a_i and of sum_i |q_i| |a_i|, with q the tilt of the losses at v, and of their moments.

    Those are the sums of 1, x - c and (x - c)^2.
    """

    tilt: Any
    v: Vector
    c: float
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Vector:
        """The sums of a block."""
        x = block.rows @ self.v
        q, apart = self.tilt(replace(block, rows=x)), x - self.c
        return np.concatenate(
            [q @ block.rows, np.abs(q) @ np.abs(block.rows), [len(x), apart.sum(), float(apart @ apart)]]
        )

    def join(self, parts: Sequence[Vector]) -> Vector:
        """Add up."""
        return np.asarray(np.sum(parts, axis=0))


@dataclass(frozen=True)
class _Factor:
    """The kernel of the triangular factor of rows times the roots of their weights."""

    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Vector:
        rows = block.rows if block.weights is None else block.rows * np.sqrt(block.weights)[:, None]
        return _triangular(rows)

    def join(self, parts: Sequence[Vector]) -> Vector:
        return _triangular(np.vstack(parts))


def _triangular(rows: Vector) -> Vector:
    found: Vector = np.linalg.qr(rows, mode="r")  # type: ignore[assignment]
    return found
