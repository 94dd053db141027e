"""One long sample under a risk with more inner variables than t, in few passes over its blocks.

At the best scale s a ball is the utility s u(x/s), with r s added: so an answer is a list of utilities with their
thresholds, and whatever is known of a long sample under a utility holds for each of them. The scale is found together
with the threshold by Newton's method in both, from the answer of a draw; where that gets nowhere fast, by a root in s
around the search for t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from certeq._backend import NUMPY, FloatArray
from certeq._checks import check_weight_sums
from certeq._table import ArrayTable, Block, SumKernel, Summary, Table
from certeq.risk._distortion import SolvedInner, needs_sorting
from certeq.risk._inner import AtScale, SolvedTerm, TermSolver, solve_inner, solve_risk_rows
from certeq.risk._long import Draw, LongSolved, NotFinite, TiltKernel, raise_not_finite, solve_long, summarize
from certeq.risk._sketch import centered, weighted_sum
from certeq.risk._vector import facts_of
from certeq.utilities import CVaR, Mean, Risk, Utility
from certeq.utilities.forms import Form, Inner, Term, form

_DRAW = (1 << 16) - 1  # losses that are drawn for the start: a shorter sample is solved by that
_STEPS = 6
_ONE_VALUE = 8.0 * float(np.finfo(np.float64).eps)  # losses that lie so near each other differ by rounding alone
_TOP = 1024  # of the largest losses so many are listed


@dataclass(frozen=True)
class LongPart:
    """A share of the risk, the inner variables it belongs to, and the utility that it is at the best scale."""

    share: float
    term: Term
    scale: float  # NaN where there is none
    solved: LongSolved
    cost: float = 0.0  # of the scale


@dataclass
class LongRisk:
    """The risk of a long sample, its inner variables, its parts, and how many passes over the data that took."""

    table: Table
    risk: Risk
    summary: Summary
    value: float
    inner: FloatArray
    parts: tuple[LongPart, ...]
    passes: int
    sorted_tilt: FloatArray | None = None  # of a distortion, which has no parts

    @property
    def thresholds(self) -> float | FloatArray:
        """The threshold, or those of all parts of a mixture."""
        found: FloatArray = self.inner[[term.t for term in self.risk.inner().terms]]
        return found if len(found) > 1 else float(found[0])

    def tilt(self) -> RiskTiltKernel:
        """The kernel of the tilt; it takes one pass for every part."""
        return RiskTiltKernel(tuple((part.share, part.solved.tilt()) for part in self.parts))


@dataclass(frozen=True)
class RiskTiltKernel:
    """The tilts of all parts times their shares, of every loss of a block."""

    parts: tuple[tuple[float, TiltKernel], ...]

    def __call__(self, block: Block) -> FloatArray:
        """The tilt of a block, rows of weight 0 included."""
        return np.asarray(sum(share * kernel(block) for share, kernel in self.parts))


def solve_long_risk(table: Table, risk: Risk) -> LongRisk:
    """Risk and inner variables of a long sample; an error names the loss where one is not finite."""
    value, found, parts, size, passes = solve_long_inner(table, risk.inner())
    return LongRisk(table, risk, size, value, found, parts, passes)


def solve_long_inner(table: Table, inner: Inner) -> tuple[float, FloatArray, tuple[LongPart, ...], Summary, int]:
    """The minimum over inner variables, where it is, its parts, the range of the losses, and the passes it took."""
    try:
        draw = Draw.of(table, _DRAW)
        found = np.empty(len(inner.cost))
        parts: list[LongPart] = []
        value, passes, size = 0.0, 0, None
        for term in inner.terms:
            share = float(inner.cost[term.t])
            if term.s is None:
                solved = solve_long(table, term.form.utility)
                own = [LongPart(share, term, math.nan, solved)]
                value, found[term.t] = value + share * solved.value, solved.threshold
                passes += solved.passes
            else:
                ball = _LongTermSolver(
                    table, draw, size, term.form, float(inner.cost[term.s]) / share, term.weight / share
                )
                part, solutions = ball.solve_long()
                own = [LongPart(share * mixed, term, part.s, one, ball.cost) for mixed, one in solutions]
                value, size = value + share * part.value, ball.size
                found[term.t], found[term.s] = part.t, part.s
                passes += ball.passes
            parts += own
        if size is None or not np.isfinite(size.low):  # a closed form may not have needed the range
            size, passes = summarize(table)[0], passes + 1
    except NotFinite:
        raise_not_finite(table)
        raise
    return value, found, tuple(parts), size, passes


def solve_sample(row: ArrayTable, risk: Risk) -> LongRisk | SolvedInner:
    """A long sample in blocks; where all losses must be sorted, in memory."""
    if not needs_sorting(risk):
        return solve_long_risk(row, risk)
    z = np.asarray(row.values, np.float64)
    if not np.isfinite(z).all():
        raise NotFinite
    weights = None
    if row.weights is not None:
        weights = np.asarray(row.weights, np.float64)
        check_weight_sums(float(weights.min()), float(weights.sum()), float(weights.max()))
        weights = (weights / float(weights.sum()))[None, :]
    return solve_risk_rows(z[None, :], weights, risk)[0]


@dataclass(frozen=True)
class ScaledSums:
    """The kernel of a Newton step in t and s.

    With a = ((z - center) - t)/s it sums u, u', a u', u'', a u'' and a**2 u''.
    """

    form: Form
    center: float
    t: float
    s: float
    wide = False

    def __call__(self, block: Block) -> tuple[float, ...]:
        """The sums of a block."""
        y, w = centered(block.rows, self.center) / self.s, block.weights
        t = self.t / self.s
        with np.errstate(all="ignore"):
            slope, curvature = self.form.derivatives(y, t)
            y -= t
            value = weighted_sum(np.asarray(self.form.utility._value(y, NUMPY)), w)
            sums = [value]
            for part in (slope, curvature):
                sums.append(weighted_sum(part, w))
                part = part * y
                sums.append(weighted_sum(part, w))
            part *= y
            return *sums, weighted_sum(part, w)

    def join(self, parts: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        """Each added up without rounding."""
        return SumKernel.join(self, parts)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _LargestLosses:
    """The kernel that lists the largest losses in rising order, and their weights."""

    most: int
    wide = True

    def __call__(self, block: Block) -> tuple[FloatArray, FloatArray]:
        """Those of a block."""
        weights = np.ones(len(block.rows)) if block.weights is None else block.weights
        return self.join([(block.rows, weights)])

    def join(self, parts: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
        """Those of several blocks."""
        z, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        if z.size > self.most:
            chosen = np.argpartition(z, z.size - self.most)[z.size - self.most :]
            z, weights = z[chosen], weights[chosen]
        order = np.argsort(z, kind="stable")
        return z[order], weights[order]


class _LongTermSolver(TermSolver):
    """A ball of a long sample: `TermSolver` with losses as they are, of which the draw is at hand."""

    def __init__(self, table: Table, draw: Draw, size: Summary | None, known: Form, cost: float, weight: float) -> None:
        super().__init__(draw.z, None, known, cost, weight, 0.0)
        self.table, self.draw, self.passes = table, draw, 0
        self.size: Summary = size  # type: ignore[assignment]  # known from the first pass on
        self.kept: dict[float, LongSolved] = {}  # by scale
        self.solutions: list[tuple[float, LongSolved]] = []

    def solve_long(self) -> tuple[SolvedTerm, list[tuple[float, LongSolved]]]:
        """The answer, and the utilities it is made of: two where the divergence jumps past the radius."""
        center = self.draw.center
        weights = None if self.draw.weights is None else self.draw.shares
        t, s = self._of_draw(self.draw.z - center, weights)
        part = None
        if s > 0.0 and not self.form.kinks and self.form.utility.has_curvature:
            part = self._newton(t, s, len(self.table) <= _DRAW)
            if part is None:  # a tail so heavy that the draw missed what matters: the largest losses join it
                t, s = self._of_draw(*self._with_largest())
                part = self._newton(t, s, False) if s > 0.0 else None
        if part is None:
            part = self._around_search(t, s)
        else:
            self.solutions = [(1.0, self._solved(part))]
        return part._replace(value=center + part.value, t=center + part.t), self.solutions

    def _of_draw(self, z: FloatArray, weights: FloatArray | None) -> tuple[float, float]:
        """Threshold and scale of a few losses, less the center."""
        low, high = np.array([-np.inf, 0.0]), np.full(2, np.inf)
        one = Inner(np.array([1.0, self.cost]), low, high, (Term(self.weight, self.form, 0, 1),))
        start = solve_inner(z, weights, one) if z.size else None
        if start is None:
            raise NotFinite
        return float(start.inner[0]), float(start.inner[1])

    def _with_largest(self) -> tuple[FloatArray, FloatArray]:
        """The largest losses of all as they are, and the draw for the rest; less the center, with weights."""
        top, mass = self.table.reduce(_LargestLosses(_TOP))
        self.passes += 1
        keep = self.draw.z < top[0] if top.size else np.ones(self.draw.z.size, bool)
        rest = self.draw.shares[keep]
        left = max(self.size.mass - float(mass.sum()), 0.0)
        rest = rest * (left / float(rest.sum())) if rest.size else rest
        weights = np.concatenate([rest, mass])
        return np.concatenate([self.draw.z[keep], top]) - self.draw.center, weights / float(weights.sum())

    def _around_search(self, t: float, s: float) -> SolvedTerm:
        """A root in s around the search for t."""
        if self.size is None:
            self.size, self.passes = summarize(self.table)[0], self.passes + 1
        if self.weight != 1.0:  # the same ball, of a utility that has the weight in it
            self.form, self.weight = form(self.weight * self.form.utility), 1.0
            self.facts = facts_of(self.form)
        width, top = self.size.high - self.size.low, self.size.high
        if width <= _ONE_VALUE * abs(top):
            self.solutions = [(1.0, LongSolved(self.table, Mean(), self.size, top, 0.0, top, 0))]
            return SolvedTerm(top - self.draw.center, top - self.draw.center, 0.0, self.y[:0])
        part = self._by_scale(self.cost + self.facts.of_zero, (t, s if s > 0.0 else 0.02 * width))
        if not self.solutions:  # the limit of small scales
            self.solutions = [(1.0, self.kept[0.0])]
        return part._replace(t=part.t - part.s * self.facts.anchor)

    def _newton(self, t: float, s: float, whole: bool) -> SolvedTerm | None:
        """Newton's method in both, from the answer of the draw; where that is the whole sample, it is the answer."""
        center, last = self.draw.center, math.inf
        for _ in range(_STEPS):
            kernel = ScaledSums(self.form, center, t, s)
            if self.size is None:
                self.size, means = summarize(self.table, kernel)
            else:
                means = np.array(self.table.reduce(kernel)) / self.size.mass
            self.passes += 1
            u, slope, slope_a, curvature, curvature_a, curvature_a2 = (float(mean) for mean in self.weight * means)
            gradient = np.array([1.0 - slope, self.cost + u - slope_a])
            value = t + s * (self.cost + u)
            size = max(abs(1.0 - slope), abs(float(gradient[1])) / (self.cost + abs(u)))
            if size <= (1e-9 if whole else 1e-14):
                return SolvedTerm(value, t, s, self.y[:0])
            determinant = curvature * curvature_a2 - curvature_a**2
            if not (determinant > 0.0 and size < 0.5 * last and size <= 0.3):
                return None
            inverse = np.array([[curvature_a2, -curvature_a], [-curvature_a, curvature]]) / determinant
            step = -s * (inverse @ gradient)
            if not s + step[1] > 0.0:
                return None
            t, s, before, last = t + float(step[0]), s + float(step[1]), last, size
            # Newton squares the error: the last step is taken on trust, and its gain is known.
            if size <= 1e-7 and before < math.inf:
                return SolvedTerm(value + 0.5 * float(gradient @ step), t, s, self.y[:0])
        return None

    def _solved(self, part: SolvedTerm) -> LongSolved:
        """The utility that the ball is at its best scale."""
        utility: Utility = self.form.utility if self.weight == 1.0 else self.weight * self.form.utility
        center, value = self.draw.center, part.value - part.s * self.cost
        return LongSolved(self.table, utility.scaled(part.s), self.size, center, part.t, center + value, self.passes)

    # -- what `TermSolver._by_scale` asks ---------------------------------------------------------------------------

    def _at(self, s: float) -> AtScale:
        center = self.draw.center
        solved = solve_long(self.table, self.form.utility.scaled(s))
        value, t = (solved.value - center) / s - self.facts.of_zero, (solved.threshold - center) / s
        tilt = solved.tilt()
        divergence, fall = self._mean_under(tilt, center) / s - value, math.nan
        if self.form.utility.has_curvature:
            sums = np.array(self.table.reduce(ScaledSums(self.form, center, t * s, s))) / self.size.mass
            curvature, curvature_a, curvature_a2 = (float(mean) for mean in sums[3:])
            if curvature > 0.0:
                middle = curvature_a / curvature
                if self.form.kinks:  # a loss on a kink takes the threshold along
                    count, away = self._on_kinks(tilt)
                    middle = away / (count * s) if count else middle
                fall = curvature_a2 - 2.0 * middle * curvature_a + middle * middle * curvature
                fall = fall if fall > 0.0 else math.nan
        self.passes += solved.passes + 3
        self.kept[s] = solved
        return AtScale(s, value, t + self.facts.anchor, self.y[:0], divergence, fall)

    def _mean_under(self, tilt: TiltKernel, center: float) -> float:
        """The mean of losses less the center under a tilt."""
        kernel = SumKernel(lambda z, w: (float((tilt(Block(0, z, w)) * (z - center)).sum()),))
        return float(self.table.reduce(kernel)[0])

    def _on_kinks(self, tilt: TiltKernel) -> tuple[float, float]:
        """How many losses are on a kink, and the sum of their distances from the threshold."""

        def on_kinks(z: FloatArray, w: FloatArray | None) -> tuple[float, float]:
            y = centered(z, tilt.center)
            left, right = tilt.form.slopes(y, tilt.s)
            there = y[left < right] - tilt.s
            return float(there.size), float(there.sum())

        count, away = self.table.reduce(SumKernel(on_kinks))
        self.passes += 1
        return float(count), float(away)

    def recession(self) -> tuple[float, float, float, FloatArray]:
        least, most, center = self.facts.least, self.facts.most, self.draw.center
        if least == -math.inf:
            return math.nan, math.nan, math.inf, self.y[:0]
        counts = self._counts(self.size.high)
        tail = (1.0 - least) / (most - least) if most < math.inf else 0.5 * counts[1]  # all of it on the largest loss
        rest = CVaR._of(tail)
        solved = solve_long(self.table, rest if least == 0.0 else least * Mean() + (1.0 - least) * rest)
        self.passes += solved.passes + 2
        above, ties = counts if most == math.inf else self._counts(solved.threshold)
        top = least + (1.0 - least) / ties if most == math.inf else most
        shares = np.array([1.0 - above - ties, ties, above])
        tied = (1.0 - shares[0] * least - above * top) / ties if most < math.inf and ties > 0.0 else top
        ratios = np.array([least, tied, top])
        u, x0 = self.form.utility, self.facts.anchor
        conjugate = np.asarray(u.conjugate(ratios)) - x0 * ratios + float(u.value(x0))
        self.kept[0.0] = solved
        divergence = float(shares[shares > 0.0] @ conjugate[shares > 0.0])
        return solved.value - center, solved.threshold - center, divergence, self.y[:0]

    def _counts(self, at: float) -> tuple[float, float]:
        """The weight of losses above a point, and of those on it."""
        kernel = SumKernel(
            lambda z, w: (weighted_sum(np.where(z > at, 1.0, 0.0), w), weighted_sum(np.where(z == at, 1.0, 0.0), w))
        )
        above, ties = self.table.reduce(kernel)
        return above / self.size.mass, ties / self.size.mass

    def _finished(self, at: AtScale, radius: float, ends: dict[bool, AtScale] | None = None) -> SolvedTerm:
        mixed = self.share_of_small(at, radius, ends)
        self.solutions = [(1.0, self.kept[at.s])]
        if mixed is not None and ends is not None:
            self.solutions = [(mixed, self.kept[ends[True].s]), (1.0 - mixed, self.kept[ends[False].s])]
        return SolvedTerm(at.s * (radius + at.value), at.s * at.t, at.s, self.y[:0])
