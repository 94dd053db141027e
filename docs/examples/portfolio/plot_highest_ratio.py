"""
Portfolio with the highest ratio of return to CVaR
==================================================

Return over standard deviation is the Sharpe ratio. With a risk that looks at losses alone in the denominator the same
question has an answer for every risk, found exactly: of all portfolios, which earns most for each unit of tail risk?
"""

# %%
# ``MAXIMIZE_RATIO`` for CVaR and for EVaR, and the frontier of CVaR to see where the answer lies.
import matplotlib.pyplot as plt
import numpy as np
from skfolio.datasets import load_sp500_dataset
from skfolio.preprocessing import prices_to_returns

import certeq as ce
from certeq.portfolio import MinimumOCE

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#008a63", "#8a94a0"

X = prices_to_returns(load_sp500_dataset()).loc["2010":"2019"]
tail = ce.CVaR(0.05)
frontier = MinimumOCE(tail).efficient_frontier(X, n=20)
best = MinimumOCE(tail, objective_function="maximize_ratio").fit(X)
other = MinimumOCE(ce.EVaR(0.05), objective_function="maximize_ratio").fit(X)
print(f"{252 * best.objective_:.2f} of return a year for each unit of CVaR a day, gap {best.gap_:.0e}")

# %%
# The line from the origin touches the frontier there: no portfolio lies above it.
figure, axis = plt.subplots(figsize=(8.5, 5.0), layout="constrained")
x = np.array([0.0, 1.15 * 100 * best.risk_])
axis.plot(x, 252 * best.objective_ * x, color=GREY, lw=1.5, ls="--", label="highest ratio")
axis.plot(100 * frontier.risks, 25200 * frontier.expected_returns, color=BLUE, lw=3, label="CVaR frontier")
for model, color, name in ((best, ORANGE, "highest return/CVaR"), (other, GREEN, "highest return/EVaR")):
    lost = -(X.to_numpy() @ model.weights_)
    axis.plot(100 * ce.oce(lost, tail), -25200 * lost.mean(), "o", color=color, ms=10, label=name)
axis.set(xlabel="CVaR of the worst 5 % of days, %", ylabel="mean return, % a year", xlim=(0, 4), ylim=(0, None))
axis.set_title("The steepest line from the origin", loc="left")
axis.legend(frameon=False, loc="lower right")
plt.show()

# %%
# Nothing on the frontier has a higher ratio, and the other risk's answer is another portfolio.
assert np.all(frontier.expected_returns / frontier.risks <= best.objective_ * (1 + 1e-9))
assert best.gap_ < 1e-9 * best.objective_
lost = -(X.to_numpy() @ other.weights_)
assert -lost.mean() / ce.oce(lost, tail) < best.objective_
