"""A table made to fit a width: texts are broken into lines, columns left out, and no number is ever cut."""

from __future__ import annotations

from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

PAGE = 160  # columns where nothing limits them: texts are broken into lines there
_KEPT = 2  # columns that are never left out: what it is, and its first number
_LONG = 24  # words may be broken into pieces of this many letters before a column is left out
_SHORT = 8  # and of this many where no more columns can be left out
_ANY = 100_000  # columns: more than a cell has, so that what is measured is the cell


@dataclass
class _Span:
    """How wide a column must and may be; ``whole`` where its cells are numbers or drawings, one line each."""

    least: int
    most: int
    whole: bool


def fit(table: Table, room: int | None) -> tuple[list[str], int, int]:
    """Give the columns widths that fit into ``room`` (None: as much as they need); say what was left out.

    A column that is right-justified or ``no_wrap`` holds cells that stay on one line; other texts, and all headings,
    break between words. Where that is not enough the lines of the box go and long words are broken, then columns go
    from the right, all but two; if even those are too wide shorter words are broken as well.

    Returns
    -------
    The headings of the columns left out, the width of the table as it is now (more than ``room`` where whole numbers
    need more), and a width at which nothing is left out.
    """
    spans = [_span(column) for column in table.columns]
    boxed = 3 * len(spans) + 1
    all_of_it = _needed(spans)
    whole = sum(span.least for span in spans) + boxed
    if room is None:
        room = max(PAGE, whole)
    if whole <= room:
        _share(table, spans, room - boxed)
        return [], room, all_of_it
    _break_words(spans, room, _LONG)
    kept = len(spans)
    while kept > _KEPT and _needed(spans[:kept]) > room:
        kept -= 1
    left_out = [str(column.header) for column in table.columns[kept:]]
    table.columns, spans = table.columns[:kept], spans[:kept]
    _break_words(spans, room, _SHORT)
    _open(table)
    width = max(room, _needed(spans))
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


def _break_words(spans: list[_Span], room: int, letters: int) -> None:
    """Let words of texts be broken where the columns need more than there is, the longest first."""
    for span in sorted((span for span in spans if not span.whole), key=lambda span: -span.least):
        span.least = max(min(span.least, letters), span.least - max(0, _needed(spans) - room))


def _share(table: Table, spans: list[_Span], room: int) -> None:
    """Set the widths: at least what each needs; what is left goes to texts, then to headings of numbers."""
    widths = [span.least for span in spans]
    spare = room - sum(widths)
    for whole in (False, True):
        while spare > 0:
            short = [i for i, span in enumerate(spans) if span.whole == whole and widths[i] < span.most]
            if not short:
                break
            widths[max(short, key=lambda i: spans[i].most / widths[i])] += 1
            spare -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
        column.overflow = "fold"
        column.no_wrap = False  # headings may break; cells that must not have the width they need


def _open(table: Table) -> None:
    """Without the lines of the box but the one under the headings; two blanks between columns."""
    table.box = box.SIMPLE_HEAD
    table.show_edge = table.pad_edge = False
    table.padding = (0, 1, 0, 0)
