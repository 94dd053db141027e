"""What is written: for each experiment its tables, figures and `result.json`, and the page that joins them.

`result.json` is taken away first and written last: while it is there, all is whole. The page is made from the files
alone, so it shows what earlier runs left as well; it needs no network and no script.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from certeq._files import write_bytes, write_text
from certeq.paper._experiment import Claim, Experiment, Figure, Outcome, ResultTable
from certeq.paper._figures import as_png
from certeq.paper._statistics import RULES
from certeq.report.page import PageTable, cards_html, document, in_page, table_html

RESULT = "result.json"
# Recorded as set or not, never by value: a path says where somebody's files lie and nothing about the result.
_VARIABLES = ("SKFOLIO_DATA",)
_LIBRARIES = ("certeq", "numpy", "scipy", "pandas", "scikit-learn", "skfolio", "torch", "skorch", "uncertainty-toolbox")
Cell = str | float | int | None
_VERDICTS = ("reproduced", "within noise", "not reproduced", "corrected")
_WHOSE = {"paper": "The paper's claims", "again": "The paper's, repeated", "ours": "Checks of ours"}
_MARKS = {
    "reproduced": ("good", "✓"),
    "within noise": ("fair", "≈"),
    "not reproduced": ("bad", "✗"),
    "corrected": ("fair", "✎"),
    "not checked": ("none", "–"),
}
_LONG = 40  # rows; a longer table is folded
_STYLE = """
:root { --good: #00734f; --fair: #8a5a00; --bad: #b03a00; --warn: #fff4d6; --warn-text: #6b4e00; }
@media (prefers-color-scheme: dark) {
  :root { --good: #4fd3a7; --fair: #f0b429; --bad: #ff9a66; --warn: #3a3017; --warn-text: #f3d58a; }
}
.verdict { font-weight: 600; white-space: nowrap; }
.good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); } .none { color: var(--soft); }
.warn { background: var(--warn); color: var(--warn-text); padding: 8px 12px; border-radius: 8px; }
.note { color: var(--soft); font-size: .9rem; max-width: 90ch; margin: 6px 0; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 20px 0 6px; }
.pictures { display: grid; grid-template-columns: minmax(0, 1fr); gap: 16px; }
.pictures img { width: 100%; height: auto; border-radius: 8px; background: #fff; display: block; }
.pictures p { margin: 6px 0 0; }
.rules dt { font-weight: 600; margin-top: 8px; } .rules dd { margin: 2px 0 0 1.2em; max-width: 90ch; }
.claims td { overflow-wrap: anywhere; min-width: 6em; }
.claims tbody th { min-width: 12em; font-weight: 500; }
body { max-width: 1200px; }
@media (max-width: 600px) {
  .claims thead { display: none; }
  .claims tr { display: block; border-bottom: 1px solid var(--line); padding: 8px 0; }
  .claims th, .claims td { display: block; border: 0; padding: 1px 0; min-width: 0 !important; }
  .scroll.claims tbody th { position: static; }
  .claims td::before { content: attr(data-label) ": "; color: var(--soft); font-weight: 400; }
  .claims td:empty { display: none; }
}
"""


def write_outcome(
    folder: Path, experiment: Experiment, outcome: Outcome, seeds_are: str, facts: dict[str, Any]
) -> None:
    """Tables, figures, a page of Markdown, and `result.json`.

    ``seeds_are`` says what a seed is in this experiment, ``facts`` how it was run.
    """
    _check_names(outcome)
    result = {
        "experiment": experiment.name,
        "title": experiment.title,
        "where": experiment.where,
        **facts,
        **_circumstances(),
        "seeds": list(outcome.seeds),
        "seeds_are": seeds_are,
        "synthetic": outcome.synthetic,
        "verdicts": outcome.verdicts,
        "not_checked": outcome.not_checked,
        "claims": [asdict(claim) for claim in outcome.claims],
        "notes": list(outcome.notes),
        "numbers": _plain(outcome.numbers),
        "tables": [
            {"name": t.name, "title": t.title, "file": f"{t.name}.csv", "digits": t.digits} for t in outcome.tables
        ],
        "figures": [{"name": f.name, "title": f.title, "alt": f.alt, "png": f"{f.name}.png"} for f in outcome.figures],
    }
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    _emptied(folder)
    for table in outcome.tables:
        write_text(folder / f"{table.name}.csv", as_csv(table), force=True)
        write_text(folder / f"{table.name}.md", f"# {table.title}\n\n{as_markdown(table)}", force=True)
    for figure in outcome.figures:
        write_bytes(folder / f"{figure.name}.png", as_png(figure))
    write_text(folder / "README.md", _markdown(experiment, outcome), force=True)
    write_text(folder / RESULT, text, force=True)


def write_without_outcome(folder: Path, name: str, reason: dict[str, Any], facts: dict[str, Any]) -> None:
    """Say why there is no outcome: its "failure", or the markets "left_out".

    What an earlier run left is taken away, as it is not of this one.
    """
    _emptied(folder)
    result = {"experiment": name, "title": name, "where": "", **reason, **facts, **_circumstances()}
    write_text(folder / RESULT, json.dumps(result, indent=1) + "\n", force=True)


def write_index(folder: Path, names: tuple[str, ...]) -> Path:
    """`index.html` of a folder of experiments; ``names`` are all there can be, in their order."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in _results(folder, names)]
    return write_text(folder / "index.html", _page(folder, results, names), force=True)


def _circumstances() -> dict[str, Any]:
    return {
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "commit": commit(),
        "environment": environment(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _emptied(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        (folder / RESULT).unlink()
    for path in folder.iterdir():
        if path.is_file() and path.suffix in (".csv", ".md", ".png", ".html", ".part"):
            path.unlink()


def _check_names(outcome: Outcome) -> None:
    parts: list[ResultTable | Figure] = [*outcome.tables, *outcome.figures]
    for part in parts:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", part.name):
            raise ValueError(f"a table or figure's name must be lower case letters, digits and -; found {part.name!r}.")
    for kind in (outcome.tables, outcome.figures):
        twice = [name for name, count in Counter(part.name for part in kind).items() if count > 1]  # type: ignore[attr-defined]
        if twice:
            raise ValueError(f"two tables or two figures share the name {twice[0]!r}.")
    for table in outcome.tables:
        check_shape(table)


def _markdown(experiment: Experiment, outcome: Outcome) -> str:
    parts = [f"# {experiment.title}\n", f"{experiment.where}.\n" if experiment.where else ""]
    parts += [f"> {note}\n" for note in outcome.notes]
    if outcome.claims:
        parts.append("## Claims\n")
        parts.append(as_markdown(_claims_table(outcome.claims)))
    for table in outcome.tables:
        parts.append(f"## {table.title}\n\n{as_markdown(table)}")
    for figure in outcome.figures:
        parts.append(f"## {figure.title}\n\n![{figure.alt}]({figure.name}.png)\n\n{figure.alt}\n")
    return "\n".join(part for part in parts if part)


def _claims_table(claims: tuple[Claim, ...]) -> ResultTable:
    head = ("Claim", "Whose", "Line", "Printed", "Ours", "Spread", "Verdict", "Why", "Rule")
    rows = tuple(
        (c.text, c.whose, c.line, c.printed, c.ours, c.spread, f"**{c.verdict}**", c.why, c.rule) for c in claims
    )
    return ResultTable("claims", "Claims", head, rows)


def tallies(results: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """How many claims had which verdict: those of the paper, those it makes again, and ours."""
    every = [claim for result in results for claim in result.get("claims", ())]
    return [
        (
            title,
            *(str(sum(c["verdict"] == v for c in every if c["whose"] == whose)) for v in (*_VERDICTS, "not checked")),
        )
        for whose, title in _WHOSE.items()
    ]


def _plain(data: Any) -> Any:
    """What JSON can say; a number that is not finite becomes null."""
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if hasattr(data, "tolist"):
        return _plain(data.tolist())
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    if isinstance(data, float):
        return float(data) if math.isfinite(data) else None
    if hasattr(data, "keys"):
        return {str(key): _plain(data[key]) for key in data.keys()}  # noqa: SIM118  (a Mapping that is no dict)
    return data


def versions() -> dict[str, str]:
    """Of the libraries that are installed."""
    found = {"python": sys.version.split()[0]}
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def commit() -> str | None:
    """The commit the code is at, with -dirty where it was changed since; None for an installed copy or without git."""
    import certeq

    package = Path(certeq.__file__).resolve().parent
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() / "src" / "certeq" != package:
        return None  # a copy that merely lies within somebody's repository is not of that repository's commit
    return _git(package, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def environment() -> dict[str, str]:
    """The variables that were set, without their values."""
    return {name: "set" for name in _VARIABLES if os.environ.get(name)}


def _git(where: Path, *arguments: str) -> str | None:
    try:
        asked = subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip() or None


def as_csv(table: ResultTable) -> str:
    """Floats as `repr` writes them: the shortest text that reads back as the same bits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_exact(cell) for cell in row] for row in table.rows)
    return stream.getvalue()


def as_markdown(table: ResultTable) -> str:
    """A pipe table, numbers to the right."""
    numeric = numeric_columns(table)
    lines = [
        "| " + " | ".join(map(_piped, table.columns)) + " |",
        "|" + "|".join("--:" if index in numeric else ":--" for index in range(len(table.columns))) + "|",
    ]
    lines += ["| " + " | ".join(_piped(shown(cell, table.digits)) for cell in row) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def shown(cell: Cell, digits: int) -> str:
    """A cell to be read: so many decimals, or powers of ten where those would show nothing but zeros."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        if cell != 0.0 and (abs(cell) < 0.5 * 10.0**-digits or abs(cell) >= 1e6):
            return f"{cell:.1e}"
        return f"{cell:.{digits}f}"
    return str(cell)


def numeric_columns(table: ResultTable) -> frozenset[int]:
    """The indices of the columns without text."""
    return frozenset(
        index for index in range(len(table.columns)) if not any(isinstance(row[index], str) for row in table.rows)
    )


def check_shape(table: ResultTable) -> None:
    """Refuse rows that do not fit under the columns."""
    for number, row in enumerate(table.rows):
        if len(row) != len(table.columns):
            raise ValueError(
                f"row {number} of table {table.name!r} has {len(row)} cells under {len(table.columns)} columns."
            )


def _exact(cell: Cell) -> str:
    if cell is None:
        return ""
    # NumPy's floats are floats, but their repr names their type.
    return repr(float(cell)) if isinstance(cell, float) else str(cell)


def _piped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _results(folder: Path, names: tuple[str, ...]) -> list[Path]:
    paths = {name: folder / name / RESULT for name in names}
    return [path for path in paths.values() if path.is_file()]


def _page(folder: Path, results: list[dict[str, Any]], names: tuple[str, ...]) -> str:
    counts = {verdict: sum(r.get("verdicts", {}).get(verdict, 0) for r in results) for verdict in _VERDICTS}
    quick = any(result["quick"] for result in results)
    cards = [
        ("Experiments", f"{sum('claims' in r for r in results)} of {len(names)}"),
        *[(verdict.capitalize(), str(count)) for verdict, count in counts.items()],
        ("Not checked", str(sum(r.get("not_checked", 0) for r in results))),
        ("Run", "quick" if quick else "full"),
        ("Seconds", f"{sum(r['seconds'] for r in results):.0f}"),
    ]
    links = "".join(f'<a href="#{in_page(r["experiment"])}">{in_page(r["title"])}</a>' for r in results)
    warnings = ""
    if quick:
        warnings += (
            '<p class="warn">Some of this is a quick run: fewer seeds and shorter runs than the protocols ask for.</p>'
        )
    missing = [name for name in names if name not in {r["experiment"] for r in results}]
    if missing:
        warnings += f'<p class="note">Not run yet: {in_page(", ".join(missing))}.</p>'
    title = "Optimized certainty equivalents from samples: the paper, reproduced"
    body = (
        f'<header><h1>{title}</h1><p class="lead">Each claim beside what came out here. A verdict follows from '
        '<a href="#rules">the rule for its kind of claim</a>; claims that could not be checked are counted apart.</p>'
        f'<dl class="cards">{cards_html(cards)}</dl>{warnings}</header>\n'
        f'<nav aria-label="Experiments"><a href="#rules">Rules</a>{links}</nav>\n'
        f"<main>\n{_tally_section(results)}{_rules()}{''.join(_section(folder / r['experiment'], r) for r in results)}"
        f"{_run_section(results)}</main>\n"
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return document(title, body, policy, _STYLE)


def _tally_section(results: list[dict[str, Any]]) -> str:
    head = ("Claims", *(verdict.capitalize() for verdict in (*_VERDICTS, "not checked")))
    table = table_html(PageTable(head, tuple(tallies(results)), frozenset(range(1, len(head)))), "Claims by verdict")
    return f'<section id="tally"><h2>Claims by verdict</h2>{table}</section>\n'


def _rules() -> str:
    rows = "".join(f"<dt>{in_page(kind)}</dt><dd>{in_page(rule)}</dd>" for kind, rule in RULES)
    return f'<section id="rules"><h2>How a verdict is reached</h2><dl class="rules">{rows}</dl></section>\n'


def _section(folder: Path, result: dict[str, Any]) -> str:
    name = in_page(result["experiment"])
    where = f'<p class="caption">{in_page(result["where"])}</p>' if result["where"] else ""
    parts = [f'<section id="{name}"><h2>{in_page(result["title"])}</h2>{where}']
    if "failure" in result:
        parts.append(f'<p class="warn">This experiment could not run. {in_page(result["failure"])}</p></section>\n')
        return "".join(parts)
    for words in result.get("left_out", ()):
        parts.append(f'<p class="warn">Left out: {in_page(words)}.</p>')
    if "claims" not in result:
        return "".join([*parts, "</section>\n"])
    for note in result["notes"]:
        loud = "warn" if result["synthetic"] and note.startswith("SYNTHETIC") else "note"
        parts.append(f'<p class="{loud}">{in_page(note)}</p>')
    if result["claims"]:
        parts.append(_claims_section(result["claims"], result["title"]))
    if result["figures"]:
        parts.append('<div class="pictures">')
        parts += [_picture(folder, figure) for figure in result["figures"]]
        parts.append("</div>")
    parts += [_table_section(folder, table) for table in result["tables"]]
    parts.append("</section>\n")
    return "".join(parts)


def _claims_section(claims: list[dict[str, str]], title: str) -> str:
    labels = ("Printed", "Ours", "Spread", "Verdict", "Why")
    head = "".join(f'<th scope="col">{label}</th>' for label in ("Claim", *labels))
    rows = []
    for claim in claims:
        kind, mark = _MARKS[claim["verdict"]]
        cells = "".join(
            f'<td data-label="{label}">{in_page(claim[key])}</td>'
            for label, key in (("Printed", "printed"), ("Ours", "ours"), ("Spread", "spread"))
        )
        verdict = f'<td data-label="Verdict" class="verdict {kind}">{mark} {in_page(claim["verdict"])}</td>'
        rule = f"<br><small>{in_page(claim['rule'])}</small>" if claim["rule"] else ""
        why = f'<td data-label="Why">{in_page(claim["why"])}{rule}</td>'
        words = f" “{claim['quote']}”" if claim["quote"] else ""
        line = f"<br><small>Line {claim['line']}{in_page(words)}</small>" if claim["line"] else ""
        whose = "" if claim["whose"] == "paper" else f"<br><small>{in_page(_WHOSE[claim['whose']])}</small>"
        rows.append(f'<tr><th scope="row">{in_page(claim["text"])}{line}{whose}</th>{cells}{verdict}{why}</tr>')
    return (
        f'<div class="scroll claims" style="max-height:none" tabindex="0" role="region" '
        f'aria-label="{in_page(title)}, claims">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _picture(folder: Path, figure: dict[str, str]) -> str:
    data = base64.b64encode((folder / figure["png"]).read_bytes()).decode()
    return (
        f"<div><h3>{in_page(figure['title'])}</h3>"
        f'<img alt="{in_page(figure["alt"])}" src="data:image/png;base64,{data}">'
        f'<p class="caption">{in_page(figure["alt"])}</p></div>'
    )


def _table_section(folder: Path, about: dict[str, Any]) -> str:
    with (folder / about["file"]).open(encoding="utf-8", newline="") as stream:
        head, *rows = list(csv.reader(stream))
    numeric = frozenset(i for i in range(len(head)) if all(_number(row[i]) is not None or not row[i] for row in rows))
    cells = tuple(
        tuple(_shown(text, about["digits"]) if i in numeric else text for i, text in enumerate(row)) for row in rows
    )
    body = table_html(PageTable(tuple(head), cells, numeric), about["title"])
    link = f'<a href="{in_page(folder.name)}/{in_page(about["file"])}">CSV, every digit</a>'
    if len(rows) > _LONG:
        body = f"<details><summary>{len(rows)} rows</summary>{body}</details>"
    return f'<h3>{in_page(about["title"])}</h3>{body}<p class="caption">{link}</p>'


def _shown(text: str, digits: int) -> str:
    number = _number(text)
    if number is None or not any(mark in text for mark in ".en"):
        return text
    return shown(number, digits)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _run_section(results: list[dict[str, Any]]) -> str:
    if not results:
        return ""
    rows = [
        (
            r["experiment"],
            "quick" if r["quick"] else "full",
            str(r["seeds_asked"]),
            str(r["jobs"]),
            f"{r['seconds']:.1f}",
            f"{r['work_seconds']:.1f}",
            str(r["pieces_kept_from_an_earlier_run"]),
            r["finished"].replace("+00:00", " UTC").replace("T", " "),
        )
        for r in results
    ]
    head = ("Experiment", "Run", "Seeds", "Processes", "Seconds", "Processor seconds", "Pieces kept", "Finished")
    table = table_html(PageTable(head, tuple(rows), frozenset(range(2, 7))), "What was run")
    last = max(results, key=lambda r: str(r["finished"]))
    commits = " and ".join(sorted({str(r["commit"]) for r in results if r.get("commit")}))
    origin = f"Commit {commits}. " if commits else ""
    meant = "".join(
        f"<dt>{in_page(r['experiment'])}</dt><dd>{in_page(r['seeds_are'])}</dd>" for r in results if r.get("seeds_are")
    )
    made_by = ", ".join(f"{name} {number}" for name, number in last["versions"].items())
    return (
        f'<section><h2>What was run</h2>{table}<p class="caption">Seconds are of the last run; pieces kept from an '
        f"earlier one are counted in the next column. {in_page(origin + made_by)}; {in_page(last['machine'])}.</p>"
        f'<h3>What a seed is</h3><dl class="rules">{meant}</dl></section>\n'
    )
