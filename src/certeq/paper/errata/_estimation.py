"""Error bounds of the estimate and the bisection that computes it."""

from __future__ import annotations

import numpy as np

import certeq as ce
from certeq.paper import bounds as paper
from certeq.paper.errata._finding import Finding
from certeq.risk import bounds

SAMPLE = np.random.default_rng(8).normal(3.0, 1.0, size=100)


def wasserstein() -> Finding:
    """The other law's slopes may vary where those of X do not."""
    found = paper.two_points(3.0)
    return Finding(
        "Wasserstein lemma",
        "the variance bound is needed for X and for Y",
        "a variance bound on X suffices",
        f"X = 0, Y = +-3, mean-variance 1/2: difference {found['mse']:g}, printed bound {found['printed']:g}, "
        f"corrected {found['corrected']:.3f}",
        found["printed"] < found["mse"] <= found["corrected"],
    )


def lipschitz() -> Finding:
    """True, and thirty times too large; the order of the MSE is 1/m."""
    m, K, j1 = 400, 20.0, paper.dispersion()
    mae, mse = paper.simulated("CVaR", m, 400, 1)
    T3, T5 = paper.norm_of(3.0), paper.norm_of(5.0)
    sharp = bounds.mae_bound(m, K, j1=j1), bounds.mse_bound_lipschitz(m, K, j1=j1)
    loose = bounds.mae_bound(m, K, T3, form="printed"), bounds.mse_bound_lipschitz(m, K, T5, form="printed")
    return Finding(
        "Lipschitz lemma",
        "MAE <= K J1/sqrt(m) and MSE <= K^2 J1^2/m with J1 the integral of sqrt(F (1 - F))",
        "39 K T/sqrt(m) and 108 K^2 T^2/sqrt(m)",
        f"N(-1, 4): J1 = {j1:.2f} against 39 T = {39 * T3:.0f}; CVaR 0.05 at m = {m}: MAE {mae:.3f} <= {sharp[0]:.2f} "
        f"<= {loose[0]:.0f}, MSE {mse:.3f} <= {sharp[1]:.2f} <= {loose[1]:.0f}",
        mae <= sharp[0] <= loose[0] and mse <= sharp[1] <= loose[1] and j1 <= bounds.dispersion_bound(T3, 3.0),
        stands=True,
    )


def non_lipschitz() -> Finding:
    """A rare, large jump breaks the printed bound; the exact error is a binomial sum."""
    found = paper.rare_jump(10**8)
    return Finding(
        "Non-Lipschitz lemma, MSE",
        "MSE <= Var u(X - t*)/m + (1 + sigma_1^2) E W2^2",
        "108 (sigma_1^2 + 1) T^2/sqrt(m)",
        f"MMV 3 on a rare jump, m = 1e8: MSE {found['mse']:.4f}, printed bound {found['printed']:.4f}, corrected "
        f"{found['corrected']:.3f}",
        found["printed"] < found["mse"] <= found["corrected"],
    )


def bisection_sign() -> Finding:
    """With -Z in place of Z the root is the shortfall of gains."""
    utility = ce.Entropic(1.0)
    right, flipped = float(ce.shortfall(SAMPLE, utility)), float(ce.shortfall(-SAMPLE, utility))
    residual = float(np.mean(utility.slope(SAMPLE - right))) - 1.0
    wrong = float(np.mean(utility.slope(SAMPLE - flipped))) - 1.0
    printed = float(np.mean(utility.slope(-SAMPLE - flipped))) - 1.0
    return Finding(
        "OCE-SB, listing",
        "g(t) is the mean of u'(Z - t), less 1",
        "u'(-Z - t)",
        f"the printed g vanishes at {flipped:.3f}, the shortfall is {right:.3f}",
        abs(residual) < 1e-12 and abs(printed) < 1e-12 and abs(wrong) > 1.0,
    )


def bisection_bracket() -> Finding:
    """Doubling an end that is 0 leaves it there."""
    utility = ce.Entropic(1.0)

    def g(t: float) -> float:
        return float(np.mean(utility.slope(SAMPLE - t))) - 1.0

    high, doublings = 0.0, 0
    while g(high) > 0.0 and doublings < 1000:  # printed: g(0) > 0 gives [-1, 0]
        high, doublings = 2.0 * high, doublings + 1
    low_end, high_end = SAMPLE.min() - utility.anchor, SAMPLE.max() - utility.anchor
    t = float(ce.shortfall(SAMPLE, utility))
    return Finding(
        "OCE-SB, bracket",
        "[min z - x0, max z - x0], without any search",
        "[-1, 0] where g(0) > 0, then doubling",
        f"after {doublings} doublings the upper end is {high:g} and g there {g(high):.3g}; t* = {t:.3f} lies in "
        f"[{low_end:.3f}, {high_end:.3f}]",
        doublings == 1000 and high == 0.0 and low_end <= t <= high_end and g(low_end) >= 0.0 >= g(high_end),
    )


def bisection_stop() -> Finding:
    """|g| <= eps may be out of reach: at atoms, and where t has no digits left."""
    z, utility = np.arange(10.0), ce.CVaR(0.15)
    least = min(abs(float(np.mean(utility.slope(z - t))) - 1.0) for t in np.linspace(-1.0, 10.0, 4401))
    ends = float(ce.oce(z, utility, method="bisect", delta=1e-12, epsilon=1e-12))
    # At an offset of 1e9 the neighbouring floats of t are 1.2e-7 apart and g jumps by as much.
    far, entropic = SAMPLE + 1e9, ce.Entropic(1.0)
    t = float(ce.shortfall(far, entropic))
    jump = min(abs(float(np.mean(np.exp(far - at))) - 1.0) for at in (np.nextafter(t, 0.0), t, np.nextafter(t, 2e9)))
    settled = float(ce.oce(far, entropic, method="bisect", delta=1e-12, epsilon=1e-12)) - 1e9
    return Finding(
        "OCE-SB, stopping rule",
        "stop as well when no float is left between the ends",
        "until |g| <= epsilon",
        f"CVaR 0.15 of ten atoms: |g| >= {least:.4f} everywhere; entropic at an offset of 1e9: |g| >= {jump:.1e}. The "
        f"corrected rule ends at {ends:.6f}",
        abs(least - 1 / 3) < 1e-9
        and jump > 1e-12
        and abs(ends - float(ce.oce(z, utility))) < 1e-9
        and abs(settled - float(ce.oce(SAMPLE, entropic))) < 1e-6,
    )


def bisection_value() -> Finding:
    """With u' in place of u the answer would be t + 1; the error bound needs no smoothness."""
    utility = ce.Entropic(1.0)
    t, value = float(ce.shortfall(SAMPLE, utility)), float(ce.oce(SAMPLE, utility))
    printed = t + float(np.mean(utility.slope(SAMPLE - t)))
    ratios = np.array([paper.bisection(seed) for seed in range(3)])
    return Finding(
        "Proposition on the output of OCE-SB",
        "s_hat holds u, and 0 <= s_hat - OCE_m <= delta |g| for every convex u",
        "s_hat holds u'; a remark on (delta + 1) epsilon for the rest",
        f"printed s_hat {printed:.4f}, OCE_m {value:.4f}; error over delta |g| at most {ratios[:, 0].max():.3f}",
        abs(printed - value) > 0.5 and ratios[:, 0].max() <= 1.0 + 1e-9 and ratios[:, 1].min() >= -1e-12,
    )


CHECKS = (wasserstein, lipschitz, non_lipschitz, bisection_sign, bisection_bracket, bisection_stop, bisection_value)
