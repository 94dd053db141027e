"""The tilt of one batch after another: what OCE-SG needs at every iteration, and nothing else.

It is returned as weights q and their sum, so that q/sum is the tilt: the division is left to the gradient, which is
shorter. On the same samples as last time (a full batch) the search starts from where it was; a short step then costs
one evaluation of the utility.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from certeq.optimize.losses._base import Floats, as_solvers_read, solve_losses
from certeq.risk.solvers import closed_density, rank_of, solve_near
from certeq.utilities import Exponential, Pieces, Quadratic, Risk, Utility


class WarmTilt:
    r"""The exact tilt of batches; what is remembered of the last one saves time and changes nothing beyond rounding.

    Smooth slopes: Newton's method from the last threshold. On the same samples it is first moved along its derivative,
    :math:`dt^* = \sum_i c_i\,dz_i / \sum_i c_i` with c the curvatures u'', and by what this missed last time.

    Two linear pieces (CVaR): the quantile by selection among the losses above a bound from last time. Whatever the
    bound, the quantile is exact; which zeros are added to the gradient depends on it, and so its last bits. With
    ``sparse`` a q that is 0 outside the losses looked at is returned for these ``rows`` alone: the gradient of a linear
    loss then needs no other row.

    Everything else, and where the start is no good, is solved from scratch.
    """

    STATE = ("t", "curvature_sum", "level", "miss", "trend", "curvature")

    def __init__(self, utility: Risk, weights: Floats | None = None, sparse: bool = False) -> None:
        shape: Any = utility.shape if isinstance(utility, Utility) else None
        self.form: Any = as_solvers_read(utility)  # another risk, which is solved from scratch, as it is
        self.weights = weights  # of the full sample, summing to 1; None for equal weights
        self.counted = None if weights is None or weights.all() else weights > 0.0
        self.closed = isinstance(shape, Exponential | Quadratic)
        self.smooth = isinstance(utility, Utility) and shape is None and not utility.kinks and utility.kappa > 0.0
        self.pieces: Any = shape if isinstance(shape, Pieces) and weights is None and shape.low < shape.high else None
        self.sparse = sparse and self.pieces is not None and self.pieces.low == 0.0
        self.rows: Any = None  # the samples that q belongs to, where it is 0 for all others; None for all of them
        self.t = -math.inf if self.pieces is not None else math.nan  # the last threshold, or a bound below it
        self.curvature: Floats = np.empty(0)
        self.curvature_sum = self.level = 0.0  # sum of the curvatures, and of their products with the losses
        self.miss = self.trend = 0.0  # by how much the prediction was off, and how that changes

    def weigh(self, z: Floats, full: bool, weights: Floats | None = None) -> tuple[Floats, float]:
        """Return q and its sum, NaN where z is not finite.

        ``full`` says that z are losses of the full sample, so that what is learned of them is of use again; ``weights``
        are those of a batch. The caller silences floating-point warnings, once for all calls.
        """
        z = np.ascontiguousarray(z)
        if weights is None:
            weights = self.weights
        if self.counted is not None:  # a loss that cannot happen may lie anywhere, and must not overflow anything
            z = np.where(self.counted, z, z[self.counted].min())
        self.rows = None
        if self.closed:
            return closed_density(z, weights, self.form)
        found = None
        if self.smooth:
            found = self._near(z, full, weights)
        elif self.pieces is not None and full:
            found = self._tail(z)
        elif self.pieces is not None and weights is not None:
            found = self._weighted_tail(z, weights)
        return self._from_scratch(z, weights) if found is None else found

    def _near(self, z: Floats, full: bool, weights: Floats | None) -> tuple[Floats, float] | None:
        known = full and self.curvature_sum > 0.0
        straight = t = self.t
        if known:
            straight += (float(np.dot(self.curvature, z)) - self.level) / self.curvature_sum
            t = straight + self.miss + self.trend
        elif self.curvature.size != z.size:
            self.curvature = np.zeros(z.size)
        found = solve_near(z, weights, self.form, t, self.curvature, self.curvature_sum if known else 0.0)
        if found is None:
            return None
        self.t, level = found.threshold, float(np.dot(found.curvature, z))
        if not math.isfinite(level):  # an infinite loss may have a slope all the same
            return z, math.nan
        if not full:
            self.curvature_sum = 0.0
            return found.density, found.total
        miss = found.threshold - straight if known else 0.0
        # With curvatures that grow old the miss grows evenly; new ones break the pattern.
        self.trend = miss - self.miss if known and found.curvature is self.curvature else 0.0
        self.miss, self.level, self.curvature, self.curvature_sum = miss, level, found.curvature, found.curvature_sum
        return found.density, found.total

    def _tail(self, z: Floats) -> tuple[Floats, float]:
        """1 above the quantile, a shared fraction at it, so that the tail has its exact mass."""
        pieces, m = self.pieces, z.size
        if not np.isfinite(z).all():
            return z, math.nan
        above = m - 1 - rank_of(m, pieces.tail)
        rows: Any = (z >= self.t).nonzero()[0]
        if not above < rows.size < 0.5 * m:
            rows = None
        upper = z if rows is None else z[rows]
        rank = upper.size - 1 - above
        if rows is None or rows.size > above + above // 2 + 16:
            # Next time a quarter more than the tail is looked at: enough for some steps, few enough to be quick.
            bound = max(rank - above // 4 - 8, 0)
            ranked = np.partition(upper, [bound, rank])
            self.t = float(ranked[bound])
        else:
            ranked = np.partition(upper, rank)
        whole, tie = upper > ranked[rank], upper == ranked[rank]
        tail = pieces.tail * m
        share = min(max((tail - np.count_nonzero(whole)) / np.count_nonzero(tie), 0.0), 1.0)
        q = np.add(whole, share * tie, dtype=np.float64)
        if self.sparse:
            self.rows = rows
        elif rows is not None:
            part, q = q, np.zeros(m)
            q[rows] = part
        if pieces.low == 0.0:
            return q, tail
        q *= pieces.high - pieces.low
        q += pieces.low
        return q, float(m)

    def _weighted_tail(self, z: Floats, weights: Floats) -> tuple[Floats, float]:
        """The tail of a batch with weights, which is short enough to be sorted."""
        pieces, order = self.pieces, z.argsort()[::-1]
        if not math.isfinite(np.add.reduce(z)):
            return z, math.nan
        mass = weights[order].cumsum()
        rank = min(int(mass.searchsorted(pieces.tail)), z.size - 1)
        q, last = np.zeros(z.size), order[rank]
        q[order[:rank]] = weights[order[:rank]]
        if (rank > 0 and z[order[rank - 1]] == z[last]) or (rank + 1 < z.size and z[order[rank + 1]] == z[last]):
            tie = z == z[last]
            q[tie] = 0.0
            q[tie] = weights[tie] * ((pieces.tail - np.add.reduce(q)) / np.add.reduce(weights[tie]))
        else:
            q[last] = pieces.tail - (mass[rank - 1] if rank else 0.0)
        if pieces.low == 0.0:
            return q, pieces.tail
        return (pieces.high - pieces.low) * q + pieces.low * weights, 1.0

    def _from_scratch(self, z: Floats, weights: Floats | None) -> tuple[Floats, float]:
        self.curvature_sum = self.miss = self.trend = 0.0
        value, threshold, q = solve_losses(z, weights, self.form)
        if self.pieces is None and isinstance(threshold, float):
            self.t = threshold
        return q, math.nan if math.isnan(value) else 1.0
