"""
Risk parity: equal contributions to CVaR
========================================

Equal weights are not equal risks: a few companies carry most of the tail. Risk budgeting turns the question around and
finds the weights with which every company carries the same share of the risk, whatever coherent risk is meant.
"""

# %%
# ``RiskBudgetingOCE`` needs nothing but the risk; ``risk_budget`` would give other shares than equal ones.
import matplotlib.pyplot as plt
import numpy as np
from skfolio.datasets import load_sp500_dataset
from skfolio.preprocessing import prices_to_returns

import certeq as ce
from certeq.portfolio import MinimumOCE, RiskBudgetingOCE

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, GREY = "#0072b2", "#8a94a0"

X = prices_to_returns(load_sp500_dataset()).loc["2010":"2019"]
tail = ce.CVaR(0.05)
least, even = MinimumOCE(tail).fit(X), RiskBudgetingOCE(tail).fit(X)
same = np.full(X.shape[1], 1.0 / X.shape[1])
print(f"contributions are equal to {even.deviation_:.0e}, gap {even.gap_:.0e}")

# %%
# Each company's share of the money and of the risk, for three portfolios. The least risk holds few; equal weights leave
# the risk to the wild ones; the budget lies between.
lost = -(X.to_numpy() @ same)
portfolios = {
    "equal weights": (same, same * (ce.tilt(lost, tail) @ -X.to_numpy())),
    "least CVaR": (least.weights_, least.risk_contributions_),
    "equal contributions": (even.weights_, even.risk_contributions_),
}
figure, axes = plt.subplots(1, 3, figsize=(10.5, 5.2), sharey=True, sharex=True, layout="constrained")
order = np.argsort(portfolios["equal weights"][1])
rows = np.arange(len(order))
for axis, (name, (weights, parts)) in zip(axes, portfolios.items(), strict=True):
    axis.barh(rows + 0.2, 100 * weights[order], 0.4, color=GREY, label="weight")
    axis.barh(rows - 0.2, 100 * (parts / parts.sum())[order], 0.4, color=BLUE, label="share of CVaR")
    axis.set_title(f"{name}, CVaR {100 * parts.sum():.2f} %", loc="left", fontsize=10)
    axis.set(yticks=rows, yticklabels=X.columns[order], xlabel="%")
axes[0].set_ylabel("company")
axes[2].legend(frameon=False, loc="lower right")
plt.show()

# %%
# The shares are equal to eight digits, and the risk lies between that of the other two.
assert np.allclose(even.risk_contributions_, even.risk_ / X.shape[1], rtol=1e-8)
assert least.risk_ < even.risk_ < ce.oce(lost, tail)
