"""What a check comes back with; utilities, the link to shortfall risk and the axioms; error bounds of the estimate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

import certeq as ce
from certeq.paper import bounds as paper
from certeq.reference import oce_sb
from certeq.risk import bounds

SAMPLE = np.random.default_rng(7).standard_t(5, size=200)
NORMAL = np.random.default_rng(8).normal(3.0, 1.0, size=100)


@dataclass(frozen=True)
class Finding:
    """One erratum, examined: where it stands, what is right, what was printed, what was found.

    ``holds`` says whether the correction stood up to the check and the printed form, where it is wrong, failed it. It
    is None where the check could not be made for want of data, and ``found`` then says of which. ``stands`` marks a
    printed statement that is true as far as it goes: loose, or silent about something. ``remark`` marks what the paper
    does not state at all, ``seeded`` a check that draws samples, with one fixed seed.
    """

    where: str
    right: str
    printed: str
    found: str
    holds: bool | None
    stands: bool = False
    remark: bool = False
    seeded: bool = False


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
        seeded=True,
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
    curvature = (risk(h) - 2.0 * risk(0.0) + risk(-h)) / h**2
    return Finding(
        "Mean-variance, example",
        "not monotone: Proposition 1 has monotonicity from an increasing u; OCE of convex losses can be non-convex",
        "by Proposition 1 a convex risk measure, monotone",
        f"risk of (0, -10) is {better:g}, above that of (0, 0); second derivative at 0 of a convex family "
        f"{curvature:.3f}",
        better == 7.5 and abs(curvature + 8.0) < 1e-2,
    )


def quartic() -> Finding:
    """Its slope at 0 is 4, so it is not normalized."""
    utility, third = ce.Quartic(), 4.0 ** (-1.0 / 3.0)
    t, value = float(ce.threshold([0.0], utility)), float(ce.oce([0.0], utility))
    x = np.linspace(-3.0, 3.0, 61)
    same = float(np.max(np.abs(utility.value(x) - 4.0 * np.asarray(ce.MonotoneMeanVariance(4).value(x)))))
    return Finding(
        "Quartic, example",
        "t*(0) = 1 - 4^(-1/3), OCE(0) = -(3/4) 4^(-1/3); it is 4 times MMV with a = 4",
        "nothing is said of its value at 0",
        f"t*(0) = {t:.9f}, OCE(0) = {value:.9f}",
        abs(t - (1.0 - third)) < 1e-12 and abs(value + 0.75 * third) < 1e-12 and same < 1e-12,
        stands=True,
        remark=True,
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
        remark=True,
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
        seeded=True,
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
        rises and slope[0] < 0.0 <= slope[-1] and low <= float(ce.threshold(SAMPLE, utility)) <= high,
        seeded=True,
    )


def threshold_is_a_minimizer() -> Finding:
    """At an atom G' jumps over 0; only the left derivative makes the least t exist."""
    utility, z = ce.CVaR(0.15), np.arange(10.0)
    t = float(ce.threshold(z, utility))
    left, right = (float(np.mean(f(z - t))) for f in (utility.slope, utility.right_slope))
    grid = np.linspace(-1.0, 10.0, 1101)
    best = min(at + float(np.mean(utility.value(z - at))) for at in grid)
    value = t + float(np.mean(utility.value(z - t)))
    return Finding(
        "Proposition 1, conclusion",
        "the threshold minimizes G; it is a root of G' only where u' does not jump, and u' is the left derivative",
        "the threshold is a root of G'",
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


def attained(entry: dict[str, float], share: float) -> bool:
    """Whether an error keeps its corrected bound and comes up to that share of it; rounding is granted."""
    return share * entry["corrected"] <= entry["mse"] <= entry["corrected"] * (1.0 + 1e-9)


def wasserstein() -> Finding:
    """The slopes of the other distribution may vary where those of X do not."""
    found, tail = paper.wasserstein_jump(1e4), paper.wasserstein_tail()
    return Finding(
        "Wasserstein lemma",
        "the variance bound is needed for X and for Y",
        "a variance bound on X suffices",
        f"MMV 2, X = 0, Y = 10,000 with odds 9e-8: difference {found['mse']:.4f}, printed bound {found['printed']:g}, "
        f"corrected {found['corrected']:.3f}; CVaR 0.05, X = 0, Y = 1 with odds 0.05: {tail['mse']:.4f}, "
        f"{tail['printed']:.4f} and {tail['corrected']:.4f}, attained",
        found["printed"] < found["mse"] <= found["corrected"]
        and abs(found["mse"] - 4.5009) < 1e-4
        and tail["printed"] < tail["mse"]
        and attained(tail, 0.999),
    )


def lipschitz() -> Finding:
    """True, and thirty times too large; the order of the MSE is 1/m, and a law of two points attains it."""
    m, K, j1 = 400, 20.0, paper.dispersion()
    mae, mse = paper.simulated("CVaR", m, 400, 1)
    T3, T5 = paper.norm_of(3.0), paper.norm_of(5.0)
    sharp = bounds.mae_bound(m, K, j1=j1), bounds.mse_bound_lipschitz(m, K, j1=j1)
    loose = bounds.mae_bound(m, K, T3, form="printed"), bounds.mse_bound_lipschitz(m, K, T5, form="printed")
    spread = bounds.dispersion(paper.MEAN + paper.DEVIATION * norm.ppf((np.arange(20_000) + 0.5) / 20_000))
    tail = paper.tail_jump(1000)
    ratio = {name: tail[name]["mse"] / tail[name]["corrected"] for name in ("MAE", "MSE")}
    return Finding(
        "Lipschitz lemma",
        "MAE <= K J1/sqrt(m) and MSE <= K^2 J1^2/m with J1 the integral of sqrt(F (1 - F))",
        "39 K T/sqrt(m) and 108 K^2 T^2/sqrt(m)",
        f"N(-1, 4): J1 = {j1:.2f} against 39 T = {39 * T3:.0f}; CVaR 0.05 at m = {m}: MAE {mae:.3f} <= {sharp[0]:.2f} "
        f"<= {loose[0]:.0f}, MSE {mse:.3f} <= {sharp[1]:.2f} <= {loose[1]:.0f}; X = 1 with odds 0.01, else 0, m = "
        f"1000: error over corrected bound {ratio['MAE']:.3f} (MAE, of which sqrt(2/pi) is the limit for large m) and "
        f"{ratio['MSE']:.4f} (MSE), error over printed bound {tail['MAE']['mse'] / tail['MAE']['printed']:.4f} and "
        f"{tail['MSE']['mse'] / tail['MSE']['printed']:.0e}",
        mae <= sharp[0] <= loose[0]
        and mse <= sharp[1] <= loose[1]
        and abs(j1 / spread - 1.0) < 5e-3
        and j1 <= bounds.dispersion_bound(T3, 3.0)
        and attained(tail["MAE"], 0.75)
        and attained(tail["MSE"], 0.999),
        stands=True,
        seeded=True,
    )


def non_lipschitz() -> Finding:
    """A rare, large jump breaks the printed bound; the exact error is a binomial sum."""
    found, far = paper.rare_jump(10**8), paper.rare_jump(10**12)
    even, few = paper.one_sample(0.5), paper.one_sample(0.1)
    return Finding(
        "Non-Lipschitz lemma, MSE",
        "MSE <= Var u(X - t*)/m + (1 + sigma_1^2) E W2^2",
        "108 (sigma_1^2 + 1) T^2/sqrt(m)",
        f"MMV 3 on a rare jump, m = 1e8: MSE {found['mse']:.4f}, printed bound {found['printed']:.4f}, corrected "
        f"{found['corrected']:.3f}, which is loose by {far['corrected'] / far['mse']:.0f} at m = 1e12; smooth CVaR of "
        f"0 or 1 with equal odds and one sample: MSE {even['mse']:.3f}, corrected {even['corrected']:.3f}, loose by "
        f"{even['corrected'] / even['mse']:.1f}",
        found["printed"] < found["mse"] <= found["corrected"]
        and attained(far, 0.06)
        and attained(even, 0.35)
        and attained(few, 0.12),
    )


def bisection_sign() -> Finding:
    """With -Z in place of Z the root is the threshold of gains."""
    utility = ce.Entropic(1.0)
    right, flipped = float(ce.threshold(NORMAL, utility)), float(ce.threshold(-NORMAL, utility))
    residual = float(np.mean(utility.slope(NORMAL - right))) - 1.0
    wrong = float(np.mean(utility.slope(NORMAL - flipped))) - 1.0
    printed = float(np.mean(utility.slope(-NORMAL - flipped))) - 1.0
    return Finding(
        "OCE-SB, listing",
        "g(t) is the mean of u'(Z - t), less 1",
        "u'(-Z - t)",
        f"the printed g vanishes at {flipped:.3f}, the threshold is {right:.3f}",
        abs(residual) < 1e-12 and abs(printed) < 1e-12 and abs(wrong) > 1.0,
        seeded=True,
    )


def bisection_bracket() -> Finding:
    """Doubling an end that is 0 leaves it there; only where g(0) is exactly 0 is the first bracket one."""
    utility, loops, ended = ce.Entropic(1.0), [], False
    for z in (NORMAL, -NORMAL, np.zeros(3)):
        low, high, steps = *((-1.0, 0.0) if _residual(utility, z, 0.0) > 0.0 else (0.0, 1.0)), 0
        while steps < 1000 and (_residual(utility, z, high) > 0.0 or _residual(utility, z, low) < 0.0):
            if _residual(utility, z, high) > 0.0:
                high *= 2.0
            else:
                low *= 2.0
            steps += 1
        loops.append(steps)
        ended = steps < 1000 and _residual(utility, z, 0.0) == 0.0
    low_end, high_end = NORMAL.min() - utility.anchor, NORMAL.max() - utility.anchor
    t = float(ce.threshold(NORMAL, utility))
    return Finding(
        "OCE-SB, bracket",
        "[min z - x0, max z - x0], without any search",
        "[-1, 0] where g(0) > 0, else [0, 1], then doubling",
        f"doublings: {loops[0]} where g(0) > 0, {loops[1]} where g(0) < 0 (stopped at 1000: the end is 0), {loops[2]} "
        f"where g(0) = 0; t* = {t:.3f} lies in [{low_end:.3f}, {high_end:.3f}]",
        loops[:2] == [1000, 1000]
        and ended
        and low_end <= t <= high_end
        and _residual(utility, NORMAL, low_end) >= 0.0 >= _residual(utility, NORMAL, high_end),
        seeded=True,
    )


def _residual(utility: ce.Utility, z: np.ndarray, t: float) -> float:
    return float(np.mean(utility.slope(z - t))) - 1.0


def bisection_stop() -> Finding:
    """|g| <= eps may be out of reach: at atoms, and where t has no digits left."""
    z, utility = np.arange(10.0), ce.CVaR(0.15)
    least = min(abs(float(np.mean(utility.slope(z - t))) - 1.0) for t in np.linspace(-1.0, 10.0, 4401))
    ends = oce_sb(z, utility, 1e-12, 1e-12)[0]
    # At an offset of 1e9 the neighboring floats of t are 1.2e-7 apart and g jumps by as much.
    far, entropic = NORMAL + 1e9, ce.Entropic(1.0)
    t = float(ce.threshold(far, entropic))
    jump = min(abs(float(np.mean(np.exp(far - at))) - 1.0) for at in (np.nextafter(t, 0.0), t, np.nextafter(t, 2e9)))
    settled = oce_sb(far, entropic, 1e-12, 1e-12)[0] - 1e9
    return Finding(
        "OCE-SB, stopping rule",
        "stop as well when no float is left between the ends",
        "until |g| <= epsilon",
        f"CVaR 0.15 of ten atoms: |g| >= {least:.4f} everywhere; entropic at an offset of 1e9: |g| >= {jump:.1e}. The "
        f"corrected rule ends at {ends:.6f}",
        abs(least - 1 / 3) < 1e-9
        and jump > 1e-12
        and abs(ends - float(ce.oce(z, utility))) < 1e-9
        and abs(settled - float(ce.oce(NORMAL, entropic))) < 1e-6,
        seeded=True,
    )


def bisection_value() -> Finding:
    """With u' in place of u the answer would be t + 1; the error bound needs no smoothness."""
    utility = ce.Entropic(1.0)
    t, value = float(ce.threshold(NORMAL, utility)), float(ce.oce(NORMAL, utility))
    printed = t + float(np.mean(utility.slope(NORMAL - t)))
    ratios = np.array([paper.bisection(seed) for seed in range(3)])
    return Finding(
        "Proposition on the output of OCE-SB",
        "s_hat holds u, and 0 <= s_hat - OCE_m <= delta |g| for every convex u",
        "s_hat holds u'; a remark on (delta + 1) epsilon for the rest",
        f"printed s_hat {printed:.4f}, OCE_m {value:.4f}; error over delta |g| at most {ratios[:, 0].max():.3f}",
        abs(printed - value) > 0.5 and ratios[:, 0].max() <= 1.0 + 1e-9 and ratios[:, 1].min() >= -1e-12,
        seeded=True,
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
    threshold_is_a_minimizer,
    subadditivity,
    wasserstein,
    lipschitz,
    non_lipschitz,
    bisection_sign,
    bisection_bracket,
    bisection_stop,
    bisection_value,
)
