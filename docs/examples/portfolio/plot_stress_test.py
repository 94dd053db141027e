"""
Stress test: the days that drive a portfolio's risk
===================================================

A risk number hides where it comes from. The tilt does not: it is a probability for every day of history, large where
the day would hurt this portfolio. That is a stress test that nobody had to invent: the risk *is* the mean loss on the
tilted days (less what the dual charges for tilting, which for CVaR is nothing).
"""

# %%
# Two portfolios over 33 years: that of least entropic risk, and equal weights.
import matplotlib.pyplot as plt
import numpy as np
from skfolio.datasets import load_sp500_dataset
from skfolio.preprocessing import prices_to_returns

import certeq as ce
from certeq.portfolio import MinimumOCE

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"

X = prices_to_returns(load_sp500_dataset())
entropic = ce.Entropic(beta=60.0)
model = MinimumOCE(entropic).fit(X)
portfolios = {"equal weights": np.full(X.shape[1], 1.0 / X.shape[1]), "least entropic risk": model.weights_}
tilts = {name: ce.tilt(-X.to_numpy() @ weights, entropic) for name, weights in portfolios.items()}
assert np.allclose(tilts["least entropic risk"], model.tilt_, rtol=1e-6)

# %%
# Every dot is a day; its area is the tilt. Most days weigh next to nothing, and a few carry the risk.
figure, axes = plt.subplots(2, 1, figsize=(10.0, 6.4), sharex=True, sharey=True, layout="constrained")
for axis, (name, weights), color in zip(axes, portfolios.items(), (ORANGE, BLUE), strict=True):
    losses, tilt = -100 * (X.to_numpy() @ weights), tilts[name]
    effective = 1.0 / np.sum(tilt**2)
    axis.scatter(X.index, losses, s=3e4 * tilt, color=color, alpha=0.35, lw=0)
    axis.plot(X.index, losses, ",", color=GREY)
    for crisis in ("1990", "1998", "2002", "2008", "2011", "2020"):
        year = np.flatnonzero(X.index.year == int(crisis))
        day = year[np.argmax(tilt[year])]
        words = f"{X.index[day]:%d %b %Y}\n× {len(tilt) * tilt[day]:.0f}"
        high = 11 + 77 * tilt[day] ** 0.5  # clear of the bubble
        at = X.index[day], losses[day]
        axis.annotate(words, at, (0, high), textcoords="offset points", fontsize=8.5, ha="center")
    axis.set(ylabel="loss of the day, %", ylim=(-9, 17))
    risk = 100 * ce.oce(losses / 100, entropic)
    axis.set_title(f"{name}: entropic risk {risk:.2f} %, carried by {effective:.0f} of {len(X)} days", loc="left")
plt.show()

# %%
# The numbers with a cross say how many ordinary days that day counts for. Equal weights live or die with March 2020:
# its worst day alone has 5 % of the weight. The portfolio that minimizes this risk has spread it over many more
# days, and what remains of 1998 and 2008 is about as bad as 2020. Ask it what it would lose if the worst came true:
for name, weights in portfolios.items():
    losses = -100 * (X.to_numpy() @ weights)
    print(f"{name:>20}: mean loss {losses.mean():.3f} %, under its tilt {tilts[name] @ losses:.3f} %")
even, least = (1.0 / np.sum(tilts[name] ** 2) for name in portfolios)
assert least > 5.0 * even
assert 0.05 < tilts["equal weights"].max() < 0.06
