"""The page: one HTML file that needs no network and runs nothing but its own two scripts, and names made harmless."""

from __future__ import annotations

import base64
import hashlib
import json
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from certeq.report._chart import Chart, PageTable

__all__ = ["PageTable", "asset", "cards_html", "document", "in_page", "page", "plain", "table_html"]

LONGEST = 24
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_HARMLESS = "\n\t\u200c\u200d"  # the last two join letters, in Persian and in emoji


def page(title: str, lead: str, cards: list[tuple[str, str]], parts: list[Section], charts: list[Chart]) -> str:
    """Head, cards, sections and scripts put together; everything but the body of a part is escaped here."""
    scripts = [plotly_script(), asset("page.js")]
    links = "".join(f'<a href="#{part.key}">{in_page(part.title)}</a>' for part in parts if part.linked)
    body = (
        f'<header><h1>{in_page(title)}</h1><p class="lead">{in_page(lead)}</p>'
        f'<dl class="cards">{cards_html(cards)}</dl></header>\n'
        f'<nav aria-label="Sections">{links}</nav>\n'
        f"<main>\n{''.join(part.body for part in parts)}</main>\n"
        "<noscript><p>The charts need JavaScript; every number is also in the tables under them.</p></noscript>\n"
        f'<script type="application/json" id="study">{data_block(_data(charts))}</script>\n'
        + "".join(f"<script>{script}</script>\n" for script in scripts)
    )
    return document(title, body, _policy(scripts))


@dataclass(frozen=True)
class Section:
    """A section or figure of the page, already escaped; ``linked`` where the head links to it."""

    key: str
    title: str
    body: str
    linked: bool = True


def document(title: str, body: str, policy: str, style: str = "") -> str:
    """A whole file: the head, with the report's style sheet and ``style``, and a body that is already escaped.

    ``policy`` is the Content-Security-Policy, beyond which a browser loads and runs nothing.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{in_page(title)}</title>\n<style>{asset('page.css')}{style}</style>\n</head>\n<body>\n"
        f"{body}</body>\n</html>\n"
    )


def cards_html(cards: Iterable[tuple[str, str]]) -> str:
    """Figures with their names, escaped."""
    return "".join(
        f'<div class="card"><dt>{in_page(name)}</dt><dd>{in_page(value)}</dd></div>' for name, value in cards
    )


def figure_section(chart: Chart) -> Section:
    """Where a chart is drawn, its caption, and its numbers behind a fold."""
    about = in_page(f"{chart.title}. {chart.summary}")
    hint = f' <span class="hint">{in_page(chart.hint)}</span>' if chart.hint else ""
    fold = ""
    if chart.table is not None:
        fold = f"<details><summary>The numbers</summary>{table_html(chart.table, chart.title)}</details>"
    return Section(
        chart.key,
        chart.title,
        f'<figure id="{chart.key}"><h2>{in_page(chart.title)}</h2>'
        f'<div class="chart" data-chart="{chart.key}" role="img" aria-label="{about}" '
        f'style="height:{chart.height}px"></div>'
        f"<figcaption>{in_page(chart.summary)}{hint}</figcaption>{fold}</figure>\n",
    )


def table_section(key: str, title: str, caption: str, table: PageTable, *, linked: bool = True) -> Section:
    """A table that is shown at once."""
    return Section(
        key,
        title,
        f'<section id="{key}"><h2>{in_page(title)}</h2>{table_html(table, title, stacked=True)}'
        f'<p class="caption">{in_page(caption)}</p></section>\n',
        linked,
    )


def table_html(table: PageTable, label: str, *, stacked: bool = False) -> str:
    """Escaped rows; the first column heads its row, and a line break in a cell starts its small print.

    On a narrow screen a table scrolls; with ``stacked`` each row becomes a list of its cells, with their names.
    """
    head = ""
    if any(table.head):
        cells = "".join(f'<th scope="col"{_flush(i, table)}>{in_page(name)}</th>' for i, name in enumerate(table.head))
        head = f"<thead><tr>{cells}</tr></thead>"
    body = []
    for row in table.rows:
        cells = f'<th scope="row">{in_page(row[0])}</th>'
        cells += "".join(
            f"<td{_flush(i, table)}{_named(table.head[i], stacked)}>{_cell(text)}</td>"
            for i, text in enumerate(row[1:], 1)
        )
        body.append(f"<tr>{cells}</tr>")
    kind = "scroll stacked" if stacked and head else "scroll"
    scroll = f'<div class="{kind}" tabindex="0" role="region" aria-label="{in_page(label)}, table">'
    return f"{scroll}<table>{head}<tbody>{''.join(body)}</tbody></table></div>"


def data_block(data: Any) -> str:
    """JSON that cannot end its script element or start another: no < > & and no line separators in it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def asset(name: str) -> str:
    """A file shipped beside this module."""
    return (files("certeq.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def plotly_script() -> str:
    """Plotly's own script, from the installed package: embedded once, nothing is fetched."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ImportError("Reports need plotly: pip install 'certeq[cli]'.") from None
    script: str = get_plotlyjs()
    if "</script" in script.lower():
        raise ValueError("The installed plotly.js cannot be embedded safely: it contains a closing script tag.")
    return script


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
    return visible(name).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def in_page(name: object) -> str:
    """For the page: text content or a quoted attribute."""
    return escape(visible(name), quote=True)


def visible(name: object) -> str:
    """Text whose control and direction-changing characters are written out, as the command does in a terminal.

    A name with one of them would turn around the rest of its sentence, and a lone surrogate, as in a file's name that
    is not UTF-8, could not be written at all.

    >>> print(visible("a\u202eb"))
    a\\u202eb
    """
    text = str(name)
    if text.isprintable():
        return text
    return "".join(ascii(char)[1:-1] if _is_hidden(char) else char for char in text)


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN and char not in _HARMLESS


def _data(charts: list[Chart]) -> dict[str, Any]:
    stored: dict[str, Any] = {}
    for chart in charts:
        stored.update(chart.shared)
    return {"shared": stored, "charts": [chart.as_data() for chart in charts]}


def _policy(scripts: list[str]) -> str:
    """Only these scripts, byte for byte, may run, and nothing may be fetched: a slip in escaping stays text."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _flush(column: int, table: PageTable) -> str:
    return ' class="number"' if column in table.numeric else ""


def _named(name: str, stacked: bool) -> str:
    return f' data-label="{in_page(name)}"' if stacked and name else ""


def _cell(text: str) -> str:
    first, _, small = text.partition("\n")
    return f'<span class="value">{in_page(first)}</span><small>{in_page(small)}</small>' if small else in_page(first)
