"""What confidence intervals need beyond sums: a density at a kink, and signs that they cannot be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from certeq._table import Block, Table
from certeq.risk._dependence import Memory, lifetime_of_overlap
from certeq.risk._sketch import Floats
from certeq.utilities import Exponential, Power, Quadratic, Risk, Utility
from certeq.utilities.forms import form

_FEW = 30  # samples
ENOUGH = 5.0  # losses that carry the risk, where slopes are bounded: n * alpha of a CVaR
_ENOUGH_UNBOUNDED = 6.0  # the same, beyond what equal weights make of it, where they are not
_ENOUGH_DF = 3.6  # degrees of freedom that the kurtosis leaves of the variance of influence values
_ENOUGH_FOR_TAIL = 1000  # samples: among fewer, the largest of lognormal losses look like a power law of index 2
_CLEARLY = 2.0  # standard errors that a tail index must lie below 2
ON_ONE_VALUE_SHARE = 0.5  # of the tilt on the losses at t*, beyond which they are taken for the tail
_NEAR = 2.0  # standard errors of the mean slope within which a threshold may be the true one
_MUCH_LARGER = 1.5  # times as large influence values as a lower threshold makes them by itself
_HALVINGS = 30  # to a threshold that may well be the true one
_WHOLE = 1 << 16  # losses up to which all are put in order
_DRAW, _FINE_DRAW = 1 << 15, 1 << 18


def normal_quantile(p: float) -> float:
    """The quantile of the standard normal distribution."""
    from scipy.special import ndtri

    return float(ndtri(p))


def power_sums(psi: Floats, w: Floats | None) -> tuple[float, float, float]:
    """Sums of squares, cubes and fourth powers of influence values times their weights."""
    if w is not None:
        psi *= w
    square = psi * psi
    return float(square.sum()), float((square * psi).sum()), float((square * square).sum())


def standardized(square: float, cube: float, fourth: float, size: int, mass: float) -> tuple[float, float, float]:
    """Variance, skewness and kurtosis from such sums."""
    if not square > 0.0:
        return 0.0, 0.0, 0.0
    return size * square / mass**2, float(np.sqrt(size)) * cube / square**1.5, size * fourth / square**2


class Order:
    """The losses of positive weight in rising order; of a long sample, those of a random draw.

    A ``fine`` draw is long enough for a density, others for the median and the ends.
    """

    def __init__(self, sample: Table, fine: bool) -> None:
        self.sample, self.complete = sample, len(sample) <= _WHOLE
        part = sample.reduce(_All()) if self.complete else sample.draw(_FINE_DRAW if fine else _DRAW).positive()
        z, w = part.rows, part.weights
        self.share: Floats | None = None  # of the weights, where they differ
        if w is None:
            self.z = np.sort(z)
            share = np.full(z.size, 1.0 / z.size)
        else:
            order = np.argsort(z)
            self.z, share = z[order], w[order] / w.sum()
            self.share = share
        self.shares = share
        self.rank = np.cumsum(share) - 0.5 * share
        self.effective = 1.0 / float((share * share).sum())

    @property
    def median(self) -> float:
        """A loss in the middle, whatever the weights."""
        return float(self.z[self.z.size // 2])

    @property
    def is_discrete(self) -> bool:
        """Whether losses repeat each other: at most half of them are distinct."""
        some = self.z[:: max(1, self.z.size >> 12)]
        return bool(2 * (1 + np.count_nonzero(np.diff(some))) <= some.size)

    @property
    def typical(self) -> tuple[float, float]:
        """Mean of the losses less the median, and of their distance from it."""
        away = self.z - self.median
        return float(self.shares @ away), float(self.shares @ np.abs(away))

    def gaps_at(self, point: float, tie: bool) -> tuple[float, float]:
        """How far the next losses lie below and above a point, or with ``tie`` the loss at it; 0 if there are none."""
        z = self.z
        first = last = int(np.searchsorted(z, point))
        if tie:  # the point was rounded
            near = min((i for i in (first - 1, first) if 0 <= i < z.size), key=lambda i: abs(z[i] - point))
            point = float(z[near])
            first, last = int(np.searchsorted(z, point)), int(np.searchsorted(z, point, side="right"))
        return point - float(z[first - 1]) if first > 0 else 0.0, float(z[last]) - point if last < z.size else 0.0

    def density_at(self, point: float) -> float:
        """Density of the losses, from the spacing of order statistics around the point (Bofinger's bandwidth)."""
        z, rank, n = self.z, self.rank, self.effective
        p = float(np.clip(np.interp(point, z, rank), 0.5 / n, 1.0 - 0.5 / n))
        quantile = normal_quantile(p)
        bell = np.exp(-0.5 * quantile**2) / np.sqrt(2.0 * np.pi)
        width = (4.5 * bell**4 / (n * (2.0 * quantile**2 + 1.0) ** 2)) ** 0.2
        width = min(width, 0.5 * p, 0.5 * (1.0 - p))
        low, high = np.interp([p - width, p + width], rank, z)
        return float(2.0 * width / (high - low)) if high > low else np.inf

    def extremes(self, count: int, upper: bool) -> Floats:
        """The ``count`` largest (or smallest) losses; of a long sample by a pass that keeps no more than a few."""
        if self.complete:
            return self.z[-count:] if upper else self.z[:count]
        sign = 1.0 if upper else -1.0
        drawn = sign * self.z[np.isfinite(self.z)]
        share = min(1.0, (2.0 * count + 8.0 * np.sqrt(count)) / len(self.sample) + 8.0 / max(drawn.size, 1))
        threshold = float(np.quantile(drawn, 1.0 - share)) if drawn.size else -np.inf
        while True:
            best, ties = self.sample.reduce(_Beyond(threshold, sign))
            if best.size < count and ties:
                best = np.append(best, np.full(min(ties, count - best.size), threshold))
            if best.size >= count or threshold == -np.inf:
                break
            threshold = -np.inf  # the draw misled: look at everything
        return sign * (np.partition(best, best.size - count)[best.size - count :] if best.size > count else best)


@dataclass(frozen=True)
class _All:
    """The kernel that brings all losses of positive weight, and their weights."""

    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> Block:
        return Block(block.first, block.rows.copy(), None if block.weights is None else block.weights.copy())

    def join(self, parts: Sequence[Block]) -> Block:
        weights = [part.weights for part in parts if part.weights is not None]
        rows = np.concatenate([part.rows for part in parts])
        return Block(parts[0].first, rows, np.concatenate(weights) if weights else None)


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


class ErrorEvidence(NamedTuple):
    """What an estimate knows of its own error, for `reliability` to judge."""

    ess: float
    carriers: float  # losses that carry the risk, beyond what equal weights make of it
    kurtosis: float  # of the influence values
    nearly_flat: float  # distance of the mean slope from 1 on a stretch beside t*, in standard errors
    effective: float  # number of equally weighted losses that are as good as these


def much_larger(slope_error: float) -> float:
    """The variance of influence values at the lower threshold, relative to that at t*, that makes the latter doubtful.

    Of an exponential tail it grows with the tail's mass, that is by two standard errors of the mean slope.
    """
    return _MUCH_LARGER**2 * (1.0 + _NEAR * slope_error)


def lower_threshold(z: Floats, share: Floats, effective: float, utility: Utility, threshold: float) -> float:
    """The least threshold that may well be the true one: the mean slope there is 1, up to two standard errors.

    Of losses in rising order, their shares in the sample, and the threshold that they have. Where u has kinks, the
    answer has a loss on the first of them.
    """
    shape = form(utility)

    def is_plausible(t: float) -> bool:
        slope = shape.slopes(z - t, 0.0)[0]
        mean = float(share @ slope)
        error = np.sqrt(float(share @ (slope - mean) ** 2) / effective)
        return bool(mean <= 1.0 + _NEAR * error)

    if not shape.kinks:
        below, above = float(z[0]), threshold
        for _ in range(_HALVINGS):
            middle = 0.5 * (below + above)
            below, above = (below, middle) if is_plausible(middle) else (middle, above)
        return above
    kink = shape.kinks[0].at
    first, last = 0, z.size - 1
    while first < last:  # the mean slope falls with t
        middle_loss = (first + last) // 2
        is_low = is_plausible(float(z[middle_loss]) - kink)
        first, last = (first, middle_loss) if is_low else (middle_loss + 1, last)
    return float(z[last]) - kink


def assumptions_of(utility: Utility, asked: Risk | None = None) -> str:
    """Return the moments that the interval needs for a risk, or a difference, with the moments of a utility."""
    if np.isfinite(utility.lipschitz):
        return ""
    needs = f"E {_moment_needed(utility)} to be finite"
    helps = "" if utility.is_monotone else " A utility of bounded slope needs two moments only."
    if utility.is_monotone and utility is asked:
        helps = " With known bounds of X, upper_bound(x, utility, support=(a, b)) needs no moments."
    return f"The interval needs {needs}, which no sample can show: where it is not, it is too narrow.{helps}"


def _moment_needed(utility: Utility) -> str:
    """The moment that makes the variance of u(X - t*) finite."""
    power = 0.0
    rate = 0.0
    for atom in form(utility).atoms:
        if np.isfinite(atom.base.lipschitz):
            continue
        match atom.base.shape or atom.base.curve:
            case Exponential(own):
                rate = max(rate, own / atom.scale)
            case Quadratic():
                power = max(power, 2.0)
            case Power(degree):
                power = max(power, degree + 1.0)
            case _:
                return "u(X - t*)**2"
    if rate > 0.0:
        return "exp(X)" if rate == 0.5 else f"exp({2.0 * rate:g} X)"
    return f"X**{2.0 * power:g}" if not utility.is_monotone else f"max(X, 0)**{2.0 * power:g}"


def too_few(size: int, effective: float, ess: float, carriers: float, bounded: bool) -> list[str]:
    """What is said where there are too few samples, also by their weights, or too few of them carry the risk.

    A utility of ``bounded`` slope can do with fewer carriers.
    """
    if size == 1:
        return ["One sample says nothing of its own error: the interval has no width and no meaning."]
    if size < _FEW:
        return [f"Only {size} samples: the interval is an asymptotic one."]
    if effective < (1.0 - 1e-9) * _FEW:
        return [
            f"The weights leave {size} samples as good as {effective:.3g} of equal weight: the interval is an "
            "asymptotic one."
        ]
    if ess >= (1.0 - 1e-9) * ENOUGH if bounded else carriers >= _ENOUGH_UNBOUNDED:
        return []
    return [
        f"Only about {ess:.1f} samples carry the risk (effective sample size of the tilt); the interval is too narrow. "
        "More samples, or a milder utility, would help."
    ]


NO_WIDTH = (
    "All losses that carry the risk are equal: the sample says nothing of its own error, and the interval has no width "
    "and no meaning."
)
ON_ONE_VALUE = (
    "Most of the tail lies on one value of the losses: fewer than one sample is in the tail, or losses are capped or "
    "take few values. The interval is that of the least threshold within two standard errors of t*, and rough."
)
OUT_OF_ORDER = (
    "The labels of x are whole numbers that go up and down; dependence takes the losses in the order in which they "
    "stand. If the labels tell the order of time, pass x.sort_index()."
)


def memory_warnings(dependence: int | str | None, found: Memory, size: float) -> list[str]:
    """What is said of a series of (effectively) that size, where its memory is left out of account or too long."""
    spells = "by autocorrelation or by spells of high and low volatility that last about"
    if dependence is None:
        if not found.is_left_out(0.0):
            return []
        return [
            f"The losses depend on those before them, {spells} {found.lifetime:.2g} periods; the interval takes them "
            'for independent and is too narrow. If their order is that of time, pass dependence="auto".'
        ]
    reasons = []
    if isinstance(dependence, int):
        overlap = lifetime_of_overlap(dependence)
        if found.is_left_out(overlap):
            reasons.append(
                f"The losses depend on those before them, {spells} {found.lifetime:.2g} periods, which is longer than "
                f"an overlap of {dependence} explains; the interval is too narrow. If their order is that of time, "
                'pass dependence="auto".'
            )
        found = Memory(overlap, overlap, 1.0)
    if found.is_too_long(size):
        reasons.append(
            f"The losses depend on those before them over {found.lifetime:.2g} periods or more, and {size:.4g} periods "
            "are too few for that, or they have a trend; the interval is likely to be too narrow."
        )
    return reasons


def check_order(x: Any, dependence: int | str | None) -> list[str]:
    """Refuse dates that go back and forth where order matters; a warning for whole numbers that do.

    A series whose labels fall is one read backwards, with the same memory.
    """
    labels: Any = getattr(x, "index", None)
    if dependence is None or not hasattr(labels, "is_monotonic_increasing") or not hasattr(labels, "inferred_type"):
        return []
    if labels.is_monotonic_increasing or labels.is_monotonic_decreasing:
        return []
    if labels.inferred_type in ("datetime64", "date", "datetime", "period"):
        raise ValueError(
            f"x must be in the order of its dates for dependence={dependence!r}; found dates that go back and forth. "
            "Pass x.sort_index()."
        )
    return [OUT_OF_ORDER] if labels.inferred_type == "integer" and labels.is_unique else []


def reliability(order: Order, utility: Utility, evidence: ErrorEvidence, asked: Risk) -> tuple[str, ...]:
    """Return sentences on why an interval for the risk asked for would mislead; empty if nothing speaks against it."""
    bounded = bool(np.isfinite(utility.lipschitz))
    size, discrete = len(order.sample), order.is_discrete
    reasons = too_few(size, evidence.effective, evidence.ess, evidence.carriers, bounded)
    if not bounded and not discrete and 2.0 * size < _ENOUGH_DF * (evidence.kurtosis - 1.0):
        bound = ", or upper_bound with a known support" if utility.is_monotone and utility is asked else ""
        reasons.append(
            "A few samples far out in the tail of u(X - t*) make up most of its variance; the interval is too narrow. "
            f"Consider a milder utility{bound}."
        )
    if bounded and (index := _tail_index(order, utility)) is not None:
        reasons.append(
            f"The tail of u(X - t*) looks as heavy as a power law of index {index:.2g}, as far as these samples "
            "show; below 2 the variance is infinite, and the interval too narrow. Consider a milder utility."
        )
    if discrete and evidence.nearly_flat < 2.0:
        reasons.append(
            "The losses take few values, and the threshold t* lies within two standard errors of a stretch where every "
            "threshold is as good: the interval treats it as unique, and may be too narrow."
        )
    return tuple(reasons)


def _tail_index(order: Order, utility: Utility) -> float | None:
    """Hill's estimate over the sqrt(n) losses farthest out, where it is clearly below 2; else None.

    For slopes that are bounded: u(X - t*) has a variance where X has. Of other utilities no more can be said than by
    the kurtosis of influence values: over the range that a sample covers, the fourth power of normal losses has as
    heavy a tail as any power law.
    """
    size = len(order.sample)
    top = int(np.sqrt(size))
    if size < _ENOUGH_FOR_TAIL:
        return None
    ends = [order.extremes(top + 1, upper=True)]
    if utility.slope_range[0] != 0.0:  # gains count as well
        ends.append(order.extremes(top + 1, upper=False))
    sizes = np.sort(np.abs(np.concatenate(ends) - order.median))[::-1][: top + 1]
    if sizes[-1] <= 0.0 or not np.all(np.isfinite(sizes)):
        return None
    spread = float(np.mean(np.log(sizes[:-1] / sizes[-1])))
    index = 1.0 / spread if spread > 0 else np.inf
    return index if index * (1.0 + _CLEARLY / np.sqrt(top)) < 2.0 else None
