"""A figure as an interactive page: Plotly beside it, once for all figures, and nothing fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import numpy as np

from certeq.paper._experiment import Figure, Panel, Series
from certeq.paper._figures import OTHERS, PALETTE, is_dated, named_places
from certeq.report._chart import Chart, Node, axis, color, log_ticks, rounded, series
from certeq.report._page import asset, data_block, in_chart, in_page

PLOTLY = "plotly.min.js"
_DASHES = ("dash", "dot", "dashdot")
_GRID = (
    ".panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:18px}"
    "body{max-width:1280px}"
)


def as_html(figure: Figure) -> str:
    """The page of one figure; it expects Plotly's script one folder up."""
    charts = [_chart(f"panel-{place}", panel) for place, panel in enumerate(figure.panels, 1)]
    script = asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'self' file: 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    shown = "".join(
        f"<figure><h2>{in_page(chart.title)}</h2>"
        f'<div class="chart" data-chart="{chart.key}" role="img" aria-label="{in_page(figure.alt)}" '
        f'style="height:{chart.height}px"></div></figure>'
        for chart in charts
    )
    data = {"shared": {}, "charts": [chart.as_data() for chart in charts]}
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{in_page(figure.title)}</title>\n<style>{asset('page.css')}{_GRID}</style>\n</head>\n<body>\n"
        f'<header><h1>{in_page(figure.title)}</h1><p class="lead">{in_page(figure.alt)}</p></header>\n'
        '<nav aria-label="Up"><a href="../index.html">All experiments</a></nav>\n'
        f'<main class="panels">{shown}</main>\n'
        f'<noscript><p>The chart needs JavaScript; <a href="{in_page(figure.name)}.png">the picture</a> does not.</p>'
        "</noscript>\n"
        f'<script type="application/json" id="study">{data_block(data)}</script>\n'
        f'<script src="../{PLOTLY}"></script>\n<script>{script}</script>\n</body>\n</html>\n'
    )


def _chart(key: str, panel: Panel) -> Chart:
    named = named_places(panel)
    traces: list[Node] = []
    for place, curve in enumerate(panel.series):
        traces += _traces(place, curve, named is not None)
    layout: Node = {
        "xaxis": axis(in_chart(panel.x), **_scale(panel, "x", named is not None)),
        "yaxis": axis(in_chart(panel.y), **_scale(panel, "y", False)),
        "hovermode": "closest" if named is not None else "x unified",
        "barmode": "stack" if any(curve.kind == "stack" for curve in panel.series) else "group",
    }
    return Chart(key, panel.title, "", traces, layout, None, 440, True)


def _traces(place: int, curve: Series, named: bool) -> list[Node]:
    tint = color("muted") if curve.label == OTHERS else series(place)
    strength = 1.0 if place < len(PALETTE) else 0.55
    x: list[Any] = [in_chart(name) for name in curve.x] if curve.x and isinstance(curve.x[0], str) else rounded(curve.x)
    base: Node = {"name": in_chart(curve.label), "x": x, "y": rounded(curve.y), "opacity": strength}
    if curve.kind == "bar" or (curve.kind == "stack" and named):
        bar: Node = {**base, "type": "bar", "marker": {"color": tint}}
        bar["hovertemplate"] = f"{in_chart(curve.label)}: %{{y:.4~g}}<extra>%{{x}}</extra>"
        return [bar | _error_bars(curve)]
    if curve.kind == "stack":
        return [{
            **base, "type": "scatter", "mode": "lines", "stackgroup": "all", "line": {"color": tint, "width": 0.5},
            "hovertemplate": "%{y:.3f}",
        }]  # fmt: skip
    if curve.kind == "points":
        return [{
            **base, "type": "scatter", "mode": "markers", "marker": {"color": tint, "size": 5},
            "hovertemplate": "%{y:.5~g}",
        }]  # fmt: skip
    if curve.kind == "errorbars":
        return [{
            **base, "type": "scatter", "mode": "lines+markers", "marker": {"color": tint, "size": 5},
            "line": {"color": tint, "width": 1.4}, "hovertemplate": "%{y:.5~g}", **_error_bars(curve),
        }]  # fmt: skip
    dash = _DASHES[place % 3] if curve.kind == "dashed" else "solid"
    line = {
        **base, "type": "scatter", "mode": "lines", "line": {"color": tint, "width": 1.8, "dash": dash},
        "hovertemplate": "%{y:.5~g}",
    }  # fmt: skip
    if curve.kind != "band" or curve.low is None or curve.high is None:
        return [line]
    edge: Node = {
        "type": "scatter", "mode": "lines", "x": x, "line": {"color": tint, "width": 0}, "hoverinfo": "skip",
        "showlegend": False, "legendgroup": f"band-{place}",
    }  # fmt: skip
    red, green, blue = (int(PALETTE[place % len(PALETTE)][i : i + 2], 16) for i in (1, 3, 5))
    shade = f"rgba({red},{green},{blue},0.2)"  # on light and dark alike; Plotly's own is too heavy where bands overlap
    return [
        {**edge, "y": rounded(curve.low)},
        {**edge, "y": rounded(curve.high), "fill": "tonexty", "fillcolor": shade},
        {**line, "legendgroup": f"band-{place}"},
    ]


def _error_bars(curve: Series) -> Node:
    if curve.low is None or curve.high is None:
        return {}
    y = np.asarray(curve.y, dtype=float)
    above, below = rounded(np.asarray(curve.high) - y), rounded(y - np.asarray(curve.low))
    return {"error_y": {"type": "data", "symmetric": False, "array": above, "arrayminus": below}}


def _scale(panel: Panel, which: str, named: bool) -> Node:
    if which == "x" and named:
        return {"type": "category", "tickangle": -40}
    if which == "x" and is_dated(panel):
        return {"type": "date"}
    if not (panel.log_x if which == "x" else panel.log_y):
        return {}
    parts = [getattr(curve, which) for curve in panel.series]
    if which == "y":
        parts += [edge for curve in panel.series for edge in (curve.low, curve.high) if edge is not None]
    numbers = np.concatenate([np.asarray(part, dtype=float) for part in parts])
    numbers = numbers[np.isfinite(numbers) & (numbers > 0.0)]
    if numbers.size and numbers.max() / numbers.min() < 1e4:
        return {"type": "log", **log_ticks(float(numbers.min()), float(numbers.max()))}
    return {"type": "log", "exponentformat": "power", "dtick": 1}
