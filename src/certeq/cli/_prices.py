"""Prices (or returns) as a clean panel of daily returns: refused with the place of the fault, or mended with a note."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from certeq.cli._console import BadData
from certeq.cli._dates import dated
from certeq.cli._tables import pandas, read_table

if TYPE_CHECKING:
    import pandas as pd

LEAST_DAYS = 10
_STALE_DAYS = 10  # so many days without a price at the end may be holidays or a halt
_ABSURD = 100.0  # a daily return of 10,000 %: a change of currency or unit, not of price
_LARGE = 1.0


@dataclass
class Panel:
    """Daily returns, where they came from, and what was done to them on the way."""

    returns: pd.DataFrame
    source: str
    notes: list[str] = field(default_factory=list)


def load_panel(path: Path | None, *, are_returns: bool = False, least_assets: int = 2) -> Panel:
    """Read, check and turn into returns; the S&P 500 panel in skfolio's wheel where no file is given."""
    if path is None:
        return _sp500()
    notes: list[str] = []
    table = _numeric(_sorted(dated(read_table(path), str(path)), notes), str(path))
    table = _without_empty(table, notes)
    if table.shape[1] < least_assets:
        raise BadData(f"{path}: found {table.shape[1]} asset(s) with data; a portfolio needs at least {least_assets}.")
    if len(table) < 2:
        raise BadData(
            f"{path}: found {len(table)} row(s) of data; returns need at least 2 prices, and many to mean anything."
        )
    returns = _check_returns(table, path, notes) if are_returns else _from_prices(table, path, notes)
    if len(returns) < LEAST_DAYS:
        raise BadData(f"{path}: only {len(returns)} returns remain; at least {LEAST_DAYS} are needed.")
    large = np.abs(returns.to_numpy())
    if large.max() > _LARGE:
        day, asset = divmod(int(large.argmax()), large.shape[1])
        where = f"{returns.columns[asset]!r} on {_day(returns.index[day])}"
        notes.append(
            f"the largest return is {float(returns.to_numpy()[day, asset]):+.0%}, {where}: an error in the data?"
        )
    flat = [str(name) for name in returns.columns[(returns == 0.0).all()]]
    if flat:
        notes.append(f"{_some(flat)} never moved: a minimiser of risk will treat it as cash.")
    return Panel(returns, path.name, notes)


def _sp500() -> Panel:
    try:
        from skfolio.datasets import load_sp500_dataset
        from skfolio.preprocessing import prices_to_returns
    except ImportError as error:
        raise ImportError(f"portfolios need {error.name or 'skfolio'}: pip install 'certeq[portfolio]'") from None
    return Panel(prices_to_returns(load_sp500_dataset()), "S&P 500 panel of skfolio")


def _sorted(table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    if not table.index.is_monotonic_increasing:
        backwards = table.index.is_monotonic_decreasing
        notes.append(f"the dates were {'in reverse' if backwards else 'not in'} order; they have been sorted.")
        table = table.sort_index()
    return table


def _numeric(table: pd.DataFrame, source: str) -> pd.DataFrame:
    pd = pandas()
    columns = {}
    for name in table.columns:
        column = table[name]
        if pd.api.types.is_bool_dtype(column):
            raise BadData(f"{source}: column {str(name)!r} holds true and false, not numbers.")
        numbers = pd.to_numeric(column, errors="coerce")
        wrong = numbers.isna() & column.notna()
        if wrong.any():
            row = int(np.argmax(wrong.to_numpy()))
            found = repr(column.iloc[row])[:40]
            hint = (
                " Write numbers as 1234.5, without separators of thousands or signs."
                if any(c.isdigit() for c in found)
                else ""
            )
            raise BadData(
                f"{source}: column {str(name)!r} holds {found} on {_day(table.index[row])}, which is not a number."
                f"{hint} ({int(wrong.sum())} such cells in this column.)"
            )
        columns[name] = numbers.astype(float)
    numbers = pd.DataFrame(columns, index=table.index)
    numbers.columns = [str(name) for name in table.columns]
    endless = np.isinf(numbers.to_numpy(dtype=float))
    if endless.any():
        row, place = np.argwhere(endless)[0]
        raise BadData(f"{source}: {numbers.columns[place]!r} is infinite on {_day(numbers.index[row])}.")
    return numbers  # type: ignore[no-any-return]


def _without_empty(table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    empty = [str(name) for name in table.columns[table.isna().all()]]
    if empty:
        notes.append(f"{_some(empty)} without any number left out.")
        table = table.loc[:, table.notna().any()]
    return table.dropna(how="all")


def _from_prices(table: pd.DataFrame, path: Path, notes: list[str]) -> pd.DataFrame:
    values = table.to_numpy(dtype=float)
    bad = values <= 0.0
    if bad.any():
        if _look_like_returns(values):
            raise BadData(
                f"{path}: these look like returns, not prices (values around 0, some negative): pass --returns."
            )
        if _look_like_percentages(values):
            raise BadData(
                f"{path}: these look like returns in per cent, not prices (values around 0, many negative): divide "
                "them by 100 and pass --returns."
            )
        row, place = np.argwhere(bad)[0]
        raise BadData(
            f"{path}: the price of {table.columns[place]!r} is {values[row, place]:g} on "
            f"{_day(table.index[row])}; prices must be "
            f"above 0 ({int(bad.sum())} are not). Leave a missing price empty."
        )
    if _look_like_gross_returns(values):
        raise BadData(
            f"{path}: these look like gross returns 1 + r, not prices (values around 1 that do not wander): subtract 1 "
            "and pass --returns."
        )
    table = _still_priced(_after_inception(table, path, notes), path, notes)
    gaps = int(table.isna().to_numpy().sum())
    if gaps:
        share = gaps / table.size
        notes.append(
            f"{gaps} missing price(s) ({share:.2%}) filled with the last price before: returns of 0 on those days."
        )
        table = table.ffill()
    returns = table.pct_change(fill_method=None).iloc[1:]
    largest = np.abs(returns.to_numpy())
    if largest.size and largest.max() > _ABSURD:
        row, place = divmod(int(largest.argmax()), largest.shape[1])
        raise BadData(
            f"{path}: the price of {returns.columns[place]!r} went from {table.to_numpy()[row, place]:g} to "
            f"{table.to_numpy()[row + 1, place]:g} on {_day(returns.index[row])}: a change of currency or unit?"
        )
    return returns


def _check_returns(table: pd.DataFrame, path: Path, notes: list[str]) -> pd.DataFrame:
    table = _after_inception(table, path, notes)
    values = table.to_numpy(dtype=float)
    missing = np.isnan(values)
    if missing.any():
        row, place = np.argwhere(missing)[0]
        raise BadData(
            f"{path}: the return of {table.columns[place]!r} is missing on {_day(table.index[row])} "
            f"({int(missing.sum())} in "
            "all). A gap in prices can be filled with the last price, a gap in returns cannot: give prices, or fill it."
        )
    if (values < -1.0).any():
        row, place = np.argwhere(values < -1.0)[0]
        raise BadData(
            f"{path}: the return of {table.columns[place]!r} is {values[row, place]:g} on "
            f"{_day(table.index[row])}, a loss of "
            f"more than 100 %. Are these percentages? Divide them by 100."
        )
    if np.median(np.abs(values)) > 0.5:
        raise BadData(f"{path}: these look like prices, not returns (half of them exceed 50 %): leave out --returns.")
    return table


def _after_inception(table: pd.DataFrame, path: Path, notes: list[str]) -> pd.DataFrame:
    """From the day on which every asset has a first value."""
    first = table.apply(lambda column: column.first_valid_index())
    last = first.max()
    kept = table.loc[last:]
    dropped = len(table) - len(kept)
    if dropped:
        youngest = first.idxmax()
        notes.append(f"{dropped} row(s) before {_day(last)} left out: {youngest!r} has no data before.")
        if len(kept) < LEAST_DAYS + 1:
            raise BadData(
                f"{path}: only {len(kept)} row(s) remain from {_day(last)} on, when {youngest!r} has its first value; "
                "leave that asset out of the file."
            )
    return kept


def _still_priced(table: pd.DataFrame, path: Path, notes: list[str]) -> pd.DataFrame:
    """Without assets whose prices stop early: filled on with their last one they would look free of risk."""
    last = table.apply(lambda column: column.last_valid_index())
    stopped = [name for name in table.columns if len(table.loc[last[name] :]) - 1 > _STALE_DAYS]
    for name in stopped:
        notes.append(f"{name!r} has no price after {_day(last[name])} and is left out: it cannot be held any more.")
    if len(stopped) == len(table.columns):
        raise BadData(f"{path}: no asset has a price in the last {_STALE_DAYS} rows.")
    return table.drop(columns=stopped)


def _look_like_gross_returns(values: Any) -> bool:
    """Numbers around 1 whose changes from day to day are as large as their spread, which a price's are not."""
    if len(values) < 20 or not np.all(np.abs(np.nanmedian(values, axis=0) - 1.0) < 0.02):
        return False
    spread = np.nanstd(values, axis=0)
    return bool(np.all(spread > 0.0) and np.all(np.nanstd(np.diff(values, axis=0), axis=0) > spread))


def _look_like_percentages(values: Any) -> bool:
    """Numbers of both signs about as often, none of them large."""
    known = values[np.isfinite(values)]
    return bool(np.median(np.abs(known)) < 10.0 and 0.3 < (known < 0.0).mean() < 0.7)


def _look_like_returns(values: Any) -> bool:
    """Small numbers of both signs."""
    known = values[np.isfinite(values)]
    return bool(np.median(np.abs(known)) < 0.5 and (known < 0.0).mean() > 0.05)


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"column(s) {shown}{more}"


def _day(when: object) -> str:
    return str(when)[:10] if str(when).endswith("00:00:00") else str(when)
