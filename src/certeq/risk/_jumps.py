"""The shortfall of a long sample that Newton cannot be trusted with: slopes that jump or rise sharply, heavy tails.

Each pass takes the exact sums at a trial and a sketch of the sample around it. The sketch says how the mean slope
changes from there on, the sums what it is there; where both together pass 1 is the next trial. Far from the root that
gains a factor of hundreds a pass; near it, with the losses around the root listed one by one, it is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certeq.risk._rows import near_kink
from certeq.risk._sample import Floats, Kernel, Sample, add_columns, shifted, weighted_sum
from certeq.risk._sketch import Frame, Sketch, features_of
from certeq.utilities import Utility

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


def probing(utility: Utility, centre: float, s: float) -> Kernel:
    """Three sums: what `Probe` holds, times the weight of the sample."""

    def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            x = shifted(z, centre, s)
            left, right = near_kink(x, utility)
            below = weighted_sum(left, w)
            above = below if right is left else weighted_sum(right, w)
            return below, above, weighted_sum(np.asarray(utility.value(x)), w)

    return kernel


class JumpSearch:
    """Where the mean slope of a sample passes 1, starting from a first probe and a sketch that may be rough."""

    def __init__(self, sample: Sample, utility: Utility, centre: float, mass: float, low: float, high: float) -> None:
        """Losses lie in [low, high], less the centre."""
        self.sample, self.utility, self.centre, self.mass = sample, utility, centre, mass
        self.least, self.greatest = low, high
        self.low, self.high = low - utility.anchor, high - utility.anchor
        self.features = features_of(utility)
        self.passes = 0

    def run(self, first: Probe, rough: Sketch, guess: float, value_only: bool = False) -> tuple[float, float]:
        """s, and s + E u there; with ``value_only`` s may have half of its digits only."""
        if first.lands:
            return first.s, first.s + first.value
        last, sketch, trial, stalls = first, rough, guess, 0
        for _ in range(_MOST_PASSES):
            closed = not self.low < 0.5 * (self.low + self.high) < self.high
            if closed:
                trial = self.high
            elif not self.low < trial <= self.high or stalls >= 3:
                trial, stalls = 0.5 * (self.low + self.high), 0
            probe, sketch = self._look(trial, sketch)
            if closed or probe.lands:
                return probe.s, probe.s + probe.value
            self.bound(probe)
            # A fall from afar says nothing of what the next step will do.
            ratio = abs(probe.residual) / max(min(abs(last.residual), 1.0), _EPS)
            stalls += not abs(probe.residual) <= 0.5 * abs(last.residual)
            # From afar the sketch is the better guide without a correction that was right for another slope.
            near = abs(probe.residual) <= _NEAR
            lift = probe.left - sketch.slopes(self.utility, probe.s)[0] if near else 0.0
            trial, jump = sketch.root(self.utility, self.low, self.high, lift)
            # Sums of rounded slopes wobble by some eps; a residual of that size which no longer falls is the end,
            # unless the slope is 1 on a whole stretch: the left end of that is wanted.
            wobble = abs(probe.residual) <= (4.0 if ratio <= 0.5 else 256.0) * _EPS
            if jump == 0.0 and near and (wobble or abs(trial - probe.s) <= 2.0 * _EPS * abs(probe.s)):
                return probe.s, probe.s + probe.value
            if self._trusted(probe, sketch, trial, jump, ratio, value_only):
                change = sketch.value(self.utility, trial) - sketch.value(self.utility, probe.s)
                return trial, probe.s + probe.value + (change - lift * (trial - probe.s))
            last = probe
        raise RuntimeError(f"No shortfall found in {_MOST_PASSES} passes; the slope is not a decreasing function of t.")

    def _trusted(self, probe: Probe, sketch: Sketch, trial: float, jump: float, ratio: float, value_only: bool) -> bool:
        """Whether a look at the trial would tell nothing new.

        The last sketch brought the residual down by ``ratio``, and this one is finer: what it leaves is far below
        rounding, or far below the jump at the trial.
        """
        if not (ratio <= 1e-2 and abs(probe.residual) <= 0.1):
            return False
        step = abs(trial - probe.s)
        if self.utility.kinks and not step < sketch.sure:
            return False
        to_come = 16.0 * ratio * abs(probe.residual)
        even = to_come * step <= 1e-15 * (abs(probe.s) + abs(probe.value))
        if jump > 0.0:
            return even and to_come + 256.0 * _EPS < jump
        return to_come <= 4.0 * _EPS or (value_only and even)

    def bound(self, probe: Probe) -> None:
        """Let the root lie on the side of a probe that its slope says."""
        if probe.left > _ONE:
            self.low = max(self.low, probe.s)
        else:
            self.high = min(self.high, probe.s)

    def _look(self, s: float, known: Sketch) -> tuple[Probe, Sketch]:
        """One pass: exact sums at s, and a sketch of the sample around it."""
        self.passes += 1
        reach = known.reach(self.features, s, self.sample.size)
        frame = Frame.around(s, self.features, self.least, self.greatest, reach)
        sums_of, sketch_of = probing(self.utility, self.centre, s), frame.kernel(self.centre)

        def combine(parts: list[tuple[tuple[float, ...], tuple[Floats, ...]]]) -> tuple[object, object]:
            sums, sketches = zip(*parts, strict=True)
            return add_columns(list(sums)), frame.join(list(sketches))

        sums, parts = self.sample.fold(lambda z, w: (sums_of(z, w), sketch_of(z, w)), combine)
        return Probe(s, *(float(total) / self.mass for total in sums)), frame.sketch(parts, self.mass)
