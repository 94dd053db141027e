"""The threshold of a long sample that Newton cannot be trusted with: slopes that jump or rise sharply, heavy tails.

Each pass takes the exact sums at a trial and a sketch of the sample around it. The sketch says how the mean slope
changes from there on, the sums what it is there; where both together pass 1 is the next trial. Far from the root that
gains a factor of hundreds a pass; near it, with the losses around the root listed one by one, it is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from certeq._table import Both, Sums, Table
from certeq.risk._sketch import Floats, Frame, Sketch, centered, features_of, weighted_sum
from certeq.utilities import Utility
from certeq.utilities.forms import form

_EPS = float(np.finfo(np.float64).eps)
_ONE = 1.0 + 4.0 * _EPS  # a mean slope up to here is 1 in sums that are rounded
_NEAR = 0.5  # a residual up to which the exact sums correct what a sketch says of other places
_MOST_PASSES = 2200  # bisection of the widest float interval ends well before


@dataclass
class Probe:
    """Mean left and right slope and value at a trial s; means over the sample."""

    s: float
    left: float
    right: float
    value: float

    @property
    def residual(self) -> float:
        """How far the mean slope is from 1."""
        return self.left - 1.0

    @property
    def lands(self) -> bool:
        """Whether the mean slope jumps past 1 here."""
        return self.left <= _ONE < self.right


def probing(utility: Utility, center: float, s: float) -> Sums:
    """Three sums: what `Probe` holds, times the weight of the sample."""
    slopes = form(utility).slopes

    def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            y = centered(z, center)
            left, right = slopes(y, s)
            below = weighted_sum(left, w)
            above = below if right is left else weighted_sum(right, w)
            return below, above, weighted_sum(np.asarray(utility.value(y - s)), w)

    return Sums(kernel)


@dataclass
class _Model:
    """The mean slope near a probe: what the sketch says, corrected by what the last two probes saw."""

    sketch: Sketch
    utility: Utility
    probe: Probe
    scale: float  # mean size of the slopes, 1 at least: what residuals and their rounding are measured by
    near: bool
    off: float = 0.0  # what the sketch is off by at the probe,
    drift: float = 0.0  # and how that changes with s

    @classmethod
    def of(cls, sketch: Sketch, utility: Utility, probe: Probe, last: Probe) -> _Model:
        scale = max(1.0, sketch.size_of_slopes(utility, probe.s))
        # From afar the sketch is the better guide without a correction that was right for another slope.
        if not (math.isfinite(scale) and abs(probe.residual) <= _NEAR * scale):
            return cls(sketch, utility, probe, 1.0, False)
        off, drift = probe.left - sketch.slopes(utility, probe.s)[0], 0.0
        apart = abs(probe.s - last.s)
        # Across breakpoints the sketch has lumped together, its error jumps rather than drifts.
        if abs(last.residual) <= _NEAR * scale and apart > 0.0 and (apart < sketch.sure or not utility.kinks):
            drift = (off - (last.left - sketch.slopes(utility, last.s)[0])) / (probe.s - last.s)
        return cls(sketch, utility, probe, scale, True, off, drift if math.isfinite(drift) else 0.0)

    def lift(self, s: float) -> float:
        """What to add to the sketch's slope at s."""
        return self.off + self.drift * (s - self.probe.s)

    def change(self, s: float) -> float:
        """How the value differs between s, where it is least, and the probe.

        It is convex: it falls by no more than its slope at the probe says, however far the sketch is asked about.
        """
        step = s - self.probe.s
        change = self.sketch.value(self.utility, s) - self.sketch.value(self.utility, self.probe.s)
        change -= (self.off + 0.5 * self.drift * step) * step
        return max(min(change, 0.0), -abs(self.probe.residual * step))


class JumpSearch:
    """Where the mean slope of a sample passes 1, starting from a first probe and a sketch that may be rough."""

    def __init__(self, sample: Table, utility: Utility, center: float, mass: float, low: float, high: float) -> None:
        """Losses lie in [low, high], less the center."""
        self.sample, self.utility, self.center, self.mass = sample, utility, center, mass
        self.least, self.greatest = low, high
        self.low, self.high = low - utility.anchor, high - utility.anchor
        self.features = features_of(utility)
        self.passes = 0

    def run(self, first: Probe, rough: Sketch, value_only: bool = False) -> tuple[float, float]:
        """s, and s + E u there; with ``value_only`` s may have half of its digits only."""
        if first.lands:
            return first.s, first.s + first.value
        last, sketch, stalls, hugs = first, rough, 0, 0
        trial, _ = rough.root(self.utility, self.low, self.high, _Model.of(rough, self.utility, first, first).lift)
        if trial == self.high and first.s < trial:
            # The draw knows nothing of what made the slope so large: a sketch of all losses, seen from the same place.
            trial = float(np.nextafter(first.s, np.inf))
        ends: dict[float, Probe] = {}  # what has been seen at the ends of the bracket
        for _ in range(_MOST_PASSES):
            closed = not self.low < 0.5 * (self.low + self.high) < self.high
            if closed and self.high in ends:
                return min(((end.s, end.s + end.value) for end in self._ends(ends)), key=lambda pair: pair[1])
            # A sketch that points to where a look has been means a root right beside, it may be between two floats.
            hugs = hugs + 1 if self._hugs(trial, ends) else 0
            if hugs:
                inward = -1.0 if trial == self.high else 1.0
                trial += inward * float(np.spacing(abs(trial))) * 16.0 ** (hugs - 1)
            if closed:
                trial = self.high
            elif not self.low < trial <= self.high or stalls >= 3:
                trial, stalls = 0.5 * (self.low + self.high), 0
            probe, sketch = self._look(trial, sketch)
            if probe.lands:
                return probe.s, probe.s + probe.value
            self.bound(probe)
            ends[probe.s] = probe
            model = _Model.of(sketch, self.utility, probe, last)
            # A fall from afar says nothing of what the next step will do.
            ratio = abs(probe.residual) / max(min(abs(last.residual), model.scale), _EPS)
            stalls += not abs(probe.residual) <= 0.5 * abs(last.residual)
            trial, jump = self._root(model)
            # Sums of rounded slopes wobble by some eps; a residual of that size which no longer falls is the end,
            # unless the slope is 1 on a whole stretch: the left end of that is wanted.
            wobble = abs(probe.residual) <= (4.0 if ratio <= 0.5 else 256.0) * _EPS * model.scale
            if jump == 0.0 and model.near and (wobble or abs(trial - probe.s) <= 2.0 * _EPS * abs(probe.s)):
                return probe.s, probe.s + probe.value
            if self._trusted(model, trial, jump, ratio, value_only):
                return trial, probe.s + probe.value + model.change(trial)
            last = probe
        raise RuntimeError(f"No threshold found in {_MOST_PASSES} passes; the slope is not a decreasing function of t.")

    def _root(self, model: _Model) -> tuple[float, float]:
        """Where the model passes 1, and by how much it jumps there."""
        found = model.sketch.root(self.utility, self.low, self.high, model.lift)
        if model.drift == 0.0:
            return found
        # What the error does further away is a guess. Where that moves the root by a multiple, it is not made.
        drift, model.drift = model.drift, 0.0
        plain = model.sketch.root(self.utility, self.low, self.high, model.lift)
        there, here = found[0] - model.probe.s, plain[0] - model.probe.s
        if not (there * here > 0.0 and 0.25 <= there / here <= 4.0):
            return plain
        model.drift = drift
        return found

    def _ends(self, seen: dict[float, Probe]) -> list[Probe]:
        return [seen[s] for s in (self.low, self.high) if s in seen]

    def _hugs(self, trial: float, ends: dict[float, Probe]) -> bool:
        return (trial == self.high and trial in ends) or (
            self.low in ends and trial == float(np.nextafter(self.low, np.inf)) and trial < self.high
        )

    def _trusted(self, model: _Model, trial: float, jump: float, ratio: float, value_only: bool) -> bool:
        """Whether a look at the trial would tell nothing new.

        The last sketch brought the residual down by ``ratio``, and this one is finer: what it leaves is far below
        rounding, or far below the jump at the trial.
        """
        probe = model.probe
        if not (ratio <= 1e-2 and abs(probe.residual) <= 0.1 * model.scale):
            return False
        step = abs(trial - probe.s)
        if self.utility.kinks and not step < model.sketch.sure:
            return False
        to_come = 16.0 * ratio * abs(probe.residual)
        even = to_come * step <= 1e-15 * (abs(probe.s) + abs(probe.value))
        if jump > 0.0:
            return even and to_come + 256.0 * _EPS * model.scale < jump
        return to_come <= 4.0 * _EPS * model.scale or (value_only and even)

    def bound(self, probe: Probe) -> None:
        """Let the root lie on the side of a probe that its slope says."""
        if probe.left > _ONE:
            self.low = max(self.low, probe.s)
        else:
            self.high = min(self.high, probe.s)

    def _look(self, s: float, known: Sketch) -> tuple[Probe, Sketch]:
        """One pass: exact sums at s, and a sketch of the sample around it."""
        self.passes += 1
        reach = known.reach(self.features, s, len(self.sample))
        frame = Frame.around(self.center, s, self.features, self.least, self.greatest, reach)
        sums, parts = self.sample.reduce(Both(probing(self.utility, self.center, s), frame))
        return Probe(s, *(float(total) / self.mass for total in sums)), frame.sketch(parts, self.mass)
