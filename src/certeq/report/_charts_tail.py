"""Charts of the tail: where the losses lie, where the utility looks, and on which days."""

from __future__ import annotations

import numpy as np

from certeq.report._chart import Chart, Node, Table, axis, colour, percent, rounded, series
from certeq.report._metrics import Floats
from certeq.report._study import Study, Tail

BINS = 90
DAYS = 15


def loss_chart(study: Study, tail: Tail) -> Chart:
    """The losses as they came and as the tilt reweighs them, with t* and the OCE."""
    losses, n = tail.losses, tail.losses.size
    edges = _edges(losses, tail.shortfall)
    days, _ = np.histogram(losses, edges)
    tilted, _ = np.histogram(losses, edges, weights=tail.tilt)
    middle = 0.5 * (edges[1:] + edges[:-1])
    traces: list[Node] = [
        {
            "type": "bar",
            "name": name,
            "x": rounded(middle),
            "y": rounded(heights),
            "width": float(f"{edges[1] - edges[0]:.5g}"),
            "marker": {"color": tone, "line": {"width": 0}},
            "opacity": opacity,
            "hovertemplate": f"loss near %{{x:.2%}}: %{{y:.2%}} of {what}<extra></extra>",
        }
        for name, heights, tone, opacity, what in (
            ("As it happened", days / n, colour("muted"), 0.75, "the days"),
            ("Under the tilt", tilted, series(1), 0.65, "the tilt"),
        )
    ]
    top = float(max((days / n).max(), tilted.max()))
    marks = [("t*", tail.shortfall, series(0), "dash"), ("OCE", tail.value, series(1), "solid")]
    traces += [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{name} = {percent(place, 2)}",
            "x": [place, place],
            "y": [0.0, 1.05 * top],
            "line": {"color": tone, "dash": dash, "width": 2},
            "hovertemplate": f"{name} = {percent(place, 3)}<extra></extra>",
        }
        for name, place, tone, dash in marks
    ]
    beyond = losses > tail.shortfall
    order = np.argsort(losses)
    cumulated = np.cumsum(tail.tilt[order])
    # Extreme days that carry next to nothing would squeeze the rest; they stay in reach by zooming out.
    far = float(losses[order][min(n - 1, int(np.searchsorted(cumulated, 0.995)))])
    reach = [
        min(float(np.quantile(losses, 0.001)), tail.shortfall),
        max(float(np.quantile(losses, 0.999)), far + edges[1] - edges[0], 1.1 * tail.value, 1.1 * tail.shortfall),
    ]
    layout = {
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": axis("Daily loss", tickformat=".1%", range=reach),
        "yaxis": axis("Share", tickformat=".0%"),
    }
    ess = 1.0 / float((tail.tilt**2).sum())
    text = (
        f"Daily losses of {study.focus} on the data it was fitted on. The shortfall t* is "
        f"{percent(tail.shortfall, 2)} and the "
        f"OCE {percent(tail.value, 2)}. {int(beyond.sum())} of {n} days ({percent(float(beyond.mean()))}) lie "
        "beyond t*; they "
        f"carry {percent(float(tail.tilt[beyond].sum()), 0)} of the tilt. The risk rests on about {ess:.0f} days "
        f"(effective sample size); the largest loss was {percent(float(losses.max()), 2)}."
    )
    levels = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    rows = tuple(
        (
            percent(level, 0),
            percent(float(np.quantile(losses, level)), 2),
            percent(float(losses[order][min(n - 1, int(np.searchsorted(cumulated, level)))]), 2),
        )
        for level in levels
    )
    table = Table(("Quantile", "Loss", "Loss under the tilt"), rows, frozenset({1, 2}))
    return Chart("losses", "Loss distribution, t* and tilt", text, traces, layout, table, 400)


def _edges(losses: Floats, shortfall: float) -> Floats:
    """Bins of equal width with an edge at t*, so that none is half tail and half not."""
    low, high = float(losses.min()), float(losses.max())
    width = (high - low) / min(BINS, max(10, losses.size // 10)) or max(1e-6, abs(low))
    return shortfall + width * np.arange(np.floor((low - shortfall) / width), np.ceil((high - shortfall) / width) + 1)


def days_chart(study: Study, tail: Tail) -> Chart:
    """The days that matter most to this utility, by tilt and then by loss."""
    losses, n = tail.losses, tail.losses.size
    order = np.lexsort((-losses, -np.round(tail.tilt * n, 9)))[: min(DAYS, n)]
    carried = tail.tilt * losses
    total = float(carried.sum())
    share = carried / total if total != 0.0 else np.full(n, np.nan)
    dates = [str(study.fitted_on.index[place])[:10] for place in order]
    # Two days of one date cannot happen in daily data, but a chart would add them up.
    labels = [f"{date} " if dates[:i].count(date) else date for i, date in enumerate(dates)]
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": labels,
        "x": rounded(losses[order]),
        "marker": {"color": series(1)},
        "text": [f"counts as {tail.tilt[place] * n:.1f} days" for place in order],
        "textposition": "auto",
        "insidetextfont": {"color": colour("on-series")},
        "customdata": [[round(float(100 * share[place]), 3)] for place in order],
        "hovertemplate": "%{y}: loss %{x:.2%}, %{text}, %{customdata[0]} % of the risk<extra></extra>",
    }
    first = int(order[0])
    text = (
        f"The {len(order)} days with the largest tilt carry {percent(float(share[order].sum()))} of the risk. First is "
        f"{dates[0]}: a loss of {percent(float(losses[first]), 2)} that counts as {tail.tilt[first] * n:.1f} "
        "ordinary days. "
        "Where tilts are equal, as in the tail of CVaR, the larger loss comes first."
    )
    layout = {
        "yaxis": axis("", type="category", autorange="reversed"),
        "xaxis": axis("Loss on the day", tickformat=".0%"),
    }
    rows = tuple(
        (date, percent(float(losses[place]), 2), f"{tail.tilt[place] * n:.2f}", percent(float(share[place]), 2))
        for date, place in zip(dates, order, strict=True)
    )
    table = Table(("Day", "Loss", "Counts as days", "Share of risk"), rows, frozenset({1, 2, 3}))
    return Chart("days", "Worst days by tilt", text, [bars], layout, table, 110 + 24 * len(order))
