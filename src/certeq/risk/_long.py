"""One long sample: threshold and OCE in one to three passes over its blocks.

A small random draw gives the start, so that the first pass, which has to look at every loss anyway for NaN and the
range, already does the work of a closed form or of a first Newton step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from certeq._table import BLOCK, ArrayTable, Block, Summary, Sums, Table, WideSums
from certeq.risk._input import check_utility
from certeq.risk._jumps import JumpSearch, Probe, probing
from certeq.risk._root import step_of
from certeq.risk._rows import slope_and_bend, solve_rows
from certeq.risk._select import upper_quantile
from certeq.risk._sketch import Floats, Sketch, centered
from certeq.risk._sketch import shifted as _shift
from certeq.risk._sketch import weighted_sum as _sum
from certeq.risk._survey import LONG, Draw, NotFinite, drawn_from, raise_not_finite, survey
from certeq.utilities import Exponential, Pieces, Quadratic, Utility
from certeq.utilities.forms import form

_FAR_OFF = 0.5  # a mean slope this far from 1 where the draw's was 1
_FAST = 0.1  # what a Newton step leaves of the residual at most, where it works
_EPS = float(np.finfo(np.float64).eps)
_HEADROOM = 12.0  # the greatest loss of all lies a little above the greatest one drawn


@dataclass
class LongSolved:
    """A long sample's center c, threshold c + s, OCE, and how many passes over the data that took."""

    sample: Table
    extent: Summary
    center: float
    s: float
    value: float
    passes: int

    @property
    def threshold(self) -> float:
        """t* in the units of the losses."""
        return self.center + self.s

    def means(self, function: Callable[[Floats], tuple[Floats, ...]]) -> Floats:
        """Means of what ``function`` makes of the losses less their threshold; one pass."""
        center, s = self.center, self.s

        def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
            return tuple(_sum(part, w) for part in function(_shift(z, center, s)))

        return np.array(self.sample.reduce(Sums(kernel))) / self.extent.mass


def solve_long(sample: Table, utility: Utility, value_only: bool = False) -> LongSolved:
    """Threshold and OCE of a long sample; `NotFinite` where a loss is NaN or infinite.

    With ``value_only`` a pass may be saved: OCE is flat at the threshold, which then has half of its digits only.
    """
    match utility.shape:
        case Exponential(rate):  # a rough idea of the range is enough
            return _log_mean_exp(sample, drawn_from(sample, 1 << 12), rate, utility)
        case Quadratic(bend):
            return _mean_and_variance(sample, drawn_from(sample, 1 << 12), bend, utility)
        case Pieces() as pieces:
            # A longer draw makes a narrower window around the quantile; a mean needs a rough idea of itself only.
            window = max(1 << 13, min(len(sample) >> 7, 1 << 15), min(len(sample) >> 10, 1 << 18))
            draw = drawn_from(sample, window if pieces.low < pieces.high else 1 << 12)
            return _quantile(sample, draw, pieces, utility)
    if form(utility).kinks or not utility.has_curvature:
        return _jumping(sample, drawn_from(sample), utility, value_only)
    return _newton(sample, drawn_from(sample), utility, value_only)


def solve_sample(sample: Table, utility: Utility, value_only: bool = False) -> LongSolved:
    """`solve_long`, with a complaint that names the loss where one is not finite."""
    check_utility(utility).anchor  # noqa: B018  (a sum whose slopes never reach 1 says so here)
    try:
        return solve_long(sample, utility, value_only)
    except NotFinite:
        raise_not_finite(sample, isinstance(utility.shape, Exponential))
        raise_not_finite(sample, False)  # nothing but -inf
        raise


def tilting(solved: LongSolved, utility: Utility) -> Callable[[Floats, Floats | None], Floats]:
    """A kernel for the tilt of every loss but for a common factor; ties at a kink share what is left of 1."""
    center, s, share = solved.center, solved.s, 0.0
    shape, slopes = utility.shape, form(utility).slopes
    if isinstance(shape, Pieces) and shape.low == shape.high:
        s = 0.0
    elif utility.kinks:

        def ends(z: Floats, w: Floats | None) -> tuple[float, float]:
            left, right = slopes(centered(z, center), s)
            return _sum(left, w), _sum(right, w)

        below, above = np.array(solved.sample.reduce(Sums(ends))) / solved.extent.mass
        share = min(max((1.0 - below) / (above - below), 0.0), 1.0) if above > below else 0.0

    def kernel(z: Floats, w: Floats | None) -> Floats:
        part = np.zeros(z.shape)
        held = slice(None) if w is None else w > 0
        with np.errstate(under="ignore"):
            left, right = slopes(centered(z[held], center), s)
        part[held] = left + share * (right - left)
        if w is not None:
            part *= w
        return part

    return kernel


def tilt_long(solved: LongSolved, utility: Utility, out: Floats) -> None:
    """Write the tilt of every loss into ``out``, block by block."""
    tilt_of = tilting(solved, utility)

    def kernel(block: Block) -> Floats:
        return tilt_of(block.rows, block.weights)

    assert isinstance(solved.sample, ArrayTable)
    solved.sample.elementwise(kernel, out)
    if utility.is_monotone:
        out /= math.fsum(float(out[i : i + BLOCK].sum()) for i in range(0, out.size, BLOCK))
    else:  # slopes of both signs: their sum has fewer digits than the mass it should be
        out /= solved.extent.mass


def _log_mean_exp(sample: Table, draw: Draw, rate: float, utility: Utility) -> LongSolved:
    passes = 0
    center = float(draw.z.max()) if draw.z.size else 0.0
    flat = draw.z.size > 0 and rate * (center - float(draw.z.min())) < 1.0
    if draw.z.size and not flat:
        # Nothing near overflow or underflow: a subtraction saved.
        center = 0.0 if rate * float(np.abs(draw.z).max()) <= _HEADROOM else center - _HEADROOM / rate
    while True:

        def kernel(z: Floats, w: Floats | None, center: float = center, flat: bool = flat) -> tuple[float]:
            with np.errstate(under="ignore", over="ignore"):
                x = z if center == 0.0 else z - center
                if rate != 1.0:
                    x = np.multiply(x, rate, out=None if x is z else x)
                if flat:
                    return (_sum(np.expm1(x), w),)
                return (_sum(np.exp(x, out=None if x is z else x), w),)

        size, (total,) = survey(sample, WideSums(kernel), allow_low=True)
        passes += 1
        # Any center will do that neither overflows nor pushes the greatest loss towards underflow.
        if abs(rate * (size.high - center)) <= 300.0 and not (flat and total <= -0.9):
            break
        center, flat = size.high - _HEADROOM / rate, False
    level = float(np.log1p(total) if flat else np.log(total)) / rate
    return LongSolved(sample, size, center, level - utility.anchor, center + level + utility.oce_of_zero, passes)


def _mean_and_variance(sample: Table, draw: Draw, bend: float, utility: Utility) -> LongSolved:
    middle = draw.mean
    passes = 0
    while True:

        def kernel(z: Floats, w: Floats | None, middle: float = middle) -> tuple[float, float]:
            x = z - middle
            return _sum(x, w), _sum(x * x, w)

        size, (shift, square) = survey(sample, WideSums(kernel))
        passes += 1
        # E x**2 - (E x)**2 keeps its digits while the guessed mean is within a standard deviation of the true one.
        if shift * shift <= 0.5 * square or passes == 3:
            break
        middle += float(shift)
    value = middle + float(shift) + utility.oce_of_zero + 0.5 * bend * float(square - shift * shift)
    return LongSolved(sample, size, middle, float(shift) - utility.anchor, value, passes)


def _quantile(sample: Table, draw: Draw, pieces: Pieces, utility: Utility) -> LongSolved:
    base = float(utility.value(pieces.kink)) - pieces.kink
    average = 0.0
    if pieces.low != 0.0 or sample.weighted:
        middle = draw.mean
        size, (shift,) = survey(sample, WideSums(lambda z, w: (_sum(z - middle, w),)))
        average = middle + float(shift)
        if pieces.low == pieces.high:
            return LongSolved(sample, size, average, -utility.anchor, average + utility.oce_of_zero, 1)
        found, surveyed = upper_quantile(sample, pieces.tail, size.mass, draw.z, draw.weights), 1
    else:
        size, surveyed = Summary(-np.inf, np.inf, float(len(sample)), float(len(sample))), 0
        found = upper_quantile(sample, pieces.tail, size.mass, draw.z, draw.weights)
    if not np.isfinite(found.excess) or not np.isfinite(found.value):
        raise NotFinite
    level = pieces.low * (average - found.value) + (pieces.high - pieces.low) * found.excess
    return LongSolved(sample, size, found.value, -pieces.kink, found.value + (level + base), surveyed + found.passes)


class _Slopes:
    """Mean slope and curvature of the sample at a trial s, remembering the last answer."""

    def __init__(self, sample: Table, utility: Utility, center: float) -> None:
        self.sample, self.utility, self.center = sample, utility, center
        self.mass = np.nan
        self.passes = 0
        self.known: dict[float, tuple[float, ...]] = {}
        self.seen: dict[float, float] = {}  # mean slopes at all points tried

    def sums(self, s: float, with_value: bool) -> Sums:
        # The kernel may travel: it takes these along, not the sample.
        utility, shape, center = self.utility, form(self.utility), self.center

        def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
            y = centered(z, center)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                slope, curvature = slope_and_bend(shape, y, s)
                pair = _sum(slope, w), _sum(curvature, w)
                return (*pair, _sum(np.asarray(utility.value(y - s)), w)) if with_value else pair

        return Sums(kernel)

    def look(self, s: float, with_value: bool) -> None:
        """One pass at s; where it is to be the last, the value there is cheap alongside."""
        self.known = {s: tuple(np.array(self.sample.reduce(self.sums(s, with_value))) / self.mass)}
        self.passes += 1

    def descend(self, s: float, low: float, high: float) -> float | None:
        """Newton's method from s, where the sums are known; None where it gets nowhere fast."""
        last, far = math.inf, 0
        while True:
            slope, curvature = self.known[s][:2]
            self.seen[s] = float(slope)
            low, high = (s, high) if slope > 1.0 else (low, s)
            residual = abs(slope - 1.0)
            # Sums of rounded slopes wobble by some eps; a residual of that size which no longer falls is the end.
            if residual <= 4.0 * _EPS or 0.5 * last < residual <= 256.0 * _EPS:
                return s
            far += residual > _FAR_OFF
            # A power is straightened by its root, so that a step from afar may land; two that do not will not.
            if far > (2 if self.utility.growth > 1.0 else 0) or residual > _FAST * last:
                return None
            with np.errstate(all="ignore"):
                trial = s + float(step_of(np.float64(slope), np.float64(curvature), self.utility.growth))
            if abs(trial - s) <= _EPS * abs(s):
                # A slope far from 1 all the same: a root between two floats, or a curve that is steep just here.
                return s if residual <= 1e-3 and last < math.inf else None
            if not low < trial < high:
                return None
            # Newton squares the error: the residual to come is about (residual / last**2) * residual**2. When that is
            # far below rounding the last step is taken on trust. Only near the root: from afar a residual
            # can fall a millionfold and still be large.
            if last <= 0.1 and residual <= 1e-2 * last and _after(residual, last) <= 4.0 * _EPS:
                return trial
            ahead = residual**2 * (residual / last**2 if last <= 0.1 else 1.0)
            last, s = residual, trial
            self.look(s, with_value=_after(ahead, residual) <= 64.0 * _EPS)

    def least_value(self, start: float, low: float, high: float, growth: float) -> tuple[float, float | None]:
        """One Newton step from ``start``, where the sums are known, and the least value s + E u as seen from there.

        With g the mean slope less 1, the value at s falls by the integral of g up to its root. Newton's straight line
        gives g**2/2h of it; the bend of g, known from slope and curvature at both points, corrects that. Where the
        correction is near rounding itself, what it leaves is nothing. Else the value is None, and the new
        point is where to go on.
        """
        m0, h0 = self.known[start][:2]
        self.seen[start] = float(m0)
        if not (abs(m0 - 1.0) <= _FAR_OFF or growth > 1.0) or not h0 < math.inf:
            return start, None
        step = float(step_of(m0, h0, growth)) if h0 > 0.0 else math.inf
        s = start + step
        if not (low < s < high and m0 > 0.0) or step == 0.0:
            return start, None
        self.known = {s: tuple(np.array(self.sample.reduce(self.sums(s, True))) / self.mass)}
        self.passes += 1
        m1, h1, value = self.known[s]
        if not h1 > 0.0:
            return s, None
        ahead = (m1 - 1.0) / h1
        bend = (4.0 * h1 + 2.0 * h0 - 6.0 * (m0 - m1) / step) / -step
        correction = bend * ahead**3 / 6.0
        # Slopes that fall as the step foresaw, and not a curve that happens to be steep where the step ends.
        near = abs(m1 - 1.0) <= 0.1 * min(abs(m0 - 1.0), 1.0) and abs(ahead) <= 0.1 * abs(step)
        if not (near and abs(correction) <= 2e-14 * (abs(s) + abs(value))):
            return s, None
        return s + ahead, s + value - 0.5 * (m1 - 1.0) * ahead - correction

    def value_at(self, s: float) -> float:
        """s + E u(z - center - s), from the last pass where it was close enough, else from a pass of its own."""
        ((at, known),) = self.known.items()
        if len(known) == 3 and abs(s - at) * abs(known[0] - 1.0) <= 1e-14 * (abs(s) + abs(known[2])):
            return at + known[2] - 0.5 * (s - at) * (known[0] - 1.0)

        utility, center = self.utility, self.center

        def kernel(z: Floats, w: Floats | None) -> tuple[float]:
            return (_sum(np.asarray(utility.value(_shift(z, center, s))), w),)

        self.passes += 1
        return s + self.sample.reduce(Sums(kernel))[0] / self.mass


def _after(residual: float, last: float) -> float:
    """What Newton leaves of a residual that was ``last`` a step before, with a margin."""
    ratio = float(residual / last)
    return 16.0 * ratio * ratio * float(residual)  # vast ones overflow without a word, which no power of a float does


def _newton(sample: Table, draw: Draw, utility: Utility, value_only: bool) -> LongSolved:
    slopes = _Slopes(sample, utility, draw.center)
    s = _rough(draw, utility) - draw.center if draw.z.size else 0.0
    size, first = survey(sample, slopes.sums(s, False))
    slopes.mass, slopes.passes, slopes.known = size.mass, 1, {s: tuple(first)}
    low, high = (end - draw.center - utility.anchor for end in (size.low, size.high))
    if value_only:
        s, least = slopes.least_value(s, low, high, utility.growth)
        if least is not None:
            return LongSolved(sample, size, draw.center, s, draw.center + least, slopes.passes)
    found = slopes.descend(s, low, high)
    if found is None:  # a tail so heavy that the draw missed what matters, or slopes that rise within a short stretch
        probes = [Probe(point, slope, slope, np.nan) for point, slope in slopes.seen.items()]
        return _search(sample, draw, utility, size, probes, slopes.passes, value_only)
    return LongSolved(sample, size, draw.center, found, float(draw.center + slopes.value_at(found)), slopes.passes)


def _jumping(sample: Table, draw: Draw, utility: Utility, value_only: bool) -> LongSolved:
    start = _rough(draw, utility) - draw.center if draw.z.size else 0.0
    size, first = survey(sample, probing(utility, draw.center, start))
    return _search(sample, draw, utility, size, [Probe(start, *map(float, first))], 1, value_only)


def _search(
    sample: Table, draw: Draw, utility: Utility, size: Summary, probes: list[Probe], passes: int, value_only: bool
) -> LongSolved:
    low, high = size.low - draw.center, size.high - draw.center
    search = JumpSearch(sample, utility, draw.center, size.mass, low, high)
    for probe in probes:
        search.bound(probe)
    best = min(probes, key=lambda probe: abs(probe.residual) if math.isfinite(probe.residual) else math.inf)
    s, value = search.run(best, draw.sketch(), value_only)
    return LongSolved(sample, size, draw.center, s, draw.center + value, passes + search.passes)


def _rough(draw: Draw, utility: Utility) -> float:
    """The threshold of the draw; a large draw is a long sample itself, with a draw of its own."""
    if draw.z.size >= LONG:
        return solve_long(ArrayTable(draw.z, draw.weights), utility).threshold
    w = draw.weights
    share = None if w is None else (w / w.sum())[None, :]
    found = float(solve_rows(draw.z[None, :], share, utility).threshold[0])
    # Rows are solved relative to their greatest loss, and what is far below its last digit is lost there.
    equal = np.full(draw.z.size, 1.0 / draw.z.size)
    all_of_it = Sketch(draw.z, equal if w is None else w / w.sum(), equal)
    left, right = all_of_it.slopes(utility, found)
    if left - _FAR_OFF <= 1.0 <= right + _FAR_OFF:
        return found
    low, high = (float(end) - utility.anchor for end in (draw.z.min(), draw.z.max()))
    return all_of_it.root(utility, low, high, lambda s: 0.0)[0]
