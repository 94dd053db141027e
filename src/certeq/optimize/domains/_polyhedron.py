"""The general polyhedron: bounds, equalities and inequalities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._backend import FloatArray, backend_of
from ._box import Bounded, middle_of, minimize_linear_box
from ._checks import bounds_argument
from ._least_distance import LeastDistance, least_distance
from ._linear_programs import inner_point, minimize_over, refuse_empty

__all__ = ["Polyhedron"]


@dataclass(frozen=True, eq=False, repr=False)
class Polyhedron(Bounded):
    """Bounds and rows, {theta: lower <= theta <= upper, C theta = c, A theta <= b}.

    Parameters
    ----------
    lower, upper
        Numbers or vectors, infinite for no bound. Some argument must be a vector or a matrix, to fix d.
    C, c
        Equalities, shapes (n, d) and (n,); None for none. One row may be given as a vector.
    A, b
        Inequalities, likewise.

    Notes
    -----
    All six are stored as read-only arrays, with no rows in place of None. `project` solves each point by a finite
    active-set method in O(d) times the rows squared per step, to about 1e-13; it takes milliseconds, not
    microseconds, and on tensors it runs on the CPU. `minimize_linear` and `start` solve a linear program (HiGHS).
    `diameter` is that of the bounds, an upper bound.

    Not for a set that has a class of its own, such as `Box`, `Simplex` or `CappedSimplex`: their projections need no
    iteration over active sets.

    Examples
    --------
    >>> from certeq import Polyhedron
    >>> p = Polyhedron(0.0, 1.0, C=[1.0, 1.0, 1.0], c=1.0, A=[[1.0, -1.0, 0.0]], b=[0.25])
    >>> p.project([1.0, 0.0, 0.0])
    array([0.625, 0.375, 0.   ])
    >>> p.explain([1.0, 0.0, 0.0])
    'A[0] theta <= b[0] (violated by 0.75)'
    """

    lower: Any = 0.0
    upper: Any = np.inf
    C: Any = None
    c: Any = None
    A: Any = None
    b: Any = None

    def __post_init__(self) -> None:
        C, A = _matrix(self.C, "C"), _matrix(self.A, "A")
        sizes = {"lower": np.size(self.lower) if np.ndim(self.lower) else None}
        sizes["upper"] = np.size(self.upper) if np.ndim(self.upper) else None
        sizes |= {"C": None if C is None else C.shape[1], "A": None if A is None else A.shape[1]}
        known = {name: size for name, size in sizes.items() if size is not None}
        if not known:
            raise ValueError("Polyhedron must know its dimension: give lower, upper, C or A as an array")
        if len(set(known.values())) > 1:
            raise ValueError(f"Polyhedron's arguments must agree on d, got {known}")
        d = next(iter(known.values()))
        super().__post_init__()
        for name in ("lower", "upper"):
            object.__setattr__(self, name, _frozen(np.broadcast_to(getattr(self, name), d)))
        for matrix_name, matrix, rhs_name in (("C", C, "c"), ("A", A, "b")):
            rhs = _right_side(getattr(self, rhs_name), rhs_name, matrix_name, 0 if matrix is None else len(matrix))
            object.__setattr__(self, matrix_name, _frozen(np.zeros((0, d)) if matrix is None else matrix))
            object.__setattr__(self, rhs_name, _frozen(rhs))

    @property
    def d(self) -> int:
        """The dimension."""
        return int(self.lower.size)

    def _validate(self, d: int) -> None:
        refuse_empty(self)

    def _nearest(self, x: FloatArray) -> LeastDistance:
        K, k = np.concatenate((self.C, self.A)), np.concatenate((self.c, self.b))
        return least_distance(x, self.lower, self.upper, K, k, self.c.size)

    def _project(self, x: Any) -> Any:
        return backend_of(x).on_host(self._solve, x)

    def _solve(self, points: FloatArray) -> tuple[FloatArray, Callable[[], FloatArray]]:
        found = [self._nearest(point) for point in points]
        thetas = np.array([each.theta for each in found]).reshape(points.shape)
        return thetas, lambda: np.array([each.jacobian() for each in found])

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        yield from super()._residuals(x)
        if self.c.size:
            yield np.abs(x @ self.C.T - self.c), "C[{k}] theta = c[{k}]"
        if self.b.size:
            yield x @ self.A.T - self.b, "A[{k}] theta <= b[{k}]"

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        if not self.c.size + self.b.size:
            return minimize_linear_box(g, self.lower, self.upper)
        # The vertex comes with the tolerance of the linear program; one projection puts it in the set.
        return self._nearest(minimize_over(self, g)[0]).theta

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        # A bound by duality, valid for any prices y and z >= 0, hence not at the mercy of the linear program's
        # tolerance: with r = g - C'y + A'z, the minimum of g.v is at least that of r.v over the bounds + y.c - z.b.
        if not self.c.size + self.b.size:
            return float(g @ (theta - self._minimize_linear(g)))
        _, y, z = minimize_over(self, g)
        r = g - self.C.T @ y + self.A.T @ z
        # Where there is no bound to lean on, r is 0 up to the rounding of the prices.
        bound = np.where(r > 0, self.lower, self.upper)
        noise = 1e-9 * max(float(np.abs(g).max()), np.finfo(float).tiny)
        r = np.where(np.isinf(bound) & (np.abs(r) <= noise), 0.0, r)
        over_bounds = float(r @ np.where(r == 0.0, 0.0, theta - np.where(r == 0.0, 0.0, bound)))
        equalities = self.C @ theta - self.c
        scale = np.abs(self.C) @ np.abs(theta) + np.abs(self.c)
        equalities = np.where(np.abs(equalities) > 64 * np.finfo(float).eps * scale, equalities, 0.0)
        return over_bounds + float(y @ equalities) + float(z @ (self.b - self.A @ theta))

    def _start(self, d: int) -> FloatArray:
        if not self.c.size + self.b.size:
            return middle_of(self.lower, self.upper)
        return self._nearest(inner_point(self)).theta

    def _diameter(self, d: int) -> float:
        return float(np.linalg.norm(self.upper - self.lower))

    def _as_polyhedron(self, d: int) -> Polyhedron:
        return self


def _matrix(value: ArrayLike | None, name: str) -> FloatArray | None:
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}; pass floats")
    array = np.atleast_2d(array).astype(np.float64)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} must have shape (n, d), got {array.shape}")
    if not np.isfinite(array).all():
        i, j = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"{name} must be finite, got {array[i, j]} at [{i}, {j}]")
    return array


def _right_side(value: ArrayLike | None, name: str, matrix: str, rows: int) -> FloatArray:
    if (value is None) != (rows == 0) and not (rows == 0 and np.size(value) == 0):  # type: ignore[arg-type]
        raise ValueError(f"{matrix} and {name} must be given together, got {'no ' if value is None else ''}{name}")
    if value is None or rows == 0:
        return np.zeros(0)
    side = np.atleast_1d(bounds_argument(value, name))
    if side.size != rows:
        raise ValueError(f"{name} must have one entry per row of {matrix}, got {side.size} for {rows} rows")
    return side


def _frozen(array: FloatArray) -> FloatArray:
    copy = np.array(array, dtype=np.float64)
    copy.flags.writeable = False
    return copy
