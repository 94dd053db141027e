"""One vector of losses: OCE, threshold and tilt in one go, at the least overhead.

The cost of a short vector is the number of calls, not the arithmetic. A slope that is one of the curves of ``_fused.c``
is solved there in a single call; what NumPy does here for all others, and without a compiler for these too, stops as
soon as it has converged, and value and tilt share all the work. One sort tells the least and greatest loss, whether all
are finite, and the quantile.

Where u has kinks, `_breakpoints` says between which of the breakpoints t* lies, and Newton's method works there.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from certeq._backend import NUMPY, FloatArray
from certeq.risk import _compiled
from certeq.risk._breakpoints import NEAR, Floats, Mean, bracket_by_breakpoints
from certeq.utilities import Exponential, Pieces, Power, Quadratic, Shape, find_anchor
from certeq.utilities.forms import Form

SMALL = 4096  # up to here a call costs more than its arithmetic: sort rather than select, float64 rather than float32
COARSE = 1e-9  # a tolerance from here on asks for the digits of float32
_EPS = float(np.finfo(np.float64).eps)
ONE = 1.0 + 4.0 * _EPS  # a mean slope up to here is 1 in sums that are rounded
_ROUGH = 0.05  # of the range: how far from a quantile or mean t* is looked for at first
_OF_SOME = 2e-3  # the same from the threshold of some of the losses
_STRIDE = 16  # of so many losses one says where about the threshold lies
_ones = [np.ones(0)]


class Solved(NamedTuple):
    """OCE, the threshold t*, and the tilt q_i = w_i u'(x_i - t*)."""

    value: float
    threshold: float
    tilt: Floats


class _Density(NamedTuple):
    """OCE and threshold of centered losses; the tilt is weight * density / total."""

    value: float
    threshold: float
    density: Floats
    total: float = 1.0


class _Facts(NamedTuple):
    """What a form says of its utility, looked up once: a property costs as much as a sum of a hundred losses."""

    shape: Shape | None
    anchor: float
    of_zero: float  # OCE of a constant loss of 0
    tail: float | None  # mass above the quantile near which t* lies, where slopes are bounded
    least: float
    most: float
    growth: float
    code: Any  # the compiled curve, if the slope is one
    rows_code: Any  # the compiled curve or pieces that many short vectors are solved with
    long_tilt: bool  # whether the compiled solver is the better one of long vectors too, with their tilt
    long_value: bool  # and without


def facts_of(form: Form) -> _Facts:
    """The facts, kept with the form."""
    kept: _Facts | None = form.facts.get("vector")
    if kept is None and form.unscaled is not None and not isinstance(facts_of(form.unscaled[0]).shape, Pieces):
        kept = form.facts["vector"] = _in_other_units(facts_of(form.unscaled[0]), form.unscaled[1])
    if kept is None:
        u = form.utility
        shape, curve, (least, most) = u.shape, u.curve, u.slope_range
        code = _compiled.code_of(u)
        # NumPy's general power is the faster one of many losses, and so are its closed forms in their own precision.
        long = code is not None and not (isinstance(curve, Power) and curve.degree not in (1, 1.5, 2, 3))
        tail = None
        if most - least < math.inf and least < 1.0 < most and not isinstance(shape, Exponential | Quadratic):
            tail = (1.0 - least) / (most - least)
        rows_code, smooth = _compiled.rows_code_of(u), shape is None
        kept = _Facts(
            shape, u.anchor, u.oce_of_zero, tail, least, most, u.growth, code, rows_code, long and smooth, long
        )
        form.facts["vector"] = kept
    return kept


def _in_other_units(facts: _Facts, scale: float) -> _Facts:
    """Facts of s*u(x/s): each solve of the exact method has units of its own, and asking a utility takes long."""
    shape, code = facts.shape, facts.code
    assert not isinstance(shape, Pieces)
    shape = None if shape is None else shape.scaled(scale)
    if code is not None:
        code = _compiled.scaled_code(code, scale)
    return facts._replace(
        shape=shape, anchor=facts.anchor * scale, of_zero=facts.of_zero * scale, code=code, rows_code=code
    )


def solve_vector(
    x: Floats,
    weights: Floats | None,
    form: Form,
    tolerance: float = 1e-14,
    dtype: DTypeLike = np.float64,
) -> Solved | None:
    """Solve one vector; None where its losses are not all finite, or too far apart for their dtype.

    Weights, if any, sum to 1. ``tolerance`` bounds the mean slope's distance from 1; ``dtype`` is that of the tilt.
    """
    facts, size = facts_of(form), x.shape[0]
    code = facts.code
    if code is None and weights is None:
        code = facts.rows_code
    if code is not None and (facts.long_tilt or size <= SMALL):
        tilt = np.empty(size, dtype)
        w = None if weights is None else np.ascontiguousarray(weights, np.float64)
        found = _compiled.solve(code, np.ascontiguousarray(x), w, tilt)
        if found is not None:
            return Solved(found[0] + facts.of_zero, found[1] - facts.anchor, tilt)
    return _by_numpy(x, weights, form, facts, tolerance, dtype)


def solve_each(x: Floats, form: Form, tilts: Floats | None = None) -> tuple[Floats, Floats] | None:
    """OCE and threshold of each row, contiguous and without weights, by compiled code; None where it cannot.

    Without ``tilts``, into which theirs are written, rows are float64.
    """
    facts = facts_of(form)
    if facts.rows_code is None or (x.shape[1] > SMALL and not (tilts is None and any_length(form))):
        return None
    found = _compiled.solve_rows(facts.rows_code, np.ascontiguousarray(x), tilts)
    return None if found is None else (found[0] + facts.of_zero, found[1] - facts.anchor)


def any_length(form: Form) -> bool:
    """Whether `value_of_vector` needs no more than a few passes over its losses, however many they are."""
    return facts_of(form).long_value or is_selection(form)


def is_selection(form: Form) -> bool:
    """Whether compiled code finds OCE by a quantile and the losses beyond it, in about one pass."""
    facts = facts_of(form)
    return _compiled.AVAILABLE and isinstance(facts.shape, Pieces) and facts.tail is not None


def few_passes(form: Form) -> bool:
    """The same, or a few more and some copies: for up to some hundred thousand losses."""
    return any_length(form) or _compiled.mixed_code_of(form) is not None


def value_of_vector(x: Floats, form: Form) -> tuple[float, float] | None:
    """OCE and threshold alone, of contiguous float64 losses without weights; None where `solve_vector` has none."""
    facts, size = facts_of(form), x.shape[0]
    if facts.rows_code is not None and (size <= SMALL or any_length(form)):
        found = _compiled.value(facts.rows_code, np.asarray(x, np.float64))
        return None if found is None else (found[0] + facts.of_zero, found[1] - facts.anchor)
    pieces, tail = facts.shape, facts.tail
    if tail is None or not isinstance(pieces, Pieces):
        with np.errstate(all="ignore"):
            solved = solve_vector(x, None, form)
        return None if solved is None else (float(solved.value), float(solved.threshold))
    rank = rank_of(size, tail)
    with np.errstate(all="ignore"):
        parted = np.partition(x, rank)
        at = float(parted[rank])
        value = (pieces.high - pieces.low) * float(np.add.reduce(parted[rank + 1 :] - at))
        if pieces.low != 0.0:
            value += pieces.low * float(np.add.reduce(parted - at))
    # Losses far down do not count, but none may be -inf; NaN is sorted to the upper end.
    if not math.isfinite(value) or float(np.minimum.reduce(x)) == -math.inf:
        return None
    return float(at + (value / size + _at_kink(form, facts))), at - pieces.kink


def _at_kink(form: Form, facts: _Facts) -> float:
    """u at its only kink, less the location of it: what is added to the risk of two pieces that meet at 0."""
    assert isinstance(facts.shape, Pieces)
    return (
        facts.of_zero
        if facts.shape.kink == facts.anchor
        else float(form.utility.value(facts.shape.kink)) - facts.shape.kink
    )


def _by_numpy(
    x: Floats, weights: Floats | None, form: Form, facts: _Facts, tolerance: float, dtype: DTypeLike
) -> Solved | None:
    size, shape, tail = x.shape[0], facts.shape, facts.tail
    if size <= SMALL:
        x = x.astype(np.float64, copy=False)
    counted = x if weights is None else x[weights > 0]
    if size <= SMALL:
        parted = np.sort(counted)
        low, high = float(parted[0]), float(parted[-1])
    else:
        parted, low, high = counted, float(counted.min()), float(counted.max())
    most = math.inf if x.itemsize == 8 else 1e30  # sums and powers of larger differences would leave float32
    if not (high - low < most or (isinstance(shape, Exponential) and -math.inf < low <= high < math.inf)):
        return None
    # At an offset of 1e9 a float has seven digits left; losses less a center near the threshold keep all of them.
    center = high
    if tail is not None:
        if weights is not None:
            center = upper_quantile(x, weights, tail)
        else:
            rank = rank_of(size, tail)
            parted = parted if size <= SMALL else np.partition(counted, rank)
            center = float(parted[rank])
    z = x - center
    if weights is not None:
        # A loss without weight may lie anywhere, and must not overflow anything: the least does not.
        z = np.where(weights > 0, z, x.dtype.type(low - center if low > -math.inf else 0.0))
        mean: Mean = lambda a: float(a.dot(weights))
    elif size <= SMALL:
        ones = _ones[0]
        if ones.shape[0] != size:
            ones = _ones[0] = np.ones(size)
        mean = lambda a: float(a.dot(ones)) / size
    else:
        mean = lambda a: float(np.add.reduce(a)) / size
    if isinstance(shape, Pieces):
        answer = two_pieces(z, mean, form, facts)
    elif isinstance(shape, Exponential):
        answer = log_mean_exp(z, mean, shape.rate, facts)
    elif shape is not None:
        answer = mean_and_variance(z, mean, shape.bend, facts)
    else:
        anchor = facts.anchor
        if tail is None:
            start = mean(z) - anchor
        else:
            start = -0.5 * anchor if weights is not None else near_quantile(parted, center, tail, anchor)
        first = low - center - anchor
        if facts.most == math.inf and form.utility.is_monotone:
            # Without this, losses over many decades leave a steep slope a bracket over many decades.
            least = 1.0 / size if weights is None else float(weights[weights > 0].min())
            first = max(first, high - center - furthest(form, 1.0 / least))
        answer = _by_search(z, weights, mean, form, facts, first, high - center - anchor, start, tolerance)
    if weights is None:
        scale = 1.0 / (size * answer.total)
        tilt = np.multiply(answer.density, scale, dtype=dtype, casting="same_kind")
    else:
        tilt = (answer.density * weights / answer.total).astype(dtype, copy=False)
    return Solved(center + answer.value, center + answer.threshold, tilt)


def _by_search(
    z: Floats,
    weights: Floats | None,
    mean: Mean,
    form: Form,
    facts: _Facts,
    low: float,
    high: float,
    start: float,
    tolerance: float,
) -> _Density:
    # Low powers and bounded slopes do not overflow on losses of a sane size; the others may, harmlessly.
    tame = (1.0 < facts.growth <= 4.0 or facts.most - facts.least < math.inf) and high - low < 1e50
    with nullcontext() if tame else np.errstate(all="ignore"):
        if form.kinks:
            return _with_kinks(z, weights, mean, form, low, high, start, tolerance)
        return by_newton(z, mean, form, low, high, start, tolerance)


# -- the tilt alone, from what is known of nearby losses ---------------------------------------------------------------


class Near(NamedTuple):
    """A threshold found from one nearby; the tilt is density / total."""

    threshold: float
    density: FloatArray
    total: float
    curvature: FloatArray  # u'' of each loss, times its weight: at this threshold or, where that served, an earlier one
    curvature_sum: float


def closed_density(x: FloatArray, weights: FloatArray | None, form: Form) -> tuple[FloatArray, float]:
    """The tilt of an exponential or linear slope times a factor, and that factor.

    Exponential slopes keep their proportions wherever they are taken, so the largest loss is as good as t*.
    """
    facts = facts_of(form)
    if isinstance(facts.shape, Exponential):
        at = float(x.max())
    else:
        at = float(np.add.reduce(x)) / x.shape[0] if weights is None else float(x.dot(weights))
    density, total, _, _ = slopes_at(x, weights, form, facts, at - facts.anchor, False)
    return density, total


def solve_near(
    x: FloatArray, weights: FloatArray | None, form: Form, guess: float, curvature: FloatArray, curvature_sum: float
) -> Near | None:
    """The tilt of a smooth slope by Newton's method from a threshold nearby, to abs(mean slope - 1) <= 1e-12.

    ``curvature`` is that of an earlier threshold, and its sum, 0 where it is not known. It is used for as long as it
    serves, so that a short way costs one evaluation of the slope alone; a compiled curve overwrites it. None where
    eight evaluations do not do: `solve_vector` needs no guess.
    """
    if not math.isfinite(guess):
        return None
    facts, size = facts_of(form), x.shape[0]
    if facts.code is not None and weights is None:
        slope = np.empty(size)
        found = _compiled.newton_from(facts.code, x, guess + facts.anchor, slope, curvature)
        return None if found is None else Near(found[0] - facts.anchor, slope, found[1], curvature, found[2])
    mass = float(size) if weights is None else 1.0
    t, last = guess, math.inf
    for evaluation in range(8):
        density, total, fresh, fresh_sum = slopes_at(x, weights, form, facts, t, not curvature_sum > 0.0)
        if fresh is not None:
            curvature, curvature_sum = fresh, fresh_sum
        mean = total / mass
        error = abs(mean - 1.0)
        if not (curvature_sum > 0.0 and error < math.inf):
            return None
        step = (mean - 1.0) * mass / curvature_sum
        if facts.growth != 1.0 and mean > 0.0:
            # On the growth-th root of the mean slope: far out, a plain step on a power gains a factor 1 - 1/p only.
            step = facts.growth * mean * float(1.0 - mean ** (-1.0 / facts.growth)) * mass / curvature_sum
        if error <= 1e-12 or t + step == t:
            # The slopes are good at t; what is returned is the better t + step, or errors would add up.
            return Near(t + step, density, total, curvature, curvature_sum)
        if evaluation > 0 or error > 0.1 * last:
            curvature_sum = 0.0
        last, t = error, t + step
    return None


def slopes_at(
    x: FloatArray, weights: FloatArray | None, form: Form, facts: _Facts, t: float, curved: bool
) -> tuple[FloatArray, float, FloatArray | None, float]:
    """Slopes at x - t, times the weights, and their sum; where wanted the same of the curvatures."""
    curvature: FloatArray | None = None
    if facts.code is not None:
        slope: FloatArray = np.empty(x.shape[0])
        curvature = np.empty(x.shape[0]) if curved else None
        total, curvature_sum = _compiled.slopes(facts.code, x, t + facts.anchor, slope, curvature)
        if weights is None:
            return slope, total, curvature, curvature_sum
    elif curved:
        slope, curvature = form.derivatives(x, t)
    else:
        slope = form.left_slope(x, t)
    if weights is not None:
        slope = slope * weights
        curvature = None if curvature is None else curvature * weights
    total = float(np.add.reduce(slope))
    return slope, total, curvature, 0.0 if curvature is None else float(np.add.reduce(curvature))


# -- one of many solves: losses about 0, and a threshold nearby -----------------------------------------------------


def value_near(
    x: FloatArray, weights: FloatArray | None, form: Form, guess: float | None = None
) -> tuple[float, float]:
    """OCE and threshold of losses that lie about 0, as they are: a loss on a kink is there to the last bit.

    ``guess`` is a threshold nearby, from which a search begins; closed forms and compiled curves need none. An infinite
    value says that there is no answer among the floats.
    """
    facts = facts_of(form)
    with np.errstate(all="ignore"):
        if weights is None and (facts.shape is not None or any_length(form)):
            return value_of_vector(x, form) or (math.inf, math.nan)
        if facts.shape is not None:
            solved = solve_vector(x, weights, form)
            return (math.inf, math.nan) if solved is None else (solved.value, solved.threshold)
        size, anchor = x.shape[0], facts.anchor
        mean: Mean = lambda a: float(np.add.reduce(a)) / size if weights is None else float(weights @ a)
        low, high = float(x.min()) - anchor, float(x.max()) - anchor
        if not high - low < math.inf:
            return math.inf, math.nan
        if facts.most == math.inf and form.utility.is_monotone and form.utility.curve is None:
            least = 1.0 / size if weights is None else float(weights[weights > 0].min())
            low = max(low, high + anchor - furthest(form, 1.0 / least))
        if form.kinks:
            near = NEAR
            if guess is None and size > SMALL:
                some = None if weights is None else weights[::_STRIDE]
                if some is None or some.sum() > 0.0:  # where all of these have no weight, the search does without
                    share = None if some is None else some / float(some.sum())
                    guess, near = value_near(np.ascontiguousarray(x[::_STRIDE]), share, form)[1], _OF_SOME
            code = _compiled.mixed_code_of(form)
            if code is not None:
                start, width = (mean(x) - anchor, _ROUGH) if guess is None else (guess, near)
                found = _compiled.kinked(code, x, weights, low, high, max(start, low), width * (high - low))
                if found is not None:
                    return found[0] + mean(form.utility._value(x - found[0], NUMPY)), found[0]
            low, high, on_kink = bracket_by_breakpoints(x, weights, mean, form, low, high, guess, near)
            if on_kink:
                return high + mean(form.utility._value(x - high, NUMPY)), high
        start = guess if guess is not None and low < guess < high else max(low, mean(x) - anchor)
        density = by_newton(x, mean, form, low, high, start, 4.0 * _EPS, _EPS)
        return density.value, density.threshold


# -- closed forms ------------------------------------------------------------------------------------------------------


def log_mean_exp(z: Floats, mean: Mean, rate: float, facts: _Facts) -> _Density:
    exponent = z * rate
    density = np.exp(exponent)
    total = mean(density)
    if total > 0.5:  # nearly constant losses: 1 + a small mean would round the answer away
        certain = math.log1p(mean(np.expm1(exponent))) / rate
    else:
        certain = math.log(total) / rate
    return _Density(certain + facts.of_zero, certain - facts.anchor, density, total)


def mean_and_variance(z: Floats, mean: Mean, curvature: float, facts: _Facts) -> _Density:
    middle = mean(z)
    y = z - middle
    variance = mean(y * y)
    y *= curvature
    y += 1.0
    return _Density(middle + 0.5 * curvature * variance + facts.of_zero, middle - facts.anchor, y)


def two_pieces(z: Floats, mean: Mean, form: Form, facts: _Facts) -> _Density:
    """low * mean + (1 - low) * CVaR of losses less their quantile; ties there share the mass that is left."""
    pieces = facts.shape
    assert isinstance(pieces, Pieces)
    if pieces.low == pieces.high:
        middle = mean(z)
        return _Density(middle + facts.of_zero, middle - facts.anchor, np.ones_like(z))
    tail, rise = pieces.tail, pieces.high - pieces.low
    density = (z > 0.0).astype(z.dtype)
    ties = z == 0.0
    mass, excess, tied = mean(density), mean(density * z), mean(ties.astype(z.dtype))
    density *= rise
    density[ties] = rise * max(tail - mass, 0.0) / tied
    value = rise * excess + _at_kink(form, facts)
    if pieces.low != 0.0:
        density += pieces.low
        value += pieces.low * mean(z)
    return _Density(value, -pieces.kink, density)


# -- everything else: Newton in a bracket ------------------------------------------------------------------------------


def by_newton(
    z: Floats,
    mean: Mean,
    form: Form,
    low: float,
    high: float,
    start: float,
    tolerance: float,
    least_step: float = 0.0,
) -> _Density:
    """Safeguarded Newton on a function of the mean slope that is nearly a straight line in t.

    That is the p-th root where the slope grows like a power p, and the log-odds where it is bounded (one sigmoid
    would be hit exactly). A step out of the bracket, or a residual that does not halve, is replaced by bisection.

    A float32 batch asks for few digits; then the later steps interpolate what is known of t as a function of the
    residual, by a parabola, and need no curvature. A step below ``least_step`` times t ends the search: the value
    no longer changes, while a tilt may need the last bit of t.
    """
    facts = facts_of(form)
    power, least, most, curved = facts.growth, facts.least, facts.most, form.utility.has_curvature
    bounded = math.isfinite(most - least)
    odds = math.log((1.0 - least) / (most - 1.0)) if bounded else 0.0
    coarse, known = tolerance >= COARSE, False
    t, last = min(max(start, low), high), math.inf
    f = math.nan
    seen: list[tuple[float, float, float]] = []  # (residual, t, dt/d residual or NaN) since the last bisection
    while True:
        if known or not curved:  # without a curvature every step is a bisection
            slope, h = form.left_slope(z, t), math.nan
        else:
            slope, curvature = form.derivatives(z, t)
            h = mean(curvature)
        m = mean(slope)
        size = abs(m - 1.0)
        if size <= tolerance:
            break
        if m > 1.0:
            low = t
        else:
            high = t
        middle = 0.5 * (low + high)
        if size > 0.5 * last and size <= 64 * tolerance:
            break  # sums of rounded slopes wobble
        if not low < middle < high:
            return _between(z, mean, form, low, high)
        f = math.nan
        within = least < m < most and (bounded or power == 1.0 or m > 0.0)  # slopes may be negative, and have no root
        if within:
            f = math.log((m - least) / (most - m)) - odds if bounded else m ** (1.0 / power) - 1.0
        run = math.nan
        if within and not known and h > 0.0:
            steep = (most - least) / ((m - least) * (most - m)) if bounded else m ** (1.0 / power - 1.0) / power
            run = -1.0 / (steep * h)
        seen.append((f, t, run))
        trial = _interpolate(seen) if known else t - run * f
        if abs(trial - t) < least_step * abs(t):
            break
        if low < trial < high and not size > 0.5 * last:
            t, last, known = trial, size, coarse
        else:
            t, last, known = middle, math.inf, False
            seen.clear()
    return _Density(t + mean(form.utility._value(z - t, NUMPY)), t, slope, m if 0.0 < m < math.inf else 1.0)


def _between(z: Floats, mean: Mean, form: Form, low: float, high: float) -> _Density:
    """Where the mean slope passes 1 between neighboring floats: the slopes at both, mixed so that their mean is 1."""
    density, above = form.left_slope(z, high), form.left_slope(z, low)
    m, most = mean(density), mean(above)
    if most > 1.0 > m:
        density = density + (1.0 - m) / (most - m) * (above - density)
        m = 1.0
    return _Density(high + mean(form.utility._value(z - high, NUMPY)), high, density, m if 0.0 < m < math.inf else 1.0)


def _interpolate(seen: list[tuple[float, float, float]]) -> float:
    """t where the residual is 0, by the parabola t(f) through the last points; through two, with the slope at one."""
    (f1, t1, run), (f2, t2, _) = seen[-2:]
    if f1 == f2:
        return math.nan
    chord = (t2 - t1) / (f2 - f1)
    if len(seen) == 2:
        second = (chord - run) / (f2 - f1)
    else:
        f0, t0, _ = seen[-3]
        if f0 in (f1, f2):
            return t2 - chord * f2
        second = (chord - (t1 - t0) / (f1 - f0)) / (f2 - f0)
    return t2 - chord * f2 + second * f1 * f2


def _with_kinks(
    z: Floats,
    weights: Floats | None,
    mean: Mean,
    form: Form,
    low: float,
    high: float,
    start: float,
    tolerance: float,
) -> _Density:
    """Where the slope jumps, t* either puts a loss on a kink or lies between two such points, where Newton works."""
    losses: FloatArray = np.ascontiguousarray(z, np.float64)
    guess, near = min(max(start, low), high), _ROUGH
    if z.shape[0] > SMALL and weights is None:
        guess, near = value_near(np.ascontiguousarray(losses[::_STRIDE]), None, form)[1], _OF_SOME
    code = _compiled.mixed_code_of(form)
    if code is not None:
        w, slope = None if weights is None else np.ascontiguousarray(weights, np.float64), np.empty(z.shape[0])
        found = _compiled.kinked(code, losses, w, low, high, guess, near * (high - low), slope)
        if found is not None:
            t, m = found
            return _Density(t + mean(form.utility._value(losses - t, NUMPY)), t, slope, m if m > 0.0 else 1.0)
    low, t, on_kink = bracket_by_breakpoints(z, weights, mean, form, low, high, guess, near)
    if not on_kink:
        return by_newton(z, mean, form, low, t, 0.5 * (low + t), tolerance)
    left, right = form.slopes(z, t)
    jump = right - left
    m, rise = mean(left), mean(jump)
    jump *= min(max((1.0 - m) / rise, 0.0), 1.0) if rise > 0.0 else 0.0
    density = np.add(left, jump, out=jump)
    return _Density(t + mean(form.utility._value(z - t, NUMPY)), t, density)


def furthest(form: Form, slope: float) -> float:
    """A point at which u is at least twice as steep as ``slope``, and at most four times; kept with the form.

    The greatest loss alone keeps the mean slope above 1 where its own exceeds the inverse of its weight: so t* is no
    further from it than this point for that slope. (Twice: it may be no nearer either, but for rounding.)
    """
    if form.unscaled is not None:
        inner, scale = form.unscaled
        return scale * furthest(inner, slope)
    power = math.ceil(math.log2(slope)) + 1 if slope > 1.0 else 1
    if ("furthest", power) not in form.facts:
        form.facts["furthest", power] = find_anchor(form.utility, 2.0**power) if power < 1000 else math.inf
    found: float = form.facts["furthest", power]
    return found


# -- quantiles -----------------------------------------------------------------------------------------------------


def rank_of(size: int, tail: float) -> int:
    """Where the upper quantile stands among so many losses in rising order.

    100 * 0.29 is 28.999999999999996 in floats and means 29.
    """
    return size - 1 - min(int(size * tail * (1 + 4 * _EPS)), size - 1)


def near_quantile(parted: Floats, center: float, tail: float, anchor: float) -> float:
    """A start for losses less ``center``, the quantile at which ``parted`` is partitioned: t* lies near it."""
    size = parted.shape[0]
    rank = rank_of(size, tail)
    if size * tail - (size - 1 - rank) < 1e-9 and rank < size - 1:
        # A whole number of losses in the tail: t lies between two of them.
        return 0.5 * float(parted[rank + 1 :].min() - center)
    return -0.5 * anchor


def upper_quantile(z: Floats, weights: Floats, tail: float) -> float:
    """The least loss of positive weight with mass above it at most ``tail``."""
    order = np.argsort(-z)
    order = order[weights[order] > 0]
    before = np.cumsum(weights[order]) - weights[order]
    return float(z[order[int(np.count_nonzero(before <= tail * (1 + 4 * _EPS))) - 1]])
