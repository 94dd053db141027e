"""The seven utilities side by side: u, its slope, and the weight it gives each loss of one and the same sample."""

from __future__ import annotations

import look
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

look.style()
x = look.losses()
grid = np.linspace(-3.0, 4.0, 701)
rows = len(look.UTILITIES)
figure, axes = plt.subplots(rows, 3, figsize=(9.5, 1.75 * rows), sharex="col", layout="constrained")
for line, (name, utility), color in zip(axes, look.UTILITIES.items(), look.COLORS, strict=True):
    value, slope, weight = line
    value.plot(grid, grid, color=look.MUTED, lw=0.9, ls=":")
    value.plot(grid, utility.value(grid), color=color, lw=2)
    value.set_ylim(-3, 9)
    value.set_ylabel(name.replace(" mean", "\nmean").replace(" CVaR", "\nCVaR"), fontweight="bold")
    slope.axhline(1.0, color=look.MUTED, lw=0.9, ls=":")
    slope.plot(grid, utility.slope(grid), color=color, lw=2)
    slope.set_ylim(-1.5, 21)
    tilt, t = ce.tilt(x, utility), ce.threshold(x, utility)
    weight.axhline(1.0, color=look.MUTED, lw=0.9, ls=":")
    weight.axvline(t, color=look.INK, lw=0.9, ls="--")
    order = np.argsort(x)
    weight.fill_between(x[order], np.maximum(tilt[order] * x.size, 0), color=color, alpha=0.25, lw=0)
    weight.plot(x[order], tilt[order] * x.size, color=color, lw=1.6)
    weight.set_ylim(-1.5, 21)
    weight.text(
        0.03, 0.9, f"t* = {t:.2f}\nOCE = {ce.oce(x, utility):.2f}", transform=weight.transAxes, va="top", color=look.INK
    )
for axis, title in zip(axes[0], ("utility u(x)", "slope u'(x)", "weight of a loss, in units of 1/n"), strict=True):
    axis.set_title(title, fontsize=10.5)
for axis, label in zip(axes[-1], ("x = loss − t", "x = loss − t", "loss, per cent"), strict=True):
    axis.set_xlabel(label)
