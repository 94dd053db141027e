"""The tables of a report: the seven figures with intervals, the certificates, and what was run."""

from __future__ import annotations

import os
import platform
import re
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations

import numpy as np

from certeq.data import Frequency
from certeq.report._chart import PageTable, number, percent
from certeq.report._study import HeldLimit, Strategy, Study
from certeq.report._walk import AnyStudy
from certeq.report.metrics import METRICS, REPLICATES, TAIL, block_length, intervals, measure
from certeq.report.page import plain
from certeq.report.reliability import MARK, Doubt, has_intervals, held_out_estimate, least_periods, mark, reasons
from certeq.risk import Difference, difference, oce
from certeq.utilities import CVaR

Figures = dict[str, dict[str, tuple[float, float, float]]]  # value, low and high by strategy and key
_PACKAGES = ("certeq", "numpy", "scipy", "pandas", "scikit-learn", "skfolio", "plotly")


def figures(study: AnyStudy, level: float = 0.95) -> Figures:
    """Value, low and high of every figure of every strategy that has weights, by name and key.

    Not with intervals where there are fewer than 60 returns: they come from a bootstrap of blocks of them.

    Parameters
    ----------
    study : Study or WalkStudy
        What was run.
    level : float
        Nominal coverage of the intervals.

    Returns
    -------
    dict
        Of strategy names, each a dict of keys of `METRICS` with (value, low, high).

    See Also
    --------
    intervals
        Confidence intervals of the seven figures.
    measure
        The seven figures of one series of returns.
    render
        The report as an HTML text.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import Study, fit_strategy, figures
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2))
    >>> returns = pd.DataFrame(draws, days, ["A", "B"])
    >>> mine = fit_strategy("CVaR", MinimumOCE(ce.CVaR(0.1)), returns[:80])
    >>> study = Study(
    ...     "Two assets", "made up", returns[:80], returns[80:], (mine,), focus="CVaR"
    ... )
    >>> round(figures(study)["CVaR"]["cvar"][0], 3)  # 40 days give no interval yet
    0.025
    """
    found = {}
    for name, returns in study.judged_by_name().items():
        year = study.frequency.periods_per_year
        values, bars = measure(returns, year), intervals(returns, level, periods_per_year=year)
        found[name] = {key: (value, *bars[key]) for key, value in values.items()}
    return found


def metrics_table(study: AnyStudy, found: Figures, doubted: tuple[Doubt, ...] = ()) -> PageTable:
    """One row per strategy; each cell is a value, a line break and its interval. The best value carries a star."""
    best = {
        metric.key: _best([row[metric.key][0] for row in found.values()], metric.more_is_better) for metric in METRICS
    }
    rows = []
    for strategy in study.strategies:
        if strategy.name not in found:
            rows.append((strategy.name, plain(strategy.failure, 120), *[""] * (len(METRICS) - 1)))
            continue
        cells = []
        for metric in METRICS:
            value, low, high = found[strategy.name][metric.key]
            star = "★ " if len(found) > 1 and value == best[metric.key] else ""
            bars = ""
            if np.isfinite(low):
                bars = f"\n{_bare(metric.show(low))} to {_bare(metric.show(high))}"
                bars += mark(doubted, strategy.name, metric.label)
            cells.append(f"{star}{metric.show(value)}{bars}")
        rows.append((strategy.name, *cells))
    head = ("Strategy", *[metric.label for metric in METRICS])
    return PageTable(head, tuple(rows), frozenset(range(1, len(head))))


def metrics_caption(study: AnyStudy, level: float = 0.95) -> str:
    """How the figures and their intervals are to be read."""
    what = "; ".join(f"{metric.label}: {metric.explain(study.frequency)}" for metric in METRICS)
    periods, block = study.frequency.plural, block_length(study.frequency.periods_per_year)
    reason = f" {why_not_compared(study)}".rstrip()
    about = (
        f"Below each value its {100 * level:g} % confidence interval: of return, CVaR "
        f"and EVaR by the long-run variance of the {periods}, of the others from {REPLICATES} bootstrap replicates, "
        f"drawn in blocks of {block} {periods} on average. The intervals reflect the sampling of these {periods}, not "
        "the estimation of the weights; for CDaR they are rough, because resampling breaks up drawdowns. Overlapping "
        f"intervals do not say that two strategies are alike: {periods} are shared."
    )
    if not has_intervals(study):
        about = (
            f"No confidence intervals: they take at least {least_periods(study):g} {periods}; found {len(study.dates)}."
        )
    return f"Computed on {study.judged_how}. {about} ★ marks the best value. {what}.{reason}"


@dataclass(frozen=True)
class Pair:
    """CVaR of one strategy less that of another, on the days they are judged on; ``adjusted`` is Holm's p-value."""

    riskier: str
    other: str
    found: Difference
    adjusted: float

    @property
    def differs(self) -> bool:
        """Whether the two can be told apart at the 5 % level, with all pairs looked at."""
        return self.adjusted < 0.05


def differences(study: AnyStudy) -> tuple[Pair, ...]:
    """All pairs of strategies, compared return by return in CVaR 95 %.

    None where fewer than 60 returns were judged on, or where nothing was held out: `why_not_compared` says which.

    Parameters
    ----------
    study : Study or WalkStudy
        What was run.

    Returns
    -------
    tuple of Pair
        Pairs with ``riskier`` and ``other``, names of strategies; ``found``, their `certeq.Difference`; ``adjusted``,
        its p-value corrected for the number of pairs; and ``differs``, whether that is below 0.05.

    See Also
    --------
    differences_sentence
        The pairs that differ, in a sentence.
    why_not_compared
        Why no strategies are compared.
    certeq.difference
        Difference of two risks over the same periods, with its error.

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import Study, differences, fit_strategy
    >>> days = pd.bdate_range("2024-01-01", periods=400)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (400, 2))
    >>> returns = pd.DataFrame(draws, days, ["A", "B"])
    >>> mild, bold = (MinimumOCE(u) for u in (ce.CVaR(0.1), ce.Mean()))
    >>> fitted = tuple(
    ...     fit_strategy(name, each, returns[:200])
    ...     for name, each in (("CVaR", mild), ("Mean", bold))
    ... )
    >>> study = Study(
    ...     "Two assets", "made up", returns[:200], returns[200:], fitted, focus="CVaR"
    ... )
    >>> [(pair.riskier, pair.other, pair.differs) for pair in differences(study)]
    [('Mean', 'CVaR', True)]
    """
    if why_not_compared(study):
        return ()
    losses = {name: -returns for name, returns in study.judged_by_name().items()}
    found = []
    for one, other in combinations(losses, 2):
        pair = difference(losses[one], losses[other], CVaR(TAIL), dependence="auto")
        if pair.value < 0.0:
            one, other = other, one
            pair = difference(losses[one], losses[other], CVaR(TAIL), dependence="auto")
        found.append((one, other, pair))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one short series is that of all pairs
        pvalues = [pair.pvalue for _, _, pair in found]
    pairs, largest = [], 0.0
    for rank, index in enumerate(np.argsort(pvalues, kind="stable")):  # Holm's step-down rule
        largest = max(largest, min(1.0, (len(found) - rank) * pvalues[index]))
        one, other, pair = found[index]
        pairs.append(Pair(one, other, pair, largest))
    return tuple(pairs)


def why_not_compared(study: AnyStudy) -> str:
    """Why `differences` compares no strategies of a study, in a sentence; empty where it does.

    Parameters
    ----------
    study : Study or WalkStudy
        What was run.

    Returns
    -------
    str
        The sentence, or an empty text.

    See Also
    --------
    differences
        Pairs of strategies compared in CVaR.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import Study, fit_strategy, why_not_compared
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2))
    >>> returns = pd.DataFrame(draws, days, ["A", "B"])
    >>> mine = fit_strategy("CVaR", MinimumOCE(ce.CVaR(0.1)), returns[:80])
    >>> study = Study(
    ...     "Two assets", "made up", returns[:80], returns[80:], (mine,), focus="CVaR"
    ... )
    >>> why_not_compared(study)
    'Strategies are not compared in CVaR 95 %: that takes two of them; found 1.'
    """
    least = least_periods(study)
    if len(study.judged) < 2:
        reason = f"that takes two of them; found {len(study.judged)}"
    elif isinstance(study, Study) and study.in_sample:
        # Of many portfolios the one that did best here was chosen; a test of two given ones takes no account of that.
        reason = f"the weights were chosen on the same {study.frequency.plural}, of which a p-value takes no account"
    elif len(study.dates) < least:
        reason = f"that takes at least {least:g} {study.frequency.plural}; found {len(study.dates)}"
    else:
        return ""
    return f"Strategies are not compared in CVaR 95 %: {reason}."


def differences_table(study: AnyStudy, pairs: tuple[Pair, ...]) -> PageTable:
    """Every strategy beside the one of least CVaR on these days."""
    rows, least = [], _of_least_risk(study, pairs)
    for pair in shown_pairs(study, pairs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            low, high = pair.found.interval(0.95)
        shown = f"{_bare(percent(low, 3))} to {percent(high, 3)}{MARK if pair.found.warnings else ''}"
        verdict = "yes" if pair.differs else "cannot be told"
        rows.append((pair.riskier, percent(pair.found.value, 3), shown, f"{pair.adjusted:.2g}", verdict))
    head = ("Strategy", f"CVaR 95 % above {plain(least, 40)}", "95 % confidence interval", "Adjusted p", "Riskier?")
    return PageTable(head, tuple(rows), frozenset(range(1, 4)))


def shown_pairs(study: AnyStudy, pairs: tuple[Pair, ...]) -> list[Pair]:
    """The pairs that `differences_table` shows, by their difference."""
    least = _of_least_risk(study, pairs) if pairs else ""
    return sorted((pair for pair in pairs if pair.other == least), key=lambda pair: pair.found.value)


def _of_least_risk(study: AnyStudy, pairs: tuple[Pair, ...]) -> str:
    beaten = {pair.riskier for pair in pairs if pair.found.value > 0.0}
    return next((strategy.name for strategy in study.judged if strategy.name not in beaten), pairs[0].other)


def differences_caption(pairs: tuple[Pair, ...]) -> str:
    """How many pairs of strategies can be told apart."""
    return (
        f"{differences_sentence(pairs)} Losses are compared date by date, which leaves out what the strategies share; "
        f"p is adjusted for {_counted(len(pairs))} by Holm's method. The intervals are not adjusted."
    )


def differences_sentence(pairs: tuple[Pair, ...]) -> str:
    """How many pairs can be told apart, in a sentence.

    Parameters
    ----------
    pairs : tuple of Pair
        What `differences` returned.

    Returns
    -------
    str
        The sentence.

    See Also
    --------
    differences
        Pairs of strategies compared in CVaR.

    Examples
    --------
    >>> from certeq.report import differences_sentence
    >>> differences_sentence(())
    'No two strategies can be told apart in CVaR 95 % at the 5 % level.'
    """
    told = sum(pair.differs for pair in pairs)
    what = "No two strategies" if told == 0 else f"{told} of {_counted(len(pairs))} of strategies"
    return f"{what} can be told apart in CVaR 95 % at the 5 % level."


def _counted(pairs: int) -> str:
    return "1 pair" if pairs == 1 else f"{pairs} pairs"


def reliability_table(study: AnyStudy, doubted: tuple[Doubt, ...]) -> PageTable:
    """Why intervals are marked as unreliable: each reason once, with the intervals that it speaks of."""
    rows = tuple(reasons(doubted, [strategy.name for strategy in study.judged]))
    return PageTable(("Interval", "Why it is unreliable"), rows)


def benchmark_table(study: AnyStudy) -> PageTable:
    """How every strategy does against the benchmark."""
    year, found = study.frequency.periods_per_year, study.judged_by_name()
    theirs = found.pop(str(study.against))
    rows = []
    for name, mine in found.items():
        away = mine - theirs
        deviation = float(np.sqrt(year) * away.std(ddof=1)) if len(away) > 1 else np.nan
        spread = float(theirs.var())
        beta = float(np.mean((mine - mine.mean()) * (theirs - theirs.mean()))) / spread if spread else np.nan
        excess = float(year * away.mean())
        rows.append(
            (
                name,
                percent(excess, 2),
                percent(deviation, 2),
                number(excess / deviation) if deviation else "n/a",
                number(beta),
                percent(float(year * (mine.mean() - beta * theirs.mean())), 2),
                percent(float(oce(-away, CVaR(TAIL))), 2),
                percent(float((away < 0.0).mean()), 0),
            )
        )
    head = ("Strategy", "Return above", "Tracking error", "Information ratio", "Beta", "Alpha", "CVaR behind", "Behind")
    return PageTable(head, tuple(rows), frozenset(range(1, len(head))))


def benchmark_caption(study: AnyStudy) -> str:
    """What the columns mean."""
    freq, name = study.frequency, plain(study.against, 40)
    return (
        f"Against {name}, per year but for the last two columns. Tracking error: standard deviation of the difference "
        "in return. Information ratio: return above it over the tracking error. Beta and alpha: slope and intercept of "
        f"the {freq.adjective} returns on those of {name}. CVaR behind: mean shortfall in the worst 5 % of "
        f"{freq.plural}. Behind: share of {freq.plural} with a smaller return."
    )


def limits_table(study: Study) -> PageTable:
    """The limits on risks of the strategy in focus: what binds, and what more of it would have brought.

    A tracking error is shown per year, as the table of the benchmark has it; other risks are those of a period.
    """
    rows = []
    for limit in study.focused.limits:
        year = np.sqrt(study.frequency.periods_per_year) if _is_tracking_error(limit) else 1.0
        # A basis point more a year is less than one a period, and brings less.
        more = gain_in_words(study.focused.goal, limit.multiplier / year, study.frequency) if limit.binds else "nothing"
        binds = "yes" if limit.binds else "no"
        name = plain(_limit_in_words(limit.name, study.against), 120)
        rows.append((name, percent(year * limit.level, 3), percent(year * limit.value, 3), binds, more))
    head = ("Limit", "Level", "At the weights", "Binds", "One basis point more would have brought")
    return PageTable(head, tuple(rows), frozenset({1, 2}))


def _is_tracking_error(limit: HeldLimit) -> bool:
    return limit.name.startswith("max_tracking_error")


def _limit_in_words(name: str, against: str | None) -> str:
    """What a limit is on: its argument is for messages, and its level has a column.

    >>> _limit_in_words("risk_limits[0], CVaR(alpha=0.05) <= 0.02", None)
    'CVaR(alpha=0.05)'
    >>> _limit_in_words("max_tracking_error=0.01", "IDX")
    'Tracking error against IDX, a year'
    """
    benchmark = against or "the benchmark"
    if name.startswith("max_tracking_error"):
        return f"Tracking error against {benchmark}, a year"
    words = re.sub(r"^\w+\[\d+\], ", "", name).rpartition(" <= ")[0]
    return words.replace("what is lost against y", f"what is lost against {benchmark}")


def limits_caption(study: Study) -> str:
    """How the last column is to be read."""
    tracking = any(_is_tracking_error(limit) for limit in study.focused.limits)
    return (
        f"Risks of the {study.frequency.adjective} losses on the data fitted on"
        f"{'; a tracking error is that of a year' if tracking else ''}. The last column is the multiplier of "
        "the limit in words: what a level higher by 0.01 % would have changed, at first, all else being equal. It "
        "says nothing of other data."
    )


def gain_in_words(goal: str, multiplier: float, frequency: Frequency) -> str:
    """What one basis point more of a limit would have brought, in words.

    Parameters
    ----------
    goal : str
        What the objective is: "minimize_risk", "maximize_return", ...
    multiplier : float
        By how much the objective improves for each unit of the level.
    frequency : Frequency
        Frequency of the returns.

    Returns
    -------
    str
        The gain in words.

    See Also
    --------
    HeldLimit
        A limit on a risk, with its value.

    Examples
    --------
    >>> from certeq.data import Frequency
    >>> from certeq.report import gain_in_words
    >>> gain_in_words("maximize_return", 0.05, Frequency(252, "day"))
    '12.6 basis points of return a year'
    """
    if goal == "maximize_return":
        return f"{multiplier * frequency.periods_per_year:.3g} basis points of return a year"
    if goal == "maximize_ratio":
        return f"{1e-4 * multiplier:.3g} more of the ratio"
    if goal == "maximize_utility":
        return f"{multiplier * frequency.periods_per_year:.3g} basis points of utility a year"
    return f"{multiplier:.3g} basis points less of the risk"


def certificate_table(study: Study) -> PageTable:
    """For each minimized OCE: its value, the proven distance to the best possible, and how it fares on other days."""
    what = "OCE" if all(strategy.goal == "minimize_risk" for strategy in study.strategies) else "Objective"
    head = ["Strategy", "Utility", f"{what}, fitted", "Optimality gap", "Steps", "Seconds"]
    if not study.in_sample:
        head.insert(3, "OCE, held out")
    rows = []
    for strategy in study.strategies:
        if strategy.is_benchmark:
            continue
        cells = [
            strategy.name,
            repr(strategy.utility),
            objective_of(strategy),
            _gap(strategy),
            "n/a" if strategy.steps is None else str(strategy.steps),
            f"{strategy.seconds:.2f}",
        ]
        if not study.in_sample:
            cells.insert(3, _held_out(study, strategy))
        rows.append(tuple(cells))
    return PageTable(tuple(head), tuple(rows), frozenset(range(2, len(head))))


def run_table(study: Study) -> PageTable:
    """Versions, parameters and data: enough to run it again."""
    fitted, judged, periods = study.fitted_on, study.judged_on, study.frequency.plural
    rows = [
        ("Data", f"{plain(study.source, 80)}: {fitted.shape[1]} assets"),
        ("Frequency", f"{study.frequency}, {'from the dates' if study.periods_per_year is None else 'as asked for'}"),
        ("Fitted on", f"{len(fitted)} {periods}, {str(fitted.index[0])[:10]} to {str(fitted.index[-1])[:10]}"),
    ]
    if study.in_sample:
        rows.append(("Tested on", f"the same {periods} (nothing was held out)"))
    else:
        rows.append(
            ("Tested on", f"{len(judged)} {periods}, {str(judged.index[0])[:10]} to {str(judged.index[-1])[:10]}")
        )
    return PageTable(("", ""), (*rows, *asked_and_written(study)))


def asked_and_written(study: AnyStudy) -> list[tuple[str, str]]:
    """What was asked for, notes, versions and the time of writing."""
    rows = [(plain(name, 40), plain(value, 500)) for name, value in study.parameters.items()]
    rows += [("Note", plain(note, 300)) for note in study.notes]
    rows.append(("Versions", f"Python {platform.python_version()}, " + ", ".join(_versions())))
    rows.append(("Written", _now().strftime("%Y-%m-%d %H:%M UTC")))
    return rows


def _held_out(study: Study, strategy: Strategy) -> str:
    found = held_out_estimate(study, strategy)
    if found is None:
        return "n/a"
    if not has_intervals(study):
        return percent(found.value, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mark shows that there are any
        low, high = found.interval(0.95)
    doubtful = MARK if found.warnings else ""
    return f"{percent(found.value, 3)}\n{_bare(percent(low, 3))} to {_bare(percent(high, 3))}{doubtful}"


def _gap(strategy: Strategy) -> str:
    if strategy.gap is None:
        return "failed" if strategy.failure else "n/a"
    relative = strategy.relative_gap
    of = "of the OCE" if strategy.goal == "minimize_risk" else "of it"
    return f"{strategy.gap:.1e}" + (f"\n{relative:.0e} {of}" if relative is not None else "")


def objective_of(strategy: Strategy) -> str:
    """What was minimized or maximized, with its name where it is not the risk."""
    if strategy.objective is None:
        return "n/a"
    if strategy.goal == "maximize_ratio":
        return f"ratio {strategy.objective:.6g}"
    word = strategy.goal.removeprefix("maximize_") + " " if strategy.goal.startswith("maximize_") else ""
    return word + percent(strategy.objective, 4)


def _bare(shown: str) -> str:
    return shown.removesuffix(" %")


def _best(values: list[float], more: bool) -> float:
    finite = [value for value in values if np.isfinite(value)]
    return (max(finite) if more else min(finite)) if finite else np.nan


def _versions() -> list[str]:
    found = []
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found


def _now() -> datetime:
    """The time, or the one a reproducible build asks for."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
