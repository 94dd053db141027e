"""What the site's pictures share: one sample of losses, the seven utilities in its unit, colors."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np

import certeq as ce

INK, MUTED, GRID = "#22303c", "#7b8794", "#e3e8ed"
BLUE, RUST = "#1f5f8b", "#c8553d"
COLORS = ("#1f5f8b", "#3a8fb7", "#5aa469", "#a5a23a", "#c8553d", "#d98943", "#8d5a97")

# Losses are in per cent a day. Utilities that compare a loss with 1 are told which loss matters: `scaled`.
UTILITIES: dict[str, ce.Utility] = {
    "Entropic": ce.Entropic(beta=0.6),
    "Mean-variance": ce.MeanVariance(beta=0.3),
    "Monotone mean-variance": ce.MonotoneMeanVariance(a=2).scaled(2.0),
    "Quartic": ce.Quartic().scaled(3.0).normalized(),
    "CVaR": ce.CVaR(alpha=0.05),
    "Leaky CVaR": ce.LeakyCVaR(alpha=0.05).scaled(5.0).normalized(),
    "Smooth CVaR": ce.SmoothCVaR(alpha=0.05, tau=0.3),
}


def losses(n: int = 2000, seed: int = 4) -> np.ndarray:
    """Skewed, heavy-tailed losses in per cent: most days small, some days large."""
    rng = np.random.default_rng(seed)
    calm, storm = rng.normal(-0.06, 0.7, n), rng.normal(0.6, 2.0, n)
    return np.clip(np.where(rng.random(n) < 0.92, calm, storm), -4.5, 5.5)


def style() -> None:
    """Plain axes, readable on a phone."""
    mpl.rcParams.update(
        {
            "figure.facecolor": "white",
            "axes.facecolor": "white",
            "axes.edgecolor": MUTED,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": GRID,
            "xtick.color": MUTED,
            "ytick.color": MUTED,
            "font.size": 10.5,
            "font.family": "DejaVu Sans",
            "legend.frameon": False,
        }
    )
