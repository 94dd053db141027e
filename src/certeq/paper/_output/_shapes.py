"""What both ways of drawing a figure must agree on: colours, and whether an axis shows numbers, days or names."""

from __future__ import annotations

import re

from certeq.paper._experiment import Panel

# The light palette of the report's style sheet.
PALETTE = ("#0072b2", "#d55e00", "#008a63", "#b35a8c", "#cf8d00", "#3b9edb", "#8a7f00", "#5b4db0")
MUTED = "#8a949f"
OTHERS = "all others"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def tone(place: int, label: str) -> tuple[str, float]:
    """Colour and strength of the n-th series; the second round of colours is paler, and what is left over grey."""
    if label == OTHERS:
        return MUTED, 0.5
    return PALETTE[place % len(PALETTE)], 1.0 if place < len(PALETTE) else 0.5


def is_dated(panel: Panel) -> bool:
    """Whether the horizontal axis shows days."""
    texts = [str(x) for series in panel.series for x in series.x[:1] if isinstance(x, str)]
    return bool(texts) and all(_DAY.fullmatch(text) for text in texts)


def named_places(panel: Panel) -> dict[str, int] | None:
    """Where each name stands on an axis of names; None where it shows numbers or days."""
    if is_dated(panel) or not any(isinstance(x, str) for series in panel.series for x in series.x[:1]):
        return None
    names: dict[str, int] = {}
    for series in panel.series:
        for x in series.x:
            names.setdefault(str(x), len(names))
    return names
