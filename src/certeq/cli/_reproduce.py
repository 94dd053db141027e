"""``certeq reproduce``: the paper's tables and figures, each claim with a verdict."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from pkgutil import iter_modules
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from certeq.cli._console import BadData, bars, cell, explained, print_json, print_table, safe_text, warn
from certeq.cli._options import AsJson

if TYPE_CHECKING:
    from certeq.paper import Result

AFTER_OPTIONS = ""
NEEDS_FILE = False
EXAMPLES = (
    "certeq reproduce --quick",
    "certeq reproduce portfolio-sp500 cvar-solver --out results",
    "certeq reproduce --seeds 20 --jobs 4",
    "certeq reproduce --list",
)
VERDICTS = ("reproduced", "within noise", "not reproduced", "corrected", "not checked")
# In short; `certeq.paper` says it at length in every result.json. Not imported from there: help must not wait for it.
SEEDS = (
    (
        "portfolio-*, cvar-solver",
        "random starts of OCE-SG; on Nasdaq at most 5, as each takes half a minute",
    ),
    ("entropic-estimation, bounds", "repetitions of what is simulated"),
    ("entropic-optimization", "five runs of OCE-SG for each seed"),
    ("convergence", "two runs of OCE-SG for each seed"),
    ("errata", "does not apply: every check has a fixed seed"),
)
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def _complete(incomplete: str) -> list[str]:
    from certeq.paper import EXPERIMENTS

    return [name for name in EXPERIMENTS if name.startswith(incomplete)]


def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAMES", help="Experiments; all of them if none is named.", show_default=False,
            autocompletion=_complete,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and shorter runs: minutes, not an hour.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, show_default="20, or 3 if quick",
            help="Seeds for what is random; what that is, and where it is capped, is listed above.",
        ),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option("--sensitivity", help="Also vary what the paper does not state, in tables of their own: hours."),
    ] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("certeq-paper"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one for each core")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what earlier runs in that folder computed.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run the paper's experiments; write tables, figures and a verdict on every claim, joined by index.html.

    A market whose data are neither where SKFOLIO_DATA points to nor to be downloaded is left out and named.
    A run that was interrupted (exit code 130) goes on where it stopped. Experiments of earlier runs in the folder stay
    in the page.
    """
    with explained():
        try:
            from certeq.paper import EXPERIMENTS, check_names, reproduce
        except ImportError as error:
            raise BadData(f"reproduce needs {error.name}: pip install 'certeq[paper]'") from None
    if listed:
        _print_list(EXPERIMENTS, as_json)
        return
    try:
        wanted = check_names(names)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="NAMES") from None
    began = time.perf_counter()
    done: list[str] = []
    with explained(), _resumable(done, len(wanted), out):
        with _bar(len(wanted), done, quiet=as_json) as tell:
            results = reproduce(
                wanted, quick=quick, seeds=seeds, sensitivity=sensitivity, out=out, jobs=jobs, fresh=fresh,
                progress=tell,
            )  # fmt: skip
        index = out / "index.html"
        if as_json:
            print_json({"index": str(index), "experiments": [_facts(result) for result in results]})
        else:
            print_table(_table(results), f"in {index}")
            print(f"{time.perf_counter() - began:.1f} s; report written to {safe_text(index)}")
        for market in dict.fromkeys(market for result in results for market in result.left_out):
            without = [result.name for result in results if market in result.left_out]
            warn(f"left out of {' and '.join(without)}: {market}.")
        failed = [result for result in results if result.failure]
        if failed:
            raise BadData("; ".join(f"{result.name} could not run ({result.failure})" for result in failed))
        if not any(result.outcome for result in results):
            raise BadData("nothing was run: the data of no market asked for are there.")


# A line of \b alone keeps the paragraph after it as it is written.
_LINES = "\n".join(
    f"  {names}:\n{fill(meaning, 74, initial_indent='    ', subsequent_indent='    ')}" for names, meaning in SEEDS
)
run.__doc__ = f"{cleandoc(run.__doc__ or '')}\n\n\b\nWhat --seeds counts (1 is taken as 2 for a spread):\n{_LINES}"


def _print_list(names: tuple[str, ...], as_json: bool) -> None:
    """The experiments with what they show; the name first in a line, so that a script can take it."""
    import certeq.paper

    found: dict[str, Any] = {}
    for module in iter_modules(certeq.paper.__path__):
        if not module.name.startswith("_"):
            with suppress(ImportError):  # an extra that is not there: the name is listed alone
                loaded = import_module(f"certeq.paper.{module.name}")
                found |= {each.name: each for each in getattr(loaded, "EXPERIMENTS", ())}
    rows = [{"name": name, **{key: getattr(found.get(name), key, "") for key in ("title", "where")}} for name in names]
    if as_json:
        print_json(rows)
        return
    width = max(map(len, names))
    for row in rows:
        print(f"{row['name']:<{width}}  {row['title']}".rstrip())


def _table(results: tuple[Result, ...]) -> Table:
    table = Table(title="The paper's claims")
    table.add_column("Experiment")
    for verdict in VERDICTS:
        table.add_column(verdict.capitalize(), justify="right")
    table.add_column("Seconds", justify="right")
    for result in results:
        if result.outcome is None:
            blank = [cell("failed" if result.failure else "no data"), *[cell("")] * (len(VERDICTS) - 1)]
            table.add_row(cell(result.name), *blank, cell(f"{result.seconds:.1f}"))
            continue
        found = [claim.verdict for claim in result.outcome.claims if claim.whose == "paper"]
        cells = [str(found.count(verdict)) for verdict in VERDICTS]  # type: ignore[arg-type]
        name = result.name + (" (in part)" if result.left_out else "")
        table.add_row(cell(name), *map(cell, cells), cell(f"{result.seconds:.1f}"))
    return table


def _facts(result: Result) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": result.name,
        "folder": str(result.folder),
        "seconds": round(result.seconds, 3),
        "failure": result.failure,
        "left_out": list(result.left_out),
    }
    if result.outcome is not None:
        facts["verdicts"] = result.outcome.verdicts
        facts["not_checked"] = result.outcome.not_checked
        facts["seeds"] = list(result.outcome.seeds)
        facts["claims"] = [asdict(claim) for claim in result.outcome.claims]
    return facts


@contextmanager
def _resumable(done: list[str], experiments: int, out: Path) -> Iterator[None]:
    """Ctrl-C is told in one line on standard error, whether or not anybody watches a bar."""
    try:
        yield
    except KeyboardInterrupt:
        whole = f": {', '.join(done[:-1])}" if len(done) > 1 else ""
        print(
            f"interrupted: {max(0, len(done) - 1)} of {experiments} experiments are whole{whole}; what was computed is "
            f"kept in {out}, and the same command goes on from there.",
            file=sys.stderr,
            flush=True,
        )
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _bar(experiments: int, seen: list[str], *, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Two bars, experiments and the pieces of the present one; ``seen`` gets the experiments as they begin."""
    with bars(quiet=quiet, width=30) as bar:
        whole = bar.add_task("Experiments", total=experiments)
        pieces = bar.add_task("", total=None)

        def tell(name: str, done: int, total: int) -> None:
            if name not in seen:
                seen.append(name)
                bar.update(whole, completed=len(seen) - 1)
                bar.reset(pieces, description=name, total=None)
            bar.update(pieces, completed=done, total=total or None)

        yield tell
