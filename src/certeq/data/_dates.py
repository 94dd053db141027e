"""Dates as people write them: ISO, with the day or the month in front, as whole numbers, with zones."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from certeq.data._tables import BadData, pandas, row_number

if TYPE_CHECKING:
    import pandas as pd

_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")
_NO_YEAR = re.compile(r"\s*(?:\d{1,2}[ ./-]*[^\W\d]+|[^\W\d]+[ ./-]*\d{1,2})\s*")  # Jan-15, 15 Jan
_SERIALS = (20_000, 80_000)  # days since 1899-12-30, as Excel counts them, from 1954 to 2119


def day_of(when: object) -> str:
    """A date as a message shows it; the hour too, where there is one."""
    return str(when)[:10] if str(when).endswith("00:00:00") else str(when)


def dated(table: pd.DataFrame, source: Path, *, header: int = 1) -> pd.DataFrame:
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
    index = parsed_dates(labels, source, header=header)
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


def parsed_dates(labels: Any, source: Path, *, header: int = 1) -> Any:
    """Dates from a column of a file, all of them readable; where they have zones, by the clock on the wall there."""
    pd = pandas()
    if pd.api.types.is_datetime64_any_dtype(labels):
        dates = pd.Series(labels)
    elif pd.api.types.is_numeric_dtype(labels):
        # 20240131 is a date; 0, 1, 2 (and prices) are not, though pandas would take them for nanoseconds.
        if not (labels.notna().all() and labels.between(19000101, 22001231).all() and (labels % 1 == 0).all()):
            number, hint = labels.iloc[0], ""
            if labels.between(*_SERIALS).all():
                day = pd.Timestamp("1899-12-30") + pd.Timedelta(days=int(number))
                hint = f" As Excel counts days, {number:g} is {day.date()}: format those cells as dates."
            raise BadData(
                f"{source}: the first column must hold dates such as 2024-01-31; found numbers ({number:g}, ...).{hint}"
            )
        dates = pd.to_datetime(labels.astype("int64").astype(str), format="%Y%m%d", errors="coerce")
    else:
        text = labels.astype(str).where(labels.notna())
        dates = _zoned(text) if _has_zone(text) else pd.to_datetime(text, format="ISO8601", errors="coerce")
        if dates.isna().any():
            dates = _guessed(text, source)
    unread = dates.isna().to_numpy()
    if unread.any():
        row = int(np.argmax(unread))
        raise BadData(
            f"{source}: row {row_number(source, row, header)} of the data starts with {str(labels.iloc[row])[:40]!r}, "
            f"which is not a date (or not in the format of the first one); {int(unread.sum())} such row(s). Write "
            "dates as 2024-01-31."
        )
    if dates.dt.tz is not None:
        dates = _on_the_wall(dates.dt.tz_localize(None), dates.dt.tz_convert("UTC"))
    return pd.DatetimeIndex(dates)


def _zoned(text: Any) -> Any:
    """Dates with offsets, which cannot be read without a common clock where they change with summer time."""
    pd = pandas()
    common = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    local = pd.to_datetime(text.str.replace(_ZONE, "", regex=True), format="ISO8601", errors="coerce")
    return _on_the_wall(local, common)


def _on_the_wall(local: Any, common: Any) -> Any:
    """Times without their zones: a Monday in Tokyo is a Monday, though in Greenwich it is Sunday when it begins.

    An hour that occurs twice, when summer ends, leaves the common clock.
    """
    if local.nunique() == common.nunique():
        return local
    return common.dt.tz_localize(None)


def _guessed(text: Any, source: Path) -> Any:
    """Dates in another form than ISO: the first fixes it, with the month or the day in front, whichever reads all."""
    pd = pandas()
    if len(text) and text.str.fullmatch(_NO_YEAR).any():
        bare = text[text.str.fullmatch(_NO_YEAR).eq(True)].iloc[0]
        raise BadData(f"{source}: {bare[:40]!r} has no year of four digits. Write dates as 2024-01-31.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        american, european = (pd.to_datetime(text, errors="coerce", dayfirst=first) for first in (False, True))
    if american.notna().all() and european.notna().all() and not american.equals(european):
        raise BadData(
            f"{source}: {str(text.iloc[0])[:40]!r} may have the day or the month in front, and the rows do not tell "
            "which. Write dates as 2024-01-31."
        )
    return european if european.notna().sum() > american.notna().sum() else american


def _has_zone(text: Any) -> bool:
    """Whether there are times with an offset from a common clock."""
    return bool(text.str.contains(_ZONE, regex=True, na=False).any()) and bool(
        text.str.contains(":", regex=False, na=False).any()
    )
