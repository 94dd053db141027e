"""Held-out costs of a risk-neutral and a risk-averse order, and how fast three methods find a minimum."""

from __future__ import annotations

import look
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

rng = np.random.default_rng(0)


def costs(n: int) -> np.ndarray:
    """Costs of a unit from each of six suppliers, as in docs/guide/minimization.rst."""
    late = rng.random((n, 6)) < [0.10, 0.08, 0.06, 0.04, 0.02, 0.01]
    price = [10.0, 10.5, 11.0, 11.5, 12.0, 12.5]
    extra = np.where(late, rng.exponential(20.0, size=(n, 6)), 0.0)
    return price + rng.normal(size=(n, 6)) + extra


def held_out(axis: plt.Axes, seen: np.ndarray, unseen: np.ndarray) -> None:
    """Costs of new scenarios from the cheapest to the dearest."""
    for utility, name, color in ((ce.Mean(), "least mean", look.MUTED), (ce.CVaR(0.05), "least CVaR", "#0072b2")):
        paid = unseen @ ce.minimize(ce.LinearLoss(seen), utility, domain=ce.Simplex()).theta
        share = 100 * (1.0 - (np.arange(paid.size) + 0.5) / paid.size)
        label = f"{name}: mean {paid.mean():.1f}, worst 5 % {ce.oce(paid, ce.CVaR(0.05)):.1f}"
        axis.plot(share, np.sort(paid), color=color, lw=2.4, label=label)
    axis.set(xscale="log", xlim=(100, 0.1), ylim=(0, 100), xlabel="dearest ... % of new scenarios", ylabel="cost")
    axis.set_xticks([100, 10, 5, 1, 0.1], ["100", "10", "5", "1", "0.1"])
    axis.minorticks_off()
    axis.legend(loc="upper left")
    axis.set_title("Held-out costs", loc="left", fontsize=11.5)


def ways(axis: plt.Axes, seen: np.ndarray) -> None:
    """What is left to the minimum along the way; the problem is smooth, so that all three can solve it."""
    loss, utility, box = ce.LinearLoss(seen - seen.mean()), ce.Entropic(0.2), ce.Box(-1.0, 1.0)
    runs = {
        "exact solver": ("exact", {}, look.BLUE),
        "L-BFGS": ("lbfgs", {"tol": 1e-12}, look.RUST),
        "OCE-SG, batches of 256": ("sg", {"iterations": 3000, "rng": 0, "batch": 256, "log_every": 100}, look.MUTED),
    }
    best = ce.minimize(loss, utility, domain=box, method="exact", tol=1e-15).value
    for name, (method, options, color) in runs.items():
        trace = ce.minimize(loss, utility, domain=box, method=method, **options).trace
        left = np.maximum((np.asarray(trace.value) - best) / abs(best), 1e-16)
        axis.loglog(1e3 * np.asarray(trace.seconds), left, marker="o", ms=3.5, color=color, lw=1.8, label=name)
    axis.set(xlabel="time, ms", ylabel="above the minimum, relative", ylim=(1e-17, 10))
    axis.legend(loc="upper right")
    axis.set_title("Three methods, one problem", loc="left", fontsize=11.5)


look.style()
figure, (first, second) = plt.subplots(1, 2, figsize=(11.0, 4.2), layout="constrained")
scenarios = costs(1000)
held_out(first, scenarios, costs(100_000))
ways(second, scenarios)
