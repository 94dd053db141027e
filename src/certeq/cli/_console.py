"""What is said and where: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from certeq.cli._fit import fit


class BadData(Exception):
    """The data, or the files, do not allow what was asked; its text is shown to the user as it is."""


def fail(reason: object) -> NoReturn:
    """One line on standard error, and exit code 1."""
    print(f"error: {' '.join(str(reason).split())}", file=sys.stderr)
    raise typer.Exit(1)


def note(text: str) -> None:
    """Something the user should know that is not the result."""
    print(f"note: {' '.join(text.split())}", file=sys.stderr)


@contextmanager
def explained() -> Iterator[None]:
    """Turn what bad data, missing extras and files in the way raise into one line and exit code 1.

    Warnings become notes, each said once: a user of the command has no use for the line of our code they came from.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("once")
        try:
            yield
        except (BadData, ImportError, OSError, OverflowError) as error:
            fail(error)
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught if _matters(warning)):
                note(text)


def print_json(data: Any) -> None:
    """JSON on standard output; what is not finite becomes null, as JSON has no word for it."""
    json.dump(_finite(data), sys.stdout, indent=2, ensure_ascii=True, allow_nan=False)
    sys.stdout.write("\n")


def print_table(table: Table, elsewhere: str = "") -> None:
    """A table on the width there is: that of the terminal, or COLUMNS; where there is neither, all of it.

    Columns stand in the order of their weight: those for which there is no room are left out from the right, and a
    note names them and where else they are shown: ``elsewhere`` is such as "in the report".
    """
    console = Console(highlight=False, soft_wrap=False)
    limited = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    left_out, console.width, whole = fit(table, console.width if limited else None)
    console.print(table)
    if left_out:
        places = " and ".join(filter(None, (f"in a terminal of {whole} columns", elsewhere)))
        note(f"left out for want of room: {', '.join(left_out)}; shown {places}.")


def cell(text: object, style: str = "") -> Text:
    """Text as it is: rich would read square brackets in a name as markup."""
    return Text(str(text), style=style)


@contextmanager
def progress(what: str, total: int, *, quiet: bool = False) -> Iterator[Any]:
    """A bar on standard error that yields a function to call after each step; nothing where nobody is watching."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)

        def tick(now: str | None = None) -> None:
            bar.update(task, advance=1, description=now or what)

        yield tick


def _matters(warning: warnings.WarningMessage) -> bool:
    """Whether it speaks of the data or the result rather than of somebody's code."""
    return not issubclass(
        warning.category, (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning)
    )


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _finite(item) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(item) for item in data]
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return data
