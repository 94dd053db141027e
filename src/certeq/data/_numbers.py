"""Numbers as people write them: decimal commas, separators of thousands, percent and currency signs.

One file has one decimal sign. Which it is has to follow from the cells: "12,5" and "1.234,50" have a comma, "1,234.50"
and "0.5" a point, and "1,234" alone may be either. What does not follow is asked for, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNS = ("$", "€", "£", "¥", "₹")
_SAMPLE = 100  # cells that show whether a column may be numbers
_GROUPS = "[ \u00a0\u202f'’]"  # blanks and apostrophes separate thousands under either decimal sign
_MISSING = {"", "-", "--", "–", "n/a", "na", "nan", "null", "none", "#n/a"}
_SPACED = re.compile(rf"^([+-]?\d{{1,3}})((?:{_GROUPS}\d{{3}})+)((?:[.,]\d*)?)$")
_WHOLE = re.compile(r"^[+-]?\d+$")
_EITHER = re.compile(r"^[+-]?[1-9]\d{0,2}([.,])\d{3}$")
_PATTERNS = {
    ",": re.compile(r"^[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)?(?:,\d*)?(?:[eE][+-]?\d+)?$"),
    ".": re.compile(r"^[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)?(?:\.\d*)?(?:[eE][+-]?\d+)?$"),
}
_BARE = {sign: re.compile(rf"[+-]?\d+(?:[{sign}]\d+)?") for sign in (",", ".")}  # without anything to leave out
_INFINITE = {"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}


@dataclass
class Written:
    """How the numbers of a file were written."""

    decimal: str = "."
    thousands: bool = False
    signs: set[str] = field(default_factory=set)
    percent: list[str] = field(default_factory=list)  # columns

    def notes(self, asked: bool) -> list[str]:
        """What was understood, in sentences."""
        found = []
        if self.decimal == "," and not asked:
            found.append("numbers have a decimal comma; --decimal overrides that.")
        if self.thousands:
            found.append("numbers have separators of thousands, which were left out.")
        if self.signs:
            found.append(f"currency signs ({' '.join(sorted(self.signs))}) were left out.")
        if self.percent:
            found.append(f"percent signs were read as hundredths, in {', '.join(map(repr, self.percent[:3]))}.")
        return found


class Undecided(ValueError):
    """The cells do not tell which sign is the decimal one."""


@lru_cache(maxsize=1 << 16)
def _bare(text: str) -> tuple[str, bool, str]:
    """A cell without signs and blanks, whether it had a percent sign, and its currency sign."""
    text = text.strip().replace("−", "-")
    if text.startswith("(") and text.endswith(")"):  # how accounts write a minus
        text = "-" + text[1:-1].strip()
    percent = text.endswith("%")
    text = text.removesuffix("%").rstrip()
    sign = next((mark for mark in SIGNS if mark in text), "")
    if sign:
        text = text.replace(sign, "", 1).strip().replace("- ", "-")
    if spaced := _SPACED.match(text):
        text = spaced[1] + re.sub(_GROUPS, "", spaced[2]) + spaced[3]
    return text, percent, sign


def decimal_of(text: str) -> str | None:
    """The decimal sign that a cell must have: "," or "."; "" if it has none, "?" if either; None if it is no number."""
    bare, _, _ = _bare(text)
    if _WHOLE.match(bare) or bare.lower() in _INFINITE:
        return ""
    if not any(char.isdigit() for char in bare):
        return None
    if _EITHER.match(bare):
        return "?"
    fits = [sign for sign, pattern in _PATTERNS.items() if pattern.match(bare)]
    return (None, fits[0] if fits else None, "")[len(fits)]


def may_be_thousands(text: str) -> bool:
    """Whether the sign in a number may be a decimal one or separate thousands."""
    return _EITHER.match(_bare(text)[0]) is not None


def may_be_numbers(column: Any) -> bool:
    """Whether at least half of the cells of a text column, among some of them, look like numbers."""
    known = column.dropna()
    some = [str(cell) for cell in known.iloc[:: max(1, len(known) // _SAMPLE)].to_numpy(dtype=object)]
    some = [cell for cell in some if cell.strip().lower() not in _MISSING]
    return bool(some) and 2 * sum(decimal_of(cell) is not None for cell in some) >= len(some)


def choose_decimal(cells: Iterable[str]) -> str:
    """The decimal sign of a file, from its cells, "" if they have none; `Undecided` where they do not tell."""
    seen: dict[str, str] = {}
    for cell in cells:
        sign = decimal_of(cell)
        if sign:
            seen.setdefault(f"{sign}{_EITHER.match(_bare(cell)[0])[1]}" if sign == "?" else sign, cell)  # type: ignore[index]
    if "," in seen and "." in seen:
        raise Undecided(f"{seen[',']!r} has a decimal comma and {seen['.']!r} a decimal point")
    for sign in (",", "."):
        if sign in seen:
            return sign
    if "?," in seen:
        number = _bare(seen["?,"])[0]
        raise Undecided(f"{seen['?,']!r} may be {number.replace(',', '')} or {number.replace(',', '.')}")
    return ""


def parse(column: Any, decimal: str, written: Written, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers of a text column, NaN where a cell is empty, and which cells are no numbers."""
    values, wrong = np.full(len(column), np.nan), np.zeros(len(column), dtype=bool)
    percent, bare, other = 0, _BARE[decimal].fullmatch, "." if decimal == "," else ","
    for i, cell in enumerate(column.to_numpy(dtype=object)):
        if isinstance(cell, str) and bare(cell):  # nearly always
            values[i] = float(cell.replace(decimal, ".") if decimal == "," else cell)
            continue
        if cell is None or cell != cell:
            continue
        if isinstance(cell, (int, float)) and not isinstance(cell, bool):
            values[i] = cell
            continue
        text, is_percent, sign = _bare(str(cell))
        if text.lower() in _MISSING:
            continue
        if text.lower() in _INFINITE:
            number = float(text)
        elif any(char.isdigit() for char in text) and _PATTERNS[decimal].match(text):
            written.thousands |= other in text or bool(_SPACED.match(str(cell).strip()))
            number = float(text.replace(other, "").replace(decimal, "."))
        else:
            wrong[i] = True
            continue
        if is_percent:
            percent += 1
            number = float(Decimal(repr(number)).scaleb(-2))  # as 0.017 is read, not as 1.7/100 is rounded
        if sign:
            written.signs.add(sign)
        values[i] = number
    if percent:
        written.percent.append(name)
    return values, wrong
