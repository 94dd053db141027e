"""``python -m benchmarks --against PATH``: is this tree as fast as another checkout of it?

Two processes live as long as the run, one with this tree's ``src`` and one with the other's, and measure the same case
in turns, in changing order. Their CPU time on one thread is compared; a ratio is the median of the ratios of single
rounds, so that other work on the machine affects both sides alike. A case above the limit of its group is measured in
three times as many rounds before it is marked. Ratios do not show answers: a smaller gap may cost one more step.

Groups whose name begins with "traded" may become slower, up to `TRADED_LIMIT`; all others are protected by `LIMIT`.
The cases use public names that both trees have. Both trees need their compiled file. A case that one of them cannot
run is shown with its error and fails the run.
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import table, write_json

ROOT = Path(__file__).resolve().parents[1]
LIMIT, TRADED_LIMIT = 1.15, 3.0
SAMPLE = 0.005  # seconds: a case that takes less is repeated within one measurement
REPEATS = 5  # measurements of which one answer is the median
LONG = 0.5  # seconds: a case that takes more is measured once

Case = Callable[[], float]  # seconds of CPU time for one solve, iteration or step


# -- what is measured: in the processes that import certeq -----------------------------------------------------------


def cases() -> Iterator[tuple[str, str, Callable[[], Case]]]:
    """Yield group, name and maker of every case."""
    import certeq as ce
    from benchmarks import bench_exact, bench_torch

    cvar, evar = ce.CVaR(0.05), ce.EVaR(0.05)
    sums = {
        "two CVaRs": 0.5 * ce.CVaR(0.02) + 0.5 * ce.CVaR(0.3),
        "Entropic + CVaR": 0.5 * ce.Entropic(50.0) + 0.5 * cvar,
        "two kinks": ce.utility(
            lambda x: 0.3 * x + 0.7 * np.maximum(x + 0.01, 0.0) + 3.0 * np.maximum(x - 0.01, 0.0), name="two_kinks"
        ),
    }
    named = {repr(utility): utility for utility in bench_exact.utilities()}

    for shape in ("S&P 500", "FTSE 100", "1361x1455"):
        if shape == "FTSE 100" and not os.environ.get("SKFOLIO_DATA"):
            print("FTSE 100 is left out: SKFOLIO_DATA does not name the folder of its prices.", file=sys.stderr)
            continue
        for name, utility in (named | (sums if shape == "S&P 500" else {})).items():
            yield "exact", f"{shape} {name}", partial(exact, utility, shape)
        yield "EVaR", f"minimize, {shape}", partial(exact, evar, shape)
    for n in (1000, 100_000):
        yield "EVaR", f"oce of {n}", partial(vector, evar, n)

    yield "decisions", "return under a limit", partial(limited, cvar)
    yield "decisions", "return under an EVaR limit", partial(limited, evar)
    yield "decisions", "ratio", ratio
    yield "decisions", "risk budgets", partial(budgets, cvar)
    yield "decisions", "risk budgets, EVaR", partial(budgets, evar)

    for name, utility in ({"CVaR(alpha=0.05)": cvar, "Entropic(beta=50.0)": ce.Entropic(50.0)}).items():
        yield "portfolio", f"walk-forward {name}", partial(walk_forward, utility)
    yield "portfolio", "frontier of 15", frontier

    for name, utility in bench_torch.UTILITIES.items():
        yield "OCELoss", f"step, batch of 64, {name}", partial(training_step, utility)
    for name in ("CVaR(0.05)", "Entropic(1)"):
        yield "OCELoss", f"step, 64 classes, {name}", partial(training_step, bench_torch.UTILITIES[name], True)

    for n in (20, 1000, 20_000, 1_000_000, 10_000_000):
        for name, utility in (bench_torch.UTILITIES | {"Mean": ce.Mean()}).items():
            yield "one vector", f"oce of {n} {name}", partial(vector, utility, n)
    yield "import", "import certeq", lambda: import_certeq

    for name, utility in sums.items():
        for n in (20, 20_000):
            yield "traded vectors", f"oce of {n} {name}", partial(vector, utility, n)
    for name in ("CVaR(0.05)", "Entropic(1)", "LeakyCVaR(0.05)"):
        yield "traded vectors", f"1000 rows of 100 {name}", partial(rows, bench_torch.UTILITIES[name])
    for risk in (ce.HMCR(2, 0.05), ce.SmoothCVaR(0.2).ball(0.1)):
        yield "traded vectors", f"oce of 200000 {risk!r}", partial(vector, risk, 200_000)
    for risk in (cvar, ce.Entropic(1.0), evar):
        yield "traded estimates", f"estimate of 1000 {risk!r}", partial(estimate, risk, 1000)
    yield "traded estimates", "estimate of 100000 CVaR", partial(estimate, cvar, 100_000)
    yield "traded estimates", "oce of scipy.stats.t(5)", partial(distribution, cvar)
    for name, utility in {"CVaR": cvar, "MMV(2)": ce.MonotoneMeanVariance(2), "EVaR": evar}.items():
        yield "traded blocks", f"oce of 5000000 in Dask {name}", partial(dask_vector, utility)
    for name, utility in {"CVaR": cvar, "Entropic": ce.Entropic(50.0)}.items():
        yield "traded blocks", f"minimize 250000x20 in a file {name}", partial(mapped, utility)
    for name in ("CVaR(alpha=0.05)", "Entropic(beta=50.0)", "Quartic()"):
        yield "traded OCE-SG", f"6234x20 full {name}", partial(iterations, named[name], "full", 100)
        yield "traded OCE-SG", f"6234x20 batch 64 {name}", partial(iterations, named[name], 64, 500)


@cache
def losses(shape: str) -> np.ndarray:
    """Return the panel of losses with a name."""
    from benchmarks import bench_exact

    load = {"S&P 500": bench_exact.sp500, "FTSE 100": bench_exact.ftse100, "1361x1455": bench_exact.factor_panel}
    return load[shape]()


def timed(call: Callable[[], Any]) -> Case:
    """Return a case that measures the CPU time of a call."""

    def once() -> float:
        begin = time.process_time()
        call()
        return time.process_time() - begin

    return once


def exact(risk: Any, shape: str) -> Case:
    import certeq as ce

    loss = ce.LinearLoss(losses(shape))
    return timed(lambda: ce.minimize(loss, risk, domain=ce.Simplex()))


def limited(risk: Any) -> Case:
    """Maximize the return under a limit of 1.1 times the smallest risk."""
    import certeq as ce

    loss, simplex = ce.LinearLoss(losses("S&P 500")), ce.Simplex()
    limit = ce.Limit(loss, risk, 1.1 * ce.minimize(loss, risk, domain=simplex).value)
    return timed(lambda: ce.minimize(loss, ce.Mean(), domain=simplex, limits=[limit]))


def ratio() -> Case:
    import certeq as ce

    A = losses("S&P 500")
    loss, mu = ce.LinearLoss(A), -A.mean(axis=0)
    return timed(lambda: ce.maximize_ratio(mu, loss, ce.CVaR(0.05), domain=ce.Simplex()))


def budgets(risk: Any) -> Case:
    import certeq as ce

    loss = ce.LinearLoss(losses("S&P 500"))
    return timed(lambda: ce.risk_budgeting(loss, risk))


def returns() -> Any:
    import pandas as pd

    return pd.DataFrame(-losses("S&P 500")[-2500:]).add_prefix("asset ")


def walk_forward(risk: Any) -> Case:
    from skfolio.model_selection import WalkForward, cross_val_predict

    from certeq.portfolio import MinimumOCE

    X, cv = returns(), WalkForward(train_size=1260, test_size=120)
    return timed(lambda: cross_val_predict(MinimumOCE(risk), X, cv=cv))


def frontier() -> Case:
    import certeq as ce
    from certeq.portfolio import MinimumOCE

    X = returns()
    return timed(lambda: MinimumOCE(ce.CVaR(0.05)).efficient_frontier(X, 15))


def training_step(risk: Any, on_classes: bool = False) -> Case:
    import torch

    from benchmarks.bench_torch import classes, stepper
    from certeq.torch import OCELoss

    torch.set_num_threads(1)
    if on_classes:  # no class is ignored
        return timed(stepper(OCELoss(risk, torch.nn.CrossEntropyLoss(reduction="none")), classes(False)))
    return timed(stepper(OCELoss(risk, torch.nn.MSELoss(reduction="none"))))


@cache
def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def vector(risk: Any, n: int) -> Case:
    import certeq as ce

    x = normal(n)
    return timed(lambda: ce.oce(x, risk))


def rows(risk: Any) -> Case:
    import certeq as ce

    x = normal(1000, 100)
    return timed(lambda: ce.oce(x, risk, axis=1))


def estimate(risk: Any, n: int) -> Case:
    import certeq as ce

    x = normal(n)
    return timed(lambda: ce.estimate(x, risk).interval(0.95))


def distribution(risk: Any) -> Case:
    from scipy import stats

    import certeq as ce

    return timed(lambda: ce.oce(stats.t(5), risk))


def dask_vector(risk: Any) -> Case:
    import dask
    import dask.array as da

    import certeq as ce

    dask.config.set(scheduler="synchronous")
    x = da.from_array(normal(5_000_000), chunks=1_000_000)
    return timed(lambda: ce.oce(x, risk))


def mapped(risk: Any) -> Case:
    """Minimize over losses in a memory-mapped file."""
    import certeq as ce
    from benchmarks.bench_exact import factor_panel

    file = tempfile.TemporaryFile()  # noqa: SIM115 (mapped as long as the process lives)
    factor_panel(250_000, 20).tofile(file)
    file.flush()
    loss = ce.LinearLoss(np.memmap(file, np.float64, "r", shape=(250_000, 20)))
    return timed(lambda: ce.minimize(loss, risk, domain=ce.Simplex()))


def iterations(risk: Any, batch: Any, count: int) -> Case:
    """One iteration of OCE-SG without the run's start and certificate: the step schedule reads the clock."""
    import certeq as ce

    loss = ce.LinearLoss(losses("S&P 500"))
    at: dict[int, float] = {}

    def step(k: int) -> float:
        at[k] = time.process_time()
        return 0.01

    def once() -> float:
        at.clear()
        options = {"batch": batch, "average": "last", "log_every": count, "rng": 1}
        ce.minimize(loss, risk, domain=ce.Simplex(), method="sg", step=step, iterations=count, **options)
        return (at[max(at)] - at[min(at)]) / (max(at) - min(at))

    return once


def import_certeq() -> float:
    """Return the CPU time of a process that imports certeq."""
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import certeq"], check=True)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def serve() -> None:
    """Write lines of JSON: first the file and the cases, then the seconds of each case whose number is read."""
    import certeq as ce

    warnings.simplefilter("ignore")
    out, sys.stdout = sys.stdout, sys.stderr  # standard output carries the answers alone
    everything = list(cases())
    compiled = any(Path(ce.__file__).parent.rglob("_*.abi3.*")) or any(Path(ce.__file__).parent.rglob("_*.pyd"))
    hello = {"file": ce.__file__, "compiled": compiled, "cases": [case[:2] for case in everything]}
    print(json.dumps(hello), file=out, flush=True)
    made: dict[int, tuple[Case, int, int]] = {}
    for line in sys.stdin:
        which = int(line)
        try:
            if which not in made:
                case = everything[which][2]()
                case()
                begin = time.process_time()
                case()
                taken = time.process_time() - begin
                made[which] = case, max(1, math.ceil(SAMPLE / max(taken, 1e-6))), 1 if taken > LONG else REPEATS
            case, number, repeats = made[which]
            answer: Any = statistics.median(sum(case() for _ in range(number)) / number for _ in range(repeats))
        except Exception as error:  # printed by the other side
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=out, flush=True)


# -- the process that compares ----------------------------------------------------------------------------------------


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
            raise SystemExit(f"certeq was imported from {hello['file']} and not from {source}: is PYTHONPATH ignored?")
        if not hello["compiled"]:
            raise SystemExit(
                f"{checkout} has no compiled file, so its times would be those of the slow path. Build it there:\n"
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
    """Print the table of ratios; return 1 if a case is slower than its limit or could not be run."""
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
    limit = TRADED_LIMIT if group.startswith("traded") else LIMIT
    row: dict[str, Any] = {"group": group, "case": name, "new_us": "", "old_us": "", "ratio": "", "note": ""}
    while True:
        for side in ("new", "old") if len(times["new"]) % 2 == 0 else ("old", "new"):
            answer = trees[side].measure(which)
            if isinstance(answer, str):
                return row | {"note": f"{side}: {answer}"}
            times[side].append(answer)
        ratio = statistics.median(new / old for new, old in zip(times["new"], times["old"], strict=True))
        # A busy moment may last for a few rounds, so a slow case gets three times as many.
        if len(times["new"]) >= (3 * rounds if ratio > limit else rounds):
            break
    row |= {f"{side}_us": 1e6 * statistics.median(taken) for side, taken in times.items()}
    return row | {"ratio": ratio, "note": f"SLOWER than {limit}" if ratio > limit else ""}


def geometric(ratios: Iterator[float]) -> float:
    return statistics.geometric_mean(ratios)


if __name__ == "__main__":
    serve()
