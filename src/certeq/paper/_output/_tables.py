"""A table as CSV, which keeps every digit, and as Markdown, which keeps those one reads."""

from __future__ import annotations

import csv
import io

from certeq.paper._experiment import Table

Cell = str | float | int | None


def as_csv(table: Table) -> str:
    """Floats as `repr` writes them: the shortest text that reads back as the same bits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_exact(cell) for cell in row] for row in table.rows)
    return stream.getvalue()


def as_markdown(table: Table) -> str:
    """A pipe table, numbers to the right."""
    numeric = numeric_columns(table)
    lines = [
        "| " + " | ".join(map(_piped, table.columns)) + " |",
        "|" + "|".join("--:" if place in numeric else ":--" for place in range(len(table.columns))) + "|",
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


def numeric_columns(table: Table) -> frozenset[int]:
    """The places of the columns without text."""
    return frozenset(
        place for place in range(len(table.columns)) if not any(isinstance(row[place], str) for row in table.rows)
    )


def check_shape(table: Table) -> None:
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
