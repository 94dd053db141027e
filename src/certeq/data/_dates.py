"""Dates as people write them: ISO, with the day or the month in front, as whole numbers, with zones."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from certeq.data._tables import BadData, pandas

if TYPE_CHECKING:
    import pandas as pd


def day_of(when: object) -> str:
    """A date as a message shows it; the hour too, where there is one."""
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
    index = parsed_dates(labels, source)
    twice = index.duplicated()
    if twice.any():
        day = index[int(np.argmax(twice))]
        raise BadData(
            f"{source}: the date {str(day)[:10]} occurs more than once ({int(twice.sum())} repetition(s) in all). For "
            "a long table, with a row for each date and asset, pass --asset-column and --value-column."
        )
    rest = rest.copy(deep=False)
    rest.index = index
    return rest


def parsed_dates(labels: Any, source: str) -> Any:
    """Dates from a column, all of them readable; on a common clock where they have zones."""
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
