"""
Seven utilities: values, slopes, worst-case weights
===================================================

A utility u says what a loss of x *feels* like. Its slope u' says how much one more unit of loss counts, and the tilt
:math:`q_i = u'(x_i - t^*)/n` how much of the risk each sample carries. Here are all seven on the same 500 losses:
what differs from column to column is only where the weight goes.
"""

# %%
# The losses: skewed, with a tail to the right. Each utility is normalized, so that u(0) = 0 and one more unit of loss
# counts once there, and those that compare a loss with 1 are left with 1 as their unit, about a standard deviation.
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"

losses = np.sort(np.random.default_rng(3).gamma(2.0, 0.7, size=500) - 1.4)
utilities = {
    "Entropic": (ce.Entropic(1.0), "weights grow exponentially"),
    "Mean-variance": (ce.MeanVariance(0.5), "dislikes large gains"),
    "Monotone MV": (ce.MonotoneMeanVariance(2), "ignores large gains"),
    "Quartic": (ce.Quartic(), "weights grow as a cube"),
    "CVaR": (ce.CVaR(0.1), "the worst 10 %, equally"),
    "Leaky CVaR": (ce.LeakyCVaR(0.1), "the worst, and a leak"),
    "Smooth CVaR": (ce.SmoothCVaR(0.1, tau=0.3), "the worst, soft edge"),
}

# %%
# A column for each: the utility, its slope, and the tilt of the sample in multiples of 1/n. The grey line is the
# mean, for which u(x) = x, the slope is 1 and every sample counts once. The orange mark is the risk itself: the mean
# of the losses under the tilt less what the dual charges for tilting.
x = np.linspace(-2.5, 3.0, 400)
figure, axes = plt.subplots(3, 7, figsize=(13, 6.2), sharey="row", layout="constrained")
risks = {}
for column, (name, (u, words)) in enumerate(utilities.items()):
    u = u.normalized()
    top, middle, bottom = axes[:, column]
    risks[name] = float(ce.oce(losses, u))
    tilt = ce.tilt(losses, u)
    assert abs(tilt.sum() - 1.0) < 1e-12

    top.set_title(f"{name}\n", fontsize=11, fontweight="bold")
    top.text(0.5, 1.03, words, transform=top.transAxes, ha="center", fontsize=8.5, color="#566270")
    top.plot(x, x, color=GREY, lw=1)
    top.plot(x, u.value(x), color=BLUE, lw=2)
    middle.axhline(1.0, color=GREY, lw=1)
    middle.plot(x, u.slope(x), color=BLUE, lw=2)
    bottom.axhline(1.0, color=GREY, lw=1)
    bottom.fill_between(losses, len(losses) * tilt, step="mid", color=BLUE, alpha=0.25, lw=0)
    bottom.plot(losses, len(losses) * tilt, color=BLUE, lw=1.5, drawstyle="steps-mid")
    bottom.axvline(risks[name], color=ORANGE, lw=1.5)
    bottom.text(risks[name] + 0.12, 11.6, f"{risks[name]:.2f}", color=ORANGE, va="top", fontweight="bold")
    bottom.set(ylim=(-1.5, 12), xlabel="loss")
    top.set(ylim=(-4, 12), xlim=(-2.5, 3))
    middle.set(ylim=(-1.5, 12), xlim=(-2.5, 3))
    bottom.set_xlim(-1.6, 4.4)
for axis, label in zip(axes[:, 0], ("u(x)", "u'(x)", "tilt × n, and the risk"), strict=True):
    axis.set_ylabel(label)
plt.show()

# %%
# Mean-variance is the odd one out: its slope falls below 0, so that a large gain *adds* risk. Monotone mean-variance
# cuts that off and agrees with it otherwise: here 14 % of the samples are cut to weight 0, and the two risks differ in
# the third decimal.
print({name: round(risk, 3) for name, risk in risks.items()})
cut = np.mean(ce.tilt(losses, ce.MonotoneMeanVariance(2)) == 0.0)
print(f"cut to 0 by monotone mean-variance: {cut:.0%}")
assert round(100 * cut) == 14
assert 0.0 < risks["Mean-variance"] - risks["Monotone MV"] < 0.005
assert min(risks.values()) > losses.mean()
