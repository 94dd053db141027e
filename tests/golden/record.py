"""How the record is kept, and what a new answer may differ in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.golden.cases import Entry

PATH = Path(__file__).with_name("record.json")
DIGITS = 1e-12  # of the scale
LAST = 1e-15  # of the value itself: four or five roundings


@cache
def recorded() -> dict[str, dict[str, Entry]]:
    """The record: answers by part ("long", "short", "exact") and case."""
    return json.loads(PATH.read_text())


def write(parts: dict[str, dict[str, Entry]]) -> None:
    """One case a line, so that a change of the record can be read case by case."""
    texts = []
    for part, entries in parts.items():
        lines = ",\n".join(f"  {json.dumps(case)}: {json.dumps(entry)}" for case, entry in entries.items())
        texts.append(f" {json.dumps(part)}: {{\n{lines}\n }}")
    PATH.write_text("{\n" + ",\n".join(texts) + "\n}\n")


def worse(found: Entry, was: Entry) -> Iterator[str]:
    """What a new answer is worse in than the recorded one.

    The value may differ by rounding, and by what neither certificate rules out. How a BLAS orders its sums may change
    a step of the exact solver, so its steps, and on panels their reads, may differ a little; the gap, mostly rounding,
    may be ten times as large. Reads of one sample depend on no BLAS: there are no more of them than there
    were. A better answer is never a fault.
    """
    tolerance = (DIGITS + found.get("gap", 0.0) + was.get("gap", 0.0)) * was["scale"] + LAST * abs(was["value"])
    off = abs(found["value"] - was["value"])
    if not off <= tolerance:  # also where it is NaN
        yield f"value {found['value']!r}, was {was['value']!r}: off by {off:.1e}, at most {tolerance:.1e}"
    if "gap" in was and not found["gap"] <= max(10.0 * was["gap"], DIGITS):
        yield f"relative gap {found['gap']:.1e}, was {was['gap']:.1e}"
    if "status" in was and found["status"] not in (was["status"], "converged"):
        yield f"status {found['status']!r}, was {was['status']!r}"
    for count in ("iterations", "reads"):
        most = was.get(count, 0)
        if "gap" in was:
            most = max(most + 2, int(1.25 * most))
        if count in was and found[count] > most:
            yield f"{count} {found[count]}, was {was[count]}"
