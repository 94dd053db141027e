"""OCE-SG on portfolios: what one full-batch iteration costs, in units of its two matrix-vector products.

    python benchmarks/bench_sg.py [--quick] [--json]

Both are timed in short alternating stretches, in CPU time, and the best (and the median) of each is compared, so that
a busy machine spoils neither side more than the other. ``seconds`` is the wall-clock time of a whole run, logging and
certificate included, and ``cpu_seconds`` what it is on an idle machine.

The products are timed on the matrix as it was passed in, by rows. The run itself keeps a copy by columns (up to 64 MB),
on which they are about a fifth faster; against products on that copy the ratios are higher by as much.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

import certeq as ce

UTILITIES = [
    ce.CVaR(0.05),
    ce.Entropic(1.0),
    ce.Entropic(50.0),
    ce.MeanVariance(1.0),
    ce.MonotoneMeanVariance(2),
    ce.Quartic(),
    ce.LeakyCVaR(0.05),
    ce.SmoothCVaR(0.05),
    ce.SmoothCVaR(0.05, tau=0.005),
]


def sp500() -> np.ndarray:
    """Minus the training returns of the S&P 500 panel that skfolio ships: 6234 x 20."""
    from skfolio.datasets import load_sp500_dataset
    from skfolio.preprocessing import prices_to_returns

    returns = np.asarray(prices_to_returns(load_sp500_dataset()))
    return np.ascontiguousarray(-returns[: int(0.75 * len(returns))])


def factor_panel(n: int, d: int) -> np.ndarray:
    """Minus returns of d assets on three heavy-tailed factors."""
    rng = np.random.default_rng(0)
    factors = 0.01 * rng.standard_t(4, size=(n, 3))
    return -(factors @ rng.normal(1.0, 0.3, size=(3, d)) + 0.01 * rng.standard_t(4, size=(n, d)) + 3e-4)


def panels(quick: bool) -> dict[str, np.ndarray]:
    found = {}
    try:
        found["S&P 500"] = sp500()
    except ImportError:
        found["like S&P 500"] = factor_panel(6234, 20)
    if not quick:
        found["like FTSE 100"] = factor_panel(4469, 64)
        found["like Nasdaq"] = factor_panel(1021, 1455)
    return found


def matvecs(A: np.ndarray, repeat: int) -> float:
    """CPU seconds of A theta and A^T q, each once."""
    theta, q = np.full(A.shape[1], 1 / A.shape[1]), np.full(A.shape[0], 1 / A.shape[0])
    begin = time.process_time()
    for _ in range(repeat):
        np.dot(A, theta)
        np.dot(q, A)
    return (time.process_time() - begin) / repeat


class Stopwatch:
    """A constant step that times the iterations between its calls, and the products in between."""

    def __init__(self, A: np.ndarray, stretch: int) -> None:
        self.A, self.stretch, self.step = A, stretch, 1.0 / np.sqrt(len(A))
        self.begin, self.iterations, self.products = 0.0, [], []

    def __call__(self, k: int) -> float:
        if k % self.stretch == 0:
            self.iterations.append((time.process_time() - self.begin) / (self.stretch - 1))
            self.products.append(matvecs(self.A, self.stretch))
        if k % self.stretch == 1:
            self.begin = time.process_time()
        return self.step


def measure(A: np.ndarray, utility: ce.Utility, iterations: int) -> dict[str, Any]:
    settings = {"domain": ce.Simplex(), "method": "sg", "batch": "full", "average": "last", "iterations": iterations}
    watch = Stopwatch(A, 50 if A.shape[1] < 100 else 10)
    ce.minimize(ce.LinearLoss(A), utility, step=watch, log_every=iterations, **settings)
    begin = time.process_time()
    found = ce.minimize(ce.LinearLoss(A), utility, step=watch.step, **settings)
    cpu = time.process_time() - begin
    iteration, product = min(watch.iterations), min(watch.products)
    return {
        "utility": repr(utility),
        "rows": A.shape[0],
        "columns": A.shape[1],
        "iterations": iterations,
        "seconds": round(found.seconds, 3),
        "cpu_seconds": round(cpu, 3),
        "iteration_us": round(1e6 * iteration, 1),
        "matvecs_us": round(1e6 * product, 1),
        "ratio": round(iteration / product, 2),
        "median_ratio": round(float(np.median(watch.iterations) / np.median(watch.products)), 2),
        "value": found.value,
        "gap": found.gap,
    }


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Time every utility on every panel; quick takes the S&P panel and few iterations."""
    rows = []
    for name, A in panels(quick).items():
        full = 15000 if A.shape[1] < 100 else 1500
        for utility in UTILITIES:
            rows.append({"panel": name} | measure(A, utility, 1500 if quick else full))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = run(arguments.quick)
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        columns = ("panel", "utility", "iterations", "seconds", "cpu_seconds", "iteration_us", "matvecs_us", "ratio")
        columns += ("median_ratio", "gap")
        print(" | ".join(columns))
        for row in rows:
            print(" | ".join(f"{row[name]:.2g}" if name == "gap" else str(row[name]) for name in columns))
