"""``make bench``: every benchmark of this folder, tables on the screen and JSON in benchmarks/results/."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from benchmarks.timing import machine, table, write_json

HERE = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(NAMES)} (all)")
    parser.add_argument("--quick", action="store_true", help="smaller problems, fewer repeats")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark called {unknown[0]!r}; there are: {', '.join(NAMES)}")
    here = machine()
    print(f"{here['cpu']}, {here['cores']} cores, Python {here['python']}, {here['packages']}\n")
    for name in args.names or NAMES:
        rows = importlib.import_module(f"benchmarks.bench_{name}").run(quick=args.quick)
        print(f"== {name}\n{table(rows)}\n", flush=True)
        write_json(HERE / "results" / f"{name}.json", {"machine": here, "quick": args.quick, "rows": rows})


if __name__ == "__main__":
    main()
