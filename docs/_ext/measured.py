"""``.. measured:: exact``: a table of measured figures, read from ``_data/benchmarks.json`` and nowhere else.

The file says on which machine, on which day and by which command each group was measured; so does the page. Refresh it
with ``python docs/_data/collect.py`` after ``make bench``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6}


def as_text(value: Any) -> str:
    """A figure with as many digits as one would say aloud."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        number = float(value)
        if number != number:
            return "failed"
        if isinstance(value, int):
            return f"{value:,}"
        if number == 0 or 1e-3 <= abs(number) < 1e5:
            return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
        return f"{number:.1e}"
    return str(value)


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    if value != value:
        return "failed"
    unit = "s" if value >= 1 else "ms" if value >= 1e-3 else "us"
    return f"{UNITS[unit] * value:.3g} {unit.replace('us', 'µs')}".replace(" ", "\N{NO-BREAK SPACE}")


def ratio(value: float) -> str:
    """How many times."""
    return "–" if value != value else f"{value:.2g}×" if value < 10 else f"{value:.0f}×"


KINDS = {"text": as_text, "time": seconds, "times": ratio}


class Measured(SphinxDirective):
    """One table.

    ``:columns:`` lists ``key as Heading [kind]``, ``:scale:`` divides times given in ms or us. ``:only:`` names keys
    that a row must have to be shown, separated by semicolons; ``key=largest`` keeps the rows with its largest number.
    """

    required_arguments = 1
    option_spec: ClassVar = {"columns": directives.unchanged_required, "scale": float, "only": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """The table, and under it where the figures come from."""
        path = Path(self.env.srcdir) / "_data" / "benchmarks.json"
        self.env.note_dependency(str(path))
        groups = json.loads(path.read_text())["groups"]
        name = self.arguments[0]
        if name not in groups:
            raise self.error(f"no group {name!r} in {path.name}; there are: {', '.join(groups)}")
        group = groups[name]
        columns = [_column(part) for part in self.options["columns"].split(";")]
        rows = select(group["rows"], self.options.get("only", ""))
        scale = self.options.get("scale", 1.0)
        table = _table(columns, rows, scale)
        return [nodes.container("", table, classes=["wide-table"]), _source(group)]


def _column(text: str) -> tuple[str, str, str]:
    key, _, rest = text.strip().partition(" as ")
    head, _, kind = (rest or key).partition(" [")
    return key.strip(), head.strip(), kind.rstrip("] ") or "text"


def select(rows: list[dict[str, Any]], only: str) -> list[dict[str, Any]]:
    """The rows that ``:only:`` asks for."""
    for part in filter(None, (part.strip() for part in only.split(";"))):
        key, _, which = part.partition("=")
        rows = [row for row in rows if key in row]
        if which == "largest":
            top = max((row[key] for row in rows), default=None)
            rows = [row for row in rows if row[key] == top]
    return rows


def _table(columns: list[tuple[str, str, str]], rows: list[dict[str, Any]], scale: float) -> nodes.table:
    group = nodes.tgroup("", cols=len(columns))
    group += [nodes.colspec("", colwidth=1) for _ in columns]
    group += nodes.thead("", _row([head for _, head, _ in columns]))
    body = nodes.tbody()
    for row in rows:
        body += _row([_cell(row.get(key), kind, scale) for key, _, kind in columns])
    group += body
    return nodes.table("", group, classes=["measured"])


def _cell(value: Any, kind: str, scale: float) -> str:
    if value is None or value == "":
        return "–"
    return KINDS[kind](value / scale if kind == "time" else value)


def _row(cells: list[str]) -> nodes.row:
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", cell)) for cell in cells])


def _source(group: dict[str, Any]) -> nodes.paragraph:
    here = group["machine"]
    text = nodes.paragraph(classes=["measured-on"])
    text += nodes.Text("Measured with ")
    text += nodes.literal("", group["command"])
    packages = ", ".join(f"{name} {number}" for name, number in here["packages"].items())
    text += nodes.Text(
        f" on {here['date'][:10]}: {here['cpu']}, {here['cores']} cores, Python {here['python']}, {packages}."
    )
    return text


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("measured", Measured)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
