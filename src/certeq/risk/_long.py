"""One long sample: threshold and OCE in one to seven passes over its blocks.

A small random draw gives the start, so that the first pass, which has to look at every loss anyway for NaN and the
range, already does the work of a closed form or of a first Newton step. What follows depends on what is known of u:

- a closed form needs nothing more, or a second pass;
- where the curvature is known and nothing jumps, Newton's method, with sums that are compiled where they can be;
- where slopes jump, rise sharply or have heavy tails to add up, and for an opaque increasing function (shortfall
  risk), a search with sketches of the sample (`_search`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from certeq._checks import check_weight_sums
from certeq._table import Block, SumKernel, Summary, Table, WideSumKernel, first_bad, summary
from certeq.risk import _compiled
from certeq.risk._input import check_utility, not_finite
from certeq.risk._quantile import upper_quantile
from certeq.risk._rows import (
    solve_rising_rows,
    solve_rows,
    step_of,
)
from certeq.risk._search import Rising, RisingSearch, SlopeEvaluation, SlopeSearch
from certeq.risk._sketch import (
    Floats,
    Sketch,
    centered,
    features_of,
    steep_points,
    weighted_sum,
)
from certeq.risk._vector import facts_of, value_of_vector
from certeq.utilities import Exponential, Pieces, Quadratic, Utility
from certeq.utilities.forms import Form, form

LONG = 1 << 16  # losses from which on a sample is read in blocks
_DRAW = LONG - 1  # at most so many losses are drawn for the start
_EPS = float(np.finfo(np.float64).eps)
_FAR_OFF = 0.5  # a mean slope this far from 1 where the draw's was 1
_FAST = 0.1  # what a Newton step leaves of the residual at most, where it works


# -- answers ----------------------------------------------------------------------------------------------------------


@dataclass
class LongSolved:
    """A long sample's center c, threshold c + s and OCE, and how many passes over the data that took."""

    table: Table
    utility: Utility
    summary: Summary
    center: float
    s: float
    value: float
    passes: int

    @property
    def threshold(self) -> float:
        """t* in the units of the losses."""
        return self.center + self.s

    def tilt(self, normalized: bool = True) -> TiltKernel:
        """The kernel of the tilt, for any block of these losses; ties at a kink share what is left of 1.

        It takes one pass, and none for a smooth utility if the tilt need not sum to 1 to the last digits.
        """
        shape, kernel = self.utility.shape, TiltKernel(form(self.utility), self.center, self.s, 0.0, self.summary.mass)
        if isinstance(shape, Pieces) and shape.low == shape.high:
            return TiltKernel(kernel.form, self.center, 0.0, 0.0, self.summary.mass)
        if not normalized and not self.utility.kinks:
            return kernel
        below, above = self.table.reduce(SumKernel(kernel.ends))
        mass, share = self.summary.mass, 0.0
        if above > below:
            share = min(max((mass - below) / (above - below), 0.0), 1.0)
        # Slopes of both signs: their sum has fewer digits than the mass it should be.
        total = below + share * (above - below) if self.utility.is_monotone else mass
        return TiltKernel(kernel.form, self.center, self.s, share, total)


@dataclass(frozen=True)
class TiltKernel:
    """q_i = w_i (left slope + share (right slope - left slope)) / total of every loss of a block."""

    form: Form
    center: float
    s: float
    share: float
    total: float

    def __call__(self, block: Block) -> Floats:
        """The tilt of a block, rows of weight 0 included."""
        tilt = np.zeros(len(block.rows))
        counts = slice(None) if block.weights is None else block.weights > 0
        with np.errstate(under="ignore"):
            left, right = self.form.slopes(centered(block.rows[counts], self.center), self.s)
        tilt[counts] = left + self.share * (right - left)
        if block.weights is not None:
            tilt *= block.weights
        tilt /= self.total
        return tilt

    def ends(self, z: Floats, w: Floats | None) -> tuple[float, float]:
        """Sums of the left and the right slopes."""
        with np.errstate(under="ignore"):
            left, right = self.form.slopes(centered(z, self.center), self.s)
        return weighted_sum(left, w), weighted_sum(right, w)


# -- the first look ---------------------------------------------------------------------------------------------------


class NotFinite(ValueError):
    """A sample holds NaN or an infinity that its utility cannot take; whoever knows the caller's array says where.

    Where nobody finds one, the message is right: it was the sums.
    """

    def __init__(self) -> None:
        super().__init__(
            "Sums of these losses and weights are beyond float64. Divide the losses by their size, and the weights by "
            "the largest of them."
        )


def summarize(table: Table, extra: Any = None) -> tuple[Summary, Floats]:
    """One pass: range and weight of the sample, and means of what ``extra`` sums up."""
    found = summary(table, extra)
    if table.weighted:
        check_weight_sums(found.lightest, found.mass, found.heaviest)
    if not (np.isfinite(found.high) and np.isfinite(found.low)):
        raise NotFinite
    return found, np.array(() if extra is None else found.extra) / found.mass


def raise_not_finite(table: Table) -> None:
    """Raise a ValueError that says which loss is NaN or infinite, if any is."""
    bad = first_bad(table)
    if bad is not None:
        row, _, found = bad
        raise not_finite(found, table.where(row))


@dataclass
class Draw:
    """A small random part of the sample."""

    z: Floats
    weights: Floats | None

    @classmethod
    def of(cls, table: Table, most: int) -> Draw:
        """Finite losses of positive weight among so many."""
        block = table.draw(most).positive()
        finite = np.isfinite(block.rows)
        if finite.all():
            return cls(block.rows, block.weights)
        return cls(block.rows[finite], None if block.weights is None else block.weights[finite])

    @property
    def center(self) -> float:
        """0, unless the losses lie so far from 0, compared with their spread, that t* - center must be kept apart."""
        if self.z.size == 0:
            return 0.0
        low, high = float(self.z.min()), float(self.z.max())
        return 0.0 if max(abs(low), abs(high)) <= 16.0 * (high - low) else high

    @property
    def mean(self) -> float:
        """The weighted mean, 0 of nothing."""
        return float(np.average(self.z, weights=self.weights)) if self.z.size else 0.0

    @property
    def shares(self) -> Floats:
        """Weights that sum to 1."""
        w = np.ones(self.z.size) if self.weights is None else self.weights
        return np.asarray(w / w.sum())

    def sketch(self) -> Sketch:
        """The draw as a sketch, which knows no more than where the losses are dense."""
        if not self.z.size:
            return Sketch(np.zeros(1), np.ones(1), np.ones(1))
        return Sketch(self.z - self.center, self.shares, np.full(self.z.size, 1.0 / self.z.size))

    def threshold(self, utility: Utility) -> float:
        """The threshold of the draw, 0 of nothing."""
        if not self.z.size:
            return 0.0
        if self.weights is None and facts_of(form(utility)).code is not None:
            found = value_of_vector(self.z, form(utility))
            if found is not None and math.isfinite(found[1]):
                return found[1]
        solved = solve_rows(self.z[None, :], None if self.weights is None else self.shares[None, :], utility)
        t = float(solved.threshold[0])
        # Rows are solved relative to their greatest loss, and what is far below its last digit is lost there.
        all_of_it = Sketch(self.z, self.shares, self.shares)
        left, right = all_of_it.slopes(form(utility), t)
        if left - _FAR_OFF <= 1.0 <= right + _FAR_OFF:
            return t
        low, high = (float(end) - utility.anchor for end in (self.z.min(), self.z.max()))
        return all_of_it.root(form(utility), low, high, lambda s: 0.0)[0]


# -- solving ----------------------------------------------------------------------------------------------------------


def solve_long(table: Table, utility: Utility) -> LongSolved:
    """Threshold and OCE of a long sample; `NotFinite` where a loss is NaN or infinite."""
    match utility.shape:
        case Exponential(rate):  # a rough idea of the range is enough
            return _log_mean_exp(table, Draw.of(table, 1 << 12), rate, utility)
        case Quadratic(curvature):
            return _mean_and_variance(table, Draw.of(table, 1 << 12), curvature, utility)
        case Pieces() as pieces:
            # A longer draw makes a narrower window around the quantile: n**(2/3) costs about what it saves.
            most = min(max(int(len(table) ** (2.0 / 3.0)), 1 << 11), 1 << 18)
            return _two_pieces(table, Draw.of(table, most), pieces, utility)
    draw = Draw.of(table, min(max(len(table) // 32, 1 << 12), _DRAW))
    if not form(utility).kinks and utility.has_curvature:
        return _newton(table, draw, utility)
    s = draw.threshold(utility) - draw.center
    size, first = summarize(table, SumKernel(SlopeEvaluation.sums(form(utility), draw.center, s)))
    return _search(table, draw, utility, size, [SlopeEvaluation(s, *map(float, first))], 1)


def solve_table(table: Table, utility: Utility) -> LongSolved:
    """`solve_long`, with an error that names the loss where one is not finite."""
    check_utility(utility).anchor  # noqa: B018  (a sum whose slopes never reach 1 says so here)
    try:
        return solve_long(table, utility)
    except NotFinite:
        raise_not_finite(table)
        raise


def _log_mean_exp(table: Table, draw: Draw, rate: float, utility: Utility) -> LongSolved:
    passes, center = 0, float(draw.z.max()) if draw.z.size else 0.0
    flat = draw.z.size > 0 and rate * (center - float(draw.z.min())) < 1.0
    while True:
        size, (total,) = summarize(table, WideSumKernel(_ExpSum(rate, center, flat)))
        passes += 1
        # Any center will do that neither overflows nor pushes the greatest loss towards underflow.
        if abs(rate * (size.high - center)) <= 300.0 and not (flat and total <= -0.9):
            break
        center, flat = size.high, False
    level = float(np.log1p(total) if flat else np.log(total)) / rate
    value = center + level + utility.oce_of_zero
    return LongSolved(table, utility, size, center, level - utility.anchor, value, passes)


@dataclass(frozen=True)
class _ExpSum:
    """Sum of exp(rate (z - center)); less 1 each where the losses are ``flat``, for that would round the rest away."""

    rate: float
    center: float
    flat: bool

    def __call__(self, z: Floats, w: Floats | None) -> tuple[float]:
        if not self.flat:
            return (_compiled.sum_exp(z, w, self.rate, self.center),)
        with np.errstate(under="ignore", over="ignore"):
            return (weighted_sum(np.expm1(self.rate * (z - self.center)), w),)


@dataclass(frozen=True)
class _CenteredSums:
    """Sums of z - center and of its square."""

    center: float

    def __call__(self, z: Floats, w: Floats | None) -> tuple[float, float]:
        return _compiled.centered_sums(z, w, self.center)


def _mean_and_variance(table: Table, draw: Draw, curvature: float, utility: Utility) -> LongSolved:
    middle, passes = draw.mean, 0
    while True:
        size, (shift, square) = summarize(table, WideSumKernel(_CenteredSums(middle)))
        passes += 1
        # E x**2 - (E x)**2 keeps its digits while the guessed mean is within a standard deviation of the true one.
        if shift * shift <= 0.5 * square or passes == 3:
            break
        middle += float(shift)
    value = middle + float(shift) + utility.oce_of_zero + 0.5 * curvature * float(square - shift * shift)
    return LongSolved(table, utility, size, middle, float(shift) - utility.anchor, value, passes)


def _two_pieces(table: Table, draw: Draw, pieces: Pieces, utility: Utility) -> LongSolved:
    at_kink = float(utility.value(pieces.kink)) - pieces.kink
    average, passes = 0.0, 0
    size = Summary(-np.inf, np.inf, float(len(table)), float(len(table)))
    if pieces.low != 0.0 or table.weighted:
        middle = draw.mean
        size, (shift,) = summarize(table, WideSumKernel(lambda z, w: (weighted_sum(z - middle, w),)))
        average, passes = middle + float(shift), 1
        if pieces.low == pieces.high:
            value = average + utility.oce_of_zero
            return LongSolved(table, utility, size, average, -utility.anchor, value, passes)
    found = upper_quantile(table, pieces.tail, size.mass, draw.z, draw.weights)
    if not np.isfinite(found.excess) or not np.isfinite(found.value):
        raise NotFinite
    level = pieces.low * (average - found.value) + (pieces.high - pieces.low) * found.excess
    value = found.value + (level + at_kink)
    return LongSolved(table, utility, size, found.value, -pieces.kink, value, passes + found.passes)


# -- Newton's method --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlopeSums:
    """The kernel of a Newton step: sums of slope and curvature at (z - center) - s, and of u there if asked for.

    For u the least loss of all, less the center, is needed: ``low``.
    """

    form: Form
    center: float
    s: float
    low: float | None = None

    @property
    def wide(self) -> bool:
        """A compiled curve makes no temporaries."""
        return facts_of(self.form).code is not None

    def __call__(self, block: Block) -> tuple[float, ...]:
        """The sums of a block."""
        facts, z, w = facts_of(self.form), block.rows, block.weights
        if facts.code is not None:
            slope, curvature, risen = _compiled.sums(facts.code, z, w, self.center, self.s + facts.anchor, self.low)
            if self.low is None:
                return slope, curvature
            mass = float(len(z)) if w is None else float(w.sum())
            return slope, curvature, risen + mass * (facts.anchor + facts.of_zero)
        y = centered(z, self.center)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            slopes, curvatures = self.form.derivatives(y, self.s)
            pair = weighted_sum(slopes, w), weighted_sum(curvatures, w)
            if self.low is None:
                return pair
            return *pair, weighted_sum(np.asarray(self.form.utility.value(y - self.s)), w)

    def join(self, parts: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        """Each added up without rounding."""
        return SumKernel.join(self, parts)  # type: ignore[arg-type]


def _newton(table: Table, draw: Draw, utility: Utility) -> LongSolved:
    s = draw.threshold(utility) - draw.center if draw.z.size else 0.0
    size, first = summarize(table, SlopeSums(form(utility), draw.center, s))
    newton = _Newton(table, utility, draw.center, size, {s: tuple(first)})
    found = newton.descend(s)
    if found is None:  # a tail so heavy that the draw missed what matters, or slopes that rise within a short stretch
        seen = [SlopeEvaluation(point, slope, slope, np.nan) for point, slope in newton.seen.items()]
        return _search(table, draw, utility, size, seen, newton.passes)
    value = float(draw.center + newton.value_at(found))
    return LongSolved(table, utility, size, draw.center, found, value, newton.passes)


@dataclass
class _Newton:
    """Mean slope and curvature of the sample at a trial s, remembering the last answer."""

    table: Table
    utility: Utility
    center: float
    summary: Summary
    known: dict[float, tuple[float, ...]]
    seen: dict[float, float] = field(default_factory=dict)  # mean slopes at all points tried
    passes: int = 1

    def look(self, s: float, with_value: bool) -> None:
        """One pass at s; where it is to be the last, the value there is cheap alongside."""
        low = self.summary.low - self.center if with_value else None
        found = self.table.reduce(SlopeSums(form(self.utility), self.center, s, low))
        self.known = {s: tuple(np.array(found) / self.summary.mass)}
        self.passes += 1

    def descend(self, s: float) -> float | None:
        """Newton's method from s, where the sums are known; None where it gets nowhere fast."""
        low, high = (end - self.center - self.utility.anchor for end in (self.summary.low, self.summary.high))
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
            # A power is straightened by its root, so that a step from afar may be right; after two that are not, none.
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

    def value_at(self, s: float) -> float:
        """s + E u(z - center - s), from the last pass where it was close enough, else from a pass of its own."""
        ((at, known),) = self.known.items()
        if not (len(known) == 3 and abs(s - at) * abs(known[0] - 1.0) <= 1e-14 * (abs(s) + abs(known[2]))):
            self.look(s, with_value=True)
            at, known = s, self.known[s]
        return at + known[2] - 0.5 * (s - at) * (known[0] - 1.0)


def _after(residual: float, last: float) -> float:
    """What Newton leaves of a residual that was ``last`` a step before, with a margin."""
    ratio = float(residual / last)
    return 16.0 * ratio * ratio * float(residual)  # vast ones overflow without a word, which no power of a float does


# -- sums and a sketch, pass by pass: see `_search` ------------------------------------------------------------------


def _search(
    table: Table, draw: Draw, utility: Utility, size: Summary, seen: list[SlopeEvaluation], passes: int
) -> LongSolved:
    least, greatest = size.low - draw.center, size.high - draw.center
    search = SlopeSearch(table, draw.center, size.mass, least, greatest, features_of(utility), 0, form(utility))
    for one in seen:
        search.bound(one)
    best = min(seen, key=lambda one: abs(one.residual) if math.isfinite(one.residual) else math.inf)
    s, value = search.run(best, draw.sketch())
    return LongSolved(table, utility, size, draw.center, s, draw.center + value, passes + search.passes)


def solve_rising(table: Table, rising: Rising) -> float:
    """The smallest t at which the mean of rising.function(X - t) is at most its level; `NotFinite` as `solve_long`."""
    draw = Draw.of(table, min(max(len(table) // 32, 1 << 12), 1 << 15))
    points = _around_draw(draw, rising) if draw.z.size else (0.0,)
    size, means = summarize(table, rising.sums(draw.center, points))
    least, greatest = size.low - draw.center, size.high - draw.center
    features = steep_points(rising.at, [rising.anchor])
    search = RisingSearch(table, draw.center, size.mass, least, greatest, features, 1, rising, draw.sketch())
    search.learn(points, [float(found) for found in means])
    return draw.center + search.run()


def _around_draw(draw: Draw, rising: Rising) -> tuple[float, ...]:
    """The answer of the draw, and what it could be off by on either side."""
    y, shares = draw.z - draw.center, draw.shares
    t = float(solve_rising_rows(y[None, :], shares[None, :], rising.function, rising.level, rising.anchor)[0])
    reach = 1e-2 * float(y.max() - y.min())
    with np.errstate(all="ignore"):
        value, left, right = (rising.at(y - s) for s in (t, t - reach, t + reach))
        noise = float(np.sqrt((shares**2 * (value - rising.level) ** 2).sum()))
        fall = float((shares * (left - right)).sum()) / (2.0 * reach) if reach > 0.0 else 0.0
        off = 5.0 * noise / fall if fall > 0.0 else reach
    return (t - off, t, t + off) if np.isfinite(off) and off > 0.0 else (t,)
