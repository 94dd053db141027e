"""The page that joins all experiments of a folder: claim, printed, ours, spread, verdict, then tables and pictures.

It is made from the files alone, so it shows what earlier runs left as well; it needs no network and no script.
"""

from __future__ import annotations

import base64
import csv
import json
from pathlib import Path
from typing import Any

from certeq.paper._output._folder import RESULT
from certeq.paper._output._tables import shown
from certeq.paper._registry import EXPERIMENTS
from certeq.paper._verdicts import RULES
from certeq.report import write_text
from certeq.report._chart import Table
from certeq.report._page import asset, in_page, table_html

_VERDICTS = ("reproduced", "within noise", "not reproduced")
_MARKS = {
    "reproduced": ("good", "✓"),
    "within noise": ("fair", "≈"),
    "not reproduced": ("bad", "✗"),
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


def write_index(folder: Path) -> Path:
    """`index.html` of a folder of experiments."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in _results(folder)]
    return write_text(folder / "index.html", _page(folder, results), force=True)


def _results(folder: Path) -> list[Path]:
    places = {name: folder / name / RESULT for name in EXPERIMENTS}
    return [path for path in places.values() if path.is_file()]


def _page(folder: Path, results: list[dict[str, Any]]) -> str:
    counts = {verdict: sum(r.get("verdicts", {}).get(verdict, 0) for r in results) for verdict in _VERDICTS}
    quick = any(result["quick"] for result in results)
    cards = [
        ("Experiments", f"{sum('failure' not in r for r in results)} of {len(EXPERIMENTS)}"),
        *[(verdict.capitalize(), str(count)) for verdict, count in counts.items()],
        ("Not checked", str(sum(r.get("not_checked", 0) for r in results))),
        ("Run", "quick" if quick else "full"),
        ("Seconds", f"{sum(r['seconds'] for r in results):.0f}"),
    ]
    shown_cards = "".join(f'<div class="card"><dt>{in_page(k)}</dt><dd>{in_page(v)}</dd></div>' for k, v in cards)
    links = "".join(f'<a href="#{in_page(r["experiment"])}">{in_page(r["title"])}</a>' for r in results)
    warnings = ""
    if quick:
        warnings += (
            '<p class="warn">Some of this is a quick run: fewer seeds and shorter runs than the protocols ask for.</p>'
        )
    missing = [name for name in EXPERIMENTS if name not in {r["experiment"] for r in results}]
    if missing:
        warnings += f'<p class="note">Not run yet: {in_page(", ".join(missing))}.</p>'
    title = "Optimized certainty equivalents from samples: the paper, reproduced"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{asset('page.css')}{_STYLE}</style>\n</head>\n<body>\n"
        f'<header><h1>{title}</h1><p class="lead">Each claim beside what came out here. A verdict follows from '
        '<a href="#rules">the rule for its kind of claim</a>; claims that could not be checked are counted apart.</p>'
        f'<dl class="cards">{shown_cards}</dl>{warnings}</header>\n'
        f'<nav aria-label="Experiments"><a href="#rules">Rules</a>{links}</nav>\n'
        f"<main>\n{_rules()}{''.join(_section(folder / r['experiment'], r) for r in results)}"
        f"{_run_section(results)}</main>\n"
        "</body>\n</html>\n"
    )  # fmt: skip


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
    for note in result["notes"]:
        loud = "warn" if result["synthetic"] and note.startswith("SYNTHETIC") else "note"
        parts.append(f'<p class="{loud}">{in_page(note)}</p>')
    if result["claims"]:
        parts.append(_claims(result["claims"], result["title"]))
    if result["figures"]:
        parts.append('<div class="pictures">')
        parts += [_picture(folder, figure) for figure in result["figures"]]
        parts.append("</div>")
    parts += [_table(folder, table) for table in result["tables"]]
    parts.append("</section>\n")
    return "".join(parts)


def _claims(claims: list[dict[str, str]], title: str) -> str:
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
        why = f'<td data-label="Why">{in_page(claim["why"])}</td>'
        rows.append(f'<tr><th scope="row">{in_page(claim["text"])}</th>{cells}{verdict}{why}</tr>')
    return (
        f'<div class="scroll claims" style="max-height:none" tabindex="0" role="region" '
        f'aria-label="{in_page(title)}, claims">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _picture(folder: Path, figure: dict[str, str]) -> str:
    data = base64.b64encode((folder / figure["png"]).read_bytes()).decode()
    link = f"{in_page(folder.name)}/{in_page(figure['html'])}"
    return (
        f"<div><h3>{in_page(figure['title'])}</h3>"
        f'<img alt="{in_page(figure["alt"])}" src="data:image/png;base64,{data}">'
        f'<p class="caption">{in_page(figure["alt"])} <a href="{link}">Interactive</a></p></div>'
    )


def _table(folder: Path, about: dict[str, Any]) -> str:
    with (folder / about["file"]).open(encoding="utf-8", newline="") as stream:
        head, *rows = list(csv.reader(stream))
    numeric = frozenset(i for i in range(len(head)) if all(_number(row[i]) is not None or not row[i] for row in rows))
    cells = tuple(
        tuple(_shown(text, about["digits"]) if i in numeric else text for i, text in enumerate(row)) for row in rows
    )
    body = table_html(Table(tuple(head), cells, numeric), about["title"])
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
    table = table_html(Table(head, tuple(rows), frozenset(range(2, 7))), "What was run")
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
