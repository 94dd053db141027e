"""Names from a file, made harmless and short enough to read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from html import escape

LONGEST = 24


def plain(name: object, longest: int = LONGEST) -> str:
    """One line of visible text: control and direction-changing characters become spaces, the rest is cut short."""
    text = "".join(" " if unicodedata.category(char).startswith(("C", "Z")) else char for char in str(name))
    text = " ".join(text.split()) or "(no name)"
    return text if len(text) <= longest else text[: longest - 1] + "…"


def distinct(names: Iterable[object], longest: int = LONGEST) -> list[str]:
    """`plain` names, numbered where cutting made two alike: a chart would add up what shares a label."""
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        label = plain(name, longest)
        while label in seen:
            seen[label] += 1
            label = f"{plain(name, longest - 5)} ({seen[label]})"
        seen[label] = 1
        labels.append(label)
    return labels


def in_chart(name: object) -> str:
    """For Plotly, which reads a small HTML of its own (b, a href, br) in every text it draws."""
    return str(name).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def in_page(name: object) -> str:
    """For the page: text content or a quoted attribute."""
    return escape(str(name), quote=True)
