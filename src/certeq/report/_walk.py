"""Strategies followed through time: portfolios held one after the other, each fitted anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_count
from certeq.data import Frequency, frequency_of
from certeq.report._study import Study
from certeq.risk.solvers import check_risk
from certeq.utilities import CVaR, Risk

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Walk:
    """What a strategy held and earned, period by period; `walk_of` and `walk_forward` make it.

    Attributes
    ----------
    name : str
        What the report calls it.
    returns : Series
        Returns of every date, net of the costs and fees below.
    starts : array of int
        Position in ``returns`` of the first date of each holding period.
    weights : DataFrame
        One row per holding period, one column per asset; without rows where the holdings are not known.
    turnover : array
        Half the sum of the absolute changes of the weights at the beginning of each period: the share of the money
        that moved. NaN where what was held before is not known, as in the first period.
    costs : array
        Costs and fees paid in each period, as a share of the money.
    gaps : array or None
        The proved gap of each fit, where it has one.
    notes : tuple of str
        What the reader should know, such as periods that were left out.
    is_benchmark : bool
        Whether this is what the others are compared with.
    failure : None
        A walk that failed is not made.

    See Also
    --------
    walk_forward
        Fit, hold and move on through time.
    walk_of
        A walk from portfolios that exist.
    WalkStudy
        Strategies that are fitted again and again.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from certeq.report import walk_of
    >>> from skfolio import Portfolio
    >>> days = pd.bdate_range("2024-01-01", periods=6)
    >>> X = pd.DataFrame(np.full((6, 2), 0.01), days, ["A", "B"])
    >>> periods = [Portfolio(X[:3], [1.0, 0.0]), Portfolio(X[3:], [0.5, 0.5])]
    >>> walk = walk_of("two halves", periods)
    >>> walk.turnover, len(walk.returns)
    (array([nan, 0.5]), 6)
    """

    name: str
    returns: pd.Series
    starts: NDArray[np.intp]
    weights: pd.DataFrame
    turnover: Floats
    costs: Floats
    gaps: Floats | None = None
    notes: tuple[str, ...] = ()
    is_benchmark: bool = False
    failure: None = None

    @property
    def ends(self) -> NDArray[np.intp]:
        """Position in ``returns`` of the last date of each holding period."""
        return np.append(self.starts[1:], len(self.returns)) - 1


def walk_of(name: str, periods: Any) -> Walk:
    """A walk from portfolios that exist: a skfolio ``MultiPeriodPortfolio``, or any list of fitted periods.

    Parameters
    ----------
    name : str
        What the report calls it.
    periods : MultiPeriodPortfolio, or list of Portfolio or of (estimator, returns)
        The holding periods in the order of time. An estimator has been fitted, and the returns, a DataFrame with
        dates, are those of the period in which its weights are held. Portfolios that failed are left out, with a note.

    Returns
    -------
    Walk
        What the strategy held and earned.

    See Also
    --------
    walk_forward
        Fit, hold and move on through time.
    WalkStudy
        Strategies that are fitted again and again.

    Notes
    -----
    Not checked: that a fit saw none of the returns it is judged on.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import walk_of
    >>> days = pd.bdate_range("2023-01-02", periods=300)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (300, 2))
    >>> X = pd.DataFrame(draws, days, ["A", "B"])
    >>> fits = [
    ...     (MinimumOCE(ce.CVaR(0.1)).fit(X[k : k + 100]), X[k + 100 : k + 200])
    ...     for k in (0, 100)
    ... ]
    >>> walk = walk_of("CVaR", fits)
    >>> walk.weights.shape, bool(walk.gaps.max() < 1e-9)
    ((2, 2), True)
    """
    import pandas as pd
    from skfolio import Population
    from skfolio.portfolio import FailedPortfolio, MultiPeriodPortfolio, Portfolio

    found, gaps, failed = [], [], 0
    for each in periods.portfolios if isinstance(periods, MultiPeriodPortfolio) else list(periods):
        gap = np.nan
        if isinstance(each, tuple):
            estimator, held_on = each
            each, gap = estimator.predict(held_on), getattr(estimator, "gap_", np.nan)
        if isinstance(each, FailedPortfolio):
            failed += 1
        elif isinstance(each, Portfolio):
            found.append(each)
            gaps.append(gap)
        else:
            kind = type(each).__name__ + (": one walk per portfolio" if isinstance(each, Population) else "")
            raise TypeError(f"periods must hold Portfolios or pairs (fitted estimator, returns); found {kind}.")
    if not found:
        raise ValueError(f"periods must hold at least one portfolio; found none ({failed} failed).")
    returns = pd.concat([pd.Series(each.returns, index=pd.Index(each.observations)) for each in found])
    dates = returns.index
    if isinstance(dates, pd.PeriodIndex):
        returns.index = dates = dates.to_timestamp()
    if not isinstance(dates, pd.DatetimeIndex):
        raise ValueError("periods must have dates: pass returns as DataFrames with a DatetimeIndex.")
    if not (dates.is_monotonic_increasing and dates.is_unique):
        where = int(np.flatnonzero(np.diff(dates.asi8) <= 0)[0])
        raise ValueError(
            f"periods must follow each other without overlap; found {dates[where + 1]:%Y-%m-%d} after "
            f"{dates[where]:%Y-%m-%d}."
        )
    lengths = [len(each.returns) for each in found]
    weights = pd.DataFrame([dict(zip(map(str, each.assets), each.weights, strict=True)) for each in found]).fillna(0.0)
    ending = pd.DataFrame([dict(zip(map(str, e.assets), e.ending_weights, strict=True)) for e in found]).fillna(0.0)
    moved = 0.5 * np.abs(weights.to_numpy()[1:] - ending.to_numpy()[:-1]).sum(axis=1)
    paid = [length * float(each.total_cost + each.total_fee) for each, length in zip(found, lengths, strict=True)]
    starts = np.cumsum([0, *lengths[:-1]])
    return Walk(
        name,
        returns,
        starts.astype(np.intp),
        weights.set_axis(dates[starts]),
        np.concatenate([[np.nan], moved]),
        np.array(paid),
        np.array(gaps, dtype=float) if np.isfinite(gaps).all() else None,
        (f"{name}: {failed} portfolios failed, and their periods are left out.",) if failed else (),
    )


def walk_forward(
    name: str, estimator: Any, returns: pd.DataFrame, *, train_size: int, test_size: int,
    entry_rebalancing_params: Mapping[str, Any] | None = None, benchmark: pd.Series | None = None,
) -> Walk:  # fmt: skip
    """Fit a skfolio optimizer on a window, hold its portfolio, move on.

    What is held becomes ``previous_weights`` of the next fit where the optimizer has costs or a limit on turnover, as
    in skfolio's ``cross_val_predict``, whose result `walk_of` takes as well; here the gap of every fit is kept.

    Parameters
    ----------
    name : str
        What the report calls it.
    estimator : skfolio optimizer
        Cloned for every fit.
    returns : DataFrame
        Returns, dates by assets.
    train_size, test_size : int
        Rows to fit on, and rows to hold the portfolio; the last period may be shorter.
    entry_rebalancing_params : mapping, optional
        Parameters of the first fit alone, as in skfolio: ``{"max_turnover": None}`` where nothing is held before.
    benchmark : Series, optional
        Returns on all the dates that limits of the optimizer are against, as y of its ``fit(X, y)``.

    Returns
    -------
    Walk
        What the strategy held and earned.

    See Also
    --------
    walk_of
        A walk from portfolios that exist.
    WalkStudy
        Strategies that are fitted again and again.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import walk_forward
    >>> days = pd.bdate_range("2023-01-02", periods=300)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (300, 2))
    >>> X = pd.DataFrame(draws, days, ["A", "B"])
    >>> walk = walk_forward(
    ...     "CVaR", MinimumOCE(ce.CVaR(0.1)), X, train_size=100, test_size=60
    ... )
    >>> len(walk.weights), len(walk.returns), str(walk.returns.index[0])[:10]
    (4, 200, '2023-05-22')
    """
    from sklearn.base import clone

    check_count("train_size", train_size, least=2)
    check_count("test_size", test_size)
    if train_size >= len(returns):
        raise ValueError(f"train_size must be less than the {len(returns)} rows of returns; found {train_size}.")
    periods, held = [], None
    for begin in range(train_size, len(returns), test_size):
        model = clone(estimator)
        if held is None:
            model.set_params(**(entry_rebalancing_params or {}))
        elif getattr(model, "needs_previous_weights", False):
            model.set_params(previous_weights=held)
        seen = returns.iloc[begin - train_size : begin]
        model.fit(seen, None if benchmark is None else benchmark.loc[seen.index])
        periods.append((model, returns.iloc[begin : begin + test_size]))
        held = np.asarray(model.predict(periods[-1][1]).ending_weights)
    return walk_of(name, periods)


@dataclass(frozen=True)
class WalkStudy:
    """Walks over the same dates, and what they are compared with; `save` and `render` make a report of it.

    Parameters
    ----------
    title, source : str
        Head of the report, and what the data are.
    walks : tuple of Walk
        In the order they are shown. All must have the same dates.
    focus : str, optional
        The walk whose weights, turnover, costs and years are shown; the first if None.
    benchmark : Walk, Series or None
        Returns to compare with: they must be known on every date of the walks.
    risk : Risk
        What the chart of rolling risk shows.
    window : int, optional
        Its length in periods; a year of them if None, less where the walks are short.
    parameters : mapping
        What was asked for, as shown under "What was run".
    notes : tuple of str
        What was done to the data on the way in, and anything else the reader should know.
    periods_per_year : float, optional
        How many returns make a year. Told by the dates if None, and refused where they do not tell it.

    See Also
    --------
    walk_forward
        Fit, hold and move on through time.
    Study
        Strategies fitted once and tested on other data.
    save
        Write the report to a file.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import WalkStudy, render, walk_forward
    >>> days = pd.bdate_range("2022-01-03", periods=500)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (500, 2))
    >>> X = pd.DataFrame(draws, days, ["A", "B"])
    >>> walk = walk_forward(
    ...     "CVaR", MinimumOCE(ce.CVaR(0.1)), X, train_size=200, test_size=60
    ... )
    >>> study = WalkStudy("Two assets", "made up", (walk,), benchmark=X["A"])
    >>> study.focus, study.held[-1].name, "Weights through time" in render(study)
    ('CVaR', 'A', True)
    """

    title: str
    source: str
    walks: tuple[Walk, ...]
    focus: str = ""
    benchmark: Any = None
    risk: Risk = field(default_factory=lambda: CVaR(0.05))
    window: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    periods_per_year: float | None = None

    def __post_init__(self) -> None:
        if not self.walks:
            raise ValueError("walks must hold at least one walk; found none.")
        names = [walk.name for walk in self.held]
        if len(set(names)) < len(names):
            raise ValueError(f"walks and benchmark must have distinct names; found {names}.")
        object.__setattr__(self, "focus", self.focus or names[0])
        if self.focus not in [walk.name for walk in self.walks]:
            raise ValueError(f"focus must name a walk, one of {names}; found {self.focus!r}.")
        for walk in self.walks[1:]:
            if not walk.returns.index.equals(self.dates):
                raise ValueError(f"walks must have the same dates; those of {walk.name!r} differ from {names[0]!r}'s.")
        check_risk(self.risk)
        if self.window is not None:
            check_count("window", self.window, least=2)
            if self.window > len(self.dates):
                raise ValueError(f"window must be at most the {len(self.dates)} dates; found {self.window}.")
        _ = self.frequency  # refused here, where the caller sees it

    @property
    def dates(self) -> pd.DatetimeIndex:
        """The dates of all walks."""
        return self.walks[0].returns.index

    @cached_property
    def frequency(self) -> Frequency:
        """How often the returns come."""
        return frequency_of(np.asarray(self.dates), self.periods_per_year)

    @property
    def focused(self) -> Walk:
        """The walk that is looked at closely."""
        return next(walk for walk in self.walks if walk.name == self.focus)

    @cached_property
    def held(self) -> tuple[Walk, ...]:
        """The walks, and the benchmark after them."""
        return self.walks if self.benchmark is None else (*self.walks, _as_benchmark(self.benchmark, self.dates))

    @property
    def strategies(self) -> tuple[Walk, ...]:
        """The same: what is compared."""
        return self.held

    @property
    def judged(self) -> tuple[Walk, ...]:
        """The same: all have returns."""
        return self.held

    @property
    def against(self) -> str | None:
        """The name of the benchmark, if any."""
        return None if self.benchmark is None else self.held[-1].name

    @property
    def judged_how(self) -> str:
        """What the figures are computed on."""
        return "the dates on which each portfolio was held, net of the costs and fees that it charges"

    @property
    def compounded_how(self) -> str:
        """How returns become wealth."""
        costs = "net of costs and fees" if any(walk.costs.any() for walk in self.walks) else "no costs"
        return f"Compounded, {costs}; fitted anew {len(self.focused.starts)} times."

    @property
    def rolling_window(self) -> int:
        """Periods of the rolling risk."""
        year = round(self.frequency.periods_per_year)
        return self.window or max(2, min(year, len(self.dates) // 3))

    def judged_returns(self, walk: Walk) -> Floats:
        """Returns of a walk.

        Parameters
        ----------
        walk : Walk
            One of the walks.

        Returns
        -------
        array
            One return per date.
        """
        return np.asarray(walk.returns, dtype=np.float64)

    def judged_by_name(self) -> dict[str, Floats]:
        """Returns of every walk and of the benchmark.

        Returns
        -------
        dict
            Returns by the name of the walk.
        """
        return {walk.name: self.judged_returns(walk) for walk in self.held}


AnyStudy = Study | WalkStudy  # strategies judged on the same dates, fitted once or again and again


def _as_benchmark(found: Any, dates: pd.DatetimeIndex) -> Walk:
    """Returns to compare with, on the dates of the walks."""
    import pandas as pd

    name, returns = (found.name, found.returns) if isinstance(found, Walk) else (getattr(found, "name", None), found)
    if not isinstance(returns, pd.Series):
        raise TypeError(f"benchmark must be a Walk or a pandas Series with dates; found {type(found).__name__}.")
    aligned = returns.reindex(dates)
    missing = aligned.index[~np.isfinite(aligned.to_numpy(dtype=float))]
    if len(missing):
        raise ValueError(
            f"benchmark must have a return on every date of the walks; {len(missing)} are missing, the first of "
            f"{missing[0]:%Y-%m-%d}."
        )
    none: Iterable[float] = ()
    label = "Benchmark" if name is None else str(name)
    empty = pd.DataFrame(index=dates[:0])
    return Walk(
        label, aligned, np.zeros(1, dtype=np.intp), empty, np.array(none), np.array(none), None, (), is_benchmark=True
    )
