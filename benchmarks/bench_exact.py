"""The exact solver against cvxpy with Clarabel and against skfolio's MeanRisk, in one run.

    python benchmarks/bench_exact.py            # every panel: the largest takes Clarabel about two minutes a utility
    python benchmarks/bench_exact.py --quick    # S&P 500, three utilities
    python benchmarks/bench_exact.py --json rows.json

The formulations given to cvxpy are independent of this library: log-sum-exp, second-order cones, powers and
softplus, with the threshold as one more variable. Wall-clock time is what a user waits for, building the cones
included; a median of several runs after a first one, on both sides, where a run takes less than two seconds. CPU time
is shown too, because a busy machine spoils the former.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import certeq as ce

Row = dict[str, Any]


def sp500() -> np.ndarray:
    from skfolio.datasets import load_sp500_dataset

    return _train(load_sp500_dataset())


def ftse100() -> np.ndarray:
    from skfolio.datasets import load_ftse100_dataset

    folder = os.environ.get("SKFOLIO_DATA")  # where it is not absolute, skfolio looks in its own folder
    return _train(load_ftse100_dataset(data_home=folder and os.path.abspath(folder)))


def _train(prices: Any) -> np.ndarray:
    from skfolio.preprocessing import prices_to_returns
    from sklearn.model_selection import train_test_split

    train, _ = train_test_split(prices_to_returns(prices), shuffle=False)
    return -train.to_numpy()


def factor_panel(scenarios: int = 1361, assets: int = 1455, factors: int = 10, seed: int = 0) -> np.ndarray:
    """Losses of a seeded heavy-tailed factor model, deviations of one to two per cent."""
    rng = np.random.default_rng(seed)
    strength = 0.006 * np.r_[1.5, np.full(factors - 1, 0.6)]
    common = rng.standard_t(4, size=(scenarios, factors)) * strength
    loading = rng.normal(0.0, 0.5, size=(assets, factors))
    loading[:, 0] = rng.uniform(0.4, 1.6, assets)
    own = rng.standard_t(4, size=(scenarios, assets)) * rng.uniform(0.006, 0.016, assets)
    return -(common @ loading.T + own + rng.normal(0.0004, 0.0003, assets))


def conic_objective(utility: ce.Utility, x: Any, t: Any, count: int) -> Any:
    """t + mean u(x - t), in cvxpy's words; None where no cone expresses it."""
    import cvxpy as cp

    match utility:
        case ce.Entropic():
            return (cp.log_sum_exp(utility.beta * x) - math.log(count)) / utility.beta
        case ce.MeanVariance():
            return cp.sum(x) / count + utility.beta * cp.sum_squares(x - cp.sum(x) / count) / count
        case ce.MonotoneMeanVariance(a=2):
            return t + (cp.sum_squares(cp.pos(x - t + 1)) / count - 1) / 2
        case ce.MonotoneMeanVariance():
            return t + (cp.sum(cp.power(cp.pos(x - t + 1), utility.a)) / count - 1) / utility.a
        case ce.Quartic():
            return t + cp.sum(cp.power(cp.pos(x - t + 1), 4)) / count - 1
        case ce.CVaR():
            return t + cp.sum(cp.pos(x - t)) / (count * utility.alpha)
        case ce.SmoothCVaR():
            return t + (utility.width / utility.alpha) * cp.sum(cp.logistic((x - t) / utility.width)) / count
    return None


def with_clarabel(losses: np.ndarray, utility: ce.Utility) -> tuple[float, float, np.ndarray] | None:
    """Seconds, CPU seconds and weights of cvxpy with Clarabel at its own settings; None where it does not solve."""
    import cvxpy as cp

    began, cpu = time.perf_counter(), time.process_time()
    count, assets = losses.shape
    theta, t = cp.Variable(assets), cp.Variable()
    objective = conic_objective(utility, losses @ theta, t, count)
    if objective is None:
        return None
    try:
        cp.Problem(cp.Minimize(objective), [theta >= 0, cp.sum(theta) == 1]).solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return None
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    if theta.value is None:
        return None
    weights = np.maximum(theta.value, 0.0)
    return seconds, cpu, weights / weights.sum()


def with_skfolio(losses: np.ndarray, utility: ce.CVaR) -> tuple[float, float, np.ndarray]:
    """Seconds, CPU seconds and weights of MeanRisk as a user would call it."""
    from skfolio import RiskMeasure
    from skfolio.optimization import MeanRisk

    began, cpu = time.perf_counter(), time.process_time()
    found = MeanRisk(risk_measure=RiskMeasure.CVAR, cvar_beta=1 - utility.alpha).fit(-losses)
    return time.perf_counter() - began, time.process_time() - cpu, np.asarray(found.weights_)


def compare(case: str, losses: np.ndarray, utility: ce.Utility, peers: list[str]) -> list[Row]:
    """Our time and gap, and a row per peer with how much worse its objective is."""

    def solve() -> tuple[float, float, ce.Solution]:
        began, cpu = time.perf_counter(), time.process_time()
        found = ce.minimize(ce.LinearLoss(losses), utility, domain=ce.Simplex())
        return time.perf_counter() - began, time.process_time() - cpu, found

    ours_seconds, ours_cpu, ours = _median(solve)
    rows = []
    for peer in peers:
        contestant = with_skfolio if peer == "skfolio" else with_clarabel
        seconds, cpu, weights = _median(lambda contestant=contestant: contestant(losses, utility))
        theirs = math.nan if weights is None else _value(losses, utility, weights)
        rows.append(
            {
                "case": case,
                "utility": repr(utility),
                "seconds": ours_seconds,
                "cpu_seconds": ours_cpu,
                "peer": peer,
                "peer_seconds": seconds,
                "peer_cpu_seconds": cpu,
                "ratio": seconds / ours_seconds,
                "cpu_ratio": cpu / ours_cpu,
                "our_gap": ours.gap,
                "our_relative_gap": ours.gap / abs(ours.value),
                "peer_objective_minus_ours": theirs - ours.value,
            }
        )
    return rows


def _median(run: Callable[[], tuple[float, float, Any] | None]) -> tuple[float, float, Any]:
    """Median seconds of a contestant and its answer: after a run to warm up, as many more as a second or two allow."""
    found = run()
    if found is None:
        return math.nan, math.nan, None
    times = [found[:2]] if found[0] > 2.0 else []
    while not times or (len(times) < 15 and sum(wall for wall, _ in times) < 1.0):
        again = run()
        if again is not None:
            times.append(again[:2])
    wall, cpu = np.median(times, axis=0)
    return float(wall), float(cpu), found[2]


def _value(losses: np.ndarray, utility: ce.Utility, theta: np.ndarray) -> float:
    """OCE at a fixed theta, by the same code for every contestant."""
    return ce.oce(losses @ theta, utility)


def utilities() -> list[ce.Utility]:
    return [
        ce.Entropic(50.0),
        ce.MeanVariance(25.0),
        ce.MonotoneMeanVariance(2),
        ce.MonotoneMeanVariance(3),
        ce.Quartic(),
        ce.SmoothCVaR(0.05, 0.005),
        ce.LeakyCVaR(0.05),
        ce.CVaR(0.05),
    ]


def run(quick: bool = False, report: Callable[[Row], None] = lambda row: None) -> list[Row]:
    """All rows of the table."""
    panels: list[tuple[str, Callable[[], np.ndarray]]] = [("S&P 500", sp500)]
    chosen = utilities()
    if quick:
        chosen = [ce.Entropic(50.0), ce.MeanVariance(25.0), ce.CVaR(0.05)]
    else:
        panels += [("FTSE 100", ftse100), ("factor panel", factor_panel)]
    rows: list[Row] = []
    for name, load in panels:
        try:
            losses = load()
        except Exception as error:  # the data may need a download that is not to be had here
            print(f"{name} is left out: {error}")
            continue
        for utility in chosen:
            peers = ["clarabel", "skfolio"] if isinstance(utility, ce.CVaR) else ["clarabel"]
            for row in compare(f"{name} {losses.shape[0]}x{losses.shape[1]}", losses, utility, peers):
                rows.append(row)
                report(row)
    return rows


def _line(row: Row) -> str:
    return (
        f"{row['case']:23s} {row['utility']:34s} {1e3 * row['seconds']:8.1f} ms (cpu {1e3 * row['cpu_seconds']:6.1f})  "
        f"{row['peer']:9s}{row['peer_seconds']:8.2f} s (cpu {row['peer_cpu_seconds']:5.2f})   {row['ratio']:5.0f}x "
        f"(cpu {row['cpu_ratio']:5.0f}x)  gap {row['our_gap']:.1e} "
        f"(relative {row['our_relative_gap']:.1e})  peer - ours {row['peer_objective_minus_ours']:+.1e}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    table = run(options.quick, report=lambda row: print(_line(row), flush=True))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(table, file, indent=1)
