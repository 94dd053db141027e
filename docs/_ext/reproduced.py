"""``.. reproduced::``: what one full run of ``certeq reproduce`` left in ``paper/results``, as sections of a page.

Each experiment is a folder with a ``result.json``, its tables as CSV and its figures as PNG. A ``run.json`` beside the
folders may say ``{"command": ..., "commit": ...}``. An empty folder is a page that says how to fill it.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

VERDICTS = {"reproduced": "reproduced", "within noise": "within noise", "not reproduced": "**not reproduced**"}
LONGEST = 40  # rows of a table shown on the page; the CSV has them all


class Reproduced(SphinxDirective):
    """All experiments found, in the order of their folders."""

    def run(self) -> list[nodes.Node]:
        """One section for each experiment."""
        source = Path(self.env.srcdir)
        folder = source / "paper" / "results"
        files = sorted(folder.rglob("result.json"))
        for path in [*files, *folder.rglob("*.csv")]:
            self.env.note_dependency(str(path))
        self.env.note_reread()
        lines = [line for path in files for line in experiment(path, source)] if files else empty()
        return list(self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True))


def empty() -> list[str]:
    """What to do where there are no results yet."""
    return [
        ".. note::",
        "",
        "   No results have been committed yet. This makes them, in an hour or two, and the page then shows them:",
        "",
        "   .. code-block:: console",
        "",
        "      $ certeq reproduce --out certeq-paper",
        "      $ python docs/paper/take.py certeq-paper",
        "",
    ]


def experiment(path: Path, source: Path) -> list[str]:
    """One experiment: where in the paper, what was claimed, what came out, with every table and figure."""
    found = json.loads(path.read_text())
    note = path.parents[1] / "run.json"
    run = json.loads(note.read_text()) if note.exists() else {}
    title = str(found.get("title") or path.parent.name)
    lines = [title, "-" * max(len(title), 4), ""]
    lines += [f"*{_escape(found['where'])}.*" if found.get("where") else "", "", _origin(found, run), ""]
    if found.get("failure"):
        return [*lines, f"It could not run: {_escape(str(found['failure']))}", ""]
    if found.get("claims"):
        heads = ("Claim", "Printed", "Here", "Verdict")
        rows = [[claim.get("text"), claim.get("printed"), _ours(claim), _verdict(claim)] for claim in found["claims"]]
        lines += _list_table(heads, rows, "30 20 25 25")
    lines += [line for picture in sorted(path.parent.glob("*.png")) for line in _figure(picture, found, source)]
    lines += [line for table in sorted(path.parent.glob("*.csv")) for line in _csv(table, found)]
    for note in found.get("notes", ()):
        lines += [f"* {_escape(str(note))}", ""]
    return lines


def _origin(found: dict[str, Any], run: dict[str, Any]) -> str:
    name = found.get("experiment", "")
    command = run.get("command") or " ".join(
        [
            "certeq reproduce",
            str(name),
            *(["--quick"] if found.get("quick") else []),
            f"--seeds {found.get('seeds_asked')}",
        ]
    )
    text = f"Made by ``{command}``"
    text += f" at commit ``{run['commit']}``" if run.get("commit") else ""
    text += f" on {str(found['finished'])[:10]}" if found.get("finished") else ""
    taken = found.get("work_seconds") or found.get("seconds")
    text += f", {float(taken):,.0f} seconds of work" if isinstance(taken, (int, float)) else ""
    text += ". **A quick run: shorter and with fewer seeds than the paper's.**" if found.get("quick") else "."
    return text + (" Synthetic data are part of it, marked as such." if found.get("synthetic") else "")


def _ours(claim: dict[str, Any]) -> str:
    spread = claim.get("spread")
    return f"{claim.get('ours', '')}" + (f" ({spread})" if spread else "")


def _verdict(claim: dict[str, Any]) -> str:
    verdict = VERDICTS.get(str(claim.get("verdict")), str(claim.get("verdict", "")))
    return verdict + (f": {_escape(str(claim['why']))}" if claim.get("why") else "")


def _figure(picture: Path, found: dict[str, Any], source: Path) -> list[str]:
    known = {str(entry.get("name")): entry for entry in found.get("figures", ()) if isinstance(entry, dict)}
    entry = known.get(picture.stem, {})
    alt = _escape(str(entry.get("alt") or entry.get("title") or picture.stem.replace("_", " ")))
    caption = _escape(str(entry.get("title") or ""))
    where = picture.relative_to(source).as_posix()
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


def _list_table(heads: tuple[str, ...], rows: list[list[Any]], widths: str | None) -> list[str]:
    lines = [".. container:: wide-table", "", "   .. list-table::", "      :header-rows: 1", "      :class: measured"]
    lines += [f"      :widths: {widths}"] if widths else []
    lines += [""]
    for row in [list(heads), *rows]:
        for i, cell in enumerate(row):
            text = "" if cell is None else str(cell)
            text = text if text.startswith("**") else _escape(text)
            lines.append(f"      {'* -' if i == 0 else '  -'} {' '.join(text.split())}")
    return [*lines, ""]


def _escape(text: str) -> str:
    for mark in "\\*`|_":
        text = text.replace(mark, "\\" + mark)
    return text


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("reproduced", Reproduced)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
