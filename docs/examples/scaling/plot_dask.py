"""
CVaR of a Dask array larger than memory
=======================================

Means can be averaged: the mean of twelve monthly means is the mean of the year. Risks cannot. The worst 5 % of a year
are not the worst 5 % of each month, they are mostly days in March and April. So a cluster cannot reduce chunk by chunk
and average; it has to agree on one threshold. ``ce.oce`` does that on a Dask array, with the same call and the same
answer as in memory, a chunk at a time.
"""

# %%
# A year of simulated losses, a chunk for each month, made where they are needed and never all at once. Calm months
# have a deviation near 1, two wild ones 2.5 and 4.
import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"

months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
scale = np.array([0.8, 1.0, 4.0, 2.5, 1.2, 0.9, 0.8, 0.7, 1.0, 1.1, 0.9, 0.8])
PATHS = 100_000


def simulate(month):
    """Draw the losses of one month."""
    rng = np.random.default_rng([2020, month])
    return scale[month] * rng.standard_t(5, size=PATHS)


losses = da.concatenate([da.from_delayed(dask.delayed(simulate)(k), (PATHS,), float) for k in range(12)])
print(losses)

# %%
# The call is the one for arrays. A scheduler with threads is used here; with a ``distributed.Client`` the same line
# runs on its workers.
risk = ce.CVaR(0.05)
with dask.config.set(scheduler="threads"):
    year = ce.estimate(losses, risk)
    monthly = np.array([ce.oce(losses.blocks[k], risk) for k in range(12)])
    tilt = ce.tilt(losses, risk)
    share = np.array([float(tilt.blocks[k].sum().compute()) for k in range(12)])
print(year)
print(f"mean of the twelve monthly CVaRs: {monthly.mean():.3f}")

# %%
# Left: what the months say, what their mean says, and the truth. Right: in which months the worst 5 % of the year lie,
# from the tilt, summed chunk by chunk.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), sharex=True, layout="constrained")
left.bar(months, monthly, color=GREY, alpha=0.6)
left.axhline(monthly.mean(), color=ORANGE, lw=2, ls="--")
left.text(11.4, monthly.mean() - 0.15, f"their mean {monthly.mean():.2f}", color=ORANGE, ha="right", va="top")
left.axhline(year.value, color=BLUE, lw=2)
left.text(
    11.4, year.value + 0.15, f"the year {year.value:.2f} ± {year.interval_reach(0.95):.2f}", color=BLUE, ha="right"
)
left.set(ylabel="CVaR of the worst 5 %")
left.set_title("Monthly risks do not average", loc="left")
right.bar(months, 100 * share, color=BLUE)
right.axhline(100 / 12, color=GREY, lw=1, ls="--")
right.text(11.4, 100 / 12 + 1, "even", color="#566270", ha="right", fontsize=9)
right.set(ylabel="share of the year's tail, %")
right.set_title("Where the worst 5 % of the year lie", loc="left")
for axis in (left, right):
    axis.tick_params(axis="x", labelrotation=45)
plt.show()

# %%
# The answer is that of the array in memory, to rounding, and the two wild months hold most of the tail.
in_memory = np.concatenate([simulate(k) for k in range(12)])
print(f"in memory {ce.oce(in_memory, risk):.12f}, on Dask {year.value:.12f}")
assert np.isclose(year.value, ce.oce(in_memory, risk), rtol=1e-12)
assert np.isclose(share.sum(), 1.0, rtol=1e-12)
assert share[2] > 0.4
assert share[2] + share[3] > 0.6
assert monthly.mean() < 0.8 * year.value
