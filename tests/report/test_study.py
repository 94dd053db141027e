"""A study refuses what it cannot report on, where it is made, and says which argument, which column and which date."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from certeq.report import Strategy, render

from .conftest import study
from .test_page import Elements


@pytest.fixture(scope="module")
def whole():
    return study(["A", "B", "C"], days=300)


def changed(table, row, column, value):
    table = table.copy()
    table.iloc[row, column] = value
    return table


@pytest.mark.parametrize("name", ["fitted_on", "judged_on"])
def test_values_and_dates_are_checked(whole, name):
    table = getattr(whole, name)
    fifth = f"{table.index[5]:%Y-%m-%d}"
    for bad, message in (
        (
            changed(table, 5, 2, np.nan),
            f"{name} must be finite; found nan in column 'C' on {fifth}, 1 such value in all",
        ),
        (changed(table, 5, 1, np.inf), f"{name} must be finite; found inf in column 'B' on {fifth}"),
        (table.iloc[:0], f"{name} must have at least one row"),
        (table.reset_index(drop=True), f"{name} must have a DatetimeIndex; found RangeIndex, first 0"),
        (table.set_axis(table.index.astype(str)), f"{name} must have a DatetimeIndex; found Index, first "),
        (table.iloc[::-1], f"{name} must be in the order of time, each date once; found "),
        (table.iloc[[0, 1, 1, 2]], "in row 2. sort_index"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            replace(whole, **{name: bad})
    with pytest.raises(TypeError, match=f"{name} must be a pandas DataFrame of returns, .* found ndarray"):
        replace(whole, **{name: table.to_numpy()})
    with pytest.raises(TypeError, match=f"{name} must hold numbers; found .* in column 'B'"):
        replace(whole, **{name: table.assign(B="x")})


def test_both_tables_belong_together(whole):
    judged = whole.judged_on
    with pytest.raises(ValueError, match="same assets in the same order; found 'A' and 'C' in column 0"):
        replace(whole, judged_on=judged[["C", "A", "B"]])
    with pytest.raises(ValueError, match="same assets in the same order; found 3 and 2 columns"):
        replace(whole, judged_on=judged[["A", "B"]])
    with pytest.raises(ValueError, match="dates of one kind; found DatetimeIndex with time zone None and .* UTC"):
        replace(whole, judged_on=judged.tz_localize("UTC"))


def test_a_partial_overlap_is_refused(whole):
    everything = pd.concat([whole.fitted_on, whole.judged_on])
    both = f"{everything.index[140]:%Y-%m-%d} to {everything.index[149]:%Y-%m-%d}"
    with pytest.raises(ValueError, match=f"or none of them; found 10 of 160 among them, {both}. Leave those out."):
        replace(whole, judged_on=everything.iloc[140:])
    with pytest.raises(ValueError, match="found 150 of 300 among them"):
        replace(whole, judged_on=everything)
    assert replace(whole, judged_on=whole.fitted_on.copy()).in_sample
    earlier = replace(whole, fitted_on=whole.judged_on, judged_on=whole.fitted_on)
    assert not earlier.in_sample  # the past, which the fit did not see either


def test_dates_may_be_periods_or_have_a_time_zone(whole):
    for kind in (lambda table: table.to_period("D"), lambda table: table.tz_localize("Europe/Paris")):
        other = replace(whole, fitted_on=kind(whole.fitted_on), judged_on=kind(whole.judged_on), periods_per_year=252)
        assert other.frequency.period == "day"
        assert "<figure" in render(other)


def test_weights_and_returns_of_strategies_are_checked(whole):
    mine = whole.strategies[0]
    for bad, message in (
        (replace(mine, weights=np.ones(2)), "weights of 'CVaR' must have shape (3,), one for each asset; found (2,)"),
        (replace(mine, weights=np.array([1.0, np.nan, 0.0])), "weights of 'CVaR' must be finite; found nan at 1"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            replace(whole, strategies=(bad,))
    index = Strategy("IDX", None, returns=np.full(len(whole.judged_on), np.inf))
    with pytest.raises(ValueError, match="returns of 'IDX' must be finite; found inf at 0"):
        replace(whole, strategies=(mine, index))


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("rows", [1, 2])
def test_a_figure_that_one_day_does_not_have_is_not_nan(whole, rows):
    judged = whole.judged_on.iloc[:rows]
    index = Strategy("IDX", None, returns=judged["A"].to_numpy())
    words = " ".join(Elements(render(replace(whole, judged_on=judged, strategies=(*whole.strategies, index)))).words)
    assert not re.search(r"\bnan\b", words)
    assert ("Sharpe, held out n/a" in " ".join(words.split())) == (rows == 1)
