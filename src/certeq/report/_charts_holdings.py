"""Charts of what is held: who holds what, which holdings carry the risk, and on which days it falls due."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.report._chart import (
    Chart,
    Node,
    PageTable,
    axis,
    color,
    day,
    flat_bars,
    line,
    percent,
    rounded,
    series,
)
from certeq.report._study import DUST, Study, Tail, risk_name
from certeq.report.metrics import Floats
from certeq.report.page import distinct, in_chart
from certeq.utilities import CVaR, Risk

MOST = 25  # assets drawn one by one; the rest are added up
BINS = 90
DAYS = 15
_LEAST_COUNT = 0.05  # of a day by weight: less is shown as 0.0
_INSIDE: Node = {"textposition": "auto", "insidetextfont": {"color": color("on-series")}}


def weights_chart(study: Study) -> Chart:
    """Bars for one strategy, a shaded table of strategies by assets for several."""
    optimized = [s for s in study.held if not s.is_benchmark]
    return _heat_chart(study) if len(optimized) > 1 else _bar_chart(study)


def _bar_chart(study: Study) -> Chart:
    weights = _held(study)
    labels, (values,) = gathered(study.assets, [weights], np.abs(weights))
    names, hover = [in_chart(label) for label in labels], "%{y}: %{x:.2%}<extra></extra>"
    trace = flat_bars(names, values, series(0), hover, text=[percent(value) for value in values], **_INSIDE)
    held = int((np.abs(weights) > DUST).sum())
    top = int(np.abs(weights).argmax())
    text = (
        f"{study.focus} holds {held} of {weights.size} assets; the largest position is "
        f"{distinct([study.assets[top]])[0]} with {percent(float(weights[top]))}."
    )
    layout = {"yaxis": axis("", type="category", autorange="reversed"), "xaxis": axis("Weight", tickformat=".0%")}
    rows = tuple(zip(labels, [percent(value, 2) for value in values], strict=True))
    table = PageTable(("Asset", "Weight"), rows, frozenset({1}))
    return Chart("weights", "Weights", text, [trace], layout, table, _height(labels))


def _heat_chart(study: Study) -> Chart:
    names = [strategy.name for strategy in study.held]
    columns = [np.asarray(strategy.weights) for strategy in study.held]
    labels, values = gathered(study.assets, columns, np.abs(np.array(columns)).mean(axis=0))
    grid = np.array(values).T
    heat = {
        "type": "heatmap",
        "x": [in_chart(name) for name in names],
        "y": [in_chart(label) for label in labels],
        "z": [rounded(row, 4) for row in grid],
        # A cell without a position says nothing: only what is held gets a number.
        "text": [[f"{100 * cell:.0f}" if abs(cell) >= 0.005 else "" for cell in row] for row in grid],
        "texttemplate": "%{text}",
        "zmin": min(0.0, float(grid.min())),
        "colorscale": [[0.0, color("heat-low")], [1.0, color("heat-high")]],
        "xgap": 1,
        "ygap": 1,
        "showscale": False,
        "hovertemplate": "%{x}<br>%{y}: %{z:.2%}<extra></extra>",
    }
    counts = {s.name: int((np.abs(np.asarray(s.weights)) > DUST).sum()) for s in study.held}
    said = ", ".join(f"{name} {count}" for name, count in counts.items())
    layout = {
        "xaxis": axis("", type="category", side="top", tickangle=-45),
        "yaxis": axis("", type="category", autorange="reversed"),
    }
    rows = tuple((label, *[percent(cell) for cell in row]) for label, row in zip(labels, grid, strict=True))
    table = PageTable(("Asset", *names), rows, frozenset(range(1, len(names) + 1)))
    text = f"Weights in percent, largest holdings first. Number of assets held: {said}."
    return Chart("weights", "Weights", text, [heat], layout, table, 140 + 24 * len(labels))


def days_differ(tail: Tail, utility: Risk | None = None) -> bool:
    """Whether the worst days weigh differently: in the tail of CVaR all weigh the same, which shows nothing."""
    if isinstance(utility, CVaR):
        return False
    top = _heaviest(tail)
    if tail.threshold is not None:
        # Losses at the threshold share what weight is left between them, in parts that mean nothing.
        away = np.abs(tail.losses[top] - tail.threshold)
        top = top[away > 1e-9 * np.ptp(tail.losses)]
    counts = tail.tilt[top] * tail.tilt.size
    return bool(counts.size and np.ptp(counts) > 1e-6 * max(1.0, float(counts.max())))


def _heaviest(tail: Tail) -> NDArray[np.intp]:
    """Positions of the days of largest weight, the larger loss first among equals; none that counts as 0.0 days."""
    counts = tail.tilt * tail.tilt.size
    order = np.lexsort((-tail.losses, -np.round(counts, 9)))[:DAYS]
    return np.asarray(order[counts[order] >= _LEAST_COUNT], dtype=np.intp)


def shares_differ(study: Study, tail: Tail) -> bool:
    """Whether risk is shared otherwise than money; at the least coherent risk both agree by theorem."""
    weights, parts = _held(study), study.focused.contributions
    if parts is None:
        parts = weights * (tail.tilt @ -study.fitted_on.to_numpy(dtype=float))
    total = float(parts.sum())
    return total == 0.0 or bool(np.abs(parts / total - weights / weights.sum()).max() >= 1e-3)


def contributions_chart(study: Study, tail: Tail) -> Chart:
    """Each asset's part of the OCE beside its weight: who holds more risk than money."""
    weights, parts = _held(study), study.focused.contributions
    what = "OCE less OCE(0)"
    if parts is None:  # weights that came with none: Euler's rule, w_j E_q[loss_j]
        parts = weights * (tail.tilt @ -study.fitted_on.to_numpy(dtype=float))
        what = "expected loss under the worst-case weights"
    total = float(parts.sum())
    shares = parts / total if total != 0.0 else np.full_like(parts, np.nan)
    labels, (risk, money) = gathered(study.assets, [shares, weights], np.abs(shares) + 1e-9 * np.abs(weights))
    names = [in_chart(label) for label in labels]
    traces = [
        flat_bars(names, values, tone, f"%{{y}}: %{{x:.1%}} of the {name.lower()}<extra></extra>", name=name)
        for name, values, tone in (("Risk", risk, series(1)), ("Money", money, color("muted")))
    ]
    first, second = labels[0], labels[1] if len(labels) > 1 else labels[0]
    text = (
        f"Each asset's share of the {what}, {percent(total, 3)} a {study.frequency.period}, beside its share of the "
        f"money. {first} carries {percent(float(risk[0]))} of the risk with {percent(float(money[0]))} of the money, "
        f"{second} {percent(float(risk[min(1, len(risk) - 1)]))}. The shares add up to 100 %; a negative one hedges."
    )
    layout = {
        "barmode": "group",
        "yaxis": axis("", type="category", autorange="reversed"),
        "xaxis": axis("Share", tickformat=".0%"),
    }
    rows = tuple((a, percent(float(r)), percent(float(m))) for a, r, m in zip(labels, risk, money, strict=True))
    table = PageTable(("Asset", "Share of risk", "Share of money"), rows, frozenset({1, 2}))
    return Chart("contributions", "Risk contributions", text, traces, layout, table, _height(labels, 26))


def gathered(assets: list[str], columns: list[Floats], size: Floats) -> tuple[list[str], list[Floats]]:
    """The assets of largest ``size``, in that order, and the rest added up in one last row."""
    order = np.argsort(-np.nan_to_num(size), kind="stable")
    order = order[np.nan_to_num(size)[order] > 1e-6] if size.size > 12 else order
    if order.size == 0:
        order = np.arange(min(MOST, size.size))
    shown = order[:MOST]
    labels = distinct(assets[k] for k in shown)
    values = [column[shown] for column in columns]
    rest = np.setdiff1d(np.arange(size.size), shown)
    if any(np.abs(column[rest]).sum() > 1e-6 for column in columns):
        labels.append(f"{rest.size} others")
        values = [np.append(kept, column[rest].sum()) for kept, column in zip(values, columns, strict=True)]
    return labels, values


def _held(study: Study) -> Floats:
    return np.asarray(study.focused.weights, dtype=np.float64)


def _height(labels: list[str], each: int = 22) -> int:
    return max(240, 110 + each * len(labels))


def loss_chart(study: Study, tail: Tail) -> Chart:
    """The losses as they came and as the tilt reweighs them, with t* and the OCE."""
    losses, n = tail.losses, tail.losses.size
    t = tail.value if tail.threshold is None else tail.threshold
    edges = _edges(losses, t)
    days, _ = np.histogram(losses, edges)
    tilted, _ = np.histogram(losses, edges, weights=tail.tilt)
    centers = 0.5 * (edges[1:] + edges[:-1])
    traces: list[Node] = [
        {
            "type": "bar",
            "name": name,
            "x": rounded(centers),
            "y": rounded(heights),
            "width": float(f"{edges[1] - edges[0]:.5g}"),
            "marker": {"color": tone, "line": {"width": 0}},
            "opacity": opacity,
            "hovertemplate": f"loss near %{{x:.2%}}: %{{y:.2%}} of {what}<extra></extra>",
        }
        for name, heights, tone, opacity, what in (
            ("By count", days / n, color("muted"), 0.75, f"the {study.frequency.plural}"),
            ("By worst-case weight (tilt)", tilted, series(1), 0.65, "the weight"),
        )
    ]
    top = float(max((days / n).max(), tilted.max()))
    t_star = "VaR" if isinstance(study.focused.utility, CVaR) else "t*"
    risk = risk_name(study.focused.utility)
    marks = [(risk, tail.value, series(1), "solid")]
    if tail.threshold is not None:
        marks.insert(0, (t_star, t, series(0), "dash"))
    for name, at, tone, dash in marks:
        label, hover = f"{name} = {percent(at, 2)}", f"{name} = {percent(at, 3)}<extra></extra>"
        traces.append(line(label, [at, at], [0.0, 1.05 * top], {"color": tone, "dash": dash, "width": 2}, hover))
    beyond = losses > t
    order = np.argsort(losses)
    cumulated = np.cumsum(tail.tilt[order])
    # Extreme days that carry next to nothing would squeeze the rest; they stay in reach by zooming out.
    far = float(losses[order][min(n - 1, int(np.searchsorted(cumulated, 0.995)))])
    reach = [
        min(float(np.quantile(losses, 0.001)), t),
        max(float(np.quantile(losses, 0.999)), far + edges[1] - edges[0], 1.1 * tail.value, 1.1 * t),
    ]
    layout = {
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": axis(f"{study.frequency.adjective.capitalize()} loss", tickformat=".1%", range=reach),
        "yaxis": axis("Share", tickformat=".0%"),
    }
    ess, periods = 1.0 / float((tail.tilt**2).sum()), study.frequency.plural
    often = study.frequency.adjective.capitalize()
    where = (
        f"{'' if t_star == 'VaR' else 'The threshold '}{t_star} is {percent(t, 2)} and {risk} {percent(tail.value, 2)}."
    )
    if tail.threshold is None:
        where = f"The risk is {percent(tail.value, 2)}."
    text = (
        f"{often} losses of {study.focus} on the data it was fitted on. {where} {int(beyond.sum())} of {n} {periods} "
        f"({percent(float(beyond.mean()))}) lie beyond {'it' if tail.threshold is None else t_star}; they carry "
        f"{percent(float(tail.tilt[beyond].sum()), 0)} of the worst-case weights (tilt). The risk rests on about "
        f"{ess:.0f} {periods} (effective sample size); the largest loss was {percent(float(losses.max()), 2)}."
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
    table = PageTable(("Quantile", "Loss", "Loss by worst-case weight"), rows, frozenset({1, 2}))
    return Chart("losses", "Losses and worst-case weights", text, traces, layout, table, 400)


def _edges(losses: Floats, threshold: float) -> Floats:
    """Bins of equal width with an edge at t*, so that none is half tail and half not."""
    low, high = float(losses.min()), float(losses.max())
    width = (high - low) / min(BINS, max(10, losses.size // 10)) or max(1e-6, abs(low))
    return threshold + width * np.arange(np.floor((low - threshold) / width), np.ceil((high - threshold) / width) + 1)


def days_chart(study: Study, tail: Tail) -> Chart:
    """The days that matter most to this utility, by tilt and then by loss."""
    losses, n = tail.losses, tail.losses.size
    order = _heaviest(tail)
    carried = tail.tilt * losses
    total = float(carried.sum())
    share = carried / total if total != 0.0 else np.full(n, np.nan)
    period, periods = study.frequency.period, study.frequency.plural
    dates = [day(study.fitted_on.index[k]) for k in order]
    # Two rows of one date cannot happen in a panel that was checked, but a chart would add them up.
    labels = [f"{date} " if dates[:i].count(date) else date for i, date in enumerate(dates)]
    text = [f"counts as {tail.tilt[k] * n:.1f} {periods}" for k in order]
    data = [[round(float(100 * share[k]), 3)] for k in order]
    hover = "%{y}: loss %{x:.2%}, %{text}, %{customdata[0]} % of the risk<extra></extra>"
    trace = flat_bars(labels, losses[order], series(1), hover, text=text, customdata=data, **_INSIDE)
    first = int(order[0])
    caption = (
        f"The {len(order)} {periods} with the largest worst-case weights (tilt) carry "
        f"{percent(float(share[order].sum()))} of the risk. "
        f"First is {dates[0]}: a loss of {percent(float(losses[first]), 2)} that counts as "
        f"{tail.tilt[first] * n:.1f} ordinary {periods}. Where weights are equal, the larger loss comes first."
    )
    layout = {
        "yaxis": axis("", type="category", autorange="reversed"),
        "xaxis": axis(f"Loss of the {period}", tickformat=".0%"),
    }
    rows = tuple(
        (date, percent(float(losses[k]), 2), f"{tail.tilt[k] * n:.2f}", percent(float(share[k]), 2))
        for date, k in zip(dates, order, strict=True)
    )
    table = PageTable(
        (period.capitalize(), "Loss", f"Counts as {periods}", "Share of risk"), rows, frozenset({1, 2, 3})
    )
    return Chart("days", f"Worst {periods} by weight", caption, [trace], layout, table, 110 + 24 * len(order))
