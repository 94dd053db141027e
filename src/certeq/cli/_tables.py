"""Tables from files: CSV or Parquet, read as they are, with complaints that name the place."""

from __future__ import annotations

import csv
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certeq.cli._console import BadData

if TYPE_CHECKING:
    import pandas as pd

PARQUET = {".parquet", ".pq"}
_SEPARATORS = ",;\t|"


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
    close = get_close_matches(wanted, names, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
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
