"""The figures of the portfolio experiments: cumulative returns, compositions, and both along the iterations."""

from __future__ import annotations

from typing import Any

import numpy as np

from certeq.paper import _markets
from certeq.paper._experiment import Figure, Panel, Series
from certeq.paper._markets import MARKETS, ROWS, Fit, Fits, ReturnsPanel

_LARGEST = 10  # assets with a color of their own
_DAYS = 500


def cumulative_returns(returns: ReturnsPanel, benchmarks: Fits, ours: Fits, best: Fits) -> Figure:
    """Sums of daily returns on the held-out days: the paper's protocol, and the true optima."""
    n = len(returns.test)
    days_shown = np.unique(np.linspace(0, n - 1, min(n, _DAYS)).astype(int))
    days = [f"{day:%Y-%m-%d}" for day in returns.test.index[days_shown]]

    def curves(fits: Fits) -> tuple[Series, ...]:
        lines = []
        for row, fit in {**fits, **benchmarks}.items():
            path = np.cumsum(returns.held_out(fit["weights"]))[days_shown]
            lines.append(Series(ROWS[row].title, days, path.tolist(), "dashed" if row in benchmarks else "line"))
        return tuple(lines)

    rows = [row for row in ours if row != "mean"]
    final = {ROWS[r].title: float(returns.held_out(ours[r]["weights"]).sum()) for r in rows}
    top, bottom = max(final, key=lambda name: final[name]), min(final, key=lambda name: final[name])
    return Figure(
        "cumulative-returns",
        f"Cumulative returns, {_name(returns)}, held out",
        f"Uncompounded sums of daily returns from {days[0]} to {days[-1]}. By the paper's protocol {top} ends highest "
        f"({final[top]:.2f}) and {bottom} lowest ({final[bottom]:.2f}); benchmarks are dashed.",
        (
            Panel(curves({r: ours[r] for r in rows}), "OCE-SG, the paper's protocol", "", "Cumulative return"),
            Panel(curves({r: best[r] for r in rows}), "True optima", "", "Cumulative return"),
        ),
    )


def composition(returns: ReturnsPanel, protocol: Fits, best: Fits) -> Figure:
    """Who holds what: a bar for each portfolio, a color for each asset."""
    names = largest_assets(returns, [fit["weights"] for fit in (*protocol.values(), *best.values())])
    both = Panel(stacks(returns, protocol, names), "OCE-SG and benchmarks", "", "Weight")
    held = {ROWS[row].title: int((np.asarray(fit["weights"]) > 1e-6).sum()) for row, fit in best.items()}
    return Figure(
        "composition",
        f"Portfolio composition, {_name(returns)}",
        "Stacked weights. At the true optima the number of assets held is "
        + ", ".join(f"{count} ({name})" for name, count in held.items())
        + ".",
        (both, Panel(stacks(returns, best, names), "True optima", "", "Weight")),
    )


def convergence(returns: ReturnsPanel, ours: Fits, best: Fits) -> Figure:
    """The weights of CVaR along the iterations, and how far each portfolio is from its optimum."""
    lines = distance_lines(ours, best)
    ends = ", ".join(f"{line.label} {line.y[-1]:.2f}" for line in lines)
    return Figure(
        "convergence",
        f"Compositions over the iterations, {_name(returns)}",
        f"Left, the weights of the CVaR portfolio settle. Right, the distance to the true optimum; it ends at {ends}.",
        (
            Panel(weights_over_steps(returns, ours["cvar"]), "Weights of CVaR by OCE-SG", "Step", "Weight", log_x=True),
            Panel(lines, "Distance to the optimum", "Step", "Sum of |differences|", True, True),
        ),
    )


def distance_lines(fits: Fits, optima: Fits) -> tuple[Series, ...]:
    """How far each portfolio is from its optimum along the iterations."""
    return tuple(
        Series(ROWS[row].title, fit["snapshot_steps"][1:], _markets.distances(fit, optima[row]))
        for row, fit in fits.items()
    )


def weights_over_steps(returns: ReturnsPanel, fit: Fit) -> tuple[Series, ...]:
    """Stacked areas: the largest assets, and the rest."""
    names = largest_assets(returns, [fit["weights"]])
    return _layers(returns, fit["snapshot_steps"][1:], np.asarray(fit["snapshots"])[1:], names)


def stacks(returns: ReturnsPanel, fits: Fits, names: list[str]) -> tuple[Series, ...]:
    """One series per asset over the portfolios, and one for all other assets."""
    table = np.array([fit["weights"] for fit in fits.values()])
    return _layers(returns, [ROWS[row].title for row in fits], table, names)


def _layers(returns: ReturnsPanel, x: list[Any], table: Any, names: list[str]) -> tuple[Series, ...]:
    columns = [list(returns.train.columns).index(name) for name in names]
    layers = [
        Series(str(name), x, table[:, column].tolist(), "stack") for name, column in zip(names, columns, strict=True)
    ]
    rest = np.clip(1.0 - table[:, columns].sum(axis=1), 0.0, None)
    if rest.max() > 1e-9:
        layers.append(Series("all others", x, rest.tolist(), "stack"))
    return tuple(layers)


def largest_assets(returns: ReturnsPanel, portfolios: list[Any]) -> list[str]:
    """The assets that some portfolio holds most of, in the order of the panel."""
    most = np.max(np.asarray(portfolios), axis=0)
    chosen = sorted(np.argsort(-most, kind="stable")[:_LARGEST])
    return [str(returns.train.columns[column]) for column in chosen]


def _name(returns: ReturnsPanel) -> str:
    title = MARKETS[returns.key.removesuffix(_markets.SYNTHETIC)].title
    return f"synthetic panel in place of {title}" if returns.synthetic else title
