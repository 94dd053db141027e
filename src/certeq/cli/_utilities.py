"""``certeq utilities``: what each utility is, drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from certeq.cli._console import cell, print_json, print_sentence, print_table
from certeq.cli._options import CHOICES, RISKS, UNITS_HELP, AsJson, Choice
from certeq.utilities import Utility

AFTER_OPTIONS = ""
NEEDS_FILE = False
EXAMPLES = ("certeq utilities", "certeq utilities --json")
_REACH = 0.05
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def run(as_json: AsJson = False) -> None:
    """List the utilities and other risks: what each emphasizes, its parameters, and how it weighs a day's loss.

    The drawing is the slope u'(x) for losses from 5 % below to 5 % above the threshold t*, up to 5: how many
    ordinary days a day counts as.
    """
    if as_json:
        print_json([_facts(choice) for choice in (CHOICES | RISKS).values()])
        return
    table = Table(show_lines=True)
    for heading in ("Utility", "Emphasizes", "For daily returns"):
        table.add_column(heading)
    table.add_column("Weight of a loss", no_wrap=True)  # a drawing
    for choice in (CHOICES | RISKS).values():
        daily = ", ".join(f"--{name} {value:g}" for name, value in choice.daily.items())
        if not {"alpha", "beta", "a", "tau"} >= set(choice.takes):  # no options of their own
            daily = " ".join(f"{name}={value:g}" for name, value in choice.daily.items())
        units = "depends on units" if choice.depends_on_units else ""
        table.add_row(
            cell(f"{choice.key}\n{choice.formula}"),
            cell(choice.says),
            cell(f"{daily}\n{units}".strip()),
            cell("\n".join(drawn(choice))),
        )
    print_table(table)
    units = " ".join(UNITS_HELP.split())
    print_sentence(f"{units} Parameters written NAME=NUMBER stand behind the name: -u 'wang shift=0.5'.")


def drawn(choice: Choice, width: int = 24, rows: int = 3) -> list[str]:
    """The slope of a utility around its anchor, with the parameters for daily returns.

    Of another risk it is how many ordinary days a day counts as, of normal losses of 2 % a day.
    """
    from scipy.special import ndtri

    from certeq.risk import tilt

    risk = choice.build(choice.daily, normalized=True)
    x = np.linspace(-_REACH, _REACH, 2 * width)
    if isinstance(risk, Utility):
        return braille(np.asarray(risk.slope(x)), rows, -0.2, 5.0)
    sample = 0.02 * np.asarray(ndtri((np.arange(2000) + 0.5) / 2000))
    return braille(np.interp(x, sample, 2000 * tilt(sample, risk)), rows, -0.2, 5.0)


def _facts(choice: Choice) -> dict[str, Any]:
    utility = choice.build(choice.daily)
    return {
        "name": choice.key,
        "title": choice.title,
        "formula": choice.formula,
        "meaning": choice.says,
        "parameters": list(choice.options),
        "daily_defaults": choice.daily,
        "depends_on_units": choice.depends_on_units,
        "coherent": utility.is_coherent,
        "monotone": utility.is_monotone,
        "normalized": not isinstance(utility, Utility) or utility.is_normalized,
        "slope_range": list(utility.slope_range) if isinstance(utility, Utility) else None,
    }


def braille(values: NDArray[np.float64], rows: int, low: float, high: float) -> list[str]:
    """A curve as ``rows`` lines of text, one value per dot column; above ``high`` it runs along the edge."""
    columns = values.size // 2
    cells = np.zeros((rows, columns), dtype=int)
    heights = (np.minimum(values[: 2 * columns], high) - low) / (high - low) * (4 * rows - 1)
    before: int | None = None
    for x, height in enumerate(heights):
        if not -0.5 <= height <= 4 * rows - 0.5:
            before = None
            continue
        top = 4 * rows - 1 - round(float(height))
        # A steep piece is filled in, or it would fall apart into dots.
        start, end = (top, top) if before is None else sorted((before, top))
        for y in range(start, end + 1):
            cells[y // 4, x // 2] |= _DOTS[y % 4, x % 2]
        before = top
    return ["".join(chr(0x2800 + dots) for dots in line) for line in cells]
