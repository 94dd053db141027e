"""Charts over assets: who holds what, and which holdings carry the risk."""

from __future__ import annotations

import numpy as np

from certeq.report._chart import Chart, Table, axis, colour, percent, rounded, series
from certeq.report._labels import distinct, in_chart
from certeq.report._metrics import Floats
from certeq.report._study import Study, Tail

MOST = 25  # assets drawn one by one; the rest are added up


def weights_chart(study: Study) -> Chart:
    """Bars for one strategy, a shaded table of strategies by assets for several."""
    optimized = [s for s in study.held if not s.is_benchmark]
    return _heat_chart(study) if len(optimized) > 1 else _bar_chart(study)


def _bar_chart(study: Study) -> Chart:
    weights = _held(study)
    labels, (values,) = gathered(study.assets, [weights], np.abs(weights))
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [in_chart(label) for label in labels],
        "x": rounded(values),
        "marker": {"color": series(0)},
        "text": [percent(value) for value in values],
        "textposition": "auto",
        "insidetextfont": {"color": colour("on-series")},
        "hovertemplate": "%{y}: %{x:.2%}<extra></extra>",
    }
    held = int((np.abs(weights) > 1e-6).sum())
    top = int(np.abs(weights).argmax())
    text = (
        f"{study.focus} holds {held} of {weights.size} assets; the largest position is "
        f"{distinct([study.assets[top]])[0]} with {percent(float(weights[top]))}."
    )
    layout = {"yaxis": axis("", type="category", autorange="reversed"), "xaxis": axis("Weight", tickformat=".0%")}
    rows = tuple(zip(labels, [percent(value, 2) for value in values], strict=True))
    return Chart(
        "weights", "Weights", text, [bars], layout, Table(("Asset", "Weight"), rows, frozenset({1})), _height(labels)
    )


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
        "colorscale": [[0.0, colour("heat-low")], [1.0, colour("heat-high")]],
        "xgap": 1,
        "ygap": 1,
        "showscale": False,
        "hovertemplate": "%{x}<br>%{y}: %{z:.2%}<extra></extra>",
    }
    counts = {s.name: int((np.abs(np.asarray(s.weights)) > 1e-6).sum()) for s in study.held}
    said = ", ".join(f"{name} {count}" for name, count in counts.items())
    layout = {
        "xaxis": axis("", type="category", side="top", tickangle=-45),
        "yaxis": axis("", type="category", autorange="reversed"),
    }
    rows = tuple((label, *[percent(cell) for cell in row]) for label, row in zip(labels, grid, strict=True))
    table = Table(("Asset", *names), rows, frozenset(range(1, len(names) + 1)))
    text = f"Weights in percent, largest holdings first. Number of assets held: {said}."
    return Chart("weights", "Weights", text, [heat], layout, table, 140 + 24 * len(labels))


def contributions_chart(study: Study, tail: Tail) -> Chart:
    """Each asset's part of the OCE beside its weight: who holds more risk than money."""
    weights, parts = _held(study), study.focused.contributions
    what = "OCE less OCE(0)"
    if parts is None:  # weights from elsewhere: Euler's rule, w_j E_q[loss_j]
        parts = weights * (tail.tilt @ -study.fitted_on.to_numpy(dtype=float))
        what = "expected loss under the tilt"
    total = float(parts.sum())
    shares = parts / total if total != 0.0 else np.full_like(parts, np.nan)
    labels, (risk, money) = gathered(study.assets, [shares, weights], np.abs(shares) + 1e-9 * np.abs(weights))
    names = [in_chart(label) for label in labels]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": rounded(values),
            "marker": {"color": tone},
            "hovertemplate": f"%{{y}}: %{{x:.1%}} of the {name.lower()}<extra></extra>",
        }
        for name, values, tone in (("Risk", risk, series(1)), ("Money", money, colour("muted")))
    ]
    first, second = labels[0], labels[1] if len(labels) > 1 else labels[0]
    text = (
        f"Each asset's share of the {what}, {percent(total, 3)} a day, beside its share of the money. "
        f"{first} carries {percent(float(risk[0]))} of the risk with {percent(float(money[0]))} of the money, "
        f"{second} {percent(float(risk[min(1, len(risk) - 1)]))}. The shares add up to 100 %; a negative one hedges."
    )
    if study.focused.utility is not None and study.focused.utility.is_coherent and np.abs(risk - money).max() < 1e-3:
        text += " That risk and money agree is no accident: at the least risk no holding is riskier at the margin."
    layout = {
        "barmode": "group",
        "yaxis": axis("", type="category", autorange="reversed"),
        "xaxis": axis("Share", tickformat=".0%"),
    }
    rows = tuple((a, percent(float(r)), percent(float(m))) for a, r, m in zip(labels, risk, money, strict=True))
    table = Table(("Asset", "Share of risk", "Share of money"), rows, frozenset({1, 2}))
    return Chart("contributions", "Risk contributions", text, traces, layout, table, _height(labels, 26))


def gathered(assets: list[str], columns: list[Floats], size: Floats) -> tuple[list[str], list[Floats]]:
    """The assets of largest ``size``, in that order, and the rest added up in one last row."""
    order = np.argsort(-np.nan_to_num(size), kind="stable")
    order = order[np.nan_to_num(size)[order] > 1e-6] if size.size > 12 else order
    if order.size == 0:
        order = np.arange(min(MOST, size.size))
    shown = order[:MOST]
    labels = distinct(assets[place] for place in shown)
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
