"""How often returns come: the number of periods in a year, told from their dates or asked for, never assumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_number

Days = NDArray[np.int64]
TRADING_DAYS = 252
CALENDAR_DAYS = 365
_DAY = 86_400  # seconds
_YEAR = 365.25  # days
_MONTH = _YEAR / 12.0
_SHARE = 0.9  # of the gaps between dates that must be as long as the period says: holidays and holes are the rest
_PERIODS = {TRADING_DAYS: "day", CALENDAR_DAYS: "day", 52: "week", 12: "month", 4: "quarter", 1: "year"}
_ADJECTIVES = {
    "day": "daily",
    "week": "weekly",
    "month": "monthly",
    "quarter": "quarterly",
    "year": "yearly",
    "period": "periodic",
}


@dataclass(frozen=True)
class Frequency:
    """How many periods make a year, and what one of them is called.

    Parameters
    ----------
    periods_per_year : float
        What a mean return is multiplied by for a year; 252 for trading days.
    period : str
        "day", "week", "month", "5-minute bar", ...; "period" where nothing tells what it is.

    See Also
    --------
    frequency_of
        The frequency that dates tell.
    PriceData
        What `certeq.data.read_prices` returns.

    Examples
    --------
    >>> from certeq.data import Frequency
    >>> weekly = Frequency(52, "week")
    >>> weekly.plural, weekly.adjective, str(weekly)
    ('weeks', 'weekly', '52 weeks a year')
    """

    periods_per_year: float
    period: str = "period"

    @property
    def plural(self) -> str:
        """Several of the period."""
        return f"{self.period}s"

    @property
    def adjective(self) -> str:
        """What a return, a loss or a rebalancing of one period is called."""
        return _ADJECTIVES.get(self.period, self.period.removesuffix(" bar").removesuffix(" period"))

    def contradiction(self, dates: Any) -> str | None:
        """What dates tell instead of this frequency, in a sentence; None where they agree or do not tell.

        Parameters
        ----------
        dates : DatetimeIndex, PeriodIndex, array of datetime64, or None
            The dates, in any order.

        Returns
        -------
        str or None
            The sentence.
        """
        seconds = _seconds(dates)
        found = None if seconds is None else _inferred(seconds)
        if not isinstance(found, Frequency) or self.period == found.period:
            return None
        return f"the dates look {found.adjective} ({found}), but {self.periods_per_year:g} a year were asked for."

    def __str__(self) -> str:
        return f"{self.periods_per_year:,.10g}".replace(",", "") + f" {self.plural} a year"


def frequency_of(dates: Any, periods_per_year: float | None = None, *, name: str = "periods_per_year") -> Frequency:
    """How often something that has these dates comes.

    Daily, weekly, monthly, quarterly and intraday dates are told apart by the gaps between them; holidays, shortened
    days and a few holes do no harm. 252 days make a year where weekends are left out, 365 where they are not.

    Not guessed: irregular dates, and intraday dates of less than a week, are refused unless ``periods_per_year`` says
    how many there are in a year.

    Parameters
    ----------
    dates : DatetimeIndex, PeriodIndex, array of datetime64, or None
        The dates, in any order; None where there are none.
    periods_per_year : float, optional
        What to use instead of the dates.
    name : str
        What an error calls ``periods_per_year``.

    Returns
    -------
    Frequency
        How many periods make a year, and what one is called.

    See Also
    --------
    Frequency
        How many periods make a year.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.data import frequency_of
    >>> str(frequency_of(np.arange("2020-01", "2024-01", dtype="datetime64[M]")))
    '12 months a year'
    >>> str(frequency_of(None, 252))
    '252 days a year'
    """
    if periods_per_year is not None:
        check_number(name, periods_per_year, above=0.0)
    seconds = _seconds(dates)
    found = "there are no dates" if seconds is None else _inferred(seconds)
    if periods_per_year is None:
        if isinstance(found, Frequency):
            return found
        raise ValueError(
            f"{name} must be given where the dates do not tell it: {found}. 252 is usual for trading days, 52 for "
            "weeks, 12 for months."
        )
    asked = float(periods_per_year)
    if isinstance(found, Frequency):  # 260 instead of 252 are still days
        near = 0.8 * found.periods_per_year < asked < 1.25 * found.periods_per_year
        return Frequency(asked, found.period if near else "period")
    named = _PERIODS.get(round(asked), "period") if seconds is None and asked == round(asked) else "period"
    return Frequency(asked, named)


def _seconds(dates: Any) -> Days | None:
    """Seconds on the clock of the dates, in order and without repetition; None where there are no dates."""
    if hasattr(dates, "to_timestamp"):  # a PeriodIndex
        dates = dates.to_timestamp()
    if getattr(dates, "tz", None) is not None:
        dates = dates.tz_localize(None)
    values = np.asarray(dates)
    if values.dtype.kind != "M":
        return None
    return np.unique(values[~np.isnat(values)].astype("datetime64[s]").astype(np.int64))


def _inferred(seconds: Days) -> Frequency | str:
    """The frequency, or why it cannot be told."""
    if len(seconds) < 3:
        return f"found {len(seconds)} date(s), too few to tell"
    days, rows = np.unique(seconds // _DAY, return_counts=True)
    if rows.max() > 1:
        return _intraday(seconds, days, rows)
    gaps = np.diff(days)
    middle = float(np.median(gaps))
    if middle == 1.0:
        count = _days_per_year(days)
        return count if isinstance(count, str) else Frequency(count, "day")
    for length, slack, frequency in _REGULAR:
        near = gaps[np.abs(gaps - length) <= slack]
        # Two weeks and half a month, four weeks and a month have gaps in common: their mean tells which.
        if len(near) >= _SHARE * len(gaps) and abs(near.mean() - length) <= 0.035 * length:
            return frequency
    rate = len(gaps) * _YEAR / float(days[-1] - days[0])
    return (
        f"the gaps between them range from {gaps.min():g} to {gaps.max():g} days, with {middle:g} in the middle (about "
        f"{rate:.3g} rows a year)"
    )


# Days between dates, how far from that a gap may lie, and what it is called. A month is 28 to 31 days, or 33 between
# the last trading days of two months.
_REGULAR = (
    (7.0, 2.0, Frequency(52, "week")),
    (14.0, 2.0, Frequency(26, "two-week period")),
    (_MONTH / 2.0, 3.0, Frequency(24, "half-month")),
    (28.0, 1.0, Frequency(13, "four-week period")),
    (_MONTH, 5.0, Frequency(12, "month")),
    (2.0 * _MONTH, 6.0, Frequency(6, "two-month period")),
    (3.0 * _MONTH, 6.0, Frequency(4, "quarter")),
    (6.0 * _MONTH, 8.0, Frequency(2, "half-year")),
    (_YEAR, 10.0, Frequency(1, "year")),
)


def _days_per_year(days: Days) -> int | str:
    """252 or 365, by whether weekends are left out; or why it cannot be told."""
    if days[-1] - days[0] < 7:
        return f"they cover {days[-1] - days[0] + 1} day(s), too few to see whether weekends count"
    gaps = np.diff(days)
    short = gaps[gaps <= 7]  # longer ones are holes, or the holidays of a whole week
    if len(short) < _SHARE * len(gaps):
        return f"{len(gaps) - len(short)} of {len(gaps)} gaps between the days are longer than a week"
    mean = float(short.mean())
    if mean <= 1.06:
        return CALENDAR_DAYS
    on_weekday = np.sort(np.bincount((days + 3) % 7, minlength=7))
    rate = _YEAR / mean
    # A few days cannot show the rate of a year: two holidays among ten days are 20 % fewer.
    if on_weekday[:2].sum() <= 0.04 * len(days) and abs(rate - TRADING_DAYS) <= 18.0 + 300.0 / len(gaps):
        return TRADING_DAYS
    count = int((on_weekday > 0.04 * len(days)).sum())
    return f"found about {rate:.0f} days a year, on {count} days of the week"


def _intraday(seconds: Days, days: Days, rows: Days) -> Frequency | str:
    """Rows of a day times days of a year."""
    usual = float(np.median(rows))
    alike = np.abs(rows - usual) <= max(1.0, 0.1 * usual)
    if len(rows) > 2:  # the first and the last day may be cut
        alike = alike[1:-1]
    if usual < 2.0 or alike.mean() < 0.8:
        return f"days have between {rows.min()} and {rows.max()} rows"
    count = _days_per_year(days)
    if isinstance(count, str):
        return f"with about {usual:g} rows a day, {count}"
    gaps = np.diff(seconds)
    step = int(np.median(gaps[gaps < _DAY // 2])) if (gaps < _DAY // 2).any() else int(np.median(gaps))
    return Frequency(round(usual) * count, _bar(step))


def _bar(step: int) -> str:
    for size, unit in ((3600, "hour"), (60, "minute")):
        if step % size == 0:
            return f"{step // size}-{unit} bar"
    return f"{step}-second bar"
