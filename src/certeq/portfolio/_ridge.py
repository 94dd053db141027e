"""The L2 penalty for OCE-SG: as part of every scenario's loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.losses import LinearLoss
from certeq.portfolio._segments import Segments

Floats = NDArray[np.float64]


class RidgeLoss(LinearLoss):
    r"""Losses :math:`a_i^\top v + l_2 \|w(v)\|^2`: what every scenario loses alike passes through OCE unchanged."""

    def __init__(self, A: Any, l2: float, segments: Segments) -> None:
        super().__init__(A)
        self.l2, self.segments = l2, segments
        self.linear = l2 == 0.0

    def evaluate(self, theta: Floats, batch: Any = None) -> tuple[Floats, Any]:
        """Return the losses, and q -> A^T q + (sum q) 2 l2 w."""
        losses, product = super().evaluate(theta, batch)
        if self.l2 == 0.0:
            return losses, product
        w = self.segments.fold(theta)
        slope = 2.0 * self.l2 * self.segments.row(w)
        return losses + self.l2 * float(w @ w), lambda q: product(q) + float(q.sum()) * slope

    def smoothness(self, batch: Any = None) -> float:
        """2 l2 times the most segments an asset has."""
        return 2.0 * self.l2 * int(np.bincount(self.segments.asset).max())

    def lipschitz(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """Largest norm(a_i), and of the penalty within the diameter."""
        steep = super().lipschitz(batch)
        if self.l2 == 0.0 or theta is None:
            return steep if self.l2 == 0.0 else float("inf")
        return steep + self.smoothness() * (float(np.linalg.norm(theta)) + diameter)
