"""Charts of strategies: their risks, wealth and drawdowns over time, return against risk, weights by parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.report._chart import (
    SERIES,
    Chart,
    Node,
    PageTable,
    axis,
    color,
    day,
    line,
    log_ticks,
    number,
    percent,
    rounded,
    series,
    shared,
    thin,
)
from certeq.report._study import Study, Sweep, risk_name
from certeq.report._tables import Figures
from certeq.report._walk import AnyStudy
from certeq.report.metrics import Floats, measure
from certeq.report.page import distinct, in_chart, plain
from certeq.report.reliability import Doubt, mark
from certeq.risk import oce
from certeq.utilities import Risk

Paths = dict[str, Floats]
_CROWD = 5  # more lines than this hide each other where they all fall at once
_FEW_ASSETS = 60


def risk_chart(study: AnyStudy, found: Figures, doubted: tuple[Doubt, ...] = ()) -> Chart:
    """CVaR of every strategy with its confidence interval, least first: the picture of the report's first sentence."""
    marks = {name: mark(doubted, name, "CVaR 95 %") for name in found}
    where = "in sample" if isinstance(study, Study) and study.in_sample else "held out"
    order = sorted(found, key=lambda name: found[name]["cvar"][0])
    labels = dict(zip(found, distinct(found, 40), strict=True))
    styles = line_styles(study)
    benchmarks = {strategy.name for strategy in study.judged if strategy.is_benchmark}
    traces = [
        _point_with_interval(
            in_chart(labels[name]),
            found[name]["cvar"],
            styles[name]["color"],
            ("diamond" if name in benchmarks else "circle") + ("-open" if marks[name] else ""),
            13 if name == study.focus else 9,
        )
        for name in order
    ]
    sentences = [f"The mean loss of the worst 5 % of {study.frequency.plural}, {where}."]
    if len(order) > 1:
        least, most = (f"{percent(found[name]['cvar'][0], 2)} ({name})" for name in (order[0], order[-1]))
        sentences[0] = f"{sentences[0][:-1]}: the least is {least}, the most {most}."
    if any(np.isfinite(found[name]["cvar"]).all() for name in order):
        sentences.append("Lines are 95 % confidence intervals.")
        if any(marks.values()):
            sentences.append("Those of open marks are unreliable, see Unreliable intervals.")
        if len(order) > 1:
            sentences.append("Strategies that saw the same dates may differ although their lines overlap.")
    layout = {
        "xaxis": axis(f"CVaR 95 %, {where}", tickformat=".1%"),
        "yaxis": axis(
            "",
            type="category",
            categoryorder="array",
            categoryarray=[in_chart(labels[name]) for name in order],
            range=[len(order) - 0.4, -0.6],  # the first on top, none on the edge
        ),
        "hovermode": "closest",
        "showlegend": False,
    }
    shown = {name: [percent(value, 2) for value in found[name]["cvar"]] for name in order}
    rows = tuple((name, *shown[name][:-1], shown[name][-1] + marks[name]) for name in order)
    table = PageTable(("Strategy", "CVaR 95 %", "Interval from", "to"), rows, frozenset({1, 2, 3}))
    return Chart("risk", "Risk of each strategy", " ".join(sentences), traces, layout, table, 120 + 30 * len(order))


def time_charts(study: AnyStudy) -> list[Chart]:
    """Cumulative returns and drawdowns of every strategy, on the data they are judged on."""
    wealth: Paths = {name: np.cumprod(1.0 + path, dtype=np.float64) for name, path in study.judged_by_name().items()}
    under = {name: path / np.maximum(np.maximum.accumulate(path), 1.0) - 1.0 for name, path in wealth.items()}
    indices = thin(len(study.dates), [int(path.argmin()) for path in under.values()])
    return [_wealth_chart(study, wealth, indices), _under_chart(study, under, indices)]


def line_styles(study: AnyStudy) -> dict[str, Node]:
    """Colors for utilities, grey dashes for benchmarks: the kinds differ for an eye that sees no color."""
    dashes, utilities, benchmarks = ("dash", "dot", "dashdot", "longdash"), 0, 0
    styles: dict[str, Node] = {}
    for strategy in study.judged:
        if strategy.is_benchmark:
            styles[strategy.name] = {"color": color("muted"), "dash": dashes[benchmarks % len(dashes)], "width": 1.6}
            benchmarks += 1
        else:
            dash, width = "solid" if utilities < SERIES else "longdashdot", 2.6 if strategy.name == study.focus else 1.6
            styles[strategy.name] = {"color": series(utilities), "dash": dash, "width": width}
            utilities += 1
    return styles


def lines(study: AnyStudy, paths: Paths, indices: NDArray[np.intp], form: str) -> list[Node]:
    styles = line_styles(study)
    return [
        line(in_chart(name), shared("days"), path[indices], styles[name], f"%{{y:{form}}}")
        for name, path in paths.items()
    ]


def _wealth_chart(study: AnyStudy, wealth: Paths, indices: NDArray[np.intp]) -> Chart:
    days = [day(study.dates[k]) for k in indices]
    ends = {name: float(path[-1]) for name, path in wealth.items()}
    best, worst = max(ends, key=lambda k: ends[k]), min(ends, key=lambda k: ends[k])
    text = f"1 invested on {days[0]} became {ends[study.focus]:.2f} by {days[-1]} with {study.focus}"
    if len(ends) > 1:
        text += f"; the most was {ends[best]:.2f} ({best}), the least {ends[worst]:.2f} ({worst})"
    rows = tuple((name, f"{value:.3f}") for name, value in ends.items())
    return Chart(
        "wealth",
        "Cumulative returns",
        f"{text}. {study.compounded_how}",
        lines(study, wealth, indices, ".3f"),
        {"xaxis": axis("", type="date"), "yaxis": _money_axis(wealth), "hovermode": "x unified"},
        PageTable(("Strategy", "Value of 1 at the end"), rows, frozenset({1})),
        420,
        True,
        {"days": days},
    )


def _under_chart(study: AnyStudy, under: Paths, indices: NDArray[np.intp]) -> Chart:
    index, rows = study.dates, []
    for name, path in under.items():
        low = int(path.argmin())
        rows.append((name, percent(-float(path[low])), day(index[low]), percent(float((path < 0).mean()), 0)))
    mine = next(row for row in rows if row[0] == study.focus)
    text = (
        f"The deepest drawdown of {study.focus} was {mine[1]}, on {mine[2]}; it was below its previous peak on "
        f"{mine[3]} of {study.frequency.plural}."
    )
    traces, hint = lines(study, under, indices, ".1%"), ""
    if len(traces) > _CROWD:
        shown = {strategy.name for strategy in study.judged if strategy.is_benchmark} | {study.focus}
        for trace, name in zip(traces, under, strict=True):
            if name not in shown:
                trace["visible"] = "legendonly"
        hint = "The other utilities are hidden at first: click on their names."
    layout: dict[str, Any] = {
        "xaxis": axis("", type="date"),
        "yaxis": axis("Below the last peak", tickformat=".0%"),
        "hovermode": "x unified",
    }
    table = PageTable(
        ("Strategy", "Deepest", "On", f"{study.frequency.plural.capitalize()} below a peak"),
        tuple(rows),
        frozenset({1, 3}),
    )
    return Chart("drawdowns", "Drawdowns", text, traces, layout, table, 380, True, hint=hint)


def _money_axis(wealth: Paths) -> Node:
    """Where money multiplies, equal steps are equal factors; else the early years would look flat."""
    low, high = min(float(path.min()) for path in wealth.values()), max(float(path.max()) for path in wealth.values())
    if low > 0.0 and high > 5.0 * low:
        return axis("Value of 1 invested, log scale", type="log", **log_ticks(low, high))
    return axis("Value of 1 invested")


def frontier_chart(study: Study, sweep: Sweep, utility: Risk) -> Chart:
    """Mean against OCE on the data fitted on: the frontier, the strategies, and the single assets."""
    returns = study.fitted_on.to_numpy(dtype=float)
    year = study.frequency.periods_per_year
    x, y = _risk_return(returns @ sweep.weights.T, utility, year)
    traces: list[Node] = []
    if returns.shape[1] <= _FEW_ASSETS:
        risks, gains = _risk_return(returns, utility, year)
        names = [in_chart(label) for label in distinct(study.assets)]
        traces.append(_dots("Single assets", risks, gains, names, color("muted"), "circle", 6, 0.65))
    style = {"color": series(0), "width": 2.5, "shape": "spline", "smoothing": 0.4}
    risk = risk_name(utility)
    hover = f"efficient frontier<br>{risk} %{{x:.2%}}, return %{{y:.1%}} a year<extra></extra>"
    traces.append(line("Efficient frontier", rounded(x), y, style, hover, mode="lines+markers", marker={"size": 5}))
    shown = len(traces)
    others = [strategy for strategy in study.held if strategy.name != study.focus]
    for name, chosen, tone, symbol in (
        ("Other utilities", [s for s in others if not s.is_benchmark], series(3), "circle"),
        ("Benchmarks", [s for s in others if s.is_benchmark], series(2), "diamond"),
    ):
        if chosen:
            at = _risk_return(returns @ np.array([np.asarray(s.weights) for s in chosen]).T, utility, year)
            traces.append(_dots(name, *at, [in_chart(s.name) for s in chosen], tone, symbol, 9, 1.0))
            if symbol == "diamond":
                traces[-1] |= {"mode": "markers+text", "textposition": "middle right"}
    here = _risk_return((returns @ np.asarray(study.focused.weights))[:, None], utility, year)
    traces.append(_dots(in_chart(study.focus), *here, [in_chart(study.focus)], series(1), "star", 14, 1.0))
    text = (
        f"No portfolio allowed here has both a smaller {risk} ({utility!r}) and a larger mean than a point of the "
        f"curve. On the data fitted on it runs from {risk} {percent(float(x[0]), 2)} a {study.frequency.period} with "
        f"{percent(float(y[0]))} a year to {percent(float(x[-1]), 2)} with {percent(float(y[-1]))}.{_proof(sweep)}"
    )
    # The riskiest portfolios and assets can lie far to the right and squeeze the curved part, where one would choose.
    inside = [float(x[0]), float(np.quantile(x, 0.75)), *[value for trace in traces[shown:] for value in trace["x"]]]
    reach = max(inside) - float(x[0])
    if reach > 0.0 and float(x[-1]) > float(x[0]) + 1.5 * reach:
        text += " The window shows the curved part."
        hint = "Double-click on the chart to see the riskiest portfolios too."
        window = {"range": rounded([float(x[0]) - 0.12 * reach, float(x[0]) + 1.5 * reach])}
    else:
        window, hint = {}, ""
    oce_label = f"{risk} of the {study.frequency.adjective} loss"
    layout = {
        "xaxis": axis(oce_label, tickformat=".1%", **window),
        "yaxis": axis("Return a year", tickformat=".0%"),
        "hovermode": "closest",
    }
    rows = tuple((percent(float(a), 3), percent(float(b), 2)) for a, b in zip(x, y, strict=True))
    table = PageTable((oce_label, "Return a year"), rows, frozenset({0, 1}))
    return Chart("frontier", "Efficient frontier", text, traces, layout, table, 440, hint=hint)


def _proof(sweep: Sweep) -> str:
    return "" if sweep.gap is None else f" Optimality gap of every point: at most {sweep.gap:.0e}."


def sensitivity_charts(study: Study, sweep: Sweep) -> list[Chart]:
    """The weights as the risk parameter turns, and what becomes of return and CVaR."""
    return [_weights_path(study, sweep), _figures_path(study, sweep)]


def stacked_weights(assets: list[str], weights: Floats, x: Any, **more: Any) -> tuple[list[Node], PageTable]:
    """The largest weights as areas, lines where some are short, over x; their table has a row per entry of x."""
    largest = np.argsort(-np.abs(weights).max(axis=0), kind="stable")[: SERIES - 1]
    largest = largest[np.abs(weights).max(axis=0)[largest] > 1e-6]
    labels = distinct((assets[k] for k in largest), 16)
    paths = [weights[:, k] for k in largest]
    rest = weights.sum(axis=1) - np.sum(paths, axis=0)
    tones = [series(i) for i in range(len(paths))]
    if np.abs(rest).max() > 1e-6:
        labels, paths, tones = [*labels, "All others"], [*paths, rest], [*tones, color("muted")]
    stacked = bool((weights >= -1e-9).all())  # areas below zero cannot be stacked
    traces = []
    for name, path, tone in zip(labels, paths, tones, strict=True):
        area = {"stackgroup": "weights", "fillcolor": tone} if stacked else {}
        style = {"color": tone, "width": 1 if stacked else 2, **more}
        traces.append(line(in_chart(name), x, path, style, "%{y:.1%}", **area))
    rows = tuple(tuple(percent(float(path[i])) for path in paths) for i in range(len(weights)))
    return traces, PageTable(tuple(labels), rows, frozenset(range(len(labels))))


def _weights_path(study: Study, sweep: Sweep) -> Chart:
    traces, held = stacked_weights(study.assets, sweep.weights, rounded(sweep.places))
    label = plain(sweep.label)
    moves = 0.5 * np.abs(np.diff(sweep.weights, axis=0)).sum(axis=1)
    text = (
        f"Optimal weights of {study.focus} as {label} goes from {sweep.places[0]:.4g} to {sweep.places[-1]:.4g}; "
        f"at most {percent(float(moves.max()), 0)} of the money moves between neighboring values."
    )
    layout = {
        "xaxis": _parameter_axis(sweep),
        "yaxis": axis("Weight", tickformat=".0%"),
        "hovermode": "x unified",
        **_current_mark(sweep),
    }
    table = with_first(label, [f"{value:.4g}" for value in sweep.places], held)
    return Chart("sensitivity", f"Sensitivity of the weights to {label}", text, traces, layout, table, 420, True)


def with_first(head: str, cells: list[str], table: PageTable) -> PageTable:
    """A table with one more column in front, of numbers where all others are."""
    rows = tuple((first, *row) for first, row in zip(cells, table.rows, strict=True))
    return PageTable((head, *table.head), rows, frozenset({0} | {k + 1 for k in table.numeric}))


def _figures_path(study: Study, sweep: Sweep) -> Chart:
    judged = study.judged_on.to_numpy(dtype=float)
    figures = [measure(judged @ weights, study.frequency.periods_per_year) for weights in sweep.weights]
    where = "the data fitted on" if study.in_sample else "the data held out"
    drawn = (("annualized_mean", "Return a year", "y", 0), ("cvar", "CVaR 95 %", "y2", 1))
    traces = []
    for key, label, which, k in drawn:
        values, hover = [figure[key] for figure in figures], f"{label}: %{{y:.2%}}<extra></extra>"
        style = {"color": series(k), "width": 2}
        traces.append(line(label, rounded(sweep.places), values, style, hover, mode="lines+markers", yaxis=which))
    layout = {
        "xaxis": _parameter_axis(sweep, anchor="y2"),
        "yaxis": axis("Return", tickformat=".1%", domain=[0.56, 1.0]),
        "yaxis2": axis("CVaR", tickformat=".2%", domain=[0.0, 0.44]),
        **_current_mark(sweep),
    }
    spans = [[figure[key] for figure in figures] for key, *_ in drawn]
    label = plain(sweep.label)
    text = (
        f"On {where}, the annualized return lies between {percent(min(spans[0]))} and {percent(max(spans[0]))} "
        f"and the {study.frequency.adjective} CVaR between {percent(min(spans[1]), 2)} and {percent(max(spans[1]), 2)} "
        f"over this range of {label}."
    )
    rows = tuple(
        (f"{value:.4g}", percent(f["annualized_mean"], 2), percent(f["cvar"], 3), number(f["annualized_sharpe_ratio"]))
        for value, f in zip(sweep.places, figures, strict=True)
    )
    table = PageTable((label, "Return a year", "CVaR 95 %", "Sharpe"), rows, frozenset({0, 1, 2, 3}))
    return Chart("outcome", f"Sensitivity of return and risk to {label}", text, traces, layout, table, 420)


def _parameter_axis(sweep: Sweep, **more: str) -> Node:
    kind = "log" if (sweep.places > 0).all() and sweep.places[-1] > 5 * sweep.places[0] else "linear"
    named = log_ticks(sweep.places[0], sweep.places[-1]) if kind == "log" else {}
    return axis(plain(sweep.label), type=kind, **named, **more)


def _current_mark(sweep: Sweep) -> Node:
    if sweep.current is None:
        return {}
    mark = {"type": "line", "x0": sweep.current, "x1": sweep.current, "yref": "paper", "y0": 0, "y1": 1}
    return {"shapes": [{**mark, "line": {"color": color("text"), "dash": "dot", "width": 1.5}}]}


def _risk_return(returns: Floats, utility: Risk, year: float) -> tuple[Floats, Floats]:
    """OCE of the losses and annualized mean, one per column."""
    return np.atleast_1d(oce(-returns.T, utility, axis=-1)), year * returns.mean(axis=0)


def _point_with_interval(label: str, point: tuple[float, float, float], tone: Node, symbol: str, size: int) -> Node:
    """Value, low and high, drawn along the page; an interval that is not finite is no line."""
    value, low, high = point
    bar = {
        "type": "data",
        "symmetric": False,
        "array": rounded([high - value]),
        "arrayminus": rounded([value - low]),
        "color": tone,
        "thickness": 2,
        "width": 5,
    }
    return {
        "type": "scatter",
        "mode": "markers",
        "x": rounded([value]),
        "y": [label],
        "error_x": bar,
        "marker": {"color": tone, "symbol": symbol, "size": size, "line": {"width": 2 if "open" in symbol else 0}},
        "hovertemplate": "%{y}: %{x:.2%}<extra></extra>",
    }


def _dots(
    name: str, x: Floats, y: Floats, labels: list[str], tone: Node, symbol: str, size: int, opacity: float
) -> Node:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": rounded(x),
        "y": rounded(y),
        "text": labels,
        "marker": {"color": tone, "symbol": symbol, "size": size, "line": {"width": 1, "color": color("surface")}},
        "opacity": opacity,
        "hovertemplate": "%{text}<br>risk %{x:.2%}, return %{y:.1%} a year<extra></extra>",
    }
