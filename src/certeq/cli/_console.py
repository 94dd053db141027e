"""What the command says and writes: results on standard output, the rest on standard error, weights to files.

A table fits the width there is: texts are broken into lines, columns left out, and no number is ever cut. Files are
checked before any work is done, and a spreadsheet may open them safely.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from certeq._files import check_writable, write_text
from certeq.data import BadData as BadData

_OF_STREAMS = {errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF}
_SCALE = re.compile(r" \(on the command line --scale [^)]*\)")
_OPTIONS = {
    "min_weights": "--min-weight",
    "max_weights": "--max-weight",
    "budget": "--budget",
    "min_return": "--min-return",
    "linear_constraints": "--constraint",
    "groups": "--groups",
    "transaction_costs": "--costs",
    "previous_weights": "--previous",
    "max_turnover": "--max-turnover",
    "risk_limits": "--max-risk",
    "max_tracking_error": "--max-tracking-error",
    "objective_function": "--objective",
    "risk_aversion": "--risk-aversion",
    "risk_free_rate": "--risk-free-rate",
}
# "budget" and "groups" are words as well, and the name of a parameter only before a sign of equality.
_NAMES = [name if "_" in name else f"{name}(?==)" for name in _OPTIONS]
_PARAMETER = re.compile(rf"(?<![\w.-])({'|'.join(_NAMES)})\b(?:\[\d+\])?(=)?")
_PYTHON_ONLY = "; with unknown_names='ignore' such a constraint is passed over"
PAGE = 160  # columns where nothing limits them: texts are broken into lines there
FIRST = ("annualized_mean", "cvar")  # of the metrics in a table
_KEPT = 2  # columns that are never left out: what it is, and its first number
_LONG = 22  # words may be broken into pieces of this many letters before a column is left out
_SHORT = 8  # and of this many where no more columns can be left out
_ANY = 100_000  # columns: more than a cell has, so that what is measured is the cell
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # spreadsheets take the wide ones too


def fail(reason: object) -> NoReturn:
    """One line on standard error, and exit code 1; more than one on a terminal only, as scripts look for that line."""
    _tell(f"error: {reason}", _terminal_width())
    raise typer.Exit(1)


def note(text: str) -> None:
    """Something the user should know that is not the result."""
    _tell(f"note: {text}", _columns() or _terminal_width())


def warn(text: str) -> None:
    """Why the result above may not be trusted."""
    _tell(f"warning: {text}", _columns() or _terminal_width())


def _tell(text: str, width: int) -> None:
    """A line on standard error; where there is a width as many as it takes, broken between words."""
    line = safe_text(" ".join(text.split()))
    if width:
        line = textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
    print(line, file=sys.stderr)


def _columns() -> int:
    """What COLUMNS says; 0 where it says nothing."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdigit() else 0


def _terminal_width() -> int:
    """The width of the terminal that standard error is, whatever standard output is; 0 where it is none."""
    if not sys.stderr.isatty():
        return 0
    try:
        return _columns() or os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return shutil.get_terminal_size().columns


def safe_text(text: object) -> str:
    """Text for a terminal: names of files and columns may hold controls that color, erase or reorder what is shown.

    >>> print(safe_text("a\\x1b[31m red \\u202e name"))
    a\\x1b[31m red \\u202e name
    """
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in str(text))


@contextmanager
def explained(*, scale: bool = True) -> Iterator[None]:
    """Turn what bad data, missing extras and files in the way raise into one line and exit code 1.

    Python's warnings are told after the result, each once, without the line of our code that they came from; ``scale``
    says whether the command has the option of that name, which some of them advise.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("once")
        try:
            yield
        except (BadData, ImportError, OSError, OverflowError) as error:
            if isinstance(error, OSError) and error.filename is None and error.errno in _OF_STREAMS:
                raise  # of standard output: told where the command ends
            fail(_in_words(error))
        finally:
            with suppress(OSError):
                sys.stdout.flush()  # the number first, then what is to be said about it
            for text in dict.fromkeys(_text_of(warning.message) for warning in caught if _matters(warning)):
                warn(text if scale else _SCALE.sub("", text))


def print_json(data: Any) -> None:
    """JSON on standard output; what is not finite becomes null, as JSON has no word for it."""
    json.dump(_finite(data), sys.stdout, indent=2, ensure_ascii=True, allow_nan=False)
    sys.stdout.write("\n")


def print_table(table: Table, also_shown: str = "") -> None:
    """A table on the width there is: that of the terminal, or COLUMNS; where there is neither, all of it.

    Columns stand in the order of their weight: those for which there is no width are left out from the right, and a
    note names them and where else they are shown: ``also_shown`` is such as "in the report".
    """
    console = Console(highlight=False, soft_wrap=False)
    left_out, console.width, whole = fit(table, console.width if _is_limited() else None)
    console.print(table)
    if left_out:
        shown = " and ".join(filter(None, (f"in a terminal of {whole} columns", also_shown)))
        note(f"columns left out: {', '.join(left_out)}; shown {shown}.")


def in_order(metrics: Iterable[Any]) -> list[Any]:
    """Metrics in the order of a table's columns: a return and a risk first, which stay on the narrowest terminal.

    >>> from types import SimpleNamespace as Metric
    >>> [each.key for each in in_order([Metric(key="evar"), Metric(key="cvar")])]
    ['cvar', 'evar']
    """
    found = list(metrics)
    return [each for key in FIRST for each in found if each.key == key] + [
        each for each in found if each.key not in FIRST
    ]


def print_sentence(text: str) -> None:
    """A sentence of the result, broken into lines where the width is that of a terminal."""
    console = Console(highlight=False)
    if not _is_limited():
        console.width = max(console.width, len(text))
    console.print(Text(safe_text(text)))


def percent(value: float, digits: int = 2) -> str:
    """A fraction in per cent, written as in reports.

    >>> percent(0.3995)
    '39.95 %'
    """
    return f"{100.0 * value:.{digits}f} %" if math.isfinite(value) else "n/a"


def short_percent(value: float) -> str:
    """A fraction in per cent with as many digits as it needs, up to four.

    >>> short_percent(0.02)
    '2 %'
    """
    return f"{100.0 * value:.4g} %"


def _is_limited() -> bool:
    """Whether a terminal, or COLUMNS, limits the width."""
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def cell(text: object, style: str = "") -> Text:
    """Text as it is: rich would read square brackets in a name as markup."""
    return Text(safe_text(text), style=style)


def bars(*, quiet: bool, width: int = 0) -> Progress:
    """Bars on standard error, with names of so many letters; nothing where nobody is watching."""
    console = Console(stderr=True)
    name = TextColumn(f"{{task.description:<{width}}}" if width else "{task.description}")
    columns = (name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)


@contextmanager
def progress(what: str, total: int, *, quiet: bool = False) -> Iterator[Any]:
    """A bar that yields a function to call after each step."""
    with bars(quiet=quiet) as bar:
        task = bar.add_task(what, total=total)

        def tick(now: str | None = None) -> None:
            bar.update(task, advance=1, description=now or what)

        yield tick


def _in_words(error: Exception) -> str:
    """The reason, without a number of the system, and with options as they are called here."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}."
    return str(error).replace("pass force=True", "pass --force")


def with_options(text: str) -> str:
    """A message of `certeq.portfolio` with the options of the command in place of parameters.

    >>> with_options(
    ...     "infeasible: max_weights=0.1 and budget=1 contradict linear_constraints 'A >= 0.5'"
    ... )
    "infeasible: --max-weight 0.1 and --budget 1 contradict --constraint 'A >= 0.5'"
    """
    text = text.replace(_PYTHON_ONLY, "").replace("named in groups", "named by --groups")
    return _PARAMETER.sub(lambda found: _OPTIONS[found[1]] + (" " if found[2] else ""), text)


def _matters(warning: warnings.WarningMessage) -> bool:
    """Whether it speaks of the data or the result rather than of somebody's code."""
    return not issubclass(
        warning.category, (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ImportWarning)
    )


def _text_of(message: Warning | str) -> str:
    from certeq.risk import UnitWarning  # here: help must not wait for it

    return message.with_scale() if isinstance(message, UnitWarning) else str(message)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _finite(item) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(item) for item in data]
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return data


@dataclass
class _Span:
    """How wide a column must and may be; ``whole`` where its cells are numbers or drawings, one line each."""

    least: int
    most: int
    whole: bool


def fit(table: Table, width: int | None) -> tuple[list[str], int, int]:
    """Give the columns widths that fit into ``width`` (None: as much as they need); say what was left out.

    A column that is right-justified or ``no_wrap`` holds cells that stay on one line; other texts, and all headings,
    break between words. Where that is not enough the lines of the box go and long words are broken, then columns go
    from the right, all but two; if even those are too wide shorter words are broken as well.

    Returns
    -------
    The headings of the columns left out, the width of the table as it is now (more than ``width`` where whole numbers
    need more), and a width at which nothing is left out.
    """
    spans = [_span(column) for column in table.columns]
    boxed = 3 * len(spans) + 1
    all_of_it = _needed(spans)
    whole = sum(span.least for span in spans) + boxed
    if width is None:
        width = max(PAGE, whole)
    if whole <= width:
        _share(table, spans, width - boxed)
        return [], width, all_of_it
    _break_words(spans, width, _LONG)
    kept = len(spans)
    while kept > _KEPT and _needed(spans[:kept]) > width:
        kept -= 1
    left_out = [str(column.header) for column in table.columns[kept:]]
    table.columns, spans = table.columns[:kept], spans[:kept]
    _break_words(spans, width, _SHORT)
    _open(table)
    width = max(width, _needed(spans))
    _share(table, spans, width - 2 * (kept - 1))
    return left_out, width, all_of_it


def _span(column: Column) -> _Span:
    whole = column.no_wrap or column.justify == "right"
    head, cells = _measured(column.header), [_measured(cell) for cell in column.cells]
    least = max([head.minimum, *(cell.maximum if whole else cell.minimum for cell in cells)])
    return _Span(max(least, 1), max([1, head.maximum, *(cell.maximum for cell in cells)]), whole)


def _measured(cell: object) -> Measurement:
    console = Console(width=_ANY)
    return Measurement.get(console, console.options, cell)  # type: ignore[arg-type]


def _needed(spans: list[_Span]) -> int:
    """The least width, with two blanks between columns and no box."""
    return sum(span.least for span in spans) + 2 * (len(spans) - 1)


def _break_words(spans: list[_Span], width: int, letters: int) -> None:
    """Let words of texts be broken where the columns need more than there is, the longest first."""
    for span in sorted((span for span in spans if not span.whole), key=lambda span: -span.least):
        span.least = max(min(span.least, letters), span.least - max(0, _needed(spans) - width))


def _share(table: Table, spans: list[_Span], width: int) -> None:
    """Set the widths: at least what each needs; what is left goes to texts, then to headings of numbers."""
    widths = [span.least for span in spans]
    spare = width - sum(widths)
    for whole in (False, True):
        while spare > 0:
            short = [i for i, span in enumerate(spans) if span.whole == whole and widths[i] < span.most]
            if not short:
                break
            widths[max(short, key=lambda i: spans[i].most / widths[i])] += 1
            spare -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
        name, _, share = str(column.header).rpartition(" 95 %")
        if name and not share and width < len(str(column.header)):
            column.header = f"{name}\n95 %"  # a line that ends in 95 would leave the sign alone
        column.overflow = "fold"
        column.no_wrap = False  # headings may break; cells that must not have the width they need


def _open(table: Table) -> None:
    """Without the lines of the box but the one under the headings; two blanks between columns."""
    table.box = box.SIMPLE_HEAD
    table.show_edge = table.pad_edge = False
    table.padding = (0, 1, 0, 0)


def check_output(
    path: Path | None,
    suffixes: tuple[str, ...],
    option: str,
    *,
    force: bool,
    read: Iterable[tuple[str, str | Path | None]] = (),
) -> None:
    """Refuse a name of another format (bad usage) or one that is taken (bad data) before any work is done.

    ``read`` are the files that the command reads, which no ``force`` overwrites, each after the option that names it,
    "" for that of the prices. Links to such a file are that file.
    """
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise typer.BadParameter(f"{path.name or str(path)!r} must end in {' or '.join(suffixes)}.", param_hint=option)
    for reader, other in read:
        # By os.path: a name too long for a file, which the name of a column may be, is no file rather than an error.
        if other is not None and os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other):
            who = f"that {reader} reads" if reader else "that is read"
            raise typer.BadParameter(f"{path} is the file {who}; name another one.", param_hint=option)
    check_writable(path, force=force)


def guarded(name: object) -> str:
    """A name a spreadsheet will not run: one that could begin a formula gets an apostrophe in front."""
    text = str(name)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(_FORMULA) else text


def write_weights(path: Path, weights: dict[str, float], about: dict[str, Any], *, force: bool) -> None:
    """``.json`` with what was run, or ``.csv`` with two columns."""
    if path.suffix.lower() == ".json":
        text = json.dumps({**about, "weights": weights}, indent=2, allow_nan=False) + "\n"
    else:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["asset", "weight"])
        writer.writerows([guarded(name), repr(weight)] for name, weight in weights.items())
        text = stream.getvalue()
    write_text(path, text, force=force)


def free_name(path: Path) -> Path:
    """The path itself, or with a number that makes it new."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_stem(f"{path.stem}-{number}")
    return candidate
