"""What the error bars need beyond sums: a density at a kink, and signs that the bars cannot be trusted."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from certeq.risk._long import LongSolved
from certeq.risk._sample import Floats, Sample
from certeq.utilities import Exponential, Utility

_ENOUGH_IN_TAIL = 20.0
_DRAW = 1 << 18


def densities_at(sample: Sample, points: list[float]) -> list[float]:
    """Density of the losses at points, from the spacing of order statistics around them (Bofinger's bandwidth)."""
    if not points:
        return []
    z, w = sample.draw(_DRAW) if sample.size > _DRAW else _all(sample)
    if w is not None:
        z, w = z[w > 0], w[w > 0]
    order = np.argsort(z)
    z = z[order]
    share = np.full(z.size, 1.0 / z.size) if w is None else w[order] / w.sum()
    rank = np.cumsum(share) - 0.5 * share
    n = 1.0 / float((share * share).sum())
    return [_density_at(point, z, rank, n) for point in points]


def _density_at(point: float, z: Floats, rank: Floats, n: float) -> float:
    p = float(np.clip(np.interp(point, z, rank), 0.5 / n, 1.0 - 0.5 / n))
    quantile = float(ndtri(p))
    bell = np.exp(-0.5 * quantile**2) / np.sqrt(2.0 * np.pi)
    width = (4.5 * bell**4 / (n * (2.0 * quantile**2 + 1.0) ** 2)) ** 0.2
    width = min(width, 0.5 * p, 0.5 * (1.0 - p))
    low, high = np.interp([p - width, p + width], rank, z)
    return float(2.0 * width / (high - low)) if high > low else np.inf


def _all(sample: Sample) -> tuple[Floats, Floats | None]:
    parts = sample.map(lambda z, w: (z.copy(), None if w is None else w.copy()))
    z = np.concatenate([part[0] for part in parts])
    return z, np.concatenate([part[1] for part in parts]) if sample.weighted else None


def _too_few(size: int) -> str:
    if size == 1:
        return "One sample says nothing of its own error: the interval has no width and no meaning."
    return f"Only {size} samples: the normal interval is an asymptotic one."


def reliability(sample: Sample, solved: LongSolved, utility: Utility, ess: float) -> tuple[str, ...]:
    """Plain sentences on why an interval from this sample would mislead; empty where nothing speaks against it."""
    reasons = []
    if sample.size < 30:
        reasons.append(_too_few(sample.size))
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


def _tail_index(sample: Sample, solved: LongSolved, utility: Utility) -> float | None:
    """Hill's estimate over the sqrt(n) largest, where it does not clearly exceed 2; else None."""
    top = int(np.sqrt(sample.size))
    if sample.size < 100:
        return None
    # u is steepest at the largest losses; where it is not monotone the smallest count as well.
    ends = [_extremes(sample, top + 1, upper=True)]
    if not utility.is_monotone or utility.slope_range[0] > 0.0:
        ends.append(_extremes(sample, top + 1, upper=False))
    far = np.concatenate(ends)
    power, sizes = 1.0, np.zeros(1)
    if not np.isfinite(utility.lipschitz):
        low = solved.extent.low if np.isfinite(solved.extent.low) else float(far.min())
        with np.errstate(over="ignore"):
            values = np.asarray(utility.value((far - solved.center) - solved.s))
            base = float(utility.value((low - solved.center) - solved.s)) if utility.is_monotone else 0.0
        if isinstance(utility.shape, Exponential):  # u grows like u', which needs no shift to be a pure exponential
            values, base = np.asarray(utility.slope((far - solved.center) - solved.s)), 0.0
        sizes = np.sort(np.abs(values - base))[::-1][: top + 1]
        power = utility.growth + 1.0
    if sizes[-1] <= 0.0:
        # Few losses reach the bend of u, or u grows no faster than X: judge by the tail of X and the growth of u.
        sizes = np.sort(np.abs(far - float(np.median(sample.draw(1 << 12)[0]))))[::-1][: top + 1] ** power
    if sizes[-1] <= 0.0 or not np.all(np.isfinite(sizes)):
        return None
    spread = float(np.mean(np.log(sizes[:-1] / sizes[-1])))
    index = 1.0 / spread if spread > 0 else np.inf
    return index if index <= 2.0 * (1.0 + 1.0 / np.sqrt(top)) else None


def _extremes(sample: Sample, count: int, upper: bool) -> Floats:
    """The ``count`` largest (or smallest) losses of positive weight.

    A draw gives a threshold that a few times as many losses pass, so that no more than those are ever kept.
    """
    sign = 1.0 if upper else -1.0
    drawn, w = sample.draw(1 << 15)
    drawn = sign * (drawn if w is None else drawn[w > 0])
    drawn = drawn[np.isfinite(drawn)]
    share = min(1.0, (2.0 * count + 8.0 * np.sqrt(count)) / sample.size + 8.0 / max(drawn.size, 1))
    threshold = float(np.quantile(drawn, 1.0 - share)) if drawn.size else -np.inf
    while True:

        def kernel(z: Floats, w: Floats | None, least: float = threshold) -> tuple[Floats, int]:
            y = sign * z
            return y[(y > least) & (y < np.inf)], int(np.count_nonzero(y == least))

        parts = sample.map(kernel)
        best = np.concatenate([part[0] for part in parts])
        ties = sum(part[1] for part in parts)
        if best.size < count and ties:
            best = np.append(best, np.full(min(ties, count - best.size), threshold))
        if best.size >= count or threshold == -np.inf:
            break
        threshold = -np.inf  # the draw misled: look at everything
    return sign * (np.partition(best, best.size - count)[best.size - count :] if best.size > count else best)
