"""The first pass: is everything finite, how large are the losses, and a small part of the rows to start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from certeq.optimize.panels import Index, Panel, Vector

_GOLDEN = 0.6180339887498949  # multiples of it spread evenly over the unit interval, whatever the order of the rows


@dataclass(frozen=True)
class Extent:
    """What is known of a panel after one pass; ``center`` and ``deviation`` per column, weighted."""

    mass: float
    center: Vector
    square: Vector  # weighted sum of squared deviations
    biggest: float
    weights: tuple[float, float]  # least and greatest
    broken: tuple[int, int, float] | None  # row, column and content of the first entry that is not finite
    drawn: Vector
    drawn_weights: Vector | None

    @property
    def deviation(self) -> Vector:
        """Standard deviation of every column."""
        return np.sqrt(self.square / self.mass)

    @property
    def scale(self) -> float:
        """A typical deviation; the size of the losses where they do not vary."""
        spread = float(np.sqrt(np.mean(self.square) / self.mass))
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

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> tuple[Index, Vector, Vector]:
        """Those of a piece."""
        return self.join([(ids, rows @ self.theta, np.ones(len(ids)) if weights is None else weights)])

    def join(self, parts: Sequence[tuple[Index, Vector, Vector]]) -> tuple[Index, Vector, Vector]:
        """The worst of several."""
        ids, losses, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        top = np.argsort(-losses, kind="stable")[: self.count]
        return ids[top], losses[top], weights[top]


@dataclass(frozen=True)
class Scan:
    """The kernel: moments of a piece, and a ``share`` of its rows, at most ``most`` of them."""

    share: float
    most: int

    def __call__(self, ids: Index, rows: Vector, weights: Vector | None) -> Extent:
        """Summarize a piece."""
        with np.errstate(all="ignore"):
            finite = bool(np.isfinite(rows.sum()))
        broken = None if finite else _first_broken(ids, rows)
        if broken is not None:
            zero = np.zeros(rows.shape[1])
            return Extent(1.0, zero, zero, 0.0, (0.0, 0.0), broken, rows[:0], None)
        chosen = np.mod(ids * _GOLDEN, 1.0) < self.share
        if weights is None:
            mass, center = float(len(rows)), rows.mean(axis=0)
            square = np.square(rows - center).sum(axis=0)
            limits = (1.0, 1.0)
        else:
            mass, limits = float(weights.sum()), (float(weights.min()), float(weights.max()))
            center = weights @ rows / mass if mass > 0.0 else np.zeros(rows.shape[1])
            square = weights @ np.square(rows - center)
            chosen &= weights > 0.0
        places = np.flatnonzero(chosen)[: self.most]
        drawn_weights = None if weights is None else weights[places]
        biggest = max(float(rows.max()), -float(rows.min()))
        return Extent(mass, center, square, biggest, limits, None, rows[places], drawn_weights)

    def join(self, parts: Sequence[Extent]) -> Extent:
        """Moments about the common mean."""
        first = next((part.broken for part in parts if part.broken is not None), None)
        if first is not None:
            return replace(parts[0], broken=first)
        masses = np.array([part.mass for part in parts])
        mass = float(masses.sum())
        means = np.array([part.center for part in parts])
        center = masses @ means / mass if mass > 0.0 else means[0]
        square = np.sum([part.square for part in parts], axis=0) + masses @ np.square(means - center)
        pieces = [part.drawn_weights for part in parts if part.drawn_weights is not None]
        return Extent(
            mass,
            center,
            square,
            max(part.biggest for part in parts),
            (min(part.weights[0] for part in parts), max(part.weights[1] for part in parts)),
            None,
            np.concatenate([part.drawn for part in parts]),
            np.concatenate(pieces) if pieces else None,
        )


def _first_broken(ids: Index, rows: Vector) -> tuple[int, int, float] | None:
    places = np.argwhere(~np.isfinite(rows))
    if not len(places):  # a sum that overflowed
        return None
    row, column = places[0]
    return int(ids[row]), int(column), float(rows[row, column])


def scan(panel: Panel, wanted: int) -> Extent:
    """One pass; about ``wanted`` rows come back with it. Complains of NaN, infinities and bad weights."""
    found = panel.reduce(Scan(min(1.0, wanted / len(panel)), len(panel)), every=True)
    if found.broken is not None:
        row, column, content = found.broken
        raise ValueError(f"A must be finite; found {content} at {panel.where(row)}, asset {column}.")
    low, high = found.weights
    if not (np.isfinite(low) and np.isfinite(high) and np.isfinite(found.mass)):
        raise ValueError("weights must be finite; found NaN or infinity.")
    if low < 0.0 or not found.mass > 0.0:
        raise ValueError(
            f"weights must be non-negative with a positive sum; found minimum {low:g} and sum {found.mass:g}."
        )
    if not len(found.drawn):  # nearly all weights are 0: the first few rows of each piece that count will do
        found = panel.reduce(Scan(1.0, 16), every=True)
    return found
