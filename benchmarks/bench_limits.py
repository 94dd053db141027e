"""Decisions under limits on the S&P 500 panel, against skfolio in the same run: return under a limit, ratio, budgets.

Each row has what both found and what both took, the calls taking turns; cpu times are of the same run. ``none`` in
place of a peer's figure means that its solver failed.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from skfolio import RiskMeasure
from skfolio.datasets import load_sp500_dataset
from skfolio.optimization import MeanRisk, ObjectiveFunction, RiskBudgeting
from skfolio.preprocessing import prices_to_returns
from skfolio.prior import EntropyPooling, OpinionPooling

import certeq as ce
from benchmarks.bench_portfolio import timed
from benchmarks.timing import table


def compare(
    case: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    figure: Callable[[Any], float],
    wanted: str,
    repeats: int,
) -> dict[str, Any]:
    """One row; ``figure`` says how good the weights of either are."""
    found: dict[str, Any] = {}

    def call(name: str, function: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            try:
                found[name] = function()
            except Exception as error:
                found[name] = type(error).__name__

        return run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = timed({"ours": call("ours", ours), "theirs": call("theirs", theirs)}, repeats)
    failed = isinstance(found["theirs"], str)
    return {
        "case": case,
        "seconds": times["ours"][0],
        "cpu_seconds": times["ours"][1],
        "peer_seconds": times["theirs"][0],
        "peer_cpu_seconds": times["theirs"][1],
        "ratio": times["theirs"][0] / times["ours"][0],
        "cpu_ratio": times["theirs"][1] / times["ours"][1],
        "figure": figure(found["ours"].theta),
        "peer_figure": "none" if failed else figure(found["theirs"].weights_),
        "proof": getattr(found["ours"], "gap", None),
        "wanted": wanted,
    }


def deviation(A: np.ndarray, risk: ce.Risk, weights: Any = None) -> Callable[[np.ndarray], float]:
    """The excess of risk - mean(log w) over its least value, at the multiple of risk 1: 0 where contributions match."""
    best = ce.risk_budgeting(ce.LinearLoss(A), risk, weights=weights)

    def objective(w: np.ndarray) -> float:
        return -float(np.mean(np.log(w / float(ce.oce(A @ w, risk, weights)))))

    return lambda w: objective(w) - objective(best.theta)


def run(quick: bool = False) -> list[dict[str, Any]]:
    X: pd.DataFrame = prices_to_returns(load_sp500_dataset())
    X, repeats = (X.iloc[-2500:], 1) if quick else (X, 3)
    R = X.to_numpy()
    A, mu, size = -R, R.mean(axis=0), f"{len(R)}x{R.shape[1]}"
    loss, simplex, cvar, evar = ce.LinearLoss(A), ce.Simplex(), ce.CVaR(0.05), ce.EVaR(0.05)
    least = ce.minimize(loss, cvar, domain=simplex).value
    level = 1.1 * least

    def mean_return(w: np.ndarray) -> float:
        return float(mu @ w)

    def ratio_of(w: np.ndarray) -> float:
        return float(mu @ w) / float(ce.oce(A @ w, cvar))

    limit = ce.Limit(loss, cvar, level)
    kind = {"risk_measure": RiskMeasure.CVAR}
    rows = [
        compare(
            f"largest return, CVaR <= {level:.4f}, {size}",
            lambda: ce.minimize(loss, ce.Mean(), domain=simplex, limits=[limit]),
            lambda: MeanRisk(ObjectiveFunction.MAXIMIZE_RETURN, max_cvar=level, **kind).fit(X),
            mean_return,
            ">= 10",
            repeats,
        ),
        compare(
            f"largest return/CVaR, {size}",
            lambda: ce.maximize_ratio(mu, loss, cvar, domain=simplex),
            lambda: MeanRisk(ObjectiveFunction.MAXIMIZE_RATIO, **kind).fit(X),
            ratio_of,
            ">= 10",
            repeats,
        ),
        compare(
            f"equal contributions to CVaR, {size}",
            lambda: ce.risk_budgeting(loss, cvar),
            lambda: RiskBudgeting(risk_measure=RiskMeasure.CVAR).fit(X),
            deviation(A, cvar),
            ">= 5",
            repeats,
        ),
    ]
    views = [
        ("amd", EntropyPooling(cvar_views=["AMD == 0.10"])),
        ("ge", EntropyPooling(cvar_views=["GE == 0.12"])),
    ]
    pooled = OpinionPooling(estimators=views, opinion_probabilities=[0.5, 0.5])
    prior = pooled.fit(X).return_distribution_
    viewed, weights = -prior.returns, prior.sample_weight
    rows.append(
        compare(
            "equal contributions to CVaR, pooled views",
            lambda: ce.risk_budgeting(ce.LinearLoss(viewed), cvar, weights=weights),
            lambda: RiskBudgeting(risk_measure=RiskMeasure.CVAR, prior_estimator=pooled).fit(X),
            deviation(viewed, cvar, weights),
            "solved",
            1,
        )
    )
    plain = 0.01 * np.random.default_rng(0).standard_t(4, size=(2000, 20))
    rows.append(
        compare(
            "equal contributions to EVaR, 2000x20",
            lambda: ce.risk_budgeting(ce.LinearLoss(-plain), evar),
            lambda: RiskBudgeting(risk_measure=RiskMeasure.EVAR).fit(pd.DataFrame(plain)),
            deviation(-plain, evar),
            "solved",
            1,
        )
    )
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    found = run(options.quick)
    print(table(found))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1, default=float)
