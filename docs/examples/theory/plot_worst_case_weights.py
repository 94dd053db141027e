"""
Worst-case weights of five risk measures
========================================

Every coherent risk is the largest mean loss over a set of weights. What tells risks apart is the set, and what a set
does to a sample is seen in the weights that attain the maximum, the tilt. Here are those of five risks on one sample
of losses, each with a parameter that gives about the same value.
"""

# %%
# The losses are skewed, with a tail to the right. CVaR may raise the weight of a loss up to 1/alpha, EVaR and the
# chi-square ball limit the distance from equal weights, HMCR a norm of them, and Wang's transform fixes the weight of
# every rank.
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9"]

losses = np.sort(np.random.default_rng(3).gamma(2.0, 0.7, size=400))
risks = {
    "CVaR(0.2)": ce.CVaR(0.2),
    "EVaR(0.44)": ce.EVaR(0.44),
    "chi-square ball, radius 1.3": ce.MonotoneMeanVariance(2).ball(1.3),
    "HMCR(3, 0.65)": ce.HMCR(3, 0.65),
    "Wang(1.35)": ce.Wang(1.35),
}

# %%
# The weights in multiples of 1/n, so that 1 is the mean; the mark on the axis below is the risk itself.
figure, axis = plt.subplots(figsize=(9, 4.8), layout="constrained")
axis.axhline(1.0, color="#8a94a0", linewidth=1, label=f"mean, {losses.mean():.2f}")
for color, (name, risk) in zip(COLORS, risks.items(), strict=True):
    value = float(ce.oce(losses, risk))
    axis.plot(losses, losses.size * ce.tilt(losses, risk), color=color, linewidth=2, label=f"{name}: {value:.2f}")
    axis.plot(value, 0.0, marker="^", markersize=9, color=color, clip_on=False, zorder=3)
axis.set(xlabel="loss", ylabel="worst-case weight, times n", ylim=(0.0, 9.0), title="Where five risks put the weight")
axis.legend(frameon=False, loc="upper left")
plt.show()

# %%
# CVaR counts the worst fifth equally and nothing else. The weights of the chi-square ball rise on a line from a
# threshold on, those of HMCR(3) on a parabola, those of EVaR exponentially. Wang's depend on the rank alone: they rise
# without end towards the largest loss, wherever it lies.
for name, risk in risks.items():
    weights = ce.tilt(losses, risk)
    assert abs(weights.sum() - 1.0) < 1e-9
    assert abs(weights @ losses - ce.oce(losses, risk)) < 1e-9  # the mean loss under these weights is the risk
    print(f"{name:30s} effective sample size {1.0 / np.square(weights).sum():5.0f}")
