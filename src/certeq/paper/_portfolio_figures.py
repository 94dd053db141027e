"""The figures of the portfolio experiments, in the paper's form: cumulative returns, compositions, convergence."""

from __future__ import annotations

from typing import Any

import numpy as np

from certeq.paper._experiment import Figure, Panel, Series
from certeq.paper._fits import ROWS
from certeq.paper._panels import MARKETS, SYNTHETIC
from certeq.paper._panels import Panel as Returns

Fits = dict[str, dict[str, Any]]
_LARGEST = 10  # assets with a colour of their own
_DAYS = 500


def cumulative_returns(returns: Returns, benchmarks: Fits, ours: Fits, best: Fits) -> Figure:
    """Sums of daily returns on the held-out days: the paper's protocol, and the true optima."""
    n = len(returns.test)
    places = np.unique(np.linspace(0, n - 1, min(n, _DAYS)).astype(int))
    days = [f"{day:%Y-%m-%d}" for day in returns.test.index[places]]

    def curves(fits: Fits) -> tuple[Series, ...]:
        lines = []
        for row, fit in {**fits, **benchmarks}.items():
            path = np.cumsum(returns.held_out(fit["weights"]))[places]
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


def composition(returns: Returns, protocol: Fits, best: Fits) -> Figure:
    """Who holds what: a bar for each portfolio, a colour for each asset."""
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


def convergence(returns: Returns, ours: Fits, best: Fits) -> Figure:
    """The weights of CVaR along the iterations, and how far each portfolio is from its optimum."""
    distances = []
    for row, fit in ours.items():
        away = np.abs(np.asarray(fit["snapshots"]) - np.asarray(best[row]["weights"])).sum(axis=1)
        distances.append(Series(ROWS[row].title, fit["snapshot_steps"][1:], away[1:].tolist()))
    ends = ", ".join(f"{line.label} {line.y[-1]:.2f}" for line in distances)
    return Figure(
        "convergence",
        f"Compositions over the iterations, {_name(returns)}",
        f"Left, the weights of the CVaR portfolio settle. Right, the distance to the true optimum; it ends at {ends}.",
        (
            Panel(weights_over_steps(returns, ours["cvar"]), "Weights of CVaR by OCE-SG", "Step", "Weight", log_x=True),
            Panel(tuple(distances), "Distance to the optimum", "Step", "Sum of |differences|", True, True),
        ),
    )


def weights_over_steps(returns: Returns, fit: dict[str, Any]) -> tuple[Series, ...]:
    """Stacked areas: the largest assets, and the rest."""
    table = np.asarray(fit["snapshots"])[1:]
    steps = fit["snapshot_steps"][1:]
    names = largest_assets(returns, [fit["weights"]])
    columns = [list(returns.train.columns).index(name) for name in names]
    layers = [
        Series(str(name), steps, table[:, column].tolist(), "stack")
        for name, column in zip(names, columns, strict=True)
    ]
    rest = np.clip(1.0 - table[:, columns].sum(axis=1), 0.0, None)
    if rest.max() > 1e-9:
        layers.append(Series("all others", steps, rest.tolist(), "stack"))
    return tuple(layers)


def stacks(returns: Returns, fits: Fits, names: list[str]) -> tuple[Series, ...]:
    """One series per asset over the portfolios, and one for all other assets."""
    titles = [ROWS[row].title for row in fits]
    table = np.array([fit["weights"] for fit in fits.values()])
    columns = [list(returns.train.columns).index(name) for name in names]
    layers = [
        Series(str(name), titles, table[:, column].tolist(), "stack")
        for name, column in zip(names, columns, strict=True)
    ]
    rest = np.clip(1.0 - table[:, columns].sum(axis=1), 0.0, None)
    if rest.max() > 1e-9:
        layers.append(Series("all others", titles, rest.tolist(), "stack"))
    return tuple(layers)


def largest_assets(returns: Returns, portfolios: list[Any]) -> list[str]:
    """The assets that some portfolio holds most of, in the order of the panel."""
    most = np.max(np.asarray(portfolios), axis=0)
    chosen = sorted(np.argsort(-most, kind="stable")[:_LARGEST])
    return [str(returns.train.columns[place]) for place in chosen]


def _name(returns: Returns) -> str:
    title = MARKETS[returns.key.removesuffix(SYNTHETIC)].title
    return f"synthetic panel in place of {title}" if returns.synthetic else title
