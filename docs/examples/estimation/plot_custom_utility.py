"""
Custom utility: a desk's rule as a risk measure
===============================================

A desk's rule in words: *a gain counts half, a loss counts one and a half times, and what goes beyond the limit of 2 %
counts five times.* That is a utility. Write it down, and everything else (the risk, its error, the worst case, the
best portfolio with a proof) follows; what is not a utility is refused, with the reason.
"""

# %%
# Convex and increasing, with 1 among its slopes: the maximum of three lines. Nothing but u is needed; slope, kinks
# and curvature are derived and checked.
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#008a63", "#8a94a0"

desk = ce.utility(lambda x: np.maximum(np.maximum(0.5 * x, 1.5 * x), 5.0 * x - 7.0))
print(desk.kinks)

# %%
# The opposite rule, *what goes beyond the limit is somebody else's problem*, is no utility, and the reason is given:
try:
    ce.utility(lambda x: np.minimum(np.maximum(0.5 * x, 1.5 * x), 3.0))
except ValueError as error:
    print(error)

# %%
# Eight assets with tails of different weight, in percent a day, and the portfolio that the desk's rule likes best.
# The gap is a proof: no portfolio on these days is better by more than that.
rng = np.random.default_rng(5)
freedom = np.array([2.5, 3.0, 3.5, 4.0, 5.0, 8.0, 12.0, 30.0])
market = rng.standard_t(4, size=(2500, 1))
returns = 0.06 + 0.8 * market + rng.standard_t(freedom, size=(2500, 8)) * np.linspace(1.8, 1.2, 8)
equal = -returns.mean(axis=1)
best = ce.minimize(ce.LinearLoss(-returns), desk, domain=ce.Simplex())
ours = -returns @ best.theta
print(f"equal weights {ce.oce(equal, desk):.3f} %, best {best.value:.3f} %, gap {best.gap:.0e}")

# %%
# Left, the rule. Right, what it makes of the days of the best portfolio: three kinds of days, each sample counting
# half, one and a half or five times; the tilt finds by itself where they begin, because t* moves with the portfolio.
tilt = len(ours) * ce.tilt(ours, desk)
t = best.threshold
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.3), width_ratios=(1, 1.35), layout="constrained")
x = np.linspace(-3.0, 4.0, 351)
left.plot(x, x, color=GREY, lw=1)
left.text(3.3, 2.3, "mean", color="#566270", fontsize=9)
for piece, color in ((x <= 0.0, GREEN), ((x >= 0.0) & (x <= 2.0), BLUE), (x >= 2.0, ORANGE)):
    left.plot(x[piece], desk.value(x[piece]), color=color, lw=3)
left.text(-2.9, 0.1, "gains × ½", color=GREEN, fontweight="bold")
left.text(-0.75, 3.0, "losses × 1½", color=BLUE, fontweight="bold")
left.text(3.1, 6.6, "× 5", color=ORANGE, fontweight="bold")
left.axvline(2.0, color=ORANGE, lw=1, ls="--")
left.text(2.1, -2.6, "limit", color=ORANGE, fontsize=9)
left.set(xlabel="loss, %", ylabel="u(loss)", ylim=(-3, 13))
left.set_title("The rule, written down", loc="left")

bins = np.arange(-6.0, 8.01, 0.4)
for low, high, color, label in (
    (-np.inf, 0.99, GREEN, "counts ½"),
    (0.99, 1.6, BLUE, "counts 1½"),
    (1.6, np.inf, ORANGE, "counts 5"),
):
    chosen = (tilt > low) & (tilt <= high)
    right.hist(ours[chosen], bins=bins, color=color, alpha=0.3)
    right.hist(ours[chosen], bins=bins, weights=tilt[chosen], histtype="step", color=color, lw=2)
    share = tilt[chosen].sum() / len(ours)
    print(f"{label}: {chosen.mean():.1%} of days, {share:.1%} of the worst case")
for at, style, words in ((t, "-", f"t* = {t:.2f} %"), (best.value, ":", f"risk = {best.value:.2f} %")):
    right.axvline(at, color="black", lw=1.2, ls=style, label=words)
right.legend(frameon=False)
right.set(xlabel="loss of the best portfolio, %", ylabel="days", xlim=(-5, 7))
right.set_title("Days as they were (filled), and as they count (line)", loc="left")
plt.show()

# %%
# The slopes are those of the rule, and a portfolio that is best for CVaR is not best for the desk.
assert best.gap < 1e-9
rival = ce.minimize(ce.LinearLoss(-returns), ce.CVaR(0.05), domain=ce.Simplex())
print(
    f"the CVaR portfolio under the desk's rule: {ce.oce(-returns @ rival.theta, desk):.4f} % against {best.value:.4f} %"
)
assert ce.oce(-returns @ rival.theta, desk) > best.value + 1e-4
