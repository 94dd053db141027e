"""
Comparing the CVaR of two strategies
====================================

Two strategies, each with its CVaR and an interval; the intervals overlap. Are the strategies alike? Not if they lost on
the same days: what both have in common makes both intervals wide and drops out of the difference. ``ce.difference``
compares them period by period.
"""

# %%
# Three strategies in one market. B is A with a little more of the market; C is something else, of the same risk as A.
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#008a63", "#8a94a0"

rng = np.random.default_rng(4)
days = 1500
volatility = np.exp(0.5 * np.convolve(rng.standard_normal(days + 60), np.full(60, 0.13), "valid")[:days])
market = volatility * rng.standard_normal(days)
losses = {
    "A": market + 0.1 * rng.standard_normal(days),
    "B": 1.08 * market + 0.1 * rng.standard_normal(days),
    "C": volatility * rng.standard_normal(days) + 0.1 * rng.standard_normal(days),
}
cvar = ce.CVaR(0.05)

# %%
# Each by itself, with an interval that takes spells of volatility into account; and against A, day by day.
alone = {name: ce.estimate(x, cvar, dependence="auto") for name, x in losses.items()}
against = {name: ce.difference(losses[name], losses["A"], cvar, dependence="auto") for name in "BC"}
for name, found in alone.items():
    low, high = found.interval()
    print(f"CVaR of {name}: {found.value:.2f}, 95 % interval {low:.2f} to {high:.2f}")
for name, found in against.items():
    low, high = found.interval()
    print(f"{name} less A: {found.value:+.3f}, 95 % interval {low:+.3f} to {high:+.3f}, p = {found.pvalue:.2g}")

# %%
# Left, the risks: three intervals that overlap. Right, the differences from A on the same scale.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.2), layout="constrained")
for row, (name, color) in enumerate(zip("ABC", (BLUE, ORANGE, GREEN), strict=True)):
    low, high = alone[name].interval()
    left.plot([low, high], [row, row], color=color, lw=6, alpha=0.4, solid_capstyle="round")
    left.plot(alone[name].value, row, "o", color=color, ms=8)
    if name in against:
        low, high = against[name].interval()
        right.plot([low, high], [row, row], color=color, lw=6, alpha=0.4, solid_capstyle="round")
        right.plot(against[name].value, row, "o", color=color, ms=8)
        right.text(high + 0.05, row, f"p = {against[name].pvalue:.2g}", va="center", fontsize=9)
left.set(yticks=range(3), yticklabels=["A", "B", "C"], ylim=(2.6, -0.6), xlabel="CVaR of the worst 5 %")
left.set_ylabel("strategy")
left.set_title("Each by itself", loc="left")
width = left.get_xlim()[1] - left.get_xlim()[0]
right.axvline(0.0, color="black", lw=1)
right.set(yticks=[1, 2], yticklabels=["B - A", "C - A"], ylim=(2.6, -0.6), xlim=(-0.5 * width, 0.5 * width))
right.set_xlabel("difference of CVaR, same scale")
right.set_title("Day by day", loc="left")
plt.show()

# %%
# B is riskier than A at the 1 % level, although their intervals overlap nearly all the way. C lost on other days than
# A, so little drops out, and nothing can be said. With many pairs, as in ``certeq compare``, p-values are to be
# adjusted.
narrower = alone["B"].interval_reach(0.95) / (0.5 * np.ptp(against["B"].interval()))
print(f"the difference B - A is known {narrower:.0f} times more precisely than B itself")
assert against["B"].pvalue < 0.01 < against["C"].pvalue
assert narrower > 3
