"""Files as tables: CSV (also packed by gzip), Parquet and Excel, with the columns as they are written.

What cannot be read is refused by the name of the file, and says what would be right.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path
from typing import TYPE_CHECKING, Any

from certeq._checks import did_you_mean
from certeq.data._excel import NotExcel, read_sheet
from certeq.data._numbers import Undecided, Written, choose_decimal, may_be_numbers, may_be_thousands, parse

if TYPE_CHECKING:
    import pandas as pd

PARQUET = {".parquet", ".pq"}
EXCEL = {".xlsx", ".xlsm"}
TABLES = {*PARQUET, ".csv", ".csv.gz"}
_OLD_EXCEL = {".xls", ".ods", ".xlsb"}
_SEPARATORS = ",;\t|"
_HEADER_ROWS = 6  # rows looked at for where the data begin
_MOST = 1 << 31  # bytes that a packed file may unpack to
_SOME = 100  # cells of a column that show how its numbers are written
_BLANK = re.compile(rb"(?:\r\n|\n|\r)[ \t]*(?:\r\n|\n|\r)")
_PACKED = b"\x1f\x8b"


class BadData(ValueError):
    """A file, or the data in it, do not allow what was asked; the text says where and what would be right.

    See Also
    --------
    read_prices
        Prices or returns from a file.
    read_losses
        One column of numbers from a file.

    Examples
    --------
    >>> from certeq.data import BadData, read_prices
    >>> try:
    ...     read_prices("missing.csv")
    ... except BadData as error:
    ...     print(error)
    missing.csv: no such file.
    """


def pandas() -> Any:
    """The module, or one line that names the extra it comes with."""
    try:
        import pandas as found
    except ImportError:
        raise ImportError("reading files needs pandas: pip install 'certeq[cli]'") from None
    return found


def suffix_of(path: Path) -> str:
    """What a name ends in, in small letters; of a packed file, both endings."""
    parts = [part.lower() for part in path.suffixes[-2:]]
    return "".join(parts) if parts and parts[-1] == ".gz" else path.suffix.lower()


def check_file(path: Path) -> None:
    """Refuse what is no file or holds nothing."""
    if not path.exists():
        raise BadData(f"{path}: no such file.")
    if path.is_dir():
        raise BadData(f"{path}: is a directory, not a file.")
    if not path.is_file():  # its size is 0, and reading may never end
        raise BadData(f"{path}: is not a regular file, but a pipe or a device; save what it gives to a file first.")
    if path.stat().st_size == 0:
        raise BadData(f"{path}: the file is empty.")
    if suffix_of(path) in _OLD_EXCEL:
        raise BadData(f"{path}: {suffix_of(path)} files are not read; save it as .xlsx, CSV or Parquet.")


def read_table(
    path: Path, columns: list[str] | None = None, *, sheet: str | None = None, header: int = 1
) -> pd.DataFrame:
    """The file as a table. Parquet keeps its types and, where it has one, its index; others their first column as data.

    With ``header`` above 1 the columns are numbered: what so many rows call them is the caller's to read.
    """
    check_file(path)
    _check_sheet(path, sheet)
    if is_parquet(path):
        return _read_parquet(path, columns)
    if is_excel(path):
        rows = sheet_rows(path, sheet)
        return _from_rows(rows, path, columns, header)
    return _read_csv(path, columns, header)


def _check_sheet(path: Path, sheet: str | None) -> None:
    """Refuse a sheet of what has none, as a name that is passed over may be that of another file."""
    if sheet is not None and not is_excel(path):
        raise BadData(f"{path}: --sheet {sheet!r} is for Excel files; this is none.")


def first_rows(path: Path, sheet: str | None = None) -> list[list[Any]]:
    """The first rows as they are written; none of a Parquet file, which says itself what its columns are called."""
    check_file(path)
    _check_sheet(path, sheet)
    if is_parquet(path):
        return []
    return sheet_rows(path, sheet)[:_HEADER_ROWS] if is_excel(path) else _first_csv_rows(path)[0]


def column_names(path: Path, sheet: str | None = None) -> list[str]:
    """Names of the columns without reading the rest."""
    if is_parquet(path):
        return [str(name) for name in parquet_file(path).schema_arrow.names]
    rows = first_rows(path, sheet)
    return ["" if name is None else str(name) for name in rows[0]] if rows else []


def separator_of(path: Path) -> str:
    """What stands between the columns of a CSV file."""
    return _first_csv_rows(path)[1]


def missing_column(path: Path, wanted: str, names: list[str]) -> BadData:
    """That a column is not there, what is, and what may have been meant."""
    hint = did_you_mean(wanted, names)
    return BadData(f"{path}: there is no column {wanted!r}.{hint} There are: {listed(names)}.")


def listed(names: list[str], most: int = 12) -> str:
    """Names for a message, the first of them if there are many."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def is_parquet(path: Path) -> bool:
    """By its name or its first letters."""
    with path.open("rb") as stream:
        return suffix_of(path) in PARQUET or stream.read(4) == b"PAR1"


def is_excel(path: Path) -> bool:
    """By its name or its first letters, which are those of a zip archive."""
    with path.open("rb") as stream:
        return suffix_of(path) in EXCEL or stream.read(4) == b"PK\x03\x04"


def parquet_file(path: Path) -> Any:
    """An open Parquet file."""
    try:
        import pyarrow.parquet as parquet
        from pyarrow import ArrowException
    except ImportError:
        raise ImportError("reading Parquet needs pyarrow: pip install 'certeq[cli]'") from None
    try:
        return parquet.ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise BadData(f"{path}: not a readable Parquet file ({error}).") from None


def sheet_rows(path: Path, sheet: str | None) -> list[list[Any]]:
    """The rows of an Excel sheet."""
    try:
        rows, _, _ = read_sheet(path, sheet)
    except NotExcel as error:
        raise BadData(f"{path}: {error}.") from None
    if not rows:
        raise BadData(f"{path}: the sheet is empty.")
    return rows


def _from_rows(rows: list[list[Any]], path: Path, columns: list[str] | None, header: int) -> pd.DataFrame:
    pd = pandas()
    names: list[Any] = list(range(len(rows[0]))) if header > 1 else _checked_names([_name(c) for c in rows[0]], path)
    table = pd.DataFrame(rows[header:], columns=names, dtype=object).infer_objects()
    return table if columns is None else table[columns]


def _name(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _checked_names(names: list[str], path: Path) -> list[str]:
    """Names of columns, distinct; those without one are numbered, as pandas does it."""
    seen: set[str] = set()
    for name in names:
        if name in seen and name.strip():
            raise BadData(f"{path}: the column {name!r} occurs twice; asset names must be distinct.")
        seen.add(name)
    return [name if name.strip() else f"Unnamed: {i}" for i, name in enumerate(names)]


def _read_parquet(path: Path, columns: list[str] | None) -> pd.DataFrame:
    parquet_file(path)
    pd = pandas()
    try:
        return pd.read_parquet(path, columns=columns)  # type: ignore[no-any-return]
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise BadData(f"{path}: not a readable Parquet file ({error}).") from None


def _read_csv(path: Path, columns: list[str] | None, header: int, *, as_text: bool = False) -> pd.DataFrame:
    rows, separator = _first_csv_rows(path)
    if header == 1:
        _checked_names(rows[0] if rows else [], path)
    check_width(rows, path, header)
    shape: dict[str, Any] = {} if header == 1 else {"header": None, "skiprows": header}
    kinds: dict[str, Any] = {"dtype": str} if as_text else exact_floats()
    pd = pandas()
    try:
        # Columns without a name are numbered by pandas; equal names have been refused above.
        return pd.read_csv(  # type: ignore[no-any-return]
            _opened(path),
            sep=separator,
            usecols=columns,
            index_col=False,
            encoding=encoding_of(path),
            low_memory=False,
            **kinds,
            **shape,
        )
    except UnicodeDecodeError:
        raise BadData(f"{path}: not UTF-8 text. Save it as UTF-8, or as Parquet.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error, ValueError) as error:
        if isinstance(error, BadData):
            raise
        raise BadData(f"{path}: not a readable CSV file ({error}).") from None


def check_width(rows: list[list[Any]], path: Path, header: int = 1) -> None:
    """Refuse rows with more cells than there are headings: they would be read one column too far to the right."""
    width = len(rows[header - 1]) if rows else 0
    for number, row in enumerate(rows[header:], 1):
        if any(str(cell).strip() for cell in row[width:]):
            raise BadData(
                f"{path}: row {number} of the data has {len(row)} cells and the header {width}. Numbers with a decimal "
                "comma, between columns that commas separate, must be in quotes."
            )


def exact_floats() -> dict[str, Any]:
    """What makes pandas read a number as the same float in every format: before 3.1 it may be off in the last digit."""
    version = tuple(int(part) for part in pandas().__version__.split(".")[:2])
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}


def read_text(path: Path, columns: list[str] | None = None, header: int = 1) -> pd.DataFrame | None:
    """A CSV file as it is written, every cell a text; None of formats in which numbers are numbers."""
    return None if is_parquet(path) or is_excel(path) else _read_csv(path, columns, header, as_text=True)


def blank_rows(path: Path, header: int = 1) -> list[int]:
    """Which rows below the headings of a CSV file are blank, counted from 0; pandas skips them. None at the end."""
    if is_parquet(path) or is_excel(path):
        return []
    encoding, source = encoding_of(path), _opened(path)
    content = source.read_bytes() if isinstance(source, Path) else source.getvalue()
    if encoding != "utf-8-sig":
        content = content.decode(encoding).encode()
    if not _BLANK.search(content):  # which takes less time than reading it as rows
        return []
    stream = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    found, row, seen = [], 0, 0
    try:
        for cells in csv.reader(stream, delimiter=separator_of(path)):
            blank = not cells or (len(cells) == 1 and bool(cells[0]) and not cells[0].strip())
            if seen >= header:
                if blank:
                    found.append(row)
                row += 1
            seen += not blank
    except csv.Error:  # a cell larger than this reader takes, though pandas does
        return []
    while found and found[-1] == row - 1:  # the end of a file may be blank
        row = found.pop()
    return found


def row_number(path: Path, row: int, header: int = 1) -> int:
    """What a message calls a row of the table, counted from 0: blank lines, which are no rows of it, count as well."""
    for blank in blank_rows(path, header):
        row += blank <= row
    return row + 1


def _opened(path: Path) -> Any:
    """A path, or what a packed file unpacks to."""
    if not _is_packed(path):
        return path
    try:
        with gzip.open(path) as stream:
            content = stream.read(_MOST + 1)
    except (OSError, EOFError) as error:
        raise BadData(f"{path}: not a readable gzip file ({error}).") from None
    if len(content) > _MOST:
        raise BadData(f"{path}: unpacks to more than {_MOST >> 30} GiB; save it as Parquet.")
    return io.BytesIO(content)


def encoding_of(path: Path) -> str:
    """UTF-8, or UTF-16 where the file begins as such: what Excel saves as "Unicode text"."""
    with (gzip.open if _is_packed(path) else open)(path, "rb") as stream:
        return "utf-16" if stream.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"


def _is_packed(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == _PACKED


def _first_csv_rows(path: Path) -> tuple[list[list[Any]], str]:
    """The first rows and the separator between their cells."""
    try:
        with (gzip.open if _is_packed(path) else open)(path, "rt", encoding=encoding_of(path), newline="") as stream:
            start = stream.readline(1 << 22)
            if "\0" in start:
                raise BadData(f"{path}: neither CSV text nor Parquet.")
            lines = [start, *(stream.readline(1 << 22) for _ in range(4 * _HEADER_ROWS))]
            separator = _separator(lines)
            rows = csv.reader([line for line in lines if line], delimiter=separator)
            return [row for _, row in zip(range(_HEADER_ROWS), rows, strict=False)], separator
    except UnicodeDecodeError:
        raise BadData(f"{path}: not UTF-8 text. Save it as UTF-8, or as Parquet.") from None
    except (OSError, EOFError, csv.Error) as error:
        raise BadData(f"{path}: not a readable CSV file ({error}).") from None


def _separator(lines: list[str]) -> str:
    """The most frequent one of the headings; of a single column one that is nowhere, as a comma there is decimal."""
    if not any(char in lines[0] for char in _SEPARATORS):
        return next((char for char in ",;\t|" if not any(char in line for line in lines)), ",")
    return max(_SEPARATORS, key=lambda char: (lines[0].count(char), char == ","))


def is_text(column: Any) -> bool:
    """Whether a column holds texts rather than numbers, dates, or true and false."""
    pd = pandas()
    kind = pd.api.types
    return not (
        kind.is_numeric_dtype(column.dtype)
        or kind.is_bool_dtype(column.dtype)
        or kind.is_datetime64_any_dtype(column.dtype)
        or kind.is_timedelta64_dtype(column.dtype)
    )


def _like_thousands(
    table: pd.DataFrame, names: list[Any], path: Path, columns: list[str] | None, header: int
) -> list[str]:
    """A note where every point of a file may separate thousands, as 1.802 between semicolons may be 1802."""
    if is_parquet(path) or is_excel(path) or separator_of(path) != ";":
        return []
    points = [name for name in names if pandas().api.types.is_float_dtype(table[name].dtype)]
    sizes = table[points].abs().to_numpy()
    if not points or ((sizes > 0.0) & (sizes < 1.0)).any():  # a fraction has a decimal point
        return []
    source = read_text(path, columns, header)
    if source is None:
        return []
    source.columns = table.columns
    cells = [cell for name in points for cell in source[name].dropna() if "." in cell]
    if not cells or not all(may_be_thousands(cell) for cell in cells):
        return []
    return [f"{cells[0]!r} was read with a decimal point; if it separates thousands pass --decimal ','."]


def decimal_of_file(columns: list[Any], path: Path) -> str:
    """The decimal sign of a file, or a request to say which it is."""
    try:
        return _decimal_of(columns)
    except Undecided as error:
        raise BadData(f"{path}: {error}: pass --decimal ',' or --decimal '.' (in Python decimal=).") from None


def _decimal_of(columns: list[Any]) -> str:
    """The decimal sign, by some cells of every column; by all of them where those do not tell."""
    for every in (False, True):
        some = (column.iloc[:: 1 if every else max(1, len(column) // _SOME)] for column in columns)
        try:
            found = choose_decimal(
                cell for part in some for cell in part.to_numpy(dtype=object) if isinstance(cell, str)
            )
        except Undecided:
            if every:
                raise
            continue
        if found:
            return found
    return "."


def as_numbers(
    table: pd.DataFrame,
    names: list[Any],
    path: Path,
    decimal: str | None,
    notes: list[str],
    *,
    columns: list[str] | None = None,
    header: int = 1,
) -> pd.DataFrame:
    """The table, read with these ``columns`` and ``header``, with numbers for texts in the named columns.

    The decimal sign is one for the whole file: where one column is text, the others are looked at as they are written,
    because "1.234" beside "5,5" is more than a thousand. A cell that is no number stays a text, for others to refuse.
    """
    texts = [name for name in names if is_text(table[name])]
    if decimal != "," and not any(may_be_numbers(table[name]) for name in texts):
        if decimal is None and not texts:
            notes += _like_thousands(table, names, path, columns, header)
        return table
    source = read_text(path, columns, header)
    if source is None:
        source = table
    else:
        source.columns, source.index = table.columns, table.index
    written = Written(decimal or decimal_of_file([source[name] for name in names], path))
    table = table.copy(deep=False)
    for name in names:
        column = source[name]
        if is_text(column):
            values, wrong = parse(column, written.decimal, written, str(name))
            if wrong.any():
                mixed = values.astype(object)
                mixed[wrong] = column.to_numpy(dtype=object)[wrong]
                table[name] = mixed
            else:
                table[name] = values
    notes += written.notes(asked=decimal is not None)
    return table


def without_texts(column: Any) -> tuple[Any, Any]:
    """The numbers of a column, and which cells are none: among them every text that `as_numbers` has left as it was."""
    numbers = pandas().to_numeric(column, errors="coerce")
    wrong = (numbers.isna() & column.notna()).to_numpy()
    if is_text(column) and not wrong.any():  # 12.5 in a file with decimal commas
        wrong = column.map(lambda cell: isinstance(cell, str)).to_numpy(dtype=bool)
    return numbers, wrong
