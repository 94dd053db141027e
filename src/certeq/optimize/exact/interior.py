"""A primal-dual interior point method (Mehrotra's predictor and corrector) for the subproblem.

The slacks and multipliers of every bound, row and hinge are eliminated, so each iteration factors one dense
matrix of the size of the working set:  H + bounds' diagonal + G^T diag G + B^T diag B.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from certeq.optimize.exact.subproblem import Multipliers, Partition, Subproblem

Vector = NDArray[np.float64]
Solve = Callable[[Vector, Vector], tuple[Vector, Vector]]
_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)
_REACHED = 1e-8  # rows broken by less are kept, as far as a stalled method goes


@dataclass(frozen=True)
class InteriorPoint:
    """The last iterate, with the complementarity sum as a measure of what is missing."""

    v: Vector
    multipliers: Multipliers
    partition: Partition
    complementarity: float
    iterations: int


class InteriorMethod:
    """Keeps its state, so that a first, loose solution can be tightened later.

    ``x`` stacks everything that must stay positive on the primal side: the slacks of the bounds and rows, then the
    hinges h and r with h - r = B v - kink. ``z`` stacks their multipliers: those of bounds and rows, then o = cap - p
    and p. (o is kept apart from p: the difference would lose every digit near the cap.)
    """

    def __init__(self, problem: Subproblem, start: Vector) -> None:
        q = self.problem = problem
        self.has_lower = np.flatnonzero(np.isfinite(q.lower))
        self.has_upper = np.flatnonzero(np.isfinite(q.upper))
        lows, highs = len(self.has_lower), len(self.has_lower) + len(self.has_upper)
        simple, hinges = highs + len(q.b), len(q.cap)
        self.low, self.high, self.row = slice(0, lows), slice(lows, highs), slice(highs, simple)
        self.simple = slice(0, simple)
        self.h, self.r = slice(simple, simple + hinges), slice(simple + hinges, simple + 2 * hinges)
        self.iterations = 0
        self.v, self.y, self.x, self.z = self._start(start)

    def _start(self, start: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """A point off all boundaries, with multipliers that nearly balance the slopes there."""
        q = self.problem
        size = max(float(np.mean(np.abs(start[:-1]))) if len(start) > 1 else 0.0, 1e-4)
        room = np.minimum(0.25 * (q.upper - q.lower), 0.5 * size)
        v = np.minimum(np.maximum(start, q.lower + room), q.upper - room)
        root, excess = self._soften(v)
        h, r = 0.5 * (excess + root), 0.5 * (root - excess)
        p, o = q.cap * h / root, q.cap * r / root  # both products of a hinge are then equal: r p = h o
        slope = q.gradient(v) + p @ q.B
        y = np.zeros(len(q.c))
        if len(y) == 1:
            budget = q.C[0, :-1]
            y[0] = float(budget @ slope[:-1]) / max(float(budget @ budget), 1e-300)
        elif len(y):
            y[:] = np.linalg.lstsq(q.C[:, :-1].T, slope[:-1], rcond=None)[0]
        rest = slope - y @ q.C
        price = max(float(np.mean(np.abs(rest[:-1]))) if len(rest) > 1 else 0.0, 1e-3)
        below = np.maximum(rest, 0.0) + price
        above = np.where(np.isfinite(q.lower), below - rest, np.maximum(-rest, 0.0) + price)
        margin = np.maximum(q.b - q.G @ v, size)
        slack = [(v - q.lower)[self.has_lower], (q.upper - v)[self.has_upper], margin]
        prices = [below[self.has_lower], above[self.has_upper], np.full(len(margin), price)]
        return v, y, np.concatenate([*slack, h, r]), np.concatenate([*prices, o, p])

    def _soften(self, v: Vector) -> tuple[Vector, Vector]:
        """Hinges rounded off; t, the last entry of v, is moved to where their slopes balance its own."""
        q = self.problem
        excess = q.B @ v - q.kink
        if not len(excess):
            return excess, excess
        width = 0.5 * max(float(np.std(excess)), 1e-6)
        low, high = v[-1] + float(excess.min()) - width, v[-1] + float(excess.max()) + width
        at = v[-1]
        wanted = float(q.gradient(v)[-1])
        for _ in range(12):
            moved = excess - (at - v[-1])
            if float(q.cap @ (moved / np.sqrt(np.square(moved) + width * width))) > 2.0 * wanted - float(q.cap.sum()):
                low = at
            else:
                high = at
            at = 0.5 * (low + high)
        excess = excess - (at - v[-1])
        v[-1] = at
        return np.sqrt(np.square(excess) + width * width), excess

    # -- one run ------------------------------------------------------------------------------------------------

    def run(self, tolerance: float, max_iter: int = 60) -> InteriorPoint:
        """Iterate until the complementarity sum and the residuals are below ``tolerance``; report the best iterate.

        The last need not be the best: where rounding keeps a residual above the tolerance, further iterations drive
        the slacks towards 0 and then lose the slopes as well.
        """
        best, kept, stalled = np.inf, (self.v, self.y, self.x, self.z), 0
        together = self.problem.H is not None  # H couples the two sides, so they must move together
        for iteration in range(max_iter + 1):
            slope_gap, row_gap, slack_gap = self._residuals()
            total = float(self.x @ self.z)
            broken = max(_largest(row_gap), _largest(slack_gap))
            score = total + max(_largest(slope_gap), broken)
            stalled = stalled + 1 if score > 0.9 * best else 0
            if score < best:
                best, kept = score, (self.v, self.y, self.x, self.z)
            # A thin set is reached by many short steps, and an iterate outside it is of no use: that is waited for.
            patience = 6 if broken <= _REACHED else 20
            if score <= tolerance or not np.isfinite(score) or stalled >= patience or iteration == max_iter:
                break
            solve = self._factor()
            if solve is None:
                break
            self.iterations += 1
            product = self.x * self.z
            mean = total / max(len(product), 1)
            dv, dy, dx, dz = self._direction(solve, slope_gap, row_gap, slack_gap, -product)
            primal, dual = self._lengths(dx, dz, 1.0, together)
            after = float((self.x + primal * dx) @ (self.z + dual * dz))
            target = mean * min(1.0, (max(after, 0.0) / total) ** 3) if total > 0 else 0.0
            dv, dy, dx, dz = self._direction(solve, slope_gap, row_gap, slack_gap, target - product - dx * dz)
            if not np.isfinite(dv).all():
                break
            # Never quite to the boundary: a slack of 0 would end the method with a division by it.
            primal, dual = self._lengths(dx, dz, min(max(0.9, 1.0 - mean), 1.0 - 1e-6), together)
            self.v, self.x = self.v + primal * dv, self.x + primal * dx
            self.y, self.z = self.y + dual * dy, self.z + dual * dz
        self.v, self.y, self.x, self.z = kept
        return self._report()

    def _residuals(self) -> tuple[Vector, Vector, Vector]:
        q, z = self.problem, self.z
        slope_gap = q.gradient(self.v) - self.y @ q.C
        slack_gap = q.b  # where there are none
        if len(q.cap):
            slope_gap += z[self.r] @ q.B
        if len(q.b):
            slope_gap += z[self.row] @ q.G
            slack_gap = q.G @ self.v + self.x[self.row] - q.b
        slope_gap[self.has_lower] -= z[self.low]
        slope_gap[self.has_upper] += z[self.high]
        return slope_gap, q.C @ self.v - q.c, slack_gap

    def _lengths(self, dx: Vector, dz: Vector, share: float, together: bool) -> tuple[float, float]:
        primal, dual = _longest(self.x, dx, share), _longest(self.z, dz, share)
        return (min(primal, dual),) * 2 if together else (primal, dual)

    # -- linear algebra -----------------------------------------------------------------------------------------

    def _factor(self) -> Solve | None:
        q = self.problem
        self.ratio = self.z / self.x
        K = np.zeros((len(q.g), len(q.g))) if q.H is None else q.H.copy()
        if len(q.cap):
            self.bend = 1.0 / (1.0 / self.ratio[self.h] + 1.0 / self.ratio[self.r])
            half = q.B * np.sqrt(self.bend)[:, None]
            K += half.T @ half
        if len(q.b):
            K += (q.G.T * self.ratio[self.row]) @ q.G
        diagonal = K.reshape(-1)[:: len(K) + 1]
        bent = float(diagonal.max())
        diagonal[self.has_lower] += self.ratio[self.low]
        diagonal[self.has_upper] += self.ratio[self.high]
        # The floor only matters for directions that nothing bends: a free t beside a linear utility. Entries of
        # variables at a bound grow without limit; a floor made of them would swamp what bends the others.
        typical = float(np.partition(diagonal, len(diagonal) // 2)[len(diagonal) // 2]) or float(diagonal.max()) or 1.0
        typical = min(typical, bent) if bent > 0.0 else typical
        if q.H is not None:
            typical = min(typical, float(q.H.diagonal().max()) or typical)
        base = 1e-13 * typical + 1e-300
        for _ in range(10):
            diagonal += base
            factor, info = _potrf(K, lower=1, clean=0)
            if info == 0:
                break
            base *= 100.0
        else:
            return None
        if not len(q.c):
            return lambda a, _: (_potrs(factor, a, lower=1)[0], np.zeros(0))
        half = _potrs(factor, q.C.T, lower=1)[0]
        middle = q.C @ half
        ends = middle.reshape(-1)[:: len(middle) + 1]
        ends[ends == 0.0] = 1.0  # a row that holds no asset of the working set leaves its multiplier alone
        ends += 1e-14 * float(ends.sum()) / len(q.c) + 1e-300
        inner, info = _potrf(middle, lower=1, clean=0)
        if info != 0:
            return None

        def solve(a: Vector, b: Vector) -> tuple[Vector, Vector]:
            """K dv - C^T dy = a,  C dv = b."""
            first = _potrs(factor, a, lower=1)[0]
            dy = _potrs(inner, b - q.C @ first, lower=1)[0]
            return first + half @ dy, dy

        return solve

    def _direction(
        self, solve: Solve, slope_gap: Vector, row_gap: Vector, slack_gap: Vector, target: Vector
    ) -> tuple[Vector, Vector, Vector, Vector]:
        """The step with  z dx + x dz = target  and all residuals removed."""
        q = self.problem
        push = target / self.x
        # Hinges: dx_h - dx_r = B dv and dz_h = -dz_r = -dp, from which dp = bend * (B dv) + hinge.
        rhs = -slope_gap
        if len(q.cap):
            hinge = self.bend * (target[self.r] / self.z[self.r] - target[self.h] / self.z[self.h])
            rhs -= hinge @ q.B
        if len(q.b):
            rhs -= (push[self.row] + self.ratio[self.row] * slack_gap) @ q.G
        rhs[self.has_lower] += push[self.low]
        rhs[self.has_upper] -= push[self.high]
        dv, dy = solve(rhs, -row_gap)
        dx, dz = np.empty_like(self.x), np.empty_like(self.z)
        dx[self.low] = dv[self.has_lower]
        dx[self.high] = -dv[self.has_upper]
        if len(q.b):
            dx[self.row] = -(q.G @ dv) - slack_gap
        dz[self.simple] = push[self.simple] - self.ratio[self.simple] * dx[self.simple]
        if len(q.cap):
            moved = q.B @ dv
            dp = self.bend * moved + hinge
            dz[self.r], dz[self.h] = dp, -dp
            dx[self.h] = (push[self.h] + dp) / self.ratio[self.h]
            dx[self.r] = dx[self.h] - moved
        return dv, dy, dx, dz

    # -- the end ------------------------------------------------------------------------------------------------

    def _report(self) -> InteriorPoint:
        q, x, z = self.problem, self.x, self.z
        size = len(q.g)
        below, above = np.zeros(size), np.zeros(size)
        below[self.has_lower], above[self.has_upper] = z[self.low], z[self.high]
        at_lower, at_upper = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        at_lower[self.has_lower] = x[self.low] < z[self.low]
        at_upper[self.has_upper] = x[self.high] < z[self.high]
        at_upper &= ~at_lower
        side = np.zeros(len(q.cap), dtype=np.int8)
        side[(z[self.r] < x[self.r] * q.cap) & (x[self.h] < x[self.r])] = -1
        side[(z[self.h] < x[self.h] * q.cap) & (x[self.r] < x[self.h])] = 1
        return InteriorPoint(
            self.v,
            Multipliers(self.y, z[self.row], z[self.r], below, above),
            Partition(at_lower, at_upper, x[self.row] < z[self.row], side),
            float(x @ z),
            self.iterations,
        )


def _largest(residual: Vector) -> float:
    return float(np.abs(residual).max()) if len(residual) else 0.0


def _longest(at: Vector, step: Vector, share: float) -> float:
    """The longest step up to 1 that goes ``share`` of the way to the boundary."""
    if not len(at):
        return 1.0
    nearest = -float((step / at).min())
    return min(1.0, share / nearest) if nearest > 0.0 else 1.0
