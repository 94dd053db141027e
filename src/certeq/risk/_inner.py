"""One vector of losses under a risk with more inner variables than t: value, inner variables and tilt.

Every term has a threshold t of its own, and a ball has a scale s beside it,

    min over t, s >= low:   t + c s + k E[s u((X - t)/s)],

of which the derivative in s, at the best t, is r less the divergence of the tilt: s* is the root of a monotone
function. Where u is an exponential that is an equation in one variable, for a power the best s for a threshold is a
norm, and a line has a closed form; all else is a root in s around `solve_vector`. Losses are divided by their width
first, so nothing overflows, and units drop out to the last digits.

At s = 0 a term is its recession function: the largest loss, or CVaR where slopes are bounded.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from certeq._backend import FloatArray
from certeq.risk import _compiled
from certeq.risk._distortion import SolvedInner, needs_sorting, solve_sorted
from certeq.risk._input import check_answer
from certeq.risk._vector import SMALL, facts_of, slopes_at, solve_vector
from certeq.utilities import CVaR, Exponential, Mean, Mixture, Power, Quadratic, Risk, SortedRisk
from certeq.utilities.forms import Form, Inner, Term, form

_EPS = float(np.finfo(np.float64).eps)
_STRIDE = 16  # of a long vector so many losses, one of them, say where about the scale lies
_FAR = 50.0  # logarithm of a step that is none
_LONGEST = 7.0  # logarithm of a step of the scale: further off, no digit of the divergence may be left
_TINY = 1e-11  # radius below which the tilt is linear in the losses, to more digits than the risk has


class SolvedTerm(NamedTuple):
    """One term: its value, threshold and scale, all of losses as they are handed in, and its tilt."""

    value: float
    t: float
    s: float
    tilt: Any


def solve_risk(
    x: FloatArray, weights: FloatArray | None, risk: Risk, guess: FloatArray | None = None, tolerance: float = 0.0
) -> SolvedInner | None:
    """`solve_inner` of any risk; a distortion, which has no inner variables, is found by sorting."""
    if isinstance(risk, SortedRisk):
        return solve_sorted(x, weights, risk)
    if isinstance(risk, Mixture) and needs_sorting(risk):
        value, tilt, inner = 0.0, np.zeros(x.shape[0]), [np.empty(0)]
        for weight, part in zip(risk.weights, risk.risks, strict=True):
            found = solve_risk(x, weights, part, None, tolerance)
            if found is None:
                return None
            value += weight * found.value
            tilt += weight * found.tilt
            inner.append(found.inner)
        return SolvedInner(value, np.concatenate(inner), tilt)
    return solve_inner(x, weights, risk.inner(), guess, tolerance)


def solve_risk_rows(z: FloatArray, weights: FloatArray | None, risk: Risk) -> list[SolvedInner]:
    """`solve_risk` of every row, of finite losses."""
    found = [solve_risk(row, None if weights is None else weights[i], risk) for i, row in enumerate(z)]
    if any(one is None for one in found):  # finite, but too far apart
        check_answer("risk", math.inf, risk)
    return [one for one in found if one is not None]


def solve_inner(
    x: FloatArray, weights: FloatArray | None, inner: Inner, guess: FloatArray | None = None, tolerance: float = 0.0
) -> SolvedInner | None:
    """Solve one vector of float64 losses; None where they are not all finite, or too far apart for a float.

    Weights, if any, sum to 1. ``guess`` are inner variables of losses nearby, from which the search begins. A lower
    bound on a scale is kept to: where the best is below it, it is the bound, with the best threshold for it. A scale
    is exact to rounding, or its tilt's divergence to ``tolerance``, relative; the value is to the square of that.
    """
    found = np.empty(len(inner.cost))
    value, tilt = 0.0, None
    if weights is not None:
        weights = np.ascontiguousarray(weights)  # one vector for many rows is a view without strides
    with np.errstate(all="ignore"):
        for term in inner.terms:
            share = float(inner.cost[term.t])
            part = _solve_term(x, weights, inner, term, share, guess, tolerance)
            if part is None:
                return None
            found[term.t] = part.t
            if term.s is not None:
                found[term.s] = part.s
            if share == 1.0 and len(inner.terms) == 1:
                return SolvedInner(part.value, found, part.tilt)
            value += share * part.value
            tilt = share * part.tilt if tilt is None else tilt + share * part.tilt
    assert tilt is not None
    return SolvedInner(value, found, tilt)


def _solve_term(
    x: FloatArray,
    weights: FloatArray | None,
    inner: Inner,
    term: Term,
    share: float,
    guess: FloatArray | None,
    tolerance: float,
) -> SolvedTerm | None:
    if term.s is None:
        solved = solve_vector(x, weights, term.form)
        return None if solved is None else SolvedTerm(solved.value, solved.threshold, math.nan, solved.tilt)
    counted = x if weights is None else x[weights > 0]
    least, greatest = float(counted.min()), float(counted.max())
    width = greatest - least
    if not math.isfinite(width):
        return None
    low, equal = float(inner.low[term.s]), width == 0.0 or not math.isfinite(1.0 / width)
    if equal and (low == 0.0 or term.weight == share):  # one value, as far as floats can tell
        tilt = np.full(x.shape[0], 1.0 / x.shape[0]) if weights is None else np.array(weights)
        offset = low * (float(inner.cost[term.s]) / share + facts_of(term.form).of_zero) if low > 0.0 else 0.0
        return SolvedTerm(greatest + offset, greatest - low * facts_of(term.form).anchor, low, tilt)
    if equal:  # its slope is not 1, and its anchor not the threshold: solved like others, in units of its own
        width = 1.0
    y = (x - greatest) / width
    if weights is not None:  # a loss without weight may lie anywhere, and must not overflow anything
        y = np.where(weights > 0, y, 0.0)
    ball = TermSolver(
        y, weights, term.form, float(inner.cost[term.s]) / share, term.weight / share, float(inner.low[term.s]) / width
    )
    ball.tolerance = tolerance
    start = None if guess is None else (float(guess[term.t] - greatest) / width, float(guess[term.s]) / width)
    part = ball.solve(start)
    if part.s == ball.low:
        return SolvedTerm(greatest + width * part.value, greatest + width * part.t, float(inner.low[term.s]), part.tilt)
    return SolvedTerm(greatest + width * part.value, greatest + width * part.t, width * part.s, part.tilt)


class TermSolver:
    """Losses y in [-1, 0], the largest of them 0, in the ball of one term."""

    def __init__(
        self, y: FloatArray, weights: FloatArray | None, known: Form, cost: float, weight: float, low: float
    ) -> None:
        self.y, self.weights, self.form, self.cost, self.weight, self.low = y, weights, known, cost, weight, low
        self.facts, self.tolerance = facts_of(known), 0.0

    def mean(self, a: FloatArray) -> float:
        """The weighted mean."""
        if self.weights is None:
            return float(np.add.reduce(a)) / float(a.shape[0])
        # A threaded BLAS would fight for the cores with whoever solves other vectors at the same time.
        total: Any = np.dot(a, self.weights) if a.shape[0] <= SMALL else np.add.reduce(a * self.weights)
        return float(total)

    def as_tilt(self, density: FloatArray) -> FloatArray:
        """Weights times a density, of sum 1."""
        tilt = density if self.weights is None else density * self.weights
        return np.asarray(tilt / float(np.add.reduce(tilt)))

    def solve(self, guess: tuple[float, float] | None) -> SolvedTerm:
        """By the formula that the slope of u admits."""
        curve = self.facts.shape or self.form.utility.curve
        if isinstance(curve, Power):
            return self._power(curve, guess)
        # Normalized, u costs s this much: u(x + x0) - u(x0) has its threshold at t + s x0.
        radius = self.cost + self.facts.of_zero
        if isinstance(curve, Exponential):
            part = self._exponential(radius * curve.rate, curve.rate, guess)
        elif isinstance(curve, Quadratic):
            part = self._line(radius, curve.bend)
        else:
            part = self._by_scale(radius, guess)
        anchor = self.facts.anchor
        return part if anchor == 0.0 else part._replace(t=part.t - part.s * anchor)

    def _line(self, radius: float, curvature: float) -> SolvedTerm:
        """u'(x) = 1 + curvature * x: the mean plus a multiple of the deviation."""
        middle = self.mean(self.y)
        away = self.y - middle
        variance = self.mean(away * away)
        s = max(math.sqrt(0.5 * curvature * variance / radius), self.low)
        tilt = 1.0 + (curvature / s) * away
        tilt = tilt / tilt.shape[0] if self.weights is None else tilt * self.weights
        return SolvedTerm(middle + s * radius + 0.5 * curvature * variance / s, middle, s, tilt)

    def on_largest(self) -> tuple[float, FloatArray]:
        """The weight of the largest loss, and all of the tilt on it, shared by those that tie."""
        density = (self.y == 0.0).astype(np.float64)
        return self.mean(density), density

    # -- u'(x) = exp(rate * x): one equation in 1/s -------------------------------------------------------------------

    def _exponential(self, radius: float, rate: float, guess: tuple[float, float] | None) -> SolvedTerm:
        """The root b of b K'(b) - K(b) = radius, K(b) = ln E exp(b y): with b = rate/s the tilt's relative entropy."""
        y, low = self.y, self.low / rate
        on_top = y == 0.0
        mass = np.count_nonzero(on_top) / y.shape[0] if self.weights is None else float(self.weights[on_top].sum())
        largest = -math.log(min(mass, 1.0))
        vanishes = radius >= largest
        if vanishes and low == 0.0:
            return SolvedTerm(0.0, 0.0, 0.0, self.as_tilt(on_top.astype(np.float64)))
        if radius < _TINY:
            return self._line(radius / rate, rate)
        goal = 0.0 if vanishes else -math.log1p(-radius / largest)
        most = 1.0 / low if low > 0.0 else math.inf
        if vanishes:
            b = most
        elif guess is not None and 0.0 < guess[1] < math.inf:
            b = rate / guess[1]
        elif y.shape[0] > SMALL and (some := self._some()) is not None:
            scale = some[1] * some[0]._exponential(radius, rate, None).s
            b = rate / scale if scale > 0.0 else 40.0
        else:
            _, first, second = _compiled.positive_moments(y, self.weights, -2.0)  # of y + 2, in one pass
            b = math.sqrt(2.0 * radius / max(second - first * first, _EPS))
        b, power, ends = min(b, most), np.empty_like(y), (largest, goal, most)
        found = _compiled.entropy_root(y, self.weights, b, radius, ends, self.tolerance, power)
        b, level = self._entropy_root(b, radius, ends, power) if found is None else found
        scale = 1.0 / b
        s = self.low if b == most else rate * scale
        return SolvedTerm(scale * (radius + level), scale * level, s, self.as_tilt(power))

    def _entropy_root(
        self, b: float, radius: float, ends: tuple[float, float, float], power: FloatArray
    ) -> tuple[float, float]:
        """As the compiled one: b, and K(b)."""
        largest, goal, most = ends
        left, right, last = 0.0, math.inf, math.inf
        while True:
            total, first, second = _compiled.exponential_moments(self.y, self.weights, b, power)
            first, second = first / total, second / total
            level = math.log(total) if total < 0.5 else math.log1p(self.mean(np.expm1(b * self.y)))
            divergence = b * first - level
            residual = abs(divergence - radius)
            enough = max(4.0 * _EPS * (1.0 + abs(level)), self.tolerance * radius)
            if residual <= enough or (divergence < radius and b == most):
                break
            left, right = (b, right) if divergence < radius else (left, b)
            if residual > 0.5 * last and residual <= 1e-9 * (1.0 + radius):  # sums of rounded numbers wobble
                break
            rise = b * b * (second - first * first)
            step = math.nan
            if 0.0 < divergence < largest and rise > 0.0:
                # The divergence D begins as a square of b and tends to its largest value L as exp(-b) does, so that
                # ln(-ln(1 - D/L)) is nearly a line in ln b, of slope 2 at first and 1 in the end.
                now = -math.log1p(-divergence / largest)
                step = b * math.exp(min(math.log(goal / now) * now * (largest - divergence) / rise, _FAR))
            if not (left < step < right) or residual > 0.5 * last:
                step = math.sqrt(left * right) if left > 0.0 and right < math.inf else b * (4.0 if left == b else 0.25)
            step = min(step, most)
            if step == b or (not left < step < right and step != most):
                break
            last, b = residual, step
        return b, level

    def _some(self) -> tuple[TermSolver, float] | None:
        """One in some of the losses as a ball of their own, and their width; None where they are all one value."""
        y, weights = self.y[::_STRIDE], None if self.weights is None else self.weights[::_STRIDE]
        if weights is not None:
            y, weights = y[weights > 0.0], weights[weights > 0.0]
            weights = weights / float(weights.sum())
        width = float(y.max() - y.min()) if y.size else 0.0
        if not width > 0.0:
            return None
        return TermSolver((y - y.max()) / width, weights, self.form, self.cost, self.weight, 0.0), width

    # -- u'(x) = x**(p-1): the best s for a threshold is a norm -------------------------------------------------------

    def _power(self, curve: Power, guess: tuple[float, float] | None) -> SolvedTerm:
        """min over t of t + ||(y - t)^+||_p / a, where the slope is 0 left of t; see `HMCR`."""
        p, unit, k = curve.degree + 1.0, curve.width, self.weight
        dual, anchor = p / (p - 1.0), self.facts.anchor
        if k == 1.0 and self.cost + self.facts.of_zero < _TINY * unit:
            part = self._line(self.cost + self.facts.of_zero, curve.degree / unit)
            return part._replace(t=part.t - part.s * anchor)
        # In h = t + s (anchor - unit), left of which u is flat, and S = s * unit the term is h + C S + k E (..)**p.
        cost = (self.cost - anchor + unit + k * (self.facts.of_zero + anchor - unit / p)) / unit
        log_a = -math.log(dual * cost) / dual - math.log(k) / p
        factor = (k / (dual * cost)) ** (1.0 / p)  # S over the norm
        if not log_a < 0.0:  # a radius of 0, but for rounding
            log_a = -_EPS
        mass, density = self.on_largest()
        vanishes = math.log(mass) / p >= log_a
        if vanishes and self.low == 0.0:
            return SolvedTerm(0.0, 0.0, 0.0, self.as_tilt(density))
        s = 0.0
        if not vanishes:
            h = self._power_root(p, log_a, None if guess is None else guess[0] + guess[1] * (anchor - unit))
            above = np.maximum(self.y - h, 0.0)
            size = float(above.max())
            norm = size * self.mean((above / size) ** p) ** (1.0 / p)
            s = norm * factor / unit
        if s < self.low:  # the best threshold for this scale
            s = self.low
            own = s * k ** (-1.0 / (p - 1.0))
            solved = solve_vector(self.y / own, self.weights, self.form)
            assert solved is not None
            h = own * (solved.threshold + anchor - unit)
            above = np.maximum(self.y - h, 0.0)
            moment = self.mean((above / (s * unit)) ** p)
            value = h + s * unit * (cost + k * moment / p)
            return SolvedTerm(value, h - s * (anchor - unit), s, solved.tilt)
        return SolvedTerm(
            h + norm * math.exp(-log_a), h - s * (anchor - unit), s, self.as_tilt((above / size) ** (p - 1.0))
        )

    def _power_root(self, p: float, log_a: float, guess: float | None) -> float:
        """h at which the means M of (y - h)^+ to the powers p - 1 and p have M(p-1) / M(p)**(1-1/p) = a.

        Below all losses rho = a means that h is a multiple of the deviation below the mean: there
        rho / sqrt(1 - rho**2) is nearly a line in h, and Newton's method is at home.
        """
        y = self.y
        target = math.exp(log_a) / math.sqrt(-math.expm1(2.0 * log_a))
        middle = self.mean(y)
        away = y - middle
        variance = self.mean(away * away)
        all_in = middle - math.sqrt((p - 1.0) * variance) * target
        if (p == 2.0 and all_in <= -1.0) or log_a > -_TINY:
            return all_in
        h = guess if guess is not None and math.isfinite(guess) and guess < 0.0 else min(all_in, -1e-3)
        left, right, last = -math.inf, 0.0, math.inf
        while True:
            zeroth, first, second = self._power_means(p, h)
            log_rho = math.log(first) - (1.0 - 1.0 / p) * math.log(second)
            slope = (p - 1.0) * (first / second - zeroth / first) / -h
            short = -math.expm1(2.0 * log_rho)  # 1 - rho**2; 0 so far below that only rounding tells rho from 1
            ratio = math.exp(log_rho) / math.sqrt(short) if short > 0.0 else math.inf
            residual = abs(ratio / target - 1.0)
            if residual <= max(4.0 * _EPS, self.tolerance):
                return h
            left, right = (h, right) if ratio > target else (left, h)
            if residual > 0.5 * last and residual <= 1e-9:  # sums of rounded numbers wobble
                return h
            step = math.nan
            if short > 0.0 and slope < 0.0:
                step = h - (ratio - target) / (ratio / short * slope)
            if not left < step < right or residual > 0.5 * last:
                step = 0.5 * (left + right) if left > -math.inf else 4.0 * h
            if not left < step < right or abs(step - h) <= _EPS * abs(h):
                return h
            last, h = residual, step

    def _power_means(self, p: float, h: float) -> tuple[float, float, float]:
        """Means of (y - h)^+ over its largest, -h, to the powers p - 2, p - 1 and p."""
        if p == 2.0:
            zeroth, first, second = _compiled.positive_moments(self.y, self.weights, h)
            return zeroth, first / -h, second / (h * h)
        above = np.maximum(self.y - h, 0.0)
        above /= -h
        lower = np.zeros_like(above)
        np.power(above, p - 2.0, out=lower, where=above > 0.0)
        zeroth = self.mean(lower)
        lower *= above
        first = self.mean(lower)
        lower *= above
        return zeroth, first, self.mean(lower)

    # -- any other u: a root in s around the solver for t -------------------------------------------------------------

    def recession(self) -> tuple[float, float, float, FloatArray]:
        """Value, threshold, divergence and tilt at s = 0: least slope times the mean, and the rest on the tail."""
        least, most = self.facts.least, self.facts.most
        if least == -math.inf:
            return math.nan, math.nan, math.inf, self.y
        if most == math.inf:
            mass, density = self.on_largest()
            density = least + density * ((1.0 - least) / mass)
            value, t = least * self.mean(self.y), 0.0
            tilt = self.as_tilt(density)
        else:
            known = self.form.facts.get("recession")
            if known is None:
                rest = CVaR._of((1.0 - least) / (most - least))
                known = form(rest if least == 0.0 else least * Mean() + (1.0 - least) * rest)
                self.form.facts["recession"] = known
            solved = solve_vector(self.y, self.weights, known)
            assert solved is not None
            value, t, tilt = solved.value, solved.threshold, np.asarray(solved.tilt, np.float64)
        ratio = tilt * tilt.shape[0] if self.weights is None else tilt / np.where(self.weights > 0, self.weights, 1.0)
        low, high = float(ratio.min()), float(ratio.max())
        inside = (ratio > low + 1e-9 * (high - low)) & (ratio < high - 1e-9 * (high - low))  # losses that tie at t
        mass = self.mean(inside.astype(np.float64))
        upper = (1.0 - low - mass * (0.0 if mass == 0.0 else float(ratio[inside][0]) - low)) / (high - low or 1.0)
        some = np.array([low, high, float(ratio[inside][0]) if mass > 0.0 else high])
        u, x0 = self.form.utility, self.facts.anchor
        conjugate = np.asarray(u.conjugate(some)) - x0 * some + float(u.value(x0))
        masses = np.array([1.0 - mass - upper, upper, mass])
        return value, t, float(masses[masses > 0.0] @ conjugate[masses > 0.0]), tilt

    def _by_scale(self, radius: float, guess: tuple[float, float] | None) -> SolvedTerm:
        """s at which the divergence of the tilt, falling in s, is the radius."""
        y, low = self.y, self.low
        if guess is not None and 0.0 < guess[1] < math.inf:
            s = guess[1]
        else:
            away = y - self.mean(y)
            curvature = (
                float(np.asarray(self.form.curvature(np.array([self.facts.anchor]))[0])) if not self.form.kinks else 1.0
            )
            s = math.sqrt(0.5 * (curvature if 1e-3 < curvature < math.inf else 1.0) * self.mean(away * away) / radius)
        s = max(s, low)
        ends: dict[bool, AtScale] = {}  # too small a scale, whose divergence is too large, and too large a one
        last, width, slow = math.inf, math.inf, 0
        may_vanish = low == 0.0
        while True:
            at = self._at(s)
            residual = abs(at.divergence - radius)
            if residual <= 8.0 * _EPS * (radius + abs(at.value)) or (at.divergence < radius and s == low):
                return self._finished(at, radius)
            too_small = at.divergence > radius
            ends[too_small] = at
            if may_vanish and True not in ends:
                may_vanish = False
                value, t, divergence, tilt = self.recession()
                if divergence <= radius * (1.0 + 1e-13):
                    return SolvedTerm(value, t, 0.0, tilt)
            left = ends[True].s if True in ends else low
            right = ends[False].s if False in ends else math.inf
            if residual > 0.5 * last and residual <= 1e-10 * radius:  # sums of rounded numbers wobble
                return self._finished(at, radius)
            step = math.nan
            if at.fall > 0.0 and at.divergence > 0.0 and residual <= 0.5 * last:
                distance = math.log(at.divergence / radius) * at.divergence / at.fall
                step = s * math.exp(min(max(distance, -_LONGEST), _LONGEST))
            elif len(ends) == 2:
                step, bound = _crossing(ends[True], ends[False], radius)
                best = min(ends.values(), key=lambda end: end.s * (radius + end.value))
                known = best.s * (radius + best.value)
                if known - bound <= 4.0 * _EPS * (abs(known) + best.s * radius):  # the two tangents are the function
                    return self._finished(best, radius, ends)
                slow = slow + 1 if right - left > 0.5 * width else 0
                width = right - left
                step = math.nan if slow > 2 else step
            if not left < step < right and low > 0.0 and True not in ends:
                step = low
            elif not left < step < right:
                slow = 0
                step = math.sqrt(left * right) if left > 0.0 and right < math.inf else s * (4.0 if too_small else 0.25)
            step = max(step, low)
            if not left < step < right and not step == low < s:  # neighboring floats: the divergence jumps there
                return self._finished(at, radius, ends)
            last, s = residual, step

    def _at(self, s: float) -> AtScale:
        """The best threshold for a scale."""
        scaled = self.y / s
        solved = solve_vector(scaled, self.weights, self.form)
        if solved is None:
            raise OverflowError("The scale of a ball is beyond float64 for losses of this size.")
        value, t = solved.value - self.facts.of_zero, solved.threshold
        divergence = float(np.add.reduce(solved.tilt * (scaled - value)))
        fall = math.nan
        if self.form.utility.has_curvature:
            away = scaled - t
            curvature = slopes_at(scaled, None, self.form, self.facts, t, True)[2]
            assert curvature is not None
            total = self.mean(curvature)
            if total > 0.0:
                middle = self.mean(curvature * away) / total
                if self.form.kinks:  # a loss on a kink takes the threshold along
                    left, right = self.form.slopes(scaled, t)
                    pinned = np.flatnonzero(left < right)
                    middle = float(away[pinned[0]]) if pinned.size else middle
                away -= middle
                fall = self.mean(curvature * (away * away))
        return AtScale(s, value, t + self.facts.anchor, solved.tilt, divergence, fall)

    def _finished(self, at: AtScale, radius: float, ends: dict[bool, AtScale] | None = None) -> SolvedTerm:
        """The answer at a scale; where the divergence jumps past the radius there, its two tilts mixed."""
        tilt, mixed = at.tilt, self.share_of_small(at, radius, ends)
        if mixed is not None and ends is not None:
            tilt = ends[False].tilt + mixed * (ends[True].tilt - ends[False].tilt)
        return SolvedTerm(at.s * (radius + at.value), at.s * at.t, at.s, tilt)

    def share_of_small(self, at: AtScale, radius: float, ends: dict[bool, AtScale] | None) -> float | None:
        """How much of the tilt at the smaller of two scales has the radius as divergence; None where one scale does."""
        if ends is None or len(ends) < 2 or abs(at.divergence - radius) <= 1e-10 * radius:
            return None
        return (radius - ends[False].divergence) / (ends[True].divergence - ends[False].divergence)


class AtScale(NamedTuple):
    """What is known at a scale s: value, threshold and tilt of losses over s for the normalized u, and the divergence.

    ``fall`` is by how much the divergence falls with ln s, NaN where that is not known.
    """

    s: float
    value: float
    t: float
    tilt: Any
    divergence: float
    fall: float


def _crossing(small: AtScale, large: AtScale, radius: float) -> tuple[float, float]:
    """The scale where the tangents of the value at two others cross, and how low that is.

    The value is convex in s, and made of lines where u is: then the crossing is its minimum in the end.
    """
    fall, rise = radius - small.divergence, radius - large.divergence
    value = small.s * (radius + small.value)
    step = small.s + (large.s * (radius + large.value) - value + rise * (small.s - large.s)) / (fall - rise)
    return step, value + fall * (step - small.s)
