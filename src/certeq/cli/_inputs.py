"""What the commands read: prices as returns, or the panel that comes with skfolio; and a column over many files.

One file is read by `certeq.data`, many by Dask.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from glob import glob
from importlib import import_module
from pathlib import Path
from typing import Any

from certeq.cli._console import note
from certeq.data import BadData, PriceData, frequency_of, read_losses, read_prices
from certeq.data.tables import (
    EXCEL,
    PARQUET,
    TABLES,
    Written,
    check_file,
    check_width,
    column_names,
    decimal_of_file,
    encoding_of,
    exact_floats,
    first_rows,
    is_excel,
    is_text,
    listed,
    missing_column,
    only_column,
    parquet_file,
    parse,
    separator_of,
    suffix_of,
)

_PATIENCE = 10  # seconds to reach a cluster
_HEAD = 1000  # rows that show which column is meant


def load_panel(path: Path | None, *, periods_per_year: float | None = None, **layout: Any) -> PriceData:
    """Prices from a file as `certeq.data.read_prices` reads them; the S&P 500 panel in skfolio's wheel without one."""
    if path is not None:
        return read_prices(path, periods_per_year=periods_per_year, least_assets=2, **layout)
    try:
        from skfolio.datasets import load_sp500_dataset
        from skfolio.preprocessing import prices_to_returns
    except ImportError as error:
        raise ImportError(f"portfolios need {error.name or 'skfolio'}: pip install 'certeq[portfolio]'") from None
    prices = load_sp500_dataset()
    returns = prices_to_returns(prices)
    try:
        frequency = frequency_of(returns.index, periods_per_year, name="--periods-per-year")
    except ValueError as error:  # as `read_prices` has it
        raise BadData(str(error)) from None
    return PriceData(prices, returns, "S&P 500 panel of skfolio", frequency)


def is_many(path: Path) -> bool:
    """Whether this is a folder or a pattern rather than one file."""
    return path.is_dir() or (any(mark in str(path) for mark in "*?[") and not path.exists())


def files_of(path: Path) -> list[Path]:
    """The files of a folder or a pattern, in order of their names; all of one format."""
    found = path.iterdir() if path.is_dir() else map(Path, glob(str(path)))
    files = sorted(file for file in found if file.is_file())
    if path.is_dir():
        files = [file for file in files if suffix_of(file) in TABLES or suffix_of(file) in EXCEL]
    if not files:
        what = "is a directory without CSV or Parquet files" if path.is_dir() else "no file has such a name"
        raise BadData(f"{path}: {what}.")
    kinds = {suffix_of(file) in PARQUET for file in files}
    if len(kinds) > 1:
        raise BadData(f"{path}: found both CSV and Parquet files; name one kind, for instance '*.parquet'.")
    for file in files:
        check_file(file)
        if is_excel(file):
            raise BadData(f"{file}: of Excel files one is read at a time; many are read as CSV or Parquet.")
    return files


def lazy_column(path: Path, wanted: str | None, decimal: str | None = None) -> tuple[str, Any, str | None]:
    """A column as a Dask Series, its name before it, and after it the decimal sign where texts are read as numbers."""
    try:
        import dask.dataframe as dd
    except ImportError:
        raise ImportError("many files are read by Dask: pip install 'certeq[dask]'") from None
    files = files_of(path) if is_many(path) else [path]
    check_file(files[0])
    paths, parquet = [str(file) for file in files], suffix_of(files[0]) in PARQUET
    _check_alike(files, wanted, parquet=parquet)
    columns = None if wanted is None else [wanted]
    packed = {"compression": "gzip", "blocksize": None} if suffix_of(files[0]).endswith(".gz") else {}

    def read_csv(columns: list[str] | None, **kinds: Any) -> Any:
        separator = separator_of(files[0])
        return dd.read_csv(paths, usecols=columns, sep=separator, encoding="utf-8-sig", **kinds, **packed)

    try:
        table = dd.read_parquet(paths, columns=columns) if parquet else read_csv(columns, **exact_floats())
        name = wanted if wanted is not None else only_column(path, _head(table), list(map(str, table.columns)))
        column = table[name]
        if parquet or not (decimal == "," or is_text(column)):
            return name, column, None
        column = read_csv([name], dtype=str)[name]
        some = _head(column)
    except BadData:
        raise
    except (ValueError, UnicodeDecodeError) as error:  # pyarrow's and pandas' own are ValueErrors too
        raise BadData(f"{path}: not readable ({error}).") from None
    written = Written(decimal or decimal_of_file([some], path))
    parse(some, written.decimal, written, name)
    for text in written.notes(asked=decimal is not None):
        note(text)
    return name, column.map_partitions(_parsed, written.decimal, name, meta=(name, float)), written.decimal


def _head(table: Any) -> Any:
    """The first rows, which may be fewer than asked for."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Insufficient elements for `head`")
        return table.head(_HEAD)


def _parsed(column: Any, decimal: str, name: str) -> Any:
    """The numbers of a column of texts."""
    values, wrong = parse(column, decimal, Written(decimal), name)
    if wrong.any():
        raise ValueError(f"column {name!r} holds {str(column[wrong].iloc[0])[:40]!r}, which is not a number.")
    return type(column)(values, index=column.index, name=name)


def _check_alike(files: list[Path], wanted: str | None, *, parquet: bool) -> None:
    """Refuse, by its name, a file whose columns are not those of the first, or whose losses are dates."""
    known = column_names(files[0])
    for file in files:
        names = column_names(file)
        if wanted is not None and wanted not in names:
            raise missing_column(file, wanted, names)
        if names != known and not (parquet and wanted is not None):
            raise BadData(f"{file}: its columns are {listed(names)}, unlike those of {files[0].name}: {listed(known)}.")
        if not parquet:
            check_width(first_rows(file), file)
            if encoding_of(file) != "utf-8-sig":
                raise BadData(f"{file}: of many files each must be UTF-8 text; this one is UTF-16.")
        if parquet and wanted is not None:
            kind = str(parquet_file(file).schema_arrow.field(wanted).type)
            if kind.startswith(("timestamp", "date", "time", "duration")):
                raise BadData(f"{file}: column {wanted!r} holds dates or times ({kind}), not losses.")
            if kind == "bool":
                raise BadData(f"{file}: column {wanted!r} holds true and false, not numbers.")


def blame(path: Path, name: str, error: Exception, decimal: str | None = None) -> BadData:
    """What is wrong with many files, by the name of the file where it is, rather than of a partition nobody made."""
    for file in files_of(path) if is_many(path) else [path]:
        try:
            found = read_losses(file, name, decimal=decimal)
        except BadData as reason:
            return reason
        if found.notes and decimal is None:
            return BadData(
                f"{file}: column {name!r}: {' '.join(found.notes)} The files before it hold plain numbers; many files "
                "at once must be written alike."
            )
    return BadData(str(error))


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
