"""A column of losses from a file. It is named by the caller, or there is no other that could be meant."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_choice
from certeq.data._dates import parsed_dates
from certeq.data._numbers import decimal_of, may_be_numbers
from certeq.data._tables import (
    BadData,
    as_numbers,
    blank_rows,
    check_file,
    column_names,
    is_text,
    listed,
    missing_column,
    pandas,
    read_table,
    row_number,
    without_texts,
)


@dataclass
class LossData:
    """A column of numbers, its name, where it came from, and what was understood on the way.

    Attributes
    ----------
    column : str
        Name of the column.
    values : array of float
        The numbers, all finite.
    source : str
        Name of the file.
    notes : list of str
        What was guessed on the way.

    See Also
    --------
    read_losses
        One column of numbers from a file.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.data import LossData
    >>> LossData("loss", np.array([1.0, 2.0]), "losses.csv").values.sum()
    np.float64(3.0)
    """

    column: str
    values: NDArray[np.float64]
    source: str
    notes: list[str] = field(default_factory=list)


def read_losses(
    path: str | Path,
    column: str | None = None,
    *,
    decimal: str | None = None,
    sheet: str | None = None,
    in_order: bool = False,
) -> LossData:
    """One column of finite numbers from a file: what ``certeq estimate`` reads.

    Parameters
    ----------
    path : str or Path
        CSV (also .gz), Parquet or .xlsx.
    column : str, optional
        Its name. May be left out where the file has one column of numbers and no text that could be numbers.
    decimal : "." or ",", optional
        The decimal sign; told by the numbers if None, and asked for where they do not tell.
    sheet : str, optional
        Sheet of an Excel file; the first if None.
    in_order : bool
        Whether to sort by the dates of the file, its index or first column, where it has any.

    Returns
    -------
    LossData
        The numbers and what was guessed on the way.

    See Also
    --------
    LossData
        What `certeq.data.read_losses` returns.
    read_prices
        Prices or returns from a file.
    certeq.estimate
        OCE of losses with standard error and confidence interval.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from certeq.data import read_losses
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "losses.csv"
    >>> _ = path.write_text("id;loss\\n1;0,5\\n2;1.200,25\\n")
    >>> read_losses(path, "loss").values
    array([5.00000e-01, 1.20025e+03])
    """
    path = Path(path)
    if decimal is not None:
        check_choice("decimal", decimal, (".", ","))
    check_file(path)
    names = column_names(path, sheet)
    if column is not None and column not in names:
        raise missing_column(path, column, names)
    notes: list[str] = []
    columns = None if column is None else [column]
    table = read_table(path, columns, sheet=sheet)
    name = only_column(path, table, names) if column is None else column
    table = as_numbers(table, [name], path, decimal, notes, columns=columns)
    values = finite_numbers(table[name], path, name)
    if skipped := blank_rows(path):
        notes.append(f"{len(skipped)} blank line(s) skipped, the first in row {skipped[0] + 1} of the data.")
    if in_order:
        values = _sorted_by_date(values, path, name, sheet, notes)
    return LossData(name, values, path.name, notes)


def only_column(path: Path, table: Any, names: list[str]) -> str:
    """The one column that can hold losses, or a request to say which is meant."""
    _check_names(path, names)
    kind = pandas().api.types
    numeric = [
        str(name)
        for name in table.columns
        if kind.is_numeric_dtype(table[name].dtype) and not kind.is_bool_dtype(table[name].dtype)
    ]
    texts = [str(name) for name in table.columns if is_text(table[name]) and may_be_numbers(table[name])]
    if len(names) == len(texts) == 1:  # there is no other
        return texts[0]
    if len(numeric) != 1 or texts:
        found = (
            "no column of numbers" if not numeric else f"{len(numeric)} column{'s' * (len(numeric) != 1)} of numbers"
        )
        if texts:
            found += f", and {listed(texts, 3)} may be numbers as well"
        raise BadData(f"{path}: found {found}; say which with --column. There are: {listed(names)}.")
    return numeric[0]


def _check_names(path: Path, names: list[str]) -> None:
    """Refuse a first row of numbers, which would be lost; 0, 1, ... is how pandas names columns."""
    if names and all(decimal_of(name) is not None for name in names) and names != list(map(str, range(len(names)))):
        raise BadData(
            f"{path}: the first row holds {listed(names, 3)}, where the names of the columns belong. Add a row of "
            "names, or say with --column that one of these is a name."
        )


def finite_numbers(column: Any, path: Path, name: str) -> NDArray[np.float64]:
    """The column as numbers; one that is not finite is refused with its row."""
    pd = pandas()
    kind = pd.api.types
    if kind.is_datetime64_any_dtype(column.dtype) or kind.is_timedelta64_dtype(column.dtype):
        raise BadData(f"{path}: column {name!r} holds dates or times, not losses.")
    if kind.is_bool_dtype(column.dtype):
        raise BadData(f"{path}: column {name!r} holds true and false, not numbers.")
    numbers, wrong = without_texts(column)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadData(
            f"{path}: column {name!r} holds {str(column.iloc[row])[:40]!r} in row {row_number(path, row)}, which is "
            "not a number."
        )
    values = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    if values.size == 0:
        raise BadData(f"{path}: column {name!r} has no rows.")
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        what = "empty" if np.isnan(values[row]) else "infinite"
        raise BadData(
            f"{path}: column {name!r} is {what} in row {row_number(path, row)} ({int(bad.sum())} such row(s)); remove "
            "them first."
        )
    return np.asarray(values)


def _sorted_by_date(
    values: NDArray[np.float64], path: Path, name: str, sheet: str | None, notes: list[str]
) -> NDArray[np.float64]:
    """By the dates of the file, its index or first column; as they are where there are none."""
    pd = pandas()
    first = column_names(path, sheet)[0]
    table = read_table(path, [first] if first.strip() else None, sheet=sheet)
    if not isinstance(table.index, pd.RangeIndex):
        dates = table.index
    elif first == name:
        return values
    else:
        try:
            dates = parsed_dates(table.iloc[:, 0], path)
        except BadData:  # names, numbers: no dates, and any order is as good
            return values
    if not isinstance(dates, pd.DatetimeIndex) or dates.is_monotonic_increasing:
        return values
    if dates.is_monotonic_decreasing:
        return values[::-1].copy()
    notes.append("the dates were not in order; the losses have been sorted by them.")
    return values[np.argsort(dates.to_numpy(), kind="stable")]
