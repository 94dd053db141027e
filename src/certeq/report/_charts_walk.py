"""What the report of a walk-forward shows beside wealth and drawdowns: holdings, trades, rolling risk, years."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.report._chart import Chart, PageTable, axis, day, percent, rounded, series, thin
from certeq.report._charts_paths import lines, stacked_weights, with_first
from certeq.report._study import DUST
from certeq.report._tables import asked_and_written
from certeq.report._walk import Walk, WalkStudy
from certeq.report.metrics import TAIL, Floats
from certeq.report.page import plain
from certeq.risk import oce
from certeq.utilities import CVaR

_LEAST = 20  # returns of a year: of fewer the worst 5 % are less than one


def weights_over_time(study: WalkStudy) -> Chart:
    """The weights of the walk in focus, as steps from one rebalancing to the next."""
    walk = study.focused
    dates = [day(when) for when in (*walk.weights.index, study.dates[-1])]
    weights = walk.weights.to_numpy(dtype=float)
    # The last portfolio is held to the end: its step needs a second point.
    traces, held = stacked_weights(
        [str(name) for name in walk.weights.columns], np.vstack([weights, weights[-1:]]), dates, shape="hv"
    )
    counts = (np.abs(weights) > DUST).sum(axis=1)
    largest = np.unravel_index(np.abs(weights).argmax(), weights.shape)
    text = (
        f"{study.focus} held {counts.min()} to {counts.max()} of {weights.shape[1]} assets; the largest position was "
        f"{plain(walk.weights.columns[largest[1]])} with {percent(float(weights[largest]))} from {dates[largest[0]]}."
    )
    layout = {
        "xaxis": axis("", type="date"),
        "yaxis": axis("Weight", tickformat=".0%"),
        "hovermode": "x unified",
    }
    table = with_first("From", dates[:-1], PageTable(held.head, held.rows[:-1], held.numeric))
    table = PageTable(table.head, table.rows, table.numeric - {0})
    return Chart("weights", "Weights through time", text, traces, layout, table, 420, True)


def trades_chart(study: WalkStudy) -> Chart:
    """Turnover and costs of every rebalancing of the walk in focus."""
    walk, period = study.focused, study.frequency.plural
    dates = [day(when) for when in walk.weights.index]
    known = walk.turnover[np.isfinite(walk.turnover)]
    year = study.frequency.periods_per_year / len(study.dates)
    traces = [
        {
            "type": "bar",
            "name": name,
            "x": dates,
            "y": rounded(values),
            "marker": {"color": series(k)},
            "yaxis": which,
            "hovertemplate": f"%{{x}}<br>{name}: %{{y:.2%}}<extra></extra>",
        }
        for k, (name, values, which) in enumerate((("Turnover", walk.turnover, "y"), ("Costs", walk.costs, "y2")))
        if name == "Turnover" or walk.costs.any()
    ]
    paid = float(walk.costs.sum())
    costs = f"Costs and fees took {percent(paid, 2)} in all, {percent(year * paid, 2)} a year." if paid else "No costs."
    text = (
        f"{len(dates)} portfolios. Turnover is half the sum of the absolute changes of the weights: the share of the "
        f"money that moves, {percent(float(known.mean()) if len(known) else np.nan)} at a rebalancing on average, "
        f"{percent(year * float(known.sum()), 0)} a year. {costs} Trades that keep the weights constant between "
        "rebalancings are not counted."
    )
    layout = {
        "xaxis": axis("", type="date", anchor="y2"),
        "yaxis": axis("Turnover", tickformat=".0%", domain=[0.56, 1.0]),
        "yaxis2": axis("Costs", tickformat=".2%", domain=[0.0, 0.44]),
        "showlegend": False,
    }
    if len(traces) == 1:
        layout = {"xaxis": axis("", type="date"), "yaxis": axis("Turnover", tickformat=".0%"), "showlegend": False}
    wealth = np.cumprod(1.0 + study.judged_returns(walk))
    rows = []
    for k, (start, end) in enumerate(zip(walk.starts, walk.ends, strict=True)):
        earned = float(wealth[end] / (wealth[start - 1] if start else 1.0) - 1.0)
        gap = "n/a" if walk.gaps is None else f"{walk.gaps[k]:.0e}"
        row = (str(end - start + 1), percent(walk.turnover[k]), percent(walk.costs[k], 3), percent(earned, 2), gap)
        rows.append((dates[k], *row))
    head = ("From", period.capitalize(), "Turnover", "Costs", "Return", "Optimality gap")
    return Chart(
        "trades", "Turnover and costs", text, traces, layout, PageTable(head, tuple(rows), frozenset(range(1, 6))), 400
    )


def rolling_chart(study: WalkStudy) -> Chart:
    """The risk of the last so many returns, date by date."""
    window = study.rolling_window
    ends = window - 1 + thin(len(study.dates) - window + 1, most=1500)
    paths = {name: rolling(path, study, ends) for name, path in study.judged_by_name().items()}
    dates = [day(study.dates[k]) for k in ends]
    traces = lines(study, paths, np.arange(len(ends)), ".2%")
    for trace in traces:
        trace["x"] = dates
    mine = paths[study.focus]
    top, now, name = int(mine.argmax()), float(mine[-1]), plain(repr(study.risk), 60)
    text = (
        f"{name} of the losses of the last {window} {study.frequency.plural}. That of {study.focus} was largest on "
        f"{dates[top]}, {percent(float(mine[top]), 2)}, least {percent(float(mine.min()), 2)}, and ended at "
        f"{percent(now, 2)}."
    )
    layout = {
        "xaxis": axis("", type="date"),
        "yaxis": axis(f"{name}, rolling", tickformat=".1%"),
        "hovermode": "x unified",
    }
    rows = tuple((walk, *(percent(x, 2) for x in (path.min(), path.max(), path[-1]))) for walk, path in paths.items())
    table = PageTable(("Strategy", "Least", "Largest", "At the end"), rows, frozenset({1, 2, 3}))
    return Chart("rolling", "Rolling risk", text, traces, layout, table, 380, True)


def rolling(returns: Floats, study: WalkStudy, ends: NDArray[np.intp]) -> Floats:
    """The study's risk of the losses in each window that ends at these positions."""
    windows = np.lib.stride_tricks.sliding_window_view(-returns, study.rolling_window)
    return np.asarray(oce(windows[ends - study.rolling_window + 1], study.risk, axis=-1))


def yearly_table(study: WalkStudy) -> PageTable:
    """One row per calendar year of the walk in focus, beside the benchmark where there is one."""
    walk, returns = study.focused, study.judged_returns(study.focused)
    years = np.asarray(study.dates.year)
    against = study.held[-1] if study.benchmark is not None else None
    head = ["Year", study.frequency.plural.capitalize(), "Return"]
    head += [] if against is None else [plain(against.name, 40), "Difference"]
    head += ["CVaR 95 %", "Deepest drawdown", "Turnover", "Costs"]
    wealth = np.cumprod(1.0 + returns)
    below = wealth / np.maximum(np.maximum.accumulate(wealth), 1.0) - 1.0
    begun = years[walk.starts]
    rows = []
    for year in np.unique(years):
        inside = years == year
        earned = float(np.prod(1.0 + returns[inside]) - 1.0)
        row = [str(year), str(int(inside.sum())), percent(earned)]
        if against is not None:
            theirs = float(np.prod(1.0 + study.judged_returns(against)[inside]) - 1.0)
            row += [percent(theirs), f"{100 * (earned - theirs):+.1f} %"]
        tail = float(oce(-returns[inside], CVaR(TAIL)))
        moved = walk.turnover[begun == year]
        moved = moved[np.isfinite(moved)]
        paid = costs_by_date(walk)[inside].sum()
        row += [
            percent(tail, 2) if inside.sum() >= _LEAST else "n/a",
            percent(-float(below[inside].min())),
            percent(float(moved.sum()), 0),
            percent(paid, 2),
        ]
        rows.append(tuple(row))
    return PageTable(tuple(head), tuple(rows), frozenset(range(1, len(head))))


def costs_by_date(walk: Walk) -> Floats:
    """Costs and fees of each date: those of a period are paid in equal parts, as skfolio's portfolios charge them."""
    lengths = walk.ends - walk.starts + 1
    return np.repeat(walk.costs / lengths, lengths)


def walk_run_table(study: WalkStudy) -> PageTable:
    """Versions, parameters and data: enough to run it again."""
    rows = [
        ("Data", plain(study.source, 80)),
        (
            "Frequency",
            f"{study.frequency}, {'from the dates' if study.periods_per_year is None else 'as asked for'}",
        ),
        ("Tested on", f"{len(study.dates)} {study.frequency.plural}, {day(study.dates[0])} to {day(study.dates[-1])}"),
    ]
    rows += [("Note", plain(text, 300)) for walk in study.walks for text in walk.notes]
    return PageTable(("", ""), (*rows, *asked_and_written(study)))
