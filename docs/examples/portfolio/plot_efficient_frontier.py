"""
CVaR efficient frontier of twenty stocks
========================================

The least tail risk for every mean return, on 20 large companies from 2005 to 2009. One estimator, one line: the
frontier, with a proved bound on how far each portfolio on it can be from the best. It is drawn on the days it was
fitted to, so it shows what was possible, not what anybody could have known.
"""

# %%
# ``MinimumOCE`` is a skfolio optimizer; it takes returns and minimizes the risk of the losses.
import matplotlib.pyplot as plt
import numpy as np
from skfolio.datasets import load_sp500_dataset
from skfolio.preprocessing import prices_to_returns

import certeq as ce
from certeq.portfolio import MinimumOCE

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"
PALETTE = ["#0072b2", "#d55e00", "#008a63", "#b35a8c", "#cf8d00", "#3b9edb", "#8a7f00", "#5b4db0"]

X = prices_to_returns(load_sp500_dataset()).loc["2005":"2009"]
tail = ce.CVaR(0.05)
frontiers = {
    name: MinimumOCE(utility, efficient_frontier_size=25).fit(X)
    for name, utility in (("CVaR", tail), ("mean-variance", ce.MeanVariance(beta=25.0)))
}
model = frontiers["CVaR"]
print(f"{len(X)} days, {X.shape[1]} companies, largest gap {np.max(model.gap_):.0e}")

# %%
# Both frontiers in the same plane: yearly return against the CVaR of a day. The dots are the companies. Below, the
# share of each company along the frontier.
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8.5, 8.0), height_ratios=(1.2, 1), layout="constrained")


def coordinates(returns):
    """Return the CVaR of a day and the mean return of a year of each column, in percent."""
    return 100 * ce.oce(-returns, tail, axis=0), 25200 * returns.mean(axis=0)


singles = coordinates(X.to_numpy())
curves = {name: coordinates(X.to_numpy() @ fit.weights_.T) for name, fit in frontiers.items()}
top.plot(*singles, "o", color=GREY, ms=6, alpha=0.8)
aside = {"PEP": (-23, 1), "JNJ": (-20, -3), "WMT": (6, -8), "PG": (6, -1), "MSFT": (6, -8)}  # these lie close together
for name, risk, mean in zip(X.columns, *singles, strict=True):
    top.annotate(name, (risk, mean), aside.get(name, (5, 3)), textcoords="offset points", fontsize=8, color="#566270")
top.plot(*curves["mean-variance"], color=ORANGE, lw=2, ls="--", label="mean-variance portfolios")
top.plot(*curves["CVaR"], color=BLUE, lw=3, label="CVaR frontier")
top.set(xlabel="CVaR of the worst 5 % of days, %", ylabel="mean return, % a year")
top.set_title("The least tail risk for each return", loc="left")
top.legend(frameon=False, loc="lower right")

# What is on it; those that never reach 1 % are left out.
shares = 100 * model.weights_
large = [j for j in np.argsort(-shares.max(axis=0)) if shares[:, j].max() > 1.0]
x = curves["CVaR"][1]
bottom.stackplot(x, *shares[:, large].T, labels=X.columns[large], colors=PALETTE, alpha=0.85, lw=0.4, edgecolor="white")
bottom.set(xlim=(x[0], x[-1]), ylim=(0, 100), xlabel="mean return, % a year", ylabel="share, %")
bottom.set_title("What it is made of", loc="left")
bottom.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True)
plt.show()

# %%
# At the same return the mean-variance portfolio never has the smaller tail. The difference is small where the return is
# large, because there is little to choose from, and largest near the portfolio of least risk:
excess = np.interp(curves["CVaR"][1], curves["mean-variance"][1], curves["mean-variance"][0]) - curves["CVaR"][0]
print(f"mean-variance exceeds the frontier's CVaR by up to {excess.max():.3f} percentage points")
assert np.max(model.gap_) < 1e-8
assert excess.min() > -1e-3
assert excess.argmax() < 5
assert np.all(np.diff(model.risk_) > -1e-9)
