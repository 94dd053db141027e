"""Portfolios as pieces that run in any process: OCE-SG by the paper's protocol, the true optimum, the benchmarks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.optimize import LinearLoss, Simplex, minimize
from certeq.optimize.sg import Snapshot
from certeq.paper._panels import Panel, load_panel
from certeq.report import measure
from certeq.risk import oce
from certeq.utilities import (
    CVaR,
    Entropic,
    LeakyCVaR,
    Mean,
    MeanVariance,
    MonotoneMeanVariance,
    Quartic,
    SmoothCVaR,
    Utility,
)

STEPS = 15_000  # the paper's
LOG_EVERY = 25


@dataclass(frozen=True)
class Row:
    """A portfolio of the tables; one without a utility is a benchmark."""

    key: str
    title: str
    utility: Utility | None = None


# The paper states neither alpha nor beta: here alpha is that of the CVaR the portfolios are judged by, beta is 1.
ROWS = {
    row.key: row
    for row in (
        Row("hrp", "HRP"),
        Row("equal", "Equal weights"),
        Row("sharpe", "Maximum Sharpe"),
        Row("solver", "CVaR solver"),
        Row("entropic", "Entropic", Entropic(1.0)),
        Row("cvar", "CVaR", CVaR(0.05)),
        Row("leaky", "Leaky CVaR", LeakyCVaR(0.05)),
        Row("smooth", "Smooth CVaR", SmoothCVaR(0.05)),
        Row("mv", "Mean-variance", MeanVariance(1.0)),
        Row("mmv", "Monotone mean-variance", MonotoneMeanVariance(2)),
        Row("quartic", "Quartic", Quartic()),
        Row("mean", "Risk neutral", Mean()),
    )
}


def fit_sg(*, panel: str, digest: str, row: str, steps: int, start: int | None, snapshots: bool) -> dict[str, Any]:
    """OCE-SG as the paper runs it: all M training days in each step, step 1/sqrt(M), the last iterate.

    ``start`` None begins at equal weights; a number seeds a start drawn uniformly from the simplex. ``snapshots`` keeps
    some forty iterates along the way.
    """
    data = _panel(panel, digest)
    utility = _utility(row)
    days, assets = data.train.shape
    begin = np.full(assets, 1.0 / assets) if start is None else np.random.default_rng(start).dirichlet(np.ones(assets))
    wanted = log_spaced(steps) if snapshots else set()
    seen: list[tuple[int, list[float]]] = [(0, begin.tolist())] if snapshots else []

    def keep(at: Snapshot) -> None:
        if at.iteration in wanted:
            seen.append((at.iteration, at.theta.tolist()))

    found = minimize(
        LinearLoss(data.losses), utility, domain=Simplex(), theta0=begin, method="sg", batch="full",
        step=1.0 / np.sqrt(days), average="last", iterations=steps, log_every=LOG_EVERY, callback=keep, rng=0,
        progress=False,
    )  # fmt: skip
    answer = _answer(data, found.theta, found.value, found.gap)
    if snapshots:
        answer |= {
            "steps": found.trace.iteration.tolist(),
            "values": found.trace.value.tolist(),
            "snapshot_steps": [step for step, _ in seen],
            "snapshots": [theta for _, theta in seen],
        }
    return answer


def fit_printed_weights(*, panel: str, digest: str, steps: int) -> dict[str, Any]:
    """CVaR by OCE-SG from equal weights with the weights as printed, u'(z - t) = 1/alpha above the quantile, else 0.

    They sum to floor(m alpha)/(m alpha), not to 1: the mass on the quantile itself is missing. The corrected ones of
    `fit_sg` put it there.
    """
    data = _panel(panel, digest)
    losses, simplex = data.losses, Simplex()
    days, assets = losses.shape
    held = int(np.floor(0.05 * days + 1e-9))  # days strictly above the quantile
    theta, step = np.full(assets, 1.0 / assets), 1.0 / np.sqrt(days)
    for _ in range(steps):
        worst = np.argpartition(losses @ theta, days - held)[days - held :]
        gradient = losses[worst].sum(axis=0) / (0.05 * days)
        theta = simplex.project(theta - step * gradient)
    return _answer(data, theta, float(oce(losses @ theta, CVaR(0.05))))


def fit_exact(*, panel: str, digest: str, row: str) -> dict[str, Any]:
    """The true optimum of the same problem, with the gap that proves it."""
    data = _panel(panel, digest)
    found = minimize(LinearLoss(data.losses), _utility(row), domain=Simplex())
    if not found.converged:
        raise ValueError(f"the exact solver stopped with {found.status!r} and a gap of {found.gap:.1e}.")
    return _answer(data, found.theta, found.value, found.gap)


def fit_benchmark(*, panel: str, digest: str, row: str) -> dict[str, Any]:
    """Equal weights, hierarchical risk parity, the largest Sharpe ratio, or the least CVaR by a conic solver."""
    from skfolio import RiskMeasure
    from skfolio.optimization import EqualWeighted, HierarchicalRiskParity, MeanRisk, ObjectiveFunction

    data = _panel(panel, digest)
    estimator = {
        "equal": lambda: EqualWeighted(),
        "hrp": lambda: HierarchicalRiskParity(),
        "sharpe": lambda: MeanRisk(objective_function=ObjectiveFunction.MAXIMIZE_RATIO),
        "solver": lambda: MeanRisk(risk_measure=RiskMeasure.CVAR),
    }[row]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more assets than days: skfolio says that it mends the covariance
        estimator.fit(data.train)
    return _answer(data, np.asarray(estimator.weights_, dtype=np.float64))


def log_spaced(steps: int, points: int = 40) -> set[int]:
    """Steps evenly spaced on a logarithmic scale, all of them logged ones."""
    places = np.geomspace(LOG_EVERY, steps, points)
    return {int(LOG_EVERY * round(place / LOG_EVERY)) for place in places}


def _answer(
    data: Panel, theta: NDArray[np.float64], value: float | None = None, gap: float | None = None
) -> dict[str, Any]:
    return {"weights": theta.tolist(), "metrics": measure(data.held_out(theta)), "value": value, "gap": gap}


def _panel(key: str, digest: str) -> Panel:
    data = load_panel(key)
    if data.digest != digest:
        raise ValueError(f"the {key} panel changed while the work was going on: {data.digest} instead of {digest}.")
    return data


def _utility(row: str) -> Utility:
    utility = ROWS[row].utility
    if utility is None:
        raise ValueError(f"row {row!r} is a benchmark and has no utility.")
    return utility
