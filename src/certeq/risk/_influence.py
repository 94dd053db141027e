"""Influence values of a risk with more inner variables than t, and what they say of its error.

By the envelope theorem the inner variables drop out: at the best ones, psi is the sum over the parts of
t + c s + k s u((x - t)/s), less the risk. A distortion is convex and piecewise linear in one loss, its slope the tilt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from certeq._backend import NUMPY
from certeq._table import ArrayTable, SumKernel, Table
from certeq.risk._distortion import SolvedInner, needs_sorting
from certeq.risk._inference import Order, power_sums
from certeq.risk._long import LongSolved, NotFinite, raise_not_finite, summarize
from certeq.risk._long_inner import LongPart, LongRisk, solve_long_risk, solve_sample
from certeq.risk._rows import slope_and_curvature
from certeq.risk._sketch import Floats, centered, weighted_sum
from certeq.utilities import Mean, Risk, Utility
from certeq.utilities.forms import form


@dataclass(frozen=True)
class RiskInfluence:
    """Influence values of losses; small, as it travels with kernels.

    ``terms`` are (share, utility, t less the center, share of a kink's jump); of a distortion, ``points`` are the
    losses, ``heights`` the convex function at them and ``slopes`` the tilt over the weight.
    """

    utility: Utility  # one with the moments that the interval needs
    center: float
    terms: tuple[tuple[float, Utility, float, float], ...]
    level: float
    unit: float
    width: float
    points: Floats | None = None
    heights: Floats | None = None
    slopes: Floats | None = None

    def raw(self, y: Floats) -> Floats:
        """The parts of centered losses, added up."""
        if self.points is not None and self.heights is not None:
            return np.asarray(np.interp(y, self.points, self.heights))
        return np.asarray(sum(share * np.asarray(u._value(y - t, NUMPY)) for share, u, t, _ in self.terms))

    def values(self, y: Floats) -> Floats:
        """psi of centered losses, in its unit."""
        if self.unit == 0.0:
            return np.zeros(np.shape(y))
        return (self.raw(y) - self.level) / self.unit

    def density(self, y: Floats, share: float = 0.0) -> Floats:
        """The tilt of centered losses over their weights."""
        if self.points is not None and self.slopes is not None:
            return np.asarray(self.slopes[np.minimum(np.searchsorted(self.points, y), len(self.slopes) - 1)])
        total = np.zeros(np.shape(y))
        for part, u, t, of_jump in self.terms:
            left, right = form(u).slopes(y, t)
            total += part * (left + of_jump * (right - left))
        return total


class RiskSums(NamedTuple):
    """Sums of powers of influence values, of squared densities, and the bias, all from the sample."""

    powers: tuple[float, float, float]
    density_square: float
    bias: float


def solve_for_estimate(sample: Table, risk: Risk) -> LongRisk:
    """The risk of a sample with its parts; a distortion has none, and must be in memory."""
    if not needs_sorting(risk):
        return solve_long_risk(sample, risk)
    if not isinstance(sample, ArrayTable):
        risk.inner()  # says why not
    assert isinstance(sample, ArrayTable)
    try:
        size = summarize(sample)[0]
        found = solve_sample(sample, risk)
    except NotFinite:
        raise_not_finite(sample)
        raise
    assert isinstance(found, SolvedInner)
    solved = LongRisk(sample, risk, size, found.value, found.inner, (), 1)
    solved.sorted_tilt = found.tilt
    return solved


def influence_of(solved: LongRisk, rounding: float) -> RiskInfluence:
    """psi of a solved risk; the unit is 0 where all of it is rounding."""
    low, high, center = solved.summary.low, solved.summary.high, 0.0
    width = high - low
    if max(abs(low), abs(high)) > 16.0 * width:
        center = high
    if solved.sorted_tilt is not None:
        found = _sorted_influence(solved, center, width)
    else:
        terms = tuple(_term(part, center) for part in solved.parts)
        utility = sum(share * u for share, u, _, _ in terms)
        assert isinstance(utility, Utility)
        found = RiskInfluence(utility, center, terms, 0.0, 1.0, width)
    kernel = SumKernel(lambda z, w: (weighted_sum(found.raw(centered(z, center)), w),))
    level = solved.table.reduce(kernel)[0] / solved.summary.mass
    ends = found.raw(np.array([low, high]) - center) - level
    unit = float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0))
    if unit <= rounding * max(abs(low), abs(high)):
        unit = 0.0
    return replace(found, level=level, unit=unit)


def _term(part: LongPart, center: float) -> tuple[float, Utility, float, float]:
    solved = part.solved
    share = solved.tilt().share if solved.utility.kinks else 0.0
    return part.share, solved.utility, (solved.center - center) + solved.s, share


def _sorted_influence(solved: LongRisk, center: float, width: float) -> RiskInfluence:
    """The convex function whose slope between losses is the tilt over the weight."""
    table, tilt = solved.table, solved.sorted_tilt
    assert isinstance(table, ArrayTable)
    assert tilt is not None
    z = np.asarray(table.values, np.float64) - center
    weights = np.ones(z.size) if table.weights is None else np.asarray(table.weights, np.float64)
    counts = weights > 0.0
    z, ratio = z[counts], tilt[counts] / weights[counts] * solved.summary.mass
    points, first = np.unique(z, return_index=True)
    slopes = ratio[first]
    # Between two losses the slope of the lower holds up to it, and of the upper beyond: their mean, by symmetry.
    steps = 0.5 * (slopes[1:] + slopes[:-1]) * np.diff(points)
    return RiskInfluence(Mean(), center, (), 0.0, 1.0, width, points, np.append(0.0, np.cumsum(steps)), slopes)


def sums_of(solved: LongRisk, influence: RiskInfluence, order: Order) -> RiskSums:
    """One pass for psi and the tilt, and one for the bias of each part."""
    center, mass = influence.center, solved.summary.mass

    def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
        y = centered(z, center)
        density = influence.density(y)
        w2 = None if w is None else w * w
        return *power_sums(influence.values(y), w), weighted_sum(density * density, w2)

    *powers, square = solved.table.reduce(SumKernel(kernel))
    jumps = [term[3] for term in influence.terms]
    bias = sum(part.share * _bias(part, jump, mass, order) for part, jump in zip(solved.parts, jumps, strict=False))
    return RiskSums((powers[0], powers[1], powers[2]), square / mass**2, bias)


def _bias(part: LongPart, of_jump: float, mass: float, order: Order) -> float:
    """-tr(H^-1 V)/2: H the second derivative of the inner objective, V the variance of the mean of its gradient.

    In t alone where there is no scale, or a kink stands in the way; there H has the density of losses times the jump.
    """
    solved: LongSolved = part.solved
    shape, center, t = form(solved.utility), solved.center, solved.s
    with_scale = part.term.s is not None and part.scale > 0.0 and not shape.kinks

    def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
        y = centered(z, center)
        slope, curvature = slope_and_curvature(shape, y, t)
        if shape.kinks:
            slope, right = shape.slopes(y, t)
            slope = slope + of_jump * (right - slope)
        of_t = 1.0 - slope
        w2 = None if w is None else w * w
        sums = [weighted_sum(of_t * of_t, w2), weighted_sum(curvature, w)]
        if with_scale:
            away = (y - t) / part.scale
            of_s = part.cost + np.asarray(solved.utility._value(y - t, NUMPY)) / part.scale - away * slope
            sums += [weighted_sum(of_t * of_s, w2), weighted_sum(of_s * of_s, w2)]
            sums += [weighted_sum(curvature * away, w), weighted_sum(curvature * away * away, w)]
        return tuple(sums)

    sums = np.array(solved.table.reduce(SumKernel(kernel)))
    if not with_scale:
        curvature = sums[1] / mass
        curvature += sum(kink.jump * order.density_at(solved.threshold + kink.at) for kink in shape.kinks)
        return float(-0.5 * sums[0] / mass**2 / curvature) if curvature > 0.0 else 0.0
    v_tt, curvature, v_ts, v_ss, curvature_a, curvature_a2 = sums
    hessian = np.array([[curvature, curvature_a], [curvature_a, curvature_a2]]) / mass
    variance = np.array([[v_tt, v_ts], [v_ts, v_ss]]) / mass**2
    if not hessian[0, 0] * hessian[1, 1] > hessian[0, 1] ** 2:
        return 0.0
    return float(-0.5 * np.trace(np.linalg.solve(hessian, variance)))
