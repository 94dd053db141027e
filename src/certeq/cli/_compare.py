"""``certeq compare``: all seven utilities and three benchmarks on one panel, judged on days they never saw."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from certeq.cli._console import (
    FIRST,
    BadData,
    cell,
    check_output,
    explained,
    free_name,
    in_order,
    note,
    print_json,
    print_sentence,
    print_table,
    progress,
    safe_text,
)
from certeq.cli._inputs import load_panel
from certeq.cli._mandate import tell, tell_of_weight
from certeq.cli._options import (
    CHOICES,
    UNITS_HELP,
    AreReturns,
    AsJson,
    AssetColumn,
    Choice,
    Decimal,
    Field,
    Force,
    PeriodsPerYear,
    Prices,
    Sheet,
    UnknownChoice,
    ValueColumn,
    check_value,
    chosen,
    find,
    read_layout,
)
from certeq.cli._portfolio import benchmarks, few, fitted, minimizer, split_rows, steps, swept
from certeq.data import LEAST_ROWS, PriceData
from certeq.risk import ReliabilityWarning

if TYPE_CHECKING:
    from certeq.report import Strategy, Study

NEEDS_FILE = False
EXAMPLES = (
    "certeq compare",
    "certeq compare prices.csv --report comparison.html --force",
    "certeq compare returns.parquet --returns --no-report --json",
    "certeq compare --also evar --also 'wang shift=0.5' --focus evar",
)
AFTER_OPTIONS = UNITS_HELP
DEFAULT_REPORT = Path("certeq-report.html")
Figures = dict[str, dict[str, tuple[float, float, float]]]
Compared = dict[str, tuple[Choice, dict[str, float]]]
_NUMBERS = {10: "Ten", 11: "Eleven", 12: "Twelve"}


def run(
    prices: Prices = None,
    are_returns: AreReturns = False,
    periods_per_year: PeriodsPerYear = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    field: Field = None,
    asset_column: AssetColumn = None,
    value_column: ValueColumn = None,
    max_weight: Annotated[float, typer.Option(help="Largest weight of an asset, for the seven utilities.")] = 1.0,
    test_size: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Fraction of the most recent rows held out for testing.")
    ] = 0.25,
    also: Annotated[
        list[str] | None,
        typer.Option(help="Another risk to compare, as in portfolio: evar, 'wang shift=0.5'; repeatable."),
    ] = None,
    focus: Annotated[
        str,
        typer.Option(help="The utility or risk whose tail, frontier and sensitivity the report shows."),
    ] = "cvar",
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", "-r", help="Report file, .html.", show_default="certeq-report.html, numbered if taken"
        ),
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare the seven utilities, equal weights, hierarchical risk parity and maximum Sharpe on held-out data."""
    others = [chosen(text, None, None, None, None, None, daily=True, option="--also") for text in also or []]
    try:
        wanted = find(focus)
    except UnknownChoice as error:
        raise typer.BadParameter(str(error), param_hint="--focus") from None
    compared = {choice.key: (choice, choice.daily) for choice in CHOICES.values()}
    for choice, given in others:
        key = choice.key if choice.key not in compared else f"{choice.key} {len(compared) + 1}"
        compared[key] = (replace(choice, key=key, title=_titled(choice, compared)), given)
    if wanted.key not in compared:
        compared[wanted.key] = (wanted, wanted.daily)
    if report is not None and no_report:
        raise typer.BadParameter("--report and --no-report exclude each other.")
    check_value("--max-weight", max_weight)
    check_value("--periods-per-year", periods_per_year, above=0.0)
    layout = read_layout(are_returns, decimal, sheet, field, asset_column, value_column)
    began = time.perf_counter()
    with explained(scale=False):
        target = None if no_report else report or (DEFAULT_REPORT if force else free_name(DEFAULT_REPORT))
        check_output(target, (".html", ".htm"), "--report", force=force, read=[("", prices)])
        panel = load_panel(prices, periods_per_year=periods_per_year, **layout)
        for text in panel.notes:
            note(text)
        study, found = _compared(
            panel, test_size, max_weight, compared, wanted.key, target is not None, as_json, periods_per_year
        )
        if target is not None:
            from certeq.report import save

            save(study, target, force=force, found=found)
        from certeq.report import differences, differences_sentence, why_not_compared
        from certeq.report.reliability import doubts, reasons

        pairs = differences(study)
        doubted = doubts(study, pairs, held_out=False)  # of the intervals in the JSON
        where = "" if target is None else " in the report"  # the table of the terminal has no intervals
        for which, reason in reasons(doubted, found):
            said = f"unreliable intervals{where} ({which}): {reason}"
            warnings.warn(said, ReliabilityWarning, stacklevel=1)  # told last
        if as_json:
            print_json(_facts(study, found, pairs, [str(doubt) for doubt in doubted], target))
            return
        print_table(_table(study, found), "with --json" if target is None else "in the report")
        for strategy in study.strategies:
            if strategy.failure:
                note(f"{strategy.name} {strategy.failure}")
        if pairs:
            print_sentence(differences_sentence(pairs))
        elif reason := why_not_compared(study):
            note(reason)
        tail = f"; report written to {safe_text(target)}" if target is not None else ""
        print(f"{time.perf_counter() - began:.1f} s{tail}")


def _compared(
    panel: PriceData,
    test_size: float,
    max_weight: float,
    compared: Compared,
    focus: str,
    sweeps: bool,
    quiet: bool,
    periods_per_year: float | None,
) -> tuple[Study, Figures]:
    from certeq.report import Study, figures

    fit_on, judge_on = split_rows(panel, test_size)
    if len(fit_on) < LEAST_ROWS or len(judge_on) < 2:
        periods = panel.frequency.plural
        raise BadData(
            f"{len(panel.returns)} {periods} are too few to fit on {len(fit_on)} and judge on {len(judge_on)}."
        )
    few_or_long = few(panel, fit_on, judge_on, CHOICES["cvar"].daily["alpha"])
    if panel.frequency.period != "day":
        few_or_long.append(f"the parameters are those for daily returns; these are {panel.frequency.adjective}.")
    for text in few_or_long:
        tell(panel, text)
    tell_of_weight(panel, max_weight)
    assets = fit_on.shape[1]
    if not max_weight * assets >= 1.0 - 1e-12:
        raise BadData(
            f"infeasible bounds: --max-weight {max_weight:g} lets {assets} assets hold {max_weight * assets:g} at "
            f"most; it must be at least {1 / assets:.4g}."
        )
    total = len(compared) + 4 + (steps(*compared[focus]) if sweeps else 0)
    with progress("Fitting", total, quiet=quiet) as tick:
        strategies = _all_fitted(fit_on, max_weight, compared, focus, tick)
        choice, given = _in_focus(focus, compared, strategies)
        path = turned = None
        notes = list(panel.notes)
        if sweeps:
            estimator = minimizer(choice, given, normalized=True, max_weights=max_weight)
            path, turned, more = swept(
                estimator, choice, given, fit_on, normalized=True, tick=lambda: tick("Frontier, sensitivity")
            )
            notes += more
        study = Study(
            f"{_NUMBERS.get(len(strategies), len(strategies))} strategies compared: {panel.source}",
            panel.source, fit_on, judge_on, strategies, choice.title,
            path, turned, _parameters(max_weight, compared), tuple(notes), periods_per_year,
        )  # fmt: skip
        found = figures(study)
        tick()
    return study, found


def _titled(choice: Choice, compared: Compared) -> str:
    """A title that no other has."""
    titles = [other.title for other, _ in compared.values()]
    return choice.title if choice.title not in titles else f"{choice.title} ({len(titles) + 1})"


def _all_fitted(fit_on: Any, max_weight: float, compared: Compared, focus: str, tick: Any) -> tuple[Strategy, ...]:
    strategies: list[Strategy] = []
    for choice, given in compared.values():
        estimator = minimizer(choice, given, normalized=True, max_weights=max_weight)
        strategies.append(_attempt(choice.title, estimator, fit_on, contributions=choice.key == focus))
        tick(choice.title)
    for name, (estimator, reason) in benchmarks(fit_on.shape[1]).items():
        strategies.append(_attempt(name, estimator, fit_on, reason))
        tick(name)
    return tuple(strategies)


def _in_focus(wanted: str, compared: Compared, strategies: tuple[Strategy, ...]) -> tuple[Choice, dict[str, float]]:
    """The utility asked for, or the first that could be fitted."""
    fitted_names = {strategy.name for strategy in strategies if strategy.weights is not None}
    asked = compared[wanted][0]
    if asked.title in fitted_names:
        return compared[wanted]
    for choice, given in compared.values():
        if choice.title in fitted_names:
            note(f"{asked.title} failed; the report looks at {choice.title} instead.")
            return choice, given
    raise BadData(f"no utility could be fitted. {strategies[0].name} {strategies[0].failure}")


def _parameters(max_weight: float, compared: Compared) -> dict[str, str]:
    return {
        "Weights": f"between 0 and {max_weight:g}, summing to 1; benchmarks between 0 and 1",
        "Parameters": "; ".join(f"{choice.key} {_listed(given)}".strip() for choice, given in compared.values()),
        "Utilities": "normalized: a loss of 0 has OCE 0",
    }


def _attempt(
    name: str, estimator: Any, returns: Any, reason: str | None = None, *, contributions: bool = False
) -> Strategy:
    """A strategy, or the reason there is none: one that fails does not take the comparison with it."""
    from certeq.report import Strategy

    if reason is not None:
        return Strategy(name, None, failure=reason)
    try:
        return fitted(name, estimator, returns, contributions=contributions)
    except BadData as error:
        return Strategy(name, None, getattr(estimator, "utility", None), failure=f"failed: {error}")


def _table(study: Study, found: Figures) -> Table:
    from certeq.report import METRICS

    periods, start = study.frequency.plural, str(study.judged_on.index[0])[:10]
    title = f"{study.source}: {len(study.judged_on)} {periods} from {start}, held out ({study.frequency})"
    table = Table(title=cell(title))
    metrics = in_order(METRICS)
    first, rest = metrics[: len(FIRST)], metrics[len(FIRST) :]  # the gap between them stays on narrow terminals too
    table.add_column("Strategy")
    for heading in (*(metric.label for metric in first), "Gap", *(metric.label for metric in rest)):
        table.add_column(heading, justify="right")
    for strategy in study.strategies:
        if strategy.name not in found:
            blank = [cell("n/a")] * len(first), [cell("n/a")] * len(rest)
            table.add_row(cell(strategy.name), *blank[0], cell(""), *blank[1])
            continue
        values = {metric.key: cell(metric.show(found[strategy.name][metric.key][0])) for metric in METRICS}
        gap = cell("" if strategy.gap is None else f"{strategy.gap:.0e}")
        row = [*(values[metric.key] for metric in first), gap, *(values[metric.key] for metric in rest)]
        table.add_row(cell(strategy.name), *row, style="dim" if strategy.is_benchmark else "")
    return table


def _facts(
    study: Study, found: Figures, pairs: tuple[Any, ...], doubted: list[str], target: Path | None
) -> dict[str, Any]:
    from certeq.report import why_not_compared

    rows = []
    for strategy in study.strategies:
        row: dict[str, Any] = {"name": strategy.name, "benchmark": strategy.is_benchmark, "failure": strategy.failure}
        if strategy.weights is not None:
            row |= {
                "utility": None if strategy.utility is None else repr(strategy.utility),
                "objective": strategy.objective,
                "gap": strategy.gap,
                "seconds": round(strategy.seconds, 4),
                "metrics": {key: value for key, (value, _, _) in found[strategy.name].items()},
                "intervals_95": {key: [low, high] for key, (_, low, high) in found[strategy.name].items()},
                "weights": dict(zip(study.assets, map(float, strategy.weights), strict=True)),
            }
        rows.append(row)
    spans = [
        [str(days[0])[:10], str(days[-1])[:10], len(days)] for days in (study.fitted_on.index, study.judged_on.index)
    ]
    return {
        "data": study.source,
        "periods_per_year": study.frequency.periods_per_year,
        "period": study.frequency.period,
        "assets": study.fitted_on.shape[1],
        "cvar_differences": [
            {
                "riskier": pair.riskier,
                "other": pair.other,
                "difference": pair.found.value,
                "stderr": pair.found.stderr,
                "pvalue": _pvalue(pair),
                "adjusted_pvalue": pair.adjusted,
            }
            for pair in pairs
        ],
        "why_not_compared": why_not_compared(study),
        "fitted_on": spans[0],
        "judged_on": spans[1],
        "notes": list(study.notes),
        "warnings": doubted,
        "report": None if target is None else str(target),
        "strategies": rows,
    }


def _pvalue(pair: Any) -> float:
    """Without its warnings, which name no strategies; the list of them does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        return float(pair.found.pvalue)


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())
