"""What a report is made of: strategies, the study that ran them, and the paths of optimal portfolios it draws."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certeq.data import Frequency, frequency_of
from certeq.report._chart import day
from certeq.risk import oce, threshold, tilt
from certeq.risk.solvers import needs_sorting
from certeq.utilities import CVaR, EVaR, Risk, Utility

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Tick = Callable[[], None]

DUST = 5e-4  # a weight that does not round to 0.1 % is not held, but left over by a solver


@dataclass(frozen=True)
class HeldLimit:
    """A limit on a risk: its level, its value at the weights, and what the objective gains for each unit of level.

    Parameters
    ----------
    name : str
        The limit in words, such as "CVaR(alpha=0.05) <= 0.02".
    level : float
        The largest value allowed.
    value : float
        The risk at the weights.
    multiplier : float
        By how much the objective improves for each unit by which the level is raised, at first.

    See Also
    --------
    Strategy
        Weights and their certificate.
    gain_in_words
        The gain from a higher limit, in words.

    Examples
    --------
    >>> from certeq.report import HeldLimit
    >>> HeldLimit("CVaR(alpha=0.05) <= 0.02", 0.02, 0.0187, 0.0).binds
    False
    """

    name: str
    level: float
    value: float
    multiplier: float

    @property
    def binds(self) -> bool:
        """Whether a higher level would be used."""
        return self.multiplier > 0.0


@dataclass(frozen=True)
class Strategy:
    """Weights, where they came from, and the certificate that came with them.

    Parameters
    ----------
    name : str
        What the report calls it.
    weights : array (assets,) or None
        The weights; None where there are none.
    utility : Risk, optional
        The risk measure that was minimized; None for a benchmark.
    objective : float, optional
        Value of what was minimized (or maximized); None for a benchmark.
    gap : float, optional
        A proved bound on how far the objective is from the best value; None for a benchmark.
    steps : int, optional
        Steps of the solver.
    contributions : array (assets,), optional
        Contributions of the assets to OCE less OCE(0).
    seconds : float
        Time that the fit took.
    failure : str, optional
        Why there are no weights, in a sentence.
    returns : array, optional
        Returns on the dates it is tested on, in place of weights, for a benchmark that is not made of the assets, such
        as an index.
    goal : str
        What the objective is: "minimize_risk", "maximize_return", ...
    limits : tuple of HeldLimit
        Limits on risks that it was fitted under.

    See Also
    --------
    fit_strategy
        Fit an optimizer and keep what a report needs.
    Study
        Strategies fitted once and tested on other data.
    HeldLimit
        A limit on a risk, with its value.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.report import Strategy
    >>> Strategy("Half and half", np.array([0.5, 0.5])).is_benchmark
    True
    """

    name: str
    weights: Floats | None
    utility: Risk | None = None
    objective: float | None = None
    gap: float | None = None
    steps: int | None = None
    contributions: Floats | None = None
    seconds: float = 0.0
    failure: str | None = None
    returns: Floats | None = None
    goal: str = "minimize_risk"
    limits: tuple[HeldLimit, ...] = ()

    @property
    def risk_name(self) -> str:
        """CVaR or EVaR, where that is what was minimized; any other risk is called OCE."""
        return risk_name(self.utility)

    @property
    def is_benchmark(self) -> bool:
        """Whether the weights come from something other than the minimization of an OCE."""
        return self.utility is None

    @property
    def relative_gap(self) -> float | None:
        """The gap as a fraction of the objective's size."""
        if self.gap is None or self.objective is None or self.objective == 0.0:
            return None
        return self.gap / abs(self.objective)


@dataclass(frozen=True)
class Sweep:
    """Optimal weights along a path: a frontier, or the values of a risk parameter.

    Parameters
    ----------
    label : str
        What varies along the path.
    places : array (n,)
        Its values.
    weights : array (n, assets)
        One portfolio per row.
    current : float, optional
        The value that the strategy in focus has.
    gap : float, optional
        The largest proved optimality gap among the portfolios.

    See Also
    --------
    frontier
        Portfolios of least OCE for rising returns.
    sensitivity
        Optimal weights for values of a risk parameter.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.report import Sweep
    >>> path = Sweep("alpha", np.array([0.05, 0.1]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    >>> path.weights.shape
    (2, 2)
    """

    label: str
    places: Floats
    weights: Floats
    current: float | None = None
    gap: float | None = None


@dataclass(frozen=True)
class Study:
    """Strategies fitted on one panel of returns and judged on another (or on the same one).

    Parameters
    ----------
    title : str
        Head of the report.
    source : str
        What the data are: a file's name, or a data set's.
    fitted_on, judged_on : DataFrame
        Returns, dates by assets: finite numbers, in the order of time. The same dates when nothing was held out, else
        dates that have none in common.
    strategies : tuple of Strategy
        In the order they are shown.
    focus : str
        The strategy whose tail, tilt, contributions and frontier are drawn.
    frontier, sensitivity : Sweep, optional
        Paths computed by `certeq.report.frontier` and `certeq.report.sensitivity`.
    parameters : mapping
        What was asked for, as shown under "What was run".
    notes : tuple of str
        What was done to the data on the way in, and anything else the reader should know.
    periods_per_year : float, optional
        How many returns make a year. Told by the dates if None, and refused where they do not tell it.

    See Also
    --------
    fit_strategy
        Fit an optimizer and keep what a report needs.
    WalkStudy
        Strategies that are fitted again and again.
    render
        The report as an HTML text.
    save
        Write the report to a file.

    Notes
    -----
    Not a walk-forward: the weights are fitted once, and not again while they are judged. See `WalkStudy` for one.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import Study, fit_strategy
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2))
    >>> returns = pd.DataFrame(draws, days, ["A", "B"])
    >>> mine = fit_strategy("CVaR", MinimumOCE(ce.CVaR(0.1)), returns[:80])
    >>> study = Study(
    ...     "Two assets", "made up", returns[:80], returns[80:], (mine,), focus="CVaR"
    ... )
    >>> study.assets, study.in_sample
    (['A', 'B'], False)
    """

    title: str
    source: str
    fitted_on: pd.DataFrame
    judged_on: pd.DataFrame
    strategies: tuple[Strategy, ...]
    focus: str
    frontier: Sweep | None = None
    sensitivity: Sweep | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    periods_per_year: float | None = None

    def __post_init__(self) -> None:
        names = [strategy.name for strategy in self.strategies]
        if len(set(names)) < len(names):
            raise ValueError(f"strategies must have distinct names; found {names}.")
        if self.focus not in names:
            raise ValueError(f"focus must name a strategy, one of {names}; found {self.focus!r}.")
        if self.focused.weights is None or self.focused.utility is None:
            raise ValueError(f"focus must be a strategy with weights and a utility; {self.focus!r} has not both.")
        _check_returns("fitted_on", self.fitted_on)
        _check_returns("judged_on", self.judged_on)
        _check_together(self.fitted_on, self.judged_on)
        for strategy in self.strategies:
            _check_strategy(strategy, self.judged_on)
        _ = self.frequency  # refused here, where the caller sees it

    @cached_property
    def frequency(self) -> Frequency:
        """How often the returns come."""
        return frequency_of(self.fitted_on.index.append(self.judged_on.index), self.periods_per_year)

    @property
    def in_sample(self) -> bool:
        """Whether the figures judge the weights on the very data they were fitted on."""
        return self.judged_on is self.fitted_on or bool(self.judged_on.index.equals(self.fitted_on.index))

    @property
    def dates(self) -> pd.Index:
        """The dates of what the strategies are judged on."""
        return self.judged_on.index

    @property
    def judged_how(self) -> str:
        """What the figures are computed on."""
        return "the data the weights were fitted on, so they flatter" if self.in_sample else "data the fit never saw"

    @property
    def compounded_how(self) -> str:
        """How returns become wealth."""
        return f"Compounded, weights kept constant by {self.frequency.adjective} rebalancing, no costs."

    @property
    def focused(self) -> Strategy:
        """The strategy that is looked at closely."""
        return next(strategy for strategy in self.strategies if strategy.name == self.focus)

    @property
    def held(self) -> tuple[Strategy, ...]:
        """The strategies that have weights."""
        return tuple(strategy for strategy in self.strategies if strategy.weights is not None)

    @property
    def judged(self) -> tuple[Strategy, ...]:
        """The strategies that have returns: those with weights, and an index that is none of the assets."""
        return tuple(s for s in self.strategies if s.weights is not None or s.returns is not None)

    @property
    def against(self) -> str | None:
        """The index that the others are compared with, if any."""
        return next((strategy.name for strategy in self.strategies if strategy.returns is not None), None)

    @property
    def assets(self) -> list[str]:
        """Asset names, as text."""
        return [str(name) for name in self.fitted_on.columns]

    def judged_returns(self, strategy: Strategy) -> Floats:
        """Returns of a strategy on the data it is judged on.

        Parameters
        ----------
        strategy : Strategy
            One of the strategies.

        Returns
        -------
        array
            One return per date.
        """
        if strategy.returns is not None:
            return strategy.returns
        return np.asarray(self.judged_on.to_numpy(dtype=float) @ _weights(strategy))

    def judged_by_name(self) -> dict[str, Floats]:
        """Returns of every strategy that has any, on the data they are judged on.

        Returns
        -------
        dict
            Returns by the name of the strategy.
        """
        return {strategy.name: self.judged_returns(strategy) for strategy in self.judged}

    def fitted_losses(self, strategy: Strategy) -> Floats:
        """Losses of a strategy on the data it was fitted on.

        Parameters
        ----------
        strategy : Strategy
            One of the strategies.

        Returns
        -------
        array
            One loss per date.
        """
        return -np.asarray(self.fitted_on.to_numpy(dtype=float) @ _weights(strategy))


def _check_returns(name: str, table: Any) -> None:
    """Refuse what is not a table of finite returns with dates in the order of time."""
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"{name} must be a pandas DataFrame of returns, dates by assets; found {type(table).__name__}. Dates are "
            "needed: pass pd.DataFrame(returns, index=dates, columns=assets)."
        )
    if 0 in table.shape:
        raise ValueError(f"{name} must have at least one row and one column; found shape {table.shape}.")
    dates = table.index
    if not isinstance(dates, (pd.DatetimeIndex, pd.PeriodIndex)) or dates.hasnans:
        missing = " with missing dates" if isinstance(dates, (pd.DatetimeIndex, pd.PeriodIndex)) else ""
        raise ValueError(
            f"{name} must have a DatetimeIndex; found {type(dates).__name__}{missing}, first {dates[0]!r}. "
            "pd.to_datetime makes dates of texts."
        )
    if not (dates.is_monotonic_increasing and dates.is_unique):
        at = next(k for k in range(1, len(dates)) if dates[k] <= dates[k - 1])
        raise ValueError(
            f"{name} must be in the order of time, each date once; found {day(dates[at])} after {day(dates[at - 1])} "
            f"in row {at}. sort_index() sorts it."
        )
    try:
        values = table.to_numpy(dtype=float)
    except (TypeError, ValueError):
        column = next(k for k, kind in enumerate(table.dtypes) if not pd.api.types.is_numeric_dtype(kind))
        raise TypeError(
            f"{name} must hold numbers; found {table.dtypes.iloc[column]} in column {table.columns[column]!r}."
        ) from None
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"{name} must be finite; found {values[row, column]} in column {table.columns[column]!r} on "
            f"{day(dates[row])}, {len(wrong)} such value{'s' if len(wrong) > 1 else ''} in all. Fill them, or leave "
            "the date or the asset out."
        )


def _check_together(fitted_on: pd.DataFrame, judged_on: pd.DataFrame) -> None:
    """Refuse other assets, dates of another kind, and dates that are partly the same."""
    mine, theirs = list(fitted_on.columns), list(judged_on.columns)
    if mine != theirs:
        at = next((k for k, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), None)
        found = (
            f"{len(mine)} and {len(theirs)} columns"
            if at is None
            else f"{mine[at]!r} and {theirs[at]!r} in column {at}"
        )
        raise ValueError(f"fitted_on and judged_on must have the same assets in the same order; found {found}.")
    kinds = [(type(table.index), str(getattr(table.index, "tz", None))) for table in (fitted_on, judged_on)]
    if kinds[0] != kinds[1]:
        found = " and ".join(f"{kind.__name__} with time zone {zone}" for kind, zone in kinds)
        raise ValueError(f"fitted_on and judged_on must have dates of one kind; found {found}.")
    shared = judged_on.index.intersection(fitted_on.index)
    if len(shared) and not judged_on.index.equals(fitted_on.index):
        raise ValueError(
            "judged_on must have the dates of fitted_on, where nothing is held out, or none of them; found "
            f"{len(shared)} of {len(judged_on)} among them, {day(shared[0])} to {day(shared[-1])}. Leave those out."
        )


def _check_strategy(strategy: Strategy, judged_on: pd.DataFrame) -> None:
    """Refuse weights or returns that do not belong to the study's data."""
    for what, given, size, each in (
        ("weights", strategy.weights, judged_on.shape[1], "asset"),
        ("returns", strategy.returns, len(judged_on), "date it is judged on"),
    ):
        if given is None:
            continue
        if np.shape(given) != (size,):
            raise ValueError(
                f"{what} of {strategy.name!r} must have shape ({size},), one for each {each}; found {np.shape(given)}."
            )
        wrong = np.flatnonzero(~np.isfinite(np.asarray(given, dtype=float)))
        if len(wrong):
            raise ValueError(f"{what} of {strategy.name!r} must be finite; found {given[wrong[0]]} at {wrong[0]}.")


def risk_name(utility: Risk | None) -> str:
    """What a chart calls the value of a risk: CVaR and EVaR by their names, any other one OCE."""
    return next((kind.__name__ for kind in (CVaR, EVaR) if isinstance(utility, kind)), "OCE")


@dataclass(frozen=True)
class Tail:
    """How a strategy's utility sees its losses: value, threshold and tilt."""

    losses: Floats
    value: float
    threshold: float | None  # where there is one: a mixture has several, a distortion none
    tilt: Floats

    @classmethod
    def of(cls, losses: Floats, utility: Risk) -> Tail:
        """Measured anew from the losses, so that it fits any weights."""
        single = isinstance(utility, Utility) or (not needs_sorting(utility) and len(utility.inner().terms) == 1)
        t = float(np.ravel(threshold(losses, utility))[0]) if single else None
        return cls(losses, float(oce(losses, utility)), t, tilt(losses, utility))


def fit_strategy(
    name: str, estimator: Any, returns: pd.DataFrame, *, contributions: bool = True, benchmark: Any = None
) -> Strategy:
    """Fit a skfolio optimizer and keep what a report needs; what it raises is passed on.

    Not for estimators that return several portfolios: a strategy has one row of weights.

    Parameters
    ----------
    name : str
        What the report calls it.
    estimator : skfolio optimizer
        Fitted in place.
    returns : DataFrame
        Returns, dates by assets.
    contributions : bool
        Whether to compute the contributions of the assets, which take a while and are needed for the strategy in focus
        only.
    benchmark : array-like (n,), optional
        Returns that a limit is against, as y of ``fit(X, y)``.

    Returns
    -------
    Strategy
        Weights and certificate.

    See Also
    --------
    Strategy
        Weights and their certificate.
    Study
        Strategies fitted once and tested on other data.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import Study, fit_strategy
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2))
    >>> returns = pd.DataFrame(draws, days, ["A", "B"])
    >>> mine = fit_strategy("CVaR", MinimumOCE(ce.CVaR(0.1)), returns[:80])
    >>> mine.name, bool(mine.gap < 1e-9), mine.is_benchmark
    ('CVaR', True, False)
    """
    began = time.perf_counter()
    estimator.fit(returns, benchmark)
    seconds = time.perf_counter() - began
    weights = np.asarray(estimator.weights_, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights)):
        raise ValueError(f"{name} gave no usable weights (shape {weights.shape}, or not finite).")
    gap, objective = getattr(estimator, "gap_", None), getattr(estimator, "objective_", None)
    steps = getattr(estimator, "n_iter_", None)
    parts = getattr(estimator, "risk_contributions_", None) if contributions else None
    return Strategy(
        name,
        weights,
        getattr(estimator, "utility_", None) if gap is not None else None,
        None if objective is None else float(objective),
        None if gap is None else float(gap),
        None if steps is None else int(steps),
        None if parts is None else np.asarray(parts, dtype=np.float64),
        seconds,
        goal=_goal_of(estimator),
        limits=_limits_of(estimator),
    )


def _goal_of(estimator: Any) -> str:
    """What an optimizer's objective is, by the name that skfolio has for it."""
    found = getattr(estimator, "objective_function", "minimize_risk")
    return str(getattr(found, "value", found)).lower()


def _limits_of(estimator: Any) -> tuple[HeldLimit, ...]:
    """The limits on risks that an optimizer was fitted under."""
    names = getattr(estimator, "limit_names_", [])
    numbers = [getattr(estimator, f"limit_{what}_", ()) for what in ("levels", "values", "multipliers")]
    return tuple(HeldLimit(name, *map(float, each)) for name, *each in zip(names, *numbers, strict=True))


def _silent() -> None:
    """No progress to show."""


def frontier(estimator: Any, returns: pd.DataFrame, *, points: int = 20, benchmark: Any = None) -> Sweep:
    """Portfolios of least OCE for rising mean returns, from the least risk of all to the largest return.

    Not tested on days held out: every point is optimal on the days it was fitted on, and flattered by them.

    Parameters
    ----------
    estimator : MinimumOCE
        The optimizer, which is not changed.
    returns : DataFrame
        Returns, dates by assets.
    points : int
        Number of portfolios.
    benchmark : array-like (n,), optional
        Returns that a limit is against, as y of ``fit(X, y)``.

    Returns
    -------
    Sweep
        The portfolios by mean return.

    See Also
    --------
    Sweep
        Optimal weights along a path.
    sensitivity
        Optimal weights for values of a risk parameter.
    certeq.portfolio.Frontier
        Portfolios of least risk for rising returns.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import frontier
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2))
    >>> returns = pd.DataFrame(draws, days, ["A", "B"])
    >>> path = frontier(MinimumOCE(ce.CVaR(0.1)), returns, points=4)
    >>> path.weights.shape, bool(path.gap < 1e-9)
    ((4, 2), True)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of points that are not quite optimal; the gap says how far
        found = estimator.efficient_frontier(returns, n=points, y=benchmark)
    gap = float(np.max(found.gaps))
    return Sweep("mean return", np.asarray(found.expected_returns), np.asarray(found.weights), gap=gap)


def sensitivity(
    estimator: Any,
    returns: pd.DataFrame,
    cases: Sequence[tuple[float, Risk]],
    *,
    label: str,
    current: float | None = None,
    tick: Tick = _silent,
    benchmark: Any = None,
) -> Sweep:
    """The optimal weights for each value of a risk parameter.

    Not a way to choose the parameter: the weights are drawn, not tested.

    Parameters
    ----------
    estimator : MinimumOCE
        The optimizer, which is not changed.
    returns : DataFrame
        Returns, dates by assets.
    cases : sequence of (float, Risk)
        Values of the parameter, each with the risk measure that has it.
    label : str
        Name of the parameter.
    current : float, optional
        The value that the strategy in focus has.
    tick : callable
        Called without arguments after each case, to show progress.
    benchmark : array-like (n,), optional
        Returns that a limit is against, as y of ``fit(X, y)``.

    Returns
    -------
    Sweep
        The portfolios by value of the parameter.

    See Also
    --------
    Sweep
        Optimal weights along a path.
    frontier
        Portfolios of least OCE for rising returns.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import sensitivity
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2))
    >>> returns = pd.DataFrame(draws, days, ["A", "B"])
    >>> cases = [(alpha, ce.CVaR(alpha)) for alpha in (0.05, 0.1, 0.2)]
    >>> sensitivity(MinimumOCE(ce.CVaR(0.1)), returns, cases, label="alpha").weights.shape
    (3, 2)
    """
    from sklearn.base import clone

    rows, gaps = [], []
    for _, utility in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = clone(estimator).set_params(utility=utility).fit(returns, benchmark)
        rows.append(np.asarray(fitted.weights_, dtype=np.float64))
        gaps.append(float(fitted.gap_))
        tick()
    values = np.array([value for value, _ in cases], dtype=np.float64)
    return Sweep(label, values, np.array(rows), current, max(gaps))


def _weights(strategy: Strategy) -> Floats:
    if strategy.weights is None:
        raise ValueError(f"{strategy.name} has no weights: {strategy.failure}")
    return strategy.weights
