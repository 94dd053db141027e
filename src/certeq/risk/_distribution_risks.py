"""Risks with more inner variables than t, and distortions, of a frozen distribution of scipy.stats.

For a scale s the best threshold is that of a utility, so that a ball is the minimum of a convex function of s alone. A
distortion is an integral over the survival function S:  rho = a + int_a g(S(x)) dx - int^a (1 - g(S(x))) dx.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from certeq.risk._distortion import needs_sorting
from certeq.risk._distributions import oce_of_distribution, threshold_of_distribution
from certeq.risk._input import Floats
from certeq.utilities import Mixture, Risk, SortedRisk, Utility
from certeq.utilities.forms import Term

_FURTHEST = 60  # doublings of a scale
_SMALL = 1e-7  # of the first scale: the risk is taken for that at s = 0 where it still falls there
_ORDER = 24  # nodes of a panel
_SPLITS = 40
_TAIL = 1000  # halvings of the probability above
_LEFT = 60  # and below
_MOST_VALUES = 1 << 20
_STENCIL = ((1, 0.75), (2, -0.15), (3, 1.0 / 60.0))  # a derivative to the sixth order


def risk_of_distribution(distribution: Any, risk: Risk) -> float:
    """The risk; +inf where the tail of the losses is too heavy for it."""
    if isinstance(risk, Utility):
        return oce_of_distribution(distribution, risk)
    if isinstance(risk, Mixture):
        parts = [weight * risk_of_distribution(distribution, part) for weight, part in _parts(risk)]
        return math.inf if math.inf in parts else math.fsum(parts)
    if isinstance(risk, SortedRisk):
        return _distorted(_with_parameters(distribution), risk)
    return _solve_scale(distribution, risk, only_value=True)[0]


def thresholds_of_distribution(distribution: Any, risk: Risk) -> Any:
    """The threshold, or one for each part of a mixture; a distortion has none and says so."""
    if isinstance(risk, Utility):
        return threshold_of_distribution(distribution, risk)
    if needs_sorting(risk):
        risk.inner()
    if isinstance(risk, Mixture):
        return np.array([thresholds_of_distribution(distribution, part) for part in risk.risks])
    return _solve_scale(distribution, risk)[1]


def _parts(risk: Mixture) -> list[tuple[float, Risk]]:
    return list(zip(map(float, risk.weights), risk.risks, strict=True))


def _with_parameters(distribution: Any) -> Any:
    """A distribution that has all of them, checked by the solver for utilities."""
    return distribution if hasattr(distribution, "dist") else distribution()


# -- a scale beside the threshold -------------------------------------------------------------------------------------


def _solve_scale(distribution: Any, risk: Risk, only_value: bool = False) -> tuple[float, float]:
    """Value and threshold of a risk with one term; the value is flat in s, the threshold is not."""
    inner = risk.inner()
    (term,) = inner.terms
    if term.s is None:
        utility = term.form.utility
        return oce_of_distribution(distribution, utility), threshold_of_distribution(distribution, utility)
    cost = float(inner.cost[term.s])

    def value(log_s: float) -> float:
        s = math.exp(log_s)
        return cost * s + oce_of_distribution(distribution, _scaled(term, s))

    unit = _with_parameters(distribution).std()
    start = math.log(unit) if 0.0 < unit < math.inf else 0.0
    found = _bracket(value, start)
    if found is None:
        return math.inf, math.inf
    at, least = found
    if at <= start + math.log(_SMALL) + 1.0:  # s = 0: the largest loss, or CVaR
        high = float(_with_parameters(distribution).support()[1])
        most = term.form.utility.slope_range[1]
        if math.isfinite(most):
            from certeq.utilities import CVaR

            tail = CVaR(1.0 / most)
            return oce_of_distribution(distribution, tail), threshold_of_distribution(distribution, tail)
        return high, high
    if only_value:
        return least, math.nan
    at = _stationary(value, at)
    return min(least, value(at)), threshold_of_distribution(distribution, _scaled(term, math.exp(at)))


def _scaled(term: Term, s: float) -> Utility:
    utility = term.form.utility if term.weight == 1.0 else term.weight * term.form.utility
    return utility.scaled(s)


def _bracket(value: Callable[[float], float], start: float) -> tuple[float, float] | None:
    """Where a convex function is least, roughly, and how low it is; None where it is +inf everywhere."""
    from scipy.optimize import minimize_scalar

    step, x, middle = math.log(2.0), start, value(start)
    tries = 0
    while middle == math.inf:  # small scales weigh the tail by more than it has
        x, tries = x + step, tries + 1
        if tries > _FURTHEST:
            return None
        middle = value(x)
    right, left = value(x + step), value(x - step)
    while right < middle:
        x, left, middle = x + step, middle, right
        right = value(x + step)
    while left < middle:
        x, right, middle = x - step, middle, left
        if x <= start + math.log(_SMALL):
            return x, middle
        left = value(x - step)
    found = minimize_scalar(value, bounds=(x - step, x + step), method="bounded", options={"xatol": 1e-6})
    return float(found.x), float(min(found.fun, middle))


def _stationary(value: Callable[[float], float], x: float) -> float:
    """The minimizer to more digits than values tell: the root of the derivative, by differences of high order."""

    def slope(at: float, width: float) -> float:
        return sum(c * (value(at + k * width) - value(at - k * width)) for k, c in _STENCIL) / width

    width = 0.004  # poles of the value may be near, where the losses have a heavy tail
    last, x = x, x + 1e-3
    f_last = slope(last, width)
    for _ in range(8):
        f = slope(x, width)
        if not math.isfinite(f) or f == f_last:
            return last
        step = f * (x - last) / (f - f_last)
        last, f_last, x = x, f, x - max(-0.1, min(0.1, step))
        if abs(step) <= 1e-11:
            break
    return x


# -- distortions ------------------------------------------------------------------------------------------------------


def _distorted(distribution: Any, risk: SortedRisk) -> float:
    if hasattr(distribution.dist, "pmf"):
        return _distorted_values(distribution, risk)
    low, high = (float(end) for end in distribution.support())
    middle = float(distribution.median())
    nodes, weights = np.polynomial.legendre.leggauss(_ORDER)

    def rule(left: Floats, right: Floats, integrand: Callable[[Floats], Floats]) -> Floats:
        half, center = 0.5 * (right - left), 0.5 * (right + left)
        points = center[:, None] + half[:, None] * nodes
        return np.asarray(half * (integrand(points.ravel()).reshape(points.shape) @ weights))

    def panels(ends: Floats, integrand: Callable[[Floats], Floats]) -> Floats:
        """The integral over every panel; those whose halves do not add up are split further, as at a kink of g."""
        left, right, which = ends[:-1], ends[1:], np.arange(len(ends) - 1)
        total, whole = np.zeros(len(which)), rule(left, right, integrand)
        size = float(np.abs(whole[np.isfinite(whole)]).sum())
        for _ in range(_SPLITS):
            middle = 0.5 * (left + right)
            first, second = rule(left, middle, integrand), rule(middle, right, integrand)
            rough = np.abs(first + second - whole) > 1e-13 * size
            np.add.at(total, which[~rough], (first + second)[~rough])
            if not rough.any():
                return total
            left, right = np.append(left[rough], middle[rough]), np.append(middle[rough], right[rough])
            which, whole = np.append(which[rough], which[rough]), np.append(first[rough], second[rough])
        if float(np.abs(whole).sum()) > 1e-10 * size:
            raise ValueError(
                f"{distribution.dist.name} under {risk!r} could not be integrated to ten digits; pass x.rvs(size=...)."
            )
        np.add.at(total, which, whole)
        return total

    with np.errstate(all="ignore"):
        below = np.append(middle, distribution.ppf(0.5 ** np.arange(2.0, _LEFT)))
        above = np.append(middle, distribution.isf(0.5 ** np.arange(2.0, _TAIL)))
        below, above = (np.unique(ends[np.isfinite(ends)]) for ends in (below, above))
        if math.isfinite(low):
            below = np.append(low, below[below > low])
        if math.isfinite(high):
            above = np.append(above[above < high], high)
        gains = panels(below, lambda x: 1.0 - risk.distorted(1.0 - distribution.cdf(x)))
        losses = panels(above, lambda x: risk.distorted(distribution.sf(x)))
    left, right = _tail_sum(gains[::-1], math.isfinite(low)), _tail_sum(losses, math.isfinite(high))
    if right == math.inf:
        if left == math.inf:
            raise ValueError(f"the risk of {distribution.dist.name} under {risk!r} is not defined: inf - inf.")
        return math.inf
    return middle + right - left


def _tail_sum(parts: Floats, ends: bool) -> float:
    """The sum of the panels from the middle outwards; +inf where they do not fall."""
    parts = parts[np.isfinite(parts)]
    total = float(parts.sum())
    if ends or len(parts) < 40 or not total > 0.0:
        return total
    last = parts[-8:]
    if last[-1] <= 1e-18 * total or last[0] == 0.0:
        return total
    ratio = float(last[-1] / last[-2]) if last[-2] > 0.0 else 0.0
    return math.inf if ratio >= 1.0 - 1e-4 else total + float(last[-1]) * ratio / (1.0 - ratio)


def _distorted_values(distribution: Any, risk: SortedRisk) -> float:
    """Of values that are 1 apart: the least of them, and g(S) at every one."""
    low, high = (float(end) for end in distribution.support())
    low = low if math.isfinite(low) else float(distribution.ppf(1e-18))
    count = 64
    while True:
        x = low + np.arange(min(count, high - low))
        # From the last one back: a survival function may be a sum of its own, for every value anew.
        masses = distribution.pmf(x[1:])[::-1]
        last = float(distribution.sf(x[-1])) if len(x) else 0.0
        above = risk.distorted(np.minimum(np.cumsum(np.append(last, masses))[::-1], 1.0)) if len(x) else np.zeros(1)
        if len(x) < count or above[-1] * count <= 1e-17 * float(above.sum()):
            return low + float(above.sum())
        count *= 2
        if count > _MOST_VALUES:
            raise ValueError(
                f"x must be a distribution whose values can be summed up; {distribution.dist.name} still has "
                f"g(S(x)) = {above[-1]:.1g} at x = {x[-1]:g} under {risk!r}. Pass x.rvs(size=...) as a sample."
            )
