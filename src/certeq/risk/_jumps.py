"""The shortfall of a long sample whose mean slope jumps, or has no known derivative, in about five passes.

Each loss makes the mean slope jump at its breakpoints z - kink. One pass lists the breakpoints of a narrow window
around the root; what is left of the mean slope once their jumps are taken out is smooth, a straight line predicts it,
and so a pass or two more land on the very breakpoint, or on the point between two, where the mean slope passes 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from certeq.risk._rows import near_kink, slope_and_bend
from certeq.risk._sample import BLOCK, Combine, Floats, Kernel, Sample, add_columns, shifted, weighted_sum
from certeq.utilities import Utility

_EPS = float(np.finfo(np.float64).eps)
_ONE = 1.0 + 4.0 * _EPS  # a mean slope up to here is 1 in sums that are rounded
_PER_BLOCK = BLOCK // 4  # breakpoints a single block may bring back
_MOST_PASSES = 2200  # bisection of the widest float interval ends well before


@dataclass
class Probe:
    """Mean left and right slope, curvature and value at a trial s; means over the sample."""

    s: float
    left: float
    right: float
    bend: float
    value: float

    @property
    def residual(self) -> float:
        """How far the mean slope is from 1."""
        return self.left - 1.0

    @property
    def settles(self) -> bool:
        """Whether the mean slope passes 1 here; where it is 1 on a whole stretch, the left end of that is wanted."""
        return self.left <= _ONE and (self.right > _ONE or (self.bend > 0.0 and self.residual >= 1.0 - _ONE))


def probing(utility: Utility, centre: float, points: tuple[float, ...]) -> Kernel:
    """Four sums per point: what `Probe` holds, times the weight of the sample."""

    def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
        sums: list[float] = []
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for s in points:
                x = shifted(z, centre, s)
                sums += [weighted_sum(part, w) for part in near_kink(x, utility)]
                sums.append(weighted_sum(slope_and_bend(utility, x)[1], w) if utility.has_curvature else 0.0)
                sums.append(weighted_sum(np.asarray(utility.value(x)), w))
        return tuple(sums)

    return kernel


@dataclass
class Breakpoints:
    """Distinct breakpoints of a window, rising, and by how much the mean slope falls at each."""

    points: Floats
    falls: Floats
    ahead: Floats = field(init=False)  # ahead[k]: the sum of falls from k on

    def __post_init__(self) -> None:
        self.ahead = np.concatenate([np.cumsum(self.falls[::-1])[::-1], [0.0]])

    def still_to_fall(self, s: float) -> float:
        """The falls at breakpoints beyond s."""
        return float(self.ahead[np.searchsorted(self.points, s, side="right")])

    def root_of(self, level: float, rate: float, at: float) -> float:
        """The least s with  level - rate * (s - at) + still_to_fall(s) <= 1."""
        with np.errstate(over="ignore", invalid="ignore"):  # an endless rate, from losses whose slopes overflow
            smooth = level - rate * (self.points - at)
            k = int(np.searchsorted(-(smooth + self.ahead[1:]), -_ONE))  # the first breakpoint at which that holds
        if k < len(self.points) and smooth[k] + self.ahead[k] > _ONE:
            return float(self.points[k])
        return at + (level + float(self.ahead[k]) - 1.0) / rate if rate > 0.0 else math.nan


class JumpSearch:
    """Where the mean slope of a sample passes 1, starting from a first probe and a rough rate of its fall."""

    def __init__(self, sample: Sample, utility: Utility, centre: float, mass: float) -> None:
        self.sample, self.utility, self.centre, self.mass = sample, utility, centre, mass
        self.passes = 0

    def run(self, low: float, high: float, first: Probe, rate: float) -> tuple[float, float]:
        """s in [low, high], and s + E u there."""
        self.low, self.high = low, high
        if first.settles:
            return first.s, first.s + first.value
        self._bound(first)
        found = self._window(first, rate)
        if isinstance(found, Probe):
            return found.s, found.s + found.value
        return self._refine(*found)

    def probe(self, *points: float) -> list[Probe]:
        """One pass, whatever the number of points."""
        self.passes += 1
        means = (self.sample.total(probing(self.utility, self.centre, points)) / self.mass).reshape(-1, 4).tolist()
        return [Probe(s, *found) for s, found in zip(points, means, strict=True)]

    def _bound(self, probe: Probe) -> None:
        if probe.left > _ONE:
            self.low = max(self.low, probe.s)
        else:
            self.high = min(self.high, probe.s)

    def _window(self, first: Probe, rate: float) -> Probe | tuple[Probe, Probe, Breakpoints]:
        """Probes at both ends of a window around the root, and its breakpoints; or a probe at the root itself."""
        guess = first.s + first.residual / rate
        # The step is a sampling error, known to some percent: a quarter of it on either side holds the root.
        half = 0.25 * abs(guess - first.s)
        while True:
            if not self.low < 0.5 * (self.low + self.high) < self.high:
                return self.probe(self.high)[0]
            half = max(half, 4.0 * _EPS * abs(guess), math.ulp(0.0))
            if not self.low < guess < self.high:
                guess = 0.5 * (self.low + self.high)
            a, b = max(self.low, guess - half), min(self.high, guess + half)
            if not a < b:
                a, b = self.low, self.high
            left, right, listed = self._look(a, b)
            for end in (left, right):
                if end.settles:
                    return end
                self._bound(end)
            if left.left <= _ONE:  # the root lies below the window
                flat = abs(left.residual) <= 4.0 * _EPS  # 1 on a stretch whose left end may be far
                guess, half = left.s + left.residual / rate, (64.0 if flat else 8.0) * half
            elif right.left > _ONE:
                guess, half = right.s + right.residual / rate, 8.0 * half
            elif listed is None:
                share = left.residual / (left.residual - right.residual)
                guess, half = a + share * (b - a), (b - a) / 16.0
            else:
                return left, right, listed

    def _look(self, a: float, b: float) -> tuple[Probe, Probe, Breakpoints | None]:
        self.passes += 1
        both = probing(self.utility, self.centre, (a, b))
        listing = _listing(self.utility.kinks, self.centre, a, b)
        sums, points, falls = self.sample.fold(lambda z, w: (both(z, w), *listing(z, w)), _merging(self.sample.keep))
        means = [float(total) / self.mass for total in sums]
        listed = None if points is None else Breakpoints(points, falls / self.mass)
        return Probe(a, *means[:4]), Probe(b, *means[4:]), listed

    def _refine(self, left: Probe, right: Probe, listed: Breakpoints) -> tuple[float, float]:
        def smooth(probe: Probe) -> float:
            return probe.left - listed.still_to_fall(probe.s)

        def secant(one: Probe, other: Probe) -> float:
            return (smooth(one) - smooth(other)) / (other.s - one.s)

        trial = listed.root_of(smooth(left), secant(left, right), left.s)
        last, stalls = min((left, right), key=lambda end: abs(end.s - trial)), 0
        for _ in range(_MOST_PASSES):
            if not self.low < trial < self.high or stalls >= 2:
                trial, stalls = self._middle(listed), 0
            if not self.low < trial < self.high:
                break
            probes = self.probe(trial, *self._from_afar(last, listed, trial))
            for probe in probes:
                if probe.settles:
                    return probe.s, probe.s + probe.value
                self._bound(probe)
            probe = min(probes, key=lambda found: abs(math.log(max(found.left, 1e-300))))
            stalls += abs(probe.residual) > 0.5 * abs(last.residual)
            rate = probe.bend if self.utility.has_curvature else secant(last, probe)
            trial = listed.root_of(smooth(probe), rate, probe.s)
            size = max(abs(probe.residual), abs(last.residual) if not self.utility.has_curvature else 0.0)
            # Where the error to come is far below rounding the step is taken on trust; to land on a breakpoint is not
            # a matter of degree, and is looked at.
            between = listed.points.size == 0 or not np.any(listed.points == trial)
            if between and abs(probe.residual) * size <= 1e-17:
                trial = min(max(trial, self.low), self.high)  # rounding may put it a hair outside
                return trial, probe.s + probe.value - 0.5 * (trial - probe.s) * probe.residual
            last = probe
        end = self.probe(self.high)[0]
        return end.s, end.s + end.value

    def _from_afar(self, last: Probe, listed: Breakpoints, trial: float) -> list[float]:
        """More points for the next pass, where the root is still far: a straight line predicts little there.

        One is right for a mean slope that falls like an exponential, the other halves what is left.
        """
        if abs(last.residual) <= 0.2:
            return []
        points = [self._middle(listed)]
        if last.bend > 0.0 and 0.0 < last.left < math.inf:
            points.append(last.s + last.left * math.log(last.left) / last.bend)
        return [point for point in points if self.low < point < self.high and point != trial]

    def _middle(self, listed: Breakpoints) -> float:
        """The middle breakpoint of the bracket, or its midpoint."""
        i = int(np.searchsorted(listed.points, self.low, side="right"))
        j = int(np.searchsorted(listed.points, self.high, side="left"))
        return float(listed.points[(i + j) // 2]) if j > i else 0.5 * (self.low + self.high)


def _listing(kinks: tuple[tuple[float, float], ...], centre: float, a: float, b: float) -> Kernel:
    """Breakpoints in (a, b] of one block with the weight of their jumps; None where they are too many."""

    def kernel(z: Floats, w: Floats | None) -> tuple[Floats | None, Floats | None]:
        points, falls = [np.empty(0)], [np.empty(0)]
        y = z if centre == 0.0 else z - centre
        for kink, jump in kinks:
            at = y - kink
            held = (at > a) & (at <= b)
            points.append(at[held])
            falls.append(np.full(points[-1].size, jump) if w is None else jump * w[held])
        return _distinct(points, falls, _PER_BLOCK)

    return kernel


def _merging(most: int) -> Combine:
    def combine(parts: list[tuple[tuple[float, ...], Floats | None, Floats | None]]) -> tuple[object, ...]:
        sums, points, falls = zip(*parts, strict=True)
        if any(part is None for part in points):
            return add_columns(list(sums)), None, None
        return add_columns(list(sums)), *_distinct(list(points), list(falls), most)

    return combine


def _distinct(points: list[Floats], falls: list[Floats], most: int) -> tuple[Floats | None, Floats | None]:
    joined = np.concatenate(points)
    if joined.size == 0:
        return joined, np.empty(0)
    distinct, place = np.unique(joined, return_inverse=True)
    if distinct.size > most:
        return None, None
    weights = np.bincount(place, weights=np.concatenate(falls), minlength=distinct.size)
    return distinct, weights.astype(np.float64, copy=False)


def rate_of_fall(z: Floats, w: Floats | None, utility: Utility, t: float) -> float:
    """How fast the mean slope of a small sample falls with t, from a difference wide enough to drown the noise."""
    step = max(1, z.size >> 15)
    z, w = z[::step], None if w is None else w[::step]
    share = np.full(z.size, 1.0 / z.size) if w is None else w / w.sum()
    spread = float(np.sqrt((share * (z - float((share * z).sum())) ** 2).sum()))
    if not spread > 0.0:
        return 1.0
    with np.errstate(over="ignore"):
        slope = np.asarray(utility.slope(z - t))
        noise = float(np.sqrt((share**2 * (slope - float((share * slope).sum())) ** 2).sum()))
        reach, fall = 1e-4 * spread, 0.0
        for _ in range(9):
            fall = float((share * (utility.slope(z - (t - reach)) - utility.slope(z - (t + reach)))).sum())
            if fall >= 20.0 * noise:
                break
            reach *= 4.0
    return fall / (2.0 * reach) if np.isfinite(fall) and fall > 0.0 else 1.0 / spread
