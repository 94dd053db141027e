"""The picture of the front page and of the README: the worst days that were held out, and the price of better ones.

``python docs/figures/hero.py`` writes docs/_static/hero.png and, for phones, hero-tall.png. The numbers are those of
the gallery's walk-forward (plot_walk_forward.py); a test compares them with the README.
"""

from __future__ import annotations

from pathlib import Path

import look
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

STATIC = Path(__file__).resolve().parents[1] / "_static"
NAMES = ("Equal weights", "Least CVaR (certeq)")
COLORS = (look.MUTED, "#0072b2")


def walked() -> tuple[np.ndarray, ...]:
    """Held-out daily returns, 2007 to 2022: fitted on two years, held for half a year."""
    from skfolio.datasets import load_sp500_dataset
    from skfolio.model_selection import WalkForward, cross_val_predict
    from skfolio.optimization import EqualWeighted
    from skfolio.preprocessing import prices_to_returns

    from certeq.portfolio import MinimumOCE

    X = prices_to_returns(load_sp500_dataset()).loc["2005":]
    walk = WalkForward(train_size=504, test_size=126)
    models = (EqualWeighted(), MinimumOCE(ce.CVaR(0.05)))
    return tuple(np.asarray(cross_val_predict(model, X, cv=walk).returns) for model in models)


def facts(returns: np.ndarray) -> dict[str, float]:
    """CVaR a day, deepest drawdown and mean return a year, in per cent; wealth at the end of 1 at the beginning."""
    wealth = np.cumprod(1.0 + returns)
    return {
        "cvar": 100 * ce.oce(-returns, ce.CVaR(0.05)),
        "drawdown": -100 * (wealth / np.maximum.accumulate(wealth) - 1.0).min(),
        "return": 100 * 252 * returns.mean(),
        "wealth": wealth[-1],
    }


def worst_days(axis: plt.Axes, both: tuple[np.ndarray, ...]) -> None:
    """The losses of the worst 5 % of days, from the worst on, with their means: the CVaR."""
    for returns, name, color in zip(both, NAMES, COLORS, strict=True):
        losses = -100 * np.sort(returns)[: int(0.05 * returns.size)]
        days = np.arange(1, losses.size + 1)
        axis.plot(days, losses, color=color, lw=2.4)
        mean = facts(returns)["cvar"]
        axis.axhline(mean, color=color, lw=1.2, ls="--")
        axis.text(losses.size, mean + 0.15, f"{name}: mean {mean:.2f} %", color=color, ha="right", fontsize=10.5)
    axis.set_xlim(1, losses.size)
    axis.set_ylim(0, 11)
    axis.set_xlabel("worst 5 % of held-out days, ranked from the worst")
    axis.set_ylabel("loss of the day, %")
    axis.set_title("Held-out worst days, 2007 to 2022", loc="left", fontsize=11.5)


def price(axis: plt.Axes, both: tuple[np.ndarray, ...]) -> None:
    """Deepest drawdown and return, the price, side by side."""
    labels = ("CVaR 95 %\na day", "deepest\ndrawdown", "return\na year")
    first, second = (facts(returns) for returns in both)
    for group, key in enumerate(("cvar", "drawdown", "return")):
        most = max(first[key], second[key])
        for i, (found, color) in enumerate(zip((first, second), COLORS, strict=True)):
            x = group + (i - 0.5) * 0.36
            axis.bar(x, found[key] / most, width=0.34, color=color)
            number = f"{found[key]:.2f} %" if key == "cvar" else f"{found[key]:.1f} %"
            axis.text(x, found[key] / most + 0.02, number, ha="center", color=look.INK, fontsize=10)
    axis.set_xticks(range(3), labels, color=look.INK)
    axis.set_yticks([])
    axis.set_ylim(0, 1.15)
    axis.grid(visible=False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="x", length=0)
    axis.set_title("What it buys, and its price", loc="left", fontsize=11.5)


def draw(both: tuple[np.ndarray, ...] | None = None, *, tall: bool = False) -> plt.Figure:
    """Both halves, side by side or, for a phone, one above the other."""
    both = walked() if both is None else both
    look.style()
    if tall:
        figure, (left, right) = plt.subplots(2, 1, figsize=(6.2, 7.4), layout="constrained")
    else:
        figure, (left, right) = plt.subplots(1, 2, figsize=(12.5, 4.3), width_ratios=(1.25, 1), layout="constrained")
    worst_days(left, both)
    price(right, both)
    return figure


if __name__ == "__main__":
    held_out = walked()
    for found in map(facts, held_out):
        print({name: round(float(value), 3) for name, value in found.items()})
    draw(held_out).savefig(STATIC / "hero.png", dpi=110)
    draw(held_out, tall=True).savefig(STATIC / "hero-tall.png", dpi=110)
