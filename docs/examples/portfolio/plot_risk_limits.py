"""
Largest return under CVaR and EVaR limits
=========================================

A mandate often reads: earn as much as you can, but lose no more than so much on bad days, and on very bad days. Two
limits, on two risks; which of them binds, and what would more of it bring?
"""

# %%
# The largest mean return of 20 large companies, 2010 to 2019, where CVaR of the worst 5 % of days is limited by a range
# of levels: a level may be an array. Then the same with a limit on EVaR, which sees the very worst days, beside it.
import matplotlib.pyplot as plt
import numpy as np
from skfolio.datasets import load_sp500_dataset
from skfolio.preprocessing import prices_to_returns

import certeq as ce
from certeq.portfolio import MinimumOCE

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"

X = prices_to_returns(load_sp500_dataset()).loc["2010":"2019"]
tail, worst, most = ce.CVaR(0.05), ce.EVaR(0.05), 0.032
levels = np.linspace(0.0172, 0.0280, 19)
one = MinimumOCE(objective_function="maximize_return", risk_limits=[(tail, levels)]).fit(X)
two = MinimumOCE(objective_function="maximize_return", risk_limits=[(tail, levels), (worst, np.full(19, most))]).fit(X)
print(f"largest gap {max(one.gap_.max(), two.gap_.max()):.0e}")

# %%
# Up to a point CVaR alone binds and both curves are one; then EVaR takes over and the curve levels off. Below, the
# multipliers: what one basis point more of a level would have earned in a year, and so which limit to ask
# about.
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8.5, 6.6), sharex=True, layout="constrained")
top.plot(100 * levels, 25200 * one.objective_, color=GREY, lw=2, ls="--", label="limit on CVaR alone")
top.plot(100 * levels, 25200 * two.objective_, color=BLUE, lw=3, label=f"and EVaR at most {100 * most:.1f} %")
top.set(ylabel="mean return, % a year")
top.set_title("The largest return under the limits", loc="left")
top.legend(frameon=False, loc="upper left")
for k, (name, color) in enumerate((("CVaR", BLUE), ("EVaR", ORANGE))):
    bottom.plot(100 * levels, 252 * two.limit_multipliers_[:, k], color=color, lw=2.5, label=name)
bottom.set(xlabel="limit on CVaR of a day, %", ylabel="basis points a year for one more")
bottom.set_title("What binds", loc="left")
bottom.legend(frameon=False)
plt.show()

# %%
# Where a limit is slack its multiplier is zero, and every limit is kept to the last digits.
slack = most - two.limit_values_[:, 1]
assert np.all(two.limit_values_ <= np.column_stack([levels, np.full(19, most)]) * (1 + 1e-9))
assert np.all(two.limit_multipliers_[slack > 1e-6, 1] == 0.0)
assert two.limit_multipliers_[-1, 1] > 0.0
assert np.allclose(one.objective_[0], two.objective_[0])
