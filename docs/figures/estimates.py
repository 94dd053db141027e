"""CVaR of samples of growing size with confidence intervals, beside the value on many new losses."""

from __future__ import annotations

import look
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

look.style()
rng = np.random.default_rng(3)
cvar = ce.CVaR(alpha=0.05)
sizes = (200, 500, 1000, 2000, 5000, 10_000)
figure, axis = plt.subplots(figsize=(7.6, 3.8), layout="constrained")
axis.axhline(ce.oce(rng.standard_t(5, size=100_000), cvar), color=look.INK, lw=1.2, ls="--", label="100,000 new losses")
for row, size in enumerate(sizes):
    for shift in (-0.22, 0.0, 0.22):
        found = ce.estimate(rng.standard_t(5, size=size), cvar)
        axis.plot([row + shift] * 2, found.interval(0.95), color=look.BLUE, lw=4, alpha=0.35, solid_capstyle="round")
        axis.plot(row + shift, found.value, "o", color=look.BLUE, ms=6)
axis.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
axis.set(xlabel="losses in the sample (three samples of each size)", ylabel="CVaR(0.05)", ylim=(0, None))
axis.legend(loc="upper right")
