"""One long sample: shortfall and OCE in one to three passes over its blocks.

A small random draw gives the start, so that the first pass, which has to look at every loss anyway for NaN and the
range, already does the work of a closed form or of a first Newton step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from certeq.risk._exp_sum import REACH, sum_exp
from certeq.risk._input import check_weights
from certeq.risk._root import find_root
from certeq.risk._rows import near_kink, slope_and_bend, solve_rows
from certeq.risk._sample import BLOCK, LONG, ArraySample, Floats, Kernel, Sample
from certeq.risk._sample import shifted as _shift
from certeq.risk._sample import weighted_sum as _sum
from certeq.risk._select import upper_quantile
from certeq.utilities import Exponential, Pieces, Quadratic, Utility

DRAW = 1 << 17  # at most so many losses are drawn for the start
_HEADROOM = 0.75 * REACH  # the greatest loss of all lies a little above the greatest one drawn


class NotFinite(ValueError):
    """A sample holds NaN or an infinity that its utility cannot take; whoever knows the caller's array says where."""


@dataclass
class Extent:
    """Range and total weight of a sample; ``square`` is the sum of squared weights over the squared total."""

    low: float
    high: float
    mass: float
    square: float


Extra = Callable[[Floats, Floats | None], tuple[float, ...]]


def survey(sample: Sample, extra: Extra | None = None, allow_low: bool = False) -> tuple[Extent, Floats]:
    """One pass: the range of losses of positive weight, the total weight, and means of whatever ``extra`` sums up.

    With ``allow_low`` the least loss may be -inf, nobody needs it, and it is not looked for.
    """

    def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
        if w is None:
            low = -np.inf if allow_low else float(z.min())
            more = () if extra is None else extra(z, w)
            return low, float(z.max()), float(z.size), float(z.size), 0.0, 0.0, *more
        held = z[w > 0]
        low, high = (float(held.min()), float(held.max())) if held.size else (np.inf, -np.inf)
        more = () if extra is None else extra(held, w[w > 0])
        if not np.isfinite(z.sum()):  # NaN and infinities are refused whatever their weight
            low, high = float(z.min()), float(z.max())
        return low, high, float(w.sum()), float((w * w).sum()), float(w.min()), float(w.max()), *more

    low, high, mass, square, lightest, heaviest, *sums = sample.fold(kernel, _merge_survey, every=True)
    if sample.weighted:
        check_weights(lightest, mass, heaviest)
    if not np.isfinite(high) or not (np.isfinite(low) or (allow_low and low == -np.inf)):
        raise NotFinite
    return Extent(low, high, mass, square / mass**2), np.array(sums) / mass


def _merge_survey(parts: list[tuple[float, ...]]) -> tuple[float, ...]:
    table = np.array(parts)
    low, high, lightest, heaviest = table[:, 0].min(), table[:, 1].max(), table[:, 4].min(), table[:, 5].max()
    with np.errstate(invalid="ignore", over="ignore"):
        mass, square, *sums = table[:, [2, 3, *range(6, table.shape[1])]].sum(axis=0)
    return tuple(float(number) for number in (low, high, mass, square, lightest, heaviest, *sums))


@dataclass
class LongSolved:
    """A long sample's centre c, shortfall c + s, OCE, and how many passes over the data that took."""

    sample: Sample
    extent: Extent
    centre: float
    s: float
    value: float
    passes: int

    @property
    def shortfall(self) -> float:
        """t* in the units of the losses."""
        return self.centre + self.s

    def means(self, function: Callable[[Floats], tuple[Floats, ...]]) -> Floats:
        """Means of what ``function`` makes of the losses less their shortfall; one pass."""
        centre, s = self.centre, self.s

        def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
            return tuple(_sum(part, w) for part in function(_shift(z, centre, s)))

        return self.sample.total(kernel) / self.extent.mass


@dataclass
class _Draw:
    """A small random part of the sample."""

    z: Floats
    weights: Floats | None

    @property
    def centre(self) -> float:
        """0, unless the losses lie so far from 0, compared with their spread, that t* - centre must be kept apart."""
        if self.z.size == 0:
            return 0.0
        low, high = float(self.z.min()), float(self.z.max())
        return 0.0 if max(abs(low), abs(high)) <= 16.0 * (high - low) else high


def _draw(sample: Sample, most: int = DRAW) -> _Draw:
    z, w = sample.draw(min(most, max(sample.size // 32, 1 << 12)))
    held = np.isfinite(z) if w is None else np.isfinite(z) & (w > 0)
    return _Draw(z[held], None if w is None else w[held])


def solve_long(sample: Sample, utility: Utility) -> LongSolved:
    """Shortfall and OCE of a long sample; `NotFinite` where a loss is NaN or infinite."""
    match utility.shape:
        case Exponential(rate):  # a rough idea of the range is enough
            return _log_mean_exp(sample, _draw(sample, 1 << 12), rate, utility)
        case Quadratic(bend):
            return _mean_and_variance(sample, _draw(sample, 1 << 12), bend, utility)
        case Pieces() as pieces:
            return _quantile(sample, _draw(sample, 1 << 15), pieces, utility)
    return _newton(sample, _draw(sample), utility)


def tilt_long(solved: LongSolved, utility: Utility, out: Floats) -> None:
    """Write the tilt of every sample into ``out``, block by block; ties at a kink share what is left of 1."""
    centre, s, share = solved.centre, solved.s, 0.0
    shape = utility.shape
    if isinstance(shape, Pieces) and shape.low == shape.high:
        s = 0.0
    elif utility.kinks:

        def ends(z: Floats, w: Floats | None) -> tuple[float, float]:
            left, right = near_kink(_shift(z, centre, s), utility)
            return _sum(left, w), _sum(right, w)

        below, above = solved.sample.total(ends) / solved.extent.mass
        share = min(max((1.0 - below) / (above - below), 0.0), 1.0) if above > below else 0.0
    place = 0

    def write(z: Floats, w: Floats | None) -> None:
        nonlocal place
        part = out[place : place + z.size]
        place += z.size
        held = slice(None) if w is None else w > 0
        with np.errstate(under="ignore"):
            left, right = near_kink(_shift(z[held], centre, s), utility)
        part[:] = 0.0
        part[held] = left + share * (right - left)
        if w is not None:
            part *= w

    solved.sample.in_order(write)
    out /= math.fsum(float(out[i : i + BLOCK].sum()) for i in range(0, out.size, BLOCK))


def _log_mean_exp(sample: Sample, draw: _Draw, rate: float, utility: Utility) -> LongSolved:
    passes = 0
    centre = float(draw.z.max()) if draw.z.size else 0.0
    flat = draw.z.size > 0 and rate * (centre - float(draw.z.min())) < 1.0
    if draw.z.size and not flat:
        # Nothing near overflow or underflow: a subtraction saved. Else the greatest losses go to the table's upper end.
        centre = 0.0 if rate * float(np.abs(draw.z).max()) <= _HEADROOM else centre - _HEADROOM / rate
    while True:

        def kernel(z: Floats, w: Floats | None, centre: float = centre, flat: bool = flat) -> tuple[float]:
            with np.errstate(under="ignore", over="ignore"):
                x = z if centre == 0.0 else z - centre
                if rate != 1.0:
                    x = rate * x
                return (_sum(np.expm1(x), w) if flat else sum_exp(x, w),)

        size, (total,) = survey(sample, kernel, allow_low=True)
        passes += 1
        # Any centre will do that neither overflows nor pushes the greatest loss towards underflow.
        if abs(rate * (size.high - centre)) <= 300.0 and not (flat and total <= -0.9):
            break
        centre, flat = size.high - _HEADROOM / rate, False
    level = float(np.log1p(total) if flat else np.log(total)) / rate
    return LongSolved(sample, size, centre, level - utility.anchor, centre + level + utility.oce_of_zero, passes)


def _mean_and_variance(sample: Sample, draw: _Draw, bend: float, utility: Utility) -> LongSolved:
    middle = float(draw.z.mean()) if draw.z.size else 0.0
    passes = 0
    while True:

        def kernel(z: Floats, w: Floats | None, middle: float = middle) -> tuple[float, float]:
            x = z - middle
            return _sum(x, w), _sum(x * x, w)

        size, (shift, square) = survey(sample, kernel)
        passes += 1
        # E x**2 - (E x)**2 keeps its digits while the guessed mean is within a standard deviation of the true one.
        if shift * shift <= 0.5 * square or passes == 3:
            break
        middle += float(shift)
    value = middle + float(shift) + utility.oce_of_zero + 0.5 * bend * float(square - shift * shift)
    return LongSolved(sample, size, middle, float(shift) - utility.anchor, value, passes)


def _quantile(sample: Sample, draw: _Draw, pieces: Pieces, utility: Utility) -> LongSolved:
    base = float(utility.value(pieces.kink)) - pieces.kink
    average = 0.0
    if pieces.low != 0.0 or sample.weighted:
        middle = float(draw.z.mean()) if draw.z.size else 0.0
        size, (shift,) = survey(sample, lambda z, w: (_sum(z - middle, w),))
        average = middle + float(shift)
        if pieces.low == pieces.high:
            return LongSolved(sample, size, average, -utility.anchor, average + utility.oce_of_zero, 1)
        found, surveyed = upper_quantile(sample, pieces.tail, size.mass, draw.z, draw.weights), 1
    else:
        size, surveyed = Extent(-np.inf, np.inf, float(sample.size), 1.0 / sample.size), 0
        found = upper_quantile(sample, pieces.tail, size.mass, draw.z, draw.weights)
    if not np.isfinite(found.excess) or not np.isfinite(found.value):
        raise NotFinite
    level = pieces.low * (average - found.value) + (pieces.high - pieces.low) * found.excess
    return LongSolved(sample, size, found.value, -pieces.kink, found.value + (level + base), surveyed + found.passes)


class _Slopes:
    """Mean slope and curvature of the sample at a trial s, remembering the last answer."""

    def __init__(self, sample: Sample, utility: Utility, centre: float) -> None:
        self.sample, self.utility, self.centre = sample, utility, centre
        self.mass = np.nan
        self.passes = 0
        self.known: dict[float, tuple[float, ...]] = {}
        self.residual = np.inf

    def sums(self, s: float, with_value: bool) -> Extra:
        def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
            x = _shift(z, self.centre, s)
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                slope, curvature = slope_and_bend(self.utility, x)
                pair = _sum(slope, w), _sum(curvature, w)
                return (*pair, _sum(np.asarray(self.utility.value(x)), w)) if with_value else pair

        return kernel

    def __call__(self, t: Floats, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
        s = float(t[0])
        if s not in self.known:
            # Close to the root the next point is the last: the value is wanted there, and is cheap alongside.
            near = self.residual <= 1e-3
            self.known = {s: tuple(self.sample.total(self.sums(s, near)) / self.mass)}
            self.passes += 1
        slope, curvature = self.known[s][:2]
        self.residual = abs(slope - 1.0)
        return np.array([slope]), np.array([curvature])

    def value_at(self, s: float) -> float:
        """s + E u(z - centre - s), from the last pass where it was close enough, else from a pass of its own."""
        ((at, known),) = self.known.items()
        if len(known) == 3 and abs(s - at) * abs(known[0] - 1.0) <= 1e-14 * (abs(s) + abs(known[2])):
            return at + known[2] - 0.5 * (s - at) * (known[0] - 1.0)

        def kernel(z: Floats, w: Floats | None) -> tuple[float]:
            return (_sum(np.asarray(self.utility.value(_shift(z, self.centre, s))), w),)

        self.passes += 1
        return s + float(self.sample.total(kernel)[0]) / self.mass


def _newton(sample: Sample, draw: _Draw, utility: Utility) -> LongSolved:
    slopes = _Slopes(sample, utility, draw.centre)
    start = 0.0
    if draw.z.size:
        start = _rough(draw, utility) - draw.centre
    size, first = survey(sample, slopes.sums(start, False))
    slopes.mass, slopes.passes, slopes.known = size.mass, 1, {start: tuple(first)}
    low = np.array([size.low - draw.centre - utility.anchor])
    high = np.array([size.high - draw.centre - utility.anchor])
    begin = np.array([start])
    settled = False
    if utility.kinks:
        low, high, settled = _between_kinks(slopes, low, high, start)
        begin = 0.5 * (low + high)
    if settled:
        s = float(high[0])
        slopes.known = {s: ()}
    else:
        s = float(find_root(slopes, low, high, begin, utility.growth).t[0])
    value = draw.centre + slopes.value_at(s)
    return LongSolved(sample, size, draw.centre, s, value, slopes.passes)


def _rough(draw: _Draw, utility: Utility) -> float:
    """The shortfall of the draw; a large draw is a long sample itself, with a draw of its own."""
    if draw.z.size >= LONG:
        return solve_long(ArraySample(draw.z, draw.weights), utility).shortfall
    w = draw.weights
    return float(solve_rows(draw.z[None, :], None if w is None else (w / w.sum())[None, :], utility).shortfall[0])


def _between_kinks(slopes: _Slopes, low: Floats, high: Floats, start: float) -> tuple[Floats, Floats, bool]:
    """Neighbouring breakpoints z_i - kink around the shortfall: narrow by passes, then search the few inside.

    The flag says that the slope jumps past 1 at the right end, which then is the shortfall itself.
    """
    nobody = np.zeros(1, dtype=np.intp)
    a, b = float(low[0]), float(high[0])

    def is_above(t: float) -> bool:
        return bool(slopes(np.array([t]), nobody)[0][0] > 1.0)

    width = 1e-3 * (b - a)
    trials = [start - width, start + width]
    while (inside := _breakpoints(slopes, a, b)) is None:
        t = trials.pop() if trials else 0.5 * (a + b)
        t = t if a < t < b else 0.5 * (a + b)
        a, b = (t, b) if is_above(t) else (a, t)
    i, j = -1, len(inside)
    while j - i > 1:
        k = (i + j) // 2
        i, j = (k, j) if is_above(float(inside[k])) else (i, k)
    left, right = (inside[i] if i >= 0 else a), (inside[j] if j < len(inside) else b)
    settled = False
    if j < len(inside):

        def kernel(z: Floats, w: Floats | None) -> tuple[float]:
            return (_sum(near_kink(_shift(z, slopes.centre, float(right)), slopes.utility)[1], w),)

        settled = float(slopes.sample.total(kernel)[0]) / slopes.mass >= 1.0
        slopes.passes += 1
    return np.array([left]), np.array([right]), settled


def _breakpoints(slopes: _Slopes, a: float, b: float, limit: int = 1 << 16) -> Floats | None:
    """Sorted distinct breakpoints in (a, b], or None where they are too many to list."""
    kinks = [kink for kink, _ in slopes.utility.kinks]
    found = [0]

    def kernel(z: Floats, w: Floats | None) -> Floats:
        y = z - slopes.centre
        kept = np.unique(np.concatenate([y[(y - kink > a) & (y - kink <= b)] - kink for kink in kinks]))
        found[0] += kept.size
        return kept if found[0] <= limit else kept[:0].copy()

    parts = slopes.sample.map(kernel)
    slopes.passes += 1
    # Two neighbouring floats have nothing between them, however many losses sit on the right one.
    if found[0] > limit and np.nextafter(a, b) < b:
        return None
    return np.unique(np.concatenate(parts)) if found[0] <= limit else np.array([b])
