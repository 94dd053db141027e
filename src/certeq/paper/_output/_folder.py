"""The folder of one experiment. `result.json` is taken away first and written last: while it is there, all is whole."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from certeq._files import write_bytes
from certeq.paper._experiment import Claim, Experiment, Figure, Outcome, Table
from certeq.paper._job import LocalJob, versions
from certeq.paper._output._html import PLOTLY, as_html
from certeq.paper._output._origin import commit, environment
from certeq.paper._output._png import as_png
from certeq.paper._output._tables import as_csv, as_markdown, check_shape
from certeq.paper._registry import SEEDING
from certeq.report import write_text
from certeq.report._page import plotly_script

RESULT = "result.json"


def write_outcome(folder: Path, experiment: Experiment, outcome: Outcome, job: LocalJob, seconds: float) -> None:
    """Tables, figures, a page of Markdown, and `result.json`."""
    _check_names(outcome)
    result = {
        "experiment": experiment.name,
        "title": experiment.title,
        "where": experiment.where,
        **_circumstances(job, seconds),
        "seeds": list(outcome.seeds),
        "seeds_are": SEEDING.get(experiment.name, ""),
        "synthetic": outcome.synthetic,
        "verdicts": tally(outcome.claims),
        "not_checked": sum(claim.verdict == "not checked" for claim in outcome.claims),
        "claims": [asdict(claim) for claim in outcome.claims],
        "notes": list(outcome.notes),
        "numbers": _plain(outcome.numbers),
        "tables": [
            {"name": t.name, "title": t.title, "file": f"{t.name}.csv", "digits": t.digits} for t in outcome.tables
        ],
        "figures": [
            {"name": f.name, "title": f.title, "alt": f.alt, "png": f"{f.name}.png", "html": f"{f.name}.html"}
            for f in outcome.figures
        ],
    }
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    _emptied(folder)
    for table in outcome.tables:
        write_text(folder / f"{table.name}.csv", as_csv(table), force=True)
        write_text(folder / f"{table.name}.md", f"# {table.title}\n\n{as_markdown(table)}", force=True)
    if outcome.figures:
        _write_plotly(folder.parent)
    for figure in outcome.figures:
        write_bytes(folder / f"{figure.name}.png", as_png(figure))
        write_text(folder / f"{figure.name}.html", as_html(figure), force=True)
    write_text(folder / "README.md", _markdown(experiment, outcome), force=True)
    write_text(folder / RESULT, text, force=True)


def write_failure(folder: Path, name: str, failure: str, job: LocalJob, seconds: float) -> None:
    """Say that, and why, there is no outcome; what an earlier run left is taken away, as it is not of this one."""
    _emptied(folder)
    result = {"experiment": name, "title": name, "where": "", "failure": failure, **_circumstances(job, seconds)}
    write_text(folder / RESULT, json.dumps(result, indent=1) + "\n", force=True)


def _circumstances(job: LocalJob, seconds: float) -> dict[str, Any]:
    return {
        "quick": job.quick,
        "seeds_asked": job.seeds,
        "jobs": job.jobs,
        "seconds": round(seconds, 3),
        "work_seconds": round(job.work_seconds, 3),
        "pieces_kept_from_an_earlier_run": job.kept,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "commit": commit(),
        "environment": environment(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def tally(claims: Iterable[Claim]) -> dict[str, int]:
    """How many claims had which verdict; those that were not checked are no part of it."""
    return dict(Counter(claim.verdict for claim in claims if claim.verdict != "not checked"))


def _emptied(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        (folder / RESULT).unlink()
    for path in folder.iterdir():
        if path.is_file() and path.suffix in (".csv", ".md", ".png", ".html", ".part"):
            path.unlink()


def _check_names(outcome: Outcome) -> None:
    parts: list[Table | Figure] = [*outcome.tables, *outcome.figures]
    for part in parts:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", part.name):
            raise ValueError(f"a table or figure's name must be lower case letters, digits and -; found {part.name!r}.")
    for kind in (outcome.tables, outcome.figures):
        twice = [name for name, count in Counter(part.name for part in kind).items() if count > 1]  # type: ignore[attr-defined]
        if twice:
            raise ValueError(f"two tables or two figures share the name {twice[0]!r}.")
    for table in outcome.tables:
        check_shape(table)


def _write_plotly(folder: Path) -> None:
    """Once for all figures; written anew where another version is installed."""
    script, target = plotly_script(), folder / PLOTLY
    if not (target.is_file() and target.stat().st_size == len(script.encode())):
        write_text(target, script, force=True)


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


def _claims_table(claims: tuple[Claim, ...]) -> Table:
    rows = tuple((c.text, c.printed, c.ours, c.spread, f"**{c.verdict}**", c.why) for c in claims)
    return Table("claims", "Claims", ("Claim", "Printed", "Ours", "Spread", "Verdict", "Why"), rows)


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
