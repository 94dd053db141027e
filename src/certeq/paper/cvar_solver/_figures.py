"""The figures of the experiment: the value above the optimum, and who holds what."""

from __future__ import annotations

import numpy as np

from certeq.paper._experiment import Figure, Panel, Series
from certeq.paper._fits import LOG_EVERY, ROWS
from certeq.paper._portfolio_figures import largest_assets, stacks
from certeq.paper.cvar_solver._claims import CLOSE, Market


def values_figure(markets: list[Market]) -> Figure:
    """How far CVaR is above the exact one, step by step."""
    curves, ends, longest = [], [], 0
    for market in markets:
        fit = market.ours["cvar"]
        away = np.maximum(np.asarray(fit["values"]) - market.exact["value"], 1e-12)
        curves.append(Series(market.name, fit["steps"], away.tolist()))
        ends.append(f"{market.name} {away[-1]:.0e}")
        longest = max(longest, fit["steps"][-1])
    curves.append(Series("1e-4", [LOG_EVERY, longest], [CLOSE, CLOSE], "dashed"))
    return Figure(
        "value",
        "CVaR of OCE-SG above the exact CVaR, training days",
        f"The excess falls below 1e-4 and ends at {', '.join(ends)}.",
        (Panel(tuple(curves), "", "Step", "CVaR above the optimum", log_x=True, log_y=True),),
    )


def composition_figure(market: Market) -> Figure:
    """The solver's weights beside ours, and the distance between them along the steps."""
    exact = np.asarray(market.exact["weights"])
    bars = {"solver": market.solver or market.exact, **market.ours}
    names = largest_assets(market.panel, [bars[row]["weights"] for row in ("solver", "cvar")])
    lines = [
        Series(
            ROWS[row].title,
            fit["snapshot_steps"][1:],
            np.abs(np.asarray(fit["snapshots"])[1:] - exact).sum(axis=1).tolist(),
        )
        for row, fit in market.ours.items()
    ]
    return Figure(
        f"composition-{market.key}",
        f"Composition against the solver, {market.name}",
        f"The weights of CVaR by OCE-SG end {lines[0].y[-1]:.3f} from the exact solver's in sum of absolute "
        f"differences; the variants go elsewhere.",
        (
            Panel(stacks(market.panel, bars, names), "Compositions", "", "Weight"),
            Panel(tuple(lines), "Distance to the exact optimum", "Step", "Sum of |differences|", True, True),
        ),
    )
