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
from certeq.cli._console import BadData
from certeq.data import PriceData, read_prices
from certeq.data.tables import check_file, encoding_of, separator_of

if TYPE_CHECKING:
    import pandas as pd

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
RefitEvery = Annotated[
    int | None,
    typer.Option(min=1, help="Walk forward: fit on --train-size rows, hold for so many, move on. --test-size is void."),
]
TrainSize = Annotated[int | None, typer.Option(min=2, help="Rows to fit on.", show_default="two years of them")]


def read_groups(entries: Iterable[str], assets: list[str]) -> dict[str, list[str]]:
    """Groups by asset, from NAME=GROUP and from files."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        path = Path(entry)
        if path.is_file() or "=" not in entry:
            rows = _rows(path, "--groups")[1:]
        else:
            name, _, group = entry.rpartition("=")
            rows = [[name, group]]
        for row in rows:
            name, groups = row[0].strip(), [cell.strip() for cell in row[1:] if cell.strip()]
            if name not in assets:
                if path.is_file():  # a file may know more assets than there are
                    continue
                raise BadData(f"--groups: there is no asset {name!r}.{did_you_mean(name, assets)}")
            found.setdefault(name, []).extend(groups)
    if not found:
        raise BadData("--groups: none of the assets is in a group.")
    return found


def read_previous(path: Path) -> dict[str, float]:
    """Weights by asset, as `write_weights` writes them; assets that have gone are sold."""
    if path.suffix.lower() == ".json":
        check_file(path)
        try:
            weights = json.loads(path.read_text(encoding="utf-8")).get("weights")
            return {str(name): float(weight) for name, weight in weights.items()}
        except (ValueError, AttributeError, TypeError):
            raise BadData(f"--previous: {path} must hold an object of weights under 'weights'.") from None
    rows = _rows(path, "--previous")[1:]
    try:
        return {row[0].removeprefix("'"): float(row[1]) for row in rows}
    except (ValueError, IndexError):
        raise BadData(f"--previous: {path} must have two columns, asset and weight.") from None


def _rows(path: Path, option: str) -> list[list[str]]:
    """The cells of a small CSV file that are not empty lines."""
    try:
        check_file(path)
    except BadData as error:
        raise BadData(f"{option}: {error}") from None
    with path.open(newline="", encoding=encoding_of(path)) as stream:
        rows = [row for row in csv.reader(stream, delimiter=separator_of(path)) if any(cell.strip() for cell in row)]
    if len(rows) < 2:
        raise BadData(f"{option}: {path} must have a row of headings and at least one more.")
    return rows


def take_benchmark(wanted: str | None, panel: PriceData, layout: dict[str, Any]) -> tuple[PriceData, pd.Series | None]:
    """The panel without the benchmark's column, and the benchmark's returns on its dates."""
    if wanted is None:
        return panel, None
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
    if found.prices is not None:  # from one date of the panel to the next, whatever other dates the file has
        before = [] if panel.prices is None else [date for date in panel.prices.index if date < returns.index[0]][-1:]
        before = before or list(series.index[series.index < returns.index[0]][-1:])
        series = series.reindex([*before, *returns.index]).pct_change(fill_method=None).iloc[len(before) :]
    series = series.reindex(returns.index).rename(path.stem)
    missing = series.index[~np.isfinite(series.to_numpy(dtype=float))]
    if len(missing):
        raise BadData(
            f"--benchmark {wanted}: has no return on {len(missing)} of the {len(returns)} dates, the first of "
            f"{str(missing[0])[:10]}."
        )
    return panel, series
