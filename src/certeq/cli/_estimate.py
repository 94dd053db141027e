"""``certeq estimate``: OCE of a column of losses, with a confidence interval."""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from certeq.cli._console import cell, explained, note, print_json, print_table, warn
from certeq.cli._inputs import blame, dask_at, is_many, lazy_column
from certeq.cli._options import (
    Alpha,
    AsJson,
    Beta,
    Decimal,
    Normalized,
    Power,
    Scale,
    Sheet,
    Tau,
    UtilityName,
    check_decimal,
    chosen,
    described,
)
from certeq.data import BadData, read_losses
from certeq.utilities import CVaR, EVaR

if TYPE_CHECKING:
    from certeq.risk import Estimate

AFTER_OPTIONS = ""
NEEDS_FILE = True
EXAMPLES = (
    "certeq estimate losses.csv --column loss",
    "certeq estimate pnl.parquet -c pnl --gains --alpha 0.01 --level 0.99",
    "certeq estimate losses.csv --utility entropic --beta 2 --json",
    "certeq estimate losses.csv --utility 'wang shift=0.5'",
    "certeq estimate 'folder/*.parquet' --column loss --cluster tcp://host:8786",
)
# Names of columns that may hold gains. Letters may not continue the word, so "returned" and "again" do not match; a
# capital letter starts a word in "dailyReturn" and "PnLDaily".
_GAINS = re.compile(
    r"((?<![^\W\d_])|(?-i:(?<=[a-z])(?=[A-Z])))"
    r"(p ?[&n/] ?l|profits?|returns?|rets?|gains?|earnings|income|payoffs?)"
    r"((?![^\W\d_])|(?-i:(?<=[a-z])(?=[A-Z])|(?=[A-Z][a-z])))",
    re.IGNORECASE,
)


def run(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV, Parquet or Excel with a column of losses; a folder, or a pattern in quotes, for many files.",
            show_default=False,
        ),
    ],
    column: Annotated[
        str | None, typer.Option("--column", "-c", help="Column name (required if there are several).")
    ] = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    gains: Annotated[bool, typer.Option("--gains", help="The column holds gains or returns: negate them.")] = False,
    are_losses: Annotated[
        bool, typer.Option("--losses", help="The column holds losses, although its name says gains or returns.")
    ] = False,
    utility: UtilityName = "cvar",
    alpha: Alpha = None,
    beta: Beta = None,
    a: Power = None,
    tau: Tau = None,
    scale: Scale = None,
    normalized: Normalized = False,
    level: Annotated[float, typer.Option(help="Coverage of the confidence interval.")] = 0.95,
    dependence: Annotated[
        str,
        typer.Option(help='"auto" for losses in the order of time, "none" if independent, or k overlapping periods.'),
    ] = "auto",
    cluster: Annotated[
        str | None, typer.Option(help="A Dask scheduler, tcp://host:port, to run on.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate the OCE of a column of losses: value, threshold t*, interval.

    Losses: positive is bad. For returns or profits pass --gains. A column called pnl, profit, return, gain or the like
    needs --gains or --losses.

    Utilities that depend on the unit of the losses (monotone-mean-variance, quartic, leaky-cvar, smooth-cvar) compare
    a loss with 1 here: pass --scale (or --tau) to say what size of loss matters.

    Many files, or any with --cluster, are read by Dask a piece at a time, however large they are together.
    """
    if not 0.0 < level < 1.0:
        raise typer.BadParameter(
            f"must lie strictly between 0 and 1 (0.95 for 95 %); found {level}.", param_hint="--level"
        )
    if gains and are_losses:
        raise typer.BadParameter("--gains and --losses exclude each other; found both.")
    order, decimal = _dependence(dependence), check_decimal(decimal)
    choice, given = chosen(utility, alpha, beta, a, tau, scale, daily=False)
    from certeq.risk import estimate  # here: help must not wait for it

    with explained():
        built = choice.build(given, normalized=normalized)
        many = cluster is not None or is_many(file)
        with dask_at(cluster, quiet=as_json) if many else nullcontext():
            losses: Any
            if many:
                name, losses, decimal = lazy_column(file, column, decimal)
            else:
                data = read_losses(file, column, decimal=decimal, sheet=sheet, in_order=order is not None)
                name, losses = data.column, data.values
                for text in data.notes:
                    note(text)
                if isinstance(order, int) and order >= losses.size:
                    raise typer.BadParameter(
                        f"must be below the number of losses, {losses.size}; found {order}.", param_hint="--dependence"
                    )
            if gains:
                losses = -losses
            elif _GAINS.search(name) and not are_losses:
                raise BadData(f"column {name!r} may hold gains: pass --gains if positive is good, else --losses.")
            try:
                result = estimate(losses, built, dependence=order)
            except (ValueError, TypeError) as error:
                raise (blame(file, name, error, decimal) if many else error) from None
            spread = 0.0
            if choice.depends_on_units:
                spread = float(losses.std(ddof=0).compute() if many else np.std(losses))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are printed below
            low, high = result.interval(level)
        if as_json:
            print_json(_facts(file, name, gains, choice, given, normalized, result, level, (low, high)))
        else:
            print_table(_table(name, gains, result, level, low, high))
        sys.stdout.flush()  # the number first, then what is to be said about it
        blind = any("--scale" in warning for warning in result.warnings)  # they say it with a number
        if choice.depends_on_units and not blind and "scale" not in given and "tau" not in given:
            note(
                f"{choice.key} depends on units: losses are compared with 1, their standard deviation is "
                f"{spread:.3g}. See --scale."
            )
        for warning in result.warnings:
            warn(_said(warning))


def _dependence(text: str) -> int | str | None:
    """What --dependence says."""
    if text in ("auto", "none"):
        return None if text == "none" else text
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise typer.BadParameter(
        f'must be "auto", "none" or a number of overlapping periods; found {text!r}.', param_hint="--dependence"
    )


def _facts(
    path: Path, name: str, gains: bool, choice: Any, given: dict[str, float], normalized: bool, result: Estimate,
    level: float, interval: tuple[float, float],
) -> dict[str, Any]:  # fmt: skip
    return {
        "file": path.name,
        "column": name,
        "read_as": "gains" if gains else "losses",
        "utility": described(choice, given) | {"normalized": normalized, "expression": repr(result.utility)},
        "n": result.n,
        "oce": result.value,
        "threshold": result.threshold,
        "inner": list(result.inner),
        "stderr": result.stderr,
        "bias": result.bias,
        "effective_sample_size": result.ess,
        "level": level,
        "interval": list(interval),
        "dependence": result.dependence,
        "memory": result.memory,
        "degrees_of_freedom": result.df,
        "assumptions": result.assumptions,
        "warnings": [_said(warning) for warning in result.warnings],
    }


def _said(warning: str) -> str:
    """A warning of the library, with the option of the command in place of the argument."""
    return warning.replace('dependence="auto"', "--dependence auto")


def _memory(result: Estimate) -> str:
    if result.dependence is None:
        return "none: samples are taken for independent"
    return f"over about {result.memory:.2g} periods" if result.memory > 0.0 else "none found"


def _threshold(result: Estimate) -> str:
    thresholds = np.atleast_1d(result.threshold)
    return "none" if np.isnan(thresholds).all() else ", ".join(f"{t:.6g}" for t in thresholds)


def _table(name: str, gains: bool, result: Estimate, level: float, low: float, high: float) -> Table:
    table = Table(show_header=False, title=None)
    # A long sentence would take their width from the labels, however much space there is.
    table.add_column(no_wrap=get_terminal_size().columns >= 60)
    table.add_column()
    risk = type(result.utility).__name__ if isinstance(result.utility, (CVaR, EVaR)) else "OCE"
    doubtful = " (see the warning below)" if result.warnings else ""
    rows = [
        ("Column", name),
        ("Read as", "gains, positive is good" if gains else "losses, positive is bad"),
        ("Utility", repr(result.utility)),
        (risk, f"{result.value:.6g}"),
        (f"{100 * level:.6g} % confidence interval", f"{low:.6g} to {high:.6g}{doubtful}"),
        ("VaR (threshold t*)" if isinstance(result.utility, CVaR) else "Threshold t*", _threshold(result)),
        ("Standard error", f"{result.stderr:.3g}"),
        ("Bias, estimated", f"{result.bias:.2g}"),
        ("Samples", f"{result.n} (effective sample size {result.ess:.0f})"),
        ("Dependence", _memory(result)),
    ]
    if result.assumptions:
        rows.append(("Assumptions", result.assumptions))
    for label, text in rows:
        table.add_row(cell(label, "bold"), cell(text))
    return table
