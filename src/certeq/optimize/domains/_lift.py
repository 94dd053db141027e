"""Sets as polyhedra in more variables: budgets of absolute values are linear in the long and the short part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._backend import FloatArray
from ._base import Domain
from ._polyhedron import Polyhedron
from ._product import Product, side_by_side

__all__ = ["Lift", "lift"]


@dataclass(frozen=True)
class Lift:
    """The set of all middle + S v with v in the polyhedron ``rows``, where S has one entry in each column.

    Column k of S holds a 1 in row ``place[k]``, or a -1 where the sign is negative. A coordinate that is ``split``
    has two columns, one of either sign, for what lies above and below its middle.
    """

    rows: Polyhedron
    place: NDArray[np.intp]
    sign: FloatArray
    split: NDArray[np.bool_]
    middle: FloatArray

    @property
    def is_plain(self) -> bool:
        """Whether v is theta itself."""
        return not self.split.any()

    def matrix(self) -> FloatArray:
        """S, one row per coordinate of theta."""
        out = np.zeros((self.middle.size, self.place.size))
        out[self.place, np.arange(self.place.size)] = self.sign
        return out

    def theta(self, v: FloatArray) -> FloatArray:
        """Return middle + S v."""
        out = self.middle.copy()
        np.add.at(out, self.place, self.sign * v)
        return out

    def parts(self, theta: FloatArray) -> FloatArray:
        """Return the v of theta whose entries are smallest."""
        v = self.sign * (theta - self.middle)[self.place]
        return np.where(self.split, np.maximum(v, 0.0), v)


def lift(domain: Domain, d: int) -> Lift:
    """Return the set as a polyhedron in as few more variables as will do.

    Raises
    ------
    TypeError
        When there is none; the message is the name of the set to blame, which of a product is one of its blocks.
    """
    if isinstance(domain, Product):
        domain.validate(d)
        return _joined([_block(i, *part) for i, part in enumerate(zip(domain.domains, domain.sizes, strict=True))])
    if hasattr(domain, "split"):
        middle = domain.middle(d) if hasattr(domain, "middle") else np.zeros(d)
        sign = np.repeat([1.0, -1.0], d)
        return Lift(domain.split(d), np.tile(np.arange(d), 2), sign, np.ones(2 * d, dtype=bool), middle)
    try:
        rows = domain.as_polyhedron(d)
    except TypeError:
        raise TypeError(repr(domain)) from None
    return Lift(rows, np.arange(d), np.ones(d), np.zeros(d, dtype=bool), np.zeros(d))


def _block(i: int, domain: Domain, size: int) -> Lift:
    try:
        return lift(domain, size)
    except TypeError as error:
        raise TypeError(f"{error} in block {i} of a Product") from None


def _joined(lifts: list[Lift]) -> Lift:
    starts = np.cumsum([0] + [part.middle.size for part in lifts[:-1]])
    return Lift(
        side_by_side([part.rows for part in lifts]),
        np.concatenate([part.place + start for part, start in zip(lifts, starts, strict=True)]),
        np.concatenate([part.sign for part in lifts]),
        np.concatenate([part.split for part in lifts]),
        np.concatenate([part.middle for part in lifts]),
    )
