"""``python -m tests.golden``: solve every case and show what is worse than recorded; ``--write`` writes a new record.

Reads and iterations that grew are shown as costs; the tests judge values, gaps and statuses alone. A new record is
written only where answers got better (fewer reads or iterations, smaller gaps, a value that was wrong) or cases were
added, in a commit of its own that says which and why, never to make a failing comparison pass.
"""

from __future__ import annotations

import argparse
import sys

from tests.golden import cases
from tests.golden.record import PATH, costlier, recorded, worse, write


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write a new record")
    asked = parser.parse_args()
    parts: dict[str, dict[str, cases.Entry]] = {"long": {}, "short": {}, "exact": {}}
    for utility in cases.RISKS:
        for sample in cases.samples():
            parts["long"][f"{sample} {utility}"] = cases.long_sample(sample, utility)
        for sample, entry in cases.short_samples(utility).items():
            parts["short"][f"{sample} {utility}"] = entry
    for name in cases.names():
        parts["exact"][name] = cases.exact_problem(name)
    known = recorded() if PATH.exists() else {}
    counts = {"worse": 0, "costlier": 0, "better": 0, "new": 0}
    for part, entries in parts.items():
        for case, entry in entries.items():
            was = known.get(part, {}).get(case)
            if was is None:
                counts["new"] += 1
                continue
            for fault in worse(entry, was):
                counts["worse"] += 1
                print(f"{part} {case}: {fault}")
            for cost in costlier(entry, was):
                counts["costlier"] += 1
                print(f"{part} {case}: {cost} (shown, not judged)")
            counts["better"] += any(entry[count] < was[count] for count in ("reads", "iterations") if count in was)
    counts["gone"] = sum(case not in parts[part] for part, entries in known.items() for case in entries)
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    if asked.write:
        write(parts)
    return 1 if counts["worse"] and not asked.write else 0


if __name__ == "__main__":
    sys.exit(main())
