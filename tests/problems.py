"""The registry of the tests: utilities, risks, samples, feasible sets and exact problems.

All general tests (`tests/general`) read these tables. To test a new utility, risk or feasible set, add one entry here.
An entry states facts and a definition of its own, written without the package, in extended precision where the
platform has it.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

import certeq as ce

Vector = np.ndarray
LONG = np.longdouble


# -- definitions, without the package ---------------------------------------------------------------------------------


def minimum(function: Callable[[Any], Any], low: Any, high: Any, steps: int = 110) -> tuple[Any, Any]:
    """Return the minimum of a convex function on [low, high] and a minimizer, by golden sections."""
    ratio = (np.sqrt(LONG(5)) - 1) / 2
    a, b = LONG(low), LONG(high)
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = function(c), function(d)
    for _ in range(steps):
        if at_c < at_d:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = function(c)
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = function(d)
    return (at_c, c) if at_c < at_d else (at_d, d)


def standardized(x: Vector, w: Vector | None) -> tuple[Vector, Vector, Any]:
    """Return the losses of positive weight minus their maximum, their weights with sum 1, and the maximum."""
    w = np.ones(len(x)) if w is None else np.asarray(w, dtype=float)
    x, w = np.asarray(x)[w > 0].astype(LONG), w[w > 0].astype(LONG)
    return x - x.max(), w / w.sum(), x.max()


def oce_of(u: Callable[[Any], Any]) -> Callable[[Vector, Vector | None], Any]:
    """Return the definition min over t of t + E u(X - t)."""

    def value(x: Vector, w: Vector | None) -> Any:
        y, w, top = standardized(x, w)

        def objective(t: Any) -> Any:
            with np.errstate(all="ignore"):
                return t + (w * u(y - t)).sum()

        return top + minimum(objective, *bracket(objective, y))[0]

    return value


def bracket(objective: Callable[[Any], Any], y: Vector) -> tuple[Any, Any]:
    """Return an interval that holds a minimizer of a convex objective of t."""
    reach = 1 - y.min()
    low, high = y.min() - reach, y.max() + reach
    while objective(low) <= objective(low + reach):
        low, reach = low - reach, 2 * reach
    reach = 1 - y.min()
    while objective(high) <= objective(high - reach):
        high, reach = high + reach, 2 * reach
    return low, high


def mean_of(x: Vector, w: Vector | None) -> Any:
    """Return the mean, the only OCE that has no unique t."""
    y, w, top = standardized(x, w)
    return top + (w * y).sum()


def ball_of(u: Callable[[Any], Any], radius: float, weight: float = 1.0) -> Callable[[Vector, Vector | None], Any]:
    """Return the definition min over t and s > 0 of t + radius s + weight s E u((X - t)/s), for a normalized u."""

    def value(x: Vector, w: Vector | None) -> Any:
        y, w, top = standardized(x, w)
        width = -y.min() if y.min() < 0 else LONG(1)
        y = y / width

        def at(log_s: Any) -> Any:
            s = np.exp(log_s)

            def objective(t: Any) -> Any:
                with np.errstate(all="ignore"):
                    return t + radius * s + weight * s * (w * u((y - t) / s)).sum()

            return minimum(objective, -1 - 45 * s, 3 * s, 80)[0]

        return top + width * minimum(at, math.log(1e-17), math.log(1e3), 66)[0]

    return value


def norm_of(p: float, alpha: float) -> Callable[[Vector, Vector | None], Any]:
    """Return the definition min over t of t + ||(X - t)^+||_p / alpha."""

    def value(x: Vector, w: Vector | None) -> Any:
        y, w, top = standardized(x, w)

        def objective(t: Any) -> Any:
            return t + (w * np.maximum(y - t, 0) ** p).sum() ** (LONG(1) / p) / alpha

        return top + minimum(objective, *bracket(objective, y))[0]

    return value


def evar_of(alpha: float) -> Callable[[Vector, Vector | None], Any]:
    """Return the definition min over s > 0 of s ln(E exp(X/s) / alpha)."""

    def value(x: Vector, w: Vector | None) -> Any:
        y, w, top = standardized(x, w)
        width = -y.min() if y.min() < 0 else LONG(1)

        def at(log_s: Any) -> Any:
            s = np.exp(log_s)
            return s * np.log((w * np.exp(y / width / s)).sum() / LONG(alpha))

        return top + width * minimum(at, math.log(1e-15), math.log(1e3))[0]

    return value


def ranks_of(g: Callable[[Any], Any]) -> Callable[[Vector, Vector | None], Any]:
    """Return the definition of a distortion: sorted losses times the increments of g."""

    def value(x: Vector, w: Vector | None) -> Any:
        y, w, top = standardized(x, w)
        order = np.argsort(-y, kind="stable")
        mass = np.minimum(np.cumsum(w[order]).astype(float), 1.0)
        mass[-1] = 1.0
        return top + (np.diff(np.asarray(g(np.r_[0.0, mass])).astype(LONG)) * y[order]).sum()

    return value


def mixture_of(*parts: tuple[float, Callable[..., Any]]) -> Callable[[Vector, Vector | None], Any]:
    """Return the weighted sum of definitions."""
    return lambda x, w: sum(weight * definition(x, w) for weight, definition in parts)


# -- risks -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A risk, its definition, and the facts that decide which general tests it takes part in."""

    risk: ce.Risk
    definition: Callable[[Vector, Vector | None], Any]
    coherent: bool = False
    monotone: bool = True
    smooth: bool = True  # no kink: the tilt is unique and differentiable
    blocks: bool = True  # computed from samples that are read in blocks
    minimized: bool = True  # by the exact method
    stochastic: bool = True  # by OCE-SG
    torch: bool = True
    distributions: bool = True  # of scipy.stats with unbounded support: False where u grows in an unknown way
    u: Callable[[Any], Any] | None = None  # formula of a utility
    kinks: tuple[float, ...] = ()  # of a utility


def utility(risk: ce.Utility, u: Callable[[Any], Any], kinks: tuple[float, ...] = (), **facts: Any) -> Entry:
    """Return the entry of a utility with the formula u and the given kinks."""
    return Entry(risk, oce_of(u), smooth=not kinks, u=u, kinks=kinks, **facts)


def positive(x: Any) -> Any:
    return np.maximum(x, 0)


def softplus(x: Any) -> Any:
    return np.logaddexp(LONG(0), x)


def entropic(beta: float) -> Callable[[Any], Any]:
    return lambda x: np.expm1(beta * x) / beta


def power(a: float) -> Callable[[Any], Any]:
    return lambda x: (positive(1 + x) ** a - 1) / a


def cvar(alpha: float) -> Callable[[Any], Any]:
    return lambda x: positive(x) / LONG(alpha)


def leaky(alpha: float) -> Callable[[Any], Any]:
    return lambda x: np.where(x >= 0, x / LONG(alpha), np.arctan(x / LONG(alpha)))


def smooth(alpha: float, tau: float) -> Callable[[Any], Any]:
    return lambda x: tau / LONG(alpha) * softplus(x / LONG(tau))


def normalized(u: Callable[[Any], Any], anchor: float) -> Callable[[Any], Any]:
    """Return the utility moved so that its value at 0 is 0 and its slope 1, which u has at the anchor."""
    return lambda x: u(x + LONG(anchor)) - u(LONG(anchor))


def two_kinks(x: Any) -> Any:
    return np.where(x > 0, 3 * x, 0.5 * x) + 2.5 * np.maximum(x - 1, 0)


def soft(x: Any) -> Any:
    return np.logaddexp(0 * x, x) + 0.5 * np.maximum(x, 0)


def pieces(x: Any) -> Any:
    return np.maximum(np.maximum(0 * x, 1.5 * x - 0.1), np.maximum(5 * x - 3, 0.5 * x))


def wang(shift: float) -> Callable[[Any], Any]:
    return lambda p: ndtr(ndtri(p) + shift)


SORTED = {"smooth": False, "blocks": False}  # a distortion needs all losses in order

RISKS: dict[str, Entry] = {
    "mean": Entry(ce.Mean(), mean_of, coherent=True, u=lambda x: x),
    "entropic": utility(ce.Entropic(0.5), entropic(0.5)),
    "mean_variance": utility(ce.MeanVariance(0.5), lambda x: x + 0.5 * x * x, monotone=False),
    "mmv2": utility(ce.MonotoneMeanVariance(2), power(2)),
    "mmv3": utility(ce.MonotoneMeanVariance(3), power(3)),
    "mmv2.5": utility(ce.MonotoneMeanVariance(2.5), power(2.5)),
    "quartic": utility(ce.Quartic(), lambda x: 4 * power(4)(x)),
    "cvar": utility(ce.CVaR(0.05), cvar(0.05), (0.0,), coherent=True),
    "cvar.3": utility(ce.CVaR(0.3), cvar(0.3), (0.0,), coherent=True),
    "leaky": utility(ce.LeakyCVaR(0.1), leaky(0.1)),
    "leaky.7": utility(ce.LeakyCVaR(0.7), leaky(0.7)),
    "smooth": utility(ce.SmoothCVaR(0.1), smooth(0.1, 0.1)),
    "smooth_tau": utility(ce.SmoothCVaR(0.05, 1.0), smooth(0.05, 1.0)),
    "scaled": utility(ce.Quartic().scaled(2.0), lambda x: 8 * power(4)(x / 2)),
    "normalized": utility(ce.LeakyCVaR(0.2).normalized(), normalized(leaky(0.2), -0.4)),
    "shifted_kink": utility(
        (0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.1)).normalized().scaled(0.37),
        lambda x: 0.37 * normalized(lambda y: 0.5 * leaky(0.1)(y) + 0.5 * cvar(0.1)(y), -0.2)(x / LONG(0.37)),
        (0.074,),
    ),
    "mean_cvar": utility(
        0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05), lambda x: 0.3 * x + 0.7 * cvar(0.05)(x), (0.0,), coherent=True
    ),
    "entropic_leaky": utility(
        0.5 * ce.Entropic(1.0) + 0.5 * ce.LeakyCVaR(0.2), lambda x: 0.5 * entropic(1.0)(x) + 0.5 * leaky(0.2)(x)
    ),
    "entropic_cvar": utility(
        0.5 * ce.Entropic(0.5) + 0.5 * ce.CVaR(0.2), lambda x: 0.5 * entropic(0.5)(x) + 0.5 * cvar(0.2)(x), (0.0,)
    ),
    "two_kinks": utility(ce.utility(two_kinks, name="two_kinks"), two_kinks, (0.0, 1.0)),
    "custom": utility(
        ce.utility(lambda x: np.expm1(0.5 * x) / 0.5, name="custom_entropic"), entropic(0.5), distributions=False
    ),
    "evar": Entry(ce.EVaR(0.2), evar_of(0.2), coherent=True),
    "evar.01": Entry(ce.EVaR(0.01), evar_of(0.01), coherent=True),  # of a short sample the largest loss
    "entropic_ball": Entry(ce.Entropic(3.0).ball(0.01), ball_of(entropic(3.0), 0.01), coherent=True),
    "chi_square": Entry(ce.MonotoneMeanVariance(2).ball(0.3), ball_of(power(2), 0.3), coherent=True),
    "power_ball": Entry(
        ce.MonotoneMeanVariance(2.5).scaled(0.3).ball(2.0), ball_of(power(2.5), 2.0 / 0.3), coherent=True
    ),
    "smooth_ball": Entry(
        ce.SmoothCVaR(0.2).ball(0.02), ball_of(normalized(smooth(0.2, 0.2), -0.2 * math.log(4.0)), 0.02), coherent=True
    ),
    "kinked_ball": Entry(
        (0.5 * ce.Entropic() + 0.5 * ce.CVaR(0.2)).ball(0.2),
        ball_of(lambda x: 0.5 * entropic(1.0)(x) + 0.5 * cvar(0.2)(x), 0.2),
        coherent=True,
        smooth=False,
    ),
    "cvar_ball": Entry(ce.CVaR(0.3).ball(1.0), oce_of(cvar(0.3)), coherent=True, smooth=False),
    "variance_ball": Entry(ce.MeanVariance(0.5).ball(0.2), ball_of(lambda x: x + 0.5 * x * x, 0.2), monotone=False),
    "hmcr": Entry(ce.HMCR(2, 0.3), norm_of(2, 0.3), coherent=True),
    "hmcr3": Entry(ce.HMCR(3, 0.6), norm_of(3, 0.6), coherent=True),
    "hmcr1": Entry(ce.HMCR(1, 0.2), norm_of(1, 0.2), coherent=True, smooth=False),
    "mixture": Entry(
        ce.Mixture([0.5, 0.3, 0.2], [ce.CVaR(0.1), ce.EVaR(0.3), ce.HMCR(2, 0.4)]),
        mixture_of((0.5, oce_of(cvar(0.1))), (0.3, evar_of(0.3)), (0.2, norm_of(2, 0.4))),
        coherent=True,
        smooth=False,
    ),
    "smooth_mixture": Entry(
        ce.Mixture([0.5, 0.5], [ce.EVaR(0.3), ce.Entropic(0.7)]),
        mixture_of((0.5, evar_of(0.3)), (0.5, oce_of(entropic(0.7)))),
    ),
    "wang": Entry(ce.Wang(0.5), ranks_of(wang(0.5)), coherent=True, **SORTED),
    "hazard": Entry(ce.ProportionalHazard(2), ranks_of(np.sqrt), coherent=True, **SORTED),
    "dual_power": Entry(ce.PowerDistortion(3), ranks_of(lambda p: 1 - (1 - p) ** 3), coherent=True, **SORTED),
    "distortion": Entry(ce.Distortion(np.sqrt), ranks_of(np.sqrt), coherent=True, **SORTED),
    "distorted_mixture": Entry(
        ce.Mixture([0.6, 0.4], [ce.Entropic(0.5), ce.Wang(0.4)]),
        mixture_of((0.6, oce_of(entropic(0.5))), (0.4, ranks_of(wang(0.4)))),
        **SORTED,
    ),
}
# Parameters near their limits, whose values alone are tested.
PARAMETERS: dict[str, Entry] = {
    "evar.9": Entry(ce.EVaR(0.9), evar_of(0.9), coherent=True),
    "evar.05": Entry(ce.EVaR(0.05), evar_of(0.05), coherent=True),
    "chi_square.01": Entry(ce.MonotoneMeanVariance(2).ball(0.01), ball_of(power(2), 0.01), coherent=True),
    "hmcr1.5": Entry(ce.HMCR(1.5, 0.1), norm_of(1.5, 0.1), coherent=True),
    "quartic_ball": Entry(
        ce.Quartic().ball(0.2), ball_of(normalized(lambda x: 4 * power(4)(x), 0.25 ** (1 / 3) - 1), 0.2), coherent=True
    ),
    "smooth_ball.5": Entry(
        ce.SmoothCVaR(0.2).ball(0.5), ball_of(normalized(smooth(0.2, 0.2), -0.2 * math.log(4.0)), 0.5), coherent=True
    ),
    "leaky_ball": Entry(ce.LeakyCVaR(0.2).ball(0.03), ball_of(normalized(leaky(0.2), -0.4), 0.03), coherent=True),
    "soft_ball": Entry(ce.utility(soft).ball(0.05), ball_of(normalized(soft, 0.0), 0.05), coherent=True, smooth=False),
    "pieces_ball": Entry(
        ce.utility(pieces).ball(0.1), ball_of(normalized(pieces, 0.1), 0.1), coherent=True, smooth=False
    ),
}
UTILITIES: dict[str, ce.Utility] = {
    name: entry.risk for name, entry in RISKS.items() if isinstance(entry.risk, ce.Utility)
}
SMOOTH = {name: u for name, u in UTILITIES.items() if RISKS[name].smooth and name != "mean"}


def with_kinks(count: int) -> ce.Utility:
    """Slopes between exp(-2) and exp(2) that jump at evenly spaced points."""
    kinks, slopes = np.linspace(-3.0, 3.0, count), np.exp(np.linspace(-2.0, 2.0, count + 1))
    pairs = list(zip(kinks, np.diff(slopes), strict=True))
    return ce.utility(
        lambda x: slopes[0] * x + sum(jump * np.maximum(x - kink, 0.0) for kink, jump in pairs),
        lambda x: slopes[0] + sum(jump * (x > kink) for kink, jump in pairs),
        lambda x: 0.0 * x,  # derived, it takes most of the time that the search for kinks does
        name=f"{count} kinks",
    )


def stairs() -> ce.Utility:
    """No kink, but nine steps of the slope between 1e-6 and 2 wide."""
    points = (-2.0, -1.3, -0.2, 0.1, 0.9, 1.7, 2.2, 3.1, 6.0)
    widths = (1e-5, 0.1, 1e-4, 1.0, 1e-3, 1e-5, 0.01, 1e-6, 2.0)
    steps = list(zip(points, widths, strict=True))
    return ce.utility(
        lambda x: 0.05 * x + sum(0.3 * w * np.logaddexp(0.0, (x - p) / w) for p, w in steps),
        lambda x: 0.05 + sum(0.15 * (1.0 + np.tanh(0.5 * (x - p) / w)) for p, w in steps),
        name="stairs",
    )


# Utilities that are hard to search, for long samples.
MIXED: dict[str, ce.Utility] = {
    "many_kinks": with_kinks(15),
    "stairs": stairs(),
    "entropic_cvar.05": 0.5 * ce.Entropic() + 0.5 * ce.CVaR(0.05),
    "steep_entropic_cvar": 0.5 * ce.Entropic(10.0) + 0.5 * ce.CVaR(0.01),
    "quartic_cvar": 0.5 * ce.Quartic() + 0.5 * ce.CVaR(0.1),
    "mmv_cvar": 0.3 * ce.MonotoneMeanVariance(3) + 0.7 * ce.CVaR(0.05),
    "entropic_mean": 0.5 * ce.Entropic() + 0.5 * ce.Mean(),
    "two_cvars": 0.5 * ce.CVaR(0.01) + 0.5 * ce.CVaR(0.2),
    "smooth.05": ce.SmoothCVaR(0.05),
    "sharp": ce.SmoothCVaR(0.05, 0.01),
    "sharper": ce.SmoothCVaR(0.05, 1e-4),
    "sharp_entropic": 0.5 * ce.SmoothCVaR(0.05, 1e-3) + 0.5 * ce.Entropic(),
    "leaky.05": ce.LeakyCVaR(0.05),
    "mmv10": ce.MonotoneMeanVariance(10),
    "steep_quartic": 0.3 * ce.Mean() + 0.3 * ce.Entropic(60.0) + 0.4 * ce.Quartic(),
    "variance_cvar": 0.4 * ce.MeanVariance(20.0) + 0.6 * ce.CVaR(0.05),
    "variance_mmv": 0.7 * ce.MeanVariance(5.0) + 0.3 * ce.MonotoneMeanVariance(2.5),
}
HARD: dict[str, ce.Utility] = {
    name: UTILITIES[name] for name in ("entropic_leaky", "entropic_cvar", "two_kinks", "custom", "smooth")
} | MIXED
# Scales, shifts and radii that test conversions between them.
SCALED: dict[str, ce.Risk] = {
    "entropic_scaled": ce.Entropic(2.0).scaled(0.3),
    "smooth_sharp": ce.SmoothCVaR(0.01, 1e-3),
    "smooth_normalized": ce.SmoothCVaR(0.2).scaled(3.0).normalized(),
    "leaky_scaled": ce.LeakyCVaR(0.05).scaled(0.02),
    "mmv4": ce.MonotoneMeanVariance(4).scaled(0.5),
    "halves": 0.5 * ce.Entropic(0.3).scaled(2.0) + 0.5 * ce.CVaR(0.05).normalized(),
    "cvars_and_leaky": 0.3 * ce.CVaR(0.3) + 0.3 * ce.CVaR(0.01).scaled(0.1) + 0.4 * ce.LeakyCVaR(0.1),
    "mean_variance_cvar": (0.5 * ce.MeanVariance(1.0) + 0.5 * ce.CVaR(0.2)).scaled(3.0),
    "quartic_cvar_smooth": 0.7 * ce.Quartic() + 0.3 * ce.CVaR(0.02) + 0.2 * ce.SmoothCVaR(0.1),
    "evar.999": ce.EVaR(0.999),
    "small_ball": ce.Entropic(2.0).ball(1e-9),
}


# -- samples -----------------------------------------------------------------------------------------------------------

_RNG = np.random.default_rng(5)
_INTEGERS = np.random.default_rng(6).integers(0, 4, 60)

# Losses and weights.
SAMPLES: dict[str, tuple[Vector, Vector | None]] = {
    "normal": (_RNG.normal(size=60), None),
    "weighted": (_RNG.normal(size=30), _RNG.random(30) + 0.05),
    "ties": (np.round(_RNG.standard_t(4, size=60)), None),
    "zero_weights": (np.round(_RNG.standard_t(4, size=60), 1), _INTEGERS.astype(float)),
    "offset": (_RNG.normal(size=40) + 1e9, None),
    "heavy": (_RNG.pareto(1.1, size=50), None),
    "one": (np.array([1.7]), None),
    "two": (np.array([0.0, 1.0]), np.array([3.0, 1.0])),
    "constant": (np.full(7, -2.5), None),
    "integers": (_RNG.integers(-3, 4, 25), np.arange(25)),
    "float32": (_RNG.normal(size=40).astype(np.float32), None),
    "small": (1e-6 * _RNG.normal(size=40), None),
}
# Of coherent risks alone: others depend on the unit.
EXTREME: dict[str, tuple[Vector, Vector | None]] = {
    "tiny": (1e-200 * _RNG.normal(size=30), None),
    "huge": (1e200 * _RNG.normal(size=30), None),
}


def tolerance(x: Vector, value: float, digits: float = 1e-11) -> float:
    """Return the error that rounding allows a value: relative to the spread, and units in the last place."""
    x = np.asarray(x, dtype=float)
    return digits * float(np.ptp(x)) + 8.0 * float(np.spacing(np.abs(x).max())) + 16.0 * float(np.spacing(abs(value)))


@cache
def defined(risk: str, sample: str) -> float:
    """Return the value of a risk on a sample by its definition, in units of the largest loss if it is extreme."""
    x, w = (SAMPLES | EXTREME)[sample]
    unit = float(np.abs(x).max()) if sample in EXTREME else 1.0
    return unit * float((RISKS | PARAMETERS)[risk].definition(x / unit, w))


def hostile_samples(n: int) -> dict[str, Vector]:
    """Heavy tails, ties, clusters, offsets and outliers: 25 samples of n losses, the same every time."""
    rng = np.random.default_rng(3)
    normal = rng.standard_normal(n)

    def coin(share):
        return (np.arange(n) < round(share * n)).astype(float)

    return {
        "normal": normal,
        "large": 1e4 * normal,
        "small": 1e-6 * normal,
        "sorted": np.sort(normal),
        "far_from_0": 1e9 + normal,
        "lognormal": np.exp(2.0 * normal),
        "minus_lognormal": -np.exp(2.0 * normal),
        "pareto": rng.pareto(1.5, n),
        "cauchy": rng.standard_cauchy(n),
        "coin": coin(0.05),
        "coin_far_apart": 1e6 * coin(0.05),
        "coin_far_from_0": 1e9 + coin(0.2),
        "one_loss": 1e6 * (np.arange(n) == 7),
        "constant": np.full(n, 0.1),
        "integers": rng.integers(0, 10, n).astype(float),
        "cents": np.round(normal, 2),
        "half_an_atom": np.where(rng.random(n) < 0.7, 0.0, np.exp(normal)),
        "clusters": rng.choice([-100.0, 0.0, 5.0, 1000.0], n, p=[0.3, 0.65, 0.04, 0.01]) + 1e-6 * normal,
        "two_clusters": rng.choice([0.0, 1e5], n, p=[0.95, 0.05]) + normal,
        "one_far_gain": np.r_[-1e9, normal[1:]],
        "one_far_loss": np.r_[1e5, normal[1:]],
        "decades": np.exp(10.0 * normal),  # the largest is so far above the others that t* lies between two floats
        "more_decades": np.exp(18.0 * normal),
        "minus_decades": -np.exp(10.0 * normal),
        "decades_apart": rng.choice([1e-4, -3e7, 6e2, 1e5], n, p=[0.5, 0.2, 0.28, 0.02]) * (1.0 + 1e-9 * normal),
    }


# -- feasible sets -----------------------------------------------------------------------------------------------------

D = 6  # dimension of the sets
_A = np.random.default_rng(20).normal(size=(4, D))
_C = np.random.default_rng(21).normal(size=(2, D))
_HALF, _ODD = (np.arange(D) < 3).astype(float), (np.arange(D) % 2).astype(float)
_BOUNDS = np.array([-1.0, 0, 0, -2, 0.1, -0.3]), np.array([1.0, 1, 0, 3, 0.2, 0.5])
_SHORT = np.array([-1.0, -2, -3, -1, -1, -1]), np.array([0.0, 0, 0.5, 1, 2, -0.5])
_INNER = ce.Product([ce.L1Ball(0.3, center=[0.1, -0.2]), ce.LongShort(1.3, 0.3)], [2, 2])
_FORCED = np.array([0.1, -1, -1, -1, -1, -0.9]), np.array([0.6, 1, 1, 1, 1, -0.2])


@dataclass(frozen=True)
class FeasibleSet:
    """A set of vectors of size `D` and its constraints in the words of cvxpy."""

    domain: ce.Domain
    constraints: Callable[[Any, Any], list[Any]]  # of the module cvxpy and a variable v
    polyhedron: bool = True  # the exact method and its certificate apply
    bounded: bool = True


SETS: dict[str, FeasibleSet] = {
    "simplex": FeasibleSet(ce.Simplex(), lambda cp, v: [v >= 0, cp.sum(v) == 1]),
    "simplex_total": FeasibleSet(ce.Simplex(total=2.5), lambda cp, v: [v >= 0, cp.sum(v) == 2.5]),
    "box": FeasibleSet(ce.Box(*_BOUNDS), lambda cp, v: [v >= _BOUNDS[0], v <= _BOUNDS[1]]),
    "capped": FeasibleSet(ce.CappedSimplex(0.05, 0.4), lambda cp, v: [v >= 0.05, v <= 0.4, cp.sum(v) == 1]),
    "capped_short": FeasibleSet(ce.CappedSimplex(-0.3, 0.6), lambda cp, v: [v >= -0.3, v <= 0.6, cp.sum(v) == 1]),
    "capped_negative": FeasibleSet(
        ce.CappedSimplex(*_SHORT, total=-2.0), lambda cp, v: [v >= _SHORT[0], v <= _SHORT[1], cp.sum(v) == -2]
    ),
    "half_infinite": FeasibleSet(ce.CappedSimplex(-np.inf, 0.4), lambda cp, v: [v <= 0.4, cp.sum(v) == 1]),
    "hyperplane": FeasibleSet(
        ce.CappedSimplex(-np.inf, np.inf, total=3.0), lambda cp, v: [cp.sum(v) == 3], bounded=False
    ),
    "mixed_infinite": FeasibleSet(
        ce.CappedSimplex([-np.inf, 0, 0, -1, 0, 0], [1, np.inf, 1, 1, 1, 1]),
        lambda cp, v: [v[1:] >= np.array([0, 0, -1, 0, 0]), v[[0, 2, 3, 4, 5]] <= 1, cp.sum(v) == 1],
        bounded=False,
    ),
    "long_short": FeasibleSet(ce.LongShort(1.3, 0.3), lambda cp, v: [cp.sum(v) == 1, cp.norm1(v) <= 1.6]),
    "long_short_bounds": FeasibleSet(
        ce.LongShort(1.2, 0.4, lower=-0.2, upper=0.5),
        lambda cp, v: [v >= -0.2, v <= 0.5, cp.sum(v) == 0.8, cp.norm1(v) <= 1.6],
    ),
    "long_short_forced": FeasibleSet(
        ce.LongShort(1.2, 0.4, *_FORCED),
        lambda cp, v: [v >= _FORCED[0], v <= _FORCED[1], cp.sum(v) == 0.8, cp.norm1(v) <= 1.6],
    ),
    "long_short_zero": FeasibleSet(ce.LongShort(1.0, 0.0), lambda cp, v: [v >= 0, cp.sum(v) == 1]),
    "ball": FeasibleSet(
        ce.Ball(0.7, center=np.arange(D) / D), lambda cp, v: [cp.norm2(v - np.arange(D) / D) <= 0.7], polyhedron=False
    ),
    "l1_ball": FeasibleSet(ce.L1Ball(0.8, center=np.full(D, 0.2)), lambda cp, v: [cp.norm1(v - 0.2) <= 0.8]),
    "nonnegative": FeasibleSet(ce.NonNegative(), lambda cp, v: [v >= 0], bounded=False),
    "free": FeasibleSet(ce.Free(), lambda cp, v: [], bounded=False),
    "product": FeasibleSet(
        ce.Product([ce.Simplex(), ce.Box(-1.0, 1.0)], sizes=[4, 2]),
        lambda cp, v: [v[:4] >= 0, cp.sum(v[:4]) == 1, v[4:] >= -1, v[4:] <= 1],
    ),
    "nested": FeasibleSet(
        ce.Product([ce.Box(-0.3, 0.2), _INNER], [2, 4]),
        lambda cp, v: [
            v[:2] >= -0.3,
            v[:2] <= 0.2,
            cp.norm1(v[2:4] - np.array([0.1, -0.2])) <= 0.3,
            cp.sum(v[4:]) == 1,
            cp.norm1(v[4:]) <= 1.6,
        ],
    ),
    "polyhedron": FeasibleSet(
        ce.Polyhedron(-1.0, 2.0, C=_C, c=_C @ np.full(D, 0.3), A=_A, b=_A @ np.full(D, 0.3) + 0.1),
        lambda cp, v: [v >= -1, v <= 2, _C @ v == _C @ np.full(D, 0.3), _A @ v <= _A @ np.full(D, 0.3) + 0.1],
    ),
    "redundant": FeasibleSet(
        ce.Polyhedron(0.0, 1.0, C=np.outer([1.0, 2.0], np.ones(D)), c=[1.0, 2.0], A=np.vstack((_A, _A)), b=np.ones(8)),
        lambda cp, v: [v >= 0, cp.sum(v) == 1, _A @ v <= 1],
    ),
    "cone": FeasibleSet(
        ce.Polyhedron(-np.inf, np.inf, A=_A, b=np.zeros(4)), lambda cp, v: [_A @ v <= 0], bounded=False
    ),
    "groups": FeasibleSet(
        ce.Polyhedron(lower=0.0, C=np.ones((1, D)), c=[1.0], A=np.stack([_HALF, -_ODD]), b=[0.4, -0.1]),
        lambda cp, v: [v >= 0, cp.sum(v) == 1, _HALF @ v <= 0.4, _ODD @ v >= 0.1],
    ),
}


# -- exact problems ----------------------------------------------------------------------------------------------------


def returns(n: int, d: int = D, seed: int = 1) -> Vector:
    """Return losses of d assets with a common factor and heavy tails, of size 0.01 to 0.05."""
    rng = np.random.default_rng([seed, n, d])
    return 0.01 * (rng.standard_t(4, size=(n, d)) + rng.standard_normal((n, 1))) - rng.uniform(0, 0.002, d)


def _tables() -> dict[str, tuple[Vector, Vector | None]]:
    rng = np.random.default_rng(30)
    ties = np.round(100.0 * returns(120), 0)
    return {
        "returns": (returns(150), None),
        "ties": (ties, rng.integers(0, 4, 120).astype(float)),
        "wide": (returns(5), None),
        "twins": (np.repeat(returns(80, D // 2), 2, axis=1), None),
        "riskless": (np.where(np.arange(D) == 2, 0.0, returns(90) + 0.002), None),
        "scaled": (returns(100) * np.logspace(-3, 3, D), rng.random(100)),
    }


TABLES = _tables()  # scenarios times assets, and weights of the scenarios


@dataclass(frozen=True)
class Problem:
    """Terms (risk, weight) of the losses of a table over a set, with limits (risk, level) and linear costs."""

    table: str
    terms: tuple[tuple[ce.Risk, float], ...]
    domain: str = "simplex"
    limits: tuple[tuple[Any, float], ...] = ()
    linear: Vector | None = None


_COSTS = np.linspace(0.0, 0.01, D)
PROBLEMS: dict[str, Problem] = {
    "mean_under_cvar": Problem("returns", ((ce.Mean(), 1.0),), limits=((ce.CVaR(0.1), 0.0235),)),
    "cvar_under_evar": Problem("returns", ((ce.CVaR(0.2), 1.0),), limits=((ce.EVaR(0.1), 0.03),)),
    "two_limits": Problem(
        "returns", ((ce.Mean(), 1.0),), limits=((ce.CVaR(0.1), 0.025), (ce.RootMeanSquare(), 0.0125))
    ),
    "two_terms": Problem("returns", ((ce.CVaR(0.1), 0.5), (ce.HMCR(2, 0.3), 2.0))),
    "costs": Problem("returns", ((ce.CVaR(0.1), 1.0),), linear=_COSTS),
    "costs_and_groups": Problem("ties", ((ce.EVaR(0.2), 1.0),), "groups", linear=np.linspace(0.0, 0.5, D)),
    "limit_and_groups": Problem("ties", ((ce.Mean(), 1.0),), "groups", limits=((ce.CVaR(0.2), 1.85),)),
    # Every utility that cones express, each over one of the sets, in a table with or without weights, ties and costs.
    "entropic": Problem("returns", ((ce.Entropic(50.0), 1.0),), "long_short", linear=_COSTS),
    "mean_variance": Problem("returns", ((ce.MeanVariance(25.0), 1.0),), "groups"),
    "mmv2": Problem("ties", ((ce.MonotoneMeanVariance(2), 1.0),), "capped"),
    "mmv3": Problem("wide", ((ce.MonotoneMeanVariance(3), 1.0),), "long_short_bounds", linear=_COSTS),
    "quartic": Problem("ties", ((ce.Quartic(), 1.0),), "l1_ball"),
    "cvar": Problem("twins", ((ce.CVaR(0.05), 1.0),), "capped_short"),
    "smooth": Problem("returns", ((ce.SmoothCVaR(0.05, 0.005), 1.0),), "box"),
    "mean_cvar": Problem("ties", ((0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05), 1.0),), "long_short_forced"),
    "mmv_cvar": Problem("riskless", ((0.5 * ce.MonotoneMeanVariance(2) + 0.5 * ce.CVaR(0.05), 1.0),), "redundant"),
    "smooth_cvar": Problem("twins", ((0.5 * ce.SmoothCVaR(0.05, 0.005) + 0.5 * ce.CVaR(0.05), 1.0),), "product"),
}


def expected(u: ce.Utility, x: Any, w: Vector) -> Any:
    """Return E u(x) in the words of cvxpy."""
    cp = importlib.import_module("cvxpy")
    match u:
        case ce.utilities.Sum():
            return sum(weight * expected(term, x, w) for weight, term in zip(u.weights, u.terms, strict=True))
        case ce.Mean():
            return w @ x
        case ce.Entropic():
            return (w @ cp.exp(u.beta * x) - 1.0) / u.beta
        case ce.MeanVariance():
            return w @ x + u.beta * (w @ cp.square(x))
        case ce.MonotoneMeanVariance():
            return (w @ cp.power(cp.pos(x + 1.0), u.a) - 1.0) / u.a
        case ce.Quartic():
            return w @ cp.power(cp.pos(x + 1.0), 4) - 1.0
        case ce.CVaR():
            return w @ cp.pos(x) / u.alpha
        case ce.SmoothCVaR():
            return u.width / u.alpha * (w @ cp.logistic(x / u.width))
    raise NotImplementedError(u)


def cone(risk: Any, x: Any, w: Vector) -> tuple[Any, list[Any]]:
    """Return a risk of losses x in the words of cvxpy: a value and its constraints."""
    cp = importlib.import_module("cvxpy")
    t = cp.Variable()
    match risk:
        case ce.EVaR():
            s, u = cp.Variable(nonneg=True), cp.Variable(len(w))
            return t - s * math.log(risk.alpha), [w @ u <= s, cp.ExpCone(x - t, s * np.ones(len(w)), u)]
        case ce.DivergenceBall():  # half the chi-square distance: the norm of the tilt is at most sqrt(1 + 2 r)
            return t + math.sqrt(1.0 + 2.0 * risk.radius) * cp.norm2(cp.multiply(np.sqrt(w), cp.pos(x - t))), []
        case ce.HMCR():
            return t + cp.pnorm(cp.multiply(w ** (1.0 / risk.p), cp.pos(x - t)), risk.p) / risk.alpha, []
        case ce.Mean():
            return w @ x, []
        case ce.Entropic():
            return cp.log_sum_exp(risk.beta * x + np.log(w)) / risk.beta, []
        case ce.Utility():
            return t + expected(risk, x - t, w), []
        case ce.RootMeanSquare():
            return cp.norm2(cp.multiply(np.sqrt(w), x)), []
        case ce.Mixture():
            parts = [cone(part, x, w) for part in risk.risks]
            total = sum(weight * value for weight, (value, _) in zip(risk.weights, parts, strict=True))
            return total, [row for _, rows in parts for row in rows]
    raise NotImplementedError(risk)
