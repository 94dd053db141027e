"""
Predictive intervals of a network, trained with skorch
======================================================

A network that predicts a mean *and* a standard deviation is trained on the Gaussian negative log-likelihood. Trained on
the mean of those losses, it can be much too sure at a few points. An entropic risk of the losses penalizes that and
widens the bands. skorch trains the networks; its criterion is `certeq.torch.OCELoss`.
"""

# %%
# Three clusters with noise that depends on x: 175 points to train on, and 10,000 to judge the bands.
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy import stats
from skorch import NeuralNetRegressor

import certeq as ce
from certeq.torch import OCELoss

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"


def points(n, rng):
    """Return standardized inputs (n, 1) and targets (n,)."""
    x = rng.choice([-4.0, 0.0, 4.0], n) + 0.5 * rng.normal(size=n)
    y = 7.0 * np.sin(x) + 3.0 * np.abs(np.cos(x / 2.0)) * rng.normal(size=n)
    return (x[:, None] / 3.3).astype(np.float32), (y / 4.4).astype(np.float32)


def likelihood(output, y):
    """Return one negative log-likelihood per sample; the network predicts the mean and the log-variance."""
    mean, log_variance = output.unbind(dim=1)
    return 0.5 * (log_variance + torch.square(y - mean) * torch.exp(-log_variance))


def trained(risk):
    """Return a network trained on the risk of its losses."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(1, 50), torch.nn.Tanh(), torch.nn.Linear(50, 50), torch.nn.Tanh(), torch.nn.Linear(50, 2)
    )
    net = NeuralNetRegressor(
        layers,
        criterion=OCELoss(risk, base=likelihood),
        optimizer=torch.optim.Adam,
        lr=3e-3,
        max_epochs=100,
        batch_size=100,
        train_split=None,
        verbose=0,
    )
    return net.fit(X, y)


def predicted(net, X):
    """Return means and standard deviations."""
    output = net.predict(X).astype(float)
    return output[:, 0], np.exp(0.5 * output[:, 1])


X, y = points(175, np.random.default_rng(0))
X_new, y_new = points(10_000, np.random.default_rng(1))
models = {"mean": trained(ce.Mean()), "entropic risk": trained(ce.Entropic(0.3))}

# %%
# Left and middle: the mean, two standard deviations on either side, and the training points. Right: coverage of each
# central interval on new points minus its nominal level; below 0 the network is too sure.
grid = np.linspace(X.min() - 0.2, X.max() + 0.2, 300, dtype=np.float32)[:, None]
levels = np.linspace(0.01, 0.99, 99)
figure, axes = plt.subplots(1, 3, figsize=(12.0, 4.2), layout="constrained")
axes[2].axhline(0.0, color="black", lw=1)
covered, tails = {}, {}
for (name, net), axis, color in zip(models.items(), axes[:2], (ORANGE, BLUE), strict=True):
    mean, deviation = predicted(net, grid)
    axis.fill_between(grid[:, 0], mean - 2 * deviation, mean + 2 * deviation, color=color, alpha=0.2, lw=0)
    axis.plot(grid[:, 0], mean, color=color, lw=2)
    axis.plot(X[:, 0], y, ".", color="#566270", ms=4)
    mean, deviation = predicted(net, X_new)
    distance = np.abs(y_new - mean) / deviation
    covered[name] = np.mean(distance <= 2.0)
    axis.set(xlabel="x", ylim=(-2.8, 2.8))
    axis.set_title(f"{name}: the band covers {covered[name]:.1%}", loc="left")
    coverage = np.mean(distance[:, None] <= stats.norm.ppf(0.5 + 0.5 * levels), axis=0)
    axes[2].plot(100 * levels, 100 * (coverage - levels), color=color, lw=2.5, label=name)
    losses = np.log(deviation) + 0.5 * np.square(distance)
    tails[name] = ce.oce(losses, ce.CVaR(0.01))
    print(f"{name:>14}: band covers {covered[name]:.1%}, mean loss {losses.mean():.2f}, worst 1% {tails[name]:.2f}")
axes[0].set_ylabel("y, and two standard deviations")
axes[2].axvline(95.4, color=GREY, lw=1, ls=":")
axes[2].set(xlabel="central interval, %", ylabel="coverage minus level, points", ylim=(-5, 11))
axes[2].set_title("Calibration on new points", loc="left")
axes[2].legend(frameon=False, loc="lower center")
plt.show()

# %%
# Two standard deviations should cover 95.4% of a normal distribution. The entropic risk lowers the worst losses on new
# points by a quarter; in exchange, intervals of about 50% cover ten points too much. A larger beta widens the bands
# more, so choose beta on held-out data.
assert tails["entropic risk"] < 0.85 * tails["mean"]
assert 0.9 < covered["mean"] < covered["entropic risk"] < 0.99
