"""The picture of the front page and of the README.

``python docs/figures/hero.py`` writes docs/_static/hero.png and, for phones, hero-tall.png.
"""

from __future__ import annotations

from pathlib import Path

import look
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

STATIC = Path(__file__).resolve().parents[1] / "_static"


def weigh(axis: plt.Axes, x: np.ndarray) -> None:
    """The histogram of losses, and how much each loss weighs in three risks."""
    axis.hist(x, bins=90, color=look.GRID, edgecolor="white", lw=0.3)
    axis.set_yticks([])
    axis.set_xlim(-4, 5.6)
    axis.set_ylim(0, 1.45 * axis.get_ylim()[1])  # for the legend
    axis.grid(visible=False)
    axis.spines["left"].set_visible(False)
    axis.set_xlabel("loss, per cent a day")
    axis.set_title("What a risk is: the same losses, weighed by how much they are feared", loc="left", fontsize=11)
    weight = axis.twinx()
    weight.spines[["left", "right"]].set_visible(False)
    weight.set_yticks([])
    weight.grid(visible=False)
    order = np.argsort(x)
    for name, index in (("Entropic", 0), ("CVaR", 4), ("Smooth CVaR", 6)):
        tilt = ce.tilt(x, look.UTILITIES[name])[order] * x.size
        weight.plot(x[order], tilt, color=look.COLORS[index], lw=2.2, label=name)
    weight.set_ylim(0, 26)
    weight.axhline(1.0, color=look.MUTED, lw=1.0, ls=":", label="mean: every loss the same")
    weight.legend(loc="upper left", bbox_to_anchor=(0.0, 0.98), fontsize=10)


def measure(axis: plt.Axes, x: np.ndarray) -> None:
    """Every risk of that sample with its 95 % interval."""
    entries = {"Mean": ce.Mean(), **look.UTILITIES}
    colors = (look.MUTED, *look.COLORS)
    for row, (utility, color) in enumerate(zip(entries.values(), colors, strict=True)):
        found = ce.estimate(x, utility)
        low, high = found.interval(0.95)
        axis.plot([low, high], [row, row], color=color, lw=7, alpha=0.35, solid_capstyle="round")
        axis.plot(found.value, row, "o", color=color, ms=7)
        axis.text(high + 0.09, row, f"{found.value:.2f}", va="center", color=look.INK, fontsize=9.5)
    axis.set_yticks(range(len(entries)), entries, color=look.INK)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(-0.2, 4.3)
    axis.set_xlabel("risk, per cent a day, with its 95 % interval")
    axis.set_title("One line each: ce.estimate(losses, utility)", loc="left", fontsize=11)


def draw(*, tall: bool = False) -> plt.Figure:
    """Both halves, side by side or, for a phone, one above the other."""
    look.style()
    x = look.losses()
    if tall:
        figure, (left, right) = plt.subplots(2, 1, figsize=(6.2, 7.4), layout="constrained")
    else:
        figure, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.3), width_ratios=(1.25, 1), layout="constrained")
    weigh(left, x)
    measure(right, x)
    if tall:
        left.set_title("The same losses, weighed by fear", loc="left", fontsize=11)
    return figure


if __name__ == "__main__":
    draw().savefig(STATIC / "hero.png", dpi=110)
    draw(tall=True).savefig(STATIC / "hero-tall.png", dpi=110)
