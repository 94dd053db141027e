"""
Predictive intervals of a network trained on entropic risk
==========================================================

A network that predicts a mean *and* a deviation is trained on the Gaussian negative log-likelihood. Trained on the mean
of those losses it can afford to be much too sure at a few points. An entropic risk of them charges for that, and the
bands that people draw come to hold what they promise.
"""

# %%
# The data of the paper's experiment: three clusters, noise that depends on x, 175 points to train on. ``draw``
# gives as many new ones as wanted, so that the bands can be judged on ten thousand points rather than on fifty.
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import certeq as ce
from certeq.learn import MVERegressor, calibration, toy_heteroscedastic

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"

data = toy_heteroscedastic()
X_new, y_new = data.draw(10_000, random_state=7)
models = {
    "mean": MVERegressor(ce.Mean(), epochs=120, random_state=0).fit(data.X_train, data.y_train),
    "entropic risk": MVERegressor(ce.Entropic(0.3), epochs=120, random_state=0).fit(data.X_train, data.y_train),
}

# %%
# Left and middle: two deviations on either side, and the training points. Right: what share of new points each
# central interval holds, less what it should hold; 0 is honest, below 0 is too sure.
grid = np.linspace(data.X_train.min() - 0.2, data.X_train.max() + 0.2, 300)[:, None]
levels = np.linspace(0.01, 0.99, 99)
figure, axes = plt.subplots(1, 3, figsize=(12.0, 4.2), layout="constrained")
axes[2].axhline(0.0, color="black", lw=1)
covered, tails = {}, {}
for (name, model), axis, color in zip(models.items(), axes[:2], (ORANGE, BLUE), strict=True):
    mean, std = model.predict(grid, return_std=True)
    axis.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, color=color, alpha=0.2, lw=0)
    axis.plot(grid[:, 0], mean, color=color, lw=2)
    axis.plot(data.X_train[:, 0], data.y_train, ".", color="#566270", ms=4)
    new_mean, new_std = model.predict(X_new, return_std=True)
    away = np.abs(y_new - new_mean) / new_std
    covered[name] = np.mean(away <= 2.0)
    axis.set(xlabel="x", ylim=(-2.8, 2.8))
    axis.set_title(f"{name}: the band holds {covered[name]:.1%}", loc="left")
    inside = np.mean(away[:, None] <= stats.norm.ppf(0.5 + 0.5 * levels), axis=0)
    axes[2].plot(100 * levels, 100 * (inside - levels), color=color, lw=2.5, label=name)
    losses = model.losses(X_new, y_new)
    tails[name] = ce.oce(losses, ce.CVaR(0.01))
    mace = calibration(y_new, new_mean, new_std).mace
    print(
        f"{name:>14}: band holds {covered[name]:.1%}, MACE {mace:.3f}, "
        f"mean loss {losses.mean():.2f}, worst 1 % {tails[name]:.2f}"
    )
axes[0].set_ylabel("y, and two deviations")
axes[2].axvline(95.4, color=GREY, lw=1, ls=":")
axes[2].text(94.5, 8.6, "two deviations", ha="right", fontsize=9, color="#566270")
axes[2].set(xlabel="central interval of ... %", ylabel="covered, less promised, points", ylim=(-6, 9.5))
axes[2].set_title("Too wide or too sure", loc="left")
axes[2].legend(frameon=False, loc="upper left")
plt.show()

# %%
# Two deviations should hold 95.4 % of a normal distribution. The price of honest outer bands is paid in the middle:
# intervals of about 50 % hold a few points too many, and the mean calibration error (MACE) is the larger for it. Choose
# by the band that will be acted on.
assert abs(covered["entropic risk"] - 0.954) < 0.015 < 0.954 - covered["mean"]
assert tails["entropic risk"] < 0.85 * tails["mean"]
