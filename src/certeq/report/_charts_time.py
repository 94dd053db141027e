"""Charts over time: what a unit of money became, and how far it was below its peak."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.report._chart import (
    SERIES,
    Chart,
    Node,
    Table,
    axis,
    colour,
    log_ticks,
    percent,
    rounded,
    series,
    shared,
    thin,
)
from certeq.report._labels import in_chart
from certeq.report._metrics import Floats
from certeq.report._study import Study

Paths = dict[str, Floats]
_CROWD = 5  # more lines than this hide each other where they all fall at once


def time_charts(study: Study) -> list[Chart]:
    """Cumulative returns and drawdowns of every strategy, on the data they are judged on."""
    wealth: Paths = {s.name: np.cumprod(1.0 + study.judged_returns(s), dtype=np.float64) for s in study.held}
    under = {name: path / np.maximum(np.maximum.accumulate(path), 1.0) - 1.0 for name, path in wealth.items()}
    places = thin(len(study.judged_on), [int(path.argmin()) for path in under.values()])
    return [_wealth_chart(study, wealth, places), _under_chart(study, under, places)]


def day(when: object) -> str:
    """A date; the hour too, where there is one."""
    text = str(when)
    return text[:10] if text[10:] in ("", " 00:00:00") else text


def _line_styles(study: Study) -> dict[str, Node]:
    """Colours for utilities, grey dashes for benchmarks: the kinds differ for an eye that sees no colour."""
    dashes, utilities, benchmarks = ("dash", "dot", "dashdot", "longdash"), 0, 0
    styles: dict[str, Node] = {}
    for strategy in study.held:
        if strategy.is_benchmark:
            styles[strategy.name] = {"color": colour("muted"), "dash": dashes[benchmarks % len(dashes)], "width": 1.6}
            benchmarks += 1
        else:
            dash, width = "solid" if utilities < SERIES else "longdashdot", 2.6 if strategy.name == study.focus else 1.6
            styles[strategy.name] = {"color": series(utilities), "dash": dash, "width": width}
            utilities += 1
    return styles


def _lines(study: Study, paths: Paths, places: NDArray[np.intp], form: str) -> list[Node]:
    styles = _line_styles(study)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": in_chart(name),
            "x": shared("days"),
            "y": rounded(path[places]),
            "line": styles[name],
            "hovertemplate": f"%{{y:{form}}}",
        }
        for name, path in paths.items()
    ]


def _wealth_chart(study: Study, wealth: Paths, places: NDArray[np.intp]) -> Chart:
    days = [day(study.judged_on.index[place]) for place in places]
    ends = {name: float(path[-1]) for name, path in wealth.items()}
    best, worst = max(ends, key=lambda k: ends[k]), min(ends, key=lambda k: ends[k])
    text = f"1 invested on {days[0]} became {ends[study.focus]:.2f} by {days[-1]} with {study.focus}"
    if len(ends) > 1:
        text += f"; the most was {ends[best]:.2f} ({best}), the least {ends[worst]:.2f} ({worst})"
    rows = tuple((name, f"{value:.3f}") for name, value in ends.items())
    return Chart(
        "wealth",
        "Cumulative returns",
        f"{text}. Compounded, weights kept constant by daily rebalancing, no costs.",
        _lines(study, wealth, places, ".3f"),
        {"xaxis": axis("", type="date"), "yaxis": _money_axis(wealth), "hovermode": "x unified"},
        Table(("Strategy", "Value of 1 at the end"), rows, frozenset({1})),
        420,
        True,
        {"days": days},
    )


def _under_chart(study: Study, under: Paths, places: NDArray[np.intp]) -> Chart:
    index, rows = study.judged_on.index, []
    for name, path in under.items():
        low = int(path.argmin())
        rows.append((name, percent(-float(path[low])), day(index[low]), percent(float((path < 0).mean()), 0)))
    mine = next(row for row in rows if row[0] == study.focus)
    text = f"The deepest drawdown of {study.focus} was {mine[1]}, on {mine[2]}; {mine[3]} of its days lie below a peak."
    traces = _lines(study, under, places, ".1%")
    if len(traces) > _CROWD:
        for trace, strategy in zip(traces, study.held, strict=True):
            if not strategy.is_benchmark and strategy.name != study.focus:
                trace["visible"] = "legendonly"
        text += " The other utilities are hidden at first: click on their names."
    layout: dict[str, Any] = {
        "xaxis": axis("", type="date"),
        "yaxis": axis("Below the last peak", tickformat=".0%"),
        "hovermode": "x unified",
    }
    table = Table(("Strategy", "Deepest", "On", "Days below a peak"), tuple(rows), frozenset({1, 3}))
    return Chart("drawdowns", "Drawdowns", text, traces, layout, table, 380, True)


def _money_axis(wealth: Paths) -> Node:
    """Where money multiplies, equal steps are equal factors; else the early years would look flat."""
    low, high = min(float(path.min()) for path in wealth.values()), max(float(path.max()) for path in wealth.values())
    if low > 0.0 and high > 5.0 * low:
        return axis("Value of 1 invested, log scale", type="log", **log_ticks(low, high))
    return axis("Value of 1 invested")
