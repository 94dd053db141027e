"""
Risk-averse, mean and robust regression with outliers
=====================================================

An outlier can be two things. It can be a *mistake*, which a good method should ignore; or a *rare case that matters*,
which a good method should not. The data cannot tell, you can. A risk-averse regression takes every large error
seriously, a robust one takes none; between them stands the mean. Choose before you look at the fit.
"""

# %%
# The output of a machine against the temperature: more when it is warmer; but now and then, when it is hot, it fails.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import HuberRegressor

import certeq as ce
from certeq.learn import OCERegressor

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#008a63", "#8a94a0"


def measurements(n, rng):
    """Return temperature and output; hot machines fail one time in eight."""
    x = rng.uniform(0.0, 10.0, n)
    fails = (x > 6.0) & (rng.random(n) < 0.125)
    return x[:, None], 2.0 + 0.5 * x + rng.normal(0.0, 0.6, n) - 4.0 * fails, fails


X, y, fails = measurements(300, np.random.default_rng(4))
X_new, y_new, _ = measurements(20_000, np.random.default_rng(5))

# %%
# Three linear models. The risk-averse one blends 70 % mean with 30 % CVaR: it minds the worst tenth of squared errors
# without forgetting the rest.
models = {
    "robust (Huber)": HuberRegressor().fit(X, y),
    "mean": OCERegressor(ce.Mean(), alpha=0.0).fit(X, y),
    "risk-averse": OCERegressor(0.7 * ce.Mean() + 0.3 * ce.CVaR(0.1), alpha=0.0).fit(X, y),
}
colors = (GREEN, GREY, BLUE)
errors = {name: (y_new - model.predict(X_new)) ** 2 for name, model in models.items()}

# %%
# Left: the three lines, and how much each measurement counts for the risk-averse one (area of the dots). Right: the
# mean and the worst tenth of squared errors on new measurements.
risk_averse = models["risk-averse"]
tilt = ce.tilt((y - risk_averse.predict(X)) ** 2, risk_averse.utility)
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), width_ratios=(1.5, 1), layout="constrained")
left.scatter(X[:, 0], y, s=3000 * tilt, color=np.where(fails, ORANGE, GREY), alpha=0.5, lw=0)
grid = np.array([[0.0], [10.0]])
for (name, model), color in zip(models.items(), colors, strict=True):
    left.plot(grid[:, 0], model.predict(grid), color=color, lw=3, label=name)
left.text(8.0, 0.2, "failures", color=ORANGE, fontweight="bold")
left.set(xlabel="temperature", ylabel="output")
left.set_title("Three lines through the same measurements", loc="left")
left.legend(frameon=False, loc="upper left")

positions = np.arange(len(models))
for shift, measure, shade in ((-0.19, ce.Mean(), 0.45), (0.19, ce.CVaR(0.1), 1.0)):
    heights = [ce.oce(losses, measure) for losses in errors.values()]
    right.bar(positions + shift, heights, 0.36, color=colors, alpha=shade)
    for position, height in zip(positions, heights, strict=True):
        right.text(position + shift, height + 0.15, f"{height:.2f}", ha="center", fontsize=9)
right.set_xticks(positions, ["robust", "mean", "risk-averse"])
right.set(ylabel="squared error on new measurements", yticks=[])
right.spines["left"].set_visible(False)
right.set_title("Mean (pale) and worst tenth (full)", loc="left")
plt.show()

# %%
# Here minding the failures lowers the worst tenth of errors by a tenth and raises the mean error by a third. The robust
# line does well on the machines that work, and worst where it hurts.
scores = {name: (ce.oce(losses, ce.Mean()), ce.oce(losses, ce.CVaR(0.1))) for name, losses in errors.items()}
print({name: (round(float(mean), 2), round(float(worst), 2)) for name, (mean, worst) in scores.items()})
assert scores["risk-averse"][1] < 0.92 * scores["mean"][1] < scores["mean"][1] < 0.9 * scores["robust (Huber)"][1]
assert 1.25 < scores["risk-averse"][0] / scores["mean"][0] < 1.4
