"""What `certeq portfolio` is told beside prices and a utility: groups, costs, what is held, a benchmark."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from certeq._checks import did_you_mean
from certeq.cli._console import BadData, note, percent
from certeq.cli._options import UnknownChoice, bad_usage, check_bounds, once, read_bounds, settle
from certeq.cli._options import parse as parse_risk
from certeq.data import PriceData, read_prices
from certeq.data.tables import (
    Written,
    check_file,
    check_width,
    decimal_of_file,
    encoding_of,
    listed,
    parse,
    separator_of,
)
from certeq.utilities import Risk

if TYPE_CHECKING:
    import pandas as pd

    from certeq.report import Study, WalkStudy

_GOALS = ("risk", "utility", "return", "ratio")
_FAR = 5.0  # times the budget: weights of which no sum of sizes is this large are fractions
_MANY = 12  # names that are looked at for what may have been meant
_GAP = 10  # dates in a row without a price of the benchmark, which may be holidays or a halt
_GAPS = 0.25  # of the dates: a benchmark that misses more is of another frequency
_DEAR = 0.2  # of a trade: costs from here on are likely per cent
Groups = Annotated[
    list[str] | None,
    typer.Option(
        help="Groups for --constraint: NAME=GROUP, or a CSV file with assets first and a column per kind of group; "
        "repeatable."
    ),
]
Costs = Annotated[
    list[str] | None,
    typer.Option(
        help="Cost of a trade as a share of its size (0.001 is 0.1 %): a number for all, or NAME=NUMBER; repeatable. "
        "Spread over the rows that a portfolio is held, those of --refit-every, or else of a year."
    ),
]
MaxTurnover = Annotated[
    float | None,
    typer.Option(min=0.0, help="Largest change of each weight from what is held (--previous, --refit-every)."),
]
Previous = Annotated[
    Path | None, typer.Option(help="Weights held now: .csv or .json as --output writes them; nothing if left out.")
]
Benchmark = Annotated[
    str | None,
    typer.Option(help="Compare with this: a column, which is then no asset, or a file with one column of prices."),
]
Objective = Annotated[
    str,
    typer.Option(
        help="risk for the least risk; return, ratio (of return to risk) or utility for the largest of these."
    ),
]
RiskAversion = Annotated[
    float | None, typer.Option(help="How much the risk counts against the mean, for --objective utility.")
]
RiskFreeRate = Annotated[
    float | None, typer.Option(help="Return a year without risk, for --objective ratio: 0.02 is 2 %.")
]
MaxRisk = Annotated[
    list[str] | None,
    typer.Option(
        help="Limit on a risk of one row's loss (0.02 is 2 %): a number, for --utility; NAME=NUMBER such as evar=0.04 "
        "or cvar:0.01=0.05, with its parameter; or 'hmcr p=3 <= 0.05', written as for --utility; repeatable."
    ),
]
MaxTrackingError = Annotated[
    float | None,
    typer.Option(help="Largest tracking error a year against --benchmark: 0.04 is 4 %."),
]
RefitEvery = Annotated[
    int | None,
    typer.Option(min=1, help="Walk forward: fit on --train-size rows, hold for so many, move on. --test-size is void."),
]
TrainSize = Annotated[int | None, typer.Option(min=2, help="Rows to fit on.", show_default="two years of them")]


OBJECTIVES = {name: f"{'minimize' if name == 'risk' else 'maximize'}_{name}" for name in _GOALS}


def read_objective(name: str, risk_aversion: float | None, risk_free_rate: float | None, year: float) -> dict[str, Any]:
    """The objective, and the number that belongs to it, as `MinimumOCE` takes them."""
    settings: dict[str, Any] = {}
    if name not in OBJECTIVES:
        hint = did_you_mean(name, OBJECTIVES)
        raise typer.BadParameter(
            f"must be one of {', '.join(OBJECTIVES)}; found {name!r}.{hint}", param_hint="--objective"
        )
    if name != "risk":
        settings["objective_function"] = OBJECTIVES[name]
    for option, value, owner in (
        ("--risk-aversion", risk_aversion, "utility"),
        ("--risk-free-rate", risk_free_rate, "ratio"),
    ):
        if value is not None and name != owner:
            raise typer.BadParameter(f"belongs to --objective {owner}; found --objective {name}.", param_hint=option)
    if risk_aversion is not None:
        settings["risk_aversion"] = risk_aversion
    if risk_free_rate is not None:
        settings["risk_free_rate"] = risk_free_rate / year
    return settings


def strategy_name(title: str, objective: str) -> str:
    """What a portfolio is called by: the risk that is least, or the goal.

    >>> [strategy_name("CVaR", objective) for objective in OBJECTIVES]
    ['CVaR', 'Largest utility, CVaR', 'Largest return', 'Largest return/CVaR']
    """
    names = {"return": "Largest return", "ratio": f"Largest return/{title}", "utility": f"Largest utility, {title}"}
    return names.get(objective, title)


def portfolio_title(name: str, objective: str) -> str:
    """What heads a report on a strategy of this name.

    >>> portfolio_title("CVaR", "risk"), portfolio_title("Largest return", "return")
    ('CVaR portfolio', 'Portfolio of largest return')
    """
    return f"{name} portfolio" if objective == "risk" else f"Portfolio of {name[0].lower()}{name[1:]}"


def read_risk_limits(entries: Iterable[str], chosen: Risk, normalized: bool) -> list[tuple[Risk, float]]:
    """Risks with their levels, from 0.02, cvar=0.02, cvar:0.01=0.05 and 'cvar alpha=0.01 <= 0.05'."""
    limits: list[tuple[Risk, float]] = []
    for entry in entries:
        text, equals, number = entry.rpartition("<=" if "<=" in entry else "=")
        try:
            level = float(number)
        except ValueError:
            level = np.nan
        if np.isnan(level):
            raise typer.BadParameter(f"must be a number, or NAME=NUMBER; found {entry!r}.", param_hint="--max-risk")
        limits.append((_named_risk(text, normalized) if equals else chosen, level))
    with bad_usage("--max-risk"):
        once((repr(risk), level) for risk, level in limits)
    return limits


def _named_risk(text: str, normalized: bool) -> Risk:
    """A risk as --utility names it, or by its name and its parameter: cvar, evar:0.01, entropic:30."""
    name, colon, number = text.partition(":")
    with bad_usage("--max-risk"):
        choice, given = parse_risk(name)
        if colon and (not choice.turned or given):
            raise UnknownChoice(f"{name.strip()!r} takes no parameter after a colon; found {number!r}.")
        if colon:
            given[choice.turned] = float(number)
        return choice.build(settle(choice, given, daily=True), normalized=normalized)


def read_groups(entries: Iterable[str], panel: PriceData) -> dict[str, list[str]]:
    """Groups by asset, from NAME=GROUP and from files."""
    assets = [str(name) for name in panel.returns.columns]
    found: dict[str, list[str]] = {}
    for entry in entries:
        path = Path(entry)
        is_file = path.is_file() or "=" not in entry
        if is_file:
            rows = _rows(path, "--groups", assets)[1:]
        else:
            name, _, group = entry.rpartition("=")
            rows = [[name, group]]
        unknown = []
        for row in rows:
            name, groups = row[0].strip(), [cell.strip() for cell in row[1:] if cell.strip()]
            if name not in assets:
                if is_file:  # a file may know more assets than there are
                    unknown.append(name)
                    continue
                raise BadData(f"--groups: there is no asset {name!r}.{did_you_mean(name, assets)}")
            found.setdefault(name, []).extend(groups)
        if unknown:
            named = [row[0].strip() for row in rows]
            tell(panel, f"--groups {entry}: {_no_assets(unknown)} passed over.{_hints(unknown, assets, named)}")
    if not found:
        raise BadData("--groups: none of the assets is in a group.")
    return found


def read_previous(path: Path, panel: PriceData, budget: float) -> dict[str, float]:
    """Weights by asset, as `write_weights` writes them; assets that have gone are sold, and named in a note."""
    assets = [str(name) for name in panel.returns.columns]
    weights = _weights_of_json(path) if path.suffix.lower() == ".json" else _weights_of_csv(path, panel, assets)
    for name, weight in weights.items():
        if not np.isfinite(weight):
            raise BadData(f"--previous: {path} must hold finite weights; found {weight} for {name!r}.")
    total = sum(map(abs, weights.values()))
    if total > _FAR * max(1.0, abs(budget)):
        raise BadData(
            f"--previous: {path}: weights are fractions; found a sum of {total:g}: are these per cent, shares or "
            "prices?"
        )
    gone = [name for name, weight in weights.items() if weight and name not in assets]
    if gone:
        tell(panel, f"--previous {path}: {_no_assets(gone)} sold.{_hints(gone, assets, weights)}")
    return weights


def _weights_of_json(path: Path) -> dict[str, float]:
    check_file(path)
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(pairs)

    try:
        weights = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once).get("weights")
        found = {str(name): float(weight) for name, weight in weights.items()}
    except (ValueError, AttributeError, TypeError):
        raise BadData(f"--previous: {path} must hold an object of weights under 'weights'.") from None
    if twice:
        raise BadData(f"--previous: {path}: {twice[0]!r} occurs twice; each asset has one weight.")
    return found


def _weights_of_csv(path: Path, panel: PriceData, assets: list[str]) -> dict[str, float]:
    import pandas as pd

    head, *rows = _rows(path, "--previous", assets)
    names = [name.strip() for name in head]
    if len(names) < 2:
        raise BadData(f"--previous: {path} must have two columns, asset and weight; found {listed(names)} alone.")
    at = 1
    if len(names) > 2:
        called = [i for i, name in enumerate(names) if name.casefold() in ("weight", "weights")]
        if len(called) != 1:
            raise BadData(
                f"--previous: {path} must have two columns, asset and weight, or one that is called weight; found "
                f"{listed(names)}."
            )
        at = called[0]
    cells = pd.Series([row[at] if at < len(row) else "" for row in rows], dtype=object)
    try:
        check_width([head, *rows], path)
        written = Written(decimal_of_file([cells], path))
    except BadData as error:
        raise BadData(f"--previous: {str(error).partition(': pass --decimal')[0]}.".replace("..", ".")) from None
    values, wrong = parse(cells, written.decimal, written, names[at])
    weights: dict[str, float] = {}
    for number, (row, value) in enumerate(zip(rows, values.tolist(), strict=True), 1):
        name = row[0].removeprefix("'")
        name = name if name in assets else name.strip()
        where = f"--previous: {path}: row {number} of the data, {name!r},"
        if wrong[number - 1]:
            raise BadData(f"{where} must have a number for a weight; found {cells[number - 1]!r}.")
        if np.isnan(value):
            raise BadData(f"{where} has no weight; write 0 for an asset that is not held.")
        if name in weights:
            raise BadData(f"{where} occurs twice; each asset has one weight.")
        weights[name] = value
    for text in written.notes(asked=True):
        tell(panel, f"--previous {path}: {text}")
    return weights


def _no_assets(names: list[str]) -> str:
    """The beginning of a sentence on names that are no assets."""
    what, verb = ("is no asset", "is") if len(names) == 1 else ("are no assets", "are")
    return f"{listed(names)} {what} of the data, and {verb}"


def _hints(unknown: list[str], assets: list[str], named: Iterable[str]) -> str:
    """For names that are no assets, those near them that are, and are not named themselves."""
    left = [asset for asset in assets if asset not in set(named)]
    near = {name: did_you_mean(name, left, cutoff=0.7) for name in unknown[:_MANY]}
    return "".join(f"{hint[:-1]} for {name!r}?" for name, hint in list(near.items())[:_MANY] if hint)


def tell(panel: PriceData, text: str) -> None:
    """A note on standard error, in JSON and in the report."""
    note(text)
    panel.notes.append(text)


def _rows(path: Path, option: str, assets: list[str]) -> list[list[str]]:
    """The cells of a small CSV file that are not empty lines; the first row holds headings, and no asset."""
    try:
        check_file(path)
        separator = separator_of(path)
        with path.open(newline="", encoding=encoding_of(path)) as stream:
            rows = [row for row in csv.reader(stream, delimiter=separator) if any(cell.strip() for cell in row)]
    except (BadData, csv.Error) as error:
        raise BadData(f"{option}: {error}") from None
    except UnicodeDecodeError:
        raise BadData(f"{option}: {path}: not UTF-8 text. Save it as UTF-8.") from None
    first = rows[0][0].strip() if rows else ""
    if first.casefold() in {asset.casefold() for asset in assets}:
        raise BadData(
            f"{option}: {path}: the first row holds the asset {first!r}, where headings belong. Add a row of headings."
        )
    if len(rows) < 2:
        raise BadData(f"{option}: {path} must have a row of headings and at least one more.")
    return rows


def take_benchmark(
    wanted: str | None, panel: PriceData, layout: dict[str, Any], taken: Iterable[str] = ()
) -> tuple[PriceData, pd.Series | None]:
    """The panel without the benchmark's column, and the benchmark's returns on its dates.

    A benchmark with a name that is taken by a strategy is called "... (benchmark)".
    """
    if wanted is None:
        return panel, None
    panel, series = _benchmark(wanted, panel, layout)
    name = str(series.name)
    return panel, series.rename(f"{name} (benchmark)") if name in taken else series


def _benchmark(wanted: str, panel: PriceData, layout: dict[str, Any]) -> tuple[PriceData, pd.Series]:
    returns = panel.returns
    if wanted in returns.columns:
        if returns.shape[1] < 3:
            raise BadData(f"--benchmark {wanted}: fewer than two assets are left.")
        return replace(panel, returns=returns.drop(columns=[wanted])), returns[wanted]
    path = Path(wanted)
    if not path.exists():
        hint = did_you_mean(wanted, [str(name) for name in returns.columns])
        raise BadData(f"--benchmark {wanted}: there is no such column or file.{hint}")
    year = panel.frequency.periods_per_year
    found = read_prices(path, periods_per_year=year, returns=layout["returns"], decimal=layout["decimal"])
    table = found.returns if found.prices is None else found.prices
    if table.shape[1] != 1:
        raise BadData(f"--benchmark {wanted}: must have one column of prices beside the dates; found {table.shape[1]}.")
    series = table.iloc[:, 0]
    gaps, advice = 0, "Give a return for each of them, or prices, whose gaps can be filled."
    if found.prices is not None:  # from one date of the panel to the next, whatever other dates the file has
        before = [] if panel.prices is None else [date for date in panel.prices.index if date < returns.index[0]][-1:]
        before = before or list(series.index[series.index < returns.index[0]][-1:])
        known, dates = series.dropna(), [*before, *returns.index]
        gaps = int((~returns.index.isin(known.index)).sum())
        most = _GAP if gaps <= _GAPS * len(returns) else 0
        # As gaps of the panel: the last price before, also one from a date that the panel does not have.
        filled = known.reindex(known.index.union(dates)).ffill(limit=most) if most else known
        series = filled.reindex(dates).pct_change(fill_method=None).iloc[len(before) :]
        advice = (
            f"Give a price for each of them; gaps of up to {_GAP} dates are filled with the last price, if no more "
            f"than {_GAPS:.0%} of the dates have none."
        )
    series = series.reindex(returns.index).rename(path.stem)
    missing = series.index[~np.isfinite(series.to_numpy(dtype=float))]
    if len(missing):
        raise BadData(
            f"--benchmark {wanted}: has no return on {len(missing)} of the {len(returns)} dates, the first of "
            f"{str(missing[0])[:10]}. {advice}"
        )
    if gaps:
        tell(
            panel,
            f"--benchmark {wanted}: {gaps} missing price(s) ({gaps / len(returns):.2%}) filled with the last price "
            "before: returns of 0 on those dates.",
        )
    return panel, series


# -- as `MinimumOCE` takes them, and as a report shows them -----------------------------------------------------------


def benchmark_figures(
    study: Study | WalkStudy, found: dict[str, dict[str, tuple[float, float, float]]]
) -> dict[str, Any] | None:
    """The benchmark's figures on the same rows, and how far the portfolio is from it; None without one."""
    if study.against is None:
        return None
    returns, values = study.judged_by_name(), found[study.against]
    away = returns[study.focus] - returns[study.against]
    return {
        "name": study.against,
        "return": values["annualized_mean"][0],
        "cvar": values["cvar"][0],
        "tracking_error": float(np.sqrt(study.frequency.periods_per_year) * away.std(ddof=1)),
    }


def benchmark_sentence(index: dict[str, Any], period: str) -> str:
    """What `benchmark_figures` found, in words."""
    return (
        f"Against {index['name']}: it returned {percent(index['return'])} a year, with a CVaR 95 % of "
        f"{percent(index['cvar'])} a {period}; tracking error {percent(index['tracking_error'])} a year."
    )


def check_usage(
    max_turnover: float | None, previous: Path | None, refit_every: int | None, train_size: int | None, test_size: float
) -> None:
    """Refuse options that need or exclude each other."""
    if max_turnover is not None and previous is None and refit_every is None:
        raise typer.BadParameter("--max-turnover needs what is held: --previous weights.csv, or --refit-every.")
    if train_size is not None and refit_every is None:
        raise typer.BadParameter("--train-size belongs to --refit-every.")
    if refit_every is not None and test_size:
        raise typer.BadParameter("--refit-every judges all rows after the first --train-size; leave out --test-size.")


def bounds_of(
    panel: PriceData,
    low: list[str] | None,
    high: list[str] | None,
    budget: float,
    least: float | None,
    linear: list[str] | None,
) -> dict[str, Any]:
    """Bounds, budget, least return and linear constraints."""
    assets = [str(name) for name in panel.returns.columns]
    lows = read_bounds("--min-weight", low or [], 0.0, assets)
    highs = read_bounds("--max-weight", high or [], 1.0, assets)
    check_bounds(lows, highs, budget, assets)
    reach = budget - lows.sum() + lows.max()
    if high and lows.min() >= 0.0:
        tell_of_weight(panel, float(highs.max()), float(reach))
    settings: dict[str, Any] = {"min_weights": lows, "max_weights": highs, "budget": budget}
    if least is not None:
        settings["min_return"] = least / panel.frequency.periods_per_year
    if linear:
        settings["linear_constraints"] = linear
    return settings


def tell_of_weight(panel: PriceData, highest: float, reach: float = 1.0) -> None:
    """Note a largest weight that is beyond what any weight can be."""
    if highest > max(1.0, reach):
        tell(
            panel,
            f"--max-weight {highest:g} limits nothing: no weight can exceed {reach:g}. Weights are fractions; "
            f"{highest:g} % is {highest / 100.0:g}.",
        )


def tell_of_levels(panel: PriceData, settings: dict[str, Any]) -> None:
    """Note limits on risks that no portfolio without short positions can reach: it loses at most what it holds."""
    if settings["min_weights"].min() < 0.0:
        return
    for risk, level in settings.get("risk_limits", []):
        if risk.is_coherent and level > max(1.0, settings["budget"]):
            tell(
                panel,
                f"--max-risk {level:g} limits nothing: no loss exceeds 1, which is 100 %. Levels are fractions; "
                f"{level:g} % is {level / 100.0:g}.",
            )


def holdings_of(
    panel: PriceData,
    groups: list[str] | None,
    costs: list[str] | None,
    max_turnover: float | None,
    previous: Path | None,
    refit_every: int | None,
    budget: float,
) -> dict[str, Any]:
    """Groups, costs of a period, and what is held."""
    assets = [str(name) for name in panel.returns.columns]
    settings: dict[str, Any] = {}
    if groups:
        settings["groups"] = read_groups(groups, panel)
    if costs:
        rows = refit_every or panel.frequency.periods_per_year
        paid = read_bounds("--costs", costs, 0.0, assets)
        if paid.max() >= _DEAR:
            most = paid.max()
            tell(panel, f"--costs {most:g} is {100.0 * most:g} % of a trade. Costs are fractions: 0.001 is 0.1 %.")
        settings["transaction_costs"] = paid / rows
    if previous is not None:
        held = read_previous(previous, panel, budget)
        settings["previous_weights"] = held
        if costs:  # by name, so that what has gone can be sold at its cost
            rates = dict(zip(assets, settings["transaction_costs"].tolist(), strict=True))
            settings["transaction_costs"] = {**dict.fromkeys(held, float(np.median(list(rates.values())))), **rates}
    if max_turnover is not None:
        settings["max_turnover"] = max_turnover
    return settings


def parameters_of(
    estimator_risk: Any, settings: dict[str, Any], panel: PriceData, refit_every: int | None = None
) -> dict[str, str]:
    """What was asked for, as a report shows it."""
    low, high = settings["min_weights"], settings["max_weights"]
    parameters = {
        "Utility": repr(estimator_risk),
        "Weights": f"between {low.min():g} and {high.max():g}, summing to {settings['budget']:g}",
    }
    if "min_return" in settings:
        parameters["Least mean return a year"] = f"{panel.frequency.periods_per_year * settings['min_return']:g}"
    if "linear_constraints" in settings:
        parameters["Constraints"] = "; ".join(settings["linear_constraints"])
    if "transaction_costs" in settings:
        rates = settings["transaction_costs"]
        each = np.array(list(rates.values())) if isinstance(rates, dict) else rates
        rows = refit_every or panel.frequency.periods_per_year
        span = dict.fromkeys(f"{100.0 * rows * rate:.4g} %" for rate in (each.min(), each.max()))
        parameters["Costs of a trade"] = (
            f"{' to '.join(span)} of its size, spread over {rows:g} {panel.frequency.plural}"
        )
    if "objective_function" in settings:
        parameters["Objective"] = str(settings["objective_function"]).replace("_", " ")
    for risk, level in settings.get("risk_limits", []):
        parameters[f"Limit on {risk!r}"] = f"{level:g}"
    if "max_tracking_error" in settings:
        annual = np.sqrt(panel.frequency.periods_per_year) * settings["max_tracking_error"]
        parameters["Largest tracking error a year"] = f"{annual:g}"
    if "max_turnover" in settings:
        parameters["Largest change of a weight"] = f"{settings['max_turnover']:g}"
    return parameters
