"""Run the experiments: ``python -m experiments [NAME ...] [--quick] [--seeds 20] [--output DIR]``."""

import argparse
import sys
import time
import traceback
import warnings
from importlib import import_module
from pathlib import Path

from certeq.risk import UnitWarning
from experiments.common import RESULTS, Experiment, Job, commit, write_outcome

# Modules by experiment, in the order of the documentation; imported when they run, as some need more libraries.
MODULES = {
    "portfolio-sp500": "portfolios",
    "portfolio-ftse100": "portfolios",
    "portfolio-nasdaq": "portfolios",
    "cvar-solver": "cvar_solver",
    "classification-breast-cancer": "classification",
    "classification-heart": "classification",
    "uncertainty": "uncertainty",
    "entropic-estimation": "entropic",
    "entropic-optimization": "entropic",
    "convergence": "convergence",
    "bounds": "bounds",
    "errata": "errata",
}
SEEDS, QUICK_SEEDS = 20, 3


def find(name: str) -> Experiment:
    """Return the experiment of this name."""
    for experiment in import_module(f"experiments.{MODULES[name]}").EXPERIMENTS:
        if experiment.name == name:
            return experiment  # type: ignore[no-any-return]
    raise ImportError(f"experiments.{MODULES[name]} has no experiment {name!r}.")


def run(name: str, job: Job, output: Path) -> str:
    """Run one experiment, write its results and print its verdicts; return why it failed, or an empty string."""
    began = time.perf_counter()
    try:
        experiment = find(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnitWarning)
            outcome = experiment.run(job)
        write_outcome(output / name, experiment, outcome, job, time.perf_counter() - began)
    except Exception as error:  # the other experiments can still run
        traceback.print_exc()
        return f"{name}: {type(error).__name__}: {error}"
    print(f"\n{experiment.title} ({time.perf_counter() - began:.0f} s)")
    for claim in outcome.claims:
        print(f"  {claim.verdict:<15} {claim.text}: printed {claim.printed}, here {claim.ours}")
    return ""


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments that were named, or all; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description="Rerun the paper's tables and figures.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(MODULES)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="shorter runs and fewer seeds, which judge less")
    parser.add_argument("--seeds", type=int, help=f"default: {SEEDS}, or {QUICK_SEEDS} with --quick")
    parser.add_argument(
        "--output",
        type=Path,
        help="folder of the results; default: experiments/results, or experiments-quick with --quick",
    )
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in MODULES]:
        parser.error(f"no experiment {unknown[0]!r}; there are {', '.join(MODULES)}.")
    if given.seeds is not None and given.seeds < 1:
        parser.error(f"--seeds must be at least 1; found {given.seeds}.")
    commit()  # cached before the results change the work tree
    output = given.output or (Path("experiments-quick") if given.quick else RESULTS)
    job = Job(given.quick, given.seeds or (QUICK_SEEDS if given.quick else SEEDS))
    failures = [run(name, job, output) for name in MODULES if not given.names or name in given.names]
    print(f"\nResults are in {output}.")
    if any(failures):
        print("Failed, without new results:", *filter(None, failures), sep="\n  ", file=sys.stderr)
    return int(any(failures))


if __name__ == "__main__":
    sys.exit(main())
