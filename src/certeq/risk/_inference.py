"""What the error bars need beyond sums: a density at a kink, and signs that the bars cannot be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from certeq._table import Block, Table
from certeq.risk._long import LongSolved
from certeq.risk._sketch import Floats
from certeq.utilities import Exponential, Utility

_ENOUGH_IN_TAIL = 20.0
_DRAW = 1 << 18


def densities_at(sample: Table, points: list[float]) -> list[float]:
    """Density of the losses at points, from the spacing of order statistics around them (Bofinger's bandwidth)."""
    if not points:
        return []
    z, w = sample.reduce(_All()) if len(sample) <= _DRAW else _losses_of(sample.draw(_DRAW))
    order = np.argsort(z)
    z = z[order]
    share = np.full(z.size, 1.0 / z.size) if w is None else w[order] / w.sum()
    rank = np.cumsum(share) - 0.5 * share
    n = 1.0 / float((share * share).sum())
    return [_density_at(point, z, rank, n) for point in points]


def _density_at(point: float, z: Floats, rank: Floats, n: float) -> float:
    from scipy.special import ndtri

    p = float(np.clip(np.interp(point, z, rank), 0.5 / n, 1.0 - 0.5 / n))
    quantile = float(ndtri(p))
    bell = np.exp(-0.5 * quantile**2) / np.sqrt(2.0 * np.pi)
    width = (4.5 * bell**4 / (n * (2.0 * quantile**2 + 1.0) ** 2)) ** 0.2
    width = min(width, 0.5 * p, 0.5 * (1.0 - p))
    low, high = np.interp([p - width, p + width], rank, z)
    return float(2.0 * width / (high - low)) if high > low else np.inf


def _losses_of(block: Block) -> tuple[Floats, Floats | None]:
    """The losses of positive weight."""
    counted = block.positive()
    return counted.rows, counted.weights


@dataclass(frozen=True)
class _All:
    """The kernel that brings all losses of positive weight, and their weights."""

    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Floats, Floats | None]:
        return block.rows.copy(), None if block.weights is None else block.weights.copy()

    def join(self, parts: Sequence[tuple[Floats, Floats | None]]) -> tuple[Floats, Floats | None]:
        weights = [part[1] for part in parts if part[1] is not None]
        return np.concatenate([part[0] for part in parts]), np.concatenate(weights) if weights else None


def _too_few(size: int) -> str:
    if size == 1:
        return "One sample says nothing of its own error: the interval has no width and no meaning."
    return f"Only {size} samples: the normal interval is an asymptotic one."


def reliability(sample: Table, solved: LongSolved, utility: Utility, ess: float) -> tuple[str, ...]:
    """Plain sentences on why an interval from this sample would mislead; empty where nothing speaks against it."""
    reasons = []
    if len(sample) < 30:
        reasons.append(_too_few(len(sample)))
    elif ess < _ENOUGH_IN_TAIL:
        reasons.append(
            f"Only about {ess:.1f} samples carry the risk (effective sample size of the tilt); the interval is too "
            "narrow. More samples, or a milder utility, would help."
        )
    index = _tail_index(sample, solved, utility)
    if index is not None:
        reasons.append(
            f"The tail of u(X - t*) looks as heavy as a power law of index {index:.2g}, as far as these samples "
            "show; below 2 the variance is infinite, and near 2 the interval is too narrow. Consider a milder utility."
        )
    return tuple(reasons)


def _tail_index(sample: Table, solved: LongSolved, utility: Utility) -> float | None:
    """Hill's estimate over the sqrt(n) largest, where it does not clearly exceed 2; else None."""
    top = int(np.sqrt(len(sample)))
    if len(sample) < 100:
        return None
    # u is steepest at the largest losses; where it is not monotone the smallest count as well.
    ends = [_extremes(sample, top + 1, upper=True)]
    if not utility.is_monotone or utility.slope_range[0] > 0.0:
        ends.append(_extremes(sample, top + 1, upper=False))
    far = np.concatenate(ends)
    power, sizes = 1.0, np.zeros(1)
    if not np.isfinite(utility.lipschitz):
        low = solved.summary.low if np.isfinite(solved.summary.low) else float(far.min())
        with np.errstate(over="ignore"):
            values = np.asarray(utility.value((far - solved.center) - solved.s))
            base = float(utility.value((low - solved.center) - solved.s)) if utility.is_monotone else 0.0
        if isinstance(utility.shape, Exponential):  # u grows like u', which needs no shift to be a pure exponential
            values, base = np.asarray(utility.slope((far - solved.center) - solved.s)), 0.0
        sizes = np.sort(np.abs(values - base))[::-1][: top + 1]
        power = utility.growth + 1.0
    if sizes[-1] <= 0.0:
        # Few losses reach the bend of u, or u grows no faster than X: judge by the tail of X and the growth of u.
        sizes = np.sort(np.abs(far - float(np.median(sample.draw(1 << 12).rows))))[::-1][: top + 1] ** power
    if sizes[-1] <= 0.0 or not np.all(np.isfinite(sizes)):
        return None
    spread = float(np.mean(np.log(sizes[:-1] / sizes[-1])))
    index = 1.0 / spread if spread > 0 else np.inf
    return index if index <= 2.0 * (1.0 + 1.0 / np.sqrt(top)) else None


def _extremes(sample: Table, count: int, upper: bool) -> Floats:
    """The ``count`` largest (or smallest) losses of positive weight.

    A draw gives a threshold that a few times as many losses pass, so that no more than those are ever kept.
    """
    sign = 1.0 if upper else -1.0
    drawn = sign * sample.draw(1 << 15).positive().rows
    drawn = drawn[np.isfinite(drawn)]
    share = min(1.0, (2.0 * count + 8.0 * np.sqrt(count)) / len(sample) + 8.0 / max(drawn.size, 1))
    threshold = float(np.quantile(drawn, 1.0 - share)) if drawn.size else -np.inf
    while True:
        best, ties = sample.reduce(_Beyond(threshold, sign))
        if best.size < count and ties:
            best = np.append(best, np.full(min(ties, count - best.size), threshold))
        if best.size >= count or threshold == -np.inf:
            break
        threshold = -np.inf  # the draw misled: look at everything
    return sign * (np.partition(best, best.size - count)[best.size - count :] if best.size > count else best)


@dataclass(frozen=True)
class _Beyond:
    """The kernel that brings the losses, times a sign, above a threshold, and the number of those at it."""

    threshold: float
    sign: float
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> tuple[Floats, int]:
        y = self.sign * block.rows
        return y[(y > self.threshold) & (y < np.inf)], int(np.count_nonzero(y == self.threshold))

    def join(self, parts: Sequence[tuple[Floats, int]]) -> tuple[Floats, int]:
        return np.concatenate([part[0] for part in parts]), sum(part[1] for part in parts)
