"""Constants of a linear loss whose rows are read in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from certeq.optimize.panels import Index, Panel, Vector


@dataclass(frozen=True)
class _Mean:
    """Sum of the rows, and their number; rows that are not finite make it so as well."""

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> tuple[Vector, int]:
        return rows.sum(axis=0), len(rows)

    def join(self, parts: Sequence[tuple[Vector, int]]) -> tuple[Vector, int]:
        return np.sum([part[0] for part in parts], axis=0), sum(part[1] for part in parts)


@dataclass(frozen=True)
class _Largest:
    """Greatest squared distance of a row from a point."""

    centre: Vector

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> float:
        apart = rows - self.centre
        return float(np.einsum("ij,ij->i", apart, apart).max())

    def join(self, parts: Sequence[float]) -> float:
        return float(np.max(parts))


def largest_norm(panel: Panel, centred: bool) -> float:
    """Largest norm(a_i), or norm(a_i - mean a)."""
    centre = np.zeros(panel.shape[1])
    if centred:
        total, count = panel.reduce(_Mean(), every=True)
        centre = total / count
    return float(np.sqrt(panel.reduce(_Largest(centre), every=True)))
