"""
Coverage of confidence intervals, independent losses
====================================================

``ce.estimate`` gives an interval with every risk. A 95 % interval should miss the truth one time in twenty; this page
draws independent losses from an exponential distribution, where the truth is known, many times and counts. The answer
depends on what risk means: the more the tail counts, the more samples it takes, and for some utilities no number that
you have is enough. The library says so in ``warnings``. For time series see :doc:`/gallery/estimation/plot_dependence`.
"""

# %%
# One sample, its estimate, and the true value: for losses with an Exp(1) distribution, CVaR is 1 - ln(alpha).
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
# Its interval is not the textbook's value -+ 1.96 standard errors: it starts from the bias-corrected value, takes a t
# quantile, and reaches further up than down, as the losses do. Sixty of them:
rows = rng.exponential(size=(60, 500))
found = [ce.estimate(row, cvar) for row in rows]
with warnings.catch_warnings(action="ignore", category=ce.ReliabilityWarning):
    intervals = [one.interval() for one in found]


# %%
# How often they cover, in 200 samples of each size; and, for comparison, the textbook's interval, whose thousand
# samples are done at once: a row each. (Small samples of a steep utility raise warnings, as they should; here they are
# what is studied.)
def textbook(rows, u):
    """Return value and standard error of each row."""
    t = ce.threshold(rows, u, axis=1)
    return ce.oce(rows, u, axis=1), u.value(rows - t[:, None]).std(axis=1, ddof=1) / np.sqrt(rows.shape[1])


assert np.isclose(textbook(rows, cvar)[1][0], found[0].stderr, rtol=1e-9)

sizes = np.array([50, 100, 200, 500, 1000, 2000])
coverage, plain = {name: [] for name in truths}, {name: [] for name in truths}
with warnings.catch_warnings(action="ignore", category=ce.ReliabilityWarning):
    for n in sizes:
        many = rng.exponential(size=(1000, n))
        for name, (u, truth, _) in truths.items():
            value, error = textbook(many, u)
            plain[name].append(np.mean(np.abs(value - truth) <= 1.96 * error))
            ends = [ce.estimate(row, u).interval() for row in many[:200]]
            coverage[name].append(np.mean([low <= truth <= high for low, high in ends]))

# %%
# Left, sixty intervals from sixty samples of 500: those in orange miss. Right, how often an interval covers.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), width_ratios=(1, 1.25), layout="constrained")
truth = truths["CVaR, worst 5 %"][1]
missed = 0
for row, (one, (low, high)) in enumerate(zip(found, intervals, strict=True)):
    miss = not low <= truth <= high
    missed += miss
    left.plot([low, high], [row, row], color=ORANGE if miss else BLUE, lw=1.6, alpha=0.8)
    left.plot(one.value, row, "o", color=ORANGE if miss else BLUE, ms=3)
left.plot([truth, truth], [-1, 60], color="black", lw=1)
left.text(truth, 61.5, f"truth {truth:.3f}", ha="center", fontsize=9)
left.set(xlabel="CVaR of the worst 5 %", ylabel="sample", yticks=[], ylim=(-1, 65))
left.spines["left"].set_visible(False)
left.set_title(f"{missed} of 60 intervals miss", loc="left")

right.axhline(0.95, color="black", lw=1)
right.text(50, 0.957, "nominal 95 %", fontsize=9)
for name, (_, _, color) in truths.items():
    right.plot(sizes, coverage[name], "o-", color=color, lw=2, label=name)
    right.plot(sizes, plain[name], ":", color=color, lw=1.6)
right.plot([], [], ":", color=GREY, lw=1.6, label="textbook interval")
right.set(xscale="log", xticks=sizes, xticklabels=sizes, xlabel="samples", ylabel="share that covers", ylim=(0.2, 1.02))
right.minorticks_off()
right.set_title("Coverage of nominal 95 % intervals", loc="left")
right.legend(loc="lower right", frameon=False)
plt.show()

# %%
# The intervals of CVaR keep their promise from fifty samples on, where the textbook's are far too short. The quartic
# utility is still off: u(X - t*) has such a heavy tail that its own deviation is badly estimated. A single sample shows
# the symptom, and the estimate carries the warning; what no sample can show, it says in ``assumptions``:
print({name: [round(float(share), 3) for share in shares] for name, shares in coverage.items()})
print("textbook", {name: [round(float(share), 3) for share in shares] for name, shares in plain.items()})
result = ce.estimate(rng.exponential(size=200), ce.Quartic())
for warning in result.warnings:
    print("warning:", warning)
print("assumptions:", result.assumptions)
assert all(coverage[name][-1] > 0.9 for name in ("CVaR, worst 5 %", "Entropic, β = 0.25"))
assert coverage["CVaR, worst 5 %"][1] > plain["CVaR, worst 5 %"][1] + 0.05
