"""
Scaling a utility to the unit of the losses
===========================================

CVaR does not care whether losses are in percent or in millions: twice the loss is twice the risk. Smooth and leaky
CVaR do, and so do monotone mean-variance, quartic and the entropic risk: each has a size of loss, near 1 unless you say
otherwise, at which its character changes. Daily returns are a hundredth of that, and on them "leaky CVaR" is next to
the mean. ``u.scaled(s)`` sets the size.
"""

# %%
# Daily losses, about 1 % in deviation, with the tails of real ones.
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#008a63", "#b35a8c", "#8a94a0"

losses = 0.007 * np.random.default_rng(1).standard_t(4, size=5000)
mean, cvar = losses.mean(), ce.oce(losses, ce.CVaR(0.05))
families = {
    "Leaky CVaR 5 %": (ce.LeakyCVaR(0.05), BLUE),
    "Smooth CVaR 5 %": (ce.SmoothCVaR(0.05), GREEN),
    "Quartic": (ce.Quartic(), PURPLE),
}

# %%
# The risk of each against the unit s that it measures losses by, less its value for no loss at all (``normalized``).
scales = np.geomspace(1e-5, 30.0, 60)
risks = {name: [ce.oce(losses, u.normalized().scaled(s)) for s in scales] for name, (u, _) in families.items()}

# %%
# Left: as the unit shrinks, leaky and smooth CVaR become CVaR; as it grows, all become the mean. At s = 1, where one
# ends without thinking, the losses are tiny and next to nothing is left of the risk. Right: the same as a tilt. In
# units of 1 a day with a loss of 4 % counts one and a half times as much as a quiet one; for CVaR, twenty times an
# average day.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), width_ratios=(1.2, 1), layout="constrained")
left.axhline(100 * cvar, color=ORANGE, lw=1.5, ls="--")
left.text(1.3e-5, 100 * cvar + 0.06, "CVaR 5 %, whatever the unit", color=ORANGE)
left.axhline(100 * mean, color=GREY, lw=1.5, ls="--")
left.text(1.3e-5, 100 * mean + 0.06, "mean", color="#566270")
for name, (_, color) in families.items():
    left.semilogx(scales, 100 * np.array(risks[name]), color=color, lw=2.5, label=name)
left.axvline(1.0, color="black", lw=1, ls=":")
left.axvline(0.01, color="black", lw=1, ls=":")
left.text(1.25, 0.8, "s = 1,\nunscaled", fontsize=9)
left.text(0.008, 0.8, "s = 1 %", fontsize=9, ha="right")
left.set(xlabel="unit s of the utility", ylabel="risk of the daily loss, %", ylim=(-0.15, 4.5))
left.set_title("One name, any risk you like", loc="left")
left.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.0, 0.98))

order = np.sort(losses)
for s, color, words in ((1.0, GREY, "s = 1"), (0.01, BLUE, "s = 1 %")):
    tilt = len(order) * ce.tilt(order, ce.LeakyCVaR(0.05).scaled(s))
    right.plot(100 * order, tilt, color=color, lw=2.5, label=f"leaky CVaR, {words}")
right.plot(100 * order, len(order) * ce.tilt(order, ce.CVaR(0.05)), color=ORANGE, lw=1.5, ls="--", label="CVaR")
right.set(xlim=(-3, 4.5), xlabel="loss of a day, %", ylabel="how often the day counts")
right.set_title("What the unit does to the worst case", loc="left")
right.legend(frameon=False, loc="upper left")
plt.show()

# %%
at_one = ce.oce(losses, ce.LeakyCVaR(0.05).normalized())
at_percent = ce.oce(losses, ce.LeakyCVaR(0.05).scaled(0.01).normalized())
print(
    f"mean {100 * mean:.3f} %, CVaR {100 * cvar:.3f} %, leaky CVaR at s = 1 {100 * at_one:.3f} %, "
    f"at s = 1 % {100 * at_percent:.3f} %"
)
weights = len(losses) * ce.tilt(losses, ce.LeakyCVaR(0.05))
big, quiet = (weights[np.argmin(np.abs(losses - size))] for size in (0.04, 0.0))
print(f"at s = 1 a loss of 4 % counts {big / quiet:.2f} times as much as a quiet day")
assert at_one < 0.03 * cvar < at_percent < cvar
