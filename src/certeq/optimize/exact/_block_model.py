"""The model of a step made from a read of the blocks: sums over all rows, and hinges for the rows that were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.exact._model import Model, scale_units, without_assets
from certeq.optimize.exact._risk import TermAt, all_kinks
from certeq.optimize.exact._scenarios import KeptRows, Sums, Units
from certeq.optimize.qp import Subproblem
from certeq.utilities.forms import Form

Vector = NDArray[np.float64]
Index = NDArray[np.intp]


@dataclass(frozen=True)
class BlockPoint:
    """v = (theta, inner) with its value, the terms and sums over all rows there; ``kept`` rows are known one by one.

    Of those there is one set for each sample.
    """

    v: Vector
    parts: tuple[TermAt, ...]
    value: float
    sums: Sums
    kept: tuple[KeptRows, ...]

    @property
    def theta(self) -> Vector:
        """What is held."""
        return self.v[: len(self.sums.column_sums)]

    @property
    def inner(self) -> Vector:
        """The inner variables."""
        return self.v[len(self.sums.column_sums) :]


@dataclass(frozen=True)
class KeptHinges:
    """Kept rows that the model treats exactly at a kink; every other row has the term's second-order expansion.

    Of every kink of the risk there are the positions of its rows among those kept of its sample. ``cap`` is weight
    times w times the jump, the largest multiplier of each hinge, one kink after the other.
    """

    rows: tuple[Index, ...]
    cap: Vector

    def __len__(self) -> int:
        return len(self.cap)

    def split(self, vector: Vector) -> list[Vector]:
        """A vector with an entry for every hinge, by kink."""
        return np.split(vector, np.cumsum([len(rows) for rows in self.rows])[:-1]) if self.rows else []


def pair_up(kept: Sequence[KeptRows], parts: tuple[TermAt, ...], widths: Sequence[float]) -> KeptHinges:
    """Every kink with the kept rows that are within its width."""
    rows, caps = [], []
    for (part, kink), width in zip(all_kinks(parts), widths, strict=True):
        own = kept[part.term.sample]
        near = np.flatnonzero(np.abs(own.x - part.t - kink.at) <= width)
        rows.append(near)
        caps.append(part.weight * kink.jump * own.weights[near])
    return KeptHinges(tuple(rows), np.concatenate(caps) if caps else np.zeros(0))


def block_subproblem(
    model: Model, units: Sequence[Units], point: BlockPoint, hinges: KeptHinges, assets: Index, radius: float
) -> Subproblem:
    """The second-order model at a point in the variables (theta[assets], inner); scales in multiples of themselves.

    The sums are over all rows, kept or not; hinges are taken out of them and stand beside.
    """
    size, sums, inner = len(model.linear), point.sums, model.inner
    slope = inner.cost.copy()
    for part, mean, constant in zip(point.parts, sums.slopes.tolist(), sums.constants.tolist(), strict=True):
        slope[part.term.t] -= part.weight * mean
        if part.term.s is not None:
            slope[part.term.s] = slope[part.term.s] * part.s + part.weight * constant
    g = np.concatenate([sums.column_sums + model.costs(point.theta), slope])
    B = np.zeros((len(hinges), len(g)))
    kinks = np.zeros(len(hinges))
    first, rest = 0, without_assets(point.theta, assets)
    for (part, kink), rows, cap in zip(all_kinks(point.parts), hinges.rows, hinges.split(hinges.cap), strict=True):
        own, mine = point.kept[part.term.sample], slice(first, first := first + len(rows))
        B[mine, :size] = units[part.term.sample].rows(own.raw[rows])
        B[mine, size + part.term.t] = -1.0
        if part.term.s is None:
            kinks[mine] = kink.at
        else:
            B[mine, size + part.term.s] = -kink.at
        # The slope of a hinge above its kink is in the sums; only what is left without it belongs to the quadratic.
        g -= (cap * (own.x[rows] - part.t > kink.at)) @ B[mine]
    if rest.any():
        kinks -= B[:, :size] @ rest
    columns = np.append(assets, np.arange(size, len(g)))
    H = sums.gram[np.ix_(columns, columns)] if sums.gram is not None and np.any(sums.gram) else None
    if model.squares is not None:
        H = np.zeros((len(columns), len(columns))) if H is None else H
        model.squares.add_hessian(H, assets)
    scales = scale_units(point.parts, len(slope))
    v = np.concatenate([point.theta, point.inner / scales])
    return model.around(v, assets, g[columns], H, (B[:, columns], kinks, hinges.cap), radius, inner.low / scales)


def dual_pairs(y: Vector, form: Form, rows: Sequence[Index], shares: Sequence[Vector]) -> tuple[Vector, Vector]:
    """Support points and slopes of a term there, one per kept row, that follow the multipliers of its hinges.

    Kept rows have the arguments y; of every kink of the form there are the ``rows`` of its hinges, and their shares of
    its jump. A slope between the two at a kink is a subgradient at the kink only, so such a row is supported there; so
    is one whose multiplier and position disagree. Every other row is supported where it is. Whatever the shares are,
    the slopes are subgradients at the support points.
    """
    with np.errstate(all="ignore"):
        support, slope = y.copy(), np.array(form.left_slope(y), dtype=np.float64)
    for kink, mine, share in zip(form.kinks, rows, shares, strict=True):
        part = np.clip(share, 0.0, 1.0)
        tied = np.where(y[mine] > kink.at, part < 1.0, part > 0.0)
        support[mine[tied]], slope[mine[tied]] = kink.at, kink.left + kink.jump * part[tied]
    return support, slope
