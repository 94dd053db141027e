"""The small convex problem solved at every step: a quadratic plus hinges over a polyhedron."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Subproblem:
    r"""Minimize  g.v + v.H v/2 + sum_j cap_j (B_j v - kink_j)^+  over  lower <= v <= upper, C v = c, G v <= b.

    v holds the working assets and, last, the threshold t. H is None where nothing has any curvature,
    and the problem is then a linear program in disguise.
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

    def objective(self, v: Vector) -> float:
        """The value at v, wherever v lies."""
        value = float(self.g @ v)
        if self.H is not None:
            value += 0.5 * float(v @ (self.H @ v))
        return value + float(self.cap @ np.maximum(self.B @ v - self.kink, 0.0))

    def gradient(self, v: Vector) -> Vector:
        """Gradient of the quadratic part."""
        return self.g if self.H is None else self.g + self.H @ v


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
