"""``certeq portfolio``: the weights of least risk, with a proof of how good they are.

`certeq compare` fits the same strategies, and draws the same paths in its report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from certeq.cli._console import (
    BadData,
    cell,
    check_output,
    explained,
    note,
    percent,
    print_json,
    print_sentence,
    print_table,
    progress,
    safe_text,
    short_percent,
    with_options,
    write_weights,
)
from certeq.cli._inputs import load_panel
from certeq.cli._mandate import (
    Benchmark,
    Costs,
    Groups,
    MaxRisk,
    MaxTrackingError,
    MaxTurnover,
    Objective,
    Previous,
    RefitEvery,
    RiskAversion,
    RiskFreeRate,
    TrainSize,
    benchmark_figures,
    benchmark_sentence,
    bounds_of,
    check_usage,
    holdings_of,
    parameters_of,
    portfolio_title,
    read_objective,
    read_risk_limits,
    strategy_name,
    take_benchmark,
    tell,
    tell_of_levels,
)
from certeq.cli._options import (
    UNITS_HELP,
    Alpha,
    AreReturns,
    AsJson,
    AssetColumn,
    Beta,
    Choice,
    Decimal,
    Field,
    Force,
    Normalized,
    PeriodsPerYear,
    Power,
    Prices,
    Scale,
    Sheet,
    Tau,
    UtilityName,
    ValueColumn,
    check_entries,
    check_value,
    chosen,
    described,
    read_layout,
)
from certeq.cli._walk import EQUAL, walked
from certeq.data import LEAST_ROWS, PriceData

if TYPE_CHECKING:
    import pandas as pd

    from certeq.data import Frequency
    from certeq.report import Strategy, Study, Sweep

NEEDS_FILE = False
EXAMPLES = (
    "certeq portfolio prices.csv --max-weight 0.2 --output weights.csv",
    "certeq portfolio prices.parquet -u entropic --beta 30 --report report.html",
    "certeq portfolio returns.csv --returns --test-size 0.25 --json",
    "certeq portfolio --max-weight AAPL=0.1 --constraint 'KO >= 0.5 * PEP'",
    "certeq portfolio prices.csv --groups sectors.csv --constraint 'tech <= 0.3'",
    "certeq portfolio prices.csv --objective return --max-risk cvar=0.02",
    "certeq portfolio prices.csv --refit-every 63 --costs 0.001 --report r.html",
)
AFTER_OPTIONS = UNITS_HELP
_SHOWN = 25
_FEW_IN_TAIL = 5.0  # rows, as in the warnings of an estimate
_FEW_HELD_OUT = 60  # rows, below which a report gives no intervals
MANY_ASSETS = 2500  # a covariance matrix beyond this takes minutes and gigabytes
# How the library says it, in numbers per period.
_BEST_RETURN = re.compile(r"--min-return \S+ is out of reach: .* expected return of (\S+) at most")
_NO_REWARD = re.compile(r"the reward must be positive somewhere on the feasible set; found (\S+) at most")
# A constraint that would be wrong with any data: its form, a percent sign, a decimal comma.
_MALFORMED = re.compile(r"--constraint: ((?:one of <=|write \d).*)", re.DOTALL)
Tick = Callable[[], None]


def run(
    prices: Prices = None,
    are_returns: AreReturns = False,
    periods_per_year: PeriodsPerYear = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    field: Field = None,
    asset_column: AssetColumn = None,
    value_column: ValueColumn = None,
    utility: UtilityName = "cvar",
    alpha: Alpha = None,
    beta: Beta = None,
    a: Power = None,
    tau: Tau = None,
    scale: Scale = None,
    normalized: Normalized = False,
    min_weight: Annotated[
        list[str] | None,
        typer.Option(help="Least weight: a number for all, or NAME=NUMBER; repeatable. 0 if not given."),
    ] = None,
    max_weight: Annotated[list[str] | None, typer.Option(help="Largest weight, likewise. 1 if not given.")] = None,
    budget: Annotated[float, typer.Option(help="Sum of the weights.")] = 1.0,
    min_return: Annotated[float | None, typer.Option(help="Least mean return a year: 0.1 is 10 %.")] = None,
    constraint: Annotated[
        list[str] | None, typer.Option(help="Linear constraint such as 'AAPL >= 0.5 * MSFT'; repeatable.")
    ] = None,
    objective: Objective = "risk",
    risk_aversion: RiskAversion = None,
    risk_free_rate: RiskFreeRate = None,
    max_risk: MaxRisk = None,
    max_tracking_error: MaxTrackingError = None,
    groups: Groups = None,
    costs: Costs = None,
    max_turnover: MaxTurnover = None,
    previous: Previous = None,
    benchmark: Benchmark = None,
    test_size: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, help="Fraction of the most recent rows held out for testing."),
    ] = 0.0,
    refit_every: RefitEvery = None,
    train_size: TrainSize = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the weights: .csv or .json.")] = None,
    report: Annotated[Path | None, typer.Option("--report", "-r", help="Write a report: .html.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Find the portfolio of least OCE, with a certificate of how far from the best it can be."""
    choice, given = chosen(utility, alpha, beta, a, tau, scale, daily=True)
    layout = read_layout(are_returns, decimal, sheet, field, asset_column, value_column)
    check_usage(max_turnover, previous, refit_every, train_size, test_size)
    check_value("--periods-per-year", periods_per_year, above=0.0)
    check_value("--budget", budget)
    check_value("--min-return", min_return)
    check_value("--risk-aversion", risk_aversion, above=0.0)
    check_value("--risk-free-rate", risk_free_rate)
    check_value("--max-tracking-error", max_tracking_error, least=0.0)
    check_entries("--min-weight", min_weight)
    check_entries("--max-weight", max_weight)
    check_entries("--costs", costs, least=0.0)
    if max_tracking_error is not None and benchmark is None:
        raise typer.BadParameter("--max-tracking-error needs a --benchmark.")
    with explained():
        read: list[tuple[str, str | Path | None]] = [("", prices), ("--previous", previous), ("--benchmark", benchmark)]
        read += [("--groups", entry) for entry in groups or []]
        check_output(output, (".csv", ".json"), "--output", force=force, read=read)
        check_output(report, (".html", ".htm"), "--report", force=force, read=read)
        panel = load_panel(prices, periods_per_year=periods_per_year, **layout)
        for text in panel.notes:
            note(text)
        name = strategy_name(choice.title, objective)
        panel, index = take_benchmark(benchmark, panel, layout, taken=(name, choice.title, EQUAL))
        settings = bounds_of(panel, min_weight, max_weight, budget, min_return, constraint)
        settings |= holdings_of(panel, groups, costs, max_turnover, previous, refit_every, budget)
        year = panel.frequency.periods_per_year
        settings |= read_objective(objective, risk_aversion, risk_free_rate, year)
        if max_risk:
            settings["risk_limits"] = read_risk_limits(max_risk, choice.build(given, normalized=normalized), normalized)
            tell_of_levels(panel, settings)
        if max_tracking_error is not None:
            settings["max_tracking_error"] = max_tracking_error / np.sqrt(year)
        estimator = minimizer(choice, given, normalized=normalized, **settings)
        per_year = {
            "min_return": min_return,
            "max_tracking_error": max_tracking_error,
            "risk_free_rate": (risk_free_rate or 0.0) if objective == "ratio" else None,
        }
        if refit_every is not None:
            asked_for = parameters_of(estimator.utility, settings, panel, refit_every)
            with in_periods(per_year, settings, panel.frequency), in_one_line():
                walk = walked(
                    panel, name, estimator, choice, given, index, asked_for, refit_every, train_size, periods_per_year
                )
            walk.deliver(output, report, force, as_json)
            return
        fit_on, judge_on = _split(panel, test_size)
        asked = {"alpha": alpha, "beta": beta, "a": a, "tau": tau, "scale": scale}
        for text in few(panel, fit_on, judge_on, given.get("alpha")) + not_daily(panel, choice, asked):
            tell(panel, text)
        y = None if index is None or max_tracking_error is None else index.loc[fit_on.index]
        with in_periods(per_year, settings, panel.frequency):
            strategy = fitted(name, estimator, fit_on, benchmark=y)
        title = f"{portfolio_title(name, objective)}: {panel.source}"
        study = _study(title, panel, fit_on, judge_on, strategy, settings, index, periods_per_year)
        if report is not None:
            study = _with_sweeps(study, estimator, choice, given, normalized, as_json, y)
        _deliver(study, choice, given, output, report, force, as_json)


@contextmanager
def in_periods(per_year: dict[str, float | None], settings: dict[str, Any], frequency: Frequency) -> Iterator[None]:
    """Say an error about a number given per year in numbers per year, or what it is per period."""
    try:
        yield
    except (BadData, ValueError) as error:
        year = frequency.periods_per_year
        rate, least = per_year["risk_free_rate"], per_year["min_return"]
        if rate is not None and (short := _NO_REWARD.search(str(error))):
            most = year * float(short[1]) + rate
            raise BadData(
                f"--objective ratio needs a portfolio that returns more than --risk-free-rate, {rate:g} a year; the "
                f"most is {most:.4g} a year.{_as_fraction(rate)}"
            ) from None
        if least is not None and (best := _BEST_RETURN.search(str(error))):
            most = year * float(best[1])
            raise BadData(
                f"--min-return {least:g} a year is out of reach: the other constraints allow {most:.4g} a year at most."
                f"{_as_fraction(least)}"
            ) from None
        for name, asked in per_year.items():
            option = with_options(name)
            if asked is not None and option in str(error):
                each, period = settings[name], frequency.period
                raise BadData(f"{option} {asked:g} a year is {each:g} a {period}, and per {period}: {error}") from None
        raise


def _as_fraction(asked: float) -> str:
    """What a number is if it was meant in per cent, where it may have been."""
    return f" {asked:g} % is {asked / 100.0:g}." if asked >= 1.0 else ""


def split_rows(panel: PriceData, test_size: float) -> tuple[Any, Any]:
    """The rows to fit on, and the last ones, to judge on: the same ones where none is held out."""
    held_out = int(np.ceil(test_size * len(panel.returns)))  # as scikit-learn rounds it
    if held_out == 0:
        return panel.returns, panel.returns
    return panel.returns.iloc[:-held_out], panel.returns.iloc[-held_out:]


def not_daily(panel: PriceData, choice: Choice, asked: dict[str, Any]) -> list[str]:
    """That defaults in the unit of daily returns were taken for returns of longer or shorter periods."""
    unit = {name: value for name, value in choice.daily.items() if name in ("beta", "tau", "scale")}
    if panel.frequency.period == "day" or not unit or any(asked.get(name) for name in unit):
        return []
    defaults = ", ".join(f"--{name} {value:g}" for name, value in unit.items())
    return [
        f"{choice.key} takes {defaults} here, which is meant for daily returns; these are {panel.frequency.adjective}."
    ]


def few(panel: PriceData, fit_on: Any, judge_on: Any, alpha: float | None) -> list[str]:
    """Cautions where there are few rows to fit on, in the tail, or to judge on."""
    notes, periods = [], panel.frequency.plural
    if alpha is not None and alpha * len(fit_on) < _FEW_IN_TAIL:
        notes.append(
            f"the worst {alpha:g} of {len(fit_on)} {periods} are {alpha * len(fit_on):.2g} of them: the weights follow "
            f"a few {periods}. Give more data, or a larger --alpha."
        )
    if judge_on is not fit_on and len(judge_on) < _FEW_HELD_OUT:
        notes.append(
            f"{len(judge_on)} {periods} are held out: figures of so few are mostly luck, and get no intervals. See "
            "--test-size."
        )
    return notes


def _split(panel: PriceData, test_size: float) -> tuple[Any, Any]:
    fit_on, judge_on = split_rows(panel, test_size)
    if test_size > 0.0 and len(fit_on) < LEAST_ROWS:
        left = f"{len(fit_on)} {panel.frequency.plural}"
        raise BadData(f"--test-size {test_size:g} leaves {left} to fit on; at least {LEAST_ROWS} are needed.")
    return fit_on, judge_on


def _study(
    title: str, panel: PriceData, fit_on: Any, judge_on: Any, strategy: Strategy, settings: dict[str, Any],
    index: pd.Series | None, periods_per_year: float | None,
) -> Study:  # fmt: skip
    from certeq.report import Strategy, Study

    equal = fitted(EQUAL, benchmarks(fit_on.shape[1])[EQUAL][0], fit_on)
    compared: tuple[Strategy, ...] = (strategy, equal)
    if index is not None:
        compared = (*compared, Strategy(str(index.name), None, returns=index.loc[judge_on.index].to_numpy(dtype=float)))
    if "transaction_costs" in settings:
        tell(panel, "the weights reckon with the costs; returns and figures are before costs.")
    return Study(
        title,
        panel.source,
        fit_on,
        judge_on,
        compared,
        strategy.name,
        None,
        None,
        parameters_of(strategy.utility, settings, panel),
        tuple(panel.notes),
        periods_per_year,
    )


def _with_sweeps(
    study: Study, estimator: Any, choice: Choice, given: dict[str, float], normalized: bool, quiet: bool,
    y: pd.Series | None,
) -> Study:  # fmt: skip
    with progress("Frontier and sensitivity", steps(choice, given), quiet=quiet) as tick:
        path, turned, more = swept(estimator, choice, given, study.fitted_on, normalized=normalized, tick=tick, y=y)
    for text in more:
        note(text)
    return replace(study, frontier=path, sensitivity=turned, notes=(*study.notes, *more))


def _deliver(
    study: Study,
    choice: Choice,
    given: dict[str, float],
    output: Path | None,
    report: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    from certeq.report import METRICS, figures, gain_in_words, save

    strategy, found = study.focused, figures(study)
    weights = dict(zip(study.assets, map(float, np.asarray(strategy.weights)), strict=True))
    about = {
        "data": study.source,
        "assets": len(weights),
        "periods_per_year": study.frequency.periods_per_year,
        "period": study.frequency.period,
        "fitted_on": [str(study.fitted_on.index[0])[:10], str(study.fitted_on.index[-1])[:10], len(study.fitted_on)],
        "judged_on": f"the same {study.frequency.plural}"
        if study.in_sample
        else [str(day)[:10] for day in study.judged_on.index[[0, -1]]],
        "utility": described(choice, given) | {"expression": repr(strategy.utility)},
        "objective": strategy.objective,
        "gap": strategy.gap,
        "goal": strategy.goal,
        "limits": [
            {"name": one.name, "level": one.level, "value": one.value, "multiplier": one.multiplier}
            for one in strategy.limits
        ],
        "metrics": {key: value for key, (value, _, _) in found[strategy.name].items()},
        "notes": list(study.notes),
    }
    index = benchmark_figures(study, found)
    if index is not None:
        about["benchmark"] = index
    if report is not None:
        save(study, report, force=force, found=found)
        about["report"] = str(report)
    if output is not None:
        write_weights(output, weights, {k: v for k, v in about.items() if k != "report"}, force=force)
        about["output"] = str(output)
    if as_json:
        print_json({**about, "weights": weights})
        return
    print_table(_weights_table(strategy, weights), "" if report is None else "in the report")
    shown = found[strategy.name]
    where, period = "in sample" if study.in_sample else "held out", study.frequency.period
    print_sentence(_sentence(strategy, period))
    for limit in strategy.limits:
        # A limit per year is so much larger than that per period, and one basis point of it so much less.
        annual = limit.name.startswith("max_tracking_error")
        factor = np.sqrt(study.frequency.periods_per_year) if annual else 1.0
        more = gain_in_words(strategy.goal, limit.multiplier / factor, study.frequency)
        says = f"binds: one basis point more would have brought {more}" if limit.binds else "does not bind"
        value, level = (short_percent(factor * each) + " a year" * annual for each in (limit.value, limit.level))
        print_sentence(f"{_limit_name(limit.name)}: {value}, limit {level}, {says}.")
    sharpe = next(metric.show(shown[metric.key][0]) for metric in METRICS if metric.key == "annualized_sharpe_ratio")
    print_sentence(
        f"Return {percent(shown['annualized_mean'][0])} a year, CVaR 95 % {percent(shown['cvar'][0])} a {period}, "
        f"Sharpe {sharpe} ({where}; {study.frequency})."
    )
    if index is not None:
        print_sentence(benchmark_sentence(index, period))
    for what, path in (("weights", output), ("report", report)):
        if path is not None:
            print(f"{what} written to {safe_text(path)}")


def _limit_name(name: str) -> str:
    """A limit as the command calls it, without its level.

    >>> _limit_name("risk_limits[0], CVaR(alpha=0.05) <= 0.02")
    '--max-risk CVaR(alpha=0.05)'
    >>> _limit_name("max_tracking_error=0.01")
    '--max-tracking-error'
    """
    if name.startswith("max_tracking_error"):
        return "--max-tracking-error"
    return with_options(name).rpartition(" <= ")[0].replace("--max-risk, ", "--max-risk ")


def _sentence(strategy: Strategy, period: str) -> str:
    """What was reached, and how far it can be from the best."""
    assert strategy.objective is not None  # it was fitted
    value = f"{100.0 * strategy.objective:.6g} %"
    what = {
        "minimize_risk": f"{strategy.risk_name} {value} a {period}",
        "maximize_return": f"mean return {value} a {period}",
        "maximize_ratio": f"mean return/{strategy.risk_name} {strategy.objective:.8g}",
    }.get(strategy.goal, f"utility {value} a {period}")
    name = "" if what.startswith(f"{strategy.name} ") else f"{strategy.name}: "
    return f"{name}{what} in sample; optimality gap {strategy.gap:.1e}."


def _weights_table(strategy: Strategy, weights: dict[str, float]) -> Table:
    from certeq.report.page import plain

    table = Table(title=f"{strategy.name}: weights")
    table.add_column("Asset")
    table.add_column("Weight", justify="right")
    parts = strategy.contributions
    total = float(parts.sum()) if parts is not None else 0.0
    if total:
        table.add_column("Share of risk", justify="right")
    names, values = list(weights), list(weights.values())
    order = np.argsort(-np.abs(np.array(values)), kind="stable")
    held = [i for i in order if abs(values[i]) > 1e-6]
    for i in held[:_SHOWN]:
        row = [cell(plain(names[i], 40)), cell(percent(values[i]))]
        table.add_row(*row, *([cell(percent(parts[i] / total, 1))] if total and parts is not None else []))
    if len(held) > _SHOWN:
        table.add_row(cell(f"{len(held) - _SHOWN} more"), cell(percent(sum(values[i] for i in held[_SHOWN:]))))
    return table


def minimizer(choice: Choice, given: dict[str, float], *, normalized: bool = False, **settings: Any) -> Any:
    """`certeq.portfolio.MinimumOCE` for a choice and its parameters."""
    try:
        from certeq.portfolio import MinimumOCE
    except ImportError as error:
        raise _named(error) from None
    return MinimumOCE(choice.build(given, normalized=normalized), **settings)


def benchmarks(assets: int) -> dict[str, tuple[Any, str | None]]:
    """Equal weights, hierarchical risk parity and the largest Sharpe ratio: an estimator, or why it is left out."""
    try:
        from skfolio.optimization import EqualWeighted, HierarchicalRiskParity, MeanRisk, ObjectiveFunction
    except ImportError as error:
        raise _named(error) from None
    reason = f"left out: {assets} assets are more than {MANY_ASSETS}" if assets > MANY_ASSETS else None
    return {
        EQUAL: (EqualWeighted(), None),
        "Hierarchical risk parity (HRP)": (HierarchicalRiskParity(), reason),
        "Maximum Sharpe": (MeanRisk(objective_function=ObjectiveFunction.MAXIMIZE_RATIO), reason),
    }


def fitted(
    name: str, estimator: Any, returns: pd.DataFrame, *, contributions: bool = True, benchmark: Any = None
) -> Strategy:
    """Fit, with whatever goes wrong turned into one sentence."""
    from certeq.report import fit_strategy

    with in_one_line():
        return fit_strategy(name, estimator, returns, contributions=contributions, benchmark=benchmark)


@contextmanager
def in_one_line(what: str = "") -> Iterator[None]:
    """Turn what a fit may raise into one sentence, about ``what`` if there is more than the portfolio."""
    about = f"{what}: " if what else ""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        text = with_options(str(error))
        if malformed := _MALFORMED.fullmatch(text):
            raise typer.BadParameter(malformed[1], param_hint="--constraint") from error
        raise BadData(about + text) from error
    except Exception as error:  # skfolio and its solvers have exceptions of their own
        if type(error).__module__.split(".")[0] in {"skfolio", "cvxpy", "certeq", "numpy", "sklearn"}:
            raise BadData(about + with_options(str(error))) from error
        raise


def _named(error: ImportError) -> ImportError:
    return ImportError(f"portfolios need {error.name or 'skfolio'}: pip install 'certeq[portfolio]'", name=error.name)


def steps(choice: Choice, given: dict[str, float]) -> int:
    """How often `swept` ticks."""
    return len(choice.cases(given)) + 1


def swept(
    estimator: Any,
    choice: Choice,
    given: dict[str, float],
    returns: pd.DataFrame,
    *,
    normalized: bool,
    tick: Tick,
    y: pd.Series | None = None,
) -> tuple[Sweep | None, Sweep | None, list[str]]:
    """Frontier, sensitivity to the risk parameter, and notes on what was left out."""
    from certeq.report import frontier, sensitivity

    if returns.shape[1] > MANY_ASSETS:
        return None, None, [f"no frontier or sensitivity: {returns.shape[1]} assets are more than {MANY_ASSETS}."]
    path = turned = None
    notes = []
    if estimator.min_return is None:
        try:
            with in_one_line("frontier"):
                path = frontier(estimator, returns, benchmark=y)
        except BadData as error:
            notes.append(f"no {error}")
    tick()
    if estimator.objective_function == "maximize_return":
        return path, None, [*notes, "no sensitivity: the utility plays no part in the largest return."]
    if not choice.turned:
        return path, None, notes
    built = [(value, choice.build(changed, normalized=normalized)) for value, changed in choice.cases(given)]
    try:
        with in_one_line("sensitivity"):
            turned = sensitivity(
                estimator, returns, built, label=choice.turned, current=given[choice.turned], tick=tick, benchmark=y
            )
    except BadData as error:
        notes.append(f"no {error}")
    return path, turned, notes
