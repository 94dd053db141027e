"""
OCE-SG and the exact solver: optimality gap by step
===================================================

OCE-SG, the paper's algorithm, takes a batch, tilts it, steps and projects. It needs nothing but samples, so it is what
one uses on streams and networks. On a linear loss over a simplex there is something better: an exact solver that
eliminates t and takes a handful of Newton steps. Both carry a *certificate*, a proved bound on how far they can be
from the best, so neither has to be believed.
"""

# %%
# A portfolio of 30 assets over 3000 days, in percent, under an entropic risk.
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREEN, PURPLE, BLACK = "#0072b2", "#d55e00", "#008a63", "#b35a8c", "#222222"

rng = np.random.default_rng(0)
factor = rng.standard_t(6, size=(3000, 1))
returns = 0.05 + factor * rng.uniform(0.3, 1.0, 30) + rng.standard_t(8, size=(3000, 30)) * rng.uniform(0.5, 1.5, 30)
loss, risk, weights = ce.LinearLoss(-returns), ce.Entropic(0.5), ce.Simplex()

exact = ce.minimize(loss, risk, domain=weights)
print(exact)

# %%
# OCE-SG four ways. On its own, with batches that grow, passes over all days now and then to correct them, and steps
# that need no constants; with steps and averages from the theory of convex problems; with a constant step; and on all
# days every time, which is no longer stochastic. Value and gap over all days are logged as it goes.
runs = {}
for name, options in {
    "m = k, as it is by default": {},
    "m = k, mean of the iterates": {"step": "theory"},
    "m = k, constant step": {"batch": "growing", "step": 0.3, "average": "last"},
    "all days, constant step": {"batch": "full", "step": 0.3, "average": "last"},
}.items():
    runs[name] = ce.minimize(loss, risk, domain=weights, method="sg", iterations=1000, log_every=4, rng=0, **options)
    print(f"{name:>28}: value {runs[name].value:.6f}, gap {runs[name].gap:.1e}")

# %%
# Lines are certificates, dots the true excess over the minimum, which only the exact solver makes known. The
# certificate is the larger, as it must be: near the optimum it falls like the distance, the excess like its square.
figure, axis = plt.subplots(figsize=(9.0, 5.0), layout="constrained")
for (name, run), color in zip(runs.items(), (BLACK, ORANGE, PURPLE, GREEN), strict=True):
    k, excess = run.trace.iteration, run.trace.value - exact.value
    axis.loglog(k, run.trace.gap, color=color, lw=2, label=f"OCE-SG, {name}")
    axis.loglog(k, np.where(excess > 1e-13, excess, np.nan), ".", color=color, ms=3, alpha=0.6)
    assert np.all(run.trace.gap >= excess - 1e-12)
axis.loglog(exact.trace.iteration, exact.trace.gap, "*--", color=BLUE, ms=14, lw=1, label="exact solver")
axis.annotate(
    f"{exact.iterations} Newton steps",
    (exact.trace.iteration[-1], exact.trace.gap[-1]),
    (4.5, exact.trace.gap[-1]),
    color=BLUE,
    va="center",
)
axis.set(xlabel="step", ylabel="certificate (line), true excess (dots)", ylim=(3e-17, 3), xlim=(0.9, 1100))
axis.set_title("How far from the best portfolio, at most", loc="left")
axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.22, 0.3))
plt.show()

# %%
# A stochastic method is not for digits: after 1000 steps those with a schedule are proved to be within 0.05 and 0.02
# percent a day of the best. With passes that correct the batches OCE-SG has six digits. The exact solver is there after
# a handful of steps; full batches after some hundreds.
assert exact.gap < 1e-12
assert exact.iterations <= 10
assert runs["all days, constant step"].gap < 1e-12
assert runs["m = k, as it is by default"].gap < 1e-5
assert round(runs["m = k, mean of the iterates"].gap, 2) == 0.05
assert round(runs["m = k, constant step"].gap, 2) == 0.02
