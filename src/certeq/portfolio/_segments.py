"""Absolute values without loss: a weight as the sum of segments between the points where a cost has a kink."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Segments:
    r"""Variables v with :math:`w_j = \sum_{k \in j} v_k`, one per stretch of w_j between two kinks.

    A convex cost :math:`\varphi(w_j)` that is linear between the kinks costs the same as the cheapest way to make up
    w_j of its segments,

    .. math:: \varphi(w_j) = c_0 + \min\Big\{\sum_k s_k v_k : \sum_k v_k = w_j,\ l_k \le v_k \le h_k\Big\},

    because its slopes s_k rise from one segment to the next. So minimising over v, or bounding the cost by a row,
    is exact and needs neither new rows nor columns for the costs themselves.
    """

    asset: NDArray[np.intp]
    lower: Floats
    upper: Floats
    middle: Floats  # a point of w_j strictly inside the segment: tells the slope of any cost there
    first: NDArray[np.bool_]  # the lowest segment holds w_j itself, the others what is above their kink
    count: int

    def fold(self, v: Floats) -> Floats:
        """The weights that the segments make up."""
        if len(v) == self.count:
            return v
        return np.bincount(self.asset, weights=v, minlength=self.count).astype(np.float64)

    def unfold(self, w: Floats) -> Floats:
        """The cheapest segments for given weights within the bounds: each is full before the next is begun."""
        if len(self.asset) == self.count:
            return w
        v = np.empty(len(self.asset))
        left = w.astype(float)
        for k, j in enumerate(self.asset):
            v[k] = min(max(left[j], self.lower[k]), self.upper[k])
            left[j] -= v[k]
        return v

    def row(self, by_asset: Floats) -> Floats:
        """A linear function of the weights as one of the segments."""
        return by_asset[self.asset]

    def distance(self, scale: Floats, kink: Floats) -> tuple[Floats, float]:
        r"""Slopes and constant of :math:`\sum_j \text{scale}_j |w_j - \text{kink}_j|`."""
        rise = scale[self.asset] * np.sign(self.middle - kink[self.asset])
        return rise, float(np.sum(np.where(self.first, -rise * kink[self.asset], 0.0)))

    def part(self, sign: float) -> Floats:
        r"""Slopes of :math:`\sum_j (\text{sign} \cdot w_j)^+`: the long (1) or the short (-1) side."""
        return np.where(np.sign(self.middle) == sign, sign, 0.0)


def split(lower: Floats, upper: Floats, kinks: list[Floats]) -> Segments:
    """Cut each [lower_j, upper_j] at the kinks inside it; NaN stands for no kink.

    >>> import numpy as np
    >>> cut = split(np.array([-1.0, 0.0]), np.array([1.0, 1.0]), [np.zeros(2)])
    >>> cut.asset, cut.lower, cut.upper
    (array([0, 0, 1]), array([-1.,  0.,  0.]), array([0., 1., 1.]))
    """
    asset: list[int] = []
    ends: list[tuple[float, float]] = []
    table = np.array(kinks).reshape(len(kinks), len(lower))
    for j in range(len(lower)):
        inside = np.unique(table[:, j][(table[:, j] > lower[j]) & (table[:, j] < upper[j])])
        points = [float(lower[j]), *inside.tolist(), float(upper[j])]
        for low, high in itertools.pairwise(points):
            asset.append(j)
            ends.append((low, high))
    place = np.array(asset, dtype=np.intp)
    low, high = np.array(ends, dtype=float).reshape(-1, 2).T
    first = np.append(True, np.diff(place) > 0) if len(place) else np.zeros(0, dtype=bool)
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isinf(low), np.where(np.isinf(high), 0.0, high - 1.0), low + 1.0)
        middle = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), middle)
    return Segments(place, np.where(first, low, 0.0), np.where(first, high, high - low), middle, first, len(lower))
