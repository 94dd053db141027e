"""Utilities, the link to shortfall risk and the axioms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import norm

import certeq as ce
from certeq.paper.errata._finding import Finding

SAMPLE = np.random.default_rng(7).standard_t(5, size=200)


def smooth_cvar() -> Finding:
    """The printed slope never reaches 1, so the infimum runs off to -inf and is the mean."""
    alpha = 0.1
    try:
        ce.utility(lambda x: alpha * np.logaddexp(0.0, x / alpha), name="printed S-CVaR")
        refused = False
    except ValueError:
        refused = True
    far = -50.0 + alpha * float(np.mean(np.logaddexp(0.0, (SAMPLE + 50.0) / alpha)))
    # In floats the slope is exactly 1 far out, so a root finder meets a "root" there and reports the mean.
    rounded = float(np.mean(1.0 / (1.0 + np.exp(-(SAMPLE + 50.0) / alpha)))) == 1.0
    fixed, tail = ce.SmoothCVaR(alpha), ce.oce(SAMPLE, ce.CVaR(alpha))
    entropy = -(alpha * math.log(alpha) + (1 - alpha) * math.log1p(-alpha))
    excess = ce.oce(SAMPLE, fixed) - tail
    return Finding(
        "Smooth CVaR, definition",
        "(tau/alpha) ln(1 + e^(x/tau)): its OCE exceeds CVaR by at most (tau/alpha) H(alpha)",
        "alpha ln(1 + e^(x/alpha)) is a smooth variant of CVaR",
        f"printed: OCE - mean = {far - SAMPLE.mean():.1e}, refused: {refused}; corrected: {excess:.4f} above CVaR, "
        f"at most {entropy:.4f}",
        refused and rounded and abs(far - SAMPLE.mean()) < 1e-12 and 0.0 <= excess <= entropy,
    )


def assumption_one() -> Finding:
    """The values of u' need not surround 1; its subdifferential does."""
    cvar, mv = ce.CVaR(0.05), ce.MeanVariance(0.5)
    slopes = np.unique(np.asarray(cvar.slope(np.linspace(-3.0, 3.0, 1001))))
    low, high = cvar.slope_range
    falling = float(mv.slope(np.array(-2.0)))
    return Finding(
        "Assumption 1",
        "1 lies in the interior of the range of the subdifferential",
        "the range of u' has 1 in its interior for all seven utilities, all increasing",
        f"slopes of CVaR 0.05: {', '.join(f'{x:g}' for x in slopes)}, its subdifferentials fill [{low:g}, {high:g}]; "
        f"mean-variance has slope {falling:g} at -2",
        set(slopes.tolist()) == {0.0, 20.0} and low < 1.0 < high and falling < 0.0 and not mv.is_monotone,
    )


def mean_variance() -> Finding:
    """A smaller loss may be riskier, and convex losses may give a non-convex risk."""
    utility = ce.MeanVariance(0.5)
    better = float(ce.oce([0.0, -10.0], utility))

    def risk(theta: float) -> float:
        return float(ce.oce([0.5 * theta**2 + 10.0, 1.5 * theta**2 - 10.0], utility))

    h = 1e-2
    bend = (risk(h) - 2.0 * risk(0.0) + risk(-h)) / h**2
    return Finding(
        "Mean-variance, example",
        "not monotone, hence no convex risk measure; OCE of convex losses can be non-convex",
        "a convex risk measure",
        f"risk of (0, -10) is {better:g}, above that of (0, 0); second derivative at 0 of a convex family {bend:.3f}",
        better == 7.5 and abs(bend + 8.0) < 1e-2,
    )


def quartic() -> Finding:
    """Its slope at 0 is 4, so it is not normalised."""
    utility, third = ce.Quartic(), 4.0 ** (-1.0 / 3.0)
    t, value = float(ce.shortfall([0.0], utility)), float(ce.oce([0.0], utility))
    x = np.linspace(-3.0, 3.0, 61)
    same = float(np.max(np.abs(utility.value(x) - 4.0 * np.asarray(ce.MonotoneMeanVariance(4).value(x)))))
    return Finding(
        "Quartic, example",
        "t*(0) = 1 - 4^(-1/3), OCE(0) = -(3/4) 4^(-1/3); it is 4 times MMV with a = 4",
        "nothing is said of its value at 0",
        f"t*(0) = {t:.9f}, OCE(0) = {value:.9f}",
        abs(t - (1.0 - third)) < 1e-12 and abs(value + 0.75 * third) < 1e-12 and same < 1e-12,
        stands=True,
    )


def leaky_cvar() -> Finding:
    """The risk of a loss of 0 is far from 0."""
    found, off = [], 0.0
    for alpha in (0.05, 0.1):
        value = float(ce.oce([0.0], ce.LeakyCVaR(alpha)))
        off = max(off, abs(value - (math.sqrt(alpha * (1.0 - alpha)) - math.acos(math.sqrt(alpha)))))
        found.append(f"{value:.5f} at {alpha:g}")
    return Finding(
        "Leaky CVaR, example",
        "OCE(0) = sqrt(alpha (1 - alpha)) - arccos sqrt(alpha)",
        "a variant of CVaR",
        f"OCE(0) is {', '.join(found)}",
        off < 1e-12,
        stands=True,
    )


def units() -> Finding:
    """Where losses vary much less than alpha both variants are mean-variance; a unit puts that right."""
    alpha, daily = 0.05, 0.01 * norm.ppf((np.arange(4000) + 0.5) / 4000)
    cvar, variance = ce.oce(daily, ce.CVaR(alpha)), float(daily.var())
    leaky, smooth = (float(ce.oce(daily, u(alpha).normalized())) for u in (ce.LeakyCVaR, ce.SmoothCVaR))
    guess = [math.sqrt((1.0 - alpha) / alpha) * variance, 0.5 * (1.0 - alpha) / alpha * variance]
    unit = [float(ce.oce(daily, u(alpha).scaled(1e-3))) for u in (ce.LeakyCVaR, ce.SmoothCVaR)]
    near = max(abs(leaky / guess[0] - 1.0), abs(smooth / guess[1] - 1.0))
    return Finding(
        "Leaky and smooth CVaR on daily returns",
        "mean + u''(x0)/2 variance where deviations are far below alpha; scale u to the unit of the loss",
        "sensitive to tail losses",
        f"N(0, 0.01^2), alpha 0.05: {leaky:.5f} and {smooth:.5f} against CVaR {cvar:.4f}; in units of 0.001: "
        f"{unit[0]:.4f} and {unit[1]:.4f}",
        near < 0.1 and leaky < 0.1 * cvar and smooth < 0.1 * cvar and max(abs(x / cvar - 1.0) for x in unit) < 0.1,
    )


def shortfall_risk() -> Finding:
    """An infimum of a set of t, not a set of infima."""
    level = 0.3

    def square(x: Any) -> Any:
        return np.square(np.maximum(x, 0.0))

    t = float(ce.ubsr(SAMPLE, square, level))
    here, before = (float(np.mean(square(SAMPLE - at))) for at in (t, t - 1e-6))
    return Finding(
        "Shortfall risk, definition",
        "inf { t : E l(X - t) <= lambda }",
        "the braces stand outside the infimum",
        f"E l(X - t) - lambda is {here - level:.1e} at t and {before - level:.1e} just below it",
        here <= level + 1e-12 and before > level,
    )


def derivative_signs() -> Finding:
    """G' increases, so it is below 0 on the left."""
    utility = ce.Entropic(1.0)
    low, high = SAMPLE.min() - utility.anchor, SAMPLE.max() - utility.anchor
    t = np.linspace(low - 0.1, high + 0.1, 201)
    slope = np.array([1.0 - np.mean(utility.slope(SAMPLE - at)) for at in t])
    rises = bool(np.all(np.diff(slope) > 0))
    return Finding(
        "Proposition 1, condition",
        "G'(t_l) < 0 <= G'(t_u) with t_l < t_u",
        "G'(t_u) <= 0 < G'(t_l)",
        f"G' is {slope[0]:.3g} at the lower end of the bracket and {slope[-1]:.3g} at the upper",
        rises and slope[0] < 0.0 <= slope[-1] and low <= float(ce.shortfall(SAMPLE, utility)) <= high,
    )


def shortfall_is_a_minimiser() -> Finding:
    """At an atom G' jumps over 0; only the left derivative makes the least t exist."""
    utility, z = ce.CVaR(0.15), np.arange(10.0)
    t = float(ce.shortfall(z, utility))
    left, right = (float(np.mean(f(z - t))) for f in (utility.slope, utility.right_slope))
    grid = np.linspace(-1.0, 10.0, 1101)
    best = min(at + float(np.mean(utility.value(z - at))) for at in grid)
    value = t + float(np.mean(utility.value(z - t)))
    return Finding(
        "Proposition 1, conclusion",
        "the shortfall minimises G; it is a root of G' only where u' does not jump, and u' is the left derivative",
        "the shortfall is a root of G'",
        f"CVaR 0.15 of ten atoms: mean slope {left:.4f} at t* from the left, {right:.4f} from the right, never 1",
        abs(left - 2 / 3) < 1e-12 and abs(right - 4 / 3) < 1e-12 and value <= best + 1e-12,
    )


def subadditivity() -> Finding:
    """Convexity and cash invariance do not make a risk subadditive."""
    utility, x = ce.Entropic(1.0), np.array([-3.0, 1.0])
    double, twice = float(ce.oce(2.0 * x, utility)), 2.0 * float(ce.oce(x, utility))
    half = float(ce.oce(0.5 * x + 0.5 * x[::-1], utility))
    return Finding(
        "Introduction",
        "convex risk measures need not be subadditive",
        "a convex risk measure is subadditive",
        f"entropic, X = -3 or 1: rho(X + X) = {double:.3f} > 2 rho(X) = {twice:.3f}",
        double > twice and half <= 0.5 * twice,
    )


CHECKS = (
    smooth_cvar,
    assumption_one,
    mean_variance,
    quartic,
    leaky_cvar,
    units,
    shortfall_risk,
    derivative_signs,
    shortfall_is_a_minimiser,
    subadditivity,
)
