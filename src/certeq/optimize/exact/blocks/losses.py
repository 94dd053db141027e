"""The losses of one theta as a long sample: the threshold of a panel by the solver that serves every other sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from certeq.optimize.panels import Index, Panel, Vector
from certeq.risk._sample import Kernel as LossKernel
from certeq.risk._sample import Sample

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class _Losses:
    """A kernel of losses as a kernel of rows."""

    theta: Vector
    kernel: LossKernel

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> list[Any]:
        return [self.kernel(rows @ self.theta, weights)]

    def join(self, parts: Sequence[list[Any]]) -> list[Any]:
        return [one for part in parts for one in part]


@dataclass(frozen=True)
class _Draw:
    """A share of the losses, spread evenly over the rows."""

    theta: Vector
    share: float

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> list[tuple[Vector, Vector | None]]:
        chosen = np.mod(ids * _GOLDEN, 1.0) < self.share
        return [(rows[chosen] @ self.theta, None if weights is None else weights[chosen])]

    def join(self, parts: Sequence[list[Any]]) -> list[Any]:
        return [one for part in parts for one in part]


class PanelLosses(Sample):
    """Losses A theta, computed block by block whenever they are asked for."""

    def __init__(self, panel: Panel, theta: Vector) -> None:
        self.panel, self.theta = panel, theta
        self.size, self.weighted = len(panel), panel.weighted

    def map(self, kernel: LossKernel, every: bool = False) -> list[Any]:
        """kernel(losses, weights) of every block, in order."""
        return self.panel.reduce(_Losses(self.theta, kernel), every)

    def complain(self, allow_low: bool) -> None:
        """Rows were found finite before, so that losses can only have overflowed."""
        raise ValueError("The losses at a trial theta overflow; A or the bounds of theta are out of range.")

    def draw(self, count: int) -> tuple[Vector, Vector | None]:
        """About ``count`` losses with their weights, the same ones every time."""
        parts = self.panel.reduce(_Draw(self.theta, min(1.0, count / self.size)))
        w = [part[1] for part in parts if part[1] is not None]
        return np.concatenate([part[0] for part in parts]), np.concatenate(w) if self.weighted else None
