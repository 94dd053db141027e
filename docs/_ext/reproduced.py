"""The stored results of the experiments as a report: a summary, the rules, and a page per experiment.

``.. reproduced-summary::`` is the table of verdicts, ``.. rules::`` how they are reached, ``.. reproduced:: name`` one
experiment. Each experiment is a folder of ``experiments/results`` with a ``result.json``, tables as CSV and figures as
PNG.
"""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from experiments.__main__ import MODULES
from experiments.common import RESULTS
from experiments.verdicts import RULES

COLUMNS = {
    "reproduced": "Reproduced",
    "within noise": "Within noise",
    "not reproduced": "Not reproduced",
    "corrected": "Corrected",
    "undecided": "Undecided",
    "not checked": "Not checked",
}
WHOSE = {
    "paper": "What the paper states",
    "again": "The same under a second reading, or in a second printing",
}
WIDTHS = "34 11 11 11 11 11 11"
LONGEST = 40  # rows of a table shown on the page; the CSV has them all


class FromResults(SphinxDirective):
    """A directive that reads the folder of results again whenever it changes."""

    def parsed(self, lines: list[str], files: list[Path]) -> list[nodes.Node]:
        """The lines as nodes; the page depends on the files."""
        for path in files:
            self.env.note_dependency(str(path))
        self.env.note_reread()
        return list(self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True))


class Reproduced(FromResults):
    """One experiment."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Its claims, figures, tables and notes."""
        folder = RESULTS / self.arguments[0]
        path = folder / "result.json"
        if not path.is_file():
            return self.parsed([f"No result of ``{folder.name}`` is stored yet.", ""], [])
        lines = experiment(path, Path(self.env.srcdir))
        return self.parsed(lines, [path, *folder.glob("*.csv")])


class Summary(FromResults):
    """How many claims had which verdict, by experiment, and who made them."""

    def run(self) -> list[nodes.Node]:
        """The table, and the tallies of what the paper does not state."""
        files = [RESULTS / name / "result.json" for name in MODULES]
        found = [json.loads(path.read_text()) for path in files if path.is_file()]
        return self.parsed(summary(found), files)


class Rules(SphinxDirective):
    """How a verdict is reached: the rules of the code, word for word."""

    def run(self) -> list[nodes.Node]:
        """A list of definitions."""
        lines = [line for kind, rule in RULES for line in (_escape(kind), f"   {_escape(rule)}", "")]
        return list(self.parse_text_to_nodes("\n".join(lines)))


def summary(found: list[dict[str, Any]]) -> list[str]:
    """Return one row per experiment for the paper's claims, their sum, and the sum of the repeated claims."""
    rows = [[f":doc:`{r['title']} <{r['experiment']}>`", *_counts([r], "paper")] for r in found]
    rows.append(["**All claims of the paper**", *_counts(found, "paper")])
    lines = _list_table(("Experiment", *COLUMNS.values()), rows, WIDTHS, raw=True)
    lines += ["Claims that the paper repeats are counted apart:", ""]
    lines += _list_table(("Claims", *COLUMNS.values()), [[WHOSE["again"], *_counts(found, "again")]], WIDTHS, raw=True)
    quick = [r["experiment"] for r in found if r.get("quick")]
    commits = list(dict.fromkeys(str(r.get("commit")) for r in found))
    lines += [
        f"Made at commit {', '.join(f'``{c}``' for c in commits)}"
        + (f"; quick runs: {', '.join(quick)}" if quick else "")
        + ".",
        "",
    ]
    return lines


def _counts(results: list[dict[str, Any]], whose: str) -> list[str]:
    said = [claim for result in results for claim in result.get("claims", ()) if claim["whose"] == whose]
    return [str(sum(claim["verdict"] == verdict for claim in said)) for verdict in COLUMNS]


def experiment(path: Path, source: Path) -> list[str]:
    """One experiment: where in the paper, what was claimed, what came out, with every table and figure."""
    found = json.loads(path.read_text())
    lines = [f"*{_escape(found['where'])}.*" if found.get("where") else "", "", _origin(found), ""]
    for note in found.get("notes", ()):
        lines += [f"* {_escape(str(note))}", ""]
    for whose, title in WHOSE.items():
        rows = [
            [_stated(claim), _escape(str(claim["printed"])), _ours(claim), _verdict(claim)]
            for claim in found["claims"]
            if claim["whose"] == whose
        ]
        if rows:
            lines += [title, "-" * len(title), ""]
            lines += _list_table(("Claim", "Printed", "Here", "Verdict"), rows, "30 18 24 28", raw=True)
    pictures, tables = sorted(path.parent.glob("*.png")), sorted(path.parent.glob("*.csv"))
    if pictures:
        lines += ["Figures", "-------", ""]
        lines += [line for picture in pictures for line in _figure(picture, found, source)]
    if tables:
        lines += ["Tables", "------", ""]
        lines += [line for table in tables for line in _csv(table, found)]
    return lines


def _origin(found: dict[str, Any]) -> str:
    words = ["python -m experiments", str(found.get("experiment", "")), *(["--quick"] if found.get("quick") else [])]
    words += [f"--seeds {found['seeds_asked']}"] if found.get("seeds_asked") not in (None, 20) else []
    text = f"Made by ``{' '.join(words)}``"
    text += f" at commit ``{found['commit']}``" if found.get("commit") else ""
    text += f" on {str(found['finished'])[:10]}" if found.get("finished") else ""
    taken = found.get("seconds")
    text += f", {float(taken):,.0f} seconds" if isinstance(taken, (int, float)) else ""
    return text + (". **A quick run: shorter and with fewer seeds than the paper's.**" if found.get("quick") else ".")


def _stated(claim: dict[str, Any]) -> str:
    """The claim, the line of the paper's source and its words; formulas as the source has them."""
    text = _escape(str(claim["text"]))
    if claim.get("line"):
        text += f" (line {claim['line']}"
        quote = str(claim.get("quote") or "")
        text += (
            f": ``{quote}``)" if any(mark in quote for mark in "\\$") else f": “{_escape(quote)}”)" if quote else ")"
        )
    return text


def _ours(claim: dict[str, Any]) -> str:
    spread = claim.get("spread")
    return _escape(f"{claim.get('ours', '')}" + (f" ({spread})" if spread else ""))


def _verdict(claim: dict[str, Any]) -> str:
    why = f": {_escape(str(claim['why']))}" if claim.get("why") else ""
    return f"**{claim['verdict']}**{why}" + (f" *Rule: {_escape(claim['rule'])}.*" if claim.get("rule") else "")


def _figure(picture: Path, found: dict[str, Any], source: Path) -> list[str]:
    known = {str(entry.get("name")): entry for entry in found.get("figures", ()) if isinstance(entry, dict)}
    entry = known.get(picture.stem, {})
    alt = _escape(str(entry.get("alt") or entry.get("title") or picture.stem.replace("_", " ")))
    caption = _escape(str(entry.get("title") or ""))
    where = Path(os.path.relpath(picture, source)).as_posix()  # Sphinx takes images outside its source folder
    return [
        f".. figure:: /{where}",
        f"   :alt: {alt}",
        "   :width: 100%",
        "",
        *([f"   {caption}", ""] if caption else []),
    ]


def _csv(table: Path, found: dict[str, Any]) -> list[str]:
    with table.open(newline="") as stream:
        head, *rows = list(csv.reader(stream)) or [[]]
    if not head:
        return []
    known = {str(entry.get("name")): entry for entry in found.get("tables", ()) if isinstance(entry, dict)}
    entry = known.get(table.stem, {})
    digits = int(entry.get("digits", 4))
    title = _escape(str(entry.get("title") or table.stem.replace("_", " ")))
    lines = [f".. rubric:: {title}", ""]
    body = [[_number(cell, digits) for cell in row] for row in rows[:LONGEST]]
    lines += _list_table(tuple(head), body, None)
    if len(rows) > LONGEST:
        lines += [f"The first {LONGEST} of {len(rows)} rows.", ""]
    return lines


def _number(cell: str, digits: int) -> str:
    try:
        return f"{float(cell):.{digits}g}" if not cell.lstrip("-").isdigit() else cell
    except ValueError:
        return cell


def _list_table(heads: tuple[str, ...], rows: list[list[Any]], widths: str | None, *, raw: bool = False) -> list[str]:
    """A table; with ``raw`` the cells are marked up and escaped already."""
    lines = [".. container:: wide-table", "", "   .. list-table::", "      :header-rows: 1", "      :class: measured"]
    lines += [f"      :widths: {widths}"] if widths else []
    lines += [""]
    for row in [list(heads), *rows]:
        for i, cell in enumerate(row):
            text = "" if cell is None else str(cell) if raw else _escape(str(cell))
            lines.append(f"      {'* -' if i == 0 else '  -'} {' '.join(text.split())}")
    return [*lines, ""]


def _escape(text: str) -> str:
    for mark in "\\*`|_":
        text = text.replace(mark, "\\" + mark)
    return text


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("reproduced", Reproduced)
    app.add_directive("reproduced-summary", Summary)
    app.add_directive("rules", Rules)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}
