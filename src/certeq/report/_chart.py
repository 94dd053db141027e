"""A chart as plain data: what Plotly draws, and the words and numbers that say the same without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Node = dict[str, Any]
SERIES = 8  # distinct colors; every palette in the style sheet has as many


@dataclass(frozen=True)
class PageTable:
    """Rows of text; ``numeric`` columns are set flush right."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Chart:
    """One figure of the report.

    ``summary`` is its caption: what it shows, with the numbers a reader would take from it. ``table`` holds the data
    behind it for whoever cannot see the drawing. Colors are given as `color` nodes, which the page fills in from
    its style sheet, so that one figure serves light and dark. ``hint`` says what the mouse can do, and is not printed.
    """

    key: str
    title: str
    summary: str
    traces: list[Node]
    layout: Node
    table: PageTable | None = None
    height: int = 380
    tall_on_phone: bool = False
    shared: Node = field(default_factory=dict)
    hint: str = ""

    def as_data(self) -> Node:
        """What the page's script needs."""
        return {
            "key": self.key,
            "traces": self.traces,
            "layout": self.layout,
            "height": self.height,
            "tall": self.tall_on_phone,
        }


def color(name: str) -> Node:
    """A color of the page's style sheet, by the name of its custom property."""
    return {"$css": f"--{name}"}


def series(index: int) -> Node:
    """The color of the n-th line, area or bar; they repeat after `SERIES`."""
    return color(f"series-{index % SERIES + 1}")


def shared(name: str) -> Node:
    """A list stored once for several charts."""
    return {"$ref": name}


def axis(title: str, **more: Any) -> Node:
    """An axis with as much margin as its labels need."""
    whole = (
        {"hoverformat": "%Y-%m-%d"} if more.get("type") == "date" else {}
    )  # zoomed out, Plotly names the month alone
    return {"title": {"text": title, "standoff": 8}, "automargin": True, **whole, **more}


def line(name: str, x: Any, y: Any, style: Node, hover: str, **more: Any) -> Node:
    """A curve; ``style`` is its color, dash and width, ``hover`` what is shown under the pointer."""
    kind = {"type": "scatter", "mode": "lines", "name": name, "line": style, "hovertemplate": hover}
    return {**kind, "x": x, "y": rounded(y), **more}


def flat_bars(labels: list[str], values: Any, tone: Node, hover: str, **more: Any) -> Node:
    """One bar along the page for each label."""
    kind = {"type": "bar", "orientation": "h", "marker": {"color": tone}, "hovertemplate": hover}
    return {**kind, "y": labels, "x": rounded(values), **more}


def log_ticks(low: float, high: float) -> Node:
    """1, 2 and 5 of every decade between, written out: Plotly's own logarithmic ticks show bare digits."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [m * 10.0**d for d in decades for m in (1, 2, 5) if 0.999 * low <= m * 10.0**d <= 1.001 * high]
    return {"tickvals": rounded(ticks), "ticktext": [f"{tick:.3g}" for tick in ticks], "tickangle": 0}


def rounded(values: Any, digits: int = 5) -> list[float | None]:
    """Numbers to so many significant digits (a screen shows three), None where they are not finite."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def thin(n: int, keep: Sequence[int] = (), most: int = 4000) -> np.ndarray[Any, np.dtype[np.intp]]:
    """At most about ``most`` of n indices, evenly spread, the ends and ``keep`` among them."""
    if n <= most:
        return np.arange(n)
    even = np.linspace(0, n - 1, most).astype(np.intp)
    return np.unique(np.concatenate([even, np.asarray(keep, dtype=np.intp)]))


def day(when: object) -> str:
    """A date; the hour too, where there is one."""
    text = str(when)
    return text[:10] if text[10:] in ("", " 00:00:00") else text


def percent(value: float, digits: int = 1) -> str:
    """A share in percent."""
    return "n/a" if not np.isfinite(value) else f"{100 * value:.{digits}f} %"


def number(value: float) -> str:
    """A ratio."""
    return "n/a" if not np.isfinite(value) else f"{value:.2f}"
