"""Files as the commands read them: tables, a column over many files, and prices as a clean panel of returns.

CSV or Parquet. What cannot be right is refused with where the fault is; what can be mended is, with a note.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from glob import glob
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import did_you_mean
from certeq.cli._console import BadData, note
from certeq.data import TRADING_DAYS, Frequency, frequency_of

if TYPE_CHECKING:
    import pandas as pd

PARQUET = {".parquet", ".pq"}
_SEPARATORS = ",;\t|"
_TABLES = {*PARQUET, ".csv"}
_PATIENCE = 10  # seconds to reach a cluster
LEAST_ROWS = 10
_STALE_DAYS = 10  # so many trading days without a price at the end may be holidays or a halt
_ABSURD = 100.0  # a return of 10,000 %: a change of currency or unit, not of price
_LARGE = 1.0
_FALL = -0.45  # of a day: splits of 1 for 2 and more lie below, crashes of single stocks hardly ever
_LONG_FALL = -0.74  # of a week or a month


@dataclass
class AssetReturns:
    """Returns, how often they come, where they came from, and what was done to them on the way."""

    returns: pd.DataFrame
    source: str
    frequency: Frequency
    notes: list[str] = field(default_factory=list)


def load_panel(
    path: Path | None, *, are_returns: bool = False, periods_per_year: float | None = None, least_assets: int = 2
) -> AssetReturns:
    """Read, check and turn into returns; the S&P 500 panel in skfolio's wheel where no file is given."""
    if path is None:
        return _sp500(periods_per_year)
    notes: list[str] = []
    table = _numeric(_sorted(dated(read_table(path), str(path)), notes), str(path))
    table = _without_empty(table, notes)
    if table.shape[1] < least_assets:
        raise BadData(f"{path}: found {table.shape[1]} asset(s) with data; a portfolio needs at least {least_assets}.")
    if len(table) < 2:
        raise BadData(
            f"{path}: found {len(table)} row(s) of data; returns need at least 2 prices, and many to mean anything."
        )
    frequency = _frequency(table.index, periods_per_year, str(path), notes)
    returns = _check_returns(table, path, notes) if are_returns else _from_prices(table, path, frequency, notes)
    if len(returns) < LEAST_ROWS:
        raise BadData(f"{path}: only {len(returns)} returns remain; at least {LEAST_ROWS} are needed.")
    large = np.abs(returns.to_numpy())
    if large.max() > _LARGE:
        row, column, name, day = _first(returns, large == large.max())
        value = float(returns.to_numpy()[row, column])
        notes.append(f"the largest return is {value:+.0%}, {name} on {day}: an error in the data?")
    notes += _falls(returns, frequency)
    flat = [str(name) for name in returns.columns[(returns == 0.0).all()]]
    if flat:
        notes.append(f"{_some(flat)} never moved: a minimizer of risk will treat it as cash.")
    return AssetReturns(returns, path.name, frequency, notes)


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
        found = frequency_of(dates, periods_per_year, name="--periods-per-year")
    except ValueError as error:
        raise BadData(f"{source}: {error}") from None
    if periods_per_year is None and found.periods_per_year != TRADING_DAYS:
        notes.append(f"{found.adjective} data, {found}: told by the dates; --periods-per-year overrides it.")
    elif other := found.contradiction(dates):
        notes.append(other)
    return found


def _sp500(periods_per_year: float | None) -> AssetReturns:
    try:
        from skfolio.datasets import load_sp500_dataset
        from skfolio.preprocessing import prices_to_returns
    except ImportError as error:
        raise ImportError(f"portfolios need {error.name or 'skfolio'}: pip install 'certeq[portfolio]'") from None
    returns, source = prices_to_returns(load_sp500_dataset()), "S&P 500 panel of skfolio"
    return AssetReturns(returns, source, frequency_of(returns.index, periods_per_year))


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
                f"{path}: these look like returns, not prices (values around 0, some negative): pass --returns."
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
    table = _still_priced(_after_inception(table, path, notes), path, frequency, notes)
    gaps = int(table.isna().to_numpy().sum())
    if gaps:
        share = gaps / table.size
        notes.append(
            f"{gaps} missing price(s) ({share:.2%}) filled with the last price before: returns of 0 on those dates."
        )
        table = table.ffill()
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
        notes.append(f"{dropped} row(s) before {_day(last)} left out: {youngest!r} has no data before.")
        if len(kept) < LEAST_ROWS + 1:
            raise BadData(
                f"{path}: only {len(kept)} row(s) remain from {_day(last)} on, when {youngest!r} has its first value; "
                "leave that asset out of the file."
            )
    return kept


def _still_priced(table: pd.DataFrame, path: Path, frequency: Frequency, notes: list[str]) -> pd.DataFrame:
    """Without assets whose prices stop early: filled on with their last one they would look free of risk."""
    last = table.apply(lambda column: column.last_valid_index())
    stale = max(1, round(_STALE_DAYS * frequency.periods_per_year / TRADING_DAYS))
    stopped = [name for name in table.columns if len(table.loc[last[name] :]) - 1 > stale]
    for name in stopped:
        notes.append(f"{name!r} has no price after {_day(last[name])} and is left out: it cannot be held any more.")
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
    return row, column, repr(table.columns[column]), _day(table.index[row])


def _day(when: object) -> str:
    return str(when)[:10] if str(when).endswith("00:00:00") else str(when)


def dated(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The table indexed by its dates, which must be readable and distinct; their order is left as it is."""
    pd = pandas()
    if len(table) == 0:
        raise BadData(f"{source}: no rows below the header.")
    if not isinstance(table.index, pd.RangeIndex):
        labels, rest = table.index.to_series(), table
    elif table.shape[1] < 2:
        raise BadData(f"{source}: found one column only; dates come first, then at least one column of numbers.")
    else:
        labels, rest = table.iloc[:, 0], table.iloc[:, 1:]
    index = _parsed(labels, source)
    twice = index.duplicated()
    if twice.any():
        day = index[int(np.argmax(twice))]
        raise BadData(
            f"{source}: the date {str(day)[:10]} occurs more than once ({int(twice.sum())} repetition(s) in all)."
        )
    rest = rest.copy(deep=False)
    rest.index = index
    return rest


def _parsed(labels: Any, source: str) -> Any:
    pd = pandas()
    if pd.api.types.is_datetime64_any_dtype(labels):
        dates = pd.Series(labels)
    elif pd.api.types.is_numeric_dtype(labels):
        # 20240131 is a date; 0, 1, 2 (and prices) are not, though pandas would take them for nanoseconds.
        if not (labels.notna().all() and labels.between(19000101, 22001231).all() and (labels % 1 == 0).all()):
            raise BadData(
                f"{source}: the first column must hold dates such as 2024-01-31; found numbers "
                f"({labels.iloc[0]:g}, ...)."
            )
        dates = pd.to_datetime(labels.astype("int64").astype(str), format="%Y%m%d", errors="coerce")
    else:
        text = labels.astype(str).where(labels.notna())
        dates = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=_has_zone(text))
        if dates.isna().any():
            dates = _guessed(text, source)
    unread = dates.isna().to_numpy()
    if unread.any():
        row = int(np.argmax(unread))
        raise BadData(
            f"{source}: row {row + 1} of the data starts with {str(labels.iloc[row])[:40]!r}, which is not a date (or "
            f"not in the format of the first one); {int(unread.sum())} such row(s). Write dates as 2024-01-31."
        )
    index = pd.DatetimeIndex(dates)
    return index.tz_convert("UTC").tz_localize(None) if index.tz is not None else index


def _guessed(text: Any, source: str) -> Any:
    """Dates in another form than ISO: the first fixes it, with the month or the day in front, whichever reads all."""
    pd = pandas()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        american, european = (pd.to_datetime(text, errors="coerce", dayfirst=first) for first in (False, True))
    if american.notna().all() and european.notna().all() and not american.equals(european):
        raise BadData(
            f"{source}: {str(text.iloc[0])[:40]!r} may have the day or the month in front, and no row tells which. "
            "Write dates as 2024-01-31."
        )
    return european if european.notna().sum() > american.notna().sum() else american


def _has_zone(text: Any) -> bool:
    """Offsets that change with summer time cannot be read without a common clock."""
    return bool(text.str.contains(r"(?:Z|[+-]\d\d:?\d\d)$", regex=True, na=False).any()) and bool(
        text.str.contains(":", regex=False, na=False).any()
    )


def read_column(path: Path, wanted: str | None) -> tuple[str, NDArray[np.float64]]:
    """One column of finite numbers, and its name."""
    if not path.exists() or path.is_dir() or path.stat().st_size == 0:
        read_table(path)  # raises
    names = column_names(path)
    if wanted is not None and wanted not in names:
        raise missing_column(path, wanted, names)
    table = read_table(path, None if wanted is None else [wanted])
    if wanted is None:
        wanted = only_numeric(path, table.dtypes, names)
    return wanted, _finite_column(table[wanted], path, wanted)


def in_order_of_dates(values: NDArray[np.float64], path: Path, name: str) -> NDArray[np.float64]:
    """The column sorted by the dates of the file, its index or first column, with a note; as it is without dates."""
    pd = pandas()
    first = column_names(path)[0]
    table = read_table(path, [first])
    if not isinstance(table.index, pd.RangeIndex):
        dates = table.index
    elif first == name:
        return values
    else:
        try:
            dates = _parsed(table.iloc[:, 0], str(path))
        except BadData:  # names, numbers: no dates, and any order is as good
            return values
    if not isinstance(dates, pd.DatetimeIndex) or dates.is_monotonic_increasing:
        return values
    if dates.is_monotonic_decreasing:
        return values[::-1].copy()
    note("the dates were not in order; the losses have been sorted by them.")
    return values[np.argsort(dates.to_numpy(), kind="stable")]


def _finite_column(column: Any, path: Path, name: str) -> NDArray[np.float64]:
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


def is_many(path: Path) -> bool:
    """Whether this is a folder or a pattern rather than one file."""
    return path.is_dir() or (any(mark in str(path) for mark in "*?[") and not path.exists())


def files_of(path: Path) -> list[Path]:
    """The files of a folder or a pattern, in order of their names; all of one format."""
    found = path.iterdir() if path.is_dir() else map(Path, glob(str(path)))
    files = sorted(file for file in found if file.is_file())
    if path.is_dir():
        files = [file for file in files if file.suffix.lower() in _TABLES]
    if not files:
        what = "is a directory without CSV or Parquet files" if path.is_dir() else "no file has such a name"
        raise BadData(f"{path}: {what}.")
    kinds = {file.suffix.lower() in PARQUET for file in files}
    if len(kinds) > 1:
        raise BadData(f"{path}: found both CSV and Parquet files; name one kind, for instance '*.parquet'.")
    return files


def lazy_column(path: Path, wanted: str | None) -> tuple[str, Any]:
    """A column as a Dask Series, of which nothing has been read yet, and its name."""
    try:
        import dask.dataframe as dd
    except ImportError:
        raise ImportError("many files are read by Dask: pip install 'certeq[dask]'") from None
    files = files_of(path) if is_many(path) else [path]
    if not files[0].exists():
        raise BadData(f"{path}: no such file.")
    for file in files:
        names = column_names(file)
        if wanted is not None and wanted not in names:
            raise missing_column(file, wanted, names)
    paths = [str(file) for file in files]
    columns = None if wanted is None else [wanted]
    try:
        if files[0].suffix.lower() in PARQUET:
            table = dd.read_parquet(paths, columns=columns)
        else:
            table = dd.read_csv(paths, usecols=columns, sep=separator_of(files[0]), encoding="utf-8-sig")
    except (ValueError, UnicodeDecodeError) as error:  # pyarrow's and pandas' own are ValueErrors too
        raise BadData(f"{path}: not readable ({error}).") from None
    name = wanted if wanted is not None else only_numeric(path, table.dtypes, list(map(str, table.columns)))
    return name, table[name]


@contextmanager
def dask_at(address: str | None, *, quiet: bool) -> Iterator[None]:
    """Run Dask on the cluster at an address, or here with Dask's own progress bar; its complaints in one line."""
    with ExitStack() as stack:
        if address is not None:
            stack.enter_context(_connected(address, quiet=quiet))
        elif not quiet and sys.stderr.isatty():
            bar: Any = import_module("dask.diagnostics")  # Dask is typed in part only
            stack.enter_context(bar.ProgressBar(out=sys.stderr))
        try:
            yield
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            raise BadData(str(error)) from None


def _connected(address: str, *, quiet: bool) -> Any:
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise ImportError("--cluster needs distributed: pip install 'certeq[dask]'") from None
    try:
        client = distributed.Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise BadData(
            f"--cluster {address}: no Dask scheduler answers there within {_PATIENCE} s ({reason})."
        ) from None
    if not quiet:
        note(f"running on {address}; its dashboard is {client.dashboard_link}")
    return client


def pandas() -> Any:
    """The module, or one line that names the extra it comes with."""
    try:
        import pandas as found
    except ImportError:
        raise ImportError("reading files needs pandas: pip install 'certeq[cli]'") from None
    return found


def read_table(path: Path, columns: list[str] | None = None) -> pd.DataFrame:
    """The file as a table. Parquet keeps its types and, where it has one, its index; CSV its first column as data."""
    if not path.exists():
        raise BadData(f"{path}: no such file.")
    if path.is_dir():
        raise BadData(f"{path}: is a directory, not a file.")
    if path.stat().st_size == 0:
        raise BadData(f"{path}: the file is empty.")
    return _read_parquet(path, columns) if _is_parquet(path) else _read_csv(path, columns)


def column_names(path: Path) -> list[str]:
    """Names of the columns without reading the rest."""
    if _is_parquet(path):
        return [str(name) for name in _parquet_file(path).schema_arrow.names]
    return _header(path)[0]


def separator_of(path: Path) -> str:
    """What stands between the columns of a CSV file."""
    return _header(path)[1]


def missing_column(path: Path, wanted: str, names: list[str]) -> BadData:
    """That a column is not there, what is, and what may have been meant."""
    hint = did_you_mean(wanted, names)
    return BadData(f"{path}: there is no column {wanted!r}.{hint} There are: {_listed(names)}.")


def only_numeric(path: Path, dtypes: Any, names: list[str]) -> str:
    """The one column of numbers, or a request to say which is meant."""
    pd = pandas()
    numeric = [str(name) for name, dtype in dtypes.items() if pd.api.types.is_numeric_dtype(dtype)]
    if len(numeric) != 1:
        found = "no column of numbers" if not numeric else f"{len(numeric)} columns of numbers"
        raise BadData(f"{path}: found {found}; say which with --column. There are: {_listed(names)}.")
    return numeric[0]


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as stream:
        return path.suffix.lower() in PARQUET or stream.read(4) == b"PAR1"


def _parquet_file(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install 'certeq[cli]'") from None
    try:
        return parquet.ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise BadData(f"{path}: not a readable Parquet file ({error}).") from None


def _read_parquet(path: Path, columns: list[str] | None) -> pd.DataFrame:
    _parquet_file(path)
    pd = pandas()
    try:
        return pd.read_parquet(path, columns=columns)  # type: ignore[no-any-return]
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise BadData(f"{path}: not a readable Parquet file ({error}).") from None


def _read_csv(path: Path, columns: list[str] | None) -> pd.DataFrame:
    names, separator = _header(path)
    seen: set[str] = set()
    for name in names:
        if name in seen and name.strip():
            raise BadData(f"{path}: the column {name!r} occurs twice; asset names must be distinct.")
        seen.add(name)
    pd = pandas()
    try:
        # Duplicates of the empty name are renamed by pandas; all others have been refused above.
        return pd.read_csv(path, sep=separator, usecols=columns, encoding="utf-8-sig", low_memory=False)  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        raise BadData(f"{path}: not UTF-8 text. Save it as UTF-8, or as Parquet.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error, ValueError) as error:
        raise BadData(f"{path}: not a readable CSV file ({error}).") from None


def _header(path: Path) -> tuple[list[str], str]:
    """The names in the first row and the separator between them."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            start = stream.readline(1 << 22)
            if "\0" in start:
                raise BadData(f"{path}: neither CSV text nor Parquet.")
            separator = max(_SEPARATORS, key=lambda char: (start.count(char), char == ","))
            stream.seek(0)
            rows = csv.reader(stream, delimiter=separator)
            return next(rows, []), separator
    except UnicodeDecodeError:
        raise BadData(f"{path}: not UTF-8 text. Save it as UTF-8, or as Parquet.") from None
    except csv.Error as error:
        raise BadData(f"{path}: not a readable CSV file ({error}).") from None


def _listed(names: list[str], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
