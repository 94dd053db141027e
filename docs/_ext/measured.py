"""``.. measured:: exact``: a table of measured figures, read from ``_data/benchmarks.json`` and nowhere else.

The file says on which machine, on which day and by which command each group was measured; so does the page. Refresh it
with ``python docs/_data/collect.py`` after ``make bench``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Headline:
    """A row of the summary: one case of one group, and what is timed on either side.

    ``like`` says whether both sides time the same thing. ``keys`` are those of the two times, in units of ``unit``.
    """

    task: str
    timed: str
    other: str
    group: str
    where: dict[str, Any]
    keys: tuple[str, str]
    unit: float = 1.0
    like: bool = True

    def times(self, groups: dict[str, Any]) -> tuple[float, float]:
        """Seconds of certeq and of the other side."""
        rows = groups[self.group]["rows"]
        (row,) = [row for row in rows if all(row.get(key) == value for key, value in self.where.items())]
        return self.unit * row[self.keys[0]], self.unit * row[self.keys[1]]


_SECONDS = ("seconds", "peer_seconds")
HEADLINES = (
    Headline(
        "walk-forward, CVaR, 60 fits of 1260 x 20",
        "whole skfolio runs on both sides",
        "skfolio",
        "portfolio",
        {"case": "walk-forward, 60 folds of 1260x20", "utility": "CVaR(alpha=0.05)"},
        _SECONDS,
    ),
    Headline(
        "frontier of 30 points, CVaR, 8312 x 20",
        "both estimators' fit",
        "skfolio",
        "portfolio",
        {"case": "frontier, 30 points, 8312x20", "peer": "skfolio MeanRisk(CVaR), frontier of 30"},
        _SECONDS,
    ),
    Headline(
        "least CVaR of 6234 x 20",
        "certeq's solver alone, skfolio's fit",
        "skfolio",
        "exact",
        {"case": "S&P 500 6234x20", "utility": "CVaR(alpha=0.05)", "peer": "skfolio"},
        _SECONDS,
        like=False,
    ),
    Headline(
        "CVaR of 10,000,000 losses",
        "one call; selecting the quantile alone",
        "np.partition",
        "core",
        {"case": "CVaR(.05)", "peer": "np.partition"},
        ("ms", "peer ms"),
        1e-3,
    ),
    Headline(
        "training step, CVaR, batch of 64",
        "whole step of a small network",
        "the mean",
        "torch",
        {"what": "CVaR(0.05)", "against": "mean, whole step", "n": 64},
        ("ours_us", "theirs_us"),
        1e-6,
    ),
    Headline(
        "linear regression, 100,000 x 50",
        "fit of OCERegressor(Entropic(1)), of Ridge",
        "Ridge",
        "learn",
        {"task": "regressor", "against": "Ridge", "tol": 0.0001},
        ("ours", "theirs"),
    ),
)


def faster(ours: float, theirs: float) -> str:
    """The ratio in words."""
    if ours <= theirs:
        return f"{theirs / ours:.2g}× faster" if theirs / ours < 10 else f"{theirs / ours:.0f}× faster"
    return f"{ours / theirs:.3g}× slower" if ours / theirs < 2 else f"{ours / theirs:.2g}× slower"


class Summary(SphinxDirective):
    """``.. measured-summary::``: the rows of `HEADLINES`, one per kind of work."""

    def run(self) -> list[nodes.Node]:
        """The table."""
        groups = _groups(self.env)
        heads = ("Task", "Result", "certeq", "Other", "What is timed")
        table = _frame(list(heads))
        for line in HEADLINES:
            ours, theirs = line.times(groups)
            cells = [line.task, faster(ours, theirs), seconds(ours), f"{line.other} {seconds(theirs)}", line.timed]
            table[0][-1] += _row(cells)
        return [nodes.container("", table, classes=["wide-table"])]


class Measured(SphinxDirective):
    """One table.

    ``:columns:`` lists ``key as Heading [kind]``, ``:scale:`` divides times given in ms or us. ``:only:`` names keys
    that a row must have to be shown, separated by semicolons; ``key=largest`` keeps the rows with its largest number.
    """

    required_arguments = 1
    option_spec: ClassVar = {"columns": directives.unchanged_required, "scale": float, "only": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """The table, and under it where the figures come from."""
        groups = _groups(self.env)
        name = self.arguments[0]
        if name not in groups:
            raise self.error(f"no group {name!r} in benchmarks.json; there are: {', '.join(groups)}")
        group = groups[name]
        columns = [_column(part) for part in self.options["columns"].split(";")]
        rows = select(group["rows"], self.options.get("only", ""))
        scale = self.options.get("scale", 1.0)
        table = _table(columns, rows, scale)
        return [nodes.container("", table, classes=["wide-table"]), _source(group)]


def _groups(env: Any) -> dict[str, Any]:
    path = Path(env.srcdir) / "_data" / "benchmarks.json"
    env.note_dependency(str(path))
    groups: dict[str, Any] = json.loads(path.read_text())["groups"]
    return groups


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


def _frame(heads: list[str]) -> nodes.table:
    group = nodes.tgroup("", cols=len(heads))
    group += [nodes.colspec("", colwidth=1) for _ in heads]
    group += nodes.thead("", _row(heads))
    group += nodes.tbody()
    return nodes.table("", group, classes=["measured"])


def _table(columns: list[tuple[str, str, str]], rows: list[dict[str, Any]], scale: float) -> nodes.table:
    table = _frame([head for _, head, _ in columns])
    for row in rows:
        table[0][-1] += _row([_cell(row.get(key), kind, scale) for key, _, kind in columns])
    return table


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
    app.add_directive("measured-summary", Summary)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
