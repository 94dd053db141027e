"""``python -m benchmarks --against PATH``: is this tree as fast as another checkout of it?

Two processes live as long as the run, one with this tree's ``src`` and one with the other's, and are asked in turns for
the same case, in changing order. What is compared is their own CPU time on one thread, and a ratio is the median of the
ratios of single rounds: what else the machine does hits both sides alike. Above `LIMIT` a case is marked, after three
times as many rounds. A ratio says nothing of answers: a step more may be what a smaller gap costs.

Both trees need their compiled file; a case that one of them cannot run is shown with its error and fails the run.
The cases use public names, but for the panel of scenarios read in blocks.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import table, write_json

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 1.1
SAMPLE = 0.005  # seconds: a case that takes less is repeated within one measurement
REPEATS = 5  # measurements of which one answer is the median

Case = Callable[[], float]  # seconds of CPU time for one solve, iteration or step


# -- what is measured: in the processes that import certeq -----------------------------------------------------------


def cases() -> Iterator[tuple[str, str, Callable[[], Case]]]:
    """Group, name and maker of every case."""
    import certeq as ce
    from benchmarks import bench_exact, bench_sg, bench_torch

    sums = {
        "two CVaRs": 0.5 * ce.CVaR(0.02) + 0.5 * ce.CVaR(0.3),
        "Leaky + CVaR": 0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.1),
        "Entropic + CVaR": 0.5 * ce.Entropic(50.0) + 0.5 * ce.CVaR(0.05),
        "two kinks": ce.utility(
            lambda x: 0.3 * x + 0.7 * np.maximum(x + 0.01, 0.0) + 3.0 * np.maximum(x - 0.01, 0.0), name="two_kinks"
        ),
        "MMV + CVaR": 0.3 * ce.MonotoneMeanVariance(3) + 0.7 * ce.CVaR(0.05),
    }
    named = {repr(utility): utility for utility in bench_exact.utilities()}
    for shape in ((6234, 20), (4469, 64), (1361, 1455)):
        for name, utility in named.items():
            yield "exact", f"{shape[0]}x{shape[1]} {name}", lambda u=utility, s=shape: exact(u, s)
    for name, utility in sums.items():
        yield "exact", f"6234x20 {name}", lambda u=utility: exact(u, (6234, 20))
    for name, utility in (named | sums).items():
        yield "blocks", f"40000x20 {name}", lambda u=utility: blocks(u, (40_000, 20))
    for name, utility in ({repr(u): u for u in bench_sg.UTILITIES} | {"two CVaRs": sums["two CVaRs"]}).items():
        yield "OCE-SG", f"6234x20 full {name}", lambda u=utility: iterations(u, "full", 100)
    for name in ("CVaR(alpha=0.05)", "LeakyCVaR(alpha=0.05)", "Quartic()"):
        yield "OCE-SG", f"6234x20 batch 64 {name}", lambda u=named[name]: iterations(u, 64, 500)
    for name, utility in (bench_torch.UTILITIES | {"two CVaRs": sums["two CVaRs"]}).items():
        yield "torch", f"step, batch of 64, {name}", lambda u=utility: training_step(u)
    for name in ("CVaR(0.05)", "Entropic(1)"):
        yield "torch", f"step, 64 classes, {name}", lambda u=bench_torch.UTILITIES[name]: training_step(u, True)


@cache
def losses(shape: tuple[int, int]) -> np.ndarray:
    from benchmarks.bench_exact import factor_panel

    return factor_panel(*shape)


def timed(call: Callable[[], Any]) -> Case:
    def once() -> float:
        begin = time.process_time()
        call()
        return time.process_time() - begin

    return once


def exact(utility: Any, shape: tuple[int, int]) -> Case:
    from certeq.optimize.exact import solve_exact

    A, d = losses(shape), shape[1]
    return timed(lambda: solve_exact(A, utility, lower=0.0, C=np.ones(d), c=1.0))


def blocks(utility: Any, shape: tuple[int, int]) -> Case:
    import certeq as ce

    try:
        from certeq._table import ArrayTable
    except ImportError:  # an earlier build
        from certeq.optimize.panels import ArrayPanel as ArrayTable

    loss = ce.LinearLoss(ArrayTable(losses(shape)))
    return timed(lambda: ce.minimize(loss, utility, domain=ce.Simplex()))


def iterations(utility: Any, batch: Any, count: int) -> Case:
    """One iteration of OCE-SG, without the start and the certificate of the run: the step size looks at the clock."""
    import certeq as ce
    from certeq.optimize.sg import minimize_sg

    loss = ce.LinearLoss(losses((6234, 20)))
    at: dict[int, float] = {}

    def step(k: int) -> float:
        at[k] = time.process_time()
        return 0.01

    def once() -> float:
        at.clear()
        options = {"domain": ce.Simplex(), "batch": batch, "average": "last", "log_every": count, "rng": 1}
        minimize_sg(loss, utility, step=step, iterations=count, **options)
        return (at[max(at)] - at[min(at)]) / (max(at) - min(at))

    return once


def training_step(utility: Any, on_classes: bool = False) -> Case:
    import torch

    from benchmarks.bench_torch import classes, stepper
    from certeq.torch import OCELoss

    torch.set_num_threads(1)
    if on_classes:  # none of which is ignored
        return timed(stepper(OCELoss(utility, torch.nn.CrossEntropyLoss(reduction="none")), classes(False)))
    return timed(stepper(OCELoss(utility, torch.nn.MSELoss(reduction="none"))))


def serve() -> None:
    """Answer lines of JSON: first who this is, then the seconds of each case that is asked for by number."""
    import certeq as ce
    from certeq.risk import _compiled

    out, sys.stdout = sys.stdout, sys.stderr  # nothing else may speak there
    everything = list(cases())
    hello = {"file": ce.__file__, "compiled": _compiled.AVAILABLE, "cases": [case[:2] for case in everything]}
    print(json.dumps(hello), file=out, flush=True)
    made: dict[int, tuple[Case, int]] = {}
    for line in sys.stdin:
        which = int(line)
        try:
            if which not in made:
                case = everything[which][2]()
                case()
                begin = time.process_time()
                case()
                made[which] = case, max(1, math.ceil(SAMPLE / max(time.process_time() - begin, 1e-6)))
            case, number = made[which]
            answer: Any = statistics.median(sum(case() for _ in range(number)) / number for _ in range(REPEATS))
        except Exception as error:  # said by whoever asked
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=out, flush=True)


# -- the side that asks ----------------------------------------------------------------------------------------------


class Tree:
    """A process that imports certeq from a checkout."""

    def __init__(self, checkout: Path) -> None:
        source = checkout.resolve() / "src"
        if not (source / "certeq" / "__init__.py").exists():
            raise SystemExit(f"--against must name a checkout, a folder with src/certeq in it; found {checkout}.")
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.against"],
            cwd=ROOT,
            env=os.environ | threads | {"PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        hello = self.read()
        if source not in Path(hello["file"]).parents:
            raise SystemExit(f"certeq was imported from {hello['file']} and not from {source}: is PYTHONPATH heeded?")
        if not hello["compiled"]:
            raise SystemExit(
                f"{checkout} has no compiled certeq.risk._fused, so times would say nothing. Build it there:\n"
                f"    cd {checkout} && {sys.executable} setup.py build_ext --inplace"
            )
        self.cases: list[list[str]] = hello["cases"]

    def read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"The process that measures ended with code {self.process.wait()}; its error is above.")
        return json.loads(line)

    def measure(self, which: int) -> float | str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{which}\n")
        self.process.stdin.flush()
        return self.read()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(other: Path, rounds: int = 5) -> int:
    """Print the table of ratios; 1 where a case is slower than `LIMIT` allows or could not be run."""
    trees: dict[str, Tree] = {}
    try:
        trees = {"new": Tree(ROOT)}
        trees["old"] = Tree(other)
        rows = [measured(trees, which, group, name, rounds) for which, (group, name) in enumerate(trees["new"].cases)]
    finally:
        for tree in trees.values():
            tree.close()
    print(table(rows))
    ratios = [(row["group"], row["ratio"]) for row in rows if isinstance(row["ratio"], float)]
    for group in dict.fromkeys(group for group, _ in ratios):
        print(f"geometric mean, {group}: {geometric(r for g, r in ratios if g == group):.3f}")
    print(
        f"geometric mean, all {len(ratios)} cases: {geometric(r for _, r in ratios):.3f} (new/old; below 1 is faster)"
    )
    write_json(ROOT / "benchmarks" / "results" / "against.json", rows)
    return int(any(row["note"] for row in rows))


def measured(trees: dict[str, Tree], which: int, group: str, name: str, rounds: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {"new": [], "old": []}
    row: dict[str, Any] = {"group": group, "case": name, "new_us": "", "old_us": "", "ratio": "", "note": ""}
    while True:
        for side in ("new", "old") if len(times["new"]) % 2 == 0 else ("old", "new"):
            answer = trees[side].measure(which)
            if isinstance(answer, str):
                return row | {"note": f"{side}: {answer}"}
            times[side].append(answer)
        ratio = statistics.median(new / old for new, old in zip(times["new"], times["old"], strict=True))
        # A busy moment may last for a few rounds: nothing is called slower before it was so for three times as many.
        if len(times["new"]) >= (3 * rounds if ratio > LIMIT else rounds):
            break
    row |= {f"{side}_us": 1e6 * statistics.median(taken) for side, taken in times.items()}
    return row | {"ratio": ratio, "note": f"SLOWER than {LIMIT}" if ratio > LIMIT else ""}


def geometric(ratios: Iterator[float]) -> float:
    return statistics.geometric_mean(ratios)


if __name__ == "__main__":
    serve()
