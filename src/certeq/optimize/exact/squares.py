r"""A sum of squares beside the risk: its value, slope and curvature, and its part in the certificate.

The term is :math:`\tfrac12 |F\theta|^2`, given by the rows of F so that it is convex whatever they hold; a ridge has
one row per variable and is held as the diagonal of :math:`F^\top F`.

For any vector s, whatever led to it, :math:`|F v - s|^2 \ge 0` says that

.. math:: \tfrac12 |F v|^2 \;\ge\; (F^\top s) \cdot v - \tfrac12 |s|^2 \quad\text{for every } v,

with equality where F v = s. So with s = F theta the linear function on the right may take the place of the squares in
a lower bound: a bound proved for OCE(A v) + (l + F^T s).v over the feasible set is, less :math:`\tfrac12 |s|^2`, one
for the problem with the squares, and as tight at theta as the one it was made from. s is taken as computed, so only
the product F^T s has roundings, of at most ``rounding()`` for each unit of v_j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Index = NDArray[np.intp]
_EPS = float(np.finfo(np.float64).eps) / 2.0  # the rounding error of one operation


@dataclass(frozen=True)
class Squares:
    """Half the sum of squares |F theta|^2 / 2: ``rows`` are F, or its entries alone where F is diagonal."""

    rows: Vector

    def __post_init__(self) -> None:
        assert self.rows.ndim in (1, 2)

    @property
    def is_diagonal(self) -> bool:
        """Whether every square holds one variable."""
        return self.rows.ndim == 1

    def given(self) -> Vector:
        """The term as `solve_exact` takes it."""
        return np.square(self.rows) if self.is_diagonal else self.rows

    def scaled(self, factor: float) -> Squares:
        """The term times a factor."""
        return replace(self, rows=self.rows * np.sqrt(factor))

    def image(self, theta: Vector) -> Vector:
        """F theta."""
        return np.asarray(self.rows * theta if self.is_diagonal else self.rows @ theta)

    def back(self, s: Vector) -> Vector:
        """F^T s."""
        return np.asarray(self.rows * s if self.is_diagonal else s @ self.rows)

    def value(self, theta: Vector) -> float:
        """The term at theta."""
        s = self.image(theta)
        return 0.5 * float(s @ s)

    def slope(self, theta: Vector) -> Vector:
        """Its gradient F^T F theta."""
        return self.back(self.image(theta))

    def add_hessian(self, H: Vector, assets: Index) -> None:
        """Add F^T F of the chosen variables to the leading block of H, in place."""
        size = len(assets)
        if self.is_diagonal:
            H.reshape(-1)[: size * len(H) : len(H) + 1] += np.square(self.rows[assets])
        else:
            chosen = self.rows[:, assets]
            H[:size, :size] += chosen.T @ chosen

    def flat_along(self, direction: Vector) -> bool:
        """Whether the term stays as it is along a direction; elsewhere it outgrows every slope of the risk."""
        size = float(np.abs(self.rows).max(initial=0.0)) * float(np.abs(direction).max(initial=0.0))
        return float(np.abs(self.image(direction)).max(initial=0.0)) <= 1e-9 * size

    def rounding(self, s: Vector) -> Vector:
        """By how much every entry of ``back(s)`` may differ from F^T s."""
        count = 1.0 if self.is_diagonal else len(s) + 1.0
        size = np.abs(self.rows) * np.abs(s) if self.is_diagonal else np.abs(s) @ np.abs(self.rows)
        return np.asarray(_EPS * (count + 1.0) * size)
