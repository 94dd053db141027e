"""
Least CVaR under a limit on tracking error
==========================================

A manager who is judged against an index may not stray far from it. How much less tail risk can be had for each
percent of tracking error, and does what was promised hold on days that nobody had seen?
"""

# %%
# The benchmark is an equal mix of 20 companies; the manager may hold 12 of them, so cannot copy it. A limit may be
# an array: one portfolio for each tracking error. Fitted on 2010 to 2015, tested on 2016 to 2019.
import matplotlib.pyplot as plt
import numpy as np
from skfolio.datasets import load_sp500_dataset
from skfolio.preprocessing import prices_to_returns

import certeq as ce
from certeq.portfolio import MinimumOCE

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"

returns = prices_to_returns(load_sp500_dataset())
index = returns.mean(axis=1)
mine = returns.iloc[:, :12]
then, later = slice("2010", "2015"), slice("2016", "2019")
tail, year = ce.CVaR(0.05), np.sqrt(252)
errors = np.linspace(0.04, 0.10, 13) / year
model = MinimumOCE(tail, max_tracking_error=errors).fit(mine.loc[then], index.loc[then])
print(f"{len(errors)} portfolios, largest gap {model.gap_.max():.0e}")

# %%
# CVaR against tracking error, on the days fitted on and on those that came after.
figure, axis = plt.subplots(figsize=(8.5, 5.0), layout="constrained")
for days, color, name in ((then, BLUE, "2010 to 2015, fitted"), (later, ORANGE, "2016 to 2019, not seen")):
    R = mine.loc[days].to_numpy() @ model.weights_.T
    apart = R - index.loc[days].to_numpy()[:, None]
    x, y = 100 * year * np.sqrt((apart**2).mean(axis=0)), 100 * ce.oce(-R, tail, axis=0)
    axis.plot(x, y, "o-", color=color, lw=2, ms=4, label=name)
    axis.axhline(100 * ce.oce(-index.loc[days].to_numpy(), tail), color=color, lw=1, ls=":")
axis.set(xlabel="tracking error, % a year", ylabel="CVaR of the worst 5 % of days, %")
axis.set_title("Less tail risk for more tracking error (dotted: the benchmark itself)", loc="left")
axis.legend(frameon=False)
plt.show()

# %%
# Other risks of what is lost against the benchmark are limited in the same way: here the worst 5 % of the days' lags.
behind = MinimumOCE(tail, benchmark_limits=[(tail, 0.009)]).fit(mine.loc[then], index.loc[then])
lag = index.loc[then].to_numpy() - mine.loc[then].to_numpy() @ behind.weights_
print(f"mean lag of the worst 5 % of days {100 * ce.oce(lag, tail):.3f} %, CVaR {100 * behind.risk_:.3f} %")
assert ce.oce(lag, tail) <= 0.009 * (1 + 1e-9)
assert np.all(model.limit_values_[:, 0] <= errors * (1 + 1e-9))
assert np.all(np.diff(model.risk_) < 1e-12)
assert model.gap_.max() < 1e-9
