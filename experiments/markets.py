"""Daily returns of the paper's markets, and the portfolios that the experiments on them share.

The returns come by skfolio's loaders and are split in time: the last quarter is held out. A portfolio is fitted by
OCE-SG as the paper runs it, by the exact solver, or by one of skfolio's estimators (the benchmarks).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import certeq as ce
from certeq.data import TRADING_DAYS
from certeq.report import METRICS, measure
from experiments.common import COLORS, Job

Floats = NDArray[np.float64]
STEPS = 15_000  # of the paper
STARTS = 20  # random starts of each row
LOG_EVERY = 25
KEYS = tuple(metric.key for metric in METRICS)  # the order of the printed tables
SHORT = dict(zip(KEYS, ("Return", "Gini MD", "CVaR", "EVaR", "CDaR", "Sharpe", "Sortino"), strict=True))
NO_NASDAQ = "Not run: skfolio offers these prices only as a download, which was not available."


@dataclass(frozen=True)
class Market:
    """A market of the paper with skfolio's loader and the (days, assets) of its returns."""

    title: str
    loader: str
    shape: tuple[int, int]


MARKETS = {
    "sp500": Market("S&P 500", "load_sp500_dataset", (8312, 20)),
    "ftse100": Market("FTSE 100", "load_ftse100_dataset", (5959, 64)),
}


@dataclass(frozen=True, eq=False)
class Returns:
    """Daily returns of the training days and of the held-out days."""

    train: pd.DataFrame
    test: pd.DataFrame

    @property
    def losses(self) -> Floats:
        """Return the negated returns of the training days."""
        return np.ascontiguousarray(-self.train.to_numpy(dtype=np.float64))

    @property
    def step(self) -> float:
        """Return the paper's step 1/sqrt(M); M is all days of the data set (line 1154)."""
        return 1.0 / math.sqrt(len(self.train) + len(self.test))

    def held_out(self, weights: Floats) -> Floats:
        """Return the daily returns of a portfolio on the held-out days."""
        return np.asarray(self.test.to_numpy(dtype=np.float64) @ weights)


@cache
def load(market: str) -> Returns:
    """Load the returns of a market; skfolio downloads the FTSE 100 unless SKFOLIO_DATA has its file."""
    import skfolio.datasets
    from skfolio.preprocessing import prices_to_returns

    known = MARKETS[market]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            returns: pd.DataFrame = prices_to_returns(getattr(skfolio.datasets, known.loader)())
        except OSError as error:
            raise OSError(
                f"skfolio found no {known.title} prices in SKFOLIO_DATA and could not download them: {error}."
            ) from None
    if returns.shape != known.shape:
        raise ValueError(f"the {known.title} returns must have the paper's shape {known.shape}; found {returns.shape}.")
    last = math.ceil(0.25 * len(returns))  # as scikit-learn's train_test_split rounds it
    return Returns(returns.iloc[:-last], returns.iloc[-last:])


# -- the rows of the tables -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of the tables; a benchmark has no utility, and ``parameter`` is what the paper leaves unstated."""

    title: str
    utility: ce.Utility | None = None
    parameter: str = ""


# The paper states neither alpha nor beta: alpha here is that of the CVaR by which portfolios are judged, beta is 1.
ROWS = {
    "hrp": Row("HRP"),
    "equal": Row("Equal weights"),
    "sharpe": Row("Maximum Sharpe"),
    "solver": Row("CVaR solver"),
    "entropic": Row("Entropic", ce.Entropic(1.0), "beta"),
    "cvar": Row("CVaR", ce.CVaR(0.05), "alpha"),
    "leaky": Row("Leaky CVaR", ce.LeakyCVaR(0.05), "alpha"),
    "smooth": Row("Smooth CVaR", ce.SmoothCVaR(0.05), "alpha"),
    "mv": Row("Mean-variance", ce.MeanVariance(1.0), "beta"),
    "mmv": Row("Monotone mean-variance", ce.MonotoneMeanVariance(2)),
    "quartic": Row("Quartic", ce.Quartic()),
    "mean": Row("Risk neutral", ce.Mean()),
}


def judge_of(row: str) -> str:
    """Return the portfolio that a printed row is judged by: the printed S-CVaR has slopes below 1; its OCE is the mean.

    That holds for every alpha, so that the row leaves no parameter open.
    """
    return "mean" if row == "smooth" else row


def title_of(row: str) -> str:
    """Return the title of a printed row."""
    return "S-CVaR, risk neutral as printed," if row == "smooth" else ROWS[row].title


@dataclass(frozen=True, eq=False)
class Fit:
    """A portfolio: weights, metrics of the held-out days, and what is known of its OCE on the training days.

    ``path`` holds (step, weights) along the way, ``values`` (step, OCE).
    """

    weights: Floats
    metrics: dict[str, float]
    value: float = math.nan
    gap: float | None = None
    values: Sequence[tuple[int, float]] = ()
    path: Sequence[tuple[int, Floats]] = ()

    def figures(self, keys: Sequence[str] = KEYS) -> list[float]:
        """Return held-out metrics in the order of the keys."""
        return [float(self.metrics[key]) for key in keys]

    def distance(self, other: Fit) -> float:
        """Return the sum of absolute differences of the weights."""
        return float(np.abs(self.weights - other.weights).sum())


def _fit(data: Returns, weights: Any, **more: Any) -> Fit:
    theta = np.asarray(weights, dtype=np.float64)
    return Fit(theta, measure(data.held_out(theta), TRADING_DAYS), **more)


def fit_sg(*, market: str, row: str, steps: int, start: int | None = None, step: float | None = None) -> Fit:
    """Fit by OCE-SG as the paper runs it: all training days in each step, step 1/sqrt(M), the last iterate.

    ``start`` None begins at equal weights; a number seeds a start drawn uniformly from the simplex, whose values along
    the way are not recorded.
    """
    data = load(market)
    assets = data.train.shape[1]
    begin = np.full(assets, 1.0 / assets) if start is None else np.random.default_rng(start).dirichlet(np.ones(assets))
    marks = {int(LOG_EVERY * round(mark / LOG_EVERY)) for mark in np.geomspace(LOG_EVERY, steps, 40)}
    path = [(0, begin)]

    def keep(now: Any) -> None:
        if now.iteration in marks:
            path.append((now.iteration, now.theta.copy()))

    found = ce.minimize(
        ce.LinearLoss(data.losses), ROWS[row].utility, domain=ce.Simplex(), theta0=begin, method="sg", batch="full",
        step=step or data.step, average="last", iterations=steps, log_every=LOG_EVERY if start is None else steps,
        callback=keep, rng=0, progress=False,
    )  # fmt: skip
    values = list(zip(found.trace.iteration.tolist(), found.trace.value.tolist(), strict=True))
    return _fit(data, found.theta, value=found.value, gap=found.gap, values=values, path=path)


def fit_printed_weights(*, market: str, steps: int, step: float | None = None) -> Fit:
    """Fit CVaR by OCE-SG from equal weights with q as printed: u'(z - t)/m is 1/(alpha m) above the quantile, else 0.

    These q sum to floor(m alpha)/(m alpha), not to 1: the weight of the quantile itself is missing.
    """
    data = load(market)
    losses, simplex, (days, assets) = data.losses, ce.Simplex(), data.train.shape
    above = math.floor(0.05 * days + 1e-9)  # days strictly above the quantile
    theta = np.full(assets, 1.0 / assets)
    for _ in range(steps):
        worst = np.argpartition(losses @ theta, days - above)[days - above :]
        gradient = losses[worst].sum(axis=0) / (0.05 * days)
        theta = simplex.project(theta - (step or data.step) * gradient)
    return _fit(data, theta, value=float(ce.oce(losses @ theta, ce.CVaR(0.05))))


def fit_exact(*, market: str, row: str) -> Fit:
    """Fit by the exact solver; its gap proves the optimum."""
    data = load(market)
    found = ce.minimize(ce.LinearLoss(data.losses), ROWS[row].utility, domain=ce.Simplex())
    if not found.converged:
        raise ValueError(f"the exact solver stopped with {found.status!r} and a gap of {found.gap:.1e}.")
    return _fit(data, found.theta, value=found.value, gap=found.gap)


def fit_benchmark(*, market: str, row: str) -> Fit:
    """Fit equal weights, hierarchical risk parity, the maximum Sharpe ratio, or minimum CVaR by a conic solver."""
    from skfolio import RiskMeasure
    from skfolio.optimization import EqualWeighted, HierarchicalRiskParity, MeanRisk, ObjectiveFunction

    data = load(market)
    estimator = {
        "equal": lambda: EqualWeighted(),
        "hrp": lambda: HierarchicalRiskParity(),
        "sharpe": lambda: MeanRisk(objective_function=ObjectiveFunction.MAXIMIZE_RATIO),
        "solver": lambda: MeanRisk(risk_measure=RiskMeasure.CVAR),
    }[row]()
    return _fit(data, estimator.fit(data.train).weights_)


# -- many fits --------------------------------------------------------------------------------------------------------

_done: dict[Any, Fit] = {}  # of this process: the tables of a market and of the solver share most runs


def fits(job: Job, function: Callable[..., Fit], items: Sequence[dict[str, Any]]) -> list[Fit]:
    """Return [function(**item) for item in items]; what another experiment has computed is not computed again."""
    keys = [(function, *sorted(item.items(), key=lambda pair: pair[0])) for item in items]
    new = {key: item for key, item in zip(keys, items, strict=True) if key not in _done}
    if new:
        _done.update(zip(new, job.map(function, list(new.values())), strict=True))
    return [_done[key] for key in keys]


def by_row(job: Job, function: Callable[..., Fit], market: str, rows: Sequence[str], **more: Any) -> dict[str, Fit]:
    """Return one fit for each row."""
    found = fits(job, function, [{"market": market, "row": row, **more} for row in rows])
    return dict(zip(rows, found, strict=True))


def walks(job: Job, market: str, rows: Sequence[str]) -> dict[str, Fit]:
    """Return OCE-SG from equal weights by row."""
    items = [{"market": market, "row": row, "steps": steps_of(row, job.quick)} for row in rows]
    return dict(zip(rows, fits(job, fit_sg, items), strict=True))


def spread(job: Job, market: str, rows: Sequence[str]) -> dict[str, Floats]:
    """Return the held-out metrics of OCE-SG from random starts, (starts, 7), by row."""
    starts = range(3 if job.quick else max(STARTS, job.seeds))
    items = [
        {"market": market, "row": row, "steps": steps_of(row, job.quick), "start": seed}
        for row in rows for seed in starts
    ]  # fmt: skip
    found = iter(fits(job, fit_sg, items))
    return {row: np.array([next(found).figures() for _ in starts]) for row in rows}


def steps_of(row: str, quick: bool) -> int:
    """Return the steps of a row; a quick run has too few to judge by."""
    return (5_000 if row == "cvar" else 1_000) if quick else STEPS


# -- pictures ---------------------------------------------------------------------------------------------------------


def largest(fits: Sequence[Fit]) -> list[int]:
    """Return the columns of the assets that some portfolio holds most of."""
    most = np.max([fit.weights for fit in fits], axis=0)
    return sorted(np.argsort(-most, kind="stable")[: len(COLORS)].tolist())


def draw_weights(axes: Any, data: Returns, portfolios: dict[str, Fit], columns: list[int], title: str) -> None:
    """Draw a bar of stacked weights for each portfolio; the assets of the columns have a color each."""
    names, bottom = [ROWS[row].title for row in portfolios], np.zeros(len(portfolios))
    for name, color, layer in _layers(data, [fit.weights for fit in portfolios.values()], columns):
        axes.bar(names, layer, 0.78, bottom=bottom, label=name, color=color)
        bottom += layer
    axes.set(title=title, ylabel="Weight")
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True)


def draw_path(axes: Any, data: Returns, fit: Fit, title: str) -> None:
    """Draw the weights over the steps as stacked areas."""
    names, colors, layers = zip(*_layers(data, [theta for _, theta in fit.path[1:]], largest([fit])), strict=True)
    axes.stackplot([step for step, _ in fit.path[1:]], layers, labels=names, colors=colors)
    axes.set(title=title, xlabel="Step", ylabel="Weight", xscale="log")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True)


def draw_distances(axes: Any, walked: dict[str, Fit], optima: dict[str, Fit]) -> None:
    """Draw the distance of each portfolio to its optimum over the steps."""
    for row, fit in walked.items():
        away = [float(np.abs(theta - optima[row].weights).sum()) for _, theta in fit.path[1:]]
        axes.plot([step for step, _ in fit.path[1:]], away, label=ROWS[row].title)
    axes.set(title="Distance to the optimum", xlabel="Step", ylabel="Sum of |differences|", xscale="log", yscale="log")
    axes.legend()


def _layers(data: Returns, weights: list[Floats], columns: list[int]) -> list[tuple[str, str, Floats]]:
    """Return (name, color, weights) of the assets of these columns, and of all others."""
    table, names = np.array(weights), data.train.columns[columns]
    layers = [(str(name), color, table[:, k]) for name, color, k in zip(names, COLORS, columns, strict=False)]
    return [*layers, ("all others", "#c5cad0", np.clip(1.0 - table[:, columns].sum(axis=1), 0.0, None))]
