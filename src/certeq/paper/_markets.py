"""The three panels of daily returns, and portfolios fitted on them as pieces that run in any process.

Returns come by skfolio's own loaders, or are synthetic where a file is not to be had. Portfolios are OCE-SG by the
paper's protocol, the true optimum, and the benchmarks.
"""

from __future__ import annotations

import hashlib
import math
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certeq.data import TRADING_DAYS
from certeq.optimize import LinearLoss, Simplex, minimize
from certeq.optimize.sg import Snapshot
from certeq.paper._experiment import Job
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

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
SYNTHETIC = "-synthetic"
UNCHECKED = "Synthetic data: the market's file was not to be had, so there is nothing to compare with."
_PATIENCE = 20.0  # seconds a server may keep silent
STEPS = 15_000  # the paper's
QUICK_STEPS = {"cvar": 5_000}
LARGE = 500  # assets
Fit = dict[str, Any]
Fits = dict[str, Fit]
LOG_EVERY = 25
ALPHAS, BETAS = (0.01, 0.05, 0.1, 0.2), (0.1, 1.0, 10.0, 50.0)  # of --sensitivity: the paper states none


@dataclass(frozen=True)
class Market:
    """A panel of the paper: the loader's name, what the paper calls it, its size there and the seed of its stand-in."""

    key: str
    title: str
    loader: str
    shape: tuple[int, int]
    seed: int


MARKETS = {
    market.key: market
    for market in (
        Market("sp500", "S&P 500", "load_sp500_dataset", (8312, 20), 500),
        Market("ftse100", "FTSE 100", "load_ftse100_dataset", (5959, 64), 100),
        Market("nasdaq", "Nasdaq", "load_nasdaq_dataset", (1361, 1455), 1455),
    )
}


@dataclass(frozen=True, eq=False)
class ReturnsPanel:
    """Daily returns split in time, the last quarter held out, and what must be said about where they came from."""

    key: str
    train: pd.DataFrame
    test: pd.DataFrame
    digest: str
    synthetic: bool = False
    note: str = ""

    @property
    def losses(self) -> Floats:
        """Of the training days: returns are negated here and nowhere else."""
        return np.ascontiguousarray(-self.train.to_numpy(dtype=np.float64))

    def held_out(self, weights: Any) -> Floats:
        """The daily returns of a portfolio on the days it was not fitted on."""
        return np.asarray(self.test.to_numpy(dtype=np.float64) @ np.asarray(weights, dtype=np.float64))


@cache
def find_panel(market: str) -> ReturnsPanel:
    """The real panel, cached or downloaded by skfolio; if it cannot be had, a synthetic one of its size and a note."""
    try:
        return load_panel(market)
    except OSError as error:
        reason = " ".join(str(error).split())
    stand_in = load_panel(market + SYNTHETIC)
    rows, columns = MARKETS[market].shape
    note = (
        f"SYNTHETIC DATA: skfolio's {MARKETS[market].title} file is not cached and could not be downloaded ({reason}). "
        f"What follows is computed on a seeded synthetic panel of its size ({rows} x {columns}, a factor model with "
        f"heavy tails) and cannot be compared with the printed figures. With the file where SKFOLIO_DATA points to, "
        f"the same command runs the real one."
    )
    return ReturnsPanel(stand_in.key, stand_in.train, stand_in.test, stand_in.digest, True, note)


@cache
def load_panel(key: str) -> ReturnsPanel:
    """The panel of that key; ``-synthetic`` at its end asks for the stand-in. OSError where a file is not to be had."""
    market = MARKETS[key.removesuffix(SYNTHETIC)]
    synthetic = key.endswith(SYNTHETIC)
    returns = synthetic_returns(*market.shape, seed=market.seed) if synthetic else _real_returns(market)
    last = int(np.ceil(0.25 * len(returns)))  # as scikit-learn's train_test_split rounds it
    digest = hashlib.sha256(np.ascontiguousarray(returns.to_numpy(dtype=np.float64)).tobytes()).hexdigest()[:16]
    return ReturnsPanel(key, returns.iloc[:-last], returns.iloc[-last:], digest, synthetic)


def synthetic_returns(days: int, assets: int, *, seed: int) -> pd.DataFrame:
    """A market, a dozen sectors and own noise, all Student's t, with spells of volatility that they share."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    sectors = 12
    spells = np.empty(days)
    level = 0.0
    for day, shock in enumerate(rng.standard_normal(days)):
        level = 0.97 * level + 0.1 * shock
        spells[day] = np.exp(level)
    market = 0.006 * spells * rng.standard_t(4, size=days)
    sector = 0.005 * spells[:, None] * rng.standard_t(5, size=(days, sectors))
    exposure = np.clip(rng.normal(1.0, 0.35, assets), 0.1, None)
    belongs = rng.normal(0.0, 0.6, (assets, sectors)) * (rng.random((assets, sectors)) < 0.25)
    own = np.exp(rng.normal(np.log(0.014), 0.45, assets)) * rng.standard_t(4, size=(days, assets))
    drift = rng.normal(3e-4, 4e-4, assets)
    # einsum and not @: a matrix product's last bits depend on the number of threads.
    sectors_of = np.einsum("ts,as->ta", sector, belongs)
    returns = np.maximum(drift + np.outer(market, exposure) + sectors_of + own, -0.9)
    names = [f"S{number:04d}" for number in range(1, assets + 1)]
    return pd.DataFrame(returns, index=pd.bdate_range("2018-01-03", periods=days), columns=names)


def why_missing(key: str, patience: float) -> str:
    """Why a market's file is not to be had; "" where it is cached, or was downloaded now and is cached by skfolio.

    A server that keeps silent for ``patience`` seconds counts as none.
    """
    import skfolio.datasets

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(patience)
    try:
        getattr(skfolio.datasets, MARKETS[key].loader)()
    except OSError as error:
        return " ".join(str(error).split()) or type(error).__name__
    finally:
        socket.setdefaulttimeout(before)
    return ""


@contextmanager
def without_markets(keys: Iterable[str]) -> Iterator[None]:
    """For a while there are only the other markets: an experiment on all of `MARKETS` runs on those."""
    every = dict(MARKETS)
    for key in keys:
        MARKETS.pop(key)
    try:
        yield
    finally:
        MARKETS.clear()
        MARKETS.update(every)


def _real_returns(market: Market) -> pd.DataFrame:
    try:
        import skfolio.datasets
        from skfolio.preprocessing import prices_to_returns
    except ImportError as error:
        raise ImportError(f"portfolios need {error.name or 'skfolio'}: pip install 'certeq[paper]'.") from None
    with _patient(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        returns: pd.DataFrame = prices_to_returns(getattr(skfolio.datasets, market.loader)())
    if returns.shape != market.shape:
        raise ValueError(f"skfolio's {market.title} panel is {returns.shape}; the paper's is {market.shape}.")
    return returns


@contextmanager
def _patient() -> Iterator[None]:
    """A download that hears nothing for a while gives up instead of waiting for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@dataclass(frozen=True)
class PortfolioRow:
    """A portfolio of the tables; one without a utility is a benchmark."""

    key: str
    title: str
    utility: Utility | None = None


# The paper states neither alpha nor beta: here alpha is that of the CVaR the portfolios are judged by, beta is 1.
ROWS = {
    row.key: row
    for row in (
        PortfolioRow("hrp", "HRP"),
        PortfolioRow("equal", "Equal weights"),
        PortfolioRow("sharpe", "Maximum Sharpe"),
        PortfolioRow("solver", "CVaR solver"),
        PortfolioRow("entropic", "Entropic", Entropic(1.0)),
        PortfolioRow("cvar", "CVaR", CVaR(0.05)),
        PortfolioRow("leaky", "Leaky CVaR", LeakyCVaR(0.05)),
        PortfolioRow("smooth", "Smooth CVaR", SmoothCVaR(0.05)),
        PortfolioRow("mv", "Mean-variance", MeanVariance(1.0)),
        PortfolioRow("mmv", "Monotone mean-variance", MonotoneMeanVariance(2)),
        PortfolioRow("quartic", "Quartic", Quartic()),
        PortfolioRow("mean", "Risk neutral", Mean()),
    )
}

# The utilities of those rows that have an alpha or a beta, which the paper does not state.
PARAMETERS: dict[str, Callable[[float], Utility]] = {
    "entropic": Entropic,
    "cvar": CVaR,
    "leaky": LeakyCVaR,
    "mv": MeanVariance,
}


def fit_sg(
    *, panel: str, digest: str, row: str, steps: int, start: int | None, snapshots: bool, step: float | None = None,
    parameter: float | None = None,
) -> Fit:  # fmt: skip
    """OCE-SG as the paper runs it: all training days in each step, the step `paper_step`, the last iterate.

    ``start`` None begins at equal weights; a number seeds a start drawn uniformly from the simplex. ``snapshots`` keeps
    some forty iterates along the way. ``parameter`` replaces the alpha or beta of the row.
    """
    data = _panel(panel, digest)
    utility = _utility(row, parameter)
    assets = data.train.shape[1]
    begin = np.full(assets, 1.0 / assets) if start is None else np.random.default_rng(start).dirichlet(np.ones(assets))
    wanted = log_spaced(steps) if snapshots else set()
    seen: list[tuple[int, list[float]]] = [(0, begin.tolist())] if snapshots else []

    def keep(at: Snapshot) -> None:
        if at.iteration in wanted:
            seen.append((at.iteration, at.theta.tolist()))

    found = minimize(
        LinearLoss(data.losses), utility, domain=Simplex(), theta0=begin, method="sg", batch="full",
        step=step or paper_step(data), average="last", iterations=steps, log_every=LOG_EVERY, callback=keep, rng=0,
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


def paper_step(data: ReturnsPanel) -> float:
    """1/sqrt(M) with M the days of the whole data set, for which the paper states 8312, 5959 and 1361 (line 1154)."""
    return 1.0 / math.sqrt(len(data.train) + len(data.test))


def fit_printed_weights(*, panel: str, digest: str, steps: int) -> Fit:
    """CVaR by OCE-SG from equal weights with the weights as printed, u'(z - t) = 1/alpha above the quantile, else 0.

    They sum to floor(m alpha)/(m alpha), not to 1: the mass on the quantile itself is missing. The corrected ones of
    `fit_sg` put it there.
    """
    data = _panel(panel, digest)
    losses, simplex = data.losses, Simplex()
    days, assets = losses.shape
    above = int(np.floor(0.05 * days + 1e-9))  # days strictly above the quantile
    theta, step = np.full(assets, 1.0 / assets), paper_step(data)
    for _ in range(steps):
        worst = np.argpartition(losses @ theta, days - above)[days - above :]
        gradient = losses[worst].sum(axis=0) / (0.05 * days)
        theta = simplex.project(theta - step * gradient)
    return _answer(data, theta, float(oce(losses @ theta, CVaR(0.05))))


def fit_exact(*, panel: str, digest: str, row: str) -> Fit:
    """The true optimum of the same problem, with the gap that proves it."""
    data = _panel(panel, digest)
    found = minimize(LinearLoss(data.losses), _utility(row), domain=Simplex())
    if not found.converged:
        raise ValueError(f"the exact solver stopped with {found.status!r} and a gap of {found.gap:.1e}.")
    return _answer(data, found.theta, found.value, found.gap)


def fit_benchmark(*, panel: str, digest: str, row: str) -> Fit:
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


def fits_of(
    job: Job,
    function: Callable[..., Fit],
    panels: Mapping[str, ReturnsPanel],
    rows: Sequence[str],
    more: Callable[[str, str], dict[str, Any]] = lambda market, row: {},
) -> dict[str, Fits]:
    """One fit for each market and row, all of them side by side; ``more`` gives further arguments for both."""
    keys = [(market, row) for market in panels for row in rows]
    items = [{**_where(panels[market]), "row": row, **more(market, row)} for market, row in keys]
    found: dict[str, Fits] = {market: {} for market in panels}
    for (market, row), fit in zip(keys, job.map(function, items), strict=True):
        found[market][row] = fit
    return found


def walks_of(job: Job, panels: Mapping[str, ReturnsPanel], rows: Sequence[str]) -> dict[str, Fits]:
    """OCE-SG from equal weights, with iterates along the way, by market and row."""
    return fits_of(
        job, fit_sg, panels, rows,
        lambda market, row: {"steps": steps_of(row, is_short(job, panels[market])), "start": None, "snapshots": True},
    )  # fmt: skip


def printed_walks_of(job: Job, panels: Mapping[str, ReturnsPanel]) -> Fits:
    """CVaR by OCE-SG from equal weights with the weights as printed, by market."""
    items = [{**_where(panel), "steps": steps_of("cvar", is_short(job, panel))} for panel in panels.values()]
    return dict(zip(panels, job.map(fit_printed_weights, items), strict=True))


def spread_of(job: Job, panel: ReturnsPanel, rows: Sequence[str], keys: Sequence[str]) -> dict[str, Floats]:
    """Held-out figures (starts, keys) of OCE-SG from random starts, by row; each start serves every experiment."""
    starts = range(starts_of(panel, job))
    where, short = {**_where(panel), "snapshots": False}, is_short(job, panel)
    items = [{**where, "row": row, "steps": steps_of(row, short), "start": seed} for row in rows for seed in starts]
    found = iter(job.map(fit_sg, items))
    return {row: np.array([figures_of(next(found), keys) for _ in starts]) for row in rows}


def more_starts_of(
    job: Job, panel: ReturnsPanel, rows: Iterable[str], keys: Sequence[str], runs: int
) -> dict[str, Floats]:
    """Figures of the further random starts that make it ``runs``, by row."""
    chosen, where = list(rows), {**_where(panel), "snapshots": False}
    starts = range(starts_of(panel, job), runs)
    items = [{**where, "row": row, "steps": steps_of(row, False), "start": seed} for row in chosen for seed in starts]
    found = iter(job.map(fit_sg, items))
    return {row: np.array([figures_of(next(found), keys) for _ in starts]) for row in chosen}


def sensitivity_of(
    job: Job, panel: ReturnsPanel, rows: Sequence[str], printed: Mapping[str, Any], keys: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Each row by step, alpha or beta, and start: its figures, and how far they are from the printed ones."""
    days = {"1/sqrt(M), M days": None, "1/sqrt(training days)": len(panel.train) ** -0.5, "1/sqrt(N)": STEPS**-0.5}
    choices = {"entropic": BETAS, "mv": BETAS, "cvar": ALPHAS, "leaky": ALPHAS}
    asked = [
        (row, step, parameter, start)
        for row in rows for step in days for parameter in choices.get(row, (None,)) for start in (None, 0, 1)
    ]  # fmt: skip
    items = [
        {**_where(panel), "row": row, "steps": steps_of(row, job.quick), "start": start, "snapshots": False,
         "step": days[step], "parameter": parameter}
        for row, step, parameter, start in asked
    ]  # fmt: skip
    found = []
    for (row, step, parameter, start), fit in zip(asked, job.map(fit_sg, items), strict=True):
        figures = figures_of(fit, keys)
        off = float(np.max(np.abs(np.subtract(figures, printed["smooth" if row == "mean" else row]))))
        begin = "equal weights" if start is None else f"random, seed {start}"
        found.append((ROWS[row].title, step, parameter, begin, *figures, off))
    return found


def steps_of(row: str, short: bool) -> int:
    """How long OCE-SG runs for a row; a short run stops early, and says so."""
    return QUICK_STEPS.get(row, 1_000) if short else STEPS


def is_short(job: Job, panel: ReturnsPanel) -> bool:
    """A quick run, or one on synthetic data, of which nothing is judged: it shows that all works at this size."""
    return job.quick or panel.synthetic


def is_large(panel: ReturnsPanel) -> bool:
    """Whether a start takes half a minute rather than a second."""
    return bool(panel.train.shape[1] > LARGE)


def starts_of(panel: ReturnsPanel, job: Job) -> int:
    """Random starts: one for each seed; two at least, for a spread, and fewer where each takes half a minute."""
    wanted = max(2, job.seeds)
    if is_short(job, panel):
        return min(wanted, 2 if is_large(panel) else 3)
    return min(wanted, 5) if is_large(panel) else wanted


def figures_of(fit: Fit, keys: Sequence[str]) -> list[float]:
    """The held-out figures of a fit in the order of the tables."""
    return [float(fit["metrics"][key]) for key in keys]


def distance(one: Fit, two: Fit) -> float:
    """Sum of absolute differences of the weights."""
    return float(np.abs(np.subtract(one["weights"], two["weights"])).sum())


def distances(fit: Fit, optimum: Fit) -> list[float]:
    """The same of each iterate along the way, the start left out."""
    away = np.abs(np.asarray(fit["snapshots"]) - np.asarray(optimum["weights"])).sum(axis=1)
    return list(map(float, away[1:]))


def _where(panel: ReturnsPanel) -> dict[str, str]:
    return {"panel": panel.key, "digest": panel.digest}


def log_spaced(steps: int, points: int = 40) -> set[int]:
    """Steps evenly spaced on a logarithmic scale, all of them logged ones."""
    marks = np.geomspace(LOG_EVERY, steps, points)
    return {int(LOG_EVERY * round(mark / LOG_EVERY)) for mark in marks}


def _answer(
    data: ReturnsPanel, theta: NDArray[np.float64], value: float | None = None, gap: float | None = None
) -> Fit:
    return {
        "weights": theta.tolist(),
        "metrics": measure(data.held_out(theta), TRADING_DAYS),
        "value": value,
        "gap": gap,
    }


def _panel(key: str, digest: str) -> ReturnsPanel:
    data = load_panel(key)
    if data.digest != digest:
        raise ValueError(f"the {key} panel changed while the work was going on: {data.digest} instead of {digest}.")
    return data


def _utility(row: str, parameter: float | None = None) -> Utility:
    utility = ROWS[row].utility
    if utility is None:
        raise ValueError(f"row {row!r} is a benchmark and has no utility.")
    if parameter is None:
        return utility
    if row not in PARAMETERS:
        raise ValueError(f"row {row!r} has neither alpha nor beta; found parameter {parameter:g}.")
    return PARAMETERS[row](parameter)
