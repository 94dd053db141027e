"""``certeq estimate``: OCE of a column of losses, with its error bars."""

from __future__ import annotations

import warnings
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from certeq.cli._console import BadData, cell, explained, note, print_json, print_table
from certeq.cli._options import Alpha, AsJson, Beta, Normalized, Power, Scale, Tau, UtilityName, chosen, described
from certeq.cli._tables import column_names, pandas, read_table
from certeq.risk import Estimate, estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME = "estimate"
NEEDS_FILE = True
EXAMPLES = (
    "certeq estimate losses.csv --column loss",
    "certeq estimate pnl.parquet -c pnl --gains --alpha 0.01 --level 0.99",
    "certeq estimate losses.csv --utility entropic --beta 2 --json",
)


def run(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet with a column of losses.", show_default=False)],
    column: Annotated[str | None, typer.Option("--column", "-c", help="Its name, where there are several.")] = None,
    gains: Annotated[bool, typer.Option("--gains", help="The column holds gains or returns: negate them.")] = False,
    utility: UtilityName = "cvar",
    alpha: Alpha = None,
    beta: Beta = None,
    a: Power = None,
    tau: Tau = None,
    scale: Scale = None,
    normalized: Normalized = False,
    level: Annotated[float, typer.Option(help="Coverage of the interval.")] = 0.95,
    as_json: AsJson = False,
) -> None:
    """Estimate the OCE of a column of losses: value, shortfall t*, interval.

    Losses: larger is worse. For returns or profits pass --gains.

    Utilities that depend on the unit of the losses (monotone-mean-variance, quartic, leaky-cvar, smooth-cvar) compare
    a loss with 1 here: pass --scale (or --tau) to say what size of loss matters.
    """
    if not 0.0 < level < 1.0:
        raise typer.BadParameter(
            f"must lie strictly between 0 and 1 (0.95 for 95 %); found {level}.", param_hint="--level"
        )
    choice, given = chosen(utility, alpha, beta, a, tau, scale, daily=False)
    with explained():
        name, losses = read_column(file, column)
        if gains:
            losses = -losses
        built = choice.build(given, normalized=normalized)
        result = estimate(losses, built)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the doubts are printed below
            low, high = result.interval(level)
        if choice.depends_on_units and "scale" not in given and "tau" not in given:
            spread = float(np.std(losses))
            note(
                f"{choice.key} depends on units: losses are compared with 1, their standard deviation is "
                f"{spread:.3g}. See --scale."
            )
        for doubt in result.doubts:
            note(doubt)
        if as_json:
            print_json(_facts(file, name, choice, given, normalized, result, level, (low, high)))
        else:
            print_table(_table(name, result, level, low, high))


def read_column(path: Path, wanted: str | None) -> tuple[str, NDArray[np.float64]]:
    """One column of finite numbers, and its name."""
    if not path.exists() or path.is_dir() or path.stat().st_size == 0:
        read_table(path)  # complains
    names = column_names(path)
    if wanted is not None and wanted not in names:
        close = get_close_matches(wanted, names, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise BadData(f"{path}: there is no column {wanted!r}.{hint} There are: {_listed(names)}.")
    pd = pandas()
    table = read_table(path, None if wanted is None else [wanted])
    if wanted is None:
        numeric = [str(name) for name in table.columns if pd.api.types.is_numeric_dtype(table[name])]
        if len(numeric) != 1:
            found = "no column of numbers" if not numeric else f"{len(numeric)} columns of numbers"
            raise BadData(f"{path}: found {found}; say which with --column. There are: {_listed(names)}.")
        wanted = numeric[0]
    return wanted, _finite(table[wanted], path, wanted)


def _finite(column: Any, path: Path, name: str) -> NDArray[np.float64]:
    pd = pandas()
    numbers = pd.to_numeric(column, errors="coerce")
    wrong = (numbers.isna() & column.notna()).to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadData(
            f"{path}: column {name!r} holds {str(column.iloc[row])[:40]!r} in row {row + 1}, which is not a number."
        )
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    if values.size == 0:
        raise BadData(f"{path}: column {name!r} has no rows.")
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        what = "empty" if np.isnan(values[row]) else "infinite"
        raise BadData(
            f"{path}: column {name!r} is {what} in row {row + 1} ({int(bad.sum())} such row(s)); remove them first."
        )
    return np.asarray(values)


def _facts(
    path: Path, name: str, choice: Any, given: dict[str, float], normalized: bool, result: Estimate, level: float,
    interval: tuple[float, float],
) -> dict[str, Any]:  # fmt: skip
    return {
        "file": path.name,
        "column": name,
        "utility": described(choice, given) | {"normalized": normalized, "expression": repr(result.utility)},
        "n": result.n,
        "oce": result.value,
        "shortfall": result.shortfall,
        "stderr": result.stderr,
        "bias": result.bias,
        "effective_sample_size": result.ess,
        "level": level,
        "interval": list(interval),
        "doubts": list(result.doubts),
    }


def _table(name: str, result: Estimate, level: float, low: float, high: float) -> Table:
    table = Table(show_header=False, title=None)
    rows = [
        ("Column", name),
        ("Utility", repr(result.utility)),
        ("OCE", f"{result.value:.8g}"),
        (f"{level:.6g} interval", f"{low:.6g} to {high:.6g}"),
        ("Shortfall t*", f"{result.shortfall:.8g}"),
        ("Standard error", f"{result.stderr:.3g}"),
        ("Bias, estimated", f"{result.bias:.2g}"),
        ("Samples", f"{result.n}, of which about {result.ess:.0f} carry the risk"),
    ]
    for label, text in rows:
        table.add_row(cell(label, "bold"), cell(text))
    return table


def _listed(names: list[str], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
