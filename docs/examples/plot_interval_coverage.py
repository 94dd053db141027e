"""
Does the interval cover?
========================

``ce.estimate`` gives an interval with every risk. A 95 % interval should miss the truth one time in twenty; this page
draws losses from an exponential law, where the truth is known, a thousand times and counts. The answer depends on
what risk means: the more the tail counts, the more samples it takes, and for some utilities no number that you have
is enough. The library says so in ``warnings``.
"""

# %%
# One sample, its estimate, and the true value: for losses with an Exp(1) law, CVaR is 1 - ln(alpha).
import warnings

import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#d55e00", "#008a63", "#b35a8c", "#8a94a0"

rng = np.random.default_rng(0)
cvar = ce.CVaR(0.05)
print(ce.estimate(rng.exponential(size=500), cvar))
truths = {
    "CVaR, worst 5 %": (cvar, 1.0 - np.log(0.05), BLUE),
    "Entropic, β = 0.25": (ce.Entropic(0.25), -np.log(0.75) / 0.25, GREEN),
    "Quartic": (ce.Quartic(), 1.0 + np.log(24.0), PURPLE),
}


# %%
# To repeat this many times, do all samples at once: a row each. The standard error is the deviation of
# u(X - t*) over the root of n, which is what ``estimate`` reports.
def rows_with_error(rows, u):
    """Return value and standard error of each row."""
    t = ce.threshold(rows, u, axis=1)
    return ce.oce(rows, u, axis=1), u.value(rows - t[:, None]).std(axis=1, ddof=1) / np.sqrt(rows.shape[1])


rows = rng.exponential(size=(60, 500))
values, errors = rows_with_error(rows, cvar)
assert np.isclose(errors[0], ce.estimate(rows[0], cvar).stderr, rtol=1e-9)

sizes = np.array([50, 100, 200, 500, 1000, 2000])
coverage = {name: [] for name in truths}
for n in sizes:
    many = rng.exponential(size=(1000, n))
    for name, (u, truth, _) in truths.items():
        value, error = rows_with_error(many, u)
        coverage[name].append(np.mean(np.abs(value - truth) <= 1.96 * error))

# %%
# Would the bootstrap do better? It costs more, so there are fewer repetitions here. (Small samples raise warnings, as
# they should; here they are what is studied.)
boot_sizes, boot = sizes[:3], []
for n in boot_sizes:
    hits = 0
    for seed in range(150):
        result = ce.estimate(rng.exponential(size=n), cvar)
        with warnings.catch_warnings(action="ignore", category=ce.ReliabilityWarning):
            low, high = result.interval(0.95, method="bootstrap", replicates=199, rng=seed)
        hits += low <= truths["CVaR, worst 5 %"][1] <= high
    boot.append(hits / 150)

# %%
# Left, sixty intervals from sixty samples of 500: those in orange miss. Right, how often an interval covers.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), width_ratios=(1, 1.25), layout="constrained")
truth = truths["CVaR, worst 5 %"][1]
missed = np.abs(values - truth) > 1.96 * errors
for place, (value, error, miss) in enumerate(zip(values, errors, missed, strict=True)):
    color = ORANGE if miss else BLUE
    left.plot([value - 1.96 * error, value + 1.96 * error], [place, place], color=color, lw=1.6, alpha=0.8)
    left.plot(value, place, "o", color=color, ms=3)
left.plot([truth, truth], [-1, 60], color="black", lw=1)
left.text(truth, 61.5, f"truth {truth:.3f}", ha="center", fontsize=9)
left.set(xlabel="CVaR of the worst 5 %", ylabel="sample", yticks=[], ylim=(-1, 65))
left.spines["left"].set_visible(False)
left.set_title(f"{missed.sum()} of 60 intervals miss", loc="left")

right.axhline(0.95, color="black", lw=1)
right.text(50, 0.957, "nominal 95 %", fontsize=9)
for name, (_, _, color) in truths.items():
    right.plot(sizes, coverage[name], "o-", color=color, lw=2, label=name)
right.plot(boot_sizes, boot, "o:", color=BLUE, lw=2, mfc="white", label="CVaR, bootstrap")
right.set(xscale="log", xticks=sizes, xticklabels=sizes, xlabel="samples", ylabel="share that covers", ylim=(0.2, 1.0))
right.minorticks_off()
right.set_title("Coverage of nominal 95 % intervals", loc="left")
right.legend(loc="lower right", frameon=False)
plt.show()

# %%
# With 2000 samples the intervals of CVaR and of the entropic risk keep their promise within two points. With 100, five
# of which lie in the tail, those of CVaR are too short, and the bootstrap does not help: it draws from the same five.
# The quartic utility is still far off: u(X - t*) has such a heavy tail that its own deviation is badly estimated. A
# single sample shows the symptom, and the estimate carries the warning:
print({name: [round(float(share), 3) for share in shares] for name, shares in coverage.items()})
print("bootstrap", [round(float(share), 3) for share in boot])
for warning in ce.estimate(rng.exponential(size=500), ce.Quartic()).warnings:
    print("warning:", warning)
assert all(coverage[name][-1] > 0.93 for name in ("CVaR, worst 5 %", "Entropic, β = 0.25"))
assert coverage["Quartic"][-1] < 0.8
