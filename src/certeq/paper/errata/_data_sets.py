"""The last day of the data: from the files where they are to be had, and without them from the printed shapes.

A file says itself when it ends. Without one there are two other witnesses, independent of each other: skfolio's own
description of the data set, and the printed number of days, which a calendar of trading days turns into a date.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from certeq.paper.errata._finding import Finding

LAST, PRINTED_LAST = "2023-05-31", "2026-05-26"
FIRST = {"ftse100": "2000-01-04", "nasdaq": "2018-01-02"}
# A day of mourning on which New York did not trade, which no rule of the calendar knows.
_CLOSED = (date(2018, 12, 5),)


def data_sets() -> Finding:
    """FTSE 100 and Nasdaq, each by the strongest evidence there is."""
    from certeq.paper._panels import MARKETS, find_panel

    said, agree = [], []
    for key in FIRST:
        market, panel = MARKETS[key], find_panel(key)
        days, assets = market.shape
        if not panel.synthetic:
            shape, last = (len(panel.train) + len(panel.test), panel.train.shape[1]), str(panel.test.index[-1].date())
            said.append(f"{market.title}, by its file: {shape[0]} x {shape[1]}, last day {last}")
            agree.append(shape == market.shape and last == LAST)
            continue
        described = description(market.loader)
        words = (
            f"{market.title}, without its file: skfolio describes {described[2]} prices of {described[3]} assets to "
        )
        words += described[1]
        fits = described == (FIRST[key], LAST, days + 1, assets)
        if key == "nasdaq":
            right, printed = (len(trading_days(FIRST[key], end)) for end in (LAST, PRINTED_LAST))
            words += f"; New York traded on {right} days up to then and on {printed} up to {PRINTED_LAST}"
            fits = fits and right == days + 1 and printed > days + 1
        said.append(words)
        agree.append(fits)
    return Finding(
        "Data sets",
        f"skfolio's FTSE and Nasdaq data end on {LAST}; their shapes agree",
        f"FTSE and Nasdaq up to {PRINTED_LAST}",
        "; ".join(said),
        all(agree),
    )


def description(loader: str) -> tuple[str, str, int, int]:
    """First and last day, number of days and of assets, as the loader's documentation states them."""
    import skfolio.datasets

    text = getattr(skfolio.datasets, loader).__doc__ or ""
    span = re.search(r"from\s+(\d{4}-\d{2}-\d{2})\s+(?:up\s+)?to\s+(\d{4}-\d{2}-\d{2})", text)
    sizes = [re.search(rf"{word}\s+(\d+)", text) for word in ("Observations", "Assets")]
    if span is None or sizes[0] is None or sizes[1] is None:
        raise ValueError(f"skfolio's {loader} no longer states the span and the size of its data.")
    return span[1], span[2], int(sizes[0][1]), int(sizes[1][1])


def trading_days(first: str, last: str) -> Any:
    """Days on which the New York exchanges traded, both ends included, from the rules of their holidays."""
    import pandas as pd
    from pandas.tseries import holiday as rules

    calendar = rules.AbstractHolidayCalendar(
        "New York",
        rules=[
            # A New Year's Day on a Saturday is not made up for: the Friday before belongs to the old year.
            rules.Holiday("New Year", month=1, day=1, observance=rules.sunday_to_monday),
            rules.USMartinLutherKingJr,
            rules.USPresidentsDay,
            rules.GoodFriday,
            rules.USMemorialDay,
            rules.Holiday("Juneteenth", month=6, day=19, start_date="2022-01-01", observance=rules.nearest_workday),
            rules.Holiday("Independence Day", month=7, day=4, observance=rules.nearest_workday),
            rules.USLaborDay,
            rules.USThanksgivingDay,
            rules.Holiday("Christmas", month=12, day=25, observance=rules.nearest_workday),
        ],
    )
    closed = calendar.holidays(first, last).union(pd.DatetimeIndex(_CLOSED))
    return pd.bdate_range(first, last).difference(closed)
