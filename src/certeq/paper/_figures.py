"""A figure as PNG, by matplotlib without a screen."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np

from certeq.paper._experiment import Figure, Panel, Series

# The light palette of the report's style sheet.
PALETTE = ("#0072b2", "#d55e00", "#008a63", "#b35a8c", "#cf8d00", "#3b9edb", "#8a7f00", "#5b4db0")
MUTED = "#8a949f"
OTHERS = "all others"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a949f",
    "axes.labelcolor": "#566270",
    "xtick.color": "#566270",
    "ytick.color": "#566270",
    "text.color": "#1b2530",
    "axes.grid": True,
    "grid.color": "#e8ebef",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "certeq",
}


def as_png(figure: Figure) -> bytes:
    """Panels side by side, each with its legend below."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Drawing
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'certeq[paper]'.") from None
    with matplotlib.rc_context(_STYLE):
        most = max(len(_labels(panel)) for panel in figure.panels)
        named = any(named_numbers(panel) is not None for panel in figure.panels)
        width = 5.4 * len(figure.panels) if len(figure.panels) > 1 else 7.2
        drawing = Drawing(figsize=(width, 3.6 + 0.17 * -(-most // 3) + 0.7 * named), dpi=130, layout="constrained")
        FigureCanvasAgg(drawing)
        drawing.suptitle(_words(figure.title), x=0.01, ha="left", fontsize=12, fontweight="bold")
        parts = drawing.subfigures(1, len(figure.panels), squeeze=False)[0]
        for part, panel in zip(parts, figure.panels, strict=True):
            _draw(part.add_subplot(), panel)
            if _labels(panel):
                part.legend(loc="outside lower left", ncols=3, fontsize=7.5, handlelength=1.6)
        stream = io.BytesIO()
        drawing.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def _draw(axes: Any, panel: Panel) -> None:
    bottoms: dict[Any, float] = {}
    bars = [series for series in panel.series if series.kind == "bar"]
    layers = [series for series in panel.series if series.kind == "stack"]
    names = named_numbers(panel)
    if layers and names is None:
        colors = [tone(index, series.label) for index, series in enumerate(layers)]
        areas = axes.stackplot(
            layers[0].x, [series.y for series in layers], labels=[_words(s.label) for s in layers],
            colors=[color for color, _ in colors], linewidth=0,
        )  # fmt: skip
        for area, (_, strength) in zip(areas, colors, strict=True):
            area.set_alpha(strength)
    for index, series in enumerate(panel.series):
        color, strength = tone(index, series.label)
        x: Any = np.array([names[str(key)] for key in series.x], dtype=float) if names is not None else _numbers(series)
        y = np.asarray(series.y, dtype=float)
        if series.kind == "stack" and names is not None:
            bottom = np.array([bottoms.get(key, 0.0) for key in x])
            axes.bar(x, y, 0.78, bottom=bottom, label=_words(series.label), color=color, alpha=strength, linewidth=0)
            bottoms.update(zip(x, bottom + y, strict=True))
        elif series.kind == "bar":
            width = 0.8 / len(bars) * (1.0 if names is not None or len(x) < 2 else float(np.min(np.diff(np.sort(x)))))
            shift = (bars.index(series) - 0.5 * (len(bars) - 1)) * width
            errors = _reach(series) if series.low is not None and series.high is not None else None
            axes.bar(
                x + shift, y, width, yerr=errors, label=_words(series.label), color=color, alpha=strength, capsize=2
            )
        elif series.kind == "points":
            axes.plot(x, y, "o", ms=3.2, mew=0, label=_words(series.label), color=color, alpha=0.8 * strength)
        elif series.kind == "errorbars":
            axes.errorbar(
                x, y, yerr=_reach(series), fmt="o-", ms=2.4, capsize=2.5, elinewidth=1.0, linewidth=1.2,
                label=_words(series.label), color=color, alpha=strength,
            )  # fmt: skip
        elif series.kind == "band":
            if series.low is None or series.high is None:
                raise ValueError(f"the band {series.label!r} needs low and high.")
            axes.fill_between(x, series.low, series.high, color=color, alpha=0.2, linewidth=0)
            axes.plot(x, y, label=_words(series.label), color=color, linewidth=1.6)
        elif series.kind in ("line", "dashed"):
            dashed = series.kind == "dashed"
            axes.plot(
                x, y, label=_words(series.label), color=color, alpha=strength, linewidth=1.4,
                linestyle=("--", ":", "-.")[index % 3] if dashed else "-",
            )  # fmt: skip
    axes.set(title=_words(panel.title), xlabel=_words(panel.x), ylabel=_words(panel.y))
    if panel.log_x and names is None:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    if names is not None:
        axes.set_xticks(list(names.values()), [_words(name) for name in names], rotation=40, ha="right")
        axes.grid(visible=False, axis="x")
    elif layers:
        axes.margins(x=0, y=0)
    if is_dated(panel):
        axes.tick_params(axis="x", labelrotation=0)
        from matplotlib import dates

        locator = dates.AutoDateLocator(maxticks=7)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _words(text: str) -> str:
    """Text as it is: matplotlib would read dollars as mathematics."""
    return text.replace("$", r"\$")


def _labels(panel: Panel) -> list[str]:
    return [series.label for series in panel.series if series.label]


def _reach(series: Series) -> Any:
    """Lengths of the error bars, below and above."""
    if series.low is None or series.high is None:
        raise ValueError(f"the error bars {series.label!r} need low and high.")
    y = np.asarray(series.y, dtype=float)
    return np.abs(np.vstack([y - np.asarray(series.low), np.asarray(series.high) - y]))


def _numbers(series: Series) -> Any:
    if series.x and isinstance(series.x[0], str):
        return np.array(series.x, dtype="datetime64[D]")
    return np.asarray(series.x, dtype=float)


def tone(index: int, label: str) -> tuple[str, float]:
    """Color and strength of the n-th series; the second round of colors is paler, and what is left over grey."""
    if label == OTHERS:
        return MUTED, 0.5
    return PALETTE[index % len(PALETTE)], 1.0 if index < len(PALETTE) else 0.5


def is_dated(panel: Panel) -> bool:
    """Whether the horizontal axis shows days."""
    texts = [str(x) for series in panel.series for x in series.x[:1] if isinstance(x, str)]
    return bool(texts) and all(_DAY.fullmatch(text) for text in texts)


def named_numbers(panel: Panel) -> dict[str, int] | None:
    """Where each name stands on an axis of names; None where it shows numbers or days."""
    if is_dated(panel) or not any(isinstance(x, str) for series in panel.series for x in series.x[:1]):
        return None
    names: dict[str, int] = {}
    for series in panel.series:
        for x in series.x:
            names.setdefault(str(x), len(names))
    return names
