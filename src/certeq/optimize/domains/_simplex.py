"""The simplex: long only, fully invested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ._backend import FloatArray, backend_of
from ._base import Domain
from ._checks import scalar_argument
from ._knapsack import budget_gap, budget_residual

if TYPE_CHECKING:
    from ._polyhedron import Polyhedron

__all__ = ["Simplex", "project_simplex"]


def project_simplex(x: Any, total: float = 1.0) -> Any:
    r"""Project onto the simplex of the given total.

    .. math:: \arg\min_v \|v - x\|^2 \ \text{s.t.}\ v \ge 0,\ \textstyle\sum_i v_i = s
              \;=\; (x - \tau)_+ \quad\text{with}\quad \textstyle\sum_i (x_i - \tau)_+ = s

    One sort finds how many entries stay positive, and with it tau. A single NumPy vector, the inner loop of a
    stochastic gradient method, takes a shorter road to the same numbers.
    """
    if type(x) is np.ndarray and x.ndim == 1:
        return _project_vector(x, total)
    xp = backend_of(x)
    values = xp.detach(x)
    # Only differences matter, and no entry more than `total` below the top can stay positive. Measured from the top
    # a common offset of 1e9 costs no digits.
    y = xp.clip(values - xp.max(values), -total, 0.0)
    falling = -xp.sort(-y)
    excess = xp.cumsum(falling) - total
    rank = xp.constant(np.arange(1.0, y.shape[-1] + 1.0), y)
    # The top entry always stays; the first comparison can fail by rounding only when total = 0.
    count = xp.clip(xp.sum(falling * rank > excess), 1.0, float(y.shape[-1]))
    tau = xp.take(excess, xp.integers(count) - 1) / count
    for _ in range(2):
        # Newton's method on the convex, piecewise linear sum ends at its root in one step from here; it removes what
        # a cumulative sum of a million terms has lost, in tau and in the choice of entries.
        v = xp.clip(y - tau, 0.0, np.inf)
        count = xp.clip(xp.sum(v > 0), 1.0, float(y.shape[-1]))
        tau = tau + (xp.sum(v) - total) / count
    v = xp.clip(y - tau, 0.0, np.inf)
    support = xp.floats(v > 0)
    count = xp.clip(xp.sum(support), 1.0, float(y.shape[-1]))
    # tau itself is a float and rounds; the weights absorb that last residual, which is relative to their own size.
    v = xp.clip(v + support * ((total - xp.sum(v)) / count), 0.0, np.inf)
    return xp.attach(v, x, lambda u: support * (u - xp.sum(support * u) / count))


def _project_vector(x: FloatArray, total: float) -> FloatArray:
    """Project one vector by Newton's method on the depth h below the top entry: sum (h - depth)_+ = total."""
    depth: FloatArray = x.max() - x
    kept = depth[depth < total]
    kept.sort()
    count = max(kept.size, 1)  # none is kept when total = 0
    for _ in range(100):
        # The sum is convex in h and linear between the depths, so Newton's method is exact after a few steps; the
        # limit is for two neighbouring counts that rounding cannot tell apart.
        h = (total + float(kept[:count].sum())) / count
        deeper = max(int(kept.searchsorted(h)), 1)
        if deeper == count:
            break
        count = deeper
    v: FloatArray = h - depth
    np.maximum(v, 0.0, out=v)
    residual = total - float(v.sum())
    if residual != 0.0:  # as above: the weights absorb the rounding of h
        v += (v > 0) * (residual / count)
        np.maximum(v, 0.0, out=v)
    return v


@dataclass(frozen=True, eq=False, repr=False)
class Simplex(Domain):
    """The simplex {theta: theta >= 0, sum theta = total}.

    Parameters
    ----------
    total
        The budget, at least 0 (0 is the single point theta = 0).

    Notes
    -----
    `diameter` is exact.

    Not for short positions, for which see `LongShort`, nor for caps on single weights: see `CappedSimplex`.

    Examples
    --------
    >>> from certeq import Simplex
    >>> Simplex().project([0.5, 1.0, -3.0])
    array([0.25, 0.75, 0.  ])
    >>> Simplex().support_gap([0.5, 0.5, 0.0], [1.0, 2.0, 3.0])
    0.5
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", scalar_argument(self.total, "total", minimum=0.0))

    def _project(self, x: Any) -> Any:
        return project_simplex(x, self.total)

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        yield -x, "theta[{k}] is negative"
        yield budget_residual(x, self.total)

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        v = np.zeros(g.size)
        v[np.argmin(g)] = self.total
        return v

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        return budget_gap(theta, self._minimize_linear(g), g, float(g.min()), self.total)

    def _start(self, d: int) -> FloatArray:
        return np.full(d, self.total / d)

    def _diameter(self, d: int) -> float:
        return float(self.total * np.sqrt(2.0)) if d > 1 else 0.0

    def _as_polyhedron(self, d: int) -> Polyhedron:
        return _polyhedron(self.total, d)


@lru_cache(maxsize=64)
def _polyhedron(total: float, d: int) -> Polyhedron:
    """Kept, since its checks take longer than a step of the exact solver; a polyhedron cannot be changed."""
    from ._polyhedron import Polyhedron

    return Polyhedron(np.zeros(d), np.inf, C=np.ones((1, d)), c=[total])
