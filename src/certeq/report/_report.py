"""From a study to a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from certeq._files import write_text
from certeq.report._chart import number, percent
from certeq.report._charts_holdings import (
    contributions_chart,
    days_chart,
    days_differ,
    loss_chart,
    shares_differ,
    weights_chart,
)
from certeq.report._charts_paths import frontier_chart, risk_chart, sensitivity_charts, time_charts
from certeq.report._charts_walk import (
    rolling_chart,
    trades_chart,
    walk_run_table,
    weights_over_time,
    yearly_table,
)
from certeq.report._study import DUST, Study, Tail
from certeq.report._tables import (
    Figures,
    Pair,
    benchmark_caption,
    benchmark_table,
    certificate_table,
    differences,
    differences_caption,
    differences_table,
    figures,
    limits_caption,
    limits_table,
    metrics_caption,
    metrics_table,
    reliability_table,
    run_table,
    shown_pairs,
)
from certeq.report._walk import AnyStudy, WalkStudy
from certeq.report.page import Section, figure_section, page, table_section
from certeq.report.reliability import Doubt, doubts, has_intervals, mark


def save(study: AnyStudy, path: str | Path, *, force: bool = False, found: Figures | None = None) -> Path:
    """Render a study, or a walk-forward, and write it atomically; an existing file stays unless ``force``.

    Parameters
    ----------
    study : Study or WalkStudy
        What was run.
    path : str or Path
        The file.
    force : bool
        Whether an existing file may be replaced.
    found : dict, optional
        The `figures` of the study, where they have been computed already.

    Returns
    -------
    Path
        The path.

    See Also
    --------
    render
        The report as an HTML text.
    check_writable
        Refuse a path that cannot be written.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import Study, fit_strategy, save
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2))
    >>> returns = pd.DataFrame(draws, days, ["A", "B"])
    >>> mine = fit_strategy("CVaR", MinimumOCE(ce.CVaR(0.1)), returns[:80])
    >>> study = Study(
    ...     "Two assets", "made up", returns[:80], returns[80:], (mine,), focus="CVaR"
    ... )
    >>> import tempfile, pathlib
    >>> path = save(study, pathlib.Path(tempfile.mkdtemp()) / "report.html")
    >>> path.read_text().startswith("<!doctype html>")
    True
    """
    return write_text(path, render(study, found), force=force)


def render(study: AnyStudy, found: Figures | None = None) -> str:
    """The report as one HTML document.

    Parameters
    ----------
    study : Study or WalkStudy
        What was run.
    found : dict, optional
        The `figures` of the study, where they have been computed already.

    Returns
    -------
    str
        One HTML file, with all it needs inside.

    See Also
    --------
    save
        Write the report to a file.
    Study
        Strategies fitted once and tested on other data.
    WalkStudy
        Strategies that are fitted again and again.

    Examples
    --------
    >>> import numpy as np, pandas as pd, certeq as ce
    >>> from certeq.portfolio import MinimumOCE
    >>> from certeq.report import Study, fit_strategy, render
    >>> days = pd.bdate_range("2024-01-01", periods=120)
    >>> draws = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], (120, 2))
    >>> returns = pd.DataFrame(draws, days, ["A", "B"])
    >>> mine = fit_strategy("CVaR", MinimumOCE(ce.CVaR(0.1)), returns[:80])
    >>> study = Study(
    ...     "Two assets", "made up", returns[:80], returns[80:], (mine,), focus="CVaR"
    ... )
    >>> page = render(study)
    >>> "Two assets" in page, "http://" in page.split("<script")[0]
    (True, False)
    """
    found = figures(study) if found is None else found
    if isinstance(study, WalkStudy):
        return _render_walk(study, found)
    strategy = study.focused
    assert strategy.utility is not None  # the study has checked it
    tail = Tail.of(study.fitted_losses(strategy), strategy.utility)
    pairs = differences(study)
    doubted = _doubted(study, found, pairs)
    charts = [risk_chart(study, found, doubted), *time_charts(study), weights_chart(study), loss_chart(study, tail)]
    if days_differ(tail, strategy.utility):
        charts.append(days_chart(study, tail))
    if shares_differ(study, tail):
        charts.append(contributions_chart(study, tail))
    if study.frontier is not None:
        charts.append(frontier_chart(study, study.frontier, strategy.utility))
    if study.sensitivity is not None:
        charts += sensitivity_charts(study, study.sensitivity)
    risk, wealth, *others = [figure_section(chart) for chart in charts]
    parts = [
        risk,
        wealth,
        table_section("metrics", "Metrics", metrics_caption(study), metrics_table(study, found, doubted)),
        *_against(study),
        *_differences(study, pairs),
        *_reliability(study, doubted),
        *_limits(study),
        *others,
        table_section("certificate", "Optimality certificate", _about_gap(study), certificate_table(study)),
        table_section("run", "What was run", "", run_table(study)),
    ]
    lead = f"{_finding(study, found, pairs, doubted)} {_lead(study)}"
    return page(study.title, lead, _cards(study, found), parts, charts)


def _render_walk(study: WalkStudy, found: Figures) -> str:
    pairs = differences(study)
    doubted = _doubted(study, found, pairs)
    charts = [risk_chart(study, found, doubted), *time_charts(study), rolling_chart(study), weights_over_time(study)]
    charts.append(trades_chart(study))
    risk, wealth, *others = [figure_section(chart) for chart in charts]
    about = "Compounded within the year; drawdowns are measured from the last peak of all years."
    parts = [
        risk,
        wealth,
        table_section("metrics", "Metrics", metrics_caption(study), metrics_table(study, found, doubted)),
        *_against(study),
        *_differences(study, pairs),
        *_reliability(study, doubted),
        table_section("years", f"Years of {study.focus}", about, yearly_table(study)),
        *others,
        table_section("run", "What was run", "", walk_run_table(study)),
    ]
    lead = f"{len(study.focused.starts)} portfolios, held one after the other from {study.dates[0]:%Y-%m-%d} to "
    lead = f"{_finding(study, found, pairs, doubted)} {lead}{study.dates[-1]:%Y-%m-%d}."
    return page(study.title, lead, _walk_cards(study, found), parts, charts)


def _finding(study: AnyStudy, found: Figures, pairs: tuple[Pair, ...], doubted: tuple[Doubt, ...] = ()) -> str:
    """The result in a sentence: the risk of the strategy in focus beside that of what it is compared with."""
    value, low, high = found[study.focus]["cvar"]
    where = "In sample" if isinstance(study, Study) and study.in_sample else "Held out"
    text = f"{where}, the strategy {study.focus} has a CVaR 95 % of {percent(value, 2)} a {study.frequency.period}"
    if np.isfinite([low, high]).all():
        doubtful = ", unreliable" if mark(doubted, study.focus, "CVaR 95 %") else ""
        text += f" (95 % confidence interval {percent(low, 2)} to {percent(high, 2)}{doubtful})"
    other = _compared_with(study, found)
    if other is None:
        return f"{text}."
    its = found[other]["cvar"][0]
    if its <= 0.0:
        return f"{text}; {other} {percent(its, 2)}."
    apart = abs(value / its - 1.0)
    text += (
        f", as much as {other}"
        if apart < 0.005
        else f", {percent(apart, 0)} {'below' if value <= its else 'above'} {other} ({percent(its, 2)})"
    )
    # Whether two intervals overlap says little: both strategies saw the same dates, so they are compared on these.
    pair = next((pair for pair in pairs if {pair.riskier, pair.other} == {study.focus, other}), None)
    if pair is None and where == "In sample":
        plural = study.frequency.plural
        return f"{text}; the weights were chosen on these {plural}, so that no test can judge the difference."
    if pair is None or not np.isfinite(pair.adjusted):
        return f"{text}."
    said = "the difference is significant" if pair.adjusted < 0.05 else "the difference may be chance"
    many = f", adjusted for {len(pairs)} pairs" if len(pairs) > 1 else ""
    period = study.frequency.period
    doubtful = ", unreliable" if pair.found.warnings else ""
    return f"{text}; compared {period} by {period}, {said} (p = {pair.adjusted:.2g}{many}{doubtful})."


def _compared_with(study: AnyStudy, found: Figures) -> str | None:
    """The benchmark that was named; else equal weights; else the next best."""
    others = [name for name in found if name != study.focus]
    for name in (study.against, "Equal weights"):
        if name in others:
            return name
    return min(others, key=lambda name: found[name]["cvar"][0], default=None)


def _walk_cards(study: WalkStudy, found: Figures) -> list[tuple[str, str]]:
    walk, mine = study.focused, found[study.focus]
    year = study.frequency.periods_per_year / len(study.dates)
    cards = [
        ("Strategy", study.focus),
        ("CVaR 95 %, held out", percent(mine["cvar"][0], 2)),
        ("Return a year, held out", percent(mine["annualized_mean"][0])),
        ("Sharpe, held out", number(mine["annualized_sharpe_ratio"][0])),
        ("Turnover a year", percent(year * float(np.nansum(walk.turnover)), 0)),
        ("Costs a year", percent(year * float(walk.costs.sum()), 2)),
    ]
    if walk.gaps is not None:
        cards.append(("Optimality gap, every fit", f"{walk.gaps.max():.1e}"))
    return cards


def _limits(study: Study) -> list[Section]:
    if not study.focused.limits:
        return []
    return [table_section("limits", "Limits", limits_caption(study), limits_table(study))]


def _against(study: AnyStudy) -> list[Section]:
    if study.against is None:
        return []
    return [table_section("benchmark", "Against the benchmark", benchmark_caption(study), benchmark_table(study))]


def _doubted(study: AnyStudy, found: Figures, pairs: tuple[Pair, ...]) -> tuple[Doubt, ...]:
    """Why intervals of the page are unreliable: of differences only those that its table or first sentence shows."""
    shown, told = shown_pairs(study, pairs), {study.focus, _compared_with(study, found)}
    return doubts(study, [pair for pair in pairs if pair in shown or {pair.riskier, pair.other} == told])


def _reliability(study: AnyStudy, doubted: tuple[Doubt, ...]) -> list[Section]:
    if not doubted:
        return []
    about = "The intervals that are marked as unreliable on this page, by figure and strategy."
    return [table_section("reliability", "Unreliable intervals", about, reliability_table(study, doubted))]


def _differences(study: AnyStudy, pairs: tuple[Pair, ...]) -> list[Section]:
    if not pairs:
        return []
    title = "Which strategies differ"
    return [
        table_section("differences", title, differences_caption(pairs), differences_table(study, pairs), linked=False)
    ]


def _lead(study: Study) -> str:
    fitted, judged = study.fitted_on.index, study.judged_on.index
    text = f"{study.fitted_on.shape[1]} assets, fitted on {str(fitted[0])[:10]} to {str(fitted[-1])[:10]}"
    if study.in_sample:
        return f"{text}. Nothing was held out: every figure below is in sample and flatters the fit."
    return f"{text}, tested on {str(judged[0])[:10]} to {str(judged[-1])[:10]}, which the fit never saw."


def _cards(study: Study, found: Figures) -> list[tuple[str, str]]:
    strategy, mine = study.focused, found[study.focus]
    where = "in sample" if study.in_sample else "held out"
    held = int((np.abs(np.asarray(strategy.weights)) > DUST).sum())
    return [
        ("Strategy", study.focus),
        (f"CVaR 95 %, {where}", percent(mine["cvar"][0], 2)),
        (f"CDaR 95 %, {where}", percent(mine["cdar"][0])),
        (f"Return a year, {where}", percent(mine["annualized_mean"][0])),
        (f"Sharpe, {where}", number(mine["annualized_sharpe_ratio"][0])),
        ("Optimality gap of the fit", "n/a" if strategy.gap is None else f"{strategy.gap:.1e}"),
        ("Assets held", f"{held} of {study.fitted_on.shape[1]}"),
    ]


def _about_gap(study: Study) -> str:
    better = "smaller the OCE" if study.focused.goal == "minimize_risk" else "better the objective"
    text = (
        f"The optimality gap bounds how much {better} of any other allowed portfolio could be on the data fitted on. "
        "It is computed from the gradient at the weights themselves, so it holds whatever the solver did. It says "
        f"nothing about other {study.frequency.plural}"
    )
    if study.in_sample:
        return text + "."
    if not has_intervals(study):
        return text + ": for those see the held-out OCE."
    return text + (
        ": for those see the held-out OCE, with its 95 % confidence interval, which allows for clusters of volatility."
    )
