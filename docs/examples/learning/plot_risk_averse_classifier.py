"""
Risk-averse logistic regression on a rare subgroup
==================================================

Most patients follow one rule, one in sixteen another. Logistic regression minimizes the *mean* cross-entropy: it serves
the many, and on the few it is often wrong and sure of it. Minimizing an entropic risk of the same cross-entropies
costs the many a little certainty and spares the few the worst.
"""

# %%
# Two features. What tells the many apart misleads about the few.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.linear_model import LogisticRegression

import certeq as ce
from certeq.learn import OCEClassifier

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"


def patients(n, rng):
    """Return features, labels, and who belongs to the few."""
    few = rng.random(n) < 1.0 / 16.0
    y = rng.integers(0, 2, n)
    side = np.where(few[:, None], [[0.4, 1.6]], [[1.0, -1.0]])
    return (2 * y[:, None] - 1) * side + np.where(few, 0.5, 0.6)[:, None] * rng.normal(size=(n, 2)), y, few


X, y, few = patients(1500, np.random.default_rng(0))
X_new, y_new, few_new = patients(20_000, np.random.default_rng(1))

# %%
# Two models of the same form. With ``utility=Mean()`` the first is scikit-learn's logistic regression.
models = {"mean": OCEClassifier(ce.Mean()).fit(X, y), "entropic risk": OCEClassifier(ce.Entropic(1.5)).fit(X, y)}
assert np.allclose(models["mean"].coef_, LogisticRegression(tol=1e-8).fit(X, y).coef_, atol=1e-3)


def cross_entropies(model, X, y):
    """Return minus the logarithm of the probability given to what happened."""
    return -np.log(model.predict_proba(X)[np.arange(len(y)), y])


held_out = {name: cross_entropies(model, X_new, y_new) for name, model in models.items()}

# %%
# The maps show the probability of orange; between the thin lines the model gives both labels at least 5 %. The few are
# drawn bold. On the right, what new patients lose, from the smallest loss to the largest.
figure, axes = plt.subplots(1, 3, figsize=(12.5, 4.4), width_ratios=(1, 1, 1.15), layout="constrained")
grid = np.stack(np.meshgrid(np.linspace(-3.2, 3.2, 120), np.linspace(-3.4, 3.4, 120)), axis=-1)
shades = LinearSegmentedColormap.from_list("labels", ["#a9cfe6", "white", "#f3c3a3"])
for axis, (name, model) in zip(axes, models.items(), strict=False):
    p = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(grid.shape[:2])
    axis.contourf(grid[..., 0], grid[..., 1], p, np.linspace(0.0, 1.0, 41), cmap=shades)
    axis.contour(grid[..., 0], grid[..., 1], p, [0.05, 0.5, 0.95], colors="black", linewidths=[0.7, 2.0, 0.7])
    for label, color, marker in ((0, BLUE, "o"), (1, ORANGE, "s")):
        here = y == label
        axis.plot(*X[here & ~few].T, marker, color=color, ms=3, alpha=0.3, mew=0)
        axis.plot(*X[here & few].T, marker, color=color, ms=5.5, mec="white", mew=0.6)
    axis.set(xlim=(-3.2, 3.2), ylim=(-3.4, 3.4), xlabel="first feature")
    axis.set_title(f"trained on the {name}", loc="left")
axes[0].set_ylabel("second feature")

share = 100 * (1.0 - (np.arange(len(y_new)) + 0.5) / len(y_new))
for (name, losses), color, style in zip(held_out.items(), (GREY, BLUE), ("--", "-"), strict=True):
    axes[2].plot(share, np.sort(losses), color=color, lw=2.5, ls=style, label=name)
axes[2].set(xscale="log", xlim=(100, 0.02), ylim=(0, 7.5), xlabel="the worst ... % of new patients")
axes[2].set(ylabel="cross-entropy", xticks=[100, 10, 1, 0.1], xticklabels=["100", "10", "1", "0.1"])
axes[2].minorticks_off()
axes[2].set_title("The price, and what it buys", loc="left")
axes[2].legend(frameon=False, loc="upper left")
plt.show()

# %%
# The boundary turns a little towards the few, and the doubt about it widens a lot.
worst = {}
for name, losses in held_out.items():
    wrong = models[name].predict(X_new) != y_new
    worst[name] = ce.oce(losses, ce.CVaR(0.05))
    print(
        f"{name:>14}: mean loss {losses.mean():.3f}, of the worst 5 % {worst[name]:.2f}; "
        f"wrong on {wrong[~few_new].mean():.1%} of the many and {wrong[few_new].mean():.1%} of the few"
    )
assert worst["entropic risk"] < 0.75 * worst["mean"]
assert held_out["mean"].mean() < held_out["entropic risk"].mean() < 1.5 * held_out["mean"].mean()
