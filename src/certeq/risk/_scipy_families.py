"""What is known of the named families of scipy.stats: how their tails fall, and their log-mean-exp in closed form.

Whether an expectation exists at all no quadrature can tell, so that it is looked up here. All entries are those of the
standard member, location 0 and scale 1.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from certeq.risk._input import Floats

_INF = math.inf
_LARGEST_EXPONENT = 700.0  # of a float64
_LARGE_SHAPE = 1e3  # of a gamma distribution, from which on Stirling's series is exact
_CANCELED = 1e-4  # a difference of 1 and a rounded number that has too few digits below this


class TailDecay(NamedTuple):
    """How fast one tail falls: E exp(c|X|) exists for c < rate, E |X|**p for p < power."""

    rate: float = 0.0
    power: float = _INF


Tails = tuple[TailDecay, TailDecay]

LIGHT = TailDecay(rate=_INF)
_EXPONENTIAL = TailDecay(rate=1.0)
_SUBEXPONENTIAL = TailDecay()  # all moments, and no exponential one


def tails(dist: Any, shapes: tuple[float, ...]) -> Tails | None:
    """Lower and upper tail of the standard member; None where the family is not known."""
    known = _TAILS.get(_family_name(dist))
    return None if known is None else known(*shapes)


def log_mean_exp(dist: Any, shapes: tuple[float, ...], rate: float) -> float | None:
    """ln E exp(rate X) / rate of the standard member; None where there is no closed form here."""
    known = _LOG_MEAN_EXP.get(_family_name(dist))
    return None if known is None else known(rate, *shapes)


def log_density(dist: Any, shapes: tuple[float, ...]) -> Callable[[Floats], Floats] | None:
    """The logarithm of the density or mass where scipy's underflows or loses digits; None for all others."""
    known = _LOG_DENSITY.get(_family_name(dist))
    return None if known is None else lambda x: known(x, *shapes)


def breaks(dist: Any, shapes: tuple[float, ...]) -> Floats:
    """Where a density, or its slope, is known to jump inside the support."""
    if hasattr(dist, "_hbins"):  # a histogram
        return np.asarray(dist._hbins, dtype=np.float64)
    known = _BREAKS.get(_family_name(dist))
    return np.array([] if known is None else known(*shapes), dtype=np.float64)


def _family_name(dist: Any) -> str:
    """The name of a family that is scipy's own: anyone may call a class of theirs "norm"."""
    name = str(dist.name)
    return name if type(getattr(sys.modules["scipy.stats"], name, None)) is type(dist) else ""


# -- tails ------------------------------------------------------------------------------------------------------------


def _stretched(c: float) -> TailDecay:
    """exp(-x**c)."""
    return LIGHT if c > 1 else _EXPONENTIAL if c == 1 else _SUBEXPONENTIAL


def _extreme(c: float) -> TailDecay:
    """The generalized Pareto and extreme value families: a power law, an exponential, or an end."""
    return TailDecay(power=1.0 / c) if c > 0 else _EXPONENTIAL if c == 0 else LIGHT


def _reached(rate: float) -> TailDecay:
    """x**-1.5 exp(-rate x): E exp(c|X|) exists for c = rate as well."""
    return TailDecay(rate * (1.0 + 1e-15))  # the closed form, which is exact, decides what lies between


# Lower and upper tail by the family's parameters; a tail that ends within the support does not matter.
_TAILS: dict[str, Callable[..., Tails]] = {
    **{
        name: lambda *_: (LIGHT, LIGHT)
        for name in (
            "norm", "halfnorm", "foldnorm", "truncnorm", "skewnorm", "powernorm", "maxwell", "rayleigh", "rice", "chi",
            "nakagami", "gompertz", "poisson", "skellam",
        )
    },
    **{
        name: lambda *_: (_EXPONENTIAL, _EXPONENTIAL)
        for name in ("expon", "gamma", "erlang", "laplace", "logistic", "halflogistic", "hypsecant", "dgamma")
    },
    **{
        name: lambda *_: (_SUBEXPONENTIAL, _SUBEXPONENTIAL)
        for name in ("lognorm", "gibrat", "johnsonsu", "powerlognorm")
    },
    **{
        name: lambda *_: (TailDecay(power=1.0), TailDecay(power=1.0))
        for name in ("cauchy", "halfcauchy", "foldcauchy", "skewcauchy")
    },
    "chi2": lambda df: (LIGHT, TailDecay(0.5)),
    "ncx2": lambda df, nc: (LIGHT, TailDecay(0.5)),
    "moyal": lambda: (LIGHT, TailDecay(0.5)),
    "gumbel_r": lambda: (LIGHT, _EXPONENTIAL),
    "gumbel_l": lambda: (_EXPONENTIAL, LIGHT),
    "loggamma": lambda c: (TailDecay(c), LIGHT),
    "genlogistic": lambda c: (TailDecay(c), _EXPONENTIAL),
    "laplace_asymmetric": lambda kappa: (TailDecay(1.0 / kappa), TailDecay(kappa)),
    "exponnorm": lambda K: (LIGHT, TailDecay(1.0 / K)),
    "invgauss": lambda mu: (LIGHT, _reached(0.5 / mu**2)),
    "wald": lambda: (LIGHT, _reached(0.5)),
    "norminvgauss": lambda a, b: (_reached(a + b), _reached(a - b)),
    "gennorm": lambda beta: (_stretched(beta), _stretched(beta)),
    "weibull_min": lambda c: (LIGHT, _stretched(c)),
    "weibull_max": lambda c: (_stretched(c), LIGHT),
    "exponweib": lambda a, c: (LIGHT, _stretched(c)),
    "dweibull": lambda c: (_stretched(c), _stretched(c)),
    "t": lambda df: (TailDecay(power=df), TailDecay(power=df)) if df < _INF else (LIGHT, LIGHT),
    "nct": lambda df, nc: (TailDecay(power=df), TailDecay(power=df)),
    "pareto": lambda b: (LIGHT, TailDecay(power=b)),
    "lomax": lambda c: (LIGHT, TailDecay(power=c)),
    "genpareto": lambda c: (LIGHT, _extreme(c)),
    "genextreme": lambda c: (_stretched(1.0 / c) if c > 0 else LIGHT, _extreme(-c)),
    "burr": lambda c, d: (LIGHT, TailDecay(power=c)),
    "burr12": lambda c, d: (LIGHT, TailDecay(power=c * d)),
    "fisk": lambda c: (LIGHT, TailDecay(power=c)),
    "f": lambda dfn, dfd: (LIGHT, TailDecay(power=0.5 * dfd)),
    "betaprime": lambda a, b: (LIGHT, TailDecay(power=b)),
    "invgamma": lambda a: (LIGHT, TailDecay(power=a)),
    "invweibull": lambda c: (LIGHT, TailDecay(power=c)),
    "levy": lambda: (LIGHT, TailDecay(power=0.5)),
    "loglaplace": lambda c: (LIGHT, TailDecay(power=c)),
    "geom": lambda p: (LIGHT, TailDecay(-math.log1p(-p) if p < 1 else _INF)),
    "nbinom": lambda n, p: (LIGHT, TailDecay(-math.log1p(-p) if p < 1 else _INF)),
    "logser": lambda p: (LIGHT, TailDecay(-math.log(p))),
    "planck": lambda rate: (LIGHT, TailDecay(rate)),
    "dlaplace": lambda a: (TailDecay(a), TailDecay(a)),
    "zipf": lambda a: (LIGHT, TailDecay(power=a - 1.0)),
    "yulesimon": lambda alpha: (LIGHT, TailDecay(power=alpha)),
}  # fmt: skip


# -- ln E exp(rate X) / rate, written so that nothing cancels at a small rate or near the largest one ------------------


def _gamma(rate: float, a: float) -> float:
    return -a * math.log1p(-rate) / rate


def _laplace(rate: float) -> float:
    if rate < 0.5:
        return -math.log1p(-rate * rate) / rate
    return -(math.log1p(-rate) + math.log1p(rate)) / rate  # 1 - rate is exact


def _inverse_gaussian(rate: float, mu: float) -> float:
    left = 1 - 2 * Fraction(mu) ** 2 * Fraction(rate)  # exact: its square root has half the digits near 0
    return 2.0 * mu / (1.0 + math.sqrt(left)) if left >= 0 else _INF


def _normal_inverse_gaussian(rate: float, a: float, b: float) -> float:
    start, end = (Fraction(a) ** 2 - c**2 for c in (Fraction(b), Fraction(b) + Fraction(rate)))
    return float(2 * Fraction(b) + Fraction(rate)) / (math.sqrt(start) + math.sqrt(end)) if end >= 0 else _INF


def _poisson(rate: float, mu: float) -> float:
    return mu * float(np.expm1(rate)) / rate


def _binomial(rate: float, n: float, p: float) -> float:
    if rate < _LARGEST_EXPONENT or p == 0.0:
        return n * math.log1p(p * math.expm1(min(rate, _LARGEST_EXPONENT))) / rate
    return n * (1.0 + math.log(p) / rate)


def _negative_binomial(rate: float, n: float, p: float) -> float | None:
    left = 1.0 - (1.0 - p) / p * float(np.expm1(rate)) if p < 1.0 else 1.0
    if left < _CANCELED:
        return None
    return -n * float(np.log1p(-(1.0 - p) / p * np.expm1(rate))) / rate if p < 1.0 else 0.0


def _geometric(rate: float, p: float) -> float | None:
    failures = _negative_binomial(rate, 1.0, p)
    return None if failures is None else 1.0 + failures


_LOG_MEAN_EXP: dict[str, Callable[..., float | None]] = {
    "norm": lambda rate: 0.5 * rate,
    "expon": lambda rate: _gamma(rate, 1.0),
    "gamma": _gamma,
    "erlang": _gamma,
    "chi2": lambda rate, df: 2.0 * _gamma(2.0 * rate, 0.5 * df),
    "laplace": _laplace,
    "invgauss": _inverse_gaussian,
    "wald": lambda rate: _inverse_gaussian(rate, 1.0),
    "norminvgauss": _normal_inverse_gaussian,
    "poisson": _poisson,
    "skellam": lambda rate, mu1, mu2: _poisson(rate, mu1) - _poisson(-rate, mu2),
    "bernoulli": lambda rate, p: _binomial(rate, 1.0, p),
    "binom": _binomial,
    "nbinom": _negative_binomial,
    "geom": _geometric,
}


# -- densities --------------------------------------------------------------------------------------------------------


def _hyperbolic_secant(x: Floats) -> Floats:
    size = np.abs(x)
    return np.asarray(math.log(2.0 / math.pi) - size - np.log1p(np.exp(-2.0 * size)))


def _gamma_log_density(x: Any, a: Any) -> Floats:
    """For a large a relative to the mean a, with Stirling's series: the terms of the formula itself cancel."""
    from scipy.special import gammaln, xlogy

    large = np.where(a < _LARGE_SHAPE, _LARGE_SHAPE, a)
    d = (np.where(x > 0.0, x, large) - large) / large
    stirling = 1.0 / (12.0 * large) - 1.0 / (360.0 * large**3)  # of ln Gamma
    relative = large * _log1p_less_linear(d) - np.log1p(d) - 0.5 * np.log(2.0 * math.pi * large) - stirling
    found = np.where(a < _LARGE_SHAPE, xlogy(a - 1.0, x) - x - gammaln(a), np.where(x > 0.0, relative, -_INF))
    return np.asarray(np.where((x >= 0.0) & (a > 0.0), found, -_INF))


def _log1p_less_linear(d: Floats) -> Floats:
    """ln(1 + d) - d; 2 artanh(z) - d with z = d / (2 + d), where 2z - d = -d**2 / (2 + d) has all digits."""
    near = np.abs(d) < 0.3
    z = np.where(near, d / (2.0 + d), 0.0)
    series = sum(z ** (k - 1) / k for k in range(3, 25, 2))
    return np.where(near, -d * d / (2.0 + d) + 2.0 * z * series, np.log1p(d) - d)


_LOG_DENSITY: dict[str, Callable[..., Floats]] = {
    "laplace": lambda x: np.asarray(-np.abs(x) - math.log(2.0)),
    "moyal": lambda x: -0.5 * (x + np.exp(-x) + math.log(2.0 * math.pi)),
    "hypsecant": _hyperbolic_secant,
    "gamma": _gamma_log_density,
    "erlang": _gamma_log_density,
    "poisson": lambda k, mu: _gamma_log_density(mu, k + 1.0),
    "chi2": lambda x, df: _gamma_log_density(0.5 * x, 0.5 * df) - math.log(2.0),
}

_BREAKS: dict[str, Callable[..., list[float]]] = {
    "laplace_asymmetric": lambda kappa: [0.0],
    "loglaplace": lambda c: [1.0],
    "skewcauchy": lambda a: [0.0],
    "triang": lambda c: [c],
    "trapezoid": lambda c, d: [c, d],
}
