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

from certeq.optimize.qp._subproblem import Multipliers, Partition, Subproblem

Vector = NDArray[np.float64]
Solve = Callable[[Vector, Vector], tuple[Vector, Vector]]
_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)
_NONE = np.zeros(0, dtype=np.intp)
_REACHED = 1e-8  # rows broken by less are kept, as far as a stalled method goes


class Columns:
    """A matrix whose columns come in pairs of opposite sign where a variable has a long and a short part.

    Products are made with one column of each pair, which is a quarter of the work where all are paired.
    """

    def __init__(self, matrix: Vector) -> None:
        size = matrix.shape[1]
        self.which, self.sign = np.arange(size), np.ones(size)
        self.matrix, self.paired = matrix, False
        if not len(matrix):
            return
        order = np.argsort(np.abs(matrix[0]), kind="stable")
        first, second = order[:-1], order[1:]
        alike = (matrix[0, first] == -matrix[0, second]) & (matrix[-1, first] == -matrix[-1, second])
        kept = np.ones(size, dtype=bool)
        for j, k in zip(first[alike], second[alike], strict=True):
            if kept[j] and kept[k] and np.array_equal(matrix[:, j], -matrix[:, k]):
                kept[k] = False
                self.which[k], self.sign[k] = j, -1.0
        if kept.all():
            return
        position = np.cumsum(kept) - 1
        self.which = position[self.which]
        self.matrix, self.paired = matrix[:, kept], True

    def image(self, v: Vector) -> Vector:
        """The matrix times v."""
        if not self.paired:
            return np.asarray(self.matrix @ v)
        return np.asarray(self.matrix @ np.bincount(self.which, self.sign * v, self.matrix.shape[1]))

    def back(self, p: Vector) -> Vector:
        """p times the matrix."""
        found = p @ self.matrix
        return np.asarray(found[self.which] * self.sign if self.paired else found)

    def gram(self, diagonal: Vector) -> Vector:
        """The matrix, transposed, times the diagonal times the matrix."""
        half = self.matrix * np.sqrt(diagonal)[:, None]
        found = half.T @ half
        if self.paired:
            found = found[np.ix_(self.which, self.which)] * np.multiply.outer(self.sign, self.sign)
        return np.asarray(found)


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
        self.hinges = Columns(q.B)
        self.row_square = np.vecdot(q.G, q.G)
        # What a product of slack and multiplier tends to, beside the others. No multiplier of a hinge exceeds its cap:
        # one whose cap is tiny would be led far away by a target that all share, and would return last of all. The root
        # lies between that and products in the ratio of the caps, which are below what the residuals can tell apart.
        self.centers = np.ones(simple + 2 * hinges)
        if hinges:
            self.centers[simple:] = np.tile(np.sqrt(q.cap / (float(q.cap.mean()) or 1.0)), 2)
        self.centers /= max(float(self.centers.sum()), 1e-300)
        self.iterations = 0
        self.v, self.y, self.x, self.z = self._start(start)

    def _start(self, start: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """A point off all boundaries, with multipliers that nearly balance the slopes there."""
        q, outer = self.problem, slice(0, self.problem.outer)
        size = max(float(np.mean(np.abs(start[outer]))) if q.outer else 0.0, 1e-4)
        inset = np.minimum(0.25 * (q.upper - q.lower), 0.5 * size)
        v = np.minimum(np.maximum(start, q.lower + inset), q.upper - inset)
        root, excess = self._soften(v)
        h, r = 0.5 * (excess + root), 0.5 * (root - excess)
        p, o = q.cap * h / root, q.cap * r / root  # both products of a hinge are then equal: r p = h o
        slope = q.gradient(v) + self.hinges.back(p)
        y = np.zeros(len(q.c))
        if len(y) == 1:
            budget = q.C[0, outer]
            y[0] = float(budget @ slope[outer]) / max(float(budget @ budget), 1e-300)
        elif len(y):
            y[:] = np.linalg.lstsq(q.C[:, outer].T, slope[outer], rcond=None)[0]
        rest = slope - y @ q.C
        price = max(float(np.mean(np.abs(rest[outer]))) if q.outer else 0.0, 1e-3)
        below = np.maximum(rest, 0.0) + price
        above = np.where(np.isfinite(q.lower), below - rest, np.maximum(-rest, 0.0) + price)
        margin = np.maximum(q.b - q.G @ v, size)
        slack = [(v - q.lower)[self.has_lower], (q.upper - v)[self.has_upper], margin]
        prices = [below[self.has_lower], above[self.has_upper], np.full(len(margin), price)]
        return v, y, np.concatenate([*slack, h, r]), np.concatenate([*prices, o, p])

    def _soften(self, v: Vector) -> tuple[Vector, Vector]:
        """Hinges rounded off; each inner variable of v is moved to where the slopes of its hinges balance its own."""
        q = self.problem
        excess = self.hinges.image(v) - q.kink
        if not len(excess):
            return excess, excess
        width = 0.5 * max(float(np.std(excess)), 1e-6)
        for k in range(q.outer, len(v)):
            if np.isfinite(q.lower[k]):  # a scale: it stays within its bound
                continue
            mine = np.ones(len(excess), dtype=bool) if q.inner == 1 else q.B[:, k] == -1.0
            if mine.any():
                moved = self._balanced(v, k, excess[mine], q.cap[mine], width)
                excess[mine] -= moved - v[k]
                v[k] = moved
        return np.sqrt(np.square(excess) + width * width), excess

    def _balanced(self, v: Vector, k: int, excess: Vector, cap: Vector, width: float) -> float:
        """Where the slope in variable k, of which ``excess`` is the hinges' at v, vanishes."""
        q = self.problem
        slope, curvature = float(q.gradient(v)[k]), 0.0 if q.H is None else float(q.H[k, k])

        total, square = float(cap.sum()), width * width

        def balance(at: float) -> tuple[float, Vector]:
            """The slope, which rises with the variable, and the rounded hinges there."""
            moved = excess - (at - v[k])
            root = np.sqrt(moved * moved + square)
            return slope + curvature * (at - v[k]) - 0.5 * (total + float(cap @ (moved / root))), root

        low, high = v[k] + float(excess.min()) - width, v[k] + float(excess.max()) + width
        at = float(v[k])
        for _ in range(12):
            low, high = (at, high) if balance(at)[0] < 0.0 else (low, at)
            at = 0.5 * (low + high)
        if curvature > 0.0:  # it may balance the slope far from all hinges
            left, root = balance(at)
            at -= left / (curvature + 0.5 * square * float(cap @ (1.0 / (root * root * root))))
        return at

    # -- one run ------------------------------------------------------------------------------------------------

    def run(self, tolerance: float, max_iter: int = 60) -> InteriorPoint:
        """Iterate until the complementarity sum and the residuals are below ``tolerance``; report the best iterate.

        The last need not be the best: where rounding keeps a residual above the tolerance, further iterations drive
        the slacks towards 0 and then lose the slopes as well.
        """
        best, kept, stalled = np.inf, (self.v, self.y, self.x, self.z), 0
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
            # Never quite to the boundary: a slack of 0 would end the method with a division by it.
            share = min(max(0.9, 1.0 - total / max(len(self.x), 1)), 1.0 - 1e-6)
            if not self._step((slope_gap, row_gap, slack_gap), total, 0.0, share):
                break
        self.v, self.y, self.x, self.z = kept
        return self._report()

    def _step(self, residuals: tuple[Vector, Vector, Vector], total: float, least: float, share: float) -> bool:
        """Mehrotra's predictor and corrector, centered by ``least`` at least; False where there is no such step."""
        self.per_x, self.per_z = 1.0 / self.x, 1.0 / self.z  # a division takes as long as several products
        solve = self._factor()
        if solve is None:
            return False
        self.iterations += 1
        product = self.x * self.z
        dv, dy, dx, dz = self._direction(solve, *residuals, -product)
        primal, dual = self._lengths(dx, dz, 1.0)
        after = float((self.x + primal * dx) @ (self.z + dual * dz))
        centering = max(min(1.0, (max(after, 0.0) / total) ** 3), least) if total > 0.0 else 0.0
        dv, dy, dx, dz = self._direction(solve, *residuals, (centering * total) * self.centers - product - dx * dz)
        if not np.isfinite(dv).all():
            return False
        primal, dual = self._lengths(dx, dz, share)
        self.v, self.x = self.v + primal * dv, self.x + primal * dx
        self.y, self.z = self.y + dual * dy, self.z + dual * dz
        return True

    def _residuals(self) -> tuple[Vector, Vector, Vector]:
        q, z = self.problem, self.z
        slope_gap = q.gradient(self.v) - self.y @ q.C
        slack_gap = q.b  # where there are none
        if len(q.cap):
            slope_gap += self.hinges.back(z[self.r])
        if len(q.b):
            slope_gap += z[self.row] @ q.G
            slack_gap = q.G @ self.v + self.x[self.row] - q.b
        slope_gap[self.has_lower] -= z[self.low]
        slope_gap[self.has_upper] += z[self.high]
        return slope_gap, q.C @ self.v - q.c, slack_gap

    def _lengths(self, dx: Vector, dz: Vector, share: float) -> tuple[float, float]:
        primal, dual = _longest(self.per_x, dx, share), _longest(self.per_z, dz, share)
        # H couples the two sides, so they must move together.
        return (min(primal, dual),) * 2 if self.problem.H is not None else (primal, dual)

    # -- linear algebra -----------------------------------------------------------------------------------------

    def _factor(self) -> Solve | None:
        q = self.problem
        self.ratio, self.inverse = self.z * self.per_x, self.x * self.per_z
        K = np.zeros((len(q.g), len(q.g))) if q.H is None else q.H.copy()
        if len(q.cap):
            self.curvature = 1.0 / (self.inverse[self.h] + self.inverse[self.r])
            K += self.hinges.gram(self.curvature)
        diagonal = K.reshape(-1)[:: len(K) + 1]
        largest = float(diagonal.max())
        self.tight = self.loose = _NONE
        if len(q.b):
            # A row that is nearly tight would swamp the curvature of the others: it is kept apart, as equalities are.
            near = self.ratio[self.row] * self.row_square > largest
            self.tight, self.loose = near.nonzero()[0], (~near).nonzero()[0]
            loose = q.G[self.loose]
            K += (loose.T * self.ratio[self.row][self.loose]) @ loose
            largest = float(diagonal.max())
        diagonal[self.has_lower] += self.ratio[self.low]
        diagonal[self.has_upper] += self.ratio[self.high]
        # The floor only matters for directions without curvature: a free t beside a linear utility. Entries of
        # variables at a bound grow without limit; a floor made of them would swamp the curvature of the others.
        typical = float(np.partition(diagonal, len(diagonal) // 2)[len(diagonal) // 2]) or float(diagonal.max()) or 1.0
        typical = min(typical, largest) if largest > 0.0 else typical
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
        E = np.concatenate([q.C, -q.G[self.tight]]) if len(self.tight) else q.C
        if not len(E):
            return lambda a, _: (_potrs(factor, a, lower=1)[0], np.zeros(0))
        half = _potrs(factor, E.T, lower=1)[0]
        middle = E @ half
        ends = middle.reshape(-1)[:: len(middle) + 1]
        ends[ends == 0.0] = 1.0  # a row that holds no asset of the working set leaves its multiplier alone
        ends += 1e-14 * float(ends.sum()) / len(E) + 1e-300
        if len(self.tight):
            ends[len(q.c) :] += 1.0 / self.ratio[self.row][self.tight]
        inner, info = _potrf(middle, lower=1, clean=0)
        if info != 0:
            return None

        def solve(a: Vector, b: Vector) -> tuple[Vector, Vector]:
            """K dv - E^T dm = a,  E dv + D dm = b,  E = (C, -G of tight rows) and D = (0, slacks over multipliers)."""
            first = _potrs(factor, a, lower=1)[0]
            dm = _potrs(inner, b - E @ first, lower=1)[0]
            return first + half @ dm, dm

        return solve

    def _direction(
        self, solve: Solve, slope_gap: Vector, row_gap: Vector, slack_gap: Vector, target: Vector
    ) -> tuple[Vector, Vector, Vector, Vector]:
        """The step with  z dx + x dz = target  and all residuals removed."""
        q = self.problem
        push = target * self.per_x
        # Hinges: dx_h - dx_r = B dv and dz_h = -dz_r = -dp, from which dp = curvature * (B dv) + hinge.
        rhs = -slope_gap
        if len(q.cap):
            drop = target * self.per_z
            hinge = self.curvature * (drop[self.r] - drop[self.h])
            rhs -= self.hinges.back(hinge)
        right = -row_gap
        if len(q.b):
            wanted = push[self.row] + self.ratio[self.row] * slack_gap
            rhs -= wanted[self.loose] @ q.G[self.loose]
            right = np.append(right, wanted[self.tight] / self.ratio[self.row][self.tight])
        rhs[self.has_lower] += push[self.low]
        rhs[self.has_upper] -= push[self.high]
        dv, dm = solve(rhs, right)
        dy = dm[: len(q.c)]
        dx, dz = np.empty_like(self.x), np.empty_like(self.z)
        dx[self.low] = dv[self.has_lower]
        dx[self.high] = -dv[self.has_upper]
        if len(q.b):
            dx[self.row] = -(q.G @ dv) - slack_gap
        dz[self.simple] = push[self.simple] - self.ratio[self.simple] * dx[self.simple]
        if len(q.b):
            tight = self.row.start + self.tight
            dz[tight] = dm[len(q.c) :]
            dx[tight] = (push[tight] - dz[tight]) / self.ratio[tight]
        if len(q.cap):
            moved = self.hinges.image(dv)
            dp = self.curvature * moved + hinge
            dz[self.r], dz[self.h] = dp, -dp
            dx[self.h] = drop[self.h] + dp * self.inverse[self.h]
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


def _longest(per_unit: Vector, step: Vector, share: float) -> float:
    """The longest step up to 1 that goes ``share`` of the way to the boundary; ``per_unit`` is 1 over where it is."""
    if not len(step):
        return 1.0
    nearest = -float((step * per_unit).min())
    return min(1.0, share / nearest) if nearest > 0.0 else 1.0


class CautiousMethod(InteriorMethod):
    """Goes down with the complementarity sum alone, and not faster than the residuals.

    Where thousands of hinges crowd about the solution, the residual of the slopes ends at the rounding of the factor,
    above the weight of a hinge. Iterates that go on are pressed against whichever hinges were near and name the wrong
    ones; those halfway down name the right ones.
    """

    def descend(self, target: float, max_iter: int = 25) -> InteriorPoint | None:
        """Iterate until the complementarity sum is at most ``target``; None where that cannot be."""
        for _ in range(max_iter):
            residuals = self._residuals()
            total = float(self.x @ self.z)
            missing = max(map(_largest, residuals))
            if total <= target:
                return self._report()
            least = 0.1 if missing > 0.01 * total else 0.0
            if not np.isfinite(total + missing) or not self._step(residuals, total, least, 0.9):
                return None
        return None
