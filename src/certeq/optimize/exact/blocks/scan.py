"""The first pass: is everything finite, how large are the losses, and a small part of the rows to start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from certeq._table import Array as Vector
from certeq._table import Block, Index, Table, first_bad, summary

_GOLDEN = 0.6180339887498949  # multiples of it spread evenly over the unit interval, whatever the order of the rows


@dataclass(frozen=True)
class Extent:
    """What is known of a panel after one pass; ``center`` and ``deviation`` per column, weighted."""

    mass: float
    center: Vector
    deviation: Vector
    biggest: float
    drawn: Vector
    drawn_weights: Vector | None

    @property
    def scale(self) -> float:
        """A typical deviation; the size of the losses where they do not vary."""
        spread = float(np.sqrt(np.mean(np.square(self.deviation))))
        size = float(np.max(np.abs(self.center), initial=0.0))
        return spread if spread > 1e-13 * size else (size or 1.0)

    def with_tail(self, rows: Vector, weights: Vector, theta: Vector) -> Extent:
        """The worst scenarios at theta as they are, and those drawn that are better in place of all others."""
        others = self.drawn @ theta < float((rows @ theta).min())
        raw = np.ones(len(self.drawn)) if self.drawn_weights is None else self.drawn_weights
        left, total = self.mass - float(weights.sum()), float(raw[others].sum())
        share = max(left, 0.0) / total if total > 0.0 else 0.0
        return replace(
            self,
            drawn=np.concatenate([self.drawn[others], rows]),
            drawn_weights=np.append(raw[others] * share, weights),
        )


@dataclass(frozen=True)
class Worst:
    """The kernel that finds the ``count`` scenarios with the largest losses at theta, and their weights."""

    theta: Vector
    count: int
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Index, Vector, Vector]:
        """Those of a piece."""
        weights = np.ones(len(block.rows)) if block.weights is None else block.weights
        return self.join([(block.ids, block.rows @ self.theta, weights)])

    def join(self, parts: Sequence[tuple[Index, Vector, Vector]]) -> tuple[Index, Vector, Vector]:
        """The worst of several."""
        ids, losses, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        top = np.argsort(-losses, kind="stable")[: self.count]
        return ids[top], losses[top], weights[top]


@dataclass(frozen=True)
class Thinned:
    """The kernel that brings a ``share`` of the rows, spread evenly, at most ``most`` of a block, and their weights."""

    share: float
    most: int
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Vector, Vector | None]:
        """Those of a piece."""
        chosen = block.pick(np.flatnonzero(np.mod(block.ids * _GOLDEN, 1.0) < self.share)[: self.most])
        return chosen.rows, chosen.weights

    def join(self, parts: Sequence[tuple[Vector, Vector | None]]) -> tuple[Vector, Vector | None]:
        """One after the other."""
        weights = [part[1] for part in parts if part[1] is not None]
        return np.concatenate([part[0] for part in parts]), np.concatenate(weights) if weights else None


def scan(panel: Table, wanted: int) -> Extent:
    """One pass; about ``wanted`` rows come back with it. Complains of NaN, infinities and bad weights."""
    found = summary(panel, Thinned(min(1.0, wanted / len(panel)), len(panel)))
    if not (np.isfinite(found.low) and np.isfinite(found.high)) and (bad := first_bad(panel)) is not None:
        row, column, content = bad
        raise ValueError(f"A must be finite; found {content} {panel.where(row)}, asset {column}.")
    if not (np.isfinite(found.lightest) and np.isfinite(found.heaviest) and np.isfinite(found.mass)):
        raise ValueError("weights must be finite; found NaN or infinity.")
    if found.lightest < 0.0 or not found.mass > 0.0:
        raise ValueError(
            "weights must be non-negative with a positive sum; found minimum "
            f"{found.lightest:g} and sum {found.mass:g}."
        )
    if not len(found.extra[0]):  # nearly all weights are 0: the first few rows of each piece that count will do
        found = summary(panel, Thinned(1.0, 16))
    assert found.mean is not None
    return Extent(found.mass, found.mean, found.deviation, max(found.high, -found.low), *found.extra)
