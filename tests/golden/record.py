"""How the record is kept, and how much a new answer may differ from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.golden.cases import Entry, with_scale

PATH = Path(__file__).with_name("record.json")
DIGITS = 1e-12  # relative to the scale, the mean size of what is averaged
LAST = 1e-15  # relative to the largest loss: four or five roundings


@cache
def recorded() -> dict[str, dict[str, Entry]]:
    """Return the record: entries by part ("long", "short", "exact") and case."""
    return json.loads(PATH.read_text())


def write(parts: dict[str, dict[str, Entry]]) -> None:
    """Write one case per line, so that a change of the record can be read case by case."""
    texts = []
    for part, entries in parts.items():
        lines = [
            f"  {json.dumps(case)}: {json.dumps(with_scale(entry, part, case))}" for case, entry in entries.items()
        ]
        texts.append(f" {json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n }")
    PATH.write_text("{\n" + ",\n".join(texts) + "\n}\n")


def worse(found: Entry, was: Entry) -> Iterator[str]:
    """Yield how a new answer is worse than the recorded one.

    The value may differ by rounding, which grows with the losses, and by both gaps. The gap, mostly rounding, may be
    ten times as large. A better status or gap is no fault.
    """
    gap, known = (entry.get("gap", 0.0) * entry.get("scale", 0.0) for entry in (found, was))
    tolerance = DIGITS * was["scale"] + LAST * found["largest"] + gap + known
    off = abs(found["value"] - was["value"])
    if not off <= tolerance:  # also if it is NaN
        yield f"value {found['value']!r}, was {was['value']!r}: off by {off:.1e}, at most {tolerance:.1e}"
    if not gap <= max(10.0 * known, DIGITS * max(was["scale"], found["largest"])):
        yield f"gap {gap:.1e}, was {known:.1e}"
    if "status" in was and found["status"] not in (was["status"], "converged"):
        yield f"status {found['status']!r}, was {was['status']!r}"


def costlier(found: Entry, was: Entry) -> Iterator[str]:
    """Yield the counts that grew. A BLAS may change a step by the order of its sums, so they are shown, not judged."""
    for count in ("iterations", "reads"):
        if found.get(count, 0) > was.get(count, 0):
            yield f"{count} {found[count]}, was {was[count]}"
