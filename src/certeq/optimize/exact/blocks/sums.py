"""What a step asks of every scenario: sums at a trial (theta, t), and the rows near a kink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from certeq._table import Array as Vector
from certeq._table import Block, Index
from certeq.utilities import Utility
from certeq.utilities.forms import Form


@dataclass(frozen=True)
class Units:
    """Losses in units of size 1:  (A - center) / scale, weights over their sum."""

    center: Vector
    scale: float
    mass: float

    def rows(self, raw: Vector) -> Vector:
        """Rows in these units."""
        return (raw - self.center) / self.scale

    def weights(self, raw: Vector | None, count: int) -> Vector:
        """Probabilities."""
        return np.full(count, 1.0 / self.mass) if raw is None else raw / self.mass


@dataclass(frozen=True)
class Rows:
    """Scenarios that are kept: where they are in the panel, their losses as given, probabilities, and u's argument."""

    ids: Index
    raw: Vector
    weights: Vector
    at: Vector

    def __len__(self) -> int:
        return len(self.ids)

    def pick(self, chosen: Any) -> Rows:
        """Some of them."""
        return Rows(self.ids[chosen], self.raw[chosen], self.weights[chosen], self.at[chosen])


def join_rows(parts: Sequence[Rows]) -> Rows:
    """One after the other."""
    return Rows(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.raw for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.at for part in parts]),
    )


def no_rows(columns: int) -> Rows:
    """None at all."""
    return Rows(np.zeros(0, dtype=np.int64), np.zeros((0, columns)), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Sums:
    """Sums over scenarios at (theta, t), with x the losses, e = x - t and q = w u'(e).

    ``constant`` is sum w u(e) - q e, ``pull`` sum q x' by asset, ``gram`` sum w u''(e) B^T B with B = (losses, -1).
    """

    value: float
    constant: float
    slope: float
    pull: Vector
    gram: Vector | None
    reach: float  # greatest |x|

    def plus(self, other: Sums, sign: float = 1.0) -> Sums:
        """Add or take away the sums over other scenarios."""
        gram = self.gram
        if gram is not None and other.gram is not None:
            gram = gram + sign * other.gram
        return Sums(
            self.value + sign * other.value,
            self.constant + sign * other.constant,
            self.slope + sign * other.slope,
            self.pull + sign * other.pull,
            gram,
            max(self.reach, other.reach),
        )


def add_up(rows: Vector, weights: Vector, at: Vector, x: Vector, form: Form, curved: bool) -> Sums:
    """The sums over the rows at hand; u is taken at ``at``."""
    with np.errstate(all="ignore"):
        value = form.utility.value(at)
        slope, bend = form.derivatives(at) if curved else (form.left_slope(at), None)
        worth, q = float(np.sum(weights * value)), weights * slope
        gram = None if bend is None else _gram(rows, weights * bend)
        reach = float(np.max(np.abs(x), initial=0.0))
        return Sums(worth, worth - float(np.sum(q * at)), float(np.sum(q)), q @ rows, gram, reach)


def _gram(rows: Vector, diagonal: Vector) -> Vector:
    size = rows.shape[1]
    live = np.flatnonzero(diagonal)
    if 2 * len(live) < len(diagonal):
        rows, diagonal = rows[live], diagonal[live]
    root = np.sqrt(diagonal)
    half = rows * root[:, None]
    out = np.empty((size + 1, size + 1))
    out[:size, :size] = half.T @ half
    out[:size, size] = out[size, :size] = -(root @ half)
    out[size, size] = diagonal.sum()
    return out


@dataclass(frozen=True)
class Look:
    """The kernel of a step: sums at (theta, t) over all rows but those ``held``, and which others are near a kink."""

    theta: Vector
    t: float
    form: Form
    units: Units
    curved: bool
    held: Index  # sorted
    widths: tuple[float, ...]  # how near, per kink
    share: float  # at most this part of the rows
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Sums, Rows]:
        """Summarize a piece."""
        ids, raw, w = block.ids, block.rows, self.units.weights(block.weights, len(block.rows))
        if len(self.held):
            place = np.minimum(np.searchsorted(self.held, ids), len(self.held) - 1)
            free = self.held[place] != ids
            if not free.all():
                ids, raw, w = ids[free], raw[free], w[free]
        scaled = self.units.rows(raw)
        x = scaled @ self.theta
        at = x - self.t
        sums = add_up(scaled, w, at, x, self.form, self.curved)
        chosen = np.flatnonzero(self._near(at) <= 1.0) if self.widths else np.zeros(0, dtype=np.intp)
        most = 16 + int(self.share * len(ids))
        if len(chosen) > most:
            chosen = chosen[np.argpartition(self._near(at[chosen]), most)[:most]]
        return sums, Rows(ids[chosen], raw[chosen], w[chosen], at[chosen])

    def _near(self, at: Vector) -> Vector:
        """Distance to the nearest kink, in widths."""
        far = np.full(len(at), np.inf)
        for kink, width in zip(self.form.kinks, self.widths, strict=True):
            if width > 0.0:
                far = np.minimum(far, np.abs(at - kink.at) / width)
        return far

    def join(self, parts: Sequence[tuple[Sums, Rows]]) -> tuple[Sums, Rows]:
        """Add up, and put rows one after the other."""
        sums = [part[0] for part in parts]
        grams = [one.gram for one in sums if one.gram is not None]
        with np.errstate(all="ignore"):  # far from the minimum u may overflow; what comes of it is no better point
            total = Sums(
                float(np.sum([one.value for one in sums])),
                float(np.sum([one.constant for one in sums])),
                float(np.sum([one.slope for one in sums])),
                np.sum([one.pull for one in sums], axis=0),
                np.sum(grams, axis=0) if grams else None,
                max(one.reach for one in sums),
            )
        return total, join_rows([part[1] for part in parts])


@dataclass(frozen=True)
class Along:
    """The kernel of a line search: sum w u(x - t) at points between two, all in one pass."""

    theta: Vector
    t: float
    to_theta: Vector
    to_t: float
    lengths: tuple[float, ...]
    utility: Utility
    units: Units
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Vector:
        """Values of a piece."""
        scaled, w = self.units.rows(block.rows), self.units.weights(block.weights, len(block.rows))
        here, there = scaled @ self.theta - self.t, scaled @ self.to_theta - self.to_t
        with np.errstate(all="ignore"):
            values = [np.sum(w * self.utility.value(here + s * (there - here))) for s in self.lengths]
        return np.array(values, dtype=np.float64)

    def join(self, parts: Sequence[Vector]) -> Vector:
        """Add up."""
        return np.asarray(np.sum(parts, axis=0))
