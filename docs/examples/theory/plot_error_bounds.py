"""
Finite-sample error bounds, printed and corrected
=================================================

How far can the OCE of m samples be from the truth? The paper gives bounds of two kinds. For utilities of bounded slope
(CVaR) the printed one is true, and thirty times larger than need be. For the others (monotone mean-variance, quartic,
entropic) the printed one is false. ``certeq.bounds`` has the corrected bounds.
"""

# %%
# **Bounded slope.** Losses N(-1, 4), CVaR of the worst 5 %: the slope is at most K = 20. What counts is
# :math:`J_1 = \int\sqrt{F(1-F)}`, how spread out the distribution is; the printed bound uses an absolute moment
# instead.
import matplotlib.pyplot as plt
import numpy as np
from scipy import integrate, stats

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#008a63", "#8a94a0"

distribution = stats.norm(-1.0, 2.0)
truth = -1.0 + 2.0 * stats.norm.pdf(stats.norm.isf(0.05)) / 0.05
j1 = integrate.quad(lambda x: np.sqrt(distribution.cdf(x) * distribution.sf(x)), -60.0, 60.0, limit=200)[0]
third_moment = integrate.quad(lambda x: np.abs(x) ** 3 * distribution.pdf(x), -60.0, 60.0, limit=200)[0] ** (1.0 / 3.0)

rng = np.random.default_rng(0)
sizes = np.array([30, 100, 300, 1000, 3000])
measured = [
    np.mean(np.abs(ce.oce(rng.normal(-1.0, 2.0, size=(1000, m)), ce.CVaR(0.05), axis=1) - truth)) for m in sizes
]
printed = 39.0 * 20.0 * third_moment / np.sqrt(sizes)
sharp = [ce.bounds.mae_bound(m, lipschitz=20.0, j1=j1) for m in sizes]
assert 30.0 < printed[0] / sharp[0] < 33.0
assert all(measured[i] < sharp[i] < printed[i] for i in range(len(sizes)))

# %%
# **Unbounded slope.** Take a distribution that depends on m: a loss of h = 3 sqrt(m) with probability h**-4, else 0.
# Its fourth moment is 1 for every m. The number of large losses in a sample is binomial, so the mean squared error is a
# sum that needs no simulation: two-point samples, with weights. The printed bound uses a moment of some order q > 4,
# here 4.001; with q = 5 it fails from m = 1e14 on, and for q >= 8 no counterexample is known.
u = ce.MonotoneMeanVariance(3)
q = 4.001


def exact_errors(m):
    """Return mean squared error, and its bound as printed and as corrected (the best of several q)."""
    h = 3.0 * np.sqrt(m)
    chance = h**-4.0
    k = np.arange(6)  # more than five large losses: never, at these odds
    odds = stats.binom.pmf(k, m, chance)
    points = np.array([0.0, h])
    truth = ce.oce(points, u, weights=[1.0 - chance, chance])
    found = ce.oce(np.tile(points, (len(k), 1)), u, weights=np.column_stack([1.0 - k / m, k / m]), axis=1)
    mse = float(odds @ (found - truth) ** 2)
    t = ce.threshold(points, u, weights=[1.0 - chance, chance])
    p = np.array([1.0 - chance, chance])
    slope, value = u.slope(points - t), u.value(points - t)
    slope_variance = float(p @ slope**2 - (p @ slope) ** 2)
    value_variance = float(p @ (value - p @ value) ** 2)
    moment = lambda order: (chance * h**order) ** (1.0 / order)
    corrected = min(
        ce.bounds.mse_bound(m, slope_variance, moment(order), value_variance=value_variance, q=order)
        for order in np.linspace(4.1, 8.0, 40)
    )
    return mse, 108.0 * (slope_variance + 1.0) * moment(q) ** 2 / np.sqrt(m), corrected


large = 10.0 ** np.arange(4, 13)
mse, mse_printed, mse_corrected = np.array([exact_errors(m) for m in large]).T

# %%
# Left: the error, the sharp bound and the printed one fall together. Right: the error crosses the printed bound and
# stays above it, while the corrected one holds.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
left.loglog(sizes, printed, "s--", color=GREY, label="printed bound, 39 K T / √m")
left.loglog(sizes, sharp, "o-", color=GREEN, lw=2, label="sharp bound, K J₁ / √m")
left.loglog(sizes, measured, "o-", color=BLUE, lw=2, label="measured")
left.set(xlabel="samples m", ylabel="mean absolute error", ylim=(1e-2, 1e4))
left.set_title("CVaR: true, and loose", loc="left")
left.legend(frameon=False)

right.loglog(large, mse_corrected, "o-", color=GREEN, lw=2, label="corrected bound")
right.loglog(large, mse_printed, "s--", color=GREY, label="printed bound, 108 (σ² + 1) T² / √m")
right.loglog(large, mse, "o-", color=BLUE, lw=2, label="exact")
right.fill_between(large, mse_printed, mse, where=mse >= mse_printed, color=ORANGE, alpha=0.25, lw=0, interpolate=True)
right.text(1.3e10, 1.2e-2, "error above\nits bound", color=ORANGE, ha="center", fontsize=10)
right.set(xlabel="samples m", ylabel="mean squared error")
right.set_title("Monotone mean-variance, a = 3: false", loc="left")
right.legend(frameon=False, loc="lower left")
plt.show()

# %%
# At m = 1e8 the exact error is three times the printed bound; at 1e12, three hundred times.
for m, ratio in zip(large, mse / mse_printed, strict=True):
    print(f"m = {m:.0e}: error / printed bound = {ratio:.3g}")
assert np.all(mse < mse_corrected)
assert round(mse[4], 4) == 0.0672
assert 3.0 < mse[4] / mse_printed[4] < 3.2
