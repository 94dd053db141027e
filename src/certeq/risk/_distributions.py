"""Distributions as input: OCE and threshold of a frozen distribution of scipy.stats, by quadrature.

The density is integrated over panels of sixteen Gauss-Legendre points each. Panels grow like powers of two away from
the median and shrink likewise towards the ends of the support, so that a few hundred are enough for power-law tails and
singular densities; they are halved wherever an integrand is not resolved, and cut in two at a kink of u(x - t).

Whether an expectation exists at all no quadrature can tell: that is looked up, by the name of the family.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from certeq.risk._input import Floats, check_utility
from certeq.utilities import Exponential, Pieces, Power, Quadratic, Utility
from certeq.utilities.forms import Form, form

_INF = math.inf
_POINTS = 16
_TOLERANCE = 1e-12  # relative, of a panel, against the sum over all
_ACCEPTED = 1e-10  # of the total mass, and of the value
_MOST_PANELS = 20_000
_MOST_VALUES = 1 << 22  # values of a discrete distribution that are summed up
_NEGLIGIBLE = 1e-18
_MOST_DOUBLINGS = 200


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
            raise TypeError(f"{name} must be left out where x is a distribution; found {found!r}.")


class SolvedDistribution(NamedTuple):
    """OCE and threshold of a distribution."""

    value: float
    threshold: float


def solve_distribution(distribution: Any, utility: Utility) -> SolvedDistribution:
    """OCE and threshold; both +inf where a known tail is too heavy for the utility."""
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
    if not _is_finite(distribution, utility, low, high):
        return SolvedDistribution(_INF, _INF)
    solve = _solve_discrete if hasattr(distribution.dist, "pmf") else _solve_continuous
    with np.errstate(all="ignore"):
        return solve(distribution, utility, low, high)


def _described(distribution: Any) -> str:
    settings = [*map(repr, distribution.args), *(f"{key}={value!r}" for key, value in distribution.kwds.items())]
    return f"{distribution.dist.name}({', '.join(settings)})"


# -- whether it exists ------------------------------------------------------------------------------------------------


class TailDecay(NamedTuple):
    """How fast one tail falls, for location 0 and scale 1: E exp(c|X|) exists for c < rate, E |X|**p for p < power."""

    rate: float = 0.0
    power: float = _INF


_LIGHT = TailDecay(rate=_INF)
_SUBEXPONENTIAL = TailDecay()  # all moments, and no exponential one


def _stretched(c: float) -> TailDecay:
    """exp(-x**c)."""
    return _LIGHT if c > 1 else TailDecay(1.0) if c == 1 else _SUBEXPONENTIAL


def _extreme(c: float) -> TailDecay:
    """The generalized Pareto and extreme value families: a power law, an exponential, or an end."""
    return TailDecay(power=1.0 / c) if c > 0 else TailDecay(1.0) if c == 0 else _LIGHT


def _reached(rate: float) -> TailDecay:
    """x**-1.5 exp(-rate x): E exp(c|X|) exists for c = rate as well."""
    return TailDecay(math.nextafter(rate, _INF))


# Lower and upper tail by the family's parameters; a tail that ends within the support does not matter.
_TAILS: dict[str, Callable[..., tuple[TailDecay, TailDecay]]] = {
    **{
        name: lambda *_: (_LIGHT, _LIGHT)
        for name in (
            "norm", "halfnorm", "foldnorm", "truncnorm", "skewnorm", "powernorm", "maxwell", "rayleigh", "rice", "chi",
            "nakagami", "gompertz", "poisson", "skellam",
        )
    },
    **{name: lambda *_: (TailDecay(1.0), TailDecay(1.0)) for name in ("expon", "gamma", "erlang", "laplace", "logistic",
                                                           "halflogistic", "hypsecant", "dgamma")},
    **{name: lambda *_: (_SUBEXPONENTIAL, _SUBEXPONENTIAL) for name in ("lognorm", "gibrat", "johnsonsu",
                                                                       "powerlognorm")},
    **{name: lambda *_: (TailDecay(power=1.0), TailDecay(power=1.0)) for name in ("cauchy", "halfcauchy", "foldcauchy",
                                                                       "skewcauchy")},
    "chi2": lambda df: (_LIGHT, TailDecay(0.5)),
    "gumbel_r": lambda: (_LIGHT, TailDecay(1.0)),
    "gumbel_l": lambda: (TailDecay(1.0), _LIGHT),
    "genlogistic": lambda c: (TailDecay(c), TailDecay(1.0)),
    "laplace_asymmetric": lambda kappa: (TailDecay(1.0 / kappa), TailDecay(kappa)),
    "exponnorm": lambda K: (_LIGHT, TailDecay(1.0 / K)),
    "invgauss": lambda mu: (_LIGHT, _reached(0.5 / mu**2)),
    "norminvgauss": lambda a, b: (_reached(a + b), _reached(a - b)),
    "gennorm": lambda beta: (_stretched(beta), _stretched(beta)),
    "weibull_min": lambda c: (_LIGHT, _stretched(c)),
    "weibull_max": lambda c: (_stretched(c), _LIGHT),
    "dweibull": lambda c: (_stretched(c), _stretched(c)),
    "t": lambda df: (TailDecay(power=df), TailDecay(power=df)),
    "nct": lambda df, nc: (TailDecay(power=df), TailDecay(power=df)),
    "pareto": lambda b: (_LIGHT, TailDecay(power=b)),
    "lomax": lambda c: (_LIGHT, TailDecay(power=c)),
    "genpareto": lambda c: (_LIGHT, _extreme(c)),
    "genextreme": lambda c: (_stretched(1.0 / c) if c > 0 else _LIGHT, _extreme(-c)),
    "burr": lambda c, d: (_LIGHT, TailDecay(power=c)),
    "burr12": lambda c, d: (_LIGHT, TailDecay(power=c * d)),
    "fisk": lambda c: (_LIGHT, TailDecay(power=c)),
    "f": lambda dfn, dfd: (_LIGHT, TailDecay(power=0.5 * dfd)),
    "betaprime": lambda a, b: (_LIGHT, TailDecay(power=b)),
    "invgamma": lambda a: (_LIGHT, TailDecay(power=a)),
    "invweibull": lambda c: (_LIGHT, TailDecay(power=c)),
    "levy": lambda: (_LIGHT, TailDecay(power=0.5)),
    "loglaplace": lambda c: (_LIGHT, TailDecay(power=c)),
    "geom": lambda p: (_LIGHT, TailDecay(-math.log1p(-p) if p < 1 else _INF)),
    "nbinom": lambda n, p: (_LIGHT, TailDecay(-math.log1p(-p) if p < 1 else _INF)),
    "logser": lambda p: (_LIGHT, TailDecay(-math.log(p))),
    "planck": lambda rate: (_LIGHT, TailDecay(rate)),
    "dlaplace": lambda a: (TailDecay(a), TailDecay(a)),
    "zipf": lambda a: (_LIGHT, TailDecay(power=a - 1.0)),
    "yulesimon": lambda alpha: (_LIGHT, TailDecay(power=alpha)),
}  # fmt: skip


def _is_finite(distribution: Any, utility: Utility, low: float, high: float) -> bool:
    """Whether OCE is finite; False where it is +inf. A ValueError where that cannot be told."""
    least = utility.slope_range[0]
    below = low == -_INF and least != 0.0
    if high < _INF and not below:
        return True
    shapes, _, scale = distribution.dist._parse_args(*distribution.args, **distribution.kwds)
    known = _TAILS.get(distribution.dist.name)
    if known is None:
        raise ValueError(
            f"x must be a distribution of bounded support, or of a family whose tails are known here; found "
            f"{_described(distribution)}. Whether its OCE under {utility!r} is finite cannot be told: pass "
            "x.rvs(size=...) as a sample, or a distribution truncated where the losses end."
        )
    lower, upper = (tail._replace(rate=tail.rate / float(scale)) for tail in known(*map(float, shapes)))
    if below and least > 0.0 and lower.power <= 1.0:
        raise ValueError(
            f"OCE of {_described(distribution)} under {utility!r} is not defined: gains have no mean, and u falls "
            "without bound."
        )
    ends = ([upper] if high == _INF else []) + ([lower] if below and least < 0.0 else [])
    return all(_admits(tail, utility, distribution) for tail in ends)


def _admits(tail: TailDecay, utility: Utility, distribution: Any) -> bool:
    """Whether E u exists for a tail."""
    for atom in form(utility).atoms:
        match atom.base.shape or atom.base.curve:
            case Exponential(rate):
                enough = rate / atom.scale < tail.rate
            case Quadratic():
                enough = tail.power > 2.0
            case Power(degree):
                enough = tail.power > degree + 1.0
            case _ if math.isfinite(atom.base.lipschitz):
                enough = tail.power > 1.0
            case _:
                raise ValueError(
                    f"utility must have a bounded slope, or be built of Entropic, MeanVariance, MonotoneMeanVariance "
                    f"and Quartic, for a distribution of unbounded support; found {atom.base!r}. Whether OCE of "
                    f"{_described(distribution)} is finite cannot be told."
                )
        if not enough:
            return False
    return True


# -- continuous distributions -----------------------------------------------------------------------------------------


@cache
def _rule() -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_POINTS)
    return 0.5 * (nodes + 1.0), 0.5 * weights


class _Quadrature:
    """Panels from ``starts`` to ``ends`` with their points and the logarithm of the mass at each.

    The density may be infinite at a finite end of the support: what little lies there is put on the end, as a whole.
    """

    def __init__(self, distribution: Any, low: float, high: float) -> None:
        self.log_density = distribution.logpdf
        edges = _edges(distribution, low, high)
        self.starts, self.ends = edges[:-1], edges[1:]
        self.points, self.log_mass = self._at(self.starts, self.ends)
        corners = [(low, distribution.cdf(edges[0])), (high, distribution.sf(edges[-1]))]
        self.corners = np.array([corner for corner in corners if math.isfinite(corner[0])]).reshape(-1, 2)

    def everywhere(self) -> tuple[Floats, Floats]:
        """All points, and the logarithm of the mass at each."""
        points, log_mass = self.points.ravel(), self.log_mass.ravel()
        return np.append(points, self.corners[:, 0]), np.append(log_mass, np.log(self.corners[:, 1]))

    def _at(self, starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
        nodes, weights = _rule()
        width = (ends - starts)[:, None]
        points = starts[:, None] + width * nodes
        found = np.asarray(self.log_density(points)) + np.log(width) + np.log(weights)
        return points, np.where(np.isnan(found), -_INF, found)

    def refine(self, integrands: Callable[[Floats, Floats], list[Floats]]) -> None:
        """Halve panels until every integrand of (points, logarithm of the mass) is resolved."""
        fresh = np.ones(self.starts.size, dtype=bool)
        while fresh.any() and self.starts.size < _MOST_PANELS:
            middle = 0.5 * (self.starts[fresh] + self.ends[fresh])
            left, right = self._at(self.starts[fresh], middle), self._at(middle, self.ends[fresh])
            coarse = integrands(self.points, self.log_mass)
            rough = np.zeros(np.count_nonzero(fresh), dtype=bool)
            halves = zip(integrands(*left), integrands(*right), strict=True)
            for whole, (one, other) in zip(coarse, halves, strict=True):
                error = np.abs(whole[fresh].sum(axis=1) - one.sum(axis=1) - other.sum(axis=1))
                rough |= error > _TOLERANCE * np.abs(whole).sum()
            rough &= (middle > self.starts[fresh]) & (middle < self.ends[fresh])
            split = np.flatnonzero(fresh)[rough]
            kept = np.ones(self.starts.size, dtype=bool)
            kept[split] = False
            count = split.size
            old = np.concatenate((self.starts[split], self.ends[split], middle[rough]))
            self.points = np.concatenate((self.points[kept], left[0][rough], right[0][rough]))
            self.log_mass = np.concatenate((self.log_mass[kept], left[1][rough], right[1][rough]))
            self.starts = np.concatenate((self.starts[kept], old[:count], old[2 * count :]))
            self.ends = np.concatenate((self.ends[kept], old[2 * count :], old[count : 2 * count]))
            fresh = np.concatenate((np.zeros(np.count_nonzero(kept), dtype=bool), np.ones(2 * count, dtype=bool)))

    def cut(self, cuts: Floats) -> tuple[Floats, Floats]:
        """All points and masses, with panels cut in two where a cut lies inside."""
        starts, ends, points, log_mass = self.starts, self.ends, self.points, self.log_mass
        for cut in cuts:
            inside = (starts < cut) & (cut < ends)
            if inside.any():
                edges = np.append(starts[inside], cut), np.append(np.full(1, cut), ends[inside])
                more = self._at(*edges)
                starts, ends = np.append(starts[~inside], edges[0]), np.append(ends[~inside], edges[1])
                points = np.concatenate((points[~inside], more[0]))
                log_mass = np.concatenate((log_mass[~inside], more[1]))
        mass = np.append(np.exp(log_mass.ravel()), self.corners[:, 1])
        return np.append(points.ravel(), self.corners[:, 0]), mass


def _edges(distribution: Any, low: float, high: float) -> Floats:
    """Edges of panels that grow away from the quartiles, and shrink towards the ends of the support."""
    lower, middle, upper = (float(q) for q in distribution.ppf([0.25, 0.5, 0.75]))
    unit = max(upper - lower, np.finfo(float).tiny)
    edges = [np.array([lower, middle, upper]), middle + unit * np.linspace(-4.0, 4.0, 17)]
    edges += [middle + sign * unit * 2.0 ** np.arange(2.0, 1023.0 - max(0.0, math.log2(unit))) for sign in (-1.0, 1.0)]
    inner = low, high
    for end in (low, high):
        if math.isfinite(end):
            near = end + math.copysign(1.0, middle - end) * abs(middle - end) * 2.0 ** np.arange(-40.0, 1.0)
            inner = (near[0], inner[1]) if end == low else (inner[0], near[0])
            edges.append(near)
    every = np.unique(np.concatenate(edges))
    return np.asarray(every[np.isfinite(every) & (every >= inner[0]) & (every <= inner[1])])


def _solve_continuous(distribution: Any, utility: Utility, low: float, high: float) -> SolvedDistribution:
    shape, own = utility.shape, form(utility)
    quadrature = _Quadrature(distribution, low, high)
    if isinstance(shape, Exponential):
        return _log_mean_exp(quadrature, utility, shape.rate, distribution)
    searched = not isinstance(shape, Pieces)
    if not isinstance(shape, Pieces):
        t = float(distribution.median()) - utility.anchor
    elif shape.high > shape.low:
        t = float(distribution.isf(shape.tail)) - shape.kink
    else:  # u is linear, and every threshold as good: the mean, as of a sample
        t = float(distribution.mean()) - utility.anchor
    unit = float(np.ptp(distribution.ppf([0.25, 0.75])))
    value = math.nan
    for _ in range(8):
        last = value

        def integrands(points: Floats, log_mass: Floats, t: float = t) -> list[Floats]:
            mass = np.exp(log_mass)
            functions = points, utility.value(points - t), own.left_slope(points, t)
            return [mass, *(_times(mass, values) for values in functions)]

        quadrature.refine(integrands)
        if searched:
            t = _threshold(quadrature, own, t, unit)
        points, mass = quadrature.cut(t + own.kink_locations)
        if not abs(mass.sum() - 1.0) <= _ACCEPTED:
            break
        value = t + float(_times(mass, utility.value(points - t)).sum())
        if abs(value - last) <= 0.01 * _ACCEPTED * max(abs(value), abs(value - t)):
            return SolvedDistribution(value, t)
    raise _unresolved(distribution, quadrature)


def _unresolved(distribution: Any, quadrature: _Quadrature) -> ValueError:
    mass = float(np.exp(quadrature.everywhere()[1]).sum())
    return ValueError(
        f"the density of {_described(distribution)} could not be integrated to ten digits (its mass came out as "
        f"{mass:.12g}); pass x.rvs(size=...) as a sample."
    )


def _times(mass: Floats, values: Any) -> Floats:
    """mass * values, 0 where there is no mass: u may overflow there."""
    return np.where(mass > 0.0, mass * np.asarray(values), 0.0)


def _threshold(quadrature: _Quadrature, own: Form, start: float, unit: float) -> float:
    """The least t with E u'(X - t) <= 1."""
    from scipy.optimize import brentq

    def excess(t: float) -> float:
        points, mass = quadrature.cut(t + own.kink_locations)
        return float(_times(mass, own.left_slope(points, t)).sum()) - 1.0

    low = high = start
    reach = unit if unit > 0.0 else 1.0
    for _ in range(_MOST_DOUBLINGS):
        if excess(low) > 0.0 >= excess(high):
            rounding = 4.0 * float(np.finfo(float).eps)
            return float(brentq(excess, low, high, xtol=rounding * max(abs(low), abs(high), unit), rtol=rounding))
        low, high, reach = start - reach, start + reach, 2.0 * reach
    raise ValueError("the mean slope of u(X - t) does not cross 1 for any t: the distribution has too heavy a tail.")


def _log_mean_exp(quadrature: _Quadrature, utility: Utility, rate: float, distribution: Any) -> SolvedDistribution:
    """OCE = OCE(0) + ln E exp(rate X) / rate; the tilted density may lie where the density itself is below 1e-308."""

    def tilted(points: Floats, log_mass: Floats) -> Floats:
        return np.where(log_mass > -_INF, rate * points + log_mass, -_INF)

    top = -_INF
    for _ in range(_MOST_DOUBLINGS):  # panels that miss a narrow peak see it once they are halved
        last, top = top, float(tilted(quadrature.points, quadrature.log_mass).max())
        if abs(top - last) < 1e-3:
            break
        highest = top
        quadrature.refine(lambda x, log_mass: [np.exp(log_mass), np.exp(tilted(x, log_mass) - highest)])  # noqa: B023
    points, log_mass = quadrature.everywhere()
    if not abs(float(np.exp(log_mass).sum()) - 1.0) <= _ACCEPTED:
        raise _unresolved(distribution, quadrature)
    exponents = tilted(points, log_mass)
    top = float(exponents.max())
    found = (math.log(float(np.exp(exponents - top).sum())) + top) / rate
    mean = float(_times(np.exp(log_mass), points).sum())
    if abs(found - mean) * rate < 1.0:  # a small rate: ln(1 + E[exp(rate (X - mean)) - 1]) has the digits
        found = mean + math.log1p(float(_times(np.exp(log_mass), np.expm1(rate * (points - mean))).sum())) / rate
    return SolvedDistribution(found + utility.oce_of_zero, found - utility.anchor)


# -- discrete distributions -------------------------------------------------------------------------------------------


def _solve_discrete(distribution: Any, utility: Utility, low: float, high: float) -> SolvedDistribution:
    """The sum over all values, or over those that matter."""
    from certeq.risk._api import oce, threshold

    points = getattr(distribution.dist, "xk", None)  # rv_discrete(values=...): any numbers
    if points is None:
        values = _values(distribution, utility, low, high)
    else:
        values = np.asarray(points, dtype=np.float64) + (low - float(np.min(points)))
    mass = np.asarray(distribution.pmf(values), dtype=np.float64)
    kept = mass > 0.0
    losses, weights = values[kept], mass[kept]
    return SolvedDistribution(float(oce(losses, utility, weights)), float(threshold(losses, utility, weights)))


def _values(distribution: Any, utility: Utility, low: float, high: float) -> Floats:
    if high - low < _MOST_VALUES:
        return np.arange(low, high + 1.0)
    t = float(distribution.median())
    size = max(float(distribution.std()), 1.0) if np.isfinite(distribution.std()) else 64.0
    reach = 16.0 * size
    while reach < _MOST_VALUES:
        values = np.arange(max(low, math.floor(t - reach)), min(high, math.ceil(t + reach)) + 1.0)
        mass = np.asarray(distribution.pmf(values))
        share = mass * (1.0 + np.abs(np.asarray(utility.value(values - t)))) * (1.0 + np.abs(values - t))
        ends = [share[0] * size] if values[0] > low else []
        ends += [share[-1] * size] if values[-1] < high else []
        if all(end <= _NEGLIGIBLE * share.sum() for end in ends):
            return values
        reach *= 2.0
    raise ValueError(
        f"{_described(distribution)} has more values that matter than can be summed up ({_MOST_VALUES}); pass "
        "x.rvs(size=...) as a sample."
    )
