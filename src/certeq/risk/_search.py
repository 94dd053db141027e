"""Searches over a long sample: each pass takes exact sums at a trial and a sketch of the sample around it.

The sketch (`_sketch`) says how a mean changes from the trial on, the sums what it is there; where both together come
down to the level is the next trial. Far from the root that gains a factor of hundreds a pass; near it, with the losses
around the root listed one by one, it is exact. `SlopeSearch` is for a mean slope whose jumps are known, `RisingSearch`
for an opaque increasing function, of which not even these are: it tries several points a pass.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from certeq._table import Both, SumKernel, Table
from certeq.risk._rows import below_all, excess_of, no_mean
from certeq.risk._sketch import (
    Floats,
    Frame,
    Sketch,
    centered,
    falls_to_zero,
    flattened,
    middle_float,
    shifted,
    weighted_sum,
)
from certeq.risk._vector import ONE, facts_of
from certeq.utilities.forms import Form

_EPS = float(np.finfo(np.float64).eps)
_NEAR = 0.5  # a residual, in mean sizes of what is added up, up to which sums correct what a sketch says
_EVEN = 15  # evenly spaced trial points: four bits a pass
_NOISE = 4.0 * _EPS  # of the mean size of what is added up: what rounding may do to a mean
_MOST_PASSES = 2200  # bisection of the widest float interval ends well before


@dataclass
class SketchSearch:
    """What searches with sketches share: losses in [least, greatest] less the center, and passes around a trial."""

    table: Table
    center: float
    mass: float
    least: float
    greatest: float
    features: tuple[float, ...]
    passes: int

    def look(self, sums: SumKernel, around: float, known: Sketch) -> tuple[list[float], Sketch]:
        """One pass: means of what is summed up, and a sketch of the sample around a point."""
        self.passes += 1
        reach = known.reach(self.features, around, len(self.table))
        frame = Frame.around(self.center, around, self.features, self.least, self.greatest, reach)
        totals, parts = self.table.reduce(Both(sums, frame))
        return [float(total) / self.mass for total in totals], frame.sketch(parts, self.mass)


@dataclass
class SlopeEvaluation:
    """Mean left and right slope and value at a trial s."""

    s: float
    left: float
    right: float
    value: float

    @property
    def residual(self) -> float:
        """How far the mean slope is from 1."""
        return self.left - 1.0

    @property
    def jumps_past_1(self) -> bool:
        """Whether the mean slope does so here."""
        return self.left <= ONE < self.right

    @staticmethod
    def sums(form: Form, center: float, s: float) -> Callable[[Floats, Floats | None], tuple[float, ...]]:
        """The three sums behind the means."""

        def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                y = centered(z, center)
                left, right = form.slopes(y, s)
                below = weighted_sum(left, w)
                above = below if right is left else weighted_sum(right, w)
                return below, above, weighted_sum(np.asarray(form.utility.value(y - s)), w)

        return kernel


@dataclass
class _SlopeModel:
    """The mean slope near an evaluation: what the sketch says, corrected by what the last two evaluations saw."""

    sketch: Sketch
    form: Form
    at: SlopeEvaluation
    scale: float  # mean size of the slopes, 1 at least: what residuals and their rounding are measured by
    near: bool
    off: float = 0.0  # what the sketch is off by at the evaluation,
    drift: float = 0.0  # and how that changes with s

    @classmethod
    def of(cls, sketch: Sketch, form: Form, at: SlopeEvaluation, last: SlopeEvaluation) -> _SlopeModel:
        scale = max(1.0, sketch.size_of_slopes(form, at.s))
        # From afar the sketch is the better guide without a correction that was right for another slope.
        if not (math.isfinite(scale) and abs(at.residual) <= _NEAR * scale):
            return cls(sketch, form, at, 1.0, False)
        off, drift = at.left - sketch.slopes(form, at.s)[0], 0.0
        apart = abs(at.s - last.s)
        # Across breakpoints the sketch has lumped together, its error jumps rather than drifts.
        if abs(last.residual) <= _NEAR * scale and apart > 0.0 and (apart < sketch.sure or not form.kinks):
            change = off - (last.left - sketch.slopes(form, last.s)[0])
            drift = change / (at.s - last.s) if abs(change) > 1e3 * _EPS * scale else 0.0  # rounding drifts nowhere
        return cls(sketch, form, at, scale, True, off, drift if math.isfinite(drift) else 0.0)

    def correction(self, s: float) -> float:
        """What to add to the sketch's slope at s."""
        return self.off + self.drift * (s - self.at.s)

    def change(self, s: float) -> float:
        """How the value differs between s, where it is least, and the evaluation.

        It is convex: it falls by no more than its slope there says, however far the sketch is asked about.
        """
        step = s - self.at.s
        change = self.sketch.value(self.form, s) - self.sketch.value(self.form, self.at.s)
        change -= (self.off + 0.5 * self.drift * step) * step
        return max(min(change, 0.0), -abs(self.at.residual * step))

    def root(self, low: float, high: float) -> tuple[float, float]:
        """Where the model passes 1, and by how much it jumps there."""
        found = self.sketch.root(self.form, low, high, self.correction)
        if self.drift == 0.0:
            return found
        # What the error does further away is a guess. Where that moves the root by a multiple, it is not made.
        drift, self.drift = self.drift, 0.0
        plain = self.sketch.root(self.form, low, high, self.correction)
        there, here = found[0] - self.at.s, plain[0] - self.at.s
        if not (there * here > 0.0 and 0.25 <= there / here <= 4.0):
            return plain
        self.drift = drift
        return found


@dataclass
class SlopeSearch(SketchSearch):
    """Where the mean slope passes 1: one trial a pass, from a first evaluation and a sketch that may be rough."""

    form: Form
    low: float = field(init=False)
    high: float = field(init=False)

    def __post_init__(self) -> None:
        """The threshold lies between the least and the greatest loss less the anchor."""
        anchor = facts_of(self.form).anchor
        self.low, self.high = self.least - anchor, self.greatest - anchor

    def run(self, first: SlopeEvaluation, rough: Sketch) -> tuple[float, float]:
        """s, and s + E u there."""
        if first.jumps_past_1:
            return first.s, first.s + first.value
        last, sketch, stalls, repeats = first, rough, 0, 0
        trial, _ = rough.root(self.form, self.low, self.high, _SlopeModel.of(rough, self.form, first, first).correction)
        if trial == self.high and first.s < trial:
            # The draw knows nothing of what made the slope so large: a sketch of all losses, seen from the same point.
            trial = float(np.nextafter(first.s, np.inf))
        ends: dict[float, SlopeEvaluation] = {}  # what has been seen at the ends of the bracket
        for _ in range(_MOST_PASSES):
            closed = not self.low < 0.5 * (self.low + self.high) < self.high
            if closed and self.high in ends:
                seen = [ends[s] for s in (self.low, self.high) if s in ends]
                return min(((end.s, end.s + end.value) for end in seen), key=lambda pair: pair[1])
            # A sketch that points to where a look has been means a root right beside, it may be between two floats.
            repeats = repeats + 1 if self._same_point(trial, ends) else 0
            if repeats:
                inward = -1.0 if trial == self.high else 1.0
                trial += inward * float(np.spacing(abs(trial))) * 16.0 ** (repeats - 1)
            if closed:
                trial = self.high
            elif not self.low < trial <= self.high or stalls >= 3:
                trial, stalls = 0.5 * (self.low + self.high), 0
            means, sketch = self.look(SumKernel(SlopeEvaluation.sums(self.form, self.center, trial)), trial, sketch)
            at = SlopeEvaluation(trial, *means)
            if at.jumps_past_1:
                return at.s, at.s + at.value
            self.bound(at)
            ends[at.s] = at
            model = _SlopeModel.of(sketch, self.form, at, last)
            # A fall from afar says nothing of what the next step will do.
            ratio = abs(at.residual) / max(min(abs(last.residual), model.scale), _EPS)
            stalls += not abs(at.residual) <= 0.5 * abs(last.residual)
            trial, jump = model.root(self.low, self.high)
            # Sums of rounded slopes wobble by some eps; a residual of that size which no longer falls is the end,
            # unless the slope is 1 on a whole stretch: the left end of that is wanted.
            wobble = abs(at.residual) <= (4.0 if ratio <= 0.5 else 256.0) * _EPS * model.scale
            if jump == 0.0 and model.near and (wobble or abs(trial - at.s) <= 2.0 * _EPS * abs(at.s)):
                return at.s, at.s + at.value
            if self._trusted(model, trial, jump, ratio):
                return trial, at.s + at.value + model.change(trial)
            last = at
        raise RuntimeError(f"No threshold found in {_MOST_PASSES} passes; the slope is not a decreasing function of t.")

    def bound(self, at: SlopeEvaluation) -> None:
        """Let the root lie on the side of an evaluation that its slope says."""
        if at.left > ONE:
            self.low = max(self.low, at.s)
        else:
            self.high = min(self.high, at.s)

    def _same_point(self, trial: float, ends: dict[float, SlopeEvaluation]) -> bool:
        return (trial == self.high and trial in ends) or (
            self.low in ends and trial == float(np.nextafter(self.low, np.inf)) and trial < self.high
        )

    def _trusted(self, model: _SlopeModel, trial: float, jump: float, ratio: float) -> bool:
        """Whether a look at the trial would tell nothing new.

        The last sketch brought the residual down by ``ratio``, and this one is finer: what it leaves is far below
        rounding, or far below the jump at the trial.
        """
        at, step = model.at, abs(trial - model.at.s)
        if not (ratio <= 1e-2 and abs(at.residual) <= 0.1 * model.scale):
            return False
        if self.form.kinks and not step < model.sketch.sure:
            return False
        to_come = 16.0 * ratio * abs(at.residual)
        if jump > 0.0:
            even = to_come * step <= 1e-15 * (abs(at.s) + abs(at.value))
            return even and to_come + 256.0 * _EPS * model.scale < jump
        return to_come <= 4.0 * _EPS * model.scale


# -- an opaque increasing function: several trial points a pass -------------------------------------------------------


@dataclass
class Rising:
    """An increasing function, the level its mean is to come down to, and the largest point where it is no higher."""

    function: Callable[[Any], Any]
    level: float
    anchor: float

    def at(self, x: Floats) -> Floats:
        """The function, in double precision."""
        with np.errstate(all="ignore"):
            return np.asarray(self.function(x), dtype=float)

    def sums(self, center: float, points: tuple[float, ...]) -> SumKernel:
        """Sums of the function at the losses less their center and each of the points."""

        def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
            with np.errstate(all="ignore"):
                return tuple(weighted_sum(self.at(shifted(z, center, t)), w) for t in points)

        return SumKernel(kernel)

    def excess(self, sketch: Sketch, t: float) -> tuple[float, float]:
        """What a sketch says of the mean, less the level and rounding; and the mean size of what is added up."""
        with np.errstate(all="ignore"):
            values = self.at(sketch.points - t)
            size = weighted_sum(np.abs(values), sketch.masses)
            return float(excess_of(weighted_sum(values, sketch.masses), size, self.level)), size


@dataclass
class RisingSearch(SketchSearch):
    """The smallest t with an excess of at most 0, all less the center of the sample.

    The trial points stand where the last sketch, corrected by what the sums were, comes down to the level: one there, a
    pair as far apart as rounding can tell, and a pair by the likely error. Where guesses fail, evenly spaced ones are
    tried beside them.
    """

    rising: Rising
    sketch: Sketch
    known: dict[float, float] = field(default_factory=dict)  # t -> the mean less the level and what rounding may add

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
                points += _evenly_spaced(low, high, evens % 2 == 1)
                evens += 1
            width = high - low
            points = tuple(sorted({t for t in points if low < t < high}))
            means, self.sketch = self.look(self.rising.sums(self.center, points), guess, self.sketch)
            self.learn(points, means)
            above, below = self._bracket(low, high)
            trusting = below - above <= width / _EVEN  # evenly spaced points are what a guess has to beat
        raise RuntimeError(f"No root found in {_MOST_PASSES} passes; the mean does not fall with t.")

    def learn(self, points: tuple[float, ...], means: list[float]) -> None:
        """Remember the means at these points."""
        for t, mean in zip(points, means, strict=True):
            if math.isnan(mean):
                raise no_mean(self.center + t)
            size = self.rising.excess(self.sketch, t)[1]
            self.known[t] = float(excess_of(mean, size, self.rising.level))

    def _bracket(self, low: float, high: float) -> tuple[float, float]:
        low = max((t for t, excess in self.known.items() if excess > 0.0), default=low)
        return low, min((t for t, excess in self.known.items() if excess <= 0.0 and t > low), default=high)

    def _around_guess(self, low: float, high: float, noise: float) -> tuple[float, tuple[float, ...]]:
        """Where the corrected sketch comes down to the level, and points on either side."""
        correction, seen = self._correction()

        def modelled(t: float) -> float:
            return self.rising.excess(self.sketch, t)[0] + correction(t)

        guess = falls_to_zero(lambda t: flattened(modelled(t)), low, high, 0.25 * noise)
        if not low < guess <= high:
            guess = 0.5 * (low + high)
        # As far apart as rounding of the sums can tell, where the function does not jump.
        reach, fall = 16.0 * math.ulp(guess), 0.0
        while reach < high - low and not fall >= 64.0 * noise:
            reach *= 8.0
            fall = modelled(guess - reach) - modelled(guess + reach)
        fine = 2.0 * noise * 2.0 * reach / fall if fall > 0.0 and math.isfinite(fall) else 0.0
        fine = max(min(fine, 0.25 * (high - low)), math.ulp(guess))
        error = max(0.01 * abs(guess - seen), 8.0 * fine)
        before = float(np.nextafter(guess, -np.inf))
        return guess, (guess - error, guess - fine, before, guess, guess + fine, guess + error)

    def _correction(self) -> tuple[Callable[[float], float], float]:
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


def _evenly_spaced(low: float, high: float, in_order: bool) -> tuple[float, ...]:
    """Points that cut (low, high) into equal parts, or into parts of equally many floats."""
    points = [low, high]
    for _ in range(4):
        cuts = [middle_float(a, b, in_order) for a, b in itertools.pairwise(points)]
        points = sorted({*points, *cuts})
    return tuple(points[1:-1])
