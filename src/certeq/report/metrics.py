"""The seven figures portfolios are judged by, and their intervals.

A figure is computed for one series of returns or for many resampled ones at once. Mean and CVaR have the interval of
`certeq.estimate` for time series; the others that of a bootstrap of blocks of days, because calm and stormy days come
in spells. How many returns make a year is told by their dates (`certeq.data.frequency_of`) or by the caller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.data import TRADING_DAYS, Frequency, frequency_of
from certeq.risk import Estimate, estimate, oce
from certeq.utilities import CVaR, EVaR, Mean

Floats = NDArray[np.float64]
TAIL = 0.05
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
BLOCK = 20  # trading days: about a month, longer than most spells of volatility
_LEAST_BLOCK = 4  # periods, where a month has fewer: volatility of months and quarters clusters too
LEAST = 60  # returns below which no interval is given
REPLICATES = 300
_AT_ONCE = 1 << 21  # numbers held at a time


@dataclass(frozen=True)
class Metric:
    """A figure: its key in JSON, its label, whether more is better, and how to compute it.

    Parameters
    ----------
    key : str
        Key of the figure, as in JSON.
    label : str
        What tables call it.
    more_is_better : bool
        Whether a larger value is better.
    of : callable
        Takes rows of returns and the number of them in a year; returns one value per row.
    is_ratio : bool
        Whether it is a plain number; else it is shown in percent.
    meaning : str
        What it means, with the period in braces, as `explain` fills them in.

    See Also
    --------
    METRICS
        The seven performance figures.
    measure
        The seven figures of one series of returns.

    Examples
    --------
    >>> from certeq.report import METRICS
    >>> len(METRICS), METRICS[0].label
    (7, 'Return a year')
    """

    key: str
    label: str
    more_is_better: bool
    of: Callable[[Floats, float], Floats]
    is_ratio: bool = False
    meaning: str = ""

    def show(self, value: float) -> str:
        """Format a value: ratios plain, the rest in percent.

        Parameters
        ----------
        value : float
            Value of the figure.

        Returns
        -------
        str
            The text; "n/a" where the value is not finite.
        """
        if not np.isfinite(value):
            return "n/a"
        return f"{value:.2f}" if self.is_ratio else f"{100 * value:.2f} %"

    def explain(self, frequency: Frequency) -> str:
        """What it means for returns of this frequency.

        Parameters
        ----------
        frequency : Frequency
            Frequency of the returns.

        Returns
        -------
        str
            The meaning, with the name of the period.
        """
        year = f"{frequency.periods_per_year:.10g}"
        return self.meaning.format(year=year, adjective=frequency.adjective, plural=frequency.plural)


def measure(returns: Any, periods_per_year: float | None = None) -> dict[str, float]:
    """All seven figures of one series of returns, by key.

    Not for losses: it takes returns, as a portfolio reports them.

    Parameters
    ----------
    returns : Series with dates, or array
        The returns, in the order of time.
    periods_per_year : float, optional
        How many returns make a year. Told by the dates if None, and refused where they do not tell it or there are
        none.

    Returns
    -------
    dict
        Keys of `METRICS` with values.

    See Also
    --------
    intervals
        Confidence intervals of the seven figures.
    METRICS
        The seven performance figures.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.report import measure
    >>> found = measure(np.array([0.01, -0.02, 0.03, 0.0]), periods_per_year=252)
    >>> round(float(found["annualized_mean"]), 4)
    1.26
    """
    year = frequency_of(getattr(returns, "index", None), periods_per_year).periods_per_year
    rows = np.atleast_2d(np.asarray(returns, dtype=np.float64))
    return {metric.key: float(metric.of(rows, year)[0]) for metric in METRICS}


def drawdowns(returns: Floats) -> Floats:
    """Depth below the last peak of the cumulated (not compounded) returns; the start counts as a peak."""
    wealth = np.cumsum(returns, axis=-1)
    return np.asarray(wealth - np.maximum(np.maximum.accumulate(wealth, axis=-1), 0.0))


def _mean(rows: Floats, year: float) -> Floats:
    return np.asarray(year * rows.mean(axis=1))


def _gini(rows: Floats, year: float) -> Floats:
    n = rows.shape[1]
    if n < 2:
        return np.full(rows.shape[0], np.nan)
    ranks = (4.0 * np.arange(1, n + 1) - 2.0 * (n + 1)) / (n * (n - 1.0))
    return np.asarray(np.sort(rows, axis=1) @ ranks)


def _cvar(rows: Floats, year: float) -> Floats:
    return np.atleast_1d(oce(-rows, CVaR(TAIL), axis=-1))


def _cdar(rows: Floats, year: float) -> Floats:
    return np.atleast_1d(oce(-drawdowns(rows), CVaR(TAIL), axis=-1))


def _evar(rows: Floats, year: float) -> Floats:
    """min over z of (ln E exp(zX) - ln alpha)/z, by golden section on ln z: quasi-convex, one minimum."""
    losses = -rows
    top = losses.max(axis=1, keepdims=True)
    spread = top - losses.min(axis=1, keepdims=True)
    below = (losses - top) / np.where(spread > 0.0, spread, 1.0)

    def bound(log_z: Floats) -> Floats:
        z = np.exp(log_z)[:, None]
        with np.errstate(under="ignore"):
            return np.asarray((np.log(np.exp(z * below).mean(axis=1)) - np.log(TAIL)) / z[:, 0])

    # In units of the spread. Where the largest loss has mass TAIL or more, the bound falls towards it for ever: capped.
    low, high = np.full(rows.shape[0], np.log(1e-2)), np.full(rows.shape[0], np.log(1e5))
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = bound(left), bound(right)
    for _ in range(24):  # the value is flat to second order at its minimum: 24 steps give eight digits of it
        go_left = at_left < at_right
        low, high = np.where(go_left, low, left), np.where(go_left, right, high)
        fresh = np.where(go_left, high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
        value = bound(fresh)
        left, right = np.where(go_left, fresh, right), np.where(go_left, left, fresh)
        at_left, at_right = np.where(go_left, value, at_right), np.where(go_left, at_left, value)
    return np.asarray(top[:, 0] + spread[:, 0] * np.minimum(np.minimum(at_left, at_right), 0.0))


def _ratio(mean: Floats, deviation: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(deviation > 0.0, mean / deviation, np.nan)


def _sharpe(rows: Floats, year: float) -> Floats:
    if rows.shape[1] < 2:
        return np.full(rows.shape[0], np.nan)
    return _ratio(_mean(rows, year), np.sqrt(year) * rows.std(axis=1, ddof=1))


def _sortino(rows: Floats, year: float) -> Floats:
    n = rows.shape[1]
    if n < 2:
        return np.full(rows.shape[0], np.nan)
    below = np.minimum(rows - rows.mean(axis=1, keepdims=True), 0.0)
    return _ratio(_mean(rows, year), np.sqrt(year * (below * below).sum(axis=1) / (n - 1)))


METRICS: tuple[Metric, ...] = (
    Metric("annualized_mean", "Return a year", True, _mean, meaning="{year} times the mean {adjective} return"),
    Metric("gini_mean_difference", "Gini MD", False, _gini, meaning="mean distance between two random {plural}"),
    Metric("cvar", "CVaR 95 %", False, _cvar, meaning="mean loss of the worst 5 % of {plural}"),
    Metric("evar", "EVaR 95 %", False, _evar, meaning="entropic value at risk, an upper bound of CVaR"),
    Metric("cdar", "CDaR 95 %", False, _cdar, meaning="mean of the worst 5 % of drawdowns, uncompounded"),
    Metric("annualized_sharpe_ratio", "Sharpe", True, _sharpe, True, "return over standard deviation, per year"),
    Metric("annualized_sortino_ratio", "Sortino", True, _sortino, True, "return over downside deviation, per year"),
)
r"""The seven figures of a report, in its order; r are the returns, p of them a year, x = -r the losses, alpha = 0.05.

=========================  ==========================================================================================
annualized_mean            :math:`p\,\bar r`
gini_mean_difference       :math:`\frac{2}{n(n-1)} \sum_{i<j} |r_i - r_j|`
cvar                       :math:`\min_t\, t + \frac{1}{\alpha} E (x - t)^+`
evar                       :math:`\min_{z>0}\, (\ln E e^{zx} - \ln\alpha)/z`
cdar                       CVaR of :math:`\max(0, \max_{s \le t} W_s) - W_t`, with :math:`W_t = \sum_{s \le t} r_s`
annualized_sharpe_ratio    :math:`\sqrt{p}\, \bar r/\mathrm{sd}(r)`
annualized_sortino_ratio   :math:`\sqrt{p}\, \bar r/\sqrt{\sum_i \min(r_i - \bar r, 0)^2/(n-1)}`
=========================  ==========================================================================================

See Also
--------
measure
    The seven figures of one series of returns.
Metric
    One performance figure.

Examples
--------
>>> from certeq.report import METRICS
>>> [metric.key for metric in METRICS][:4]
['annualized_mean', 'gini_mean_difference', 'cvar', 'evar']
>>> from certeq.data import Frequency
>>> METRICS[2].explain(Frequency(12, "month"))
'mean loss of the worst 5 % of months'
"""


def intervals(
    returns: Any,
    level: float = 0.95,
    *,
    periods_per_year: float | None = None,
    replicates: int = REPLICATES,
    block: float | None = None,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Confidence intervals of all seven figures of one series, by key.

    Those of mean, CVaR and EVaR are those of `certeq.estimate` for a time series, so that a strategy that minimizes one
    of them has one interval wherever a report shows it; the others are percentiles of a stationary bootstrap. The
    same seed draws the same days for every strategy, so that two strategies' replicates are paired.

    Not for fewer than 60 returns or three blocks, where they are NaN: a few blocks cannot say how blocks vary.

    Parameters
    ----------
    returns : Series with dates, or array
        The returns, in the order of time.
    level : float
        Nominal coverage.
    periods_per_year : float, optional
        How many returns make a year. Told by the dates if None, and refused where they do not tell it or there are
        none.
    replicates : int
        Bootstrap samples.
    block : float, optional
        Mean length of a block, about a month if None.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    dict
        Keys of `METRICS` with (low, high).

    See Also
    --------
    measure
        The seven figures of one series of returns.
    figures
        All figures of a study, with intervals.
    certeq.estimate
        OCE of losses with standard error and confidence interval.

    References
    ----------
    Politis and Romano (1994), The stationary bootstrap, doi:10.1080/01621459.1994.10476870.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.report import intervals
    >>> returns = np.random.default_rng(0).normal(0.0005, 0.01, 250)
    >>> low, high = intervals(returns, periods_per_year=252)["cvar"]
    >>> bool(low < high)
    True
    """
    year = frequency_of(getattr(returns, "index", None), periods_per_year).periods_per_year
    returns = np.asarray(returns, dtype=np.float64)
    n, block = returns.size, block_length(year) if block is None else block
    if n < least_returns(block):
        return {metric.key: (np.nan, np.nan) for metric in METRICS}
    rng = np.random.default_rng(seed)
    batch = max(1, min(replicates, _AT_ONCE // n))
    drawn: dict[str, list[Floats]] = {metric.key: [] for metric in METRICS}
    for start in range(0, replicates, batch):
        rows = returns[stationary_indices(n, min(batch, replicates - start), block, rng)]
        for metric in METRICS:
            drawn[metric.key].append(metric.of(rows, year))
    ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
    found = {}
    for key, parts in drawn.items():
        low, high = np.nanquantile(np.concatenate(parts), ends) if np.isfinite(parts[0]).any() else (np.nan, np.nan)
        found[key] = (float(low), float(high))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `certeq.report.reliability` has them
        for key, (is_mean, each) in estimates(returns).items():
            low, high = each.interval(level)
            unit = year if is_mean else 1.0
            found[key] = (unit * low, unit * high)
    return found


def estimates(returns: Floats) -> dict[str, tuple[bool, Estimate]]:
    """The figures whose interval is that of a time series, by key, and whether each is a mean return of a period."""
    return {
        "annualized_mean": (True, estimate(returns, Mean(), dependence="auto")),
        "cvar": (False, estimate(-returns, CVaR(TAIL), dependence="auto")),
        "evar": (False, estimate(-returns, EVaR(TAIL), dependence="auto")),
    }


def block_length(year: float) -> int:
    """Periods of a block, on average: a month of trading days in them."""
    return max(_LEAST_BLOCK, round(BLOCK * year / TRADING_DAYS))


def least_returns(block: float) -> float:
    """How many returns intervals and comparisons need."""
    return max(LEAST, 3 * block)


def stationary_indices(n: int, replicates: int, block: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices of the stationary bootstrap (Politis and Romano, 1994): blocks of geometric length, wrapped around."""
    fresh = rng.random((replicates, n)) < 1.0 / block
    fresh[:, 0] = True
    starts = rng.integers(0, n, size=(replicates, n))
    # Each day follows its predecessor unless a block starts there: start of the block + days since.
    since = np.arange(n) - np.maximum.accumulate(np.where(fresh, np.arange(n), 0), axis=1)
    begin = np.take_along_axis(starts, np.arange(n) - since, axis=1)
    return np.asarray((begin + since) % n, dtype=np.intp)
