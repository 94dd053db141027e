"""The same problem in segments, where nothing is left but OCE, a linear term and a polyhedron."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains import CappedSimplex, Domain, Polyhedron
from certeq.portfolio._problem import Problem
from certeq.portfolio._segments import Segments, split

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Programme:
    """Minimise OCE(A v) + linear.v + constant + l2 |fold(v)|^2 over the segments' bounds, C v = c and G v <= b."""

    problem: Problem
    segments: Segments
    A: Floats
    linear: Floats
    constant: float
    C: Floats
    c: Floats
    G: Floats
    b: Floats
    equalities: tuple[str, ...]  # what the caller calls each row
    inequalities: tuple[str, ...]
    target: float | None = None  # the least expected return, in the rows already

    def with_row(self, name: str, row: Floats, side: float) -> Programme:
        """The same with one more inequality."""
        return replace(
            self,
            G=np.vstack([self.G, row]),
            b=np.append(self.b, side),
            inequalities=(*self.inequalities, name),
        )

    def with_target(self, target: float) -> Programme:
        """The same with the expected return, net of costs and fees, at least ``target``."""
        row, constant = self.minus_return()
        return replace(self.with_row(f"min_return={target:g}", row, -target - constant), target=target)

    def quadratic(self) -> Floats | None:
        """The L2 penalty as `solve_exact` takes it: a diagonal, or one row per asset over its segments."""
        l2, asset = self.problem.l2, self.segments.asset
        if l2 == 0.0:
            return None
        if len(asset) == self.segments.count:
            return np.full(len(asset), 2.0 * l2)
        rows: Floats = np.sqrt(2.0 * l2) * (np.arange(self.segments.count)[:, None] == asset)
        return rows

    def minus_return(self) -> tuple[Floats, float]:
        """Slopes and constant of minus the expected return, net of costs and fees."""
        problem, segments = self.problem, self.segments
        costs = problem.costs
        moved, constant = segments.distance(costs.trading, costs.previous)
        return segments.row(costs.fees - problem.mu) + moved, constant + costs.liquidation

    def domain(self) -> Domain:
        """The feasible set, with a quick projection where there is one."""
        s = self.segments
        if len(self.c) == 1 and not len(self.b) and np.all(self.C == 1.0):
            return CappedSimplex(s.lower, s.upper, float(self.c[0]))
        rows = {"C": self.C, "c": self.c} if len(self.c) else {}
        more = {"A": self.G, "b": self.b} if len(self.b) else {}
        return Polyhedron(s.lower, s.upper, **rows, **more)


def write_programme(problem: Problem) -> Programme:
    """Cut every weight at the kinks of its costs and write costs and constraints as rows."""
    costs, n = problem.costs, problem.assets.count
    kinks = []
    if np.any(costs.trading > 0.0):
        kinks.append(np.where(costs.trading > 0.0, costs.previous, np.nan))
    if problem.l1 > 0.0 or problem.max_long is not None or problem.max_short is not None:
        kinks.append(np.zeros(n))
    segments = split(problem.lower, problem.upper, kinks)
    each = 1.0 + problem.reward  # costs count in the risk and again in the mean
    traded, constant = segments.distance(each * costs.trading, costs.previous)
    size, _ = segments.distance(np.full(n, problem.l1), np.zeros(n))
    linear = segments.row(each * costs.fees - problem.reward * problem.mu) + traded + size

    equal = [row for row in problem.rows if row.equal]
    below = [row for row in problem.rows if not row.equal]
    G = [segments.row(row.row) for row in below]
    b = [row.side for row in below]
    names = [row.name for row in below]
    for name, limit, sign in (("max_long", problem.max_long, 1.0), ("max_short", problem.max_short, -1.0)):
        if limit is not None:
            G.append(segments.part(sign))
            b.append(limit)
            names.append(f"{name}={limit:g}")
    whole = len(segments.asset) == n
    return Programme(
        problem=problem,
        segments=segments,
        A=problem.A if whole else problem.A[:, segments.asset],
        linear=linear,
        constant=constant + each * costs.liquidation,
        C=np.array([segments.row(row.row) for row in equal]).reshape(len(equal), len(segments.asset)),
        c=np.array([row.side for row in equal]),
        G=np.array(G).reshape(len(G), len(segments.asset)),
        b=np.array(b),
        equalities=tuple(row.name for row in equal),
        inequalities=tuple(names),
    )
