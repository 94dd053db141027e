"""Prices from files: read, checked, and turned into returns.

Wide tables (dates first, then a column per asset), two rows of headings as data vendors write them, and long tables (a
row per date and asset) alike. What can be mended is, with a note; what cannot be right is refused with where the fault
is.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from certeq._checks import check_choice
from certeq.data._dates import dated, day_of, parsed_dates
from certeq.data._frequency import TRADING_DAYS, Frequency, frequency_of
from certeq.data._numbers import decimal_of, may_be_numbers
from certeq.data._tables import (
    BadData,
    as_numbers,
    first_rows,
    is_text,
    listed,
    missing_column,
    pandas,
    read_table,
    row_number,
    without_texts,
)

if TYPE_CHECKING:
    import pandas as pd

LEAST_ROWS = 10
_STALE_DAYS = 10  # so many trading days without a price at the end may be holidays or a halt
_ABSURD = 100.0  # a return of 10,000 %: a change of currency or unit, not of price
_LARGE = 1.0
_FALL = -0.45  # of a day: splits of 1 for 2 and more lie below, crashes of single stocks hardly ever
_LONG_FALL = -0.74  # of a week or a month
_FIELDS = ("adj close", "adjusted close", "adjclose", "close", "price", "last", "px_last", "nav", "value", "return")


@dataclass
class PriceData:
    """Prices and returns of assets, how often they come, and what was done to them on the way.

    Attributes
    ----------
    prices : DataFrame or None
        Dates by assets, as they are in the file, in order; None where the file holds returns.
    returns : DataFrame
        What is left after late starts, gaps and assets without prices have been dealt with.
    source : str
        Name of the file.
    frequency : Frequency
        How many rows make a year.
    notes : list of str
        What was guessed and mended.

    See Also
    --------
    read_prices
        Prices or returns from a file.
    Frequency
        How many periods make a year.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from certeq.data import Frequency, PriceData
    >>> days = pd.bdate_range("2024-01-01", periods=3)
    >>> returns = pd.DataFrame({"A": [0.01, 0.0, -0.02]}, days)
    >>> PriceData(None, returns, "my.csv", Frequency(252, "day"))
    PriceData(my.csv: 3 returns of 1 assets, 252 days a year, 2024-01-01 to 2024-01-03)
    """

    prices: pd.DataFrame | None
    returns: pd.DataFrame
    source: str
    frequency: Frequency
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        rows, assets = self.returns.shape
        ends = f"{day_of(self.returns.index[0])} to {day_of(self.returns.index[-1])}"
        said = "".join(f"\n  note: {text}" for text in self.notes)
        return f"PriceData({self.source}: {rows} returns of {assets} assets, {self.frequency}, {ends}){said}"


def read_prices(
    path: str | Path,
    *,
    returns: bool = False,
    decimal: str | None = None,
    sheet: str | None = None,
    field: str | None = None,
    asset_column: str | None = None,
    value_column: str | None = None,
    periods_per_year: float | None = None,
    least_assets: int = 1,
) -> PriceData:
    """Prices (or returns) from a file, checked, and as returns: what ``certeq portfolio`` reads.

    Parameters
    ----------
    path : str or Path
        CSV (also .gz), Parquet or .xlsx. Dates first, then a column per asset; or two rows of headings; or long, with
        a row for each date and asset.
    returns : bool
        Whether the file holds returns (0.01 is +1 %).
    decimal : "." or ",", optional
        The decimal sign. Told by the numbers if None, and asked for where they do not tell.
    sheet : str, optional
        Sheet of an Excel file; the first if None.
    field : str, optional
        Which of several fields (Close, Open, ...) in two rows of headings; the adjusted or plain close if None.
    asset_column, value_column : str, optional
        Of a long table: which columns name the assets and hold their prices.
    periods_per_year : float, optional
        How many rows make a year; told by the dates if None.
    least_assets : int
        How many assets there must be.

    Returns
    -------
    PriceData
        Prices and returns, their frequency, and what was guessed on the way.

    See Also
    --------
    PriceData
        What `certeq.data.read_prices` returns.
    read_losses
        One column of numbers from a file.

    Notes
    -----
    Every guess is in ``notes``. Numbers may have decimal commas, separators of thousands, currency and percent signs.

    Examples
    --------
    >>> import numpy as np, pandas as pd, tempfile, pathlib
    >>> from certeq.data import read_prices
    >>> days = pd.bdate_range("2024-01-01", periods=20).strftime("%d.%m.%Y")
    >>> lines = [f"{day};16.{700 + i},50;{90 + i},25 €" for i, day in enumerate(days)]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "kurse.csv"
    >>> _ = path.write_text("\\n".join(["Datum;DAX;Gold", *lines]))
    >>> found = read_prices(path)
    >>> found.prices.iloc[0].tolist(), found.notes[0]
    ([16700.5, 90.25], 'numbers have a decimal comma; --decimal overrides that.')
    """
    path = Path(path)
    if decimal is not None:
        check_choice("decimal", decimal, (".", ","))
    notes: list[str] = []
    raw = _dated_table(path, decimal, sheet, field, asset_column, value_column, notes)
    table = _without_empty(_numeric(_sorted(raw, notes), str(path)), notes)
    if table.shape[1] < least_assets:
        raise BadData(f"{path}: found {table.shape[1]} asset(s) with data; a portfolio needs at least {least_assets}.")
    if len(table) < 2:
        raise BadData(
            f"{path}: found {len(table)} row(s) of data; returns need at least 2 prices, and many to mean anything."
        )
    frequency = _frequency(table.index, periods_per_year, str(path), notes)
    moves = _check_returns(table, path, notes) if returns else _from_prices(table, path, frequency, notes)
    if len(moves) < LEAST_ROWS:
        raise BadData(f"{path}: only {len(moves)} returns remain; at least {LEAST_ROWS} are needed.")
    large = np.abs(moves.to_numpy())
    if large.max() > _LARGE:
        row, column, name, day = _first(moves, large == large.max())
        value = float(moves.to_numpy()[row, column])
        notes.append(f"the largest return is {value:+.0%}, {name} on {day}: an error in the data?")
    notes += _falls(moves, frequency)
    flat = [str(name) for name in moves.columns[(moves == 0.0).all()]]
    if flat:
        notes.append(f"{_some(flat)} never moved: a minimizer of risk will treat it as cash.")
    return PriceData(None if returns else table, moves, path.name, frequency, notes)


# -- the layout of the file -------------------------------------------------------------------------------------------


def _dated_table(
    path: Path,
    decimal: str | None,
    sheet: str | None,
    wanted: str | None,
    asset_column: str | None,
    value_column: str | None,
    notes: list[str],
) -> pd.DataFrame:
    """Assets by dates, whatever the layout, with texts read as numbers where they can be."""
    rows = first_rows(path, sheet)
    if rows and rows[0] and isinstance(rows[0][0], (str, datetime)) and _looks_like_date(rows[0][0]):
        raise BadData(
            f"{path}: the first row begins with the date {rows[0][0]}; add a row with the names of the assets."
        )
    count = _header_rows(rows)
    table = read_table(path, sheet=sheet, header=count)
    if len(table) == 0:
        raise BadData(f"{path}: no rows below the header.")
    if count > 1:
        names = _assets_under(rows[:count], table.shape[1], path, wanted, notes)
        numbers = as_numbers(table, list(names), path, decimal, notes, header=count)[[0, *names]]
        return dated(numbers.rename(columns={0: "date", **names}), path, header=count)
    if wanted is not None:
        raise BadData(f"{path}: --field {wanted!r} is for two rows of headings; found one.")
    if not isinstance(table.index, pandas().RangeIndex) and table.index.duplicated().any():
        table = table.reset_index()  # of a long Parquet file
    long = _long_columns(table, path, asset_column, value_column)
    if long is not None:
        date, asset, value = long
        notes.append(f"a long table: {asset!r} names the assets and {value!r} holds their values.")
        return _pivoted(as_numbers(table, [value], path, decimal, notes), path, date, asset, value)
    first = list(table.columns[:1]) if isinstance(table.index, pandas().RangeIndex) else []
    others = [name for name in table.columns if name not in first]
    return dated(as_numbers(table, others, path, decimal, notes), path)


def _header_rows(rows: list[list[Any]]) -> int:
    """How many rows of headings there are: one, unless the next begins with no date and holds no number."""
    count = 1
    while count < len(rows) and rows[count] and not _is_data(rows[count]):
        count += 1
    return count if count < len(rows) and 1 < count <= 3 else 1


def _is_data(row: list[Any]) -> bool:
    first, rest = row[0], [cell for cell in row[1:] if not _is_blank(cell)]
    if _looks_like_date(first) or all(map(_is_blank, row)):
        return True
    # Whole numbers may be names of assets, where a word stands in front of them.
    names = (None,) if _is_blank(first) else (None, "")
    return any(not isinstance(cell, str) or decimal_of(cell) not in names for cell in rest)


def _is_blank(cell: Any) -> bool:
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())


def _looks_like_date(cell: Any) -> bool:
    if not isinstance(cell, str):
        return not _is_blank(cell)
    if sum(char.isdigit() for char in cell) < 3:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(pandas().notna(pandas().to_datetime(cell, errors="coerce", dayfirst=True)))


def _assets_under(
    headings: list[list[Any]], width: int, path: Path, wanted: str | None, notes: list[str]
) -> dict[int, str]:
    """Names of assets by the number of their column, for the columns of one field."""
    levels = []
    for row in headings:
        cells = ["" if _is_blank(cell) else str(cell).strip() for cell in row[1:width]]
        if any(cells):  # a row with nothing but "Date" names no columns
            levels.append(cells + [""] * (width - 1 - len(cells)))
    if len(levels) > 2:
        raise BadData(f"{path}: found {len(levels)} rows of headings; at most 2 are read.")
    if len(levels) == 1:
        return _distinct(dict(enumerate(levels[0], 1)), path)
    upper, lower = levels
    for i in range(1, width - 1):  # a merged cell is written once
        upper[i] = upper[i] or upper[i - 1]
    for names, others in ((lower, upper), (upper, lower)):
        if len(set(names)) == len(names) and all(names) and wanted is None:
            known = [other for other in dict.fromkeys(others) if other]
            notes.append(f"two rows of headings: the assets are {listed(names, 3)}; {listed(known, 3)} not used.")
            return dict(enumerate(names, 1))
    fields, assets = (upper, lower) if _is_field(upper) or not _is_field(lower) else (lower, upper)
    choices = {each.lower(): each for each in reversed(fields)}
    chosen = wanted.lower() if wanted is not None else next((key for key in _FIELDS if key in choices), None)
    if chosen not in choices:
        found = "" if wanted is None else f"there is no field {wanted!r}; "
        raise BadData(
            f"{path}: {found}two rows of headings hold {listed(list(dict.fromkeys(fields)))}: say which with --field."
        )
    kept = {i: asset for i, (each, asset) in enumerate(zip(fields, assets, strict=True), 1) if each.lower() == chosen}
    if wanted is None:
        notes.append(f"two rows of headings: {choices[chosen]!r} of {len(kept)} assets taken; --field chooses another.")
    return _distinct(kept, path)


def _is_field(names: list[str]) -> bool:
    return any(name.lower() in _FIELDS for name in names)


def _distinct(names: dict[int, str], path: Path) -> dict[int, str]:
    seen: set[str] = set()
    for name in names.values():
        if name in seen:
            raise BadData(f"{path}: the column {name!r} occurs twice; asset names must be distinct.")
        seen.add(name)
    return names


def _long_columns(table: pd.DataFrame, path: Path, asset: str | None, value: str | None) -> tuple[str, str, str] | None:
    """Date, asset and value of a long table; None where the table is wide."""
    names = [str(name) for name in table.columns]
    for option, column in (("--asset-column", asset), ("--value-column", value)):
        if column is not None and column not in names:
            raise BadData(str(missing_column(path, column, names)).replace("there is no", f"{option}: there is no"))
    if not isinstance(table.index, pandas().RangeIndex):
        if asset is None and value is None:
            return None
        raise BadData(f"{path}: a long table has its dates in a column; found them in the index of the file.")
    date = next((name for name in table.columns[:3] if name not in (asset, value) and _is_dates(table[name])), None)
    if date is None:
        return None
    rest = [name for name in table.columns if name != date]
    words = [name for name in rest if is_text(table[name]) and not may_be_numbers(table[name])]
    if asset is None:
        if value is None and (len(words) != 1 or not table[date].duplicated().any()):
            return None
        if len(words) != 1:
            raise BadData(f"{path}: found {len(words)} columns of names; say which with --asset-column.")
        asset = str(words[0])
    numbers = [str(name) for name in rest if name not in words and name != asset]
    if value is None:
        known = [name for key in _FIELDS for name in numbers if name.lower() == key]
        if len(numbers) == 1:
            value = numbers[0]
        elif known:
            value = known[0]
        else:
            raise BadData(
                f"{path}: a long table ({asset!r} names the assets) with {len(numbers)} columns of numbers "
                f"({listed(numbers)}); say which with --value-column."
            )
    return str(date), asset, value


def _is_dates(column: Any) -> bool:
    pd = pandas()
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return True
    some = list(column.dropna().iloc[:20])
    if pd.api.types.is_integer_dtype(column.dtype):
        return bool(some) and all(19000101 <= cell <= 22001231 for cell in some)
    return is_text(column) and bool(some) and all(isinstance(cell, str) and _looks_like_date(cell) for cell in some)


def _pivoted(table: pd.DataFrame, path: Path, date: str, asset: str, value: str) -> pd.DataFrame:
    pd = pandas()
    dates = parsed_dates(table[date], path)
    names = table[asset]
    if names.isna().any():
        row = row_number(path, int(np.argmax(names.isna().to_numpy())))
        raise BadData(f"{path}: column {asset!r} is empty in row {row}.")
    keys = pd.MultiIndex.from_arrays([dates, names.astype(str)])
    twice = keys.duplicated()
    if twice.any():
        day, name = keys[int(np.argmax(twice))]
        raise BadData(
            f"{path}: {name!r} occurs more than once on {day_of(day)} ({int(twice.sum())} repetition(s) in all)."
        )
    wide = pd.Series(table[value].to_numpy(), index=keys).unstack()
    wide = wide.reindex(columns=list(dict.fromkeys(names.astype(str))))
    return wide  # type: ignore[no-any-return]


# -- from a table to returns ------------------------------------------------------------------------------------------


def _falls(returns: pd.DataFrame, frequency: Frequency) -> list[str]:
    """A caution about the largest fall, where it looks more like a split than like a loss."""
    least = returns.to_numpy().min()
    if least > (_FALL if frequency.periods_per_year >= TRADING_DAYS else _LONG_FALL):
        return []
    *_, name, day = _first(returns, returns.to_numpy() == least)
    parts = round(1.0 / (1.0 + least)) if least > -1.0 else 0
    what = f", perhaps 1 for {parts}," if parts > 1 and abs(parts * (1.0 + least) - 1.0) < 0.06 else ""
    return [f"{name} falls by {-least:.0%} on {day}: a split{what} that the prices were not adjusted for?"]


def _frequency(dates: Any, periods_per_year: float | None, source: str, notes: list[str]) -> Frequency:
    """Told by the dates or asked for, and said in a note."""
    try:
        found = frequency_of(dates, periods_per_year, name="--periods-per-year (periods_per_year= in Python)")
    except ValueError as error:
        raise BadData(f"{source}: {error}") from None
    if periods_per_year is None and found.periods_per_year != TRADING_DAYS:
        notes.append(f"{found.adjective} data, {found}: told by the dates; --periods-per-year overrides it.")
    elif other := found.contradiction(dates):
        notes.append(other)
    return found


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
        numbers, wrong = without_texts(column)
        if wrong.any():
            row = int(np.argmax(wrong))
            found = repr(column.iloc[row])[:40]
            hint = " Write numbers as 1234.5." if any(char.isdigit() for char in found) else ""
            raise BadData(
                f"{source}: column {str(name)!r} holds {found} on {day_of(table.index[row])}, which is not a number."
                f"{hint} ({int(wrong.sum())} such cells in this column.)"
            )
        columns[name] = numbers.astype(float)
    numbers = pd.DataFrame(columns, index=table.index)
    numbers.columns = [str(name) for name in table.columns]
    endless = np.isinf(numbers.to_numpy(dtype=float))
    if endless.any():
        *_, name, day = _first(numbers, endless)
        raise BadData(f"{source}: {name} is infinite on {day}.")
    return numbers  # type: ignore[no-any-return]


def _without_empty(table: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    empty = [str(name) for name in table.columns[table.isna().all()]]
    if empty:
        notes.append(f"{_some(empty)} without any number left out.")
        table = table.loc[:, table.notna().any()]
    return table.dropna(how="all")


def _from_prices(table: pd.DataFrame, path: Path, frequency: Frequency, notes: list[str]) -> pd.DataFrame:
    values = table.to_numpy(dtype=float)
    bad = values <= 0.0
    if bad.any():
        if _look_like_returns(values):
            raise BadData(
                f"{path}: these look like returns, not prices (values around 0, some negative): pass --returns (in "
                "Python returns=True)."
            )
        if _look_like_percentages(values):
            raise BadData(
                f"{path}: these look like returns in per cent, not prices (values around 0, many negative): divide "
                "them by 100 and pass --returns."
            )
        row, column, name, day = _first(table, bad)
        raise BadData(
            f"{path}: the price of {name} is {values[row, column]:g} on {day}; prices must be above 0 "
            f"({int(bad.sum())} are not). Leave a missing price empty."
        )
    if _look_like_gross_returns(values):
        raise BadData(
            f"{path}: these look like gross returns 1 + r, not prices (values around 1 that do not wander): subtract 1 "
            "and pass --returns."
        )
    # First what has stopped: it must not decide where the others begin, and may have no price after that day at all.
    priced = _still_priced(table, path, frequency, notes)
    table = _after_inception(priced, path, notes)
    gaps = int(table.isna().to_numpy().sum())
    if gaps:
        share = gaps / table.size
        notes.append(
            f"{gaps} missing price(s) ({share:.2%}) filled with the last price before: returns of 0 on those dates."
        )
        table = priced.ffill().loc[table.index]  # a gap on the first day has its last price among the rows left out
    returns = table.pct_change(fill_method=None).iloc[1:]
    largest = np.abs(returns.to_numpy())
    if largest.size and largest.max() > _ABSURD:
        row, column, name, day = _first(returns, largest == largest.max())
        before, after = table.to_numpy()[row : row + 2, column]
        raise BadData(
            f"{path}: the price of {name} went from {before:g} to {after:g} on {day}: a change of currency or unit?"
        )
    return returns


def _check_returns(table: pd.DataFrame, path: Path, notes: list[str]) -> pd.DataFrame:
    table = _after_inception(table, path, notes)
    values = table.to_numpy(dtype=float)
    missing = np.isnan(values)
    if missing.any():
        *_, name, day = _first(table, missing)
        raise BadData(
            f"{path}: the return of {name} is missing on {day} ({int(missing.sum())} in all). A gap in prices can be "
            "filled with the last price, a gap in returns cannot: give prices, or fill it."
        )
    if (values < -1.0).any():
        row, column, name, day = _first(table, values < -1.0)
        raise BadData(
            f"{path}: the return of {name} is {values[row, column]:g} on {day}, a loss of more than 100 %. Are these "
            "percentages? Divide them by 100."
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
        notes.append(f"{dropped} row(s) before {day_of(last)} left out: {youngest!r} has no data before.")
        if len(kept) < LEAST_ROWS + 1:
            raise BadData(
                f"{path}: only {len(kept)} row(s) remain from {day_of(last)} on, when {youngest!r} has its first "
                "value; leave that asset out of the file."
            )
    return kept


def _still_priced(table: pd.DataFrame, path: Path, frequency: Frequency, notes: list[str]) -> pd.DataFrame:
    """Without assets whose prices stop early: filled on with their last one they would look free of risk."""
    last = table.apply(lambda column: column.last_valid_index())
    stale = max(1, round(_STALE_DAYS * frequency.periods_per_year / TRADING_DAYS))
    stopped = [name for name in table.columns if len(table.loc[last[name] :]) - 1 > stale]
    for name in stopped:
        notes.append(f"{name!r} has no price after {day_of(last[name])} and is left out: it cannot be held any more.")
    if len(stopped) == len(table.columns):
        raise BadData(f"{path}: no asset has a price in the last {stale} rows.")
    return table.drop(columns=stopped)


def _look_like_gross_returns(values: Any) -> bool:
    """Numbers around 1 whose changes from row to row are as large as their spread, which a price's are not."""
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


def _first(table: pd.DataFrame, wrong: Any) -> tuple[int, int, str, str]:
    """Row and column of the first cell that is marked, and what a message calls them."""
    row, column = map(int, np.argwhere(wrong)[0])
    return row, column, repr(table.columns[column]), day_of(table.index[row])
