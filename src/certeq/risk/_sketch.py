"""A long sample in a few thousand weighted points, from one pass: fine near the features of u, coarse afar.

A feature is a kink of u, or a point where its slope rises sharply. Losses near one at the trial threshold (x, the loss
less the trial, at a small distance x - f of a feature f) are listed as they are. The others go to bins whose width is a
fixed share of that distance, on a scale of octaves, so that any range and any heap of ties fits; a bin is two points
that have its mass, mean and variance. The next trial is where these points have a mean slope of 1, and a sketch around
it sees finer still.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from certeq._table import BLOCK, Block
from certeq.utilities import Utility
from certeq.utilities.forms import Form

_EPS = float(np.finfo(np.float64).eps)
_MANTISSA = 52
_FINE = 5  # bins per octave, as a power of 2, where so many fit
_BINS = 1 << 16  # bins in all, about
_OCTAVES = 64  # below the furthest loss, at least,
_BELOW = 16  # and so many below the distance up to which losses are listed
_LISTED = 4096  # losses to be listed around a trial, about; of a long sample more, or they are too near to one another
_MOST_LISTED = 1 << 17
_PER_BLOCK = BLOCK // 16
_MOST_BREAKS = 1 << 19  # breakpoints looked at together: four megabytes, however many kinks there are
_MOST_FEATURES = 2048
_MOST_STEEP = 64
_SPREAD = 1e-12  # a relative variance below this is the rounding of ties
Floats = NDArray[np.float64]
Parts = tuple[NDArray[Any], ...]


def weighted_sum(part: Floats, w: Floats | None) -> float:
    """Sum of w * part, or of the part alone."""
    # Not np.dot: a threaded BLAS inside our own threads would fight for the same cores.
    return float(part.sum()) if w is None else float((w * part).sum())


def centered(z: Floats, center: float) -> Floats:
    """z - center, without a copy where there is nothing to subtract."""
    return z if center == 0.0 else z - center


def shifted(z: Floats, center: float, s: float) -> Floats:
    """(z - center) - s, in two roundings only where the offset of the losses would cost digits."""
    if center == 0.0:
        return z - s
    x = z - center
    x -= s
    return x


@dataclass(frozen=True)
class Frame:
    """The kernel of a sketch, and where it looks: a trial s, the features of u, the range and what is listed.

    Losses are taken less their ``center``.
    """

    center: float
    s: float
    features: tuple[float, ...]
    fine: int
    base: int
    near: int
    levels: int
    wide: ClassVar[bool] = False

    @classmethod
    def around(
        cls, center: float, s: float, features: tuple[float, ...], low: float, high: float, reach: float
    ) -> Frame:
        """A frame for losses in [low, high], less their center, that lists those within ``reach`` of a feature.

        Features are in rising order.
        """
        furthest = max(abs(end - s - feature) for end in (low, high) for feature in (features[0], features[-1]))
        fine = min(_FINE, max(1, (_BINS // (2 * _OCTAVES * len(features))).bit_length() - 1))
        top, listed = (_level_of(max(distance, 1e-290), fine) for distance in (furthest, reach))
        levels = max(_OCTAVES << fine, top - listed + (_BELOW << fine))
        base = top - levels + 1
        return cls(center, s, features, fine, base, min(max(listed - base, 0), levels - 1), levels)

    @property
    def _bins(self) -> int:
        return 2 * self.levels * len(self.features)

    def __call__(self, block: Block) -> Parts:
        """Bins that are not empty, one loss, mass, moments and number of each, and the losses that are listed."""
        levels, bins, w = self.levels, self._bins, block.weights
        y = centered(block.rows, self.center)
        d = y - self.s
        which = _nearest(d, self.features) if len(self.features) > 1 else None
        d -= self.features[0] if which is None else np.array(self.features)[which]
        key = np.abs(d).view(np.int64)
        key >>= _MANTISSA - self.fine
        key -= self.base
        np.clip(key, 0, levels - 1, out=key)
        listed = key < self.near
        np.add(key, levels, out=key, where=d < 0.0)
        if which is not None:
            which *= 2 * levels
            key += which
        count = np.bincount(key, minlength=bins) if w is None else np.bincount(key, w, minlength=bins)
        first = np.bincount(key, d if w is None else w * d, minlength=bins)
        second = np.bincount(key, d * d if w is None else w * d * d, minlength=bins)
        number = count if w is None else np.bincount(key, minlength=bins)
        one = np.empty(bins)
        one[key] = y
        filled = np.flatnonzero(count)
        points = y[listed]
        masses = np.ones(points.size) if w is None else w[listed]
        if points.size > _PER_BLOCK:  # too many: NaN says that the bins have to do
            points, masses = np.array([np.nan]), np.zeros(1)
        sums = (count[filled].astype(np.float64), first[filled], second[filled], number[filled].astype(np.float64))
        return filled, one[filled], *sums, points, masses

    def join(self, parts: Sequence[Parts]) -> Parts:
        """Sketches of neighbors as one."""
        filled, ones, *moments, points, masses = (np.concatenate(part) for part in zip(*parts, strict=True))
        bins = self._bins
        one = np.empty(bins)
        one[filled] = ones
        totals = [np.bincount(filled, moment, minlength=bins) for moment in moments]
        kept = np.flatnonzero(totals[0])
        if points.size > 4 * _MOST_LISTED or np.isnan(points).any():
            points, masses = np.array([np.nan]), np.zeros(1)
        return kept, one[kept], *(total[kept] for total in totals), points, masses

    def sketch(self, parts: Parts, mass: float) -> Sketch:
        """The points that stand for the sample."""
        filled, one, count, first, second, number, points, masses = parts
        losses = float(number.sum())
        sure = _distance_of(self.near + self.base, self.fine)
        if np.isnan(points).any():
            points, masses, sure = np.empty(0), np.empty(0), 0.0
        else:
            rest = filled % self.levels >= self.near
            filled, one, count, first, second, number = (part[rest] for part in parts[:-2])
        mean = first / count
        with np.errstate(invalid="ignore", over="ignore"):
            variance = second / count - mean * mean
            tied = ~(variance > _SPREAD * mean * mean) | ~np.isfinite(variance)
        spread = np.sqrt(np.where(tied, 0.0, variance))
        at = np.where(tied, one, self.s + np.array(self.features)[filled // (2 * self.levels)] + mean)
        return Sketch(
            np.concatenate([points, at - spread, at + spread]),
            np.concatenate([masses, 0.5 * count, 0.5 * count]) / mass,
            np.concatenate([np.ones(points.size), 0.5 * number, 0.5 * number]) / losses,
            sure,
        )


def _nearest(x: Floats, features: tuple[float, ...]) -> NDArray[np.int64]:
    """Which of the features, in rising order, is nearest."""
    middles = [0.5 * (a + b) for a, b in itertools.pairwise(features)]
    if len(middles) > 3:
        return np.searchsorted(middles, x)
    which = np.zeros(x.shape, dtype=np.int64)
    for middle in middles:
        which += x > middle
    return which


def _level_of(distance: float, fine: int) -> int:
    return int(np.array([distance]).view(np.int64)[0] >> (_MANTISSA - fine))


def _distance_of(level: int, fine: int) -> float:
    return float(np.array([level << (_MANTISSA - fine)], dtype=np.int64).view(np.float64)[0])


@dataclass
class Sketch:
    """Points, less the center of the sample, their masses, and which share of the losses each stands for."""

    points: Floats
    masses: Floats
    shares: Floats
    sure: float = 0.0  # steps from the trial up to this length meet no breakpoint but those of listed losses

    def slopes(self, form: Form, s: float) -> tuple[float, float]:
        """Mean left and right slope at s."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            left, right = form.slopes(self.points, s)
            return weighted_sum(left, self.masses), weighted_sum(right, self.masses)

    def size_of_slopes(self, form: Form, s: float) -> float:
        """Mean size of the slopes at s."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return weighted_sum(np.abs(form.slopes(self.points, s)[0]), self.masses)

    def value(self, form: Form, s: float) -> float:
        """s + E u at s."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return s + weighted_sum(np.asarray(form.utility.value(self.points - s)), self.masses)

    def reach(self, features: tuple[float, ...], s: float, size: int) -> float:
        """How far from the features one may list losses at s before there are too many."""
        wanted = max(_LISTED, min(size >> 10, _MOST_LISTED))
        x = self.points - s
        distance = np.abs(x - np.array(features)[_nearest(x, features)])
        order = np.argsort(distance)
        # A block may list a sixteenth of its losses; half of that allows for uneven blocks.
        many = int(np.searchsorted(np.cumsum(self.shares[order]), min(wanted / size, 1.0 / 32.0)))
        return float(distance[order[min(many, order.size - 1)]])

    def root(self, form: Form, low: float, high: float, correction: Callable[[float], float]) -> tuple[float, float]:
        """The least s in (low, high] where the mean slope plus ``correction`` is 1 or less; how far it jumps past 1.

        The second number is the lesser of the two parts of the jump, above and below 1; 0 between breakpoints.
        """
        one = 1.0 + 64.0 * _EPS

        def excess(s: float) -> float:
            return flattened(self.slopes(form, s)[0] + correction(s) - (one if form.kinks else 1.0))

        complete, on_break = not form.kinks, False
        while not complete:
            breaks, complete = self._breaks(form, low, high)
            first, last = 0, breaks.size  # the first breakpoint at which the slope has come down is among these
            while first < last:
                middle = (first + last) // 2
                first, last = (first, middle) if excess(float(breaks[middle])) <= 0.0 else (middle + 1, last)
            low = float(breaks[first - 1]) if first > 0 else low
            if first < breaks.size:
                high, on_break = float(breaks[first]), True
        if on_break:
            left, right = (slope + correction(high) - one for slope in self.slopes(form, high))
            if right > 0.0:
                return high, min(right, -left)
        return falls_to_zero(excess, low, high), 0.0

    def _breaks(self, form: Form, low: float, high: float) -> tuple[Floats, bool]:
        """Breakpoints strictly between two, in rising order; some of them where there are too many, and whether all."""
        found: list[Floats] = []
        step, count = 1, 0
        for at in form.kink_locations:
            breaks = self.points - at
            found.append(breaks[(breaks > low) & (breaks < high)][::step].copy())  # a view would hold all of them
            count += found[-1].size
            while count > _MOST_BREAKS:  # thin out on the way
                step *= 2
                found = [part[::2].copy() for part in found]
                count = sum(part.size for part in found)
        return np.unique(np.concatenate(found)), step == 1


def flattened(excess: float) -> float:
    """The excess itself near its root, and its logarithm where it is vast: chords then find exponentials too."""
    return math.log1p(excess) if excess > 0.0 else excess


def falls_to_zero(function: Callable[[float], float], low: float, high: float, tolerance: float | None = None) -> float:
    """The root of a decreasing function in (low, high], by chords (Illinois) safeguarded by bisection.

    One may be content with a value within eps of 0. With a ``tolerance``, the function has to be within it on both
    sides: on a stretch where it is 0 that is the left end.
    """
    above, below = function(low), function(high)
    ends = above, below
    for step in range(400):
        if not low < 0.5 * (low + high) < high:
            break
        if tolerance is not None and ends[0] <= tolerance and ends[1] >= -tolerance:
            break
        chord = high - below * (high - low) / (below - above) if math.isfinite(above) and below < above else math.nan
        trial = chord if step % 4 < 3 and low < chord < high else middle_float(low, high, step % 8 == 7)
        found = function(trial)
        if tolerance is None and abs(found) <= _EPS:
            return trial
        if found > 0.0:
            low, above, below = trial, found, 0.5 * below if step % 4 < 3 else below
            ends = found, ends[1]
        else:
            high, below, above = trial, found, 0.5 * above if step % 4 < 3 else above
            ends = ends[0], found
    return high


def middle_float(low: float, high: float, in_order: bool) -> float:
    """The middle of two floats, or the float that has as many on either side: that halves any range in 64 steps."""
    if not in_order:
        return 0.5 * (low + high)
    rank = sum(_rank_of(end) for end in (low, high)) // 2
    return float(_floats_at(np.array([rank]))[0])


def floats_between(low: float, high: float, parts: int) -> Floats:
    """Floats that cut [low, high] into so many parts with about as many floats in each."""
    first, last = _rank_of(low), _rank_of(high)
    return _floats_at(np.array([first + (last - first) * k // parts for k in range(1, parts)]))


def _rank_of(number: float) -> int:
    """How many floats lie between 0 and the number, with its sign."""
    bits = int(np.array([number]).view(np.int64)[0])
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)


def _floats_at(ranks: NDArray[np.int64]) -> Floats:
    return np.copysign(np.abs(ranks).view(np.float64), ranks)


def features_of(utility: Utility) -> tuple[float, ...]:
    """The features of u, sorted: its kinks, its anchor, and other points where the slope rises sharply."""
    sharpest = sorted(utility.kinks, key=lambda kink: -kink[1])[: _MOST_FEATURES - _MOST_STEEP]
    found = [kink for kink, _ in sharpest]
    found = found if any(abs(kink - utility.anchor) < 1e-9 for kink in found) else [*found, utility.anchor]
    return steep_points(utility.slope, found)


def steep_points(function: Callable[[Any], Any], known: list[float]) -> tuple[float, ...]:
    """The known points and those where an increasing function rises within a short stretch; sorted."""
    found, octaves = list(known), 2.0 ** np.arange(-50.0, 50.0, 0.125)
    for _ in range(8 if len(known) <= _MOST_STEEP else 0):  # near what was found the grid is finer, and may show more
        grid = np.unique(np.concatenate([feature + sign * octaves for feature in found for sign in (-1.0, 1.0)]))
        steep = _steep_within(function, grid, found)[: _MOST_STEEP + len(known) - len(found)]
        if not steep:
            break
        found += steep
    return tuple(sorted(found))


def _steep_within(function: Callable[[Any], Any], grid: Floats, known: list[float]) -> list[float]:
    """Middles of stretches, short for their cells of the grid, in which the slope rises by a share; steepest first.

    Known features, and slopes that no sample can hold, are left out.
    """
    parts = grid[:-1, None] + np.diff(grid)[:, None] * np.linspace(0.0, 1.0, 17)
    with np.errstate(all="ignore"):
        slope = np.asarray(function(parts), dtype=np.float64)
        rises = np.diff(slope, axis=1)
        # Two neighboring parts of sixteen: one of them may cut the rise in half.
        pairs = rises[:, 1:] + rises[:, :-1]
        steepest = pairs.max(axis=1)
        share = steepest / (1.0 + np.abs(slope[:, 0]))
        inside: NDArray[np.bool_] = np.isfinite(share) & (np.abs(slope).max(axis=1) < 1e9) & (share > 0.01)
        inside &= steepest > 0.3 * rises.sum(axis=1)
    for feature in known:
        inside &= (grid[1:] < feature) | (grid[:-1] > feature)
    found = []
    for cell in sorted(np.flatnonzero(inside), key=lambda cell: -share[cell]):
        part = int(np.argmax(pairs[cell]))
        a, b = float(parts[cell, part]), float(parts[cell, part + 2])
        half = 0.5 * (slope[cell, part] + slope[cell, part + 2])
        while a < (middle := 0.5 * (a + b)) < b:
            a, b = (middle, b) if float(function(np.array([middle]))[0]) < half else (a, middle)
        found.append(b)
    return found
