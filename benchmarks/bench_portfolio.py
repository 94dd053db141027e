"""A walk-forward and an efficient frontier on the S&P 500 panel, against skfolio and cvxpy in the same run.

Three figures per walk-forward: ours, skfolio's MeanRisk(CVaR), and what is skfolio's own in both (splitting, cloning,
checking, the prior's moments, the predicted portfolios), measured with an optimizer that holds equal weights after
fitting the same prior. Wall-clock times are the best of the repeats, taken in turns; cpu times are of the same run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
from skfolio import RiskMeasure
from skfolio.datasets import load_sp500_dataset
from skfolio.model_selection import WalkForward, cross_val_predict
from skfolio.optimization import BaseOptimization, MeanRisk
from skfolio.preprocessing import prices_to_returns

import certeq as ce
from benchmarks.timing import table
from certeq.portfolio import MinimumOCE, ScenarioPrior

UTILITIES = (ce.CVaR(0.05), ce.Entropic(50.0), ce.MonotoneMeanVariance(2))
TRAIN, TEST = 1260, 117  # five years, 60 folds of the panel's 8312 days


class NoOptimization(BaseOptimization):
    """Equal weights after fitting the prior: all that a walk-forward does besides optimizing."""

    def fit(self, X: Any, y: Any = None) -> NoOptimization:
        self.n_features_in_, self.feature_names_in_ = X.shape[1], np.asarray(X.columns, dtype=object)
        ScenarioPrior().fit(X)
        self.weights_ = np.full(X.shape[1], 1.0 / X.shape[1])
        return self


def timed(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, tuple[float, float]]:
    """Best wall-clock time and its cpu time, the calls taking turns."""
    best = dict.fromkeys(calls, (np.inf, np.inf))
    for _ in range(repeats):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            best[name] = min(best[name], (time.perf_counter() - wall, time.process_time() - cpu))
    return best


def walk_forward(X: pd.DataFrame, folds: int, repeats: int) -> list[dict[str, Any]]:
    cv = WalkForward(train_size=TRAIN, test_size=TEST)
    X = X.iloc[: TRAIN + folds * TEST]
    assert cv.get_n_splits(X) == folds
    calls: dict[str, Callable[[], Any]] = {
        "skfolio": lambda: cross_val_predict(MeanRisk(risk_measure=RiskMeasure.CVAR), X, cv=cv),
        "rest": lambda: cross_val_predict(NoOptimization(), X, cv=cv),
    }
    for utility in UTILITIES:
        calls[repr(utility)] = lambda utility=utility: cross_val_predict(MinimumOCE(utility), X, cv=cv)
    times = timed(calls, repeats)
    theirs, rest = times["skfolio"], times["rest"]
    rows = []
    for utility in UTILITIES:
        ours = times[repr(utility)]
        rows.append(
            {
                "case": f"walk-forward, {folds} folds of {TRAIN}x{X.shape[1]}",
                "utility": repr(utility),
                "seconds": ours[0],
                "cpu_seconds": ours[1],
                "of which skfolio's own": rest[0],
                "peer": "skfolio MeanRisk(CVaR)",
                "peer_seconds": theirs[0],
                "peer_cpu_seconds": theirs[1],
                "ratio": theirs[0] / ours[0],
                "cpu_ratio": theirs[1] / ours[1],
                "optimizing only": (theirs[0] - rest[0]) / max(ours[0] - rest[0], 1e-9),
                "wanted": ">= 5",
            }
        )
    return rows


def cvxpy_frontier(returns: np.ndarray, targets: np.ndarray, alpha: float = 0.05) -> list[float]:
    """CVaR at each target: one problem, compiled once, its target a parameter."""
    count, assets = returns.shape
    w, t, excess, target = cp.Variable(assets), cp.Variable(), cp.Variable(count), cp.Parameter()
    problem = cp.Problem(
        cp.Minimize(t + cp.sum(excess) / (alpha * count)),
        [
            excess >= 0,
            excess >= -returns @ w - t,
            w >= 0,
            cp.sum(w) == 1,
            returns.mean(axis=0) @ w >= target,
        ],
    )
    values = []
    for each in targets:
        target.value = each
        values.append(float(problem.solve(solver=cp.CLARABEL)))
    return values


def frontier(X: pd.DataFrame, points: int, repeats: int) -> list[dict[str, Any]]:
    found = MinimumOCE(ce.CVaR(0.05)).efficient_frontier(X, points)
    returns = X.to_numpy()
    values: list[float] = []
    size = f"{X.shape[0]}x{X.shape[1]}"
    peers: dict[str, Callable[[], Any]] = {
        f"cvxpy, {points} solves of one compiled problem": lambda: values.extend(
            cvxpy_frontier(returns, found.expected_returns - 1e-12)
        ),
        f"skfolio MeanRisk(CVaR), frontier of {points}": lambda: MeanRisk(
            risk_measure=RiskMeasure.CVAR, efficient_frontier_size=points
        ).fit(X),
    }
    calls = {"ours": lambda: MinimumOCE(ce.CVaR(0.05)).efficient_frontier(X, points), **peers}
    theirs = timed(calls, repeats)
    ours = theirs.pop("ours")
    worst = float(np.max(np.abs(np.array(values[:points]) - found.risks)))
    return [
        {
            "case": f"frontier, {points} points, {size}",
            "utility": "CVaR(alpha=0.05)",
            "seconds": ours[0],
            "cpu_seconds": ours[1],
            "peer": peer,
            "peer_seconds": wall,
            "peer_cpu_seconds": cpu,
            "ratio": wall / ours[0],
            "cpu_ratio": cpu / ours[1],
            "largest gap": float(found.gaps.max()),
            "largest difference to cvxpy": worst,
            "wanted": ">= 20" if peer.startswith("cvxpy") else "",
        }
        for peer, (wall, cpu) in theirs.items()
    ]


def run(quick: bool = False) -> list[dict[str, Any]]:
    X = prices_to_returns(load_sp500_dataset())
    if quick:
        return [*walk_forward(X, 10, 1), *frontier(X.iloc[-2500:], 10, 1)]
    return [*walk_forward(X, 60, 2), *frontier(X, 30, 2)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rows = run(options.quick)
    print(table(rows))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1, default=float)
