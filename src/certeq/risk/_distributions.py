"""Distributions as input: OCE and threshold of a frozen distribution of scipy.stats.

A distribution loc + scale Z is solved as its standard member Z, with the utility in units of the scale,

    OCE_u(loc + scale Z) = loc + scale OCE_v(Z)  with  v(z) = u(scale z) / scale,

so that no digits are lost to a location. Z is integrated or summed up; its log-mean-exp has a closed form for many
families. What cannot be had to ten digits is refused.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from certeq._checks import shown
from certeq.risk._input import Floats, check_utility
from certeq.risk._quadrature import DensityPanels, Integral, Integrand, times
from certeq.risk._scipy_families import LIGHT, TailDecay, breaks, log_density, log_mean_exp, tails
from certeq.utilities import Arctangent, Exponential, Pieces, Power, Quadratic, Utility
from certeq.utilities.forms import Atom, form

_INF = math.inf
_ACCEPTED = 1e-10  # relative error
_PLAUSIBLE = 1e-3  # deviation of a total mass from 1
_MOST_VALUES = 1 << 22  # values of a discrete distribution that are summed up
_MANY_VALUES = 1 << 16  # values of a power law that are summed up one by one
_NEGLIGIBLE = 1e-17
_MOST_DOUBLINGS = 200
_MOST_ROUNDS = 8
_FAR_EXPONENT = 600.0  # from here on exp(x) is multiplied by masses as a logarithm
_LEAST_LOG_MASS = -650.0  # below, a mass has too few digits, or none


def is_distribution(x: Any) -> bool:
    """Whether x is a distribution of scipy.stats, which is not imported here."""
    stats = sys.modules.get("scipy.stats")
    return stats is not None and isinstance(x, (stats.rv_continuous, stats.rv_discrete, _frozen(stats)))


def _frozen(stats: Any) -> Any:
    """The class of distributions with their parameters, which has no public name."""
    return type(stats.norm()).__mro__[1]


def refuse_sample_arguments(**given: Any) -> None:
    """Weights and axes belong to samples."""
    for name, found in given.items():
        if found is not None:
            raise TypeError(f"{name} must be left out where x is a distribution; found {shown(found)}.")


def oce_of_distribution(distribution: Any, utility: Utility) -> float:
    """OCE; +inf where a known tail is too heavy for u."""
    problem = _StandardProblem.of(distribution, utility)
    if not problem.has_mean(derivative=False):
        return _INF
    value = problem.location + problem.scale * problem.solve().value
    if utility.is_monotone:  # never above the OCE of the largest loss, which rounding may pass
        value = min(value, float(problem.given.support()[1]) + utility.oce_of_zero)
    return value


def threshold_of_distribution(distribution: Any, utility: Utility) -> float:
    """The threshold; +inf where the mean slope of u(X - t) is infinite for every t."""
    problem = _StandardProblem.of(distribution, utility)
    if not problem.has_mean(derivative=not problem.is_linear):
        return _INF
    return problem.location + problem.scale * problem.solve(only_threshold=True).threshold


class _SolvedDistribution(NamedTuple):
    """OCE and threshold of a standard member; the OCE is NaN where it was not asked for."""

    value: float
    threshold: float


class _StandardProblem:
    """A distribution as location, scale and standard member, with the utility in units of the scale."""

    def __init__(self, given: Any, utility: Utility) -> None:
        self.given, self.given_utility = given, utility
        self.shapes, location, scale = given.dist._parse_args(*given.args, **given.kwds)
        self.location, self.scale = float(location), float(scale)
        self.standard = given.dist.freeze(*self.shapes)
        self.low, self.high = (float(end) for end in self.standard.support())
        self.utility = utility if self.scale == 1.0 else utility.scaled(1.0 / self.scale)
        self.form = form(self.utility)
        self.is_linear = isinstance(self.utility.shape, Pieces) and self.utility.shape.low == self.utility.shape.high

    @classmethod
    def of(cls, distribution: Any, utility: Utility) -> _StandardProblem:
        """The problem, checked."""
        check_utility(utility).anchor  # noqa: B018  (a sum whose slopes never reach 1 says so here)
        if not hasattr(distribution, "dist"):  # such as scipy.stats.norm itself, or an rv_histogram
            if distribution.numargs > 0:
                raise TypeError(
                    f"x must be a distribution with its parameters, {distribution.shapes}; found scipy.stats."
                    f"{distribution.name} without any."
                )
            distribution = distribution()
        if any(np.ndim(parameter) > 0 for parameter in (*distribution.args, *distribution.kwds.values())):
            raise ValueError("x must be a single distribution; found one with arrays as parameters.")
        low, high = (float(end) for end in distribution.support())
        if not low <= high:
            raise ValueError(f"x must be a distribution with valid parameters; found {_described(distribution)}.")
        return cls(distribution, utility)

    def __str__(self) -> str:
        return f"{_described(self.given)} under {self.given_utility!r}"

    # -- whether it exists --------------------------------------------------------------------------------------------

    def tails(self) -> tuple[TailDecay, TailDecay]:
        """How fast the tails fall; a ValueError where that is not known."""
        bounded = math.isfinite(self.low), math.isfinite(self.high)
        if all(bounded):
            return LIGHT, LIGHT
        found = tails(self.standard.dist, tuple(map(float, self.shapes)))
        if found is not None:
            return LIGHT if bounded[0] else found[0], LIGHT if bounded[1] else found[1]
        if bounded[1] and self.utility.slope_range[0] == 0.0:  # u is level where the gains are
            return LIGHT, LIGHT
        raise ValueError(
            f"x must be a distribution of bounded support, or of a family whose tails are known here; found "
            f"{_described(self.given)}. Whether its OCE under {self.given_utility!r} is finite cannot be told: pass "
            "x.rvs(size=...) as a sample, or a distribution truncated where the losses end."
        )

    def has_mean(self, derivative: bool) -> bool:
        """Whether E u(X - t), or E u'(X - t), is finite; False where it is +inf."""
        lower, upper = self.tails()
        growths = self.growth(derivative) if math.isinf(self.low) or math.isinf(self.high) else (0.0, 0.0)
        if not derivative and lower.power <= growths[0] == 1.0 and self.utility.slope_range[0] > 0.0:
            raise ValueError(f"OCE of {self} is not defined: gains have no mean, and u falls without bound.")
        rate = max((exponential.rate for _, exponential in self.exponentials), default=0.0)
        enough = lower.power > growths[0] and (rate == 0.0 or rate < upper.rate or math.isfinite(self.high))
        return enough and upper.power > growths[1]

    @property
    def exponentials(self) -> list[tuple[Atom, Exponential]]:
        """The parts of u that are exponentials, in units of the standard member."""
        found = [(atom, atom.base.shape) for atom in self.form.atoms if atom.weight > 0.0]
        return [(atom, shape.scaled(atom.scale)) for atom, shape in found if isinstance(shape, Exponential)]

    def growth(self, derivative: bool = False) -> tuple[float, float]:
        """p such that u, or its derivative, grows like |x|**p to the left and to the right, exponentials aside."""
        left = right = 0.0
        for atom in self.form.atoms:
            least = atom.base.slope_range[0]
            match atom.base.shape or atom.base.curve:
                case Exponential():
                    growths = 0.0, 0.0
                case Quadratic():
                    growths = 2.0, 2.0
                case Power(degree):
                    growths = 0.0, degree + 1.0
                case _ if math.isfinite(atom.base.lipschitz):
                    growths = 0.0 if least == 0.0 else 1.0, 1.0
                case _:
                    raise ValueError(
                        "utility must have a bounded slope, or be built of Entropic, MeanVariance, MonotoneMeanVariance"
                        f" and Quartic, for a distribution of unbounded support; found {atom.base!r}. Whether OCE of "
                        f"{_described(self.given)} is finite cannot be told."
                    )
            left, right = max(left, growths[0]), max(right, growths[1])
        return (max(left - 1.0, 0.0), max(right - 1.0, 0.0)) if derivative else (left, right)

    @cached_property
    def kinks(self) -> Floats:
        """Where the slope or the curvature of u is known to jump."""
        found = list(self.form.kink_locations)
        for atom in self.form.atoms:
            match atom.base.curve:
                case Power(_, width):
                    at = atom.base.anchor - width
                case Arctangent(width, high):
                    at = atom.base.anchor + width * math.sqrt(high - 1.0)
                case _:
                    continue
            found.append(atom.scale * at - atom.shift)
        return np.array(found, dtype=np.float64)

    # -- solving ------------------------------------------------------------------------------------------------------

    def solve(self, only_threshold: bool = False) -> _SolvedDistribution:
        """OCE and threshold of the standard member; the threshold alone may exist where OCE is +inf."""
        with np.errstate(all="ignore"):
            shape = self.utility.shape
            if isinstance(shape, Exponential):
                found = self._log_mean_exp(shape.rate)
                if found == _INF and self.tails()[1].rate == _INF:
                    raise OverflowError(f"OCE of {self} is beyond float64 (1.8e308).")
                return _SolvedDistribution(found + self.utility.oce_of_zero, found - self.utility.anchor)
            if hasattr(self.standard.dist, "pmf"):
                return _solve_discrete(self, only_threshold)
            try:
                return _solve_continuous(self, only_threshold)
            except OverflowError as error:  # raised by scipy for some families
                raise ValueError(
                    f"the density of {_described(self.given)} cannot be evaluated far out in its tail: {error}."
                ) from error

    def _log_mean_exp(self, rate: float) -> float:
        found = log_mean_exp(self.standard.dist, tuple(map(float, self.shapes)), rate)
        if found is not None:
            return found
        discrete = hasattr(self.standard.dist, "pmf")
        return _discrete_log_mean_exp(self, rate) if discrete else _continuous_log_mean_exp(self, rate)

    def integrands(self, t: float) -> tuple[Integrand, Integrand]:
        """u(X - t) and its left derivative, times the mass; exponentials as logarithms where they are large."""

        def exponential(points: Floats, log_mass: Floats, terms: Floats, derivative: bool) -> Floats:
            far = np.zeros(points.shape, dtype=bool)
            total = np.zeros(points.shape)
            for atom, shape in self.exponentials:
                exponent = shape.rate * (points - t + atom.shift - atom.scale * atom.base.anchor)
                far |= exponent > _FAR_EXPONENT
                total += atom.weight / (1.0 if derivative else shape.rate) * np.exp(log_mass + exponent)
            return np.where(far & (log_mass > -_INF), total, terms)

        def value(points: Floats, log_mass: Floats) -> Floats:
            terms = times(np.exp(log_mass), self.utility.value(points - t))
            return exponential(points, log_mass, terms, derivative=False)

        def slope(points: Floats, log_mass: Floats) -> Floats:
            terms = times(np.exp(log_mass), self.form.left_slope(points, t))
            return exponential(points, log_mass, terms, derivative=True)

        return value, slope

    def refusal(self, error: float, mass: float) -> ValueError:
        """What is said where ten digits cannot be had."""
        return ValueError(
            f"{self} could not be integrated to ten digits: the estimated relative error is {error:.1g}, and the total "
            f"mass 1 came out as {mass:.12g}; pass x.rvs(size=...) as a sample."
        )


def _described(distribution: Any) -> str:
    settings = [*map(shown, distribution.args), *(f"{key}={shown(value)}" for key, value in distribution.kwds.items())]
    name = distribution.dist.name
    if name in (None, "Distribution"):  # of a histogram, or of a class whose author gave none
        name = type(distribution.dist).__name__
    return f"{name}({', '.join(settings)})"


# -- continuous distributions -----------------------------------------------------------------------------------------


def _mass(_: Floats, log_mass: Floats) -> Floats:
    return np.exp(log_mass)


def _density(problem: _StandardProblem) -> DensityPanels:
    lower, upper = problem.tails()
    shapes = tuple(map(float, problem.shapes))
    dist = problem.standard.dist
    own = log_density(dist, shapes) or problem.standard.logpdf
    density = DensityPanels(problem.standard, own, (lower.power, upper.power), breaks(dist, shapes))
    if not np.all((density.corners[:, 1] >= 0.0) & (density.corners[:, 1] <= 1.0)):
        raise ValueError(
            f"x must be a distribution whose cdf lies between 0 and 1; found {_described(problem.given)}, whose "
            "density and cdf contradict each other."
        )
    return density


def _solve_continuous(problem: _StandardProblem, only_threshold: bool) -> _SolvedDistribution:
    density = _density(problem)
    growth, slope_growth = (problem.growth(derivative) if _is_unbounded(problem) else (0.0, 0.0)
                            for derivative in (False, True))  # fmt: skip
    kinks = problem.kinks
    t, last = _first_threshold(problem, density.median), math.nan
    mass, relative = Integral(math.nan, math.nan, math.nan), _INF
    for _ in range(_MOST_ROUNDS):
        density.split(t + kinks)
        value, slope = problem.integrands(t)
        errors = density.refine(_mass, slope if only_threshold and not problem.is_linear else value, slope)
        mass = density.integral(_mass, (0.0, 0.0))
        if density.exhausted or not abs(mass.value - 1.0) <= _PLAUSIBLE:
            relative = sum(errors) + abs(mass.value - 1.0)
            break
        if problem.is_linear:
            t += density.integral(value, growth, t + kinks).value / mass.value - float(problem.utility.value(0.0))
        else:
            t = _search_threshold(problem, density, t, slope_growth, mass.value)
        value, slope = problem.integrands(t)
        if only_threshold and not problem.is_linear:
            found = density.integral(slope, slope_growth, t + kinks)
            answer, size = t, max(abs(t + problem.location / problem.scale), density.unit)
        else:
            found = density.integral(value, growth, t + kinks)
            answer = t + found.value / mass.value
            size = max(abs(answer + problem.location / problem.scale), found.size)
        deviation = (abs(mass.value - 1.0) + errors[0] + mass.error + density.noise) * found.size
        against = found.size if only_threshold and not problem.is_linear else size
        relative = (deviation + errors[1] + found.error) / against if against > 0.0 else _INF
        if abs(answer - last) <= 0.01 * _ACCEPTED * size:
            if relative <= _ACCEPTED:
                return _SolvedDistribution(math.nan if only_threshold else answer, t)
            break
        last = answer
    raise problem.refusal(relative, mass.value)


def _is_unbounded(problem: _StandardProblem) -> bool:
    return math.isinf(problem.low) or math.isinf(problem.high)


def _first_threshold(problem: _StandardProblem, median: float) -> float:
    """A guess: the quantile that the threshold of two linear pieces is, for others the median."""
    shape = problem.utility.shape
    if not isinstance(shape, Pieces) or problem.is_linear:
        return median - problem.utility.anchor
    quantile = float(problem.standard.isf(shape.tail))
    bins = getattr(problem.standard.dist, "_hbins", None)
    if bins is not None:  # the smallest of all quantiles: the left end of empty bins
        heights = problem.standard.pdf(0.5 * (bins[1:] + bins[:-1]))
        below = int(np.searchsorted(bins, quantile, side="left"))
        while below > 0 and bins[below] == quantile and heights[below - 1] == 0.0:
            below -= 1
            quantile = float(bins[below])
    return quantile - shape.kink


def _search_threshold(
    problem: _StandardProblem, density: DensityPanels, start: float, growth: tuple[float, float], mass: float
) -> float:
    """The t with E u'(X - t) = 1."""
    from scipy.optimize import brentq

    def excess(t: float) -> float:
        return density.integral(problem.integrands(t)[1], growth, t + problem.kinks).value / mass - 1.0

    rounding = 4.0 * float(np.finfo(float).eps)
    at_start = excess(start)
    if abs(at_start) <= rounding:
        return start
    side = 1.0 if at_start > 0.0 else -1.0
    near, far, reach = start, start, 1e-6 * density.unit
    for _ in range(_MOST_DOUBLINGS):
        near, far, reach = far, start + side * reach, 4.0 * reach
        if excess(far) * side <= 0.0:
            break
    else:
        raise ValueError(f"the mean slope of u(X - t) does not cross 1 for any t: {problem} has too heavy a tail.")
    low, high = min(near, far), max(near, far)
    while not math.isfinite(excess(low)) and low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return float(brentq(excess, low, high, xtol=rounding * max(abs(low), abs(high), density.unit), rtol=rounding))


def _exp_remainder(y: Floats) -> Floats:
    """exp(y) - 1 - y for |y| <= 1, without cancellation."""
    total = np.zeros_like(y)
    for k in range(20, 1, -1):
        total = (total + 1.0) * y / k
    return np.asarray(total * y)


def _continuous_log_mean_exp(problem: _StandardProblem, rate: float) -> float:
    """ln E exp(rate X) / rate; the tilted density may lie where the density itself is below 1e-308."""
    density = _density(problem)

    def exponents(points: Floats, log_mass: Floats) -> Floats:
        return np.where(log_mass > -_INF, rate * points + log_mass, -_INF)

    top, errors = -_INF, [_INF, _INF]

    def tilted(points: Floats, log_mass: Floats) -> Floats:
        return np.exp(exponents(points, log_mass) - top)

    for _ in range(_MOST_DOUBLINGS):  # panels that miss a narrow peak see it once they are halved
        last, top = top, float(exponents(*density.all_points()).max())
        errors = density.refine(_mass, tilted)
        if abs(top - last) < 1e-3 or density.exhausted:
            break
    mass = density.integral(_mass, (0.0, 0.0))
    found = density.integral(tilted, (0.0, 0.0))
    value = (math.log(found.value) + top) / rate
    points, log_mass = density.all_points()
    mean = float(times(np.exp(log_mass), points).sum()) / mass.value
    if (
        abs(value - mean) * rate < 1.0
    ):  # a small rate: ln(1 + E[exp(y) - 1 - y]) with y = rate (X - mean) has the digits
        y = rate * (points - mean)
        near = np.abs(y) <= 1.0
        small = times(np.exp(log_mass), _exp_remainder(np.where(near, y, 0.0)))
        large = np.exp(exponents(points, log_mass) - rate * mean) - np.exp(log_mass) * (1.0 + y)
        value = mean + math.log1p(float(np.where(near, small, large).sum()) / mass.value) / rate
    rounding = float((tilted(points, log_mass) * np.abs(np.where(log_mass > -_INF, log_mass, 0.0))).sum())
    tilt_error = (errors[1] + found.error + rounding * float(np.finfo(float).eps)) / found.value
    deviation = abs(mass.value - 1.0) + errors[0] + mass.error + density.noise + tilt_error
    size = max(abs(value + problem.location / problem.scale), density.unit)
    if not deviation / rate * min(1.0, rate * max(abs(value), density.unit)) <= _ACCEPTED * size:
        raise problem.refusal(deviation / (rate * size), mass.value)
    return value


# -- discrete distributions -------------------------------------------------------------------------------------------


class _Values(NamedTuple):
    """Values of a discrete distribution with their masses and the logarithms of these, which may underflow."""

    points: Floats
    mass: Floats
    log_mass: Floats


def _solve_discrete(problem: _StandardProblem, only_threshold: bool) -> _SolvedDistribution:
    """The sum over all values, or over those that matter."""
    from certeq.risk._api import oce, threshold

    shape = problem.utility.shape
    heavy = problem.tails()[1].power < _INF
    if only_threshold and isinstance(shape, Pieces) and not problem.is_linear and heavy:
        return _SolvedDistribution(math.nan, _discrete_quantile(problem.standard, shape.tail) - shape.kink)
    center = float(problem.standard.median())

    def log_sizes(points: Floats) -> list[Floats]:
        x = points - center
        function = problem.utility.slope if only_threshold else problem.utility.value
        found = np.log1p(np.abs(np.asarray(function(x))) + np.abs(x) * (not only_threshold))
        exponents = [atom_shape.rate * x for _, atom_shape in problem.exponentials]
        return [np.where(np.isfinite(found), found, np.max([0.0 * x, *exponents], axis=0)), *exponents]

    values = _values_of_power_law(problem) if isinstance(shape, Pieces) and heavy else _values(problem, log_sizes)
    if any(_underflows(values, log_size) for log_size in log_sizes(values.points)):
        raise _too_many(problem)
    kept = values.mass > 0.0
    points, mass = values.points[kept], values.mass[kept]
    t = float(threshold(points, problem.utility, mass))
    if only_threshold:
        return _SolvedDistribution(math.nan, t)
    value = float(oce(points, problem.utility, mass))
    total = float(mass.sum())
    size = float(times(mass, np.abs(problem.utility.value(points - t))).sum())
    error = abs(total - 1.0) * size / max(size, abs(value + problem.location / problem.scale))
    if not error <= _ACCEPTED:
        raise problem.refusal(error, total)
    return _SolvedDistribution(value, t)


def _discrete_log_mean_exp(problem: _StandardProblem, rate: float) -> float:
    """ln E exp(rate X) / rate, of logarithms where the masses that matter underflow."""
    from certeq.risk._api import oce

    def log_sizes(points: Floats) -> list[Floats]:
        return [rate * points]

    values = _values(problem, log_sizes)
    exponents = values.log_mass + rate * values.points
    if not _underflows(values, rate * values.points):
        kept = values.mass > 0.0
        total = float(values.mass.sum())
        if not abs(total - 1.0) <= _ACCEPTED:
            raise problem.refusal(abs(total - 1.0), total)
        found = float(oce(values.points[kept], problem.utility, values.mass[kept]))
        return found - problem.utility.oce_of_zero
    top = float(exponents.max())
    return (top + math.log(float(np.exp(exponents - top).sum()))) / rate


def _discrete_quantile(standard: Any, tail: float) -> float:
    """The smallest value with no more than ``tail`` of the mass above it."""
    found = float(standard.isf(tail))
    while float(standard.sf(found)) > tail:
        found += 1.0
    while float(standard.sf(found - 1.0)) <= tail:
        found -= 1.0
    return found


def _values_of_power_law(problem: _StandardProblem) -> _Values:
    """Values up to some point, and one for all beyond, where u is linear: it has their mass and their mean.

    Both are differences from 1 and from the mean of all, a closed form.
    """
    standard = problem.standard
    end = max(_MANY_VALUES, 2.0 * _first_threshold(problem, float(standard.median())))
    if end > _MOST_VALUES:
        raise _too_many(problem)
    points = np.arange(problem.low, end + 1.0)
    mass = np.asarray(standard.pmf(points), dtype=np.float64)
    beyond = 1.0 - math.fsum(mass)
    if beyond > 0.0:
        points = np.append(points, (float(standard.mean()) - math.fsum(mass * points)) / beyond)
        mass = np.append(mass, beyond)
    return _Values(points, mass, np.log(mass))


def _underflows(values: _Values, log_size: Floats) -> bool:
    """Whether terms matter whose masses are no float64."""
    terms = values.log_mass + log_size
    low = values.log_mass < _LEAST_LOG_MASS
    return bool(low.any()) and float(terms[low].max()) > float(terms.max()) + math.log(_NEGLIGIBLE)


def _values(problem: _StandardProblem, log_sizes: Callable[[Floats], list[Floats]]) -> _Values:
    """All values, or those outside of which the masses times any of the sizes are nothing beside the sum."""
    standard, low, high = problem.standard, problem.low, problem.high
    if hasattr(standard.dist, "xk"):  # rv_discrete(values=...): any numbers
        mass = np.asarray(standard.dist.pk, dtype=np.float64)
        return _Values(np.asarray(standard.dist.xk, dtype=np.float64), mass, np.log(mass))
    powers = problem.tails()[1].power - problem.growth()[1] if math.isinf(high) else _INF
    if _MOST_VALUES**-powers > _NEGLIGIBLE:
        raise _too_many(problem)
    center, deviation = float(standard.median()), float(standard.std())
    if not math.isfinite(center):
        raise _too_many(problem)
    own = log_density(standard.dist, tuple(map(float, problem.shapes)))
    reach = 16.0 * max(deviation, 1.0) if math.isfinite(deviation) else 1024.0
    while True:
        start, end = max(low, math.floor(center - reach)), min(high, math.ceil(center + reach))
        if end - start > _MOST_VALUES:
            raise _too_many(problem)
        points = np.arange(start, end + 1.0)
        log_mass = np.asarray((own or standard.logpmf)(points), dtype=np.float64)
        terms = [log_mass + log_size for log_size in log_sizes(points)]
        left = all(_is_negligible_beyond(term) for term in terms) or (start == low and math.isfinite(log_mass[0]))
        right = all(_is_negligible_beyond(term[::-1]) for term in terms) or (
            end == high and math.isfinite(log_mass[-1])
        )
        if left and right:
            mass = np.exp(log_mass) if own else standard.pmf(points)
            return _Values(points, np.asarray(mass, dtype=np.float64), log_mass)
        if (not left and log_mass[0] == -_INF) or (not right and log_mass[-1] == -_INF):
            raise _too_many(problem)  # masses underflow before the terms become small
        reach *= 2.0


def _is_negligible_beyond(terms: Floats) -> bool:
    """Whether all that lies before the first finite term, falling like the first two, is nothing beside the sum."""
    first = int(np.argmax(terms > -_INF))
    if first + 1 >= terms.size or not terms[first + 1] > terms[first]:
        return False
    top = float(terms.max())
    beyond = float(terms[first]) - top - math.log(math.expm1(min(float(terms[first + 1] - terms[first]), 100.0)))
    return beyond < math.log(_NEGLIGIBLE * float(np.exp(terms - top).sum()))


def _too_many(problem: _StandardProblem) -> ValueError:
    return ValueError(
        f"{_described(problem.given)} has more values that matter than can be summed up ({_MOST_VALUES}), or masses "
        "that matter below 1e-308; pass x.rvs(size=...) as a sample."
    )
