"""``certeq reproduce``: the paper's tables and figures, each claim with a verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from certeq.cli._console import BadData, cell, explained, note, print_json, print_table
from certeq.cli._options import AsJson

if TYPE_CHECKING:
    from certeq.paper import Result

NAME = "reproduce"
NEEDS_FILE = False
EXAMPLES = (
    "certeq reproduce --quick",
    "certeq reproduce portfolio-sp500 cvar-solver --out results",
    "certeq reproduce --seeds 20 --jobs 4",
    "certeq reproduce --list",
)
VERDICTS = ("reproduced", "within noise", "not reproduced")


def _complete(incomplete: str) -> list[str]:
    from certeq.paper._registry import EXPERIMENTS

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
        int | None, typer.Option(min=1, help="Seeds for what is random.", show_default="20, or 3 if quick")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path("certeq-paper"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes.", show_default="one for each core")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what earlier runs in that folder computed.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run the paper's experiments; write tables, figures and a verdict on every claim, joined by index.html.

    A run that was interrupted goes on where it stopped. Experiments of earlier runs in the folder stay in the page.
    """
    from certeq.paper._registry import EXPERIMENTS, check_names

    if listed:
        print("\n".join(EXPERIMENTS))
        return
    try:
        wanted = check_names(names)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="NAMES") from None
    began = time.perf_counter()
    with explained():
        try:
            from certeq.paper import reproduce
        except ImportError as error:
            raise BadData(f"reproduce needs {error.name}: pip install 'certeq[paper]'") from None
        with _bar(len(wanted), quiet=as_json) as tell:
            results = reproduce(wanted, quick=quick, seeds=seeds, out=out, jobs=jobs, fresh=fresh, progress=tell)
        index = out / "index.html"
        if as_json:
            print_json({"index": str(index), "experiments": [_facts(result) for result in results]})
        else:
            print_table(_table(results))
            print(f"{time.perf_counter() - began:.1f} s; report written to {index}")
        for result in results:
            if result.outcome is not None and result.outcome.synthetic:
                note(f"{result.name} ran on synthetic data, as a market's file was not to be had.")
        failed = [result for result in results if result.failure]
        if failed:
            raise BadData("; ".join(f"{result.name} could not run ({result.failure})" for result in failed))


def _table(results: tuple[Result, ...]) -> Table:
    table = Table(title="The paper, reproduced")
    table.add_column("Experiment", no_wrap=True)
    for verdict in VERDICTS:
        table.add_column(verdict.capitalize(), justify="right")
    table.add_column("Seconds", justify="right")
    for result in results:
        if result.outcome is None:
            table.add_row(cell(result.name), cell("failed"), cell(""), cell(""), cell(f"{result.seconds:.1f}"))
            continue
        counts = Counter(claim.verdict for claim in result.outcome.claims)
        cells = [str(counts[verdict]) for verdict in VERDICTS]  # type: ignore[index]
        name = result.name + (" (synthetic)" if result.outcome.synthetic else "")
        table.add_row(cell(name), *map(cell, cells), cell(f"{result.seconds:.1f}"))
    return table


def _facts(result: Result) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": result.name,
        "folder": str(result.folder),
        "seconds": round(result.seconds, 3),
        "failure": result.failure,
    }
    if result.outcome is not None:
        facts["synthetic"] = result.outcome.synthetic
        facts["verdicts"] = dict(Counter(claim.verdict for claim in result.outcome.claims))
        facts["claims"] = [asdict(claim) for claim in result.outcome.claims]
    return facts


@contextmanager
def _bar(experiments: int, *, quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Two bars on standard error, experiments and the pieces of the present one; nothing where nobody is watching."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<30}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        whole = bar.add_task("Experiments", total=experiments)
        pieces = bar.add_task("", total=None)
        seen: list[str] = []

        def tell(name: str, done: int, total: int) -> None:
            if name not in seen:
                seen.append(name)
                bar.update(whole, completed=len(seen) - 1)
                bar.reset(pieces, description=name, total=None)
            bar.update(pieces, completed=done, total=total or None)

        yield tell
