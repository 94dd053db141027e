"""The smallest t at which the mean of an increasing function of X - t is at most its level, in few passes.

Each pass tries a fan of t, and brings a sketch of the sample around its middle. The next fan stands where that sketch,
corrected by what the sums were, comes down to the level: one point there, a pair as far apart as rounding can tell, and
a pair by the likely error. Where guesses fail, an even fan is tried beside them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from certeq._table import Both, Sums, Table
from certeq.risk._sketch import Floats, Frame, Sketch, bends_of, falls_to_zero, middle_float, shifted, weighted_sum

Known = dict[float, float]  # t -> the mean there, less the level and what rounding may have added to it

_EVEN = 15  # points of an even fan: four bits a pass
_MOST_PASSES = 600
_EPS = float(np.finfo(np.float64).eps)
_NOISE = 4.0 * _EPS  # a mean may be so many of its terms' mean sizes above the level and still be level
_NEAR = 0.5  # an excess, in mean sizes of the function, up to which the sums correct what a sketch says


def excess_of(mean: Any, size: Any, level: float) -> Any:
    """How far a mean of numbers of this mean size is above the level, less what rounding may have added."""
    with np.errstate(all="ignore"):
        return mean - level - _NOISE * (np.where(np.isfinite(size), size, 0.0) + abs(level))


def below_all(least: Any, furthest: Any, anchor: float) -> Any:
    """A t below every answer: so far below least - anchor that x - t passes the anchor in rounded numbers too."""
    t = least - anchor
    return np.nextafter(t, -np.inf) - 2.0 * np.spacing(np.abs(furthest) + abs(anchor))


def no_mean(t: float) -> OverflowError:
    """What to raise where the function overflows to both sides."""
    return OverflowError(
        f"The mean of loss(x - t) is not a number at t = {t:g}: loss overflows to +inf for some losses and to -inf for "
        "others. Use larger units for x, or a loss that grows more slowly."
    )


@dataclass
class Rising:
    """An increasing function, the level its mean is to come down to, and the largest point where it is no higher."""

    function: Callable[[Floats], Floats]
    level: float
    anchor: float

    def at(self, x: Floats) -> Floats:
        """The function, in double precision."""
        with np.errstate(all="ignore"):
            return np.asarray(self.function(x), dtype=float)

    def summing(self, center: float, points: tuple[float, ...]) -> Sums:
        """Sums of the function at the losses less their center and each of the points."""

        def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
            with np.errstate(all="ignore"):
                return tuple(weighted_sum(self.at(shifted(z, center, t)), w) for t in points)

        return Sums(kernel)

    def excess(self, sketch: Sketch, t: float) -> tuple[float, float]:
        """What a sketch says of the mean, less the level and rounding; and the mean size of what is added up."""
        with np.errstate(all="ignore"):
            values = self.at(sketch.points - t)
            size = weighted_sum(np.abs(values), sketch.masses)
            return float(excess_of(weighted_sum(values, sketch.masses), size, self.level)), size


@dataclass
class FanSearch:
    """The smallest t in (low, high] with an excess of at most 0, all less the center of the sample."""

    sample: Table
    rising: Rising
    center: float
    mass: float
    least: float
    greatest: float
    sketch: Sketch
    known: Known = field(default_factory=dict)
    features: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Find out where the function bends."""
        self.features = bends_of(self.rising.at, [self.rising.anchor])

    def run(self) -> float:
        """To neighboring floats, or to where sums of rounded numbers no longer tell one t from another."""
        furthest = max(abs(self.least), abs(self.greatest))
        low = float(below_all(self.least, furthest, self.rising.anchor))
        high, trusting, evens = self.greatest - self.rising.anchor, True, 0
        self.known = {t: excess for t, excess in self.known.items() if low < t < high}
        for _ in range(_MOST_PASSES):
            low, high = self._bracket(low, high)
            if not low < 0.5 * (low + high) < high:
                return high
            noise = _NOISE * (self.rising.excess(self.sketch, high)[1] + abs(self.rising.level))
            noise = noise if math.isfinite(noise) else 0.0
            if self.known.get(low, math.inf) <= 4.0 * noise and self.known.get(high, -math.inf) >= -4.0 * noise:
                return high
            guess, points = self._around_guess(low, high, noise)
            if not trusting or high - low <= _EVEN * math.ulp(high):  # so few floats are left that all can be tried
                points += _even(low, high, evens % 2 == 1)
                evens += 1
            width = high - low
            self._look(tuple(sorted({t for t in points if low < t < high})), guess)
            above, below = self._bracket(low, high)
            trusting = below - above <= width / _EVEN  # an even fan is what a guess has to beat
        raise RuntimeError(f"No root found in {_MOST_PASSES} passes; the mean does not fall with t.")

    def _bracket(self, low: float, high: float) -> tuple[float, float]:
        low = max((t for t, excess in self.known.items() if excess > 0.0), default=low)
        return low, min((t for t, excess in self.known.items() if excess <= 0.0 and t > low), default=high)

    def _around_guess(self, low: float, high: float, noise: float) -> tuple[float, tuple[float, ...]]:
        """Where the corrected sketch comes down to the level, and points on either side."""
        lift, seen = self._lift()
        guess = falls_to_zero(lambda t: _flattened(self._modelled(t, lift)), low, high, 0.25 * noise)
        if not low < guess <= high:
            guess = 0.5 * (low + high)
        # As far apart as rounding of the sums can tell, where the function does not jump.
        reach, fall = 16.0 * math.ulp(guess), 0.0
        while reach < high - low and not fall >= 64.0 * noise:
            reach *= 8.0
            fall = self._modelled(guess - reach, lift) - self._modelled(guess + reach, lift)
        fine = 2.0 * noise * 2.0 * reach / fall if fall > 0.0 and math.isfinite(fall) else 0.0
        fine = max(min(fine, 0.25 * (high - low)), math.ulp(guess))
        error = max(0.01 * abs(guess - seen), 8.0 * fine)
        before = float(np.nextafter(guess, -np.inf))
        return guess, (guess - error, guess - fine, before, guess, guess + fine, guess + error)

    def _modelled(self, t: float, lift: Callable[[float], float]) -> float:
        return self.rising.excess(self.sketch, t)[0] + lift(t)

    def _lift(self) -> tuple[Callable[[float], float], float]:
        """What to add to the sketch's excess, from the two nearest t tried; and the nearest of them."""
        tried = sorted((t for t in self.known if math.isfinite(self.known[t])), key=lambda t: abs(self.known[t]))
        if not tried:
            return (lambda t: 0.0), 0.0
        one = tried[0]
        said, size = self.rising.excess(self.sketch, one)
        if not abs(self.known[one]) <= _NEAR * size:
            return (lambda t: 0.0), one  # from afar the sketch is the better guide
        off, drift = self.known[one] - said, 0.0
        for other in tried[1:]:
            said, size = self.rising.excess(self.sketch, other)
            change = self.known[other] - said - off
            # Further apart, the sketch has lumped what lies between; and rounding drifts nowhere.
            if abs(other - one) < self.sketch.sure and abs(self.known[other]) <= _NEAR * size:
                if abs(change) > 1e3 * _EPS * size:
                    drift = change / (other - one)
                break
        return (lambda t: off + drift * (t - one)), one

    def _look(self, points: tuple[float, ...], around: float) -> None:
        """One pass: exact means at the points, and a sketch around the middle of them."""
        reach = self.sketch.reach(self.features, around, len(self.sample))
        frame = Frame.around(self.center, around, self.features, self.least, self.greatest, reach)
        sums, parts = self.sample.reduce(Both(self.rising.summing(self.center, points), frame))
        self.sketch = frame.sketch(parts, self.mass)
        self.learn(points, [float(total) / self.mass for total in sums])

    def learn(self, points: tuple[float, ...], means: list[float]) -> None:
        """Remember the means at these points."""
        for t, mean in zip(points, means, strict=True):
            if math.isnan(mean):
                raise no_mean(self.center + t)
            size = self.rising.excess(self.sketch, t)[1]
            self.known[t] = float(excess_of(mean, size, self.rising.level))


def _even(low: float, high: float, in_order: bool) -> tuple[float, ...]:
    """Points that cut (low, high) into equal parts, or into parts of equally many floats."""
    points = [low, high]
    for _ in range(4):
        cuts = [middle_float(a, b, in_order) for a, b in itertools.pairwise(points)]
        points = sorted({*points, *cuts})
    return tuple(points[1:-1])


def _flattened(excess: float) -> float:
    """The excess near its root, and its logarithm where it is vast."""
    return math.log1p(excess) if excess > 0.0 else excess
