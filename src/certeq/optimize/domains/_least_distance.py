"""The nearest point of a polyhedron, by a finite dual active-set method.

The method is that of Goldfarb and Idnani (Math. Programming 27, 1983) with the identity for a Hessian. Bounds are kept
apart from rows: a coordinate at a bound simply leaves the least-squares problems, which then have one unknown
per active row. A polyhedron in R^500 with three rows costs some hundred solves of size three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certeq._backend import FloatArray

from ._base import InfeasibleError

__all__ = ["LeastDistance", "least_distance"]

_DEPENDENT = 1e-10  # a unit normal whose part outside the active normals is shorter than this depends on them
_VIOLATED = 1e-13  # of the scale: a constraint violated by less holds
_ROUNDING = 1e-9  # of the scale: a constraint that depends on the active ones and is violated by less holds too


@dataclass(frozen=True)
class LeastDistance:
    """The nearest point, the coordinates between their bounds and the rows that hold with equality."""

    theta: FloatArray
    free: NDArray[np.bool_]
    rows: FloatArray

    def jacobian(self) -> FloatArray:
        """Return the derivative of the nearest point: the orthogonal projector on the face it lies in."""
        matrix = np.diag(self.free.astype(np.float64))
        if self.rows.size:
            basis = _orthonormal(np.where(self.free, self.rows, 0.0))
            matrix -= basis @ basis.T
        return matrix


def least_distance(
    x: FloatArray, lower: FloatArray, upper: FloatArray, K: FloatArray, k: FloatArray, n_equal: int
) -> LeastDistance:
    r"""Project onto a polyhedron.

    .. math:: \arg\min_v \|v - x\|^2 \ \text{s.t.}\ l \le v \le h,\
              K_i v = k_i \ (i < m),\ K_i v \le k_i \ (i \ge m)

    The first m = `n_equal` rows are equalities. The result meets every constraint to about 1e-13 of its scale.
    """
    norms = np.linalg.norm(K, axis=1)
    keep = norms > 0  # a zero row says nothing about v; whether it can hold is the set's validation to say
    equal = np.arange(k.size)[keep] < n_equal
    K, k = K[keep] / norms[keep, None], k[keep] / norms[keep]
    state = _ActiveSet(x, lower, upper, K, k, equal)
    for _ in range(100 + 20 * (x.size + k.size)):
        if not state.add_most_violated():
            return LeastDistance(np.clip(state.theta, lower, upper), state.side == 0, K[state.rows])
    raise RuntimeError(
        f"the projection onto a polyhedron did not end (d = {x.size}, {k.size} rows): its rows are too nearly dependent"
    )


class _ActiveSet:
    """A working set, its exact minimizer `theta` and the multipliers of the rows.

    With u the multipliers, theta = x - K'u where free and the bound otherwise, so that the multiplier of a bound needs
    no store of its own: it is the distance from x - K'u to the bound.
    """

    def __init__(
        self,
        x: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        K: FloatArray,
        k: FloatArray,
        equal: NDArray[np.bool_],
    ) -> None:
        self.x, self.lower, self.upper, self.K, self.k, self.equal = x, lower, upper, K, k, equal
        # Bounds alone have their answer at once. Coordinates with equal bounds stay fixed.
        self.fixed = lower == upper
        self.side = (x > upper).astype(int) - (x < lower)
        self.side[self.fixed] = 1
        self.rows: list[int] = []
        self.u = np.zeros(k.size)
        self.theta = np.clip(x, lower, upper)
        # Constraints that the active ones imply: rounding may make them look violated, adding them is impossible.
        self.implied_rows = np.zeros(k.size, dtype=bool)
        self.implied_bounds = np.zeros(x.size, dtype=bool)

    def add_most_violated(self) -> bool:
        """Bring the worst violated constraint into the working set; False when none is violated."""
        rows = self.K @ self.theta - self.k
        rows = np.where(self.equal, np.abs(rows), rows)
        rows[self.rows] = rows[self.implied_rows] = -np.inf
        bounds = np.maximum(self.lower - self.theta, self.theta - self.upper)
        bounds[(self.side != 0) | self.implied_bounds] = -np.inf
        worst_row, worst_bound = float(rows.max(initial=-np.inf)), float(bounds.max())
        tolerance = _VIOLATED * self._scale()
        if max(worst_row, worst_bound) <= tolerance:
            return False
        # Equalities first: their multipliers have no sign to keep, so they never block.
        open_equal = self.equal & (rows > tolerance)
        if open_equal.any():
            self._add_row(int(np.argmax(np.where(open_equal, rows, -np.inf))))
        elif worst_row >= worst_bound:
            self._add_row(int(np.argmax(rows)))
        else:
            self._add_bound(int(np.argmax(bounds)))
        self._solve_afresh()
        return True

    def _add_row(self, i: int) -> None:
        sign = -1.0 if self.K[i] @ self.theta < self.k[i] else 1.0
        full = False
        while not full:
            full, step = self._step(sign * self.K[i], sign * float(self.K[i] @ self.theta - self.k[i]), f"row {i}")
            if step is None:
                self.implied_rows[i] = True
                return
            self.u[i] += sign * step
        self.rows.append(i)

    def _add_bound(self, j: int) -> None:
        side = 1 if self.theta[j] > self.upper[j] else -1
        normal = np.zeros(self.x.size)
        normal[j] = side
        bound = self.upper[j] if side > 0 else self.lower[j]
        full = False
        while not full:
            full, step = self._step(normal, side * float(self.theta[j] - bound), f"the bound of theta[{j}]")
            if step is None:
                self.implied_bounds[j] = True
                return
        self.side[j] = side

    def _step(self, normal: FloatArray, violation: float, name: str) -> tuple[bool, float | None]:
        """Move along the new normal until its constraint holds (True) or a multiplier reaches 0 and leaves (False).

        The step is None when the constraint already holds up to rounding and depends on the active ones.
        """
        free = self.side == 0
        active = self.K[self.rows]
        r = np.linalg.lstsq(active[:, free].T, normal[free], rcond=None)[0] if self.rows else np.zeros(0)
        rest = normal - active.T @ r
        along = np.where(free, rest, 0.0)
        curvature = float(along @ along)
        dependent = curvature <= _DEPENDENT**2
        if dependent and violation <= _ROUNDING * self._scale():
            return True, None
        full_step = np.inf if dependent else max(violation, 0.0) / curvature

        bound = ~free & ~self.fixed
        at = np.where(self.side > 0, self.upper, np.where(self.side < 0, self.lower, 0.0))
        bound_u = np.where(bound, self.side * (self.x - self.K.T @ self.u - at), np.inf)
        bound_step = _ratios(bound_u, np.where(bound, self.side * rest, 0.0))
        row_step = _ratios(self.u[self.rows], np.where(self.equal[self.rows], 0.0, r))
        block = min(float(bound_step.min()), float(row_step.min(initial=np.inf)))
        step = min(full_step, block)
        if not np.isfinite(step):
            raise InfeasibleError(f"the polyhedron is empty: {name} contradicts the constraints already met")

        self.u[self.rows] -= step * r
        self.theta = self.theta - step * along
        if full_step <= block:
            return True, step
        if float(bound_step.min()) <= block:
            self.side[int(np.argmin(bound_step))] = 0
        else:
            leaving = int(np.argmin(row_step))
            self.u[self.rows[leaving]] = 0.0
            del self.rows[leaving]
        return False, step

    def _solve_afresh(self) -> None:
        """Set theta and u to the minimizer on the working set, free of the rounding of the steps that led here."""
        free = self.side == 0
        theta = np.where(free, self.x, np.where(self.side > 0, self.upper, self.lower))
        self.u[:] = 0.0
        if self.rows:
            active = self.K[self.rows][:, free]
            for _ in range(3):  # the second and third pass refine: a large x leaves a residual of eps * |x|
                residual = self.K[self.rows] @ theta - self.k[self.rows]
                theta[free] -= np.linalg.lstsq(active, residual, rcond=None)[0]
            self.u[self.rows] = np.linalg.lstsq(active.T, (self.x - theta)[free], rcond=None)[0]
        self.theta = theta

    def _scale(self) -> float:
        return max(1.0, float(np.abs(self.theta).max()), float(np.abs(self.k).max(initial=0.0)))


def _ratios(multipliers: FloatArray, rates: FloatArray) -> FloatArray:
    """Return after what step each multiplier, falling at its rate, reaches 0."""
    out = np.full(rates.shape, np.inf)
    falling = rates > _DEPENDENT
    out[falling] = np.maximum(multipliers[falling], 0.0) / rates[falling]
    return out


def _orthonormal(rows: FloatArray) -> FloatArray:
    """Return an orthonormal basis, in columns, of the span of the rows."""
    _, s, vt = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(vt[s > 1e-12 * max(1.0, float(s.max(initial=0.0)))].T)
