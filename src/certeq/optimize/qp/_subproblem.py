"""A small convex problem, a quadratic plus hinges over a polyhedron, and what its solution is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Subproblem:
    r"""Minimize  g.v + v.H v/2 + sum_j cap_j (B_j v - kink_j)^+  over  lower <= v <= upper, C v = c, G v <= b.

    H is None where nothing has any curvature, and the problem is then a linear program in disguise. The last ``inner``
    variables are those of a risk measure: thresholds t, which have no bounds and enter the hinges of their own by -1,
    and scales s, which have a lower bound. They are in no row.
    """

    g: Vector
    H: Vector | None
    lower: Vector
    upper: Vector
    C: Vector
    c: Vector
    G: Vector
    b: Vector
    B: Vector
    kink: Vector
    cap: Vector
    inner: int = 1

    @property
    def outer(self) -> int:
        """How many variables are no inner ones."""
        return len(self.g) - self.inner

    def objective(self, v: Vector) -> float:
        """The value at v, wherever v lies."""
        value = float(self.g @ v)
        if self.H is not None:
            value += 0.5 * float(v @ (self.H @ v))
        return value + float(self.cap @ np.maximum(self.B @ v - self.kink, 0.0))

    def gradient(self, v: Vector) -> Vector:
        """Gradient of the quadratic part."""
        return self.g if self.H is None else self.g + self.H @ v

    def is_feasible(self, v: Vector) -> bool:
        """Whether the rows hold but for rounding; an interior point that was stopped may be far off them."""
        size = 1e-9 * (1.0 + float(np.max(np.abs(v), initial=0.0)))
        off = np.concatenate([np.abs(self.C @ v - self.c), self.G @ v - self.b])
        return bool(np.isfinite(v).all() and np.all(off <= size))


@dataclass(frozen=True)
class Multipliers:
    """y of C v = c (free), z >= 0 of G v <= b, p in [0, cap] of the hinges; and those of the two bounds."""

    y: Vector
    z: Vector
    p: Vector
    below: Vector
    above: Vector


@dataclass(frozen=True)
class Partition:
    """Which constraints hold with equality: variables at a bound, rows of G, and hinges (-1, 0 = tied, 1)."""

    at_lower: NDArray[np.bool_]
    at_upper: NDArray[np.bool_]
    tight: NDArray[np.bool_]
    side: NDArray[np.int8]


@dataclass(frozen=True)
class SubSolution:
    """Where the subproblem was solved, how, and how well."""

    v: Vector
    multipliers: Multipliers
    partition: Partition
    exact: bool
    iterations: int
