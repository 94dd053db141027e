"""``make bench``: every benchmark of this folder, tables on the screen and JSON in benchmarks/results/.

``--against PATH`` compares the speed of this tree with that of another checkout instead (`benchmarks.against`).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from benchmarks.timing import machine, table, write_json

HERE = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(NAMES)} (all)")
    parser.add_argument("--quick", action="store_true", help="smaller problems, fewer repeats")
    parser.add_argument("--against", metavar="PATH", type=Path, help="another checkout, with its compiled file")
    parser.add_argument("--rounds", type=int, default=5, help="of --against: turns that each tree gets (5)")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds must be 1 or more; found {args.rounds}.")
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark called {unknown[0]!r}; there are: {', '.join(NAMES)}")
    here = machine()
    print(f"{here['cpu']}, {here['cores']} cores, Python {here['python']}, {here['packages']}\n")
    if args.against is not None:
        if args.names or args.quick:
            parser.error("--against measures cases of its own: no NAME and no --quick go with it.")
        from benchmarks.against import compare

        return compare(args.against, args.rounds)
    for name in args.names or NAMES:
        rows = importlib.import_module(f"benchmarks.bench_{name}").run(quick=args.quick)
        print(f"== {name}\n{table(rows)}\n", flush=True)
        write_json(HERE / "results" / f"{name}.json", {"machine": here, "quick": args.quick, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
