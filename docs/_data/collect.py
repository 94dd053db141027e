"""Take benchmark results into ``benchmarks.json``, from which the comparison page is made.

python docs/_data/collect.py                          # all of benchmarks/results/, as `make bench` leaves it
python docs/_data/collect.py --quick                  # the same, where it was `python -m benchmarks --quick`
python docs/_data/collect.py torch=rows.json          # one group, from rows or from {"machine", "rows"}
python docs/_data/collect.py --command "..." exact=rows.json

A results file may say ``"command"`` or ``"quick"`` itself; the machine is the one it names.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = HERE / "benchmarks.json"
RESULTS = ROOT / "benchmarks" / "results"


def group(name: str, path: Path, command: str | None = None, quick: bool = False) -> dict[str, Any]:
    """One group with the machine it was measured on and the command that measured it."""
    found = json.loads(path.read_text())
    if isinstance(found, list):
        sys.path.insert(0, str(ROOT))
        from benchmarks.timing import machine

        found = {"machine": machine(), "rows": found}
    quick = bool(found.get("quick", quick))
    command = command or found.get("command") or f"python -m benchmarks{' --quick' if quick else ''} {name}"
    return {"command": command, "machine": found["machine"], "rows": [_tidy(row) for row in found["rows"]]}


def _tidy(row: dict[str, Any]) -> dict[str, Any]:
    """Four significant digits are more than a second run would agree with."""
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}


def main(arguments: list[str] | None = None) -> None:
    """Merge the groups named, or all that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="NAME=FILE")
    parser.add_argument("--command", help="what was run, if not python -m benchmarks NAME")
    parser.add_argument("--quick", action="store_true", help="it was python -m benchmarks --quick")
    options = parser.parse_args(arguments)
    pairs = [pair.partition("=")[::2] for pair in options.groups]
    pairs = pairs or [(path.stem, str(path)) for path in sorted(RESULTS.glob("*.json"))]
    if not pairs:
        parser.error("nothing to collect: run make bench first")
    kept = json.loads(TARGET.read_text())["groups"] if TARGET.exists() else {}
    for name, path in pairs:
        kept[name] = group(name, Path(path), options.command, options.quick)
    temporary = TARGET.with_suffix(".tmp")
    temporary.write_text(json.dumps({"groups": dict(sorted(kept.items()))}, indent=1) + "\n")
    os.replace(temporary, TARGET)
    print(f"{TARGET.name}: {', '.join(name for name, _ in pairs)} taken; it holds {', '.join(sorted(kept))}")


if __name__ == "__main__":
    main()
